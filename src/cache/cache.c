/*
 * cache.c: the cache as a whole: opening and closing, spaces, what is done after the lock is left, numbers, clearing, pinning.
 */
#include "cache/cache.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { BLOCK_TOKENS_DEFAULT = 256, RUN_TOKENS_DEFAULT = 2048, TAILS_DEFAULT = 4 };

/* ---- the lock, and what is done after it ---- */

void cache_enter(struct hearth_cache *cache, struct deferred *deferred)
{
    *deferred = (struct deferred){0};
    lock_enter(&cache->lock);
}

/* Room for one more in a growing array of the deferred; small, so it aborts rather than fail. */
static void *grow(void *items, size_t count, size_t *cap, size_t size)
{
    if (count < *cap)
        return items;
    *cap = MAX(*cap * 2, 8);
    void *more = mem_alloc_array(*cap, size);
    if (count > 0)
        memcpy(more, items, count * size);
    mem_free(items);
    return more;
}

void cache_note_event(struct hearth_cache *cache, struct deferred *deferred, const struct event *event)
{
    lock_assert_held(&cache->lock);
    deferred->events =
        grow(deferred->events, deferred->events_count, &deferred->events_cap, sizeof(*event));
    deferred->events[deferred->events_count++] = *event;
}

void cache_note_free(struct deferred *deferred, void *memory)
{
    if (memory == NULL)
        return;
    deferred->frees = grow(deferred->frees, deferred->frees_count, &deferred->frees_cap, sizeof(void *));
    deferred->frees[deferred->frees_count++] = memory;
}

static void note_drop(struct deferred *deferred, const struct hash256 *key)
{
    deferred->drops = grow(deferred->drops, deferred->drops_count, &deferred->drops_cap, sizeof(*key));
    deferred->drops[deferred->drops_count++] = *key;
}

void cache_leave(struct hearth_cache *cache, struct deferred *deferred)
{
    lock_leave(&cache->lock);
    for (size_t i = 0; i < deferred->frees_count; i++)
        pages_free(cache->pages, deferred->frees[i]);
    for (size_t i = 0; i < deferred->drops_count; i++)
        cache->slow->ops->drop(cache->slow, &deferred->drops[i]);
    for (size_t i = 0; i < deferred->events_count; i++)
        events_add(cache->events, &deferred->events[i]);
    mem_free(deferred->frees);
    mem_free(deferred->drops);
    mem_free(deferred->events);
    if (deferred->calls != NULL)
        flight_calls_make(&deferred->calls);
    if (deferred->puts != NULL)
        mover_start_puts(cache, deferred->puts);
    *deferred = (struct deferred){0};
}

uint64_t cache_now_ns(const struct hearth_cache *cache)
{
    return clock_mono_ns(cache->clock);
}

/* ---- clearing ---- */

/* All objects of a space, each once. */
struct gathering {
    struct object **objects;
    size_t count, cap;
};

static void gather(struct gathering *gathering, struct object *object, const struct node *node)
{
    if (object == NULL || object->last != node)
        return; /* a run is gathered at its last node */
    gathering->objects = grow(gathering->objects, gathering->count, &gathering->cap, sizeof(object));
    gathering->objects[gathering->count++] = object;
}

static bool gather_node(struct node *node, void *arg)
{
    gather(arg, node_rows(node), node);
    gather(arg, node_sliding(node), node);
    for (uint32_t at = node_end(node); at > node_begin(node);) {
        struct object *snapshot = node_snapshot_below(node, at);
        if (snapshot == NULL)
            break;
        gather(arg, snapshot, node);
        at = snapshot->end - 1;
    }
    return true;
}

/* Forgets the objects of a space in one tier, or in all. What is leased is out of the index at once, and out of memory with its last
 * lease. */
