/*
 * clear.c: clears a tier, entirely or for a model or a tenant.
 *
 *      {"tier": "device"|"ram"|"ssd"|"remote"|"all", "model", "tenant"}
 *        -> {"cleared": bytes, "device_tokens", "failed": [{"model", "message"}]}
 *
 * Tails are cleared with their tier. "all" includes the sequences that schedulers keep on the
 * device. A model whose engine does not answer is listed in `failed`, and the others are still
 * cleared (keeps I39).
 *
 * On the thread for slow work: freeing many objects takes a while, and so does waiting for an
 * engine in the middle of a batch.
 */
#include "admin/admin_impl.h"

#include "base/log.h"
#include "models/pool.h"

enum { ENGINE_MS = 5000, FAILED_BYTES_MAX = 16 * 1024 * 1024 };

/* Names of tiers; the device does not belong to the cache. */
struct clear_tiers {
    bool device, cache;
    enum hearth_tier tier; /* of the cache; HEARTH_TIER_COUNT: all */
    const char *name;
};

static enum err read_tiers(const struct json_reader *reader, struct clear_tiers *out)
{
    struct str name = STR_NONE;

    *out = (struct clear_tiers){
        .device = true, .cache = true, .tier = HEARTH_TIER_COUNT, .name = "all"};
    TRY(json_read_str(reader, "tier", &name));
    if (name.len == 0 || str_eq(name, STR("all")))
        return ERR_OK;
    out->device = str_eq(name, STR("device"));
    out->cache = !out->device;
    out->tier = admin_tier(name);
    out->name = out->device ? "device" : hearth_tier_name(out->tier);
    if (out->device || out->tier < HEARTH_TIER_COUNT)
        return ERR_OK;
    return json_read_error(reader, "tier",
                           "must be \"device\", \"ram\", \"ssd\", \"remote\" or \"all\"");
}

/* ---- one after the other ---- */

struct clearing {
    struct hearth_cache *cache;
    struct clear_tiers tiers;
    struct json failed;
    uint64_t bytes, device_tokens;
};

static void note_failure(struct clearing *clearing, struct str model, const char *message)
{
    json_open(&clearing->failed, '{');
    json_key_str(&clearing->failed, "model", model);
    json_key_text(&clearing->failed, "message", message);
    json_close(&clearing->failed, '}');
}

/* Waits for the engine to be between two turns, even if the device is not to be cleared: state is
 * stored after the answer is sent, and the state of earlier answers must be cleared as well. */
static void clear_model(struct clearing *clearing, struct model *model, struct hearth_space *space)
{
    struct sched *sched = model_sched(model);
    struct errinfo info = {0};
    uint64_t tokens = 0;
    enum err err = clearing->tiers.device ? sched_forget(sched, space, ENGINE_MS, &tokens, &info)
                                          : sched_wait_turn(sched, ENGINE_MS, &info);

    if (err != ERR_OK)
        note_failure(clearing, str_from(model_name(model)), info.text);
    clearing->device_tokens += tokens;
}

static void clear_space(const struct admin_space *space, void *arg)
{
    struct clearing *clearing = arg;

    clear_model(clearing, space->model, space->space);
    if (clearing->cache && clearing->tiers.cache)
        clearing->bytes += hearth_clear(clearing->cache, space->space, clearing->tiers.tier);
}

/* Clears everything, including the state of models that are not loaded. */
static void clear_all(struct clearing *clearing, struct api *api)
{
    struct pool *pool = api_pool(api, NULL);
    struct model *model;

    for (size_t i = 0; (model = pool_next(pool, &i));) {
        clear_model(clearing, model, NULL);
        pool_unpeek(pool, model);
    }
    if (clearing->cache && clearing->tiers.cache)
        clearing->bytes += hearth_clear(clearing->cache, NULL, clearing->tiers.tier);
}

/* Clears the selected spaces of loaded models. */
static void clear_scope(struct clearing *clearing, struct api *api, const struct admin_scope *scope)
{
    struct pool *pool = api_pool(api, NULL);
    struct pool_view view;

    if (scope->model.len > 0 && pool_view(pool, pool_find(pool, scope->model, true), &view) &&
        view.state != POOL_READY && view.state != POOL_DEAD)
        note_failure(clearing, scope->model,
                     "The model is not loaded, so its state cannot be told from that of others: "
                     "load it first.");
    admin_each_space(api, scope, clear_space, clearing);
}

enum err endpoint_cache_clear(struct call *call, const struct json_reader *body, struct json *json)
{
    struct clearing clearing = {.cache = call->api->options.cache};
    struct admin_scope scope;
    struct buf failed;

    TRY(read_tiers(body, &clearing.tiers));
    TRY(admin_read_scope(body, call->api, &scope));
    clearing.failed = json_begin(&failed, FAILED_BYTES_MAX, '[');
    if (scope.model.len > 0 || scope.has_tenant)
        clear_scope(&clearing, call->api, &scope);
    else
        clear_all(&clearing, call->api);
    json_close(&clearing.failed, ']');
    LOG_INFO(call->api->options.log, "api", "the cache was cleared",
             LOG_STR("tier", clearing.tiers.name), LOG_STR("request", call->request_id),
             LOG_UINT("bytes", clearing.bytes));
    json_key_uint(json, "cleared", clearing.bytes);
    json_key_uint(json, "device_tokens", clearing.device_tokens);
    json_key_raw(json, "failed", buf_text(&failed));
    if (failed.err != ERR_OK)
        json->out->err = failed.err;
    buf_fini(&failed);
    return ERR_OK;
}
