/*
 * cold.h: a second engine that computes everything, and judges log-probabilities by it.
 *
 * Rounding depends on where a run is cut and on what runs beside it, so that a tolerance that is
 * guessed proves nothing: it hides small faults of one model and fails for another. Here the same
 * tokens are computed in several WAYS (other chunks, other cuts, beside another sequence). How far
 * these are from each other is what rounding does to these tokens. Something that is further away
 * from all of them than COLD_FACTOR times that comes from another state.
 *
 *      struct cold cold;
 *      cold_open(&cold, &options, seed);
 *      struct cold_verdict verdict = cold_judge(&cold, &subject);
 *      cold_close(&cold);
 *
 * cold_measure_power shows what the judge is worth: how far answers from wrong states are away, and
 * how many of them it finds.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include "engine/engine.h"

enum { COLD_WAYS_MAX = 48, COLD_FACTOR = 3 };

/* After `at` tokens, the next one is `token` with this log-probability. */
struct cold_claim {
    uint32_t at;
    token_id token;
    float logprob;
};

/* Tokens of a sequence, and what is claimed of it. */
struct cold_subject {
    const token_id *tokens;
    uint32_t count;
    const struct cold_claim *claims; /* at: ascending, 1 to count */
    size_t claims_count;
};

struct cold {
    struct engine *engine;
    const struct engine_facts *facts;
    uint64_t seed;
    double usual; /* distance of ways of usual prompts from each other: no further look is needed */
    uint64_t tokens; /* computed */
};

struct cold_verdict {
    double distance; /* largest difference from the first way */
    double nearest;  /* from the way that is nearest */
    double spread;   /* of the ways; 0: one was enough */
    unsigned ways;
    bool wrong;
};

/* How answers from wrong states differ from right ones. X(value, text) */
#define COLD_LIE_TABLE(X)                                               \
    X(COLD_LIE_TOKEN, "one token of the prompt is another")             \
    X(COLD_LIE_BLOCK, "16 tokens are those of another prompt")          \
    X(COLD_LIE_MISSING, "one token is missing")                         \
    X(COLD_LIE_LAST, "the last token of the prompt was computed twice") \
    X(COLD_LIE_DRAFT, "three wrong guesses were not removed")

enum cold_lie {
#define X(value, text) value,
    COLD_LIE_TABLE(X)
#undef X
        COLD_LIE_COUNT
};

const char *cold_lie_text(enum cold_lie lie);

struct cold_power {
    unsigned tried, found; /* of each lie */
    double median;         /* distance */
};

/* Loads the model and measures `usual`. The options say which, and what a value is (types of K and V,
 * flash attention); context, sequences and chunks are its own. */
void cold_open(struct cold *cold, const struct engine_options *options, uint64_t seed);
void cold_close(struct cold *cold);

/* A token that is no control token and does not end an answer. */
token_id cold_random_token(const struct cold *cold, uint64_t *seed);

/* Logits of all tokens become log-probabilities. */
void cold_normalize(struct cold_claim *claims, size_t count);
struct cold_verdict cold_judge(struct cold *cold, const struct cold_subject *subject);

/* Judges answers to `prompts` prompts of `length` tokens from wrong states. */
void cold_measure_power(struct cold *cold, uint32_t length, unsigned prompts,
                        struct cold_power power[COLD_LIE_COUNT]);
