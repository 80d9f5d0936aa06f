/*
 * projector.c: libmtmd: picture files to pixels, pixels to embeddings, embeddings to state.
 *
 * The library is part of llama.cpp, but a build of it may lack it: then HEARTH_MTMD is not defined
 * and no projector can be opened.
 */
#include "engine/projector.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/backend.h"
#include "engine/catch.h"

#ifdef HEARTH_MTMD

#include <mtmd-helper.h>
#include <mtmd.h>

enum {
    BEAT_NODES = 32, /* nodes of the encoder's graph between two beats */
    TRIAL_SIDE = 224,
    DECODE_FAILED = -3,
};

struct projector {
    struct projector_options options;
    struct mtmd_context *ctx;
    struct hash256 digest; /* of the file */
    unsigned nodes;
    bool aborted;
};

bool projector_available(void)
{
    return true;
}

/* ---- opening ---- */

/* Called for each node of the encoder's graph, first with `ask`: true makes the library compute up
 * to this node and call again. */
static bool on_node(struct ggml_tensor *tensor, bool ask, void *arg)
{
    struct projector *projector = arg;

    (void)tensor;
    if (ask)
        return ++projector->nodes % BEAT_NODES == 0;
    if (projector->options.beat(projector->options.arg))
        return true;
    projector->aborted = true;
    return false;
}

struct open_call {
    struct projector *projector;
    struct mtmd_context_params params;
};

static void call_open(void *arg)
{
    struct open_call *call = arg;

    call->projector->ctx = mtmd_init_from_file(call->projector->options.path,
                                               call->projector->options.model, call->params);
}

enum err projector_open(struct projector **out, const struct projector_options *options,
                        struct errinfo *info)
{
    struct projector *projector = mem_alloc(sizeof(*projector));
    struct open_call call = {projector, mtmd_context_params_default()};

    projector->options = *options;
    call.params.use_gpu = options->gpu;
    call.params.print_timings = false;
    call.params.n_threads = options->threads;
    call.params.warmup = false;
    call.params.image_min_tokens = options->tokens_min ? (int)options->tokens_min : -1;
    call.params.image_max_tokens = options->tokens_max ? (int)options->tokens_max : -1;
    call.params.cb_eval = on_node;
    call.params.cb_eval_user_data = projector;
    backend_take_error();
    enum err err = catch_call(call_open, &call);
    if (err == ERR_OK && projector->ctx == NULL)
        err = ERR_ENGINE;
    if (err != ERR_OK) {
        const char *why = backend_take_error();
        err_set(info, err, "the projector %.200s cannot be used with this model%s%s", options->path,
                why[0] ? ": " : "", why);
    } else if (!mtmd_support_vision(projector->ctx)) {
        err = err_set(info, ERR_UNSUPPORTED, "the projector %.200s does not read pictures",
                      options->path);
    }
    if (err != ERR_OK)
        projector_close(&projector);
    *out = projector;
    return err;
}

void projector_close(struct projector **projector)
{
    if (*projector == NULL)
        return;
    if ((*projector)->ctx != NULL)
        mtmd_free((*projector)->ctx);
    mem_free(*projector);
    *projector = NULL;
}

void projector_identify(struct projector *projector, const struct hash256 *file)
{
    projector->digest = *file;
}

bool projector_uses_mrope(const struct projector *projector)
{
    return mtmd_decode_use_mrope(projector->ctx);
}

/* ---- reading ---- */

struct read_call {
    const struct projector *projector;
    struct str file;
    struct mtmd_bitmap *bitmap;
    struct mtmd_input_chunks *chunks;
    int32_t result;
};

static void call_decode_file(void *arg)
{
    struct read_call *call = arg;
    struct mtmd_helper_bitmap_wrapper made = mtmd_helper_bitmap_init_from_buf(
        call->projector->ctx, (const unsigned char *)call->file.ptr, call->file.len, false,
        mtmd_helper_init_opt_default());

    assert(made.video_ctx == NULL); /* the format was checked */
    call->bitmap = made.bitmap;
}

static void call_tokenize(void *arg)
{
    struct read_call *call = arg;
    const struct mtmd_input_part part = {.bitmap = call->bitmap};
    const struct mtmd_input_part *parts = &part;

    call->result = mtmd_tokenize_from_parts(call->projector->ctx, call->chunks, &parts, 1, false);
}

