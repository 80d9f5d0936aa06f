/*
 * ssd_recover.c: recovers the objects of an earlier process, and `each`, through which the cache
 * takes them over (keeps I107).
 *
 *      catalogue --> image: headers by key
 *      DIR/00 .. ff, by as many threads as there are readers: every name, its size and time
 *        a record valid for this name and size -----------------> LIVE     no file was opened
 *        else the header of the file:
 *          valid -----------------------------------------------> LIVE     and a new record
 *          other installation, version, ... --------------------> FOREIGN  left alone
 *          damaged, cut, renamed, zeros ------------------------> DOOMED   into quarantine
 *          cannot be read now ----------------------------------> FOREIGN  retried by a later start
 *      a directory that cannot be listed: `unread`; nothing is stored until it can be, since its
 *      content is unknown (S3). What is dropped meanwhile is removed when it turns up
 *
 * A file's time is that of its last use. The image stays in memory until one `each` has gone
 * through all of it: that one takes its metadata from the image, later ones from the files.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tier/ssd_impl.h"

/* ---- one file ---- */

struct scan {
    struct tier_ssd *ssd;
    const struct ssd_image *image; /* NULL: none */
    struct ssd_scratch scratch;
    struct buf header; /* a rebuilt header */
    struct thread thread;
    atomic_uint *next_top;
    const bool *tops; /* top directories to be scanned */
};

struct found {
    enum ssd_share state;
    bool damaged;
    bool by_record;
    struct ssd_header header;
};

static bool decode_record(struct scan *scan, const struct ssd_record *record,
                          const struct hash256 *key, uint64_t file_bytes, struct ssd_header *header)
{
    const struct ssd_format *format = &scan->ssd->format;
    struct ssd_expect expect = {.file_bytes = file_bytes, .key = key};
    struct ssd_prefix prefix;

    if (ssd_record_expand(record, &scan->header) != ERR_OK ||
        ssd_format_decode_prefix(format, scan->header.data, scan->header.len, file_bytes,
                                 &prefix) != SSD_OK ||
        !ssd_scratch_reserve_tokens(&scan->scratch, prefix.words))
        return false;
    return ssd_format_decode(format, scan->header.data, scan->header.len, &expect, header,
                             scan->scratch.tokens) == SSD_OK;
}

/* Reads the file itself. */
static void look_into(struct scan *scan, const struct hash256 *key, struct found *found)
{
    struct tier_ssd *ssd = scan->ssd;
    enum ssd_result result = SSD_OK;
    bool direct = false;
    struct stat st;
    int fd;

    found->state = SSD_FOREIGN;
    if (ssd_dir_open_object(&ssd->dir, key, &direct, &fd, &st, NULL) != ERR_OK)
        return;
    enum err err = ssd_read_header(ssd, fd, (uint64_t)st.st_size, key, &scan->scratch, &result,
                                   &found->header);
    file_close(ssd->dir.fs, &fd);
    if (err != ERR_OK || ssd_is_foreign(result))
        return;
    found->damaged = result != SSD_OK;
    found->state = found->damaged ? SSD_DOOMED : SSD_LIVE;
}

static uint64_t time_of(const struct stat *st)
{
    return st->st_mtim.tv_sec < 0
               ? 0
               : (uint64_t)st->st_mtim.tv_sec * NS_PER_S + (uint64_t)st->st_mtim.tv_nsec;
}

/* Bytes on the disk: for a foreign or damaged file its blocks, which may be fewer (holes) or more
 * than its size. */
static uint64_t charge_of(const struct stat *st, enum ssd_share state)
{
    return state == SSD_LIVE ? ssd_charge((uint64_t)st->st_size)
                             : ssd_charge((uint64_t)st->st_blocks * 512);
}

static void charge_top_locked(struct tier_ssd *ssd, unsigned top) REQUIRES(lock)
{
    if (ssd->tops[top])
        return;
    ssd->tops[top] = true;
    ssd_account_add(&ssd->account, SSD_OVERHEAD, SSD_DIR_BLOCK_BYTES);
}

