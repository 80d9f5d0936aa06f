#include "cli/sheet.h"

#include <math.h>

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

static void expect(enum err (*form)(const struct sheet *sheet, struct buf *out),
                   const char *expected)
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
           "{\"case\":\"cold, \\\"first\\\"\",\"ttft_ms\":812.04,\"tokens\":2000},"
           "{\"case\":\"<hot>\",\"ttft_ms\":3.5,\"tokens\":null}]}\n");
}

/* People see units, programs plain numbers; a column may be for one of them only. */
static void test_forms(void **state)
{
    static const struct sheet_column forms[] = {
        {"policy", "policy", SHEET_TEXT},
        {"capacity", "capacity", SHEET_CAPTION},
        {"bytes", NULL, 0},
        {"rate", "tokens", SHEET_PERCENT},
        {"computed", "computed", SHEET_COUNT},
        {"written", "written", SHEET_SIZE},
        {"refused", NULL, 0},
    };
    struct sheet *sheet = sheet_create(forms, COUNT_OF(forms));
    struct buf out;

    (void)state;
    sheet_fact_text(sheet, "machine", "a \"machine\"");
    sheet_fact_number(sheet, "seed", 42);
    sheet_fact_number(sheet, "span_s", 0.5);
    sheet_text(sheet, "lru");
    sheet_text(sheet, "1,000");
    sheet_number(sheet, 4096);
    sheet_number(sheet, 0.3846153);
    sheet_number(sheet, 28412);
    sheet_number(sheet, 1536);
    sheet_number(sheet, NAN);
    buf_init(&out, 1 << 20);
    assert_ok(sheet_write_table(sheet, &out));
    assert_string_equal(buf_str(&out), "policy  capacity  tokens  computed  written\n"
                                       "lru     1,000     38.46%    28,412  1.5 KiB\n");
    buf_clear(&out);
    assert_ok(sheet_write_csv(sheet, &out));
    assert_string_equal(
        buf_str(&out),
        "policy,bytes,rate,computed,written,refused\nlru,4096,0.384615,28412,1536,\n");
    buf_clear(&out);
    assert_ok(sheet_write_json(sheet, &out));
    assert_string_equal(
        buf_str(&out),
        "{\"machine\":\"a \\\"machine\\\"\",\"seed\":42,\"span_s\":0.5,\"notes\":[],\"rows\":["
        "{\"policy\":\"lru\",\"bytes\":4096,\"rate\":0.3846153,\"computed\":28412,\"written\":1536,"
        "\"refused\":null}]}\n");
    buf_fini(&out);
    sheet_destroy(&sheet);
}

static void test_a_full_buffer_is_said(void **state)
{
    enum err (*const forms[])(const struct sheet *, struct buf *) = {
        sheet_write_table, sheet_write_csv, sheet_write_json};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        struct sheet *sheet = filled();
        struct buf out;
        buf_init(&out, 30);
        assert_err(forms[i](sheet, &out), ERR_LIMIT);
        buf_fini(&out);
        sheet_destroy(&sheet);
    }
}

TEST_SUITE(TEST(test_table), TEST(test_csv), TEST(test_json), TEST(test_forms),
           TEST(test_a_full_buffer_is_said))
