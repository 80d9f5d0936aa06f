#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "lab/sheet.h"
#include "support/test.h"

static struct sheet *read_text(const char *text)
{
    struct sheet *sheet = NULL;
    struct errinfo info = {0};

    if (sheet_read_csv(&sheet, str_from(text), &info) != ERR_OK)
        fail_msg("%s", info.text);
    return sheet;
}

static void expect_error(const char *text, const char *sentence)
{
    struct sheet *sheet = NULL;
    struct errinfo info = {0};

    assert_err(sheet_read_csv(&sheet, str_from(text), &info), ERR_INVALID);
    assert_string_equal(info.text, sentence);
    assert_null(sheet);
}

static void expect_table(struct sheet *sheet, const char *expected)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    assert_ok(sheet_write_table(sheet, &out));
    assert_string_equal(buf_str(&out), expected);
    buf_fini(&out);
    sheet_destroy(&sheet);
}

/* A column is of numbers when all of its fields are, with the decimals of the longest; an empty one
 * is no number. */
static void test_columns_get_their_kind(void **state)
{
    (void)state;
    expect_table(read_text("# made by a\n#\nwhat,mb,ratio\nput,28,1.5\n# and b\nget,,0.25\n"),
                 "made by a\nand b\n\n"
                 "what  mb  ratio\n"
                 "put   28   1.50\n"
                 "get    -   0.25\n");
    expect_table(read_text("a,b\n1,x\n2,3"), "a  b\n"
                                             "1  x\n"
                                             "2  3\n");
}

static void test_what_was_written_is_read(void **state)
{
    static const struct sheet_column columns[] = {
        {"case", "case", SHEET_TEXT}, {"ms", "ms", 2}, {"n", "n", 0}};
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    struct buf first, second;

    (void)state;
    sheet_note(sheet, "a note");
    sheet_text(sheet, "cold, \"first\"");
    sheet_number(sheet, 1.25);
    sheet_number(sheet, NAN);
    sheet_text(sheet, "");
    sheet_number(sheet, -3);
    sheet_number(sheet, 7);
    buf_init(&first, 1 << 16);
    buf_init(&second, 1 << 16);
    assert_ok(sheet_write_csv(sheet, &first));
    sheet_destroy(&sheet);
    sheet = read_text(buf_str(&first));
    assert_ok(sheet_write_csv(sheet, &second));
    assert_string_equal(buf_str(&second), buf_str(&first));
    buf_fini(&first);
    buf_fini(&second);
    sheet_destroy(&sheet);
}

static void test_mistakes_have_their_line(void **state)
{
    (void)state;
    expect_error("", "there are no names of columns");
    expect_error("# only a note\n", "there are no names of columns");
    expect_error("a,b\n1,2\n3\n", "line 3: has not as many fields as there are names");
    expect_error("a,b\n1,2,3\n", "line 2: has not as many fields as there are names");
    expect_error("a,b\n1,2,\n", "line 2: has not as many fields as there are names");
}

TEST_SUITE(TEST(test_columns_get_their_kind), TEST(test_what_was_written_is_read),
           TEST(test_mistakes_have_their_line))
