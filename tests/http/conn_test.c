/*
 * conn_test.c: the life of a connection, without sockets and with a clock in the hand.
 */
#include "http/conn.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/problem.h"
#include "support/http_pair.h"
#include "support/test.h"

#define H         "Host: localhost\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" H "\r\n"

static size_t count_of(const struct buf *sent, const char *text)
{
    size_t count = 0;

    for (const char *at = buf_str(sent); (at = strstr(at, text)) != NULL; at += strlen(text))
        count++;
    return count;
}

static void check_sent(struct http_pair *pair, const char *text)
{
    http_pair_pump(pair);
    if (count_of(&pair->sent, text) == 0)
        fail_msg("'%s' is not in '%s'", text, buf_str(&pair->sent));
}

static void check_action(struct http_pair *pair, enum http_action action)
{
    assert_int_equal(http_conn_next_action(pair->conn), action);
}

/* Feeds, expects this status, and that the connection goes on or not. */
static void check_answer(struct http_pair *pair, const char *text, int status, bool goes_on)
{
    char line[64];

    buf_clear(&pair->sent);
    http_pair_feed(pair, text);
    snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
    check_sent(pair, line);
    assert_int_equal(count_of(&pair->sent, "\r\ndate: "), 1); /* one answer */
    check_action(pair, goes_on ? HTTP_ACTION_NONE : HTTP_ACTION_SHUTDOWN);
    assert_int_equal(count_of(&pair->sent, "connection: close"), !goes_on);
}

static void test_keep_alive(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    for (int i = 0; i < 3; i++)
        check_answer(&pair, GET("/echo"), 200, true);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 200, true);
    check_sent(&pair, "POST /echo abc");
    check_answer(&pair, "GET /echo HTTP/1.1\r\n" H "Connection: close\r\n\r\n", 200, false);
    http_pair_feed(&pair, GET("/echo")); /* too late */
    http_pair_pump(&pair);
    assert_int_equal(pair.handled, 5);
    http_conn_eof(pair.conn);
    check_action(&pair, HTTP_ACTION_CLOSE);
    http_pair_fini(&pair);
}

static void test_old_clients(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    check_answer(&pair, "GET /echo HTTP/1.0\r\n" H "Connection: keep-alive\r\n\r\n", 200, true);
    check_sent(&pair, "connection: keep-alive");
    check_answer(&pair, "GET /echo HTTP/1.0\r\n" H "\r\n", 200, false);
    /* A stream is ended by closing. */
    http_pair_reconnect(&pair);
    http_pair_feed(&pair, "GET /hold HTTP/1.0\r\n" H "Connection: keep-alive\r\n\r\n");
    assert_int_equal(http_reply_begin(pair.held, &(struct http_head){.status = 200}), HTTP_OK);
    assert_int_equal(http_reply_write(pair.held, STR("abc")), HTTP_OK);
    http_pair_pump(&pair);
    check_action(&pair, HTTP_ACTION_NONE);
    assert_int_equal(http_reply_end(pair.held), HTTP_OK);
    http_pair_pump(&pair);
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    assert_int_equal(count_of(&pair.sent, "chunked"), 0);
    assert_int_equal(count_of(&pair.sent, "connection: close\r\n\r\nabc"), 1);
    assert_int_equal(pair.closed, 0);
    /* One that is broken off must not look whole. */
    http_pair_reconnect(&pair);
    http_pair_feed(&pair, "GET /hold HTTP/1.0\r\n" H "\r\n");
    http_reply_begin(pair.held, &(struct http_head){.status = 200});
    http_reply_abort(pair.held);
    http_pair_pump(&pair);
    check_action(&pair, HTTP_ACTION_RESET);
    http_pair_fini(&pair);
}

