/*
 * context_llama.c: the library's context of a loaded model: its sizes, its parameters, and what it
 * turned out to be.
 */
#include "engine/engine_llama.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "engine/backend.h"
#include "engine/context_room.h"
#include "engine/gguf_file.h"

enum {
    CONTEXT_STEP = 256,
    SEQUENCES_DEFAULT = 8,
    ENCODER_CONTEXT_DEFAULT_MAX = 2048, /* memory grows with the longest input */
    ENCODER_SEQUENCES = 32,             /* short inputs in a batch; must divide CONTEXT_STEP */
    CHUNK_DEFAULT = 512,
    ONE_THREAD_BYTES = 64 << 20, /* below, threads wait for each other longer than they compute */
    OWN_SEQUENCES = 2,
    /* Earlier recurrent states per sequence, unless a number was given; and the part of the memory
     * beside the weights that they may take, then and with a number. */
    STATES_AUTO = 4,
    STATES_SHARE_AUTO = 16,
    STATES_SHARE = 2,
    /* logits in a batch beyond one per sequence: drafts, and those of a prompt's tokens */
    OUTPUTS_EXTRA = 64,
};

static const enum ggml_type kv_types[ENGINE_KV_COUNT] = {
    [ENGINE_KV_F16] = GGML_TYPE_F16,   [ENGINE_KV_F32] = GGML_TYPE_F32,
    [ENGINE_KV_BF16] = GGML_TYPE_BF16, [ENGINE_KV_Q8_0] = GGML_TYPE_Q8_0,
    [ENGINE_KV_Q5_1] = GGML_TYPE_Q5_1, [ENGINE_KV_Q5_0] = GGML_TYPE_Q5_0,
    [ENGINE_KV_Q4_1] = GGML_TYPE_Q4_1, [ENGINE_KV_Q4_0] = GGML_TYPE_Q4_0,
};

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
    bool alone = !options->threads && llama_model_size(llama->model) < ONE_THREAD_BYTES;
    bool streams = options->streams && !facts->embed.whole;

    params.n_rs_seq = llama->states;
    params.n_ctx = round_context(facts->context, streams ? facts->sequences : 1);
    params.n_seq_max = facts->sequences + (streams ? 0 : OWN_SEQUENCES);
    params.n_ubatch = facts->chunk;
    params.n_batch = facts->chunk + facts->sequences;
    params.n_outputs_max =
        MAX(params.n_seq_max, MIN(params.n_batch, facts->sequences + OUTPUTS_EXTRA));
    params.n_threads = alone ? 1 : (int32_t)threads;
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
    params.abort_callback = engine_llama_tick;
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
static void choose_states(struct engine_llama *llama, const struct engine_options *options,
                          const struct gguf_file *file)
{
    struct engine_facts *facts = &llama->base.facts;
    uint64_t limit = options->memory_max ? options->memory_max : sysinfo_memory_total();
    uint64_t room = limit - MIN(limit, gguf_file_bytes(file));
    uint64_t each = context_state_bytes(file) * (facts->sequences + OWN_SEQUENCES);
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

static enum err init_context(struct engine_llama *llama, const struct engine_options *options,
                             const struct gguf_file *file, bool encoder, struct errinfo *info)
{
    const struct engine_facts *facts = &llama->base.facts;

    TRY(embed_llama_plan(llama, options, file, encoder, info));
    choose_sizes(llama, options);
    if (facts->sequences + OWN_SEQUENCES > MIN(llama_max_parallel_sequences(), SEQS_SLOTS_MAX))
        return err_set(info, ERR_LIMIT, "%u sequences; the library allows %zu", facts->sequences,
                       llama_max_parallel_sequences() - OWN_SEQUENCES);
    choose_states(llama, options, file);
    backend_take_error();
    (void)backend_take_flash();
    llama->ctx = llama_init_from_model(llama->model, context_params(llama, options));
    llama->flash = backend_take_flash();
    if (llama->ctx == NULL) {
        char what[160];
        snprintf(what, sizeof(what), "no context of %u tokens and %u sequences could be made",
                 facts->context, facts->sequences);
        return backend_failed(info, what);
    }
    llama->base.facts.compute_bytes = backend_compute_bytes();
    llama->memory = llama_get_memory(llama->ctx);
    bool is_encoder = llama->memory == NULL ||
                      (llama_get_causal_attn != NULL && !llama_get_causal_attn(llama->ctx));
    if (encoder || !is_encoder)
        return ERR_OK;
    llama_free(llama->ctx); /* an encoder whose file does not say so: once more, as one */
    llama->ctx = NULL;
    return init_context(llama, options, file, true, info);
}

enum err context_llama_make(struct engine_llama *llama, const struct engine_options *options,
                            const struct gguf_file *file, struct errinfo *info)
{
    struct engine_facts *facts = &llama->base.facts;

    TRY(init_context(llama, options, file, embed_llama_is_encoder(file), info));
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
    llama->streams = options->streams && !encoder;
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
              llama->streams ? llama_n_ctx_seq(llama->ctx) : facts->context, streams);
    return ERR_OK;
}

void context_llama_free(struct engine_llama *llama)
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