static uint64_t clear_space(struct hearth_space *space, enum hearth_tier tier, struct deferred *deferred)
{
    struct gathering gathering = {0};
    uint64_t bytes = 0;

    index_each(space->index, gather_node, &gathering);
    for (size_t i = gathering.count; i-- > 0;) { /* children before parents */
        struct object *object = gathering.objects[i];
        if (tier != HEARTH_TIER_COUNT && !object->in[tier])
            continue;
        bytes += tier == HEARTH_TIER_SSD ? object->bytes : object->data_bytes;
        if (tier == HEARTH_TIER_SSD && object->data != NULL) {
            object->in[OBJECT_TIER_SSD] = false;
            note_drop(deferred, &object->key);
            continue;
        }
        if (tier != HEARTH_TIER_RAM && object->in[OBJECT_TIER_SSD])
            note_drop(deferred, &object->key);
        if (tier == HEARTH_TIER_RAM && object->in[OBJECT_TIER_SSD])
            room_demote(object, deferred);
        else
            room_drop(object, deferred);
    }
    mem_free(gathering.objects);
    return bytes;
}

/* ---- opening ---- */

static int say(char *message, int error, const char *text)
{
    if (message != NULL)
        snprintf(message, HEARTH_MESSAGE_BYTES, "%s", text);
    return error;
}

/* The caller's options, with zeros for what its header did not know. */
static struct hearth_options take_options(const struct hearth_options *options)
{
    struct hearth_options mine = {0};

    memcpy(&mine, options, MIN(options->struct_size, sizeof(mine)));
    if (mine.block_tokens == 0)
        mine.block_tokens = BLOCK_TOKENS_DEFAULT;
    if (mine.run_tokens == 0)
        mine.run_tokens = RUN_TOKENS_DEFAULT;
    if (mine.tails == 0)
        mine.tails = TAILS_DEFAULT;
    else if (mine.tails == UINT32_MAX)
        mine.tails = 0;
    return mine;
}

static void add_owners(struct hearth_cache *cache)
{
    struct errinfo info;
    enum err err = budget_add_owner(cache->budget, "index", 0, &cache->owner_index, &info);

    assert(err == ERR_OK);
    err = budget_add_owner(cache->budget, "common", 0, &cache->owner_common, &info);
    assert(err == ERR_OK);
    (void)err;
}

int hearth_open(struct hearth_cache **out, const struct hearth_options *options, char *message)
{
    struct hearth_options mine = take_options(options);
    enum policy policy = POLICY_SAVING_PER_BYTE;

    *out = NULL;
    if (mine.ram_bytes == 0)
        return say(message, HEARTH_ERROR_INVALID, "ram_bytes is 0: the cache could hold nothing");
    if (mine.policy != NULL && !policy_find(mine.policy, &policy))
        return say(message, HEARTH_ERROR_INVALID, "there is no eviction policy of that name");
    if ((mine.alloc == NULL) != (mine.free == NULL))
        return say(message, HEARTH_ERROR_INVALID, "alloc and free must be given together");
    struct hearth_cache *cache = mem_alloc(sizeof(*cache));
    lock_init(&cache->lock, "cache", LOCK_RANK_CACHE);
    cond_init(&cache->changed);
    cache->clock = clock_real();
    if (mine.key != NULL)
        memcpy(cache->key.bytes, mine.key, sizeof(cache->key.bytes));
    else
        hash_random(cache->key.bytes, sizeof(cache->key.bytes));
    cache->block_tokens = mine.block_tokens;
    cache->run_tokens = mine.run_tokens;
    cache->tails_max = mine.tails;
    cache->policy = policy;
    heap_init(&cache->heap);
    list_init(&cache->spaces);
    cache->budget = budget_create(mine.ram_bytes);
    add_owners(cache);
    cache->pages = pages_create(&(struct pages_options){
        .limit_bytes = mine.ram_bytes, .alloc = mine.alloc, .free = mine.free, .arg = mine.alloc_arg});
    cache->events = events_create(CACHE_EVENTS, cache->clock, mine.log, mine.log_arg);
    *out = cache;
    return HEARTH_OK;
}

static void no_object(struct object *object, void *arg)
{
    (void)object;
    (void)arg;
    assert(!"a space is cleared before its index is destroyed");
}

