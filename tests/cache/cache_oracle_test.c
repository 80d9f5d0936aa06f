/*
 * Random operations through the public API against a model without a tree: a list of all that was
 * ever committed, each with the whole string of its tokens. Whatever a plan names must be one of
 * these, still held as far as the model knows, for exactly the tokens of the prompt, and its bytes
 * must be those that were written, from the first fetch to the release (keeps I11, I101). A
 * boundary may not be longer than what the list allows; and where nothing was ever refused, evicted
 * or dropped, it must be exactly that. The counters are compared with our own, and the budget with
 * its cap after every step (keeps I12, I91, I93, I100).
 *
 * Rounds are short and each has a cache of another form: blocks of 1 to 8 tokens, runs, tails,
 * budgets, policies, slower tiers that fail: none, one, or one at each level. Strings are edited
 * copies of one another over two or three tokens, so that branches, tails and ties are everywhere.
 *
 * HEARTH_ORACLE_STEPS=n makes about n steps instead; HEARTH_TEST_SEED repeats a run.
 */
#include <hearth/hearth.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "cache/plan.h"
#include "support/cache_check.h"
#include "support/cache_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum {
    TOKENS_MAX = 40,
    RECORDS_MAX = 400,
    STRINGS = 12,
    SPACES = 5,
    PLANS = 3,
    BYTES_MAX = 9000, /* up to three pages */
    ROUND_STEPS = 1000,
    OBJECTS_MAX = 3 * TOKENS_MAX,
};

#ifdef HEARTH_DEBUG
enum { STEPS = 8000, CHECK_EVERY = 1 };
#else
enum { STEPS = 300000, CHECK_EVERY = 64 };
#endif

struct string {
    int32_t tokens[TOKENS_MAX];
    uint32_t count;
};

/* Something that was committed. `held` is what the model believes: evictions it does not see. */
struct record {
    size_t space;
    enum hearth_object_kind kind;
    uint32_t begin, end, bytes;
    struct string string; /* [0, end) */
    bool held;
};

struct counts {
    uint64_t lookups, hits, misses, partials, looked_up, matched, reused, stores;
};

struct open_plan {
    struct hearth_plan *plan; /* NULL: free */
    size_t space;
    struct string prompt;
    bool peek;
    uint32_t limit;                /* it was lowered to that */
    uint32_t ids[OBJECTS_MAX];     /* records of its objects */
    const void *data[OBJECTS_MAX]; /* NULL: not fetched yet */
};

struct world {
    struct hearth_cache *cache;
    struct hearth_space *spaces[SPACES];
    struct hearth_model models[SPACES];
    uint64_t seed, ram_bytes, cap_max;
    uint32_t block, alphabet;
    /* nothing is refused, evicted, dropped or left out in this round: answers are exact */
    bool complete;
    bool pinned;
    struct tier *slow[HEARTH_TIER_COUNT]; /* borrowed; NULL: none */
    bool any_slow;
    uint32_t holding; /* bits of the tiers that let nothing through */
    struct string strings[STRINGS];
    struct record records[RECORDS_MAX];
    size_t records_count;
    struct open_plan plans[PLANS];
    uint64_t used; /* of the budget, at the last look */
    struct counts counts[SPACES];
};

/* What was seen in all rounds: that nothing is tested in vain. */
struct seen {
    uint64_t steps, rounds, hits, exact, cold, lowered, shortened, refused, exists, evictions,
        demotions, promotions, tier_errors, read[HEARTH_TIER_COUNT];
    uint64_t reused, looked_up;
    uint64_t turned_away; /* lookups, stores without room */
};

static const char *const tenants[SPACES] = {"", "", "anna", "anna", "bert"};

static uint32_t below(struct world *world, uint32_t n)
{
    return (uint32_t)test_random_below(&world->seed, n);
}

/* ---- strings ---- */

static uint32_t common(const struct string *a, const struct string *b)
{
    uint32_t i = 0, end = MIN(a->count, b->count);

    while (i < end && a->tokens[i] == b->tokens[i])
        i++;
    return i;
}

/* A conversation goes on, is edited, cut, or another one begins. */
static struct string *next_string(struct world *world)
{
    struct string *string = &world->strings[below(world, STRINGS)];
    uint32_t from = string->count, count = 1 + below(world, TOKENS_MAX);

    switch (below(world, 8)) {
    case 0: /* a branch of another one */
        *string = world->strings[below(world, STRINGS)];
        from = below(world, string->count + 1);
        break;
    case 1: /* an edit */
        from = below(world, string->count + 1);
        break;
    case 2: /* the same again */
    case 3:
        return string->count > 0 ? string : next_string(world);
    default: /* the next turn */
        count = string->count + 1 + below(world, 2 * world->block);
        break;
    }
    string->count = MIN(MAX(from, count), TOKENS_MAX);
    for (uint32_t i = from; i < string->count; i++)
        string->tokens[i] = (int32_t)below(world, world->alphabet);
    if (string->count == TOKENS_MAX && below(world, 2) == 0)
        string->count = 1 + below(world, TOKENS_MAX);
    return string;
}

/* ---- what the model says ---- */