static void test_head(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    check_answer(&pair, "HEAD /echo HTTP/1.1\r\n" H "\r\n", 200, true);
    assert_int_equal(count_of(&pair.sent, "content-length: 11\r\n"), 1);
    assert_string_equal(pair.sent.data + pair.sent.len - 4, "\r\n\r\n");
    check_answer(&pair, "HEAD /x HTTP/1.1\r\n" H "\r\n", 404, true);
    assert_string_equal(pair.sent.data + pair.sent.len - 4, "\r\n\r\n");
    buf_clear(&pair.sent);
    http_pair_feed(&pair, "HEAD /hold HTTP/1.1\r\n" H "\r\n");
    http_reply_begin(pair.held, &(struct http_head){.status = 200});
    assert_int_equal(http_reply_write(pair.held, STR("abc")), HTTP_OK);
    assert_int_equal(http_reply_end(pair.held), HTTP_OK);
    http_pair_pump(&pair);
    assert_string_equal(pair.sent.data + pair.sent.len - 4, "\r\n\r\n");
    check_action(&pair, HTTP_ACTION_NONE);
    http_pair_fini(&pair);
}

static void test_pipelining(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, "GET /hold HTTP/1.1\r\n" H "\r\n"
                          "GET /item/1 HTTP/1.1\r\n" H "\r\n");
    http_pair_feed(&pair, GET("/item/2"));
    http_pair_pump(&pair);
    assert_int_equal(pair.handled, 1); /* one at a time */
    assert_int_equal(pair.sent.len, 0);
    http_reply_send(pair.held, &(struct http_head){.status = 201}, STR("first"));
    http_pair_pump(&pair);
    assert_int_equal(pair.handled, 3);
    const char *first = strstr(pair.sent.data, "first"),
               *second = strstr(pair.sent.data, "/item/1"),
               *third = strstr(pair.sent.data, "/item/2");
    assert_true(first != NULL && second > first && third > second);
    check_action(&pair, HTTP_ACTION_NONE);
    http_pair_fini(&pair);
}

/* What a client may send ahead has a limit; beyond it the connection, and the request with it, is
 * over. */
static void test_pipelining_is_bounded(void **state)
{
    struct http_options options = {.limits.ahead_bytes_max = 100};
    struct http_pair pair;
    char filler[101] = {0};

    (void)state;
    memset(filler, 'x', 100);
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, GET("/hold"));
    http_pair_feed(&pair, filler);
    check_action(&pair, HTTP_ACTION_NONE);
    assert_int_equal(pair.closed, 0);
    http_pair_feed(&pair, "x");
    check_action(&pair, HTTP_ACTION_CLOSE);
    assert_int_equal(pair.closed, 1);
    assert_int_equal(http_reply_send(pair.held, &(struct http_head){.status = 200}, STR("")),
                     HTTP_GONE);
    http_pair_fini(&pair);
    assert_int_equal(pair.closed, 1);
    assert_int_equal(pair.dropped, 1);
}

/* `printf 'GET ...' | nc`: the end of the input is not the end of the interest if the answer is
 * there at once. */
static void test_eof_behind_requests(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET("/item/1") GET("/item/2"));
    http_conn_eof(pair.conn);
    check_sent(&pair, "/item/2");
    check_sent(&pair, "/item/1");
    check_action(&pair, HTTP_ACTION_CLOSE);
    /* But it does not wait for an answer that is not made yet. */
    http_pair_reconnect(&pair);
    http_pair_feed(&pair, GET("/item/1") GET("/hold"));
    http_conn_eof(pair.conn);
    http_pair_pump(&pair);
    check_action(&pair, HTTP_ACTION_CLOSE);
    assert_int_equal(pair.closed, 1);
    http_pair_fini(&pair);
}

static void test_problems(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    check_answer(&pair, GET("/x"), 404, true);
    check_answer(&pair, "DELETE /echo HTTP/1.1\r\n" H "\r\n", 405, true);
    check_sent(&pair, "allow: GET, HEAD, POST, OPTIONS\r\n");
    check_answer(&pair, GET("/none"), 500, true);
    check_answer(&pair, "OPTIONS /hold HTTP/1.1\r\n" H "\r\n", 204, true);
    check_sent(&pair, "allow: GET, HEAD, POST, OPTIONS\r\n");
    assert_int_equal(count_of(&pair.sent, "access-control"), 0);
    check_answer(&pair, "OPTIONS * HTTP/1.1\r\n" H "\r\n", 204, true);
    /* With a body that is not read, the connection cannot go on. */
    check_answer(&pair, "PUT /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\nab", 405, false);
    check_sent(&pair, "allow: GET, HEAD, POST, OPTIONS\r\n");
    http_pair_reconnect(&pair);
    check_answer(&pair, "GET /\r\n\r\n", 505, false);
    http_pair_reconnect(&pair);
    check_answer(&pair, "GET / HTTP/1.1\r\n\r\n", 400, false);
    check_sent(&pair, "exactly one valid Host");
    assert_true(http_pair_stat(&pair, HTTP_STAT_PROBLEMS, HTTP_PROBLEM_HOST_HEADER) == 1);
    http_pair_fini(&pair);
}

