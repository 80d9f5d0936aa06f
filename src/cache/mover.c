/*
 * mover.c: between memory and the slower tier, never on the caller's time (keeps I98).
 *
 *      write   commit -> noted under the lock -> tier.put after it -> done: the object is in both       a tier that declines: memory only
 *      read    plan -> memory from the ledger and the pages -> tier.get -> done: in memory, verified    or forgotten: the plan is shortened
 *
 * While an object moves it is leased by the mover: it is neither evicted nor freed, and its memory
 * stays where it is. A tier that fails costs an object, never a request (keeps I94). What a tier
 * has lost or damaged is dropped at once, so that nobody else is led to it; an error or a time-out
 * says nothing about the object, which stays.
 *
 * What a tier declines (a full queue, no room) waits in a list, and is tried again when something
 * there has come to an end: a write, a read, an object that was dropped. The newest first, a few at
 * a time, and of too many the oldest are given up.
 *
 * Not here: a choice of what is worth writing.
 */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

enum { RETRIES_AT_ONCE = 4 }; /* whoever frees a place in the tier has other things to do */

/* A running operation of the slow tier. */
struct move {
    struct hearth_cache *cache;
    struct object *object;
    void *memory;     /* of a read */
    bool listed;      /* the tier says that it has it */
    uint64_t request; /* that it is read for */
    uint64_t started_ns;
};

static void count(struct object *object, uint64_t struct_offset, uint64_t by)
{
    *(uint64_t *)((char *)&object->space->stats + struct_offset) += by;
    *(uint64_t *)((char *)&object->space->cache->stats + struct_offset) += by;
}

#define COUNT_BY(object, field, by) count((object), offsetof(struct hearth_stats, field), (by))
#define COUNT(object, field)        COUNT_BY(object, field, 1)

/* The operation is over; the mover's lease ends with it. */
static void finish(struct hearth_cache *cache, struct object *object, struct deferred *deferred)
{
    object->moving = false;
    if (list_node_linked(&object->aside_link))
        list_remove(&cache->dying, &object->aside_link);
    assert(cache->operations > 0);
    cache->operations--;
    room_unlease(object, deferred);
    room_shrink(cache, deferred); /* it may have been what stood in the way of a lower cap */
    cond_broadcast(&cache->changed);
}

/* ---- writing ---- */

static void begin_write(struct hearth_cache *cache, struct object *object)
{
    room_lease(object);
    object->moving = true;
    cache->operations++;
}

void mover_give_up(struct object *object)
{
    if (list_node_linked(&object->retry_link))
        list_remove(&object->space->cache->declined, &object->retry_link);
}

/* The tier would not take it now. What nobody needs any more is not tried again (keeps I50). */
static void decline(struct object *object)
{
    struct hearth_cache *cache = object->space->cache;

    COUNT(object, writes_declined);
    if (object->dropped || object->unwanted || object->superseded || cache->closing)
        return;
    if (cache->declined.count == CACHE_DECLINED_MAX) {
        struct object *oldest = LIST_ENTRY(list_first(&cache->declined), struct object, retry_link);
        mover_give_up(oldest);
        COUNT(oldest, writes_given_up);
    }
    list_push_back(&cache->declined, &object->retry_link);
}

/* An object of the same key was dropped, and its write is not over: another one now could be
 * overtaken by it, and the tier would have the bytes of the one under the name of the other. */
static bool is_dying(const struct hearth_cache *cache, const struct hash256 *key)
{
    LIST_FOREACH (struct object, object, &cache->dying, aside_link)
        if (hash256_eq(&object->key, key))
            return true;
    return false;
}

void mover_write(struct hearth_cache *cache, struct object *object, struct deferred *deferred)
{
    lock_assert_held(&cache->lock);
    if (cache->slow == NULL || object->moving || object->in[OBJECT_TIER_SSD])
        return;
    if (is_dying(cache, &object->key)) {
        decline(object);
        return;
    }
    struct deferred_put *put = mem_alloc(sizeof(*put));
    put->object = object;
    put->next = deferred->puts;
    deferred->puts = put;
    begin_write(cache, object);
}

