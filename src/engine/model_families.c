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

#include "base/str.h"

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

/* ---- keys as text ----
 *
 *      name=value, separated by spaces; a name with a slash first is not prefixed
 *
 *      4  -5          u32         0.5  1e-6      f32        true  false      bool
 *      'text          string      $window        the window of the shape
 *      (8,4,4,0)      an array of i32
 *      [0,1]          an array with one element per layer, repeated: u32, f32 or bool
 */

static bool is_float(struct str text)
{
    return memchr(text.ptr, '.', text.len) != NULL || memchr(text.ptr, 'e', text.len) != NULL;
}

static double number_of(struct str text)
{
    double value = 0;
    bool ok = str_to_f64(text, &value);

    assert(ok); /* the texts are constants of this file */
    return ok ? value : 0;
}

static void set_list(struct gguf_context *gguf, const char *key, struct str text, uint32_t layers)
{
    const bool per_layer = text.ptr[0] == '[';
    struct str items = {text.ptr + 1, text.len - 2}, rest = items, item;
    uint32_t numbers[MODEL_LAYERS_MAX];
    float floats[MODEL_LAYERS_MAX];
    int8_t bools[MODEL_LAYERS_MAX];
    size_t count = 0;

    const bool is_bool = items.ptr[0] == 't' || items.ptr[0] == 'f';
    while (count < MODEL_LAYERS_MAX && (!per_layer || count < layers)) {
        if (!str_next(&rest, ',', &item)) {
            if (!per_layer)
                break;
            rest = items;
            continue;
        }
        bools[count] = item.ptr[0] == 't';
        floats[count] = is_bool ? 0 : (float)number_of(item);
        numbers[count] = is_bool ? 0 : (uint32_t)number_of(item);
        count++;
    }
    if (is_bool)
        gguf_set_arr_data(gguf, key, GGUF_TYPE_BOOL, bools, count);
    else if (is_float(items))
        gguf_set_arr_data(gguf, key, GGUF_TYPE_FLOAT32, floats, count);
    else
        gguf_set_arr_data(gguf, key, per_layer ? GGUF_TYPE_UINT32 : GGUF_TYPE_INT32, numbers,
                          count);
}

static void set_text(const struct model_keys *keys, const char *key, struct str value,
                     const struct model_shape *shape)
{
    char text[KEY_BYTES_MAX];

    switch (value.ptr[0]) {
    case '[':
    case '(':
        set_list(keys->gguf, key, value, shape->layers);
        return;
    case '\'':
        snprintf(text, sizeof(text), STR_FMT, (int)value.len - 1, value.ptr + 1);
        gguf_set_val_str(keys->gguf, key, text);
        return;
    case '$':
        gguf_set_val_u32(keys->gguf, key, shape->window);
        return;
    case 't':
    case 'f':
        gguf_set_val_bool(keys->gguf, key, value.ptr[0] == 't');
        return;
    default:
        if (is_float(value))
            gguf_set_val_f32(keys->gguf, key, (float)number_of(value));
        else
            gguf_set_val_u32(keys->gguf, key, (uint32_t)number_of(value));
    }
}

static void text_keys(const struct model_keys *keys, const struct model_shape *shape,
                      const char *text)
{
    struct str rest = str_from(text), entry;

    while (str_next(&rest, ' ', &entry)) {
        if (entry.len == 0)
            continue;
        const char *equals = memchr(entry.ptr, '=', entry.len);
        char name[KEY_BYTES_MAX], full[KEY_BYTES_MAX];
        assert(equals != NULL);
        struct str value = {equals + 1, entry.len - (size_t)(equals + 1 - entry.ptr)};
        snprintf(name, sizeof(name), STR_FMT, (int)(equals - entry.ptr), entry.ptr);
        set_text(keys, name[0] == '/' ? name + 1 : key_name(keys, name, full), value, shape);
    }
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
    set_u32(keys, "attention.indexer.head_count", 4);
    set_u32(keys, "attention.indexer.key_length", 64);
    set_u32(keys, "attention.indexer.top_k", 64);
    set_u32(keys, "attention.indexer.kpool", 4);
    text_keys(keys, shape, "attention.compress_ratios=[4]"); /* without it, attention is dense */
    set_u32(keys, "hyper_connection.count", 4);
    set_u32(keys, "hyper_connection.low_rank", 16);
    set_u32(keys, "hyper_connection.sinkhorn_iterations", 4);
    set_f32(keys, "hyper_connection.epsilon", 1e-6F);
    set_f32(keys, "hyper_connection.magnitude", 1.0F);
}

