/*
 * template_shape.c: a request as values that the template understands.
 *
 * What a template does not know is said in other words:
 *
 *      tools            -> a description in the system text            !caps.tools
 *      tool_calls       -> <tool_call>{...}</tool_call> in the content !caps.calls
 *      role tool        -> a user's <tool_response>...</tool_response> !caps.tool_role
 *      role system      -> the beginning of the next user's message    !caps.system
 *      role developer   -> system                                      !caps.developer
 *      parts            -> one text, a line each                       !caps.content_parts, and whoever is not the user
 *
 * Everything else is passed on as it is, except members that are null: templates ask whether a member is there. All strings of
 * the request get numbers, so that the output shows where they went; roles that we know do not, as they are not the client's
 * words but a choice among a few.
 */
#include <string.h>
#include <time.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "prompt/json_scan.h"
#include "prompt/neutral.h"
#include "prompt/template_impl.h"

enum { TEXT_BYTES_MAX = 256 << 20 }; /* of joined text; the arena's limit is reached before */

static const char tools_begin[] =
    "You can call tools. These are their signatures, as JSON, one a line:\n<tools>\n";
static const char tools_end[] =
    "</tools>\nTo call one, answer with its name and arguments as a JSON object, like this:\n"
    "<tool_call>\n{\"name\": \"the name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>";

struct shaper {
    const struct chat_template *tmpl;
    const struct chat_request *request;
    struct arena *arena;
    struct chat_shape *shape;
    struct jinja_value list; /* the messages */
    uint32_t next_origin;
    struct str pending;      /* system text that waits for a user's message */
    struct jinja_value host; /* the user's message that results of tools are added to, else missing */
    struct str host_text;
    struct named_id *ids; /* the last one first; only for templates with caps.ids_named */
    unsigned id_count;
    struct errinfo *info;
};

/* The id of a call as the client knows it and as the template wants it. */
struct named_id {
    struct named_id *before;
    struct str id, name;
};

/* ---- small makers ---- */

static enum err fail_memory(struct shaper *s)
{
    enum err err = s->arena->err == ERR_NOMEM ? ERR_NOMEM : ERR_LIMIT;

    return err_set(s->info, err, "no room for the messages");
}

static struct jinja_value client_text(struct shaper *s, struct str text)
{
    return jinja_str_from(text, s->next_origin++);
}

static enum err set(struct shaper *s, struct jinja_value dict, const char *key,
                    struct jinja_value value)
{
    return jinja_dict_set(s->arena, dict, jinja_str(str_from(key)), value) ? ERR_OK : fail_memory(s);
}

static enum err convert(struct shaper *s, yyjson_val *json, struct jinja_value *out)
{
    enum err err = jinja_value_from_json(s->arena, json, &s->next_origin, out);

    return err == ERR_OK ? ERR_OK : err_set(s->info, err, "no room for the messages, or nested too deep");
}

static void begin_source(struct shaper *s, uint32_t message)
{
    s->shape->sources[s->shape->source_count++] = (struct chat_source){s->next_origin, message};
}

static struct str text_of(yyjson_val *json)
{
    return (struct str){yyjson_get_str(json), yyjson_get_len(json)};
}

/* Moves built text to the arena and frees the buffer. */
static enum err take_text(struct shaper *s, struct buf *buf, struct str *out)
{
    char *copy = buf->err == ERR_OK
                     ? arena_strdup(s->arena, (struct str){buf_str(buf), buf->len})
                     : NULL;

    *out = (struct str){copy, buf->len};
    enum err err = buf->err;
    buf_fini(buf);
    return copy != NULL ? ERR_OK : err != ERR_OK ? err_set(s->info, err, "no room for a text")
                                                 : fail_memory(s);
}

static void append(struct buf *buf, struct str text)
{
    buf_append(buf, text.ptr, text.len);
}

static enum err join(struct shaper *s, struct str a, struct str between, struct str b,
                     struct str *out)
{
    struct buf buf;

    buf_init(&buf, TEXT_BYTES_MAX);
    append(&buf, a);
    append(&buf, between);
    append(&buf, b);
    return take_text(s, &buf, out);
}

