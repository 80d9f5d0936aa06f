/* sheet.c: cells, and the text formats. */
#include "cli/sheet.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/units.h"
#include "cli/sheet_impl.h"

enum { NOTE_BYTES_MAX = 4096 };

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
    for (size_t i = 0; i < sheet->facts_count; i++)
        mem_free(sheet->facts[i].value.text);
    mem_free(sheet->cells);
    mem_free(sheet->facts);
    mem_free(sheet->notes);
    mem_free(sheet);
    *out = NULL;
}

void sheet_note(struct sheet *sheet, const char *fmt, ...)
{
    char text[NOTE_BYTES_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    mem_reserve_one(&sheet->notes, sheet->notes_count, &sheet->notes_capacity,
                    sizeof(*sheet->notes));
    sheet->notes[sheet->notes_count++] = mem_strdup(text);
}

static struct sheet_cell *next_fact(struct sheet *sheet, const char *name)
{
    mem_reserve_one(&sheet->facts, sheet->facts_count, &sheet->facts_capacity,
                    sizeof(*sheet->facts));
    struct sheet_fact *fact = &sheet->facts[sheet->facts_count++];
    *fact = (struct sheet_fact){.name = name};
    return &fact->value;
}

void sheet_fact_text(struct sheet *sheet, const char *name, const char *text)
{
    next_fact(sheet, name)->text = mem_strdup(text);
}

void sheet_fact_number(struct sheet *sheet, const char *name, double value)
{
    next_fact(sheet, name)->number = value;
}

/* Its cells are text. */
static bool sheet_is_text(int form)
{
    return form == SHEET_TEXT || form == SHEET_CAPTION;
}

static struct sheet_cell *next_cell(struct sheet *sheet, bool text)
{
    const struct sheet_column *column = &sheet->columns[sheet->count % sheet->columns_count];

    assert(sheet_is_text(column->form) == text);
    mem_reserve_one(&sheet->cells, sheet->count, &sheet->capacity, sizeof(*sheet->cells));
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

/* ---- for people ---- */

const char *sheet_show(int form, double number, char out[SHEET_CELL_BYTES])
{
    char text[UNITS_TEXT_BYTES];

    switch (form) {
    case SHEET_COUNT:
        snprintf(out, SHEET_CELL_BYTES, "%s", units_format_count((uint64_t)number, text));
        break;
    case SHEET_SIZE:
        snprintf(out, SHEET_CELL_BYTES, "%s", units_format_size((uint64_t)number, text));
        break;
    case SHEET_PERCENT:
        snprintf(out, SHEET_CELL_BYTES, "%.2f%%", 100 * number);
        break;
    default:
        snprintf(out, SHEET_CELL_BYTES, "%.*f", form, number);
    }
    return out;
}

static const char *shown(const struct sheet *sheet, size_t row, size_t column,
                         char out[SHEET_CELL_BYTES])
{
    const struct sheet_cell *cell = sheet_cell(sheet, row, column);

    if (sheet_is_text(sheet->columns[column].form))
        return cell->text;
    return isnan(cell->number) ? "-" : sheet_show(sheet->columns[column].form, cell->number, out);
}

static size_t width_of(const struct sheet *sheet, size_t column)
{
    char text[SHEET_CELL_BYTES];
    size_t width = strlen(sheet->columns[column].label);

    for (size_t row = 0; row < sheet_rows(sheet); row++)
        width = MAX(width, strlen(shown(sheet, row, column, text)));
    return width;
}

/* The last visible column; there is one. */
static size_t last_shown(const struct sheet *sheet)
{
    size_t last = sheet->columns_count - 1;

    while (last > 0 && sheet->columns[last].label == NULL)
        last--;
    return last;
}

/* Text to the left, numbers to the right. `row` SIZE_MAX: the labels. */
static void append_row(const struct sheet *sheet, size_t row, const size_t *widths, struct buf *out)
{
    char text[SHEET_CELL_BYTES];
    size_t last = last_shown(sheet);

    for (size_t i = 0; i <= last; i++) {
        const struct sheet_column *column = &sheet->columns[i];
        if (column->label == NULL)
            continue;
        const char *cell = row == SIZE_MAX ? column->label : shown(sheet, row, i, text);
        if (!sheet_is_text(column->form))
            buf_appendf(out, "%*s", (int)widths[i], cell);
        else
            buf_appendf(out, "%-*s", i == last ? 0 : (int)widths[i], cell);
        buf_append_str(out, i == last ? "\n" : "  ");
    }
}

enum err sheet_write_table(const struct sheet *sheet, struct buf *out)
{
    size_t *widths = mem_alloc_array(sheet->columns_count, sizeof(*widths));

    for (size_t i = 0; i < sheet->columns_count; i++)
        widths[i] = sheet->columns[i].label != NULL ? width_of(sheet, i) : 0;
    for (size_t i = 0; i < sheet->notes_count; i++)
        buf_appendf(out, "%s\n", sheet->notes[i]);
    if (sheet->notes_count > 0)
        buf_append_char(out, '\n');
    append_row(sheet, SIZE_MAX, widths, out);
    for (size_t row = 0; row < sheet_rows(sheet); row++)
        append_row(sheet, row, widths, out);
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

/* Bytes and counts are whole numbers; fractions get enough decimals for hundredths of a percent. */
static int decimals_of(int form)
{
    return form >= 0 ? form : form == SHEET_PERCENT ? 6 : 0;
}

static void append_csv_cell(const struct sheet *sheet, size_t row, size_t column, struct buf *out)
{
    const struct sheet_cell *cell = sheet_cell(sheet, row, column);
    int form = sheet->columns[column].form;

    if (form == SHEET_TEXT)
        append_csv(out, cell->text);
    else if (!isnan(cell->number))
        buf_appendf(out, "%.*f", decimals_of(form), cell->number);
}

/* `row` SIZE_MAX: the names. */
static void append_csv_row(const struct sheet *sheet, size_t row, struct buf *out)
{
    const char *before = "";

    for (size_t i = 0; i < sheet->columns_count; i++) {
        if (sheet->columns[i].form == SHEET_CAPTION)
            continue;
        buf_append_str(out, before);
        if (row == SIZE_MAX)
            buf_append_str(out, sheet->columns[i].name);
        else
            append_csv_cell(sheet, row, i, out);
        before = ",";
    }
    buf_append_char(out, '\n');
}

enum err sheet_write_csv(const struct sheet *sheet, struct buf *out)
{
    for (size_t i = 0; i < sheet->notes_count; i++)
        buf_appendf(out, "# %s\n", sheet->notes[i]);
    append_csv_row(sheet, SIZE_MAX, out);
    for (size_t row = 0; row < sheet_rows(sheet); row++)
        append_csv_row(sheet, row, out);
    return out->err;
}

/* Whole numbers without a point, because JSON readers distinguish them. */
static void json_cell(struct json *json, const struct sheet_cell *cell)
{
    if (cell->text != NULL)
        json_text(json, cell->text);
    else if (cell->number == floor(cell->number) && fabs(cell->number) < 0x1p53)
        json_int(json, (int64_t)cell->number);
    else
        json_float(json, cell->number);
}

static void json_row(struct json *json, const struct sheet *sheet, size_t row)
{
    json_open(json, '{');
    for (size_t i = 0; i < sheet->columns_count; i++) {
        if (sheet->columns[i].form == SHEET_CAPTION)
            continue;
        json_key(json, sheet->columns[i].name);
        json_cell(json, sheet_cell(sheet, row, i));
    }
    json_close(json, '}');
}

enum err sheet_write_json(const struct sheet *sheet, struct buf *out)
{
    struct json json = json_to(out);

    json_open(&json, '{');
    for (size_t i = 0; i < sheet->facts_count; i++) {
        json_key(&json, sheet->facts[i].name);
        json_cell(&json, &sheet->facts[i].value);
    }
    json_key_open(&json, "notes", '[');
    for (size_t i = 0; i < sheet->notes_count; i++)
        json_text(&json, sheet->notes[i]);
    json_close(&json, ']');
    json_key_open(&json, "rows", '[');
    for (size_t row = 0; row < sheet_rows(sheet); row++)
        json_row(&json, sheet, row);
    json_close(&json, ']');
    json_close(&json, '}');
    buf_append_char(out, '\n');
    return out->err;
}
