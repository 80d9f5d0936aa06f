/* sheet_impl.h: internals of a sheet, for sheet*.c and plot*.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/sheet.h"

enum { SHEET_CELL_BYTES = 256 };

struct sheet_cell {
    char *text; /* of a column of text; owned */
    double number;
};

struct sheet_fact {
    const char *name;
    struct sheet_cell value;
};

struct sheet {
    const struct sheet_column *columns;
    size_t columns_count;
    struct sheet_cell *cells; /* row by row */
    size_t count, capacity;
    struct sheet_fact *facts;
    size_t facts_count, facts_capacity;
    char **notes;
    size_t notes_count, notes_capacity;
};

/* NULL beyond the last row, or for a name that no column has. */
const struct sheet_cell *sheet_cell(const struct sheet *sheet, size_t row, size_t column);
/* SIZE_MAX: no column has this name. */
size_t sheet_find(const struct sheet *sheet, const char *name);
/* A number as people see it in a column of this form. Returns `out`. */
const char *sheet_show(int form, double number, char out[SHEET_CELL_BYTES]);
