/*
 * template_shape.c: a request as values that the template understands.
 *
 * What a template does not know is said in other words:
 *
 *      tools            -> a description in the system text            !caps.tools
 *      tool_calls       -> <tool_call>{...}</tool_call> in the content !caps.calls
 *      role tool        -> a user's <tool_response>...</tool_response> !caps.tool_role
 *      role system      -> the beginning of the next user's message    !caps.system
 *        further on     -> the end of the user's message before it, or one of its own    !caps.system_late
 *      user after tool  -> the end of the tool's message               !caps.user_after_tool
 *      role developer   -> system                                      !caps.developer
 *      parts            -> one text, a line each                       !caps.content_parts, and whoever is not the user
 *
 * Everything else is passed on as it is, except members that are null: templates ask whether a
 * member is there. All strings of the request get numbers, so that the output shows where they
 * went; roles that we know do not, as they are not the client's words but a choice among a few.
 */
#include <time.h>

#include "base/arena.h"
#include "chat/neutral.h"
#include "chat/template_value.h"

static const char tools_begin[] =
    "You can call tools. These are their signatures, as JSON, one a line:\n<tools>\n";
static const char tools_end[] =
    "</tools>\nTo call one, answer with its name and arguments as a JSON object, like this:\n"
    "<tool_call>\n{\"name\": \"the name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>";

/* ---- messages ---- */

static void begin_source(struct shaper *s, uint32_t message)
{
    s->shape->sources[s->shape->source_count++] = (struct chat_source){s->next_origin, message};
}

static enum err add_item(struct shaper *s, struct jinja_value dict, struct chat_item item)
{
    item.object = dict.dict;
    s->last = dict;
    s->shape->items[s->shape->item_count++] = item;
    return jinja_list_add(s->arena, s->list, dict) ? ERR_OK : shaper_fail_memory(s);
}

/* A message of ours in place of one that the template does not know. */
static enum err add_text(struct shaper *s, const char *role, struct str text, struct chat_item item,
                         struct jinja_value *dict)
{
    struct jinja_value content;

    *dict = jinja_dict_new(s->arena);
    if (dict->kind == JINJA_MISSING)
        return shaper_fail_memory(s);
    TRY(shaper_set(s, *dict, "role", jinja_str(str_from(role))));
    TRY(shaper_text(s, text, &content));
    TRY(shaper_set(s, *dict, "content", content));
    return add_item(s, *dict, item);
}

static struct jinja_value role_value(struct shaper *s, struct str role)
{
    if (str_eq(role, STR("developer")) && !s->tmpl->caps.developer)
        role = STR("system");
    return role_from(role) == ROLE_NONE ? shaper_client_text(s, role) : jinja_str(role);
}

/* Members besides role and content. */
static enum err set_member(struct shaper *s, struct jinja_value dict, yyjson_val *key,
                           yyjson_val *member)
{
    struct jinja_value value;

    if (yyjson_equals_str(key, "role") || yyjson_equals_str(key, "content") ||
        yyjson_is_null(member))
        return ERR_OK;
    if (yyjson_equals_str(key, "tool_calls") && yyjson_is_arr(member)) {
        if (yyjson_arr_size(member) == 0 || !s->tmpl->caps.calls)
            return ERR_OK;
        TRY(shaper_calls(s, member, &value));
    } else if (yyjson_equals_str(key, "tool_call_id")) {
        TRY(shaper_id(s, member, &value));
    } else {
        TRY(shaper_convert(s, member, &value));
    }
    return jinja_dict_set(s->arena, dict, shaper_client_text(s, json_text(key)), value)
               ? ERR_OK
               : shaper_fail_memory(s);
}

static enum err message_content(struct shaper *s, yyjson_val *message, enum role role,
                                struct jinja_value *out)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    bool calls = yyjson_arr_size(yyjson_obj_get(message, "tool_calls")) > 0;
    struct str text;

    if (calls && !caps->calls) {
        TRY(shaper_spoken_calls(s, message, &text));
        return shaper_text(s, text, out);
    }
    if (calls && caps->calls_no_content) {
        *out = jinja_none();
        return ERR_OK;
    }
    return shaper_content(s, yyjson_obj_get(message, "content"), role, out);
}

