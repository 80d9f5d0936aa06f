/*
 * option_man.c: the table as the options part of a manual page (man(7)), and as a template INI
 * file.
 *
 *      .TP                                           # Port to listen on; 0 lets the system
 *      \fB\-p\fR, \fB\-\-port\fR \fIN\fR             # choose. [0 to 65535]
 *      Port to listen on; 0 lets the system choose.  #port = 4117
 *
 * Lines of prose are broken at 78 bytes, for checkers of manual pages and for readers of the
 * source; the output does not depend on it.
 */
#include <string.h>

#include "base/option.h"
#include "base/option_impl.h"

enum { LINE_COLUMNS = 78, TEXT_BYTES_MAX = 8192 };

void option_roff(struct buf *out, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool begins = i == 0 || text.ptr[i - 1] == '\n';
        if (begins && (text.ptr[i] == '.' || text.ptr[i] == '\''))
            buf_append_str(out, "\\&"); /* at the start of a line it would be a request */
        if (text.ptr[i] == '\\')
            buf_append_str(out, "\\e");
        else if (text.ptr[i] == '-')
            buf_append_str(out, "\\-"); /* a minus sign that can be copied, not a hyphen */
        else
            buf_append_char(out, text.ptr[i]);
    }
}

/* Bytes that a word takes in the source. */
static size_t width_of(struct str word, bool roff)
{
    size_t width = word.len;

    for (size_t i = 0; roff && i < word.len; i++)
        width += word.ptr[i] == '\\' || word.ptr[i] == '-';
    if (roff && word.len > 0 && (word.ptr[0] == '.' || word.ptr[0] == '\''))
        width += 2;
    return width;
}

/* Prose, with `prefix` at the start of each line. */
static void append_wrapped(struct buf *out, struct str text, const char *prefix, bool roff)
{
    size_t column = 0;
    struct str word;

    while (str_next(&text, ' ', &word)) {
        size_t width = width_of(word, roff);
        if (word.len == 0)
            continue;
        if (column > 0 && column + 1 + width > LINE_COLUMNS) {
            buf_append_char(out, '\n');
            column = 0;
        }
        if (column == 0)
            buf_append_str(out, prefix);
        else
            buf_append_char(out, ' ');
        column += (column == 0 ? strlen(prefix) : 1) + width;
        if (roff)
            option_roff(out, word);
        else
            buf_append(out, word.ptr, word.len);
    }
    buf_append_char(out, '\n');
}

void option_roff_text(struct buf *out, struct str text)
{
    append_wrapped(out, text, "", true);
}

static void append_label(const struct option_desc *desc, struct buf *out)
{
    struct option_spelling spelling = option_spelling(desc);
    const char *word = option_value_word(desc);

    buf_append_str(out, ".TP\n");
    if (desc->letter != 0)
        buf_appendf(out, "\\fB\\-%c\\fR, ", desc->letter);
    if (desc->alias != NULL) {
        buf_appendf(out, "\\fB%s", spelling.alias_dashes[1] != '\0' ? "\\-\\-" : "\\-");
        option_roff(out, str_from(desc->alias));
        buf_append_str(out, "\\fR, ");
    }
    buf_appendf(out, "\\fB\\-\\-%s", spelling.negative ? "no\\-" : "");
    option_roff(out, str_from(desc->name));
    buf_append_str(out, "\\fR");
    if (word != NULL) {
        buf_append_str(out, " \\fI");
        option_roff(out, str_from(word));
        buf_append_str(out, "\\fR");
    }
    for (int i = 0; word == NULL && desc->type == OPTION_ENUM && desc->names[i] != NULL; i++)
        buf_appendf(out, "%c%s", i ? '|' : ' ', desc->names[i]);
    buf_append_char(out, '\n');
}

static bool in_file(const struct option_desc *desc)
{
    return !desc->not_in_file && !desc->hidden;
}

/* "port = N" */
static void append_key(const struct option_desc *desc, struct buf *out)
{
    const char *word = option_value_word(desc);

    buf_append_str(out, ".TP\n\\fB");
    option_roff(out, str_from(desc->name));
    buf_append_str(out, "\\fR = \\fI");
    if (word != NULL)
        option_roff(out, str_from(word));
    else if (desc->type == OPTION_FLAG)
        buf_append_str(out, "on|off");
    for (int i = 0; word == NULL && desc->type == OPTION_ENUM && desc->names[i] != NULL; i++)
        buf_appendf(out, "%s%s", i ? "|" : "", desc->names[i]);
    buf_append_str(out, "\\fR\n");
}

enum err option_man(const struct option_table *table, enum option_man_style style, struct buf *out)
{
    const char *group = NULL;
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    for (size_t i = 0; i < table->count && text.err == ERR_OK; i++) {
        const struct option_desc *desc = &table->options[i];
        group = desc->group ? desc->group : group;
        if (style == OPTION_MAN_KEYS ? !in_file(desc) : desc->hidden)
            continue;
        if (group != NULL) {
            buf_append_str(out, ".SS ");
            option_roff(out, str_from(group));
            buf_append_char(out, '\n');
            group = NULL;
        }
        if (style == OPTION_MAN_KEYS)
            append_key(desc, out);
        else
            append_label(desc, out);
        buf_clear(&text);
        option_facts(desc, &text);
        option_roff_text(out, str_from(buf_str(&text)));
    }
    enum err err = text.err != ERR_OK ? text.err : out->err;
    buf_fini(&text);
    return err;
}

/* The default, else an example, else the kind of value. */
static const char *example_value(const struct option_desc *desc)
{
    if (desc->initial != NULL)
        return desc->initial;
    switch (desc->type) {
    case OPTION_FLAG:
        return "off";
    case OPTION_ENUM:
        return desc->names[0];
    case OPTION_UINT:
    case OPTION_INT:
    case OPTION_FLOAT:
    case OPTION_SIZE:
    case OPTION_DURATION:
        return "0";
    case OPTION_TEXT:
    case OPTION_LIST:
        break;
    }
    return option_value_word(desc);
}

enum err option_example(const struct option_table *table, struct buf *out)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES_MAX);
    for (size_t i = 0; i < table->count && text.err == ERR_OK; i++) {
        const struct option_desc *desc = &table->options[i];
        if (!in_file(desc))
            continue;
        buf_clear(&text);
        option_facts(desc, &text);
        buf_append_char(out, '\n');
        append_wrapped(out, str_from(buf_str(&text)), "# ", false);
        buf_appendf(out, "#%s = %s\n", desc->name, example_value(desc));
    }
    enum err err = text.err != ERR_OK ? text.err : out->err;
    buf_fini(&text);
    return err;
}
