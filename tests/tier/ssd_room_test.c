/* Room that must come back: what a long life, damage and failed unlinks leave behind may not fill
 * the SSD tier for good. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define WAIT_NS (20 * NS_PER_S)

enum { BYTES = 9000, CAP = 260000, LONG_LIFE = 1200 };

static struct file_fault fault;

static struct tier *open_faulty(const char *path, uint64_t retry_ns)
{
    struct tier_ssd_options options = ssd_kit_options(path, CAP);

    file_fault_init(&fault, file_sys_real());
    fault.errnum = EIO;
    fault.calls = UINT64_C(1) << FILE_CALL_UNLINKAT;
    options.fs = &fault.sys;
    options.retry_ns = retry_ns;
    return ssd_kit_open(&options);
}

/* What the tier accounts for is at least what lies there: each byte is charged. And not much more:
 * each is given back, but for directories, which some file systems count as nothing. */
static void flush_and_check(struct tier *tier, const char *path)
{
    struct tier_stats stats;

    assert_true(tier->ops->flush(tier, WAIT_NS));
    uint64_t there = ssd_kit_disk_bytes(path);
    assert_true(there <= CAP);
    tier->ops->stats(tier, &stats);
    struct tier_ssd_stats ssd = ssd_kit_stats(tier);
    uint64_t counted = stats.bytes + ssd.bytes_foreign + ssd.bytes_overhead + ssd.bytes_doomed;
    assert_true(counted >= there && counted < there + CAP / 2);
    tier_ssd_check(tier);
}

/* I60, I93: records of deleted objects leave the catalogue while the process runs; otherwise they
 * would fill the cap, and nothing would be stored until the next start. */
static void test_i60_a_long_life_does_not_fill_the_catalogue(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    for (uint32_t i = 0; i < LONG_LIFE; i++) {
        assert_int_equal(ssd_kit_put(tier, i % 7, i, BYTES), TIER_OK);
        if (i % 100 == 0)
            flush_and_check(tier, path);
    }
    flush_and_check(tier, path);
    tier_close(&tier);
    tier = ssd_kit_open(&options); /* and it is still of use */
    assert_int_equal(ssd_kit_stats(tier).recovered, 7);
    assert_int_equal(ssd_kit_stats(tier).records_used, 7);
    tier_close(&tier);
}

/* Files that are kept for diagnosis must not displace useful objects. */
static void test_i93_damaged_files_leave_room(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    for (uint32_t n = 0; n < 40; n++) {
        assert_int_equal(ssd_kit_put(tier, n, 0, BYTES), TIER_OK);
        ssd_kit_flip(path, n, -1);
        assert_int_equal(tier_suite_get(tier, n, BYTES), TIER_DAMAGED);
        flush_and_check(tier, path);
    }
    assert_true(ssd_kit_stats(tier).quarantined > 0);
    tier_close(&tier);
}

/* The same key, damaged again and again, lies in quarantine once and counts once. */
static void test_i93_one_key_is_quarantined_once(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ssd_kit_put(tier, 1, 0, BYTES), TIER_OK);
        ssd_kit_flip(path, 1, -1);
        assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_DAMAGED);
        flush_and_check(tier, path);
    }
    assert_int_equal(ssd_kit_stats(tier).quarantined, 1);
    tier_close(&tier);
}

/* What was live counts on as what is kept for diagnosis, until it is removed. */
static void test_i93_a_quarantined_file_counts(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    assert_int_equal(ssd_kit_put(tier, 1, 0, BYTES), TIER_OK);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    uint64_t before = ssd_kit_stats(tier).bytes_overhead;
    ssd_kit_flip(path, 1, -1);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_DAMAGED);
    flush_and_check(tier, path);
    assert_int_equal(ssd_kit_stats(tier).bytes_doomed, 0);
    assert_true(ssd_kit_stats(tier).bytes_overhead >= before + BYTES);
    tier_close(&tier);
}

/* A quarantine that an earlier process filled under a larger cap is emptied. */
static void test_old_quarantine_above_its_share_goes(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    char name[700];

    (void)state;
    struct tier *tier = ssd_kit_open(&options);
    tier_close(&tier);
    for (int i = 0; i < 4; i++) {
        static const char bytes[CAP / 4];
        snprintf(name, sizeof(name), "%s/quarantine/old%d", path, i);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
        close(fd);
    }
    tier = ssd_kit_open(&options);
    assert_int_equal(ssd_kit_put(tier, 1, 0, BYTES), TIER_OK);
    flush_and_check(tier, path);
    tier_close(&tier);
}