static bool has_rows(const struct hearth_model *model)
{
    return (model->kinds & HEARTH_KIND_FULL) != 0;
}

static bool needs_snapshot(const struct hearth_model *model)
{
    uint32_t covered = HEARTH_KIND_FULL;

    if (model->captures_sliding)
        covered |= HEARTH_KIND_SLIDING | HEARTH_KIND_CHUNKED;
    return (model->kinds & ~covered) != 0;
}

/* The cached part of a prompt, token by token. */
struct held {
    bool rows[TOKENS_MAX], sliding[TOKENS_MAX], snapshot[TOKENS_MAX + 1];
    uint32_t matched;
};

static struct held held_of(const struct world *world, size_t space, const struct string *prompt)
{
    struct held held = {.matched = 0};

    for (size_t i = 0; i < world->records_count; i++) {
        const struct record *record = &world->records[i];
        if (!record->held || record->space != space)
            continue;
        uint32_t n = common(&record->string, prompt);
        held.matched = MAX(held.matched, n);
        if (record->kind == HEARTH_OBJECT_SNAPSHOT && n == record->end)
            held.snapshot[n] = true;
        for (uint32_t t = record->begin; t < n && record->kind != HEARTH_OBJECT_SNAPSHOT; t++)
            (record->kind == HEARTH_OBJECT_ROWS ? held.rows : held.sliding)[t] = true;
    }
    return held;
}

/* The longest boundary <= limit that the cached objects allow. */
static uint32_t possible(const struct hearth_model *model, const struct held *held, uint32_t limit)
{
    uint32_t rows_end = 0, best = 0;

    while (rows_end < limit && (has_rows(model) ? held->rows[rows_end] : rows_end < held->matched))
        rows_end++;
    for (uint32_t at = 1; at <= rows_end; at++) {
        bool ok = !needs_snapshot(model) || held->snapshot[at];
        for (uint32_t t = at > model->window ? at - model->window : 0;
             model->captures_sliding && t < at; t++)
            ok = ok && held->sliding[t];
        if (ok)
            best = at;
    }
    return best;
}

/* ---- bytes ---- */

static unsigned char byte_of(uint32_t id, uint32_t i)
{
    return (unsigned char)((id * 2654435761u + i * 40503u) >> 11);
}

static void write_bytes(unsigned char *memory, uint32_t id, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        memory[i] = byte_of(id, i);
}

static bool bytes_right(const unsigned char *data, uint32_t id, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(id, i))
            return false;
    return true;
}

/* The shape carries the number of its record and bytes that follow from it. */
static size_t make_shape(unsigned char *shape, uint32_t id)
{
    size_t size = sizeof(id) + id % (HEARTH_SHAPE_BYTES_MAX - sizeof(id) + 1);

    write_bytes(shape, id + 1, (uint32_t)size);
    memcpy(shape, &id, sizeof(id));
    return size;
}

static uint32_t id_of(const struct world *world, const struct hearth_object *object)
{
    unsigned char shape[HEARTH_SHAPE_BYTES_MAX];
    uint32_t id = UINT32_MAX;

    assert_true(object->shape_bytes >= sizeof(id));
    memcpy(&id, object->shape, sizeof(id));
    assert_true(id < world->records_count);
    assert_int_equal(object->shape_bytes, make_shape(shape, id));
    assert_memory_equal(object->shape, shape, object->shape_bytes);
    return id;
}

/* ---- looking up ---- */

/* Where the tokens end that object `index` is used for: at the boundary, or where the next one of
 * its kind begins. A run whose later blocks belong to another branch reaches beyond. */
static uint32_t use_end(const struct hearth_plan_info *info, size_t index)
{
    const struct hearth_object *next =
        index + 1 < info->objects_count ? &info->objects[index + 1] : NULL;

    return next != NULL && next->kind == info->objects[index].kind ? next->begin : info->boundary;
}

/* One object of a new plan is what was stored for the tokens that it is used for. */
static void check_object(struct world *world, struct open_plan *open, size_t index)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);
    const struct hearth_object *object = &info->objects[index];
    uint32_t id = id_of(world, object), end = use_end(info, index);
    const struct record *record = &world->records[id];

    assert_true(record->held && record->space == open->space && record->kind == object->kind);
    assert_true(record->begin == object->begin && record->end == object->end &&
                record->bytes == object->bytes);
    assert_true(object->begin < end && end <= object->end && end <= info->boundary);
    assert_true(common(&record->string, &open->prompt) >= end); /* I101 */
    assert_true(object->tier < HEARTH_TIER_COUNT);              /* I67 */
    open->ids[index] = id;
    open->data[index] = NULL;
}

