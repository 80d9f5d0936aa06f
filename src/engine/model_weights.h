/*
 * model_weights.h: random weights for models that compute sensible values.
 *
 * The values of a tensor follow from the seed, its name and its shape alone, by integer arithmetic
 * and single IEEE operations, so that they are the same bits on every machine and with every
 * compiler. model_weights.c says what each kind of tensor gets, and why.
 *
 * Everything here is a function of its arguments; any thread.
 */
#ifndef HEARTH_ENGINE_MODEL_WEIGHTS_H
#define HEARTH_ENGINE_MODEL_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

/* What weights depend on besides a tensor's name and shape. */
struct model_weights_plan {
    uint64_t seed;
    uint32_t layers;
    bool tied; /* the output uses the embedding's weights */
};

struct model_weights_rule;

/* How to make one tensor; filled by model_weights_init, no need to be released. */
struct model_weights {
    const struct model_weights_plan *plan;
    const struct model_weights_rule *rule;
    uint64_t key;
    float unit; /* a value is (offset + 16 random bits) units */
    int32_t offset;
    uint64_t row_len, rows; /* rows of one matrix; a tensor of experts has several */
};

/* `dims` are the four sizes of the tensor, fastest first. `plan` must outlive `weights`. */
void model_weights_init(struct model_weights *weights, const struct model_weights_plan *plan,
                        const char *tensor, const int64_t *dims);

/* Row `row` of the tensor, counted through all its matrices: dims[0] values. */
void model_weights_row(const struct model_weights *weights, uint64_t row, float *values);

/* Whether the tensor is stored in 16 bits and may be quantized; else it stays in 32, as in
 * published models. */
bool model_weights_is_matrix(const char *tensor, const int64_t *dims);

#endif
