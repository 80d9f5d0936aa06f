/*
 * cache.h: internals of the cache, shared by the files that implement it. Everything else uses
 * hearth/hearth.h.
 *
 *      cache.c     opening, statistics, clearing, pinning
 *      space.c     spaces
 *      lookup.c    plans: how much can be restored, and why not more
 *      plan.c      using a plan: fetching, falling back, accepting, counting
 *      store.c     storing state
 *      replace.c   what a growing conversation supersedes
 *      ledger.c    charging every byte
 *      room.c      the heaps: choosing eviction victims
 *      mover.c     moving objects between memory and slower tiers, never on the caller's time
 *      contents.c  listing the cached objects and the events
 *      manage.c    single objects by key: pinning, evicting, expiring
 *      verify.c    checking the bytes of cached objects
 *      exchange.c  export to and import from a folder
 *      discover.c  what other machines have stored in a shared tier
 *      recover.c   adopting objects that an earlier process left in a slower tier
 *      session.c   lookup and insert in one call each
 *
 * ONE LOCK guards the index, objects, spaces and counters. It is held for microseconds: never
 * across a tier call, an allocator call of the engine, a callback or a copy of payload. Work that
 * must run outside the lock is collected in a `struct deferred` and done after unlocking:
 *
 *      cache_enter(cache, &deferred);
 *      ...                              notes events, frees and tier calls
 *      cache_leave(cache, &deferred);   unlocks, then performs them
 *
 * OBJECT STATES, with the function that makes each change:
 *
 *                     store_commit                 plan (lease)
 *      (memory) ----------------------> HELD ----------------------> LEASED
 *                                        |  ^-------- release ---------'
 *                        evict_one, drop |                           | drop: unlinked at once
 *                                        v                           v
 *                                      freed <------ last release -- DROPPED
 */
#pragma once

#include <hearth/hearth.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "cache/budget.h"
#include "cache/events.h"
#include "cache/heap.h"
#include "cache/index.h"
#include "cache/object.h"
#include "cache/parts.h"
#include "cache/plan.h"
#include "cache/policy.h"
#include "cache/reuse.h"
#include "tier/pages.h"
#include "tier/tier.h"

struct file_sys;
struct log;

enum {
    /* keys of evicted blocks, to distinguish "evicted" from "never seen" */
    CACHE_GHOSTS = 4096,
    CACHE_EVENTS = 4096,
    CACHE_TENANT_BYTES = 64,
    CACHE_TOKENS_MAX = 1 << 26,
    CACHE_BLOCK_TOKENS_MAX = 1 << 16,
    /* objects queued for another try after a slower tier declined them */
    CACHE_DECLINED_MAX = 256,
    CACHE_DRAIN_MS = 5000,     /* how long closing waits for writes, unless told otherwise */
    CACHE_EXPIRIES_MAX = 4096, /* objects with an expiry time */
};
/* Ten years, where the clock of the cache begins. That of the machine begins with it, but objects
 * on disk may be older. */
#define CACHE_CLOCK_BEGIN_NS (UINT64_C(10) * 365 * 24 * 3600 * NS_PER_S)

struct hearth_space {
    struct list_node link;
    struct hearth_cache *cache;
    struct hash256 key;
    char tenant[CACHE_TENANT_BYTES];
    struct hearth_model model;
    double depth_s; /* what each token before one adds to its prefill_tokens_per_s */
    uint32_t opens; /* the content outlives the last close */
    struct index *index;
    /* objects in the index, oldest first, and the position marks of readers: see contents.c */
    struct list all;
    /* tails in memory, without a snapshot, least recently used first; and their bytes */
    struct list tails;
    uint64_t tail_bytes;
    struct list snapshots; /* in memory; and their bytes */
    uint64_t snapshot_bytes;
    uint64_t index_charged; /* charged to the ledger for the tree */
    /* of cache->budget, for its objects: data, records, reservations; its share is what the cap
     * allows now of `promised` */
    struct budget_line line;
    uint64_t promised; /* of memory, when it was opened */
    /* bytes of each slower tier that are reserved for this space */
    uint64_t slow_shares[HEARTH_TIER_COUNT];
    bool dormant;   /* recovered from a tier and not opened yet: model and tenant are unknown */
    size_t objects; /* in the index */
    size_t records; /* including those that are dropped but still leased */
    uint64_t held[HEARTH_TIER_COUNT]; /* bytes of objects by tier */
    struct hearth_stats stats;
};

