/*
 * mover.c: between memory and the slower tier, never on the caller's time (keeps I98).
 *
 *      write   commit -> noted under the lock -> tier.put after it -> done: the object is in both       a tier that declines: memory only
 *      read    plan -> memory from the ledger and the pages -> tier.get -> done: in memory, verified    or forgotten: the plan is shortened
 *
 * While an object moves it is leased by the mover: it is neither evicted nor freed, and its memory stays where it is. A tier that fails
 * costs an object, never a request (keeps I94).
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

/* A running operation of the slow tier. */
struct move {
    struct hearth_cache *cache;
    struct object *object;
    void *memory; /* of a read */
};

static void count(struct object *object, uint64_t struct_offset)
{
    *(uint64_t *)((char *)&object->space->stats + struct_offset) += 1;
    *(uint64_t *)((char *)&object->space->cache->stats + struct_offset) += 1;
}

#define COUNT(object, field) count((object), offsetof(struct hearth_stats, field))

/* The operation is over; the mover's lease ends with it. */
static void finish(struct hearth_cache *cache, struct object *object, struct deferred *deferred)
{
    object->moving = false;
    assert(cache->operations > 0);
    cache->operations--;
    room_unlease(object, deferred);
    cond_broadcast(&cache->changed);
}

/* ---- writing ---- */

void mover_write(struct hearth_cache *cache, struct object *object, struct deferred *deferred)
{
    if (cache->slow == NULL || object->moving || object->in[OBJECT_TIER_SSD])
        return;
    struct deferred_put *put = mem_alloc(sizeof(*put));
    put->object = object;
    put->next = deferred->puts;
    deferred->puts = put;
    room_lease(object);
    object->moving = true;
    cache->operations++;
}

static void on_written(enum tier_result result, void *arg)
{
    struct move *move = arg;
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;
    struct deferred deferred = {0};

    cache_enter(cache, &deferred);
    if (result == TIER_OK)
        object->in[OBJECT_TIER_SSD] = true;
    else
        COUNT(object, tier_errors);
    finish(cache, object, &deferred);
    cache_leave(cache, &deferred);
    mem_free(move);
}

/* The tokens of the blocks that an object covers, so that a tier can rebuild the index; a snapshot names its prefix by the key alone. */
static int32_t *collect_tokens(const struct object *object, uint32_t *tokens_count)
{
    uint32_t begin = object->kind == OBJECT_SNAPSHOT ? node_begin(object->last) : object->begin;
    int32_t *tokens = mem_try_alloc_array(object->end - begin, sizeof(*tokens));

    *tokens_count = object->end - begin;
    for (const struct node *node = object->last; tokens != NULL && node != NULL && node_begin(node) >= begin;
         node = node_parent(node)) {
        uint32_t end = MIN(node_end(node), object->end);
        memcpy(tokens + (node_begin(node) - begin), node_tokens(node),
               (end - node_begin(node)) * sizeof(*tokens));
        if (node_begin(node) == 0)
            break;
    }
    return tokens;
}

static bool fill_meta(struct object *object, struct tier_meta *meta, int32_t **tokens)
{
    const struct node *first = object->last;

    while (object->kind != OBJECT_SNAPSHOT && node_begin(first) > object->begin)
        first = node_parent(first);
    *meta = (struct tier_meta){
        .key = object->key,
        .space = object->space->key,
        .kind = object->kind,
        .begin = object->begin,
        .end = object->end,
        .bytes = object->bytes,
        .used_wall_ns = clock_wall_ns(object->space->cache->clock),
        .shape_bytes = object->shape_bytes,
    };
    if (node_parent(first) != NULL)
        meta->parent = *node_key(node_parent(first));
    memcpy(meta->shape, object->shape, object->shape_bytes);
    *tokens = collect_tokens(object, &meta->tokens_count);
    meta->tokens = *tokens;
    return *tokens != NULL;
}

/* Called without the lock. The object is leased, so that its memory stays; its place in the index may not, hence the look under the lock. */
static void start_put(struct hearth_cache *cache, struct object *object)
{
    struct deferred deferred = {0};
    struct tier_meta meta;
    int32_t *tokens = NULL;
    struct move *move = mem_alloc(sizeof(*move));

    *move = (struct move){.cache = cache, .object = object};
    cache_enter(cache, &deferred);
    bool wanted = object->last != NULL && fill_meta(object, &meta, &tokens);
    cache_leave(cache, &deferred);
    if (!wanted || !cache->slow->ops->put(cache->slow, &meta, object->data, on_written, move)) {
        cache_enter(cache, &deferred);
        finish(cache, object, &deferred);
        cache_leave(cache, &deferred);
        mem_free(move);
    }
    mem_free(tokens);
}

void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts)
{
    while (puts != NULL) {
        struct deferred_put *next = puts->next;
        start_put(cache, puts->object);
        mem_free(puts);
        puts = next;
    }
}

/* ---- reading ---- */

static void on_read(enum tier_result result, void *arg)
{
    struct move *move = arg;
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;
    struct deferred deferred = {0};

    cache_enter(cache, &deferred);
    if (result == TIER_OK) {
        object->data = move->memory;
        object->data_bytes = room_charge(object->bytes);
        object->space->bytes += object->data_bytes;
        object->in[OBJECT_TIER_RAM] = true;
        object->verified = true;
        COUNT(object, promotions);
        struct event event = {.kind = EVENT_PROMOTE, .bytes = object->bytes, .tier = HEARTH_TIER_SSD,
                              .read_tokens = object->end - object->begin};
        cache_note_event(cache, &deferred, &event);
    } else {
        cache_note_free(&deferred, move->memory);
        room_release(object->space, room_charge(object->bytes));
        if (result != TIER_CANCELLED && result != TIER_TIMEOUT)
            object->in[OBJECT_TIER_SSD] = false; /* gone or damaged; the plan that wanted it will drop it */
        COUNT(object, tier_errors);
    }
    finish(cache, object, &deferred);
    cache_leave(cache, &deferred);
    mem_free(move);
}

bool mover_read(struct hearth_cache *cache, struct object *object)
{
    struct deferred deferred = {0};
    uint64_t charge = room_charge(object->bytes);

    cache_enter(cache, &deferred);
    bool possible = cache->slow != NULL && object->in[OBJECT_TIER_SSD] && !object->moving &&
                    object->data == NULL && room_reserve(object->space, charge, &deferred);
    if (possible) {
        room_lease(object);
        object->moving = true;
        cache->operations++;
    }
    cache_leave(cache, &deferred);
    if (!possible)
        return object->data != NULL || object->moving;
    struct move *move = mem_alloc(sizeof(*move));
    *move = (struct move){.cache = cache, .object = object, .memory = pages_alloc(cache->pages, object->bytes)};
    if (move->memory == NULL) {
        on_read(TIER_FULL, move);
        return false;
    }
    struct tier_op *op;
    cache->slow->ops->get(cache->slow, &object->key, move->memory, object->bytes, on_read, move, &op);
    return true;
}

void mover_drain(struct hearth_cache *cache)
{
    lock_enter(&cache->lock);
    while (cache->operations > 0)
        cond_wait(&cache->changed, &cache->lock);
    lock_leave(&cache->lock);
}
