/*
 * prepare_messages.c: messages before the template sees them.
 *
 * Neutral texts are put into the JSON values in place: the document is this request's own, and
 * nobody reads the old text again. A thought that is given back needs a member that is not there,
 * so the messages are copied then; that happens only where a client drops thoughts in a loop of
 * tool calls.
 */
#include "chat/prepare_impl.h"

#include <string.h>

#include "base/json_alc.h"
#include "dialect/json_read.h"
#include "base/buf.h"
#include "chat/neutral.h"

struct str prepare_call_id(struct str id)
{
    for (size_t i = id.len; i > 0; i--)
        if (id.ptr[i - 1] == '_')
            return (struct str){id.ptr + i, id.len - i};
    return id;
}

/* ---- volatile text ---- */

static enum err neutralise(struct prepare_run *run, yyjson_val *value)
{
    struct str text = json_read_text(value), out;

    if (text.len == 0)
        return ERR_OK;
    TRY(neutral_text(run->tools->neutral, &run->request->arena, text, &out));
    if (out.ptr != text.ptr || out.len != text.len)
        yyjson_set_strn(value, out.ptr, out.len);
    return ERR_OK;
}

static enum err neutralise_message(struct prepare_run *run, yyjson_val *message)
{
    yyjson_val *content = yyjson_obj_get(message, "content"), *part;
    yyjson_arr_iter parts;

    if (role_from(json_read_text(yyjson_obj_get(message, "role"))) != ROLE_SYSTEM)
        return ERR_OK;
    if (yyjson_is_str(content))
        return neutralise(run, content);
    yyjson_arr_iter_init(content, &parts);
    while ((part = yyjson_arr_iter_next(&parts)))
        TRY(neutralise(run, yyjson_obj_get(part, "text")));
    return ERR_OK;
}

/* ---- messages as replay sees them ---- */

/* All text of a content: itself, or its parts joined. */
static enum err content_text(struct arena *arena, yyjson_val *content, struct str *out)
{
    yyjson_arr_iter parts;
    yyjson_val *part;
    char *joined = NULL;
    size_t len = 0;

    *out = json_read_text(content);
    if (!yyjson_is_arr(content))
        return ERR_OK;
    yyjson_arr_iter_init(content, &parts);
    while ((part = yyjson_arr_iter_next(&parts))) {
        struct str text = json_read_text(yyjson_obj_get(part, "text"));

        if (text.len == 0)
            continue;
        joined = arena_grow(arena, joined, len, len + text.len);
        if (!joined)
            return arena->err;
        memcpy(joined + len, text.ptr, text.len);
        len += text.len;
    }
    *out = (struct str){joined, len};
    return ERR_OK;
}

/* Arguments are text in OpenAI's form; an object is written out. */
static enum err arguments_text(struct arena *arena, yyjson_val *value, struct str *out)
{
    size_t len;
    char *text;

    *out = json_read_text(value);
    if (!value || yyjson_is_str(value) || yyjson_is_null(value))
        return ERR_OK;
    text = yyjson_val_write_opts(value, YYJSON_WRITE_NOFLAG, json_alc(), &len, NULL);
    if (!text)
        return ERR_NOMEM;
    *out = (struct str){arena_strdup(arena, (struct str){text, len}), len};
    json_alc()->free(json_alc()->ctx, text);
    return out->ptr ? ERR_OK : arena->err;
}

static enum err read_calls(struct arena *arena, yyjson_val *list, struct replay_message *out)
{
    size_t count = yyjson_arr_size(list);
    struct replay_call *calls;
    yyjson_arr_iter iter;
    yyjson_val *value;

