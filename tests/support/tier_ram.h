/*
 * tier_ram.h: a tier in memory, in pages that are reused.
 *
 * As any tier it copies in and out, and verifies what it gives. Those who know that it is memory
 * can do without the copies:
 *
 *      reserve -> the caller writes, in place -> commit (or cancel)
 *      borrow  -> the caller reads, in place  -> return                    a lease
 *
 * Nothing leased is freed or written: an object that is dropped or replaced meanwhile cannot be
 * found any more, and its memory goes with the last lease (keeps I11). Everything counts against
 * the cap, the books too (keeps I93): one part in 32 of it is set aside for them, and the rest is
 * the limit of the arenas. Nothing is evicted: what does not fit is refused.
 *
 * Puts and gets are done within the call. Threads: any (own lock, rank LOCK_RANK_TIER).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "tier/tier.h"

struct clock;

struct tier_ram_options {
    uint64_t bytes_max;                     /* of everything */
    uint64_t arena_bytes;                   /* 0 = by pages.h */
    void *(*alloc)(size_t size, void *arg); /* as in pages.h; NULL = pages of the system */
    void (*free)(void *ptr, void *arg);
    void *arg;
    struct clock *clock; /* for the time of last use; NULL = the machine's */
};

/* Closed with tier_close, which aborts when something is leased or reserved. */
struct tier *tier_ram_open(const struct tier_ram_options *options);

/* The bytes of an object, where they lie; NULL when it is not here. Not verified: they never left
 * this memory. To be returned as often as borrowed, by the pointer. */
const void *tier_ram_borrow(struct tier *tier, const struct hash256 *key,
                            uint64_t *bytes) NODISCARD;
void tier_ram_return(struct tier *tier, const void *data);

/* Page-aligned memory for an object that is about to be made, `capacity` (>= 1) bytes or more; NULL
 * when that does not fit. */
void *tier_ram_reserve(struct tier *tier, uint64_t capacity) NODISCARD;
/* The first `bytes` (>= 1) of it are the object now (meta->bytes is not looked at), and what is
 * behind them is given back. False when there is no room for its books: then the memory is given
 * back. */
bool tier_ram_commit(struct tier *tier, const struct tier_meta *meta, void *memory,
                     uint64_t bytes) NODISCARD;
void tier_ram_cancel(struct tier *tier, void *memory);

/* Aborts when tables and counts contradict each other. O(n), for tests; no other thread may be
 * using the tier. */
void tier_ram_check(struct tier *tier);
