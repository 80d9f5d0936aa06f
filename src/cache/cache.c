/*
 * cache.c: the cache as a whole: opening and closing, deferred work, statistics, clearing,
 * pinning.
 *
 * CLOSING keeps the objects of slower tiers. Running writes get a limited time, then the tier
 * aborts the rest. Memory is freed only after that, so that no callback uses freed memory.
 *
 * CLEARING removes objects from one tier or from all. Clearing all tiers also removes their nodes
 * and pins, even while they are read: readers keep the bytes that they lease, and lookups no
 * longer find them.
 */
#include "cache/cache.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { BLOCK_TOKENS_DEFAULT = 256, RUN_TOKENS_DEFAULT = 2048, TAILS_PART = 4 };

#define BOOKS_BYTES_MIN (UINT64_C(1) << 20)

/* ---- the lock, and deferred work ---- */

void cache_enter(struct hearth_cache *cache, struct deferred *deferred)
{
    *deferred = (struct deferred){0};
    lock_enter(&cache->lock);
}

void cache_note_event(struct hearth_cache *cache, struct deferred *deferred,
                      const struct hearth_event *event)
{
    lock_assert_held(&cache->lock);
    mem_reserve_one(&deferred->events, deferred->events_count, &deferred->events_cap,
                    sizeof(*event));
    struct hearth_event *noted = &deferred->events[deferred->events_count++];
    *noted = *event;
    if (noted->request == 0)
        noted->request = deferred->request;
}

struct hearth_event cache_object_event(const struct object *object, enum hearth_event_kind kind,
                                       enum hearth_tier tier)
{
    return (struct hearth_event){.kind = kind,
                                 .bytes = object->bytes,
                                 .object = object->kind,
                                 .position = object->end,
                                 .tier = tier};
}

void cache_note_free(struct deferred *deferred, void *memory)
{
    if (memory == NULL)
        return;
    mem_reserve_one(&deferred->frees, deferred->frees_count, &deferred->frees_cap, sizeof(void *));
    deferred->frees[deferred->frees_count++] = memory;
}

/* Notes a key for each attached tier among these. */
static void note_key(struct hearth_cache *cache, struct deferred_keys *by_tier, uint32_t tiers,
                     const struct hash256 *key)
{
    lock_assert_held(&cache->lock);
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT && !cache->closing; level++) {
        struct deferred_keys *noted = &by_tier[level];
        if (!(tiers & TIER_BIT(level)) || cache->tiers[level].tier == NULL)
            continue;
        mem_reserve_one(&noted->keys, noted->count, &noted->cap, sizeof(*key));
        noted->keys[noted->count++] = *key;
    }
}

void cache_note_drop(struct hearth_cache *cache, struct deferred *deferred, uint32_t tiers,
                     const struct hash256 *key)
{
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (cache->tiers[level].tier != NULL && cache->tiers[level].tier->ops->find != NULL &&
            !deferred->erase)
            tiers &= ~TIER_BIT(level); /* others may need it, and its time to live ends it */
    note_key(cache, deferred->drops, tiers, key);
}

void cache_note_touch(struct hearth_cache *cache, struct deferred *deferred, uint32_t tiers,
                      const struct hash256 *key)
{
    note_key(cache, deferred->touches, tiers, key);
}

/* Drops and touches of one tier. Returns how many objects were dropped. */
static size_t call_tier(struct tier *tier, struct deferred_keys *drops,
                        struct deferred_keys *touches)
{
    for (size_t i = 0; i < drops->count; i++)
        tier->ops->drop(tier, &drops->keys[i]);
    if (touches->count > 0 && tier->ops->touch != NULL)
        tier->ops->touch(tier, touches->keys, touches->count);
    mem_free(drops->keys);
    mem_free(touches->keys);
    return drops->count;
}

void cache_called(struct hearth_cache *cache)
{
    lock_enter(&cache->lock);
    cache->calling--;
    cond_broadcast(&cache->changed);
    lock_leave(&cache->lock);
}

