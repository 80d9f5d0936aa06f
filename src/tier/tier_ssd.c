/*
 * tier_ssd.c: the directory as a tier: opening, its operations, closing.
 *
 *      open:   directory and lock -> recover -> threads      undone in reverse order on failure
 *      close:  refuse new requests -> finish puts, at most close_wait_ns -> cancel the rest
 *              -> end threads -> remove doomed files, write times of use -> catalogue -> lock
 *
 * ssd_impl.h says which file does what. Not here: the choice of what to keep (the cache drops
 * objects; otherwise ssd_order.c chooses) and any result beyond those of tier.h.
 */
#include "tier/tier_ssd.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sysinfo.h"
#include "tier/ssd_impl.h"

enum { WRITERS = 2, READERS_MIN = 4, READERS_MAX = 8, QUEUE_ITEMS = 1024, TOKENS_MAX = 1 << 24 };

#define QUEUE_BYTES (UINT64_C(1) << 30)

/* Limit for records that wait for the janitor. Records beyond it are skipped, and the next start
 * finds their objects in the files. */
#define RECORDS_BYTES_MAX (UINT64_C(256) << 20)

static struct tier_ssd *ssd_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct tier_ssd, tier);
}

/* ---- operations ---- */

static void ssd_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier_ssd *ssd = ssd_of(tier);
    struct list unwanted;

    list_init(&unwanted);
    lock_enter(&ssd->lock);
    ssd_unwant_locked(ssd, key, &unwanted);
    struct ssd_entry *entry = ssd_find_live_locked(ssd, key);
    if (entry != NULL) {
        ssd_doom_locked(ssd, entry, false);
        ssd->stats.drops++;
    } else {
        ssd_doom_unseen_locked(ssd, key);
    }
    lock_leave(&ssd->lock);
    ssd_end_puts(&unwanted);
}

static bool ssd_has(struct tier *tier, const struct hash256 *key)
{
    struct tier_ssd *ssd = ssd_of(tier);

    lock_enter(&ssd->lock);
    bool has = ssd_find_live_locked(ssd, key) != NULL;
    lock_leave(&ssd->lock);
    return has;
}

static enum tier_state state_of_locked(const struct tier_ssd *ssd) REQUIRES(lock)
{
    bool stuck = ssd->doomed_count > 0 && ssd->retry_at_ns > clock_mono_ns(clock_real());

    if (ssd->dir.read_only)
        return TIER_STATE_READ_ONLY;
    return ssd->failing || ssd->unread_count > 0 || stuck ? TIER_STATE_DEGRADED : TIER_STATE_OK;
}

static bool ssd_digest(struct tier *tier, const struct hash256 *key, struct hash128 *digest)
{
    struct tier_ssd *ssd = ssd_of(tier);

    lock_enter(&ssd->lock);
    const struct ssd_entry *entry = ssd_find_live_locked(ssd, key);
    if (entry != NULL)
        *digest = entry->digest;
    lock_leave(&ssd->lock);
    return entry != NULL;
}

/* After a lower cap, the janitor evicts the excess. */
static bool ssd_set_limits(struct tier *tier, const struct tier_limits *limits)
{
    struct tier_ssd *ssd = ssd_of(tier);

    if (ssd->dir.read_only)
        return false;
    lock_enter(&ssd->lock);
    if (limits->bytes_max > 0)
        ssd->account.limits.bytes_max = limits->bytes_max;
    if (limits->day_bytes_max > 0)
        ssd->account.limits.day_bytes_max =
            limits->day_bytes_max == UINT64_MAX ? 0 : limits->day_bytes_max;
    cond_signal(&ssd->for_janitor);
    lock_leave(&ssd->lock);
    return true;
}

static void ssd_stats(struct tier *tier, struct tier_stats *stats)
{
    struct tier_ssd *ssd = ssd_of(tier);

    lock_enter(&ssd->lock);
    *stats = ssd->stats;
    stats->objects = ssd->live_count;
    stats->bytes = ssd->account.bytes[SSD_LIVE];
    stats->bytes_max = ssd->account.limits.bytes_max;
    stats->state = state_of_locked(ssd);
    stats->evictions = ssd->counters.evicted;
    stats->day_bytes = ssd_account_today(&ssd->account, clock_wall_ns(ssd->options.clock));
    stats->puts_queued = ssd->puts.count + ssd->puts_running.count;
    stats->queue_length = ssd->puts.count + ssd->puts_running.count + ssd->reads.count;
    lock_leave(&ssd->lock);
}

static bool puts_are_done_locked(const struct tier_ssd *ssd) REQUIRES(lock)
{
    return list_empty(&ssd->puts) && list_empty(&ssd->puts_running) && ssd->puts_ending == 0;
}

