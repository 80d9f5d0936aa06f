/*
 * engine.h: a loaded model: tokens in, logits out, with state kept per sequence.
 *
 * This is the only interface to the inference library. There are two implementations:
 * engine_llama.c (libllama) and engine_worker.c (libllama in a child process). Tests of the layers
 * above use a third, tests/support/engine_fake.c: deterministic, no model.
 *
 *      engine_load -> engine_seq_acquire -> engine_run (prefill and decode of many sequences)
 *                        |                      -> engine_logits / sampler_pick (sample.h)
 *                        |-> engine_seq_fork, engine_seq_truncate, engine_seq_release
 *                        '-> state_export_*, state_import (state.h)
 *
 * OWNER: an engine belongs to one thread; every call is made from it, except engine_abort,
 * engine_facts and the tokenizer functions, which any thread may call. After engine_own, another
 * thread that changes sequences, runs, or moves state ends the process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "engine/embed.h"
#include "engine/host_memory.h"
#include "engine/kinds.h"
#include "engine/lora.h"

struct engine;
struct log;

typedef int32_t token_id; /* -1 = none */
typedef int32_t seq_id;   /* -1 = none */
enum { TOKEN_NONE = -1, SEQ_NONE = -1 };

/* X(value, name): types of the K and V rows */
#define ENGINE_KV_TABLE(X)    \
    X(ENGINE_KV_F16, "f16")   \
    X(ENGINE_KV_F32, "f32")   \
    X(ENGINE_KV_BF16, "bf16") \
    X(ENGINE_KV_Q8_0, "q8_0") \
    X(ENGINE_KV_Q5_1, "q5_1") \
    X(ENGINE_KV_Q5_0, "q5_0") \
    X(ENGINE_KV_Q4_1, "q4_1") \
    X(ENGINE_KV_Q4_0, "q4_0")

enum engine_kv { ENGINE_KV_TABLE(TABLE_VALUE) ENGINE_KV_COUNT };

extern const char *const engine_kv_names[];  /* ended by NULL: an option's names */
double engine_kv_bytes(enum engine_kv type); /* of one value, with its share of a scale */

/* Whose state is used: see fingerprint.h. */
enum engine_sharing { ENGINE_SHARING_BUILD, ENGINE_SHARING_RELEASE, ENGINE_SHARING_BITS };

#define ROLLBACK_AUTO UINT32_MAX

/* Options for loading a model. Zero is a good default for each field. */
struct engine_options {
    const char *path;   /* GGUF file, or the first of its shards */
    uint32_t context;   /* tokens of all sequences; 0 = the model's own, at most 32,768 */
    uint32_t sequences; /* at the same time; 0 = 8 */
    uint32_t chunk;     /* largest prefill chunk, the grid of the schedule; 0 = 512 */
    uint32_t threads, threads_prefill; /* see --threads; 0 = threads */
    enum engine_kv kv_k, kv_v;
    enum engine_pooling pooling;
    bool no_cache;             /* no state of it is stored: nothing is said about earlier state */
    bool stored;               /* the cache has state, of this model or of others */
    int flash;                 /* flash attention: 0 auto, 1 on, -1 off */
    int gpu_layers;            /* 0 = all that fit, n = n layers, -1 = none */
    const char *devices, *rpc; /* separated by commas: names, NULL = all; workers (rpc.h) */
    bool streams;              /* a separate cache per sequence: no slicing, no free forks */
    /* only check whether it can be loaded: no weights of the model are read, nothing may be run
     * (vet.h) */
    bool dry;
    bool trial; /* also encode a picture, so that a library that aborts on the projector does now */
    bool sliding_full; /* keep the full-size cache for sliding layers */
    /* tokens of the last run that engine_seq_truncate can remove again, where that takes memory for
     * earlier recurrent states; ROLLBACK_AUTO = a few, if they take little */
    uint32_t rollback;
    float rope_base, rope_scale; /* 0 = the model's own */
    enum engine_sharing sharing;
    /* read the weights into memory, so that later changes to the file do not affect them */
    bool no_mmap;
    /* where digests of model files are cached; NULL = computed at every load */
    const char *state_dir;
    const struct engine_adapter *adapters;
    size_t adapters_count;
    const char *projector; /* GGUF file with the vision encoder (mmproj); NULL = none */
    uint32_t picture_tokens_min, picture_tokens_max; /* 0 = as the projector says */
    const char *backends; /* folder of ggml's backends; NULL = as built */
    uint64_t memory_max;  /* refuse models that need more; 0 = the machine's memory */
    struct log *log;      /* may be NULL */
    /* Called on the loading thread, 0..1; returning false cancels (ERR_CANCELLED). May be NULL. */
    bool (*on_progress)(float done, void *arg);
    void *arg;
    /* Called from inside the library while it computes, by any of its threads; many times per
     * batch where the backend allows it. It may call engine_abort, nothing else. May be NULL. */
    void (*on_tick)(void *arg);
    void *tick_arg;
};

