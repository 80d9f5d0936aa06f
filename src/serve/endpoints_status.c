/*
 * endpoints_status.c: server status: health, readiness, version, running generations.
 *
 * All are answered on the loop thread and use no engine, so they stay accurate while the engine's
 * thread is busy or stuck.
 */
#include "serve/api_impl.h"

#include <hearth/hearth.h>

#include <stdio.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "models/pool.h"

enum { BODY_BYTES_MAX = 4 * 1024 * 1024 };

/* The texts are those of llama-server: probes and clients look for them. */
static void respond_state(const struct loop_request *req, int status, const char *text)
{
    struct buf body;

    buf_init(&body, BODY_BYTES_MAX);
    buf_append_str(&body, text);
    respond_json(req->reply, status, req->request_id, &body);
    buf_fini(&body);
}

#define STATE_OK "{\"status\":\"ok\"}"
/* The server is handling both (sched/watchdog.c, sched/revive.c): a supervisor should not restart it because of this
 * answer; load balancers use /ready. */
#define STATE_STALLED "{\"status\":\"degraded\",\"reason\":\"an engine computes nothing\"}"
#define STATE_DEAD    "{\"status\":\"degraded\",\"reason\":\"a model has no engine; it is restarted\"}"
#define STATE_LOADING \
    "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}"
#define STATE_DRAINING                                               \
    "{\"error\":{\"code\":503,\"message\":\"The server is shutting " \
    "down\",\"type\":\"unavailable_error\"}}"

static void respond_health(const struct loop_request *req, int degraded_status)
{
    struct api_error error = {0};
    struct pool *pool = api_pool(req->api, &error);
    bool needed;

    if (pool == NULL)
        respond_state(req, 503, STATE_LOADING);
    else if (pool_stalled(pool) > 0)
        respond_state(req, degraded_status, STATE_STALLED);
    else if (pool_dead(pool, &needed) > 0)
        respond_state(req, needed ? degraded_status : 200, STATE_DEAD);
    else
        respond_state(req, 200, STATE_OK);
}

void endpoint_health(const struct loop_request *req)
{
    respond_health(req, 200);
}

/* For load balancers: whether to send requests here. */
void endpoint_ready(const struct loop_request *req)
{
    struct api *api = req->api;
    uint64_t last =
        atomic_exchange_explicit(&api->checked_ns, clock_mono_ns(api->clock), memory_order_relaxed);

    atomic_store_explicit(&api->checked_before_ns, last, memory_order_relaxed);
    bool leaving = atomic_load_explicit(&api->leaving, memory_order_relaxed);
    if (leaving)
        atomic_fetch_add_explicit(&api->told, 1, memory_order_relaxed);
    if (leaving || api_is_draining(api))
        respond_state(req, 503, STATE_DRAINING);
    else
        respond_health(req, 503);
}

enum err endpoint_version(const struct loop_request *req, struct json *json,
                          struct api_error *error)
{
    (void)error;
    json_key_text(json, "name", "hearth");
    json_key_text(json, "version", req->api->options.version);
    json_key_text(json, "commit", req->api->options.commit);
    return ERR_OK;
}

/* For programs that check whether a server is running, and for people without a browser. */
void endpoint_root(const struct loop_request *req)
{
    struct buf body;
    struct json json = json_begin(&body, BODY_BYTES_MAX, '{');

    json_key_text(&json, "name", "hearth");
    json_key_text(&json, "version", req->api->options.version);
    json_key_text(&json, "documentation", "docs/api.md");
    json_key_open(&json, "endpoints", '[');
    for (size_t i = 0; i < req->api->routes_count; i++) {
        const struct http_route *route = &req->api->routes[i];
        char line[128];

        snprintf(line, sizeof(line), "%s %s", http_method_name(route->method), route->path);
        json_text(&json, line);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    loop_respond(req, &body);
}
