/*
 * room.h: the heaps: choosing eviction victims. Internal to the cache (cache.h);
 * everything here runs under its lock.
 */
#pragma once

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

/* Whether an object that is about to be stored is worth less than everything that could be evicted
 * for it. Such an object is not stored (expected-reuse only). */
bool room_declines(const struct object *piece) REQUIRES(lock);
/* Whether something must be evicted before these bytes fit. */
bool room_is_full(const struct hearth_space *space, uint64_t bytes) REQUIRES(lock);
/* Evicts one object for `space` (NULL: for no particular space); false when none may be evicted. */
bool room_evict_one(struct hearth_cache *cache, const struct hearth_space *space,
                    struct deferred *deferred) REQUIRES(lock);
/* Forgets one object altogether to free its record and nodes: one that is only in a slower tier, if
 * there is any. False when none may be forgotten. */
bool room_forget_one(struct hearth_cache *cache, const struct hearth_space *space,
                     struct deferred *deferred) REQUIRES(lock);
/* The same for objects that are only in a slower tier, whatever their shares and times to live. */
bool room_forget_slow(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Callback of the index: an object became evictable or not. */
void room_on_change(struct object *object, bool evictable, void *cache) REQUIRES(lock);
/* Whether the object may be evicted from memory now or, when it is not in memory, be forgotten. */
bool room_may_leave(const struct object *object) REQUIRES(lock);
bool room_is_pinned(const struct object *object) REQUIRES(lock);
/* Charges one more pin to the tree, which may evict: call before looking up a path.
 * ledger_account_index returns what is not used. */
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
/* Whether the object is the end of a prompt after its last whole block, in a space where rows can be
 * cut anywhere. */
bool room_is_tail(const struct object *object);
/* Frees the memory of a tail or a snapshot that is not leased. It stays in a slower tier that has
 * it, and is forgotten otherwise. */
void room_evict_tail(struct object *tail, struct deferred *deferred) REQUIRES(lock);
/* Evicts the least valuable snapshots of the space beyond their limit, except `newest`. */
void room_limit_snapshots(struct hearth_space *space, const struct object *newest,
                          struct deferred *deferred) REQUIRES(lock);
/* The object entered or left a tier: updates residency and counts. */
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
