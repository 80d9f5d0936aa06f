/*
 * ssd_dir.h: the directory of the SSD tier as names and handles: where each file is, and how it is
 * created and removed. Knows nothing about content.
 *
 *      DIR/lock                 held by the process that may write
 *      DIR/catalogue            see ssd_catalogue.h
 *      DIR/tmp/0123...cdef.tmp  being written
 *      DIR/ab/cd/abcd....hobj   objects (object_path.h)
 *      DIR/quarantine/          a few damaged objects, kept for diagnosis
 *
 * Every name is opened component by component below a handle, never through a symbolic link. Files
 * have mode 0600, directories 0700. A leaf directory (DIR/ab/cd) is removed with its last file, so
 * that the number of directories stays in proportion to the stored objects.
 *
 * Threads: any; the struct is read-only after open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"

enum {
    SSD_DIR_TOPS = 256,          /* DIR/00 to DIR/ff */
    SSD_DIR_BLOCK_BYTES = 4096,  /* minimum size of a file or directory on disk */
    SSD_DIR_QUARANTINE_MAX = 16, /* at most this many files are kept; others are removed */
    SSD_DIR_TEMP_BYTES = 32,
};

/* A temporary file of an earlier process that could not be removed. */
struct ssd_dir_left {
    struct ssd_dir_left *next;
    char *name;
    uint64_t bytes; /* of its blocks */
};

struct ssd_dir {
    const struct file_sys *fs;
    int root, tmp, quarantine, lock; /* the last three are FILE_NO when read-only */
    bool read_only;
    uint64_t temps_removed; /* temporary files of a dead process */
    struct ssd_dir_left *left;
};

/* Opens DIR, creating it if needed, and takes its lock; ERR_BUSY when another process has it. With
 * `read_only` nothing is created, locked or removed. Temporary files of a dead process are removed;
 * those that cannot be removed are in `left`. */
enum err ssd_dir_open(struct ssd_dir *dir, const struct file_sys *fs, const char *path,
                      bool read_only, struct errinfo *info) NODISCARD;
void ssd_dir_close(struct ssd_dir *dir); /* a zeroed or closed one is allowed */

/* Opens a regular file for reading, with O_DIRECT if `direct` is set and supported; *direct returns
 * whether it is. ERR_NOT_FOUND; ERR_INVALID when its name is not a regular file. */
enum err ssd_dir_open_object(const struct ssd_dir *dir, const struct hash256 *key, bool *direct,
                             int *fd, struct stat *st, struct errinfo *info) NODISCARD;

/* Creates a file in tmp/, then renames it to its name, replacing an existing one. */
enum err ssd_dir_create_temp(const struct ssd_dir *dir, char name[SSD_DIR_TEMP_BYTES], int *fd,
                             struct errinfo *info) NODISCARD;
enum err ssd_dir_publish(const struct ssd_dir *dir, const char *temp, const struct hash256 *key,
                         struct errinfo *info) NODISCARD;
enum err ssd_dir_discard(const struct ssd_dir *dir, const char *temp,
                         struct errinfo *info) NODISCARD;

/* Moves the file into quarantine (*kept) if no file of that name is there and all of them stay
 * within `quarantine_max` bytes; otherwise removes it. A missing file is no error. */
enum err ssd_dir_remove(const struct ssd_dir *dir, const struct hash256 *key,
                        uint64_t quarantine_max, bool *kept, struct errinfo *info) NODISCARD;
void ssd_dir_empty_quarantine(const struct ssd_dir *dir); /* as far as possible */
/* The contents of the quarantine. */
enum err ssd_dir_quarantined(const struct ssd_dir *dir, uint64_t *files, uint64_t *bytes,
                             struct errinfo *info) NODISCARD;

/* One entry below DIR/ab. `regular` files have a key; other entries have none, and are not ours. */
struct ssd_dir_entry {
    bool regular;
    struct hash256 key;
    struct stat st;
};
typedef void (*ssd_dir_fn)(const struct ssd_dir_entry *entry, void *arg);

/* Lists every entry below DIR/<top>. On error, some entries may be missing although others were
 * reported. */
enum err ssd_dir_list(const struct ssd_dir *dir, unsigned top, ssd_dir_fn fn, void *arg,
                      struct errinfo *info) NODISCARD;
/* Which of the DIR/<top> exist. */
enum err ssd_dir_list_tops(const struct ssd_dir *dir, bool tops[SSD_DIR_TOPS],
                           struct errinfo *info) NODISCARD;
