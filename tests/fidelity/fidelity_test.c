/*
 * fidelity_test.c: a restored run equals a cold one (keeps I110).
 *
 * For each family of models a random prompt is run cold by the canonical schedule, exporting rows
 * and snapshots at every cut. Then everything is forgotten and the prompt is restored at one
 * boundary after the other and run to its end: logits of the last token bit for bit, and the greedy
 * continuation token for token. The cold run is made without exporting as well: looking must not
 * change anything.
 *
 * Nothing is compared within a tolerance. Other chunks and other neighbours have other last bits,
 * and where two experts are nearly even a last bit decides between them: cold runs of one prompt in
 * different chunks differ by up to 0.5 in a logit (qwen3moe). So what cannot be run in the chunks
 * of the cold run is compared with a sequence that ran in the same chunks and never left the
 * engine.
 *
 * HEARTH_FIDELITY_ROUNDS=n repeats each test with n seeds, with longer prompts and answers (make
 * fidelity). Even the shortest prompt has two whole chunks and four marks, and is longer than the
 * windows of these models.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/schedule.h"
#include "lab/model_make.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

enum { PROMPT_MAX = 1200, CUTS_MAX = 64, GREEDY = 32, MARKS = 4 };

/* Rounds of `make fidelity`; 0 = a part of `make test`. */
static long rounds(void)
{
    const char *text = getenv("HEARTH_FIDELITY_ROUNDS");

    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* How a run ends: the logits of its last token, and what is generated from there. */
struct ending {
    float *logits;
    token_id greedy[GREEDY];
};

/* A prompt, its schedule, and what a cold run of it left behind. */
struct run {
    struct engine *engine;
    token_id tokens[PROMPT_MAX];
    uint32_t marks[MARKS];
    struct schedule schedule;
    uint32_t cuts[CUTS_MAX]; /* ends of chunks; the last is count - 1 */
    size_t cuts_count;
    struct state_object rows[CUTS_MAX], snapshots[CUTS_MAX];
    struct ending cold;
};

static const struct engine_facts *facts_of(const struct run *run)
{
    return engine_facts(run->engine);
}

static void run_tokens(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count,
                       bool logits)
{
    struct errinfo info = {0};
    struct engine_item item = {seq, tokens, count, logits};

    if (engine_run(engine, &item, 1, &info) != ERR_OK)
        fail_msg("engine_run: %s", info.text);
}

static token_id argmax(const float *logits, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (token_id)best;
}

static struct ending make_ending(const struct run *run)
{
    return (struct ending){.logits = mem_alloc(facts_of(run)->vocab * sizeof(float))};
}

static void make_prompt(struct run *run, struct engine *engine, uint32_t count, uint32_t grid,
                        uint64_t *seed)
{
    memset(run, 0, sizeof(*run));
    run->engine = engine;
    for (uint32_t i = 0; i < count; i++)
        run->tokens[i] = (token_id)test_random_below(seed, 256);
    run->marks[0] = 1;              /* the shortest boundary there is */
    for (int i = 1; i < MARKS; i++) /* one in each quarter, so that they ascend */
        run->marks[i] =
            count * (uint32_t)i / MARKS + 1 + (uint32_t)test_random_below(seed, count / MARKS - 1);
    run->schedule =
        (struct schedule){.count = count, .grid = grid, .marks = run->marks, .marks_count = MARKS};
    for (uint32_t at = 0; at < count - 1;) {
        at = schedule_next(&run->schedule, at);
        assert_true(run->cuts_count < CUTS_MAX);
        run->cuts[run->cuts_count++] = at;
    }
    run->cold = make_ending(run);
}

static void free_run(struct run *run)
{
    for (size_t i = 0; i < CUTS_MAX; i++) {
        mem_free((void *)run->rows[i].data);
        mem_free((void *)run->snapshots[i].data);
    }
    mem_free(run->cold.logits);
}

static void export_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                        struct state_object *object)
{
    uint64_t capacity = state_rows_capacity(engine, end - begin);
    void *data = mem_alloc(capacity);
    struct errinfo info = {0};

    mem_free((void *)object->data);
    object->data = data;
    if (state_export_rows(engine, seq, begin, end, data, capacity, &object->shape, &info) != ERR_OK)
        fail_msg("export rows %u..%u: %s", begin, end, info.text);
    assert_int_equal(object->shape.bytes, state_rows_bytes(engine, end - begin));
}

