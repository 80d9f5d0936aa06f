/*
 * store.c: storing state. Memory is handed out before the export, so that bytes move only once;
 * the object can be found only after commit (keeps I1, I67).
 *
 *      open -> next -> reserve -> (the engine exports) -> commit -> next -> ... -> close
 *                         '-----------------------------> cancel
 *
 * Between reserve and commit the lock is free and the index may change: if another caller stores
 * the same state meanwhile, the first commit wins.
 *
 * A prompt that is longer than the cache must not evict its own beginning, since its end is
 * worthless without it. While room is made for a piece, the end of the path before it is leased;
 * since parents are never evicted before their children, this keeps the whole path.
 */
#include <string.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"

/* Attributes the following events to the store's request. */
static void enter(const struct hearth_store *store, struct deferred *deferred)
{
    cache_enter(store->space->cache, deferred);
    deferred->request = store->hints.request;
}

/* What the path of the prompt has in memory was used now, by this turn: also if the state came from
 * the device, and no lookup saw it. */
static void note_turn(struct hearth_store *store)
{
    struct hearth_space *space = store->space;
    struct hearth_cache *cache = space->cache;
    const struct reuse_turn turn = {.space = &space->key,
                                    .tokens = store->tokens,
                                    .count = store->count,
                                    .block_tokens = cache->block_tokens,
                                    .ending = store->hints.ending,
                                    .request = store->hints.request,
                                    .now_ns = cache_now_ns(cache)};

    /* Pieces of a prompt that is still being computed are no turn. */
    bool unfinished = store->hints.prompt > 0 && !store->hints.generated;
    if (cache->policy != POLICY_EXPECTED_REUSE || unfinished)
        return;
    store->mark = reuse_note(cache->reuse, &turn);
    struct index_match match = store_match(store, (uint32_t)store->count);
    for (size_t i = 0; i < index_match_length(&match); i++) {
        struct node *node = index_match_node(&match, i);
        struct object *rows[] = {node_rows(node), node_sliding(node)};
        for (size_t j = 0; j < COUNT_OF(rows); j++)
            if (rows[j] != NULL) {
                rows[j]->reuse = store->mark;
                room_touch(rows[j], false);
            }
    }
}

static void keep_until(struct object *object, uint64_t ns)
{
    if (object != NULL)
        object->keep_until_ns = MAX(object->keep_until_ns, ns);
}

/* A time to live counts for all state of these tokens, also for what is cached already. */
static void keep_path(struct hearth_store *store)
{
    uint64_t ns = cache_now_ns(store->space->cache) + store->hints.ttl_s * NS_PER_S;

    if (store->hints.ttl_s == 0)
        return;
    struct index_match match = store_match(store, (uint32_t)store->count);
    for (size_t i = 0; i < index_match_length(&match); i++) {
        struct node *node = index_match_node(&match, i);
        uint32_t at = MIN(node_end(node), match.tokens);
        struct object *snapshot;
        keep_until(node_rows(node), ns);
        keep_until(node_sliding(node), ns);
        while (at > node_begin(node) && (snapshot = node_snapshot_below(node, at)) != NULL) {
            keep_until(snapshot, ns);
            at = snapshot->end - 1;
        }
    }
}

int hearth_store_open(struct hearth_space *space, const int32_t *tokens, size_t count,
                      const struct hearth_store_hints *hints, struct hearth_store **out)
{
    struct deferred deferred;

    *out = NULL;
    int32_t *copy;
    uint64_t charged;
    int error = cache_copy_tokens(space->cache, tokens, count, sizeof(struct hearth_store), &copy,
                                  &charged);
    if (error != HEARTH_OK)
        return error;
    struct hearth_store *store = mem_alloc(sizeof(*store));
    *store =
        (struct hearth_store){.space = space, .tokens = copy, .count = count, .charged = charged};
    if (hints != NULL)
        memcpy(&store->hints, hints, MIN(hints->struct_size, sizeof(store->hints)));
    enter(store, &deferred);
    manage_expire_due(space->cache, &deferred);
    note_turn(store);
    keep_path(store);
    cache_leave(space->cache, &deferred);
    *out = store;
    return HEARTH_OK;
}

