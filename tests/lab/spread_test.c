#include "lab/spread.h"

#include <math.h>

#include "support/test.h"

static void test_nearest_rank(void **state)
{
    double values[] = {40, 15, 50, 20, 35};

    (void)state;
    struct spread spread = spread_of(values, 5);
    assert_int_equal(spread.count, 5);
    assert_true(spread.mean == 32 && spread.min == 15 && spread.max == 50);
    assert_true(spread.p50 == 35 && spread.p90 == 50 && spread.p99 == 50);
    assert_true(spread_percentile(values, 5, 30) == 20 && spread_percentile(values, 5, 40) == 20);
    assert_true(spread_percentile(values, 5, 41) == 35 && spread_percentile(values, 5, 0) == 15);
}

static void test_none_and_one(void **state)
{
    double one = 3;

    (void)state;
    assert_true(spread_of(NULL, 0).p99 == 0 && spread_of(NULL, 0).count == 0);
    struct spread spread = spread_of(&one, 1);
    assert_true(spread.p50 == 3 && spread.p99 == 3 && spread.mean == 3);
}

/* Two rounds whose ratios are 0.9 and 1.1 say 1, not 0.9. */
static void test_the_median_favours_no_side(void **state)
{
    double two[] = {1.1, 0.9}, four[] = {8, 2, 4, 1}, three[] = {3, 1, 2};

    (void)state;
    assert_true(isnan(spread_median(NULL, 0)));
    assert_float_equal(spread_median(two, 2), 1, 1e-9);
    assert_true(spread_median(four, 4) == 3 && spread_median(three, 3) == 2);
}

/* Against counting: the percentile is the smallest value that enough are not above. */
static void test_random_against_counting(void **state)
{
    double values[200];
    uint64_t random = test_seed();

    (void)state;
    for (size_t n = 1; n < 200; n += 7) {
        for (size_t i = 0; i < n; i++)
            values[i] = (double)test_random_below(&random, 50);
        (void)spread_of(values, n);
        for (unsigned percent = 1; percent <= 100; percent++) {
            double found = spread_percentile(values, n, percent);
            size_t below = 0, not_above = 0;
            for (size_t i = 0; i < n; i++) {
                below += values[i] < found;
                not_above += values[i] <= found;
            }
            assert_true(not_above * 100 >= percent * n);
            assert_true(below * 100 < percent * n);
        }
    }
}

TEST_SUITE(TEST(test_the_median_favours_no_side), TEST(test_nearest_rank), TEST(test_none_and_one),
           TEST(test_random_against_counting))
