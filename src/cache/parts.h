/*
 * parts.h: what the files of the cache offer each other, by file. Internal to the cache
 * (cache.h).
 */
#pragma once

#include "base/attr.h"
#include "base/map.h"
#include "cache/index.h"
#include "cache/object.h"
#include "tier/tier.h"

struct deferred;
struct deferred_put;
struct file_sys;
struct hearth_store;
struct log;

/* ---- space.c ---- */

/* the state can be cut at any token of its rows */
bool space_sliceable(const struct hearth_space *space);
bool space_has_rows(const struct hearth_space *space);
bool space_needs_snapshot(const struct hearth_space *space);
/* What computing the tokens [from, to) takes; 0 = not known. Under the lock. */
double space_compute_s(const struct hearth_space *space, uint32_t from, uint32_t to);

/* The space with this key, opened or dormant; NULL when there is none. */
struct hearth_space *space_find(struct hearth_cache *cache, const struct hash256 *key)
    REQUIRES(lock);
/* A space without model and tenant, for objects whose space has not been opened yet; NULL when
 * the ledger has no room for it. */
struct hearth_space *space_create_dormant(struct hearth_cache *cache, const struct hash256 *key,
                                          struct deferred *deferred) REQUIRES(lock);
/* Calls fn for all objects in the index of a space, parents first. They are collected
 * beforehand, so fn may drop them. */
void space_each_object(struct hearth_space *space, void (*fn)(struct object *object, void *arg),
                       void *arg) REQUIRES(lock);
/* The same for objects that end in `top` or in a node below it. */
void space_each_below(struct node *top, void (*fn)(struct object *object, void *arg), void *arg)
    REQUIRES(lock);
/* in this node only */
void space_each_in(struct node *node, void (*fn)(struct object *object, void *arg), void *arg)
    REQUIRES(lock);
/* Sets the shares as promised, or reduces all in proportion when the cap was lowered below them:
 * what has no share, such as the trees, needs room as well. */
void space_fit_shares(struct hearth_cache *cache) REQUIRES(lock);
/* Unlinks an empty space that is not open and uncharges it. The caller then frees it without the
 * lock. */
void space_remove(struct hearth_space *space) REQUIRES(lock);
void space_free(struct hearth_space *space);

/* ---- recover.c ---- */

/* Attaches a slower tier at an empty level, takes ownership, and adopts its objects into the
 * index: see recover.c. Call before any lookup. `bytes_per_s` is the expected read speed; 0 =
 * unknown. */
void cache_attach_tier(struct hearth_cache *cache, enum hearth_tier level, struct tier *tier,
                       double bytes_per_s);
/* For a disk that is attached later (attach.c): its file system, for fault injection (NULL: the
 * real one), and its log (keeps I65). Both outlive the cache. */
void cache_set_disk(struct hearth_cache *cache, const struct file_sys *fs, struct log *log);

/* Adopts one object of a shared tier, found for a prompt of `count` tokens. It is ignored when it
 * is not of this space, or does not prove its key with its tokens. */
void recover_found(struct hearth_space *space, enum hearth_tier level, const struct tier_meta *meta,
                   const int32_t *tokens, size_t count);

/* The parts of tier_meta.kind, and where its tokens begin. */
enum hearth_object_kind recover_kind(const struct tier_meta *meta);
uint8_t recover_entry(const struct tier_meta *meta);
uint32_t recover_begin(const struct tier_meta *meta);
/* A block whose tokens are known, by its key: records that follow it can be used. */
struct known {
    struct map_node link;
    struct hash256 key;
    void *value;
};
struct known *recover_find_known(struct map *map, const struct hash256 *key); /* or NULL */
void recover_add_known(struct map *map, struct known *known);
/* Whether a tree of this cache can hold an object of this shape at all. */
bool recover_fits(const struct hearth_cache *cache, const struct tier_meta *meta);
/* The object of a record in the tree; NULL when absent. `match` is the match of its tokens. */
struct object *recover_object(const struct index_match *match, const struct tier_meta *meta);

/* ---- contents.c ---- */

/* A position among the cached objects that stays valid while the lock is released and objects
 * come and go around it. It ends where the list ended at the start, and keeps the space from
 * being removed. */
struct place {
    struct hearth_cache *cache;
    struct hearth_space *only;  /* this space only; NULL: all */
    struct hearth_space *space; /* current space; NULL: at the end */
    struct object mark, end;    /* of kind 0 */
};

void place_begin(struct place *place, struct hearth_cache *cache, struct hearth_space *only)
    REQUIRES(lock);
/* The next object; NULL at the end. The caller unlocks after every few dozen of them. */
struct object *place_next(struct place *place) REQUIRES(lock);
void place_end(struct place *place) REQUIRES(lock); /* also before the end is reached */
/* The first object with this key (the key of the block it ends in), NULL when there is none.
 * Unlocks now and then. */
struct object *place_find(struct hearth_cache *cache, const unsigned char *key) REQUIRES(lock);
/* The first node of an object; for a snapshot, the node that it ends in. */
struct node *contents_first_node(const struct object *object) REQUIRES(lock);

