/*
 * worker_wire.h: the messages between an engine's process and its parent. Formats only; sending and
 * waiting are in worker_process.h (parent) and worker_main.h (child).
 *
 *      parent                                          child
 *        | -- LOAD (options) + control page -------------> |
 *        | <------------------------------- PROGRESS * n - |
 *        | <-------------------------- REPLY with FACTS -- |
 *        | -- ATTACH (segment) + its memory -------------> |   one call at a time
 *        | <------------------------------------ REPLY --- |
 *        | -- RUN, EXPORT_ROWS, ... ---------------------> |   tokens, logits and state are
 *        | <------------------------------------ REPLY --- |   in shared segments
 *
 * VALIDITY. A message is accepted if and only if its length is the one it states, magic, version
 * and checksum are right, its kind and op are known, every field is in its range, and nothing is
 * left over. The parent trusts nothing else from a child, which may be damaged.
 *
 * Threads: pure functions.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "engine/engine.h"
#include "engine/seqs.h"

enum {
    WORKER_MESSAGE_BYTES_MAX = 64 * 1024,
    WORKER_TEXT_BYTES_MAX = 4096, /* of one text: paths, names */
    WORKER_VOCAB_MAX = 1 << 24,
    WORKER_CHUNK_MAX = 1 << 24,
    WORKER_VECTOR_MAX = 1 << 20,
    /* Smaller segments are not pinned: they have a picture, and go again. */
    WORKER_PIN_BYTES_MIN = 64 << 20,
};

/* The page that both map. Relaxed throughout: counters and flags that publish no other data. */
struct worker_control {
    atomic_uint ticks; /* the child's: grows while the library makes progress */
    atomic_uint abort; /* the parent's: the run is to end */
    /* the child's, from the reply to LOAD on: */
    atomic_uint pins;            /* whether it pins segments: they are to be attached early */
    atomic_ullong pinned, plain; /* bytes that it has pinned; that the driver refused */
};

/* The work segment: tokens of a run, padding to a page, logits (vocab floats for each output),
 * vectors (for each sequence). Where logits and vectors begin, and the size of it all. */
uint64_t worker_work_logits(const struct engine_facts *facts);
uint64_t worker_work_vectors(const struct engine_facts *facts);
uint64_t worker_work_bytes(const struct engine_facts *facts);

/* X(value, name): what the child is asked to do */
#define WORKER_OP_TABLE(X)                       \
    X(WORKER_LOAD, "load")                       \
    X(WORKER_ATTACH, "attach")                   \
    X(WORKER_DETACH, "detach")                   \
    X(WORKER_SEQ_COPY, "seq_copy")               \
    X(WORKER_SEQ_CUT, "seq_cut")                 \
    X(WORKER_SEQ_LEAST, "seq_least")             \
    X(WORKER_SEQ_CLEAR, "seq_clear")             \
    X(WORKER_SEQ_LENGTH, "seq_length")           \
    X(WORKER_SEQ_SETTLE, "seq_settle")           \
    X(WORKER_SET_LORA, "set_lora")               \
    X(WORKER_RUN, "run")                         \
    X(WORKER_EMBED, "embed")                     \
    X(WORKER_ROWS_CAPACITY, "rows_capacity")     \
    X(WORKER_SNAPSHOT_BYTES, "snapshot_bytes")   \
    X(WORKER_WHOLE_BYTES, "whole_bytes")         \
    X(WORKER_EXPORT_ROWS, "export_rows")         \
    X(WORKER_EXPORT_SNAPSHOT, "export_snapshot") \
    X(WORKER_EXPORT_WHOLE, "export_whole")       \
    X(WORKER_IMPORT_ROWS, "import_rows")         \
    X(WORKER_ROWS_CUT, "rows_cut")               \
    X(WORKER_IMPORT_SNAPSHOT, "import_snapshot") \
    X(WORKER_IMPORT_WHOLE, "import_whole")       \
    X(WORKER_DEVICE_FREE, "device_free")         \
    X(WORKER_READ_PICTURE, "read_picture")       \
    X(WORKER_RUN_PICTURE, "run_picture")

enum worker_op { WORKER_OP_TABLE(TABLE_VALUE) WORKER_OP_COUNT };

const char *worker_op_name(enum worker_op op); /* never NULL */

/* A place in shared memory. Segment 0 is none. */
struct worker_place {
    uint64_t segment, offset, bytes;
};

/* One item of a run; its tokens are in the work segment, one item's after the other's. */
struct worker_item {
    seq_id seq;
    uint32_t length; /* tokens that the sequence has before */
    uint32_t count, logits;
};

struct worker_call {
    enum worker_op op; /* not WORKER_LOAD: that is struct worker_load */
    uint32_t number;   /* the reply has the same */
    seq_id seq, other; /* other: what is copied to */
    uint32_t length;   /* of `seq` by the parent's accounting, which is authoritative */
    uint32_t begin, end;
    bool work; /* ATTACH: this is the segment for tokens and logits */
    /* READ_PICTURE: has the file, `end` bytes, then its description (worker_picture.h).
     * RUN_PICTURE: has the file; `begin` is the number of the piece. */
    struct worker_place place;
    struct lora_set lora; /* SET_LORA */
    const struct worker_item *items;
    size_t items_count; /* at most SEQS_SLOTS_MAX */
    uint32_t silent_ms; /* not sent: what it may take without a sign of life, if it lives */
};

/* How the child makes its engine. The texts are the message's. */
struct worker_load {
    struct engine_options options; /* its adapters are those below */
    struct engine_adapter adapters[LORA_MAX];
};

/* What the child's engine is. */
struct worker_facts {
    struct engine_facts facts; /* without what belongs to the vocabulary */
    uint32_t cells;
    bool streams;
};

enum worker_reply_kind { WORKER_PROGRESS, WORKER_REPLY };

struct worker_reply {
    enum worker_reply_kind kind;
    uint32_t number; /* of the call; 0: of the load */
    enum err err;
    uint64_t value; /* a length, a size, a truth; of progress: parts of a million */
    char text[sizeof(((struct errinfo *)0)->text)];
    bool has_facts;
    struct worker_facts facts; /* texts are borrowed from the message */
};

/* Writes a whole message into `out`, WORKER_MESSAGE_BYTES_MAX bytes; returns its length, or 0 when
 * it does not fit or a text is too long. */
size_t worker_call_encode(const struct worker_call *call, unsigned char *out) NODISCARD;
size_t worker_load_encode(const struct engine_options *options, unsigned char *out) NODISCARD;
size_t worker_reply_encode(const struct worker_reply *reply, unsigned char *out) NODISCARD;

/* `items` has room for SEQS_SLOTS_MAX; call->items points there. ERR_CORRUPT: not valid, and
 * *call is undefined. */
enum err worker_call_decode(const unsigned char *message, size_t len, struct worker_call *call,
                            struct worker_item *items) NODISCARD;
enum err worker_load_decode(const unsigned char *message, size_t len,
                            struct worker_load *load) NODISCARD;
enum err worker_reply_decode(const unsigned char *message, size_t len,
                             struct worker_reply *reply) NODISCARD;
