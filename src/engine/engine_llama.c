/*
 * engine_llama.c: libllama as an engine: its operations on tokens and sequences, and running.
 *
 * Sequence ids of the library are slot numbers of seqs.h. Two more are internal: `temp`, where
 * state is assembled, and `empty`, which never has cells. One batch is allocated at load and
 * reused. The library's asserts never fail because engine.c has checked every token, sequence and
 * count before.
 */
#include "engine/engine_llama.h"

#include <assert.h>

#include "base/mem.h"
#include "engine/backend.h"
#include "engine/catch.h"
#include "engine/projector.h"

enum {
    DECODE_NO_ROOM = 1, /* returned by llama_decode: no room */
    DECODE_FAILED = -3, /* the value for a failure: it threw */
};

const struct llama_vocab *engine_llama_vocab(const struct engine *engine)
{
    const struct engine *owner = engine->vocab != NULL ? engine->vocab : engine;

    return owner->ops == &engine_llama_ops ? engine_llama_of(owner)->vocab : NULL;
}

/* ---- tokens ---- */

struct tokenize_call {
    const struct llama_vocab *vocab;
    struct str text;
    unsigned flags;
    token_id *tokens;
    int32_t room, n;
};

static void call_tokenize(void *arg)
{
    struct tokenize_call *call = arg;

    call->n = llama_tokenize(call->vocab, call->text.ptr, (int32_t)call->text.len, call->tokens,
                             call->room, (call->flags & ENGINE_TOKENIZE_BOS) != 0,
                             (call->flags & ENGINE_TOKENIZE_CONTROL) != 0);
}

static enum err op_tokenize(const struct engine *engine, struct str text, unsigned flags,
                            token_id *tokens, size_t max, size_t *count)
{
    struct tokenize_call call = {engine_llama_of(engine)->vocab, text, flags, tokens,
                                 (int32_t)MIN(max, INT32_MAX),   0};

    TRY(catch_call(call_tokenize, &call));
    if (call.n == INT32_MIN)
        return ERR_ENGINE;
    *count = (size_t)(call.n < 0 ? -(int64_t)call.n : call.n);
    return ERR_OK;
}

static size_t op_token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                             size_t size)
{
    int32_t n = llama_token_to_piece(engine_llama_of(engine)->vocab, token, out,
                                     (int32_t)MIN(size, INT32_MAX), 0, control);

    return n < 0 ? (size_t) - (int64_t)n : (size_t)n;
}

static bool op_token_is_end(const struct engine *engine, token_id token)
{
    return llama_vocab_is_eog(engine_llama_of(engine)->vocab, token);
}

static bool op_token_is_control(const struct engine *engine, token_id token)
{
    return llama_vocab_is_control(engine_llama_of(engine)->vocab, token);
}

static unsigned op_token_traits(const struct engine *engine, token_id token)
{
    static const struct {
        enum llama_token_attr attr;
        unsigned trait;
    } map[] = {
        /* The unknown token is treated like a control token when text is cut. */
        {LLAMA_TOKEN_ATTR_CONTROL, ENGINE_TOKEN_CONTROL},
        {LLAMA_TOKEN_ATTR_UNKNOWN, ENGINE_TOKEN_CONTROL},
        {LLAMA_TOKEN_ATTR_USER_DEFINED, ENGINE_TOKEN_MARKER},
        {LLAMA_TOKEN_ATTR_LSTRIP, ENGINE_TOKEN_STRIP_LEFT},
        {LLAMA_TOKEN_ATTR_RSTRIP, ENGINE_TOKEN_STRIP_RIGHT},
    };
    unsigned attr = llama_vocab_get_attr(engine_llama_of(engine)->vocab, token), traits = 0;

    for (size_t i = 0; i < COUNT_OF(map); i++)
        traits |= attr & map[i].attr ? map[i].trait : 0;
    return traits;
}

/* ---- sequences ---- */

static bool op_seq_copy(struct engine *engine, seq_id from, seq_id to)
{
    struct engine_llama *llama = engine_llama_of(engine);

    if (llama->streams && engine->facts.slicing != ENGINE_SLICING_NONE)
        return sections_copy_whole(engine, from, to);
    llama_memory_seq_cp(llama->memory, from, to, -1, -1);
    cells_copy(&llama->cells, from, to);
    llama->shares[from] = llama->shares[to] = llama->ring;
    return true;
}

/* The cells of windows are reused one by one, and the library then removes all rows before the one
 * that was overwritten: a sequence has all rows from its first position on. The token at n looks
 * back at n - window + 1, that of a chunk at the beginning of its chunk. */
static uint32_t op_seq_least(struct engine *engine, seq_id seq)
{
    const struct engine_llama *llama = engine_llama_of(engine);
    uint32_t length = seqs_length(&engine->seqs, seq);
    llama_pos first = llama_memory_seq_pos_min(llama->memory, seq);
    uint32_t window = (uint32_t)llama_model_n_swa(llama->model);

    if (window == 0 || first < 0 || !engine->facts.windows_cut)
        return length;
    if (first == 0)
        return 1;
    return engine->facts.kinds & KIND_BIT(KIND_CHUNKED)
               ? ((uint32_t)first + window - 1) / window * window
               : (uint32_t)first + window - 1;
}

