/*
 * store.c: taking state in. Memory is handed out before the export, so that bytes move once; the object can be found only after commit
 * (keeps I1, I67).
 *
 *      open -> next -> reserve -> (the engine exports) -> commit -> next -> ... -> close
 *                         '-----------------------------> cancel
 *
 * Between reserve and commit the lock is free and anything may happen to the index: what someone else stored meanwhile wins.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

int hearth_store_open(struct hearth_space *space, const int32_t *tokens, size_t count,
                      const struct hearth_store_hints *hints, struct hearth_store **out)
{
    *out = NULL;
    if (count == 0 || count > CACHE_TOKENS_MAX)
        return HEARTH_ERROR_INVALID;
    int32_t *copy = mem_try_alloc_array(count, sizeof(*copy));
    if (copy == NULL)
        return HEARTH_ERROR_MEMORY;
    memcpy(copy, tokens, count * sizeof(*copy));
    struct hearth_store *store = mem_alloc(sizeof(*store));
    *store = (struct hearth_store){.space = space, .tokens = copy, .count = count};
    if (hints != NULL)
        memcpy(&store->hints, hints, MIN(hints->struct_size, sizeof(store->hints)));
    *out = store;
    return HEARTH_OK;
}

void hearth_store_close(struct hearth_store **out)
{
    if (*out == NULL)
        return;
    hearth_store_cancel(*out);
    mem_free((*out)->tokens);
    mem_free(*out);
    *out = NULL;
}

/* ---- what is missing ---- */

static bool tails_allowed(const struct hearth_store *store)
{
    /* A tail of a model that cannot be cut is of use only together with a snapshot at its end (keeps I28); reserve checks that one is
     * wanted there. */
    return store->space->cache->tails_max > 0;
}

/* Rows of block [begin, begin + block) are held. */
static bool block_held(const struct index_match *match, uint32_t begin, uint32_t block)
{
    size_t i = begin / block;

    return i < match->nodes_count && node_rows_end(match->path[i]) == begin + block;
}

/* Rows of the tail [begin, count) are held, in a tail or in a block that goes on. */
static bool tail_held(const struct index_match *match, uint32_t begin, uint32_t count)
{
    struct node *node = match->nodes_count > 0 && node_begin(match->path[match->nodes_count - 1]) == begin
                            ? match->path[match->nodes_count - 1]
                            : match->partial;

    return match->tokens >= count && node != NULL && node_begin(node) == begin && node_rows_end(node) >= count;
}

bool hearth_store_next(struct hearth_store *store, uint32_t *begin, uint32_t *end)
{
    struct hearth_cache *cache = store->space->cache;
    uint32_t block = cache->block_tokens, count = (uint32_t)store->count;
    uint32_t whole = count / block * block;
    bool found = false;

    if (!space_has_rows(store->space))
        return false;
    lock_enter(&cache->lock);
    struct index_match match = index_match(store->space->index, store->tokens, store->count);
    uint32_t at = store->cursor;
    while (at < whole && block_held(&match, at, block))
        at += block;
    *begin = at;
    if (at < whole) {
        for (*end = at; *end < whole && *end - at + block <= MAX(cache->run_tokens, block) &&
                        !block_held(&match, *end, block);)
            *end += block;
        found = true;
    } else if (whole < count && at == whole && tails_allowed(store) && !tail_held(&match, whole, count)) {
        *end = count;
        found = true;
    }
    lock_leave(&cache->lock);
    store->cursor = found ? *end : count;
    return found;
}

static bool snapshot_held(struct hearth_space *space, const int32_t *tokens, uint32_t at)
{
    struct index_match match = index_match(space->index, tokens, at);
    struct node *node = match.partial ? match.partial
                        : match.nodes_count ? match.path[match.nodes_count - 1]
                                            : NULL;

    return match.tokens == at && node != NULL && node_snapshot(node, at) != NULL;
}

bool hearth_store_wants_snapshot(struct hearth_store *store, uint32_t at)
{
    struct hearth_cache *cache = store->space->cache;

    if (!space_needs_snapshot(store->space) || at == 0 || at > store->count)
        return false;
    lock_enter(&cache->lock);
    bool held = snapshot_held(store->space, store->tokens, at);
    lock_leave(&cache->lock);
    return !held;
}

