/*
 * ssd_writer.c: puts: admitted or refused at once, written in the background.
 *
 *      ssd_put: admit (mode, limits, wear, cap) -> QUEUED --take--> RUNNING: store() --> done, once
 *                 |                                   |
 *                 '-- refused, counted                '-- dropped or replaced:
 *                                                         done(TIER_CANCELLED), nothing written
 *
 *      store:  digest, header -> there already? -> make_room: unlink doomed files, check free space
 *              -> (seal,) write tmp/x -> still wanted? -> rename -> insert
 *              every step that fails removes tmp/x and releases its reservation
 *
 * Room is reserved when a put is admitted, so that the cap cannot refuse it later. The objects to
 * evict for it are doomed at that time and unlinked before the first byte is written, so that the
 * cap also holds in between (S3). Unlinks do not wait for puts: the janitor does them, and so does
 * any writer that needs the room (keeps I60).
 *
 * Free space is measured for each write, and the measurement counts only if no other write has
 * ended since: value and time belong together (keeps I64).
 *
 * Puts of one key are written one after another, and the last one wins: it makes the earlier ones
 * unwanted.
 *
 * No caller waits for a put, so a writer rests three times as long as it wrote: storing during a
 * generation takes a quarter of the disk, memory bandwidth and processor it could take (keeps I98).
 * Writers do not rest while a flush or the close is waiting, or while the queue is filling up.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tier/ssd_impl.h"

enum { WRITE_BYTES = 4 << 20, MEASURES_MAX = 16, REST_TIMES = 3 };

#define REST_NS_MAX (NS_PER_S / 4)

static bool digest_is_known(const struct hash128 *digest)
{
    return !hash128_eq(digest, &(struct hash128){{0}});
}

/* ---- room ---- */

/* Removes one doomed file, or waits for a thread that is removing one. `reaped` is the count of
 * removals at the time the caller found that one was needed. */
static bool reap(struct tier_ssd *ssd, const struct ssd_put *put, uint64_t reaped,
                 unsigned *unlinks)
{
    if (*unlinks == 0)
        return false; /* the next put continues (keeps I61) */
    --*unlinks;
    enum ssd_reap result = ssd_reap_one(ssd, &put->meta.key);
    return result == SSD_REAP_DONE ||
           (result == SSD_REAP_NONE && ssd_wait_for_reapers(ssd, reaped));
}

/* Unlinks doomed files until the reservations fit into the cap beside the remaining ones. */
static bool reap_for_cap(struct tier_ssd *ssd, const struct ssd_put *put, unsigned *unlinks)
{
    for (;;) {
        lock_enter(&ssd->lock);
        uint64_t bytes = ssd_account_must_reap(&ssd->account);
        uint64_t reaped = ssd->reaped;
        lock_leave(&ssd->lock);
        if (bytes == 0)
            return true;
        if (!reap(ssd, put, reaped, unlinks))
            return false;
    }
}

/* Frees `missing` bytes of the file system. False: not possible within the allowed unlinks. */
static bool free_space(struct tier_ssd *ssd, const struct ssd_put *put, uint64_t missing,
                       unsigned *unlinks)
{
    lock_enter(&ssd->lock);
    uint64_t doomed = ssd->account.bytes[SSD_DOOMED], reaped = ssd->reaped;
    if (doomed < missing && !ssd->options.keep_all)
        (void)ssd_evict_locked(ssd, &put->meta.space, missing - doomed, *unlinks);
    lock_leave(&ssd->lock);
    return reap(ssd, put, reaped, unlinks);
}

bool ssd_begin_write(struct tier_ssd *ssd, uint64_t bytes, uint64_t *missing)
{
    uint64_t free_bytes = UINT64_MAX, floor = ssd->options.free_min;

    *missing = 0;
    lock_enter(&ssd->lock);
    uint64_t measured_at = ssd->account.writes_ended;
    lock_leave(&ssd->lock);
    if (floor > 0 && file_free_bytes(ssd->dir.fs, ssd->dir.root, &free_bytes, NULL) != ERR_OK)
        return false;
    lock_enter(&ssd->lock);
    if (floor > 0)
        *missing = ssd_account_free_missing(&ssd->account, free_bytes, measured_at, bytes);
    if (*missing == 0)
        ssd_account_begin_write(&ssd->account, bytes);
    lock_leave(&ssd->lock);
    return *missing == 0;
}

