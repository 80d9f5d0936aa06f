/*
 * ssd_impl.h: internals shared by the files of the SSD tier only.
 *
 *      tier_ssd.c     the tier's operations, open and close
 *      ssd_table.c    entries, their states, busy keys
 *      ssd_order.c    the order of use, shares, eviction
 *      ssd_recover.c  recovery at the start
 *      ssd_writer.c   puts: queue, threads, writing one file
 *      ssd_reader.c   gets: queue, threads, verification
 *      ssd_janitor.c  unlinks, catalogue, file times, retries
 *
 *                    publish (writer)          doom: drop, eviction, damage (table)
 *      [no entry] ---------------------> LIVE --------------------------------------> DOOMED
 *        ^  '-- recover --> LIVE, FOREIGN  |                                             |
 *        '--- replaced by a put, or file missing ----------------- reap: unlink ---------'
 *
 * Invariants:
 *   S1  An entry is in `table` (LIVE, FOREIGN) or in `doomed`, and its file exists, or did when we
 *       last looked.
 *   S2  While a key is in `busy`, only one thread, a writer or a reaper, changes its file.
 *   S3  account covers every file from before its creation until after its removal.
 *   S4  A put followed by a drop is never LIVE (keeps I55).
 *
 * One lock guards everything, and is never held during I/O, hashing or a callback.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "tier/ssd_account.h"
#include "tier/ssd_catalogue.h"
#include "tier/ssd_dir.h"
#include "tier/ssd_format.h"
#include "tier/tier_ssd.h"

enum {
    SSD_UNLINKS_PER_PUT = 32, /* I61 */
    SSD_THREADS_MAX = 64,
    SSD_READS_MAX = 1 << 16, /* queue limit; one more gets TIER_ERROR */
    /* damaged files may use 1/8 of the cap */
    SSD_QUARANTINE_SHARE = 8,
    SSD_BLIND_DROPS_MAX = 1 << 16,
    SSD_DROPPED_SPACES_MAX = 16,
    SSD_OWNERS_MAX = 64,  /* spaces with a share; the first slot is for all others */
    SSD_STAMP_MIN_S = 60, /* minimum time between updates of a file's time */
};

/* The objects of one space, in the order of use. */
struct ssd_owner {
    uint64_t space; /* ssd_space_id; 0: the common list */
    uint64_t share; /* bytes that others cannot evict */
    uint64_t bytes; /* the charges of its entries */
    struct list lru;
};

struct ssd_entry {
    struct map_node by_key; /* in `table` or in `doomed` */
    /* in the owner's `lru`, or in `reapable` unless it is being reaped */
    struct list_node link;
    struct list_node stale_link; /* in `stale`, when its file's time is out of date */
    struct ssd_owner *owner;     /* LIVE and FOREIGN */
    uint64_t space;              /* ssd_space_id; 0 when FOREIGN */
    uint64_t order;              /* position in the global order of use */
    struct hash256 key;
    struct hash128 digest; /* LIVE */
    uint64_t bytes;        /* of the payload; LIVE */
    uint64_t charge;       /* bytes charged to the account */
    uint64_t used_wall_ns;
    uint64_t stamped_wall_ns; /* the file's time */
    uint64_t generation;      /* changes when the content under this key does */
    uint32_t depth;           /* its last token; UINT32_MAX: unknown */
    enum ssd_share state;
    bool verified; /* LIVE: written by this process, or read and found valid */
    bool damaged;  /* DOOMED: goes into quarantine */
    /* DOOMED: set for a file in tmp/ that could not be removed at once */
    char *temp;
};

/* A key whose file is being changed (S2). Lives on the stack of that thread. */
struct ssd_busy {
    struct list_node link;
    struct hash256 key;
};

struct ssd_put {
    struct list_node link; /* queued or running */
    struct tier_meta meta; /* meta.tokens points to `tokens` below */
    const void *data;
    tier_done_fn done;
    void *arg;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t charge;    /* of the file and its leaf */
    uint64_t reserved;  /* that, plus its record and its top directory */
    uint64_t unwritten; /* of the day's budget: given back unless the write begins */
    bool unwanted;      /* dropped, replaced by a later put, or out of time while closing */
    int32_t tokens[];
};

struct ssd_read {
    struct list_node link;
    uint64_t id;
    struct hash256 key;
    uint64_t generation;
    void *dst; /* NULL: verify only */
    uint64_t capacity;
    tier_done_fn done;
    void *arg;
    uint64_t used_wall_ns; /* time of the read */
    bool cancelled;
};

/* A thread's buffers for reading headers, reused. */
struct ssd_scratch {
    uint8_t *header; /* aligned for O_DIRECT */
    uint32_t header_cap;
    int32_t *tokens;
    uint32_t tokens_cap;
    uint8_t *piece; /* payload buffer for verifying only; NULL until needed */
};

