/*
 * The libllama engine on tiny models: tokens, sequences, running, aborting.
 */
#include "engine/engine.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine_llama.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

static void test_tokens_round_trip(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    const char *text = "if (x != NULL) { return \"\xE2\x82\xAC 5\"; }\n<|im_end|>";
    token_id tokens[256];
    size_t count, control_count, len = 0;
    char back[512];

    (void)state;
    assert_ok(engine_tokenize(engine, str_from(text), 0, tokens, COUNT_OF(tokens), &count, NULL));
    for (size_t i = 0; i < count; i++) {
        assert_false(engine_token_is_control(engine, tokens[i]));
        len += engine_token_bytes(engine, tokens[i], true, back + len, sizeof(back) - len);
    }
    assert_int_equal(len, strlen(text));
    assert_memory_equal(back, text, len);

    assert_ok(engine_tokenize(engine, str_from(text), ENGINE_TOKENIZE_CONTROL, tokens,
                              COUNT_OF(tokens), &control_count, NULL));
    assert_true(control_count < count);
    assert_true(engine_token_is_control(engine, tokens[control_count - 1]));
    assert_int_equal(engine_token_traits(engine, tokens[control_count - 1]), ENGINE_TOKEN_CONTROL);
    assert_int_equal(engine_token_traits(engine, 'a'), 0);
    assert_int_equal(
        engine_token_bytes(engine, tokens[control_count - 1], false, back, sizeof(back)), 0);

    assert_err(engine_tokenize(engine, str_from(text), 0, tokens, 3, &len, NULL), ERR_LIMIT);
    assert_int_equal(len, count);
    assert_ok(engine_tokenize(engine, STR(""), 0, tokens, 0, &len, NULL));
    assert_int_equal(len, 0);
    assert_ok(engine_tokenize(engine, STR("<think>"), 0, tokens, COUNT_OF(tokens), &len, NULL));
    assert_int_equal(len, 1);
    assert_int_equal(engine_token_traits(engine, tokens[0]), ENGINE_TOKEN_MARKER);
    assert_int_equal(engine_token_bytes(engine, -1, true, back, sizeof(back)), 0);
    assert_int_equal(engine_token_bytes(engine, 1 << 30, true, back, sizeof(back)), 0);
    engine_close(&engine);
}

/* ---- running ---- */

static void fill_tokens(token_id *tokens, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (token_id)test_random_below(&seed, 256);
}

static enum err run_one(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count,
                        struct errinfo *info)
{
    struct engine_item item = {seq, tokens, count, true};

    return engine_run(engine, &item, 1, info);
}

static void test_bad_batches_are_refused_and_change_nothing(void **state)
{
    struct engine *engine = test_engine("qwen3", NULL);
    token_id tokens[200], bad = (token_id)engine_facts(engine)->vocab, negative = -1;
    struct errinfo info = {0};
    seq_id seq, other;

    (void)state;
    fill_tokens(tokens, COUNT_OF(tokens), 1);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(engine_seq_acquire(engine, &other, NULL));
    assert_err(engine_run(engine, NULL, 0, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, &bad, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, &negative, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, tokens, 0, &info), ERR_INVALID);
    assert_err(run_one(engine, seq, tokens, 200, &info), ERR_INVALID); /* chunk 128 + 6 sequences */
    assert_err(run_one(engine, SEQ_NONE, tokens, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, 5, tokens, 1, &info), ERR_INVALID);
    assert_err(run_one(engine, 1 << 30, tokens, 1, &info), ERR_INVALID);
    struct engine_item twice[] = {
        {seq, tokens, 1, true}, {other, tokens, 1, true}, {seq, tokens, 1, true}};
    assert_err(engine_run(engine, twice, 3, &info), ERR_INVALID);
    assert_null(engine_logits(engine, 0));
    assert_int_equal(engine_seq_length(engine, seq), 0);
    assert_int_equal(engine_cells_free(engine), 4096);
    assert_ok(engine_run(engine, twice, 2, &info));
    assert_non_null(engine_logits(engine, 1));
    assert_null(engine_logits(engine, 2));
    engine_seq_release(engine, &seq);
    engine_seq_release(engine, &other);
    engine_seq_release(engine, &other); /* a no-op */
    assert_int_equal(engine_cells_free(engine), 4096);
    engine_close(&engine);
}

