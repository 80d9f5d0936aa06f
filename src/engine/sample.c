/*
 * sample.c: parameters to a chain of the library's samplers, logits to candidates, candidates to a
 * token.
 *
 * Logits are copied into an array of candidates that the sampler keeps, so that a pick allocates
 * nothing itself. Biases are applied here: an infinite one, added as it is, would give the library
 * NaNs to sort. Candidates at -infinity are removed before the chain, which saves work and keeps 0
 * * log 0 out of the library's "typical".
 *
 * GRAMMAR. Finding all tokens that may come takes up to milliseconds; asking about one token costs
 * microseconds. So a token is picked without the grammar first, and only if it is refused the
 * candidates are masked and a second one is picked. Compared with masking first:
 *   - greedy: the same token, always. The largest of all, if allowed, is the largest of the
 *     allowed.
 *   - random, nothing but biases, penalties and temperature in the chain: the same probabilities.
 *     The second pick draws
 *     new random numbers, so p(x) + p(refused) * p(x | allowed) = p(x | allowed).
 *   - with steps that narrow the choice (top-k, ...): every token is one that masking first could
 *     give too, or that the chain gives without a grammar; but the probabilities may differ, as
 *     they do in llama.cpp.
 *   - the tokens themselves differ for one seed, as more random numbers are drawn; a run can be
 *     repeated all the same.
 * State that remembers tokens (penalties, DRY, the grammar) changes once per pick, after it.
 *
 * GREEDY leaves out every step that only narrows the choice: they keep the largest, except typical
 * and XTC, which are meant for random picks.
 *
 * Not done here: which parameters a request has (api/), when to stop (sched/).
 */
#include "engine/sample.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "base/hash.h"
#include "base/mem.h"
#include "engine/engine_llama.h"
#include "engine/catch.h"
#include "engine/grammar.h"

/* Below this the second best of two logits that differ by 0.01 has a probability of e^-100: greedy,
 * and no overflow when logits are divided by it. */
#define TEMPERATURE_MIN 1e-4f

/* What a bias of +infinity adds: above all others together, and finite after a division by
 * TEMPERATURE_MIN. */
#define BIAS_FORCED  1e12f
#define BIAS_ABS_MAX 1e6f

/* Tokens below this probability are never drawn; this keeps logarithms of 0 out of the library's
 * "typical". */
#define TYPICAL_FLOOR 1e-30f

enum {
    KEEP_MIN = 1,     /* no step leaves fewer candidates */
    NARROW_MAX = 256, /* above this, all candidates are given to the library */
};

struct sampler {
    struct engine *engine;
    struct llama_sampler *chain;
    struct grammar *grammar; /* NULL = none */
    bool grammar_optional;
    struct sample_bias *biases;
    size_t biases_count;
    struct llama_token_data *candidates; /* vocab of them */
    uint32_t vocab;
    uint32_t seed;
    uint32_t logprobs;
    bool logprob, ignore_end;
    /* so many of the largest logits are enough for the chain; 0 = it needs all of them */
    uint32_t narrow;
    size_t memory; /* tokens that penalties look back; 0 = none is on */
    struct sample_stats stats;
};

/* ---- checking parameters ---- */

#define FIELD(name) #name, offsetof(struct sample_params, name)

static const struct {
    const char *name;
    size_t offset;
    float min, max;
} float_ranges[] = {
    {FIELD(temperature), -100, 100},
    {FIELD(top_p), 0, 1},
    {FIELD(min_p), 0, 1},
    {FIELD(typical_p), 0, 1},
    {FIELD(top_n_sigma), -100, 100},
    {FIELD(xtc_probability), 0, 1},
    {FIELD(xtc_threshold), 0, 1},
    {FIELD(penalty_repeat), 0.001f, 1000},
    {FIELD(penalty_frequency), -100, 100},
    {FIELD(penalty_presence), -100, 100},
    {FIELD(dry_multiplier), 0, 100},
    {FIELD(dry_base), 1, 100},
};

static const struct {
    const char *name;
    size_t offset;
    int32_t min;
} int_ranges[] = {
    {FIELD(penalty_last), -1},
    {FIELD(dry_last), -1},
    {FIELD(dry_allowed), 1},
};

