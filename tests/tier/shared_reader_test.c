/*
 * shared_reader_test.c: reads of a real store: before queued writes, and not again for pages that
 * were empty a moment ago.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/fleet_proxy.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/shared_format.h"
#include "tier/tier_shared.h"

enum { BYTES = 100000, PUTS = 3, PLACES = 4, MANY = 150 };
#define WAIT_NS (60 * NS_PER_S)

static struct fleet_server server;

static struct tier *open_at(uint16_t port)
{
    char url[64];
    struct tier_shared_options options = {
        .kv = {.url = url, .ttl_s = 600},
        .key = {{1, 2, 3}},
        .timeout_ns = WAIT_NS,
        .negative_ns = WAIT_NS,
        .close_wait_ns = WAIT_NS,
    };
    struct tier *tier;

    snprintf(url, sizeof(url), "valkey://127.0.0.1:%u/test", port);
    assert_ok(tier_shared_open(&tier, &options, NULL));
    return tier;
}

static void count_done(enum tier_result result, void *arg)
{
    assert_int_equal(result, TIER_OK);
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Writes hang in the network; a read that comes later does not wait for them. */
static void test_reads_overtake_writes(void **state)
{
    static struct fleet_proxy proxy;
    static unsigned char data[PUTS][BYTES];
    atomic_uint done = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    fleet_proxy_start(&proxy, server.port);
    struct tier *tier = open_at(proxy.port);
    assert_true(tier_suite_put(tier, 100, BYTES));
    atomic_store(&proxy.held, "\r\nSET\r\n");
    for (uint32_t i = 0; i < PUTS; i++) {
        struct tier_meta meta = tier_suite_meta(i, BYTES);
        tier_suite_fill(data[i], BYTES, i, 0);
        assert_true(tier->ops->put(tier, &meta, data[i], count_done, &done));
    }
    while (atomic_load(&proxy.holds) == 0) /* the first is being written */
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(tier_suite_get(tier, 100, BYTES), TIER_OK);
    assert_int_equal(atomic_load(&done), 0);
    atomic_store(&proxy.held, NULL);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_int_equal(atomic_load(&done), PUTS);
    tier_close(&tier);
    fleet_proxy_stop(&proxy);
}

