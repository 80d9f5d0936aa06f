#include "base/json_write.h"

#include <math.h>
#include <string.h>

#include "base/json_alc.h"
#include "base/mem.h"
#include "support/test.h"

static void test_commas_stand_where_they_belong(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    struct json json = json_to(&out);
    json_open(&json, '{');
    json_key(&json, "a");
    json_open(&json, '[');
    json_close(&json, ']');
    json_key(&json, "b");
    json_open(&json, '[');
    json_int(&json, -1);
    json_open(&json, '{');
    json_close(&json, '}');
    json_bool(&json, true);
    json_null(&json);
    json_close(&json, ']');
    json_key_text(&json, "c", "x");
    json_key_text(&json, "d", NULL);
    json_key_str(&json, "e", STR_NONE);
    json_key_uint(&json, "f", UINT64_MAX);
    json_key_float(&json, "g", 1.5);
    json_key_bool(&json, "h", false);
    json_key_null(&json, "i");
    json_key(&json, "j");
    json_raw(&json, STR("[0]"));
    json_close(&json, '}');
    assert_string_equal(buf_str(&out),
                        "{\"a\":[],\"b\":[-1,{},true,null],\"c\":\"x\",\"d\":null,\"e\":\"\","
                        "\"f\":18446744073709551615,\"g\":1.5,\"h\":false,\"i\":null,\"j\":[0]}");
    buf_fini(&out);
}

static void assert_written(struct str text, const char *expected)
{
    struct buf out;

    buf_init(&out, 1000);
    struct json json = json_to(&out);
    json_str(&json, text);
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
}

static void test_text_is_escaped_and_mended(void **state)
{
    (void)state;
    assert_written(STR(""), "\"\"");
    assert_written(STR("a\"b\\c/\n\r\t\b\f\x01\x7f"), "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\x7f\"");
    assert_written(STR("x\0y"), "\"x\\u0000y\"");
    assert_written(STR("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\xA5"),
                   "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\xA5\"");
    /* alone, cut, overlong, a surrogate, beyond Unicode */
    assert_written(STR("\x80"), "\"\xEF\xBF\xBD\"");
    assert_written(STR("a\xE2\x82"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    assert_written(STR("\xC0\xAFz"), "\"\xEF\xBF\xBD\xEF\xBF\xBDz\"");
    assert_written(STR("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    assert_written(STR("\xF4\x90\x80\x80|"),
                   "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD|\"");
    /* a replacement character that was there before */
    assert_written(STR("\xEF\xBF\xBD."), "\"\xEF\xBF\xBD.\"");
}

/* Whatever the bytes are, what is written reads as JSON, and valid text reads as itself. */
static void test_random_text_reads_back(void **state)
{
    uint64_t seed = test_seed();
    char text[24];

    (void)state;
    for (int round = 0; round < 5000; round++) {
        size_t len = test_random_below(&seed, sizeof(text));
        bool ascii = test_random_below(&seed, 2) == 0;
        for (size_t i = 0; i < len; i++)
            text[i] = (char)test_random_below(&seed, ascii ? 128 : 256);
        struct buf out;
        buf_init(&out, 1000);
        struct json json = json_to(&out);
        json_str(&json, (struct str){text, len});
        yyjson_doc *doc = yyjson_read(buf_str(&out), out.len, 0);
        assert_non_null(doc);
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (ascii) {
            assert_int_equal(yyjson_get_len(root), len);
            assert_memory_equal(yyjson_get_str(root), text, len);
        }
        yyjson_doc_free(doc);
        buf_fini(&out);
    }
}

static void test_numbers_are_short_and_never_nan(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    struct json json = json_to(&out);
    json_float(&json, 0.1);
    json_float(&json, (double)NAN);
    json_float(&json, (double)-INFINITY);
    json_single(&json, 0.7f);
    json_single(&json, INFINITY);
    json_int(&json, INT64_MIN);
    json_float(&json, -1.7976931348623157e308);
    assert_string_equal(buf_str(&out),
                        "0.1,null,null,0.7,null,-9223372036854775808,-1.7976931348623157e308");
    buf_fini(&out);
}

static void test_times(void **state)
{
    struct buf out;
    struct json json = json_begin(&out, 1000, '{');

    (void)state;
    json_key_time(&json, "a", 0);
    json_key_time(&json, "b", 253402300799);
    json_key_time(&json, "c", UINT64_MAX / 2); /* has no year */
    json_close(&json, '}');
    assert_string_equal(buf_str(&out), "{\"a\":\"1970-01-01T00:00:00Z\","
                                       "\"b\":\"9999-12-31T23:59:59Z\",\"c\":\"\"}");
    buf_fini(&out);
}

static void test_values_are_copied(void **state)
{
    static char text[] = "{\"a\": [1, 2.5, \"\\u00e9\\n\"], \"b\": null}";
    struct buf out;

    (void)state;
    yyjson_doc *doc = yyjson_read_opts(text, sizeof(text) - 1, 0, json_alc(), NULL);
    buf_init(&out, 1000);
    struct json json = json_to(&out);
    json_open(&json, '[');
    json_value(&json, yyjson_doc_get_root(doc));
    json_value(&json, NULL);
    json_close(&json, ']');
    assert_string_equal(buf_str(&out), "[{\"a\":[1,2.5,\"\xC3\xA9\\n\"],\"b\":null},null]");
    buf_fini(&out);
    yyjson_doc_free(doc);
}

/* Without memory the buffer says so, also when it is yyjson that got none. */
static void test_failures_stick_in_the_buffer(void **state)
{
    static char text[] = "{\"a\": [1]}";
    struct fault fault = {0};
    unsigned failures = 0;

    (void)state;
    yyjson_doc *doc = yyjson_read_opts(text, sizeof(text) - 1, 0, json_alc(), NULL);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct buf out;
        buf_init(&out, 1000);
        struct json json = json_to(&out);
        json_open(&json, '[');
        json_value(&json, yyjson_doc_get_root(doc));
        json_close(&json, ']');
        if (out.err == ERR_OK)
            assert_string_equal(buf_str(&out), "[{\"a\":[1]}]");
        else
            failures++;
        buf_fini(&out);
    }
    mem_set_fault(NULL);
    yyjson_doc_free(doc);
    assert_true(failures >= 2);
}

static void test_no_object_has_no_members(void **state)
{
    static const char *const none[] = {NULL};
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    struct json json = {.out = &out};
    json_members(&json, NULL, none);
    assert_string_equal(buf_str(&out), "");
    buf_fini(&out);
}

static void test_events_cannot_be_forged(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    struct json json = sse_open(&out, "first");
    json_text(&json, "a\r\n\ndata: forged");
    sse_close(&json);
    json = sse_open(&out, NULL);
    json_uint(&json, 1);
    sse_close(&json);
    assert_string_equal(buf_str(&out),
                        "event: first\ndata: \"a\\r\\n\\ndata: forged\"\n\ndata: 1\n\n");
    buf_fini(&out);
}

TEST_SUITE(TEST(test_commas_stand_where_they_belong), TEST(test_text_is_escaped_and_mended),
           TEST(test_random_text_reads_back), TEST(test_numbers_are_short_and_never_nan),
           TEST(test_times), TEST(test_values_are_copied), TEST(test_no_object_has_no_members),
           TEST(test_events_cannot_be_forged), TEST(test_failures_stick_in_the_buffer))
