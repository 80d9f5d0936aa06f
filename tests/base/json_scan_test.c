#include "base/json_scan.h"

#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "support/test.h"

static const char *const valid[] = {
    "{}",
    "[]",
    "0",
    "-0",
    "12",
    "-1.5",
    "1e5",
    "1E-5",
    "0.10e+10",
    "true",
    "false",
    "null",
    "\"\"",
    " { \"a\" : [ 1 , -2.5 , { } , [ ] ] , \"b\" : null }",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
    "\"\\ud83d\\ude00\"",
    "[[[[1]]],{\"a\":{\"b\":[]}}]",
    "{\"a\":1,\"a\":2}",
    "\"\xc3\xa9\"",
};

static const char *const invalid[] = {
    "",      "{",     "}",           "[1,]",        "{\"a\":1,}",  "{\"a\"}",      "{\"a\" 1}",
    "{a:1}", "[1 2]", "01",          "1.",          ".5",          "+1",           "1e",
    "1e+",   "-",     "tru",         "truth",       "nul",         "\"",           "\"\\x\"",
    "[}",    "{]",    "\"\\u12g4\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "1 2",
    "{}{}",  "[1",    "'a'",         "{\"a\":}",    "{,}",         "[,]",          "\"\\ud83d\\n\"",
};

static void test_valid_and_invalid(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(valid); i++)
        if (!json_scan_valid(str_from(valid[i])))
            fail_msg("refused: %s", valid[i]);
    for (size_t i = 0; i < COUNT_OF(invalid); i++)
        if (json_scan_valid(str_from(invalid[i])))
            fail_msg("taken: %s", invalid[i]);
}

/* Random texts of JSON's own characters: the same answer as yyjson, however they are cut. */
static void test_agrees_with_yyjson(void **state)
{
    static const char *const words[] = {"{",       "}",  "[",    "]",    ":",    ",",
                                        "\"a\"",   "1",  "-2.5", "true", "null", " ",
                                        "\"\\n\"", "e5", "0",    "{}",   "[]",   "\"b\":"};
    uint64_t seed = test_seed();
    size_t good = 0;

    (void)state;
    for (int round = 0; round < 100000; round++) {
        char text[128];
        size_t len = 0;
        for (uint64_t n = 1 + test_random_below(&seed, 7); n > 0; n--) {
            const char *word = words[test_random_below(&seed, COUNT_OF(words))];
            memcpy(text + len, word, strlen(word));
            len += strlen(word);
        }
        yyjson_doc *doc = yyjson_read(text, len, YYJSON_READ_NUMBER_AS_RAW);
        bool expected = doc != NULL;
        yyjson_doc_free(doc);
        if (json_scan_valid((struct str){text, len}) != expected)
            fail_msg("%.*s: expected %d", (int)len, text, expected);
        good += expected;
    }
    assert_true(good > 1000);
}

static void test_ends_where_the_value_ends(void **state)
{
    static const struct {
        const char *text;
        size_t used;
        enum json_scan_result result;
    } cases[] = {
        {"{\"a\":[1]}x", 9, JSON_SCAN_DONE}, {"12,", 2, JSON_SCAN_DONE},
        {"12", 2, JSON_SCAN_MORE},           {"true]", 4, JSON_SCAN_DONE},
        {"\"a\"\"", 3, JSON_SCAN_DONE},      {"[1}", 2, JSON_SCAN_BAD},
        {"  {", 3, JSON_SCAN_MORE},          {"", 0, JSON_SCAN_MORE},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t used, len = strlen(cases[i].text);
        struct json_scan scan;
        json_scan_init(&scan);
        struct str text = {test_guarded(cases[i].text, len), len};
        assert_int_equal(json_scan_text(&scan, text, &used, NULL), cases[i].result);
        assert_int_equal(used, cases[i].used);
    }
}

static void test_control_characters_become_escapes(void **state)
{
    struct json_scan scan;
    struct buf out;
    size_t used;

    (void)state;
    buf_init(&out, 1000);
    json_scan_init(&scan);
    assert_int_equal(json_scan_text(&scan, STR("{\n\"a\":\"x\ny\x01z\t\"}"), &used, &out),
                     JSON_SCAN_DONE);
    assert_string_equal(buf_str(&out), "{\n\"a\":\"x\\ny\\u0001z\\t\"}");
    buf_clear(&out);
    json_scan_escape(&out, STR("a\"\\/\b\f\n\r\t\x1f\x7f\xc3\xa9"));
    assert_string_equal(buf_str(&out), "a\\\"\\\\/\\b\\f\\n\\r\\t\\u001f\x7f\xc3\xa9");
    buf_fini(&out);
}

static void test_depth_is_bounded(void **state)
{
    char text[2 * JSON_SCAN_DEPTH_MAX + 2];
    size_t depth = JSON_SCAN_DEPTH_MAX;

    (void)state;
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    assert_true(json_scan_valid((struct str){text, 2 * depth}));
    memset(text, '[', depth + 1);
    memset(text + depth + 1, ']', depth + 1);
    assert_false(json_scan_valid((struct str){text, 2 * depth + 2}));
}

TEST_SUITE(TEST(test_valid_and_invalid), TEST(test_agrees_with_yyjson),
           TEST(test_ends_where_the_value_ends), TEST(test_control_characters_become_escapes),
           TEST(test_depth_is_bounded))
