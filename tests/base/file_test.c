#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "lab/file_fault.h"
#include "base/mem.h"
#include "support/test.h"

static const struct file_sys *real;
static char scratch[600]; /* a fresh folder for each test, */
static int dir = FILE_NO; /* and its handle */

static int open_scratch(void **state)
{
    static int number;

    (void)state;
    real = file_sys_real();
    snprintf(scratch, sizeof(scratch), "%s/%d", test_dir(), number++);
    assert_ok(file_open_dir(real, scratch, true, &dir, NULL));
    return 0;
}

static int close_scratch(void **state)
{
    (void)state;
    file_close(real, &dir);
    return 0;
}

#define SCRATCH_TEST(function) \
    cmocka_unit_test_setup_teardown(function, open_scratch, close_scratch)

static void count_entry(const char *name, unsigned char d_type, void *arg)
{
    (void)name;
    (void)d_type;
    ++*(int *)arg;
}

static int entries_in(int fd)
{
    int count = 0;

    assert_int_equal(real->ops->list(real->ctx, fd, count_entry, &count), 0);
    return count;
}

/* What is open in this process: a leak of handles shows here. */
static int handles_open(void)
{
    int fd;

    assert_ok(file_open_dir(real, "/proc/self/fd", false, &fd, NULL));
    int count = entries_in(fd);
    file_close(real, &fd);
    return count;
}

static void write_file(const char *name, const char *text)
{
    int fd;

    assert_ok(file_open_at(real, dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600, &fd, NULL));
    assert_ok(file_write_at(real, fd, text, strlen(text), 0, NULL));
    file_close(real, &fd);
}

static bool has_content(const char *name, const char *text)
{
    char *data;
    size_t len;

    assert_ok(file_read_all(real, dir, name, 1 << 20, &data, &len, NULL));
    assert_int_equal(data[len], '\0');
    bool same = len == strlen(text) && memcmp(data, text, len) == 0;
    mem_free(data);
    return same;
}

static void test_real_table_does_what_it_says(void **state)
{
    const struct file_ops *ops = real->ops;
    struct statvfs vfs;
    struct stat st;
    int fd;

    (void)state;
    assert_ok(file_open_at(real, dir, "a", O_RDWR | O_CREAT, 0600, &fd, NULL));
    assert_int_equal(ops->pwrite(NULL, fd, "hello", 5, 3), 5);
    assert_int_equal(ops->ftruncate(NULL, fd, 6), 0);
    assert_int_equal(ops->futimens(NULL, fd, 1234567890123456789), 0);
    assert_int_equal(ops->fstat(NULL, fd, &st), 0);
    assert_int_equal(st.st_size, 6);
    assert_int_equal(st.st_mtim.tv_sec, 1234567890);
    assert_int_equal(st.st_mtim.tv_nsec, 123456789);
    int result = ops->fallocate(NULL, fd, 1 << 20);
    assert_true(result == 0 || result == -EOPNOTSUPP);
    char cached[6];
    ssize_t got = ops->pread_cached(NULL, fd, cached, sizeof(cached), 0);
    assert_true(got == 6 || got == -EAGAIN || got == -EOPNOTSUPP);
    assert_int_equal(ops->fstatvfs(NULL, fd, &vfs), 0);
    assert_true(vfs.f_blocks > 0);
    file_close(real, &fd);

    assert_int_equal(linkat(dir, "a", dir, "b", 0), 0);
    assert_int_equal(ops->renameat(NULL, dir, "a", dir, "c"), 0);
    assert_int_equal(ops->fstatat(NULL, dir, "a", &st), -ENOENT);
    assert_int_equal(ops->fstatat(NULL, dir, "c", &st), 0);
    assert_int_equal(st.st_nlink, 2);
    assert_int_equal(ops->mkdirat(NULL, dir, "d", 0700), 0);
    assert_int_equal(entries_in(dir), 3);
    assert_int_equal(entries_in(dir), 3); /* again from the start */
    assert_int_equal(ops->unlinkat(NULL, dir, "d", false), -EISDIR);
    assert_int_equal(ops->unlinkat(NULL, dir, "d", true), 0);
    assert_int_equal(ops->unlinkat(NULL, dir, "c", false), 0);
    assert_int_equal(ops->close(NULL, -1), -EBADF);
    assert_int_equal(ops->pread(NULL, -1, &st, 1, 0), -EBADF);
    assert_int_equal(ops->pread_cached(NULL, -1, &st, 1, 0), -EBADF);
    assert_int_equal(ops->fsync(NULL, -1), -EBADF);
    assert_int_equal(ops->list(NULL, -1, count_entry, NULL), -EBADF);
}

