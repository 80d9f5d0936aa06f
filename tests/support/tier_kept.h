/*
 * tier_kept.h: a tier in memory that answers after a delay, from a thread, and keeps its objects
 * when the cache that it was attached to is closed, as a disk or another machine does.
 *
 *      &kept.tier --> tier_fault: thread, delay, faults --> tier_ram: the bytes
 *
 * Threads: as tier.h says; the functions below belong to the test's thread, while nothing moves.
 */
#pragma once

#include <stdint.h>

#include "tier/tier.h"

struct tier_kept {
    struct tier tier;   /* to be attached, as often as a cache is opened */
    struct tier *fault; /* for tier_fault_of and tier_fault_hold */
    struct tier *ram;   /* inside of that */
    uint64_t evictions; /* by tier_kept_evict */
};

void tier_kept_open(struct tier_kept *kept, uint64_t bytes_max, uint64_t delay_ns);
void tier_kept_close(struct tier_kept *kept);

uint64_t tier_kept_objects(struct tier_kept *kept);
/* Flips a bit of every object. */
void tier_kept_damage(struct tier_kept *kept);
/* Evicts the objects whose first token is one of [begin, end) without notice, as a full disk does. */
void tier_kept_evict(struct tier_kept *kept, uint32_t begin, uint32_t end);
