/* Who must leave: caps, shares, leases, anchors, times to live. */
#include <hearth/hearth.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* Never a parent before its children: no rows without rows before them. */
static bool has_parent_rows(struct node *node, void *arg)
{
    (void)arg;
    if (node_rows(node) != NULL && node_parent(node) != NULL)
        assert_non_null(node_rows(node_parent(node)));
    return true;
}

static void check(const struct kit *kit)
{
    kit_check(kit);
    lock_enter(&kit->cache->lock);
    LIST_FOREACH (struct hearth_space, space, &kit->cache->spaces, link)
        index_each(space->index, has_parent_rows, NULL);
    lock_leave(&kit->cache->lock);
}

static void flood(const struct kit *kit, uint32_t from, uint32_t count)
{
    int32_t tokens[64];

    for (uint32_t i = 0; i < count; i++) {
        kit_tokens(tokens, 64, from + i);
        kit_store(kit, tokens, 64, NULL);
    }
}

static void test_i93_i22_the_cap_holds_in_a_random_walk(void **state)
{
    static const char *const policies[] = {NULL, "lru-tail", "saving-per-byte"};
    uint64_t seed = test_seed(), reused = 0;
    int32_t tokens[300];

    (void)state;
    for (size_t p = 0; p < COUNT_OF(policies); p++) {
        struct hearth_options options = kit_options(256 * 1024);
        struct hearth_model model = kit_model(p % 2 ? FULL : HYBRID);
        struct kit kit;
        options.policy = policies[p];
        kit_open_with(&kit, &options, &model);
        for (int step = 0; step < 400; step++) {
            uint32_t length = 2 + (uint32_t)test_random_below(&seed, 298);
            uint32_t shared = (uint32_t)test_random_below(&seed, length);
            kit_tokens(tokens, length, 1 + (uint32_t)test_random_below(&seed, 40));
            kit_tokens(tokens, shared, 1 + (uint32_t)test_random_below(&seed, 3));
            reused += kit_restore(&kit, tokens, length, NULL);
            kit_store(&kit, tokens, length, NULL);
            if (p % 2 == 0)
                kit_snapshot(&kit, tokens, length, MIN(length - 1, 32 * (1 + (uint32_t)step % 3)));
            if (step % 50 == 49)
                hearth_set_ram_bytes(kit.cache, (64 + test_random_below(&seed, 192)) * 1024);
            check(&kit);
        }
        assert_true(kit_stats(&kit).evictions > 0);
        kit_close(&kit);
    }
    assert_true(reused > 1000);
}

static void test_i11_what_is_leased_stays(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    const void *data;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 128 * 1024, FULL);
    kit.row_bytes = 256;
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, NULL);
    hearth_lookup(kit.space, tokens, 64, NULL, &plan);
    assert_int_equal(hearth_plan_fetch(plan, 0, 0, &data), HEARTH_OK);
    flood(&kit, 2, 50);
    check(&kit);
    assert_true(kit_stats(&kit).evictions > 30);
    kit_expect(&kit, &hearth_plan_info(plan)->objects[0], data, tokens, 64);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
    hearth_plan_release(&plan);
    flood(&kit, 100, 50);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 0);
    check(&kit);
    kit_close(&kit);
}

static void test_i104_what_was_evicted_is_called_so(void **state)
{
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 128 * 1024, FULL);
    kit.row_bytes = 256;
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, NULL);
    flood(&kit, 2, 50);
    assert_int_equal(kit_peek(&kit, tokens, 64).reason, HEARTH_REASON_EVICTED);
    assert_int_equal(kit_peek(&kit, tokens, 40).reason, HEARTH_REASON_EVICTED);
    kit_tokens(tokens, 64, 999);
    assert_int_equal(kit_peek(&kit, tokens, 64).reason, HEARTH_REASON_DIVERGED); /* never seen */
    kit_close(&kit);
}

