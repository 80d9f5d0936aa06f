/*
 * parts.h: what the smaller files of the cache offer each other, by file. Internal to the cache
 * (cache.h).
 */
#pragma once

#include "base/attr.h"
#include "base/map.h"
#include "cache/index.h"
#include "tier/tier.h"

struct deferred;
struct file_sys;
struct hearth_store;
struct log;

/* ---- space.c ---- */

/* the state can be cut at any token of its rows */
bool space_sliceable(const struct hearth_space *space);
bool space_has_rows(const struct hearth_space *space);
bool space_needs_snapshot(const struct hearth_space *space);

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
