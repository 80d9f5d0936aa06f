/*
 * plot.c: what all pictures have.
 */
#include "lab/plot.h"

#include <string.h>

#include "base/buf.h"
#include "lab/plot_impl.h"
#include "lab/sheet_impl.h"

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#000000", "#e69f00", "#56b4e9", "#999999"};

const char *plot_colour(size_t number)
{
    return colours[number % COUNT_OF(colours)];
}

void plot_text(struct buf *out, const char *text)
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

double plot_head_height(const struct sheet *sheet)
{
    return PLOT_LINE * (2 + (double)sheet->notes_count);
}

double plot_head(const struct sheet *sheet, const char *title, double height, struct buf *out)
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

enum err plot_write(const struct sheet *sheet, const struct plot *plot, struct buf *out)
{
    if (plot->kind == PLOT_LINES)
        plot_lines(sheet, plot, out);
    else
        plot_bars(sheet, plot, out);
    buf_append_str(out, "</svg>\n");
    return out->err;
}
