/*
 * space.c: spaces, one per model configuration and tenant: their keys, lifetime and objects.
 *
 *                recover.c finds objects of it
 *      (nothing) -----------------------------> DORMANT
 *          |                                       | hearth_space_open
 *          '---------hearth_space_open-----------> OPEN <---open---.
 *                                                  |               |
 *                                                  '--last close--> CLOSED
 *
 *      DORMANT, CLOSED --reap: not open and empty--> (freed)
 *
 * A dormant space is a tree without a model: its key is known, but not what the key was made from.
 * It cannot be looked up.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "cache/cache.h"

enum { REST_PART = 8 }; /* of the cap, which a lowered cap leaves for what has no share */

/* ---- all objects of a space ---- */

struct gathering {
    struct object **objects;
    size_t count, cap;
};

static void gather(struct gathering *gathering, struct object *object, const struct node *node)
{
    if (object == NULL || object->last != node)
        return; /* a run is collected at its last node */
    mem_reserve_one(&gathering->objects, gathering->count, &gathering->cap, sizeof(object));
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

static void visit(struct gathering *gathering, void (*fn)(struct object *object, void *arg),
                  void *arg)
{
    for (size_t i = 0; i < gathering->count; i++)
        fn(gathering->objects[i], arg);
    mem_free(gathering->objects);
}

void space_each_object(struct hearth_space *space, void (*fn)(struct object *object, void *arg),
                       void *arg)
{
    struct gathering gathering = {0};

    lock_assert_held(&space->cache->lock);
    index_each(space->index, gather_node, &gathering);
    visit(&gathering, fn, arg);
}

void space_each_below(struct node *top, void (*fn)(struct object *object, void *arg), void *arg)
{
    struct gathering gathering = {0};

    index_each_below(top, gather_node, &gathering);
    visit(&gathering, fn, arg);
}

void space_each_in(struct node *node, void (*fn)(struct object *object, void *arg), void *arg)
{
    struct gathering gathering = {0};

    (void)gather_node(node, &gathering);
    visit(&gathering, fn, arg);
}

/* ---- lifetime ---- */

void space_remove(struct hearth_space *space)
{
    struct hearth_cache *cache = space->cache;

    lock_assert_held(&cache->lock);
    assert(space->opens == 0 && space->objects == 0 && space->records == 0);
    assert(space->line.used == 0);
    list_remove(&cache->spaces, &space->link);
    budget_set_share(&cache->budget, &space->line, 0);
    cache_add_stats(&cache->stats, &space->stats);
    ledger_release_books(cache, space->index_charged + sizeof(*space));
}

static void no_object(struct object *object, void *arg)
{
    (void)object;
    (void)arg;
    assert(!"a space is cleared before it is freed");
}

void space_free(struct hearth_space *space)
{
    index_destroy(&space->index, no_object, NULL);
    mem_free(space);
}

bool space_has_rows(const struct hearth_space *space)
{
    return (space->model.kinds & HEARTH_KIND_FULL) != 0;
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

/* Everything that two requests must have in common to share state (keeps I97, I100). */
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

struct hearth_space *space_find(struct hearth_cache *cache, const struct hash256 *key)
{
    LIST_FOREACH (struct hearth_space, space, &cache->spaces, link)
        if (hash256_eq(&space->key, key))
            return space;
    return NULL;
}

void space_fit_shares(struct hearth_cache *cache)
{
    uint64_t cap = cache->budget.cap, most = cap - cap / REST_PART, promised = 0;

    lock_assert_held(&cache->lock);
    LIST_FOREACH (struct hearth_space, space, &cache->spaces, link)
        promised += space->promised;
    double part = promised > most ? (double)most / (double)promised : 1;
    LIST_FOREACH (struct hearth_space, space, &cache->spaces, link)
        budget_set_share(&cache->budget, &space->line,
                         part < 1 ? (uint64_t)(part * (double)space->promised) : space->promised);
}

struct hearth_space *space_create_dormant(struct hearth_cache *cache, const struct hash256 *key,
                                          struct deferred *deferred)
{
    struct hearth_space *space = mem_alloc(sizeof(*space));

    lock_assert_held(&cache->lock);
    space->index = index_create(key, cache->block_tokens);
    uint64_t bytes = index_bytes(space->index);
    if (!ledger_reserve_books(cache, bytes + sizeof(*space), deferred)) {
        index_destroy(&space->index, no_object, NULL);
        mem_free(space);
        return NULL;
    }
    space->cache = cache;
    space->key = *key;
    space->dormant = true;
    space->index_charged = bytes;
    index_on_change(space->index, room_on_change, cache);
    list_init(&space->all);
    list_init(&space->tails);
    list_init(&space->snapshots);
    list_push_back(&cache->spaces, &space->link);
    return space;
}

/* Gives a dormant space its model and tenant. False: its share is not available. */
static bool wake(struct hearth_space *space, const struct hearth_model *model, const char *tenant,
                 uint64_t share)
{
    snprintf(space->tenant, sizeof(space->tenant), "%s", tenant);
    if (!budget_try_share(&space->cache->budget, &space->line, share))
        return false;
    space->promised = share;
    space->model = *model;
    space->dormant = false;
    return true;
}

/* Removes spaces that are empty and not open, so that a flood of one-time tenants leaves nothing
 * behind (keeps I108). The caller frees the spaces in `gone`. */
static void reap(struct hearth_cache *cache, struct list *gone)
{
    list_init(gone);
    LIST_FOREACH_SAFE (struct hearth_space, space, &cache->spaces, link) {
        if (space->opens > 0 || space->records > 0 || index_nodes(space->index) > 0)
            continue;
        space_remove(space);
        list_push_back(gone, &space->link);
    }
}

static void free_spaces(struct list *gone)
{
    struct list_node *link;

    while ((link = list_pop_front(gone)) != NULL)
        space_free(CONTAINER_OF(link, struct hearth_space, link));
}

/* Copies and checks the caller's model; false when it is invalid. */
static bool take_model(const struct hearth_model *model, struct hearth_model *mine)
{
    const uint32_t windows = HEARTH_KIND_SLIDING | HEARTH_KIND_CHUNKED;
    const uint32_t known = windows | HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

    *mine = (struct hearth_model){0};
    memcpy(mine, model, MIN(model->struct_size, sizeof(*mine)));
    if ((mine->kinds & windows) == 0)
        mine->captures_sliding = false;
    return mine->kinds != 0 && (mine->kinds & ~known) == 0 &&
           (!mine->captures_sliding || mine->window > 0);
}

int hearth_space_open(struct hearth_cache *cache, const struct hearth_model *model,
                      const char *tenant, uint64_t share_bytes, struct hearth_space **out)
{
    struct hearth_model mine;
    struct deferred deferred;
    struct list gone;
    int error = HEARTH_OK;

    *out = NULL;
    if (!take_model(model, &mine) || strlen(tenant) >= CACHE_TENANT_BYTES)
        return HEARTH_ERROR_INVALID;
    struct hash256 key = space_key(cache, &mine, tenant);
    cache_enter(cache, &deferred);
    reap(cache, &gone);
    struct hearth_space *space = space_find(cache, &key);
    if (space == NULL)
        space = space_create_dormant(cache, &key, &deferred);
    if (space == NULL || (space->dormant && !wake(space, &mine, tenant, share_bytes))) {
        error = HEARTH_ERROR_MEMORY; /* a space that could not wake is reaped or stays dormant */
    } else {
        space->opens++;
        *out = space;
    }
    cache_leave(cache, &deferred);
    free_spaces(&gone);
    return error;
}

void hearth_space_close(struct hearth_space **out)
{
    if (*out == NULL)
        return;
    struct hearth_cache *cache = (*out)->cache;
    lock_enter(&cache->lock);
    assert((*out)->opens > 0);
    (*out)->opens--; /* its objects stay: a model that is loaded again finds them */
    lock_leave(&cache->lock);
    *out = NULL;
}

void hearth_space_set_depth(struct hearth_space *space, double seconds_per_token_before)
{
    lock_enter(&space->cache->lock);
    space->depth_s = seconds_per_token_before;
    lock_leave(&space->cache->lock);
}

double space_compute_s(const struct hearth_space *space, uint32_t from, uint32_t to)
{
    double tokens = (double)to - from, speed = space->model.prefill_tokens_per_s;

    lock_assert_held(&space->cache->lock);
    return speed > 0 ? tokens / speed + tokens * (from + tokens / 2) * space->depth_s : 0;
}

uint64_t hearth_space_snapshot_room(const struct hearth_space *space)
{
    struct hearth_cache *cache = space->cache;

    lock_enter(&cache->lock);
    uint64_t room = MIN(cache->snapshot_bytes_max, cache->budget.cap);
    lock_leave(&cache->lock);
    return room;
}

void hearth_space_set_speed(struct hearth_space *space, double prefill_tokens_per_s,
                            double import_bytes_per_s)
{
    lock_enter(&space->cache->lock);
    space->model.prefill_tokens_per_s = prefill_tokens_per_s;
    space->model.import_bytes_per_s = import_bytes_per_s;
    lock_leave(&space->cache->lock);
}
