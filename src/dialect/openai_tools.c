/*
 * openai_tools.c: parses tools and tool_choice.
 *
 *      chat        {"type":"function","function":{"name":...,"parameters":...}}
 *                  {"type":"custom","custom":{"name":...}}, which takes a text
 *      Responses   {"type":"function","name":...,"parameters":...}, and more:
 *                  openai_responses_tools.c
 *
 * In chat, a tool of another type is an error: clients do not send one by accident. tool_choice is
 * read after the list for the model is built, and is checked against it.
 */
#include "dialect/openai_impl.h"

static const struct str no_parameters = STR("{\"type\":\"object\",\"properties\":{}}");
static const struct str text_parameters = STR("{\"type\":\"object\",\"properties\":{\"input\":{"
                                              "\"type\":\"string\"}},\"required\":[\"input\"]}");

/* name, description, parameters, strict; without `parameters` a function takes none. */
enum err openai_read_function(struct gen_request *request, const struct json_reader *function,
                              struct str space, bool custom)
{
    struct conversation *talk = &request->conversation;
    struct tool read = {.space = space, .custom = custom};

    TRY(openai_need_str(function, "name", &read.name));
    if (space.len + read.name.len > OPENAI_NAME_BYTES_MAX)
        return json_read_error(function, "name", "must have at most %d bytes",
                               OPENAI_NAME_BYTES_MAX);
    TRY(openai_tools_name(request, space, &read.name));
    TRY(json_read_content(function, "description", &read.description));
    TRY(json_read_object(function, "parameters", &read.schema));
    TRY(json_read_bool(function, "strict", &read.strict));
    if (custom || read.schema == NULL)
        TRY(conversation_constant(talk, custom ? text_parameters : no_parameters, &read.schema));
    struct tool *tool = conversation_add_tool(talk);
    if (tool == NULL)
        return request->arena.err;
    *tool = read;
    talk->tools_shown = talk->tools_count;
    return ERR_OK;
}

static enum err read_nested(struct gen_request *request, const struct json_reader *tool)
{
    struct json_reader nested;
    struct str type = json_get_text(json_read_get(tool, "type"));
    bool custom = str_eq(type, STR("custom"));

    if (type.len > 0 && !custom && !str_eq(type, STR("function")))
        return json_read_error_kind(tool, API_ERROR_UNSUPPORTED, "type",
                                    "is '" STR_FMT "': only functions can be called here",
                                    STR_ARG(type));
    TRY(json_need_nested(tool, custom ? "custom" : "function", &nested));
    return openai_read_function(request, &nested, STR_NONE, custom);
}

enum err openai_read_tools(struct gen_request *request, const struct json_reader *body)
{
    struct json_list list = json_list(body, "tools");
    struct json_reader tool;
    yyjson_val *tools = NULL;

    TRY(json_read_array(body, "tools", &tools));
    if (yyjson_arr_size(tools) > OPENAI_TOOLS_MAX)
        return json_read_error(body, "tools", "must have at most %d entries", OPENAI_TOOLS_MAX);
    while (json_next(&list, &tool))
        TRY(read_nested(request, &tool));
    return list.err;
}

/* ---- tool_choice ---- */

static struct tool *find_tool(const struct conversation *talk, struct str name)
{
    for (size_t i = 0; i < talk->tools_count; i++)
        if (str_eq(talk->tools[i].name, name))
            return &talk->tools[i];
    return NULL;
}

static bool names_function(yyjson_val *choice)
{
    struct str type = json_get_text(yyjson_obj_get(choice, "type"));

    return str_eq(type, STR("function")) || str_eq(type, STR("custom"));
}

/* {"type":"function","function":{"name":...}}, likewise of custom ones; or flat, and perhaps with a
 * namespace. */