/* The tokens to pin: those that were committed, or all when they were cached before, unless they
 * are pinned: repeating a request must not add pins. */
static uint32_t pin_end(struct hearth_store *store)
{
    struct hearth_cache *cache = store->space->cache;

    if (store->committed > 0)
        return store->committed;
    lock_enter(&cache->lock);
    struct index_match match = store_match(store, (uint32_t)store->count);
    const struct node *last = index_match_last(&match);
    bool pinned = last == NULL || node_pinned(last);
    lock_leave(&cache->lock);
    return pinned ? 0 : (uint32_t)store->count;
}

void hearth_store_close(struct hearth_store **out)
{
    if (*out == NULL)
        return;
    hearth_store_cancel(*out);
    /* Once for everything, so that one hearth_pin(false) undoes it. */
    if ((*out)->hints.pin)
        hearth_pin((*out)->space, (*out)->tokens, pin_end(*out), true);
    mem_free((*out)->tokens);
    cache_uncharge((*out)->space->cache, (*out)->charged);
    mem_free(*out);
    *out = NULL;
}

/* ---- what is missing ---- */

/* Only models that can be cut at any token have tails (keeps I28). For others, the rows after
 * the last block belong to the boundary of a snapshot among them, and are not a tail in this
 * sense. */
static bool tails_allowed(const struct hearth_store *store)
{
    return !space_sliceable(store->space) || store->space->cache->tail_bytes_max > 0;
}

/* A long prompt is stored in many pieces: the hint avoids comparing its tokens again for each. */
struct index_match store_match(struct hearth_store *store, uint32_t count)
{
    return index_match_hinted(store->space->index, store->tokens, count, &store->hint);
}

/* Rows of block [begin, begin + block) are held. */
static bool block_held(const struct index_match *match, uint32_t begin, uint32_t block)
{
    size_t i = begin / block;

    return i < match->nodes_count && node_rows_end(match->path[i]) == begin + block;
}

/* Rows of the tail [begin, count) are held, in a tail or in a block that continues. */
static bool tail_held(const struct index_match *match, uint32_t begin, uint32_t count)
{
    struct node *node =
        match->nodes_count > 0 && node_begin(match->path[match->nodes_count - 1]) == begin
            ? match->path[match->nodes_count - 1]
            : match->partial;

    return match->tokens >= count && node != NULL && node_begin(node) == begin &&
           node_rows_end(node) >= count;
}

/* The end of the run of missing blocks that begins at `at`. It does not cross the anchor: the
 * system prompt and tools are worth more than what follows, and must not be evicted with it
 * (keeps I103). */
static uint32_t run_end(const struct hearth_store *store, const struct index_match *match,
                        uint32_t at, uint32_t whole)
{
    uint32_t block = store->space->cache->block_tokens;
    uint32_t run = MAX(store->space->cache->run_tokens, block);
    uint32_t anchor = store->hints.anchor / block * block;
    uint32_t limit = anchor > at ? MIN(anchor, whole) : whole, end = at;

    while (end < limit && end - at + block <= run && !block_held(match, end, block))
        end += block;
    return end;
}

bool hearth_store_next(struct hearth_store *store, uint32_t *begin, uint32_t *end)
{
    struct hearth_cache *cache = store->space->cache;
    uint32_t block = cache->block_tokens, count = (uint32_t)store->count;
    uint32_t whole = count / block * block, at = store->cursor;

    *begin = *end = count;
    if (!space_has_rows(store->space))
        return false;
    lock_enter(&cache->lock);
    struct index_match match = store_match(store, count);
    while (at < whole && block_held(&match, at, block))
        at += block;
    bool tail =
        at == whole && whole < count && tails_allowed(store) && !tail_held(&match, whole, count);
    if (at < whole || tail) {
        *begin = at;
        *end = at < whole ? run_end(store, &match, at, whole) : count;
    }
    lock_leave(&cache->lock);
    store->cursor = *end;
    return *begin < *end;
}

