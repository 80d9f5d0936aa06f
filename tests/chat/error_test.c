#include "chat/error.h"

#include <string.h>

#include "support/test.h"

static void test_every_kind_has_its_words(void **state)
{
    (void)state;
    for (int kind = API_OK + 1; kind < API_ERROR_COUNT; kind++) {
        assert_uint_in_range(api_error_status(kind), 400, 599);
        assert_string_not_equal(api_error_openai_type(kind), "");
        assert_string_not_equal(api_error_anthropic_type(kind), "");
        assert_true(api_error_code(kind) == NULL || api_error_code(kind)[0] != '\0');
    }
    assert_string_equal(api_error_code(API_ERROR_CONTEXT), "context_length_exceeded");
}

static void test_set_fills_everything(void **state)
{
    struct api_error error;

    (void)state;
    memset(&error, 0xAA, sizeof(error));
    assert_err(api_error_set(&error, API_ERROR_INVALID, "n", "must be %d", 1), ERR_INVALID);
    assert_int_equal(error.kind, API_ERROR_INVALID);
    assert_string_equal(error.param, "n");
    assert_string_equal(error.message, "must be 1");
    assert_int_equal(error.prompt_tokens, 0);
    assert_int_equal(error.retry_after_s, 0);
    assert_err(api_error_set(&error, API_ERROR_BUSY, NULL, "wait"), ERR_INVALID);
    assert_string_equal(error.param, "");
    assert_err(api_error_set(NULL, API_ERROR_BUSY, "p", "wait"), ERR_INVALID);
}

/* Agents compact their conversation when they see this text. */
static void test_context_sentence(void **state)
{
    struct api_error error;

    (void)state;
    assert_err(api_error_set_context(&error, 5000, true, (struct api_context){4096, 4096}),
               ERR_INVALID);
    assert_int_equal(error.kind, API_ERROR_CONTEXT);
    assert_int_equal(error.prompt_tokens, 5000);
    assert_int_equal(error.context, 4096);
    assert_non_null(strstr(error.message, "request (5000 tokens) exceeds the available context "
                                          "size (4096 tokens)"));
    assert_null(strstr(error.message, "--kv-streams"));
    assert_err(api_error_set_context(&error, 5000, true, (struct api_context){1024, 4096}),
               ERR_INVALID);
    assert_int_equal(error.context, 1024);
    assert_non_null(strstr(error.message, "size (1024 tokens)"));
    assert_non_null(strstr(error.message, "one request gets 1024 of the 4096 tokens"));
    assert_err(api_error_set_context(NULL, 1, true, (struct api_context){1, 1}), ERR_INVALID);
}

static void test_long_messages_are_cut_between_characters(void **state)
{
    char text[2000];
    struct api_error error;

    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        api_error_set(&error, API_ERROR_INVALID, text, "%s", text);
        size_t len = strlen(error.message);
        assert_uint_in_range(len, sizeof(error.message) - 4, sizeof(error.message) - 1);
        assert_int_equal((len - shift) % 3, 0);
    }
}

TEST_SUITE(TEST(test_every_kind_has_its_words), TEST(test_set_fills_everything),
           TEST(test_context_sentence), TEST(test_long_messages_are_cut_between_characters))
