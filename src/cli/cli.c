/*
 * cli.c: dispatch.
 *
 * The command line is read twice, because it names the INI file, which must be known before the
 * settings in it are: once without a file, for --config, then with it.
 *
 * Standard output is flushed at the end, and a write error makes the command fail: a script must
 * not take half an answer on a full disk for a whole one.
 */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sysinfo.h"
#include "base/utf8.h"
#include "cli/config.h"

/* LOG_BURST equal lines per second are enough to show that something repeats. */
enum {
    ARENA_BYTES_MAX = 8 << 20,
    LOG_BURST = 20,
    SETTING_BYTES_MAX = 4096,
    ERROR_BYTES_MAX = 4096
};

/* What it quotes may come from anywhere. One write, so that no line of the log comes between. */
static void print_error(const struct cli *cli, const char *fmt, va_list args)
{
    const char *command = cli->command != NULL ? cli->command->name : "";
    char text[ERROR_BYTES_MAX];

    size_t len =
        (size_t)snprintf(text, sizeof(text), "hearth%s%s: ", command[0] ? " " : "", command);
    vsnprintf(text + len, sizeof(text) - len - 1, fmt, args);
    len = utf8_clean(text, strlen(text), "\n\t");
    text[len] = '\n';
    fwrite(text, 1, len + 1, cli->err);
}

/* Without a list of all names: each is compared with the best so far. */
static const char *nearest_command(const struct cli_setup *setup, struct str name)
{
    const char *best = NULL;

    for (const struct command *const *command = setup->commands; *command != NULL; command++) {
        const char *names[] = {best ? best : (*command)->name, (*command)->name};
        best = option_nearest(name, names, COUNT_OF(names));
    }
    return best;
}

/* The first argument begins with a dash and is not a known option. */
static enum cli_exit wrong_first_option(const struct cli *cli, const char *arg)
{
    static const char *const known[] = {"version", "help"};
    struct str name = {arg, strcspn(arg, "=")};

    while (name.len > 0 && name.ptr[0] == '-')
        name = str_skip(name, 1);
    if (common_has(name))
        return cli_usage_error(cli, "options go after the command: hearth COMMAND %s", arg);
    const char *nearest = option_nearest(name, known, COUNT_OF(known));
    if (nearest != NULL)
        return cli_usage_error(cli, "unknown option \"%s\"; did you mean --%s?", arg, nearest);
    return cli_usage_error(cli, "unknown option \"%s\"", arg);
}

enum cli_exit cli_fail(const struct cli *cli, enum err err, const struct errinfo *info)
{
    return err == ERR_INVALID ? cli_usage_error(cli, "%s", info->text)
                              : cli_error(cli, "%s", info->text);
}

/* The tables of all commands but this one, ended by NULL; NULL without memory. */
static const struct option_table *const *other_tables(const struct cli *cli)
{
    const struct command *const *commands = cli->setup->commands;
    size_t count = 0, used = 0;

    while (commands[count] != NULL)
        count++;
    const struct option_table **tables = arena_alloc_array(cli->arena, count + 1, sizeof(*tables));
    for (size_t i = 0; tables != NULL && i < count; i++) {
        if (commands[i] == cli->command)
            continue;
        tables[used] = common_table(commands[i], cli->arena);
        if (tables[used++] == NULL)
            return NULL;
    }
    return tables;
}

/* Reads the INI file; parse->ini_text stays NULL if there is none. */
static enum err read_config(struct cli *cli, struct option_parse *parse, struct errinfo *info)
{
    struct config config = {0};

    TRY(config_read(cli->setup, common_of(cli->command, cli->values)->config, cli->arena, &config,
                    info));
    if (config.text == NULL)
        return ERR_OK;
    parse->ini_name = cli->config = config.name;
    parse->ini_text = cli->config_text = config.text;
    parse->others = other_tables(cli);
    return parse->others != NULL ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for the options");
}

/* Fills cli->values from all sources. parse->help may be set instead. */
static enum err read_options(struct cli *cli, int argc, char **argv, struct option_parse *parse,
                             struct errinfo *info)
{
    const struct command *command = cli->command;
    char *values = arena_alloc(cli->arena, common_values_size(command));
    struct cli_foreign foreign = {.arena = cli->arena};

    cli->table = foreign.table = common_table(command, cli->arena);
    *parse = (struct option_parse){.arena = cli->arena,
                                   .whole = cli->setup->memory_bytes,
                                   .env = cli->setup->env,
                                   .named = "model", /* presets of models, for `serve` */
                                   .foreign = command->foreign,
                                   .foreign_arg = &foreign};
    const struct option_parse without_file = *parse;
    if (values == NULL || cli->table == NULL)
        return err_set(info, ERR_NOMEM, "no memory for the options");
    cli->values = values;
    TRY(option_parse(cli->table, argc, argv, values, parse, info));
    cli->notes = foreign.notes;
    if (parse->help || command->ignores_config)
        return ERR_OK;

