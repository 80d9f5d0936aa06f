/*
 * file.h: every disk call goes through one table.
 *
 * Code that uses the disk gets a `struct file_sys *`: the table of calls and their context.
 * file_sys_real() calls the kernel; file_fault.h wraps any table for tests and makes the n-th call
 * fail, come short, tear, wait or kill the process. The table has exactly the calls that we use:
 * paths are always relative to a directory handle, and symbolic links are never followed for names
 * that are not ours.
 *
 * Modules call the functions below the table: they retry EINTR, loop over short reads and writes,
 * close on failure, and turn errno into `enum err`.
 *
 * Threads: the tables are read-only; several threads may use a handle, as with system calls.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

/* One row per call: X(VALUE, type, name, (parameters), the system call, arguments...). Results are
 * those of the system calls: >= 0, or -errno (errno itself is not used, so that a wrapper cannot
 * lose it).
 *
 *      fsync      files and directories
 *      pread_cached  only what is in the page cache, without waiting for the disk: less than asked
 *                 for, or -EAGAIN, if some of it is not; -EOPNOTSUPP where this cannot be told
 *      fallocate  len > 0; reserves blocks so that later writes cannot fail with ENOSPC. Not
 *                 posix_fallocate: where the file system cannot reserve, it writes zeros over the
 *                 whole length
 *      fstatat    never follows a link
 *      lock       non-blocking, of the open file; -EWOULDBLOCK when taken. Not fcntl's POSIX locks:
 *                 those belong to the process and vanish when *any* handle of the file is closed
 *      futimens   both times, since 1970
 *      list       every entry except . and .. in any order; fn must not add entries. After an error
 *                 some entries may have been reported
 */
#define FILE_CALL_TABLE(X) FILE_CALL_TABLE_PARTIAL(X) FILE_CALL_TABLE_WHOLE(X)

/* Calls that can be done in part, and close: a fault treats each of them differently. */
#define FILE_CALL_TABLE_PARTIAL(X)                                                             \
    X(CLOSE, int, close, (void *ctx, int fd), close(fd), fd)                                   \
    X(PREAD, ssize_t, pread, (void *ctx, int fd, void *buf, size_t len, off_t offset),         \
      pread(fd, buf, len, offset), fd, buf, len, offset)                                       \
    X(PWRITE, ssize_t, pwrite, (void *ctx, int fd, const void *buf, size_t len, off_t offset), \
      pwrite(fd, buf, len, offset), fd, buf, len, offset)

#define FILE_CALL_TABLE_WHOLE(X)                                                                   \
    X(PREAD_CACHED, ssize_t, pread_cached,                                                         \
      (void *ctx, int fd, void *buf, size_t len, off_t offset), read_cached(fd, buf, len, offset), \
      fd, buf, len, offset)                                                                        \
    X(OPENAT, int, openat, (void *ctx, int dir, const char *name, int flags, mode_t mode),         \
      openat(dir, name, flags, mode), dir, name, flags, mode)                                      \
    X(FSYNC, int, fsync, (void *ctx, int fd), fsync(fd), fd)                                       \
    X(FTRUNCATE, int, ftruncate, (void *ctx, int fd, off_t len), ftruncate(fd, len), fd, len)      \
    X(FALLOCATE, int, fallocate, (void *ctx, int fd, off_t len), fallocate(fd, 0, 0, len), fd,     \
      len)                                                                                         \
    X(FSTAT, int, fstat, (void *ctx, int fd, struct stat *st), fstat(fd, st), fd, st)              \
    X(FSTATAT, int, fstatat, (void *ctx, int dir, const char *name, struct stat *st),              \
      fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW), dir, name, st)                                  \
    X(FSTATVFS, int, fstatvfs, (void *ctx, int fd, struct statvfs *vfs), fstatvfs(fd, vfs), fd,    \
      vfs)                                                                                         \
    X(RENAMEAT, int, renameat,                                                                     \
      (void *ctx, int from_dir, const char *from, int to_dir, const char *to),                     \
      renameat(from_dir, from, to_dir, to), from_dir, from, to_dir, to)                            \
    X(UNLINKAT, int, unlinkat, (void *ctx, int dir, const char *name, bool is_dir),                \
      unlinkat(dir, name, is_dir ? AT_REMOVEDIR : 0), dir, name, is_dir)                           \
    X(MKDIRAT, int, mkdirat, (void *ctx, int dir, const char *name, mode_t mode),                  \
      mkdirat(dir, name, mode), dir, name, mode)                                                   \
    X(LOCK, int, lock, (void *ctx, int fd, bool exclusive),                                        \
      flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB), fd, exclusive)                         \
    X(FUTIMENS, int, futimens, (void *ctx, int fd, uint64_t wall_ns), set_times(fd, wall_ns), fd,  \
      wall_ns)                                                                                     \
    X(LIST, int, list, (void *ctx, int dir, file_entry_fn *fn, void *arg),                         \
      list_entries(dir, fn, arg), dir, fn, arg)

typedef void file_entry_fn(const char *name, unsigned char d_type, void *arg);

