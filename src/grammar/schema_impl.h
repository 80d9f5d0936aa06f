/*
 * schema_impl.h: shared by the files of the schema compiler, and internal to them; schema.h is the
 * public header.
 *
 * A rule of the grammar is written in one go, so all rules that it uses must exist before: first
 * the children, then schema_rule_begin, the body, schema_rule_end. A rule is identified by its
 * number.
 *
 * "Never" (SCHEMA_NEVER) is a result, not an error: an alternative or an optional property that
 * nothing can satisfy is left out; only a whole schema with this result is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "grammar/schema.h"

/* Shared rules, written only when used; numbers from SCHEMA_RULE_OWN on are named r<n>. */
enum schema_rule {
    SCHEMA_NEVER,
    SCHEMA_RULE_VALUE,
    SCHEMA_RULE_OBJECT,
    SCHEMA_RULE_ARRAY,
    SCHEMA_RULE_PAIR,
    SCHEMA_RULE_STRING,
    SCHEMA_RULE_NUMBER,
    SCHEMA_RULE_INTEGER,
    SCHEMA_RULE_BOOLEAN,
    SCHEMA_RULE_NULL,
    SCHEMA_RULE_CHAR, /* one character of a string, escaped or not */
    SCHEMA_RULE_RAW,  /* one character that needs no escape */
    SCHEMA_RULE_SPACE,
    SCHEMA_RULE_OWN,
};

enum schema_type {
    SCHEMA_TYPE_NULL = 1 << 0,
    SCHEMA_TYPE_BOOLEAN = 1 << 1,
    SCHEMA_TYPE_INTEGER = 1 << 2,
    SCHEMA_TYPE_FRACTION = 1 << 3, /* "number" is this and integer */
    SCHEMA_TYPE_STRING = 1 << 4,
    SCHEMA_TYPE_ARRAY = 1 << 5,
    SCHEMA_TYPE_OBJECT = 1 << 6,
    SCHEMA_TYPE_NUMBER = SCHEMA_TYPE_INTEGER | SCHEMA_TYPE_FRACTION,
    SCHEMA_TYPE_ANY = (1 << 7) - 1,
};

/* The position of a part of the schema, from the leaf up; the root has a NULL parent and an empty
 * or "#/..." key. */
struct schema_place {
    const struct schema_place *parent;
    struct str key;
};

/* The schemas that lead to a part through $ref, allOf, anyOf and oneOf: itself, then upwards. */
struct schema_chain {
    const yyjson_val *val;
    const struct schema_chain *up;
};

struct schema_part {
    yyjson_val *val;
    const struct schema_place *place;
    const struct schema_chain *chain; /* NULL in lists that are not gathered yet */
};

/* Schemas that must all hold. */
struct schema_all {
    struct schema_part *parts;
    size_t count;
};

struct schema_memo;
struct schema_text; /* a pattern that has a rule already */

enum {
    SCHEMA_MEMO_CHAINS = 256,
    /* of one schema, or of all that share it: about half a second */
    SCHEMA_WORK_MAX = 50 * 1000 * 1000,
};

struct schema_compiler {
    yyjson_val *schema;
    yyjson_val *root; /* of the document in which references are resolved */
    struct schema_options options;
    struct buf *out;
    struct errinfo *info;
    struct arena arena;
    uint32_t rules_count; /* excluding the shared ones */
    uint32_t shared;      /* bit n: shared rule n is used */
    uint32_t cells, steps;
    uint64_t own_work, *work; /* steps of automata (schema_dfa.c), and values compared */
    unsigned depth;
    bool writing; /* between schema_rule_begin and schema_rule_end */
    bool plain;   /* patterns match whole texts, which are not inside a JSON string */
    struct schema_memo *memos[SCHEMA_MEMO_CHAINS];
    struct schema_text *texts;
};

/* ---- schema.c ---- */

/* The rule for all of these together; SCHEMA_NEVER if nothing satisfies them. */
enum err schema_compile(struct schema_compiler *c, const struct schema_all *all,
                        uint32_t *rule) NODISCARD;

/* ---- schema_write.c ---- */

/* Reports an error about a part of the schema: the message begins with its pointer. */
enum err schema_refuse(struct schema_compiler *c, const struct schema_place *place, enum err code,
                       const char *fmt, ...) PRINTF(4, 5);
enum err schema_no_memory(struct schema_compiler *c);
enum err schema_place(struct schema_compiler *c, const struct schema_place *parent, struct str key,
                      const struct schema_place **place) NODISCARD;
enum err schema_place_index(struct schema_compiler *c, const struct schema_place *parent,
                            size_t index, const struct schema_place **place) NODISCARD;

enum err schema_rule_begin(struct schema_compiler *c, uint32_t *rule) NODISCARD;
/* As schema_rule_begin, for a number from schema_rule_reserve. */
enum err schema_rule_reserve(struct schema_compiler *c, uint32_t *rule) NODISCARD;
void schema_rule_open(struct schema_compiler *c, uint32_t rule);
enum err schema_rule_end(struct schema_compiler *c) NODISCARD;

/* Pieces of a rule's body, each followed by the blank that separates it from the next. */
void schema_put(struct schema_compiler *c, const char *gbnf);
void schema_put_rule(struct schema_compiler *c, uint32_t rule);
void schema_put_space(struct schema_compiler *c);
void schema_put_comma(struct schema_compiler *c); /* and optional white space */
void schema_put_count(struct schema_compiler *c, uint32_t min, uint32_t max);

