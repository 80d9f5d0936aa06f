/*
 * room.c: choosing what to evict when something new needs room.
 *
 * When the ledger (ledger.c) is full, the object with the lowest priority is evicted, and the floor
 * of priorities rises to its priority; so unused objects age without being touched.
 *
 * The heap holds exactly the objects that are in memory, not leased, not pinned, and either also
 * in a slower tier or without children that hold rows: see room_may_leave. Objects within a
 * tenant's reserved share are not evicted for another tenant (keeps I100). A time to live is
 * respected as long as anything else can be evicted. A second heap holds, likewise, the objects
 * that are only in a slower tier: they take no memory but their place in the tree, and are
 * forgotten only to make room for trees and records.
 *
 * Heaps have a slot for every object before it is created (ledger_record), so that nothing here can
 * fail half-way.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "cache/cache.h"

enum {
    RENEW_NS_MIN = 100 * 1000 * 1000,
    RENEW_OBJECT_NS = 10 * 1000,
    GUESS_PART = 4, /* docs/replay-traces.md: any larger number does as well */
};

/* What is declined cannot be used at all, so a difference that may be noise does not suffice. */
static const double DECLINE_MARGIN = 1.1;

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
        .now_ns = now_ns - CACHE_CLOCK_BEGIN_NS, /* small enough to be exact as a double */
        .entry = object->entry,
        .snapshot = object->kind == HEARTH_OBJECT_SNAPSHOT,
        .guess = object->guess,
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

    assert(pushed); /* ledger_record reserved a slot */
    (void)pushed;
    object->heap = heap;
}

/* Adds an object to the right heap, or removes it, according to its current state. */
static void update(struct object *object)
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
        object->superseded = object->demoted = object->guess = false; /* it is useful after all */
    }
    object->used_ns = now;
    object->priority = priority_of(cache, object, now);
    update(object);
}

void room_evict_first(struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    lock_assert_held(&cache->lock);
    object->demoted = true;
    object->priority = priority_of(cache, object, cache_now_ns(cache));
    update(object);
}

void room_supersede(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;
    struct hearth_cache *cache = space->cache;
    struct hearth_event event =
        cache_object_event(object, HEARTH_EVENT_REPLACE, plan_tier_of(object));

    event.write_tokens = object->end - object->begin;
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
    space->stats.replaces++;
    cache_note_event(cache, deferred, &event);
    update(object);
}

void room_on_change(struct object *object, bool evictable, void *arg)
{
    (void)evictable;
    (void)arg;
    update(object);
}

/* The index does not report a pin on objects that children hold anyway. */
static void update_path(struct node *node)
{
    for (; node != NULL; node = node_parent(node)) {
        if (node_rows(node) != NULL)
            update(node_rows(node));
        if (node_sliding(node) != NULL)
            update(node_sliding(node));
    }
}

bool room_reserve_pin(struct hearth_space *space, struct deferred *deferred)
{
    if (!ledger_reserve_books(space->cache, index_pin_bytes(), deferred))
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

/* Rows that were stored again are not snapshots that were. */
static uint64_t snapshot_ghost_of(const struct hash256 *key)
{
    return ~ghost_of(key);
}

static void add_ghost(struct hearth_cache *cache, uint64_t ghost)
{
    cache->ghosts[cache->ghosts_next++ % CACHE_GHOSTS] = ghost;
}

void room_add_ghosts(struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    if (object->kind == HEARTH_OBJECT_SNAPSHOT && object->last != NULL)
        add_ghost(cache, snapshot_ghost_of(node_key(object->last)));
    if (object->kind == HEARTH_OBJECT_SNAPSHOT)
        return; /* prompts are found by their rows */
    for (const struct node *node = object->last; node != NULL && node_end(node) > object->begin;
         node = node_parent(node))
        add_ghost(cache, ghost_of(node_key(node)));
}

static bool is_ghost(const struct hearth_cache *cache, uint64_t ghost)
{
    for (size_t i = 0; i < CACHE_GHOSTS; i++)
        if (cache->ghosts[i] == ghost)
            return true;
    return false;
}

bool room_is_ghost(const struct hearth_cache *cache, const struct hash256 *key)
{
    return is_ghost(cache, ghost_of(key));
}

bool room_lost_snapshot(const struct hearth_cache *cache, const struct hash256 *key)
{
    return is_ghost(cache, snapshot_ghost_of(key));
}

/* ---- where an object is ---- */

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
    assert(in || *bytes >= ledger_charge(object->bytes));
    *bytes += in ? ledger_charge(object->bytes) : -ledger_charge(object->bytes);
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
    ledger_release(space, ledger_data_bytes(object));
    object->data = NULL;
    room_set_in(object, HEARTH_TIER_RAM, false);
}

static void destroy(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;

    assert(object->last == NULL && object->heap == NULL && !in_slower_tier(object));
    drop_data(object, deferred);
    ledger_release(space, ledger_record_bytes());
    mem_free(object);
    ledger_unrecord(space);
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
    ledger_account_index(space);
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
    if (deferred->erase)
        object->drop_after_write |= object->writing;
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
    update(object); /* its children may now keep it in memory */
}

void room_lease(struct object *object)
{
    lock_assert_held(&cache_of(object)->lock);
    object->leases++;
    update(object);
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
        update(object);
}

