/*
 * tier_shared_test.c: the tier on real servers: the checks of every tier, and what is its own. S3 is
 * in kv_s3_test.c.
 */
#include "tier/tier_shared.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/fleet_kit.h"
#include "support/fleet_proxy.h"
#include "support/test.h"
#include "support/tier_suite.h"

enum { PART_BYTES = 64 << 10 }; /* so that small objects have several */
#define WAIT_NS (20 * NS_PER_S)

static struct fleet_server server;
static bool sealed;

static struct tier_shared_options options_of(const char *url)
{
    static const struct hash256 seal_key = {{7, 7, 7}};

    return (struct tier_shared_options){
        .kv = {.url = url, .ttl_s = 600, .retry_ns = 50 * NS_PER_MS},
        .key = {{1, 2, 3}},
        .seal_key = sealed ? &seal_key : NULL,
        .part_bytes = PART_BYTES,
        .close_wait_ns = WAIT_NS,
        .negative_ns = 1,
    };
}

static struct tier *open_at(const char *url)
{
    struct tier_shared_options options = options_of(url);
    struct errinfo info = {0};
    struct tier *tier;

    if (tier_shared_open(&tier, &options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return tier;
}

static struct tier *open_new(uint64_t bytes_max)
{
    (void)bytes_max;
    if (server.pid == 0)
        fleet_start(&server, "valkey-server", "");
    return open_at(server.url);
}

static struct tier *open_redis(uint64_t bytes_max)
{
    if (server.pid == 0)
        fleet_start(&server, "redis-server", "");
    return open_new(bytes_max);
}

static struct tier *open_sealed(uint64_t bytes_max)
{
    sealed = true; /* each test is a process */
    return open_new(bytes_max);
}

static void damage(struct tier *tier, const struct hash256 *key)
{
    struct tier_shared_options options = options_of(server.url);

    (void)tier;
    fleet_damage(&options, key);
}

static const struct tier_factory valkey = {.name = "valkey",
                                           .open = open_new,
                                           .hold = tier_shared_hold,
                                           .damage = damage,
                                           .unbounded = true,
                                           .shared = true,
                                           .steps = 300};
static const struct tier_factory redis = {
    .name = "redis", .open = open_redis, .hold = tier_shared_hold, .unbounded = true};
static const struct tier_factory secret = {
    .name = "sealed", .open = open_sealed, .damage = damage, .unbounded = true};

TIER_SUITE_DEFINE(valkey, &valkey)
TIER_SUITE_FUNCTION(redis, &redis, put_then_get)
TIER_SUITE_FUNCTION(sealed, &secret, put_then_get)
TIER_SUITE_FUNCTION(sealed, &secret, damage_is_found)

/* What one process writes, another reads. */
static void test_other_processes_see_it(void **state)
{
    (void)state;
    struct tier *a = open_new(0), *b = open_new(0);

    assert_true(tier_suite_put(a, 1, 300000));
    assert_int_equal(tier_suite_get(b, 1, 300000), TIER_OK);
    tier_close(&a);
    assert_int_equal(tier_suite_get(b, 1, 300000), TIER_OK);
    tier_close(&b);
}

/* A server that evicts may take one part of an object. The object is a miss, and can be stored anew. */
static void test_lost_part(void **state)
{
    (void)state;
    struct tier *a = open_new(0), *b = open_new(0);
    struct tier_shared_options options = options_of(server.url);
    struct hash256 key = tier_suite_key(1);
    struct tier_shared_stats stats;

    assert_true(tier_suite_put(a, 1, 300000));
    fleet_delete_part(&options, &key);
    assert_int_equal(tier_suite_get(b, 1, 300000), TIER_MISSING);
    tier_shared_stats(b, &stats);
    assert_int_equal(stats.parts_missing, 1);
    assert_true(tier_suite_put(b, 1, 300000));
    assert_int_equal(tier_suite_get(b, 1, 300000), TIER_OK);
    assert_int_equal(tier_suite_get(a, 1, 300000), TIER_OK); /* it knows the old head */
    tier_close(&a);
    tier_close(&b);
}

/* An object that is dropped while it is being written is not known afterwards. */
static void test_dropped_put(void **state)
{
    struct tier_meta meta = tier_suite_meta(1, 3000);
    unsigned char data[3000] = {0};
    struct tier_answer answer;
    struct fleet_proxy proxy;
    char url[64];

    (void)state;
    fleet_start(&server, "valkey-server", "");
    fleet_proxy_start(&proxy, server.port);
    snprintf(url, sizeof(url), "valkey://127.0.0.1:%u/test", proxy.port);
    struct tier *tier = open_at(url);
    tier_answer_init(&answer);
    atomic_store(&proxy.delay_ms, 50);
    assert_true(tier->ops->put(tier, &meta, data, tier_answer_done, &answer));
    while (strcmp(fleet_ask(&server, "DBSIZE"), ":0") == 0) /* until its part is there */
        clock_sleep_ns(clock_real(), NS_PER_MS);
    tier->ops->drop(tier, &meta.key);
    assert_int_equal(tier_answer_wait(&answer), TIER_OK);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_false(tier->ops->has(tier, &meta.key));
    assert_string_equal(fleet_ask(&server, "DBSIZE"), ":0");
    tier_close(&tier);
    tier_answer_fini(&answer);
    fleet_proxy_stop(&proxy);
}

/* A large cache is cleared as a whole: nothing is left to be found again. */
static void test_many_drops(void **state)
{
    enum { OBJECTS = 5000 };
    struct tier_answer answer;

    (void)state;
    struct tier *tier = open_new(0);
    tier_answer_init(&answer);
    for (uint32_t n = 0; n < OBJECTS; n++) {
        struct tier_meta meta = tier_suite_meta(n, 10);
        assert_true(tier->ops->put(tier, &meta, "123456789", tier_answer_done, &answer));
        assert_int_equal(tier_answer_wait(&answer), TIER_OK);
    }
    tier_answer_fini(&answer);
    assert_string_equal(fleet_ask(&server, "DBSIZE"), ":10000"); /* a head and a part each */
    tier_shared_hold(tier, true);
    for (uint32_t n = 0; n < OBJECTS; n++) {
        struct tier_meta meta = tier_suite_meta(n, 10);
        tier->ops->drop(tier, &meta.key);
        tier->ops->drop(tier, &meta.key); /* twice is once */
    }
    tier_shared_hold(tier, false);
    assert_true(tier->ops->flush(tier, 5 * WAIT_NS));
    assert_string_equal(fleet_ask(&server, "DBSIZE"), ":0");
    tier_close(&tier);
}

static const struct fleet_fault faults[] = {
    {"reset", FLEET_RESET, NULL},
    {"silence", FLEET_SILENT, NULL},
    {"lost reply", FLEET_LOST, NULL},
    {"half a reply", FLEET_HALF, NULL},
    {"another type", FLEET_REPLY, ":7\r\n"},
    {"a status", FLEET_REPLY, "+OK\r\n"},
    {"a null", FLEET_REPLY, "$-1\r\n"},
    {"a short value", FLEET_REPLY, "$3\r\nabc\r\n"},
    {"an array", FLEET_REPLY, "*2\r\n:1\r\n:2\r\n"},
    {"nonsense", FLEET_REPLY, "HTTP/1.1 400 Bad Request\r\n\r\n"},
    {"MOVED", FLEET_REPLY, "-MOVED 1 127.0.0.1:%u\r\n"},
    {"ASK", FLEET_REPLY, "-ASK 1 127.0.0.1:%u\r\n"},
    {"OOM", FLEET_REPLY, "-OOM command not allowed when used memory > 'maxmemory'.\r\n"},
    {"LOADING", FLEET_REPLY, "-LOADING Valkey is loading the dataset in memory\r\n"},
    {"READONLY", FLEET_REPLY, "-READONLY You can't write against a read only replica.\r\n"},
    {"auth lost", FLEET_REPLY, "-NOAUTH Authentication required.\r\n"},
};

static void test_fault_loops(void **state)
{
    struct fleet_proxy proxy;
    char url[64];

    (void)state;
    fleet_start(&server, "valkey-server", "");
    fleet_proxy_start(&proxy, server.port);
    snprintf(url, sizeof(url), "valkey://127.0.0.1:%u/test", proxy.port);
    struct tier_shared_options options = options_of(url);
    options.timeout_ns = WAIT_NS;
    options.readers = 1;
    fleet_fault_loop(&proxy, &options, faults, COUNT_OF(faults));
    fleet_proxy_stop(&proxy);
}

TEST_SUITE(TIER_SUITE_TESTS(valkey, &valkey) TEST(test_redis_put_then_get),
           TEST(test_sealed_put_then_get), TEST(test_sealed_damage_is_found),
           TEST(test_other_processes_see_it), TEST(test_lost_part), TEST(test_dropped_put),
           TEST(test_many_drops), TEST(test_fault_loops))
