/* Unlinks that fail: counted, in the account until they are done, and done as soon as the disk lets
 * us. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/statvfs.h>

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

/* A disk that says how much of it is free. */
static _Atomic uint64_t free_bytes;
static atomic_int asked;

static int say_free(void *ctx, int fd, struct statvfs *vfs)
{
    int result = file_sys_real()->ops->fstatvfs(ctx, fd, vfs);

    vfs->f_frsize = 1;
    vfs->f_bavail = atomic_load(&free_bytes);
    atomic_fetch_add(&asked, 1);
    return result;
}

static void wait_until_asked(int times)
{
    for (int end = atomic_load(&asked) + times; atomic_load(&asked) < end;)
        clock_sleep_ns(clock_real(), NS_PER_MS);
}

/* On a full disk, files that wait for their removal are room to come: nothing is evicted for it. */
static void test_doomed_files_count_as_room_on_a_full_disk(void **state)
{
    enum { FLOOR = 1 << 30, ROUNDS = 20 };
    static struct file_ops ops;
    static const struct file_sys sys = {.ops = &ops};
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct tier_stats stats;

    (void)state;
    ops = *file_sys_real()->ops;
    ops.fstatvfs = say_free;
    atomic_store(&free_bytes, 2 * (uint64_t)FLOOR);
    file_fault_init(&fault, &sys);
    fault.errnum = EIO;
    fault.calls = UINT64_C(1) << FILE_CALL_UNLINKAT;
    options.fs = &fault.sys;
    options.free_min = FLOOR;
    options.retry_ns = NS_PER_MS;
    struct tier *tier = ssd_kit_open(&options);
    for (uint32_t n = 0; n < 4; n++)
        assert_true(tier_suite_put(tier, n, BYTES));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    fault_arm(&fault.when, 1, true);
    drop(tier, 0);
    atomic_store(&free_bytes, FLOOR - BYTES);
    wait_until_asked(ROUNDS);
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.objects, 3);
    atomic_store(&free_bytes, FLOOR - 2 * BYTES); /* now one more is needed, and no second one */
    wait_until_asked(ROUNDS);
    tier->ops->stats(tier, &stats);
    assert_int_equal(stats.objects, 2);
    fault_arm(&fault.when, 0, false);
    atomic_store(&free_bytes, 2 * (uint64_t)FLOOR);
    wait_until_clean(tier);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_failed_unlinks_are_tried_again), TEST(test_put_over_a_doomed_file),
           TEST(test_left_temporary_files_count_and_go), TEST(test_cap_holds_without_unlinks),
           TEST(test_doomed_files_count_as_room_on_a_full_disk))