/* ---- reserving ---- */

static bool range_valid(const struct hearth_store *store, enum hearth_object_kind kind, uint32_t begin,
                        uint32_t end)
{
    uint32_t block = store->space->cache->block_tokens;

    if (end > store->count || end == 0)
        return false;
    switch (kind) {
    case HEARTH_OBJECT_SNAPSHOT:
        return begin == 0;
    case HEARTH_OBJECT_ROWS:
    case HEARTH_OBJECT_SLIDING:
        /* Whole blocks, or exactly the tail. */
        return begin < end && begin % block == 0 &&
               (end % block == 0 || (end == store->count && end - begin < block));
    }
    return false;
}

/* Takes memory from the pages; when they are too scattered for an extent of that size, something more has to leave. */
static void *take_pages(struct hearth_cache *cache, uint64_t bytes)
{
    for (;;) {
        struct deferred deferred = {0};
        void *memory = pages_alloc(cache->pages, bytes);
        if (memory != NULL)
            return memory;
        cache_enter(cache, &deferred);
        bool more = room_evict_one(cache, &deferred);
        cache_leave(cache, &deferred);
        if (!more)
            return NULL;
    }
}

int hearth_store_reserve(struct hearth_store *store, enum hearth_object_kind kind, uint32_t begin,
                         uint32_t end, uint64_t capacity, void **memory)
{
    struct hearth_space *space = store->space;
    struct hearth_cache *cache = space->cache;
    struct deferred deferred = {0};

    *memory = NULL;
    if (store->memory != NULL || capacity == 0 || !range_valid(store, kind, begin, end))
        return HEARTH_ERROR_INVALID;
    uint64_t charge = room_charge(capacity) + sizeof(struct object);
    cache_enter(cache, &deferred);
    bool room = room_reserve(space, charge, &deferred);
    cache_leave(cache, &deferred);
    if (room)
        store->memory = take_pages(cache, capacity);
    if (store->memory == NULL) {
        cache_enter(cache, &deferred);
        if (room)
            room_release(space, charge);
        cache->stats.stores_refused++;
        space->stats.stores_refused++;
        cache_leave(cache, &deferred);
        return HEARTH_ERROR_MEMORY;
    }
    store->capacity = capacity;
    store->kind = kind;
    store->begin = begin;
    store->end = end;
    store->started_ns = clock_mono_ns(cache->clock);
    *memory = store->memory;
    return HEARTH_OK;
}

void hearth_store_cancel(struct hearth_store *store)
{
    struct hearth_cache *cache = store->space->cache;
    struct deferred deferred = {0};

    if (store->memory == NULL)
        return;
    cache_enter(cache, &deferred);
    cache_note_free(&deferred, store->memory);
    room_release(store->space, room_charge(store->capacity) + sizeof(struct object));
    cache->stats.stores_failed++;
    store->space->stats.stores_failed++;
    cache_leave(cache, &deferred);
    store->memory = NULL;
}

/* ---- committing ---- */

/* A tail that the new tokens extend was replaced by the index: what hung on it goes. */
static void drop_replaced(struct object *object, void *arg)
{
    struct deferred *deferred = arg;
    struct hearth_space *space = object->space;
    struct event event = {.kind = EVENT_REPLACE, .bytes = object->bytes, .tier = HEARTH_TIER_RAM,
                          .write_tokens = object->end - object->begin};

    space->stats.replaces++;
    space->cache->stats.replaces++;
    cache_note_event(space->cache, deferred, &event);
    room_drop(object, deferred);
}

static struct object *make_object(const struct hearth_store *store, uint64_t bytes, const void *shape,
                                  size_t shape_bytes)
{
    struct object *object = mem_alloc(sizeof(*object));
    uint64_t now = cache_now_ns(store->space->cache);

    *object = (struct object){
        .kind = (enum object_kind)store->kind,
        .begin = store->begin,
        .end = store->end,
        .bytes = bytes,
        .shape_bytes = (uint32_t)shape_bytes,
        .space = store->space,
        .data = store->memory,
        .data_bytes = room_charge(bytes),
        .in = {[OBJECT_TIER_RAM] = true},
        .verified = true,
        .entry = (uint8_t)store->hints.entry,
        .used_ns = now,
        .stored_ns = now,
        .keep_until_ns = store->hints.ttl_s ? now + store->hints.ttl_s * NS_PER_S : 0,
        .heap_slot = OBJECT_NOT_IN_HEAP,
    };
    if (store->hints.anchor > 0 && store->end <= store->hints.anchor)
        object->entry = HEARTH_ENTRY_SYSTEM;
    memcpy(object->shape, shape, shape_bytes);
    return object;
}

