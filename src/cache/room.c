/*
 * room.c: choosing what to evict when something new needs room.
 *
 * Every byte is charged to the ledger before the memory is allocated (keeps I93). When the ledger
 * is full, the object with the lowest priority is evicted, and the floor of priorities rises to
 * its priority; so unused objects age without being touched.
 *
 *      cap  [ arenas: objects, and the gaps between them | books: trees, records, plans, stores ]
 *
 * Gaps cannot be returned, so the arenas have their own part of the cap, and so do the books (the
 * metadata); neither takes from the other. Arenas that are full of gaps are full: then objects are
 * evicted until there is a gap that fits (store.c). Full books make room by forgetting objects
 * altogether, since that frees records and nodes; objects that are only in a slower tier come
 * first. A quarter of the books is always reserved for plans and stores, so even a cache full of
 * pins can be queried.
 *
 * The heap holds exactly the objects that are in memory, not leased, not pinned, and either also
 * in a slower tier or without children that hold rows: see room_may_leave. Objects within a
 * tenant's reserved share are not evicted for another tenant (keeps I100). A time to live is
 * respected as long as anything else can be evicted. A second heap holds, likewise, the objects
 * that are only in a slower tier: they take no memory but their place in the tree, and are
 * forgotten only to make room for trees and records.
 *
 * Heaps have a slot for every object before it is created (room_record), so that nothing here can
 * fail half-way.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

enum {
    RENEW_NS_MIN = 100 * 1000 * 1000,
    RENEW_OBJECT_NS = 10 * 1000,
};

static bool in_slower_tier(const struct object *object)
{
    return (object->in & TIER_BITS_SLOWER) != 0;
}

static struct hearth_cache *cache_of(const struct object *object)
{
    return object->space->cache;
}

/* ---- priorities ---- */

static double rate_of(const struct object *object, uint64_t now_ns)
{
    return reuse_rate(cache_of(object)->reuse, object->shared ? REUSE_SHARED : object->reuse,
                      now_ns - MIN(object->used_ns, now_ns));
}

static double priority_of(const struct hearth_cache *cache, const struct object *object,
                          uint64_t now_ns)
{
    const struct hearth_space *space = object->space;
    uint32_t begin = object->begin;

    /* A snapshot saves the tokens back to the previous boundary; if that is unknown, those of a
     * run. */
    if (object->kind == HEARTH_OBJECT_SNAPSHOT)
        begin = object->end > cache->run_tokens ? object->end - cache->run_tokens : 0;
    struct policy_entry entry = {
        .begin = begin,
        .end = object->end,
        .bytes = object->bytes,
        .uses = object->uses,
        .age_ns = now_ns - MIN(object->used_ns, now_ns),
        .now_ns = now_ns,
        .entry = object->entry,
        .snapshot = object->kind == HEARTH_OBJECT_SNAPSHOT,
        .superseded = object->superseded || object->demoted,
        .shared = object->shared,
        .tokens_per_s = space->model.prefill_tokens_per_s,
        .floor = cache->floor,
    };
    if (cache->policy == POLICY_EXPECTED_REUSE)
        entry.uses_per_s = rate_of(object, now_ns);
    return policy_priority(cache->policy, &entry);
}

/* A pin holds a whole path, so the first node of an object is enough. */
bool room_is_pinned(const struct object *object)
{
    return node_pinned(contents_first_node(object));
}

bool room_may_leave(const struct object *object)
{
    if (object->leases > 0 || object->dropped || object->last == NULL)
        return false;
    /* If a slower tier also has the object, it can still be found there after leaving memory,
     * and so can everything after it: children do not matter. */
    return index_evictable(object->space->index, object) ||
           (object->data != NULL && in_slower_tier(object) && !room_is_pinned(object));
}

/* The heap that the object belongs in now; NULL: it may not be evicted. */
static struct heap *heap_for(const struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    if (!room_may_leave(object))
        return NULL;
    if (object->data != NULL)
        return &cache->heap;
    return in_slower_tier(object) ? &cache->heap_slow : NULL;
}

