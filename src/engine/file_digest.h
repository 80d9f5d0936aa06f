/*
 * file_digest.h: digests of whole files, computed by several threads and cached by file identity.
 *
 * The digest of a file is BLAKE3 of its size and of the BLAKE3 digests of its chunks of 16 MiB, so
 * that threads can work on one file in parallel. Every byte counts.
 *
 * MEMORY. A folder may keep the digests of up to 1,024 files under the name `digests`. The key is
 * the path, device, inode, size, modification time and change time. A program can set the
 * modification time, but not the change time. A digest is not stored if its file changed less than
 * 2 seconds before the reading began: file systems with coarse clocks could hide another change. A
 * damaged memory counts as empty. Failing to write it is not an error; it is logged.
 *
 * Threads: start, wait and finish belong to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"

struct clock;
struct file_sys;
struct log;

/* Identifies one version of a file without reading it. */
struct file_identity {
    uint64_t device, inode, bytes, modified_ns, changed_ns;
};

/* Follows links. ERR_INVALID: not a regular file. */
enum err file_identity_of(const struct file_sys *fs, const char *path,
                          struct file_identity *identity, struct errinfo *info) NODISCARD;

struct file_digest; /* the digests of some files, being computed */

struct file_digest_part {
    const char *path; /* for the memory, and to check that it still names this file */
    int fd;           /* stays open until the end */
};

struct file_digest_options {
    const struct file_sys *fs;
    const char *memory_dir;    /* created when missing; NULL = nothing is cached */
    const struct clock *clock; /* the wall time is compared with change times */
    struct log *log;           /* may be NULL */
};

/* Looks up the memory and starts reading the files that it does not have. `parts` is copied,
 * their paths are not. */
enum err file_digest_start(struct file_digest **task, const struct file_digest_options *options,
                           const struct file_digest_part *parts, size_t count,
                           struct errinfo *info) NODISCARD;
uint64_t
file_digest_bytes(const struct file_digest *task); /* to be read in all; 0 = all are cached */
uint64_t file_digest_read(const struct file_digest *task); /* so far */
/* Waits for the threads, at most `timeout_ns`. True when they are done. */
bool file_digest_wait(struct file_digest *task, uint64_t timeout_ns);

/* Waits, checks that every path still names the same, unchanged file, caches, and ends the task.
 * `out` has room for `count` digests.
 *   ERR_BUSY     a file was changed or replaced meanwhile
 *   ERR_CORRUPT  a file has become shorter
 *   ERR_IO       a file cannot be read */
enum err file_digest_finish(struct file_digest **task, struct hash256 *out,
                            struct errinfo *info) NODISCARD;
/* Ends it early. A no-op on NULL. */
void file_digest_cancel(struct file_digest **task);
