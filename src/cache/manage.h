/*
 * manage.h: expiry times of objects. Internal to the cache (cache.h); everything here runs under
 * its lock.
 */
#ifndef HEARTH_CACHE_MANAGE_H
#define HEARTH_CACHE_MANAGE_H

#include <stdint.h>

#include "base/attr.h"

struct deferred;
struct hearth_cache;
struct object;

/* Forgets expired objects. Call before any lookup. O(1) when none has expired. */
void manage_expire_due(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Sets the expiry time of an object; 0: never. */
void manage_set_expiry(struct object *object, uint64_t expires_ns) REQUIRES(lock);

#endif
