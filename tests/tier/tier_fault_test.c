#include "support/tier_fault.h"

#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/tier_suite.h"
#include "support/tier_ram.h"
#include "support/test.h"

enum { ROOM = 8 << 20, BYTES = 10000 };

static struct tier *open_ram(uint64_t bytes_max)
{
    return tier_ram_open(
        &(struct tier_ram_options){.bytes_max = bytes_max, .arena_bytes = 256 * 1024});
}

/* ---- without faults it is a tier as any other: in the call, on its thread, and around one that
 * has a thread ---- */

static struct tier *open_plain(uint64_t bytes_max)
{
    return tier_fault_open(&(struct tier_fault_options){.inner = open_ram(bytes_max)});
}

static struct tier *open_threaded(uint64_t bytes_max)
{
    return tier_fault_open(
        &(struct tier_fault_options){.inner = open_ram(bytes_max), .threaded = true});
}

static struct tier *open_nested(uint64_t bytes_max)
{
    return tier_fault_open(&(struct tier_fault_options){.inner = open_threaded(bytes_max)});
}

static void damage_ram(struct tier *tier, const struct hash256 *key)
{
    uint64_t bytes;
    const void *data = tier_ram_borrow(tier, key, &bytes);

    assert_non_null(data);
    ((unsigned char *)(uintptr_t)data)[bytes - 1] ^= 0x80;
    tier_ram_return(tier, data);
}

static void damage(struct tier *tier, const struct hash256 *key)
{
    damage_ram(tier_fault_inner(tier), key);
}

static void damage_nested(struct tier *tier, const struct hash256 *key)
{
    damage(tier_fault_inner(tier), key);
}

static void hold_nested(struct tier *tier, bool hold)
{
    tier_fault_hold(tier_fault_inner(tier), hold);
}

static const struct tier_factory plain = {
    .name = "fault", .open = open_plain, .damage = damage, .hold = tier_fault_hold};
static const struct tier_factory threaded = {
    .name = "fault, threaded", .open = open_threaded, .damage = damage, .hold = tier_fault_hold};
static const struct tier_factory nested = {
    .name = "fault, nested", .open = open_nested, .damage = damage_nested, .hold = hold_nested};

TIER_SUITE_DEFINE(plain, &plain)
TIER_SUITE_DEFINE(threaded, &threaded)
TIER_SUITE_DEFINE(nested, &nested)

/* ---- faults ---- */

/* Callbacks of one operation; they come within the calls of these tests. */
struct call {
    int done;
    enum tier_result result;
};

static void on_done(enum tier_result result, void *arg)
{
    struct call *call = arg;

    call->done++;
    call->result = result;
}

static unsigned char data[BYTES], dst[BYTES];

static bool put(struct tier *tier, uint32_t n, struct call *call)
{
    struct tier_meta meta = tier_suite_meta(n, BYTES);

    *call = (struct call){0};
    tier_suite_fill(data, BYTES, n, 0);
    return tier->ops->put(tier, &meta, data, on_done, call);
}

static struct tier_op *get(struct tier *tier, uint32_t n, struct call *call)
{
    struct hash256 key = tier_suite_key(n);
    struct tier_op *op;

    *call = (struct call){0};
    tier_suite_fill(data, BYTES, n, 0);
    memset(dst, 0xA5, BYTES);
    tier->ops->get(tier, &key, dst, BYTES, on_done, call, &op);
    return op;
}

static void arm(struct tier *tier, enum tier_fault_kind kind, long n)
{
    fault_arm(tier_fault_of(tier, kind), n, false);
}

static void assert_done(const struct call *call, int done, enum tier_result result)
{
    assert_int_equal(call->done, done);
    assert_string_equal(tier_result_name(call->result), tier_result_name(result));
}

static bool has(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    return tier->ops->has(tier, &key);
}

