#include "base/option.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/options.h"
#include "support/test.h"

static void test_table_gives_every_type_its_value(void **state)
{
    (void)state;
    option_check_table(&options_table);
    assert_ok(options_parse(""));
    assert_string_equal(options_got.values.host, "127.0.0.1");
    assert_int_equal(options_got.values.port, 4117);
    assert_null(options_got.values.key);
    assert_int_equal(options_got.values.ram, 100000); /* 10% of a whole of 1000000 */
    assert_int_equal(options_got.values.wait, NS_PER_S);
    assert_int_equal(options_got.values.shift, 0);
    assert_true(options_got.values.heat == 0.8);
    assert_false(options_got.values.verbose);
    assert_true(options_got.values.color);
    assert_int_equal(options_got.values.format, 1);
    assert_int_equal(options_got.values.models.count, 0);
    assert_int_equal(options_got.parse.positional_count, 0);
    assert_int_equal(options_source("port"), OPTION_FROM_TABLE);
}

static void test_command_line_sets_every_type(void **state)
{
    (void)state;
    assert_ok(
        options_parse("--host=::1 --port 8000 --api-key=s3 --ram-cache 64K --wait=250ms --shift -3 "
                      "--heat 1.5 --verbose --no-color --format binary --model a.gguf"));
    assert_string_equal(options_got.values.host, "::1");
    assert_int_equal(options_got.values.port, 8000);
    assert_string_equal(options_got.values.key, "s3");
    assert_int_equal(options_got.values.ram, 65536);
    assert_int_equal(options_got.values.wait, 250000000);
    assert_int_equal(options_got.values.shift, -3);
    assert_true(options_got.values.heat == 1.5);
    assert_true(options_got.values.verbose);
    assert_false(options_got.values.exact);
    assert_false(options_got.values.color);
    assert_int_equal(options_got.values.format, 2);
    assert_int_equal(options_got.values.models.count, 1);
    assert_string_equal(options_got.values.models.items[0], "a.gguf");
    assert_int_equal(options_source("port"), OPTION_FROM_COMMAND);
    assert_int_equal(options_source("exact"), OPTION_FROM_TABLE);
}

static void test_letters_combine_and_take_values(void **state)
{
    (void)state;
    assert_ok(options_parse("-p8000 -vx"));
    assert_int_equal(options_got.values.port, 8000);
    assert_true(options_got.values.verbose && options_got.values.exact);
    assert_ok(options_parse("-vp 81"));
    assert_int_equal(options_got.values.port, 81);
    assert_true(options_got.values.verbose);
    assert_ok(options_parse("-xvp82 -s-4"));
    assert_int_equal(options_got.values.port, 82);
    assert_int_equal(options_got.values.shift, -4);
    assert_ok(options_parse("-p=83 -s -5"));
    assert_int_equal(options_got.values.port, 83);
    assert_int_equal(options_got.values.shift, -5);
    options_expect_error("-vqx", "unknown option \"-q\"");
    options_expect_error("-p", "-p needs a value, as in -p N");
    options_expect_error("-vp", "-p needs a value, as in -p N");
}

static void test_alias_with_one_or_two_dashes(void **state)
{
    (void)state;
    assert_ok(options_parse("-np a --np b -np=c --np=d"));
    assert_int_equal(options_got.values.models.count, 4);
    assert_string_equal(options_got.values.models.items[0], "a");
    assert_string_equal(options_got.values.models.items[3], "d");
    /* "sh" is also -s with the value "h"; the alias is what is meant. */
    assert_ok(options_parse("-sh 2"));
    assert_int_equal(options_got.values.shift, 2);
    /* One dash is for aliases, not for long names: -port is -p with the value "ort". */
    options_expect_error("-port 1",
                         "-p: \"ort\" is not a whole number of 0 or more; expected 0 to 65535");
}

static void test_what_is_no_option_is_positional(void **state)
{
    (void)state;
    assert_ok(options_parse("one -v - two -- --port -x"));
    assert_int_equal(options_got.parse.positional_count, 5);
    assert_string_equal(options_got.parse.positional[0], "one");
    assert_string_equal(options_got.parse.positional[1], "-");
    assert_string_equal(options_got.parse.positional[2], "two");
    assert_string_equal(options_got.parse.positional[3], "--port");
    assert_string_equal(options_got.parse.positional[4], "-x");
    assert_true(options_got.values.verbose);
    assert_false(options_got.values.exact);
}

