/*
 * api.c: the table of endpoints, access control, and the worker threads.
 *
 * Every request takes the same path: draining? key? then either an immediate answer or the queue. A
 * new endpoint is a row in the table. It needs a key unless the row says otherwise;
 * tests/serve/api_test.c checks this for the whole table.
 */
#include "serve/api.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "serve/api_impl.h"
#include "serve/baseline.h"
#include "serve/shelf.h"
#include "serve/stored.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "models/pool.h"

enum {
    PATH_SHOWN_MAX = 100, /* of an unknown endpoint, in its error */
    WORKERS_DEFAULT = 2,
    QUEUE_DEFAULT = 256,
    KEEPALIVE_MS_DEFAULT = 8000,
    LOAD_MS_DEFAULT = 5 * 60 * 1000,
    RETRY_AFTER_S = 2,
    SHOW_BYTES_MAX = 16 * 1024 * 1024,
    GENS_MAX = 1024,     /* of a model, shown at a time */
    RELOADS_MAX = 10000, /* of keys: the previous sets are kept until the end */
};

/* between two checks of a load balancer, at most */
#define CHECKS_NS (10 * NS_PER_S)

#define SLOTS_BYTES_MAX ((size_t)256 * 1024 * 1024)

/* ---- endpoints ---- */

#define GET(path, name)                HTTP_METHOD_GET, path, name
#define POST(path, name)               HTTP_METHOD_POST, path, name
#define OLLAMA(...)                    __VA_ARGS__, &dialect_ollama
#define GENERATE(path, name, dialect_) POST(path, name), &dialect_, .work = call_generate
#define EMBED(path, name, dialect_)    POST(path, name), &dialect_, .work = call_embed

