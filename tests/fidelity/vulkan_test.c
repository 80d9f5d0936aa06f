/*
 * vulkan_test.c: a restored run equals a cold one on a second backend: Vulkan on llvmpipe, a device
 * in software that `tools/deps.sh --tools` fetches. Buffers are device buffers there, so that
 * exports and imports take the paths of a GPU.
 *
 * Compiling the shaders takes half a minute per model the first time; they are kept in
 * .deps/vulkan. There is one model of each sort and a short prompt. fidelity_test.c has the rest, on
 * the CPU.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

enum { PROMPT = 48, CUT = 32, GREEDY = 4 };

/* Starts this program again with llvmpipe as its only GPU; the loader reads LD_LIBRARY_PATH only at
 * the start. */
static void need_vulkan(void)
{
    const char *build = getenv("HEARTH_BUILD");
    char dir[PATH_MAX / 2], path[PATH_MAX], line[4096] = "", *argv[8];
    size_t argc = 0;

    snprintf(dir, sizeof(dir), "%s/../../.deps/vulkan", build != NULL ? build : "build/release");
    snprintf(path, sizeof(path), "%s/icd.json", dir);
    if (getenv("HEARTH_DEPS_LLAMA") != NULL)
        TEST_SKIP("the plug-in that was fetched is not of this llama.cpp");
    if (access(path, R_OK) != 0)
        TEST_SKIP("no Vulkan in software here; tools/deps.sh --tools fetches it");
    if (getenv("GGML_VK_VISIBLE_DEVICES") != NULL)
        return;
    setenv("VK_DRIVER_FILES", path, 1);
    setenv("GGML_VK_VISIBLE_DEVICES", "0", 1);
    snprintf(path, sizeof(path), "%s/lib", dir);
    setenv("LD_LIBRARY_PATH", path, 1);
    snprintf(path, sizeof(path), "%s/shaders", dir);
    setenv("MESA_SHADER_CACHE_DIR", path, 1);
    snprintf(path, sizeof(path), "%s/backends", dir);
    setenv("HEARTH_BACKENDS", path, 1);
    FILE *file = fopen("/proc/self/cmdline", "r");
    assert_non_null(file);
    size_t len = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    for (size_t at = 0; at < len && argc + 1 < COUNT_OF(argv); at += strlen(line + at) + 1)
        argv[argc++] = line + at;
    argv[argc] = NULL;
    execv("/proc/self/exe", argv);
    fail_msg("cannot start again");
}

struct ending {
    float *logits;
    token_id greedy[GREEDY];
};

static void run_tokens(struct engine *engine, seq_id seq, const token_id *tokens, uint32_t count,
                       bool logits)
{
    struct engine_item item = {seq, tokens, count, logits};

    assert_ok(engine_run(engine, &item, 1, NULL));
}

static token_id argmax(const float *logits, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (token_id)best;
}

/* From the cut to the end of the prompt, and some tokens more. */
static void finish(struct engine *engine, seq_id *seq, const token_id *tokens, struct ending *out)
{
    uint32_t vocab = engine_facts(engine)->vocab;

    run_tokens(engine, *seq, tokens + CUT, PROMPT - CUT, true);
    out->logits = mem_alloc(vocab * sizeof(float));
    memcpy(out->logits, engine_logits(engine, 0), vocab * sizeof(float));
    for (int i = 0; i < GREEDY; i++) {
        out->greedy[i] = argmax(engine_logits(engine, 0), vocab);
        run_tokens(engine, *seq, &out->greedy[i], 1, true);
    }
    engine_seq_release(engine, seq);
}

static void expect_same(struct engine *engine, struct ending *is, const struct ending *want)
{
    assert_memory_equal(is->logits, want->logits, engine_facts(engine)->vocab * sizeof(float));
    assert_memory_equal(is->greedy, want->greedy, sizeof(is->greedy));
    mem_free(is->logits);
}

static seq_id compute(struct engine *engine, const token_id *tokens)
{
    seq_id seq;

    assert_ok(engine_seq_acquire(engine, &seq, NULL));
    run_tokens(engine, seq, tokens, CUT, false);
    assert_ok(engine_seq_settle(engine, seq, NULL));
    return seq;
}

/* Rows, and a snapshot where the kinds need one. */
static void export(struct engine *engine, seq_id seq, struct state_object *rows,
                   struct state_object *snapshot)
{
    uint64_t capacity = state_rows_capacity(engine, CUT);
    void *data = mem_alloc(capacity);

    assert_ok(state_export_rows(engine, seq, 0, CUT, data, capacity, &rows->shape, NULL));
    rows->data = data;
    if (!kind_set_needs_snapshot(engine_facts(engine)->kinds))
        return;
    capacity = state_snapshot_bytes(engine, seq);
    snapshot->data = data = mem_alloc(capacity);
    assert_ok(state_export_snapshot(engine, seq, data, capacity, &snapshot->shape, NULL));
}

static struct engine *load(const char *family, kind_set kinds)
{
    static const struct engine_options options = {
        .context = 256, .sequences = 3, .chunk = CUT, .threads = 1};
    struct engine_backend_info backend;

    assert_true(engine_backends(NULL, &backend, 1) > 1);
    assert_non_null(strstr(backend.description, "llvmpipe"));
    struct engine *engine = test_engine(family, &options);
    assert_int_equal(engine_facts(engine)->kinds, kinds);
    assert_int_equal(engine_facts(engine)->slicing, ENGINE_SLICING_ROWS);
    assert_true(engine_facts(engine)->exact);
    return engine;
}

static void check(const char *family, kind_set kinds)
{
    struct ending cold, again, restored;
    struct state_object rows = {0}, snapshot = {0};
    token_id tokens[PROMPT];
    uint64_t seed = test_seed();

    need_vulkan();
    struct engine *engine = load(family, kinds);
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (token_id)test_random_below(&seed, 256);
    seq_id seq = compute(engine, tokens);
    finish(engine, &seq, tokens, &cold);
    seq = compute(engine, tokens);
    export(engine, seq, &rows, &snapshot);
    finish(engine, &seq, tokens, &again);
    expect_same(engine, &again, &cold);
    struct state_restore restore = {&rows, 1, snapshot.data ? &snapshot : NULL, CUT, NULL};
    assert_ok(state_import(engine, &restore, &seq, NULL));
    finish(engine, &seq, tokens, &restored);
    expect_same(engine, &restored, &cold);
    mem_free(cold.logits);
    mem_free((void *)rows.data);
    mem_free((void *)snapshot.data);
    engine_close(&engine);
}

static void test_i110_dense(void **state)
{
    (void)state;
    check("qwen3", KIND_BIT(KIND_FULL));
}

static void test_i110_hybrid(void **state)
{
    (void)state;
    check("qwen35", KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT));
}

static void test_i110_sliding(void **state)
{
    (void)state;
    check("gemma3", KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING));
}

TEST_SUITE(TEST(test_i110_dense), TEST(test_i110_hybrid), TEST(test_i110_sliding))
