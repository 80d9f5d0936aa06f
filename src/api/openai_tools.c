/*
 * openai_tools.c: tools and what the model is to do with them.
 *
 *      chat        {"type":"function","function":{"name":...,"parameters":...}}
 *      Responses   {"type":"function","name":...,"parameters":...}, and types that OpenAI runs itself (web_search, ...)
 *                  {"type":"namespace","name":"mcp__notes","tools":[{"type":"function","name":"read",...}]}
 *
 * Models know no namespaces: a function in one is shown as mcp__notes__read, and a call of it is answered with both names again
 * (openai_tools_find). Codex puts the tools of its MCP servers and sub-agents there.
 *
 * Agents send the second kind with whatever their vendor offers; what cannot be run here is left out, so that they work with the rest. In chat
 * a tool of another type is an error: nobody sends one by accident.
 */
#include "api/openai_impl.h"

#include <stdio.h>

/* ---- names ---- */

/* What stands between the names; those of MCP servers may end in it. */
static struct str separator_of(struct str space)
{
    return space.len == 0 || str_ends(space, STR("__")) ? STR("") : STR("__");
}

enum err openai_tools_name(struct gen_request *request, struct str space, struct str *name)
{
    struct str separator = separator_of(space);

    if (space.len == 0)
        return ERR_OK;
    char *flat = arena_printf(&request->arena, STR_FMT STR_FMT STR_FMT, STR_ARG(space),
                              STR_ARG(separator), STR_ARG(*name));
    if (flat == NULL)
        return openai_arena_error(request);
    *name = str_from(flat);
    return ERR_OK;
}

static bool is_function(yyjson_val *tool)
{
    struct str type = json_read_text(yyjson_obj_get(tool, "type"));

    return type.len == 0 || str_eq(type, STR("function"));
}

static bool is_namespace(yyjson_val *tool)
{
    return yyjson_equals_str(yyjson_obj_get(tool, "type"), "namespace");
}

/* Is `flat` the name of a function in this namespace? */
static bool find_inside(yyjson_val *holder, struct str flat, struct openai_tool_name *out)
{
    struct str space = json_read_text(yyjson_obj_get(holder, "name")),
               separator = separator_of(space);
    size_t skip = space.len + separator.len, i, count;
    yyjson_val *tool;

    if (flat.len <= skip || !str_starts(flat, space) ||
        !str_starts((struct str){flat.ptr + space.len, flat.len - space.len}, separator))
        return false;
    struct str name = {flat.ptr + skip, flat.len - skip};
    yyjson_arr_foreach(yyjson_obj_get(holder, "tools"), i, count, tool)
    {
        if (is_function(tool) && str_eq(json_read_text(yyjson_obj_get(tool, "name")), name)) {
            *out = (struct openai_tool_name){space, name};
            return true;
        }
    }
    return false;
}

struct openai_tool_name openai_tools_find(yyjson_val *body, struct str flat)
{
    struct openai_tool_name found = {STR_NONE, flat};
    size_t i, count;
    yyjson_val *tool;

    yyjson_arr_foreach(yyjson_obj_get(body, "tools"), i, count, tool)
    {
        if (is_namespace(tool) && find_inside(tool, flat, &found))
            break;
    }
    return found;
}

/* ---- tools ---- */

/* name, description, parameters, strict; a function without parameters takes none. */
static enum err build_function(struct openai_build *build, const struct json_reader *function,
                               struct str space)
{
    struct str name, description = STR_NONE;
    yyjson_val *parameters = NULL;
    bool strict = false;

    TRY(openai_need_str(function, "name", &name));
    if (space.len + name.len > OPENAI_NAME_BYTES_MAX)
        return json_read_error(function, "name", "must have at most %d bytes",
                               OPENAI_NAME_BYTES_MAX);
    TRY(openai_tools_name(build->request, space, &name));
    TRY(json_read_str(function, "description", &description));
    TRY(json_read_object(function, "parameters", &parameters));
    TRY(json_read_bool(function, "strict", &strict));
    json_open(&build->json, '{');
    json_key_text(&build->json, "type", "function");
    json_key(&build->json, "function");
    json_open(&build->json, '{');
    json_key_str(&build->json, "name", name);
    if (description.ptr != NULL)
        json_key_str(&build->json, "description", description);
    json_key(&build->json, "parameters");
    if (parameters != NULL)
        json_value(&build->json, parameters);
    else
        json_raw(&build->json, STR("{\"type\":\"object\",\"properties\":{}}"));
    if (strict)
        json_key_bool(&build->json, "strict", true);
    json_close(&build->json, '}');
    json_close(&build->json, '}');
    return ERR_OK;
}

static enum err build_nested(struct openai_build *build, const struct json_reader *tool)
{
    char at[API_PARAM_BYTES];
    struct json_reader function = {NULL, at, tool->error};
    struct str type = json_read_text(json_read_get(tool, "type"));

    if (!is_function(tool->object))
        return json_read_error_kind(tool, API_ERROR_UNSUPPORTED, "type",
                                    "is '" STR_FMT "': only functions can be called here",
                                    STR_ARG(type));
    TRY(json_read_object(tool, "function", &function.object));
    if (function.object == NULL)
        return json_read_error(tool, "function", "is missing: it must be an object");
    snprintf(at, sizeof(at), "%sfunction.", tool->at);
    return build_function(build, &function, STR_NONE);
}

/* The functions of a namespace; what else is there is left out, as outside of one. */
static enum err build_namespace(struct openai_build *build, const struct json_reader *holder)
{
    yyjson_val *tools = NULL, *value;
    struct str space;
    size_t i, count;