/* The node that covers the last of these tokens; NULL when not all of them are known. */
static struct node *node_at(struct hearth_store *store, uint32_t count)
{
    struct index_match match = store_match(store, count);

    return match.tokens < count ? NULL : index_match_last(&match);
}

static bool snapshot_held(struct hearth_store *store, uint32_t at)
{
    struct node *node = node_at(store, at);

    return node != NULL && node_snapshot(node, at) != NULL;
}

/* Whether a snapshot there is worth its bytes, judging by the caller's hints. */
static bool snapshot_pays(const struct hearth_store *store, uint32_t at)
{
    const struct hearth_store_hints *hints = &store->hints;
    const struct hearth_model *model = &store->space->model;

    return hints->prompt == 0 ||
           policy_wants_snapshot(
               &(struct policy_snapshot){.count = hints->prompt,
                                         .generated = hints->generated,
                                         .from = hints->resumed,
                                         .anchor = hints->anchor,
                                         .last_user = hints->last_user,
                                         .transient = hints->transient,
                                         .junction = hints->junction,
                                         .fork = hints->fork,
                                         .rows_bytes_per_token = model->rows_bytes_per_token,
                                         .snapshot_bytes = model->snapshot_bytes,
                                         .sparse = hints->sparse},
               at);
}

bool hearth_store_wants_snapshot(struct hearth_store *store, uint32_t at)
{
    struct hearth_cache *cache = store->space->cache;

    if (!space_needs_snapshot(store->space) || at == 0 || at > store->count ||
        !snapshot_pays(store, at))
        return false;
    lock_enter(&cache->lock);
    bool held = snapshot_held(store, at);
    lock_leave(&cache->lock);
    return !held;
}

/* ---- reserving ---- */

static bool range_valid(const struct hearth_store *store, enum hearth_object_kind kind,
                        uint32_t begin, uint32_t end)
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

/* Whether rows are held for all of [0, begin): without them, later rows are useless. */
static bool rows_held(struct hearth_store *store, uint32_t begin)
{
    struct index_match match = store_match(store, begin);

    for (size_t i = 0; i < match.nodes_count; i++)
        if (node_rows_end(match.path[i]) < node_end(match.path[i]))
            return false;
    return match.tokens == begin && match.partial == NULL;
}

/* One of the nodes already holds these rows as far or further. A tail that the tokens extend is
 * about to grow. */
static bool rows_exist(struct hearth_store *store, const struct object *piece)
{
    uint32_t block = store->space->cache->block_tokens;
    struct index_match match = store_match(store, piece->end);

    for (size_t i = 0; i < index_match_length(&match); i++) {
        const struct node *node = index_match_node(&match, i);
        uint32_t held =
            piece->kind == HEARTH_OBJECT_ROWS ? node_rows_end(node) : node_sliding_end(node);
        uint32_t wanted = MIN(piece->end, node_begin(node) + block);
        if (node_begin(node) >= piece->begin && MIN(held, match.tokens) >= wanted)
            return true;
    }
    return false;
}

/* OK, or why this piece must not be stored. */
static int admit_piece(struct hearth_store *store, const struct object *piece)
{
    struct hearth_space *space = store->space;
    bool tail = piece->end % space->cache->block_tokens != 0;

    switch (piece->kind) {
    case HEARTH_OBJECT_SNAPSHOT:
        if (!space_needs_snapshot(space))
            return HEARTH_ERROR_REFUSED;
        return snapshot_held(store, piece->end) ? HEARTH_ERROR_EXISTS : HEARTH_OK;
    case HEARTH_OBJECT_SLIDING:
        if (!space->model.captures_sliding)
            return HEARTH_ERROR_REFUSED;
        break;
    default:
        if (!space_has_rows(space) || !rows_held(store, piece->begin))
            return HEARTH_ERROR_REFUSED;
        break;
    }
    if (tail && !tails_allowed(store))
        return HEARTH_ERROR_REFUSED;
    return rows_exist(store, piece) ? HEARTH_ERROR_EXISTS : HEARTH_OK;
}

