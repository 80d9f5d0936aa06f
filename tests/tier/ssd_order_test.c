/* The order of use on disk, the times that carry it over a restart, and shares that a flood does
 * not take. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

enum { BYTES = 60000, FILE_BYTES = 72 << 10, SPACES = 4, KEYS = 200 };

#define WAIT_NS (20 * NS_PER_S)

static struct hash256 space_key(uint32_t space)
{
    return tier_suite_key(0x70000000u + space);
}

/* Stores key n for a space, as the rows up to `end`; false: refused. */
static bool put_at(struct tier *tier, uint32_t n, uint32_t space, uint32_t end)
{
    struct tier_meta meta = tier_suite_meta(n, BYTES);
    unsigned char *data = mem_alloc(BYTES);
    struct tier_answer answer;

    meta.space = space_key(space);
    meta.begin = 0;
    meta.end = end;
    meta.used_wall_ns = clock_wall_ns(clock_real());
    tier_suite_fill(data, BYTES, n, 0);
    tier_answer_init(&answer);
    bool stored = tier->ops->put(tier, &meta, data, tier_answer_done, &answer) &&
                  tier_answer_wait(&answer) == TIER_OK;
    tier_answer_fini(&answer);
    mem_free(data);
    return stored;
}

/* All of the same depth, so that use alone decides. */
static bool put(struct tier *tier, uint32_t n, uint32_t space)
{
    return put_at(tier, n, space, 256);
}

static bool has(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    return tier->ops->has(tier, &key);
}

static void touch(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    tier->ops->touch(tier, &key, 1);
}

static bool set_share(struct tier *tier, uint32_t space, uint64_t bytes)
{
    struct hash256 key = space_key(space);

    return tier->ops->set_share(tier, &key, bytes);
}

/* ---- uses elsewhere ---- */

static void test_what_is_used_elsewhere_stays(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 1 << 20);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    touch(tier, 77); /* of no tenant */
    uint32_t n = 0;
    while (ssd_kit_stats(tier).evicted == 0) {
        assert_true(put(tier, n++, 0));
        touch(tier, 0);
    }
    for (uint32_t i = 0; i < 30; i++) {
        assert_true(put(tier, n++, 0));
        touch(tier, 0);
        assert_true(has(tier, 0));
    }
    assert_false(has(tier, 1));
    assert_int_equal(ssd_kit_stats(tier).stamps, 0); /* and not one of these was a write */
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* Of objects that are about as old, the one furthest from the beginning of its prompt goes first:
 * others are worthless without the beginning. */
static void test_the_deepest_of_the_oldest_goes_first(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 1 << 20);
    struct tier *tier = ssd_kit_open(&options);
    uint32_t n = 2;

    (void)state;
    assert_true(put_at(tier, 0, 0, 256));
    assert_true(put_at(tier, 1, 0, 512));
    while (ssd_kit_stats(tier).evicted == 0)
        assert_true(put_at(tier, n++, 0, 256));
    assert_true(has(tier, 0));
    assert_false(has(tier, 1));
    tier_close(&tier);
}

struct order {
    struct hash256 keys[KEYS];
    size_t count;
};

static bool note_key(const struct tier_meta *meta, void *arg)
{
    struct order *order = arg;

    order->keys[order->count++] = meta->key;
    return true;
}

/* I107: the next process knows in which order things were used, whether they were read or used
 * elsewhere. */
