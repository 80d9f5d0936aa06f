/*
 * schema_regex.h: a regular expression (of a schema's `pattern`) as grammar rules for the inside of
 * a JSON string. For the schema compiler; what it takes and refuses stands in schema.h.
 */
#ifndef HEARTH_GRAMMAR_SCHEMA_REGEX_H
#define HEARTH_GRAMMAR_SCHEMA_REGEX_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct schema_compiler;
struct schema_place;

/* A rule for what the text between the quotes may be. `min` and `max` are the characters that it
 * may have: they must follow from the pattern, or it is one repeated class whose count can be
 * changed; else ERR_UNSUPPORTED. SCHEMA_NEVER when the pattern allows no such length. */
enum err schema_compile_regex(struct schema_compiler *c, const struct schema_place *place,
                              struct str pattern, uint32_t min, uint32_t max,
                              uint32_t *rule) NODISCARD;

#endif