static const struct endpoint api_endpoints[] = {
    {GENERATE("/v1/chat/completions", "chat", dialect_openai_chat)},
    {GENERATE("/chat/completions", "chat", dialect_openai_chat)},
    {GENERATE("/v1/completions", "completions", dialect_openai_completions)},
    {GENERATE("/v1/responses", "responses", dialect_openai_responses)},
    {GENERATE("/v1/responses/compact", "compact", dialect_openai_compact)},
    {GENERATE("/responses", "responses", dialect_openai_responses)},
    {POST("/v1/chat/completions/input_tokens", "input_tokens"), .dialect = &dialect_openai_chat,
     .answer = endpoint_input_tokens},
    {POST("/v1/responses/input_tokens", "input_tokens"), .dialect = &dialect_openai_responses,
     .answer = endpoint_input_tokens},
    {GET("/v1/responses/{id}", "responses"), .plain = true, .answer = endpoint_response},
    {HTTP_METHOD_DELETE, "/v1/responses/{id}", "responses", .plain = true,
     .answer = endpoint_response_delete},
    {GET("/v1/responses/{id}/input_items", "responses"), .plain = true,
     .answer = endpoint_response_items},
    {GENERATE("/v1/messages", "messages", dialect_anthropic_messages)},
    {POST("/v1/messages/count_tokens", "count_tokens"), .dialect = &dialect_anthropic_count,
     .answer = endpoint_count_tokens},
    {GENERATE("/completion", "completion", dialect_llama_completion)},
    {GENERATE("/completions", "completion", dialect_llama_completion)},
    {GENERATE("/infill", "infill", dialect_llama_infill)},
    {GENERATE("/api/chat", "ollama_chat", dialect_ollama_chat)},
    {GENERATE("/api/generate", "ollama_generate", dialect_ollama_generate)},
    {OLLAMA(POST("/api/show", "ollama_show")), .plain = true, .answer = endpoint_ollama_show},
    {OLLAMA(GET("/api/tags", "ollama_tags")), .plain = true, .answer = endpoint_ollama_tags},
    {OLLAMA(GET("/api/ps", "ollama_ps")), .show = endpoint_ollama_ps},
    {EMBED("/api/embed", "ollama_embed", dialect_ollama_embed)},
    {EMBED("/api/embeddings", "ollama_embed", dialect_ollama_embed)},
    {OLLAMA(POST("/api/pull", "ollama_pull")), .show = endpoint_ollama_refuse},
    {OLLAMA(POST("/api/push", "ollama_push")), .show = endpoint_ollama_refuse},
    {OLLAMA(POST("/api/create", "ollama_create")), .show = endpoint_ollama_refuse},
    {OLLAMA(POST("/api/copy", "ollama_copy")), .show = endpoint_ollama_refuse},
    {HTTP_METHOD_DELETE, OLLAMA("/api/delete", "ollama_delete"), .show = endpoint_ollama_refuse},
    {EMBED("/v1/embeddings", "embeddings", dialect_openai_embeddings)},
    {EMBED("/embedding", "embedding", dialect_llama_embedding)},
    {EMBED("/embeddings", "embedding", dialect_llama_embedding)},
    {EMBED("/v1/rerank", "rerank", dialect_rerank)},
    {EMBED("/rerank", "rerank", dialect_rerank)},
    {EMBED("/v2/rerank", "rerank", dialect_rerank)},
    {EMBED("/reranking", "rerank", dialect_rerank)},
    {EMBED("/v1/reranking", "rerank", dialect_rerank)},
    {EMBED("/v1/score", "score", dialect_score)},
    {EMBED("/score", "score", dialect_score)},
    {POST("/tokenize", "tokenize"), .answer = endpoint_tokenize},
    {POST("/detokenize", "detokenize"), .answer = endpoint_detokenize},
    {POST("/apply-template", "apply_template"), .dialect = &dialect_openai_chat,
     .answer = endpoint_apply_template},
    {GET("/v1/models", "models"), .show = endpoint_models},
    {GET("/models", "models"), .show = endpoint_models},
    {GET("/v1/models/{id...}", "models"), .show = endpoint_model},
    {POST("/v1/models/{id...}", "models"), .admin = true, .show = endpoint_model_change},
    {GET("/props", "props"), .show = endpoint_props},
    {GET("/slots", "slots"), .now = endpoint_slots},
    {POST("/slots/{id}", "slots"), &dialect_llama_slots, .bodiless = true,
     .answer = endpoint_slot_action},
    {GET("/lora-adapters", "lora_adapters"), .now = endpoint_lora},
    {POST("/lora-adapters", "lora_adapters"), .admin = true, .now = endpoint_lora_change},
    {GET("/health", "health"), .open = true, .any_host = true, .now = endpoint_health},
    {GET("/v1/health", "health"), .open = true, .any_host = true, .now = endpoint_health},
    {GET("/ready", "ready"), .open = true, .any_host = true, .now = endpoint_ready},
    {GET("/version", "version"), .open = true, .show = endpoint_version},
    {OLLAMA(GET("/api/version", "ollama_version")), .open = true, .show = endpoint_ollama_version},
    {GET("/", "root"), .open = true, .now = endpoint_home},
    {GET("/ui", "ui"), .open = true, .now = endpoint_page},
    {GET("/ui/{file...}", "ui"), .open = true, .now = endpoint_page},
};

const struct dialect *api_dialect(const struct endpoint *endpoint)
{
    return endpoint->dialect ? endpoint->dialect : &dialect_openai_chat;
}

/* ---- what endpoints ask ---- */

bool api_is_draining(const struct api *api)
{
    /* Relaxed: a flag that is only ever set; a concurrent request may see either value. */
    return atomic_load_explicit(&api->draining, memory_order_relaxed);
}

void api_set_pool(struct api *api, struct pool *pool)
{
    /* Release: a thread that sees the pool sees all of it. */
    atomic_store_explicit(&api->pool, pool, memory_order_release);
}

struct pool *api_pool(struct api *api, struct api_error *error)
{
    struct pool *pool = atomic_load_explicit(&api->pool, memory_order_acquire);

    if (!pool && error) {
        api_error_set(error, API_ERROR_UNAVAILABLE, NULL, "Loading model");
        error->retry_after_s = RETRY_AFTER_S;
    }
    return pool;
}

int64_t api_local_time(const struct api *api)
{
    time_t now = (time_t)(clock_wall_ns(api->clock) / NS_PER_S);
    struct tm local;

    return localtime_r(&now, &local) ? (int64_t)now + local.tm_gmtoff : (int64_t)now;
}

static bool find_caller(struct api *api, uint64_t gen, struct api_caller *caller)
{
    bool found = false;

    lock_enter(&api->lock);
    LIST_FOREACH (struct call, call, &api->calls, link) {
        if (!call_has_gen(call, gen))
            continue;
        memcpy(caller->request_id, call->request_id, sizeof(caller->request_id));
        memcpy(caller->who, call->who, sizeof(caller->who));
        caller->slot = gen == call->first_id ? call->request.slot : -1;
        found = true;
        break;
    }
    lock_leave(&api->lock);
    return found;
}

