/*
 * ssd_account.c: sums with a cap, and two brakes on writing.
 *
 * SIGHTINGS are a table of 64-bit fingerprints; a key's slot follows from its own bits (keys are
 * keyed hashes, so clients cannot choose their slot). A new key displaces the one in its slot. A
 * key that comes back too late counts as new, which saves a write. False positives are 2^-48 per
 * lookup, so there is no reason to store whole keys.
 *
 * DAYS are UTC days. When the clock goes back by a day, the same day continues. When it goes back
 * further, it was wrong before: its day counts, with the bytes so far. The brake may hold longer,
 * never shorter, and at most until the next day.
 */
#include "tier/ssd_account.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { SIGHTINGS = 1 << 16 }; /* half a MiB; about a day of a busy server's new blocks */

#define NS_PER_DAY (UINT64_C(86400) * NS_PER_S)

void ssd_account_init(struct ssd_account *account, const struct ssd_account_limits *limits)
{
    *account = (struct ssd_account){.limits = *limits};
    if (limits->second_sighting)
        account->sightings = mem_alloc_array(SIGHTINGS, sizeof(account->sightings[0]));
}

void ssd_account_fini(struct ssd_account *account)
{
    mem_free(account->sightings);
    account->sightings = NULL;
}

/* ---- the cap ---- */

/* The bytes in use once all doomed files are gone, reservations included. */
static uint64_t committed(const struct ssd_account *account)
{
    return account->bytes[SSD_LIVE] + account->bytes[SSD_FOREIGN] + account->bytes[SSD_OVERHEAD] +
           account->reserved;
}

uint64_t ssd_account_missing(const struct ssd_account *account, uint64_t bytes)
{
    uint64_t max = account->limits.bytes_max;
    uint64_t fixed =
        account->bytes[SSD_OVERHEAD] + account->reserved; /* eviction does not reduce these */

    if (bytes > max || fixed > max - bytes)
        return UINT64_MAX;
    uint64_t want = committed(account) + bytes;
    return want > max ? want - max : 0;
}

bool ssd_account_try_reserve(struct ssd_account *account, uint64_t bytes)
{
    if (ssd_account_missing(account, bytes) > 0)
        return false;
    account->reserved += bytes;
    return true;
}

void ssd_account_unreserve(struct ssd_account *account, uint64_t bytes)
{
    assert(bytes <= account->reserved);
    account->reserved -= bytes;
}

uint64_t ssd_account_must_reap(const struct ssd_account *account)
{
    uint64_t sum = committed(account) + account->bytes[SSD_DOOMED];

    return sum > account->limits.bytes_max
               ? MIN(sum - account->limits.bytes_max, account->bytes[SSD_DOOMED])
               : 0;
}

void ssd_account_add(struct ssd_account *account, enum ssd_share share, uint64_t bytes)
{
    account->bytes[share] += bytes;
}

void ssd_account_remove(struct ssd_account *account, enum ssd_share share, uint64_t bytes)
{
    assert(bytes <= account->bytes[share]);
    account->bytes[share] -= bytes;
}

uint64_t ssd_account_excess(const struct ssd_account *account)
{
    uint64_t sum = committed(account);

    return sum > account->limits.bytes_max ? sum - account->limits.bytes_max : 0;
}

/* ---- free space ---- */

uint64_t ssd_account_free_missing(const struct ssd_account *account, uint64_t free_bytes,
                                  uint64_t measured_at, uint64_t bytes)
{
    if (measured_at != account->writes_ended)
        return UINT64_MAX;
    uint64_t want = account->limits.free_min + account->writing + bytes;
    return want > free_bytes ? want - free_bytes : 0;
}

void ssd_account_begin_write(struct ssd_account *account, uint64_t bytes)
{
    account->writing += bytes;
}

void ssd_account_end_write(struct ssd_account *account, uint64_t bytes)
{
    assert(bytes <= account->writing);
    account->writing -= bytes;
    account->writes_ended++;
}

/* ---- wear ---- */

static void turn_day(struct ssd_account *account, uint64_t wall_ns)
{
    uint64_t day = wall_ns / NS_PER_DAY;

    if (day == account->day || day + 1 == account->day)
        return;
    if (day > account->day)
        account->day_bytes = 0;
    account->day = day;
}

bool ssd_account_take_day(struct ssd_account *account, uint64_t bytes, uint64_t wall_ns)
{
    uint64_t max = account->limits.day_bytes_max;

    turn_day(account, wall_ns);
    if (max > 0 && (account->day_bytes > max || bytes > max - account->day_bytes))
        return false;
    account->day_bytes += bytes;
    return true;
}

uint64_t ssd_account_today(struct ssd_account *account, uint64_t wall_ns)
{
    turn_day(account, wall_ns);
    return account->day_bytes;
}

void ssd_account_give_day(struct ssd_account *account, uint64_t bytes)
{
    account->day_bytes -= MIN(bytes, account->day_bytes);
}

void ssd_account_recall_day(struct ssd_account *account, uint64_t bytes, uint64_t written_wall_ns,
                            uint64_t wall_ns)
{
    turn_day(account, wall_ns);
    if (written_wall_ns / NS_PER_DAY == account->day)
        account->day_bytes += bytes;
}

bool ssd_account_sight(struct ssd_account *account, const struct hash256 *key)
{
    uint64_t fingerprint, slot;

    if (account->sightings == NULL)
        return true;
    memcpy(&fingerprint, key->bytes, sizeof(fingerprint));
    memcpy(&slot, key->bytes + sizeof(fingerprint), sizeof(slot));
    fingerprint |= 1; /* 0 is an empty slot */
    bool again = account->sightings[slot % SIGHTINGS] == fingerprint;
    account->sightings[slot % SIGHTINGS] = fingerprint;
    return again;
}
