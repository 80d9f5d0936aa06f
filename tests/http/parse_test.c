/*
 * parse_test.c: what is a request and what is not. Each row runs whole, and cut at every byte into
 * two and into single bytes: the outcome must be the same.
 */
#include "http/parse.h"

#include <string.h>

#include "base/mem.h"
#include "http/server.h"
#include "support/test.h"

static const struct http_limits limits = {
    .headers_max = 8,
    .target_bytes_max = 64,
    .head_bytes_max = 512,
    .body_bytes_max = 32,
};

static enum http_problem on_head(struct http_request *request, struct http_body_plan *plan,
                                 void *arg)
{
    unsigned *calls = arg;

    (void)request;
    *calls += plan->expects ? 100 : 1;
    return HTTP_PROBLEM_NONE;
}

/* A request as text, or the problem, or "more". */
static void describe(struct http_parser *parser, enum http_parse result, struct buf *out)
{
    if (result == HTTP_PARSE_MORE) {
        buf_append_str(out, "more");
        return;
    }
    if (result == HTTP_PARSE_FAILED) {
        buf_append_str(out, http_problem_name(http_parser_problem(parser)));
        return;
    }
    struct http_request *request = http_parser_request(parser);
    buf_appendf(out, "%s " STR_FMT "?" STR_FMT " host=" STR_FMT " 1.%u %s [" STR_FMT "]",
                http_method_name(request->method), STR_ARG(request->path), STR_ARG(request->query),
                STR_ARG(request->host), request->version_minor,
                http_parser_keep_alive(parser) ? "keep" : "close", STR_ARG(request->body));
    for (size_t i = 0; i < request->headers_count; i++)
        buf_appendf(out, " " STR_FMT "=" STR_FMT, STR_ARG(request->headers[i].name),
                    STR_ARG(request->headers[i].value));
}

/* Feeds `text` in pieces of `step` after a first one of `first`; what is left behind a request is
 * appended after '|'. */
static void run(struct str text, size_t first, size_t step, struct buf *out)
{
    unsigned calls = 0;
    struct http_parser *parser = http_parser_create(&limits, on_head, &calls);
    enum http_parse result = HTTP_PARSE_MORE;
    size_t at = 0, len = first;

    while (at < text.len && result == HTTP_PARSE_MORE) {
        len = MIN(len, text.len - at);
        struct str piece = {text.ptr + at, len};
        result = http_parser_feed(parser, &piece);
        at += len - piece.len;
        len = step;
    }
    describe(parser, result, out);
    if (result == HTTP_PARSE_DONE)
        buf_appendf(out, "|%zu", text.len - at);
    http_parser_destroy(&parser);
}

static void check(const char *text, size_t len, const char *expected)
{
    struct str whole = {test_guarded(text, len), len};

    for (size_t first = 0; first <= len; first++) {
        struct buf out;
        buf_init(&out, 1 << 16);
        run(whole, first > 0 ? first : 1, first > 0 ? len : 1, &out);
        /* A prefix is compared: rows name what matters to them. */
        if (strncmp(buf_str(&out), expected, strlen(expected)) != 0)
            fail_msg("'%s', cut at %zu: '%s', not '%s'", text, first, buf_str(&out), expected);
        buf_fini(&out);
    }
}

struct row {
    const char *text, *expected;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check(rows[i].text, strlen(rows[i].text), rows[i].expected);
}

/* Where several problems could be named (""), that it is refused is what counts. */
static void check_refused(const struct row *rows, size_t count)
{
    check_rows(rows, count);
    for (size_t i = 0; i < count; i++) {
        struct buf out;
        buf_init(&out, 1 << 16);
        run(str_from(rows[i].text), strlen(rows[i].text), 1, &out);
        if (strstr(buf_str(&out), "|") != NULL || strcmp(buf_str(&out), "more") == 0)
            fail_msg("'%s' was taken: %s", rows[i].text, buf_str(&out));
        buf_fini(&out);
    }
}

#define H "Host: a\r\n"

