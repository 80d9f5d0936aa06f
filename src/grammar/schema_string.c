/*
 * schema_string.c: strings by length, pattern or format; enum and const.
 *
 * A format is one of our patterns. They are somewhat narrower than the standards, never wider: no
 * leap seconds, host names in parts of bounded length, 29 February only in leap years.
 */
#include "grammar/schema_impl.h"

#include <assert.h>

#include "base/utf8.h"

enum { ENUM_DEPTH_MAX = 32 };

#define YEAR_LEAP \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-" \
    "9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" YEAR_LEAP "-02-29)"
#define TIME                                                                                      \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[" \
    "0-"                                                                                          \
    "5][0-9])"
#define OCTET   "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define LABEL   "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
#define ATOM    "[A-Za-z0-9_%+-]{1,20}"
#define PCHAR   "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define QUERY   "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"
#define DAYS    "[0-9]{1,6}D"
#define MONTHS  "[0-9]{1,6}M(?:" DAYS ")?"
#define SECONDS "[0-9]{1,6}S"
#define MINUTES "[0-9]{1,6}M(?:" SECONDS ")?"
#define CLOCK   "T(?:[0-9]{1,6}H(?:" MINUTES ")?|" MINUTES "|" SECONDS ")"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:(?:[0-9]{1,6}Y(?:" MONTHS ")?|" MONTHS "|" DAYS ")(?:" CLOCK ")?|" CLOCK
                 "|[0-9]{1,6}W)$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"ipv4", "^" OCTET "\\." OCTET "\\." OCTET "\\." OCTET "$"},
    {"hostname", "^" LABEL "(?:\\." LABEL "){0,3}$"},
    {"email", "^" ATOM "(?:\\." ATOM "){0,2}@" LABEL "(?:\\." LABEL "){1,3}$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(?://" LABEL "(?:\\." LABEL "){0,3}(?::[0-9]{1,5})?(?:/" PCHAR
            "*)*|" PCHAR "+(?:/" PCHAR "*)*)(?:\\?" QUERY ")?(?:#" QUERY ")?$"},
};

/* ---- counts ---- */

static enum err get_count(struct schema_compiler *c, const struct schema_part *part,
                          const char *name, uint32_t *count, const struct schema_place **place)
{
    yyjson_val *val = yyjson_obj_get(part->val, name);

    if (val == NULL)
        return ERR_OK;
    TRY(schema_place(c, part->place, str_from(name), place));
    double number = yyjson_get_num(val);
    if (!yyjson_is_num(val) || !schema_is_integer(val) || number < 0)
        return schema_refuse(c, *place, ERR_INVALID, "expected a number of 0 or more");
    *count = number > SCHEMA_REPEAT_MAX ? SCHEMA_REPEAT_MAX + 1 : (uint32_t)number;
    return ERR_OK;
}

enum err schema_get_counts(struct schema_compiler *c, const struct schema_all *all,
                           const char *low_name, const char *high_name,
                           struct schema_counts *counts)
{
    *counts = (struct schema_counts){.max = SCHEMA_FOREVER};
    for (size_t i = 0; i < all->count; i++) {
        uint32_t low = 0, high = SCHEMA_FOREVER;
        TRY(get_count(c, &all->parts[i], low_name, &low, &counts->place));
        if (low > SCHEMA_REPEAT_MAX)
            return schema_refuse(c, counts->place, ERR_LIMIT,
                                 "more than %d; lower it or leave it out", SCHEMA_REPEAT_MAX);
        TRY(get_count(c, &all->parts[i], high_name, &high, &counts->place));
        counts->min = MAX(counts->min, low);
        counts->max = MIN(counts->max, high);
    }
    if (counts->max != SCHEMA_FOREVER && counts->max > SCHEMA_REPEAT_MAX)
        counts->max = SCHEMA_REPEAT_MAX;
    return ERR_OK;
}

/* ---- strings ---- */

/* The only pattern of all parts; STR_NONE if there is none. */
static enum err get_pattern(struct schema_compiler *c, const struct schema_all *all,
                            struct str *pattern, const struct schema_place **place)
{
    *pattern = STR_NONE;
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *val = yyjson_obj_get(all->parts[i].val, "pattern");
        struct str text = {yyjson_get_str(val), yyjson_get_len(val)};
        if (val == NULL)
            continue;
        TRY(schema_place(c, all->parts[i].place, STR("pattern"), place));
        if (!yyjson_is_str(val))
            return schema_refuse(c, *place, ERR_INVALID, "expected a string");
        if (pattern->ptr != NULL && !str_eq(*pattern, text))
            return schema_refuse(c, *place, ERR_UNSUPPORTED,
                                 "two patterns for one string cannot be enforced; write one that "
                                 "says both");
        *pattern = text;
    }
    return ERR_OK;
}

