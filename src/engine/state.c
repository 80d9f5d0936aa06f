/*
 * state.c: the rules of state.h, the same for every engine: which objects are refused before the
 * library sees a byte, and what happens to a sequence whose import failed.
 *
 * An import is a transaction on a fresh sequence:
 *
 *      check every shape -> acquire -> [ check digest -> import ] per object -> check length -> done
 *            |                                 |            |
 *            '-> error, nothing touched        |            '-> refused: clear, retire, error
 *                                              '-> error; the caller releases the sequence
 *
 * state_import does all of it, and checks all digests before the first import.
 */
#include "engine/state.h"

#include <assert.h>

#include "engine/engine_ops.h"
#include "engine/picture.h"
#include "engine/state_digest.h"

enum { NO_ROWS_BYTES = 1 }; /* the image of a range that is inside a picture */

uint64_t state_rows_bytes(const struct engine *engine, uint32_t tokens)
{
    const struct engine_facts *facts = &engine->facts;

    return tokens == 0 || facts->rows_bytes_per_token == 0
               ? 0
               : facts->rows_bytes_fixed + tokens * facts->rows_bytes_per_token;
}

uint64_t state_rows_capacity(const struct engine *engine, uint32_t tokens)
{
    return engine->ops->rows_capacity(engine, tokens);
}

static uint32_t range_rows(const struct engine *engine, seq_id seq, uint32_t begin, uint32_t end)
{
    return seqs_floor(&engine->seqs, seq, end) - seqs_floor(&engine->seqs, seq, begin);
}

uint64_t state_range_capacity(const struct engine *engine, seq_id seq, uint32_t begin, uint32_t end)
{
    uint32_t rows = range_rows(engine, seq, begin, end);

    return rows == 0 && engine->facts.mrope ? NO_ROWS_BYTES : state_rows_capacity(engine, rows);
}

uint64_t state_snapshot_bytes(struct engine *engine, seq_id seq)
{
    assert(seqs_live(&engine->seqs, seq));
    return engine->ops->end_bytes(engine, seq, STATE_SNAPSHOT);
}

uint64_t state_whole_bytes(struct engine *engine, seq_id seq)
{
    assert(seqs_live(&engine->seqs, seq));
    return engine->ops->end_bytes(engine, seq, STATE_WHOLE);
}

static void fill_shape(const struct engine *engine, struct state_shape *shape, enum state_kind kind,
                       uint32_t begin, uint32_t end, const void *data, uint64_t bytes)
{
    *shape = (struct state_shape){
        .kind = kind,
        .begin = begin,
        .end = end,
        .bytes = bytes,
        .engine = engine->facts.fingerprint,
    };
    shape->digest = state_digest(shape, data);
}

static enum err export_failed(const char *what, struct errinfo *info)
{
    return err_set(info, ERR_ENGINE, "the library could not export %s", what);
}

static enum err too_small(uint64_t need, uint64_t capacity, struct errinfo *info)
{
    return err_set(info, ERR_LIMIT, "the export needs %llu bytes, there are %llu",
                   (unsigned long long)need, (unsigned long long)capacity);
}

enum err state_export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                           void *dst, uint64_t capacity, struct state_shape *shape,
                           struct errinfo *info)
{
    assert(seqs_live(&engine->seqs, seq));
    engine_check_owner(engine);
    if (engine->facts.slicing != ENGINE_SLICING_ROWS || engine->facts.rows_bytes_per_token == 0)
        return err_set(info, ERR_UNSUPPORTED, "this model has no rows to export");
    if (begin >= end || end > seqs_length(&engine->seqs, seq))
        return err_set(info, ERR_INVALID, "rows %u..%u of a sequence of %u tokens", begin, end,
                       seqs_length(&engine->seqs, seq));
    uint64_t need = state_range_capacity(engine, seq, begin, end);
    uint32_t rows = range_rows(engine, seq, begin, end);
    uint64_t bytes = NO_ROWS_BYTES;
    if (capacity < need)
        return too_small(need, capacity, info);
    if (rows == 0)
        *(unsigned char *)dst = 0;
    else
        bytes = engine->ops->export_rows(engine, seq, seqs_position(&engine->seqs, seq, begin),
                                         seqs_position(&engine->seqs, seq, end), dst, capacity);
    if (rows > 0 && bytes != state_rows_bytes(engine, rows))
        return export_failed("rows", info);
    fill_shape(engine, shape, STATE_ROWS, begin, end, dst, bytes);
    return ERR_OK;
}