/* Of a reranker: the score is the probability of the first of two labels. */
static void rank_keys(const struct model_keys *keys, const struct model_shape *shape)
{
    const char *labels[] = {"yes", "no"};
    const uint32_t pooling_rank = 4;
    char key[KEY_BYTES_MAX];

    (void)shape;
    set_u32(keys, "pooling_type", pooling_rank);
    gguf_set_arr_str(keys->gguf, key_name(keys, "classifier.output_labels", key), labels,
                     sizeof(labels) / sizeof(labels[0]));
}

/* Attends in both directions and has no memory. */
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
#define SHAPE(n, kv) \
    .layers = (n), .width = 256, .heads = 4, .kv_heads = (kv), .head_dim = 64, .ff = 512, .context = 8192
#define SMALL   SHAPE(4, 2)
#define EXPERTS .experts = 8, .experts_used = 2, .expert_ff = 256
#define STATE   .state_size = 64, .state_groups = 1

#define LATENT_MOE (MODEL_TRAIT_LATENT | MODEL_TRAIT_EXPERTS_MUST)
#define DENSE(name, traits, more) {name, traits, 1, {SMALL}, .text = more}
#define MOE(name, traits, more) \
    {name, (traits) | MODEL_TRAIT_EXPERTS_MUST, 1, {SMALL, EXPERTS}, .keys = {expert_keys}, .text = more}
#define SLIDING(name, traits, more) \
    {name, (traits) | MODEL_TRAIT_WINDOW, 2, {SMALL, .window = 128}, .text = more}
#define SLIDING_MOE(name, traits, more) \
    {name, (traits) | MODEL_TRAIT_WINDOW | MODEL_TRAIT_EXPERTS_MUST, 2, \
     {SMALL, EXPERTS, .window = 128}, .keys = {expert_keys}, .text = more}
#define NORM     "attention.layer_norm_epsilon=1e-5 "
#define SHARED   "expert_shared_count=1 "
#define SIGMOID  "expert_gating_func=2 "
#define SECTIONS "rope.dimension_sections=(8,4,4,0) "
#define WINDOWS  "attention.sliding_window=$window " \
                 "attention.sliding_window_pattern=[true,true,true,false] "
#define INDEX    "attention.indexer.top_k=64 attention.indexer.head_count=4 " \
                 "attention.indexer.key_length=64 "
#define TYPES    "/tokenizer.ggml.token_type_count=2 "

