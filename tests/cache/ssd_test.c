/* The cache over the real SSD tier: restarts, deaths, a disk that is too small and one that fails.
 */
#include <hearth/hearth.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20, RAM_SMALL = 700 << 10, CONVERSATIONS = 6, TOKENS = 200 };

#define ROOM UINT64_C(64 << 20)

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* A process begins with that directory. */
static void boot(struct kit *kit, const struct tier_ssd_options *ssd, uint32_t kinds, uint64_t ram)
{
    struct hearth_options options = kit_options(ram);
    struct hearth_model model = kit_model(kinds);

    *kit = (struct kit){.tag = 1, .row_bytes = 1024, .snapshot_bytes = 16384};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, ssd_kit_open(ssd), 1e9);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
    kit_check(kit);
}

static void conversation(uint32_t i, int32_t tokens[TOKENS])
{
    kit_tokens(tokens, TOKENS, i + 10);
    kit_tokens(tokens, 70, 1); /* a common beginning */
}

static void flush(const struct kit *kit)
{
    assert_true(kit->cache->tiers[HEARTH_TIER_SSD].tier->ops->flush(
        kit->cache->tiers[HEARTH_TIER_SSD].tier, 20 * NS_PER_S));
}

static void store_all(const struct kit *kit, bool snapshots)
{
    int32_t tokens[TOKENS];

    for (uint32_t i = 0; i < CONVERSATIONS; i++) {
        conversation(i, tokens);
        for (uint32_t n = 90; n <= TOKENS; n += 55) {
            kit_store(kit, tokens, n, NULL);
            if (snapshots)
                (void)kit_snapshot(kit, tokens, n, n - 1);
            flush(kit); /* what is not on the disk yet cannot leave memory without being lost */
        }
    }
}

/* Restores every conversation, which fails the test at the first wrong byte; how many tokens were
 * reused. */
static uint32_t restore_all(const struct kit *kit)
{
    int32_t tokens[TOKENS];
    uint32_t sum = 0;

    for (uint32_t i = 0; i < CONVERSATIONS; i++) {
        conversation(i, tokens);
        sum += kit_restore(kit, tokens, TOKENS, NULL);
        kit_check(kit);
    }
    return sum;
}

/* The same until it is that much: what a slow machine delivers too late for one request is in
 * memory for the next. */
static void restore_until(const struct kit *kit, uint32_t wanted)
{
    uint32_t reused = 0;

    for (int tries = 0; reused < wanted && tries < 50; tries++)
        reused = restore_all(kit);
    assert_int_equal(reused, wanted);
}

/* I107: what was stored before is served after a restart, by the bytes of the disk. */
static void test_i107_restart(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                     HEARTH_KIND_RECURRENT, HEARTH_KIND_FULL | HEARTH_KIND_SLIDING};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
        struct kit kit;
        boot(&kit, &options, kinds[i], RAM);
        store_all(&kit, kinds[i] != FULL);
        uint32_t before = restore_all(&kit);
        uint64_t objects = kit_stats(&kit).objects;
        kit_close(&kit);
        boot(&kit, &options, kinds[i], RAM);
        assert_int_equal(kit_stats(&kit).objects, objects);
        restore_until(&kit, before);
        assert_true(kit_stats(&kit).promotions > 0);
        assert_int_equal(kit_stats(&kit).verify_failures + kit_stats(&kit).tier_errors, 0);
        kit_close(&kit);
    }
}

