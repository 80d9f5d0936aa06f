/*
 * cost.h: what computing tokens takes, learned from the runs of an engine.
 *
 *      ns(run) = per run + outputs * per output + tokens * per token
 *                + (sum over the tokens of how many come before each) * per depth
 *
 * A token costs more the further back it looks, so one speed in tokens per second is wrong for
 * every length but one. Small runs cost more per token than whole chunks do, and the logits of a
 * large vocabulary cost as much as many tokens. So all four are learned together, and each run
 * changes only what it says something about: a thousand short prompts leave `per depth` as it is.
 *
 * Pure numbers: no clock, no engine. Owner: the caller's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum cost_part { COST_RUN, COST_OUTPUT, COST_TOKEN, COST_DEPTH, COST_PARTS };

/* How often a run, or several that were measured together, had each part. */
struct cost_work {
    double count[COST_PARTS];
};

struct cost {
    double ns[COST_PARTS]; /* of each part once; never negative */
    /* covariance of the errors of `ns` */
    double spread[COST_PARTS][COST_PARTS];
    uint32_t samples, chunks; /* runs that were learned; those of half a chunk or more */
    int surprises;            /* unexpected runs in a row: above 0 slow ones, below 0 fast ones */
};

/* An item of a run: `tokens` after `depth` others of its sequence. */
void cost_add(struct cost_work *work, uint32_t depth, uint32_t tokens, uint32_t outputs);
void cost_join(struct cost_work *work, const struct cost_work *more);
/* Runs of less than COST_TOKENS_MIN tokens say nothing about a prefill and are ignored. `chunk`: the
 * tokens of a whole run. */
enum { COST_TOKENS_MIN = 64 };
void cost_learn(struct cost *cost, const struct cost_work *work, uint32_t chunk, uint64_t ns);

bool cost_known(const struct cost *cost);
/* What the tokens [from, to) of a longer prefill take; 0: not known. */
double cost_ns(const struct cost *cost, uint32_t from, uint32_t to);
/* What a whole prompt takes, in chunks, up to the logits of its last token; 0: not known. */
double cost_prompt_ns(const struct cost *cost, uint32_t tokens, uint32_t chunk);

/* From a file: false if it cannot have been learned. The machine may be faster or slower now, so
 * the first runs count more. */
bool cost_resume(struct cost *cost);
