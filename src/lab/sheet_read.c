/*
 * sheet_read.c: a sheet from CSV: what a microbenchmark prints, one line after the other, as a
 * table like all others.
 *
 * All fields are taken apart first, because only the last row tells whether a column is of numbers.
 * A field has no end of line in it: rows are lines.
 */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "lab/sheet_impl.h"

enum { LINE_BYTES_MAX = 1 << 16, COLUMNS_MAX = 256 };

struct table {
    struct str rows; /* the lines behind the names */
    size_t line;     /* of the names, from 1 */
    char *names[COLUMNS_MAX];
    size_t count;
};

static bool is_note(struct str line)
{
    return line.len > 0 && line.ptr[0] == '#';
}

/* The next field of a line into `out`, without quotes. False: there is none. `more`: a comma has
 * promised one. */
static bool next_field(struct str *line, bool *more, struct buf *out)
{
    bool quoted = line->len > 0 && line->ptr[0] == '"';
    size_t at = quoted;

    if (!*more)
        return false;
    buf_clear(out);
    for (; at < line->len && (quoted || line->ptr[at] != ','); at++) {
        bool quote = line->ptr[at] == '"';
        if (quoted && quote && (at + 1 == line->len || line->ptr[at + 1] != '"')) {
            quoted = false;
            continue;
        }
        at += quoted && quote; /* two of them are one */
        buf_append_char(out, line->ptr[at]);
    }
    *more = at < line->len;
    at += *more;
    *line = (struct str){line->ptr + at, line->len - at};
    return true;
}

/* A column of numbers, and how many decimals they show at the most; or SHEET_TEXT. */
static int merge_form(int form, struct str field)
{
    double number;
    size_t point = str_find(field, STR("."));

    if (form == SHEET_TEXT || (field.len > 0 && !str_to_f64(field, &number)))
        return SHEET_TEXT;
    return point == SIZE_MAX || field.len == 0 ? form
                                               : MAX(form, (int)MIN(field.len - point - 1, 9));
}

/* Calls fn for each field; false: a row has not as many as there are names. */
static bool each_field(const struct table *table, size_t *line_number,
                       void (*fn)(size_t column, struct str field, void *arg), void *arg)
{
    struct str rest = table->rows, line;
    struct buf field;
    bool even = true;

    *line_number = table->line;
    buf_init(&field, LINE_BYTES_MAX);
    while (even && str_next(&rest, '\n', &line)) {
        size_t column = 0;
        bool more = line.len > 0 && !is_note(line);
        ++*line_number;
        for (; next_field(&line, &more, &field); column++)
            if (column < table->count)
                fn(column, (struct str){buf_str(&field), field.len}, arg);
        even = column == table->count || column == 0;
    }
    buf_fini(&field);
    return even;
}

static void find_form(size_t column, struct str field, void *arg)
{
    struct sheet_column *columns = arg;

    columns[column].form = merge_form(columns[column].form, field);
}

static void add_cell(size_t column, struct str field, void *arg)
{
    struct sheet *sheet = arg;
    double number = NAN;

    if (sheet->columns[column].form == SHEET_TEXT) {
        char *text = mem_strndup(field.ptr, field.len);
        sheet_text(sheet, text);
        mem_free(text);
    } else {
        if (!str_to_f64(field, &number))
            number = NAN;
        sheet_number(sheet, number);
    }
}

/* Lines with '#' are notes wherever they stand: who prints row by row knows some things only later.
 */
static void read_notes(struct sheet *sheet, struct str text)
{
    struct str line;

    while (str_next(&text, '\n', &line)) {
        if (!is_note(line))
            continue;
        line = str_trim((struct str){line.ptr + 1, line.len - 1});
        if (line.len > 0)
            sheet_note(sheet, STR_FMT, STR_ARG(line));
    }
}

static enum err read_names(struct table *table, struct str text, struct errinfo *info)
{
    struct str line = STR_NONE;
    struct buf field;

    while ((line.len == 0 || is_note(line)) && str_next(&text, '\n', &line))
        table->line++;
    if (is_note(line))
        line = STR_NONE;
    table->rows = text;
    buf_init(&field, LINE_BYTES_MAX);
    for (bool more = line.len > 0; table->count < COLUMNS_MAX && next_field(&line, &more, &field);)
        table->names[table->count++] = mem_strndup(buf_str(&field), field.len);
    buf_fini(&field);
    return table->count > 0 ? ERR_OK : err_set(info, ERR_INVALID, "there are no names of columns");
}

enum err sheet_read_csv(struct sheet **out, struct str text, struct errinfo *info)
{
    struct table table = {.count = 0};
    struct sheet *sheet = mem_alloc(sizeof(*sheet));
    size_t line;

    enum err err = read_names(&table, text, info);
    read_notes(sheet, text);
    sheet->columns_own = mem_alloc_array(MAX(table.count, 1), sizeof(*sheet->columns_own));
    for (size_t i = 0; i < table.count; i++)
        sheet->columns_own[i] = (struct sheet_column){table.names[i], table.names[i], 0};
    sheet->columns = sheet->columns_own;
    sheet->columns_count = table.count;
    if (err == ERR_OK && !each_field(&table, &line, find_form, sheet->columns_own))
        err =
            err_set(info, ERR_INVALID, "line %zu: has not as many fields as there are names", line);
    if (err == ERR_OK)
        (void)each_field(&table, &line, add_cell, sheet);
    if (err != ERR_OK)
        sheet_destroy(&sheet);
    *out = sheet;
    return err;
}
