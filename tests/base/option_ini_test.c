#include "base/option.h"

#include <stdio.h>
#include <string.h>

#include "support/options.h"
#include "support/test.h"

static void test_ini_is_read_with_its_odd_forms(void **state)
{
    (void)state;
    assert_ok(options_parse_all("",
                                "\xEF\xBB\xBF; comment\n# comment\r\n\r\nhost = a b ; comment\r\n"
                                "  port=7\n\n[ bench ]\nsteps = 3\n[serve]\n\texact : on",
                                NULL));
    assert_string_equal(options_got.values.host, "a b");
    assert_int_equal(options_got.values.port,
                     7); /* an indented line is not the end of the one above */
    assert_true(options_got.values.exact);
    assert_ok(options_parse_all("", "", NULL));
    assert_ok(options_parse_all("", "\n\n", NULL));
}

static void test_ini_errors_name_file_and_line(void **state)
{
    char longest[256];

    (void)state;
    options_expect_ini_error("\n\nprot = 1\n",
                             "h.ini:3: unknown key \"prot\"; did you mean \"port\"?");
    options_expect_ini_error("[serve]\nhots = 1\n",
                             "h.ini:2: unknown key \"hots\" in [serve]; did you mean \"host\"?");
    options_expect_ini_error("[serve]\nquux = 1\n", "h.ini:2: unknown key \"quux\" in [serve]");
    options_expect_ini_error("host = x\nport = y\n",
                             "h.ini:2: port: \"y\" is not a whole number of 0 or more; "
                             "expected 0 to 65535");
    options_expect_ini_error("host\nport = y\n",
                             "h.ini:1: expected \"name = value\", \"[section]\" or a comment");
    options_expect_ini_error("port = y\nhost\n",
                             "h.ini:1: port: \"y\" is not a whole number of 0 or more; "
                             "expected 0 to 65535");
    options_expect_ini_error("[serve]\nport = 1\n[]\nport = 2\n",
                             "h.ini:3: the section has no name");
    options_expect_ini_error("[serve\nport = 1\n",
                             "h.ini:1: expected \"name = value\", \"[section]\" or a comment");
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "\nhost=", 6);
    snprintf(longest + 1 + 198, sizeof(longest) - 199, "\nport=5\n");
    assert_ok(options_parse_all("", longest, NULL));
    assert_int_equal(strlen(options_got.values.host), 198 - 5);
    assert_int_equal(options_got.values.port, 5);
    snprintf(longest + 1 + 198, sizeof(longest) - 199, "x\nport=5\n");
    options_expect_ini_error(longest, "h.ini:2: the line is longer than 198 bytes");
}

static void test_ini_is_shared_with_other_commands(void **state)
{
    static const struct option_desc bench_options[] = {
        {"steps", 0, OPTION_UINT, 0, .help = "Steps."}};
    static const struct option_table bench = {"bench", bench_options, 1};
    static const struct option_table *const others[] = {&bench, NULL};

    (void)state;
    options_got.parse.others = others;
    assert_ok(options_parse_all("", "steps = 3\nport = 1\n[bench]\nsteps = many\n", NULL));
    assert_int_equal(options_got.values.port, 1);
    options_expect_ini_error("setps = 3\n",
                             "h.ini:1: unknown key \"setps\"; did you mean \"steps\"?");
    options_expect_ini_error("[bench]\nport = 1\n", "h.ini:2: unknown key \"port\" in [bench]");
    options_expect_ini_error("[bensh]\nsteps = 1\n",
                             "h.ini:2: unknown section \"bensh\"; did you mean [bench]?");
    options_expect_ini_error("[sevre]\nport = 1\n",
                             "h.ini:2: unknown section \"sevre\"; did you mean [serve]?");
    options_expect_ini_error("[quux]\nport = 1\n", "h.ini:2: unknown section \"quux\"");
    options_got.parse.others = NULL;
    assert_ok(options_parse_all("", "[quux]\nanything = 1\n", NULL));
}

/* "[thing NAME]": passed over by the commands, read one by one. */
static void test_named_sections(void **state)
{
    static const char text[] = "port = 1\n[thing b]\nport = 5\n[serve]\nhost = x\n[thing a/c "
                               "d]\nhost = y\nport = 6\n[thing b]\nhost = z\n";
    static const struct option_table none = {"none", NULL, 0};
    static const struct option_table *const others[] = {&none, NULL};
    struct option_list names;
    struct errinfo info = {0};

    (void)state;
    options_got.parse.others = others;
    options_expect_ini_error("[thing b]\nport = 5\n", "h.ini:2: unknown section \"thing b\"");
    options_got.parse.named = "thing";
    assert_ok(options_parse_all("", text, NULL));
    assert_int_equal(options_got.values.port, 1);
    assert_string_equal(options_got.values.host, "x");
    options_expect_ini_error("[thing ]\nport = 5\n", "h.ini:2: unknown section \"thing \"");
    options_got.parse.ini_text = text;
    assert_ok(option_sections(&options_got.parse, "thing", &names, &info));
    assert_int_equal(names.count, 2);
    assert_string_equal(names.items[0], "b");
    assert_string_equal(names.items[1], "a/c d");
    assert_ok(option_read_section(&options_table, "thing", "b", &options_got.values,
                                  &options_got.parse, &info));
    assert_int_equal(options_got.values.port, 5);
    assert_string_equal(options_got.values.host, "z");
    assert_ok(option_read_section(&options_table, "thing", "none", &options_got.values,
                                  &options_got.parse, &info));
    assert_int_equal(options_got.values.port, 5);
    options_got.parse.ini_text = "[thing b]\nprot = 5\n";
    assert_err(option_read_section(&options_table, "thing", "b", &options_got.values,
                                   &options_got.parse, &info),
               ERR_INVALID);
    assert_string_equal(info.text,
                        "h.ini:2: unknown key \"prot\" in [thing b]; did you mean \"port\"?");
    options_got.parse.ini_text =
        "[thing 12345678901234567890123456789012345678901234567890]\nport = 5\n";
    assert_err(option_sections(&options_got.parse, "thing", &names, &info), ERR_INVALID);
    assert_string_equal(info.text, "h.ini:1: the section's name is longer than 49 bytes");
}

TEST_SUITE(TEST(test_ini_is_read_with_its_odd_forms), TEST(test_ini_errors_name_file_and_line),
           TEST(test_ini_is_shared_with_other_commands), TEST(test_named_sections))