static void destroy_space(struct hearth_space *space)
{
    struct hearth_cache *cache = space->cache;
    struct deferred deferred = {0};

    assert(space->opens == 0);
    cache_enter(cache, &deferred);
    clear_space(space, HEARTH_TIER_COUNT, &deferred);
    list_remove(&cache->spaces, &space->link);
    cache_leave(cache, &deferred);
    index_destroy(&space->index, no_object, NULL);
    budget_release(cache->budget, cache->owner_index, space->index_charged);
    flights_destroy(&space->flights);
    if (space->owner != cache->owner_common)
        budget_remove_owner(cache->budget, space->owner);
    mem_free(space);
}

void hearth_close(struct hearth_cache **out)
{
    struct hearth_cache *cache = *out;

    if (cache == NULL)
        return;
    mover_drain(cache);
    while (!list_empty(&cache->spaces))
        destroy_space(LIST_ENTRY(list_first(&cache->spaces), struct hearth_space, link));
    tier_close(&cache->slow);
    heap_fini(&cache->heap);
    budget_remove_owner(cache->budget, cache->owner_index);
    budget_remove_owner(cache->budget, cache->owner_common);
    budget_destroy(&cache->budget);
    pages_destroy(&cache->pages);
    events_destroy(&cache->events);
    cond_fini(&cache->changed);
    lock_fini(&cache->lock);
    mem_free(cache);
    *out = NULL;
}

/* ---- spaces ---- */

bool space_has_rows(const struct hearth_space *space)
{
    return (space->model.kinds & ~(uint32_t)HEARTH_KIND_RECURRENT) != 0;
}

bool space_sliceable(const struct hearth_space *space)
{
    return space->model.kinds == HEARTH_KIND_FULL;
}

bool space_needs_snapshot(const struct hearth_space *space)
{
    const uint32_t windows = HEARTH_KIND_SLIDING | HEARTH_KIND_CHUNKED;

    return (space->model.kinds & HEARTH_KIND_RECURRENT) != 0 ||
           ((space->model.kinds & windows) != 0 && !space->model.captures_sliding);
}

/* Everything that two requests must agree in to share state (keeps I97, I100). */
static struct hash256 space_key(const struct hearth_cache *cache, const struct hearth_model *model,
                                const char *tenant)
{
    struct hash256_state state;

    hash256_init_keyed(&state, &cache->key);
    hash256_update_framed(&state, "hearth space 1", 14);
    hash256_update(&state, model->fingerprint, sizeof(model->fingerprint));
    hash256_update_u32(&state, model->kinds);
    hash256_update_u32(&state, model->window);
    hash256_update_u32(&state, model->captures_sliding);
    hash256_update_u32(&state, cache->block_tokens);
    hash256_update_framed(&state, tenant, strlen(tenant));
    return hash256_final(&state);
}

static struct hearth_space *find_space(struct hearth_cache *cache, const struct hash256 *key)
{
    LIST_FOREACH(struct hearth_space, space, &cache->spaces, link)
    {
        if (hash256_eq(&space->key, key))
            return space;
    }
    return NULL;
}

/* A line of the ledger for the tenant; the common one when there are too many tenants. A tenant with several models has one per model,
 * each with its share. */
static budget_owner own(struct hearth_cache *cache, const char *tenant, uint64_t share)
{
    budget_owner owner;

    if (cache->spaces.count >= CACHE_TENANTS_MAX ||
        budget_add_owner(cache->budget, tenant[0] ? tenant : "space", share, &owner, NULL) != ERR_OK)
        return cache->owner_common;
    return owner;
}

static struct hearth_space *make_space(struct hearth_cache *cache, const struct hearth_model *model,
                                       const char *tenant, uint64_t share, const struct hash256 *key)
{
    struct hearth_space *space = mem_alloc(sizeof(*space));

    space->cache = cache;
    space->key = *key;
    space->model = *model;
    space->share = share;
    snprintf(space->tenant, sizeof(space->tenant), "%s", tenant);
    space->index = index_create(key, cache->block_tokens);
    index_set_watch(space->index, room_watch, cache);
    space->index_charged = index_bytes(space->index);
    bool charged = budget_try_reserve(cache->budget, cache->owner_index, space->index_charged);
    assert(charged); /* checked by the caller */
    (void)charged;
    space->flights = flights_create(CACHE_FLIGHTS_MAX, CACHE_WAITERS_MAX);
    list_init(&space->tails);
    space->owner = own(cache, tenant, share);
    list_push_back(&cache->spaces, &space->link);
    return space;
}

