/*
 * live.c: the current state: models with their features, and the progress of all requests.
 *
 * On the loop thread, like /slots: schedulers publish their state, so no engine is interrupted.
 * Unlike /slots this is the administrator's view: all tenants, by name, but never the content of
 * requests.
 */
#include "admin/admin_impl.h"

#include <stdio.h>

#include "admin/monitor.h"
#include "base/clock.h"
#include "models/pool.h"

/* keeps I48: neither "off", which is a choice, nor a zero */
#define NOT_POSSIBLE "N/A"

static double per_s(uint64_t count, uint64_t ns)
{
    return ns > 0 ? (double)count * (double)NS_PER_S / (double)ns : 0;
}

/* ---- models ---- */

static void write_reuse(struct json *json, const struct model *model)
{
    char text[128];

    switch (model_cache(model)) {
    case MODEL_CACHE_ON:
        json_key_text(json, "reuse", "ok");
        return;
    case MODEL_CACHE_OFF:
        json_key_text(json, "reuse", "off");
        return;
    default:
        snprintf(text, sizeof(text), NOT_POSSIBLE ": %s", model_cache_reason(model));
        json_key_text(json, "reuse", text);
    }
}

/* keeps I48: whether a prompt can continue at any token of another one, or why not */
static void write_partial_reuse(struct json *json, const struct model *model)
{
    const struct engine_facts *facts = model_facts(model);
    char text[128], kinds[64];

    snprintf(text, sizeof(text), NOT_POSSIBLE);
    if (facts->slicing == ENGINE_SLICING_ROWS)
        snprintf(text, sizeof(text),
                 NOT_POSSIBLE ": state of %s layers continues at snapshots only",
                 kind_set_names(facts->kinds & ~KIND_BIT(KIND_FULL), kinds, sizeof(kinds)));
    json_key_text(json, "partial_reuse", model_has_tails(model) ? "ok" : text);
}

/* Features allowed by the self-test and the template. */
static void write_features(struct json *json, const struct model *model)
{
    const struct engine_facts *facts = model_facts(model);
    const struct chat_caps *caps = chat_template_caps(model_template(model));

    json_key_open(json, "features", '{');
    write_reuse(json, model);
    write_partial_reuse(json, model);
    json_key_text(json, "exact", facts->exact ? "ok" : "no");
    bool read = chat_template_calls(model_template(model)) != CHAT_CALLS_UNREADABLE;
    json_key_text(json, "tools", !caps->tools ? "no" : read ? "ok" : "calls cannot be read");
    json_key_text(json, "thinking", caps->thinking ? "ok" : "no");
    json_close(json, '}');
}

static void write_kinds(struct json *json, kind_set kinds)
{
    json_key_open(json, "kinds", '[');
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (kinds & KIND_BIT(kind))
            json_text(json, kind_name((enum kind)kind));
    json_close(json, ']');
}

/* What the cache has and did for a model, summed over its tenants. */
static void write_cache(struct json *json, struct api *api, struct model *model)
{
    struct hearth_stats stats;

    model_get_cache_stats(model, &stats);
    json_key_open(json, "cache", '{');
    json_key_uint(json, "objects", stats.objects);
    json_key_uint(json, "blocks", stats.nodes);
    json_key_uint(json, "snapshots", stats.snapshots);
    json_key_open(json, "bytes", '{');
    for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
        json_key_uint(json, hearth_tier_name((enum hearth_tier)tier), stats.bytes_by_tier[tier]);
    json_close(json, '}');
    json_key_uint(json, "lookups", stats.lookups);
    json_key_uint(json, "hits", stats.hits);
    json_key_uint(json, "reused_tokens", stats.tokens_reused);
    json_key_uint(json, "stores", stats.stores);
    json_key_uint(json, "evictions", stats.evictions);
    if (model_has_tails(model)) {
        admin_write_tails(json, &stats);
        json_key_uint(json, "max_bytes", stats.tail_bytes_max);
        json_close(json, '}');
    } else {
        json_key_text(json, "tails", NULL); /* features.partial_reuse says why */
    }
    admin_write_rates(json, api, model_name(model));
    json_close(json, '}');
}

/* Figures known only for a loaded model. */
static void write_loaded(struct json *json, struct api *api, struct model *model)
{
    const struct engine_facts *draft = sched_draft_facts(model_sched(model));
    uint64_t draft_bytes = draft != NULL ? draft->device_bytes : 0;
    struct sched_stats stats;

    sched_get_stats(model_sched(model), &stats);
    write_kinds(json, model_facts(model)->kinds);
    write_features(json, model);
    json_key_uint(json, "context", model_facts(model)->context);
    json_key_text(json, "architecture", model_facts(model)->architecture);
    if (draft != NULL)
        json_key_text(json, "draft_model", draft->name);
    json_key_uint(json, "device_bytes", model_facts(model)->device_bytes + draft_bytes);
    json_key_uint(json, "requests", stats.submitted);
    json_key_uint(json, "active", stats.active);
    json_key_uint(json, "queued", stats.queued);
    json_key_float(json, "prefill_tokens_per_s", per_s(stats.prefill_tokens, stats.prefill_ns));
    json_key_float(json, "decode_tokens_per_s", per_s(stats.decode_tokens, stats.decode_ns));
    write_cache(json, api, model);
}

