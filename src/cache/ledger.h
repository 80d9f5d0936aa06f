/*
 * ledger.h: every byte of the cache is charged before its memory is allocated (keeps I93). Internal
 * to the cache (cache.h); everything here runs under its lock.
 *
 *      cap  [ arenas: objects, and the gaps between them | books: trees, records, plans, stores ]
 *
 * Gaps cannot be returned, so the arenas have their own part of the cap, and so do the books (the
 * metadata); neither takes from the other. Arenas that are full of gaps are full: then objects are
 * evicted until there is a gap that fits (store.c). Full books make room by forgetting objects
 * altogether, since that frees records and nodes; objects that are only in a slower tier come
 * first. A quarter of the books is always reserved for plans and stores, so even a cache full of
 * pins can be queried.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "cache/index.h"
#include "cache/object.h"

struct deferred;
struct hearth_cache;
struct hearth_space;

/* Charges bytes to a space in the ledger, evicting other objects until they fit. False: nothing
 * more may be evicted, or the bytes can never fit. */
bool ledger_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void ledger_release(struct hearth_space *space, uint64_t bytes) REQUIRES(lock);
/* The bytes that the pages take for an allocation of `bytes`. */
uint64_t ledger_charge(uint64_t bytes);
/* The bytes charged for an object's data in memory; 0 when it is not in memory. */
uint64_t ledger_data_bytes(const struct object *object);
/* The bytes charged besides the data: an object's record, its heap slots, the metadata of its
 * pages. */
uint64_t ledger_record_bytes(void);
uint64_t ledger_place_bytes(void); /* of that, the part that is kept for the next object */
/* Reserves the record of one more object and its heap slots, so that no later push can fail. May
 * evict. False: no memory. Undone by ledger_unrecord. */
bool ledger_record(struct hearth_space *space, struct deferred *deferred) REQUIRES(lock) NODISCARD;
void ledger_unrecord(struct hearth_space *space) REQUIRES(lock);
/* The same ledger for what is shared: trees and spaces. Evicts when necessary; when the metadata
 * part is full, objects that are only in slower tiers are forgotten first. */
bool ledger_reserve_books(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void ledger_release_books(struct hearth_cache *cache, uint64_t bytes) REQUIRES(lock);
/* For plans and stores: taken from the metadata part alone, a quarter of which is reserved for
 * them. May evict when that part is full. */
bool ledger_reserve_request(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void ledger_release_request(struct hearth_cache *cache, uint64_t bytes) REQUIRES(lock);
/* Charges the ledger for the missing part of these tokens' path in the tree. ledger_account_index
 * then returns what was not needed and what the tree lost. */
bool ledger_reserve_index(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                          struct index_hint *hint, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void ledger_account_index(struct hearth_space *space) REQUIRES(lock);