int hearth_space_open(struct hearth_cache *cache, const struct hearth_model *model, const char *tenant,
                      uint64_t share_bytes, struct hearth_space **out)
{
    struct hearth_model mine = {0};
    struct deferred deferred = {0};
    const uint32_t known = HEARTH_KIND_FULL | HEARTH_KIND_SLIDING | HEARTH_KIND_CHUNKED | HEARTH_KIND_RECURRENT;
    int error = HEARTH_OK;

    *out = NULL;
    memcpy(&mine, model, MIN(model->struct_size, sizeof(mine)));
    if (mine.kinds == 0 || (mine.kinds & ~known) != 0 || strlen(tenant) >= CACHE_TENANT_BYTES)
        return HEARTH_ERROR_INVALID;
    struct hash256 key = space_key(cache, &mine, tenant);
    cache_enter(cache, &deferred);
    struct hearth_space *space = find_space(cache, &key);
    if (space == NULL) {
        uint64_t need = 64 * 1024; /* an empty space: its tree's root and its tables */
        if (budget_available(cache->budget, cache->owner_index) < need)
            error = HEARTH_ERROR_MEMORY;
        else
            space = make_space(cache, &mine, tenant, share_bytes, &key);
    }
    if (space != NULL) {
        space->opens++;
        *out = space;
    }
    cache_leave(cache, &deferred);
    return error;
}

void hearth_space_close(struct hearth_space **out)
{
    if (*out == NULL)
        return;
    struct hearth_cache *cache = (*out)->cache;
    lock_enter(&cache->lock);
    assert((*out)->opens > 0);
    (*out)->opens--; /* what it holds stays: a model that comes back finds it */
    lock_leave(&cache->lock);
    *out = NULL;
}

void hearth_space_set_speed(struct hearth_space *space, double prefill_tokens_per_s, double import_bytes_per_s)
{
    lock_enter(&space->cache->lock);
    space->model.prefill_tokens_per_s = prefill_tokens_per_s;
    space->model.import_bytes_per_s = import_bytes_per_s;
    lock_leave(&space->cache->lock);
}

/* ---- flights ---- */

struct hearth_flight {
    struct hearth_space *space;
    struct flight *flight;
};

int hearth_flight_open(struct hearth_space *space, const int32_t *tokens, size_t count,
                       struct hearth_flight **out)
{
    struct hearth_cache *cache = space->cache;
    struct deferred deferred = {0};

    *out = NULL;
    if (count == 0 || count > CACHE_TOKENS_MAX)
        return HEARTH_ERROR_INVALID;
    cache_enter(cache, &deferred);
    struct flight *flight = flights_open(space->flights, tokens, count);
    if (flight != NULL) {
        cache->stats.flights++;
        space->stats.flights++;
    }
    cache_leave(cache, &deferred);
    if (flight == NULL)
        return HEARTH_ERROR_MEMORY;
    *out = mem_alloc(sizeof(**out));
    **out = (struct hearth_flight){space, flight};
    return HEARTH_OK;
}

void hearth_flight_reached(struct hearth_flight *flight, uint32_t boundary)
{
    struct deferred deferred = {0};

    cache_enter(flight->space->cache, &deferred);
    flights_reached(flight->space->flights, flight->flight, boundary, &deferred.calls);
    cache_leave(flight->space->cache, &deferred);
}

void hearth_flight_close(struct hearth_flight **flight)
{
    struct deferred deferred = {0};

    if (*flight == NULL)
        return;
    struct hearth_cache *cache = (*flight)->space->cache;
    cache_enter(cache, &deferred);
    flights_close((*flight)->space->flights, &(*flight)->flight, &deferred.calls);
    cache_leave(cache, &deferred);
    mem_free(*flight);
    *flight = NULL;
}

