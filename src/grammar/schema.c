/*
 * schema.c: from a schema to the parts that must hold together, and from them to rules.
 *
 *      schema_compile(all of these)
 *        gather    follows $ref and allOf: the result is a flat list of parts and of unions
 *                  (anyOf, oneOf)
 *        walk      each combination of unions adds its branches to the parts: one leaf each
 *        leaf      parts without unions: which types remain, and for each the compiler of that
 *                  type. It calls schema_compile again for properties and items
 *
 * So schemas are never merged into a new one: a list of parts represents the merged schema, and
 * keywords are looked up in all of them. The same list is compiled once (memo). That also makes
 * recursive schemas finite: a list met again while it is being compiled becomes a reference to its
 * future rule.
 *
 *      I-a  a schema that leads to itself through $ref, allOf and anyOf alone is refused: it has no
 *           meaning
 *      I-b  every list holds each schema once, and only schemas with their own keywords, so there
 *           are finitely many lists
 */
#include "grammar/schema.h"

#include <assert.h>
#include <string.h>

#include "grammar/schema_impl.h"
#include "base/json_alc.h"

enum { PARTS_MAX = 32, UNIONS_MAX = 8, REF_BYTES_MAX = 1024 };

struct any_of {
    yyjson_val *branches;
    const struct schema_place *place;
    const struct schema_chain *chain;
};

/* Append-only, so that backtracking means truncating. */
struct gather {
    struct schema_part parts[PARTS_MAX];
    size_t parts_count;
    struct any_of unions[UNIONS_MAX];
    size_t unions_count;
    bool never; /* one of them is `false` */
};

struct alternatives {
    uint32_t rules[SCHEMA_ALTERNATIVES_MAX];
    size_t count, tried;
};

struct schema_memo {
    struct schema_memo *next;
    const void **key;
    size_t key_len;
    uint32_t rule;
    uint32_t promised; /* the rule number handed out while it was open; 0 = none */
    bool open;
};

/* ---- keywords ---- */

enum action { ACTION_IGNORE, ACTION_APPLY, ACTION_LINK, ACTION_REFUSE, ACTION_REFUSE_TRUE };

struct keyword {
    const char *name;
    enum action action;
    unsigned types; /* that it applies to */
    const char *hint;
};

static const struct keyword keywords[] = {
    {"type", ACTION_APPLY, 0, NULL},
    {"enum", ACTION_APPLY, 0, NULL},
    {"const", ACTION_APPLY, 0, NULL},
    {"properties", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"required", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"additionalProperties", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"unevaluatedProperties", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"minProperties", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"maxProperties", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"items", ACTION_APPLY, SCHEMA_TYPE_ARRAY, NULL},
    {"prefixItems", ACTION_APPLY, SCHEMA_TYPE_ARRAY, NULL},
    {"additionalItems", ACTION_APPLY, SCHEMA_TYPE_ARRAY, NULL},
    {"minItems", ACTION_APPLY, SCHEMA_TYPE_ARRAY, NULL},
    {"maxItems", ACTION_APPLY, SCHEMA_TYPE_ARRAY, NULL},
    {"minLength", ACTION_APPLY, SCHEMA_TYPE_STRING, NULL},
    {"maxLength", ACTION_APPLY, SCHEMA_TYPE_STRING, NULL},
    {"pattern", ACTION_APPLY, SCHEMA_TYPE_STRING, NULL},
    {"format", ACTION_APPLY, 0, NULL}, /* OpenAPI also uses it for numbers */
    {"minimum", ACTION_APPLY, SCHEMA_TYPE_NUMBER, NULL},
    {"maximum", ACTION_APPLY, SCHEMA_TYPE_NUMBER, NULL},
    {"exclusiveMinimum", ACTION_APPLY, SCHEMA_TYPE_NUMBER, NULL},
    {"exclusiveMaximum", ACTION_APPLY, SCHEMA_TYPE_NUMBER, NULL},
    {"multipleOf", ACTION_APPLY, SCHEMA_TYPE_NUMBER, NULL},
    {"$ref", ACTION_LINK, 0, NULL},
    {"allOf", ACTION_LINK, 0, NULL},
    {"anyOf", ACTION_LINK, 0, NULL},
    {"oneOf", ACTION_LINK, 0, NULL},
    {"patternProperties", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"propertyNames", ACTION_APPLY, SCHEMA_TYPE_OBJECT, NULL},
    {"dependentRequired", ACTION_REFUSE, 0, "use anyOf with 'required' in each branch"},
    {"dependentSchemas", ACTION_REFUSE, 0, "use anyOf"},
    {"dependencies", ACTION_REFUSE, 0, "use anyOf"},
    {"unevaluatedItems", ACTION_REFUSE, 0, "use 'items'"},
    {"contains", ACTION_REFUSE, 0, "use 'prefixItems', or check the answer yourself"},
    {"uniqueItems", ACTION_REFUSE_TRUE, 0, "leave it out and check the answer yourself"},
    {"not", ACTION_REFUSE, 0, "say what is allowed instead"},
    {"if", ACTION_REFUSE, 0, "use anyOf"},
    {"$dynamicRef", ACTION_REFUSE, 0, "use $ref"},
    {"$recursiveRef", ACTION_REFUSE, 0, "use $ref"},
};

