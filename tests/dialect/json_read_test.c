#include "dialect/json_read.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

static yyjson_doc *read_text(const char *text)
{
    struct api_error error;
    yyjson_doc *doc;

    assert_ok(json_read_body(str_from(text), &doc, &error));
    return doc;
}

/* ---- the body ---- */

static void assert_body_refused(struct str text, const char *part)
{
    struct api_error error = {0};
    yyjson_doc *doc;

    assert_err(json_read_body(text, &doc, &error), ERR_INVALID);
    assert_null(doc);
    assert_int_equal(error.kind, API_ERROR_INVALID);
    if (strstr(error.message, part) == NULL)
        fail_msg("'%s' has no '%s'", error.message, part);
}

static void test_bodies_that_are_no_objects(void **state)
{
    (void)state;
    assert_body_refused(STR(""), "empty");
    assert_body_refused(STR("   "), "not JSON");
    assert_body_refused(STR("{\"a\":"), "not JSON");
    assert_body_refused(STR("{\"a\":1}x"), "at byte 7");
    assert_body_refused(STR("[1]"), "object");
    assert_body_refused(STR("null"), "object");
    assert_body_refused(STR("{\"a\":\"\xFF\"}"), "UTF-8");
    assert_body_refused(STR("{\"a\":NaN}"), "not JSON");
    assert_body_refused(STR("{\"a\":1,\"b\\u0000c\":2}"), "NUL");
}

static void test_depth_is_limited(void **state)
{
    static char text[4 * JSON_DEPTH_MAX + 100];

    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        int len = snprintf(text, sizeof(text), "{\"[[[\\\"[[\": ");
        for (int i = 1; i < depth; i++)
            text[len++] = '[';
        for (int i = 1; i < depth; i++)
            text[len++] = ']';
        len += snprintf(text + len, sizeof(text) - (size_t)len, ", \"b\": [[], {}]}");
        struct api_error error;
        yyjson_doc *doc;
        struct str body = {test_guarded(text, (size_t)len), (size_t)len};
        if (depth <= JSON_DEPTH_MAX) {
            assert_ok(json_read_body(body, &doc, &error));
            yyjson_doc_free(doc);
        } else {
            assert_body_refused(body, "nested more than 128");
        }
    }
}

/* Texts stay in the body, also behind an escape; a body as long as its buffer may be is copied. */
static void test_body_in_place(void **state)
{
    static const char text[] = "{\"a\":\"x\\ny\",\"b\":\"z\"}";
    struct api_error error;
    yyjson_doc *doc;
    struct buf body;

    (void)state;
    for (size_t room = 0; room <= YYJSON_PADDING_SIZE; room++) {
        buf_init(&body, strlen(text) + room);
        buf_append_str(&body, text);
        assert_ok(json_read_body_in_place(&body, SIZE_MAX, &doc, &error));
        const char *b = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "b"));
        assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "a")), "x\ny");
        assert_string_equal(b, "z");
        assert_int_equal(b > body.data && b < body.data + body.len, room == YYJSON_PADDING_SIZE);
        yyjson_doc_free(doc);
        buf_fini(&body);
    }
    buf_init(&body, 100);
    assert_err(json_read_body_in_place(&body, SIZE_MAX, &doc, &error), ERR_INVALID);
    assert_non_null(strstr(error.message, "empty"));
    buf_append_str(&body, "{\"a\":");
    assert_err(json_read_body_in_place(&body, SIZE_MAX, &doc, &error), ERR_INVALID);
    assert_null(doc);
    buf_fini(&body);
}

/* The tree is known before it is made. */
static void test_a_body_of_many_values(void **state)
{
    static const char *const text = "{\"a\": [1, 2, \",:[{\", {\"b\": []}]}"; /* 10 at most */
    struct api_error error = {0};
    yyjson_doc *doc;
    struct buf body;

    (void)state;
    buf_init(&body, 1000);
    buf_append_str(&body, text);
    assert_err(json_read_body_in_place(&body, 9 * sizeof(yyjson_val), &doc, &error), ERR_INVALID);
    assert_int_equal(error.kind, API_ERROR_TOO_LARGE);
    assert_string_equal(error.message, "the body has about 10 values, and a request may have 9");
    assert_null(doc);
    error = (struct api_error){0};
    assert_ok(json_read_body_in_place(&body, 10 * sizeof(yyjson_val), &doc, &error));
    assert_true(yyjson_doc_get_val_count(doc) <= 10);
    yyjson_doc_free(doc);
    buf_fini(&body);
}

