/*
 * template_shape.c: a request as values that the template understands.
 *
 * Features that a template does not support are expressed in other ways:
 *
 *      tools            -> a description in the system text            !caps.tools
 *      tool_calls       -> <tool_call>{...}</tool_call> in the content !caps.calls
 *      role tool        -> a user's <tool_response>...</tool_response> !caps.tool_role
 *      role system      -> the beginning of the next user's message    !caps.system
 *        several        -> one message                                 !caps.system_twice
 *        further on     -> the end of the user message before it, or
 *                          a separate one                            !caps.system_late
 *      user after tool  -> the end of the tool's message               !caps.user_after_tool
 *      parts            -> one text, a line each (always if not a user's) !caps.content_parts
 *
 * All strings of the request are numbered, so that the output shows where they went. Roles and
 * member names are not numbered, as they are not the client's text.
 */
#include <time.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/arena.h"
#include "base/json_write.h"
#include "chat/template_impl.h"

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

/* Our own message in place of one that the template does not support. */
static enum err add_text(struct shaper *s, const char *role, struct str text, struct chat_item item,
                         struct jinja_value *dict)
{
    struct jinja_value content;

    TRY(shaper_dict(s, dict));
    TRY(shaper_set(s, *dict, "role", jinja_str(str_from(role))));
    TRY(shaper_text(s, text, &content));
    TRY(shaper_set(s, *dict, "content", content));
    return add_item(s, *dict, item);
}

/* The calls, unless the template does not show calls. */
static enum err set_calls(struct shaper *s, struct jinja_value dict, const struct message *message)
{
    struct jinja_value calls;

    if (message->calls_count == 0 || !s->tmpl->caps.calls)
        return ERR_OK;
    TRY(shaper_calls(s, message, &calls));
    return shaper_set(s, dict, "tool_calls", calls);
}

/* Members besides role and content. Absent ones stay undefined, since templates test for that. */
static enum err set_members(struct shaper *s, struct jinja_value dict,
                            const struct message *message)
{
    struct jinja_value id;

    if (message->thought.ptr != NULL)
        TRY(shaper_set(s, dict, "reasoning_content", shaper_client_text(s, message->thought)));
    TRY(set_calls(s, dict, message));
    if (message->call_id.len > 0) {
        TRY(shaper_id(s, message->call_id, &id));
        TRY(shaper_set(s, dict, "tool_call_id", id));
    }
    if (message->name.len > 0)
        TRY(shaper_set(s, dict, "name", shaper_client_text(s, message->name)));
    return ERR_OK;
}

static enum err message_content(struct shaper *s, const struct message *message,
                                struct jinja_value *out)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    struct str text;

    if (message->calls_count > 0 && !caps->calls) {
        TRY(shaper_calls_as_text(s, message, &text));
        return shaper_text(s, text, out);
    }
    if (message->calls_count > 0 && caps->calls_no_content) {
        *out = jinja_none();
        return ERR_OK;
    }
    return shaper_content(s, message, out);
}

static enum err add_message(struct shaper *s, const struct message *message, struct chat_item item)
{
    struct jinja_value dict, content;

    TRY(shaper_dict(s, &dict));
    TRY(shaper_set(s, dict, "role", jinja_str(str_from(role_name(message->role)))));
    TRY(message_content(s, message, &content));
    TRY(shaper_set(s, dict, "content", content));
    TRY(set_members(s, dict, message));
    return add_item(s, dict, item);
}

/* System text is held back for the next user message. */
static enum err hold_back(struct shaper *s, struct str text)
{
    if (s->pending.len == 0) {
        s->pending = text;
        return ERR_OK;
    }
    return shaper_join(s, s->pending, STR("\n\n"), text, &s->pending);
}

/* Is the text of the next message appended to this one? */
static bool takes_next(const struct shaper *s, enum role role)
{
    const struct chat_caps *caps = &s->tmpl->caps;

    if (role == ROLE_USER)
        return s->next == ROLE_SYSTEM && !caps->system_late;
    return role == ROLE_TOOL && !caps->user_after_tool &&
           (s->next == ROLE_USER || (s->next == ROLE_SYSTEM && !caps->system_late));
}

/* The user message that begins with the system text. */
static enum err add_with_pending(struct shaper *s, const struct message *message,
                                 struct chat_item item)
{
    struct jinja_value dict;
    struct str text;

    TRY(shaper_flat_text(s, message, &text));
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

/* Text without its own message is appended to the previous message, or becomes a user message. Tool
 * results in user messages are treated the same way: several in a row, and the user's own text
 * after them, form one message, because templates without tool support expect users and assistants
 * to alternate. */
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

static enum err add_result(struct shaper *s, const struct message *message, struct chat_item item)
{
    struct str text;

    TRY(shaper_flat_text(s, message, &text));
    TRY(shaper_join(s, STR("<tool_response>\n"), text, STR("\n</tool_response>"), &text));
    return add_to_host(s, text, item);
}

/* System text must not move when the conversation continues: the text before it is what was cached
 * (keeps I106). */
static bool is_late_system(const struct shaper *s, struct chat_item item)
{
    return item.role == ROLE_SYSTEM && item.message >= s->shape->leading &&
           !s->tmpl->caps.system_late;
}

static enum err shape_message(struct shaper *s, const struct message *message,
                              struct chat_item item)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    struct str text;

    if (item.role == ROLE_TOOL && !caps->tool_role)
        return add_result(s, message, item);
    if (is_late_system(s, item) || (item.role == ROLE_USER && s->host.kind != JINJA_MISSING)) {
        TRY(shaper_flat_text(s, message, &text));
        return add_to_host(s, text, item);
    }
    if (item.role == ROLE_SYSTEM && !caps->system) {
        TRY(shaper_flat_text(s, message, &text));
        return hold_back(s, text);
    }
    s->host.kind = JINJA_MISSING;
    if (item.role == ROLE_USER && s->pending.len > 0)
        return add_with_pending(s, message, item);
    TRY(add_message(s, message, item));
    if (!takes_next(s, item.role))
        return ERR_OK;
    s->host = s->last;
    return shaper_flat_text(s, message, &s->host_text);
}

