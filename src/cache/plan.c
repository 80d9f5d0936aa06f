/*
 * plan.c: using a plan. Objects are fetched one by one. A failure shortens the plan, which
 * lookup.c rebuilds below a limit. A plan counts as a hit only once it is accepted, when its state
 * is in use (keeps I91).
 *
 *      hearth_lookup -> fetch, fetch, ... -> accept -> release      a hit, or a partial one
 *                         |   ^                 '----> release      a miss, with the reason
 *                         v   |
 *                        shorten, lower: the limit falls each time, so this terminates, at the
 *                        latest with a cold start
 */
#include <assert.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

/* Attributes the following events to the plan's request. */
static void enter(const struct hearth_plan *plan, struct deferred *deferred)
{
    cache_enter(plan->space->cache, deferred);
    deferred->request = plan->options.request;
}

/* ---- notifying when bytes arrive ---- */

static void await_object(struct hearth_plan *plan, const struct object *object)
{
    if (plan->options.ready == NULL)
        return;
    plan->awaits = object; /* NULL: memory, which the end of any operation may free */
    if (!list_node_linked(&plan->await_link))
        list_push_back(&plan->space->cache->awaiting, &plan->await_link);
}

void plan_note_ready(struct hearth_cache *cache, const struct object *object,
                     struct deferred *deferred)
{
    lock_assert_held(&cache->lock);
    LIST_FOREACH_SAFE (struct hearth_plan, plan, &cache->awaiting, await_link) {
        if (plan->awaits != object)
            continue;
        list_remove(&cache->awaiting, &plan->await_link);
        plan->calls++;
        mem_reserve_one(&deferred->ready, deferred->ready_count, &deferred->ready_cap,
                        sizeof(struct hearth_plan *));
        deferred->ready[deferred->ready_count++] = plan;
    }
}

void plan_call_ready(struct hearth_plan *plan)
{
    struct hearth_cache *cache = plan->space->cache;

    plan->options.ready(plan->options.ready_arg);
    lock_enter(&cache->lock);
    plan->calls--; /* it may be freed from here on */
    cond_broadcast(&cache->changed);
    lock_leave(&cache->lock);
}

/* Waits until no call is running and none can start. */
static void stop_calls(struct hearth_plan *plan)
{
    struct hearth_cache *cache = plan->space->cache;

    if (list_node_linked(&plan->await_link))
        list_remove(&cache->awaiting, &plan->await_link);
    while (plan->calls > 0)
        cond_wait(&cache->changed, &cache->lock);
}

/* ---- using it ---- */

/* The reason to report for a failed fetch: the mover dropped an object that is damaged or gone,
 * and recorded why. */
static enum hearth_reason trouble_of(const struct object *object, int error)
{
    if (error == HEARTH_ERROR_TIMEOUT)
        return HEARTH_REASON_TIMEOUT;
    if (object->evicted_below)
        return HEARTH_REASON_EVICTED;
    return object->damaged ? HEARTH_REASON_UNVERIFIED : HEARTH_REASON_TIER_ERROR;
}

/* Starts the read of an object, or joins one. A read that fails is not started again by the plan that
 * waited for it: a dead tier would be asked until the caller's deadline. */
static enum mover_answer ask(struct hearth_plan *plan, size_t index)
{
    struct hearth_cache *cache = plan->space->cache;
    struct object *object = plan->objects[index];

    lock_enter(&cache->lock);
    bool failed = plan->asked[index] && object->data == NULL && !object->reading;
    lock_leave(&cache->lock);
    if (failed)
        return MOVER_CANNOT;
    return mover_read(cache, object, plan->options.request, &plan->asked[index]);
}