/* Together the objects are all that the boundary needs, and nothing else. */
static void check_objects(struct world *world, struct open_plan *open)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);
    const struct hearth_model *model = &world->models[open->space];
    size_t counts[HEARTH_OBJECT_SNAPSHOT + 1] = {0};

    assert_true(info->objects_count <= OBJECTS_MAX);
    for (size_t i = 0; i < info->objects_count; i++) {
        const struct hearth_object *object = &info->objects[i];
        check_object(world, open, i);
        if (object->kind == HEARTH_OBJECT_ROWS)
            assert_int_equal(counts[HEARTH_OBJECT_ROWS] == 0, object->begin == 0);
        if (object->kind == HEARTH_OBJECT_SNAPSHOT)
            assert_int_equal(object->end, info->boundary);
        if (object->kind == HEARTH_OBJECT_SLIDING && counts[HEARTH_OBJECT_SLIDING] == 0)
            assert_true(object->begin <= info->boundary - MIN(model->window, info->boundary));
        counts[object->kind]++;
    }
    bool any = info->boundary > 0;
    assert_int_equal(counts[HEARTH_OBJECT_ROWS] > 0, any && has_rows(model));
    assert_int_equal(counts[HEARTH_OBJECT_SLIDING] > 0, any && model->captures_sliding);
    assert_int_equal(counts[HEARTH_OBJECT_SNAPSHOT], any && needs_snapshot(model));
}

static void check_plan(struct world *world, struct open_plan *open, struct seen *seen)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);
    struct held held = held_of(world, open->space, &open->prompt);
    uint32_t count = open->prompt.count, limit = MIN(count - 1, open->limit);
    uint32_t best = possible(&world->models[open->space], &held, limit);

    assert_true(info->boundary <= limit); /* I12 */
    assert_true(info->boundary <= best);
    assert_true(info->boundary <= info->matched && info->matched <= count);
    assert_int_equal(info->first_difference, info->matched);
    assert_true(info->reason < HEARTH_REASON_COUNT);
    assert_true((info->match == HEARTH_MATCH_NONE) == (info->boundary == 0));
    assert_true(info->junction < count);
    if (world->complete && !world->models[open->space].captures_sliding) {
        assert_int_equal(info->boundary, best);
        assert_int_equal(info->matched, held.matched);
        seen->exact += best > 0;
    } else if (info->boundary < count - 1 && open->limit >= count) {
        assert_int_not_equal(info->reason, HEARTH_REASON_NONE); /* I104 */
    }
    check_objects(world, open);
    seen->cold += info->boundary == 0;
}

/* The largest request: a plan for TOKENS_MAX tokens in blocks of one token, with sliding rows. As
 * plan_bytes_max in lookup.c, and the tokens. */
static uint64_t request_bytes_max(void)
{
    const uint64_t objects = 2 * (2 * (TOKENS_MAX + 1) + 1);

    return sizeof(struct hearth_plan) +
           objects * (sizeof(struct object *) + sizeof(struct hearth_object)) +
           TOKENS_MAX * sizeof(int32_t);
}

/* Whether there was no room for a plan or a store, which may be: books of what is leased
 * or pinned fill their part. */
static bool turned_away(const struct world *world, int error, struct seen *seen)
{
    if (error == HEARTH_OK)
        return false;
    assert_int_equal(error, HEARTH_ERROR_MEMORY);
    assert_false(world->complete);
    lock_enter(&world->cache->lock);
    uint64_t available = budget_available(&world->cache->meta_budget, &world->cache->requests);
    lock_leave(&world->cache->lock);
    assert_true(available < request_bytes_max());
    seen->turned_away++;
    return true;
}

static void look_up(struct world *world, struct open_plan *open, struct seen *seen)
{
    size_t space = below(world, SPACES);
    struct counts *counts = &world->counts[space];

    *open = (struct open_plan){.space = space, .prompt = *next_string(world), .limit = UINT32_MAX};
    open->peek = below(world, 8) == 0;
    int error = hearth_lookup(world->spaces[space], open->prompt.tokens, open->prompt.count,
                              open->peek ? &kit_peeking : NULL, &open->plan);
    if (turned_away(world, error, seen))
        return;
    check_plan(world, open, seen);
    if (!open->peek) {
        counts->lookups++;
        counts->looked_up += open->prompt.count;
        counts->matched += hearth_plan_info(open->plan)->matched;
        seen->looked_up += open->prompt.count;
    }
}

static void shorten(struct world *world, struct open_plan *open, size_t index,
                    enum hearth_reason why, struct seen *seen)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);
    uint32_t id = open->ids[index], boundary = info->boundary;
    uint32_t rows_begin =
        info->objects[index].kind == HEARTH_OBJECT_ROWS ? info->objects[index].begin : boundary - 1;

    if (why != HEARTH_REASON_TIMEOUT && why != HEARTH_REASON_TIER_ERROR)
        world->records[id].held = false;
    hearth_plan_shorten(open->plan, index, why);
    open->limit = MIN(open->limit, MIN(boundary - 1, rows_begin));
    check_plan(world, open, seen);
    seen->shortened++;
}

