/*
 * ssd_order.c: the order of use, and what is evicted first.
 *
 *      common    [ oldest ... newest ]     objects of spaces without a share, foreign files
 *      owner 1   [ oldest ... newest ]     a space with a share: its own list, with a sum of bytes
 *      owner 2   ...
 *
 * EVICTION considers the common list, the lists of owners above their share, and the list of the
 * space that needs the room. (Keeps I100: a flood evicts from the common list and from itself;
 * objects of others within their shares are not even considered.) It chooses the list with the
 * oldest head and evicts the deepest entry (by its last token) of the first quarter of that list,
 * among 32 at most. A deep object is useless without the shallower ones, but not vice versa, so
 * short anchors outlive long tails (keeps I103). FOREIGN files take part with the time of their
 * last change, and count as the deepest. When no particular space needs the room (the cap was
 * lowered, or the disk filled up), objects within shares are evicted last.
 *
 * USES in faster tiers are reported (tier.h: touch), and move an object as a get does. None of that
 * writes. A file's time tells the next process its last use: entries with an outdated time wait in
 * `stale`, and the janitor writes them, each at most once a minute, and the rest when closing. A
 * killed process loses the order of its last minute.
 */
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "tier/ssd_impl.h"

enum { EVICTION_WINDOW_MAX = 32, STAMPS_AT_ONCE = 32, STAMPS_AT_END_MAX = 1 << 16 };

/* ---- owners ---- */

uint64_t ssd_space_id(const struct hash256 *space)
{
    uint64_t id;

    memcpy(&id, space->bytes, sizeof(id));
    return MAX(id, 1); /* 0 is the common list */
}

static struct ssd_owner *find_owner_locked(struct tier_ssd *ssd, uint64_t space) REQUIRES(lock)
{
    for (size_t i = 1; i < ssd->owners_count; i++)
        if (ssd->owners[i].space == space)
            return &ssd->owners[i];
    return NULL;
}

/* Objects of the space that are already here move to its own list, in the order of use. */
static struct ssd_owner *add_owner_locked(struct tier_ssd *ssd, uint64_t space) REQUIRES(lock)
{
    struct ssd_owner *owner = &ssd->owners[ssd->owners_count++], *common = &ssd->owners[0];

    *owner = (struct ssd_owner){.space = space};
    list_init(&owner->lru);
    LIST_FOREACH_SAFE (struct ssd_entry, entry, &common->lru, link) {
        if (entry->space != space)
            continue;
        list_remove(&common->lru, &entry->link);
        list_push_back(&owner->lru, &entry->link);
        common->bytes -= entry->charge;
        owner->bytes += entry->charge;
        entry->owner = owner;
    }
    return owner;
}

bool ssd_set_share(struct tier *tier, const struct hash256 *space, uint64_t bytes)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    uint64_t id = ssd_space_id(space), others = 0;

    if (ssd->dir.read_only)
        return false;
    lock_enter(&ssd->lock);
    struct ssd_owner *owner = find_owner_locked(ssd, id);
    for (size_t i = 1; i < ssd->owners_count; i++)
        others += &ssd->owners[i] != owner ? ssd->owners[i].share : 0;
    uint64_t half = ssd->account.limits.bytes_max / 2;
    bool fits = bytes <= half && others <= half - bytes &&
                (owner != NULL || ssd->owners_count < SSD_OWNERS_MAX);
    if (fits && owner == NULL && bytes > 0)
        owner = add_owner_locked(ssd, id);
    if (fits && owner != NULL)
        owner->share = bytes;
    lock_leave(&ssd->lock);
    return fits;
}

/* ---- the order ---- */

void ssd_order_init(struct tier_ssd *ssd)
{
    ssd->owners_count = 1;
    list_init(&ssd->owners[0].lru);
    list_init(&ssd->stale);
}

