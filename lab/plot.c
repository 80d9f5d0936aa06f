/*
 * plot.c: a sheet as SVG.
 *
 *      2000 cold     ######################## 812.0   bars: one group per row, one bar per column
 *      2000 device   # 3.1                            log scale: from a power of ten
 *
 *      100% |          ____----   opt        lines: x linear or logarithmic, a tick per number
 *           |     __--- __--      lru-tail   y from 0 to the next tenth above the maximum
 *         0 +---------------
 *
 * Points of a line are joined in the order of x, whatever order their rows have.
 */
#include "lab/plot.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "cli/sheet_impl.h"

enum { PLOT_WIDTH = 900, PLOT_LINE = 16 };

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#000000", "#e69f00", "#56b4e9", "#999999"};

/* The n-th colour, cycling through the list. */
static const char *plot_colour(size_t number)
{
    return colours[number % COUNT_OF(colours)];
}

/* User text: XML special characters become entities, control characters are dropped. */
static void plot_text(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("<>&'\"", *text) != NULL)
            buf_appendf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            buf_append_char(out, *text);
    }
}

static void line(struct buf *out, double y, const char *style, const char *text)
{
    buf_appendf(out, "<text x='16' y='%.0f' %s>", y, style);
    plot_text(out, text);
    buf_append_str(out, "</text>\n");
}

/* The height that plot_head uses. */
static double plot_head_height(const struct sheet *sheet)
{
    return PLOT_LINE * (2 + (double)sheet->notes_count);
}

/* The beginning of a picture of that height, title and notes. Returns where the rest begins. */
static double plot_head(const struct sheet *sheet, const char *title, double height,
                        struct buf *out)
{
    double y = PLOT_LINE;

    buf_appendf(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %.0f' font-family='sans-serif' "
        "font-size='12'>\n<rect width='%d' height='%.0f' fill='#fff'/>\n",
        PLOT_WIDTH, height, PLOT_WIDTH, height);
    line(out, y, "font-size='14' font-weight='bold'", title);
    for (size_t i = 0; i < sheet->notes_count; i++)
        line(out, y += PLOT_LINE, "fill='#666'", sheet->notes[i]);
    return plot_head_height(sheet);
}

/* ---- bars ---- */

enum { BARS_LEFT = 260, BARS_RIGHT = 90, BAR = 14, GAP = 8 };

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

static double bar_scaled(const struct bars *bars, double value)
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
            double at = bar_scaled(bars, value);
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
            "<rect x='%d' y='%.0f' width='22' height='10' fill='%s'/><text x='%d' y='%.0f'>",
            BARS_LEFT, bars->y - 9, plot_colour(i), BARS_LEFT + 30, bars->y);
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

    buf_appendf(bars->out, "<text x='%d' y='%.0f' text-anchor='end'>", BARS_LEFT - 8,
                bars->y + BAR - 3);
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
        double part = (bar_scaled(bars, value) - bars->low) / (bars->high - bars->low);
        double width = fmax(1, part * (PLOT_WIDTH - BARS_LEFT - BARS_RIGHT));
        buf_appendf(
            bars->out,
            "<rect x='%d' y='%.0f' width='%.1f' height='%d' fill='%s'/><text x='%.1f' y='%.0f' "
            "font-size='11'>%s</text>\n",
            BARS_LEFT, bars->y, width, BAR - 2, plot_colour(index), BARS_LEFT + width + 4,
            bars->y + BAR - 4,
            sheet_show(bars->sheet->columns[bars->values[index]].form, value, text));
    }
    bars->y += BAR;
}

static void plot_bars(const struct sheet *sheet, const struct plot *plot, struct buf *out)
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

/* ---- lines ---- */

enum { LINES_HEIGHT = 380, LINES_LEFT = 70, LINES_RIGHT = 190, LINES_BOTTOM = 50, TICKS_Y = 5 };

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

static double x_scaled(const struct lines *lines, double x)
{
    return lines->plot->logarithmic ? log2(x) : x;
}

static double across(const struct lines *lines, size_t row)
{
    double span = lines->x_max - lines->x_min;
    double part = span > 0 ? (x_scaled(lines, x_value(lines, row)) - lines->x_min) / span : 0.5;

    return LINES_LEFT + (PLOT_WIDTH - LINES_LEFT - LINES_RIGHT) * part;
}

static double upward(const struct lines *lines, double y)
{
    return lines->bottom - (lines->bottom - lines->top) * y / lines->y_max;
}

/* Rounds up to a tenth of the number's power of ten; a percentage never exceeds 100%. */
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
        double x = x_scaled(lines, x_value(lines, row));
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
                    LINES_LEFT, y, PLOT_WIDTH - LINES_RIGHT, LINES_LEFT - 8, y + 4,
                    percent ? 100 * value : value, percent ? "%" : "");
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
                (LINES_LEFT + PLOT_WIDTH - LINES_RIGHT) / 2, lines->bottom + 40);
    size_t named = lines->tick != SIZE_MAX ? lines->tick : lines->x;
    const char *label = lines->sheet->columns[named].label;
    plot_text(lines->out, label != NULL ? label : lines->sheet->columns[named].name);
    buf_append_str(lines->out, "</text>\n");
}

/* The point of that name with the smallest x beyond that of `before`; SIZE_MAX: none.
 * `before` SIZE_MAX: the smallest of all. */
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
                PLOT_WIDTH - LINES_RIGHT + 16, y, colour, PLOT_WIDTH - LINES_RIGHT + 44, y + 4);
    plot_text(lines->out, name);
    buf_append_str(lines->out, "</text>\n");
}

static void plot_lines(const struct sheet *sheet, const struct plot *plot, struct buf *out)
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

    lines.top = plot_head(sheet, plot->title, plot_head_height(sheet) + LINES_HEIGHT, out);
    lines.bottom = lines.top + LINES_HEIGHT - LINES_BOTTOM;
    if (lines.x == SIZE_MAX || lines.y == SIZE_MAX)
        return;
    find_range(&lines);
    draw_y(&lines);
    draw_x(&lines);
    for (size_t row = 0; row < sheet_rows(sheet); row++)
        if (is_new(&lines, row, true))
            draw_line(&lines, name_of(&lines, row), number++);
}

enum err plot_write(const struct sheet *sheet, const struct plot *plot, struct buf *out)
{
    if (plot->kind == PLOT_LINES)
        plot_lines(sheet, plot, out);
    else
        plot_bars(sheet, plot, out);
    buf_append_str(out, "</svg>\n");
    return out->err;
}