/* Fetches and compares; false when the object was not to be had, and the plan is shorter now. */
static bool fetch(struct world *world, struct open_plan *open, size_t index, struct seen *seen)
{
    uint32_t id = open->ids[index];
    int error = hearth_plan_fetch(open->plan, index, world->holding ? 0 : 1000, &open->data[index]);

    if (error == HEARTH_OK) {
        if (!bytes_right(open->data[index], id, world->records[id].bytes))
            fail_msg("other bytes than were stored for record %" PRIu32, id);
        return true;
    }
    assert_true(world->any_slow && open->data[index] == NULL);
    assert_true(error == HEARTH_ERROR_MISSING || error == HEARTH_ERROR_TIMEOUT);
    shorten(world, open, index,
            error == HEARTH_ERROR_TIMEOUT ? HEARTH_REASON_TIMEOUT : HEARTH_REASON_TIER_ERROR, seen);
    return false;
}

static void accept(struct world *world, struct open_plan *open, struct seen *seen)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);
    struct counts *counts = &world->counts[open->space];

    hearth_plan_accept(open->plan);
    if (open->peek)
        return;
    counts->hits += info->boundary > 0;
    counts->misses += info->boundary == 0;
    counts->partials +=
        info->boundary > 0 && info->boundary < MIN(info->matched, open->prompt.count - 1);
    counts->reused += info->boundary;
    seen->hits += info->boundary > 0;
    seen->reused += info->boundary;
}

/* The bytes are still the same, whatever happened to the objects since they were fetched. */
static void finish_plan(struct world *world, struct open_plan *open, bool use, struct seen *seen)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);

    if (below(world, 2) == 0)
        hearth_plan_prefetch(open->plan);
    for (size_t i = 0; use && i < info->objects_count;)
        i = fetch(world, open, i, seen) ? i + 1 : 0;
    if (use)
        accept(world, open, seen);
    else
        world->counts[open->space].misses += !open->peek;
    for (size_t i = 0; i < info->objects_count; i++)
        if (open->data[i] != NULL)
            assert_true(
                bytes_right(open->data[i], open->ids[i], world->records[open->ids[i]].bytes));
    hearth_plan_release(&open->plan);
    assert_null(open->plan);
}

/* A plan that is short enough stays as it is, although more may be held by now. */
static void lower(struct world *world, struct open_plan *open, uint32_t limit, struct seen *seen)
{
    uint32_t boundary = hearth_plan_info(open->plan)->boundary;

    hearth_plan_lower(open->plan, limit);
    if (limit >= boundary) {
        assert_int_equal(hearth_plan_info(open->plan)->boundary, boundary);
        return;
    }
    open->limit = limit;
    check_plan(world, open, seen);
    seen->lowered++;
}

static void use_plan(struct world *world, struct open_plan *open, struct seen *seen)
{
    const struct hearth_plan_info *info = hearth_plan_info(open->plan);
    static const enum hearth_reason reasons[] = {HEARTH_REASON_UNVERIFIED, HEARTH_REASON_REFUSED,
                                                 HEARTH_REASON_TIER_ERROR, HEARTH_REASON_TIMEOUT};
    uint32_t what = below(world, 8);

    if (what == 0) {
        lower(world, open, below(world, open->prompt.count), seen);
    } else if (what == 1 && !world->complete && info->objects_count > 0) {
        shorten(world, open, below(world, (uint32_t)info->objects_count),
                reasons[below(world, COUNT_OF(reasons))], seen);
    } else if (what == 2 && info->objects_count > 0) {
        fetch(world, open, below(world, (uint32_t)info->objects_count), seen);
    } else {
        finish_plan(world, open, what < 7, seen);
    }
}

/* ---- storing ---- */

/* A plan keeps what it has leased, also when that has left the index since. */
static bool is_leased(const struct world *world, size_t id)
{
    for (size_t i = 0; i < PLANS; i++) {
        const struct open_plan *open = &world->plans[i];
        size_t count = open->plan != NULL ? hearth_plan_info(open->plan)->objects_count : 0;
        for (size_t n = 0; n < count; n++)
            if (open->ids[n] == id)
                return true;
    }
    return false;
}

static void add_record(struct world *world, const struct record *record)
{
    struct record *list = world->records;

    for (size_t i = 0; i < world->records_count; i++)
        if (list[i].space == record->space && list[i].kind == record->kind &&
            list[i].begin == record->begin && list[i].end == record->end &&
            common(&list[i].string, &record->string) == record->end && !is_leased(world, i))
            list[i].held = false; /* it was gone, or this could not have been stored */
    list[world->records_count++] = *record;
}

/* One object, with bytes that follow from its record's number. */
static void put(struct world *world, struct hearth_store *store, struct record *record,
                struct seen *seen)
{
    uint32_t id = (uint32_t)world->records_count,
             spare = below(world, 4) == 0 ? below(world, BYTES_MAX) : 0;
    unsigned char shape[HEARTH_SHAPE_BYTES_MAX];
    void *memory;

