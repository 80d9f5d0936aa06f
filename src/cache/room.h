/*
 * room.h: the ledger and the heaps: choosing eviction victims. Internal to the cache (cache.h);
 * everything here runs under its lock.
 */
#ifndef HEARTH_CACHE_ROOM_H
#define HEARTH_CACHE_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "cache/index.h"
#include "cache/object.h"

struct deferred;
struct hearth_cache;
struct hearth_space;

/* Charges bytes to a space in the ledger, evicting other objects until they fit. False: nothing
 * more may be evicted, or the bytes can never fit. */
bool room_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_release(struct hearth_space *space, uint64_t bytes) REQUIRES(lock);
/* The bytes that the pages take for an allocation of `bytes`. */
uint64_t room_charge(uint64_t bytes);
/* The bytes charged for an object's data in memory; 0 when it is not in memory. */
uint64_t room_data_bytes(const struct object *object);
/* The bytes charged besides the data: an object's record, its heap slots, the metadata of its
 * pages. */
uint64_t room_record_bytes(void);
uint64_t room_place_bytes(void); /* of that, the part that is kept for the next object */
/* Reserves the record of one more object and its heap slots, so that no later push can fail. May
 * evict. False: no memory. Undone by room_unrecord. */
bool room_record(struct hearth_space *space, struct deferred *deferred) REQUIRES(lock) NODISCARD;
void room_unrecord(struct hearth_space *space) REQUIRES(lock);
/* Evicts one object for `space` (NULL: for no particular space); false when none may be evicted. */
/* Whether an object that is about to be stored is worth less than everything that could be evicted
 * for it. Such an object is not stored (expected-reuse only). */
bool room_declines(const struct object *piece) REQUIRES(lock);
/* Whether something must be evicted before these bytes fit. */
bool room_is_full(const struct hearth_space *space, uint64_t bytes) REQUIRES(lock);
bool room_evict_one(struct hearth_cache *cache, const struct hearth_space *space,
                    struct deferred *deferred) REQUIRES(lock);
/* The same ledger for what is shared: trees and spaces. Evicts when necessary; when the metadata
 * part is full, objects that are only in slower tiers are forgotten first. */
bool room_reserve_books(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_release_books(struct hearth_cache *cache, uint64_t bytes) REQUIRES(lock);
/* For plans and stores: taken from the metadata part alone, a quarter of which is reserved for
 * them. May evict when that part is full. */
bool room_reserve_request(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_release_request(struct hearth_cache *cache, uint64_t bytes) REQUIRES(lock);
/* Charges the ledger for the missing part of these tokens' path in the tree. room_account_index
 * then returns what was not needed and what the tree lost. */
bool room_reserve_index(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                        struct index_hint *hint, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_account_index(struct hearth_space *space) REQUIRES(lock);
/* Callback of the index: an object became evictable or not. */
void room_on_change(struct object *object, bool evictable, void *cache) REQUIRES(lock);
/* Whether the object may be evicted from memory now or, when it is not in memory, be forgotten. */
bool room_may_leave(const struct object *object) REQUIRES(lock);
bool room_is_pinned(const struct object *object) REQUIRES(lock);
/* Charges one more pin to the tree, which may evict: call before looking up a path.
 * room_account_index returns what is not used. */
bool room_reserve_pin(struct hearth_space *space, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
/* index_pin and index_unpin that also update the heaps. */
bool room_pin(struct hearth_space *space, struct node *last, uint32_t end) REQUIRES(lock) NODISCARD;
void room_unpin(struct hearth_space *space, struct index_pin *pin) REQUIRES(lock);
/* Recomputes the priority after a use. */
void room_touch(struct object *object, bool used) REQUIRES(lock);
/* A longer object of its conversation is held: it is the first to be evicted, until it is used
 * again. */
void room_supersede(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Evicted from memory first; its copies elsewhere, and writes of it, are not affected. */
void room_evict_first(struct object *object) REQUIRES(lock);
/* Adds an object to the right heap, or removes it, according to its current state. */
void room_update(struct object *object) REQUIRES(lock);
/* The object entered or left a tier: updates residency and counts. */
/* Whether the object is the end of a prompt after its last whole block, in a space where rows can be
 * cut anywhere. */
bool room_is_tail(const struct object *object);
/* Frees the memory of a tail or a snapshot that is not leased. It stays in a slower tier that has
 * it, and is forgotten otherwise. */
void room_evict_tail(struct object *tail, struct deferred *deferred) REQUIRES(lock);
/* Evicts the least valuable snapshots of the space beyond their limit, except `newest`. */
void room_limit_snapshots(struct hearth_space *space, const struct object *newest,
                          struct deferred *deferred) REQUIRES(lock);
void room_set_in(struct object *object, enum hearth_tier level, bool in) REQUIRES(lock);
/* Removes an object everywhere, including slower tiers; frees it now or with its last lease. */
void room_drop(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Removes an object from one slower tier; everywhere when no other tier has it. */
void room_leave_tier(struct object *object, enum hearth_tier level, struct deferred *deferred)
    REQUIRES(lock);
/* As room_drop, but as an eviction: counted, reported as an event, and remembered as a ghost.
 * For manual evictions and expiry. */
void room_forget(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Evicts an object from memory only; other tiers keep it. False, and nothing changes, when it is
 * leased. */
bool room_demote(struct object *object, struct deferred *deferred) REQUIRES(lock);
void room_lease(struct object *object) REQUIRES(lock);
void room_unlease(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Evicts down to the cap, ignoring shares. */
void room_shrink(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Remembers that the blocks of an object were evicted. */
void room_add_ghosts(struct object *object) REQUIRES(lock);
bool room_is_ghost(const struct hearth_cache *cache, const struct hash256 *key) REQUIRES(lock);

#endif
