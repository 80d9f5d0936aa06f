/*
 * engine_llama.c: libllama as an engine: loading, facts, tokens, running.
 *
 * Sequence ids of the library are slot numbers of seqs.h. Two more are internal: `temp`, where
 * state is assembled, and `empty`, which never has cells. One batch is allocated at load and
 * reused. The library's asserts never fail because engine.c has checked every token, sequence and
 * count before.
 */
#include "engine/rpc.h"
#include "engine/engine_llama.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bus_error.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "base/units.h"
#include "engine/backend.h"
#include "engine/catch.h"
#include "engine/context_room.h"
#include "engine/fingerprint.h"
#include "engine/gguf_file.h"
#include "engine/projector.h"

enum {
    CONTEXT_DEFAULT_MAX = 32768,
    CONTEXT_STEP = 256,
    SEQUENCES_DEFAULT = 8,
    ENCODER_CONTEXT_DEFAULT_MAX = 2048, /* memory grows with the longest input */
    ENCODER_SEQUENCES = 32,             /* short inputs in a batch; must divide CONTEXT_STEP */
    CHUNK_DEFAULT = 512,
    OWN_SEQUENCES = 2,
    /* Earlier recurrent states per sequence, unless a number was given; and the part of the memory
     * beside the weights that they may take, then and with a number. */
    STATES_AUTO = 4,
    STATES_SHARE_AUTO = 16,
    STATES_SHARE = 2,
    /* logits in a batch beyond one per sequence: drafts, and those of a prompt's tokens */
    OUTPUTS_EXTRA = 64,
    DECODE_NO_ROOM = 1, /* returned by llama_decode: no room */
    DECODE_FAILED = -3, /* the value for a failure: it threw */
};

#define DIGEST_REPORT_NS (100 * NS_PER_MS)

static const struct engine_ops ops;

static const enum ggml_type kv_types[ENGINE_KV_COUNT] = {
    [ENGINE_KV_F16] = GGML_TYPE_F16,   [ENGINE_KV_F32] = GGML_TYPE_F32,
    [ENGINE_KV_BF16] = GGML_TYPE_BF16, [ENGINE_KV_Q8_0] = GGML_TYPE_Q8_0,
    [ENGINE_KV_Q5_1] = GGML_TYPE_Q5_1, [ENGINE_KV_Q5_0] = GGML_TYPE_Q5_0,
    [ENGINE_KV_Q4_1] = GGML_TYPE_Q4_1, [ENGINE_KV_Q4_0] = GGML_TYPE_Q4_0,
};

const struct llama_vocab *engine_llama_vocab(const struct engine *engine)
{
    const struct engine *owner = engine->vocab != NULL ? engine->vocab : engine;

    return owner->ops == &ops ? engine_llama_of(owner)->vocab : NULL;
}

/* An error message for a failure of the library, with the reason from its log if there is one. */
static enum err library_failed(struct errinfo *info, const char *what)
{
    const char *reason = backend_take_error();

    return err_set(info, ERR_ENGINE, "%s%s%s", what, reason[0] ? ": " : "", reason);
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

static void op_seq_copy(struct engine *engine, seq_id from, seq_id to)
{
    struct engine_llama *llama = engine_llama_of(engine);

    llama_memory_seq_cp(llama->memory, from, to, -1, -1);
    llama->shares[from] = llama->shares[to] = llama->ring;
}

static bool op_seq_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    /* The library refuses what a recurrent state does not allow. It does not check whether all of a
     * window is still there: engine.c does. */
    return llama_memory_seq_rm(engine_llama_of(engine)->memory, seq, (llama_pos)length, -1);
}

