/*
 * mover.c: moves objects between memory and slower tiers, never on the caller's time (keeps I98).
 *
 *      write   commit -> noted under the lock -> tier.put after unlocking -> done: also in the tier
 *              if the tier declines: queued for another try
 *      read    plan -> memory from the ledger and the pages -> tier.get -> in memory, verified
 *              on failure: read from the next tier that has it; else the plan is shortened
 *
 * An object that enters memory is offered to every tier that lacks it, and read from the fastest
 * that has it. Each tier has its own queue of declined writes.
 *
 * While an object moves, the mover leases it once per operation: it is neither evicted nor freed,
 * and its memory stays in place. A failing tier costs an object, never a request (keeps I94). An
 * object that a tier has lost or damaged leaves that tier at once, so that no other plan tries it;
 * an error or a time-out says nothing about the object, which stays.
 *
 * A read that no plan needs any more is cancelled. If another plan asks for it before the tier has
 * ended it, it is started again.
 *
 * Declined writes (a full queue, no room) wait in a list and are retried when an operation of the
 * tier ends: a write, a read, a drop. The newest are retried first, a few at a time; when there
 * are too many, the oldest are given up.
 *
 * Not here: choosing what is worth writing.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

enum {
    RETRIES_AT_ONCE = 4,       /* the thread that frees a place in the tier has other work */
    SPEED_BYTES_MIN = 1 << 20, /* less says nothing about the speed of a transfer */
};

/* A running operation of a slower tier. */
struct move {
    struct list_node link; /* of a read: in the cache's `reads` */
    struct hearth_cache *cache;
    struct object *object;
    enum hearth_tier level;
    void *memory;     /* of a read */
    bool listed;      /* the tier had it when the read began */
    bool measured;    /* counted in `reads` of its tier */
    uint64_t request; /* that needs the read */
    uint64_t started_ns;
    /* of a read, under the lock: */
    struct tier_op *op;
    bool starting;  /* the tier's get has not returned: `op` is not known yet */
    bool cancelled; /* no caller needs it */
    bool over;      /* while starting: it has ended, and is freed when the get returns */
};

/* An operation has ended, and its lease with it. */
static void finish(struct hearth_cache *cache, struct object *object, struct deferred *deferred)
{
    assert(cache->operations > 0);
    cache->operations--;
    room_unlease(object, deferred);
    room_shrink(cache, deferred); /* the lease may have kept the cache above a lowered cap */
    cond_broadcast(&cache->changed);
}

/* ---- writing ---- */

static void begin_write(struct object *object, enum hearth_tier level)
{
    assert(object->data != NULL && !(object->writing & TIER_BIT(level)));
    room_lease(object);
    object->writing |= TIER_BIT(level);
    object->space->cache->operations++;
}

static void finish_write(struct object *object, enum hearth_tier level, struct deferred *deferred)
{
    struct hearth_cache *cache = object->space->cache;

    object->writing &= ~TIER_BIT(level);
    object->drop_after_write &= ~TIER_BIT(level);
    if (object->dropped && object->writing == 0)
        list_remove(&cache->dropped_in_write, &object->aside_link);
    finish(cache, object, deferred);
    plan_note_ready(cache, NULL, deferred); /* it can be evicted now */
}

void mover_give_up(struct object *object, uint32_t tiers)
{
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        struct list_node *link = object_retry_link(object, level);
        if (tiers & TIER_BIT(level) && list_node_linked(link))
            list_remove(&object->space->cache->tiers[level].declined, link);
    }
}

static struct object *declined_of(struct list_node *link, enum hearth_tier level)
{
    return CONTAINER_OF(link - (level - TIER_SLOWER), struct object, retry_links[0]);
}

/* The tier declined the object. Objects that are no longer needed are not retried (keeps I50). */
static void decline(struct object *object, enum hearth_tier level)
{
    struct hearth_cache *cache = object->space->cache;
    struct list *declined = &cache->tiers[level].declined;

    object->space->stats.writes_declined++;
    if (object->dropped || object->drop_after_write & TIER_BIT(level) || object->superseded ||
        cache->closing)
        return;
    if (declined->count == CACHE_DECLINED_MAX) {
        struct object *oldest = declined_of(list_first(declined), level);
        mover_give_up(oldest, TIER_BIT(level));
        oldest->space->stats.writes_given_up++;
    }
    list_push_back(declined, object_retry_link(object, level));
}

