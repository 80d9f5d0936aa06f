/*
 * schema_array.c: arrays: places with their own schemas (prefixItems), then any number of equal
 * items (items).
 *
 *      array ::= "[" ( e0 tail1 | "]" )         "]" at once only without minItems
 *      tail1 ::= "," e1 tail2 | "]"             one rule per place; "]" from minItems on
 *      tail2 ::= ( "," item ){0,n} "]"          the items after the places
 */
#include "grammar/schema_impl.h"

enum { PLACES_MAX = 256 };

struct array {
    struct schema_counts counts;
    size_t places;   /* number of places with their own schema */
    uint32_t *rules; /* of the places */
    uint32_t item;   /* rule of the items after the places; SCHEMA_NEVER = none allowed */
    bool closed;     /* no part describes items after the places */
};

/* prefixItems, or the older form: items as a list, followed by additionalItems. */
static yyjson_val *get_prefix(yyjson_val *val, const char **name)
{
    yyjson_val *prefix = yyjson_obj_get(val, "prefixItems"), *items = yyjson_obj_get(val, "items");

    *name = prefix ? "prefixItems" : "items";
    return prefix ? prefix : yyjson_is_arr(items) ? items : NULL;
}

static yyjson_val *get_items(yyjson_val *val, const char **name)
{
    yyjson_val *items = yyjson_obj_get(val, "items");

    *name = yyjson_is_arr(items) ? "additionalItems" : "items";
    return yyjson_is_arr(items) ? yyjson_obj_get(val, "additionalItems") : items;
}

static enum err measure(struct schema_compiler *c, const struct schema_all *all,
                        struct array *array)
{
    bool said = false;

    TRY(schema_get_counts(c, all, "minItems", "maxItems", &array->counts));
    for (size_t i = 0; i < all->count; i++) {
        const struct schema_part *part = &all->parts[i];
        const struct schema_place *place;
        const char *name;
        said |= get_items(part->val, &name) != NULL;
        yyjson_val *prefix = get_prefix(part->val, &name);
        if (prefix == NULL)
            continue;
        TRY(schema_place(c, part->place, str_from(name), &place));
        if (!yyjson_is_arr(prefix))
            return schema_refuse(c, place, ERR_INVALID, "expected an array of schemas");
        if (yyjson_arr_size(prefix) > PLACES_MAX)
            return schema_refuse(c, place, ERR_LIMIT, "more than %d places; use 'items'",
                                 PLACES_MAX);
        array->places = MAX(array->places, yyjson_arr_size(prefix));
    }
    array->closed = array->places > 0 && !said && array->counts.min <= array->places;
    return ERR_OK;
}

/* The rule for one place, or for all items after them. */
static enum err compile_place(struct schema_compiler *c, const struct schema_all *all, size_t index,
                              uint32_t *rule)
{
    struct schema_all said = {.parts =
                                  arena_alloc_array(&c->arena, all->count, sizeof(*said.parts))};

    if (said.parts == NULL)
        return schema_no_memory(c);
    for (size_t i = 0; i < all->count; i++) {
        const struct schema_place *place = all->parts[i].place;
        const char *name, *prefix_name;
        yyjson_val *val = yyjson_arr_get(get_prefix(all->parts[i].val, &prefix_name), index);
        bool own = val != NULL;
        if (!own)
            val = get_items(all->parts[i].val, &name);
        if (val == NULL)
            continue;
        TRY(schema_place(c, place, str_from(own ? prefix_name : name), &place));
        if (own)
            TRY(schema_place_index(c, place, index, &place));
        said.parts[said.count++] = (struct schema_part){.val = val, .place = place};
    }
    return schema_compile(c, &said, rule);
}

/* A place that nothing can satisfy ends the array before it. */
static enum err compile_places(struct schema_compiler *c, const struct schema_all *all,
                               struct array *array)
{
    array->places = MIN(array->places, array->counts.max);
    array->rules = arena_alloc_array(&c->arena, array->places, sizeof(*array->rules));
    if (array->rules == NULL)
        return schema_no_memory(c);
    for (size_t i = 0; i < array->places; i++) {
        TRY(compile_place(c, all, i, &array->rules[i]));
        if (array->rules[i] == SCHEMA_NEVER) {
            array->places = i;
            array->counts.max = (uint32_t)i;
        }
    }
    if (array->counts.max > array->places && !array->closed)
        TRY(compile_place(c, all, PLACES_MAX, &array->item));
    if (array->item == SCHEMA_NEVER)
        array->counts.max = MIN(array->counts.max, (uint32_t)array->places);
    return ERR_OK;
}

/* The rest after `done` elements, all places among them: more items and the end. */
static enum err compile_items(struct schema_compiler *c, const struct array *array, uint32_t done,
                              uint32_t *tail)
{
    uint32_t pair, more = SCHEMA_NEVER, min = array->counts.min, max = array->counts.max;

    if (max > done) {
        TRY(schema_rule_begin(c, &pair));
        schema_put_comma(c);
        schema_put_rule(c, array->item);
        TRY(schema_rule_end(c));
        TRY(schema_repeat(c, pair, min > done ? min - done : 0,
                          max == SCHEMA_FOREVER ? max : max - done, &more));
    }
    TRY(schema_rule_begin(c, tail));
    if (more != SCHEMA_NEVER)
        schema_put_rule(c, more);
    schema_put_space(c);
    schema_put(c, "\"]\"");
    return schema_rule_end(c);
}

/* From the last place to the second: the rest after the places before it. Each tail includes the
 * bracket, so that none can be empty: gbnf_check does not follow long chains of those. */
static enum err compile_tail(struct schema_compiler *c, const struct array *array, uint32_t *tail)
{
    TRY(compile_items(c, array, (uint32_t)MAX(array->places, 1), tail));
    for (size_t i = array->places; i-- > 1;) {
        uint32_t rule;
        TRY(schema_rule_begin(c, &rule));
        schema_put_comma(c);
        schema_put_rule(c, array->rules[i]);
        schema_put_rule(c, *tail);
        if (i >= array->counts.min) {
            schema_put(c, "|");
            schema_put_space(c);
            schema_put(c, "\"]\"");
        }
        TRY(schema_rule_end(c));
        *tail = rule;
    }
    return ERR_OK;
}

static enum err write_array(struct schema_compiler *c, const struct array *array, uint32_t *rule)
{
    uint32_t tail = SCHEMA_NEVER;

    if (array->counts.max > 0)
        TRY(compile_tail(c, array, &tail));
    TRY(schema_rule_begin(c, rule));
    schema_put(c, "\"[\"");
    schema_put_space(c);
    schema_put(c, "(");
    if (array->counts.max > 0) {
        schema_put_rule(c, array->places > 0 ? array->rules[0] : array->item);
        schema_put_rule(c, tail);
    }
    if (array->counts.min == 0)
        schema_put(c, array->counts.max > 0 ? "| \"]\"" : "\"]\"");
    schema_put(c, ")");
    return schema_rule_end(c);
}

enum err schema_compile_array(struct schema_compiler *c, const struct schema_all *all,
                              uint32_t *rule)
{
    struct array array = {.places = 0};

    TRY(measure(c, all, &array));
    TRY(compile_places(c, all, &array));
    if (array.counts.min > array.counts.max) {
        *rule = SCHEMA_NEVER;
        return ERR_OK;
    }
    if (array.places == 0 && array.counts.min == 0 && array.counts.max == SCHEMA_FOREVER &&
        array.item == SCHEMA_RULE_VALUE) {
        *rule = SCHEMA_RULE_ARRAY;
        return ERR_OK;
    }
    return write_array(c, &array, rule);
}
