/*
 * schema_object.c: objects. Properties in the order of the schema, each at most once, commas
 * exactly between them.
 *
 * Let f be the first required property (or the end). The first property written decides whether a
 * comma precedes the others, so the ways to begin are written out up to f, and the rest after each
 * is a chain that all ways share:
 *
 *      object ::= "{" ( p0 rest1 | p1 rest2 | ... | pf rest(f+1) )
 *      rest1  ::= ( "," p1 )? rest2             only up to f; after it everything is one sequence
 *
 * ADDITIONAL PROPERTIES must not have the name of a declared one: it could appear twice with
 * different types. They are written without escapes, because "\u0061" is "a".
 *
 * PATTERNS of names (patternProperties, propertyNames; without any, one that all names match) and
 * the declared names become one automaton (schema_dfa.c), which tells the other names apart by the
 * patterns that they match. Each kind of names has its own value: all schemas of its patterns, and
 * additionalProperties of the parts that none of its patterns belongs to.
 */
#include "grammar/schema_impl.h"

#include <string.h>

#include "base/json_alc.h"

enum { PATTERNS_MAX = SCHEMA_LABELS_MAX - 1, KINDS_MAX = 64 };

/* A pattern of names; its number is its label. */
struct pattern {
    const struct schema_part *part;
    yyjson_val *schema; /* of the values; NULL: all names must match it */
    const struct schema_place *place;
};

struct property {
    struct str name;
    uint32_t rule; /* of its value */
    uint32_t pair; /* of `"name": value`, if needed more than once; 0 = none */
    bool required;
};

struct object {
    struct property *properties;
    size_t count;
    bool named;            /* some are declared, even if none of them can be satisfied */
    size_t first_required; /* = count if none is */
    bool closed;           /* no additional ones, except those that match a pattern */
    uint32_t min, max;     /* of properties, if none is declared */
    bool not_empty;        /* minProperties: 1 */
    uint32_t additional;   /* a pair; 0 = none */
    struct pattern patterns[PATTERNS_MAX];
    struct schema_texts texts[SCHEMA_LABELS_MAX];
    size_t patterns_count;
    struct schema_dfa *dfa; /* NULL: there are no patterns, and no names or no others */
    uint32_t *rests;        /* rule for the rest after the properties before; 0 = none */
};

/* ---- which properties ---- */

static struct property *find_property(struct object *object, struct str name)
{
    for (size_t i = 0; i < object->count; i++)
        if (str_eq(object->properties[i].name, name))
            return &object->properties[i];
    return NULL;
}

static enum err add_name(struct schema_compiler *c, struct object *object,
                         const struct schema_place *place, yyjson_val *name, bool required)
{
    struct str text = json_get_text(name);

    if (!yyjson_is_str(name))
        return schema_refuse(c, place, ERR_INVALID, "expected an array of strings");
    struct property *property = find_property(object, text);
    if (property == NULL) {
        if (object->count == SCHEMA_PROPERTIES_MAX)
            return schema_refuse(c, place, ERR_LIMIT, "more than %d properties in one object",
                                 SCHEMA_PROPERTIES_MAX);
        property = &object->properties[object->count++];
        property->name = text;
    }
    property->required |= required;
    return ERR_OK;
}

static enum err add_names(struct schema_compiler *c, struct object *object,
                          const struct schema_part *part, const char *keyword)
{
    yyjson_val *val = yyjson_obj_get(part->val, keyword), *key, *item;
    bool required = strcmp(keyword, "required") == 0;
    const struct schema_place *place;
    size_t i, max;

    if (val == NULL)
        return ERR_OK;
    TRY(schema_place(c, part->place, str_from(keyword), &place));
    if (required ? !yyjson_is_arr(val) : !yyjson_is_obj(val))
        return schema_refuse(c, place, ERR_INVALID, "expected an %s",
                             required ? "array of strings" : "object of schemas");
    yyjson_arr_foreach(val, i, max, item) TRY(add_name(c, object, place, item, true));
    yyjson_obj_foreach(val, i, max, key, item) TRY(add_name(c, object, place, key, false));
    return ERR_OK;
}

static enum err collect_names(struct schema_compiler *c, const struct schema_all *all,
                              struct object *object)
{
    object->properties =
        arena_alloc_array(&c->arena, SCHEMA_PROPERTIES_MAX, sizeof(*object->properties));
    if (object->properties == NULL)
        return schema_no_memory(c);
    for (size_t i = 0; i < all->count; i++)
        TRY(add_names(c, object, &all->parts[i], "properties"));
    for (size_t i = 0; i < all->count; i++)
        TRY(add_names(c, object, &all->parts[i], "required"));
    object->named = object->count > 0;
    return ERR_OK;
}

