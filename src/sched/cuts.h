/*
 * cuts.h: which chunks state was computed in, written beside it, so that an exact run restores
 * nothing else.
 *
 * Rows and states have low bits that depend on where the prefill was cut, and the cache knows
 * tokens only. So the record that stands beside each object in the cache (hearth.h calls it the
 * shape) says where its chunks ended:
 *
 *      +------ state_shape (engine/state.h) ------+ history | cuts_count | cuts[0] cuts[1] ... |
 *                                                   of all cuts up to its begin (a snapshot: up to
 *                                                   its end)
 *
 * A run that is not exact takes any object and writes CUTS_UNKNOWN; an exact one uses an object as
 * far as its cuts are those of its own schedule (keeps I24, I110).
 */
#ifndef HEARTH_SCHED_CUTS_H
#define HEARTH_SCHED_CUTS_H

#include <hearth/hearth.h>

#include <stdint.h>

#include "engine/schedule.h"
#include "engine/state.h"

enum { CUTS_MAX = 16 };
#define CUTS_UNKNOWN UINT32_MAX

struct cuts_shape {
    struct state_shape state;
    uint64_t history;
    uint32_t cuts_count; /* more than CUTS_MAX: not to be used exactly */
    uint32_t cuts[CUTS_MAX];
};

_Static_assert(sizeof(struct cuts_shape) <= HEARTH_SHAPE_BYTES_MAX,
               "does not fit beside an object");

/* Says that nobody knows in which chunks it was computed. */
void cuts_forget(struct cuts_shape *shape);

/* Fills history and cuts for shape->state, computed by this schedule. */
void cuts_fill(struct cuts_shape *shape, const struct schedule *schedule);

/* How far an object that is to be used up to `end` was computed in the chunks of this schedule. A
 * snapshot: to its end, or end - 1. */
uint32_t cuts_agreed(const struct cuts_shape *shape, const struct schedule *schedule, uint32_t end);

#endif