bool hearth_flight_wait(struct hearth_space *space, const int32_t *tokens, size_t count, uint32_t boundary,
                        void (*fn)(uint32_t reached, void *arg), void *arg)
{
    struct deferred deferred = {0};

    cache_enter(space->cache, &deferred);
    bool waits = flights_wait(space->flights, tokens, count, boundary, fn, arg);
    if (waits) {
        space->cache->stats.flight_waits++;
        space->stats.flight_waits++;
    }
    cache_leave(space->cache, &deferred);
    return waits;
}

/* ---- managing ---- */

static void add_held(const struct hearth_space *space, struct hearth_stats *stats)
{
    struct gathering gathering = {0};

    index_each(space->index, gather_node, &gathering);
    for (size_t i = 0; i < gathering.count; i++)
        for (int tier = 0; tier < OBJECT_TIER_COUNT; tier++)
            if (gathering.objects[i]->in[tier])
                stats->bytes_by_tier[tier] += gathering.objects[i]->bytes;
    stats->objects += gathering.count;
    stats->nodes += index_nodes(space->index);
    stats->snapshots += index_snapshots(space->index);
    stats->tails += index_tails(space->index);
    stats->bytes_index += space->index_charged;
    mem_free(gathering.objects);
}

void hearth_get_stats(struct hearth_cache *cache, struct hearth_space *space, struct hearth_stats *out)
{
    size_t size = MIN(out->struct_size, sizeof(*out));

    lock_enter(&cache->lock);
    struct hearth_stats stats = space ? space->stats : cache->stats;
    LIST_FOREACH(struct hearth_space, each, &cache->spaces, link)
    {
        if (space == NULL || space == each)
            add_held(each, &stats);
    }
    stats.bytes_budget = budget_used(cache->budget);
    stats.bytes_cap = budget_cap(cache->budget);
    lock_leave(&cache->lock);
    stats.struct_size = size;
    memcpy(out, &stats, size);
}

void hearth_reset_stats(struct hearth_cache *cache)
{
    lock_enter(&cache->lock);
    cache->stats = (struct hearth_stats){0};
    LIST_FOREACH(struct hearth_space, space, &cache->spaces, link)
    {
        space->stats = (struct hearth_stats){0};
    }
    lock_leave(&cache->lock);
}

uint64_t hearth_clear(struct hearth_cache *cache, struct hearth_space *space, enum hearth_tier tier)
{
    struct deferred deferred = {0};
    uint64_t bytes = 0;

    cache_enter(cache, &deferred);
    LIST_FOREACH(struct hearth_space, each, &cache->spaces, link)
    {
        if (space == NULL || space == each)
            bytes += clear_space(each, tier, &deferred);
    }
    struct event event = {.kind = EVENT_CLEAR, .bytes = bytes, .tier = (uint8_t)tier};
    cache_note_event(cache, &deferred, &event);
    cache_leave(cache, &deferred);
    return bytes;
}

uint32_t hearth_pin(struct hearth_space *space, const int32_t *tokens, size_t count, bool pin)
{
    struct deferred deferred = {0};

    cache_enter(space->cache, &deferred);
    struct index_match match = index_match(space->index, tokens, count);
    struct node *last = match.nodes_count ? match.path[match.nodes_count - 1] : NULL;
    uint32_t held = last ? node_end(last) : 0;
    if (last != NULL)
        index_pin(space->index, last, pin ? 1 : -1);
    room_settle_index(space); /* unpinning removes nodes that nothing else keeps */
    cache_leave(space->cache, &deferred);
    return held;
}

void hearth_set_ram_bytes(struct hearth_cache *cache, uint64_t ram_bytes)
{
    struct deferred deferred = {0};

    cache_enter(cache, &deferred);
    budget_set_cap(cache->budget, ram_bytes);
    room_shrink(cache, &deferred);
    cache_leave(cache, &deferred);
    pages_set_limit(cache->pages, ram_bytes);
}
