/*
 * cache.h: inside of the cache, shared by the files that make it up. The door for everyone else is hearth/hearth.h.
 *
 *      cache.c     opening, spaces, numbers, clearing, pinning
 *      lookup.c    plans: what can be restored, and what to try when a piece of it fails
 *      store.c     taking state in
 *      room.c      the budget and the heap: who must leave
 *      mover.c     between memory and the slower tier, never on the caller's time
 *      session.c   lookup and insert in one call each
 *
 * ONE LOCK guards the index, objects, spaces and counters. It is held for microseconds: never across a tier, an allocator call of the
 * engine, a callback or a copy of payload. What has to happen outside is collected in a `struct deferred` and done after it is left:
 *
 *      cache_enter(cache, &deferred) ... events, frees, tier calls are noted ... cache_leave(cache, &deferred) does them
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

#include "base/budget.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "cache/events.h"
#include "cache/flight.h"
#include "cache/heap.h"
#include "cache/index.h"
#include "cache/object.h"
#include "cache/policy.h"
#include "tier/pages.h"
#include "tier/tier.h"

enum {
    CACHE_GHOSTS = 4096,      /* keys of blocks that were evicted, to tell "evicted" from "never seen" */
    CACHE_EVENTS = 4096,
    CACHE_FLIGHTS_MAX = 256,
    CACHE_WAITERS_MAX = 1024,
    CACHE_TENANTS_MAX = 48,   /* with a line of their own in the ledger; more share one */
    CACHE_TENANT_BYTES = 64,
    CACHE_TOKENS_MAX = 1 << 26,
};

struct hearth_space {
    struct list_node link;
    struct hearth_cache *cache;
    struct hash256 key;
    char tenant[CACHE_TENANT_BYTES];
    struct hearth_model model;
    uint32_t opens; /* content outlives the last close */
    struct index *index;
    struct flights *flights;
    struct list tails; /* objects of tails without a snapshot, least recently used first */
    uint64_t index_charged; /* of the ledger, for the tree */
    budget_owner owner;
    uint64_t bytes; /* held in memory by its objects */
    uint64_t share;
    struct hearth_stats stats;
};

/* A tier call that waits for the lock to be left. */
struct deferred_put {
    struct object *object;
    struct deferred_put *next;
};

struct deferred {
    struct event *events;
    size_t events_count, events_cap;
    void **frees; /* memory of pages */
    size_t frees_count, frees_cap;
    struct hash256 *drops; /* keys to drop from the slow tier */
    size_t drops_count, drops_cap;
    struct deferred_put *puts;
    struct flight_call *calls;
};

struct hearth_cache {
    struct lock lock;
    struct cond changed; /* an object arrived, failed, or was released */
    struct clock *clock;
    struct hash256 key;
    uint32_t block_tokens, run_tokens, tails_max;
    enum policy policy;
    double floor GUARDED_BY(lock); /* of priorities: rises with every eviction */
    struct heap heap GUARDED_BY(lock); /* objects in memory that may be evicted */
    struct list spaces GUARDED_BY(lock);
    struct budget *budget;
    budget_owner owner_index, owner_common;
    struct pages *pages;
    struct events *events;
    struct tier *slow; /* may be NULL; owned */
    double slow_bytes_per_s;
    uint64_t ghosts[CACHE_GHOSTS] GUARDED_BY(lock);
    size_t ghosts_next GUARDED_BY(lock);
    uint32_t operations GUARDED_BY(lock); /* of the slow tier, running */
    struct hearth_stats stats GUARDED_BY(lock);
};

struct hearth_plan {
    struct hearth_space *space;
    int32_t *tokens;
    size_t count;
    unsigned flags;
    struct hearth_plan_info info;
    struct object **objects; /* leased */
    struct hearth_object *views;
    size_t objects_count, objects_cap;
    uint32_t limit; /* boundaries above it are not to be tried */
    enum hearth_reason failed; /* why an earlier, longer plan was given up; NONE */
    bool accepted;
    uint64_t started_ns;
};

struct hearth_store {
    struct hearth_space *space;
    int32_t *tokens;
    size_t count;
    struct hearth_store_hints hints;
    uint32_t cursor;    /* rows below it are held or refused */
    void *memory;       /* of the reservation; NULL = none */
    uint64_t capacity;  /* charged to the ledger for it */
    enum hearth_object_kind kind;
    uint32_t begin, end;
    uint64_t started_ns;
};

/* ---- cache.c ---- */

void cache_enter(struct hearth_cache *cache, struct deferred *deferred);
/* Does what was deferred. */
void cache_leave(struct hearth_cache *cache, struct deferred *deferred);
void cache_note_event(struct hearth_cache *cache, struct deferred *deferred, const struct event *event);
void cache_note_free(struct deferred *deferred, void *memory);
uint64_t cache_now_ns(const struct hearth_cache *cache);

bool space_sliceable(const struct hearth_space *space);      /* state can be cut at any token of its rows */
bool space_has_rows(const struct hearth_space *space);
bool space_needs_snapshot(const struct hearth_space *space);

/* Attaches a slower tier, owned from now on, and takes what it holds into the index. For the server and for tests; before any lookup. */
void cache_attach_tier(struct hearth_cache *cache, struct tier *slow, double bytes_per_s);

/* ---- room.c ---- */

/* Takes bytes from the ledger for a space, evicting others until they fit. False: nothing more may be evicted. */
bool room_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred) REQUIRES(lock);
void room_release(struct hearth_space *space, uint64_t bytes) REQUIRES(lock);
/* What the pages take for so many bytes. An object's own record, sizeof(struct object), is charged beside its data. */
uint64_t room_charge(uint64_t bytes);
/* Evicts one object, whosever; false when none may leave. */
bool room_evict_one(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Charges the ledger for a tree that is about to grow by so many nodes, evicting when it must; then room_settle_index gives back what was
 * not needed, and what the tree lost. */
bool room_reserve_index(struct hearth_space *space, size_t nodes, struct deferred *deferred) REQUIRES(lock);
void room_settle_index(struct hearth_space *space) REQUIRES(lock);
/* The index says that an object may (not) leave. */
void room_watch(struct object *object, bool evictable, void *cache) REQUIRES(lock);
/* Recomputes the priority after a use. */
void room_touch(struct object *object, bool used) REQUIRES(lock);
/* Puts an object into the heap, or takes it out, by what is true of it now. */
void room_update(struct object *object) REQUIRES(lock);
/* Takes an object out of everything; frees it now or with its last lease. */
void room_drop(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Takes an object out of memory only; it stays where else it is. Leased ones stay. */
void room_demote(struct object *object, struct deferred *deferred) REQUIRES(lock);
void room_lease(struct object *object) REQUIRES(lock);
void room_unlease(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Evicts down to the cap. */
void room_shrink(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
void room_add_ghost(struct hearth_cache *cache, const struct hash256 *key) REQUIRES(lock);
bool room_is_ghost(const struct hearth_cache *cache, const struct hash256 *key) REQUIRES(lock);

/* ---- mover.c ---- */

/* Writes a new object to the slow tier, if there is one that wants it. */
void mover_write(struct hearth_cache *cache, struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Starts reading a leased object into memory; false when it cannot. */
bool mover_read(struct hearth_cache *cache, struct object *object);
void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts);
/* Waits until nothing is moving. */
void mover_drain(struct hearth_cache *cache);

#endif