/* Keeps at most `tails_max` tails per space; the least recently used goes (keeps I40). */
static void keep_tails(struct hearth_space *space, struct object *object, struct deferred *deferred)
{
    struct hearth_cache *cache = space->cache;

    if (object->kind != OBJECT_ROWS || object->end % cache->block_tokens == 0 || !space_sliceable(space))
        return;
    list_push_back(&space->tails, &object->tail_link);
    cache->stats.tail_stashes++;
    space->stats.tail_stashes++;
    while (space->tails.count > cache->tails_max) {
        struct object *oldest = LIST_ENTRY(list_first(&space->tails), struct object, tail_link);
        cache->stats.tail_evictions++;
        space->stats.tail_evictions++;
        room_drop(oldest, deferred);
    }
}

static void note_store(const struct hearth_store *store, const struct object *object,
                       struct deferred *deferred)
{
    struct hearth_cache *cache = store->space->cache;
    struct event event = {
        .kind = EVENT_STORE,
        .request = store->hints.request,
        .prompt_tokens = (uint32_t)store->count,
        .write_tokens = object->kind == OBJECT_SNAPSHOT ? 0 : object->end - object->begin,
        .bytes = object->bytes,
        .tier = HEARTH_TIER_RAM,
        .us = (clock_mono_ns(cache->clock) - store->started_ns) / NS_PER_US,
    };

    cache->stats.stores++;
    store->space->stats.stores++;
    cache_note_event(cache, deferred, &event);
}

static int insert(struct hearth_store *store, struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = store->space;
    size_t nodes = store->end / space->cache->block_tokens + 2;

    if (!room_reserve_index(space, nodes, deferred))
        return HEARTH_ERROR_MEMORY;
    struct node *last = index_insert(space->index, store->tokens, store->end);
    bool may = last != NULL && index_may_attach(space->index, last, object);
    if (last != NULL && !may)
        index_prune(space->index, last); /* someone else stored it meanwhile */
    room_settle_index(space);
    if (!may)
        return last == NULL ? HEARTH_ERROR_MEMORY : HEARTH_ERROR_EXISTS;
    object->key = index_object_key(space->index, last, object);
    index_attach(space->index, last, object, drop_replaced, deferred);
    space->bytes += object->data_bytes;
    room_touch(object, false);
    if (store->hints.pin)
        index_pin(space->index, last, 1);
    keep_tails(space, object, deferred);
    return HEARTH_OK;
}

int hearth_store_commit(struct hearth_store *store, uint64_t bytes, const void *shape, size_t shape_bytes)
{
    struct hearth_space *space = store->space;
    struct hearth_cache *cache = space->cache;
    struct deferred deferred = {0};

    if (store->memory == NULL || bytes == 0 || bytes > store->capacity || shape_bytes > OBJECT_SHAPE_BYTES_MAX)
        return HEARTH_ERROR_INVALID;
    pages_shrink(cache->pages, store->memory, bytes);
    struct object *object = make_object(store, bytes, shape, shape_bytes);
    cache_enter(cache, &deferred);
    room_release(space, room_charge(store->capacity) - object->data_bytes);
    int error = insert(store, object, &deferred);
    if (error == HEARTH_OK) {
        note_store(store, object, &deferred);
        if (!store->hints.no_disk && !object->dropped)
            mover_write(cache, object, &deferred);
    } else {
        cache_note_free(&deferred, store->memory);
        room_release(space, object->data_bytes + sizeof(*object));
        if (error == HEARTH_ERROR_MEMORY) {
            cache->stats.stores_refused++;
            space->stats.stores_refused++;
        }
        mem_free(object);
    }
    cache_leave(cache, &deferred);
    store->memory = NULL;
    return error;
}
