/*
 * cuts.h: records the chunks in which state was computed, so that an exact run restores nothing
 * else.
 *
 * The low bits of rows and states depend on where the prefill was cut, and the cache only knows
 * tokens. So the record stored with each object in the cache (hearth.h calls it the shape) has the
 * ends of its chunks:
 *
 *      +------ state_shape (engine/state.h) ------+ history | cuts_count | cuts[0] cuts[1] ... |
 *
 * `history` is a hash of all cuts up to the object's begin (for a snapshot: up to its end).
 *
 * A run that is not exact accepts any object and writes CUTS_UNKNOWN. An exact one uses an object
 * only as far as its cuts match the run's schedule (keeps I24, I110).
 */
#pragma once

#include <hearth/hearth.h>

#include <stdint.h>

#include "engine/schedule.h"
#include "engine/state.h"

enum { CUTS_MAX = 16 };
#define CUTS_UNKNOWN UINT32_MAX

struct cuts_shape {
    struct state_shape state;
    uint64_t history;
    uint32_t cuts_count; /* more than CUTS_MAX: unusable for exact runs */
    uint32_t cuts[CUTS_MAX];
};

_Static_assert(sizeof(struct cuts_shape) <= HEARTH_SHAPE_BYTES_MAX,
               "does not fit beside an object");

/* Marks the chunks as unknown. */
void cuts_forget(struct cuts_shape *shape);

/* Fills history and cuts for shape->state, computed with this schedule. */
void cuts_fill(struct cuts_shape *shape, const struct schedule *schedule);

/* How far an object that is to be used up to `end` was computed in this schedule's chunks. For a
 * snapshot: its end, or end - 1. */
uint32_t cuts_agreed(const struct cuts_shape *shape, const struct schedule *schedule, uint32_t end);
