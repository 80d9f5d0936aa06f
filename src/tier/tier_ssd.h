/*
 * tier_ssd.h: a tier in a directory: objects as files (docs/ssd-format.md) that outlive the
 * process. It may forget, it may never lie.
 *
 *      put --> queue --> writers: header, digest --> DIR/tmp/x --> rename to DIR/ab/cd/... --> done            (nothing is copied)
 *      get --> queue --> readers: straight into the caller's memory, past the page cache, verified piece by piece --> done
 *      drop, eviction --> janitor: unlinks, catalogue, a look at what could not be read before
 *
 * Found (`has`, `get`, `each`) is exactly what lies complete under its name (keeps I67). Bytes that
 * do not fit their digests are never delivered; their file goes into quarantine. Files of another
 * installation, seal or version are left alone; they count, and leave when they are old and the
 * room is needed.
 *
 * Everything in the directory counts against bytes_max, at every moment, temporary files included
 * (keeps I93). When it is full, what was not used for long leaves (the deepest first; at most 32
 * per put, keeps I61), and nobody is told: to ask for one of them is a miss. A full or failing disk
 * refuses or loses single puts (a lost one is an ERROR line, keeps I65), and is tried again with
 * the next.
 *
 * Threads: any (own lock, rank LOCK_RANK_TIER); callbacks come from the tier's own threads, or from
 * within put and get.
 */
#ifndef HEARTH_TIER_TIER_SSD_H
#define HEARTH_TIER_TIER_SSD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/hash.h"
#include "tier/tier.h"

struct clock;
struct file_sys;
struct log;

struct tier_ssd_options {
    const char *path;   /* of the directory, which is made */
    struct hash256 key; /* of the installation, secret */
    /* encrypts objects; NULL = they lie in the clear. Read during open only. The other kind is left
     * alone */
    const struct hash256 *seal_key;
    uint64_t bytes_max;        /* of everything in it */
    uint64_t free_min;         /* of the file system, to be left free */
    uint64_t day_bytes_max;    /* to be written per day; 0 = any */
    bool second_sighting;      /* write what is offered a second time only */
    bool keep_all;             /* when full refuse puts, instead of evicting */
    bool payload_mac;          /* a BLAKE3 MAC of each payload; objects without one are not read */
    bool read_only;            /* take no lock, change nothing: beside a process that writes */
    bool sync;                 /* fsync each object before it has its name */
    bool no_direct;            /* read through the page cache */
    unsigned writers, readers; /* threads; 0 = 2 and 4 */
    uint64_t queue_items_max;  /* puts that wait; 0 = 1024 */
    uint64_t queue_bytes_max;  /* of them, in the callers' memory; 0 = 1 GiB */
    /* puts that wait beyond which writers do not rest any more; 0 = half of queue_bytes_max */
    uint64_t rest_bytes_max;
    uint64_t queue_wait_ns; /* how long a put may wait for room in the queue */
    /* after that: write in the thread of the caller, instead of refusing */
    bool write_inline;
    uint64_t close_wait_ns; /* how long close may go on writing */
    /* after which what failed in the directory is tried again; 0 = 1 s */
    uint64_t retry_ns;
    const struct file_sys *fs; /* NULL = the kernel's */
    struct clock *clock;       /* NULL = the machine's */
    struct log *log;           /* may be NULL */
};

/* Opens the directory and reads its catalogue, or its files. ERR_BUSY when another process writes
 * there. What is damaged, foreign or odd in it is counted, never an error. */
enum err tier_ssd_open(struct tier **tier, const struct tier_ssd_options *options,
                       struct errinfo *info) NODISCARD;

/* X(name, help). Counted since open. */
#define TIER_SSD_COUNTER_TABLE(X)                                                                  \
    X(waits, "puts that waited for room in the queue")                                             \
    X(inlined, "puts written by their caller")                                                     \
    X(refused_queue, "puts refused for a full queue")                                              \
    X(refused_cap, "puts refused for the byte cap")                                                \
    X(refused_day, "puts refused for the daily budget")                                            \
    X(refused_sighting, "puts refused at their first sighting")                                    \
    X(refused_limit, "puts refused for their size or fields")                                      \
    X(refused_memory, "puts refused for lack of memory")                                           \
    X(refused_mode, "puts refused: read-only, closing, or not all of the directory could be read") \
    X(rests, "rests that writers took between two puts")                                           \
    X(same, "puts of what was there already")                                                      \
    X(full, "puts given up for lack of room on the disk")                                          \
    X(lost, "puts lost to an error")                                                               \
    X(evicted, "objects evicted")                                                                  \
    X(unlinks, "files removed")                                                                    \
    X(unlink_failures, "files that could not be removed, each try")                                \
    X(quarantined, "damaged files moved aside")                                                    \
    X(foreign, "files left alone: of another installation, version or setting, or unreadable")     \
    X(odd, "entries of the directory that are not ours")                                           \
    X(temps_removed, "temporary files of an earlier process")                                      \
    X(broken, "files found damaged at the start")                                                  \
    X(recovered, "objects found at the start")                                                     \
    X(records_used, "of them by the catalogue alone")                                              \
    X(rescans, "tries to read what could not be read at the start")                                \
    X(stamps, "times of use written to files")

struct tier_ssd_stats {
#define X(name, help) uint64_t name;
    TIER_SSD_COUNTER_TABLE(X)
#undef X
    /* what counts beside the objects */
    uint64_t bytes_foreign, bytes_doomed, bytes_reserved, bytes_overhead;
};

void tier_ssd_stats(struct tier *tier, struct tier_ssd_stats *stats);

/* Puts and gets that come from now on stay in their queues (true), or all go on. For tests of what
 * waits. */
void tier_ssd_hold(struct tier *tier, bool hold);

/* Aborts when tables and counts contradict each other. O(n), for tests; no operation may be
 * running. */
void tier_ssd_check(struct tier *tier);

#endif
