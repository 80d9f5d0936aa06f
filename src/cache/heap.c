/*
 * heap.c: a binary heap in an array, items[0] is evicted first; the children of i are 2i + 1 and
 * 2i + 2.
 *
 * The order is total (priority, end, order of insertion), so two heaps with the same history
 * return objects in the same order, whatever the shape of the array: a replay of a trace evicts
 * what the server evicted.
 *
 * The array never shrinks: a cache that was full once will be full again.
 */
#include "cache/heap.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "cache/object.h"

/* Whether a is evicted before b. */
static bool before(const struct object *a, const struct object *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    if (a->end != b->end)
        return a->end > b->end;
    return a->heap_order < b->heap_order;
}

static void place(struct heap *heap, size_t slot, struct object *object)
{
    heap->items[slot] = object;
    object->heap_slot = (int32_t)slot;
}

static void sift_up(struct heap *heap, size_t slot, struct object *object)
{
    while (slot > 0 && before(object, heap->items[(slot - 1) / 2])) {
        place(heap, slot, heap->items[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    place(heap, slot, object);
}

static void sift_down(struct heap *heap, size_t slot, struct object *object)
{
    for (;;) {
        size_t child = 2 * slot + 1;
        if (child + 1 < heap->count && before(heap->items[child + 1], heap->items[child]))
            child++;
        if (child >= heap->count || before(object, heap->items[child]))
            break;
        place(heap, slot, heap->items[child]);
        slot = child;
    }
    place(heap, slot, object);
}

/* Moves the object to its slot, given that only this object may be misplaced. */
static void sift(struct heap *heap, size_t slot, struct object *object)
{
    assert(!isnan(object->priority)); /* NaN has no order and would corrupt the heap */
    if (slot > 0 && before(object, heap->items[(slot - 1) / 2]))
        sift_up(heap, slot, object);
    else
        sift_down(heap, slot, object);
}

static bool in_heap(const struct heap *heap, const struct object *object)
{
    if (object->heap_slot == OBJECT_NOT_IN_HEAP)
        return false;
    assert(object->heap_slot >= 0 && (size_t)object->heap_slot < heap->count);
    assert(heap->items[object->heap_slot] == object); /* otherwise it is in another heap */
    return true;
}

void heap_init(struct heap *heap)
{
    *heap = (struct heap){0};
}

void heap_fini(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->items[i]->heap_slot = OBJECT_NOT_IN_HEAP;
    mem_free(heap->items);
    *heap = (struct heap){0};
}

bool heap_reserve(struct heap *heap, size_t count)
{
    assert(count <= INT32_MAX); /* heap_slot */
    return mem_try_reserve(&heap->items, count, &heap->cap, sizeof(struct object *));
}

bool heap_push(struct heap *heap, struct object *object)
{
    assert(object->heap_slot == OBJECT_NOT_IN_HEAP);
    if (!heap_reserve(heap, heap->count + 1))
        return false;
    object->heap_order = heap->order_next++;
    heap->count++;
    sift(heap, heap->count - 1, object);
    return true;
}

void heap_remove(struct heap *heap, struct object *object)
{
    if (!in_heap(heap, object))
        return;
    size_t slot = (size_t)object->heap_slot;
    struct object *moved = heap->items[--heap->count];
    object->heap_slot = OBJECT_NOT_IN_HEAP;
    if (moved != object)
        sift(heap, slot, moved);
}

void heap_moved(struct heap *heap, struct object *object)
{
    if (in_heap(heap, object))
        sift(heap, (size_t)object->heap_slot, object);
}

void heap_rebuild(struct heap *heap)
{
    for (size_t slot = heap->count / 2; slot-- > 0;)
        sift_down(heap, slot, heap->items[slot]);
}

struct object *heap_first(const struct heap *heap)
{
    return heap->count ? heap->items[0] : NULL;
}
