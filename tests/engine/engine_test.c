/*
 * engine.c by itself: what it refuses before an engine is asked, and what it makes of an engine's
 * answers. The engine behind it is the fake one; where a library has to misbehave, single functions
 * of its table are replaced (`bend`).
 */
#include "engine/engine.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/engine_fake.h"
#include "engine/engine_ops.h"
#include "engine/picture.h"
#include "support/test.h"

enum { CONTEXT = 100, SEQUENCES = 4, CHUNK = 40 };

static token_id tokens[2 * CONTEXT]; /* of the vocabulary: all 0 */

static struct engine *create(struct engine_fake_options options)
{
    struct engine *engine = NULL;

    options.context = CONTEXT;
    options.sequences = SEQUENCES;
    options.chunk = CHUNK;
    assert_ok(engine_fake_create(&engine, &options, NULL));
    return engine;
}

/* The engine's table, to be changed by the test. One per process, as each test is one. */
static struct engine_ops *bend(struct engine *engine)
{
    static struct engine_ops bent;

    bent = *engine->ops;
    engine->ops = &bent;
    return &bent;
}

static seq_id acquire(struct engine *engine)
{
    seq_id seq;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    return seq;
}

static enum err run(struct engine *engine, seq_id seq, uint32_t count, struct errinfo *info)
{
    struct engine_item item = {seq, tokens, count, true};

    return engine_run(engine, &item, 1, info);
}

/* A fresh sequence of `count` tokens. */
static seq_id grow(struct engine *engine, uint32_t count)
{
    seq_id seq = acquire(engine);

    for (uint32_t n; count > 0; count -= n) {
        n = MIN(count, CHUNK);
        assert_ok(run(engine, seq, n, NULL));
    }
    return seq;
}

/* Broken: nothing but a release is possible. */
static bool broken(struct engine *engine, seq_id seq)
{
    return run(engine, seq, 1, NULL) == ERR_INVALID;
}

static void expect_sentence(const struct errinfo *info, const char *words)
{
    if (strstr(info->text, words) == NULL)
        fail_msg("'%s' does not say '%s'", info->text, words);
}

/* ---- tokens ---- */

static void test_names_of_kv_types_are_choices(void **state)
{
    (void)state;
    for (int i = 0; i < ENGINE_KV_COUNT; i++)
        assert_non_null(engine_kv_names[i]);
    assert_null(engine_kv_names[ENGINE_KV_COUNT]);
    assert_string_equal(engine_kv_names[0], "f16");
    assert_string_equal(engine_kv_names[ENGINE_KV_Q8_0], "q8_0");
}

static enum err fail_tokenize(const struct engine *engine, struct str text, unsigned flags,
                              token_id *out, size_t max, size_t *count)
{
    (void)engine, (void)text, (void)flags, (void)out, (void)max, (void)count;
    return ERR_ENGINE;
}

static void test_tokenize(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    struct errinfo info = {0};
    token_id out[4] = {-5, -5, -5, -5};
    size_t count = 99;

    (void)state;
    assert_ok(engine_tokenize(engine, STR("abc"), 0, out, 3, &count, NULL));
    assert_int_equal(count, 3);
    assert_int_equal(out[2], 'c');
    assert_int_equal(out[3], -5);
    out[0] = -5;
    assert_err(engine_tokenize(engine, STR("abcd"), 0, out, 3, &count, &info), ERR_LIMIT);
    assert_int_equal(count, 4);
    assert_int_equal(out[0], -5);
    expect_sentence(&info, "the text has 4 tokens, there is room for 3");
    /* Never read: the length alone decides. */
    struct str huge = {"", (size_t)INT32_MAX + 1};
    assert_err(engine_tokenize(engine, huge, 0, out, 3, &count, &info), ERR_LIMIT);
    bend(engine)->tokenize = fail_tokenize;
    assert_err(engine_tokenize(engine, STR("abc"), 0, out, 3, &count, &info), ERR_ENGINE);
    expect_sentence(&info, "the tokenizer failed");
    engine_close(&engine);
}

static void test_tokens_that_do_not_exist(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    static const token_id none[] = {-1, ENGINE_FAKE_VOCAB, INT32_MAX, INT32_MIN};
    char out[8];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        assert_false(engine_token_valid(engine, none[i]));
        assert_int_equal(engine_token_bytes(engine, none[i], true, out, sizeof(out)), 0);
        assert_false(engine_token_is_end(engine, none[i]));
        assert_false(engine_token_is_control(engine, none[i]));
        assert_int_equal(engine_token_traits(engine, none[i]), 0);
    }
    assert_true(engine_token_valid(engine, 0));
    assert_true(engine_token_valid(engine, ENGINE_FAKE_VOCAB - 1));
    assert_true(engine_token_is_end(engine, ENGINE_FAKE_EOS));
    engine_close(&engine);
    assert_null(engine);
    engine_close(&engine); /* a no-op */
}

