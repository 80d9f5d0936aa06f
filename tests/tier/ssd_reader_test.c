/* Gets of the SSD tier: nothing that is not what was stored is ever delivered, and damage costs one
 * object. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define ROOM    (UINT64_C(64) << 20)
#define WAIT_NS (20 * NS_PER_S)

enum { BYTES = 50000, LARGE = (3 << 20) + 777 };

static bool has(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    return tier->ops->has(tier, &key);
}

/* A get into memory that O_DIRECT can, or cannot, read into. */
static enum tier_result get_at(struct tier *tier, uint32_t n, void *dst, uint64_t capacity)
{
    struct hash256 key = tier_suite_key(n);
    struct tier_answer answer;

    tier_answer_init(&answer);
    tier->ops->get(tier, &key, dst, capacity, tier_answer_done, &answer, NULL);
    enum tier_result result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

static const uint64_t sizes[] = {1,     511,     4095,          4096,           4097,
                                 65536, 1 << 20, (1 << 20) + 1, (3 << 20) + 777};

/* A disk whose page cache is always empty. */
static ssize_t is_not_cached(void *ctx, int fd, void *buf, size_t len, off_t offset)
{
    (void)ctx;
    (void)fd;
    (void)buf;
    (void)len;
    (void)offset;
    return -EAGAIN;
}

static const struct file_sys *uncached(void)
{
    static struct file_ops ops;
    static const struct file_sys sys = {.ops = &ops};

    ops = *file_sys_real()->ops;
    ops.pread_cached = is_not_cached;
    return &sys;
}

static void test_cached_direct_and_buffered_give_the_same(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
        options.no_direct = way == 2;
        if (way == 1)
            options.fs = uncached();
        struct tier *tier = ssd_kit_open(&options);
        for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
            unsigned char *dst = mem_try_alloc_aligned(4096, sizes[i] + 4096 + 64);
            unsigned char *expected = mem_alloc(sizes[i]);
            assert_true(tier_suite_put(tier, i, sizes[i]));
            tier_suite_fill(expected, sizes[i], i, 0);
            for (size_t shift = 0; shift < 2; shift++) { /* aligned, and not */
                memset(dst, 0xA5, sizes[i] + 4096);
                assert_int_equal(get_at(tier, i, dst + shift, sizes[i] + 10), TIER_OK);
                assert_memory_equal(dst + shift, expected, sizes[i]);
                assert_int_equal(dst[shift + sizes[i]], 0xA5); /* not a byte more */
            }
            mem_free(expected);
            mem_free(dst);
        }
        tier_close(&tier);
    }
}

/* A disk whose page cache has everything, or everything but what begins at `gone`. */
static off_t gone;
static atomic_int cached_reads, disk_reads;

static ssize_t is_cached(void *ctx, int fd, void *buf, size_t len, off_t offset)
{
    (void)ctx;
    if (gone > 0 && offset >= gone && len > 1)
        return -EAGAIN;
    atomic_fetch_add(&cached_reads, 1);
    return file_sys_real()->ops->pread(NULL, fd, buf, len, offset);
}

static ssize_t count_disk(void *ctx, int fd, void *buf, size_t len, off_t offset)
{
    (void)ctx;
    atomic_fetch_add(&disk_reads, offset > 0 && len >= 4096);
    return file_sys_real()->ops->pread(NULL, fd, buf, len, offset);
}

static struct tier *open_cached(void)
{
    static struct file_ops ops;
    static const struct file_sys sys = {.ops = &ops};
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);

    ops = *file_sys_real()->ops;
    ops.pread_cached = is_cached;
    ops.pread = count_disk;
    options.fs = &sys;
    struct tier *tier = ssd_kit_open(&options);
    assert_true(tier_suite_put(tier, 1, LARGE));
    gone = 0;
    atomic_store(&cached_reads, 0);
    atomic_store(&disk_reads, 0);
    return tier;
}

static void test_the_page_cache_is_used(void **state)
{
    unsigned char *dst = mem_try_alloc_aligned(4096, LARGE + 4096);
    struct hash256 key = tier_suite_key(1);
    struct tier *tier = open_cached();
    struct tier_answer answer;

    (void)state;
    assert_int_equal(get_at(tier, 1, dst, LARGE), TIER_OK);
    assert_true(atomic_load(&cached_reads) > 1);
    assert_int_equal(atomic_load(&disk_reads), 0);
    /* verifying asks the disk */
    int before = atomic_load(&cached_reads);
    tier_answer_init(&answer);
    tier->ops->verify(tier, &key, tier_answer_done, &answer);
    assert_int_equal(tier_answer_wait(&answer), TIER_OK);
    tier_answer_fini(&answer);
    assert_int_equal(atomic_load(&cached_reads), before);
    assert_true(atomic_load(&disk_reads) > 0);
    tier_close(&tier);
    mem_free(dst);
}

