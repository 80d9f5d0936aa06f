/*
 * ssd_impl.h: the inside of the SSD tier, shared by its files and by nobody else.
 *
 *      tier_ssd.c     the table of a tier: what callers do                    ssd_writer.c   puts: queue, threads, one file from start to end
 *      ssd_table.c    entries, their states, busy keys                        ssd_reader.c   gets: queue, threads, verification
 *      ssd_order.c    the order of use, shares, eviction                      ssd_janitor.c  unlinks, catalogue, times of files, second looks
 *      ssd_recover.c  the start
 *
 *                     publish (writer)                   doom: drop, eviction, damage (table)
 *      [no entry] ------------------------> LIVE ---------------------------------------------> DOOMED --reap: unlink--> [no entry]
 *           '---- recover --> LIVE, FOREIGN  '-- replaced by a put, or its file is missing -----------------------------------^
 *
 * Numbered, and relied upon:
 *  S1  An entry is in `table` (LIVE, FOREIGN) or in `doomed`, and there is a file for it, or was
 *      one when we last looked.
 *  S2  While a key is in `busy`, one thread alone changes what lies under its name: a writer or a
 *      reaper.
 *  S3  account covers every file from before it is made until after it is removed.
 *  S4  A put that a drop came after is never LIVE (keeps I55).
 *
 * One lock guards all of it, and is never held across I/O, hashing or a callback.
 */
#ifndef HEARTH_TIER_SSD_IMPL_H
#define HEARTH_TIER_SSD_IMPL_H

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
#include "tier/ssd_order.h"
#include "tier/tier_ssd.h"

enum {
    SSD_UNLINKS_PER_PUT = 32, /* I61 */
    SSD_THREADS_MAX = 64,
    SSD_READS_MAX = 1 << 16, /* that wait; one more is TIER_ERROR */
    /* of the cap: one part in so many, and no more, is for damaged files */
    SSD_QUARANTINE_SHARE = 8,
    SSD_BLIND_DROPS_MAX = 1 << 16,
    SSD_OWNERS_MAX = 64,  /* spaces with a share, and all others as one */
    SSD_STAMP_MIN_S = 60, /* the time of a file is written no more often */
};

enum ssd_state { SSD_LIVE, SSD_FOREIGN, SSD_DOOMED };

struct ssd_entry {
    struct map_node by_key;      /* in `table` or in `doomed` */
    struct list_node link;       /* in the owner's `lru`, or in `reapable` while nobody reaps it */
    struct list_node stale_link; /* in `stale`, when its file's time is behind */
    struct ssd_owner *owner;     /* LIVE and FOREIGN */
    uint64_t space;              /* ssd_space_id; 0 when FOREIGN */
    uint64_t order;              /* of use among all */
    struct hash256 key;
    struct hash128 digest; /* LIVE */
    uint64_t bytes;        /* of the payload; LIVE */
    uint64_t charge;       /* in the account */
    uint64_t used_wall_ns;
    uint64_t stamped_wall_ns; /* the file's time */
    uint64_t generation;      /* of the content under this key */
    uint32_t depth;           /* the last token that it is about; UINT32_MAX: not known */
    enum ssd_state state;
    bool verified; /* LIVE: its bytes were written by us, or read and right */
    bool damaged;  /* DOOMED: into quarantine */
    /* DOOMED: not an object but this file in tmp/, which could not be removed at once */
    char *temp;
};

/* A key whose file is being changed (S2). Lives on the stack of whoever does it. */
struct ssd_busy {
    struct list_node link;
    struct hash256 key;
};

struct ssd_put {
    struct list_node link; /* queued or running */
    struct tier_meta meta; /* its tokens are those below */
    const void *data;
    tier_done_fn done;
    void *arg;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t charge;   /* of the file and its leaf */
    uint64_t reserved; /* that, its record and its top directory */
    bool unwanted;     /* dropped, or replaced by a later put, or the end of time to write */
    int32_t tokens[];
};

struct ssd_read {
    struct list_node link;
    uint64_t id;
    struct hash256 key;
    uint64_t generation;
    void *dst; /* NULL: it is verified, and delivered to nobody */
    uint64_t capacity;
    tier_done_fn done;
    void *arg;
    uint64_t used_wall_ns; /* when it was read */
    bool cancelled;
};

