#include "base/option.h"

#include <stdio.h>
#include <string.h>

#include "support/options.h"
#include "support/test.h"

static void test_i20_flags_in_all_their_spellings(void **state)
{
    static const char *const on[] = {"on", "true", "yes", "1", "ON"};
    static const char *const off[] = {"off", "false", "no", "0", "False"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(on); i++) {
        char line[64];
        snprintf(line, sizeof(line), "--exact=%s --color=%s", on[i], off[i]);
        assert_ok(options_parse(line));
        assert_true(options_got.values.exact);
        assert_false(options_got.values.color);
    }
    assert_ok(options_parse("--exact --no-exact"));
    assert_false(options_got.values.exact);
    assert_ok(options_parse("--no-exact --exact"));
    assert_true(options_got.values.exact);
    options_expect_error("--exact=maybe", "--exact: \"maybe\" is neither on nor off");
    options_expect_error("--no-exact=on", "--no-exact takes no value");
    options_expect_error("--no-port",
                         "--no-port: only a flag can be turned off, and --port is not one");
}

static void test_ranges_are_inclusive_and_named(void **state)
{
    (void)state;
    assert_ok(options_parse("--port 65535 --shift 5 --heat 2 --wait 1500ms --ram-cache 4096"));
    assert_ok(options_parse("--port 0 --shift -5 --heat 0 --wait 0"));
    options_expect_error("--port 65536", "--port: \"65536\" is out of range; expected 0 to 65535");
    options_expect_error("--port -1", "--port: \"-1\" is not a whole number of 0 or more; "
                                      "expected 0 to 65535");
    options_expect_error("--port=",
                         "--port: \"\" is not a whole number of 0 or more; expected 0 to 65535");
    options_expect_error("--shift 6", "--shift: \"6\" is out of range; expected -5 to 5");
    options_expect_error("--shift -6", "--shift: \"-6\" is out of range; expected -5 to 5");
    options_expect_error("-s x", "-s: \"x\" is not a whole number; expected -5 to 5");
    options_expect_error("--heat 2.01", "--heat: \"2.01\" is out of range; expected 0 to 2");
    options_expect_error("--heat=-0.1", "--heat: \"-0.1\" is out of range; expected 0 to 2");
    options_expect_error("--heat hot", "--heat: \"hot\" is not a number; expected 0 to 2");
    options_expect_error("--ram-cache 4095",
                         "--ram-cache: \"4095\" is out of range; expected at least "
                         "4.0 KiB");
    options_expect_error("--wait 2s", "--wait: \"2s\" is out of range; expected at most 1.5 s");
    assert_err(options_parse("--ram-cache much"), ERR_INVALID);
    assert_non_null(strstr(options_got.info.text, "--ram-cache: "));
    assert_non_null(strstr(options_got.info.text, "much"));
}

static void test_choices_know_their_list(void **state)
{
    (void)state;
    assert_ok(options_parse("--format TEXT"));
    assert_int_equal(options_got.values.format, 0);
    options_expect_error("--format jsno", "--format: \"jsno\" is not one of text, json, binary; "
                                          "did you mean json?");
    options_expect_error("--format xml", "--format: \"xml\" is not one of text, json, binary");
}

/* A number or a word, which is stored below zero. */
static void test_words_beside_numbers(void **state)
{
    static const char *const words[] = {"auto", "all", NULL};
    static const struct option_desc options[] = {
        {"layers", 'l', OPTION_INT, 0, .initial = "auto", .imax = 9, .names = words,
         .help = "Layers."},
    };
    static const struct option_table table = {"test", options, 1};
    static const struct {
        const char *text;
        int64_t value;
        const char *shown;
    } cases[] = {{"auto", -1, "auto"}, {"ALL", -2, "all"}, {"0", 0, "0"}, {"9", 9, "9"}};
    struct arena arena;
    struct errinfo info;
    struct buf out;

    (void)state;
    option_check_table(&table);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *argv[] = {(char *)"-l", (char *)cases[i].text};
        struct option_parse parse = {.arena = &arena};
        int64_t value = 7;

        arena_init(&arena, 4096);
        buf_init(&out, 64);
        assert_ok(option_parse(&table, 2, argv, &value, &parse, &info));
        assert_int_equal(value, cases[i].value);
        assert_ok(option_show(&options[0], &value, &out));
        assert_string_equal(buf_str(&out), cases[i].shown);
        argv[1] = (char *)"-1";
        assert_err(option_parse(&table, 2, argv, &value, &parse, &info), ERR_INVALID);
        assert_string_equal(info.text, "-l: \"-1\" is out of range; expected auto, all, or 0 to 9");
        buf_fini(&out);
        arena_fini(&arena);
    }
}

