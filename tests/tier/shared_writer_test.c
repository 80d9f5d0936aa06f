/*
 * shared_writer_test.c: writes to a real store: the most useful ones first, and no tenant alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "support/fleet_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/tier_shared.h"

enum { BYTES = 200000, PUTS = 30, ORDER = 4 };
#define CAPACITY (UINT64_C(16) << 20)
#define SHARE    (CAPACITY / 100 * 20)
#define WAIT_NS  (60 * NS_PER_S)

static struct fleet_server server;

static struct tier *open_new(void)
{
    struct tier_shared_options options = {
        .kv = {.url = server.url, .ttl_s = 6000},
        .key = {{1, 2, 3}},
        .timeout_ns = WAIT_NS,
        .close_wait_ns = WAIT_NS,
        .tenant_percent = 20,
    };
    struct tier *tier;

    assert_ok(tier_shared_open(&tier, &options, NULL));
    return tier;
}

/* Writes an object of a tenant, and waits. */
static enum tier_result put(struct tier *tier, uint32_t n, uint8_t tenant)
{
    static unsigned char data[BYTES];
    struct tier_meta meta = tier_suite_meta(n, BYTES);
    struct tier_answer answer;

    meta.tenant = (struct hash256){{tenant}};
    tier_suite_fill(data, BYTES, n, 0);
    tier_answer_init(&answer);
    assert_true(tier->ops->put(tier, &meta, data, tier_answer_done, &answer));
    enum tier_result result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

/* Every key ends by itself: heads, parts, pages, notes and counters. */
static void expect_ttl_of_all(void)
{
    const char *text = fleet_ask_value(&server, "INFO keyspace"); /* "# Keyspace" */
    const char *keys = strstr(text + strlen(text) + 1, "keys=");
    const char *ending = keys != NULL ? strstr(keys, "expires=") : NULL;

    assert_non_null(ending);
    assert_true(strtoul(keys + 5, NULL, 10) > 2);
    assert_int_equal(strtoul(ending + 8, NULL, 10), strtoul(keys + 5, NULL, 10));
}

/* A tenant that writes on two machines fills its share and no more; another one has room. */
static void test_tenant_cannot_fill_the_store(void **state)
{
    struct tier_shared_stats stats;
    struct tier *machines[2];
    uint64_t stored = 0;

    (void)state;
    fleet_start(&server, "valkey-server", "--maxmemory 16mb --maxmemory-policy noeviction");
    for (int i = 0; i < 2; i++)
        machines[i] = open_new();
    for (uint32_t i = 0; i < PUTS; i++) {
        enum tier_result result = put(machines[i % 2], i, 1);
        assert_true(result == TIER_OK || result == TIER_FULL);
        stored += result == TIER_OK ? BYTES : 0;
    }
    assert_true(stored <= SHARE && stored > SHARE - 2 * BYTES);
    for (int i = 0; i < 2; i++) {
        tier_shared_stats(machines[i], &stats);
        assert_true(stats.refused_tenant > 0);
        assert_int_equal(stats.refused_full, 0);
    }
    assert_int_equal(put(machines[0], 0, 1), TIER_OK); /* it is there: no bytes */
    assert_int_equal(put(machines[0], PUTS, 2), TIER_OK);
    assert_int_equal(put(machines[1], PUTS + 1, 0), TIER_OK); /* without a tenant: no limit */
    tier_shared_put_note(machines[0], &(struct hash256){{5}}, "note", 4);
    assert_true(machines[0]->ops->flush(machines[0], WAIT_NS));
    expect_ttl_of_all();
    for (int i = 0; i < 2; i++)
        tier_close(&machines[i]);
}

static enum tier_result put_meta(struct tier *tier, const struct tier_meta *meta)
{
    static unsigned char data[2 * BYTES];
    struct tier_answer answer;

    tier_answer_init(&answer);
    assert_true(tier->ops->put(tier, meta, data, tier_answer_done, &answer));
    enum tier_result result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

/* Two machines have computed the same tokens. The shape of an object describes its own bytes: the
 * second one must not believe that the store has its object. */
static void test_object_of_another_machine_is_not_ours(void **state)
{
    struct tier_meta meta = tier_suite_meta(100, BYTES), other = meta;
    struct tier_stats stats;
    struct tier *machines[2];

    (void)state;
    fleet_start(&server, "valkey-server", "");
    for (int i = 0; i < 2; i++)
        machines[i] = open_new();
    assert_int_equal(put_meta(machines[0], &meta), TIER_OK);
    assert_int_equal(put_meta(machines[1], &meta), TIER_OK); /* the same object */
    other.shape[0] ^= 1;
    assert_int_equal(put_meta(machines[1], &other), TIER_CANCELLED);
    other = meta;
    other.bytes++;
    assert_int_equal(put_meta(machines[1], &other), TIER_CANCELLED);
    machines[1]->ops->stats(machines[1], &stats);
    assert_int_equal(stats.puts_done, 1);
    assert_int_equal(stats.puts_cancelled, 2);
    assert_int_equal(stats.errors, 0);
    assert_int_equal(stats.state, TIER_STATE_OK);
    for (int i = 0; i < 2; i++)
        tier_close(&machines[i]);
}

static uint32_t order[ORDER], ended;

static void note_order(enum tier_result result, void *arg)
{
    assert_int_equal(result, TIER_OK);
    assert_true(ended < ORDER);
    order[ended++] = *(const uint32_t *)arg; /* one writer */
}

/* A system prompt that comes last is written first. */
static void test_useful_objects_first(void **state)
{
    static const uint32_t urgencies[ORDER] = {3, 2, 1, 0};
    static unsigned char data[ORDER][BYTES];

    (void)state;
    fleet_start(&server, "valkey-server", "");
    struct tier *tier = open_new();
    tier_shared_hold(tier, true);
    for (uint32_t i = 0; i < ORDER; i++) {
        struct tier_meta meta = tier_suite_meta(i, BYTES);
        meta.urgency = urgencies[i];
        tier_suite_fill(data[i], BYTES, i, 0);
        assert_true(tier->ops->put(tier, &meta, data[i], note_order, (void *)&urgencies[i]));
    }
    tier_shared_hold(tier, false);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_int_equal(ended, ORDER);
    for (uint32_t i = 0; i < ORDER; i++)
        assert_int_equal(order[i], i);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_tenant_cannot_fill_the_store),
           TEST(test_object_of_another_machine_is_not_ours), TEST(test_useful_objects_first))
