#include "chat/gen_request.h"

#include "base/json_alc.h"
#include "support/test.h"

static void test_defaults(void **state)
{
    struct gen_request request;

    (void)state;
    gen_request_init(&request, 1000, NULL);
    assert_int_equal(request.choices, 1);
    assert_int_equal(request.max_tokens, 0);
    assert_true(request.parallel_calls && request.cache_read && request.cache_write);
    assert_false(request.stream || request.cache_no_disk || request.echo);
    assert_int_equal(request.source, GEN_SOURCE_MESSAGES);
    assert_int_equal(request.tool_choice, CONSTRAINT_AUTO);
    assert_int_equal(request.format, CONSTRAINT_ANSWER_TEXT);
    assert_int_equal(request.thinking, CHAT_THINKING_DEFAULT);
    assert_true(request.sample.temperature == sample_params_default().temperature);
    gen_request_fini(&request);
}

static void test_the_servers_defaults_are_taken(void **state)
{
    struct sample_params defaults = sample_params_default();
    struct gen_request request;

    (void)state;
    defaults.temperature = 0.25f;
    defaults.top_k = 7;
    gen_request_init(&request, 1000, &defaults);
    assert_true(request.sample.temperature == 0.25f);
    assert_int_equal(request.sample.top_k, 7);
    gen_request_fini(&request);
}

/* The end frees what was read and the arena (the address build notices the rest).
 */
static void test_fini_frees_all(void **state)
{
    static char text[] = "{}";
    struct gen_request request;

    (void)state;
    gen_request_init(&request, 100, NULL);
    request.body = yyjson_read_opts(text, 2, 0, json_alc(), NULL);
    assert_non_null(arena_alloc(&request.arena, 50));
    assert_null(arena_alloc(&request.arena, 100));
    gen_request_fini(&request);
    assert_null(request.body);
    gen_request_fini(&request);
}

TEST_SUITE(TEST(test_defaults), TEST(test_the_servers_defaults_are_taken),
           TEST(test_fini_frees_all))
