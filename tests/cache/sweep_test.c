/*
 * sweep_test.c: what a tier evicts by itself leaves the index: what is shown and promised is there.
 */
#include <hearth/hearth.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "support/cache_check.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_kept.h"

enum { TOKENS = 100, PROMPTS = 60, WAIT_MS = 20000, RAM = 1 << 20, DISK = 3 << 20 };

static const uint32_t SSD = TIER_BIT(HEARTH_TIER_SSD);

static void boot(struct kit *kit, struct tier *tier)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HEARTH_KIND_FULL);

    *kit = (struct kit){.tag = 1, .row_bytes = 1024, .snapshot_bytes = 512};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, tier, 1e9);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

static void store(const struct kit *kit, uint32_t seed)
{
    int32_t tokens[TOKENS];

    kit_tokens(tokens, TOKENS, seed);
    kit_store(kit, tokens, TOKENS, NULL);
    mover_drain(kit->cache, WAIT_MS);
}

struct shown {
    uint64_t objects, bytes;
};

static bool add_shown(const struct hearth_held *held, void *arg)
{
    struct shown *shown = arg;
    bool there = (held->tiers & SSD) != 0;

    shown->objects += there;
    shown->bytes += there ? held->bytes : 0;
    return true;
}

/* A long sweep, on a slow machine, is followed by a pause. */
static void wait_for_pause(const struct kit *kit)
{
    struct cache_tier *tier = &kit->cache->tiers[HEARTH_TIER_SSD];
    uint64_t due;

    lock_enter(&kit->cache->lock);
    due = tier->sweep_at_ns;
    lock_leave(&kit->cache->lock);
    while (cache_now_ns(kit->cache) < due)
        clock_sleep_ns(clock_real(), NS_PER_MS);
}

/* Everything that says what the tier has agrees with the tier. */
static void expect_the_truth(const struct kit *kit)
{
    wait_for_pause(kit);
    struct tier *tier = kit->cache->tiers[HEARTH_TIER_SSD].tier;
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};
    struct tier_stats truth;
    struct shown shown = {0};

    tier->ops->stats(tier, &truth);
    assert_int_equal(hearth_get_tier(kit->cache, HEARTH_TIER_SSD, &stats), HEARTH_OK);
    assert_int_equal(stats.objects, truth.objects);
    hearth_each(kit->cache, NULL, 0, add_shown, &shown);
    assert_int_equal(shown.objects, truth.objects);
    assert_int_equal(kit_stats(kit).bytes_by_tier[HEARTH_TIER_SSD], shown.bytes);
    kit_check(kit);
}

/* The next request finds what a probe promised. */
static void expect_kept_promises(const struct kit *kit)
{
    int32_t tokens[TOKENS];
    uint64_t promised = 0;

    for (uint32_t seed = 1; seed <= PROMPTS; seed++) {
        struct hearth_probe probe = {.struct_size = sizeof(probe)};
        kit_tokens(tokens, TOKENS, seed);
        wait_for_pause(kit);
        assert_int_equal(hearth_probe(kit->space, tokens, TOKENS, &probe, NULL, 0), HEARTH_OK);
        promised += probe.tokens_by_tier[HEARTH_TIER_SSD];
        assert_int_equal(kit_restore(kit, tokens, TOKENS, NULL), probe.boundary);
        mover_drain(kit->cache, WAIT_MS);
    }
    assert_true(promised > 0);
}

static void test_the_index_equals_the_folder(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), DISK);
    struct hearth_verify_options verify = {.struct_size = sizeof(verify), .tier = HEARTH_TIER_SSD};
    struct hearth_verified verified;
    struct kit kit;

    (void)state;
    boot(&kit, ssd_kit_open(&options));
    for (uint32_t seed = 1; seed <= PROMPTS; seed++) {
        store(&kit, seed);
        expect_the_truth(&kit);
    }
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};
    assert_int_equal(hearth_get_tier(kit.cache, HEARTH_TIER_SSD, &stats), HEARTH_OK);
    assert_true(stats.evictions > 0 && stats.objects > 0);
    expect_kept_promises(&kit);
    assert_int_equal(hearth_verify(kit.cache, &verify, &verified), HEARTH_OK);
    assert_int_equal(verified.failed, 0);
    assert_int_equal(verified.damaged, 0);
    assert_true(verified.objects > 0);
    expect_the_truth(&kit);
    kit_close(&kit);
}

/* The same with any tier, which evicts while nothing is written. What is also in memory stays. */
static void test_any_tier_is_asked(void **state)
{
    struct tier_kept kept;
    struct kit kit;

    (void)state;
    tier_kept_open(&kept, DISK, 0);
    boot(&kit, &kept.tier);
    for (uint32_t seed = 1; seed <= 20; seed++)
        store(&kit, seed);
    expect_the_truth(&kit);
    uint64_t held = kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM];
    tier_kept_evict(&kept, 64, TOKENS);
    expect_the_truth(&kit);
    assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM], held);
    tier_kept_evict(&kept, 0, TOKENS);
    assert_int_equal(tier_kept_objects(&kept), 0);
    expect_the_truth(&kit);
    kit_close(&kit);
    tier_kept_close(&kept);
}

TEST_SUITE(TEST(test_the_index_equals_the_folder), TEST(test_any_tier_is_asked))
