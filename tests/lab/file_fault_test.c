#include "lab/file_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "support/test.h"

static struct file_fault fault;
static const struct file_sys *sys;
static int dir = FILE_NO, fd = FILE_NO;

/* A scratch folder with one open file of ten bytes. */
static int open_scratch(void **state)
{
    const struct file_sys *real = file_sys_real();

    (void)state;
    file_fault_init(&fault, real);
    sys = &fault.sys;
    assert_ok(file_open_dir(real, test_dir(), false, &dir, NULL));
    assert_ok(file_open_at(real, dir, "f", O_RDWR | O_CREAT | O_TRUNC, 0600, &fd, NULL));
    assert_ok(file_write_at(real, fd, "0123456789", 10, 0, NULL));
    return 0;
}

static int close_scratch(void **state)
{
    (void)state;
    file_close(file_sys_real(), &fd);
    file_close(file_sys_real(), &dir);
    return 0;
}

#define SCRATCH_TEST(function) \
    cmocka_unit_test_setup_teardown(function, open_scratch, close_scratch)

static void ignore_entry(const char *name, unsigned char d_type, void *arg)
{
    (void)name;
    (void)d_type;
    (void)arg;
}

/* Makes one call of the table; all of them succeed when nothing interferes. Undoes what it did
 * where that is needed. */
static ssize_t make_call(enum file_call call)
{
    const struct file_ops *ops = sys->ops, *real = file_sys_real()->ops;
    struct statvfs vfs;
    struct stat st;
    char buf[4];
    int other;

    switch (call) {
    case FILE_CALL_OPENAT:
        other = ops->openat(sys->ctx, dir, "f", O_RDONLY, 0);
        return other < 0 ? other : real->close(NULL, other);
    case FILE_CALL_CLOSE:
        other = real->openat(NULL, dir, "f", O_RDONLY, 0);
        return ops->close(sys->ctx, other);
    case FILE_CALL_PREAD:
        return ops->pread(sys->ctx, fd, buf, sizeof(buf), 0);
    case FILE_CALL_PREAD_CACHED:
        return ops->pread_cached(sys->ctx, fd, buf, sizeof(buf), 0);
    case FILE_CALL_PWRITE:
        return ops->pwrite(sys->ctx, fd, "abcd", 4, 0);
    case FILE_CALL_FSYNC:
        return ops->fsync(sys->ctx, fd);
    case FILE_CALL_FTRUNCATE:
        return ops->ftruncate(sys->ctx, fd, 10);
    case FILE_CALL_FALLOCATE:
        return ops->fallocate(sys->ctx, fd, 10);
    case FILE_CALL_FSTAT:
        return ops->fstat(sys->ctx, fd, &st);
    case FILE_CALL_FSTATAT:
        return ops->fstatat(sys->ctx, dir, "f", &st);
    case FILE_CALL_FSTATVFS:
        return ops->fstatvfs(sys->ctx, fd, &vfs);
    case FILE_CALL_RENAMEAT:
        return ops->renameat(sys->ctx, dir, "f", dir, "f");
    case FILE_CALL_UNLINKAT:
        (void)!linkat(dir, "f", dir, "link", 0);
        return ops->unlinkat(sys->ctx, dir, "link", false);
    case FILE_CALL_MKDIRAT:
        real->unlinkat(NULL, dir, "folder", true);
        return ops->mkdirat(sys->ctx, dir, "folder", 0700);
    case FILE_CALL_LOCK:
        return ops->lock(sys->ctx, fd, true);
    case FILE_CALL_FUTIMENS:
        return ops->futimens(sys->ctx, fd, 1);
    case FILE_CALL_LIST:
        return ops->list(sys->ctx, dir, ignore_entry, NULL);
    case FILE_CALL_COUNT:
        break;
    }
    fail_msg("no such call");
    return 0;
}

static void test_hands_on_what_does_not_fire(void **state)
{
    (void)state;
    for (int call = 0; call < FILE_CALL_COUNT; call++)
        if (make_call((enum file_call)call) < 0 && call != FILE_CALL_FALLOCATE &&
            call != FILE_CALL_PREAD_CACHED)
            fail_msg("call %d failed", call);
    assert_int_equal(atomic_load(&fault.when.fired), 0);
}

static void test_each_call_fails_once_when_told(void **state)
{
    const enum file_fault_kind kinds[] = {FILE_FAULT_ERROR, FILE_FAULT_TORN};

    (void)state;
    fault.errnum = ENOLCK;
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        fault.kind = kinds[k];
        for (int call = 0; call < FILE_CALL_COUNT; call++) {
            fault.calls = UINT64_C(1) << call;
            fault_arm(&fault.when, 2, false);
            assert_true(make_call((enum file_call)call) != -ENOLCK);
            assert_int_equal(make_call((enum file_call)call), -ENOLCK);
            assert_int_equal(fault.last, call);
            assert_true(make_call((enum file_call)call) != -ENOLCK);
            assert_int_equal(atomic_load(&fault.when.calls), 3); /* and no other call was counted */
        }
    }
}

