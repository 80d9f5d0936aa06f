/*
 * shared_impl.h: what the files of the shared tier share. Internal to tier_shared.h.
 *
 *      tier_shared.c     opening and closing, what is known without asking, statistics
 *      shared_reader.c   gets and their threads; questions what other machines have stored
 *      shared_writer.c   puts, notes, deletions, and their thread
 *      shared_queue.h    the order in which puts are written
 *      shared_known.h    heads and empty pages that are remembered
 *      shared_object.h   objects, pages and notes in the store; no state
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "tier/shared_known.h"
#include "tier/shared_object.h"
#include "tier/shared_queue.h"
#include "tier/tier_shared.h"

enum { SHARED_READERS_MAX = 16 };

struct shared_doomed {
    struct list_node link;
    struct map_node by_key;
    struct hash256 key;
};

struct tier_shared {
    struct tier tier;
    struct tier_shared_options options;
    struct shared_io io;
    struct log *log;
    struct lock lock;
    struct cond for_writer, for_readers, for_idle;
    struct shared_queue puts GUARDED_BY(lock);
    uint64_t objects_queued GUARDED_BY(lock); /* puts that have not ended, without notes */
    bool writing GUARDED_BY(lock);
    struct list gets GUARDED_BY(lock), gets_running GUARDED_BY(lock);
    struct list doomed GUARDED_BY(lock); /* keys to be deleted: not found from now on */
    struct map doomed_by_key GUARDED_BY(lock);
    struct shared_known known GUARDED_BY(lock);
    uint64_t get_id GUARDED_BY(lock);
    bool held GUARDED_BY(lock), closing GUARDED_BY(lock), stop GUARDED_BY(lock);
    struct tier_stats stats GUARDED_BY(lock);
    struct tier_shared_stats counters GUARDED_BY(lock);
    bool failing GUARDED_BY(lock);
    struct thread threads[SHARED_READERS_MAX + 1];
    unsigned threads_count;
};

static inline struct tier_shared *shared_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct tier_shared, tier);
}

/* ---- shared_reader.c ---- */

void shared_reader_run(void *shared);
void shared_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                tier_done_fn done, void *arg, struct tier_op **op);
void shared_cancel(struct tier *tier, struct tier_op *op);
void shared_cancel_all(struct tier_shared *shared); /* when closing */
bool shared_find(struct tier *tier, const struct hash256 *space, const struct hash256 *places,
                 size_t count, uint64_t deadline_ns, struct tier_page *pages);
void shared_read_meta(struct tier *tier, const struct hash256 *keys, size_t count,
                      uint64_t deadline_ns, void (*fn)(const struct tier_meta *meta, void *arg),
                      void *arg);

/* ---- shared_writer.c ---- */

void shared_writer_run(void *shared);
bool shared_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                tier_done_fn done, void *arg);
void shared_drop(struct tier *tier, const struct hash256 *key);
bool shared_is_doomed_locked(struct tier_shared *shared, const struct hash256 *key) REQUIRES(lock);
bool shared_flush(struct tier *tier, uint64_t timeout_ns);
void shared_end_puts(struct tier_shared *shared); /* those that are queued, when closing */
