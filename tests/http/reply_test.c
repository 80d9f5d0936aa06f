/*
 * reply_test.c: handles: their count, their limits, and threads that use them while connections
 * come and go.
 */
#include "http/reply.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "http/reply_impl.h"
#include "http/problem.h"
#include "support/http_pair.h"
#include "support/test.h"

#define GET_HOLD "GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n"

static const struct http_head ok = {.status = 200, .content_type = STR("text/plain")};

static bool was_sent(const struct http_pair *pair, const char *text)
{
    return strstr(buf_str(&pair->sent), text) != NULL;
}

static void test_release_without_answer(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET_HOLD);
    struct http_reply *second = http_reply_acquire(pair.held);
    http_reply_release(&pair.held);
    http_pair_pump(&pair);
    assert_int_equal(pair.sent.len, 0); /* there is one handle left */
    http_reply_release(&second);
    assert_null(second);
    http_pair_pump(&pair);
    assert_true(was_sent(&pair, "HTTP/1.1 500 "));
    assert_int_equal(http_conn_next_action(pair.conn), HTTP_ACTION_NONE);
    http_pair_fini(&pair);
    assert_int_equal(pair.dropped, 1);
}

static void test_release_of_a_stream(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET_HOLD);
    http_reply_begin(pair.held, &ok);
    http_pair_pump(&pair);
    http_reply_release(&pair.held);
    http_pair_pump(&pair);
    assert_int_equal(http_conn_next_action(pair.conn), HTTP_ACTION_CLOSE);
    assert_false(was_sent(&pair, "0\r\n\r\n"));
    http_pair_fini(&pair);
}

static void test_wrong_order(void **state)
{
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET_HOLD);
    assert_int_equal(http_reply_write(pair.held, STR("x")), HTTP_GONE);
    assert_int_equal(http_reply_end(pair.held), HTTP_GONE);
    assert_int_equal(http_reply_begin(pair.held, &ok), HTTP_OK);
    assert_int_equal(http_reply_begin(pair.held, &ok), HTTP_GONE);
    assert_int_equal(http_reply_send(pair.held, &ok, STR("x")), HTTP_GONE);
    assert_int_equal(http_reply_write(pair.held, STR("")), HTTP_OK); /* and ends nothing */
    assert_int_equal(http_reply_end(pair.held), HTTP_OK);
    assert_int_equal(http_reply_end(pair.held), HTTP_GONE);
    assert_int_equal(http_reply_write(pair.held, STR("x")), HTTP_GONE);
    http_reply_abort(pair.held); /* too late to break anything */
    http_pair_pump(&pair);
    assert_true(was_sent(&pair, "\r\n\r\n0\r\n\r\n"));
    assert_int_equal(http_conn_next_action(pair.conn), HTTP_ACTION_NONE);
    http_pair_fini(&pair);
}

/* What waits for one client is bounded, and the room comes back when it reads. */
static void test_stream_is_bounded(void **state)
{
    struct http_options options = {.limits.stream_bytes_max = 1000};
    struct http_pair pair;
    char data[100];

    (void)state;
    memset(data, 'x', sizeof(data));
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, GET_HOLD);
    http_reply_begin(pair.held, &ok);
    size_t taken = 0;
    enum http_result result;
    while ((result = http_reply_write(pair.held, (struct str){data, sizeof(data)})) == HTTP_OK)
        taken++;
    assert_int_equal(result, HTTP_FULL);
    assert_true(taken >= 7 && taken < 10);
    size_t waiting = http_reply_waiting(pair.held);
    assert_true(waiting <= 1000);
    http_conn_deliver(
        pair.conn); /* with the connection, not with the client: it waits all the same */
    assert_int_equal(http_reply_waiting(pair.held), waiting);
    assert_int_equal(http_reply_write(pair.held, (struct str){data, sizeof(data)}), HTTP_FULL);
    http_pair_pump(&pair);
    assert_int_equal(http_reply_waiting(pair.held), 0);
    assert_int_equal(http_reply_write(pair.held, (struct str){data, sizeof(data)}), HTTP_OK);
    /* An end always fits. */
    while (http_reply_write(pair.held, STR("x")) == HTTP_OK)
        continue;
    assert_int_equal(http_reply_end(pair.held), HTTP_OK);
    http_pair_pump(&pair);
    assert_true(was_sent(&pair, "0\r\n\r\n"));
    http_pair_fini(&pair);
}

static void test_answer_is_bounded(void **state)
{
    struct http_options options = {.limits.answer_bytes_max = 5};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, &options);
    http_pair_feed(&pair, GET_HOLD);
    assert_int_equal(http_reply_send(pair.held, &ok, STR("123456")), HTTP_FULL);
    assert_int_equal(http_reply_send(pair.held, &ok, STR("12345")), HTTP_OK);
    http_pair_pump(&pair);
    assert_true(was_sent(&pair, "\r\n\r\n12345"));
    http_pair_fini(&pair);
}

static void count(void *arg)
{
    ++*(unsigned *)arg;
}

/* A callback that is registered after the disconnect is called by the loop, or at once if the loop
 * has ended. */
