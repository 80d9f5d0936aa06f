/*
 * template_stable.c: checks that the marks of a template stay in place as a conversation continues.
 *
 * Some templates write the end of the last message differently from that of the same message a turn
 * later, or open the answer inside the last iteration. So a conversation is rendered at each of its
 * turns, and each turn is compared with the next:
 *
 *      turn n    <u>Q1</u><a>A1</a><u>Q2</u>|<a>
 *      turn n+1  <u>Q1</u><a>A1</a><u>Q2</u>|<a>A2</a>...
 *
 * Up to where both texts are equal, a mark of one must be a mark of the other.
 *
 * If a kind of mark fails once for a role, it is never used for that role. The beginning of an
 * answer must become the beginning of that message.
 */
#include <yyjson.h>

#include "base/arena.h"
#include "base/json_alc.h"
#include "chat/template_impl.h"

enum { STABLE_ARENA_BYTES = 64 << 20 };

static const char schema_json[] =
    "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"string\",\"description\":\"d\"}}}";

/* A conversation with everything that a template may treat specially. `turn`: a request can end
 * here. The first question begins with the words of the system text. Otherwise a template that
 * moves this text from question to question would go unnoticed, because the texts of two turns
 * would differ before the mark that moves. */
#define CALLED(id, arguments) \
    .calls = (struct tool_call[]){CHAT_CALL(id, "look", arguments)}, .calls_count = 1
#define ANSWERS(id) .call_id = STR(id), .name = STR("look")

static const struct {
    struct message message;
    bool turn, system, tools;
} script[] = {
    {{CHAT_SAID(ROLE_SYSTEM, "rules")}, false, true, false},
    {{CHAT_SAID(ROLE_USER, "rules, first")}, true, false, false},
    {{CHAT_SAID(ROLE_ASSISTANT, "one"), .thought = STR("thought")}, false, false, false},
    {{CHAT_SAID(ROLE_USER, "second")}, true, false, false},
    {{CHAT_SAID(ROLE_ASSISTANT, ""), CALLED("abcdefghi", "{\"at\":\"x\"}")}, false, false, true},
    {{CHAT_SAID(ROLE_TOOL, "seen"), ANSWERS("abcdefghi")}, true, false, true},
    {{CHAT_SAID(ROLE_ASSISTANT, "say"), CALLED("abcdefghj", "{\"at\":\"y\"}")}, false, false, true},
    {{CHAT_SAID(ROLE_TOOL, "again"), ANSWERS("abcdefghj")}, true, false, true},
    {{CHAT_SAID(ROLE_ASSISTANT, "two")}, false, false, false},
    {{CHAT_SAID(ROLE_USER, "third")}, true, false, false},
    {{CHAT_SAID(ROLE_ASSISTANT, "three")}, false, false, false},
    {{CHAT_SAID(ROLE_USER, "fourth")}, true, false, false},
    {{CHAT_SAID(ROLE_ASSISTANT, "four")}, false, false, false},
    {{CHAT_SAID(ROLE_USER, "")}, true, false, false},
    {{CHAT_SAID(ROLE_ASSISTANT, "five")}, false, false, false},
    {{CHAT_SAID(ROLE_USER, "sixth")}, true, false, false},
};

/* One way through the script. */
struct path {
    bool system, tools;
    enum chat_thinking thinking;
};

struct turn {
    struct arena arena;
    struct chat_text text;
    size_t messages;
    bool ok;
};

static bool is_on(const struct path *path, size_t i)
{
    return (path->system || !script[i].system) && (path->tools || !script[i].tools);
}

/* Renders the conversation up to a message, replacing the turn's previous contents. */
static enum err turn_take(struct turn *turn, const struct chat_template *tmpl,
                          const struct path *path, size_t end)
{
    struct message messages[COUNT_OF(script)];
    struct tool tool = {.name = STR("look"), .description = STR("d")};
    struct chat_request request = {.messages = messages,
                                   .tools = &tool,
                                   .tools_count = path->tools ? 1 : 0,
                                   .add_generation_prompt = true,
                                   .thinking = path->thinking};
    struct errinfo info;

    turn->messages = 0;
    arena_reset(&turn->arena);
    for (size_t i = 0; i <= end; i++)
        if (is_on(path, i))
            messages[turn->messages++] = script[i].message;
    request.messages_count = turn->messages;
    yyjson_alc memory = json_alc_arena(&turn->arena);
    tool.schema = yyjson_doc_get_root(yyjson_read_opts((char *)(uintptr_t)schema_json,
                                                       sizeof(schema_json) - 1, 0, &memory, NULL));
    enum err err = tool.schema != NULL
                       ? chat_template_render(tmpl, &request, &turn->arena, &turn->text, &info)
                       : turn->arena.err;
    turn->ok = err == ERR_OK;
    return err == ERR_NOMEM ? err : ERR_OK;
}

