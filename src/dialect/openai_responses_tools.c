/*
 * openai_responses_tools.c: maps the tools of Responses to plain functions with a single name,
 * which is all that models know.
 *
 *      {"type":"function","name":"f","parameters":...}  f
 *      {"type":"namespace","name":"mcp__notes","tools":[{"type":"function",...}]}  mcp__notes__read
 *      {"type":"custom","name":"exec"}                  exec, with one argument: "input"
 *      an item {"type":"additional_tools","tools":[...]} of the input      as those of the request
 *
 * Codex puts the tools of MCP servers and sub-agents into namespaces, and, for models that it knows
 * by name, all tools into an item. Only its vendor can run its other tools (web_search, ...): they
 * are left out, so that the rest works.
 *
 * A call is reported as the client declared the tool, which is looked up by the name that the model
 * knows (openai_tools_find; on the engine's thread, so not in the JSON): with both names, and with a
 * custom tool's text extracted from its argument. The text is sent whole, at the end, because the
 * model writes it as a JSON string. Chat has custom tools as well, and uses these functions for its
 * calls.
 */
#include "dialect/openai_impl.h"

#include <stdio.h>

#include "base/json_alc.h"

enum tool_kind { TOOL_OTHER, TOOL_FUNCTION, TOOL_CUSTOM, TOOL_NAMESPACE };

static enum tool_kind kind_of(yyjson_val *tool)
{
    struct str type = json_get_text(yyjson_obj_get(tool, "type"));

    if (type.len == 0 || str_eq(type, STR("function")))
        return TOOL_FUNCTION;
    if (str_eq(type, STR("custom")))
        return TOOL_CUSTOM;
    return str_eq(type, STR("namespace")) ? TOOL_NAMESPACE : TOOL_OTHER;
}

/* ---- names ---- */

/* The separator between the names; names of MCP servers may end in it. */
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
        return request->arena.err;
    *name = str_from(flat);
    return ERR_OK;
}

static bool is_tools_item(yyjson_val *item)
{
    return yyjson_equals_str(yyjson_obj_get(item, "type"), "additional_tools");
}

struct openai_tool_name openai_tools_find(const struct gen_request *request, struct str flat)
{
    const struct conversation *talk = &request->conversation;

    for (size_t i = 0; i < talk->tools_count; i++) {
        const struct tool *tool = &talk->tools[i];
        size_t skip = tool->space.len + separator_of(tool->space).len;

        if (str_eq(tool->name, flat))
            return (struct openai_tool_name){tool->space, str_skip(flat, skip), tool->custom};
    }
    return (struct openai_tool_name){.name = flat};
}

/* ---- the list in a response ---- */

void openai_write_tools(struct json *json, yyjson_val *body)
{
    static const char *const keys[] = {"description", "parameters", "strict", NULL};
    size_t i, count;
    yyjson_val *tool;

    json_key_open(json, "tools", '[');
    yyjson_arr_foreach(yyjson_obj_get(body, "tools"), i, count, tool)
    {
        if (kind_of(tool) != TOOL_FUNCTION) {
            json_value(json, tool);
            continue;
        }
        json_open(json, '{');
        if (yyjson_obj_get(tool, "type") == NULL)
            json_key_text(json, "type", "function");
        json_members(json, tool, keys);
        for (size_t k = 0; keys[k] != NULL; k++) {
            json_key(json, keys[k]);
            json_value(json, yyjson_obj_get(tool, keys[k]));
        }
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* ---- calls of custom tools ---- */

void openai_write_input(struct json *json, struct str arguments)
{
    yyjson_read_err bad = {0};
    yyjson_doc *doc = arguments.len > 0 ? yyjson_read_opts((char *)(uintptr_t)arguments.ptr,
                                                           arguments.len, 0, json_alc(), &bad)
                                        : NULL;
    yyjson_val *input = yyjson_obj_get(yyjson_doc_get_root(doc), "input");

    /* Arguments that were truncated, or are not such an object, are passed on as written. */
    json_key_str(json, "input", yyjson_is_str(input) ? json_get_text(input) : arguments);
    yyjson_doc_free(doc);
    if (bad.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        json->out->err = ERR_NOMEM;
}

enum err openai_wrap_input(struct gen_request *request, struct str *text)
{
    struct buf wrapped;

    buf_init(&wrapped, request->arena.limit);
    struct json json = json_to(&wrapped);
    json_open(&json, '{');
    json_key_str(&json, "input", *text);
    json_close(&json, '}');
    return buf_move(&wrapped, &request->arena, text);
}

/* ---- the list for the model ---- */

static enum err read_list(struct gen_request *request, const struct json_reader *holder,
                          struct str space);

static enum err read_tool(struct gen_request *request, const struct json_reader *tool,
                          struct str space)
{
    struct str inside;

    switch (kind_of(tool->object)) {
    case TOOL_FUNCTION:
        return openai_read_function(request, tool, space, false);
    case TOOL_CUSTOM:
        return openai_read_function(request, tool, space, true);
    case TOOL_NAMESPACE:
        if (space.len > 0)
            return json_read_error(tool, "type", "is 'namespace', which cannot be in another one");
        TRY(openai_need_str(tool, "name", &inside));
        return read_list(request, tool, inside);
    case TOOL_OTHER:
        break;
    }
    return ERR_OK;
}

static enum err read_list(struct gen_request *request, const struct json_reader *holder,
                          struct str space)
{
    struct json_list list = json_list(holder, "tools");
    struct json_reader tool;
    yyjson_val *tools = NULL;

    TRY(json_read_array(holder, "tools", &tools));
    if (yyjson_arr_size(tools) > OPENAI_TOOLS_MAX)
        return json_read_error(holder, "tools", "must have at most %d entries", OPENAI_TOOLS_MAX);
    while (json_next(&list, &tool))
        TRY(read_tool(request, &tool, space));
    return list.err;
}

static enum err read_items(struct gen_request *request, const struct json_reader *body,
                           yyjson_val *items)
{
    yyjson_val *item;
    size_t i, count;

    yyjson_arr_foreach(items, i, count, item)
    {
        struct json_reader holder = {item, "", body->error, NULL, NULL};
        snprintf(holder.at, sizeof(holder.at), "input[%zu].", i);
        if (is_tools_item(item))
            TRY(read_list(request, &holder, STR_NONE));
    }
    return ERR_OK;
}

enum err openai_responses_read_tools(struct gen_request *request, const struct json_reader *body)
{
    yyjson_val *earlier = yyjson_doc_get_root(request->earlier);

    TRY(read_list(request, body, STR_NONE));
    TRY(read_items(request, body, yyjson_obj_get(earlier, "input")));
    return read_items(request, body, yyjson_obj_get(body->object, "input"));
}
