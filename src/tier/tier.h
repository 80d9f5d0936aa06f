/*
 * tier.h: a place where objects live: memory, a disk, another machine. The seam that the cache moves bytes through.
 *
 * A tier stores opaque objects under 32-byte keys. It decides nothing: what to keep is the cache's business, which is told when a tier
 * is full. Puts and gets are asynchronous: the call hands over, a callback says how it went, from a thread of the tier or, for tiers
 * that never wait, from within the call.
 *
 *      put   BUFFERED -> (bytes safe in the tier) -> done(TIER_OK)         the caller's memory must stay until done
 *      get   request  -> bytes verified in memory of the caller -> done    or TIER_MISSING, TIER_DAMAGED, TIER_ERROR, TIER_CANCELLED
 *
 * A tier never fails a request: everything that can go wrong is one of these results. After close no callback is made.
 *
 * Threads: every function may be called from any thread. Callbacks are made without locks held and must not block.
 */
#ifndef HEARTH_TIER_TIER_H
#define HEARTH_TIER_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

/* X(value, name) */
#define TIER_RESULT_TABLE(X)                                                                       \
    X(TIER_OK, "ok") X(TIER_MISSING, "missing") X(TIER_DAMAGED, "damaged") X(TIER_FULL, "full")    \
    X(TIER_ERROR, "error") X(TIER_TIMEOUT, "timeout") X(TIER_CANCELLED, "cancelled")

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
    uint64_t bytes;
    uint64_t used_wall_ns; /* last use */
    uint32_t shape_bytes;
    unsigned char shape[TIER_SHAPE_BYTES_MAX];
    const int32_t *tokens; /* of the blocks it covers; borrowed for the call */
    uint32_t tokens_count;
};

struct tier_stats {
    uint64_t objects, bytes, bytes_max;
    uint64_t puts, puts_done, gets, gets_done, drops, missing, damaged, errors, refused;
    uint64_t bytes_written, bytes_read;
    uint64_t queue_length;
};

struct tier;
struct tier_op; /* a running get; for cancelling */

typedef void (*tier_done_fn)(enum tier_result result, void *arg);

struct tier_ops {
    const char *name;
    /* Stores `meta->bytes` of data. False when it will not take it now (full queue, over its cap): done is not called. */
    bool (*put)(struct tier *tier, const struct tier_meta *meta, const void *data, tier_done_fn done, void *arg);
    /* Reads an object into dst (capacity >= bytes). *op may be NULL when it was done within the call. */
    void (*get)(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity, tier_done_fn done, void *arg,
                struct tier_op **op);
    /* done is still called, with TIER_CANCELLED unless it was too late. */
    void (*cancel)(struct tier *tier, struct tier_op *op);
    void (*drop)(struct tier *tier, const struct hash256 *key); /* unknown keys are no error */
    bool (*has)(struct tier *tier, const struct hash256 *key);
    /* Calls fn for every object that was here when the tier was opened, oldest use first; fn returns false to end. */
    void (*each)(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg), void *arg);
    void (*stats)(struct tier *tier, struct tier_stats *stats);
    /* Waits until queued puts are stored, at most that long. False: some are not. Optional. */
    bool (*flush)(struct tier *tier, uint64_t timeout_ns);
    void (*close)(struct tier *tier); /* frees it; running operations are cancelled or finished */
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

#endif
