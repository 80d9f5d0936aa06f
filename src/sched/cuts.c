/* cuts.c: see the header. */
#include "sched/cuts.h"

#include "base/attr.h"

void cuts_forget(struct cuts_shape *shape)
{
    shape->history = 0;
    shape->cuts_count = CUTS_UNKNOWN;
}

static uint64_t history_of(const struct schedule *schedule, uint32_t end)
{
    uint64_t history = UINT64_C(0x9E3779B97F4A7C15);

    for (uint32_t at = 0; at < end && (at = schedule_next(schedule, at)) <= end;)
        history = (history ^ at) * UINT64_C(0xFF51AFD7ED558CCD) + (history >> 29);
    return history;
}

void cuts_fill(struct cuts_shape *shape, const struct schedule *schedule)
{
    bool snapshot = shape->state.kind == STATE_SNAPSHOT;
    uint32_t end = shape->state.end;

    shape->history = history_of(schedule, snapshot ? end : shape->state.begin);
    shape->cuts_count = 0;
    for (uint32_t at = shape->state.begin; at < end && !snapshot;) {
        at = schedule_next(schedule, at);
        if (shape->cuts_count < CUTS_MAX)
            shape->cuts[shape->cuts_count] = at;
        shape->cuts_count++;
    }
}

uint32_t cuts_agreed(const struct cuts_shape *shape, const struct schedule *schedule, uint32_t end)
{
    bool snapshot = shape->state.kind == STATE_SNAPSHOT;
    uint32_t at = shape->state.begin;

    if (shape->cuts_count == CUTS_UNKNOWN)
        return snapshot ? end - 1 : at;
    if (snapshot)
        return shape->history == history_of(schedule, end) ? end : end - 1;
    if (shape->history != history_of(schedule, at))
        return at;
    for (size_t i = 0; at < end; i++) {
        uint32_t next = schedule_next(schedule, at);
        if (i >= MIN(shape->cuts_count, CUTS_MAX) || shape->cuts[i] != next)
            return at;
        at = next;
    }
    return end;
}
