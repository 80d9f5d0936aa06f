/*
 * ledger_test.c: what the cache says that it takes, compared with what it takes: every allocation
 * of the heap is added up (base/mem.h), and arenas come from an allocator that counts. At random
 * moments of random use by several requests at once nothing is missing (I93).
 */
#include <hearth/hearth.h>

#include <stdlib.h>

#include "base/mem.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum {
    RAM = 3 << 20,
    TOKENS = 600,
    SLOTS = 6,
    STEPS = 20000,
    FIXED_MAX = 1 << 20, /* as hearth.h promises */
    ARENAS_MAX = 256,
};

struct mapping {
    void *memory;
    size_t bytes;
};

struct world {
    struct kit kit, other;
    uint64_t seed;
    struct hearth_plan *plans[SLOTS];
    struct hearth_store *stores[SLOTS];
    bool reserved[SLOTS];
    struct mapping arenas[ARENAS_MAX];
    uint64_t bytes_arenas;
    atomic_llong heap;
    long long fixed; /* of the heap, before anything was held */
    uint64_t turned_away;
};

static void *take_arena(size_t bytes, void *arg)
{
    struct world *world = arg;

    for (size_t i = 0; i < ARENAS_MAX; i++)
        if (world->arenas[i].memory == NULL) {
            world->arenas[i] = (struct mapping){malloc(bytes), bytes};
            world->bytes_arenas += bytes;
            return world->arenas[i].memory;
        }
    return NULL;
}

static void free_arena(void *memory, void *arg)
{
    struct world *world = arg;

    for (size_t i = 0; i < ARENAS_MAX; i++)
        if (world->arenas[i].memory == memory) {
            world->bytes_arenas -= world->arenas[i].bytes;
            world->arenas[i].memory = NULL;
            free(memory);
            return;
        }
    fail();
}

static uint32_t below(struct world *world, uint32_t n)
{
    return (uint32_t)test_random_below(&world->seed, n);
}

/* ---- requests ---- */

/* One of a few dozen conversations that share beginnings; its length. */
static uint32_t conversation(struct world *world, int32_t *tokens)
{
    kit_tokens(tokens, TOKENS, 1 + below(world, 40));
    kit_tokens(tokens, 16 * below(world, 12), 1 + below(world, 3));
    return 1 + below(world, TOKENS);
}

static void plan(struct world *world, uint32_t slot)
{
    int32_t tokens[TOKENS];
    uint32_t count = conversation(world, tokens);

    if (world->plans[slot] != NULL)
        hearth_plan_release(&world->plans[slot]);
    else
        world->turned_away +=
            hearth_lookup(world->kit.space, tokens, count, NULL, &world->plans[slot]) != HEARTH_OK;
}

/* Opens a store, reserves in it, or closes it with what is reserved. */
static void store(struct world *world, uint32_t slot)
{
    int32_t tokens[TOKENS];
    uint32_t count = conversation(world, tokens), begin, end;
    void *memory;

    if (world->stores[slot] == NULL)
        world->turned_away += hearth_store_open(world->kit.space, tokens, count, NULL,
                                                &world->stores[slot]) != HEARTH_OK;
    else if (!world->reserved[slot] && hearth_store_next(world->stores[slot], &begin, &end))
        world->reserved[slot] =
            hearth_store_reserve(world->stores[slot], HEARTH_OBJECT_ROWS, begin, end,
                                 1 + below(world, 40000), &memory) == HEARTH_OK;
    else {
        hearth_store_close(&world->stores[slot]);
        world->reserved[slot] = false;
    }
}

static void keep(struct world *world)
{
    int32_t tokens[TOKENS];
    uint32_t count = conversation(world, tokens);
    const struct kit *kit = below(world, 4) == 0 ? &world->other : &world->kit;

    kit_store(kit, tokens, count, NULL);
    if (kit == &world->other)
        kit_snapshot(kit, tokens, count, count);
    if (below(world, 8) == 0) {
        hearth_pin(kit->space, tokens, count, true);
        hearth_pin(kit->space, tokens, count, below(world, 8) == 0);
    }
}

static void step(struct world *world)
{
    uint32_t slot = below(world, SLOTS), what = below(world, 1000);

    if (what < 300)
        plan(world, slot);
    else if (what < 500)
        store(world, slot);
    else if (what < 999)
        keep(world);
    else
        hearth_clear(world->kit.cache, NULL, HEARTH_TIER_COUNT);
}

/* ---- comparing ---- */

static void compare(struct world *world)
{
    struct hearth_stats stats = kit_stats(&world->kit);
    uint64_t heap = (uint64_t)(atomic_load(&world->heap) - world->fixed);
    uint64_t books = stats.bytes_memory - world->bytes_arenas;

    assert_true(stats.bytes_memory <= RAM);
    assert_true(world->bytes_arenas <= stats.bytes_memory);
    /* The C library rounds, and some tables keep the size that they had: a few in a hundred. */
    if (heap > books + books / 8 + (16 << 10))
        fail_msg("%llu bytes of the heap, %llu in the books", (unsigned long long)heap,
                 (unsigned long long)books);
}

