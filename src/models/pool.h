/*
 * pool.h: all models that a server knows: which are loaded, who uses them, and who must leave when
 * room is needed.
 *
 *      names --> pool_acquire --> READY: the model, counted
 *                     |---------> WAITING: wait->done comes, once; wait->progress before it
 *                     '---------> REFUSED: wait->info says why
 *
 *               acquire, load              loaded                unload, LRU, TTL, the file changed
 *      KNOWN ------------------> LOADING ----------> READY -------------------------------------> UNLOADING
 *        ^                         |   \                                                          |  |
 *        |                  failed |    '-- unloaded by hand --> KNOWN          last use is gone  |  | asked for
 *        |                         v                                                              |  | again
 *        |                      FAILED --- next acquire, load --> LOADING                         |  v
 *        '----------------------------------------------------------------------------------------'  LOADING
 *
 * One thread loads and unloads, one model at a time, the longest-waiting first; a second one keeps
 * deadlines and looks around from time to time (TTL, files). Nobody else ever waits: who asks for a
 * model that is not there leaves a `struct pool_wait` and is called.
 *
 * ROOM. A load may need others to leave: idle ones first, the least recently used first. If all are
 * in use, the least recently used takes no new users and leaves with its last one, so that a busy
 * model cannot keep another one out for ever. Pinned ones stay.
 *
 * FILES (I83). The header of a file is checked before each load. Before each use of a loaded model
 * its identity is compared (size, times, place on disk); if it differs, the model is unloaded and
 * loaded anew. A file that is gone is reported, but what is loaded goes on: its memory is whole.
 *
 * CACHE. Spaces close with the model; what they hold stays in the cache, and a model that comes
 * back finds it. A file with other content has another fingerprint, hence other spaces (keeps I6).
 *
 * Threads: any; create and destroy from one. Lock: LOCK_RANK_POOL, never held while a callback, a
 * load or an unload runs.
 */
#ifndef HEARTH_MODELS_POOL_H
#define HEARTH_MODELS_POOL_H

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
    X(POOL_FAILED, "failed")

enum pool_state {
#define X(value, name) value,
    POOL_STATE_TABLE(X)
#undef X
        POOL_STATE_COUNT
};

const char *pool_state_name(enum pool_state state);

enum { POOL_MODELS_MAX = 4096 };

/* A model that can be had. Texts are copied, settings are borrowed. */
struct pool_spec {
    const char *name;     /* what clients call it; unique */
    const char *path;     /* NULL: only for pool_adopt */
    const void *settings; /* the loader's own */
    uint64_t ttl_ns;      /* unloaded when unused for so long; 0 = never */
    bool pinned;          /* leaves by hand only */
};

/* The outside world. Called without locks. */
struct pool_ops {
    /* Looks at the file: `quick` for bytes and stamp only. On the loader's or an acquirer's thread.
     */
    enum err (*inspect)(const struct pool_spec *spec, bool quick, struct model_file *file,
                        struct errinfo *info, void *arg);
    /* Loads. `warm`: nobody waits for it, there is time to warm up. `progress` (0..1) returning
     * false wants ERR_CANCELLED. On the loader's thread. */
    enum err (*load)(const struct pool_spec *spec, bool warm,
                     bool (*progress)(float done, void *arg), void *progress_arg,
                     struct model **model, struct errinfo *info, void *arg);
    void *arg;
};

/* Zero is a good default for each field but `ops`. */
struct pool_options {
    struct pool_ops ops;
    uint64_t bytes_max;  /* weights and contexts of all loaded models; 0 = any */
    uint32_t models_max; /* loaded at a time; 0 = any */
    uint32_t waits_max;  /* 0 = 1,024 */
    uint32_t check_ms;   /* how often the keeper looks around; 0 = never: by pool_check only */
    struct clock *clock; /* of TTLs; NULL = the machine's */
    struct log *log;
};

enum err pool_create(struct pool **pool, const struct pool_options *options,
                     struct errinfo *info) NODISCARD;
/* Ends a running load, refuses who still waits (ERR_CLOSED), closes all models. No use is left.
 * Accepts NULL inside. */
void pool_destroy(struct pool **pool);

/* The first one is the default. ERR_EXISTS, ERR_LIMIT, ERR_INVALID (an empty name). */
enum err pool_add(struct pool *pool, const struct pool_spec *spec, struct errinfo *info) NODISCARD;
/* A model that is loaded already: takes it, also on failure; it stays until the end. */
enum err pool_adopt(struct pool *pool, struct model *model, struct errinfo *info) NODISCARD;

/* ---- use ---- */