static void test_a_value_is_never_an_option_by_mistake(void **state)
{
    (void)state;
    options_expect_error("--host --port 80", "--host needs a value, but --port is an option; "
                                             "write --host=--port if you mean it");
    options_expect_error("--host -v", "--host needs a value, but -v is an option; "
                                      "write --host=-v if you mean it");
    options_expect_error("--host", "--host needs a value, as in --host ADDRESS");
    options_expect_error("--format", "--format needs a value, as in --format text");
    assert_ok(options_parse("--host=--port"));
    assert_string_equal(options_got.values.host, "--port");
    assert_ok(options_parse("--host -zz")); /* not an option, so a value */
    assert_string_equal(options_got.values.host, "-zz");
}

static void test_unknown_options_name_the_nearest(void **state)
{
    (void)state;
    options_expect_error("--prot 1", "unknown option \"--prot\"; did you mean --port?");
    options_expect_error("--ramcache=1",
                         "unknown option \"--ramcache\"; did you mean --ram-cache?");
    options_expect_error("--ram 1", "unknown option \"--ram\"; did you mean --ram-cache?");
    options_expect_error("--no-exat", "unknown option \"--no-exat\"; did you mean --no-exact?");
    options_expect_error("--no-prot", "unknown option \"--no-prot\"; did you mean --port?");
    options_expect_error("--hepl", "unknown option \"--hepl\"; did you mean --help?");
    options_expect_error("-q", "unknown option \"-q\"");
    options_expect_error("--entirely-else", "unknown option \"--entirely-else\"");
    options_expect_error("---", "unknown option \"---\"");
    options_expect_error("--\033[31m", "unknown option \"--?[31m\"");
    options_expect_error("-verbos", "unknown option \"-e\"");
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"serve", "bench", "version", "model", "v"};

    (void)state;
#define NEAREST(text) option_nearest(str_from(text), names, COUNT_OF(names))
    assert_string_equal(NEAREST("sevre"), "serve");
    assert_string_equal(NEAREST("server"), "serve");
    assert_string_equal(NEAREST("modle"), "model");
    assert_string_equal(NEAREST("ver"), "version");
    assert_string_equal(NEAREST("bench"), "bench");
    assert_null(NEAREST("x"));
    assert_null(NEAREST("qqqqq"));
    assert_null(NEAREST(""));
    assert_null(option_nearest(STR("a"), NULL, 0));
#undef NEAREST
}

static void test_stronger_sources_win(void **state)
{
    static const char *const env[] = {"PATH=/bin", "HEARTH_PORTS=9", "HEARTH_PORT=3", NULL};
    const char *ini = "port = 1\nshift = 1\n[serve]\nport = 2\nheat = 1\n";

    (void)state;
    assert_ok(options_parse_all("", "port = 1\n", NULL));
    assert_int_equal(options_got.values.port, 1);
    assert_int_equal(options_source("port"), OPTION_FROM_FILE);
    assert_ok(options_parse_all("", ini, NULL));
    assert_int_equal(options_got.values.port, 2);
    assert_int_equal(options_got.values.shift, 1);
    assert_true(options_got.values.heat == 1);
    assert_int_equal(options_source("heat"), OPTION_FROM_SECTION);
    assert_ok(options_parse_all("", ini, env));
    assert_int_equal(options_got.values.port, 3);
    assert_int_equal(options_source("port"), OPTION_FROM_ENV);
    assert_ok(options_parse_all("--port 4", ini, env));
    assert_int_equal(options_got.values.port, 4);
    assert_int_equal(options_source("port"), OPTION_FROM_COMMAND);
    assert_ok(options_parse_all("--port 4 -p5", ini, env));
    assert_int_equal(options_got.values.port, 5);
}

static void test_environment(void **state)
{
    static const char *const env[] = {
        "HEARTH_RAM_CACHE=8K", "HEARTH_EXACT=yes",    "HEARTH_COLOR=0",
        "HEARTH_HOST=",        "HEARTH_MODEL=a, b,c", NULL};
    static const char *const bad[] = {"HEARTH_PORT=many", NULL};

    (void)state;
    assert_ok(options_parse_all("", NULL, env));
    assert_int_equal(options_got.values.ram, 8192);
    assert_true(options_got.values.exact);
    assert_false(options_got.values.color);
    assert_string_equal(options_got.values.host, "127.0.0.1"); /* empty is not set */
    assert_int_equal(options_source("host"), OPTION_FROM_TABLE);
    assert_int_equal(options_got.values.models.count, 3);
    assert_string_equal(options_got.values.models.items[1], "b");
    assert_err(options_parse_all("--port 1", NULL, bad), ERR_INVALID);
    assert_string_equal(options_got.info.text,
                        "HEARTH_PORT in the environment: \"many\" is not a whole "
                        "number of 0 or more; expected 0 to 65535");
}