/* ---- tools ---- */

static enum err describe_tools(struct shaper *s, struct str *out)
{
    struct buf buf;

    buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
    buf_append_str(&buf, tools_begin);
    for (size_t i = 0; i < s->request->tools_count; i++) {
        struct json json = json_to(&buf);
        tool_write(&json, &s->request->tools[i]);
        buf_append_char(&buf, '\n');
    }
    buf_append_str(&buf, tools_end);
    return shaper_take_text(s, &buf, out);
}

static enum err hold_back_message(struct shaper *s, uint32_t message)
{
    struct str text;

    TRY(shaper_flat_text(s, &s->request->messages[message], &text));
    return hold_back(s, text);
}

/* The system text at the beginning, if the template cannot show the messages as they are: tools
 * that we describe come after the first message's text, and other messages after them. Sets *taken
 * to the number of messages in it. */
static enum err add_opening(struct shaper *s, uint32_t *taken)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    uint32_t leading = s->shape->leading;
    bool describe = s->request->tools_count > 0 && !caps->tools;
    struct chat_item item = {.role = ROLE_SYSTEM};
    struct jinja_value dict;
    struct str text;

    *taken = leading > 1 && !caps->system_twice ? leading : leading > 0 && describe;
    if (*taken == 0 && !describe)
        return ERR_OK;
    item.message = *taken > 0 ? 0 : CHAT_FROM_TOOLS;
    begin_source(s, item.message);
    if (*taken > 0)
        TRY(hold_back_message(s, 0));
    if (describe) {
        TRY(describe_tools(s, &text));
        TRY(hold_back(s, text));
    }
    for (uint32_t i = 1; i < *taken; i++)
        TRY(hold_back_message(s, i));
    if (!caps->system)
        return ERR_OK;
    text = s->pending;
    s->pending = STR_NONE;
    return add_text(s, "system", text, item, &dict);
}

static enum err shape_messages(struct shaper *s, size_t count)
{
    const struct message *messages = s->request->messages;
    struct chat_item item = {0};
    struct jinja_value dict;

    while (s->shape->leading < count && messages[s->shape->leading].role == ROLE_SYSTEM)
        s->shape->leading++;
    TRY(add_opening(s, &item.message));
    for (; item.message < count; item.message++) {
        bool more = item.message + 1 < s->request->messages_count;
        s->next = more ? messages[item.message + 1].role : ROLE_NONE;
        item.role = messages[item.message].role;
        begin_source(s, item.message);
        TRY(shape_message(s, &messages[item.message], item));
    }
    if (s->pending.len == 0)
        return ERR_OK;
    item.message--; /* system text with no message after it */
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

static enum err set_kwargs(struct shaper *s, struct jinja_value vars, yyjson_val *kwargs)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(kwargs);
    struct jinja_value value;

    for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter)) != NULL;) {
        if (is_reserved(json_get_text(key)))
            continue;
        TRY(shaper_convert(s, yyjson_obj_iter_get_val(key), &value));
        if (!jinja_dict_set(s->arena, vars, shaper_client_text(s, json_get_text(key)), value))
            return shaper_fail_memory(s);
    }
    return ERR_OK;
}

static enum err set_wishes(struct shaper *s, struct jinja_value vars)
{
    const struct chat_request *request = s->request;
    bool on = request->thinking == CHAT_THINKING_ON;

    begin_source(s, CHAT_FROM_ELSEWHERE);
    TRY(set_kwargs(s, vars, request->default_kwargs));
    if (request->thinking != CHAT_THINKING_DEFAULT) {
        TRY(shaper_set(s, vars, "enable_thinking", jinja_bool(on)));
        TRY(shaper_set(s, vars, "thinking", jinja_bool(on)));
    }
    if (request->reasoning_effort != NULL)
        TRY(shaper_set(s, vars, "reasoning_effort",
                       shaper_client_text(s, str_from(request->reasoning_effort))));
    return set_kwargs(s, vars, request->kwargs);
}

/* The date, in the form that a client of such a template would write. */
static enum err set_functions(struct shaper *s, struct jinja_value vars)
{
    struct str text = STR("[]");
    char date[64] = "";
    time_t now = (time_t)s->request->now_s;
    struct tm tm;
    struct buf buf;

    if (gmtime_r(&now, &tm) != NULL)
        strftime(date, sizeof(date), "%b %d %Y", &tm);
    char *copy = arena_strdup(s->arena, str_from(date));
    if (copy == NULL)
        return shaper_fail_memory(s);
    if (s->request->tools_count > 0) {
        buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
        struct json json = json_to(&buf);
        json_open(&json, '[');
        for (size_t i = 0; i < s->request->tools_count; i++)
            tool_write(&json, &s->request->tools[i]);
        json_close(&json, ']');
        TRY(shaper_take_text(s, &buf, &text));
    }
    TRY(shaper_set(s, vars, "functions", shaper_client_text(s, text)));
    return shaper_set(s, vars, "datetime", jinja_str(str_from(copy)));
}

static enum err set_tools(struct shaper *s, struct jinja_value vars)
{
    enum chat_tools_style style = s->tmpl->tools_style;
    struct jinja_value tools = jinja_none();
    bool given = s->tmpl->caps.tools && s->request->tools_count > 0;

    begin_source(s, CHAT_FROM_TOOLS);
    if (given)
        TRY(shaper_tools(s, &tools));
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