    enum err err = read_config(cli, parse, info);
    if (err == ERR_OK && parse->ini_text == NULL)
        return ERR_OK;
    if (err == ERR_OK)
        err = option_parse(cli->table, argc, argv, values, parse, info);
    if (err == ERR_OK || !command->reports_config)
        return err;
    cli->config_error = arena_strdup(cli->arena, str_from(info->text));
    *parse = without_file;
    return cli->config_error != NULL ? option_parse(cli->table, argc, argv, values, parse, info)
                                     : err;
}

enum err cli_read_again(const struct cli *cli, struct arena *arena, struct cli *again,
                        struct errinfo *info)
{
    char name[] = "--config";
    char *argv[] = {name, (char *)cli->config};
    struct option_parse parse;

    *again = *cli;
    again->arena = arena;
    TRY(read_options(again, cli->config != NULL ? 2 : 0, argv, &parse, info));
    again->sources = parse.sources;
    return ERR_OK;
}

static enum cli_exit check_args(struct cli *cli, const struct option_parse *parse)
{
    const struct command *command = cli->command;

    cli->args = parse->positional;
    cli->args_count = parse->positional_count;
    if (cli->args_count < command->args_min)
        return cli_usage_error(cli, "missing argument. Usage: hearth %s %s", command->name,
                               command->usage);
    if (cli->args_count > command->args_max)
        return cli_usage_error(cli, "unexpected argument \"%s\"", cli->args[command->args_max]);
    return CLI_EXIT_OK;
}

static void open_log(struct cli *cli, const struct common_options *common)
{
    int fd = fileno(cli->err);

    cli->color = common->color && progress_color_allowed(fileno(cli->out));
    cli->log = log_create(&(struct log_options){
        .fd = fd,
        .level = (enum log_level)common->log_level,
        .format = (enum log_format)common->log_format,
        .color = common->color && progress_color_allowed(fd),
        .burst = LOG_BURST,
        .interval_ns = NS_PER_S,
        .clock = cli->setup->clock,
    });
}

static enum cli_exit run_command(struct cli *cli, int argc, char **argv)
{
    struct option_parse parse;
    struct errinfo info = {0};

    enum err err = read_options(cli, argc, argv, &parse, &info);
    if (err == ERR_LIMIT || err == ERR_UNSUPPORTED)
        err = ERR_INVALID; /* of the options */
    if (err != ERR_OK)
        return cli_fail(cli, err, &info);
    if (parse.help)
        return cli_print_help(cli, cli->command);
    enum cli_exit status = check_args(cli, &parse);
    if (status != CLI_EXIT_OK)
        return status;
    assert(cli->command->run != NULL);
    cli->sources = parse.sources;
    open_log(cli, common_of(cli->command, cli->values));
    if (cli->notes != NULL)
        LOG_INFO(cli->log, cli->command->name, "options that change nothing here",
                 LOG_STR("options", cli->notes));
    status = cli->command->run(cli, cli->values);
    log_destroy(&cli->log);
    return status;
}

static bool is_word(const struct command *command, const char *name)
{
    for (size_t i = 0; command->word(i) != NULL; i++)
        if (strcmp(command->word(i), name) == 0)
            return true;
    return false;
}

/* As git does: what is no command of this program may be a program in its folder. `hearth bench`
 * runs hearth-bench, `hearth model make` hearth-model-make. Returns if there is none. */
static void run_program(const struct cli *cli, int argc, char **argv)
{
    const struct command *command = cli_command_named(cli->setup, argv[0]);
    const char *second = "", *dash = "";
    char path[PATH_MAX];
    int words = 1;

    if (command != NULL) {
        if (command->word == NULL || argc < 2 || argv[1][0] == '-' || is_word(command, argv[1]))
            return;
        second = argv[words++];
        dash = "-";
    }
    if (realpath(sysinfo_program(), path) == NULL || strchr(argv[0], '/') != NULL ||
        strchr(second, '/') != NULL)
        return;
    const int folder = (int)(strrchr(path, '/') - path);
    char *program =
        arena_printf(cli->arena, "%.*s/hearth-%s%s%s", folder, path, argv[0], dash, second);
    if (program == NULL || access(program, X_OK) != 0)
        return;
    unsetenv("HEARTH_PROGRAM"); /* names this one */
    argv[words - 1] = program;
    execv(program, argv + words - 1);
}

static enum cli_exit dispatch(struct cli *cli, int argc, char **argv)
{
    if (argc == 0) {
        cli_print_overview(cli->setup, cli->err);
        return CLI_EXIT_USAGE;
    }
    const char *name = argv[0];
    if (strcmp(name, "--version") == 0)
        name = "version";
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (name[0] == '-')
        return wrong_first_option(cli, name);
    run_program(cli, argc, argv);
    const struct command *command = cli_find_command(cli, name);
    if (command == NULL)
        return CLI_EXIT_USAGE;
    cli->command = command;
    return run_command(cli, argc - 1, argv + 1);
}

/* A failed flush is always reported; it turns a success into a failure. */
static enum cli_exit flush_output(struct cli *cli, enum cli_exit status)
{
    bool failed_before = ferror(cli->out) != 0;