static void test_sequences_and_cells_have_limits(void **state)
{
    struct engine_options options = {.context = 256, .sequences = 3, .chunk = 64, .threads = 1};
    struct engine *engine = test_engine("qwen3", &options);
    token_id tokens[64];
    seq_id seqs[3], none;
    struct errinfo info = {0};

    (void)state;
    fill_tokens(tokens, 64, 2);
    for (int i = 0; i < 3; i++)
        assert_ok(engine_seq_acquire(engine, &seqs[i], NULL));
    assert_err(engine_seq_acquire(engine, &none, &info), ERR_LIMIT);
    assert_int_equal(none, SEQ_NONE);
    for (int i = 0; i < 4; i++)
        assert_ok(run_one(engine, seqs[0], tokens, 64, &info));
    assert_int_equal(engine_cells_free(engine), 0);
    assert_err(run_one(engine, seqs[1], tokens, 1, &info), ERR_LIMIT);
    assert_int_equal(engine_seq_length(engine, seqs[1]), 0);
    assert_ok(engine_seq_truncate(engine, seqs[0], 100, NULL));
    assert_int_equal(engine_cells_free(engine), 156);
    assert_err(engine_seq_truncate(engine, seqs[0], 101, NULL), ERR_INVALID);
    assert_ok(run_one(engine, seqs[1], tokens, 64, &info));
    for (int i = 0; i < 3; i++)
        engine_seq_release(engine, &seqs[i]);
    assert_int_equal(engine_cells_free(engine), 256);
    engine_close(&engine);
}

/* engine_run takes chunk + sequences tokens, however small the context and the chunks are. */
static void test_small_engines_keep_their_promise(void **state)
{
    static const struct engine_options small[] = {
        {.context = 1, .sequences = 3, .chunk = 1, .threads = 1},
        {.context = 1, .sequences = 60, .streams = true, .threads = 1},
        {.context = 64, .sequences = 8, .threads = 1},
        {.context = 100, .sequences = 254, .chunk = 7, .threads = 1},
        {.context = 256, .sequences = 1, .chunk = 256, .threads = 1},
    };
    token_id tokens[256];

    (void)state;
    fill_tokens(tokens, COUNT_OF(tokens), 4);
    for (size_t i = 0; i < COUNT_OF(small); i++) {
        struct engine *engine = test_engine("qwen35", &small[i]);
        const struct engine_facts *facts = engine_facts(engine);
        struct engine_item items[256];
        uint32_t count = MIN(facts->sequences, engine_cells_free(engine) - facts->chunk + 1);
        for (uint32_t k = 0; k < count; k++) {
            items[k] = (struct engine_item){
                .tokens = tokens, .count = k ? 1 : facts->chunk, .logits = true};
            assert_ok(engine_seq_acquire(engine, &items[k].seq, NULL));
        }
        assert_true(facts->context >= small[i].context);
        assert_ok(engine_run(engine, items, count, NULL));
        for (uint32_t k = 0; k < count; k++)
            assert_non_null(engine_logits(engine, k));
        engine_close(&engine);
    }
}

/* A batch of several sequences gives each the logits that it has alone, within rounding. */
static void test_batched_sequences_do_not_mix(void **state)
{
    enum { N = 4, LEN = 30 };
    struct engine *engine = test_engine("qwen35", NULL);
    uint32_t vocab = engine_facts(engine)->vocab;
    token_id tokens[N][LEN];
    struct engine_item items[N];
    float *alone = mem_alloc(N * vocab * sizeof(float));
    seq_id seq;

    (void)state;
    for (int i = 0; i < N; i++) {
        fill_tokens(tokens[i], LEN, 10 + (uint64_t)i);
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        assert_ok(run_one(engine, seq, tokens[i], LEN, NULL));
        memcpy(alone + (size_t)i * vocab, engine_logits(engine, 0), vocab * sizeof(float));
        engine_seq_release(engine, &seq);
    }
    for (int i = 0; i < N; i++) {
        items[i] = (struct engine_item){.tokens = tokens[i], .count = LEN, .logits = i != 2};
        assert_ok(engine_seq_acquire(engine, &items[i].seq, NULL));
    }
    assert_ok(engine_run(engine, items, N, NULL));
    assert_null(engine_logits(engine, 2));
    for (int i = 0; i < N; i++)
        for (uint32_t k = 0; i != 2 && k < vocab; k++)
            assert_true(fabsf(engine_logits(engine, (size_t)i)[k] - alone[(size_t)i * vocab + k]) <
                        0.02f);
    mem_free(alone);
    engine_close(&engine);
}

