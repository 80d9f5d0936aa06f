/*
 * keys.c: actions on parts of the cache: pin, unpin, evict, set a time to live, verify.
 *
 * Actions by key need no model. A prompt is read as a request would be, so that pinning it needs no
 * keys.
 */
#include "admin/admin_impl.h"

#include "base/clock.h"
#include "base/log.h"

enum { TTL_S_MAX = 366 * 24 * 3600, ENGINE_MS = 1000 };

/* ---- reading ---- */

/* "key", which is required. */
static enum err read_key(const struct json_reader *body, unsigned char key[HEARTH_KEY_BYTES])
{
    bool given;

    TRY(admin_read_key_field(body, key, &given));
    return given ? ERR_OK : json_read_error(body, "key", "is missing");
}

/* A number of seconds; *given is false when absent. */
static enum err read_seconds(const struct json_reader *reader, const char *name, double *seconds,
                             bool *given)
{
    yyjson_val *value = json_read_get(reader, name);

    *given = value != NULL;
    if (!*given)
        return ERR_OK;
    *seconds = yyjson_get_num(value);
    if (!yyjson_is_num(value) || !(*seconds >= 0) || *seconds > TTL_S_MAX)
        return json_read_error(reader, name, "must be a number of seconds from 0 to %d", TTL_S_MAX);
    return ERR_OK;
}

/* ---- pin and unpin ---- */

static enum err pin_prompt(struct call *call, bool pin, uint32_t *tokens, struct api_error *error)
{
    const struct token_prompt *prompt = &call->prepared.prompt;

    TRY(admin_prompt_take_tenant(call, error));
    TRY(call_prepare(call, error));
    /* The state of a recent answer may not be stored yet. If the engine is too busy to reply, it
     * has nothing that new. */
    (void)!sched_wait_turn(model_sched(call->model), ENGINE_MS, NULL);
    struct hearth_space *space = call_space(call);
    *tokens = space ? hearth_pin(space, prompt->tokens, prompt->count, pin) : 0;
    return ERR_OK;
}

static enum err pin_key(struct call *call, const struct json_reader *body, bool pin,
                        uint32_t *tokens)
{
    unsigned char key[HEARTH_KEY_BYTES];

    TRY(read_key(body, key));
    *tokens = hearth_pin_key(call->api->options.cache, key, pin);
    if (*tokens > 0)
        return ERR_OK;
    return api_error_set(body->error, API_ERROR_NOT_FOUND, "key",
                         pin ? "No cached object has this key." : "No pinned object has this key.");
}

static enum err pin_or_unpin(struct call *call, const struct json_reader *body, bool pin,
                             struct json *json)
{
    uint32_t tokens;

    TRY(admin_need_cache(call, body->error));
    TRY(call->request.no_model ? pin_key(call, body, pin, &tokens)
                               : pin_prompt(call, pin, &tokens, body->error));
    LOG_INFO(call->api->options.log, "api", pin ? "pinned" : "unpinned",
             LOG_STR("request", call->request_id), LOG_UINT("tokens", tokens));
    json_key_uint(json, "pinned_tokens", tokens);
    return ERR_OK;
}

enum err endpoint_cache_pin(struct call *call, const struct json_reader *body, struct json *json)
{
    return pin_or_unpin(call, body, true, json);
}

enum err endpoint_cache_unpin(struct call *call, const struct json_reader *body, struct json *json)
{
    return pin_or_unpin(call, body, false, json);
}

/* ---- evict ---- */

enum err endpoint_cache_evict(struct call *call, const struct json_reader *body, struct json *json)
{
    struct hearth_cache *cache = call->api->options.cache;
    unsigned char key[HEARTH_KEY_BYTES];
    struct hearth_sum sum = {0};
    double older_s = 0;
    bool by_age;

    TRY(admin_need_cache(call, body->error));
    TRY(read_seconds(body, "older_s", &older_s, &by_age));
    if (by_age) {
        hearth_evict_older(cache, NULL, older_s, &sum);
    } else {
        TRY(read_key(body, key));
        TRY(admin_cache_error(body->error, hearth_evict_key(cache, key, &sum), "key"));
    }
    LOG_INFO(call->api->options.log, "api", "evicted by hand", LOG_STR("request", call->request_id),
             LOG_UINT("objects", sum.objects), LOG_UINT("bytes", sum.bytes));
    json_key_uint(json, "evicted", sum.objects);
    json_key_uint(json, "bytes", sum.bytes);
    return ERR_OK;
}

/* ---- time to live ---- */

enum err endpoint_cache_ttl(struct call *call, const struct json_reader *body, struct json *json)
{
    struct hearth_cache *cache = call->api->options.cache;
    unsigned char key[HEARTH_KEY_BYTES];
    double ttl_s = 0;
    bool given;

    TRY(admin_need_cache(call, body->error));
    TRY(read_key(body, key));
    TRY(read_seconds(body, "ttl_s", &ttl_s, &given));
    if (!given)
        return json_read_error(body, "ttl_s", "is missing");
    TRY(admin_cache_error(body->error, hearth_expire(cache, key, ttl_s), "key"));
    admin_write_key(json, "key", key);
    json_key_float(json, "ttl_s", ttl_s);
    return ERR_OK;
}

/* ---- verify ---- */

/* The client may have disconnected, or the server is ending: stop. */
static bool goes_on(const struct hearth_verified *so_far, void *arg)
{
    struct call *call = arg;

    (void)so_far;
    return !call_is_gone(call) && !api_is_draining(call->api);
}

static void add(struct hearth_verified *sum, const struct hearth_verified *one)
{
    sum->objects += one->objects;
    sum->bytes += one->bytes;
    sum->unknown += one->unknown;
    sum->failed += one->failed;
    sum->damaged += one->damaged;
    sum->dropped += one->dropped;
}

enum err endpoint_cache_verify(struct call *call, const struct json_reader *body, struct json *json)
{
    struct hearth_verified sum = {0}, one;
    uint64_t begin_ns = clock_mono_ns(call->api->clock);
    struct str name = STR_NONE;

    TRY(admin_need_cache(call, body->error));
    TRY(json_read_str(body, "tier", &name));
    bool all = name.len == 0 || str_eq(name, STR("all"));
    if (!all && admin_tier(name) == HEARTH_TIER_COUNT)
        return json_read_error(body, "tier", "must be \"ram\", \"ssd\", \"remote\" or \"all\"");
    for (int tier = HEARTH_TIER_RAM; tier < HEARTH_TIER_COUNT; tier++) {
        struct hearth_verify_options options = {.struct_size = sizeof(options),
                                                .tier = (enum hearth_tier)tier,
                                                .more = goes_on,
                                                .arg = call};

        if ((all || options.tier == admin_tier(name)) &&
            /* an absent tier has nothing to verify */
            hearth_verify(call->api->options.cache, &options, &one) == HEARTH_OK)
            add(&sum, &one);
    }
    LOG_INFO(call->api->options.log, "api", "verified", LOG_STR("request", call->request_id),
             LOG_UINT("objects", sum.objects), LOG_UINT("damaged", sum.damaged));
    json_key_uint(json, "objects", sum.objects);
    json_key_uint(json, "bytes", sum.bytes);
    json_key_uint(json, "damaged", sum.damaged);
    json_key_uint(json, "dropped", sum.dropped);
    json_key_uint(json, "unknown", sum.unknown);
    json_key_uint(json, "failed", sum.failed);
    json_key_float(json, "seconds",
                   (double)(clock_mono_ns(call->api->clock) - begin_ns) / (double)NS_PER_S);
    return ERR_OK;
}