/* True: the account counts the write as begun, and enough space stays free after all of it. */
static bool begin_above_floor(struct tier_ssd *ssd, const struct ssd_put *put, unsigned *unlinks)
{
    uint64_t missing;

    for (int tries = 0; tries < MEASURES_MAX + SSD_UNLINKS_PER_PUT; tries++) {
        if (ssd_begin_write(ssd, put->reserved, &missing))
            return true;
        if (missing == 0 || /* free space cannot be measured */
            (missing != UINT64_MAX && !free_space(ssd, put, missing, unlinks)))
            return false;
    }
    return false;
}

static bool make_room(struct tier_ssd *ssd, const struct ssd_put *put)
{
    unsigned unlinks = SSD_UNLINKS_PER_PUT;

    return reap_for_cap(ssd, put, &unlinks) && begin_above_floor(ssd, put, &unlinks);
}

/* ---- one file ---- */

static bool is_unwanted(struct tier_ssd *ssd, const struct ssd_put *put)
{
    lock_enter(&ssd->lock);
    bool unwanted = put->unwanted;
    lock_leave(&ssd->lock);
    return unwanted;
}

/* Writes the payload in pieces, as it is or sealed in `frame`, a buffer of SSD_FRAME_BYTES.
 * ERR_CANCELLED when it is no longer wanted. */
static enum err write_payload(struct tier_ssd *ssd, const struct ssd_put *put, void *header,
                              void *frame, int fd, struct errinfo *info)
{
    const uint64_t step = frame != NULL ? SSD_FRAME_BYTES : WRITE_BYTES;

    for (uint64_t at = 0; at < put->meta.bytes; at += step) {
        const void *from = (const char *)put->data + at;
        size_t piece = MIN(put->meta.bytes - at, step);
        if (is_unwanted(ssd, put))
            return err_set(info, ERR_CANCELLED, "no longer wanted");
        if (frame != NULL)
            ssd_format_seal_frame(&ssd->format, header, at / step, from, frame, piece);
        TRY(file_write_at(ssd->dir.fs, fd, frame != NULL ? frame : from, piece,
                          put->header_bytes + at, info));
    }
    return ERR_OK;
}

/* Seals payload and header while writing; no part of a sealed object is ever on the disk in
 * clear. */
static enum err write_sealed(struct tier_ssd *ssd, const struct ssd_put *put, void *header, int fd,
                             struct errinfo *info)
{
    void *frame = mem_try_alloc(MIN(put->meta.bytes, SSD_FRAME_BYTES));

    if (frame == NULL)
        return err_set(info, ERR_NOMEM, "no memory for sealing");
    enum err err = write_payload(ssd, put, header, frame, fd, info);
    mem_free(frame);
    if (err == ERR_OK)
        /* the header has the tags of all frames now */
        ssd_format_seal_header(&ssd->format, header);
    return err;
}

/* Payload first, then the header: a sealed header is complete only after its payload. */
static enum err write_bytes(struct tier_ssd *ssd, const struct ssd_put *put, void *header, int fd,
                            struct errinfo *info)
{
    const struct file_sys *fs = ssd->dir.fs;

    TRY(file_allocate(fs, fd, put->file_bytes, info));
    TRY(ssd->format.sealed ? write_sealed(ssd, put, header, fd, info)
                           : write_payload(ssd, put, header, NULL, fd, info));
    TRY(file_write_at(fs, fd, header, put->header_bytes, 0, info));
    /* A file's time is its last use; if it cannot be set, the time of writing is good enough. */
    (void)!file_set_time(fs, fd, put->meta.used_wall_ns, NULL);
    return ssd->options.sync ? file_sync(fs, fd, info) : ERR_OK;
}

/* A temporary file that cannot be removed now is left to the janitor, and counts until it is
 * gone. */
