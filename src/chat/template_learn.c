/*
 * template_learn.c: finds out how the answers of a template are read.
 *
 *      formats that the text of the template shows (output_detect)
 *        --> a call and a thought that the template itself renders are read back
 *              --> as they were: done
 *              --> else the other rows of the table are tried
 *              --> else the marks around the known words are the format: it is learned
 *              --> else calls cannot be read, which is reported
 *
 * The words of the sample are unlike anything that a template contains, so their places in the
 * rendered turn are the places of names, keys and values:
 *
 *      <calls> <call> f <sep> <key> a </key> <value> x </value> <key> b </key> <value> 71 </value> ...
 *      `------------'   `---------'   `----------'   `------------'   `----------'    `----------
 *          before          head           inner          middle                          after
 *
 * What two places have in common is a mark, and the rest is another: the text before the first and
 * before the second call both end with what begins a call, the head and the text between two
 * arguments both end with what begins an argument. Marks begin and end at brackets.
 */
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json_scan.h"
#include "base/mem.h"
#include "output/marker.h"
#include "chat/template_impl.h"

enum {
    LEARN_ARENA_BYTES = 64 << 20,
    LEARNED_BYTES = 1 << 20,
    TAIL_BYTES = 256,
    MARK_BYTES_MAX = 256
};

static const struct str name_one = {"xq_first", 8}, name_two = {"xq_second", 9};
static const struct str key_one = {"xq_a", 4}, key_two = {"xq_b", 4};
static const struct str value_one = {"xq one", 6}, value_two = {"71", 2};
static const struct str id_one = {"xqabcdef1", 9}, id_two = {"xqabcdef2", 9};
static const struct str said = {"xq answer", 9}, thought = {"xq thought", 10};

static const char arguments[] = "{\"xq_a\": \"xq one\", \"xq_b\": 71}";
static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"xq_a\":{\"type\":\"string\",\"description\":\"d\"},"
    "\"xq_b\":{\"type\":\"integer\",\"description\":\"d\"}},\"required\":[\"xq_a\",\"xq_b\"]}";

struct learner {
    struct chat_template *tmpl;
    struct chat_learned *learned; /* what marks point into */
    struct arena arena;           /* of one render */
    yyjson_doc *schema;
    yyjson_doc *arguments;
    struct str prompt; /* opens the answer */
    struct str end;    /* what follows an answer: the end of the turn */
    struct str begin;  /* the mark before an answer without a thought */
    enum err err;
};

/* ---- rendering ---- */

/* A turn of the model, and the end of the text before it. */
struct turn {
    struct str text, tail;
};

/* As a C string, which grammars need of openers and of marks around thoughts. */
static struct str keep(struct learner *l, struct str text)
{
    char *copy = arena_strdup(&l->learned->arena, text);

    if (copy == NULL)
        l->err = l->learned->arena.err;
    return copy != NULL ? (struct str){copy, text.len} : STR_NONE;
}

enum { TOOLS = 2 };

static void make_tools(const struct learner *l, struct tool tools[TOOLS])
{
    yyjson_val *root = yyjson_doc_get_root(l->schema);

    tools[0] = (struct tool){.name = name_one, .description = STR("d"), .schema = root};
    tools[1] = (struct tool){.name = name_two, .description = STR("d"), .schema = root};
}

static struct str render(struct learner *l, const struct message *messages, size_t count)
{
    struct tool tools[TOOLS];

    make_tools(l, tools);
    struct chat_request request = {.messages = messages,
                                   .messages_count = count,
                                   .tools = tools,
                                   .tools_count = l->tmpl->caps.tools ? TOOLS : 0,
                                   .add_generation_prompt = count == 1};
    struct errinfo info;
    struct chat_text text;

    arena_reset(&l->arena);
    enum err err = chat_template_render(l->tmpl, &request, &l->arena, &text, &info);
    if (err == ERR_NOMEM)
        l->err = err;
    return err == ERR_OK ? keep(l, text.text) : STR_NONE;
}

/* What the text has beyond the prompt. Where the prompt opens something that the turn does not have
 * (a thought), the turn begins with the mark that differs, not in its middle. */
static struct turn cut_turn(const struct learner *l, struct str whole)
{
    struct str prompt = l->prompt;
    size_t at = str_common(prompt, whole);