static void add_found(struct scan *scan, const struct ssd_dir_entry *file,
                      const struct found *found)
{
    struct tier_ssd *ssd = scan->ssd;
    struct ssd_entry *entry = mem_alloc(sizeof(*entry));

    *entry = (struct ssd_entry){.key = file->key,
                                .state = found->state,
                                .charge = charge_of(&file->st, found->state),
                                .depth = UINT32_MAX,
                                .used_wall_ns = time_of(&file->st),
                                .stamped_wall_ns = time_of(&file->st),
                                .damaged = found->damaged};
    if (found->state == SSD_LIVE) {
        entry->bytes = found->header.meta.bytes;
        entry->depth = found->header.meta.end;
        entry->space = ssd_space_id(&found->header.meta.space);
        entry->digest = found->header.meta.digest;
    }
    lock_enter(&ssd->lock);
    charge_top_locked(ssd, file->key.bytes[0]);
    if (found->state == SSD_LIVE && !found->by_record)
        ssd_add_record_locked(ssd, scan->scratch.header, found->header.header_bytes);
    if (found->state == SSD_LIVE)
        ssd_account_recall_day(&ssd->account, entry->charge, found->header.meta.used_wall_ns,
                               clock_wall_ns(ssd->options.clock));
    ssd->counters.recovered += found->state == SSD_LIVE;
    ssd->counters.records_used += found->by_record;
    ssd->counters.foreign += found->state == SSD_FOREIGN;
    ssd->counters.broken += found->state == SSD_DOOMED;
    if (found->state != SSD_DOOMED) {
        ssd_insert_locked(ssd, entry);
        if (ssd_was_dropped_locked(ssd, entry))
            ssd_doom_locked(ssd, entry, false);
    } else if (ssd->dir.read_only)
        mem_free(entry);
    else
        ssd_add_doomed_locked(ssd, entry);
    lock_leave(&ssd->lock);
}

/* True for files seen by an earlier, partial scan of the directory, or put since. */
static bool is_known(struct tier_ssd *ssd, const struct ssd_dir_entry *file)
{
    lock_enter(&ssd->lock);
    bool known = ssd_find_locked(ssd, &file->key) != NULL || ssd_is_doomed_locked(ssd, &file->key);
    lock_leave(&ssd->lock);
    return known;
}

static void on_file(const struct ssd_dir_entry *file, void *arg)
{
    struct scan *scan = arg;
    struct tier_ssd *ssd = scan->ssd;
    struct found found = {0};
    struct ssd_record record;

    if (!file->regular) {
        lock_enter(&ssd->lock);
        ssd->counters.odd++;
        lock_leave(&ssd->lock);
        return;
    }
    if (is_known(ssd, file))
        return;
    found.by_record =
        scan->image != NULL && ssd_image_find(scan->image, &file->key, &record) &&
        decode_record(scan, &record, &file->key, (uint64_t)file->st.st_size, &found.header);
    if (!found.by_record)
        look_into(scan, &file->key, &found);
    add_found(scan, file, &found);
}

/* ---- the whole directory ---- */

static void scan_top(struct scan *scan, unsigned top)
{
    struct tier_ssd *ssd = scan->ssd;
    struct errinfo info;
    enum err err = ssd_dir_list(&ssd->dir, top, on_file, scan, &info);

    if (err != ERR_OK)
        LOG_WARN(ssd->options.log, "ssd", "directory not read", LOG_STR("error", info.text));
    lock_enter(&ssd->lock);
    ssd->unread_count += (err != ERR_OK) - ssd->unread[top];
    ssd->unread[top] = err != ERR_OK;
    if (ssd->unread_count == 0)
        ssd->dropped_spaces_count = 0;
    lock_leave(&ssd->lock);
}

/* The top directories that exist; all of them when that is unknown. */
static void find_tops(struct tier_ssd *ssd, bool tops[SSD_DIR_TOPS])
{
    if (ssd_dir_list_tops(&ssd->dir, tops, NULL) != ERR_OK) {
        memset(tops, true, SSD_DIR_TOPS * sizeof(tops[0]));
        return;
    }
    lock_enter(&ssd->lock);
    for (unsigned top = 0; top < SSD_DIR_TOPS; top++)
        if (tops[top])
            charge_top_locked(ssd, top);
    lock_leave(&ssd->lock);
}

static void scan_run(void *arg)
{
    struct scan *scan = arg;

    for (;;) {
        /* Relaxed: nothing but the number is shared. */
        unsigned top = atomic_fetch_add_explicit(scan->next_top, 1, memory_order_relaxed);
        if (top >= SSD_DIR_TOPS)
            return;
        if (scan->tops[top])
            scan_top(scan, top);
    }
}

static void scan_fini(struct scan *scan)
{
    ssd_scratch_fini(&scan->scratch);
    buf_fini(&scan->header);
}