    if (id == RECORDS_MAX)
        return;
    record->bytes = 1 + below(world, below(world, 10) == 0 ? BYTES_MAX : 64);
    int error = hearth_store_reserve(store, record->kind, record->begin, record->end,
                                     record->bytes + spare, &memory);
    if (error != HEARTH_OK) {
        assert_true(error == HEARTH_ERROR_EXISTS || !world->complete);
        assert_true(error == HEARTH_ERROR_EXISTS || error == HEARTH_ERROR_MEMORY ||
                    error == HEARTH_ERROR_REFUSED);
        seen->refused += error != HEARTH_ERROR_EXISTS;
        seen->exists += error == HEARTH_ERROR_EXISTS;
        return;
    }
    write_bytes(memory, id, record->bytes);
    if (!world->complete && below(world, 20) == 0) {
        hearth_store_cancel(store);
        return;
    }
    error = hearth_store_commit(store, record->bytes, shape, make_shape(shape, id));
    if (error == HEARTH_OK) {
        world->counts[record->space].stores++;
        record->held = true;
        record->string.count = record->end;
        add_record(world, record);
    } else {
        assert_true(error == HEARTH_ERROR_EXISTS ||
                    (error == HEARTH_ERROR_MEMORY && !world->complete));
        seen->exists += error == HEARTH_ERROR_EXISTS;
        seen->refused += error == HEARTH_ERROR_MEMORY;
    }
}

static void store_rows(struct world *world, struct hearth_store *store, const struct record *like,
                       struct seen *seen)
{
    const struct hearth_model *model = &world->models[like->space];
    struct record record = *like;
    uint32_t from = 0;

    while (hearth_store_next(store, &record.begin, &record.end)) {
        assert_true(has_rows(model) && record.begin >= from && record.begin < record.end);
        assert_true(record.end <= like->string.count && record.begin % world->block == 0);
        from = record.end;
        record.kind = HEARTH_OBJECT_ROWS;
        record.string = like->string;
        put(world, store, &record, seen);
    }
    for (record.begin = 0; model->captures_sliding && record.begin < like->string.count;
         record.begin = record.end) {
        record.end = MIN(record.begin + world->block, like->string.count);
        record.kind = HEARTH_OBJECT_SLIDING;
        record.string = like->string;
        put(world, store, &record, seen);
    }
}

static void store_snapshots(struct world *world, struct hearth_store *store,
                            const struct record *like, struct seen *seen)
{
    const struct hearth_model *model = &world->models[like->space];

    for (uint32_t i = below(world, 4); i > 0; i--) {
        uint32_t at = 1 + below(world, like->string.count);
        bool wants = hearth_store_wants_snapshot(store, at);
        struct record record = *like;
        if (world->complete && needs_snapshot(model))
            assert_int_equal(wants, !held_of(world, like->space, &like->string).snapshot[at]);
        assert_true(!wants || needs_snapshot(model));
        record.kind = HEARTH_OBJECT_SNAPSHOT;
        record.end = at;
        if (wants)
            put(world, store, &record, seen);
    }
}

/* Whatever range comes to mind: right ones are stored, wrong ones refused. */
static void store_anything(struct world *world, struct hearth_store *store,
                           const struct record *like, struct seen *seen)
{
    struct record record = *like;
    uint32_t count = like->string.count, block = world->block;
    void *memory;

    record.kind = (enum hearth_object_kind)(1 + below(world, 3));
    record.begin = below(world, count + 1);
    record.end = below(world, count + 2);
    bool rows =
        record.begin < record.end && record.begin % block == 0 && record.end <= count &&
        (record.end % block == 0 || (record.end == count && record.end - record.begin < block));
    bool snapshot = record.begin == 0 && record.end > 0 && record.end <= count;
    if (record.kind == HEARTH_OBJECT_SNAPSHOT ? snapshot : rows)
        put(world, store, &record, seen);
    else
        assert_int_equal(
            hearth_store_reserve(store, record.kind, record.begin, record.end, 8, &memory),
            HEARTH_ERROR_INVALID);
}

static void store(struct world *world, struct seen *seen)
{
    struct record like = {.space = below(world, SPACES), .string = *next_string(world)};
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints),
        .entry = (enum hearth_entry)below(world, 3),
        .anchor = below(world, 3) == 0 ? below(world, like.string.count) : 0,
        .ttl_s = below(world, 8) == 0 ? 100 : 0,
        .no_disk = below(world, 8) == 0,
    };
    struct hearth_store *open;

    int error = hearth_store_open(world->spaces[like.space], like.string.tokens, like.string.count,
                                  &hints, &open);
    if (turned_away(world, error, seen))
        return;
    if (!world->complete && below(world, 4) == 0)
        store_anything(world, open, &like, seen);
    if (world->complete || below(world, 4) != 0)
        store_rows(world, open, &like, seen);
    store_snapshots(world, open, &like, seen);
    hearth_store_close(&open);
    assert_null(open);
}

/* ---- everything else ---- */

static void clear(struct world *world)
{
    size_t space = below(world, SPACES);
    bool all = below(world, 4) == 0;
    enum hearth_tier tier = world->complete
                                ? HEARTH_TIER_COUNT
                                : (enum hearth_tier)MIN(below(world, HEARTH_TIER_COUNT + 2),
                                                        (uint32_t)HEARTH_TIER_COUNT);

    hearth_clear(world->cache, all ? NULL : world->spaces[space], tier);
    if (all && tier == HEARTH_TIER_COUNT)
        world->pinned = false;
    for (size_t i = 0; i < world->records_count && tier == HEARTH_TIER_COUNT; i++)
        if (all || world->records[i].space == space)
            world->records[i].held = false;
}

