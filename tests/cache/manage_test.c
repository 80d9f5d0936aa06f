/* Single objects by their key: found, pinned, evicted, forgotten at a time; against a naive model
 * that knows the tokens of everything. */
#include <hearth/hearth.h>

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20, PROMPTS = 24, TOKENS = 160, SEEN_MAX = 512 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* ---- the list of cached objects ---- */

struct one {
    enum hearth_object_kind kind;
    uint32_t begin, end, tiers;
    int32_t last; /* its last token, which says whose it is */
    double age_s, expires_s;
    bool pinned;
    unsigned char key[HEARTH_KEY_BYTES];
};

struct held {
    struct one ones[SEEN_MAX];
    size_t count;
};

static bool note(const struct hearth_held *held, void *arg)
{
    struct held *all = arg;
    struct one *one = &all->ones[all->count++];

    assert_true(all->count < SEEN_MAX);
    *one = (struct one){.kind = held->kind,
                        .begin = held->begin,
                        .end = held->end,
                        .tiers = held->tiers,
                        .last = held->tokens_count ? held->tokens[held->tokens_count - 1] : -1,
                        .age_s = held->age_s,
                        .expires_s = held->expires_s,
                        .pinned = held->pinned};
    memcpy(one->key, held->key, HEARTH_KEY_BYTES);
    return true;
}

static void list(const struct kit *kit, struct held *held)
{
    held->count = 0;
    hearth_each(kit->cache, NULL, HEARTH_EACH_TOKENS, note, held);
}

static bool same(const struct one *a, const struct one *b)
{
    return a->kind == b->kind && a->begin == b->begin && a->end == b->end && a->last == b->last;
}

static const struct one *find_end(const struct held *held, enum hearth_object_kind kind,
                                  uint32_t end)
{
    for (size_t i = 0; i < held->count; i++)
        if (held->ones[i].kind == kind && held->ones[i].end == end)
            return &held->ones[i];
    fail_msg("nothing of kind %d ends at %u", kind, end);
    return NULL;
}

/* The key of the block that ends there. */
static void key_at(const struct kit *kit, enum hearth_object_kind kind, uint32_t end,
                   unsigned char key[HEARTH_KEY_BYTES])
{
    struct held *held = mem_alloc(sizeof(*held));

    list(kit, held);
    memcpy(key, find_end(held, kind, end)->key, HEARTH_KEY_BYTES);
    mem_free(held);
}

/* ---- one thing after another ---- */

static bool count_found(const struct hearth_held *held, void *arg)
{
    ++*(size_t *)arg;
    return held != NULL;
}

static void test_find_shows_what_has_the_key_and_nothing_else(void **state)
{
    static const unsigned char unknown[HEARTH_KEY_BYTES] = {1};
    struct held *found = mem_alloc(sizeof(*found));
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[100], other[16] = {5};
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, 100, 1);
    for (int i = 0; i < 600; i++, other[0]++) /* more than one look under the lock */
        kit_store(&kit, other, 16, NULL);
    kit_store(&kit, tokens, 100, NULL); /* [0, 64), [64, 96), [96, 100) */
    kit_snapshot(&kit, tokens, 100, 99);
    kit_snapshot(&kit, tokens, 100, 97);
    size_t all = 0;
    assert_int_equal(hearth_each(kit.cache, NULL, 0, count_found, &all), 605);
    /* Rows and snapshots of the last block share a key. */
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_block blocks[8];
    assert_int_equal(hearth_probe(kit.space, tokens, 100, &probe, blocks, 8), HEARTH_OK);
    assert_int_equal(probe.blocks_count, 7);
    memcpy(key, blocks[6].key, sizeof(key));
    found->count = 0;
    assert_int_equal(hearth_find(kit.cache, key, HEARTH_EACH_TOKENS, note, found), 3);
    assert_int_equal(found->ones[0].kind, HEARTH_OBJECT_ROWS);
    assert_int_equal(found->ones[1].end, 99);
    assert_int_equal(found->ones[2].end, 97);
    assert_int_equal(hearth_find(kit.cache, unknown, 0, note, found), 0);
    mem_free(found);
    kit_close(&kit);
}

