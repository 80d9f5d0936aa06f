/*
 * engine_llama.h: internals of the libllama engine, shared by its files:
 *
 *      engine_llama.c         the operations: tokens, sequences, running
 *      load_llama.c           from a file to an engine; facts, fingerprint
 *      context_llama.c        the library's context: sizes and parameters
 *      embed_llama.c          vectors instead of logits
 *      sections.c             state in and out: the section algebra
 *      probe.c                what kinds the memory has, and the self-test that decides how state
 *                             is moved
 *
 * Not for other folders. docs/engine.md lists the facts that this code relies on.
 */
#pragma once

#include <stdatomic.h>

#include <llama.h>

#include "base/list.h"
#include "base/lock.h"
#include "engine/cells.h"
#include "engine/engine_ops.h"

struct gguf_file;
struct projector;

enum { CONTEXT_DEFAULT_MAX = 32768 };

extern const struct engine_ops engine_llama_ops;

/* Values of tokenizer.ggml.pre for which engine_facts.words holds. Ends with NULL. */
extern const char *const engine_llama_words[];

/* What the library writes for a sequence, measured at load:
 *
 *      FULL    = H  A(n)  P          H header, A rows of n cells, P what cannot be cut
 *      PARTIAL = H  P                A(n) = rows_fixed + n * rows_each
 *                                    P of n sliding rows = part_fixed + n * part_each
 *
 * `empty` is PARTIAL of a sequence without cells: H and the P that a rows image ends with. */
struct sections {
    uint64_t header;
    uint64_t rows_fixed, rows_each;
    uint64_t part_fixed, part_each;
    unsigned char *empty; /* H P_empty */
    uint64_t empty_bytes;
    /* PARTIAL_ONLY is ignored (older libraries, full attention): P counts as empty */
    bool no_partial;
};

struct engine_llama {
    struct engine base;
    struct llama_model *model;
    struct llama_context *ctx;
    llama_memory_t memory;
    const struct llama_vocab *vocab;
    struct llama_adapter_lora **adapters;
    struct projector *projector; /* NULL: the model does not see */
    struct llama_batch batch;
    int32_t decoded;  /* what llama_decode returned */
    int32_t *outputs; /* places in the last batch that have logits, in order */
    size_t outputs_count;
    bool embeds;      /* the context computes vectors, not logits */
    seq_id *embedded; /* per item of the last run with vectors */
    bool flash;       /* --flash-attn auto became on */
    uint32_t states;  /* earlier recurrent states that the context keeps for each sequence */
    /* two internal sequences: one to assemble state in, and one that never has cells */
    seq_id temp, empty;
    bool streams; /* the library has a cache per sequence */
    bool ring;    /* the sliding cache has fewer cells than the context: sections_unshare */
    bool shares[SEQS_SLOTS_MAX]; /* ring only: the sequence was forked, or is a fork */
    /* ring only: its window was imported again after its last run, without the rows that it would
     * need if tokens of that run were removed */
    bool unshared[SEQS_SLOTS_MAX];
    bool lost; /* windows are lost: nothing runs until all sequences have been released */
    /* the library refused an import: free cells may hold anything until they are zeroed */
    bool tainted;
    atomic_bool aborting;
    atomic_ullong beats;
    void (*on_tick)(void *arg); /* of the options */
    void *tick_arg;
    struct sections sections;
    /* Rows can be imported in pieces: where free cells have gaps, or of at most piece_max cells (0 =
     * any number). */
    bool pieces;
    uint32_t piece_max;
    uint64_t pieces_count; /* imported so far, other than whole images */
    struct cells cells;
    void *piece; /* host memory to cut a piece into; NULL until the first */
    uint64_t piece_bytes;
    struct hash256 bits;    /* of the logits that the self-test computed */
    unsigned char *staging; /* for settling; as large as the largest window so far */
    uint64_t staging_bytes;
    enum ggml_type type_k, type_v;
    char *name, *architecture, *description, *chat_template;
    char backend[128];
};

static inline struct engine_llama *engine_llama_of(const struct engine *engine)
{
    return (struct engine_llama *)engine;
}

/* The vocabulary for samplers that need the library's own; NULL when the engine is not
 * libllama's. */
const struct llama_vocab *engine_llama_vocab(const struct engine *engine);

/* An engine with a working tokenizer only, for a parent whose model is loaded by its child. Its
 * facts have only names, the chat template and the vocabulary; nothing may be run. */
enum err engine_llama_load_vocab(struct engine **engine, const struct engine_options *options,
                                 struct errinfo *info) NODISCARD;

/* The library calls this between the nodes of its graph. True: stop. */
bool engine_llama_tick(void *arg);

/* context_llama.c: `ctx`, the batch and everything else that depends on the sizes of a context. */
enum err context_llama_make(struct engine_llama *llama, const struct engine_options *options,
                            const struct gguf_file *file, struct errinfo *info) NODISCARD;
void context_llama_free(struct engine_llama *llama);

/* embed_llama.c */

/* The file says so; some encoders do not. */
bool embed_llama_is_encoder(const struct gguf_file *file);
/* Decides how inputs become vectors; before the context is made. `encoder`: the model attends in
 * both directions. ERR_UNSUPPORTED: the options do not fit the model. */
enum err embed_llama_plan(struct engine_llama *llama, const struct engine_options *options,
                          const struct gguf_file *file, bool encoder,
                          struct errinfo *info) NODISCARD;
/* Parameters that vectors need, in addition to the usual ones. */
void embed_llama_params(const struct engine_llama *llama, struct llama_context_params *params);
/* How a reranker reads pairs; of the vocabulary. */
void embed_llama_describe(struct engine_llama *llama);
/* Runs a short input: an encoder that cannot compute is not served. */
enum err embed_llama_probe(struct engine_llama *llama, struct errinfo *info) NODISCARD;
/* The context computes vectors or logits from now on. */
void embed_llama_switch(struct engine_llama *llama, bool embeds);
const float *embed_llama_vector(struct engine *engine, size_t index);

/* sections.c */

uint64_t sections_rows_capacity(const struct engine *engine, uint32_t tokens);
uint64_t sections_export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                              void *dst, uint64_t capacity);
uint64_t sections_end_bytes(struct engine *engine, seq_id seq, enum state_kind kind);
uint64_t sections_export_end(struct engine *engine, seq_id seq, enum state_kind kind, void *dst,
                             uint64_t capacity);
bool sections_import(struct engine *engine, seq_id seq, enum state_kind kind, const void *data,
                     uint64_t bytes);
bool sections_rows_cut(struct engine *engine, seq_id seq, uint32_t length);
bool sections_settle(struct engine *engine, seq_id seq);
/* Gives every forked sequence its own window. False: there is none, or it failed; in the latter
 * case the engine may be `lost`. */
bool sections_unshare(struct engine_llama *llama);
/* With a cache per sequence. False: there is no memory, or the library refused. */
bool sections_copy_whole(struct engine *engine, seq_id from, seq_id to);
void sections_close(struct engine_llama *llama);

/* probe.c: fills kinds, groups, slicing, exact, sizes and sections. ERR_ENGINE when not even one
 * token runs. */
enum err engine_llama_probe(struct engine_llama *engine, const struct gguf_file *file,
                            struct log *log, struct errinfo *info) NODISCARD;
