/*
 * template_value.c: see template_value.h.
 */
#include "chat/template_value.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/json_scan.h"
#include "chat/neutral.h"

/* The id of a call as the client knows it and as the template wants it. */
struct named_id {
    struct named_id *before;
    struct str id, name;
};

/* ---- small makers ---- */

enum err shaper_fail_memory(struct shaper *s)
{
    enum err err = s->arena->err == ERR_NOMEM ? ERR_NOMEM : ERR_LIMIT;

    return err_set(s->info, err, "no room for the messages");
}

struct jinja_value shaper_client_text(struct shaper *s, struct str text)
{
    return jinja_str_from(text, s->next_origin++);
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

/* Moves built text to the arena and frees the buffer. */
enum err shaper_take_text(struct shaper *s, struct buf *buf, struct str *out)
{
    char *copy =
        buf->err == ERR_OK ? arena_strdup(s->arena, (struct str){buf_str(buf), buf->len}) : NULL;

    *out = (struct str){copy, buf->len};
    enum err err = buf->err;
    buf_fini(buf);
    return copy != NULL    ? ERR_OK
           : err != ERR_OK ? err_set(s->info, err, "no room for a text")
                           : shaper_fail_memory(s);
}

enum err shaper_join(struct shaper *s, struct str a, struct str between, struct str b,
                     struct str *out)
{
    struct buf buf;

    buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
    append_str(&buf, a);
    append_str(&buf, between);
    append_str(&buf, b);
    return shaper_take_text(s, &buf, out);
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
void shaper_append_json(struct shaper *s, struct buf *buf, yyjson_val *json)
{
    yyjson_alc memory = json_memory(s);
    size_t len = 0;
    char *text = yyjson_val_write_opts(json, YYJSON_WRITE_ALLOW_INF_AND_NAN, &memory, &len, NULL);

    if (text == NULL && buf->err == ERR_OK)
        buf->err = s->arena->err == ERR_OK ? ERR_NOMEM : s->arena->err;
    buf_append(buf, text, len);
}

/* ---- content ---- */

static enum err neutral_or_same(struct shaper *s, enum role role, struct str text, struct str *out)
{
    *out = text;
    if (s->request->neutral == NULL || role != ROLE_SYSTEM)
        return ERR_OK;
    enum err err = neutral_text(s->request->neutral, s->arena, text, out);
    return err == ERR_OK ? ERR_OK : shaper_fail_memory(s);
}

static bool part_text(yyjson_val *part, struct str *out)
{
    yyjson_val *text = yyjson_is_str(part) ? part : yyjson_obj_get(part, "text");

    *out = json_text(text);
    return yyjson_is_str(text);
}

/* All text of a content, a line for each part. */
enum err shaper_flat_text(struct shaper *s, yyjson_val *content, enum role role, struct str *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(content);
    struct str text;
    struct buf buf;
    size_t count = 0;

    *out = STR("");
    if (content == NULL || yyjson_is_null(content))
        return ERR_OK;
    if (yyjson_is_str(content))
        return neutral_or_same(s, role, json_text(content), out);
    if (!yyjson_is_arr(content))
        return err_set(s->info, ERR_INVALID, "content must be a string or a list of parts");
    buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
    for (yyjson_val *part; (part = yyjson_arr_iter_next(&iter)) != NULL;) {
        if (!part_text(part, &text)) {
            buf_fini(&buf);
            return err_set(s->info, ERR_INVALID,
                           "this model takes text only; a part of type '%.40s' is none",
                           yyjson_is_str(yyjson_obj_get(part, "type"))
                               ? yyjson_get_str(yyjson_obj_get(part, "type"))
                               : "?");
        }
        if (count++ > 0)
            buf_append_char(&buf, '\n');
        append_str(&buf, text);
    }
    TRY(shaper_take_text(s, &buf, &text));
    return neutral_or_same(s, role, text, out);
}

/* One part, with the type that templates look for; what is not text is passed on. */
static enum err add_part(struct shaper *s, struct jinja_value list, yyjson_val *part,
                         enum role role)
{
    struct jinja_value value;
    struct str text;

