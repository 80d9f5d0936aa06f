#include "jinja/unicode.h"

#include <string.h>

#include "support/test.h"

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

TEST_SUITE(TEST(test_properties), TEST(test_case_mappings))