static void on_written(enum tier_result result, void *arg)
{
    struct move *move = arg;
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;
    struct deferred deferred;

    cache_enter(cache, &deferred);
    if (result == TIER_OK) {
        COUNT_BY(object, bytes_written_by_tier[HEARTH_TIER_SSD], object->bytes);
        COUNT_BY(object, ns_written_by_tier[HEARTH_TIER_SSD],
                 cache_now_ns(cache) - move->started_ns);
    }
    if (result == TIER_OK && (object->dropped || object->unwanted))
        cache_note_drop(cache, &deferred,
                        &object->key); /* cleared or displaced meanwhile (keeps I55) */
    else if (result == TIER_OK)
        room_set_in(object, OBJECT_TIER_SSD, true);
    else if (result == TIER_FULL)
        decline(object);
    else if (result != TIER_CANCELLED)
        COUNT(object, tier_errors);
    object->unwanted = false;
    finish(cache, object, &deferred);
    cache_leave(cache, &deferred);
    mem_free(move);
    if (result != TIER_FULL)
        mover_retry(cache,
                    2); /* its place in the queue is free; two, so that the list gets shorter */
}

uint32_t mover_meta_kind(const struct object *object)
{
    uint32_t block = object->space->cache->block_tokens;

    return (uint32_t)object->kind | (uint32_t)object->entry << 8 | (block - 1) << 16;
}

/* Where the tokens begin that a tier keeps beside an object, so that the index can be rebuilt: with
 * the first block that it covers. The blocks before are those of other rows. A snapshot of a model
 * that has no rows has nobody to name its prefix, and keeps all of it. */
static uint32_t tokens_begin(const struct object *object)
{
    if (object->kind != OBJECT_SNAPSHOT)
        return object->begin;
    return space_has_rows(object->space) ? node_begin(object->last) : 0;
}

bool mover_fill_meta(const struct object *object, struct tier_meta *meta, int32_t **tokens)
{
    uint32_t begin = tokens_begin(object);
    const struct node *node = object->last;

    *tokens = mem_try_alloc_array(object->end - begin, sizeof(**tokens));
    if (*tokens == NULL)
        return false;
    *meta = (struct tier_meta){
        .key = object->key,
        .space = object->space->key,
        .kind = mover_meta_kind(object),
        .begin = object->begin,
        .end = object->end,
        .bytes = object->bytes,
        .used_wall_ns = clock_wall_ns(object->space->cache->clock),
        .shape_bytes = object->shape_bytes,
        .tokens = *tokens,
        .tokens_count = object->end - begin,
    };
    memcpy(meta->shape, object->shape, object->shape_bytes);
    for (; node != NULL && node_begin(node) >= begin; node = node_parent(node))
        memcpy(*tokens + (node_begin(node) - begin), node_tokens(node),
               (MIN(node_end(node), object->end) - node_begin(node)) * sizeof(**tokens));
    if (node != NULL)
        meta->parent = *node_key(node);
    return true;
}

/* Called without the lock. The object is leased, so that its memory stays; its place in the index
 * may not, hence the look under the lock. False when the tier declined. */
static bool start_put(struct hearth_cache *cache, struct object *object)
{
    struct deferred deferred;
    struct tier_meta meta;
    int32_t *tokens = NULL;
    struct move *move = mem_alloc(sizeof(*move));

    *move = (struct move){.cache = cache, .object = object, .started_ns = cache_now_ns(cache)};
    cache_enter(cache, &deferred);
    bool wanted = object->last != NULL && mover_fill_meta(object, &meta, &tokens);
    cache_leave(cache, &deferred);
    bool taken =
        wanted && cache->slow->ops->put(cache->slow, &meta, object->data, on_written, move);
    if (!taken) {
        cache_enter(cache, &deferred);
        if (wanted)
            decline(object);
        object->unwanted = false;
        finish(cache, object, &deferred);
        cache_leave(cache, &deferred);
        mem_free(move);
    }
    mem_free(tokens);
    return taken || !wanted;
}