static void test_pin_by_key_holds_the_path(void **state)
{
    static const unsigned char unknown[HEARTH_KEY_BYTES] = {1};
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[100];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    key_at(&kit, HEARTH_OBJECT_ROWS, 96, key);
    assert_int_equal(hearth_pin_key(kit.cache, unknown, true), 0);
    assert_int_equal(hearth_pin_key(kit.cache, key, true), 96);
    kit_check(&kit);
    struct held *held = mem_alloc(sizeof(*held));
    list(&kit, held);
    for (size_t i = 0; i < held->count; i++)
        assert_int_equal(held->ones[i].pinned, held->ones[i].end <= 96);
    assert_int_equal(hearth_evict_key(kit.cache, key, NULL), HEARTH_ERROR_REFUSED);
    hearth_evict_older(kit.cache, NULL, 0, NULL);
    assert_int_equal(kit_peek(&kit, tokens, 100).boundary, 96);
    /* It is also the pin of these tokens: counted, and undone by either. */
    assert_int_equal(hearth_pin(kit.space, tokens, 96, true), 96);
    assert_int_equal(hearth_pin_key(kit.cache, key, false), 96);
    assert_int_equal(hearth_pin(kit.space, tokens, 96, false), 96);
    assert_int_equal(hearth_pin_key(kit.cache, key, false), 0);
    struct hearth_sum sum;
    assert_int_equal(hearth_evict_key(kit.cache, key, &sum), HEARTH_OK);
    assert_int_equal(sum.objects, 1);
    assert_int_equal(sum.bytes, 32 * 64);
    kit_check(&kit);
    mem_free(held);
    kit_close(&kit);
}

/* I11: a reader with a lease keeps its bytes, and lookups no longer find them. */
static void test_i11_evicting_what_is_read(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[100];
    struct hearth_event events[8];
    const void *data;
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    key_at(&kit, HEARTH_OBJECT_ROWS, 64, key);
    struct hearth_plan *plan = kit_lookup(&kit, tokens, 100);
    const struct hearth_plan_info *info = hearth_plan_info(plan);
    assert_int_equal(info->objects_count, 3);
    size_t before = hearth_events_read(kit.cache, 0, events, 8);
    struct hearth_sum sum;
    assert_int_equal(hearth_evict_key(kit.cache, key, &sum), HEARTH_OK);
    assert_int_equal(sum.objects, 3); /* objects after it are useless without it */
    assert_int_equal(sum.bytes, 100 * 64);
    assert_int_equal(hearth_events_read(kit.cache, before, events, 8), 3);
    assert_int_equal(events[0].kind, HEARTH_EVENT_EVICT);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(hearth_plan_fetch(plan, i, 0, &data), HEARTH_OK);
        kit_expect(&kit, &info->objects[i], data, tokens, 100);
    }
    assert_int_equal(kit_peek(&kit, tokens, 100).matched, 0);
    assert_int_equal(kit_peek(&kit, tokens, 100).reason, HEARTH_REASON_EVICTED);
    assert_int_equal(hearth_evict_key(kit.cache, key, &sum), HEARTH_ERROR_MISSING);
    hearth_plan_release(&plan);
    kit_check(&kit);
    assert_int_equal(kit_stats(&kit).objects, 0);
    kit_close(&kit);
}