/* The state at the current end of the sequence: its snapshot, or all of it. */
static enum err export_end(struct engine *engine, seq_id seq, enum state_kind kind, void *dst,
                           uint64_t capacity, struct state_shape *shape, struct errinfo *info)
{
    uint32_t length = seqs_length(&engine->seqs, seq);

    engine_check_owner(engine);
    if (length == 0)
        return err_set(info, ERR_INVALID, "an empty sequence has no state");
    uint64_t need = engine->ops->end_bytes(engine, seq, kind);
    if (capacity < need)
        return too_small(need, capacity, info);
    uint64_t bytes = engine->ops->export_end(engine, seq, kind, dst, need);
    if (bytes == 0 || bytes != need)
        return export_failed(kind == STATE_WHOLE ? "a sequence" : "a snapshot", info);
    fill_shape(engine, shape, kind, 0, length, dst, bytes);
    return ERR_OK;
}

enum err state_export_snapshot(struct engine *engine, seq_id seq, void *dst, uint64_t capacity,
                               struct state_shape *shape, struct errinfo *info)
{
    assert(seqs_live(&engine->seqs, seq));
    if (engine->facts.slicing != ENGINE_SLICING_ROWS ||
        !kind_set_needs_snapshot(engine->facts.kinds))
        return err_set(info, ERR_UNSUPPORTED, "this model needs no snapshots");
    return export_end(engine, seq, STATE_SNAPSHOT, dst, capacity, shape, info);
}

enum err state_export_whole(struct engine *engine, seq_id seq, void *dst, uint64_t capacity,
                            struct state_shape *shape, struct errinfo *info)
{
    assert(seqs_live(&engine->seqs, seq));
    if (engine->facts.slicing == ENGINE_SLICING_NONE)
        return err_set(info, ERR_UNSUPPORTED, "this model's state cannot be exported");
    return export_end(engine, seq, STATE_WHOLE, dst, capacity, shape, info);
}

/* ---- import ---- */

/* Whether an image of so many bytes can be rows of the range. How many rows pictures add or take
 * is known only with the prompt's tokens: check_rows. */
static bool fits_range(const struct engine *engine, const struct state_shape *shape)
{
    const struct engine_facts *facts = &engine->facts;

    if (!facts->mrope)
        return shape->bytes == state_rows_bytes(engine, shape->end - shape->begin);
    return shape->bytes == NO_ROWS_BYTES ||
           (shape->bytes > facts->rows_bytes_fixed &&
            shape->bytes <= state_rows_bytes(engine, shape->end) &&
            (shape->bytes - facts->rows_bytes_fixed) % facts->rows_bytes_per_token == 0);
}

static enum err check_shape(const struct engine *engine, const struct state_shape *shape,
                            struct errinfo *info)
{
    if (!hash256_eq(&shape->engine, &engine->facts.fingerprint))
        return err_set(info, ERR_INVALID,
                       "the state was written by another model or configuration");
    if (shape->begin >= shape->end || shape->end > engine->seqs.cells)
        return err_set(info, ERR_INVALID, "a state of tokens %u..%u in a context of %u",
                       shape->begin, shape->end, engine->seqs.cells);
    switch ((enum state_kind)shape->kind) {
    case STATE_ROWS:
        if (!fits_range(engine, shape) || shape->bytes == 0)
            return err_set(info, ERR_INVALID, "rows of %u tokens in %llu bytes, not %llu",
                           shape->end - shape->begin, (unsigned long long)shape->bytes,
                           (unsigned long long)state_rows_bytes(engine, shape->end - shape->begin));
        return ERR_OK;
    case STATE_SNAPSHOT:
        if (shape->begin != 0 || shape->bytes == 0 ||
            shape->bytes > engine->facts.snapshot_bytes_max)
            return err_set(info, ERR_INVALID, "a snapshot of %llu bytes; at most %llu are possible",
                           (unsigned long long)shape->bytes,
                           (unsigned long long)engine->facts.snapshot_bytes_max);
        return ERR_OK;
    case STATE_WHOLE:
        if (shape->begin != 0 || shape->bytes == 0)
            return err_set(info, ERR_INVALID, "a whole state that does not begin at token 0");
        return ERR_OK;
    }
    return err_set(info, ERR_INVALID, "a state of unknown kind %u", shape->kind);
}