static void open_world(struct world *world)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HEARTH_KIND_FULL),
                        hybrid = kit_model(HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT);

    options.alloc = take_arena;
    options.free = free_arena;
    options.alloc_arg = world;
    kit_open_with(&world->kit, &options, &model);
    world->other = kit_space(&world->kit, &hybrid, "other", 0);
    world->fixed = atomic_load(&world->heap) - (long long)kit_stats(&world->kit).bytes_memory;
    assert_true(world->fixed > 0 && world->fixed < FIXED_MAX);
}

static void close_world(struct world *world)
{
    for (size_t i = 0; i < SLOTS; i++) {
        hearth_plan_release(&world->plans[i]);
        hearth_store_close(&world->stores[i]);
    }
    kit_check(&world->kit);
    hearth_space_close(&world->other.space);
    kit_close(&world->kit);
    assert_int_equal(world->bytes_arenas, 0);
}

static void test_i93_every_byte_is_in_the_ledger(void **state)
{
    static struct world world;

    (void)state;
    world.seed = test_seed();
    mem_set_account(&world.heap);
    open_world(&world);
    for (int i = 0; i < STEPS; i++) {
        step(&world);
        compare(&world);
    }
    print_message("%llu times without room\n", (unsigned long long)world.turned_away);
    assert_true(kit_stats(&world.kit).evictions > 100);
    close_world(&world);
    assert_int_equal(atomic_load(&world.heap), 0); /* nothing leaks */
    mem_set_account(NULL);
}

/* What opening one of them takes from the heap, and from the ledger. */
struct cost {
    long long heap;
    uint64_t books;
};

static struct cost cost_now(const struct kit *kit, atomic_llong *heap)
{
    return (struct cost){atomic_load(heap), kit_stats(kit).bytes_memory};
}

static void expect_paid(const struct kit *kit, atomic_llong *heap, struct cost before)
{
    struct cost now = cost_now(kit, heap);

    assert_true(now.heap > before.heap + 80000); /* it has the tokens */
    assert_true((uint64_t)(now.heap - before.heap) <= now.books - before.books + 64);
}

static void test_i93_each_request_pays_for_itself(void **state)
{
    enum { COUNT = 20000 };
    static atomic_llong heap;
    int32_t *tokens = mem_alloc_array(COUNT, sizeof(*tokens));
    struct hearth_store *store;
    struct hearth_plan *plan;
    struct kit kit;

    (void)state;
    kit_open(&kit, 32 << 20, HEARTH_KIND_FULL);
    kit_tokens(tokens, COUNT, 1);
    kit_store(&kit, tokens, COUNT, NULL); /* a plan of hundreds of objects */
    kit_restore(&kit, tokens, COUNT, NULL);
    mem_set_account(&heap);
    struct cost before = cost_now(&kit, &heap);
    assert_int_equal(hearth_lookup(kit.space, tokens, COUNT, NULL, &plan), HEARTH_OK);
    assert_true(hearth_plan_info(plan)->objects_count > 300);
    expect_paid(&kit, &heap, before);
    before = cost_now(&kit, &heap);
    assert_int_equal(hearth_store_open(kit.space, tokens, COUNT, NULL, &store), HEARTH_OK);
    expect_paid(&kit, &heap, before);
    hearth_plan_release(&plan);
    hearth_store_close(&store);
    assert_int_equal(atomic_load(&heap), 0);
    mem_set_account(NULL);
    kit_check(&kit);
    kit_close(&kit);
    mem_free(tokens);
}

/* Plans and stores alone reach their part of the cap, and no further. Before they are refused,
 * cached objects are evicted for them. */
static void test_i93_requests_have_their_part_and_no_more(void **state)
{
    enum { COUNT = 20000, PLANS = 64 };
    struct hearth_plan *plans[PLANS];
    int32_t *tokens = mem_alloc_array(COUNT, sizeof(*tokens));
    struct kit kit;
    size_t opened = 0;

    (void)state;
    kit_open(&kit, RAM, HEARTH_KIND_FULL);
    kit_tokens(tokens, COUNT, 1);
    kit_store(&kit, tokens, 600, NULL);
    while (opened < PLANS &&
           hearth_lookup(kit.space, tokens + 1, COUNT - 1, NULL, &plans[opened]) == HEARTH_OK)
        opened++;
    assert_true(opened > 2 && opened < PLANS);
    assert_true(kit_stats(&kit).bytes_memory <= RAM);
    assert_int_equal(kit_stats(&kit).objects, 0); /* they had to go first */
    kit_check(&kit);
    while (opened > 0)
        hearth_plan_release(&plans[--opened]);
    assert_int_equal(hearth_lookup(kit.space, tokens, COUNT, NULL, &plans[0]), HEARTH_OK);
    hearth_plan_release(&plans[0]);
    kit_check(&kit);
    kit_close(&kit);
    mem_free(tokens);
}

TEST_SUITE(TEST(test_i93_every_byte_is_in_the_ledger), TEST(test_i93_each_request_pays_for_itself),
           TEST(test_i93_requests_have_their_part_and_no_more))
