/*
 * toolcall_value.c: the JSON type of a parameter according to the tool's schema, and plain text as
 * a value of that type.
 *
 * These parts of a schema are read: top-level properties, their type (also a list of types), enum,
 * const, anyOf, oneOf, and $ref into the same schema, up to a depth and a number of steps
 * (alternatives multiply). Everything else counts as unknown, never as an error.
 */
#include <yyjson.h>

#include "output/tool.h"
#include "output/toolcall_impl.h"

enum { DEPTH_MAX = 8, STEPS_MAX = 4096 };
enum { ALL_BUT_STRING = TC_NUMBER | TC_BOOLEAN | TC_NULL | TC_OBJECT | TC_ARRAY };

static yyjson_val *member(yyjson_val *object, const char *key)
{
    return yyjson_is_obj(object) ? yyjson_obj_get(object, key) : NULL;
}

static struct str text_of(yyjson_val *value)
{
    return yyjson_is_str(value) ? (struct str){yyjson_get_str(value), yyjson_get_len(value)}
                                : STR_NONE;
}

static const struct tool *find_tool(const struct toolcall *call, struct str name)
{
    for (size_t i = 0; i < call->options.tools_count; i++)
        if (str_eq(call->options.tools[i].name, name))
            return &call->options.tools[i];
    return NULL;
}

static yyjson_val *find_schema(const struct toolcall *call, struct str name)
{
    const struct tool *tool = find_tool(call, name);

    return tool != NULL ? tool->schema : NULL;
}

static unsigned type_of_json(yyjson_val *value)
{
    if (yyjson_is_str(value))
        return TC_STRING;
    if (yyjson_is_num(value) || yyjson_is_raw(value))
        return TC_NUMBER;
    if (yyjson_is_bool(value))
        return TC_BOOLEAN;
    if (yyjson_is_null(value))
        return TC_NULL;
    return yyjson_is_obj(value) ? TC_OBJECT : TC_ARRAY;
}

static unsigned type_by_name(struct str name)
{
    static const struct {
        struct str name;
        unsigned type;
    } types[] = {
        {{"string", 6}, TC_STRING},   {{"integer", 7}, TC_NUMBER}, {{"number", 6}, TC_NUMBER},
        {{"boolean", 7}, TC_BOOLEAN}, {{"null", 4}, TC_NULL},      {{"object", 6}, TC_OBJECT},
        {{"array", 5}, TC_ARRAY},
    };

    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (str_eq(types[i].name, name))
            return types[i].type;
    return 0;
}

struct walk {
    yyjson_val *root; /* references are resolved here */
    unsigned steps;
};

static unsigned schema_types(struct walk *walk, yyjson_val *schema, unsigned depth);

/* The union of the types of all alternatives; unknown if one of them is. */
static unsigned union_types(struct walk *walk, yyjson_val *list, unsigned depth)
{
    size_t i, count;
    yyjson_val *item;
    unsigned types = 0;

    yyjson_arr_foreach(list, i, count, item)
    {
        unsigned more =
            yyjson_is_str(item) ? type_by_name(text_of(item)) : schema_types(walk, item, depth);
        if (more == 0)
            return 0;
        types |= more;
    }
    return types;
}

static unsigned enum_types(yyjson_val *list)
{
    size_t i, count;
    yyjson_val *item;
    unsigned types = 0;

    yyjson_arr_foreach(list, i, count, item) types |= type_of_json(item);
    return types;
}

static unsigned schema_types(struct walk *walk, yyjson_val *schema, unsigned depth)
{
    struct str ref = text_of(member(schema, "$ref"));
    yyjson_val *type = member(schema, "type");

    if (!yyjson_is_obj(schema) || depth == DEPTH_MAX || ++walk->steps > STEPS_MAX)
        return 0;
    if (ref.len > 1 && ref.ptr[0] == '#')
        return schema_types(walk, yyjson_ptr_getn(walk->root, ref.ptr + 1, ref.len - 1), depth + 1);
    if (yyjson_is_str(type))
        return type_by_name(text_of(type));
    if (yyjson_is_arr(type))
        return union_types(walk, type, depth + 1);
    if (member(schema, "const") != NULL)
        return type_of_json(member(schema, "const"));
    if (yyjson_is_arr(member(schema, "enum")))
        return enum_types(member(schema, "enum"));
    yyjson_val *any = member(schema, "anyOf");
    return union_types(walk, any != NULL ? any : member(schema, "oneOf"), depth + 1);
}

bool tc_has_tool(const struct toolcall *call, struct str name)
{
    return call->options.tools == NULL || find_tool(call, name) != NULL;
}

unsigned tc_types(const struct toolcall *call, struct str tool, struct str key)
{
    yyjson_val *schema = find_schema(call, tool);
    yyjson_val *properties = member(schema, "properties");

    if (!yyjson_is_obj(properties))
        return 0;
    return schema_types(&(struct walk){.root = schema},
                        yyjson_obj_getn(properties, key.ptr, key.len), 0);
}

struct str tc_parameter(const struct toolcall *call, struct str tool, unsigned position)
{
    yyjson_val *properties = member(find_schema(call, tool), "properties");
    size_t i, count;
    yyjson_val *key, *value;

    if (yyjson_is_obj(properties))
        yyjson_obj_foreach(properties, i, count, key, value) if (i == position) return text_of(key);
    return STR_NONE;
}

static unsigned type_of_text(struct str json)
{
    switch (json.ptr[0]) {
    case '"':
        return TC_STRING;
    case '{':
        return TC_OBJECT;
    case '[':
        return TC_ARRAY;
    case 't':
    case 'f':
        return TC_BOOLEAN;
    case 'n':
        return TC_NULL;
    default:
        return TC_NUMBER;
    }
}

static struct str python_literal(struct str text, unsigned types)
{
    if ((types & TC_BOOLEAN) && str_eq_nocase(text, STR("true")))
        return STR("true");
    if ((types & TC_BOOLEAN) && str_eq_nocase(text, STR("false")))
        return STR("false");
    if ((types & TC_NULL) && str_eq(text, STR("None")))
        return STR("null");
    return text;
}

/* Valid JSON may contain raw line feeds in strings here; json_scan_text escapes them. */
static void append_json(struct buf *out, struct str json)
{
    struct json_scan scan;
    size_t used;

    json_scan_init(&scan);
    (void)json_scan_text(&scan, json, &used, out);
}

void tc_value(struct buf *out, struct str text, unsigned types)
{
    struct str json = python_literal(str_trim(text), types);
    bool valid = json_scan_valid(json);

    if (types == 0)
        valid = valid && json.ptr[0] != '"';
    else if (types & TC_STRING)
        valid = valid && (type_of_text(json) & types & ALL_BUT_STRING) != 0;
    if (valid) {
        append_json(out, json);
        return;
    }
    buf_append_char(out, '"');
    json_scan_escape(out, text);
    buf_append_char(out, '"');
}
