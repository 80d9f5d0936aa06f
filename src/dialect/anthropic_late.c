/*
 * anthropic_late.c: tools that are announced during a conversation.
 *
 * Agents with many tools mark most of them with defer_loading, and let the model search for the
 * ones it needs. A search result comes back as a reference, in the result of the client's own
 * search tool or in a system message; a tool of a server that was started later comes with its
 * whole definition:
 *
 *    tools                                       [{"name":"f",...},
 *                                                {"name":"g",...,"defer_loading":true}, ...]
 *    {"type":"tool_reference","tool_name":"g"}   in a tool_result
 *    {"type":"tool_addition","tool":{"type":"tool_reference","name":"g"}}  in a system message
 *    {"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"h",...}}}  same
 *    {"type":"tool_removal","tool":{"type":"tool_reference","name":"g"}}  likewise
 *
 * Templates write tools at the beginning of the prompt. A tool that first appeared there in the
 * third turn would invalidate the whole prefix. So a deferred tool is left out of `tools_shown`,
 * and its definition is written where the conversation mentions it: the prompt before that place
 * does not change (keeps I106). It may be called from then on; a tool that is never mentioned may
 * not.
 *
 * Deferring is ignored if the search would run on Anthropic's servers (tool_search_tool_*), or if
 * no tool would be left to search with: the model could then never discover the others.
 */
#include "dialect/anthropic_impl.h"

#include <stdlib.h>

#include "base/json_write.h"

/* ---- the tools by name ---- */

/* Sorts equal names in the order of the body. */
static int compare(const void *a, const void *b)
{
    const struct anthropic_late_tool *x = a, *y = b;
    int order = str_compare(x->name, y->name);

    return order != 0 ? order : (x->tool > y->tool) - (x->tool < y->tool);
}

static int compare_key(const void *key, const void *tool)
{
    return str_compare(*(const struct str *)key, ((const struct anthropic_late_tool *)tool)->name);
}

static struct anthropic_late_tool *find(const struct anthropic_late *late, struct str name)
{
    if (late->count == 0 || name.len == 0)
        return NULL;
    return bsearch(&name, late->tools, late->count, sizeof(*late->tools), compare_key);
}

static bool is_deferred(yyjson_val *tool)
{
    return yyjson_is_true(yyjson_obj_get(tool, "defer_loading"));
}

/* Does deferring make sense for this request? */
static bool can_defer(yyjson_val *tools)
{
    yyjson_val *tool;
    size_t i, max, shown = 0;

    yyjson_arr_foreach(tools, i, max, tool)
    {
        if (str_starts(json_get_text(yyjson_obj_get(tool, "type")), STR("tool_search_tool_")))
            return false;
        shown += !is_deferred(tool) && !anthropic_is_foreign_tool(tool);
    }
    return shown > 0;
}

static enum err gather_tools(struct anthropic_build *build, yyjson_val *tools)
{
    struct anthropic_late *late = &build->late;
    bool defer = can_defer(tools);
    yyjson_val *tool;
    size_t i, max;

    late->tools =
        arena_alloc_array(&build->request->arena, yyjson_arr_size(tools) + 1, sizeof(*late->tools));
    if (late->tools == NULL)
        return build->request->arena.err;
    yyjson_arr_foreach(tools, i, max, tool)
    {
        struct str name = json_get_text(yyjson_obj_get(tool, "name"));
        if (!yyjson_is_obj(tool) || name.len == 0 || anthropic_is_foreign_tool(tool))
            continue; /* skipped, or refused when it is written */
        late->tools[late->count++] = (struct anthropic_late_tool){
            .name = name, .tool = tool, .deferred = defer && is_deferred(tool)};
    }
    if (late->count > 0)
        qsort(late->tools, late->count, sizeof(*late->tools), compare);
    return ERR_OK;
}

/* ---- what the conversation mentions ---- */

static void mention(struct anthropic_late *late, struct str name)
{
    struct anthropic_late_tool *tool = find(late, name);

    if (tool != NULL)
        tool->mentioned = true;
}

static struct str reference_name(yyjson_val *reference)
{
    yyjson_val *name = yyjson_obj_get(reference, "tool_name");

    return json_get_text(name != NULL ? name : yyjson_obj_get(reference, "name"));
}

static enum err note_definition(struct anthropic_build *build, yyjson_val *definition)
{
    struct anthropic_late *late = &build->late;
    struct str name = json_get_text(yyjson_obj_get(definition, "name"));

    if (name.len == 0 || !yyjson_is_obj(yyjson_obj_get(definition, "input_schema")) ||
        find(late, name) != NULL)
        return ERR_OK; /* refused when it is announced, or already known */
    struct anthropic_late_tool *grown =
        arena_push(&build->request->arena, late->added, late->added_count, sizeof(*grown));
    if (grown == NULL)
        return build->request->arena.err;
    late->added = grown;
    late->added[late->added_count++] =
        (struct anthropic_late_tool){.name = name, .tool = definition};
    return ERR_OK;
}