static void leave_heap(struct object *object)
{
    if (object->heap != NULL)
        heap_remove(object->heap, object);
    object->heap = NULL;
}

static void enter_heap(struct heap *heap, struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    if (cache->policy == POLICY_EXPECTED_REUSE) /* it may have aged since its last use */
        object->priority = priority_of(cache, object, cache_now_ns(cache));
    bool pushed = heap_push(heap, object);

    assert(pushed); /* room_record reserved a slot */
    (void)pushed;
    object->heap = heap;
}

void room_update(struct object *object)
{
    struct heap *heap = heap_for(object);

    lock_assert_held(&cache_of(object)->lock);
    if (heap != NULL && heap == object->heap) {
        heap_moved(heap, object);
        return;
    }
    leave_heap(object);
    if (heap != NULL)
        enter_heap(heap, object);
}

void room_touch(struct object *object, bool used)
{
    struct hearth_cache *cache = cache_of(object);
    uint64_t now = cache_now_ns(cache);

    if (used) {
        object->uses++;
        object->superseded = object->demoted = false; /* it is useful after all */
    }
    object->used_ns = now;
    object->priority = priority_of(cache, object, now);
    room_update(object);
}

void room_evict_first(struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    lock_assert_held(&cache->lock);
    object->demoted = true;
    object->priority = priority_of(cache, object, cache_now_ns(cache));
    room_update(object);
}

void room_supersede(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;
    struct hearth_cache *cache = space->cache;
    struct hearth_event event = {.kind = HEARTH_EVENT_REPLACE,
                                 .bytes = object->bytes,
                                 .object = object->kind,
                                 .position = object->end,
                                 .tier = plan_tier_of(object),
                                 .write_tokens = object->end - object->begin};

    lock_assert_held(&cache->lock);
    if (object->superseded)
        return;
    object->superseded = true;
    mover_give_up(object, TIER_BITS_SLOWER); /* no longer worth a write (keeps I50) */
    object->priority = priority_of(cache, object, cache_now_ns(cache));
    if (list_node_linked(&object->tail_link) && object->kind != HEARTH_OBJECT_SNAPSHOT) {
        list_remove(&space->tails, &object->tail_link);
        list_push_front(&space->tails, &object->tail_link);
    }
    cache->stats.replaces++;
    space->stats.replaces++;
    cache_note_event(cache, deferred, &event);
    room_update(object);
}

void room_on_change(struct object *object, bool evictable, void *arg)
{
    (void)evictable;
    (void)arg;
    room_update(object);
}

/* The index does not report a pin on objects that children hold anyway. */
static void update_path(struct node *node)
{
    for (; node != NULL; node = node_parent(node)) {
        if (node_rows(node) != NULL)
            room_update(node_rows(node));
        if (node_sliding(node) != NULL)
            room_update(node_sliding(node));
    }
}

bool room_reserve_pin(struct hearth_space *space, struct deferred *deferred)
{
    if (!room_reserve_books(space->cache, index_pin_bytes(), deferred))
        return false;
    space->index_charged += index_pin_bytes();
    return true;
}

bool room_pin(struct hearth_space *space, struct node *last, uint32_t end)
{
    bool pinned = index_pin(space->index, last, end);

    if (pinned)
        update_path(last);
    return pinned;
}

void room_unpin(struct hearth_space *space, struct index_pin *pin)
{
    struct node *node = index_pin_last(pin);

    /* Unpinning may remove nodes without objects; nodes above one with rows stay. */
    while (node != NULL && node_rows(node) == NULL && node_sliding(node) == NULL)
        node = node_parent(node);
    index_unpin(space->index, pin);
    update_path(node);
}

/* ---- ghosts ---- */