static void test_i107_the_order_of_use_outlives_the_process(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 8 << 20);
    struct tier *tier = ssd_kit_open(&options);
    static const uint32_t used[] = {3, 0, 5, 1};
    struct order order = {.count = 0};

    (void)state;
    for (uint32_t n = 0; n < 6; n++)
        assert_true(put(tier, n, n % 2));
    for (size_t i = 0; i < COUNT_OF(used); i++) {
        if (i % 2)
            assert_int_equal(tier_suite_get(tier, used[i], BYTES), TIER_OK);
        else
            touch(tier, used[i]);
    }
    tier_close(&tier);
    tier = ssd_kit_open(&options);
    tier->ops->each(tier, note_key, &order);
    static const uint32_t expected[] = {2, 4, 3, 0, 5, 1};
    assert_int_equal(order.count, COUNT_OF(expected));
    for (size_t i = 0; i < order.count; i++) {
        struct hash256 key = tier_suite_key(expected[i]);
        assert_memory_equal(&order.keys[i], &key, sizeof(key));
    }
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* While it runs, a file's time is written once a minute at most, by the janitor. */
static void test_times_follow_once_a_minute(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 8 << 20);
    uint64_t now = clock_wall_ns(clock_real());
    struct clock *clock = clock_create_fake(now, now);

    (void)state;
    options.clock = clock;
    options.retry_ns = NS_PER_MS; /* the janitor looks that often */
    struct tier *tier = ssd_kit_open(&options);
    assert_true(put(tier, 1, 0));
    for (uint64_t minute = 1; minute <= 3; minute++) {
        for (int i = 0; i < 100; i++)
            touch(tier, 1);
        clock_fake_advance(clock, 61 * NS_PER_S);
        touch(tier, 1);
        for (int i = 0; i < 20000 && ssd_kit_stats(tier).stamps < minute; i++)
            clock_sleep_ns(clock_real(), NS_PER_MS);
        assert_int_equal(ssd_kit_stats(tier).stamps, minute);
    }
    tier_close(&tier);
    clock_destroy_fake(&clock);
}

/* A file whose time cannot be set costs its place in the order, and nothing else. */
static void test_times_that_cannot_be_written(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 8 << 20);
    struct file_fault fault;

    (void)state;
    for (int round = 0; round < 2; round++) {
        file_fault_init(&fault, file_sys_real());
        fault.errnum = round ? EIO : EROFS;
        options.fs = &fault.sys;
        struct tier *tier = ssd_kit_open(&options);
        for (uint32_t n = 0; n < 4; n++)
            assert_true(put(tier, n, 0) || round > 0);
        for (uint32_t n = 0; n < 4; n++)
            touch(tier, n);
        assert_true(tier->ops->flush(tier, WAIT_NS));
        fault.calls = UINT64_C(1) << (round ? FILE_CALL_OPENAT : FILE_CALL_FUTIMENS);
        fault_arm(&fault.when, 1, true);
        tier_close(&tier);
        fault_arm(&fault.when, 0, false);
        tier = ssd_kit_open(&options);
        for (uint32_t n = 0; n < 4; n++)
            assert_int_equal(tier_suite_get(tier, n, BYTES), TIER_OK);
        tier_close(&tier);
    }
}

/* ---- shares ---- */

/* I100: objects within a tenant's share stay, whatever other tenants write. */
static void test_i100_a_flood_does_not_take_a_share(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 2 << 20);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    for (uint32_t n = 0; n < 5; n++)
        assert_true(put(tier, n, 1)); /* before it has a share: these count as well */
    assert_true(set_share(tier, 1, 10 * FILE_BYTES));
    tier_ssd_check(tier);
    for (uint32_t n = 5; n < 10; n++)
        assert_true(put(tier, n, 1));
    for (uint32_t n = 0; n < 100; n++) {
        assert_true(put(tier, 1000 + n, 2)); /* is not refused: it takes from its own */
        if (n % 10 == 0)
            tier_ssd_check(tier);
    }
    for (uint32_t n = 0; n < 10; n++)
        assert_true(has(tier, n));
    assert_true(ssd_kit_stats(tier).evicted > 70);
    /* Beyond its share it has no priority, and others get the unreserved room back. */
    for (uint32_t n = 10; n < 60; n++)
        assert_true(put(tier, n, 1));
    for (uint32_t n = 0; n < 60; n++)
        assert_true(put(tier, 2000 + n, 3));
    uint32_t left = 0;
    for (uint32_t n = 0; n < 60; n++)
        left += has(tier, n);
    assert_true(left >= 9 && left < 15);
    tier_ssd_check(tier);
    tier_close(&tier);
}

