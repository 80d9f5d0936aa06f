/*
 * recover.c: attaching a slower tier and adopting the objects that an earlier process left in it,
 * so that a restart begins warm (keeps I107).
 *
 * A tier lists its objects in order of use. Each record has the object's key, the key of its
 * space, the key of the preceding block and the tokens from there on. It is adopted when the
 * preceding block is in the tree; until then it waits under that key:
 *
 *      each --> parent known? --yes--> adopt: its blocks become known
 *                    '--no---> waits (a copy, charged to the ledger)
 *
 *      at the end: adopt all waiting records, sorted by their first token, so that parents come
 *      before children; records whose parent is still unknown are orphans
 *
 * If a previously attached tier already brought the object, it is the same object in one more
 * tier. Objects of such a tier may also be the parents of waiting records.
 *
 * Adopted objects are leased until the end: making room for trees must not forget the parents of
 * later records. Trees may grow up to the metadata part of the budget (room.c).
 *
 * TRUST. A record is trusted only as far as its key proves it: the tokens are inserted, the
 * object's key is computed from them with the key of the space, and must equal the key that it is
 * stored under (keeps I101). The tier verifies the bytes when they are read. Contradictory records
 * and orphans can never be reached, so they are dropped from the tier. Either stays when lack of
 * memory may be the cause, because then it may be intact.
 *
 * SPACES that are not open yet. Until a space is opened with the model and the tenant that make up
 * its key, only the key is known: it is created dormant, with its tree, and woken by
 * hearth_space_open. Objects of a configuration that never comes back are unused, so they are the
 * first to be forgotten when trees need room. A tree has the block size of this process. Records
 * of another block size are skipped and stay in the tier: their space has another key, and is
 * needed again when the old size is configured.
 *
 * Not here: reading any bytes. Objects are promoted when a plan needs them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "cache/cache.h"

/* A record whose parent has not been seen yet. */
struct waiting {
    struct tier_meta meta;
    uint64_t charged;
    int32_t tokens[];
};

struct recovery {
    struct hearth_cache *cache;
    enum hearth_tier level;
    struct map known;
    struct waiting **waiting;
    size_t waiting_count, waiting_cap;
    struct list adopted; /* objects, by aside_link, leased */
    struct deferred deferred;
    uint64_t charged; /* to the ledger, for all of this */
    bool complete;    /* nothing was left out for lack of memory */
};

/* Memory charged to the ledger while recovering; NULL: no room, so something will be left out. */
static void *take(struct recovery *recovery, uint64_t bytes)
{
    void *memory = NULL;

    if (ledger_reserve_books(recovery->cache, bytes, &recovery->deferred)) {
        memory = mem_try_alloc(bytes);
        if (memory != NULL)
            recovery->charged += bytes;
        else
            ledger_release_books(recovery->cache, bytes);
    }
    recovery->complete &= memory != NULL;
    return memory;
}

static void give(struct recovery *recovery, void *memory, uint64_t bytes)
{
    mem_free(memory);
    recovery->charged -= bytes;
    ledger_release_books(recovery->cache, bytes);
}

/* ---- records ---- */

enum hearth_object_kind recover_kind(const struct tier_meta *meta)
{
    return (enum hearth_object_kind)(meta->kind & 0xff);
}

uint8_t recover_entry(const struct tier_meta *meta)
{
    return (uint8_t)(meta->kind >> 8);
}

uint32_t recover_begin(const struct tier_meta *meta)
{
    return meta->end - meta->tokens_count;
}

static uint64_t hash_of(const struct hash256 *key)
{
    return map_hash(key->bytes, sizeof(key->bytes), 0); /* keyed hashes already: not predictable */
}

static bool known_is(const struct map_node *node, const void *key)
{
    return hash256_eq(&CONTAINER_OF(node, struct known, link)->key, key);
}

struct known *recover_find_known(struct map *map, const struct hash256 *key)
{
    struct map_node *node = map_find(map, hash_of(key), known_is, key);

    return node ? CONTAINER_OF(node, struct known, link) : NULL;
}

void recover_add_known(struct map *map, struct known *known)
{
    map_insert(map, &known->link, hash_of(&known->key));
}