static const struct keyword *find_keyword(yyjson_val *key)
{
    for (size_t i = 0; i < COUNT_OF(keywords); i++)
        if (yyjson_equals_str(key, keywords[i].name))
            return &keywords[i];
    return NULL;
}

static enum err check_keywords(struct schema_compiler *c, const struct schema_part *part,
                               bool *applies)
{
    const struct schema_place *place;
    size_t i, max;
    yyjson_val *key, *val;

    *applies = false;
    c->steps += (uint32_t)MIN(yyjson_obj_size(part->val) / 16, SCHEMA_STEPS_MAX);
    yyjson_obj_foreach(part->val, i, max, key, val)
    {
        const struct keyword *keyword = find_keyword(key);
        if (keyword == NULL || (keyword->action == ACTION_REFUSE_TRUE && !yyjson_is_true(val)))
            continue;
        if (keyword->action == ACTION_REFUSE || keyword->action == ACTION_REFUSE_TRUE) {
            TRY(schema_place(c, part->place, str_from(keyword->name), &place));
            return schema_refuse(c, place, ERR_UNSUPPORTED,
                                 "'%s' cannot be enforced while generating; %s", keyword->name,
                                 keyword->hint);
        }
        *applies |= keyword->action == ACTION_APPLY;
    }
    return ERR_OK;
}

/* ---- gather ---- */

static enum err add_schema(struct schema_compiler *c, struct gather *g, struct schema_part part,
                           const struct schema_chain *chain);

/* A reference is a URI fragment: %41 means A. */
static size_t decode_percent(struct str text, char out[REF_BYTES_MAX])
{
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++, len++) {
        int high = i + 2 < text.len && text.ptr[i] == '%' ? str_hex(text.ptr[i + 1]) : -1;
        int low = high >= 0 ? str_hex(text.ptr[i + 2]) : -1;
        out[len] = low >= 0 ? (char)(high * 16 + low) : text.ptr[i];
        if (low >= 0)
            i += 2;
    }
    return len;
}

