/*
 * unicode.h: what Python knows about characters, for the string methods of templates.
 *
 * Pure functions, any thread.
 */
#ifndef HEARTH_JINJA_UNICODE_H
#define HEARTH_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

enum {
    JINJA_CHAR_ALPHA = 1 << 0,
    JINJA_CHAR_DECIMAL = 1 << 1,
    JINJA_CHAR_DIGIT = 1 << 2,
    JINJA_CHAR_NUMERIC = 1 << 3,
    JINJA_CHAR_LOWER = 1 << 4,
    JINJA_CHAR_UPPER = 1 << 5,
    JINJA_CHAR_TITLE = 1 << 6,
    JINJA_CHAR_PRINTABLE = 1 << 7,
    JINJA_CHAR_IGNORABLE = 1 << 8, /* looked through when the final sigma is decided */
    JINJA_CHAR_CASED = JINJA_CHAR_LOWER | JINJA_CHAR_UPPER | JINJA_CHAR_TITLE,
    JINJA_CHAR_ALNUM =
        JINJA_CHAR_ALPHA | JINJA_CHAR_DECIMAL | JINJA_CHAR_DIGIT | JINJA_CHAR_NUMERIC,
};

enum jinja_case { JINJA_CASE_UPPER, JINJA_CASE_LOWER, JINJA_CASE_TITLE };

/* The longest UTF-8 text that one character becomes in another case. */
enum { JINJA_CASE_BYTES_MAX = 16 };

/* Tables, made by tests/jinja/tables.py. */
struct jinja_case_range {
    uint32_t first;
    uint32_t last;
    int32_t stride;
    int32_t delta;
};

struct jinja_case_special {
    uint32_t code;
    const char *text;
};

extern const uint32_t jinja_unicode_runs[];
extern const size_t jinja_unicode_runs_count;
extern const struct jinja_case_range jinja_unicode_upper[];
extern const size_t jinja_unicode_upper_count;
extern const struct jinja_case_range jinja_unicode_lower[];
extern const size_t jinja_unicode_lower_count;
extern const struct jinja_case_range jinja_unicode_title[];
extern const size_t jinja_unicode_title_count;
extern const struct jinja_case_special jinja_unicode_upper_special[];
extern const size_t jinja_unicode_upper_special_count;
extern const struct jinja_case_special jinja_unicode_lower_special[];
extern const size_t jinja_unicode_lower_special_count;
extern const struct jinja_case_special jinja_unicode_title_special[];
extern const size_t jinja_unicode_title_special_count;

/* A mask of JINJA_CHAR_*. */
unsigned jinja_char_props(uint32_t code);

/* Python's str.isspace and the ends of lines that str.splitlines knows. */
bool jinja_char_is_space(uint32_t code);
bool jinja_char_is_newline(uint32_t code);

/* The character in another case; returns the bytes written. The final sigma is the caller's. */
size_t jinja_char_to_case(uint32_t code, enum jinja_case to, char out[JINJA_CASE_BYTES_MAX]);

#endif
