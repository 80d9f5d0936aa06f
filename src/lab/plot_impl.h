/*
 * plot_impl.h: what plot.c, plot_bars.c and plot_lines.c share.
 */
#ifndef HEARTH_LAB_PLOT_IMPL_H
#define HEARTH_LAB_PLOT_IMPL_H

#include <stddef.h>

struct buf;
struct plot;
struct sheet;

enum { PLOT_WIDTH = 900, PLOT_LINE = 16 };

/* The n-th of a handful, then from the first again. */
const char *plot_colour(size_t number);

/* Text of the user's: what means something to XML is written as an entity, what cannot be shown is
 * left out. */
void plot_text(struct buf *out, const char *text);

/* The beginning of a picture of that height, title and notes. Returns where the rest begins. */
double plot_head(const struct sheet *sheet, const char *title, double height, struct buf *out);
/* What plot_head takes of the height. */
double plot_head_height(const struct sheet *sheet);

void plot_bars(const struct sheet *sheet, const struct plot *plot, struct buf *out);
void plot_lines(const struct sheet *sheet, const struct plot *plot, struct buf *out);

#endif
