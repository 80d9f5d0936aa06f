/*
 * schema_regex.h: a regular expression (of a schema's `pattern`) as grammar rules for the inside of
 * a JSON string. For the schema compiler; schema.h lists what is accepted and refused.
 */
#ifndef HEARTH_GRAMMAR_SCHEMA_REGEX_H
#define HEARTH_GRAMMAR_SCHEMA_REGEX_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct schema_compiler;
struct schema_place;

/* A rule for the text between the quotes. Its length must be `min` to `max` characters: that must
 * follow from the pattern, or the pattern is one repeated class whose count can be changed;
 * otherwise ERR_UNSUPPORTED. SCHEMA_NEVER if the pattern allows no such length. */
enum err schema_compile_regex(struct schema_compiler *c, const struct schema_place *place,
                              struct str pattern, uint32_t min, uint32_t max,
                              uint32_t *rule) NODISCARD;

#endif
