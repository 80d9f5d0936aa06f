/*
 * main.c: `hearth-lab`, the program of those who make hearth: all of hearth, and benchmarks, the
 * regression, traces, models with random weights, and a server that can be told to break its
 * promises. Wiring only.
 *
 *      hearth-lab bench prefix       hearth-bench prefix       hearth bench prefix
 *
 * are the same: links to this program are named after its commands, and hearth runs them (cli.c).
 */
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/program.h"
#include "lab/cli/lab.h"

static const char prefix[] = "hearth-";

/* The product's commands, too, so that completions and manual pages have one list. */
static const struct command *const commands[] = {
    &command_bench,      &command_qa,        &command_replay,
    &command_model_make, &command_lab_serve, &command_run,
    &command_launch,     &command_pull,      &command_list,
    &command_rm,         &command_ps,        &command_top,
    &command_cache,      &command_diff,      &command_model,
    &command_doctor,     &command_worker,    &command_completion,
    &command_version,    &command_help,      NULL,
};

/* "bench" of ".../hearth-bench"; NULL of ".../hearth-lab". */
static char *command_of(char *program)
{
    char *name = strrchr(program, '/');

    name = name != NULL ? name + 1 : program;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 || strcmp(name, "hearth-lab") == 0)
        return NULL;
    return name + sizeof(prefix) - 1;
}

int main(int argc, char **argv)
{
    char *command = argc > 0 ? command_of(argv[0]) : NULL;

    program_prepare(argv, argc > 1 ? argv[1] : NULL);
    lab_serve_setup();
    if (command == NULL)
        return program_run(commands, argc, argv);
    argv[0] = command; /* and what follows are its arguments */
    return program_run(commands, argc + 1, argv - 1);
}
