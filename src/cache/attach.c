/*
 * attach.c: a disk and a shared store below memory, for users of the public header: attaching them,
 * limits, and the statistics of each tier.
 *
 * The key of the folder is derived from the cache's key, so objects of another installation are
 * recognised before anything else in them is trusted.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "tier/tier_shared.h"
#include "tier/tier_ssd.h"

enum { REST_PART = 8, TTL_S_DEFAULT = 24 * 3600, NOTE_BYTES_MAX = 512 << 10 };
#define BYTES_MAX_DEFAULT (UINT64_C(32) << 30)
#define REST_BYTES_MAX    (UINT64_C(512) << 20)

static const char no_options[] = "no options, or struct_size is not set";

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

static struct tier_ssd_options to_tier(struct hearth_cache *cache,
                                       const struct hearth_ssd_options *options)
{
    lock_enter(&cache->lock);
    uint64_t cap = cache->budget.cap;
    lock_leave(&cache->lock);
    return (struct tier_ssd_options){
        .path = options->path,
        .key = cache->key,
        .seal_key = cache_key_of(options->seal_key),
        .bytes_max = options->bytes_max > 0 ? options->bytes_max : BYTES_MAX_DEFAULT,
        .free_min = options->free_min,
        .day_bytes_max = options->day_bytes_max,
        .second_sighting = options->second_sighting,
        .payload_mac = options->payload_mac,
        .read_only = options->read_only,
        /* Objects waiting to be written cannot leave memory, so a paused writer may hold back
         * only a part of it. */
        .rest_bytes_max = MIN(cap / REST_PART, REST_BYTES_MAX),
        .fs = cache->fs,
        .clock = cache->clock,
        .log = cache->disk_log,
    };
}

/* Attaches an open tier. hearth_close waits for all tiers together, as long as the most patient one
 * may keep writing; closing a tier then cancels the rest. */
static void attach(struct hearth_cache *cache, enum hearth_tier level, struct tier *tier,
                   double bytes_per_s, uint64_t drain_ms)
{
    bool first = true;

    for (int other = TIER_SLOWER; other < HEARTH_TIER_COUNT; other++)
        first &= cache->tiers[other].tier == NULL;
    drain_ms = drain_ms > 0 ? MIN(drain_ms, UINT32_MAX) : CACHE_DRAIN_MS;
    cache->drain_ms = first ? drain_ms : MAX(cache->drain_ms, drain_ms);
    cache_attach_tier(cache, level, tier, bytes_per_s);
}

void cache_set_disk(struct hearth_cache *cache, const struct file_sys *fs, struct log *log)
{
    cache->fs = fs;
    cache->disk_log = log;
}

int hearth_attach_ssd(struct hearth_cache *cache, const struct hearth_ssd_options *given,
                      char *message)
{
    struct hearth_ssd_options options = {0};
    struct errinfo info = {0};
    struct tier *tier;

    if (given == NULL || given->struct_size < offsetof(struct hearth_ssd_options, bytes_max))
        return cache_say(message, HEARTH_ERROR_INVALID, no_options);
    if (cache->tiers[HEARTH_TIER_SSD].tier != NULL)
        return cache_say(message, HEARTH_ERROR_INVALID, "a disk is attached already");
    memcpy(&options, given, MIN(given->struct_size, sizeof(options)));
    if (options.path == NULL || options.path[0] == '\0')
        return cache_say(message, HEARTH_ERROR_INVALID, "no folder given");
    struct tier_ssd_options ssd = to_tier(cache, &options);
    enum err err = tier_ssd_open(&tier, &ssd, &info);
    if (err != ERR_OK)
        return cache_say(message, error_of(err), info.text);
    cache->tiers[HEARTH_TIER_SSD].sealed = options.seal_key != NULL;
    attach(cache, HEARTH_TIER_SSD, tier, options.bytes_per_s, options.drain_ms);
    return HEARTH_OK;
}

/* ---- a shared store ---- */

