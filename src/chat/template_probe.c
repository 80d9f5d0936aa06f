/*
 * template_probe.c: finds out what a template supports by rendering probes.
 *
 * The probes are small conversations with words that no template contains; a word that appears in
 * the output was understood. Every feature is assumed at first, so that the request reaches the
 * template unchanged, and withdrawn if its word is missing. A feature name in the template's source
 * proves nothing: the template may mention it only to refuse it.
 */
#include <yyjson.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/json_alc.h"
#include "output/marker.h"
#include "chat/template_impl.h"

enum { PROBE_ARENA_BYTES = 64 << 20 };

static const char probe_schema[] =
    "{\"type\":\"object\",\"properties\":{\"needle_key\":{\"type\":\"string\",\"description\":\"d\""
    "}},\"required\":[\"needle_key\"]}";

#define CALL(name, id)     CHAT_CALL(id, name, "{\"needle_arg\":\"needle_value\"}")
#define CALLED(count, ...) .calls = (struct tool_call[]){__VA_ARGS__}, .calls_count = (count)
#define USER                                \
    {                                       \
        CHAT_SAID(ROLE_USER, "needle_user") \
    }
#define ASKED(id)                                                         \
    {                                                                     \
        CHAT_SAID(ROLE_ASSISTANT, ""), CALLED(1, CALL("needle_call", id)) \
    }
#define ANSWER(id)                                                                            \
    {                                                                                         \
        CHAT_SAID(ROLE_TOOL, "needle_result"), .call_id = STR(id), .name = STR("needle_tool") \
    }

struct prober {
    struct chat_template *tmpl;
    struct arena arena;
    yyjson_doc *schema;          /* of the tool */
    const struct tool *tool;     /* for the next question */
    enum chat_thinking thinking; /* likewise */
    enum err err;                /* out of memory: the results mean nothing */
};

/* A conversation to probe with. */
struct trial {
    const struct message *messages;
    size_t count;
};
#define TRIAL(messages) ((struct trial){(messages), COUNT_OF(messages)})

static const struct message just_user[] = {USER};

/* False if the template refuses it. The text is valid until the next call. */
static bool ask(struct prober *p, struct trial trial, bool tools, struct chat_text *out)
{
    struct chat_request request = {.messages = trial.messages,
                                   .messages_count = trial.count,
                                   .tools = p->tool,
                                   .tools_count = tools ? 1 : 0,
                                   .add_generation_prompt = true,
                                   .thinking = p->thinking};
    struct errinfo info;

    *out = (struct chat_text){0};
    arena_reset(&p->arena);
    enum err err = chat_template_render(p->tmpl, &request, &p->arena, out, &info);
    if (err == ERR_NOMEM)
        p->err = err;
    return err == ERR_OK;
}

static bool has(const struct chat_text *text, const char *word)
{
    return str_find(text->text, str_from(word)) != SIZE_MAX;
}

static bool shows(struct prober *p, struct trial trial, bool tools, const char *word)
{
    struct chat_text text;

    return ask(p, trial, tools, &text) && has(&text, word);
}

static void probe_content(struct prober *p, struct chat_caps *caps)
{
    struct part parts[] = {{STR("needle_a")}, {STR("needle_b")}};
    const struct message list[] = {
        {.role = ROLE_USER, .form = CONTENT_PARTS, .parts = parts, .parts_count = 2}};
    struct chat_text text;

    /* A template that inserts a list into text prints it as Python does. */
    caps->content_parts = ask(p, TRIAL(list), false, &text) && has(&text, "needle_a") &&
                          has(&text, "needle_b") && !has(&text, "'needle_a'");
    caps->content_string = !caps->content_parts || shows(p, TRIAL(just_user), false, "needle_user");
}

/* The first way of passing no tools that a plain question renders with. */
static void probe_tools_style(struct prober *p)
{
    struct chat_text text;

    for (int style = 0; style < CHAT_TOOLS_STYLE_COUNT; style++) {
        p->tmpl->tools_style = (enum chat_tools_style)style;
        if (ask(p, TRIAL(just_user), false, &text))
            return;
    }
    p->tmpl->tools_style = CHAT_TOOLS_NONE;
}

/* The system message comes after the question and before its answer: a template that collects all
 * system text at the beginning does not keep it there. */
