/*
 * plot_lines.c: a sheet as lines.
 *
 *      100% |          ____----   opt           x: logarithmic or not, a tick per number that there is
 *           |     __--- __--      lru-tail      y: from 0 to the next step of a tenth above the largest
 *         0 +---------------
 *
 * Points of a line are joined in the order of x, whatever order their rows have.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "lab/plot.h"
#include "lab/plot_impl.h"
#include "lab/sheet_impl.h"

enum { HEIGHT = 380, LEFT = 70, RIGHT = 190, BOTTOM = 50, TICKS_Y = 5 };

struct lines {
    const struct sheet *sheet;
    const struct plot *plot;
    struct buf *out;
    size_t series, x, y, tick;  /* columns; SIZE_MAX = none */
    double top, bottom;         /* of the field, from above */
    double x_min, x_max, y_max; /* x: logarithms when the plot is */
};

static const char *name_of(const struct lines *lines, size_t row)
{
    const struct sheet_cell *cell = sheet_cell(lines->sheet, row, lines->series);

    return cell != NULL && cell->text != NULL ? cell->text : "";
}

static double x_value(const struct lines *lines, size_t row)
{
    return sheet_cell(lines->sheet, row, lines->x)->number;
}

static double y_value(const struct lines *lines, size_t row)
{
    return sheet_cell(lines->sheet, row, lines->y)->number;
}

static bool has_point(const struct lines *lines, size_t row)
{
    double x = x_value(lines, row);

    return !isnan(x) && !isnan(y_value(lines, row)) && (!lines->plot->logarithmic || x > 0);
}

static double scaled(const struct lines *lines, double x)
{
    return lines->plot->logarithmic ? log2(x) : x;
}

static double across(const struct lines *lines, size_t row)
{
    double span = lines->x_max - lines->x_min;
    double part = span > 0 ? (scaled(lines, x_value(lines, row)) - lines->x_min) / span : 0.5;

    return LEFT + (PLOT_WIDTH - LEFT - RIGHT) * part;
}

static double upward(const struct lines *lines, double y)
{
    return lines->bottom - (lines->bottom - lines->top) * y / lines->y_max;
}

/* The next step above: tenths of the power of ten that the number has, and of a percentage never
 * beyond all. */
static double above(double largest, int form)
{
    double step = pow(10, floor(log10(fmax(largest, 1e-9))));

    if (form == SHEET_PERCENT)
        return fmin(1, floor(largest * 10 + 1) / 10);
    return largest > 0 ? step * floor(largest / step + 1) : 1;
}

static void find_range(struct lines *lines)
{
    double largest = 0;
    bool any = false;

    for (size_t row = 0; row < sheet_rows(lines->sheet); row++) {
        if (!has_point(lines, row))
            continue;
        double x = scaled(lines, x_value(lines, row));
        lines->x_min = any ? fmin(lines->x_min, x) : x;
        lines->x_max = any ? fmax(lines->x_max, x) : x;
        largest = fmax(largest, y_value(lines, row));
        any = true;
    }
    lines->y_max = above(largest, lines->sheet->columns[lines->y].form);
}

/* The first row of its x, or of its name. */
static bool is_new(const struct lines *lines, size_t row, bool name)
{
    for (size_t i = 0; i < row; i++)
        if (name ? strcmp(name_of(lines, i), name_of(lines, row)) == 0
                 : x_value(lines, i) == x_value(lines, row))
            return false;
    return true;
}

static void draw_y(const struct lines *lines)
{
    bool percent = lines->sheet->columns[lines->y].form == SHEET_PERCENT;

    for (int i = 0; i <= TICKS_Y; i++) {
        double value = lines->y_max * i / TICKS_Y, y = upward(lines, value);
        buf_appendf(lines->out,
                    "<path d='M%d %.1fH%d' stroke='#ddd'/><text x='%d' y='%.1f' "
                    "text-anchor='end'>%.3g%s</text>\n",
                    LEFT, y, PLOT_WIDTH - RIGHT, LEFT - 8, y + 4, percent ? 100 * value : value,
                    percent ? "%" : "");
    }
}

