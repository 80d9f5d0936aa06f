/*
 * model_projector.c: projectors with random weights (mmproj files), which let a made model see
 * pictures.
 *
 * A vision transformer of two small layers and the part that turns its output into rows of the
 * model's width. The library has no function that lists the tensors of a projector, so they are in
 * a table here.
 */
#include <stdio.h>
#include <string.h>

#include <ggml.h>
#include <gguf.h>

#include "base/attr.h"
#include "lab/model_impl.h"

enum {
    VISION_WIDTH = 64,
    VISION_HEADS = 2,
    VISION_FF = 128,
    VISION_LAYERS = 2,
    PATCH = 14,
    TEXT_WIDTH = 256, /* of the small families */
};

/* Sizes in a tensor's list of dimensions that depend on the projector. */
enum { DIM_TEXT = -1, DIM_PATCHES = -2 };

struct tensor_row {
    const char *name; /* %d: once per layer */
    int32_t dims[4];
};

static const struct tensor_row common_rows[] = {
    {"v.patch_embd.weight", {PATCH, PATCH, 3, VISION_WIDTH}},
    {"v.post_ln.weight", {VISION_WIDTH}},
    {"v.post_ln.bias", {VISION_WIDTH}},
    {"v.blk.%d.attn_q.weight", {VISION_WIDTH, VISION_WIDTH}},
    {"v.blk.%d.attn_k.weight", {VISION_WIDTH, VISION_WIDTH}},
    {"v.blk.%d.attn_v.weight", {VISION_WIDTH, VISION_WIDTH}},
    {"v.blk.%d.attn_out.weight", {VISION_WIDTH, VISION_WIDTH}},
    {"v.blk.%d.attn_q.bias", {VISION_WIDTH}},
    {"v.blk.%d.attn_k.bias", {VISION_WIDTH}},
    {"v.blk.%d.attn_v.bias", {VISION_WIDTH}},
    {"v.blk.%d.attn_out.bias", {VISION_WIDTH}},
    {"v.blk.%d.ln1.weight", {VISION_WIDTH}},
    {"v.blk.%d.ln1.bias", {VISION_WIDTH}},
    {"v.blk.%d.ln2.weight", {VISION_WIDTH}},
    {"v.blk.%d.ln2.bias", {VISION_WIDTH}},
    {"v.blk.%d.ffn_up.weight", {VISION_WIDTH, VISION_FF}},
    {"v.blk.%d.ffn_up.bias", {VISION_FF}},
    {"v.blk.%d.ffn_down.weight", {VISION_FF, VISION_WIDTH}},
    {"v.blk.%d.ffn_down.bias", {VISION_WIDTH}},
    {.name = NULL},
};

/* Qwen's. */
static const struct tensor_row merger_rows[] = {
    {"v.patch_embd.weight.1", {PATCH, PATCH, 3, VISION_WIDTH}},
    {"mm.0.weight", {4 * VISION_WIDTH, 4 * VISION_WIDTH}},
    {"mm.0.bias", {4 * VISION_WIDTH}},
    {"mm.2.weight", {4 * VISION_WIDTH, DIM_TEXT}},
    {"mm.2.bias", {DIM_TEXT}},
    {.name = NULL},
};

