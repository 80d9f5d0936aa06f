/*
 * store_cost_test.c: what exports cost is learned from them, and decides what is stored.
 */
#include "sched/store_cost.h"

#include "base/clock.h"
#include "support/test.h"

#define MIB ((uint64_t)1 << 20)

static struct store_piece rows_of(uint64_t mib, uint64_t scattered_mib)
{
    return (struct store_piece){.bytes = mib * MIB, .scattered = scattered_mib * MIB};
}

static void learn(struct store_cost *cost, struct store_piece piece, uint64_t ms)
{
    store_cost_learn(cost, &piece, ms * NS_PER_MS);
}

static unsigned ms_of(const struct store_cost *cost, struct store_piece piece)
{
    return (unsigned)(store_cost_ns(cost, &piece) / (double)NS_PER_MS + 0.5);
}

/* 3 ms for a call and 2 ms for a MiB. */
static void learn_rows(struct store_cost *cost)
{
    for (uint64_t mib = 1; mib <= 8; mib++)
        learn(cost, rows_of(mib, 0), 3 + 2 * mib);
}

static void test_a_line_is_learned(void **state)
{
    struct store_cost cost = {0};

    (void)state;
    learn_rows(&cost);
    assert_int_equal(ms_of(&cost, rows_of(1, 0)), 5);
    assert_int_equal(ms_of(&cost, rows_of(20, 0)), 43);
}

/* Samples of one size do not tell a call from its bytes. */
static void test_one_size(void **state)
{
    struct store_cost cost = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        learn(&cost, rows_of(8, 0), 16);
    assert_int_equal(ms_of(&cost, rows_of(8, 0)), 16);
    assert_int_equal(ms_of(&cost, rows_of(2, 0)), 4);
}

static void test_nothing_is_known_at_first(void **state)
{
    struct store_cost cost = {0};

    (void)state;
    for (int i = 1; i < LINE_SAMPLES; i++)
        learn(&cost, rows_of(8, 0), 16);
    assert_int_equal(ms_of(&cost, rows_of(8, 0)), 0);
    learn(&cost, rows_of(8, 0), 16);
    assert_int_equal(ms_of(&cost, rows_of(8, 0)), 16);
    /* what is small is neither learned nor judged */
    struct store_piece small = {.bytes = MIB - 1};
    for (int i = 0; i < 100; i++)
        learn(&cost, small, 1000);
    assert_int_equal(ms_of(&cost, small), 0);
    assert_int_equal(ms_of(&cost, rows_of(8, 0)), 16);
}

static void test_scattered_rows_and_snapshots_have_their_own(void **state)
{
    struct store_cost cost = {0};
    struct store_piece snapshot = {.bytes = 4 * MIB, .snapshot = true};

    (void)state;
    learn_rows(&cost);
    assert_int_equal(ms_of(&cost, rows_of(10, 1)), 0);
    for (uint64_t mib = 1; mib <= 8; mib++)
        learn(&cost, rows_of(2 + mib, mib), 3 + 2 * 2 + 50 * mib);
    assert_int_equal(ms_of(&cost, rows_of(10, 0)), 23);
    assert_int_equal(ms_of(&cost, rows_of(10, 1)), 3 + 2 * 9 + 50);
    assert_int_equal(ms_of(&cost, snapshot), 0);
    for (int i = 0; i < LINE_SAMPLES; i++)
        learn(&cost, snapshot, 7);
    assert_int_equal(ms_of(&cost, snapshot), 7);
}

/* A thread that was not scheduled for a while does not make exports expensive; what is slower from
 * now on does. */
static void test_surprises(void **state)
{
    struct store_cost cost = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        learn(&cost, rows_of(8, 0), 16);
    learn(&cost, rows_of(8, 0), 10000);
    assert_true(ms_of(&cost, rows_of(8, 0)) <= 19);
    for (int i = 0; i < 100; i++)
        learn(&cost, rows_of(8, 0), 160);
    assert_uint_in_range(ms_of(&cost, rows_of(8, 0)), 155, 160);
}

static void test_prices(void **state)
{
    struct store_cost cost = {0};

    (void)state;
    assert_true(store_cost_pays(&cost, 1000, 1, STORE_ANY_PRICE));
    assert_true(store_cost_pays(&cost, 0, 1, STORE_UNFORCED));
    assert_true(store_cost_pays(&cost, 1, 0, STORE_UNFORCED));
    assert_true(store_cost_pays(&cost, 100, 100, STORE_CERTAIN));
    assert_false(store_cost_pays(&cost, 101, 100, STORE_CERTAIN));
    assert_true(store_cost_pays(&cost, 100, 800, STORE_EVICTED));
    assert_false(store_cost_pays(&cost, 100, 799, STORE_EVICTED));
    assert_true(store_cost_pays(&cost, 100, 3200, STORE_UNFORCED));
    assert_false(store_cost_pays(&cost, 100, 3199, STORE_UNFORCED));
}

/* An estimate that nothing corrects would be final. */
static void test_one_in_many_is_tried(void **state)
{
    struct store_cost cost = {0};
    unsigned made = 0;

    (void)state;
    for (int i = 0; i < 3 * STORE_COST_RETRY; i++) {
        made += store_cost_pays(&cost, 100, 100, STORE_EVICTED);
        assert_false(store_cost_pays(&cost, 100, 100, STORE_UNFORCED));
        assert_true(store_cost_pays(&cost, 1, 100, STORE_EVICTED));
    }
    assert_int_equal(made, 3);
}

static void test_scatter(void **state)
{
    struct scatter scatter = {0};

    (void)state;
    assert_int_equal(scatter_count(&scatter, 0, 1000), 0);
    for (uint32_t at = 100; at < 110; at++)
        scatter_add(&scatter, at);
    assert_int_equal(scatter_count(&scatter, 0, 1000), 10);
    assert_int_equal(scatter_count(&scatter, 0, 100), 0);
    assert_int_equal(scatter_count(&scatter, 105, 1000), 5);
    assert_int_equal(scatter_cut(&scatter, 105).tokens, 5);
    assert_int_equal(scatter_cut(&scatter, 100).tokens, 0);
    /* the next turn: thinner, never less */
    scatter = scatter_cut(&scatter, 200);
    assert_int_equal(scatter.tokens, 10);
    for (uint32_t at = 190; at < 200; at++)
        scatter_add(&scatter, at);
    assert_int_equal(scatter_count(&scatter, 0, 1000), 20);
    assert_uint_in_range(scatter_count(&scatter, 100, 110), 2, 3);
}

TEST_SUITE(TEST(test_a_line_is_learned), TEST(test_one_size), TEST(test_nothing_is_known_at_first),
           TEST(test_scattered_rows_and_snapshots_have_their_own), TEST(test_surprises),
           TEST(test_prices), TEST(test_one_in_many_is_tried), TEST(test_scatter))
