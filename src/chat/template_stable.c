/*
 * template_stable.c: do the marks of a template stay where they are when a conversation goes on?
 *
 * Some templates write the end of the last message otherwise than that of the same message a turn
 * later, or open the answer inside the last round. So a conversation is rendered at each of its
 * turns, and each turn is compared with the next:
 *
 *      turn n    <u>Q1</u><a>A1</a><u>Q2</u>|<a>          a mark of one, up to where both texts are equal,
 *      turn n+1  <u>Q1</u><a>A1</a><u>Q2</u>|<a>A2</a>... must be a mark of the other
 *
 * A kind of mark that fails once, for a role, is never given for it. The beginning of an answer
 * must become the beginning of that message.
 */
#include <string.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "chat/template_impl.h"

enum { STABLE_ARENA_BYTES = 64 << 20, CONVERSATION_BYTES_MAX = 1 << 16 };

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"d\",\"parameters\":"
    "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"string\",\"description\":\"d\"}}}}}]";

/* A conversation with all that a template may treat in its own way. `turn`: a request can end here.
 * The first question begins with the words of the system text: otherwise a template that moves this
 * text from question to question goes unnoticed, as then the texts of two turns part before the
 * mark that moves. */
static const struct {
    const char *json;
    bool turn, system, tools;
} script[] = {
    {"{\"role\":\"system\",\"content\":\"rules\"}", false, true, false},
    {"{\"role\":\"user\",\"content\":\"rules, first\"}", true, false, false},
    {"{\"role\":\"assistant\",\"content\":\"one\",\"reasoning_content\":\"thought\"}", false, false,
     false},
    {"{\"role\":\"user\",\"content\":\"second\"}", true, false, false},
    {"{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"abcdefghi\",\"type\":"
     "\"function\","
     "\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"at\\\":\\\"x\\\"}\"}}]}",
     false, false, true},
    {"{\"role\":\"tool\",\"tool_call_id\":\"abcdefghi\",\"name\":\"look\",\"content\":\"seen\"}",
     true, false, true},
    {"{\"role\":\"assistant\",\"content\":\"say\",\"tool_calls\":[{\"id\":\"abcdefghj\",\"type\":"
     "\"function\","
     "\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"at\\\":\\\"y\\\"}\"}}]}",
     false, false, true},
    {"{\"role\":\"tool\",\"tool_call_id\":\"abcdefghj\",\"name\":\"look\",\"content\":\"again\"}",
     true, false, true},
    {"{\"role\":\"assistant\",\"content\":\"two\"}", false, false, false},
    {"{\"role\":\"user\",\"content\":\"third\"}", true, false, false},
    {"{\"role\":\"assistant\",\"content\":\"three\"}", false, false, false},
    {"{\"role\":\"user\",\"content\":\"fourth\"}", true, false, false},
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

/* Renders the conversation up to a message; what the turn held before is gone. */
static enum err turn_take(struct turn *turn, const struct chat_template *tmpl,
                          const struct path *path, size_t end)
{
    struct chat_request request = {.add_generation_prompt = true, .thinking = path->thinking};
    struct errinfo info;
    struct buf json;

    turn->messages = 0;
    arena_reset(&turn->arena);
    buf_init(&json, CONVERSATION_BYTES_MAX);
    buf_append_str(&json, "{\"messages\":[");
    for (size_t i = 0; i <= end; i++)
        if (is_on(path, i))
            buf_appendf(&json, "%s%s", turn->messages++ > 0 ? "," : "", script[i].json);
    buf_appendf(&json, "],\"tools\":%s}", path->tools ? tools_json : "[]");
    yyjson_doc *doc = yyjson_read(buf_str(&json), json.len, 0);
    buf_fini(&json);
    request.messages = yyjson_obj_get(yyjson_doc_get_root(doc), "messages");
    request.tools = yyjson_obj_get(yyjson_doc_get_root(doc), "tools");
    enum err err = doc == NULL
                       ? ERR_NOMEM
                       : chat_template_render(tmpl, &request, &turn->arena, &turn->text, &info);
    yyjson_doc_free(doc);
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

static size_t common_length(struct str a, struct str b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
        n++;
    return n;
}

static bool survives(const struct mark *mark, const struct chat_text *later)
{
    return mark->kind == MARK_GENERATION
               ? has_mark(later, MARK_MESSAGE_BEGIN, mark->message + 1, mark->at)
               : has_mark(later, mark->kind, mark->message, mark->at);
}

static void compare(struct chat_template *tmpl, const struct turn *turn, const struct turn *later)
{
    size_t common = common_length(turn->text.text, later->text.text);

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

/* Where the second render says that the answer is opened, the last message must have ended. */
static void compare_generation(struct chat_template *tmpl, const struct turn *turn)
{
    uint32_t last = (uint32_t)turn->messages - 1;

    if (turn->text.generation < turn->text.text.len &&
        !has_mark(&turn->text, MARK_MESSAGE_END, last, turn->text.generation))
        tmpl->generation_twice = true;
}

/* Walks one path; before the template is measured it only looks for where answers are opened. */
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
    /* A preamble that moves may still have a part that does not: what stands before the first
     * message. */
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
