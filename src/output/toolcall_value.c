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
#include "base/json_alc.h"

enum { DEPTH_MAX = 8, STEPS_MAX = 512 };
enum { ALL_BUT_STRING = TC_NUMBER | TC_BOOLEAN | TC_NULL | TC_OBJECT | TC_ARRAY };

static yyjson_val *member(yyjson_val *object, const char *key)
{
    return yyjson_is_obj(object) ? yyjson_obj_get(object, key) : NULL;
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
        {STR("string"), TC_STRING},   {STR("integer"), TC_NUMBER}, {STR("number"), TC_NUMBER},
        {STR("boolean"), TC_BOOLEAN}, {STR("null"), TC_NULL},      {STR("object"), TC_OBJECT},
        {STR("array"), TC_ARRAY},
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
        unsigned more = yyjson_is_str(item) ? type_by_name(json_get_text(item))
                                            : schema_types(walk, item, depth);
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
    struct str ref = json_get_text(member(schema, "$ref"));
    yyjson_val *type = member(schema, "type");

    if (!yyjson_is_obj(schema) || depth == DEPTH_MAX || ++walk->steps > STEPS_MAX)
        return 0;
    if (ref.len > 1 && ref.ptr[0] == '#')
        return schema_types(walk, yyjson_ptr_getn(walk->root, ref.ptr + 1, ref.len - 1), depth + 1);
    if (yyjson_is_str(type))
        return type_by_name(json_get_text(type));
    if (yyjson_is_arr(type))
        return union_types(walk, type, depth + 1);
    if (member(schema, "const") != NULL)
        return type_of_json(member(schema, "const"));
    if (yyjson_is_arr(member(schema, "enum")))
        return enum_types(member(schema, "enum"));
    yyjson_val *any = member(schema, "anyOf");
    return union_types(walk, any != NULL ? any : member(schema, "oneOf"), depth + 1);
}

bool tc_may_call(const struct toolcall *call, struct str name)
{
    const struct tool *tool = find_tool(call, name);

    return call->options.tools == NULL || (tool != NULL && !tool->barred);
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
        yyjson_obj_foreach(properties, i, count, key,
                           value) if (i == position) return json_get_text(key);
    return STR_NONE;
}

/* Has it a property of each name, and a name for each required one? */
static bool fits(yyjson_val *schema, yyjson_val *arguments)
{
    yyjson_val *properties = member(schema, "properties"), *required = member(schema, "required");
    size_t i, count;
    yyjson_val *key, *value;

    yyjson_obj_foreach(arguments, i, count, key,
                       value) if (yyjson_obj_getn(properties, yyjson_get_str(key),
                                                  yyjson_get_len(key)) == NULL) return false;
    yyjson_arr_foreach(required, i, count,
                       value) if (yyjson_obj_getn(arguments, yyjson_get_str(value),
                                                  yyjson_get_len(value)) == NULL) return false;
    return true;
}