    if (count == 0)
        return ERR_OK;
    if (count > REPLAY_CALLS_MAX)
        return ERR_UNSUPPORTED;
    calls = arena_alloc_array(arena, count, sizeof(*calls));
    if (!calls)
        return arena->err;
    yyjson_arr_iter_init(list, &iter);
    while ((value = yyjson_arr_iter_next(&iter))) {
        struct replay_call *call = &calls[out->calls_count++];
        yyjson_val *function = yyjson_obj_get(value, "function");

        call->id = prepare_call_id(json_read_text(yyjson_obj_get(value, "id")));
        call->name = json_read_text(yyjson_obj_get(function, "name"));
        TRY(arguments_text(arena, yyjson_obj_get(function, "arguments"), &call->arguments));
    }
    out->calls = calls;
    return ERR_OK;
}

enum err prepare_read_message(struct arena *arena, yyjson_val *message, struct replay_message *out)
{
    memset(out, 0, sizeof(*out));
    TRY(content_text(arena, yyjson_obj_get(message, "content"), &out->content));
    out->reasoning = json_read_text(yyjson_obj_get(message, "reasoning_content"));
    if (!out->reasoning.ptr)
        out->reasoning = json_read_text(yyjson_obj_get(message, "reasoning"));
    return read_calls(arena, yyjson_obj_get(message, "tool_calls"), out);
}

/* ---- thoughts that the client dropped ---- */

/* Puts a thought into message `index` of the copy, which is made for the first one. */
static enum err give_back(struct prepare_run *run, yyjson_mut_doc **doc, size_t index,
                          const struct buf *thought)
{
    yyjson_mut_val *message;

    if (!*doc) {
        *doc = yyjson_mut_doc_new(json_alc());
        if (!*doc)
            return ERR_NOMEM;
        yyjson_mut_doc_set_root(*doc, yyjson_val_mut_copy(*doc, run->messages));
    }
    message = yyjson_mut_arr_get(yyjson_mut_doc_get_root(*doc), index);
    yyjson_mut_obj_remove_key(message, "reasoning_content");
    if (!yyjson_mut_obj_add_strncpy(*doc, message, "reasoning_content", thought->data,
                                    thought->len))
        return ERR_NOMEM;
    return ERR_OK;
}

static enum err recall_message(struct prepare_run *run, yyjson_val *value, size_t index,
                               yyjson_mut_doc **doc)
{
    struct replay_message message;
    struct buf thought;
    enum err err;

    if (role_from(json_read_text(yyjson_obj_get(value, "role"))) != ROLE_ASSISTANT ||
        yyjson_arr_size(yyjson_obj_get(value, "tool_calls")) == 0)
        return ERR_OK;
    err = prepare_read_message(&run->request->arena, value, &message);
    if (err != ERR_OK || message.reasoning.ptr)
        return err == ERR_UNSUPPORTED ? ERR_OK : err;
    buf_init(&thought, REPLAY_TURN_BYTES_MAX);
    if (replay_recall(run->tools->replay, &run->out->space, &message, &thought))
        err = give_back(run, doc, index, &thought);
    buf_fini(&thought);
    return err;
}

static enum err recall_thoughts(struct prepare_run *run)
{
    yyjson_mut_doc *doc = NULL;
    yyjson_arr_iter iter;
    yyjson_val *message;
    enum err err = ERR_OK;

    yyjson_arr_iter_init(run->messages, &iter);
    for (size_t i = 0; err == ERR_OK && (message = yyjson_arr_iter_next(&iter)); i++)
        err = recall_message(run, message, i, &doc);
    if (doc && err == ERR_OK) {
        run->out->messages = yyjson_mut_doc_imut_copy(doc, json_alc());
        run->messages = yyjson_doc_get_root(run->out->messages);
        err = run->messages ? ERR_OK : ERR_NOMEM;
    }
    yyjson_mut_doc_free(doc);
    return err;
}

enum err prepare_messages(struct prepare_run *run)
{
    yyjson_arr_iter iter;
    yyjson_val *message;

    run->messages = run->request->messages;
    if (run->tools->neutral) {
        yyjson_arr_iter_init(run->messages, &iter);
        while ((message = yyjson_arr_iter_next(&iter)))
            TRY(neutralise_message(run, message));
    }
    return run->tools->replay ? recall_thoughts(run) : ERR_OK;
}