/* ---- manage.c ---- */

/* Forgets expired objects. Call before any lookup. O(1) when none has expired. */
void manage_expire_due(struct hearth_cache *cache, struct deferred *deferred) REQUIRES(lock);
/* Sets the expiry time of an object; 0: never. */
void manage_set_expiry(struct object *object, uint64_t expires_ns) REQUIRES(lock);

/* ---- store.c ---- */

/* The index match of the first `count` tokens of the store. */
struct index_match store_match(struct hearth_store *store, uint32_t count) REQUIRES(lock);

/* Puts an object into the index of its space, at the end of `tokens` (object->end of them). The
 * caller has already reserved room, a heap slot and the record. `hint` of the tokens may be
 * NULL. HEARTH_ERROR_MEMORY or HEARTH_ERROR_EXISTS: it was not attached. */
int store_attach(struct object *object, const int32_t *tokens, struct index_hint *hint,
                 struct deferred *deferred) REQUIRES(lock) NODISCARD;

/* ---- replace.c ---- */

/* Whether the snapshot being stored is of the end of a prompt or an answer, or of a place before
 * transient text: useful only to the next turn. */
bool replace_is_turn_end(const struct hearth_store *store);
/* Called before rows of the store enter the index, and after a snapshot of it has: the objects
 * that they supersede become the first to be evicted. */
void replace_tail(struct hearth_store *store, struct deferred *deferred) REQUIRES(lock);
void replace_snapshots(struct hearth_store *store, const struct object *snapshot,
                       struct deferred *deferred) REQUIRES(lock);

/* ---- ledger.c: every byte is charged before its memory is allocated (keeps I93) ---- */

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

/* ---- room.c: the heaps, and choosing eviction victims ---- */

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
/* Whether the object is the end of a prompt after its last whole block, in a space where rows can be
 * cut anywhere. */
bool room_is_tail(const struct object *object);
/* Frees the memory of a tail or a snapshot that is not leased. It stays in a slower tier that has
 * it, and is forgotten otherwise. */
void room_evict_tail(struct object *tail, struct deferred *deferred) REQUIRES(lock);
/* If the object, which is in memory now, is a tail or a snapshot: evicts others of its space beyond
 * their limit, tails by last use, snapshots by value (keeps I40). The newest always stays. */
void room_limit(struct object *newest, struct deferred *deferred) REQUIRES(lock);
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
/* Whether a snapshot in the block with this key was evicted. */
bool room_lost_snapshot(const struct hearth_cache *cache, const struct hash256 *key) REQUIRES(lock);

/* ---- sweep.c ---- */

/* Forgets what a tier has evicted, unless that was done a moment ago. Call without the lock. */
void sweep_tier(struct hearth_cache *cache, enum hearth_tier level);
void sweep_tiers(struct hearth_cache *cache); /* all slower ones */

/* ---- mover.c: between memory and the slower tiers ---- */

/* Writes an object in memory to each attached slower tier that lacks it. */
void mover_write(struct object *object, struct deferred *deferred) REQUIRES(lock);
/* Starts reading a leased object into memory for a request, or joins a read. FULL: there is no
 * memory now, but operations are running whose end may free some. `*wants`: set with COMING; the
 * caller counts as one that needs the read until mover_leave. */
enum mover_answer { MOVER_COMING, MOVER_FULL, MOVER_CANNOT };
enum mover_answer mover_read(struct hearth_cache *cache, struct object *object, uint64_t request,
                             bool *wants) NODISCARD;
/* The caller needs the read no longer. The last one cancels it, if it is still running. */
void mover_leave(struct hearth_cache *cache, struct object *object, bool *wants);
/* Waits until a leased object is in memory or its read has failed: OK, MISSING or TIMEOUT.
 * Unlocks while it waits. */
int mover_await(struct hearth_cache *cache, const struct object *object, uint64_t deadline_ns)
    REQUIRES(lock);
/* The metadata that a tier stores beside an object's bytes; free *tokens with mem_free. False:
 * no memory. */
bool mover_fill_meta(const struct object *object, struct tier_meta *meta, int32_t **tokens)
    REQUIRES(lock) NODISCARD;
void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts);
/* A slower tier has freed `retry_credit` queue places or objects: retries what it declined, the
 * newest first, a few at a time. */
void mover_retry(struct hearth_cache *cache, enum hearth_tier level, size_t retry_credit);
/* Stops offering the object to the tiers (TIER_BITs) that declined it. */
void mover_give_up(struct object *object, uint32_t tiers) REQUIRES(lock);
/* The tier has evicted the object. Not an error: a full disk does this. The tier counts it. */
void mover_note_evicted(struct object *object, enum hearth_tier level, struct deferred *deferred)
    REQUIRES(lock);
/* Retries declined writes as far as the tiers accept them now, and waits until nothing is
 * moving, but no longer than the timeout. */
void mover_drain(struct hearth_cache *cache, uint64_t timeout_ms);