/* I93: a temporary file of an earlier process that cannot be removed at the start counts, and goes
 * as soon as it can. */
static void test_i93_old_temporary_file_counts(void **state)
{
    static const char bytes[100000];
    const char *path = ssd_kit_new_path();
    char name[700];

    (void)state;
    struct tier *tier = open_faulty(path, 5 * NS_PER_MS);
    tier_close(&tier);
    snprintf(name, sizeof(name), "%s/tmp/0123456789abcdef.tmp", path);
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    close(fd);
    fault_arm(&fault.when, 1, true);
    struct tier_ssd_options options = ssd_kit_options(path, CAP);
    options.fs = &fault.sys;
    tier = ssd_kit_open(&options);
    for (uint32_t n = 0; n < 20; n++) {
        (void)ssd_kit_put(tier, n, 0, BYTES);
        flush_and_check(tier, path);
    }
    fault_arm(&fault.when, 0, false);
    for (int i = 0; i < 2000 && access(name, F_OK) == 0; i++)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_not_equal(access(name, F_OK), 0);
    assert_int_equal(ssd_kit_put(tier, 50, 0, BYTES), TIER_OK);
    flush_and_check(tier, path);
    tier_close(&tier);
}

/* I55: one file that cannot be removed at the end does not keep the others, which would come back
 * with the next start. */
static void test_i55_close_removes_what_it_can(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier *tier = open_faulty(path, 3600 * NS_PER_S);

    (void)state;
    for (uint32_t n = 0; n < 4; n++)
        assert_int_equal(ssd_kit_put(tier, n, 0, BYTES), TIER_OK);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    fault_arm(&fault.when, 1, true);
    for (uint32_t n = 0; n < 4; n++)
        ssd_kit_drop(tier, n);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_int_equal(ssd_kit_count_files(path, ".hobj"), 4);
    fault_arm(&fault.when, 1, false);
    tier_close(&tier);
    assert_int_equal(ssd_kit_count_files(path, ".hobj"), 1);
}

/* I55: what is dropped while its directory cannot be read does not come back when it can. */
static void test_i55_drop_in_a_directory_that_cannot_be_read(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, CAP);

    (void)state;
    struct tier *tier = ssd_kit_open(&options);
    assert_int_equal(ssd_kit_put(tier, 1, 0, BYTES), TIER_OK);
    assert_int_equal(ssd_kit_put(tier, 2, 0, BYTES), TIER_OK);
    tier_close(&tier);
    file_fault_init(&fault, file_sys_real());
    fault.errnum = EIO;
    fault.calls = UINT64_C(1) << FILE_CALL_LIST;
    options.fs = &fault.sys;
    fault_arm(&fault.when, 3, true); /* tmp and quarantine are listed before */
    tier = ssd_kit_open(&options);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_MISSING);
    ssd_kit_drop(tier, 1);
    fault_arm(&fault.when, 0, false);
    for (int i = 0; i < 4000 && tier_suite_get(tier, 2, BYTES) != TIER_OK; i++)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(tier_suite_get(tier, 2, BYTES), TIER_OK);
    for (int i = 0; i < 4000 && ssd_kit_put(tier, 3, 0, BYTES) != TIER_OK; i++) /* all is read */
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_MISSING);
    flush_and_check(tier, path);
    tier_close(&tier);
    options.fs = NULL;
    tier = ssd_kit_open(&options);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_MISSING);
    assert_int_equal(tier_suite_get(tier, 2, BYTES), TIER_OK);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_i60_a_long_life_does_not_fill_the_catalogue),
           TEST(test_i93_damaged_files_leave_room), TEST(test_i93_one_key_is_quarantined_once),
           TEST(test_i93_a_quarantined_file_counts), TEST(test_old_quarantine_above_its_share_goes),
           TEST(test_i93_old_temporary_file_counts), TEST(test_i55_close_removes_what_it_can),
           TEST(test_i55_drop_in_a_directory_that_cannot_be_read))
