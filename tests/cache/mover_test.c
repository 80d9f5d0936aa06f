/* Between memory and a slower tier: background writes, demoting, promoting, and every way in
 * which they fail. */
#include <hearth/hearth.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum { RAM = 240 * 1024, SLOW = 8 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;

/* A kit with a slower tier below it: rows of 256 bytes, so that seven prompts of 64 tokens fit
 * into memory: half of it is for metadata. */
static struct tier *open_two(struct kit *kit, bool threaded)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = SLOW});
    struct tier *tier =
        tier_fault_open(&(struct tier_fault_options){.inner = inner, .threaded = threaded});

    kit_open(kit, RAM, FULL);
    kit->row_bytes = 256;
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, tier, 1e9);
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

/* Each counted error of a tier is an event, hence a line of the log. */
static void expect_events(const struct kit *kit)
{
    struct hearth_rate rate;

    assert_int_equal(hearth_get_rate(kit->cache, HEARTH_EVENT_DROP, 60, &rate), HEARTH_OK);
    assert_int_equal(rate.count, kit_stats(kit).tier_errors);
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
    /* Those that failed; declining is no error, and is tried again. */
    assert_true(kit_stats(&kit).writes_declined >= 20);
    assert_int_equal(kit_stats(&kit).tier_errors, 20 + kit_stats(&kit).writes_retried);
    expect_events(&kit);
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
        assert_int_equal(objects_in(tier), 39); /* it is dropped there as well */
        assert_int_equal(restore(&kit, 2, NULL), 63);
        store(&kit, 1, 1); /* and can be stored again */
        assert_int_equal(restore(&kit, 1, NULL), 63);
        kit_check(&kit);
        kit_close(&kit);
    }
}

/* The tier says that it has it, and then has not. */
static void test_i94_lost_objects_are_a_miss_with_a_reason(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    store(&kit, 1, 40);
    tier_fault_set_result(tier, TIER_MISSING);
    fault_arm(tier_fault_of(tier, TIER_FAULT_GET_FAIL), 1, false);
    assert_int_equal(restore(&kit, 1, &info), 0);
    assert_int_equal(info.reason, HEARTH_REASON_TIER_ERROR);
    assert_int_equal(kit_stats(&kit).tier_errors, 1);
    expect_events(&kit);
    assert_int_equal(kit_stats(&kit).objects, 39);
    kit_check(&kit);
    kit_close(&kit);
}

/* A tier evicts without reporting it: a full disk does so all the time, and it is not an error. */
static void test_i94_what_a_tier_let_go_is_evicted(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_LOSE), 1, false);
    store(&kit, 1, 40);
    assert_int_equal(restore(&kit, 1, &info), 0);
    assert_int_equal(info.reason, HEARTH_REASON_EVICTED);
    assert_int_equal(kit_stats(&kit).tier_errors, 0);
    assert_int_equal(kit_stats(&kit).objects, 39);
    assert_int_equal(restore(&kit, 1, &info), 0); /* and is remembered to have been there */
    assert_int_equal(info.reason, HEARTH_REASON_EVICTED);
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
    expect_events(&kit);
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

static struct tier_op *cancelled_op;

static void note_cancel(struct tier *tier, struct tier_op *op)
{
    (void)tier;
    cancelled_op = op;
}

