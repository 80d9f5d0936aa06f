/*
 * line_test.c: a line through measurements.
 */
#include "sched/line.h"

#include "support/test.h"

static const double decay = 0.9;

static void test_a_line_is_found(void **state)
{
    struct line line = {0};

    (void)state;
    for (int x = 1; x <= 8; x++)
        line_learn(&line, decay, x, 3 + 2 * x);
    assert_true(line_known(&line));
    assert_float_equal(line_at(&line, 20), 43, 1e-6);
    assert_float_equal(line_slope(&line), 2, 1e-6);
    assert_float_equal(line_each(&line), 2, 1e-6);
}

static void test_nothing_is_known_at_first(void **state)
{
    struct line line = {0};

    (void)state;
    assert_true(line_at(&line, 5) == 0);
    for (int x = 1; x < LINE_SAMPLES; x++)
        line_learn(&line, decay, x, 3 + 2 * x);
    assert_false(line_known(&line));
    assert_true(line_slope(&line) == 0);
    assert_true(line_each(&line) == 0);
}

/* Samples of one place do not tell the start from the slope; a falling line has no slope. */
static void test_no_slope(void **state)
{
    struct line same = {0}, falling = {0};

    (void)state;
    for (int i = 0; i < 8; i++) {
        line_learn(&same, decay, 5, 10);
        line_learn(&falling, decay, i, 20 - i);
    }
    assert_true(line_slope(&same) == 0);
    assert_float_equal(line_at(&same, 10), 20, 1e-6);
    assert_true(line_slope(&falling) == 0);
    assert_float_equal(line_each(&same), 2, 1e-6);
}

static void test_a_surprise_counts_as_twice_the_expected(void **state)
{
    struct line line = {0};

    (void)state;
    for (int x = 1; x <= 8; x++)
        line_learn(&line, decay, x, 2 * x);
    line_learn(&line, decay, 4, 1e9);
    assert_true(line_at(&line, 4) < 16);
}

TEST_SUITE(TEST(test_a_line_is_found), TEST(test_nothing_is_known_at_first), TEST(test_no_slope),
           TEST(test_a_surprise_counts_as_twice_the_expected))
