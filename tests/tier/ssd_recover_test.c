/* The start of the SSD tier: what was stored is there again in the order of its use, whatever
 * became of the catalogue; what is not ours is left alone, and what is damaged is never served. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define ROOM    (UINT64_C(64) << 20)
#define WAIT_NS (20 * NS_PER_S)

enum { BYTES = 9000, COUNT = 30 };

static struct tier_stats stats_of(struct tier *tier)
{
    struct tier_stats stats;

    tier->ops->stats(tier, &stats);
    return stats;
}

static bool has(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    return tier->ops->has(tier, &key);
}

/* A directory with COUNT objects, closed again. */
static const char *make_stored(void)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    struct tier *tier = ssd_kit_open(&options);

    for (uint32_t n = 0; n < COUNT; n++)
        assert_true(tier_suite_put(tier, n, BYTES));
    tier_close(&tier);
    return path;
}

static struct tier *open_again(const char *path)
{
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);

    return ssd_kit_open(&options);
}

static const char *catalogue_of(const char *path)
{
    static char name[700];

    snprintf(name, sizeof(name), "%s/catalogue", path);
    return name;
}

/* Opens, finds all of them, and closes. How many were known by the catalogue alone. */
static uint64_t check_all(const char *path)
{
    struct tier *tier = open_again(path);
    uint64_t used = ssd_kit_stats(tier).records_used;

    assert_int_equal(stats_of(tier).objects, COUNT);
    for (uint32_t n = 0; n < COUNT; n++)
        assert_int_equal(tier_suite_get(tier, n, BYTES), TIER_OK);
    tier_ssd_check(tier);
    tier_close(&tier);
    return used;
}

/* ---- the catalogue ---- */

static void test_catalogue_is_used_and_not_needed(void **state)
{
    const char *path = make_stored();

    (void)state;
    assert_int_equal(check_all(path), COUNT);
    assert_int_equal(unlink(catalogue_of(path)), 0);
    assert_int_equal(check_all(path), 0);     /* from the files, */
    assert_int_equal(check_all(path), COUNT); /* and it was written anew */
    assert_int_equal(truncate(catalogue_of(path), 10000), 0);
    uint64_t used = check_all(path);
    assert_true(used > 0 && used < COUNT);
    assert_int_equal(check_all(path), COUNT);
    assert_int_equal(truncate(catalogue_of(path), 0), 0);
    assert_int_equal(check_all(path), 0);
    assert_int_equal(unlink(catalogue_of(path)), 0);
    assert_int_equal(mkdir(catalogue_of(path), 0700), 0); /* never fatal */
    assert_int_equal(check_all(path), 0);
}

static void test_damaged_catalogue(void **state)
{
    const char *path = make_stored();
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 40; round++) {
        unsigned char bytes[64];
        struct stat st;
        assert_int_equal(stat(catalogue_of(path), &st), 0);
        off_t at = (off_t)test_random_below(&seed, (uint64_t)st.st_size);
        hash_random(bytes, sizeof(bytes));
        int fd = open(catalogue_of(path), O_WRONLY);
        assert_true(pwrite(fd, bytes, 1 + test_random_below(&seed, 64), at) > 0);
        close(fd);
        assert_true(check_all(path) < COUNT || at < 16);
        assert_int_equal(unlink(catalogue_of(path)), 0);
        check_all(path);
    }
}

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, from, 1 << 24, &data, &len, NULL));
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
    mem_free(data);
}

/* An old catalogue beside new files: what it knows and what it does not, both are found; what is
 * gone is not shown. */
