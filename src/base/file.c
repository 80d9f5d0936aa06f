/*
 * file.c: system calls as a table, and the loops that every user of a disk needs.
 *
 * The table's functions are as thin as possible: one system call, its errno as the result. All
 * retries (EINTR, short reads and writes) are in the file_* functions above them, so that they work
 * for, and are tested with, any table.
 *
 * file_replace step by step, and what `name` contains after a crash at each step:
 *
 *      create NAME.<16 hex digits>.tmp    old     random name, O_EXCL: never shared by two writers
 *      write, fsync it                    old
 *      rename over NAME                   old or new, never a mix: the content was on the disk
 *                                         before its name
 *      fsync the directory                new
 *
 * Not done: a failed fsync is never repeated, because the kernel may have dropped the dirty pages
 * and would then report success for lost data. A failed close is not an error, because callers that
 * need the data on the disk have called fsync before. New directories are not synced into their
 * parents: a crash may lose one with all its content, which is the same as "old".
 */
#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

/* Disk calls are rarely interrupted; a hundred times in a row means that something else is
 * wrong. */
enum { INTERRUPTS_MAX = 100, PLAIN_NAME_MAX = 128 };

/* 64 random bits do not clash in practice; a few retries make sure. */
enum { TEMP_TRIES_MAX = 3, TEMP_NAME_BYTES = NAME_MAX + 1 };

#define RETRY_INTERRUPTED(result, call)                                                      \
    for (int tries_ = 0; ((result) = (call)) == -EINTR && tries_ < INTERRUPTS_MAX; tries_++) \
    continue

/* ---- the real table: one system call each ---- */

static int set_times(int fd, uint64_t wall_ns)
{
    struct timespec time = {.tv_sec = (time_t)(wall_ns / NS_PER_S),
                            .tv_nsec = (long)(wall_ns % NS_PER_S)};

    return futimens(fd, (struct timespec[]){time, time});
}

static ssize_t read_cached(int fd, void *buf, size_t len, off_t offset)
{
    struct iovec to = {.iov_base = buf, .iov_len = len};

    return preadv2(fd, &to, 1, offset, RWF_NOWAIT);
}

static int list_entries(int dir, file_entry_fn *fn, void *arg)
{
    /* Reopened, because a duplicate would share the read position with `dir` and with other threads
     * that list it. */
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    int err = errno;

    while (stream != NULL) {
        errno = 0; /* the only way to tell readdir's end from an error */
        struct dirent *entry = readdir(stream);
        err = errno;
        if (entry == NULL)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            fn(entry->d_name, entry->d_type, arg);
    }
    if (stream != NULL)
        closedir(stream);
    else if (fd >= 0)
        close(fd);
    errno = err;
    return err == 0 ? 0 : -1;
}

#define X(value, type, name, params, call, ...)    \
    static type real_##name params                 \
    {                                              \
        (void)ctx;                                 \
        type result = (call);                      \
        return result < 0 ? -(type)errno : result; \
    }
FILE_CALL_TABLE(X)
#undef X

static const struct file_ops real_ops = {
#define X(value, type, name, ...) .name = real_##name,
    FILE_CALL_TABLE(X)
#undef X
};

const struct file_sys *file_sys_real(void)
{
    static const struct file_sys real = {.ops = &real_ops};

    return &real;
}

bool file_is_plain_name(struct str name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    if (name.len == 0 || name.len > PLAIN_NAME_MAX || name.ptr[0] == '.')
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!memchr(allowed, name.ptr[i], sizeof(allowed) - 1))
            return false;
    return true;
}

const char *file_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* ---- opening and closing ---- */

/* Makes every directory of the path, from the root down. Existing entries of any kind are accepted:
 * the open that follows fails if it is not a directory. */
static enum err make_dirs(const struct file_sys *fs, const char *path, struct errinfo *info)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    int result;

    if (len >= sizeof(part))
        return err_set_errno(info, ENAMETOOLONG, "create directory %.64s...", path);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        RETRY_INTERRUPTED(result, fs->ops->mkdirat(fs->ctx, AT_FDCWD, part, 0700));
        if (result < 0 && result != -EEXIST)
            return err_set_errno(info, -result, "create directory %s", part);
    }
    return ERR_OK;
}