/* yyjson with the arena's memory: what it makes lives as long as the values that point into it. */
static void *json_alloc(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void *json_realloc(void *arena, void *ptr, size_t old_size, size_t size)
{
    return size <= old_size ? ptr : arena_grow(arena, ptr, old_size, size);
}

static void json_free(void *arena, void *ptr)
{
    (void)arena;
    (void)ptr;
}

static yyjson_alc json_memory(struct shaper *s)
{
    return (yyjson_alc){json_alloc, json_realloc, json_free, s->arena};
}

/* Borrowed from the arena; an empty text stands for no memory, and the buffer keeps that. */
static void append_json(struct shaper *s, struct buf *buf, yyjson_val *json)
{
    yyjson_alc memory = json_memory(s);
    size_t len = 0;
    char *text = yyjson_val_write_opts(json, YYJSON_WRITE_ALLOW_INF_AND_NAN, &memory, &len, NULL);

    if (text == NULL && buf->err == ERR_OK)
        buf->err = ERR_NOMEM;
    buf_append(buf, text, len);
}

/* ---- content ---- */

static enum err neutral_or_same(struct shaper *s, enum chat_role role, struct str text,
                                struct str *out)
{
    *out = text;
    if (s->request->neutral == NULL || role != CHAT_ROLE_SYSTEM)
        return ERR_OK;
    enum err err = neutral_text(s->request->neutral, s->arena, text, out);
    return err == ERR_OK ? ERR_OK : fail_memory(s);
}

static bool part_text(yyjson_val *part, struct str *out)
{
    yyjson_val *text = yyjson_is_str(part) ? part : yyjson_obj_get(part, "text");

    *out = text_of(text);
    return yyjson_is_str(text);
}

/* All text of a content, a line for each part. */
static enum err flat_text(struct shaper *s, yyjson_val *content, enum chat_role role,
                          struct str *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(content);
    struct str text;
    struct buf buf;
    size_t count = 0;

    *out = STR("");
    if (content == NULL || yyjson_is_null(content))
        return ERR_OK;
    if (yyjson_is_str(content))
        return neutral_or_same(s, role, text_of(content), out);
    if (!yyjson_is_arr(content))
        return err_set(s->info, ERR_INVALID, "content must be a string or a list of parts");
    buf_init(&buf, TEXT_BYTES_MAX);
    for (yyjson_val *part; (part = yyjson_arr_iter_next(&iter)) != NULL;) {
        if (!part_text(part, &text)) {
            buf_fini(&buf);
            return err_set(s->info, ERR_INVALID, "this model takes text only; a part of type '%.40s' is none",
                           yyjson_is_str(yyjson_obj_get(part, "type"))
                               ? yyjson_get_str(yyjson_obj_get(part, "type"))
                               : "?");
        }
        if (count++ > 0)
            buf_append_char(&buf, '\n');
        append(&buf, text);
    }
    TRY(take_text(s, &buf, &text));
    return neutral_or_same(s, role, text, out);
}

/* One part, with the type that templates look for; what is not text is passed on. */
static enum err add_part(struct shaper *s, struct jinja_value list, yyjson_val *part,
                         enum chat_role role)
{
    struct jinja_value value;
    struct str text;

    if (!part_text(part, &text)) {
        TRY(convert(s, part, &value));
    } else {
        TRY(neutral_or_same(s, role, text, &text));
        value = jinja_dict_new(s->arena);
        if (value.kind == JINJA_MISSING)
            return fail_memory(s);
        TRY(set(s, value, "type", jinja_str(STR("text"))));
        TRY(set(s, value, "text", client_text(s, text)));
    }
    return jinja_list_add(s->arena, list, value) ? ERR_OK : fail_memory(s);
}

static enum err parts_value(struct shaper *s, yyjson_val *content, enum chat_role role,
                            struct jinja_value *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(content);

    *out = jinja_list_new(s->arena);
    if (out->kind == JINJA_MISSING)
        return fail_memory(s);
    if (yyjson_is_str(content))
        return add_part(s, *out, content, role);
    for (yyjson_val *part; (part = yyjson_arr_iter_next(&iter)) != NULL;)
        TRY(add_part(s, *out, part, role));
    return ERR_OK;
}

static enum err content_value(struct shaper *s, yyjson_val *content, enum chat_role role,
                              struct jinja_value *out)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    struct str text;

    /* Templates that show parts for the sake of images often do so for users only. */
    bool parts = yyjson_is_arr(content) && caps->content_parts &&
                 (role == CHAT_ROLE_USER || !caps->content_string);
    if (parts || (yyjson_is_str(content) && !caps->content_string))
        return parts_value(s, content, role, out);
    TRY(flat_text(s, content, role, &text));
    *out = client_text(s, text);
    return ERR_OK;
}