/* ---- patterns of names ---- */

static enum err add_texts(struct schema_compiler *c, struct object *object,
                          const struct schema_part *part, yyjson_val *schema,
                          struct schema_texts texts)
{
    if (object->patterns_count == PATTERNS_MAX)
        return schema_refuse(c, texts.place, ERR_LIMIT, "more than %d patterns of names",
                             PATTERNS_MAX);
    object->texts[object->patterns_count] = texts;
    object->patterns[object->patterns_count++] = (struct pattern){part, schema, texts.place};
    return ERR_OK;
}

static enum err add_patterns(struct schema_compiler *c, struct object *object,
                             const struct schema_part *part)
{
    yyjson_val *val = yyjson_obj_get(part->val, "patternProperties"), *key, *item;
    struct schema_texts texts = {0};
    const struct schema_place *place;
    size_t i, max;

    if (val == NULL)
        return ERR_OK;
    TRY(schema_place(c, part->place, STR("patternProperties"), &place));
    if (!yyjson_is_obj(val))
        return schema_refuse(c, place, ERR_INVALID, "expected an object of schemas");
    yyjson_obj_foreach(val, i, max, key, item)
    {
        texts.pattern = json_get_text(key);
        TRY(schema_place(c, place, texts.pattern, &texts.place));
        TRY(add_texts(c, object, part, item, texts));
    }
    return ERR_OK;
}

static enum err list_names(struct schema_compiler *c, yyjson_val *list, struct schema_texts *texts)
{
    struct str *names = arena_alloc_array(&c->arena, yyjson_arr_size(list) + 1, sizeof(*names));
    size_t i, max;
    yyjson_val *item;

    if (names == NULL)
        return schema_no_memory(c);
    texts->names = names;
    yyjson_arr_foreach(list, i, max, item)
    {
        if (yyjson_is_str(item))
            names[texts->names_count++] = json_get_text(item);
    }
    return ERR_OK;
}

/* propertyNames: type, pattern, enum and lengths. */
static enum err add_name_rules(struct schema_compiler *c, struct object *object,
                               const struct schema_part *part)
{
    static const char *const taken[] = {"type",      "pattern", "enum",        "minLength",
                                        "maxLength", "title",   "description", "$comment"};
    yyjson_val *val = yyjson_obj_get(part->val, "propertyNames"), *key, *item;
    struct schema_part names = {.val = val};
    struct schema_texts texts = {0};
    struct schema_counts counts;
    size_t i, max;

    if (val == NULL || yyjson_is_true(val))
        return ERR_OK;
    TRY(schema_place(c, part->place, STR("propertyNames"), &names.place));
    yyjson_obj_foreach(val, i, max, key, item)
    {
        bool known = false;
        for (size_t k = 0; k < COUNT_OF(taken); k++)
            known |= yyjson_equals_str(key, taken[k]);
        if (!known)
            return schema_refuse(c, names.place, ERR_UNSUPPORTED,
                                 "only pattern, enum and lengths of names can be enforced");
    }
    if (!yyjson_is_obj(val))
        return schema_refuse(c, names.place, ERR_UNSUPPORTED, "expected a schema of names");
    texts.place = names.place;
    yyjson_val *pattern = yyjson_obj_get(val, "pattern"), *list = yyjson_obj_get(val, "enum");
    yyjson_val *type = yyjson_obj_get(val, "type");
    if ((type != NULL && !yyjson_equals_str(type, "string")) ||
        (pattern != NULL && !yyjson_is_str(pattern)) || (list != NULL && !yyjson_is_arr(list)))
        return schema_refuse(c, names.place, ERR_INVALID,
                             "names are strings: expected type string, a string as pattern, a list "
                             "as enum");
    texts.pattern = json_get_text(pattern);
    if (pattern != NULL)
        TRY(add_texts(c, object, part, NULL, texts));
    TRY(schema_get_counts(c, &(struct schema_all){&names, 1}, "minLength", "maxLength", &counts));
    if (counts.place != NULL) {
        const char *text =
            counts.max == SCHEMA_FOREVER
                ? arena_printf(&c->arena, "^[\\s\\S]{%u,}$", counts.min)
                : arena_printf(&c->arena, "^[\\s\\S]{%u,%u}$", counts.min, counts.max);
        if (text == NULL)
            return schema_no_memory(c);
        texts.pattern = str_from(text);
        TRY(add_texts(c, object, part, NULL, texts));
    }
    texts.pattern = STR_NONE;
    if (list == NULL)
        return ERR_OK;
    TRY(list_names(c, list, &texts));
    return add_texts(c, object, part, NULL, texts);
}

