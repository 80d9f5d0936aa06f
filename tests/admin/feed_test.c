/* feed_test.c: events reach readers in order; a reader that does not read loses some and gets a
 * notice. Over real connections: the feed is served by its own server. */
#include "admin/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/server.h"
#include "support/http_client.h"
#include "support/test.h"

struct bench {
    struct feed *feed;
    struct http_server *server;
    struct http_route route;
    uint64_t after;
    bool refused;
};

static void on_request(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct bench *bench = arg;
    struct http_head head = {.status = 200, .content_type = STR("text/event-stream")};

    (void)request;
    assert_int_equal(http_reply_begin(reply, &head), HTTP_OK);
    assert_int_equal(http_reply_write(reply, STR(": begun\n\n")), HTTP_OK);
    bench->refused = !feed_subscribe(bench->feed, reply, bench->after);
    if (bench->refused)
        http_reply_end(reply);
}

static void open_bench(struct bench *bench, const struct http_limits *limits)
{
    struct http_options options = {.tick_ms = 5};

    *bench = (struct bench){.feed = feed_create(), .after = UINT64_MAX};
    bench->route = (struct http_route){HTTP_METHOD_GET, "/", on_request, bench, 0};
    if (limits)
        options.limits = *limits;
    assert_ok(http_server_start(&options, &bench->route, 1, &bench->server, NULL));
}

static void close_bench(struct bench *bench)
{
    http_server_stop(&bench->server);
    feed_destroy(&bench->feed);
}

/* A reader that is known to the feed when this returns. */
static void connect_reader(struct bench *bench, struct http_client *client)
{
    struct http_answer answer;
    struct buf data;

    http_client_connect(client, http_server_port(bench->server));
    http_client_request(client, "GET", "/", "", STR_NONE);
    assert_true(http_client_head(client, &answer));
    http_answer_fini(&answer);
    buf_init(&data, 1 << 20);
    assert_true(http_client_chunk(client, &data));
    buf_fini(&data);
}

static void publish(struct bench *bench, unsigned from, unsigned count)
{
    char json[64];

    for (unsigned i = from; i < from + count; i++) {
        snprintf(json, sizeof(json), "{\"n\":%u}", i);
        feed_publish(bench->feed, FEED_CACHE, str_from(json));
    }
}

/* Reads, and pumps meanwhile, until an event of number `last` was seen; returns how many events
 * there were, and *lost of those that were not. */
static unsigned read_until(struct bench *bench, struct http_client *client, unsigned last,
                           uint64_t *lost)
{
    struct buf text, data;
    unsigned events = 0, seen = 0;

    buf_init(&text, 1 << 24);
    *lost = 0;
    while (seen != last) {
        struct str rest, name;

        feed_pump(bench->feed);
        assert_true(http_client_chunk(client, &text));
        rest = (struct str){text.data, text.len};
        buf_init(&data, 65536);
        while (http_sse_next(&rest, &name, &data, NULL)) {
            unsigned n = (unsigned)strtoul(strchr(buf_str(&data), ':') + 1, NULL, 10);

            if (str_eq(name, STR("lost"))) {
                *lost += n;
            } else {
                assert_true(n > seen); /* in order, none twice */
                seen = n;
                events++;
            }
            buf_clear(&data);
        }
        buf_fini(&data);
        buf_consume(&text, text.len - rest.len);
    }
    buf_fini(&text);
    return events;
}

static void test_readers_get_events_in_order(void **state)
{
    struct http_client early, late;
    struct bench bench;
    uint64_t lost;

    (void)state;
    open_bench(&bench, NULL);
    connect_reader(&bench, &early);
    publish(&bench, 1, 5);
    feed_pump(bench.feed);
    bench.after = 2;
    connect_reader(&bench, &late); /* from the third on */
    publish(&bench, 6, 5);
    feed_pump(bench.feed);
    assert_int_equal(read_until(&bench, &early, 10, &lost), 10);
    assert_int_equal(lost, 0);
    assert_int_equal(read_until(&bench, &late, 10, &lost), 8);
    assert_int_equal(lost, 0);
    http_client_close(&early);
    http_client_close(&late);
    close_bench(&bench);
}

