/*
 * attach.c: a disk below the memory, for programs that use the public header.
 *
 * The key of the folder is derived from the cache's: objects of another installation are told apart before anything else of them is
 * believed.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/seal.h"
#include "cache/cache.h"
#include "tier/tier_ssd.h"

enum { DRAIN_MS_DEFAULT = 5000 };
#define BYTES_MAX_DEFAULT (UINT64_C(32) << 30)

static int error_of(enum err err)
{
    switch (err) {
    case ERR_BUSY:
        return HEARTH_ERROR_BUSY;
    case ERR_NOMEM:
        return HEARTH_ERROR_MEMORY;
    case ERR_INVALID:
        return HEARTH_ERROR_INVALID;
    default:
        return HEARTH_ERROR_SYSTEM;
    }
}

static struct tier_ssd_options to_tier(const struct hearth_cache *cache,
                                       const struct hearth_ssd_options *options)
{
    uint64_t drain_ms = options->drain_ms > 0 ? options->drain_ms : DRAIN_MS_DEFAULT;

    return (struct tier_ssd_options){
        .path = options->path,
        .key = cache->key,
        .bytes_max = options->bytes_max > 0 ? options->bytes_max : BYTES_MAX_DEFAULT,
        .free_min = options->free_min,
        .day_bytes_max = options->day_bytes_max,
        .second_sighting = options->second_sighting,
        .payload_mac = options->payload_mac,
        .read_only = options->read_only,
        .close_wait_ns = drain_ms * NS_PER_MS,
        .fs = cache->fs,
        .clock = cache->clock,
    };
}

void cache_set_files(struct hearth_cache *cache, const struct file_sys *fs)
{
    cache->fs = fs;
}

int hearth_attach_ssd(struct hearth_cache *cache, const struct hearth_ssd_options *given, char *message)
{
    struct hearth_ssd_options options = {0};
    struct errinfo info = {0};
    struct tier *tier;

    if (given == NULL || given->struct_size < offsetof(struct hearth_ssd_options, bytes_max) ||
        cache->slow != NULL)
        return HEARTH_ERROR_INVALID;
    memcpy(&options, given, MIN(given->struct_size, sizeof(options)));
    if (options.path == NULL || options.path[0] == '\0')
        return HEARTH_ERROR_INVALID;
    struct tier_ssd_options ssd = to_tier(cache, &options);
    struct hash256 seal_key;
    if (options.seal_key != NULL) {
        memcpy(seal_key.bytes, options.seal_key, sizeof(seal_key.bytes));
        ssd.seal_key = &seal_key;
    }
    enum err err = tier_ssd_open(&tier, &ssd, &info);
    seal_wipe(&seal_key, sizeof(seal_key));
    if (err != ERR_OK) {
        if (message != NULL)
            snprintf(message, HEARTH_MESSAGE_BYTES, "%.255s", info.text);
        return error_of(err);
    }
    cache_attach_tier(cache, tier, options.bytes_per_s);
    return HEARTH_OK;
}
