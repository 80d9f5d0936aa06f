/*
 * schema.h: a JSON Schema as a grammar (GBNF), for `response_format` and strict tools.
 *
 *      {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}
 *          --schema_write_gbnf-->
 *      root ::= r1     r1 ::= "{" ws "\"n\"" ":" ws integer ws "}"     ...
 *
 * SOUND, NOT COMPLETE: everything that the grammar allows satisfies the schema, but it may allow
 * less than the schema. It allows less on purpose where a model gains nothing from the rest:
 *   - properties come in the order of the schema; optional ones may be left out. If `properties`
 *     are named, others are allowed only if `additionalProperties` says so itself; likewise `items`
 *     after `prefixItems`
 *   - a schema without `type` means the types that its keywords apply to: {"properties":...} means
 *     an object
 *   - integers have at most 18 digits (a larger bound that fits in 64 bits is kept), bounded
 *     numbers no exponent
 *   - strings write characters unescaped, or by an escape that is not half of a surrogate pair;
 *     names of additional properties have no escapes; values of enum and const come in compact form
 *
 * Accepted: type (one or several), properties, required, additionalProperties, patternProperties,
 * propertyNames (pattern, enum, lengths), unevaluatedProperties: false, minProperties and
 * maxProperties where no property is declared or the other keywords imply them (and minProperties:
 * 1; a name that comes twice counts twice), items, prefixItems (and the older lists of items),
 * minItems, maxItems, enum, const, $ref within the document, anyOf, oneOf, allOf, minLength,
 * maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, true
 * and false.
 *   - oneOf is read as anyOf: a grammar cannot express that a value must not satisfy two branches.
 *     This, a name that comes twice, and what is said below of formats are the only cases where
 *     allowed output may not validate
 *   - allOf, $ref next to other keywords, and anyOf next to others are merged exactly: each keyword
 *     of each part holds. unevaluatedProperties sees only its own schema and those inside of it
 *   - names that match patternProperties come after the declared properties. Others are allowed
 *     only if additionalProperties says so itself
 *   - pattern: literals, classes, \d \w \s and their complements, groups, |, * + ? {m,n} (also
 *     lazy), ^ and $. Without ^ or $ anything may come before or after. Refused: look-around, back
 *     references, \b, \p
 *   - format of strings: date, time, date-time, duration, uuid, ipv4, email, hostname and uri are
 *     enforced, also without a type. Any other name, known to the standard or not, and any format of
 *     other types (OpenAPI's int32) is an annotation, as in the standard: ignored, never refused. So
 *     is a format in the same schema as `pattern`, which is more precise. Refused: an enforced
 *     format next to enum or const. They allow what their standards allow, except for leap seconds
 *     in other zones than UTC. Not checked: that a host name has at most 253 characters and an
 *     address 254 (64 before the @), and what `xn--` stands for
 *   - lengths next to a pattern or format, and several patterns for one string, are enforced if the
 *     grammar stays small: about 1,000 / maxLength states of the pattern. Of a long text with one
 *     repeated class, up to 16 characters fewer than maxLength are allowed
 *   - multipleOf: 1, 0.1, 0.01, ... for numbers; for integers up to 256, without bounds or with few
 *     multiples between them
 * Refused: dependencies of any kind, contains, uniqueItems, not, if, unevaluatedItems, references
 * to other documents, anchors. Unknown keywords are ignored, as in the standard.
 *
 * Not detected: a schema that only an infinite document satisfies (an object that requires itself).
 *
 * Pure functions; any thread. The JSON may be hostile: time, memory and the size of the grammar are
 * bounded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct buf;
struct yyjson_val;

enum {
    SCHEMA_DEPTH_MAX = 64,         /* nesting of schemas, with references followed */
    SCHEMA_RULES_MAX = 3000,       /* of the grammar */
    SCHEMA_BYTES_MAX = 512 * 1024, /* of the grammar */
    SCHEMA_CELLS_MAX = 256 * 1024, /* elements after repetitions are expanded */
    SCHEMA_PROPERTIES_MAX = 256,   /* of one object */
    SCHEMA_ALTERNATIVES_MAX = 256, /* of one schema, after sibling anyOf are multiplied out */
    SCHEMA_ENUM_MAX = 2048,        /* values of one enum */
    SCHEMA_REPEAT_MAX = 65536,     /* of minLength, maxLength, minItems, maxItems and {m,n} */
    SCHEMA_STEPS_MAX = 100 * 1000, /* schemas visited */
    SCHEMA_ARENA_BYTES_MAX = 16 << 20,
};

/* White space between the parts of objects and arrays. Never before the first or after the last
 * character of the document: a model could generate it forever. */
enum schema_space {
    SCHEMA_SPACE_BOUNDED, /* none, a blank, or a new line and up to 32 blanks or tabs */
    SCHEMA_SPACE_COMPACT, /* none */
};

struct schema_options {
    enum schema_space space;
    const char *root; /* name of the top rule; NULL = "root" */
    /* of the names of all other rules, so that one grammar can hold several schemas; NULL = "" */
    const char *prefix;
    const struct yyjson_val *
        /* where references are resolved, if the schema is part of it; NULL = the schema */
        document;
    /* what patterns and lists of values have cost so far, for a limit that several schemas share;
     * NULL = their own */
    uint64_t *work;
};

/* Appends the rules to `out`, one per line; options may be NULL. ERR_UNSUPPORTED: a keyword or
 * value that a grammar cannot express; ERR_INVALID: not a schema, or nothing can satisfy it;
 * ERR_LIMIT: a limit above, or out's; ERR_NOMEM. The text of `info` begins with the JSON pointer of
 * the part to blame and says what to do. After an error the content of `out` is unchanged. */
enum err schema_write_gbnf(const struct yyjson_val *schema, const struct schema_options *options,
                           struct buf *out, struct errinfo *info) NODISCARD;

/* The texts that a pattern matches as a whole, without quotes and escapes. */
enum err schema_write_regex(struct str pattern, const struct schema_options *options,
                            struct buf *out, struct errinfo *info) NODISCARD;

/* The same for any JSON object: the mode `json_object`. */
enum err schema_write_any_object(const struct schema_options *options, struct buf *out,
                                 struct errinfo *info) NODISCARD;

/* Whether a format of strings is enforced, rather than ignored. */
bool schema_enforces_format(struct str name);