static enum err read_name(struct gen_request *request, const struct json_reader *body,
                          yyjson_val *choice, struct tool **tool)
{
    yyjson_val *nested = yyjson_obj_get(choice, "function");

    if (nested == NULL)
        nested = yyjson_obj_get(choice, "custom");
    if (!names_function(choice))
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "tool_choice",
                                    "must be none, auto, required, or name a function");
    struct str name =
        json_get_text(yyjson_obj_get(yyjson_is_obj(nested) ? nested : choice, "name"));
    if (name.len == 0)
        return json_read_error(body, "tool_choice", "must have the name of a function");
    TRY(openai_tools_name(request, json_get_text(yyjson_obj_get(choice, "namespace")), &name));
    *tool = find_tool(&request->conversation, name);
    if (*tool == NULL)
        return json_read_error(body, "tool_choice", "names '" STR_FMT "', which is not in 'tools'",
                               STR_ARG(name));
    return ERR_OK;
}

static enum err read_named(struct gen_request *request, const struct json_reader *body,
                           yyjson_val *choice)
{
    struct tool *tool;

    TRY(read_name(request, body, choice, &tool));
    request->tool_choice = CONSTRAINT_NAMED;
    request->tool_name = tool->name;
    return ERR_OK;
}

/* {"type":"allowed_tools","mode":...,"tools":[...]}; in chat both are in a nested object. All tools
 * stay in the prompt, so it is cached as before. Responses may list tools that OpenAI runs: they are
 * left out, as in 'tools'. */
static enum err read_allowed(struct gen_request *request, const struct json_reader *body,
                             yyjson_val *choice)
{
    yyjson_val *nested = yyjson_obj_get(choice, "allowed_tools"), *entry;
    yyjson_val *allowed = yyjson_is_obj(nested) ? nested : choice;
    yyjson_val *tools = yyjson_obj_get(allowed, "tools"), *mode = yyjson_obj_get(allowed, "mode");
    struct tool *tool = NULL;
    size_t i, count;

    if (!yyjson_is_arr(tools) || yyjson_arr_size(tools) == 0)
        return json_read_error(body, "tool_choice", "must list the allowed 'tools'");
    if (mode != NULL && !yyjson_equals_str(mode, "auto") && !yyjson_equals_str(mode, "required") &&
        !yyjson_equals_str(mode, "none"))
        return json_read_error(body, "tool_choice", "must have the mode auto, required or none");
    for (i = 0; i < request->conversation.tools_count; i++)
        request->conversation.tools[i].barred = true;
    yyjson_arr_foreach(tools, i, count, entry)
    {
        if (allowed == choice && !names_function(entry))
            continue;
        TRY(read_name(request, body, entry, &tool));
        tool->barred = false;
    }
    if (tool == NULL)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "tool_choice",
                                    "must allow a function: other tools do not run here");
    request->tool_choice = yyjson_equals_str(mode, "required") ? CONSTRAINT_REQUIRED
                           : yyjson_equals_str(mode, "none")   ? CONSTRAINT_NONE
                                                               : CONSTRAINT_AUTO;
    return ERR_OK;
}

static enum err read_choice(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *choice = json_read_get(body, "tool_choice");
    struct str name = json_get_text(choice);

    if (choice == NULL)
        return ERR_OK;
    if (yyjson_equals_str(yyjson_obj_get(choice, "type"), "allowed_tools"))
        return read_allowed(request, body, choice);
    if (yyjson_is_obj(choice))
        return read_named(request, body, choice);
    if (str_eq(name, STR("none")))
        request->tool_choice = CONSTRAINT_NONE;
    else if (str_eq(name, STR("required")))
        request->tool_choice = CONSTRAINT_REQUIRED;
    else if (!str_eq(name, STR("auto")))
        return json_read_error(body, "tool_choice",
                               "must be none, auto, required, or name a "
                               "function");
    if (request->tool_choice == CONSTRAINT_REQUIRED && request->conversation.tools_count == 0)
        return json_read_error(body, "tool_choice", "is 'required', but there are no 'tools'");
    return ERR_OK;
}

enum err openai_read_tool_choice(struct gen_request *request, const struct json_reader *body)
{
    if (json_read_get(body, "functions") != NULL)
        return json_read_error_kind(body, API_ERROR_UNSUPPORTED, "functions",
                                    "is the old form: send 'tools' and 'tool_choice' instead");
    TRY(read_choice(request, body));
    return json_read_bool(body, "parallel_tool_calls", &request->parallel_calls);
}