static void pin(struct world *world)
{
    const struct string *string = next_string(world);
    bool on = below(world, 2) == 0;

    if (world->complete)
        return; /* a pinned node outlives what hung on it, and is matched */
    assert_true(hearth_pin(world->spaces[below(world, SPACES)], string->tokens, string->count,
                           on) <= string->count);
    world->pinned = world->pinned || on;
}

/* What it holds stays. One that holds nothing may go, and find no room when it comes back. */
static void reopen_space(struct world *world)
{
    size_t i = below(world, SPACES);
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    for (size_t p = 0; p < PLANS; p++)
        if (world->plans[p].plan != NULL && world->plans[p].space == i)
            return;
    hearth_get_stats(world->cache, world->spaces[i], &stats);
    if (stats.objects == 0)
        return;
    struct hearth_space *before = world->spaces[i];
    hearth_space_close(&world->spaces[i]);
    assert_null(world->spaces[i]);
    assert_int_equal(
        hearth_space_open(world->cache, &world->models[i], tenants[i], 0, &world->spaces[i]),
        HEARTH_OK);
    assert_ptr_equal(world->spaces[i], before);
}

static void disturb_tier(struct world *world)
{
    static const enum tier_fault_kind kinds[] = {TIER_FAULT_PUT_REFUSE, TIER_FAULT_PUT_FAIL,
                                                 TIER_FAULT_PUT_CORRUPT, TIER_FAULT_PUT_SHORTEN,
                                                 TIER_FAULT_GET_FAIL};
    static const enum tier_result results[] = {TIER_ERROR, TIER_TIMEOUT, TIER_CANCELLED};

    uint32_t level = below(world, HEARTH_TIER_COUNT);
    struct tier *slow = world->slow[level];

    if (slow == NULL)
        return;
    if (below(world, 3) == 0) {
        world->holding ^= 1u << level;
        tier_fault_hold(slow, (world->holding & 1u << level) != 0);
        return;
    }
    tier_fault_set_result(slow, results[below(world, COUNT_OF(results))]);
    fault_arm(tier_fault_of(slow, kinds[below(world, COUNT_OF(kinds))]), 1 + below(world, 4),
              false);
}

static void resize(struct world *world)
{
    if (world->complete)
        return;
    uint64_t bytes = world->ram_bytes / 2 + below(world, (uint32_t)world->ram_bytes);
    hearth_set_ram_bytes(world->cache, bytes);
    world->cap_max = MAX(world->cap_max, bytes);
}

static void step(struct world *world, struct seen *seen)
{
    struct open_plan *open = &world->plans[below(world, PLANS)];
    uint32_t what = below(world, 400);

    if (what < 220 && open->plan == NULL)
        look_up(world, open, seen);
    else if (what < 220)
        use_plan(world, open, seen);
    else if (what < 360)
        store(world, seen);
    else if (what < 362)
        clear(world);
    else if (what < 366)
        pin(world);
    else if (what < 370)
        reopen_space(world);
    else if (what < 384)
        resize(world);
    else
        disturb_tier(world);
}

/* ---- checking the whole ---- */

static void check_counts(const struct world *world, size_t space)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    const struct counts *counts = &world->counts[space];
    uint64_t open = 0, reasons = 0, tiers = 0;

    for (size_t i = 0; i < PLANS; i++)
        open +=
            world->plans[i].plan != NULL && world->plans[i].space == space && !world->plans[i].peek;
    hearth_get_stats(world->cache, world->spaces[space], &stats);
    assert_int_equal(stats.lookups, counts->lookups);
    assert_int_equal(stats.hits, counts->hits); /* I91 */
    assert_int_equal(stats.misses, counts->misses);
    assert_int_equal(stats.hits + stats.misses + open, stats.lookups);
    assert_int_equal(stats.partials, counts->partials);
    assert_int_equal(stats.tokens_looked_up, counts->looked_up);
    assert_int_equal(stats.tokens_matched, counts->matched);
    assert_int_equal(stats.tokens_reused, counts->reused);
    assert_int_equal(stats.stores, counts->stores);
    for (size_t i = 0; i < HEARTH_REASON_COUNT; i++)
        reasons += stats.miss_by_reason[i];
    for (size_t i = 0; i < HEARTH_TIER_COUNT; i++)
        tiers += stats.tokens_reused_by_tier[i];
    assert_int_equal(reasons, stats.misses);
    assert_int_equal(tiers, stats.tokens_reused);
}

static struct budget budget_of(const struct world *world)
{
    lock_enter(&world->cache->lock);
    struct budget budget = world->cache->budget;
    lock_leave(&world->cache->lock);
    return budget;
}

/* The cap may be exceeded only because it was lowered below the leased, pinned or moving bytes,
 * and never by more than before. */
static void check_budget(struct world *world)
{
    struct budget budget = budget_of(world);
    uint64_t used = budget.used, cap = budget.cap;
    bool excused = world->pinned || world->holding;

    for (size_t i = 0; i < PLANS; i++)
        excused = excused || world->plans[i].plan != NULL;
    if (used > cap && (!excused || used > world->used))
        fail_msg("%" PRIu64 " of %" PRIu64 " bytes in use, %" PRIu64 " before", used, cap,
                 world->used);
    world->used = used;
    assert_true(pages_bytes_used(world->cache->pages) <= used);
}

