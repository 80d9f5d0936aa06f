/*
 * toolcall_messages.c: output that consists of messages with a recipient or a channel each; there is
 * no content outside them. gpt-oss, Muse, Functionary v3.2.
 *
 *      gpt-oss      ( <|start|> assistant )? ( to=functions.f )?
 *                       <|channel|> analysis|commentary|final ... <|message|> body END
 *      Muse         ( <|start|> assistant )? to=self|user|f <|message|> body END
 *      Functionary  >>> all|f \n body
 *      END: its own mark, or the beginning of the next message
 *
 *      START --> HEADER --> BODY --END--> START
 *                  `-to f--> FIRST --> ARGS or tags --> TAIL --END--> START
 *
 * The channel `analysis` and messages to `self` are reasoning. Everything else that is not for a
 * tool is content, whatever its channel: better shown than lost. So is a body without a header, and
 * a message to a tool that the client does not have, unless it looks like arguments.
 */

#include "output/toolcall_impl.h"

enum { START, HEADER, BODY, FIRST, ARGS, TAIL };

static const struct call_messages *messages_of(const struct toolcall *call)
{
    return call->format->messages;
}

void tc_message_end(struct toolcall *call)
{
    call->steps = tc_message_steps;
    call->state = TAIL;
    call->mid = false;
}

static enum marker_match is_header(const struct toolcall *call, struct str text)
{
    const struct call_messages *messages = messages_of(call);
    bool part = false;

    for (size_t i = 0; i < CALL_ENDS_MAX && messages->starts[i].len > 0; i++) {
        enum marker_match match = marker_match(text, messages->starts[i]);
        if (match == MARKER_YES)
            return match;
        part |= match == MARKER_PART;
    }
    return part ? MARKER_PART : MARKER_NO;
}

/* A header that is only a name on its own line must be one that is known: the text may quote the
 * mark before it. */
static enum marker_match is_named_header(const struct toolcall *call, struct str text)
{
    struct str opening = messages_of(call)->opening;
    enum marker_match match = marker_match(text, opening);

    if (match == MARKER_PART)
        return match;
    if (match == MARKER_YES)
        text = str_skip(text, opening.len);
    size_t len = tc_literal_name(text);
    if (len == text.len && len <= TC_NAME_MAX)
        return MARKER_PART;
    struct str name = {text.ptr, len};
    bool known = str_eq(name, STR("all")) || tc_may_call(call, name);
    return len > 0 && len <= TC_NAME_MAX && text.ptr[len] == '\n' && known ? MARKER_YES : MARKER_NO;
}

static enum tc_step step_start(struct toolcall *call)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    tc_clear(&call->raw);
    struct str opening = messages_of(call)->opening;
    enum marker_match match = opening.len > 0 ? is_named_header(call, text) : is_header(call, text);
    if (match == MARKER_PART && !call->over)
        return TC_WAIT;
    call->kind = OUTPUT_CONTENT;
    if (match != MARKER_YES && opening.len > 0 && str_starts(text, opening)) {
        tc_emit(call, OUTPUT_CONTENT, opening);
        tc_eat(call, opening.len);
    }
    return tc_go(call, match == MARKER_YES ? HEADER : BODY);
}

/* The word after the last such marker in a header, or empty. */
static struct str word_after(struct str header, struct str marker)
{
    struct str word = STR_NONE;
    size_t at;

    while ((at = str_find(header, marker)) != SIZE_MAX) {
        size_t len = 0;
        header = str_skip(header, at + marker.len);
        while (len < header.len && !marker_is_space(header.ptr[len]) && header.ptr[len] != '<')
            len++;
        word = (struct str){header.ptr, len};
    }
    return word;
}

/* The tool that a message is for; empty if it is for a person or for the model itself. */
static struct str recipient_of(const struct toolcall *call, struct str header)
{
    static const struct str others[] = {STR("user"), STR("self"), STR("assistant"), STR("all")};
    struct str to = messages_of(call)->opening.len > 0 ? header : word_after(header, STR("to="));