/* ---- sequences ---- */

static void test_sequences_run_out_and_come_back(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    seq_id seqs[SEQUENCES], none = 77;
    struct errinfo info = {0};

    (void)state;
    for (int i = 0; i < SEQUENCES; i++)
        seqs[i] = grow(engine, 10);
    assert_err(engine_seq_acquire(engine, &none, &info), ERR_LIMIT);
    assert_int_equal(none, SEQ_NONE);
    expect_sentence(&info, "all 4 sequences are in use");
    none = 77;
    assert_err(engine_seq_fork(engine, seqs[0], &none, &info), ERR_LIMIT);
    assert_int_equal(none, SEQ_NONE);
    expect_sentence(&info, "all 4 sequences are in use");
    assert_int_equal(engine_cells_free(engine), CONTEXT - SEQUENCES * 10);
    engine_seq_release(engine, &seqs[2]);
    assert_int_equal(seqs[2], SEQ_NONE);
    engine_seq_release(engine, &seqs[2]); /* a no-op */
    assert_ok(engine_seq_fork(engine, seqs[0], &seqs[2], NULL));
    assert_int_equal(engine_seq_length(engine, seqs[2]), 10);
    assert_int_equal(engine_cells_free(engine), CONTEXT - (SEQUENCES - 1) * 10);
    engine_close(&engine);
}

static bool never_cut(struct engine *engine, seq_id seq, uint32_t length)
{
    (void)engine, (void)seq, (void)length;
    fail_msg("the engine was asked to cut");
    return true;
}

static void test_truncate(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    seq_id seq = grow(engine, 30);
    struct errinfo info = {0};

    (void)state;
    assert_err(engine_seq_truncate(engine, seq, 31, &info), ERR_INVALID);
    expect_sentence(&info, "the sequence has 30 tokens, not 31");
    assert_ok(engine_seq_truncate(engine, seq, 12, NULL));
    assert_int_equal(engine_seq_length(engine, seq), 12);
    assert_int_equal(engine_cells_free(engine), CONTEXT - 12);
    assert_ok(engine_seq_truncate(engine, seq, 0, NULL));
    assert_int_equal(engine_cells_free(engine), CONTEXT);
    assert_ok(run(engine, seq, 5, NULL));
    bend(engine)->seq_cut = never_cut;
    assert_ok(engine_seq_truncate(engine, seq, 5, NULL)); /* it has that length already */
    assert_err(engine_seq_truncate(engine, seq, 6, NULL), ERR_INVALID);
    engine_close(&engine);
}

static void test_i17_a_refused_truncation_names_the_kinds(void **state)
{
    struct engine *engine = create(
        (struct engine_fake_options){.kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT)});
    seq_id seq = grow(engine, 30);
    struct errinfo info = {0};

    (void)state;
    assert_err(engine_seq_truncate(engine, seq, 29, &info), ERR_UNSUPPORTED);
    expect_sentence(&info, "recurrent cannot be cut at token 29");
    assert_int_equal(engine_seq_length(engine, seq), 30);
    assert_int_equal(engine_cells_free(engine), CONTEXT - 30);
    assert_ok(run(engine, seq, 1, NULL));
    engine_close(&engine);
}

/* ---- settling ---- */

static bool fail_settle(struct engine *engine, seq_id seq)
{
    (void)engine, (void)seq;
    return false;
}

static void test_settle(void **state)
{
    struct engine *engine = create((struct engine_fake_options){.kinds = KIND_BIT(KIND_SLIDING)});
    seq_id seq = acquire(engine);

    (void)state;
    assert_ok(engine_seq_settle(engine, seq, NULL));
    assert_int_equal(engine_fake_stats(engine).settles, 0); /* nothing to settle in an empty one */
    assert_ok(run(engine, seq, 3, NULL));
    assert_ok(engine_seq_settle(engine, seq, NULL));
    assert_int_equal(engine_fake_stats(engine).settles, 1);
    bend(engine)->seq_settle = NULL; /* an engine need not have it */
    assert_ok(engine_seq_settle(engine, seq, NULL));
    assert_int_equal(engine_seq_length(engine, seq), 3);
    assert_ok(run(engine, seq, 1, NULL));
    engine_close(&engine);
}