static bool has_mark(const struct chat_text *text, enum mark_kind kind, uint32_t message,
                     size_t offset)
{
    for (size_t i = 0; i < text->mark_count; i++)
        if (text->marks[i].kind == kind && text->marks[i].message == message &&
            text->marks[i].at == offset)
            return true;
    return false;
}

static bool survives(const struct mark *mark, const struct chat_text *later)
{
    return mark->kind == MARK_GENERATION
               ? has_mark(later, MARK_MESSAGE_BEGIN, mark->message + 1, mark->at)
               : has_mark(later, mark->kind, mark->message, mark->at);
}

static void compare(struct chat_template *tmpl, const struct turn *turn, const struct turn *later)
{
    size_t common = str_common(turn->text.text, later->text.text);

    for (size_t i = 0; i < turn->text.mark_count; i++) {
        const struct mark *mark = &turn->text.marks[i];
        if (mark->at <= common && !survives(mark, &later->text))
            tmpl->mark_off[mark->kind][mark->role] = true;
    }
    for (size_t i = 0; i < later->text.mark_count; i++) {
        const struct mark *mark = &later->text.marks[i];
        if (mark->at <= common && mark->message < turn->messages && mark->kind != MARK_GENERATION &&
            !has_mark(&turn->text, mark->kind, mark->message, mark->at))
            tmpl->mark_off[mark->kind][mark->role] = true;
    }
}

/* Where the second render finds the opening of the answer, the last message must have ended. */
static void compare_generation(struct chat_template *tmpl, const struct turn *turn)
{
    uint32_t last = (uint32_t)turn->messages - 1;

    if (turn->text.generation < turn->text.text.len &&
        !has_mark(&turn->text, MARK_MESSAGE_END, last, turn->text.generation))
        tmpl->generation_twice = true;
}

/* Walks one path; before the template is measured, it only looks for where answers are opened. */
static enum err walk(struct chat_template *tmpl, const struct path *path, struct turn turns[2])
{
    struct turn *before = NULL, *now = &turns[0];

    for (size_t i = 0; i < COUNT_OF(script); i++) {
        if (!script[i].turn || !is_on(path, i))
            continue;
        TRY(turn_take(now, tmpl, path, i));
        if (now->ok && !tmpl->measured)
            compare_generation(tmpl, now);
        else if (now->ok && before != NULL && before->ok)
            compare(tmpl, before, now);
        before = now;
        now = now == &turns[0] ? &turns[1] : &turns[0];
    }
    return ERR_OK;
}

static enum err walk_all(struct chat_template *tmpl, struct turn turns[2])
{
    for (unsigned i = 0; i < 12; i++) {
        struct path path = {
            .system = i & 1, .tools = i & 2, .thinking = (enum chat_thinking)(i / 4)};
        TRY(walk(tmpl, &path, turns));
    }
    return ERR_OK;
}

static enum err measure(struct chat_template *tmpl, struct turn turns[2])
{
    bool *system_off = &tmpl->mark_off[MARK_SYSTEM_END][ROLE_SYSTEM];

    TRY(walk_all(tmpl, turns));
    tmpl->measured = true;
    TRY(walk_all(tmpl, turns));
    if (!*system_off)
        return ERR_OK;
    /* A preamble that moves may still have a fixed part: the text before the first message. */
    tmpl->preamble_moves = true;
    *system_off = false;
    return walk_all(tmpl, turns);
}

enum err chat_stable_measure(struct chat_template *tmpl, struct errinfo *info)
{
    struct turn turns[2] = {0};

    arena_init(&turns[0].arena, STABLE_ARENA_BYTES);
    arena_init(&turns[1].arena, STABLE_ARENA_BYTES);
    enum err err = measure(tmpl, turns);
    arena_fini(&turns[0].arena);
    arena_fini(&turns[1].arena);
    return err == ERR_OK ? ERR_OK : err_set(info, err, "no memory to try the chat template");
}
