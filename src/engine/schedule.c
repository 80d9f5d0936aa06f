/*
 * schedule.c: cuts, computed on demand and not stored.
 *
 * The grid divides the prompt into cells. A mark that survives keeps chunk_min tokens away from
 * both ends of its cell, hence from every mark of another cell; so which marks survive is decided
 * inside one cell, from its first mark to its last:
 *
 *      cell     |<-- chunk_min -->|                                     |<-- chunk_min -->|
 *      marks         x            o     x    o                o                  x
 *                 too near       kept   |   kept             kept             too near
 *                                  too near to the kept one before it
 *
 * The end of the prompt does not matter. Dropping a mark because the prompt ends soon after it
 * would save one small chunk, but the next turn, which is longer and does cut there, would find
 * nothing stored where it resumes.
 */
#include "engine/schedule.h"

#include <assert.h>

#include "base/attr.h"

static void check(const struct schedule *schedule)
{
    assert(schedule->count >= 1);
    assert(schedule->grid >= 1);
    assert(schedule->marks != NULL || schedule->marks_count == 0);
}

/* Index of the first mark >= at. */
static size_t find_mark(const struct schedule *schedule, uint32_t at)
{
    size_t low = 0, high = schedule->marks_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (schedule->marks[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The cuts around `at`, where at < count - 1: the largest <= at and the smallest > at. */
struct around {
    uint32_t floor, next;
};

static struct around find_around(const struct schedule *schedule, uint32_t at)
{
    uint64_t apart = schedule->chunk_min, last = schedule->count - 1; /* 64 bits: no sum wraps */
    uint64_t begin = at - at % schedule->grid, end = begin + schedule->grid;
    uint64_t kept = begin;

    for (size_t i = find_mark(schedule, (uint32_t)begin); i < schedule->marks_count; i++) {
        uint64_t mark = schedule->marks[i];
        if (mark >= last || mark + apart > end)
            break;
        if (mark - kept < apart)
            continue;
        if (mark > at)
            return (struct around){(uint32_t)kept, (uint32_t)mark};
        kept = mark;
    }
    return (struct around){(uint32_t)kept, (uint32_t)MIN(end, last)};
}

uint32_t schedule_next(const struct schedule *schedule, uint32_t from)
{
    check(schedule);
    assert(from < schedule->count);
    if (from == schedule->count - 1)
        return schedule->count;
    return find_around(schedule, from).next;
}

uint32_t schedule_floor(const struct schedule *schedule, uint32_t at)
{
    check(schedule);
    if (at >= schedule->count - 1)
        return MIN(at, schedule->count);
    return find_around(schedule, at).floor;
}
