/*
 * progress.h: a progress bar for long operations.
 *
 *      on a terminal: redrawn in place, at most 10 times a second
 *          loading model  [##########..........]  52%  1.2 of 2.3 GiB  3.1 s
 *      elsewhere: one line per quarter, or every 10 s when the total is unknown
 *          loading model: 50% (1.2 of 2.3 GiB, 3.1 s)
 *
 * A bar omits parts until it fits the terminal, and moves only when progress_update is called.
 * NO_COLOR and TERM=dumb are honoured. Operations that end within half a second show nothing.
 * Owner: one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct clock;

enum progress_unit { PROGRESS_UNIT_NONE, PROGRESS_UNIT_BYTES, PROGRESS_UNIT_TOKENS };
enum progress_style {
    PROGRESS_STYLE_AUTO,
    PROGRESS_STYLE_BAR,
    PROGRESS_STYLE_LINES,
    PROGRESS_STYLE_OFF
};

struct progress;

/* `fd` is where it is drawn (normally stderr); AUTO checks whether that is a terminal. `label` is
 * copied (40 bytes of it, control characters replaced). */
struct progress *progress_create(int fd, enum progress_style style, const char *label,
                                 enum progress_unit unit, const struct clock *clock);

/* done <= total; total 0 = unknown (then only the count is shown). Cheap enough to be called often.
 */
void progress_update(struct progress *progress, uint64_t done, uint64_t total);

/* The same for a fraction, 0 to 1, of a bar (a struct progress *), as loaders report it. Returns
 * true. */
bool progress_part(float done, void *progress);

/* Ends the bar: completes it and leaves the line (ok), or clears it so that an error can be
 * printed. Frees it; a no-op on NULL. */
void progress_finish(struct progress **progress, bool ok);

/* Whether colours may be used on fd: a terminal, NO_COLOR unset or empty, TERM not dumb. */
bool progress_color_allowed(int fd);

/* Whether a pipe or a socket accepts PIPE_BUF bytes now. Always true for a file. */
bool progress_has_room(int fd);