static void test_body_without_memory(void **state)
{
    struct fault fault = {0};
    unsigned failures = 0;

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct api_error error;
        yyjson_doc *doc;
        enum err err = json_read_body(STR("{\"a\": [1, 2]}"), &doc, &error);
        if (err != ERR_OK) {
            assert_err(err, ERR_NOMEM);
            assert_null(doc);
            failures++;
        }
        yyjson_doc_free(doc);
    }
    mem_set_fault(NULL);
    assert_true(failures > 0);
}

/* ---- fields ---- */

enum type { BOOL, UINT, INT, FLOAT, STRING, CONTENT, OBJECT, ARRAY };

static enum err read_as(const struct json_reader *reader, enum type type, double *out)
{
    bool flag = false;
    uint64_t number = 0;
    int64_t whole = 0;
    float real = 0;
    struct str text = STR_NONE;
    yyjson_val *value = NULL;
    enum err err = ERR_OK;

    switch (type) {
    case BOOL:
        err = json_read_bool(reader, "f", &flag);
        break;
    case UINT:
        err = json_read_uint(reader, "f", 1, UINT64_MAX, &number);
        break;
    case INT:
        err = json_read_int(reader, "f", INT64_MIN, 100, &whole);
        break;
    case FLOAT:
        err = json_read_float(reader, "f", -2, 2, &real);
        break;
    case STRING:
        err = json_read_str(reader, "f", &text);
        break;
    case CONTENT:
        err = json_read_content(reader, "f", &text);
        break;
    case OBJECT:
        err = json_read_object(reader, "f", &value);
        break;
    case ARRAY:
        err = json_read_array(reader, "f", &value);
        break;
    }
    *out = (double)flag + (double)number + (double)whole + (double)real + (double)text.len +
           (double)yyjson_get_len(value);
    return err;
}

static const struct {
    enum type type;
    const char *body;
    double value;        /* of those that are good */
    const char *message; /* of those that are not */
} fields[] = {
    {BOOL, "{}", 0, NULL},
    {BOOL, "{\"f\":null}", 0, NULL},
    {BOOL, "{\"f\":true}", 1, NULL},
    {BOOL, "{\"f\":1}", 0, "'at.f' must be true or false"},
    {UINT, "{\"f\":3}", 3, NULL},
    {UINT, "{\"f\":3.0}", 3, NULL},
    {UINT, "{\"f\":18446744073709551615}", 18446744073709551615.0, NULL},
    {UINT, "{\"f\":18446744073709551616}", 0,
     "'at.f' must be a whole number from 1 to 18446744073709551615"},
    {UINT, "{\"f\":0}", 0, "'at.f' must be a whole number from 1 to 18446744073709551615"},
    {UINT, "{\"f\":-1}", 0, "'at.f' must be a whole number from 1 to 18446744073709551615"},
    {UINT, "{\"f\":3.5}", 0, "'at.f' must be a whole number from 1 to 18446744073709551615"},
    {UINT, "{\"f\":\"3\"}", 0, "'at.f' must be a whole number from 1 to 18446744073709551615"},
    {UINT, "{\"f\":true}", 0, "'at.f' must be a whole number from 1 to 18446744073709551615"},
    {INT, "{\"f\":-3}", -3, NULL},
    {INT, "{\"f\":-3.0}", -3, NULL},
    {INT, "{\"f\":7.0}", 7, NULL},
    {INT, "{\"f\":-9223372036854775808}", -9223372036854775808.0, NULL},
    {INT, "{\"f\":-1e300}", 0, "'at.f' must be a whole number from -9223372036854775808 to 100"},
    {INT, "{\"f\":9223372036854775808}", 0,
     "'at.f' must be a whole number from -9223372036854775808 to 100"},
    {INT, "{\"f\":101}", 0, "'at.f' must be a whole number from -9223372036854775808 to 100"},
    {INT, "{\"f\":-1.5}", 0, "'at.f' must be a whole number from -9223372036854775808 to 100"},
    {INT, "{\"f\":false}", 0, "'at.f' must be a whole number from -9223372036854775808 to 100"},
    {FLOAT, "{\"f\":-2}", -2, NULL},
    {FLOAT, "{\"f\":1.5}", 1.5, NULL},
    {FLOAT, "{\"f\":2.0001}", 0, "'at.f' must be a number from -2 to 2"},
    {FLOAT, "{\"f\":1e999}", 0, NULL}, /* is no JSON number: see below */
    {FLOAT, "{\"f\":[]}", 0, "'at.f' must be a number from -2 to 2"},
    {STRING, "{\"f\":\"a\\u0000b\"}", 0, "'at.f' must not contain NUL"},
    {STRING, "{\"f\":\"\\u0000\"}", 0, "'at.f' must not contain NUL"},
    {CONTENT, "{\"f\":\"a\\u0000b\"}", 3, NULL},
    {CONTENT, "{\"f\":5}", 0, "'at.f' must be a string"},
    {STRING, "{\"f\":5}", 0, "'at.f' must be a string"},
    {OBJECT, "{\"f\":{\"a\":1}}", 1, NULL},
    {OBJECT, "{\"f\":[1]}", 0, "'at.f' must be an object"},
    {ARRAY, "{\"f\":[1,2]}", 2, NULL},
    {ARRAY, "{\"f\":{}}", 0, "'at.f' must be an array"},
};

