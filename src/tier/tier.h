/*
 * tier.h: a place where objects are stored: memory, a disk, another machine. The interface through
 * which the cache moves bytes.
 *
 * A tier stores opaque objects under 32-byte keys. It makes no policy decisions: the cache decides
 * what to keep, and learns from the tier when it is full. Puts and gets are asynchronous: a
 * callback reports the result, from a thread of the tier or, for tiers that never wait, from within
 * the call.
 *
 *      put   BUFFERED -> (bytes safe in the tier) -> done(TIER_OK)
 *            or any other result but TIER_MISSING and TIER_DAMAGED. TIER_CANCELLED: it is no longer
 *            wanted, or another process has stored other bytes under its key, which stay
 *      get   request  -> bytes verified in the caller's memory -> done
 *            or any other result but TIER_FULL
 *
 * The caller's memory (data, dst) must stay valid until done is called, which happens exactly once
 * for every accepted put and for every get. There are no other errors: everything that can go wrong
 * is one of these results. No callback is made after close.
 *
 * Threads: every function may be called from any thread. Callbacks are made without locks held, may
 * call the tier (but not close it) and must not block.
 */
#pragma once

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

enum tier_result { TIER_RESULT_TABLE(TABLE_VALUE) TIER_RESULT_COUNT };

enum { TIER_SHAPE_BYTES_MAX = 160, TIER_PAGE_ENTRIES = 24 };

/* Metadata stored with the bytes, so that an index can be rebuilt from a tier alone. */
struct tier_meta {
    struct hash256 key;
    struct hash256 space;  /* of the namespace */
    struct hash256 tenant; /* for tiers with `find`: shares of it; zero = none, no limit */
    struct hash256 parent; /* key of the preceding block; zero at the root */
    uint32_t kind;         /* defined by the cache, not interpreted here */
    uint32_t begin, end;   /* tokens */
    uint64_t bytes;        /* >= 1 */
    /* of the bytes, set by their producer and verified by gets; zero: computed by the first tier
     * that stores them */
    struct hash128 digest;
    uint64_t used_wall_ns; /* last use */
    uint32_t shape_bytes;
    unsigned char shape[TIER_SHAPE_BYTES_MAX];
    const int32_t *tokens; /* of the blocks it covers; borrowed for the call */
    uint32_t tokens_count;
    /* For tiers with `find`, borrowed: the key of the block before its first one, then of each
     * whole block that it covers. */
    const struct hash256 *places;
    uint32_t places_count;
    uint32_t urgency; /* 0 is written first */
};

/* What other processes have stored at one place (the block after a key), as far as is known. */
struct tier_entry {
    struct hash256 key;
    struct hash256 child; /* key of the whole block at this place that it covers; else zero */
    uint32_t kind, begin, end;
};

struct tier_page {
    struct tier_entry entries[TIER_PAGE_ENTRIES];
    uint32_t count;
};

/* DEGRADED: works in part: the last write failed, or something cannot be read or removed. */
enum tier_state { TIER_STATE_OK, TIER_STATE_DEGRADED, TIER_STATE_READ_ONLY };

struct tier_stats {
    enum tier_state state;
    uint64_t objects;
    uint64_t bytes, bytes_max; /* memory or disk used, at least the objects' own bytes; the cap */
    /* accepted; stored; ended by an error or a full disk; no longer wanted; under way */
    uint64_t puts, puts_done, puts_failed, puts_cancelled, puts_queued;
    uint64_t gets, gets_done;          /* requested; delivered */
    uint64_t drops;                    /* of existing objects */
    uint64_t missing, damaged, errors; /* counted for: gets; gets; both */
    uint64_t refused;                  /* puts */
    uint64_t bytes_written, bytes_read;
    uint64_t evictions; /* by the tier itself; when it changes, the cache asks what it still has */
    uint64_t day_bytes; /* written today, if there is a daily budget */
    uint64_t queue_length;
};

/* Limits that can be changed at run time; 0: unchanged. */
struct tier_limits {
    uint64_t bytes_max;
    uint64_t day_bytes_max; /* UINT64_MAX: unlimited */
};

