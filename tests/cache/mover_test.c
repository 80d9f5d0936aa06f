/* Between memory and a slower tier: writing behind, demoting, promoting, and every way in which that goes wrong. */
#include <hearth/hearth.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"
#include "tier/tier_fault.h"
#include "tier/tier_ram.h"

enum { RAM = 160 * 1024, SLOW = 8 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;

/* A kit with a slower tier behind it: rows of 256 bytes, so that about eight prompts of 64 tokens fit into memory. */
static struct tier *open_two(struct kit *kit, bool threaded)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = SLOW});
    struct tier *tier =
        tier_fault_open(&(struct tier_fault_options){.inner = inner, .threaded = threaded});

    kit_open(kit, RAM, FULL);
    kit->row_bytes = 256;
    cache_attach_tier(kit->cache, tier, 1e9);
    return tier;
}

static uint64_t objects_in(struct tier *tier)
{
    struct tier_stats stats;

    tier->ops->stats(tier, &stats);
    return stats.objects;
}

static void store(const struct kit *kit, uint32_t from, uint32_t count)
{
    int32_t tokens[64];

    for (uint32_t i = 0; i < count; i++) {
        kit_tokens(tokens, 64, from + i);
        kit_store(kit, tokens, 64, NULL);
    }
}

static uint32_t restore(const struct kit *kit, uint32_t seed, struct hearth_plan_info *info)
{
    int32_t tokens[64];

    kit_tokens(tokens, 64, seed);
    return kit_restore(kit, tokens, 64, info);
}

static void test_what_leaves_memory_comes_back_from_the_tier(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);
    struct hearth_stats stats;

    (void)state;
    store(&kit, 1, 40);
    kit_check(&kit);
    assert_int_equal(objects_in(tier), 40);
    stats = kit_stats(&kit);
    assert_true(stats.demotions > 20);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(stats.objects, 40);
    assert_int_equal(stats.bytes_by_tier[HEARTH_TIER_SSD], 40 * 64 * 256);
    for (uint32_t i = 1; i <= 40; i++) {
        assert_int_equal(restore(&kit, i, NULL), 63);
        kit_check(&kit);
    }
    stats = kit_stats(&kit);
    assert_true(stats.promotions >= 32);
    assert_int_equal(stats.hits, 40);
    assert_int_equal(stats.tokens_reused, 40 * 63);
    assert_int_equal(stats.tokens_reused_by_tier[HEARTH_TIER_RAM] +
                         stats.tokens_reused_by_tier[HEARTH_TIER_SSD],
                     40 * 63);
    assert_true(stats.tokens_reused_by_tier[HEARTH_TIER_SSD] >= 32 * 63);
    kit_close(&kit);
}

static void test_no_disk_is_memory_only(void **state)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .no_disk = true};
    struct kit kit;
    struct tier *tier = open_two(&kit, false);
    int32_t tokens[64];

    (void)state;
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, &hints);
    assert_int_equal(objects_in(tier), 0);
    store(&kit, 2, 40);
    assert_int_equal(kit_stats(&kit).evictions, 1);
    assert_int_equal(restore(&kit, 1, NULL), 0);
    kit_close(&kit);
}

static void test_i98_storing_does_not_wait_for_the_tier(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    tier_fault_hold(tier, true);
    store(&kit, 1, 4); /* would hang here if it waited */
    assert_int_equal(tier_fault_waiting(tier), 4);
    assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_SSD], 0);
    assert_int_equal(restore(&kit, 1, NULL), 63); /* found at once, being in memory */
    store(&kit, 100, 40); /* what is being written cannot leave: the others do, or are refused */
    kit_check(&kit);
    tier_fault_hold(tier, false);
    kit_check(&kit);
    assert_int_equal(restore(&kit, 1, NULL), 63);
    assert_true(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_SSD] >= 4 * 64 * 256);
    kit_close(&kit);
}

