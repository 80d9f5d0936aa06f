/*
 * ssd_table.c: the table of objects, and of files to be removed.
 *
 * An entry is small (no tokens, no shape): a hundred thousand objects take about 20 MiB. The other
 * metadata that `each` reports comes from the catalogue or from the files.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "tier/ssd_impl.h"

static uint64_t hash_of(const struct tier_ssd *ssd, const struct hash256 *key)
{
    return map_hash(key, sizeof(*key), ssd->seed);
}

static bool has_key(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, struct ssd_entry, by_key)->key, key);
}

static struct ssd_entry *find_in(struct tier_ssd *ssd, struct map *map, const struct hash256 *key)
{
    struct map_node *node = map_find(map, hash_of(ssd, key), has_key, key);

    return node ? CONTAINER_OF(node, struct ssd_entry, by_key) : NULL;
}

bool ssd_is_foreign(enum ssd_result result)
{
    switch (result) {
    case SSD_UNSUPPORTED:
    case SSD_OTHER_KEY:
    case SSD_OTHER_SPACE:
    case SSD_UNPROTECTED:
    case SSD_TOO_LARGE:
        return true;
    default:
        return false;
    }
}

uint64_t ssd_charge(uint64_t file_bytes)
{
    const uint64_t block = SSD_DIR_BLOCK_BYTES;

    if (file_bytes > UINT64_MAX / 2)
        return UINT64_MAX / 2;
    return (file_bytes + block - 1) / block * block + block;
}

struct ssd_entry *ssd_find_locked(struct tier_ssd *ssd, const struct hash256 *key)
{
    lock_assert_held(&ssd->lock);
    return find_in(ssd, &ssd->table, key);
}

struct ssd_entry *ssd_find_live_locked(struct tier_ssd *ssd, const struct hash256 *key)
{
    struct ssd_entry *entry = ssd_find_locked(ssd, key);

    return entry != NULL && entry->state == SSD_LIVE ? entry : NULL;
}

bool ssd_is_doomed_locked(struct tier_ssd *ssd, const struct hash256 *key)
{
    lock_assert_held(&ssd->lock);
    return find_in(ssd, &ssd->doomed, key) != NULL;
}

void ssd_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry)
{
    lock_assert_held(&ssd->lock);
    assert(entry->state != SSD_DOOMED && entry->temp == NULL);
    entry->generation = ++ssd->generation;
    map_insert(&ssd->table, &entry->by_key, hash_of(ssd, &entry->key));
    ssd_order_insert_locked(ssd, entry);
    ssd_account_add(&ssd->account, entry->state, entry->charge);
    ssd->live_count += entry->state == SSD_LIVE;
}

/* Removes the entry from the table and its sums; the caller owns it then. */
static void take_out_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock)
{
    assert(entry->state != SSD_DOOMED);
    map_remove(&ssd->table, &entry->by_key);
    ssd_order_remove_locked(ssd, entry);
    ssd_account_remove(&ssd->account, entry->state, entry->charge);
    ssd->live_count -= entry->state == SSD_LIVE;
}

void ssd_forget_locked(struct tier_ssd *ssd, const struct hash256 *key)
{
    struct ssd_entry *entry = ssd_find_locked(ssd, key);

    if (entry != NULL) {
        take_out_locked(ssd, entry);
        mem_free(entry);
    }
    entry = find_in(ssd, &ssd->doomed, key);
    if (entry != NULL) {
        map_remove(&ssd->doomed, &entry->by_key);
        if (list_node_linked(&entry->link))
            list_remove(&ssd->reapable, &entry->link);
        ssd_account_remove(&ssd->account, SSD_DOOMED, entry->charge);
        ssd->doomed_count--;
        mem_free(entry);
    }
}

void ssd_add_doomed_locked(struct tier_ssd *ssd, struct ssd_entry *entry)
{
    lock_assert_held(&ssd->lock);
    entry->state = SSD_DOOMED;
    if (entry->temp == NULL)
        map_insert(&ssd->doomed, &entry->by_key, hash_of(ssd, &entry->key));
    list_push_back(&ssd->reapable, &entry->link);
    ssd_account_add(&ssd->account, SSD_DOOMED, entry->charge);
    ssd->doomed_count++;
    cond_signal(&ssd->for_janitor);
}

void ssd_doom_locked(struct tier_ssd *ssd, struct ssd_entry *entry, bool damaged)
{
    take_out_locked(ssd, entry);
    if (ssd->dir.read_only) {
        mem_free(entry);
        return;
    }
    entry->damaged = damaged;
    ssd_add_doomed_locked(ssd, entry);
}

void ssd_doom_unseen_locked(struct tier_ssd *ssd, const struct hash256 *key)
{
    struct ssd_entry *entry = ssd_find_locked(ssd, key);

    if (ssd->dir.read_only)
        return;
    if (entry != NULL) {
        ssd_doom_locked(ssd, entry, false);
        return;
    }
    if (!ssd->unread[key->bytes[0]] || ssd_is_doomed_locked(ssd, key) ||
        ssd->doomed_count >= SSD_BLIND_DROPS_MAX)
        return;
    entry = mem_alloc(sizeof(*entry));
    entry->key = *key;
    ssd_add_doomed_locked(ssd, entry);
}

/* ---- busy keys ---- */

bool ssd_is_busy_locked(const struct tier_ssd *ssd, const struct hash256 *key)
{
    lock_assert_held(&ssd->lock);
    LIST_FOREACH (struct ssd_busy, busy, &ssd->busy, link)
        if (memcmp(&busy->key, key, sizeof(*key)) == 0)
            return true;
    return false;
}

void ssd_set_busy_locked(struct tier_ssd *ssd, struct ssd_busy *busy, const struct hash256 *key)
{
    assert(!ssd_is_busy_locked(ssd, key));
    *busy = (struct ssd_busy){.key = *key};
    list_push_back(&ssd->busy, &busy->link);
}

void ssd_unset_busy_locked(struct tier_ssd *ssd, struct ssd_busy *busy)
{
    lock_assert_held(&ssd->lock);
    list_remove(&ssd->busy, &busy->link);
    cond_broadcast(&ssd->for_writers); /* a put or a reaper may be waiting for this key */
    cond_signal(&ssd->for_janitor);
}

/* ---- the end ---- */

static void free_entry(struct map_node *node, void *arg)
{
    struct ssd_entry *entry = CONTAINER_OF(node, struct ssd_entry, by_key);

    map_remove(arg, node);
    mem_free(entry);
}

void ssd_table_free(struct tier_ssd *ssd)
{
    LIST_FOREACH_SAFE (struct ssd_entry, entry, &ssd->reapable, link) {
        if (entry->temp != NULL) { /* in no map */
            list_remove(&ssd->reapable, &entry->link);
            mem_free(entry->temp);
            mem_free(entry);
        }
    }
    map_each(&ssd->table, free_entry, &ssd->table);
    map_each(&ssd->doomed, free_entry, &ssd->doomed);
    map_fini(&ssd->table);
    map_fini(&ssd->doomed);
}
