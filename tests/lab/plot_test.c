#include "lab/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/sheet.h"
#include "support/test.h"

static const struct sheet_column columns[] = {
    {"case", "case", SHEET_TEXT},
    {"ttft_ms", "TTFT ms", 1},
    {"tokens", "tokens", 0},
};

static struct sheet *filled(void)
{
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));

    sheet_note(sheet, "machine <m & m>");
    sheet_text(sheet, "cold");
    sheet_number(sheet, 812.04);
    sheet_number(sheet, 2000);
    sheet_text(sheet, "<hot>");
    sheet_number(sheet, 3.5);
    sheet_number(sheet, NAN);
    return sheet;
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

static struct buf drawn(struct sheet *sheet, const struct plot *plot)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    assert_ok(plot_write(sheet, plot, &out));
    assert_int_equal(occurrences(buf_str(&out), "<svg"), 1);
    assert_true(strcmp(buf_str(&out) + out.len - 7, "</svg>\n") == 0);
    assert_int_equal(occurrences(buf_str(&out), "nan") + occurrences(buf_str(&out), "inf"), 0);
    sheet_destroy(&sheet);
    return out;
}

/* One bar per number that there is; text of the user's is no markup; the longest bar is the largest
 * number's. */
static void expect_bars(bool logarithmic, double low, double high)
{
    const struct plot plot = {.title = "a & b",
                              .labels = {"case"},
                              .values = {"ttft_ms", "tokens"},
                              .logarithmic = logarithmic};
    struct buf out = drawn(filled(), &plot);
    const char *text = buf_str(&out);
    char bar[64];

    assert_int_equal(occurrences(text, "font-size='11'"), 3);
    assert_int_equal(occurrences(text, "a &#38; b"), 1);
    assert_int_equal(occurrences(text, "machine &#60;m &#38; m&#62;"), 1);
    assert_int_equal(occurrences(text, "&#60;hot&#62;"), 1);
    assert_int_equal(occurrences(text, "<hot>"), 0);
    snprintf(bar, sizeof(bar), "width='%.1f'", low);
    assert_non_null(strstr(text, bar));
    snprintf(bar, sizeof(bar), "width='%.1f'", high);
    assert_non_null(strstr(text, bar));
    buf_fini(&out);
}

static void test_bars(void **state)
{
    (void)state;
    expect_bars(false, 550 * 3.5 / 2000, 550);
    expect_bars(true, 550 * log10(3.5) / log10(2000), 550);
}

static void test_bars_of_nothing(void **state)
{
    const struct plot plot = {
        .title = "none", .labels = {"case"}, .values = {"ttft_ms", "no such"}};
    struct buf out = drawn(sheet_create(columns, COUNT_OF(columns)), &plot);

    (void)state;
    buf_fini(&out);
}

static const struct sheet_column rates[] = {
    {"policy", "policy", SHEET_TEXT},
    {"capacity", "capacity", SHEET_CAPTION},
    {"bytes", NULL, 0},
    {"rate", "rate", SHEET_PERCENT},
};

static const struct plot rate_plot = {.kind = PLOT_LINES,
                                      .title = "rates",
                                      .series = "policy",
                                      .x = "bytes",
                                      .tick = "capacity",
                                      .y = "rate",
                                      .logarithmic = true};

static void add_point(struct sheet *sheet, const char *policy, const char *capacity, double bytes,
                      double rate)
{
    sheet_text(sheet, policy);
    sheet_text(sheet, capacity);
    sheet_number(sheet, bytes);
    sheet_number(sheet, rate);
}

/* Points come in the order of x, whatever order the rows have. */
static void test_one_line_per_name_one_point_per_row(void **state)
{
    struct sheet *sheet = sheet_create(rates, COUNT_OF(rates));

    (void)state;
    add_point(sheet, "lru-tail", "1,000", 1000, 0.1);
    add_point(sheet, "lru-tail", "2,000", 2000, 0.2);
    add_point(sheet, "opt", "2,000", 2000, 0.35);
    add_point(sheet, "opt", "1,000", 1000, 0.3);
    struct buf out = drawn(sheet, &rate_plot);
    const char *text = buf_str(&out), *second = strstr(strstr(text, "<polyline") + 1, "<polyline");
    assert_int_equal(occurrences(text, "<polyline"), 2);
    assert_non_null(second);
    assert_non_null(strstr(second, "points='70.0,")); /* the left one first */
    assert_int_equal(occurrences(text, "<circle"), 4);
    assert_int_equal(occurrences(text, "<title>35.00%</title>"), 1);
    assert_int_equal(occurrences(text, ">1,000<"), 1); /* a tick per capacity */
    assert_int_equal(occurrences(text, ">40%<"), 1);   /* the axis ends above the best */
    assert_int_equal(occurrences(text, ">capacity<"), 1);
    buf_fini(&out);
}

static void test_a_single_point_and_none_are_drawn(void **state)
{
    (void)state;
    for (size_t points = 0; points <= 1; points++) {
        struct sheet *sheet = sheet_create(rates, COUNT_OF(rates));
        if (points > 0)
            add_point(sheet, "opt", "5", 5, 0);
        struct buf out = drawn(sheet, &rate_plot);
        assert_int_equal(occurrences(buf_str(&out), "<circle"), points);
        buf_fini(&out);
    }
}

/* Numbers that are no parts of 1 have their own axis; a value that is not a number is no point. */
static void test_lines_of_plain_numbers(void **state)
{
    const struct plot plot = {
        .kind = PLOT_LINES, .title = "t", .series = "case", .x = "tokens", .y = "ttft_ms"};
    struct buf out = drawn(filled(), &plot);

    (void)state;
    assert_int_equal(occurrences(buf_str(&out), "<circle"), 1);
    assert_int_equal(occurrences(buf_str(&out), ">900<"), 1);
    assert_int_equal(occurrences(buf_str(&out), ">2000<"), 1);
    buf_fini(&out);
}

static void test_a_full_buffer_is_said(void **state)
{
    struct sheet *sheet = filled();
    const struct plot plot = {.title = "t", .labels = {"case"}, .values = {"ttft_ms"}};
    struct buf out;

    (void)state;
    buf_init(&out, 30);
    assert_err(plot_write(sheet, &plot, &out), ERR_LIMIT);
    buf_fini(&out);
    sheet_destroy(&sheet);
}

TEST_SUITE(TEST(test_bars), TEST(test_bars_of_nothing),
           TEST(test_one_line_per_name_one_point_per_row),
           TEST(test_a_single_point_and_none_are_drawn), TEST(test_lines_of_plain_numbers),
           TEST(test_a_full_buffer_is_said))
