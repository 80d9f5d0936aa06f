/*
 * room.c: who must leave when something new wants in.
 *
 * Every byte is taken from the ledger before the memory is (keeps I93). When the ledger says no, the object with the lowest priority
 * leaves, and the floor of priorities rises to what it had: so objects that nobody uses grow old without being touched.
 *
 * The heap holds exactly the objects that are in memory, not leased, not moving, and that the index allows to leave (no children with
 * rows, not pinned). What a tenant holds within its reserved share is not evicted for another (keeps I100). A time to live is kept as
 * long as anything else can leave.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

static struct hearth_cache *cache_of(const struct object *object)
{
    return object->space->cache;
}

/* ---- priorities ---- */

static double priority_of(const struct hearth_cache *cache, const struct object *object, uint64_t now_ns)
{
    const struct hearth_space *space = object->space;
    uint32_t begin = object->begin;

    /* A snapshot saves the tokens back to the last boundary before it; without knowing better, those of a run. */
    if (object->kind == OBJECT_SNAPSHOT)
        begin = object->end > cache->run_tokens ? object->end - cache->run_tokens : 0;
    struct policy_entry entry = {
        .begin = begin,
        .end = object->end,
        .bytes = object->bytes,
        .uses = object->uses,
        .age_ns = now_ns - MIN(object->used_ns, now_ns),
        .now_ns = now_ns,
        .entry = object->entry,
        .snapshot = object->kind == OBJECT_SNAPSHOT,
        .tokens_per_s = space->model.prefill_tokens_per_s,
        .floor = cache->floor,
    };
    return policy_priority(cache->policy, &entry);
}

static bool may_leave(const struct object *object)
{
    return object->data != NULL && object->leases == 0 && !object->moving && !object->dropped &&
           object->last != NULL && index_evictable(object->space->index, object);
}

void room_update(struct object *object)
{
    struct hearth_cache *cache = cache_of(object);

    lock_assert_held(&cache->lock);
    bool inside = object->heap_slot != OBJECT_NOT_IN_HEAP;
    if (!may_leave(object)) {
        if (inside)
            heap_remove(&cache->heap, object);
    } else if (inside) {
        heap_moved(&cache->heap, object);
    } else if (!heap_push(&cache->heap, object)) {
        /* Without memory for the heap it cannot be chosen; it is tried again at its next use. */
    }
}

void room_touch(struct object *object, bool used)
{
    struct hearth_cache *cache = cache_of(object);
    uint64_t now = cache_now_ns(cache);

    if (used)
        object->uses++;
    object->used_ns = now;
    object->priority = priority_of(cache, object, now);
    room_update(object);
}

void room_watch(struct object *object, bool evictable, void *arg)
{
    (void)evictable;
    (void)arg;
    /* Attaching calls this before the object has its memory and its priority; then store.c updates it. */
    if (object->data != NULL)
        room_update(object);
}

/* ---- ghosts ---- */

static uint64_t ghost_of(const struct hash256 *key)
{
    uint64_t ghost;

    memcpy(&ghost, key->bytes, sizeof(ghost));
    return ghost | 1; /* 0 = an empty place */
}

void room_add_ghost(struct hearth_cache *cache, const struct hash256 *key)
{
    cache->ghosts[cache->ghosts_next++ % CACHE_GHOSTS] = ghost_of(key);
}

bool room_is_ghost(const struct hearth_cache *cache, const struct hash256 *key)
{
    uint64_t ghost = ghost_of(key);

    for (size_t i = 0; i < CACHE_GHOSTS; i++)
        if (cache->ghosts[i] == ghost)
            return true;
    return false;
}

/* ---- leaving ---- */

/* Gives the memory of an object back; the object itself lives on. */
static void drop_data(struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = object->space;

    assert(object->leases == 0 && !object->moving);
    if (object->data == NULL)
        return;
    cache_note_free(deferred, object->data);
    room_release(space, object->data_bytes);
    space->bytes -= object->data_bytes;
    object->data = NULL;
    object->data_bytes = 0;
    object->in[OBJECT_TIER_RAM] = false;
    object->verified = false;
}

static void destroy(struct object *object, struct deferred *deferred)
{
    drop_data(object, deferred);
    room_release(object->space, sizeof(*object));
    mem_free(object);
}

/* Out of the index, the heap and the list of tails; found by nobody from now on. */
static void unlink_object(struct object *object)
{
    struct hearth_space *space = object->space;
    struct hearth_cache *cache = space->cache;

    if (object->heap_slot != OBJECT_NOT_IN_HEAP)
        heap_remove(&cache->heap, object);
    if (list_node_linked(&object->tail_link))
        list_remove(&space->tails, &object->tail_link);
    if (object->last != NULL) {
        room_add_ghost(cache, node_key(object->last));
        index_detach(space->index, object);
    }
    room_settle_index(space);
}

void room_drop(struct object *object, struct deferred *deferred)
{
    lock_assert_held(&cache_of(object)->lock);
    assert(!object->dropped);
    object->dropped = true;
    unlink_object(object);
    if (object->leases == 0 && !object->moving)
        destroy(object, deferred);
}