static void test_failed_settling_breaks_the_sequence(void **state)
{
    struct engine *engine = create((struct engine_fake_options){.kinds = KIND_BIT(KIND_SLIDING)});
    seq_id seq = grow(engine, 20), other = grow(engine, 20);
    struct errinfo info = {0};

    (void)state;
    bend(engine)->seq_settle = fail_settle;
    assert_err(engine_seq_settle(engine, seq, &info), ERR_ENGINE);
    expect_sentence(&info, "could not re-import the window");
    assert_true(broken(engine, seq));
    assert_false(broken(engine, other));
    engine_seq_release(engine, &seq);
    engine_seq_release(engine, &other);
    assert_int_equal(engine_cells_free(engine), CONTEXT);
    engine_close(&engine);
}

/* ---- running ---- */

static void test_batches_that_cannot_be(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    token_id strange[] = {0, ENGINE_FAKE_VOCAB}, negative = -1;
    seq_id a = grow(engine, 10), b = acquire(engine), gone = acquire(engine), was = gone;

    (void)state;
    engine_seq_release(engine, &gone);
    const struct {
        struct engine_item items[3];
        size_t count;
        const char *words;
    } bad[] = {
        {{{0}}, 0, "nothing to run"},
        {{{SEQ_NONE, tokens, 1, true}}, 1, "sequence -1 is not in use"},
        {{{was, tokens, 1, true}}, 1, "is not in use"},
        {{{SEQUENCES, tokens, 1, true}}, 1, "sequence 4 is not in use"},
        {{{INT32_MAX, tokens, 1, true}}, 1, "is not in use"},
        {{{a, tokens, 0, true}}, 1, "an item without tokens"},
        {{{a, tokens, 2, 3}}, 1, "logits of 3 tokens, the item has 2"},
        {{{a, strange, 2, true}}, 1, "token 260 is not in the vocabulary of 260"},
        {{{a, &negative, 1, true}}, 1, "token -1 is not in the vocabulary"},
        {{{a, tokens, 1, true}, {b, tokens, 1, true}, {a, tokens, 1, true}}, 3, "occurs twice"},
        {{{a, tokens, 1, true}, {b, &negative, 1, true}}, 2, "token -1 is not"},
        {{{a, tokens, CHUNK + SEQUENCES + 1, true}}, 1, "45 tokens in one batch, at most 40 + 4"},
        {{{a, tokens, CHUNK, true}, {b, tokens, SEQUENCES + 1, true}}, 2, "45 tokens in one batch"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct errinfo info = {0};
        assert_ok(run(engine, b, 1, NULL));
        assert_err(engine_run(engine, bad[i].items, bad[i].count, &info), ERR_INVALID);
        expect_sentence(&info, bad[i].words);
        assert_null(engine_logits(engine, 0)); /* of a run that did not happen */
        assert_int_equal(engine_seq_length(engine, a), 10);
        assert_int_equal(engine_cells_free(engine), CONTEXT - 10 - (i + 1));
    }
    struct engine_item most[] = {{a, tokens, CHUNK, CHUNK}, {b, tokens, SEQUENCES, false}};
    assert_ok(engine_run(engine, most, 2, NULL));
    assert_ptr_equal(engine_logits(engine, 0), engine_logits_nth(engine, 0, CHUNK - 1));
    assert_null(engine_logits_nth(engine, 0, CHUNK));
    assert_null(engine_logits_nth(engine, 1, 0));
    assert_null(engine_logits_nth(engine, 2, 0));
    assert_null(engine_logits(engine, 1)); /* not asked for */
    assert_null(engine_logits(engine, 2)); /* not run */
    assert_null(engine_logits(engine, SIZE_MAX));
    engine_close(&engine);
}

static void test_cells_run_out(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    seq_id a = grow(engine, 60), b = grow(engine, 35), fork;
    struct errinfo info = {0};

    (void)state;
    assert_ok(engine_seq_fork(engine, a, &fork, NULL));
    assert_int_equal(engine_cells_free(engine), 5);
    assert_err(run(engine, b, 6, &info), ERR_LIMIT);
    expect_sentence(&info, "no room for 6 more tokens: 5 of 100 are free");
    struct engine_item both[] = {{b, tokens, 3, true}, {fork, tokens, 3, true}};
    assert_err(engine_run(engine, both, 2, &info), ERR_LIMIT);
    assert_int_equal(engine_seq_length(engine, b), 35);
    both[1].count = 2;
    assert_ok(engine_run(engine, both, 2, &info));
    assert_int_equal(engine_cells_free(engine), 0);
    engine_seq_release(engine, &a); /* the fork needs its cells */
    assert_int_equal(engine_cells_free(engine), 0);
    engine_seq_release(engine, &fork);
    assert_int_equal(engine_cells_free(engine), 62);
    engine_close(&engine);
}

/* With streams each sequence has context / sequences cells, whatever the others do, and a fork
 * copies. */
static void test_streams_are_rooms_of_their_own(void **state)
{
    enum { ROOM = CONTEXT / SEQUENCES };
    struct engine *engine = create((struct engine_fake_options){.streams = true});
    seq_id full = grow(engine, ROOM), other = grow(engine, 10), fork;
    struct errinfo info = {0};

    (void)state;
    assert_int_equal(engine_cells_free(engine), ROOM);
    assert_err(run(engine, full, 1, &info), ERR_LIMIT);
    expect_sentence(&info, "no room for 1 more tokens in sequence");
    assert_err(run(engine, other, ROOM - 9, NULL), ERR_LIMIT);
    struct engine_item both[] = {{other, tokens, 1, true}, {full, tokens, 1, true}};
    assert_err(engine_run(engine, both, 2, NULL), ERR_LIMIT);
    assert_int_equal(engine_seq_length(engine, other), 10);
    assert_ok(engine_seq_fork(engine, full, &fork, NULL));
    assert_int_equal(engine_seq_length(engine, fork), ROOM);
    engine_seq_release(engine, &full);
    full = acquire(engine);
    struct engine_item wide[] = {{other, tokens, 15, true}, {full, tokens, 20, true}};
    assert_ok(engine_run(engine, wide, 2, NULL)); /* more than one room has */
    assert_err(run(engine, fork, 1, NULL), ERR_LIMIT);
    engine_seq_release(engine, &full);
    assert_ok(engine_seq_truncate(engine, fork, 5, NULL));
    assert_ok(run(engine, fork, ROOM - 5, NULL));
    assert_err(run(engine, other, 1, NULL), ERR_LIMIT);
    engine_close(&engine);
}

/* What a failed copy has is unknown: its slot stays unused until all sequences are empty. */
static void test_forks_that_fail(void **state)
{
    struct fault fault = {0};
    struct engine *engine =
        create((struct engine_fake_options){.streams = true, .fault_import = &fault});
    seq_id seq = grow(engine, 10), forks[SEQUENCES];
    struct errinfo info = {0};

    (void)state;
    fault_arm(&fault, 1, false);
    assert_err(engine_seq_fork(engine, seq, &forks[0], &info), ERR_ENGINE);
    expect_sentence(&info, "the library could not copy a sequence");
    assert_int_equal(forks[0], SEQ_NONE);
    fault_arm(&fault, 0, false);
    assert_ok(run(engine, seq, 1, NULL));
    for (int i = 0; i < SEQUENCES - 2; i++)
        assert_ok(engine_seq_fork(engine, seq, &forks[i], NULL));
    assert_err(engine_seq_fork(engine, seq, &forks[SEQUENCES - 2], NULL), ERR_LIMIT);
    for (int i = 0; i < SEQUENCES - 2; i++)
        engine_seq_release(engine, &forks[i]);
    engine_seq_release(engine, &seq);
    for (int i = 0; i < SEQUENCES; i++)
        forks[i] = acquire(engine);
    engine_close(&engine);
}

/* ---- runs that end badly ---- */

static void abort_second(struct engine *engine, void *arg)
{
    int *pieces = arg;

    if (++*pieces == 2)
        engine_abort(engine);
}

static void test_aborted_run_keeps_what_was_computed(void **state)
{
    int pieces = 0;
    struct engine *engine =
        create((struct engine_fake_options){.piece = 8, .on_piece = abort_second, .arg = &pieces});
    struct errinfo info = {0};
    seq_id seq = acquire(engine);

    (void)state;
    assert_err(run(engine, seq, 32, &info), ERR_CANCELLED);
    assert_int_equal(engine_seq_length(engine, seq) % 8, 0);
    assert_true(engine_seq_length(engine, seq) > 0 && engine_seq_length(engine, seq) < 32);
    assert_int_equal(engine_cells_free(engine), CONTEXT - engine_seq_length(engine, seq));
    assert_null(engine_logits(engine, 0));
    assert_ok(run(engine, seq, 1, NULL));
    engine_abort(engine); /* nothing runs: a no-op */
    assert_ok(run(engine, seq, 1, NULL));
    engine_close(&engine);
}

static void test_abort_breaks_what_cannot_be_cut(void **state)
{
    static const kind_set uncuttable[] = {KIND_BIT(KIND_RECURRENT),
                                          KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING)};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(uncuttable); i++) {
        int pieces = 0;
        struct engine *engine = create((struct engine_fake_options){
            .kinds = uncuttable[i], .piece = 8, .on_piece = abort_second, .arg = &pieces});
        seq_id other = grow(engine, 4), seq = acquire(engine);
        pieces = 0;
        assert_err(run(engine, seq, 32, NULL), ERR_CANCELLED);
        assert_true(broken(engine, seq));
        /* The library moves recurrent states of all sequences while it computes. */
        assert_int_equal(broken(engine, other), uncuttable[i] == KIND_BIT(KIND_RECURRENT));
        engine_seq_release(engine, &seq);
        engine_seq_release(engine, &other);
        assert_int_equal(engine_cells_free(engine), CONTEXT);
        assert_int_equal(engine_fake_stats(engine).cells_used, 0);
        engine_close(&engine);
    }
}

