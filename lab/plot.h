/*
 * plot.h: a sheet as a picture: self-contained SVG, no script, no font. Title and notes are above
 * it.
 *
 *      bars    one group per row, one bar per column of values
 *      lines   one line per name of a column, over the numbers of another
 *
 * Colours are safe for red-green colour blindness. Pure; any thread.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"

struct buf;
struct sheet;

enum plot_kind { PLOT_BARS, PLOT_LINES };
enum { PLOT_LABELS_MAX = 3, PLOT_VALUES_MAX = 4 };

/* All but the title are names of columns; unknown names are ignored. */
struct plot {
    enum plot_kind kind;
    const char *title;
    bool logarithmic;                    /* bars: their length; lines: across */
    const char *labels[PLOT_LABELS_MAX]; /* bars: what a row is called; NULL = fewer */
    const char *values[PLOT_VALUES_MAX]; /* bars */
    const char *series, *x, *y;          /* lines */
    const char *tick;                    /* lines: x as people read it; a column of text */
};

/* Fails as buf_append does. */
enum err plot_write(const struct sheet *sheet, const struct plot *plot, struct buf *out) NODISCARD;
