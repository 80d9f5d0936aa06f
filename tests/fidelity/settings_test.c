/*
 * settings_test.c: settings that are no part of the fingerprint change nothing in state: what an
 * engine with some of them stored, one with others restores, and computes what it would have
 * computed without (keeps I97).
 */
#include <string.h>

#include "base/mem.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

enum { CUT = 64, LENGTH = 200, CHUNK = 64, STEPS = 3 };

static const struct engine_options variants[] = {
    {.context = 1024, .sequences = 1},
    {.context = 1024, .sequences = 7},
    {.context = 4096, .sequences = 3},
    {.context = 1024, .sequences = 3, .rollback = 4},
    {.context = 1024, .sequences = 3, .rollback = ROLLBACK_AUTO, .no_mmap = true},
    {.context = 1024, .sequences = 3, .pooling = ENGINE_POOLING_MEAN},
};

static struct engine *open_variant(const char *family, size_t i)
{
    struct engine_options options = variants[i];

    options.chunk = CHUNK;
    options.threads = 1;
    return test_engine(family, &options);
}

/* In the chunks that a prompt has. */
static void run(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t from,
                uint32_t to)
{
    for (uint32_t n; from < to; from += n) {
        n = MIN(to - from, (uint32_t)CHUNK - from % CHUNK);
        struct engine_item item = {seq, tokens + from, n, true};
        assert_ok(engine_run(engine, &item, 1, NULL));
        assert_ok(engine_seq_settle(engine, seq, NULL));
    }
}

/* The logits of single tokens after the prompt. */
static float *run_steps(struct engine *engine, seq_id seq, const token_id *tokens)
{
    uint32_t vocab = engine_facts(engine)->vocab;
    float *logits = mem_alloc_array((size_t)STEPS * vocab, sizeof(*logits));

    for (uint32_t i = 0; i < STEPS; i++) {
        struct engine_item item = {seq, tokens + LENGTH + i, 1, true};
        assert_ok(engine_run(engine, &item, 1, NULL));
        memcpy(logits + (size_t)i * vocab, engine_logits(engine, 0), vocab * sizeof(*logits));
    }
    return logits;
}

struct stored {
    struct state_object rows[2], snapshot;
    struct state_restore restore;
    float *logits; /* of the steps after it */
};

static void store_rows(struct engine *engine, seq_id seq, uint32_t begin, uint32_t end,
                       struct state_object *object)
{
    uint64_t capacity = state_rows_capacity(engine, end - begin);
    void *data = mem_alloc(capacity);

    object->data = data;
    assert_ok(state_export_rows(engine, seq, begin, end, data, capacity, &object->shape, NULL));
}

static void store(struct engine *engine, const token_id *tokens, struct stored *stored)
{
    const struct engine_facts *facts = engine_facts(engine);
    seq_id seq;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    run(engine, seq, tokens, 0, LENGTH);
    *stored = (struct stored){.restore = {.rows = stored->rows, .length = LENGTH}};
    assert_int_equal(facts->slicing, ENGINE_SLICING_ROWS);
    if (facts->rows_bytes_per_token > 0) {
        store_rows(engine, seq, 0, CUT, &stored->rows[0]);
        store_rows(engine, seq, CUT, LENGTH, &stored->rows[1]);
        stored->restore.rows_count = 2;
    }
    if (kind_set_needs_snapshot(facts->kinds)) {
        uint64_t bytes = state_snapshot_bytes(engine, seq);
        void *data = mem_alloc(bytes);
        stored->snapshot.data = data;
        assert_ok(state_export_snapshot(engine, seq, data, bytes, &stored->snapshot.shape, NULL));
        stored->restore.snapshot = &stored->snapshot;
    }
    stored->logits = run_steps(engine, seq, tokens);
    engine_seq_release(engine, &seq);
}

static void free_stored(struct stored *stored)
{
    mem_free((void *)(uintptr_t)stored->rows[0].data);
    mem_free((void *)(uintptr_t)stored->rows[1].data);
    mem_free((void *)(uintptr_t)stored->snapshot.data);
    mem_free(stored->logits);
}

static void compare(const char *family, size_t from, size_t to, struct engine *engine,
                    const struct stored *stored, const token_id *tokens)
{
    size_t bytes = (size_t)STEPS * engine_facts(engine)->vocab * sizeof(float);
    struct errinfo info = {0};
    seq_id seq;

    if (state_import(engine, &stored->restore, &seq, &info) != ERR_OK)
        fail_msg("%s: state of variant %zu in variant %zu: %s", family, from, to, info.text);
    float *logits = run_steps(engine, seq, tokens);
    if (memcmp(logits, stored->logits, bytes) != 0)
        fail_msg("%s: state of variant %zu gives other logits in variant %zu", family, from, to);
    mem_free(logits);
    engine_seq_release(engine, &seq);
}

static void test_i97_settings_that_are_no_part(void **state)
{
    static const char *const families[] = {"qwen3", "gemma3", "qwen35", "mamba2"};
    struct stored stored[COUNT_OF(variants)];
    token_id tokens[LENGTH + STEPS];
    uint64_t seed = test_seed();

    (void)state;
    for (size_t f = 0; f < COUNT_OF(families); f++) {
        struct hash256 first;
        for (size_t i = 0; i < COUNT_OF(variants); i++) {
            struct engine *engine = open_variant(families[f], i);
            const struct engine_facts *facts = engine_facts(engine);
            for (size_t k = 0; i == 0 && k < COUNT_OF(tokens); k++)
                tokens[k] = (token_id)test_random_below(&seed, facts->vocab);
            if (i == 0)
                first = facts->fingerprint;
            assert_true(hash256_eq(&first, &facts->fingerprint));
            store(engine, tokens, &stored[i]);
            for (size_t k = 0; k <= i; k++)
                compare(families[f], k, i, engine, &stored[k], tokens);
            engine_close(&engine);
        }
        for (size_t i = 0; i < COUNT_OF(variants); i++)
            free_stored(&stored[i]);
    }
}

TEST_SUITE(TEST(test_i97_settings_that_are_no_part))