static void note_eviction(struct object *object, bool demoted, struct deferred *deferred)
{
    struct hearth_cache *cache = cache_of(object);
    struct hearth_stats *stats = &object->space->stats;
    struct hearth_event event = cache_object_event(
        object, demoted ? HEARTH_EVENT_DEMOTE : HEARTH_EVENT_EVICT, plan_tier_of(object));

    event.bytes = ledger_data_bytes(object);
    event.write_tokens = object->end - object->begin;
    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        cache->tiers[level].counts.evictions +=
            demoted ? level == HEARTH_TIER_RAM : (object->in & TIER_BIT(level)) != 0;
    stats->demotions += demoted;
    stats->evictions += !demoted;
    stats->tail_evictions += !demoted && room_is_tail(object);
    stats->bytes_evicted += event.bytes;
    cache_note_event(cache, deferred, &event);
}

bool room_demote(struct object *object, struct deferred *deferred)
{
    assert(in_slower_tier(object)); /* otherwise it would be in no tier (keeps I67) */
    if (object->leases > 0)
        return false;
    leave_heap(object);
    drop_data(object, deferred);
    update(object);
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
    if (demoted) {
        room_demote(tail, deferred);
        return;
    }
    if (tail->kind == HEARTH_OBJECT_SNAPSHOT)
        room_add_ghosts(tail);
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
    return !wish->keep_shares || owner == wish->space || owner->line.used > owner->line.share;
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
    return space->cache->budget.used + bytes > space->cache->budget.cap;
}

/* Whether what would be evicted for a guess is worth more. */
static bool displaces(struct hearth_cache *cache, const struct object *guess, uint64_t now)
{
    renew(cache, &cache->heap, now);
    const struct object *first = heap_first(&cache->heap);
    return first == NULL || first->priority >= priority_of(cache, guess, now);
}

bool room_declines(const struct object *piece)
{
    const struct hearth_space *space = piece->space;
    struct hearth_cache *cache = space->cache;
    uint64_t now = cache_now_ns(cache);

    lock_assert_held(&cache->lock);
    if (piece->guess)
        return displaces(cache, piece, now);
    if (cache->policy != POLICY_EXPECTED_REUSE || piece->keep_until_ns > now ||
        space->line.used < space->line.share)
        return false;
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (cache->tiers[level].tier != NULL)
            return false; /* it should get there */
    renew(cache, &cache->heap, now);
    const struct object *first = heap_first(&cache->heap);
    return first != NULL && !first->superseded &&
           rate_of(piece, now) * DECLINE_MARGIN < rate_of(first, now);
}

/* A tail that is pinned, in use, or within its time to live. */
static bool tail_is_protected(const struct object *tail, uint64_t now_ns)
{
    return tail->leases > 0 || tail->keep_until_ns > now_ns || room_is_pinned(tail);
}

/* Evicts the least recently used tails beyond the limit, except protected ones. */
static void limit_tails(struct hearth_space *space, const struct object *newest,
                        struct deferred *deferred) REQUIRES(lock)
{
    struct hearth_cache *cache = space->cache;
    uint64_t now_ns = cache_now_ns(cache);

    LIST_FOREACH_SAFE (struct object, tail, &space->tails, tail_link) {
        if (space->tail_bytes <= cache->tail_bytes_max)
            return;
        if (tail != newest && !tail_is_protected(tail, now_ns))
            room_evict_tail(tail, deferred);
    }
}

/* A place where other prompts may branch, but none did. (System prompts are expected to be shared.)
 */
static bool is_guess(const struct object *snapshot)
{
    /* the priority of the others says so already */
    return !snapshot->guess && !snapshot->turn_end && !snapshot->shared &&
           snapshot->entry != HEARTH_ENTRY_SYSTEM;
}

/* The same for the least valuable snapshots. */
static void limit_snapshots(struct hearth_space *space, const struct object *newest,
                            struct deferred *deferred) REQUIRES(lock)
{
    const struct wish gently = {space, true, true, false};
    struct hearth_cache *cache = space->cache;
    uint64_t now = cache_now_ns(cache);

    while (space->snapshot_bytes > cache->snapshot_bytes_max) {
        struct object *worst = NULL;
        double lowest = 0;

        LIST_FOREACH (struct object, object, &space->snapshots, tail_link) {
            double priority = priority_of(cache, object, now);
            if (is_guess(object) && priority > 0)
                priority /= GUESS_PART;
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

void room_limit(struct object *newest, struct deferred *deferred)
{
    lock_assert_held(&cache_of(newest)->lock);
    if (room_is_tail(newest))
        limit_tails(newest->space, newest, deferred);
    else if (newest->kind == HEARTH_OBJECT_SNAPSHOT)
        limit_snapshots(newest->space, newest, deferred);
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

/* Shares of slower tiers are ignored only as a last resort: the records of their objects must fit
 * into memory. */
bool room_forget_one(struct hearth_cache *cache, const struct hearth_space *space,
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

bool room_forget_slow(struct hearth_cache *cache, struct deferred *deferred)
{
    struct wish any = {NULL, false, false, false};

    return evict_first(cache, &cache->heap_slow, &any, evict, deferred);
}

void room_shrink(struct hearth_cache *cache, struct deferred *deferred)
{
    struct wish any = {NULL, false, false, false};

    lock_assert_held(&cache->lock);
    while (budget_excess(&cache->budget) > 0)
        if (!room_evict_one(cache, NULL, deferred) &&
            !evict_first(cache, &cache->heap, &any, evict, deferred) &&
            !room_forget_slow(cache, deferred))
            return; /* the rest is leased or pinned, and is evicted on release */
    while (budget_excess(&cache->meta_budget) > 0 && room_forget_one(cache, NULL, deferred))
        ;
}
