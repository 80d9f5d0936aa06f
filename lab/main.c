/*
 * main.c: `hearth-lab`, the program of those who make hearth: all of hearth, and benchmarks, the
 * regression, traces, models with random weights, and a server that can be told to break its
 * promises. Wiring only.
 *
 *      hearth-lab bench prefix       hearth-bench prefix       hearth bench prefix
 *
 * are the same: links to this program are named after its commands, and hearth runs them (cli.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sysinfo.h"
#include "cli/cli.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/worker_main.h"
#include "engine/worker_process.h"
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
    (void)setenv("GGML_NO_BACKTRACE", "1", 0); /* as in src/main.c */
    if (argc > 1 && strcmp(argv[1], "serve") == 0)
        backend_wait_briefly(argv);
    if (argc == 2 && strcmp(argv[1], WORKER_ARGUMENT) == 0)
        return worker_main(WORKER_SOCKET, engine_load);
    lab_serve_setup();

    struct cli_setup setup = {
        .commands = commands,
        .fs = file_sys_real(),
        .clock = clock_real(),
        .out = stdout,
        .err = stderr,
        .env = (const char *const *)environ,
        .memory_bytes = sysinfo_memory_total(),
    };
    char *command = argc > 0 ? command_of(argv[0]) : NULL;
    if (command == NULL)
        return cli_main(&setup, argc, argv);
    argv[0] = command; /* and what follows are its arguments */
    return cli_main(&setup, argc + 1, argv - 1);
}
