/*
 * model_weights.c: what each kind of tensor gets.
 *
 * GOAL. Activations of about 1 whatever the depth, logits with a spread of about 2, an answer that
 * depends on the whole prompt, and speech that is mostly words. Hence:
 *
 *   matrices      uniform, variance 1 / inputs: a vector of ones-sized values stays one
 *   writers       (what adds to the residual stream) smaller by the root of twice the layers, as in
 *                 GPT-2, so that the sum of all layers is about 1
 *   embedding     variance 4 / width, far below what the layers add: the last token alone does not
 *                 decide
 *   output norm   about 1, with random signs: without them a model with tied weights says its last
 *                 token for ever
 *   other norms   about 1
 *   state decay   negative, and small steps: a recurrent layer remembers some ten tokens, and
 *                 nothing grows
 *
 * SPEECH. Column 0 of the stream is kept free of what layers write (row 0 of every writer is 0), so
 * it holds the constant that the embedding put there when the logits are computed. Column 0 of the
 * output weights is therefore a bias per token: tokens that are no speech (half characters, control
 * tokens, unused ones) get one that suppresses them. With tied weights both are the same number,
 * and its sign has this effect.
 *
 * EXACTNESS. A value is (offset + r) * unit with integers below 2^24 in the bracket: one rounding,
 * nothing a compiler could fuse. Only sqrtf and division, which IEEE fixes, enter `unit`.
 */

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/attr.h"
#include "lab/model_impl.h"

enum rule_kind {
    RULE_RANGE,  /* around `center`, at most `reach` away */
    RULE_FLIP,   /* the same with random signs */
    RULE_MATRIX, /* by the number of inputs, `reach` times the usual */
    RULE_WRITER,
    RULE_EMBEDDING,
    RULE_OUTPUT,
};

struct model_weights_rule {
    const char *pattern; /* of the tensor's name after "blk.N." */
    enum rule_kind kind;
    float center, reach;
};

/* The first that matches. */
static const struct model_weights_rule rules[] = {
    {"output_norm.weight", RULE_FLIP, 1.0F, 0.1F},
    {"attn_q_norm.weight", RULE_RANGE, 4.0F, 0.4F},
    {"*norm*", RULE_RANGE, 1.0F, 0.1F},
    {"v.*ln*.weight", RULE_RANGE, 1.0F, 0.1F},
    {"rope_f*", RULE_RANGE, 1.0F, 0.1F},
    {"ssm_a", RULE_RANGE, -2.0F, 1.5F},
    {"ssm_d", RULE_RANGE, 1.0F, 0.1F},
    {"ssm_dt.bias", RULE_RANGE, -3.5F, 1.5F},
    {"*.bias", RULE_RANGE, 0.0F, 0.05F},
    {"attn_sinks.weight", RULE_RANGE, 0.0F, 1.0F},
    {"token_embd.weight", RULE_EMBEDDING, 0.0F, 2.0F},
    {"output.weight", RULE_OUTPUT, 0.0F, 2.0F},
    {"attn_output.weight", RULE_WRITER, 0.0F, 1.0F},
    {"ffn_down*.weight", RULE_WRITER, 0.0F, 1.0F},
    {"ssm_out.weight", RULE_WRITER, 0.0F, 1.0F},
    {"attn_q*.weight", RULE_MATRIX, 0.0F, 4.0F}, /* sharp attention: some tokens matter much */
    {"*", RULE_MATRIX, 0.0F, 1.0F},
};

/* Values of column 0, see SPEECH. */
static const float SPEECH_INPUT = 1.0F;
static const float speech_output[] = {
    [MODEL_SPEECH_NEVER] = -16.0F, [MODEL_SPEECH_SELDOM] = -1.5F, [MODEL_SPEECH_OFTEN] = 0.0F};
static const float speech_tied[] = {
    [MODEL_SPEECH_NEVER] = -1.2F, [MODEL_SPEECH_SELDOM] = 0.9F, [MODEL_SPEECH_OFTEN] = 1.2F};

/* Tied weights are this much smaller, and the output norm as much larger: the same logits, but the
 * last token's own embedding weighs less in the stream, above all where the library multiplies it
 * by the root of the width. */
static const float TIED_GAIN = 4.0F;

