/*
 * heap.h: a priority queue of objects, lowest priority first; each object knows its place (object->heap_slot), so that a changed priority
 * moves in O(log n). Equal priorities leave in the order of `end` (later tokens first), then of insertion: deterministic.
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
};

void heap_init(struct heap *heap);
void heap_fini(struct heap *heap);
bool heap_push(struct heap *heap, struct object *object) NODISCARD; /* false: no memory */
void heap_remove(struct heap *heap, struct object *object);         /* a no-op when it is not in it */
void heap_moved(struct heap *heap, struct object *object);          /* its priority changed */
struct object *heap_first(const struct heap *heap);                 /* NULL when empty */
void heap_check(const struct heap *heap);

#endif