const struct model_family model_families[] = {
    {"llama", MODEL_TRAIT_EXPERTS, 1, {SMALL}, .keys = {expert_keys}},
    {"qwen2", MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL, 1, {SMALL}, .text = NULL},
    {"qwen3", 0, 1, {SMALL}, .text = NULL},
    {"qwen3moe", MODEL_TRAIT_EXPERTS_MUST, 1, {SMALL, EXPERTS}, .keys = {expert_keys}},
    {"qwen35", MODEL_TRAIT_DELTA, 2, {SMALL, .state_size = 64}, .keys = {delta_keys}},
    {"qwen35moe", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, .keys = {delta_keys, shared_expert_keys}},
    {"qwen3next", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, .keys = {delta_keys, shared_expert_keys}},
    {"gemma2", MODEL_TRAIT_WINDOW | MODEL_TRAIT_TIED, 2, {SMALL, .window = 128}, .keys = {gemma2_keys}},
    {"gemma3", MODEL_TRAIT_WINDOW | MODEL_TRAIT_TIED, 2, {SMALL, .window = 128}, .keys = {gemma3_keys}},
    {"gpt-oss", MODEL_TRAIT_WINDOW | MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_BIAS | MODEL_TRAIT_UNTIED, 2,
     {SMALL, EXPERTS, .window = 128}, .keys = {expert_keys, gpt_oss_keys}},
    {"llama4", MODEL_TRAIT_EXPERTS_MUST, 4, {SMALL, EXPERTS}, .keys = {expert_keys, llama4_keys}},
    {"deepseek2", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_LATENT, 2,
     {SMALL, EXPERTS}, .keys = {latent_keys, grouped_expert_keys}},
    {"mamba2", MODEL_TRAIT_NO_HEADS, 1, {.layers = 4, .width = 256, .context = 8192, STATE}, .keys = {scan_keys}},
    {"falcon-h1", 0, 1, {SMALL, STATE}, .keys = {scan_keys}},
    {"nemotron_h", 0, 3, {SMALL, STATE}, .keys = {scan_keys, nemotron_layer_keys}},
    {"granitehybrid", MODEL_TRAIT_EXPERTS, 2, {SMALL, STATE}, .keys = {expert_keys, scan_keys, hybrid_layer_keys}},
    {"jamba", MODEL_TRAIT_EXPERTS | MODEL_TRAIT_HEADS_FILL, 2,
     {SMALL, .state_size = 16, .state_groups = 1}, .keys = {expert_keys, jamba_keys, hybrid_layer_keys}},
    {"kimi-linear", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_LATENT | MODEL_TRAIT_UNTIED, 2,
     {SMALL, EXPERTS, .state_size = 64}, .keys = {kimi_keys, grouped_expert_keys}},
    {"qwen4exp", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, .keys = {delta_keys, shared_expert_keys, index_keys}},
    /* Described by text alone. Each is run by `make fidelity`. */
    DENSE("arcee", 0, ""),
    DENSE("apertus", 0,
          "/xielu.alpha_n=[0.8] /xielu.alpha_p=[0.8] /xielu.beta=[0.5] /xielu.eps=[1e-6]"),
    DENSE("baichuan", 0, ""),
    DENSE("bitnet", 0, ""),
    DENSE("bloom", MODEL_TRAIT_BIAS, NORM),
    DENSE("chatglm", 0, ""),
    DENSE("codeshell", MODEL_TRAIT_BIAS, NORM),
    DENSE("cogvlm", 0, ""),
    DENSE("command-r", 0, NORM),
    DENSE("deci", 0, ""),
    DENSE("ernie4_5", 0, ""),
    DENSE("exaone", 0, ""),
    DENSE("exaone4", 0, ""),
    DENSE("falcon", 0, NORM),
    DENSE("gemma", 0, ""),
    DENSE("glm4", 0, ""),
    DENSE("gpt2", MODEL_TRAIT_BIAS, NORM),
    DENSE("gptneox", MODEL_TRAIT_BIAS, NORM "use_parallel_residual=true"),
    DENSE("granite", 0, "logit_scale=0.5"),
    DENSE("graniteswitch", 0,
          "logit_scale=0.5 adapters.count=2 adapters.lora_rank=8 adapters.router_gain=1.0 "
          "adapters.token_ids_activate=(5,6) adapters.token_ids_substitute=(7,8)"),
    DENSE("hrm_text", 0, "hrm.layers_per_stack=2 hrm.h_cycles=1 hrm.l_cycles=1"),
    DENSE("hunyuan-dense", 0, ""),
    DENSE("hunyuan_vl", 0, ""),
    DENSE("internlm2", 0, ""),
    DENSE("jais", MODEL_TRAIT_BIAS, NORM),
    DENSE("jais2", MODEL_TRAIT_BIAS, NORM),
    DENSE("k2-horizon", 0, ""),
    DENSE("maincoder", 0, ""),
    DENSE("minicpm", 0, ""),
    {"minicpm3", 0, 1, {SHAPE(4, 4)},
     .text = "attention.q_lora_rank=256 attention.kv_lora_rank=256 attention.key_length=96 "
     "attention.value_length=64 rope.dimension_count=32"},
    DENSE("mistral3", 0, ""),
    DENSE("mpt", 0, NORM),
    DENSE("nanbeige", 0, ""),
    DENSE("nemotron", MODEL_TRAIT_BIAS, NORM),
    DENSE("olmo", 0, NORM),
    DENSE("openelm", 0, ""),
    DENSE("orion", MODEL_TRAIT_BIAS, NORM),
    DENSE("paddleocr", 0, SECTIONS),
    DENSE("pangu-embedded", MODEL_TRAIT_BIAS, ""),
    DENSE("phi2", MODEL_TRAIT_BIAS | MODEL_TRAIT_OUTPUT_BIAS, NORM),
    DENSE("phi3", 0, "/general.name='small"), /* "phi3" in a name asks for its vocabulary */
    DENSE("plamo", 0, ""),
    DENSE("pockettts", MODEL_TRAIT_BIAS, NORM),
    DENSE("qwen", 0, ""),
    DENSE("qwen2vl", 0, SECTIONS),
    DENSE("qwen3vl", 0, SECTIONS "n_deepstack_layers=1 "),
    DENSE("refact", 0, ""),
    DENSE("seed_oss", 0, ""),
    DENSE("smollm3", 0, ""),
    DENSE("stablelm", 0, NORM),
    DENSE("starcoder", MODEL_TRAIT_BIAS, NORM),
    DENSE("starcoder2", MODEL_TRAIT_BIAS, NORM),
    DENSE("talkie", 0, "logit_scale=0.5"),
    DENSE("xverse", 0, ""),

    MOE("arctic", 0, ""),
    MOE("bailingmoe", 0, SHARED),
    MOE("bailingmoe2", 0, SHARED SIGMOID),
    MOE("dbrx", 0, NORM "attention.clamp_kqv=8.0"),
    MOE("deepseek", 0, SHARED),
    {"deepseek2-ocr", MODEL_TRAIT_EXPERTS_MUST, 1, {SHAPE(4, 4), EXPERTS}, .keys = {expert_keys},
     .text = SHARED "rope.freq_base=10000.0"},
    {"dots1", MODEL_TRAIT_EXPERTS_MUST, 1, {SHAPE(4, 4), EXPERTS}, .keys = {expert_keys},
     .text = SHARED SIGMOID},
    MOE("ernie4_5-moe", 0, SHARED "leading_dense_block_count=1 interleave_moe_layer_step=1"),
    MOE("glm4moe", 0, SHARED),
    MOE("granitemoe", 0, "logit_scale=0.5"),
    MOE("grok", 0, ""),
    MOE("grovemoe", 0, "expert_group_scale=1.0 experts_per_group=2"),
    MOE("hunyuan-moe", 0, ""),
    MOE("hy_v3", 0, ""),
    MOE("minimax-m2", 0, SIGMOID),
    {"olmoe", MODEL_TRAIT_EXPERTS_MUST, 1, {SHAPE(4, 4), EXPERTS}, .keys = {expert_keys},
     .text = ""},
    MOE("phimoe", MODEL_TRAIT_BIAS | MODEL_TRAIT_OUTPUT_BIAS, ""),
    MOE("qwen2moe", 0, ""),
    MOE("qwen3vlmoe", 0, SECTIONS),

    SLIDING("cohere2", 0, NORM "attention.sliding_window=$window logit_scale=0.5"),
    {"gemma3n", MODEL_TRAIT_WINDOW, 5, {SHAPE(5, 2), .window = 128}, .text = WINDOWS},
    {"gemma4", MODEL_TRAIT_WINDOW | MODEL_TRAIT_ROPE_FREQS, 4, {SMALL, .window = 128},
     .text = "attention.sliding_window=$window attention.sliding_window_pattern=[true,false] "
     "attention.shared_kv_layers=2 embedding_length_per_layer_input=64 "
     "attention.key_length_swa=64 attention.value_length_swa=64"},
    SLIDING("granite_swa", 0, WINDOWS "logit_scale=0.5"),
    SLIDING("muse-glimmer", 0, "attention.sliding_window=$window logit_scale=0.5"),
    SLIDING("olmo2", 0, WINDOWS),
    SLIDING("plamo3", 0, WINDOWS),
    SLIDING("spark2_5", 0, WINDOWS),
    /* no layer has all rows */
    {"sliding-only", MODEL_TRAIT_WINDOW, 1, {SMALL, .window = 128},
     .text = "attention.sliding_window=$window attention.sliding_window_pattern=[true] logit_scale=0.5",
     .architecture = "granite_swa"},

    SLIDING_MOE("afmoe", 0, WINDOWS SHARED SIGMOID "leading_dense_block_count=1"),
    SLIDING_MOE("cohere2moe", 0,
                "attention.sliding_window=$window logit_scale=0.5 leading_dense_block_count=1"),
    SLIDING_MOE("exaone-moe", 0, WINDOWS SIGMOID),
    SLIDING_MOE("laguna", 0, WINDOWS "leading_dense_block_count=1"),
    SLIDING_MOE("maion-coder", 0, WINDOWS "moe_latent_size=128 interleave_moe_layer_step=1"),
    SLIDING_MOE("maple", 0, WINDOWS "swiglu_clamp_exp=7.0"),
    SLIDING_MOE("mellum", 0, WINDOWS),
    SLIDING_MOE("mimo2", 0, WINDOWS SIGMOID),
    SLIDING_MOE("smallthinker", 0, SIGMOID "attention.sliding_window=$window"),
    SLIDING_MOE("step35", 0, WINDOWS SIGMOID),

    /* indexes beside the rows; a few tokens are selected, so that a lost index shows */
    {"deepseek32", LATENT_MOE, 2, {SMALL, EXPERTS}, .keys = {latent_keys, expert_keys},
     .text = SHARED SIGMOID INDEX},
    /* an index as wide as a head makes the library divide by zero: it takes the empty cache of the
     * layers without a window for the index */
    {"deepseek4", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_WINDOW, 3, {SHAPE(4, 1), EXPERTS, .window = 128},
     .keys = {expert_keys},
     .text = SHARED "attention.indexer.top_k=16 attention.indexer.head_count=4 "
     "attention.indexer.key_length=128 expert_gating_func=4 expert_weights_scale=1.0 expert_weights_norm=true "
     "swiglu_clamp_exp=7.0 attention.sliding_window=$window attention.compress_ratios=[0,4,128] "
     "attention.compress_rope_freq_base=10000.0 attention.q_lora_rank=128 "
     "attention.output_group_count=2 attention.output_lora_rank=64 hyper_connection.count=4 "
     "hyper_connection.sinkhorn_iterations=4 hyper_connection.epsilon=1e-6 hash_layer_count=0"},
    {"dots3note", LATENT_MOE | MODEL_TRAIT_WINDOW, 2, {SMALL, EXPERTS, .window = 128},
     .keys = {latent_keys, expert_keys},
     .text = SHARED SIGMOID "leading_dense_block_count=1 attention.sliding_window=$window "
     "attention.sliding_window_pattern=[0,1] attention.indexer.types=[1,0] "
     "attention.indexer.head_count=64 attention.indexer.key_length=128 "
     "attention.indexer.top_k=64 attention.kv_lora_rank_swa=256 attention.key_length_swa=288 "
     "attention.value_length_swa=256 attention.key_length_mla_swa=96 "
     "attention.value_length_mla_swa=64 rope.freq_base_swa=10000.0"},
    {"glm-dsa", LATENT_MOE, 2, {SMALL, EXPERTS}, .keys = {latent_keys, expert_keys}, .text = SHARED INDEX},
    {"hy_v4", LATENT_MOE, 2, {SMALL, EXPERTS}, .keys = {latent_keys, expert_keys},
     .text = SHARED SIGMOID INDEX "attention.indexer.types=[1,0] hyper_connection.count=4 "
     "hyper_connection.epsilon=1e-6 hyper_connection.magnitude=1.0"},
    MOE("minimax-m3", 0, SHARED SIGMOID INDEX
        "attention.indexer.block_size=32 attention.indexer.local_blocks=1"),
    {"mistral4", LATENT_MOE, 2, {SMALL, EXPERTS}, .keys = {latent_keys, expert_keys}, .text = SHARED},

    {"mamba", MODEL_TRAIT_NO_HEADS, 1,
     {.layers = 4, .width = 256, .context = 8192, .state_size = 16, .state_groups = 1},
     .keys = {jamba_keys}, .text = ""},
    {"rwkv7", MODEL_TRAIT_NO_HEADS, 1, {.layers = 4, .width = 256, .ff = 512, .context = 8192},
     .text = NORM "attention.head_count=0 wkv.head_size=64 attention.gate_lora_rank=64 "
     "attention.decay_lora_rank=64 attention.iclr_lora_rank=64 "
     "attention.value_residual_mix_lora_rank=32"},
    {"lfm2", MODEL_TRAIT_WINDOW, 2, {SMALL, .window = 128}, .keys = {hybrid_layer_keys},
     .text = WINDOWS "shortconv.l_cache=3"},
    {"lfm2moe", MODEL_TRAIT_EXPERTS_MUST, 2, {SMALL, EXPERTS}, .keys = {expert_keys, hybrid_layer_keys},
     .text = SIGMOID "shortconv.l_cache=3"},
    {"nemotron_h_moe", MODEL_TRAIT_EXPERTS_MUST, 4, {SMALL, STATE, EXPERTS},
     .keys = {scan_keys, expert_keys, nemotron_layer_keys},
     .text = SHARED SIGMOID "expert_shared_feed_forward_length=256"},
    {"plamo2", 0, 2, {SMALL, STATE}, .keys = {scan_keys, hybrid_layer_keys}, .text = "ssm.group_count=0"},
    {"bailingmoe3", LATENT_MOE, 2, {SMALL, EXPERTS, .state_size = 64}, .keys = {kimi_keys, expert_keys},
     .text = SHARED SIGMOID "kda.gate_lower_bound=-5.0 leading_dense_block_count=1"},
    {"kimi-k3", LATENT_MOE, 2, {SMALL, EXPERTS, .state_size = 64}, .keys = {kimi_keys, expert_keys},
     .text = SHARED SIGMOID "activation.situ_beta=1.0 activation.situ_linear_beta=1.0 "
     "attn_res.block_size=2"},
    {"glm5-next", LATENT_MOE, 2, {SMALL, EXPERTS, .state_size = 64}, .keys = {kimi_keys, expert_keys},
     .text = SHARED SIGMOID INDEX "attention.key_length=256 attention.key_length_mla=64 "
     "rope.dimension_count=0 attention.indexer.kpool=4 hyper_connection.count=4 "
     "hyper_connection.sinkhorn_iterations=4 hyper_connection.epsilon=1e-6"},

    /* for vectors and scores, as Qwen3-Embedding and Qwen3-Reranker */
    {"qwen3-embedding", 0, 1, {SMALL}, .text = "pooling_type=3", .architecture = "qwen3"},
    {"qwen3-reranker", MODEL_TRAIT_RANK, 1, {SMALL}, .keys = {rank_keys}, .text = "", .architecture = "qwen3"},

    /* encoders; the engine refuses those that generate by diffusion, and those of T5's kind */
    {"bert", MODEL_TRAIT_ENCODER | MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL, 1, {SMALL}, .keys = {encoder_keys}, .text = ""},
    {"bert-reranker", MODEL_TRAIT_ENCODER | MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL | MODEL_TRAIT_RANK, 1,
     {SMALL}, .keys = {encoder_keys, rank_keys}, .text = "", .architecture = "bert"},
    DENSE("dream", MODEL_TRAIT_ENCODER, ""),
    DENSE("eurobert", MODEL_TRAIT_ENCODER, ""),
    /* the sixth layer is the first that sees everything: the library has no model without one */
    {"gemma-embedding", MODEL_TRAIT_ENCODER | MODEL_TRAIT_WINDOW, 6, {SHAPE(6, 2), .window = 128},
     .text = "attention.sliding_window=$window"},
    {"gemma-embedding2", MODEL_TRAIT_ENCODER | MODEL_TRAIT_WINDOW, 6, {SHAPE(6, 2), .window = 128},
     .text = "attention.sliding_window=$window embedding_length_per_layer_input=64"},
    DENSE("jina-bert-v3", MODEL_TRAIT_ENCODER, NORM TYPES),
    DENSE("llada", MODEL_TRAIT_ENCODER, ""),
    MOE("llada-moe", MODEL_TRAIT_ENCODER, ""),
    DENSE("modern-bert", MODEL_TRAIT_ENCODER, NORM),
    DENSE("neo-bert", MODEL_TRAIT_ENCODER, ""),
    DENSE("nomic-bert", MODEL_TRAIT_ENCODER, NORM TYPES),
    DENSE("nomic-bert-moe", MODEL_TRAIT_ENCODER, NORM TYPES),
    MOE("rnd1", MODEL_TRAIT_ENCODER, ""),
    DENSE("t5", MODEL_TRAIT_ENCODER, "attention.relative_buckets_count=32"),
    DENSE("t5encoder", MODEL_TRAIT_ENCODER, "attention.relative_buckets_count=32"),
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
    if (family->text != NULL)
        text_keys(keys, shape, family->text);
}