void api_each_gen(struct api *api, struct pool *pool,
                  void (*fn)(const struct api_gen *gen, void *arg), void *arg)
{
    struct sched_view *views = mem_alloc_array(GENS_MAX, sizeof(*views));
    struct model *model;

    for (size_t i = 0; (model = pool_next(pool, &i));) {
        size_t count = MIN(sched_views(model_sched(model), views, GENS_MAX), GENS_MAX);

        for (size_t k = 0; k < count; k++) {
            struct api_gen gen = {.view = &views[k], .model = model_name(model)};

            /* A generation that is finished but for its last bytes is not shown: its scheduler has
             * not noticed yet. */
            if (find_caller(api, views[k].id, &gen.caller))
                fn(&gen, arg);
        }
        pool_unpeek(pool, model);
    }
    mem_free(views);
}

/* ---- a request comes in ---- */

/* Random: a counter would tell every caller how many requests the others send. */
static void make_request_id(char id[RESPOND_ID_BYTES])
{
    uint64_t number;

    hash_random(&number, sizeof(number));
    snprintf(id, RESPOND_ID_BYTES, "req_%016" PRIx64, number);
}

void loop_respond(const struct loop_request *req, struct buf *body)
{
    respond_json(req->reply, 200, req->request_id, body);
    buf_fini(body);
}

void loop_fail(const struct loop_request *req, const struct api_error *error)
{
    respond_error(req->reply, api_dialect(req->endpoint), error, req->request_id);
}

static void refuse(const struct loop_request *req, enum api_error_kind kind, const char *message)
{
    struct api_error error = {0};

    api_error_set(&error, kind, NULL, "%s", message);
    if (kind == API_ERROR_UNAVAILABLE)
        error.retry_after_s = RETRY_AFTER_S;
    loop_fail(req, &error);
    if (req->api->options.observer.refused)
        req->api->options.observer.refused(kind, req->api->options.observer.arg);
}

static struct str header(const struct http_request *request, const char *name)
{
    struct str value;

    return http_request_header(request, str_from(name), &value) ? value : STR_NONE;
}

/* Checks the key, unless the endpoint is open. */
static enum http_problem check_key(struct api *api, const struct endpoint *endpoint,
                                   const struct http_request *request, struct auth_result *auth)
{
    *auth =
        auth_check(api_auth(api), header(request, "authorization"), header(request, "x-api-key"));
    if (endpoint->open || (endpoint->metrics && api->options.public_metrics))
        return HTTP_PROBLEM_NONE;
    if (auth->verdict != AUTH_OK)
        return auth->verdict == AUTH_MISSING ? HTTP_PROBLEM_KEY_MISSING : HTTP_PROBLEM_KEY_WRONG;
    return endpoint->admin && !auth->admin ? HTTP_PROBLEM_KEY_ADMIN : HTTP_PROBLEM_NONE;
}

static enum api_error_kind kind_of_key(enum http_problem problem)
{
    return problem == HTTP_PROBLEM_KEY_ADMIN ? API_ERROR_PERMISSION : API_ERROR_AUTH;
}

static bool is_allowed(struct loop_request *req)
{
    enum http_problem problem = check_key(req->api, req->endpoint, req->request, &req->auth);

    if (problem != HTTP_PROBLEM_NONE)
        refuse(req, kind_of_key(problem), http_problem_sentence(problem));
    return problem == HTTP_PROBLEM_NONE;
}

bool api_http_any_host(const struct http_request *request)
{
    const struct api_route *route = request->route->arg;
    struct auth_result auth;

    if (route->endpoint->any_host)
        return true;
    (void)check_key(route->api, route->endpoint, request, &auth);
    return auth.verdict == AUTH_OK && auth.who[0] != '\0'; /* a key, and not the lack of any */
}

enum http_problem api_http_check(const struct http_request *request)
{
    const struct api_route *route = request->route != NULL ? request->route->arg : NULL;
    struct auth_result auth;

    if (route == NULL)
        return HTTP_PROBLEM_NONE;
    const struct call_observer *observer = &route->api->options.observer;
    enum http_problem problem = check_key(route->api, route->endpoint, request, &auth);
    if (problem != HTTP_PROBLEM_NONE && observer->refused)
        observer->refused(kind_of_key(problem), observer->arg);
    return problem;
}

