/*
 * sample.h: from logits to a token, one chain of samplers per generation.
 *
 *      logits -> logit bias -> grammar -> penalties -> DRY -> top-n-sigma -> top-k -> typical
 *             -> top-p -> min-p -> XTC -> temperature -> pick (greedy, or by the seed)
 *
 * The order is llama.cpp's, so that the same settings have the same effect. Steps that do nothing
 * are omitted; a greedy pick needs none after DRY. A grammar is first tried on the picked token
 * alone and applied to all candidates only when that one is refused; sample.c says what that
 * changes. The picks are a function of parameters, seed, primed tokens and logits, and of nothing
 * else.
 *
 * Log-probabilities cost a pass over the vocabulary and are computed only on request (keeps I84).
 *
 * OWNER: the engine's thread, except that any thread may create one, which only reads the
 * vocabulary. A sampler belongs to one generation and must be destroyed before its engine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"

enum { SAMPLE_TOP_MAX = 20, SAMPLE_BREAKERS_MAX = 16, SAMPLE_BREAKER_BYTES_MAX = 40 };

/* -infinity: never picked; +infinity: picked before all tokens without it (of several, one at
 * random or the first). */
struct sample_bias {
    token_id token;
    float bias; /* finite ones: -1,000,000 to 1,000,000 */
};

/* sample_params_default() fills it with values that change nothing (except temperature 0.8); a
 * request overrides them. Everything pointed to is copied by sampler_create. */
struct sample_params {
    uint64_t seed;     /* SAMPLE_SEED_RANDOM: a new one each time; of others 32 bits are used */
    float temperature; /* <= 0 or nearly 0: greedy */
    int32_t top_k;     /* <= 0: off */
    float top_p, min_p, typical_p, top_n_sigma;
    float xtc_probability, xtc_threshold;
    int32_t penalty_last; /* tokens looked back; 0 off, -1 = the context */
    float penalty_repeat, penalty_frequency, penalty_presence;
    float dry_multiplier, dry_base;
    int32_t dry_allowed, dry_last;
    /* each costs a pass over the texts of the vocabulary, once */
    const char *dry_breakers[SAMPLE_BREAKERS_MAX];
    size_t dry_breakers_count;
    /* several for one token add up, a -infinity among them wins */
    const struct sample_bias *biases;
    size_t biases_count;
    /* end-of-generation tokens are picked only where the grammar allows nothing else */
    bool ignore_end;
    const char *grammar; /* GBNF (gbnf.h) that starts with "root"; NULL = none */
    /* lazy: it starts with the first of these texts that is generated; NULL = at once */
    const char *const *grammar_triggers;
    size_t grammar_triggers_count; /* limits: grammar.h */
    /* lazy: the grammar follows the text from the beginning (after a thought, if it begins with
     * one) and starts when this has come; NULL = it does not */
    const char *grammar_point;
    /* where it cannot be used (ERR_INVALID, ERR_LIMIT), generation continues without it */
    bool grammar_optional;
    /* lazy: what begins and ends a thought, which may quote triggers: there, only one that is a
     * single token starts the grammar; NULL = nothing does */
    const char *grammar_thought_open, *grammar_thought_close;
    bool grammar_in_thought; /* the prompt has opened one */
    uint32_t logprobs;       /* how many top candidates to report, 0..SAMPLE_TOP_MAX */
    bool logprob;            /* report the picked token's own */
};

#define SAMPLE_SEED_RANDOM UINT64_MAX

struct sample_top {
    token_id token;
    float logprob;
};

struct sample_pick {
    token_id token;
    float logprob; /* of the model's own distribution, before the chain; 0 when not asked for */
    /* most probable first, ties by id; only top_count are written */
    struct sample_top top[SAMPLE_TOP_MAX];
    size_t top_count;
};

/* What a sampler has done so far. */
struct sample_stats {
    uint64_t picks;
    uint64_t redone;         /* the grammar refused the first choice */
    uint64_t logprob_passes; /* over the vocabulary */
};

struct sampler;

struct sample_params sample_params_default(void);

/* ERR_INVALID names the field and its range, or says where the grammar does not parse. Out-of-range
 * and non-finite values never reach the library: some of them abort there. ERR_LIMIT: a list or the
 * grammar is too long. ERR_UNSUPPORTED: DRY breakers for an engine that is not libllama's.
 * ERR_NOMEM: the sampler holds 12 bytes per token of the vocabulary. */
enum err sampler_create(struct sampler **sampler, struct engine *engine,
                        const struct sample_params *params, struct errinfo *info) NODISCARD;
void sampler_destroy(struct sampler **sampler);

/* Feeds the penalties with tokens that were not sampled here: the prompt. The grammar does not
 * see them. Costs nothing when no penalty is on, else at most the tokens that they look back.
 * ERR_NOMEM. */
enum err sampler_prime(struct sampler *sampler, const token_id *tokens, size_t count,
                       struct errinfo *info) NODISCARD;

/* Picks from the logits of item `index` of the last engine_run and remembers the token.
 * ERR_ENGINE when no logits were requested or they are not numbers; ERR_INVALID when the grammar
 * or the biases allow no token, or the grammar is too ambiguous. */
enum err sampler_pick(struct sampler *sampler, size_t index, struct sample_pick *pick,
                      struct errinfo *info) NODISCARD;
/* The same with one of several logits of the item, as engine_logits_nth counts them. */
enum err sampler_pick_nth(struct sampler *sampler, size_t index, uint32_t nth,
                          struct sample_pick *pick, struct errinfo *info) NODISCARD;

/* The log-probabilities of a token that is known already, such as one of the prompt. Remembers
 * nothing. ERR_ENGINE as for sampler_pick. */
enum err sampler_score(struct sampler *sampler, size_t index, uint32_t nth, token_id token,
                       struct sample_pick *pick, struct errinfo *info) NODISCARD;

/* Remembers a token that the caller has chosen instead, so that penalties and the grammar go on
 * from it. ERR_INVALID: the grammar does not allow it. */
enum err sampler_take(struct sampler *sampler, token_id token, struct sample_pick *pick,
                      struct errinfo *info) NODISCARD;

/* The seed in use, so that a random one can be repeated. */
uint32_t sampler_seed(const struct sampler *sampler);

struct sample_stats sampler_stats(const struct sampler *sampler);
