/*
 * windows_test.c: a sequence of windows is cut wherever the library still has the rows, and goes on
 * as if it had never been longer.
 *
 * A sequence is computed in chunks, cut where a chunk ends, and continued. Its logits must be those
 * of a sequence that ended there, but for the rounding of rows that lie in other cells: also at the
 * least length that is allowed, where the window has exactly the rows that the next token looks at.
 * With a bound that is lower by one they differ by much more: the window is small, and each of its
 * rows counts.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine_ops.h"
#include "lab/model_make.h"
#include "support/models.h"
#include "support/test.h"

enum { WINDOW = 8, CHUNK = 64, LENGTH = 400, NEXT = 8 };

#define ROUNDING 0.01f /* of other cells, in logits of about 10 */

/* `keen`: a single row that is missing shows in the logits of these weights. The chunks of llama4
 * are longer than a test: nothing is forgotten. */
static const struct {
    const char *family;
    bool keen, forgets;
} rows[] = {
    {"gemma2", true, true},   {"gemma3", true, true},  {"gemma3n", false, true},
    {"gemma4", false, true},  {"gpt-oss", true, true}, {"sliding-only", true, true},
    {"llama4", false, false},
};

struct subject {
    struct engine *engine;
    const struct engine_facts *facts;
    token_id tokens[LENGTH + NEXT];
    float *cold, *cut;
};

/* Without flash attention and with rows of full precision, most runs are the same bits. */
static const struct engine_options options = {.context = 2048,
                                              .sequences = 2,
                                              .chunk = CHUNK,
                                              .threads = 1,
                                              .flash = -1,
                                              .kv_k = ENGINE_KV_F32,
                                              .kv_v = ENGINE_KV_F32};

static void open_subject(struct subject *subject, const char *family, bool forgets)
{
    char path[1024];
    uint64_t seed = 3;

    snprintf(path, sizeof(path), "%s/%s.gguf", test_dir(), family);
    struct model_make_options make = {.family = family,
                                      .out = path,
                                      .shape = {.width = 128, .window = forgets ? WINDOW : 0},
                                      .seed = 1};
    struct engine_options with = options;
    with.path = path;
    assert_ok(model_make(&make, NULL));
    assert_ok(engine_load(&subject->engine, &with, NULL));
    subject->facts = engine_facts(subject->engine);
    subject->cold = mem_alloc_array(subject->facts->vocab, sizeof(float));
    subject->cut = mem_alloc_array(subject->facts->vocab, sizeof(float));
    for (size_t i = 0; i < COUNT_OF(subject->tokens); i++)
        subject->tokens[i] = (token_id)test_random_below(&seed, subject->facts->vocab);
}

static void close_subject(struct subject *subject)
{
    mem_free(subject->cold);
    mem_free(subject->cut);
    engine_close(&subject->engine);
}

/* Chunks end at `at`, so that those of two sequences that are compared there are the same. */
static void extend(struct subject *subject, seq_id seq, uint32_t end, uint32_t at)
{
    for (uint32_t from = engine_seq_length(subject->engine, seq), n; from < end; from += n) {
        n = MIN(end - from, CHUNK - (from + CHUNK - at % CHUNK) % CHUNK);
        struct engine_item item = {seq, subject->tokens + from, n, 0};
        assert_ok(engine_run(subject->engine, &item, 1, NULL));
    }
}

static seq_id compute(struct subject *subject, uint32_t length, uint32_t at)
{
    seq_id seq;

    assert_ok(engine_seq_acquire(subject->engine, &seq, NULL));
    extend(subject, seq, length, at);
    return seq;
}

/* The logits after the tokens that come next at `at`. */
static void go_on(struct subject *subject, seq_id seq, uint32_t at, float *logits)
{
    struct engine_item item = {seq, subject->tokens + at, NEXT, 1};

    assert_int_equal(engine_seq_length(subject->engine, seq), at);
    assert_ok(engine_run(subject->engine, &item, 1, NULL));
    memcpy(logits, engine_logits(subject->engine, 0), subject->facts->vocab * sizeof(float));
}

static float distance(const struct subject *subject)
{
    float most = 0;

    for (uint32_t i = 0; i < subject->facts->vocab; i++)
        most = fmaxf(most, fabsf(subject->cold[i] - subject->cut[i]));
    return most;
}

static void take_cold(struct subject *subject, uint32_t at)
{
    seq_id seq = compute(subject, at, at);

    go_on(subject, seq, at, subject->cold);
    engine_seq_release(subject->engine, &seq);
}

/* Cuts at `at`, whatever the engine says, and returns how far the logits are from cold ones. */
static float try_cut(struct subject *subject, uint32_t at)
{
    struct engine *engine = subject->engine;
    seq_id seq = compute(subject, LENGTH, at);

    assert_true(engine->ops->seq_cut(engine, seq, at));
    seqs_truncate(&engine->seqs, seq, at);
    go_on(subject, seq, at, subject->cut);
    engine_seq_release(engine, &seq);
    take_cold(subject, at);
    return distance(subject);
}

static uint32_t find_least(struct subject *subject, bool forgets)
{
    seq_id seq = compute(subject, LENGTH, 0);
    uint32_t least = engine_seq_least(subject->engine, seq);

    if (forgets) {
        assert_uint_in_range(least, 2, LENGTH - 2 * CHUNK); /* the ring is shorter */
        assert_err(engine_seq_truncate(subject->engine, seq, least - 1, NULL), ERR_UNSUPPORTED);
        assert_int_equal(engine_seq_length(subject->engine, seq), LENGTH);
    } else {
        assert_int_equal(least, 1);
    }
    engine_seq_release(subject->engine, &seq);
    return least;
}

static void test_cut_and_continued_is_cold(void **state)
{
    struct subject subject;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_subject(&subject, rows[i].family, rows[i].forgets);
        assert_true(subject.facts->windows_cut);
        uint32_t least = find_least(&subject, rows[i].forgets);
        for (uint32_t at = least; at < LENGTH; at += 83) {
            float off = try_cut(&subject, at);
            if (off > ROUNDING)
                fail_msg("%s: cut at %u and continued is off by %g", rows[i].family, at,
                         (double)off);
        }
        if (rows[i].keen && try_cut(&subject, least - 1) < 2 * ROUNDING)
            fail_msg("%s: one row less makes no difference", rows[i].family);
        close_subject(&subject);
    }
}

TEST_SUITE(TEST(test_cut_and_continued_is_cold))