enum err file_open_dir(const struct file_sys *fs, const char *path, bool create, int *fd,
                       struct errinfo *info)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int result;

    *fd = FILE_NO;
    RETRY_INTERRUPTED(result, fs->ops->openat(fs->ctx, AT_FDCWD, path, flags, 0));
    if (result == -ENOENT && create) {
        TRY(make_dirs(fs, path, info));
        RETRY_INTERRUPTED(result, fs->ops->openat(fs->ctx, AT_FDCWD, path, flags, 0));
    }
    if (result < 0)
        return err_set_errno(info, -result, "open directory %s", path);
    *fd = result;
    return ERR_OK;
}

enum err file_open_at(const struct file_sys *fs, int dir, const char *name, int flags, mode_t mode,
                      int *fd, struct errinfo *info)
{
    int result;

    *fd = FILE_NO;
    flags |= O_CLOEXEC | O_NOFOLLOW;
    RETRY_INTERRUPTED(result, fs->ops->openat(fs->ctx, dir, name, flags, mode));
    if (result < 0)
        return err_set_errno(info, -result, "open %s", name);
    *fd = result;
    return ERR_OK;
}

enum err file_open_dir_at(const struct file_sys *fs, int dir, const char *name, bool create,
                          int *fd, struct errinfo *info)
{
    const int flags = O_RDONLY | O_DIRECTORY;
    enum err err = file_open_at(fs, dir, name, flags, 0, fd, info);

    if (err != ERR_NOT_FOUND || !create)
        return err;
    err = file_make_dir_at(fs, dir, name, info);
    if (err != ERR_OK && err != ERR_EXISTS)
        return err;
    return file_open_at(fs, dir, name, flags, 0, fd, info);
}

void file_close(const struct file_sys *fs, int *fd)
{
    if (*fd == FILE_NO)
        return;
    assert(*fd >= 0);
    /* Never repeated: the handle is closed even after EINTR, and may already belong to another
     * thread. */
    (void)fs->ops->close(fs->ctx, *fd);
    *fd = FILE_NO;
}

/* ---- reading and writing ---- */

/* Offsets often come from a file, so an unrepresentable one is an input error, not a bug. */
static enum err check_range(size_t len, uint64_t offset, struct errinfo *info)
{
    if (offset > INT64_MAX || len > INT64_MAX - offset)
        return err_set(info, ERR_INVALID, "%zu bytes at offset %" PRIu64 " are beyond any file",
                       len, offset);
    return ERR_OK;
}

enum err file_read_at(const struct file_sys *fs, int fd, void *buf, size_t len, uint64_t offset,
                      struct errinfo *info)
{
    size_t done = 0;

    TRY(check_range(len, offset, info));
    while (done < len) {
        off_t at = (off_t)(offset + done);
        ssize_t got;
        RETRY_INTERRUPTED(got, fs->ops->pread(fs->ctx, fd, (char *)buf + done, len - done, at));
        if (got < 0)
            return err_set_errno(info, (int)-got, "read %zu bytes at offset %" PRIu64, len, offset);
        if (got == 0)
            return err_set(info, ERR_CORRUPT,
                           "read %zu bytes at offset %" PRIu64 ": the file ends after %zu", len,
                           offset, done);
        done += (size_t)got;
    }
    return ERR_OK;
}

enum err file_write_at(const struct file_sys *fs, int fd, const void *buf, size_t len,
                       uint64_t offset, struct errinfo *info)
{
    size_t done = 0;

    TRY(check_range(len, offset, info));
    while (done < len) {
        const char *from = (const char *)buf + done;
        off_t at = (off_t)(offset + done);
        ssize_t put;
        RETRY_INTERRUPTED(put, fs->ops->pwrite(fs->ctx, fd, from, len - done, at));
        if (put <= 0) /* 0 for a nonzero length: retrying could go on forever */
            return err_set_errno(info, put < 0 ? (int)-put : EIO,
                                 "write %zu bytes at offset %" PRIu64, len, offset);
        done += (size_t)put;
    }
    return ERR_OK;
}

