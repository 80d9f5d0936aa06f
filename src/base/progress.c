/*
 * progress.c: when to draw a bar, and which parts of it fit.
 *
 *      progress_update -> too early, too soon after the last one, no new quarter: nothing
 *                      -> draw_bar: \r, text, erase the rest of the line      a terminal
 *                      -> print_line: a separate line         a file, a pipe, a dumb terminal
 *
 * A bar wider than the terminal would wrap, and the next \r would not return to its start; so parts
 * are left out until it fits. No timer or other thread draws: without calls of progress_update the
 * bar does not move, which is the truth. Failed writes are ignored, and output is dropped when the
 * reader is slow.
 */
#include "base/progress.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "base/utf8.h"

#define SHOW_AFTER_NS   (500 * NS_PER_MS)
#define DRAW_EVERY_NS   (100 * NS_PER_MS)
#define UNKNOWN_LINE_NS (10 * NS_PER_S) /* between lines when the total is unknown */

enum {
    LABEL_BYTES_MAX = 40,
    BAR_CELLS = 20,
    COLUMNS_DEFAULT = 80, /* when the terminal's width is unknown */
    AMOUNT_BYTES = 2 * UNITS_TEXT_BYTES + 16,
    TEXT_BYTES = 256,
};

struct progress {
    int fd;
    enum progress_style style; /* not AUTO */
    enum progress_unit unit;
    bool color;
    bool shown;    /* a bar is on the screen */
    bool fraction; /* the total means nothing to a reader: only the percentage is shown */
    char label[LABEL_BYTES_MAX + 1];
    const struct clock *clock;
    uint64_t started_ns;
    uint64_t drawn_ns; /* the last bar or line */
    unsigned quarters; /* that were printed */
    uint64_t done;
    uint64_t total;
};

/* The parts of a bar, the most dispensable first. */
enum part { PART_BAR = 1, PART_AMOUNT = 2, PART_LABEL = 4, PART_TIME = 8 };

static bool is_dumb(void)
{
    const char *term = getenv("TERM");

    return term != NULL && strcmp(term, "dumb") == 0;
}

/* Labels contain file names, which may contain anything. The cut is never inside a UTF-8
 * character. */
static void copy_label(char out[LABEL_BYTES_MAX + 1], const char *label)
{
    size_t len = strnlen(label, LABEL_BYTES_MAX + 1);

    if (len > LABEL_BYTES_MAX)
        len = utf8_whole((struct str){label, LABEL_BYTES_MAX});
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)label[i];
        out[i] = c < 0x20 || c == 0x7F ? '?' : label[i];
    }
    out[len] = '\0';
}

/* Never wait for a bar: a stalled reader must not stop the work. */
bool progress_has_room(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};

    return poll(&poll_fd, 1, 0) != 0; /* errors are left to the write */
}

