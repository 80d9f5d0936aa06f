#include "support/ssd_kit.h"

#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/object_path.h"
#include "support/test.h"
#include "support/tier_suite.h"
#include "tier/ssd_impl.h"

const char *ssd_kit_new_path(void)
{
    static char paths[16][600];
    static int number;
    char *path = paths[number % 16];

    snprintf(path, sizeof(paths[0]), "%s/ssd%d", test_dir(), number++);
    return path;
}

struct tier_ssd_options ssd_kit_options(const char *path, uint64_t bytes_max)
{
    return (struct tier_ssd_options){.path = path,
                                     .key = hash256_of("installation", 12),
                                     .bytes_max = bytes_max,
                                     .writers = 2,
                                     .readers = 2,
                                     .retry_ns = 5 * NS_PER_MS,
                                     .close_wait_ns = 20 * NS_PER_S};
}

const struct hash256 *ssd_kit_seal_key(void)
{
    static const struct hash256 key = {"0123456789abcdefghijklmnopqrstu"};

    return &key;
}

struct tier *ssd_kit_open(const struct tier_ssd_options *options)
{
    struct errinfo info = {0};
    struct tier *tier;

    if (tier_ssd_open(&tier, options, &info) != ERR_OK)
        fail_msg("%s", info.text);
    return tier;
}

void ssd_kit_object_path(const char *dir, uint32_t n, char out[1024])
{
    struct hash256 key = tier_suite_key(n);
    char name[OBJECT_PATH_BYTES];

    object_path(&key, name);
    snprintf(out, 1024, "%s/%s", dir, name);
}

void ssd_kit_flip(const char *dir, uint32_t n, int64_t offset)
{
    char path[1024];
    unsigned char byte;

    ssd_kit_object_path(dir, n, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    off_t at = offset < 0 ? lseek(fd, 0, SEEK_END) + offset : offset;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static uint64_t sum;
static int files;
static const char *wanted;

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    size_t len = strlen(path), suffix = strlen(wanted);

    (void)ftw;
    sum += (uint64_t)st->st_blocks * 512;
    files += type == FTW_F && S_ISREG(st->st_mode) && len >= suffix &&
             strcmp(path + len - suffix, wanted) == 0;
    return 0;
}

static void walk(const char *dir, const char *suffix)
{
    sum = 0;
    files = 0;
    wanted = suffix;
    nftw(dir, visit, 16, FTW_PHYS); /* what vanishes meanwhile is not there */
}

uint64_t ssd_kit_disk_bytes(const char *dir)
{
    walk(dir, "");
    return sum;
}

int ssd_kit_count_files(const char *dir, const char *suffix)
{
    walk(dir, suffix);
    return files;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void ssd_kit_remove(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

struct tier_ssd_stats ssd_kit_stats(struct tier *tier)
{
    struct tier_ssd_stats stats;

    tier_ssd_stats(tier, &stats);
    return stats;
}

/* ---- operations that are waited for, with any result ---- */

enum tier_result ssd_kit_put(struct tier *tier, uint32_t n, uint32_t version, uint64_t bytes)
{
    struct tier_meta meta = tier_suite_meta(n, bytes);
    unsigned char *data = mem_alloc(bytes);
    enum tier_result result = TIER_RESULT_COUNT;
    struct tier_answer answer;

    tier_suite_fill(data, bytes, n, version);
    tier_answer_init(&answer);
    if (tier->ops->put(tier, &meta, data, tier_answer_done, &answer))
        result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    mem_free(data);
    return result;
}

enum tier_result ssd_kit_get(struct tier *tier, uint32_t n, void *dst, uint64_t bytes)
{
    struct hash256 key = tier_suite_key(n);
    struct tier_answer answer;

    tier_answer_init(&answer);
    tier->ops->get(tier, &key, dst, bytes, tier_answer_done, &answer, NULL);
    enum tier_result result = tier_answer_wait(&answer);
    tier_answer_fini(&answer);
    return result;
}

void ssd_kit_drop(struct tier *tier, uint32_t n)
{
    struct hash256 key = tier_suite_key(n);

    tier->ops->drop(tier, &key);
}

static void check_order_locked(struct tier_ssd *ssd) REQUIRES(lock)
{
    size_t entries = 0, stale = 0;

    for (size_t i = 0; i < ssd->owners_count; i++) {
        const struct ssd_owner *owner = &ssd->owners[i];
        uint64_t before = 0, bytes = 0;
        list_check(&owner->lru);
        LIST_FOREACH (struct ssd_entry, entry, &owner->lru, link) {
            /* S1 */
            assert(entry->state != SSD_DOOMED && ssd_find_locked(ssd, &entry->key) == entry);
            assert(entry->owner == owner && entry->order > before);
            for (size_t k = 1; k < ssd->owners_count; k++)
                assert((entry->space == ssd->owners[k].space) == (k == i));
            before = entry->order;
            bytes += entry->charge;
            stale += list_node_linked(&entry->stale_link);
        }
        assert(bytes == owner->bytes);
        entries += owner->lru.count;
    }
    list_check(&ssd->stale);
    assert(entries == ssd->table.count && stale == ssd->stale.count);
}

/* Without puts, only the janitor reserves room: for the second copy of a catalogue that it renews,
 * which a flush does not wait for. */
static void wait_for_janitor_locked(struct tier_ssd *ssd) REQUIRES(lock)
{
    for (int tries = 0; ssd->account.reserved > 0 && tries < 60000; tries++) {
        lock_leave(&ssd->lock);
        clock_sleep_ns(clock_real(), NS_PER_MS);
        lock_enter(&ssd->lock);
    }
}

void tier_ssd_check(struct tier *tier)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    uint64_t live = 0, foreign = 0, doomed = 0, count = 0;

    lock_enter(&ssd->lock);
    wait_for_janitor_locked(ssd);
    map_check(&ssd->table);
    map_check(&ssd->doomed);
    check_order_locked(ssd);
    for (size_t i = 0; i < ssd->owners_count; i++) {
        LIST_FOREACH (struct ssd_entry, entry, &ssd->owners[i].lru, link) {
            live += entry->state == SSD_LIVE ? entry->charge : 0;
            foreign += entry->state == SSD_FOREIGN ? entry->charge : 0;
            count += entry->state == SSD_LIVE;
        }
    }
    LIST_FOREACH (struct ssd_entry, entry, &ssd->reapable, link) {
        assert(entry->state == SSD_DOOMED);
        doomed += entry->charge;
    }
    assert(count == ssd->live_count);
    assert(list_empty(&ssd->puts) && list_empty(&ssd->puts_running) && ssd->puts_bytes == 0);
    assert(ssd->account.bytes[SSD_LIVE] == live && ssd->account.bytes[SSD_FOREIGN] == foreign);
    assert(ssd->account.bytes[SSD_DOOMED] >= doomed && ssd->account.reserved == 0);
    lock_leave(&ssd->lock);
}