/* Memory that a thread reads headers into, kept from one to the next. */
struct ssd_scratch {
    uint8_t *header; /* aligned for O_DIRECT */
    uint32_t header_cap;
    int32_t *tokens;
    uint32_t tokens_cap;
    uint8_t *piece; /* of a payload that is delivered to nobody; NULL until one was */
};

struct tier_ssd {
    struct tier tier;
    struct tier_ssd_options options; /* with the defaults filled in */
    struct ssd_dir dir;
    struct ssd_format format;
    uint64_t seed;
    struct thread threads[SSD_THREADS_MAX];
    unsigned threads_count;

    struct lock lock;
    struct cond for_writers, for_readers, for_janitor, for_room, for_idle, for_hurry;
    bool held GUARDED_BY(lock);
    bool closing GUARDED_BY(lock); /* nothing new is taken */
    bool stop GUARDED_BY(lock);    /* threads end */
    struct map table GUARDED_BY(lock), doomed GUARDED_BY(lock);
    struct list reapable GUARDED_BY(lock), busy GUARDED_BY(lock);
    struct ssd_owner owners[SSD_OWNERS_MAX] GUARDED_BY(lock); /* the first is the common one */
    size_t owners_count GUARDED_BY(lock);
    uint64_t uses GUARDED_BY(lock);
    struct list stale GUARDED_BY(lock); /* entries whose file's time is behind */
    uint64_t live_count GUARDED_BY(lock), doomed_count GUARDED_BY(lock);
    uint64_t generation GUARDED_BY(lock);
    struct ssd_account account GUARDED_BY(lock);
    struct list puts GUARDED_BY(lock), puts_running GUARDED_BY(lock);
    uint64_t puts_bytes GUARDED_BY(lock);  /* of those that are queued */
    unsigned puts_ending GUARDED_BY(lock); /* whose callbacks are being made */
    unsigned flushes GUARDED_BY(lock);     /* that wait for all puts */
    struct list reads GUARDED_BY(lock), reads_running GUARDED_BY(lock);
    uint64_t read_id GUARDED_BY(lock);
    struct buf records GUARDED_BY(lock);      /* for the catalogue */
    uint64_t records_count GUARDED_BY(lock);  /* of those and in it, at most */
    struct ssd_image *image GUARDED_BY(lock); /* of the start, until somebody went through it */
    unsigned image_users GUARDED_BY(lock);
    bool tops[SSD_DIR_TOPS] GUARDED_BY(lock); /* directories that are there */
    /* those that could not be listed: we are blind there */
    bool unread[SSD_DIR_TOPS] GUARDED_BY(lock);
    unsigned unread_count GUARDED_BY(lock);
    unsigned reaping GUARDED_BY(lock);     /* files being removed */
    uint64_t reaped GUARDED_BY(lock);      /* tries that ended */
    bool failing GUARDED_BY(lock);         /* the last write was lost */
    uint64_t retry_at_ns GUARDED_BY(lock); /* when the janitor tries again what failed */
    struct tier_stats stats GUARDED_BY(lock);
    struct tier_ssd_stats counters GUARDED_BY(lock);

    struct ssd_catalogue catalogue; /* the janitor's, once it runs */
};

/* ---- ssd_table.c ---- */

/* Such a file may be of use to somebody else, and is left alone. */
bool ssd_is_foreign(enum ssd_result result);
uint64_t ssd_charge(uint64_t file_bytes); /* a file's blocks and its leaf directory */
/* LIVE or FOREIGN */
struct ssd_entry *ssd_find_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
struct ssd_entry *ssd_find_live_locked(struct tier_ssd *ssd, const struct hash256 *key)
    REQUIRES(lock);
bool ssd_is_doomed_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
/* Takes the entry over: it is LIVE or FOREIGN now, the most recent of all. Its key must not be in
 * the table. */
void ssd_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* A key that may lie where nobody could look: its file goes, and is not found when somebody can. */
void ssd_doom_unseen_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
/* What lies under the name was replaced or is gone: forgets a table's or a doomed entry of the key.
 */
