/*
 * ssd_janitor.c: background work in the directory: unlinks, records for the catalogue, times of
 * last use, retries of what could not be read, and freeing space on a full disk.
 *
 * One thread, independent of all queues (keeps I60): a writer that needs the room of doomed files
 * removes them itself, with the same function. Failures are retried after a while (retry_ns), and
 * by every put that needs the room.
 *
 * The catalogue file belongs to this thread; others leave their records in `records`. If the
 * process is killed before they are written, the next one finds those objects in their files.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tier/ssd_impl.h"

/* ---- unlinks ---- */

/* S2: skips busy keys, whose files another thread is changing. */
static struct ssd_entry *choose_locked(struct tier_ssd *ssd, const struct hash256 *mine)
    REQUIRES(lock)
{
    LIST_FOREACH (struct ssd_entry, entry, &ssd->reapable, link)
        if (entry->temp != NULL || !ssd_is_busy_locked(ssd, &entry->key) ||
            (mine != NULL && memcmp(&entry->key, mine, sizeof(*mine)) == 0))
            return entry;
    return NULL;
}

static enum err remove_file(struct tier_ssd *ssd, const struct ssd_entry *entry, bool *kept,
                            struct errinfo *info)
{
    *kept = false;
    if (entry->temp != NULL)
        return ssd_dir_discard(&ssd->dir, entry->temp, info);
    lock_enter(&ssd->lock);
    const uint64_t bytes_max = ssd->account.limits.bytes_max / SSD_QUARANTINE_SHARE;
    lock_leave(&ssd->lock);
    return ssd_dir_remove(&ssd->dir, &entry->key, entry->damaged ? bytes_max : 0, kept, info);
}

/* Frees the entry, or queues it for a retry. */
static void end_reap_locked(struct tier_ssd *ssd, struct ssd_entry *entry, bool removed, bool kept)
    REQUIRES(lock)
{
    ssd->reaping--;
    ssd->reaped++;
    ssd->counters.unlinks += removed && !kept;
    ssd->counters.quarantined += kept;
    ssd->counters.unlink_failures += !removed;
    cond_broadcast(&ssd->for_idle);
    if (!removed) {
        list_push_back(&ssd->reapable, &entry->link);
        ssd->retry_at_ns = clock_deadline_ns(clock_real(), ssd->options.retry_ns);
        return;
    }
    if (kept)
        ssd_account_add(&ssd->account, SSD_OVERHEAD, entry->charge);
    if (entry->temp == NULL)
        map_remove(&ssd->doomed, &entry->by_key);
    ssd_account_remove(&ssd->account, SSD_DOOMED, entry->charge);
    ssd->doomed_count--;
    mem_free(entry->temp);
    mem_free(entry);
}

enum ssd_reap ssd_reap_one(struct tier_ssd *ssd, const struct hash256 *mine)
{
    struct ssd_busy busy;
    struct errinfo info;
    bool kept;

    lock_enter(&ssd->lock);
    struct ssd_entry *entry = choose_locked(ssd, mine);
    if (entry == NULL) {
        lock_leave(&ssd->lock);
        return SSD_REAP_NONE;
    }
    list_remove(&ssd->reapable, &entry->link);
    ssd->reaping++;
    bool set = entry->temp == NULL && !ssd_is_busy_locked(ssd, &entry->key);
    if (set)
        ssd_set_busy_locked(ssd, &busy, &entry->key);
    lock_leave(&ssd->lock);
    enum err err = remove_file(ssd, entry, &kept, &info);
    lock_enter(&ssd->lock);
    if (set)
        ssd_unset_busy_locked(ssd, &busy);
    end_reap_locked(ssd, entry, err == ERR_OK, kept);
    lock_leave(&ssd->lock);
    if (err != ERR_OK)
        LOG_WARN(ssd->options.log, "ssd", "file not removed", LOG_STR("error", info.text));
    return err == ERR_OK ? SSD_REAP_DONE : SSD_REAP_FAILED;
}

/* A disk that hangs holds up a write as well, so there is no limit. */
bool ssd_wait_for_reapers(struct tier_ssd *ssd, uint64_t reaped)
{
    lock_enter(&ssd->lock);
    while (ssd->reaping > 0 && ssd->reaped == reaped)
        cond_wait(&ssd->for_idle, &ssd->lock);
    bool progress = ssd->reaped != reaped;
    lock_leave(&ssd->lock);
    return progress;
}

/* A file that cannot be removed goes to the end of the list, and does not block the others. */
void ssd_reap_rest(struct tier_ssd *ssd)
{
    lock_enter(&ssd->lock);
    size_t count = ssd->reapable.count;
    lock_leave(&ssd->lock);
    for (size_t i = 0; i < count && ssd_reap_one(ssd, NULL) != SSD_REAP_NONE; i++)
        continue;
}