static const struct model_projector {
    const char *name, *type;
    uint32_t image_size; /* of the square that a picture is resized to */
    struct tensor_row rows[11];
    const struct tensor_row *more;
    uint32_t window_every; /* layers with windows, up to one that has none; 0 = no windows */
    bool fused;            /* queries, keys and values are one tensor */
} projectors[] = {
    /* LLaVA: causal, 16 rows per picture */
    {.name = "mmproj-mlp",
     .type = "mlp",
     .image_size = 4 * PATCH,
     .rows = {{"v.position_embd.weight", {VISION_WIDTH, DIM_PATCHES}},
              {"mm.0.weight", {VISION_WIDTH, DIM_TEXT}},
              {"mm.0.bias", {DIM_TEXT}},
              {"mm.2.weight", {DIM_TEXT, DIM_TEXT}},
              {"mm.2.bias", {DIM_TEXT}},
              {.name = NULL}}},
    /* not causal: the rows of a picture see each other; 16 of them */
    {.name = "mmproj-gemma3",
     .type = "gemma3",
     .image_size = 8 * PATCH,
     .rows = {{"v.position_embd.weight", {VISION_WIDTH, DIM_PATCHES}},
              {"v.patch_embd.bias", {VISION_WIDTH}},
              {"mm.input_projection.weight", {DIM_TEXT, VISION_WIDTH}},
              {"mm.soft_emb_norm.weight", {VISION_WIDTH}},
              {.name = NULL}}},
    /* M-RoPE: rows have a place in two dimensions, and their number follows the picture's size */
    {.name = "mmproj-qwen2vl",
     .type = "qwen2vl_merger",
     .image_size = 40 * PATCH,
     .more = merger_rows},
    {.name = "mmproj-qwen25vl",
     .type = "qwen2.5vl_merger",
     .image_size = 40 * PATCH,
     .more = merger_rows,
     .window_every = 2},
    /* the first layer's output is added to that of the model's first layer ("deepstack") */
    {.name = "mmproj-qwen3vl",
     .type = "qwen3vl_merger",
     .image_size = 40 * PATCH,
     .more = merger_rows,
     .rows = {{"v.patch_embd.bias", {VISION_WIDTH}},
              {"v.position_embd.weight", {VISION_WIDTH, DIM_PATCHES}},
              {"v.blk.%d.attn_qkv.weight", {VISION_WIDTH, 3 * VISION_WIDTH}},
              {"v.blk.%d.attn_qkv.bias", {3 * VISION_WIDTH}},
              {"v.deepstack.0.norm.weight", {4 * VISION_WIDTH}},
              {"v.deepstack.0.norm.bias", {4 * VISION_WIDTH}},
              {"v.deepstack.0.fc1.weight", {4 * VISION_WIDTH, 4 * VISION_WIDTH}},
              {"v.deepstack.0.fc1.bias", {4 * VISION_WIDTH}},
              {"v.deepstack.0.fc2.weight", {4 * VISION_WIDTH, DIM_TEXT}},
              {"v.deepstack.0.fc2.bias", {DIM_TEXT}},
              {.name = NULL}},
     .fused = true},
};

const struct model_projector *model_projector_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(projectors); i++)
        if (strcmp(projectors[i].name, name) == 0)
            return &projectors[i];
    return NULL;
}

static void set_keys(struct gguf_context *gguf, const struct model_projector *projector,
                     uint32_t width)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"clip.vision.embedding_length", VISION_WIDTH},
        {"clip.vision.attention.head_count", VISION_HEADS},
        {"clip.vision.feed_forward_length", VISION_FF},
        {"clip.vision.block_count", VISION_LAYERS},
        {"clip.vision.patch_size", PATCH},
        {"clip.vision.projector.scale_factor", 2},
    };
    const float half[3] = {0.5F, 0.5F, 0.5F};

    gguf_set_val_str(gguf, "general.architecture", "clip");
    gguf_set_val_str(gguf, "general.type", "mmproj");
    gguf_set_val_str(gguf, "general.name", projector->name);
    gguf_set_val_bool(gguf, "clip.has_vision_encoder", true);
    gguf_set_val_bool(gguf, "clip.use_gelu", true);
    gguf_set_val_str(gguf, "clip.projector_type", projector->type);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        gguf_set_val_u32(gguf, numbers[i].key, numbers[i].value);
    gguf_set_val_u32(gguf, "clip.vision.image_size", projector->image_size);
    gguf_set_val_u32(gguf, "clip.vision.projection_dim", width);
    if (projector->window_every > 0)
        gguf_set_val_u32(gguf, "clip.vision.n_wa_pattern", projector->window_every);
    gguf_set_val_f32(gguf, "clip.vision.attention.layer_norm_epsilon", 1e-6F);
    gguf_set_arr_data(gguf, "clip.vision.image_mean", GGUF_TYPE_FLOAT32, half, COUNT_OF(half));
    gguf_set_arr_data(gguf, "clip.vision.image_std", GGUF_TYPE_FLOAT32, half, COUNT_OF(half));
}

