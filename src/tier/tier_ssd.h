/*
 * tier_ssd.h: a tier in a directory: objects as files (docs/ssd-format.md) that outlive the
 * process. It may lose objects, but never returns wrong bytes.
 *
 *      put --> queue --> writers: header, digest --> DIR/tmp/x --> rename to DIR/ab/cd/... --> done
 *              (nothing is copied)
 *      get --> queue --> readers: directly into the caller's memory, from the page cache if it has
 *              the bytes, else past it; verified piece by piece --> done
 *      drop, eviction --> janitor: unlinks, catalogue, retries of what could not be read
 *
 * An object is found (`has`, `get`, `each`) exactly when it is complete under its name (keeps I67).
 * Bytes that do not match their digests are never delivered; their file goes into quarantine. Files
 * of another installation, seal or version are left alone; they count, and are evicted when they
 * are old and room is needed.
 *
 * Everything in the directory counts against bytes_max at all times, temporary files included
 * (keeps I93). When it is full, the least recently used objects are evicted (the deepest first; at
 * most 32 per put, keeps I61) without notice: a get for one of them is a miss. A full or failing
 * disk refuses or loses single puts (a lost one logs an ERROR, keeps I65); the next put tries
 * again.
 *
 * Threads: any (own lock, rank LOCK_RANK_TIER); callbacks come from the tier's own threads, or from
 * within put and get.
 */
#pragma once

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
    const char *path;   /* the directory; created if missing */
    struct hash256 key; /* the installation's secret */
    /* encrypts objects; NULL = unencrypted. Read only during open. Objects of the other kind are
     * left alone */
    const struct hash256 *seal_key;
    uint64_t bytes_max;     /* for everything in the directory */
    uint64_t free_min;      /* of the file system, to be left free */
    uint64_t day_bytes_max; /* to be written per day; 0 = any */
    bool second_sighting;   /* write only objects that are offered a second time */
    bool keep_all;          /* when full, refuse puts instead of evicting */
    /* write a BLAKE3 MAC of each payload; objects without one are not read */
    bool payload_mac;
    /* take no lock and change nothing: for use beside a process that writes */
    bool read_only;
    bool sync;                 /* fsync each object before it gets its name */
    bool no_direct;            /* read through the page cache */
    unsigned writers, readers; /* threads; 0 = 2, and 4 to 8 by cores */
    uint64_t queue_items_max;  /* queued puts; 0 = 1024 */
    uint64_t queue_bytes_max;  /* their bytes, in the callers' memory; 0 = 1 GiB */
    /* writers do not rest while more bytes are queued; 0 = half of queue_bytes_max */
    uint64_t rest_bytes_max;
    uint64_t close_wait_ns; /* how long close may continue writing */
    /* delay before failures in the directory are retried; 0 = 1 s */
    uint64_t retry_ns;
    const struct file_sys *fs; /* NULL = the real file system */
    struct clock *clock;       /* NULL = the real clock */
    struct log *log;           /* may be NULL */
};

/* Opens the directory and reads its catalogue, or its files. ERR_BUSY when another process writes
 * there. Damaged, foreign or odd files are counted, and are never an error. */
enum err tier_ssd_open(struct tier **tier, const struct tier_ssd_options *options,
                       struct errinfo *info) NODISCARD;

/* X(name, help). Counted since open. */
#define TIER_SSD_COUNTER_TABLE(X)                                                                  \
    X(refused_queue, "puts refused for a full queue")                                              \
    X(refused_cap, "puts refused for the byte cap")                                                \
    X(refused_day, "puts refused for the daily budget")                                            \
    X(refused_sighting, "puts refused at their first sighting")                                    \
    X(refused_limit, "puts refused for their size or fields")                                      \
    X(refused_memory, "puts refused for lack of memory")                                           \
    X(refused_mode, "puts refused: read-only, closing, or not all of the directory could be read") \
    X(rests, "rests of writers between two puts")                                                  \
    X(same, "puts of objects that were already stored")                                            \
    X(full, "puts abandoned for lack of disk space")                                               \
    X(lost, "puts lost to an error")                                                               \
    X(evicted, "objects evicted")                                                                  \
    X(unlinks, "files removed")                                                                    \
    X(unlink_failures, "failed attempts to remove a file")                                         \
    X(quarantined, "damaged files moved aside")                                                    \
    X(foreign, "files left alone: of another installation, version or setting, or unreadable")     \
    X(odd, "directory entries that are not ours")                                                  \
    X(temps_removed, "temporary files of an earlier process, removed")                             \
    X(broken, "files found damaged at the start")                                                  \
    X(recovered, "objects found at the start")                                                     \
    X(records_used, "of those, objects found in the catalogue alone")                              \
    X(rescans, "retries of directories that could not be read at the start")                       \
    X(stamps, "file times updated to the last use")

struct tier_ssd_stats {
#define X(name, help) uint64_t name;
    TIER_SSD_COUNTER_TABLE(X)
#undef X
    /* counts in addition to the objects */
    uint64_t bytes_foreign, bytes_doomed, bytes_reserved, bytes_overhead;
};

void tier_ssd_stats(struct tier *tier, struct tier_ssd_stats *stats);

/* While held (true), new puts and gets stay in their queues. For tests of queued requests. */
void tier_ssd_hold(struct tier *tier, bool hold);