struct tier;
struct tier_op; /* a running get: a ticket for cancelling; never dereferenced */

typedef void (*tier_done_fn)(enum tier_result result, void *arg);

struct tier_ops {
    const char *name;
    /* Stores `meta->bytes` of data, replacing an object of the same key. False when it is refused
     * now (full queue, over the cap): done is not called. The object can be found at the latest
     * when done reports TIER_OK, and never before its bytes can be read. */
    bool (*put)(struct tier *tier, const struct tier_meta *meta, const void *data,
                tier_done_fn done, void *arg);
    /* Reads an object into dst. An object larger than `capacity` gives TIER_ERROR, and nothing is
     * written. *op (op may be NULL) is set before done can be called, and not touched afterwards;
     * it may be NULL when the get finished within the call. */
    void (*get)(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                tier_done_fn done, void *arg, struct tier_op **op);
    /* done is still called, with TIER_CANCELLED unless it was too late. Cancelling a finished
     * operation is no error. */
    void (*cancel)(struct tier *tier, struct tier_op *op);
    void (*drop)(struct tier *tier, const struct hash256 *key); /* unknown keys are no error */
    bool (*has)(struct tier *tier, const struct hash256 *key);
    /* Calls fn for every object, oldest use first; fn returns false to stop, may drop objects, and
     * borrows meta. Objects put or dropped meanwhile may or may not be seen. A tier that outlives
     * the process may report only the objects present when it was opened. */
    void (*each)(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg), void *arg);
    void (*stats)(struct tier *tier, struct tier_stats *stats);
    /* Waits until queued puts are stored, at most until the timeout. False: some are not.
     * Optional. */
    bool (*flush)(struct tier *tier, uint64_t timeout_ns);
    /* Reads an object and reports what a get would, without delivering bytes or counting as a use.
     * A damaged object is handled as in a get. Optional, as is everything below except close. */
    void (*verify)(struct tier *tier, const struct hash256 *key, tier_done_fn done, void *arg);
    /* Drops all objects of a space (NULL: of all spaces), also those that the cache has no record of.
     * Objects that are put meanwhile may be dropped or not. */
    void (*drop_space)(struct tier *tier, const struct hash256 *space);
    /* The digest that a get compares with; false when the object is not in this tier. */
    bool (*digest)(struct tier *tier, const struct hash256 *key, struct hash128 *digest);
    /* Reports that these objects were used elsewhere: they become as recent as if they had been
     * read. Unknown keys are no error. */
    void (*touch)(struct tier *tier, const struct hash256 *keys, size_t count);
    /* Protects that many bytes of a space from eviction for others. False: read-only, shares above
     * half of the cap in total, or too many shares. */
    bool (*set_share)(struct tier *tier, const struct hash256 *space, uint64_t bytes);
    /* False: it has no such limits, or is read-only. */
    bool (*set_limits)(struct tier *tier, const struct tier_limits *limits);
    /* For tiers that other processes fill; both wait for answers, at most until the deadline
     * (clock_real). find: fills the page of each place of a space; false: it could not ask.
     * read_meta: calls fn for each of the objects that is there, in order; fn borrows meta. */
    bool (*find)(struct tier *tier, const struct hash256 *space, const struct hash256 *places,
                 size_t count, uint64_t deadline_ns, struct tier_page *pages);
    void (*read_meta)(struct tier *tier, const struct hash256 *keys, size_t count,
                      uint64_t deadline_ns, void (*fn)(const struct tier_meta *meta, void *arg),
                      void *arg);
    /* frees it; running operations are cancelled or finished, and their callbacks made, before it
     * returns */
    void (*close)(struct tier *tier);
};

/* The common first part of every tier. */
struct tier {
    const struct tier_ops *ops;
};

static inline void tier_close(struct tier **tier)
{
    if (*tier != NULL)
        (*tier)->ops->close(*tier);
    *tier = NULL;
}

/* Waits for one operation after another, for threads that may block: tier_answer_done and the
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
/* afterwards it can be used for the next operation */
enum tier_result tier_answer_wait(struct tier_answer *answer);