/* Per-tier counters that struct hearth_stats lacks. A slower tier keeps the rest of its
 * statistics itself. */
struct tier_counts {
    uint64_t objects; /* held now */
    uint64_t hits, evictions, errors;
};

/* One level of tiers[]. For memory, only the counts are used. */
struct cache_tier {
    /* set by cache_attach_tier, before the first lookup; read without the lock */
    struct tier *tier;               /* owned; NULL: no tier is attached at this level */
    double bytes_per_s;              /* expected, or measured: see mover.c */
    double latency_s;                /* of a read */
    uint32_t reads GUARDED_BY(lock); /* running, while their speed is measured */
    uint64_t reads_bytes GUARDED_BY(lock), reads_since_ns GUARDED_BY(lock);
    bool reads_late GUARDED_BY(lock), reads_cut GUARDED_BY(lock); /* one of them; cancelled */
    bool sealed;                                                  /* its objects are encrypted */
    struct list declined GUARDED_BY(lock); /* objects that it declined, by retry_links */
    /* declined objects that may be retried, because operations there have ended since */
    uint32_t retry_credit GUARDED_BY(lock);
    bool retrying GUARDED_BY(lock); /* a thread is retrying */
    /* sweep.c: one at a time; not before; the tier's evictions that were found */
    bool sweeping GUARDED_BY(lock);
    uint64_t sweep_at_ns GUARDED_BY(lock), swept_evictions;
    struct tier_counts counts GUARDED_BY(lock);
    struct tier_stats before GUARDED_BY(lock); /* its statistics at the last hearth_reset_stats */
};

/* Tier calls to make after unlocking. */
struct deferred_put {
    struct object *object;
    enum hearth_tier level;
    struct deferred_put *next;
};

struct deferred_keys {
    struct hash256 *keys;
    size_t count, cap;
};

struct deferred {
    uint64_t request; /* the request that entered; used for events that name no other */
    struct hearth_event *events;
    size_t events_count, events_cap;
    void **frees; /* memory of pages */
    size_t frees_count, frees_cap;
    struct deferred_keys drops[HEARTH_TIER_COUNT]; /* to drop from a slower tier */
    /* to mark as used in this tier, because they were used in another one */
    struct deferred_keys touches[HEARTH_TIER_COUNT];
    struct deferred_put *puts;
    bool erase;                 /* a user asked for the drops: they are for all machines */
    struct hearth_plan **ready; /* plans whose `ready` callback is due */
    size_t ready_count, ready_cap;
};

struct hearth_cache {
    struct lock lock;
    struct cond changed; /* an object arrived, failed, or was released */
    struct clock *clock;
    const struct file_sys *fs; /* for a disk that is attached later; NULL = the real file system */
    struct log *disk_log;      /* for that disk; NULL = none */
    struct hash256 key;
    uint32_t block_tokens, run_tokens;
    /* of the tails and the snapshots of a space that are in memory */
    uint64_t tail_bytes_max, snapshot_bytes_max;
    enum policy policy;
    struct reuse *reuse GUARDED_BY(lock);
    double floor GUARDED_BY(lock);     /* of priorities; rises with every eviction */
    struct heap heap GUARDED_BY(lock); /* objects in memory that may be evicted */
    /* objects that are not in memory; they may be forgotten to free their bookkeeping */
    struct heap heap_slow GUARDED_BY(lock);
    size_t records GUARDED_BY(lock); /* of all spaces; each has a slot in the heaps */
    /* high-water mark of `records`: tables never shrink */
    size_t places GUARDED_BY(lock);
    bool closing GUARDED_BY(lock); /* slower tiers keep their objects */
    struct list spaces GUARDED_BY(lock);
    /* the ledger: objects, in a line of each space, and trees; its cap is the cache's */
    struct budget budget GUARDED_BY(lock);
    struct budget_line trees GUARDED_BY(lock); /* and spaces */
    /* the part of the cap outside the arenas; see room.c */
    struct budget meta_budget GUARDED_BY(lock);
    struct budget_line books GUARDED_BY(lock);    /* trees, spaces, records */
    struct budget_line requests GUARDED_BY(lock); /* plans and stores */
    uint64_t books_bytes;                         /* as configured; 0 = derived from the cap */
    struct pages *pages;
    struct events *events;
    struct cache_tier tiers[HEARTH_TIER_COUNT]; /* by level */
    uint64_t drain_ms;                          /* how long closing waits for their writes */
    uint64_t ghosts[CACHE_GHOSTS] GUARDED_BY(lock);
    size_t ghosts_next GUARDED_BY(lock);
    uint32_t operations GUARDED_BY(lock); /* running operations of slower tiers */
    /* threads that have unlocked and are about to call a tier, perhaps in a callback of another */
    uint32_t calling GUARDED_BY(lock);
    /* objects that were dropped while being written, by aside_link */
    struct list dropped_in_write GUARDED_BY(lock);
    struct list reads GUARDED_BY(lock);    /* running ones of mover.c */
    struct list awaiting GUARDED_BY(lock); /* plans that wait for an object, by await_link */
    struct list searches GUARDED_BY(lock); /* running ones of discover.c */
    /* objects with an expiry time, the earliest first, by expiry_link */
    struct list expiring GUARDED_BY(lock);
    struct hearth_stats stats GUARDED_BY(lock); /* of spaces that were removed */
};

