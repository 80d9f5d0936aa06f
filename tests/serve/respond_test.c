/* respond_test.c: what failures below mean to a client. What is sent is tested over sockets by
 * api_test.c and call_test.c. */
#include "serve/respond.h"

#include <string.h>

#include "support/test.h"

static void test_errors_from_below(void **state)
{
    static const struct {
        enum err err;
        enum api_error_kind kind;
        bool retry;
    } cases[] = {
        {ERR_INVALID, API_ERROR_INVALID, false},
        {ERR_LIMIT, API_ERROR_TOO_LARGE, false},
        {ERR_NOT_FOUND, API_ERROR_NOT_FOUND, false},
        {ERR_UNSUPPORTED, API_ERROR_UNSUPPORTED, false},
        {ERR_BUSY, API_ERROR_BUSY, true},
        {ERR_NOMEM, API_ERROR_UNAVAILABLE, true},
        {ERR_CLOSED, API_ERROR_UNAVAILABLE, true},
        {ERR_ENGINE, API_ERROR_SERVER, false},
        {ERR_IO, API_ERROR_SERVER, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct errinfo info;
        struct api_error error = {0};

        err_set(&info, cases[i].err, "words of its own");
        assert_err(api_error_from(&error, cases[i].err, &info), ERR_INVALID);
        assert_int_equal(error.kind, cases[i].kind);
        assert_string_equal(error.message, "words of its own");
        assert_int_equal(error.retry_after_s > 0, cases[i].retry);
    }
}

/* Whatever failed: what passes by itself is "not now", with the time. */
static void test_retry_is_not_now(void **state)
{
    struct api_error error = {0};
    struct errinfo info;

    (void)state;
    err_set(&info, ERR_ENGINE, "it restarts");
    info.retry_s = 7;
    api_error_from(&error, ERR_ENGINE, &info);
    assert_int_equal(error.kind, API_ERROR_UNAVAILABLE);
    assert_int_equal(error.retry_after_s, 7);
    err_set(&info, ERR_ENGINE, "another failure has no time");
    assert_int_equal(info.retry_s, 0);
}

static void test_without_words(void **state)
{
    struct errinfo stale = {.code = ERR_IO, .text = "of another failure"};
    struct api_error error = {0};

    (void)state;
    api_error_from(&error, ERR_NOMEM, NULL);
    assert_string_equal(error.message, err_sentence(ERR_NOMEM));
    error.kind = API_OK;
    api_error_from(&error, ERR_NOMEM, &stale);
    assert_string_equal(error.message, err_sentence(ERR_NOMEM));
}

/* Who was there first knows best. */
static void test_what_is_known_stays(void **state)
{
    struct api_error error = {0};

    (void)state;
    api_error_set(&error, API_ERROR_INVALID, "messages", "a reason");
    api_error_from(&error, ERR_NOMEM, NULL);
    assert_int_equal(error.kind, API_ERROR_INVALID);
    assert_string_equal(error.message, "a reason");
}

TEST_SUITE(TEST(test_errors_from_below), TEST(test_retry_is_not_now), TEST(test_without_words),
           TEST(test_what_is_known_stays))
