/*
 * option_ini.c: settings from an INI file, parsed by inih.
 *
 * inih gets our own reader instead of the whole text, for three reasons. Distributions build it so
 * that the handler does not get the line number; the reader counts lines. inih takes an indented
 * line for a continuation, so that "  port = 1" below "host = x" would silently become part of the
 * host; the reader removes the indentation. And inih drops the end of a line that does not fit its
 * buffer; the reader turns that into an error.
 *
 * inih continues after an error; only the first one is reported.
 */
#include <stdio.h>
#include <string.h>

#include <ini.h>

#include "base/option.h"
#include "base/option_impl.h"

struct ini_reader {
    struct option_run *run;
    const char *rest;
    int line;     /* the line that inih is parsing */
    enum err err; /* our first failure, on err_line */
    int err_line;
    const char *kind, *name;   /* only the section "[kind name]"; or, without a name, */
    struct option_list *names; /* ... only the names of such sections */
};

/* inih keeps 49 characters of a section's name and drops the rest. */
enum { SECTION_BYTES_MAX = 49 };

static const char *file_name(const struct option_run *run)
{
    return run->parse->ini_name ? run->parse->ini_name : "configuration";
}

/* Ends the reading with an error about the current line. */
static char *refuse_line(struct ini_reader *reader, const char *fmt, int limit)
{
    char what[64];

    snprintf(what, sizeof(what), fmt, limit);
    reader->err_line = reader->line;
    reader->err = err_set(reader->run->info, ERR_INVALID, "%s:%d: %s", file_name(reader->run),
                          reader->line, what);
    return NULL;
}

static char *next_line(char *out, int size, void *arg)
{
    struct ini_reader *reader = arg;

    if (reader->err != ERR_OK || reader->rest[0] == '\0')
        return NULL;
    reader->line++;
    const char *start = reader->rest + strspn(reader->rest, " \t\v\f\r");
    size_t len = strcspn(start, "\n");
    reader->rest = start + len + (start[len] == '\n');
    if (len + 2 > (size_t)size)
        return refuse_line(reader, "the line is longer than %d bytes", size - 2);
    if (start[0] == '[' && strcspn(start, "]\n") > SECTION_BYTES_MAX + 1)
        return refuse_line(reader, "the section's name is longer than %d bytes", SECTION_BYTES_MAX);
    /* For inih, the keys below it would be those before any section. */
    if (str_starts((struct str){start, len}, STR("[]")))
        return refuse_line(reader, "the section has no name", 0);
    memcpy(out, start, len);
    memcpy(out + len, "\n", 2);
    return out;
}

static const struct option_table *other_table(const struct option_run *run, const char *section)
{
    for (const struct option_table *const *other = run->parse->others; *other != NULL; other++)
        if (strcmp((*other)->command, section) == 0)
            return *other;
    return NULL;
}

static enum err unknown_key(const struct ini_reader *reader, const char *section, const char *key,
                            const char *nearest)
{
    const struct option_run *run = reader->run;
    char quoted[OPTION_QUOTE_BYTES], place[OPTION_NAME_BYTES] = "";

    option_quote(str_from(key), quoted);
    if (section[0] != '\0')
        snprintf(place, sizeof(place), " in [%s]", section);
    if (nearest != NULL)
        return err_set(run->info, ERR_INVALID, "%s:%d: unknown key %s%s; did you mean \"%s\"?",
                       file_name(run), reader->line, quoted, place, nearest);
    return err_set(run->info, ERR_INVALID, "%s:%d: unknown key %s%s", file_name(run), reader->line,
                   quoted, place);
}

static enum err unknown_section(const struct ini_reader *reader, const char *section)
{
    const struct option_run *run = reader->run;
    struct option_guess guess = {0};
    char quoted[OPTION_QUOTE_BYTES];
    struct str text = str_from(section);

    option_guess_name(&guess, text, run->table->command);
    for (const struct option_table *const *other = run->parse->others; *other != NULL; other++)
        option_guess_name(&guess, text, (*other)->command);
    option_quote(text, quoted);
    if (guess.name != NULL)
        return err_set(run->info, ERR_INVALID, "%s:%d: unknown section %s; did you mean [%s]?",
                       file_name(run), reader->line, quoted, guess.name);
    return err_set(run->info, ERR_INVALID, "%s:%d: unknown section %s", file_name(run),
                   reader->line, quoted);
}

static enum err set_key(const struct ini_reader *reader, const struct option_desc *desc,
                        enum option_source source, const char *value)
{
    struct option_origin origin = {.source = source};

    if (desc->not_in_file)
        return err_set(reader->run->info, ERR_INVALID, "%s:%d: %s cannot be set in a file",
                       file_name(reader->run), reader->line, desc->name);
    snprintf(origin.name, sizeof(origin.name), "%s:%d: %s", file_name(reader->run), reader->line,
             desc->name);
    return option_set(reader->run, desc, &origin, str_from(value));
}

/* A key before any section: ours, another command's, or a mistake. */
static enum err shared_key(const struct ini_reader *reader, const char *key, const char *value)
{
    const struct option_run *run = reader->run;
    const struct option_desc *desc = option_find(run->table, str_from(key));
    struct option_guess guess = {0};