/* The end of the path before a piece, leased while room is made for it. */
struct guard {
    struct object *objects[2];
};

static struct guard guard_path(struct hearth_store *store, uint32_t count)
{
    struct index_match match = store_match(store, count);
    struct node *last = match.nodes_count > 0 ? match.path[match.nodes_count - 1] : NULL;
    struct guard guard = {{NULL, NULL}};

    if (last != NULL) {
        guard.objects[0] = node_rows(last);
        guard.objects[1] = node_sliding(last);
    }
    for (size_t i = 0; i < COUNT_OF(guard.objects); i++)
        if (guard.objects[i] != NULL)
            room_lease(guard.objects[i]);
    return guard;
}

static void unguard(struct guard *guard, struct deferred *deferred)
{
    for (size_t i = 0; i < COUNT_OF(guard->objects); i++)
        if (guard->objects[i] != NULL)
            room_unlease(guard->objects[i], deferred);
}

/* The tokens whose rows come before a piece: those of a window or a snapshot were just stored. */
static uint32_t path_before(const struct object *piece)
{
    return piece->kind == HEARTH_OBJECT_ROWS ? piece->begin : piece->end;
}

static bool evict_for(struct hearth_store *store, const struct object *piece)
{
    struct hearth_cache *cache = store->space->cache;
    struct deferred deferred;

    enter(store, &deferred);
    struct guard guard = guard_path(store, path_before(piece));
    bool evicted = !room_declines(piece) && room_evict_one(cache, store->space, &deferred);
    unguard(&guard, &deferred);
    cache_leave(cache, &deferred);
    return evicted;
}

/* Takes memory from the pages; evicts more when they are too fragmented for an extent of that
 * size. */
static void *take_pages(struct hearth_store *store, const struct object *piece)
{
    struct pages *pages = store->space->cache->pages;
    void *memory;

    while ((memory = pages_alloc(pages, piece->bytes)) == NULL)
        if (!evict_for(store, piece))
            return NULL;
    return memory;
}

static void count_refused(struct hearth_space *space)
{
    lock_assert_held(&space->cache->lock);
    space->stats.stores_refused++;
}

/* Charges the ledger and reserves a place in the heaps. */
static int take_room(struct hearth_store *store, const struct object *piece, uint64_t charge)
{
    struct hearth_cache *cache = store->space->cache;
    struct deferred deferred;

    enter(store, &deferred);
    int error = admit_piece(store, piece);
    if (error == HEARTH_OK && room_is_full(store->space, charge) && room_declines(piece))
        error = HEARTH_ERROR_REFUSED;
    if (error == HEARTH_OK) {
        struct guard guard = guard_path(store, path_before(piece));
        if (!ledger_record(store->space, &deferred)) {
            error = HEARTH_ERROR_MEMORY;
        } else if (!ledger_reserve(store->space, charge, &deferred)) {
            ledger_unrecord(store->space);
            error = HEARTH_ERROR_MEMORY;
        }
        unguard(&guard, &deferred);
    }
    if (error != HEARTH_OK && error != HEARTH_ERROR_EXISTS)
        count_refused(store->space);
    cache_leave(cache, &deferred);
    return error;
}

/* Returns what take_room took, including the record. */
static void give_back(struct hearth_space *space, uint64_t charge)
{
    ledger_release(space, charge);
    ledger_unrecord(space);
}

/* Whether nothing speaks for a snapshot there but the guess that prompts diverge. */
static bool is_guess(const struct hearth_store *store, enum hearth_object_kind kind, uint32_t end)
{
    const struct hearth_store_hints *hints = &store->hints;

    return kind == HEARTH_OBJECT_SNAPSHOT && end == hints->fork && end + 1 < hints->prompt &&
           end != hints->anchor && end != hints->junction && end != hints->last_user &&
           end != hints->transient;
}

/* The fields that room.c compares. */
static void describe(const struct hearth_store *store, struct object *piece, uint64_t bytes)
{
    uint64_t now = cache_now_ns(store->space->cache);
    bool keep = store->hints.ttl_s > 0 || store->hints.pin;

    piece->bytes = bytes;
    piece->space = store->space;
    piece->used_ns = now;
    piece->keep_until_ns = keep ? UINT64_MAX : 0;
    piece->reuse = store->mark;
    piece->guess = is_guess(store, piece->kind, piece->end);
}

