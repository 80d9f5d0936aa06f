/* spread_test.c: the bounds that spread.h promises, on random prompts. */
#include "base/spread.h"

#include "base/attr.h"
#include "support/test.h"

enum { GRID = 512, TRIALS = 300, CANDIDATES = 400 };

static struct spread_candidate candidates[CANDIDATES];

static uint32_t before(const uint32_t *places, size_t count, uint32_t from, uint32_t fork)
{
    uint32_t last = from;

    for (size_t i = 0; i < count && places[i] <= fork; i++)
        last = places[i];
    return last;
}

static void check_order(const struct spread *spread, const uint32_t *places, size_t count)
{
    uint32_t cuts = 0;

    assert_true(count <= MIN(spread->places_max, SPREAD_MAX));
    for (size_t i = 0; i < count; i++) {
        bool known = places[i] % spread->grid == 0, candidate = false;
        for (size_t j = 0; j < spread->count; j++)
            if (spread->candidates[j].at == places[i]) {
                known |= spread->candidates[j].cut;
                candidate = true;
            }
        assert_true(places[i] > (i > 0 ? places[i - 1] : spread->from) && places[i] < spread->end);
        assert_true(known || candidate || !spread->fixed);
        cuts += !known;
    }
    assert_true(cuts <= spread->cuts_max);
}

/* A fork at any place computes at most half as much as what follows it, or a few tokens; at most a
 * tenth at most places. */
static void test_forks_anywhere_are_near_a_place(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t from = (uint32_t)test_random_below(&seed, 4000), places[SPREAD_MAX];
        uint32_t end = from + 4 * GRID + (uint32_t)test_random_below(&seed, 60000);
        struct spread spread = {
            .from = from, .end = end, .grid = GRID, .places_max = SPREAD_MAX, .cuts_max = 16};
        size_t count = spread_choose(&spread, places), near = 0, all = 0;
        check_order(&spread, places, count);
        for (uint32_t fork = from + 1; fork < end; fork += 7, all++) {
            uint32_t rest = end - fork, again = fork - before(places, count, from, fork);
            assert_true(again <= MAX(rest / 2 + 1, SPREAD_NEAR));
            near += again <= rest / 10;
        }
        if (end - from > 11 * GRID) /* in a shorter one, a chunk is more than a tenth */
            assert_true(2 * near >= all);
    }
}

/* Limits hold, whatever they are, and a few places are better than none. */
static void test_limits_hold(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        uint32_t from = (uint32_t)test_random_below(&seed, 4000), places[SPREAD_MAX];
        struct spread spread = {.from = from,
                                .end = from + 1 + (uint32_t)test_random_below(&seed, 90000),
                                .grid = 1 + (uint32_t)test_random_below(&seed, 2 * GRID),
                                .candidates = candidates,
                                .places_max = (uint32_t)test_random_below(&seed, 80),
                                .cuts_max = (uint32_t)test_random_below(&seed, 20),
                                .fixed = test_random_below(&seed, 2)};
        for (uint32_t at = from; spread.count < CANDIDATES;) {
            at += 1 + (uint32_t)test_random_below(&seed, 400);
            if (at >= spread.end)
                break;
            candidates[spread.count++] =
                (struct spread_candidate){at, (float)(1 + test_random_below(&seed, 80)) / 10,
                                          test_random_below(&seed, 3) == 0};
        }
        size_t count = spread_choose(&spread, places);
        check_order(&spread, places, count);
        if (spread.places_max > 0 && spread.end - from > 2 * spread.grid + SPREAD_NEAR)
            assert_true(count > 0);
    }
}

/* Where a question begins is a place, and so is the heading of a document, farther from the end. */
static void test_candidates_are_taken(void **state)
{
    const struct spread_candidate some[] = {
        {3000, 4, false}, {4000, 0.5F, false}, {5970, 2, false}};
    struct spread spread = {.end = 6000,
                            .grid = GRID,
                            .candidates = some,
                            .count = COUNT_OF(some),
                            .places_max = SPREAD_MAX,
                            .cuts_max = 11};
    uint32_t places[SPREAD_MAX];

    (void)state;
    size_t count = spread_choose(&spread, places);
    check_order(&spread, places, count);
    assert_int_equal(before(places, count, 0, 5970), 5970);
    assert_int_equal(before(places, count, 0, 3000), 3000);
    assert_true(before(places, count, 0, 4000) < 4000); /* not worth a cut there */
    spread.fixed = true; /* cuts elsewhere are not possible, but candidates are cuts */
    check_order(&spread, places, spread_choose(&spread, places));
    assert_int_equal(before(places, count, 0, 5970), 5970);
}

/* Few cuts: one that keeps the bound is left out where a joint is near, and not the joint. */
static void test_a_joint_is_taken_before_a_chunk(void **state)
{
    const struct spread_candidate some[] = {{2900, 2, false}, {3156, 8, false}};
    const struct spread spread = {.end = 3338,
                                  .grid = GRID,
                                  .candidates = some,
                                  .count = COUNT_OF(some),
                                  .places_max = SPREAD_MAX,
                                  .cuts_max = 3};
    uint32_t places[SPREAD_MAX];

    (void)state;
    size_t count = spread_choose(&spread, places);
    check_order(&spread, places, count);
    assert_int_equal(before(places, count, 0, 3156), 3156);
    assert_int_equal(before(places, count, 0, 3155), 3072); /* free */
}

TEST_SUITE(TEST(test_forks_anywhere_are_near_a_place), TEST(test_limits_hold),
           TEST(test_candidates_are_taken), TEST(test_a_joint_is_taken_before_a_chunk))
