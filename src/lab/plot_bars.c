/*
 * plot_bars.c: a sheet as bars.
 *
 *      2000 cold     ######################## 812.0        one group per row, one bar per column of values
 *      2000 device   # 3.1                                 logarithmic: from the power of ten below the smallest value
 */
#include <math.h>
#include <stdint.h>

#include "base/buf.h"
#include "lab/plot.h"
#include "lab/plot_impl.h"
#include "lab/sheet_impl.h"

enum { LEFT = 260, RIGHT = 90, BAR = 14, GAP = 8 };

struct bars {
    const struct sheet *sheet;
    const struct plot *plot;
    struct buf *out;
    size_t values[PLOT_VALUES_MAX], values_count;
    double low, high; /* of the scale; of logarithms when the plot is */
    double y;
};

static bool value_at(const struct bars *bars, size_t row, size_t index, double *value)
{
    *value = sheet_cell(bars->sheet, row, bars->values[index])->number;
    return !isnan(*value) && (!bars->plot->logarithmic || *value > 0);
}

static double scaled(const struct bars *bars, double value)
{
    return bars->plot->logarithmic ? log10(value) : value;
}

static void find_columns(struct bars *bars)
{
    for (size_t i = 0; i < PLOT_VALUES_MAX && bars->plot->values[i] != NULL; i++) {
        size_t column = sheet_find(bars->sheet, bars->plot->values[i]);
        if (column != SIZE_MAX)
            bars->values[bars->values_count++] = column;
    }
}

static void find_scale(struct bars *bars)
{
    double value;
    bool any = false;

    for (size_t row = 0; row < sheet_rows(bars->sheet); row++) {
        for (size_t i = 0; i < bars->values_count; i++) {
            if (!value_at(bars, row, i, &value))
                continue;
            double at = scaled(bars, value);
            bars->low = any ? fmin(bars->low, at) : at;
            bars->high = any ? fmax(bars->high, at) : at;
            any = true;
        }
    }
    bars->low = bars->plot->logarithmic ? floor(bars->low - 0.01) : fmin(0, bars->low);
    if (bars->high <= bars->low)
        bars->high = bars->low + 1;
}

static void draw_legend(struct bars *bars)
{
    for (size_t i = 0; i < bars->values_count; i++) {
        const struct sheet_column *column = &bars->sheet->columns[bars->values[i]];
        buf_appendf(
            bars->out,
            "<rect x='%d' y='%.0f' width='22' height='10' fill='%s'/><text x='%d' y='%.0f'>", LEFT,
            bars->y - 9, plot_colour(i), LEFT + 30, bars->y);
        plot_text(bars->out, column->label != NULL ? column->label : column->name);
        buf_append_str(bars->out,
                       bars->plot->logarithmic ? " (logarithmic)</text>\n" : "</text>\n");
        bars->y += PLOT_LINE;
    }
    bars->y += GAP - PLOT_LINE;
}

static void draw_label(struct bars *bars, size_t row)
{
    char text[SHEET_CELL_BYTES];
    const char *before = "";

    buf_appendf(bars->out, "<text x='%d' y='%.0f' text-anchor='end'>", LEFT - 8, bars->y + BAR - 3);
    for (size_t i = 0; i < PLOT_LABELS_MAX && bars->plot->labels[i] != NULL; i++) {
        size_t column = sheet_find(bars->sheet, bars->plot->labels[i]);
        const struct sheet_cell *cell = sheet_cell(bars->sheet, row, column);
        if (cell == NULL)
            continue;
        buf_append_str(bars->out, before);
        plot_text(bars->out, cell->text != NULL ? cell->text
                                                : sheet_show(bars->sheet->columns[column].form,
                                                             cell->number, text));
        before = " ";
    }
    buf_append_str(bars->out, "</text>\n");
}

static void draw_bar(struct bars *bars, size_t row, size_t index)
{
    char text[SHEET_CELL_BYTES];
    double value;

    if (value_at(bars, row, index, &value)) {
        double part = (scaled(bars, value) - bars->low) / (bars->high - bars->low);
        double width = fmax(1, part * (PLOT_WIDTH - LEFT - RIGHT));
        buf_appendf(
            bars->out,
            "<rect x='%d' y='%.0f' width='%.1f' height='%d' fill='%s'/><text x='%.1f' y='%.0f' "
            "font-size='11'>%s</text>\n",
            LEFT, bars->y, width, BAR - 2, plot_colour(index), LEFT + width + 4, bars->y + BAR - 4,
            sheet_show(bars->sheet->columns[bars->values[index]].form, value, text));
    }
    bars->y += BAR;
}

void plot_bars(const struct sheet *sheet, const struct plot *plot, struct buf *out)
{
    struct bars bars = {.sheet = sheet, .plot = plot, .out = out};

    find_columns(&bars);
    find_scale(&bars);
    double height = plot_head_height(sheet) + 2 * GAP + PLOT_LINE * (double)bars.values_count +
                    (double)sheet_rows(sheet) * (GAP + BAR * (double)bars.values_count);
    bars.y = plot_head(sheet, plot->title, height, out);
    draw_legend(&bars);
    for (size_t row = 0; row < sheet_rows(sheet); row++) {
        draw_label(&bars, row);
        for (size_t i = 0; i < bars.values_count; i++)
            draw_bar(&bars, row, i);
        bars.y += GAP;
    }
}
