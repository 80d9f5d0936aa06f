/*
 * prepare_messages.c: prepares the conversation for the template: volatile system text becomes
 * neutral, tools get a fixed order, late system text moves to the front, and thoughts that the client dropped in a tool-call loop are restored.
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
            TRY(neutral_text(run->tools->neutral, &run->request->arena, *text, &run->out->changed,
                             text));
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
    if (recall_thought(run->tools->recall, &run->out->space, &seen, run->tools->store_wait_ns,
                       &thought)) {
        message->thought.ptr = arena_strdup(arena, (struct str){buf_str(&thought), thought.len});
        message->thought.len = thought.len;
        err = message->thought.ptr ? ERR_OK : arena->err;
    }
    buf_fini(&thought);
    return err;
}

/* ---- system text after the first user message ----
 *
 *      system, user, SYSTEM, assistant, ...   ->   system + SYSTEM, user, assistant, ...
 *
 * Claude Code describes its agents there, the same text in each conversation. After the user's
 * words no other conversation could reuse it. Only a long text moves: a short one may be about the
 * words before it ("answer the above in French"). Text that comes later never moves, because the
 * prompt before it is cached. */

enum { LATE_SYSTEM_BYTES_MIN = 2048 };

static void move_breakpoints(struct gen_request *request, size_t from, size_t to)
{
    for (size_t i = 0; i < request->breakpoints_count; i++) {
        int *at = &request->breakpoints[i];
        if (*at == (int)from)
            *at = (int)to;
        else if (*at > (int)from)
            --*at;
    }
}

/* Appends the message at `from` to the one at `to`, and removes it. */
static enum err merge(struct gen_request *request, size_t to, size_t from, struct str late)
{
    struct conversation *talk = &request->conversation;
    struct texts texts = {0};
    struct str text;

    TRY(message_text(&talk->messages[to], talk->arena, STR("\n"), &text));
    TRY(texts_add(&texts, talk->arena, STR(""), text));
    TRY(texts_add(&texts, talk->arena, STR("\n\n"), late));
    TRY(texts_join(&texts, talk->arena, &text));
    TRY(message_set_text(&talk->messages[to], talk->arena, text));
    talk->count--;
    memmove(&talk->messages[from], &talk->messages[from + 1],
            (talk->count - from) * sizeof(*talk->messages));
    move_breakpoints(request, from, to);
    return ERR_OK;
}

static enum err move_late_system(struct prepare_run *run)
{
    struct conversation *talk = &run->request->conversation;
    size_t user = 0;
    struct str late;

    while (user < talk->count && talk->messages[user].role == ROLE_SYSTEM)
        user++;
    if (user == 0 || user + 1 >= talk->count || talk->messages[user].role != ROLE_USER ||
        talk->messages[user + 1].role != ROLE_SYSTEM)
        return ERR_OK;
    TRY(message_text(&talk->messages[user + 1], talk->arena, STR("\n"), &late));
    if (late.len < LATE_SYSTEM_BYTES_MIN)
        return ERR_OK;
    neutral_count(run->tools->neutral, &run->out->changed, NEUTRAL_LATE_SYSTEM, 1);
    return merge(run->request, user - 1, user + 1, late);
}

enum err prepare_messages(struct prepare_run *run)
{
    struct conversation *talk = &run->request->conversation;

    if (run->tools->neutral)
        TRY(neutral_tools(run->tools->neutral, talk, &run->out->changed));
    for (size_t i = 0; i < talk->count; i++) {
        if (run->tools->neutral)
            TRY(neutralise(run, &talk->messages[i]));
        if (run->tools->recall)
            TRY(add_thought(run, &talk->messages[i]));
    }
    if (run->tools->neutral && neutral_is_on(run->tools->neutral, NEUTRAL_LATE_SYSTEM))
        return move_late_system(run);
    return ERR_OK;
}