int hearth_store_reserve(struct hearth_store *store, enum hearth_object_kind kind, uint32_t begin,
                         uint32_t end, uint64_t capacity, void **memory)
{
    struct hearth_cache *cache = store->space->cache;
    struct object piece = {.kind = kind, .begin = begin, .end = end};
    struct deferred deferred;

    *memory = NULL;
    if (store->memory != NULL || capacity == 0 || !range_valid(store, kind, begin, end))
        return HEARTH_ERROR_INVALID;
    /* Prevents overflow of the sum below; the ledger refuses what exceeds any memory anyway. */
    capacity = MIN(capacity, UINT64_MAX / 2);
    describe(store, &piece, capacity);
    uint64_t charge = ledger_charge(capacity) + ledger_record_bytes();
    int error = take_room(store, &piece, charge);
    if (error != HEARTH_OK)
        return error;
    store->memory = take_pages(store, &piece);
    if (store->memory == NULL) {
        enter(store, &deferred);
        give_back(store->space, charge);
        count_refused(store->space);
        cache_leave(cache, &deferred);
        return HEARTH_ERROR_MEMORY;
    }
    store->capacity = capacity;
    store->kind = kind;
    store->begin = begin;
    store->end = end;
    store->started_ns = cache_now_ns(cache);
    *memory = store->memory;
    return HEARTH_OK;
}

void hearth_store_cancel(struct hearth_store *store)
{
    struct hearth_cache *cache = store->space->cache;
    struct deferred deferred;

    if (store->memory == NULL)
        return;
    enter(store, &deferred);
    cache_note_free(&deferred, store->memory);
    give_back(store->space, ledger_charge(store->capacity) + ledger_record_bytes());
    store->space->stats.stores_failed++;
    cache_leave(cache, &deferred);
    store->memory = NULL;
}

/* ---- committing ---- */

/* An object that enters the tree. */
struct arrival {
    struct object *object;
    struct deferred *deferred;
};

/* Drops rows that longer ones displaced. */
static void drop_replaced(struct object *object, void *arg)
{
    const struct arrival *arrival = arg;
    struct deferred *deferred = arrival->deferred;
    struct hearth_space *space = object->space;
    struct hearth_event event = cache_object_event(object, HEARTH_EVENT_REPLACE, HEARTH_TIER_RAM);

    event.write_tokens = object->end - object->begin;
    space->stats.replaces++;
    cache_note_event(space->cache, deferred, &event);
    uint64_t expires_ns = arrival->object->expires_ns;
    if (object->expires_ns != 0 && (expires_ns == 0 || object->expires_ns < expires_ns))
        /* the object that has its tokens now inherits the expiry */
        manage_set_expiry(arrival->object, object->expires_ns);
    room_drop(object, deferred);
}

static struct object *make_object(const struct hearth_store *store, uint64_t bytes,
                                  const void *shape, size_t shape_bytes)
{
    struct object *object = mem_alloc(sizeof(*object));
    uint64_t now = cache_now_ns(store->space->cache);

    *object = (struct object){
        .kind = store->kind,
        .begin = store->begin,
        .end = store->end,
        .bytes = bytes,
        .shape_bytes = (uint32_t)shape_bytes,
        .space = store->space,
        .data = store->memory,
        .entry = (uint8_t)store->hints.entry,
        .used_ns = now,
        .stored_ns = now,
        .keep_until_ns = store->hints.ttl_s ? now + store->hints.ttl_s * NS_PER_S : 0,
        .reuse = store->mark,
        .heap_slot = OBJECT_NOT_IN_HEAP,
    };
    object->turn_end = object->kind == HEARTH_OBJECT_SNAPSHOT && replace_is_turn_end(store);
    object->guess = is_guess(store, object->kind, object->end);
    if (store->hints.anchor > 0 && store->end <= store->hints.anchor && !object->guess)
        object->entry = HEARTH_ENTRY_SYSTEM;
    if (shape_bytes > 0)
        memcpy(object->shape, shape, shape_bytes);
    return object;
}