static void check(struct world *world)
{
    struct hearth_stats all = {.struct_size = sizeof(all)};

    hearth_get_stats(world->cache, NULL, &all);
    assert_true(all.bytes_by_tier[HEARTH_TIER_RAM] + all.bytes_index <= all.bytes_budget);
    assert_true(all.bytes_memory <= world->cap_max); /* gaps included (I93) */
    for (size_t i = 0; i < SPACES; i++) {
        check_counts(world, i);
        index_check(world->spaces[i]->index);
    }
    cache_check(world->cache);
}

/* ---- rounds ---- */

static void open_spaces(struct world *world)
{
    static const uint32_t kinds[] = {
        HEARTH_KIND_FULL,      HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
        HEARTH_KIND_RECURRENT, HEARTH_KIND_FULL | HEARTH_KIND_SLIDING,
        HEARTH_KIND_SLIDING,   HEARTH_KIND_FULL | HEARTH_KIND_CHUNKED | HEARTH_KIND_RECURRENT,
    };

    for (size_t i = 0; i < SPACES; i++) {
        struct hearth_model *model = &world->models[i];
        *model = (struct hearth_model){.struct_size = sizeof(*model),
                                       .window = 1 + below(world, 2 * world->block)};
        model->kinds = i == 1 ? world->models[0].kinds : kinds[below(world, COUNT_OF(kinds))];
        model->captures_sliding = (model->kinds & HEARTH_KIND_SLIDING) != 0 && below(world, 2) == 0;
        model->fingerprint[0] = (unsigned char)(i % 2); /* two models of each tenant */
        assert_int_equal(hearth_space_open(world->cache, model, tenants[i], 0, &world->spaces[i]),
                         HEARTH_OK);
    }
}

static void open_world(struct world *world, uint64_t seed)
{
    static const char *const policies[] = {NULL, "lru-tail", "saving-per-byte"};

    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->complete = below(world, 4) == 0;
    world->block = 1 + below(world, 8);
    world->alphabet = 2 + below(world, 2);
    world->ram_bytes = world->complete ? 64 << 20 : (128 << 10) + below(world, 512 << 10);
    struct hearth_options options = {
        .struct_size = sizeof(options),
        .ram_bytes = world->ram_bytes,
        .block_tokens = world->block,
        .run_tokens = 1 + below(world, 4 * world->block),
        .tail_bytes = world->complete
                          ? UINT64_MAX - 1
                          : (uint64_t[]){0, 1, 2 * PAGES_PAGE_BYTES, UINT64_MAX}[below(world, 4)],
        .policy = policies[below(world, COUNT_OF(policies))],
    };
    world->cap_max = world->ram_bytes;
    assert_int_equal(hearth_open(&world->cache, &options, NULL), HEARTH_OK);
    for (int level = HEARTH_TIER_SSD; level < HEARTH_TIER_COUNT; level++) {
        struct tier_ram_options ram = {.bytes_max = (64 << 10) + below(world, 4 << 20)};
        if (world->complete || below(world, 2) == 0)
            continue;
        struct tier_fault_options fault = {.inner = tier_ram_open(&ram)};
        world->slow[level] = tier_fault_open(&fault);
        world->any_slow = true;
        cache_attach_tier(world->cache, (enum hearth_tier)level, world->slow[level], 0);
    }
    open_spaces(world);
}

static void close_world(struct world *world, struct seen *seen)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        if (world->holding & 1u << level)
            tier_fault_hold(world->slow[level], false);
    world->holding = 0;
    for (size_t i = 0; i < PLANS; i++)
        if (world->plans[i].plan != NULL)
            finish_plan(world, &world->plans[i], true, seen);
    check_budget(world);
    check(world);
    hearth_get_stats(world->cache, NULL, &stats);
    seen->evictions += stats.evictions;
    seen->demotions += stats.demotions;
    seen->promotions += stats.promotions;
    seen->tier_errors += stats.tier_errors;
    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        seen->read[level] += stats.bytes_read_by_tier[level];
    hearth_clear(world->cache, NULL, HEARTH_TIER_COUNT);
    hearth_get_stats(world->cache, NULL, &stats);
    assert_int_equal(stats.objects, 0);
    assert_int_equal(stats.nodes, 0);
    for (int level = 0; level < HEARTH_TIER_COUNT; level++) {
        struct tier_stats left = {0};
        assert_int_equal(stats.bytes_by_tier[level], 0);
        if (world->slow[level] != NULL)
            world->slow[level]->ops->stats(world->slow[level], &left);
        assert_int_equal(left.objects, 0); /* nothing is there that the index does not know */
    }
    for (size_t i = 0; i < SPACES; i++)
        hearth_space_close(&world->spaces[i]);
    hearth_close(&world->cache); /* aborts when a byte is left in the ledger */
}