static void discard(struct tier_ssd *ssd, const struct ssd_put *put, const char *temp)
{
    if (ssd_dir_discard(&ssd->dir, temp, NULL) == ERR_OK)
        return;
    struct ssd_entry *entry = mem_alloc(sizeof(*entry));
    entry->temp = mem_strdup(temp);
    entry->charge = put->charge;
    lock_enter(&ssd->lock);
    ssd_add_doomed_locked(ssd, entry);
    ssd->counters.unlink_failures++;
    lock_leave(&ssd->lock);
}

static enum err write_file(struct tier_ssd *ssd, const struct ssd_put *put, void *header,
                           struct errinfo *info)
{
    char temp[SSD_DIR_TEMP_BYTES];
    int fd;

    TRY(ssd_dir_create_temp(&ssd->dir, temp, &fd, info));
    enum err err = write_bytes(ssd, put, header, fd, info);
    file_close(ssd->dir.fs, &fd);
    if (err == ERR_OK && is_unwanted(ssd, put))
        err = err_set(info, ERR_CANCELLED, "no longer wanted");
    if (err == ERR_OK)
        err = ssd_dir_publish(&ssd->dir, temp, &put->meta.key, info);
    if (err != ERR_OK)
        discard(ssd, put, temp);
    return err;
}

/* ---- the result ---- */

/* The file has its name now; a previous file of that name is gone. */
static enum tier_result published(struct tier_ssd *ssd, struct ssd_put *put, const void *header)
{
    struct ssd_entry *entry = mem_alloc(sizeof(*entry));
    unsigned top = put->meta.key.bytes[0];

    *entry = (struct ssd_entry){.key = put->meta.key,
                                .digest = put->meta.digest,
                                .bytes = put->meta.bytes,
                                .charge = put->charge,
                                .space = ssd_space_id(&put->meta.space),
                                .depth = put->meta.end,
                                .verified = true,
                                .used_wall_ns = put->meta.used_wall_ns,
                                .stamped_wall_ns = put->meta.used_wall_ns};
    lock_enter(&ssd->lock);
    ssd_forget_locked(ssd, &put->meta.key);
    ssd_account_unreserve(&ssd->account, put->reserved);
    put->reserved = 0;
    if (!ssd->tops[top])
        ssd_account_add(&ssd->account, SSD_OVERHEAD, SSD_DIR_BLOCK_BYTES);
    ssd->tops[top] = true;
    bool wanted = !put->unwanted;
    if (wanted) {
        ssd_insert_locked(ssd, entry);
        ssd_add_record_locked(ssd, header, put->header_bytes);
        ssd->stats.bytes_written += put->meta.bytes;
        ssd->failing = false;
        cond_signal(&ssd->for_janitor);
    } else {
        ssd_add_doomed_locked(ssd, entry); /* dropped during the rename (S4) */
    }
    lock_leave(&ssd->lock);
    return wanted ? TIER_OK : TIER_CANCELLED;
}

/* A lost write is never silent (keeps I65). */
static enum tier_result lost(struct tier_ssd *ssd, const struct ssd_put *put, enum err err,
                             const struct errinfo *info)
{
    char key[HASH256_HEX_BYTES];

    if (err == ERR_CANCELLED)
        return TIER_CANCELLED;
    hash256_hex(&put->meta.key, key);
    lock_enter(&ssd->lock);
    ssd->counters.lost++;
    ssd->failing = true;
    lock_leave(&ssd->lock);
    LOG_ERROR(ssd->options.log, "ssd", "object lost", LOG_STR("key", key),
              LOG_UINT("bytes", put->meta.bytes), LOG_STR("error", info->text));
    return err == ERR_NO_SPACE ? TIER_FULL : TIER_ERROR;
}

static enum tier_result no_room(struct tier_ssd *ssd)
{
    lock_enter(&ssd->lock);
    ssd->counters.full++;
    lock_leave(&ssd->lock);
    LOG_WARN(ssd->options.log, "ssd", "no disk space for an object");
    return TIER_FULL;
}

/* An object that is already there is not written again; only its use is recorded. Files of an
 * earlier process count only after a read has verified them: a power failure may have damaged
 * them. */