static enum err add_message(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    struct jinja_value dict = jinja_dict_new(s->arena), content;
    yyjson_obj_iter iter = yyjson_obj_iter_with(message);

    if (dict.kind == JINJA_MISSING)
        return shaper_fail_memory(s);
    TRY(shaper_set(s, dict, "role", role_value(s, json_text(yyjson_obj_get(message, "role")))));
    TRY(message_content(s, message, item.role, &content));
    TRY(shaper_set(s, dict, "content", content));
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter)) != NULL;)
        TRY(set_member(s, dict, key, yyjson_obj_iter_get_val(key)));
    return add_item(s, dict, item);
}

/* System text waits for the next user's message. */
static enum err hold_back(struct shaper *s, struct str text)
{
    if (s->pending.len == 0) {
        s->pending = text;
        return ERR_OK;
    }
    return shaper_join(s, s->pending, STR("\n\n"), text, &s->pending);
}

/* Is the text of the next message put behind that of this one? */
static bool takes_next(const struct shaper *s, enum role role)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    enum role next =
        s->next != NULL ? role_from(json_text(yyjson_obj_get(s->next, "role"))) : ROLE_NONE;

    if (role == ROLE_USER)
        return next == ROLE_SYSTEM && !caps->system_late;
    return role == ROLE_TOOL && !caps->user_after_tool &&
           (next == ROLE_USER || (next == ROLE_SYSTEM && !caps->system_late));
}

/* The user's message that begins with the system text. */
static enum err add_with_pending(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    struct jinja_value dict;
    struct str text;

    TRY(shaper_flat_text(s, yyjson_obj_get(message, "content"), item.role, &text));
    if (s->shape->item_count == 0)
        s->shape->folded = s->pending;
    TRY(shaper_join(s, s->pending, STR("\n\n"), text, &text));
    s->pending = STR_NONE;
    TRY(add_text(s, "user", text, item, &dict));
    if (takes_next(s, item.role)) {
        s->host = dict;
        s->host_text = text;
    }
    return ERR_OK;
}

/* Text that has no message of its own goes to the one before it, or becomes a user's. So do results
 * of a tool as words of the user; several in a row, and the user's own after them, are one message,
 * as templates that know no tools want users and assistants to take turns. */
static enum err add_to_host(struct shaper *s, struct str text, struct chat_item item)
{
    struct jinja_value content;

    if (s->host.kind == JINJA_MISSING) {
        s->host_text = text;
        return add_text(s, "user", text, item, &s->host);
    }
    TRY(shaper_join(s, s->host_text, STR("\n"), text, &s->host_text));
    TRY(shaper_text(s, s->host_text, &content));
    return shaper_set(s, s->host, "content", content);
}

static enum err add_result(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    struct str text;

    TRY(shaper_flat_text(s, yyjson_obj_get(message, "content"), item.role, &text));
    TRY(shaper_join(s, STR("<tool_response>\n"), text, STR("\n</tool_response>"), &text));
    return add_to_host(s, text, item);
}

/* System text must not move when the conversation goes on: the text before it is what was cached
 * (keeps I106). */
static bool is_late_system(const struct shaper *s, struct chat_item item)
{
    return item.role == ROLE_SYSTEM && item.message >= s->shape->leading &&
           !s->tmpl->caps.system_late;
}

static enum err shape_message(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    yyjson_val *content = yyjson_obj_get(message, "content");
    struct str text;

    if (item.role == ROLE_TOOL && !caps->tool_role)
        return add_result(s, message, item);
    if (is_late_system(s, item) || (item.role == ROLE_USER && s->host.kind != JINJA_MISSING)) {
        TRY(shaper_flat_text(s, content, item.role, &text));
        return add_to_host(s, text, item);
    }
    if (item.role == ROLE_SYSTEM && !caps->system) {
        TRY(shaper_flat_text(s, content, item.role, &text));
        return hold_back(s, text);
    }
    s->host.kind = JINJA_MISSING;
    if (item.role == ROLE_USER && s->pending.len > 0)
        return add_with_pending(s, message, item);
    TRY(add_message(s, message, item));
    if (!takes_next(s, item.role))
        return ERR_OK;
    s->host = s->last;
    return shaper_flat_text(s, content, item.role, &s->host_text);
}