static enum err resolve(struct schema_compiler *c, const struct schema_place *place,
                        yyjson_val *ref, struct schema_part *target)
{
    char pointer[REF_BYTES_MAX];
    struct str text = json_get_text(ref);

    if (!yyjson_is_str(ref))
        return schema_refuse(c, place, ERR_INVALID, "expected a string");
    if (text.len == 0 || text.ptr[0] != '#')
        return schema_refuse(c, place, ERR_UNSUPPORTED,
                             "only references within the schema are followed; copy its target "
                             "into $defs and refer to it as '#/$defs/NAME'");
    if (text.len > REF_BYTES_MAX)
        return schema_refuse(c, place, ERR_LIMIT, "the reference is too long");
    size_t len = decode_percent(str_skip(text, 1), pointer);
    if (len > 0 && pointer[0] != '/')
        return schema_refuse(c, place, ERR_UNSUPPORTED,
                             "anchors are not followed; refer to it as '#/$defs/NAME'");
    target->val = len == 0 ? c->root : yyjson_ptr_getn(c->root, pointer, len);
    if (target->val == NULL)
        return schema_refuse(c, place, ERR_INVALID, "the schema has no part '%.*s'",
                             (int)MIN(text.len, 100), text.ptr);
    return schema_place(c, NULL, text, &target->place);
}

static enum err add_all(struct schema_compiler *c, struct gather *g,
                        const struct schema_place *place, yyjson_val *list,
                        const struct schema_chain *chain)
{
    size_t i, max;
    yyjson_val *item;

    if (!yyjson_is_arr(list))
        return schema_refuse(c, place, ERR_INVALID, "expected an array of schemas");
    yyjson_arr_foreach(list, i, max, item)
    {
        struct schema_part part = {.val = item};
        TRY(schema_place_index(c, place, i, &part.place));
        TRY(add_schema(c, g, part, chain));
    }
    return ERR_OK;
}

static enum err add_union(struct schema_compiler *c, struct gather *g,
                          const struct schema_place *place, yyjson_val *list,
                          const struct schema_chain *chain)
{
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) == 0)
        return schema_refuse(c, place, ERR_INVALID, "expected an array with at least one schema");
    for (size_t i = 0; i < g->unions_count; i++)
        if (g->unions[i].branches == list)
            return ERR_OK;
    if (g->unions_count == UNIONS_MAX)
        return schema_refuse(c, place, ERR_LIMIT,
                             "more than %d anyOf hold for one value; merge some of them",
                             UNIONS_MAX);
    g->unions[g->unions_count++] = (struct any_of){list, place, chain};
    return ERR_OK;
}

static enum err add_links(struct schema_compiler *c, struct gather *g,
                          const struct schema_part *part, const struct schema_chain *chain)
{
    static const char *const names[] = {"$ref", "allOf", "anyOf", "oneOf"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        yyjson_val *val = yyjson_obj_get(part->val, names[i]);
        const struct schema_place *place;
        struct schema_part target;
        if (val == NULL)
            continue;
        TRY(schema_place(c, part->place, str_from(names[i]), &place));
        if (i == 0) {
            TRY(resolve(c, place, val, &target));
            TRY(add_schema(c, g, target, chain));
        } else if (i == 1) {
            TRY(add_all(c, g, place, val, chain));
        } else {
            TRY(add_union(c, g, place, val, chain));
        }
    }
    return ERR_OK;
}

static enum err add_part(struct schema_compiler *c, struct gather *g, struct schema_part part)
{
    for (size_t i = 0; i < g->parts_count; i++)
        if (g->parts[i].val == part.val)
            return ERR_OK;
    if (g->parts_count == PARTS_MAX)
        return schema_refuse(c, part.place, ERR_LIMIT,
                             "more than %d schemas hold for one value; merge some of them",
                             PARTS_MAX);
    g->parts[g->parts_count++] = part; /* keeps I-b */
    return ERR_OK;
}