/* A content that is one text already. */
static enum err text_value(struct shaper *s, struct str text, struct jinja_value *out)
{
    struct jinja_value part = jinja_dict_new(s->arena);

    *out = client_text(s, text);
    if (s->tmpl->caps.content_string)
        return ERR_OK;
    if (part.kind == JINJA_MISSING)
        return fail_memory(s);
    TRY(set(s, part, "type", jinja_str(STR("text"))));
    TRY(set(s, part, "text", *out));
    *out = jinja_list_new(s->arena);
    return out->kind != JINJA_MISSING && jinja_list_add(s->arena, *out, part) ? ERR_OK : fail_memory(s);
}

/* ---- calls ---- */

static struct str find_name(const struct shaper *s, struct str id)
{
    for (const struct named_id *named = s->ids; named != NULL; named = named->before)
        if (str_eq(named->id, id))
            return named->name;
    return id;
}

/* Gives the id of a call the name that the template shows instead of the function's. */
static enum err name_id(struct shaper *s, yyjson_val *call)
{
    struct str id = text_of(yyjson_obj_get(call, "id"));
    struct str name = text_of(yyjson_obj_get(yyjson_obj_get(call, "function"), "name"));
    struct named_id *named = arena_alloc(s->arena, sizeof(*named));
    char *text = arena_printf(s->arena, "functions." STR_FMT ":%u", STR_ARG(name), s->id_count++);

    if (named == NULL || text == NULL)
        return fail_memory(s);
    *named = (struct named_id){s->ids, id, str_from(text)};
    s->ids = named;
    return ERR_OK;
}

/* Nine letters and digits that depend on the id, where the template accepts nothing else. */
static enum err id_value(struct shaper *s, yyjson_val *id, struct jinja_value *out)
{
    if (s->tmpl->caps.ids_named && yyjson_is_str(id)) {
        *out = client_text(s, find_name(s, text_of(id)));
        return ERR_OK;
    }
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[9];

    if (!s->tmpl->caps.ids_short || !yyjson_is_str(id))
        return convert(s, id, out);
    struct hash256 hash = hash256_of(yyjson_get_str(id), yyjson_get_len(id));
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = digits[hash.bytes[i] % (sizeof(digits) - 1)];
    char *copy = arena_strdup(s->arena, (struct str){text, sizeof(text)});
    *out = client_text(s, (struct str){copy, sizeof(text)});
    return copy != NULL ? ERR_OK : fail_memory(s);
}

/* Arguments in the form that the template wants. Text that is not a JSON object stays text: it is what the model wrote. */
static enum err arguments_value(struct shaper *s, yyjson_val *json, struct jinja_value *out)
{
    bool wants_object = s->tmpl->caps.arguments_object;
    yyjson_alc memory = json_memory(s);
    struct str text;
    struct buf buf;

    if (yyjson_is_obj(json) && !wants_object) {
        buf_init(&buf, TEXT_BYTES_MAX);
        append_json(s, &buf, json);
        TRY(take_text(s, &buf, &text));
        *out = client_text(s, text);
        return ERR_OK;
    }
    if (!yyjson_is_str(json) || !wants_object)
        return convert(s, json, out);
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)yyjson_get_str(json), yyjson_get_len(json),
                                       YYJSON_READ_BIGNUM_AS_RAW, &memory, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    return convert(s, yyjson_is_obj(root) ? root : json, out);
}

/* A call, or the function in it. */
static enum err call_value(struct shaper *s, yyjson_val *json, struct jinja_value *out)
{
    yyjson_obj_iter iter = yyjson_obj_iter_with(json);
    struct jinja_value value;

    if (!yyjson_is_obj(json))
        return err_set(s->info, ERR_INVALID, "a tool call must be an object");
    *out = jinja_dict_new(s->arena);
    if (out->kind == JINJA_MISSING)
        return fail_memory(s);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter)) != NULL;) {
        yyjson_val *member = yyjson_obj_iter_get_val(key);
        if (yyjson_equals_str(key, "arguments"))
            TRY(arguments_value(s, member, &value));
        else if (yyjson_equals_str(key, "id"))
            TRY(id_value(s, member, &value));
        else if (yyjson_equals_str(key, "function") && yyjson_is_obj(member))
            TRY(call_value(s, member, &value));
        else
            TRY(convert(s, member, &value));
        if (!jinja_dict_set(s->arena, *out, client_text(s, text_of(key)), value))
            return fail_memory(s);
    }
    return ERR_OK;
}