static uint64_t ghost_of(const struct hash256 *key)
{
    uint64_t ghost;

    memcpy(&ghost, key->bytes, sizeof(ghost));
    return ghost | 1; /* 0 = an empty slot */
}

void room_add_ghosts(struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    if (object->kind == HEARTH_OBJECT_SNAPSHOT)
        return; /* prompts are found by their rows */
    for (const struct node *node = object->last; node != NULL && node_end(node) > object->begin;
         node = node_parent(node))
        cache->ghosts[cache->ghosts_next++ % CACHE_GHOSTS] = ghost_of(node_key(node));
}

bool room_is_ghost(const struct hearth_cache *cache, const struct hash256 *key)
{
    uint64_t ghost = ghost_of(key);

    for (size_t i = 0; i < CACHE_GHOSTS; i++)
        if (cache->ghosts[i] == ghost)
            return true;
    return false;
}

/* ---- records ---- */

uint64_t room_place_bytes(void)
{
    /* A heap doubles when it grows, so a slot costs two, and there are two heaps. */
    return 4 * sizeof(struct object *) + PAGES_BOOK_BYTES;
}

uint64_t room_record_bytes(void)
{
    return sizeof(struct object) + room_place_bytes();
}

void room_unrecord(struct hearth_space *space)
{
    assert(space->records > 0 && space->cache->records > 0);
    space->records--;
    space->cache->records--;
    budget_release(space->cache->meta_budget, space->cache->books_owner, sizeof(struct object));
}

bool room_is_tail(const struct object *object)
{
    return object->kind == HEARTH_OBJECT_ROWS && space_sliceable(object->space) &&
           object->end % cache_of(object)->block_tokens != 0;
}

/* Keeps the lists of the tails and of the snapshots that are in memory: both have a limit. */
static void list_limited(struct object *object, bool in)
{
    struct hearth_space *space = object->space;
    bool snapshot = object->kind == HEARTH_OBJECT_SNAPSHOT;
    struct list *list = snapshot ? &space->snapshots : &space->tails;
    uint64_t *bytes = snapshot ? &space->snapshot_bytes : &space->tail_bytes;

    if (in == list_node_linked(&object->tail_link))
        return;
    if (in)
        list_push_back(list, &object->tail_link);
    else
        list_remove(list, &object->tail_link);
    assert(in || *bytes >= room_charge(object->bytes));
    *bytes += in ? room_charge(object->bytes) : -room_charge(object->bytes);
}

static bool is_limited(const struct object *object)
{
    return object->kind == HEARTH_OBJECT_SNAPSHOT || room_is_tail(object);
}

void room_set_in(struct object *object, enum hearth_tier level, bool in)
{
    if (((object->in & TIER_BIT(level)) != 0) == in)
        return;
    object->in ^= TIER_BIT(level);
    if (level == HEARTH_TIER_RAM)
        list_limited(object, in && !object->dropped && is_limited(object));
    uint64_t *held = &object->space->held[level];
    assert(in || *held >= object->bytes);
    *held = in ? *held + object->bytes : *held - object->bytes;
    uint64_t *objects = &cache_of(object)->tiers[level].counts.objects;
    *objects = in ? *objects + 1 : *objects - 1;
}

/* ---- evicting ---- */

/* Frees the memory of an object; the object itself stays. */
static void drop_data(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;

    assert(object->leases == 0 && !object->writing && !object->reading);
    if (object->data == NULL)
        return;
    mover_give_up(object, TIER_BITS_SLOWER); /* offered again when it returns to memory */
    cache_note_free(deferred, object->data);
    room_release(space, room_data_bytes(object));
    object->data = NULL;
    room_set_in(object, HEARTH_TIER_RAM, false);
}

static void destroy(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;

    assert(object->last == NULL && object->heap == NULL && !in_slower_tier(object));
    drop_data(object, deferred);
    room_release(space, room_record_bytes());
    mem_free(object);
    room_unrecord(space);
}