static enum err check_numbers(const struct sample_params *params, struct errinfo *info)
{
    for (size_t i = 0; i < COUNT_OF(float_ranges); i++) {
        float value;
        memcpy(&value, (const char *)params + float_ranges[i].offset, sizeof(value));
        if (!(value >= float_ranges[i].min && value <= float_ranges[i].max)) /* NaN fails as well */
            return err_set(info, ERR_INVALID, "%s must be a number from %g to %g",
                           float_ranges[i].name, (double)float_ranges[i].min,
                           (double)float_ranges[i].max);
    }
    for (size_t i = 0; i < COUNT_OF(int_ranges); i++) {
        int32_t value;
        memcpy(&value, (const char *)params + int_ranges[i].offset, sizeof(value));
        if (value < int_ranges[i].min)
            return err_set(info, ERR_INVALID, "%s must be a whole number of at least %d",
                           int_ranges[i].name, int_ranges[i].min);
    }
    if (params->logprobs > SAMPLE_TOP_MAX)
        return err_set(info, ERR_INVALID, "logprobs must be at most %d", SAMPLE_TOP_MAX);
    return ERR_OK;
}

static enum err check_biases(const struct engine *engine, const struct sample_params *params,
                             struct errinfo *info)
{
    uint32_t vocab = engine_facts(engine)->vocab;

    if (params->biases_count > vocab)
        return err_set(info, ERR_LIMIT, "more biases than the %u tokens of the vocabulary", vocab);
    for (size_t i = 0; i < params->biases_count; i++) {
        const struct sample_bias *bias = &params->biases[i];
        if (!engine_token_valid(engine, bias->token))
            return err_set(info, ERR_INVALID,
                           "bias for token %d, which is not in the vocabulary of %u", bias->token,
                           vocab);
        if (!isinf(bias->bias) && !(fabsf(bias->bias) <= BIAS_ABS_MAX))
            return err_set(info, ERR_INVALID, "bias for token %d must be a number from %g to %g",
                           bias->token, (double)-BIAS_ABS_MAX, (double)BIAS_ABS_MAX);
    }
    return ERR_OK;
}

static bool dry_is_on(const struct sample_params *params)
{
    return params->dry_multiplier > 0.0f && params->dry_last != 0;
}

static bool penalties_are_on(const struct sample_params *params)
{
    return params->penalty_last != 0 &&
           (params->penalty_repeat != 1.0f || params->penalty_frequency != 0.0f ||
            params->penalty_presence != 0.0f);
}

static enum err check_breakers(const struct engine *engine, const struct sample_params *params,
                               struct errinfo *info)
{
    if (params->dry_breakers_count > SAMPLE_BREAKERS_MAX)
        return err_set(info, ERR_LIMIT, "more than %d dry_breakers", SAMPLE_BREAKERS_MAX);
    for (size_t i = 0; i < params->dry_breakers_count; i++) {
        size_t len = strnlen(params->dry_breakers[i], SAMPLE_BREAKER_BYTES_MAX + 1);
        if (len == 0 || len > SAMPLE_BREAKER_BYTES_MAX)
            return err_set(info, ERR_INVALID, "each of dry_breakers must have 1 to %d bytes",
                           SAMPLE_BREAKER_BYTES_MAX);
    }
    if (dry_is_on(params) && params->dry_breakers_count > 0 && engine_llama_vocab(engine) == NULL)
        return err_set(info, ERR_UNSUPPORTED, "this engine has no dry_breakers");
    return ERR_OK;
}

/* ---- building ---- */

/* How far back, in tokens: -1 means the context, and no memory is spent on more than that. */
static int32_t look_back(const struct engine *engine, int32_t last)
{
    uint32_t context = MIN(engine_facts(engine)->context, (uint32_t)INT32_MAX);

    return last < 0 || (uint32_t)last > context ? (int32_t)context : last;
}