/* What a library does when it must not be trusted: `result` is its answer, `length` what it says
 * the sequence has. */
static struct {
    enum err result;
    uint32_t length;
} answer;

static enum err answer_run(struct engine *engine, const struct engine_item *items, size_t count,
                           struct errinfo *info)
{
    (void)engine, (void)items, (void)count;
    return err_set(info, answer.result, "as the test wants it");
}

static uint32_t answer_length(struct engine *engine, seq_id seq)
{
    (void)engine, (void)seq;
    return answer.length;
}

static void test_books_after_every_answer(void **state)
{
    static const struct {
        enum err result;
        uint32_t length; /* before: 10; the run: 5 */
        bool breaks;
        uint32_t length_after;
    } answers[] = {
        {ERR_LIMIT, 99, false, 10}, /* nothing has changed: the length is not even asked for */
        {ERR_INVALID, 99, false, 10},   {ERR_CANCELLED, 10, false, 10},
        {ERR_CANCELLED, 13, false, 13}, {ERR_CANCELLED, 15, false, 15},
        {ERR_CANCELLED, 16, true, 10},  {ERR_CANCELLED, 9, true, 10},
        {ERR_CANCELLED, 0, true, 10},   {ERR_ENGINE, 10, true, 10},
        {ERR_ENGINE, 13, true, 10},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        struct engine *engine = create((struct engine_fake_options){0});
        seq_id seq = grow(engine, 10);
        struct errinfo info = {0};
        const struct engine_ops *right = engine->ops;
        answer.result = answers[i].result;
        answer.length = answers[i].length;
        bend(engine)->run = answer_run;
        bend(engine)->seq_length = answer_length;
        assert_err(run(engine, seq, 5, &info), answers[i].result);
        assert_string_equal(info.text, "as the test wants it");
        assert_null(engine_logits(engine, 0));
        assert_int_equal(engine_seq_length(engine, seq), answers[i].length_after);
        assert_int_equal(engine_cells_free(engine), CONTEXT - answers[i].length_after);
        engine->ops = right;
        if (broken(engine, seq) != answers[i].breaks)
            fail_msg("answer %zu", i);
        engine_seq_release(engine, &seq);
        assert_int_equal(engine_cells_free(engine), CONTEXT);
        engine_close(&engine);
    }
}

