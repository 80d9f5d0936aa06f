/*
 * strings.h: operations shared by string methods and string filters. Internal to the engine.
 *
 * `self` is always a string. Parts that are cut out keep their origin; text computed from a string
 * has the string's origin.
 */
#pragma once

#include "jinja/object.h"

enum jinja_casing { CASING_UPPER, CASING_LOWER, CASING_TITLE, CASING_CAPITALIZE, CASING_SWAP };
bool jinja_str_case(struct jinja_run *run, const struct jinja_value *self, enum jinja_casing casing,
                    struct jinja_value *out);

/* chars: a string of characters to strip, or none or missing for white space. */
bool jinja_str_strip(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *chars, bool left, bool right,
                     struct jinja_value *out);

/* The last place of a text; SIZE_MAX if there is none, or if the run fails: there is no backwards
 * memmem, so each place where it could be costs the steps of a comparison. */
size_t jinja_str_find_last(struct jinja_run *run, struct str text, struct str needle);

/* count < 0: replace all. */
bool jinja_str_replace(struct jinja_run *run, const struct jinja_value *self,
                       const struct jinja_value parts[2], int64_t count, struct jinja_value *out);

/* A list. separator: a string, or none or missing for runs of white space; limit < 0: no limit. */
bool jinja_str_split(struct jinja_run *run, const struct jinja_value *self,
                     const struct jinja_value *separator, int64_t limit, bool from_right,
                     struct jinja_value *out);
bool jinja_str_lines(struct jinja_run *run, const struct jinja_value *self, bool keep_ends,
                     struct jinja_value *out);

/* Each item must be a string, as in Python's join; `convert` makes it one, as in Jinja's filter. */
bool jinja_str_join(struct jinja_run *run, const struct jinja_value *separator,
                    const struct jinja_value *items, bool convert, struct jinja_value *out);

/* Pads to `width` characters; the alignment decides on which side. */
enum jinja_align { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_CENTER };
bool jinja_str_pad(struct jinja_run *run, const struct jinja_value *self, int64_t width,
                   struct str fill, enum jinja_align align, struct jinja_value *out);