/* Does not wait for files that cannot be removed: that may take forever. */
static bool is_idle_locked(const struct tier_ssd *ssd) REQUIRES(lock)
{
    return puts_are_done_locked(ssd) && ssd->account.writing == 0 &&
           (ssd->doomed_count == 0 || ssd->retry_at_ns > clock_mono_ns(clock_real()));
}

static bool ssd_flush(struct tier *tier, uint64_t timeout_ns)
{
    struct tier_ssd *ssd = ssd_of(tier);
    uint64_t deadline = clock_deadline_ns(clock_real(), timeout_ns);
    bool in_time = true;

    lock_enter(&ssd->lock);
    ssd->flushes++;
    cond_broadcast(&ssd->for_hurry);
    cond_signal(&ssd->for_janitor);
    while (!is_idle_locked(ssd) && in_time)
        in_time = cond_wait_until(&ssd->for_idle, &ssd->lock, deadline);
    ssd->flushes--;
    bool done = puts_are_done_locked(ssd);
    lock_leave(&ssd->lock);
    return done;
}

/* ---- closing ---- */

static void end_threads(struct tier_ssd *ssd)
{
    lock_enter(&ssd->lock);
    ssd->held = false;
    ssd->stop = true;
    cond_broadcast(&ssd->for_hurry);
    cond_broadcast(&ssd->for_writers);
    cond_broadcast(&ssd->for_readers);
    cond_broadcast(&ssd->for_janitor);
    lock_leave(&ssd->lock);
    for (unsigned i = 0; i < ssd->threads_count; i++)
        thread_join(&ssd->threads[i]);
}

/* Finishes puts while there is time, then cancels the rest. */
static void end_operations(struct tier_ssd *ssd)
{
    uint64_t deadline = clock_deadline_ns(clock_real(), ssd->options.close_wait_ns);
    bool in_time = true;
    struct list unwanted;

    list_init(&unwanted);
    lock_enter(&ssd->lock);
    ssd->closing = true;
    cond_broadcast(&ssd->for_hurry);
    while (!puts_are_done_locked(ssd) && in_time && !ssd->held)
        in_time = cond_wait_until(&ssd->for_idle, &ssd->lock, deadline);
    ssd_unwant_locked(ssd, NULL, &unwanted);
    lock_leave(&ssd->lock);
    if (!list_empty(&unwanted))
        LOG_ERROR(ssd->options.log, "ssd", "objects not written before closing",
                  LOG_UINT("objects", unwanted.count));
    ssd_end_puts(&unwanted);
    ssd_cancel_all(ssd);
}

static void ssd_free(struct tier_ssd *ssd)
{
    ssd_image_destroy(&ssd->image);
    ssd_catalogue_close(&ssd->catalogue);
    ssd_table_free(ssd);
    buf_fini(&ssd->records);
    ssd_account_fini(&ssd->account);
    ssd_dir_close(&ssd->dir);
    cond_fini(&ssd->for_writers);
    cond_fini(&ssd->for_readers);
    cond_fini(&ssd->for_janitor);
    cond_fini(&ssd->for_idle);
    cond_fini(&ssd->for_hurry);
    lock_fini(&ssd->lock);
    seal_wipe(&ssd->format, sizeof(ssd->format));
    mem_free(ssd);
}

static void ssd_close(struct tier *tier)
{
    struct tier_ssd *ssd = ssd_of(tier);

    end_operations(ssd);
    end_threads(ssd);
    ssd_reap_rest(ssd);
    ssd_stamp_rest(ssd);
    ssd_tidy_catalogue(ssd);
    ssd_free(ssd);
}

static const struct tier_ops ssd_ops = {
    .name = "ssd",
    .put = ssd_put,
    .get = ssd_get,
    .cancel = ssd_cancel,
    .drop = ssd_drop,
    .has = ssd_has,
    .each = ssd_each,
    .stats = ssd_stats,
    .flush = ssd_flush,
    .verify = ssd_verify,
    .drop_space = ssd_drop_space,
    .digest = ssd_digest,
    .touch = ssd_touch,
    .set_share = ssd_set_share,
    .set_limits = ssd_set_limits,
    .close = ssd_close,
};

/* ---- opening ---- */

static void fill_defaults(struct tier_ssd_options *options)
{
    options->writers = options->writers ? options->writers : WRITERS;
    /* A disk is busy with four; copies from the page cache gain from more. */
    unsigned readers = MAX(READERS_MIN, MIN(sysinfo_cores() / 2, READERS_MAX));
    options->readers = options->readers ? options->readers : readers;
    options->writers = MIN(options->writers, SSD_THREADS_MAX / 2 - 1);
    options->readers = MIN(options->readers, SSD_THREADS_MAX / 2);
    options->queue_items_max = options->queue_items_max ? options->queue_items_max : QUEUE_ITEMS;
    options->queue_bytes_max = options->queue_bytes_max ? options->queue_bytes_max : QUEUE_BYTES;
    options->rest_bytes_max =
        options->rest_bytes_max ? options->rest_bytes_max : options->queue_bytes_max / 2;
    options->retry_ns = options->retry_ns ? options->retry_ns : NS_PER_S;
    options->fs = options->fs ? options->fs : file_sys_real();
    options->clock = options->clock ? options->clock : clock_real();
}

