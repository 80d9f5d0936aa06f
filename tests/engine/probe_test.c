/*
 * What the self-test says about tiny models of each sort: kinds, how many layers of each, the sizes
 * of state, and in which mode state is moved. That the moved state is right is what tests/fidelity
 * shows.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <llama.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

enum {
    FULL = KIND_BIT(KIND_FULL),
    SLIDING = KIND_BIT(KIND_SLIDING),
    RECURRENT = KIND_BIT(KIND_RECURRENT)
};

enum { CONTEXT = 1024, SEQUENCES = 3, CHUNK = 64, CELL_BYTES = 12 };

static const struct family {
    const char *name;
    kind_set kinds;
    uint32_t layers[KIND_COUNT]; /* in the order of enum kind */
} families[] = {
    {"llama", FULL, {4}},
    {"qwen3moe", FULL, {4}},
    {"gemma3", FULL | SLIDING, {1, 3}},
    {"mamba2", RECURRENT, {0, 0, 0, 4}},
    {"qwen35", FULL | RECURRENT, {1, 0, 0, 3}},
    {"falcon-h1", FULL | RECURRENT, {4, 0, 0, 4}}, /* each layer has both */
};

/* Releases before 0.7.0 ignore PARTIAL_ONLY for a plain cache and write everything. The functions
 * of the library are replaced here, so that the newest one does the same. */
static bool ignore_partial;
static enum engine_fault broken; /* what the library cannot do */
static bool loses_index;         /* of deepseek32: it is not a part of the exported state */

enum { INDEX_BYTES = 128 }; /* of one token in one layer */

/* Zeroes the index of the last layer, which is at the end of the state. */
static void lose_index(uint8_t *state, size_t bytes)
{
    size_t tokens = bytes / 2900; /* a bit more than a row has */

    if (tokens > 1)
        memset(state + bytes - tokens * INDEX_BYTES, 0, (tokens - 1) * INDEX_BYTES);
}

static llama_state_seq_flags old_flags(llama_state_seq_flags flags)
{
    return ignore_partial ? flags & ~(llama_state_seq_flags)LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
                          : flags;
}

size_t llama_state_seq_get_size_ext(struct llama_context *ctx, llama_seq_id seq,
                                    llama_state_seq_flags flags)
{
    size_t (*real)(struct llama_context *, llama_seq_id, llama_state_seq_flags);

    *(void **)&real = dlsym(RTLD_NEXT, __func__);
    return real(ctx, seq, old_flags(flags));
}

size_t llama_state_seq_get_data_ext(struct llama_context *ctx, uint8_t *out, size_t size,
                                    llama_seq_id seq, llama_state_seq_flags flags)
{
    size_t (*real)(struct llama_context *, uint8_t *, size_t, llama_seq_id, llama_state_seq_flags);

    *(void **)&real = dlsym(RTLD_NEXT, __func__);
    if (broken == ENGINE_FAULT_EXPORT)
        return 0;
    size_t bytes = real(ctx, out, size, seq, old_flags(flags));
    if (loses_index)
        lose_index(out, bytes);
    return bytes;
}

size_t llama_state_seq_set_data_ext(struct llama_context *ctx, const uint8_t *in, size_t size,
                                    llama_seq_id seq, llama_state_seq_flags flags)
{
    size_t (*real)(struct llama_context *, const uint8_t *, size_t, llama_seq_id,
                   llama_state_seq_flags);

    *(void **)&real = dlsym(RTLD_NEXT, __func__);
    if (broken == ENGINE_FAULT_IMPORT)
        return 0;
    size_t bytes = real(ctx, in, size, seq, flags);
    /* The self-test's neighbour is the first sequence and has five tokens. */
    llama_memory_t memory = llama_get_memory(ctx);
    if (broken == ENGINE_FAULT_NEIGHBOUR && llama_memory_seq_pos_max(memory, 0) == 4)
        llama_memory_seq_rm(memory, 0, 4, 5);
    return bytes;
}

