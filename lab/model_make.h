/*
 * model_make.h: models with random weights, for tests, demos and benchmarks.
 *
 * Architecture, tokenizer, chat template and quantization are real; only the weights are random.
 * Compute time and the shape of the state do not depend on their values. Weights follow from the
 * seed and the tensor's name alone, so that the same options give the same file everywhere, and are
 * scaled so that a model of any depth computes finite, well-spread logits and mostly generates
 * words of its small vocabulary.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct file_sys;
struct model_family;

/* X(value, name) */
#define MODEL_QUANT_TABLE(X)          \
    X(MODEL_QUANT_DEFAULT, "default") \
    X(MODEL_QUANT_F16, "f16")         \
    X(MODEL_QUANT_Q8_0, "q8_0")       \
    X(MODEL_QUANT_Q4_0, "q4_0")       \
    X(MODEL_QUANT_Q4_K, "q4_k")

enum model_quant { MODEL_QUANT_TABLE(TABLE_VALUE) MODEL_QUANT_COUNT };

/* ended by NULL, in the order of the enum: an option's names */
extern const char *const model_quant_names[];

/* Sizes of a model; 0 = as the family or preset has it. */
struct model_shape {
    uint32_t layers;
    uint32_t width;    /* of the residual stream */
    uint32_t heads;    /* of attention layers */
    uint32_t kv_heads; /* divides heads */
    uint32_t head_dim;
    uint32_t ff;           /* width inside a dense feed-forward layer */
    uint32_t experts;      /* per layer */
    uint32_t experts_used; /* per token */
    uint32_t expert_ff;    /* width inside an expert */
    uint32_t window;       /* tokens that a sliding layer sees */
    uint32_t state_size;   /* of recurrent layers, per channel or head */
    uint32_t state_groups; /* key heads of recurrent layers */
    uint32_t context;      /* tokens that the metadata says it was trained for */
    uint32_t vocab;        /* tokens; beyond those of the tokenizer they are unused ones */
    bool tied;             /* output weights are the embedding's */
};

struct model_make_options {
    const char *family; /* a family or a preset; NULL = "random" */
    const char *out;    /* the target file; replaced when it exists */
    struct model_shape shape;
    enum model_quant quant; /* default: the preset's, f16 for a plain family */
    uint64_t seed;
    const struct file_sys *fs; /* NULL = the real one */
    /* Called on the calling thread, 0..1; returning false cancels (ERR_CANCELLED). May be NULL. */
    bool (*on_progress)(float done, void *arg);
    void *arg;
};

/* Writes the model beside its target under a temporary name and renames it at the end; after a
 * failure neither is there (the old file, if any, stays). Not synced to disk: a random model lost
 * in a power cut is made again. Any thread.
 *   ERR_INVALID    the options do not fit together; the sentence says what would
 *   ERR_ENGINE     the library refused the model; the sentence has the reason it gave
 *   and those of the disk */
enum err model_make(const struct model_make_options *options, struct errinfo *info) NODISCARD;

/* A LoRA adapter with random weights for an existing model: it changes queries, keys and values of
 * every layer that has them, and what goes into feed-forward layers. */
struct model_adapter_options {
    const char *base;       /* the model's file */
    const char *out;        /* the target file; replaced when it exists */
    const char *invocation; /* text that activates it (aLoRA); NULL = it is always active */
    uint64_t seed;
};

/* Any thread. ERR_INVALID: the model has nothing to adapt, or the invocation no or too many
 * tokens. */
enum err model_make_adapter(const struct model_adapter_options *options,
                            struct errinfo *info) NODISCARD;

/* The options as they will be used: names looked up, defaults filled in, everything checked. */
struct model_make_plan {
    const char *name; /* of the preset or family */
    const struct model_family *family;
    struct model_shape shape;
    enum model_quant quant; /* never the default */
};

/* What model_make starts with; ERR_INVALID as there. For `--help`, tests, and to show what will
 * be made. */
enum err model_make_resolve(const struct model_make_options *options, struct model_make_plan *plan,
                            struct errinfo *info) NODISCARD;