struct tier_ssd {
    struct tier tier;
    struct tier_ssd_options options; /* with defaults filled in */
    struct ssd_dir dir;
    struct ssd_format format;
    uint64_t seed;
    struct thread threads[SSD_THREADS_MAX];
    unsigned threads_count;

    struct lock lock;
    struct cond for_writers, for_readers, for_janitor, for_idle, for_hurry;
    bool held GUARDED_BY(lock);
    bool closing GUARDED_BY(lock); /* no new puts or gets */
    bool stop GUARDED_BY(lock);    /* threads must end */
    struct map table GUARDED_BY(lock), doomed GUARDED_BY(lock);
    struct list reapable GUARDED_BY(lock), busy GUARDED_BY(lock);
    struct ssd_owner owners[SSD_OWNERS_MAX] GUARDED_BY(lock); /* the first is the common one */
    size_t owners_count GUARDED_BY(lock);
    uint64_t uses GUARDED_BY(lock);
    struct list stale GUARDED_BY(lock); /* entries whose file's time is out of date */
    uint64_t live_count GUARDED_BY(lock), doomed_count GUARDED_BY(lock);
    uint64_t generation GUARDED_BY(lock);
    struct ssd_account account GUARDED_BY(lock);
    struct list puts GUARDED_BY(lock), puts_running GUARDED_BY(lock);
    uint64_t puts_bytes GUARDED_BY(lock);  /* of the queued puts */
    unsigned puts_ending GUARDED_BY(lock); /* puts whose callbacks are running */
    unsigned flushes GUARDED_BY(lock);     /* flushes that are waiting */
    struct list reads GUARDED_BY(lock), reads_running GUARDED_BY(lock);
    uint64_t read_id GUARDED_BY(lock);
    struct buf records GUARDED_BY(lock); /* to be appended to the catalogue */
    /* upper bound of those, and of those in the catalogue */
    uint64_t records_count GUARDED_BY(lock);
    /* catalogue at the start, until an `each` has read it all */
    struct ssd_image *image GUARDED_BY(lock);
    unsigned image_users GUARDED_BY(lock);
    bool tops[SSD_DIR_TOPS] GUARDED_BY(lock); /* top directories that exist */
    /* top directories that could not be listed: their content is unknown */
    bool unread[SSD_DIR_TOPS] GUARDED_BY(lock);
    unsigned unread_count GUARDED_BY(lock);
    /* spaces that were dropped meanwhile (ssd_space_id; 0: all): their files are removed when they
     * turn up */
    uint64_t dropped_spaces[SSD_DROPPED_SPACES_MAX] GUARDED_BY(lock);
    unsigned dropped_spaces_count GUARDED_BY(lock);
    unsigned reaping GUARDED_BY(lock);     /* files being removed */
    uint64_t reaped GUARDED_BY(lock);      /* attempts that ended */
    bool failing GUARDED_BY(lock);         /* the last write was lost */
    uint64_t retry_at_ns GUARDED_BY(lock); /* when the janitor retries what failed */
    struct tier_stats stats GUARDED_BY(lock);
    struct tier_ssd_stats counters GUARDED_BY(lock);

    struct ssd_catalogue catalogue; /* owned by the janitor once it runs */
};

/* ---- ssd_table.c ---- */

/* True for files that are left alone because they may be valid elsewhere. */
bool ssd_is_foreign(enum ssd_result result);
uint64_t ssd_charge(uint64_t file_bytes); /* a file's blocks and its leaf directory */
/* LIVE or FOREIGN */
struct ssd_entry *ssd_find_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
struct ssd_entry *ssd_find_live_locked(struct tier_ssd *ssd, const struct hash256 *key)
    REQUIRES(lock);
bool ssd_is_doomed_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
/* Takes ownership of the entry, LIVE or FOREIGN, as the most recently used. Its key must not be in
 * the table. */
void ssd_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* Dooms a key whose directory could not be listed: if its file turns up later, it is removed
 * instead of being found. */
void ssd_doom_unseen_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
/* Forgets the entry of a key, live or doomed, whose file was replaced or is gone. */
void ssd_forget_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
/* Hands an entry that is in no table to the janitor. */
void ssd_add_doomed_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* The object is no longer found, and its file will be removed. In a read-only directory the entry
 * is forgotten, and the file stays. */
