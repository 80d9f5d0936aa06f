/*
 * prepare_messages.c: prepares the conversation for the template: volatile system text becomes
 * neutral, and thoughts that the client dropped in a tool-call loop are restored.
 */
#include "chat/prepare_impl.h"

#include <string.h>

#include "base/buf.h"
#include "chat/neutral.h"

struct str prepare_call_id(struct str id)
{
    for (size_t i = id.len; i > 0; i--)
        if (id.ptr[i - 1] == '_')
            return (struct str){id.ptr + i, id.len - i};
    return id;
}

static enum err neutralise(struct prepare_run *run, struct message *message)
{
    if (message->role != ROLE_SYSTEM)
        return ERR_OK;
    for (size_t i = 0; i < message->parts_count; i++) {
        struct str *text = &message->parts[i].text;

        if (text->len > 0)
            TRY(neutral_text(run->tools->neutral, &run->request->arena, *text, text));
    }
    return ERR_OK;
}

/* ---- messages as recall sees them ---- */

enum err prepare_read_message(struct arena *arena, const struct message *message,
                              struct recall_message *out)
{
    struct recall_call *calls;

    *out = (struct recall_message){.reasoning = message->thought};
    TRY(message_text(message, arena, STR(""), &out->content));
    if (message->calls_count > RECALL_CALLS_MAX)
        return ERR_UNSUPPORTED;
    calls = arena_alloc_array(arena, message->calls_count, sizeof(*calls));
    if (!calls)
        return arena->err;
    for (size_t i = 0; i < message->calls_count; i++) {
        const struct tool_call *call = &message->calls[i];

        calls[i] = (struct recall_call){prepare_call_id(call->id), call->name, call->arguments};
    }
    out->calls = calls;
    out->calls_count = message->calls_count;
    return ERR_OK;
}

/* ---- thoughts that the client dropped ---- */

static enum err add_thought(struct prepare_run *run, struct message *message)
{
    struct arena *arena = &run->request->arena;
    struct recall_message seen;
    struct buf thought;
    enum err err;

    if (message->role != ROLE_ASSISTANT || message->calls_count == 0 || message->thought.ptr)
        return ERR_OK;
    err = prepare_read_message(arena, message, &seen);
    if (err != ERR_OK)
        return err == ERR_UNSUPPORTED ? ERR_OK : err;
    buf_init(&thought, RECALL_TURN_BYTES_MAX);
    if (recall_thought(run->tools->recall, &run->out->space, &seen, &thought)) {
        message->thought.ptr = arena_strdup(arena, (struct str){buf_str(&thought), thought.len});
        message->thought.len = thought.len;
        err = message->thought.ptr ? ERR_OK : arena->err;
    }
    buf_fini(&thought);
    return err;
}

enum err prepare_messages(struct prepare_run *run)
{
    struct conversation *talk = &run->request->conversation;

    for (size_t i = 0; i < talk->count; i++) {
        if (run->tools->neutral)
            TRY(neutralise(run, &talk->messages[i]));
        if (run->tools->recall)
            TRY(add_thought(run, &talk->messages[i]));
    }
    return ERR_OK;
}