static void test_lists_grow_and_are_replaced(void **state)
{
    static const char *const env[] = {"HEARTH_MODEL=e", NULL};
    const char *ini = "model = a\nmodel = b, c\n[serve]\nmodel = d\n";
    char line[256] = "";

    (void)state;
    assert_ok(options_parse_all("", "model = a\nmodel = b, c\n", NULL));
    assert_int_equal(options_got.values.models.count, 2);
    assert_string_equal(options_got.values.models.items[1], "b, c");
    assert_ok(options_parse_all("", ini, NULL));
    assert_int_equal(options_got.values.models.count, 1);
    assert_string_equal(options_got.values.models.items[0], "d");
    assert_ok(options_parse_all("", ini, env));
    assert_int_equal(options_got.values.models.count, 1);
    assert_string_equal(options_got.values.models.items[0], "e");
    for (int i = 0; i < 20; i++)
        snprintf(line + strlen(line), sizeof(line) - strlen(line), "-mm%d,x ", i);
    assert_ok(options_parse_all(line, ini, env));
    assert_int_equal(options_got.values.models.count, 20);
    for (int i = 0; i < 20; i++) {
        char item[16];
        snprintf(item, sizeof(item), "m%d,x", i);
        assert_string_equal(options_got.values.models.items[i], item);
    }
}

/* A row that says so has commas between items wherever they come from. */
static void test_lists_with_commas(void **state)
{
    static const struct option_desc rows[] = {
        {"size", 0, OPTION_LIST, 0, .initial = "1,2", .commas = true, .help = "Sizes."}};
    static const struct option_table table = {"test", rows, 1};
    char name[] = "--size", two[] = "3, 4", one[] = "--size=5", none[] = "--size=";
    char *line[] = {name, two, one}, *empty[] = {none};
    struct option_list sizes;
    struct errinfo info = {0};
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 16);
    struct option_parse parse = {.arena = &arena};
    assert_ok(option_parse(&table, 0, NULL, &sizes, &parse, &info));
    assert_int_equal(sizes.count, 2);
    assert_ok(option_parse(&table, 3, line, &sizes, &parse, &info));
    assert_int_equal(sizes.count, 3);
    assert_string_equal(sizes.items[0], "3");
    assert_string_equal(sizes.items[1], "4");
    assert_string_equal(sizes.items[2], "5");
    assert_ok(
        option_parse(&table, 1, empty, &sizes, &parse, &info)); /* for the command to refuse */
    assert_int_equal(sizes.count, 1);
    assert_string_equal(sizes.items[0], "");
    parse.ini_text = "size = 6,7\nsize = 8\n";
    assert_ok(option_parse(&table, 0, NULL, &sizes, &parse, &info));
    assert_int_equal(sizes.count, 3);
    assert_string_equal(sizes.items[1], "7");
    arena_fini(&arena);
}

static void test_help_wins_over_mistakes(void **state)
{
    (void)state;
    assert_ok(options_parse("--prot 1 --help"));
    assert_true(options_got.parse.help);
    assert_ok(options_parse("--port x -h"));
    assert_true(options_got.parse.help);
    assert_ok(options_parse("-vh"));
    assert_true(options_got.parse.help);
    assert_ok(options_parse("-- --help"));
    assert_false(options_got.parse.help);
    assert_string_equal(options_got.parse.positional[0], "--help");
    assert_ok(options_parse_all("--help", "broken", NULL));
    assert_true(options_got.parse.help);
}

static void test_survives_every_failed_allocation(void **state)
{
    static const char *const env[] = {"HEARTH_MODEL=x,y,z", "HEARTH_HOST=there", NULL};
    struct fault fault = {0};

    (void)state;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        enum err err = options_parse_all("-m a -m b -m c --host h pos", "host=f\nmodel=g\n", env);
        if (atomic_load(&fault.fired)) {
            assert_err(err, ERR_NOMEM);
            assert_true(options_got.info.text[0] != '\0');
        } else {
            assert_ok(err);
            assert_int_equal(options_got.values.models.count, 3);
        }
    }
    mem_set_fault(NULL);
}

