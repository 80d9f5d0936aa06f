/* Using plans: fetching, falling back, accepting; and what leases keep. */
#include <hearth/hearth.h>

#include "base/mem.h"
#include "support/cache_kit.h"
#include "support/test.h"

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

static void test_i10_i104_shorten_goes_boundary_by_boundary(void **state)
{
    static const uint32_t expected[] = {99, 80, 64, 20, 0};
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, HYBRID, tokens, 100);
    for (size_t i = 0; i + 1 < COUNT_OF(expected); i++)
        kit_snapshot(&kit, tokens, 100, expected[i]);
    plan = kit_lookup(&kit, tokens, 100);
    for (size_t i = 0;; i++) {
        const struct hearth_plan_info *info = hearth_plan_info(plan);
        assert_int_equal(info->boundary, expected[i]);
        assert_int_equal(info->reason, i == 0 ? HEARTH_REASON_NONE : HEARTH_REASON_REFUSED);
        if (info->boundary == 0)
            break;
        hearth_plan_shorten(plan, info->objects_count - 1, HEARTH_REASON_REFUSED);
        kit_check(&kit);
    }
    hearth_plan_release(&plan);
    assert_int_equal(kit_stats(&kit).verify_failures, 4);
    assert_int_equal(kit_stats(&kit).miss_by_reason[HEARTH_REASON_REFUSED], 1);
    assert_int_equal(kit_stats(&kit).snapshots, 0); /* forgotten */
    assert_int_equal(kit_stats(&kit).hits, 0);
    kit_close(&kit);
}

static void test_i10_shorten_rows_down_to_cold(void **state)
{
    static const uint32_t expected[] = {149, 144, 128, 64, 0};
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[150];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 150);
    plan = kit_lookup(&kit, tokens, 150);
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        const struct hearth_plan_info *info = hearth_plan_info(plan);
        assert_int_equal(info->boundary, expected[i]);
        if (info->boundary > 0)
            hearth_plan_shorten(plan, info->objects_count - 1, HEARTH_REASON_UNVERIFIED);
    }
    assert_int_equal(hearth_plan_info(plan)->reason, HEARTH_REASON_UNVERIFIED);
    hearth_plan_accept(plan); /* of nothing: no hit */
    hearth_plan_release(&plan);
    assert_int_equal(kit_stats(&kit).objects, 0);
    assert_int_equal(kit_stats(&kit).misses, 1);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_a_bad_first_object_ends_all(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[150];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 150);
    plan = kit_lookup(&kit, tokens, 150);
    hearth_plan_shorten(plan, 0, HEARTH_REASON_UNVERIFIED);
    assert_int_equal(hearth_plan_info(plan)->boundary, 0);
    hearth_plan_release(&plan);
    assert_int_equal(kit_restore(&kit, tokens, 150, NULL), 0);
    assert_int_equal(kit_peek(&kit, tokens, 150).reason, HEARTH_REASON_EVICTED);
    kit_store(&kit, tokens, 150, NULL); /* what is missing, and only that */
    assert_int_equal(kit_restore(&kit, tokens, 150, NULL), 149);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_lower_to_a_cut(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[150];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 150);
    plan = kit_lookup(&kit, tokens, 150);
    hearth_plan_lower(plan, 1000);
    assert_int_equal(hearth_plan_info(plan)->boundary, 149);
    hearth_plan_lower(plan, 70);
    assert_int_equal(hearth_plan_info(plan)->boundary, 70);
    assert_int_equal(hearth_plan_info(plan)->objects_count, 2);
    assert_int_equal(hearth_plan_info(plan)->reason, HEARTH_REASON_NO_SNAPSHOT);
    assert_int_equal(hearth_plan_info(plan)->match, HEARTH_MATCH_LCP);
    hearth_plan_lower(plan, 0);
    assert_int_equal(hearth_plan_info(plan)->boundary, 0);
    assert_int_equal(hearth_plan_info(plan)->objects_count, 0);
    hearth_plan_release(&plan);
    /* What differs after the cut is the reason, not that the plan was lowered to it. */
    tokens[140]++;
    plan = kit_lookup(&kit, tokens, 150);
    hearth_plan_lower(plan, 70);
    assert_int_equal(hearth_plan_info(plan)->boundary, 70);
    assert_int_equal(hearth_plan_info(plan)->reason, HEARTH_REASON_DIVERGED);
    hearth_plan_release(&plan);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i91_a_hit_counts_when_it_is_accepted(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    plan = kit_lookup(&kit, tokens, 100);
    assert_int_equal(kit_stats(&kit).lookups, 1);
    assert_int_equal(kit_stats(&kit).hits, 0);
    assert_int_equal(kit_stats(&kit).tokens_reused, 0);
    hearth_plan_release(&plan); /* not accepted: a miss, with a reason */
    assert_int_equal(kit_stats(&kit).hits, 0);
    assert_int_equal(kit_stats(&kit).misses, 1);
    assert_int_equal(kit_stats(&kit).miss_by_reason[HEARTH_REASON_DISABLED], 1);
    plan = kit_lookup(&kit, tokens, 100);
    hearth_plan_accept(plan);
    hearth_plan_accept(plan); /* once */
    assert_int_equal(kit_stats(&kit).hits, 1);
    hearth_plan_release(&plan);
    assert_int_equal(kit_stats(&kit).hits, 1);
    assert_int_equal(kit_stats(&kit).misses, 1);
    assert_int_equal(kit_stats(&kit).tokens_reused, 99);
    assert_int_equal(kit_stats(&kit).partials, 0);
    kit_close(&kit);
}