static void test_faults_have_names_of_their_own(void **state)
{
    (void)state;
    for (int a = 0; a < TIER_FAULT_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(tier_fault_name((enum tier_fault_kind)a),
                                    tier_fault_name((enum tier_fault_kind)b));
    assert_string_equal(tier_fault_name(TIER_FAULT_COUNT), "unknown");
}

static void test_puts_are_refused_failed_and_lost(void **state)
{
    struct tier *tier = open_plain(ROOM);
    struct tier_stats stats;
    struct call call;

    (void)state;
    arm(tier, TIER_FAULT_PUT_REFUSE, 2);
    assert_true(put(tier, 1, &call));
    assert_false(put(tier, 2, &call));
    assert_int_equal(call.done, 0);
    assert_true(put(tier, 3, &call));
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.refused, 1);
    for (int result = TIER_FULL; result < TIER_RESULT_COUNT; result++) {
        arm(tier, TIER_FAULT_PUT_FAIL, 1);
        tier_fault_set_result(tier, (enum tier_result)result);
        assert_true(put(tier, 4, &call));
        assert_done(&call, 1, (enum tier_result)result);
        assert_false(has(tier, 4));
    }
    arm(tier, TIER_FAULT_PUT_LOSE, 1);
    assert_true(put(tier, 5, &call));
    assert_done(&call, 1, TIER_OK);
    assert_false(has(tier, 5));
    assert_true(put(tier, 5, &call));
    assert_true(has(tier, 5));
    tier_close(&tier);
}

/* What was damaged on the way in is found by the tier below, for every size. */
static void test_i94_damaged_puts_are_found_by_get(void **state)
{
    static const uint64_t sizes[] = {1, 2, 3, 100, 4096, 100000};
    struct tier *tier = open_plain(ROOM);

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        for (int shorten = 0; shorten < 2; shorten++) {
            arm(tier, shorten ? TIER_FAULT_PUT_SHORTEN : TIER_FAULT_PUT_CORRUPT, 1);
            assert_true(tier_suite_put(tier, i, sizes[i]));
            assert_int_equal(tier_suite_get(tier, i, sizes[i]), TIER_DAMAGED);
            assert_true(tier_suite_put(tier, i, sizes[i])); /* repaired */
            assert_int_equal(tier_suite_get(tier, i, sizes[i]), TIER_OK);
        }
    }
    tier_close(&tier);
}

static void test_gets_fail_and_lie(void **state)
{
    struct tier *tier = open_plain(ROOM);
    struct call call;

    (void)state;
    assert_true(put(tier, 1, &call));
    for (int result = 0; result < TIER_RESULT_COUNT; result++) {
        arm(tier, TIER_FAULT_GET_FAIL, 1);
        tier_fault_set_result(tier, (enum tier_result)result);
        get(tier, 1, &call);
        assert_done(&call, 1, (enum tier_result)result);
        assert_int_equal(dst[0], 0xA5);
    }
    arm(tier, TIER_FAULT_GET_CORRUPT, 1);
    get(tier, 1, &call);
    assert_done(&call, 1, TIER_OK);
    assert_memory_not_equal(dst, data, BYTES);
    assert_memory_equal(dst + 1, data + 1, BYTES - 1);
    arm(tier, TIER_FAULT_GET_SHORTEN, 1);
    get(tier, 1, &call);
    assert_done(&call, 1, TIER_OK);
    assert_memory_equal(dst, data, BYTES / 2);
    for (int i = BYTES / 2; i < BYTES; i++)
        assert_int_equal(dst[i], 0);
    get(tier, 1, &call); /* the object itself is as it was */
    assert_done(&call, 1, TIER_OK);
    assert_memory_equal(dst, data, BYTES);
    arm(tier, TIER_FAULT_GET_CORRUPT, 1);
    get(tier, 2, &call);
    assert_done(&call, 1, TIER_MISSING);
    tier_close(&tier);
}

static void test_done_twice_and_flush_fails(void **state)
{
    struct tier *tier = open_plain(ROOM);
    struct call call;

    (void)state;
    arm(tier, TIER_FAULT_DONE_TWICE, 1);
    assert_true(put(tier, 1, &call));
    assert_done(&call, 2, TIER_OK);
    arm(tier, TIER_FAULT_DONE_TWICE, 1);
    get(tier, 1, &call);
    assert_done(&call, 2, TIER_OK);
    arm(tier, TIER_FAULT_FLUSH_FAIL, 1);
    assert_false(tier->ops->flush(tier, NS_PER_S));
    assert_true(tier->ops->flush(tier, NS_PER_S));
    tier_close(&tier);
}

