/*
 * pool_impl.h: internals shared by the files of the pool only.
 *
 *      pool.c         the table: names, uses, waits, views
 *      pool_loader.c  the loader's thread: room, load, unload
 *      pool_keeper.c  the keeper's thread: deadlines, TTLs, files
 */
#pragma once

#include <stdatomic.h>

#include "base/lock.h"
#include "models/pool.h"

struct pool_entry {
    struct pool_spec spec; /* texts owned; constant */
    size_t index;          /* constant */

    /* The loader's own: scales of adapters that a client has set, for the next load. */
    struct lora_set lora;
    bool lora_changed;

    /* Guarded by the pool's lock. */
    enum pool_state state;
    struct model *model; /* READY, and UNLOADING until closing begins */
    uint32_t uses;
    struct list waits; /* struct pool_wait */
    bool by_hand;      /* LOADING: requested explicitly, even without waits */
    bool again;        /* UNLOADING: load it again afterwards */
    bool cancel;       /* LOADING: no longer wanted */
    bool inspected;    /* LOADING: the file was inspected for this load */
    uint64_t ticket;   /* LOADING: the order of requests */
    uint64_t used_ns;  /* last begin or end of a use; the pool's clock */
    uint64_t failed_ns;
    float progress;
    struct model_file file; /* as of the last load */
    bool file_missing;
    uint64_t bytes;
    uint64_t loads;
    double load_s;
    struct errinfo error;
};

struct pool {
    struct pool_options options;
    struct clock *clock;
    struct lock lock;
    struct cond work;                             /* wakes the loader */
    struct cond due;                              /* wakes the keeper */
    struct cond moved;                            /* a state has changed: pool_wait_ready */
    struct pool_entry **entries GUARDED_BY(lock); /* constant once added */
    size_t entries_count GUARDED_BY(lock);
    struct pool_entry *loading GUARDED_BY(lock); /* the one being loaded */
    size_t waits GUARDED_BY(lock);
    uint64_t tickets GUARDED_BY(lock);
    atomic_uint stalled;                      /* models, at the last check of the watchdog */
    struct sched_stats past GUARDED_BY(lock); /* of models that were unloaded */
    bool closing GUARDED_BY(lock);
    void (*progress_fn)(const char *name, float done, void *arg) GUARDED_BY(lock);
    void *progress_arg GUARDED_BY(lock);
    struct thread loader, keeper;
};

#define POOL_FOREACH(entry, pool)                                                            \
    for (struct pool_entry **entry##_at = (pool)->entries, *entry;                           \
         entry##_at < (pool)->entries + (pool)->entries_count && ((entry) = *entry##_at, 1); \
         entry##_at++)

/* ---- pool.c ---- */

/* Whether the loaded model matches its file (I83), whose absence is noted. Leaves the lock. */
bool pool_is_current(struct pool *pool, struct pool_entry *entry);

/* Sets LOADING, at the end of the queue. */
void pool_queue_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock);
/* Sets UNLOADING: the loader closes it after its last use. */
void pool_retire_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock);
/* Removes a wait from its entry; the caller then calls done without the lock. */
void pool_take_wait_locked(struct pool *pool, struct pool_wait *wait) REQUIRES(lock);
void pool_set_state_locked(struct pool *pool, struct pool_entry *entry, enum pool_state state)
    REQUIRES(lock);

/* Aborts unless the table's invariants hold, as they must whenever the lock is free. A no-op
 * without HEARTH_DEBUG. */
void pool_check_state_locked(const struct pool *pool) REQUIRES(lock);

/* ---- pool_loader.c ---- */

/* The next model to unload for others: an idle one if there is one, the least recently used first.
 * NULL: none but pinned ones is ready. */
struct pool_entry *pool_victim_locked(struct pool *pool) REQUIRES(lock);

/* ---- threads; arg is the pool ---- */
void pool_loader_run(void *arg);
void pool_keeper_run(void *arg);
