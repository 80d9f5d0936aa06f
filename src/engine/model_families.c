/*
 * model_families.c: which metadata keys make which architecture.
 *
 * The inference library derives every tensor from the metadata, so a family is described by keys
 * alone: those that all have (common_keys), then up to four functions of its row, one per feature
 * (experts, sliding window, recurrent layers, latent attention). A later function may replace what
 * an earlier one wrote; that is how a family with different kinds of layers turns one number into
 * an array.
 *
 * Ratios between sizes (a state twice as wide as the stream, rotation of half or a quarter of a
 * head) are those of the published models of the family. What the library fixes itself is not an
 * option here: llama4's chunk is always 8,192 tokens, jamba and granitehybrid always expand by two.
 */
#include "engine/model_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <gguf.h>

enum {
    KEY_BYTES_MAX = 128,
    CONV_KERNEL = 4,        /* of all published recurrent models */
    ATTENTION_INTERVAL = 4, /* hybrids: every fourth layer attends */
};

static const char *key_name(const struct model_keys *keys, const char *name,
                            char out[KEY_BYTES_MAX])
{
    int len = snprintf(out, KEY_BYTES_MAX, "%s.%s", keys->architecture, name);

    assert(len > 0 && len < KEY_BYTES_MAX);
    return out;
}

static void set_u32(const struct model_keys *keys, const char *name, uint32_t value)
{
    char key[KEY_BYTES_MAX];

    gguf_set_val_u32(keys->gguf, key_name(keys, name, key), value);
}

static void set_f32(const struct model_keys *keys, const char *name, float value)
{
    char key[KEY_BYTES_MAX];

    gguf_set_val_f32(keys->gguf, key_name(keys, name, key), value);
}

static void set_bool(const struct model_keys *keys, const char *name, bool value)
{
    char key[KEY_BYTES_MAX];

    gguf_set_val_bool(keys->gguf, key_name(keys, name, key), value);
}

/* One number per layer. */
static void set_u32_array(const struct model_keys *keys, const char *name, const uint32_t *values,
                          size_t count)
{
    char key[KEY_BYTES_MAX];

    gguf_set_arr_data(keys->gguf, key_name(keys, name, key), GGUF_TYPE_UINT32, values, count);
}

/* With fewer layers than a period, the last one acts as the period's last, so that every kind of
 * layer is present. */
static uint32_t period_within(uint32_t period, uint32_t layers)
{
    return MIN(period, layers);
}

static bool layer_attends(uint32_t layer, uint32_t layers)
{
    return (layer + 1) % period_within(ATTENTION_INTERVAL, layers) == 0;
}

/* ---- features ---- */

static void common_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    set_u32(keys, "vocab_size", shape->vocab);
    set_u32(keys, "context_length", shape->context);
    set_u32(keys, "embedding_length", shape->width);
    set_u32(keys, "block_count", shape->layers);
    set_u32(keys, "feed_forward_length", shape->ff);
    set_f32(keys, "attention.layer_norm_rms_epsilon", 1e-6F);
    if (shape->heads == 0)
        return;
    set_u32(keys, "attention.head_count", shape->heads);
    set_u32(keys, "attention.head_count_kv", shape->kv_heads);
    set_u32(keys, "attention.key_length", shape->head_dim);
    set_u32(keys, "attention.value_length", shape->head_dim);
    set_u32(keys, "rope.dimension_count", shape->head_dim);
    set_f32(keys, "rope.freq_base", 1e6F);
}

static void expert_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    if (shape->experts == 0)
        return;
    set_u32(keys, "expert_count", shape->experts);
    set_u32(keys, "expert_used_count", shape->experts_used);
    set_u32(keys, "expert_feed_forward_length", shape->expert_ff);
}

static void shared_expert_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    expert_keys(keys, shape);
    set_u32(keys, "expert_shared_feed_forward_length", shape->expert_ff);
}

