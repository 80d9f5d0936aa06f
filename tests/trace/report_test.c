#include "trace/report.h"

#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/str.h"
#include "support/test.h"
#include "support/trace_kit.h"

static const struct report_row rows[] = {
    {.policy = "lru-tail",
     .capacity_bytes = 4096,
     .capacity_blocks = 2,
     .result = {.requests = 3,
                .blocks = 10,
                .blocks_hit = 5,
                .tokens = 100,
                .tokens_hit = 25,
                .evictions = 7}},
    {.policy = "opt",
     .capacity_bytes = 4096,
     .result = {.requests = 3,
                .blocks = 10,
                .blocks_hit = 6,
                .tokens = 100,
                .tokens_hit = 50,
                .snapshots = 2}},
};

static struct report make_report(void)
{
    static const struct report_best best = {9, 0.75};

    return (struct report){.version = "1.2.3",
                           .machine = "a \"machine\"",
                           .files = "mooncake: x\\y\n",
                           .cost = &trace_kit_hybrid,
                           .snapshots = "dense, every 2048 tokens",
                           .block_tokens = 512,
                           .run_blocks = 1,
                           .users = 3,
                           .seed = 42,
                           .requests = 3,
                           .blocks = 10,
                           .tokens = 100,
                           .rows = rows,
                           .rows_count = COUNT_OF(rows),
                           .best = &best};
}

static struct buf write_report(enum report_format format)
{
    struct report report = make_report();
    struct buf out;

    buf_init(&out, 1 << 20);
    assert_ok(report_write(&report, format, &out));
    return out;
}

static void expect(const struct buf *out, const char *text)
{
    if (strstr(buf_str(out), text) == NULL)
        fail_msg("\"%s\" is not in:\n%s", text, buf_str(out));
}

static void test_table_has_head_and_rows(void **state)
{
    struct buf out = write_report(REPORT_TABLE);

    (void)state;
    expect(&out, "hearth 1.2.3, a \"machine\"");
    expect(&out, "3 users, seed 42");
    expect(&out, "snapshots: dense, every 2048 tokens");
    expect(&out, "25.00%");
    expect(&out, "50.00%");
    expect(&out, "4.0 KiB"); /* a capacity in bytes */
    expect(&out, "9 snapshots, 75.00% of tokens");
    buf_fini(&out);
}

static void test_csv_has_as_many_fields_as_names(void **state)
{
    struct buf out = write_report(REPORT_CSV);
    struct str rest = {buf_str(&out), out.len}, line, field;
    size_t names = 0, lines = 0;

    (void)state;
    while (str_next(&rest, '\n', &line)) {
        size_t fields = 0;
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        while (str_next(&line, ',', &field))
            fields++;
        names = names ? names : fields;
        assert_int_equal(fields, names);
        lines++;
    }
    assert_int_equal(lines, 1 + COUNT_OF(rows));
    expect(&out, "lru-tail,4096,2,0.250000,0.500000,100,75,7,");
    buf_fini(&out);
}

static void test_json_is_json(void **state)
{
    struct buf out = write_report(REPORT_JSON);
    yyjson_doc *doc = yyjson_read(out.data, out.len, 0);
    yyjson_val *root = yyjson_doc_get_root(doc);

    (void)state;
    assert_non_null(doc);
    assert_string_equal(yyjson_get_str(yyjson_obj_get(root, "machine")), "a \"machine\"");
    assert_string_equal(yyjson_get_str(yyjson_obj_get(root, "files")), "mooncake: x\\y\n");
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "best_snapshots")), 9);
    yyjson_val *list = yyjson_obj_get(root, "rows");
    assert_int_equal(yyjson_arr_size(list), 2);
    assert_float_equal(yyjson_get_real(yyjson_obj_get(yyjson_arr_get(list, 1), "token_hit_rate")),
                       0.5, 1e-9);
    yyjson_doc_free(doc);
    buf_fini(&out);
}

static void test_a_full_buffer_is_said(void **state)
{
    struct report report = make_report();

    (void)state;
    for (int format = REPORT_TABLE; format <= REPORT_SVG; format++) {
        struct buf out;
        buf_init(&out, 50);
        assert_err(report_write(&report, (enum report_format)format, &out), ERR_LIMIT);
        buf_fini(&out);
    }
}

TEST_SUITE(TEST(test_table_has_head_and_rows), TEST(test_csv_has_as_many_fields_as_names),
           TEST(test_json_is_json), TEST(test_a_full_buffer_is_said))