static struct hash256 identify(const struct projector *projector, const struct mtmd_bitmap *bitmap)
{
    static const char version[] = "hearth picture 2";
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, version, sizeof(version));
    hash256_update(&state, projector->digest.bytes, sizeof(projector->digest.bytes));
    hash256_update_u32(&state, projector->options.tokens_min);
    hash256_update_u32(&state, projector->options.tokens_max);
    hash256_update_u32(&state, mtmd_bitmap_get_nx(bitmap));
    hash256_update_u32(&state, mtmd_bitmap_get_ny(bitmap));
    hash256_update_framed(&state, mtmd_bitmap_get_data(bitmap), mtmd_bitmap_get_n_bytes(bitmap));
    return hash256_final(&state);
}

static bool is_picture(const struct mtmd_input_chunk *chunk)
{
    return mtmd_input_chunk_get_type(chunk) == MTMD_INPUT_CHUNK_TYPE_IMAGE;
}

static void add_chunk(struct picture *picture, size_t index, const struct hash256 *identity)
{
    const struct mtmd_input_chunk *chunk = mtmd_input_chunks_get(picture->chunks, index);
    uint32_t count = (uint32_t)mtmd_input_chunk_get_n_tokens(chunk);
    token_id *tokens = picture->tokens + picture->count;
    size_t text_count;

    if (is_picture(chunk)) {
        uint32_t positions = (uint32_t)mtmd_input_chunk_get_n_pos(chunk);
        picture->pieces[picture->pieces_count] = (struct picture_piece){
            (uint32_t)picture->count, count, (uint32_t)picture->count, positions, picture, index};
        picture_fill_tokens(identity, (uint32_t)picture->pieces_count++, positions, tokens, count);
        picture->weak = picture->weak || count < PICTURE_CELLS_MIN;
    } else {
        memcpy(tokens, mtmd_input_chunk_get_tokens_text(chunk, &text_count),
               count * sizeof(*tokens));
    }
    picture->count += count;
}

/* The chunks become the picture's. */
static enum err make_picture(const struct projector *projector, struct mtmd_input_chunks *chunks,
                             const struct hash256 *identity, struct picture **out,
                             struct errinfo *info)
{
    size_t count = mtmd_input_chunks_size(chunks), tokens = mtmd_helper_get_n_tokens(chunks);
    struct picture *picture = mem_alloc(sizeof(*picture));

    *out = picture;
    picture->chunks = chunks;
    picture->tokens = mem_alloc_array(MAX(tokens, 1), sizeof(*picture->tokens));
    picture->pieces = mem_alloc_array(MAX(count, 1), sizeof(*picture->pieces));
    for (size_t i = 0; i < count; i++) {
        const struct mtmd_input_chunk *chunk = mtmd_input_chunks_get(chunks, i);
        uint32_t cells = (uint32_t)mtmd_input_chunk_get_n_tokens(chunk);
        if (is_picture(chunk) && mtmd_decode_use_mrope(projector->ctx) &&
            mtmd_input_chunk_get_n_pos(chunk) > PICTURE_POSITIONS_MAX)
            return err_set(info, ERR_LIMIT, "the picture takes more than %d positions",
                           PICTURE_POSITIONS_MAX);
        if (is_picture(chunk) && mtmd_decode_use_non_causal(projector->ctx, chunk) &&
            cells > projector->options.chunk)
            return err_set(info, ERR_LIMIT,
                           "the picture takes %u tokens, which must be computed at once; start the "
                           "server with --ubatch-size %u",
                           cells, cells);
        add_chunk(picture, i, identity);
    }
    return ERR_OK;
}

static enum err tokenize(struct read_call *call, struct picture **out, struct errinfo *info)
{
    struct hash256 identity = identify(call->projector, call->bitmap);

    call->chunks = mtmd_input_chunks_init();
    enum err err = catch_call(call_tokenize, call);
    if (err == ERR_OK && call->result != 0)
        err = ERR_INVALID;
    if (err != ERR_OK) {
        mtmd_input_chunks_free(call->chunks);
        return err_set(info, err, "the library cannot prepare the picture: %s",
                       backend_take_error());
    }
    err = make_picture(call->projector, call->chunks, &identity, out, info);
    if (err != ERR_OK)
        picture_destroy(out);
    return err;
}

enum err projector_read(struct projector *projector, struct str file, struct picture **out,
                        struct errinfo *info)
{
    struct read_call call = {.projector = projector, .file = file};