static bool shows_late_system(struct prober *p)
{
    const struct message late[] = {{CHAT_SAID(ROLE_SYSTEM, "needle_system")},
                                   USER,
                                   {CHAT_SAID(ROLE_SYSTEM, "needle_late")},
                                   {CHAT_SAID(ROLE_ASSISTANT, "needle_answer")},
                                   USER};
    struct chat_text text;

    if (!ask(p, TRIAL(late), false, &text))
        return false;
    size_t at = str_find(text.text, STR("needle_late"));
    return at != SIZE_MAX && at > str_find(text.text, STR("needle_user")) &&
           at < str_find(text.text, STR("needle_answer"));
}

/* The second of two system messages at the beginning follows the same text as the second of two
 * further on. Templates may refuse it, leave it out, or take it for the question that they show the
 * tools with. */
static bool shows_two_systems(struct prober *p, bool tools)
{
    const struct message list[] = {{CHAT_SAID(ROLE_SYSTEM, "needle_system")},
                                   {CHAT_SAID(ROLE_SYSTEM, "needle_second")},
                                   USER,
                                   {CHAT_SAID(ROLE_SYSTEM, "needle_third")},
                                   {CHAT_SAID(ROLE_SYSTEM, "needle_fourth")}};
    const struct str third = STR("needle_third");
    struct chat_text text;

    if (!ask(p, TRIAL(list), tools, &text))
        return false;
    size_t second = str_find(text.text, STR("needle_second"));
    size_t begin = str_find(text.text, third), end = str_find(text.text, STR("needle_fourth"));
    if (second == SIZE_MAX || begin == SIZE_MAX || end == SIZE_MAX || begin > end)
        return false;
    begin += third.len;
    return second < str_find(text.text, STR("needle_user")) &&
           str_ends((struct str){text.text.ptr, second},
                    (struct str){text.text.ptr + begin, end - begin});
}

static void probe_roles(struct prober *p, struct chat_caps *caps)
{
    const struct message system[] = {{CHAT_SAID(ROLE_SYSTEM, "needle_system")}, USER};

    caps->system = shows(p, TRIAL(system), false, "needle_system");
    caps->tools = shows(p, TRIAL(just_user), true, "needle_tool");
    caps->system_late = caps->system && shows_late_system(p);
    caps->system_twice = caps->system_late && shows_two_systems(p, caps->tools);
}

static bool shows_tool(struct prober *p, const struct tool *tool)
{
    const struct tool *usual = p->tool;

    p->tool = tool;
    bool good = shows(p, TRIAL(just_user), true, "needle_tool");
    p->tool = usual;
    return good;
}

/* Members of a tool that the template reads without looking whether they are there. */
static void probe_tool_members(struct prober *p, struct chat_caps *caps)
{
    static const char empty[] = "{\"type\":\"object\"}";
    yyjson_doc *doc =
        yyjson_read_opts((char *)(uintptr_t)empty, sizeof(empty) - 1, 0, json_alc(), NULL);
    struct tool tool = *p->tool;

    if (doc == NULL)
        p->err = ERR_NOMEM;
    tool.description = STR_NONE;
    caps->needs_description = caps->tools && !shows_tool(p, &tool);
    tool = *p->tool;
    tool.schema = yyjson_doc_get_root(doc);
    caps->needs_properties = caps->tools && !shows_tool(p, &tool);
    yyjson_doc_free(doc);
}

/* A hash of the text without white space, the only difference between two ways to write JSON. */
static struct hash256 hash_of_signs(const struct chat_text *text)
{
    struct hash256_state state;

    hash256_init(&state);
    for (size_t i = 0; i < text->text.len; i++)
        if (!marker_is_space(text->text.ptr[i]))
            hash256_update(&state, text->text.ptr + i, 1);
    return hash256_final(&state);
}

/* Calls, with their arguments in both forms. Text is what the model wrote and is preferred if it
 * renders as the object would. Text inside text has escaped quotes; an object inside text is
 * printed as Python does; and some templates that have their own notation for objects pass text
 * through. */
static void probe_arguments(struct prober *p, struct chat_caps *caps)
{
    const struct message calls_one[] = {USER, ASKED("abcdefghi"), ANSWER("abcdefghi")};
    struct chat_text text;

    caps->arguments_object = true;
    bool object_ok = ask(p, TRIAL(calls_one), caps->tools, &text) && has(&text, "needle_arg") &&
                     !has(&text, "'needle_arg'");
    bool calls = object_ok || has(&text, "needle_call");
    struct hash256 as_object = hash_of_signs(&text);
    caps->arguments_object = false;
    bool string_ok = ask(p, TRIAL(calls_one), caps->tools, &text) && has(&text, "\"needle_arg\":");
    struct hash256 as_string = hash_of_signs(&text);
    caps->calls = calls || string_ok || has(&text, "needle_call");
    caps->arguments_object = object_ok && (!string_ok || !hash256_eq(&as_object, &as_string));
}

