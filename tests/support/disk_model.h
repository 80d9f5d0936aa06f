/*
 * disk_model.h: a disk in memory that can lose its power. For tests of what survives.
 *
 * The table (disk_model_sys) is a small file system: directories, regular files, locks, times.
 * Every change is also an event of a log: bytes written, a size set, a name that comes or goes, a
 * sync. disk_model_crash takes the log up to some event and makes another disk of it, as one could
 * be found after a power failure: what was synced is there; of the rest, by `how`, any part may be
 * missing, come in another order, be torn between two sectors, or be something else. This is more
 * than a journaling file system would do to us: a rename may leave both names, or none.
 *
 * The new disk can be used, and crash, like any other.
 *
 * Threads: any (own lock).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct disk_model;

/* An empty one; names are below AT_FDCWD, and have one part. */
struct disk_model *disk_model_create(void);
void disk_model_destroy(struct disk_model **disk); /* NULL is fine */
const struct file_sys *disk_model_sys(struct disk_model *disk);

/* How many changes there were. */
size_t disk_model_events(struct disk_model *disk);

/* What may happen to a change that was not synced. */
enum disk_crash {
    /* a write is missing: the old bytes, or zeros where there were none, or a shorter file */
    DISK_CRASH_DROP = 1 << 0,
    DISK_CRASH_REORDER = 1 << 1, /* writes of one file reach it in any order */
    DISK_CRASH_TEAR = 1 << 2,    /* some sectors of a write are missing */
    DISK_CRASH_GARBAGE = 1 << 3, /* some sectors contain random bytes */
    DISK_CRASH_NAMES = 1 << 4,   /* a name did not come, or did not go */
    DISK_CRASH_ALL = (1 << 5) - 1,
};

/* The disk after the power went behind the first `at` events. */
struct disk_model *disk_model_crash(struct disk_model *disk, size_t at, unsigned how,
                                    uint64_t seed);