static void scan_all(struct tier_ssd *ssd)
{
    unsigned count = ssd->options.readers;
    struct scan *scans = mem_alloc_array(count, sizeof(*scans));
    atomic_uint next_top = 0;
    bool tops[SSD_DIR_TOPS];

    find_tops(ssd, tops);
    for (unsigned i = 0; i < count; i++) {
        scans[i] =
            (struct scan){.ssd = ssd, .image = ssd->image, .next_top = &next_top, .tops = tops};
        buf_init(&scans[i].header, UINT32_MAX);
        if (i > 0) /* if a thread cannot be started, the others do more */
            (void)!thread_start(&scans[i].thread, "ssd-scan", scan_run, &scans[i], NULL);
    }
    scan_run(&scans[0]);
    for (unsigned i = 0; i < count; i++) {
        thread_join(&scans[i].thread);
        scan_fini(&scans[i]);
    }
    mem_free(scans);
}

void ssd_rescan(struct tier_ssd *ssd)
{
    struct scan scan = {.ssd = ssd};

    buf_init(&scan.header, UINT32_MAX);
    for (unsigned top = 0; top < SSD_DIR_TOPS; top++) {
        lock_enter(&ssd->lock);
        bool unread = ssd->unread[top];
        ssd->counters.rescans += unread;
        lock_leave(&ssd->lock);
        if (unread)
            scan_top(&scan, top);
    }
    scan_fini(&scan);
}

/* ---- in the order of use ---- */

static int by_use(const void *a, const void *b)
{
    uint64_t x = (*(struct ssd_entry *const *)a)->used_wall_ns;
    uint64_t y = (*(struct ssd_entry *const *)b)->used_wall_ns;

    return (x > y) - (x < y);
}

/* Threads found the files in any order. Without memory for sorting, that order stays. */
static void sort_lru(struct tier_ssd *ssd)
{
    const struct list *lru = &ssd->owners[0].lru; /* no space has a share yet */
    size_t count = lru->count, i = 0;
    struct ssd_entry **entries = mem_try_alloc_array(count, sizeof(struct ssd_entry *));

    if (entries == NULL || count == 0) {
        mem_free(entries);
        return;
    }
    LIST_FOREACH (struct ssd_entry, entry, lru, link)
        entries[i++] = entry;
    qsort(entries, count, sizeof(struct ssd_entry *), by_use);
    lock_enter(&ssd->lock);
    for (i = 0; i < count; i++)
        ssd_order_move_locked(ssd, entries[i]);
    lock_leave(&ssd->lock);
    mem_free(entries);
}

/* ---- the catalogue ---- */

static bool is_live(const struct hash256 *key, void *arg)
{
    struct tier_ssd *ssd = arg;

    lock_enter(&ssd->lock);
    bool live = ssd_find_live_locked(ssd, key) != NULL;
    lock_leave(&ssd->lock);
    return live;
}

/* Whether a second copy may briefly exist beside the old one; if so, its room is reserved. */
static bool try_reserve(struct tier_ssd *ssd, uint64_t bytes)
{
    lock_enter(&ssd->lock);
    bool room =
        ssd->account.bytes[SSD_DOOMED] == 0 && ssd_account_try_reserve(&ssd->account, bytes);
    lock_leave(&ssd->lock);
    return room;
}

static void unreserve(struct tier_ssd *ssd, uint64_t bytes)
{
    lock_enter(&ssd->lock);
    ssd_account_unreserve(&ssd->account, bytes);
    lock_leave(&ssd->lock);
}

/* Begins to write a second catalogue beside the first. False: there is no room for both under the
 * cap, or not enough space would stay free. */
static bool begin_beside(struct tier_ssd *ssd, uint64_t bytes)
{
    enum { TRIES = 16 };
    uint64_t missing = UINT64_MAX;

    if (!try_reserve(ssd, bytes))
        return false;
    for (int i = 0; i < TRIES && missing == UINT64_MAX; i++)
        if (ssd_begin_write(ssd, bytes, &missing))
            return true;
    unreserve(ssd, bytes);
    return false;
}

/* Overwriting the only catalogue takes no more room than it has, but others must not take what is
 * free in between. */
static void begin_in_place(struct tier_ssd *ssd, uint64_t bytes)
{
    lock_enter(&ssd->lock);
    ssd_account_begin_write(&ssd->account, bytes);
    lock_leave(&ssd->lock);
}

/* Where to continue the catalogue: at its end, after rewriting it (when fewer than half of its
 * records are used), or at its beginning. */