void cache_leave(struct hearth_cache *cache, struct deferred *deferred)
{
    size_t dropped[HEARTH_TIER_COUNT] = {0};
    bool calls = deferred->puts != NULL;

    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        calls |= deferred->drops[level].count > 0 || deferred->touches[level].count > 0;
    cache->calling += calls;
    lock_leave(&cache->lock);
    for (size_t i = 0; i < deferred->frees_count; i++)
        pages_free(cache->pages, deferred->frees[i]);
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        dropped[level] =
            call_tier(cache->tiers[level].tier, &deferred->drops[level], &deferred->touches[level]);
    for (size_t i = 0; i < deferred->events_count; i++)
        events_add(cache->events, &deferred->events[i]);
    mem_free(deferred->frees);
    mem_free(deferred->events);
    for (size_t i = 0; i < deferred->ready_count; i++)
        plan_call_ready(deferred->ready[i]);
    mem_free(deferred->ready);
    if (deferred->puts != NULL)
        mover_start_puts(cache, deferred->puts);
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (dropped[level] > 0)
            mover_retry(cache, level, dropped[level]);
    if (calls)
        cache_called(cache);
    *deferred = (struct deferred){0};
}

uint64_t cache_now_ns(const struct hearth_cache *cache)
{
    return clock_mono_ns(cache->clock) + CACHE_CLOCK_BEGIN_NS;
}

/* Charges request bytes that belong to no object to the ledger, evicting if necessary. */
static bool cache_charge(struct hearth_cache *cache, uint64_t bytes)
{
    struct deferred deferred;

    cache_enter(cache, &deferred);
    bool charged = ledger_reserve_request(cache, bytes, &deferred);
    cache_leave(cache, &deferred);
    return charged;
}

void cache_uncharge(struct hearth_cache *cache, uint64_t bytes)
{
    lock_enter(&cache->lock);
    ledger_release_request(cache, bytes);
    lock_leave(&cache->lock);
}

int cache_copy_tokens(struct hearth_cache *cache, const int32_t *tokens, size_t count,
                      uint64_t more, int32_t **copy, uint64_t *charged)
{
    *copy = NULL;
    if (count == 0 || count > CACHE_TOKENS_MAX)
        return HEARTH_ERROR_INVALID;
    *charged = more + count * sizeof(**copy);
    if (!cache_charge(cache, *charged))
        return HEARTH_ERROR_MEMORY;
    *copy = mem_try_alloc_array(count, sizeof(**copy));
    if (*copy == NULL) {
        cache_uncharge(cache, *charged);
        return HEARTH_ERROR_MEMORY;
    }
    memcpy(*copy, tokens, count * sizeof(**copy));
    return HEARTH_OK;
}

/* ---- clearing ---- */

struct clearing {
    enum hearth_tier tier;
    struct deferred *deferred;
    uint64_t bytes;
};

/* Memory only: slower tiers keep their copies. A leased object stays, or leaves the index and is
 * freed with its last lease. */
static void clear_memory(struct object *object, void *arg)
{
    struct clearing *clearing = arg;
    uint64_t bytes = ledger_data_bytes(object);

    if (object->data == NULL)
        return;
    if (object->in & TIER_BITS_SLOWER) {
        clearing->bytes += room_demote(object, clearing->deferred) ? bytes : 0;
        return;
    }
    clearing->bytes += bytes;
    room_drop(object, clearing->deferred);
}

/* One slower tier. A running write is undone when it completes (keeps I55). */
static void clear_slower(struct object *object, void *arg)
{
    struct clearing *clearing = arg;
    uint32_t bit = TIER_BIT(clearing->tier);

    object->drop_after_write |= object->writing & bit;
    mover_give_up(object, bit);
    if (!(object->in & bit))
        return;
    clearing->bytes += object->bytes;
    room_leave_tier(object, clearing->tier, clearing->deferred);
}

/* All tiers. The index is already empty, and the object is detached. */
static void clear_object(struct object *object, void *arg)
{
    struct clearing *clearing = arg;

    clearing->bytes += MAX(ledger_data_bytes(object), object->bytes);
    room_drop(object, clearing->deferred);
}

/* Forgets the objects of a space in one tier or in all, then with its pins. Leased objects leave
 * the index at once, and memory with their last lease. */
