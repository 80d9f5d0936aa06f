/*
 * manage.h: times at which objects are forgotten. A part of the inside of the cache (cache.h),
 * which everything here runs under the lock of.
 */
#ifndef HEARTH_CACHE_MANAGE_H
#define HEARTH_CACHE_MANAGE_H

#include <stdint.h>

#include "base/attr.h"

struct deferred;
struct hearth_cache;
struct object;

/* Forgets what is due: before anything is looked up. O(1) when nothing is. */
void manage_expire_due(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Sets the time at which an object is forgotten; 0: never. */
void manage_set_expiry(struct object *object, uint64_t expires_ns) REQUIRES(lock);

#endif
