/*
 * embed_llama.c: vectors by libllama.
 *
 * The library pools: with `embeddings` on, its graph ends in one vector per sequence, and no logits
 * are read out of it. Facts about release 0.7 that shape this file (docs/engine.md):
 *
 *   - In such a batch every token is an output, and the number of outputs is bounded by the
 *     context. So a decoder with `last` computes the prompt as usual and switches for its last token
 *     alone, which needs no larger buffers and lets it continue from a cached prefix.
 *   - Means are taken over one micro-batch, and a graph for them is reserved only if the tokens of a
 *     micro-batch are a multiple of the sequences.
 *   - Switching works only with a pooling type other than NONE: without one, the graph for vectors
 *     differs from that for logits in its outputs alone, and the allocator reads past its table.
 *   - llama_encode needs all of its batch in one micro-batch, and aborts otherwise.
 */
#include "engine/engine_llama.h"

#include <math.h>

#include "engine/gguf_file.h"

enum { PLAIN_ATTENTION_MAX = 2048 };

static const enum llama_pooling_type library_types[ENGINE_POOLING_COUNT] = {
    [ENGINE_POOLING_MEAN] = LLAMA_POOLING_TYPE_MEAN,
    [ENGINE_POOLING_CLS] = LLAMA_POOLING_TYPE_CLS,
    [ENGINE_POOLING_LAST] = LLAMA_POOLING_TYPE_LAST,
    [ENGINE_POOLING_RANK] = LLAMA_POOLING_TYPE_RANK,
};

/* What the file says; AUTO: nothing. */
static enum engine_pooling pooling_of(const struct gguf_file *file)
{
    uint64_t number = gguf_file_arch_uint(file, "pooling_type", LLAMA_POOLING_TYPE_NONE);

    for (int i = ENGINE_POOLING_AUTO + 1; i < ENGINE_POOLING_COUNT; i++)
        if (library_types[i] == (enum llama_pooling_type)number)
            return (enum engine_pooling)i;
    return ENGINE_POOLING_AUTO;
}

bool embed_llama_is_encoder(const struct gguf_file *file)
{
    return !gguf_file_arch_bool(file, "attention.causal", true) ||
           pooling_of(file) == ENGINE_POOLING_CLS;
}

/* A model without a classifier would abort in the library. */
static bool has_classifier(const struct gguf_file *file)
{
    return gguf_file_has_tensor(file, "cls.weight") ||
           gguf_file_has_tensor(file, "cls.output.weight");
}

enum err embed_llama_plan(struct engine_llama *llama, const struct engine_options *options,
                          const struct gguf_file *file, bool encoder, struct errinfo *info)
{
    struct engine_embed *embed = &llama->base.facts.embed;
    enum engine_pooling said = pooling_of(file);
    enum engine_pooling pooling = options->pooling != ENGINE_POOLING_AUTO ? options->pooling : said;

    if (pooling == ENGINE_POOLING_AUTO)
        pooling = encoder ? ENGINE_POOLING_MEAN : ENGINE_POOLING_LAST;
    if (pooling == ENGINE_POOLING_RANK && !has_classifier(file))
        return err_set(info, ERR_UNSUPPORTED, "it has no classifier, which --pooling rank needs");
    if (pooling == ENGINE_POOLING_CLS && !encoder)
        return err_set(
            info, ERR_UNSUPPORTED,
            "its first token knows nothing of the others: --pooling cls is for encoders");
    embed->pooling = pooling;
    embed->whole = encoder;
    embed->only = encoder || said != ENGINE_POOLING_AUTO || pooling == ENGINE_POOLING_RANK;
    embed->size = pooling == ENGINE_POOLING_RANK ? llama_model_n_cls_out(llama->model)
                                                 : (uint32_t)llama_model_n_embd_out(llama->model);
    return ERR_OK;
}

static uint32_t power_of_two(uint32_t at_least)
{
    uint32_t power = 1;

    while (power < at_least)
        power *= 2;
    return power;
}

void embed_llama_params(const struct engine_llama *llama, struct llama_context_params *params)
{
    const struct engine_embed *embed = &llama->base.facts.embed;

    params->pooling_type = library_types[embed->pooling];
    if (!embed->whole && embed->pooling != ENGINE_POOLING_MEAN)
        return;
    if (embed->whole) {
        /* In 16 bits, as there, vectors depend on their neighbours in the fifth digit. Without, the
         * memory for scores grows with the square of the context. */
        if (params->flash_attn_type == LLAMA_FLASH_ATTN_TYPE_AUTO &&
            llama->base.facts.context <= PLAIN_ATTENTION_MAX)
            params->flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        params->embeddings = true;
        params->n_seq_max = llama->base.facts.sequences;
        params->n_ubatch = params->n_ctx;
    }
    /* A multiple of the sequences, which are a power of two, and so are the cells. */
    params->n_seq_max = power_of_two(params->n_seq_max);
    params->n_ubatch =
        (params->n_ubatch + params->n_seq_max - 1) / params->n_seq_max * params->n_seq_max;
    params->n_batch = MAX(params->n_batch, params->n_ubatch);
    params->n_outputs_max = params->n_outputs_max_per_seq = params->n_ubatch;
}

void embed_llama_describe(struct engine_llama *llama)
{
    struct engine_embed *embed = &llama->base.facts.embed;
    const struct llama_vocab *vocab = llama->vocab;
    token_id end = llama_vocab_eos(vocab);
    bool ends = llama_vocab_get_add_eos(vocab);

    /* As llama-server puts pairs together. */
    if (end == TOKEN_NONE)
        end = llama_vocab_sep(vocab);
    embed->rank_form = llama_model_chat_template(llama->model, "rerank");
    embed->rank_begin = llama_vocab_get_add_bos(vocab) ? llama_vocab_bos(vocab) : TOKEN_NONE;
    embed->rank_middle = embed->rank_end = ends ? end : TOKEN_NONE;
    embed->rank_separator = llama_vocab_get_add_sep(vocab) ? llama_vocab_sep(vocab) : TOKEN_NONE;
}

enum err embed_llama_probe(struct engine_llama *llama, struct errinfo *info)
{
    struct engine *engine = &llama->base;
    token_id tokens[2] = {0, MIN(1, (token_id)engine->facts.vocab - 1)};
    struct engine_item item = {.tokens = tokens, .count = 2};

    item.count = MIN(item.count, engine->facts.chunk);
    TRY(engine_seq_acquire(engine, &item.seq, info));
    enum err err = engine_embed(engine, &item, 1, info);
    const float *vector = err == ERR_OK ? engine_embedding(engine, 0) : NULL;
    for (uint32_t i = 0; err == ERR_OK && i < engine->facts.embed.size; i++)
        if (vector == NULL || !isfinite(vector[i]))
            err = err_set(info, ERR_ENGINE, "the library computes no vector for a short input");
    engine_seq_release(engine, &item.seq);
    return err;
}

void embed_llama_switch(struct engine_llama *llama, bool embeds)
{
    bool encoder = llama->base.facts.embed.whole;

    if (encoder && llama->memory != NULL) /* what it has of earlier inputs is never used again */
        llama_memory_clear(llama->memory, false);
    if (llama->embeds != embeds && !encoder)
        llama_set_embeddings(llama->ctx, embeds);
    llama->embeds = embeds;
}

const float *embed_llama_vector(struct engine *engine, size_t index)
{
    const struct engine_llama *llama = engine_llama_of(engine);

    return llama_get_embeddings_seq(llama->ctx, llama->embedded[index]);
}
