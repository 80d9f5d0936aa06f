/*
 * main.c: wiring only. Passes the program everything that it uses from the process: arguments,
 * environment, streams.
 */
#include <stddef.h>

#include "cli/cli.h"
#include "cli/program.h"

int main(int argc, char **argv)
{
    program_prepare(argv, argc > 1 ? argv[1] : NULL);
    return program_run(cli_commands, argc, argv);
}