/* One projector being made. */
struct making {
    const struct model_projector *projector;
    uint32_t width;
    struct model_weights_plan plan;
    struct ggml_context *memory; /* NULL: only sizes are wanted */
    struct gguf_context *gguf;
    size_t bytes; /* that all tensors take */
};

static int64_t dim_of(const struct making *making, int32_t dim)
{
    int64_t side = making->projector->image_size / PATCH;

    return dim == DIM_TEXT      ? (int64_t)making->width
           : dim == DIM_PATCHES ? side * side
                                : MAX(dim, 1);
}

static void add_tensor(struct making *making, const char *name, const int32_t *dims)
{
    int64_t sizes[4] = {1, 1, 1, 1};
    struct model_weights weights;

    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        sizes[i] = dim_of(making, dims[i]);
    uint64_t rows = (uint64_t)(sizes[1] * sizes[2] * sizes[3]);
    making->bytes += ggml_tensor_overhead() + rows * (uint64_t)sizes[0] * sizeof(float) + 64;
    if (making->memory == NULL)
        return;
    struct ggml_tensor *tensor =
        ggml_new_tensor_4d(making->memory, GGML_TYPE_F32, sizes[0], sizes[1], sizes[2], sizes[3]);
    ggml_set_name(tensor, name);
    model_weights_init(&weights, &making->plan, name, sizes);
    for (uint64_t row = 0; row < rows; row++)
        model_weights_row(&weights, row, ggml_get_data_f32(tensor) + row * (uint64_t)sizes[0]);
    gguf_add_tensor(making->gguf, tensor);
}

static bool is_split(const char *name)
{
    return strstr(name, ".attn_q.") != NULL || strstr(name, ".attn_k.") != NULL ||
           strstr(name, ".attn_v.") != NULL;
}

static void add_rows(struct making *making, const struct tensor_row *rows)
{
    for (; rows->name != NULL; rows++) {
        if (making->projector->fused && is_split(rows->name))
            continue;
        bool each = strchr(rows->name, '%') != NULL;
        for (int layer = 0; layer < (each ? VISION_LAYERS : 1); layer++) {
            char name[GGML_MAX_NAME];
            const char *number = each ? strchr(rows->name, '%') : rows->name + strlen(rows->name);
            int before = (int)(number - rows->name);
            if (each)
                snprintf(name, sizeof(name), "%.*s%d%s", before, rows->name, layer, number + 2);
            else
                snprintf(name, sizeof(name), "%s", rows->name);
            add_tensor(making, name, rows->dims);
        }
    }
}

static void add_all(struct making *making)
{
    add_rows(making, common_rows);
    add_rows(making, making->projector->rows);
    if (making->projector->more != NULL)
        add_rows(making, making->projector->more);
}

enum err model_projector_make(const struct model_projector *projector,
                              const struct model_make_options *options, struct errinfo *info)
{
    uint32_t width = options->shape.width > 0 ? options->shape.width : TEXT_WIDTH;
    struct making making = {
        .projector = projector, .width = width, .plan = {options->seed, VISION_LAYERS, false}};

    if (width % 32 != 0 || width > 65536)
        return err_set(info, ERR_INVALID, "the width must be a multiple of 32, at most 65536");
    add_all(&making);
    making.memory = ggml_init((struct ggml_init_params){.mem_size = making.bytes});
    if (making.memory == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a projector of %zu bytes", making.bytes);
    making.gguf = gguf_init_empty();
    set_keys(making.gguf, projector, width);
    add_all(&making);
    bool written = gguf_write_to_file(making.gguf, options->out, false);
    gguf_free(making.gguf);
    ggml_free(making.memory);
    return written ? ERR_OK : err_set(info, ERR_IO, "cannot write '%s'", options->out);
}
