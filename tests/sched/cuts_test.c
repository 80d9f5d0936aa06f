#include "sched/cuts.h"

#include <string.h>

#include "support/test.h"

static const uint32_t marks_a[] = {100, 300}, marks_b[] = {100, 310};

static struct schedule schedule_of(uint32_t count, const uint32_t *marks)
{
    return (struct schedule){.count = count, .grid = 128, .marks = marks, .marks_count = 2};
}

static struct cuts_shape filled(uint32_t kind, uint32_t begin, uint32_t end,
                                const struct schedule *schedule)
{
    struct cuts_shape shape;

    memset(&shape, 0, sizeof(shape));
    shape.state = (struct state_shape){.kind = kind, .begin = begin, .end = end};
    cuts_fill(&shape, schedule);
    return shape;
}

static void test_rows_agree_as_far_as_cuts_do(void **state)
{
    struct schedule a = schedule_of(600, marks_a), b = schedule_of(700, marks_b);
    struct cuts_shape shape = filled(STATE_ROWS, 0, 512, &a);

    (void)state;
    assert_int_equal(cuts_agreed(&shape, &a, 512), 512);
    /* cuts 100 128 256, then 300 against 310 */
    assert_int_equal(cuts_agreed(&shape, &b, 512), 256);
    assert_int_equal(cuts_agreed(&shape, &b, 256), 256);
    /* What comes behind another history is of no use, whatever its own cuts. */
    shape = filled(STATE_ROWS, 384, 512, &a);
    assert_int_equal(cuts_agreed(&shape, &a, 512), 512);
    assert_int_equal(cuts_agreed(&shape, &b, 512), 384);
}

static void test_snapshots_agree_or_not(void **state)
{
    struct schedule a = schedule_of(600, marks_a), b = schedule_of(700, marks_b);
    struct cuts_shape shape = filled(STATE_SNAPSHOT, 0, 256, &a);

    (void)state;
    assert_int_equal(cuts_agreed(&shape, &b, 256), 256);
    shape = filled(STATE_SNAPSHOT, 0, 384, &a);
    assert_int_equal(cuts_agreed(&shape, &a, 384), 384);
    assert_int_equal(cuts_agreed(&shape, &b, 384), 383);
}

static void test_unknown_cuts_agree_with_nothing(void **state)
{
    struct schedule a = schedule_of(600, marks_a);
    struct cuts_shape rows = filled(STATE_ROWS, 0, 512, &a);
    struct cuts_shape snapshot = filled(STATE_SNAPSHOT, 0, 256, &a);

    (void)state;
    cuts_forget(&rows);
    cuts_forget(&snapshot);
    assert_int_equal(cuts_agreed(&rows, &a, 512), 0);
    assert_int_equal(cuts_agreed(&snapshot, &a, 256), 255);
}

/* More cuts than are remembered: used as far as they are. */
static void test_too_many_cuts(void **state)
{
    uint32_t marks[40];
    struct schedule many = {
        .count = 600, .grid = 512, .marks = marks, .marks_count = COUNT_OF(marks)};

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(marks); i++)
        marks[i] = (i + 1) * 5;
    struct cuts_shape shape = filled(STATE_ROWS, 0, 400, &many);
    assert_true(shape.cuts_count > CUTS_MAX);
    assert_int_equal(cuts_agreed(&shape, &many, 400), CUTS_MAX * 5);
    assert_int_equal(cuts_agreed(&shape, &many, 60), 60);
}

TEST_SUITE(TEST(test_rows_agree_as_far_as_cuts_do), TEST(test_snapshots_agree_or_not),
           TEST(test_unknown_cuts_agree_with_nothing), TEST(test_too_many_cuts))
