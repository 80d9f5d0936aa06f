/*
 * neutral_tools.c: tools and their schemas in a fixed order.
 *
 * Some clients keep tools and schemas in hash maps, and send them in another order each time. The
 * order here depends on the request alone, so it is the same after a restart and on every machine.
 *
 *      tools            by name
 *      keywords         by the table below, then by name: {"type": ..., "description": ...}
 *      required         a set: by name
 *      $defs            by name
 *      properties       as the client sent them; with parameter-order by name
 *
 * Models write arguments in the order in which a schema lists them, and that can matter: old text
 * before new text, thoughts before a verdict. So parameters are sorted only on request. Nothing
 * else moves: enum, examples, default, const, anyOf, oneOf, allOf, prefixItems, unknown keywords'
 * values. Formats of answers are not sorted at all.
 */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/json_write.h"
#include "chat/conversation.h"
#include "chat/neutral.h"

enum { SCHEMA_BYTES_MAX = 64 << 20 };

/* What the value of a keyword is. */
enum place {
    PLACE_VALUE,   /* copied as it is */
    PLACE_SCHEMA,  /* a schema, or a list of them, in order */
    PLACE_NAMED,   /* parameters: names with schemas */
    PLACE_DEFINED, /* definitions: likewise, but their order means nothing */
    PLACE_SET,     /* names without an order */
};

/* In the order in which most clients write them. */
static const struct {
    const char *name;
    enum place place;
} keywords[] = {
    {"$schema", PLACE_VALUE},
    {"$id", PLACE_VALUE},
    {"$ref", PLACE_VALUE},
    {"type", PLACE_VALUE},
    {"title", PLACE_VALUE},
    {"description", PLACE_VALUE},
    {"format", PLACE_VALUE},
    {"pattern", PLACE_VALUE},
    {"enum", PLACE_VALUE},
    {"const", PLACE_VALUE},
    {"default", PLACE_VALUE},
    {"examples", PLACE_VALUE},
    {"minimum", PLACE_VALUE},
    {"maximum", PLACE_VALUE},
    {"exclusiveMinimum", PLACE_VALUE},
    {"exclusiveMaximum", PLACE_VALUE},
    {"minLength", PLACE_VALUE},
    {"maxLength", PLACE_VALUE},
    {"items", PLACE_SCHEMA},
    {"prefixItems", PLACE_SCHEMA},
    {"additionalItems", PLACE_SCHEMA},
    {"contains", PLACE_SCHEMA},
    {"minItems", PLACE_VALUE},
    {"maxItems", PLACE_VALUE},
    {"anyOf", PLACE_SCHEMA},
    {"oneOf", PLACE_SCHEMA},
    {"allOf", PLACE_SCHEMA},
    {"not", PLACE_SCHEMA},
    {"if", PLACE_SCHEMA},
    {"then", PLACE_SCHEMA},
    {"else", PLACE_SCHEMA},
    {"properties", PLACE_NAMED},
    {"patternProperties", PLACE_NAMED},
    {"propertyNames", PLACE_SCHEMA},
    {"dependentSchemas", PLACE_DEFINED},
    {"required", PLACE_SET},
    {"additionalProperties", PLACE_SCHEMA},
    {"unevaluatedProperties", PLACE_SCHEMA},
    {"unevaluatedItems", PLACE_SCHEMA},
    {"$defs", PLACE_DEFINED},
    {"definitions", PLACE_DEFINED},
};

/* ---- sorting ---- */

struct named {
    size_t rank; /* compared first */
    struct str name;
    size_t index; /* before sorting: keeps equal names in order */
    enum place place;
    yyjson_val *key, *value;
};