/* Branches from the middle of a run need the run: they are evicted together. */
static void test_evicting_a_run_takes_the_branches_from_its_middle(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[64], branch[64];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 64);
    kit_tokens(branch, 64, 2);
    memcpy(branch, tokens, 16 * sizeof(*tokens));
    kit_store(&kit, branch, 64, NULL);
    assert_int_equal(kit_stats(&kit).objects, 2);
    struct held *held = mem_alloc(sizeof(*held));
    list(&kit, held);
    memcpy(key, held->ones[1].key, sizeof(key)); /* of the branch: it alone */
    assert_int_equal(held->ones[1].begin, 16);
    struct hearth_sum sum;
    assert_int_equal(hearth_evict_key(kit.cache, key, &sum), HEARTH_OK);
    assert_int_equal(sum.objects, 1);
    kit_store(&kit, branch, 64, NULL);
    memcpy(key, held->ones[0].key, sizeof(key)); /* of the run: both */
    assert_int_equal(hearth_evict_key(kit.cache, key, &sum), HEARTH_OK);
    assert_int_equal(sum.objects, 2);
    kit_check(&kit);
    mem_free(held);
    kit_close(&kit);
}

/* Snapshots of a model without rows are independent. */
static void test_snapshots_without_rows_leave_alone(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[100];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, HEARTH_KIND_RECURRENT);
    kit_tokens(tokens, 100, 1);
    kit_snapshot(&kit, tokens, 100, 30);
    kit_snapshot(&kit, tokens, 100, 31);
    kit_snapshot(&kit, tokens, 100, 90);
    key_at(&kit, HEARTH_OBJECT_SNAPSHOT, 30, key);
    struct hearth_sum sum;
    assert_int_equal(hearth_evict_key(kit.cache, key, &sum), HEARTH_OK);
    assert_int_equal(sum.objects, 2);
    assert_int_equal(kit_peek(&kit, tokens, 100).boundary, 90);
    kit_check(&kit);
    kit_close(&kit);
}

/* ---- times ---- */

static struct clock *fake_time(struct kit *kit)
{
    struct clock *clock = clock_create_fake(1000 * NS_PER_S, 1000 * NS_PER_S);

    kit->cache->clock = clock;
    return clock;
}

static void test_expired_is_forgotten_with_all_behind_it(void **state)
{
    static const unsigned char unknown[HEARTH_KEY_BYTES] = {1};
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[128], other[64];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    struct clock *clock = fake_time(&kit);
    kit_tokens(tokens, 128, 1);
    kit_tokens(other, 64, 2);
    kit_store(&kit, tokens, 100, NULL);
    kit_store(&kit, other, 64, NULL);
    key_at(&kit, HEARTH_OBJECT_ROWS, 96, key);
    assert_int_equal(hearth_expire(kit.cache, unknown, 10), HEARTH_ERROR_MISSING);
    assert_int_equal(hearth_expire(kit.cache, key, -1), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_expire(kit.cache, key, NAN), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_expire(kit.cache, key, INFINITY), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_expire(kit.cache, key, 10), HEARTH_OK);
    kit_store(&kit, tokens, 128, NULL); /* after it, later, and without its own expiry */
    clock_fake_advance(clock, 10 * NS_PER_S - 1);
    assert_int_equal(kit_peek(&kit, tokens, 128).boundary, 127);
    clock_fake_advance(clock, 1);
    assert_int_equal(kit_restore(&kit, tokens, 128, NULL), 64);
    kit_check(&kit);
    assert_int_equal(kit_peek(&kit, other, 64).boundary, 63);
    /* A time that is taken back. */
    key_at(&kit, HEARTH_OBJECT_ROWS, 64, key);
    assert_int_equal(hearth_expire(kit.cache, key, 1), HEARTH_OK);
    assert_int_equal(hearth_expire(kit.cache, key, 0), HEARTH_OK);
    clock_fake_advance(clock, 1000 * NS_PER_S);
    assert_int_equal(kit_peek(&kit, tokens, 128).boundary, 64);
    kit_check(&kit);
    kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* A plan that is made again does not find what has expired since it was made first. */
static void test_plans_made_again_forget_what_is_due(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[128];
    struct kit kit;

    (void)state;
    for (int lower = 0; lower < 2; lower++) {
        kit_open_holding(&kit, FULL, tokens, 128);
        struct clock *clock = fake_time(&kit);
        key_at(&kit, HEARTH_OBJECT_ROWS, 64, key);
        assert_int_equal(hearth_expire(kit.cache, key, 5), HEARTH_OK);
        struct hearth_plan *plan = kit_lookup(&kit, tokens, 128);
        assert_int_equal(hearth_plan_info(plan)->boundary, 127);
        clock_fake_advance(clock, 6 * NS_PER_S);
        if (lower)
            hearth_plan_lower(plan, 100);
        else
            hearth_plan_shorten(plan, 1, HEARTH_REASON_TIMEOUT);
        assert_int_equal(hearth_plan_info(plan)->boundary, 0);
        hearth_plan_release(&plan);
        kit_check(&kit);
        kit_close(&kit);
        clock_destroy_fake(&clock);
    }
}

/* Whoever looks finds nothing of it: lookups, probes, stores, lists. */
static void test_every_look_forgets_what_is_due(void **state)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct held *held = mem_alloc(sizeof(*held));
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[64];
    struct kit kit;

    (void)state;
    for (int look = 0; look < 5; look++) {
        struct hearth_store *store;
        uint32_t begin, end;
        kit_open_holding(&kit, FULL, tokens, 64);
        struct clock *clock = fake_time(&kit);
        key_at(&kit, HEARTH_OBJECT_ROWS, 64, key);
        assert_int_equal(hearth_expire(kit.cache, key, 5), HEARTH_OK);
        list(&kit, held);
        assert_true(held->ones[0].expires_s > 4.9 && held->ones[0].expires_s <= 5);
        clock_fake_advance(clock, 6 * NS_PER_S);
        switch (look) {
        case 0:
            assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 0);
            break;
        case 1:
            assert_int_equal(hearth_probe(kit.space, tokens, 64, &probe, NULL, 0), HEARTH_OK);
            assert_int_equal(probe.matched, 0);
            break;
        case 2:
            assert_int_equal(hearth_store_open(kit.space, tokens, 64, NULL, &store), HEARTH_OK);
            assert_true(hearth_store_next(store, &begin, &end));
            hearth_store_close(&store);
            break;
        case 3:
            list(&kit, held);
            assert_int_equal(held->count, 0);
            break;
        default:
            assert_int_equal(hearth_pin(kit.space, tokens, 64, true), 0);
        }
        assert_int_equal(kit_stats(&kit).objects, 0);
        kit_check(&kit);
        kit_close(&kit);
        clock_destroy_fake(&clock);
    }
    mem_free(held);
}

