/*
 * endpoints_status.c: how the server is: health, readiness, version, numbers, what runs.
 *
 * All are answered on the loop thread and touch no engine: they say the truth also while the
 * engine's thread is busy or stuck.
 */
#include "serve/api_impl.h"

#include <hearth/hearth.h>

#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "admin/metrics.h"
#include "admin/metrics_compat.h"
#include "dialect/usage.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "models/pool.h"
#include "sched/memory.h"

enum { BODY_BYTES_MAX = 4 * 1024 * 1024, SLOTS_MAX = 1024 };

/* The texts are those of llama-server: probes and clients look for them. */
static void respond_state(const struct visit *visit, int status, const char *text)
{
    struct buf body;

    buf_init(&body, BODY_BYTES_MAX);
    buf_append_str(&body, text);
    respond_json(visit->reply, status, visit->request_id, &body);
    buf_fini(&body);
}

#define STATE_OK "{\"status\":\"ok\"}"
/* The server works on it (sched/watchdog.c): whoever restarts servers by this answer should not,
 * whoever balances load asks /ready. */
#define STATE_STALLED "{\"status\":\"degraded\",\"reason\":\"an engine computes nothing\"}"
#define STATE_LOADING \
    "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}"
#define STATE_DRAINING                                               \
    "{\"error\":{\"code\":503,\"message\":\"The server is shutting " \
    "down\",\"type\":\"unavailable_error\"}}"

static void respond_health(const struct visit *visit, int stalled_status)
{
    struct api_error error = {0};
    struct pool *pool = api_pool(visit->api, &error);

    if (pool == NULL)
        respond_state(visit, 503, STATE_LOADING);
    else if (pool_stalled(pool) > 0)
        respond_state(visit, stalled_status, STATE_STALLED);
    else
        respond_state(visit, 200, STATE_OK);
}

void endpoint_health(const struct visit *visit)
{
    respond_health(visit, 200);
}

void endpoint_ready(const struct visit *visit)
{
    if (api_is_draining(visit->api))
        respond_state(visit, 503, STATE_DRAINING);
    else
        respond_health(visit, 503);
}

static const char *known(const char *text)
{
    return text ? text : "unknown";
}

void endpoint_version(const struct visit *visit)
{
    struct buf body;
    struct json json;

    buf_init(&body, BODY_BYTES_MAX);
    json = json_to(&body);
    json_open(&json, '{');
    json_key_text(&json, "name", "hearth");
    json_key_text(&json, "version", known(visit->api->options.version));
    json_key_text(&json, "commit", known(visit->api->options.commit));
    json_close(&json, '}');
    visit_respond(visit, &body);
}

/* For programs that look whether someone is here, and for people without a browser. */
void endpoint_root(const struct visit *visit)
{
    struct buf body;
    struct json json;

    buf_init(&body, BODY_BYTES_MAX);
    json = json_to(&body);
    json_open(&json, '{');
    json_key_text(&json, "name", "hearth");
    json_key_text(&json, "version", known(visit->api->options.version));
    json_key_text(&json, "documentation", "docs/api.md");
    json_key(&json, "endpoints");
    json_open(&json, '[');
    for (size_t i = 0; i < api_endpoints_count; i++) {
        char line[128];

        snprintf(line, sizeof(line), "%s %s", http_method_name(api_endpoints[i].method),
                 api_endpoints[i].path);
        json_text(&json, line);
    }
    json_close(&json, ']');
    json_close(&json, '}');
    visit_respond(visit, &body);
}

/* ---- numbers ---- */

static void put_gauges(struct api *api)
{
    size_t active;

    lock_enter(&api->lock);
    active = api->calls.count;
    lock_leave(&api->lock);
    metric_put(api->metrics, STATS_ACTIVE, 0, (double)active);
    metric_put(api->metrics, STATS_QUEUED, 0, (double)queue_length(api->queue));
}

/* Of all models together, those that were unloaded included: a counter never goes down. */
static void write_model_numbers(struct api *api, struct pool *pool, struct buf *out)
{
    struct sched_stats stats;
    struct pool_view view;

    if (!pool)
        return;
    pool_get_stats(pool, &stats);
    stats_write_sched(&stats, out);
    stats_compat_write(api->options.metrics_compat, &stats, api->metrics,
                       pool_view(pool, 0, &view) ? view.name : "", out);
}