    if (!part_text(part, &text)) {
        TRY(shaper_convert(s, part, &value));
    } else {
        TRY(neutral_or_same(s, role, text, &text));
        value = jinja_dict_new(s->arena);
        if (value.kind == JINJA_MISSING)
            return shaper_fail_memory(s);
        TRY(shaper_set(s, value, "type", jinja_str(STR("text"))));
        TRY(shaper_set(s, value, "text", shaper_client_text(s, text)));
    }
    return jinja_list_add(s->arena, list, value) ? ERR_OK : shaper_fail_memory(s);
}

static enum err parts_value(struct shaper *s, yyjson_val *content, enum role role,
                            struct jinja_value *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(content);

    *out = jinja_list_new(s->arena);
    if (out->kind == JINJA_MISSING)
        return shaper_fail_memory(s);
    if (yyjson_is_str(content))
        return add_part(s, *out, content, role);
    for (yyjson_val *part; (part = yyjson_arr_iter_next(&iter)) != NULL;)
        TRY(add_part(s, *out, part, role));
    return ERR_OK;
}

enum err shaper_content(struct shaper *s, yyjson_val *content, enum role role,
                        struct jinja_value *out)
{
    const struct chat_caps *caps = &s->tmpl->caps;
    struct str text;

    /* Templates that show parts for the sake of images often do so for users only. */
    bool parts = yyjson_is_arr(content) && caps->content_parts &&
                 (role == ROLE_USER || !caps->content_string);
    if (parts || (yyjson_is_str(content) && !caps->content_string))
        return parts_value(s, content, role, out);
    TRY(shaper_flat_text(s, content, role, &text));
    *out = shaper_client_text(s, text);
    return ERR_OK;
}

/* A content that is one text already. */
enum err shaper_text(struct shaper *s, struct str text, struct jinja_value *out)
{
    struct jinja_value part;

    *out = shaper_client_text(s, text);
    if (s->tmpl->caps.content_string)
        return ERR_OK;
    part = jinja_dict_new(s->arena);
    if (part.kind == JINJA_MISSING)
        return shaper_fail_memory(s);
    TRY(shaper_set(s, part, "type", jinja_str(STR("text"))));
    TRY(shaper_set(s, part, "text", *out));
    *out = jinja_list_new(s->arena);
    return out->kind != JINJA_MISSING && jinja_list_add(s->arena, *out, part)
               ? ERR_OK
               : shaper_fail_memory(s);
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
    struct str id = json_text(yyjson_obj_get(call, "id"));
    struct str name = json_text(yyjson_obj_get(yyjson_obj_get(call, "function"), "name"));
    struct named_id *named = arena_alloc(s->arena, sizeof(*named));
    char *text = arena_printf(s->arena, "functions." STR_FMT ":%u", STR_ARG(name), s->id_count++);

    if (named == NULL || text == NULL)
        return shaper_fail_memory(s);
    *named = (struct named_id){s->ids, id, str_from(text)};
    s->ids = named;
    return ERR_OK;
}

/* Nine letters and digits that depend on the id, where the template accepts nothing else. */
enum err shaper_id(struct shaper *s, yyjson_val *id, struct jinja_value *out)
{
    if (s->tmpl->caps.ids_named && yyjson_is_str(id)) {
        *out = shaper_client_text(s, find_name(s, json_text(id)));
        return ERR_OK;
    }
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char text[9];

    if (!s->tmpl->caps.ids_short || !yyjson_is_str(id))
        return shaper_convert(s, id, out);
    struct hash256 hash = hash256_of(yyjson_get_str(id), yyjson_get_len(id));
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = digits[hash.bytes[i] % (sizeof(digits) - 1)];
    char *copy = arena_strdup(s->arena, (struct str){text, sizeof(text)});
    *out = shaper_client_text(s, (struct str){copy, sizeof(text)});
    return copy != NULL ? ERR_OK : shaper_fail_memory(s);
}

/* Arguments in the form that the template wants. Text that is not a JSON object stays text: it is
 * what the model wrote. */
static enum err arguments_value(struct shaper *s, yyjson_val *json, struct jinja_value *out)
{
    bool wants_object = s->tmpl->caps.arguments_object;
    yyjson_alc memory = json_memory(s);
    struct str text;
    struct buf buf;