static void test_a_page_that_is_gone_is_read(void **state)
{
    unsigned char *dst = mem_try_alloc_aligned(4096, LARGE + 4096), *expected = mem_alloc(LARGE);
    struct tier *tier = open_cached();

    (void)state;
    tier_suite_fill(expected, LARGE, 1, 0);
    for (gone = 4096; gone < LARGE; gone += 512 * 1024) {
        memset(dst, 0xA5, LARGE);
        assert_int_equal(get_at(tier, 1, dst, LARGE), TIER_OK);
        assert_memory_equal(dst, expected, LARGE);
    }
    assert_true(atomic_load(&disk_reads) > 0);
    mem_free(expected);
    mem_free(dst);
    tier_close(&tier);
}

/* Short, interrupted and refused direct reads are read again through the page cache. */
static void test_bad_direct_reads_are_tried_again(void **state)
{
    static const struct {
        enum file_fault_kind kind;
        int errnum;
    } faults[] = {{FILE_FAULT_SHORT, 0}, {FILE_FAULT_ERROR, EINVAL}, {FILE_FAULT_ERROR, EINTR}};
    struct file_fault fault;
    unsigned char *dst = mem_try_alloc_aligned(4096, 1 << 20);

    (void)state;
    file_fault_init(&fault, uncached());
    fault.calls = UINT64_C(1) << FILE_CALL_PREAD; /* before threads of the tier look at it */
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    options.fs = &fault.sys;
    struct tier *tier = ssd_kit_open(&options);
    assert_true(tier_suite_put(tier, 1, BYTES));
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        fault.kind = faults[i].kind;
        fault.errnum = faults[i].errnum;
        for (long n = 1; n <= 3; n++) {
            fault_arm(&fault.when, n, false);
            assert_int_equal(get_at(tier, 1, dst, BYTES), TIER_OK);
        }
        fault_arm(&fault.when, 0, false);
    }
    mem_free(dst);
    tier_close(&tier);
}

/* I94: an error of the disk says nothing about the object. */
static void test_i94_error_keeps_the_object(void **state)
{
    struct file_fault fault;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    options.fs = &fault.sys;
    struct tier *tier = ssd_kit_open(&options);
    assert_true(tier_suite_put(tier, 1, BYTES));
    fault.errnum = EIO;
    fault_arm(&fault.when, 1, true);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_ERROR);
    fault_arm(&fault.when, 0, false);
    assert_true(has(tier, 1));
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
    tier_close(&tier);
}

/* ---- damage ---- */

typedef void (*harm_fn)(const char *dir, const char *object);

static void cut(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(truncate(object, 4096 + BYTES / 2), 0);
}

static void cut_to_nothing(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(truncate(object, 0), 0);
}

static void lengthen(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(truncate(object, 4096 + BYTES + 1), 0);
}

static void make_huge(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(truncate(object, (off_t)1 << 40), 0); /* all holes */
}

static void zero_page(const char *dir, const char *object)
{
    static const char zeros[4096];
    int fd = open(object, O_WRONLY);

    (void)dir;
    assert_int_equal(pwrite(fd, zeros, sizeof(zeros), 3 * 4096), sizeof(zeros));
    close(fd);
}

static void zero_all(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(truncate(object, 0), 0);
    assert_int_equal(truncate(object, 4096 + BYTES), 0);
}

static void exchange(const char *dir, const char *object)
{
    char other[1024];

    ssd_kit_object_path(dir, 2, other);
    assert_int_equal(rename(other, object), 0);
}

static void link_hard(const char *dir, const char *object)
{
    char other[1024];

    ssd_kit_object_path(dir, 2, other);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(link(other, object), 0);
}

static void link_soft(const char *dir, const char *object)
{
    char other[1024];

    ssd_kit_object_path(dir, 2, other);
    assert_int_equal(unlink(object), 0);
    assert_int_equal(symlink(other, object), 0);
}

static void make_pipe(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(unlink(object), 0);
    assert_int_equal(mkfifo(object, 0600), 0);
}

static void make_dir(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(unlink(object), 0);
    assert_int_equal(mkdir(object, 0700), 0);
}

static void remove_it(const char *dir, const char *object)
{
    (void)dir;
    assert_int_equal(unlink(object), 0);
}