/* The library refuses what a recurrent state does not allow. It does not check whether all of a
 * window is still there: engine.c does, but for windows that were imported again meanwhile. */
static bool op_seq_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    const struct engine_llama *llama = engine_llama_of(engine);

    return (length == 0 || !llama->unshared[seq] || length >= op_seq_least(engine, seq)) &&
           sections_rows_cut(engine, seq, length);
}

static void op_seq_clear(struct engine *engine, seq_id seq)
{
    struct engine_llama *llama = engine_llama_of(engine);

    if (llama->memory == NULL)
        return;
    llama_memory_seq_rm(llama->memory, seq, -1, -1);
    cells_cut(&llama->cells, seq, 0);
    llama->shares[seq] = llama->unshared[seq] = false;
    /* This one may be broken, and then it is not among the live ones. */
    uint32_t others = seqs_live_count(&engine->seqs) - seqs_live(&engine->seqs, seq);
    if ((llama->tainted || llama->cells.lost) && others == 0) {
        llama_memory_clear(llama->memory, llama->tainted);
        cells_reset(&llama->cells);
        llama->tainted = llama->lost = false;
    }
}

static uint32_t op_seq_length(struct engine *engine, seq_id seq)
{
    llama_memory_t memory = engine_llama_of(engine)->memory;

    return memory != NULL ? (uint32_t)(llama_memory_seq_pos_max(memory, seq) + 1) : 0;
}

/* ---- running ---- */

/* The library calls this between the nodes of its graph: the best sign of life available. */
bool engine_llama_tick(void *arg)
{
    struct engine_llama *llama = arg;

    atomic_fetch_add_explicit(&llama->beats, 1, memory_order_relaxed);
    if (llama->on_tick != NULL)
        llama->on_tick(llama->tick_arg);
    /* Relaxed: the flag publishes no other data. */
    return atomic_load_explicit(&llama->aborting, memory_order_relaxed);
}

static void op_abort(struct engine *engine)
{
    atomic_store_explicit(&engine_llama_of(engine)->aborting, true, memory_order_relaxed);
}

static uint64_t op_beats(const struct engine *engine)
{
    return atomic_load_explicit(&engine_llama_of(engine)->beats, memory_order_relaxed);
}

static void fill_batch(struct engine_llama *llama, const struct engine_item *items, size_t count)
{
    struct llama_batch *batch = &llama->batch;
    int32_t n = 0;

    llama->outputs_count = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t at = seqs_position(&llama->base.seqs, items[i].seq,
                                    seqs_length(&llama->base.seqs, items[i].seq));
        for (uint32_t k = 0; k < items[i].count; k++, n++) {
            batch->token[n] = items[i].tokens[k];
            batch->pos[n] = (llama_pos)(at + k);
            batch->n_seq_id[n] = 1;
            batch->seq_id[n][0] = items[i].seq;
            batch->logits[n] = llama->embeds || k + items[i].logits >= items[i].count;
            if (batch->logits[n] && !llama->embeds)
                llama->outputs[llama->outputs_count++] = n;
        }
        llama->embedded[i] = items[i].seq;
    }
    batch->n_tokens = n;
}

static void call_decode(void *arg)
{
    struct engine_llama *llama = arg;

    llama->decoded =
        (llama->memory != NULL ? llama_decode : llama_encode)(llama->ctx, llama->batch);
    /* A device may still compute. The caller reads the logits at once, so waiting here costs
     * nothing, and the run takes as long as it seems. */
    if (llama->decoded == 0 && (llama->outputs_count > 0 || llama->embeds))
        llama_synchronize(llama->ctx);
}

static int32_t decode(struct engine_llama *llama)
{
    int32_t result = catch_call(call_decode, llama) == ERR_OK ? llama->decoded : DECODE_FAILED;

    if (result != 0 && result != DECODE_NO_ROOM)
        cells_lose(&llama->cells);
    for (int32_t i = 0; result == 0 && i < llama->batch.n_tokens; i++) {
        cells_place(&llama->cells, llama->batch.seq_id[i][0], (uint32_t)llama->batch.pos[i]);
        llama->unshared[llama->batch.seq_id[i][0]] = false;
    }
    return result;
}

static bool op_set_lora(struct engine *engine, const struct lora_set *set)
{
    struct engine_llama *llama = engine_llama_of(engine);
    struct llama_adapter_lora *adapters[LORA_MAX];
    float scales[LORA_MAX];
    size_t count = 0;

    for (size_t i = 0; i < engine->facts.lora.count; i++) {
        if (set->scale[i] == 0)
            continue;
        adapters[count] = llama->adapters[i];
        scales[count++] = set->scale[i];
    }
    return llama_set_adapters_lora(llama->ctx, adapters, count, scales) == 0;
}