static void export_snapshot(struct engine *engine, seq_id seq, struct state_object *object)
{
    uint64_t capacity = state_snapshot_bytes(engine, seq);
    void *data = mem_alloc(capacity);
    struct errinfo info = {0};

    mem_free((void *)object->data);
    object->data = data;
    if (state_export_snapshot(engine, seq, data, capacity, &object->shape, &info) != ERR_OK)
        fail_msg("export snapshot: %s", info.text);
}

/* Exports what was computed between two cuts, and the state at the second. */
static void capture(struct run *run, seq_id seq, size_t cut)
{
    if (facts_of(run)->rows_bytes_per_token > 0)
        export_rows(run->engine, seq, cut ? run->cuts[cut - 1] : 0, run->cuts[cut],
                    &run->rows[cut]);
    if (kind_set_needs_snapshot(facts_of(run)->kinds))
        export_snapshot(run->engine, seq, &run->snapshots[cut]);
}

/* Runs the last token and the greedy continuation. */
static void finish(struct run *run, seq_id seq, struct ending *out)
{
    uint32_t vocab = facts_of(run)->vocab, last = run->schedule.count - 1;
    int greedy = rounds() > 0 ? GREEDY : GREEDY / 4;

    run_tokens(run->engine, seq, run->tokens + last, 1, true);
    memcpy(out->logits, engine_logits(run->engine, 0), vocab * sizeof(float));
    for (int i = 0; i < greedy; i++) {
        out->greedy[i] = argmax(engine_logits(run->engine, 0), vocab);
        run_tokens(run->engine, seq, &out->greedy[i], 1, true);
    }
}

static void settle(struct run *run, seq_id seq)
{
    struct errinfo info = {0};

    if (engine_seq_settle(run->engine, seq, &info) != ERR_OK)
        fail_msg("settle: %s", info.text);
}

static seq_id acquire(struct engine *engine)
{
    struct errinfo info = {0};
    seq_id seq;

    if (engine_seq_acquire(engine, &seq, &info) != ERR_OK)
        fail_msg("acquire: %s", info.text);
    return seq;
}

static void run_chunk(struct run *run, seq_id seq, size_t cut)
{
    uint32_t begin = cut > 0 ? run->cuts[cut - 1] : 0;

    run_tokens(run->engine, seq, run->tokens + begin, run->cuts[cut] - begin, false);
    settle(run, seq);
}

/* A cold run, with or without exporting on the way. */
static void run_cold(struct run *run, bool with_capture, struct ending *out)
{
    seq_id seq = acquire(run->engine);

    for (size_t i = 0; i < run->cuts_count; i++) {
        run_chunk(run, seq, i);
        if (with_capture)
            capture(run, seq, i);
    }
    finish(run, seq, out);
    engine_seq_release(run->engine, &seq);
}

/* A sequence at a cut that was computed and never left the engine. */
static seq_id compute(struct run *run, size_t cut)
{
    seq_id seq = acquire(run->engine);

    for (size_t i = 0; i <= cut; i++)
        run_chunk(run, seq, i);
    return seq;
}

/* Restores at cut `cut` from the objects given and runs the rest of the schedule. */
static seq_id restore(struct run *run, const struct state_object *rows, size_t rows_count,
                      size_t cut)
{
    const struct state_object *snapshot = run->snapshots[cut].data ? &run->snapshots[cut] : NULL;
    struct state_restore restore = {
        .rows = rows,
        .rows_count = facts_of(run)->rows_bytes_per_token ? rows_count : 0,
        .snapshot = snapshot,
        .length = run->cuts[cut],
    };
    struct errinfo info = {0};
    seq_id seq;

    if (state_import(run->engine, &restore, &seq, &info) != ERR_OK)
        fail_msg("import at %u: %s", run->cuts[cut], info.text);
    assert_int_equal(engine_seq_length(run->engine, seq), run->cuts[cut]);
    return seq;
}

static void run_rest(struct run *run, seq_id seq, size_t cut)
{
    for (size_t i = cut + 1; i < run->cuts_count; i++)
        run_chunk(run, seq, i);
}

