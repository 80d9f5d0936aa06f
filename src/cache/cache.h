/*
 * cache.h: inside of the cache, shared by the files that make it up. The door for everyone else is
 * hearth/hearth.h.
 *
 *      cache.c     opening, numbers, clearing, pinning
 *      space.c     spaces
 *      lookup.c    plans: what can be restored, and why not more
 *      plan.c      using a plan: fetching, falling back, accepting, counting
 *      store.c     taking state in
 *      replace.c   what a conversation that grows takes the place of
 *      room.c      the budget and the heap: who must leave
 *      mover.c     between memory and the slower tiers, never on the caller's time
 *      watch.c     showing what is held and what happened
 *      manage.c    single objects by their key: pinning, evicting, forgetting at a time
 *      verify.c    checking the bytes of what is held
 *      exchange.c  to and from a folder
 *      recover.c   taking over what a slower tier holds from an earlier process
 *      session.c   lookup and insert in one call each
 *
 * ONE LOCK guards the index, objects, spaces and counters. It is held for microseconds: never
 * across a tier, an allocator call of the engine, a callback or a copy of payload. What has to
 * happen outside is collected in a `struct deferred` and done after it is left:
 *
 *      cache_enter(cache, &deferred) ... events, frees, tier calls are noted ... cache_leave(cache,
 *      &deferred) does them
 *
 * OBJECT STATES, with the function that makes each change:
 *
 *                     store_commit                 plan (lease)
 *      (memory) ----------------------> HELD ----------------------> LEASED
 *                                        |  ^-------- release ---------'
 *                        evict_one, drop |                             | drop: out of the index at once
 *                                        v                             v
 *                                      freed <------ last release -- DROPPED
 */
#ifndef HEARTH_CACHE_CACHE_H
#define HEARTH_CACHE_CACHE_H

#include <hearth/hearth.h>

#include "base/attr.h"
#include "base/budget.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "cache/events.h"
#include "cache/heap.h"
#include "cache/index.h"
#include "cache/manage.h"
#include "cache/mover.h"
#include "cache/object.h"
#include "cache/plan.h"
#include "cache/policy.h"
#include "cache/replace.h"
#include "cache/room.h"
#include "cache/watch.h"
#include "tier/pages.h"
#include "tier/tier.h"

struct file_sys;
struct log;

enum {
    /* keys of blocks that were evicted, to tell "evicted" from "never seen" */
    CACHE_GHOSTS = 4096,
    CACHE_EVENTS = 4096,
    CACHE_TENANTS_MAX = 48, /* with a line of their own in the ledger; more share one */
    CACHE_TENANT_BYTES = 64,
    CACHE_TOKENS_MAX = 1 << 26,
    CACHE_BLOCK_TOKENS_MAX = 1 << 16,
    CACHE_DECLINED_MAX = 256,  /* objects that wait for a slower tier to take them after all */
    CACHE_DRAIN_MS_MAX = 5000, /* that closing waits for writes */
    CACHE_EXPIRIES_MAX = 4096, /* objects with a time to be forgotten at */
};

struct hearth_space {
    struct list_node link;
    struct hearth_cache *cache;
    struct hash256 key;
    char tenant[CACHE_TENANT_BYTES];
    struct hearth_model model;
    uint32_t opens; /* content outlives the last close */
    struct index *index;
    /* objects in the index, in the order of storing; and marks of those who read it: see watch.c */
    struct list all;
    struct list tails;      /* objects of tails without a snapshot, least recently used first */
    uint64_t index_charged; /* of the ledger, for the tree */
    budget_owner owner;
    uint64_t charged; /* of the ledger, for its objects: data, records, reservations */
    uint64_t share;
    /* bytes of each slower tier that others do not take from it */
    uint64_t slow_shares[HEARTH_TIER_COUNT];
    bool dormant;   /* recovered from a tier, and not opened yet: model and tenant are not known */
    size_t objects; /* in the index */
    size_t records; /* those that are dropped and still leased, too */
    uint64_t held[HEARTH_TIER_COUNT]; /* bytes of objects, by where they are */
    struct hearth_stats stats;
};

/* What is counted by tier beside struct hearth_stats; the rest of a slower one's numbers are its
 * own. */
struct tier_counts {
    uint64_t objects; /* held now */
    uint64_t hits, evictions, errors;
};

