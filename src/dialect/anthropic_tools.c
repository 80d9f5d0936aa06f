/*
 * anthropic_tools.c: parses tools and tool_choice.
 *
 * Three kinds: the client's own tools, with a schema; tools that Anthropic has defined and the
 * client runs (bash, text editor), whose schema we supply because a local model has never seen
 * them; and tools that run on Anthropic's servers or need images, which are left out: clients offer
 * web_search to every server and work without it.
 *
 * Some of the remaining tools are announced later (anthropic_late.c): they come last and are not
 * counted in `tools_shown`.
 */
#include "dialect/anthropic_impl.h"

/* Tools recognised by the beginning of their type: "bash_20250124". Their parameters are publicly
 * documented. */
static const struct {
    struct str prefix;
    const char *description;
    struct str schema;
} defined[] = {
    {STR("bash_"), "Runs a command in a persistent bash session, or restarts the session.",
     STR("{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\"},"
         "\"restart\":{\"type\":\"boolean\"}}}")},
    {STR("text_editor_"),
     "Views a file (view, view_range), creates one (create, file_text), replaces a text that "
     "occurs once "
     "(str_replace, old_str, new_str), or inserts text after a line (insert, insert_line, "
     "insert_text).",
     STR("{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\",\"enum\":[\"view\","
         "\"create\",\"str_replace\",\"insert\"]},\"path\":{\"type\":\"string\"},"
         "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},"
         "\"file_text\":{\"type\":\"string\"},\"old_str\":{\"type\":\"string\"},"
         "\"new_str\":{\"type\":\"string\"},\"insert_line\":{\"type\":\"integer\"},"
         "\"insert_text\":{\"type\":\"string\"}},\"required\":[\"command\",\"path\"]}")},
};

enum tool_kind { TOOL_FOREIGN = -2, TOOL_CUSTOM = -1 /* else an index of `defined` */ };

static int tool_kind(yyjson_val *tool)
{
    yyjson_val *value = yyjson_obj_get(tool, "type");
    struct str type = json_get_text(value);

    if (value == NULL || yyjson_is_null(value) || str_eq(type, STR("custom")))
        return TOOL_CUSTOM;
    for (size_t i = 0; i < COUNT_OF(defined); i++)
        if (str_starts(type, defined[i].prefix))
            return (int)i;
    return TOOL_FOREIGN;
}

bool anthropic_is_foreign_tool(yyjson_val *tool)
{
    return tool_kind(tool) == TOOL_FOREIGN;
}

static enum err read_custom(const struct json_reader *tool, struct tool *out)
{
    TRY(json_read_content(tool, "description", &out->description));
    TRY(json_read_object(tool, "input_schema", &out->schema));
    TRY(json_read_bool(tool, "strict", &out->strict));
    if (out->schema == NULL)
        return json_read_error(tool, "input_schema", "is missing: it must be an object");
    if (out->description.len == 0)
        out->description = STR_NONE;
    return ERR_OK;
}

enum err anthropic_read_tool(struct anthropic_build *build, const struct json_reader *tool,
                             struct tool *out)
{
    int kind = tool_kind(tool->object);

    *out = (struct tool){0};
    if (kind == TOOL_FOREIGN)
        return json_read_error(tool, "type", "is a tool that does not run here");
    TRY(anthropic_need_str(tool, "name", false, &out->name));
    if (kind == TOOL_CUSTOM)
        return read_custom(tool, out);
    out->description = str_from(defined[kind].description);
    return conversation_constant(build->talk, defined[kind].schema, &out->schema);
}

static enum err add_tool(struct anthropic_build *build, const struct json_reader *reader)
{
    struct tool read;

    TRY(anthropic_read_tool(build, reader, &read));
    struct tool *tool = conversation_add_tool(build->talk);
    if (tool == NULL)
        return build->request->arena.err;
    *tool = read;
    return ERR_OK;
}