static const struct engine_options options = {
    .context = CONTEXT, .sequences = SEQUENCES, .chunk = CHUNK, .threads = 1};

static void check_groups(const struct family *family, const struct engine_facts *facts)
{
    uint32_t layers[KIND_COUNT] = {0};

    for (size_t i = 0; i < facts->groups_count; i++) {
        assert_true(facts->kinds & KIND_BIT(facts->groups[i].kind));
        layers[facts->groups[i].kind] = facts->groups[i].layers;
    }
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (layers[kind] != family->layers[kind])
            fail_msg("%s: %u layers are %s", family->name, layers[kind], kind_name(kind));
    assert_int_equal(facts->groups_count, __builtin_popcount(facts->kinds));
}

/* The self-test leaves nothing behind: every sequence and every cell is free. */
static void check_left_clean(struct engine *engine)
{
    seq_id seqs[SEQUENCES];

    for (int i = 0; i < SEQUENCES; i++) {
        assert_ok(engine_seq_acquire(engine, &seqs[i], NULL));
        assert_int_equal(engine_seq_length(engine, seqs[i]), 0);
    }
    assert_int_equal(engine_cells_free(engine), engine_facts(engine)->context);
    for (int i = 0; i < SEQUENCES; i++)
        engine_seq_release(engine, &seqs[i]);
}

static void test_i5_facts_of_families(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = test_engine(families[i].name, &options);
        const struct engine_facts *facts = engine_facts(engine);
        if (facts->kinds != families[i].kinds)
            fail_msg("%s has kinds %x", families[i].name, facts->kinds);
        assert_int_equal(facts->slicing, ENGINE_SLICING_ROWS);
        assert_true(facts->exact);
        assert_int_equal(facts->rows_bytes_per_token > 0, (facts->kinds & FULL) != 0);
        assert_int_equal(facts->rows_bytes_fixed > 0, (facts->kinds & FULL) != 0);
        assert_int_equal(facts->snapshot_bytes_max > 0, kind_set_needs_snapshot(facts->kinds));
        assert_int_equal(facts->window > 0, (facts->kinds & SLIDING) != 0);
        check_groups(&families[i], facts);
        check_left_clean(engine);
        engine_close(&engine);
    }
}

static void test_library_that_ignores_partial(void **state)
{
    struct engine *engine = test_engine("llama", &options);
    uint64_t each = engine_facts(engine)->rows_bytes_per_token;

    (void)state;
    engine_close(&engine);
    ignore_partial = true;
    engine = test_engine("llama", &options);
    const struct engine_facts *facts = engine_facts(engine);
    assert_int_equal(facts->kinds, FULL);
    assert_int_equal(facts->slicing, ENGINE_SLICING_ROWS);
    assert_true(facts->exact);
    assert_int_equal(facts->rows_bytes_per_token, each);
    assert_int_equal(facts->snapshot_bytes_max, 0);
    check_groups(&families[0], facts);
    engine_close(&engine);
}

/* A model whose state cannot be moved is served, and the facts say why it is not cached. */
static void test_library_that_cannot_move_state(void **state)
{
    (void)state;
    for (broken = ENGINE_FAULT_EXPORT; broken <= ENGINE_FAULT_IMPORT; broken++) {
        struct engine *engine = test_engine("llama", &options);
        assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_NONE);
        assert_int_equal(engine_facts(engine)->fault, broken);
        assert_true(engine_fault_text(broken)[0] != '\0');
        check_left_clean(engine);
        engine_close(&engine);
    }
}

/* llama.cpp had a release that did: a restore wrote into the cells of another sequence. */
static void test_library_that_harms_neighbours(void **state)
{
    (void)state;
    broken = ENGINE_FAULT_NEIGHBOUR;
    struct engine *engine = test_engine("llama", &options);
    assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_NONE);
    assert_int_equal(engine_facts(engine)->fault, ENGINE_FAULT_NEIGHBOUR);
    check_left_clean(engine);
    engine_close(&engine);
}