static struct tier_ssd *ssd_create(const struct tier_ssd_options *options)
{
    struct tier_ssd *ssd = mem_alloc(sizeof(*ssd));
    const struct ssd_account_limits account = {.bytes_max = options->bytes_max,
                                               .free_min = options->free_min,
                                               .day_bytes_max = options->day_bytes_max,
                                               .second_sighting = options->second_sighting};
    /* The cap, which can be raised, is the account's: here is no limit of payloads. */
    const struct ssd_limits limits = {.tokens_max = TOKENS_MAX,
                                      .shape_bytes_max = TIER_SHAPE_BYTES_MAX,
                                      .payload_bytes_max = UINT64_MAX / 4};

    ssd->tier.ops = &ssd_ops;
    ssd->options = *options;
    fill_defaults(&ssd->options);
    ssd->catalogue.fd = FILE_NO;
    hash_random(&ssd->seed, sizeof(ssd->seed));
    ssd_format_init(&ssd->format, &options->key, &limits, options->payload_mac);
    if (options->seal_key != NULL)
        ssd_format_set_seal(&ssd->format, &options->key, options->seal_key);
    ssd->options.seal_key = NULL; /* owned by the caller */
    ssd_account_init(&ssd->account, &account);
    lock_init(&ssd->lock, "ssd", LOCK_RANK_TIER);
    cond_init(&ssd->for_writers);
    cond_init(&ssd->for_readers);
    cond_init(&ssd->for_janitor);
    cond_init(&ssd->for_idle);
    cond_init(&ssd->for_hurry);
    map_init(&ssd->table);
    map_init(&ssd->doomed);
    buf_init(&ssd->records, RECORDS_BYTES_MAX);
    struct list *lists[] = {&ssd->reapable,     &ssd->busy,  &ssd->puts,
                            &ssd->puts_running, &ssd->reads, &ssd->reads_running};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        list_init(lists[i]);
    ssd_order_init(ssd);
    return ssd;
}

static enum err start_thread(struct tier_ssd *ssd, const char *name, void (*fn)(void *ssd),
                             struct errinfo *info)
{
    assert(ssd->threads_count < SSD_THREADS_MAX);
    TRY(thread_start(&ssd->threads[ssd->threads_count], name, fn, ssd, info));
    ssd->threads_count++;
    return ERR_OK;
}

static enum err start_threads(struct tier_ssd *ssd, struct errinfo *info)
{
    for (unsigned i = 0; i < ssd->options.readers; i++)
        TRY(start_thread(ssd, "ssd-read", ssd_reader_run, info));
    if (ssd->dir.read_only)
        return ERR_OK;
    for (unsigned i = 0; i < ssd->options.writers; i++)
        TRY(start_thread(ssd, "ssd-write", ssd_writer_run, info));
    return start_thread(ssd, "ssd-janitor", ssd_janitor_run, info);
}

enum err tier_ssd_open(struct tier **tier, const struct tier_ssd_options *options,
                       struct errinfo *info)
{
    struct tier_ssd *ssd = ssd_create(options);

    *tier = NULL;
    enum err err =
        ssd_dir_open(&ssd->dir, ssd->options.fs, options->path, options->read_only, info);
    if (err == ERR_OK) {
        ssd->counters.temps_removed = ssd->dir.temps_removed;
        ssd_recover(ssd);
        err = start_threads(ssd, info);
    }
    if (err != ERR_OK) {
        end_threads(ssd);
        ssd_free(ssd);
        return err;
    }
    *tier = &ssd->tier;
    return ERR_OK;
}

void tier_ssd_stats(struct tier *tier, struct tier_ssd_stats *stats)
{
    struct tier_ssd *ssd = ssd_of(tier);

    lock_enter(&ssd->lock);
    *stats = ssd->counters;
    stats->bytes_foreign = ssd->account.bytes[SSD_FOREIGN];
    stats->bytes_doomed = ssd->account.bytes[SSD_DOOMED];
    stats->bytes_reserved = ssd->account.reserved;
    stats->bytes_overhead = ssd->account.bytes[SSD_OVERHEAD];
    lock_leave(&ssd->lock);
}

void tier_ssd_hold(struct tier *tier, bool hold)
{
    struct tier_ssd *ssd = ssd_of(tier);

    lock_enter(&ssd->lock);
    ssd->held = hold;
    cond_broadcast(&ssd->for_writers);
    cond_broadcast(&ssd->for_readers);
    lock_leave(&ssd->lock);
}
