/*
 * shared_share_test.c: how much of a real store one tenant may fill, from two machines.
 */
#include "tier/shared_share.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/fleet_kit.h"
#include "support/test.h"

enum { TTL_S = 800, PERCENT = 25, HALF = 100 << 10 };
#define CAPACITY  (UINT64_C(4) << 20)
#define SHARE     (CAPACITY / 100 * PERCENT)
#define EIGHTH_NS (TTL_S / 8 * NS_PER_S)

static const struct hash256 key = {{1}}, anna = {{2}}, ben = {{3}}, none;

/* A machine that uses the store, and knows its size. */
static struct shared_io open_io(const struct fleet_server *server, unsigned percent)
{
    struct shared_io io = {.ttl_s = TTL_S, .tenant_percent = percent, .timeout_ns = 20 * NS_PER_S};

    shared_format_init(&io.format, &key, NULL);
    assert_ok(kv_open(&io.kv, &(struct kv_options){.url = server->url, .ttl_s = TTL_S}, NULL));
    (void)kv_has_room(io.kv, clock_deadline_ns(clock_real(), io.timeout_ns));
    return io;
}

static void test_two_machines_count_together(void **state)
{
    uint64_t now = 1000000 * EIGHTH_NS;
    struct fleet_server server;

    (void)state;
    fleet_start(&server, "valkey-server", "--maxmemory 4mb --maxmemory-policy allkeys-lru");
    struct shared_io a = open_io(&server, PERCENT), b = open_io(&server, PERCENT);
    assert_int_equal(kv_capacity(a.kv), CAPACITY);
    assert_int_equal(shared_share_take(&a, &anna, SHARE - HALF, now), SHARED_SHARE_COUNTED);
    assert_int_equal(shared_share_take(&b, &anna, HALF + 1, now), SHARED_SHARE_OVER);
    assert_int_equal(shared_share_take(&b, &anna, HALF, now), SHARED_SHARE_COUNTED);
    assert_int_equal(shared_share_take(&a, &anna, 1, now), SHARED_SHARE_OVER);
    assert_int_equal(shared_share_take(&a, &ben, SHARE, now), SHARED_SHARE_COUNTED);
    /* bytes that were not written */
    shared_share_give(&b, &anna, HALF, now);
    assert_int_equal(shared_share_take(&a, &anna, HALF, now), SHARED_SHARE_COUNTED);
    /* they count for the time to live, whichever eighth they are in */
    assert_int_equal(shared_share_take(&a, &anna, 1, now + 8 * EIGHTH_NS), SHARED_SHARE_OVER);
    assert_int_equal(shared_share_take(&a, &anna, SHARE, now + 9 * EIGHTH_NS),
                     SHARED_SHARE_COUNTED);
    kv_close(&a.kv);
    kv_close(&b.kv);
}

/* Every counter ends by its time to live. */
static void test_counters_expire(void **state)
{
    char command[KV_NAME_BYTES + 16];
    struct fleet_server server;
    char name[KV_NAME_BYTES];

    (void)state;
    fleet_start(&server, "valkey-server", "--maxmemory 4mb --maxmemory-policy allkeys-lru");
    struct shared_io io = open_io(&server, PERCENT);
    shared_usage_name(&io.format, kv_prefix(io.kv), &anna, 5, name, sizeof(name));
    snprintf(command, sizeof(command), "TTL %s", name);
    assert_int_equal(shared_share_take(&io, &anna, 1, 5 * EIGHTH_NS), SHARED_SHARE_COUNTED);
    assert_true(strtol(fleet_ask(&server, command) + 1, NULL, 10) > 0);
    assert_string_equal(fleet_ask(&server, "FLUSHALL"), "+OK"); /* as an eviction */
    shared_share_give(&io, &anna, 1, 5 * EIGHTH_NS);
    assert_true(strtol(fleet_ask(&server, command) + 1, NULL, 10) > 0);
    kv_close(&io.kv);
}

static void test_no_limit(void **state)
{
    struct fleet_server server, unlimited;

    (void)state;
    fleet_start(&server, "valkey-server", "--maxmemory 4mb --maxmemory-policy allkeys-lru");
    fleet_start(&unlimited, "valkey-server", "");
    struct shared_io io = open_io(&server, 100);
    assert_int_equal(shared_share_take(&io, &anna, 2 * CAPACITY, 1), SHARED_SHARE_NONE);
    kv_close(&io.kv);
    io = open_io(&server, PERCENT);
    assert_int_equal(shared_share_take(&io, &none, 2 * CAPACITY, 1), SHARED_SHARE_NONE);
    kv_close(&io.kv);
    io = open_io(&unlimited, PERCENT);
    assert_int_equal(shared_share_take(&io, &anna, 2 * CAPACITY, 1), SHARED_SHARE_NONE);
    kv_close(&io.kv);
}

TEST_SUITE(TEST(test_two_machines_count_together), TEST(test_counters_expire), TEST(test_no_limit))
