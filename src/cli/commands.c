/*
 * commands.c: the list of subcommands.
 */
#include "cli/commands.h"

#include <stddef.h>

#include "cli/cli.h"

const struct command *const cli_commands[] = {
    &command_serve,      &command_run,     &command_launch, &command_ps,
    &command_top,        &command_cache,   &command_diff,   &command_model,
    &command_replay,     &command_bench,   &command_qa,     &command_doctor,
    &command_completion, &command_version, &command_help,   NULL,
};
