/*
 * svg.c: hit rate over capacity as a picture.
 *
 *      100% |          ____----   opt           x: capacity, logarithmic, a tick per capacity that was replayed
 *           |     __--- __--      lru-tail      y: hit rate of tokens, from 0 to the next 10 % above the best
 *         0 +---------------
 *
 * Colours are told apart by people who confuse red and green, too.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "trace/cost.h"
#include "trace/report.h"

enum { WIDTH = 860, HEIGHT = 480, LEFT = 70, RIGHT = 170, TOP = 50, BOTTOM = 60, TICKS_Y = 5 };

static const char *const colours[] = {"#0072b2", "#d55e00", "#000000", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9", "#999999"};

struct plot {
    const struct report *report;
    struct buf *out;
    double x_min, x_max, y_max; /* x: logarithms */
};

static double log_of(const struct report_row *row)
{
    return log2((double)MAX(row->capacity_bytes, 1));
}

static double x_of(const struct plot *plot, const struct report_row *row)
{
    double span = plot->x_max - plot->x_min;

    return LEFT + (WIDTH - LEFT - RIGHT) * (span > 0 ? (log_of(row) - plot->x_min) / span : 0.5);
}

static double y_of(const struct plot *plot, double rate)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / plot->y_max;
}

/* Text of the user's: what means something to XML is written as an entity. */
static void append_text(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&')
            buf_appendf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            buf_append_char(out, *text);
    }
}

static void find_range(struct plot *plot)
{
    const struct report *report = plot->report;
    double best = 0;

    for (size_t i = 0; i < report->rows_count; i++) {
        double x = log_of(&report->rows[i]);
        plot->x_min = i == 0 ? x : fmin(plot->x_min, x);
        plot->x_max = i == 0 ? x : fmax(plot->x_max, x);
        best = fmax(best, sim_hit_rate(&report->rows[i].result));
    }
    plot->y_max = fmin(1, floor(best * 10 + 1) / 10);
}

/* The first row of its capacity. */
static bool is_new_capacity(const struct report *report, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (report->rows[i].capacity_bytes == report->rows[row].capacity_bytes)
            return false;
    return true;
}

static bool is_new_policy(const struct report *report, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (strcmp(report->rows[i].policy, report->rows[row].policy) == 0)
            return false;
    return true;
}

static void draw_axes(const struct plot *plot)
{
    const struct report *report = plot->report;
    char text[UNITS_TEXT_BYTES];

    for (int i = 0; i <= TICKS_Y; i++) {
        double rate = plot->y_max * i / TICKS_Y, y = y_of(plot, rate);
        buf_appendf(plot->out,
                    "<path d='M%d %.1fH%d' stroke='#ddd'/><text x='%d' y='%.1f' "
                    "text-anchor='end'>%.0f%%</text>\n",
                    LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, 100 * rate);
    }
    for (size_t i = 0; i < report->rows_count; i++) {
        const struct report_row *row = &report->rows[i];
        if (!is_new_capacity(report, i))
            continue;
        buf_appendf(plot->out, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n",
                    x_of(plot, row), HEIGHT - BOTTOM + 20,
                    row->capacity_blocks ? units_format_count(row->capacity_blocks, text)
                                         : units_format_size(row->capacity_bytes, text));
    }
    buf_appendf(plot->out, "<text x='%d' y='%d' text-anchor='middle'>capacity, %s</text>\n",
                (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14,
                report->rows_count > 0 && report->rows[0].capacity_blocks ? "blocks" : "bytes");
}

/* Points in the order of capacity, whatever order they were asked in. */
static const struct report_row *next_point(const struct report *report, const char *policy,
                                           const struct report_row *before)
{
    const struct report_row *next = NULL;

    for (size_t i = 0; i < report->rows_count; i++) {
        const struct report_row *row = &report->rows[i];
        if (strcmp(row->policy, policy) == 0 &&
            (before == NULL || row->capacity_bytes > before->capacity_bytes) &&
            (next == NULL || row->capacity_bytes < next->capacity_bytes))
            next = row;
    }
    return next;
}

static void draw_line(const struct plot *plot, const char *policy, size_t number)
{
    const char *colour = colours[number % COUNT_OF(colours)];
    const struct report_row *row = NULL;

    buf_append_str(plot->out, "<polyline fill='none' stroke-width='2' points='");
    while ((row = next_point(plot->report, policy, row)) != NULL)
        buf_appendf(plot->out, "%.1f,%.1f ", x_of(plot, row),
                    y_of(plot, sim_hit_rate(&row->result)));
    buf_appendf(plot->out, "' stroke='%s'/>\n", colour);
    row = NULL;
    while ((row = next_point(plot->report, policy, row)) != NULL)
        buf_appendf(plot->out,
                    "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%.2f%%</title></circle>\n",
                    x_of(plot, row), y_of(plot, sim_hit_rate(&row->result)), colour,
                    100 * sim_hit_rate(&row->result));
    buf_appendf(plot->out,
                "<path d='M%d %zuh22' stroke='%s' stroke-width='2'/><text x='%d' y='%zu'>",
                WIDTH - RIGHT + 16, TOP + 6 + 20 * number, colour, WIDTH - RIGHT + 44,
                TOP + 10 + 20 * number);
    append_text(plot->out, policy);
    buf_append_str(plot->out, "</text>\n");
}

void report_write_svg(const struct report *report, struct buf *out)
{
    struct plot plot = {.report = report, .out = out};
    size_t number = 0;

    find_range(&plot);
    buf_appendf(out,
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' "
                "font-family='sans-serif' font-size='12'>\n<rect width='%d' height='%d' "
                "fill='#fff'/>\n<text x='%d' y='20' font-size='14'>token hit rate, ",
                WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    append_text(out, report->files);
    buf_appendf(out, "</text>\n<text x='%d' y='36' fill='#666'>", LEFT);
    append_text(out, report->cost->name);
    buf_append_str(out, ", hearth ");
    append_text(out, report->version);
    buf_append_str(out, ", ");
    append_text(out, report->machine);
    buf_append_str(out, "</text>\n");
    draw_axes(&plot);
    for (size_t i = 0; i < report->rows_count; i++)
        if (is_new_policy(report, i))
            draw_line(&plot, report->rows[i].policy, number++);
    buf_append_str(out, "</svg>\n");
}
