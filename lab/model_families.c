/*
 * model_families.c: which metadata keys make which architecture.
 *
 * The inference library derives every tensor from the metadata, so a family is described by keys
 * alone: those that all have (COMMON_KEYS), then the text of its row, with a part per feature
 * (experts, sliding window, recurrent layers, latent attention). A later key may replace an earlier
 * one; that is how a family with different kinds of layers turns one number into an array.
 *
 * Ratios between sizes (a state twice as wide as the stream, rotation of half or a quarter of a
 * head) are those of the published models of the family. What the library fixes itself is not an
 * option here: llama4's chunk is always 8,192 tokens, jamba and granitehybrid always expand by two.
 */
#include "lab/model_impl.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <gguf.h>

#include "base/str.h"

enum { KEY_BYTES_MAX = 128 };

/* ---- keys as text ----
 *
 *      name=value, separated by spaces; a name with a slash first is not prefixed
 *
 *      4              u32         0.5  1e-6      f32        true  false      bool
 *      'text          string      "yes,no        an array of strings
 *      $width*2/64    a number of the shape, and what is done with it from left to right; < is the
 *                     smaller of two
 *      (8,4,4,0)      an array of i32
 *      [0,1]          an array with one element per layer, repeated: u32, f32 or bool
 *      {0,0,0,1}      the same, but fewer layers are as the last ones here, so that every kind of
 *                     layer is present
 *      ?experts       what follows, up to a lone ?, counts only where this number is not 0
 */

static uint32_t shape_number(const struct model_shape *shape, struct str name)
{
#define X(field) {#field, offsetof(struct model_shape, field)},
    /* clang-format off */
    static const struct { const char *name; size_t at; } numbers[] = {
        X(layers) X(width) X(heads) X(kv_heads) X(head_dim) X(ff) X(experts) X(experts_used)
        X(expert_ff) X(window) X(state_size) X(state_groups) X(context) X(vocab)
    };
    /* clang-format on */
#undef X

    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        if (str_eq(name, str_from(numbers[i].name)))
            return *(const uint32_t *)(const void *)((const char *)shape + numbers[i].at);
    assert(!"the texts are constants of this file");
    return 0;
}

static bool is_float(struct str text)
{
    return text.ptr[0] != '$' &&
           (memchr(text.ptr, '.', text.len) != NULL || memchr(text.ptr, 'e', text.len) != NULL);
}

static double number_of(struct str text)
{
    double value = 0;
    bool ok = str_to_f64(text, &value);

    assert(ok); /* the texts are constants of this file */
    return ok ? value : 0;
}

static uint32_t evaluate(struct str text, const struct model_shape *shape)
{
    uint64_t value = 0;
    char op = '+';

    while (text.len > 0) {
        size_t len = 1;
        while (len < text.len && strchr("*/+<", text.ptr[len]) == NULL)
            len++;
        struct str word = {text.ptr, len};
        uint64_t other =
            word.ptr[0] == '$' ? shape_number(shape, str_skip(word, 1)) : (uint64_t)number_of(word);
        value = op == '*'   ? value * other
                : op == '/' ? value / other
                : op == '<' ? MIN(value, other)
                            : value + other;
        op = len < text.len ? text.ptr[len] : '+';
        text = str_skip(text, MIN(len + 1, text.len));
    }
    return (uint32_t)value;
}

static size_t count_items(struct str list)
{
    struct str item;
    size_t count = 0;

    while (str_next(&list, ',', &item))
        count++;
    return count;
}