/* One level of tiers[]. Memory has counts alone. */
struct cache_tier {
    /* set by cache_attach_tier, before the first lookup; read without the lock */
    struct tier *tier; /* NULL: nothing is attached here; owned */
    double bytes_per_s;
    bool sealed;                           /* its objects are encrypted */
    struct list declined GUARDED_BY(lock); /* objects that it did not take, by retry_links */
    /* that it takes one of them: something there has come to an end since */
    uint32_t chances GUARDED_BY(lock);
    bool retrying GUARDED_BY(lock); /* a thread is at it */
    struct tier_counts counts GUARDED_BY(lock);
    struct tier_stats before GUARDED_BY(lock); /* its numbers at the last hearth_reset_stats */
};

/* Tier calls that wait for the lock to be left. */
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
    uint64_t request; /* whoever entered: in events that name nobody else */
    struct hearth_event *events;
    size_t events_count, events_cap;
    void **frees; /* memory of pages */
    size_t frees_count, frees_cap;
    struct deferred_keys drops[HEARTH_TIER_COUNT]; /* to be dropped from a slower tier */
    /* used elsewhere, and in this tier, too */
    struct deferred_keys touches[HEARTH_TIER_COUNT];
    struct deferred_put *puts;
    struct hearth_plan **ready; /* plans whose `ready` is to be called */
    size_t ready_count, ready_cap;
};

struct hearth_cache {
    struct lock lock;
    struct cond changed; /* an object arrived, failed, or was released */
    struct clock *clock;
    const struct file_sys *fs; /* of a disk that is attached; NULL = the real one */
    struct log *disk_log;      /* the same; NULL = none */
    struct hash256 key;
    uint32_t block_tokens, run_tokens, tails_max;
    enum policy policy;
    double floor GUARDED_BY(lock);     /* of priorities: rises with every eviction */
    struct heap heap GUARDED_BY(lock); /* objects in memory that may be evicted */
    /* objects that are not in memory, and may be forgotten to save their books */
    struct heap heap_slow GUARDED_BY(lock);
    size_t records GUARDED_BY(lock); /* of all spaces: each has a place in the heaps */
    /* the most records that there ever were: tables keep the size that they had then */
    size_t places GUARDED_BY(lock);
    uint64_t shares GUARDED_BY(lock);   /* of all spaces together */
    uint64_t books GUARDED_BY(lock);    /* of the ledger, for trees and spaces */
    uint64_t requests GUARDED_BY(lock); /* of books_budget, for plans and stores */
    bool closing GUARDED_BY(lock);      /* slower tiers keep what they have */
    struct list spaces GUARDED_BY(lock);
    struct budget *budget; /* the ledger: objects and trees, by whom; its cap is the cache's */
    budget_owner owner_index, owner_common;
    /* its part that is not in arenas: trees, records, requests. Arenas have the rest: see room.c */
    struct budget *books_budget;
    budget_owner books_owner, requests_owner;
    uint64_t books_bytes; /* as asked for; 0 = by the cap */
    struct pages *pages;
    struct events *events;
    struct cache_tier tiers[HEARTH_TIER_COUNT]; /* by level */
    uint64_t ghosts[CACHE_GHOSTS] GUARDED_BY(lock);
    size_t ghosts_next GUARDED_BY(lock);
    uint32_t operations GUARDED_BY(lock); /* of slower tiers, running */
    /* threads that left the lock and are about to call a tier, perhaps in a callback of another */
    uint32_t calling GUARDED_BY(lock);
    /* objects that were dropped while they are being written, by aside_link */
    struct list dying GUARDED_BY(lock);
    struct list awaiting GUARDED_BY(lock); /* plans that await an object, by await_link */
    /* objects with a time to be forgotten at, the next first, by expiry_link */
    struct list expiring GUARDED_BY(lock);
    struct hearth_stats stats GUARDED_BY(lock);
};

struct hearth_store {
    struct hearth_space *space;
    int32_t *tokens;
    size_t count;
    struct hearth_store_hints hints;
    uint32_t cursor;    /* rows below it are held or refused */
    uint32_t committed; /* the furthest end of what was */
    /* of the tokens: each piece is stored behind the one before */
    struct index_hint hint GUARDED_BY(lock);
    void *memory;      /* of the reservation; NULL = none */
    uint64_t capacity; /* charged to the ledger for it */
    enum hearth_object_kind kind;
    uint32_t begin, end;
    uint64_t started_ns;
    uint64_t charged; /* of the ledger, for itself */
};

/* ---- cache.c ---- */

void cache_enter(struct hearth_cache *cache, struct deferred *deferred);
/* Does what was deferred. */
void cache_leave(struct hearth_cache *cache, struct deferred *deferred);
/* The thread that counted itself in `calling` is done; without the lock. */
void cache_called(struct hearth_cache *cache);
void cache_note_event(struct hearth_cache *cache, struct deferred *deferred,
                      const struct hearth_event *event);