int hearth_plan_fetch(struct hearth_plan *plan, size_t index, uint32_t timeout_ms,
                      const void **data)
{
    struct hearth_cache *cache = plan->space->cache;
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);

    *data = NULL;
    if (index >= plan->objects_count)
        return HEARTH_ERROR_INVALID;
    struct object *object = plan->objects[index];
    enum mover_answer answer = ask(plan, index);
    lock_enter(&cache->lock);
    while (answer == MOVER_FULL && cache->operations == 0) { /* what it waited for has just ended */
        lock_leave(&cache->lock);
        answer = ask(plan, index);
        lock_enter(&cache->lock);
    }
    int error = answer == MOVER_COMING ? mover_await(cache, object, deadline_ns)
                : answer == MOVER_FULL && plan->options.ready != NULL ? HEARTH_ERROR_TIMEOUT
                                                                      : HEARTH_ERROR_MISSING;
    *data = error == HEARTH_OK ? object->data : NULL;
    plan->trouble = error == HEARTH_OK ? HEARTH_REASON_NONE : trouble_of(object, error);
    if (error == HEARTH_ERROR_TIMEOUT)
        await_object(plan, answer == MOVER_COMING ? object : NULL);
    lock_leave(&cache->lock);
    return error;
}

void hearth_plan_prefetch(struct hearth_plan *plan)
{
    for (size_t i = 0; i < plan->objects_count; i++)
        if (ask(plan, i) != MOVER_COMING)
            return; /* the fetch will report it */
}

/* The engine could not use the bytes, or the caller stopped waiting for them. Other failures
 * were counted where they happened. */
static void note_failure(struct hearth_plan *plan, struct object *object, enum hearth_reason why,
                         struct deferred *deferred)
{
    struct hearth_event event =
        cache_object_event(object, HEARTH_EVENT_VERIFY_FAIL, plan_tier_of(object));

    event.reason = why;
    event.prompt_tokens = (uint32_t)plan->count;
    if (why == HEARTH_REASON_TIMEOUT) {
        plan->space->stats.tier_errors++;
        event.kind = HEARTH_EVENT_DROP;
        cache_note_event(plan->space->cache, deferred, &event);
    } else if (why == HEARTH_REASON_UNVERIFIED || why == HEARTH_REASON_REFUSED) {
        plan->space->stats.verify_failures++;
        cache_note_event(plan->space->cache, deferred, &event);
    }
}

uint32_t plan_limit_without(const struct object *object)
{
    return object->kind == HEARTH_OBJECT_SNAPSHOT ? object->end - 1 : object->begin;
}

void hearth_plan_shorten(struct hearth_plan *plan, size_t index, enum hearth_reason why)
{
    struct hearth_cache *cache = plan->space->cache;
    struct deferred deferred;

    assert(index < plan->objects_count);
    enter(plan, &deferred);
    struct object *object = plan->objects[index];
    if (why == HEARTH_REASON_NONE)
        why = plan->trouble ? plan->trouble : HEARTH_REASON_TIER_ERROR;
    /* A tier that is slow or failed once has not lost the object: it stays, and the next plan
     * may succeed. */
    bool useless = why != HEARTH_REASON_TIMEOUT && why != HEARTH_REASON_TIER_ERROR;
    if (why == HEARTH_REASON_TIMEOUT || (useless && !object->damaged))
        note_failure(plan, object, why, &deferred);
    uint32_t limit = plan_limit_without(object);
    if (useless && !object->dropped)
        room_drop(object, &deferred);
    plan->limit = MIN(plan->limit, limit);
    plan->failed = why;
    plan->skip_begin = plan->skip_end = 0;
    plan_make(plan, &deferred);
    cache_leave(cache, &deferred);
}

void hearth_plan_lower(struct hearth_plan *plan, uint32_t limit)
{
    struct hearth_cache *cache = plan->space->cache;
    struct deferred deferred;

    if (limit >= plan->info.boundary)
        return;
    enter(plan, &deferred);
    plan->limit = limit;
    plan_make(plan, &deferred);
    cache_leave(cache, &deferred);
}

void hearth_plan_skip(struct hearth_plan *plan, size_t begin, size_t end)
{
    assert(begin <= end && end <= plan->objects_count);
    plan->skip_begin = begin;
    plan->skip_end = end;
    for (size_t i = begin; i < end; i++)
        if (plan->asked[i])
            mover_leave(plan->space->cache, plan->objects[i], &plan->asked[i]);
}

/* ---- counting ---- */

static bool is_skipped(const struct hearth_plan *plan, size_t index)
{
    return index >= plan->skip_begin && index < plan->skip_end;
}

