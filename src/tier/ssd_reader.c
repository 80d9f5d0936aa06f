/*
 * ssd_reader.c: gets: read in parallel, delivered when verified.
 *
 *      ssd_get: unknown, too large: done at once
 *               else QUEUED --take, in order--> RUNNING: header, payload in pieces --> done
 *                      '-- cancelled               '-- cancelled: after the current piece
 *
 * The header is verified first (key, sizes, digest). Then each piece of the payload is opened, if
 * it is sealed, and digested while it is still in the processor's cache. A file is never changed,
 * only replaced: the open handle keeps the content its header describes, whatever happens to its
 * name.
 *
 * Bytes that are in the page cache, because they were written a while ago, are copied from there:
 * after a restart that is several times faster than any disk. Verifying always asks the disk.
 * Otherwise O_DIRECT is used when the caller's memory is aligned: the bytes go to the RAM tier and
 * need no second copy in the page cache. A partial block at the end is read through a buffer. If a
 * direct read fails in any way, it is retried without O_DIRECT.
 *
 * MISSING and DAMAGED results remove the entry, and a damaged file goes into quarantine. A disk
 * error says nothing about the object, which stays (keeps I94).
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tier/ssd_impl.h"

enum { READ_BYTES = SSD_FRAME_BYTES };

/* ---- scratch ---- */

void ssd_scratch_fini(struct ssd_scratch *scratch)
{
    mem_free(scratch->header);
    mem_free(scratch->tokens);
    mem_free(scratch->piece);
    *scratch = (struct ssd_scratch){0};
}

static bool reserve_header(struct ssd_scratch *scratch, uint32_t bytes)
{
    if (bytes <= scratch->header_cap)
        return true;
    uint8_t *header = mem_try_alloc_aligned(SSD_ALIGNMENT, bytes);
    if (header == NULL)
        return false;
    if (scratch->header_cap > 0)
        memcpy(header, scratch->header, scratch->header_cap);
    mem_free(scratch->header);
    scratch->header = header;
    scratch->header_cap = bytes;
    return true;
}

bool ssd_scratch_reserve_tokens(struct ssd_scratch *scratch, uint32_t count)
{
    if (count <= scratch->tokens_cap)
        return true;
    int32_t *tokens = mem_try_alloc_array(count, sizeof(*tokens));
    if (tokens == NULL)
        return false;
    mem_free(scratch->tokens);
    scratch->tokens = tokens;
    scratch->tokens_cap = count;
    return true;
}

static bool reserve_piece(struct ssd_scratch *scratch)
{
    if (scratch->piece == NULL)
        scratch->piece = mem_try_alloc_aligned(SSD_ALIGNMENT, READ_BYTES);
    return scratch->piece != NULL;
}

/* ---- headers ---- */

enum err ssd_read_header(const struct tier_ssd *ssd, int fd, uint64_t file_bytes,
                         const struct hash256 *key, struct ssd_scratch *scratch,
                         enum ssd_result *result, struct ssd_header *header)
{
    const struct ssd_expect expect = {.file_bytes = file_bytes, .key = key};
    uint32_t first = (uint32_t)MIN(file_bytes, SSD_ALIGNMENT);
    struct ssd_prefix prefix;

    if (!reserve_header(scratch, SSD_ALIGNMENT))
        return ERR_NOMEM;
    TRY(file_read_at(ssd->dir.fs, fd, scratch->header, first, 0, NULL));
    *result = ssd_format_decode_prefix(&ssd->format, scratch->header, first, file_bytes, &prefix);
    if (*result != SSD_OK)
        return ERR_OK;
    /* Plus one block for read_tail: a sealed header is needed until the payload has been opened. */
    if (!reserve_header(scratch, prefix.header_bytes + SSD_ALIGNMENT) ||
        !ssd_scratch_reserve_tokens(scratch, prefix.words))
        return ERR_NOMEM;
    if (prefix.header_bytes > first)
        TRY(file_read_at(ssd->dir.fs, fd, scratch->header + first, prefix.header_bytes - first,
                         first, NULL));
    *result = ssd_format_decode(&ssd->format, scratch->header, prefix.header_bytes, &expect, header,
                                scratch->tokens);
    return ERR_OK;
}