    while (at > 0 && at < prompt.len && strchr(">]\n", whole.ptr[at - 1]) == NULL)
        at--;
    size_t tail = MIN(at, TAIL_BYTES);
    return (struct turn){{whole.ptr + at, whole.len - at}, {whole.ptr + at - tail, tail}};
}

static struct turn render_turn(struct learner *l, struct message answer)
{
    const struct message messages[] = {{CHAT_SAID(ROLE_USER, "xq question")}, answer};

    return cut_turn(l, render(l, messages, 2));
}

static struct turn render_calls(struct learner *l, size_t count)
{
    struct tool_call calls[] = {{id_one, name_one, STR(arguments)},
                                {id_two, name_two, STR(arguments)}};
    struct turn turn = render_turn(
        l, (struct message){CHAT_SAID(ROLE_ASSISTANT, ""), .calls = calls, .calls_count = count});

    if (l->end.len > 0 && str_ends(turn.text, l->end))
        turn.text.len -= l->end.len;
    return turn;
}

/* ---- reading back ---- */

struct seen {
    const struct learner *learner;
    struct buf arguments, content, thought;
    size_t calls;
    bool wrong;
};

static void on_event(const struct output_event *event, void *arg)
{
    struct seen *seen = arg;

    switch (event->type) {
    case OUTPUT_CONTENT:
        buf_append(&seen->content, event->text.ptr, event->text.len);
        break;
    case OUTPUT_REASONING:
        buf_append(&seen->thought, event->text.ptr, event->text.len);
        break;
    case OUTPUT_CALL_BEGIN:
        seen->wrong |= !str_eq(event->text, seen->calls == 0 ? name_one : name_two);
        buf_clear(&seen->arguments);
        break;
    case OUTPUT_CALL_ARGUMENTS:
        buf_append(&seen->arguments, event->text.ptr, event->text.len);
        break;
    case OUTPUT_CALL_END: {
        yyjson_doc *doc = yyjson_read(buf_str(&seen->arguments), seen->arguments.len, 0);
        seen->wrong |=
            !yyjson_equals(yyjson_doc_get_root(doc), yyjson_doc_get_root(seen->learner->arguments));
        yyjson_doc_free(doc);
        seen->calls++;
        break;
    }
    default:
        seen->wrong = true;
    }
}

static void read_turn(struct learner *l, struct turn turn, struct seen *seen)
{
    struct tool tools[TOOLS];

    make_tools(l, tools);
    struct output_options options = {.formats = l->tmpl->formats,
                                     .calls = true,
                                     .tools = tools,
                                     .tools_count = TOOLS,
                                     .prompt_tail = turn.tail};

    *seen = (struct seen){.learner = l};
    buf_init(&seen->arguments, LEARNED_BYTES);
    buf_init(&seen->content, LEARNED_BYTES);
    buf_init(&seen->thought, LEARNED_BYTES);
    struct output *output = output_create(&options, on_event, seen);
    enum err err = output_push(output, turn.text);
    if (err == ERR_OK)
        err = output_finish(output, false);
    if (err != ERR_OK)
        l->err = err;
    output_destroy(&output);
}

static void seen_fini(struct seen *seen)
{
    buf_fini(&seen->arguments);
    buf_fini(&seen->content);
    buf_fini(&seen->thought);
}

static bool reads_calls(struct learner *l, struct turn turn, size_t count)
{
    struct seen seen;

    read_turn(l, turn, &seen);
    bool good = !seen.wrong && seen.calls == count;
    seen_fini(&seen);
    return good;
}

static bool reads_thought(struct learner *l, struct turn turn)
{
    struct seen seen;

    read_turn(l, turn, &seen);
    bool good = str_eq(str_trim(buf_text(&seen.thought)), thought) &&
                str_starts(str_trim(buf_text(&seen.content)), said);
    seen_fini(&seen);
    return good;
}

/* ---- marks ---- */

static struct str between(struct str text, size_t begin, size_t end)
{
    return begin <= end && end <= text.len ? (struct str){text.ptr + begin, end - begin} : STR_NONE;
}

/* The mark that both texts end with: it begins at a bracket. */
static struct str common_end(struct str a, struct str b)
{
    size_t n = 0;

    while (n < a.len && n < b.len && a.ptr[a.len - 1 - n] == b.ptr[b.len - 1 - n])
        n++;
    while (n > 0 && n < a.len && strchr("<[{", a.ptr[a.len - n]) == NULL)
        n--;
    return str_trim((struct str){a.ptr + a.len - n, n});
}