static void test_pinned_is_kept_past_its_time(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[64];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 64);
    struct clock *clock = fake_time(&kit);
    key_at(&kit, HEARTH_OBJECT_ROWS, 64, key);
    assert_int_equal(hearth_pin_key(kit.cache, key, true), 64);
    assert_int_equal(hearth_expire(kit.cache, key, 5), HEARTH_OK);
    clock_fake_advance(clock, 100 * NS_PER_S);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
    assert_int_equal(hearth_pin_key(kit.cache, key, false), 64);
    clock_fake_advance(clock, 100 * NS_PER_S);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 0);
    kit_check(&kit);
    kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* A tail that grows hands its time to the longer rows that take its place. */
static void test_longer_rows_inherit_the_time(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[64];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 10);
    struct clock *clock = fake_time(&kit);
    key_at(&kit, HEARTH_OBJECT_ROWS, 10, key);
    assert_int_equal(hearth_expire(kit.cache, key, 5), HEARTH_OK);
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, NULL);
    assert_int_equal(kit_stats(&kit).objects, 1);
    kit_check(&kit);
    clock_fake_advance(clock, 5 * NS_PER_S);
    assert_int_equal(kit_peek(&kit, tokens, 64).matched, 0);
    kit_close(&kit);
    clock_destroy_fake(&clock);
}