static void test_pinned_paths_stay(void **state)
{
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 128 * 1024, FULL);
    kit.row_bytes = 256;
    kit_tokens(tokens, 64, 1);
    assert_int_equal(hearth_pin(kit.space, tokens, 64, true), 0); /* nothing to pin */
    kit_store(&kit, tokens, 64, NULL);
    assert_int_equal(hearth_pin(kit.space, tokens, 64, true), 64);
    flood(&kit, 2, 50);
    assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 63);
    hearth_set_ram_bytes(kit.cache, 20 * 1024); /* not even then */
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
    hearth_set_ram_bytes(kit.cache, 128 * 1024);
    assert_int_equal(hearth_pin(kit.space, tokens, 64, false), 64);
    flood(&kit, 2, 50);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 0);
    check(&kit);
    kit_close(&kit);
}

static void test_i103_shared_anchors_outlive_tails(void **state)
{
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints), .entry = HEARTH_ENTRY_USER, .anchor = 32};
    struct kit kit;
    int32_t tokens[128];

    (void)state;
    kit_open(&kit, 256 * 1024, FULL);
    kit.row_bytes = 256;
    for (uint32_t i = 0; i < 40;
         i++) { /* conversations that have only the system prompt in common */
        kit_tokens(tokens, 128, i + 2);
        kit_tokens(tokens, 32, 1);
        uint32_t reused = kit_restore(&kit, tokens, 128, NULL);
        assert_int_equal(reused, i == 0 ? 0 : 32);
        kit_store(&kit, tokens, 128, &hints);
        check(&kit);
    }
    assert_true(kit_stats(&kit).evictions > 20);
    /* Now others, without it, turn the cache over. */
    flood(&kit, 1000, 12);
    kit_tokens(tokens, 128, 1);
    assert_int_equal(kit_peek(&kit, tokens, 128).boundary, 32);
    kit_close(&kit);
}

static void test_a_time_to_live_is_kept_while_others_can_leave(void **state)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .ttl_s = 60};
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 128 * 1024, FULL);
    kit.cache->clock = clock;
    kit.row_bytes = 256;
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, &hints);
    flood(&kit, 2, 50);
    check(&kit);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
    clock_fake_advance(clock, 3600 * NS_PER_S); /* it is not expected any more */
    flood(&kit, 100, 50);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 0);
    for (uint32_t i = 0; i < 30; i++) { /* when all have one, it cannot be kept for all */
        kit_tokens(tokens, 64, 200 + i);
        assert_int_equal(kit_store(&kit, tokens, 64, &hints), 1);
        check(&kit);
    }
    kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* A store with a time to live is about the state of its tokens, whoever stored it. */
static void test_a_time_to_live_counts_for_what_is_cached(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT};
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .ttl_s = 60};
    struct hearth_options options = kit_options(128 * 1024);
    int32_t tokens[64];

    (void)state;
    options.policy = "lru-tail"; /* so that the order is known */
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct hearth_model model = kit_model(kinds[i]);
        struct kit kit;
        kit_open_with(&kit, &options, &model);
        kit.row_bytes = 256;
        kit_tokens(tokens, 64, 1);
        assert_int_equal(kit_store(&kit, tokens, 64, NULL), 1);
        if (i > 0)
            assert_int_equal(kit_snapshot(&kit, tokens, 64, 63), HEARTH_OK);
        assert_int_equal(kit_store(&kit, tokens, 64, &hints), 0);
        for (uint32_t other = 2; other < 50; other++) {
            flood(&kit, other, 1);
            kit_tokens(tokens, 64, other);
            (void)kit_snapshot(&kit, tokens, 64, 63);
        }
        kit_tokens(tokens, 64, 1);
        assert_true(kit_stats(&kit).evictions > 20);
        assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 63);
        kit_close(&kit);
    }
}

