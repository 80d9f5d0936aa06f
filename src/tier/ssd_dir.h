/*
 * ssd_dir.h: the directory of the SSD tier as names and handles: which file is where, and how one
 * comes and goes. Knows no content.
 *
 *      DIR/lock                 held by the process that may write
 *      DIR/catalogue            of ssd_catalogue.h
 *      DIR/tmp/0123...cdef.tmp  being written
 *      DIR/ab/cd/abcd....hobj   objects (ssd_format_name)
 *      DIR/quarantine/          damaged ones, a few, for whoever wants to know why
 *
 * Every name is opened part by part below a handle, and no part through a symbolic link. Files have
 * mode 0600, directories 0700. A leaf directory (DIR/ab/cd) goes with its last file, so that
 * directories, too, are in proportion to what is stored.
 *
 * Threads: any; the struct is read-only after open.
 */
#ifndef HEARTH_TIER_SSD_DIR_H
#define HEARTH_TIER_SSD_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"

enum {
    SSD_DIR_TOPS = 256,          /* DIR/00 to DIR/ff */
    SSD_DIR_BLOCK_BYTES = 4096,  /* what a file or directory takes at least */
    SSD_DIR_QUARANTINE_MAX = 16, /* files; others are removed */
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
    struct ssd_dir_left *left;
};

/* Opens DIR, made when it is not there, and takes its lock; ERR_BUSY when another process has it.
 * With `read_only` nothing is made, locked or removed. Temporary files of a process that died are
 * removed: *removed says how many; those that cannot be are in `left`. */
enum err ssd_dir_open(struct ssd_dir *dir, const struct file_sys *fs, const char *path,
                      bool read_only, uint64_t *removed, struct errinfo *info) NODISCARD;
void ssd_dir_close(struct ssd_dir *dir); /* a zeroed or closed one is fine */

/* A regular file for reading, past the page cache if `direct` and possible; *direct says if it is.
 * ERR_NOT_FOUND; ERR_INVALID when there is something else under its name. */
enum err ssd_dir_open_object(const struct ssd_dir *dir, const struct hash256 *key, bool *direct,
                             int *fd, struct stat *st, struct errinfo *info) NODISCARD;

/* A new file in tmp/, then under its name: replaces what is there. */
enum err ssd_dir_create_temp(const struct ssd_dir *dir, char name[SSD_DIR_TEMP_BYTES], int *fd,
                             struct errinfo *info) NODISCARD;
enum err ssd_dir_publish(const struct ssd_dir *dir, const char *temp, const struct hash256 *key,
                         struct errinfo *info) NODISCARD;
enum err ssd_dir_discard(const struct ssd_dir *dir, const char *temp,
                         struct errinfo *info) NODISCARD;

/* The file is gone then; that there was none is fine. */
enum err ssd_dir_remove(const struct ssd_dir *dir, const struct hash256 *key,
                        struct errinfo *info) NODISCARD;
/* The same, but it lies in quarantine if there is none of its name and room for one more within
 * `bytes_max` of all: *kept. */
enum err ssd_dir_quarantine(const struct ssd_dir *dir, const struct hash256 *key,
                            uint64_t bytes_max, bool *kept, struct errinfo *info) NODISCARD;
void ssd_dir_empty_quarantine(const struct ssd_dir *dir); /* as far as it can be */
/* What lies there. */
enum err ssd_dir_quarantined(const struct ssd_dir *dir, uint64_t *files, uint64_t *bytes,
                             struct errinfo *info) NODISCARD;

/* One entry below DIR/ab. `regular` files have a key; whatever else there is has none, and is not
 * ours. */
struct ssd_dir_entry {
    bool regular;
    struct hash256 key;
    struct stat st;
};
typedef void (*ssd_dir_fn)(const struct ssd_dir_entry *entry, void *arg);

/* Every entry below DIR/<top>. An error: some may be missing, and others have been seen. */
enum err ssd_dir_list(const struct ssd_dir *dir, unsigned top, ssd_dir_fn fn, void *arg,
                      struct errinfo *info) NODISCARD;
/* Which of DIR/<top> are there. */
enum err ssd_dir_list_tops(const struct ssd_dir *dir, bool tops[SSD_DIR_TOPS],
                           struct errinfo *info) NODISCARD;

#endif
