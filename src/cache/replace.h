/*
 * replace.h: what a growing conversation supersedes. Internal to the cache (cache.h).
 */
#ifndef HEARTH_CACHE_REPLACE_H
#define HEARTH_CACHE_REPLACE_H

#include <stdbool.h>

#include "base/attr.h"
#include "cache/object.h"

struct deferred;
struct hearth_store;

/* Whether the snapshot being stored is of the end of a prompt or an answer. */
bool replace_is_turn_end(const struct hearth_store *store);
/* Called before rows of the store enter the index, and after a snapshot of it has: the objects
 * that they supersede become the first to be evicted. */
void replace_tail(struct hearth_store *store, struct deferred *deferred) REQUIRES(lock);
void replace_snapshots(struct hearth_store *store, const struct object *snapshot,
                       struct deferred *deferred) REQUIRES(lock);

#endif
