/*
 * request_test.c: headers, queries, escapes, secrets.
 */
#include "http/request.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"

static void test_headers(void **state)
{
    const struct http_header headers[] = {
        {STR("Content-Type"), STR("a")}, {STR("x-key"), STR("b")}, {STR("X-Key"), STR("c")}};
    struct http_request request = {.headers = headers, .headers_count = 3};
    struct str value;

    (void)state;
    assert_true(http_request_header(&request, STR("content-type"), &value));
    assert_true(str_eq(value, STR("a")));
    assert_true(http_request_header(&request, STR("X-KEY"), &value));
    assert_true(str_eq(value, STR("b")));
    assert_false(http_request_header(&request, STR("x-ke"), &value));
}

static void test_local_requests(void **state)
{
    const struct http_header relayed = {STR("X-Forwarded-For"), STR("10.0.0.1")};
    static const char *const near[] = {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "unix"},
                             *const far[] = {"10.0.0.1", "::2", "", "fe80::1", "1.127.0.0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(near); i++) {
        struct http_request request = {.peer = str_from(near[i]), .headers = &relayed};
        assert_true(http_request_is_local(&request));
        request.headers_count = 1;
        assert_false(http_request_is_local(&request));
    }
    for (size_t i = 0; i < COUNT_OF(far); i++)
        assert_false(http_request_is_local(&(struct http_request){.peer = str_from(far[i])}));
}

static void check_query(const char *query, const char *name, const char *expected)
{
    struct buf out;

    buf_init(&out, 100);
    enum err err = http_query_get(str_from(query), str_from(name), &out);
    if (expected == NULL) {
        assert_err(err, ERR_NOT_FOUND);
    } else {
        assert_ok(err);
        assert_string_equal(buf_str(&out), expected);
    }
    buf_fini(&out);
}

static void test_query(void **state)
{
    (void)state;
    check_query("a=1&b=2", "b", "2");
    check_query("a=1&a=2", "a", "1");
    check_query("a=x%20y+z%2B", "a", "x y z+");
    check_query("a", "a", "");
    check_query("a=b=c", "a", "b=c");
    check_query("", "a", NULL);
    check_query("&&=x&aa=1", "a", NULL);
}

static void test_take_body(void **state)
{
    struct buf owner, body;

    (void)state;
    buf_init(&owner, 100);
    buf_append_str(&owner, "text");
    struct http_request request = {.body = {owner.data, owner.len}, .body_owner = &owner};
    http_request_take_body(&request, &body);
    assert_true(str_eq(request.body, STR("text")));
    assert_string_equal(buf_str(&body), "text");
    assert_null(owner.data);
    buf_fini(&owner);
    buf_fini(&body);
}

static void test_method_names(void **state)
{
    (void)state;
    assert_string_equal(http_method_name(HTTP_METHOD_GET), "GET");
    assert_string_equal(http_method_name(HTTP_METHOD_OPTIONS), "OPTIONS");
}

TEST_SUITE(TEST(test_headers), TEST(test_local_requests), TEST(test_query), TEST(test_take_body),
           TEST(test_method_names))