static void run_round(struct world *world, uint64_t seed, struct seen *seen)
{
    open_world(world, seed);
    world->used = budget_of(world).used;
    for (int i = 0; i < ROUND_STEPS && world->records_count < RECORDS_MAX; i++) {
        step(world, seen);
        check_budget(world);
        if (i % CHECK_EVERY == 0)
            check(world);
        seen->steps++;
    }
    close_world(world, seen);
    seen->rounds++;
}

static void test_i11_i91_i93_i100_i101_random_operations(void **state)
{
    const char *text = getenv("HEARTH_ORACLE_STEPS"), *one = getenv("HEARTH_ORACLE_ROUND");
    uint64_t steps = text ? strtoull(text, NULL, 10) : STEPS, seed = test_seed();
    struct world *world = mem_alloc(sizeof(*world));
    struct seen seen = {0};

    (void)state;
    if (one != NULL) {
        run_round(world, strtoull(one, NULL, 0), &seen);
        steps = 0;
    }
    while (seen.steps < steps) {
        uint64_t round = test_random(&seed);
        if (getenv("HEARTH_ORACLE_TRACE"))
            fprintf(stderr, "round %" PRIu64 "\n", round);
        run_round(world, round, &seen);
    }
    print_message("%" PRIu64 " steps in %" PRIu64 " rounds: %" PRIu64 " hits (%" PRIu64
                  " exact), %" PRIu64 " cold, %" PRIu64 " of %" PRIu64 " tokens reused\n",
                  seen.steps, seen.rounds, seen.hits, seen.exact, seen.cold, seen.reused,
                  seen.looked_up);
    print_message("%" PRIu64 " evictions, %" PRIu64 " demotions, %" PRIu64 " promotions, %" PRIu64
                  " tier errors, %" PRIu64 " refused, %" PRIu64 " existed, %" PRIu64
                  " lowered, %" PRIu64 " shortened\n",
                  seen.evictions, seen.demotions, seen.promotions, seen.tier_errors, seen.refused,
                  seen.exists, seen.lowered, seen.shortened);
    print_message("%" PRIu64 " turned away\n", seen.turned_away);
    if (one == NULL) {
        assert_true(seen.turned_away < seen.steps / 20);
        assert_true(seen.hits > 0 && seen.exact > 0 && seen.lowered > 0 && seen.shortened > 0);
        assert_true(seen.evictions > 0 && seen.demotions > 0 && seen.promotions > 0 &&
                    seen.tier_errors > 0);
        for (int level = 0; level < HEARTH_TIER_COUNT; level++)
            assert_true(seen.read[level] > 0);
    }
    mem_free(world);
}

/* One long prompt, ten times what memory holds, with a slower tier that has room for all:
 * nothing is forgotten. Children that are only in the slower tier are no reason to keep an
 * object in memory, and even less to forget either. */
static void test_what_is_in_the_slow_tier_is_not_forgotten_for_memory(void **state)
{
    enum { RUNS = 200, RUN = 4, COUNT = RUNS * RUN };
    struct hearth_options options = {.struct_size = sizeof(options),
                                     .ram_bytes = 512 << 10,
                                     .block_tokens = RUN,
                                     .run_tokens = RUN};
    struct hearth_model model = {.struct_size = sizeof(model), .kinds = HEARTH_KIND_FULL};
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct tier_ram_options ram = {.bytes_max = 64 << 20};
    struct hearth_cache *cache;
    struct hearth_space *space;
    struct hearth_store *open;
    struct hearth_plan *plan;
    int32_t tokens[COUNT];
    uint32_t begin, end;
    void *memory;

    (void)state;
    for (int i = 0; i < COUNT; i++)
        tokens[i] = i % 7;
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    cache_attach_tier(cache, HEARTH_TIER_SSD, tier_ram_open(&ram), 0);
    assert_int_equal(hearth_space_open(cache, &model, "", 0, &space), HEARTH_OK);
    for (uint32_t count = RUN; count <= COUNT; count += RUN) { /* a conversation that grows */
        assert_int_equal(hearth_store_open(space, tokens, count, NULL, &open), HEARTH_OK);
        while (hearth_store_next(open, &begin, &end)) {
            assert_int_equal(
                hearth_store_reserve(open, HEARTH_OBJECT_ROWS, begin, end, 16 << 10, &memory),
                HEARTH_OK);
            write_bytes(memory, end, 16 << 10);
            assert_int_equal(hearth_store_commit(open, 16 << 10, "", 0), HEARTH_OK);
        }
        hearth_store_close(&open);
    }
    assert_int_equal(hearth_lookup(space, tokens, COUNT, NULL, &plan), HEARTH_OK);
    assert_int_equal(hearth_plan_info(plan)->boundary, COUNT - 1);
    hearth_plan_release(&plan);
    hearth_get_stats(cache, space, &stats);
    assert_int_equal(stats.evictions, 0);
    assert_true(stats.demotions > RUNS / 2);
    hearth_space_close(&space);
    hearth_close(&cache);
}

TEST_SUITE(TEST(test_i11_i91_i93_i100_i101_random_operations),
           TEST(test_what_is_in_the_slow_tier_is_not_forgotten_for_memory))