void ssd_order_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry)
{
    struct ssd_owner *owner = entry->space ? find_owner_locked(ssd, entry->space) : NULL;

    lock_assert_held(&ssd->lock);
    entry->owner = owner ? owner : &ssd->owners[0];
    entry->order = ++ssd->uses;
    entry->owner->bytes += entry->charge;
    list_push_back(&entry->owner->lru, &entry->link);
}

void ssd_order_remove_locked(struct tier_ssd *ssd, struct ssd_entry *entry)
{
    lock_assert_held(&ssd->lock);
    entry->owner->bytes -= entry->charge;
    list_remove(&entry->owner->lru, &entry->link);
    entry->owner = NULL;
    if (list_node_linked(&entry->stale_link))
        list_remove(&ssd->stale, &entry->stale_link);
}

void ssd_order_move_locked(struct tier_ssd *ssd, struct ssd_entry *entry)
{
    lock_assert_held(&ssd->lock);
    entry->order = ++ssd->uses;
    list_move_back(&entry->owner->lru, &entry->link);
}

void ssd_order_use_locked(struct tier_ssd *ssd, struct ssd_entry *entry, uint64_t wall_ns)
{
    entry->used_wall_ns = MAX(entry->used_wall_ns, wall_ns);
    ssd_order_move_locked(ssd, entry);
    if (!ssd->dir.read_only && entry->used_wall_ns > entry->stamped_wall_ns &&
        !list_node_linked(&entry->stale_link))
        list_push_back(&ssd->stale, &entry->stale_link);
}

void ssd_touch(struct tier *tier, const struct hash256 *keys, size_t count)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    uint64_t now = clock_wall_ns(ssd->options.clock);

    lock_enter(&ssd->lock);
    for (size_t i = 0; i < count; i++) {
        struct ssd_entry *entry = ssd_find_live_locked(ssd, &keys[i]);
        if (entry != NULL)
            ssd_order_use_locked(ssd, entry, now);
    }
    lock_leave(&ssd->lock);
}

/* ---- eviction ---- */

/* The list to evict from: of those that `may` give, the one with the oldest head. NULL: none. */
static struct ssd_owner *choose_owner_locked(struct tier_ssd *ssd, uint64_t space, bool all)
    REQUIRES(lock)
{
    struct ssd_owner *chosen = NULL;
    uint64_t oldest = UINT64_MAX;

    for (size_t i = 0; i < ssd->owners_count; i++) {
        struct ssd_owner *owner = &ssd->owners[i];
        bool may = all || i == 0 || owner->bytes > owner->share || owner->space == space;
        const struct ssd_entry *first = LIST_ENTRY(list_first(&owner->lru), struct ssd_entry, link);
        if (may && first != NULL && first->order < oldest) {
            oldest = first->order;
            chosen = owner;
        }
    }
    return chosen;
}

/* Of entries with equal depth, the oldest. */
static struct ssd_entry *deepest(const struct list *lru)
{
    size_t window = MIN(lru->count / 4 + 1, EVICTION_WINDOW_MAX);
    struct list_node *node = list_first(lru);
    struct ssd_entry *victim = NULL;

    for (size_t i = 0; i < window && node != NULL; i++, node = list_next(lru, node)) {
        struct ssd_entry *entry = CONTAINER_OF(node, struct ssd_entry, link);
        if (victim == NULL || entry->depth > victim->depth)
            victim = entry;
    }
    return victim;
}

unsigned ssd_evict_locked(struct tier_ssd *ssd, const struct hash256 *space, uint64_t bytes,
                          unsigned count_max)
{
    uint64_t id = space ? ssd_space_id(space) : 0, sum = 0;
    struct ssd_owner *owner;
    unsigned count = 0;

    lock_assert_held(&ssd->lock);
    while (sum < bytes && count < count_max) {
        owner = choose_owner_locked(ssd, id, false);
        if (owner == NULL && space == NULL)
            owner = choose_owner_locked(ssd, 0, true);
        if (owner == NULL)
            break;
        struct ssd_entry *entry = deepest(&owner->lru);
        sum += entry->charge;
        count++;
        ssd_doom_locked(ssd, entry, false);
    }
    ssd->counters.evicted += count;
    return count;
}

