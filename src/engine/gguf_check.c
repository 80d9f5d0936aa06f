/*
 * gguf_check.c: see the header.
 *
 * A file that the library serves well must never be refused here. So every limit is far from what
 * published models have, keys of other programs are ignored, and a key counts as damaged only when a
 * single flipped bit explains it.
 */
#include "engine/gguf_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

#include "base/file.h"
#include "base/le.h"
#include "base/str.h"
#include "base/utf8.h"
#include "engine/gguf_file.h"

/* The keys of a model file by their beginning; '*' is its architecture. */
static const struct {
    const char *begin, *names;
} known[] = {
    {"general.",
     "architecture name description type file_type quantization_version alignment author "
     "license url version size_label basename finetune organization languages tags"},
    {"*.attention.",
     "causal clamp_kqv compress_ratios compress_rope_freq_base group_norm_epsilon "
     "group_norm_groups head_count head_count_kv indexer.block_size indexer.head_count "
     "indexer.key_length indexer.kpool indexer.local_blocks indexer.top_k indexer.types "
     "key_length key_length_mla key_length_swa kv_lora_rank layer_norm_epsilon "
     "layer_norm_rms_epsilon max_alibi_bias output_scale q_lora_rank recurrent_layers "
     "relative_buckets_count scale shared_kv_layers sliding_window sliding_window_pattern "
     "temperature_length temperature_scale value_length value_length_mla value_length_swa "
     "value_scale"},
    {"*.rope.", "dimension_count dimension_count_swa dimension_sections freq_base freq_base_swa "
                "scale_linear scaling.alpha scaling.attn_factor scaling.factor scaling.finetuned "
                "scaling.original_context_length scaling.type scaling.yarn_log_multiplier"},
    {"*.", "activation.situ_beta attn_logit_softcapping block_count context_length "
           "embedding_length embedding_length_per_layer_input embedding_scale expert_count "
           "expert_feed_forward_length expert_gating_func expert_group_count expert_group_scale "
           "expert_group_used_count expert_shared_count expert_shared_feed_forward_length "
           "expert_used_count expert_weights_norm expert_weights_scale experts_per_group "
           "feed_forward_length final_logit_softcapping full_attention_interval hash_layer_count "
           "hyper_connection.count hyper_connection.epsilon hyper_connection.low_rank "
           "hyper_connection.magnitude hyper_connection.sinkhorn_iterations "
           "interleave_moe_layer_step kda.head_dim leading_dense_block_count logit_scale "
           "moe_every_n_layers nextn_predict_layers pooling_type rescale_every_n_layers "
           "residual_scale router_logit_softcapping shortconv.l_cache ssm.conv_kernel "
           "ssm.dt_b_c_rms ssm.group_count ssm.inner_size ssm.state_size ssm.time_step_rank "
           "swiglu_clamp_exp swiglu_clamp_shexp tensor_data_layout token_shift_count "
           "use_parallel_residual vocab_size wkv.head_size"},
    {"tokenizer.ggml.",
     "add_bos_token add_eos_token add_sep_token add_space_prefix bos_token_id cls_token_id "
     "eom_token_id eos_token_id eot_token_id fim_mid_token_id fim_pad_token_id "
     "fim_pre_token_id fim_rep_token_id fim_sep_token_id fim_suf_token_id mask_token_id "
     "merges model normalizer.lowercase padding_token_id pre precompiled_charsmap "
     "remove_extra_whitespaces scores seperator_token_id suppress_tokens token_type "
     "token_type_count tokens unknown_token_id"},
    {"tokenizer.", "chat_template"},
};

/* Keys that the library does not read, or whose type it does not check. */
static const struct {
    const char *key;
    enum gguf_type type;
} types[] = {
    {"general.name", GGUF_TYPE_STRING},
    {"general.description", GGUF_TYPE_STRING},
    {"general.type", GGUF_TYPE_STRING},
    {"general.file_type", GGUF_TYPE_UINT32},
    {"general.quantization_version", GGUF_TYPE_UINT32},
    {"*.vocab_size", GGUF_TYPE_UINT32},
    {"tokenizer.ggml.token_type", GGUF_TYPE_ARRAY},
    {"tokenizer.chat_template", GGUF_TYPE_STRING},
};

/* What version 2 of the format was written for, until October 2023. */
static const char *const early[] = {"llama",  "falcon", "gpt2",      "gptj",  "gptneox",
                                    "mpt",    "rwkv",   "baichuan",  "bloom", "persimmon",
                                    "refact", "bert",   "starcoder", "orion", "stablelm"};

enum { NAME_BYTES = 128 };

static enum err damaged(struct errinfo *info, const char *what, const char *why)
{
    return err_set(info, ERR_CORRUPT, "the model file is damaged: %.100s %s", what, why);
}

/* ---- names ---- */