/* The same for the limit of the arena, at every size. */
static void test_a_small_arena_is_an_error(void **state)
{
    char *argv[] = {(char *)"-ma", (char *)"-mb", (char *)"--host=h", (char *)"positional"};
    enum err err = ERR_LIMIT;

    (void)state;
    for (size_t limit = 0; err != ERR_OK; limit += 8) {
        assert_true(limit < 65536);
        arena_fini(&options_got.arena);
        arena_init(&options_got.arena, limit);
        options_got.parse = (struct option_parse){.arena = &options_got.arena, .whole = 1000000};
        err = option_parse(&options_table, 4, argv, &options_got.values, &options_got.parse,
                           &options_got.info);
        if (err != ERR_OK)
            assert_err(err, ERR_LIMIT);
    }
    assert_string_equal(options_got.parse.positional[0], "positional");
}

/* True when the check of this one option aborts. */
static bool aborts(const struct option_desc *descs, size_t count)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit none = {0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        option_check_table(&(struct option_table){"test", descs, count});
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#define ABORTS(...)                                   \
    aborts((const struct option_desc[]){__VA_ARGS__}, \
           sizeof((const struct option_desc[]){__VA_ARGS__}) / sizeof(struct option_desc))
#define OPTION(n, t) .name = (n), .type = (t), .help = "Help."

static void test_inconsistent_tables_abort(void **state)
{
    static const char *const none[] = {NULL};

    (void)state;
    assert_false(ABORTS({OPTION("a", OPTION_UINT), .initial = "3", .min = 3, .max = 3}));
    assert_false(ABORTS({OPTION("a", OPTION_SIZE), .initial = "1%", .max = 10}));
    assert_true(ABORTS({OPTION(NULL, OPTION_UINT)}));
    assert_true(ABORTS({OPTION("", OPTION_UINT)}));
    assert_true(ABORTS({OPTION("-a", OPTION_UINT)}));
    assert_true(ABORTS({OPTION("A", OPTION_UINT)}));
    assert_true(ABORTS({OPTION("a_b", OPTION_UINT)}));
    assert_true(ABORTS({OPTION("no-a", OPTION_FLAG)}));
    assert_true(ABORTS({OPTION("help", OPTION_FLAG)}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .alias = "help"}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .alias = "a"}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .letter = 'h'}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .letter = '1'}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG)}, {OPTION("a", OPTION_FLAG)}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG)}, {OPTION("b", OPTION_FLAG), .alias = "a"}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .alias = "b"}, {OPTION("b", OPTION_FLAG)}));
    assert_true(
        ABORTS({OPTION("a", OPTION_FLAG), .alias = "c"}, {OPTION("b", OPTION_FLAG), .alias = "c"}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .letter = 'x'},
                       {OPTION("b", OPTION_FLAG), .letter = 'x'}));
    assert_true(ABORTS({.name = "a", .type = OPTION_FLAG}));
    assert_true(ABORTS({.name = "a", .type = OPTION_FLAG, .help = "No sentence"}));
    assert_true(ABORTS({OPTION("a", OPTION_ENUM)}));
    assert_true(ABORTS({OPTION("a", OPTION_ENUM), .names = none}));
    assert_true(ABORTS({OPTION("a", OPTION_TEXT), .names = options_formats}));
    assert_true(ABORTS({OPTION("a", OPTION_ENUM), .names = options_formats, .initial = "xml"}));
    assert_true(ABORTS({OPTION("a", OPTION_UINT), .min = 2, .max = 1}));
    assert_true(ABORTS({OPTION("a", OPTION_INT), .imin = 2, .imax = 1}));
    assert_true(ABORTS({OPTION("a", OPTION_FLOAT), .fmin = 2, .fmax = 1}));
    assert_true(ABORTS({OPTION("a", OPTION_UINT), .initial = "x"}));
    assert_true(ABORTS({OPTION("a", OPTION_UINT), .initial = "2", .max = 1}));
    assert_true(ABORTS({OPTION("a", OPTION_FLAG), .initial = "maybe"}));
    assert_true(ABORTS({OPTION("a", OPTION_SIZE), .initial = "much"}));
    assert_true(ABORTS({OPTION("a", OPTION_DURATION), .initial = "long"}));
}

TEST_SUITE(TEST(test_table_gives_every_type_its_value), TEST(test_command_line_sets_every_type),
           TEST(test_letters_combine_and_take_values), TEST(test_alias_with_one_or_two_dashes),
           TEST(test_what_is_no_option_is_positional),
           TEST(test_a_value_is_never_an_option_by_mistake),
           TEST(test_unknown_options_name_the_nearest), TEST(test_nearest),
           TEST(test_stronger_sources_win), TEST(test_environment),
           TEST(test_lists_grow_and_are_replaced), TEST(test_lists_with_commas),
           TEST(test_help_wins_over_mistakes), TEST(test_survives_every_failed_allocation),
           TEST(test_a_small_arena_is_an_error), TEST(test_inconsistent_tables_abort))