static enum err calls_value(struct shaper *s, yyjson_val *calls, struct jinja_value *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(calls);
    struct jinja_value call;

    *out = jinja_list_new(s->arena);
    if (out->kind == JINJA_MISSING)
        return fail_memory(s);
    for (yyjson_val *json; (json = yyjson_arr_iter_next(&iter)) != NULL;) {
        if (s->tmpl->caps.ids_named)
            TRY(name_id(s, json));
        TRY(call_value(s, json, &call));
        if (!jinja_list_add(s->arena, *out, call))
            return fail_memory(s);
    }
    return ERR_OK;
}

static void append_call(struct shaper *s, struct buf *buf, yyjson_val *call)
{
    yyjson_val *function = yyjson_obj_get(call, "function");
    yyjson_val *arguments = yyjson_obj_get(function, "arguments");

    buf_append_str(buf, buf->len > 0 ? "\n<tool_call>\n{\"name\": \"" : "<tool_call>\n{\"name\": \"");
    json_scan_escape(buf, text_of(yyjson_obj_get(function, "name")));
    buf_append_str(buf, "\", \"arguments\": ");
    if (yyjson_is_str(arguments))
        append(buf, text_of(arguments));
    else if (yyjson_is_obj(arguments))
        append_json(s, buf, arguments);
    else
        buf_append_str(buf, "{}");
    buf_append_str(buf, "}\n</tool_call>");
}

/* What the assistant said and the calls it made, in one text. */
static enum err spoken_calls(struct shaper *s, yyjson_val *message, struct str *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(message, "tool_calls"));
    struct str text;
    struct buf buf;

    TRY(flat_text(s, yyjson_obj_get(message, "content"), CHAT_ROLE_ASSISTANT, &text));
    buf_init(&buf, TEXT_BYTES_MAX);
    append(&buf, text);
    for (yyjson_val *call; (call = yyjson_arr_iter_next(&iter)) != NULL;)
        append_call(s, &buf, call);
    return take_text(s, &buf, out);
}

/* ---- messages ---- */

static enum err add_item(struct shaper *s, struct jinja_value dict, struct chat_item item)
{
    item.object = dict.dict;
    s->shape->items[s->shape->item_count++] = item;
    return jinja_list_add(s->arena, s->list, dict) ? ERR_OK : fail_memory(s);
}

/* A message of ours in place of one that the template does not know. */
static enum err add_text(struct shaper *s, const char *role, struct str text, struct chat_item item,
                         struct jinja_value *dict)
{
    struct jinja_value content;

    *dict = jinja_dict_new(s->arena);
    if (dict->kind == JINJA_MISSING)
        return fail_memory(s);
    TRY(set(s, *dict, "role", jinja_str(str_from(role))));
    TRY(text_value(s, text, &content));
    TRY(set(s, *dict, "content", content));
    return add_item(s, *dict, item);
}

static struct jinja_value role_value(struct shaper *s, struct str role)
{
    if (str_eq(role, STR("developer")) && !s->tmpl->caps.developer)
        role = STR("system");
    return chat_role_from(role) == CHAT_ROLE_OTHER ? client_text(s, role) : jinja_str(role);
}

/* Members besides role and content. */
static enum err set_member(struct shaper *s, struct jinja_value dict, yyjson_val *key,
                           yyjson_val *member)
{
    struct jinja_value value;

    if (yyjson_equals_str(key, "role") || yyjson_equals_str(key, "content") || yyjson_is_null(member))
        return ERR_OK;
    if (yyjson_equals_str(key, "tool_calls") && yyjson_is_arr(member)) {
        if (yyjson_arr_size(member) == 0 || !s->tmpl->caps.calls)
            return ERR_OK;
        TRY(calls_value(s, member, &value));
    } else if (yyjson_equals_str(key, "tool_call_id")) {
        TRY(id_value(s, member, &value));
    } else {
        TRY(convert(s, member, &value));
    }
    return jinja_dict_set(s->arena, dict, client_text(s, text_of(key)), value) ? ERR_OK
                                                                              : fail_memory(s);
}