enum pool_answer { POOL_ANSWER_READY, POOL_ANSWER_WAITING, POOL_ANSWER_REFUSED };

/* One who wants a model. Zeroed but for the first part. Lives until `done`, or until the acquire
 * said READY or REFUSED. */
struct pool_wait {
    /* Called once after WAITING: `model` is there and counted, or it is NULL and `info` says why.
     * On a thread of the pool; must not block. */
    void (*done)(struct pool_wait *wait);
    /* 0..1; not at the same time as done. May be NULL. As done. */
    void (*progress)(struct pool_wait *wait, float done);
    uint64_t deadline_ns; /* of the real monotonic clock; 0 = none */

    struct model *model; /* to be given back with pool_release */
    /* of the model that was meant; valid as long as the pool. NULL: none was found */
    const char *name;
    /* NOT_FOUND (there is none at all), TIMEOUT, CANCELLED, CLOSED, BUSY (too many wait), or why
     * loading failed */
    struct errinfo info;

    /* the pool's */
    struct list_node link;
    struct pool_entry *entry;
    unsigned told; /* percent */
    bool busy, cancelled;
};

/* `name` empty, or unknown: the default model. Looks at the file (pool_ops.inspect, quick) when the
 * model is loaded. */
enum pool_answer pool_acquire(struct pool *pool, struct str name, struct pool_wait *wait) NODISCARD;
void pool_release(struct pool *pool, struct model *model);

/* A wait that is under way ends soon with ERR_CANCELLED; one that has not begun is refused. Any
 * thread that knows it to be alive. */
void pool_cancel(struct pool *pool, struct pool_wait *wait);

/* ---- by hand ---- */

/* Starts a load, or an unload as soon as the last user is gone; a no-op where it is so already.
 * ERR_NOT_FOUND; ERR_UNSUPPORTED to unload what was adopted. Nothing is waited for. */
enum err pool_load(struct pool *pool, struct str name, struct errinfo *info) NODISCARD;
enum err pool_unload(struct pool *pool, struct str name, struct errinfo *info) NODISCARD;

/* Waits until it is neither loading nor unloading. ERR_OK: it is ready; otherwise `info` says why
 * not. For the start of a server. */
enum err pool_wait_ready(struct pool *pool, struct str name, struct errinfo *info) NODISCARD;

/* Shows progress of every load; before the first. NULL ends it. On the loader's thread. */
void pool_set_watch(struct pool *pool, void (*fn)(const char *name, float done, void *arg),
                    void *arg);

/* All models that are not pinned are unloaded when unused for so long; 0 = never. */
void pool_set_ttl(struct pool *pool, uint64_t ttl_ns);

/* One look around: TTLs, files. The keeper does so by itself. */
void pool_check(struct pool *pool);

/* ---- what there is ---- */

struct pool_view {
    const char *name; /* valid as long as the pool */
    enum pool_state state;
    float progress; /* of LOADING */
    bool pinned, is_default, adopted, file_missing;
    uint32_t uses, waits;
    uint64_t bytes;      /* of memory: as loaded, else as estimated, 0 = not known yet */
    uint64_t file_bytes; /* 0 = not known yet */
    uint64_t ttl_ns, idle_ns;
    uint64_t loads;       /* so far */
    double load_s;        /* of the last one */
    struct errinfo error; /* of FAILED */
};

size_t pool_count(struct pool *pool);
/* False: there is none of that number. */
bool pool_view(struct pool *pool, size_t index, struct pool_view *view);
/* The number of a name, exactly or by the rules of pool_acquire (`exact` false). SIZE_MAX: none. */
size_t pool_find(struct pool *pool, struct str name, bool exact);
/* For reports: the model of that number if it is ready, held until pool_unpeek; else NULL. Looks at
 * no file, starts nothing, and is no use: it keeps nobody from leaving later. */
struct model *pool_peek(struct pool *pool, size_t index) NODISCARD;
/* The same of the first that is ready at *index or behind it, which is moved on behind that one;
 * NULL: no more, or no pool. Begin with 0. */
struct model *pool_next(struct pool *pool, size_t *index) NODISCARD;
void pool_unpeek(struct pool *pool, struct model *model);

/* Of all models together, those that were unloaded included. */
void pool_get_stats(struct pool *pool, struct sched_stats *stats);

/* Whether no loaded model's engine hangs: sched_alive of all. */
bool pool_alive(struct pool *pool, uint64_t within_ns);

/* A look of the watchdog at every loaded model (sched_watch); the keeper does it whenever it looks
 * around. */
void pool_watch(struct pool *pool);
/* How many models were stalled when it looked last. Takes no lock. */
unsigned pool_stalled(const struct pool *pool);

#endif
