/*
 * folders.c: see folders.h.
 */
#include "cli/folders.h"

#include <string.h>

#include "cli/cli.h"

const char folders_key_name[] = "key";

/* $VARIABLE/hearth, else ~/FALLBACK/hearth. A variable that is no absolute path is to be ignored,
 * says its specification. */
static const char *home_folder(const struct cli *cli, const char *variable, const char *fallback)
{
    const char *base = cli_env(cli->setup, variable), *home = cli_env(cli->setup, "HOME");

    if (base != NULL && base[0] == '/')
        return arena_printf(cli->arena, "%s/hearth", base);
    return home != NULL ? arena_printf(cli->arena, "%s/%s/hearth", home, fallback) : NULL;
}

const char *folders_state(const struct cli *cli, const char *named)
{
    return named != NULL ? named : home_folder(cli, "XDG_STATE_HOME", ".local/state");
}

const char *folders_ssd(const struct cli *cli, const char *named)
{
    const char *folder;

    if (named != NULL)
        return strcmp(named, "none") != 0 ? named : NULL;
    folder = home_folder(cli, "XDG_CACHE_HOME", ".cache");
    return folder != NULL ? arena_printf(cli->arena, "%s/ssd", folder) : NULL;
}