static void test_i100_a_flood_leaves_the_shares_of_others(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 512 * 1024, FULL);
    kit.row_bytes = 256;
    struct kit quiet = kit_space(&kit, &model, "quiet", 128 * 1024);
    struct kit loud = kit_space(&kit, &model, "loud", 0);
    quiet.row_bytes = loud.row_bytes = 256;
    for (uint32_t i = 0; i < 5; i++) {
        kit_tokens(tokens, 64, i + 1);
        assert_int_equal(kit_store(&quiet, tokens, 64, NULL), 1);
    }
    flood(&loud, 100, 200);
    check(&kit);
    assert_true(kit_stats(&kit).evictions > 100);
    for (uint32_t i = 0; i < 5; i++) {
        kit_tokens(tokens, 64, i + 1);
        assert_int_equal(kit_restore(&quiet, tokens, 64, NULL), 63);
    }
    /* What it holds above its share is anybody's; and its share is there for it, full as the cache
     * is. */
    flood(&quiet, 10, 40);
    flood(&loud, 400, 200);
    check(&kit);
    assert_true(quiet.space->line.used <= 128 * 1024 && quiet.space->line.used > 100 * 1024);
    hearth_space_close(&quiet.space);
    hearth_space_close(&loud.space);
    kit_close(&kit);
}

static void test_i22_a_lower_cap_is_reached_shares_or_not(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;

    (void)state;
    kit_open(&kit, 512 * 1024, FULL);
    struct kit other = kit_space(&kit, &model, "other", 256 * 1024);
    kit.row_bytes = other.row_bytes = 256;
    flood(&kit, 1, 10);
    flood(&other, 1, 10);
    assert_true(kit_stats(&kit).bytes_budget > 200 * 1024);
    hearth_set_ram_bytes(kit.cache, 100 * 1024);
    check(&kit);
    assert_true(kit_stats(&kit).bytes_budget <= 100 * 1024);
    assert_int_equal(kit_stats(&kit).bytes_cap, 100 * 1024);
    hearth_set_ram_bytes(kit.cache, 512 * 1024);
    flood(&kit, 100, 20);
    check(&kit);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

static void test_a_cap_that_leases_stand_against_is_reached_later(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 512 * 1024, FULL);
    kit.row_bytes = 1024;
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, NULL);
    hearth_lookup(kit.space, tokens, 64, NULL, &plan);
    hearth_set_ram_bytes(kit.cache, 32 * 1024);
    assert_true(kit_stats(&kit).bytes_budget > 64 * 1024);
    hearth_plan_release(&plan);
    assert_true(kit_stats(&kit).bytes_budget <= 32 * 1024);
    check(&kit);
    kit_close(&kit);
}

/* Shares that a lower cap cannot cover are reduced with it: promised in full, they would leave
 * nothing for trees, and no tenant could store anything. */
static void test_a_cap_below_the_shares_still_stores(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 4 << 20, FULL);
    struct kit other = kit_space(&kit, &model, "other", 2 << 20);
    hearth_set_ram_bytes(kit.cache, 1 << 20);
    kit_tokens(tokens, 64, 1);
    assert_int_equal(kit_store(&other, tokens, 64, NULL), 1);
    assert_int_equal(kit_store(&kit, tokens, 64, NULL), 1);
    check(&kit);
    hearth_set_ram_bytes(kit.cache, 4 << 20);
    kit.row_bytes = 1024;
    flood(&kit, 2, 60); /* 4 MiB, of which the other tenant's half stays free */
    assert_true(kit_stats(&kit).bytes_budget > 1 << 20);
    assert_true(kit_stats(&kit).bytes_budget <= (2 << 20) + (64 << 10));
    hearth_space_close(&other.space);
    kit_close(&kit);
}

/* The part of the books for requests follows the cap: what was reserved of a large one would leave
 * nothing of a small one for trees. */
static void test_a_much_lower_cap_still_stores(void **state)
{
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 256 << 20, FULL);
    flood(&kit, 1, 10);
    hearth_set_ram_bytes(kit.cache, 16 << 20);
    kit_tokens(tokens, 64, 100);
    assert_int_equal(kit_store(&kit, tokens, 64, NULL), 1);
    assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 63);
    assert_int_equal(kit_stats(&kit).evictions, 0);
    check(&kit);
    kit_close(&kit);
}

