/*
 * heap.h: a priority queue of objects, lowest priority first. Each object knows its slot
 * (object->heap_slot), so a changed priority is fixed in O(log n). Equal priorities leave in order
 * of `end` (later tokens first), then of insertion: deterministic.
 *
 * Creators of objects set heap_slot to OBJECT_NOT_IN_HEAP. An object is in at most one heap; the
 * heap owns no objects.
 *
 * Owner: the cache, under its lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct object;

struct heap {
    struct object **items;
    size_t count, cap;
    uint64_t order_next; /* of insertion */
    /* when room.c last computed all priorities, and from which rates */
    uint64_t renewed_ns, renewed_version;
};

void heap_init(struct heap *heap);
void heap_fini(struct heap *heap); /* removes any remaining objects */

/* Reserves slots for `count` objects in total: up to that number heap_push cannot fail. The
 * cache reserves a slot for each object it creates, so it may push where no failure can be
 * handled (index_on_change). False: no memory, nothing changed. */
bool heap_reserve(struct heap *heap, size_t count) NODISCARD;
/* false: no memory, nothing changed */
bool heap_push(struct heap *heap, struct object *object) NODISCARD;
/* no-op when it is not in this heap */
void heap_remove(struct heap *heap, struct object *object);
/* call after its priority changed; no-op when it is not in this heap */
void heap_moved(struct heap *heap, struct object *object);
/* call after the priorities of any number of its objects changed; O(n) */
void heap_rebuild(struct heap *heap);
struct object *heap_first(const struct heap *heap); /* NULL when empty */