static uint64_t clear_space(struct hearth_space *space, enum hearth_tier tier,
                            struct deferred *deferred)
{
    struct clearing clearing = {.tier = tier, .deferred = deferred};

    if (tier == HEARTH_TIER_COUNT) {
        index_clear(space->index, clear_object, &clearing);
        ledger_account_index(space);
    } else {
        space_each_object(space, tier == HEARTH_TIER_RAM ? clear_memory : clear_slower, &clearing);
    }
    return clearing.bytes;
}

/* ---- opening ---- */

int cache_say(char *message, int error, const char *text)
{
    if (message != NULL)
        snprintf(message, HEARTH_MESSAGE_BYTES, "%.255s", text);
    return error;
}

/* The caller's options, with zeros for fields that its header lacks. */
static struct hearth_options take_options(const struct hearth_options *options)
{
    struct hearth_options mine = {0};

    memcpy(&mine, options, MIN(options->struct_size, sizeof(mine)));
    if (mine.block_tokens == 0)
        mine.block_tokens = BLOCK_TOKENS_DEFAULT;
    if (mine.run_tokens == 0)
        mine.run_tokens = RUN_TOKENS_DEFAULT;
    if (mine.tail_bytes == 0)
        mine.tail_bytes = MAX(mine.ram_bytes / TAILS_PART, 1);
    else if (mine.tail_bytes == UINT64_MAX)
        mine.tail_bytes = 0;
    return mine;
}

/* The part of the cap for metadata. Rows of a block are some MiB and its metadata about 1 KiB,
 * so a small part is plenty, unless a slower tier holds thousands of times as much as memory
 * does. */
static uint64_t books_part(const struct hearth_cache *cache, uint64_t cap)
{
    uint64_t wanted = cache->books_bytes ? cache->books_bytes : MAX(cap / 32, BOOKS_BYTES_MIN);

    return MIN(wanted, cap / 2);
}

/* The metadata part, and the quarter of it for requests: that of a larger cap could take all of a
 * smaller one. */
static void set_books(struct hearth_cache *cache, uint64_t cap)
{
    uint64_t books = books_part(cache, cap);

    cache->meta_budget.cap = books;
    budget_set_share(&cache->meta_budget, &cache->requests, books / 4);
}

static void open_ledgers(struct hearth_cache *cache, uint64_t cap)
{
    cache->budget.cap = cap;
    set_books(cache, cap);
}

/* What is wrong, or NULL; finds the policy. */
static const char *find_wrong_option(const struct hearth_options *options, enum policy *policy)
{
    if (options->ram_bytes == 0)
        return "ram_bytes must not be 0";
    if (options->policy != NULL && !policy_find(options->policy, policy))
        return "unknown eviction policy";
    if ((options->alloc == NULL) != (options->free == NULL))
        return "alloc and free must be given together";
    if (options->block_tokens > CACHE_BLOCK_TOKENS_MAX || options->run_tokens > CACHE_TOKENS_MAX)
        return "block_tokens or run_tokens is too large";
    return NULL;
}

int hearth_open(struct hearth_cache **out, const struct hearth_options *options, char *message)
{
    struct hearth_options mine = take_options(options);
    enum policy policy = POLICY_EXPECTED_REUSE;

    *out = NULL;
    const char *wrong = find_wrong_option(&mine, &policy);
    if (wrong != NULL)
        return cache_say(message, HEARTH_ERROR_INVALID, wrong);
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
    cache->tail_bytes_max = mine.tail_bytes;
    cache->snapshot_bytes_max = mine.snapshot_bytes > 0 ? mine.snapshot_bytes : UINT64_MAX;
    cache->policy = policy;
    cache->reuse = reuse_create();
    heap_init(&cache->heap);
    heap_init(&cache->heap_slow);
    list_init(&cache->spaces);
    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        list_init(&cache->tiers[level].declined);
    list_init(&cache->dropped_in_write);
    list_init(&cache->expiring);
    list_init(&cache->awaiting);
    list_init(&cache->reads);
    list_init(&cache->searches);
    cache->books_bytes = mine.books_bytes;
    cache->drain_ms = CACHE_DRAIN_MS;
    open_ledgers(cache, mine.ram_bytes);
    cache->pages = pages_create(
        &(struct pages_options){.limit_bytes = mine.ram_bytes - books_part(cache, mine.ram_bytes),
                                .ahead = true,
                                .ahead_bytes = mine.ahead_bytes,
                                .alloc = mine.alloc,
                                .free = mine.free,
                                .arg = mine.alloc_arg});
    cache->events = events_create(CACHE_EVENTS, cache->clock, mine.log, mine.log_arg);
    *out = cache;
    return HEARTH_OK;
}

