/*
 * pool.h: all models that a server knows: which are loaded, their users, and which are unloaded
 * when room is needed.
 *
 *      names --> pool_acquire --> READY: the model, with a use counted
 *                     |---------> WAITING: wait->done is called once, wait->progress before it
 *                     '---------> REFUSED: wait->info says why
 *
 *              acquire, load           loaded         unload, LRU, TTL, file changed
 *      KNOWN ----------------> LOADING -------> READY -------------------------------> UNLOADING
 *        ^                      |  |  ^                                                  |   |
 *        |<-- unloaded by hand -'  |  '--------------- requested again ------------------'   |
 *        |                         | failed                                                  |
 *        |                         '------> FAILED --- next acquire, load --> LOADING        |
 *        '---------------------------- last use released ------------------------------------'
 *
 * One thread loads and unloads, one model at a time, the longest-waiting first; a second one
 * handles deadlines and periodic checks (TTL, files). No other thread ever waits: a caller that
 * needs a model that is not loaded leaves a `struct pool_wait` and is called back.
 *
 * ROOM. A load may evict other models: idle ones first, the least recently used first. If all are
 * in use, the least recently used accepts no new users and is unloaded after its last one, so that
 * a busy model cannot block another one forever. Pinned models stay.
 *
 * FILES (I83). The header of a file is checked before each load. Before each use of a loaded model
 * its identity is compared (size, times, place on disk); if it differs, the model is reloaded. A
 * missing file is reported, but a loaded model continues to work: its memory is complete.
 *
 * CACHE. Spaces close with the model; their content stays in the cache, and the model finds it when
 * it is loaded again. A file with other content has another fingerprint, hence other spaces (keeps
 * I6).
 *
 * Threads: any; create and destroy from one. Lock: LOCK_RANK_POOL, never held during a callback, a
 * load or an unload.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "models/model.h"
#include "models/model_file.h"

struct clock;
struct log;
struct pool;
struct pool_entry;

/* X(value, name) */
#define POOL_STATE_TABLE(X)        \
    X(POOL_KNOWN, "known")         \
    X(POOL_LOADING, "loading")     \
    X(POOL_READY, "ready")         \
    X(POOL_UNLOADING, "unloading") \
    X(POOL_FAILED, "failed")       \
    X(POOL_DEAD, "dead") /* in views only: READY, but its engine died and is not restarted yet */

enum pool_state { POOL_STATE_TABLE(TABLE_VALUE) POOL_STATE_COUNT };

const char *pool_state_name(enum pool_state state);

enum { POOL_MODELS_MAX = 4096 };

/* An available model. Texts are copied, settings are borrowed. */
struct pool_spec {
    const char *name;    /* the name that clients use; unique */
    const char *aliases; /* further names, separated by commas; NULL = none */
    const char *path;
    const void *settings; /* passed to the loader */
    uint64_t ttl_ns;      /* unloaded when unused for this long; 0 = never */
    bool pinned;          /* unloaded only by hand */
};

/* External operations. Called without locks. */
struct pool_ops {
    /* Inspects the file: `quick` for bytes and stamp only. On the loader's or a caller's thread. */
    enum err (*inspect)(const struct pool_spec *spec, bool quick, struct model_file *file,
                        struct errinfo *info, void *arg);
    /* Loads. `warm`: no request is waiting, so there is time to warm up. When `progress` (0..1)
     * returns false, it must return ERR_CANCELLED. On the loader's thread. */
    enum err (*load)(const struct pool_spec *spec, bool warm,
                     bool (*progress)(float done, void *arg), void *progress_arg,
                     struct model **model, struct errinfo *info, void *arg);
    void *arg;
};

/* Zero is a good default for each field except `ops`. */
struct pool_options {
    struct pool_ops ops;
    uint64_t bytes_max;  /* weights and contexts of all loaded models; 0 = any */
    uint32_t models_max; /* loaded at the same time; 0 = any */
    uint32_t waits_max;  /* 0 = 1,024 */
    uint32_t check_ms;   /* how often the keeper checks; 0 = never: only by pool_check */
    struct clock *clock; /* for TTLs; NULL = the real clock */
    struct log *log;
    /* from the hard limit on, models that nothing uses are unloaded, one per check; NULL = not */
    struct memory *memory;
};

enum err pool_create(struct pool **pool, const struct pool_options *options,
                     struct errinfo *info) NODISCARD;
/* Stops a running load, refuses the remaining waits (ERR_CLOSED), closes all models. No use may be
 * left. Accepts NULL inside. */
void pool_destroy(struct pool **pool);

/* The first one is the default. ERR_EXISTS, ERR_LIMIT, ERR_INVALID (an empty name). */
enum err pool_add(struct pool *pool, const struct pool_spec *spec, struct errinfo *info) NODISCARD;

/* ---- use ---- */

enum pool_answer { POOL_ANSWER_READY, POOL_ANSWER_WAITING, POOL_ANSWER_REFUSED };