/* The automaton of all patterns, and of the declared names as the last label. */
static enum err compile_patterns(struct schema_compiler *c, const struct schema_all *all,
                                 struct object *object)
{
    for (size_t i = 0; i < all->count; i++) {
        TRY(add_patterns(c, object, &all->parts[i]));
        TRY(add_name_rules(c, object, &all->parts[i]));
    }
    if (object->patterns_count == 0 && object->named && !object->closed) {
        struct schema_texts any = {.pattern = STR("")};
        TRY(schema_place(c, all->parts[0].place, STR("additionalProperties"), &any.place));
        TRY(add_texts(c, object, &all->parts[0], NULL, any));
    }
    if (object->patterns_count == 0)
        return ERR_OK;
    struct str *names = arena_alloc_array(&c->arena, object->count + 1, sizeof(*names));
    if (names == NULL)
        return schema_no_memory(c);
    for (size_t i = 0; i < object->count; i++)
        names[i] = object->properties[i].name;
    object->texts[object->patterns_count] = (struct schema_texts){
        .place = object->patterns[0].place, .names = names, .names_count = object->count};
    return schema_dfa_create(c, object->texts, object->patterns_count + 1, &object->dfa);
}

/* ---- their values ---- */

/* Names that are alike: one that is declared, or all others that match the same patterns. */
struct names {
    const struct str *declared; /* NULL: others */
    uint32_t labels;
};

static bool matches(const struct names *names, size_t label)
{
    return (names->labels >> label) & 1;
}

/* Whether `part` says something about these names: properties, patterns or the rest. */
static bool evaluates(const struct object *object, const struct schema_part *part,
                      const struct names *names)
{
    yyjson_val *properties = yyjson_obj_get(part->val, "properties");
    bool said = names->declared &&
                yyjson_obj_getn(properties, names->declared->ptr, names->declared->len) != NULL;

    for (size_t i = 0; i < object->patterns_count && !said; i++)
        said = object->patterns[i].part == part && object->patterns[i].schema != NULL &&
               matches(names, i);
    return said || yyjson_obj_get(part->val, "additionalProperties") != NULL ||
           yyjson_is_true(yyjson_obj_get(part->val, "unevaluatedProperties"));
}

static bool is_inside(const struct schema_part *part, const struct schema_part *outer)
{
    for (const struct schema_chain *up = part->chain; up != NULL; up = up->up)
        if (up->val == outer->val)
            return true;
    return false;
}

/* unevaluatedProperties: false sees only what its own schema says, and schemas inside of it. */
static bool is_forbidden(const struct schema_all *all, const struct object *object,
                         const struct names *names)
{
    for (size_t i = 0; i < object->patterns_count; i++)
        if (object->patterns[i].schema == NULL && !matches(names, i))
            return true;
    for (size_t i = 0; i < all->count; i++) {
        const struct schema_part *outer = &all->parts[i];
        bool said = !yyjson_is_false(yyjson_obj_get(outer->val, "unevaluatedProperties"));
        for (size_t k = 0; k < all->count && !said; k++)
            said = is_inside(&all->parts[k], outer) && evaluates(object, &all->parts[k], names);
        if (!said)
            return true;
    }
    return false;
}

/* What one part requires of a property: `properties` and patterns, else `additionalProperties`,
 * else nothing. */
static enum err add_said(struct schema_compiler *c, const struct object *object,
                         const struct schema_part *part, const struct names *names,
                         struct schema_all *said)
{
    yyjson_val *properties = yyjson_obj_get(part->val, "properties");
    const struct str *name = names->declared;
    yyjson_val *val = name ? yyjson_obj_getn(properties, name->ptr, name->len) : NULL;
    const struct schema_place *place = part->place;
    size_t before = said->count;

