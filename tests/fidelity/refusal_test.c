/*
 * refusal_test.c: what may not reach the library, and that the engine is as before when it was
 * refused (keeps I17, I31, I102).
 *
 * A prompt is run, its state exported; then every way in which objects can be wrong is tried. After
 * each the control prompt is restored from the good objects and must give the control's logits, bit
 * for bit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "engine/state_digest.h"
#include "support/models.h"
#include "support/test.h"

enum { BLOCK = 64, BLOCKS = 4, LENGTH = BLOCK * BLOCKS };

struct fixture {
    struct engine *engine;
    token_id tokens[LENGTH + 1];
    struct state_object rows[BLOCKS], snapshot;
    float *control;
};

static void run_tokens(struct fixture *f, seq_id seq, uint32_t from, uint32_t count)
{
    struct engine_item item = {seq, f->tokens + from, count, true};
    struct errinfo info = {0};

    if (engine_run(f->engine, &item, 1, &info) != ERR_OK)
        fail_msg("%s", info.text);
}

static bool has_snapshot(const struct fixture *f)
{
    return kind_set_needs_snapshot(engine_facts(f->engine)->kinds);
}

static void setup(struct fixture *f, const char *family, const struct engine_options *options,
                  uint64_t seed)
{
    seq_id seq;

    *f = (struct fixture){.engine = test_engine(family, options)};
    for (int i = 0; i <= LENGTH; i++)
        f->tokens[i] = (token_id)test_random_below(&seed, 256);
    assert_ok(engine_seq_acquire(f->engine, &seq, NULL));
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t capacity = state_rows_capacity(f->engine, BLOCK);
        void *data = mem_alloc(capacity);
        run_tokens(f, seq, (uint32_t)i * BLOCK, BLOCK);
        assert_ok(engine_seq_settle(f->engine, seq, NULL));
        assert_ok(state_export_rows(f->engine, seq, (uint32_t)i * BLOCK, (uint32_t)(i + 1) * BLOCK,
                                    data, capacity, &f->rows[i].shape, NULL));
        f->rows[i].data = data;
    }
    if (has_snapshot(f)) {
        uint64_t capacity = state_snapshot_bytes(f->engine, seq);
        void *data = mem_alloc(capacity);
        assert_ok(state_export_snapshot(f->engine, seq, data, capacity, &f->snapshot.shape, NULL));
        f->snapshot.data = data;
    }
    run_tokens(f, seq, LENGTH, 1);
    f->control = mem_alloc(engine_facts(f->engine)->vocab * sizeof(float));
    memcpy(f->control, engine_logits(f->engine, 0), engine_facts(f->engine)->vocab * sizeof(float));
    engine_seq_release(f->engine, &seq);
}

static void teardown(struct fixture *f)
{
    for (int i = 0; i < BLOCKS; i++)
        mem_free((void *)f->rows[i].data);
    mem_free((void *)f->snapshot.data);
    mem_free(f->control);
    engine_close(&f->engine);
}

static enum err import(struct fixture *f, const struct state_object *rows, size_t count,
                       const struct state_object *snapshot, uint32_t length, seq_id *seq)
{
    struct state_restore restore = {rows, count, snapshot, length, NULL};

    return state_import(f->engine, &restore, seq, NULL);
}

static const struct state_object *good_snapshot(const struct fixture *f)
{
    return has_snapshot(f) ? &f->snapshot : NULL;
}

/* The engine gives the control's answer, so nothing that was refused left a trace. */
static void expect_control(struct fixture *f)
{
    seq_id seq;

    assert_ok(import(f, f->rows, BLOCKS, good_snapshot(f), LENGTH, &seq));
    run_tokens(f, seq, LENGTH, 1);
    assert_memory_equal(engine_logits(f->engine, 0), f->control,
                        engine_facts(f->engine)->vocab * sizeof(float));
    engine_seq_release(f->engine, &seq);
}

/* Refused by us (never ERR_ENGINE, which is the library's), without a sequence and without a cell.
 */
static void expect_refused(struct fixture *f, enum err expected, const struct state_object *rows,
                           size_t count, const struct state_object *snapshot, uint32_t length)
{
    uint32_t before = engine_cells_free(f->engine);
    seq_id seq;

    assert_err(import(f, rows, count, snapshot, length, &seq), expected);
    assert_int_equal(seq, SEQ_NONE);
    assert_int_equal(engine_cells_free(f->engine), before);
}

static void copy_rows(const struct fixture *f, struct state_object *rows)
{
    memcpy(rows, f->rows, sizeof(f->rows));
}