static void write_json(enum http_problem problem, const struct http_request *request,
                       char id[HTTP_ID_BYTES], struct buf *body, void *arg)
{
    struct str path = request != NULL ? request->path : STR_NONE;

    snprintf(id, HTTP_ID_BYTES, "req_7");
    buf_appendf(body, "{\"%s\":\"%s " STR_FMT "\"}", (const char *)arg, http_problem_name(problem),
                STR_ARG(path));
}

static void test_error_body(void **state)
{
    struct http_options options = {
        .error_body = write_json, .error_arg = (void *)"code", .limits = {.body_bytes_max = 4}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    check_answer(&pair, GET("/x"), 404, true);
    check_sent(&pair, "content-type: application/json\r\n");
    check_sent(&pair, "x-request-id: req_7\r\nrequest-id: req_7\r\n");
    check_sent(&pair, "{\"code\":\"not_found /x\"}");
    check_answer(&pair, "PUT /echo HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nab", 405, false);
    check_sent(&pair, "request-id: req_7\r\nallow: ");
    check_sent(&pair, "{\"code\":\"method_not_allowed /echo\"}");
    http_pair_reconnect(&pair);
    check_answer(&pair, "GET / HTTP/1.1\r\n\r\n", 400, false);
    check_sent(&pair, "{\"code\":\"bad_host \"}");
    http_pair_reconnect(&pair);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n", 413, false);
    check_sent(&pair, "{\"code\":\"body_too_large /echo\"}");
    http_pair_fini(&pair);
}

static void test_expect(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair,
                   "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    http_pair_pump(&pair);
    assert_string_equal(buf_str(&pair.sent), "HTTP/1.1 100 Continue\r\n\r\n");
    check_answer(&pair, "abc", 200, true);
    /* Not for what is refused anyway. */
    check_answer(&pair,
                 "POST /x HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n", 404,
                 false);
    http_pair_reconnect(&pair);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Expect: x\r\nContent-Length: 3\r\n\r\n", 417,
                 false);
    http_pair_fini(&pair);
}

static enum http_problem check_key(const struct http_request *request)
{
    struct str key;

    if (request->route == NULL || request->method != HTTP_METHOD_POST)
        return HTTP_PROBLEM_NONE;
    if (!http_request_header(request, STR("x-api-key"), &key))
        return HTTP_PROBLEM_KEY_MISSING;
    return str_eq(key, STR("k")) ? HTTP_PROBLEM_NONE : HTTP_PROBLEM_KEY_WRONG;
}

/* The rest of a refused request is never read as the next one. */
static void test_a_key_is_checked_before_the_body(void **state)
{
    static const struct {
        const char *head;
        int status; /* 0: the body is awaited */
    } cases[] = {
        {"POST /echo HTTP/1.1\r\n" H "Content-Length: 50000000\r\n\r\n", 401},
        {"POST /echo HTTP/1.1\r\n" H "x-api-key: no\r\nContent-Length: 9\r\n\r\n", 401},
        {"POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n", 401},
        {"POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n", 401},
        {"POST /echo HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\n\r\n", 403},
        {"POST /echo HTTP/1.1\r\n" H "x-api-key: k\r\nContent-Length: 5\r\n\r\n", 0},
        /* nor has a body what needs none */
        {"GET /echo HTTP/1.1\r\n" H "Content-Length: 50000000\r\n\r\n", 413},
        {"HEAD /echo HTTP/1.1\r\n" H "Content-Length: 50000000\r\n\r\n", 413},
        {"OPTIONS * HTTP/1.1\r\n" H "Content-Length: 50000000\r\n\r\n", 413},
        {"OPTIONS /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 50000000\r\n\r\n",
         413},
        {"GET /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n", 0},
    };
    struct http_options options = {.check = check_key};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        http_pair_reconnect(&pair);
        if (cases[i].status != 0) {
            check_answer(&pair, cases[i].head, cases[i].status, false);
            assert_int_equal(count_of(&pair.sent, "100 Continue"), 0);
            http_pair_feed(&pair, GET("/echo"));
            http_pair_pump(&pair);
            assert_int_equal(count_of(&pair.sent, "\r\ndate: "), 1);
        } else {
            http_pair_feed(&pair, cases[i].head);
            check_answer(&pair, "hello", 200, true);
            check_answer(&pair, GET("/echo"), 200, true);
        }
    }
    assert_int_equal(pair.handled, 4);
    http_pair_fini(&pair);
}

