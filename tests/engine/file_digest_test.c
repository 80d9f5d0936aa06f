/*
 * Digests of files that change, that are remembered, and that cannot be read. What counts is the
 * number of bytes that were read, never time.
 */
#include "engine/file_digest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/test.h"

enum { SMALL = 100000, LARGE = 40 << 20, CHUNK = 16 << 20, LINKS = 1100, MEMORY_ENTRIES = 1024 };

static const char *at(const char *name)
{
    static char paths[16][1024];
    static int next;

    char *path = paths[next++ % 16];
    snprintf(path, sizeof(paths[0]), "%s/%s", test_dir(), name);
    return path;
}

static int open_rw(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    assert_true(fd >= 0);
    return fd;
}

/* Random bytes at its begin, a hole behind them. */
static void make(const char *path, uint64_t bytes)
{
    unsigned char data[4096];
    uint64_t random = 7;
    int fd = open_rw(path);

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)test_random(&random);
    assert_ok(file_write_at(file_sys_real(), fd, data, sizeof(data), 0, NULL));
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    close(fd);
}

static void put_byte(const char *path, uint64_t offset, char byte)
{
    int fd = open_rw(path);

    assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
    close(fd);
}

/* ---- tasks ---- */

struct result {
    enum err err;
    uint64_t bytes; /* that had to be read */
    struct hash256 digest;
};

/* An hour later: every file is old enough to be remembered. */
static struct clock *later(void)
{
    return clock_create_fake(1, clock_wall_ns(clock_real()) + 3600 * NS_PER_S);
}

static struct result run_on(const struct file_sys *fs, const char *path, const char *memory,
                            struct clock *clock)
{
    struct file_digest_options options = {.fs = fs, .memory_dir = memory, .clock = clock};
    struct file_digest_part part = {path, open(path, O_RDONLY)};
    struct result result = {0};
    struct file_digest *task;

    assert_true(part.fd >= 0);
    result.err = file_digest_start(&task, &options, &part, 1, NULL);
    if (result.err == ERR_OK) {
        result.bytes = file_digest_bytes(task);
        result.err = file_digest_finish(&task, &result.digest, NULL);
    }
    assert_null(task);
    close(part.fd);
    return result;
}

static struct result digest(const char *path, const char *memory)
{
    struct clock *clock = later();
    struct result result = run_on(file_sys_real(), path, memory, clock);

    clock_destroy_fake(&clock);
    assert_ok(result.err);
    return result;
}

static void test_every_chunk_counts(void **state)
{
    static const uint64_t places[] = {0, CHUNK - 1, CHUNK, 2 * CHUNK - 1, 2 * CHUNK, LARGE - 1};
    char path[1024];

    (void)state;
    snprintf(path, sizeof(path), "%s", at("x"));
    make(path, LARGE);
    struct hash256 seen[COUNT_OF(places) + 2] = {digest(path, NULL).digest};
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        put_byte(path, places[i], (char)0xa5);
        struct result result = digest(path, NULL);
        assert_int_equal(result.bytes, LARGE);
        seen[i + 1] = result.digest;
    }
    assert_int_equal(truncate(path, LARGE - 1), 0);
    seen[COUNT_OF(seen) - 1] = digest(path, NULL).digest;
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        for (size_t k = 0; k < i; k++)
            assert_false(hash256_eq(&seen[i], &seen[k]));
}

static void test_a_second_time_is_remembered(void **state)
{
    const char *path = at("x"), *copy = at("y");

    (void)state;
    make(path, SMALL);
    make(copy, SMALL);
    struct result first = digest(path, at("memory/deep"));
    assert_int_equal(first.bytes, SMALL);
    struct result second = digest(path, at("memory/deep"));
    assert_int_equal(second.bytes, 0);
    assert_true(hash256_eq(&first.digest, &second.digest));
    struct result third = digest(copy, at("memory/deep"));
    assert_int_equal(third.bytes, SMALL); /* another file, the same content */
    assert_true(hash256_eq(&first.digest, &third.digest));
    assert_int_equal(digest(path, at("memory/deep")).bytes, 0);
    assert_int_equal(digest(copy, at("memory/deep")).bytes, 0);
}