static void test_i94_a_tier_that_takes_nothing_is_no_tier(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 1, true);
    store(&kit, 1, 20);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 0, false);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_FAIL), 1, true);
    store(&kit, 21, 20);
    kit_check(&kit);
    assert_int_equal(objects_in(tier), 0);
    assert_true(kit_stats(&kit).evictions > 20);
    assert_int_equal(kit_stats(&kit).demotions, 0);
    assert_int_equal(kit_stats(&kit).tier_errors,
                     20); /* those that failed; declining is no error */
    assert_int_equal(restore(&kit, 40, NULL), 63);
    assert_int_equal(restore(&kit, 1, NULL), 0);
    kit_close(&kit);
}

static void test_i94_damaged_bytes_are_a_miss_with_a_reason(void **state)
{
    static const enum tier_fault_kind kinds[] = {TIER_FAULT_PUT_CORRUPT, TIER_FAULT_PUT_SHORTEN};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct kit kit;
        struct hearth_plan_info info;
        struct tier *tier = open_two(&kit, false);
        fault_arm(tier_fault_of(tier, kinds[i]), 1, false);
        store(&kit, 1, 40);
        assert_int_equal(restore(&kit, 1, &info), 0);
        assert_int_equal(info.reason, HEARTH_REASON_UNVERIFIED);
        assert_int_equal(kit_stats(&kit).verify_failures, 1);
        assert_int_equal(kit_stats(&kit).miss_by_reason[HEARTH_REASON_UNVERIFIED], 1);
        assert_int_equal(objects_in(tier), 39); /* it is dropped there, too */
        assert_int_equal(restore(&kit, 2, NULL), 63);
        store(&kit, 1, 1); /* and can be stored again */
        assert_int_equal(restore(&kit, 1, NULL), 63);
        kit_check(&kit);
        kit_close(&kit);
    }
}

static void test_i94_lost_objects_are_a_miss_with_a_reason(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_LOSE), 1, false);
    store(&kit, 1, 40);
    assert_int_equal(restore(&kit, 1, &info), 0);
    assert_int_equal(info.reason, HEARTH_REASON_TIER_ERROR);
    assert_int_equal(kit_stats(&kit).objects, 39);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i94_an_error_costs_the_request_and_not_the_object(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    store(&kit, 1, 40);
    fault_arm(tier_fault_of(tier, TIER_FAULT_GET_FAIL), 1, false);
    assert_int_equal(restore(&kit, 1, &info), 0);
    assert_int_equal(info.reason, HEARTH_REASON_TIER_ERROR);
    assert_int_equal(kit_stats(&kit).tier_errors, 1);
    kit_check(&kit);
    assert_int_equal(restore(&kit, 1, NULL), 63);
    kit_close(&kit);
}

static void test_i94_a_slow_tier_is_not_waited_for(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    const void *data;
    int32_t tokens[64];
    struct tier *tier = open_two(&kit, false);

    (void)state;
    store(&kit, 1, 40);
    tier_fault_hold(tier, true);
    kit_tokens(tokens, 64, 1);
    hearth_lookup(kit.space, tokens, 64, NULL, &plan);
    assert_int_equal(hearth_plan_info(plan)->objects[0].tier, HEARTH_TIER_SSD);
    hearth_plan_prefetch(plan);
    assert_int_equal(tier_fault_waiting(tier), 1);
    assert_int_equal(hearth_plan_fetch(plan, 0, 5, &data), HEARTH_ERROR_TIMEOUT);
    assert_null(data);
    hearth_plan_shorten(plan, 0, HEARTH_REASON_NONE);
    assert_int_equal(hearth_plan_info(plan)->boundary, 0);
    assert_int_equal(hearth_plan_info(plan)->reason, HEARTH_REASON_TIMEOUT);
    hearth_plan_release(&plan);
    kit_check(&kit);
    tier_fault_hold(tier, false); /* it arrives after all, and is there for the next */
    kit_check(&kit);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
    assert_int_equal(kit_stats(&kit).promotions, 1);
    assert_int_equal(restore(&kit, 1, NULL), 63);
    assert_int_equal(kit_stats(&kit).promotions, 1);
    kit_close(&kit);
}

