/*
 * ssd_order.h: the order of use of objects on disk, shares of spaces, and eviction. Internal to the
 * SSD tier (ssd_impl.h), whose lock guards all of it.
 */
#ifndef HEARTH_TIER_SSD_ORDER_H
#define HEARTH_TIER_SSD_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/list.h"
#include "tier/tier.h"

struct ssd_entry;
struct tier_ssd;

/* The objects of one space, in the order of use. */
struct ssd_owner {
    uint64_t space; /* ssd_space_id; 0: the common list */
    uint64_t share; /* bytes that others cannot evict */
    uint64_t bytes; /* the charges of its entries */
    struct list lru;
};

uint64_t ssd_space_id(const struct hash256 *space);
void ssd_order_init(struct tier_ssd *ssd);
/* Adds the entry as the most recent of its space, or removes it from the order. */
void ssd_order_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
void ssd_order_remove_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* Marks it as used now, or only moves it as if it had been. */
void ssd_order_use_locked(struct tier_ssd *ssd, struct ssd_entry *entry, uint64_t wall_ns)
    REQUIRES(lock);
void ssd_order_move_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* Dooms the least recently used entries, at most `count_max`, until they add up to `bytes`. The
 * room is for an object of `space`, which cannot evict within others' shares (NULL: no particular
 * space). Returns their number. */
unsigned ssd_evict_locked(struct tier_ssd *ssd, const struct hash256 *space, uint64_t bytes,
                          unsigned count_max) REQUIRES(lock);
void ssd_touch(struct tier *tier, const struct hash256 *keys, size_t count);
bool ssd_set_share(struct tier *tier, const struct hash256 *space, uint64_t bytes);
void ssd_stamp_some(struct tier_ssd *ssd); /* file times that are a minute out of date */
void ssd_stamp_rest(struct tier_ssd *ssd); /* when closing */

#endif
