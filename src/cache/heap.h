/*
 * heap.h: a priority queue of objects, lowest priority first; each object knows its place
 * (object->heap_slot), so that a changed priority moves in O(log n). Equal priorities leave in the
 * order of `end` (later tokens first), then of insertion: deterministic.
 *
 * Whoever makes an object sets heap_slot to OBJECT_NOT_IN_HEAP. An object is in at most one heap at
 * a time; the heap owns no object.
 *
 * Owner: the cache, under its lock.
 */
#ifndef HEARTH_CACHE_HEAP_H
#define HEARTH_CACHE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct object;

struct heap {
    struct object **items;
    size_t count, cap;
    uint64_t order_next; /* of insertion */
};

void heap_init(struct heap *heap);
void heap_fini(struct heap *heap); /* what is still in it is taken out */

/* Room for `count` objects in all: until there are more, heap_push cannot fail. A cache that
 * reserves a place for each object when it makes the object may push from where no failure can be
 * handled (index_set_watch). False: no memory, nothing changed. */
bool heap_reserve(struct heap *heap, size_t count) NODISCARD;
/* false: no memory, nothing changed */
bool heap_push(struct heap *heap, struct object *object) NODISCARD;
/* a no-op when it is not in it */
void heap_remove(struct heap *heap, struct object *object);
/* its priority changed; a no-op when it is not in it */
void heap_moved(struct heap *heap, struct object *object);
struct object *heap_first(const struct heap *heap); /* NULL when empty */
void heap_check(const struct heap *heap);

#endif