static void test_only_chosen_calls_count(void **state)
{
    (void)state;
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    fault.calls = UINT64_C(1) << FILE_CALL_FSYNC;
    fault_arm(&fault.when, 1, false);
    assert_int_equal(make_call(FILE_CALL_PWRITE), 4);
    assert_int_equal(make_call(FILE_CALL_FSTAT), 0);
    assert_int_equal(make_call(FILE_CALL_FSYNC), -EIO);
}

static void assert_content(const char *text)
{
    char buf[16];
    ssize_t len = pread(fd, buf, sizeof(buf), 0);

    assert_int_equal(len, strlen(text));
    assert_memory_equal(buf, text, strlen(text));
}

static void test_error_does_nothing(void **state)
{
    struct stat st;

    (void)state;
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = ENOSPC;
    fault_arm(&fault.when, 1, true);
    assert_int_equal(make_call(FILE_CALL_PWRITE), -ENOSPC);
    assert_int_equal(sys->ops->ftruncate(sys->ctx, fd, 1), -ENOSPC);
    assert_int_equal(sys->ops->unlinkat(sys->ctx, dir, "f", false), -ENOSPC);
    assert_int_equal(sys->ops->mkdirat(sys->ctx, dir, "never", 0700), -ENOSPC);
    assert_content("0123456789");
    assert_int_equal(fstatat(dir, "f", &st, 0), 0);
    assert_int_equal(fstatat(dir, "never", &st, 0), -1);
}

static void test_close_closes_even_when_it_fails(void **state)
{
    int other = openat(dir, "f", O_RDONLY);

    (void)state;
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    fault_arm(&fault.when, 1, false);
    assert_int_equal(sys->ops->close(sys->ctx, other), -EIO);
    assert_int_equal(fcntl(other, F_GETFD), -1);
}

static void test_short_does_half(void **state)
{
    char buf[4];

    (void)state;
    fault.kind = FILE_FAULT_SHORT;
    fault_arm(&fault.when, 1, true);
    assert_int_equal(make_call(FILE_CALL_PREAD), 2);
    assert_int_equal(make_call(FILE_CALL_PWRITE), 2);
    assert_content("ab23456789");
    assert_int_equal(sys->ops->pread(sys->ctx, fd, buf, 1, 0), 1);
    assert_int_equal(sys->ops->pwrite(sys->ctx, fd, "x", 1, 0), 1);
    assert_int_equal(sys->ops->pread(sys->ctx, fd, buf, 0, 0), 0);
    assert_int_equal(make_call(FILE_CALL_FSYNC), 0);
}

static void test_torn_does_half_and_fails(void **state)
{
    (void)state;
    fault.kind = FILE_FAULT_TORN;
    fault.errnum = EIO;
    fault_arm(&fault.when, 1, true);
    assert_int_equal(make_call(FILE_CALL_PWRITE), -EIO);
    assert_content("ab23456789");
    assert_int_equal(sys->ops->pwrite(sys->ctx, fd, "x", 1, 0), -EIO);
    assert_content("ab23456789");
}

static void test_delay_waits_and_succeeds(void **state)
{
    struct clock *clock = clock_create_fake(0, 0);

    (void)state;
    fault.kind = FILE_FAULT_DELAY;
    fault.clock = clock;
    fault.delay_ns = 3 * NS_PER_S;
    fault_arm(&fault.when, 1, true);
    assert_int_equal(make_call(FILE_CALL_PWRITE), 4);
    assert_int_equal(make_call(FILE_CALL_FSYNC), 0);
    assert_content("abcd456789");
    assert_int_equal(clock_mono_ns(clock), 6 * NS_PER_S);
    clock_destroy_fake(&clock);
}

static void test_kill_does_half_of_a_write(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        fault.kind = FILE_FAULT_KILL;
        fault_arm(&fault.when, 1, false);
        make_call(FILE_CALL_PWRITE);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_content("ab23456789");
}

TEST_SUITE(SCRATCH_TEST(test_hands_on_what_does_not_fire),
           SCRATCH_TEST(test_each_call_fails_once_when_told),
           SCRATCH_TEST(test_only_chosen_calls_count), SCRATCH_TEST(test_error_does_nothing),
           SCRATCH_TEST(test_close_closes_even_when_it_fails), SCRATCH_TEST(test_short_does_half),
           SCRATCH_TEST(test_torn_does_half_and_fails), SCRATCH_TEST(test_delay_waits_and_succeeds),
           SCRATCH_TEST(test_kill_does_half_of_a_write))
