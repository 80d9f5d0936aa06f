/* A disk that cannot keep up: what its queue does not take stays in memory, is served from there,
 * and counts once. */
#include <hearth/hearth.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"

#define ROOM    (UINT64_C(64) << 20)
#define WAIT_NS (20 * NS_PER_S)

enum { RAM = 8 << 20, TOKENS = 400 };

static void boot(struct kit *kit, const struct tier_ssd_options *ssd)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HEARTH_KIND_FULL);

    *kit = (struct kit){.tag = 1, .row_bytes = 64, .snapshot_bytes = 512};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    if (ssd != NULL)
        cache_attach_tier(kit->cache, HEARTH_TIER_SSD, ssd_kit_open(ssd), 1e9);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

/* I66: a full queue of the disk is no reason not to store: memory takes it by its own account, the
 * same bytes as without a disk. */
static void test_i66_full_queue_leaves_memory_alone(void **state)
{
    struct tier_ssd_options ssd = ssd_kit_options(ssd_kit_new_path(), ROOM);
    int32_t tokens[TOKENS];
    struct kit with, without;

    (void)state;
    ssd.queue_items_max = 1;
    boot(&with, &ssd);
    boot(&without, NULL);
    tier_ssd_hold(with.cache->tiers[HEARTH_TIER_SSD].tier,
                  true); /* one waits, the others are refused */
    for (uint32_t i = 1; i < 6; i++) {
        kit_tokens(tokens, TOKENS, i);
        assert_int_equal(kit_store(&with, tokens, TOKENS, NULL),
                         kit_store(&without, tokens, TOKENS, NULL));
        assert_int_equal(kit_restore(&with, tokens, TOKENS, NULL), TOKENS - 1);
        kit_check(&with);
    }
    assert_int_equal(kit_stats(&with).objects, kit_stats(&without).objects);
    assert_int_equal(kit_stats(&with).tokens_reused_by_tier[HEARTH_TIER_SSD], 0);
    assert_true(ssd_kit_stats(with.cache->tiers[HEARTH_TIER_SSD].tier).refused_queue > 0);
    tier_ssd_hold(with.cache->tiers[HEARTH_TIER_SSD].tier, false);
    assert_true(with.cache->tiers[HEARTH_TIER_SSD].tier->ops->flush(
        with.cache->tiers[HEARTH_TIER_SSD].tier, WAIT_NS));
    for (uint32_t i = 1; i < 6; i++) {
        kit_tokens(tokens, TOKENS, i);
        assert_int_equal(kit_restore(&with, tokens, TOKENS, NULL), TOKENS - 1);
    }
    kit_check(&with);
    kit_close(&with);
    kit_close(&without);
}

TEST_SUITE(TEST(test_i66_full_queue_leaves_memory_alone))
