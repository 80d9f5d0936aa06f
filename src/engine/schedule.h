/*
 * schedule.h: where a prefill is cut into chunks, as a pure function of the prompt.
 *
 * Where a prompt is cut changes the low bits of the result, so the cuts may depend on nothing but
 * the prompt: an absolute grid, the semantic boundaries that the template names, and the last token
 * alone (the prompt is run for its logits, and a prompt can be resumed at n - 1 at most).
 *
 *      tokens   0        256       512   600      768        1000 1023 1024
 *      grid     |---------|---------|-----.--------|-----------.---.---|    grid 256
 *      marks                              ^600                ^1000
 *      chunks   [   256   ][  256   ][ 88 ][  168  ][   232   ][23 ][1]
 *
 * A run that is restored at any cut executes exactly the chunks that a cold run executes after that
 * cut: that is what makes its logits bit-identical (keeps I24, I110).
 *
 * A cut depends only on the grid and on marks, never on the end of the prompt, so cuts are stable
 * under extension:
 *
 *      two prompts whose marks agree below n have the same cuts below min(n, count - 1 of either)
 *
 * and where one turn of a conversation stopped and stored is where the next, longer one can resume.
 * The price is that a chunk may be tiny. Dropping a mark because the prompt ends soon after it
 * would save one, but the next turn, which is longer and does cut there, would find nothing stored
 * where it resumes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tokens that are computed in one piece: a picture. */
struct schedule_run {
    uint32_t begin, end;
};

struct schedule {
    uint32_t count; /* tokens of the prompt, >= 1 */
    uint32_t grid;  /* >= 1; the largest chunk */
    /* ascending, may repeat; those outside (0, count - 1) are ignored; borrowed */
    const uint32_t *marks;
    size_t marks_count;
    /* ascending, all before the last token: cut at both ends and never inside; borrowed */
    const struct schedule_run *runs;
    size_t runs_count;
};

/* The end of the chunk that begins at `from` (from < count). Here and below the cost is a binary
 * search of the marks. Only cuts are valid starts if the
 * result is to be canonical; for any other `from` the result is the next cut after it. */
uint32_t schedule_next(const struct schedule *schedule, uint32_t from);

/* The largest cut <= at; `count` for all that is beyond it. */
uint32_t schedule_floor(const struct schedule *schedule, uint32_t at);

/* `end` or less: a chunk from `from` to there has no part of a run but all of the one that begins
 * at `from`. */
uint32_t schedule_clip(const struct schedule *schedule, uint32_t from, uint32_t end);