void ssd_forget_locked(struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
/* Takes an entry that is in no table over for the janitor. */
void ssd_add_doomed_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* Not found any more; the file goes. In a directory that is read only it is forgotten, and stays.
 */
void ssd_doom_locked(struct tier_ssd *ssd, struct ssd_entry *entry, bool damaged) REQUIRES(lock);
bool ssd_is_busy_locked(const struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock);
void ssd_set_busy_locked(struct tier_ssd *ssd, struct ssd_busy *busy, const struct hash256 *key)
    REQUIRES(lock);
void ssd_unset_busy_locked(struct tier_ssd *ssd, struct ssd_busy *busy) REQUIRES(lock);
void ssd_table_free(struct tier_ssd *ssd); /* all entries, at the end */

/* ---- ssd_writer.c ---- */

bool ssd_put(struct tier *tier, const struct tier_meta *meta, const void *data, tier_done_fn done,
             void *arg);
void ssd_writer_run(void *ssd);
/* Marks the puts of a key, queued or running, as unwanted; queued ones are moved to `out`, to be
 * ended by ssd_end_puts. */
/* NULL: of all keys */
void ssd_unwant_locked(struct tier_ssd *ssd, const struct hash256 *key, struct list *out)
    REQUIRES(lock);
void ssd_end_puts(struct list *puts); /* TIER_CANCELLED */

/* ---- ssd_reader.c ---- */

void ssd_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
             tier_done_fn done, void *arg, struct tier_op **op);
void ssd_verify(struct tier *tier, const struct hash256 *key, tier_done_fn done, void *arg);
void ssd_cancel(struct tier *tier, struct tier_op *op);
void ssd_reader_run(void *ssd);
void ssd_cancel_all(struct tier_ssd *ssd); /* at the end */

void ssd_scratch_fini(struct ssd_scratch *scratch);
/* Room for a header, and for its tokens; false: no memory. */
bool ssd_scratch_reserve_header(struct ssd_scratch *scratch, uint32_t bytes) NODISCARD;
bool ssd_scratch_reserve_tokens(struct ssd_scratch *scratch, uint32_t count) NODISCARD;
/* Reads and verifies the header of an open file. An err: the world, nothing is known. ERR_OK:
 * *result tells, and *header is filled with SSD_OK; its tokens, and the header's bytes, are the
 * scratch's. */
enum err ssd_read_header(const struct tier_ssd *ssd, int fd, uint64_t file_bytes,
                         const struct hash256 *key, struct ssd_scratch *scratch,
                         enum ssd_result *result, struct ssd_header *header) NODISCARD;
/* The same from bytes that are in the scratch already. */
enum ssd_result ssd_decode_header(const struct tier_ssd *ssd, uint32_t len, uint64_t file_bytes,
                                  const struct hash256 *key, struct ssd_scratch *scratch,
                                  struct ssd_header *header) NODISCARD;

/* ---- ssd_recover.c ---- */

/* Fills the table. */
void ssd_recover(struct tier_ssd *ssd);
/* Tries again what could not be read; true when nothing is left. */
bool ssd_rescan(struct tier_ssd *ssd);
void ssd_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg), void *arg);
/* At the end: leaves out of the catalogue what is gone, when that is the larger part. */
void ssd_tidy_catalogue(struct tier_ssd *ssd);
/* The same for a process that goes on, by the janitor: else what is gone would fill the cap (keeps
 * I60). */
bool ssd_catalogue_is_due_locked(const struct tier_ssd *ssd) REQUIRES(lock);
void ssd_renew_catalogue(struct tier_ssd *ssd);

/* ---- ssd_janitor.c ---- */

void ssd_janitor_run(void *ssd);
/* Leaves the record of a stored object for the catalogue. */
void ssd_add_record_locked(struct tier_ssd *ssd, const void *header, uint32_t header_bytes)
    REQUIRES(lock);
enum ssd_reap { SSD_REAP_DONE, SSD_REAP_NONE, SSD_REAP_FAILED };
/* Removes the file of one doomed entry whose key is not busy, or is `mine`, which the caller set
 * busy (NULL: none). */
enum ssd_reap ssd_reap_one(struct tier_ssd *ssd, const struct hash256 *mine);
/* Waits, for a while, until one of those who are removing files is done. True when one was since
 * `reaped` of them were. */
bool ssd_wait_for_reapers(struct tier_ssd *ssd, uint64_t reaped);
void ssd_reap_rest(struct tier_ssd *ssd); /* at the end */

#endif