static void test_i10_a_failing_object_in_the_middle_shortens(void **state)
{
    struct kit kit;
    struct fault *fault;
    int32_t tokens[256];

    (void)state;
    struct tier *tier = open_two(&kit, false);
    kit_tokens(tokens, 256, 1);
    kit_store(&kit, tokens, 256, NULL);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM], 0);
    assert_int_equal(kit_stats(&kit).objects, 4);
    fault = tier_fault_of(tier, TIER_FAULT_GET_FAIL);
    for (long n = 1; n <= 4; n++) {
        fault_arm(fault, n, false);
        assert_int_equal(kit_restore(&kit, tokens, 256, NULL), (n - 1) * 64);
        fault_arm(fault, 0, false);
        kit_check(&kit);
        hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    }
    assert_int_equal(kit_restore(&kit, tokens, 256, NULL), 255);
    kit_close(&kit);
}

static void test_no_room_to_read_into_forgets_nothing(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    void *memory;
    struct hearth_store *pending;
    int32_t tokens[64];

    (void)state;
    open_two(&kit, false);
    store(&kit, 1, 20);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    kit_tokens(tokens, 64, 100);
    hearth_store_open(kit.space, tokens, 64, NULL, &pending);
    uint64_t left = RAM - kit_stats(&kit).bytes_budget;
    assert_int_equal(hearth_store_reserve(pending, HEARTH_OBJECT_ROWS, 0, 64, left - 8192, &memory),
                     HEARTH_OK);
    kit_tokens(tokens, 64, 1);
    hearth_lookup(kit.space, tokens, 64, NULL, &plan);
    const void *data;
    assert_int_equal(hearth_plan_fetch(plan, 0, 10, &data), HEARTH_ERROR_MISSING);
    hearth_plan_shorten(plan, 0, HEARTH_REASON_NONE);
    hearth_plan_release(&plan);
    hearth_store_close(&pending);
    assert_int_equal(restore(&kit, 1, NULL), 63);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i39_i55_clearing_reaches_what_is_being_written(void **state)
{
    static const enum hearth_tier tiers[] = {HEARTH_TIER_SSD, HEARTH_TIER_COUNT};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(tiers); i++) {
        struct kit kit;
        struct tier *tier = open_two(&kit, false);
        store(&kit, 1, 2);
        tier_fault_hold(tier, true);
        store(&kit, 3, 2);
        assert_true(hearth_clear(kit.cache, NULL, tiers[i]) > 0);
        tier_fault_hold(tier, false);
        assert_int_equal(objects_in(tier), 0);
        assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_SSD], 0);
        kit_check(&kit);
        assert_int_equal(restore(&kit, 1, NULL), tiers[i] == HEARTH_TIER_SSD ? 63 : 0);
        kit_close(&kit);
    }
}

static void test_what_is_displaced_leaves_the_tier(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);
    int32_t tokens[40];

    (void)state;
    kit_tokens(tokens, 40, 1);
    kit_store(&kit, tokens, 20, NULL);
    assert_int_equal(objects_in(tier), 2);
    kit_store(&kit, tokens, 30, NULL);
    assert_int_equal(objects_in(tier), 2); /* the block and the longer tail */
    kit_check(&kit);
    kit_close(&kit);
}

static void test_trees_of_what_is_not_in_memory_stay_small(void **state)
{
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    open_two(&kit, false);
    kit.row_bytes = 64;
    for (uint32_t i = 1; i <= 600; i++) { /* their books alone are more than the budget */
        kit_tokens(tokens, 64, i);
        assert_int_equal(kit_store(&kit, tokens, 64, NULL), 1);
        if (i % 50 == 0)
            kit_check(&kit);
    }
    kit_check(&kit);
    assert_true(kit_stats(&kit).evictions > 0); /* forgotten */
    assert_int_equal(restore(&kit, 600, NULL), 63);
    kit_close(&kit);
}

/* ---- several threads ---- */

struct storm {
    struct kit kit;
    uint64_t seed;
    uint64_t until_ns;
    unsigned number;
};

