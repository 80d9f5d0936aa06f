/*
 * model_adapter.c: a GGUF file with a random LoRA adapter.
 *
 * For a matrix of the base with `in` columns and `out` rows the file has two:
 *
 *      <name>.lora_a   in x RANK     variance 1 / in
 *      <name>.lora_b   RANK x out    variance 1 / RANK
 *
 * With alpha = RANK / 2, what is added is half as large as the matrices of a made model. Matrices
 * that write into the residual stream are left alone, so that answers are still words (SPEECH in
 * model_weights.c).
 */
#include <fnmatch.h>
#include <stdio.h>

#include <ggml.h>
#include <gguf.h>

#include "base/buf.h"
#include "engine/backend.h"
#include "engine/engine_llama.h"
#include "engine/gguf_file.h"
#include "engine/lora.h"
#include "lab/model_impl.h"

enum { RANK = 8, PATH_BYTES_MAX = 4096 };

static const char *const adapted[] = {
    "blk.*.attn_q.weight",   "blk.*.attn_k.weight",   "blk.*.attn_v.weight",
    "blk.*.attn_qkv.weight", "blk.*.ffn_gate.weight", "blk.*.ffn_up.weight",
};

static bool is_adapted(const struct ggml_tensor *tensor)
{
    bool matches = false;

    for (size_t i = 0; i < COUNT_OF(adapted); i++)
        matches = matches || fnmatch(adapted[i], tensor->name, 0) == 0;
    return matches && ggml_n_dims(tensor) == 2;
}

static void add_half(struct gguf_context *gguf, struct ggml_context *values,
                     const struct ggml_tensor *base, char half, uint64_t seed)
{
    const struct model_weights_plan plan = {.seed = seed, .layers = 1};
    struct ggml_tensor *tensor = half == 'a'
                                     ? ggml_new_tensor_2d(values, GGML_TYPE_F32, base->ne[0], RANK)
                                     : ggml_new_tensor_2d(values, GGML_TYPE_F32, RANK, base->ne[1]);
    struct model_weights weights;

    ggml_format_name(tensor, "%s.lora_%c", base->name, half);
    model_weights_init(&weights, &plan, tensor->name, tensor->ne);
    for (int64_t row = 0; row < tensor->ne[1]; row++)
        model_weights_row(&weights, (uint64_t)row, (float *)tensor->data + row * tensor->ne[0]);
    gguf_add_tensor(gguf, tensor);
}

/* Bytes of all halves, with what ggml needs for each. */
static size_t values_bytes(struct ggml_context *shapes)
{
    size_t bytes = 1 << 16;

    for (struct ggml_tensor *t = ggml_get_first_tensor(shapes); t != NULL;
         t = ggml_get_next_tensor(shapes, t))
        if (is_adapted(t))
            bytes +=
                4 * ggml_tensor_overhead() + RANK * sizeof(float) * (size_t)(t->ne[0] + t->ne[1]);
    return bytes;
}

static enum err add_tensors(struct gguf_context *gguf, struct ggml_context *shapes,
                            struct ggml_context *values,
                            const struct model_adapter_options *options, struct errinfo *info)
{
    for (struct ggml_tensor *t = ggml_get_first_tensor(shapes); t != NULL;
         t = ggml_get_next_tensor(shapes, t)) {
        if (!is_adapted(t))
            continue;
        add_half(gguf, values, t, 'a', options->seed);
        add_half(gguf, values, t, 'b', options->seed);
    }
    return gguf_get_n_tensors(gguf) > 0
               ? ERR_OK
               : err_set(info, ERR_INVALID, "%s has no matrices that an adapter could change",
                         options->base);
}

static enum err add_invocation(struct gguf_context *gguf,
                               const struct model_adapter_options *options, struct errinfo *info)
{
    struct engine_options load = {.path = options->base};
    token_id tokens[LORA_INVOCATION_MAX];
    struct engine *vocab;
    size_t count;

    TRY(engine_llama_load_vocab(&vocab, &load, info));
    enum err err = engine_tokenize(vocab, str_from(options->invocation), ENGINE_TOKENIZE_CONTROL,
                                   tokens, LORA_INVOCATION_MAX, &count, info);
    engine_close(&vocab);
    if (err != ERR_OK || count == 0)
        return err_set(info, ERR_INVALID, "the invocation must have 1 to %d tokens",
                       LORA_INVOCATION_MAX);
    gguf_set_arr_data(gguf, "adapter.alora.invocation_tokens", GGUF_TYPE_UINT32, tokens, count);
    return ERR_OK;
}

/* Under another name first: a file that is being replaced may be in use. */
static enum err write_file(const struct gguf_context *gguf, const char *out, struct errinfo *info)
{
    struct buf path;

    buf_init(&path, PATH_BYTES_MAX);
    buf_appendf(&path, "%s.tmp", out);
    const char *temp = buf_str(&path);
    bool written = path.err == ERR_OK && gguf_write_to_file(gguf, temp, false);
    bool moved = written && rename(temp, out) == 0;
    if (written && !moved)
        remove(temp);
    buf_fini(&path);
    return moved ? ERR_OK : err_set(info, ERR_IO, "the file cannot be written");
}

static enum err make(struct gguf_context *gguf, const struct gguf_file *file,
                     struct ggml_context *shapes, const struct model_adapter_options *options,
                     struct errinfo *info)
{
    struct ggml_context *values =
        ggml_init((struct ggml_init_params){.mem_size = values_bytes(shapes)});

    if (values == NULL)
        return err_set(info, ERR_NOMEM, "no memory for the adapter");
    gguf_set_val_str(gguf, "general.type", "adapter");
    gguf_set_val_str(gguf, "general.architecture", gguf_file_architecture(file));
    gguf_set_val_str(gguf, "adapter.type", "lora");
    gguf_set_val_f32(gguf, "adapter.lora.alpha", RANK / 2.0F);
    enum err err = add_tensors(gguf, shapes, values, options, info);
    if (err == ERR_OK && options->invocation != NULL)
        err = add_invocation(gguf, options, info);
    if (err == ERR_OK)
        err = write_file(gguf, options->out, info);
    ggml_free(values);
    return err;
}

enum err model_make_adapter(const struct model_adapter_options *options, struct errinfo *info)
{
    struct ggml_context *shapes = NULL;
    struct gguf_file *file;

    backend_init(NULL);
    TRY(gguf_file_open(&file, options->base, info));
    struct gguf_context *base = gguf_init_from_file(
        options->base, (struct gguf_init_params){.no_alloc = true, .ctx = &shapes});
    struct gguf_context *gguf = gguf_init_empty();
    enum err err = base != NULL ? make(gguf, file, shapes, options, info)
                                : err_set(info, ERR_CORRUPT, "%s is no model", options->base);
    gguf_free(gguf);
    gguf_free(base);
    ggml_free(shapes);
    gguf_file_close(&file);
    return err;
}
