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
static enum err read_key(const struct json_reader *reader, unsigned char key[HEARTH_KEY_BYTES])
{
    struct str text = STR_NONE;

    TRY(json_read_str(reader, "key", &text));
    if (text.len == 0)
        return json_read_error(reader, "key", "is missing");
    return admin_read_key(text, key) == ERR_OK
               ? ERR_OK
               : json_read_error(reader, "key", "must have 64 hex digits");
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

static void respond_pinned(struct call *call, uint32_t tokens, bool pin)
{
    struct buf body;
    struct json json;

    LOG_INFO(call->api->options.log, "api", pin ? "pinned" : "unpinned",
             LOG_STR("request", call->request_id), LOG_UINT("tokens", tokens));
    json = json_begin(&body, ADMIN_BODY_BYTES_MAX, '{');
    json_key_uint(&json, "pinned_tokens", tokens);
    json_close(&json, '}');
    admin_respond(call, &body);
}

static void pin_key(struct call *call, struct hearth_cache *cache, bool pin)
{
    struct api_error error = {0};
    struct json_reader reader = admin_reader(call, &error);
    unsigned char key[HEARTH_KEY_BYTES];
    uint32_t tokens;

    if (read_key(&reader, key) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    tokens = hearth_pin_key(cache, key, pin);
    if (tokens > 0) {
        respond_pinned(call, tokens, pin);
        return;
    }
    api_error_set(&error, API_ERROR_NOT_FOUND, "key",
                  pin ? "Nothing with this key is held." : "Nothing with this key is pinned.");
    call_fail(call, &error);
}

static void pin_prompt(struct call *call, bool pin)
{
    struct api_error error = {0};
    const struct token_prompt *prompt = &call->prepared.prompt;
    struct hearth_space *space;

    if (admin_prompt_take_tenant(call, &error) != ERR_OK || !call_prepare(call, &error)) {
        call_fail(call, &error);
        return;
    }
    /* The state of a recent answer may not be stored yet. If the engine is too busy to reply, it
     * has nothing that new. */
    (void)!sched_wait_turn(model_sched(call->model), ENGINE_MS, NULL);
    space = call_space(call);
    respond_pinned(call, space ? hearth_pin(space, prompt->tokens, prompt->count, pin) : 0, pin);
}

static void pin_or_unpin(struct call *call, bool pin)
{
    struct hearth_cache *cache = admin_cache(call);

    if (!cache)
        return;
    if (call->request.no_model)
        pin_key(call, cache, pin);
    else
        pin_prompt(call, pin);
}

void endpoint_cache_pin(struct call *call)
{
    pin_or_unpin(call, true);
}

void endpoint_cache_unpin(struct call *call)
{
    pin_or_unpin(call, false);
}

/* ---- evict ---- */

static void respond_evicted(struct call *call, const struct hearth_sum *sum)
{
    struct buf body;
    struct json json;

    LOG_INFO(call->api->options.log, "api", "evicted by hand", LOG_STR("request", call->request_id),
             LOG_UINT("objects", sum->objects), LOG_UINT("bytes", sum->bytes));
    json = json_begin(&body, ADMIN_BODY_BYTES_MAX, '{');
    json_key_uint(&json, "evicted", sum->objects);
    json_key_uint(&json, "bytes", sum->bytes);
    json_close(&json, '}');
    admin_respond(call, &body);
}

void endpoint_cache_evict(struct call *call)
{
    struct hearth_cache *cache = admin_cache(call);
    struct api_error error = {0};
    struct json_reader reader = admin_reader(call, &error);
    unsigned char key[HEARTH_KEY_BYTES];
    struct hearth_sum sum = {0};
    double older_s = 0;
    bool by_age;

    if (!cache)
        return;
    if (read_seconds(&reader, "older_s", &older_s, &by_age) != ERR_OK ||
        (!by_age && read_key(&reader, key) != ERR_OK)) {
        call_fail(call, &error);
        return;
    }
    int failed = HEARTH_OK;
    if (by_age)
        hearth_evict_older(cache, NULL, older_s, &sum);
    else
        failed = hearth_evict_key(cache, key, &sum);
    if (failed == HEARTH_OK)
        respond_evicted(call, &sum);
    else
        admin_fail_cache(call, failed, "key");
}

/* ---- time to live ---- */

void endpoint_cache_ttl(struct call *call)
{
    struct hearth_cache *cache = admin_cache(call);
    struct api_error error = {0};
    struct json_reader reader = admin_reader(call, &error);
    unsigned char key[HEARTH_KEY_BYTES];
    double ttl_s = 0;
    bool given;
    struct buf body;
    struct json json;

    if (!cache)
        return;
    if (read_key(&reader, key) != ERR_OK ||
        read_seconds(&reader, "ttl_s", &ttl_s, &given) != ERR_OK ||
        (!given && json_read_error(&reader, "ttl_s", "is missing") != ERR_OK)) {
        call_fail(call, &error);
        return;
    }
    int failed = hearth_expire(cache, key, ttl_s);
    if (failed != HEARTH_OK) {
        admin_fail_cache(call, failed, "key");
        return;
    }
    json = json_begin(&body, ADMIN_BODY_BYTES_MAX, '{');
    admin_write_key(&json, "key", key);
    json_key_float(&json, "ttl_s", ttl_s);
    json_close(&json, '}');
    admin_respond(call, &body);
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

static void respond_verified(struct call *call, const struct hearth_verified *sum, uint64_t ns)
{
    struct buf body;
    struct json json;

    LOG_INFO(call->api->options.log, "api", "verified", LOG_STR("request", call->request_id),
             LOG_UINT("objects", sum->objects), LOG_UINT("damaged", sum->damaged));
    json = json_begin(&body, ADMIN_BODY_BYTES_MAX, '{');
    json_key_uint(&json, "objects", sum->objects);
    json_key_uint(&json, "bytes", sum->bytes);
    json_key_uint(&json, "damaged", sum->damaged);
    json_key_uint(&json, "dropped", sum->dropped);
    json_key_uint(&json, "unknown", sum->unknown);
    json_key_uint(&json, "failed", sum->failed);
    json_key_float(&json, "seconds", (double)ns / (double)NS_PER_S);
    json_close(&json, '}');
    admin_respond(call, &body);
}

void endpoint_cache_verify(struct call *call)
{
    struct hearth_cache *cache = admin_cache(call);
    struct api_error error = {0};
    struct json_reader reader = admin_reader(call, &error);
    struct hearth_verified sum = {0}, one;
    uint64_t begin_ns = clock_mono_ns(call->api->clock);
    struct str name = STR_NONE;
    int known = 0;

    if (!cache)
        return;
    if (json_read_str(&reader, "tier", &name) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    for (int tier = HEARTH_TIER_RAM; tier < HEARTH_TIER_COUNT; tier++) {
        struct hearth_verify_options options = {.struct_size = sizeof(options),
                                                .tier = (enum hearth_tier)tier,
                                                .more = goes_on,
                                                .arg = call};

        if (name.len > 0 && !str_eq(name, STR("all")) &&
            !str_eq(name, str_from(hearth_tier_name(options.tier))))
            continue;
        known++;
        if (hearth_verify(cache, &options, &one) ==
            HEARTH_OK) /* an absent tier has nothing to verify */
            add(&sum, &one);
    }
    if (known > 0) {
        respond_verified(call, &sum, clock_mono_ns(call->api->clock) - begin_ns);
        return;
    }
    (void)!json_read_error(&reader, "tier", "must be \"ram\", \"ssd\", \"remote\" or \"all\"");
    call_fail(call, &error);
}