static void test_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        struct api_error error = {0};
        yyjson_doc *doc;
        double value = 0;
        if (json_read_body(str_from(fields[i].body), &doc, &error) != ERR_OK) {
            assert_non_null(strstr(fields[i].body, "1e999"));
            continue;
        }
        struct json_reader reader = {yyjson_doc_get_root(doc), "at.", &error, NULL, NULL};
        enum err err = read_as(&reader, fields[i].type, &value);
        assert_string_equal(error.message, fields[i].message ? fields[i].message : "");
        assert_string_equal(error.param, fields[i].message ? "at.f" : "");
        assert_err(err, fields[i].message ? ERR_INVALID : ERR_OK);
        if (value != fields[i].value)
            fail_msg("%s gave %g", fields[i].body, value);
        yyjson_doc_free(doc);
    }
}

static void test_errors_name_the_field(void **state)
{
    struct api_error error;
    struct json_reader reader = {NULL, "", &error, NULL, NULL};

    (void)state;
    assert_err(json_read_error(&reader, "tools", "has %d too many", 3), ERR_INVALID);
    assert_string_equal(error.message, "'tools' has 3 too many");
    assert_string_equal(error.param, "tools");
    assert_int_equal(error.kind, API_ERROR_INVALID);
    reader = (struct json_reader){NULL, "messages[12].", &error, NULL, NULL};
    assert_err(json_read_error_kind(&reader, API_ERROR_UNSUPPORTED, "content[0]", "is an image"),
               ERR_INVALID);
    assert_string_equal(error.message, "'messages[12].content[0]' is an image");
    assert_int_equal(error.kind, API_ERROR_UNSUPPORTED);
    reader.error = NULL;
    assert_err(json_read_error(&reader, "x", "y"), ERR_INVALID);
}

static void test_get_and_text(void **state)
{
    yyjson_doc *doc = read_text("{\"a\": \"b\", \"n\": null, \"i\": 1}");
    struct json_reader reader = {yyjson_doc_get_root(doc), "", NULL, NULL, NULL};

    (void)state;
    assert_null(json_read_get(&reader, "n"));
    assert_null(json_read_get(&reader, "x"));
    assert_true(str_eq(json_get_text(json_read_get(&reader, "a")), STR("b")));
    assert_int_equal(json_get_text(json_read_get(&reader, "i")).len, 0);
    assert_int_equal(json_get_text(NULL).len, 0);
    yyjson_doc_free(doc);
}

static void check_unread(const char *body, const char *expected, size_t unread)
{
    static const char *const accepted[] = {"user", NULL};
    uint64_t asked = 0;
    yyjson_doc *doc = read_text(body);
    struct json_reader reader = {yyjson_doc_get_root(doc), "", NULL, &asked, NULL};
    struct buf out;

    buf_init(&out, 1024);
    json_read_get(&reader, "temperature");
    json_read_get(&reader, "missing");
    assert_int_equal(json_read_unread(reader.object, asked, accepted, &out), unread);
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
    yyjson_doc_free(doc);
}

static void test_fields_that_nothing_asked_for(void **state)
{
    (void)state;
    check_unread("{\"temperature\": 1, \"user\": \"u\", \"null\": null}", "", 0);
    check_unread("{\"temprature\": 1, \"temperature\": 1, \"mirostat\": 2}", "temprature, mirostat",
                 2);
    check_unread("{\"a\\nb\": 1}", "1 more", 1);
    check_unread("{\"x\": 1, \"\": 1}", "x, 1 more", 2);
    check_unread("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1}",
                 "a, b, c, d, e, f, g, h, 1 more", 9);
}

TEST_SUITE(TEST(test_bodies_that_are_no_objects), TEST(test_depth_is_limited),
           TEST(test_body_in_place), TEST(test_a_body_of_many_values),
           TEST(test_body_without_memory), TEST(test_fields), TEST(test_errors_name_the_field),
           TEST(test_get_and_text), TEST(test_fields_that_nothing_asked_for))