/* A check against cross-site request forgery: any page in a browser may post plain text without a
 * preflight request, but not JSON. So a POST with an Origin must be JSON. */
static bool has_json_type(const struct loop_request *req)
{
    struct str type = header(req->request, "content-type"), origin = header(req->request, "origin");
    static const struct str json = STR("application/json");

    if (req->endpoint->method != HTTP_METHOD_POST || !origin.ptr)
        return true;
    if (type.len >= json.len && str_eq_nocase((struct str){type.ptr, json.len}, json))
        return true;
    refuse(req, API_ERROR_INVALID, "The content type must be application/json.");
    return false;
}

/* As JSON, a compressed body would get an error that does not say what to change. */
static bool has_plain_body(const struct loop_request *req)
{
    struct str encoding = header(req->request, "content-encoding");

    if (req->endpoint->method != HTTP_METHOD_POST || encoding.len == 0 ||
        str_eq_nocase(encoding, STR("identity")))
        return true;
    refuse(req, API_ERROR_UNSUPPORTED,
           "Compressed bodies are not supported: send the JSON without Content-Encoding.");
    return false;
}

static void enqueue(const struct loop_request *req, struct http_request *request)
{
    struct api *api = req->api;

    if (api_is_draining(api)) {
        refuse(req, API_ERROR_UNAVAILABLE, "The server is shutting down.");
        return;
    }
    struct call *call = call_create(api, req->endpoint, request, req->reply, &req->auth);
    memcpy(call->request_id, req->request_id, RESPOND_ID_BYTES);
    if (!call_enqueue(call))
        call_refuse(call);
}

static void show(const struct loop_request *req)
{
    struct api_error error = {0};
    struct buf body;
    struct json json = json_begin(&body, SHOW_BYTES_MAX, '{');

    if (req->endpoint->show(req, &json, &error) == ERR_OK) {
        json_close(&json, '}');
        respond_json(req->reply, 200, req->request_id, &body);
    } else {
        loop_fail(req, &error);
    }
    buf_fini(&body);
}

static void handle(struct http_request *request, struct http_reply *reply, void *arg)
{
    const struct api_route *route = arg;
    char id[RESPOND_ID_BYTES] = "";
    struct loop_request req = {
        .api = route->api,
        .endpoint = route->endpoint,
        .request = request,
        .reply = reply,
        .request_id = id,
    };

    make_request_id(id);
    if (!is_allowed(&req) || !has_json_type(&req) || !has_plain_body(&req))
        return;
    if (req.endpoint->now)
        req.endpoint->now(&req);
    else if (req.endpoint->show)
        show(&req);
    else
        enqueue(&req, request);
}

/* ---- what http refuses by itself ---- */

static enum api_error_kind kind_of_status(int status)
{
    for (int kind = API_OK + 1; kind < API_ERROR_COUNT; kind++)
        if ((int)api_error_status((enum api_error_kind)kind) == status)
            return (enum api_error_kind)kind;
    return status < 500 ? API_ERROR_INVALID : API_ERROR_SERVER;
}

static const struct dialect *dialect_of_path(struct str path)
{
    if (str_eq(path, STR("/v1/messages")) || str_starts(path, STR("/v1/messages/")))
        return &dialect_anthropic_messages;
    return str_starts(path, STR("/api/")) ? &dialect_ollama : &dialect_openai_chat;
}

void api_http_error(enum http_problem problem, const struct http_request *request,
                    char id[HTTP_ID_BYTES], struct buf *body, void *arg)
{
    struct str path = request != NULL ? request->path : STR_NONE;
    const struct api_route *route =
        request != NULL && request->route != NULL ? request->route->arg : NULL;
    const struct dialect *dialect =
        route != NULL ? api_dialect(route->endpoint) : dialect_of_path(path);
    struct api_error error = {0};

    (void)arg;
    if (problem == HTTP_PROBLEM_NO_PATH)
        api_error_set(&error, API_ERROR_NOT_FOUND, NULL,
                      "Unknown endpoint %.*s. Prompts go to /v1/chat/completions, "
                      "/v1/completions, /v1/responses, /v1/messages or /api/chat; docs/api.md "
                      "lists all.",
                      (int)MIN(path.len, PATH_SHOWN_MAX), path.ptr);
    else
        api_error_set(&error, kind_of_status(http_problem_status(problem)), NULL, "%s",
                      http_problem_sentence(problem));
    /* a wrong key looks the same with and without a body */
    if (http_problem_status(problem) != 401 && problem != HTTP_PROBLEM_KEY_ADMIN)
        error.code = http_problem_name(problem);
    make_request_id(id);
    dialect->error(&error, id, body);
}