static void test_i11_leased_bytes_stay_through_a_clear(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    const void *data[3];
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    plan = kit_lookup(&kit, tokens, 100);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(hearth_plan_fetch(plan, i, 0, &data[i]), HEARTH_OK);
    assert_int_equal(hearth_plan_fetch(plan, 3, 0, &data[0]), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data[0]), HEARTH_OK);
    assert_true(hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT) > 0);
    assert_int_equal(kit_stats(&kit).objects, 0);
    assert_true(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM] > 0); /* the reader's */
    kit_check(&kit);
    kit_store(&kit, tokens, 100, NULL); /* the same again, beside it */
    for (size_t i = 0; i < 3; i++)
        kit_expect(&kit, &hearth_plan_info(plan)->objects[i], data[i], tokens, 100);
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    kit_check(&kit);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
    assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM], 0);
    kit_close(&kit);
}

static void test_i11_displaced_rows_live_on_while_leased(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    const void *data;
    int32_t tokens[40];

    (void)state;
    kit_open(&kit, 4 << 20, FULL);
    kit_tokens(tokens, 40, 1);
    kit_store(&kit, tokens, 20, NULL); /* a block and a tail of 4 */
    plan = kit_lookup(&kit, tokens, 20);
    assert_int_equal(hearth_plan_fetch(plan, 1, 0, &data), HEARTH_OK);
    kit_store(&kit, tokens, 30, NULL); /* a longer tail takes its place */
    assert_int_equal(kit_stats(&kit).replaces, 1);
    kit_expect(&kit, &hearth_plan_info(plan)->objects[1], data, tokens, 20);
    kit_check(&kit);
    hearth_plan_release(&plan);
    kit_check(&kit);
    assert_int_equal(kit_restore(&kit, tokens, 40, NULL), 30);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_i10_i104_shorten_goes_boundary_by_boundary),
           TEST(test_i10_shorten_rows_down_to_cold), TEST(test_a_bad_first_object_ends_all),
           TEST(test_lower_to_a_cut), TEST(test_i91_a_hit_counts_when_it_is_accepted),
           TEST(test_i11_leased_bytes_stay_through_a_clear),
           TEST(test_i11_displaced_rows_live_on_while_leased))