/* A cancel that comes too late, or is ignored: the bytes arrive after all. */
static void test_late_done_ignores_cancel(void **state)
{
    struct tier *tier = open_plain(ROOM);
    struct call late, cancelled;

    (void)state;
    assert_true(put(tier, 1, &late));
    tier_fault_hold(tier, true);
    arm(tier, TIER_FAULT_DONE_LATE, 1);
    struct tier_op *late_op = get(tier, 1, &late);
    struct tier_op *op = get(tier, 1, &cancelled);
    tier->ops->cancel(tier, late_op);
    tier->ops->cancel(tier, op);
    assert_int_equal(late.done, 0);
    assert_done(&cancelled, 1, TIER_CANCELLED);
    assert_int_equal(tier_fault_waiting(tier), 1);
    tier_fault_hold(tier, false);
    assert_done(&late, 1, TIER_OK);
    assert_memory_equal(dst, data, BYTES);
    tier_close(&tier);
}

/* A tier whose only get is cancelled before its ticket is known above. */
struct slow_tier {
    struct tier tier;
    struct tier *above;
    struct tier_op *op; /* as returned to the caller above */
    tier_done_fn done;
    void *arg;
    int cancels;
};

static void slow_get(struct tier *tier, const struct hash256 *key, void *to, uint64_t capacity,
                     tier_done_fn done, void *arg, struct tier_op **op)
{
    struct slow_tier *slow = CONTAINER_OF(tier, struct slow_tier, tier);

    (void)key;
    (void)to;
    (void)capacity;
    slow->done = done;
    slow->arg = arg;
    slow->above->ops->cancel(slow->above, slow->op);
    *op = (struct tier_op *)(uintptr_t)77;
}

static void slow_cancel(struct tier *tier, struct tier_op *op)
{
    struct slow_tier *slow = CONTAINER_OF(tier, struct slow_tier, tier);

    assert_int_equal((uintptr_t)op, 77);
    slow->cancels++;
    slow->done(TIER_CANCELLED, slow->arg);
}

static void slow_close(struct tier *tier)
{
    (void)tier;
}

static void test_cancel_before_the_ticket_is_not_lost(void **state)
{
    static const struct tier_ops ops = {
        .get = slow_get, .cancel = slow_cancel, .close = slow_close};
    struct slow_tier slow = {.tier.ops = &ops};
    struct hash256 key = tier_suite_key(1);
    struct call call = {0};

    (void)state;
    slow.above = tier_fault_open(&(struct tier_fault_options){.inner = &slow.tier});
    slow.above->ops->get(slow.above, &key, dst, BYTES, on_done, &call, &slow.op);
    assert_int_equal(slow.cancels, 1);
    assert_done(&call, 1, TIER_CANCELLED);
    tier_close(&slow.above);
}

/* ---- waiting ---- */

static void test_release_lets_some_go(void **state)
{
    struct tier *tier = open_plain(ROOM);
    struct call calls[4];
    struct tier_stats stats;

    (void)state;
    tier_fault_hold(tier, true);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(put(tier, 7, &calls[i])); /* the same bytes: they must stay until done */
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.queue_length, 4);
    tier_fault_release(tier, 1);
    assert_done(&calls[0], 1, TIER_OK);
    assert_int_equal(calls[1].done, 0);
    tier_fault_release(tier, 2);
    assert_done(&calls[2], 1, TIER_OK);
    assert_int_equal(calls[3].done, 0);
    tier_fault_hold(tier, false);
    assert_done(&calls[3], 1, TIER_OK);
    assert_int_equal(tier_fault_waiting(tier), 0);
    tier_close(&tier);
}

