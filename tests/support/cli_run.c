/*
 * cli_run.c: see cli_run.h.
 */
#include "support/cli_run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "cli/cli.h"
#include "support/test.h"

struct greet_options {
    uint64_t times;
    uint64_t bytes;
    bool loud; /* one byte: what follows the struct must be aligned again */
};

static const struct option_desc greet_table[] = {
    {"times", 't', OPTION_UINT, offsetof(struct greet_options, times), .initial = "1", .max = 9,
     .help = "How often."},
    {"bytes", 0, OPTION_SIZE, offsetof(struct greet_options, bytes), .initial = "50%",
     .help = "How much."},
    {"loud", 0, OPTION_FLAG, offsetof(struct greet_options, loud), .help = "With a mark."},
};

static enum cli_exit run_greet(struct cli *cli, const void *arg)
{
    const struct greet_options *options = arg;

    for (uint64_t i = 0; i < options->times; i++)
        for (size_t j = 0; j < cli->args_count; j++)
            fprintf(cli->out, "hello %s%s\n", cli->args[j], options->loud ? "!" : "");
    fprintf(cli->out, "%llu bytes, config %s, debug %d, times from %d\n",
            (unsigned long long)options->bytes, cli->config ? "read" : "none",
            log_enabled(cli->log, LOG_LEVEL_DEBUG), (int)cli->sources[0]);
    return CLI_EXIT_OK;
}

static enum cli_exit run_fail(struct cli *cli, const void *options)
{
    assert_ptr_equal(options, cli->values);
    return cli_error(cli, "no %s", "luck");
}

const struct command cli_greet = {
    .name = "greet",
    .summary = "Say hello.",
    .usage = "[options] NAME...",
    .table = {"greet", greet_table, COUNT_OF(greet_table)},
    .options_size = sizeof(struct greet_options),
    .args_min = 1,
    .args_max = 2,
    .run = run_greet,
};
static const struct command failing = {.name = "fail",
                                       .summary = "Fail.",
                                       .usage = "[options]",
                                       .table = {.command = "fail"},
                                       .run = run_fail};
static const struct command *const commands[] = {&cli_greet, &failing, &command_version,
                                                 &command_help, NULL};

struct cli_got cli_got;

int cli_run_args(const struct command *const *from, int argc, char **argv)
{
    free(cli_got.out); /* a memstream's memory is the C library's */
    free(cli_got.err);
    FILE *out = open_memstream(&cli_got.out, &cli_got.out_len),
         *err = open_memstream(&cli_got.err, &cli_got.err_len);
    assert_true(out != NULL && err != NULL);
    struct cli_setup setup = {.commands = from,
                              .fs = file_sys_real(),
                              .clock = clock_real(),
                              .out = out,
                              .err = err,
                              .env = cli_got.env,
                              .memory_bytes = 1000};
    cli_got.status = cli_main(&setup, argc, argv);
    fclose(out);
    fclose(err);
    return cli_got.status;
}

int cli_run(const char *line)
{
    char text[512], *argv[16] = {(char *)"hearth"};
    int argc = 1;

    snprintf(text, sizeof(text), "%s", line);
    for (char *rest = text, *word; (word = strsep(&rest, " ")) != NULL;)
        if (word[0] != '\0')
            argv[argc++] = word;
    return cli_run_args(commands, argc, argv);
}

const char *cli_write_file(const char *name, const char *text, size_t len)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/%s", test_dir(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *cli_write_ini(const char *text)
{
    return cli_write_file("test.ini", text, strlen(text));
}

void cli_set_env(size_t index, const char *name, const char *value)
{
    static char lines[COUNT_OF(cli_got.env)][1200];

    snprintf(lines[index], sizeof(lines[index]), "%s=%s", name, value);
    cli_got.env[index] = lines[index];
}