/* Experts as deepseek2 and kimi-linear have them: first layer dense, sigmoid gates. */
static void grouped_expert_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    const uint32_t gating_sigmoid = 2;

    expert_keys(keys, shape);
    set_u32(keys, "leading_dense_block_count", 1);
    set_u32(keys, "expert_shared_count", 1);
    set_u32(keys, "expert_gating_func", gating_sigmoid);
    set_f32(keys, "expert_weights_scale", 1.0F);
    set_bool(keys, "expert_weights_norm", true);
}

static void sliding_keys(const struct model_keys *keys, const struct model_shape *shape,
                         uint32_t period)
{
    set_u32(keys, "attention.sliding_window", shape->window);
    set_u32(keys, "attention.sliding_window_pattern", period_within(period, shape->layers));
}

static void gemma2_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    sliding_keys(keys, shape, 2);
    set_f32(keys, "attn_logit_softcapping", 50.0F);
    set_f32(keys, "final_logit_softcapping", 30.0F);
}

static void gemma3_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    sliding_keys(keys, shape, 6);
    set_f32(keys, "rope.freq_base_swa", 1e4F);
}

static void gpt_oss_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    sliding_keys(keys, shape, 2);
}

static void llama4_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    (void)shape;
    set_u32(keys, "interleave_moe_layer_step", 1);
}

/* Gated delta net, with a gated attention layer in between; rotation of a quarter of a head. */
static void delta_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    const uint32_t inner = MODEL_STATE_EXPANSION * shape->width;
    const uint32_t rotated = shape->head_dim / 4;
    const uint32_t half = rotated / 2;
    /* Interleaved sections for text, height and width of images: as equal as they can be. */
    const int32_t sections[4] = {(int32_t)(half + 2) / 3, (int32_t)(half + 1) / 3,
                                 (int32_t)half / 3, 0};
    char key[KEY_BYTES_MAX];

    set_u32(keys, "full_attention_interval", period_within(ATTENTION_INTERVAL, shape->layers));
    set_u32(keys, "ssm.conv_kernel", CONV_KERNEL);
    set_u32(keys, "ssm.inner_size", inner);
    set_u32(keys, "ssm.state_size", shape->state_size);
    set_u32(keys, "ssm.time_step_rank", inner / shape->state_size);
    set_u32(keys, "ssm.group_count", shape->state_groups);
    set_u32(keys, "rope.dimension_count", rotated);
    gguf_set_arr_data(keys->gguf, key_name(keys, "rope.dimension_sections", key), GGUF_TYPE_INT32,
                      sections, COUNT_OF(sections));
}

static void scan_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    const uint32_t inner = MODEL_STATE_EXPANSION * shape->width;

    set_u32(keys, "ssm.conv_kernel", CONV_KERNEL);
    set_u32(keys, "ssm.inner_size", inner);
    set_u32(keys, "ssm.state_size", shape->state_size);
    set_u32(keys, "ssm.time_step_rank", inner / MODEL_SCAN_HEAD_DIM);
    set_u32(keys, "ssm.group_count", shape->state_groups);
}

/* Mamba of the first kind: one step size per channel, made from a vector of this rank. */
static void jamba_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    scan_keys(keys, shape);
    set_u32(keys, "ssm.time_step_rank", shape->width / 16);
}

/* Layers without heads for K and V are recurrent. */
static void hybrid_layer_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    uint32_t kv_heads[MODEL_LAYERS_MAX];

    for (uint32_t i = 0; i < shape->layers; i++)
        kv_heads[i] = layer_attends(i, shape->layers) ? shape->kv_heads : 0;
    set_u32_array(keys, "attention.head_count_kv", kv_heads, shape->layers);
}

/* Each layer is only one of: recurrent, feed-forward, attention. */
static void nemotron_layer_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    uint32_t kv_heads[MODEL_LAYERS_MAX] = {0};
    uint32_t ff[MODEL_LAYERS_MAX] = {0};

    for (uint32_t i = 0; i < shape->layers; i++) {
        if (i % 2 == 1)
            ff[i] = shape->ff;
        else if (i % 4 == 2)
            kv_heads[i] = shape->kv_heads;
    }
    set_u32_array(keys, "attention.head_count_kv", kv_heads, shape->layers);
    set_u32_array(keys, "feed_forward_length", ff, shape->layers);
    set_f32(keys, "attention.layer_norm_epsilon", 1e-5F);
}