void ssd_doom_locked(struct tier_ssd *ssd, struct ssd_entry *entry, bool damaged) REQUIRES(lock);
bool ssd_is_busy_locked(const struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
void ssd_set_busy_locked(struct tier_ssd *ssd, struct ssd_busy *busy, const struct hash256 *key)
    REQUIRES(lock);
void ssd_unset_busy_locked(struct tier_ssd *ssd, struct ssd_busy *busy) REQUIRES(lock);
void ssd_table_free(struct tier_ssd *ssd); /* all entries, when closing */

/* ---- ssd_order.c ---- */

uint64_t ssd_space_id(const struct hash256 *space);
void ssd_order_init(struct tier_ssd *ssd);
/* Adds the entry as the most recent of its space, or removes it from the order. */
void ssd_order_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
void ssd_order_remove_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* Marks it as used now, or only moves it as if it had been. */
void ssd_order_use_locked(struct tier_ssd *ssd, struct ssd_entry *entry, uint64_t wall_ns)
    REQUIRES(lock);
void ssd_order_move_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* Whether the entry, which has just turned up, is of a space that was dropped before. */
bool ssd_was_dropped_locked(const struct tier_ssd *ssd, const struct ssd_entry *entry)
    REQUIRES(lock);
/* Dooms the least recently used entries, at most `count_max`, until they add up to `bytes`. The
 * room is for an object of `space`, which cannot evict within others' shares (NULL: no particular
 * space). Returns their number. */
unsigned ssd_evict_locked(struct tier_ssd *ssd, const struct hash256 *space, uint64_t bytes,
                          unsigned count_max) REQUIRES(lock);
void ssd_drop_space(struct tier *tier, const struct hash256 *space);
void ssd_touch(struct tier *tier, const struct hash256 *keys, size_t count);
bool ssd_set_share(struct tier *tier, const struct hash256 *space, uint64_t bytes);
void ssd_stamp_some(struct tier_ssd *ssd); /* file times that are a minute out of date */
void ssd_stamp_rest(struct tier_ssd *ssd); /* when closing */

/* ---- ssd_writer.c ---- */

bool ssd_put(struct tier *tier, const struct tier_meta *meta, const void *data, tier_done_fn done,
             void *arg);
void ssd_writer_run(void *ssd);
/* Begins a write of so many bytes in the account if that leaves enough space free (keeps I64). False:
 * *missing bytes must be freed first; UINT64_MAX: call again; 0: free space is unknown. */
bool ssd_begin_write(struct tier_ssd *ssd, uint64_t bytes, uint64_t *missing) NODISCARD;
/* Marks the puts of a key (NULL: of all keys), queued or running, as unwanted. Queued ones are
 * moved to `out`, for ssd_end_puts. */
void ssd_unwant_locked(struct tier_ssd *ssd, const struct hash256 *key, struct list *out)
    REQUIRES(lock);
void ssd_end_puts(struct list *puts); /* with TIER_CANCELLED */

/* ---- ssd_reader.c ---- */

void ssd_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
             tier_done_fn done, void *arg, struct tier_op **op);
void ssd_verify(struct tier *tier, const struct hash256 *key, tier_done_fn done, void *arg);
void ssd_cancel(struct tier *tier, struct tier_op *op);
void ssd_reader_run(void *ssd);
void ssd_cancel_all(struct tier_ssd *ssd); /* when closing */

void ssd_scratch_fini(struct ssd_scratch *scratch);
/* Makes room for tokens; false: no memory. */
bool ssd_scratch_reserve_tokens(struct ssd_scratch *scratch, uint32_t count) NODISCARD;
/* Reads and verifies the header of an open file. An error is an I/O error and says nothing about
 * the object. ERR_OK: see *result; with SSD_OK *header is filled, and its tokens and header bytes
 * belong to the scratch. */
enum err ssd_read_header(const struct tier_ssd *ssd, int fd, uint64_t file_bytes,
                         const struct hash256 *key, struct ssd_scratch *scratch,
                         enum ssd_result *result, struct ssd_header *header) NODISCARD;

/* ---- ssd_recover.c ---- */

/* Fills the table. */
void ssd_recover(struct tier_ssd *ssd);
/* Retries directories that could not be listed. */
void ssd_rescan(struct tier_ssd *ssd);
void ssd_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg), void *arg);
/* When closing: removes records of missing objects from the catalogue if they are the larger
 * part. */
void ssd_tidy_catalogue(struct tier_ssd *ssd);
/* The same while running, by the janitor: otherwise such records would fill the cap (keeps I60). */
bool ssd_catalogue_is_due_locked(const struct tier_ssd *ssd) REQUIRES(lock);
void ssd_renew_catalogue(struct tier_ssd *ssd);

/* ---- ssd_janitor.c ---- */

void ssd_janitor_run(void *ssd);
/* Queues the record of a stored object for the catalogue. */
void ssd_add_record_locked(struct tier_ssd *ssd, const void *header, uint32_t header_bytes)
    REQUIRES(lock);
enum ssd_reap { SSD_REAP_DONE, SSD_REAP_NONE, SSD_REAP_FAILED };
/* Removes the file of one doomed entry whose key is not busy, or equals `mine`, which the caller
 * has set busy (NULL: none). */
enum ssd_reap ssd_reap_one(struct tier_ssd *ssd, const struct hash256 *mine);
/* Waits until a file removal ends. True when one ended after `reaped` was read. */
bool ssd_wait_for_reapers(struct tier_ssd *ssd, uint64_t reaped);
void ssd_reap_rest(struct tier_ssd *ssd); /* when closing */