/* How state can be moved in and out; decided by the self-test when the model is loaded. */
enum engine_slicing {
    ENGINE_SLICING_NONE,  /* not at all */
    ENGINE_SLICING_WHOLE, /* whole sequences only, at exactly their length */
    ENGINE_SLICING_ROWS,  /* rows by token range, plus a snapshot where a kind needs one */
};

/* Why state cannot be moved: where the self-test of whole sequences failed. X(value, text) */
#define ENGINE_FAULT_TABLE(X)                                                             \
    X(ENGINE_FAULT_NONE, "")                                                              \
    X(ENGINE_FAULT_EXPORT, "the library cannot save the state of this model")             \
    X(ENGINE_FAULT_IMPORT, "the library refuses the state that it has saved")             \
    X(ENGINE_FAULT_BYTES, "the restored state is not the saved one")                      \
    X(ENGINE_FAULT_LOGITS, "the model computes other values after its state is restored") \
    X(ENGINE_FAULT_NEIGHBOUR, "restoring one sequence changes another")                   \
    X(ENGINE_FAULT_INDEX, "the library does not restore its compressed index exactly")    \
    X(ENGINE_FAULT_UNPROVEN, "no run beyond its index shows that a restore is exact")

enum engine_fault { ENGINE_FAULT_TABLE(TABLE_VALUE) ENGINE_FAULT_COUNT };

const char *engine_fault_text(enum engine_fault fault);

/* Tokens for filling in the middle of a text; TOKEN_NONE = the model has none. */
struct engine_fim {
    token_id prefix, suffix, middle; /* before the text, what follows it, and the answer */
    token_id repo, file;             /* before the names of a repository and of a file */
};

struct engine_facts {
    const char *name;          /* general.name, or the file's name */
    const char *architecture;  /* for display; no decision depends on it */
    const char *description;   /* "qwen3 0.6B Q4_K - Medium" */
    const char *chat_template; /* Jinja, or NULL */
    uint64_t parameters, weights_bytes;
    uint32_t context, context_trained;  /* tokens: as loaded, as trained */
    uint32_t sequences, chunk, outputs; /* outputs: most logits of one batch */
    uint32_t vocab, layers;
    uint32_t window; /* of sliding or chunked layers; 0 = none */
    kind_set kinds;
    struct engine_layer_group groups[KIND_COUNT];
    size_t groups_count;
    enum engine_slicing slicing;
    enum engine_fault fault; /* of ENGINE_SLICING_NONE */
    /* tokens of a run, all but its first, that can be removed right after it; UINT32_MAX = any */
    uint32_t rollback;
    enum rollback no_rollback; /* why it is 0 */
    bool exact, windows_cut;   /* bit-identical after a restore; windows: see engine_seq_least */
    /* tokens per second in the self-test's short runs: less than a long prefill reaches. 0 = not
     * known */
    uint32_t tokens_per_s;
    /* size of a rows image of n tokens: fixed + n * per_token */
    uint64_t rows_bytes_fixed, rows_bytes_per_token;
    uint64_t snapshot_bytes_max; /* 0 = no kind needs one */
    /* memory of all cells, allocated at load; 0 = unknown, or allocated on use */
    uint64_t kv_bytes;
    uint64_t
        compute_bytes; /* of this machine, reserved for a chunk at the context's end; 0 = unknown */
    /* of GPUs with their own memory: what loading took of it, measured, and all of it; 0 = none */
    uint64_t device_bytes, device_total;
    token_id bos, eos, eot;
    struct engine_fim fim;
    bool add_bos;
    /* tokens preserve the bytes of the text, and "a b" is always split before the space */
    bool words;
    bool images;                /* a projector is loaded: prompts may have pictures */
    bool mrope;                 /* the tokens of a picture share positions (seqs.h) */
    struct hash256 fingerprint; /* of the model without adapters: see lora.h */
    struct lora_facts lora;
    struct engine_embed embed;
    const char *backend; /* "CPU (icelake)", "CUDA0", ... */
};

