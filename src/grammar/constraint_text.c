/*
 * constraint_text.c: "any text up to a marker" as grammar rules, since GBNF cannot say that directly.
 *
 * An Aho-Corasick automaton whose states are the prefixes of the markers: each state records how
 * much of a marker the text ends with. One rule per state, one alternative per character that leads
 * on, one for all others:
 *
 *      marker </t>     t-0 ::= "<" t-1 | [^<] t-0
 *                      t-1 ::= "/" t-2 | "<" t-1 | [^</] t-0
 *                      t-2 ::= "t" t-3 | "<" t-1 | [^<t] t-0
 *                      t-3 ::= ">" then | "<" t-1 | [^<>] t-0
 *
 * It is deterministic and recurses only at the end of rules, so the library's cost stays small
 * however long the text grows.
 */
#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "grammar/constraint_impl.h"
#include "base/utf8.h"

enum { STATES_MAX = CONSTRAINT_EXITS_MAX * CONSTRAINT_MARKER_CHARS_MAX + 1, NO_STATE = -1 };

/* A state is a prefix of a marker: chars[0..len) of marker `exit`. Of equal prefixes only the first
 * is a state. */
struct state {
    size_t exit;
    size_t len;
};

struct automaton {
    const struct constraint_exit *exits;
    size_t exits_count;
    uint32_t chars[CONSTRAINT_EXITS_MAX][CONSTRAINT_MARKER_CHARS_MAX];
    size_t lens[CONSTRAINT_EXITS_MAX];
    struct state states[STATES_MAX];
    int states_count;
};

static bool same_chars(const uint32_t *a, const uint32_t *b, size_t len)
{
    return memcmp(a, b, len * sizeof(*a)) == 0;
}

static int find_state(const struct automaton *automaton, const uint32_t *chars, size_t len)
{
    for (int i = 0; i < automaton->states_count; i++) {
        const struct state *state = &automaton->states[i];
        if (state->len == len && same_chars(automaton->chars[state->exit], chars, len))
            return i;
    }
    return NO_STATE;
}

static void build(struct automaton *automaton, const struct constraint_exit *exits, size_t count)
{
    automaton->exits = exits;
    automaton->exits_count = count;
    automaton->states_count = 1;
    automaton->states[0] = (struct state){0, 0};
    for (size_t e = 0; e < count; e++) {
        struct str marker = exits[e].marker;
        const char *at = marker.ptr, *end = marker.ptr + marker.len;
        size_t len = 0;
        for (; at < end; len++) {
            assert(len < CONSTRAINT_MARKER_CHARS_MAX);
            automaton->chars[e][len] = utf8_next(&at, end);
        }
        automaton->lens[e] = len;
        for (size_t n = 1; n <= len; n++)
            if (find_state(automaton, automaton->chars[e], n) == NO_STATE)
                automaton->states[automaton->states_count++] = (struct state){e, n};
    }
}

/* The state after `next`: the longest suffix of the text that is a prefix of a marker. */
static int follow(const struct automaton *automaton, int from, uint32_t next)
{
    const struct state *state = &automaton->states[from];
    uint32_t text[CONSTRAINT_MARKER_CHARS_MAX + 1];

    memcpy(text, automaton->chars[state->exit], state->len * sizeof(*text));
    text[state->len] = next;
    for (size_t skip = 0;; skip++) {
        int to = find_state(automaton, text + skip, state->len + 1 - skip);
        if (to != NO_STATE)
            return to; /* in the end, the empty prefix */
    }
}

static void put_code(struct constraint_writer *writer, uint32_t code)
{
    buf_appendf(writer->out,
                code < 0x80      ? "\\x%02X"
                : code < 0x10000 ? "\\u%04X"
                                 : "\\U%08X",
                (unsigned)code);
}

/* The marker that is complete in this state, or NULL. */
static const struct constraint_exit *exit_of(const struct automaton *automaton, int index)
{
    const struct state *state = &automaton->states[index];

    return state->len > 0 && state->len == automaton->lens[state->exit]
               ? &automaton->exits[state->exit]
               : NULL;
}