static void test_stale_catalogue(void **state)
{
    const char *path = make_stored();
    char old[800];

    (void)state;
    snprintf(old, sizeof(old), "%s/old", path);
    copy_file(catalogue_of(path), old);
    struct tier *tier = open_again(path);
    for (uint32_t n = 0; n < 10; n++) {
        struct hash256 key = tier_suite_key(n);
        tier->ops->drop(tier, &key);
        assert_true(tier_suite_put(tier, 100 + n, BYTES));
    }
    assert_true(tier_suite_put(tier, 20, 555)); /* replaced, and of another size */
    tier_close(&tier);
    copy_file(old, catalogue_of(path));
    tier = open_again(path);
    assert_int_equal(ssd_kit_stats(tier).records_used, COUNT - 11);
    assert_int_equal(stats_of(tier).objects, COUNT);
    for (uint32_t n = 0; n < COUNT; n++)
        assert_int_equal(has(tier, n), n >= 10);
    assert_int_equal(tier_suite_get(tier, 20, 555), TIER_OK);
    assert_int_equal(tier_suite_get(tier, 105, BYTES), TIER_OK);
    tier_close(&tier);
}

/* A same-sized file that the catalogue has an old header of: the file's own header decides. */
static void test_catalogue_is_not_believed_about_bytes(void **state)
{
    const char *path = make_stored();
    char object[1024], other[1024];

    (void)state;
    ssd_kit_object_path(path, 1, object);
    ssd_kit_object_path(path, 2, other);
    copy_file(other, object); /* the record of 1 still fits its name and size */
    struct tier *tier = open_again(path);
    assert_true(has(tier, 1));
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_DAMAGED);
    assert_false(has(tier, 1));
    assert_int_equal(tier_suite_get(tier, 2, BYTES), TIER_OK);
    tier_close(&tier);
}

static bool collect_key(const struct tier_meta *meta, void *arg)
{
    uint32_t **next = arg;

    *(*next)++ = meta->begin / 256;
    return true;
}

/* The order of use survives, with the catalogue and without it. */
/* A put confirms that its bytes are safe: a file of an earlier process that was not read yet is no
 * reason to confirm it. */
static void test_put_over_unread_damage_is_written(void **state)
{
    const char *path = make_stored();

    (void)state;
    ssd_kit_flip(path, 3, -1);
    struct tier *tier = open_again(path);
    assert_true(tier_suite_put(tier, 3, BYTES));
    assert_int_equal(tier_suite_get(tier, 3, BYTES), TIER_OK);
    assert_int_equal(tier_suite_get(tier, 4, BYTES), TIER_OK);
    assert_true(tier_suite_put(tier, 4, BYTES)); /* read, and right: not written again */
    assert_true(tier_suite_put(tier, 3, BYTES)); /* written by us: likewise */
    assert_int_equal(ssd_kit_stats(tier).same, 2);
    tier_close(&tier);
}

static void test_recency_survives(void **state)
{
    struct clock *clock = clock_create_fake(1, 2000000 * NS_PER_S);
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    uint32_t order[8] = {0}, *next = order;

    (void)state;
    options.clock = clock;
    struct tier *tier = ssd_kit_open(&options);
    for (uint32_t n = 0; n < 6; n++)
        assert_true(tier_suite_put(tier, n, BYTES)); /* used at 1000 + n ns */
    const uint32_t uses[] = {4, 0, 2};
    for (size_t i = 0; i < COUNT_OF(uses); i++) {
        clock_fake_advance(clock, 100 * NS_PER_S);
        assert_int_equal(tier_suite_get(tier, uses[i], BYTES), TIER_OK);
    }
    tier_close(&tier);
    for (int without = 0; without < 2; without++) {
        const uint32_t expected[] = {1, 3, 5, 4, 0, 2};
        next = order;
        if (without)
            assert_int_equal(unlink(catalogue_of(path)), 0);
        tier = ssd_kit_open(&options);
        tier->ops->each(tier, collect_key, &next);
        assert_int_equal(next - order, 6);
        assert_memory_equal(order, expected, sizeof(expected));
        tier_close(&tier);
    }
    options.bytes_max = 140000; /* room for less: of the oldest, the deepest leave first */
    tier = ssd_kit_open(&options);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_true(tier_suite_put(tier, 10, BYTES));
    assert_true(has(tier, 2) && has(tier, 10) && !has(tier, 3)); /* of 1 and 3 the deeper */
    tier_close(&tier);
    clock_destroy_fake(&clock);
}

/* ---- processes that die ---- */

