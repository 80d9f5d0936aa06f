
#include <string.h>

#include "base/arena.h"
#include "base/option.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "support/options.h"
#include "support/test.h"

static void test_tables_of_all_commands_are_consistent(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 20);
    for (const struct command *const *command = cli_commands; *command != NULL; command++) {
        const struct option_table *table = common_table(*command, &arena);
        size_t len = strlen((*command)->summary);
        assert_non_null(table);
        option_check_table(table);
        assert_string_equal((*command)->table.command, (*command)->name);
        assert_true((*command)->summary[len - 1] == '.' && len <= 67); /* one line of 80 */
        assert_true((*command)->args_min <= (*command)->args_max);
    }
    arena_fini(&arena);
}

TEST_SUITE(TEST(test_tables_of_all_commands_are_consistent))