/* Latent attention: each token keeps one compressed vector plus a rotated part, for all heads. */
static void latent_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    const uint32_t rank = 4 * shape->head_dim;
    const uint32_t rotated = shape->head_dim / 2;

    set_u32(keys, "attention.q_lora_rank", rank);
    set_u32(keys, "attention.kv_lora_rank", rank);
    set_u32(keys, "attention.key_length", rank + rotated);
    set_u32(keys, "attention.value_length", rank);
    set_u32(keys, "attention.key_length_mla", shape->head_dim + rotated);
    set_u32(keys, "attention.value_length_mla", shape->head_dim);
    set_u32(keys, "rope.dimension_count", rotated);
}

static void kimi_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    latent_keys(keys, shape);
    hybrid_layer_keys(keys, shape);
    set_u32(keys, "ssm.conv_kernel", CONV_KERNEL);
    set_u32(keys, "kda.head_dim", shape->state_size);
}

/* Sparse attention: an index selects a few tokens, so few that a short prompt is long enough to
 * show a lost index. Four streams between the layers. */
static void index_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    (void)shape;
    set_u32(keys, "attention.indexer.head_count", 4);
    set_u32(keys, "attention.indexer.key_length", 64);
    set_u32(keys, "attention.indexer.top_k", 64);
    set_u32(keys, "attention.indexer.kpool", 4);
    set_u32(keys, "hyper_connection.count", 4);
    set_u32(keys, "hyper_connection.low_rank", 16);
    set_u32(keys, "hyper_connection.sinkhorn_iterations", 4);
    set_f32(keys, "hyper_connection.epsilon", 1e-6F);
    set_f32(keys, "hyper_connection.magnitude", 1.0F);
}

/* Attends in both directions and has no memory: hearth refuses it, and this is how that is
 * tested. */
static void encoder_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    const uint32_t pooling_mean = 1;

    (void)shape;
    set_f32(keys, "attention.layer_norm_epsilon", 1e-5F);
    set_bool(keys, "attention.causal", false);
    set_u32(keys, "pooling_type", pooling_mean);
    gguf_set_val_u32(keys->gguf, "tokenizer.ggml.token_type_count", 2);
}

/* ---- tables ---- */

/* clang-format off */
#define SMALL   .layers = 4, .width = 256, .heads = 4, .kv_heads = 2, .head_dim = 64, .ff = 512, .context = 8192
#define EXPERTS .experts = 8, .experts_used = 2, .expert_ff = 256
#define STATE   .state_size = 64, .state_groups = 1

