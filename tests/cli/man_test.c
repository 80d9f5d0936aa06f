/* man_test.c: every option of every command is in its page, every key in that of the INI file. */

#include <string.h>

#include "base/option.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/serve.h"
#include "support/test.h"

static const struct cli_setup setup = {.commands = cli_commands};

static const char *page(const char *name, struct arena *arena)
{
    static struct buf out;

    buf_fini(&out);
    buf_init(&out, 1 << 20);
    assert_ok(cli_write_man(&setup, name, arena, &out));
    return buf_str(&out);
}

/* `before` and the name as roff writes it. */
static void expect_name(const char *text, const char *before, const char *name, const char *after)
{
    struct buf want;

    buf_init(&want, 1000);
    buf_append_str(&want, before);
    option_roff(&want, str_from(name));
    buf_append_str(&want, after);
    if (strstr(text, buf_str(&want)) == NULL)
        fail_msg("no %s", buf_str(&want));
    buf_fini(&want);
}

static void test_every_option_is_in_its_page(void **state)
{
    struct arena arena;
    size_t options = 0;

    (void)state;
    arena_init(&arena, 1 << 24);
    for (const struct command *const *command = cli_commands; *command != NULL; command++) {
        const struct option_table *table = common_table(*command, &arena);
        const char *text = page((*command)->name, &arena);
        assert_non_null(table);
        for (size_t i = 0; i < table->count; i++) {
            const struct option_desc *desc = &table->options[i];
            if (desc->hidden)
                continue;
            expect_name(text, option_spelling(desc).negative ? "\\fB\\-\\-no\\-" : "\\fB\\-\\-",
                        desc->name, "\\fR");
            if (desc->letter != 0)
                expect_name(text, "\\fB\\-", (char[]){desc->letter, '\0'}, "\\fR");
            if (desc->alias != NULL)
                expect_name(text, "\\-", desc->alias, "\\fR");
            options++;
        }
    }
    assert_true(options > 100);
    arena_fini(&arena);
}

static void test_every_key_is_in_the_page_of_settings(void **state)
{
    struct arena arena;
    const char *text;

    (void)state;
    arena_init(&arena, 1 << 24);
    text = page("hearth.ini", &arena);
    for (const struct command *const *command = cli_commands; *command != NULL; command++)
        for (size_t i = 0; i < (*command)->table.count; i++)
            if (!(*command)->table.options[i].not_in_file && !(*command)->table.options[i].hidden)
                expect_name(text, "\n.TP\n\\fB", (*command)->table.options[i].name, "\\fR = ");
    for (size_t i = 0; i < serve_preset_table.count; i++)
        expect_name(strstr(text, ".SH [model NAME]"), "\n.TP\n\\fB",
                    serve_preset_table.options[i].name, "\\fR = ");
    arena_fini(&arena);
}

static void test_overview_names_every_page(void **state)
{
    struct arena arena;

    (void)state;
    arena_init(&arena, 1 << 20);
    for (const struct command *const *command = cli_commands; *command != NULL; command++)
        expect_name(page("", &arena), ".BR hearth\\-", (*command)->name, " (1)\n");
    arena_fini(&arena);
}

static void test_unknown_page(void **state)
{
    struct arena arena;
    struct buf out;

    (void)state;
    arena_init(&arena, 1 << 20);
    buf_init(&out, 1 << 20);
    assert_err(cli_write_man(&setup, "serv", &arena, &out), ERR_NOT_FOUND);
    buf_fini(&out);
    arena_fini(&arena);
}

/* Every line of the example that shows a default is one that can be read back; what is set by hand
 * is text. */
static void test_example_is_complete(void **state)
{
    struct arena arena;
    struct buf out;

    (void)state;
    arena_init(&arena, 1 << 20);
    buf_init(&out, 1 << 20);
    assert_ok(cli_write_example(&setup, &arena, &out));
    for (size_t i = 0; i < command_serve.table.count; i++) {
        const struct option_desc *desc = &command_serve.table.options[i];
        char line[128];
        snprintf(line, sizeof(line), "\n#%s = ", desc->name);
        if ((strstr(buf_str(&out), line) != NULL) == (desc->hidden || desc->not_in_file))
            fail_msg("%s", line);
    }
    buf_fini(&out);
    arena_fini(&arena);
}

TEST_SUITE(TEST(test_every_option_is_in_its_page), TEST(test_every_key_is_in_the_page_of_settings),
           TEST(test_overview_names_every_page), TEST(test_unknown_page),
           TEST(test_example_is_complete))