/* Logits of the last token, bit for bit, and the tokens of the continuation. */
static void expect_same(const struct run *run, const struct ending *is, const struct ending *want,
                        const char *what, uint32_t at)
{
    uint32_t vocab = facts_of(run)->vocab;
    float distance = 0;

    for (uint32_t i = 0; i < vocab; i++)
        distance = fmaxf(distance, fabsf(is->logits[i] - want->logits[i]));
    if (memcmp(is->logits, want->logits, vocab * sizeof(float)) != 0)
        fail_msg("%s at %u: logits differ by %g", what, at, (double)distance);
    assert_memory_equal(is->greedy, want->greedy, sizeof(is->greedy));
}

/* Runs the sequence, which stands at the last cut, to its end: as the cold run did. */
static void expect_equal(struct run *run, seq_id seq, const char *what, uint32_t at)
{
    struct ending ending = make_ending(run);

    finish(run, seq, &ending);
    expect_same(run, &ending, &run->cold, what, at);
    mem_free(ending.logits);
}

/* All cuts, each from the objects of its own chunks. */
static void check_boundaries(struct run *run)
{
    for (size_t cut = 0; cut < run->cuts_count; cut++) {
        seq_id seq = restore(run, run->rows, cut + 1, cut);
        run_rest(run, seq, cut);
        expect_equal(run, seq, "restore", run->cuts[cut]);
        engine_seq_release(run->engine, &seq);
    }
}

/* Rows exported later than they were computed, by one who has run to the end, in pieces of other
 * sizes. */
static void check_late_rows(struct run *run, uint64_t *seed)
{
    struct state_object rows[CUTS_MAX] = {0};
    size_t cut = run->cuts_count - 1, count = 0;
    uint32_t at = 0, end = run->cuts[cut];

    if (facts_of(run)->rows_bytes_per_token == 0)
        return;
    seq_id seq = restore(run, run->rows, cut + 1, cut);
    while (at < end && count < CUTS_MAX) {
        uint32_t size = 1 + (uint32_t)test_random_below(seed, 2 * end / CUTS_MAX + 40);
        size = count + 1 == CUTS_MAX ? end - at : MIN(size, end - at);
        export_rows(run->engine, seq, at, at + size, &rows[count++]);
        at += size;
    }
    engine_seq_release(run->engine, &seq);
    seq = restore(run, rows, count, cut);
    expect_equal(run, seq, "late rows", end);
    engine_seq_release(run->engine, &seq);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)rows[i].data);
}

/* A fork, a fork of the fork, and the source: each goes on as the cold run did, whatever the others
 * do. */
static void check_forks(struct run *run)
{
    size_t cut = run->cuts_count / 2;
    seq_id source = restore(run, run->rows, cut + 1, cut), fork, again;

    assert_ok(engine_seq_fork(run->engine, source, &fork, NULL));
    assert_ok(engine_seq_fork(run->engine, fork, &again, NULL));
    engine_seq_release(run->engine, &source);
    engine_seq_release(run->engine, &fork);
    run_rest(run, again, cut);
    expect_equal(run, again, "fork of a fork", run->cuts[cut]);
    engine_seq_release(run->engine, &again);
}

/* Rolling back to a boundary by truncation, where the kinds allow it or the window there is whole;
 * where not, nothing may change. */
static void check_truncation(struct run *run)
{
    size_t cut = run->cuts_count / 2, last = run->cuts_count - 1;
    seq_id seq = restore(run, run->rows, last + 1, last);
    bool possible = kind_set_sliceable(facts_of(run)->kinds) ||
                    engine_seq_least(run->engine, seq) <= run->cuts[cut];
    enum err err = engine_seq_truncate(run->engine, seq, run->cuts[cut], NULL);

    if (possible) {
        assert_ok(err);
        run_rest(run, seq, cut);
    } else {
        assert_err(err, ERR_UNSUPPORTED);
        assert_int_equal(engine_seq_length(run->engine, seq), run->cuts[last]);
    }
    expect_equal(run, seq, "truncation", run->cuts[cut]);
    engine_seq_release(run->engine, &seq);
}

/* A run of rows that goes on beyond the boundary, as another branch would have stored it, is
 * imported whole and cut. */
