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

TEST_SUITE(TIER_SUITE_TESTS(valkey, &valkey) TEST(test_redis_put_then_get),
           TEST(test_sealed_put_then_get), TEST(test_sealed_damage_is_found),
           TEST(test_other_processes_see_it))
