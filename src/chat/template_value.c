/* template_value.c: strings, contents and calls of a request as values. */
#include "chat/template_impl.h"

#include <yyjson.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/json_alc.h"
#include "base/json_scan.h"

/* The id of a call as the client knows it and as the template requires it. */
struct named_id {
    struct named_id *before;
    struct str id, name;
};

/* ---- small constructors ---- */

enum err shaper_fail_memory(struct shaper *s)
{
    enum err err = s->arena->err == ERR_NOMEM ? ERR_NOMEM : ERR_LIMIT;

    return err_set(s->info, err, "no room for the messages");
}

struct jinja_value shaper_client_text(struct shaper *s, struct str text)
{
    return jinja_str_from(text, s->next_origin++);
}

static enum err shaper_list(struct shaper *s, struct jinja_value *out)
{
    *out = jinja_list_new(s->arena);
    return out->kind != JINJA_MISSING ? ERR_OK : shaper_fail_memory(s);
}

enum err shaper_dict(struct shaper *s, struct jinja_value *out)
{
    *out = jinja_dict_new(s->arena);
    return out->kind != JINJA_MISSING ? ERR_OK : shaper_fail_memory(s);
}

static enum err add_to(struct shaper *s, struct jinja_value list, struct jinja_value item)
{
    return jinja_list_add(s->arena, list, item) ? ERR_OK : shaper_fail_memory(s);
}

enum err shaper_set(struct shaper *s, struct jinja_value dict, const char *key,
                    struct jinja_value value)
{
    return jinja_dict_set(s->arena, dict, jinja_str(str_from(key)), value) ? ERR_OK
                                                                           : shaper_fail_memory(s);
}

enum err shaper_convert(struct shaper *s, yyjson_val *json, struct jinja_value *out)
{
    enum err err = jinja_value_from_json(s->arena, json, &s->next_origin, out);

    return err == ERR_OK ? ERR_OK
                         : err_set(s->info, err, "no room for the messages, or nested too deep");
}

enum err shaper_take_text(struct shaper *s, struct buf *buf, struct str *out)
{
    enum err err = buf_move(buf, s->arena, out);

    return err == ERR_OK ? ERR_OK : err_set(s->info, err, "no room for a text");
}

enum err shaper_join(struct shaper *s, struct str a, struct str between, struct str b,
                     struct str *out)
{
    struct str pieces[] = {a, between, b};
    const struct texts texts = {pieces, COUNT_OF(pieces), a.len + between.len + b.len, true};

    return texts_join(&texts, s->arena, out) == ERR_OK ? ERR_OK : shaper_fail_memory(s);
}

/* ---- content ---- */

enum err shaper_flat_text(struct shaper *s, const struct message *message, struct str *out)
{
    return message_text(message, s->arena, STR("\n"), out) == ERR_OK ? ERR_OK
                                                                     : shaper_fail_memory(s);
}

/* One part, with the type that templates look for. */
static enum err add_part(struct shaper *s, struct jinja_value list, struct str text)
{
    struct jinja_value value;

    TRY(shaper_dict(s, &value));
    TRY(shaper_set(s, value, "type", jinja_str(STR("text"))));
    TRY(shaper_set(s, value, "text", shaper_client_text(s, text)));
    return add_to(s, list, value);
}

enum err shaper_content(struct shaper *s, const struct message *message, struct jinja_value *out)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    struct str text;

    /* Templates that support parts because of images often do so for users only. */
    bool parts = message->form == CONTENT_PARTS && caps->content_parts &&
                 (message->role == ROLE_USER || !caps->content_string);
    if (!parts && (message->form != CONTENT_TEXT || caps->content_string)) {
        TRY(shaper_flat_text(s, message, &text));
        *out = shaper_client_text(s, text);
        return ERR_OK;
    }
    TRY(shaper_list(s, out));
    for (size_t i = 0; i < message->parts_count; i++)
        TRY(add_part(s, *out, message->parts[i].text));
    return ERR_OK;
}

/* Content that is already a single text. */
enum err shaper_text(struct shaper *s, struct str text, struct jinja_value *out)
{
    if (s->tmpl->caps.content_string) {
        *out = shaper_client_text(s, text);
        return ERR_OK;
    }
    TRY(shaper_list(s, out));
    return add_part(s, *out, text);
}

/* ---- calls ---- */

static struct str find_name(const struct shaper *s, struct str id)
{
    for (const struct named_id *named = s->ids; named != NULL; named = named->before)
        if (str_eq(named->id, id))
            return named->name;
    return id;
}

/* Maps the id of a call to the name that the template shows instead of the function's. */
static enum err name_id(struct shaper *s, const struct tool_call *call)
{
    struct named_id *named = arena_alloc(s->arena, sizeof(*named));
    char *text =
        arena_printf(s->arena, "functions." STR_FMT ":%u", STR_ARG(call->name), s->id_count++);

    if (named == NULL || text == NULL)
        return shaper_fail_memory(s);
    *named = (struct named_id){s->ids, call->id, str_from(text)};
    s->ids = named;
    return ERR_OK;
}