/* An object with the same key was dropped while being written, and the write is still running. A
 * second write now could be overtaken by it, and the tier would hold the old bytes under the key
 * of the new object. */
static bool is_dropped_in_write(const struct hearth_cache *cache, enum hearth_tier level,
                                const struct hash256 *key)
{
    LIST_FOREACH (struct object, object, &cache->dropped_in_write, aside_link)
        if (object->writing & TIER_BIT(level) && hash256_eq(&object->key, key))
            return true;
    return false;
}

void mover_write(struct object *object, struct deferred *deferred)
{
    struct hearth_cache *cache = object->space->cache;

    lock_assert_held(&cache->lock);
    if (cache->closing)
        return;
    mover_give_up(object, TIER_BITS_SLOWER); /* this write replaces the retry */
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        if (cache->tiers[level].tier == NULL || (object->in | object->writing) & TIER_BIT(level))
            continue;
        if (is_dropped_in_write(cache, level, &object->key)) {
            decline(object, level);
            continue;
        }
        struct deferred_put *put = mem_alloc(sizeof(*put));
        *put = (struct deferred_put){object, level, deferred->puts};
        deferred->puts = put;
        begin_write(object, level);
    }
}

/* Each error that is counted is an event, hence a line of the log. */
static void note_error(struct object *object, enum hearth_tier level, enum tier_result result,
                       struct deferred *deferred)
{
    struct hearth_event event = cache_object_event(object, HEARTH_EVENT_DROP, level);

    event.reason = result == TIER_TIMEOUT ? HEARTH_REASON_TIMEOUT : HEARTH_REASON_TIER_ERROR;
    object->space->stats.tier_errors++;
    cache_note_event(object->space->cache, deferred, &event);
}

static void on_written(enum tier_result result, void *arg)
{
    struct move *move = arg;
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;
    enum hearth_tier level = move->level;
    struct deferred deferred;

    cache_enter(cache, &deferred);
    if (result == TIER_OK) {
        object->space->stats.bytes_written_by_tier[level] += object->bytes;
        object->space->stats.ns_written_by_tier[level] += cache_now_ns(cache) - move->started_ns;
    }
    bool erase = (object->drop_after_write & TIER_BIT(level)) != 0;
    if (result == TIER_OK && (object->dropped || erase)) {
        /* cleared or displaced meanwhile (keeps I55) */
        deferred.erase = erase;
        cache_note_drop(cache, &deferred, TIER_BIT(level), &object->key);
        deferred.erase = false; /* what finish_write evicts stays in a shared store */
    } else if (result == TIER_OK)
        room_set_in(object, level, true);
    else if (result == TIER_FULL)
        decline(object, level);
    else if (result != TIER_CANCELLED)
        note_error(object, level, result, &deferred);
    finish_write(object, level, &deferred);
    cache_leave(cache, &deferred);
    mem_free(move);
    if (result != TIER_FULL)
        /* its place in the queue is free; two, so that the list gets shorter */
        mover_retry(cache, level, 2);
    sweep_tier(cache, level);
}

/* The `kind` that a tier stores for an object: kind, what it is a part of, and the block size -
 * 1 of its tree, in 8, 8 and 16 bits. */
static uint32_t mover_meta_kind(const struct object *object)
{
    uint32_t block = object->space->cache->block_tokens;

    return (uint32_t)object->kind | (uint32_t)object->entry << 8 | (block - 1) << 16;
}

/* Where the tokens that a tier stores with an object begin, so that the index can be rebuilt: at
 * the first block that it covers. Other rows have the blocks before. A snapshot of a model
 * without rows has no other object to name its prefix, and keeps all of it. */
