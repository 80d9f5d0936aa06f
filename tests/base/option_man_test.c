/* option_man_test.c: the table as a manual page and as an INI file. */
#include <string.h>

#include "base/mem.h"
#include "base/option.h"
#include "support/options.h"
#include "support/test.h"

static void test_roff(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 1000);
    option_roff(&out, STR(".a-b\\c\n'd.e"));
    assert_string_equal(buf_str(&out), "\\&.a\\-b\\ec\n\\&'d.e");
    buf_clear(&out);
    option_roff_text(&out, STR("one  two"));
    assert_string_equal(buf_str(&out), "one two\n");
    buf_fini(&out);
}

static void test_long_lines_are_broken(void **state)
{
    struct str rest, line;
    struct buf text, out;

    (void)state;
    buf_init(&text, 10000);
    buf_init(&out, 10000);
    for (int i = 0; i < 100; i++)
        buf_appendf(&text, "%sword-%d", i ? " " : "", i);
    option_roff_text(&out, str_from(buf_str(&text)));
    rest = str_from(buf_str(&out));
    while (str_next(&rest, '\n', &line))
        assert_true(line.len <= 78);
    buf_fini(&text);
    buf_fini(&out);
}

static void test_options(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_ok(option_man(&options_table, OPTION_MAN_OPTIONS, &out));
    assert_true(str_starts(str_from(buf_str(&out)),
                           STR(".SS Network\n"
                               ".TP\n\\fB\\-\\-host\\fR \\fIADDRESS\\fR\n"
                               "Address to listen on. [default 127.0.0.1; HEARTH_HOST]\n"
                               ".TP\n\\fB\\-p\\fR, \\fB\\-\\-port\\fR \\fIN\\fR\n")));
    assert_non_null(strstr(buf_str(&out), "\n.SS Cache\n.TP\n"));
    assert_non_null(
        strstr(buf_str(&out), "\n\\fB\\-s\\fR, \\fB\\-sh\\fR, \\fB\\-\\-shift\\fR \\fIN\\fR\n"));
    assert_non_null(strstr(buf_str(&out), "\n\\fB\\-\\-no\\-color\\fR\n"));
    assert_non_null(strstr(buf_str(&out), "\\-\\-format\\fR text|json|binary\n"));
    buf_fini(&out);
}

static void test_keys(void **state)
{
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_ok(option_man(&options_table, OPTION_MAN_KEYS, &out));
    assert_non_null(strstr(buf_str(&out), ".TP\n\\fBport\\fR = \\fIN\\fR\n"));
    assert_non_null(strstr(buf_str(&out), ".TP\n\\fBcolor\\fR = \\fIon|off\\fR\n"));
    assert_non_null(strstr(buf_str(&out), ".TP\n\\fBformat\\fR = \\fItext|json|binary\\fR\n"));
    buf_fini(&out);
}

/* A heading stands before something, or not at all. */
static void test_hidden_and_not_in_file(void **state)
{
    static const struct option_desc descs[] = {
        {"secret-tool", 0, OPTION_FLAG, 0, .help = "Hidden.", .hidden = true, .group = "First"},
        {"only-here", 0, OPTION_FLAG, 0, .help = "No key.", .not_in_file = true, .group = "Second"},
        {"both", 0, OPTION_FLAG, 0, .help = "A key."},
    };
    const struct option_table table = {"x", descs, COUNT_OF(descs)};
    struct buf out;

    (void)state;
    buf_init(&out, 10000);
    assert_ok(option_man(&table, OPTION_MAN_OPTIONS, &out));
    assert_null(strstr(buf_str(&out), "First"));
    assert_null(strstr(buf_str(&out), "secret"));
    assert_non_null(strstr(buf_str(&out), ".SS Second\n.TP\n\\fB\\-\\-only\\-here"));
    buf_clear(&out);
    assert_ok(option_man(&table, OPTION_MAN_KEYS, &out));
    assert_null(strstr(buf_str(&out), "only"));
    assert_non_null(strstr(buf_str(&out), ".SS Second\n.TP\n\\fBboth"));
    buf_clear(&out);
    assert_ok(option_example(&table, &out));
    assert_string_equal(buf_str(&out), "\n# A key. [HEARTH_BOTH]\n#both = off\n");
    buf_fini(&out);
}

/* What the file shows as defaults are the defaults: with every line in force nothing changes. */
static void test_example_can_be_read(void **state)
{
    struct options_values wanted;
    struct str rest, line;
    struct buf out, ini;

    (void)state;
    assert_ok(options_parse_all("", NULL, NULL));
    wanted = options_got.values;
    buf_init(&out, 10000);
    buf_init(&ini, 10000);
    assert_ok(option_example(&options_table, &out));
    buf_append_str(&ini, "[serve]\n");
    rest = str_from(buf_str(&out));
    while (str_next(&rest, '\n', &line)) {
        bool key = line.len > 1 && line.ptr[0] == '#' && line.ptr[1] != ' ';
        bool text = str_starts(line, STR("#api-key")) || str_starts(line, STR("#model"));
        if (key && !text) /* these have no default */
            buf_appendf(&ini, STR_FMT "\n", (int)line.len - 1, line.ptr + 1);
    }
    assert_ok(options_parse_all("", buf_str(&ini), NULL));
    /* texts of the first parse are gone with it */
    assert_string_equal(options_got.values.host, "127.0.0.1");
    assert_int_equal(options_got.values.port, wanted.port);
    assert_int_equal(options_got.values.ram, wanted.ram);
    assert_int_equal(options_got.values.wait, wanted.wait);
    assert_int_equal(options_got.values.shift, wanted.shift);
    assert_true(options_got.values.heat == wanted.heat);
    assert_int_equal(options_got.values.color, wanted.color);
    assert_int_equal(options_got.values.format, wanted.format);
    buf_fini(&out);
    buf_fini(&ini);
}

static enum err write_one(int what, struct buf *out)
{
    if (what == 2)
        return option_example(&options_table, out);
    return option_man(&options_table, what ? OPTION_MAN_KEYS : OPTION_MAN_OPTIONS, out);
}

static void test_a_full_buffer_and_no_memory(void **state)
{
    struct fault fault = {0};
    struct buf out;

    (void)state;
    for (int what = 0; what < 3; what++) {
        buf_init(&out, 300);
        assert_err(write_one(what, &out), ERR_LIMIT);
        buf_fini(&out);
        mem_set_fault(&fault);
        FAULT_LOOP (&fault) {
            buf_init(&out, 10000);
            enum err err = write_one(what, &out);
            assert_err(err, atomic_load(&fault.fired) ? ERR_NOMEM : ERR_OK);
            buf_fini(&out);
        }
        mem_set_fault(NULL);
    }
}

TEST_SUITE(TEST(test_roff), TEST(test_long_lines_are_broken), TEST(test_options), TEST(test_keys),
           TEST(test_hidden_and_not_in_file), TEST(test_example_can_be_read),
           TEST(test_a_full_buffer_and_no_memory))