static void test_good(void **state)
{
    static const struct row rows[] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", "GET /? host=a 1.1 keep [] Host=a|0"},
        {"\r\nGET / HTTP/1.1\r\n" H "\r\n", "GET /? host=a 1.1 keep []"},
        {"GET /a?b=c&d HTTP/1.1\r\n" H "X:y\r\nX2:  z \t\r\nX3:\r\n\r\nNEXT",
         "GET /a?b=c&d host=a 1.1 keep [] Host=a X=y X2=z X3=|4"},
        {"GET / HTTP/1.1\r\n" H "X3:\r\nY: z\r\nX4: \r\n\r\n",
         "GET /? host=a 1.1 keep [] Host=a X3= Y=z X4=|0"},
        {"GET / HTTP/1.0\r\n\r\n", "GET /? host= 1.0 close []"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET /? host= 1.0 keep []"},
        {"GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\nX", "GET /? host=a 1.1 close [] "},
        {"HEAD / HTTP/1.1\r\n" H "\r\n", "HEAD /? host=a 1.1 keep []"},
        {"OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS *? host=a 1.1 keep []"},
        {"GET http://a/x?y HTTP/1.1\r\n" H "\r\n", "GET /x?y host=a 1.1"},
        {"GET http://A HTTP/1.1\r\n" H "\r\n", "GET /? host=a 1.1"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabcGET",
         "POST /? host=a 1.1 keep [abc] Host=a Content-Length=3|3"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", "POST /? host=a 1.1 keep []"},
        {"POST / HTTP/1.1\r\n" H "\r\n", "POST /? host=a 1.1 keep []"},
        {"POST / HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n0\r\n\r\nX",
         "POST /? host=a 1.1 keep [abc0123456789] Host=a Transfer-Encoding=chunked|1"},
        {"POST / HTTP/1.1\r\n" H
         "Transfer-Encoding: Chunked\r\n\r\n1;a=b;c=\"d\"\r\nx\r\n0\r\nTrailer: t\r\n\r\n",
         "POST /? host=a 1.1 keep [x] Host=a Transfer-Encoding=Chunked|0"},
        {"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
         "POST /? host=a 1.1 keep [x]"},
        {"GET / HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nX",
         "GET /? host=a 1.1 keep [] "},
        {"POST / HTTP/1.1\r\n" H
         "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nabX",
         "POST /? host=a 1.1 keep [ab] "},
        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET /? host=[::1] 1.1"},
        {"GET / HTTP/1.1\r\n" H "X: \xc3\xa4\r\n\r\n", "GET /? host=a 1.1"},
    };

    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

static void test_incomplete(void **state)
{
    static const struct row rows[] = {
        {"GET", "more"},
        {"GET / HTTP/1.1\r\nHost: a\r\n", "more"},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nab", "more"},
        {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n", "more"},
    };

    (void)state;
    check_rows(rows, COUNT_OF(rows));
}

/* Two readers of the same bytes must not find different requests in them. */
static void test_framing(void **state)
{
#define P "POST / HTTP/1.1\r\n" H
#define C P "Transfer-Encoding: chunked\r\n\r\n"
    static const struct row rows[] = {
        {P "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_framing"},
        {P "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "bad_framing"},
        {P "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "bad_framing"},
        {P "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "bad_framing"},
        {P "Content-Length: 3, 3\r\n\r\nabc", "bad_framing"},
        {P "Content-Length: +3\r\n\r\nabc", "bad_framing"},
        {P "Content-Length: -3\r\n\r\nabc", "bad_framing"},
        {P "Content-Length: 0x3\r\n\r\nabc", "bad_framing"},
        {P "Content-Length: 3 4\r\n\r\nabc", "bad_framing"},
        {P "Content-Length: 99999999999999999999\r\n\r\n", "bad_framing"},
        {P "Content-Length: 18446744073709551616\r\n\r\n", "bad_framing"},
        {P "Content-Length:\r\n\r\nabc", "bad_framing"},
        {P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "bad_framing"},
        {P "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "unknown_coding"},
        {P "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", ""},
        {P "Transfer-Encoding: identity\r\n\r\nabc", "unknown_coding"},
        {P "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "unknown_coding"},
        {P "Transfer-Encoding:\r\n\r\nabc", "bad_framing"},
        {P "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "malformed"},
        {P "Transfer-Encoding:\x0b"
           "chunked\r\n\r\n0\r\n\r\n",
         ""},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_framing"},
        {C "x\r\n", "bad_framing"},
        {C "-1\r\n", "bad_framing"},
        {C "+1\r\nx\r\n", "bad_framing"},
        {C "0x1\r\nx\r\n", "bad_framing"},
        {C "1 \r\nx\r\n", ""},
        {C " 1\r\nx\r\n", "bad_framing"},
        {C "\r\n", "bad_framing"},
        {C "fffffffffffffffff\r\nx", "bad_framing"},
        {C "1\nx\n0\n\n", ""},
        {C "1\r\nxy\r\n", ""},
        {C "1\r\nx0\r\n\r\n", ""},
        {C "1;\nx\r\n0\r\n\r\n", ""},
        {C "21\r\n012345678901234567890123456789012\r\n", "body_too_large"},
        {P "Content-Length: 33\r\n\r\n", "body_too_large"},
        {C "10\r\n0123456789abcdef\r\n10\r\n0123456789abcdef\r\n1\r\nx\r\n", "body_too_large"},
    };

    (void)state;
    check_refused(rows, COUNT_OF(rows));
}

static void test_malformed(void **state)
{
    static const char nul_in_value[] = "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n";
    static const char nul_in_target[] = "GET /\0 HTTP/1.1\r\n" H "\r\n";
    static const struct row rows[] = {
        {"GET / HTTP/1.1\n" H "\r\n", "malformed"},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "\n", "malformed"},
        {"GET / HTTP/1.1\r" H "\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X y: a\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H ": a\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X(: a\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X\x80: a\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X: \x01\r\n\r\n", "malformed"},
        {"GET / HTTP/1.1\r\n" H "X: \x7f\r\n\r\n", "malformed"},
        {"\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", "malformed"},
        {" GET / HTTP/1.1\r\n" H "\r\n", "malformed"},
        {"GET  / HTTP/1.1\r\n" H "\r\n", "malformed"},
        {"GET /  HTTP/1.1\r\n" H "\r\n", ""},
        {"GET /\tHTTP/1.1\r\n" H "\r\n", ""},
        {"GET / HTTP/1.1 \r\n" H "\r\n", ""},
        {"get / HTTP/1.1\r\n" H "\r\n", "malformed"},
        {"FOO / HTTP/1.1\r\n" H "\r\n", "malformed"},
        {"GET\r\n", "malformed"},
        {"GET /\r\n\r\n", ""},
        {"\x16\x03\x01\x02", "malformed"},
        {"GET / HTTP/1.1\r\n\r\n", "bad_host"},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "bad_host"},
        {"GET / HTTP/1.1\r\n" H H "\r\n", "bad_host"},
        {"GET / HTTP/1.0\r\n" H H "\r\n", "bad_host"},
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "bad_host"},
        {"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "bad_host"},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "bad_host"},
        {"GET http://b/ HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"GET https://a/ HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"GET http:///x HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"GET a HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"GET * HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"GET /a#b HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"GET /\x80 HTTP/1.1\r\n" H "\r\n", "bad_target"},
        {"CONNECT a:80 HTTP/1.1\r\n" H "\r\n", "unknown_method"},
        {"TRACE / HTTP/1.1\r\n" H "\r\n", "unknown_method"},
        {"PROPFIND / HTTP/1.1\r\n" H "\r\n", "unknown_method"},
        {"GET / HTTP/2.0\r\n" H "\r\n", "bad_version"},
        {"GET / HTTP/1.2\r\n" H "\r\n", "bad_version"},
        {"GET / HTTP/0.9\r\n" H "\r\n", "bad_version"},
        {"GET / HTTP/11.1\r\n" H "\r\n", ""},
        {"GET / http/1.1\r\n" H "\r\n", ""},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
        {"POST / HTTP/1.1\r\n" H "Expect: x\r\nContent-Length: 1\r\n\r\nx", "bad_expectation"},
    };

    (void)state;
    check_refused(rows, COUNT_OF(rows));
    check(nul_in_value, sizeof(nul_in_value) - 1, "malformed");
    check(nul_in_target, sizeof(nul_in_target) - 1, "bad_target");
}

static void test_limits(void **state)
{
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 16);
    buf_appendf(&text, "GET /%063d HTTP/1.1\r\n" H "\r\n", 0);
    check(text.data, text.len, "GET /0");
    buf_clear(&text);
    buf_appendf(&text, "GET /%064d HTTP/1.1\r\n" H "\r\n", 0);
    check(text.data, text.len, "target_too_long");
    buf_clear(&text);
    buf_append_str(&text, "GET / HTTP/1.1\r\n" H);
    for (int i = 0; i < 7; i++)
        buf_appendf(&text, "X%d: a\r\n", i);
    size_t len = text.len;
    buf_append_str(&text, "\r\n");
    check(text.data, text.len, "GET /?");
    buf_truncate(&text, len);
    buf_append_str(&text, "X: a\r\n\r\n");
    check(text.data, text.len, "headers_too_large");
    /* The head has 512 bytes, to the last; white space counts. */
    for (int extra = 0; extra < 2; extra++) {
        buf_clear(&text);
        buf_append_str(&text, "GET / HTTP/1.1\r\n" H "X:");
        while (text.len < (size_t)(512 - 4 + extra))
            buf_append_char(&text, extra ? 'x' : ' ');
        buf_append_str(&text, "\r\n\r\n");
        check(text.data, text.len, extra ? "headers_too_large" : "GET /?");
    }
    /* As many trailers as headers, and names of any length, in any pieces. */
    for (int extra = 0; extra < 2; extra++) {
        buf_clear(&text);
        buf_append_str(&text, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n");
        for (int i = 0; i < 8 + extra; i++)
            buf_appendf(&text, "A-long-name-of-a-trailer-%d:%s\r\n", i, i % 2 ? "" : " v");
        buf_append_str(&text, "\r\n");
        check(text.data, text.len, extra ? "headers_too_large" : "POST /?");
    }
    buf_clear(&text);
    buf_append_str(&text, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;");
    for (int i = 0; i < 5000; i++)
        buf_append_char(&text, 'e');
    struct buf out;
    buf_init(&out, 1 << 16);
    run((struct str){text.data, text.len}, 100, 100, &out);
    assert_string_equal(buf_str(&out), "bad_framing");
    buf_fini(&out);
    buf_fini(&text);
}

/* The head is asked about once, and only when a body follows. */
static void test_head_is_asked(void **state)
{
    static const struct {
        const char *text;
        unsigned calls;
    } rows[] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", 0},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n", 0},
        {"POST / HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx", 1},
        {"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", 100},
        {"POST / HTTP/1.0\r\n" H "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx", 1},
        {C "1\r\nx\r\n0\r\n\r\n", 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        unsigned calls = 0;
        struct http_parser *parser = http_parser_create(&limits, on_head, &calls);
        struct str text = str_from(rows[i].text);
        assert_int_equal(http_parser_feed(parser, &text), HTTP_PARSE_DONE);
        assert_int_equal(calls, rows[i].calls);
        http_parser_destroy(&parser);
    }
}

/* One parser, many requests. */
static void test_reset(void **state)
{
    unsigned calls = 0;
    struct http_parser *parser = http_parser_create(&limits, on_head, &calls);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct str text =
            STR("POST /x HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabcGET /y HTTP/1.0\r\n\r\n");
        assert_int_equal(http_parser_feed(parser, &text), HTTP_PARSE_DONE);
        assert_true(str_eq(http_parser_request(parser)->body, STR("abc")));
        http_parser_reset(parser);
        assert_int_equal(http_parser_body_bytes(parser), 0);
        assert_int_equal(http_parser_feed(parser, &text), HTTP_PARSE_DONE);
        assert_int_equal(text.len, 0);
        assert_int_equal(http_parser_request(parser)->headers_count, 0);
        assert_int_equal(http_parser_request(parser)->host.len, 0);
        http_parser_reset(parser);
    }
    http_parser_destroy(&parser);
}

static void test_no_memory(void **state)
{
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        unsigned calls = 0;
        struct http_parser *parser = http_parser_create(&limits, on_head, &calls);
        struct str text = STR("POST /xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx HTTP/1.1\r\n" H
                              "X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\nContent-Length: 3\r\n\r\nabc");
        enum http_parse result = http_parser_feed(parser, &text);
        if (fault.fired > 0) {
            assert_int_equal(result, HTTP_PARSE_FAILED);
            assert_int_equal(http_parser_problem(parser), HTTP_PROBLEM_BUSY);
        } else {
            assert_int_equal(result, HTTP_PARSE_DONE);
        }
        http_parser_destroy(&parser);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(TEST(test_good), TEST(test_incomplete), TEST(test_framing), TEST(test_malformed),
           TEST(test_limits), TEST(test_head_is_asked), TEST(test_reset), TEST(test_no_memory))
