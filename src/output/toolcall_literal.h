/*
 * toolcall_literal.h: literals of Python, and of Gemma's notation, as JSON. Pure functions; any
 * thread.
 */
#ifndef HEARTH_OUTPUT_TOOLCALL_LITERAL_H
#define HEARTH_OUTPUT_TOOLCALL_LITERAL_H

#include "base/buf.h"
#include "base/str.h"
#include "output/marker.h"

enum { TC_LITERAL_DEPTH_MAX = 64 };

/* Reads the literal at the front of the text, appends it to `out` as JSON and sets *used to its
 * length. MARKER_PART if the text ends before the literal does, or might; then, and after
 * MARKER_NO, `out` may hold part of it.
 *
 * Accepted: strings in one or three quotes ('a', "a", with Python's escapes), numbers, True, False,
 * None and their JSON names, lists, tuples, dicts with names or strings as keys. If `quote` is not
 * empty, text between two quotes is a string without escapes, and a bare word is also a string. */
enum marker_match tc_literal(struct str text, struct str quote, struct buf *out, size_t *used);

/* The length of the name (letters, digits, _ . -) at the front of the text. */
size_t tc_literal_name(struct str text);

#endif
