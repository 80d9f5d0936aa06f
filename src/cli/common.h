/*
 * common.h: the options that every command has.
 *
 * They are not in the commands' structs. A command's table and the common one are joined, and so
 * are their values:
 *
 *      values -> [ struct of the command | struct common_options ]
 *                0                       common_offset
 */
#ifndef HEARTH_CLI_COMMON_H
#define HEARTH_CLI_COMMON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/option.h"

struct command;

struct common_options {
    const char *config;
    int log_level;  /* enum log_level */
    int log_format; /* enum log_format */
    bool color;     /* if the terminal supports it */
};

/* Where `struct common_options` is in the values of a command, and how large both are together. */
size_t common_offset(const struct command *command);
size_t common_values_size(const struct command *command);

/* The joined table, in the arena; NULL when the arena is full. */
const struct option_table *common_table(const struct command *command,
                                        struct arena *arena) NODISCARD;

/* Whether one of them has this name. */
bool common_has(struct str name);

#endif