static void storm_main(void *arg)
{
    struct storm *storm = arg;
    int32_t tokens[200];
    uint64_t seed = storm->seed;

    while (clock_mono_ns(clock_real()) < storm->until_ns) {
        uint32_t length = 2 + (uint32_t)test_random_below(&seed, 198);
        kit_tokens(tokens, length, 1 + (uint32_t)test_random_below(&seed, 20));
        kit_tokens(tokens, (uint32_t)test_random_below(&seed, length), 100);
        switch (test_random_below(&seed, 12)) {
        case 0:
            hearth_clear(storm->kit.cache, storm->kit.space,
                         (enum hearth_tier)test_random_below(&seed, HEARTH_TIER_COUNT + 1));
            break;
        case 1:
            hearth_set_ram_bytes(storm->kit.cache, RAM / 2 + test_random_below(&seed, RAM));
            break;
        case 2:
            hearth_pin(storm->kit.space, tokens, length, true);
            hearth_pin(storm->kit.space, tokens, length, false);
            break;
        case 3:
        case 4:
        case 5:
        case 6:
            kit_store(&storm->kit, tokens, length, NULL);
            break;
        default:
            kit_restore(&storm->kit, tokens, length, NULL);
            break;
        }
    }
}

static void test_i43_threads_and_faults_together(void **state)
{
    enum { THREADS = 4 };
    struct storm storms[THREADS];
    struct thread threads[THREADS] = {{0}};
    uint64_t seed = test_seed();
    struct kit kit;
    struct tier *tier = open_two(&kit, true);

    (void)state;
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_CORRUPT), 5, false);
    fault_arm(tier_fault_of(tier, TIER_FAULT_GET_FAIL), 20, false);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_FAIL), 17, false);
    for (unsigned i = 0; i < THREADS; i++) {
        storms[i] = (struct storm){.kit = kit,
                                   .seed = test_random(&seed),
                                   .until_ns = clock_deadline_ns(clock_real(), 700 * NS_PER_MS),
                                   .number = i};
        assert_int_equal(thread_start(&threads[i], "storm", storm_main, &storms[i], NULL), ERR_OK);
    }
    for (unsigned i = 0; i < THREADS; i++)
        thread_join(&threads[i]);
    mover_drain(kit.cache, 1000);
    hearth_set_ram_bytes(kit.cache, RAM);
    kit_check(&kit);
    assert_true(kit_stats(&kit).hits > 0 && kit_stats(&kit).stores > 0);
    assert_int_equal(kit_stats(&kit).lookups, kit_stats(&kit).hits + kit_stats(&kit).misses);
    kit_close(&kit);
}

static void test_i27_fault_loop_over_moving(void **state)
{
    struct fault fault = {0};
    struct kit kit;
    long rounds = 0;

    (void)state;
    open_two(&kit, false);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        store(&kit, (uint32_t)(100 * rounds++), 12); /* writes and demotes */
        uint32_t reused = restore(&kit, 1, NULL);
        assert_true(reused == 0 || reused == 63);
        kit_check(&kit);
    }
    mem_set_fault(NULL);
    assert_true(rounds > 10);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_what_leaves_memory_comes_back_from_the_tier),
           TEST(test_no_disk_is_memory_only), TEST(test_i98_storing_does_not_wait_for_the_tier),
           TEST(test_i94_a_tier_that_takes_nothing_is_no_tier),
           TEST(test_i94_damaged_bytes_are_a_miss_with_a_reason),
           TEST(test_i94_lost_objects_are_a_miss_with_a_reason),
           TEST(test_i94_an_error_costs_the_request_and_not_the_object),
           TEST(test_i94_a_slow_tier_is_not_waited_for),
           TEST(test_i10_a_failing_object_in_the_middle_shortens),
           TEST(test_no_room_to_read_into_forgets_nothing),
           TEST(test_i39_i55_clearing_reaches_what_is_being_written),
           TEST(test_what_is_displaced_leaves_the_tier),
           TEST(test_trees_of_what_is_not_in_memory_stay_small),
           TEST(test_i43_threads_and_faults_together), TEST(test_i27_fault_loop_over_moving))