static uint64_t tidy(struct tier_ssd *ssd, const struct ssd_image *image, uint64_t used)
{
    uint64_t bytes = image ? image->len : 0, charge = ssd_charge(bytes), rewritten;

    if (image == NULL || (image->whole && used >= image->records / 2))
        return bytes;
    bool beside = begin_beside(ssd, charge);
    if (!beside)
        begin_in_place(ssd, charge);
    struct ssd_rewrite rewrite = {.image = image, .in_place = !beside, .keep = is_live, .arg = ssd};
    enum err err = ssd_catalogue_rewrite(&ssd->dir, &rewrite, &rewritten);
    lock_enter(&ssd->lock);
    ssd_account_end_write(&ssd->account, charge);
    if (beside)
        ssd_account_unreserve(&ssd->account, charge);
    lock_leave(&ssd->lock);
    if (err == ERR_OK)
        return rewritten;
    return image->whole && beside ? bytes : 0;
}

static void charge_catalogue(struct tier_ssd *ssd, uint64_t before, uint64_t after)
{
    lock_enter(&ssd->lock);
    ssd_account_remove(&ssd->account, SSD_OVERHEAD, before);
    ssd_account_add(&ssd->account, SSD_OVERHEAD, after);
    lock_leave(&ssd->lock);
}

static void open_catalogue(struct tier_ssd *ssd)
{
    uint64_t before = ssd->image ? ssd->image->len : 0;

    if (ssd->dir.read_only)
        return;
    charge_catalogue(ssd, 0, before);
    uint64_t bytes = tidy(ssd, ssd->image, ssd->counters.records_used);
    ssd_catalogue_open(&ssd->catalogue, &ssd->dir, bytes);
    charge_catalogue(ssd, before, ssd->catalogue.bytes);
    lock_enter(&ssd->lock);
    ssd->records_count += ssd->image == NULL ? 0
                          : bytes == before  ? ssd->image->records
                                             : ssd->counters.records_used;
    lock_leave(&ssd->lock);
}

bool ssd_catalogue_is_due_locked(const struct tier_ssd *ssd)
{
    enum { SLACK = 32 }; /* not worth the trouble */

    lock_assert_held(&ssd->lock);
    return ssd->records_count > 2 * ssd->live_count + SLACK;
}

void ssd_renew_catalogue(struct tier_ssd *ssd)
{
    uint64_t before = ssd->catalogue.bytes;

    if (ssd->catalogue.fd == FILE_NO)
        return;
    ssd_catalogue_close(&ssd->catalogue);
    struct ssd_image *image = ssd_image_load(&ssd->dir);
    lock_enter(&ssd->lock);
    uint64_t live = ssd->live_count;
    ssd->records_count = live;
    lock_leave(&ssd->lock);
    uint64_t bytes = tidy(ssd, image, live);
    ssd_image_destroy(&image);
    ssd_catalogue_open(&ssd->catalogue, &ssd->dir, bytes);
    charge_catalogue(ssd, before, ssd->catalogue.bytes);
}

void ssd_tidy_catalogue(struct tier_ssd *ssd)
{
    if (ssd->dir.read_only || ssd->catalogue.fd == FILE_NO)
        return;
    ssd_catalogue_close(&ssd->catalogue);
    struct ssd_image *image = ssd_image_load(&ssd->dir);
    (void)tidy(ssd, image, ssd->live_count);
    ssd_image_destroy(&image);
}

/* ---- public ---- */

/* Charges the directories and files that always exist. */
static void charge_fixtures(struct tier_ssd *ssd)
{
    enum { FIXTURES = 5 }; /* root, tmp, quarantine, lock, the last block of the catalogue */
    uint64_t files = 0, bytes = 0;

    if (ssd->dir.read_only)
        return;
    (void)!ssd_dir_quarantined(&ssd->dir, &files, &bytes, NULL);
    if (bytes > ssd->options.bytes_max / SSD_QUARANTINE_SHARE) {
        ssd_dir_empty_quarantine(&ssd->dir);
        (void)!ssd_dir_quarantined(&ssd->dir, &files, &bytes, NULL);
    }
    lock_enter(&ssd->lock);
    ssd_account_add(&ssd->account, SSD_OVERHEAD, bytes + (uint64_t)FIXTURES * SSD_DIR_BLOCK_BYTES);
    lock_leave(&ssd->lock);
}