/* A chunked body says its length only at its end. */
static void test_a_chunked_body_that_is_of_no_use(void **state)
{
    struct http_options options = {.limits = {.head_bytes_max = 128}};
    struct http_pair pair;
    char text[512];

    (void)state;
    http_pair_init(&pair, &options);
    snprintf(text, sizeof(text),
             "GET /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n81\r\n%0129d", 0);
    check_answer(&pair, text, 413, false);
    http_pair_fini(&pair);
}

static void test_body_limits(void **state)
{
    struct http_options options = {
        .limits = {.body_bytes_max = 4, .bodies_bytes_max = 6, .body_bytes_small = 1}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd", 200, true);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\n", 413, false);
    http_pair_reconnect(&pair);
    check_answer(&pair,
                 "POST /echo HTTP/1.1\r\n" H
                 "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n",
                 413, false);
    /* Bodies of other connections count against the limit for all. */
    http_pair_reconnect(&pair);
    struct http_conn *other = http_conn_create(&pair.shared, STR("b"), &pair);
    http_conn_feed(other, STR("POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabc"));
    assert_int_equal(pair.shared.bodies_bytes, 3);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd", 503, false);
    check_sent(&pair, "retry-after: 1\r\n");
    assert_int_equal(pair.shared.bodies_bytes, 3);
    http_conn_destroy(&other);
    assert_int_equal(pair.shared.bodies_bytes, 0);
    http_pair_reconnect(&pair);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd", 200, true);
    http_pair_fini(&pair);
}

