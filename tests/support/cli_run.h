/*
 * cli_run.h: the command line inside the test's process, with two commands for tests:
 *
 *      greet [-t N] [--bytes SIZE] [--loud] NAME [NAME]    greets, and says what it was given
 *      fail                                               fails
 *
 * and the real `version` and `help`. The machine has 1000 bytes of memory and the environment of
 * cli_set_env.
 */
#pragma once

#include <stddef.h>

struct command;

/* What the last run gave. */
struct cli_got {
    int status;
    char *out, *err; /* live until the next run */
    size_t out_len, err_len;
    const char *env[8];
};

extern struct cli_got cli_got;
extern const struct command cli_greet;

/* `line` is split at spaces and has no program name. Returns the exit status. */
int cli_run(const char *line);
/* The same with other commands, and arguments as main has them. */
int cli_run_args(const struct command *const *from, int argc, char **argv);

/* Sets entry `index` of the environment. */
void cli_set_env(size_t index, const char *name, const char *value);

/* A file below the test's folder, the second one called test.ini; the path is valid until the next
 * call. */
const char *cli_write_file(const char *name, const char *text, size_t len);
const char *cli_write_ini(const char *text);