struct file_ops {
#define X(value, type, name, params, ...) type(*name) params;
    FILE_CALL_TABLE(X)
#undef X
};

struct file_sys {
    const struct file_ops *ops;
    void *ctx;
};

const struct file_sys *file_sys_real(void);

/* The name of a file in its path: what follows the last slash. */
const char *file_base_name(const char *path);

/* Whether a name from outside is that of a file directly in a folder, and not hidden: letters, digits,
 * '.', '_', '-', at most 128. */
bool file_is_plain_name(struct str name);

enum { FILE_NO = -1 };

/* The suffix of file_replace's temporary names. A crash can leave such a file; the owner of the
 * directory may remove it at the next start. */
#define FILE_TEMP_SUFFIX ".tmp"

/* Opens a directory; with `create`, makes it and its parents (mode 0700). Follows links: the path
 * is the user's own. */
enum err file_open_dir(const struct file_sys *fs, const char *path, bool create, int *fd,
                       struct errinfo *info) NODISCARD;

/* openat with O_CLOEXEC | O_NOFOLLOW added; a symbolic link is ERR_DENIED. */
enum err file_open_at(const struct file_sys *fs, int dir, const char *name, int flags, mode_t mode,
                      int *fd, struct errinfo *info) NODISCARD;
/* A directory below another; with `create`, it is made if it is missing. */
enum err file_open_dir_at(const struct file_sys *fs, int dir, const char *name, bool create,
                          int *fd, struct errinfo *info) NODISCARD;
void file_close(const struct file_sys *fs, int *fd); /* sets it to FILE_NO; a no-op on FILE_NO */

/* Exactly len bytes, or an error: a file that ends early is ERR_CORRUPT, an offset beyond INT64_MAX
 * is ERR_INVALID. After file_sync fails, the data must be considered lost: do not call it again,
 * rewrite the data. */
enum err file_read_at(const struct file_sys *fs, int fd, void *buf, size_t len, uint64_t offset,
                      struct errinfo *info) NODISCARD;
enum err file_write_at(const struct file_sys *fs, int fd, const void *buf, size_t len,
                       uint64_t offset, struct errinfo *info) NODISCARD;
enum err file_sync(const struct file_sys *fs, int fd, struct errinfo *info) NODISCARD;

/* One call each, retrying EINTR, with an `enum err` for errno. Names are below `dir`; links are
 * never followed for the last component, and the caller must have checked those before it. */
enum err file_stat(const struct file_sys *fs, int fd, struct stat *st,
                   struct errinfo *info) NODISCARD;
enum err file_stat_at(const struct file_sys *fs, int dir, const char *name, struct stat *st,
                      struct errinfo *info) NODISCARD;
enum err file_rename_at(const struct file_sys *fs, int from_dir, const char *from, int to_dir,
                        const char *to, struct errinfo *info) NODISCARD;
enum err file_remove_at(const struct file_sys *fs, int dir, const char *name, bool is_dir,
                        struct errinfo *info) NODISCARD;
enum err file_make_dir_at(const struct file_sys *fs, int dir, const char *name,
                          /* mode 0700; an existing one is ERR_EXISTS */
                          struct errinfo *info) NODISCARD;
/* Reserves `len` (>= 1) bytes for a file. It is no error if the file system cannot: the writes will
 * fail then. */
enum err file_allocate(const struct file_sys *fs, int fd, uint64_t len,
                       struct errinfo *info) NODISCARD;
enum err file_truncate(const struct file_sys *fs, int fd, uint64_t len,
                       struct errinfo *info) NODISCARD;
/* An exclusive lock of the open file, released by its close; ERR_BUSY when it is taken. */
enum err file_lock(const struct file_sys *fs, int fd, struct errinfo *info) NODISCARD;
enum err file_set_time(const struct file_sys *fs, int fd, uint64_t wall_ns,
                       struct errinfo *info) NODISCARD;
/* What an unprivileged user can still write on the file system of `fd`. */
enum err file_free_bytes(const struct file_sys *fs, int fd, uint64_t *bytes,
                         struct errinfo *info) NODISCARD;
enum err file_list(const struct file_sys *fs, int dir, file_entry_fn *fn, void *arg,
                   struct errinfo *info) NODISCARD;

/* Reads a whole regular file of at most `limit` bytes, NUL-terminated; *data is freed with
 * mem_free. ERR_LIMIT when larger, ERR_INVALID when it is not a regular file. */
enum err file_read_all(const struct file_sys *fs, int dir, const char *name, size_t limit,
                       char **data, size_t *len, struct errinfo *info) NODISCARD;

/* Replaces `name` (directly below `dir`, not a path) so that after any crash it has the old or the
 * new content: temporary name, write, fsync, rename, fsync of the directory. After a failure it has
 * the old content, or the new if only the last step failed; the temporary file is gone unless even
 * its removal failed. `mode` as for open(2), the umask applies. */
enum err file_replace(const struct file_sys *fs, int dir, const char *name, const void *data,
                      size_t len, mode_t mode, struct errinfo *info) NODISCARD;