static void add_memory(struct sampler *sampler, const struct sample_params *params)
{
    int32_t penalty_last = look_back(sampler->engine, params->penalty_last);
    int32_t dry_last = look_back(sampler->engine, params->dry_last);

    if (penalties_are_on(params)) {
        llama_sampler_chain_add(sampler->chain,
                                llama_sampler_init_penalties(
                                    (int32_t)sampler->vocab, penalty_last, params->penalty_repeat,
                                    params->penalty_frequency, params->penalty_presence));
        sampler->memory = (size_t)penalty_last;
    }
    if (dry_is_on(params)) {
        const char *breakers[SAMPLE_BREAKERS_MAX];
        memcpy(breakers, params->dry_breakers, sizeof(breakers));
        llama_sampler_chain_add(sampler->chain,
                                llama_sampler_init_dry(engine_llama_vocab(sampler->engine),
                                                       params->dry_multiplier, params->dry_base,
                                                       params->dry_allowed, dry_last, breakers,
                                                       params->dry_breakers_count));
        sampler->memory = MAX(sampler->memory, (size_t)dry_last);
    }
}

static void add_narrowing(struct sampler *sampler, const struct sample_params *params)
{
    struct llama_sampler *chain = sampler->chain;

    if (params->top_n_sigma > 0.0f)
        llama_sampler_chain_add(chain, llama_sampler_init_top_n_sigma(params->top_n_sigma));
    if (params->top_k > 0)
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(params->top_k));
    if (params->typical_p < 1.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(TYPICAL_FLOOR, KEEP_MIN));
        llama_sampler_chain_add(chain, llama_sampler_init_typical(params->typical_p, KEEP_MIN));
    }
    if (params->top_p < 1.0f)
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(params->top_p, KEEP_MIN));
    if (params->min_p > 0.0f)
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(params->min_p, KEEP_MIN));
    if (params->xtc_probability > 0.0f) {
        /* A different seed than the pick's: with the same one both would draw the same numbers. */
        uint32_t seed = (sampler->seed ^ 0x9E3779B9u) & 0x7FFFFFFFu;
        llama_sampler_chain_add(
            chain,
            llama_sampler_init_xtc(params->xtc_probability, params->xtc_threshold, KEEP_MIN, seed));
    }
}

struct chain_call {
    struct sampler *sampler;
    const struct sample_params *params;
    struct llama_token_data_array *array; /* to pick from */
    token_id token;                       /* that came */
};

static void call_build(void *arg)
{
    const struct chain_call *call = arg;
    struct sampler *sampler = call->sampler;
    const struct sample_params *params = call->params;

    sampler->chain = llama_sampler_chain_init((struct llama_sampler_chain_params){.no_perf = true});
    add_memory(sampler, params);
    if (params->temperature < TEMPERATURE_MIN) {
        llama_sampler_chain_add(sampler->chain, llama_sampler_init_greedy());
        return;
    }
    add_narrowing(sampler, params);
    if (params->temperature != 1.0f)
        llama_sampler_chain_add(sampler->chain, llama_sampler_init_temp(params->temperature));
    llama_sampler_chain_add(sampler->chain, llama_sampler_init_dist(sampler->seed));
}

static void call_apply(void *arg)
{
    const struct chain_call *call = arg;

    llama_sampler_apply(call->sampler->chain, call->array);
}

static void call_accept(void *arg)
{
    const struct chain_call *call = arg;

    llama_sampler_accept(call->sampler->chain, call->token);
}

/* The library's samplers allocate memory and throw when there is none. */
static enum err call_chain(void (*body)(void *arg), struct chain_call *call, struct errinfo *info)
{
    enum err err = catch_call(body, call);

    return err == ERR_OK ? ERR_OK : err_set(info, err, "the library failed to sample");
}

static enum err accept(struct sampler *sampler, token_id token, struct errinfo *info)
{
    struct chain_call call = {.sampler = sampler, .token = token};

    return call_chain(call_accept, &call, info);
}

/* 32 bits of the seed. Small numbers are kept, so that the value of sampler_seed() can be passed
 * in again. Never all ones, which the library takes for "random". */
static uint32_t choose_seed(uint64_t seed)
{
    if (seed == SAMPLE_SEED_RANDOM)
        hash_random(&seed, sizeof(seed));
    uint32_t folded = (uint32_t)(seed ^ seed >> 32);
    return folded == LLAMA_DEFAULT_SEED ? 0 : folded;
}

static int compare_biases(const void *a, const void *b)
{
    const struct sample_bias *left = a, *right = b;

    return (left->token > right->token) - (left->token < right->token);
}