static enum err role_of(struct shaper *s, yyjson_val *message, uint32_t index, enum role *out)
{
    yyjson_val *role = yyjson_obj_get(message, "role");

    *out = ROLE_NONE;
    if (!yyjson_is_str(role))
        return err_set(s->info, ERR_INVALID, "messages[%u] must be an object with a role", index);
    *out = role_from(json_text(role));
    return ERR_OK;
}

/* ---- tools ---- */

static enum err describe_tools(struct shaper *s, struct str *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(s->request->tools);
    struct buf buf;

    buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
    buf_append_str(&buf, tools_begin);
    for (yyjson_val *tool; (tool = yyjson_arr_iter_next(&iter)) != NULL;) {
        shaper_append_json(s, &buf, tool);
        buf_append_char(&buf, '\n');
    }
    buf_append_str(&buf, tools_end);
    return shaper_take_text(s, &buf, out);
}

/* Tools for a template that knows none, as system text: behind that of the first message, if it has
 * one. Says with *used whether the first message is done with. */
static enum err add_described_tools(struct shaper *s, yyjson_val *first, bool *used)
{
    struct chat_item item = {.message = CHAT_FROM_TOOLS, .role = ROLE_SYSTEM};
    struct jinja_value dict;
    struct str tools, text;

    *used = role_from(json_text(yyjson_obj_get(first, "role"))) == ROLE_SYSTEM;
    begin_source(s, *used ? 0 : CHAT_FROM_TOOLS);
    TRY(describe_tools(s, &tools));
    if (*used) {
        item.message = 0;
        TRY(shaper_flat_text(s, yyjson_obj_get(first, "content"), item.role, &text));
        TRY(shaper_join(s, text, STR("\n\n"), tools, &tools));
    }
    return s->tmpl->caps.system ? add_text(s, "system", tools, item, &dict) : hold_back(s, tools);
}

static enum err shape_messages(struct shaper *s, size_t count)
{
    struct chat_item item = {0};
    bool begun = false, leading = true;
    struct jinja_value dict;

    if (yyjson_arr_size(s->request->tools) > 0 && !s->tmpl->caps.tools)
        TRY(add_described_tools(s, yyjson_arr_get_first(s->request->messages), &begun));
    yyjson_arr_iter iter = yyjson_arr_iter_with(s->request->messages);
    for (yyjson_val *message;
         item.message < count && (message = yyjson_arr_iter_next(&iter)) != NULL; item.message++) {
        s->next = yyjson_arr_iter_has_next(&iter) ? iter.cur : NULL;
        TRY(role_of(s, message, item.message, &item.role));
        leading = leading && item.role == ROLE_SYSTEM;
        s->shape->leading += leading;
        if (begun && item.message == 0)
            continue;
        begin_source(s, item.message);
        TRY(shape_message(s, message, item));
    }
    if (s->pending.len == 0)
        return ERR_OK;
    item.message--; /* system text that nobody's message came after */
    return add_text(s, "user", s->pending, item, &dict);
}

/* ---- variables ---- */

static bool is_reserved(struct str name)
{
    static const char *const names[] = {"messages", "tools", "bos_token", "eos_token",
                                        "add_generation_prompt"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_eq(name, str_from(names[i])))
            return true;
    return false;
}

static enum err set_kwargs(struct shaper *s, struct jinja_value vars)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(s->request->kwargs);
    struct jinja_value value;

    begin_source(s, CHAT_FROM_ELSEWHERE);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter)) != NULL;) {
        if (is_reserved(json_text(key)))
            continue;
        TRY(shaper_convert(s, yyjson_obj_iter_get_val(key), &value));
        if (!jinja_dict_set(s->arena, vars, shaper_client_text(s, json_text(key)), value))
            return shaper_fail_memory(s);
    }
    return ERR_OK;
}

static enum err set_wishes(struct shaper *s, struct jinja_value vars)
{
    const struct chat_request *request = s->request;
    bool on = request->thinking == CHAT_THINKING_ON;