static void test_host_check(void **state)
{
    static const char *const names[] = {"box.lan"};
    struct http_options options = {.allowed_hosts = {names, 1}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    check_answer(&pair, "GET /echo HTTP/1.1\r\nHost: evil.example:4327\r\n\r\n", 403, true);
    assert_int_equal(pair.handled, 0);
    check_answer(&pair, "GET /echo HTTP/1.1\r\nHost: box.lan:4327\r\n\r\n", 200, true);
    check_answer(&pair, "GET /echo HTTP/1.1\r\nHost: [::1]:4327\r\n\r\n", 200, true);
    check_answer(&pair, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 403, true);
    check_answer(&pair, "OPTIONS /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, true);
    pair.shared.check_host = false;
    check_answer(&pair, "GET /echo HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200, true);
    http_pair_fini(&pair);
}

static void test_cors(void **state)
{
    static const char *const origins[] = {"http://app.example"};
    struct http_options options = {.cors_origins = {origins, 1}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    check_answer(&pair, "GET /echo HTTP/1.1\r\n" H "Origin: http://app.example\r\n\r\n", 200, true);
    check_sent(&pair, "access-control-allow-origin: http://app.example\r\n"
                      "access-control-expose-headers: *\r\nvary: origin\r\n");
    check_answer(&pair, "GET /x HTTP/1.1\r\n" H "Origin: http://app.example\r\n\r\n", 404, true);
    check_sent(&pair, "access-control-allow-origin: http://app.example\r\n");
    check_answer(&pair, "GET /echo HTTP/1.1\r\n" H "Origin: http://evil.example\r\n\r\n", 200,
                 true);
    assert_int_equal(count_of(&pair.sent, "access-control"), 0);
    check_sent(&pair, "vary: origin\r\n");
    check_answer(&pair,
                 "OPTIONS /echo HTTP/1.1\r\n" H "Origin: http://app.example\r\n"
                 "Access-Control-Request-Method: POST\r\n\r\n",
                 204, true);
    check_sent(&pair, "access-control-allow-methods: GET, HEAD, POST, OPTIONS\r\n");
    check_sent(&pair, "access-control-allow-headers: authorization, content-type, x-api-key\r\n");
    check_answer(&pair,
                 "OPTIONS /echo HTTP/1.1\r\n" H "Origin: http://evil.example\r\n"
                 "Access-Control-Request-Method: POST\r\n\r\n",
                 204, true);
    assert_int_equal(count_of(&pair.sent, "access-control"), 0);
    check_answer(&pair,
                 "OPTIONS /echo HTTP/1.1\r\n" H "Origin: http://app.example\r\n"
                 "Access-Control-Request-Headers: x-stainless-os,authorization\r\n\r\n",
                 204, true);
    check_sent(&pair, "access-control-allow-headers: x-stainless-os,authorization\r\n");
    assert_int_equal(count_of(&pair.sent, "credentials"), 0);
    http_pair_fini(&pair);
}

/* ---- deadlines ---- */

static void test_silent_client(void **state)
{
    struct http_options options = {.limits = {.head_ms = 1000, .idle_ms = 5000}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_advance(&pair, 999);
    check_action(&pair, HTTP_ACTION_NONE);
    http_pair_advance(&pair, 1);
    check_action(&pair, HTTP_ACTION_CLOSE);
    assert_true(http_pair_stat(&pair, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_HEAD) == 1);
    http_pair_reconnect(&pair);
    check_answer(&pair, GET("/echo"), 200, true);
    http_pair_advance(&pair, 4999);
    check_action(&pair, HTTP_ACTION_NONE);
    http_pair_advance(&pair, 1);
    check_action(&pair, HTTP_ACTION_CLOSE);
    assert_true(http_pair_stat(&pair, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_IDLE) == 1);
    http_pair_fini(&pair);
}

/* Slowloris: a byte now and then does not help. */
static void test_slow_head(void **state)
{
    struct http_options options = {.limits.head_ms = 1000};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_advance(&pair, 900);
    http_pair_feed(&pair, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < 9; i++) {
        http_pair_advance(&pair, 100);
        http_pair_feed(&pair, "X: y\r\n");
        check_action(&pair, HTTP_ACTION_NONE);
    }
    http_pair_advance(&pair, 100);
    check_sent(&pair, "HTTP/1.1 408 ");
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    assert_true(http_pair_stat(&pair, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_HEAD) == 1);
    http_pair_fini(&pair);
}

static uint64_t room_for(uint64_t bytes, void *arg)
{
    uint64_t *room = arg;

    room[1] = bytes;
    return room[0];
}

/* Bodies end when memory is short, also those that have stopped; small ones are received. */
static void test_bodies_end_when_there_is_no_room(void **state)
{
    uint64_t room[2] = {100, 0};
    struct http_options options = {
        .limits = {.bodies_bytes_max = 1000, .body_bytes_small = 2, .head_bytes_max = 128},
        .bodies_room = room_for,
        .bodies_arg = room};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 99\r\n\r\nabcdef");
    http_pair_advance(&pair, 100);
    check_action(&pair, HTTP_ACTION_NONE);
    assert_int_equal(room[1], 6);
    room[0] = 5; /* the next tick asks */
    http_conn_ask_room(&pair.shared);
    http_pair_advance(&pair, 100);
    check_sent(&pair, "HTTP/1.1 503 ");
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    assert_int_equal(room[1], 0); /* at once, not when the client has read it */
    http_pair_reconnect(&pair);
    room[0] = 0;
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab", 200, true);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 503, false);
    http_pair_fini(&pair);
}

/* A body counts until its request is answered: a handler that took it has it in memory. */
static void test_bodies_count_until_they_are_answered(void **state)
{
    struct http_options options = {.limits = {.bodies_bytes_max = 6, .body_bytes_small = 2}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 4\r\n\r\nabcd", 200, true);
    assert_int_equal(pair.shared.bodies_bytes, 0);
    struct http_conn *other = http_conn_create(&pair.shared, STR("b"), &pair);
    http_conn_feed(other, STR("POST /take HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nabcde"));
    assert_int_equal(pair.shared.bodies_bytes, 5);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 503, false);
    /* small ones are received */
    http_pair_reconnect(&pair);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab", 200, true);
    http_conn_destroy(&other);
    http_reply_release(&pair.held);
    assert_int_equal(pair.shared.bodies_bytes, 0);
    check_answer(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 200, true);
    http_pair_fini(&pair);
}

/* A fast beginning is no credit for the rest. */
static void test_a_body_that_stops(void **state)
{
    struct http_options options = {.limits = {.body_ms = 1000, .body_rate_min = 1}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n0123456789");
    http_pair_advance(&pair, 1000);
    check_action(&pair, HTTP_ACTION_NONE);
    http_pair_advance(&pair, 1000);
    check_sent(&pair, "HTTP/1.1 408 ");
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    http_pair_fini(&pair);
}

static void test_slow_body(void **state)
{
    struct http_options options = {.limits = {.body_ms = 1000, .body_rate_min = 10}};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n0123456789");
    /* At the rate that is asked for, all is well, for as long as it takes. */
    for (int i = 0; i < 50; i++) {
        http_pair_advance(&pair, 1000);
        check_action(&pair, HTTP_ACTION_NONE);
        http_pair_feed(&pair, "0123456789");
    }
    for (int i = 0; i < 3; i++) {
        http_pair_advance(&pair, 1000);
        http_pair_feed(&pair, "0");
    }
    check_sent(&pair, "HTTP/1.1 408 ");
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    assert_true(http_pair_stat(&pair, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_BODY) == 1);
    assert_int_equal(pair.handled, 0);
    http_pair_fini(&pair);
}

/* A client that does not read is gone, and its reply hears of it; one that reads slowly is not. */
static void test_write_stall(void **state)
{
    struct http_options options = {.limits.write_ms = 1000};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, GET("/hold"));
    http_pair_advance(&pair, 5000); /* nothing to write is no stall */
    check_action(&pair, HTTP_ACTION_NONE);
    http_reply_begin(pair.held, &(struct http_head){.status = 200});
    http_conn_deliver(pair.conn);
    http_pair_advance(&pair, 999); /* since there is something to write */
    check_action(&pair, HTTP_ACTION_NONE);
    for (size_t queued = 10; queued > 0; queued--) {
        clock_fake_advance(pair.clock, 900 * NS_PER_MS);
        http_conn_tick(pair.conn, queued);
        check_action(&pair, HTTP_ACTION_NONE);
    }
    clock_fake_advance(pair.clock, 1000 * NS_PER_MS);
    http_conn_tick(pair.conn, 1);
    check_action(&pair, HTTP_ACTION_CLOSE);
    assert_int_equal(pair.closed, 1);
    assert_true(http_pair_stat(&pair, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_WRITE) == 1);
    assert_int_equal(http_reply_write(pair.held, STR("x")), HTTP_GONE);
    http_pair_fini(&pair);
    assert_int_equal(pair.closed, 1);
}

static void test_linger(void **state)
{
    struct http_options options = {.limits.linger_ms = 1000};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    check_answer(&pair, "x", 400, false);
    http_pair_feed(&pair, "what the client still had to say");
    http_pair_advance(&pair, 999);
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    http_pair_advance(&pair, 1);
    check_action(&pair, HTTP_ACTION_CLOSE);
    http_pair_fini(&pair);
}

/* Long silence of the engine is filled; the text never gets between the pieces of a chunk, nor
 * behind the end. */
static void test_i80_keepalive(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET("/hold"));
    http_reply_keepalive(pair.held, 1000, STR(": ping\n\n"));
    http_pair_advance(&pair, 5000);
    http_pair_pump(&pair);
    assert_int_equal(pair.sent.len, 0); /* there is no stream yet */
    http_reply_begin(pair.held, &(struct http_head){.status = 200});
    http_pair_pump(&pair);
    for (int i = 1; i <= 3; i++) {
        http_pair_advance(&pair, 999);
        http_pair_pump(&pair);
        assert_int_equal(count_of(&pair.sent, "8\r\n: ping\n\n\r\n"), i - 1);
        http_pair_advance(&pair, 1);
        http_pair_pump(&pair);
        assert_int_equal(count_of(&pair.sent, "8\r\n: ping\n\n\r\n"), i);
    }
    http_pair_advance(&pair, 999);
    http_reply_write(pair.held, STR("data"));
    http_pair_pump(&pair);
    http_pair_advance(&pair, 999); /* what was written counts */
    http_pair_pump(&pair);
    assert_int_equal(count_of(&pair.sent, ": ping"), 3);
    http_reply_write(pair.held, STR("data"));
    http_conn_deliver(pair.conn);
    for (int i = 0; i < 5; i++)
        http_pair_advance(&pair, 1000); /* what the client does not take does not pile up */
    http_pair_pump(&pair);
    assert_int_equal(count_of(&pair.sent, ": ping"), 3);
    http_reply_keepalive(pair.held, 0, STR_NONE);
    http_pair_pump(&pair);
    http_pair_advance(&pair, 5000);
    http_pair_pump(&pair);
    assert_int_equal(count_of(&pair.sent, ": ping"), 3);
    http_reply_keepalive(pair.held, 1000, STR(": ping\n\n"));
    http_reply_end(pair.held);
    http_pair_advance(&pair, 5000);
    http_pair_pump(&pair);
    assert_int_equal(count_of(&pair.sent, ": ping"), 3);
    assert_string_equal(pair.sent.data + pair.sent.len - 5, "0\r\n\r\n");
    http_pair_fini(&pair);
}

static void begin_held(struct http_pair *pair)
{
    http_pair_init(pair, NULL);
    http_pair_feed(pair, GET("/hold"));
    http_pair_advance(pair, 400); /* silence is counted from the request on */
    http_reply_hold(pair->held, 1000);
    assert_int_equal(http_reply_begin(pair->held, &(struct http_head){.status = 200}), HTTP_OK);
    assert_int_equal(http_reply_write(pair->held, STR("role")), HTTP_OK);
    http_pair_advance(pair, 599);
    http_pair_pump(pair);
    assert_int_equal(pair->sent.len, 0);
}

/* A stream whose head is held: it can be taken back for an error with a status, until it is let go,
 * has ended, or was silent for too long (I80). */
static void test_held_streams(void **state)
{
    enum { LET_GO, END, SILENCE, TAKE_BACK, ABORT, CASES };
    struct http_pair pair;

    (void)state;
    for (int how = 0; how < CASES; how++) {
        begin_held(&pair);
        if (how == LET_GO)
            http_reply_let_go(pair.held);
        else if (how == END)
            http_reply_end(pair.held);
        else if (how == SILENCE)
            http_pair_advance(&pair, 1);
        else if (how == ABORT)
            http_reply_abort(pair.held);
        else
            assert_true(http_reply_take_back(pair.held));
        http_pair_pump(&pair);
        assert_int_equal(count_of(&pair.sent, "HTTP/1.1 200"), how < TAKE_BACK);
        assert_int_equal(count_of(&pair.sent, "4\r\nrole\r\n"), how < TAKE_BACK);
        if (how < TAKE_BACK)
            assert_false(http_reply_take_back(pair.held));
        if (how == TAKE_BACK) {
            assert_int_equal(
                http_reply_send(pair.held, &(struct http_head){.status = 503}, STR("no")), HTTP_OK);
            http_pair_pump(&pair);
            assert_int_equal(count_of(&pair.sent, "HTTP/1.1 503"), 1);
            assert_int_equal(count_of(&pair.sent, "role"), 0);
            assert_int_equal(http_reply_waiting(pair.held), 0);
        }
        http_pair_fini(&pair);
    }
}

/* ---- the client leaves ---- */

enum leave { LEAVE_EOF, LEAVE_BREAK, LEAVE_DESTROY, LEAVE_COUNT };

static void leave(struct http_pair *pair, enum leave how)
{
    if (how == LEAVE_EOF)
        http_conn_eof(pair->conn);
    else if (how == LEAVE_BREAK)
        http_conn_break(pair->conn);
    else
        http_conn_destroy(&pair->conn);
}

/* In each phase: on_close once if the answer was not ended, else never; drop always once. */
static void test_i109_disconnect(void **state)
{
    enum phase { QUEUED, BEGUN, WRITTEN, WAITING, ENDED, PHASE_COUNT };

    (void)state;
    for (int how = 0; how < LEAVE_COUNT; how++)
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct http_pair pair;
            http_pair_init(&pair, NULL);
            http_pair_feed(&pair, GET("/hold"));
            if (phase >= BEGUN)
                http_reply_begin(pair.held, &(struct http_head){.status = 200});
            if (phase >= WRITTEN)
                http_reply_write(pair.held, STR("x"));
            if (phase == WAITING) /* with the connection, and not taken by the client */
                http_conn_deliver(pair.conn);
            else
                http_pair_pump(&pair);
            if (phase == ENDED)
                http_reply_end(pair.held);
            leave(&pair, how);
            assert_int_equal(pair.closed, phase != ENDED);
            assert_int_equal(http_reply_write(pair.held, STR("x")), HTTP_GONE);
            assert_int_equal(http_reply_end(pair.held), HTTP_GONE);
            assert_true(http_pair_stat(&pair, HTTP_STAT_DISCONNECTS, 0) == (phase != ENDED));
            http_pair_fini(&pair);
            assert_int_equal(pair.closed, phase != ENDED);
            assert_int_equal(pair.dropped, 1);
        }
}

static void test_drain(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    check_answer(&pair, GET("/echo"), 200, true);
    http_conn_drain(pair.conn);
    check_action(&pair, HTTP_ACTION_CLOSE);
    http_pair_reconnect(&pair);
    http_pair_feed(&pair, GET("/hold"));
    http_conn_drain(pair.conn);
    check_action(&pair, HTTP_ACTION_NONE);
    http_reply_send(pair.held, &(struct http_head){.status = 200}, STR("x"));
    http_pair_pump(&pair);
    check_action(&pair, HTTP_ACTION_SHUTDOWN);
    assert_int_equal(pair.closed, 0);
    http_pair_fini(&pair);
}

/* Whichever allocation fails: an answer that says so, or the end of the connection; never a wrong
 * answer, and nothing leaks. */
static void test_no_memory(void **state)
{
    struct fault fault = {0};

    (void)state;
    FAULT_LOOP (&fault) {
        struct http_pair pair;
        http_pair_init(&pair, NULL);
        mem_set_fault(&fault);
        http_pair_feed(&pair, "POST /hold HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc" GET("/x"));
        bool refused = false;
        if (pair.held != NULL) {
            refused =
                http_reply_begin(pair.held, &(struct http_head){.status = 200}) == HTTP_FULL ||
                http_reply_write(pair.held, STR("data")) == HTTP_FULL;
            if (refused)
                http_reply_abort(pair.held);
            else
                assert_int_equal(http_reply_end(pair.held),
                                 http_conn_next_action(pair.conn) == HTTP_ACTION_CLOSE ? HTTP_GONE
                                                                                       : HTTP_OK);
        }
        http_pair_pump(&pair);
        mem_set_fault(NULL);
        if (fault.fired == 0) {
            assert_int_equal(count_of(&pair.sent, "4\r\ndata\r\n0\r\n\r\n"), 1);
            assert_int_equal(count_of(&pair.sent, "HTTP/1.1 404 "), 1);
        }
        assert_true(pair.sent.err == ERR_OK || fault.fired > 0);
        http_pair_fini(&pair);
    }
}

TEST_SUITE(TEST(test_keep_alive), TEST(test_old_clients), TEST(test_head), TEST(test_pipelining),
           TEST(test_pipelining_is_bounded), TEST(test_eof_behind_requests), TEST(test_problems),
           TEST(test_error_body), TEST(test_expect), TEST(test_a_key_is_checked_before_the_body),
           TEST(test_a_chunked_body_that_is_of_no_use), TEST(test_bodies_end_when_there_is_no_room),
           TEST(test_body_limits), TEST(test_host_check), TEST(test_cors), TEST(test_silent_client),
           TEST(test_slow_head), TEST(test_slow_body), TEST(test_a_body_that_stops),
           TEST(test_bodies_count_until_they_are_answered), TEST(test_write_stall),
           TEST(test_linger), TEST(test_i80_keepalive), TEST(test_held_streams),
           TEST(test_i109_disconnect), TEST(test_drain), TEST(test_no_memory))