    if (val != NULL) {
        TRY(schema_place(c, place, STR("properties"), &place));
        TRY(schema_place(c, place, *name, &place));
        said->parts[said->count++] = (struct schema_part){.val = val, .place = place};
    }
    for (size_t i = 0; i < object->patterns_count; i++) {
        const struct pattern *pattern = &object->patterns[i];
        if (pattern->part == part && pattern->schema != NULL && matches(names, i))
            said->parts[said->count++] =
                (struct schema_part){.val = pattern->schema, .place = pattern->place};
    }
    val = yyjson_obj_get(part->val, "additionalProperties");
    if (said->count > before || val == NULL)
        return ERR_OK;
    TRY(schema_place(c, part->place, STR("additionalProperties"), &place));
    said->parts[said->count++] = (struct schema_part){.val = val, .place = place};
    return ERR_OK;
}

/* The rule for a declared property, or for others. */
static enum err compile_value(struct schema_compiler *c, const struct schema_all *all,
                              const struct object *object, const struct names *names,
                              uint32_t *rule)
{
    struct schema_all said = {
        .parts =
            arena_alloc_array(&c->arena, all->count + object->patterns_count, sizeof(*said.parts))};

    if (said.parts == NULL)
        return schema_no_memory(c);
    *rule = SCHEMA_NEVER;
    if (is_forbidden(all, object, names))
        return ERR_OK;
    for (size_t i = 0; i < all->count; i++)
        TRY(add_said(c, object, &all->parts[i], names, &said));
    return schema_compile(c, &said, rule);
}

/* Drops unsatisfiable properties; *never if one of them is required. */
static enum err compile_values(struct schema_compiler *c, const struct schema_all *all,
                               struct object *object, bool *never)
{
    size_t kept = 0;

    *never = false;
    for (size_t i = 0; i < object->count; i++) {
        struct property property = object->properties[i];
        struct names names = {.declared = &property.name};
        if (object->dfa != NULL)
            names.labels = schema_dfa_labels(object->dfa, property.name);
        TRY(compile_value(c, all, object, &names, &property.rule));
        *never |= property.rule == SCHEMA_NEVER && property.required;
        if (property.rule != SCHEMA_NEVER)
            object->properties[kept++] = property;
    }
    object->count = kept;
    for (object->first_required = 0; object->first_required < kept; object->first_required++)
        if (object->properties[object->first_required].required)
            break;
    return ERR_OK;
}

/* ---- additional properties ---- */

/* `name: value`, and a quote before a name that has none. */
static enum err write_pair(struct schema_compiler *c, uint32_t name, uint32_t value, uint32_t *pair)
{
    TRY(schema_rule_begin(c, pair));
    if (name != SCHEMA_RULE_STRING)
        schema_put(c, "\"\\\"\"");
    schema_put_rule(c, name);
    schema_put(c, "\":\"");
    schema_put_space(c);
    schema_put_rule(c, value);
    return schema_rule_end(c);
}

/* Any name, if none is declared and there are no patterns. */
static enum err compile_any_name(struct schema_compiler *c, const struct schema_all *all,
                                 struct object *object)
{
    uint32_t value;

    TRY(compile_value(c, all, object, &(struct names){.declared = NULL}, &value));
    if (value == SCHEMA_RULE_VALUE)
        object->additional = SCHEMA_RULE_PAIR;
    else if (value != SCHEMA_NEVER)
        TRY(write_pair(c, SCHEMA_RULE_STRING, value, &object->additional));
    return ERR_OK;
}

/* Names that match the same patterns, and their value: a pair. SCHEMA_NEVER: there are none. */
static enum err compile_kind(struct schema_compiler *c, const struct schema_all *all,
                             struct object *object, uint32_t labels, uint32_t *pair)
{
    struct schema_wanted wanted = {.labels = labels, .max = SCHEMA_FOREVER, .name = true};
    struct names names = {.labels = labels};
    uint32_t name, value;
    bool matched = false;

    *pair = SCHEMA_NEVER;
    for (size_t i = 0; i < object->patterns_count; i++)
        matched |= object->patterns[i].schema != NULL && matches(&names, i);
    if (object->closed && !matched)
        return ERR_OK;
    TRY(compile_value(c, all, object, &names, &value));
    if (value == SCHEMA_NEVER)
        return ERR_OK;
    TRY(schema_dfa_write(object->dfa, &wanted, &name));
    return name != SCHEMA_NEVER ? write_pair(c, name, value, pair) : ERR_OK;
}

