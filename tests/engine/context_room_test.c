/*
 * The lower bound of what a token of context needs, against what the engine really stores per
 * token; and the refusal, with its figures.
 */
#include "engine/context_room.h"

#include <stdlib.h>
#include <string.h>

#include "engine/gguf_file.h"
#include "support/models.h"
#include "support/test.h"

enum { POSITION_BYTES = 16 }; /* of a row, beside keys and values, at most */

/* Of a family: the bound, and the bytes per token that the engine found. */
static double bound_of(const char *family, uint64_t *real)
{
    struct engine *engine = test_engine(family, NULL);
    struct gguf_file *file;
    struct errinfo info;

    *real = engine_facts(engine)->rows_bytes_per_token;
    bool windows = engine_facts(engine)->window > 0;
    engine_close(&engine);
    assert_ok(gguf_file_open(&file, test_model(family), &info));
    double bound = context_token_bytes(file, &(struct engine_options){0}, windows);
    gguf_file_close(&file);
    return bound;
}

static void test_bound_is_never_above_the_rows(void **state)
{
    /* full; windows; compressed rows; a hybrid; chunks */
    static const char *const families[] = {"qwen3", "gemma3", "deepseek2", "qwen35", "llama4"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        uint64_t real;
        double bound = bound_of(families[i], &real);
        if (bound <= 0 || bound > (double)real)
            fail_msg("%s: at least %.0f bytes per token, and it has %llu", families[i], bound,
                     (unsigned long long)real);
        if (i == 0) /* all that there is, where every layer attends to everything */
            assert_true(bound >= (double)real - POSITION_BYTES);
    }
}

/* Of Mamba, of delta rules, of short convolutions, and of KDA: as large as a snapshot but for its
 * header. */
static void test_bytes_of_recurrent_state(void **state)
{
    static const char *const families[] = {"nemotron_h", "qwen35", "lfm2moe", "bailingmoe3"};
    struct gguf_file *file;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        assert_ok(gguf_file_open(&file, test_model(families[i]), NULL));
        struct engine *engine = test_engine(families[i], NULL);
        uint64_t real = engine_facts(engine)->snapshot_bytes_max, bytes = context_state_bytes(file);
        if (bytes > real || bytes + 256 < real)
            fail_msg("%s: %llu bytes, a snapshot has %llu", families[i], (unsigned long long)bytes,
                     (unsigned long long)real);
        engine_close(&engine);
        gguf_file_close(&file);
    }
    assert_ok(gguf_file_open(&file, test_model("qwen3"), NULL));
    assert_int_equal(context_state_bytes(file), 0);
    gguf_file_close(&file);
}

static void test_refusal_says_what_fits(void **state)
{
    struct engine_options options = {0};
    struct gguf_file *file;
    struct errinfo info;

    (void)state;
    assert_ok(gguf_file_open(&file, test_model("qwen3"), &info));
    double each = context_token_bytes(file, &options, false);
    assert_true(context_token_bytes(file, &options, true) < each);
    options.sliding_full = true;
    assert_true(context_token_bytes(file, &options, true) == each);
    assert_ok(context_check_room(file, &options, false, 1000, (uint64_t)(each * 1000), &info));
    assert_err(context_check_room(file, &options, false, 1001, (uint64_t)(each * 1000), &info),
               ERR_LIMIT);
    assert_non_null(strstr(info.text, "a context of 1001 tokens needs at least "));
    const char *fits = strstr(info.text, "-c 768 fits");
    assert_non_null(fits);
    assert_ok(context_check_room(file, &options, false, 768, (uint64_t)(each * 1000), &info));
    assert_err(context_check_room(file, &options, false, UINT32_MAX, 10, &info), ERR_LIMIT);
    assert_null(strstr(info.text, "fits"));
    options.kv_k = options.kv_v = ENGINE_KV_Q8_0;
    assert_ok(context_check_room(file, &options, false, 1001, (uint64_t)(each * 1000), &info));
    gguf_file_close(&file);
}

/* Refused before a weight is read, and within an instant. */
static void test_engine_refuses(void **state)
{
    struct engine_options options = {
        .path = test_model("qwen3"), .context = 1u << 30, .memory_max = 1u << 28};
    struct engine *engine;
    struct errinfo info;

    (void)state;
    assert_err(engine_load(&engine, &options, &info), ERR_LIMIT);
    assert_null(engine);
    assert_non_null(strstr(info.text, "a context of 1073741824 tokens needs at least "));
    assert_non_null(strstr(info.text, " fits"));
}

TEST_SUITE(TEST(test_bound_is_never_above_the_rows), TEST(test_bytes_of_recurrent_state),
           TEST(test_refusal_says_what_fits), TEST(test_engine_refuses))
