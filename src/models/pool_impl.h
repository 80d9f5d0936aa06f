/*
 * pool_impl.h: what the files of the pool share. Nobody else includes it.
 *
 *      pool.c         the table: names, uses, waits, views
 *      pool_loader.c  the loader's thread: room, load, unload
 *      pool_keeper.c  the keeper's thread: deadlines, TTLs, files
 */
#ifndef HEARTH_MODELS_POOL_IMPL_H
#define HEARTH_MODELS_POOL_IMPL_H

#include <stdatomic.h>

#include "base/lock.h"
#include "models/pool.h"

struct pool_entry {
    struct pool_spec spec; /* texts owned; constant */
    bool adopted;          /* constant */
    size_t index;          /* constant */

    /* All under the pool's lock. */
    enum pool_state state;
    struct model *model; /* READY, and UNLOADING until it is being closed */
    uint32_t uses;
    struct list waits; /* struct pool_wait */
    bool by_hand;      /* LOADING: wanted although nobody waits */
    bool again;        /* UNLOADING: to be loaded afterwards */
    bool cancel;       /* LOADING: not wanted any more */
    bool inspected;    /* LOADING: the file was looked at for this load */
    uint64_t ticket;   /* LOADING: who asked first */
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
    struct cond work;                             /* of the loader */
    struct cond watch;                            /* of the keeper */
    struct cond moved;                            /* a state has changed: pool_wait_ready */
    struct pool_entry **entries GUARDED_BY(lock); /* constant once added */
    size_t entries_count GUARDED_BY(lock);
    struct pool_entry *loading GUARDED_BY(lock); /* the one that the loader is at */
    size_t waits GUARDED_BY(lock);
    uint64_t tickets GUARDED_BY(lock);
    atomic_uint stalled;                      /* models, at the last look of the watchdog */
    struct sched_stats past GUARDED_BY(lock); /* of models that were unloaded */
    bool closing GUARDED_BY(lock);
    void (*watch_fn)(const char *name, float done, void *arg) GUARDED_BY(lock);
    void *watch_arg GUARDED_BY(lock);
    struct thread loader, keeper;
};

/* ---- pool.c ---- */

/* Into LOADING, at the end of the queue. */
void pool_queue_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock);
/* Into UNLOADING: the loader closes it when its last use is gone. */
void pool_retire_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock);
/* Takes a wait out of its entry; it belongs to the caller, who calls done without the lock. */
void pool_take_wait_locked(struct pool *pool, struct pool_wait *wait) REQUIRES(lock);
void pool_set_state_locked(struct pool *pool, struct pool_entry *entry, enum pool_state state)
    REQUIRES(lock);

/* Aborts unless the table is as it must be whenever the lock is free. Does nothing without
 * HEARTH_DEBUG. */
void pool_check_state_locked(const struct pool *pool) REQUIRES(lock);

/* ---- threads; arg is the pool ---- */
void pool_loader_run(void *arg);
void pool_keeper_run(void *arg);

#endif
