#include "prompt/jinja_unicode.h"

#include <string.h>

#include "support/test.h"

static void test_every_code_point_there_and_back(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[4];
        if (code >= 0xD800 && code < 0xE000)
            continue;
        size_t len = jinja_utf8_encode(code, bytes);
        const char *at = bytes;
        assert_int_equal(jinja_utf8_next(&at, bytes + len), code);
        assert_ptr_equal(at, bytes + len);
        assert_int_equal(jinja_utf8_prev(bytes, &at), code);
        assert_ptr_equal(at, bytes);
        assert_true(jinja_utf8_valid((struct str){bytes, len}));
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
        assert_false(jinja_utf8_valid(text));
        assert_int_equal(jinja_utf8_count(text), len);
        assert_int_equal(jinja_utf8_offset(text, len + 5), len);
        const char *at = text.ptr + len;
        for (size_t n = 0; n < len; n++)
            jinja_utf8_prev(text.ptr, &at);
        assert_ptr_equal(at, text.ptr);
    }
    assert_true(jinja_utf8_valid(STR("\xEF\xBF\xBD")));
}

static void test_counting(void **state)
{
    struct str text = STR("a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x98\x80z");

    (void)state;
    assert_int_equal(jinja_utf8_count(text), 5);
    assert_int_equal(jinja_utf8_offset(text, 3), 6);
    assert_int_equal(jinja_utf8_offset(text, 4), 10);
    assert_false(jinja_text_is_ascii(text));
    assert_true(jinja_text_is_ascii(STR("0123456789abcdef")));
    assert_false(jinja_text_is_ascii(STR("0123456789abcde\x80")));
}

static void test_properties(void **state)
{
    (void)state;
    assert_true(jinja_char_props('a') & JINJA_CHAR_LOWER);
    assert_true(jinja_char_props(0x1C5) & JINJA_CHAR_TITLE);
    assert_true(jinja_char_props(0xB2) & JINJA_CHAR_DIGIT);
    assert_false(jinja_char_props(0xB2) & JINJA_CHAR_DECIMAL);
    assert_false(jinja_char_props(0x200B) & JINJA_CHAR_PRINTABLE);
    assert_false(jinja_char_props(0x10FFFF) & JINJA_CHAR_PRINTABLE);
    assert_true(jinja_char_is_space(0x3000) && jinja_char_is_space(0x1F) &&
                !jinja_char_is_space(0x200B));
    assert_true(jinja_char_is_newline(0x85) && !jinja_char_is_newline(0x1F));
}

static void assert_case(uint32_t code, enum jinja_case to, const char *expected)
{
    char bytes[JINJA_CASE_BYTES_MAX + 1];
    size_t len = jinja_char_to_case(code, to, bytes);

    bytes[len] = '\0';
    assert_string_equal(bytes, expected);
}

static void test_case_mappings(void **state)
{
    (void)state;
    assert_case('a', JINJA_CASE_UPPER, "A");
    assert_case('[', JINJA_CASE_LOWER, "[");
    assert_case(0xE9, JINJA_CASE_UPPER, "\xC3\x89");
    assert_case(0x101, JINJA_CASE_UPPER, "\xC4\x80"); /* in a range of every other character */
    assert_case(0x100, JINJA_CASE_UPPER, "\xC4\x80");
    assert_case(0xDF, JINJA_CASE_UPPER, "SS");
    assert_case(0xDF, JINJA_CASE_TITLE, "Ss");
    assert_case(0x1C6, JINJA_CASE_TITLE, "\xC7\x85");
    assert_case(0x65E5, JINJA_CASE_UPPER, "\xE6\x97\xA5");
}

TEST_SUITE(TEST(test_every_code_point_there_and_back),
           TEST(test_damaged_text_is_one_character_a_byte), TEST(test_counting),
           TEST(test_properties), TEST(test_case_mappings))