int hearth_attach_shared(struct hearth_cache *cache, const struct hearth_shared_options *given,
                         char *message)
{
    struct hearth_shared_options options = {0};
    struct errinfo info = {0};
    struct tier *tier;

    if (given == NULL || given->struct_size < offsetof(struct hearth_shared_options, ttl_s))
        return cache_say(message, HEARTH_ERROR_INVALID, no_options);
    if (cache->tiers[HEARTH_TIER_REMOTE].tier != NULL)
        return cache_say(message, HEARTH_ERROR_INVALID, "a shared store is attached already");
    memcpy(&options, given, MIN(given->struct_size, sizeof(options)));
    struct tier_shared_options shared = {
        .kv = {.url = options.url != NULL ? options.url : "",
               .ttl_s = options.ttl_s > 0 ? options.ttl_s : TTL_S_DEFAULT,
               .ca_file = options.ca_file,
               .log = cache->disk_log},
        .key = cache->key,
        .seal_key = cache_key_of(options.seal_key),
        .timeout_ns = options.timeout_ms * NS_PER_MS,
        .tenant_percent = options.tenant_percent,
    };
    enum err err = tier_shared_open(&tier, &shared, &info);
    if (err != ERR_OK)
        return cache_say(message, error_of(err), info.text);
    cache->tiers[HEARTH_TIER_REMOTE].sealed = options.seal_key != NULL;
    attach(cache, HEARTH_TIER_REMOTE, tier, 0, options.drain_ms);
    return HEARTH_OK;
}

/* NULL: there is no shared store. */
static struct tier *shared_tier(const struct hearth_cache *cache)
{
    struct tier *tier = cache->tiers[HEARTH_TIER_REMOTE].tier;

    return tier != NULL && tier->ops->find != NULL ? tier : NULL;
}

void hearth_put_note(struct hearth_cache *cache, const unsigned char *key, const void *data,
                     size_t len)
{
    struct tier *tier = shared_tier(cache);

    if (tier != NULL && len <= NOTE_BYTES_MAX)
        tier_shared_put_note(tier, cache_key_of(key), data, len);
}

int hearth_get_note(struct hearth_cache *cache, const unsigned char *key, uint32_t timeout_ms,
                    void **data, size_t *len)
{
    struct tier *tier = shared_tier(cache);
    struct buf note;

    *data = NULL;
    buf_init(&note, NOTE_BYTES_MAX);
    if (tier != NULL &&
        tier_shared_get_note(tier, cache_key_of(key),
                             clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS), &note)) {
        *len = note.len;
        *data = buf_take(&note);
    }
    buf_fini(&note);
    return *data != NULL ? HEARTH_OK : HEARTH_ERROR_MISSING;
}

void hearth_free(void *data)
{
    mem_free(data);
}

int hearth_get_shared_server(struct hearth_cache *cache, size_t index,
                             struct hearth_shared_server *out)
{
    struct hearth_shared_server server = {.struct_size = MIN(out->struct_size, sizeof(server))};
    struct tier *tier = shared_tier(cache);
    struct kv_server_stats stats;

    if (tier == NULL || index >= tier_shared_servers(tier))
        return HEARTH_ERROR_INVALID;
    tier_shared_server(tier, index, &stats);
    snprintf(server.name, sizeof(server.name), "%s", stats.name);
    server.breaker = kv_breaker_name(stats.breaker);
    server.replies = stats.replies;
    server.failures = stats.failures;
    server.opened = stats.opened;
    server.round_trip_s = stats.round_trip_s;
    memcpy(out, &server, server.struct_size);
    return HEARTH_OK;
}

int hearth_get_shared_counter(struct hearth_cache *cache, size_t index, const char **name,
                              const char **help, uint64_t *value)
{
    static const struct {
        const char *name, *help;
        size_t offset;
    } counters[] = {
#define X(name, help) {#name, help, offsetof(struct tier_shared_stats, name)},
        TIER_SHARED_COUNTER_TABLE(X)
#undef X
    };
    struct tier *tier = shared_tier(cache);
    struct tier_shared_stats stats;

    if (tier == NULL || index >= COUNT_OF(counters))
        return HEARTH_ERROR_INVALID;
    tier_shared_stats(tier, &stats);
    *name = counters[index].name;
    *help = counters[index].help;
    memcpy(value, (const char *)&stats + counters[index].offset, sizeof(*value));
    return HEARTH_OK;
}

/* ---- limits ---- */

static int set_limits(struct hearth_cache *cache, const struct tier_limits *limits)
{
    struct tier *ssd = cache->tiers[HEARTH_TIER_SSD].tier;
    bool set = ssd != NULL && ssd->ops->set_limits != NULL && ssd->ops->set_limits(ssd, limits);

    return set ? HEARTH_OK : HEARTH_ERROR_INVALID;
}

