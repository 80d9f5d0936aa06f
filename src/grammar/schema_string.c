/*
 * schema_string.c: strings by length, pattern or format; enum and const.
 *
 * A format is one of our patterns. They follow their standards; schema.h lists where they differ.
 */
#include "grammar/schema_impl.h"

#include "base/json_alc.h"
#include "base/utf8.h"

enum { ENUM_DEPTH_MAX = 32 };

#define YEAR_LEAP \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-" \
    "9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" YEAR_LEAP "-02-29)"
#define CLOCK_TIME                                                                                \
    "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3])" \
    ":[0-5][0-9])|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))"
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4  OCTET "\\." OCTET "\\." OCTET "\\." OCTET
#define H16   "[0-9A-Fa-f]{1,4}"
#define LS32  "(?:" H16 ":" H16 "|" IPV4 ")"
/* RFC 4291: at most one gap, which stands for at least one group of zeros. */
#define IPV6                                                                                     \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32    \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16           \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16     \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 \
    ")?::)"
#define LABEL   "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST    LABEL "(?:\\." LABEL ")*"
#define ATOM    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define QUOTED  "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\""
#define PCHAR   "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define QUERY   "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"
#define USER    "(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*"
#define NAME    "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
#define SERVER  "(?:" USER "@)?(?:" NAME "|\\[" IPV6 "\\])(?::[0-9]*)?"
#define DAYS    "[0-9]+D"
#define MONTHS  "[0-9]+M(?:" DAYS ")?"
#define SECONDS "[0-9]+S"
#define MINUTES "[0-9]+M(?:" SECONDS ")?"
#define CLOCK   "T(?:[0-9]+H(?:" MINUTES ")?|" MINUTES "|" SECONDS ")"

static const struct {
    const char *name, *pattern;
    uint32_t longest; /* by its standard, which the pattern does not say; 0: no limit */
} formats[] = {
    {"date", "^" DATE "$", 0},
    {"time", "^" CLOCK_TIME "$", 0},
    {"date-time", "^" DATE "[Tt]" CLOCK_TIME "$", 0},
    {"duration",
     "^P(?:(?:[0-9]+Y(?:" MONTHS ")?|" MONTHS "|" DAYS ")(?:" CLOCK ")?|" CLOCK "|[0-9]+W)$", 0},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$", 0},
    {"ipv4", "^" IPV4 "$", 0},
    {"hostname", "^" HOST "$", 253},
    {"email",
     "^(?:" ATOM "(?:\\." ATOM ")*|" QUOTED ")@(?:" HOST "|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])$",
     254},
    {"uri",
     "^[A-Za-z][A-Za-z0-9+.-]*:(?://" SERVER "(?:/" PCHAR "*)*|/?(?:" PCHAR "+(?:/" PCHAR
     "*)*)?)(?:\\?" QUERY ")?(?:#" QUERY ")?$",
     0},
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

bool schema_enforces_format(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (str_eq(name, str_from(formats[i].name)))
            return true;
    return false;
}

enum { PATTERNS_MAX = 8 };

/* The patterns of all parts, and those of formats. */
struct patterns {
    struct schema_texts texts[PATTERNS_MAX];
    size_t count;
    uint32_t longest; /* of the formats; SCHEMA_FOREVER: they do not say */
};

static enum err add_pattern(struct schema_compiler *c, struct patterns *patterns,
                            const struct schema_place *parent, const char *keyword,
                            struct str pattern)
{
    const struct schema_place *place;

    for (size_t i = 0; i < patterns->count; i++)
        if (str_eq(patterns->texts[i].pattern, pattern))
            return ERR_OK;
    TRY(schema_place(c, parent, str_from(keyword), &place));
    if (patterns->count == PATTERNS_MAX)
        return schema_refuse(c, place, ERR_LIMIT, "more than %d patterns for one string",
                             PATTERNS_MAX);
    patterns->texts[patterns->count++] = (struct schema_texts){.place = place, .pattern = pattern};
    return ERR_OK;
}

static enum err add_patterns(struct schema_compiler *c, const struct schema_all *all,
                             struct patterns *patterns)
{
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *val = yyjson_obj_get(all->parts[i].val, "pattern");
        const struct schema_place *place;
        if (val == NULL)
            continue;
        TRY(schema_place(c, all->parts[i].place, STR("pattern"), &place));
        if (!yyjson_is_str(val))
            return schema_refuse(c, place, ERR_INVALID, "expected a string");
        TRY(add_pattern(c, patterns, all->parts[i].place, "pattern", json_get_text(val)));
    }
    return ERR_OK;
}