void room_lease(struct object *object)
{
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
    if (object->dropped && !object->moving)
        destroy(object, deferred);
    else if (!object->dropped)
        room_update(object);
}

static void note_eviction(struct object *object, bool demoted, struct deferred *deferred)
{
    struct hearth_space *space = object->space;
    struct hearth_cache *cache = space->cache;
    struct event event = {
        .kind = demoted ? EVENT_DEMOTE : EVENT_EVICT,
        .write_tokens = object->end - object->begin,
        .bytes = object->data_bytes,
        .tier = HEARTH_TIER_RAM,
    };

    cache->floor = MAX(cache->floor, object->priority);
    uint64_t *counter = demoted ? &space->stats.demotions : &space->stats.evictions;
    uint64_t *total = demoted ? &cache->stats.demotions : &cache->stats.evictions;
    (*counter)++;
    (*total)++;
    space->stats.bytes_evicted += object->data_bytes;
    cache->stats.bytes_evicted += object->data_bytes;
    if (list_node_linked(&object->tail_link)) {
        space->stats.tail_evictions++;
        cache->stats.tail_evictions++;
    }
    cache_note_event(cache, deferred, &event);
}

void room_demote(struct object *object, struct deferred *deferred)
{
    if (object->leases > 0 || object->moving)
        return;
    if (object->heap_slot != OBJECT_NOT_IN_HEAP)
        heap_remove(&cache_of(object)->heap, object);
    drop_data(object, deferred);
}

/* What is in a slower tier, too, only leaves memory. */
static void evict(struct object *object, struct deferred *deferred)
{
    bool demoted = object->in[OBJECT_TIER_SSD] || object->in[OBJECT_TIER_REMOTE];

    note_eviction(object, demoted, deferred);
    if (demoted)
        room_demote(object, deferred);
    else
        room_drop(object, deferred);
}

/* An object that may leave for `space` (NULL: for nobody in particular). In the first round times to live are kept. */
static bool may_leave_for(const struct object *object, const struct hearth_space *space, uint64_t now,
                          bool keep_ttl)
{
    const struct hearth_space *owner = object->space;

    if (keep_ttl && object->keep_until_ns > now)
        return false;
    return owner == space || owner->bytes > owner->share;
}

/* Evicts the object with the lowest priority that may leave. Those that may not are set aside and put back. */
static bool evict_one(struct hearth_cache *cache, const struct hearth_space *space, bool keep_ttl,
                      struct deferred *deferred)
{
    uint64_t now = cache_now_ns(cache);
    struct object *found = NULL;
    struct list aside; /* linked by tail-free node links of their own */

    list_init(&aside);
    while ((found = heap_first(&cache->heap)) != NULL && !may_leave_for(found, space, now, keep_ttl)) {
        heap_remove(&cache->heap, found);
        list_push_back(&aside, &found->aside_link);
    }
    LIST_FOREACH_SAFE(struct object, object, &aside, aside_link)
    {
        list_remove(&aside, &object->aside_link);
        if (!heap_push(&cache->heap, object))
            break; /* no memory: it stays out of the heap until its next use */
    }
    if (found != NULL)
        evict(found, deferred);
    return found != NULL;
}

bool room_evict_one(struct hearth_cache *cache, struct deferred *deferred)
{
    return evict_one(cache, NULL, true, deferred) || evict_one(cache, NULL, false, deferred);
}

/* ---- the ledger ---- */

uint64_t room_charge(uint64_t bytes)
{
    const uint64_t page = 4096;

    return (bytes + page - 1) / page * page;
}

static bool reserve(struct hearth_space *space, budget_owner owner, uint64_t bytes,
                    struct deferred *deferred)
{
    struct hearth_cache *cache = space->cache;

    lock_assert_held(&cache->lock);
    while (!budget_try_reserve(cache->budget, owner, bytes)) {
        if (bytes > budget_cap(cache->budget))
            return false;
        if (!evict_one(cache, space, true, deferred) && !evict_one(cache, space, false, deferred))
            return false;
    }
    return true;
}

bool room_reserve(struct hearth_space *space, uint64_t bytes, struct deferred *deferred)
{
    return reserve(space, space->owner, bytes, deferred);
}

void room_release(struct hearth_space *space, uint64_t bytes)
{
    budget_release(space->cache->budget, space->owner, bytes);
}

bool room_reserve_index(struct hearth_space *space, size_t nodes, struct deferred *deferred)
{
    uint64_t bytes = nodes * index_node_bytes(space->cache->block_tokens);

    if (!reserve(space, space->cache->owner_index, bytes, deferred))
        return false;
    space->index_charged += bytes;
    return true;
}

void room_settle_index(struct hearth_space *space)
{
    uint64_t bytes = index_bytes(space->index);

    assert(bytes <= space->index_charged);
    budget_release(space->cache->budget, space->cache->owner_index, space->index_charged - bytes);
    space->index_charged = bytes;
}

void room_shrink(struct hearth_cache *cache, struct deferred *deferred)
{
    lock_assert_held(&cache->lock);
    while (budget_excess(cache->budget) > 0)
        if (!room_evict_one(cache, deferred))
            return; /* the rest is leased or pinned; it leaves when it is released */
}