static void write_model(struct json *json, struct api *api, struct pool *pool, size_t index)
{
    struct pool_view view;

    if (!pool_view(pool, index, &view))
        return;
    struct model *model = pool_peek(pool, index);
    json_open(json, '{');
    json_key_text(json, "id", view.name);
    json_key_text(json, "state", pool_state_name(view.state));
    json_key_float(json, "progress",
                   view.state == POOL_LOADING ? (double)view.progress : view.state == POOL_READY);
    json_key_text(json, "error", view.error.code != ERR_OK ? view.error.text : NULL);
    json_key_bool(json, "default", view.is_default);
    json_key_uint(json, "bytes", view.file_bytes);
    json_key_uint(json, "memory_bytes", view.bytes);
    json_key_float(json, "ttl_s", (double)view.ttl_ns / (double)NS_PER_S);
    json_key_float(json, "idle_s", (double)view.idle_ns / (double)NS_PER_S);
    json_key_bool(json, "pinned", view.pinned);
    json_key_uint(json, "uses", view.uses);
    json_key_uint(json, "waiting", view.waits);
    json_key_uint(json, "loads", view.loads);
    json_key_float(json, "load_s", view.load_s);
    if (model) {
        write_loaded(json, api, model);
        pool_unpeek(pool, model);
    }
    json_close(json, '}');
}

enum err endpoint_admin_models(const struct loop_request *req, struct json *json,
                               struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);

    if (!pool)
        return ERR_INVALID;
    json_key_open(json, "models", '[');
    for (size_t i = 0; i < pool_count(pool); i++)
        write_model(json, req->api, pool, i);
    json_close(json, ']');
    return ERR_OK;
}

/* ---- requests ---- */

/* Prompt tokens computed so far. */
static uint32_t computed_so_far(const struct sched_view *view)
{
    const struct gen_usage *usage = &view->usage;
    uint32_t reused = gen_usage_reused(usage);

    return view->phase < GEN_PREFILL ? 0 : view->done - MIN(reused, view->done);
}

/* Of the current phase: prefill or decoding. */
static double speed_of(const struct sched_view *view)
{
    if (view->phase == GEN_PREFILL)
        return per_s(computed_so_far(view), view->prefill_ns);
    return view->phase == GEN_DECODE ? per_s(view->usage.generated, view->decode_ns) : 0;
}

/* Time to the first token at the current speed. Unknown before anything was computed, and always
 * for the length of an answer. */
static void write_eta(struct json *json, const struct sched_view *view)
{
    double speed = speed_of(view);

    json_key(json, "eta_s");
    if (view->phase == GEN_PREFILL && speed > 0)
        json_float(json,
                   (double)(view->usage.prompt - MIN(view->done, view->usage.prompt)) / speed);
    else
        json_null(json);
}

static void write_request(const struct api_gen *gen, void *arg)
{
    struct json *json = arg;
    const struct sched_view *view = gen->view;
    const struct gen_usage *usage = &view->usage;

    json_open(json, '{');
    json_key_text(json, "id", gen->caller.request_id);
    json_key_text(json, "model", gen->model);
    json_key_text(json, "tenant", gen->caller.who);
    json_key_text(json, "phase", gen_phase_name(view->phase));
    json_key_uint(json, "prompt_tokens", usage->prompt);
    json_key_uint(json, "prompt_done", MIN(view->done, usage->prompt));
    json_key_uint(json, "cached_tokens", gen_usage_reused(usage));
    json_key_uint(json, "computed_tokens", MIN(computed_so_far(view), usage->prompt));
    json_key_uint(json, "generated_tokens", usage->generated);
    json_key_float(json, "tokens_per_s", speed_of(view));
    write_eta(json, view);
    json_key_float(json, "age_s", (double)view->age_ns / (double)NS_PER_S);
    recent_write_tokens(json, usage);
    json_close(json, '}');
}

enum err endpoint_admin_requests(const struct loop_request *req, struct json *json,
                                 struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);

    if (!pool)
        return ERR_INVALID;
    json_key_open(json, "requests", '[');
    api_each_gen(req->api, pool, write_request, json);
    json_close(json, ']');
    json_key(json, "recent");
    /* Without keys, a user of this machine may do everything here. */
    bool words = admin_of(req->api)->options.show_text ||
                 (auth_open(api_auth(req->api)) && http_request_is_local(req->request));
    monitor_write_recent(admin_of(req->api)->monitor, json, words);
    return ERR_OK;
}
