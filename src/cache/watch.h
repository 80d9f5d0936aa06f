/*
 * watch.h: places in what is held: going through all objects without keeping others waiting. A part
 * of the inside of the cache (cache.h), which everything here runs under the lock of.
 */
#ifndef HEARTH_CACHE_WATCH_H
#define HEARTH_CACHE_WATCH_H

#include "base/attr.h"
#include "cache/object.h"

struct hearth_cache;
struct hearth_space;
struct node;

/* A place in what is held, which stays where it is while the lock is left: objects come and go
 * around it. It ends where the list ended when it began, and keeps the space from being taken away.
 */
struct place {
    struct hearth_cache *cache;
    struct hearth_space *only;  /* of one space; NULL: of all */
    struct hearth_space *space; /* where it is now; NULL: at the end */
    struct object mark, end;    /* of kind 0 */
};

void place_begin(struct place *place, struct hearth_cache *cache, struct hearth_space *only)
    REQUIRES(lock);
/* The next object; NULL at the end. The caller leaves the lock after some dozens of them. */
struct object *place_next(struct place *place) REQUIRES(lock);
void place_end(struct place *place) REQUIRES(lock); /* also before it came to its end */
/* The first object with this key (that of the block that it ends in), NULL when there is none.
 * Leaves the lock now and then. */
struct object *place_find(struct hearth_cache *cache, const unsigned char *key) REQUIRES(lock);
/* The first node of an object; a snapshot belongs to the one that it ends in. */
struct node *watch_first_node(const struct object *object) REQUIRES(lock);

#endif