/* ---- payloads ---- */

struct reading {
    struct tier_ssd *ssd;
    struct ssd_read *read;
    struct ssd_scratch *scratch;
    bool cached; /* from the page cache, or not at all: ERR_BUSY */
    bool direct;
    int fd;
};

static enum err read_at(const struct reading *reading, void *to, size_t len, uint64_t offset)
{
    const struct file_sys *fs = reading->ssd->dir.fs;

    if (!reading->cached)
        return file_read_at(fs, reading->fd, to, len, offset, NULL);
    ssize_t got = fs->ops->pread_cached(fs->ctx, reading->fd, to, len, (off_t)offset);
    return got == (ssize_t)len ? ERR_OK : ERR_BUSY;
}

static bool is_cancelled(struct reading *reading)
{
    lock_enter(&reading->ssd->lock);
    bool cancelled = reading->read->cancelled;
    lock_leave(&reading->ssd->lock);
    return cancelled;
}

/* Reads the partial block at the end of the file. Asks for a whole one, as O_DIRECT requires. */
static enum err read_tail(struct reading *reading, uint32_t header_bytes, uint8_t *to, size_t len,
                          uint64_t offset)
{
    const struct file_sys *fs = reading->ssd->dir.fs;
    uint8_t *block = reading->scratch->header + header_bytes;

    if (!reading->direct)
        return read_at(reading, to, len, offset);
    ssize_t got = fs->ops->pread(fs->ctx, reading->fd, block, SSD_ALIGNMENT, (off_t)offset);
    if (got != (ssize_t)len)
        return ERR_INVALID; /* retried without O_DIRECT */
    memcpy(to, block, len);
    return ERR_OK;
}

static enum err read_payload(struct reading *reading, const struct ssd_header *header,
                             struct ssd_payload *payload)
{
    uint64_t bytes = header->meta.bytes;

    for (uint64_t at = 0; at < bytes;) {
        uint8_t *dst = reading->read->dst, *to = dst ? dst + at : reading->scratch->piece;
        size_t piece = MIN(bytes - at, READ_BYTES);
        size_t whole = piece / SSD_ALIGNMENT * SSD_ALIGNMENT;
        if (is_cancelled(reading))
            return ERR_CANCELLED;
        if (whole > 0)
            TRY(read_at(reading, to, whole, header->header_bytes + at));
        if (whole < piece)
            TRY(read_tail(reading, header->header_bytes, to + whole, piece - whole,
                          header->header_bytes + at + whole));
        ssd_payload_open(payload, to, piece);
        ssd_payload_update(payload, to, piece);
        at += piece;
    }
    return ERR_OK;
}

/* Updates the file's time now and then, since it is open anyway, so that a restart knows the
 * use. */
static void stamp(struct reading *reading)
{
    struct tier_ssd *ssd = reading->ssd;
    uint64_t now = clock_wall_ns(ssd->options.clock);

    lock_enter(&ssd->lock);
    struct ssd_entry *entry = ssd_find_live_locked(ssd, &reading->read->key);
    reading->read->used_wall_ns = now;
    bool due = entry != NULL && !ssd->dir.read_only &&
               now > entry->stamped_wall_ns + SSD_STAMP_MIN_S * NS_PER_S;
    if (due) {
        entry->stamped_wall_ns = now;
        ssd->counters.stamps++;
    }
    lock_leave(&ssd->lock);
    if (due)
        (void)!file_set_time(ssd->dir.fs, reading->fd, now, NULL);
}

static enum err read_open(struct reading *reading, uint64_t file_bytes, enum ssd_result *result)
{
    struct ssd_read *read = reading->read;
    struct ssd_payload payload;
    struct ssd_header header;

    TRY(ssd_read_header(reading->ssd, reading->fd, file_bytes, &read->key, reading->scratch, result,
                        &header));
    if (*result != SSD_OK)
        return ERR_OK;
    if (header.meta.bytes > read->capacity)
        return ERR_LIMIT;
    if (read->dst == NULL && !reserve_piece(reading->scratch))
        return ERR_NOMEM;
    ssd_payload_init(&payload, &reading->ssd->format, &header);
    TRY(read_payload(reading, &header, &payload));
    *result = ssd_payload_finish(&payload);
    if (*result == SSD_OK && read->dst != NULL)
        stamp(reading);
    return ERR_OK;
}

