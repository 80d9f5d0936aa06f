/*
 * session.c: lookup and insert in one call each, for programs with one engine and one sequence.
 * Uses only the public header.
 */
#include <hearth/hearth.h>

#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"

enum { FETCH_TIMEOUT_MS_MAX = 10000 };

/* The caller's operations, with NULL for those that its header lacks. */
static struct hearth_session_ops take_ops(const struct hearth_session_ops *ops)
{
    struct hearth_session_ops mine = {0};

    memcpy(&mine, ops, MIN(ops->struct_size, sizeof(mine)));
    return mine;
}

/* Waiting longer than recomputing would take saves nothing (keeps I94). */
static uint32_t fetch_timeout_ms(const struct hearth_plan_info *info)
{
    double ms = info->compute_s * 1000;

    return ms > 0 && ms < FETCH_TIMEOUT_MS_MAX ? (uint32_t)ms + 1 : FETCH_TIMEOUT_MS_MAX;
}

/* Fetches every object of the plan; false when one is missing and the plan has been shortened. All
 * of them together have one deadline. */
static bool fetch_all(struct hearth_plan *plan, const void **data, uint64_t deadline_ns)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);

    hearth_plan_prefetch(plan);
    for (size_t i = 0; i < info->objects_count; i++) {
        uint64_t now = clock_mono_ns(clock_real());
        uint32_t timeout_ms = (uint32_t)((deadline_ns - MIN(now, deadline_ns)) / NS_PER_MS);
        if (hearth_plan_fetch(plan, i, timeout_ms, &data[i]) != HEARTH_OK) {
            hearth_plan_shorten(plan, i, HEARTH_REASON_NONE);
            return false;
        }
    }
    return true;
}

/* One attempt: true when it is final, with a sequence of *reused tokens or a cold start. */
static bool try_plan(struct hearth_plan *plan, const struct hearth_session_ops *ops,
                     uint64_t deadline_ns, uint32_t *reused)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);

    *reused = 0;
    if (info->boundary == 0)
        return true;
    const void **data = mem_alloc_array(info->objects_count, sizeof(*data));
    bool done = false;
    if (fetch_all(plan, data, deadline_ns)) {
        if (ops->import(info->objects, data, info->objects_count, info->boundary, ops->arg)) {
            *reused = info->boundary;
            hearth_plan_accept(plan);
            done = true;
        } else {
            hearth_plan_shorten(plan, info->objects_count - 1, HEARTH_REASON_REFUSED);
        }
    }
    mem_free(data);
    return done;
}

int hearth_session_lookup(struct hearth_space *space, const struct hearth_session_ops *ops,
                          const int32_t *tokens, size_t count,
                          const struct hearth_lookup_options *options, uint32_t *reused)
{
    struct hearth_session_ops mine = take_ops(ops);
    struct hearth_plan *plan;

    *reused = 0;
    if (mine.import == NULL)
        return HEARTH_ERROR_INVALID;
    int error = hearth_lookup(space, tokens, count, options, &plan);
    if (error != HEARTH_OK)
        return error;
    uint64_t deadline_ns =
        clock_deadline_ns(clock_real(), fetch_timeout_ms(hearth_plan_info(plan)) * NS_PER_MS);
    while (!try_plan(plan, &mine, deadline_ns, reused))
        ;
    hearth_plan_release(&plan);
    return HEARTH_OK;
}

/* Stores one object; returns its bytes, or 0 when it was not stored. */
static uint64_t store_one(struct hearth_store *store, const struct hearth_session_ops *ops,
                          enum hearth_object_kind kind, uint32_t begin, uint32_t end)
{
    unsigned char shape[HEARTH_SHAPE_BYTES_MAX];
    size_t shape_bytes = 0;
    void *memory;
    uint64_t capacity = ops->capacity(kind, begin, end, ops->arg);

    if (capacity == 0 ||
        hearth_store_reserve(store, kind, begin, end, capacity, &memory) != HEARTH_OK)
        return 0;
    uint64_t bytes =
        ops->export_to(kind, begin, end, memory, capacity, shape, &shape_bytes, ops->arg);
    if (bytes == 0) {
        hearth_store_cancel(store);
        return 0;
    }
    return hearth_store_commit(store, bytes, shape, shape_bytes) == HEARTH_OK ? bytes : 0;
}

int hearth_session_insert(struct hearth_space *space, const struct hearth_session_ops *ops,
                          const int32_t *tokens, size_t count,
                          const struct hearth_store_hints *hints, uint64_t *stored)
{
    struct hearth_session_ops mine = take_ops(ops);
    struct hearth_store *store;
    uint32_t begin, end;

    *stored = 0;
    if (mine.capacity == NULL || mine.export_to == NULL)
        return HEARTH_ERROR_INVALID;
    int error = hearth_store_open(space, tokens, count, hints, &store);
    if (error != HEARTH_OK)
        return error;
    while (hearth_store_next(store, &begin, &end)) {
        *stored += store_one(store, &mine, HEARTH_OBJECT_ROWS, begin, end);
        /* refused unless the model captures them */
        *stored += store_one(store, &mine, HEARTH_OBJECT_SLIDING, begin, end);
    }
    if (hearth_store_wants_snapshot(store, (uint32_t)count))
        *stored += store_one(store, &mine, HEARTH_OBJECT_SNAPSHOT, 0, (uint32_t)count);
    hearth_store_close(&store);
    return HEARTH_OK;
}
