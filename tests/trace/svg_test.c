#include <string.h>

#include "base/buf.h"
#include "support/test.h"
#include "support/trace_kit.h"
#include "trace/report.h"

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

static struct report_row make_row(const char *policy, uint64_t capacity, uint64_t hit)
{
    return (struct report_row){.policy = policy,
                               .capacity_bytes = capacity,
                               .capacity_blocks = capacity,
                               .result = {.tokens = 100, .tokens_hit = hit}};
}

static void test_one_line_per_policy_one_point_per_row(void **state)
{
    struct report_row rows[] = {make_row("lru-tail", 1000, 10), make_row("lru-tail", 2000, 20),
                                make_row("opt", 2000, 35), make_row("opt", 1000, 30)};
    struct report report = {.version = "1",
                            .machine = "<m & m>",
                            .files = "f",
                            .cost = &trace_kit_full,
                            .rows = rows,
                            .rows_count = 4};
    struct buf out;

    (void)state;
    buf_init(&out, 1 << 20);
    report_write_svg(&report, &out);
    const char *text = buf_str(&out);
    assert_int_equal(count_of(text, "<polyline"), 2);
    assert_int_equal(count_of(text, "<circle"), 4);
    assert_int_equal(count_of(text, ">1,000<"), 1); /* a tick per capacity */
    assert_int_equal(count_of(text, "&#60;m &#38; m&#62;"), 1);
    assert_int_equal(count_of(text, "<svg"), 1);
    assert_int_equal(count_of(text, "</svg>"), 1);
    assert_int_equal(count_of(text, ">40%<"), 1); /* the axis ends above the best */
    assert_int_equal(count_of(text, "nan"), 0);
    buf_fini(&out);
}

static void test_a_single_point_and_none_are_drawn(void **state)
{
    struct report_row row = make_row("opt", 5, 0);
    struct report report = {
        .version = "1", .machine = "m", .files = "f", .cost = &trace_kit_full, .rows = &row};

    (void)state;
    for (report.rows_count = 0; report.rows_count <= 1; report.rows_count++) {
        struct buf out;
        buf_init(&out, 1 << 20);
        report_write_svg(&report, &out);
        assert_int_equal(count_of(buf_str(&out), "<circle"), report.rows_count);
        assert_int_equal(count_of(buf_str(&out), "nan") + count_of(buf_str(&out), "inf"), 0);
        buf_fini(&out);
    }
}

TEST_SUITE(TEST(test_one_line_per_policy_one_point_per_row),
           TEST(test_a_single_point_and_none_are_drawn))