/* The text of a literal, without its quotes: characters of the output, and characters escaped as in
 * a JSON string. */
void schema_put_char(struct schema_compiler *c, uint32_t code);
void schema_put_json_char(struct schema_compiler *c, uint32_t code);
/* A whole literal: a string in quotes, and any value. */
void schema_put_string(struct schema_compiler *c, struct str text);
void schema_put_value(struct schema_compiler *c, yyjson_val *val);

/* A class of characters that need no escape. */
struct schema_chars;
void schema_put_ranges(struct schema_compiler *c, const struct schema_chars *set);

/* The rule `a | b | ...`, or the only one of them. */
enum err schema_any_of(struct schema_compiler *c, const uint32_t *rules, size_t count,
                       uint32_t *rule) NODISCARD;

#define SCHEMA_FOREVER UINT32_MAX

/* A rule for `item` repeated min to max times, in chunks if the counts are large. The item must not
 * match the empty text. */
enum err schema_repeat(struct schema_compiler *c, uint32_t item, uint32_t min, uint32_t max,
                       uint32_t *rule) NODISCARD;

/* Writes the shared rules that were used. */
enum err schema_write_shared(struct schema_compiler *c) NODISCARD;

/* ---- one type each ---- */

enum err schema_compile_object(struct schema_compiler *c, const struct schema_all *all,
                               uint32_t *rule) NODISCARD;
enum err schema_compile_array(struct schema_compiler *c, const struct schema_all *all,
                              uint32_t *rule) NODISCARD;
enum err schema_compile_string(struct schema_compiler *c, const struct schema_all *all,
                               uint32_t *rule) NODISCARD;
enum err schema_compile_number(struct schema_compiler *c, const struct schema_all *all,
                               bool integer, uint32_t *rule) NODISCARD;
/* Enum and const, of the given types. */
enum err schema_compile_enum(struct schema_compiler *c, const struct schema_all *all,
                             unsigned types, uint32_t *rule) NODISCARD;

/* ---- schema_regex.c ---- */

enum schema_node_kind {
    SCHEMA_NODE_CHARS,
    SCHEMA_NODE_SEQ,
    SCHEMA_NODE_ALT,
    SCHEMA_NODE_REPEAT,
    SCHEMA_NODE_BEGIN, /* ^ */
    SCHEMA_NODE_END,   /* $ */
};

struct schema_node {
    enum schema_node_kind kind;
    struct schema_node *next;          /* in the list of its parent */
    struct schema_node *first, **last; /* children */
    struct schema_chars *chars;
    uint32_t min, max; /* of a repetition */
    uint32_t rule;     /* made by schema_regex.c; 0 = written in place */
};

/* A pattern as a tree, in the compiler's arena. */
enum err schema_parse_regex(struct schema_compiler *c, const struct schema_place *place,
                            struct str pattern, struct schema_node **top) NODISCARD;

/* A rule for the text between the quotes, which matches all patterns and has `min` to `max`
 * characters. SCHEMA_NEVER: there is no such text. */
struct schema_texts;
enum err schema_compile_regex(struct schema_compiler *c, const struct schema_texts *patterns,
                              size_t count, uint32_t min, uint32_t max, uint32_t *rule) NODISCARD;

/* ---- schema_dfa.c ---- */

enum { SCHEMA_LABELS_MAX = 32 };

/* A set of texts: those that a pattern matches, or a list of names if its pattern is STR_NONE. */
struct schema_texts {
    const struct schema_place *place; /* to blame */
    struct str pattern;
    const struct str *names;
    size_t names_count;
};

/* The texts to write: those that are in exactly the sets of `labels` (bit n: set n). */
struct schema_wanted {
    uint32_t labels;
    uint32_t min, max; /* characters */
    bool name;         /* no escapes; the rule includes the quote at its end */
};

/* At most SCHEMA_LABELS_MAX sets. ERR_UNSUPPORTED: too large. To be destroyed after errors, too. */
struct schema_dfa;
enum err schema_dfa_create(struct schema_compiler *c, const struct schema_texts *texts,
                           size_t count, struct schema_dfa **dfa) NODISCARD;
void schema_dfa_destroy(struct schema_dfa **dfa);
uint32_t schema_dfa_labels(const struct schema_dfa *dfa, struct str text);
/* The different labels that texts have, at most `max`. */
size_t schema_dfa_kinds(const struct schema_dfa *dfa, uint32_t *kinds, size_t max);
/* SCHEMA_NEVER: there is no such text. */
enum err schema_dfa_write(struct schema_dfa *dfa, const struct schema_wanted *wanted,
                          uint32_t *rule) NODISCARD;

/* ---- parts of schemas ---- */

/* The largest `low_name` and the smallest `high_name` of all parts, which are counts; limits stay
 * unchanged if no part sets them. `place` is the part that did. */
struct schema_counts {
    uint32_t min, max;
    const struct schema_place *place; /* NULL: no part sets a limit */
};
enum err schema_get_counts(struct schema_compiler *c, const struct schema_all *all,
                           const char *low_name, const char *high_name,
                           struct schema_counts *counts) NODISCARD;

/* Whether a number, a text's length, ... satisfies the keywords next to an enum. */
enum err schema_number_fits(struct schema_compiler *c, const struct schema_all *all,
                            yyjson_val *number, bool *fits) NODISCARD;
bool schema_is_integer(yyjson_val *val);
