/*
 * serve_settings.c: everything that a server was started with, as /admin/settings shows it.
 *
 * Names as in JSON, values as in the help; secrets are masked. The API adds settings that can be
 * changed at run time.
 */
#include <string.h>

#include "admin/admin.h"
#include "base/arena.h"
#include "cli/cli.h"
#include "cli/serve.h"

enum { VALUE_BYTES_MAX = 4096 };

static const char *name_of(struct arena *arena, const char *option)
{
    char *name = arena_strdup(arena, str_from(option));

    for (char *at = name; at != NULL && *at != '\0'; at++)
        if (*at == '-')
            *at = '_';
    return name;
}

/* NULL when out of memory: it is then shown as none. */
static const char *value_of(struct arena *arena, const struct option_desc *desc, const void *values)
{
    struct buf text;
    const char *value = NULL;

    buf_init(&text, VALUE_BYTES_MAX);
    if (option_show(desc, values, &text) == ERR_OK)
        value = arena_strdup(arena, (struct str){buf_str(&text), text.len});
    buf_fini(&text);
    return value;
}

struct admin_setting *serve_settings(const struct cli *cli, const struct option_table *table,
                                     const void *values, size_t *count)
{
    struct admin_setting *settings = arena_alloc_array(cli->arena, table->count, sizeof(*settings));

    *count = 0;
    for (size_t i = 0; settings != NULL && i < table->count; i++) {
        const struct option_desc *desc = &table->options[i];
        const char *name = name_of(cli->arena, desc->name);

        if (name == NULL || desc->hidden)
            continue;
        settings[(*count)++] = (struct admin_setting){
            .name = name,
            .value = value_of(cli->arena, desc, values),
            .initial = desc->initial,
            .help = desc->help,
        };
    }
    return settings;
}
