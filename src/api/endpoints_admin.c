/*
 * endpoints_admin.c: what changes the server for all, behind the admin key: clearing the cache.
 *
 * On a worker: freeing many objects takes milliseconds.
 */
#include "api/api_impl.h"

#include <hearth/hearth.h>

#include "api/json_read.h"
#include "api/json_write.h"
#include "base/log.h"

enum { BODY_BYTES_MAX = 64 * 1024 };

/* HEARTH_TIER_COUNT stands for all. */
static enum err read_tier(const struct json_reader *reader, enum hearth_tier *tier)
{
    struct str name = STR_NONE;

    *tier = HEARTH_TIER_COUNT;
    TRY(json_read_str(reader, "tier", &name));
    if (name.len == 0 || str_eq(name, STR("all")))
        return ERR_OK;
    for (int i = 0; i < HEARTH_TIER_COUNT; i++) {
        if (str_eq(name, str_from(hearth_tier_name((enum hearth_tier)i)))) {
            *tier = (enum hearth_tier)i;
            return ERR_OK;
        }
    }
    return json_read_error(reader, "tier", "must be \"ram\", \"ssd\", \"remote\" or \"all\"");
}

/* {"tier": "ram"|"ssd"|"all"} -> {"cleared": bytes}. Tails go with it (keeps I39). */
void endpoint_cache_clear(struct call *call)
{
    struct hearth_cache *cache = call->api->options.cache;
    struct api_error error = {0};
    struct json_reader reader = {yyjson_doc_get_root(call->request.body), NULL, &error};
    enum hearth_tier tier;
    struct buf body;

    if (read_tier(&reader, &tier) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    uint64_t cleared = cache ? hearth_clear(cache, NULL, tier) : 0;
    LOG_INFO(call->api->options.log, "api", "the cache was cleared",
             LOG_STR("tier", tier == HEARTH_TIER_COUNT ? "all" : hearth_tier_name(tier)),
             LOG_UINT("bytes", cleared));
    buf_init(&body, BODY_BYTES_MAX);
    struct json json = json_to(&body);
    json_open(&json, '{');
    json_key_uint(&json, "cleared", cleared);
    json_close(&json, '}');
    call_respond(call, &body);
    buf_fini(&body);
}
