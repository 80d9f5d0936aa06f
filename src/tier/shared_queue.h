/*
 * shared_queue.h: objects that wait to be written to a shared store.
 *
 *      admit --> [ system prompts | junctions, ended turns | the rest | superseded ] --> take
 *                 ordered by urgency, then by arrival          the last ones are displaced
 *
 * Bounded in objects and in bytes. A space (a tenant's model) may have half of the bytes. A put
 * that was taken counts until it is released, because its bytes are still in memory.
 *
 * Threads: guarded by the owner's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/list.h"
#include "tier/tier.h"

struct shared_put {
    struct list_node link;
    struct tier_meta meta; /* tokens and places are copies, owned */
    const void *data;
    bool note; /* a small value: its data is a copy, owned; without done */
    tier_done_fn done;
    void *arg;
};

struct shared_queue {
    struct list puts;
    uint64_t bytes; /* of puts that were not released */
    uint64_t items_max, bytes_max;
};

enum shared_admission { SHARED_ADMITTED, SHARED_OVER_SHARE, SHARED_QUEUE_FULL };

struct shared_put *shared_put_create(const struct tier_meta *meta, const void *data,
                                     tier_done_fn done, void *arg);
struct shared_put *shared_put_create_note(const struct hash256 *key, const void *data, size_t len);
void shared_put_free(struct shared_put *put);

void shared_queue_init(struct shared_queue *queue, uint64_t items_max, uint64_t bytes_max);
/* Takes the put over when it is admitted. Less urgent ones that made way are moved to `displaced`.
 * A note displaces nothing. */
enum shared_admission shared_queue_admit(struct shared_queue *queue, struct shared_put *put,
                                         struct list *displaced) NODISCARD;
/* The most urgent put; NULL: none. Release it when its bytes are not needed any more. */
struct shared_put *shared_queue_take(struct shared_queue *queue);
void shared_queue_release(struct shared_queue *queue, const struct shared_put *put);
/* Removes the put of this key; NULL: none is queued. */
struct shared_put *shared_queue_remove(struct shared_queue *queue, const struct hash256 *key);
