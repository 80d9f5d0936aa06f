#include "bench/sheet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "support/test.h"

static const struct sheet_column columns[] = {
    {"case", "case", SHEET_TEXT},
    {"ttft_ms", "TTFT ms", 1},
    {"tokens", "tokens", 0},
};

static struct sheet *filled(void)
{
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));

    sheet_note(sheet, "machine with %d cores", 2);
    sheet_text(sheet, "cold, \"first\"");
    sheet_number(sheet, 812.04);
    sheet_number(sheet, 2000);
    sheet_text(sheet, "<hot>");
    sheet_number(sheet, 3.5);
    sheet_number(sheet, NAN);
    assert_int_equal(sheet_rows(sheet), 2);
    return sheet;
}

static void expect(enum err (*form)(const struct sheet *sheet, struct buf *out), const char *expected)
{
    struct sheet *sheet = filled();
    struct buf out;

    buf_init(&out, 1 << 20);
    assert_ok(form(sheet, &out));
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
    sheet_destroy(&sheet);
    assert_null(sheet);
}

static void test_table(void **state)
{
    (void)state;
    expect(sheet_write_table, "machine with 2 cores\n\n"
                              "case           TTFT ms  tokens\n"
                              "cold, \"first\"    812.0    2000\n"
                              "<hot>              3.5       -\n");
}

static void test_csv(void **state)
{
    (void)state;
    expect(sheet_write_csv, "# machine with 2 cores\ncase,ttft_ms,tokens\n"
                            "\"cold, \"\"first\"\"\",812.0,2000\n<hot>,3.5,\n");
}

static void test_json(void **state)
{
    (void)state;
    expect(sheet_write_json,
           "{\"notes\":[\"machine with 2 cores\"],\"rows\":["
           "{\"case\":\"cold, \\\"first\\\"\",\"ttft_ms\":812.04,\"tokens\":2000.0},"
           "{\"case\":\"<hot>\",\"ttft_ms\":3.5,\"tokens\":null}]}\n");
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

/* One bar per number that there is; text of the user's is no markup; the longest bar is the largest number's. */
static void draw(bool logarithmic, double low, double high)
{
    const struct sheet_plot plot = {.title = "a & b", .labels = {"case"}, .values = {"ttft_ms", "tokens"},
                                    .logarithmic = logarithmic};
    struct sheet *sheet = filled();
    struct buf out;
    char bar[64];

    buf_init(&out, 1 << 20);
    assert_ok(sheet_write_svg(sheet, &plot, &out));
    const char *text = buf_str(&out);
    assert_int_equal(occurrences(text, "font-size='11'"), 3);
    assert_non_null(strstr(text, "a &#38; b"));
    assert_non_null(strstr(text, "&#60;hot&#62;"));
    assert_null(strstr(text, "<hot>"));
    snprintf(bar, sizeof(bar), "width='%.1f'", low);
    assert_non_null(strstr(text, bar));
    snprintf(bar, sizeof(bar), "width='%.1f'", high);
    assert_non_null(strstr(text, bar));
    assert_true(strcmp(text + out.len - 7, "</svg>\n") == 0);
    buf_fini(&out);
    sheet_destroy(&sheet);
}

static void test_svg(void **state)
{
    (void)state;
    draw(false, 550 * 3.5 / 2000, 550);
    draw(true, 550 * log10(3.5) / log10(2000), 550);
}

static void test_svg_of_nothing(void **state)
{
    const struct sheet_plot plot = {.title = "none", .labels = {"case"}, .values = {"ttft_ms", "no such"}};
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    struct buf out;

    (void)state;
    buf_init(&out, 1 << 20);
    assert_ok(sheet_write_svg(sheet, &plot, &out));
    assert_null(strstr(buf_str(&out), "nan"));
    buf_fini(&out);
    sheet_destroy(&sheet);
}

TEST_SUITE(TEST(test_table), TEST(test_csv), TEST(test_json), TEST(test_svg), TEST(test_svg_of_nothing))
