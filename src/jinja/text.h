/*
 * text.h: text under construction, and values as text: str(), repr(), numbers, formats, JSON.
 * Internal to the engine.
 */
#pragma once

#include "jinja/value.h"

struct jinja_args;
struct jinja_run;

/* ---- text.c ---- */

struct jinja_piece {
    size_t end; /* offset in the text */
    uint32_t origin;
};

struct jinja_mix {
    const struct jinja_piece *pieces;
    size_t count;
};

/* Text under construction, with the origins of its pieces. After a failure of the run nothing is
 * appended, and all functions return false: it is enough to check the last one. */
struct jinja_builder {
    struct jinja_run *run;
    char *text;
    size_t len, cap;
    struct jinja_piece *pieces;
    size_t piece_count;
};

bool jinja_build(struct jinja_builder *builder, struct str text, uint32_t origin);
bool jinja_build_value(struct jinja_builder *builder, const struct jinja_value *string);
bool jinja_build_cut(struct jinja_builder *builder, const struct jinja_value *string, size_t begin,
                     size_t end);
bool jinja_build_text(struct jinja_builder *builder, const char *text);
bool jinja_build_char(struct jinja_builder *builder, char c);
bool jinja_build_repeat(struct jinja_builder *builder, char c, size_t count);
bool jinja_build_number(struct jinja_builder *builder,
                        const struct jinja_value *value); /* an int or a float */
bool jinja_build_format(struct jinja_builder *builder, const char *fmt, ...) PRINTF(2, 3);
bool jinja_build_finish(struct jinja_builder *builder, struct jinja_value *out);
bool jinja_build_finish_as(struct jinja_builder *builder, uint8_t flags, struct jinja_value *out);

/* The text [begin, end) of a string, with its origins; Markup stays Markup. */
bool jinja_cut(struct jinja_run *run, const struct jinja_value *string, size_t begin, size_t end,
               struct jinja_value *out);
/* The origin of derived text: the string's own, or the first of several. */
uint32_t jinja_origin_of(const struct jinja_run *run, const struct jinja_value *string);

/* Python's str() and repr(), and soft_str: strings unchanged, so that Markup stays Markup. */
bool jinja_to_str(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out);
bool jinja_soft_str(struct jinja_run *run, const struct jinja_value *value,
                    struct jinja_value *out);
bool jinja_build_str(struct jinja_builder *builder, const struct jinja_value *value);
bool jinja_build_repr(struct jinja_builder *builder, const struct jinja_value *value);
bool jinja_escape(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out);
bool jinja_concat(struct jinja_run *run, const struct jinja_value *strings, size_t count,
                  struct jinja_value *out);

/* ---- number.c ---- */

enum { JINJA_NUMBER_BYTES = 32 };
size_t jinja_float_repr(double value, char out[JINJA_NUMBER_BYTES]);
/* int(text, base) and float(text); false if Python raises ValueError. *overflow: it does not fit in
 * 64 bits. */
bool jinja_parse_int(struct str text, int base, int64_t *out, bool *overflow);
bool jinja_parse_float(struct str text, double *out);
double jinja_round(double value, int64_t digits);

/* ---- format.c ---- */

bool jinja_format_percent(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *args, struct jinja_value *out);
bool jinja_format_braces(struct jinja_run *run, const struct jinja_value *format,
                         const struct jinja_args *args, struct jinja_value *out);

/* ---- json.c ---- */

BUILTIN_SIGNATURE(jinja_filter_tojson, struct jinja_value);

/* ---- filters.c ---- */

/* The text of one level: the argument itself, or that many blanks. */
bool jinja_indent_unit(struct jinja_run *run, struct jinja_value width, struct jinja_value *out);

/* ---- wrap.c ---- */

BUILTIN_SIGNATURE(jinja_filter_wordwrap, struct jinja_value);
