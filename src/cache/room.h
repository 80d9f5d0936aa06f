/*
 * room.h: the ledger and the heaps: who must leave when something new wants in. A part of the
 * inside of the cache (cache.h), which everything here runs under the lock of.
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

/* Takes bytes from the ledger for a space, evicting others until they fit. False: nothing more may
 * be evicted, or never enough. */
bool room_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_release(struct hearth_space *space, uint64_t bytes) REQUIRES(lock);
/* What the pages take for so many bytes. */
uint64_t room_charge(uint64_t bytes);
/* What is charged for the bytes of an object in memory; 0 when it is not there. */
uint64_t room_data_bytes(const struct object *object);
/* What is charged beside it for an object: its record, its places in heaps, the books of its pages.
 */
uint64_t room_record_bytes(void);
uint64_t room_place_bytes(void); /* of that, what is kept for the next object when it goes */
/* A place for one more object in the heaps, so that no later push can fail, and the memory of its
 * record. May evict. False: no memory. Undone by room_unrecord. */
bool room_record(struct hearth_space *space, struct deferred *deferred) REQUIRES(lock) NODISCARD;
void room_unrecord(struct hearth_space *space) REQUIRES(lock);
/* Evicts one object for `space` (NULL: for nobody in particular); false when none may leave. */
bool room_evict_one(struct hearth_cache *cache, const struct hearth_space *space,
                    struct deferred *deferred) REQUIRES(lock);
/* The same ledger for what is nobody's alone: trees and spaces. Evicts when it must; when the part
 * for books is full, what is in slower tiers only is forgotten first. */
bool room_reserve_books(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_release_books(struct hearth_cache *cache, uint64_t bytes) REQUIRES(lock);
/* For plans and stores: of the part for books alone, a quarter of which is theirs. May
 * evict when that is full. */
bool room_reserve_request(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_release_request(struct hearth_cache *cache, uint64_t bytes) REQUIRES(lock);
/* Charges the ledger for the path of these tokens in the tree, as far as it is not there; then
 * room_settle_index gives back what was not needed, and what the tree lost. */
bool room_reserve_index(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                        struct index_hint *hint, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
void room_settle_index(struct hearth_space *space) REQUIRES(lock);
/* The index says that an object may (not) leave. */
void room_watch(struct object *object, bool evictable, void *cache) REQUIRES(lock);
/* Whether the object may be taken out of memory now or, when it is not there, be forgotten. */
bool room_may_leave(const struct object *object) REQUIRES(lock);
bool room_is_pinned(const struct object *object) REQUIRES(lock);
/* Takes the bytes of one more pin for the tree, which may evict: before a path is looked up.
 * room_settle_index gives back what is not used. */
bool room_reserve_pin(struct hearth_space *space, struct deferred *deferred)
    REQUIRES(lock) NODISCARD;
/* index_pin and index_unpin, and the heaps know. */
bool room_pin(struct hearth_space *space, struct node *last, uint32_t end) REQUIRES(lock) NODISCARD;
void room_unpin(struct hearth_space *space, struct index_pin *pin) REQUIRES(lock);
/* Recomputes the priority after a use. */
void room_touch(struct object *object, bool used) REQUIRES(lock);
/* A longer one of its conversation is held: from now on it is the first to leave, until it is used
 * again. */
void room_supersede(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Puts an object into the heap, or takes it out, by what is true of it now. */
void room_update(struct object *object) REQUIRES(lock);
/* The object is in a tier now, or not any more: residency, and what is counted of it. */
void room_set_in(struct object *object, enum hearth_tier level, bool in) REQUIRES(lock);
/* Takes an object out of everything, slower tiers included; frees it now or with its last lease. */
void room_drop(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Takes an object out of one slower tier; out of everything when it is nowhere else. */
void room_leave_tier(struct object *object, enum hearth_tier level, struct deferred *deferred)
    REQUIRES(lock);
/* As room_drop, as an eviction: counted, told, and remembered as such. For what leaves by hand or by
 * its time. */
void room_forget(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Takes an object out of memory only; it stays where else it is. False, and nothing changes, when
 * it is leased. */
bool room_demote(struct object *object, struct deferred *deferred) REQUIRES(lock);
void room_lease(struct object *object) REQUIRES(lock);
void room_unlease(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Evicts down to the cap, shares or not. */
void room_shrink(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Remembers that the blocks of an object were evicted. */
void room_add_ghosts(struct object *object) REQUIRES(lock);
bool room_is_ghost(const struct hearth_cache *cache, const struct hash256 *key) REQUIRES(lock);

#endif
