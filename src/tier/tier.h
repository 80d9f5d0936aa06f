/*
 * tier.h: a place where objects live: memory, a disk, another machine. The seam that the cache
 * moves bytes through.
 *
 * A tier stores opaque objects under 32-byte keys. It decides nothing: what to keep is the cache's
 * business, which is told when a tier is full. Puts and gets are asynchronous: the call hands over,
 * a callback says how it went, from a thread of the tier or, for tiers that never wait, from within
 * the call.
 *
 *      put   BUFFERED -> (bytes safe in the tier) -> done(TIER_OK)         or any other result but TIER_MISSING and TIER_DAMAGED
 *      get   request  -> bytes verified in memory of the caller -> done    or any other result but TIER_FULL
 *
 * The caller's memory (data, dst) must stay until done is called, which happens exactly once for
 * every put that was taken and for every get. A tier never fails a request: everything that can go
 * wrong is one of these results. After close no callback is made.
 *
 * Threads: every function may be called from any thread. Callbacks are made without locks held, may
 * call the tier (but not close it) and must not block.
 */
#ifndef HEARTH_TIER_TIER_H
#define HEARTH_TIER_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/lock.h"

/* X(value, name) */
#define TIER_RESULT_TABLE(X)   \
    X(TIER_OK, "ok")           \
    X(TIER_MISSING, "missing") \
    X(TIER_DAMAGED, "damaged") \
    X(TIER_FULL, "full")       \
    X(TIER_ERROR, "error")     \
    X(TIER_TIMEOUT, "timeout") \
    X(TIER_CANCELLED, "cancelled")

enum tier_result {
#define X(value, name) value,
    TIER_RESULT_TABLE(X)
#undef X
        TIER_RESULT_COUNT
};

const char *tier_result_name(enum tier_result result);

enum { TIER_SHAPE_BYTES_MAX = 160 };

/* What is stored beside the bytes, so that an index can be rebuilt from a tier alone. */
struct tier_meta {
    struct hash256 key;
    struct hash256 space;  /* of the namespace */
    struct hash256 parent; /* key of the block before it; zero at the root */
    uint32_t kind;         /* the cache's; not looked at here */
    uint32_t begin, end;   /* tokens */
    uint64_t bytes;        /* >= 1 */
    /* of the bytes, by whoever made them: what a get verifies; zero: taken by the first tier that
     * it comes to */
    struct hash128 digest;
    uint64_t used_wall_ns; /* last use */
    uint32_t shape_bytes;
    unsigned char shape[TIER_SHAPE_BYTES_MAX];
    const int32_t *tokens; /* of the blocks it covers; borrowed for the call */
    uint32_t tokens_count;
};

/* DEGRADED: works, but something of it does not: its last write failed, or a part of it cannot be
 * read or removed. */
enum tier_state { TIER_STATE_OK, TIER_STATE_DEGRADED, TIER_STATE_READ_ONLY };

struct tier_stats {
    enum tier_state state;
    uint64_t objects;
    uint64_t bytes, bytes_max; /* of all that is held for them, at least their own; and the cap */
    uint64_t puts, puts_done;  /* taken; stored */
    uint64_t gets, gets_done;  /* asked for; delivered */
    uint64_t drops;            /* of objects that were here */
    uint64_t missing, damaged, errors; /* gets; gets; both */
    uint64_t refused;                  /* puts that were not taken */
    uint64_t bytes_written, bytes_read;
    uint64_t evictions; /* by the tier itself */
    uint64_t day_bytes; /* written today, where there is a budget for it */
    uint64_t queue_length;
};

/* What may be changed while it runs; 0: as it is. */
struct tier_limits {
    uint64_t bytes_max;
    uint64_t day_bytes_max; /* UINT64_MAX: none */
};

struct tier;
struct tier_op; /* a running get: a ticket for cancelling, that points to nothing */

typedef void (*tier_done_fn)(enum tier_result result, void *arg);

struct tier_ops {
    const char *name;
    /* Stores `meta->bytes` of data, in place of what is there under its key. False when it will not
     * take it now (full queue, over its cap): done is not called. Can be found at the latest when
     * done says TIER_OK, and never before its bytes can be read. */
    bool (*put)(struct tier *tier, const struct tier_meta *meta, const void *data,
                tier_done_fn done, void *arg);
    /* Reads an object into dst. One that is larger than `capacity` is TIER_ERROR, and nothing is
     * written. *op (op may be NULL) is set before done can be called, and not touched after; it may
     * be NULL when it was done within the call. */
    void (*get)(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                tier_done_fn done, void *arg, struct tier_op **op);
    /* done is still called, with TIER_CANCELLED unless it was too late. An operation that is over
     * is no error. */
    void (*cancel)(struct tier *tier, struct tier_op *op);
    void (*drop)(struct tier *tier, const struct hash256 *key); /* unknown keys are no error */
    bool (*has)(struct tier *tier, const struct hash256 *key);
    /* Calls fn for every object, oldest use first; fn returns false to end, may drop objects, and
     * borrows meta. What is put or dropped meanwhile is seen or not. A tier that outlives the
     * process may show only what was here when it was opened. */
    void (*each)(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg), void *arg);
    void (*stats)(struct tier *tier, struct tier_stats *stats);
    /* Waits until queued puts are stored, at most that long. False: some are not. Optional. */
    bool (*flush)(struct tier *tier, uint64_t timeout_ns);
    /* Reads an object and says what a get would: no byte is delivered, and nobody has used it. One
     * that is damaged goes the way that it goes with a get. Optional, and so are all below but
     * close. */
    void (*verify)(struct tier *tier, const struct hash256 *key, tier_done_fn done, void *arg);
    /* The digest that a get compares with; false when the object is not here. */
    bool (*digest)(struct tier *tier, const struct hash256 *key, struct hash128 *digest);
    /* Somebody used these objects elsewhere: they are as recent as if they had been read. Unknown
     * keys are no error. */
    void (*touch)(struct tier *tier, const struct hash256 *keys, size_t count);
    /* So many bytes of what a space holds are not evicted for others. False: not written to, more
     * than half of the cap together, or too many. */
    bool (*set_share)(struct tier *tier, const struct hash256 *space, uint64_t bytes);
    /* False: it has no such limits, or is not written to. */
    bool (*set_limits)(struct tier *tier, const struct tier_limits *limits);
    /* frees it; running operations are cancelled or finished, their callbacks made before it
     * returns */
    void (*close)(struct tier *tier);
};

/* The part that every tier begins with. */
struct tier {
    const struct tier_ops *ops;
};

static inline void tier_close(struct tier **tier)
{
    if (*tier != NULL)
        (*tier)->ops->close(*tier);
    *tier = NULL;
}

/* Waiting for one operation after another, for threads that have time: tier_answer_done and the
 * answer are its `done` and `arg`. */
struct tier_answer {
    struct lock lock;
    struct cond changed;
    bool done GUARDED_BY(lock);
    enum tier_result result GUARDED_BY(lock);
};

void tier_answer_init(struct tier_answer *answer);
void tier_answer_fini(struct tier_answer *answer);
void tier_answer_done(enum tier_result result, void *answer);
/* then it can be used for the next */
enum tier_result tier_answer_wait(struct tier_answer *answer);

#endif