static void set_list(struct gguf_context *gguf, const char *key, struct str text,
                     const struct model_shape *shape)
{
    struct str list = {text.ptr + 1, text.len - 2}, rest = list, item;
    size_t items = count_items(list), count = text.ptr[0] == '(' ? items : shape->layers;
    size_t skipped = text.ptr[0] == '{' ? items - MIN(items, count) : 0;
    uint32_t numbers[MODEL_LAYERS_MAX];
    float floats[MODEL_LAYERS_MAX];
    int8_t bools[MODEL_LAYERS_MAX];
    bool is_bool = list.ptr[0] == 't' || list.ptr[0] == 'f', fractions = false;

    for (size_t i = 0; i < count + skipped; i++) {
        if (!str_next(&rest, ',', &item)) {
            rest = list;
            (void)str_next(&rest, ',', &item);
        }
        if (i < skipped)
            continue;
        fractions = fractions || is_float(item);
        bools[i - skipped] = item.ptr[0] == 't';
        floats[i - skipped] = is_bool || item.ptr[0] == '$' ? 0 : (float)number_of(item);
        numbers[i - skipped] = is_bool ? 0 : evaluate(item, shape);
    }
    if (is_bool)
        gguf_set_arr_data(gguf, key, GGUF_TYPE_BOOL, bools, count);
    else if (fractions)
        gguf_set_arr_data(gguf, key, GGUF_TYPE_FLOAT32, floats, count);
    else
        gguf_set_arr_data(gguf, key, text.ptr[0] == '(' ? GGUF_TYPE_INT32 : GGUF_TYPE_UINT32,
                          numbers, count);
}

static void set_strings(struct gguf_context *gguf, const char *key, struct str list)
{
    char texts[4][KEY_BYTES_MAX];
    const char *items[COUNT_OF(texts)];
    struct str item;
    size_t count = 0;

    for (; count < COUNT_OF(texts) && str_next(&list, ',', &item); count++) {
        snprintf(texts[count], sizeof(texts[count]), STR_FMT, STR_ARG(item));
        items[count] = texts[count];
    }
    gguf_set_arr_str(gguf, key, items, count);
}

static void set_value(struct gguf_context *gguf, const char *key, struct str value,
                      const struct model_shape *shape)
{
    char text[KEY_BYTES_MAX];

    switch (value.ptr[0]) {
    case '[':
    case '(':
    case '{':
        set_list(gguf, key, value, shape);
        return;
    case '"':
        set_strings(gguf, key, str_skip(value, 1));
        return;
    case '\'':
        snprintf(text, sizeof(text), STR_FMT, (int)value.len - 1, value.ptr + 1);
        gguf_set_val_str(gguf, key, text);
        return;
    case 't':
    case 'f':
        gguf_set_val_bool(gguf, key, value.ptr[0] == 't');
        return;
    default:
        if (is_float(value))
            gguf_set_val_f32(gguf, key, (float)number_of(value));
        else
            gguf_set_val_u32(gguf, key, evaluate(value, shape));
    }
}

static void set_keys(const struct model_keys *keys, const struct model_shape *shape,
                     const char *text)
{
    struct str rest = str_from(text), entry, name;
    bool counts = true;

    while (str_next(&rest, ' ', &entry)) {
        char key[KEY_BYTES_MAX];
        if (entry.len > 0 && entry.ptr[0] == '?')
            counts = entry.len == 1 || shape_number(shape, str_skip(entry, 1)) > 0;
        if (!counts || entry.len == 0 || entry.ptr[0] == '?')
            continue;
        (void)str_next(&entry, '=', &name);
        bool prefixed = name.ptr[0] != '/';
        int len = snprintf(key, sizeof(key), "%s%s" STR_FMT, prefixed ? keys->architecture : "",
                           prefixed ? "." : "", STR_ARG(prefixed ? name : str_skip(name, 1)));
        assert(len > 0 && len < KEY_BYTES_MAX);
        set_value(keys->gguf, key, entry, shape);
    }
}

/* ---- tables ---- */

/* clang-format off */
#define SHAPE(n, kv) \
    .layers = (n), .width = 256, .heads = 4, .kv_heads = (kv), .head_dim = 64, .ff = 512, .context = 8192
#define SMALL   SHAPE(4, 2)
#define EXPERTS .experts = 8, .experts_used = 2, .expert_ff = 256
#define STATE   .state_size = 64, .state_groups = 1