int hearth_set_ssd_bytes(struct hearth_cache *cache, uint64_t bytes_max)
{
    if (bytes_max == 0)
        return HEARTH_ERROR_INVALID;
    return set_limits(cache, &(struct tier_limits){.bytes_max = bytes_max});
}

int hearth_set_ssd_day_bytes(struct hearth_cache *cache, uint64_t day_bytes_max)
{
    uint64_t max = day_bytes_max > 0 ? day_bytes_max : UINT64_MAX;

    return set_limits(cache, &(struct tier_limits){.day_bytes_max = max});
}

int hearth_space_set_ssd_share(struct hearth_space *space, uint64_t share_bytes)
{
    struct hearth_cache *cache = space->cache;
    struct tier *ssd = cache->tiers[HEARTH_TIER_SSD].tier;

    if (ssd == NULL || ssd->ops->set_share == NULL)
        return HEARTH_ERROR_INVALID;
    if (!ssd->ops->set_share(ssd, &space->key, share_bytes))
        return HEARTH_ERROR_MEMORY;
    lock_enter(&cache->lock);
    space->slow_shares[HEARTH_TIER_SSD] = share_bytes;
    lock_leave(&cache->lock);
    return HEARTH_OK;
}

/* ---- statistics ---- */

static const enum hearth_tier_state states[] = {
    [TIER_STATE_OK] = HEARTH_STATE_OK,
    [TIER_STATE_DEGRADED] = HEARTH_STATE_DEGRADED,
    [TIER_STATE_READ_ONLY] = HEARTH_STATE_READ_ONLY,
};

static void fill_ram(const struct hearth_cache *cache, const struct hearth_stats *sum,
                     struct hearth_tier_stats *stats)
{
    const struct tier_counts *counts = &cache->tiers[HEARTH_TIER_RAM].counts;

    stats->state = HEARTH_STATE_OK;
    stats->used = pages_bytes_held(cache->pages) + cache->meta_budget.used;
    stats->cap = cache->budget.cap;
    stats->stores = sum->stores;
    stats->evictions = counts->evictions;
    stats->errors = counts->errors;
}

/* Counts since the last reset. Objects that the cache dropped there for room count as evictions. */
static void fill_slow(const struct cache_tier *tier, const struct tier_stats *now,
                      struct hearth_tier_stats *stats)
{
    const struct tier_stats *before = &tier->before;

    stats->state = states[now->state];
    stats->used = now->bytes;
    stats->cap = now->bytes_max;
    stats->stores = now->puts_done - before->puts_done;
    stats->evictions = now->evictions - before->evictions + tier->counts.evictions;
    stats->accepted = now->puts - before->puts;
    stats->queued = now->puts_queued;
    stats->failed = now->puts_failed - before->puts_failed;
    stats->cancelled = now->puts_cancelled - before->puts_cancelled;
    stats->declined = now->refused - before->refused;
    stats->written_today = now->day_bytes;
    stats->errors = now->errors + now->damaged - before->errors - before->damaged;
}

int hearth_get_tier(struct hearth_cache *cache, enum hearth_tier level,
                    struct hearth_tier_stats *out)
{
    struct hearth_tier_stats stats = {.struct_size = MIN(out->struct_size, sizeof(stats))};
    struct tier_stats now = {0};

    if ((unsigned)level >= HEARTH_TIER_COUNT)
        return HEARTH_ERROR_INVALID;
    const struct cache_tier *tier = &cache->tiers[level];
    sweep_tiers(cache);
    if (tier->tier != NULL)
        tier->tier->ops->stats(tier->tier, &now);
    lock_enter(&cache->lock);
    const struct hearth_stats sum = cache_sum_stats(cache);
    if (level == HEARTH_TIER_RAM)
        fill_ram(cache, &sum, &stats);
    else if (tier->tier != NULL)
        fill_slow(tier, &now, &stats);
    stats.objects = tier->counts.objects;
    stats.hits = tier->counts.hits;
    stats.read_bytes = sum.bytes_read_by_tier[level];
    stats.written_bytes = sum.bytes_written_by_tier[level];
    lock_leave(&cache->lock);
    memcpy(out, &stats, stats.struct_size);
    return HEARTH_OK;
}