void hearth_close(struct hearth_cache **out)
{
    struct hearth_cache *cache = *out;
    struct deferred deferred;

    if (cache == NULL)
        return;
    mover_drain(cache, cache->drain_ms);
    lock_enter(&cache->lock);
    cache->closing = true; /* no new tier calls from here on */
    while (cache->calling > 0)
        cond_wait(&cache->changed, &cache->lock);
    lock_leave(&cache->lock);
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        if (cache->tiers[level].tier != NULL) /* aborts operations still running */
            cache->tiers[level].tier->ops->close(cache->tiers[level].tier);
    /* only now: callbacks of one tier look at all of them */
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        cache->tiers[level].tier = NULL;
    while (!list_empty(&cache->spaces)) {
        struct hearth_space *space =
            LIST_ENTRY(list_first(&cache->spaces), struct hearth_space, link);
        cache_enter(cache, &deferred);
        clear_space(space, HEARTH_TIER_COUNT, &deferred);
        space_remove(space);
        cache_leave(cache, &deferred);
        space_free(space);
    }
    heap_fini(&cache->heap);
    heap_fini(&cache->heap_slow);
    pages_destroy(&cache->pages);
    budget_release(&cache->meta_budget, &cache->books, cache->places * ledger_place_bytes());
    assert(cache->budget.used == 0 && cache->meta_budget.used == 0);
    events_destroy(&cache->events);
    reuse_destroy(&cache->reuse);
    cond_fini(&cache->changed);
    lock_fini(&cache->lock);
    mem_free(cache);
    *out = NULL;
}

/* ---- statistics ---- */

void cache_add_stats(struct hearth_stats *to, const struct hearth_stats *from)
{
    enum { FIRST = offsetof(struct hearth_stats, lookups) }; /* all from here on are uint64_t */
    uint64_t *sums = (uint64_t *)((char *)to + FIRST);
    const uint64_t *counters = (const uint64_t *)((const char *)from + FIRST);

    for (size_t i = 0; i < (sizeof(*to) - FIRST) / sizeof(*sums); i++)
        sums[i] += counters[i];
}

struct hearth_stats cache_sum_stats(const struct hearth_cache *cache)
{
    struct hearth_stats sum = cache->stats;

    lock_assert_held(&cache->lock);
    LIST_FOREACH (struct hearth_space, space, &cache->spaces, link)
        cache_add_stats(&sum, &space->stats);
    return sum;
}

static void add_held(const struct hearth_space *space, struct hearth_stats *stats)
{
    for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
        stats->bytes_by_tier[tier] += space->held[tier];
    stats->objects += space->objects;
    stats->nodes += index_nodes(space->index);
    stats->snapshots += index_snapshots(space->index);
    stats->tails += space->tails.count;
    stats->bytes_index += space->index_charged;
}

void hearth_get_stats(struct hearth_cache *cache, struct hearth_space *space,
                      struct hearth_stats *out)
{
    size_t size = MIN(out->struct_size, sizeof(*out));

    sweep_tiers(cache);
    lock_enter(&cache->lock);
    struct hearth_stats stats = space ? space->stats : cache_sum_stats(cache);
    if (space != NULL)
        add_held(space, &stats);
    else
        LIST_FOREACH (struct hearth_space, each, &cache->spaces, link)
            add_held(each, &stats);
    stats.bytes_budget = cache->budget.used;
    stats.bytes_memory = pages_bytes_held(cache->pages) + cache->meta_budget.used;
    stats.bytes_cap = cache->budget.cap;
    stats.tail_bytes_max = space == NULL || space_sliceable(space) ? cache->tail_bytes_max : 0;
    lock_leave(&cache->lock);
    stats.struct_size = size;
    memcpy(out, &stats, size);
}