    if (request->thinking != CHAT_THINKING_DEFAULT) {
        TRY(shaper_set(s, vars, "enable_thinking", jinja_bool(on)));
        TRY(shaper_set(s, vars, "thinking", jinja_bool(on)));
    }
    begin_source(s, CHAT_FROM_ELSEWHERE);
    if (request->reasoning_effort != NULL)
        TRY(shaper_set(s, vars, "reasoning_effort",
                       shaper_client_text(s, str_from(request->reasoning_effort))));
    return set_kwargs(s, vars);
}

/* The date, as a client would write it who knows such a template. */
static enum err set_functions(struct shaper *s, struct jinja_value vars)
{
    int64_t now_s = s->request->neutral ? neutral_now(s->request->neutral, s->request->now_s)
                                        : s->request->now_s;
    struct str text = STR("[]");
    char date[64] = "";
    time_t now = (time_t)now_s;
    struct tm tm;
    struct buf buf;

    if (gmtime_r(&now, &tm) != NULL)
        strftime(date, sizeof(date), "%b %d %Y", &tm);
    char *copy = arena_strdup(s->arena, str_from(date));
    if (copy == NULL)
        return shaper_fail_memory(s);
    if (yyjson_arr_size(s->request->tools) > 0) {
        buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
        shaper_append_json(s, &buf, s->request->tools);
        TRY(shaper_take_text(s, &buf, &text));
    }
    TRY(shaper_set(s, vars, "functions", shaper_client_text(s, text)));
    return shaper_set(s, vars, "datetime", jinja_str(str_from(copy)));
}

static enum err set_tools(struct shaper *s, struct jinja_value vars)
{
    enum chat_tools_style style = s->tmpl->tools_style;
    struct jinja_value tools = jinja_none();
    bool given = s->tmpl->caps.tools && yyjson_arr_size(s->request->tools) > 0;

    begin_source(s, CHAT_FROM_TOOLS);
    if (given)
        TRY(shaper_convert(s, s->request->tools, &tools));
    if (given || style == CHAT_TOOLS_NONE)
        TRY(shaper_set(s, vars, "tools", tools));
    return style == CHAT_TOOLS_FUNCTIONS ? set_functions(s, vars) : ERR_OK;
}

static enum err set_vars(struct shaper *s, struct jinja_value vars)
{
    TRY(set_tools(s, vars));
    TRY(shaper_set(s, vars, "messages", s->list));
    TRY(shaper_set(s, vars, "documents", jinja_none()));
    TRY(shaper_set(s, vars, "bos_token", jinja_str(str_from(s->tmpl->bos))));
    TRY(shaper_set(s, vars, "eos_token", jinja_str(str_from(s->tmpl->eos))));
    TRY(shaper_set(s, vars, "add_generation_prompt",
                   jinja_bool(s->request->add_generation_prompt)));
    return set_wishes(s, vars);
}

enum err chat_shape_make(const struct chat_template *tmpl, const struct chat_request *request,
                         size_t count, struct arena *arena, struct chat_shape *out,
                         struct errinfo *info)
{
    struct shaper s = {.tmpl = tmpl,
                       .request = request,
                       .arena = arena,
                       .shape = out,
                       .next_origin = 1,
                       .info = info};

    *out = (struct chat_shape){0};
    out->items = arena_alloc_array(arena, count + 2, sizeof(*out->items));
    out->sources = arena_alloc_array(arena, count + 5, sizeof(*out->sources));
    out->vars = jinja_dict_new(arena);
    s.list = jinja_list_new(arena);
    if (out->items == NULL || out->sources == NULL || out->vars.kind == JINJA_MISSING ||
        s.list.kind == JINJA_MISSING)
        return shaper_fail_memory(&s);
    TRY(shape_messages(&s, count));
    return set_vars(&s, out->vars);
}

uint32_t chat_shape_message_of(const struct chat_shape *shape, uint32_t origin)
{
    size_t low = 0, high = shape->source_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (shape->sources[middle].first <= origin)
            low = middle;
        else
            high = middle;
    }
    return shape->sources[low].message;
}