/* ---- keys ---- */

const struct auth *api_auth(const struct api *api)
{
    /* Acquire: sees everything that api_reload_keys built. */
    return atomic_load_explicit(&((struct api *)api)->auth, memory_order_acquire);
}

static void destroy_keys(struct api *api)
{
    struct auth *auth = atomic_load_explicit(&api->auth, memory_order_relaxed);

    auth_destroy(&auth);
    for (size_t i = 0; i < api->retired_count; i++)
        auth_destroy(&api->retired[i]);
    mem_free(api->retired);
}

enum err api_reload_keys(struct api *api, struct errinfo *info)
{
    struct auth *auth;

    if (api->retired_count >= RELOADS_MAX)
        return err_set(info, ERR_LIMIT, "the keys were read %d times; restart the server",
                       RELOADS_MAX);
    /* a file without keys fails: it would open the server to everyone */
    TRY(auth_create(&auth, &api->options.auth, info));
    struct auth **retired =
        mem_try_realloc(api->retired, (api->retired_count + 1) * sizeof(*retired));
    if (retired == NULL) {
        auth_destroy(&auth);
        return err_set(info, ERR_NOMEM, "no memory for API keys");
    }
    api->retired = retired;
    api->retired[api->retired_count++] =
        atomic_exchange_explicit(&api->auth, auth, memory_order_acq_rel);
    return ERR_OK;
}

/* ---- life ---- */

static void work(void *arg)
{
    struct list_node *node;

    while ((node = turns_pop(arg)))
        call_run(CONTAINER_OF(node, struct call, waiting));
}

static void add_routes(struct api *api, const struct endpoint *endpoints, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = api->routes_count++;

        assert(!!endpoints[i].now + !!endpoints[i].show + !!endpoints[i].work +
                   !!endpoints[i].answer ==
               1);
        api->route_args[at] = (struct api_route){api, &endpoints[i]};
        api->routes[at] = (struct http_route){
            .method = endpoints[i].method,
            .path = endpoints[i].path,
            .handler = handle,
            .arg = &api->route_args[at],
            .flags = endpoints[i].admin ? HTTP_ROUTE_NAMED_ORIGINS : 0,
        };
    }
}

static void make_routes(struct api *api)
{
    size_t count = COUNT_OF(api_endpoints) + api->options.endpoints_count;

    api->routes = mem_alloc_array(count, sizeof(*api->routes));
    api->route_args = mem_alloc_array(count, sizeof(*api->route_args));
    add_routes(api, api_endpoints, COUNT_OF(api_endpoints));
    add_routes(api, api->options.endpoints, api->options.endpoints_count);
}

unsigned api_queue_max(const struct api_options *options)
{
    return MIN(options->queue > 0 ? options->queue : QUEUE_DEFAULT, API_QUEUE_MAX);
}

static void set_defaults(struct api *api, const struct api_options *options)
{
    api->options = *options;
    api->clock = options->clock ? options->clock : clock_real();
    api->sample = options->sample ? *options->sample : sample_params_default();
    api->options.queue = api_queue_max(options);
    if (api->options.workers == 0)
        api->options.workers = WORKERS_DEFAULT;
    api->options.workers = MIN(api->options.workers, API_WORKERS_MAX);
    if (api->options.request_bytes_max == 0)
        api->options.request_bytes_max = API_REQUEST_BYTES;
    if (api->options.keepalive_ms == 0)
        api->options.keepalive_ms = KEEPALIVE_MS_DEFAULT;
    if (api->options.load_ms == 0)
        api->options.load_ms = LOAD_MS_DEFAULT;
    if (api->options.version == NULL)
        api->options.version = "unknown";
    if (api->options.commit == NULL)
        api->options.commit = "unknown";
}