static void check_long_run(struct run *run)
{
    size_t cut = run->cuts_count / 2, last = run->cuts_count - 1;
    struct state_object rows = {0};

    if (facts_of(run)->rows_bytes_per_token == 0)
        return;
    seq_id seq = restore(run, run->rows, last + 1, last);
    export_rows(run->engine, seq, 0, run->cuts[last], &rows);
    engine_seq_release(run->engine, &seq);
    seq = restore(run, &rows, 1, cut);
    run_rest(run, seq, cut);
    expect_equal(run, seq, "a run cut", run->cuts[cut]);
    engine_seq_release(run->engine, &seq);
    mem_free((void *)rows.data);
}

/* From a cut to the end, while others prefill and decode between our chunks: `other` in our
 * batches, `third` in its own. */
static void run_in_company(struct run *run, seq_id seq, size_t cut, const token_id *third_says,
                           struct ending endings[2])
{
    seq_id other = acquire(run->engine), third = acquire(run->engine);

    run_tokens(run->engine, other, run->tokens + 7, 40, true);
    for (size_t i = cut + 1; i < run->cuts_count; i++) {
        uint32_t from = run->cuts[i - 1];
        run_tokens(run->engine, third, third_says + i, 33, false);
        struct engine_item items[] = {{seq, run->tokens + from, run->cuts[i] - from, false},
                                      {other, run->tokens + i, 1, true}};
        assert_ok(engine_run(run->engine, items, 2, NULL));
    }
    finish(run, seq, &endings[0]);
    finish(run, other, &endings[1]);
    engine_seq_release(run->engine, &seq);
    engine_seq_release(run->engine, &other);
    engine_seq_release(run->engine, &third);
    assert_int_equal(engine_cells_free(run->engine), facts_of(run)->context);
}

/* Among other sequences as well, a restored sequence is like one that never left the engine, and so
 * is the one beside it. What the third one says is not the same in both runs: it must not show. */
static void check_with_others(struct run *run)
{
    size_t cut = run->cuts_count / 2;
    struct ending is[] = {make_ending(run), make_ending(run)};
    struct ending want[] = {make_ending(run), make_ending(run)};

    run_in_company(run, restore(run, run->rows, cut + 1, cut), cut, run->tokens, is);
    run_in_company(run, compute(run, cut), cut, run->tokens + 99, want);
    expect_same(run, &is[0], &want[0], "with others", run->cuts[cut]);
    expect_same(run, &is[1], &want[1], "beside a restored one", run->cuts[cut]);
    for (int i = 0; i < 2; i++) {
        mem_free(is[i].logits);
        mem_free(want[i].logits);
    }
}

/* Restored where another one's cells lie already, taken out there, and restored once more, alone.
 */
static void check_second_restore(struct run *run)
{
    size_t cut = run->cuts_count / 2;
    seq_id other = acquire(run->engine), seq;
    struct state_object rows = {0};

    run_tokens(run->engine, other, run->tokens + 7, 40, true);
    seq = restore(run, run->rows, cut + 1, cut);
    if (facts_of(run)->rows_bytes_per_token > 0)
        export_rows(run->engine, seq, 0, run->cuts[cut], &rows);
    if (run->snapshots[cut].data != NULL)
        export_snapshot(run->engine, seq, &run->snapshots[cut]); /* in place of the first one */
    engine_seq_release(run->engine, &seq);
    engine_seq_release(run->engine, &other);
    seq = restore(run, &rows, 1, cut);
    run_rest(run, seq, cut);
    expect_equal(run, seq, "second restore", run->cuts[cut]);
    engine_seq_release(run->engine, &seq);
    mem_free((void *)rows.data);
}

/* From somewhere in the chunk that ends at a cut to the end of the prompt. */
static void run_from_inside(struct run *run, seq_id seq, size_t cut, struct ending *out)
{
    uint32_t length = engine_seq_length(run->engine, seq);

    if (length < run->cuts[cut])
        run_tokens(run->engine, seq, run->tokens + length, run->cuts[cut] - length, false);
    run_rest(run, seq, cut);
    finish(run, seq, out);
    engine_seq_release(run->engine, &seq);
}