    *out = NULL;
    backend_take_error();
    enum err err = catch_call(call_decode_file, &call);
    if (err == ERR_OK && call.bitmap == NULL)
        err = ERR_INVALID;
    if (err != ERR_OK)
        return err_set(info, err, "the picture cannot be decoded; its file is damaged");
    err = tokenize(&call, out, info);
    mtmd_bitmap_free(call.bitmap);
    return err;
}

void projector_drop(struct mtmd_input_chunks *chunks)
{
    if (chunks != NULL)
        mtmd_input_chunks_free(chunks);
}

/* ---- running ---- */

struct run_call {
    struct projector *projector;
    struct llama_context *ctx;
    const struct mtmd_input_chunk *chunk;
    int32_t at, seq, result;
};

static void call_encode(void *arg)
{
    struct run_call *call = arg;

    call->result = mtmd_encode_chunk(call->projector->ctx, call->chunk);
}

static void call_decode(void *arg)
{
    struct run_call *call = arg;
    llama_pos end;

    call->result = mtmd_helper_decode_image_chunk(
        call->projector->ctx, call->ctx, call->chunk, mtmd_get_output_embd(call->projector->ctx),
        call->at, call->seq, (int32_t)call->projector->options.chunk, &end, NULL, NULL);
}

int32_t projector_run(struct projector *projector, struct llama_context *ctx,
                      const struct picture_piece *piece, int32_t at, int32_t seq)
{
    struct run_call call = {
        .projector = projector,
        .ctx = ctx,
        .chunk = mtmd_input_chunks_get(piece->picture->chunks, piece->chunk),
        .at = at,
        .seq = seq,
    };

    projector->aborted = false;
    if (catch_call(call_encode, &call) != ERR_OK)
        return DECODE_FAILED;
    if (projector->aborted)
        return 2;
    if (call.result != 0 || catch_call(call_decode, &call) != ERR_OK)
        return DECODE_FAILED;
    return call.result;
}

/* ---- trying ---- */

static void call_try(void *arg)
{
    static const unsigned char pixels[TRIAL_SIDE * TRIAL_SIDE * 3];
    struct read_call *call = arg;

    call->bitmap = mtmd_bitmap_init(TRIAL_SIDE, TRIAL_SIDE, pixels);
    call->chunks = mtmd_input_chunks_init();
    call_tokenize(call);
    for (size_t i = 0; call->result == 0 && i < mtmd_input_chunks_size(call->chunks); i++) {
        const struct mtmd_input_chunk *chunk = mtmd_input_chunks_get(call->chunks, i);
        if (is_picture(chunk))
            call->result = mtmd_encode_chunk(call->projector->ctx, chunk);
    }
}

void projector_try(struct projector *projector)
{
    struct read_call call = {.projector = projector};
    enum err err = catch_call(call_try, &call);

    (void)err; /* see the header */
    projector_drop(call.chunks);
    if (call.bitmap != NULL)
        mtmd_bitmap_free(call.bitmap);
    backend_take_error();
}

#else

bool projector_available(void)
{
    return false;
}

enum err projector_open(struct projector **out, const struct projector_options *options,
                        struct errinfo *info)
{
    *out = NULL;
    return err_set(info, ERR_UNSUPPORTED,
                   "--mmproj %.200s: this build of llama.cpp has no libmtmd, which reads pictures",
                   options->path);
}

void projector_close(struct projector **projector)
{
    assert(*projector == NULL);
}

void projector_identify(struct projector *projector, const struct hash256 *file)
{
    (void)projector;
    (void)file;
}

void projector_try(struct projector *projector)
{
    (void)projector;
}

bool projector_uses_mrope(const struct projector *projector)
{
    (void)projector;
    return false;
}

int32_t projector_run(struct projector *projector, struct llama_context *ctx,
                      const struct picture_piece *piece, int32_t at, int32_t seq)
{
    (void)projector;
    (void)ctx;
    (void)piece;
    (void)at;
    (void)seq;
    return -1;
}

enum err projector_read(struct projector *projector, struct str file, struct picture **out,
                        struct errinfo *info)
{
    (void)projector;
    (void)file;
    *out = NULL;
    return err_set(info, ERR_UNSUPPORTED, "this build reads no pictures");
}

void projector_drop(struct mtmd_input_chunks *chunks)
{
    (void)chunks;
}

#endif
