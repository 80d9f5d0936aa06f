#include "support/api_kit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "chat/neutral.h"
#include "chat/recall.h"
#include "support/models.h"
#include "support/test.h"

enum { METRIC_WAIT_S = 60 };

/* ---- the gate ---- */

static void at_gate(struct engine *engine, void *arg)
{
    struct api_kit_gate *gate = arg;

    (void)engine;
    lock_enter(&gate->lock);
    gate->waiting++;
    cond_broadcast(&gate->changed);
    while (gate->closed)
        cond_wait(&gate->changed, &gate->lock);
    gate->waiting--;
    gate->passed++;
    lock_leave(&gate->lock);
}

static void picture_at_gate(void *arg)
{
    at_gate(NULL, arg);
}

static void set_gate(struct api_kit *kit, bool closed)
{
    lock_enter(&kit->gate.lock);
    kit->gate.closed = closed;
    cond_broadcast(&kit->gate.changed);
    lock_leave(&kit->gate.lock);
}

void api_kit_gate_open(struct api_kit *kit)
{
    set_gate(kit, false);
}

void api_kit_gate_close(struct api_kit *kit)
{
    set_gate(kit, true);
}

void api_kit_gate_wait(struct api_kit *kit)
{
    lock_enter(&kit->gate.lock);
    while (kit->gate.waiting == 0)
        cond_wait(&kit->gate.changed, &kit->gate.lock);
    lock_leave(&kit->gate.lock);
}

/* ---- the server ---- */

static void open_cache(struct api_kit *kit, uint64_t ram_bytes)
{
    struct hearth_options options = {.struct_size = sizeof(options),
                                     .ram_bytes = ram_bytes,
                                     .block_tokens = 16,
                                     .run_tokens = 64};

    if (ram_bytes > 0)
        assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
}

static void open_model(struct api_kit *kit, const struct api_kit_options *options)
{
    struct model_options model = {
        .name = options->name ? options->name : "fake",
        .template_text = options->template_text,
        .cache = kit->cache,
        .tokens_cache_bytes = options->tokens_bytes,
        .sched = options->sched,
        .clock = options->sched.clock != NULL ? options->sched.clock : clock_real(),
        .log = options->api.log,
    };
    struct engine_fake_options fake = options->fake;
    struct errinfo info = {0};

    fake.on_piece = at_gate;
    fake.on_picture = picture_at_gate;
    fake.arg = &kit->gate;
    if (options->family)
        model.engine = test_engine(options->family, options->engine);
    else if (options->worker)
        assert_ok(fake_worker_load(&model.engine, &options->fake, options->worker, &info));
    else
        assert_ok(engine_fake_create(&model.engine, &fake, &info));
    if (model_open(&kit->model, &model, &info) != ERR_OK)
        fail_msg("model: %s", info.text);
}

static enum err inspect_nothing(const struct pool_spec *spec, bool quick, struct model_file *file,
                                struct errinfo *info, void *arg)
{
    (void)spec;
    (void)quick;
    (void)info;
    (void)arg;
    *file = (struct model_file){0};
    return ERR_OK;
}

/* The one model that is there already. */
static enum err load_own(const struct pool_spec *spec, bool warm,
                         bool (*progress)(float done, void *arg), void *progress_arg,
                         struct model **model, struct errinfo *info, void *arg)
{
    struct api_kit *kit = arg;

    (void)spec;
    (void)warm;
    (void)progress;
    (void)progress_arg;
    (void)info;
    *model = kit->model;
    return ERR_OK;
}

static void open_pool(struct api_kit *kit)
{
    struct pool_options options = {.ops = {inspect_nothing, load_own, kit}};
    struct pool_spec spec = {.name = model_name(kit->model), .path = "none", .pinned = true};

    assert_ok(pool_create(&kit->pool, &options, NULL));
    assert_ok(pool_add(kit->pool, &spec, NULL));
    assert_ok(pool_load(kit->pool, str_from(spec.name), NULL));
    assert_ok(pool_wait_ready(kit->pool, str_from(spec.name), NULL));
}

static void open_server(struct api_kit *kit, const struct http_limits *limits)
{
    struct http_options options = {.any_host = api_http_any_host,
                                   .check = api_http_check,
                                   .error_body = api_http_error,
                                   .tick_ms = 5,
                                   .limits = *limits};
    const struct http_route *routes;
    struct errinfo info = {0};
    size_t count;

    routes = api_routes(kit->api, &count);
    if (http_server_start(&options, routes, count, &kit->server, &info) != ERR_OK)
        fail_msg("server: %s", info.text);
    kit->port = http_server_port(kit->server);
    admin_set_http_metrics(kit->admin, http_server_metrics(kit->server));
}