enum err file_sync(const struct file_sys *fs, int fd, struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->fsync(fs->ctx, fd));
    return result < 0 ? err_set_errno(info, -result, "fsync") : ERR_OK;
}

/* ---- single calls ---- */

enum err file_stat(const struct file_sys *fs, int fd, struct stat *st, struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->fstat(fs->ctx, fd, st));
    return result < 0 ? err_set_errno(info, -result, "fstat") : ERR_OK;
}

enum err file_stat_at(const struct file_sys *fs, int dir, const char *name, struct stat *st,
                      struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->fstatat(fs->ctx, dir, name, st));
    return result < 0 ? err_set_errno(info, -result, "stat %s", name) : ERR_OK;
}

enum err file_rename_at(const struct file_sys *fs, int from_dir, const char *from, int to_dir,
                        const char *to, struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->renameat(fs->ctx, from_dir, from, to_dir, to));
    return result < 0 ? err_set_errno(info, -result, "rename %s to %s", from, to) : ERR_OK;
}

enum err file_remove_at(const struct file_sys *fs, int dir, const char *name, bool is_dir,
                        struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->unlinkat(fs->ctx, dir, name, is_dir));
    return result < 0 ? err_set_errno(info, -result, "remove %s", name) : ERR_OK;
}

enum err file_make_dir_at(const struct file_sys *fs, int dir, const char *name,
                          struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->mkdirat(fs->ctx, dir, name, 0700));
    return result < 0 ? err_set_errno(info, -result, "create directory %s", name) : ERR_OK;
}

enum err file_allocate(const struct file_sys *fs, int fd, uint64_t len, struct errinfo *info)
{
    int result;

    TRY(check_range(0, len, info));
    RETRY_INTERRUPTED(result, fs->ops->fallocate(fs->ctx, fd, (off_t)len));
    if (result == -EOPNOTSUPP || result == -ENOSYS)
        return ERR_OK;
    return result < 0 ? err_set_errno(info, -result, "reserve %" PRIu64 " bytes", len) : ERR_OK;
}

enum err file_truncate(const struct file_sys *fs, int fd, uint64_t len, struct errinfo *info)
{
    int result;

    TRY(check_range(0, len, info));
    RETRY_INTERRUPTED(result, fs->ops->ftruncate(fs->ctx, fd, (off_t)len));
    return result < 0 ? err_set_errno(info, -result, "cut to %" PRIu64 " bytes", len) : ERR_OK;
}

enum err file_lock(const struct file_sys *fs, int fd, struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->lock(fs->ctx, fd, true));
    return result < 0 ? err_set_errno(info, -result, "lock") : ERR_OK;
}

enum err file_set_time(const struct file_sys *fs, int fd, uint64_t wall_ns, struct errinfo *info)
{
    int result;

    RETRY_INTERRUPTED(result, fs->ops->futimens(fs->ctx, fd, wall_ns));
    return result < 0 ? err_set_errno(info, -result, "set the time") : ERR_OK;
}

enum err file_free_bytes(const struct file_sys *fs, int fd, uint64_t *bytes, struct errinfo *info)
{
    struct statvfs vfs;
    int result;

    RETRY_INTERRUPTED(result, fs->ops->fstatvfs(fs->ctx, fd, &vfs));
    if (result < 0)
        return err_set_errno(info, -result, "free space");
    *bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return ERR_OK;
}

enum err file_list(const struct file_sys *fs, int dir, file_entry_fn *fn, void *arg,
                   struct errinfo *info)
{
    int result =
        fs->ops->list(fs->ctx, dir, fn, arg); /* not repeated: entries would be reported twice */

    return result < 0 ? err_set_errno(info, -result, "list directory") : ERR_OK;
}

/* ---- whole files ---- */

static enum err too_large(size_t limit, struct errinfo *info)
{
    return err_set(info, ERR_LIMIT, "larger than the limit of %zu bytes", limit);
}

/* Reads up to the end into `content`, whose limit is one byte more than the caller's: that byte
 * reveals a file that became too large while it was read. The size from fstat is only a hint; for
 * files in /proc it is 0. */
