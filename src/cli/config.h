/*
 * config.h: the options that every command has, where the INI file is, and what is in it.
 *
 * The common options are not in the commands' structs. A command's table and the common one are
 * joined, and so are their values:
 *
 *      values -> [ struct of the command | struct common_options ]
 *
 * The file is, in this order: --config FILE, $HEARTH_CONFIG, $XDG_CONFIG_HOME/hearth/hearth.ini
 * (~/.config without that variable). The first two must exist; the last is optional.
 */
#pragma once

#include "base/option.h"

struct cli;
struct cli_setup;
struct command;

struct common_options {
    const char *config;
    int log_level;  /* enum log_level */
    int log_format; /* enum log_format */
    bool color;     /* if the terminal supports it */
};

/* How large the values of a command are, and which of them are the common ones. */
size_t common_values_size(const struct command *command);
const struct common_options *common_of(const struct command *command, const void *values);

/* The joined table, in the arena; NULL when the arena is full. */
const struct option_table *common_table(const struct command *command,
                                        struct arena *arena) NODISCARD;

/* Whether one of them has this name. */
bool common_has(struct str name);

/* ---- the INI file ---- */

struct config {
    const char *name; /* NULL: there is no file */
    const char *text;
};

/* `named` is the file that the user asked for, or NULL. Texts live in the arena. */
enum err config_read(const struct cli_setup *setup, const char *named, struct arena *arena,
                     struct config *config, struct errinfo *info) NODISCARD;

/* ---- folders: by the XDG variables, else in the home folder ---- */

/* The folder of the installation's key and of remembered turns: `named` (of --state-dir), else by
 * default. In the arena; NULL: no home. */
const char *folders_state(const struct cli *cli, const char *named);
/* The folder of the SSD tier: `named` (of --ssd-dir; "none": NULL), else by default. */
const char *folders_ssd(const struct cli *cli, const char *named);

/* The name of the key's file in the state folder: 32 bytes. */
extern const char folders_key_name[];