static enum err read_file(struct reading *reading, enum ssd_result *result)
{
    struct tier_ssd *ssd = reading->ssd;
    struct stat st;
    char last;

    TRY(ssd_dir_open_object(&ssd->dir, &reading->read->key, &reading->direct, &reading->fd, &st,
                            NULL));
    uint64_t bytes = (uint64_t)st.st_size;
    /* The last byte tells: headers are in the page cache since recovery has read them. */
    enum err err = reading->cached && bytes > 0 ? read_at(reading, &last, 1, bytes - 1) : ERR_OK;
    if (err == ERR_OK)
        err = read_open(reading, bytes, result);
    file_close(ssd->dir.fs, &reading->fd);
    return err;
}

/* ---- results ---- */

static enum tier_result result_of(enum err err, enum ssd_result result)
{
    switch (err) {
    case ERR_OK:
        return result == SSD_OK ? TIER_OK : ssd_is_foreign(result) ? TIER_MISSING : TIER_DAMAGED;
    case ERR_NOT_FOUND:
        return TIER_MISSING;
    case ERR_CORRUPT: /* it became shorter since it was opened */
    case ERR_INVALID: /* not a regular file */
        return TIER_DAMAGED;
    case ERR_CANCELLED:
        return TIER_CANCELLED;
    default:
        return TIER_ERROR;
    }
}

static enum tier_result run(struct tier_ssd *ssd, struct ssd_read *read,
                            struct ssd_scratch *scratch)
{
    /* NULL counts as aligned: pieces are */
    bool aligned = (uintptr_t)read->dst % SSD_ALIGNMENT == 0;
    bool direct = aligned && !ssd->options.no_direct;
    struct reading reading = {
        .ssd = ssd, .read = read, .scratch = scratch, .cached = direct && read->dst != NULL};
    enum ssd_result result = SSD_OK;
    enum err err = reading.cached ? read_file(&reading, &result) : ERR_BUSY;

    if (err == ERR_BUSY) {
        reading.cached = false;
        reading.direct = direct;
        err = read_file(&reading, &result);
    }
    if ((err == ERR_INVALID || err == ERR_CORRUPT) && reading.direct) {
        reading.direct = false;
        err = read_file(&reading, &result);
    }
    return result_of(err, result);
}

/* Removes an unusable entry from the table, unless it was replaced meanwhile. */
static void take_out_locked(struct tier_ssd *ssd, const struct ssd_read *read, bool damaged)
    REQUIRES(lock)
{
    struct ssd_entry *entry = ssd_find_live_locked(ssd, &read->key);

    if (entry == NULL || entry->generation != read->generation ||
        ssd_is_busy_locked(ssd, &read->key))
        return;
    if (damaged)
        ssd_doom_locked(ssd, entry, true);
    else
        ssd_forget_locked(ssd, &read->key);
}

static void count_locked(struct tier_ssd *ssd, const struct ssd_read *read, enum tier_result result)
    REQUIRES(lock)
{
    struct ssd_entry *entry = ssd_find_live_locked(ssd, &read->key);

    ssd->stats.gets_done += result == TIER_OK && read->dst != NULL;
    ssd->stats.missing += result == TIER_MISSING;
    ssd->stats.damaged += result == TIER_DAMAGED;
    ssd->stats.errors += result == TIER_ERROR;
    if (result != TIER_OK || entry == NULL)
        return;
    entry->verified |= entry->generation == read->generation;
    ssd->stats.bytes_read += entry->bytes;
    if (read->dst != NULL) /* verifying is not a use */
        ssd_order_use_locked(ssd, entry, read->used_wall_ns);
}

/* ---- the queue ---- */

