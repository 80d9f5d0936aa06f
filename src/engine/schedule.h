/*
 * schedule.h: where a prefill is cut into chunks, as a pure function of the prompt.
 *
 * Where a prompt is cut changes the low bits of the result, so the cuts may depend on nothing but the prompt: an absolute
 * grid, the semantic boundaries that the template names, and the last token alone (its logits are what the prompt is run
 * for, and a prompt is resumable at n - 1 at most).
 *
 *      tokens   0        256       512   600      768        1000 1023 1024
 *      grid     |---------|---------|-----.--------|-----------.---.---|           grid 256
 *      marks                              ^600                ^1000
 *      chunks   [   256   ][  256   ][ 88 ][  168  ][   232   ][23 ][1]
 *
 * A run that is restored at any cut and goes on from there executes exactly the chunks that the cold run executes after
 * that cut: that is what makes its logits bit-identical (keeps I24, I110). A mark that is closer than `chunk_min` to the
 * cut before or after it is left out: tiny chunks cost a whole pass each.
 */
#ifndef HEARTH_ENGINE_SCHEDULE_H
#define HEARTH_ENGINE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schedule {
    uint32_t count;        /* tokens of the prompt, >= 1 */
    uint32_t grid;         /* >= 1; the largest chunk */
    uint32_t chunk_min;    /* marks nearer than this to another cut are dropped; 0 and 1 keep all */
    const uint32_t *marks; /* ascending; those outside (0, count - 1) are ignored; borrowed */
    size_t marks_count;
};

/* The end of the chunk that begins at `from` (from < count). O(log marks). Only cuts are valid starts if the result is to
 * be canonical; any other `from` is answered with the next cut after it. */
uint32_t schedule_next(const struct schedule *schedule, uint32_t from);

/* Whether a run of this schedule stops at `at`; 0, count - 1 and count are cuts. */
bool schedule_is_cut(const struct schedule *schedule, uint32_t at);

/* The largest cut <= at. */
uint32_t schedule_floor(const struct schedule *schedule, uint32_t at);

#endif