    if (str_starts(to, messages_of(call)->opening))
        to = str_skip(to, messages_of(call)->opening.len);
    to = str_trim(to);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (str_eq(to, others[i]))
            return STR_NONE;
    return str_starts(to, STR("functions.")) ? str_skip(to, 10) : to;
}

static enum tc_step step_header(struct toolcall *call)
{
    enum tc_step step = tc_until(call, messages_of(call)->header_end, &call->name);

    if (step != TC_DONE)
        return step;
    struct str header = buf_text(&call->name);
    struct str tool = recipient_of(call, header);
    if (tool.len > 0) {
        buf_truncate(&call->name, (size_t)(tool.ptr - header.ptr) + tool.len);
        buf_consume(&call->name, (size_t)(tool.ptr - header.ptr));
        return tc_go(call, FIRST);
    }
    bool thought = str_eq(word_after(header, STR("<|channel|>")), STR("analysis")) ||
                   str_eq(word_after(header, STR("to=")), STR("self"));
    call->kind = thought ? OUTPUT_REASONING : OUTPUT_CONTENT;
    return tc_go(call, BODY);
}

static enum tc_step step_end(struct toolcall *call, struct marker_hit hit)
{
    const struct call_messages *messages = messages_of(call);
    bool own = hit.which >= 0 && (unsigned)hit.which < messages->ends_own;

    tc_eat(call, hit.at + (own ? messages->ends[hit.which].len : 0));
    if (hit.which < 0)
        return TC_WAIT;
    return tc_go(call, START);
}

static enum tc_step step_body(struct toolcall *call)
{
    struct str text = tc_rest(call);
    struct marker_hit hit = marker_find(text, messages_of(call)->ends, CALL_ENDS_MAX);

    if (hit.which < 0 && call->over)
        hit.at = text.len;
    if (hit.at > 0)
        tc_emit(call, (enum output_event_type)call->kind, (struct str){text.ptr, hit.at});
    return step_end(call, hit);
}

static bool is_known(const struct toolcall *call, struct str name)
{
    return call->options.tools_count > 0 && tc_may_call(call, name);
}

/* The first character of a message to a tool. */
static enum tc_step step_first(struct toolcall *call)
{
    struct str name = buf_text(&call->name);

    tc_skip_space(call);
    struct str text = tc_rest(call);
    call->mid = true;
    if (text.len == 0)
        return TC_WAIT;
    if (call->format->call_begin.len > 0 && text.ptr[0] == '<') {
        int which;
        enum tc_step step = tc_one_of(call, call->format->openers, 1, &which);
        if (step == TC_DONE)
            tc_enter_tags(call);
        if (step != TC_BAD)
            return step == TC_DONE ? TC_AGAIN : step;
    }
    if (text.ptr[0] != '{' && text.ptr[0] != '<' && !is_known(call, name)) {
        call->mid = false;
        call->kind = OUTPUT_CONTENT;
        return tc_go(call, BODY);
    }
    tc_json_start(call);
    call->state = ARGS;
    return tc_begin(call, name);
}

static enum tc_step step_args(struct toolcall *call)
{
    struct str text = tc_rest(call);

    /* A call without a body has no arguments. */
    bool empty = !call->has_args && text.len > 0 && text.ptr[0] == '<';
    struct marker_hit hit = empty ? marker_find(text, messages_of(call)->ends, CALL_ENDS_MAX)
                                  : (struct marker_hit){.at = 1, .which = -1};
    if (hit.at > 0)
        return tc_json_arguments_to_end(call, TAIL);
    if (hit.which < 0)
        return TC_WAIT;
    tc_end(call);
    return tc_go(call, TAIL);
}

static enum tc_step step_tail(struct toolcall *call)
{
    return step_end(call, marker_find(tc_rest(call), messages_of(call)->ends, CALL_ENDS_MAX));
}

tc_step_fn *const tc_message_steps[] = {
    [START] = step_start, [HEADER] = step_header, [BODY] = step_body,
    [FIRST] = step_first, [ARGS] = step_args,     [TAIL] = step_tail};