static enum err add_schema(struct schema_compiler *c, struct gather *g, struct schema_part part,
                           const struct schema_chain *chain)
{
    bool applies;

    if (++c->steps > SCHEMA_STEPS_MAX)
        return schema_refuse(c, part.place, ERR_LIMIT,
                             "the schema leads to too many combinations; simplify its anyOf and "
                             "allOf");
    if (yyjson_is_bool(part.val)) {
        g->never |= yyjson_is_false(part.val);
        return ERR_OK;
    }
    if (!yyjson_is_obj(part.val))
        return schema_refuse(c, part.place, ERR_INVALID,
                             "expected a schema: an object or a boolean");
    unsigned depth = 0;
    for (const struct schema_chain *up = chain; up != NULL; up = up->up, depth++)
        if (up->val == part.val) /* keeps I-a */
            return schema_refuse(c, part.place, ERR_INVALID,
                                 "it refers to itself without an object or array in between");
    if (depth > SCHEMA_DEPTH_MAX)
        return schema_refuse(c, part.place, ERR_LIMIT, "schemas are nested deeper than %d",
                             SCHEMA_DEPTH_MAX);
    struct schema_chain *link = arena_alloc(&c->arena, sizeof(*link));
    if (link == NULL)
        return schema_no_memory(c);
    *link = (struct schema_chain){part.val, chain};
    part.chain = link;
    TRY(check_keywords(c, &part, &applies));
    if (applies)
        TRY(add_part(c, g, part));
    return add_links(c, g, &part, link);
}

/* ---- types ---- */

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", SCHEMA_TYPE_NULL},       {"boolean", SCHEMA_TYPE_BOOLEAN},
    {"integer", SCHEMA_TYPE_INTEGER}, {"number", SCHEMA_TYPE_NUMBER},
    {"string", SCHEMA_TYPE_STRING},   {"array", SCHEMA_TYPE_ARRAY},
    {"object", SCHEMA_TYPE_OBJECT},
};

static enum err type_of_name(struct schema_compiler *c, const struct schema_place *place,
                             yyjson_val *name, unsigned *types)
{
    for (size_t i = 0; i < COUNT_OF(type_names); i++) {
        if (yyjson_equals_str(name, type_names[i].name)) {
            *types |= type_names[i].types;
            return ERR_OK;
        }
    }
    return schema_refuse(c, place, ERR_INVALID,
                         "expected null, boolean, integer, number, string, array or object");
}

static enum err types_of_part(struct schema_compiler *c, const struct schema_part *part,
                              yyjson_val *type, unsigned *types)
{
    const struct schema_place *place;
    size_t i, max;
    yyjson_val *name;

    *types = 0;
    TRY(schema_place(c, part->place, STR("type"), &place));
    if (!yyjson_is_arr(type))
        return type_of_name(c, place, type, types);
    yyjson_arr_foreach(type, i, max, name) TRY(type_of_name(c, place, name, types));
    return ERR_OK;
}

/* The types that the keywords of a part apply to, used if no type is given. */
static unsigned types_implied(const struct schema_part *part)
{
    unsigned types = 0;
    size_t i, max;
    yyjson_val *key, *val;

    yyjson_obj_foreach(part->val, i, max, key, val)
    {
        const struct keyword *keyword = find_keyword(key);
        if (keyword != NULL && keyword->action == ACTION_APPLY)
            types |= keyword->types;
        if (yyjson_equals_str(key, "format") && schema_enforces_format(json_get_text(val)))
            types |= SCHEMA_TYPE_STRING;
    }
    return types;
}

/* *any_value: any type is allowed, and no keyword constrains any of them. */
static enum err types_of(struct schema_compiler *c, const struct schema_all *all, unsigned *types,
                         bool *any_value)
{
    unsigned implied = 0;
    bool said = false;

    *types = SCHEMA_TYPE_ANY;
    for (size_t i = 0; i < all->count; i++) {
        yyjson_val *type = yyjson_obj_get(all->parts[i].val, "type");
        unsigned here;
        implied |= types_implied(&all->parts[i]);
        if (type == NULL)
            continue;
        TRY(types_of_part(c, &all->parts[i], type, &here));
        *types &= here;
        said = true;
    }
    if (!said && implied != 0)
        *types = implied;
    *any_value = *types == SCHEMA_TYPE_ANY && implied == 0;
    return ERR_OK;
}

/* ---- leaves ---- */