/* Removes it from the index, the heap and its list; lookups no longer find it. */
static void unlink_object(struct object *object)
{
    struct hearth_space *space = object->space;

    leave_heap(object);
    list_limited(object, false);
    mover_give_up(object, TIER_BITS_SLOWER);
    manage_set_expiry(object, 0);
    if (object->last != NULL)
        index_detach(space->index, object);
    assert(space->objects > 0);
    space->objects--;
    list_remove(&space->all, &object->held_link);
    room_account_index(space);
}

void room_drop(struct object *object, struct deferred *deferred)
{
    struct hearth_cache *cache = cache_of(object);

    lock_assert_held(&cache->lock);
    assert(!object->dropped);
    object->dropped = true;
    unlink_object(object);
    if (object->writing)
        list_push_back(&cache->dropped_in_write, &object->aside_link);
    cache_note_drop(cache, deferred, object->in, &object->key);
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        room_set_in(object, level, false);
    if (object->leases == 0)
        destroy(object, deferred);
}

void room_leave_tier(struct object *object, enum hearth_tier level, struct deferred *deferred)
{
    if (object->in == TIER_BIT(level)) {
        room_drop(object, deferred);
        return;
    }
    cache_note_drop(cache_of(object), deferred, object->in & TIER_BIT(level), &object->key);
    room_set_in(object, level, false);
    room_update(object); /* its children may now keep it in memory */
}

void room_lease(struct object *object)
{
    lock_assert_held(&cache_of(object)->lock);
    object->leases++;
    room_update(object);
}

void room_unlease(struct object *object, struct deferred *deferred)
{
    lock_assert_held(&cache_of(object)->lock);
    assert(object->leases > 0);
    object->leases--;
    if (object->leases > 0)
        return;
    assert(!object->writing && !object->reading); /* the mover holds leases */
    if (object->dropped)
        destroy(object, deferred);
    else
        room_update(object);
}

static void note_eviction(struct object *object, bool demoted, struct deferred *deferred)
{
    struct hearth_space *space = object->space;
    struct hearth_cache *cache = space->cache;
    struct hearth_event event = {
        .kind = demoted ? HEARTH_EVENT_DEMOTE : HEARTH_EVENT_EVICT,
        .write_tokens = object->end - object->begin,
        .bytes = room_data_bytes(object),
        .object = object->kind,
        .position = object->end,
        .tier = plan_tier_of(object),
    };

    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        cache->tiers[level].counts.evictions +=
            demoted ? level == HEARTH_TIER_RAM : (object->in & TIER_BIT(level)) != 0;
    uint64_t *counter = demoted ? &space->stats.demotions : &space->stats.evictions;
    uint64_t *total = demoted ? &cache->stats.demotions : &cache->stats.evictions;
    (*counter)++;
    (*total)++;
    space->stats.bytes_evicted += event.bytes;
    cache->stats.bytes_evicted += event.bytes;
    if (!demoted && room_is_tail(object)) {
        space->stats.tail_evictions++;
        cache->stats.tail_evictions++;
    }
    cache_note_event(cache, deferred, &event);
}

bool room_demote(struct object *object, struct deferred *deferred)
{
    assert(in_slower_tier(object)); /* otherwise it would be in no tier (keeps I67) */
    if (object->leases > 0)
        return false;
    leave_heap(object);
    drop_data(object, deferred);
    room_update(object);
    return true;
}

void room_forget(struct object *object, struct deferred *deferred)
{
    note_eviction(object, false, deferred);
    room_add_ghosts(object);
    room_drop(object, deferred);
}

void room_evict_tail(struct object *tail, struct deferred *deferred)
{
    bool demoted = in_slower_tier(tail);

    assert(tail->leases == 0);
    note_eviction(tail, demoted, deferred);
    if (demoted)
        room_demote(tail, deferred);
    else
        room_drop(tail, deferred);
}