static bool is_there_locked(struct tier_ssd *ssd, const struct tier_meta *meta) REQUIRES(lock)
{
    struct ssd_entry *entry = ssd_find_live_locked(ssd, &meta->key);

    if (entry == NULL || !entry->verified || entry->bytes != meta->bytes ||
        !digest_is_known(&meta->digest) || !hash128_eq(&entry->digest, &meta->digest))
        return false;
    ssd_order_use_locked(ssd, entry, meta->used_wall_ns);
    ssd->counters.same++;
    return true;
}

static enum tier_result write_put(struct tier_ssd *ssd, struct ssd_put *put, void *header)
{
    struct errinfo info = {0};

    enum err err =
        ssd_format_encode(&ssd->format, &put->meta, put->data, header, put->header_bytes);
    assert(err == ERR_OK); /* its size was checked at admission */
    if (!make_room(ssd, put))
        return no_room(ssd);
    put->unwritten = 0;
    uint64_t counted = put->reserved;
    err = write_file(ssd, put, header, &info);
    enum tier_result result =
        err == ERR_OK ? published(ssd, put, header) : lost(ssd, put, err, &info);
    lock_enter(&ssd->lock);
    ssd_account_end_write(&ssd->account, counted);
    lock_leave(&ssd->lock);
    return result;
}

/* Runs one put from first to last byte; its key is busy. */
static enum tier_result store(struct tier_ssd *ssd, struct ssd_put *put)
{
    struct errinfo info = {0};

    if (is_unwanted(ssd, put))
        return TIER_CANCELLED;
    if (!digest_is_known(&put->meta.digest))
        put->meta.digest = hash128_of(put->data, put->meta.bytes);
    lock_enter(&ssd->lock);
    bool there = is_there_locked(ssd, &put->meta);
    lock_leave(&ssd->lock);
    if (there)
        return TIER_OK;
    void *header = mem_try_alloc(put->header_bytes);
    if (header == NULL)
        return lost(ssd, put, err_set(&info, ERR_NOMEM, "no memory for its header"), &info);
    enum tier_result result = write_put(ssd, put, header);
    mem_free(header);
    return result;
}

/* ---- the queue ---- */

static bool is_full_locked(const struct tier_ssd *ssd, uint64_t bytes) REQUIRES(lock)
{
    return ssd->puts.count >= ssd->options.queue_items_max ||
           (ssd->puts.count > 0 && ssd->puts_bytes + bytes > ssd->options.queue_bytes_max);
}

/* The first put whose key is not busy. */
static struct ssd_put *take_locked(struct tier_ssd *ssd) REQUIRES(lock)
{
    if (ssd->held)
        return NULL;
    LIST_FOREACH (struct ssd_put, put, &ssd->puts, link)
        if (!ssd_is_busy_locked(ssd, &put->meta.key)) {
            list_remove(&ssd->puts, &put->link);
            ssd->puts_bytes -= put->meta.bytes;
            return put;
        }
    return NULL;
}

/* Releases what a put that is no longer queued or running has reserved. */
static void end_locked(struct tier_ssd *ssd, struct ssd_put *put, enum tier_result result)
    REQUIRES(lock)
{
    ssd_account_unreserve(&ssd->account, put->reserved);
    ssd_account_give_day(&ssd->account, put->unwritten);
    put->reserved = 0;
    ssd->stats.puts_done += result == TIER_OK;
    ssd->stats.puts_failed += result == TIER_ERROR || result == TIER_FULL;
    ssd->stats.puts_cancelled += result == TIER_CANCELLED;
    ssd->stats.errors += result == TIER_ERROR;
    cond_broadcast(&ssd->for_idle);
}

/* Runs a put that has been dequeued, and frees it. Unlocks meanwhile. */
static void run_locked(struct tier_ssd *ssd, struct ssd_put *put) REQUIRES(lock)
{
    struct ssd_busy busy;

    list_push_back(&ssd->puts_running, &put->link);
    ssd_set_busy_locked(ssd, &busy, &put->meta.key);
    lock_leave(&ssd->lock);
    enum tier_result result = store(ssd, put);
    lock_enter(&ssd->lock);
    list_remove(&ssd->puts_running, &put->link);
    ssd_unset_busy_locked(ssd, &busy);
    end_locked(ssd, put, result);
    ssd->puts_ending++;
    lock_leave(&ssd->lock);
    put->done(result, put->arg);
    mem_free(put);
    lock_enter(&ssd->lock);
    ssd->puts_ending--; /* a flush also waits for the callback */
    cond_broadcast(&ssd->for_idle);
}

