/*
 * sweep.c: forgets objects that a slower tier has evicted by itself.
 *
 *      tier: its count of evictions has changed --> every object with the tier's bit: has it? --> no:
 *                                                   the bit goes, and the object if it was the last
 *
 * A tier does not say what it evicted: the index has no table of keys, so a list of them would have
 * to be searched for here, object by object, and could overflow. To ask for every object costs the
 * same and is exact, however many left. A sweep is due after a write, and before anything that shows
 * what a tier holds. Sweeps of more than a millisecond take at most a fiftieth of the time, so that a
 * large index on a full disk is swept now and then instead of always.
 *
 * Objects that are being read or written, or leased, are left to those who do that, and to the next
 * sweep.
 */

#include "base/attr.h"
#include "base/clock.h"
#include "cache/cache.h"

enum { BATCH = 64, REST_TIMES = 50, SHORT_NS = 1000 * 1000 };

static bool may_ask(const struct object *object, enum hearth_tier level)
{
    return (object->in & TIER_BIT(level)) != 0 && !object->dropped && object->last != NULL &&
           object->leases == 0 && !object->reading && !object->writing;
}

/* The next objects that the tier should have, leased; 0 at the end. *skipped: some are in use. */
static size_t take_batch(struct place *place, enum hearth_tier level, struct object **batch,
                         bool *skipped) REQUIRES(lock)
{
    struct object *object;
    size_t count = 0;

    while (count < BATCH && (object = place_next(place)) != NULL) {
        if (may_ask(object, level)) {
            room_lease(object);
            batch[count++] = object;
        } else {
            *skipped |= (object->in & TIER_BIT(level)) != 0;
        }
    }
    return count;
}

static void give_batch(struct object **batch, const bool *has, size_t count, enum hearth_tier level,
                       struct deferred *deferred) REQUIRES(lock)
{
    for (size_t i = 0; i < count; i++) {
        bool there = (batch[i]->in & TIER_BIT(level)) != 0 && !batch[i]->writing;
        if (!has[i] && there && !batch[i]->dropped)
            mover_note_evicted(batch[i], level, deferred);
        room_unlease(batch[i], deferred);
    }
}

/* False: some objects could not be asked for. */
static bool sweep(struct hearth_cache *cache, enum hearth_tier level)
{
    struct tier *tier = cache->tiers[level].tier;
    struct object *batch[BATCH];
    bool has[BATCH], skipped = false;
    struct deferred deferred;
    struct place place;
    size_t count;

    cache_enter(cache, &deferred);
    place_begin(&place, cache, NULL);
    while (!cache->closing && (count = take_batch(&place, level, batch, &skipped)) > 0) {
        cache_leave(cache, &deferred);
        for (size_t i = 0; i < count; i++)
            has[i] = tier->ops->has(tier, &batch[i]->key);
        cache_enter(cache, &deferred);
        give_batch(batch, has, count, level, &deferred);
    }
    place_end(&place);
    cache_leave(cache, &deferred);
    return !skipped;
}

void sweep_tier(struct hearth_cache *cache, enum hearth_tier level)
{
    struct cache_tier *at = &cache->tiers[level];
    struct tier_stats stats = {0};

    /* What others do in a shared store is found out by reading it. */
    if (at->tier == NULL || at->tier->ops->find != NULL)
        return;
    lock_enter(&cache->lock);
    bool may = !cache->closing && !at->sweeping && cache_now_ns(cache) >= at->sweep_at_ns;
    at->sweeping |= may;
    cache->calling += may;
    lock_leave(&cache->lock);
    if (!may)
        return;
    uint64_t started_ns = cache_now_ns(cache);
    at->tier->ops->stats(at->tier, &stats);
    bool due = stats.evictions != at->swept_evictions;
    bool all = due && sweep(cache, level);
    lock_enter(&cache->lock);
    uint64_t now_ns = cache_now_ns(cache);
    if (now_ns - started_ns > SHORT_NS)
        at->sweep_at_ns = now_ns + REST_TIMES * (now_ns - started_ns);
    if (all)
        at->swept_evictions = stats.evictions;
    at->sweeping = false;
    lock_leave(&cache->lock);
    cache_called(cache);
}

void sweep_tiers(struct hearth_cache *cache)
{
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        sweep_tier(cache, level);
}