/* All names that are not declared, by the patterns that they match. */
static enum err compile_kinds(struct schema_compiler *c, const struct schema_all *all,
                              struct object *object)
{
    uint32_t kinds[KINDS_MAX], pairs[KINDS_MAX];
    size_t count = schema_dfa_kinds(object->dfa, kinds, KINDS_MAX), found = 0;

    if (count == KINDS_MAX)
        return schema_refuse(c, object->patterns[0].place, ERR_LIMIT,
                             "the patterns of names overlap in too many ways");
    for (size_t i = 0; i < count; i++) {
        if ((kinds[i] >> object->patterns_count) & 1)
            continue; /* declared */
        TRY(compile_kind(c, all, object, kinds[i], &pairs[found]));
        found += pairs[found] != SCHEMA_NEVER;
    }
    return schema_any_of(c, pairs, found, &object->additional);
}

/* Additional properties are allowed only if a part says so, or if no part names any. */
static enum err decide_additional(struct schema_compiler *c, const struct schema_all *all,
                                  struct object *object)
{
    bool named = false, said = false;

    for (size_t i = 0; i < all->count; i++) {
        const struct schema_part *part = &all->parts[i];
        yyjson_val *additional = yyjson_obj_get(part->val, "additionalProperties");
        yyjson_val *rest = yyjson_obj_get(part->val, "unevaluatedProperties");
        const struct schema_place *place;
        TRY(schema_place(c, part->place, STR("unevaluatedProperties"), &place));
        if (rest != NULL && !yyjson_is_bool(rest))
            return schema_refuse(c, place, ERR_UNSUPPORTED,
                                 "only true and false can be enforced; use additionalProperties");
        named |= yyjson_obj_get(part->val, "properties") != NULL ||
                 yyjson_obj_get(part->val, "patternProperties") != NULL || yyjson_is_false(rest);
        said |= additional != NULL;
        object->closed |= yyjson_is_false(additional);
    }
    object->closed |= named && !said;
    return ERR_OK;
}

/* ---- counts ---- */

static enum err check_counts(struct schema_compiler *c, const struct schema_all *all,
                             struct object *object)
{
    struct schema_counts counts;
    size_t required = 0;

    TRY(schema_get_counts(c, all, "minProperties", "maxProperties", &counts));
    object->min = counts.min;
    object->max = counts.max;
    if (object->count == 0)
        return ERR_OK;
    for (size_t i = 0; i < object->count; i++)
        required += object->properties[i].required;
    object->not_empty = counts.min == 1 && required == 0;
    if (counts.min > required && !object->not_empty)
        return schema_refuse(c, counts.place, ERR_UNSUPPORTED,
                             "more than 1 cannot be enforced; list properties in 'required'");
    if (counts.max != SCHEMA_FOREVER && (object->additional || object->count > counts.max))
        return schema_refuse(c, counts.place, ERR_UNSUPPORTED,
                             "maxProperties cannot be enforced; name at most as many in "
                             "'properties' and set additionalProperties to false");
    return ERR_OK;
}

/* ---- writing ---- */

static void put_pair(struct schema_compiler *c, const struct property *property)
{
    if (property->pair != 0) {
        schema_put_rule(c, property->pair);
        return;
    }
    schema_put_string(c, property->name);
    schema_put(c, "\":\"");
    schema_put_space(c);
    schema_put_rule(c, property->rule);
}

static void put_following(struct schema_compiler *c, const struct property *property)
{
    if (!property->required)
        schema_put(c, "(");
    schema_put_comma(c);
    put_pair(c, property);
    if (!property->required)
        schema_put(c, ")?");
}

/* Everything after the properties. It includes the brace, so that no rest can be empty: gbnf_check
 * does not follow a chain of 256 possibly empty rules. */
static void put_end(struct schema_compiler *c, const struct object *object)
{
    if (object->additional) {
        schema_put(c, "(");
        schema_put_comma(c);
        schema_put_rule(c, object->additional);
        schema_put(c, ")*");
    }
    schema_put_space(c);
    schema_put(c, "\"}\"");
}

static void put_rest(struct schema_compiler *c, const struct object *object, size_t from)
{
    if (from <= object->count && object->rests[from] != 0) {
        schema_put_rule(c, object->rests[from]);
        return;
    }
    for (size_t i = from; i < object->count; i++)
        put_following(c, &object->properties[i]);
    put_end(c, object);
}

/* The rules that the ways to begin share. */
static enum err compile_rests(struct schema_compiler *c, struct object *object)
{
    size_t last = MIN(object->first_required + 1, object->count);