static void test_times_are_limited_and_in_order(void **state)
{
    struct held *held = mem_alloc(sizeof(*held));
    unsigned char key[HEARTH_KEY_BYTES];
    int32_t tokens[16] = {0};
    uint64_t seed = test_seed();
    struct kit kit;

    (void)state;
    struct hearth_options options = kit_options(64 << 20);
    struct hearth_model model = kit_model(FULL);
    options.books_bytes = 16 << 20;
    kit_open_with(&kit, &options, &model);
    struct clock *clock = fake_time(&kit);
    for (int i = 0; i < 40; i++) {
        tokens[0] = i;
        kit_store(&kit, tokens, 16, NULL);
    }
    list(&kit, held);
    for (int i = 0; i < 200; i++) { /* set, moved, taken back */
        const struct one *one = &held->ones[test_random_below(&seed, held->count)];
        assert_int_equal(
            hearth_expire(kit.cache, one->key, (double)test_random_below(&seed, 20) * 10),
            HEARTH_OK);
        kit_check(&kit);
    }
    for (int i = 0; i < 25; i++) {
        clock_fake_advance(clock, 10 * NS_PER_S);
        list(&kit, held);
        for (size_t j = 0; j < held->count; j++)
            assert_true(held->ones[j].expires_s == 0 || held->ones[j].expires_s > 0.001);
        kit_check(&kit);
    }
    for (size_t j = 0; j < held->count; j++)
        assert_true(held->ones[j].expires_s == 0);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
    /* As many as there may be, and one more. */
    for (int i = 0; i <= CACHE_EXPIRIES_MAX; i++) {
        tokens[0] = i;
        kit_store(&kit, tokens, 16, NULL);
        lock_enter(&kit.cache->lock);
        struct object *object = LIST_ENTRY(list_last(&kit.space->all), struct object, held_link);
        memcpy(key, node_key(object->last)->bytes, sizeof(key));
        if (i > 0 && i < CACHE_EXPIRIES_MAX)
            /* looking for each would take a while */
            manage_set_expiry(object, cache_now_ns(kit.cache) + 4000 * NS_PER_S);
        lock_leave(&kit.cache->lock);
        if (i == 0 || i == CACHE_EXPIRIES_MAX)
            assert_int_equal(hearth_expire(kit.cache, key, 7),
                             i == 0 ? HEARTH_OK : HEARTH_ERROR_MEMORY);
    }
    kit_check(&kit);
    mem_free(held);
    kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* ---- against a naive model ---- */

struct world {
    struct kit kit;
    struct clock *clock;
    int32_t prompts[PROMPTS][TOKENS];
    uint64_t seed;
};

/* Prompts that branch off each other; each token of a branch says whose it is. */
static void make_prompts(struct world *world)
{
    for (uint32_t i = 0; i < PROMPTS; i++) {
        kit_tokens(world->prompts[i], TOKENS, i + 1);
        if (i > 0)
            memcpy(world->prompts[i], world->prompts[test_random_below(&world->seed, i)],
                   test_random_below(&world->seed, TOKENS) * sizeof(int32_t));
    }
}

static void fill_world(struct world *world)
{
    for (int i = 0; i < 2 * PROMPTS; i++) {
        const int32_t *tokens = world->prompts[test_random_below(&world->seed, PROMPTS)];
        uint32_t count = 1 + (uint32_t)test_random_below(&world->seed, TOKENS);
        if (test_random_below(&world->seed, 3) > 0)
            kit_store(&world->kit, tokens, count, NULL);
        else
            kit_restore(&world->kit, tokens, count, NULL);
        if (test_random_below(&world->seed, 16) == 0)
            hearth_pin(world->kit.space, tokens, count, true);
        clock_fake_advance(world->clock, NS_PER_S);
    }
}

/* A prompt that begins with all tokens of this object. */
static const int32_t *prompt_of(const struct world *world, const struct one *one)
{
    for (size_t i = 0; i < PROMPTS; i++)
        if (world->prompts[i][one->end - 1] == one->last)
            return world->prompts[i];
    fail_msg("an object of nobody's tokens");
    return NULL;
}

static bool begin_alike(const struct world *world, const struct one *a, const struct one *b,
                        uint32_t count)
{
    return memcmp(prompt_of(world, a), prompt_of(world, b), count * sizeof(int32_t)) == 0;
}

/* Whether `one` cannot be used without what begins where `top` does. */
static bool is_behind(const struct world *world, const struct one *one, const struct one *top)
{
    return one->end > top->begin &&
           begin_alike(world, one, top, MIN(MIN(one->end, top->end), top->begin + KIT_BLOCK));
}

static void open_world(struct world *world, uint64_t seed)
{
    world->seed = seed;
    kit_open(&world->kit, RAM, FULL);
    world->clock = fake_time(&world->kit);
    make_prompts(world);
    fill_world(world);
}

static void close_world(struct world *world)
{
    kit_check(&world->kit);
    kit_close(&world->kit);
    clock_destroy_fake(&world->clock);
}

/* The cached objects are those from before, except the ones in `gone`. */
static void expect_without(struct world *world, const struct held *before, const bool *gone)
{
    struct held *now = mem_alloc(sizeof(*now));
    size_t j = 0;

    list(&world->kit, now);
    for (size_t i = 0; i < before->count; i++)
        if (!gone[i]) {
            assert_true(j < now->count && same(&now->ones[j], &before->ones[i]));
            j++;
        }
    assert_int_equal(j, now->count);
    mem_free(now);
}

static void test_evicting_by_key_is_what_a_naive_model_says(void **state)
{
    struct held *before = mem_alloc(sizeof(*before));
    struct world *world = mem_alloc(sizeof(*world));
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        open_world(world, test_random(&seed));
        list(&world->kit, before);
        const struct one *target = &before->ones[test_random_below(&seed, before->count)];
        bool gone[SEEN_MAX] = {false};
        struct hearth_sum sum, expected = {0};
        for (size_t i = 0; i < before->count && !target->pinned; i++) {
            gone[i] = !before->ones[i].pinned && is_behind(world, &before->ones[i], target);
            expected.objects += gone[i];
            expected.bytes +=
                gone[i] ? (uint64_t)(before->ones[i].end - before->ones[i].begin) * 64 : 0;
        }
        int error = hearth_evict_key(world->kit.cache, target->key, &sum);
        assert_int_equal(error, target->pinned ? HEARTH_ERROR_REFUSED : HEARTH_OK);
        assert_int_equal(sum.objects, expected.objects);
        assert_int_equal(sum.bytes, expected.bytes);
        expect_without(world, before, gone);
        close_world(world);
    }
    mem_free(world);
    mem_free(before);
}