/* The bytes into and out of each tier, for monitoring the wear of a disk. */
static void test_bytes_in_and_out(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct hearth_stats stats;
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_tokens(tokens, TOKENS, 5);
    boot(&kit, &options, FULL, RAM);
    kit_store(&kit, tokens, TOKENS, NULL);
    flush(&kit);
    stats = kit_stats(&kit);
    uint64_t stored = stats.bytes_by_tier[HEARTH_TIER_RAM];
    assert_true(stored > 0);
    assert_int_equal(stats.bytes_written_by_tier[HEARTH_TIER_RAM], stored);
    assert_int_equal(stats.bytes_written_by_tier[HEARTH_TIER_SSD], stored);
    assert_true(stats.ns_written_by_tier[HEARTH_TIER_SSD] > 0);
    assert_int_equal(
        stats.bytes_read_by_tier[HEARTH_TIER_RAM] + stats.bytes_read_by_tier[HEARTH_TIER_SSD], 0);
    kit_close(&kit);
    boot(&kit, &options, FULL, RAM);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    stats = kit_stats(&kit);
    assert_int_equal(stats.bytes_read_by_tier[HEARTH_TIER_SSD], stored);
    assert_true(stats.ns_read_by_tier[HEARTH_TIER_SSD] > 0);
    /* nothing was computed */
    assert_int_equal(stats.bytes_written_by_tier[HEARTH_TIER_RAM], 0);
    uint64_t before = stats.bytes_read_by_tier[HEARTH_TIER_RAM];
    (void)kit_restore(&kit, tokens, TOKENS, NULL);
    stats = kit_stats(&kit);
    assert_int_equal(stats.bytes_read_by_tier[HEARTH_TIER_RAM] - before, stored);
    assert_int_equal(stats.bytes_read_by_tier[HEARTH_TIER_SSD], stored);
    kit_close(&kit);
}

/* I107, also after kill -9: everything that the tier had said was stored. Snapshots too (I51 to I53
 * as far as a cache has them). */
static void test_i107_kill(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct kit kit;
    int status;

    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        boot(&kit, &options, HYBRID, RAM);
        store_all(&kit, true);
        kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    boot(&kit, &options, HYBRID, RAM);
    restore_until(&kit, CONVERSATIONS * (TOKENS - 1));
    kit_close(&kit);
}

/* Both tiers together: what memory has no room for comes back from the disk. */
static void test_memory_is_small(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct kit kit;

    (void)state;
    boot(&kit, &options, FULL, RAM_SMALL);
    store_all(&kit, false);
    uint32_t reused = restore_all(&kit);
    assert_true(reused > CONVERSATIONS * TOKENS / 2);
    assert_true(kit_stats(&kit).promotions > 0);
    kit_close(&kit);
}

/* A disk that holds only a part: the tier evicts without reporting it. Missing objects are
 * misses; those that are there are right. */
static void test_disk_is_small(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), 1 << 20);
    struct kit kit;

    (void)state;
    for (int i = 0; i < 3; i++) {
        boot(&kit, &options, FULL, RAM_SMALL);
        store_all(&kit, false);
        assert_true(restore_all(&kit) > 0);
        assert_true(ssd_kit_stats(kit.cache->tiers[HEARTH_TIER_SSD].tier).evicted > 0);
        kit_close(&kit);
    }
}

/* I94: a disk that fails costs reuse, never a request; and heals without a restart. */
static void test_i94_failing_disk(void **state)
{
    static const int errnums[] = {EIO, ENOSPC, EROFS, EMFILE};
    struct file_fault fault;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(errnums); i++) {
        struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
        struct kit kit;
        file_fault_init(&fault, file_sys_real());
        options.fs = &fault.sys;
        boot(&kit, &options, HYBRID, RAM_SMALL);
        store_all(&kit, true);
        fault.errnum = errnums[i];
        fault_arm(&fault.when, 1, true);
        (void)restore_all(&kit);
        store_all(&kit, true);
        (void)restore_all(&kit);
        fault_arm(&fault.when, 0, false);
        store_all(&kit, true);
        assert_true(restore_all(&kit) > CONVERSATIONS * TOKENS / 2);
        kit_close(&kit);
    }
}

TEST_SUITE(TEST(test_i107_restart), TEST(test_bytes_in_and_out), TEST(test_i107_kill),
           TEST(test_memory_is_small), TEST(test_disk_is_small), TEST(test_i94_failing_disk))