/* One bias per token, in the order of tokens. */
static void merge_biases(struct sampler *sampler)
{
    struct sample_bias *biases = sampler->biases;
    size_t kept = 0;

    qsort(biases, sampler->biases_count, sizeof(*biases), compare_biases);
    for (size_t i = 0; i < sampler->biases_count; i++) {
        if (kept > 0 && biases[kept - 1].token == biases[i].token)
            biases[kept - 1].bias += biases[i].bias;
        else
            biases[kept++] = biases[i];
    }
    sampler->biases_count = kept;
}

/* The caller's biases, and one against each token that ends a generation. */
static enum err copy_biases(struct sampler *sampler, const struct sample_params *params)
{
    const token_id vocab = (token_id)sampler->vocab;
    size_t ends = 0;

    for (token_id token = 0; params->ignore_end && token < vocab; token++)
        ends += engine_token_is_end(sampler->engine, token);
    size_t max = params->biases_count + ends;
    if (max == 0)
        return ERR_OK;
    sampler->biases = mem_try_alloc_array(max, sizeof(*sampler->biases));
    if (sampler->biases == NULL)
        return ERR_NOMEM;
    for (size_t i = 0; i < params->biases_count; i++) {
        struct sample_bias bias = params->biases[i];
        bias.bias = bias.bias == INFINITY ? BIAS_FORCED : bias.bias;
        sampler->biases[sampler->biases_count++] = bias;
    }
    for (token_id token = 0; ends > 0 && token < vocab; token++)
        if (engine_token_is_end(sampler->engine, token))
            sampler->biases[sampler->biases_count++] = (struct sample_bias){token, -INFINITY};
    assert(sampler->biases_count == max);
    merge_biases(sampler);
    return ERR_OK;
}

/* Greedy takes the largest logit, and top-k as the first step of the chain the k largest; penalties
 * and top-n-sigma look at all. n biases can push n of them down, so as many more are needed. */
static uint32_t narrow_of(const struct sampler *sampler, const struct sample_params *params)
{
    bool greedy = params->temperature < TEMPERATURE_MIN;
    size_t count = greedy ? 1 : params->top_n_sigma > 0.0f ? 0 : (size_t)MAX(params->top_k, 0);

    if (count == 0 || sampler->memory > 0 || count + sampler->biases_count > NARROW_MAX)
        return 0;
    return (uint32_t)(count + sampler->biases_count);
}

/* Drops an optional grammar that has failed. Only the grammar's own limits are its fault. */
static enum err without_grammar(struct sampler *sampler, enum err err)
{
    if (!sampler->grammar_optional || (err != ERR_INVALID && err != ERR_LIMIT))
        return err;
    grammar_destroy(&sampler->grammar);
    return ERR_OK;
}

static enum err build(struct sampler *sampler, const struct sample_params *params,
                      struct errinfo *info)
{
    TRY(check_numbers(params, info));
    TRY(check_biases(sampler->engine, params, info));
    TRY(check_breakers(sampler->engine, params, info));
    sampler->candidates = mem_try_alloc_array(sampler->vocab, sizeof(*sampler->candidates));
    if (sampler->candidates == NULL || copy_biases(sampler, params) != ERR_OK)
        return err_set(info, ERR_NOMEM, "no memory for %u candidates", sampler->vocab);
    if (params->grammar != NULL)
        TRY(without_grammar(sampler,
                            grammar_create(&sampler->grammar, sampler->engine, params, info)));
    TRY(call_chain(call_build, &(struct chain_call){sampler, params, NULL, 0}, info));
    sampler->narrow = narrow_of(sampler, params);
    return ERR_OK;
}

/* ---- the largest logits ---- */

/* Whether `a` comes after `b` in the list of the most probable. */
static bool ranks_below(struct sample_top a, struct sample_top b)
{
    return a.logprob < b.logprob || (a.logprob == b.logprob && a.token > b.token);
}

static void insert_top(struct sample_top *top, size_t *count, size_t max, struct sample_top next)
{
    size_t place = *count < max ? (*count)++ : max - 1;

    for (; place > 0 && ranks_below(top[place - 1], next); place--)
        top[place] = top[place - 1];
    top[place] = next;
}

/* Whether some of these logits is above `floor`, or not a number, or +infinity. */
static bool has_above(const float *logits, uint32_t count, float floor)
{
    int found = 0; /* written so that compilers use vectors: four times as fast */

    for (uint32_t i = 0; i < count; i++)
        found |= logits[i] <= floor ? 0 : 1;
    return found != 0;
}