static void write_text(const struct progress *progress, const char *text)
{
    size_t len = strlen(text);

    while (len > 0 && progress_has_room(progress->fd)) {
        ssize_t put = write(progress->fd, text, len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return;
        text += put;
        len -= (size_t)put;
    }
}

static unsigned percent_of(const struct progress *progress)
{
    if (progress->done >= progress->total)
        return 100;
    unsigned percent = (unsigned)((double)progress->done / (double)progress->total * 100);
    return MIN(percent, 99); /* rounding must not make it look finished */
}

static void format_one(const struct progress *progress, uint64_t value, char out[UNITS_TEXT_BYTES])
{
    if (progress->unit == PROGRESS_UNIT_BYTES)
        units_format_size(value, out);
    else
        units_format_count(value, out);
}

/* "1.2 of 2.3 GiB": the unit is written once when both have the same. */
static const char *format_amount(const struct progress *progress, char out[AMOUNT_BYTES])
{
    const char *tail = progress->unit == PROGRESS_UNIT_TOKENS ? " tokens" : "";
    char done[UNITS_TEXT_BYTES], total[UNITS_TEXT_BYTES];

    format_one(progress, progress->done, done);
    if (progress->total == 0) {
        snprintf(out, AMOUNT_BYTES, "%s%s", done, tail);
        return out;
    }
    format_one(progress, progress->total, total);
    char *done_unit = strchr(done, ' ');
    const char *total_unit = strchr(total, ' ');
    if (done_unit != NULL && total_unit != NULL && strcmp(done_unit, total_unit) == 0)
        *done_unit = '\0';
    snprintf(out, AMOUNT_BYTES, "%s of %s%s", done, total, tail);
    return out;
}

static const char *format_elapsed(const struct progress *progress, char out[UNITS_TEXT_BYTES])
{
    return units_format_duration(clock_mono_ns(progress->clock) - progress->started_ns, out);
}

/* ---- the bar ---- */

/* Appends a part, with `gap` before it unless it is the first. */
PRINTF(3, 4) static void add(char text[TEXT_BYTES], const char *gap, const char *fmt, ...)
{
    size_t len = strlen(text);
    va_list args;

    if (len > 0)
        len += (size_t)snprintf(text + len, TEXT_BYTES - len, "%s", gap);
    assert(len < TEXT_BYTES);
    va_start(args, fmt);
    int added = vsnprintf(text + len, TEXT_BYTES - len, fmt, args);
    va_end(args);
    assert(added >= 0 && (size_t)added < TEXT_BYTES - len); /* all parts together are shorter */
}

static void add_cells(const struct progress *progress, char text[TEXT_BYTES])
{
    char cells[2][BAR_CELLS + 1] = {"####################", "...................."};
    unsigned full = percent_of(progress) * BAR_CELLS / 100;

    cells[0][full] = cells[1][BAR_CELLS - full] = '\0';
    add(text, "  ", "[%s%s%s%s]", progress->color ? "\x1b[32m" : "", cells[0],
        progress->color ? "\x1b[0m" : "", cells[1]);
}

static void compose(const struct progress *progress, unsigned parts, char text[TEXT_BYTES])
{
    char amount[AMOUNT_BYTES], elapsed[UNITS_TEXT_BYTES];

    text[0] = '\0';
    if (parts & PART_LABEL)
        add(text, "  ", "%s", progress->label);
    if (progress->total > 0) {
        if (parts & PART_BAR)
            add_cells(progress, text);
        add(text, " ", "%3u%%", percent_of(progress));
    }
    if ((parts & PART_AMOUNT && !progress->fraction) || progress->total == 0)
        add(text, "  ", "%s", format_amount(progress, amount));
    if (parts & PART_TIME)
        add(text, "  ", "%s", format_elapsed(progress, elapsed));
}

/* The columns of a text: characters, without colours. Wide characters are not considered; labels
 * are mostly names. */
static size_t columns_of(const char *text)
{
    size_t columns = 0;

    for (; *text != '\0'; text++) {
        if (*text == '\x1b')
            text = strchr(text, 'm'); /* it contains only our own sequences */
        else if (((unsigned char)*text & 0xC0) != 0x80)
            columns++;
    }
    return columns;
}

static size_t columns_max(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_DEFAULT;
}

static void draw_bar(struct progress *progress, uint64_t now_ns)
{
    unsigned parts = PART_BAR | PART_AMOUNT | PART_LABEL | PART_TIME;
    size_t columns = columns_max(progress->fd);
    char text[TEXT_BYTES], line[TEXT_BYTES + 8];

    compose(progress, parts, text);
    /* The last column stays empty: some terminals wrap as soon as it is written. */
    for (unsigned part = PART_BAR; part <= PART_TIME && columns_of(text) >= columns; part *= 2) {
        parts &= ~part;
        compose(progress, parts, text);
    }
    snprintf(line, sizeof(line), "\r%s\x1b[K", text);
    write_text(progress, line);
    progress->shown = true;
    progress->drawn_ns = now_ns;
}

/* ---- lines ---- */

static void print_line(struct progress *progress, uint64_t now_ns)
{
    char amount[AMOUNT_BYTES], elapsed[UNITS_TEXT_BYTES], line[TEXT_BYTES];

    format_amount(progress, amount);
    format_elapsed(progress, elapsed);
    if (progress->total > 0 && progress->fraction)
        snprintf(line, sizeof(line), "%s: %u%% (%s)\n", progress->label, progress->quarters * 25,
                 elapsed);
    else if (progress->total > 0)
        snprintf(line, sizeof(line), "%s: %u%% (%s, %s)\n", progress->label,
                 progress->quarters * 25, amount, elapsed);
    else
        snprintf(line, sizeof(line), "%s: %s (%s)\n", progress->label, amount, elapsed);
    write_text(progress, line);
    progress->drawn_ns = now_ns;
}

static void update_lines(struct progress *progress, uint64_t now_ns)
{
    if (progress->total == 0) {
        if (now_ns - progress->drawn_ns >= UNKNOWN_LINE_NS)
            print_line(progress, now_ns);
        return;
    }
    unsigned quarters = percent_of(progress) / 25;
    if (quarters > progress->quarters) {
        progress->quarters = quarters;
        print_line(progress, now_ns);
    }
}

/* ---- public ---- */

bool progress_color_allowed(int fd)
{
    const char *no_color = getenv("NO_COLOR");

    return isatty(fd) && (no_color == NULL || no_color[0] == '\0') && !is_dumb();
}

struct progress *progress_create(int fd, enum progress_style style, const char *label,
                                 enum progress_unit unit, const struct clock *clock)
{
    struct progress *progress = mem_alloc(sizeof(*progress));

    if (style == PROGRESS_STYLE_AUTO)
        style = isatty(fd) && !is_dumb() ? PROGRESS_STYLE_BAR : PROGRESS_STYLE_LINES;
    progress->fd = fd;
    progress->style = style;
    progress->unit = unit;
    progress->color = progress_color_allowed(fd);
    progress->clock = clock;
    progress->started_ns = clock_mono_ns(clock);
    progress->drawn_ns = progress->started_ns;
    copy_label(progress->label, label);
    return progress;
}

void progress_update(struct progress *progress, uint64_t done, uint64_t total)
{
    assert(total == 0 || done <= total);
    if (progress->style == PROGRESS_STYLE_OFF)
        return;
    progress->done = done;
    progress->total = total;
    uint64_t now_ns = clock_mono_ns(progress->clock);
    if (now_ns - progress->started_ns < SHOW_AFTER_NS)
        return;
    if (progress->style == PROGRESS_STYLE_LINES)
        update_lines(progress, now_ns);
    else if (now_ns - progress->drawn_ns >= DRAW_EVERY_NS)
        draw_bar(progress, now_ns);
}

/* Shows 100 %, unless nothing was ever shown or it was already shown. */
static void complete(struct progress *progress)
{
    uint64_t now_ns = clock_mono_ns(progress->clock);

    if (now_ns - progress->started_ns < SHOW_AFTER_NS)
        return;
    progress->done = MAX(progress->done, progress->total);
    if (progress->style == PROGRESS_STYLE_BAR) {
        draw_bar(progress, now_ns);
        write_text(progress, "\n");
    } else if (progress->quarters < 4) {
        progress->quarters = 4;
        print_line(progress, now_ns);
    }
}

bool progress_part(float done, void *arg)
{
    enum { STEPS = 1000 };
    struct progress *progress = arg;

    progress->fraction = true;
    progress_update(progress, (uint64_t)(done * STEPS), STEPS);
    return true;
}

void progress_finish(struct progress **progress, bool ok)
{
    if (*progress == NULL)
        return;
    if ((*progress)->style != PROGRESS_STYLE_OFF && ok)
        complete(*progress);
    else if ((*progress)->shown)
        write_text(*progress, "\r\x1b[K");
    mem_free(*progress);
    *progress = NULL;
}
