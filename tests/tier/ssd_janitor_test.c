/* Unlinks that fail: counted, in the account until they are done, and done as soon as the disk lets
 * us. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define ROOM    (UINT64_C(64) << 20)
#define WAIT_NS (20 * NS_PER_S)

enum { BYTES = 20000 };

static struct file_fault fault;

static struct tier *open_faulty(const char *path, uint64_t bytes_max)
{
    struct tier_ssd_options options = ssd_kit_options(path, bytes_max);

    file_fault_init(&fault, file_sys_real());
    fault.errnum = EIO;
    options.fs = &fault.sys;
    return ssd_kit_open(&options);
}

static void drop(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    tier->ops->drop(tier, &key);
}

static void wait_until_clean(struct tier *tier)
{
    for (int i = 0; i < 2000 && ssd_kit_stats(tier).bytes_doomed > 0; i++)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(ssd_kit_stats(tier).bytes_doomed, 0);
}

static void test_failed_unlinks_are_tried_again(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier *tier = open_faulty(path, ROOM);
    struct tier_stats stats;

    (void)state;
    for (uint32_t n = 0; n < 4; n++)
        assert_true(tier_suite_put(tier, n, BYTES));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    fault.calls = UINT64_C(1) << FILE_CALL_UNLINKAT;
    fault_arm(&fault.when, 1, true);
    for (uint32_t n = 0; n < 4; n++)
        drop(tier, n);
    assert_true(tier->ops->flush(tier, WAIT_NS)); /* does not wait for ever */
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.objects, 0); /* not found, */
    assert_int_equal(ssd_kit_count_files(path, ".hobj"), 4);
    assert_true(ssd_kit_stats(tier).bytes_doomed >= 4 * BYTES); /* but counted */
    assert_true(ssd_kit_stats(tier).unlink_failures > 0);
    fault_arm(&fault.when, 0, false);
    wait_until_clean(tier);
    assert_int_equal(ssd_kit_count_files(path, ".hobj"), 0);
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* A put over a file that could not be removed replaces it, and the janitor does not remove the new
 * one. */
static void test_put_over_a_doomed_file(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier *tier = open_faulty(path, ROOM);

    (void)state;
    assert_true(tier_suite_put(tier, 1, BYTES));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    fault.calls = UINT64_C(1) << FILE_CALL_UNLINKAT;
    fault_arm(&fault.when, 1, true);
    drop(tier, 1);
    assert_true(tier_suite_put(tier, 1, BYTES / 2));
    fault_arm(&fault.when, 0, false);
    wait_until_clean(tier);
    assert_int_equal(tier_suite_get(tier, 1, BYTES / 2), TIER_OK);
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* A temporary file that cannot be removed counts until it can. */
static void test_left_temporary_files_count_and_go(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier *tier = open_faulty(path, ROOM);
    (void)state;
    fault.calls = UINT64_C(1) << FILE_CALL_UNLINKAT | UINT64_C(1) << FILE_CALL_RENAMEAT;
    fault.errnum = ENOSPC; /* makes a put end as full, not as an error */
    fault_arm(&fault.when, 1, true);
    assert_false(tier_suite_put(tier, 1, BYTES));
    assert_int_equal(ssd_kit_count_files(path, ".tmp"), 1);
    assert_true(ssd_kit_stats(tier).bytes_doomed >= BYTES);
    fault_arm(&fault.when, 0, false);
    wait_until_clean(tier);
    assert_int_equal(ssd_kit_count_files(path, ".tmp"), 0);
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* The cap holds although nothing can be removed: puts are given up, and go on when it can. */
static void test_cap_holds_without_unlinks(void **state)
{
    enum { CAP = 400000 };
    const char *path = ssd_kit_new_path();
    struct tier *tier = open_faulty(path, CAP);
    bool healed = false;

    (void)state;
    for (uint32_t n = 0; n < 10; n++)
        assert_true(tier_suite_put(tier, n, BYTES));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    fault.calls = UINT64_C(1) << FILE_CALL_UNLINKAT;
    fault_arm(&fault.when, 1, true);
    for (uint32_t n = 10; n < 40; n++) {
        (void)tier_suite_put(tier, n, BYTES);
        assert_true(ssd_kit_disk_bytes(path) <= CAP);
    }
    assert_true(ssd_kit_stats(tier).full > 0);
    fault_arm(&fault.when, 0, false);
    for (int i = 0; i < 2000 && !healed; i++) {
        healed = tier_suite_put(tier, 50, BYTES);
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
    assert_true(healed);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_failed_unlinks_are_tried_again), TEST(test_put_over_a_doomed_file),
           TEST(test_left_temporary_files_count_and_go), TEST(test_cap_holds_without_unlinks))