static struct str common_begin(struct str a, struct str b)
{
    return str_trim((struct str){a.ptr, str_common(a, b)});
}

/* The text before a mark at its end, or after a mark at its beginning, white space aside. */
static struct str before_mark(struct str text, struct str mark)
{
    text = str_trim(text);
    return str_ends(text, mark) ? str_trim((struct str){text.ptr, text.len - mark.len}) : STR_NONE;
}

static struct str after_mark(struct str text, struct str mark)
{
    text = str_trim(text);
    return str_starts(text, mark) ? str_trim(str_skip(text, mark.len)) : STR_NONE;
}

/* The places of one call in a turn. */
struct places {
    size_t begin, name, name_end; /* begin: of the id, or of the name */
    size_t key, key_end, value, value_end, key2, key2_end, value2, value2_end;
    bool id;
};

/* From an offset on. False if one of the words is missing. */
static bool find_places(struct str text, size_t from, struct str name, struct str id,
                        struct places *out)
{
    size_t at = str_find_from(text, from, id);

    *out = (struct places){.name = str_find_from(text, from, name)};
    if (out->name == SIZE_MAX)
        return false;
    out->id = at != SIZE_MAX && at < out->name;
    out->begin = out->id ? at : out->name;
    out->name_end = out->name + name.len;
    out->key = str_find_from(text, out->name_end, key_one);
    out->value = str_find_from(text, out->key, value_one);
    out->key2 = str_find_from(text, out->value, key_two);
    out->value2 = str_find_from(text, out->key2, value_two);
    if (out->value2 == SIZE_MAX)
        return false;
    out->key_end = out->key + key_one.len;
    out->value_end = out->value + value_one.len;
    out->key2_end = out->key2 + key_two.len;
    out->value2_end = out->value2 + value_two.len;
    return true;
}

/* Where the JSON value at the offset ends; SIZE_MAX if it is none. */
static size_t json_end(struct str text, size_t at)
{
    struct json_scan scan;
    size_t used;

    json_scan_init(&scan);
    return json_scan_text(&scan, str_skip(text, at), &used, NULL) == JSON_SCAN_DONE ? at + used
                                                                                    : SIZE_MAX;
}

/* ---- forms ----
 *
 * Each sets what lies inside a call; *end is where the arguments end in the text.
 */

/* Arguments in JSON after the name. */
static bool learn_named(struct str text, const struct places *at, struct call_format *out,
                        size_t *end)
{
    size_t open = str_find_from(text, at->name_end, STR("{"));

    if (open == SIZE_MAX || open > at->key)
        return false;
    *end = json_end(text, open);
    out->form = CALL_NAMED;
    out->name_end = str_trim(between(text, at->name_end, open));
    return *end != SIZE_MAX && out->name_end.len > 0;
}

/* f(a=...) */
static bool learn_expression(struct str text, const struct places *at, struct call_format *out,
                             size_t *end)
{
    *end = str_find_from(text, at->value2_end, STR(")"));
    out->form = CALL_EXPRESSION;
    out->open = '(';
    out->between = '=';
    out->close = ')';
    if (*end != SIZE_MAX)
        ++*end;
    return *end != SIZE_MAX && text.ptr[at->name_end] == '(' && text.ptr[at->key_end] == '=';
}

/* A line feed on both sides of the value belongs to neither mark. */
static void split_lines(struct call_format *out)
{
    out->lines = str_ends(out->value_begin.len > 0 ? out->value_begin : out->key_end, STR("\n")) &&
                 str_starts(out->value_end, STR("\n"));
    if (!out->lines)
        return;
    out->key_end = str_trim(out->key_end);
    out->value_begin = str_trim(out->value_begin);
    out->value_end = str_trim(out->value_end);
}