enum err state_check(const struct engine *engine, const struct state_object *object,
                     struct errinfo *info)
{
    TRY(check_shape(engine, &object->shape, info));
    if (object->verified)
        return ERR_OK;
    struct hash128 digest = state_digest(&object->shape, object->data);
    if (!hash128_eq(&digest, &object->shape.digest))
        return err_set(info, ERR_CORRUPT, "the bytes of tokens %u..%u do not match their digest",
                       object->shape.begin, object->shape.end);
    return ERR_OK;
}

static bool rows_can_be_cut(const struct engine *engine)
{
    return engine->ops->rows_cut != NULL || kind_set_sliceable(engine->facts.kinds);
}

/* The end of the rows used from object i: where the next one begins, or the length. */
static uint32_t rows_use_end(const struct state_restore *restore, size_t i)
{
    return i + 1 < restore->rows_count ? restore->rows[i + 1].shape.begin : restore->length;
}

static uint32_t floor_of(const struct engine *engine, const struct state_restore *restore,
                         uint32_t at)
{
    bool folds = engine->facts.mrope && restore->tokens != NULL;

    return folds ? picture_floor(restore->tokens, restore->length, at) : at;
}

/* An object that is used to its end has the rows of its range, another one at least those that are
 * used. */
static bool has_rows(const struct engine *engine, const struct state_restore *restore, size_t i)
{
    const struct state_shape *shape = &restore->rows[i].shape;
    uint32_t end = rows_use_end(restore, i);
    uint32_t need = floor_of(engine, restore, end) - floor_of(engine, restore, shape->begin);
    uint64_t bytes = need > 0 ? state_rows_bytes(engine, need) : NO_ROWS_BYTES;

    return !engine->facts.mrope ||
           (end < shape->end ? shape->bytes >= bytes : shape->bytes == bytes);
}

/* Rows must cover [0, length) in order; objects may reach beyond where they are used if the engine
 * can cut. */
static enum err check_rows(const struct engine *engine, const struct state_restore *restore,
                           struct errinfo *info)
{
    uint32_t at = 0;

    if (engine->facts.rows_bytes_per_token == 0)
        return restore->rows_count == 0
                   ? ERR_OK
                   : err_set(info, ERR_INVALID, "rows for a model that has none");
    for (size_t i = 0; i < restore->rows_count; i++) {
        const struct state_shape *shape = &restore->rows[i].shape;
        uint32_t end = rows_use_end(restore, i);
        if (shape->kind != STATE_ROWS || shape->begin != at || end <= at || end > shape->end)
            return err_set(info, ERR_INVALID, "rows of tokens %u..%u where those of %u..%u are due",
                           shape->begin, shape->end, at, end);
        if (!has_rows(engine, restore, i))
            return err_set(info, ERR_INVALID, "rows of tokens %u..%u do not have their pictures",
                           shape->begin, shape->end);
        if (end < shape->end && !rows_can_be_cut(engine))
            return err_set(info, ERR_INVALID,
                           "rows end at token %u, and this model cannot be cut at %u", shape->end,
                           end);
        at = end;
    }
    if (at < restore->length)
        return err_set(info, ERR_INVALID, "rows end at token %u, before %u", at, restore->length);
    return ERR_OK;
}

