/*
 * shared_queue.c: a sorted list. It has some hundred entries at most, so scans are cheap beside
 * the writes that they order.
 */
#include "tier/shared_queue.h"

#include <string.h>

#include "base/mem.h"

/* ---- puts ---- */

static void *copy_of(const void *from, size_t len)
{
    void *copy = mem_alloc(len + 1);

    if (len > 0)
        memcpy(copy, from, len);
    return copy;
}

struct shared_put *shared_put_create(const struct tier_meta *meta, const void *data,
                                     tier_done_fn done, void *arg)
{
    struct shared_put *put = mem_alloc(sizeof(*put));

    *put = (struct shared_put){.meta = *meta, .data = data, .done = done, .arg = arg};
    put->meta.tokens = copy_of(meta->tokens, meta->tokens_count * sizeof(*meta->tokens));
    put->meta.places = copy_of(meta->places, meta->places_count * sizeof(*meta->places));
    return put;
}

struct shared_put *shared_put_create_note(const struct hash256 *key, const void *data, size_t len)
{
    struct shared_put *put = mem_alloc(sizeof(*put));

    *put = (struct shared_put){.meta = {.key = *key, .bytes = len}, .note = true};
    put->data = copy_of(data, len);
    return put;
}

void shared_put_free(struct shared_put *put)
{
    if (put->note)
        mem_free((void *)(uintptr_t)put->data);
    mem_free((void *)(uintptr_t)put->meta.tokens);
    mem_free((void *)(uintptr_t)put->meta.places);
    mem_free(put);
}

/* ---- the queue ---- */

void shared_queue_init(struct shared_queue *queue, uint64_t items_max, uint64_t bytes_max)
{
    *queue = (struct shared_queue){.items_max = items_max, .bytes_max = bytes_max};
    list_init(&queue->puts);
}

static bool fits(const struct shared_queue *queue, const struct shared_put *put)
{
    return queue->puts.count < queue->items_max &&
           queue->bytes + put->meta.bytes <= queue->bytes_max;
}

/* A put alone in the queue may be larger than a share. */
static bool is_over_share(const struct shared_queue *queue, const struct shared_put *new)
{
    uint64_t bytes = new->meta.bytes;

    LIST_FOREACH (struct shared_put, put, &queue->puts, link)
        bytes += hash256_eq(&put->meta.space, &new->meta.space) ? put->meta.bytes : 0;
    return !list_empty(&queue->puts) && bytes > queue->bytes_max / 2;
}

static void take_out(struct shared_queue *queue, struct shared_put *put)
{
    list_remove(&queue->puts, &put->link);
    shared_queue_release(queue, put);
}

static void make_way(struct shared_queue *queue, const struct shared_put *new,
                     struct list *displaced)
{
    struct shared_put *last;

    while (!fits(queue, new) &&
           (last = LIST_ENTRY(list_last(&queue->puts), struct shared_put, link)) != NULL &&
           last->meta.urgency > new->meta.urgency) {
        take_out(queue, last);
        list_push_back(displaced, &last->link);
    }
}

/* After those that are as urgent, or more. */
static void insert(struct shared_queue *queue, struct shared_put *new)
{
    struct shared_put *next = NULL;

    LIST_FOREACH (struct shared_put, put, &queue->puts, link) {
        if (put->meta.urgency <= new->meta.urgency)
            continue;
        next = put;
        break;
    }
    if (next != NULL)
        list_insert_before(&queue->puts, &next->link, &new->link);
    else
        list_push_back(&queue->puts, &new->link);
    queue->bytes += new->meta.bytes;
}

enum shared_admission shared_queue_admit(struct shared_queue *queue, struct shared_put *put,
                                         struct list *displaced)
{
    if (!put->note && is_over_share(queue, put))
        return SHARED_OVER_SHARE;
    if (!put->note)
        make_way(queue, put, displaced);
    if (!fits(queue, put))
        return SHARED_QUEUE_FULL;
    insert(queue, put);
    return SHARED_ADMITTED;
}

struct shared_put *shared_queue_take(struct shared_queue *queue)
{
    struct list_node *link = list_pop_front(&queue->puts);

    return LIST_ENTRY(link, struct shared_put, link);
}

void shared_queue_release(struct shared_queue *queue, const struct shared_put *put)
{
    queue->bytes -= put->meta.bytes;
}

struct shared_put *shared_queue_remove(struct shared_queue *queue, const struct hash256 *key)
{
    LIST_FOREACH (struct shared_put, put, &queue->puts, link) {
        if (!hash256_eq(&put->meta.key, key))
            continue;
        take_out(queue, put);
        return put;
    }
    return NULL;
}