/* A match that ends inside an object: full attention only. The rest of that chunk is then a
 * separate chunk, so the reference is a sequence that was computed and truncated to the same
 * length. check_truncation shows that truncation is right. */
static void check_inside_object(struct run *run, uint64_t *seed)
{
    struct ending is = make_ending(run), want = make_ending(run);
    uint32_t length = 1 + (uint32_t)test_random_below(seed, run->cuts[run->cuts_count - 1] - 1);
    struct state_restore plan = {.rows = run->rows, .length = length};
    size_t cut = 0;
    seq_id seq;

    while (run->cuts[cut] < length)
        cut++;
    plan.rows_count = cut + 1;
    if (kind_set_sliceable(facts_of(run)->kinds)) {
        assert_ok(state_import(run->engine, &plan, &seq, NULL));
        assert_int_equal(engine_seq_length(run->engine, seq), length);
        run_from_inside(run, seq, cut, &is);
        seq = compute(run, cut);
        assert_ok(engine_seq_truncate(run->engine, seq, length, NULL));
        run_from_inside(run, seq, cut, &want);
        expect_same(run, &is, &want, "inside of an object", length);
    }
    mem_free(is.logits);
    mem_free(want.logits);
}

static void check_family(const char *family, const struct engine_options *options, uint64_t seed)
{
    struct engine *engine = test_engine(family, options);
    uint32_t grid = engine_facts(engine)->chunk;
    struct run *run = mem_alloc(sizeof(*run));

    assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_ROWS);
    assert_true(engine_facts(engine)->exact);
    uint32_t least = rounds() > 0 ? 300 : 260, more = rounds() > 0 ? 600 : 100;
    uint32_t window = engine_facts(engine)->window; /* llama4's is 8,192, whatever its file says */
    assert_true(least > 2 * grid && (least > window || window > PROMPT_MAX));
    make_prompt(run, engine, least + (uint32_t)test_random_below(&seed, more), grid, &seed);
    struct ending plain = make_ending(run);
    run_cold(run, false, &plain);
    run_cold(run, true, &run->cold);
    expect_same(run, &plain, &run->cold, "without exports", 0);
    for (uint32_t i = 0; i < engine_facts(engine)->vocab; i++)
        assert_true(isfinite(run->cold.logits[i]));
    check_boundaries(run);
    check_late_rows(run, &seed);
    check_forks(run);
    check_truncation(run);
    check_inside_object(run, &seed);
    check_long_run(run);
    check_second_restore(run);
    check_with_others(run);
    mem_free(plain.logits);
    free_run(run);
    mem_free(run);
    engine_close(&engine);
}

static void check_rounds(const char *family, const struct engine_options *options)
{
    uint64_t seed = test_seed();

    for (long i = 0; i < MAX(rounds(), 1); i++)
        check_family(family, options, test_random(&seed));
}

#define FAMILY(name, family)                   \
    static void test_i110_##name(void **state) \
    {                                          \
        (void)state;                           \
        check_rounds(family, NULL);            \
    }

FAMILY(llama, "llama")
FAMILY(qwen2, "qwen2")
FAMILY(qwen3, "qwen3")
FAMILY(qwen3moe, "qwen3moe")
FAMILY(qwen35, "qwen35")
FAMILY(qwen35moe, "qwen35moe")
FAMILY(qwen3next, "qwen3next")
FAMILY(gemma2, "gemma2")
FAMILY(gemma3, "gemma3")
FAMILY(gpt_oss, "gpt-oss")
FAMILY(llama4, "llama4")
FAMILY(deepseek2, "deepseek2")
FAMILY(mamba2, "mamba2")
FAMILY(falcon_h1, "falcon-h1")
FAMILY(nemotron_h, "nemotron_h")
FAMILY(granitehybrid, "granitehybrid")
FAMILY(jamba, "jamba")

/* Quantized rows are rows like others. */
static void check_quantized(const char *family)
{
    struct engine_options options = {.context = 4096,
                                     .sequences = 6,
                                     .chunk = 128,
                                     .threads = 1,
                                     .kv_k = ENGINE_KV_Q8_0,
                                     .kv_v = ENGINE_KV_Q8_0,
                                     .flash = 1};

    check_rounds(family, &options);
}