/* The `max` largest logits, largest first, without those at -infinity. A vocabulary has 150,000 of
 * them, and few come into the list: blocks without one are skipped, and inserting is cheap. False:
 * one of them is not a number, or +infinity. */
static bool select_top(const float *logits, uint32_t vocab, size_t max, struct sample_top *top,
                       size_t *out)
{
    enum { BLOCK = 64 };
    float floor = -INFINITY;
    size_t count = 0;

    for (uint32_t at = 0; at < vocab; at += BLOCK) {
        uint32_t end = MIN(at + BLOCK, vocab);
        if (!has_above(logits + at, end - at, floor))
            continue;
        for (uint32_t i = at; i < end; i++) {
            struct sample_top next = {(token_id)i, logits[i]};
            if (!(logits[i] < INFINITY))
                return false;
            if (!(logits[i] > floor) || max == 0)
                continue;
            insert_top(top, &count, max, next);
            floor = count == max ? top[max - 1].logprob : floor;
        }
    }
    *out = count;
    return true;
}

/* ---- picking ---- */

static enum err not_a_number(struct errinfo *info)
{
    return err_set(info, ERR_ENGINE, "the model's output is not a number: its file may be damaged");
}

/* Candidates from logits and biases, in the order of their ids. */
static enum err fill(struct sampler *sampler, const float *logits,
                     struct llama_token_data_array *array, struct errinfo *info)
{
    struct llama_token_data *candidates = sampler->candidates;
    bool numbers = true;

    for (uint32_t i = 0; i < sampler->vocab; i++) {
        numbers &= logits[i] < INFINITY; /* neither NaN nor +infinity, which becomes one */
        candidates[i] = (struct llama_token_data){.id = (token_id)i, .logit = logits[i]};
    }
    if (!numbers)
        return not_a_number(info);
    for (size_t i = 0; i < sampler->biases_count; i++)
        candidates[sampler->biases[i].token].logit += sampler->biases[i].bias;
    *array =
        (struct llama_token_data_array){.data = candidates, .size = sampler->vocab, .selected = -1};
    return ERR_OK;
}

static void drop_forbidden(struct llama_token_data_array *array)
{
    size_t kept = 0;

    for (size_t i = 0; i < array->size; i++)
        if (array->data[i].logit > -INFINITY)
            array->data[kept++] = array->data[i];
    array->size = kept;
}

/* Tokens with a bias leave the list, and those that are not forbidden come back at their place. */
static size_t bias_top(const struct sampler *sampler, const float *logits, struct sample_top *top,
                       size_t count)
{
    const struct sample_bias *biases = sampler->biases;
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct sample_bias key = {.token = top[i].token};
        if (sampler->biases_count == 0 ||
            bsearch(&key, biases, sampler->biases_count, sizeof(key), compare_biases) == NULL)
            top[kept++] = top[i];
    }
    for (size_t i = 0; i < sampler->biases_count; i++) {
        float logit = logits[biases[i].token] + biases[i].bias;
        if (logit > -INFINITY)
            insert_top(top, &kept, NARROW_MAX, (struct sample_top){biases[i].token, logit});
    }
    return kept;
}

/* The candidates that a narrow chain can pick, largest first. */
static enum err fill_top(struct sampler *sampler, const float *logits,
                         struct llama_token_data_array *array, struct errinfo *info)
{
    struct sample_top top[NARROW_MAX];

    *array = (struct llama_token_data_array){.data = sampler->candidates, .selected = -1};
    if (!select_top(logits, sampler->vocab, sampler->narrow, top, &array->size))
        return not_a_number(info);
    array->size = bias_top(sampler, logits, top, array->size);
    for (size_t i = 0; i < array->size; i++)
        array->data[i] = (struct llama_token_data){.id = top[i].token, .logit = top[i].logprob};
    return ERR_OK;
}

static int by_id(const void *key, const void *candidate)
{
    token_id id = *(const token_id *)key, other = ((const struct llama_token_data *)candidate)->id;

    return (id > other) - (id < other);
}

/* What the grammar allows, as filling, masking and dropping would leave it. It is a few tokens of
 * 150,000 in most places: only those are touched. A draw without the mask has checked the logits. */