/* A read is cancelled when the last plan that needs it has skipped it. */
static void test_reads_that_no_plan_needs_are_cancelled(void **state)
{
    struct kit kit;
    struct hearth_plan *a, *b;
    const void *data;
    int32_t tokens[64];
    struct tier *tier = open_two(&kit, false);
    const struct tier_ops *real = tier->ops;
    struct tier_ops slow_cancel = *real;

    (void)state;
    store(&kit, 1, 40);
    tier_fault_hold(tier, true);
    kit_tokens(tokens, 64, 1);
    hearth_lookup(kit.space, tokens, 64, NULL, &a);
    hearth_lookup(kit.space, tokens, 64, NULL, &b);
    hearth_plan_prefetch(a);
    hearth_plan_prefetch(b);
    hearth_plan_skip(a, 0, 1);
    assert_int_equal(tier_fault_waiting(tier), 1); /* the other one needs it */
    hearth_plan_skip(b, 0, 1);
    assert_int_equal(tier_fault_waiting(tier), 0);
    kit_check(&kit);
    assert_int_equal(hearth_plan_fetch(a, 0, 0, &data), HEARTH_ERROR_TIMEOUT); /* a new read */
    assert_int_equal(tier_fault_waiting(tier), 1);
    /* It is cancelled, and another plan asks for it before the tier has ended it. */
    slow_cancel.cancel = note_cancel;
    tier->ops = &slow_cancel;
    hearth_plan_skip(a, 0, 1);
    assert_int_equal(hearth_plan_fetch(b, 0, 0, &data), HEARTH_ERROR_TIMEOUT);
    tier->ops = real;
    real->cancel(tier, cancelled_op);
    assert_int_equal(tier_fault_waiting(tier), 1); /* started again */
    tier_fault_hold(tier, false);
    assert_int_equal(hearth_plan_fetch(b, 0, 0, &data), HEARTH_OK);
    hearth_plan_release(&a);
    hearth_plan_release(&b);
    kit_check(&kit);
    assert_int_equal(kit_stats(&kit).promotions, 1);
    assert_int_equal(kit_stats(&kit).tier_errors, 0);
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
    /* Arenas have half of so little memory; this is most of it. */
    assert_int_equal(
        hearth_store_reserve(pending, HEARTH_OBJECT_ROWS, 0, 64, RAM / 2 - 8192, &memory),
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

/* The same tokens are stored again, with other bytes, while the first write is not over: the tier
 * must not have the first ones in the end. */
static void test_i101_a_write_that_is_late_does_not_take_the_place_of_a_newer_one(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);

    (void)state;
    tier_fault_hold(tier, true);
    store(&kit, 1, 1);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
    kit.row_bytes = 512;
    store(&kit, 1, 1);
    assert_int_equal(tier_fault_waiting(tier), 1); /* the second waits for the end of the first */
    kit_check(&kit);
    tier_fault_hold(tier, false);
    assert_int_equal(objects_in(tier), 1);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, 1, NULL), 63); /* compares every byte */
    kit_check(&kit);
    kit_close(&kit);
}

static bool take_meta(const struct tier_meta *meta, void *arg)
{
    *(struct tier_meta *)arg = *meta;
    return false;
}

static void no_matter(enum tier_result result, void *arg)
{
    (void)result, (void)arg;
}

/* An object is dropped while it is being read, and the same tokens are stored anew: the reader must
 * not get the bytes of the new one. */
static void test_i101_a_read_of_what_was_dropped_gives_nothing(void **state)
{
    static const unsigned char other[64 * 256] = {1};
    struct kit kit;
    struct tier *tier = open_two(&kit, false), *inner = tier_fault_inner(tier);
    struct hearth_plan *plan;
    struct tier_meta meta;
    const void *data;
    int32_t tokens[64];

    (void)state;
    store(&kit, 1, 1);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    inner->ops->each(inner, take_meta, &meta);
    kit_tokens(tokens, 64, 1);
    meta.tokens = tokens;
    meta.digest = (struct hash128){0}; /* of the new bytes, whatever they are */
    plan = kit_lookup(&kit, tokens, 64);
    tier_fault_hold(tier, true);
    hearth_plan_prefetch(plan);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
    assert_int_equal(objects_in(tier), 0);
    assert_true(
        inner->ops->put(inner, &meta, other, no_matter, NULL)); /* another thread was quick */
    tier_fault_hold(tier, false);
    assert_int_equal(hearth_plan_fetch(plan, 0, 10, &data), HEARTH_ERROR_MISSING);
    hearth_plan_shorten(plan, 0, HEARTH_REASON_NONE);
    assert_int_equal(hearth_plan_info(plan)->boundary, 0);
    hearth_plan_release(&plan);
    kit_check(&kit);
    kit_close(&kit);
}

/* ---- what a tier declines ---- */

/* As open_two, with a queue of `queue` and room for `bytes` in the tier; everything fits into
 * memory. */
static struct tier *open_small(struct kit *kit, uint32_t kinds, size_t queue, uint64_t bytes)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = bytes});
    struct tier *tier =
        tier_fault_open(&(struct tier_fault_options){.inner = inner, .queue_max = queue});

    kit_open(kit, 16 << 20, kinds);
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, tier, 1e9);
    return tier;
}