/* The least valuable object in memory is evicted: its priority becomes the floor. */
static void raise_floor(const struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    if (object->data != NULL)
        cache->floor = MAX(cache->floor, object->priority);
}

/* Removes it everywhere, including slower tiers. */
static void forget(struct object *object, struct deferred *deferred)
{
    raise_floor(object);
    room_forget(object, deferred);
}

/* An object that is also in a slower tier leaves only memory. */
static void evict(struct object *object, struct deferred *deferred)
{
    bool demoted = object->data != NULL && in_slower_tier(object);

    if (!demoted) {
        forget(object, deferred);
        return;
    }
    raise_floor(object);
    note_eviction(object, true, deferred);
    room_demote(object, deferred);
}

/* The space that needs room, and what must not be evicted for it. */
struct wish {
    const struct hearth_space *space; /* NULL: no particular space */
    bool keep_ttl;                    /* objects within their time to live */
    bool keep_shares;                 /* objects within another tenant's share */
    /* objects within another tenant's share of a slower tier: an eviction would also forget them
     * there */
    bool keep_slow;
};

static bool in_slow_share(const struct object *object)
{
    const struct hearth_space *owner = object->space;

    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (object->in & TIER_BIT(level) && owner->held[level] <= owner->slow_shares[level])
            return true;
    return false;
}

static bool may_leave_for(const struct object *object, const struct wish *wish, uint64_t now)
{
    const struct hearth_space *owner = object->space;

    if (wish->keep_ttl && object->keep_until_ns > now)
        return false;
    if (wish->keep_slow && owner != wish->space && in_slow_share(object))
        return false;
    return !wish->keep_shares || owner == wish->space || owner->charged > owner->share;
}

/* Expected rates change as objects grow older, but slowly: all are computed again after a time that
 * grows with their number, so that this takes less than one part in a hundred. */
static void renew(struct hearth_cache *cache, struct heap *heap, uint64_t now)
{
    uint64_t version = reuse_version(cache->reuse);

    if (cache->policy != POLICY_EXPECTED_REUSE ||
        (version == heap->renewed_version &&
         now - heap->renewed_ns < MAX(RENEW_NS_MIN, heap->count * RENEW_OBJECT_NS)))
        return;
    heap->renewed_ns = now;
    heap->renewed_version = version;
    for (size_t i = 0; i < heap->count; i++)
        heap->items[i]->priority = priority_of(cache, heap->items[i], now);
    heap_rebuild(heap);
}

bool room_is_full(const struct hearth_space *space, uint64_t bytes)
{
    return budget_used(space->cache->budget) + bytes > budget_cap(space->cache->budget);
}

bool room_declines(const struct object *piece)
{
    const struct hearth_space *space = piece->space;
    struct hearth_cache *cache = space->cache;
    uint64_t now = cache_now_ns(cache);

    lock_assert_held(&cache->lock);
    if (cache->policy != POLICY_EXPECTED_REUSE || piece->keep_until_ns > now ||
        space->charged < space->share)
        return false;
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (cache->tiers[level].tier != NULL)
            return false; /* it should get there */
    renew(cache, &cache->heap, now);
    const struct object *first = heap_first(&cache->heap);
    return first != NULL && !first->superseded && rate_of(piece, now) < rate_of(first, now);
}

void room_limit_snapshots(struct hearth_space *space, const struct object *newest,
                          struct deferred *deferred)
{
    const struct wish gently = {space, true, true, false};
    struct hearth_cache *cache = space->cache;
    uint64_t now = cache_now_ns(cache);

    lock_assert_held(&cache->lock);
    while (space->snapshot_bytes > cache->snapshot_bytes_max) {
        struct object *worst = NULL;
        double lowest = 0;

        LIST_FOREACH (struct object, object, &space->snapshots, tail_link) {
            double priority = priority_of(cache, object, now);
            if (object == newest || (worst != NULL && priority >= lowest) ||
                !room_may_leave(object) || !may_leave_for(object, &gently, now))
                continue;
            worst = object;
            lowest = priority;
        }
        if (worst == NULL)
            return;
        room_evict_tail(worst, deferred);
    }
}