void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts)
{
    while (puts != NULL) {
        struct deferred_put *next = puts->next;
        (void)start_put(cache, puts->object);
        mem_free(puts);
        puts = next;
    }
}

/* ---- trying again ---- */

/* The newest that was declined, about to be written; NULL when there is none, or no chance. */
static struct object *next_declined(struct hearth_cache *cache)
{
    if (cache->chances == 0 || list_empty(&cache->declined) || cache->closing) {
        cache->chances = 0;
        return NULL;
    }
    struct object *object = LIST_ENTRY(list_last(&cache->declined), struct object, retry_link);
    if (is_dying(cache, &object->key))
        return NULL; /* its end is a chance, too */
    cache->chances--;
    mover_give_up(object);
    COUNT(object, writes_retried);
    begin_write(cache, object);
    return object;
}

/* A tier that is done within the call makes more chances while this runs: one thread takes them,
 * and none sinks deeper. */
void mover_retry(struct hearth_cache *cache, size_t chances)
{
    struct object *object = NULL;

    lock_enter(&cache->lock);
    cache->chances = (uint32_t)MIN(cache->chances + chances, CACHE_DECLINED_MAX);
    bool mine = !cache->retrying;
    cache->retrying = true;
    for (int i = 0; mine && i < RETRIES_AT_ONCE && (object = next_declined(cache)) != NULL; i++) {
        lock_leave(&cache->lock);
        bool taken = start_put(cache, object);
        lock_enter(&cache->lock);
        if (!taken)
            cache->chances = 0; /* nothing has changed for it */
    }
    if (mine)
        cache->retrying = false;
    lock_leave(&cache->lock);
}

/* ---- reading ---- */

static void arrived(struct object *object, void *memory, struct deferred *deferred)
{
    struct hearth_event event = {.kind = HEARTH_EVENT_PROMOTE,
                                 .bytes = object->bytes,
                                 .tier = HEARTH_TIER_SSD,
                                 .read_tokens = object->end - object->begin};

    object->data = memory;
    object->data_bytes = room_charge(object->bytes);
    object->verified = true;
    room_set_in(object, OBJECT_TIER_RAM, true);
    COUNT(object, promotions);
    cache_note_event(object->space->cache, deferred, &event);
}

/* The tier has lost the object or its bytes are not what they were. */
static void lost(struct object *object, bool damaged, struct deferred *deferred)
{
    struct hearth_event event = {.kind = damaged ? HEARTH_EVENT_VERIFY_FAIL : HEARTH_EVENT_DROP,
                                 .bytes = object->bytes,
                                 .tier = HEARTH_TIER_SSD,
                                 .reason =
                                     damaged ? HEARTH_REASON_UNVERIFIED : HEARTH_REASON_TIER_ERROR};

    if (damaged)
        COUNT(object, verify_failures);
    else
        COUNT(object, tier_errors);
    object->damaged = damaged;
    cache_note_event(object->space->cache, deferred, &event);
    if (!object->dropped)
        room_drop(object, deferred);
}

/* The tier has evicted it, of which it tells nobody: no fault, but what a full disk does. Counted
 * there. */
static void let_go(struct object *object, struct deferred *deferred)
{
    struct hearth_event event = {.kind = HEARTH_EVENT_EVICT,
                                 .write_tokens = object->end - object->begin,
                                 .bytes = object->bytes,
                                 .tier = HEARTH_TIER_SSD,
                                 .reason = HEARTH_REASON_EVICTED};

    object->let_go = true;
    if (object->dropped)
        return;
    cache_note_event(object->space->cache, deferred, &event);
    room_add_ghosts(object);
    room_drop(object, deferred);
}

