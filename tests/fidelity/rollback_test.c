/*
 * rollback_test.c: tokens that are removed right after the run that computed them leave no trace.
 *
 * A sequence of known tokens is computed step by step; each step also has wrong tokens after some
 * right ones, which are removed. Twice, with other wrong tokens: all logits must be the same bits.
 * Computed one by one they are the same but for rounding. The sequence is longer than the windows,
 * whose caches are rings, and the removed tokens lie across their edges.
 *
 * A state that was rolled back and then forked, exported, or left alone while other sequences run
 * must be the one that the next run would have used.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

enum { PROMPT = 130, STEPS = 7, LENGTH = PROMPT + 4 * STEPS, WRONG_MAX = 4 };

static const struct engine_options options = {
    .context = 2048, .sequences = 3, .chunk = 64, .threads = 1, .rollback = WRONG_MAX};

struct subject {
    struct engine *engine;
    const struct engine_facts *facts;
    token_id tokens[LENGTH];
    float *logits; /* of the right tokens after the prompt */
};

static void open_subject(struct subject *subject, const char *family)
{
    uint64_t seed = 7;

    subject->engine = test_engine(family, &options);
    subject->facts = engine_facts(subject->engine);
    subject->logits = mem_alloc_array((size_t)LENGTH * subject->facts->vocab, sizeof(float));
    for (int i = 0; i < LENGTH; i++)
        subject->tokens[i] = (token_id)test_random_below(&seed, subject->facts->vocab);
}

static void close_subject(struct subject *subject)
{
    mem_free(subject->logits);
    engine_close(&subject->engine);
}

static seq_id begin(struct subject *subject)
{
    seq_id seq;

    assert_ok(engine_seq_acquire(subject->engine, &seq, NULL));
    for (uint32_t at = 0, n; at < PROMPT; at += n) {
        n = MIN(PROMPT - at, subject->facts->chunk);
        struct engine_item item = {seq, subject->tokens + at, n, 0};
        assert_ok(engine_run(subject->engine, &item, 1, NULL));
    }
    return seq;
}

/* `right` tokens, then `wrong` others that are removed again. */
static void step(struct subject *subject, seq_id seq, uint32_t right, uint32_t wrong, uint64_t seed)
{
    token_id tokens[4 + WRONG_MAX];
    uint32_t at = engine_seq_length(subject->engine, seq);

    assert_true(right <= 4 && wrong <= WRONG_MAX && at + right <= LENGTH);
    memcpy(tokens, subject->tokens + at, right * sizeof(*tokens));
    for (uint32_t i = 0; i < wrong; i++)
        tokens[right + i] = (token_id)test_random_below(&seed, subject->facts->vocab);
    struct engine_item item = {seq, tokens, right + wrong, right + wrong};
    assert_ok(engine_run(subject->engine, &item, 1, NULL));
    assert_ok(engine_seq_truncate(subject->engine, seq, at + right, NULL));
    assert_int_equal(engine_seq_length(subject->engine, seq), at + right);
}

static float *logits_of(const struct subject *subject, uint32_t at)
{
    return subject->logits + (size_t)at * subject->facts->vocab;
}

static void expect_same(const struct subject *subject, uint32_t at, const float *logits)
{
    assert_memory_equal(logits_of(subject, at), logits, subject->facts->vocab * sizeof(float));
}

static void expect_near(const struct subject *subject, uint32_t at, const float *logits)
{
    const float *known = logits_of(subject, at);
    float largest = 0, distance = 0;

    for (uint32_t i = 0; i < subject->facts->vocab; i++) {
        largest = fmaxf(largest, fabsf(known[i]));
        distance = fmaxf(distance, fabsf(known[i] - logits[i]));
    }
    if (!(distance <= 0.01f * largest))
        fail_msg("token %u: logits differ by %g of %g", at, distance, largest);
}

/* The end of the tokens that were computed. */
static uint32_t run_steps(struct subject *subject, bool first, uint64_t seed)
{
    seq_id seq = begin(subject);
    uint64_t shape = 5; /* the same for each run */

    for (int i = 0; i < STEPS; i++) {
        uint32_t right = 1 + (uint32_t)test_random_below(&shape, 3);
        uint32_t wrong = (uint32_t)test_random_below(&shape, WRONG_MAX + 1);
        uint32_t at = engine_seq_length(subject->engine, seq);
        step(subject, seq, right, wrong, seed + (uint64_t)i);
        for (uint32_t k = 0; k < right; k++) {
            const float *logits = engine_logits_nth(subject->engine, 0, k);
            if (first)
                memcpy(logits_of(subject, at + k), logits, subject->facts->vocab * sizeof(float));
            else
                expect_same(subject, at + k, logits);
        }
    }
    uint32_t end = engine_seq_length(subject->engine, seq);
    engine_seq_release(subject->engine, &seq);
    return end;
}

