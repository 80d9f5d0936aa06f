/*
 * engine_ops.h: the interface between engine.h and state.h and the engines that implement them. For
 * this folder only.
 *
 * engine.c checks arguments, accounts for sequences and cells, and calls the table; an engine
 * implements only what needs its library. So every engine refuses the same things with the same
 * messages, and the fake obeys the same rules.
 */
#pragma once

#include "base/lock.h"
#include "engine/engine.h"
#include "engine/seqs.h"
#include "engine/state.h"

struct picture;
struct picture_piece;
struct pieces;

struct engine_ops {
    void (*close)(struct engine *engine);
    /* tokens */
    enum err (*tokenize)(const struct engine *engine, struct str text, unsigned flags,
                         token_id *tokens,
                         /* ERR_NOMEM, ERR_ENGINE; not when there are more than max */
                         size_t max, size_t *count);
    size_t (*token_bytes)(const struct engine *engine, token_id token, bool control, char *out,
                          size_t size);
    bool (*token_is_end)(const struct engine *engine, token_id token);
    bool (*token_is_control)(const struct engine *engine, token_id token);
    /* enum engine_token_traits */
    unsigned (*token_traits)(const struct engine *engine, token_id token);
    /* Sequences: ids are slots of engine->seqs. Numbers of tokens, here and of rows, are positions
     * (seqs.h); they differ only after the pictures of some models. */
    /* into an empty sequence; false: failed, it is poisoned */
    bool (*seq_copy)(struct engine *engine, seq_id from, seq_id to);
    /* false: not possible, nothing changed */
    bool (*seq_cut)(struct engine *engine, seq_id seq, uint32_t length);
    /* optional: the least number, other than 0, that a sequence of windows can be cut to; its
     * length when it cannot be cut, or when that is not known */
    uint32_t (*seq_least)(struct engine *engine, seq_id seq);
    void (*seq_clear)(struct engine *engine, seq_id seq);
    /* the length in the library's memory */
    uint32_t (*seq_length)(struct engine *engine, seq_id seq);
    /* optional; false: the sequence is broken */
    bool (*seq_settle)(struct engine *engine, seq_id seq);
    /* optional; the set was checked and is another one than before */
    bool (*set_lora)(struct engine *engine, const struct lora_set *set);
    enum err (*run)(struct engine *engine, const struct engine_item *items, size_t count,
                    struct errinfo *info);
    /* optional: models that see (picture.h). After ERR_LIMIT the sequence is as it was. */
    enum err (*run_picture)(struct engine *engine, seq_id seq, const struct picture_piece *piece,
                            struct errinfo *info);
    enum err (*read_picture)(const struct engine *engine, struct str file, struct picture **out,
                             struct errinfo *info);
    /* the n-th output of the last run, those of its items one after the other; engine.c counts */
    const float *(*logits)(struct engine *engine, size_t output);
    /* as `run`, for vectors; of an item */
    enum err (*embed)(struct engine *engine, const struct engine_item *items, size_t count,
                      struct errinfo *info);
    const float *(*embedding)(struct engine *engine, size_t index);
    void (*abort)(struct engine *engine);
    uint64_t (*beats)(const struct engine *engine); /* optional */
    /* state; sizes are exact, `dst` is large enough; 0 = failed */
    uint64_t (*rows_capacity)(const struct engine *engine, uint32_t tokens);
    uint64_t (*export_rows)(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                            void *dst, uint64_t capacity);
    /* the state at the present length: a snapshot, or all of it */
    uint64_t (*end_bytes)(struct engine *engine, seq_id seq, enum state_kind kind);
    uint64_t (*export_end)(struct engine *engine, seq_id seq, enum state_kind kind, void *dst,
                           uint64_t capacity);
    /* into a sequence that is empty (first) or holds [0, begin) (later rows); false: refused, the
     * sequence is poisoned */
    bool (*import)(struct engine *engine, seq_id seq, enum state_kind kind, const void *data,
                   uint64_t bytes);
    /* Shortens imported rows before the snapshot is set; optional: then only sequences that can be
     * cut at all can be. */
    bool (*rows_cut)(struct engine *engine, seq_id seq, uint32_t length);
    uint64_t (*device_free)(struct engine *engine); /* optional */
    /* of an engine in another process; all or none */
    bool (*alive)(struct engine *engine);
    uint64_t (*memory)(struct engine *engine);
    struct host_memory_stats (*host_memory)(const struct engine *engine);
    enum err (*restart)(struct engine *engine, bool (*on_progress)(float done, void *arg),
                        void *arg, struct errinfo *info);
};

/* The tokens that a sequence has in the library's memory. */
uint32_t engine_library_length(struct engine *engine, seq_id seq);

/* The first member of every engine. */
struct engine {
    const struct engine_ops *ops;
    struct engine_facts facts;
    struct thread_owner owner; /* the thread that may use sequences, run, and move state */
    struct seqs seqs;
    size_t run_items; /* of the last run */
    bool run_embeds;  /* it computed vectors */
    /* item i of it has the outputs from [i] up to [i + 1] */
    uint32_t run_outputs[SEQS_SLOTS_MAX + 1];
    /* per sequence: lengths from which on its last run can be undone; UINT32_MAX = none */
    uint32_t whole_from[SEQS_SLOTS_MAX];
    bool rolled[SEQS_SLOTS_MAX]; /* a recurrent state was rolled back, and nothing was run since */
    struct lora_set lora;        /* of the next run */
    struct log *log;             /* may be NULL */
    const struct engine *vocab;  /* whose tokenizer it uses; NULL = its own */
    _Atomic(struct pieces *) pieces; /* for grammars (pieces.h); NULL until the first one */
};

/* Aborts when another thread owns the engine: before all that changes sequences, runs, or moves
 * state. */
void engine_check_owner(const struct engine *engine);
