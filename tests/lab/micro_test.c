#include "lab/micro.h"

#include <stdlib.h>

#include "base/buf.h"
#include "support/test.h"

static void test_made_models_go_to_the_folder_of_the_run(void **state)
{
    char path[MICRO_PATH_BYTES];

    (void)state;
    setenv("TMPDIR", "/some/where", 1);
    micro_path(path, "dense");
    assert_string_equal(path, "/some/where/dense.gguf");
    setenv("TMPDIR", "", 1);
    micro_path(path, "dense");
    assert_string_equal(path, "/tmp/dense.gguf");
    unsetenv("TMPDIR");
    micro_path(path, "dense");
    assert_string_equal(path, "/tmp/dense.gguf");
}

/* A cell is text or a number as its column says; an empty one is no number. A name may have commas,
 * as the path of a model may. */
static void test_rows_fill_the_sheet(void **state)
{
    static const struct sheet_column columns[] = {
        MICRO_COLUMN(what, SHEET_TEXT), MICRO_COLUMN(mb, 0), MICRO_COLUMN(unit, SHEET_TEXT),
        MICRO_COLUMN(ratio, 2)};
    static const struct micro micro = {.columns = columns, .columns_count = COUNT_OF(columns)};
    struct sheet *sheet = sheet_create(columns, COUNT_OF(columns));
    struct buf out;

    (void)state;
    micro_begin(&micro, sheet, NULL);
    micro_note("made by %s", "a");
    micro_row("put, all", "%d,GB/s,%.2f", 28, 1.5);
    micro_row("get", ",s/GB,");
    buf_init(&out, 1 << 16);
    assert_ok(sheet_write_table(sheet, &out));
    assert_string_equal(buf_str(&out), "made by a\n\n"
                                       "what      mb  unit  ratio\n"
                                       "put, all  28  GB/s   1.50\n"
                                       "get        -  s/GB      -\n");
    buf_clear(&out);
    assert_ok(sheet_write_csv(sheet, &out));
    assert_string_equal(buf_str(&out), "# made by a\nwhat,mb,unit,ratio\n"
                                       "\"put, all\",28,GB/s,1.50\nget,,s/GB,\n");
    buf_fini(&out);
    sheet_destroy(&sheet);
}

TEST_SUITE(TEST(test_made_models_go_to_the_folder_of_the_run), TEST(test_rows_fill_the_sheet))