/* `begin` with the architecture for '*', and the rest. */
static const char *full_name(const struct gguf_file *file, const char *begin, struct str rest,
                             char out[NAME_BYTES])
{
    bool star = begin[0] == '*';

    snprintf(out, NAME_BYTES, "%s%s" STR_FMT, star ? gguf_file_architecture(file) : "",
             begin + star, STR_ARG(rest));
    return out;
}

static bool differ_in_one_bit(const char *a, const char *b)
{
    int bits = 0;

    for (; *a != '\0' && *b != '\0'; a++, b++)
        bits += __builtin_popcount((unsigned char)(*a ^ *b));
    return bits == 1 && *a == *b;
}

static enum err check_name(const struct gguf_file *file, const struct gguf_context *gguf,
                           const char *key, struct errinfo *info)
{
    char name[NAME_BYTES], why[NAME_BYTES + 32] = "";

    if (!utf8_valid(str_from(key)))
        return damaged(info, "a key", "is not UTF-8");
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        struct str names = str_from(known[i].names), piece;
        while (str_next(&names, ' ', &piece)) {
            if (strcmp(key, full_name(file, known[i].begin, piece, name)) == 0)
                return ERR_OK;
            if (differ_in_one_bit(key, name) && gguf_find_key(gguf, name) < 0)
                snprintf(why, sizeof(why), "should be %s", name);
        }
    }
    return why[0] == '\0' ? ERR_OK : damaged(info, key, why);
}

static enum err check_type(const struct gguf_file *file, const struct gguf_context *gguf,
                           int64_t id, struct errinfo *info)
{
    const char *key = gguf_get_key(gguf, id);
    char name[NAME_BYTES];

    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(key, full_name(file, types[i].key, STR(""), name)) == 0 &&
            gguf_get_kv_type(gguf, id) != types[i].type)
            return damaged(info, key, "has the wrong type");
    return ERR_OK;
}

/* ---- values ---- */

static enum err check_float(struct str key, float value, struct errinfo *info)
{
    bool bounded = str_ends(key, STR("epsilon")), base = str_ends(key, STR("rope.freq_base"));
    bool zero = value == 0 && !signbit(value);

    /* published models have 1e-12 to 1e-3, and 1e4 to 5e10 */
    if (zero || (isnormal(value) && (!bounded || (value >= 1e-16F && value < 0.1F)) &&
                 (!base || (value >= 1 && value < 1e15F))))
        return ERR_OK;
    return err_set(info, ERR_CORRUPT, "the model file is damaged: " STR_FMT " is %g", STR_ARG(key),
                   (double)value);
}

/* The rows of the embeddings; 0 = not in this shard. The number may be padded. */
static enum err check_vocab_size(const struct gguf_context *gguf, uint64_t size,
                                 struct errinfo *info)
{
    int64_t id = gguf_find_tensor(gguf, "token_embd.weight");
    uint64_t rows = id >= 0 ? (uint64_t)gguf_get_tensor_ne(gguf, id)[1] : 0;

    if (id < 0 || MAX(rows, size) - MIN(rows, size) <= rows / 16)
        return ERR_OK;
    return err_set(info, ERR_CORRUPT,
                   "the model file is damaged: it has %" PRIu64
                   " tokens, and vocab_size is %" PRIu64,
                   rows, size);
}

static enum err check_uint(const struct gguf_context *gguf, struct str key, uint32_t value,
                           struct errinfo *info)
{
    const uint32_t guessed = 1024, context_least = 16, context_most = INT32_MAX;
    bool bad = false;

    if (str_ends(key, STR(".vocab_size")))
        return check_vocab_size(gguf, value, info);
    if (str_ends(key, STR(".context_length")))
        bad = value < context_least || value > context_most;
    if (str_eq(key, STR("general.file_type")))
        bad = (value & ~guessed) > 255;
    if (!bad)
        return ERR_OK;
    return err_set(info, ERR_CORRUPT, "the model file is damaged: " STR_FMT " is %" PRIu32,
                   STR_ARG(key), value);
}

static enum err check_token_types(const struct gguf_context *gguf, int64_t id, struct errinfo *info)
{
    enum gguf_type type = gguf_get_arr_type(gguf, id);

    if (type != GGUF_TYPE_INT32 && type != GGUF_TYPE_UINT32)
        return damaged(info, gguf_get_key(gguf, id), "has the wrong type");
    const int32_t *values = gguf_get_arr_data(gguf, id);
    for (size_t i = 0; i < gguf_get_arr_n(gguf, id); i++)
        if (values[i] < 0 || values[i] > 6 /* a byte */)
            return err_set(info, ERR_CORRUPT,
                           "the model file is damaged: token %zu has the type %" PRId32, i,
                           values[i]);
    return ERR_OK;
}

