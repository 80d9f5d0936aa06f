/*
 * commands.h: the subcommands, one per file of this folder. A new one is declared here and listed
 * in cli.c.
 */
#ifndef HEARTH_CLI_COMMANDS_H
#define HEARTH_CLI_COMMANDS_H

struct command;

extern const struct command command_bench;
extern const struct command command_cache;
extern const struct command command_completion;
extern const struct command command_diff;
extern const struct command command_doctor;
extern const struct command command_help;
extern const struct command command_launch;
extern const struct command command_model;
extern const struct command command_ps;
extern const struct command command_qa;
extern const struct command command_replay;
extern const struct command command_serve;
extern const struct command command_run;
extern const struct command command_top;
extern const struct command command_version;

/* All of them, in the order of `hearth --help`, ended by NULL. */
extern const struct command *const cli_commands[];

#endif