/* Nine letters and digits derived from the id, for templates that accept nothing else. */
enum err shaper_id(struct shaper *s, struct str id, struct jinja_value *out)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[9];

    if (s->tmpl->caps.ids_named)
        id = find_name(s, id);
    if (s->tmpl->caps.ids_named || !s->tmpl->caps.ids_short) {
        *out = shaper_client_text(s, id);
        return ERR_OK;
    }
    struct hash256 hash = hash256_of(id.ptr, id.len);
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = digits[hash.bytes[i] % (sizeof(digits) - 1)];
    char *copy = arena_strdup(s->arena, (struct str){text, sizeof(text)});
    *out = shaper_client_text(s, (struct str){copy, sizeof(text)});
    return copy != NULL ? ERR_OK : shaper_fail_memory(s);
}

/* Arguments in the form that the template requires. Text that is not a JSON object stays text: it
 * is what the model wrote. */
static enum err arguments_value(struct shaper *s, struct str text, struct jinja_value *out)
{
    yyjson_alc memory = json_alc_arena(s->arena);

    if (s->tmpl->caps.arguments_object) {
        yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text.ptr, text.len,
                                           YYJSON_READ_BIGNUM_AS_RAW, &memory, NULL);
        yyjson_val *root = yyjson_doc_get_root(doc);
        if (yyjson_is_obj(root))
            return shaper_convert(s, root, out);
    }
    *out = shaper_client_text(s, text);
    return ERR_OK;
}

static enum err call_value(struct shaper *s, const struct tool_call *call, struct jinja_value *out)
{
    struct jinja_value function, value;

    TRY(shaper_dict(s, out));
    if (call->id.len > 0) {
        TRY(shaper_id(s, call->id, &value));
        TRY(shaper_set(s, *out, "id", value));
    }
    TRY(shaper_set(s, *out, "type", jinja_str(STR("function"))));
    TRY(shaper_dict(s, &function));
    TRY(shaper_set(s, function, "name", shaper_client_text(s, call->name)));
    TRY(arguments_value(s, call->arguments, &value));
    TRY(shaper_set(s, function, "arguments", value));
    return shaper_set(s, *out, "function", function);
}

enum err shaper_calls(struct shaper *s, const struct message *message, struct jinja_value *out)
{
    struct jinja_value call;

    TRY(shaper_list(s, out));
    for (size_t i = 0; i < message->calls_count; i++) {
        if (s->tmpl->caps.ids_named)
            TRY(name_id(s, &message->calls[i]));
        TRY(call_value(s, &message->calls[i], &call));
        TRY(add_to(s, *out, call));
    }
    return ERR_OK;
}

static void append_call(struct buf *buf, const struct tool_call *call)
{
    buf_append_str(buf,
                   buf->len > 0 ? "\n<tool_call>\n{\"name\": \"" : "<tool_call>\n{\"name\": \"");
    json_scan_escape(buf, call->name);
    buf_append_str(buf, "\", \"arguments\": ");
    buf_append(buf, call->arguments.ptr, call->arguments.len);
    buf_append_str(buf, "}\n</tool_call>");
}

/* The assistant's content and calls as one text. */
enum err shaper_calls_as_text(struct shaper *s, const struct message *message, struct str *out)
{
    struct str text;
    struct buf buf;

    TRY(shaper_flat_text(s, message, &text));
    buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
    buf_append(&buf, text.ptr, text.len);
    for (size_t i = 0; i < message->calls_count; i++)
        append_call(&buf, &message->calls[i]);
    return shaper_take_text(s, &buf, out);
}

/* ---- tools ---- */

/* Member names count as the client's text here: the preamble ends after the last of them. */
static enum err set_member(struct shaper *s, struct jinja_value dict, struct str key,
                           struct jinja_value value)
{
    return jinja_dict_set(s->arena, dict, shaper_client_text(s, key), value)
               ? ERR_OK
               : shaper_fail_memory(s);
}

static enum err set_text(struct shaper *s, struct jinja_value dict, struct str key, struct str text)
{
    return set_member(s, dict, key, shaper_client_text(s, text));
}

/* The schema of a tool, with properties where the template needs them. */
static enum err tool_parameters(struct shaper *s, const struct tool *tool, struct jinja_value *out)
{
    struct jinja_value properties;

    TRY(shaper_convert(s, tool->schema, out));
    if (!s->tmpl->caps.needs_properties || !yyjson_is_obj(tool->schema) ||
        yyjson_obj_get(tool->schema, "properties") != NULL)
        return ERR_OK;
    TRY(shaper_dict(s, &properties));
    return set_member(s, *out, STR("properties"), properties);
}

static enum err tool_value(struct shaper *s, const struct tool *tool, struct jinja_value *out)
{
    struct jinja_value function, schema;

    TRY(shaper_dict(s, out));
    TRY(shaper_dict(s, &function));
    TRY(set_text(s, *out, STR("type"), STR("function")));
    TRY(set_text(s, function, STR("name"), tool->name));
    if (tool->description.ptr != NULL || s->tmpl->caps.needs_description)
        TRY(set_text(s, function, STR("description"),
                     tool->description.ptr != NULL ? tool->description : STR("")));
    if (tool->schema != NULL) {
        TRY(tool_parameters(s, tool, &schema));
        TRY(set_member(s, function, STR("parameters"), schema));
    }
    if (tool->strict)
        TRY(set_member(s, function, STR("strict"), jinja_bool(true)));
    return set_member(s, *out, STR("function"), function);
}

enum err shaper_tools(struct shaper *s, struct jinja_value *out)
{
    struct jinja_value tool;

    TRY(shaper_list(s, out));
    for (size_t i = 0; i < s->request->tools_count; i++) {
        TRY(tool_value(s, &s->request->tools[i], &tool));
        TRY(add_to(s, *out, tool));
    }
    return ERR_OK;
}
