/*
 * contents.h: iterating over all cached objects without blocking other threads. Internal to the
 * cache (cache.h); everything here runs under its lock.
 */
#ifndef HEARTH_CACHE_CONTENTS_H
#define HEARTH_CACHE_CONTENTS_H

#include "base/attr.h"
#include "cache/object.h"

struct hearth_cache;
struct hearth_space;
struct node;

/* A position among the cached objects that stays valid while the lock is released and objects
 * come and go around it. It ends where the list ended at the start, and keeps the space from
 * being removed. */
struct place {
    struct hearth_cache *cache;
    struct hearth_space *only;  /* this space only; NULL: all */
    struct hearth_space *space; /* current space; NULL: at the end */
    struct object mark, end;    /* of kind 0 */
};

void place_begin(struct place *place, struct hearth_cache *cache, struct hearth_space *only)
    REQUIRES(lock);
/* The next object; NULL at the end. The caller unlocks after every few dozen of them. */
struct object *place_next(struct place *place) REQUIRES(lock);
void place_end(struct place *place) REQUIRES(lock); /* also before the end is reached */
/* The first object with this key (the key of the block it ends in), NULL when there is none.
 * Unlocks now and then. */
struct object *place_find(struct hearth_cache *cache, const unsigned char *key) REQUIRES(lock);
/* The first node of an object; for a snapshot, the node that it ends in. */
struct node *contents_first_node(const struct object *object) REQUIRES(lock);

#endif