static enum err read_to_end(const struct file_sys *fs, int fd, struct buf *content,
                            struct errinfo *info)
{
    while (content->len < content->limit) {
        if (content->cap - content->len == 1 && buf_reserve(content, 1) == NULL)
            return err_set(info, content->err, "%s", err_sentence(content->err));
        size_t room = content->cap - content->len - 1;
        char *to = content->data + content->len;
        ssize_t got;
        RETRY_INTERRUPTED(got, fs->ops->pread(fs->ctx, fd, to, room, (off_t)content->len));
        if (got < 0)
            return err_set_errno(info, (int)-got, "at offset %zu", content->len);
        if (got == 0)
            return ERR_OK;
        buf_commit(content, (size_t)got);
    }
    return too_large(content->limit - 1, info);
}

static enum err read_regular(const struct file_sys *fs, int fd, struct buf *content,
                             struct errinfo *info)
{
    struct stat st;

    TRY(file_stat(fs, fd, &st, info));
    if (!S_ISREG(st.st_mode))
        return err_set(info, ERR_INVALID, "not a regular file");
    if ((uint64_t)st.st_size >= content->limit)
        return too_large(content->limit - 1, info);
    if (buf_reserve(content, (size_t)st.st_size + 1) == NULL)
        return err_set(info, content->err, "%s", err_sentence(content->err));
    return read_to_end(fs, fd, content, info);
}

enum err file_read_all(const struct file_sys *fs, int dir, const char *name, size_t limit,
                       char **data, size_t *len, struct errinfo *info)
{
    struct buf content;
    int fd;

    *data = NULL;
    *len = 0;
    /* O_NONBLOCK: opening a pipe must not block. Regular files ignore it. */
    TRY(file_open_at(fs, dir, name, O_RDONLY | O_NONBLOCK, 0, &fd, info));
    buf_init(&content, MIN(limit, SIZE_MAX / 2 - 2) + 1); /* a buffer cannot hold more */
    enum err err = read_regular(fs, fd, &content, info);
    file_close(fs, &fd);
    if (err != ERR_OK) {
        buf_fini(&content);
        return err_wrap(info, err, "read %s", name);
    }
    *len = content.len;
    *data = buf_take(&content);
    assert(*data != NULL); /* the buffer has memory and no error, so taking it cannot fail */
    return ERR_OK;
}

/* ---- replacing ---- */

static enum err open_temp(const struct file_sys *fs, int dir, const char *name, mode_t mode,
                          char temp[TEMP_NAME_BYTES], int *fd, struct errinfo *info)
{
    enum err err = ERR_EXISTS;

    for (int tries = 0; err == ERR_EXISTS && tries < TEMP_TRIES_MAX; tries++) {
        uint64_t number;
        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
            return err_set_errno(info, errno, "random name for %s", name);
        int len = snprintf(temp, TEMP_NAME_BYTES, "%s.%016" PRIx64 FILE_TEMP_SUFFIX, name, number);
        if (len < 0 || len >= TEMP_NAME_BYTES)
            return err_set_errno(info, ENAMETOOLONG, "temporary name for %s", name);
        err = file_open_at(fs, dir, temp, O_WRONLY | O_CREAT | O_EXCL, mode, fd, info);
    }
    return err;
}

enum err file_replace(const struct file_sys *fs, int dir, const char *name, const void *data,
                      size_t len, mode_t mode, struct errinfo *info)
{
    char temp[TEMP_NAME_BYTES];
    int fd;

    assert(strchr(name, '/') ==
           NULL); /* `dir` is the directory that is synced, so the name must be directly below it */
    enum err err = open_temp(fs, dir, name, mode, temp, &fd, info);
    if (err != ERR_OK)
        return err_wrap(info, err, "replace %s", name);
    err = file_write_at(fs, fd, data, len, 0, info);
    if (err == ERR_OK)
        err = file_sync(fs, fd, info);
    file_close(fs, &fd);
    if (err == ERR_OK)
        err = file_rename_at(fs, dir, temp, dir, name, info);
    if (err == ERR_OK)
        err = file_sync(fs, dir, info);
    else /* if it cannot be removed, it stays under a recognizable name */
        (void)!file_remove_at(fs, dir, temp, false, NULL);
    return err != ERR_OK ? err_wrap(info, err, "replace %s", name) : ERR_OK;
}