/* Several logits of one item are those of single steps within rounding, and bit for bit those of
 * another run in which the batch has the same shape. More than the engine has room for are refused. */
static void test_several_outputs_equal_single_steps(void **state)
{
    enum { LEN = 40, OUTPUTS = 9 };
    struct engine *engine = test_engine("qwen3", NULL);
    const struct engine_facts *facts = engine_facts(engine);
    size_t bytes = facts->vocab * sizeof(float);
    float *batch = mem_alloc(OUTPUTS * bytes);
    token_id tokens[100];
    seq_id seq;

    (void)state;
    fill_tokens(tokens, COUNT_OF(tokens), 21);
    for (int pass = 0; pass < 2; pass++) {
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        struct engine_item item = {seq, tokens, LEN, OUTPUTS};
        assert_ok(engine_run(engine, &item, 1, NULL));
        for (uint32_t nth = 0; nth < OUTPUTS; nth++) {
            float *kept = batch + (size_t)nth * facts->vocab;
            if (pass > 0)
                assert_memory_equal(kept, engine_logits_nth(engine, 0, nth), bytes);
            memcpy(kept, engine_logits_nth(engine, 0, nth), bytes);
        }
        engine_seq_release(engine, &seq);
    }
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, LEN - OUTPUTS, NULL));
    for (uint32_t nth = 0; nth < OUTPUTS; nth++) {
        assert_ok(run_one(engine, seq, tokens + LEN - OUTPUTS + nth, 1, NULL));
        for (uint32_t k = 0; k < facts->vocab; k++)
            assert_true(fabsf(engine_logits(engine, 0)[k] - batch[nth * facts->vocab + k]) < 0.02f);
    }
    struct engine_item item = {seq, tokens, 100, facts->outputs + 1};
    assert_err(engine_run(engine, &item, 1, NULL), ERR_INVALID);
    item.logits = facts->outputs;
    assert_ok(engine_run(engine, &item, 1, NULL));
    assert_non_null(engine_logits_nth(engine, 0, facts->outputs - 1));
    mem_free(batch);
    engine_close(&engine);
}

static void *abort_later(void *arg)
{
    usleep(2000);
    engine_abort(arg);
    return NULL;
}

/* Aborts at some moment of a long run; the sequence then either ends at a whole chunk and goes on
 * like a control, or is broken and can only be released. Never a third outcome. */
static void abort_and_go_on(const char *family, bool sliceable)
{
    struct engine_options options = {.context = 4096, .sequences = 3, .chunk = 512, .threads = 1};
    struct engine *engine = test_engine(family, &options);
    uint32_t vocab = engine_facts(engine)->vocab;
    float *control = mem_alloc(vocab * sizeof(float));
    token_id tokens[513];
    pthread_t thread;
    int aborted = 0;
    seq_id seq;

    fill_tokens(tokens, COUNT_OF(tokens), 3);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, 512, NULL));
    assert_ok(run_one(engine, seq, tokens + 512, 1, NULL));
    memcpy(control, engine_logits(engine, 0), vocab * sizeof(float));
    engine_seq_release(engine, &seq);
    for (int i = 0; i < 10; i++) {
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        assert_int_equal(pthread_create(&thread, NULL, abort_later, engine), 0);
        enum err err = run_one(engine, seq, tokens, 512, NULL);
        pthread_join(thread, NULL);
        if (err == ERR_CANCELLED) {
            aborted++;
            assert_null(engine_logits(engine, 0));
            if (sliceable)
                err = run_one(engine, seq, tokens, 512, NULL);
            else
                assert_err(run_one(engine, seq, tokens, 1, NULL), ERR_INVALID);
        }
        if (err == ERR_OK) {
            assert_ok(run_one(engine, seq, tokens + 512, 1, NULL));
            assert_memory_equal(engine_logits(engine, 0), control, vocab * sizeof(float));
        }
        engine_seq_release(engine, &seq);
    }
    assert_true(aborted > 0);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, 512, NULL));
    assert_ok(run_one(engine, seq, tokens + 512, 1, NULL));
    assert_memory_equal(engine_logits(engine, 0), control, vocab * sizeof(float));
    engine_abort(engine); /* nothing runs: a no-op */
    assert_ok(run_one(engine, seq, tokens, 1, NULL));
    mem_free(control);
    engine_close(&engine);
}