    if (desc != NULL)
        return set_key(reader, desc, OPTION_FROM_FILE, value);
    option_guess(&guess, str_from(key), run->table);
    const struct option_table *const *other = run->parse->others;
    for (; other != NULL && *other != NULL; other++) {
        if (option_find(*other, str_from(key)) != NULL)
            return ERR_OK;
        option_guess(&guess, str_from(key), *other);
    }
    return unknown_key(reader, "", key, guess.name);
}

/* The name in "KIND name", or NULL for sections of another kind. */
static const char *name_in(const char *section, const char *kind)
{
    size_t len = kind != NULL ? strlen(kind) : 0;

    if (len == 0 || strncmp(section, kind, len) != 0 || section[len] != ' ')
        return NULL;
    const char *name = section + len + strspn(section + len, " ");
    return name[0] != '\0' ? name : NULL;
}

/* Another command's section is not evaluated, but its keys must exist: better to find a typo now
 * than when that command runs. */
static enum err section_key(const struct ini_reader *reader, const char *section, const char *key,
                            const char *value)
{
    const struct option_run *run = reader->run;
    bool ours = strcmp(section, run->table->command) == 0;
    struct option_guess guess = {0};

    if (!ours && (run->parse->others == NULL || name_in(section, run->parse->named) != NULL))
        return ERR_OK;
    const struct option_table *table = ours ? run->table : other_table(run, section);
    if (table == NULL)
        return unknown_section(reader, section);
    const struct option_desc *desc = option_find(table, str_from(key));
    if (desc == NULL) {
        option_guess(&guess, str_from(key), table);
        return unknown_key(reader, section, key, guess.name);
    }
    return ours ? set_key(reader, desc, OPTION_FROM_SECTION, value) : ERR_OK;
}

/* Adds a name unless it is known: inih repeats the section for each of its keys. */
static enum err take_name(const struct ini_reader *reader, const char *name)
{
    struct option_list *names = reader->names;
    struct arena *arena = reader->run->parse->arena;

    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return ERR_OK;
    const char **items = arena_push(arena, names->items, names->count, sizeof(*items));
    if (items != NULL)
        names->items = items;
    if (items == NULL || (items[names->count] = arena_strdup(arena, str_from(name))) == NULL)
        return err_set(reader->run->info, arena->err, "no memory for the sections");
    names->count++;
    return ERR_OK;
}

/* A key of a "[kind name]" section. */
static enum err named_key(const struct ini_reader *reader, const char *section, const char *key,
                          const char *value)
{
    const char *name = name_in(section, reader->kind);
    struct option_guess guess = {0};

    if (name == NULL)
        return ERR_OK;
    if (reader->names != NULL)
        return take_name(reader, name);
    if (strcmp(name, reader->name) != 0)
        return ERR_OK;
    const struct option_desc *desc = option_find(reader->run->table, str_from(key));
    if (desc != NULL)
        return set_key(reader, desc, OPTION_FROM_SECTION, value);
    option_guess(&guess, str_from(key), reader->run->table);
    return unknown_key(reader, section, key, guess.name);
}

/* inih's handler: nonzero is success. */
static int handle_key(void *arg, const char *section, const char *key, const char *value)
{
    struct ini_reader *reader = arg;

    if (reader->err == ERR_OK) {
        if (reader->kind != NULL)
            reader->err = named_key(reader, section, key, value);
        else
            reader->err = section[0] == '\0' ? shared_key(reader, key, value)
                                             : section_key(reader, section, key, value);
        reader->err_line = reader->line;
    }
    return reader->err == ERR_OK;
}

static enum err read_all(struct ini_reader *reader)
{
    struct option_run *run = reader->run;

    if (reader->rest == NULL)
        return ERR_OK;
    int line = ini_parse_stream(next_line, reader, handle_key, reader);
    if (line < 0)
        return err_set(run->info, ERR_NOMEM, "%s: no memory to read it", file_name(run));
    if (line > 0 && (reader->err == ERR_OK || line < reader->err_line))
        return err_set(run->info, ERR_INVALID,
                       "%s:%d: expected \"name = value\", \"[section]\" or a comment",
                       file_name(run), line);
    return reader->err;
}

enum err option_read_ini(struct option_run *run)
{
    struct ini_reader reader = {.run = run, .rest = run->parse->ini_text};

    return read_all(&reader);
}

enum err option_sections(struct option_parse *parse, const char *kind, struct option_list *names,
                         struct errinfo *info)
{
    struct option_run run = {.parse = parse, .info = info};
    struct ini_reader reader = {.run = &run, .rest = parse->ini_text, .kind = kind, .names = names};

    *names = (struct option_list){0};
    return read_all(&reader);
}

enum err option_read_section(const struct option_table *table, const char *kind, const char *name,
                             void *values, struct option_parse *parse, struct errinfo *info)
{
    struct option_run run = {.table = table, .parse = parse, .values = values, .info = info};
    struct ini_reader reader = {.run = &run, .rest = parse->ini_text, .kind = kind, .name = name};

    run.sources = arena_alloc_array(parse->arena, table->count, sizeof(*run.sources));
    if (run.sources == NULL)
        return err_set(info, parse->arena->err, "no memory for the options");
    return read_all(&reader);
}