static void on_read(enum tier_result result, void *arg)
{
    struct move *move = arg;
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;
    struct deferred deferred;

    cache_enter(cache, &deferred);
    deferred.request = move->request;
    if (result == TIER_OK) {
        COUNT_BY(object, bytes_read_by_tier[HEARTH_TIER_SSD], object->bytes);
        COUNT_BY(object, ns_read_by_tier[HEARTH_TIER_SSD], cache_now_ns(cache) - move->started_ns);
    }
    /* Once it is dropped, others may have stored the same tokens anew, and what was read may be
     * theirs: same key, other bytes. */
    if (result == TIER_OK && !object->dropped) {
        arrived(object, move->memory, &deferred);
    } else {
        cache_note_free(&deferred, move->memory);
        room_release(object->space, room_charge(object->bytes));
        if (result == TIER_MISSING && !move->listed)
            let_go(object, &deferred);
        else if (result == TIER_MISSING || result == TIER_DAMAGED)
            lost(object, result == TIER_DAMAGED, &deferred);
        else if (result != TIER_OK && result != TIER_CANCELLED && result != TIER_FULL)
            COUNT(object, tier_errors);
    }
    finish(cache, object, &deferred);
    cache_leave(cache, &deferred);
    mem_free(move);
    mover_retry(cache, 1);
}

/* Memory to read into; when the pages are too scattered for it, something has to leave. NULL:
 * nothing can. */
static void *take_pages(struct hearth_cache *cache, const struct object *object)
{
    struct deferred deferred;
    bool evicted = true;
    void *memory;

    while ((memory = pages_alloc(cache->pages, object->bytes)) == NULL && evicted) {
        cache_enter(cache, &deferred);
        evicted = room_evict_one(cache, object->space, &deferred);
        cache_leave(cache, &deferred);
    }
    return memory;
}

bool mover_read(struct hearth_cache *cache, struct object *object, uint64_t request)
{
    struct deferred deferred;

    cache_enter(cache, &deferred);
    deferred.request = request;
    bool coming = object->data != NULL || object->moving;
    bool start = !coming && cache->slow != NULL && object->in[OBJECT_TIER_SSD] &&
                 room_reserve(object->space, room_charge(object->bytes), &deferred);
    if (start) {
        room_lease(object);
        object->moving = true;
        cache->operations++;
    }
    cache_leave(cache, &deferred);
    if (!start)
        return coming;
    struct move *move = mem_alloc(sizeof(*move));
    *move = (struct move){.cache = cache,
                          .object = object,
                          .memory = take_pages(cache, object),
                          .request = request,
                          .started_ns = cache_now_ns(cache)};
    if (move->memory == NULL) {
        on_read(TIER_FULL, move); /* ours, not the tier's: it stays there */
        return false;
    }
    move->listed = cache->slow->ops->has(cache->slow, &object->key);
    cache->slow->ops->get(cache->slow, &object->key, move->memory, object->bytes, on_read, move,
                          NULL);
    return true;
}

int mover_await(struct hearth_cache *cache, const struct object *object, uint64_t deadline_ns)
{
    while (object->data == NULL) {
        if (!object->moving)
            return HEARTH_ERROR_MISSING;
        if (!cond_wait_until(&cache->changed, &cache->lock, deadline_ns) && object->data == NULL)
            return object->moving ? HEARTH_ERROR_TIMEOUT : HEARTH_ERROR_MISSING;
    }
    return HEARTH_OK;
}

/* The last chance for what was declined: as long as the tier takes any of it at once. */
static void retry_all(struct hearth_cache *cache)
{
    size_t before, after = SIZE_MAX;

    do {
        before = after;
        mover_retry(cache, CACHE_DECLINED_MAX);
        lock_enter(&cache->lock);
        after = cache->declined.count;
        lock_leave(&cache->lock);
    } while (after > 0 && after < before);
}

void mover_drain(struct hearth_cache *cache, uint64_t timeout_ms)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    bool in_time = true;

    retry_all(cache);
    if (cache->slow != NULL &&
        cache->slow->ops->flush !=
            NULL) /* its writers are not to rest any more; whether all came in time is seen below */
        (void)!cache->slow->ops->flush(cache->slow, timeout_ms * NS_PER_MS);
    lock_enter(&cache->lock);
    while (cache->operations > 0 && in_time)
        in_time = cond_wait_until(&cache->changed, &cache->lock, deadline_ns);
    lock_leave(&cache->lock);
}