/* A format in the same schema as a pattern is ignored. */
static enum err add_formats(struct schema_compiler *c, const struct schema_all *all,
                            struct patterns *patterns)
{
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *val = yyjson_obj_get(all->parts[i].val, "format");
        if (val == NULL || yyjson_obj_get(all->parts[i].val, "pattern") != NULL)
            continue;
        for (size_t f = 0; f < COUNT_OF(formats); f++)
            if (yyjson_equals_str(val, formats[f].name)) {
                TRY(add_pattern(c, patterns, all->parts[i].place, "format",
                                str_from(formats[f].pattern)));
                if (formats[f].longest > 0)
                    patterns->longest = formats[f].longest;
            }
    }
    return ERR_OK;
}

enum err schema_compile_string(struct schema_compiler *c, const struct schema_all *all,
                               uint32_t *rule)
{
    struct patterns patterns = {.longest = SCHEMA_FOREVER};
    struct schema_counts counts;
    uint32_t inside;

    TRY(schema_get_counts(c, all, "minLength", "maxLength", &counts));
    TRY(add_patterns(c, all, &patterns));
    TRY(add_formats(c, all, &patterns));
    *rule = SCHEMA_NEVER;
    if (counts.min > counts.max)
        return ERR_OK;
    if (counts.max >= patterns.longest)
        counts.max = SCHEMA_FOREVER;
    if (patterns.count > 0) {
        TRY(schema_compile_regex(c, patterns.texts, patterns.count, counts.min, counts.max,
                                 &inside));
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

static bool listed(struct schema_compiler *c, yyjson_val *list, yyjson_val *val)
{
    size_t i, max;
    yyjson_val *item;

    *c->work += yyjson_arr_size(list);
    yyjson_arr_foreach(list, i, max, item) if (equal(item, val)) return true;
    return false;
}

/* Lengths and bounds next to an enum are checked here; other keywords cannot be. */
static enum err fits(struct schema_compiler *c, const struct schema_all *all, yyjson_val *val,
                     bool *ok)
{
    static const char *const unchecked[] = {"pattern",
                                            "properties",
                                            "required",
                                            "items",
                                            "prefixItems",
                                            "additionalProperties",
                                            "minItems",
                                            "maxItems",
                                            "unevaluatedProperties",
                                            "additionalItems",
                                            "minProperties",
                                            "maxProperties",
                                            "patternProperties",
                                            "propertyNames"};
    struct patterns patterns = {.count = 0};
    struct schema_counts counts;
    unsigned type = type_of(val);

    *ok = true;
    if (type & SCHEMA_TYPE_NUMBER)
        return schema_number_fits(c, all, val, ok);
    if (type == SCHEMA_TYPE_STRING) {
        struct str text = json_get_text(val);
        size_t len = utf8_count(text);
        TRY(schema_get_counts(c, all, "minLength", "maxLength", &counts));
        *ok = len >= counts.min && len <= counts.max;
        TRY(add_formats(c, all, &patterns));
        if (patterns.count > 0)
            return schema_refuse(c, patterns.texts[0].place, ERR_UNSUPPORTED,
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
        *in &= list == NULL || list == from || listed(c, list, val);
        *in &= only == NULL || only == from || equal(only, val);
        if (*c->work > SCHEMA_WORK_MAX)
            return schema_refuse(c, all->parts[i].place, ERR_LIMIT,
                                 "several lists of values hold for one value, and they are too "
                                 "long to compare; merge them");
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