/* A tier that says at its close how many objects it had. */
struct counted {
    struct tier tier;
    struct tier_ops ops;
    struct tier *inner;
    uint64_t objects;
    bool done;
};

static struct tier *inner_of(struct tier *tier)
{
    return ((struct counted *)tier)->inner;
}

static bool counted_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                        tier_done_fn done, void *arg)
{
    return inner_of(tier)->ops->put(inner_of(tier), meta, data, done, arg);
}

static void counted_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg),
                         void *arg)
{
    inner_of(tier)->ops->each(inner_of(tier), fn, arg);
}

static void counted_stats(struct tier *tier, struct tier_stats *stats)
{
    inner_of(tier)->ops->stats(inner_of(tier), stats);
}

static void counted_close(struct tier *tier)
{
    struct counted *counted = (struct counted *)tier;

    counted->objects = objects_in(counted->inner);
    counted->done = true;
    tier_close(&counted->inner);
}

static struct tier *counting(struct counted *counted, struct tier *inner)
{
    counted->inner = inner;
    counted->ops = (struct tier_ops){.name = "counted",
                                     .put = counted_put,
                                     .each = counted_each,
                                     .stats = counted_stats,
                                     .close = counted_close};
    counted->tier.ops = &counted->ops;
    return &counted->tier;
}

static void test_i63_a_full_queue_delays_and_does_not_lose(void **state)
{
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL, 2, SLOW);

    (void)state;
    tier_fault_hold(tier, true);
    store(&kit, 1, 12);
    assert_int_equal(tier_fault_waiting(tier), 2);
    assert_int_equal(kit_stats(&kit).writes_declined, 10);
    assert_int_equal(kit_stats(&kit).writes_retried, 0); /* nothing has changed yet */
    kit_check(&kit);
    tier_fault_hold(tier, false);
    assert_true(objects_in(tier) >= 8); /* by itself */
    store(&kit, 100,
          1); /* a tier that answers within the call is not asked for all of them at once */
    assert_int_equal(objects_in(tier), 13);
    assert_true(kit_stats(&kit).writes_retried >= 10);
    assert_int_equal(kit_stats(&kit).writes_given_up, 0);
    kit_check(&kit);
    kit_close(&kit);
}

/* A full queue is no reason not to store: memory takes it and counts it, once; nothing is counted
 * for the tier (I66). */
static void test_i66_a_full_queue_keeps_nothing_out_of_memory(void **state)
{
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL, 2, SLOW);

    (void)state;
    tier_fault_hold(tier, true);
    store(&kit, 1, 2); /* fills the queue */
    struct hearth_stats before = kit_stats(&kit);
    store(&kit, 3, 4);
    struct hearth_stats after = kit_stats(&kit);
    assert_int_equal(after.writes_declined - before.writes_declined, 4);
    assert_int_equal(after.objects - before.objects, 4);
    assert_int_equal(after.bytes_by_tier[HEARTH_TIER_RAM],
                     3 * before.bytes_by_tier[HEARTH_TIER_RAM]);
    assert_int_equal(after.bytes_by_tier[HEARTH_TIER_SSD], before.bytes_by_tier[HEARTH_TIER_SSD]);
    kit_check(&kit);
    tier_fault_hold(tier, false);
    kit_close(&kit);
}

/* The newest first: of two that wait and one place, the later one gets it. */
static void test_declined_ones_come_back_by_recency(void **state)
{
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL, 1, SLOW);
    int32_t tokens[64];

    (void)state;
    tier_fault_hold(tier, true);
    store(&kit, 1, 3); /* 1 waits in the queue, 2 and 3 were declined */
    tier_fault_release(tier, 1);
    assert_int_equal(tier_fault_waiting(tier), 1);
    tier_fault_release(tier, 1);
    kit_tokens(tokens, 64, 2);
    struct hearth_stats stats = kit_stats(&kit);
    assert_int_equal(stats.bytes_by_tier[HEARTH_TIER_SSD], 2 * 64 * 64);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);           /* what is in the tier stays */
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 0); /* 2 is not there yet */
    kit_tokens(tokens, 64, 3);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
    tier_fault_hold(tier, false);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i60_room_in_the_tier_is_used_again(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL, 0, 2 << 20);

    (void)state;
    kit.row_bytes = 1024; /* 64 KiB each: the tier has room for 30 */
    struct kit other = kit_space(&kit, &model, "other", 0);
    store(&other, 1, 20);
    store(&kit, 1, 40);
    struct hearth_stats before = kit_stats(&kit);
    uint64_t held = objects_in(tier);
    assert_true(before.writes_declined > 20 && held > 24 && held < 40);
    hearth_clear(kit.cache, other.space, HEARTH_TIER_COUNT);
    assert_true(kit_stats(&kit).writes_retried > before.writes_retried);
    assert_true(objects_in(tier) > held - 20);
    kit_check(&kit);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