static void op_seq_clear(struct engine *engine, seq_id seq)
{
    struct engine_llama *llama = engine_llama_of(engine);

    if (llama->memory == NULL)
        return;
    llama_memory_seq_rm(llama->memory, seq, -1, -1);
    llama->shares[seq] = false;
    if (llama->tainted && seqs_live_count(&engine->seqs) <= 1) {
        llama_memory_clear(llama->memory, true);
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
static bool on_abort(void *arg)
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
    return catch_call(call_decode, llama) == ERR_OK ? llama->decoded : DECODE_FAILED;
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
        return library_failed(info, "the library failed to run a batch");
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

static void free_context(struct engine_llama *llama)
{
    if (llama->batch.token)
        llama_batch_free(llama->batch);
    llama->batch = (struct llama_batch){0};
    llama_free(llama->ctx);
    llama->ctx = NULL;
    mem_free(llama->outputs);
    mem_free(llama->embedded);
    llama->outputs = NULL;
    llama->embedded = NULL;
    seqs_fini(&llama->base.seqs);
}

static void op_close(struct engine *engine)
{
    struct engine_llama *llama = engine_llama_of(engine);

    projector_close(&llama->projector);
    free_context(llama);
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

static const struct engine_ops ops = {
    .close = op_close,
    .tokenize = op_tokenize,
    .token_bytes = op_token_bytes,
    .token_is_end = op_token_is_end,
    .token_is_control = op_token_is_control,
    .token_traits = op_token_traits,
    .seq_copy = op_seq_copy,
    .seq_cut = op_seq_cut,
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
    .snapshot_bytes = sections_snapshot_bytes,
    .whole_bytes = sections_whole_bytes,
    .export_rows = sections_export_rows,
    .export_snapshot = sections_export_snapshot,
    .export_whole = sections_export_whole,
    .import_rows = sections_import_rows,
    .rows_cut = sections_rows_cut,
    .import_snapshot = sections_import_snapshot,
    .import_whole = sections_import_whole,
};

/* ---- loading ---- */

struct load {
    const struct engine_options *options;
    bool vocab_only;
    struct gguf_file *file;
    struct gguf_file **adapters;
    struct file_digest *digest;     /* of all files; computed while the library loads them */
    ggml_backend_dev_t devices[17]; /* ended by NULL */
    float loaded;                   /* 0..1, by the library */
    bool known;                     /* digests of all files were cached */
    uint64_t projector_bytes;
    bool cancelled;
};

/* If files must be hashed, hashing counts as half of the progress. */
static float progress_of(const struct load *load)
{
    uint64_t bytes = load->digest != NULL ? file_digest_bytes(load->digest) : 0;

    if (bytes == 0)
        return load->loaded;
    return (load->loaded + (float)((double)file_digest_read(load->digest) / (double)bytes)) / 2;
}

static bool report_progress(struct load *load)
{
    if (load->options->on_progress == NULL ||
        load->options->on_progress(progress_of(load), load->options->arg))
        return true;
    load->cancelled = true;
    return false;
}

static bool on_progress(float done, void *arg)
{
    struct load *load = arg;

    load->loaded = done;
    return report_progress(load);
}

static enum err was_cancelled(const struct load *load, struct errinfo *info)
{
    return err_set(info, ERR_CANCELLED, "loading %s was cancelled", load->options->path);
}

/* Of the GPUs that may take a part of the weights. Asking a driver takes memory there, so a process
 * that has the vocabulary alone does not. */
static struct backend_memory device_memory(const struct load *load)
{
    bool used = load->options->gpu_layers >= 0 && !load->vocab_only;

    return used ? backend_device_memory() : (struct backend_memory){0, 0};
}

static enum err check_memory(const struct load *load, struct errinfo *info)
{
    uint64_t limit = load->options->memory_max ? load->options->memory_max : sysinfo_memory_total();
    limit += MIN(device_memory(load).free, UINT64_MAX - limit);
    uint64_t need = gguf_file_bytes(load->file) + load->projector_bytes;
    char needs[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES];

    if (need <= limit)
        return ERR_OK;
    return err_set(info, ERR_LIMIT,
                   "%s needs %s for its weights alone, %s are allowed. Use a smaller quantization",
                   load->options->path, units_format_size(need, needs),
                   units_format_size(limit, has));
}

/* Once before the weights are loaded, and again when it is known whether there are windows. Rows of
 * other machines are theirs to check, and encoders have none. */
static enum err check_context(const struct load *load, bool windows, struct errinfo *info)
{
    const struct engine_options *options = load->options;
    uint64_t limit = options->memory_max ? options->memory_max : sysinfo_memory_total();
    uint64_t weights = MIN(gguf_file_bytes(load->file) + load->projector_bytes, limit);
    uint64_t trained = gguf_file_arch_uint(load->file, "context_length", CONTEXT_DEFAULT_MAX);
    uint64_t tokens = options->context ? options->context : MIN(trained, CONTEXT_DEFAULT_MAX);

    if (load->vocab_only || options->rpc != NULL || embed_llama_is_encoder(load->file))
        return ERR_OK;
    uint64_t room = MIN(limit - weights, sysinfo_memory_available());
    room += MIN(device_memory(load).free, UINT64_MAX - room);
    return context_check_room(load->file, options, windows, (uint32_t)tokens, room, info);
}

static enum err choose_devices(struct load *load, struct errinfo *info)
{
    struct str rest = str_from(load->options->devices), name;
    size_t count = 0;

    while (str_next(&rest, ',', &name)) {
        char text[64];
        snprintf(text, sizeof(text), STR_FMT, STR_ARG(name));
        ggml_backend_dev_t device = ggml_backend_dev_by_name(text);
        if (device == NULL)
            return err_set(info, ERR_NOT_FOUND,
                           "there is no device '%s'; `hearth doctor` lists those that are", text);
        if (count + 1 == COUNT_OF(load->devices))
            return err_set(info, ERR_LIMIT, "more than %zu devices", COUNT_OF(load->devices) - 1);
        load->devices[count++] = device;
    }
    return ERR_OK;
}

/* Clients see these messages, so they name no path. */
static enum err check_kind(const struct engine_llama *llama, const struct load *load,
                           struct errinfo *info)
{
    const char *why = NULL;

    if (llama_model_has_encoder(llama->model))
        why = "encodes its input in a pass of its own, as T5 does";
    else if (llama_model_is_diffusion(llama->model))
        why = "generates by diffusion, not one token after the other";
    else if (!llama_model_has_decoder(llama->model))
        why = "is neither a decoder nor an encoder of text";
    if (why == NULL)
        return ERR_OK;
    return err_set(info, ERR_UNSUPPORTED,
                   "its architecture, %s, %s; hearth serves decoders (text) and encoders "
                   "(embeddings)",
                   gguf_file_architecture(load->file), why);
}

static enum err load_model(struct engine_llama *llama, struct load *load, struct errinfo *info)
{
    const struct engine_options *options = load->options;
    struct llama_model_params params = llama_model_default_params();

    if (options->rpc != NULL && !load->vocab_only && !options->dry)
        TRY(rpc_add_servers(options->rpc, info));
    TRY(choose_devices(load, info));
    if (load->devices[0] != NULL)
        params.devices = load->devices;
    params.n_gpu_layers = options->gpu_layers == 0 ? -1 : MAX(options->gpu_layers, 0);
    params.vocab_only = load->vocab_only;
    if (options->no_mmap || options->dry)
        params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.no_alloc = options->dry;
    params.progress_callback = on_progress;
    params.progress_callback_user_data = load;
    backend_take_error();
    llama->model = llama_model_load_from_file(options->path, params);
    if (load->cancelled)
        return was_cancelled(load, info);
    if (llama->model == NULL) {
        char what[256];
        snprintf(what, sizeof(what), "the library cannot load %.200s", options->path);
        return library_failed(info, what);
    }
    TRY(check_kind(llama, load, info));
    llama->vocab = llama_model_get_vocab(llama->model);
    if (llama_vocab_n_tokens(llama->vocab) <= 0)
        return err_set(info, ERR_UNSUPPORTED, "the model has no vocabulary");
    return ERR_OK;
}

/* False: there are more of them than fit, or the vocabulary does not have them. */
static bool note_invocation(const struct engine *engine, const struct llama_adapter_lora *from,
                            struct lora_adapter *adapter)
{
    uint64_t count = llama_adapter_get_alora_n_invocation_tokens(from);
    const llama_token *tokens = llama_adapter_get_alora_invocation_tokens(from);

    if (count > LORA_INVOCATION_MAX)
        return false;
    adapter->invocation_count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++) {
        adapter->invocation[i] = tokens[i];
        if (!engine_token_valid(engine, tokens[i]))
            return false;
    }
    return true;
}

static enum err load_adapter(struct engine_llama *llama, const char *path, size_t id,
                             struct errinfo *info)
{
    struct lora_adapter *adapter = &llama->base.facts.lora.list[id];
    char what[256];

    snprintf(what, sizeof(what), "cannot load the adapter %.200s", path);
    llama->adapters[id] = llama_adapter_lora_init(llama->model, path);
    if (llama->adapters[id] == NULL)
        return library_failed(info, what);
    if (!note_invocation(&llama->base, llama->adapters[id], adapter))
        return err_set(info, ERR_LIMIT,
                       "%s: it has more than %d invocation tokens, or some that the model lacks",
                       what, LORA_INVOCATION_MAX);
    snprintf(adapter->name, sizeof(adapter->name), "%s", file_base_name(path));
    return ERR_OK;
}

static enum err load_adapters(struct engine_llama *llama, const struct load *load,
                              struct errinfo *info)
{
    const struct engine_options *options = load->options;
    struct lora_facts *lora = &llama->base.facts.lora;

    if (options->adapters_count > LORA_MAX)
        return err_set(info, ERR_LIMIT, "%zu adapters; at most %d", options->adapters_count,
                       LORA_MAX);
    llama->adapters = mem_alloc_array(LORA_MAX, sizeof(*llama->adapters));
    for (size_t i = 0; i < options->adapters_count; i++) {
        TRY(load_adapter(llama, options->adapters[i].path, i, info));
        lora->count++;
        /* -0 would be another set than 0 */
        lora->initial.scale[i] = options->adapters[i].scale + 0.0f;
    }
    if (lora_set_check(lora, &lora->initial, info) == ERR_OK)
        return ERR_OK;
    return err_wrap(info, ERR_INVALID, "--lora (FILE=0 applies one only where a request asks)");
}

/* The library rounds up the cells of each cache but limits the batch to the requested context.
 * The batch then holds fewer tokens than there are cells, and exceeding it fails an assert. With
 * round numbers it does neither. */
static uint32_t round_context(uint32_t context, uint32_t caches)
{
    uint32_t each = (context + caches - 1) / caches;

    return (each + CONTEXT_STEP - 1) / CONTEXT_STEP * CONTEXT_STEP * caches;
}

static struct llama_context_params context_params(struct engine_llama *llama,
                                                  const struct engine_options *options)
{
    struct llama_context_params params = llama_context_default_params();
    struct engine_facts *facts = &llama->base.facts;
    uint32_t threads = options->threads ? options->threads : sysinfo_cores();

    bool streams = options->streams && !facts->embed.whole;

    params.n_rs_seq = llama->states;
    params.n_ctx = round_context(facts->context, streams ? facts->sequences : 1);
    params.n_seq_max = facts->sequences + (streams ? 0 : OWN_SEQUENCES);
    params.n_ubatch = facts->chunk;
    params.n_batch = facts->chunk + facts->sequences;
    params.n_outputs_max =
        MAX(params.n_seq_max, MIN(params.n_batch, facts->sequences + OUTPUTS_EXTRA));
    params.n_threads = (int32_t)threads;
    params.n_threads_batch =
        (int32_t)(options->threads_prefill ? options->threads_prefill : threads);
    params.flash_attn_type = options->flash > 0   ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                             : options->flash < 0 ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                                  : LLAMA_FLASH_ATTN_TYPE_AUTO;
    params.type_k = llama->type_k = kv_types[options->kv_k];
    params.type_v = llama->type_v = kv_types[options->kv_v];
    params.rope_freq_base = options->rope_base;
    params.rope_freq_scale = options->rope_scale;
    params.kv_unified = !streams;
    params.swa_full = options->sliding_full;
    params.no_perf = true;
    params.abort_callback = on_abort;
    params.abort_callback_data = llama;
    embed_llama_params(llama, &params);
    return params;
}

/* An encoder needs no cells, and all of an input at once. */
static void choose_sizes(struct engine_llama *llama, const struct engine_options *options)
{
    struct engine_facts *facts = &llama->base.facts;
    bool encoder = facts->embed.whole;
    uint32_t most = encoder ? ENCODER_CONTEXT_DEFAULT_MAX : CONTEXT_DEFAULT_MAX;

    facts->context_trained = (uint32_t)llama_model_n_ctx_train(llama->model);
    facts->context = options->context ? options->context : MIN(facts->context_trained, most);
    facts->sequences = options->sequences ? options->sequences : SEQUENCES_DEFAULT;
    facts->chunk = MIN(options->chunk ? options->chunk : CHUNK_DEFAULT, facts->context);
    if (encoder) { /* it may have a vector for each position up to the trained ones only */
        facts->context = MIN(facts->context, facts->context_trained);
        facts->sequences = ENCODER_SEQUENCES;
        facts->chunk = facts->context;
    }
}

/* How many earlier recurrent states the context keeps for each sequence, as options.rollback says.
 * The library takes their memory at once, for each of its sequences. */
static void choose_states(struct engine_llama *llama, const struct load *load)
{
    struct engine_facts *facts = &llama->base.facts;
    const struct engine_options *options = load->options;
    uint64_t limit = options->memory_max ? options->memory_max : sysinfo_memory_total();
    uint64_t room = limit - MIN(limit, gguf_file_bytes(load->file));
    uint64_t each = context_state_bytes(load->file) * (facts->sequences + OWN_SEQUENCES);
    bool automatic = options->rollback == ROLLBACK_AUTO;
    uint32_t wish = automatic ? STATES_AUTO : options->rollback;

    llama->states = 0;
    facts->no_rollback = !llama_model_is_hybrid(llama->model) ? ROLLBACK_LIBRARY
                         : options->streams                   ? ROLLBACK_STREAMS
                         : wish == 0                          ? ROLLBACK_OFF
                                                              : ROLLBACK_MEMORY;
    if (facts->no_rollback != ROLLBACK_MEMORY)
        return;
    if (each > 0)
        wish = (uint32_t)MIN(wish, room / (automatic ? STATES_SHARE_AUTO : STATES_SHARE) / each);
    /* Those after the first must fit into a batch that is computed at once, or the library aborts. */
    llama->states = MIN(wish, facts->chunk - MIN(facts->chunk, 2));
}

/* Not in releases before 0.7.0, which the linker then leaves NULL. */
bool llama_get_causal_attn(const struct llama_context *ctx) __attribute__((weak));

static enum err init_context(struct engine_llama *llama, const struct load *load, bool encoder,
                             struct errinfo *info)
{
    const struct engine_facts *facts = &llama->base.facts;

    TRY(embed_llama_plan(llama, load->options, load->file, encoder, info));
    choose_sizes(llama, load->options);
    if (facts->sequences + OWN_SEQUENCES > MIN(llama_max_parallel_sequences(), SEQS_SLOTS_MAX))
        return err_set(info, ERR_LIMIT, "%u sequences; the library allows %zu", facts->sequences,
                       llama_max_parallel_sequences() - OWN_SEQUENCES);
    choose_states(llama, load);
    backend_take_error();
    llama->ctx = llama_init_from_model(llama->model, context_params(llama, load->options));
    if (llama->ctx == NULL) {
        char what[160];
        snprintf(what, sizeof(what), "no context of %u tokens and %u sequences could be made",
                 facts->context, facts->sequences);
        return library_failed(info, what);
    }
    llama->memory = llama_get_memory(llama->ctx);
    bool is_encoder = llama->memory == NULL ||
                      (llama_get_causal_attn != NULL && !llama_get_causal_attn(llama->ctx));
    if (encoder || !is_encoder)
        return ERR_OK;
    llama_free(llama->ctx); /* an encoder whose file does not say so: once more, as one */
    llama->ctx = NULL;
    return init_context(llama, load, true, info);
}

static enum err make_context(struct engine_llama *llama, const struct load *load,
                             struct errinfo *info)
{
    const struct engine_options *options = load->options;
    struct engine_facts *facts = &llama->base.facts;

    TRY(init_context(llama, load, embed_llama_is_encoder(load->file), info));
    bool encoder = facts->embed.whole;
    if (options->context > facts->context_trained && facts->context_trained > 0 && !options->dry &&
        !encoder)
        LOG_WARN(
            options->log, "engine",
            "the context is longer than the model was trained for: longer prompts may get poor "
            "answers",
            LOG_UINT("context", options->context), LOG_UINT("trained", facts->context_trained));
    facts->context = encoder ? facts->context : llama_n_ctx(llama->ctx);
    if (llama_n_batch(llama->ctx) < MIN(facts->context, facts->chunk + facts->sequences))
        return err_set(info, ERR_ENGINE, "the library takes %u tokens at a time only",
                       llama_n_batch(llama->ctx));
    facts->chunk = MIN(facts->chunk, llama_n_ubatch(llama->ctx));
    if (llama->states > 0 && llama_n_rs_seq(llama->ctx) == 0)
        facts->no_rollback = ROLLBACK_LIBRARY;
    llama->states = llama_n_rs_seq(llama->ctx);
    /* The library's own formula for the cells of a sliding cache (llama_kv_cache_iswa). */
    uint64_t sliding =
        (uint64_t)facts->window * (facts->sequences + OWN_SEQUENCES) + llama_n_ubatch(llama->ctx);
    llama->ring = facts->window > 0 && !options->streams && !options->sliding_full && !encoder &&
                  sliding < facts->context;
    llama->temp = (seq_id)facts->sequences;
    llama->empty = (seq_id)facts->sequences + 1;
    llama->batch = llama_batch_init((int32_t)(facts->chunk + facts->sequences), 0, 1);
    facts->outputs = facts->sequences + OUTPUTS_EXTRA;
    llama->outputs = mem_alloc_array(facts->outputs, sizeof(*llama->outputs));
    llama->embedded = mem_alloc_array(facts->sequences, sizeof(*llama->embedded));
    bool streams = options->streams || encoder; /* inputs of an encoder take no room from others */
    seqs_init(&llama->base.seqs, facts->sequences,
              options->streams && !encoder ? llama_n_ctx_seq(llama->ctx) : facts->context, streams);
    return ERR_OK;
}

/* Each of these was checked in llama-vocab.cpp: a run of letters ends at a space, nothing looks
 * at the text before a word, and words become tokens byte by byte. */
const char *const engine_llama_words[] = {
    "chatglm-bpe", "command-r", "dbrx",   "deepseek-r1-qwen", "deepseek-v3", "falcon3",
    "glm4",        "gpt-2",     "gpt-4o", "llama-bpe",        "llama-v3",    "llama3",
    "llama4",      "pixtral",   "qwen2",  "qwen35",           "smollm",      "stablelm2",
    "starcoder",   "tekken",    NULL,
};

static bool cuts_words(const struct engine_llama *llama, const struct gguf_file *file)
{
    const char *pre = gguf_file_text(file, "tokenizer.ggml.pre");

    if (llama_vocab_type(llama->vocab) != LLAMA_VOCAB_TYPE_BPE || pre == NULL)
        return false;
    for (size_t i = 0; engine_llama_words[i] != NULL; i++)
        if (strcmp(pre, engine_llama_words[i]) == 0)
            return true;
    return false;
}

/* "qwen3 0.6B Q4_K - Medium". The library writes "?B" for a size that it has no name for. */
static void describe(const struct llama_model *model, char *out, size_t size)
{
    char text[128], millions[32];

    llama_model_desc(model, text, sizeof(text));
    const char *unknown = strstr(text, "?B");
    int before = unknown != NULL ? (int)(unknown - text) : (int)strlen(text);
    snprintf(millions, sizeof(millions), "%.1fM", (double)llama_model_n_params(model) / 1e6);
    snprintf(out, size, "%.*s%s%s", before, text, unknown != NULL ? millions : "",
             unknown != NULL ? unknown + 2 : "");
}

static void fill_facts(struct engine_llama *llama, const struct load *load)
{
    struct engine_facts *facts = &llama->base.facts;
    const char *name = gguf_file_text(load->file, "general.name");
    const char *template = llama_model_chat_template(llama->model, NULL);
    char description[128];

    describe(llama->model, description, sizeof(description));
    llama->name = mem_strdup(name ? name : file_base_name(load->options->path));
    llama->description = mem_strdup(description);
    llama->chat_template = template ? mem_strdup(template) : NULL;
    facts->name = llama->name;
    facts->architecture = llama->architecture = mem_strdup(gguf_file_architecture(load->file));
    facts->description = llama->description;
    facts->chat_template = llama->chat_template;
    facts->parameters = llama_model_n_params(llama->model);
    facts->weights_bytes = llama_model_size(llama->model);
    facts->vocab = (uint32_t)llama_vocab_n_tokens(llama->vocab);
    facts->layers = (uint32_t)llama_model_n_layer(llama->model);
    facts->window = (uint32_t)llama_model_n_swa(llama->model);
    /* The library says 0 where its window cannot be rolled back; it has an order all the same. */
    if (facts->window == 0 && gguf_file_has_arch_key(load->file, "attention.compress_ratios"))
        facts->window = (uint32_t)gguf_file_arch_uint(load->file, "attention.sliding_window", 0);
    facts->bos = llama_vocab_bos(llama->vocab);
    facts->eos = llama_vocab_eos(llama->vocab);
    facts->eot = llama_vocab_eot(llama->vocab);
    facts->add_bos = llama_vocab_get_add_bos(llama->vocab);
    facts->fim =
        (struct engine_fim){llama_vocab_fim_pre(llama->vocab), llama_vocab_fim_suf(llama->vocab),
                            llama_vocab_fim_mid(llama->vocab), llama_vocab_fim_rep(llama->vocab),
                            llama_vocab_fim_sep(llama->vocab)};
    facts->words = cuts_words(llama, load->file);
    embed_llama_describe(llama);
    ggml_backend_dev_t device = load->devices[0] ? load->devices[0] : ggml_backend_dev_get(0);
    snprintf(llama->backend, sizeof(llama->backend), "%s (%s)", ggml_backend_dev_name(device),
             ggml_backend_dev_description(device));
    facts->backend = llama->backend;
}

/* ---- fingerprint ---- */

/* Starts hashing every file that holds weights. */
static enum err start_digest(struct load *load, struct errinfo *info)
{
    const struct engine_options *options = load->options;
    struct file_digest_options digest = {.fs = file_sys_real(),
                                         .memory_dir = options->state_dir,
                                         .clock = clock_real(),
                                         .log = options->log};

    load->adapters = mem_alloc_array(MAX(options->adapters_count, 1), sizeof(*load->adapters));
    for (size_t i = 0; i < options->adapters_count; i++) {
        const char *path = options->adapters[i].path;
        if (gguf_file_open(&load->adapters[i], path, info) != ERR_OK)
            return err_wrap(info, ERR_ENGINE, "cannot load the adapter %.200s", path);
    }
    size_t count = (options->adapters_count + 1) * GGUF_FILE_SHARDS_MAX;
    struct file_digest_part *parts = mem_alloc_array(count, sizeof(*parts));
    count = gguf_file_parts(load->file, parts);
    for (size_t i = 0; i < options->adapters_count; i++)
        count += gguf_file_parts(load->adapters[i], parts + count);
    enum err err = file_digest_start(&load->digest, &digest, parts, count, info);
    mem_free(parts);
    return err;
}

/* Some models have one set of rope factors for contexts up to the trained length, and one beyond. */
static bool has_long_rope(const struct engine_llama *llama, const struct gguf_file *file)
{
    uint64_t trained = gguf_file_arch_uint(file, "rope.scaling.original_context_length",
                                           llama->base.facts.context_trained);

    return gguf_file_has_tensor(file, "rope_factors_long.weight") &&
           llama_n_ctx_seq(llama->ctx) > trained;
}

static void make_fingerprint(struct engine_llama *llama, const struct load *load,
                             const struct hash256 *digests)
{
    const struct engine_options *options = load->options;
    struct fingerprint parts = {.options = options,
                                .facts = &llama->base.facts,
                                .weights = gguf_file_fingerprint(load->file, digests),
                                .long_rope = has_long_rope(llama, load->file),
                                .threads = (uint32_t)llama_n_threads(llama->ctx),
                                .threads_prefill = (uint32_t)llama_n_threads_batch(llama->ctx),
                                .bits = llama->bits};

    digests += gguf_file_parts(load->file, NULL);
    for (size_t i = 0; i < options->adapters_count; i++) {
        llama->base.facts.lora.list[i].digest = gguf_file_fingerprint(load->adapters[i], digests);
        digests += gguf_file_parts(load->adapters[i], NULL);
    }
    struct hash256 *fingerprint = &llama->base.facts.fingerprint;
    *fingerprint = fingerprint_make(&parts);
    if (!options->no_cache)
        fingerprint_remember(options->state_dir, &parts.weights, fingerprint, load->known,
                             options->log);
}

/* Waits for the digests: no state may be stored or used before all of the weights are known. */
static enum err fingerprint(struct engine_llama *llama, struct load *load, struct errinfo *info)
{
    size_t count = (load->options->adapters_count + 1) * GGUF_FILE_SHARDS_MAX;
    bool done;

    do {
        done = file_digest_wait(load->digest, DIGEST_REPORT_NS);
        if (!report_progress(load))
            return was_cancelled(load, info);
    } while (!done);
    load->known = file_digest_bytes(load->digest) == 0;
    struct hash256 *digests = mem_alloc_array(count, sizeof(*digests));
    enum err err = file_digest_finish(&load->digest, digests, info);
    if (err == ERR_OK)
        make_fingerprint(llama, load, digests);
    mem_free(digests);
    return err;
}

/* ---- the projector ---- */

static bool beat(void *arg)
{
    return !on_abort(arg);
}

/* Of the whole file: it is a part of the identity of pictures. */
static enum err hash_projector(const struct load *load, struct hash256 *out, struct errinfo *info)
{
    const struct file_digest_options options = {.fs = file_sys_real(),
                                                .memory_dir = load->options->state_dir,
                                                .clock = clock_real(),
                                                .log = load->options->log};
    struct file_digest_part parts[GGUF_FILE_SHARDS_MAX];
    struct hash256 digests[GGUF_FILE_SHARDS_MAX];
    struct file_digest *digest = NULL;
    struct gguf_file *file;

    TRY(gguf_file_open(&file, load->options->projector, info));
    size_t count = gguf_file_parts(file, parts);
    enum err err = file_digest_start(&digest, &options, parts, count, info);
    if (err == ERR_OK) {
        while (!file_digest_wait(digest, DIGEST_REPORT_NS))
            ;
        err = file_digest_finish(&digest, digests, info);
    }
    if (err == ERR_OK)
        *out = gguf_file_fingerprint(file, digests);
    gguf_file_close(&file);
    return err;
}

static enum err measure_projector(struct load *load, struct errinfo *info)
{
    struct gguf_file *file;

    if (load->options->projector == NULL)
        return ERR_OK;
    TRY(gguf_file_open(&file, load->options->projector, info));
    load->projector_bytes = gguf_file_bytes(file);
    gguf_file_close(&file);
    return ERR_OK;
}

static enum err load_projector(struct engine_llama *llama, const struct load *load,
                               struct errinfo *info)
{
    const struct engine_options *options = load->options;
    const struct projector_options wish = {
        .path = options->projector,
        .model = llama->model,
        .threads = llama_n_threads_batch(llama->ctx),
        .gpu = options->gpu_layers >= 0,
        .tokens_min = options->picture_tokens_min,
        .tokens_max = options->picture_tokens_max,
        .chunk = llama->base.facts.chunk,
        .beat = beat,
        .arg = llama,
    };
    struct hash256 file;

    if (options->projector == NULL)
        return ERR_OK;
    TRY(hash_projector(load, &file, info));
    TRY(projector_open(&llama->projector, &wish, info));
    projector_identify(llama->projector, &file);
    llama->base.facts.images = true;
    llama->base.facts.weights_bytes += load->projector_bytes;
    llama->base.facts.mrope = projector_uses_mrope(llama->projector);
    return ERR_OK;
}

/* ---- loading ---- */

/* What loading took is measured: the library does not say which part went where. */
static void note_device(struct engine_facts *facts, const struct load *load, uint64_t free_before)
{
    struct backend_memory now = device_memory(load);

    facts->device_total = now.total;
    facts->device_bytes = free_before - MIN(now.free, free_before);
}

/* Earlier states that do not work must not cost the reuse of state: without them once more. */
static enum err probe(struct engine_llama *llama, const struct load *load, struct errinfo *info)
{
    struct engine_options without = *load->options;
    struct load again = *load;
    struct log *log = load->options->log;

    if (llama->base.facts.embed.whole)
        return embed_llama_probe(llama, info);
    TRY(engine_llama_probe(llama, load->file, log, info));
    if (llama->states == 0 || llama->base.facts.rollback > 0)
        return ERR_OK;
    enum rollback why = llama->base.facts.no_rollback;
    without.rollback = 0;
    again.options = &without;
    free_context(llama);
    TRY(make_context(llama, &again, info));
    TRY(engine_llama_probe(llama, load->file, log, info));
    llama->base.facts.no_rollback = why;
    return ERR_OK;
}

static enum err load_all(struct engine_llama *llama, struct load *load, struct errinfo *info)
{
    uint64_t device_free = device_memory(load).free;

    TRY(gguf_file_open(&load->file, load->options->path, info));
    TRY(gguf_file_check_epsilons(load->file, info));
    if (!load->vocab_only)
        TRY(measure_projector(load, info));
    TRY(check_memory(load, info));
    TRY(check_context(load, true, info));
    if (!load->vocab_only && !load->options->dry)
        TRY(start_digest(load, info));
    TRY(load_model(llama, load, info));
    fill_facts(llama, load);
    if (load->vocab_only)
        return ERR_OK;
    TRY(check_context(load, llama->base.facts.window > 0, info));
    TRY(make_context(llama, load, info));
    if (load->options->dry)
        return ERR_OK;
    TRY(load_adapters(llama, load, info));
    TRY(probe(llama, load, info));
    TRY(load_projector(llama, load, info));
    struct lora_facts *lora = &llama->base.facts.lora;
    struct lora_set initial = lora_set_before(lora, &lora->initial);
    TRY(engine_set_lora(&llama->base, &initial, info));
    note_device(&llama->base.facts, load, device_free);
    return fingerprint(llama, load, info); /* last: the file is hashed during the self-test */
}

static void end_load(struct load *load)
{
    file_digest_cancel(&load->digest);
    for (size_t i = 0; load->adapters != NULL && i < load->options->adapters_count; i++)
        gguf_file_close(&load->adapters[i]);
    mem_free(load->adapters);
    gguf_file_close(&load->file);
}

static enum err load_engine(struct engine **engine, const struct engine_options *options,
                            bool vocab_only, struct errinfo *info)
{
    struct engine_llama *llama = mem_alloc(sizeof(*llama));
    struct load load = {.options = options, .vocab_only = vocab_only};

    *engine = NULL;
    llama->on_tick = options->on_tick;
    llama->tick_arg = options->tick_arg;
    backend_init(options->backends);
    bus_error_install();
    llama->base.ops = &ops;
    enum err err = load_all(llama, &load, info);
    if (err == ERR_OK) {
        *engine = &llama->base;
    } else {
        struct engine *failed = &llama->base;
        engine_close(&failed);
    }
    end_load(&load);
    return err;
}

struct loading {
    struct engine **engine;
    const struct engine_options *options;
    struct errinfo *info;
    enum err err;
};

static void run_load(void *arg)
{
    struct loading *loading = arg;

    loading->err = load_engine(loading->engine, loading->options, false, loading->info);
}

/* Runs in a temporary thread: the probe computes, and OpenMP keeps a team of threads for every
 * thread that ever did. When the teams exceed the processors, barriers sleep instead of spinning
 * as long as the other team exists: 6.1 instead of 4.6 ms per token on two cores. */
enum err engine_load(struct engine **engine, const struct engine_options *options,
                     struct errinfo *info)
{
    struct loading loading = {engine, options, info, ERR_OK};
    struct thread thread = {0};

    TRY(thread_start(&thread, "load", run_load, &loading, info));
    thread_join(&thread);
    return loading.err;
}

enum err engine_llama_load_vocab(struct engine **engine, const struct engine_options *options,
                                 struct errinfo *info)
{
    struct engine_options quiet = *options;

    quiet.on_progress = NULL; /* progress comes from the child's load */
    return load_engine(engine, &quiet, true, info);
}

/* ---- the library ---- */

const char *engine_library_version(void)
{
    return llama_version();
}

const char *engine_ggml_version(void)
{
    return ggml_version();
}

const char *engine_library_origin(void)
{
    return sysinfo_origin((void *)llama_version);
}

const char *engine_ggml_origin(void)
{
    return sysinfo_origin((void *)ggml_version);
}

const char *engine_backends_dir(const char *backends)
{
    return backends ? backends : backend_dir();
}

size_t engine_backends(const char *backends, struct engine_backend_info *list, size_t max)
{
    backend_init(backends);
    size_t count = ggml_backend_dev_count();
    for (size_t i = 0; i < MIN(count, max); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        size_t free_bytes = 0, total_bytes = 0;
        ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
        snprintf(list[i].name, sizeof(list[i].name), "%s", ggml_backend_dev_name(device));
        snprintf(list[i].description, sizeof(list[i].description), "%s",
                 ggml_backend_dev_description(device));
        list[i].memory_free = free_bytes;
        list[i].memory_total = total_bytes;
        list[i].gpu = backend_is_gpu(device);
        list[i].flash = backend_has_flash(device);
    }
    return count;
}

bool engine_has_backend(const char *name)
{
    return backend_is_loaded(name);
}