bool recover_fits(const struct hearth_cache *cache, const struct tier_meta *meta)
{
    uint32_t block = cache->block_tokens;

    if (meta->kind >> 16 != block - 1 || recover_entry(meta) > HEARTH_ENTRY_SYSTEM ||
        meta->bytes == 0 || meta->shape_bytes > OBJECT_SHAPE_BYTES_MAX ||
        meta->end > CACHE_TOKENS_MAX || meta->tokens_count == 0 || meta->tokens_count > meta->end)
        return false;
    switch (recover_kind(meta)) {
    case HEARTH_OBJECT_SNAPSHOT:
        return meta->begin == 0 && recover_begin(meta) % block == 0;
    case HEARTH_OBJECT_ROWS:
    case HEARTH_OBJECT_SLIDING:
        return meta->begin == recover_begin(meta) && meta->begin % block == 0 &&
               (meta->end % block == 0 || meta->end - meta->begin < block);
    }
    return false;
}

static struct object *make_object(struct hearth_space *space, const struct tier_meta *meta)
{
    struct hearth_cache *cache = space->cache;
    struct object *object = mem_alloc(sizeof(*object));
    uint64_t now = cache_now_ns(cache), wall = clock_wall_ns(cache->clock);
    uint64_t age = wall - MIN(meta->used_wall_ns, wall);

    *object = (struct object){
        .kind = recover_kind(meta),
        .begin = meta->begin,
        .end = meta->end,
        .bytes = meta->bytes,
        .shape_bytes = meta->shape_bytes,
        .space = space,
        .entry = recover_entry(meta),
        .used_ns = now - MIN(age, now),
        .stored_ns = now - MIN(age, now),
        .heap_slot = OBJECT_NOT_IN_HEAP,
    };
    memcpy(object->shape, meta->shape, meta->shape_bytes);
    return object;
}

struct object *recover_object(const struct index_match *match, const struct tier_meta *meta)
{
    struct node *last = index_match_last(match);

    if (last == NULL || match->tokens < meta->end)
        return NULL;
    switch (recover_kind(meta)) {
    case HEARTH_OBJECT_ROWS:
        return node_rows(last);
    case HEARTH_OBJECT_SLIDING:
        return node_sliding(last);
    case HEARTH_OBJECT_SNAPSHOT:
        return node_snapshot(last, meta->end);
    }
    return NULL;
}

/* ---- adopting ---- */

/* Leases an object of the tree until the end. */
static void keep(struct recovery *recovery, struct object *object)
{
    if (list_node_linked(&object->aside_link))
        return;
    room_lease(object);
    list_push_back(&recovery->adopted, &object->aside_link);
}

/* If the tree already has the record's object, notes that it is in one more tier. */
static bool share(struct recovery *recovery, struct hearth_space *space,
                  const struct tier_meta *meta, const int32_t *tokens)
{
    struct index_match match = index_match(space->index, tokens, meta->end);
    struct object *object = recover_object(&match, meta);

    if (object == NULL || !hash256_eq(&object->key, &meta->key) || object->bytes != meta->bytes ||
        object->shape_bytes != meta->shape_bytes ||
        memcmp(object->shape, meta->shape, meta->shape_bytes) != 0)
        return false;
    room_set_in(object, recovery->level, true);
    keep(recovery, object);
    return true;
}

/* Fills tokens [0, node_end(node)), from the end. */
static void fill_path(const struct node *node, int32_t *tokens)
{
    for (; node != NULL; node = node_parent(node))
        memcpy(tokens + node_begin(node), node_tokens(node),
               (node_end(node) - node_begin(node)) * sizeof(*tokens));
}

/* Puts an object whose tokens are complete into the tree of its space. False: no memory, or the
 * record contradicts itself. */
static bool attach(struct recovery *recovery, struct hearth_space *space,
                   const struct tier_meta *meta, const int32_t *tokens)
{
    struct deferred *deferred = &recovery->deferred;

    if (!ledger_record(space, deferred)) {
        recovery->complete = false;
        return false;
    }
    if (!ledger_reserve(space, ledger_record_bytes(), deferred)) {
        ledger_unrecord(space);
        recovery->complete = false;
        return false;
    }
    struct object *object = make_object(space, meta);
    uint64_t used_ns = object->used_ns;
    int error = store_attach(object, tokens, NULL, deferred);
    if (error != HEARTH_OK) {
        ledger_release(space, ledger_record_bytes());
        mem_free(object);
        ledger_unrecord(space);
        recovery->complete &= error != HEARTH_ERROR_MEMORY;
        return error == HEARTH_ERROR_EXISTS && share(recovery, space, meta, tokens);
    }
    bool proved = hash256_eq(&object->key, &meta->key);
    room_set_in(object, recovery->level, true);
    object->used_ns = used_ns;
    if (proved)
        keep(recovery, object);
    else
        /* drops it under the computed key, where the tier has nothing; the caller drops the
         * record */
        room_drop(object, deferred);
    return proved;
}