/* Writes objects until it is killed at the n-th call; tells the number of each that was stored. */
static void child(const char *path, int out, long n)
{
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    struct file_fault fault;

    file_fault_init(&fault, file_sys_real());
    fault.kind = FILE_FAULT_KILL;
    options.fs = &fault.sys;
    fault_arm(&fault.when, n, false);
    struct tier *tier = ssd_kit_open(&options);
    for (uint32_t key = 0; key < 12; key++) {
        if (key == 8) {
            struct hash256 first = tier_suite_key(0);
            tier->ops->drop(tier, &first);
        }
        if (!tier_suite_put(tier, key, BYTES) || write(out, &key, sizeof(key)) != sizeof(key))
            _exit(1);
    }
    tier_close(&tier);
    _exit(0);
}

/* I107: killed at any call, what was stored is served; what was half written is not, and leaves
 * nothing behind. */
static void test_i107_kill_at_every_call(void **state)
{
    long stride = 7; /* of about 400 calls; the long campaign takes each */
    int killed = 0;

    (void)state;
    for (long n = 1;; n += stride) {
        const char *path = ssd_kit_new_path();
        bool stored[12] = {false};
        uint32_t key;
        int pipes[2], status;
        assert_int_equal(pipe(pipes), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child(path, pipes[1], n);
        close(pipes[1]);
        while (read(pipes[0], &key, sizeof(key)) == sizeof(key))
            stored[key] = true;
        close(pipes[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        assert_int_equal(WTERMSIG(status), SIGKILL);
        killed++;
        struct tier *tier = open_again(path);
        for (uint32_t i = 0; i < 12; i++) {
            enum tier_result result = tier_suite_get(tier, i, BYTES);
            assert_true(result == TIER_OK || (result == TIER_MISSING && (!stored[i] || i == 0)));
        }
        assert_int_equal(ssd_kit_count_files(path, ".tmp"), 0);
        assert_true(tier_suite_put(tier, 0, BYTES)); /* and it goes on */
        assert_int_equal(stats_of(tier).damaged, 0);
        tier_close(&tier);
    }
    assert_true(killed > 10);
}

/* ---- who else is there ---- */

static void test_second_process_is_refused_or_reads_only(void **state)
{
    const char *path = make_stored();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    struct tier *first = ssd_kit_open(&options), *second;
    struct errinfo info;
    uint64_t before = ssd_kit_disk_bytes(path);

    (void)state;
    assert_err(tier_ssd_open(&second, &options, &info), ERR_BUSY);
    assert_null(second);
    options.read_only = true;
    second = ssd_kit_open(&options);
    for (uint32_t n = 0; n < COUNT; n++)
        assert_int_equal(tier_suite_get(second, n, BYTES), TIER_OK);
    assert_false(tier_suite_put(second, 100, BYTES));
    struct hash256 key = tier_suite_key(1);
    second->ops->drop(second, &key); /* forgotten here, */
    assert_false(has(second, 1));
    assert_int_equal(tier_suite_get(first, 1, BYTES), TIER_OK); /* and nowhere else */
    first->ops->drop(first, &key);
    key = tier_suite_key(2);
    first->ops->drop(first, &key);
    assert_true(first->ops->flush(first, WAIT_NS));
    assert_int_equal(tier_suite_get(second, 2, BYTES), TIER_MISSING); /* gone under it */
    assert_true(ssd_kit_disk_bytes(path) <= before);
    tier_close(&second);
    assert_true(tier_suite_put(first, 100, BYTES));
    tier_close(&first);
}

static void test_files_of_another_installation_are_left_alone(void **state)
{
    const char *path = make_stored();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);

    (void)state;
    options.key = hash256_of("another", 7);
    struct tier *tier = ssd_kit_open(&options);
    assert_int_equal(stats_of(tier).objects, 0);
    assert_int_equal(ssd_kit_stats(tier).foreign, COUNT);
    assert_true(ssd_kit_stats(tier).bytes_foreign >= COUNT * BYTES); /* they count */
    for (uint32_t n = 0; n < COUNT; n++)
        assert_int_equal(tier_suite_get(tier, n, BYTES), TIER_MISSING);
    assert_true(tier_suite_put(tier, 100, BYTES));
    tier_ssd_check(tier);
    tier_close(&tier);
    tier = open_again(path); /* by their owner they are found again */
    assert_int_equal(stats_of(tier).objects, COUNT);
    assert_int_equal(tier_suite_get(tier, 3, BYTES), TIER_OK);
    tier_close(&tier);
    options.bytes_max = 600000; /* until the room is needed */
    tier = ssd_kit_open(&options);
    for (uint32_t n = 200; n < 220; n++)
        assert_true(tier_suite_put(tier, n, BYTES));
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_true(ssd_kit_stats(tier).evicted > 0 && has(tier, 219));
    assert_true(ssd_kit_disk_bytes(path) <= 600000);
    tier_close(&tier);
}

/* Everything that a directory can be full of. */
static void test_odd_and_damaged_entries_are_survived(void **state)
{
    const char *path = make_stored();
    char object[1024], other[1100];
    struct stat st;

    (void)state;
    unlink(catalogue_of(path));
    ssd_kit_flip(path, 0, 100); /* header */
    ssd_kit_flip(path, 1, -5);  /* payload: found when it is read */
    ssd_kit_object_path(path, 2, object);
    assert_int_equal(truncate(object, 5000), 0);
    ssd_kit_object_path(path, 3, object);
    assert_int_equal(truncate(object, 0), 0);
    ssd_kit_object_path(path, 4, object);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(symlink("/dev/zero", object), 0);
    ssd_kit_object_path(path, 5, object);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(mkfifo(object, 0600), 0);
    ssd_kit_object_path(path, 6, object);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(mkdir(object, 0700), 0);
    ssd_kit_object_path(path, 7, object);
    assert_int_equal(truncate(object, (off_t)1 << 42), 0); /* sparse */
    ssd_kit_object_path(path, 8, object);
    ssd_kit_object_path(path, 9, other);
    assert_int_equal(rename(object, other), 0); /* 8 under the name of 9 */
    ssd_kit_object_path(path, 10, object);
    snprintf(other, sizeof(other), "%s.copy", object);
    assert_int_equal(link(object, other), 0); /* a hard link under another name */
    struct tier *tier = open_again(path);
    assert_int_equal(ssd_kit_stats(tier).odd, 4); /* 4, 5, 6, the copy */
    assert_int_equal(ssd_kit_stats(tier).foreign, 0);
    assert_int_equal(stats_of(tier).objects, COUNT - 9);
    for (uint32_t n = 0; n < COUNT; n++) {
        enum tier_result result = tier_suite_get(tier, n, BYTES);
        assert_int_equal(result, n == 1 ? TIER_DAMAGED : n < 10 ? TIER_MISSING : TIER_OK);
    }
    assert_true(tier->ops->flush(tier, WAIT_NS));
    assert_int_equal(ssd_kit_stats(tier).quarantined, 6); /* 0 to 3, 7, 9 */
    for (uint32_t n = 0; n < 10; n++)
        if (n != 6) /* nothing takes the place of a directory that is not empty or not ours */
            assert_true(tier_suite_put(tier, n, BYTES));
    ssd_kit_object_path(path, 4, object);
    assert_int_equal(lstat(object, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    tier_ssd_check(tier);
    tier_close(&tier);
}

/* ---- a directory that cannot be read ---- */

/* S3: nothing is stored in a directory before it was listed; the listing is retried
 * automatically. */
static void test_unreadable_directory_is_looked_at_again(void **state)
{
    const char *path = make_stored();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    struct file_fault fault;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.calls = UINT64_C(1) << FILE_CALL_LIST;
    fault.errnum = EIO;
    fault_arm(&fault.when, 4, true); /* those before are tmp, quarantine and the root */
    options.fs = &fault.sys;
    struct tier *tier = ssd_kit_open(&options);
    assert_int_equal(stats_of(tier).objects, 0);
    assert_false(tier_suite_put(tier, 100, BYTES));
    assert_int_equal(ssd_kit_stats(tier).refused_mode, 1);
    fault_arm(&fault.when, 0, false);
    for (int i = 0; i < 200 && stats_of(tier).objects < COUNT; i++)
        clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    assert_int_equal(stats_of(tier).objects, COUNT);
    assert_int_equal(tier_suite_get(tier, 5, BYTES), TIER_OK);
    for (int i = 0; i < 200 && !tier_suite_put(tier, 100, BYTES); i++)
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    assert_true(has(tier, 100));
    tier_close(&tier);
}

/* What is cleared stays cleared: files that could not be listed at that time are removed when they
 * turn up. */
static void test_unreadable_directory_is_cleared_as_well(void **state)
{
    static const uint32_t cases[] = {1, 40}; /* spaces; 40 are more than are remembered */

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const uint32_t cleared = cases[i];
        const char *path = make_stored();
        struct tier_ssd_options options = ssd_kit_options(path, ROOM);
        struct file_fault fault;
        file_fault_init(&fault, file_sys_real());
        fault.calls = UINT64_C(1) << FILE_CALL_LIST;
        fault.errnum = EIO;
        fault_arm(&fault.when, 4, true);
        options.fs = &fault.sys;
        struct tier *tier = ssd_kit_open(&options);
        for (uint32_t n = 0; n < cleared; n++) {
            struct tier_meta meta = tier_suite_meta(n, BYTES); /* each has its own space */
            tier->ops->drop_space(tier, &meta.space);
        }
        fault_arm(&fault.when, 0, false);
        for (int wait = 0; wait < 200 && !tier_suite_put(tier, COUNT, BYTES); wait++)
            clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
        assert_true(has(tier, COUNT)); /* put after the clear */
        assert_false(has(tier, 0));
        if (cleared == 1)
            assert_int_equal(stats_of(tier).objects, COUNT);
        else
            assert_false(has(tier, MIN(cleared, COUNT) - 1));
        tier_close(&tier);
        tier = open_again(path);
        assert_false(has(tier, 0));
        assert_true(has(tier, COUNT));
        tier_ssd_check(tier);
        tier_close(&tier);
    }
}

static void test_directory_above_a_new_cap_shrinks(void **state)
{
    const char *path = make_stored();
    struct tier_ssd_options options = ssd_kit_options(path, 400000);
    struct tier *tier = ssd_kit_open(&options);

    (void)state;
    for (int i = 0; i < 400 && ssd_kit_disk_bytes(path) > 400000; i++)
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    assert_true(ssd_kit_disk_bytes(path) <= 400000);
    assert_true(has(tier, COUNT - 1) && has(tier, 0) && stats_of(tier).objects < COUNT);
    tier_close(&tier);
}

/* The catalogue does not grow for ever with what is gone. */
static void test_catalogue_is_tidied(void **state)
{
    const char *path = make_stored();
    struct tier *tier = open_again(path);
    struct stat before, after;

    (void)state;
    assert_int_equal(stat(catalogue_of(path), &before), 0);
    for (uint32_t n = 0; n < COUNT - 4; n++) {
        struct hash256 key = tier_suite_key(n);
        tier->ops->drop(tier, &key);
    }
    tier_close(&tier);
    assert_int_equal(stat(catalogue_of(path), &after), 0);
    assert_true(after.st_size < before.st_size / 3);
    tier = open_again(path);
    assert_int_equal(ssd_kit_stats(tier).records_used, 4);
    tier_close(&tier);
}

TEST_SUITE(TEST(test_catalogue_is_used_and_not_needed), TEST(test_damaged_catalogue),
           TEST(test_stale_catalogue), TEST(test_catalogue_is_not_believed_about_bytes),
           TEST(test_put_over_unread_damage_is_written), TEST(test_recency_survives),
           TEST(test_i107_kill_at_every_call), TEST(test_second_process_is_refused_or_reads_only),
           TEST(test_files_of_another_installation_are_left_alone),
           TEST(test_odd_and_damaged_entries_are_survived),
           TEST(test_unreadable_directory_is_looked_at_again),
           TEST(test_unreadable_directory_is_cleared_as_well),
           TEST(test_directory_above_a_new_cap_shrinks), TEST(test_catalogue_is_tidied))
