/*
 * model_adapter_test.c: adapters that model_make_adapter makes: they load, and change what the model
 * computes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "lab/model_make.h"
#include "support/models.h"
#include "support/test.h"

enum { TOKENS = 12 };

static char *make(const char *name, uint64_t seed, const char *invocation)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
    assert_ok(model_make_adapter(
        &(struct model_adapter_options){
            .base = test_model("qwen3"), .out = path, .seed = seed, .invocation = invocation},
        NULL));
    return mem_strdup(path);
}

/* The logits after a few tokens with a set. */
static float *logits_of(struct engine *engine, struct lora_set set)
{
    const token_id tokens[TOKENS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    struct engine_item item = {.tokens = tokens, .count = TOKENS, .logits = true};
    size_t bytes = engine_facts(engine)->vocab * sizeof(float);
    float *logits = malloc(bytes);

    assert_non_null(logits);
    assert_ok(engine_set_lora(engine, &set, NULL));
    assert_ok(engine_seq_acquire(engine, &item.seq, NULL));
    assert_ok(engine_run(engine, &item, 1, NULL));
    memcpy(logits, engine_logits(engine, 0), bytes);
    engine_seq_release(engine, &item.seq);
    return logits;
}

/* Each set computes other values, and a set that was chosen before the same bits again. */
static void test_sets_compute_other_values(void **state)
{
    char *paths[] = {make("a.gguf", 1, NULL), make("b.gguf", 2, NULL)};
    const struct engine_adapter adapters[] = {{paths[0], 1}, {paths[1], 0}};
    const struct lora_set sets[] = {{{0}}, {{1}}, {{0.5f}}, {{0, 1}}, {{1, 1}}};
    struct engine_options options = {.path = test_model("qwen3"),
                                     .context = 256,
                                     .threads = 1,
                                     .adapters = adapters,
                                     .adapters_count = 2};
    struct engine *engine;
    float *seen[COUNT_OF(sets)], *again;

    (void)state;
    assert_ok(engine_load(&engine, &options, NULL));
    const struct lora_facts *facts = &engine_facts(engine)->lora;
    assert_int_equal(facts->count, 2);
    assert_string_equal(facts->list[1].name, "b.gguf");
    assert_true(lora_set_eq(&facts->initial, &sets[1]));
    size_t bytes = engine_facts(engine)->vocab * sizeof(float);
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        seen[i] = logits_of(engine, sets[i]);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(seen[i], seen[k], bytes);
    }
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        again = logits_of(engine, sets[i]);
        assert_memory_equal(again, seen[i], bytes);
        free(again);
        free(seen[i]);
    }
    assert_err(engine_set_lora(engine, &(struct lora_set){{0, 0, 1}}, NULL), ERR_INVALID);
    engine_close(&engine);
    mem_free(paths[0]);
    mem_free(paths[1]);
}

static void test_invocation_tokens_are_read_back(void **state)
{
    char *path = make("alora.gguf", 1, "<|im_start|>hi");
    const struct engine_adapter adapter = {path, 1};
    struct engine_options options = {
        .path = test_model("qwen3"), .context = 256, .adapters = &adapter, .adapters_count = 1};
    token_id tokens[8];
    struct engine *engine;
    size_t count;

    (void)state;
    assert_ok(engine_load(&engine, &options, NULL));
    const struct lora_adapter *made = &engine_facts(engine)->lora.list[0];
    assert_ok(engine_tokenize(engine, STR("<|im_start|>hi"), ENGINE_TOKENIZE_CONTROL, tokens,
                              COUNT_OF(tokens), &count, NULL));
    assert_int_equal(made->invocation_count, count);
    assert_memory_equal(made->invocation, tokens, count * sizeof(*tokens));
    engine_close(&engine);
    mem_free(path);
}

static void test_same_seed_same_file(void **state)
{
    char *data[3], *paths[] = {make("1", 1, NULL), make("2", 1, NULL), make("3", 2, NULL)};
    size_t len[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_ok(
            file_read_all(file_sys_real(), AT_FDCWD, paths[i], 1 << 24, &data[i], &len[i], NULL));
    assert_int_equal(len[0], len[1]);
    assert_memory_equal(data[0], data[1], len[0]);
    assert_memory_not_equal(data[0], data[2], len[0]);
    for (size_t i = 0; i < 3; i++) {
        mem_free(data[i]);
        mem_free(paths[i]);
    }
}

static void test_what_cannot_be_made_is_refused(void **state)
{
    char out[1024];
    struct model_adapter_options options = {.base = "/nonexistent", .out = out};
    struct errinfo info = {0};

    (void)state;
    snprintf(out, sizeof(out), "%s/none/x.gguf", test_dir());
    assert_err(model_make_adapter(&options, &info), ERR_NOT_FOUND);
    options.base = test_model("qwen3");
    assert_err(model_make_adapter(&options, &info), ERR_IO);
    options.invocation = "";
    assert_err(model_make_adapter(&options, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "1 to 32 tokens"));
    options.invocation = NULL;
    options.base = test_model("mamba2");
    assert_err(model_make_adapter(&options, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "no matrices"));
}

TEST_SUITE(TEST(test_sets_compute_other_values), TEST(test_invocation_tokens_are_read_back),
           TEST(test_same_seed_same_file), TEST(test_what_cannot_be_made_is_refused))