static enum err start_workers(struct api *api, struct errinfo *info)
{
    for (uint32_t i = 0; i < api->options.workers; i++) {
        TRY(thread_start(&api->workers[i], "api", work, api->queue, info));
        api->workers_count++;
    }
    TRY(thread_start(&api->large_worker, "api-large", work, api->large, info));
    /* so that a disk read that takes minutes never delays rendering a request */
    return thread_start(&api->slow_worker, "api-slow", work, api->slow, info);
}

enum err api_create(struct api **out, const struct api_options *options, struct errinfo *info)
{
    struct api *api = mem_alloc(sizeof(*api));
    struct auth *auth;

    *out = NULL;
    set_defaults(api, options);
    atomic_init(&api->pool, NULL);
    atomic_init(&api->next_gen, 1);
    atomic_init(&api->queue_max, api->options.queue);
    lock_init(&api->lock, "api", LOCK_RANK_API);
    cond_init(&api->calls_gone);
    list_init(&api->calls);
    make_routes(api);
    api->queue = turns_create("api");
    api->slow = turns_create("api-slow");
    api->large = turns_create("api-large");
    api->baselines = baseline_create(api->clock);
    api->abouts = endpoint_ollama_create_abouts();
    enum err err = auth_create(&auth, &options->auth, info);
    atomic_store_explicit(&api->auth, auth, memory_order_relaxed); /* before any thread starts */
    if (err == ERR_OK)
        err = call_ends_create(&api->ends, info);
    if (err == ERR_OK)
        err = start_workers(api, info);
    if (err != ERR_OK) {
        api_destroy(&api);
        return err;
    }
    *out = api;
    return ERR_OK;
}

const struct http_route *api_routes(const struct api *api, size_t *count)
{
    *count = api->routes_count;
    return api->routes;
}

static void cancel_all(struct api *api)
{
    lock_enter(&api->lock);
    LIST_FOREACH (struct call, call, &api->calls, link)
        call_cancel(call);
    lock_leave(&api->lock);
}

/* False: some are left at the deadline. */
static bool wait_for_calls(struct api *api, uint64_t deadline_ns)
{
    bool in_time = true;

    lock_enter(&api->lock);
    while (api->calls_alive > 0 && in_time)
        in_time = cond_wait_until(&api->calls_gone, &api->lock, deadline_ns);
    in_time = api->calls_alive == 0;
    lock_leave(&api->lock);
    return in_time;
}

bool api_announce_end(struct api *api)
{
    uint64_t last = atomic_load_explicit(&api->checked_ns, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&api->checked_before_ns, memory_order_relaxed);

    atomic_store_explicit(&api->leaving, true, memory_order_relaxed);
    return before > 0 && last - before <= CHECKS_NS &&
           clock_mono_ns(api->clock) - last <= CHECKS_NS;
}

unsigned api_announced(const struct api *api)
{
    return atomic_load_explicit(&((struct api *)api)->told, memory_order_relaxed);
}

bool api_drain(struct api *api, uint64_t timeout_ms)
{
    uint64_t timeout_ns = MIN(timeout_ms, UINT64_MAX / NS_PER_MS) * NS_PER_MS;

    atomic_store_explicit(&api->draining, true, memory_order_relaxed);
    if (wait_for_calls(api, clock_deadline_ns(clock_real(), timeout_ns)))
        return true;
    cancel_all(api);
    (void)wait_for_calls(api, UINT64_MAX);
    return false;
}

void api_destroy(struct api **out)
{
    struct api *api = *out;

    if (!api)
        return;
    atomic_store_explicit(&api->draining, true, memory_order_relaxed);
    cancel_all(api);
    turns_close(api->queue);
    turns_close(api->slow);
    turns_close(api->large);
    thread_join(&api->slow_worker);
    thread_join(&api->large_worker);
    for (uint32_t i = 0; i < api->workers_count; i++)
        thread_join(&api->workers[i]);
    (void)wait_for_calls(api, UINT64_MAX);
    call_ends_destroy(&api->ends);
    turns_destroy(&api->queue);
    turns_destroy(&api->slow);
    turns_destroy(&api->large);
    destroy_keys(api);
    shelf_destroy(&api->baselines);
    shelf_destroy(&api->abouts);
    list_check(&api->calls);
    cond_fini(&api->calls_gone);
    lock_fini(&api->lock);
    mem_free(api->routes);
    mem_free(api->route_args);
    mem_free(api);
    *out = NULL;
}