static const struct {
    const char *name;
    harm_fn harm;
    enum tier_result result;
} harms[] = {
    {"cut", cut, TIER_DAMAGED},
    {"empty", cut_to_nothing, TIER_DAMAGED},
    {"longer", lengthen, TIER_DAMAGED},
    {"huge", make_huge, TIER_DAMAGED},
    {"a page of zeros", zero_page, TIER_DAMAGED},
    {"zeros", zero_all, TIER_DAMAGED},
    {"another object", exchange, TIER_DAMAGED},
    {"a hard link to another", link_hard, TIER_DAMAGED},
    {"a symbolic link", link_soft, TIER_DAMAGED},
    {"a pipe", make_pipe, TIER_DAMAGED},
    {"a directory", make_dir, TIER_DAMAGED},
    {"gone", remove_it, TIER_MISSING},
};

/* Whatever happens to a file under a running tier: its object is lost, once, and can be stored
 * anew. */
static void test_harmed_files_cost_their_object_only(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(harms); i++) {
        const char *path = ssd_kit_new_path();
        struct tier_ssd_options options = ssd_kit_options(path, ROOM);
        struct tier *tier = ssd_kit_open(&options);
        char object[1024];
        for (uint32_t n = 0; n < 3; n++)
            assert_true(tier_suite_put(tier, n, BYTES));
        ssd_kit_object_path(path, 1, object);
        harms[i].harm(path, object);
        enum tier_result result = tier_suite_get(tier, 1, BYTES);
        if (result != harms[i].result)
            fail_msg("%s: %s", harms[i].name, tier_result_name(result));
        assert_false(has(tier, 1));
        assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_MISSING);
        assert_int_equal(tier_suite_get(tier, 0, BYTES), TIER_OK);
        assert_true(tier->ops->flush(tier, WAIT_NS));
        assert_true(tier_suite_put(tier, 1, BYTES));
        assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
        assert_true(tier->ops->flush(tier, WAIT_NS));
        tier_ssd_check(tier);
        tier_close(&tier);
    }
}

/* Every byte of the header counts, and so does every byte of the payload. */
static void test_single_bits(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    struct tier *tier = ssd_kit_open(&options);
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 120; round++) {
        int64_t at = (int64_t)test_random_below(&seed, round % 2 ? 4096 : 4096 + 3000);
        assert_true(tier_suite_put(tier, 1, 3000));
        ssd_kit_flip(path, 1, at);
        enum tier_result result = tier_suite_get(tier, 1, 3000);
        if (result != TIER_DAMAGED &&
            result != TIER_MISSING) /* the latter: looks like another installation's */
            fail_msg("bit at %lld: %s", (long long)at, tier_result_name(result));
        assert_false(has(tier, 1));
        assert_true(tier->ops->flush(tier, WAIT_NS));
    }
    tier_close(&tier);
}

static void test_payload_mac(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);

    (void)state;
    options.payload_mac = true;
    struct tier *tier = ssd_kit_open(&options);
    assert_true(tier_suite_put(tier, 1, BYTES));
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
    tier_close(&tier);
    options.payload_mac =
        false; /* such objects may be read without the option; not the other way round */
    tier = ssd_kit_open(&options);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
    assert_true(tier_suite_put(tier, 2, BYTES));
    tier_close(&tier);
    options.payload_mac = true;
    tier = ssd_kit_open(&options);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
    assert_false(has(tier, 2));
    assert_int_equal(ssd_kit_stats(tier).foreign, 1);
    tier_close(&tier);
}

/* ---- cancelling ---- */

/* Reads wait here. */
struct gate {
    struct file_sys sys;
    struct file_ops ops;
    struct lock lock;
    struct cond changed;
    bool closed;
    int waiting;
};

static ssize_t gate_pread(void *ctx, int fd, void *buf, size_t len, off_t offset)
{
    struct gate *gate = ctx;

    lock_enter(&gate->lock);
    gate->waiting++;
    cond_broadcast(&gate->changed);
    while (gate->closed)
        cond_wait(&gate->changed, &gate->lock);
    gate->waiting--;
    lock_leave(&gate->lock);
    return file_sys_real()->ops->pread(NULL, fd, buf, len, offset);
}

static void gate_set(struct gate *gate, bool closed)
{
    lock_enter(&gate->lock);
    gate->closed = closed;
    cond_broadcast(&gate->changed);
    lock_leave(&gate->lock);
}

static void gate_init(struct gate *gate)
{
    *gate = (struct gate){.ops = *file_sys_real()->ops};
    gate->ops.pread = gate_pread;
    gate->sys = (struct file_sys){.ops = &gate->ops, .ctx = gate};
    lock_init(&gate->lock, "gate", LOCK_RANK_TEST_HIGH);
    cond_init(&gate->changed);
}

static void gate_wait(struct gate *gate)
{
    lock_enter(&gate->lock);
    while (gate->waiting == 0)
        cond_wait(&gate->changed, &gate->lock);
    lock_leave(&gate->lock);
}