static void test_late_on_close(void **state)
{
    unsigned closed = 0, dropped = 0;
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET_HOLD);
    http_conn_break(pair.conn);
    assert_int_equal(pair.closed, 1); /* /hold had registered; that was used up */
    assert_int_equal(pair.dropped, 1);
    http_reply_on_close(pair.held, count, NULL, &closed);
    assert_int_equal(closed, 0);
    assert_null(http_mailbox_next(pair.shared.mailbox));
    assert_int_equal(closed, 1);
    struct http_reply *kept = pair.held;
    pair.held = NULL;
    http_pair_fini(&pair);
    http_reply_on_close(kept, count, count, &dropped);
    assert_int_equal(dropped, 2);
    assert_int_equal(http_reply_write(kept, STR("x")), HTTP_GONE);
    http_reply_keepalive(kept, 10, STR("x"));
    http_reply_abort(kept);
    http_reply_release(&kept);
    assert_int_equal(closed, 1);
}

/* ---- threads ---- */

enum { WRITERS = 4, ROUNDS = 200 };

struct writer {
    struct thread thread;
    struct http_reply *reply;
    uint64_t seed;
};

static void write_some(void *arg)
{
    struct writer *writer = arg;
    struct http_reply *reply = writer->reply;

    http_reply_begin(reply, &ok);
    http_reply_keepalive(reply, 1, STR(": k\n\n"));
    for (uint64_t n = test_random_below(&writer->seed, 20); n > 0; n--)
        http_reply_write(reply, STR("data: x\n\n"));
    if (test_random_below(&writer->seed, 4) > 0)
        http_reply_end(reply);
    else if (test_random_below(&writer->seed, 2) == 0)
        http_reply_abort(reply);
    http_reply_release(&writer->reply);
}

static void race(struct http_pair *pair, struct writer *writer, uint64_t *seed)
{
    struct errinfo info;

    http_pair_reconnect(pair);
    http_pair_feed(pair, GET_HOLD);
    writer->reply = http_reply_acquire(pair->held);
    writer->seed = test_random(seed);
    assert_ok(thread_start(&writer->thread, "writer", write_some, writer, &info));
    if (test_random_below(seed, 2) == 0)
        http_reply_release(&pair->held);
    for (uint64_t n = test_random_below(seed, 4); n > 0; n--) {
        http_pair_pump(pair);
        http_pair_advance(pair, 1);
    }
    if (test_random_below(seed, 2) == 0)
        http_conn_eof(pair->conn);
}

/* A writer runs against a connection that reads, ticks and breaks: on_close at most once per
 * request, drop exactly once. */
static void test_threads(void **state)
{
    uint64_t seed = test_seed();
    struct writer writers[WRITERS] = {0};
    struct http_pair pair;

    (void)state;
    http_pair_init(&pair, NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct writer *writer = &writers[round % WRITERS];
        thread_join(&writer->thread);
        *writer = (struct writer){0};
        race(&pair, writer, &seed);
        assert_true(pair.closed <= round + 1);
    }
    for (size_t i = 0; i < WRITERS; i++)
        thread_join(&writers[i].thread);
    http_pair_fini(&pair);
    assert_int_equal(pair.dropped, ROUNDS);
}

enum { EVENTS = 60 };

/* As a dialect whose keep-alive text depends on the events before it. */
static void write_events(void *arg)
{
    struct http_reply *reply = arg;
    char text[32];

    for (unsigned n = 1; n <= EVENTS; n++) {
        while (http_reply_waiting(reply) > 0) /* otherwise no keep-alive is sent */
            sched_yield();
        http_reply_keepalive(reply, 0, STR_NONE);
        snprintf(text, sizeof(text), "e%u\n", n);
        assert(http_reply_write(reply, str_from(text)) == HTTP_OK);
        snprintf(text, sizeof(text), "k%u\n", n);
        http_reply_keepalive(reply, 1, str_from(text));
    }
}

/* A keep-alive text that was taken back is not sent after the events that outdate it. */
static void test_an_old_keepalive_never_follows_an_event(void **state)
{
    struct thread thread = {0};
    struct http_pair pair;
    struct errinfo info;
    uint64_t last = 0, number;

    (void)state;
    http_pair_init(&pair, NULL);
    http_pair_feed(&pair, GET_HOLD);
    http_reply_begin(pair.held, &ok);
    assert_ok(thread_start(&thread, "writer", write_events, pair.held, &info));
    while (last < EVENTS) {
        http_reply_send_keepalive(pair.held);
        buf_clear(&pair.sent);
        http_pair_pump(&pair);
        struct str rest = buf_text(&pair.sent), line;
        while (str_next(&rest, '\n', &line)) {
            if (line.len < 2 || !str_to_u64(str_skip(line, 1), &number))
                continue;
            if (line.ptr[0] == 'e')
                last = number;
            else if (line.ptr[0] == 'k')
                assert_int_equal(number, last);
        }
    }
    thread_join(&thread);
    http_pair_fini(&pair);
}

TEST_SUITE(TEST(test_release_without_answer), TEST(test_release_of_a_stream),
           TEST(test_wrong_order), TEST(test_stream_is_bounded), TEST(test_answer_is_bounded),
           TEST(test_late_on_close), TEST(test_threads),
           TEST(test_an_old_keepalive_never_follows_an_event))