static void test_i108_the_list_of_declined_ones_is_bounded(void **state)
{
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL, 0, 64 << 20);

    (void)state;
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 1, true);
    store(&kit, 1, 300);
    assert_int_equal(kit_stats(&kit).writes_declined, 300);
    assert_int_equal(kit_stats(&kit).writes_given_up, 300 - CACHE_DECLINED_MAX);
    kit_check(&kit);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 0, false);
    store(&kit, 1000, 1);
    uint64_t at_once = objects_in(tier);
    /* the storing thread is not held up for all of them */
    assert_true(at_once > 1 && at_once < 20);
    store(&kit, 1001, 200);
    assert_int_equal(objects_in(tier), 201 + CACHE_DECLINED_MAX);
    kit_check(&kit);
    kit_close(&kit);
}

/* At the end there is time for all of them. */
static void test_i59_i107_closing_writes_what_was_declined(void **state)
{
    struct tier *memory = tier_ram_open(&(struct tier_ram_options){.bytes_max = 64 << 20});
    struct tier *tier = tier_fault_open(&(struct tier_fault_options){.inner = memory});
    struct kit kit;
    struct counted counted = {.done = false};

    (void)state;
    kit_open(&kit, 16 << 20, FULL);
    cache_attach_tier(kit.cache, HEARTH_TIER_SSD, counting(&counted, tier), 1e9);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 1, true);
    store(&kit, 1, 50);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 0, false);
    kit_close(&kit);
    assert_true(counted.done);
    assert_int_equal(counted.objects, 50);
}

/* Objects cleared from the tier, or while being written to it, do not come back. */
static void test_i55_a_clear_ends_what_waits_to_be_written(void **state)
{
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL, 2, SLOW);

    (void)state;
    tier_fault_hold(tier, true);
    store(&kit, 1, 6);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_SSD);
    tier_fault_hold(tier, false);
    assert_int_equal(objects_in(tier), 0);
    assert_int_equal(kit_stats(&kit).writes_retried, 0);
    assert_int_equal(kit_stats(&kit).objects, 6); /* in memory they are */
    kit_check(&kit);
    kit_close(&kit);
}

/* A snapshot that is superseded while it waits is not written any more. */
static void test_i50_what_nobody_needs_is_not_written(void **state)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .no_disk = true};
    struct hearth_store *turn;
    struct kit kit;
    struct tier *tier = open_small(&kit, FULL | HEARTH_KIND_RECURRENT, 0, SLOW);
    static int32_t tokens[2000];
    static const uint32_t ends[] = {1100, 1300, 1500};

    (void)state;
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 1, true);
    kit_tokens(tokens, 2000, 1);
    kit_store(&kit, tokens, 1600, &hints);
    hints.no_disk = false;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        hearth_store_open(kit.space, tokens, ends[i], &hints, &turn);
        assert_int_equal(kit_put(&kit, turn, HEARTH_OBJECT_SNAPSHOT, 0, ends[i], tokens),
                         HEARTH_OK);
        hearth_store_close(&turn);
        hints.resumed = ends[i];
    }
    assert_int_equal(kit_stats(&kit).writes_declined, 3);
    fault_arm(tier_fault_of(tier, TIER_FAULT_PUT_REFUSE), 0, false);
    store(&kit, 2, 1);
    assert_int_equal(objects_in(tier), 3); /* not 1100, which 1500 superseded */
    kit_close(&kit);
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