    TRY(openai_need_str(holder, "name", &space));
    TRY(json_read_array(holder, "tools", &tools));
    if (yyjson_arr_size(tools) > OPENAI_TOOLS_MAX)
        return json_read_error(holder, "tools", "must have at most %d entries", OPENAI_TOOLS_MAX);
    yyjson_arr_foreach(tools, i, count, value)
    {
        char at[API_PARAM_BYTES];
        struct json_reader tool;
        TRY(openai_element(holder, "tools", i, value, at, &tool));
        if (is_function(value))
            TRY(build_function(build, &tool, space));
    }
    return ERR_OK;
}

static enum err build_tool(struct openai_build *build, const struct json_reader *tool,
                           enum openai_tools_form form)
{
    if (form == OPENAI_TOOLS_NESTED)
        return build_nested(build, tool);
    if (is_namespace(tool->object))
        return build_namespace(build, tool);
    return is_function(tool->object) ? build_function(build, tool, STR_NONE) : ERR_OK;
}

static enum err build_list(struct openai_build *build, const struct json_reader *body,
                           yyjson_val *tools, enum openai_tools_form form)
{
    size_t i, count;
    yyjson_val *value;

    if (yyjson_arr_size(tools) > OPENAI_TOOLS_MAX)
        return json_read_error(body, "tools", "must have at most %d entries", OPENAI_TOOLS_MAX);
    json_key(&build->json, "tools");
    json_open(&build->json, '[');
    yyjson_arr_foreach(tools, i, count, value)
    {
        char at[API_PARAM_BYTES];
        struct json_reader tool;
        TRY(openai_element(body, "tools", i, value, at, &tool));
        TRY(build_tool(build, &tool, form));
    }
    json_close(&build->json, ']');
    return ERR_OK;
}

/* ---- tool_choice ---- */

/* Is there a function of this name, or of any name when it is empty? */
static bool has_inside(yyjson_val *holder, struct str name)
{
    struct openai_tool_name found;
    size_t i, count;
    yyjson_val *tool;

    if (name.len > 0)
        return find_inside(holder, name, &found);
    yyjson_arr_foreach(yyjson_obj_get(holder, "tools"), i, count, tool)
    {
        if (is_function(tool))
            return true;
    }
    return false;
}

static bool has_tool(yyjson_val *tools, struct str name)
{
    size_t i, count;
    yyjson_val *tool;

    yyjson_arr_foreach(tools, i, count, tool)
    {
        if (is_namespace(tool) && has_inside(tool, name))
            return true;
        yyjson_val *nested = yyjson_obj_get(tool, "function");
        yyjson_val *function = nested != NULL ? nested : tool;
        struct str own = json_read_text(yyjson_obj_get(function, "name"));
        if (is_function(tool) && (name.len == 0 || str_eq(own, name)))
            return true;
    }
    return false;
}

/* {"type":"function","function":{"name":...}}, or flat and then perhaps with a namespace. */
static enum err read_named(struct gen_request *request, const struct json_reader *body,
                           yyjson_val *choice, yyjson_val *tools)
{
    yyjson_val *function = yyjson_obj_get(choice, "function");
    struct str type = json_read_text(yyjson_obj_get(choice, "type"));

    if (!str_eq(type, STR("function")))
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "tool_choice",
                                    "must be none, auto, required, or name a function");
    struct str name =
        json_read_text(yyjson_obj_get(yyjson_is_obj(function) ? function : choice, "name"));
    if (name.len == 0)
        return json_read_error(body, "tool_choice", "must have the name of a function");
    TRY(openai_tools_name(request, json_read_text(yyjson_obj_get(choice, "namespace")), &name));
    if (!has_tool(tools, name))
        return json_read_error(body, "tool_choice", "names '" STR_FMT "', which is not in 'tools'",
                               STR_ARG(name));
    request->tool_choice = GEN_CHOICE_NAMED;
    request->tool_name = name;
    return ERR_OK;
}

static enum err read_choice(struct gen_request *request, const struct json_reader *body,
                            yyjson_val *tools)
{
    yyjson_val *choice = json_read_get(body, "tool_choice");
    struct str name = json_read_text(choice);

    if (choice == NULL)
        return ERR_OK;
    if (yyjson_is_obj(choice))
        return read_named(request, body, choice, tools);
    if (str_eq(name, STR("none")))
        request->tool_choice = GEN_CHOICE_NONE;
    else if (str_eq(name, STR("required")))
        request->tool_choice = GEN_CHOICE_REQUIRED;
    else if (!str_eq(name, STR("auto")))
        return json_read_error(body, "tool_choice",
                               "must be none, auto, required, or name a "
                               "function");
    if (request->tool_choice == GEN_CHOICE_REQUIRED && !has_tool(tools, STR_NONE))
        return json_read_error(body, "tool_choice", "is 'required', but there are no 'tools'");
    return ERR_OK;
}

enum err openai_build_tools(struct openai_build *build, const struct json_reader *body,
                            enum openai_tools_form form)
{
    yyjson_val *tools = NULL;

    if (json_read_get(body, "functions") != NULL)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "functions",
                                    "is the old form: send 'tools' and 'tool_choice' instead");
    TRY(json_read_array(body, "tools", &tools));
    if (yyjson_arr_size(tools) > 0)
        TRY(build_list(build, body, tools, form));
    TRY(read_choice(build->request, body, tools));
    return json_read_bool(body, "parallel_tool_calls", &build->request->parallel_calls);
}