static uint64_t mix(uint64_t x) /* splitmix64's finalizer */
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static uint64_t name_key(const char *name, uint64_t seed)
{
    uint64_t key = mix(seed + UINT64_C(0x9E3779B97F4A7C15));

    for (const char *c = name; *c != '\0'; c++)
        key = mix(key ^ (unsigned char)*c);
    return key;
}

/* The name without "blk.N.": what all layers have in common. */
static const char *leaf(const char *tensor)
{
    if (strncmp(tensor, "blk.", 4) != 0)
        return tensor;
    const char *dot = strchr(tensor + 4, '.');
    return dot != NULL ? dot + 1 : tensor;
}

static const struct model_weights_rule *find_rule(const char *tensor)
{
    size_t i = 0;

    while (fnmatch(rules[i].pattern, leaf(tensor), 0) != 0)
        i++;
    assert(i < COUNT_OF(rules)); /* the last one matches everything */
    return &rules[i];
}

/* Of a uniform value: how far it may be from the center. */
static float reach_of(const struct model_weights *weights)
{
    const float reach = weights->rule->reach;
    /* This reach gives variance 1 / inputs. */
    const float usual = sqrtf(3.0F / (float)weights->row_len);

    switch (weights->rule->kind) {
    case RULE_RANGE:
        return reach;
    case RULE_FLIP:
        return weights->plan->tied ? reach * TIED_GAIN : reach;
    case RULE_WRITER:
        return reach * usual / sqrtf(2.0F * (float)weights->plan->layers);
    case RULE_EMBEDDING:
        return weights->plan->tied ? reach * usual / TIED_GAIN : reach * usual;
    case RULE_MATRIX:
    case RULE_OUTPUT:
        return reach * usual;
    }
    assert(0);
    return 0;
}

/* Column 0 of a row of the embedding or the output. */
static float speech_column(const struct model_weights *weights, uint64_t token)
{
    const enum model_speech speech = model_vocab_speech((uint32_t)token);

    if (weights->plan->tied)
        return speech_tied[speech];
    return weights->rule->kind == RULE_EMBEDDING ? SPEECH_INPUT : speech_output[speech];
}

void model_weights_init(struct model_weights *weights, const struct model_weights_plan *plan,
                        const char *tensor, const int64_t *dims)
{
    *weights = (struct model_weights){
        .plan = plan,
        .rule = find_rule(tensor),
        .key = name_key(tensor, plan->seed),
        .row_len = (uint64_t)dims[0],
        .rows = (uint64_t)dims[1],
    };
    assert(weights->row_len > 0 && weights->rows > 0);
    weights->unit = reach_of(weights) / 32768.0F;
    /* In units of the rule's own reach, so that scaling both keeps their proportion. */
    weights->offset = (int32_t)lrintf(weights->rule->center / weights->rule->reach * 32768.0F);
    assert(weights->offset > -(1 << 23) && weights->offset < 1 << 23);
}

void model_weights_row(const struct model_weights *weights, uint64_t row, float *values)
{
    const uint64_t key = mix(weights->key + row * UINT64_C(0x9E3779B97F4A7C15));
    const enum rule_kind kind = weights->rule->kind;
    uint64_t bits = 0;

    if (kind == RULE_WRITER && row % weights->rows == 0) {
        memset(values, 0, weights->row_len * sizeof(*values));
        return;
    }
    for (uint64_t i = 0; i < weights->row_len; i++, bits >>= 16) {
        if (i % 4 == 0)
            bits = mix(key + i);
        values[i] = (float)(weights->offset + (int16_t)(bits & 0xFFFF)) * weights->unit;
    }
    if (kind == RULE_FLIP)
        for (uint64_t i = 1; i < weights->row_len; i++)
            values[i] = mix(key ^ i) & 1 ? -values[i] : values[i];
    if (kind == RULE_EMBEDDING || kind == RULE_OUTPUT)
        values[0] = speech_column(weights, row);
}

bool model_weights_is_matrix(const char *tensor, const int64_t *dims)
{
    const char *name = leaf(tensor);

    return dims[1] > 1 && fnmatch("*.weight", name, 0) == 0 && fnmatch("*norm*", name, 0) != 0 &&
           fnmatch("*_ape.weight", name, 0) != 0 && strcmp(name, "token_types.weight") != 0 &&
           fnmatch("time_mix_*", name, 0) != 0 && fnmatch("*conv*", name, 0) != 0 &&
           fnmatch("ffn_gate_inp*", name, 0) != 0;
}
