/*
 * head_test.c: heads of answers.
 */
#include "http/head.h"

#include "base/clock.h"
#include "http/problem.h"
#include "support/test.h"

enum { DAY = 784111777 }; /* the example of RFC 9110: Sun, 06 Nov 1994 08:49:37 GMT */

static void check(const struct http_head *head, const struct http_frame *frame,
                  const char *expected)
{
    struct buf out;

    buf_init(&out, HTTP_HEAD_BYTES_MAX);
    assert_ok(http_head_append(&out, head, frame));
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
}

static void test_lengths(void **state)
{
    struct http_head head = {.status = 200, .content_type = STR("text/plain")};
    struct http_frame frame = {.bytes = 5, .keep_alive = true, .wall_ns = DAY * NS_PER_S};

    (void)state;
    check(&head, &frame,
          "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-type: text/plain\r\n"
          "content-length: 5\r\n\r\n");
    frame.length = HTTP_LENGTH_CHUNKED;
    frame.old_client = true;
    check(&head, &frame,
          "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-type: text/plain\r\n"
          "transfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n");
    frame.length = HTTP_LENGTH_TO_CLOSE;
    frame.keep_alive = false;
    check(&head, &frame,
          "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-type: text/plain\r\n"
          "connection: close\r\n\r\n");
    head = (struct http_head){.status = 204};
    check(&head, &frame,
          "HTTP/1.1 204 No Content\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nconnection: "
          "close\r\n\r\n");
}

/* No value can end its line. */
static void test_values_cannot_forge(void **state)
{
    const struct http_header headers[] = {
        {STR("x-model"), STR("a\r\nset-cookie: b\x01\x7f\xc3\xa4")}};
    struct http_head head = {.status = 529, .headers = headers, .headers_count = 1};
    struct http_frame frame = {.keep_alive = true,
                               .cors_origin = STR("http://a\n"),
                               .cors_checked = true,
                               .wall_ns = DAY * NS_PER_S};

    (void)state;
    check(&head, &frame,
          "HTTP/1.1 529 Overloaded\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 0\r\n"
          "access-control-allow-origin: http://a \r\n"
          "access-control-expose-headers: *\r\nvary: origin\r\n"
          "x-model: a  set-cookie: b  \xc3\xa4\r\n\r\n");
}

static void test_phrases(void **state)
{
    (void)state;
    for (enum http_problem problem = 1; problem < HTTP_PROBLEM_COUNT; problem++) {
        assert_string_not_equal(http_status_phrase(http_problem_status(problem)), "");
        assert_string_not_equal(http_problem_name(problem), "");
        assert_string_not_equal(http_problem_sentence(problem), "");
    }
    assert_string_equal(http_status_phrase(299), "");
}

TEST_SUITE(TEST(test_lengths), TEST(test_values_cannot_forge), TEST(test_phrases))
