/*
 * value.h: the values that templates work on: Python's, as far as a template can tell.
 *
 *      kind | flags | origin | len | text, number or object        24 bytes, passed by value
 *
 * Values never change once made, so trees of them can be shared by threads and renders. Only
 * namespaces, cyclers, joiners and loops change, and those live inside one render. Memory belongs
 * to the arena passed to the functions; texts are borrowed from the caller. Nothing is freed one by
 * one.
 *
 * Where text came from: each string has an `origin`, which is 0 for text of the template itself,
 * else a number that the caller gave to an input string. Cutting keeps it. A text made of several
 * keeps a list of its pieces inside the render; its origin then has JINJA_ORIGIN_MIXED set and is
 * the number of that list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct arena;
struct jinja_value;
struct yyjson_val;

/* X(kind, name of the type for messages) */
#define JINJA_KIND_TABLE(X)                                                                    \
    X(MISSING, "missing") /* no value at all: an argument not given, a variable not yet set */ \
    X(UNDEFINED, "Undefined")                                                                  \
    X(NONE, "None")                                                                            \
    X(BOOL, "bool")                                                                            \
    X(INT, "int")                                                                              \
    X(BIGINT, "int") /* input beyond 64 bits, as its digits: no arithmetic */                  \
    X(FLOAT, "float")                                                                          \
    X(STR, "str")                                                                              \
    X(LIST, "list")                                                                            \
    X(TUPLE, "tuple")                                                                          \
    X(DICT, "dict")                                                                            \
    X(RANGE, "range")                                                                          \
    X(VIEW, "dict view") /* dict.keys(), .values(), .items() */                                \
    X(ITER, "generator") /* as Python's generators: usable once */                             \
    X(NAMESPACE, "Namespace")                                                                  \
    X(LOOP, "LoopContext")                                                                     \
    X(CYCLER, "Cycler")                                                                        \
    X(JOINER, "Joiner")                                                                        \
    X(MACRO, "Macro")                                                                          \
    X(METHOD, "method")     /* of a builtin type, bound to its object */                       \
    X(FUNCTION, "function") /* range, namespace, raise_exception... */

enum jinja_kind {
#define X(kind, name) JINJA_##kind,
    JINJA_KIND_TABLE(X)
#undef X
        JINJA_KIND_COUNT
};

enum { JINJA_ORIGIN_NONE = 0 };
#define JINJA_ORIGIN_MIXED UINT32_C(0x80000000)

enum {
    JINJA_FLAG_MARKUP = 1 << 0, /* strings: markupsafe.Markup */
    JINJA_FLAG_GROUP = 1 << 0,  /* tuples: from groupby, with the attributes grouper and list */
    JINJA_FLAG_UNDEF_INDEX = 1 << 0, /* undefined: `len` is the index that was requested */
    JINJA_FLAG_UNDEF_ATTR = 1 << 1,  /* undefined: attribute of an object of kind `origin` */
    JINJA_FLAG_UNDEF_HINT = 1 << 2,  /* undefined: the text is a whole sentence */
};

struct jinja_list {
    struct jinja_value *items;
    size_t count;
};

struct jinja_range {
    int64_t start;
    int64_t stop; /* as given; only repr() shows it */
    int64_t step; /* never 0 */
    int64_t count;
};

struct jinja_value {
    uint8_t kind; /* enum jinja_kind */
    uint8_t flags;
    uint32_t origin; /* strings */
    size_t len;      /* strings: bytes; views: which view */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *text; /* strings, bigints, names of undefined values; not NUL-terminated */
        struct jinja_list *list;
        struct jinja_dict *dict;
        struct jinja_range *range;
        void *object;
    };
};

/* Constructors. */
struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool value);
struct jinja_value jinja_int(int64_t value);
struct jinja_value jinja_float(double value);
struct jinja_value jinja_str(struct str text);
struct jinja_value jinja_str_from(struct str text,
                                  uint32_t origin); /* origin < JINJA_ORIGIN_MIXED */

/* An empty list and dict, to be filled before they are shared; .kind is JINJA_MISSING when out of
 * memory. Adding returns false when out of memory. Keys are unique: setting one again replaces its
 * value and keeps its place, as in Python. */
struct jinja_value jinja_list_new(struct arena *arena);
struct jinja_value jinja_dict_new(struct arena *arena);
bool jinja_list_add(struct arena *arena, struct jinja_value list,
                    struct jinja_value item) NODISCARD;
bool jinja_dict_set(struct arena *arena, struct jinja_value dict, struct jinja_value key,
                    struct jinja_value value) NODISCARD;

/* A tree from parsed JSON; strings stay in the JSON's memory, which must outlive the tree. If
 * next_origin is not NULL each string, including keys, takes the next number in document order;
 * otherwise they have none. Parse with YYJSON_READ_BIGNUM_AS_RAW to keep large integers exact.
 * ERR_LIMIT if nested too deep or the arena is full. */
enum err jinja_value_from_json(struct arena *arena, struct yyjson_val *json, uint32_t *next_origin,
                               struct jinja_value *out) NODISCARD;

/* For reading results. jinja_dict_get returns NULL if the key is not there. */
struct str jinja_text(struct jinja_value value); /* of strings and bigints */
const struct jinja_value *jinja_dict_get(const struct jinja_dict *dict, struct jinja_value key);
const struct jinja_value *jinja_dict_get_str(const struct jinja_dict *dict, struct str key);
size_t jinja_dict_count(const struct jinja_dict *dict);
const struct jinja_value *jinja_dict_key(const struct jinja_dict *dict, size_t i);
const struct jinja_value *jinja_dict_value(const struct jinja_dict *dict, size_t i);

/* A step of work is one value, or this many bytes of text. */
enum { JINJA_STEP_BYTES = 16 };

/* Python's ==, and whether a value can be a key. Trees nested deeper than a limit compare unequal.
 * The work is taken from *steps: at 0 the result is false and means nothing. Large tuples cannot be
 * keys. */
bool jinja_value_equal(const struct jinja_value *a, const struct jinja_value *b, uint64_t *steps);
bool jinja_value_hashable(const struct jinja_value *value);
bool jinja_value_true(const struct jinja_value *value); /* Python's bool() */

/* The name of the type for messages: "str", "dict"... */
const char *jinja_kind_name(unsigned kind);

static inline bool jinja_is_int(const struct jinja_value *v) /* bool is an int, as in Python */
{
    return v->kind == JINJA_INT || v->kind == JINJA_BOOL;
}

static inline bool jinja_is_number(const struct jinja_value *v)
{
    return jinja_is_int(v) || v->kind == JINJA_FLOAT;
}

static inline bool jinja_is_seq(const struct jinja_value *v)
{
    return v->kind == JINJA_LIST || v->kind == JINJA_TUPLE;
}