static enum err fill_allowed(struct sampler *sampler, const float *logits,
                             struct llama_token_data_array *array, struct errinfo *info)
{
    struct llama_token_data *candidates = sampler->candidates;
    const uint64_t *allowed;
    size_t count = 0;

    TRY(grammar_allowed(sampler->grammar, &allowed, info));
    if (allowed == NULL) {
        TRY(fill(sampler, logits, array, info));
        return grammar_mask(sampler->grammar, array, info);
    }
    for (uint32_t base = 0; base < sampler->vocab; base += 64)
        for (uint64_t bits = allowed[base / 64]; bits != 0; bits &= bits - 1) {
            uint32_t id = base + (uint32_t)__builtin_ctzll(bits);
            candidates[count++] =
                (struct llama_token_data){.id = (token_id)id, .logit = logits[id]};
        }
    for (size_t i = 0; i < sampler->biases_count; i++) {
        const struct sample_bias *bias = &sampler->biases[i];
        struct llama_token_data *found =
            bsearch(&bias->token, candidates, count, sizeof(*candidates), by_id);
        if (found != NULL)
            found->logit += bias->bias;
    }
    *array = (struct llama_token_data_array){.data = candidates, .size = count, .selected = -1};
    return ERR_OK;
}

/* A complete grammar allows nothing but the end, which ignore_end forbids: the grammar decides. */
static token_id allowed_end(const struct sampler *sampler, const float *logits)
{
    token_id best = TOKEN_NONE;

    for (size_t i = 0; sampler->ignore_end && i < sampler->biases_count; i++) {
        token_id token = sampler->biases[i].token;
        if (engine_token_is_end(sampler->engine, token) &&
            grammar_allows(sampler->grammar, token) &&
            (best == TOKEN_NONE || logits[token] > logits[best]))
            best = token;
    }
    return best;
}

static enum err draw(struct sampler *sampler, const float *logits, bool masked, token_id *token,
                     struct errinfo *info)
{
    struct llama_token_data_array array;

    if (sampler->narrow > 0 && !masked) {
        TRY(fill_top(sampler, logits, &array, info));
    } else {
        TRY((masked ? fill_allowed : fill)(sampler, logits, &array, info));
        drop_forbidden(&array);
    }
    if (array.size == 0 && masked && (*token = allowed_end(sampler, logits)) != TOKEN_NONE)
        return ERR_OK;
    if (array.size == 0)
        return err_set(info, ERR_INVALID,
                       masked ? "the grammar allows nothing more"
                              : "the biases forbid every token");
    struct chain_call call = {.sampler = sampler, .array = &array};
    TRY(call_chain(call_apply, &call, info));
    assert(array.selected >= 0 && (size_t)array.selected < array.size);
    *token = array.data[array.selected].id;
    return ERR_OK;
}

/* ---- log-probabilities ---- */

/* log of the sum of e^logit: subtracting it turns a logit into a log-probability. */
static double log_sum_exp(const float *logits, uint32_t vocab)
{
    float largest = -INFINITY;
    double sum = 0.0;

    for (uint32_t i = 0; i < vocab; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)(logits[i] - largest));
    return (double)largest + log(sum);
}

/* False: the logits are not numbers. */
static bool fill_logprobs(struct sampler *sampler, const float *logits, struct sample_pick *pick)
{
    double total = log_sum_exp(logits, sampler->vocab);

    sampler->stats.logprob_passes++;
    if (sampler->logprob)
        pick->logprob = (float)((double)logits[pick->token] - total);
    bool good = select_top(logits, sampler->vocab, sampler->logprobs, pick->top, &pick->top_count);
    for (size_t i = 0; i < pick->top_count; i++)
        pick->top[i].logprob = (float)((double)pick->top[i].logprob - total);
    return good && isfinite(total);
}

/* ---- public ---- */

struct sample_params sample_params_default(void)
{
    return (struct sample_params){
        .seed = SAMPLE_SEED_RANDOM,
        .temperature = 0.8f,
        .top_p = 1.0f,
        .typical_p = 1.0f,
        .xtc_threshold = 0.1f,
        .penalty_last = 64,
        .penalty_repeat = 1.0f,
        .dry_base = 1.75f,
        .dry_allowed = 2,
        .dry_last = -1,
        .dry_breakers = {"\n", ":", "\"", "*"},
        .dry_breakers_count = 4,
    };
}