void tc_fitting_tool(const struct toolcall *call, struct str arguments, struct buf *name)
{
    yyjson_read_err bad;
    yyjson_doc *doc =
        yyjson_read_opts((char *)(uintptr_t)arguments.ptr, arguments.len, 0, json_alc(), &bad);
    size_t found = 0;

    tc_clear(name);
    if (doc == NULL && bad.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        name->err = ERR_NOMEM;

    for (size_t i = 0; i < call->options.tools_count && doc != NULL; i++) {
        const struct tool *tool = &call->options.tools[i];
        if (tool->barred || !fits(tool->schema, yyjson_doc_get_root(doc)))
            continue;
        if (found++ == 0)
            buf_append(name, tool->name.ptr, tool->name.len);
        else
            tc_clear(name);
    }
    yyjson_doc_free(doc);
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

/* Templates print lists and dicts as Python does, and models learn that. */
static bool append_python(struct buf *out, struct str text, unsigned types)
{
    bool list = text.len > 1 && text.ptr[0] == '[' && (types & TC_ARRAY) != 0;
    bool dict = text.len > 1 && text.ptr[0] == '{' && (types & TC_OBJECT) != 0;
    size_t begin = out->len, used = 0;

    if ((list || dict) && tc_literal(text, STR_NONE, out, &used) == MARKER_YES && used == text.len)
        return true;
    buf_truncate(out, begin);
    return false;
}

void tc_value(struct buf *out, struct str text, unsigned types)
{
    struct str json = python_literal(str_trim(text), types);
    bool valid = json_scan_valid(json);

    if (!valid && append_python(out, json, types))
        return;

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

/* ---- tags inside tags ----
 *
 *      objects  ( PARAMETER_BEGIN key KEY_END value VALUE_END key VALUE_TAIL )*
 *      lists    the same with `item` as each key
 */

void tc_value_end(const struct call_format *format, struct str key, struct buf *out)
{
    tc_clear(out);
    buf_append(out, format->value_end.ptr, format->value_end.len);
    if (format->value_tail.len == 0)
        return;
    buf_append(out, key.ptr, key.len);
    buf_append(out, format->value_tail.ptr, format->value_tail.len);
}

bool tc_nested_closed(const struct call_format *format, struct str value)
{
    struct str marks[] = {format->value_end, format->parameter_begin};
    size_t open = 0, closed = 0;

    for (;;) {
        struct marker_hit hit = marker_find(value, marks, COUNT_OF(marks));
        if (hit.which < 0)
            return open <= closed;
        *(hit.which == 0 ? &closed : &open) += 1;
        value = str_skip(value, hit.at + marks[hit.which].len);
    }
}

struct nest {
    const struct call_format *format;
    struct walk walk;
    struct buf *out;
    struct buf end; /* of the child being read */
};

/* The schema of a member, or of the items of a list; NULL: it does not say. */
static yyjson_val *child_schema(struct nest *nest, yyjson_val *schema, struct str key, bool item,
                                unsigned depth)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    struct str ref = json_get_text(member(schema, "$ref"));
    yyjson_val *found = item ? member(schema, "items") : NULL;
    size_t i, count;
    yyjson_val *one;

    if (!yyjson_is_obj(schema) || depth == DEPTH_MAX || ++nest->walk.steps > STEPS_MAX)
        return NULL;
    if (ref.len > 1 && ref.ptr[0] == '#')
        return child_schema(nest, yyjson_ptr_getn(nest->walk.root, ref.ptr + 1, ref.len - 1), key,
                            item, depth + 1);
    if (!item && yyjson_is_obj(member(schema, "properties")))
        found = yyjson_obj_getn(member(schema, "properties"), key.ptr, key.len);
    for (size_t k = 0; k < COUNT_OF(unions) && found == NULL; k++) {
        yyjson_val *list = member(schema, unions[k]);
        yyjson_arr_foreach(list, i, count, one) if (found == NULL) found =
            child_schema(nest, one, key, item, depth + 1);
    }
    return found;
}

/* Cuts a child off the front of the text. */
static bool cut_child(struct nest *nest, struct str *text, struct str *key, struct str *value)
{
    const struct call_format *format = nest->format;
    struct str rest = str_skip(*text, marker_space(*text));

    if (!str_starts(rest, format->parameter_begin) || str_starts(rest, format->value_end))
        return false;
    rest = str_skip(rest, format->parameter_begin.len);
    struct marker_hit hit = marker_find(rest, &format->key_end, 1);
    if (hit.which < 0)
        return false;
    *key = (struct str){rest.ptr, hit.at};
    rest = str_skip(rest, hit.at + format->key_end.len);
    tc_value_end(format, *key, &nest->end);
    for (size_t at = 0;;) {
        size_t found = str_find(str_skip(rest, at), buf_text(&nest->end));
        if (found == SIZE_MAX)
            return false;
        at += found;
        *value = (struct str){rest.ptr, at};
        at += nest->end.len;
        if (tc_nested_closed(format, *value)) {
            *text = str_skip(rest, at);
            return true;
        }
    }
}

static void put_nested(struct nest *nest, struct str text, yyjson_val *schema, unsigned depth)
{
    struct str key, value, rest = text;
    size_t begin = nest->out->len;
    bool list = false, any = false;

    while (depth < TC_LITERAL_DEPTH_MAX && cut_child(nest, &rest, &key, &value)) {
        if (!any)
            list = str_eq(key, STR("item")) && child_schema(nest, schema, key, false, 0) == NULL;
        buf_append_char(nest->out, any ? ',' : list ? '[' : '{');
        if (!list) {
            buf_append_char(nest->out, '"');
            json_scan_escape(nest->out, key);
            buf_append_str(nest->out, "\":");
        }
        put_nested(nest, value, child_schema(nest, schema, key, list, 0), depth + 1);
        any = true;
    }
    if (any && str_trim(rest).len == 0) {
        buf_append_char(nest->out, list ? ']' : '}');
        return;
    }
    buf_truncate(nest->out, begin);
    tc_value(nest->out, text, schema_types(&nest->walk, schema, 0));
}

void tc_nested_value(const struct toolcall *call, struct buf *out, struct str value)
{
    yyjson_val *schema = find_schema(call, buf_text(&call->name));
    struct nest nest = {.format = call->format, .walk = {.root = schema}, .out = out};

    buf_init(&nest.end, 2 * TC_NAME_MAX);
    put_nested(&nest, value, child_schema(&nest, schema, buf_text(&call->key), false, 0), 0);
    if (nest.end.err == ERR_NOMEM)
        out->err = ERR_NOMEM;
    buf_fini(&nest.end);
}
