/*
 * ssd_account.h: the accounting of the SSD tier: how many bytes may be on the disk, and how many
 * may be written to it. No I/O, no lock.
 *
 *   |<----------------------------------- bytes_max ------------------------------------->|
 *   | overhead | live objects | foreign files | reserved: written, queued | doomed | free |
 *
 * A put reserves all its room before anything is written, and a removed file counts (as doomed)
 * until it is unlinked. The sum is therefore never less than what is in the directory, temporary
 * files included, and never above the cap (keeps I93). Doomed bytes do not block a reservation,
 * since the writer unlinks them first; ssd_account_must_reap says how many must be unlinked before
 * a write.
 *
 * Wear: a byte budget per day (UTC) and, optionally, only keys that are offered a second time.
 *
 * Threads: guarded by the owner's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"

/* What the bytes on the disk are; the first three are also the states of an entry. */
enum ssd_share { SSD_LIVE, SSD_FOREIGN, SSD_DOOMED, SSD_OVERHEAD, SSD_SHARE_COUNT };

struct ssd_account_limits {
    uint64_t bytes_max;     /* for all of our files in the directory */
    uint64_t free_min;      /* of the file system, to be left free */
    uint64_t day_bytes_max; /* to be written per day; 0 = no limit */
    bool second_sighting;   /* take a key only when it is offered again */
};

struct ssd_account {
    struct ssd_account_limits limits;
    uint64_t bytes[SSD_SHARE_COUNT], reserved;
    /* the part of `reserved` whose blocks the file system may not have counted yet */
    uint64_t writing;
    uint64_t writes_ended; /* a free-space measurement is valid only while this is unchanged */
    uint64_t day, day_bytes;
    uint64_t *sightings; /* fingerprints of keys, one per slot; NULL without second_sighting */
};

void ssd_account_init(struct ssd_account *account, const struct ssd_account_limits *limits);
void ssd_account_fini(struct ssd_account *account);

/* ---- the cap ---- */

/* Bytes to evict before `bytes` more can be reserved; UINT64_MAX when they never can. */
uint64_t ssd_account_missing(const struct ssd_account *account, uint64_t bytes);
bool ssd_account_try_reserve(struct ssd_account *account, uint64_t bytes) NODISCARD;
void ssd_account_unreserve(struct ssd_account *account, uint64_t bytes);
/* Doomed bytes to unlink before another `bytes` of the reservations may be written. */
uint64_t ssd_account_must_reap(const struct ssd_account *account);

/* Adds what was found and removes what is gone. A recovered directory may be above the cap; then
 * nothing can be reserved until enough has left. */
void ssd_account_add(struct ssd_account *account, enum ssd_share share, uint64_t bytes);
void ssd_account_remove(struct ssd_account *account, enum ssd_share share, uint64_t bytes);
/* The excess over the cap, not counting doomed files; normally 0. */
uint64_t ssd_account_excess(const struct ssd_account *account);

/* ---- free space ---- */

/* How many bytes are missing for a write of `bytes`, given `free_bytes` measured when writes_ended
 * was `measured_at`. UINT64_MAX: measure again. */
uint64_t ssd_account_free_missing(const struct ssd_account *account, uint64_t free_bytes,
                                  uint64_t measured_at, uint64_t bytes);
void ssd_account_begin_write(struct ssd_account *account, uint64_t bytes);
void ssd_account_end_write(struct ssd_account *account, uint64_t bytes);

/* ---- wear ---- */

/* False when the day's budget is used up. */
bool ssd_account_take_day(struct ssd_account *account, uint64_t bytes, uint64_t wall_ns) NODISCARD;
/* Bytes written today. */
uint64_t ssd_account_today(struct ssd_account *account, uint64_t wall_ns);
/* gives back bytes that were not written after all */
void ssd_account_give_day(struct ssd_account *account, uint64_t bytes);
/* Adds bytes that an earlier process wrote at that time. */
void ssd_account_recall_day(struct ssd_account *account, uint64_t bytes, uint64_t written_wall_ns,
                            uint64_t wall_ns);
/* True when the key may be written: always, or from its second sighting on. */
bool ssd_account_sight(struct ssd_account *account, const struct hash256 *key);