/* A pair of tags for each argument. */
static bool learn_tags(struct str text, const struct places *at, struct call_format *out,
                       size_t *end)
{
    struct str head = between(text, at->name_end, at->key);
    struct str middle = between(text, at->value_end, at->key2);
    struct str inner = between(text, at->key_end, at->value);

    out->form = CALL_TAGS;
    out->parameter_begin = common_end(head, middle);
    out->name_end = before_mark(head, out->parameter_begin);
    middle.len -= MIN(middle.len, out->parameter_begin.len);
    out->value_end = (struct str){middle.ptr, marker_before_space(middle, middle.len)};
    out->key_end = inner;
    size_t space = str_find(inner, STR("\n"));
    if (space != SIZE_MAX && space > 0 && space + 1 < inner.len) {
        out->key_end = between(inner, 0, space);
        out->value_begin = str_trim(str_skip(inner, space));
    }
    split_lines(out);
    *end = str_find_from(text, at->value2_end, out->value_end);
    if (out->parameter_begin.len == 0 || out->value_end.len == 0 || *end == SIZE_MAX ||
        !str_eq(inner, between(text, at->key2_end, at->value2)))
        return false;
    *end += out->value_end.len;
    return true;
}

/* The key of the member whose value is at the offset. */
static const char *key_before(struct learner *l, struct str text, size_t at)
{
    size_t end, begin;

    for (end = at; end > 0 && text.ptr[end - 1] != ':';)
        end--;
    while (end > 0 && text.ptr[end - 1] != '"')
        end--;
    for (begin = end > 0 ? end - 1 : 0; begin > 0 && text.ptr[begin - 1] != '"';)
        begin--;
    return end > begin ? keep(l, between(text, begin, end - 1)).ptr : NULL;
}

/* Name and arguments in one JSON object. Its beginning replaces that of the name. */
static bool learn_object(struct learner *l, struct str text, struct places *at,
                         struct call_format *out, size_t *end)
{
    size_t open = at->name;

    if (open == 0 || text.ptr[open - 1] != '"')
        return false;
    while (open > 0 && text.ptr[open] != '{')
        open--;
    *end = text.ptr[open] == '{' ? json_end(text, open) : SIZE_MAX;
    if (*end == SIZE_MAX || *end < at->value2_end)
        return false;
    size_t after = at->name_end + 1;
    after += marker_space(str_skip(text, after));
    out->form = CALL_OBJECT;
    out->keyed = text.ptr[after] == ':';
    size_t braces = at->key;
    while (braces > at->name_end && text.ptr[braces] != '{')
        braces--;
    out->name_key = key_before(l, text, at->name - 1);
    out->arguments_key = key_before(l, text, braces);
    at->begin = open;
    at->id = false;
    return out->keyed || (out->name_key != NULL && out->arguments_key != NULL);
}

static bool learn_inside(struct learner *l, struct str text, struct places *at,
                         struct call_format *out, size_t *end)
{
    if (learn_object(l, text, at, out, end))
        return true;
    *out = (struct call_format){0};
    if (learn_expression(text, at, out, end))
        return true;
    *out = (struct call_format){0};
    if (learn_named(text, at, out, end))
        return true;
    *out = (struct call_format){0};
    return learn_tags(text, at, out, end);
}

/* Brackets of a list are not part of the marks around it. */
static void cut_list(struct call_format *out, struct str *before, struct str *after)
{
    if (out->form != CALL_OBJECT && out->form != CALL_EXPRESSION)
        return;
    out->list = str_ends(str_trim(*before), STR("[")) && str_starts(str_trim(*after), STR("]"));
    if (!out->list)
        return;
    *before = before_mark(*before, STR("["));
    *after = after_mark(*after, STR("]"));
}

static bool has_bracket(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr("<[{|`", text.ptr[i]) != NULL)
            return true;
    return false;
}

/* A plain word cannot open calls: answers have it, too. */
static bool is_mark(struct str text)
{
    return text.len > 2 && text.len <= MARK_BYTES_MAX && has_bracket(text);
}

/* Without a name of a role on the line before it. */
static struct str mark_of(struct str opener)
{
    size_t line = str_find(opener, STR("\n"));

    if (line == SIZE_MAX || has_bracket(between(opener, 0, line)))
        return opener;
    struct str rest = str_trim(str_skip(opener, line));
    return has_bracket(rest) ? rest : opener;
}

/* What is around the calls, from a turn with one and, if the template shows several, with two. */
static bool learn_outside(struct str one, const struct places *at, size_t end, struct str two,
                          struct call_format *out)
{
    bool whole = out->form == CALL_OBJECT || out->form == CALL_EXPRESSION;
    struct str before = between(one, 0, at->begin), after = between(one, end, one.len);
    struct str begin = STR_NONE, gap = STR_NONE;
    struct places second;

