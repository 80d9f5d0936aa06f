#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

static void test_every_code_point_there_and_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[4];
        if (code >= 0xD800 && code < 0xE000)
            continue;
        size_t len = utf8_encode(code, bytes);
        const char *at = bytes;
        assert_int_equal(utf8_next(&at, bytes + len), code);
        assert_ptr_equal(at, bytes + len);
        assert_int_equal(utf8_prev(bytes, &at), code);
        assert_ptr_equal(at, bytes);
        assert_true(utf8_valid((struct str){bytes, len}));
    }
}

static void test_damaged_text_is_one_character_a_byte(void **state)
{
    static const char *const damaged[] = {
        "\xC0\x80",     "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xE2\x82", "\xFF",
        "\xE0\x80\x80", "a\xC3",        "\xF0\x80\x80\x80", "\xC3("};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(damaged); i++) {
        size_t len = strlen(damaged[i]);
        struct str text = {test_guarded(damaged[i], len), len};
        assert_false(utf8_valid(text));
        assert_int_equal(utf8_count(text), len);
        assert_int_equal(utf8_offset(text, len + 5), len);
        const char *at = text.ptr + len;
        for (size_t n = 0; n < len; n++)
            utf8_prev(text.ptr, &at);
        assert_ptr_equal(at, text.ptr);
    }
    assert_true(utf8_valid(STR("\xEF\xBF\xBD")));
}

static void test_counting(void **state)
{
    struct str text = STR("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80z");

    (void)state;
    assert_int_equal(utf8_count(text), 5);
    assert_int_equal(utf8_offset(text, 3), 6);
    assert_int_equal(utf8_offset(text, 4), 10);
    assert_false(utf8_is_ascii(text));
    assert_true(utf8_is_ascii(STR("0123456789abcdef")));
    assert_false(utf8_is_ascii(STR("0123456789abcde\x80")));
}

/* Nothing that a terminal obeys is left, whatever the bytes are, and other characters stay. */
static void test_clean_text_has_no_controls(void **state)
{
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"", ""},
        {"a\x1b[2J", "a?[2J"},
        {"\xC2\x9B\xC2\x85\xC2\xA0\x7F", "??\xC2\xA0?"},
        {"\x9B\xC2", "??"},
        {"\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA", "??\xE2\x80\xAA"},
        {"\n\t\r", "\n??"},
        {"\xEF\xBF\xBD\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s", cases[i].text);
        text[utf8_clean(text, strlen(text), "\n")] = '\0';
        assert_string_equal(text, cases[i].clean);
    }
    for (uint64_t seed = 1, n = 0; n < 20000; n++) {
        char text[12];

        for (size_t i = 0; i < sizeof(text); i++)
            text[i] = (char)test_random_below(&seed, 256);
        size_t len = utf8_clean(text, sizeof(text), "");
        assert_true(len <= sizeof(text) && utf8_valid((struct str){text, len}));
        for (const char *at = text; at < text + len;)
            assert_false(utf8_is_control(utf8_next(&at, text + len)));
    }
}

static void test_a_cut_text_ends_with_a_whole_character(void **state)
{
    static const struct {
        const char *text;
        size_t whole;
    } cases[] = {{"", 0},         {"ab", 2},    {"a\xC3", 1},         {"a\xC3\xA4", 3},
                 {"\xE2\x82", 0}, {"a\x80", 2}, {"a\xF0\x9F\x98", 1}, {"\xF0\x9F\x98\x80", 4}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(utf8_whole(str_from(cases[i].text)), cases[i].whole);
}

TEST_SUITE(TEST(test_clean_text_has_no_controls), TEST(test_a_cut_text_ends_with_a_whole_character),
           TEST(test_every_code_point_there_and_back),
           TEST(test_damaged_text_is_one_character_a_byte), TEST(test_counting))