static void test_shares_that_cannot_be_had(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 2 << 20);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    assert_false(set_share(tier, 1, (1 << 20) + 1)); /* half of the cap, together */
    assert_true(set_share(tier, 1, 1 << 19));
    assert_false(set_share(tier, 2, (1 << 19) + 1));
    assert_true(set_share(tier, 2, 1 << 19));
    assert_true(set_share(tier, 1, 0));
    for (uint32_t i = 0; i < 61; i++)
        assert_true(set_share(tier, 10 + i, 1));
    assert_false(set_share(tier, 1000, 1)); /* 63 of them */
    assert_true(set_share(tier, 1, 100));   /* has a line already */
    tier_close(&tier);
    options.read_only = true;
    tier = ssd_kit_open(&options);
    assert_false(set_share(tier, 1, 1));
    tier_close(&tier);
}

/* If no tenant in particular needs the room, shares are evicted last, but they are evicted. */
static void test_a_lower_cap_takes_shares_last(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 4 << 20);
    struct tier *tier = ssd_kit_open(&options);
    struct tier_stats stats;

    (void)state;
    assert_true(set_share(tier, 1, 20 * FILE_BYTES));
    for (uint32_t n = 0; n < 20; n++)
        assert_true(put(tier, n, 1));
    for (uint32_t n = 0; n < 20; n++)
        assert_true(put(tier, 100 + n, 2));
    static const uint64_t caps[] = {2 << 20, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(caps); i++) {
        assert_true(tier->ops->set_limits(tier, &(struct tier_limits){.bytes_max = caps[i]}));
        for (int tries = 0; tries < 20000; tries++) {
            tier->ops->stats(tier, &stats);
            if (stats.bytes < caps[i] && ssd_kit_stats(tier).bytes_doomed == 0)
                break;
            clock_sleep_ns(clock_real(), NS_PER_MS);
        }
        uint32_t mine = 0;
        for (uint32_t n = 0; n < 20; n++)
            mine += has(tier, n);
        assert_true(i == 0 ? mine == 20 : mine > 0 && mine < 20);
    }
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* Puts, gets, drops, uses and shares in any order: a tenant within its share loses
 * nothing to another tenant's put. */
static void test_i100_at_random(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 3 << 20);
    struct tier *tier = ssd_kit_open(&options);
    uint64_t seed = test_seed(), shares[SPACES] = {0};

    (void)state;
    for (int step = 0; step < 400; step++) {
        uint32_t n = (uint32_t)test_random_below(&seed, KEYS), space = n % SPACES;
        bool before[KEYS];
        uint32_t held[SPACES] = {0};
        for (uint32_t i = 0; i < KEYS; i++) {
            before[i] = has(tier, i);
            held[i % SPACES] += before[i];
        }
        switch (test_random_below(&seed, 8)) {
        case 0:
            touch(tier, n);
            break;
        case 1:
            ssd_kit_drop(tier, n);
            break;
        case 2:
            shares[space] = test_random_below(&seed, 8) * FILE_BYTES;
            if (!set_share(tier, space, shares[space]))
                shares[space] = 0, assert_true(set_share(tier, space, 0));
            break;
        default:
            assert_true(put(tier, n, space));
            for (uint32_t i = 0; i < KEYS; i++)
                if (i % SPACES != space &&
                    held[i % SPACES] * (uint64_t)FILE_BYTES <= shares[i % SPACES])
                    assert_int_equal(has(tier, i), before[i]);
        }
        if (step % 20 == 0)
            tier_ssd_check(tier);
    }
    assert_true(ssd_kit_stats(tier).evicted > 20);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_what_is_used_elsewhere_stays), TEST(test_the_deepest_of_the_oldest_goes_first),
           TEST(test_i107_the_order_of_use_outlives_the_process),
           TEST(test_times_follow_once_a_minute), TEST(test_times_that_cannot_be_written),
           TEST(test_i100_a_flood_does_not_take_a_share), TEST(test_shares_that_cannot_be_had),
           TEST(test_a_lower_cap_takes_shares_last), TEST(test_i100_at_random))
