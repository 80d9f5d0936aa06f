/*
 * marker.h: fixed strings in text that arrives in pieces.
 *
 * A marker may be cut anywhere, so the end of what has arrived can be the beginning of a marker.
 * That end is held back until it is known; everything before it is plain text. Pure functions; any
 * thread.
 */
#ifndef HEARTH_OUTPUT_MARKER_H
#define HEARTH_OUTPUT_MARKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* White space before a marker that belongs to the marker: more than this is text. Bounds what is
 * held back. */
enum { MARKER_SPACE_MAX = 64 };

enum marker_match { MARKER_NO, MARKER_PART, MARKER_YES };

struct marker_hit {
    /* where the marker begins; without one, where the shortest end begins that may become one */
    size_t at;
    int which; /* its number, -1 without one */
};

/* Does the text begin with the marker? PART when it ends before that is known. */
enum marker_match marker_match(struct str text, struct str marker);

/* The first of the markers in the text; empty ones are ignored, and no marker begins with another.
 */
struct marker_hit marker_find(struct str text, const struct str *markers, size_t count);

/* How much of text[0..len) is left without the white space at its end, of which at most
 * MARKER_SPACE_MAX bytes go. */
size_t marker_before_space(struct str text, size_t len);

bool marker_is_space(char c); /* ASCII: blank, tab, line feed, carriage return */
struct str marker_skip(struct str text, size_t n); /* without its first n bytes */

#endif