static enum err compile_type(struct schema_compiler *c, const struct schema_all *all, unsigned type,
                             uint32_t *rule)
{
    switch (type) {
    case SCHEMA_TYPE_OBJECT:
        return schema_compile_object(c, all, rule);
    case SCHEMA_TYPE_ARRAY:
        return schema_compile_array(c, all, rule);
    case SCHEMA_TYPE_STRING:
        return schema_compile_string(c, all, rule);
    case SCHEMA_TYPE_NUMBER:
    case SCHEMA_TYPE_INTEGER:
        return schema_compile_number(c, all, type == SCHEMA_TYPE_INTEGER, rule);
    case SCHEMA_TYPE_BOOLEAN:
        *rule = SCHEMA_RULE_BOOLEAN;
        return ERR_OK;
    default:
        assert(type == SCHEMA_TYPE_NULL);
        *rule = SCHEMA_RULE_NULL;
        return ERR_OK;
    }
}

static bool has_enum(const struct schema_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (yyjson_obj_get(all->parts[i].val, "enum") || yyjson_obj_get(all->parts[i].val, "const"))
            return true;
    return false;
}

static enum err compile_leaf(struct schema_compiler *c, const struct schema_all *all,
                             uint32_t *rule)
{
    static const unsigned order[] = {SCHEMA_TYPE_OBJECT, SCHEMA_TYPE_ARRAY,   SCHEMA_TYPE_STRING,
                                     SCHEMA_TYPE_NUMBER, SCHEMA_TYPE_BOOLEAN, SCHEMA_TYPE_NULL};
    uint32_t rules[COUNT_OF(order)];
    size_t count = 0;
    unsigned types;
    bool any_value;

    TRY(types_of(c, all, &types, &any_value));
    if (has_enum(all))
        return schema_compile_enum(c, all, types, rule);
    if (any_value) {
        *rule = SCHEMA_RULE_VALUE;
        return ERR_OK;
    }
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        unsigned type = order[i] & types;
        if (type == SCHEMA_TYPE_FRACTION) /* "number" always includes "integer" */
            continue;
        if (type != 0)
            TRY(compile_type(c, all, type, &rules[count]));
        count += type != 0 && rules[count] != SCHEMA_NEVER;
    }
    return schema_any_of(c, rules, count, rule);
}

/* ---- memo ---- */

static struct schema_memo **memo_chain(struct schema_compiler *c, const void *const *key,
                                       size_t len)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uintptr_t)key[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return &c->memos[(hash >> 40) % SCHEMA_MEMO_CHAINS];
}

/* The memo of this list; *found: it already existed. */
static enum err memo_get(struct schema_compiler *c, const struct gather *g,
                         struct schema_memo **memo, bool *found)
{
    const void *key[PARTS_MAX + UNIONS_MAX];
    size_t len = 0;

    for (size_t i = 0; i < g->parts_count; i++)
        key[len++] = g->parts[i].val;
    for (size_t i = 0; i < g->unions_count; i++)
        key[len++] = g->unions[i].branches;
    struct schema_memo **chain = memo_chain(c, key, len);
    for (*memo = *chain; *memo != NULL; *memo = (*memo)->next) {
        *found = true;
        if ((*memo)->key_len == len && memcmp((*memo)->key, key, len * sizeof(key[0])) == 0)
            return ERR_OK;
    }
    *found = false;
    *memo = arena_alloc(&c->arena, sizeof(**memo));
    const void **copy = arena_alloc_array(&c->arena, len, sizeof(key[0]));
    if (*memo == NULL || copy == NULL)
        return schema_no_memory(c);
    memcpy(copy, key, len * sizeof(key[0]));
    **memo = (struct schema_memo){.next = *chain, .key = copy, .key_len = len, .open = true};
    *chain = *memo;
    return ERR_OK;
}

static enum err memo_use(struct schema_compiler *c, struct schema_memo *memo, uint32_t *rule)
{
    if (memo->open && memo->promised == 0)
        TRY(schema_rule_reserve(c, &memo->promised));
    *rule = memo->open ? memo->promised : memo->rule;
    return ERR_OK;
}

