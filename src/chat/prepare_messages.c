/*
 * prepare_messages.c: prepares the conversation for the template: volatile system text becomes
 * neutral, and thoughts that the client dropped in a tool-call loop are restored.
 */
#include "chat/prepare_impl.h"

#include <string.h>

#include "base/buf.h"
#include "chat/neutral.h"

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
    *out = (struct recall_message){.reasoning = message->thought,
                                   .calls = message->calls,
                                   .calls_count = message->calls_count};
    return message_text(message, arena, STR(""), &out->content);
}

/* ---- thoughts that the client dropped ---- */

static enum err add_thought(struct prepare_run *run, struct message *message)
{
    struct arena *arena = &run->request->arena;
    struct recall_message seen;
    struct buf thought;
    enum err err = ERR_OK;

    if (message->role != ROLE_ASSISTANT || message->calls_count == 0 || message->thought.ptr)
        return ERR_OK;
    TRY(prepare_read_message(arena, message, &seen));
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
