/*
 * plan.h: a plan, as lookup.c makes it and plan.c uses it. A part of the inside of the cache
 * (cache.h).
 */
#ifndef HEARTH_CACHE_PLAN_H
#define HEARTH_CACHE_PLAN_H

#include <hearth/hearth.h>

#include "base/attr.h"
#include "base/list.h"

struct deferred;
struct object;

struct hearth_plan {
    struct hearth_space *space;
    int32_t *tokens;
    size_t count;
    struct hearth_lookup_options options;
    struct hearth_plan_info info;
    struct object **objects; /* leased */
    struct hearth_object *views;
    size_t objects_count, objects_cap;
    uint32_t limit;             /* boundaries above it are not to be tried */
    enum hearth_reason failed;  /* why an earlier, longer plan was given up; NONE */
    enum hearth_reason trouble; /* of the last fetch; NONE */
    bool branches;              /* what is held goes on, and goes another way than the prompt */
    bool accepted;
    uint64_t started_ns;
    uint64_t charged; /* of the ledger */

    /* options.ready is to be called once this object has been read, or cannot be; all under the lock */
    const struct object *awaits;
    struct list_node await_link; /* of the cache's `awaiting` */
    uint32_t calls;              /* that are noted or running: it must not be freed */
};

/* Makes the plan anew from what is held now, up to plan->limit; leases what it names, and no longer
 * what it named before. */
void plan_make(struct hearth_plan *plan, struct deferred *deferred) REQUIRES(lock);
/* Ends its leases; then it names nothing. */
void plan_release_objects(struct hearth_plan *plan, struct deferred *deferred) REQUIRES(lock);
/* The object has been read, or cannot be: plans that await it are told when the lock is left. */
void plan_note_ready(struct hearth_cache *cache, const struct object *object,
                     struct deferred *deferred) REQUIRES(lock);
/* Tells one; without the lock. */
void plan_call_ready(struct hearth_plan *plan);
/* Where the object is: the fastest of its tiers, HEARTH_TIER_COUNT when in none. */
enum hearth_tier plan_tier_of(const struct object *object);
/* It touches and counts nothing. */
bool plan_is_peek(const struct hearth_plan *plan);
/* The plan as an event of this kind. */
struct hearth_event plan_event(const struct hearth_plan *plan, enum hearth_event_kind kind);

#endif