static enum err check_value(const struct gguf_file *file, const struct gguf_context *gguf,
                            int64_t id, struct errinfo *info)
{
    struct str key = str_from(gguf_get_key(gguf, id));
    bool own = str_starts(key, str_from(gguf_file_architecture(file)));

    switch (gguf_get_kv_type(gguf, id)) {
    case GGUF_TYPE_STRING:
        return utf8_valid(str_from(gguf_get_val_str(gguf, id)))
                   ? ERR_OK
                   : damaged(info, key.ptr, "is not UTF-8");
    case GGUF_TYPE_FLOAT32:
        return own ? check_float(key, gguf_get_val_f32(gguf, id), info) : ERR_OK;
    case GGUF_TYPE_UINT32:
        return check_uint(gguf, key, gguf_get_val_u32(gguf, id), info);
    case GGUF_TYPE_ARRAY:
        return str_eq(key, STR("tokenizer.ggml.token_type")) ? check_token_types(gguf, id, info)
                                                             : ERR_OK;
    default:
        return ERR_OK;
    }
}

/* ---- layout ---- */

/* The bytes from `begin` to `end` are zeros, and fewer than the alignment. */
static enum err check_padding(const struct gguf_file_shard *shard, uint64_t begin, uint64_t end,
                              struct errinfo *info)
{
    unsigned char bytes[64];

    for (uint64_t at = begin, n; at < end; at += n) {
        n = MIN(end - at, sizeof(bytes));
        TRY(file_read_at(file_sys_real(), shard->fd, bytes, n, at, info));
        for (uint64_t i = 0; i < n; i++)
            if (bytes[i] != 0)
                return err_set(info, ERR_CORRUPT,
                               "the model file is damaged: byte %" PRIu64
                               " is between its tensors and not zero",
                               at + i);
    }
    return ERR_OK;
}

/* The header ends with the type and the offset of its last tensor; zeros follow up to the data. */
static enum err check_header_end(const struct gguf_file_shard *shard, struct errinfo *info)
{
    unsigned char want[12], bytes[sizeof(want) + 64];
    int64_t last = gguf_get_n_tensors(shard->gguf) - 1;
    uint64_t data = gguf_get_data_offset(shard->gguf), n = MIN(sizeof(bytes), data);

    if (last < 0 || gguf_get_alignment(shard->gguf) > sizeof(bytes) - sizeof(want))
        return ERR_OK;
    le_put_u32(want, (uint32_t)gguf_get_tensor_type(shard->gguf, last));
    le_put_u64(want + 4, gguf_get_tensor_offset(shard->gguf, last));
    TRY(file_read_at(file_sys_real(), shard->fd, bytes, n, data - n, info));
    for (uint64_t end = n; end >= sizeof(want); end--)
        if (memcmp(bytes + end - sizeof(want), want, sizeof(want)) == 0)
            return check_padding(shard, data - n + end, data, info);
    return damaged(info, "its header", "does not end before its data");
}

/* The library has checked that each tensor begins where the one before it and its padding end. */
static enum err check_layout(const struct gguf_file_shard *shard, struct errinfo *info)
{
    uint64_t alignment = gguf_get_alignment(shard->gguf);
    uint64_t end = gguf_get_data_offset(shard->gguf);

    TRY(check_header_end(shard, info));
    for (int64_t i = 0; i < gguf_get_n_tensors(shard->gguf); i++) {
        uint64_t begin = gguf_get_data_offset(shard->gguf) + gguf_get_tensor_offset(shard->gguf, i);
        if (i > 0)
            TRY(check_padding(shard, end, begin, info));
        end = begin + gguf_get_tensor_size(shard->gguf, i);
    }
    uint64_t padded = (end + alignment - 1) / alignment * alignment;
    if (shard->bytes > padded)
        return err_set(info, ERR_CORRUPT,
                       "the model file is damaged: %" PRIu64 " bytes follow its last tensor",
                       shard->bytes - padded);
    return check_padding(shard, end, shard->bytes, info);
}

static enum err check_version(const struct gguf_file *file, const struct gguf_file_shard *shard,
                              struct errinfo *info)
{
    if (gguf_get_version(shard->gguf) >= 3)
        return ERR_OK;
    for (size_t i = 0; i < COUNT_OF(early); i++)
        if (strcmp(gguf_file_architecture(file), early[i]) == 0)
            return ERR_OK;
    return err_set(info, ERR_CORRUPT,
                   "the model file is damaged: its format, version %" PRIu32
                   ", is older than its architecture, %.64s",
                   gguf_get_version(shard->gguf), gguf_file_architecture(file));
}

enum err gguf_check(const struct gguf_file *file, struct errinfo *info)
{
    const struct gguf_file_shard *shard;

    for (size_t i = 0; (shard = gguf_file_shard(file, i)) != NULL; i++) {
        TRY(check_version(file, shard, info));
        for (int64_t id = 0; id < gguf_get_n_kv(shard->gguf); id++) {
            TRY(check_name(file, shard->gguf, gguf_get_key(shard->gguf, id), info));
            TRY(check_type(file, shard->gguf, id, info));
            TRY(check_value(file, shard->gguf, id, info));
        }
        TRY(check_layout(shard, info));
    }
    return ERR_OK;
}