static void test_delay_follows_the_clock(void **state)
{
    struct clock *clock = clock_create_fake(1000, 1000);
    struct tier *tier = tier_fault_open(&(struct tier_fault_options){
        .inner = open_ram(ROOM), .delay_ns = NS_PER_S, .clock = clock});
    struct call first, second;

    (void)state;
    assert_true(put(tier, 1, &first));
    clock_fake_advance(clock, NS_PER_S / 2);
    tier_fault_tick(tier);
    assert_int_equal(first.done, 0);
    get(tier, 1, &second);
    clock_fake_advance(clock, NS_PER_S / 2);
    tier_fault_tick(tier);
    assert_done(&first, 1, TIER_OK);
    assert_int_equal(second.done, 0);
    clock_fake_advance(clock, NS_PER_S / 2);
    tier_fault_tick(tier);
    assert_done(&second, 1, TIER_OK);
    tier_close(&tier);
    clock_destroy_fake(&clock);
}

/* With a thread the real clock needs no tick. tier_suite_put waits for the callback, at most for a
 * while. */
static void test_delay_on_the_thread(void **state)
{
    struct tier *tier = tier_fault_open(&(struct tier_fault_options){
        .inner = open_ram(ROOM), .threaded = true, .delay_ns = 5 * NS_PER_MS});
    uint64_t start = clock_mono_ns(clock_real());

    (void)state;
    assert_true(tier_suite_put(tier, 1, 100));
    assert_true(clock_mono_ns(clock_real()) - start >= 5 * NS_PER_MS);
    assert_int_equal(tier_suite_get(tier, 1, 100), TIER_OK);
    assert_true(clock_mono_ns(clock_real()) - start >= 10 * NS_PER_MS);
    tier_close(&tier);
}

static void test_queue_is_bounded(void **state)
{
    struct tier *tier =
        tier_fault_open(&(struct tier_fault_options){.inner = open_ram(ROOM), .queue_max = 2});
    struct tier_stats stats;
    struct call calls[4];

    (void)state;
    tier_fault_hold(tier, true);
    assert_true(put(tier, 1, &calls[0]));
    get(tier, 1, &calls[1]);
    assert_false(put(tier, 1, &calls[2]));
    assert_int_equal(calls[2].done, 0);
    get(tier, 1, &calls[3]);
    assert_done(&calls[3], 1, TIER_ERROR);
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.refused, 1);
    tier_fault_hold(tier, false);
    assert_done(&calls[0], 1, TIER_OK);
    assert_done(&calls[1], 1, TIER_OK);
    tier_close(&tier);
}

/* What is taken and then does not fit is TIER_FULL. */
static void test_late_refusal_is_full(void **state)
{
    struct tier *tier = open_plain(64 * 1024);
    struct call calls[12];
    int full = 0;

    (void)state;
    tier_fault_hold(tier, true);
    for (uint32_t i = 0; i < COUNT_OF(calls); i++)
        assert_true(put(tier, i, &calls[i]));
    tier_fault_hold(tier, false);
    for (uint32_t i = 0; i < COUNT_OF(calls); i++) {
        assert_int_equal(calls[i].done, 1);
        assert_int_equal(has(tier, i), calls[i].result == TIER_OK);
        full += calls[i].result == TIER_FULL;
    }
    assert_true(full > 0 && full < (int)COUNT_OF(calls));
    tier_close(&tier);
}

TEST_SUITE(TIER_SUITE_TESTS(plain, &plain) TIER_SUITE_TESTS(threaded, &threaded)
               TIER_SUITE_TESTS(nested, &nested) TEST(test_faults_have_names_of_their_own),
           TEST(test_puts_are_refused_failed_and_lost),
           TEST(test_i94_damaged_puts_are_found_by_get), TEST(test_gets_fail_and_lie),
           TEST(test_done_twice_and_flush_fails), TEST(test_late_done_ignores_cancel),
           TEST(test_cancel_before_the_ticket_is_not_lost), TEST(test_release_lets_some_go),
           TEST(test_delay_follows_the_clock), TEST(test_delay_on_the_thread),
           TEST(test_queue_is_bounded), TEST(test_late_refusal_is_full))