/* Removes objects that are old and not needed by others, until there are none. */
static void age_naively(const struct world *world, const struct held *held, double older_s,
                        bool *gone)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < held->count; i++) {
            const struct one *one = &held->ones[i];
            bool needed = gone[i] || one->pinned || one->age_s < older_s;
            for (size_t j = 0; j < held->count && !needed; j++)
                needed =
                    !gone[j] && held->ones[j].begin > one->begin &&
                    begin_alike(world, one, &held->ones[j], MIN(held->ones[j].begin, one->end));
            gone[i] |= !needed;
            more |= !needed;
        }
    }
}

static void test_evicting_by_age_is_what_a_naive_model_says(void **state)
{
    struct held *before = mem_alloc(sizeof(*before));
    struct world *world = mem_alloc(sizeof(*world));
    uint64_t seed = test_seed();
    size_t left = 0;

    (void)state;
    for (int round = 0; round < 200; round++) {
        open_world(world, test_random(&seed));
        list(&world->kit, before);
        double older_s = (double)test_random_below(&seed, 2 * PROMPTS + 2);
        bool gone[SEEN_MAX] = {false};
        struct hearth_sum sum;
        hearth_evict_older(world->kit.cache, NULL, NAN, &sum);
        assert_int_equal(sum.objects, 0);
        age_naively(world, before, older_s, gone);
        hearth_evict_older(world->kit.cache, round % 2 ? world->kit.space : NULL, older_s, &sum);
        expect_without(world, before, gone);
        left += sum.objects;
        close_world(world);
    }
    assert_true(left > 200);
    mem_free(world);
    mem_free(before);
}

/* ---- memory, threads ---- */

