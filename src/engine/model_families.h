/*
 * model_families.h: the model families that `hearth model make` can write, as a table.
 *
 * A family is one architecture of the inference library: its name, its default shape (small, for
 * tests), what its options allow, and the functions that write its metadata keys. A preset is a
 * family with the shape of a published model.
 *
 * Everything here is read-only; any thread.
 */
#ifndef HEARTH_ENGINE_MODEL_FAMILIES_H
#define HEARTH_ENGINE_MODEL_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/model_make.h"

struct gguf_context;
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
    MODEL_TRAIT_ENCODER = 1024,   /* makes no text: the engine refuses it */
    /* gated delta net: the state is divided into heads of state_size */
    MODEL_TRAIT_DELTA = 512,
};

typedef void (*model_keys_fn)(const struct model_keys *keys, const struct model_shape *shape);

enum {
    MODEL_FAMILY_KEYS_MAX = 4,
    MODEL_STATE_EXPANSION = 2, /* width of a recurrent layer's inside, in widths of the stream */
    MODEL_SCAN_HEAD_DIM = 64,  /* channels per head of a mamba-2 layer */
    MODEL_LAYERS_MAX = 256,    /* the library takes 512; more than any model has */
};

struct model_family {
    const char *name; /* also the name of the architecture */
    unsigned traits;
    uint32_t layers_min;
    struct model_shape shape;
    model_keys_fn keys[MODEL_FAMILY_KEYS_MAX]; /* beside those that every family has */
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

#endif