/* On failure *engine is NULL and `info` says what is wrong and what to do. */
enum err engine_load(struct engine **engine, const struct engine_options *options,
                     struct errinfo *info) NODISCARD;
void engine_close(struct engine **engine);

/* The calling thread is the owner, until engine_disown. */
void engine_own(struct engine *engine);
void engine_disown(struct engine *engine);

/* An engine in a child process (engine_worker.h) can die on its own. On the engine's thread. */
bool engine_isolated(const struct engine *engine);
/* False: its process and all sequences are lost; calls fail with ERR_ENGINE until a restart. */
bool engine_alive(struct engine *engine);
/* Bytes of memory that the child process uses and does not share with this one; 0: there is no
 * child, or it is dead. Also unmaps in the child what was freed here. On the engine's thread. */
uint64_t engine_memory(struct engine *engine);
/* Bytes of the RAM cache that are pinned for a GPU, and that cannot be. On the engine's thread. */
struct host_memory_stats engine_host_memory(const struct engine *engine);
/* Free bytes of facts.device_total now, as drivers say; 0 = unknown. On the engine's thread. */
uint64_t engine_device_free(struct engine *engine);
/* Replaces a dead process with one that has the same model, options and facts. No sequence may be
 * live. ERR_ENGINE: it failed, was cancelled as a load, or the model is another one now; the engine
 * is still dead, and this may be tried again. */
enum err engine_restart(struct engine *engine, bool (*on_progress)(float done, void *arg),
                        void *arg, struct errinfo *info) NODISCARD;

const struct engine_facts *engine_facts(const struct engine *engine);
bool engine_has_fim(const struct engine_facts *facts); /* it can fill in the middle */

/* ---- tokens; any thread ---- */

enum engine_tokenize_flags {
    /* control tokens written in the text become control tokens: trusted text only (I105) */
    ENGINE_TOKENIZE_CONTROL = 1,
    ENGINE_TOKENIZE_BOS = 2, /* add BOS where the model expects one */
};

/* *count is the number of tokens, even when it exceeds `max` (then ERR_LIMIT and nothing is
 * written). ERR_NOMEM: the library takes about 60 bytes per byte of a text that it cannot split. */
enum err engine_tokenize(const struct engine *engine, struct str text, unsigned flags,
                         token_id *tokens, size_t max, size_t *count,
                         struct errinfo *info) NODISCARD;

/* The bytes of one token, at most `size`; returns their number, which may be more than was written.
 * Control tokens are empty unless `control`. May be part of a UTF-8 character: see detok.h. */
size_t engine_token_bytes(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size);
bool engine_token_valid(const struct engine *engine, token_id token);
bool engine_token_is_end(const struct engine *engine, token_id token); /* ends a generation */
bool engine_token_is_control(const struct engine *engine, token_id token);

/* How the tokenizer finds a token in text, before it looks at words. Bits; 0: not by its text. */
enum engine_token_traits {
    ENGINE_TOKEN_CONTROL = 1,     /* with ENGINE_TOKENIZE_CONTROL only */
    ENGINE_TOKEN_MARKER = 2,      /* in any text: "user-defined" */
    ENGINE_TOKEN_STRIP_LEFT = 4,  /* also removes the white space before it */
    ENGINE_TOKEN_STRIP_RIGHT = 8, /* ... after it */
};
unsigned engine_token_traits(const struct engine *engine, token_id token);