    if (at->id)
        out->id_end = between(one, at->begin + id_one.len, at->name);
    cut_list(out, &before, &after);
    before = str_trim(before);
    after = str_trim(after);
    if (two.len > 0 && find_places(two, end, name_two, id_two, &second)) {
        while (out->form == CALL_OBJECT && second.begin > end && two.ptr[second.begin] != '{')
            second.begin--;
        gap = str_trim(between(two, end, second.begin));
        begin = common_end(before, gap);
    }
    struct str call_end = begin.len > 0 ? common_begin(before_mark(gap, begin), after) : after;
    struct str opener = begin.len > 0 && !whole ? before_mark(before, begin) : begin;
    out->openers[0] = mark_of(opener.len > 0 ? opener : before);
    *(whole ? &out->closers[0] : &out->call_end) = call_end;
    if (!whole && begin.len > 0) {
        out->call_begin = begin;
        out->closers[0] = after_mark(after, call_end);
    }
    return is_mark(out->openers[0]) && out->closers[0].len <= MARK_BYTES_MAX;
}

/* ---- the whole ---- */

static bool learn_calls(struct learner *l, struct turn one, struct turn two)
{
    struct call_format *out = &l->learned->calls;
    struct places at;
    size_t end = 0;

    *out = (struct call_format){0};
    if (!find_places(one.text, 0, name_one, id_one, &at) ||
        !learn_inside(l, one.text, &at, out, &end) ||
        !learn_outside(one.text, &at, end, two.text, out))
        return false;
    for (size_t i = 0; i < CALL_OPENERS_MAX; i++)
        out->openers[i] = keep(l, out->openers[i]);
    l->tmpl->formats.calls = TOOLCALL_LEARNED;
    l->tmpl->formats.learned_calls = out;
    return true;
}

static bool tries_table(struct learner *l, struct turn one, struct turn two, size_t count)
{
    for (int i = TOOLCALL_NONE + 1; i < TOOLCALL_LEARNED; i++) {
        const struct call_format *row = toolcall_row((enum toolcall_format)i, NULL);
        bool has = row->openers[0].len == 0 || str_find(one.text, row->openers[0]) != SIZE_MAX;
        l->tmpl->formats.calls = (enum toolcall_format)i;
        if (has && row->form != CALL_MESSAGES && reads_calls(l, one, 1) &&
            (count < 2 || reads_calls(l, two, 2)))
            return true;
    }
    return false;
}

static enum chat_calls find_calls(struct learner *l)
{
    struct output_formats *formats = &l->tmpl->formats;
    enum toolcall_format shown = formats->calls;
    const struct chat_caps *caps = &l->tmpl->caps;

    if (!caps->calls)
        return shown != TOOLCALL_NONE ? CHAT_CALLS_ASSUMED
               : caps->tools          ? CHAT_CALLS_UNREADABLE
                                      : CHAT_CALLS_NONE;
    size_t count = caps->calls_parallel ? 2 : 1;
    struct turn one = render_calls(l, 1), two = {0};
    if (count == 2)
        two = render_calls(l, 2);
    if (reads_calls(l, one, 1) && (count < 2 || reads_calls(l, two, 2)))
        return CHAT_CALLS_READ;
    if (tries_table(l, one, two, count)) {
        formats->also = shown; /* what the template asks for, though calls look different */
        return CHAT_CALLS_READ;
    }
    formats->calls = shown;
    if (learn_calls(l, one, two) && reads_calls(l, one, 1) && (count < 2 || reads_calls(l, two, 2)))
        return CHAT_CALLS_READ;
    formats->calls = shown;
    formats->learned_calls = NULL;
    return CHAT_CALLS_UNREADABLE;
}

/* The mark at the end of a text. */
static struct str last_mark(struct str text)
{
    text = str_trim(text);
    char open = text.len == 0 ? '\0' : text.ptr[text.len - 1] == ']' ? '[' : '<';
    size_t at = text.len;

    while (at > 0 && text.ptr[at - 1] != open)
        at--;
    return at > 0 ? between(text, at - 1, text.len) : STR_NONE;
}