/* Adds the tools that are announced at the given time. */
static enum err add_tools(struct anthropic_build *build, const struct json_reader *body,
                          enum anthropic_when when)
{
    struct json_list list = json_list(body, "tools");
    struct json_reader tool;

    while (json_next(&list, &tool))
        if (tool_kind(tool.object) != TOOL_FOREIGN &&
            anthropic_late_when(build, tool.object) == when)
            TRY(add_tool(build, &tool));
    return list.err;
}

/* Tools that are defined only in messages. */
static enum err add_added(struct anthropic_build *build, const struct json_reader *body)
{
    for (size_t i = 0; i < build->late.added_count; i++) {
        struct json_reader tool = {
            .object = build->late.added[i].tool, .at = "messages.", .error = body->error};
        TRY(add_tool(build, &tool));
    }
    return ERR_OK;
}

static bool has_mark(struct anthropic_build *build, yyjson_val *tools)
{
    yyjson_val *tool;
    size_t index, max;
    bool marked = false;

    yyjson_arr_foreach(tools, index, max, tool)
    {
        if (anthropic_has_break(build->request, tool))
            marked = true;
    }
    return marked;
}

enum err anthropic_read_tools(struct anthropic_build *build, const struct json_reader *body)
{
    yyjson_val *array = NULL;

    TRY(json_read_array(body, "tools", &array));
    TRY(anthropic_late_read(build, body));
    TRY(add_tools(build, body, ANTHROPIC_NOW));
    build->talk->tools_shown = build->talk->tools_count;
    TRY(add_tools(build, body, ANTHROPIC_LATE));
    TRY(add_added(build, body));
    if (has_mark(build, array) && build->talk->tools_shown > 0)
        gen_request_add_break(build->request, GEN_BREAK_TOOLS);
    return ERR_OK;
}

/* ---- tool_choice ---- */

static bool is_offered(const struct json_reader *body, struct str name)
{
    yyjson_val *tool;
    size_t index, max;

    yyjson_arr_foreach(yyjson_obj_get(body->object, "tools"), index, max, tool)
    {
        if (tool_kind(tool) != TOOL_FOREIGN &&
            str_eq(json_get_text(yyjson_obj_get(tool, "name")), name))
            return true;
    }
    return false;
}

static enum err read_choice_type(const struct json_reader *reader, enum constraint_mode *out)
{
    static const char *const names[] = {"auto", "any", "tool", "none", NULL};
    static const enum constraint_mode choices[] = {CONSTRAINT_AUTO, CONSTRAINT_REQUIRED,
                                                   CONSTRAINT_NAMED, CONSTRAINT_NONE};
    struct str type;
    size_t index = 0;

    TRY(anthropic_need_str(reader, "type", false, &type));
    TRY(json_read_name(reader, "type", names, "must be 'auto', 'any', 'tool' or 'none'", &index));
    *out = choices[index];
    return ERR_OK;
}

enum err anthropic_read_tool_choice(const struct anthropic_build *build,
                                    const struct json_reader *body)
{
    struct json_reader reader;
    struct gen_request *request = build->request;
    bool single = false;

    TRY(json_read_nested(body, "tool_choice", &reader));
    if (reader.object == NULL)
        return ERR_OK;
    TRY(read_choice_type(&reader, &request->tool_choice));
    TRY(json_read_bool(&reader, "disable_parallel_tool_use", &single));
    request->parallel_calls = !single;
    if (request->tool_choice == CONSTRAINT_REQUIRED && build->talk->tools_count == 0)
        return json_read_error(body, "tool_choice", "asks for a call, but there are no tools");
    if (request->tool_choice != CONSTRAINT_NAMED)
        return ERR_OK;
    TRY(anthropic_need_str(&reader, "name", false, &request->tool_name));
    if (!is_offered(body, request->tool_name))
        return json_read_error(&reader, "name", "is '" STR_FMT "', which is none of the tools",
                               STR_ARG(request->tool_name));
    return ERR_OK;
}