const struct model_family model_families[] = {
    {"llama", MODEL_TRAIT_EXPERTS, 1, {SMALL}, {expert_keys}},
    {"qwen2", MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL, 1, {SMALL}, {NULL}},
    {"qwen3", 0, 1, {SMALL}, {NULL}},
    {"qwen3moe", MODEL_TRAIT_EXPERTS_MUST, 1, {SMALL, EXPERTS}, {expert_keys}},
    {"qwen35", MODEL_TRAIT_DELTA, 2, {SMALL, .state_size = 64}, {delta_keys}},
    {"qwen35moe", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, {delta_keys, shared_expert_keys}},
    {"qwen3next", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, {delta_keys, shared_expert_keys}},
    {"gemma2", MODEL_TRAIT_WINDOW | MODEL_TRAIT_TIED, 2, {SMALL, .window = 128}, {gemma2_keys}},
    {"gemma3", MODEL_TRAIT_WINDOW | MODEL_TRAIT_TIED, 2, {SMALL, .window = 128}, {gemma3_keys}},
    {"gpt-oss", MODEL_TRAIT_WINDOW | MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_BIAS | MODEL_TRAIT_UNTIED, 2,
     {SMALL, EXPERTS, .window = 128}, {expert_keys, gpt_oss_keys}},
    {"llama4", MODEL_TRAIT_EXPERTS_MUST, 4, {SMALL, EXPERTS}, {expert_keys, llama4_keys}},
    {"deepseek2", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_LATENT, 2,
     {SMALL, EXPERTS}, {latent_keys, grouped_expert_keys}},
    {"mamba2", MODEL_TRAIT_NO_HEADS, 1, {.layers = 4, .width = 256, .context = 8192, STATE}, {scan_keys}},
    {"falcon-h1", 0, 1, {SMALL, STATE}, {scan_keys}},
    {"nemotron_h", 0, 3, {SMALL, STATE}, {scan_keys, nemotron_layer_keys}},
    {"granitehybrid", MODEL_TRAIT_EXPERTS, 2, {SMALL, STATE}, {expert_keys, scan_keys, hybrid_layer_keys}},
    {"jamba", MODEL_TRAIT_EXPERTS | MODEL_TRAIT_HEADS_FILL, 2,
     {SMALL, .state_size = 16, .state_groups = 1}, {expert_keys, jamba_keys, hybrid_layer_keys}},
    {"kimi-linear", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_LATENT | MODEL_TRAIT_UNTIED, 2,
     {SMALL, EXPERTS, .state_size = 64}, {kimi_keys, grouped_expert_keys}},
    {"qwen4exp", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, {delta_keys, shared_expert_keys, index_keys}},
    {"bert", MODEL_TRAIT_ENCODER | MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL, 1, {SMALL}, {encoder_keys}},
    {.name = NULL},
};

const struct model_preset model_presets[] = {
    {"random", "qwen3", "a few MB, answers in words without sense", MODEL_QUANT_Q8_0,
     {.layers = 6, .width = 256, .heads = 8, .kv_heads = 2, .head_dim = 64, .ff = 768, .context = 32768}},
    {"qwen3-0.6b", "qwen3", "the shape of Qwen3 0.6B: dense", MODEL_QUANT_Q8_0,
     {.layers = 28, .width = 1024, .heads = 16, .kv_heads = 8, .head_dim = 128, .ff = 3072,
      .context = 40960, .vocab = 151936, .tied = true}},
    {"qwen3.5-hybrid-1b", "qwen35", "the shape of Qwen3.5 0.8B: three of four layers recurrent", MODEL_QUANT_Q8_0,
     {.layers = 24, .width = 1024, .heads = 8, .kv_heads = 2, .head_dim = 256, .ff = 3584,
      .state_size = 128, .state_groups = 16, .context = 262144, .vocab = 248320, .tied = true}},
    {"gemma3-1b", "gemma3", "the shape of Gemma 3 1B: five of six layers sliding", MODEL_QUANT_Q8_0,
     {.layers = 26, .width = 1152, .heads = 4, .kv_heads = 1, .head_dim = 256, .ff = 6912,
      .window = 512, .context = 32768, .vocab = 262144, .tied = true}},
    {.name = NULL},
};
/* clang-format on */

const struct model_family *model_family_find(const char *name)
{
    for (const struct model_family *family = model_families; family->name != NULL; family++)
        if (strcmp(family->name, name) == 0)
            return family;
    return NULL;
}

const struct model_preset *model_preset_find(const char *name)
{
    for (const struct model_preset *preset = model_presets; preset->name != NULL; preset++)
        if (strcmp(preset->name, name) == 0)
            return preset;
    return NULL;
}

void model_family_set_keys(const struct model_family *family, const struct model_keys *keys,
                           const struct model_shape *shape)
{
    assert(shape->layers >= family->layers_min && shape->layers <= MODEL_LAYERS_MAX);
    common_keys(keys, shape);
    for (size_t i = 0; i < MODEL_FAMILY_KEYS_MAX && family->keys[i] != NULL; i++)
        family->keys[i](keys, shape);
}
