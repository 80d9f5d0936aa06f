/*
 * model_impl.h: the parts of `hearth model make`: families, tokenizer, weights.
 *
 * A family is one architecture of the inference library: its name, its default shape (small, for
 * tests), what its options allow, and its metadata keys as text. A preset is a family with the shape
 * of a published model.
 *
 * Everything here is read-only, or a function of its arguments; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "lab/model_make.h"

struct gguf_context;

/* ---- model_families.c ---- */

struct model_family;

/* The metadata of one model being made: where keys go and what they are prefixed with. */
struct model_keys {
    struct gguf_context *gguf;
    const char *architecture;
};

/* What a family allows and what it has; bits of model_family.traits. */
enum model_trait {
    MODEL_TRAIT_EXPERTS = 1,      /* experts may be asked for; they are as wide as a dense layer */
    MODEL_TRAIT_EXPERTS_MUST = 2, /* experts are required, with their own width */
    MODEL_TRAIT_WINDOW = 4,       /* sliding layers, whose window may be chosen */
    MODEL_TRAIT_BIAS = 8,         /* projections have biases */
    MODEL_TRAIT_TIED = 16,        /* the output always shares the embedding's weights */
    MODEL_TRAIT_UNTIED = 32,      /* the output always has its own weights */
    MODEL_TRAIT_NO_HEADS = 64,    /* no attention at all */
    MODEL_TRAIT_HEADS_FILL = 128, /* heads x head size must be the width */
    MODEL_TRAIT_LATENT = 256,     /* attention rows are one latent vector for all heads */
    MODEL_TRAIT_ENCODER = 1024,   /* makes no text: vectors, or the engine refuses it */
    MODEL_TRAIT_RANK = 8192,      /* has a classifier, which makes scores */
    MODEL_TRAIT_OUTPUT_BIAS = 2048, /* the output has a bias */
    MODEL_TRAIT_ROPE_FREQS = 4096,  /* has its own factors of rotation */
    /* gated delta net: the state is divided into heads of state_size */
    MODEL_TRAIT_DELTA = 512,
};

enum {
    MODEL_STATE_EXPANSION = 2, /* width of a recurrent layer's inside, in widths of the stream */
    MODEL_SCAN_HEAD_DIM = 64,  /* channels per head of a mamba-2 layer */
    MODEL_LAYERS_MAX = 256,    /* the library takes 512; more than any model has */
};

struct model_family {
    const char *name;
    unsigned traits;
    uint32_t layers_min;
    struct model_shape shape;
    const char *text;         /* keys beside those of every family, see model_families.c */
    const char *architecture; /* NULL = its name */
};

struct model_preset {
    const char *name;
    const char *family;
    const char *about; /* for help */
    enum model_quant quant;
    struct model_shape shape;
};

/* By name, or NULL. */
const struct model_family *model_family_find(const char *name);
const struct model_preset *model_preset_find(const char *name);

/* All of them; ended by one without a name. */
extern const struct model_family model_families[];
extern const struct model_preset model_presets[];

/* Writes every metadata key of the architecture (not the tokenizer's). The shape is complete and
 * valid. */
void model_family_set_keys(const struct model_family *family, const struct model_keys *keys,
                           const struct model_shape *shape);

/* ---- model_vocab.c ----
 *
 *      0 .. 255          the bytes: token n is byte n, so that any text can be written
 *      256 .. 767        pieces of English and code, made by merges
 *      768 .. 776        control and marker tokens, <|endoftext|> first
 *      777 .. vocab - 1  unused ones, for models that need a large vocabulary
 */

/* Tokens of the smallest vocabulary: everything but unused ones. */
uint32_t model_vocab_min(void);

/* Writes the tokenizer.* keys for a vocabulary of the given size (at least the smallest). */
enum err model_vocab_set_keys(struct gguf_context *gguf, uint32_t vocab,
                              struct errinfo *info) NODISCARD;

/* How often a model with random weights should generate a token. */
enum model_speech {
    /* half characters, control tokens, unused ones: they would garble a terminal */
    MODEL_SPEECH_NEVER,
    MODEL_SPEECH_SELDOM, /* parts of words, signs, the end of the answer */
    MODEL_SPEECH_OFTEN,  /* words */
};
enum model_speech model_vocab_speech(uint32_t token);

/* ChatML with tools (JSON, as in Hermes), tool results and reasoning; Jinja. */
const char *model_vocab_chat_template(void);

/* ---- model_weights.c ----
 *
 * The values of a tensor follow from the seed, its name and its shape alone, by integer arithmetic
 * and single IEEE operations, so that they are the same bits on every machine and with every
 * compiler. model_weights.c says what each kind of tensor gets, and why.
 */

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

/* ---- model_projector.c ---- */

struct model_projector;

/* By its name in `--family`, or NULL. */
const struct model_projector *model_projector_find(const char *name);
/* Only the width (that of the model), the seed and the target of the options are used. */
enum err model_projector_make(const struct model_projector *projector,
                              const struct model_make_options *options,
                              struct errinfo *info) NODISCARD;