static void write_log_numbers(const struct log *log, struct buf *out)
{
    static const struct metric_alias dropped = {
        "hearth_log_dropped_total",
        "Log lines dropped because the reader of standard error is too slow.", ""};

    (void)metric_render_number(&dropped, METRIC_COUNTER, (double)log_lines_dropped(log), out);
}

void endpoint_metrics(const struct visit *visit)
{
    struct api *api = visit->api;
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct api_error error = {0};
    struct memory_view view;
    struct buf body;

    buf_init(&body, BODY_BYTES_MAX);
    put_gauges(api);
    stats_write_build(known(api->options.version), known(api->options.commit), &body);
    (void)metric_render(api->metrics, &body);
    if (api->http_metrics)
        (void)metric_render(api->http_metrics, &body);
    write_log_numbers(api->options.log, &body);
    write_model_numbers(api, api_pool(api, &error), &body);
    if (api->options.cache) {
        hearth_get_stats(api->options.cache, NULL, &stats);
        stats_write_cache(&stats, &body);
    }
    if (api->options.memory) {
        memory_get_view(api->options.memory, &view);
        stats_write_memory(&view, &body);
    }
    respond_text(visit->reply, "text/plain; version=0.0.4; charset=utf-8", visit->request_id,
                 &body);
    buf_fini(&body);
}

/* ---- what runs ---- */

static void write_usage(struct json *json, const struct gen_usage *usage)
{
    json_key_uint(json, "prompt", usage->prompt);
    usage_write_sources(json, usage);
    json_key_uint(json, "generated", usage->generated);
    json_key_text(json, "reason", hearth_reason_name(usage->reason));
}

/* Numbers of generations and of sequences count what others do: they are the admin's. */
static void write_slot(struct json *json, const struct sched_view *view,
                       const struct api_caller *caller, const char *model, bool admin)
{
    json_open(json, '{');
    json_key_text(json, "request", caller->request_id);
    if (admin) {
        json_key_uint(json, "id", view->id);
        json_key(json, "seq");
        json_int(json, view->seq);
    }
    json_key_text(json, "model", model);
    json_key_text(json, "phase", gen_phase_name(view->phase));
    json_key_bool(json, "is_processing", view->phase > GEN_DEFERRED && view->phase < GEN_FINISHED);
    json_key_uint(json, "prompt_done", view->done);
    json_key(json, "usage");
    json_open(json, '{');
    write_usage(json, &view->usage);
    json_close(json, '}');
    json_key_uint(json, "age_ms", view->age_ns / NS_PER_MS);
    json_close(json, '}');
}

/* A tenant sees its own generations only (keeps I100). */
static bool is_visible(const struct visit *visit, const struct sched_view *view,
                       struct api_caller *caller)
{
    return api_gen_caller(visit->api, view->id, caller) &&
           strcmp(caller->who, visit->auth.who) == 0;
}

static void write_slots(const struct visit *visit, struct model *model, struct sched_view *views,
                        struct json *json)
{
    size_t count = MIN(sched_views(model_sched(model), views, SLOTS_MAX), SLOTS_MAX);

    for (size_t i = 0; i < count; i++) {
        struct api_caller caller;

        if (is_visible(visit, &views[i], &caller))
            write_slot(json, &views[i], &caller, model_name(model), visit->auth.admin);
    }
}

void endpoint_slots(const struct visit *visit)
{
    struct pool *pool = visit_pool(visit);
    struct sched_view *views;
    struct model *model;
    struct buf body;
    struct json json;

    if (!pool)
        return;
    views = mem_alloc_array(SLOTS_MAX, sizeof(*views));
    buf_init(&body, BODY_BYTES_MAX);
    json = json_to(&body);
    json_open(&json, '[');
    for (size_t i = 0; (model = pool_next(pool, &i));) {
        write_slots(visit, model, views, &json);
        pool_unpeek(pool, model);
    }
    json_close(&json, ']');
    mem_free(views);
    visit_respond(visit, &body);
}
