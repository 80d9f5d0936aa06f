/*
 * ssd_order.h: the order of use of what is on disk, shares of spaces, and who leaves first. A part
 * of the inside of the SSD tier (ssd_impl.h), whose lock guards all of it.
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

/* Whose objects these are, in the order of use. */
struct ssd_owner {
    uint64_t space; /* ssd_space_id; 0: the common one */
    uint64_t share; /* that others do not take from it */
    uint64_t bytes; /* the charges of its entries */
    struct list lru;
};

uint64_t ssd_space_id(const struct hash256 *space);
void ssd_order_init(struct tier_ssd *ssd);
/* The entry is the most recent of its space, or is in no order any more. */
void ssd_order_insert_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
void ssd_order_remove_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
/* It was used: now, or it only counts as if it had been. */
void ssd_order_use_locked(struct tier_ssd *ssd, struct ssd_entry *entry, uint64_t wall_ns)
    REQUIRES(lock);
void ssd_order_move_locked(struct tier_ssd *ssd, struct ssd_entry *entry) REQUIRES(lock);
void ssd_order_check_locked(struct tier_ssd *ssd) REQUIRES(lock);
/* Dooms what was not used for long, `count_max` entries at most, until `bytes` are on their way;
 * for an object of `space`, from which others' shares are safe (NULL: for nobody in particular).
 * How many. */
unsigned ssd_evict_locked(struct tier_ssd *ssd, const struct hash256 *space, uint64_t bytes,
                          unsigned count_max) REQUIRES(lock);
void ssd_touch(struct tier *tier, const struct hash256 *keys, size_t count);
bool ssd_set_share(struct tier *tier, const struct hash256 *space, uint64_t bytes);
void ssd_stamp_some(struct tier_ssd *ssd); /* times of files that are a minute behind */
void ssd_stamp_rest(struct tier_ssd *ssd); /* at the end */

#endif