static void draw_x(const struct lines *lines)
{
    const struct sheet_column *column = &lines->sheet->columns[lines->x];
    char text[SHEET_CELL_BYTES];

    for (size_t row = 0; row < sheet_rows(lines->sheet); row++) {
        const struct sheet_cell *tick = sheet_cell(lines->sheet, row, lines->tick);
        if (!has_point(lines, row) || !is_new(lines, row, false))
            continue;
        buf_appendf(lines->out, "<text x='%.1f' y='%.0f' text-anchor='middle'>", across(lines, row),
                    lines->bottom + 20);
        plot_text(lines->out, tick != NULL && tick->text != NULL
                                  ? tick->text
                                  : sheet_show(column->form, x_value(lines, row), text));
        buf_append_str(lines->out, "</text>\n");
    }
    buf_appendf(lines->out, "<text x='%d' y='%.0f' text-anchor='middle'>",
                (LEFT + PLOT_WIDTH - RIGHT) / 2, lines->bottom + 40);
    size_t named = lines->tick != SIZE_MAX ? lines->tick : lines->x;
    const char *label = lines->sheet->columns[named].label;
    plot_text(lines->out, label != NULL ? label : lines->sheet->columns[named].name);
    buf_append_str(lines->out, "</text>\n");
}

/* The point of that name with the smallest x beyond the one of `before`; SIZE_MAX: none, and none
 * before. */
static size_t next_point(const struct lines *lines, const char *name, size_t before)
{
    size_t next = SIZE_MAX;

    for (size_t row = 0; row < sheet_rows(lines->sheet); row++)
        if (has_point(lines, row) && strcmp(name_of(lines, row), name) == 0 &&
            (before == SIZE_MAX || x_value(lines, row) > x_value(lines, before)) &&
            (next == SIZE_MAX || x_value(lines, row) < x_value(lines, next)))
            next = row;
    return next;
}

static void draw_line(const struct lines *lines, const char *name, size_t number)
{
    const char *colour = plot_colour(number);
    char text[SHEET_CELL_BYTES];
    double y = lines->top + 6 + 20 * (double)number;
    size_t row = SIZE_MAX;

    buf_append_str(lines->out, "<polyline fill='none' stroke-width='2' points='");
    while ((row = next_point(lines, name, row)) != SIZE_MAX)
        buf_appendf(lines->out, "%.1f,%.1f ", across(lines, row),
                    upward(lines, y_value(lines, row)));
    buf_appendf(lines->out, "' stroke='%s'/>\n", colour);
    while ((row = next_point(lines, name, row)) != SIZE_MAX)
        buf_appendf(lines->out,
                    "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%s</title></circle>\n",
                    across(lines, row), upward(lines, y_value(lines, row)), colour,
                    sheet_show(lines->sheet->columns[lines->y].form, y_value(lines, row), text));
    buf_appendf(lines->out,
                "<path d='M%d %.0fh22' stroke='%s' stroke-width='2'/><text x='%d' y='%.0f'>",
                PLOT_WIDTH - RIGHT + 16, y, colour, PLOT_WIDTH - RIGHT + 44, y + 4);
    plot_text(lines->out, name);
    buf_append_str(lines->out, "</text>\n");
}

void plot_lines(const struct sheet *sheet, const struct plot *plot, struct buf *out)
{
    struct lines lines = {
        .sheet = sheet,
        .plot = plot,
        .out = out,
        .series = sheet_find(sheet, plot->series),
        .x = sheet_find(sheet, plot->x),
        .y = sheet_find(sheet, plot->y),
        .tick = plot->tick != NULL ? sheet_find(sheet, plot->tick) : SIZE_MAX,
    };
    size_t number = 0;

    lines.top = plot_head(sheet, plot->title, plot_head_height(sheet) + HEIGHT, out);
    lines.bottom = lines.top + HEIGHT - BOTTOM;
    if (lines.x == SIZE_MAX || lines.y == SIZE_MAX)
        return;
    find_range(&lines);
    draw_y(&lines);
    draw_x(&lines);
    for (size_t row = 0; row < sheet_rows(sheet); row++)
        if (is_new(&lines, row, true))
            draw_line(&lines, name_of(&lines, row), number++);
}