    if (yyjson_is_obj(json) && !wants_object) {
        buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
        shaper_append_json(s, &buf, json);
        TRY(shaper_take_text(s, &buf, &text));
        *out = shaper_client_text(s, text);
        return ERR_OK;
    }
    if (!yyjson_is_str(json) || !wants_object)
        return shaper_convert(s, json, out);
    yyjson_doc *doc =
        yyjson_read_opts((char *)(uintptr_t)yyjson_get_str(json), yyjson_get_len(json),
                         YYJSON_READ_BIGNUM_AS_RAW, &memory, NULL);
    yyjson_val *root = yyjson_doc_get_root(doc);
    return shaper_convert(s, yyjson_is_obj(root) ? root : json, out);
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
        return shaper_fail_memory(s);
    for (yyjson_val *key; (key = yyjson_obj_iter_next(&iter)) != NULL;) {
        yyjson_val *member = yyjson_obj_iter_get_val(key);
        if (yyjson_equals_str(key, "arguments"))
            TRY(arguments_value(s, member, &value));
        else if (yyjson_equals_str(key, "id"))
            TRY(shaper_id(s, member, &value));
        else if (yyjson_equals_str(key, "function") && yyjson_is_obj(member))
            TRY(call_value(s, member, &value));
        else
            TRY(shaper_convert(s, member, &value));
        if (!jinja_dict_set(s->arena, *out, shaper_client_text(s, json_text(key)), value))
            return shaper_fail_memory(s);
    }
    return ERR_OK;
}

enum err shaper_calls(struct shaper *s, yyjson_val *calls, struct jinja_value *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(calls);
    struct jinja_value call;

    *out = jinja_list_new(s->arena);
    if (out->kind == JINJA_MISSING)
        return shaper_fail_memory(s);
    for (yyjson_val *json; (json = yyjson_arr_iter_next(&iter)) != NULL;) {
        if (s->tmpl->caps.ids_named)
            TRY(name_id(s, json));
        TRY(call_value(s, json, &call));
        if (!jinja_list_add(s->arena, *out, call))
            return shaper_fail_memory(s);
    }
    return ERR_OK;
}

static void append_call(struct shaper *s, struct buf *buf, yyjson_val *call)
{
    yyjson_val *function = yyjson_obj_get(call, "function");
    yyjson_val *arguments = yyjson_obj_get(function, "arguments");

    buf_append_str(buf,
                   buf->len > 0 ? "\n<tool_call>\n{\"name\": \"" : "<tool_call>\n{\"name\": \"");
    json_scan_escape(buf, json_text(yyjson_obj_get(function, "name")));
    buf_append_str(buf, "\", \"arguments\": ");
    if (yyjson_is_str(arguments))
        append_str(buf, json_text(arguments));
    else if (yyjson_is_obj(arguments))
        shaper_append_json(s, buf, arguments);
    else
        buf_append_str(buf, "{}");
    buf_append_str(buf, "}\n</tool_call>");
}

/* What the assistant said and the calls it made, in one text. */
enum err shaper_spoken_calls(struct shaper *s, yyjson_val *message, struct str *out)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(message, "tool_calls"));
    struct str text;
    struct buf buf;

    TRY(shaper_flat_text(s, yyjson_obj_get(message, "content"), ROLE_ASSISTANT, &text));
    buf_init(&buf, SHAPER_TEXT_BYTES_MAX);
    append_str(&buf, text);
    for (yyjson_val *call; (call = yyjson_arr_iter_next(&iter)) != NULL;)
        append_call(s, &buf, call);
    return shaper_take_text(s, &buf, out);
}
