/*
 * schedule.c: cuts, computed on demand and not stored.
 */
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

uint32_t schedule_next(const struct schedule *schedule, uint32_t from)
{
    size_t after = find_after(schedule, from);
    uint64_t next = (uint64_t)from - from % schedule->grid + schedule->grid; /* no sum wraps */

    assert(from < schedule->count);
    if (from == schedule->count - 1)
        return schedule->count;
    if (after < schedule->marks_count)
        next = MIN(next, schedule->marks[after]);
    return (uint32_t)MIN(next, schedule->count - 1);
}

uint32_t schedule_floor(const struct schedule *schedule, uint32_t at)
{
    size_t after = find_after(schedule, at);
    uint32_t floor = at - at % schedule->grid;

    if (at >= schedule->count - 1)
        return MIN(at, schedule->count);
    return after > 0 ? MAX(floor, schedule->marks[after - 1]) : floor;
}