static int compare(const void *a, const void *b)
{
    const struct named *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    int order = str_compare(x->name, y->name);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* True if the order changed. */
static bool sort(struct named *items, size_t count)
{
    bool changed = false;

    if (count > 0)
        qsort(items, count, sizeof(*items), compare);
    for (size_t i = 0; i < count && !changed; i++)
        changed = items[i].index != i;
    return changed;
}

/* ---- one schema ---- */

struct writer {
    struct arena *arena;
    struct json json;
    bool keys, parameters; /* the rules that are on */
    bool keys_moved, parameters_moved;
};

static void write_place(struct writer *writer, yyjson_val *value, enum place place);

static void find_keyword(struct named *item)
{
    item->rank = COUNT_OF(keywords);
    for (size_t i = 0; i < COUNT_OF(keywords); i++)
        if (str_eq(item->name, str_from(keywords[i].name))) {
            item->rank = i;
            item->place = keywords[i].place;
        }
}

/* The members of an object, which is a schema or (`place`) maps names to schemas. NULL: no
 * memory. */
static struct named *members_of(struct writer *writer, yyjson_val *object, enum place place)
{
    struct named *items =
        arena_alloc_array(writer->arena, yyjson_obj_size(object) + 1, sizeof(*items));
    yyjson_val *key, *value;
    size_t i, count;

    if (items == NULL)
        return NULL;
    yyjson_obj_foreach(object, i, count, key, value)
    {
        items[i] = (struct named){.name = json_get_text(key),
                                  .index = i,
                                  .place = place == PLACE_SCHEMA ? PLACE_VALUE : PLACE_SCHEMA,
                                  .key = key,
                                  .value = value};
        if (place == PLACE_SCHEMA)
            find_keyword(&items[i]);
    }
    return items;
}

static void write_members(struct writer *writer, yyjson_val *object, enum place place)
{
    struct arena_mark mark = arena_mark(writer->arena);
    struct named *items = members_of(writer, object, place);
    size_t count = items != NULL ? yyjson_obj_size(object) : 0;

    if (place == PLACE_NAMED ? writer->parameters : writer->keys) {
        bool *moved = place == PLACE_NAMED ? &writer->parameters_moved : &writer->keys_moved;
        *moved |= sort(items, count);
    }
    json_open(&writer->json, '{');
    for (size_t i = 0; i < count; i++) {
        json_value(&writer->json, items[i].key);
        buf_append_char(writer->json.out, ':');
        writer->json.comma = false;
        write_place(writer, items[i].value, items[i].place);
    }
    json_close(&writer->json, '}');
    arena_release(writer->arena, mark);
}

static void write_set(struct writer *writer, yyjson_val *array)
{
    struct arena_mark mark = arena_mark(writer->arena);
    size_t i, count = yyjson_arr_size(array);
    struct named *items = arena_alloc_array(writer->arena, count + 1, sizeof(*items));
    yyjson_val *value;

    if (items == NULL)
        return;
    yyjson_arr_foreach(array, i, count, value) items[i] =
        (struct named){.name = json_get_text(value), .index = i, .value = value};
    if (writer->keys)
        writer->keys_moved |= sort(items, count);
    json_open(&writer->json, '[');
    for (i = 0; i < count; i++)
        json_value(&writer->json, items[i].value);
    json_close(&writer->json, ']');
    arena_release(writer->arena, mark);
}

static void write_place(struct writer *writer, yyjson_val *value, enum place place)
{
    yyjson_val *each;
    size_t i, count;

    if (place == PLACE_SET && yyjson_is_arr(value)) {
        write_set(writer, value);
    } else if (place == PLACE_SCHEMA && yyjson_is_arr(value)) {
        json_open(&writer->json, '[');
        yyjson_arr_foreach(value, i, count, each) write_place(writer, each, PLACE_SCHEMA);
        json_close(&writer->json, ']');
    } else if (place != PLACE_VALUE && place != PLACE_SET && yyjson_is_obj(value)) {
        write_members(writer, value, place);
    } else {
        json_value(&writer->json, value);
    }
}

/* ---- the tools ---- */

static enum err order_schema(struct neutral *neutral, struct conversation *talk, struct tool *tool,
                             struct neutral_tally *tally)
{
    struct buf buf;
    struct writer writer = {.arena = talk->arena,
                            .json = json_to(&buf),
                            .keys = neutral_is_on(neutral, NEUTRAL_SCHEMA_KEYS),
                            .parameters = neutral_is_on(neutral, NEUTRAL_PARAMETER_ORDER)};

    if (tool->schema == NULL || !(writer.keys || writer.parameters))
        return ERR_OK;
    buf_init(&buf, SCHEMA_BYTES_MAX);
    write_place(&writer, tool->schema, PLACE_SCHEMA);
    enum err err = buf.err != ERR_OK ? buf.err : talk->arena->err;
    if (err == ERR_OK && (writer.keys_moved || writer.parameters_moved))
        err = conversation_constant(talk, buf_text(&buf), &tool->schema);
    buf_fini(&buf);
    neutral_count(neutral, tally, NEUTRAL_SCHEMA_KEYS, writer.keys_moved);
    neutral_count(neutral, tally, NEUTRAL_PARAMETER_ORDER, writer.parameters_moved);
    return err;
}

static enum err order_tools(struct neutral *neutral, struct conversation *talk,
                            struct neutral_tally *tally)
{
    size_t count = talk->tools_shown;
    struct named *items = arena_alloc_array(talk->arena, count + 1, sizeof(*items));
    struct tool *tools = arena_alloc_array(talk->arena, count + 1, sizeof(*tools));

    if (items == NULL || tools == NULL)
        return talk->arena->err;
    for (size_t i = 0; i < count; i++)
        items[i] = (struct named){.name = talk->tools[i].name, .index = i};
    if (!sort(items, count))
        return ERR_OK;
    for (size_t i = 0; i < count; i++)
        tools[i] = talk->tools[items[i].index];
    memcpy(talk->tools, tools, count * sizeof(*tools));
    neutral_count(neutral, tally, NEUTRAL_TOOL_ORDER, 1);
    return ERR_OK;
}

enum err neutral_tools(struct neutral *neutral, struct conversation *talk,
                       struct neutral_tally *tally)
{
    if (neutral_is_on(neutral, NEUTRAL_TOOL_ORDER))
        TRY(order_tools(neutral, talk, tally));
    for (size_t i = 0; i < talk->tools_shown; i++)
        TRY(order_schema(neutral, talk, &talk->tools[i], tally));
    return ERR_OK;
}
