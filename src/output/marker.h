/*
 * marker.h: fixed strings in text that arrives in pieces.
 *
 * A marker may be cut anywhere, so the end of the text so far may be the beginning of a marker.
 * That end is held back until it is decided; everything before it is plain text. Pure functions;
 * any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* White space before a marker belongs to the marker up to this many bytes; more is text. Bounds the
 * text held back. */
enum { MARKER_SPACE_MAX = 64 };

enum marker_match { MARKER_NO, MARKER_PART, MARKER_YES };

struct marker_hit {
    /* where the marker begins, or else where the text may begin one, or its length */
    size_t at;
    int which; /* index of the marker; -1 = none */
};

/* Does the text begin with the marker? PART if it ends before that is decided. */
enum marker_match marker_match(struct str text, struct str marker);

/* Finds the first of the markers in the text. Empty ones are ignored; none may begin with another.
 * */
struct marker_hit marker_find(struct str text, const struct str *markers, size_t count);

/* The length of text[0..len) without trailing white space, of which at most MARKER_SPACE_MAX bytes
 * are dropped. */
size_t marker_before_space(struct str text, size_t len);

size_t marker_space(struct str text); /* length of the white space at its beginning */
bool marker_is_space(char c);         /* ASCII: blank, tab, line feed, carriage return */
