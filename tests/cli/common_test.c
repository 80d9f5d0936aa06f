#include "cli/config.h"

#include <stdalign.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/str.h"
#include "cli/cli.h"
#include "support/cli_run.h"
#include "support/options.h"
#include "support/test.h"

static void test_values_of_both_do_not_overlap(void **state)
{
    struct command command = cli_greet;

    (void)state;
    for (command.options_size = 1; command.options_size < 64; command.options_size++) {
        const char values[128];
        size_t offset = (size_t)((const char *)common_of(&command, values) - values);
        assert_true(offset >= command.options_size);
        assert_true(offset < command.options_size + alignof(struct common_options));
        assert_int_equal(offset % alignof(struct common_options), 0);
        assert_int_equal(common_values_size(&command), offset + sizeof(struct common_options));
    }
}

static void test_joined_table_fills_both(void **state)
{
    char *argv[] = {(char *)"--times=3", (char *)"--config=c", (char *)"--log-level=error",
                    (char *)"--no-color"};
    struct errinfo info;
    struct arena arena;

    (void)state;
    arena_init(&arena, 65536);
    const struct option_table *table = common_table(&cli_greet, &arena);
    assert_non_null(table);
    assert_string_equal(table->command, "greet");
    assert_int_equal(table->count, cli_greet.table.count + 4);
    option_check_table(table);
    char *values = mem_alloc(common_values_size(&cli_greet));
    struct option_parse parse = {.arena = &arena, .whole = 100};
    assert_ok(option_parse(table, COUNT_OF(argv), argv, values, &parse, &info));
    const struct common_options *common = common_of(&cli_greet, values);
    uint64_t times;
    memcpy(&times, values + cli_greet.table.options[0].offset, sizeof(times));
    assert_int_equal(times, 3);
    assert_string_equal(common->config, "c");
    assert_int_equal(common->log_level, LOG_LEVEL_ERROR);
    assert_int_equal(common->log_format, LOG_FORMAT_TEXT);
    assert_false(common->color);
    mem_free(values);
    arena_fini(&arena);
}

static void test_names_of_levels_are_those_of_the_log(void **state)
{
    struct arena arena;
    enum log_level level;

    (void)state;
    arena_init(&arena, 65536);
    const struct option_table *table = common_table(&cli_greet, &arena);
    const char *const *names = table->options[cli_greet.table.count + 1].names;
    for (int i = LOG_LEVEL_DEBUG; i <= LOG_LEVEL_OFF; i++) {
        assert_string_equal(names[i], log_level_name((enum log_level)i));
        assert_true(log_level_parse(names[i], &level) && level == (enum log_level)i);
    }
    assert_null(names[LOG_LEVEL_OFF + 1]);
    arena_fini(&arena);
}

static void test_names_are_known(void **state)
{
    (void)state;
    assert_true(common_has(STR("config")));
    assert_true(common_has(STR("color")));
    assert_true(common_has(STR("no-color")));
    assert_false(common_has(STR("confi")));
    assert_false(common_has(STR("")));
}

static void test_no_memory_gives_no_table(void **state)
{
    struct arena arena;
    size_t limit = 0;

    (void)state;
    for (arena_init(&arena, 0); common_table(&cli_greet, &arena) == NULL; limit += 64) {
        assert_true(limit < 65536);
        assert_err(arena.err, ERR_LIMIT);
        arena_fini(&arena);
        arena_init(&arena, limit);
    }
    assert_true(limit > 0);
    arena_fini(&arena);
}

TEST_SUITE(TEST(test_values_of_both_do_not_overlap), TEST(test_joined_table_fills_both),
           TEST(test_names_of_levels_are_those_of_the_log), TEST(test_names_are_known),
           TEST(test_no_memory_gives_no_table))
