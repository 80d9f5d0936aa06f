/*
 * engine_fake.h: an engine without a model, for tests of everything above engine.h.
 *
 * It computes nothing useful, but it cannot be lied to. Each sequence has real memory of the kinds
 * that were asked for: rows in cells that really run out, windows that really forget, a recurrent
 * state that really cannot be cut. What a token writes there depends on all that the memory holds
 * at that moment, hence on every token before it, and logits are a function of the memory after it.
 * So a sequence that was restored from a wrong, swapped, stale, foreign or damaged block has other
 * logits than the cold run, so a comparison detects every lie.
 *
 * Values have a main part and a small one, as floats have high and low bits. With `chunk_sensitive`
 * the shape of the chunks moves the small part, and with it the logits by less than
 * ENGINE_FAKE_NOISE: enough to tell a canonical schedule from another bit by bit, not enough to
 * change the most probable token.
 *
 * Nothing is random: the same calls give the same bytes, times and logits on every machine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"
#include "engine/kinds.h"

struct clock;
struct fault;

/* The vocabulary: one token per byte value, then these. Written in text they are tokens with
 * ENGINE_TOKENIZE_CONTROL only. */
enum {
    ENGINE_FAKE_BOS = 256,  /* <|bos|> */
    ENGINE_FAKE_EOS,        /* <|eos|>, ends a generation */
    ENGINE_FAKE_TURN_BEGIN, /* <|im_start|> */
    ENGINE_FAKE_TURN_END,   /* <|im_end|>, ends a generation */
    ENGINE_FAKE_VOCAB,
    ENGINE_FAKE_VECTOR = 8, /* floats of a vector */
};

#define ENGINE_FAKE_NOISE 1e-4f

/* As engine_slicing, the usual case being 0. */
enum engine_fake_slicing { ENGINE_FAKE_ROWS, ENGINE_FAKE_WHOLE, ENGINE_FAKE_NONE };

/* Zero is a good default for each field. What is pointed to is borrowed until engine_close. */
struct engine_fake_options {
    kind_set kinds;          /* 0 = full */
    uint32_t window;         /* of sliding and chunked kinds; 0 = 64 */
    uint32_t surplus;        /* rows that windows keep beyond those that they look at */
    uint32_t context;        /* cells; 0 = 4,096 */
    uint32_t sequences;      /* 0 = 8 */
    uint32_t chunk;          /* 0 = 512 */
    uint32_t rows_bytes;     /* of one token, if a kind is full; 0 = 32, at least 16 */
    uint32_t snapshot_bytes; /* of the recurrent state; 0 = 64, at least 16 */
    enum engine_fake_slicing slicing;
    uint32_t rollback; /* as in facts, for kinds that cannot be cut; 0 = none, at most 32 */
    bool streams;      /* each sequence has its own context / sequences cells, and forks copy */
    uint64_t weights_bytes;              /* as in facts */
    uint64_t device_total, device_bytes; /* as in facts; what the model does not take is free */
    uint64_t compute_bytes;              /* as in facts */
    bool cells_by_use; /* facts.kv_bytes says nothing: memory for cells is not taken at load */
    enum engine_pooling pooling; /* 0 = last; the mean is over the tokens, anything else last */
    bool encoder;                /* facts.embed.whole */
    bool no_vectors;             /* none is computed, and no error reported */
    bool add_bos;
    bool fim;                  /* turns begin, end, and EOS are its tokens for that */
    const char *name;          /* NULL = "fake" */
    const char *chat_template; /* may be NULL */
    uint64_t salt;             /* other weights: another fingerprint, other rows, other logits */
    const struct lora_facts *lora; /* adapters: a set of them is like another salt; NULL = none */
    uint32_t end_one_in;           /* of n tokens one ends the generation, on average; 0 = never */

    bool chunk_sensitive; /* the chunks that a sequence was run in change low bits */
    bool batch_sensitive; /* so do the tokens of other sequences in the same batch */
    /* so does the order of the rows in a window that has moved, unless it is settled */
    bool layout_sensitive;
    uint32_t piece; /* tokens of a batch that are computed at a time; 0 = all */

    struct clock *clock; /* moved by the times below; NULL = no time passes */
    uint64_t prefill_ns; /* per token of an item that has several */
    uint64_t decode_ns;  /* per piece that has items of one token */
    bool defers;        /* runs without outputs return at once; the next one, or an export, waits */
    uint64_t cell_ns;   /* more per token of a prefill, for each cell in use */
    uint64_t import_ns; /* per import */
    uint64_t export_ns; /* per range of adjacent cells that an export of rows reads, as on a GPU */
    uint64_t kib_ns;    /* per KiB of any export */

    /* Called before each piece, on the thread of engine_run; may call engine_abort, nothing else.
     * May be NULL. */
    void (*on_piece)(struct engine *engine, void *arg);
    void *arg;
    /* Asked before each run, with the same arg: true refuses it as if there were no room
     * (ERR_LIMIT). May be NULL. */
    bool (*refuses)(const struct engine_item *items, size_t count, void *arg);
    bool sees;           /* reads pictures, which it cannot run */
    uint64_t picture_ns; /* to decode one */
    /* Called before one is decoded, with the same arg, on any thread. May be NULL. */
    void (*on_picture)(void *arg);
    /* Called before each export, with the same arg, on the engine's thread. May be NULL. */
    void (*on_export)(void *arg);

    /* Asked once per piece, export, and import (or settle, or fork with streams). A failed import has written half of its
     * rows. May be NULL. */
    struct fault *fault_run, *fault_export, *fault_import;
};

/* ERR_INVALID for options that cannot be, ERR_NOMEM; *engine is then NULL. Closed with
 * engine_close. */
enum err engine_fake_create(struct engine **engine, const struct engine_fake_options *options,
                            struct errinfo *info) NODISCARD;

/* What has been done so far, to be compared with what should have been. */
struct engine_fake_stats {
    uint64_t runs, pieces;
    uint64_t tokens; /* computed, in whole pieces */
    uint64_t settles;
    uint64_t exports, imports, bytes_exported, bytes_imported; /* that succeeded */
    uint32_t cells_used; /* now, counted in the memory itself */
};

/* `engine` must be a fake. On the engine's thread. */
struct engine_fake_stats engine_fake_stats(const struct engine *engine);
