/*
 * template_turns.c: finds out whether a template only appends when a conversation continues.
 *
 * The state after an answer belongs to the prompt and the answer. It is useful if the next prompt
 * begins with exactly that text. Templates that show thoughts by position break this: a thought is
 * shown until the user speaks again, and everything after it must be computed again.
 *
 *      calls     question, call, result                        | call, result
 *      loop      question, call, result, call, result, answer  | question
 *      answer    question, answer                              | question
 *                what the state has                              what the next request adds
 *
 * Each row is rendered up to the bar and as a whole.
 */

#include "base/arena.h"
#include "chat/template_impl.h"

enum { TURNS_ARENA_BYTES = 16 << 20 };

#define THOUGHT    .thought = STR("a thought")
#define CALLED(id) .calls = (struct tool_call[]){CHAT_CALL(id, "look", "{}")}, .calls_count = 1
#define ASK                                \
    {                                      \
        CHAT_SAID(ROLE_USER, "a question") \
    }
#define ANSWER                                          \
    {                                                   \
        CHAT_SAID(ROLE_ASSISTANT, "an answer"), THOUGHT \
    }
#define CALL(id)                                           \
    {                                                      \
        CHAT_SAID(ROLE_ASSISTANT, ""), CALLED(id), THOUGHT \
    }
#define RESULT(id)                                                                \
    {                                                                             \
        CHAT_SAID(ROLE_TOOL, "a result"), .call_id = STR(id), .name = STR("look") \
    }

static const struct message calls[] = {ASK, CALL("abcdefghi"), RESULT("abcdefghi"),
                                       CALL("abcdefghj"), RESULT("abcdefghj")};
static const struct message answer[] = {ASK, ANSWER, ASK};
static const struct message loop[] = {
    ASK, CALL("abcdefghi"), RESULT("abcdefghi"), CALL("abcdefghj"), RESULT("abcdefghj"), ANSWER,
    ASK};

/* A row: messages, how many of them the state has. */
struct row {
    const struct message *messages;
    size_t count, stored;
};

static enum err render(const struct chat_template *tmpl, const struct row *row, size_t count,
                       struct arena *arena, struct chat_text *text)
{
    struct tool tool = {.name = STR("look"), .description = STR("looks")};
    struct chat_request request = {.messages = row->messages,
                                   .messages_count = count,
                                   .tools = &tool,
                                   .tools_count = row->messages == answer ? 0 : 1};
    struct errinfo info;

    return chat_template_render(tmpl, &request, arena, text, &info);
}

/* The message of the whole row in which the texts part; SIZE_MAX: the stored one is a prefix. The
 * text before the first message counts as that message. */
static size_t diverges_in(const struct chat_text *stored, const struct chat_text *whole)
{
    size_t at = str_common(stored->text, whole->text), message = 0;

    if (at == stored->text.len)
        return SIZE_MAX;
    for (size_t i = 0; i < whole->mark_count; i++)
        if (whole->marks[i].kind == MARK_MESSAGE_BEGIN && whole->marks[i].at <= at)
            message = whole->marks[i].message;
    return message;
}

/* A row that the template refuses to render shows nothing: SIZE_MAX. */
static size_t measure(const struct chat_template *tmpl, const struct row *row, struct arena *arena)
{
    struct chat_text stored, whole;

    arena_reset(arena);
    if (render(tmpl, row, row->stored, arena, &stored) != ERR_OK ||
        render(tmpl, row, row->count, arena, &whole) != ERR_OK)
        return SIZE_MAX;
    return diverges_in(&stored, &whole);
}

enum chat_turns chat_template_turns(const struct chat_template *tmpl)
{
    static const struct row rows[] = {{calls, COUNT_OF(calls), 3},
                                      {loop, COUNT_OF(loop), COUNT_OF(loop) - 1},
                                      {answer, COUNT_OF(answer), COUNT_OF(answer) - 1}};
    enum chat_turns turns = CHAT_TURNS_APPEND;
    struct arena arena;

    arena_init(&arena, TURNS_ARENA_BYTES);
    size_t in_loop = measure(tmpl, &rows[1], &arena);
    if (measure(tmpl, &rows[0], &arena) != SIZE_MAX)
        turns = CHAT_TURNS_CHANGE;
    else if (in_loop < COUNT_OF(loop) - 2)
        turns = CHAT_TURNS_LOSE_LOOP;
    else if (in_loop != SIZE_MAX || measure(tmpl, &rows[2], &arena) != SIZE_MAX)
        turns = CHAT_TURNS_LOSE_ANSWER;
    arena_fini(&arena);
    return turns;
}

static const struct {
    const char *name, *sentence;
} texts[] = {
#define X(value, name, sentence) [value] = {name, sentence},
    CHAT_TURNS_TABLE(X)
#undef X
};

const char *chat_turns_name(enum chat_turns turns)
{
    return texts[turns].name;
}

const char *chat_turns_sentence(enum chat_turns turns)
{
    return texts[turns].sentence;
}