/* By the machine's own clock, the file has changed just now. */
static void test_a_fresh_file_is_not_remembered(void **state)
{
    const char *path = at("x");

    (void)state;
    make(path, SMALL);
    assert_ok(run_on(file_sys_real(), path, test_dir(), clock_real()).err);
    assert_int_equal(digest(path, test_dir()).bytes, SMALL);
}

/* Other bytes, the size and the modification time of before. */
static void test_a_set_time_does_not_deceive(void **state)
{
    const char *path = at("x");
    struct stat before, now;

    (void)state;
    make(path, SMALL);
    assert_int_equal(stat(path, &before), 0);
    struct result first = digest(path, test_dir());
    do { /* the change time has the resolution of the kernel's tick */
        put_byte(path, SMALL / 2, 'x');
        assert_int_equal(
            utimensat(AT_FDCWD, path, (struct timespec[]){before.st_atim, before.st_mtim}, 0), 0);
        assert_int_equal(stat(path, &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    struct result second = digest(path, test_dir());
    assert_int_equal(second.bytes, SMALL);
    assert_false(hash256_eq(&first.digest, &second.digest));
}

static void test_a_damaged_memory_is_none(void **state)
{
    const char *path = at("x");
    char memory[1024], *data;
    size_t len;

    (void)state;
    snprintf(memory, sizeof(memory), "%s", at("digests"));
    make(path, SMALL);
    struct result truth = digest(path, test_dir());
    assert_ok(file_read_all(file_sys_real(), AT_FDCWD, memory, 1 << 20, &data, &len, NULL));
    for (size_t i = 0; i < 2 * len; i += 5) {
        if (i < len)
            put_byte(memory, i, (char)(data[i] ^ 1));
        else
            assert_int_equal(truncate(memory, (off_t)(i - len)), 0);
        struct result result = digest(path, test_dir()); /* writes it anew */
        assert_int_equal(result.bytes, SMALL);
        assert_true(hash256_eq(&result.digest, &truth.digest));
    }
    assert_int_equal(digest(path, test_dir()).bytes, 0);
    mem_free(data);
}

static void test_a_memory_that_cannot_be(void **state)
{
    const char *path = at("x"), *file = at("y");

    (void)state;
    make(path, SMALL);
    make(file, 0);
    assert_int_equal(digest(path, file).bytes, SMALL);
    assert_int_equal(digest(path, file).bytes, SMALL);
    assert_int_equal(digest(path, NULL).bytes, SMALL);
}

/* Many files at once, which are one file by many paths. */
static void test_the_memory_is_bounded(void **state)
{
    struct clock *clock = later();
    struct file_digest_options options = {
        .fs = file_sys_real(), .memory_dir = test_dir(), .clock = clock};
    struct file_digest_part *parts = mem_alloc_array(LINKS, sizeof(*parts));
    struct hash256 *digests = mem_alloc_array(LINKS, sizeof(*digests));
    struct file_digest *task;
    struct stat st;

    (void)state;
    make(at("x"), 4096);
    int fd = open_rw(at("x"));
    for (size_t i = 0; i < LINKS; i++) {
        char path[LINKS + 1024];
        size_t len = (size_t)snprintf(path, sizeof(path), "%s/", test_dir());
        memset(path + len, '/', i);
        memcpy(path + len + i, "x", 2);
        parts[i] = (struct file_digest_part){mem_strdup(path), fd};
    }
    for (int round = 0; round < 2; round++) {
        assert_ok(file_digest_start(&task, &options, parts, LINKS, NULL));
        assert_int_equal(file_digest_bytes(task),
                         round == 0 ? LINKS * 4096 : (LINKS - MEMORY_ENTRIES) * 4096);
        assert_ok(file_digest_finish(&task, digests, NULL));
    }
    assert_int_equal(stat(at("digests"), &st), 0);
    assert_int_equal(st.st_size, 16 + MEMORY_ENTRIES * 64 + 32);
    for (size_t i = 0; i < LINKS; i++)
        mem_free((void *)parts[i].path);
    mem_free(parts);
    mem_free(digests);
    close(fd);
    clock_destroy_fake(&clock);
}

/* ---- files that change meanwhile ---- */

static enum err finish_after(void (*change)(const char *path))
{
    const char *path = at("x");
    struct file_digest_options options = {.fs = file_sys_real(), .clock = clock_real()};
    struct hash256 out;
    struct file_digest *task;

    make(path, LARGE);
    struct file_digest_part part = {path, open_rw(path)};
    assert_ok(file_digest_start(&task, &options, &part, 1, NULL));
    change(path);
    enum err err = file_digest_finish(&task, &out, NULL);
    close(part.fd);
    return err;
}

static void grow(const char *path)
{
    assert_int_equal(truncate(path, LARGE + 1), 0);
}

static void shrink(const char *path)
{
    assert_int_equal(truncate(path, 5), 0);
}

static void replace(const char *path)
{
    make(at("y"), LARGE);
    assert_int_equal(rename(at("y"), path), 0);
}

static void take_away(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static void test_changes_are_noticed(void **state)
{
    (void)state;
    assert_err(finish_after(grow), ERR_BUSY);
    assert_err(finish_after(replace), ERR_BUSY);
    assert_err(finish_after(take_away), ERR_BUSY);
    enum err err = finish_after(shrink); /* before or after its end was read */
    assert_true(err == ERR_BUSY || err == ERR_CORRUPT);
}

static void test_cancelling(void **state)
{
    struct file_digest_options options = {.fs = file_sys_real(), .clock = clock_real()};
    struct file_digest *task = NULL;

    (void)state;
    file_digest_cancel(&task);
    make(at("x"), LARGE);
    struct file_digest_part part = {at("x"), open_rw(at("x"))};
    assert_ok(file_digest_start(&task, &options, &part, 1, NULL));
    file_digest_cancel(&task);
    assert_null(task);
    assert_ok(file_digest_start(&task, &options, &part, 1, NULL));
    while (!file_digest_wait(task, NS_PER_MS))
        assert_true(file_digest_read(task) <= LARGE);
    assert_int_equal(file_digest_read(task), LARGE);
    file_digest_cancel(&task);
    close(part.fd);
}

/* Whatever fails: an error, or the right digest; and a memory that is right or not there. */
static void test_faults(void **state)
{
    struct clock *clock = later();
    struct file_fault fault;
    long rounds = 0, refused = 0;

    (void)state;
    make(at("x"), SMALL);
    struct result truth = digest(at("x"), NULL);
    file_fault_init(&fault, file_sys_real());
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = 5; /* EIO */
    fault.calls &= ~(UINT64_C(1) << FILE_CALL_CLOSE);
    FAULT_LOOP (&fault.when) {
        unlink(at("digests"));
        struct result result = run_on(&fault.sys, at("x"), test_dir(), clock);
        bool fired = atomic_load(&fault.when.fired) > 0;
        rounds++;
        refused += result.err != ERR_OK;
        assert_true(fired || result.err == ERR_OK);
        if (result.err == ERR_OK)
            assert_true(hash256_eq(&result.digest, &truth.digest));
        result = digest(at("x"), test_dir());
        assert_true(hash256_eq(&result.digest, &truth.digest));
    }
    assert_true(refused >= 4 && rounds > refused + 4); /* the file; its memory */
    clock_destroy_fake(&clock);
}

TEST_SUITE(TEST(test_every_chunk_counts), TEST(test_a_second_time_is_remembered),
           TEST(test_a_fresh_file_is_not_remembered), TEST(test_a_set_time_does_not_deceive),
           TEST(test_a_damaged_memory_is_none), TEST(test_a_memory_that_cannot_be),
           TEST(test_the_memory_is_bounded), TEST(test_changes_are_noticed), TEST(test_cancelling),
           TEST(test_faults))
