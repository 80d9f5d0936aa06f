/*
 * queue.c: a ring of pointers under one lock, and a condition for consumers that wait.
 *
 *      items   [ . . c d e . . . ]      capacity 8, count 3
 *                    ^ head   ^ head + count, where the next one goes
 *
 * A wait ends when its condition holds, not when it is signalled: after a timeout the condition is
 * checked once more, so that an item that arrived at the last moment is taken.
 *
 * There is no lock-free ring: items are requests and blobs, thousands per second, not millions.
 */
#include "base/queue.h"

#include <assert.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"

struct queue {
    size_t capacity;

    struct lock lock;
    struct cond not_empty;
    void **items GUARDED_BY(lock); /* a ring of `capacity` */
    size_t head GUARDED_BY(lock);  /* the oldest */
    size_t count GUARDED_BY(lock);
    bool closed GUARDED_BY(lock);
};

/* Readers must lock as well; const promises not to change the content. */
static struct lock *lock_of(const struct queue *queue)
{
    return (struct lock *)&queue->lock;
}

static bool push_locked(struct queue *queue, void *item) REQUIRES(queue->lock)
{
    lock_assert_held(&queue->lock);
    if (queue->closed || queue->count == queue->capacity)
        return false;
    queue->items[(queue->head + queue->count) % queue->capacity] = item;
    queue->count++;
    cond_signal(&queue->not_empty);
    return true;
}

static void *pop_locked(struct queue *queue) REQUIRES(queue->lock)
{
    lock_assert_held(&queue->lock);
    if (queue->count == 0)
        return NULL;
    void *item = queue->items[queue->head];
    queue->items[queue->head] = NULL;
    queue->head = (queue->head + 1) % queue->capacity;
    queue->count--;
    return item;
}

enum err queue_create(struct queue **queue, const char *name, size_t capacity, struct errinfo *info)
{
    assert(capacity >= 1);
    *queue = NULL;
    /* The capacity is an option, so its size is not ours to choose. */
    void **items = mem_try_alloc_array(capacity, sizeof(*items));
    if (items == NULL)
        return err_set(info, ERR_NOMEM, "no memory for the %zu slots of queue '%s'", capacity,
                       name);
    struct queue *made = mem_alloc(sizeof(*made));
    made->capacity = capacity;
    made->items = items;
    lock_init(&made->lock, name, LOCK_RANK_QUEUE);
    cond_init(&made->not_empty);
    *queue = made;
    return ERR_OK;
}

void queue_destroy(struct queue **queue)
{
    struct queue *old = *queue;

    if (old == NULL)
        return;
    assert(old->count == 0);
    cond_fini(&old->not_empty);
    lock_fini(&old->lock);
    mem_free(old->items);
    mem_free(old);
    *queue = NULL;
}

bool queue_try_push(struct queue *queue, void *item)
{
    assert(item != NULL);
    lock_enter(&queue->lock);
    bool pushed = push_locked(queue, item);
    lock_leave(&queue->lock);
    return pushed;
}

void *queue_try_pop(struct queue *queue)
{
    lock_enter(&queue->lock);
    void *item = pop_locked(queue);
    lock_leave(&queue->lock);
    return item;
}

void *queue_pop(struct queue *queue, uint64_t timeout_ns)
{
    uint64_t deadline = clock_deadline_ns(clock_real(), timeout_ns);

    lock_enter(&queue->lock);
    while (queue->count == 0 && !queue->closed)
        if (!cond_wait_until(&queue->not_empty, &queue->lock, deadline))
            break;
    void *item = pop_locked(queue);
    lock_leave(&queue->lock);
    return item;
}

void queue_close(struct queue *queue)
{
    lock_enter(&queue->lock);
    queue->closed = true;
    cond_broadcast(&queue->not_empty);
    lock_leave(&queue->lock);
}

bool queue_closed(const struct queue *queue)
{
    lock_enter(lock_of(queue));
    bool closed = queue->closed;
    lock_leave(lock_of(queue));
    return closed;
}

size_t queue_length(const struct queue *queue)
{
    lock_enter(lock_of(queue));
    size_t count = queue->count;
    lock_leave(lock_of(queue));
    return count;
}
