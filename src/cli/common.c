/*
 * common.c: the common options and how they are joined with a command's own.
 */
#include "cli/common.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "cli/cli.h"

/* In the order of enum log_level and enum log_format. */
static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

#define AT(field) offsetof(struct common_options, field)

static const struct option_desc common[] = {
    {"config", 0, OPTION_TEXT, AT(config), .value = "FILE", .not_in_file = true,
     .group = "Common options",
     .help = "INI file with settings; default: hearth/hearth.ini in your configuration folder."},
    {"log-level", 0, OPTION_CHOICE, AT(log_level), .value = "LEVEL", .initial = "info",
     .choices = log_levels, .help = "Minimum level of log lines."},
    {"log-format", 0, OPTION_CHOICE, AT(log_format), .initial = "text", .choices = log_formats,
     .help = "Log format: text or json."},
    {"color", 0, OPTION_FLAG, AT(color), .initial = "on", .help = "Disable colors."},
};

#undef AT

size_t common_offset(const struct command *command)
{
    size_t align = alignof(struct common_options);

    assert((command->options_size > 0) == (command->table.count > 0));
    return (command->options_size + align - 1) / align * align;
}

size_t common_values_size(const struct command *command)
{
    return common_offset(command) + sizeof(struct common_options);
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
        options[i].offset += common_offset(command);
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