#define COMMON_KEYS  "vocab_size=$vocab context_length=$context embedding_length=$width " \
                     "block_count=$layers feed_forward_length=$ff " \
                     "attention.layer_norm_rms_epsilon=1e-6 " \
                     "?heads attention.head_count=$heads attention.head_count_kv=$kv_heads " \
                     "attention.key_length=$head_dim attention.value_length=$head_dim " \
                     "rope.dimension_count=$head_dim rope.freq_base=1e6 ? "
#define EXPERT_KEYS  "?experts expert_count=$experts expert_used_count=$experts_used " \
                     "expert_feed_forward_length=$expert_ff ? "
#define SHARED_EXPERT_KEYS EXPERT_KEYS "expert_shared_feed_forward_length=$expert_ff "
/* first layer dense, sigmoid gates */
#define GROUPED_EXPERT_KEYS EXPERT_KEYS \
                     "leading_dense_block_count=1 expert_shared_count=1 expert_gating_func=2 " \
                     "expert_weights_scale=1.0 expert_weights_norm=true "
#define EVERY(n)     "attention.sliding_window=$window attention.sliding_window_pattern=$layers<" #n " "
/* Gated delta net, with a gated attention layer in between; rotation of a quarter of a head, in
 * interleaved sections for text, height and width of images, as equal as they can be. */
#define DELTA_KEYS   "full_attention_interval=$layers<4 ssm.conv_kernel=4 ssm.inner_size=$width*2 " \
                     "ssm.state_size=$state_size ssm.time_step_rank=$width*2/$state_size " \
                     "ssm.group_count=$state_groups rope.dimension_count=$head_dim/4 " \
                     "rope.dimension_sections=($head_dim/8+2/3,$head_dim/8+1/3,$head_dim/8/3,0) "
#define SCAN_KEYS    "ssm.conv_kernel=4 ssm.inner_size=$width*2 ssm.state_size=$state_size " \
                     "ssm.time_step_rank=$width*2/64 ssm.group_count=$state_groups "
/* Mamba of the first kind: one step size per channel, made from a vector of this rank. */
#define JAMBA_KEYS   SCAN_KEYS "ssm.time_step_rank=$width/16 "
/* Layers without heads for K and V are recurrent: of hybrids, every fourth layer attends. */
#define HYBRID_KEYS  "attention.head_count_kv={0,0,0,$kv_heads} "
/* Each layer is only one of: recurrent, feed-forward, attention. */
#define NEMOTRON_KEYS "attention.head_count_kv=[0,0,$kv_heads,0] feed_forward_length=[0,$ff] " NORM
/* Latent attention: each token keeps one compressed vector plus a rotated part, for all heads. */
#define LATENT_KEYS  "attention.q_lora_rank=$head_dim*4 attention.kv_lora_rank=$head_dim*4 " \
                     "attention.key_length=$head_dim*9/2 attention.value_length=$head_dim*4 " \
                     "attention.key_length_mla=$head_dim*3/2 attention.value_length_mla=$head_dim " \
                     "rope.dimension_count=$head_dim/2 "
#define KIMI_KEYS    LATENT_KEYS HYBRID_KEYS "ssm.conv_kernel=4 kda.head_dim=$state_size "
/* Sparse attention: an index selects a few tokens, so few that a short prompt is long enough to
 * show a lost index. Without the ratios, attention is dense. Four streams between the layers. */
#define INDEX_KEYS   "attention.indexer.head_count=4 attention.indexer.key_length=64 " \
                     "attention.indexer.top_k=64 attention.indexer.kpool=4 " \
                     "attention.compress_ratios=[4] hyper_connection.count=4 " \
                     "hyper_connection.low_rank=16 hyper_connection.sinkhorn_iterations=4 " \
                     "hyper_connection.epsilon=1e-6 hyper_connection.magnitude=1.0 "
