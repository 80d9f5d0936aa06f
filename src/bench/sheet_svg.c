/*
 * sheet_svg.c: a sheet as bars.
 *
 *      title, notes
 *      2000 cold     ######################## 812.0        one group per row, one bar per column of values
 *      2000 device   # 3.1                                 logarithmic: from the power of ten below the smallest value
 *
 * Colours are told apart by people who confuse red and green, too.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "bench/sheet.h"
#include "bench/sheet_impl.h"

enum { WIDTH = 900, LEFT = 260, RIGHT = 90, BAR = 14, GAP = 8, LINE = 16, VALUES_MAX = 4, LABELS_MAX = 3 };

static const char *const colours[VALUES_MAX] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

struct drawing {
    const struct sheet *sheet;
    const struct sheet_plot *plot;
    struct buf *out;
    size_t values[VALUES_MAX], values_count;
    double low, high; /* of the scale; of logarithms when the plot is */
    double y;
};

static void append_text(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("<>&'\"", *text) != NULL)
            buf_appendf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            buf_append_char(out, *text);
    }
}

static bool value_at(const struct drawing *drawing, size_t row, size_t index, double *value)
{
    const struct sheet_cell *cell = sheet_cell(drawing->sheet, row, drawing->values[index]);

    *value = cell->number;
    return !isnan(*value) && (!drawing->plot->logarithmic || *value > 0);
}

static double scaled(const struct drawing *drawing, double value)
{
    return drawing->plot->logarithmic ? log10(value) : value;
}

static void find_scale(struct drawing *drawing)
{
    double value;
    bool any = false;

    for (size_t i = 0; i < VALUES_MAX && drawing->plot->values[i] != NULL; i++) {
        size_t column = sheet_find(drawing->sheet, drawing->plot->values[i]);
        if (column != SIZE_MAX)
            drawing->values[drawing->values_count++] = column;
    }
    for (size_t row = 0; row < sheet_rows(drawing->sheet); row++) {
        for (size_t i = 0; i < drawing->values_count; i++) {
            if (!value_at(drawing, row, i, &value))
                continue;
            double at = scaled(drawing, value);
            drawing->low = any ? fmin(drawing->low, at) : at;
            drawing->high = any ? fmax(drawing->high, at) : at;
            any = true;
        }
    }
    drawing->low = drawing->plot->logarithmic ? floor(drawing->low - 0.01) : fmin(0, drawing->low);
    if (drawing->high <= drawing->low)
        drawing->high = drawing->low + 1;
}

static void draw_line(struct drawing *drawing, const char *text, const char *style)
{
    drawing->y += LINE;
    buf_appendf(drawing->out, "<text x='16' y='%.0f' %s>", drawing->y, style);
    append_text(drawing->out, text);
    buf_append_str(drawing->out, "</text>\n");
}

static void draw_head(struct drawing *drawing)
{
    draw_line(drawing, drawing->plot->title, "font-size='14' font-weight='bold'");
    for (size_t i = 0; i < drawing->sheet->notes_count; i++)
        draw_line(drawing, drawing->sheet->notes[i], "fill='#666'");
    for (size_t i = 0; i < drawing->values_count; i++) {
        drawing->y += LINE;
        buf_appendf(drawing->out, "<rect x='%d' y='%.0f' width='22' height='10' fill='%s'/><text x='%d' y='%.0f'>",
                    LEFT, drawing->y - 9, colours[i], LEFT + 30, drawing->y);
        append_text(drawing->out, drawing->sheet->columns[drawing->values[i]].label);
        buf_append_str(drawing->out, drawing->plot->logarithmic ? " (logarithmic)</text>\n" : "</text>\n");
    }
    drawing->y += GAP;
}

static void draw_label(struct drawing *drawing, size_t row)
{
    const char *before = "";

    buf_appendf(drawing->out, "<text x='%d' y='%.0f' text-anchor='end'>", LEFT - 8, drawing->y + BAR - 3);
    for (size_t i = 0; i < LABELS_MAX && drawing->plot->labels[i] != NULL; i++) {
        size_t column = sheet_find(drawing->sheet, drawing->plot->labels[i]);
        const struct sheet_cell *cell = sheet_cell(drawing->sheet, row, column);
        if (cell == NULL)
            continue;
        buf_append_str(drawing->out, before);
        if (cell->text != NULL)
            append_text(drawing->out, cell->text);
        else
            buf_appendf(drawing->out, "%.0f", cell->number);
        before = " ";
    }
    buf_append_str(drawing->out, "</text>\n");
}

static void draw_bar(struct drawing *drawing, size_t row, size_t index)
{
    double value;

    if (value_at(drawing, row, index, &value)) {
        double part = (scaled(drawing, value) - drawing->low) / (drawing->high - drawing->low);
        double width = fmax(1, part * (WIDTH - LEFT - RIGHT));
        int decimals = drawing->sheet->columns[drawing->values[index]].decimals;
        buf_appendf(drawing->out,
                    "<rect x='%d' y='%.0f' width='%.1f' height='%d' fill='%s'/><text x='%.1f' y='%.0f' "
                    "font-size='11'>%.*f</text>\n",
                    LEFT, drawing->y, width, BAR - 2, colours[index], LEFT + width + 4,
                    drawing->y + BAR - 4, decimals, value);
    }
    drawing->y += BAR;
}

enum err sheet_write_svg(const struct sheet *sheet, const struct sheet_plot *plot, struct buf *out)
{
    struct drawing drawing = {.sheet = sheet, .plot = plot, .out = out};

    find_scale(&drawing);
    double height = 2 * LINE + GAP + LINE * (double)(1 + sheet->notes_count + drawing.values_count) +
                    (double)sheet_rows(sheet) * (GAP + BAR * (double)drawing.values_count);
    buf_appendf(out,
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %.0f' font-family='sans-serif' "
                "font-size='12'>\n<rect width='%d' height='%.0f' fill='#fff'/>\n",
                WIDTH, height, WIDTH, height);
    draw_head(&drawing);
    for (size_t row = 0; row < sheet_rows(sheet); row++) {
        draw_label(&drawing, row);
        for (size_t i = 0; i < drawing.values_count; i++)
            draw_bar(&drawing, row, i);
        drawing.y += GAP;
    }
    buf_append_str(out, "</svg>\n");
    return out->err;
}
