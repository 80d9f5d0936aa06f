/*
 * prepare_messages.c: prepares the conversation for the template: volatile system text becomes
 * neutral, tools get a fixed order and results that of their calls, late system text moves to the
 * front, and thoughts that the client dropped in a tool-call loop are restored.
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

    if (message->role != ROLE_ASSISTANT || message->calls_count == 0 || message->thought.ptr)
        return ERR_OK;
    TRY(prepare_read_message(arena, message, &seen));
    buf_init(&thought, RECALL_TURN_BYTES_MAX);
    if (recall_thought(run->tools->recall, &run->out->space, &seen, run->tools->store_wait_ns,
                       &thought))
        return buf_move(&thought, arena, &message->thought);
    buf_fini(&thought);
    return ERR_OK;
}

/* ---- system text after the first user message ----
 *
 *      system, user, SYSTEM, assistant, ...   ->   system, SYSTEM, user, assistant, ...
 *
 * Claude Code describes its agents and the folder there, the same text in many conversations. After
 * the user's words no other conversation could reuse it. It does not become part of the system
 * prompt: most templates show tools after that, and a new day or folder would change the prompt
 * before them. Only a long text moves: a short one may be about the words before it ("answer the
 * above in French"). Text that comes later never moves, because the prompt before it is cached. */

enum { LATE_SYSTEM_BYTES_MIN = 2048 };

/* Swaps a message and the next one. */
static void swap(struct gen_request *request, size_t at)
{
    struct message *messages = request->conversation.messages, first = messages[at];

    messages[at] = messages[at + 1];
    messages[at + 1] = first;
    for (size_t i = 0; i < request->breakpoints_count; i++) {
        int *breakpoint = &request->breakpoints[i];
        if (*breakpoint == (int)at || *breakpoint == (int)at + 1)
            *breakpoint = (int)(2 * at + 1) - *breakpoint;
    }
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
    swap(run->request, user);
    return ERR_OK;
}

/* ---- results of tools ----
 *
 *      calls a, b; result of b, result of a   ->   calls a, b; result of a, result of b
 *
 * Clients run calls side by side and send the results as they come: each names its call. Most
 * templates do not show these names, so a model takes the first result for that of the first call.
 * Results of which one names no call stay as they are. */

enum { ORDERED_MAX = 256 };

static size_t call_of(const struct message *turn, struct str id)
{
    for (size_t i = 0; id.len > 0 && i < turn->calls_count; i++)
        if (str_eq(turn->calls[i].id, id))
            return i;
    return SIZE_MAX;
}

static void order_results(const struct message *turn, struct message *results, size_t count)
{
    size_t calls[ORDERED_MAX];

    if (count > ORDERED_MAX || turn->calls_count > ORDERED_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        calls[i] = call_of(turn, results[i].call_id);
        if (calls[i] == SIZE_MAX)
            return;
    }
    for (size_t i = 1; i < count; i++) {
        struct message result = results[i];
        size_t call = calls[i], k = i;

        for (; k > 0 && calls[k - 1] > call; k--) {
            calls[k] = calls[k - 1];
            results[k] = results[k - 1];
        }
        calls[k] = call;
        results[k] = result;
    }
}

static void order_all_results(struct conversation *talk)
{
    for (size_t i = 0, end; i < talk->count; i = end) {
        end = i + 1;
        if (talk->messages[i].role != ROLE_ASSISTANT || talk->messages[i].calls_count < 2)
            continue;
        while (end < talk->count && talk->messages[end].role == ROLE_TOOL)
            end++;
        order_results(&talk->messages[i], &talk->messages[i + 1], end - i - 1);
    }
}

enum err prepare_messages(struct prepare_run *run)
{
    struct conversation *talk = &run->request->conversation;

    order_all_results(talk);
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
