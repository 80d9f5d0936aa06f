#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "support/test.h"

static void test_names_are_unique_and_complete(void **state)
{
    (void)state;
    for (int i = 0; i < ERR_COUNT; i++) {
        assert_true(strlen(err_name(i)) > 0 && strlen(err_sentence(i)) > 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(err_name(i), err_name(j));
    }
    assert_string_equal(err_name((enum err)999), "unknown");
    assert_string_equal(err_name((enum err) - 1), "unknown");
}

static void test_set_returns_its_code(void **state)
{
    struct errinfo info = {0};

    (void)state;
    assert_err(err_set(&info, ERR_LIMIT, "at most %d", 7), ERR_LIMIT);
    assert_string_equal(info.text, "at most 7");
    assert_int_equal(info.code, ERR_LIMIT);
    assert_err(err_set(NULL, ERR_LIMIT, "nobody listens"), ERR_LIMIT);
}

static void test_errno_is_mapped_and_named(void **state)
{
    struct errinfo info = {0};

    (void)state;
    assert_err(err_set_errno(&info, ENOSPC, "writing %s", "x"), ERR_NO_SPACE);
    assert_string_equal(info.text, "writing x: No space left on device");
    assert_err(err_from_errno(ENOENT), ERR_NOT_FOUND);
    assert_err(err_from_errno(EROFS), ERR_DENIED);
    assert_err(err_from_errno(EMFILE), ERR_LIMIT);
    assert_err(err_from_errno(EIO), ERR_IO);
    assert_err(err_from_errno(12345), ERR_IO);
}

static void test_wrap_puts_context_first(void **state)
{
    struct errinfo info = {0};

    (void)state;
    err_set(&info, ERR_CORRUPT, "bad magic");
    assert_err(err_wrap(&info, ERR_CORRUPT, "model %s", "a.gguf"), ERR_CORRUPT);
    assert_string_equal(info.text, "model a.gguf: bad magic");

    info = (struct errinfo){0};
    err_wrap(&info, ERR_NOMEM, "loading");
    assert_string_equal(info.text, "loading: out of memory");
}

static void test_long_texts_are_cut_between_characters(void **state)
{
    struct errinfo info;
    char text[2048];

    (void)state;
    for (size_t pad = 0; pad < 4; pad++) {
        memset(text, 'x', pad);
        for (size_t i = pad; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4); /* the euro sign */
        err_set(&info, ERR_INVALID, "%s", text);
        size_t len = strlen(info.text);
        assert_true(len < sizeof(info.text) && len > sizeof(info.text) - 5);
        assert_int_equal((len - pad) % 3, 0);
    }
}

TEST_SUITE(TEST(test_names_are_unique_and_complete), TEST(test_set_returns_its_code),
           TEST(test_errno_is_mapped_and_named), TEST(test_wrap_puts_context_first),
           TEST(test_long_texts_are_cut_between_characters))
