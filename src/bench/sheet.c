/*
 * sheet.c: cells, and the forms that are lines of text.
 */
#include "bench/sheet.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/json_write.h"
#include "base/buf.h"
#include "base/mem.h"
#include "bench/sheet_impl.h"

enum { NOTE_BYTES_MAX = 4096, CELL_BYTES = 256 };

struct sheet *sheet_create(const struct sheet_column *columns, size_t count)
{
    struct sheet *sheet = mem_alloc(sizeof(*sheet));

    assert(count > 0);
    sheet->columns = columns;
    sheet->columns_count = count;
    return sheet;
}

void sheet_destroy(struct sheet **out)
{
    struct sheet *sheet = *out;

    if (sheet == NULL)
        return;
    for (size_t i = 0; i < sheet->count; i++)
        mem_free(sheet->cells[i].text);
    for (size_t i = 0; i < sheet->notes_count; i++)
        mem_free(sheet->notes[i]);
    mem_free(sheet->cells);
    mem_free(sheet->notes);
    mem_free(sheet);
    *out = NULL;
}

/* Room for one more; sheets are small, so this aborts without memory as mem_alloc does. */
static void *grown(void *items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return items;
    size_t wanted = *capacity > 0 ? 2 * *capacity : 16;
    void *more = mem_alloc_array(wanted, size);
    if (count > 0)
        memcpy(more, items, count * size);
    mem_free(items);
    *capacity = wanted;
    return more;
}

void sheet_note(struct sheet *sheet, const char *fmt, ...)
{
    char text[NOTE_BYTES_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    sheet->notes = grown(sheet->notes, sheet->notes_count, &sheet->notes_capacity, sizeof(*sheet->notes));
    sheet->notes[sheet->notes_count++] = mem_strdup(text);
}

static struct sheet_cell *next_cell(struct sheet *sheet, bool text)
{
    const struct sheet_column *column = &sheet->columns[sheet->count % sheet->columns_count];

    assert((column->decimals == SHEET_TEXT) == text);
    sheet->cells = grown(sheet->cells, sheet->count, &sheet->capacity, sizeof(*sheet->cells));
    return &sheet->cells[sheet->count++];
}

void sheet_text(struct sheet *sheet, const char *text)
{
    next_cell(sheet, true)->text = mem_strdup(text);
}

void sheet_number(struct sheet *sheet, double value)
{
    next_cell(sheet, false)->number = value;
}

size_t sheet_rows(const struct sheet *sheet)
{
    assert(sheet->count % sheet->columns_count == 0);
    return sheet->count / sheet->columns_count;
}

const struct sheet_cell *sheet_cell(const struct sheet *sheet, size_t row, size_t column)
{
    if (column >= sheet->columns_count || row >= sheet_rows(sheet))
        return NULL;
    return &sheet->cells[row * sheet->columns_count + column];
}

size_t sheet_find(const struct sheet *sheet, const char *name)
{
    for (size_t i = 0; i < sheet->columns_count; i++)
        if (strcmp(sheet->columns[i].name, name) == 0)
            return i;
    return SIZE_MAX;
}

static const char *cell_text(const struct sheet *sheet, size_t row, size_t column, const char *none,
                             char out[CELL_BYTES])
{
    const struct sheet_cell *cell = sheet_cell(sheet, row, column);
    int decimals = sheet->columns[column].decimals;

    if (decimals == SHEET_TEXT)
        return cell->text;
    if (isnan(cell->number))
        return none;
    snprintf(out, CELL_BYTES, "%.*f", decimals, cell->number);
    return out;
}

/* ---- for people ---- */

static size_t width_of(const struct sheet *sheet, size_t column)
{
    char text[CELL_BYTES];
    size_t width = strlen(sheet->columns[column].label);

    for (size_t row = 0; row < sheet_rows(sheet); row++)
        width = MAX(width, strlen(cell_text(sheet, row, column, "-", text)));
    return width;
}

/* Text to the left, numbers to the right. */
static void append_cell(const struct sheet *sheet, size_t column, size_t width, const char *text, struct buf *out)
{
    bool left = sheet->columns[column].decimals == SHEET_TEXT, last = column + 1 == sheet->columns_count;

    if (left && last)
        buf_append_str(out, text);
    else
        buf_appendf(out, left ? "%-*s" : "%*s", (int)width, text);
    buf_append_str(out, last ? "\n" : "  ");
}

enum err sheet_write_table(const struct sheet *sheet, struct buf *out)
{
    size_t *widths = mem_alloc_array(sheet->columns_count, sizeof(*widths));
    char text[CELL_BYTES];

    for (size_t i = 0; i < sheet->columns_count; i++)
        widths[i] = width_of(sheet, i);
    for (size_t i = 0; i < sheet->notes_count; i++)
        buf_appendf(out, "%s\n", sheet->notes[i]);
    if (sheet->notes_count > 0)
        buf_append_char(out, '\n');
    for (size_t i = 0; i < sheet->columns_count; i++)
        append_cell(sheet, i, widths[i], sheet->columns[i].label, out);
    for (size_t row = 0; row < sheet_rows(sheet); row++)
        for (size_t i = 0; i < sheet->columns_count; i++)
            append_cell(sheet, i, widths[i], cell_text(sheet, row, i, "-", text), out);
    mem_free(widths);
    return out->err;
}

/* ---- for programs ---- */

/* Quoted when it must be (RFC 4180). */
static void append_csv(struct buf *out, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        buf_append_str(out, text);
        return;
    }
    buf_append_char(out, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"')
            buf_append_char(out, '"');
        buf_append_char(out, *text);
    }
    buf_append_char(out, '"');
}

enum err sheet_write_csv(const struct sheet *sheet, struct buf *out)
{
    char text[CELL_BYTES];

    for (size_t i = 0; i < sheet->notes_count; i++)
        buf_appendf(out, "# %s\n", sheet->notes[i]);
    for (size_t i = 0; i < sheet->columns_count; i++)
        buf_appendf(out, "%s%s", i > 0 ? "," : "", sheet->columns[i].name);
    buf_append_char(out, '\n');
    for (size_t row = 0; row < sheet_rows(sheet); row++) {
        for (size_t i = 0; i < sheet->columns_count; i++) {
            buf_append_str(out, i > 0 ? "," : "");
            append_csv(out, cell_text(sheet, row, i, "", text));
        }
        buf_append_char(out, '\n');
    }
    return out->err;
}

enum err sheet_write_json(const struct sheet *sheet, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    json_key(&json, "notes");
    json_open(&json, '[');
    for (size_t i = 0; i < sheet->notes_count; i++)
        json_text(&json, sheet->notes[i]);
    json_close(&json, ']');
    json_key(&json, "rows");
    json_open(&json, '[');
    for (size_t row = 0; row < sheet_rows(sheet); row++) {
        json_open(&json, '{');
        for (size_t i = 0; i < sheet->columns_count; i++) {
            const struct sheet_cell *cell = sheet_cell(sheet, row, i);
            json_key(&json, sheet->columns[i].name);
            if (sheet->columns[i].decimals == SHEET_TEXT)
                json_text(&json, cell->text);
            else
                json_float(&json, cell->number);
        }
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    buf_append_char(out, '\n');
    return out->err;
}