bool schema_enforces_format(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (str_eq(name, str_from(formats[i].name)))
            return true;
    return false;
}

/* The pattern of a known format; the first of several. A format in the same schema as a pattern is
 * ignored. */
static enum err get_format(struct schema_compiler *c, const struct schema_all *all,
                           struct str *pattern, const struct schema_place **place)
{
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *val = yyjson_obj_get(all->parts[i].val, "format");
        for (size_t f = 0; f < COUNT_OF(formats); f++) {
            struct str found = str_from(formats[f].pattern);
            if (val == NULL || !yyjson_equals_str(val, formats[f].name) ||
                yyjson_obj_get(all->parts[i].val, "pattern") != NULL)
                continue;
            TRY(schema_place(c, all->parts[i].place, STR("format"), place));
            if (pattern->ptr != NULL && !str_eq(*pattern, found))
                return schema_refuse(c, *place, ERR_UNSUPPORTED,
                                     "another format or pattern holds for the same string, and "
                                     "both cannot be enforced; leave one out");
            *pattern = found;
        }
    }
    return ERR_OK;
}

enum err schema_compile_string(struct schema_compiler *c, const struct schema_all *all,
                               uint32_t *rule)
{
    const struct schema_place *place = NULL;
    struct schema_counts counts;
    struct str pattern;
    uint32_t inside;

    TRY(schema_get_counts(c, all, "minLength", "maxLength", &counts));
    TRY(get_pattern(c, all, &pattern, &place));
    TRY(get_format(c, all, &pattern, &place));
    *rule = SCHEMA_NEVER;
    if (counts.min > counts.max)
        return ERR_OK;
    if (pattern.ptr != NULL) {
        TRY(schema_compile_regex(c, place, pattern, counts.min, counts.max, &inside));
    } else if (counts.place != NULL) {
        TRY(schema_repeat(c, SCHEMA_RULE_CHAR, counts.min, counts.max, &inside));
    } else {
        *rule = SCHEMA_RULE_STRING;
        return ERR_OK;
    }
    if (inside == SCHEMA_NEVER)
        return ERR_OK;
    TRY(schema_rule_begin(c, rule));
    schema_put(c, "\"\\\"\"");
    schema_put_rule(c, inside);
    schema_put(c, "\"\\\"\"");
    return schema_rule_end(c);
}

/* ---- enum and const ---- */

static unsigned type_of(yyjson_val *val)
{
    switch (yyjson_get_type(val)) {
    case YYJSON_TYPE_NULL:
        return SCHEMA_TYPE_NULL;
    case YYJSON_TYPE_BOOL:
        return SCHEMA_TYPE_BOOLEAN;
    case YYJSON_TYPE_STR:
        return SCHEMA_TYPE_STRING;
    case YYJSON_TYPE_ARR:
        return SCHEMA_TYPE_ARRAY;
    case YYJSON_TYPE_OBJ:
        return SCHEMA_TYPE_OBJECT;
    default:
        return schema_is_integer(val) ? SCHEMA_TYPE_INTEGER : SCHEMA_TYPE_FRACTION;
    }
}

static bool too_deep(yyjson_val *val, unsigned depth)
{
    size_t i, max;
    yyjson_val *key, *item;

    if (depth == ENUM_DEPTH_MAX)
        return true;
    yyjson_arr_foreach(val, i, max, item) if (too_deep(item, depth + 1)) return true;
    yyjson_obj_foreach(val, i, max, key, item) if (too_deep(item, depth + 1)) return true;
    return false;
}

/* Equal as JSON values: 1 equals 1.0. */
static bool equal(yyjson_val *a, yyjson_val *b)
{
    if (yyjson_is_num(a) && yyjson_is_num(b) && (yyjson_is_real(a) || yyjson_is_real(b)))
        return yyjson_get_num(a) == yyjson_get_num(b);
    return yyjson_equals(a, b);
}

static bool listed(yyjson_val *list, yyjson_val *val)
{
    size_t i, max;
    yyjson_val *item;

    yyjson_arr_foreach(list, i, max, item) if (equal(item, val)) return true;
    return false;
}