enum err sampler_create(struct sampler **out, struct engine *engine,
                        const struct sample_params *params, struct errinfo *info)
{
    struct sampler *sampler = mem_alloc(sizeof(*sampler));

    sampler->engine = engine;
    sampler->vocab = engine_facts(engine)->vocab;
    sampler->seed = choose_seed(params->seed);
    sampler->logprobs = params->logprobs;
    sampler->logprob = params->logprob;
    sampler->ignore_end = params->ignore_end;
    sampler->grammar_optional = params->grammar_optional;
    enum err err = build(sampler, params, info);
    if (err != ERR_OK)
        sampler_destroy(&sampler);
    *out = sampler;
    return err;
}

void sampler_destroy(struct sampler **sampler)
{
    if (*sampler == NULL)
        return;
    llama_sampler_free((*sampler)->chain);
    grammar_destroy(&(*sampler)->grammar);
    mem_free((*sampler)->biases);
    mem_free((*sampler)->candidates);
    mem_free(*sampler);
    *sampler = NULL;
}

enum err sampler_prime(struct sampler *sampler, const token_id *tokens, size_t count,
                       struct errinfo *info)
{
    for (size_t i = count - MIN(count, sampler->memory); i < count; i++)
        if (engine_token_valid(sampler->engine, tokens[i])) /* a picture is not repeated */
            TRY(accept(sampler, tokens[i], info));
    return ERR_OK;
}

enum err sampler_take(struct sampler *sampler, token_id token, struct sample_pick *pick,
                      struct errinfo *info)
{
    TRY(accept(sampler, token, info));
    if (sampler->grammar != NULL)
        TRY(without_grammar(sampler, grammar_accept(sampler->grammar, token, info)));
    sampler->stats.picks++;
    pick->token = token;
    pick->logprob = 0.0f;
    pick->top_count = 0;
    return ERR_OK;
}

static enum err no_logits(size_t index, struct errinfo *info)
{
    return err_set(info, ERR_ENGINE, "item %zu of the last run has no logits", index);
}

/* Instead of a token that the grammar refused, and that is kept if the grammar has failed. */
static enum err draw_allowed(struct sampler *sampler, const float *logits, token_id *token,
                             struct errinfo *info)
{
    token_id allowed;
    enum err err = draw(sampler, logits, true, &allowed, info);

    if (err == ERR_OK)
        *token = allowed;
    return without_grammar(sampler, err);
}

static enum err pick_from(struct sampler *sampler, size_t index, const float *logits,
                          struct sample_pick *pick, struct errinfo *info)
{
    token_id token;

    if (logits == NULL)
        return no_logits(index, info);
    TRY(draw(sampler, logits, false, &token, info));
    if (sampler->grammar != NULL && !grammar_allows(sampler->grammar, token)) {
        sampler->stats.redone++;
        TRY(draw_allowed(sampler, logits, &token, info));
    }
    TRY(sampler_take(sampler, token, pick, info));
    if (sampler->logprob || sampler->logprobs > 0)
        (void)fill_logprobs(sampler, logits, pick); /* draw has checked the logits */
    return ERR_OK;
}

enum err sampler_pick(struct sampler *sampler, size_t index, struct sample_pick *pick,
                      struct errinfo *info)
{
    return pick_from(sampler, index, engine_logits(sampler->engine, index), pick, info);
}

enum err sampler_pick_nth(struct sampler *sampler, size_t index, uint32_t nth,
                          struct sample_pick *pick, struct errinfo *info)
{
    return pick_from(sampler, index, engine_logits_nth(sampler->engine, index, nth), pick, info);
}

enum err sampler_score(struct sampler *sampler, size_t index, uint32_t nth, token_id token,
                       struct sample_pick *pick, struct errinfo *info)
{
    const float *logits = engine_logits_nth(sampler->engine, index, nth);

    if (logits == NULL)
        return no_logits(index, info);
    *pick = (struct sample_pick){.token = token};
    return fill_logprobs(sampler, logits, pick) ? ERR_OK : not_a_number(info);
}

uint32_t sampler_seed(const struct sampler *sampler)
{
    return sampler->seed;
}

struct sample_stats sampler_stats(const struct sampler *sampler)
{
    return sampler->stats;
}