static void run_single(struct subject *subject, uint32_t end)
{
    seq_id seq = begin(subject);

    for (uint32_t at = PROMPT; at < end; at++) {
        step(subject, seq, 1, 0, 0);
        expect_near(subject, at, engine_logits_nth(subject->engine, 0, 0));
    }
    engine_seq_release(subject->engine, &seq);
}

/* ---- states that were rolled back ---- */

static void *export(struct subject *subject, seq_id seq, enum state_kind kind,
                    struct state_shape *shape)
{
    struct engine *engine = subject->engine;
    uint32_t length = engine_seq_length(engine, seq);
    uint64_t bytes = kind == STATE_ROWS ? state_rows_capacity(engine, length)
                                        : state_snapshot_bytes(engine, seq);
    void *data = mem_alloc(bytes);

    if (kind == STATE_ROWS)
        assert_ok(state_export_rows(engine, seq, 0, length, data, bytes, shape, NULL));
    else
        assert_ok(state_export_snapshot(engine, seq, data, bytes, shape, NULL));
    return data;
}

static seq_id restore_of(struct subject *subject, seq_id seq)
{
    struct state_object rows = {.data = NULL}, snapshot = {.data = NULL};
    bool needs = kind_set_needs_snapshot(subject->facts->kinds);
    seq_id copy;

    bool has_rows = subject->facts->rows_bytes_per_token > 0;
    if (has_rows)
        rows.data = export(subject, seq, STATE_ROWS, &rows.shape);
    if (needs)
        snapshot.data = export(subject, seq, STATE_SNAPSHOT, &snapshot.shape);
    struct state_restore restore = {.rows = &rows,
                                    .rows_count = has_rows,
                                    .snapshot = needs ? &snapshot : NULL,
                                    .length = engine_seq_length(subject->engine, seq)};
    assert_ok(state_import(subject->engine, &restore, &copy, NULL));
    mem_free((void *)rows.data);
    mem_free((void *)snapshot.data);
    return copy;
}

/* Removes tokens, then does something with the sequence before it goes on. */
static void go_on(struct subject *subject, int how)
{
    seq_id seq = begin(subject), other = SEQ_NONE;
    uint32_t at = PROMPT + 2;

    if (how == 3)
        other = begin(subject);
    step(subject, seq, 2, 3, 99);
    if (how == 1)
        assert_ok(engine_seq_fork(subject->engine, seq, &other, NULL));
    else if (how == 2)
        other = restore_of(subject, seq);
    else if (how == 3)
        for (int i = 0; i < 3; i++)
            step(subject, other, 1, 2, (uint64_t)i);
    for (int i = 0; i < 2; i++, seq = other) {
        if (i > 0 && (how == 0 || how == 3))
            break;
        step(subject, seq, 2, 1, 3);
        if (how == 0)
            memcpy(logits_of(subject, at), engine_logits_nth(subject->engine, 0, 0),
                   subject->facts->vocab * sizeof(float));
        else
            expect_near(subject, at, engine_logits_nth(subject->engine, 0, 0));
    }
    for (seq = 0; seq < (seq_id)options.sequences; seq++) {
        seq_id each = seq;
        if (engine_seq_length(subject->engine, seq) > 0)
            engine_seq_release(subject->engine, &each);
    }
}

static void test_removed_tokens_leave_no_trace(void **state)
{
    static const char *const families[] = {"qwen3", "gemma3", "qwen35", "nemotron_h"};
    struct subject subject;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        open_subject(&subject, families[i]);
        assert_true(subject.facts->rollback >= WRONG_MAX);
        uint32_t end = run_steps(&subject, true, 1);
        run_steps(&subject, false, 1000);
        run_single(&subject, end);
        for (int how = 0; how < 4; how++)
            go_on(&subject, how);
        close_subject(&subject);
    }
}

/* Recurrent state: once, within the last run, not beyond its first token, and no more than was asked
 * for. */
static void test_other_cuts_are_refused(void **state)
{
    struct subject subject;

    (void)state;
    open_subject(&subject, "qwen35");
    seq_id seq = begin(&subject), fork;
    struct engine_item item = {seq, subject.tokens, 4, 0};
    assert_ok(engine_run(subject.engine, &item, 1, NULL));
    assert_err(engine_seq_truncate(subject.engine, seq, PROMPT, NULL), ERR_UNSUPPORTED);
    assert_ok(engine_seq_truncate(subject.engine, seq, PROMPT + 3, NULL));
    assert_err(engine_seq_truncate(subject.engine, seq, PROMPT + 2, NULL), ERR_UNSUPPORTED);
    item.count = 2 * WRONG_MAX;
    assert_ok(engine_run(subject.engine, &item, 1, NULL));
    assert_ok(engine_seq_fork(subject.engine, seq, &fork, NULL));
    uint32_t length = engine_seq_length(subject.engine, seq);
    assert_int_equal(engine_seq_least(subject.engine, seq), length);
    assert_err(engine_seq_truncate(subject.engine, fork, length - 1, NULL), ERR_UNSUPPORTED);
    assert_err(engine_seq_truncate(subject.engine, seq, length - WRONG_MAX - 1, NULL),
               ERR_UNSUPPORTED);
    engine_seq_release(subject.engine, &fork);
    engine_seq_release(subject.engine, &seq);
    close_subject(&subject);
}