static enum err message_content(struct shaper *s, yyjson_val *message, enum chat_role role,
                                struct jinja_value *out)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    bool calls = yyjson_arr_size(yyjson_obj_get(message, "tool_calls")) > 0;
    struct str text;

    if (calls && !caps->calls) {
        TRY(spoken_calls(s, message, &text));
        return text_value(s, text, out);
    }
    if (calls && caps->calls_no_content) {
        *out = jinja_none();
        return ERR_OK;
    }
    return content_value(s, yyjson_obj_get(message, "content"), role, out);
}

static enum err add_message(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    struct jinja_value dict = jinja_dict_new(s->arena), content;
    yyjson_obj_iter iter = yyjson_obj_iter_with(message);

    if (dict.kind == JINJA_MISSING)
        return fail_memory(s);
    TRY(set(s, dict, "role", role_value(s, text_of(yyjson_obj_get(message, "role")))));
    TRY(message_content(s, message, item.role, &content));
    TRY(set(s, dict, "content", content));
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
    return join(s, s->pending, STR("\n\n"), text, &s->pending);
}

/* The user's message that begins with the system text. */
static enum err add_with_pending(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    struct jinja_value dict;
    struct str text;

    TRY(flat_text(s, yyjson_obj_get(message, "content"), item.role, &text));
    if (s->shape->item_count == 0)
        s->shape->folded = s->pending;
    TRY(join(s, s->pending, STR("\n\n"), text, &text));
    s->pending = STR_NONE;
    return add_text(s, "user", text, item, &dict);
}

/* A result of a tool as words of the user; several in a row, and the user's own after them, are one message, as templates that
 * know no tools want users and assistants to take turns. */
static enum err add_to_host(struct shaper *s, struct str text, struct chat_item item)
{
    struct jinja_value content;

    if (s->host.kind == JINJA_MISSING) {
        s->host_text = text;
        return add_text(s, "user", text, item, &s->host);
    }
    TRY(join(s, s->host_text, STR("\n"), text, &s->host_text));
    TRY(text_value(s, s->host_text, &content));
    return set(s, s->host, "content", content);
}

static enum err add_result(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    struct str text;

    TRY(flat_text(s, yyjson_obj_get(message, "content"), item.role, &text));
    TRY(join(s, STR("<tool_response>\n"), text, STR("\n</tool_response>"), &text));
    return add_to_host(s, text, item);
}

static enum err shape_message(struct shaper *s, yyjson_val *message, struct chat_item item)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    struct str text;

    if (item.role == CHAT_ROLE_SYSTEM && !caps->system) {
        TRY(flat_text(s, yyjson_obj_get(message, "content"), item.role, &text));
        return hold_back(s, text);
    }
    if (item.role == CHAT_ROLE_TOOL && !caps->tool_role)
        return add_result(s, message, item);
    if (item.role == CHAT_ROLE_USER && s->host.kind != JINJA_MISSING) {
        TRY(flat_text(s, yyjson_obj_get(message, "content"), item.role, &text));
        return add_to_host(s, text, item);
    }
    s->host.kind = JINJA_MISSING;
    if (item.role == CHAT_ROLE_USER && s->pending.len > 0)
        return add_with_pending(s, message, item);
    return add_message(s, message, item);
}

static enum err role_of(struct shaper *s, yyjson_val *message, uint32_t index, enum chat_role *out)
{
    yyjson_val *role = yyjson_obj_get(message, "role");

    *out = CHAT_ROLE_OTHER;
    if (!yyjson_is_str(role))
        return err_set(s->info, ERR_INVALID, "messages[%u] must be an object with a role", index);
    *out = chat_role_from(text_of(role));
    return ERR_OK;
}

/* ---- tools ---- */

static enum err describe_tools(struct shaper *s, struct str *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(s->request->tools);
    struct buf buf;

    buf_init(&buf, TEXT_BYTES_MAX);
    buf_append_str(&buf, tools_begin);
    for (yyjson_val *tool; (tool = yyjson_arr_iter_next(&iter)) != NULL;) {
        append_json(s, &buf, tool);
        buf_append_char(&buf, '\n');
    }
    buf_append_str(&buf, tools_end);
    return take_text(s, &buf, out);
}

/* Tools for a template that knows none, as system text: behind that of the first message, if it has one. Says with *used
 * whether the first message is done with. */