/* Registers a block, so that others may follow it. False: already known, or no memory. */
static bool know(struct recovery *recovery, struct node *node)
{
    const struct hash256 *key = node_key(node);

    if (recover_find_known(&recovery->known, key) != NULL)
        return false;
    struct known *known = take(recovery, sizeof(*known));
    if (known == NULL)
        return false;
    *known = (struct known){.key = *key, .value = node};
    recover_add_known(&recovery->known, known);
    return true;
}

/* Registers those of the object's blocks that others may follow. */
static void make_known(struct recovery *recovery, struct hearth_space *space, const int32_t *tokens,
                       const struct tier_meta *meta)
{
    struct index_match match = index_match(space->index, tokens, meta->end);

    for (size_t i = recover_begin(meta) / recovery->cache->block_tokens; i < match.nodes_count; i++)
        if (!node_is_tail(match.path[i]))
            (void)know(recovery, match.path[i]);
}

/* Adopts a record whose parent (NULL: none) is known; a useless one is dropped from the tier. */
static void adopt(struct recovery *recovery, const struct tier_meta *meta,
                  const struct node *parent)
{
    struct hearth_cache *cache = recovery->cache;
    struct hearth_space *space = space_find(cache, &meta->space);
    uint64_t bytes = (uint64_t)meta->end * sizeof(int32_t);

    if (space == NULL)
        space = space_create_dormant(cache, &meta->space, &recovery->deferred);
    int32_t *tokens = space ? take(recovery, bytes) : NULL;
    if (tokens == NULL) {
        recovery->complete = false;
        return;
    }
    fill_path(parent, tokens);
    memcpy(tokens + recover_begin(meta), meta->tokens, meta->tokens_count * sizeof(*tokens));
    bool complete = recovery->complete;
    recovery->complete = true;
    if (attach(recovery, space, meta, tokens))
        make_known(recovery, space, tokens, meta);
    else if (recovery->complete)
        cache_note_drop(cache, &recovery->deferred, TIER_BIT(recovery->level), &meta->key);
    recovery->complete &= complete;
    give(recovery, tokens, bytes);
}

/* The parent of a record: true when it is known, or none is needed. A block that does not end where
 * the record begins is not its parent: the record contradicts itself. */
static bool find_parent(struct recovery *recovery, const struct tier_meta *meta,
                        const struct node **parent)
{
    bool first = recover_begin(meta) == 0;
    const struct known *known = first ? NULL : recover_find_known(&recovery->known, &meta->parent);

    *parent = known ? known->value : NULL;
    return first || (known != NULL && node_end(*parent) == recover_begin(meta));
}

static void wait_for_parent(struct recovery *recovery, const struct tier_meta *meta)
{
    uint64_t bytes = sizeof(struct waiting) + (uint64_t)meta->tokens_count * sizeof(int32_t);
    struct waiting *waiting = take(recovery, bytes);

    if (waiting == NULL)
        return;
    waiting->meta = *meta;
    waiting->charged = bytes;
    memcpy(waiting->tokens, meta->tokens, meta->tokens_count * sizeof(int32_t));
    waiting->meta.tokens = waiting->tokens;
    mem_reserve_one(&recovery->waiting, recovery->waiting_count, &recovery->waiting_cap,
                    sizeof(waiting));
    recovery->waiting[recovery->waiting_count++] = waiting;
}

static bool on_record(const struct tier_meta *meta, void *arg)
{
    struct recovery *recovery = arg;
    const struct node *parent;

    if (!recover_fits(recovery->cache, meta))
        return true;
    if (find_parent(recovery, meta, &parent))
        adopt(recovery, meta, parent);
    else
        wait_for_parent(recovery, meta);
    return true;
}

/* ---- waiting records ---- */

static int by_begin(const void *a, const void *b)
{
    uint32_t x = recover_begin(&(*(struct waiting *const *)a)->meta),
             y = recover_begin(&(*(struct waiting *const *)b)->meta);

    return (x > y) - (x < y);
}

