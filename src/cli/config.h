/*
 * config.h: where the INI file is, and what is in it.
 *
 * The file is, in this order: --config FILE, $HEARTH_CONFIG, $XDG_CONFIG_HOME/hearth/hearth.ini
 * (~/.config without that variable). The first two must exist; the last is optional.
 */
#ifndef HEARTH_CLI_CONFIG_H
#define HEARTH_CLI_CONFIG_H

#include "base/arena.h"
#include "base/attr.h"
#include "base/err.h"

struct cli_setup;

struct config {
    const char *name; /* NULL: there is no file */
    const char *text;
};

/* `named` is the file that the user asked for, or NULL. Texts live in the arena. */
enum err config_read(const struct cli_setup *setup, const char *named, struct arena *arena,
                     struct config *config, struct errinfo *info) NODISCARD;

/* ---- folders: by the XDG variables, else in the home folder ---- */

struct cli;

/* The folder of the installation's key and of remembered turns: `named` (of --state-dir), else by
 * default. In the arena; NULL: no home. */
const char *folders_state(const struct cli *cli, const char *named);
/* The folder of the SSD tier: `named` (of --ssd-dir; "none": NULL), else by default. */
const char *folders_ssd(const struct cli *cli, const char *named);

/* The name of the key's file in the state folder: 32 bytes. */
extern const char folders_key_name[];

#endif