static uint32_t tokens_begin(const struct object *object)
{
    if (object->kind != HEARTH_OBJECT_SNAPSHOT)
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

/* Keys of the block before the object and of the whole blocks that it covers, for a tier that other
 * processes search; free with mem_free. */
static struct hash256 *list_places(const struct object *object, uint32_t *count)
{
    const struct node *node = object->last;
    uint32_t begin = object->kind == HEARTH_OBJECT_SNAPSHOT ? node_begin(node) : object->begin;
    uint32_t block = object->space->cache->block_tokens, at = (object->end - begin) / block + 1;
    struct hash256 *places;

    at = object->kind == HEARTH_OBJECT_SNAPSHOT ? 1 : at;
    *count = at;
    places = mem_alloc_array(at, sizeof(*places));
    if (object->kind == HEARTH_OBJECT_SNAPSHOT || object->end % block != 0)
        node = node_parent(node);
    for (; at > 0 && node != NULL; node = node_parent(node))
        places[--at] = *node_key(node); /* before the first block the key is zero */
    return places;
}

/* What a second machine could need first is written first: system prompts, then places where
 * prompts branch and where turns end. */
static uint32_t urgency_of(const struct object *object)
{
    if (object->entry == HEARTH_ENTRY_SYSTEM)
        return 0;
    if (object->superseded)
        return 3;
    return object->shared || object->turn_end || object->entry == HEARTH_ENTRY_ASSISTANT ? 1 : 2;
}

/* Call without the lock. The object is leased, so its memory stays valid; its place in the index
 * may change and is read under the lock. False when the tier declined. */
static bool start_put(struct hearth_cache *cache, struct object *object, enum hearth_tier level)
{
    struct tier *tier = cache->tiers[level].tier;
    struct deferred deferred;
    struct tier_meta meta;
    int32_t *tokens = NULL;
    struct hash256 *places = NULL;
    struct move *move = mem_alloc(sizeof(*move));

    *move = (struct move){
        .cache = cache, .object = object, .level = level, .started_ns = cache_now_ns(cache)};
    cache_enter(cache, &deferred);
    bool wanted = object->last != NULL && mover_fill_meta(object, &meta, &tokens);
    if (wanted && tier->ops->find != NULL) {
        meta.places = places = list_places(object, &meta.places_count);
        meta.urgency = urgency_of(object);
        if (object->space->tenant[0] != '\0')
            meta.tenant = hash256_of(object->space->tenant, strlen(object->space->tenant));
    }
    cache_leave(cache, &deferred);
    bool taken = wanted && tier->ops->put(tier, &meta, object->data, on_written, move);
    if (!taken) {
        cache_enter(cache, &deferred);
        if (wanted)
            decline(object, level);
        finish_write(object, level, &deferred);
        cache_leave(cache, &deferred);
        mem_free(move);
    }
    mem_free(tokens);
    mem_free(places);
    return taken || !wanted;
}

void mover_start_puts(struct hearth_cache *cache, struct deferred_put *puts)
{
    while (puts != NULL) {
        struct deferred_put *next = puts->next;
        (void)start_put(cache, puts->object, puts->level);
        mem_free(puts);
        puts = next;
    }
}

/* ---- trying again ---- */

/* Starts the write of the newest declined object; NULL when there is none, or no retry_credit. */
static struct object *next_declined(struct hearth_cache *cache, enum hearth_tier level)
{
    struct cache_tier *tier = &cache->tiers[level];

    if (tier->retry_credit == 0 || list_empty(&tier->declined) || cache->closing) {
        tier->retry_credit = 0;
        return NULL;
    }
    struct object *object = declined_of(list_last(&tier->declined), level);
    if (is_dropped_in_write(cache, level, &object->key))
        return NULL; /* the end of that write triggers a retry as well */
    tier->retry_credit--;
    mover_give_up(object, TIER_BIT(level));
    object->space->stats.writes_retried++;
    begin_write(object, level);
    return object;
}

/* A tier that completes within the call adds retry_credit while this runs. Only one thread uses
 * it up, and there is no recursion. */
void mover_retry(struct hearth_cache *cache, enum hearth_tier level, size_t retry_credit)
{
    struct cache_tier *tier = &cache->tiers[level];
    struct object *object = NULL;

    lock_enter(&cache->lock);
    tier->retry_credit = (uint32_t)MIN(tier->retry_credit + retry_credit, CACHE_DECLINED_MAX);
    bool mine = !tier->retrying;
    tier->retrying = true;
    for (int i = 0; mine && i < RETRIES_AT_ONCE && (object = next_declined(cache, level)) != NULL;
         i++) {
        cache->calling++;
        lock_leave(&cache->lock);
        bool taken = start_put(cache, object, level);
        cache_called(cache);
        lock_enter(&cache->lock);
        if (!taken)
            tier->retry_credit = 0; /* the tier is still full */
    }
    if (mine)
        tier->retrying = false;
    lock_leave(&cache->lock);
}

/* ---- reading ---- */

/* The next tier after `level` that has the object; HEARTH_TIER_COUNT: none. */
static enum hearth_tier next_tier(const struct object *object, enum hearth_tier level)
{
    do
        level++;
    while (level < HEARTH_TIER_COUNT && !(object->in & TIER_BIT(level)));
    return level;
}

static void arrived(const struct move *move, struct deferred *deferred)
{
    struct object *object = move->object;
    struct hearth_event event = cache_object_event(object, HEARTH_EVENT_PROMOTE, move->level);

    event.read_tokens = object->end - object->begin;
    object->data = move->memory;
    object->digest = 0; /* the bytes may come from another computation of the same tokens */
    room_set_in(object, HEARTH_TIER_RAM, true);
    object->space->stats.promotions++;
    cache_note_event(object->space->cache, deferred, &event);
    room_limit(object, deferred);
    mover_write(object, deferred);
}

/* The tier has lost the object or damaged its bytes. */
static void lost(struct object *object, enum hearth_tier level, bool damaged,
                 struct deferred *deferred)
{
    struct hearth_event event =
        cache_object_event(object, damaged ? HEARTH_EVENT_VERIFY_FAIL : HEARTH_EVENT_DROP, level);

    event.reason = damaged ? HEARTH_REASON_UNVERIFIED : HEARTH_REASON_TIER_ERROR;
    object->space->stats.verify_failures += damaged;
    object->space->stats.tier_errors += !damaged;
    object->damaged = damaged;
    cache_note_event(object->space->cache, deferred, &event);
    if (!object->dropped)
        room_leave_tier(object, level, deferred);
}

void mover_note_evicted(struct object *object, enum hearth_tier level, struct deferred *deferred)
{
    struct hearth_event event = cache_object_event(object, HEARTH_EVENT_EVICT, level);

    event.write_tokens = object->end - object->begin;
    event.reason = HEARTH_REASON_EVICTED;
    object->evicted_below = true;
    if (object->dropped)
        return;
    cache_note_event(object->space->cache, deferred, &event);
    if (object->in == TIER_BIT(level))
        room_add_ghosts(object);
    room_leave_tier(object, level, deferred);
}

/* Updates the object after a failed read. */
static void note_failure(const struct move *move, enum tier_result result,
                         struct deferred *deferred)
{
    if (result == TIER_MISSING && !move->listed)
        mover_note_evicted(move->object, move->level, deferred);
    else if (result == TIER_MISSING || result == TIER_DAMAGED)
        lost(move->object, move->level, result == TIER_DAMAGED, deferred);
    else
        note_error(move->object, move->level, result, deferred);
}

static void on_read(enum tier_result result, void *arg);

/* Measures the speed of a tier whose servers are elsewhere: bytes of reads that overlap, by the
 * time in which there was one. Reads that end at their deadline count as a few bytes: else a store
 * that is too slow would be tried by every request. Bytes of cancelled reads are not known: the
 * store is at least as fast as the others say. */
static void learn_speed(struct cache_tier *tier, const struct object *object,
                        enum tier_result result, uint64_t now_ns)
{
    assert(tier->reads > 0);
    tier->reads_bytes += result == TIER_OK ? object->bytes : 0;
    tier->reads_late |= result == TIER_TIMEOUT;
    tier->reads_cut |= result == TIER_CANCELLED;
    if (--tier->reads > 0)
        return;
    double took = (double)(now_ns - tier->reads_since_ns) / (double)NS_PER_S;
    if ((tier->reads_bytes >= SPEED_BYTES_MIN || tier->reads_late) && took > 0) {
        double speed = (double)MAX(tier->reads_bytes, SPEED_BYTES_MIN) / took;
        speed = tier->reads_cut ? MAX(speed, tier->bytes_per_s) : speed;
        tier->bytes_per_s = tier->bytes_per_s > 0 ? 0.7 * tier->bytes_per_s + 0.3 * speed : speed;
    }
    tier->reads_bytes = 0;
    tier->reads_late = tier->reads_cut = false;
}

/* Call without the lock; the object is leased by the move. */
static void start_get(struct move *move)
{
    struct hearth_cache *cache = move->cache;
    struct cache_tier *level = &cache->tiers[move->level];
    struct tier *tier = level->tier;
    const struct object *object = move->object;
    struct tier_op *op = NULL;

    move->started_ns = cache_now_ns(cache);
    lock_enter(&cache->lock);
    move->measured = tier->ops->find != NULL;
    if (move->measured && level->reads++ == 0)
        level->reads_since_ns = move->started_ns;
    lock_leave(&cache->lock);
    move->listed = tier->ops->has(tier, &object->key);
    tier->ops->get(tier, &object->key, move->memory, object->bytes, on_read, move, &op);
    lock_enter(&cache->lock);
    move->starting = false;
    move->op = op;
    bool over = move->over, cancel = !over && move->cancelled;
    lock_leave(&cache->lock);
    if (over)
        mem_free(move);
    if (cancel) /* asked for while the get was starting */
        tier->ops->cancel(tier, op);
}

/* NULL: the object is not being read. */
static struct move *find_read(const struct object *object)
{
    if (object->reading)
        LIST_FOREACH (struct move, move, &object->space->cache->reads, link)
            if (move->object == object)
                return move;
    return NULL;
}

void mover_leave(struct hearth_cache *cache, struct object *object, bool *wants)
{
    struct tier *tier = NULL;
    struct tier_op *op = NULL;

    lock_enter(&cache->lock);
    struct move *move = find_read(object);
    assert(!*wants || object->wanted > 0);
    object->wanted -= *wants;
    if (*wants && object->wanted == 0 && move != NULL && !move->cancelled) {
        move->cancelled = true;
        tier = move->starting ? NULL : cache->tiers[move->level].tier;
        op = move->op;
        cache->calling += tier != NULL;
    }
    *wants = false;
    lock_leave(&cache->lock);
    if (tier == NULL)
        return;
    tier->ops->cancel(tier, op);
    cache_called(cache);
}

/* The read goes on with another operation: in the next tier, or once more because a caller has asked
 * for it since it was cancelled. */
static struct move *go_on(const struct move *old, enum hearth_tier level)
{
    struct move *move = mem_alloc(sizeof(*move));

    *move = (struct move){.cache = old->cache,
                          .object = old->object,
                          .level = level,
                          .memory = old->memory,
                          .request = old->request,
                          .starting = true};
    list_push_back(&move->cache->reads, &move->link);
    move->object->damaged = move->object->evicted_below = false;
    move->cache->calling++;
    return move;
}

static void finish_read(const struct move *move, enum tier_result result, struct deferred *deferred)
{
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;

    object->reading = false;
    plan_note_ready(cache, object, deferred);
    /* After a drop, others may have stored the same tokens again, and the bytes read may be
     * theirs: same key, other bytes. */
    if (result == TIER_OK && !object->dropped) {
        arrived(move, deferred);
    } else {
        cache_note_free(deferred, move->memory);
        ledger_release(object->space, ledger_charge(object->bytes));
    }
    finish(cache, object, deferred);
    /* else it freed nothing, and the plan that asked would be next */
    if (result != TIER_FULL || cache->operations == 0)
        plan_note_ready(cache, NULL, deferred);
}

static void on_read(enum tier_result result, void *arg)
{
    struct move *move = arg;
    struct hearth_cache *cache = move->cache;
    struct object *object = move->object;
    enum hearth_tier level = move->level;
    bool failed = result != TIER_OK && result != TIER_CANCELLED && result != TIER_FULL;
    struct deferred deferred;

    cache_enter(cache, &deferred);
    deferred.request = move->request;
    if (move->measured)
        learn_speed(&cache->tiers[level], object, result, cache_now_ns(cache));
    if (result == TIER_OK) {
        object->space->stats.bytes_read_by_tier[level] += object->bytes;
        object->space->stats.ns_read_by_tier[level] += cache_now_ns(cache) - move->started_ns;
    }
    if (failed)
        note_failure(move, result, &deferred);
    enum hearth_tier again = failed ? next_tier(object, level)
                             : move->cancelled && result == TIER_CANCELLED && object->wanted > 0
                                 ? level
                                 : HEARTH_TIER_COUNT;
    struct move *next = NULL;
    list_remove(&cache->reads, &move->link);
    if (again < HEARTH_TIER_COUNT && !cache->closing)
        next = go_on(move, again);
    else
        finish_read(move, result, &deferred);
    move->over = true;
    bool starting = move->starting;
    cache_leave(cache, &deferred);
    if (next != NULL) {
        start_get(next);
        cache_called(cache);
    }
    if (!starting)
        mem_free(move);
    mover_retry(cache, level, 1);
}

/* Memory to read into; evicts when the pages are too fragmented. NULL: nothing can be evicted. */
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

/* Nothing could be read for lack of memory. */
static enum mover_answer no_memory(struct hearth_cache *cache, struct object *object, bool *wants)
{
    lock_enter(&cache->lock);
    object->wanted -= *wants;
    *wants = false;
    bool running = cache->operations > 0;
    lock_leave(&cache->lock);
    return running ? MOVER_FULL : MOVER_CANNOT;
}

enum mover_answer mover_read(struct hearth_cache *cache, struct object *object, uint64_t request,
                             bool *wants)
{
    struct deferred deferred;
    struct move *move = NULL;

    cache_enter(cache, &deferred);
    deferred.request = request;
    bool coming = object->data != NULL || object->reading;
    enum hearth_tier level = next_tier(object, HEARTH_TIER_RAM);
    bool start = !coming && level < HEARTH_TIER_COUNT &&
                 ledger_reserve(object->space, ledger_charge(object->bytes), &deferred);
    if (start) {
        room_lease(object);
        move = mem_alloc(sizeof(*move));
        *move = (struct move){
            .cache = cache, .object = object, .level = level, .request = request, .starting = true};
        list_push_back(&cache->reads, &move->link);
        object->reading = true;
        object->damaged = object->evicted_below = false;
        cache->operations++;
    }
    if ((coming || start) && !*wants) {
        assert(object->wanted < UINT16_MAX);
        object->wanted++;
        *wants = true;
    }
    cache_leave(cache, &deferred);
    if (coming)
        return MOVER_COMING;
    if (!start)
        return level < HEARTH_TIER_COUNT ? no_memory(cache, object, wants) : MOVER_CANNOT;
    move->memory = take_pages(cache, object);
    if (move->memory == NULL) {
        on_read(TIER_FULL, move); /* our failure, not the tier's: it keeps the object */
        mem_free(move);           /* it was still starting */
        return no_memory(cache, object, wants);
    }
    start_get(move);
    return MOVER_COMING;
}

int mover_await(struct hearth_cache *cache, const struct object *object, uint64_t deadline_ns)
{
    while (object->data == NULL) {
        if (!object->reading)
            return HEARTH_ERROR_MISSING;
        if (!cond_wait_until(&cache->changed, &cache->lock, deadline_ns) && object->data == NULL)
            return object->reading ? HEARTH_ERROR_TIMEOUT : HEARTH_ERROR_MISSING;
    }
    return HEARTH_OK;
}

/* The final retry of declined writes: repeats while the tier accepts any at once. */
static void retry_all(struct hearth_cache *cache, enum hearth_tier level)
{
    size_t before, after = SIZE_MAX;

    do {
        before = after;
        mover_retry(cache, level, CACHE_DECLINED_MAX);
        lock_enter(&cache->lock);
        after = cache->tiers[level].declined.count;
        lock_leave(&cache->lock);
    } while (after > 0 && after < before);
}

void mover_drain(struct hearth_cache *cache, uint64_t timeout_ms)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    bool in_time = true;

    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        struct tier *tier = cache->tiers[level].tier;
        uint64_t now_ns = clock_mono_ns(clock_real());
        if (tier == NULL)
            continue;
        retry_all(cache, level);
        if (tier->ops->flush != NULL) /* its writers must not pause any more */
            (void)!tier->ops->flush(tier, deadline_ns - MIN(now_ns, deadline_ns));
    }
    lock_enter(&cache->lock);
    while (cache->operations > 0 && in_time)
        in_time = cond_wait_until(&cache->changed, &cache->lock, deadline_ns);
    lock_leave(&cache->lock);
}