/* Too many spaces: then all of them. */
static void remember_dropped_locked(struct tier_ssd *ssd, uint64_t id) REQUIRES(lock)
{
    bool full = ssd->dropped_spaces_count == SSD_DROPPED_SPACES_MAX;

    if (full)
        ssd->dropped_spaces_count = 0;
    ssd->dropped_spaces[ssd->dropped_spaces_count++] = full ? 0 : id;
}

bool ssd_was_dropped_locked(const struct tier_ssd *ssd, const struct ssd_entry *entry)
{
    lock_assert_held(&ssd->lock);
    for (unsigned i = 0; entry->state == SSD_LIVE && i < ssd->dropped_spaces_count; i++)
        if (ssd->dropped_spaces[i] == 0 || ssd->dropped_spaces[i] == entry->space)
            return true;
    return false;
}

void ssd_drop_space(struct tier *tier, const struct hash256 *space)
{
    struct tier_ssd *ssd = CONTAINER_OF(tier, struct tier_ssd, tier);
    uint64_t id = space ? ssd_space_id(space) : 0;

    lock_enter(&ssd->lock);
    for (size_t i = 0; i < ssd->owners_count; i++)
        LIST_FOREACH_SAFE (struct ssd_entry, entry, &ssd->owners[i].lru, link) {
            if (entry->state != SSD_LIVE || (space != NULL && entry->space != id))
                continue;
            ssd_doom_locked(ssd, entry, false);
            ssd->stats.drops++;
        }
    if (ssd->unread_count > 0)
        remember_dropped_locked(ssd, id);
    lock_leave(&ssd->lock);
}

/* ---- times of files ---- */

/* The next entry whose time is to be written; false: none among the first few. It counts as written
 * from now on; a failure only loses the order. */
static bool take_stale_locked(struct tier_ssd *ssd, bool all, struct hash256 *key,
                              uint64_t *wall_ns) REQUIRES(lock)
{
    uint64_t now = clock_wall_ns(ssd->options.clock);

    for (int i = 0; i < STAMPS_AT_ONCE && !list_empty(&ssd->stale); i++) {
        struct ssd_entry *entry = LIST_ENTRY(list_first(&ssd->stale), struct ssd_entry, stale_link);
        if (!all && now <= entry->stamped_wall_ns + SSD_STAMP_MIN_S * NS_PER_S) {
            list_move_back(&ssd->stale, &entry->stale_link);
            continue;
        }
        list_remove(&ssd->stale, &entry->stale_link);
        entry->stamped_wall_ns = entry->used_wall_ns;
        ssd->counters.stamps++;
        *key = entry->key;
        *wall_ns = entry->used_wall_ns;
        return true;
    }
    return false;
}

static bool stamp_one(struct tier_ssd *ssd, bool all)
{
    struct hash256 key;
    uint64_t wall_ns;
    bool direct = false;
    struct stat st;
    int fd;

    lock_enter(&ssd->lock);
    bool found = take_stale_locked(ssd, all, &key, &wall_ns);
    lock_leave(&ssd->lock);
    if (found && ssd_dir_open_object(&ssd->dir, &key, &direct, &fd, &st, NULL) == ERR_OK) {
        (void)!file_set_time(ssd->dir.fs, fd, wall_ns, NULL);
        file_close(ssd->dir.fs, &fd);
    }
    return found;
}

void ssd_stamp_some(struct tier_ssd *ssd)
{
    for (int i = 0; i < STAMPS_AT_ONCE && stamp_one(ssd, false); i++)
        continue;
}

void ssd_stamp_rest(struct tier_ssd *ssd)
{
    for (int i = 0; i < STAMPS_AT_END_MAX && stamp_one(ssd, true); i++)
        continue;
}