/* A request for a model. Zeroed except for the first part. Must live until `done`, or until
 * pool_acquire returns READY or REFUSED. */
struct pool_wait {
    /* Called once after WAITING: `model` is set and its use counted, or it is NULL and `info` says
     * why. On a thread of the pool; must not block. */
    void (*done)(struct pool_wait *wait);
    /* 0..1; never at the same time as done. May be NULL. Same rules as done. */
    void (*progress)(struct pool_wait *wait, float done);
    uint64_t deadline_ns; /* of the real monotonic clock; 0 = none */

    struct model *model; /* to be released with pool_release */
    /* the requested model's; valid as long as the pool. NULL: none was found */
    const char *name;
    /* NOT_FOUND (there are no models), TIMEOUT, CANCELLED, CLOSED, BUSY (too many waits); or, with
     * `failed`, why loading failed, with any code */
    struct errinfo info;
    bool failed;

    /* private to the pool */
    struct list_node link;
    struct pool_entry *entry;
    unsigned told; /* percent */
    bool busy, cancelled;
};

/* `name` empty or unknown: the default model. Inspects the file (pool_ops.inspect, quick) when the
 * model is loaded. */
enum pool_answer pool_acquire(struct pool *pool, struct str name, struct pool_wait *wait) NODISCARD;
void pool_release(struct pool *pool, struct model *model);

/* A running wait soon ends with ERR_CANCELLED; one that has not begun is refused. From any thread
 * that knows it to be alive. */
void pool_cancel(struct pool *pool, struct pool_wait *wait);

/* ---- explicit load and unload ---- */

/* Starts a load, or an unload as soon as the last use is released; a no-op when it is already in
 * that state. ERR_NOT_FOUND. Does not wait. */
enum err pool_load(struct pool *pool, struct str name, struct errinfo *info) NODISCARD;
enum err pool_unload(struct pool *pool, struct str name, struct errinfo *info) NODISCARD;

/* Waits until it is neither loading nor unloading. ERR_OK: it is ready; otherwise `info` says why
 * not. For starting a server. */
enum err pool_wait_ready(struct pool *pool, struct str name, struct errinfo *info) NODISCARD;

/* Reports the progress of every load, on the loader's thread; set it before the first one. NULL ends
 * it. Until then failed loads are not logged: the caller waits for them. */
void pool_on_progress(struct pool *pool, void (*fn)(const char *name, float done, void *arg),
                      void *arg);

/* Sets the TTL of all models that are not pinned; 0 = never unload. */
void pool_set_ttl(struct pool *pool, uint64_t ttl_ns);

/* Checks TTLs and files once. The keeper does so periodically. */
void pool_check(struct pool *pool);

/* ---- views ---- */

struct pool_view {
    const char *name;    /* valid as long as the pool */
    const char *aliases; /* as in its spec; likewise */
    const char *path;    /* likewise */
    enum pool_state state;
    float progress; /* of LOADING */
    bool pinned, is_default, file_missing;
    uint32_t uses, waits;
    /* of this machine's memory: as loaded, else estimated; 0 = unknown */
    uint64_t bytes;
    uint64_t file_bytes; /* 0 = unknown */
    uint64_t ttl_ns, idle_ns;
    uint64_t loads;       /* number of loads */
    double load_s;        /* of the last load */
    struct errinfo error; /* of FAILED and DEAD; else its code is ERR_OK */
};

size_t pool_count(struct pool *pool);
/* False: there is no such index. */
bool pool_view(struct pool *pool, size_t index, struct pool_view *view);
/* The index of a name, exactly or by the rules of pool_acquire (`exact` false). SIZE_MAX: none. */
size_t pool_find(struct pool *pool, struct str name, bool exact);
/* For reports: the model of that index if it is ready, held until pool_unpeek; else NULL. Checks no
 * file, loads nothing, and does not count as a use for eviction or the TTL. */
struct model *pool_peek(struct pool *pool, size_t index) NODISCARD;
/* The same for the first ready model from *index on; moves *index past it. NULL: no more, or no
 * pool. Begin with 0. */
struct model *pool_next(struct pool *pool, size_t *index) NODISCARD;
void pool_unpeek(struct pool *pool, struct model *model);

/* Totals of all models, including unloaded ones. */
void pool_get_stats(struct pool *pool, struct sched_stats *stats);

/* Whether no loaded model's engine hangs (sched_alive of all). */
bool pool_alive(struct pool *pool, uint64_t within_ns);

/* Runs the watchdog on every loaded model (sched_run_watchdog); the keeper does so at every check. */
void pool_run_watchdog(struct pool *pool);
/* How many models were stalled at the last check. Takes no lock. */
unsigned pool_stalled(const struct pool *pool);
/* How many loaded models have no engine (POOL_DEAD). *needed: one of them is pinned, or the only
 * model of the server. */
unsigned pool_dead(struct pool *pool, bool *needed);