/* ---- sequences ---- */

/* A fresh, empty sequence. ERR_LIMIT when all are in use. */
enum err engine_seq_acquire(struct engine *engine, seq_id *seq, struct errinfo *info) NODISCARD;
/* A second sequence with the same content; shares memory, copies nothing (with streams: copies).
 * ERR_ENGINE: a copy failed. */
enum err engine_seq_fork(struct engine *engine, seq_id source, seq_id *seq,
                         struct errinfo *info) NODISCARD;
/* Shortens to `length` tokens. ERR_UNSUPPORTED when a kind does not allow it (windows: less than
 * engine_seq_least) and facts.rollback does not either: the sequence is then unchanged (I17).
 * Recurrent state: only after a run of this sequence alone. */
enum err engine_seq_truncate(struct engine *engine, seq_id seq, uint32_t length,
                             struct errinfo *info) NODISCARD;
/* The least number of tokens, other than 0, that it can be shortened to; its length: it cannot be.
 * Rows of windows are kept until other tokens take their cells: runs of any sequence raise it. */
uint32_t engine_seq_least(struct engine *engine, seq_id seq);
/* Brings the memory of a sequence into the physical layout that a restore at this length gives it.
 * Layout shows in the low bits of sliding layers once the window has moved: a run that settles at
 * every cut of its schedule, alone in its context, is bit-identical to one that was restored at any
 * of them. Costs an export and an import of the window; a no-op where layout cannot differ.
 * ERR_ENGINE breaks the sequence. */
enum err engine_seq_settle(struct engine *engine, seq_id seq, struct errinfo *info) NODISCARD;
/* sets it to SEQ_NONE; a no-op on SEQ_NONE */
void engine_seq_release(struct engine *engine, seq_id *seq);
uint32_t engine_seq_length(const struct engine *engine, seq_id seq);
/* Most tokens of a sequence: less than facts.context if each has its own cells. Any thread. */
uint32_t engine_seq_length_max(const struct engine *engine);
uint32_t engine_cells_free(const struct engine *engine); /* how many more tokens fit */

/* ---- running ---- */

struct engine_item {
    seq_id seq;
    const token_id *tokens; /* appended to the sequence */
    uint32_t count;         /* >= 1 */
    uint32_t logits;        /* of how many of the last tokens logits are computed: 0 to count */
};

/* For the runs that follow; at first lora.initial without activated ones. As lora_set_check. */
enum err engine_set_lora(struct engine *engine, const struct lora_set *set,
                         struct errinfo *info) NODISCARD;

/* Runs all items in one batch. Each sequence occurs at most once; the counts add up to at most
 * `chunk` + sequences, their logits to at most facts.outputs. Vectors: engine_embed (embed.h).
 *   ERR_LIMIT      no room for the tokens; nothing has changed
 *   ERR_CANCELLED  engine_abort was called; a sequence whose kinds can all be cut ends at the
 *                  last micro-batch that was computed, any other is broken: its recurrent state may
 *                  be half written
 *   ERR_INVALID    a token or sequence that does not exist; nothing has changed
 *   ERR_ENGINE     the library failed; the sequences of this call are broken and can only be
 *                  released
 * Recurrent state: after ERR_CANCELLED and ERR_ENGINE all sequences that have tokens are broken. */
enum err engine_run(struct engine *engine, const struct engine_item *items, size_t count,
                    struct errinfo *info) NODISCARD;

/* The logits of the last token of item `index` of the last run, facts.vocab floats, borrowed until
 * the next run; NULL when not asked for. _nth: of one of its tokens, 0 = the first that has some. */
const float *engine_logits(struct engine *engine, size_t index);
const float *engine_logits_nth(struct engine *engine, size_t index, uint32_t nth);

/* Makes a running engine_run return soon. Any thread. A no-op when none is running. */
void engine_abort(struct engine *engine);
/* A number that changes while the engine computes, within a batch where the backend can. Any thread. */
uint64_t engine_beats(const struct engine *engine);