/* Of a reranker: the score is the probability of the first of two labels. */
#define RANK_KEYS    "pooling_type=4 classifier.output_labels=\"yes,no "
/* Attends in both directions and has no memory. */
#define ENCODER_KEYS NORM "attention.causal=false pooling_type=1 " TYPES

#define LATENT_MOE (MODEL_TRAIT_LATENT | MODEL_TRAIT_EXPERTS_MUST)
#define DENSE(name, traits, more) {name, traits, 1, {SMALL}, .text = more}
#define MOE(name, traits, more) \
    {name, (traits) | MODEL_TRAIT_EXPERTS_MUST, 1, {SMALL, EXPERTS}, .text = EXPERT_KEYS more}
#define SLIDING(name, traits, more) \
    {name, (traits) | MODEL_TRAIT_WINDOW, 2, {SMALL, .window = 128}, .text = more}
#define SLIDING_MOE(name, traits, more) \
    {name, (traits) | MODEL_TRAIT_WINDOW | MODEL_TRAIT_EXPERTS_MUST, 2, \
     {SMALL, EXPERTS, .window = 128}, .text = EXPERT_KEYS more}
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
    {"llama", MODEL_TRAIT_EXPERTS, 1, {SMALL}, .text = EXPERT_KEYS},
    {"qwen2", MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL, 1, {SMALL}, .text = NULL},
    {"qwen3", 0, 1, {SMALL}, .text = NULL},
    {"qwen3moe", MODEL_TRAIT_EXPERTS_MUST, 1, {SMALL, EXPERTS}, .text = EXPERT_KEYS},
    {"qwen35", MODEL_TRAIT_DELTA, 2, {SMALL, .state_size = 64}, .text = DELTA_KEYS},
    {"qwen35moe", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, .text = DELTA_KEYS SHARED_EXPERT_KEYS},
    {"qwen3next", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, .text = DELTA_KEYS SHARED_EXPERT_KEYS},
    {"gemma2", MODEL_TRAIT_WINDOW | MODEL_TRAIT_TIED, 2, {SMALL, .window = 128}, .text = EVERY(2) "attn_logit_softcapping=50.0 final_logit_softcapping=30.0"},
    {"gemma3", MODEL_TRAIT_WINDOW | MODEL_TRAIT_TIED, 2, {SMALL, .window = 128}, .text = EVERY(6) "rope.freq_base_swa=1e4"},
    {"gpt-oss", MODEL_TRAIT_WINDOW | MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_BIAS | MODEL_TRAIT_UNTIED, 2,
     {SMALL, EXPERTS, .window = 128}, .text = EXPERT_KEYS EVERY(2)},
    {"llama4", MODEL_TRAIT_EXPERTS_MUST, 4, {SMALL, EXPERTS}, .text = EXPERT_KEYS "interleave_moe_layer_step=1"},
    {"deepseek2", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_LATENT, 2,
     {SMALL, EXPERTS}, .text = LATENT_KEYS GROUPED_EXPERT_KEYS},
    {"mamba2", MODEL_TRAIT_NO_HEADS, 1, {.layers = 4, .width = 256, .context = 8192, STATE}, .text = SCAN_KEYS},
    {"falcon-h1", 0, 1, {SMALL, STATE}, .text = SCAN_KEYS},
    {"nemotron_h", 0, 3, {SMALL, STATE}, .text = SCAN_KEYS NEMOTRON_KEYS},
    {"granitehybrid", MODEL_TRAIT_EXPERTS, 2, {SMALL, STATE}, .text = EXPERT_KEYS SCAN_KEYS HYBRID_KEYS},
    {"jamba", MODEL_TRAIT_EXPERTS | MODEL_TRAIT_HEADS_FILL, 2,
     {SMALL, .state_size = 16, .state_groups = 1}, .text = EXPERT_KEYS JAMBA_KEYS HYBRID_KEYS},
    {"kimi-linear", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_LATENT | MODEL_TRAIT_UNTIED, 2,
     {SMALL, EXPERTS, .state_size = 64}, .text = KIMI_KEYS GROUPED_EXPERT_KEYS},
    {"qwen4exp", MODEL_TRAIT_DELTA | MODEL_TRAIT_EXPERTS_MUST, 2,
     {SMALL, EXPERTS, .state_size = 64}, .text = DELTA_KEYS SHARED_EXPERT_KEYS INDEX_KEYS},
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
    {"deepseek2-ocr", MODEL_TRAIT_EXPERTS_MUST, 1, {SHAPE(4, 4), EXPERTS}, .text = EXPERT_KEYS
     SHARED "rope.freq_base=10000.0"},
    {"dots1", MODEL_TRAIT_EXPERTS_MUST, 1, {SHAPE(4, 4), EXPERTS}, .text = EXPERT_KEYS
     SHARED SIGMOID},
    MOE("ernie4_5-moe", 0, SHARED "leading_dense_block_count=1 interleave_moe_layer_step=1"),
    MOE("glm4moe", 0, SHARED),
    MOE("granitemoe", 0, "logit_scale=0.5"),
    MOE("grok", 0, ""),
    MOE("grovemoe", 0, "expert_group_scale=1.0 experts_per_group=2"),
    MOE("hunyuan-moe", 0, ""),
    MOE("hy_v3", 0, ""),
    MOE("minimax-m2", 0, SIGMOID),
    {"olmoe", MODEL_TRAIT_EXPERTS_MUST, 1, {SHAPE(4, 4), EXPERTS}, .text = EXPERT_KEYS},
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
    {"deepseek32", LATENT_MOE, 2, {SMALL, EXPERTS}, .text = LATENT_KEYS EXPERT_KEYS
     SHARED SIGMOID INDEX},
    /* an index as wide as a head makes the library divide by zero: it takes the empty cache of the
     * layers without a window for the index */
    {"deepseek4", MODEL_TRAIT_EXPERTS_MUST | MODEL_TRAIT_WINDOW, 3, {SHAPE(4, 1), EXPERTS, .window = 128},
     .text = EXPERT_KEYS
     SHARED "attention.indexer.top_k=16 attention.indexer.head_count=4 "
     "attention.indexer.key_length=128 expert_gating_func=4 expert_weights_scale=1.0 expert_weights_norm=true "
     "swiglu_clamp_exp=7.0 attention.sliding_window=$window attention.compress_ratios=[0,4,128] "
     "attention.compress_rope_freq_base=10000.0 attention.q_lora_rank=128 "
     "attention.output_group_count=2 attention.output_lora_rank=64 hyper_connection.count=4 "
     "hyper_connection.sinkhorn_iterations=4 hyper_connection.epsilon=1e-6 hash_layer_count=0"},
    {"dots3note", LATENT_MOE | MODEL_TRAIT_WINDOW, 2, {SMALL, EXPERTS, .window = 128},
     .text = LATENT_KEYS EXPERT_KEYS
     SHARED SIGMOID "leading_dense_block_count=1 attention.sliding_window=$window "
     "attention.sliding_window_pattern=[0,1] attention.indexer.types=[1,0] "
     "attention.indexer.head_count=64 attention.indexer.key_length=128 "
     "attention.indexer.top_k=64 attention.kv_lora_rank_swa=256 attention.key_length_swa=288 "
     "attention.value_length_swa=256 attention.key_length_mla_swa=96 "
     "attention.value_length_mla_swa=64 rope.freq_base_swa=10000.0"},
    {"glm-dsa", LATENT_MOE, 2, {SMALL, EXPERTS}, .text = LATENT_KEYS EXPERT_KEYS SHARED INDEX},
    {"hy_v4", LATENT_MOE, 2, {SMALL, EXPERTS}, .text = LATENT_KEYS EXPERT_KEYS
     SHARED SIGMOID INDEX "attention.indexer.types=[1,0] hyper_connection.count=4 "
     "hyper_connection.epsilon=1e-6 hyper_connection.magnitude=1.0"},
    MOE("minimax-m3", 0, SHARED SIGMOID INDEX
        "attention.indexer.block_size=32 attention.indexer.local_blocks=1"),
    {"mistral4", LATENT_MOE, 2, {SMALL, EXPERTS}, .text = LATENT_KEYS EXPERT_KEYS SHARED},

    {"mamba", MODEL_TRAIT_NO_HEADS, 1,
     {.layers = 4, .width = 256, .context = 8192, .state_size = 16, .state_groups = 1},
     .text = JAMBA_KEYS},
    {"rwkv7", MODEL_TRAIT_NO_HEADS, 1, {.layers = 4, .width = 256, .ff = 512, .context = 8192},
     .text = NORM "attention.head_count=0 wkv.head_size=64 attention.gate_lora_rank=64 "
     "attention.decay_lora_rank=64 attention.iclr_lora_rank=64 "
     "attention.value_residual_mix_lora_rank=32"},
    {"lfm2", MODEL_TRAIT_WINDOW, 2, {SMALL, .window = 128}, .text = HYBRID_KEYS
     WINDOWS "shortconv.l_cache=3"},
    {"lfm2moe", MODEL_TRAIT_EXPERTS_MUST, 2, {SMALL, EXPERTS}, .text = EXPERT_KEYS HYBRID_KEYS
     SIGMOID "shortconv.l_cache=3"},
    {"nemotron_h_moe", MODEL_TRAIT_EXPERTS_MUST, 4, {SMALL, STATE, EXPERTS},
     .text = SCAN_KEYS EXPERT_KEYS NEMOTRON_KEYS
     SHARED SIGMOID "expert_shared_feed_forward_length=256"},
    {"plamo2", 0, 2, {SMALL, STATE}, .text = SCAN_KEYS HYBRID_KEYS "ssm.group_count=0"},
    {"bailingmoe3", LATENT_MOE, 2, {SMALL, EXPERTS, .state_size = 64}, .text = KIMI_KEYS EXPERT_KEYS
     SHARED SIGMOID "kda.gate_lower_bound=-5.0 leading_dense_block_count=1"},
    {"kimi-k3", LATENT_MOE, 2, {SMALL, EXPERTS, .state_size = 64}, .text = KIMI_KEYS EXPERT_KEYS
     SHARED SIGMOID "activation.situ_beta=1.0 activation.situ_linear_beta=1.0 "
     "attn_res.block_size=2"},
    {"glm5-next", LATENT_MOE, 2, {SMALL, EXPERTS, .state_size = 64}, .text = KIMI_KEYS EXPERT_KEYS
     SHARED SIGMOID INDEX "attention.key_length=256 attention.key_length_mla=64 "
     "rope.dimension_count=0 attention.indexer.kpool=4 hyper_connection.count=4 "
     "hyper_connection.sinkhorn_iterations=4 hyper_connection.epsilon=1e-6"},

    /* for vectors and scores, as Qwen3-Embedding and Qwen3-Reranker */
    {"qwen3-embedding", 0, 1, {SMALL}, .text = "pooling_type=3", .architecture = "qwen3"},
    {"qwen3-reranker", MODEL_TRAIT_RANK, 1, {SMALL}, .text = RANK_KEYS, .architecture = "qwen3"},

    /* encoders; the engine refuses those that generate by diffusion, and those of T5's kind */
    {"bert", MODEL_TRAIT_ENCODER | MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL, 1, {SMALL}, .text = ENCODER_KEYS},
    {"bert-reranker", MODEL_TRAIT_ENCODER | MODEL_TRAIT_BIAS | MODEL_TRAIT_HEADS_FILL | MODEL_TRAIT_RANK, 1,
     {SMALL}, .text = ENCODER_KEYS RANK_KEYS, .architecture = "bert"},
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
    set_keys(keys, shape, COMMON_KEYS);
    if (family->text != NULL)
        set_keys(keys, shape, family->text);
}