static void count_reuse(struct hearth_plan *plan)
{
    struct hearth_stats *stats = &plan->space->stats;
    bool rows = false;

    stats->hits++;
    stats->partials += plan->info.boundary < MIN(plan->info.matched, plan->count - 1);
    for (size_t i = 0; i < plan->objects_count; i++) {
        const struct hearth_object *view = &plan->views[i];
        if (is_skipped(plan, i))
            continue;
        if (view->tier == HEARTH_TIER_RAM)
            stats->bytes_read_by_tier[HEARTH_TIER_RAM] += plan->objects[i]->bytes;
        if (view->kind != HEARTH_OBJECT_ROWS || view->tier >= HEARTH_TIER_COUNT)
            continue;
        bool last = i + 1 == plan->objects_count || plan->views[i + 1].kind != HEARTH_OBJECT_ROWS;
        uint32_t end = last ? plan->info.boundary : plan->views[i + 1].begin;
        stats->tokens_reused_by_tier[view->tier] += end - view->begin;
        stats->tokens_reused += end - view->begin;
        if (room_is_tail(plan->objects[i])) {
            stats->tail_hits++;
            stats->tail_tokens += end - view->begin;
        }
        rows = true;
    }
    /* A model without rows is restored from its snapshot alone. */
    if (!rows && plan->objects_count > 0 && plan->views[0].tier < HEARTH_TIER_COUNT) {
        stats->tokens_reused_by_tier[plan->views[0].tier] += plan->info.boundary;
        stats->tokens_reused += plan->info.boundary;
    }
}

/* Counts a hit for each tier that contributed. */
static void count_tiers(const struct hearth_plan *plan, struct cache_tier *tiers)
{
    uint32_t used = 0;

    for (size_t i = 0; i < plan->objects_count; i++)
        used |= is_skipped(plan, i) ? 0 : TIER_BIT(plan->views[i].tier);
    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        tiers[level].counts.hits += (used & TIER_BIT(level)) != 0;
}

void hearth_plan_accept(struct hearth_plan *plan)
{
    struct hearth_cache *cache = plan->space->cache;
    struct deferred deferred;

    if (plan->accepted || plan->info.boundary == 0 || plan_is_peek(plan))
        return;
    plan->accepted = true;
    enter(plan, &deferred);
    count_reuse(plan);
    count_tiers(plan, cache->tiers);
    for (size_t i = 0; i < plan->objects_count; i++) {
        struct object *object = plan->objects[i];
        object->shared |= plan->branches && object->end <= plan->info.first_difference;
        bool guess = object->guess;
        room_touch(object, true);
        if (guess) /* no longer */
            mover_write(object, &deferred);
        /* mark as used in the tiers that it was not read from */
        cache_note_touch(cache, &deferred, object->in & ~TIER_BIT(plan->views[i].tier),
                         &object->key);
        if (list_node_linked(&object->tail_link) && object->kind != HEARTH_OBJECT_SNAPSHOT)
            list_move_back(&plan->space->tails, &object->tail_link);
    }
    bool partial = plan->info.boundary < MIN(plan->info.matched, plan->count - 1);
    struct hearth_event event = plan_event(plan, partial ? HEARTH_EVENT_PARTIAL : HEARTH_EVENT_HIT);
    cache_note_event(cache, &deferred, &event);
    cache_leave(cache, &deferred);
}

void hearth_plan_release(struct hearth_plan **out)
{
    struct hearth_plan *plan = *out;
    struct deferred deferred;

    if (plan == NULL)
        return;
    struct hearth_cache *cache = plan->space->cache;
    enter(plan, &deferred);
    stop_calls(plan);
    if (!plan->accepted && !plan_is_peek(plan)) {
        /* a possible hit that the caller did not use (keeps I104) */
        if (plan->info.reason == HEARTH_REASON_NONE && plan->info.boundary > 0)
            plan->info.reason = HEARTH_REASON_DISABLED;
        struct hearth_event event = plan_event(plan, HEARTH_EVENT_MISS);
        plan->space->stats.misses++;
        plan->space->stats.miss_by_reason[plan->info.reason]++;
        cache_note_event(cache, &deferred, &event);
    }
    plan_release_objects(plan, &deferred);
    ledger_release_request(cache, plan->charged);
    room_shrink(cache, &deferred);
    cache_leave(cache, &deferred);
    mem_free(plan->objects);
    mem_free(plan->asked);
    mem_free(plan->views);
    mem_free(plan->tokens);
    mem_free(plan);
    *out = NULL;
}