static void gate_fini(struct gate *gate)
{
    cond_fini(&gate->changed);
    lock_fini(&gate->lock);
}

/* What is being read ends after the piece; its memory is not touched after that. */
static void test_running_read_is_cancelled(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct hash256 key = tier_suite_key(1);
    unsigned char *dst = mem_alloc(4 << 20);
    struct tier_answer answer;
    struct tier_op *op;
    static struct gate gate; /* threads of the tier use it after a failure */

    (void)state;
    gate_init(&gate);
    options.fs = &gate.sys;
    struct tier *tier = ssd_kit_open(&options);
    assert_true(tier_suite_put(tier, 1, 4 << 20));
    gate_set(&gate, true);
    tier_answer_init(&answer);
    tier->ops->get(tier, &key, dst, 4 << 20, tier_answer_done, &answer, &op);
    gate_wait(&gate);
    tier->ops->cancel(tier, op);
    gate_set(&gate, false);
    assert_int_equal(tier_answer_wait(&answer), TIER_CANCELLED);
    tier_answer_fini(&answer);
    mem_free(dst); /* at once: the sanitizers see a later access */
    assert_true(has(tier, 1));
    assert_int_equal(tier_suite_get(tier, 1, 4 << 20), TIER_OK);
    tier_close(&tier);
    gate_fini(&gate);
}

/* What a read finds out about a file says nothing about the one that replaced it meanwhile. */
static void test_a_replaced_file_is_not_blamed(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    struct hash256 key = tier_suite_key(1);
    unsigned char *dst = mem_alloc(BYTES), *expected = mem_alloc(BYTES);
    struct tier_answer answer;
    static struct gate gate; /* threads of the tier use it after a failure */

    (void)state;
    gate_init(&gate);
    options.fs = &gate.sys;
    options.no_direct = true;
    struct tier *tier = ssd_kit_open(&options);
    assert_int_equal(ssd_kit_put(tier, 1, 0, BYTES), TIER_OK);
    ssd_kit_flip(path, 1, -1);
    gate_set(&gate, true);
    tier_answer_init(&answer);
    tier->ops->get(tier, &key, dst, BYTES, tier_answer_done, &answer, NULL);
    gate_wait(&gate);
    assert_int_equal(ssd_kit_put(tier, 1, 1, BYTES), TIER_OK);
    gate_set(&gate, false);
    assert_int_equal(tier_answer_wait(&answer), TIER_DAMAGED);
    assert_true(has(tier, 1));
    assert_int_equal(ssd_kit_get(tier, 1, dst, BYTES), TIER_OK);
    tier_suite_fill(expected, BYTES, 1, 1);
    assert_memory_equal(dst, expected, BYTES);
    tier_ssd_check(tier);
    tier_answer_fini(&answer);
    mem_free(expected);
    mem_free(dst);
    tier_close(&tier);
    gate_fini(&gate);
}

/* A use is written to the file, but not each one. */
static void test_uses_are_stamped_now_and_then(void **state)
{
    struct clock *clock = clock_create_fake(1, 1000000 * NS_PER_S);
    const char *path = ssd_kit_new_path();
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);
    char object[1024];
    struct stat st;

    (void)state;
    options.clock = clock;
    options.retry_ns =
        3600 * NS_PER_S; /* the janitor stamps as well, and wakes by the real clock */
    struct tier *tier = ssd_kit_open(&options);
    assert_true(tier_suite_put(tier, 1, BYTES));
    for (int i = 0; i < 50; i++) {
        assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
        clock_fake_advance(clock, NS_PER_S);
    }
    assert_int_equal(ssd_kit_stats(tier).stamps, 1);
    clock_fake_advance(clock, 100 * NS_PER_S);
    assert_int_equal(tier_suite_get(tier, 1, BYTES), TIER_OK);
    /* and perhaps the janitor's, of the use before it, when the clock had advanced */
    assert_uint_in_range(ssd_kit_stats(tier).stamps, 2, 3);
    ssd_kit_object_path(path, 1, object);
    assert_int_equal(stat(object, &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 1000150);
    tier_close(&tier);
    clock_destroy_fake(&clock);
}

TEST_SUITE(TEST(test_cached_direct_and_buffered_give_the_same), TEST(test_the_page_cache_is_used),
           TEST(test_a_page_that_is_gone_is_read), TEST(test_bad_direct_reads_are_tried_again),
           TEST(test_i94_error_keeps_the_object), TEST(test_harmed_files_cost_their_object_only),
           TEST(test_single_bits), TEST(test_payload_mac), TEST(test_running_read_is_cancelled),
           TEST(test_a_replaced_file_is_not_blamed), TEST(test_uses_are_stamped_now_and_then))