static void test_abort_keeps_whole_chunks(void **state)
{
    (void)state;
    abort_and_go_on("qwen3", true);
}

static void test_abort_breaks_what_cannot_be_cut(void **state)
{
    (void)state;
    abort_and_go_on("qwen35", false);
}

static struct engine *aborting;

static void abort_at_tick(void *arg)
{
    if (*(bool *)arg)
        engine_abort(aborting);
}

/* Two sequences; the run of one is aborted, and it is released. The other goes on as a control, or
 * is broken as well: the library may have moved its recurrent state. */
static void abort_beside(const char *family)
{
    bool armed = false;
    struct engine_options options = {.context = 1024,
                                     .sequences = 3,
                                     .chunk = 64,
                                     .threads = 1,
                                     .on_tick = abort_at_tick,
                                     .tick_arg = &armed};
    struct engine *engine = aborting = test_engine(family, &options);
    uint32_t vocab = engine_facts(engine)->vocab;
    float *control = mem_alloc(vocab * sizeof(float));
    token_id tokens[65];
    seq_id seq, other;

    fill_tokens(tokens, COUNT_OF(tokens), 4);
    for (int i = 0; i < 2; i++) {
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        assert_ok(run_one(engine, seq, tokens, 64, NULL));
        assert_ok(engine_seq_acquire(engine, &other, NULL));
        assert_ok(run_one(engine, other, tokens + 1, 40, NULL));
        armed = i > 0;
        if (armed)
            assert_err(run_one(engine, other, tokens, 20, NULL), ERR_CANCELLED);
        armed = false;
        engine_seq_release(engine, &other);
        if (i > 0 && (engine_facts(engine)->kinds & KIND_BIT(KIND_RECURRENT))) {
            assert_err(run_one(engine, seq, tokens + 64, 1, NULL), ERR_INVALID);
            break;
        }
        assert_ok(run_one(engine, seq, tokens + 64, 1, NULL));
        for (uint32_t k = 0; i > 0 && k < vocab; k++)
            assert_true(fabsf(engine_logits(engine, 0)[k] - control[k]) < 0.02f);
        memcpy(control, engine_logits(engine, 0), vocab * sizeof(float));
        engine_seq_release(engine, &seq);
    }
    mem_free(control);
    engine_close(&engine);
}

static void test_broken_sequences_leave_others_alone(void **state)
{
    static const char *const families[] = {"qwen3", "gemma3", "qwen35", "mamba2"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++)
        abort_beside(families[i]);
}

/* ---- forks with a cache per sequence ---- */

enum { STREAM_TOKENS = 40 };

static struct state_object export_all(struct engine *engine, seq_id seq)
{
    uint64_t bytes = state_whole_bytes(engine, seq);
    void *data = mem_alloc(bytes);
    struct state_object object = {.data = data};

    assert_ok(state_export_whole(engine, seq, data, bytes, &object.shape, NULL));
    return object;
}

static seq_id import_all(struct engine *engine, const struct state_object *object)
{
    struct state_restore restore = {.rows = object, .rows_count = 1, .length = STREAM_TOKENS};
    seq_id seq;

    assert_ok(state_import(engine, &restore, &seq, NULL));
    return seq;
}

/* The next token of the sequence has these logits, or puts them there. */
static void expect_next(struct engine *engine, seq_id seq, float *logits, bool put)
{
    token_id next = 'n';
    uint32_t vocab = engine_facts(engine)->vocab;

    assert_ok(run_one(engine, seq, &next, 1, NULL));
    const float *now = engine_logits(engine, 0);
    for (uint32_t i = 0; i < vocab; i++) {
        if (put)
            logits[i] = now[i];
        else if (fabsf(logits[i] - now[i]) > 1e-3f)
            fail_msg("logit %u is %f, not %f", i, (double)now[i], (double)logits[i]);
    }
}

