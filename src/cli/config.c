/*
 * config.c: joins the common options with a command's own; finds and reads the INI file, which
 * base/option interprets.
 */
#include "cli/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

/* ---- common options ---- */

/* In the order of enum log_level and enum log_format. */
static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

#define AT(field) offsetof(struct common_options, field)

static const struct option_desc common[] = {
    {"config", 0, OPTION_TEXT, AT(config), .value = "FILE", HERE, .group = "Common options",
     .help = "INI file with settings; default: hearth/hearth.ini in your configuration folder."},
    {"log-level", 0, OPTION_ENUM, AT(log_level), .value = "LEVEL", .initial = "info",
     .names = log_levels, .help = "Minimum level of log lines."},
    {"log-format", 0, OPTION_ENUM, AT(log_format), .initial = "text", .names = log_formats,
     .help = "Log format: text or json."},
    {"color", 0, OPTION_FLAG, AT(color), .initial = "on", .help = "Disable colors."},
};

#undef AT

static size_t offset_of(const struct command *command)
{
    size_t align = alignof(struct common_options);

    assert((command->options_size > 0) == (command->table.count > 0));
    return (command->options_size + align - 1) / align * align;
}

size_t common_values_size(const struct command *command)
{
    return offset_of(command) + sizeof(struct common_options);
}

const struct common_options *common_of(const struct command *command, const void *values)
{
    return (const void *)((const char *)values + offset_of(command));
}

const struct option_table *common_table(const struct command *command, struct arena *arena)
{
    size_t own = command->table.count, count = own + COUNT_OF(common);
    struct option_table *table = arena_alloc(arena, sizeof(*table));
    struct option_desc *options = arena_alloc_array(arena, count, sizeof(*options));

    if (table == NULL || options == NULL)
        return NULL;
    if (own > 0)
        memcpy(options, command->table.options, own * sizeof(*options));
    memcpy(options + own, common, sizeof(common));
    for (size_t i = own; i < count; i++)
        options[i].offset += offset_of(command);
    *table = (struct option_table){command->name, options, count};
    return table;
}

bool common_has(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(common); i++)
        if (str_eq(name, str_from(common[i].name)))
            return true;
    return str_eq(name, STR("no-color"));
}

/* ---- folders ---- */

const char folders_key_name[] = "key";

/* $VARIABLE/hearth, else ~/FALLBACK/hearth; NULL: there is neither, or no memory. The specification
 * says to ignore a variable that is not an absolute path. */
static const char *home_folder(const struct cli_setup *setup, struct arena *arena,
                               const char *variable, const char *fallback)
{
    const char *base = cli_env(setup, variable), *home = cli_env(setup, "HOME");

    if (base != NULL && base[0] == '/')
        return arena_printf(arena, "%s/hearth", base);
    return home != NULL && home[0] == '/' ? arena_printf(arena, "%s/%s/hearth", home, fallback)
                                          : NULL;
}

const char *folders_state(const struct cli *cli, const char *named)
{
    return named != NULL ? named
                         : home_folder(cli->setup, cli->arena, "XDG_STATE_HOME", ".local/state");
}

const char *folders_ssd(const struct cli *cli, const char *named)
{
    const char *folder;

    if (named != NULL)
        return strcmp(named, "none") != 0 ? named : NULL;
    folder = home_folder(cli->setup, cli->arena, "XDG_CACHE_HOME", ".cache");
    return folder != NULL ? arena_printf(cli->arena, "%s/ssd", folder) : NULL;
}

/* ---- the INI file ---- */

static enum err read_text(const struct cli_setup *setup, const char *path, struct arena *arena,
                          struct config *config, struct errinfo *info)
{
    char resolved[PATH_MAX];
    char *data = NULL;
    size_t len = 0;

    /* Files are usually not opened through a link, but here the link is the user's own: many
     * keep their settings elsewhere. */
    if (realpath(path, resolved) == NULL)
        return err_set_errno(info, errno, "configuration %s", path);
    enum err err =
        file_read_all(setup->fs, AT_FDCWD, resolved, CONFIG_BYTES_MAX, &data, &len, info);
    if (err != ERR_OK)
        return err_wrap(info, err, "configuration %s", path);
    config->name = arena_strdup(arena, str_from(path));
    config->text = arena_strdup(arena, (struct str){data, len});
    bool binary = memchr(data, '\0', len) != NULL;
    mem_free(data);
    if (config->name == NULL || config->text == NULL)
        return err_set(info, arena->err, "no memory for the configuration");
    if (binary)
        return err_set(info, ERR_INVALID, "configuration %s: it has a NUL byte", path);
    return ERR_OK;
}

enum err config_read(const struct cli_setup *setup, const char *named, struct arena *arena,
                     struct config *config, struct errinfo *info)
{
    const char *folder =
                   named != NULL ? NULL : home_folder(setup, arena, "XDG_CONFIG_HOME", ".config"),
               *path = folder != NULL ? arena_printf(arena, "%s/hearth.ini", folder) : named;

    *config = (struct config){0};
    if (arena->err != ERR_OK)
        return err_set(info, arena->err, "no memory for the configuration's name");
    if (path == NULL)
        return ERR_OK;
    enum err err = read_text(setup, path, arena, config, info);
    if (err == ERR_NOT_FOUND && named == NULL) {
        *config = (struct config){0};
        return ERR_OK;
    }
    return err;
}
