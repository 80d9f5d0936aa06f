/* micro.c: see the header. */
#include "lab/micro.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/progress.h"
#include "base/str.h"
#include "cli/process.h"

enum { ROW_BYTES = 1024, CELL_BYTES = 64 };

/* Of this process; without a sheet, rows are printed. */
static struct {
    const struct micro *micro;
    struct sheet *sheet;
    struct progress *bar;
    uint64_t rows;
} results;

void micro_begin(const struct micro *micro, struct sheet *sheet, struct progress *bar)
{
    results.micro = micro;
    results.sheet = sheet;
    results.bar = bar;
    for (size_t i = 0; sheet == NULL && i < micro->columns_count; i++)
        printf("%s%s", i > 0 ? "," : "", micro->columns[i].name);
    if (sheet == NULL)
        printf("\n");
}

static void add_cell(const struct sheet_column *column, struct str text)
{
    char cell[CELL_BYTES];
    double number;

    if (column->form != SHEET_TEXT) {
        sheet_number(results.sheet, str_to_f64(text, &number) ? number : NAN);
        return;
    }
    snprintf(cell, sizeof(cell), STR_FMT, STR_ARG(text));
    sheet_text(results.sheet, cell);
}

void micro_row(const char *name, const char *fmt, ...)
{
    char text[ROW_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (results.sheet == NULL) {
        printf("%s,%s\n", name, text);
        fflush(stdout);
        return;
    }
    struct str rest = str_from(text), cell;
    sheet_text(results.sheet, name);
    for (size_t i = 1; i < results.micro->columns_count; i++) {
        bool more = str_next(&rest, ',', &cell);
        assert(more); /* as many cells as columns */
        add_cell(&results.micro->columns[i], more ? cell : STR_NONE);
    }
    assert(!str_next(&rest, ',', &cell));
    if (results.bar != NULL)
        progress_update(results.bar, ++results.rows, 0);
}

void micro_note(const char *fmt, ...)
{
    char text[ROW_BYTES];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (results.sheet != NULL)
        sheet_note(results.sheet, "%s", text);
    else
        printf("# %s\n", text);
}

void micro_path(char out[MICRO_PATH_BYTES], const char *name)
{
    snprintf(out, MICRO_PATH_BYTES, "%s/%s.gguf", process_temp_dir(), name);
}
