/*
 * folders.h: where things lie when nobody says where: by the XDG variables, else in the home
 * folder.
 */
#ifndef HEARTH_CLI_FOLDERS_H
#define HEARTH_CLI_FOLDERS_H

struct cli;

/* The folder of the installation's key and of remembered turns: `named` (of --state-dir), else by
 * default. In the arena; NULL: no home. */
const char *folders_state(const struct cli *cli, const char *named);
/* The folder of the SSD tier: `named` (of --ssd-dir; "none": NULL), else by default. */
const char *folders_ssd(const struct cli *cli, const char *named);

/* The name of the key's file in the state folder: 32 bytes. */
extern const char folders_key_name[];

#endif
