/*
 * serve_loop.h: serves one request after the other from a cache and an engine, in the order of
 * steps that the scheduler has: look up, restore, prefill by the canonical schedule and store on
 * the way, decode, retain.
 *
 *      lookup -> lower to a cut -> fetch -> import --> [ run a chunk -> settle -> store ]* -> last token -> decode -> store
 *                   ^----- shorten <----- refused '-> cold: an empty sequence
 *
 * EXACT. Rows and states have low bits that depend on the chunks they were computed in, and the
 * cache knows tokens only. So an exact loop writes into each shape where the chunks were cut
 * (sched/cuts.h) and restores only what has the cuts that its own schedule has; it stores nothing
 * that was computed in a chunk which a longer prompt would not have: the last one before the last
 * token, and what was decoded. Then an answer is bit-identical to that of a cold run. Otherwise all
 * is stored and restored, and answers are equal within rounding.
 *
 * Marks are put after each SERVE_MARK token: like those of a template, they depend on nothing but
 * the tokens before them.
 */
#pragma once

#include <hearth/hearth.h>

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/state.h"

enum { SERVE_TOKENS_MAX = 1200, SERVE_GENERATE_MAX = 32, SERVE_MARK = 10 };

struct serve_loop {
    struct engine *engine;
    struct hearth_space *space; /* NULL: every run is cold, and nothing is stored */
    bool exact;
    uint32_t grid;
    /* snapshots at cuts that are multiples of it; 0: at the last cut, the first mark and junctions
     * only */
    uint32_t snapshot_every;
    /* numbers of all requests so far */
    uint64_t requests, tokens, tokens_reused, hits, shortened, objects_stored, snapshots_stored;
};

struct serve_request {
    const token_id *tokens;
    uint32_t count;     /* >= 1 */
    uint32_t generate;  /* greedy tokens */
    uint32_t cancel_at; /* the client leaves when so many tokens stand; 0: never */
};

struct serve_answer {
    bool cancelled;
    uint32_t reused; /* tokens that were not computed */
    /* tokens that stood when it ended, in an exact loop up to the last cut that lasts */
    uint32_t retained;
    uint32_t matched;          /* of the first plan */
    enum hearth_reason reason; /* of the plan that was used */
    float *logits; /* of the last token of the prompt; room for facts.vocab of the caller */
    token_id generated[SERVE_GENERATE_MAX];
};

/* A space for the model of this engine. Fails the test when it cannot be opened. */
struct hearth_space *serve_space(struct hearth_cache *cache, const struct engine *engine,
                                 const char *tenant);

/* Fails the test when the engine does; the cache may do what it wants. */
void serve(struct serve_loop *loop, const struct serve_request *request,
           struct serve_answer *answer);