void api_kit_open(struct api_kit *kit, const struct api_kit_options *options)
{
    struct api_options api = options->api;

    memset(kit, 0, sizeof(*kit));
    lock_init(&kit->gate.lock, "gate", LOCK_RANK_TEST_HIGH);
    cond_init(&kit->gate.changed);
    kit->gate.closed = options->gate_closed;
    open_cache(kit, options->ram_bytes);
    kit->pool = options->pool;
    if (!kit->pool) {
        open_model(kit, options);
        open_pool(kit);
    }
    if (options->prompts) {
        api.neutral = kit->neutral = neutral_create();
        api.recall = kit->recall =
            recall_create(&(struct recall_options){.bytes_max = options->recall_bytes});
    }
    api.cache = kit->cache;
    assert_ok(admin_create(&kit->admin, &options->admin, &api, NULL));
    assert_ok(api_create(&kit->api, &api, NULL));
    if (!options->loading)
        api_kit_load(kit);
    open_server(kit, &options->limits);
}

void api_kit_load(struct api_kit *kit)
{
    admin_set_pool(kit->admin, kit->pool);
    api_set_pool(kit->api, kit->pool);
}

void api_kit_close(struct api_kit *kit)
{
    api_kit_gate_open(kit);
    http_server_stop(&kit->server);
    api_destroy(&kit->api);
    admin_destroy(&kit->admin);
    pool_destroy(&kit->pool);
    if (kit->cache)
        hearth_close(&kit->cache);
    neutral_destroy(&kit->neutral);
    recall_destroy(&kit->recall);
    cond_fini(&kit->gate.changed);
    lock_fini(&kit->gate.lock);
}

/* ---- clients ---- */

void api_kit_ask(struct api_kit *kit, const char *method, const char *path, const char *headers,
                 const char *body, struct http_answer *answer)
{
    struct http_client client;

    http_client_connect(&client, kit->port);
    http_client_request(&client, method, path, headers ? headers : "", str_from(body));
    if (!http_client_answer(&client, strcmp(method, "HEAD") == 0, answer, NULL))
        fail_msg("%s %s: no answer", method, path);
    http_client_close(&client);
}

int api_kit_ask_plainly(struct api_kit *kit, const char *method, const char *path, const char *body)
{
    static char text[1 << 18];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kit->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    size_t len = 0;
    ssize_t got;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    snprintf(
        text, sizeof(text),
        "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        method, path, strlen(body), body);
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
    while (len < sizeof(text) - 1 && (got = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    close(fd);
    return strncmp(text, "HTTP/1.1 ", 9) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
}

void api_kit_send(struct api_kit *kit, struct http_client *client, const char *path,
                  const char *body)
{
    http_client_connect(client, kit->port);
    http_client_request(client, "POST", path, "", str_from(body));
}

static yyjson_doc *ask_json(struct api_kit *kit, const char *method, const char *path,
                            const char *body, int status)
{
    struct http_answer answer;
    yyjson_doc *doc;

    api_kit_ask(kit, method, path, NULL, body, &answer);
    if (answer.status != status)
        fail_msg("%s %s gave %d: %s", method, path, answer.status, buf_str(&answer.body));
    doc = yyjson_read(buf_str(&answer.body), answer.body.len, 0);
    if (!doc)
        fail_msg("%s %s: no JSON: %s", method, path, buf_str(&answer.body));
    http_answer_fini(&answer);
    return doc;
}

yyjson_doc *api_kit_post(struct api_kit *kit, const char *path, const char *body, int status)
{
    return ask_json(kit, "POST", path, body, status);
}

yyjson_doc *api_kit_get(struct api_kit *kit, const char *path, int status)
{
    return ask_json(kit, "GET", path, NULL, status);
}

const char *json_at(yyjson_doc *doc, const char *pointer)
{
    const char *text = yyjson_get_str(yyjson_doc_ptr_get(doc, pointer));

    return text ? text : "";
}

uint64_t json_number_at(yyjson_doc *doc, const char *pointer)
{
    return yyjson_get_uint(yyjson_doc_ptr_get(doc, pointer));
}

double api_kit_metric(struct api_kit *kit, const char *name)
{
    struct http_answer answer;
    const char *at;
    double value = -1;
    size_t len = strlen(name);

    api_kit_ask(kit, "GET", "/metrics", NULL, NULL, &answer);
    for (at = strstr(buf_str(&answer.body), name); at; at = strstr(at + 1, name))
        if ((at == answer.body.data || at[-1] == '\n') && at[len] == ' ')
            value = strtod(at + len, NULL);
    http_answer_fini(&answer);
    return value;
}

void api_kit_wait_metric(struct api_kit *kit, const char *name, double value)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), METRIC_WAIT_S * NS_PER_S);

    while (api_kit_metric(kit, name) != value) {
        if (clock_mono_ns(clock_real()) > deadline_ns)
            fail_msg("%s never was %g", name, value);
        clock_sleep_ns(clock_real(), NS_PER_MS); /* not to keep the machine busy with asking */
    }
}