/* A block of a message, or of the result of a tool. */
static enum err note_block(struct anthropic_build *build, yyjson_val *block)
{
    yyjson_val *tool = yyjson_obj_get(block, "tool");
    yyjson_val *definition = yyjson_obj_get(tool, "definition");

    if (yyjson_equals_str(yyjson_obj_get(block, "type"), "tool_reference"))
        mention(&build->late, reference_name(block));
    if (!yyjson_equals_str(yyjson_obj_get(block, "type"), "tool_addition"))
        return ERR_OK;
    mention(&build->late, reference_name(tool));
    return definition != NULL ? note_definition(build, definition) : ERR_OK;
}

static enum err note_blocks(struct anthropic_build *build, yyjson_val *blocks, bool inside)
{
    yyjson_val *block;
    size_t i, max;

    yyjson_arr_foreach(blocks, i, max, block)
    {
        TRY(note_block(build, block));
        if (!inside)
            TRY(note_blocks(build, yyjson_obj_get(block, "content"), true));
    }
    return ERR_OK;
}

/* Of several definitions of one name, the last one counts. */
static void drop_repeated(struct anthropic_late *late)
{
    size_t kept = 0;

    if (late->added_count == 0)
        return;
    qsort(late->added, late->added_count, sizeof(*late->added), compare);
    for (size_t i = 0; i < late->added_count; i++)
        if (i + 1 == late->added_count || !str_eq(late->added[i].name, late->added[i + 1].name))
            late->added[kept++] = late->added[i];
    late->added_count = kept;
}

enum err anthropic_late_read(struct anthropic_build *build, const struct json_reader *body)
{
    yyjson_val *messages = yyjson_obj_get(body->object, "messages"), *message;
    size_t i, max;

    TRY(gather_tools(build, yyjson_obj_get(body->object, "tools")));
    yyjson_arr_foreach(messages, i, max, message)
    {
        TRY(note_blocks(build, yyjson_obj_get(message, "content"), false));
    }
    mention(&build->late,
            json_get_text(yyjson_obj_get(yyjson_obj_get(body->object, "tool_choice"), "name")));
    drop_repeated(&build->late);
    return ERR_OK;
}

enum anthropic_when anthropic_late_when(const struct anthropic_build *build, yyjson_val *tool)
{
    const struct anthropic_late_tool *entry =
        find(&build->late, json_get_text(yyjson_obj_get(tool, "name")));

    if (entry == NULL || !entry->deferred)
        return ANTHROPIC_NOW;
    return entry->mentioned ? ANTHROPIC_LATE : ANTHROPIC_NEVER;
}

/* ---- announcements to the model ---- */

/* Our own sentence, in the arena. */
static enum err tell(struct anthropic_build *build, const char *before, struct str name,
                     const char *after, struct str *out)
{
    char *text =
        arena_printf(&build->request->arena, "%s" STR_FMT "%s", before, STR_ARG(name), after);

    *out = str_from(text);
    return text != NULL ? ERR_OK : build->request->arena.err;
}

static enum err tell_definition(struct anthropic_build *build, const struct json_reader *reader,
                                struct str *out)
{
    struct tool tool;
    struct buf text;

    TRY(anthropic_read_tool(build, reader, &tool));
    buf_init(&text, build->request->arena.limit);
    struct json json = json_to(&text);
    tool_write(&json, &tool);
    enum err err = text.err;
    if (err == ERR_OK)
        err = tell(build, "This tool can be called from now on: ", buf_text(&text), "", out);
    buf_fini(&text);
    return err;
}

static enum err tell_reference(struct anthropic_build *build, const struct json_reader *reference,
                               struct str *out)
{
    struct str name = reference_name(reference->object);
    const struct anthropic_late_tool *entry = find(&build->late, name);

    if (name.len == 0)
        return json_read_error(reference, "name", "is missing: it must be a string");
    if (entry != NULL && entry->deferred) {
        struct json_reader tool = *reference;
        tool.object = entry->tool;
        return tell_definition(build, &tool, out);
    }
    return tell(build, "The tool ", name, " can be called.", out);
}

static enum err tell_addition(struct anthropic_build *build, const struct json_reader *tool,
                              struct str *out)
{
    struct json_reader definition;

    TRY(json_read_nested(tool, "definition", &definition));
    return definition.object != NULL ? tell_definition(build, &definition, out)
                                     : tell_reference(build, tool, out);
}

/* The tool may still be called: the list must not change, and a client refuses calls it cannot
 * serve. */
static enum err tell_removal(struct anthropic_build *build, const struct json_reader *tool,
                             struct str *out)
{
    struct str name = reference_name(tool->object);

    if (name.len == 0)
        return json_read_error(tool, "name", "is missing: it must be a string");
    return tell(build, "The tool ", name, " cannot be called any more.", out);
}

enum err anthropic_late_tell(struct anthropic_build *build, const struct json_reader *block,
                             struct str type, struct str *out)
{
    struct json_reader tool;

    if (str_eq(type, STR("tool_reference")))
        return tell_reference(build, block, out);
    TRY(json_need_nested(block, "tool", &tool));
    return str_eq(type, STR("tool_addition")) ? tell_addition(build, &tool, out)
                                              : tell_removal(build, &tool, out);
}
