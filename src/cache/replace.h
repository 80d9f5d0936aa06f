/*
 * replace.h: what a conversation that grows takes the place of. A part of the inside of the cache
 * (cache.h).
 */
#ifndef HEARTH_CACHE_REPLACE_H
#define HEARTH_CACHE_REPLACE_H

#include <stdbool.h>

#include "base/attr.h"
#include "cache/object.h"

struct deferred;
struct hearth_store;

/* The snapshot that is being stored is of the end of a prompt or of an answer. */
bool replace_is_turn_end(const struct hearth_store *store);
/* Before rows of the store go into the index, and after a snapshot of it has: what they take the
 * place of is the first to leave. */
void replace_tail(struct hearth_store *store, struct deferred *deferred) REQUIRES(lock);
void replace_snapshots(struct hearth_store *store, const struct object *snapshot,
                       struct deferred *deferred) REQUIRES(lock);

#endif
