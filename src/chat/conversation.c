/* conversation.c: see the header. */
#include "chat/conversation.h"

#include <string.h>
#include <yyjson.h>

#include "base/json_alc.h"
#include "base/json_write.h"
#include "base/mem.h"

/* ---- adding ---- */

enum err conversation_reserve(struct conversation *conversation, size_t count)
{
    size_t size = sizeof(*conversation->messages);

    if (count <= conversation->capacity)
        return ERR_OK;
    void *grown = arena_grow(conversation->arena, conversation->messages,
                             conversation->capacity * size, count * size);
    if (grown == NULL)
        return conversation->arena->err;
    conversation->messages = grown;
    conversation->capacity = count;
    return ERR_OK;
}

struct message *conversation_add(struct conversation *conversation, enum role role)
{
    if (conversation->count == conversation->capacity &&
        conversation_reserve(conversation, 2 * conversation->count + 1) != ERR_OK)
        return NULL;
    struct message *message = &conversation->messages[conversation->count++];
    message->role = role;
    return message;
}

struct message *conversation_add_text(struct conversation *conversation, enum role role,
                                      struct str text)
{
    struct message *message = conversation_add(conversation, role);

    return message != NULL && message_set_text(message, conversation->arena, text) == ERR_OK
               ? message
               : NULL;
}

struct tool *conversation_add_tool(struct conversation *conversation)
{
    struct tool *grown = arena_push(conversation->arena, conversation->tools,
                                    conversation->tools_count, sizeof(*grown));

    if (grown == NULL)
        return NULL;
    conversation->tools = grown;
    return &grown[conversation->tools_count++];
}

enum err message_set_text(struct message *message, struct arena *arena, struct str text)
{
    TRY(message_set_parts(message, arena, 1));
    message->form = CONTENT_TEXT;
    message->parts[0].text = text;
    return ERR_OK;
}

enum err message_set_parts(struct message *message, struct arena *arena, size_t count)
{
    message->parts = arena_alloc_array(arena, count, sizeof(*message->parts));
    if (message->parts == NULL)
        return arena->err;
    message->form = CONTENT_PARTS;
    message->parts_count = count;
    return ERR_OK;
}

enum err message_add_call(struct message *message, struct arena *arena, struct tool_call call)
{
    struct tool_call *grown =
        arena_push(arena, message->calls, message->calls_count, sizeof(*grown));

    if (grown == NULL)
        return arena->err;
    message->calls = grown;
    if (call.arguments.len == 0)
        call.arguments = STR("{}");
    grown[message->calls_count++] = call;
    return ERR_OK;
}

/* ---- JSON ---- */

enum err conversation_constant(struct conversation *conversation, struct str json,
                               struct yyjson_val **out)
{
    yyjson_alc memory = json_alc_arena(conversation->arena);
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json.ptr, json.len, 0, &memory, NULL);

    *out = yyjson_doc_get_root(doc);
    return *out != NULL ? ERR_OK : conversation->arena->err;
}

enum err conversation_json(struct conversation *conversation, struct yyjson_val *value,
                           struct str *out)
{
    char *text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, json_alc(), &out->len, NULL);

    if (text == NULL)
        return ERR_NOMEM;
    out->ptr = arena_strdup(conversation->arena, (struct str){text, out->len});
    mem_free(text);
    return out->ptr != NULL ? ERR_OK : conversation->arena->err;
}

void tool_write(struct json *json, const struct tool *tool)
{
    json_open(json, '{');
    json_key_text(json, "type", "function");
    json_key(json, "function");
    json_open(json, '{');
    json_key_str(json, "name", tool->name);
    if (tool->description.ptr != NULL)
        json_key_str(json, "description", tool->description);
    if (tool->schema != NULL) {
        json_key(json, "parameters");
        json_value(json, tool->schema);
    }
    if (tool->strict)
        json_key_bool(json, "strict", true);
    json_close(json, '}');
    json_close(json, '}');
}

/* ---- joining ---- */

static enum err push_text(struct texts *texts, struct arena *arena, struct str text)
{
    struct str *grown = arena_push(arena, texts->pieces, texts->count, sizeof(*grown));

    if (grown == NULL)
        return arena->err;
    texts->pieces = grown;
    grown[texts->count++] = text;
    texts->len += text.len;
    return ERR_OK;
}

enum err texts_add(struct texts *texts, struct arena *arena, struct str separator, struct str text)
{
    texts->any = true;
    if (text.len == 0)
        return ERR_OK;
    if (texts->len > 0 && separator.len > 0)
        TRY(push_text(texts, arena, separator));
    return push_text(texts, arena, text);
}

enum err texts_join(const struct texts *texts, struct arena *arena, struct str *out)
{
    if (texts->count <= 1) {
        *out = texts->count == 1 ? texts->pieces[0] : STR("");
        return ERR_OK;
    }
    char *joined = arena_alloc(arena, texts->len + 1), *at = joined;
    if (joined == NULL)
        return arena->err;
    for (size_t i = 0; i < texts->count; i++) {
        if (texts->pieces[i].len > 0)
            memcpy(at, texts->pieces[i].ptr, texts->pieces[i].len);
        at += texts->pieces[i].len;
    }
    *out = (struct str){joined, texts->len};
    return ERR_OK;
}

enum err message_text(const struct message *message, struct arena *arena, struct str separator,
                      struct str *out)
{
    struct texts texts = {0};

    if (message->parts_count == 1) {
        *out = message->parts[0].text;
        return ERR_OK;
    }
    for (size_t i = 0; i < message->parts_count; i++) {
        if (i > 0)
            TRY(push_text(&texts, arena, separator));
        TRY(push_text(&texts, arena, message->parts[i].text));
    }
    return texts_join(&texts, arena, out);
}