/* A fork is a copy at once: it can be exported, and its memory and that of its source can be used
 * for other state, before anything runs. */
static void check_forks_of_streams(const char *family)
{
    struct engine_options options = {
        .context = 1024, .sequences = 4, .chunk = 64, .threads = 1, .streams = true};
    struct engine *engine = test_engine(family, &options);
    uint32_t vocab = engine_facts(engine)->vocab;
    float *logits[2] = {mem_alloc(vocab * sizeof(float)), mem_alloc(vocab * sizeof(float))};
    struct state_object objects[2], forked;
    token_id tokens[2][STREAM_TOKENS];
    seq_id seq, fork, other;

    for (int i = 0; i < 2; i++) {
        fill_tokens(tokens[i], STREAM_TOKENS, 70 + (uint64_t)i);
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        assert_ok(run_one(engine, seq, tokens[i], STREAM_TOKENS, NULL));
        objects[i] = export_all(engine, seq);
        expect_next(engine, seq, logits[i], true);
        engine_seq_release(engine, &seq);
    }
    /* exported */
    seq = import_all(engine, &objects[0]);
    assert_ok(engine_seq_fork(engine, seq, &fork, NULL));
    forked = export_all(engine, fork);
    engine_seq_release(engine, &fork);
    other = import_all(engine, &forked);
    expect_next(engine, other, logits[0], false);
    engine_seq_release(engine, &other);
    /* released, and its memory used again */
    assert_ok(engine_seq_fork(engine, seq, &fork, NULL));
    engine_seq_release(engine, &fork);
    other = import_all(engine, &objects[1]);
    expect_next(engine, other, logits[1], false);
    engine_seq_release(engine, &other);
    /* the same of its source */
    assert_ok(engine_seq_fork(engine, seq, &fork, NULL));
    engine_seq_release(engine, &seq);
    other = import_all(engine, &objects[1]);
    expect_next(engine, fork, logits[0], false);
    expect_next(engine, other, logits[1], false);
    mem_free((void *)forked.data);
    for (int i = 0; i < 2; i++) {
        mem_free((void *)objects[i].data);
        mem_free(logits[i]);
    }
    engine_close(&engine);
}

/* When windows are lost, nothing that has one is stored. */
static void test_lost_windows_are_not_exported(void **state)
{
    struct engine_options options = {.context = 1024, .sequences = 2, .chunk = 64, .threads = 1};
    struct engine *engine = test_engine("gemma3", &options);
    token_id tokens[STREAM_TOKENS];
    struct state_shape shape;
    seq_id seq;

    (void)state;
    fill_tokens(tokens, STREAM_TOKENS, 9);
    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    assert_ok(run_one(engine, seq, tokens, STREAM_TOKENS, NULL));
    uint64_t bytes = state_whole_bytes(engine, seq);
    void *data = mem_alloc(bytes);
    assert_ok(state_export_whole(engine, seq, data, bytes, &shape, NULL));
    engine_llama_of(engine)->lost = true;
    assert_err(state_export_whole(engine, seq, data, bytes, &shape, NULL), ERR_ENGINE);
    assert_err(state_export_snapshot(engine, seq, data, bytes, &shape, NULL), ERR_ENGINE);
    mem_free(data);
    engine_close(&engine);
}

static void test_forks_of_streams_are_copies_at_once(void **state)
{
    static const char *const families[] = {"qwen3", "qwen35", "gemma3", "mamba2"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++)
        check_forks_of_streams(families[i]);
}

TEST_SUITE(TEST(test_tokens_round_trip), TEST(test_bad_batches_are_refused_and_change_nothing),
           TEST(test_sequences_and_cells_have_limits), TEST(test_small_engines_keep_their_promise),
           TEST(test_batched_sequences_do_not_mix), TEST(test_several_outputs_equal_single_steps),
           TEST(test_abort_keeps_whole_chunks), TEST(test_abort_breaks_what_cannot_be_cut),
           TEST(test_broken_sequences_leave_others_alone),
           TEST(test_forks_of_streams_are_copies_at_once), TEST(test_lost_windows_are_not_exported))