/* ---- pace ---- */

static bool is_hurried_locked(const struct tier_ssd *ssd) REQUIRES(lock)
{
    return ssd->flushes > 0 || ssd->closing || ssd->stop ||
           ssd->puts.count > ssd->options.queue_items_max / 2 ||
           ssd->puts_bytes > ssd->options.rest_bytes_max;
}

/* Rests after a put that began at `began_ns`. */
static void rest_locked(struct tier_ssd *ssd, uint64_t began_ns) REQUIRES(lock)
{
    uint64_t now = clock_mono_ns(clock_real());
    uint64_t until = now + MIN((now - began_ns) * REST_TIMES, REST_NS_MAX);
    bool in_time = !is_hurried_locked(ssd);

    ssd->counters.rests += in_time;
    while (in_time && !is_hurried_locked(ssd))
        in_time = cond_wait_until(&ssd->for_hurry, &ssd->lock, until);
}

void ssd_writer_run(void *arg)
{
    struct tier_ssd *ssd = arg;

    thread_set_background(); /* keeps I98 on machines with few processors */
    lock_enter(&ssd->lock);
    for (;;) {
        struct ssd_put *put = take_locked(ssd);
        if (put != NULL) {
            uint64_t began_ns = clock_mono_ns(clock_real());
            run_locked(ssd, put);
            rest_locked(ssd, began_ns);
        } else if (ssd->stop) {
            break;
        } else {
            cond_wait(&ssd->for_writers, &ssd->lock);
        }
    }
    lock_leave(&ssd->lock);
}

/* ---- unwanted ---- */

static void unqueue_locked(struct tier_ssd *ssd, struct ssd_put *put, struct list *out)
    REQUIRES(lock)
{
    list_remove(&ssd->puts, &put->link);
    ssd->puts_bytes -= put->meta.bytes;
    end_locked(ssd, put, TIER_CANCELLED);
    list_push_back(out, &put->link);
}

void ssd_unwant_locked(struct tier_ssd *ssd, const struct hash256 *key, struct list *out)
{
    lock_assert_held(&ssd->lock);
    LIST_FOREACH (struct ssd_put, put, &ssd->puts_running, link)
        if (key == NULL || hash256_eq(&put->meta.key, key))
            put->unwanted = true;
    LIST_FOREACH_SAFE (struct ssd_put, put, &ssd->puts, link)
        if (key == NULL || hash256_eq(&put->meta.key, key))
            unqueue_locked(ssd, put, out);
}

void ssd_end_puts(struct list *puts)
{
    struct list_node *link;

    while ((link = list_pop_front(puts)) != NULL) {
        struct ssd_put *put = CONTAINER_OF(link, struct ssd_put, link);
        put->done(TIER_CANCELLED, put->arg);
        mem_free(put);
    }
}

/* ---- admission ---- */

static struct ssd_put *put_create(const struct tier_meta *meta, uint32_t header_bytes)
{
    size_t tokens_bytes = (size_t)meta->tokens_count * sizeof(meta->tokens[0]);
    struct ssd_put *put = mem_try_alloc(sizeof(*put) + tokens_bytes);

    if (put == NULL)
        return NULL;
    *put = (struct ssd_put){
        .meta = *meta, .header_bytes = header_bytes, .file_bytes = header_bytes + meta->bytes};
    if (tokens_bytes > 0)
        memcpy(put->tokens, meta->tokens, tokens_bytes);
    put->meta.tokens = put->tokens;
    put->charge = ssd_charge(put->file_bytes);
    put->reserved =
        put->charge + ssd_catalogue_record_bytes_max(header_bytes) + SSD_DIR_BLOCK_BYTES;
    return put;
}

