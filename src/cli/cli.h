/*
 * cli.h: the program `hearth`: finds the command, fills its options, runs it, and returns the exit
 * status.
 *
 *      hearth serve --port 8000 model.gguf
 *             |     |           |
 *             |     |           cli->args
 *             |     the command's and the common options: command line, environment, INI file
 *             a `struct command` of cli_commands
 *
 * A command is one file in this folder with one public `struct command`; cli_commands lists them.
 * It writes its result to cli->out, reports errors with cli_error(), and returns a status. It does
 * not exit, flush or read argv: cli_main does.
 *
 * Thread: everything here belongs to the main thread.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/option.h"
#include "base/progress.h"

struct clock;
struct command;
struct file_sys;
struct log;
struct serve_faults;

enum cli_exit {
    CLI_EXIT_OK = 0,
    /* a failure of the system, including a full disk on standard output */
    CLI_EXIT_FAILURE = 1,
    CLI_EXIT_USAGE = 2, /* usage error: arguments, environment or INI file */
};

/* Set by main.c: the environment of the process, and the commands. Tests set their own. */
struct cli_setup {
    const struct command *const *commands; /* ended by NULL */
    const struct file_sys *fs;
    struct clock *clock;
    FILE *out;
    FILE *err;
    const char *const *env;
    uint64_t memory_bytes;             /* of the machine; what percentages of sizes refer to */
    const struct serve_faults *faults; /* injected by hearth-lab (cli/serve.h); NULL = none */
};

/* What a command sees. All of it lives until the command has returned. */
struct cli {
    const struct cli_setup *setup;
    const struct command *command;
    struct arena *arena; /* for data that lives as long as the command */
    /* to setup->err, by --log-level and --log-format; NULL before options are known */
    struct log *log;
    FILE *out;
    FILE *err;
    bool color;        /* colours may be written to `out` */
    const char **args; /* positional arguments, as many as the command allows */
    size_t args_count;
    const char *config, *config_text; /* INI file that was read, or NULL */
    const char *config_error;         /* why it was not read; only if command->reports_config */
    const struct option_table *table; /* the command's options, then the common ones */
    const void *values;               /* of `table` */
    const enum option_source *sources;
    const char *notes; /* of options that change nothing (struct cli_foreign), or NULL */
};

/* For rows of option tables: a setting of one run, not a key of the INI file. */
#define HERE .not_in_file = true

/* Options of another program that a command understands. */
struct cli_foreign {
    const struct option_table *table; /* the command's own options come first */
    struct arena *arena;
    char *notes; /* options that were accepted and change nothing, and why; NULL = none */
};

struct command {
    const char *name;
    /* one sentence; the line in `hearth --help`, the first one of its own help */
    const char *summary;
    const char *usage;         /* after "hearth NAME": "[options] FILE" */
    struct option_table table; /* its own options; table.command is `name` */
    size_t options_size;       /* of the struct that the table describes; 0 without options */
    size_t args_min, args_max; /* positional arguments */
    /* what the first one can be, by number, then NULL, for completion and errors; NULL: a file, or
     * anything */
    const char *(*word)(size_t number);
    /* option_parse.foreign, with a struct cli_foreign; NULL = none */
    enum err (*foreign)(void *arg, struct option_foreign *option, struct errinfo *info);
    bool ignores_config; /* reads no INI file, so that a broken one cannot stop it */
    bool reports_config; /* runs without a broken one, and reports cli->config_error */
    enum cli_exit (*run)(struct cli *cli, const void *options);
};

/* The whole program: argv as in main. Returns the exit status. Standard output has been flushed;
 * a write error has been reported and made the status a failure. */
int cli_main(const struct cli_setup *setup, int argc, char **argv);

/* "hearth serve: <fmt>" and a newline on cli->err, cleaned as by cli_put_text. Returns
 * CLI_EXIT_FAILURE. */
enum cli_exit cli_error(const struct cli *cli, const char *fmt, ...) PRINTF(2, 3);

/* A bar on standard error, as progress_create. */
struct progress *cli_progress(const struct cli *cli, const char *label, enum progress_unit unit);

/* As cli_error, then a line that says how to get help. Returns CLI_EXIT_USAGE. */
enum cli_exit cli_usage_error(const struct cli *cli, const char *fmt, ...) PRINTF(2, 3);

/* Reports the message of an error: a usage error for ERR_INVALID, else a failure. */
enum cli_exit cli_fail(const struct cli *cli, enum err err, const struct errinfo *info);

/* Writes text from elsewhere to cli->out, cleaned in place: control characters other than line ends
 * and tabs become '?', so that it cannot move the cursor (utf8_clean). */
void cli_put_text(const struct cli *cli, struct buf *text);

/* Prints the text, or why it could not be written, and frees it. */
enum cli_exit cli_print_text(const struct cli *cli, enum err err, struct buf *text);

/* Lets a signal set cli_interrupted, with flags of sigaction(2). Returns what it did before. A
 * handler can only access globals; the command clears it before it waits for the next one. */
extern volatile sig_atomic_t cli_interrupted;
struct sigaction cli_catch(int signal, int flags);

/* Prints the general help (`hearth --help`), or that of one command, on cli->out. */
void cli_print_overview(const struct cli_setup *setup, FILE *to);
enum cli_exit cli_print_help(const struct cli *cli, const struct command *command);

/* The words of the command, "stats, ls, show", in the arena. */
const char *cli_list_words(const struct cli *cli);

/* NULL: there is none. */
const struct command *cli_command_named(const struct cli_setup *setup, const char *name);
/* Reports an unknown name, suggests the nearest known one, and returns NULL. */
const struct command *cli_find_command(const struct cli *cli, const char *name);

/* Reads the options again from environment and INI file, without the command line, into *again;
 * their values live in the arena. */
enum err cli_read_again(const struct cli *cli, struct arena *arena, struct cli *again,
                        struct errinfo *info) NODISCARD;

/* Where the setting of an option, which must be one of cli->table, comes from. */
enum option_source cli_source(const struct cli *cli, const char *name);
bool cli_is_set(const struct cli *cli, const char *name); /* not by the table */

/* A setting as text, as option_show; in the arena, NULL without memory. */
const char *cli_show_value(struct arena *arena, const struct option_desc *desc, const void *values);

/* A variable of setup->env, or NULL when it is not set or empty. */
const char *cli_env(const struct cli_setup *setup, const char *name);
const char *cli_env_of(const char *name, void *setup); /* the same, as a callback */

/* A manual page, from the option tables of the commands and a description of each: "" is hearth(1),
 * the overview, "serve" hearth-serve(1), "hearth.ini" hearth.ini(5). ERR_NOT_FOUND: there is no such
 * page. Otherwise fails as buf_append and the arena do. */
enum err cli_write_man(const struct cli_setup *setup, const char *page, struct arena *arena,
                       struct buf *out) NODISCARD;
/* The template INI file: every key of `hearth serve`, explained and commented out. */
enum err cli_write_example(const struct cli_setup *setup, struct arena *arena,
                           struct buf *out) NODISCARD;

/* ---- the subcommands: a new one is declared here and listed in cli.c ---- */

extern const struct command command_cache, command_completion, command_diff, command_doctor,
    command_help, command_launch, command_list, command_model, command_ps, command_pull, command_rm,
    command_run, command_serve, command_top, command_version, command_worker;

/* All of them, in the order of `hearth --help`, ended by NULL. */
extern const struct command *const cli_commands[];
