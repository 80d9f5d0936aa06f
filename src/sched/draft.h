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
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

enum {
    DRAFT_TOKENS_MAX = 63,      /* of one sequence in a batch */
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

/* The chance that the next token of a source is right, 0..1, as the mean of so many guesses. */
struct draft_rates {
    struct draft_rate {
        double mean, count;
    } of[DRAFT_SOURCE_COUNT];
};

struct draft_rates draft_rates_default(void);

/* ---- guesses for one sequence ---- */

struct draft;

/* `rates`, those of recent requests, count as much as a few guesses. NULL: no memory. */
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
 * right if those before it are; less than the mean, by what that may be wrong. */
uint32_t draft_guess(const struct draft *draft, const token_id *tokens, uint32_t count,
                     token_id *next, uint32_t max, double *chance);

/* ---- what batches cost ---- */

enum { DRAFT_WIDTHS = 24, DRAFT_CROWDS = 6, DRAFT_COST_SAMPLES = 3 };

/* Nanoseconds of a step by its tokens, for about so many answers: attention reads the context of
 * each, so nine tokens of one answer cost less than nine answers. All widths up to 16 are told apart, wider ones in classes.
 *
 * A device plans and captures a step of another width anew. So a draft also makes the next step
 * without one slower (`back_ns`), and what steps take without drafts is learned where two of the
 * same width follow each other. */
struct draft_cost {
    struct {
        double width, ns; /* averaged */
        uint32_t samples; /* with fewer than DRAFT_COST_SAMPLES, nothing is known */
        uint32_t age;     /* narrower steps since the last one */
    } of[DRAFT_WIDTHS];
    double back_ns;  /* what the first step after drafts takes longer */
    double spent;    /* on tries, in steps; a part of it is forgiven by each step */
    double guess_ns; /* what making a guess takes; 0: of known text */
    uint32_t last_width, last_guesses; /* of the last step; 0: it was no decode step */
    bool trying;                       /* the last drafts were tries */
};

/* Of the tokens, `guesses` are drafts. */
void draft_cost_learn(struct draft_cost *cost, uint32_t width, uint32_t guesses, uint64_t ns);
/* A guess of the last step was right, and `answers` were in it: a try that pays is free. */
void draft_cost_accept(struct draft_cost *cost, uint32_t answers);
/* For 1, 2 to 3, 4 to 7, ... answers. */
struct draft_costs {
    struct draft_cost of[DRAFT_CROWDS];
};

struct draft_cost *draft_costs_of(struct draft_costs *costs, uint32_t answers);
/* Of the tokens, `guesses` are drafts and the others are of as many answers. */
void draft_costs_learn(struct draft_costs *costs, uint32_t width, uint32_t guesses, uint64_t ns);
/* A step of another kind came between. */
void draft_costs_pause(struct draft_costs *costs);

/* What a step is expected to take whose answers have `plain` tokens. A width that was not measured
 * costs as much as the next wider one, or infinitely much. With `hope`, what was not measured, or
 * long ago, is expected to cost little. 0: nothing is known. */
double draft_cost_ns(const struct draft_cost *cost, double width, double plain, bool hope);

/* A batch that will have `width` tokens, `plain` of them no drafts, and is expected to yield
 * `yield` of answers. */
struct draft_batch {
    double plain, width, yield;
    bool trying; /* what it costs is not known */
};

/* How many tokens of a guess to add to the batch, at most `max`: the number with the most tokens
 * per second, 0 if that is not clearly more than without. So no sequence loses more than others
 * gain. Few lengths are used beside `max`, so that a device can reuse its plans. Lengths whose cost
 * is not known are tried if they might pay; all tries that do not take one step in 200. Adds them to
 * *batch. */
uint32_t draft_length(const struct draft_cost *cost, struct draft_batch *batch, double chance,
                      uint32_t max);