static enum err memo_close(struct schema_compiler *c, struct schema_memo *memo,
                           const struct schema_place *place, uint32_t rule)
{
    memo->open = false;
    memo->rule = rule;
    if (memo->promised == 0)
        return ERR_OK;
    if (rule == SCHEMA_NEVER)
        return schema_refuse(c, place, ERR_INVALID, "nothing can satisfy this schema");
    memo->rule = memo->promised;
    schema_rule_open(c, memo->promised);
    schema_put_rule(c, rule);
    return schema_rule_end(c);
}

/* ---- unions ---- */

static enum err compile_gathered(struct schema_compiler *c, struct gather *g,
                                 const struct schema_place *place, uint32_t *rule);

static enum err add_alternative(struct schema_compiler *c, struct gather *g,
                                const struct schema_place *place, struct alternatives *found)
{
    struct gather leaf = *g;
    uint32_t rule;

    leaf.unions_count = 0;
    if (++found->tried > SCHEMA_ALTERNATIVES_MAX)
        return schema_refuse(c, place, ERR_LIMIT, "more than %d combinations of anyOf branches",
                             SCHEMA_ALTERNATIVES_MAX);
    TRY(compile_gathered(c, &leaf, place, &rule));
    for (size_t i = 0; i < found->count; i++)
        if (found->rules[i] == rule)
            return ERR_OK;
    if (rule != SCHEMA_NEVER)
        found->rules[found->count++] = rule;
    return ERR_OK;
}

static enum err walk_unions(struct schema_compiler *c, struct gather *g, size_t at,
                            const struct schema_place *place, struct alternatives *found)
{
    size_t i, max, parts_count = g->parts_count, unions_count = g->unions_count;
    yyjson_val *branch;

    if (at == g->unions_count)
        return add_alternative(c, g, place, found);
    struct any_of any_of = g->unions[at];
    yyjson_arr_foreach(any_of.branches, i, max, branch)
    {
        struct schema_part part = {.val = branch};
        TRY(schema_place_index(c, any_of.place, i, &part.place));
        TRY(add_schema(c, g, part, any_of.chain));
        if (!g->never)
            TRY(walk_unions(c, g, at + 1, place, found));
        g->parts_count = parts_count;
        g->unions_count = unions_count;
        g->never = false;
    }
    return ERR_OK;
}

static enum err compile_unions(struct schema_compiler *c, struct gather *g,
                               const struct schema_place *place, uint32_t *rule)
{
    struct alternatives *found = arena_alloc(&c->arena, sizeof(*found));

    if (found == NULL)
        return schema_no_memory(c);
    TRY(walk_unions(c, g, 0, place, found));
    return schema_any_of(c, found->rules, found->count, rule);
}

static enum err compile_gathered(struct schema_compiler *c, struct gather *g,
                                 const struct schema_place *place, uint32_t *rule)
{
    struct schema_memo *memo;
    bool found;

    if (g->parts_count == 0 && g->unions_count == 0) {
        *rule = SCHEMA_RULE_VALUE;
        return ERR_OK;
    }
    TRY(memo_get(c, g, &memo, &found));
    if (found)
        return memo_use(c, memo, rule);
    if (g->unions_count > 0)
        TRY(compile_unions(c, g, place, rule));
    else
        TRY(compile_leaf(c, &(struct schema_all){g->parts, g->parts_count}, rule));
    TRY(memo_close(c, memo, place, *rule));
    *rule = memo->rule;
    return ERR_OK;
}

enum err schema_compile(struct schema_compiler *c, const struct schema_all *all, uint32_t *rule)
{
    struct gather g = {.parts_count = 0};

