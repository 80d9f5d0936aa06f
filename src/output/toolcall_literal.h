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

/* Reads the literal that the text begins with, appends it to out as JSON and says in *used how long
 * it was. MARKER_PART when the text ends before the literal does, or might; then, and after
 * MARKER_NO, out may hold a part of it.
 *
 * Taken: strings in one or three quotes ('a', "a", with Python's escapes), numbers, True, False,
 * None and their JSON names, lists, tuples, dicts with names or strings as keys. With `quote` (not
 * empty), text between two of them is a string without escapes, and a bare word is a string, too.
 */
enum marker_match tc_literal(struct str text, struct str quote, struct buf *out, size_t *used);

/* The length of the name (letters, digits, _ . -) that the text begins with. */
size_t tc_literal_name(struct str text);

#endif
