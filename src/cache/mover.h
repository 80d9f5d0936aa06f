/*
 * mover.h: between memory and the slower tiers. A part of the inside of the cache (cache.h).
 */
#ifndef HEARTH_CACHE_MOVER_H
#define HEARTH_CACHE_MOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "cache/object.h"

struct deferred;
struct deferred_put;
struct hearth_cache;
struct tier_meta;

/* What a tier keeps as `kind` of an object: kind, what it is a part of, and the block size - 1 of
 * its tree, in 8, 8 and 16 bits. */
uint32_t mover_meta_kind(const struct object *object);

/* Writes an object that is in memory to each slower tier that is attached and does not have it. */
void mover_write(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Starts reading a leased object into memory for a request; false when it cannot. */
bool mover_read(struct hearth_cache *cache, struct object *object, uint64_t request) NODISCARD;
/* Waits until a leased object is in memory, or it is known that it will not be: OK, MISSING or
 * TIMEOUT. Leaves the lock while it waits. */
int mover_await(struct hearth_cache *cache, const struct object *object, uint64_t deadline_ns)
    REQUIRES(lock);
/* What a tier is told of an object beside its bytes; *tokens is to be freed with mem_free. False:
 * no memory. */
bool mover_fill_meta(const struct object *object, struct tier_meta *meta, int32_t **tokens)
    REQUIRES(lock) NODISCARD;
void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts);
/* So many places or objects less are taken in a slower tier: tries again what it declined, the
 * newest first, a few at a time. */
void mover_retry(struct hearth_cache *cache, enum hearth_tier level, size_t chances);
/* The object is not to be offered again to the tiers (TIER_BITs) that declined it. */
void mover_give_up(struct object *object, uint32_t tiers) REQUIRES(lock);
/* Writes what was declined, if the tiers take it now, and waits until nothing is moving, for at
 * most the timeout. */
void mover_drain(struct hearth_cache *cache, uint64_t timeout_ms);

#endif