void hearth_reset_stats(struct hearth_cache *cache)
{
    struct tier_stats before[HEARTH_TIER_COUNT] = {{0}};

    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        struct tier *tier = cache->tiers[level].tier;
        if (tier != NULL)
            tier->ops->stats(tier, &before[level]);
    }
    lock_enter(&cache->lock);
    cache->stats = (struct hearth_stats){0};
    for (int level = 0; level < HEARTH_TIER_COUNT; level++) {
        struct cache_tier *tier = &cache->tiers[level];
        tier->before = before[level];
        tier->counts = (struct tier_counts){.objects = tier->counts.objects};
    }
    LIST_FOREACH (struct hearth_space, space, &cache->spaces, link)
        space->stats = (struct hearth_stats){0};
    lock_leave(&cache->lock);
    events_reset(cache->events);
}

/* ---- managing ---- */

uint64_t hearth_clear(struct hearth_cache *cache, struct hearth_space *space, enum hearth_tier tier)
{
    struct deferred deferred;
    uint64_t bytes = 0;

    if (tier > HEARTH_TIER_COUNT)
        return 0;
    cache_enter(cache, &deferred);
    deferred.erase = true;
    LIST_FOREACH (struct hearth_space, each, &cache->spaces, link)
        if (space == NULL || space == each)
            bytes += clear_space(each, tier, &deferred);
    struct hearth_event event = {.kind = HEARTH_EVENT_CLEAR, .bytes = bytes, .tier = tier};
    cache_note_event(cache, &deferred, &event);
    cache_leave(cache, &deferred);
    for (int level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++) {
        struct tier *slower = cache->tiers[level].tier;
        bool cleared = tier == HEARTH_TIER_COUNT || level == (int)tier;
        if (cleared && slower != NULL && slower->ops->drop_space != NULL)
            slower->ops->drop_space(slower, space != NULL ? &space->key : NULL);
    }
    return bytes;
}

/* How far the path of these tokens was pinned. */
static uint32_t pin_path(struct hearth_space *space, const int32_t *tokens, size_t count)
{
    struct index_match match = index_match(space->index, tokens, count);
    struct node *last = match.nodes_count ? match.path[match.nodes_count - 1] : NULL;

    /* A block that continues after the last token is part of the path. */
    if (match.partial != NULL && match.tokens == count)
        last = match.partial;
    uint32_t end = last ? MIN(node_end(last), match.tokens) : 0;
    return last != NULL && room_pin(space, last, end) ? end : 0;
}

static uint32_t unpin_path(struct hearth_space *space, const int32_t *tokens, size_t count)
{
    struct index_pin *pin = index_find_pin(space->index, tokens, count);
    uint32_t end = pin ? index_pin_end(pin) : 0;

    if (pin != NULL)
        room_unpin(space, pin);
    return end;
}

uint32_t hearth_pin(struct hearth_space *space, const int32_t *tokens, size_t count, bool pin)
{
    struct deferred deferred;
    uint32_t end = 0;

    if (count == 0 || count > CACHE_TOKENS_MAX)
        return 0;
    cache_enter(space->cache, &deferred);
    manage_expire_due(space->cache, &deferred);
    if (!pin)
        end = unpin_path(space, tokens, count);
    else if (room_reserve_pin(space, &deferred))
        end = pin_path(space, tokens, count);
    ledger_account_index(space); /* unpinning removes nodes that are otherwise empty */
    cache_leave(space->cache, &deferred);
    return end;
}

void hearth_set_ram_bytes(struct hearth_cache *cache, uint64_t ram_bytes)
{
    struct deferred deferred;

    cache_enter(cache, &deferred);
    cache->budget.cap = ram_bytes;
    set_books(cache, ram_bytes);
    space_fit_shares(cache);
    room_shrink(cache, &deferred);
    cache_leave(cache, &deferred);
    pages_set_limit(cache->pages, ram_bytes - books_part(cache, ram_bytes));
}