/* A size or a word, which is stored as a size that nothing has. */
static void test_words_beside_sizes(void **state)
{
    static const char *const words[] = {"none", NULL};
    static const struct option_desc desc = {"tails",         0, OPTION_SIZE, 0, .names = words,
                                            .help = "Tails."};
    static const struct option_table table = {"test", &desc, 1};
    static const struct {
        const char *text;
        uint64_t value;
        const char *shown;
    } cases[] = {{"none", UINT64_MAX, "none"}, {"0", 0, "0 B"}, {"2KiB", 2048, "2.0 KiB"}};

    (void)state;
    option_check_table(&table);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *argv[] = {(char *)"--tails", (char *)cases[i].text};
        struct arena arena;
        struct option_parse parse = {.arena = &arena};
        struct errinfo info;
        uint64_t value = 7;
        struct buf out;

        arena_init(&arena, 4096);
        buf_init(&out, 64);
        assert_ok(option_parse(&table, 2, argv, &value, &parse, &info));
        assert_true(value == cases[i].value);
        assert_ok(option_show(&desc, &value, &out));
        assert_string_equal(buf_str(&out), cases[i].shown);
        argv[1] = (char *)"off";
        assert_err(option_parse(&table, 2, argv, &value, &parse, &info), ERR_INVALID);
        assert_string_equal(
            info.text, "--tails: \"off\" is not valid; expected none, or a size such as 512MiB");
        buf_fini(&out);
        arena_fini(&arena);
    }
}

static const char *shown(const char *name)
{
    static struct buf out;

    buf_fini(&out);
    buf_init(&out, 4096);
    for (size_t i = 0; i < options_table.count; i++)
        if (strcmp(options_table.options[i].name, name) == 0)
            assert_ok(option_show(&options_table.options[i], &options_got.values, &out));
    return buf_str(&out);
}

static void test_show(void **state)
{
    (void)state;
    assert_ok(options_parse("--port 80 --ram-cache 1.5G --heat 0.1 -s-2 -x --model a --model b"));
    assert_string_equal(shown("host"), "127.0.0.1");
    assert_string_equal(shown("port"), "80");
    assert_string_equal(shown("api-key"), "none");
    assert_string_equal(shown("ram-cache"), "1.5 GiB");
    assert_non_null(strstr(shown("wait"), " s"));
    assert_string_equal(shown("shift"), "-2");
    assert_string_equal(shown("heat"), "0.1");
    assert_string_equal(shown("verbose"), "off");
    assert_string_equal(shown("exact"), "on");
    assert_string_equal(shown("format"), "json");
    assert_string_equal(shown("model"), "a, b");
    assert_ok(options_parse("--api-key s3cr3t"));
    assert_string_equal(shown("api-key"), "***");
    assert_string_equal(shown("model"), "none");
}

static void test_secrets_are_not_shown(void **state)
{
    static const struct option_desc secret[] = {
        {"pin", 0, OPTION_UINT, 0, .max = 9999, .initial = "1234", .help = "Pin.", .secret = true}};
    static const struct option_table pins = {"pin", secret, 1};
    char *argv[] = {(char *)"--pin=12x34"};
    uint64_t pin;
    struct buf out;

    (void)state;
    assert_ok(options_parse("")); /* makes the arena */
    assert_err(option_parse(&pins, 1, argv, &pin, &options_got.parse, &options_got.info),
               ERR_INVALID);
    assert_string_equal(options_got.info.text, "--pin: the value is not valid");
    buf_init(&out, 4096);
    assert_ok(option_help(&pins, &out, 80));
    assert_null(strstr(buf_str(&out), "1234"));
    buf_clear(&out);
    pin = 1234;
    assert_ok(option_show(&secret[0], &pin, &out));
    assert_string_equal(buf_str(&out), "***");
    buf_clear(&out);
    pin = 0;
    assert_ok(option_show(&secret[0], &pin, &out));
    assert_string_equal(buf_str(&out), "none");
    buf_fini(&out);
}

TEST_SUITE(TEST(test_i20_flags_in_all_their_spellings), TEST(test_ranges_are_inclusive_and_named),
           TEST(test_choices_know_their_list), TEST(test_show), TEST(test_secrets_are_not_shown),
           TEST(test_words_beside_numbers), TEST(test_words_beside_sizes))
