#include "engine/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { COUNT_MAX = 3000 };

/* All cuts of a schedule, found by the words of the header: one pass over all marks, no cells, no
 * search. */
static void oracle(const struct schedule *schedule, bool *cuts)
{
    int64_t last = (int64_t)schedule->count - 1;

    for (int64_t at = 0; at <= last + 1; at++)
        cuts[at] = at == 0 || at >= last || at % schedule->grid == 0;
    for (size_t i = 0; i < schedule->marks_count; i++) {
        int64_t mark = schedule->marks[i];
        if (mark <= 0 || mark >= last)
            continue;
        cuts[mark] = true;
    }
    for (size_t i = 0; i < schedule->runs_count; i++) {
        const struct schedule_run *run = &schedule->runs[i];
        cuts[run->begin] = cuts[run->end] = true;
        for (uint32_t at = run->begin + 1; at < run->end; at++)
            cuts[at] = false;
    }
}

/* Pictures between texts, all before the last token; some follow each other at once. */
static size_t random_runs(uint64_t *seed, struct schedule_run *runs, size_t max, uint32_t count)
{
    size_t used = 0;

    for (uint32_t at = 0; used < max; used++) {
        uint32_t begin = at + (uint32_t)test_random_below(seed, 40) / 2 * 2;
        uint32_t end = begin + 1 + (uint32_t)test_random_below(seed, 60);
        if (end >= count)
            break;
        runs[used] = (struct schedule_run){begin, end};
        at = end;
    }
    return used;
}

/* Marks in ascending order, some of them twice, some beyond the end. */
static size_t random_marks(uint64_t *seed, uint32_t *marks, size_t max, uint32_t span)
{
    size_t count = test_random_below(seed, max + 1);
    uint32_t at = (uint32_t)test_random_below(seed, 3);

    for (size_t i = 0; i < count; i++) {
        marks[i] = at;
        at += (uint32_t)test_random_below(seed, MAX(2, 2 * span / MAX(count, 1)));
    }
    return count;
}

static struct schedule random_schedule(uint64_t *seed, uint32_t *marks, size_t marks_max)
{
    struct schedule schedule = {0};
    uint32_t sizes[] = {1, 2, 3, 5, 17, 64, 100, COUNT_MAX};

    schedule.count = 1 + (uint32_t)test_random_below(seed, sizes[test_random_below(seed, 8)]);
    schedule.grid = 1 + (uint32_t)test_random_below(seed, sizes[test_random_below(seed, 8)]);
    schedule.marks = marks;
    schedule.marks_count = random_marks(seed, marks, marks_max, schedule.count + 5);
    return schedule;
}

static bool is_cut(const struct schedule *schedule, uint32_t at)
{
    return schedule_floor(schedule, at) == at;
}

static void check_against_oracle(const struct schedule *schedule, const bool *cuts)
{
    uint32_t count = schedule->count, floor = 0;

    for (uint32_t at = 0; at <= count; at++) {
        if (cuts[at])
            floor = at;
        assert_int_equal(is_cut(schedule, at), cuts[at]);
        assert_int_equal(schedule_floor(schedule, at), floor);
    }
    for (uint32_t from = count, next = count; from-- > 0;) {
        assert_int_equal(schedule_next(schedule, from), next);
        if (cuts[from])
            next = from;
    }
    assert_false(is_cut(schedule, count + 1));
    assert_int_equal(schedule_floor(schedule, count + 1), count);
    assert_int_equal(schedule_floor(schedule, UINT32_MAX), count);
}

/* is_cut, floor and next at every token, cuts or not, against the brute-force list. */
static void test_equals_oracle(void **state)
{
    uint64_t seed = test_seed();
    static uint32_t marks[200];
    static struct schedule_run runs[50];
    static bool cuts[COUNT_MAX + 2];

    (void)state;
    for (int round = 0; round < 1500; round++) {
        struct schedule schedule = random_schedule(&seed, marks, COUNT_OF(marks));
        schedule.runs = runs;
        schedule.runs_count =
            round % 2 == 0 ? random_runs(&seed, runs, COUNT_OF(runs), schedule.count) : 0;
        oracle(&schedule, cuts);
        check_against_oracle(&schedule, cuts);
    }
}

/* What a run relies on, stated without the oracle. */
static void test_i24_chunks_are_whole_and_canonical(void **state)
{
    uint64_t seed = test_seed();
    static uint32_t marks[200];

    (void)state;
    for (int round = 0; round < 1500; round++) {
        struct schedule schedule = random_schedule(&seed, marks, COUNT_OF(marks));
        uint32_t last = schedule.count - 1;
        for (uint32_t from = 0, next; from < schedule.count; from = next) {
            next = schedule_next(&schedule, from);
            assert_true(next > from && next <= schedule.count);
            assert_true(next - from <= schedule.grid);
            assert_true(from != last || next == schedule.count);
            assert_true(from >= last || next <= last);
            for (uint32_t at = from + 1; at < next; at++)
                assert_true(at % schedule.grid != 0);
        }
    }
}

/* Restored at any cut, a run executes the chunks that the cold run executes after it: nothing is
 * remembered. */
