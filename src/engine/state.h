/*
 * state.h: the memory of a sequence as bytes, in pieces that can be stored, shared and put back.
 *
 *      rows      the K and V rows of the full-attention layers for tokens [begin, end): any ranges,
 *                cut anywhere
 *      snapshot  what cannot be cut (recurrent states, sliding windows), valid at exactly `end`
 *                tokens; begin = 0
 *      whole     all of a sequence, for engines that cannot slice; valid at exactly `end` tokens
 *
 * An object is an IMAGE: bytes that the library imports as they are. Exporting writes it straight
 * into the caller's memory, importing reads it from there; nothing is copied or allocated in
 * between. A small shape record goes with the bytes; tiers store both and interpret neither.
 *
 *      +--------------------- shape --------------------+    +--------- image ----------+
 *      | kind | begin | end | bytes | engine | digest   |    | opaque bytes of libllama |
 *      +------------------------------------------------+    +--------------------------+
 *
 * VALIDITY. An object is given to the library if and only if its shape names this engine's
 * fingerprint, its kind and range fit the call, its length is exactly the one this engine writes
 * for that range, and the digest is XXH3-128 of the bytes and the other fields (keeps I102): a
 * damaged image is refused, and so is a good one under another range. A tier that stores objects
 * where others can write authenticates the shape (tier/ssd_format.h).
 *
 * OWNER: the engine's thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "engine/engine.h"

enum state_kind { STATE_ROWS = 1, STATE_SNAPSHOT = 2, STATE_WHOLE = 3 };

struct state_shape {
    uint32_t kind; /* enum state_kind */
    uint32_t begin, end;
    uint64_t bytes;
    struct hash256 engine; /* facts.fingerprint of the engine that wrote it */
    struct hash128 digest; /* of the image and the fields above */
};

struct state_object {
    struct state_shape shape;
    const void *data;
    bool verified; /* the digest has been checked since the bytes last left our control */
};

/* Bytes that an export needs. For rows `capacity` may exceed what the image will have (sliding
 * rows pass through); the rest of the memory is undefined afterwards and can be freed. */
uint64_t state_rows_bytes(const struct engine *engine, uint32_t tokens);
uint64_t state_rows_capacity(const struct engine *engine, uint32_t tokens);
/* Of rows [begin, end) of the sequence. Where rows of a picture cannot be told apart (seqs.h), the
 * range that has the picture's last row has all of them, so that another may have none: its image
 * is one byte. */
uint64_t state_range_capacity(const struct engine *engine, seq_id seq, uint32_t begin,
                              uint32_t end);
uint64_t state_snapshot_bytes(struct engine *engine, seq_id seq);
uint64_t state_whole_bytes(struct engine *engine, seq_id seq);

/* Rows [begin, end) of the sequence into dst. ERR_UNSUPPORTED unless the engine slices rows. */
enum err state_export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                           void *dst, uint64_t capacity, struct state_shape *shape,
                           struct errinfo *info) NODISCARD;

/* The snapshot of the sequence at its current length. Models without such kinds have none:
 * ERR_UNSUPPORTED. */
enum err state_export_snapshot(struct engine *engine, seq_id seq, void *dst, uint64_t capacity,
                               struct state_shape *shape, struct errinfo *info) NODISCARD;

enum err state_export_whole(struct engine *engine, seq_id seq, void *dst, uint64_t capacity,
                            struct state_shape *shape, struct errinfo *info) NODISCARD;

/* A restore: rows that cover [0, length) without a gap, in order; and the snapshot at `length`
 * when some kind needs one. Each object is used up to where the next one begins, the last one up
 * to `length`. It may reach beyond that (a run of which this prompt shares only the beginning):
 * then it is imported whole and cut. In whole mode: one whole object. */
struct state_restore {
    const struct state_object *rows;
    size_t rows_count;
    const struct state_object *snapshot; /* NULL = none */
    uint32_t length;
    const token_id *tokens; /* `length` of them, for pictures among them; NULL: there are none */
};

/* All or nothing: a fresh sequence of exactly `length` tokens, or an error and no sequence. Every
 * object is checked before the library sees the first byte of any (keeps I31, I102).
 *   ERR_CORRUPT    a digest does not match
 *   ERR_INVALID    foreign engine, wrong kind, range, length or gap
 *   ERR_LIMIT      not enough free cells or sequences
 *   ERR_ENGINE     the library refused; its sequence is retired until none is in use, no other is
 *                  touched */
enum err state_import(struct engine *engine, const struct state_restore *restore, seq_id *seq,
                      struct errinfo *info) NODISCARD;

/* The same in steps, so that other sequences can run in between and later objects may still be on
 * their way: begin checks all shapes and gives an empty sequence; then every object in order, the
 * snapshot last; then end. Only an object's own bytes must be there when it is imported, and they
 * are checked first unless `verified` is set. After ERR_ENGINE the sequence is gone (SEQ_NONE);
 * after any other error the caller releases it. */
enum err state_import_begin(struct engine *engine, const struct state_restore *restore, seq_id *seq,
                            struct errinfo *info) NODISCARD;
enum err state_import_object(struct engine *engine, const struct state_restore *restore,
                             size_t index, seq_id *seq, struct errinfo *info) NODISCARD;
enum err state_import_end(struct engine *engine, const struct state_restore *restore, seq_id *seq,
                          struct errinfo *info) NODISCARD;

/* Whether shape and bytes match (state_digest.h). */
enum err state_check(const struct engine *engine, const struct state_object *object,
                     struct errinfo *info) NODISCARD;