/* A plan of tokens that are in the slower tier alone, which answers when the test lets it. */
static struct hearth_plan *plan_of_held(struct kit *kit, struct tier *tier, int *calls)
{
    struct hearth_lookup_options options = {
        .struct_size = sizeof(options), .ready = count_call, .ready_arg = calls};
    struct hearth_plan *plan;
    int32_t tokens[64];

    store(kit, 1, 1);
    hearth_clear(kit->cache, NULL, HEARTH_TIER_RAM);
    tier_fault_hold(tier, true);
    kit_tokens(tokens, 64, 1);
    assert_int_equal(hearth_lookup(kit->space, tokens, 64, &options, &plan), HEARTH_OK);
    return plan;
}

static void test_a_read_that_was_too_slow_says_when_it_is_over(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);
    int calls = 0;
    struct hearth_plan *plan = plan_of_held(&kit, tier, &calls);
    const void *data;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_ERROR_TIMEOUT);
    assert_int_equal(calls, 0);
    tier_fault_hold(tier, false);
    assert_int_equal(calls, 1);
    assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_OK);
    hearth_plan_release(&plan);
    assert_int_equal(calls, 1);
    kit_close(&kit);
}

/* Memory is full of objects that are being written: a read waits for them, and is not given up. */
static void test_a_read_waits_for_memory_that_is_being_written(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);
    int calls = 0;
    struct hearth_plan *plan = plan_of_held(&kit, tier, &calls);
    const void *data;

    (void)state;
    store(&kit, 10, 12); /* more than memory has room for */
    for (int i = 0; i < 2; i++)
        assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_ERROR_TIMEOUT);
    assert_int_equal(calls, 0);
    tier_fault_hold(tier, false);
    assert_true(calls > 0);
    assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_OK);
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_a_released_plan_is_not_told(void **state)
{
    struct kit kit;
    struct tier *tier = open_two(&kit, false);
    int calls = 0;
    struct hearth_plan *plan = plan_of_held(&kit, tier, &calls);
    const void *data;

    (void)state;
    assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_ERROR_TIMEOUT);
    hearth_plan_release(&plan);
    tier_fault_hold(tier, false);
    assert_int_equal(calls, 0);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_a_read_that_was_too_slow_says_when_it_is_over),
           TEST(test_a_read_waits_for_memory_that_is_being_written),
           TEST(test_a_released_plan_is_not_told),
           TEST(test_i101_a_read_of_what_was_dropped_gives_nothing),
           TEST(test_i101_a_write_that_is_late_does_not_take_the_place_of_a_newer_one),
           TEST(test_i63_a_full_queue_delays_and_does_not_lose),
           TEST(test_i66_a_full_queue_keeps_nothing_out_of_memory),
           TEST(test_declined_ones_come_back_by_recency),
           TEST(test_i60_room_in_the_tier_is_used_again),
           TEST(test_i108_the_list_of_declined_ones_is_bounded),
           TEST(test_i59_i107_closing_writes_what_was_declined),
           TEST(test_i55_a_clear_ends_what_waits_to_be_written),
           TEST(test_i50_what_nobody_needs_is_not_written),
           TEST(test_what_leaves_memory_comes_back_from_the_tier),
           TEST(test_no_disk_is_memory_only), TEST(test_i98_storing_does_not_wait_for_the_tier),
           TEST(test_i94_a_tier_that_takes_nothing_is_no_tier),
           TEST(test_i94_damaged_bytes_are_a_miss_with_a_reason),
           TEST(test_i94_lost_objects_are_a_miss_with_a_reason),
           TEST(test_i94_what_a_tier_let_go_is_evicted),
           TEST(test_i94_an_error_costs_the_request_and_not_the_object),
           TEST(test_i94_a_slow_tier_is_not_waited_for),
           TEST(test_reads_that_no_plan_needs_are_cancelled),
           TEST(test_i10_a_failing_object_in_the_middle_shortens),
           TEST(test_no_room_to_read_into_forgets_nothing),
           TEST(test_i39_i55_clearing_reaches_what_is_being_written),
           TEST(test_what_is_displaced_leaves_the_tier),
           TEST(test_trees_of_what_is_not_in_memory_stay_small),
           TEST(test_i43_threads_and_faults_together), TEST(test_i27_fault_loop_over_moving))
