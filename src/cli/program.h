/*
 * program.h: what hearth and hearth-lab are before one of their commands runs: an engine's child
 * process, or a command line with arguments, environment and streams of the process.
 *
 * Thread: the main thread, once.
 */
#pragma once

struct command;

/* Before anything else, with the command that will run, or NULL: the environment that libraries read
 * when they are loaded. May start the program again. */
void program_prepare(char **argv, const char *command);

/* The whole program: `commands` ended by NULL, argv as in main. Returns the exit status. */
int program_run(const struct command *const *commands, int argc, char **argv);