/* Reserves the room for a put, and evicts what is in its way. */
static bool reserve_locked(struct tier_ssd *ssd, const struct ssd_put *put) REQUIRES(lock)
{
    uint64_t missing = ssd_account_missing(&ssd->account, put->reserved);

    if (missing > 0 && missing != UINT64_MAX && !ssd->options.keep_all)
        (void)ssd_evict_locked(ssd, &put->meta.space, missing, SSD_UNLINKS_PER_PUT);
    return ssd_account_try_reserve(&ssd->account, put->reserved);
}

/* NULL: admitted; otherwise the counter of the refusal. */
static uint64_t *admit_locked(struct tier_ssd *ssd, const struct ssd_put *put) REQUIRES(lock)
{
    uint64_t wall_ns = clock_wall_ns(ssd->options.clock);

    if (ssd->closing || ssd->dir.read_only || ssd->unread_count > 0)
        return &ssd->counters.refused_mode;
    if (!ssd_account_sight(&ssd->account, &put->meta.key))
        return &ssd->counters.refused_sighting;
    if (!ssd_account_take_day(&ssd->account, put->charge, wall_ns))
        return &ssd->counters.refused_day;
    if (reserve_locked(ssd, put))
        return NULL;
    ssd_account_give_day(&ssd->account, put->charge);
    return &ssd->counters.refused_cap;
}

/* Whether a put or a removal of this key is queued or running. */
static bool is_coming_locked(const struct tier_ssd *ssd, const struct hash256 *key) REQUIRES(lock)
{
    LIST_FOREACH (struct ssd_put, put, &ssd->puts, link)
        if (hash256_eq(&put->meta.key, key))
            return true;
    return ssd_is_busy_locked(ssd, key);
}

static void refuse_locked(struct tier_ssd *ssd, uint64_t *reason) REQUIRES(lock)
{
    ++*reason;
    ssd->stats.refused++;
}

enum taken { TAKEN_NOT, TAKEN_QUEUED, TAKEN_THERE };

static enum taken take_put_locked(struct tier_ssd *ssd, struct ssd_put *put, struct list *unwanted)
    REQUIRES(lock)
{
    if (!is_coming_locked(ssd, &put->meta.key) && is_there_locked(ssd, &put->meta)) {
        ssd->stats.puts++;
        ssd->stats.puts_done++;
        return TAKEN_THERE;
    }
    uint64_t *reason = is_full_locked(ssd, put->meta.bytes) ? &ssd->counters.refused_queue
                                                            : admit_locked(ssd, put);
    if (reason != NULL) {
        refuse_locked(ssd, reason);
        return TAKEN_NOT;
    }
    ssd_unwant_locked(ssd, &put->meta.key, unwanted);
    put->unwritten = put->charge;
    ssd->stats.puts++;
    list_push_back(&ssd->puts, &put->link);
    ssd->puts_bytes += put->meta.bytes;
    cond_signal(&ssd->for_writers);
    if (is_hurried_locked(ssd))
        cond_broadcast(&ssd->for_hurry);
    return TAKEN_QUEUED;
}

bool ssd_put(struct tier *tier, const struct tier_meta *meta, const void *data, tier_done_fn done,
             void *arg)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    struct list unwanted;
    uint32_t header_bytes;

    bool fits = ssd_format_measure(&ssd->format, meta, &header_bytes) == ERR_OK;
    struct ssd_put *put = fits ? put_create(meta, header_bytes) : NULL;
    if (put == NULL) {
        lock_enter(&ssd->lock);
        refuse_locked(ssd, fits ? &ssd->counters.refused_memory : &ssd->counters.refused_limit);
        lock_leave(&ssd->lock);
        return false;
    }
    put->data = data;
    put->done = done;
    put->arg = arg;
    list_init(&unwanted);
    lock_enter(&ssd->lock);
    enum taken taken = take_put_locked(ssd, put, &unwanted);
    lock_leave(&ssd->lock);
    ssd_end_puts(&unwanted);
    if (taken != TAKEN_QUEUED)
        mem_free(put);
    if (taken == TAKEN_THERE)
        done(TIER_OK, arg);
    return taken != TAKEN_NOT;
}