static void probe_calls(struct prober *p, struct chat_caps *caps)
{
    const struct message result[] = {USER, ASKED("abcdefghi"), ANSWER("abcdefghi")};
    const struct message several[] = {
        USER,
        {CHAT_SAID(ROLE_ASSISTANT, ""),
         CALLED(2, CALL("needle_call", "abcdefghi"), CALL("needle_second", "abcdefghj"))},
        ANSWER("abcdefghi"),
        ANSWER("abcdefghj")};
    const struct message long_id[] = {USER, ASKED("call_0123456789abcdef"),
                                      ANSWER("call_0123456789abcdef")};
    const struct message after[] = {
        USER, ASKED("abcdefghi"), ANSWER("abcdefghi"), {CHAT_SAID(ROLE_USER, "needle_after")}};

    probe_arguments(p, caps);
    if (!caps->calls) {
        caps->calls = caps->calls_no_content = true;
        probe_arguments(p, caps);
        caps->calls_no_content = caps->calls;
    }
    caps->tool_role = shows(p, TRIAL(result), caps->tools, "needle_result");
    caps->ids_named = caps->calls && !shows(p, TRIAL(result), caps->tools, "needle_call");
    caps->calls_parallel = caps->calls && shows(p, TRIAL(several), caps->tools, "needle_second");
    caps->user_after_tool = caps->tool_role && shows(p, TRIAL(after), caps->tools, "needle_after");
    caps->ids_short =
        caps->calls && caps->tool_role && !shows(p, TRIAL(long_id), caps->tools, "needle_");
}

/* What opens an answer, a thought mostly, is not what it follows once another question came. */
static bool opening_goes(struct prober *p)
{
    const struct message turns[] = {USER, {CHAT_SAID(ROLE_ASSISTANT, "needle_answer")}, USER};
    const struct str user = STR("needle_user");
    struct chat_text text;

    if (!ask(p, TRIAL(turns), false, &text))
        return false;
    size_t first = str_find(text.text, user);
    size_t last = str_find_from(text.text, str_find(text.text, STR("needle_answer")), user);
    return first != SIZE_MAX && last != SIZE_MAX &&
           !str_starts(str_skip(text.text, first + user.len), str_skip(text.text, last + user.len));
}

static void probe_thinking(struct prober *p, struct chat_caps *caps)
{
    struct hash256 hashes[2];
    struct chat_text text;

    caps->opening_goes = opening_goes(p);
    for (int i = 0; i < 2; i++) {
        p->thinking = i ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
        if (!ask(p, TRIAL(just_user), false, &text))
            return;
        hashes[i] = hash_of_signs(&text);
    }
    caps->thinking = !hash256_eq(&hashes[0], &hashes[1]);
}

enum err chat_probe(struct chat_template *tmpl, struct errinfo *info)
{
    struct prober p = {.tmpl = tmpl};

    tmpl->caps = (struct chat_caps){.system = true,
                                    .system_late = true,
                                    .system_twice = true,
                                    .tools = true,
                                    .calls = true,
                                    .calls_parallel = true,
                                    .tool_role = true,
                                    .user_after_tool = true,
                                    .content_parts = true,
                                    .content_string = true};
    p.schema = yyjson_read_opts((char *)(uintptr_t)probe_schema, sizeof(probe_schema) - 1, 0,
                                json_alc(), NULL);
    if (p.schema == NULL)
        return err_set(info, ERR_NOMEM, "no memory to try the chat template");
    const struct tool tool = {.name = STR("needle_tool"),
                              .description = STR("d"),
                              .schema = yyjson_doc_get_root(p.schema)};
    p.tool = &tool;
    arena_init(&p.arena, PROBE_ARENA_BYTES);
    probe_tools_style(&p);
    probe_content(&p, &tmpl->caps);
    probe_roles(&p, &tmpl->caps);
    probe_tool_members(&p, &tmpl->caps);
    probe_calls(&p, &tmpl->caps);
    probe_thinking(&p, &tmpl->caps);
    /* Tools that we describe are called and answered in the format of our description. */
    if (!tmpl->caps.tools)
        tmpl->caps.calls = tmpl->caps.calls_parallel = tmpl->caps.tool_role =
            tmpl->caps.user_after_tool = false;
    tmpl->caps.calls_no_content &= tmpl->caps.calls;
    arena_fini(&p.arena);
    yyjson_doc_free(p.schema);
    return p.err == ERR_OK ? ERR_OK : err_set(info, p.err, "no memory to try the chat template");
}
