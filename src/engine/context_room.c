/* context_room.c: keys and values per token, from metadata and the names of tensors. */
#include "engine/context_room.h"

#include "base/units.h"
#include "engine/engine.h"
#include "engine/gguf_file.h"

enum {
    LAYERS_MAX = 4096,
    FULL_SHARE = 8, /* at least one layer in so many has no window: gemma's have one in six */
    STEP = 256,     /* of proposed sizes */
};

/* Layers that have keys, and no recurrent state: some of those with both keep no rows. */
static uint32_t attention_layers(const struct gguf_file *file)
{
    uint64_t layers = gguf_file_arch_uint(file, "block_count", 0);
    uint32_t count = 0;

    for (uint32_t i = 0; i < MIN(layers, (uint64_t)LAYERS_MAX); i++) {
        struct gguf_file_layer layer = gguf_file_layer(file, i);
        count += layer.attention && !layer.recurrent;
    }
    return count;
}

double context_token_bytes(const struct gguf_file *file, const struct engine_options *options,
                           bool windows)
{
    double layers = attention_layers(file);
    uint64_t heads = MAX(gguf_file_arch_uint(file, "attention.head_count", 1), 1);
    uint64_t width = gguf_file_arch_uint(file, "embedding_length", 0) / heads;
    uint64_t heads_kv = gguf_file_arch_least(file, "attention.head_count_kv", heads);
    double key = (double)gguf_file_arch_least(file, "attention.key_length", width);
    double value = (double)gguf_file_arch_least(file, "attention.value_length", width);

    /* Compressed rows (MLA) are one vector for all heads, whose parts are keys and values. */
    if (gguf_file_has_arch_key(file, "attention.kv_lora_rank")) {
        heads_kv = 1;
        key = (double)gguf_file_arch_uint(file, "attention.kv_lora_rank", 0);
        value = 0;
    }
    if (windows && !options->sliding_full)
        layers /= FULL_SHARE;
    return layers * (double)heads_kv *
           (key * engine_kv_bytes(options->kv_k) + value * engine_kv_bytes(options->kv_v));
}

/* Layers of Mamba and of delta rules, of KDA, and short convolutions; all in 32 bits. */
uint64_t context_state_bytes(const struct gguf_file *file)
{
    uint64_t layers = gguf_file_arch_uint(file, "block_count", 0), count = 0;
    uint64_t width = gguf_file_arch_uint(file, "embedding_length", 0);
    uint64_t heads = gguf_file_arch_uint(file, "attention.head_count", 0);
    uint64_t inner = gguf_file_arch_uint(file, "ssm.inner_size", 0);
    uint64_t state = gguf_file_arch_uint(file, "ssm.state_size", 0);
    uint64_t groups = gguf_file_arch_uint(file, "ssm.group_count", 0);
    uint64_t past = gguf_file_arch_uint(file, "ssm.conv_kernel", 1) - 1;
    uint64_t kda = gguf_file_arch_uint(file, "kda.head_dim", 0);
    uint64_t conv = gguf_file_arch_uint(file, "shortconv.l_cache", 1) - 1;

    for (uint32_t i = 0; i < MIN(layers, (uint64_t)LAYERS_MAX); i++)
        count += gguf_file_layer(file, i).recurrent;
    return count * sizeof(float) *
           (state * inner + past * (inner + 2 * groups * state) + kda * kda * heads +
            3 * past * kda * heads + conv * width);
}

enum err context_check_room(const struct gguf_file *file, const struct engine_options *options,
                            bool windows, uint32_t tokens, uint64_t room, struct errinfo *info)
{
    double each = context_token_bytes(file, options, windows), need = each * tokens;
    char needs[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES];

    if (need <= (double)room)
        return ERR_OK;
    /* A tenth is left for buffers. */
    uint64_t fits = (uint64_t)((double)room * 0.9 / each) / STEP * STEP;
    units_format_size((uint64_t)MIN(need, (double)(UINT64_MAX / 2)), needs);
    units_format_size(room, has);
    if (fits == 0)
        return err_set(
            info, ERR_LIMIT,
            "a context of %u tokens needs at least %s, and %s are free beside the weights", tokens,
            needs, has);
    return err_set(info, ERR_LIMIT,
                   "a context of %u tokens needs at least %s, and %s are free beside the weights; "
                   "-c %llu fits, or use --cache-type-k and --cache-type-v q8_0",
                   tokens, needs, has, (unsigned long long)fits);
}