/* Its index selects 64 tokens: 24 tokens show nothing, so a longer prompt has to find it out. */
static void test_library_that_loses_an_index(void **state)
{
    struct engine_options logged = options;
    struct log_line line;

    (void)state;
    struct engine *engine = test_engine("deepseek32", &options);
    assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_ROWS);
    assert_true(engine_facts(engine)->exact);
    engine_close(&engine);
    loses_index = true;
    logged.log = log_create(
        &(struct log_options){.fd = STDERR_FILENO, .level = LOG_LEVEL_WARN, .clock = clock_real()});
    engine = test_engine("deepseek32", &logged);
    assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_NONE);
    assert_int_equal(engine_facts(engine)->fault, ENGINE_FAULT_LOGITS);
    check_left_clean(engine);
    engine_close(&engine);
    assert_int_equal(log_read(logged.log, 0, &line, 1), 1);
    assert_non_null(strstr(line.text, "tokens=88")); /* the short prompt passed */
    log_destroy(&logged.log);
}

/* Chunks that are smaller than the prompt of the self-test. */
static void test_small_chunks(void **state)
{
    struct engine_options small = options;

    (void)state;
    for (small.chunk = 1; small.chunk < 30; small.chunk = small.chunk * 2 + 1) {
        struct engine *engine = test_engine("qwen35", &small);
        assert_int_equal(engine_facts(engine)->chunk, small.chunk);
        assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_ROWS);
        assert_true(engine_facts(engine)->exact);
        engine_close(&engine);
    }
}

/* Bytes are measured, but they can be computed as well: 4 layers, K and V, 2 heads of 64 values in
 * f16; q8_0 stores 34 bytes for 32 values. */
static void test_bytes_of_rows(void **state)
{
    struct engine_options other = options;
    struct engine *engine = test_engine("qwen3", &options);
    const struct engine_facts *facts = engine_facts(engine);

    (void)state;
    uint64_t values = (facts->rows_bytes_per_token - CELL_BYTES) / 2;
    assert_int_equal(facts->rows_bytes_per_token, 2 * values + CELL_BYTES);
    assert_int_equal(values % (4 * 2 * 32), 0);
    engine_close(&engine);
    other.kv_k = ENGINE_KV_Q8_0;
    engine = test_engine("qwen3", &other);
    facts = engine_facts(engine);
    assert_int_equal(facts->rows_bytes_per_token,
                     values / 2 / 32 * 34 + values / 2 * 2 + CELL_BYTES);
    assert_int_equal(facts->groups[0].layers, 4);
    assert_int_equal(facts->slicing, ENGINE_SLICING_ROWS);
    engine_close(&engine);
}

static void run(struct engine *engine, seq_id seq, uint32_t count)
{
    token_id tokens[CHUNK];
    struct engine_item item = {seq, tokens, count, false};

    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (token_id)(i % 200);
    assert_ok(engine_run(engine, &item, 1, NULL));
}

/* A tier reserves by these numbers before anything is exported: at no length is more needed. */
static void test_sizes_hold_at_every_length(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = test_engine(families[i].name, &options);
        const struct engine_facts *facts = engine_facts(engine);
        uint64_t most = 0;
        seq_id seq;
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        while (engine_seq_length(engine, seq) < 400) {
            run(engine, seq, 1 + (uint32_t)test_random_below(&seed, CHUNK));
            assert_ok(engine_seq_settle(engine, seq, NULL));
            uint32_t length = engine_seq_length(engine, seq);
            if (facts->kinds & FULL)
                assert_int_equal(state_rows_bytes(engine, length),
                                 facts->rows_bytes_fixed + length * facts->rows_bytes_per_token);
            if (kind_set_needs_snapshot(facts->kinds))
                most = MAX(most, state_snapshot_bytes(engine, seq));
            if (most > facts->snapshot_bytes_max)
                fail_msg("%s: a snapshot of %ju bytes at %u tokens, %ju are said to be the most",
                         families[i].name, (uintmax_t)most, length,
                         (uintmax_t)facts->snapshot_bytes_max);
        }
        engine_close(&engine);
    }
}