/* The library computes items of several lengths in parts, and keeps earlier recurrent states of the
 * last part only. */
static void test_batches_of_several(void **state)
{
    static const struct {
        const char *family;
        enum err err;
    } rows[] = {{"gemma3", ERR_OK}, {"qwen35", ERR_UNSUPPORTED}, {"lfm2", ERR_UNSUPPORTED}};
    struct subject subject;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_subject(&subject, rows[i].family);
        seq_id one = begin(&subject), two = begin(&subject);
        struct engine_item items[] = {{one, subject.tokens, 4, 0}, {two, subject.tokens, 1, 0}};
        assert_ok(engine_run(subject.engine, items, COUNT_OF(items), NULL));
        assert_err(engine_seq_truncate(subject.engine, one, PROMPT + 1, NULL), rows[i].err);
        engine_seq_release(subject.engine, &one);
        engine_seq_release(subject.engine, &two);
        close_subject(&subject);
    }
}

/* Forks share the cells of a window, until the library has no room: then each gets its own, with
 * the rows that the window needs at its present end, and one more. */
static void test_a_window_that_was_imported_again_is_not_cut(void **state)
{
    enum { LONG = 600, MORE = 32 };
    struct engine *engine = test_engine("gemma3", &options);
    token_id tokens[LONG + 1 + MORE];
    uint64_t seed = 11;
    seq_id seq, fork;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(tokens); i++)
        tokens[i] = (token_id)test_random_below(&seed, engine_facts(engine)->vocab);
    assert_true(engine_facts(engine)->rollback >= MORE);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    for (uint32_t at = 0, n; at < LONG; at += n) {
        n = MIN(LONG - at, engine_facts(engine)->chunk);
        assert_ok(engine_run(engine, &(struct engine_item){seq, tokens + at, n, 0}, 1, NULL));
    }
    assert_ok(engine_seq_fork(engine, seq, &fork, NULL));
    struct engine_item item = {fork, tokens + LONG, 1 + MORE, 0};
    assert_ok(engine_run(engine, &item, 1, NULL));
    for (int i = 0; i < 4; i++) { /* beyond the cells of the sliding cache */
        struct engine_item other = {seq, tokens, 50, 0};
        assert_ok(engine_run(engine, &other, 1, NULL));
    }
    assert_err(engine_seq_truncate(engine, fork, LONG + 1, NULL), ERR_UNSUPPORTED);
    assert_int_equal(engine_seq_length(engine, fork), LONG + 1 + MORE);
    assert_int_equal(engine_seq_least(engine, fork), LONG + MORE);
    assert_ok(engine_seq_truncate(engine, fork, LONG + MORE, NULL));
    engine_close(&engine);
}

static void expect_none(const char *family, struct engine_options wish, enum rollback why)
{
    struct engine *engine = test_engine(family, &wish);

    if (engine_facts(engine)->no_rollback != why)
        fail_msg("%s: '%s'", family, rollback_text(engine_facts(engine)->no_rollback));
    assert_int_equal(engine_facts(engine)->rollback, 0);
    assert_int_equal(engine_facts(engine)->slicing,
                     wish.streams ? ENGINE_SLICING_WHOLE : ENGINE_SLICING_ROWS);
    engine_close(&engine);
}

static void test_models_that_cannot_say_why(void **state)
{
    struct engine_options wish = options;

    (void)state;
    expect_none("mamba2", wish, ROLLBACK_LIBRARY);
    expect_none("falcon-h1", wish, ROLLBACK_LIBRARY);
    wish.streams = true;
    expect_none("gemma3", wish, ROLLBACK_STREAMS);
    wish.streams = false;
    wish.rollback = 0;
    expect_none("qwen35", wish, ROLLBACK_OFF);
    wish.rollback = ROLLBACK_AUTO;
    wish.memory_max = 16 << 20;
    wish.context = 256;
    expect_none("qwen35", wish, ROLLBACK_MEMORY);
}

TEST_SUITE(TEST(test_removed_tokens_leave_no_trace), TEST(test_other_cuts_are_refused),
           TEST(test_batches_of_several), TEST(test_a_window_that_was_imported_again_is_not_cut),
           TEST(test_models_that_cannot_say_why))