    if (all->count == 0) {
        *rule = SCHEMA_RULE_VALUE;
        return ERR_OK;
    }
    const struct schema_place *place = all->parts[0].place;
    if (c->depth == SCHEMA_DEPTH_MAX)
        return schema_refuse(c, place, ERR_LIMIT, "schemas are nested deeper than %d",
                             SCHEMA_DEPTH_MAX);
    for (size_t i = 0; i < all->count; i++)
        TRY(add_schema(c, &g, all->parts[i], NULL));
    if (g.never) {
        *rule = SCHEMA_NEVER;
        return ERR_OK;
    }
    c->depth++;
    TRY(compile_gathered(c, &g, place, rule));
    c->depth--;
    return ERR_OK;
}

/* ---- the whole ---- */

static enum err write_root(struct schema_compiler *c, uint32_t rule)
{
    buf_appendf(c->out, "%s ::= ", c->options.root);
    c->writing = true;
    schema_put_rule(c, rule);
    TRY(schema_rule_end(c));
    return schema_write_shared(c);
}

static enum err write_schema(struct schema_compiler *c)
{
    struct schema_part part = {.val = c->schema};
    uint32_t rule;

    TRY(schema_place(c, NULL, STR_NONE, &part.place));
    TRY(schema_compile(c, &(struct schema_all){&part, 1}, &rule));
    if (rule == SCHEMA_NEVER)
        return schema_refuse(c, part.place, ERR_INVALID, "nothing can satisfy this schema");
    return write_root(c, rule);
}

static enum err write_regex(struct schema_compiler *c, struct str pattern)
{
    struct schema_texts texts = {.pattern = pattern};
    uint32_t rule;

    c->plain = true;
    TRY(schema_place(c, NULL, STR("regex"), &texts.place));
    TRY(schema_compile_regex(c, &texts, 1, 0, SCHEMA_FOREVER, &rule));
    if (rule == SCHEMA_NEVER)
        return schema_refuse(c, texts.place, ERR_INVALID, "no text matches it");
    return write_root(c, rule);
}

/* A schema, or a pattern, or any object if both are missing. */
static enum err write_gbnf(yyjson_val *schema, struct str pattern,
                           const struct schema_options *options, struct buf *out,
                           struct errinfo *info)
{
    struct schema_compiler c = {.schema = schema, .root = schema, .info = info};
    struct buf text;

    if (options != NULL)
        c.options = *options;
    if (c.options.document != NULL)
        c.root = (yyjson_val *)(uintptr_t)c.options.document;
    c.options.root = c.options.root ? c.options.root : "root";
    c.options.prefix = c.options.prefix ? c.options.prefix : "";
    c.work = c.options.work ? c.options.work : &c.own_work;
    buf_init(&text, SCHEMA_BYTES_MAX);
    arena_init(&c.arena, SCHEMA_ARENA_BYTES_MAX);
    c.out = &text;
    enum err err = schema                ? write_schema(&c)
                   : pattern.ptr != NULL ? write_regex(&c, pattern)
                                         : write_root(&c, SCHEMA_RULE_OBJECT);
    if (err == ERR_OK && buf_append(out, text.data, text.len) != ERR_OK)
        err = err_set(info, out->err, "schema: no room for its grammar of %zu bytes", text.len);
    arena_fini(&c.arena);
    buf_fini(&text);
    return err;
}

enum err schema_write_gbnf(const struct yyjson_val *schema, const struct schema_options *options,
                           struct buf *out, struct errinfo *info)
{
    assert(schema != NULL);
    /* yyjson's getters take non-const values; nothing here changes one. */
    return write_gbnf((yyjson_val *)(uintptr_t)schema, STR_NONE, options, out, info);
}

enum err schema_write_regex(struct str pattern, const struct schema_options *options,
                            struct buf *out, struct errinfo *info)
{
    return write_gbnf(NULL, pattern, options, out, info);
}

enum err schema_write_any_object(const struct schema_options *options, struct buf *out,
                                 struct errinfo *info)
{
    return write_gbnf(NULL, STR_NONE, options, out, info);
}