static void note_store(const struct hearth_store *store, const struct object *object,
                       struct deferred *deferred)
{
    struct hearth_cache *cache = store->space->cache;
    struct hearth_stats *stats = &store->space->stats;
    struct hearth_event event = cache_object_event(object, HEARTH_EVENT_WRITE, HEARTH_TIER_RAM);
    uint64_t ns = cache_now_ns(cache) - store->started_ns;

    event.prompt_tokens = (uint32_t)store->count;
    event.write_tokens = object->kind == HEARTH_OBJECT_SNAPSHOT ? 0 : object->end - object->begin;
    event.us = ns / NS_PER_US;
    stats->stores++;
    stats->bytes_written_by_tier[HEARTH_TIER_RAM] += object->bytes;
    stats->ns_written_by_tier[HEARTH_TIER_RAM] += ns;
    cache_note_event(cache, deferred, &event);
}

int store_attach(struct object *object, const int32_t *tokens, struct index_hint *hint,
                 struct deferred *deferred)
{
    struct hearth_space *space = object->space;

    if (!ledger_reserve_index(space, tokens, object->end, hint, deferred))
        return HEARTH_ERROR_MEMORY;
    struct node *last = index_insert_hinted(space->index, tokens, object->end, hint);
    bool may = last != NULL && index_may_attach(space->index, last, object);
    if (last != NULL && !may)
        index_prune(space->index, last); /* another caller stored it meanwhile */
    ledger_account_index(space);
    if (!may)
        return last == NULL ? HEARTH_ERROR_MEMORY : HEARTH_ERROR_EXISTS;
    object->key = index_object_key(space->index, last, object);
    space->objects++;
    list_push_back(&space->all, &object->held_link);
    struct arrival arrival = {object, deferred};
    index_attach(space->index, last, object, drop_replaced, &arrival);
    room_touch(object, false);
    return HEARTH_OK;
}

/* Commits the object, or frees it with everything that was reserved for it. */
static int insert(struct hearth_store *store, struct object *object, struct deferred *deferred)
{
    struct hearth_space *space = store->space;
    struct guard guard = guard_path(store, path_before(object));

    if (object->kind == HEARTH_OBJECT_ROWS)
        replace_tail(store, deferred);
    int error = store_attach(object, store->tokens, &store->hint, deferred);
    unguard(&guard, deferred);
    if (error != HEARTH_OK) {
        cache_note_free(deferred, object->data);
        give_back(space, ledger_data_bytes(object) + ledger_record_bytes());
        if (error == HEARTH_ERROR_MEMORY)
            count_refused(space);
        mem_free(object);
        return error;
    }
    room_set_in(object, HEARTH_TIER_RAM, true);
    store->committed = MAX(store->committed, store->end);
    note_store(store, object, deferred);
    if (object->turn_end)
        replace_snapshots(store, object, deferred);
    space->stats.tail_stashes += room_is_tail(object);
    room_limit(object, deferred);
    if (!store->hints.no_disk && (!object->guess || store->hints.fork_last))
        mover_write(object, deferred);
    return HEARTH_OK;
}

int hearth_store_commit(struct hearth_store *store, uint64_t bytes, const void *shape,
                        size_t shape_bytes)
{
    struct hearth_space *space = store->space;
    struct hearth_cache *cache = space->cache;
    struct deferred deferred;

    if (store->memory == NULL || bytes == 0 || bytes > store->capacity ||
        shape_bytes > OBJECT_SHAPE_BYTES_MAX)
        return HEARTH_ERROR_INVALID;
    pages_shrink(cache->pages, store->memory, bytes);
    struct object *object = make_object(store, bytes, shape, shape_bytes);
    enter(store, &deferred);
    ledger_release(space, ledger_charge(store->capacity) - ledger_charge(bytes));
    store->memory = NULL;
    int error = insert(store, object, &deferred);
    cache_leave(cache, &deferred);
    return error;
}