/* A value does not come; a read of it ends when it is cancelled, and the server is not blamed. */
static void test_a_running_read_is_cancelled(void **state)
{
    static struct fleet_proxy proxy;
    static unsigned char dst[BYTES];
    const struct tier_meta meta = tier_suite_meta(100, BYTES);
    struct kv_server_stats stats;
    struct tier_answer answer;
    struct tier_op *op;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    fleet_proxy_start(&proxy, server.port);
    struct tier *tier = open_at(proxy.port);
    assert_true(tier_suite_put(tier, 100, BYTES));
    tier_answer_init(&answer);
    atomic_store(&proxy.held, "GETEX");
    tier->ops->get(tier, &meta.key, dst, BYTES, tier_answer_done, &answer, &op);
    while (atomic_load(&proxy.holds) == 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    tier->ops->cancel(tier, op);
    assert_int_equal(tier_answer_wait(&answer), TIER_CANCELLED);
    atomic_store(&proxy.held, NULL);
    assert_int_equal(tier_suite_get(tier, 100, BYTES), TIER_OK);
    tier_shared_server(tier, 0, &stats);
    assert_int_equal(stats.failures, 0);
    tier_answer_fini(&answer);
    tier_close(&tier);
    fleet_proxy_stop(&proxy);
}

static void put_now(struct tier *tier, const struct tier_meta *meta)
{
    static unsigned char data[BYTES];
    struct tier_answer answer;

    tier_answer_init(&answer);
    assert_true(tier->ops->put(tier, meta, data, tier_answer_done, &answer));
    assert_int_equal(tier_answer_wait(&answer), TIER_OK);
    tier_answer_fini(&answer);
}

static void count_meta(const struct tier_meta *meta, void *arg)
{
    (void)meta;
    ++*(unsigned *)arg;
}

static enum tier_result get_now(struct tier *tier, const struct hash256 *key)
{
    static unsigned char dst[BYTES];
    struct tier_answer answer;

    tier_answer_init(&answer);
    tier->ops->get(tier, key, dst, BYTES, tier_answer_done, &answer, NULL);
    enum tier_result result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

/* An object that this machine has seen was deleted, and stored anew by another machine: with the
 * same bytes it is read; other bytes do not belong to the shape that the caller has. */
static void test_object_that_was_stored_anew(void **state)
{
    struct tier_meta meta = tier_suite_meta(100, BYTES);
    unsigned seen = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct tier *a = open_at(server.port), *b = open_at(server.port);
    put_now(a, &meta);
    b->ops->read_meta(b, &meta.key, 1, clock_deadline_ns(clock_real(), WAIT_NS), count_meta, &seen);
    assert_int_equal(seen, 1);
    a->ops->drop(a, &meta.key);
    put_now(a, &meta);
    assert_int_equal(get_now(b, &meta.key), TIER_OK);
    a->ops->drop(a, &meta.key);
    meta.shape[0] ^= 1;
    put_now(a, &meta);
    assert_int_equal(get_now(b, &meta.key), TIER_MISSING);
    assert_false(b->ops->has(b, &meta.key));
    assert_int_equal(get_now(a, &meta.key), TIER_OK); /* it was not deleted */
    b->ops->read_meta(b, &meta.key, 1, clock_deadline_ns(clock_real(), WAIT_NS), count_meta, &seen);
    assert_int_equal(seen, 2);
    assert_int_equal(get_now(b, &meta.key), TIER_OK);
    tier_close(&a);
    tier_close(&b);
}

/* A head that is known is not needed for a read. It is read now and then all the same: else it would
 * end by its time to live, and no other machine would find an object that is in use. */
static void test_reads_renew_heads(void **state)
{
    const struct tier_meta meta = tier_suite_meta(100, BYTES);
    char url[64], name[KV_NAME_BYTES], command[KV_NAME_BYTES + 16];
    struct shared_format format;
    struct tier *tier;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    snprintf(url, sizeof(url), "valkey://127.0.0.1:%u/test", server.port);
    const struct tier_shared_options options = {.kv = {.url = url, .ttl_s = 8}, .key = {{1}}};
    assert_ok(tier_shared_open(&tier, &options, NULL));
    put_now(tier, &meta);
    shared_format_init(&format, &options.key, NULL);
    shared_head_name(&format, "test:", &meta.key, name, sizeof(name));
    snprintf(command, sizeof(command), "EXPIRE %s 5", name);
    assert_string_equal(fleet_ask(&server, command), ":1");
    clock_sleep_ns(clock_real(), NS_PER_S + NS_PER_S / 10); /* an eighth of its time */
    assert_int_equal(get_now(tier, &meta.key), TIER_OK);
    snprintf(command, sizeof(command), "TTL %s", name);
    assert_true(strtol(fleet_ask(&server, command) + 1, NULL, 10) > 5);
    /* without its head, parts that are there are still good */
    snprintf(command, sizeof(command), "DEL %s", name);
    assert_string_equal(fleet_ask(&server, command), ":1");
    clock_sleep_ns(clock_real(), NS_PER_S + NS_PER_S / 10);
    assert_int_equal(get_now(tier, &meta.key), TIER_OK);
    tier_close(&tier);
}

static struct tier_shared_stats stats_of(struct tier *tier)
{
    struct tier_shared_stats stats;

    tier_shared_stats(tier, &stats);
    return stats;
}

static void find(struct tier *tier, const struct hash256 *places, struct tier_page *pages)
{
    const struct hash256 space = {{9}};

    assert_true(tier->ops->find(tier, &space, places, PLACES,
                                clock_deadline_ns(clock_real(), WAIT_NS), pages));
}

/* An empty page is not asked for again, unless this process has just filled it. */
static void test_empty_pages_are_remembered(void **state)
{
    static unsigned char data[BYTES];
    const struct hash256 places[PLACES] = {{{1}}, {{2}}, {{3}}, {{4}}};
    struct tier_page pages[PLACES];
    atomic_uint done = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct tier *tier = open_at(server.port);
    find(tier, places, pages);
    assert_int_equal(stats_of(tier).pages_asked, PLACES);
    find(tier, places, pages);
    assert_int_equal(stats_of(tier).pages_asked, PLACES);
    assert_int_equal(stats_of(tier).pages_skipped, PLACES);
    assert_int_equal(stats_of(tier).finds, 1); /* no round trip at all */
    struct tier_meta meta = tier_suite_meta(1, BYTES);
    meta.space = (struct hash256){{9}};
    meta.places = places;
    meta.places_count = 2; /* it begins at the first place, and covers its block */
    tier_suite_fill(data, BYTES, 1, 0);
    assert_true(tier->ops->put(tier, &meta, data, count_done, &done));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    find(tier, places, pages);
    assert_int_equal(pages[0].count, 1);
    assert_true(hash256_eq(&pages[0].entries[0].key, &meta.key));
    tier_close(&tier);
}

/* A page that could not be read is neither remembered as empty nor written over. Here it has
 * another type, which is an error of this page alone. */
static void test_unread_pages(void **state)
{
    static unsigned char data[BYTES];
    const struct hash256 space = {{9}}, key = {{1, 2, 3}}, places[PLACES] = {{{1}}, {{2}}, {{3}}};
    char name[KV_NAME_BYTES], command[KV_NAME_BYTES + 16];
    struct tier_page pages[PLACES];
    struct shared_format format;
    atomic_uint done = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct tier *tier = open_at(server.port);
    shared_format_init(&format, &key, NULL);
    shared_page_name(&format, "test:", &space, &places[0], name, sizeof(name));
    snprintf(command, sizeof(command), "LPUSH %s x", name);
    assert_string_equal(fleet_ask(&server, command), ":1");
    find(tier, places, pages);
    assert_false(tier->ops->find(tier, &space, places, PLACES,
                                 clock_deadline_ns(clock_real(), WAIT_NS), pages));
    assert_int_equal(stats_of(tier).pages_asked, PLACES + 1); /* that page alone */
    struct tier_meta meta = tier_suite_meta(1, BYTES);
    meta.space = space;
    meta.places = places;
    meta.places_count = 3;
    tier_suite_fill(data, BYTES, 1, 0);
    assert_true(tier->ops->put(tier, &meta, data, count_done, &done));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    snprintf(command, sizeof(command), "TYPE %s", name);
    assert_string_equal(fleet_ask(&server, command), "+list");
    find(tier, places, pages);
    assert_int_equal(pages[1].count, 1);
    tier_close(&tier);
}

/* Every block of an object with many has its page. */
static void test_many_pages(void **state)
{
    static unsigned char data[BYTES];
    static struct tier_page pages[MANY];
    struct hash256 places[MANY + 1];
    const struct hash256 space = {{9}};
    atomic_uint done = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct tier *tier = open_at(server.port);
    for (uint32_t i = 0; i <= MANY; i++)
        places[i] = tier_suite_key(1000 + i);
    struct tier_meta meta = tier_suite_meta(1, BYTES);
    meta.space = space;
    meta.places = places;
    meta.places_count = MANY + 1;
    tier_suite_fill(data, BYTES, 1, 0);
    assert_true(tier->ops->put(tier, &meta, data, count_done, &done));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_true(tier->ops->find(tier, &space, places, MANY,
                                clock_deadline_ns(clock_real(), WAIT_NS), pages));
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(pages[i].count, 1);
        assert_true(hash256_eq(&pages[i].entries[0].child, &places[i + 1]));
    }
    tier_close(&tier);
}

TEST_SUITE(TEST(test_reads_overtake_writes), TEST(test_a_running_read_is_cancelled),
           TEST(test_object_that_was_stored_anew), TEST(test_reads_renew_heads),
           TEST(test_empty_pages_are_remembered), TEST(test_unread_pages), TEST(test_many_pages))