/* The prompt itself may open the thought: then the mark is at its end. */
static void find_thoughts(struct learner *l)
{
    struct output_formats *formats = &l->tmpl->formats;
    struct reasoning_marks *marks = &l->learned->thoughts;
    enum reasoning_format shown = formats->reasoning;
    struct turn turn = render_turn(
        l, (struct message){CHAT_SAID(ROLE_ASSISTANT, "xq answer"), .thought = thought});
    size_t at = str_find(turn.text, thought), answer = str_find(turn.text, said);

    struct str close = output_thought_marks(formats)->close;
    if (at == SIZE_MAX || answer == SIZE_MAX || answer < at || reads_thought(l, turn) ||
        (close.len > 0 && str_find(turn.text, close) != SIZE_MAX))
        return;
    struct str open = str_trim(between(turn.text, 0, at));
    *marks = (struct reasoning_marks){
        .open = keep(l, open.len > 0 ? open : last_mark(turn.tail)),
        .close = keep(l, str_trim(between(turn.text, at + thought.len, answer))),
    };
    formats->reasoning = REASONING_LEARNED;
    formats->learned_thoughts = marks;
    if (is_mark(marks->open) && is_mark(marks->close) && !str_eq(marks->open, l->begin) &&
        reads_thought(l, turn))
        return;
    formats->reasoning = shown;
    formats->learned_thoughts = NULL;
}

/* Where we describe the tools, calls have the format of our description, or the one that the model
 * was trained on. */
static bool describes_tools(struct chat_template *tmpl)
{
    const struct call_format *native = output_call_format(&tmpl->formats);

    if (tmpl->caps.tools || native->form == CALL_MESSAGES)
        return false;
    tmpl->formats.also = native->control && !native->bare ? tmpl->formats.calls : TOOLCALL_NONE;
    tmpl->formats.calls = TOOLCALL_HERMES;
    return true;
}

static void learn(struct learner *l)
{
    const struct message user[] = {{CHAT_SAID(ROLE_USER, "xq question")}};

    l->prompt = render(l, user, 1);
    struct turn plain = render_turn(l, (struct message){CHAT_SAID(ROLE_ASSISTANT, "xq answer")});
    size_t at = str_find(plain.text, said);
    if (at != SIZE_MAX) {
        l->end = str_skip(plain.text, at + said.len);
        l->begin = last_mark((struct str){plain.tail.ptr, plain.tail.len + at});
    }
    if (output_call_format(&l->tmpl->formats)->form != CALL_MESSAGES)
        find_thoughts(l);
    l->tmpl->calls = describes_tools(l->tmpl) ? CHAT_CALLS_OURS : find_calls(l);
}

/* A line break after the mark, as text or in a string of the template. */
static bool opens_line(struct str source, struct str mark)
{
    for (size_t at = 0; mark.len > 0 && (at = str_find_from(source, at, mark)) != SIZE_MAX;) {
        struct str after = str_skip(source, at += mark.len);
        if (str_starts(after, STR("\n")) || str_starts(after, STR("\\n")))
            return true;
    }
    return false;
}

void chat_forget(struct chat_template *tmpl)
{
    if (tmpl->learned == NULL)
        return;
    arena_fini(&tmpl->learned->arena);
    mem_free(tmpl->learned);
    tmpl->learned = NULL;
}

enum err chat_learn(struct chat_template *tmpl, struct str source, struct errinfo *info)
{
    struct learner l = {.tmpl = tmpl, .learned = mem_alloc(sizeof(*l.learned))};

    tmpl->learned = l.learned;
    arena_init(&l.learned->arena, LEARNED_BYTES);
    arena_init(&l.arena, LEARN_ARENA_BYTES);
    l.schema = yyjson_read(schema, sizeof(schema) - 1, 0);
    l.arguments = yyjson_read(arguments, sizeof(arguments) - 1, 0);
    tmpl->formats = output_detect(source);
    tmpl->thought_line = opens_line(source, output_thought_marks(&tmpl->formats)->open);
    if (l.schema == NULL || l.arguments == NULL)
        l.err = ERR_NOMEM;
    else
        learn(&l);
    yyjson_doc_free(l.schema);
    yyjson_doc_free(l.arguments);
    arena_fini(&l.arena);
    if (tmpl->formats.learned_calls == NULL && tmpl->formats.learned_thoughts == NULL)
        chat_forget(tmpl);
    return l.err != ERR_NOMEM ? ERR_OK
                              : err_set(info, ERR_NOMEM, "no memory to try the chat template");
}