/* Evicts the object with the lowest priority that may be evicted. Those that may not are set
 * aside and put back. */
static bool evict_first(struct hearth_cache *cache, struct heap *heap, const struct wish *wish,
                        void (*leave)(struct object *object, struct deferred *deferred),
                        struct deferred *deferred)
{
    uint64_t now = cache_now_ns(cache);
    struct object *found;
    struct list aside;

    renew(cache, heap, now);
    list_init(&aside);
    while ((found = heap_first(heap)) != NULL && !may_leave_for(found, wish, now)) {
        leave_heap(found);
        list_push_back(&aside, &found->aside_link);
    }
    LIST_FOREACH_SAFE (struct object, object, &aside, aside_link) {
        list_remove(&aside, &object->aside_link);
        enter_heap(heap, object);
    }
    if (found != NULL)
        leave(found, deferred);
    return found != NULL;
}

bool room_evict_one(struct hearth_cache *cache, const struct hearth_space *space,
                    struct deferred *deferred)
{
    struct wish gently = {space, true, true, false}, firmly = {space, false, true, false};

    lock_assert_held(&cache->lock);
    return evict_first(cache, &cache->heap, &gently, evict, deferred) ||
           evict_first(cache, &cache->heap, &firmly, evict, deferred);
}

/* Forgets one object altogether to free its record and nodes: one that is only in a slower tier,
 * if there is any. Shares of slower tiers are ignored only as a last resort: the records of
 * their objects must fit into memory. */
static bool forget_one(struct hearth_cache *cache, const struct hearth_space *space,
                       struct deferred *deferred)
{
    const struct wish slow = {space, false, true, true}, last = {space, false, true, false};
    const struct wish gently = {space, true, true, true}, firmly = {space, false, true, true};

    return evict_first(cache, &cache->heap_slow, &slow, evict, deferred) ||
           evict_first(cache, &cache->heap, &gently, forget, deferred) ||
           evict_first(cache, &cache->heap, &firmly, forget, deferred) ||
           evict_first(cache, &cache->heap_slow, &last, evict, deferred) ||
           evict_first(cache, &cache->heap, &last, forget, deferred);
}

/* The cost of one more record. Slots are kept for the next object and charged once. */
static uint64_t next_record_bytes(const struct hearth_cache *cache)
{
    return sizeof(struct object) + (cache->records == cache->places ? room_place_bytes() : 0);
}

bool room_record(struct hearth_space *space, struct deferred *deferred)
{
    struct hearth_cache *cache = space->cache;

    if (!heap_reserve(&cache->heap, cache->records + 1) ||
        !heap_reserve(&cache->heap_slow, cache->records + 1))
        return false;
    while (!budget_try_reserve(cache->meta_budget, cache->books_owner, next_record_bytes(cache)))
        if (!forget_one(cache, space, deferred))
            return false;
    cache->places += cache->records == cache->places;
    cache->records++;
    space->records++;
    return true;
}

/* ---- the ledgers ---- */

uint64_t room_charge(uint64_t bytes)
{
    return (bytes + PAGES_PAGE_BYTES - 1) / PAGES_PAGE_BYTES * PAGES_PAGE_BYTES;
}

uint64_t room_data_bytes(const struct object *object)
{
    return object->data != NULL ? room_charge(object->bytes) : 0;
}

/* The most that a space can get, once every other tenant is reduced to its share. */
static uint64_t most(const struct hearth_cache *cache, uint64_t share)
{
    uint64_t cap = budget_cap(cache->budget), others = cache->shares - share;

    return cap > others ? cap - others : 0;
}