    errno = 0;
    if (fflush(cli->out) == 0 && !failed_before)
        return status;
    cli_error(cli, "cannot write the output: %s",
              errno ? strerror(errno) : "an earlier write failed");
    return status == CLI_EXIT_OK ? CLI_EXIT_FAILURE : status;
}

enum cli_exit cli_error(const struct cli *cli, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_error(cli, fmt, args);
    va_end(args);
    return CLI_EXIT_FAILURE;
}

void cli_put_text(const struct cli *cli, struct buf *text)
{
    if (text->len > 0)
        fwrite(text->data, 1, utf8_clean(text->data, text->len, "\n\t"), cli->out);
}

struct progress *cli_progress(const struct cli *cli, const char *label, enum progress_unit unit)
{
    return progress_create(fileno(cli->err), PROGRESS_STYLE_AUTO, label, unit, cli->setup->clock);
}

enum cli_exit cli_print_text(const struct cli *cli, enum err err, struct buf *text)
{
    if (err == ERR_OK)
        fputs(buf_str(text), cli->out);
    buf_fini(text);
    return err == ERR_OK ? CLI_EXIT_OK : cli_error(cli, "%s", err_sentence(err));
}

enum cli_exit cli_usage_error(const struct cli *cli, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_error(cli, fmt, args);
    va_end(args);
    if (cli->command != NULL)
        fprintf(cli->err, "Try 'hearth %s --help'.\n", cli->command->name);
    else
        fputs("Try 'hearth --help'.\n", cli->err);
    return CLI_EXIT_USAGE;
}

enum option_source cli_source(const struct cli *cli, const char *name)
{
    size_t i = 0;

    while (i < cli->table->count && strcmp(cli->table->options[i].name, name) != 0)
        i++;
    assert(i < cli->table->count);
    return cli->sources[i];
}

bool cli_is_set(const struct cli *cli, const char *name)
{
    return cli_source(cli, name) != OPTION_FROM_TABLE;
}

volatile sig_atomic_t cli_interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    cli_interrupted = 1;
}

struct sigaction cli_catch(int signal, int flags)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = flags}, before;

    sigaction(signal, &action, &before);
    return before;
}

const char *cli_show_value(struct arena *arena, const struct option_desc *desc, const void *values)
{
    const char *value = NULL;
    struct buf text;

    buf_init(&text, SETTING_BYTES_MAX);
    if (option_show(desc, values, &text) == ERR_OK)
        value = arena_strdup(arena, buf_text(&text));
    buf_fini(&text);
    return value;
}

const char *cli_env(const struct cli_setup *setup, const char *name)
{
    size_t len = strlen(name);

    for (const char *const *env = setup->env; env != NULL && *env != NULL; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return (*env)[len + 1] != '\0' ? *env + len + 1 : NULL;
    return NULL;
}

const char *cli_env_of(const char *name, void *setup)
{
    return cli_env(setup, name);
}

const struct command *cli_command_named(const struct cli_setup *setup, const char *name)
{
    for (const struct command *const *command = setup->commands; *command != NULL; command++)
        if (strcmp((*command)->name, name) == 0)
            return *command;
    return NULL;
}

const struct command *cli_find_command(const struct cli *cli, const char *name)
{
    const struct command *command = cli_command_named(cli->setup, name);

    if (command != NULL)
        return command;
    const char *nearest = nearest_command(cli->setup, str_from(name));
    if (nearest != NULL)
        cli_usage_error(cli, "unknown command \"%s\"; did you mean %s?", name, nearest);
    else
        cli_usage_error(cli, "unknown command \"%s\"", name);
    return NULL;
}

const char *cli_list_words(const struct cli *cli)
{
    const char *list = "", *word;

    for (size_t i = 0; list != NULL && (word = cli->command->word(i)) != NULL; i++)
        list = arena_printf(cli->arena, "%s%s%s", list, i > 0 ? ", " : "", word);
    return list != NULL ? list : "";
}

int cli_main(const struct cli_setup *setup, int argc, char **argv)
{
    struct arena arena;
    struct cli cli = {.setup = setup, .arena = &arena, .out = setup->out, .err = setup->err};

    assert(setup->commands != NULL && setup->fs != NULL && setup->clock != NULL);
    assert(setup->out != NULL && setup->err != NULL);
    arena_init(&arena, ARENA_BYTES_MAX);
    /* A process can be started without even a name. */
    enum cli_exit status = dispatch(&cli, MAX(argc - 1, 0), argv + MIN(argc, 1));
    status = flush_output(&cli, status);
    fflush(cli.err);
    arena_fini(&arena);
    return status;
}

const struct command *const cli_commands[] = {
    &command_serve,
    &command_run,
    &command_launch,
    &command_pull,
    &command_list,
    &command_rm,
    &command_ps,
    &command_top,
    &command_cache,
    &command_diff,
    &command_model,
    &command_doctor,
    &command_worker,
    &command_completion,
    &command_version,
    &command_help,
    NULL,
};