/* All sequences of a failed batch are broken, the others are not, and their slots can be used
 * again. */
static void test_failed_run_breaks_its_sequences_alone(void **state)
{
    struct fault fault = {0};
    struct engine *engine = create((struct engine_fake_options){.fault_run = &fault});
    seq_id a = grow(engine, 10), b = grow(engine, 10), c = grow(engine, 10);
    struct engine_item items[] = {{a, tokens, 2, true}, {b, tokens, 2, true}};
    struct errinfo info = {0};

    (void)state;
    fault_arm(&fault, 1, false);
    assert_err(engine_run(engine, items, 2, &info), ERR_ENGINE);
    fault_arm(&fault, 0, false);
    assert_true(info.text[0] != '\0');
    assert_true(broken(engine, a) && broken(engine, b));
    assert_false(broken(engine, c));
    assert_true(engine_cells_free(engine) <= CONTEXT - 31); /* a broken sequence keeps its cells */
    engine_seq_release(engine, &a);
    engine_seq_release(engine, &b);
    assert_int_equal(engine_cells_free(engine), CONTEXT - 11);
    a = grow(engine, CHUNK);
    assert_false(broken(engine, a));
    engine_close(&engine);
}

/* ---- pictures ---- */

static enum err answer_picture(struct engine *engine, seq_id seq, const struct picture_piece *piece,
                               struct errinfo *info)
{
    (void)engine, (void)seq, (void)piece;
    return answer.result == ERR_OK ? ERR_OK : err_set(info, answer.result, "as the test wants it");
}