static void test_i110_any_cut_starts_the_same_chunks(void **state)
{
    uint64_t seed = test_seed();
    static uint32_t marks[64], cold[COUNT_MAX + 2];

    (void)state;
    for (int round = 0; round < 100; round++) {
        struct schedule schedule = random_schedule(&seed, marks, COUNT_OF(marks));
        size_t cuts = 0;
        for (uint32_t at = 0; at < schedule.count; at = schedule_next(&schedule, at))
            cold[cuts++] = at;
        cold[cuts++] = schedule.count;
        for (size_t start = 0; start + 1 < cuts; start += 1 + cuts / 50) {
            struct schedule again = schedule;
            uint32_t at = cold[start];
            for (size_t i = start + 1; i < cuts; i++) {
                at = schedule_next(&again, at);
                assert_int_equal(at, cold[i]);
            }
        }
    }
}

/* A prompt and a longer one with the same marks have the same cuts below the end of the shorter;
 * marks that only the longer has, beyond that, change nothing. */
static void test_extension_keeps_the_cuts(void **state)
{
    uint64_t seed = test_seed();
    static uint32_t marks[200];

    (void)state;
    for (int round = 0; round < 1500; round++) {
        struct schedule longer = random_schedule(&seed, marks, COUNT_OF(marks));
        struct schedule shorter = longer;
        shorter.count = 1 + (uint32_t)test_random_below(&seed, longer.count);
        while (shorter.marks_count > 0 && marks[shorter.marks_count - 1] >= shorter.count)
            shorter.marks_count--;
        for (uint32_t at = 0; at + 1 < shorter.count; at++)
            assert_int_equal(is_cut(&shorter, at), is_cut(&longer, at));
    }
}

static void test_header_drawing(void **state)
{
    const uint32_t marks[] = {600, 1000};
    const uint32_t cuts[] = {256, 512, 600, 768, 1000, 1023, 1024};
    struct schedule schedule = {1024, 256, marks, 2, NULL, 0};
    uint32_t at = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        at = schedule_next(&schedule, at);
        assert_int_equal(at, cuts[i]);
    }
}

static void test_marks_and_the_grid_are_cuts(void **state)
{
    const uint32_t marks[] = {9, 20, 20, 100, 110, 150, 195};
    struct schedule schedule = {200, 100, marks, COUNT_OF(marks), NULL, 0};
    const uint32_t cuts[] = {9, 20, 100, 110, 150, 195, 199, 200};
    uint32_t at = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        at = schedule_next(&schedule, at);
        assert_int_equal(at, cuts[i]);
    }
    /* Near the end as well: the longer prompt of the next turn cuts there. */
    schedule.count = 152;
    assert_true(is_cut(&schedule, 150));
    assert_int_equal(schedule_next(&schedule, 110), 150);
    assert_int_equal(schedule_next(&schedule, 150), 151);
}

static void test_shortest_prompts(void **state)
{
    const uint32_t marks[] = {0, 1, 2, 3};
    struct schedule one = {1, 512, marks, 4, NULL, 0}, two = {2, 512, marks, 4, NULL, 0};

    (void)state;
    assert_int_equal(schedule_next(&one, 0), 1);
    assert_true(is_cut(&one, 0) && is_cut(&one, 1));
    assert_false(is_cut(&one, 2));
    assert_int_equal(schedule_floor(&one, 0), 0);
    assert_int_equal(schedule_floor(&one, 7), 1);
    assert_int_equal(schedule_next(&two, 0), 1);
    assert_int_equal(schedule_next(&two, 1), 2);
    assert_int_equal(schedule_floor(&two, 1), 1);
    two.marks = NULL;
    two.marks_count = 0;
    assert_int_equal(schedule_next(&two, 0), 1);
}

/* Sums of 32-bit numbers do not wrap. */
static void test_ends_of_the_number_range(void **state)
{
    const uint32_t marks[] = {5, UINT32_MAX - 2, UINT32_MAX};
    struct schedule schedule = {UINT32_MAX, UINT32_MAX, marks, 3, NULL, 0};

    (void)state;
    assert_int_equal(schedule_next(&schedule, 0), 5);
    assert_int_equal(schedule_next(&schedule, UINT32_MAX - 2), UINT32_MAX - 1);
    assert_int_equal(schedule_next(&schedule, UINT32_MAX - 1), UINT32_MAX);
    schedule.grid = 1u << 31;
    assert_int_equal(schedule_next(&schedule, 0), 5);
    assert_int_equal(schedule_next(&schedule, 5), 1u << 31);
    assert_int_equal(schedule_next(&schedule, 1u << 31), UINT32_MAX - 2);
    assert_int_equal(schedule_floor(&schedule, UINT32_MAX - 2), UINT32_MAX - 2);
}

/* 200,000 tokens with a mark at each of them: the worst there is, and still no time. */
static void test_long_prompt(void **state)
{
    enum { COUNT = 200000 };
    uint32_t *marks = mem_alloc_array(COUNT, sizeof(*marks));
    struct schedule schedule = {COUNT, 512, marks, COUNT, NULL, 0};
    uint32_t chunks = 0;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        marks[i] = i;
    for (uint32_t at = 0; at < COUNT; at = schedule_next(&schedule, at))
        chunks++;
    assert_int_equal(chunks, COUNT);
    mem_free(marks);
}

TEST_SUITE(TEST(test_equals_oracle), TEST(test_i24_chunks_are_whole_and_canonical),
           TEST(test_i110_any_cut_starts_the_same_chunks), TEST(test_extension_keeps_the_cuts),
           TEST(test_header_drawing), TEST(test_marks_and_the_grid_are_cuts),
           TEST(test_shortest_prompts), TEST(test_ends_of_the_number_range), TEST(test_long_prompt))