void cache_note_free(struct deferred *deferred, void *memory);
/* Drops a key from slower tiers (TIER_BITs), after the lock is left: should the same content be
 * written again meanwhile, that copy may go with it, which is a miss later and nothing worse. */
void cache_note_drop(struct hearth_cache *cache, struct deferred *deferred, uint32_t tiers,
                     const struct hash256 *key);
/* Tells these tiers, after the lock is left, that an object which they have was used elsewhere. */
void cache_note_touch(struct hearth_cache *cache, struct deferred *deferred, uint32_t tiers,
                      const struct hash256 *key);
uint64_t cache_now_ns(const struct hearth_cache *cache);
/* A copy of a caller's tokens, freed with mem_free; INVALID when there are none or too many,
 * MEMORY. With it and `more` bytes charged to the ledger: cache_uncharge gives *charged back. */
int cache_copy_tokens(struct hearth_cache *cache, const int32_t *tokens, size_t count,
                      uint64_t more, int32_t **copy, uint64_t *charged);
/* Bytes of a request that are not an object's: taken from the ledger, evicting others; without the
 * lock. */
bool cache_charge(struct hearth_cache *cache, uint64_t bytes) NODISCARD;
void cache_uncharge(struct hearth_cache *cache, uint64_t bytes);

/* Aborts unless index, heaps, ledger and counts agree with each other. O(everything), for tests and
 * debug builds. */
void cache_check(struct hearth_cache *cache);

/* ---- space.c ---- */

/* state can be cut at any token of its rows */
bool space_sliceable(const struct hearth_space *space);
bool space_has_rows(const struct hearth_space *space);
bool space_needs_snapshot(const struct hearth_space *space);

/* The space with this key, opened or dormant; NULL when there is none. */
struct hearth_space *space_find(struct hearth_cache *cache, const struct hash256 *key)
    REQUIRES(lock);
/* A space without model and tenant, for objects whose space was not opened yet; NULL when the
 * ledger has no room for it. */
struct hearth_space *space_create_dormant(struct hearth_cache *cache, const struct hash256 *key,
                                          struct deferred *deferred) REQUIRES(lock);
/* Calls fn for all objects in the index of a space, those of parents first. They are gathered
 * before: fn may drop them. */
void space_each_object(struct hearth_space *space, void (*fn)(struct object *object, void *arg),
                       void *arg) REQUIRES(lock);
/* The same for what ends in `top` or in a node below it. */
void space_each_below(struct node *top, void (*fn)(struct object *object, void *arg), void *arg)
    REQUIRES(lock);
/* in this one alone */
void space_each_in(struct node *node, void (*fn)(struct object *object, void *arg), void *arg)
    REQUIRES(lock);
/* Takes an empty space that nobody has open off the list and out of the ledger; then, without the
 * lock, it is freed. */
void space_remove(struct hearth_space *space) REQUIRES(lock);
void space_free(struct hearth_space *space);

/* ---- recover.c ---- */

/* Attaches a slower tier, owned from now on, at a level that has none, and takes what it holds into
 * the index: see recover.c. Before any lookup. `bytes_per_s` is expected of a read; 0 = not known.
 */
void cache_attach_tier(struct hearth_cache *cache, enum hearth_tier level, struct tier *tier,
                       double bytes_per_s);
/* Of a disk that is attached later (attach.c): its file table, for drills (NULL: the real one), and
 * its log (keeps I65). Both outlive the cache. */
void cache_set_disk(struct hearth_cache *cache, const struct file_sys *fs, struct log *log);

/* Whether an object of this shape can be in a tree of this cache at all. */
bool recover_fits(const struct hearth_cache *cache, const struct tier_meta *meta);
/* The object of a record, as it lies in the tree; NULL when it is not there. `match` is that of its
 * tokens. */
struct object *recover_object(const struct index_match *match, const struct tier_meta *meta);

/* ---- store.c ---- */

/* What is known of the first `count` tokens of the store. */
struct index_match store_match(struct hearth_store *store, uint32_t count) REQUIRES(lock);

/* Puts an object into the index of its space, at the end of `tokens` (object->end of them); room, a
 * place in the heap and its own record are the caller's business. `hint` of the tokens may be NULL.
 * HEARTH_ERROR_MEMORY or HEARTH_ERROR_EXISTS: it is not in. */
int store_attach(struct object *object, const int32_t *tokens, struct index_hint *hint,
                 struct deferred *deferred) REQUIRES(lock) NODISCARD;
/* If the object is a tail, counts it, and lets the least recently used ones go (keeps I40). */
void store_keep_tail(struct object *object, struct deferred *deferred) REQUIRES(lock);

#endif