static int put_guess(const struct kit *kit, const int32_t *tokens, uint32_t at)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .prompt = 64, .fork = at};
    struct hearth_store *store;

    assert_int_equal(hearth_store_open(kit->space, tokens, at, &hints, &store), HEARTH_OK);
    int error = kit_put(kit, store, HEARTH_OBJECT_SNAPSHOT, 0, at, tokens);
    hearth_store_close(&store);
    return error;
}

/* Snapshots where prompts might diverge take free memory, and never that of others. */
static void test_guesses_displace_nothing_that_is_worth_more(void **state)
{
    struct kit kit;
    int32_t tokens[64];
    uint32_t stored = 0;

    (void)state;
    kit_open(&kit, 512 * 1024, HEARTH_KIND_RECURRENT);
    kit.snapshot_bytes = 16 * 1024;
    kit_tokens(tokens, 64, 1000);
    assert_int_equal(put_guess(&kit, tokens, 40), HEARTH_OK); /* there is room */
    while (kit_stats(&kit).evictions == 0) {
        kit_tokens(tokens, 64, ++stored);
        assert_int_equal(kit_snapshot(&kit, tokens, 64, 60), HEARTH_OK);
    }
    uint64_t evictions = kit_stats(&kit).evictions;
    kit_tokens(tokens, 64, 1000);
    assert_int_equal(kit_peek(&kit, tokens, 64).boundary, 0); /* the guess was the first to go */
    for (uint32_t i = 0; i < 50; i++) {
        kit_tokens(tokens, 64, 2000 + i);
        assert_int_not_equal(put_guess(&kit, tokens, 40), HEARTH_OK);
    }
    assert_int_equal(kit_stats(&kit).evictions, evictions);
    kit_tokens(tokens, 64, 3000);
    assert_int_equal(kit_snapshot(&kit, tokens, 64, 60), HEARTH_OK); /* the end of a prompt may */
    check(&kit);
    kit_close(&kit);
}

static size_t allocated;

static void *take(size_t size, void *arg)
{
    (void)arg;
    allocated += size;
    return mem_try_alloc(size);
}

static void give(void *ptr, void *arg)
{
    (void)arg;
    mem_free(ptr);
}

/* An allocator that gives nothing makes every store a refusal, and nothing worse. */
static void *refuse(size_t size, void *arg)
{
    (void)size;
    (void)arg;
    return NULL;
}

static void test_memory_of_the_caller(void **state)
{
    struct hearth_options options = kit_options(1 << 20);
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    options.alloc = take;
    options.free = give;
    kit_open_with(&kit, &options, &model);
    flood(&kit, 1, 10);
    assert_true(allocated > 0 && allocated <= 1 << 20);
    kit_tokens(tokens, 64, 1);
    assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 63);
    kit_close(&kit);
    options.alloc = refuse;
    kit_open_with(&kit, &options, &model);
    assert_int_equal(kit_store(&kit, tokens, 64, NULL), 0);
    assert_int_equal(kit_stats(&kit).stores_refused, 1);
    check(&kit);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_i93_i22_the_cap_holds_in_a_random_walk), TEST(test_i11_what_is_leased_stays),
           TEST(test_i104_what_was_evicted_is_called_so), TEST(test_pinned_paths_stay),
           TEST(test_i103_shared_anchors_outlive_tails),
           TEST(test_a_time_to_live_is_kept_while_others_can_leave),
           TEST(test_a_time_to_live_counts_for_what_is_cached),
           TEST(test_i100_a_flood_leaves_the_shares_of_others),
           TEST(test_i22_a_lower_cap_is_reached_shares_or_not),
           TEST(test_a_cap_that_leases_stand_against_is_reached_later),
           TEST(test_a_cap_below_the_shares_still_stores), TEST(test_a_much_lower_cap_still_stores),
           TEST(test_memory_of_the_caller), TEST(test_guesses_displace_nothing_that_is_worth_more))