static enum err add_described_tools(struct shaper *s, yyjson_val *first, bool *used)
{
    struct chat_item item = {.message = CHAT_FROM_TOOLS, .role = CHAT_ROLE_SYSTEM};
    struct jinja_value dict;
    struct str tools, text;

    *used = chat_role_from(text_of(yyjson_obj_get(first, "role"))) == CHAT_ROLE_SYSTEM;
    begin_source(s, *used ? 0 : CHAT_FROM_TOOLS);
    TRY(describe_tools(s, &tools));
    if (*used) {
        item.message = 0;
        TRY(flat_text(s, yyjson_obj_get(first, "content"), item.role, &text));
        TRY(join(s, text, STR("\n\n"), tools, &tools));
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
    for (yyjson_val *message; item.message < count && (message = yyjson_arr_iter_next(&iter)) != NULL;
         item.message++) {
        TRY(role_of(s, message, item.message, &item.role));
        leading = leading && item.role == CHAT_ROLE_SYSTEM;
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
        if (is_reserved(text_of(key)))
            continue;
        TRY(convert(s, yyjson_obj_iter_get_val(key), &value));
        if (!jinja_dict_set(s->arena, vars, client_text(s, text_of(key)), value))
            return fail_memory(s);
    }
    return ERR_OK;
}

static enum err set_wishes(struct shaper *s, struct jinja_value vars)
{
    const struct chat_request *request = s->request;
    bool on = request->thinking == CHAT_THINKING_ON;

    if (request->thinking != CHAT_THINKING_DEFAULT) {
        TRY(set(s, vars, "enable_thinking", jinja_bool(on)));
        TRY(set(s, vars, "thinking", jinja_bool(on)));
    }
    begin_source(s, CHAT_FROM_ELSEWHERE);
    if (request->reasoning_effort != NULL)
        TRY(set(s, vars, "reasoning_effort", client_text(s, str_from(request->reasoning_effort))));
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
        return fail_memory(s);
    if (yyjson_arr_size(s->request->tools) > 0) {
        buf_init(&buf, TEXT_BYTES_MAX);
        append_json(s, &buf, s->request->tools);
        TRY(take_text(s, &buf, &text));
    }
    TRY(set(s, vars, "functions", client_text(s, text)));
    return set(s, vars, "datetime", jinja_str(str_from(copy)));
}

static enum err set_tools(struct shaper *s, struct jinja_value vars)
{
    enum chat_tools_style style = s->tmpl->tools_style;
    struct jinja_value tools = jinja_none();
    bool given = s->tmpl->caps.tools && yyjson_arr_size(s->request->tools) > 0;

    begin_source(s, CHAT_FROM_TOOLS);
    if (given)
        TRY(convert(s, s->request->tools, &tools));
    if (given || style == CHAT_TOOLS_NONE)
        TRY(set(s, vars, "tools", tools));
    return style == CHAT_TOOLS_FUNCTIONS ? set_functions(s, vars) : ERR_OK;
}

static enum err set_vars(struct shaper *s, struct jinja_value vars)
{
    TRY(set_tools(s, vars));
    TRY(set(s, vars, "messages", s->list));
    TRY(set(s, vars, "documents", jinja_none()));
    TRY(set(s, vars, "bos_token", jinja_str(str_from(s->tmpl->bos))));
    TRY(set(s, vars, "eos_token", jinja_str(str_from(s->tmpl->eos))));
    TRY(set(s, vars, "add_generation_prompt", jinja_bool(s->request->add_generation_prompt)));
    return set_wishes(s, vars);
}

enum err chat_shape_make(const struct chat_template *tmpl, const struct chat_request *request,
                         size_t count, struct arena *arena, struct chat_shape *out,
                         struct errinfo *info)
{
    struct shaper s = {.tmpl = tmpl, .request = request, .arena = arena, .shape = out,
                       .next_origin = 1, .info = info};

    *out = (struct chat_shape){0};
    out->items = arena_alloc_array(arena, count + 2, sizeof(*out->items));
    out->sources = arena_alloc_array(arena, count + 5, sizeof(*out->sources));
    out->vars = jinja_dict_new(arena);
    s.list = jinja_list_new(arena);
    if (out->items == NULL || out->sources == NULL || out->vars.kind == JINJA_MISSING ||
        s.list.kind == JINJA_MISSING)
        return fail_memory(&s);
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