static void know_object(struct object *object, void *arg)
{
    struct recovery *recovery = arg;
    struct node *node = object->last;

    keep(recovery, object);
    if (node_is_tail(node))
        node = node_parent(node);
    while (node != NULL && node_end(node) > object->begin && know(recovery, node))
        node = node_parent(node);
}

/* Registers the blocks that were in the tree before. */
static void know_tree(struct recovery *recovery)
{
    LIST_FOREACH (struct hearth_space, space, &recovery->cache->spaces, link)
        space_each_object(space, know_object, recovery);
}

static void adopt_waiting(struct recovery *recovery)
{
    if (recovery->waiting_count > 0 && recovery->cache->records > recovery->adopted.count)
        know_tree(recovery);
    if (recovery->waiting_count > 0)
        qsort(recovery->waiting, recovery->waiting_count, sizeof(recovery->waiting[0]), by_begin);
    for (size_t i = 0; i < recovery->waiting_count; i++) {
        struct waiting *waiting = recovery->waiting[i];
        const struct node *parent;
        if (find_parent(recovery, &waiting->meta, &parent))
            adopt(recovery, &waiting->meta, parent);
        else if (recovery->complete)
            /* unreachable, now and later */
            cache_note_drop(recovery->cache, &recovery->deferred, TIER_BIT(recovery->level),
                            &waiting->meta.key);
        give(recovery, waiting, waiting->charged);
    }
    mem_free(recovery->waiting);
}

static void release_adopted(struct recovery *recovery)
{
    struct list_node *link;

    while ((link = list_pop_front(&recovery->adopted)) != NULL)
        room_unlease(CONTAINER_OF(link, struct object, aside_link), &recovery->deferred);
}

static void forget_known(struct map_node *node, void *arg)
{
    struct recovery *recovery = arg;
    struct known *known = CONTAINER_OF(node, struct known, link);

    map_remove(&recovery->known, node);
    give(recovery, known, sizeof(*known));
}

/* ---- the tier is read without the lock, records are adopted under it ---- */

void recover_found(struct hearth_space *space, enum hearth_tier level, const struct tier_meta *meta,
                   const int32_t *tokens, size_t count)
{
    struct hearth_cache *cache = space->cache;
    struct recovery recovery = {.cache = cache, .level = level, .complete = true};
    uint64_t bytes = (uint64_t)meta->end * sizeof(int32_t);

    if (!recover_fits(cache, meta) || !hash256_eq(&meta->space, &space->key) ||
        recover_begin(meta) > count)
        return;
    list_init(&recovery.adopted);
    cache_enter(cache, &recovery.deferred);
    int32_t *path = take(&recovery, bytes);
    if (path != NULL) {
        memcpy(path, tokens, recover_begin(meta) * sizeof(*path));
        memcpy(path + recover_begin(meta), meta->tokens, meta->tokens_count * sizeof(*path));
        (void)attach(&recovery, space, meta, path);
        give(&recovery, path, bytes);
    }
    release_adopted(&recovery);
    assert(recovery.charged == 0);
    cache_leave(cache, &recovery.deferred);
}

static bool on_record_unlocked(const struct tier_meta *meta, void *arg)
{
    struct recovery *recovery = arg;

    cache_enter(recovery->cache, &recovery->deferred);
    bool more = on_record(meta, recovery);
    cache_leave(recovery->cache, &recovery->deferred);
    return more;
}

void cache_attach_tier(struct hearth_cache *cache, enum hearth_tier level, struct tier *tier,
                       double bytes_per_s)
{
    struct recovery recovery = {.cache = cache, .level = level, .complete = true};

    assert(level >= TIER_SLOWER && level < HEARTH_TIER_COUNT && cache->tiers[level].tier == NULL);
    cache->tiers[level].tier = tier;
    cache->tiers[level].bytes_per_s = bytes_per_s;
    map_init(&recovery.known);
    list_init(&recovery.adopted);
    tier->ops->each(tier, on_record_unlocked, &recovery);
    cache_enter(cache, &recovery.deferred);
    adopt_waiting(&recovery);
    map_each(&recovery.known, forget_known, &recovery);
    release_adopted(&recovery);
    assert(recovery.charged == 0);
    cache_leave(cache, &recovery.deferred);
    map_fini(&recovery.known);
}