static void test_lock_is_of_the_open_file(void **state)
{
    const struct file_ops *ops = real->ops;
    int one, two;

    (void)state;
    assert_ok(file_open_at(real, dir, "lock", O_RDWR | O_CREAT, 0600, &one, NULL));
    assert_ok(file_open_at(real, dir, "lock", O_RDWR | O_CREAT, 0600, &two, NULL));
    assert_int_equal(ops->lock(NULL, one, true), 0);
    assert_int_equal(ops->lock(NULL, two, true), -EWOULDBLOCK);
    assert_int_equal(ops->lock(NULL, two, false), -EWOULDBLOCK);
    assert_int_equal(ops->lock(NULL, one, false), 0);
    assert_int_equal(ops->lock(NULL, two, false), 0);
    file_close(real, &one);
    assert_int_equal(ops->lock(NULL, two, true), 0);
    file_close(real, &two);
}

static void test_open_dir_creates_parents(void **state)
{
    char path[1024];
    struct errinfo info;
    struct stat st;
    int fd;

    (void)state;
    snprintf(path, sizeof(path), "%s/one//two/./three/", scratch);
    assert_err(file_open_dir(real, path, false, &fd, &info), ERR_NOT_FOUND);
    assert_int_equal(fd, FILE_NO);
    assert_non_null(strstr(info.text, "two"));
    assert_ok(file_open_dir(real, path, true, &fd, NULL));
    file_close(real, &fd);
    assert_ok(file_open_dir(real, path, true, &fd, NULL));
    assert_int_equal(real->ops->fstat(NULL, fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    file_close(real, &fd);
    assert_int_equal(fd, FILE_NO);
    file_close(real, &fd); /* a no-op by now */
}

static void test_open_dir_says_what_is_wrong(void **state)
{
    static char path[2 * 4096];
    struct errinfo info;
    int fd;

    (void)state;
    write_file("plain", "");
    snprintf(path, sizeof(path), "%s/plain", scratch);
    assert_err(file_open_dir(real, path, true, &fd, &info), ERR_NOT_FOUND);
    snprintf(path, sizeof(path), "%s/plain/below", scratch);
    assert_err(file_open_dir(real, path, true, &fd, &info), ERR_NOT_FOUND);
    assert_err(file_open_dir(real, "", true, &fd, &info), ERR_NOT_FOUND);
    memset(path, 'x', sizeof(path) - 1);
    assert_err(file_open_dir(real, path, true, &fd, &info), ERR_LIMIT);
    assert_int_equal(fd, FILE_NO);
}

static void test_links_are_not_followed(void **state)
{
    struct errinfo info;
    struct stat st;
    size_t len;
    char *data;
    int fd;

    (void)state;
    write_file("secret", "secret");
    assert_int_equal(symlinkat("secret", dir, "link"), 0);
    assert_err(file_open_at(real, dir, "link", O_RDONLY, 0, &fd, &info), ERR_DENIED);
    assert_err(file_open_at(real, dir, "link", O_WRONLY | O_CREAT, 0600, &fd, &info), ERR_DENIED);
    assert_int_equal(fd, FILE_NO);
    assert_err(file_read_all(real, dir, "link", 100, &data, &len, &info), ERR_DENIED);
    assert_int_equal(real->ops->fstatat(NULL, dir, "link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));

    assert_ok(file_replace(real, dir, "link", "new", 3, 0600, &info));
    assert_true(has_content("link", "new")); /* the link itself was replaced */
    assert_true(has_content("secret", "secret"));
}

static void test_handles_are_closed_on_exec(void **state)
{
    int fd;

    (void)state;
    assert_int_equal(fcntl(dir, F_GETFD), FD_CLOEXEC);
    assert_ok(file_open_at(real, dir, "x", O_RDWR | O_CREAT, 0600, &fd, NULL));
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    file_close(real, &fd);
}

static void test_read_at_wants_all_bytes(void **state)
{
    struct errinfo info;
    char buf[8];
    int fd;

    (void)state;
    write_file("eight", "12345678");
    assert_ok(file_open_at(real, dir, "eight", O_RDONLY, 0, &fd, NULL));
    assert_ok(file_read_at(real, fd, buf, 3, 5, &info));
    assert_memory_equal(buf, "678", 3);
    assert_ok(file_read_at(real, fd, buf, 0, 100, &info));
    assert_err(file_read_at(real, fd, buf, 4, 5, &info), ERR_CORRUPT);
    assert_non_null(strstr(info.text, "ends after 3"));
    assert_err(file_read_at(real, fd, buf, 1, 8, NULL), ERR_CORRUPT);
    assert_err(file_read_at(real, fd, buf, 1, UINT64_MAX, &info), ERR_INVALID);
    assert_err(file_read_at(real, fd, buf, 2, INT64_MAX, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "beyond any file"));
    assert_err(file_write_at(real, fd, buf, 1, UINT64_MAX, &info), ERR_INVALID);
    assert_err(file_write_at(real, fd, buf, 1, 0, &info),
               ERR_CLOSED); /* EBADF: opened for reading */
    file_close(real, &fd);
}

static void test_read_all_has_a_limit(void **state)
{
    struct errinfo info;
    size_t len;
    char *data;

    (void)state;
    write_file("eight", "12345678");
    assert_ok(file_read_all(real, dir, "eight", 8, &data, &len, &info));
    assert_int_equal(len, 8);
    assert_string_equal(data, "12345678");
    mem_free(data);
    assert_ok(file_read_all(real, dir, "eight", SIZE_MAX, &data, &len, &info));
    mem_free(data);
    assert_err(file_read_all(real, dir, "eight", 7, &data, &len, &info), ERR_LIMIT);
    assert_null(data);
    assert_int_equal(len, 0);
    assert_non_null(strstr(info.text, "eight"));
    assert_non_null(strstr(info.text, "limit of 7"));

    write_file("empty", "");
    assert_ok(file_read_all(real, dir, "empty", 0, &data, &len, &info));
    assert_string_equal(data, "");
    mem_free(data);
    assert_err(file_read_all(real, dir, "eight", 0, &data, &len, &info), ERR_LIMIT);
    assert_err(file_read_all(real, dir, "absent", 9, &data, &len, &info), ERR_NOT_FOUND);
}

/* Files whose size the kernel does not know in advance report 0. */
static void test_read_all_does_not_trust_the_size(void **state)
{
    size_t len;
    char *data;
    int proc;

    (void)state;
    assert_ok(file_open_dir(real, "/proc/self", false, &proc, NULL));
    assert_ok(file_read_all(real, proc, "maps", 1 << 22, &data, &len, NULL));
    assert_true(len > 100);
    assert_int_equal(strlen(data), len);
    mem_free(data);
    assert_err(file_read_all(real, proc, "maps", 100, &data, &len, NULL), ERR_LIMIT);
    file_close(real, &proc);
}

static void test_read_all_wants_a_regular_file(void **state)
{
    struct errinfo info;
    size_t len;
    char *data;

    (void)state;
    assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
    assert_int_equal(real->ops->mkdirat(NULL, dir, "folder", 0700), 0);
    assert_err(file_read_all(real, dir, "fifo", 100, &data, &len, &info), ERR_INVALID);
    assert_err(file_read_all(real, dir, "folder", 100, &data, &len, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "regular"));
}

static void test_replace_creates_and_replaces(void **state)
{
    struct errinfo info;
    struct stat st;
    char longest[256];

    (void)state;
    assert_ok(file_replace(real, dir, "name", "old", 3, 0600, &info));
    assert_true(has_content("name", "old"));
    assert_int_equal(real->ops->fstatat(NULL, dir, "name", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(file_replace(real, dir, "name", "new!", 4, 0640, &info));
    assert_true(has_content("name", "new!"));
    assert_ok(file_replace(real, dir, "name", NULL, 0, 0600, &info));
    assert_true(has_content("name", ""));
    assert_int_equal(entries_in(dir), 1);

    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_err(file_replace(real, dir, longest, "x", 1, 0600, &info), ERR_LIMIT);
    assert_int_equal(entries_in(dir), 1);
}

/* Another process takes the first temporary name. */
static int openat_too_late(void *ctx, int at, const char *name, int flags, mode_t mode)
{
    int *calls = ctx;

    if (++*calls == 1)
        write_file(name, "foreign");
    return real->ops->openat(NULL, at, name, flags, mode);
}

static void test_replace_shares_no_temporary_file(void **state)
{
    struct file_ops ops = *real->ops;
    int calls = 0;

    (void)state;
    ops.openat = openat_too_late;
    const struct file_sys sys = {.ops = &ops, .ctx = &calls};
    assert_ok(file_replace(&sys, dir, "name", "mine", 4, 0600, NULL));
    assert_int_equal(calls, 2);
    assert_true(has_content("name", "mine"));
    assert_int_equal(entries_in(dir), 2); /* the foreign one is not ours to remove */
}

/* ---- faults ---- */

enum { CONTENT_BYTES = 10000 };
static char old_content[CONTENT_BYTES + 1], new_content[CONTENT_BYTES + 1];

static void prepare_contents(void)
{
    memset(old_content, 'o', CONTENT_BYTES);
    memset(new_content, 'n', CONTENT_BYTES);
}

/* Every call of file_replace fails once in the given way. Returns how many did. */
static int replace_under_fault(struct file_fault *fault)
{
    int rounds = 0, handles = handles_open();
    bool seen[FILE_CALL_COUNT] = {0};

    prepare_contents();
    FAULT_LOOP (&fault->when) {
        struct errinfo info = {0};
        write_file("name", old_content);
        enum err err =
            file_replace(&fault->sys, dir, "name", new_content, CONTENT_BYTES, 0600, &info);
        bool is_new = has_content("name", new_content);
        assert_true(is_new || has_content("name", old_content));
        assert_int_equal(entries_in(dir), 1);
        assert_int_equal(handles_open(), handles);
        if (err == ERR_OK)
            assert_true(is_new);
        else
            assert_non_null(strstr(info.text, "name"));
        if (atomic_load(&fault->when.fired) == 0) {
            assert_ok(err);
            continue;
        }
        rounds++;
        seen[fault->last] = true;
        /* Only what does not concern the data, and what can be repeated, may go unnoticed. */
        if (fault->kind != FILE_FAULT_SHORT && fault->errnum != EINTR &&
            fault->last != FILE_CALL_CLOSE)
            assert_err(err, err_from_errno(fault->errnum));
        else
            assert_ok(err);
    }
    assert_true(seen[FILE_CALL_OPENAT] && seen[FILE_CALL_PWRITE] && seen[FILE_CALL_FSYNC]);
    assert_true(seen[FILE_CALL_CLOSE] && seen[FILE_CALL_RENAMEAT]);
    return rounds;
}

static void test_replace_survives_every_error(void **state)
{
    const int errnums[] = {EIO, ENOSPC, EACCES, EMFILE, EDQUOT, EROFS, EINTR};
    struct file_fault fault;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(errnums); i++) {
        file_fault_init(&fault, real);
        fault.errnum = errnums[i];
        fault.kind = FILE_FAULT_ERROR;
        replace_under_fault(&fault);
        file_fault_init(&fault, real);
        fault.errnum = errnums[i];
        fault.kind = FILE_FAULT_TORN;
        replace_under_fault(&fault);
    }
}

static void test_replace_survives_short_writes(void **state)
{
    struct file_fault fault;

    (void)state;
    file_fault_init(&fault, real);
    fault.kind = FILE_FAULT_SHORT;
    assert_true(replace_under_fault(&fault) >= 6);

    /* All of them short, down to single bytes. */
    fault.calls = UINT64_C(1) << FILE_CALL_PWRITE;
    fault_arm(&fault.when, 1, true);
    assert_ok(file_replace(&fault.sys, dir, "name", old_content, CONTENT_BYTES, 0600, NULL));
    assert_true(has_content("name", old_content));
    assert_true(atomic_load(&fault.when.fired) > 10);
}

/* The first error and all that follow: nothing can be cleaned up, but nothing lies either. */
static void test_replace_survives_a_dead_disk(void **state)
{
    struct file_fault fault;

    (void)state;
    prepare_contents();
    file_fault_init(&fault, real);
    fault.kind = FILE_FAULT_TORN;
    fault.errnum = EIO;
    fault.when.sticky = true;
    write_file("name", old_content);
    FAULT_LOOP (&fault.when) {
        enum err err =
            file_replace(&fault.sys, dir, "name", new_content, CONTENT_BYTES, 0600, NULL);
        assert_int_equal(err == ERR_OK, atomic_load(&fault.when.fired) == 0);
        assert_true(has_content("name", old_content) || has_content("name", new_content));
    }
}

static void test_a_failed_fsync_is_not_repeated(void **state)
{
    struct file_fault fault;
    int fd;

    (void)state;
    file_fault_init(&fault, real);
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    fault.calls = UINT64_C(1) << FILE_CALL_FSYNC;
    assert_ok(file_open_at(real, dir, "x", O_RDWR | O_CREAT, 0600, &fd, NULL));
    fault_arm(&fault.when, 1, false);
    assert_err(file_sync(&fault.sys, fd, NULL), ERR_IO);
    assert_int_equal(atomic_load(&fault.when.calls), 1);
    file_close(real, &fd);
}

static void remove_temp(const char *name, unsigned char d_type, void *arg)
{
    size_t len = strlen(name), suffix = strlen(FILE_TEMP_SUFFIX);

    (void)arg;
    (void)d_type;
    if (strcmp(name, "name") == 0)
        return;
    assert_true(len > suffix && strcmp(name + len - suffix, FILE_TEMP_SUFFIX) == 0);
    assert_int_equal(real->ops->unlinkat(NULL, dir, name, false), 0);
}

/* Replaces in a child that is killed at its n-th call; true when it got to the end. */
static bool replace_killed_at(long n)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct file_fault fault;
        file_fault_init(&fault, real);
        fault.kind = FILE_FAULT_KILL;
        fault_arm(&fault.when, n, false);
        _exit(file_replace(&fault.sys, dir, "name", new_content, CONTENT_BYTES, 0600, NULL));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), ERR_OK);
    return true;
}

static void test_replace_survives_being_killed(void **state)
{
    bool finished = false, seen_old = false, seen_new_killed = false;

    (void)state;
    prepare_contents();
    for (long n = 1; !finished; n++) {
        assert_true(n < 100);
        write_file("name", old_content);
        finished = replace_killed_at(n);
        bool is_new = has_content("name", new_content);
        assert_true(is_new || (!finished && has_content("name", old_content)));
        seen_old |= !is_new;
        seen_new_killed |= is_new && !finished;
        assert_true(entries_in(dir) <= 2);
        assert_int_equal(real->ops->list(NULL, dir, remove_temp, NULL), 0);
        assert_int_equal(entries_in(dir), 1);
    }
    assert_true(seen_old && seen_new_killed);
}

/* One pass over all the calls that file_* makes, with an error in each in turn. */
static enum err use_everything(const struct file_sys *fs, const char *path)
{
    char *data = NULL, buf[100];
    int folder = FILE_NO, fd = FILE_NO;
    size_t len;
    enum err err = file_open_dir(fs, path, true, &folder, NULL);

    if (err == ERR_OK)
        err = file_open_at(fs, folder, "f", O_RDWR | O_CREAT, 0600, &fd, NULL);
    if (err == ERR_OK)
        err = file_write_at(fs, fd, new_content, sizeof(buf), 5, NULL);
    if (err == ERR_OK)
        err = file_read_at(fs, fd, buf, sizeof(buf), 5, NULL);
    if (err == ERR_OK) {
        assert_memory_equal(buf, new_content, sizeof(buf));
        err = file_sync(fs, fd, NULL);
    }
    if (err == ERR_OK)
        err = file_read_all(fs, folder, "f", 1000, &data, &len, NULL);
    if (err == ERR_OK) {
        assert_int_equal(len, 5 + sizeof(buf));
        assert_memory_equal(data, "\0\0\0\0\0n", 6);
    }
    mem_free(data);
    file_close(fs, &fd);
    file_close(fs, &folder);
    return err;
}

static void test_everything_survives_every_error(void **state)
{
    char path[1024];
    struct file_fault fault;
    int handles = handles_open(), round = 0;

    (void)state;
    prepare_contents();
    file_fault_init(&fault, real);
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EIO;
    FAULT_LOOP (&fault.when) {
        snprintf(path, sizeof(path), "%s/e%d/below", scratch, round++);
        enum err err = use_everything(&fault.sys, path);
        bool unnoticed = atomic_load(&fault.when.fired) == 0 || fault.last == FILE_CALL_CLOSE;
        assert_err(err, unnoticed ? ERR_OK : ERR_IO);
        assert_int_equal(handles_open(), handles);
    }
    assert_true(round > 10);
}

static void test_interruptions_are_survived(void **state)
{
    char path[1024];
    struct file_fault fault;
    int round = 0;

    (void)state;
    prepare_contents();
    file_fault_init(&fault, real);
    fault.kind = FILE_FAULT_ERROR;
    fault.errnum = EINTR;
    FAULT_LOOP (&fault.when) {
        snprintf(path, sizeof(path), "%s/i%d/below", scratch, round++);
        assert_ok(use_everything(&fault.sys, path));
    }
    /* For ever is too long. */
    fault_arm(&fault.when, 1, true);
    assert_err(use_everything(&fault.sys, path), ERR_IO);
    assert_true(atomic_load(&fault.when.fired) < 1000);
}

static void test_short_reads_are_survived(void **state)
{
    char path[1024];
    struct file_fault fault;

    (void)state;
    prepare_contents();
    file_fault_init(&fault, real);
    fault.kind = FILE_FAULT_SHORT;
    fault_arm(&fault.when, 1, true);
    snprintf(path, sizeof(path), "%s/s", scratch);
    assert_ok(use_everything(&fault.sys, path));
    assert_true(atomic_load(&fault.when.fired) > 10);
}

static void test_read_all_survives_lack_of_memory(void **state)
{
    struct fault fault = {0};
    struct errinfo info;
    size_t len;
    char *data;

    (void)state;
    write_file("eight", "12345678");
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        enum err err = file_read_all(real, dir, "eight", 100, &data, &len, &info);
        assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
        assert_int_equal(data != NULL, err == ERR_OK);
        mem_free(data);
    }
    mem_set_fault(NULL);
}

TEST_SUITE(SCRATCH_TEST(test_real_table_does_what_it_says),
           SCRATCH_TEST(test_lock_is_of_the_open_file), SCRATCH_TEST(test_open_dir_creates_parents),
           SCRATCH_TEST(test_open_dir_says_what_is_wrong),
           SCRATCH_TEST(test_links_are_not_followed), SCRATCH_TEST(test_handles_are_closed_on_exec),
           SCRATCH_TEST(test_read_at_wants_all_bytes), SCRATCH_TEST(test_read_all_has_a_limit),
           SCRATCH_TEST(test_read_all_does_not_trust_the_size),
           SCRATCH_TEST(test_read_all_wants_a_regular_file),
           SCRATCH_TEST(test_replace_creates_and_replaces),
           SCRATCH_TEST(test_replace_shares_no_temporary_file),
           SCRATCH_TEST(test_replace_survives_every_error),
           SCRATCH_TEST(test_replace_survives_short_writes),
           SCRATCH_TEST(test_replace_survives_a_dead_disk),
           SCRATCH_TEST(test_a_failed_fsync_is_not_repeated),
           SCRATCH_TEST(test_replace_survives_being_killed),
           SCRATCH_TEST(test_everything_survives_every_error),
           SCRATCH_TEST(test_interruptions_are_survived),
           SCRATCH_TEST(test_short_reads_are_survived),
           SCRATCH_TEST(test_read_all_survives_lack_of_memory))