static enum err result_of(const struct engine_llama *llama, int32_t result, int32_t tokens,
                          struct errinfo *info)
{
    if (llama->lost)
        return err_set(info, ERR_ENGINE,
                       "the library could not re-import the windows of its sequences");
    switch (result) {
    case 0:
        return ERR_OK;
    case DECODE_NO_ROOM:
        return err_set(info, ERR_LIMIT, "the context has no room for %d more tokens", tokens);
    case 2:
        return err_set(info, ERR_CANCELLED, "the run was aborted");
    default:
        return backend_failed(info, "the library failed to run a batch");
    }
}

static enum err run(struct engine_llama *llama, const struct engine_item *items, size_t count,
                    struct errinfo *info)
{
    fill_batch(llama, items, count);
    atomic_store_explicit(&llama->aborting, false, memory_order_relaxed);
    int32_t result = decode(llama);
    if (result == DECODE_NO_ROOM && llama->memory != NULL && sections_unshare(llama))
        result = decode(llama);
    return result_of(llama, result, llama->batch.n_tokens, info);
}

static enum err op_run_picture(struct engine *engine, seq_id seq, const struct picture_piece *piece,
                               struct errinfo *info)
{
    struct engine_llama *llama = engine_llama_of(engine);
    int32_t at = (int32_t)seqs_position(&engine->seqs, seq, seqs_length(&engine->seqs, seq));
    uint32_t before = op_seq_length(engine, seq);

    embed_llama_switch(llama, false);
    atomic_store_explicit(&llama->aborting, false, memory_order_relaxed);
    cells_lose(&llama->cells); /* it decodes in steps of its own */
    int32_t result = projector_run(llama->projector, llama->ctx, piece, at, seq);
    bool clean = op_seq_length(engine, seq) == before;
    if (result == DECODE_NO_ROOM && clean && sections_unshare(llama)) {
        result = projector_run(llama->projector, llama->ctx, piece, at, seq);
        clean = op_seq_length(engine, seq) == before;
    }
    if (result == DECODE_NO_ROOM && !clean)
        result = DECODE_FAILED;
    return result_of(llama, result, (int32_t)piece->count, info);
}

static enum err op_read_picture(const struct engine *engine, struct str file, struct picture **out,
                                struct errinfo *info)
{
    return projector_read(engine_llama_of(engine)->projector, file, out, info);
}

static enum err op_run(struct engine *engine, const struct engine_item *items, size_t count,
                       struct errinfo *info)
{
    embed_llama_switch(engine_llama_of(engine), false);
    return run(engine_llama_of(engine), items, count, info);
}

static enum err op_embed(struct engine *engine, const struct engine_item *items, size_t count,
                         struct errinfo *info)
{
    embed_llama_switch(engine_llama_of(engine), true);
    return run(engine_llama_of(engine), items, count, info);
}

static const float *op_logits(struct engine *engine, size_t output)
{
    struct engine_llama *llama = engine_llama_of(engine);

    assert(output < llama->outputs_count);
    return llama_get_logits_ith(llama->ctx, llama->outputs[output]);
}

static void op_close(struct engine *engine)
{
    struct engine_llama *llama = engine_llama_of(engine);

    projector_close(&llama->projector);
    sections_close(llama);
    context_llama_free(llama);
    llama_model_free(llama->model); /* and its adapters */
    mem_free(llama->adapters);
    mem_free(llama->sections.empty);
    mem_free(llama->staging);
    mem_free(llama->name);
    mem_free(llama->architecture);
    mem_free(llama->description);
    mem_free(llama->chat_template);
    mem_free(llama);
}

static uint64_t op_device_free(struct engine *engine)
{
    (void)engine;
    return backend_device_memory().free;
}

const struct engine_ops engine_llama_ops = {
    .close = op_close,
    .tokenize = op_tokenize,
    .token_bytes = op_token_bytes,
    .token_is_end = op_token_is_end,
    .token_is_control = op_token_is_control,
    .token_traits = op_token_traits,
    .seq_copy = op_seq_copy,
    .seq_cut = op_seq_cut,
    .seq_least = op_seq_least,
    .seq_clear = op_seq_clear,
    .seq_length = op_seq_length,
    .seq_settle = sections_settle,
    .set_lora = op_set_lora,
    .run = op_run,
    .run_picture = op_run_picture,
    .read_picture = op_read_picture,
    .logits = op_logits,
    .embed = op_embed,
    .embedding = embed_llama_vector,
    .abort = op_abort,
    .beats = op_beats,
    .device_free = op_device_free,
    .rows_capacity = sections_rows_capacity,
    .export_rows = sections_export_rows,
    .end_bytes = sections_end_bytes,
    .export_end = sections_export_end,
    .import = sections_import,
    .rows_cut = sections_rows_cut,
};