/* ---- the catalogue ---- */

void ssd_add_record_locked(struct tier_ssd *ssd, const void *header, uint32_t header_bytes)
{
    size_t before = ssd->records.len;

    lock_assert_held(&ssd->lock);
    if (ssd->dir.read_only)
        return;
    if (ssd_catalogue_encode(header, header_bytes, &ssd->records) != ERR_OK) {
        /* No memory: the next start finds this object, and those queued, in their files. */
        ssd_account_end_write(&ssd->account, before);
        ssd_account_remove(&ssd->account, SSD_OVERHEAD, before);
        buf_clear(&ssd->records);
        return;
    }
    ssd->records_count++;
    ssd_account_add(&ssd->account, SSD_OVERHEAD, ssd->records.len - before);
    ssd_account_begin_write(&ssd->account, ssd->records.len - before);
    cond_signal(&ssd->for_janitor);
}

static void write_records(struct tier_ssd *ssd)
{
    lock_enter(&ssd->lock);
    size_t len = ssd->records.len;
    char *records = len > 0 ? buf_take(&ssd->records) : NULL;
    lock_leave(&ssd->lock);
    if (records == NULL)
        return;
    bool kept = ssd->catalogue.fd != FILE_NO; /* else none of it reaches the disk */
    if (!ssd_catalogue_append(&ssd->catalogue, records, len))
        LOG_DEBUG(ssd->options.log, "ssd", "catalogue not written");
    mem_free(records);
    lock_enter(&ssd->lock);
    ssd_account_end_write(&ssd->account, len);
    if (!kept)
        ssd_account_remove(&ssd->account, SSD_OVERHEAD, len);
    lock_leave(&ssd->lock);
}

/* ---- the thread ---- */

static bool has_failed_locked(const struct tier_ssd *ssd) REQUIRES(lock)
{
    return ssd->retry_at_ns > clock_mono_ns(clock_real());
}

/* How far free space is below the minimum to be left free. */
static uint64_t below_floor(const struct tier_ssd *ssd)
{
    uint64_t floor = ssd->options.free_min, free_bytes;

    if (floor == 0 || file_free_bytes(ssd->dir.fs, ssd->dir.root, &free_bytes, NULL) != ERR_OK)
        return 0;
    return floor > free_bytes ? floor - free_bytes : 0;
}

/* Bytes to evict: the directory may have been opened above its cap, or the disk is too full. */
static uint64_t excess_locked(const struct tier_ssd *ssd, uint64_t missing) REQUIRES(lock)
{
    uint64_t doomed = ssd->account.bytes[SSD_DOOMED];

    if (ssd->options.keep_all)
        return 0;
    return MAX(ssd_account_excess(&ssd->account), missing > doomed ? missing - doomed : 0);
}

/* Does one round of work, without the lock held; false: nothing to do. */
static bool work(struct tier_ssd *ssd)
{
    uint64_t missing = below_floor(ssd);

    lock_enter(&ssd->lock);
    bool paused = has_failed_locked(ssd);
    bool records = ssd->records.len > 0, renew = ssd_catalogue_is_due_locked(ssd);
    bool reap = !paused && choose_locked(ssd, NULL) != NULL;
    bool rescan = !paused && ssd->unread_count > 0;
    uint64_t excess = excess_locked(ssd, missing);
    if (excess > 0 && !reap)
        reap = ssd_evict_locked(ssd, NULL, excess, SSD_UNLINKS_PER_PUT) > 0 && !paused;
    if (rescan)
        ssd->retry_at_ns = clock_deadline_ns(clock_real(), ssd->options.retry_ns);
    lock_leave(&ssd->lock);
    if (records)
        write_records(ssd);
    if (renew)
        ssd_renew_catalogue(ssd);
    if (reap)
        (void)ssd_reap_one(ssd, NULL);
    if (rescan)
        ssd_rescan(ssd);
    ssd_stamp_some(ssd);
    return records || reap;
}

void ssd_janitor_run(void *arg)
{
    struct tier_ssd *ssd = arg;
    bool more = true;

    thread_set_background();
    lock_enter(&ssd->lock);
    while (!ssd->stop) {
        lock_leave(&ssd->lock);
        more = work(ssd);
        lock_enter(&ssd->lock);
        cond_broadcast(&ssd->for_idle);
        if (!more && !ssd->stop)
            (void)!cond_wait_until(&ssd->for_janitor, &ssd->lock,
                                   clock_deadline_ns(clock_real(), ssd->options.retry_ns));
    }
    lock_leave(&ssd->lock);
    write_records(ssd);
}