static void test_without_memory_nothing_is_half_done(void **state)
{
    unsigned char key[HEARTH_KEY_BYTES];
    struct fault fault = {0};
    int32_t tokens[100];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    key_at(&kit, HEARTH_OBJECT_ROWS, 96, key);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        uint32_t end = hearth_pin_key(kit.cache, key, true);
        assert_true(end == 96 || (end == 0 && atomic_load(&fault.fired) > 0));
        assert_int_equal(hearth_pin_key(kit.cache, key, false), end);
        kit_check(&kit);
    }
    mem_set_fault(NULL);
    kit_close(&kit);
}

struct crowd {
    struct kit kit;
    int32_t prompts[8][TOKENS];
};

static void use(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < 300; i++) {
        kit_store(&crowd->kit, crowd->prompts[i % 8], TOKENS - (unsigned)i % 50, NULL);
        kit_restore(&crowd->kit, crowd->prompts[i % 5], TOKENS, NULL);
    }
}

static void manage(void *arg)
{
    struct crowd *crowd = arg;
    struct held *held = mem_alloc(sizeof(*held));
    struct hearth_verify_options verify = {.struct_size = sizeof(verify), .tier = HEARTH_TIER_RAM};
    struct hearth_verified verified;

    for (int i = 0; i < 60; i++) {
        list(&crowd->kit, held);
        for (size_t j = 0; j < held->count; j += 3) {
            (void)hearth_pin_key(crowd->kit.cache, held->ones[j].key, true);
            (void)hearth_expire(crowd->kit.cache, held->ones[j].key, j % 2 ? 0.0001 : 0);
            (void)hearth_pin_key(crowd->kit.cache, held->ones[j].key, false);
            (void)hearth_evict_key(crowd->kit.cache, held->ones[(j + i) % held->count].key, NULL);
        }
        hearth_evict_older(crowd->kit.cache, NULL, 0.01, NULL);
        assert_int_equal(hearth_verify(crowd->kit.cache, &verify, &verified), HEARTH_OK);
        assert_int_equal(verified.damaged, 0);
    }
    mem_free(held);
}

/* Bytes are right whatever is done to their objects meanwhile: kit_restore fails at the first wrong
 * one. */
static void test_i11_by_hand_while_others_read_and_store(void **state)
{
    struct crowd *crowd = mem_alloc(sizeof(*crowd));
    struct thread threads[3] = {0};

    (void)state;
    kit_open(&crowd->kit, 1 << 20, FULL);
    for (uint32_t i = 0; i < 8; i++) {
        kit_tokens(crowd->prompts[i], TOKENS, i + 1);
        kit_tokens(crowd->prompts[i], 40, 1);
    }
    assert_ok(thread_start(&threads[0], "use", use, crowd, NULL));
    assert_ok(thread_start(&threads[1], "use", use, crowd, NULL));
    assert_ok(thread_start(&threads[2], "manage", manage, crowd, NULL));
    for (size_t i = 0; i < 3; i++)
        thread_join(&threads[i]);
    kit_check(&crowd->kit);
    kit_close(&crowd->kit);
    mem_free(crowd);
}

TEST_SUITE(TEST(test_find_shows_what_has_the_key_and_nothing_else),
           TEST(test_pin_by_key_holds_the_path), TEST(test_i11_evicting_what_is_read),
           TEST(test_evicting_a_run_takes_the_branches_from_its_middle),
           TEST(test_snapshots_without_rows_leave_alone),
           TEST(test_expired_is_forgotten_with_all_behind_it),
           TEST(test_plans_made_again_forget_what_is_due),
           TEST(test_every_look_forgets_what_is_due), TEST(test_pinned_is_kept_past_its_time),
           TEST(test_longer_rows_inherit_the_time), TEST(test_times_are_limited_and_in_order),
           TEST(test_evicting_by_key_is_what_a_naive_model_says),
           TEST(test_evicting_by_age_is_what_a_naive_model_says),
           TEST(test_without_memory_nothing_is_half_done),
           TEST(test_i11_by_hand_while_others_read_and_store))