static void put_step(struct constraint_writer *writer, const struct automaton *automaton,
                     const char *name, int to, uint32_t code)
{
    const struct constraint_exit *out = exit_of(automaton, to);

    if (out != NULL && out->then == NULL)
        return;
    buf_append_str(writer->out, "[");
    put_code(writer, code);
    if (out != NULL)
        buf_appendf(writer->out, "] %s | ", out->then);
    else
        buf_appendf(writer->out, "] %s-%d | ", name, to);
}

/* One step per distinct marker character that leads somewhere; `listed` collects those that have
 * one. */
static size_t put_steps(struct constraint_writer *writer, const struct automaton *automaton,
                        const char *name, int from, uint32_t listed[STATES_MAX])
{
    size_t count = 0;

    for (int i = 1; i < automaton->states_count; i++) {
        const struct state *state = &automaton->states[i];
        uint32_t code = automaton->chars[state->exit][state->len - 1];
        bool known = false;
        for (size_t k = 0; k < count && !known; k++)
            known = listed[k] == code;
        int to = known ? 0 : follow(automaton, from, code);
        if (to == 0)
            continue;
        listed[count++] = code;
        put_step(writer, automaton, name, to, code);
    }
    return count;
}

void constraint_put_text(struct constraint_writer *writer, const char *name,
                         const struct constraint_exit *exits, size_t count, bool may_end)
{
    struct automaton automaton;
    uint32_t listed[STATES_MAX];

    assert(count > 0 && count <= CONSTRAINT_EXITS_MAX);
    for (size_t i = 0; i < count; i++)
        writer->mark_too_long |= utf8_count(exits[i].marker) > CONSTRAINT_MARKER_CHARS_MAX;
    if (writer->mark_too_long)
        return;
    build(&automaton, exits, count);
    for (int i = 0; i < automaton.states_count; i++) {
        if (exit_of(&automaton, i) != NULL)
            continue;
        buf_appendf(writer->out, "%s-%d ::= ", name, i);
        size_t others = put_steps(writer, &automaton, name, i, listed);
        buf_append_str(writer->out, "[^");
        for (size_t k = 0; k < others; k++)
            put_code(writer, listed[k]);
        buf_appendf(writer->out, "] %s-0%s\n", name, may_end ? " | \"\"" : "");
    }
}

void constraint_put_literal(struct constraint_writer *writer, struct str text)
{
    if (text.len == 0)
        return;
    buf_append_char(writer->out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '"' || c == '\\')
            buf_appendf(writer->out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_appendf(writer->out, "\\x%02X", (unsigned)c);
        else
            buf_append_char(writer->out, (char)c);
    }
    buf_append_str(writer->out, "\" ");
}

void constraint_put(struct constraint_writer *writer, const char *gbnf, ...)
{
    va_list args;

    va_start(args, gbnf);
    for (; *gbnf != '\0'; gbnf++) {
        if (*gbnf == '@')
            constraint_put_literal(writer, va_arg(args, struct str));
        else if (*gbnf == '#')
            buf_appendf(writer->out, "%zu", va_arg(args, size_t));
        else
            buf_append_char(writer->out, *gbnf);
    }
    va_end(args);
}

bool constraint_is_plain_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] >= 0x80 || tc_literal_name(str_skip(name, i)) == 0)
            return false;
    return true;
}

void constraint_put_json_string(struct constraint_writer *writer, struct str text)
{
    struct buf json;

    buf_init(&json, CONSTRAINT_BYTES_MAX);
    buf_append_char(&json, '"');
    json_scan_escape(&json, text);
    buf_append_char(&json, '"');
    if (json.err != ERR_OK && writer->out->err == ERR_OK)
        writer->out->err = json.err;
    constraint_put_literal(writer, (struct str){buf_str(&json), json.len});
    buf_fini(&json);
}
