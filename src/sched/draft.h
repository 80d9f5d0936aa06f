/*
 * draft.h: guesses the next tokens of an answer from tokens that are already known, and whether
 * computing them in one batch pays. No model, no engine, no cache: drafts.c collects the texts
 * and runs the guesses, batch.c verifies them.
 *
 *      TREE        what followed the same tokens in an earlier sequence of this tenant
 *      PREDICTION  the text that the client expects
 *      HISTORY     what followed the last tokens earlier in the same sequence; by how many of them
 *                  are equal there
 *
 * Each guess is compared with the token that comes, whether or not it was computed. So the chance
 * of a guess is known without trying, and drafts that do not pay cost nothing.
 *
 * Owner: the scheduler's thread.
 */
#ifndef HEARTH_SCHED_DRAFT_H
#define HEARTH_SCHED_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

enum {
    DRAFT_TOKENS_MAX = 32,      /* of one sequence in a batch */
    DRAFT_REFERENCE_MAX = 4096, /* tokens of the tree that are copied at once */
    DRAFT_TOKEN_BYTES = 16,     /* of the index, at most, for each token of a long sequence */
};

enum draft_source {
    DRAFT_TREE,
    DRAFT_PREDICTION,
    DRAFT_HISTORY_SHORT,
    DRAFT_HISTORY,
    DRAFT_HISTORY_LONG,
    DRAFT_SOURCE_COUNT
};

/* The chance that the next token of a source is right, averaged: 0..1. */
struct draft_rates {
    double of[DRAFT_SOURCE_COUNT];
};

struct draft_rates draft_rates_default(void);

/* ---- guesses for one sequence ---- */

struct draft;

/* NULL: no memory. */
struct draft *draft_create(const struct draft_rates *rates);
void draft_destroy(struct draft **draft);

/* A text that the sequence may follow from here on, of the source TREE or PREDICTION; copied.
 * Replaces the last one of that source. Without memory there is none. */
void draft_expect(struct draft *draft, enum draft_source source, const token_id *tokens,
                  uint32_t count);

/* The last of these tokens is new; all of them are new in the first call. Also teaches `shared`,
 * the rates of all sequences. Takes a bounded time per token. Without memory nothing is guessed
 * from then on. */
void draft_follow(struct draft *draft, const token_id *tokens, uint32_t count,
                  struct draft_rates *shared);

/* The sequence has just left the text of the tree, or reached its end. */
bool draft_lost_tree(const struct draft *draft);

/* Writes the next tokens, at most `max`, and returns their number. *chance: that one of them is
 * right if those before it are. */
uint32_t draft_guess(const struct draft *draft, const token_id *tokens, uint32_t count,
                     token_id *next, uint32_t max, double *chance);

/* ---- what batches cost ---- */

enum { DRAFT_WIDTHS = 8, DRAFT_COST_SAMPLES = 3 };

/* Nanoseconds of a step by its tokens, in classes of width: 1, 2-3, 4-7, ... */
struct draft_cost {
    struct {
        double width, ns; /* averaged */
        uint32_t samples; /* with fewer than DRAFT_COST_SAMPLES, nothing is known */
        uint32_t age;     /* narrower steps since the last one */
    } of[DRAFT_WIDTHS];
    double guess_ns; /* what making a guess takes; 0: of known text */
};

void draft_cost_learn(struct draft_cost *cost, uint32_t width, uint64_t ns);
/* Widths that were not measured, or long ago, are expected to cost little, so that they are tried:
 * measurements are noisy, and what a width costs changes. 0: nothing is known. */
double draft_cost_ns(const struct draft_cost *cost, double width);

/* A batch that will have `width` tokens and is expected to yield `yield` of answers. */
struct draft_batch {
    double width, yield;
};

/* How many tokens of a guess to add to the batch, at most `max`: the number with the most tokens
 * per second, 0 if that is not clearly more than without. So no sequence loses more than others
 * gain. Adds them to *batch. */
uint32_t draft_length(const struct draft_cost *cost, struct draft_batch *batch, double chance,
                      uint32_t max);

#endif