static enum err check_snapshot(const struct engine *engine, const struct state_restore *restore,
                               struct errinfo *info)
{
    const struct state_object *snapshot = restore->snapshot;

    if (!kind_set_needs_snapshot(engine->facts.kinds))
        return snapshot == NULL
                   ? ERR_OK
                   : err_set(info, ERR_INVALID, "a snapshot for a model that needs none");
    if (snapshot == NULL)
        return err_set(info, ERR_INVALID, "no snapshot for token %u", restore->length);
    if (snapshot->shape.kind != STATE_SNAPSHOT || snapshot->shape.end != restore->length)
        return err_set(info, ERR_INVALID, "a snapshot at token %u for a restore at %u",
                       snapshot->shape.end, restore->length);
    return ERR_OK;
}

static enum err check_whole(const struct state_restore *restore, struct errinfo *info)
{
    if (restore->rows_count != 1 || restore->snapshot != NULL ||
        restore->rows[0].shape.kind != STATE_WHOLE || restore->rows[0].shape.end != restore->length)
        return err_set(info, ERR_INVALID, "expected one whole state of %u tokens", restore->length);
    return ERR_OK;
}

static bool is_whole(const struct state_restore *restore)
{
    return restore->rows_count == 1 && restore->rows[0].shape.kind == STATE_WHOLE;
}

static enum err check_shapes(const struct engine *engine, const struct state_restore *restore,
                             struct errinfo *info)
{
    for (size_t i = 0; i < restore->rows_count; i++)
        TRY(check_shape(engine, &restore->rows[i].shape, info));
    return restore->snapshot ? check_shape(engine, &restore->snapshot->shape, info) : ERR_OK;
}

/* Everything but the digests, which need a pass over all bytes. */
static enum err check_restore(const struct engine *engine, const struct state_restore *restore,
                              struct errinfo *info)
{
    uint32_t end = restore->length;

    if (restore->length == 0)
        return err_set(info, ERR_INVALID, "nothing to restore");
    if (engine->facts.slicing == ENGINE_SLICING_NONE)
        return err_set(info, ERR_UNSUPPORTED, "this model's state cannot be imported");
    TRY(check_shapes(engine, restore, info));
    if (is_whole(restore) || engine->facts.slicing == ENGINE_SLICING_WHOLE) {
        TRY(check_whole(restore, info));
    } else {
        TRY(check_rows(engine, restore, info));
        TRY(check_snapshot(engine, restore, info));
        for (size_t i = 0; i < restore->rows_count; i++)
            end = MAX(end, restore->rows[i].shape.end);
    }
    if (end > engine_cells_free(engine))
        return err_set(info, ERR_LIMIT, "a restore of %u tokens, %u are free", end,
                       engine_cells_free(engine));
    return ERR_OK;
}

static enum err check_digests(const struct engine *engine, const struct state_restore *restore,
                              struct errinfo *info)
{
    for (size_t i = 0; i < restore->rows_count; i++)
        TRY(state_check(engine, &restore->rows[i], info));
    return restore->snapshot ? state_check(engine, restore->snapshot, info) : ERR_OK;
}

/* What the library wrote before it refused is unknown; the sequence is not reused until all
 * sequences are empty (keeps I102). */
static enum err refused(struct engine *engine, seq_id *seq, uint32_t tokens, struct errinfo *info)
{
    engine->ops->seq_clear(engine, *seq);
    seqs_retire(&engine->seqs, *seq);
    seqs_recycle(&engine->seqs);
    *seq = SEQ_NONE;
    return err_set(info, ERR_ENGINE, "the library refused a state of %u tokens", tokens);
}