static void test_a_picture_is_a_run_as_well(void **state)
{
    struct engine *engine = create((struct engine_fake_options){
        .kinds = KIND_BIT(KIND_SLIDING), .window = 16, .rollback = 20});
    const struct picture_piece piece = {.count = 3, .positions = 3};
    seq_id seq = grow(engine, 10);

    (void)state;
    assert_ok(run(engine, seq, 8, NULL));
    bend(engine)->run_picture = answer_picture;
    answer.result = ERR_OK;
    assert_ok(engine_run_picture(engine, seq, &piece, NULL));
    assert_int_equal(engine_seq_length(engine, seq), 21);
    /* Tokens of the run before it cannot be removed any more: rows may be overwritten. */
    assert_err(engine_seq_truncate(engine, seq, 14, NULL), ERR_UNSUPPORTED);
    engine_close(&engine);
}

/* What a failed run does to states that were rolled back, a failed picture does as well. */
static void test_failed_pictures(void **state)
{
    static const enum err results[] = {ERR_LIMIT, ERR_CANCELLED, ERR_ENGINE};
    const struct picture_piece piece = {.count = 3, .positions = 3};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        bool fails = results[i] != ERR_LIMIT;
        struct engine *engine = create((struct engine_fake_options){
            .kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT), .rollback = 5});
        seq_id seq = grow(engine, 10), rolled = grow(engine, 10), other = grow(engine, 10);
        assert_ok(engine_seq_truncate(engine, rolled, 8, NULL));
        const struct engine_ops *right = engine->ops;
        bend(engine)->run_picture = answer_picture;
        answer.result = results[i];
        assert_err(engine_run_picture(engine, seq, &piece, NULL), results[i]);
        engine->ops = right;
        assert_int_equal(broken(engine, seq), fails);
        assert_int_equal(broken(engine, rolled), fails);
        assert_int_equal(broken(engine, other), fails); /* its recurrent state, as after a run */
        engine_close(&engine);
    }
}

/* ---- our own bugs ---- */

static void use_broken(struct engine *engine, seq_id seq, int how)
{
    seq_id fork;
    enum err err;

    if (how == 0)
        err = engine_seq_fork(engine, seq, &fork, NULL);
    else if (how == 1)
        err = engine_seq_truncate(engine, seq, 1, NULL);
    else
        err = engine_seq_settle(engine, seq, NULL);
    (void)err;
}

static void test_using_a_broken_sequence_aborts(void **state)
{
    struct engine *engine = create((struct engine_fake_options){0});
    seq_id seq = grow(engine, 10);
    int status;

    (void)state;
    bend(engine)->seq_settle = fail_settle;
    assert_err(engine_seq_settle(engine, seq, NULL), ERR_ENGINE);
    for (int how = 0; how < 3; how++) {
        pid_t pid = fork();
        if (pid == 0) {
            close(STDERR_FILENO);
            signal(SIGABRT, SIG_DFL); /* cmocka catches it */
            use_broken(engine, seq, how);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    engine_close(&engine);
}

TEST_SUITE(TEST(test_names_of_kv_types_are_choices), TEST(test_tokenize),
           TEST(test_tokens_that_do_not_exist), TEST(test_sequences_run_out_and_come_back),
           TEST(test_truncate), TEST(test_i17_a_refused_truncation_names_the_kinds),
           TEST(test_settle), TEST(test_failed_settling_breaks_the_sequence),
           TEST(test_batches_that_cannot_be), TEST(test_cells_run_out),
           TEST(test_streams_are_rooms_of_their_own), TEST(test_forks_that_fail),
           TEST(test_aborted_run_keeps_what_was_computed),
           TEST(test_abort_breaks_what_cannot_be_cut), TEST(test_books_after_every_answer),
           TEST(test_failed_run_breaks_its_sequences_alone), TEST(test_a_picture_is_a_run_as_well),
           TEST(test_failed_pictures), TEST(test_using_a_broken_sequence_aborts))
