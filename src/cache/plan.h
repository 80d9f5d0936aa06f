/* plan.h: a plan, made by lookup.c and used by plan.c. Internal to the cache (cache.h). */
#pragma once

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
    bool *asked; /* its read was started or joined, and is still needed */
    size_t objects_count, objects_cap;
    uint32_t limit;             /* boundaries above it are not tried */
    enum hearth_reason failed;  /* why an earlier, longer plan was abandoned; NONE */
    enum hearth_reason trouble; /* of the last fetch; NONE */
    bool branches;              /* the cached tokens continue, but differently from the prompt */
    bool accepted;
    size_t skip_begin, skip_end; /* objects that were not used */
    uint64_t started_ns;
    uint64_t charged; /* to the ledger */

    /* options.ready is called once this object has been read or has failed; all under the lock */
    const struct object *awaits;
    struct list_node await_link; /* in the cache's `awaiting` */
    uint32_t calls;              /* noted or running calls: it must not be freed before they end */
};

/* Rebuilds the plan from the current state of the index, without what has expired, up to
 * plan->limit: leases its new objects and releases the old ones. */
void plan_make(struct hearth_plan *plan, struct deferred *deferred) REQUIRES(lock);
/* Ends its leases and empties it. */
void plan_release_objects(struct hearth_plan *plan, struct deferred *deferred) REQUIRES(lock);
/* The object has been read or has failed: plans that wait for it are notified after unlocking. */
void plan_note_ready(struct hearth_cache *cache, const struct object *object,
                     struct deferred *deferred) REQUIRES(lock);
/* Notifies one plan. Call without the lock. */
void plan_call_ready(struct hearth_plan *plan);
/* The fastest tier that has the object; HEARTH_TIER_COUNT when none has. */
enum hearth_tier plan_tier_of(const struct object *object);
/* The boundary up to which a plan does not need the object. */
uint32_t plan_limit_without(const struct object *object);
/* A peek touches and counts nothing. */
bool plan_is_peek(const struct hearth_plan *plan);
/* The plan as an event of this kind. */
struct hearth_event plan_event(const struct hearth_plan *plan, enum hearth_event_kind kind);