    object->rests = arena_alloc_array(&c->arena, object->count + 1, sizeof(*object->rests));
    if (object->rests == NULL)
        return schema_no_memory(c);
    if (object->first_required == 0)
        return ERR_OK; /* only one way */
    for (size_t i = 0; i < last; i++) {
        uint32_t rule;
        TRY(schema_rule_begin(c, &rule));
        put_pair(c, &object->properties[i]);
        TRY(schema_rule_end(c));
        object->properties[i].pair = rule;
    }
    for (size_t i = last; i >= 1; i--) {
        uint32_t rule;
        TRY(schema_rule_begin(c, &rule));
        if (i < last)
            put_following(c, &object->properties[i]);
        put_rest(c, object, i < last ? i + 1 : i);
        TRY(schema_rule_end(c));
        object->rests[i] = rule;
    }
    return ERR_OK;
}

static enum err write_object(struct schema_compiler *c, const struct object *object, uint32_t *rule)
{
    size_t ways = 0;

    TRY(schema_rule_begin(c, rule));
    schema_put(c, "\"{\"");
    schema_put_space(c);
    schema_put(c, "(");
    for (; ways <= object->first_required && ways < object->count; ways++) {
        if (ways > 0)
            schema_put(c, "|");
        put_pair(c, &object->properties[ways]);
        put_rest(c, object, ways + 1);
    }
    if (object->first_required == object->count) {
        schema_put(c, object->additional || !object->not_empty ? "|" : "");
        if (object->additional) {
            schema_put_rule(c, object->additional);
            put_end(c, object);
            schema_put(c, object->not_empty ? "" : "|");
        }
        schema_put(c, object->not_empty ? "" : "\"}\"");
    }
    schema_put(c, ")");
    c->cells += (uint32_t)(ways * ways); /* each rest can begin with every later one */
    return schema_rule_end(c);
}

/* An object without declared properties, with `min` to `max` others. */
static enum err write_map(struct schema_compiler *c, const struct object *object, uint32_t *rule)
{
    uint32_t next, rest, min = object->min, max = object->additional ? object->max : 0;

    *rule = SCHEMA_NEVER;
    if (min > max)
        return ERR_OK;
    if (max > 1) {
        TRY(schema_rule_begin(c, &next));
        schema_put_comma(c);
        schema_put_rule(c, object->additional);
        TRY(schema_rule_end(c));
        TRY(schema_repeat(c, next, min > 0 ? min - 1 : 0, max == SCHEMA_FOREVER ? max : max - 1,
                          &rest));
    }
    TRY(schema_rule_begin(c, rule));
    schema_put(c, "\"{\"");
    schema_put_space(c);
    if (max > 0) {
        schema_put(c, min == 0 ? "(" : "");
        schema_put_rule(c, object->additional);
        if (max > 1)
            schema_put_rule(c, rest);
        schema_put_space(c);
        schema_put(c, min == 0 ? ")?" : "");
    }
    schema_put(c, "\"}\"");
    return schema_rule_end(c);
}

static enum err compile_object(struct schema_compiler *c, const struct schema_all *all,
                               struct object *object, uint32_t *rule)
{
    bool never;

    *rule = SCHEMA_NEVER;
    TRY(collect_names(c, all, object));
    TRY(decide_additional(c, all, object));
    TRY(compile_patterns(c, all, object));
    TRY(compile_values(c, all, object, &never));
    if (never)
        return ERR_OK;
    if (object->dfa != NULL)
        TRY(compile_kinds(c, all, object));
    else if (!object->closed)
        TRY(compile_any_name(c, all, object));
    TRY(check_counts(c, all, object));
    if (object->count == 0 && object->additional == SCHEMA_RULE_PAIR && object->min == 0 &&
        object->max == SCHEMA_FOREVER) {
        *rule = SCHEMA_RULE_OBJECT;
        return ERR_OK;
    }
    if (object->count == 0)
        return write_map(c, object, rule);
    TRY(compile_rests(c, object));
    return write_object(c, object, rule);
}

enum err schema_compile_object(struct schema_compiler *c, const struct schema_all *all,
                               uint32_t *rule)
{
    struct object *object = arena_alloc(&c->arena, sizeof(*object));

    if (object == NULL)
        return schema_no_memory(c);
    enum err err = compile_object(c, all, object, rule);
    schema_dfa_destroy(&object->dfa);
    return err;
}
