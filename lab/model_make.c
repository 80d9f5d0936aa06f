/*
 * model_make.c: a GGUF file with random weights.
 *
 *      resolve -> describe -> list -> write -> quantize -> rename
 *
 *   describe   metadata of family and tokenizer (model_families.c, model_vocab.c)
 *   list       the library builds the model from that metadata and shows us its tensors: names and
 *              shapes are never written down here, so an architecture is its keys and nothing else.
 *              The memory that it reserves for their values is never touched.
 *   write      our own: the library's writer drops the chat template and stores every optional
 *              tensor, in 32 bits. Row by row, so memory does not grow with the model.
 *   quantize   the library's own, so that types are mixed as in published files
 *
 * Tensors that the library would accept but that published models of the family do not have are
 * omitted.
 */
#include "lab/model_make.h"

#include <assert.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/backend.h"
#include "lab/model_impl.h"

enum {
    TENSORS_MAX = MODEL_LAYERS_MAX * 64,
    CHUNK_BYTES = 1 << 20,
    PATH_BYTES_MAX = 4096,
};

struct tensor {
    char name[GGML_MAX_NAME];
    int64_t dims[GGML_MAX_DIMS];
    enum ggml_type type;
};

/* Everything of one call. */
struct making {
    const struct model_make_options *options;
    struct model_make_plan plan;
    struct gguf_context *gguf;
    struct tensor *tensors;
    size_t count, cap;
    enum err list_err; /* of the callback that fills the list */
    const struct file_sys *fs;
    int dir;                 /* of the target */
    char *dir_path, *name;   /* the target's two parts */
    char *plain, *quantized; /* temporary names beside it */
};

/* Freed with mem_free; NULL when it is too long or there is no memory. */
static char *PRINTF(1, 2) text_of(const char *fmt, ...)
{
    struct buf text;
    va_list args;

    buf_init(&text, PATH_BYTES_MAX);
    va_start(args, fmt);
    buf_vappendf(&text, fmt, args);
    va_end(args);
    char *taken = buf_take(&text);
    buf_fini(&text);
    return taken;
}

static enum err refused(const struct making *making, const char *what, struct errinfo *info)
{
    const char *why = backend_take_error();

    return err_set(info, ERR_ENGINE, "the library could not %s this %s%s%s", what,
                   making->plan.family->name, why[0] != '\0' ? ": " : "", why);
}

/* ---- describe and list ---- */

static enum err describe(struct making *making, struct errinfo *info)
{
    const struct model_family *family = making->plan.family;
    const char *name = family->architecture != NULL ? family->architecture : family->name;
    struct model_keys keys = {.gguf = making->gguf, .architecture = name};

    gguf_set_val_str(making->gguf, "general.architecture", name);
    gguf_set_val_str(making->gguf, "general.name", making->plan.name);
    gguf_set_val_str(making->gguf, "general.description", "random weights, made by hearth");
    gguf_set_val_u32(making->gguf, "general.file_type", LLAMA_FTYPE_MOSTLY_F16);
    model_family_set_keys(family, &keys, &making->plan.shape);
    return model_vocab_set_keys(making->gguf, making->plan.shape.vocab, info);
}

static bool matches_any(const char *name, const char *const *patterns)
{
    for (; *patterns != NULL; patterns++)
        if (fnmatch(*patterns, name, 0) == 0)
            return true;
    return false;
}

/* Optional in the library, absent in published models. */
static bool is_left_out(const struct making *making, const char *name)
{
    static const char *const never[] = {"*.scale", "*.scales", "*.input_scale", NULL};
    static const char *const biases[] = {"*.attn_[qkv].bias", "*.attn_output.bias", "*.ffn_*.bias",
                                         NULL};
    static const char *const merged[] = {"*.ssm_in.weight",
                                         NULL}; /* old form of attn_qkv and attn_gate */
    const unsigned traits = making->plan.family->traits;

    return matches_any(name, never) ||
           (!(traits & MODEL_TRAIT_RANK) && fnmatch("cls.*", name, 0) == 0) ||
           (!(traits & MODEL_TRAIT_BIAS) && matches_any(name, biases)) ||
           (!(traits & MODEL_TRAIT_ROPE_FREQS) && strcmp(name, "rope_freqs.weight") == 0) ||
           (!(traits & MODEL_TRAIT_OUTPUT_BIAS) && strcmp(name, "output.bias") == 0) ||
           (traits & MODEL_TRAIT_DELTA && matches_any(name, merged)) ||
           (making->plan.shape.tied && strcmp(name, "output.weight") == 0);
}