bool room_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred)
{
    struct hearth_cache *cache = space->cache;

    lock_assert_held(&cache->lock);
    if (bytes > most(cache, space->share))
        return false; /* would not fit even into an empty cache: evict nothing for it */
    while (!budget_try_reserve(cache->budget, space->owner, bytes))
        if (!room_evict_one(cache, space, deferred))
            return false;
    space->charged += bytes;
    return true;
}

void room_release(struct hearth_space *space, uint64_t bytes)
{
    assert(space->charged >= bytes);
    space->charged -= bytes;
    budget_release(space->cache->budget, space->owner, bytes);
}

/* Charges bytes to the metadata part. */
static bool reserve_part(struct hearth_cache *cache, budget_owner owner, uint64_t bytes,
                         struct deferred *deferred)
{
    if (bytes > budget_cap(cache->meta_budget))
        return false; /* can never fit: evict nothing for it */
    while (!budget_try_reserve(cache->meta_budget, owner, bytes))
        if (!forget_one(cache, NULL, deferred))
            return false;
    return true;
}

bool room_reserve_books(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
{
    struct wish books = {NULL, false, false, false};

    lock_assert_held(&cache->lock);
    if (bytes > most(cache, 0))
        return false;
    /* Trees of objects in memory may grow further: they shrink with them. */
    while (!budget_try_reserve(cache->budget, cache->owner_index, bytes))
        if (!room_evict_one(cache, NULL, deferred) &&
            !evict_first(cache, &cache->heap_slow, &books, evict, deferred))
            return false;
    if (!reserve_part(cache, cache->books_owner, bytes, deferred)) {
        budget_release(cache->budget, cache->owner_index, bytes);
        return false;
    }
    cache->books += bytes;
    return true;
}

void room_release_books(struct hearth_cache *cache, uint64_t bytes)
{
    lock_assert_held(&cache->lock);
    assert(cache->books >= bytes);
    cache->books -= bytes;
    budget_release(cache->budget, cache->owner_index, bytes);
    budget_release(cache->meta_budget, cache->books_owner, bytes);
}

bool room_reserve_request(struct hearth_cache *cache, uint64_t bytes, struct deferred *deferred)
{
    lock_assert_held(&cache->lock);
    if (!reserve_part(cache, cache->requests_owner, bytes, deferred))
        return false;
    cache->requests += bytes;
    return true;
}

void room_release_request(struct hearth_cache *cache, uint64_t bytes)
{
    lock_assert_held(&cache->lock);
    assert(cache->requests >= bytes);
    cache->requests -= bytes;
    budget_release(cache->meta_budget, cache->requests_owner, bytes);
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

bool room_reserve_index(struct hearth_space *space, const int32_t *tokens, uint32_t count,
                        struct index_hint *hint, struct deferred *deferred)
{
    uint64_t bytes;

    /* Making room may remove parts of the path: then more is needed. */
    while ((bytes = growth(space, tokens, count, hint)) + index_bytes(space->index) >
           space->index_charged) {
        bytes = bytes + index_bytes(space->index) - space->index_charged;
        if (!room_reserve_books(space->cache, bytes, deferred)) {
            room_account_index(space);
            return false;
        }
        space->index_charged += bytes;
    }
    return true;
}

void room_account_index(struct hearth_space *space)
{
    uint64_t bytes = index_bytes(space->index);

    assert(bytes <= space->index_charged);
    room_release_books(space->cache, space->index_charged - bytes);
    space->index_charged = bytes;
}

void room_shrink(struct hearth_cache *cache, struct deferred *deferred)
{
    struct wish any = {NULL, false, false, false};

    lock_assert_held(&cache->lock);
    while (budget_excess(cache->budget) > 0)
        if (!room_evict_one(cache, NULL, deferred) &&
            !evict_first(cache, &cache->heap, &any, evict, deferred) &&
            !evict_first(cache, &cache->heap_slow, &any, evict, deferred))
            return; /* the rest is leased or pinned, and is evicted on release */
    while (budget_excess(cache->meta_budget) > 0 && forget_one(cache, NULL, deferred))
        ;
}
