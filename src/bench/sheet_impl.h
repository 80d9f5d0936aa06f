/*
 * sheet_impl.h: inside of a sheet, for sheet.c and sheet_svg.c.
 */
#ifndef HEARTH_BENCH_SHEET_IMPL_H
#define HEARTH_BENCH_SHEET_IMPL_H

#include <stddef.h>

#include "bench/sheet.h"

struct sheet_cell {
    char *text; /* of a column of text; owned */
    double number;
};

struct sheet {
    const struct sheet_column *columns;
    size_t columns_count;
    struct sheet_cell *cells; /* row by row */
    size_t count, capacity;
    char **notes;
    size_t notes_count, notes_capacity;
};

/* NULL beyond the last row, or for a name that no column has. */
const struct sheet_cell *sheet_cell(const struct sheet *sheet, size_t row, size_t column);
/* SIZE_MAX: there is none of this name. */
size_t sheet_find(const struct sheet *sheet, const char *name);

#endif