static void test_i110_quantized_dense(void **state)
{
    (void)state;
    check_quantized("qwen3");
}

static void test_i110_quantized_hybrid(void **state)
{
    (void)state;
    check_quantized("qwen35");
}

static void test_i110_quantized_sliding(void **state)
{
    (void)state;
    check_quantized("gemma3");
}

/* Without flash attention V lies transposed, and state has another form. */
static void test_i110_without_flash_attention(void **state)
{
    struct engine_options options = {
        .context = 4096, .sequences = 6, .chunk = 128, .threads = 1, .flash = -1};

    (void)state;
    check_rounds("qwen3", &options);
}

/* State only as a whole, restored at half of a prompt. */
static void check_whole(const char *family, bool streams)
{
    struct engine_options options = {
        .context = 4096, .sequences = 4, .chunk = 128, .threads = 1, .streams = streams};
    struct engine *engine = test_engine(family, &options);
    uint64_t seed = test_seed();
    struct run *run = mem_alloc(sizeof(*run));
    struct state_object whole = {0};
    seq_id seq;

    assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_WHOLE);
    make_prompt(run, engine, 400, 128, &seed);
    run_cold(run, false, &run->cold);
    seq = acquire(engine);
    uint32_t half = run->cuts[run->cuts_count / 2];
    for (uint32_t at = 0; at < half; at = schedule_next(&run->schedule, at))
        run_tokens(engine, seq, run->tokens + at, schedule_next(&run->schedule, at) - at, false);
    uint64_t bytes = state_whole_bytes(engine, seq);
    void *data = mem_alloc(bytes);
    assert_ok(state_export_whole(engine, seq, data, bytes, &whole.shape, NULL));
    whole.data = data;
    engine_seq_release(engine, &seq);
    struct state_restore plan = {.rows = &whole, .rows_count = 1, .length = half};
    assert_ok(state_import(engine, &plan, &seq, NULL));
    run_rest(run, seq, run->cuts_count / 2);
    expect_equal(run, seq, "whole", half);
    plan.length = half - 1;
    assert_err(state_import(engine, &plan, &seq, NULL), ERR_INVALID);
    mem_free(data);
    free_run(run);
    mem_free(run);
    engine_close(&engine);
}

/* A stream per sequence is bit-identical even while others run. */
static void test_i110_whole_sequences(void **state)
{
    (void)state;
    check_whole("qwen35", true);
}

/* libllama 0.7.0 computes other values after it has restored a compressed index, by whole sequences
 * and even by its own session files. Whether 88 tokens show it depends on the weights (the seeds 0
 * and 2 passed that test), so nothing of such a model is reused. */
static void test_i110_qwen4exp(void **state)
{
    char path[1024];
    struct engine_options options = {.path = path, .context = 512, .threads = 1};
    struct engine *engine;

    (void)state;
    snprintf(path, sizeof(path), "%s/qwen4exp.gguf", test_dir());
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct model_make_options make = {.family = "qwen4exp", .out = path, .seed = seed};
        assert_ok(model_make(&make, NULL));
        assert_ok(engine_load(&engine, &options, NULL));
        assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_NONE);
        assert_int_equal(engine_facts(engine)->fault, ENGINE_FAULT_INDEX);
        assert_false(engine_facts(engine)->exact);
        engine_close(&engine);
    }
}

TEST_SUITE(TEST(test_i110_llama), TEST(test_i110_qwen2), TEST(test_i110_qwen3),
           TEST(test_i110_qwen3moe), TEST(test_i110_qwen35), TEST(test_i110_qwen35moe),
           TEST(test_i110_qwen3next), TEST(test_i110_gemma2), TEST(test_i110_gemma3),
           TEST(test_i110_gpt_oss), TEST(test_i110_llama4), TEST(test_i110_deepseek2),
           TEST(test_i110_mamba2), TEST(test_i110_falcon_h1), TEST(test_i110_nemotron_h),
           TEST(test_i110_granitehybrid), TEST(test_i110_jamba), TEST(test_i110_quantized_dense),
           TEST(test_i110_quantized_hybrid), TEST(test_i110_quantized_sliding),
           TEST(test_i110_without_flash_attention), TEST(test_i110_whole_sequences),
           TEST(test_i110_qwen4exp))