/* ---- whole sequences ---- */

static void export_whole(struct engine *engine, seq_id seq, struct state_object *object)
{
    uint64_t capacity = state_whole_bytes(engine, seq);
    void *data = mem_alloc(capacity);

    assert_ok(state_export_whole(engine, seq, data, capacity, &object->shape, NULL));
    object->data = data;
}

/* A cache per sequence cannot be sliced: it is not even tried, and no warning is logged, since
 * the user asked for it. */
static void test_streams_are_served_whole(void **state)
{
    struct engine_options streams = options;
    char text[256] = "";
    char path[1024];

    (void)state;
    snprintf(path, sizeof(path), "%s/log", test_dir());
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    streams.streams = true;
    streams.state_dir = test_dir();
    streams.log =
        log_create(&(struct log_options){.fd = fd, .level = LOG_LEVEL_INFO, .clock = clock_real()});
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = test_engine(families[i].name, &streams);
        const struct engine_facts *facts = engine_facts(engine);
        struct state_object object = {0};
        struct state_shape shape;
        seq_id seq, again;
        if (facts->slicing != ENGINE_SLICING_WHOLE)
            fail_msg("%s has mode %d", families[i].name, facts->slicing);
        assert_int_equal(facts->rows_bytes_per_token, 0);
        assert_int_equal(facts->snapshot_bytes_max, 0);
        assert_true(facts->kinds != 0);
        assert_ok(engine_seq_acquire(engine, &seq, NULL));
        run(engine, seq, 40);
        assert_err(state_export_rows(engine, seq, 0, 40, text, sizeof(text), &shape, NULL),
                   ERR_UNSUPPORTED);
        export_whole(engine, seq, &object);
        engine_seq_release(engine, &seq);
        struct state_restore restore = {.rows = &object, .rows_count = 1, .length = 40};
        assert_ok(state_import(engine, &restore, &again, NULL));
        assert_int_equal(engine_seq_length(engine, again), 40);
        mem_free((void *)object.data);
        engine_close(&engine);
    }
    log_destroy(&streams.log);
    ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
    if (len != 0)
        fail_msg("logged: %s", text);
    close(fd);
}

/* What was announced stays known without the sizes. */
static void test_kinds_without_sizes(void **state)
{
    struct engine_options streams = options;

    (void)state;
    streams.streams = true;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = test_engine(families[i].name, &streams);
        kind_set kinds = engine_facts(engine)->kinds, expected = families[i].kinds;
        /* Whether other layers are full was found by the sizes; what needs a snapshot is never
         * forgotten. */
        assert_int_equal(kinds & ~FULL, expected & ~FULL);
        assert_int_equal(kind_set_sliceable(kinds), kind_set_sliceable(expected));
        for (size_t k = 0; k < engine_facts(engine)->groups_count; k++) {
            struct engine_layer_group group = engine_facts(engine)->groups[k];
            /* 0: a window's layers are known by their bytes only. */
            assert_int_equal(group.layers,
                             group.kind == KIND_SLIDING ? 0 : families[i].layers[group.kind]);
        }
        engine_close(&engine);
    }
}

TEST_SUITE(TEST(test_i5_facts_of_families), TEST(test_library_that_ignores_partial),
           TEST(test_library_that_cannot_move_state), TEST(test_library_that_harms_neighbours),
           TEST(test_library_that_loses_an_index), TEST(test_small_chunks),
           TEST(test_bytes_of_rows), TEST(test_sizes_hold_at_every_length),
           TEST(test_streams_are_served_whole), TEST(test_kinds_without_sizes))
