/*
 * structure_test.c: random requests by structure, to every endpoint: fields that the server knows,
 * also where they mean nothing, with values that fit or not. Endpoints and fields are those of the
 * source.
 *
 * Whatever is sent, a whole answer comes and is no failure of the server's, and a good request is
 * answered after each batch. Four servers: a dense model, one that sees, one in its own process, and
 * one that makes embeddings. The seed is printed; HEARTH_MALFORMED_N sets how many each gets
 * (300; `make malformed` sends 100,000).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/projector.h"
#include "serve/api_impl.h"
#include "support/api_fields.h"
#include "support/api_kit.h"
#include "support/broken_http.h"
#include "support/http_client.h"
#include "support/models.h"
#include "support/random_json.h"
#include "support/scenario.h"
#include "support/test.h"

enum { BATCH = 50, ROUTES_MAX = 128 };

struct target {
    const char *method, *path;
};

struct campaign {
    struct scenario scenario;
    struct target targets[ROUTES_MAX];
    size_t count;
    struct api_fields fields;
    const char *canary, *canary_body;
    struct http_client client; /* stays open from request to request */
    bool connected;
};

/* These change what the server is, or never end; tests/admin has the first two. */
static bool is_left_out(const char *path)
{
    static const char *const left_out[] = {"/admin/settings", "/admin/models/quantize",
                                           "/admin/events", "/admin/cache/export"};

    for (size_t i = 0; i < COUNT_OF(left_out); i++)
        if (strcmp(path, left_out[i]) == 0)
            return true;
    return false;
}

/* All that a server has, by its own table. */
static void list_targets(struct campaign *campaign)
{
    struct api_kit kit;

    api_kit_open(&kit, &(struct api_kit_options){0});
    for (size_t i = 0; i < kit.api->routes_count; i++) {
        const struct endpoint *endpoint = kit.api->route_args[i].endpoint;
        if (is_left_out(endpoint->path))
            continue;
        assert_true(campaign->count < ROUTES_MAX);
        campaign->targets[campaign->count++] =
            (struct target){http_method_name(endpoint->method), endpoint->path};
    }
    api_kit_close(&kit);
    assert_true(campaign->count > 40);
}

static void open_campaign(struct campaign *campaign, const char *family, const char *args)
{
    static const char *const folders[] = {"src/dialect", "src/serve", "src/admin"};

    list_targets(campaign);
    for (size_t i = 0; i < COUNT_OF(folders); i++)
        api_fields_add(&campaign->fields, folders[i]);
    scenario_open(&campaign->scenario, family, args);
}

/* A parameter of the path becomes one that may exist. */
static void write_path(const char *path, char *out, size_t size, uint64_t *seed)
{
    static const char *const names[] = {"0", "x", "7", "resp_0", "m/load", "m/unload"};
    size_t len = strcspn(path, "{");

    snprintf(out, size, "%.*s%s", (int)len, path,
             path[len] != '\0' ? names[test_random_below(seed, COUNT_OF(names))] : "");
}

static void disconnect(struct campaign *campaign)
{
    if (campaign->connected)
        http_client_close(&campaign->client);
    campaign->connected = false;
}

static void send_one(struct campaign *campaign, uint64_t *seed)
{
    const struct target *target = &campaign->targets[test_random_below(seed, campaign->count)];
    struct http_answer answer;
    char path[256];
    size_t len = 0;

    write_path(target->path, path, sizeof(path), seed);
    char *body = random_json_request(&campaign->fields, seed, &len);
    if (body == NULL)
        return;
    bool plain = strcmp(target->method, "POST") != 0;
    if (!campaign->connected)
        http_client_connect(&campaign->client, campaign->scenario.proc.port);
    campaign->connected = true;
    http_client_request(&campaign->client, target->method, path,
                        "Content-Type: application/json\r\n",
                        plain ? STR_NONE : (struct str){body, len});
    if (!http_client_answer(&campaign->client, false, &answer, NULL) || !answer.complete)
        fail_msg("no whole answer to %s %s %s", target->method, path, body);
    if (answer.status < 200 || answer.status == 500)
        fail_msg("%d (%s) to %s %s %s", answer.status, buf_str(&answer.body), target->method, path,
                 body);
    if (!answer.keep_alive)
        disconnect(campaign);
    http_answer_fini(&answer);
    free(body);
}

static void check_alive(const struct campaign *campaign)
{
    struct http_answer answer;

    serve_proc_ask(&campaign->scenario.proc, "POST", campaign->canary, campaign->canary_body,
                   &answer);
    if (answer.status != 200)
        fail_msg("%d (%s) to a good request", answer.status, buf_str(&answer.body));
    http_answer_fini(&answer);
}

static void run(const char *family, const char *args, const char *canary, const char *body)
{
    uint64_t seed = test_seed(), count = broken_http_count();
    static struct campaign campaign;

    campaign.canary = canary;
    campaign.canary_body = body;
    open_campaign(&campaign, family, args);
    for (uint64_t i = 0; i < count; i++) {
        send_one(&campaign, &seed);
        if (i % BATCH == BATCH - 1)
            check_alive(&campaign);
    }
    disconnect(&campaign);
    check_alive(&campaign);
    scenario_wait_idle(&campaign.scenario);
    serve_proc_stop(&campaign.scenario.proc);
}

#define SMALL    "-c 256 --ram-cache 4MiB --parallel 2 "
#define CHAT     "/v1/chat/completions"
#define CHAT_HI  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":1}"
#define VECTOR   "/v1/embeddings"
#define VECTOR_X "{\"input\":\"x\"}"

static void test_dense(void **state)
{
    (void)state;
    run("qwen3", SMALL, CHAT, CHAT_HI);
}

static void test_sees(void **state)
{
    char args[1024];

    (void)state;
    if (!projector_available())
        TEST_SKIP("this build of llama.cpp has no libmtmd");
    snprintf(args, sizeof(args), SMALL "--mmproj %s", test_model("mmproj-mlp"));
    run("llama", args, CHAT, CHAT_HI);
}

static void test_isolated(void **state)
{
    (void)state;
    run("qwen3", SMALL "--isolate", CHAT, CHAT_HI);
}

static void test_embeddings(void **state)
{
    (void)state;
    run("bert", "--parallel 2", VECTOR, VECTOR_X);
}

TEST_SUITE(TEST(test_dense), TEST(test_sees), TEST(test_isolated), TEST(test_embeddings))
