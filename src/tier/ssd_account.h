/*
 * ssd_account.h: the numbers of the SSD tier: how much may lie on the disk, and how much may be
 * written to it. No I/O, no lock.
 *
 *      bytes_max
 *      ------------------------------------------------------------------------------------.
 *      | overhead | live objects | foreign files | reserved: being written, queued | doomed | free   |
 *      '----------------------------------------------------------------------------------------------'
 *
 * A put reserves its whole room before anything is written, a removed file is counted (doomed)
 * until it is unlinked: the sum is never less than what lies in the directory, temporary files
 * included, and never above the cap (keeps I93). What is doomed does not stand in the way of a
 * reservation, since whoever writes unlinks it first; ssd_account_must_reap says how much of it
 * must go before.
 *
 * Wear: a number of bytes per day (UTC), and, if asked for, only what is offered a second time.
 *
 * Threads: the owner's lock.
 */
#ifndef HEARTH_TIER_SSD_ACCOUNT_H
#define HEARTH_TIER_SSD_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"

struct ssd_account_limits {
    uint64_t bytes_max;     /* of everything in the directory that is ours */
    uint64_t free_min;      /* of the file system, to be left to others */
    uint64_t day_bytes_max; /* to be written per day; 0 = no limit */
    bool second_sighting;   /* take a key when it is offered again only */
};

struct ssd_account {
    struct ssd_account_limits limits;
    uint64_t live, foreign, reserved, doomed, overhead;
    /* the part of `reserved` whose blocks the file system may not have counted yet */
    uint64_t writing;
    uint64_t writes_ended; /* a measure of free space is of use only while this stays */
    uint64_t day, day_bytes;
    uint64_t *sightings; /* fingerprints of keys, one per slot; NULL without second_sighting */
};

void ssd_account_init(struct ssd_account *account, const struct ssd_account_limits *limits);
void ssd_account_fini(struct ssd_account *account);

/* ---- the cap ---- */

/* How much must be evicted until `bytes` more can be reserved; UINT64_MAX when they never can. */
uint64_t ssd_account_missing(const struct ssd_account *account, uint64_t bytes);
bool ssd_account_try_reserve(struct ssd_account *account, uint64_t bytes) NODISCARD;
void ssd_account_unreserve(struct ssd_account *account, uint64_t bytes);
/* How many doomed bytes must be unlinked before another `bytes` of what is reserved may be written.
 */
uint64_t ssd_account_must_reap(const struct ssd_account *account);

enum ssd_share { SSD_SHARE_LIVE, SSD_SHARE_FOREIGN, SSD_SHARE_DOOMED, SSD_SHARE_OVERHEAD };
/* What was found, and what is gone. A recovered directory may lie above the cap: then nothing is
 * reserved until enough left. */
void ssd_account_add(struct ssd_account *account, enum ssd_share share, uint64_t bytes);
void ssd_account_remove(struct ssd_account *account, enum ssd_share share, uint64_t bytes);
/* What is above the cap, doomed files not counted; 0 normally. */
uint64_t ssd_account_excess(const struct ssd_account *account);

/* ---- free space ---- */

/* How much of `free_bytes`, measured when writes_ended was `measured_at`, is missing for a write of
 * `bytes`. UINT64_MAX: measure again. */
uint64_t ssd_account_free_missing(const struct ssd_account *account, uint64_t free_bytes,
                                  uint64_t measured_at, uint64_t bytes);
void ssd_account_begin_write(struct ssd_account *account, uint64_t bytes);
void ssd_account_end_write(struct ssd_account *account, uint64_t bytes);

/* ---- wear ---- */

/* False when the day's bytes are used up. */
bool ssd_account_take_day(struct ssd_account *account, uint64_t bytes, uint64_t wall_ns) NODISCARD;
/* Those of today. */
uint64_t ssd_account_today(struct ssd_account *account, uint64_t wall_ns);
/* it was not written after all */
void ssd_account_give_day(struct ssd_account *account, uint64_t bytes);
/* What an earlier process wrote at that time. */
void ssd_account_recall_day(struct ssd_account *account, uint64_t bytes, uint64_t written_wall_ns,
                            uint64_t wall_ns);
/* True when the key may be written: always, or from its second sighting on. */
bool ssd_account_sight(struct ssd_account *account, const struct hash256 *key);

#endif
