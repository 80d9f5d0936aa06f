/*
 * ledger.c: every byte of the cache is charged before its memory is allocated (keeps I93).
 *
 *      cap  [ arenas: objects, and the gaps between them | books: trees, records, plans, stores ]
 *
 * Gaps cannot be returned, so the arenas have their own part of the cap, and so do the books (the
 * metadata); neither takes from the other. Arenas that are full of gaps are full: then objects are
 * evicted until there is a gap that fits (store.c). Full books make room by forgetting objects
 * altogether, since that frees records and nodes; objects that are only in a slower tier come
 * first. A quarter of the books is always reserved for plans and stores, so even a cache full of
 * pins can be queried. What must be evicted to make room is room.c's decision.
 */
#include <assert.h>

#include "cache/cache.h"

/* ---- records ---- */

uint64_t ledger_place_bytes(void)
{
    /* A heap doubles when it grows, so a slot costs two, and there are two heaps. */
    return 4 * sizeof(struct object *) + PAGES_BOOK_BYTES;
}

uint64_t ledger_record_bytes(void)
{
    return sizeof(struct object) + ledger_place_bytes();
}

void ledger_unrecord(struct hearth_space *space)
{
    assert(space->records > 0 && space->cache->records > 0);
    space->records--;
    space->cache->records--;
    budget_release(&space->cache->meta_budget, &space->cache->books, sizeof(struct object));
}

/* The cost of one more record. Slots are kept for the next object and charged once. */
static uint64_t next_record_bytes(const struct hearth_cache *cache)
{
    return sizeof(struct object) + (cache->records == cache->places ? ledger_place_bytes() : 0);
}

bool ledger_record(struct hearth_space *space, struct deferred *deferred)
{
    struct hearth_cache *cache = space->cache;

    if (!heap_reserve(&cache->heap, cache->records + 1) ||
        !heap_reserve(&cache->heap_slow, cache->records + 1))
        return false;
    while (!budget_try_reserve(&cache->meta_budget, &cache->books, next_record_bytes(cache)))
        if (!room_forget_one(cache, space, deferred))
            return false;
    cache->places += cache->records == cache->places;
    cache->records++;
    space->records++;
    return true;
}

/* ---- data and books ---- */

uint64_t ledger_charge(uint64_t bytes)
{
    return (bytes + PAGES_PAGE_BYTES - 1) / PAGES_PAGE_BYTES * PAGES_PAGE_BYTES;
}

uint64_t ledger_data_bytes(const struct object *object)
{
    return object->data != NULL ? ledger_charge(object->bytes) : 0;
}

/* The most that a space can get, once every other tenant is reduced to its share. */
static uint64_t most(const struct hearth_cache *cache, uint64_t share)
{
    uint64_t cap = cache->budget.cap, others = cache->budget.shares - share;

    return cap > others ? cap - others : 0;
}

bool ledger_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred)
{
    struct hearth_cache *cache = space->cache;

    lock_assert_held(&cache->lock);
    if (bytes > most(cache, space->line.share))
        return false; /* would not fit even into an empty cache: evict nothing for it */
    while (!budget_try_reserve(&cache->budget, &space->line, bytes))
        if (!room_evict_one(cache, space, deferred))
            return false;
    return true;
}

void ledger_release(struct hearth_space *space, uint64_t bytes)
{
    budget_release(&space->cache->budget, &space->line, bytes);
}

/* Charges bytes to the metadata part. */
static bool reserve_part(struct hearth_cache *cache, struct budget_line *line, uint64_t bytes,
                         struct deferred *deferred)
{
    if (bytes > cache->meta_budget.cap)
        return false; /* can never fit: evict nothing for it */
    while (!budget_try_reserve(&cache->meta_budget, line, bytes))
        if (!room_forget_one(cache, NULL, deferred))
            return false;
    return true;
}

bool ledger_reserve_books(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
{
    lock_assert_held(&cache->lock);
    if (bytes > most(cache, 0))
        return false;
    /* Trees of objects in memory may grow further: they shrink with them. */
    while (!budget_try_reserve(&cache->budget, &cache->trees, bytes))
        if (!room_evict_one(cache, NULL, deferred) && !room_forget_slow(cache, deferred))
            return false;
    if (reserve_part(cache, &cache->books, bytes, deferred))
        return true;
    budget_release(&cache->budget, &cache->trees, bytes);
    return false;
}

void ledger_release_books(struct hearth_cache *cache, uint64_t bytes)
{
    lock_assert_held(&cache->lock);
    budget_release(&cache->budget, &cache->trees, bytes);
    budget_release(&cache->meta_budget, &cache->books, bytes);
}

bool ledger_reserve_request(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
{
    lock_assert_held(&cache->lock);
    return reserve_part(cache, &cache->requests, bytes, deferred);
}

void ledger_release_request(struct hearth_cache *cache, uint64_t bytes)
{
    lock_assert_held(&cache->lock);
    budget_release(&cache->meta_budget, &cache->requests, bytes);
}

/* The most that the tree will grow by: the missing nodes, and its path array. */
static uint64_t growth(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                       struct index_hint *hint)
{
    uint32_t block = space->cache->block_tokens;
    struct index_match match = index_match_hinted(space->index, tokens, count, hint);
    size_t nodes = (count - 1) / block + 1, there = match.nodes_count;

    if (there > 0 && node_is_tail(match.path[there - 1]))
        there--; /* a tail is replaced when it grows */
    return (nodes - there) * index_node_bytes(block) + nodes * 2 * sizeof(struct node *);
}

bool ledger_reserve_index(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                          struct index_hint *hint, struct deferred *deferred)
{
    uint64_t bytes;

    /* Making room may remove parts of the path: then more is needed. */
    while ((bytes = growth(space, tokens, count, hint)) + index_bytes(space->index) >
           space->index_charged) {
        bytes = bytes + index_bytes(space->index) - space->index_charged;
        if (!ledger_reserve_books(space->cache, bytes, deferred)) {
            ledger_account_index(space);
            return false;
        }
        space->index_charged += bytes;
    }
    return true;
}

void ledger_account_index(struct hearth_space *space)
{
    uint64_t bytes = index_bytes(space->index);

    assert(bytes <= space->index_charged);
    ledger_release_books(space->cache, space->index_charged - bytes);
    space->index_charged = bytes;
}