void ssd_reader_run(void *arg)
{
    struct tier_ssd *ssd = arg;
    struct ssd_scratch scratch = {0};

    lock_enter(&ssd->lock);
    for (;;) {
        struct list_node *link = ssd->held ? NULL : list_pop_front(&ssd->reads);
        if (link != NULL) {
            struct ssd_read *read = CONTAINER_OF(link, struct ssd_read, link);
            list_push_back(&ssd->reads_running, link);
            lock_leave(&ssd->lock);
            enum tier_result result = run(ssd, read, &scratch);
            lock_enter(&ssd->lock);
            list_remove(&ssd->reads_running, link);
            if (result == TIER_MISSING || result == TIER_DAMAGED)
                take_out_locked(ssd, read, result == TIER_DAMAGED);
            count_locked(ssd, read, result);
            lock_leave(&ssd->lock);
            read->done(result, read->arg);
            mem_free(read);
            lock_enter(&ssd->lock);
        } else if (ssd->stop) {
            break;
        } else {
            cond_wait(&ssd->for_readers, &ssd->lock);
        }
    }
    lock_leave(&ssd->lock);
    ssd_scratch_fini(&scratch);
}

/* TIER_OK: it was queued. */
static enum tier_result enqueue(struct tier_ssd *ssd, struct ssd_read *read, struct tier_op **op)
{
    enum tier_result result = TIER_OK;

    lock_enter(&ssd->lock);
    struct ssd_entry *entry = ssd_find_live_locked(ssd, &read->key);
    ssd->stats.gets += read->dst != NULL;
    if (entry == NULL)
        result = TIER_MISSING;
    else if (ssd->closing)
        result = TIER_CANCELLED;
    else if (entry->bytes > read->capacity || ssd->reads.count >= SSD_READS_MAX)
        result = TIER_ERROR;
    ssd->stats.missing += result == TIER_MISSING;
    ssd->stats.errors += result == TIER_ERROR;
    if (result == TIER_OK) {
        read->id = ++ssd->read_id;
        read->generation = entry->generation;
        if (op != NULL)
            *op = (struct tier_op *)(uintptr_t)read->id; /* a number, not an address */
        list_push_back(&ssd->reads, &read->link);
        cond_signal(&ssd->for_readers);
    }
    lock_leave(&ssd->lock);
    return result;
}

static void begin(struct tier_ssd *ssd, const struct ssd_read *wanted, struct tier_op **op)
{
    struct ssd_read *read = mem_alloc(sizeof(*read));

    *read = *wanted;
    if (op != NULL)
        *op = NULL;
    enum tier_result result = enqueue(ssd, read, op);
    if (result == TIER_OK)
        return;
    mem_free(read);
    wanted->done(result, wanted->arg);
}

void ssd_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
             tier_done_fn done, void *arg, struct tier_op **op)
{
    struct ssd_read read = {
        .key = *key, .dst = dst, .capacity = capacity, .done = done, .arg = arg};

    assert(dst != NULL);
    begin(CONTAINER_OF(tier, struct tier_ssd, tier), &read, op);
}

void ssd_verify(struct tier *tier, const struct hash256 *key, tier_done_fn done, void *arg)
{
    struct ssd_read read = {.key = *key, .capacity = UINT64_MAX, .done = done, .arg = arg};

    begin(CONTAINER_OF(tier, struct tier_ssd, tier), &read, NULL);
}

void ssd_cancel(struct tier *tier, struct tier_op *op)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    uint64_t id = (uintptr_t)op;
    struct ssd_read *found = NULL;

    lock_enter(&ssd->lock);
    LIST_FOREACH (struct ssd_read, read, &ssd->reads, link)
        if (read->id == id)
            found = read;
    if (found != NULL)
        list_remove(&ssd->reads, &found->link);
    LIST_FOREACH (struct ssd_read, read, &ssd->reads_running, link)
        read->cancelled |= read->id == id;
    lock_leave(&ssd->lock);
    if (found == NULL)
        return;
    found->done(TIER_CANCELLED, found->arg);
    mem_free(found);
}

void ssd_cancel_all(struct tier_ssd *ssd)
{
    struct list_node *link;

    lock_enter(&ssd->lock);
    LIST_FOREACH (struct ssd_read, read, &ssd->reads_running, link)
        read->cancelled = true;
    while ((link = list_pop_front(&ssd->reads)) != NULL) {
        struct ssd_read *read = CONTAINER_OF(link, struct ssd_read, link);
        lock_leave(&ssd->lock);
        read->done(TIER_CANCELLED, read->arg);
        mem_free(read);
        lock_enter(&ssd->lock);
    }
    lock_leave(&ssd->lock);
}