static bool is_listed(const struct making *making, const char *name)
{
    for (size_t i = making->count; i-- > 0;)
        if (strcmp(making->tensors[i].name, name) == 0)
            return true;
    return false;
}

/* Called by the library for each tensor of the model it built. */
static void list_tensor(struct ggml_tensor *tensor, void *arg)
{
    struct making *making = arg;

    if (making->list_err != ERR_OK || is_left_out(making, tensor->name) ||
        is_listed(making, tensor->name))
        return;
    if (making->count == TENSORS_MAX || !mem_try_reserve(&making->tensors, making->count + 1,
                                                         &making->cap, sizeof(*making->tensors))) {
        making->list_err = ERR_NOMEM;
        return;
    }
    struct tensor *entry = &making->tensors[making->count++];
    *entry = (struct tensor){.type = GGML_TYPE_F32};
    snprintf(entry->name, sizeof(entry->name), "%s", tensor->name);
    memcpy(entry->dims, tensor->ne, sizeof(entry->dims));
    if (model_weights_is_matrix(entry->name, entry->dims))
        entry->type = GGML_TYPE_F16;
}

/* By layer, then by name: the library's own order depends on the devices of the machine. */
static int compare_tensors(const void *a, const void *b)
{
    return strverscmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static enum err list(struct making *making, struct errinfo *info)
{
    struct llama_model_params params = llama_model_default_params();
    ggml_backend_dev_t no_devices[] = {NULL};

    params.devices = no_devices;
    params.n_gpu_layers = 0;
    struct llama_model *model =
        llama_model_init_from_user(making->gguf, list_tensor, making, params);
    if (model == NULL)
        return refused(making, "build", info);
    llama_model_free(model);
    if (making->list_err != ERR_OK)
        return err_set(info, making->list_err, "no memory for the list of tensors");
    assert(making->count > 0);
    qsort(making->tensors, making->count, sizeof(*making->tensors), compare_tensors);
    return ERR_OK;
}

/* ---- write ---- */

static bool go_on(const struct making *making, float done)
{
    return making->options->on_progress == NULL ||
           making->options->on_progress(done, making->options->arg);
}

static void add_tensors(struct making *making)
{
    for (size_t i = 0; i < making->count; i++) {
        const struct tensor *entry = &making->tensors[i];
        struct ggml_tensor tensor = {.type = entry->type};
        memcpy(tensor.ne, entry->dims, sizeof(tensor.ne));
        tensor.nb[0] = ggml_type_size(entry->type);
        for (size_t d = 1; d < GGML_MAX_DIMS; d++)
            tensor.nb[d] = tensor.nb[d - 1] * (size_t)tensor.ne[d - 1];
        ggml_set_name(&tensor, entry->name);
        gguf_add_tensor(making->gguf, &tensor);
    }
}

static enum err write_header(struct making *making, int fd, struct errinfo *info)
{
    size_t len = gguf_get_meta_size(making->gguf);
    void *header = mem_try_alloc(len);

    if (header == NULL)
        return err_set(info, ERR_NOMEM, "no memory for %zu bytes of metadata", len);
    gguf_get_meta_data(making->gguf, header);
    enum err err = file_write_at(making->fs, fd, header, len, 0, info);
    mem_free(header);
    return err;
}

static enum err write_tensor(struct making *making, int fd, const struct tensor *tensor,
                             uint64_t offset, struct errinfo *info)
{
    const struct model_weights_plan plan = {making->options->seed, making->plan.shape.layers,
                                            making->plan.shape.tied};
    const size_t row_len = (size_t)tensor->dims[0];
    const uint64_t rows = (uint64_t)(tensor->dims[1] * tensor->dims[2] * tensor->dims[3]);
    const size_t chunk = MIN(MAX(CHUNK_BYTES / (row_len * sizeof(float)), 1), rows);
    struct model_weights weights;
    enum err err = ERR_OK;

    float *values = mem_try_alloc_array(chunk * row_len, sizeof(*values));
    ggml_fp16_t *halves = mem_try_alloc_array(chunk * row_len, sizeof(*halves));
    if (values == NULL || halves == NULL)
        err = err_set(info, ERR_NOMEM, "no memory for rows of %zu values", row_len);
    model_weights_init(&weights, &plan, tensor->name, tensor->dims);
    for (uint64_t row = 0; err == ERR_OK && row < rows;) {
        const size_t n = (size_t)MIN(chunk, rows - row);
        for (size_t i = 0; i < n; i++)
            model_weights_row(&weights, row + i, values + i * row_len);
        const bool is_half = tensor->type == GGML_TYPE_F16;
        if (is_half)
            ggml_fp32_to_fp16_row(values, halves, (int64_t)(n * row_len));
        const size_t len = n * row_len * (is_half ? sizeof(*halves) : sizeof(*values));
        err = file_write_at(making->fs, fd, is_half ? (void *)halves : values, len, offset, info);
        offset += len;
        row += n;
    }
    mem_free(values);
    mem_free(halves);
    return err;
}

static enum err write_tensors(struct making *making, int fd, struct errinfo *info)
{
    const uint64_t base = gguf_get_meta_size(making->gguf); /* padded, as the offsets are */
    const float share =
        making->plan.quant == MODEL_QUANT_F16 ? 1.0F : 0.5F; /* the rest is quantization */
    uint64_t end = base;

    for (size_t i = 0; i < making->count; i++) {
        const int64_t id = gguf_find_tensor(making->gguf, making->tensors[i].name);
        const uint64_t offset = base + gguf_get_tensor_offset(making->gguf, id);
        TRY(write_tensor(making, fd, &making->tensors[i], offset, info));
        end = offset + gguf_get_tensor_size(making->gguf, id);
        if (!go_on(making, share * (float)(i + 1) / (float)making->count))
            return err_set(info, ERR_CANCELLED, "cancelled");
    }
    /* Gaps between tensors are holes, which read as zeros. The file ends where it should: the last
     * tensor is the embedding, whose rows are as long as the width, which is a multiple of the
     * alignment. */
    assert(end % gguf_get_alignment(making->gguf) == 0);
    return ERR_OK;
}

static enum err write_plain(struct making *making, struct errinfo *info)
{
    int fd;

    add_tensors(making);
    TRY(file_open_at(making->fs, making->dir, making->plain, O_WRONLY | O_CREAT | O_EXCL, 0666, &fd,
                     info));
    enum err err = write_header(making, fd, info);
    if (err == ERR_OK)
        err = write_tensors(making, fd, info);
    file_close(making->fs, &fd);
    return err;
}

/* ---- quantize ---- */

static enum err quantize(struct making *making, struct errinfo *info)
{
    static const enum llama_ftype ftypes[MODEL_QUANT_COUNT] = {
        [MODEL_QUANT_Q8_0] = LLAMA_FTYPE_MOSTLY_Q8_0,
        [MODEL_QUANT_Q4_0] = LLAMA_FTYPE_MOSTLY_Q4_0,
        [MODEL_QUANT_Q4_K] = LLAMA_FTYPE_MOSTLY_Q4_K_M,
    };
    struct llama_model_quantize_params params = llama_model_quantize_default_params();
    char *from = text_of("%s/%s", making->dir_path, making->plain);
    char *to = text_of("%s/%s", making->dir_path, making->quantized);
    enum err err = ERR_OK;

    params.ftype = ftypes[making->plan.quant];
    if (from == NULL || to == NULL)
        err = err_set(info, ERR_NOMEM, "no memory for a path");
    else if (llama_model_quantize(from, to, &params) != 0)
        err = refused(making, "quantize", info);
    mem_free(from);
    mem_free(to);
    return err;
}

/* ---- the steps ---- */

static enum err make(struct making *making, struct errinfo *info)
{
    const bool plain = making->plan.quant == MODEL_QUANT_F16;
    const char *made = plain ? making->plain : making->quantized;

    TRY(describe(making, info));
    TRY(list(making, info));
    TRY(write_plain(making, info));
    if (!plain)
        TRY(quantize(making, info));
    if (!go_on(making, 1.0F))
        return err_set(info, ERR_CANCELLED, "cancelled");
    int rc =
        making->fs->ops->renameat(making->fs->ctx, making->dir, made, making->dir, making->name);
    return rc == 0 ? ERR_OK : err_set_errno(info, -rc, "cannot write '%s'", making->options->out);
}

/* The new file gets the name of the old one: a device such as /dev/null would be gone. */
static enum err check_target(const char *out, struct errinfo *info)
{
    const char *name = file_base_name(out);
    struct stat st;

    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return err_set(info, ERR_INVALID, "'%s' is not a name for a file", out);
    if (stat(out, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(info, ERR_INVALID, "'%s' is not a regular file: choose another name", out);
    return ERR_OK;
}

/* Splits the target and opens its folder. */
static enum err open_target(struct making *making, struct errinfo *info)
{
    const char *out = making->options->out, *name = file_base_name(out);
    const char *slash = strrchr(out, '/');
    uint32_t unique;

    making->name = mem_strdup(name);
    making->dir_path = slash == NULL  ? mem_strdup(".")
                       : slash == out ? mem_strdup("/")
                                      : mem_strndup(out, (size_t)(slash - out));
    /* A unique name: two processes that make the same file must not overwrite each other's. */
    hash_random(&unique, sizeof(unique));
    making->plain = text_of(".%s.%08x.f16", name, unique);
    making->quantized = text_of(".%s.%08x.quantized", name, unique);
    if (making->plain == NULL || making->quantized == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a path");
    enum err err = file_open_dir(making->fs, making->dir_path, false, &making->dir, info);
    return err == ERR_OK ? ERR_OK : err_wrap(info, err, "cannot write '%s'", out);
}

static void close_target(struct making *making)
{
    const struct file_ops *ops = making->fs->ops;

    /* Removes leftovers: both files after a failure, the plain one after quantization, otherwise
     * none. */
    if (making->dir != FILE_NO) {
        ops->unlinkat(making->fs->ctx, making->dir, making->plain, false);
        ops->unlinkat(making->fs->ctx, making->dir, making->quantized, false);
        file_close(making->fs, &making->dir);
    }
    mem_free(making->plain);
    mem_free(making->quantized);
    mem_free(making->name);
    mem_free(making->dir_path);
}

enum err model_make(const struct model_make_options *options, struct errinfo *info)
{
    struct making making = {
        .options = options,
        .fs = options->fs != NULL ? options->fs : file_sys_real(),
        .dir = FILE_NO,
    };

    assert(options->out != NULL);
    TRY(check_target(options->out, info));
    const struct model_projector *projector =
        model_projector_find(options->family != NULL ? options->family : "");
    if (projector != NULL)
        return model_projector_make(projector, options, info);
    TRY(model_make_resolve(options, &making.plan, info));
    backend_init(NULL);
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == NULL)
        return err_set(
            info, ERR_NOT_FOUND,
            "no backend of the library was found in '%s'; HEARTH_BACKENDS says where they are",
            backend_dir());
    enum err err = open_target(&making, info);
    if (err == ERR_OK) {
        making.gguf = gguf_init_empty();
        err = make(&making, info);
        gguf_free(making.gguf);
    }
    close_target(&making);
    mem_free(making.tensors);
    return err;
}
