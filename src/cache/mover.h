/* mover.h: moves objects between memory and the slower tiers. Internal to the cache (cache.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "cache/object.h"

struct deferred;
struct deferred_put;
struct hearth_cache;
struct tier_meta;

/* Writes an object in memory to each attached slower tier that lacks it. */
void mover_write(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Starts reading a leased object into memory for a request. FULL: there is no memory now, but
 * operations are running whose end may free some. */
enum mover_answer { MOVER_COMING, MOVER_FULL, MOVER_CANNOT };
enum mover_answer mover_read(struct hearth_cache *cache, struct object *object,
                             uint64_t request) NODISCARD;
/* Waits until a leased object is in memory or its read has failed: OK, MISSING or TIMEOUT.
 * Unlocks while it waits. */
int mover_await(struct hearth_cache *cache, const struct object *object, uint64_t deadline_ns)
    REQUIRES(lock);
/* The metadata that a tier stores beside an object's bytes; free *tokens with mem_free. False:
 * no memory. */
bool mover_fill_meta(const struct object *object, struct tier_meta *meta, int32_t **tokens)
    REQUIRES(lock) NODISCARD;
void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts);
/* A slower tier has freed `retry_credit` queue places or objects: retries what it declined, the
 * newest first, a few at a time. */
void mover_retry(struct hearth_cache *cache, enum hearth_tier level, size_t retry_credit);
/* Stops offering the object to the tiers (TIER_BITs) that declined it. */
void mover_give_up(struct object *object, uint32_t tiers) REQUIRES(lock);
/* Retries declined writes as far as the tiers accept them now, and waits until nothing is
 * moving, but no longer than the timeout. */
void mover_drain(struct hearth_cache *cache, uint64_t timeout_ms);