static void check_flipped_bits(struct fixture *f, uint64_t *seed, int rounds)
{
    struct state_object rows[BLOCKS];

    for (int i = 0; i < rounds; i++) {
        copy_rows(f, rows);
        struct state_object *object = &rows[test_random_below(seed, BLOCKS)];
        unsigned char *data = (unsigned char *)object->data;
        uint64_t bit = test_random_below(seed, object->shape.bytes * 8);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        expect_refused(f, ERR_CORRUPT, rows, BLOCKS, good_snapshot(f), LENGTH);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    if (has_snapshot(f)) {
        unsigned char *data = (unsigned char *)f->snapshot.data;
        data[f->snapshot.shape.bytes - 1] ^= 1;
        expect_refused(f, ERR_CORRUPT, f->rows, BLOCKS, &f->snapshot, LENGTH);
        data[f->snapshot.shape.bytes - 1] ^= 1;
    }
}

static void check_order_and_gaps(struct fixture *f)
{
    struct state_object rows[BLOCKS];
    const struct state_object *snapshot = good_snapshot(f);

    copy_rows(f, rows);
    rows[1] = f->rows[2];
    rows[2] = f->rows[1];
    expect_refused(f, ERR_INVALID, rows, BLOCKS, snapshot, LENGTH); /* swapped */
    copy_rows(f, rows);
    rows[1].data = f->rows[2].data;
    expect_refused(f, ERR_CORRUPT, rows, BLOCKS, snapshot, LENGTH); /* bytes of another block */
    copy_rows(f, rows);
    rows[1] = f->rows[2];
    rows[1].shape.begin = BLOCK;
    rows[1].shape.end = 2 * BLOCK;
    expect_refused(f, ERR_CORRUPT, rows, BLOCKS, snapshot, LENGTH); /* relabelled */
    expect_refused(f, ERR_INVALID, f->rows + 1, BLOCKS - 1, snapshot, LENGTH);
    expect_refused(f, ERR_INVALID, f->rows, BLOCKS - 1, snapshot, LENGTH);
    expect_refused(f, ERR_INVALID, f->rows, 0, snapshot, LENGTH);
    expect_refused(f, ERR_INVALID, f->rows, BLOCKS, snapshot, 0);
    expect_refused(f, ERR_INVALID, f->rows, BLOCKS, snapshot, LENGTH + 1);
    if (snapshot != NULL) { /* wrong boundary */
        expect_refused(f, ERR_INVALID, f->rows, BLOCKS, NULL, LENGTH);
        expect_refused(f, ERR_INVALID, f->rows, BLOCKS, snapshot, LENGTH - 1);
        expect_refused(f, ERR_INVALID, f->rows, BLOCKS - 1, snapshot, LENGTH - BLOCK);
        expect_refused(f, ERR_INVALID, f->rows, BLOCKS, &f->rows[0], LENGTH);
    } else {
        expect_refused(f, ERR_INVALID, f->rows, BLOCKS, &f->rows[0], LENGTH);
    }
}

static void check_shapes(struct fixture *f)
{
    struct state_object rows[BLOCKS];
    const struct state_object *snapshot = good_snapshot(f);

    for (int delta = -9; delta <= 9; delta += 3) { /* truncated and enlarged */
        copy_rows(f, rows);
        rows[3].shape.bytes += (uint64_t)(int64_t)delta;
        if (delta != 0)
            expect_refused(f, ERR_INVALID, rows, BLOCKS, snapshot, LENGTH);
    }
    copy_rows(f, rows);
    rows[0].shape.bytes = UINT64_MAX;
    expect_refused(f, ERR_INVALID, rows, BLOCKS, snapshot, LENGTH);
    copy_rows(f, rows);
    rows[0].shape.kind = 77;
    expect_refused(f, ERR_INVALID, rows, BLOCKS, snapshot, LENGTH);
    copy_rows(f, rows);
    rows[2].shape.engine.bytes[31] ^= 1; /* another model, another KV type */
    expect_refused(f, ERR_INVALID, rows, BLOCKS, snapshot, LENGTH);
    copy_rows(f, rows);
    rows[3].shape.end = UINT32_MAX;
    expect_refused(f, ERR_INVALID, rows, BLOCKS, snapshot, LENGTH);
}

/* Good objects, but no room: all cells but a few are taken, or all sequences. */
static void check_no_room(struct fixture *f)
{
    uint32_t sequences = engine_facts(f->engine)->sequences;
    seq_id seqs[64], seq;

    for (uint32_t i = 0; i < sequences; i++)
        assert_ok(engine_seq_acquire(f->engine, &seqs[i], NULL));
    expect_refused(f, ERR_LIMIT, f->rows, BLOCKS, good_snapshot(f), LENGTH);
    for (uint32_t i = 1; i < sequences; i++)
        engine_seq_release(f->engine, &seqs[i]);
    while (engine_cells_free(f->engine) >= LENGTH)
        run_tokens(f, seqs[0], 0, BLOCK);
    expect_refused(f, ERR_LIMIT, f->rows, BLOCKS, good_snapshot(f), LENGTH);
    engine_seq_release(f->engine, &seqs[0]);
    assert_ok(import(f, f->rows, BLOCKS, good_snapshot(f), LENGTH, &seq));
    engine_seq_release(f->engine, &seq);
}

/* Bytes that pass all of our checks, because we sign them, and that the library refuses: the
 * sequence is retired, the others continue, and when none of them is in use all become available
 * again. */
static void check_library_refusal(struct fixture *f)
{
    struct state_object rows[BLOCKS];
    uint64_t bytes = f->rows[3].shape.bytes;
    unsigned char *garbage = mem_alloc(bytes);
    seq_id other, seq;

    assert_ok(import(f, f->rows, BLOCKS, good_snapshot(f), LENGTH, &other));
    copy_rows(f, rows);
    memcpy(garbage, f->rows[3].data, bytes);
    memset(garbage, 0xFF, 8); /* the library's own header */
    rows[3].data = garbage;
    rows[3].shape.digest = state_digest(&rows[3].shape, garbage);
    assert_err(import(f, rows, BLOCKS, good_snapshot(f), LENGTH, &seq), ERR_ENGINE);
    assert_int_equal(seq, SEQ_NONE);
    run_tokens(f, other, LENGTH, 1);
    assert_memory_equal(engine_logits(f->engine, 0), f->control,
                        engine_facts(f->engine)->vocab * sizeof(float));
    engine_seq_release(f->engine, &other);
    for (uint32_t i = 0; i < 2 * engine_facts(f->engine)->sequences; i++)
        assert_err(import(f, rows, BLOCKS, good_snapshot(f), LENGTH, &seq), ERR_ENGINE);
    mem_free(garbage);
}

static void check_all(const char *family)
{
    struct engine_options options = {.context = 1024, .sequences = 4, .chunk = BLOCK, .threads = 1};
    uint64_t seed = test_seed();
    struct fixture f;

    setup(&f, family, &options, seed);
    expect_control(&f);
    check_flipped_bits(&f, &seed, 200);
    expect_control(&f);
    check_order_and_gaps(&f);
    expect_control(&f);
    check_shapes(&f);
    expect_control(&f);
    check_no_room(&f);
    expect_control(&f);
    check_library_refusal(&f);
    expect_control(&f);
    teardown(&f);
}

static void test_i17_i31_i102_dense(void **state)
{
    (void)state;
    check_all("qwen3");
}

static void test_i17_i18_i102_hybrid(void **state)
{
    (void)state;
    check_all("qwen35");
}

static void test_i17_i18_i102_sliding(void **state)
{
    (void)state;
    check_all("gemma3");
}

/* State of one model, or of one KV type, means nothing to another, even of the same shape. */
static void test_i97_foreign_state_is_refused(void **state)
{
    struct engine_options options = {.context = 1024, .sequences = 4, .chunk = BLOCK, .threads = 1};
    struct engine_options quantized = options;
    struct fixture mine, other;

    (void)state;
    quantized.kv_k = quantized.kv_v = ENGINE_KV_Q8_0;
    setup(&mine, "qwen3", &options, 1);
    setup(&other, "qwen2", &options, 1);
    expect_refused(&mine, ERR_INVALID, other.rows, BLOCKS, NULL, LENGTH);
    teardown(&other);
    setup(&other, "qwen3", &quantized, 1);
    expect_refused(&mine, ERR_INVALID, other.rows, BLOCKS, NULL, LENGTH);
    expect_control(&other);
    teardown(&other);
    expect_control(&mine);
    teardown(&mine);
}

static void test_i102_ten_thousand_refusals_leave_no_trace(void **state)
{
    struct engine_options options = {.context = 1024, .sequences = 4, .chunk = BLOCK, .threads = 1};
    uint64_t seed = test_seed();
    struct fixture f;

    (void)state;
    setup(&f, "qwen35", &options, seed);
    check_flipped_bits(&f, &seed, 10000);
    expect_control(&f);
    teardown(&f);
}

TEST_SUITE(TEST(test_i17_i31_i102_dense), TEST(test_i17_i18_i102_hybrid),
           TEST(test_i17_i18_i102_sliding), TEST(test_i97_foreign_state_is_refused),
           TEST(test_i102_ten_thousand_refusals_leave_no_trace))