/* It comes back when the ring has gone around. */
static void test_what_was_overwritten_is_told(void **state)
{
    struct http_client client;
    struct bench bench;
    uint64_t lost;
    unsigned events;

    (void)state;
    open_bench(&bench, NULL);
    publish(&bench, 1, 3 * FEED_EVENTS);
    bench.after = 0;
    connect_reader(&bench, &client);
    feed_pump(bench.feed);
    feed_pump(bench.feed);
    events = read_until(&bench, &client, 3 * FEED_EVENTS, &lost);
    assert_int_equal(events, FEED_EVENTS);
    assert_int_equal(lost, 2 * FEED_EVENTS);
    http_client_close(&client);
    close_bench(&bench);
}

/* A reader that takes nothing: its stream is bounded, others go on, and when it reads again it is
 * told what it has lost. */
static void test_a_slow_reader_loses_and_is_told(void **state)
{
    enum { ROUNDS = 64, EACH = 256 }; /* 32 MiB: more than sockets take */
    static char json[FEED_EVENT_BYTES_MAX + 1];
    struct http_client slow, fast;
    struct bench bench;
    uint64_t lost;
    unsigned n = 0;

    (void)state;
    open_bench(&bench, NULL);
    connect_reader(&bench, &slow);
    connect_reader(&bench, &fast);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            int len = snprintf(json, sizeof(json), "{\"n\":%u,\"pad\":\"%0*d\"}", ++n,
                               FEED_EVENT_BYTES_MAX - 64, 0);

            feed_publish(bench.feed, FEED_CACHE, (struct str){json, (size_t)len});
        }
        assert_int_equal(read_until(&bench, &fast, n, &lost), EACH);
        assert_int_equal(lost, 0);
    }
    unsigned events = read_until(&bench, &slow, n, &lost);
    assert_true(lost > 0);
    assert_int_equal(events + lost, n);
    http_client_close(&slow);
    http_client_close(&fast);
    close_bench(&bench);
}

static void test_bounds(void **state)
{
    static char json[FEED_EVENT_BYTES_MAX + 1];
    struct http_client clients[FEED_READERS_MAX + 1];
    struct bench bench;
    struct buf data;

    (void)state;
    open_bench(&bench, NULL);
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        connect_reader(&bench, &clients[i]);
    buf_init(&data, 65536);
    /* it was ended: one too many */
    assert_false(http_client_chunk(&clients[FEED_READERS_MAX], &data));
    buf_fini(&data);
    assert_true(bench.refused);
    assert_int_equal(feed_readers(bench.feed), FEED_READERS_MAX);
    memset(json, 'x', sizeof(json));
    feed_publish(bench.feed, FEED_LOG, (struct str){json, sizeof(json)}); /* too long: left out */
    publish(&bench, 1, 1);
    feed_pump(bench.feed);
    uint64_t lost;
    assert_int_equal(read_until(&bench, &clients[0], 1, &lost), 1);
    for (size_t i = 0; i < COUNT_OF(clients); i++)
        http_client_close(&clients[i]);
    close_bench(&bench);
}

/* When the server ends, streams end properly, and no reader is accepted any more. */
static void test_the_end(void **state)
{
    struct http_client client, late;
    struct bench bench;
    struct buf data;

    (void)state;
    open_bench(&bench, NULL);
    connect_reader(&bench, &client);
    feed_end(bench.feed);
    buf_init(&data, 65536);
    assert_false(http_client_chunk(&client, &data));
    buf_fini(&data);
    assert_int_equal(feed_readers(bench.feed), 0);
    connect_reader(&bench, &late);
    assert_int_equal(feed_readers(bench.feed), 0);
    feed_pump(bench.feed);
    http_client_close(&client);
    http_client_close(&late);
    close_bench(&bench);
}

TEST_SUITE(TEST(test_readers_get_events_in_order), TEST(test_what_was_overwritten_is_told),
           TEST(test_a_slow_reader_loses_and_is_told), TEST(test_bounds), TEST(test_the_end))
