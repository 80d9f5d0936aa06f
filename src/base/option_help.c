/*
 * option_help.c: the table as text for people.
 *
 *      Network:
 *        -p, --port N              Port to listen on; 0 lets the system choose. [0 to 65535;
 *                                  default 4117; HEARTH_PORT]
 *      |<-------- LABEL -------->|<---------------------- up to width ---------------------->|
 *
 * Widths are counted in bytes: the tables are ASCII.
 */
#include <string.h>

#include "base/option.h"
#include "base/option_impl.h"

enum { LABEL_COLUMNS = 28, WIDTH_MIN = 60, LINE_BYTES_MAX = 4096 };

void option_facts(const struct option_desc *desc, struct buf *text)
{
    char range[OPTION_RANGE_BYTES], env[OPTION_NAME_BYTES];

    buf_appendf(text, "%s [", desc->help);
    if (option_range(desc, range))
        buf_appendf(text, "%s; ", range);
    if (desc->type == OPTION_ENUM && desc->value != NULL) {
        for (int i = 0; desc->names[i] != NULL; i++)
            buf_appendf(text, "%s%s", i ? ", " : "", desc->names[i]);
        buf_append_str(text, "; ");
    }
    if (desc->type == OPTION_LIST)
        buf_append_str(text, "may be repeated; ");
    if (desc->initial != NULL && desc->type != OPTION_FLAG && !desc->secret)
        buf_appendf(text, "default %s; ", desc->initial[0] ? desc->initial : "empty");
    buf_appendf(text, "%s]", option_env_name(desc, env));
}

/* A flag that is on by default. The table's check ensures that it can be parsed. */
static bool is_on(const struct option_desc *desc)
{
    bool on = false;
    struct option_desc flag = *desc;

    flag.offset = 0;
    if (desc->type != OPTION_FLAG || desc->initial == NULL)
        return false;
    if (option_value_parse(&flag, str_from(desc->initial), &on, &(struct option_value_from){0},
                           NULL) != ERR_OK)
        return false;
    return on;
}

struct option_spelling option_spelling(const struct option_desc *desc)
{
    /* aliases up to this length are written as in llama.cpp: -np, -ngld */
    enum { ALIAS_SHORT = 4 };
    bool one_dash = desc->alias != NULL && strlen(desc->alias) <= ALIAS_SHORT;

    return (struct option_spelling){.negative = is_on(desc), .alias_dashes = one_dash ? "-" : "--"};
}

static void append_label(const struct option_desc *desc, struct buf *label)
{
    struct option_spelling spelling = option_spelling(desc);
    const char *word = option_value_word(desc);

    buf_append_str(label, "  ");
    if (desc->letter != 0)
        buf_appendf(label, "-%c, ", desc->letter);
    if (desc->alias != NULL)
        buf_appendf(label, "%s%s, ", spelling.alias_dashes, desc->alias);
    if (desc->letter == 0 && desc->alias == NULL)
        buf_append_str(label, "    ");
    buf_appendf(label, "--%s%s", spelling.negative ? "no-" : "", desc->name);
    if (word != NULL)
        buf_appendf(label, " %s", word);
    for (int i = 0; word == NULL && desc->type == OPTION_ENUM && desc->names[i] != NULL; i++)
        buf_appendf(label, "%c%s", i ? '|' : ' ', desc->names[i]);
}

/* The label, then the words of the text in the right column. */
static void append_entry(const char *label, struct str text, size_t width, struct buf *out)
{
    size_t column = strlen(label);
    struct str word;

    buf_append_str(out, label);
    if (column + 2 > LABEL_COLUMNS) { /* no room for two spaces: the text starts on its own line */
        buf_append_char(out, '\n');
        column = 0;
    }
    buf_appendf(out, "%*s", (int)(LABEL_COLUMNS - column), "");
    column = LABEL_COLUMNS;
    for (bool first = true; str_next(&text, ' ', &word); first = false) {
        if (!first && column + 1 + word.len > width) {
            buf_appendf(out, "\n%*s", LABEL_COLUMNS, "");
            column = LABEL_COLUMNS;
        } else if (!first) {
            buf_append_char(out, ' ');
            column++;
        }
        buf_append(out, word.ptr, word.len);
        column += word.len;
    }
    buf_append_char(out, '\n');
}

enum err option_help(const struct option_table *table, struct buf *out, int width)
{
    struct buf label, text;
    size_t columns = (size_t)MAX(width, WIDTH_MIN);

    buf_init(&label, LINE_BYTES_MAX);
    buf_init(&text, LINE_BYTES_MAX);
    for (size_t i = 0; i < table->count; i++) {
        const struct option_desc *desc = &table->options[i];
        const char *group = desc->group ? desc->group : i == 0 ? "Options" : NULL;
        if (group != NULL)
            buf_appendf(out, "%s%s:\n", i ? "\n" : "", group);
        if (desc->hidden)
            continue;
        buf_clear(&label);
        buf_clear(&text);
        append_label(desc, &label);
        option_facts(desc, &text);
        if (label.err != ERR_OK || text.err != ERR_OK)
            break;
        append_entry(buf_str(&label), str_from(buf_str(&text)), columns, out);
    }
    if (table->count == 0)
        buf_append_str(out, "Options:\n");
    append_entry("  -h, --help", STR("Show this help."), columns, out);
    enum err err = label.err != ERR_OK ? label.err : text.err != ERR_OK ? text.err : out->err;
    buf_fini(&label);
    buf_fini(&text);
    return err;
}
