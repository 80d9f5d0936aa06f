/* turns_test.c: order among tenants, the limit and shares, and consumers that wait. */
#include "base/turns.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"
#include "support/test.h"

enum { ITEMS = 64 };

struct item {
    struct list_node link;
    char tenant[8];
    unsigned number; /* of its tenant */
    bool waits;
};

struct world {
    struct turns *turns;
    struct item items[ITEMS];
    size_t count;
};

static bool push(struct world *world, const char *tenant, size_t limit)
{
    struct item *item = &world->items[world->count];
    unsigned number = 0;

    assert_true(world->count < ITEMS);
    for (size_t i = 0; i < world->count; i++)
        number += strcmp(world->items[i].tenant, tenant) == 0;
    *item = (struct item){.number = number, .waits = true};
    snprintf(item->tenant, sizeof(item->tenant), "%s", tenant);
    if (!turns_push(world->turns, &item->link, tenant, limit))
        return false;
    world->count++;
    return true;
}

static struct item *pop(struct world *world)
{
    struct item *item = CONTAINER_OF(turns_pop(world->turns), struct item, link);

    item->waits = false;
    return item;
}

/* What is popped, as "a0 b0 ". */
static void expect(struct world *world, const char *order)
{
    char text[256] = "";

    while (turns_count(world->turns) > 0) {
        const struct item *item = pop(world);
        size_t len = strlen(text);
        snprintf(text + len, sizeof(text) - len, "%s%u ", item->tenant, item->number);
    }
    assert_string_equal(text, order);
}

static struct world open_world(void)
{
    return (struct world){.turns = turns_create("test")};
}

static void test_one_tenant_is_first_in_first_out(void **state)
{
    struct world world = open_world();

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_true(push(&world, "a", 4));
    assert_false(push(&world, "a", 4));
    expect(&world, "a0 a1 a2 a3 ");
    turns_destroy(&world.turns);
    assert_null(world.turns);
    turns_destroy(&world.turns);
}

static void test_tenants_take_turns(void **state)
{
    struct world world = open_world();

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(push(&world, "a", 100));
    assert_true(push(&world, "b", 100));
    assert_true(push(&world, "c", 100) && push(&world, "c", 100));
    expect(&world, "a0 b0 c0 a1 c1 a2 a3 a4 ");
    /* one that comes back is behind those that waited */
    assert_true(push(&world, "a", 100) && push(&world, "a", 100) && push(&world, "b", 100));
    assert_string_equal(pop(&world)->tenant, "a");
    assert_true(push(&world, "c", 100));
    expect(&world, "b1 a6 c2 ");
    turns_destroy(&world.turns);
}

/* A flood fills the queue; each tenant that comes after it gets its share, and no more. */
static void test_a_full_queue_has_room_for_others(void **state)
{
    struct world world = open_world();
    unsigned a = 0, b = 0, c = 0;

    (void)state;
    while (push(&world, "a", 8))
        a++;
    while (push(&world, "b", 8))
        b++;
    while (push(&world, "c", 8))
        c++;
    assert_int_equal(a, 8);
    assert_int_equal(b, 4);
    assert_int_equal(c, 2); /* 8 / 3 */
    assert_false(push(&world, "a", 8) || push(&world, "b", 8));
    while (turns_count(world.turns) > 7)
        (void)pop(&world);
    assert_true(push(&world, "a", 8)); /* there is room for all */
    while (turns_count(world.turns) > 0)
        (void)pop(&world);
    for (unsigned i = 0; i < 5; i++) { /* more tenants than places: one each */
        char name[2] = {(char)('p' + i), '\0'};
        assert_true(push(&world, name, 2));
        assert_int_equal(push(&world, name, 2), i == 0);
    }
    while (turns_count(world.turns) > 0)
        (void)pop(&world);
    turns_destroy(&world.turns);
}

/* Random operations: the oldest item of the tenant whose last turn is the longest ago. */
static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 100; round++) {
        struct world world = open_world();
        unsigned turn = 1,
                 came[4] = {0}; /* when the tenant joined the others; 0: it waits for none */
        while (world.count < ITEMS) {
            size_t which = test_random_below(&seed, COUNT_OF(came));
            if (test_random_below(&seed, 2) == 0) {
                assert_true(push(&world, (const char[]){(char)('a' + which), '\0'}, ITEMS));
                came[which] = came[which] > 0 ? came[which] : turn++;
                continue;
            }
            if (turns_count(world.turns) == 0)
                continue;
            size_t next = COUNT_OF(came);
            for (size_t i = 0; i < COUNT_OF(came); i++)
                if (came[i] > 0 && (next == COUNT_OF(came) || came[i] < came[next]))
                    next = i;
            const struct item *item = pop(&world);
            assert_int_equal(item->tenant[0], 'a' + next);
            came[next] = 0;
            for (size_t i = 0; i < world.count; i++) {
                if (world.items[i].waits && world.items[i].tenant[0] == item->tenant[0]) {
                    assert_true(world.items[i].number > item->number);
                    came[next] = turn;
                }
            }
            turn++;
        }
        while (turns_count(world.turns) > 0)
            (void)pop(&world);
        turns_destroy(&world.turns);
    }
}

struct consumer {
    struct world *world;
    unsigned popped;
};

static void consume(void *arg)
{
    struct consumer *consumer = arg;

    while (turns_pop(consumer->world->turns) != NULL)
        consumer->popped++;
}

static void test_consumers_wait_until_it_is_closed(void **state)
{
    struct world world = open_world();
    struct consumer consumers[2] = {{&world, 0}, {&world, 0}};
    struct thread threads[2] = {{.started = false}, {.started = false}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_ok(thread_start(&threads[i], "consumer", consume, &consumers[i], NULL));
    for (size_t i = 0; i < 50; i++)
        assert_true(push(&world, i % 3 == 0 ? "a" : "b", ITEMS));
    turns_close(world.turns);
    turns_close(world.turns);
    assert_false(push(&world, "a", ITEMS));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        thread_join(&threads[i]);
    assert_int_equal(consumers[0].popped + consumers[1].popped, 50);
    turns_destroy(&world.turns);
}

TEST_SUITE(TEST(test_one_tenant_is_first_in_first_out), TEST(test_tenants_take_turns),
           TEST(test_a_full_queue_has_room_for_others), TEST(test_equals_oracle),
           TEST(test_consumers_wait_until_it_is_closed))