struct hearth_store {
    struct hearth_space *space;
    int32_t *tokens;
    size_t count;
    struct hearth_store_hints hints;
    uint32_t cursor;    /* rows below it are held or refused */
    uint32_t committed; /* the furthest end committed so far */
    /* for the tokens: each piece is stored after the previous one */
    struct index_hint hint GUARDED_BY(lock);
    void *memory;      /* of the reservation; NULL = none */
    uint64_t capacity; /* charged to the ledger for the reservation */
    enum hearth_object_kind kind;
    uint32_t begin, end;
    uint64_t started_ns;
    uint64_t charged; /* charged to the ledger for the store itself */
    struct reuse_mark mark;
};

/* ---- cache.c ---- */

void cache_enter(struct hearth_cache *cache, struct deferred *deferred);
/* Unlocks, then does the deferred work. */
void cache_leave(struct hearth_cache *cache, struct deferred *deferred);
/* Ends one count in `calling`. Call without the lock. */
void cache_called(struct hearth_cache *cache);
void cache_note_event(struct hearth_cache *cache, struct deferred *deferred,
                      const struct hearth_event *event);
void cache_note_free(struct deferred *deferred, void *memory);
/* Drops a key from slower tiers (TIER_BITs) after unlocking. If the same content is written
 * again meanwhile, that copy may be dropped as well; the worst result is a later miss. */
void cache_note_drop(struct hearth_cache *cache, struct deferred *deferred, uint32_t tiers,
                     const struct hash256 *key);
/* Tells these tiers, after unlocking, that an object they hold was used in another tier. */
void cache_note_touch(struct hearth_cache *cache, struct deferred *deferred, uint32_t tiers,
                      const struct hash256 *key);
/* Monotonic, from CACHE_CLOCK_BEGIN_NS on: the age of any object can be subtracted. */
uint64_t cache_now_ns(const struct hearth_cache *cache);
/* Copies a caller's tokens; free with mem_free. INVALID when there are none or too many, or
 * MEMORY. The copy and `more` bytes are charged to the ledger; cache_uncharge returns *charged. */
int cache_copy_tokens(struct hearth_cache *cache, const int32_t *tokens, size_t count,
                      uint64_t more, int32_t **copy, uint64_t *charged);
/* Returns the bytes that it charged to the ledger. Call without the lock. */
void cache_uncharge(struct hearth_cache *cache, uint64_t bytes);

/* Adds the counters of a space to others. */
void cache_add_stats(struct hearth_stats *to, const struct hearth_stats *from);
/* The counters of all spaces, with those that were removed. */
struct hearth_stats cache_sum_stats(const struct hearth_cache *cache) REQUIRES(lock);
/* What is the same in all events about an object. */
struct hearth_event cache_object_event(const struct object *object, enum hearth_event_kind kind,
                                       enum hearth_tier tier);

/* A key of the public header (HEARTH_KEY_BYTES, or NULL) as a hash, where it is. */
static inline const struct hash256 *cache_key_of(const unsigned char *key)
{
    _Static_assert(sizeof(struct hash256) == HEARTH_KEY_BYTES && _Alignof(struct hash256) == 1,
                   "a hash is its bytes");
    return (const struct hash256 *)key;
}

/* Copies the text to the caller's message, unless that is NULL; returns the error. */
int cache_say(char *message, int error, const char *text);