/* Temporary files that could not be removed count until they are (S3). */
static void doom_left(struct tier_ssd *ssd)
{
    for (struct ssd_dir_left *left = ssd->dir.left; left != NULL; left = left->next) {
        struct ssd_entry *entry = mem_alloc(sizeof(*entry));
        entry->temp = mem_strdup(left->name);
        entry->charge = ssd_charge(left->bytes);
        lock_enter(&ssd->lock);
        ssd_add_doomed_locked(ssd, entry);
        lock_leave(&ssd->lock);
    }
}

void ssd_recover(struct tier_ssd *ssd)
{
    uint64_t start_ns = clock_mono_ns(ssd->options.clock);

    charge_fixtures(ssd);
    doom_left(ssd);
    ssd->image = ssd_image_load(&ssd->dir);
    scan_all(ssd);
    sort_lru(ssd);
    open_catalogue(ssd);
    LOG_INFO(ssd->options.log, "ssd", "opened", LOG_UINT("objects", ssd->live_count),
             LOG_UINT("bytes", ssd->account.bytes[SSD_LIVE]),
             LOG_UINT("by_catalogue", ssd->counters.records_used),
             LOG_UINT("foreign", ssd->counters.foreign), LOG_UINT("odd", ssd->counters.odd),
             LOG_UINT("damaged", ssd->doomed_count),
             LOG_UINT("ms", (clock_mono_ns(ssd->options.clock) - start_ns) / NS_PER_MS));
}

/* ---- each ---- */

struct use {
    struct hash256 key;
    uint64_t used_wall_ns;
    uint64_t bytes;
};

static int compare_uses(const void *a, const void *b)
{
    uint64_t x = ((const struct use *)a)->used_wall_ns, y = ((const struct use *)b)->used_wall_ns;

    return (x > y) - (x < y);
}

/* A copy of the live entries, oldest use first; *image is borrowed until end_each. NULL: no memory,
 * or no entries. */
static struct use *list_uses(struct tier_ssd *ssd, size_t *count, const struct ssd_image **image)
{
    struct use *uses = NULL;
    size_t room = 0;

    *count = 0;
    lock_enter(&ssd->lock);
    ssd->image_users++;
    *image = ssd->image;
    while (room < ssd->live_count) { /* more may arrive while the lock is not held */
        room = ssd->live_count;
        lock_leave(&ssd->lock);
        mem_free(uses);
        uses = mem_try_alloc_array(room, sizeof(*uses));
        lock_enter(&ssd->lock);
        if (uses == NULL)
            break;
    }
    if (uses != NULL) {
        for (size_t i = 0; i < ssd->owners_count; i++)
            LIST_FOREACH (struct ssd_entry, entry, &ssd->owners[i].lru, link)
                if (entry->state == SSD_LIVE)
                    uses[(*count)++] = (struct use){entry->key, entry->used_wall_ns, entry->bytes};
    }
    lock_leave(&ssd->lock);
    if (*count > 0)
        qsort(uses, *count, sizeof(*uses), compare_uses);
    return uses;
}

/* The first complete pass frees the image. */
static void end_each(struct tier_ssd *ssd, bool all)
{
    struct ssd_image *image = NULL;

    lock_enter(&ssd->lock);
    ssd->image_users--;
    if (all && ssd->image_users == 0) {
        image = ssd->image;
        ssd->image = NULL;
    }
    lock_leave(&ssd->lock);
    ssd_image_destroy(&image);
}

/* Takes the metadata from a matching record, else from the file. */
static bool read_meta(struct scan *scan, const struct use *use, struct ssd_header *header)
{
    struct found found = {0};
    struct ssd_record record;

    if (scan->image != NULL && ssd_image_find(scan->image, &use->key, &record) &&
        decode_record(scan, &record, &use->key, ssd_record_header_bytes(&record) + use->bytes,
                      header))
        return true;
    look_into(scan, &use->key, &found);
    *header = found.header;
    return found.state == SSD_LIVE;
}

void ssd_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg), void *arg)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    struct scan scan = {.ssd = ssd};
    struct ssd_header header;
    bool more = true;
    size_t count;

    buf_init(&scan.header, UINT32_MAX);
    struct use *uses = list_uses(ssd, &count, &scan.image);
    for (size_t i = 0; i < count && more; i++) {
        if (!is_live(&uses[i].key, ssd) || !read_meta(&scan, &uses[i], &header))
            continue;
        header.meta.used_wall_ns = uses[i].used_wall_ns; /* as sorted */
        more = fn(&header.meta, arg);
    }
    end_each(ssd, more);
    mem_free(uses);
    scan_fini(&scan);
}