/* Lengths and bounds next to an enum are checked here; other keywords cannot be. */
static enum err fits(struct schema_compiler *c, const struct schema_all *all, yyjson_val *val,
                     bool *ok)
{
    static const char *const unchecked[] = {
        "pattern",         "properties",    "required",
        "items",           "prefixItems",   "additionalProperties",
        "minItems",        "maxItems",      "unevaluatedProperties",
        "additionalItems", "minProperties", "maxProperties"};
    const struct schema_place *place;
    struct str format = STR_NONE;
    struct schema_counts counts;
    unsigned type = type_of(val);

    *ok = true;
    if (type & SCHEMA_TYPE_NUMBER)
        return schema_number_fits(c, all, val, ok);
    if (type == SCHEMA_TYPE_STRING) {
        struct str text = {yyjson_get_str(val), yyjson_get_len(val)};
        size_t len = utf8_count(text);
        TRY(schema_get_counts(c, all, "minLength", "maxLength", &counts));
        *ok = len >= counts.min && len <= counts.max;
        TRY(get_format(c, all, &format, &place));
        if (format.ptr != NULL)
            return schema_refuse(c, place, ERR_UNSUPPORTED,
                                 "'format' beside enum or const is not checked; leave it out");
    }
    bool object = type == SCHEMA_TYPE_OBJECT, array = type == SCHEMA_TYPE_ARRAY;
    for (size_t i = 0; i < all->count; i++)
        for (size_t k = 0; k < COUNT_OF(unchecked); k++)
            if (yyjson_obj_get(all->parts[i].val, unchecked[k]) &&
                (object || array || (k == 0 && type == SCHEMA_TYPE_STRING)))
                return schema_refuse(c, all->parts[i].place, ERR_UNSUPPORTED,
                                     "'%s' beside enum or const is not checked; leave it out and "
                                     "list only what is allowed",
                                     unchecked[k]);
    return ERR_OK;
}

/* Whether every enum and const contains this value, which is from one of them. */
static enum err in_all(struct schema_compiler *c, const struct schema_all *all,
                       const yyjson_val *from, yyjson_val *val, bool *in)
{
    *in = true;
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *list = yyjson_obj_get(all->parts[i].val, "enum");
        yyjson_val *only = yyjson_obj_get(all->parts[i].val, "const");
        bool others = (list != NULL && list != from) || (only != NULL && only != from);
        if (others && yyjson_is_ctn(val)) /* comparison is quadratic in their size */
            return schema_refuse(c, all->parts[i].place, ERR_UNSUPPORTED,
                                 "two lists of objects or arrays for one value; merge them");
        *in &= list == NULL || list == from || listed(list, val);
        *in &= only == NULL || only == from || equal(only, val);
    }
    return ERR_OK;
}

struct enum_values {
    const struct schema_all *all;
    const struct schema_place *place;
    const yyjson_val *from;
    unsigned types;
    uint32_t rule; /* 0 until there is a value */
};

static enum err add_value(struct schema_compiler *c, struct enum_values *values, yyjson_val *val)
{
    bool ok;

    if (too_deep(val, 0))
        return schema_refuse(c, values->place, ERR_LIMIT, "a value is nested deeper than %d",
                             ENUM_DEPTH_MAX);
    if (!(type_of(val) & values->types))
        return ERR_OK;
    TRY(in_all(c, values->all, values->from, val, &ok));
    if (ok)
        TRY(fits(c, values->all, val, &ok));
    if (!ok)
        return ERR_OK;
    if (values->rule == 0)
        TRY(schema_rule_begin(c, &values->rule));
    else
        schema_put(c, "|");
    schema_put_value(c, val);
    return ERR_OK;
}

enum err schema_compile_enum(struct schema_compiler *c, const struct schema_all *all,
                             unsigned types, uint32_t *rule)
{
    struct enum_values values = {.all = all, .types = types};
    yyjson_val *list = NULL, *only = NULL, *item;
    size_t i, max;

    /* Iterate over one of them and look each value up in the others. */
    for (i = 0; i < all->count && only == NULL; i++) {
        yyjson_val *here = yyjson_obj_get(all->parts[i].val, "enum");
        only = yyjson_obj_get(all->parts[i].val, "const");
        list = here ? here : list;
        if (only != NULL || here != NULL)
            TRY(schema_place(c, all->parts[i].place, only ? STR("const") : STR("enum"),
                             &values.place));
        if (here != NULL && !yyjson_is_arr(here))
            return schema_refuse(c, values.place, ERR_INVALID, "expected an array");
    }
    if (only == NULL && yyjson_arr_size(list) > SCHEMA_ENUM_MAX)
        return schema_refuse(c, values.place, ERR_LIMIT, "more than %d values", SCHEMA_ENUM_MAX);
    values.from = only ? only : list;
    if (only != NULL)
        TRY(add_value(c, &values, only));
    else
        yyjson_arr_foreach(list, i, max, item) TRY(add_value(c, &values, item));
    *rule = values.rule;
    return values.rule ? schema_rule_end(c) : ERR_OK;
}