/* The object was checked. */
static enum err append_rows(struct engine *engine, seq_id *seq, const struct state_object *rows,
                            uint32_t end, struct errinfo *info)
{
    const struct engine_ops *ops = engine->ops;
    uint32_t begin = seqs_length(&engine->seqs, *seq);

    assert(seqs_live(&engine->seqs, *seq) && rows->shape.kind == STATE_ROWS);
    assert(rows->shape.begin == begin && end > begin && end <= rows->shape.end);
    /* Rows beyond the end take cells until they are cut. */
    if (rows->shape.end - begin > engine_cells_free(engine))
        return err_set(info, ERR_LIMIT, "%u tokens to import, %u are free", rows->shape.end - begin,
                       engine_cells_free(engine));
    if ((rows->shape.bytes != NO_ROWS_BYTES &&
         !ops->import(engine, *seq, STATE_ROWS, rows->data, rows->shape.bytes)) ||
        (rows->shape.end > end && !(ops->rows_cut ? ops->rows_cut : ops->seq_cut)(
                                      engine, *seq, seqs_position(&engine->seqs, *seq, end))))
        return refused(engine, seq, end, info);
    seqs_append(&engine->seqs, *seq, end - begin);
    return ERR_OK;
}

/* Object `index` of a restore: rows, or after them the snapshot. The objects were checked. */
static enum err import_object(struct engine *engine, const struct state_restore *restore,
                              size_t index, seq_id *seq, struct errinfo *info)
{
    const struct state_object *object =
        index < restore->rows_count ? &restore->rows[index] : restore->snapshot;

    if (object->shape.kind == STATE_ROWS)
        return append_rows(engine, seq, object, rows_use_end(restore, index), info);
    if (!engine->ops->import(engine, *seq, object->shape.kind, object->data, object->shape.bytes))
        return refused(engine, seq, restore->length, info);
    /* A model without rows has no length before this. */
    seqs_append(&engine->seqs, *seq, restore->length - seqs_length(&engine->seqs, *seq));
    return ERR_OK;
}

/* Positions of rows depend on the pictures before them. */
static void announce_folds(struct engine *engine, const struct state_restore *restore, seq_id seq)
{
    for (uint32_t at = 0; engine->facts.mrope && restore->tokens != NULL && at < restore->length;) {
        uint32_t count = picture_run(restore->tokens + at, restore->length - at);
        if (count > 0)
            seqs_fold(
                &engine->seqs, seq,
                (struct seqs_fold){at, at + count, picture_positions(restore->tokens[at], count)});
        at += count > 0 ? count : 1;
    }
}

enum err state_import_begin(struct engine *engine, const struct state_restore *restore, seq_id *seq,
                            struct errinfo *info)
{
    *seq = SEQ_NONE;
    TRY(check_restore(engine, restore, info));
    TRY(engine_seq_acquire(engine, seq, info));
    announce_folds(engine, restore, *seq);
    return ERR_OK;
}

enum err state_import_object(struct engine *engine, const struct state_restore *restore,
                             size_t index, seq_id *seq, struct errinfo *info)
{
    engine_check_owner(engine);
    TRY(state_check(engine, index < restore->rows_count ? &restore->rows[index] : restore->snapshot,
                    info));
    return import_object(engine, restore, index, seq, info);
}

enum err state_import_end(struct engine *engine, const struct state_restore *restore, seq_id *seq,
                          struct errinfo *info)
{
    seqs_unfold(&engine->seqs, *seq, restore->length); /* of a plan that was shortened */
    if (engine_library_length(engine, *seq) != restore->length)
        return refused(engine, seq, restore->length, info);
    return ERR_OK;
}

enum err state_import(struct engine *engine, const struct state_restore *restore, seq_id *seq,
                      struct errinfo *info)
{
    size_t count = restore->rows_count + (restore->snapshot != NULL);

    *seq = SEQ_NONE;
    TRY(check_restore(engine, restore, info)); /* shapes, before their bytes are read */
    TRY(check_digests(engine, restore, info));
    TRY(state_import_begin(engine, restore, seq, info));
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && err == ERR_OK; i++)
        err = import_object(engine, restore, i, seq, info);
    if (err == ERR_OK)
        err = state_import_end(engine, restore, seq, info);
    if (err != ERR_OK)
        engine_seq_release(engine, seq); /* a no-op when it is gone already */
    return err;
}
