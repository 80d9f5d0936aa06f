/* schedule.c: cuts, computed on demand and not stored. */
#include "engine/schedule.h"

#include <assert.h>

#include "base/attr.h"

/* Index of the first mark after `at`. */
static size_t find_after(const struct schedule *schedule, uint32_t at)
{
    size_t low = 0, high = schedule->marks_count;

    assert(schedule->count >= 1 && schedule->grid >= 1);
    assert(schedule->marks != NULL || schedule->marks_count == 0);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (schedule->marks[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The first run that ends after `at`; NULL: none. */
static const struct schedule_run *run_after(const struct schedule *schedule, uint32_t at)
{
    for (size_t i = 0; i < schedule->runs_count; i++)
        if (schedule->runs[i].end > at)
            return &schedule->runs[i];
    return NULL;
}

uint32_t schedule_clip(const struct schedule *schedule, uint32_t from, uint32_t end)
{
    const struct schedule_run *run = run_after(schedule, from);

    if (run == NULL || run->begin >= end)
        return end;
    return run->begin <= from ? run->end : run->begin;
}

uint32_t schedule_next(const struct schedule *schedule, uint32_t from)
{
    size_t after = find_after(schedule, from);
    uint64_t next = (uint64_t)from - from % schedule->grid + schedule->grid; /* no sum wraps */

    assert(from < schedule->count);
    if (from == schedule->count - 1)
        return schedule->count;
    if (after < schedule->marks_count)
        next = MIN(next, schedule->marks[after]);
    return schedule_clip(schedule, from, (uint32_t)MIN(next, schedule->count - 1));
}

uint32_t schedule_floor(const struct schedule *schedule, uint32_t at)
{
    size_t after = find_after(schedule, at);
    uint32_t floor = at - at % schedule->grid;

    if (at >= schedule->count - 1)
        return MIN(at, schedule->count);
    if (after > 0)
        floor = MAX(floor, schedule->marks[after - 1]);
    for (size_t i = 0; i < schedule->runs_count && schedule->runs[i].begin <= at; i++)
        floor = schedule->runs[i].end > at ? schedule->runs[i].begin
                                           : MAX(floor, schedule->runs[i].end);
    return floor;
}
