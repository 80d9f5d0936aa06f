/*
 * help.c: `hearth help [COMMAND]`, and what --help prints; with --man manual pages, with --ini a
 * template INI file.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/option.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/man.h"

struct help_options {
    bool man, ini;
};

#define AT(field) offsetof(struct help_options, field)

static const struct option_desc options_table[] = {
    {"man", 0, OPTION_FLAG, AT(man), .not_in_file = true,
     .help = "Print the manual page of hearth, a command or hearth.ini in man(1) format."},
    {"ini", 0, OPTION_FLAG, AT(ini), .not_in_file = true,
     .help = "Print an INI file with every setting of `hearth serve`."},
};

enum { HELP_BYTES_MAX = 1 << 20, COLUMNS_DEFAULT = 80, COLUMNS_MAX = 110 };

/* The terminal's width, if it is one, limited: very long lines are harder to read than wrapped
 * ones. */
static int columns_of(FILE *file)
{
    struct winsize size;
    int fd = fileno(file);

    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return MIN(size.ws_col, COLUMNS_MAX);
}

void cli_print_overview(const struct cli_setup *setup, FILE *to)
{
    fputs("usage: hearth COMMAND [options]\n"
          "       hearth --version | --help\n"
          "\n"
          "An LLM server that never prefills the same tokens twice.\n"
          "\n"
          "Commands:\n",
          to);
    for (const struct command *const *command = setup->commands; *command != NULL; command++)
        fprintf(to, "  %-10s %s\n", (*command)->name, (*command)->summary);
    fputs("\n'hearth COMMAND --help' lists the options of a command. Exit status: 0 success,\n1 "
          "failure, 2 usage error.\n",
          to);
}

enum cli_exit cli_print_help(const struct cli *cli, const struct command *command)
{
    const struct option_table *table = common_table(command, cli->arena);
    struct buf text;
    enum err err = table ? ERR_OK : cli->arena->err;

    buf_init(&text, HELP_BYTES_MAX);
    if (err == ERR_OK)
        err = option_help(table, &text, columns_of(cli->out));
    if (err == ERR_OK)
        fprintf(cli->out, "usage: hearth %s %s\n\n%s\n\n%s", command->name, command->usage,
                command->summary, buf_str(&text));
    else
        cli_error(cli, "%s", err_sentence(err));
    buf_fini(&text);
    return err == ERR_OK ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

/* A manual page, or the template INI file. */
static enum cli_exit print_text(const struct cli *cli, bool man, const char *page)
{
    struct buf text;

    buf_init(&text, HELP_BYTES_MAX);
    enum err err = man ? man_write(cli->setup, page, cli->arena, &text)
                       : man_write_example(cli->setup, cli->arena, &text);
    if (err == ERR_OK)
        fputs(buf_str(&text), cli->out);
    else
        cli_error(cli, "%s", err_sentence(err));
    buf_fini(&text);
    return err == ERR_OK ? CLI_EXIT_OK : CLI_EXIT_FAILURE;
}

static enum cli_exit run(struct cli *cli, const void *options)
{
    const struct help_options *help = options;
    const char *name = cli->args_count > 0 ? cli->args[0] : "";

    if (help->ini && (help->man || name[0] != '\0'))
        return cli_usage_error(cli, "--ini takes no other arguments");
    if (help->ini || (help->man && (name[0] == '\0' || strcmp(name, "hearth.ini") == 0)))
        return print_text(cli, help->man, name);
    if (name[0] == '\0') {
        cli_print_overview(cli->setup, cli->out);
        return CLI_EXIT_OK;
    }
    const struct command *command = cli_find_command(cli, name);
    if (command == NULL)
        return CLI_EXIT_USAGE;
    return help->man ? print_text(cli, true, name) : cli_print_help(cli, command);
}

const struct command command_help = {
    .name = "help",
    .summary = "Show help for hearth or a command.",
    .usage = "[options] [COMMAND]",
    .table = {.command = "help", .options = options_table, .count = COUNT_OF(options_table)},
    .options_size = sizeof(struct help_options),
    .args_max = 1,
    .ignores_config = true,
    .run = run,
};
