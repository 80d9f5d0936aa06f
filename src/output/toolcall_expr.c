/*
 * toolcall_expr.c: calls written as expressions: f(a=1, b="x") in Python, call:f{a:1,b:<|"|>x<|"|>}
 * in Gemma.
 *
 *      ITEM --name--> NAME --( {--> ARG --,--> ARG ... --) }--> ITEM
 *      ITEM also reads [ , ] print( and the closer
 *
 * Arguments are passed on one at a time: where a literal ends is only known at its end. If the
 * family may write JSON objects instead (Llama, LFM), toolcall_json.c takes over at the first
 * bracket.
 */
#include <assert.h>

#include "output/toolcall_impl.h"

enum { ITEM, NAME, ARG, TAIL };

/* An argument of this length is read again only after it has grown by an eighth; otherwise a long
 * one would cost the square of its length. It may be passed on that much later. */
enum { PATIENT_BYTES = 1024 };

/* Continues to the closer, or to content if the format has none. */
static enum tc_step calls_over(struct toolcall *call)
{
    if (!call->any)
        return tc_bad(call, "there is no call where one was announced");
    call->state = TAIL;
    if (call->format->closers[0].len == 0)
        tc_leave(call);
    return TC_AGAIN;
}

/* The first letter cannot distinguish print(f()) from a tool called printer. */
static enum tc_step skip_print(struct toolcall *call)
{
    static const struct str print = {"print(", 6};

    switch (marker_match(tc_rest(call), print)) {
    case MARKER_PART:
        return TC_WAIT;
    case MARKER_YES:
        tc_eat(call, print.len);
        return TC_AGAIN;
    default:
        return tc_go(call, NAME);
    }
}

static enum tc_step step_item(struct toolcall *call)
{
    const struct call_format *format = call->format;
    bool python = format->open == '(';
    int which;

    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    char c = text.ptr[0];
    if (python && c == '{' && !call->any) {
        call->steps = tc_json_steps;
        return TC_AGAIN;
    }
    if (python && c == '[' && !call->list && !call->any) {
        call->list = true;
        tc_eat(call, 1);
        return TC_AGAIN;
    }
    if (call->any && (c == ',' || c == ';' || c == ')')) {
        tc_eat(call, 1);
        return TC_AGAIN;
    }
    if (call->list && call->any && c == ']') {
        call->list = false;
        tc_eat(call, 1);
        return calls_over(call);
    }
    if (python && tc_literal_name(text) == 0)
        return calls_over(call);
    if (python) {
        call->mid = true;
        return skip_print(call);
    }
    enum tc_step step = tc_one_of(call, &format->call_begin, 1, &which);
    if (step == TC_BAD)
        return calls_over(call);
    if (step != TC_DONE)
        return step;
    call->mid = true;
    return tc_go(call, NAME);
}

static enum tc_step step_name(struct toolcall *call)
{
    struct str text = tc_rest(call);
    size_t len = tc_literal_name(text);

    if (len > TC_NAME_MAX)
        return tc_bad(call, "the name is too long");
    if (len == text.len)
        return TC_WAIT;
    if (text.ptr[len] != call->format->open)
        return tc_bad(call, "the call is not of the form that was announced");
    buf_clear(&call->name);
    buf_append(&call->name, text.ptr, len);
    tc_eat(call, len + 1);
    struct str name = tc_text(&call->name);
    if (call->format->bare && str_ends(name, STR(".call"))) { /* Llama */
        buf_truncate(&call->name, name.len - 5);
        name.len -= 5;
    }
    call->state = ARG;
    return tc_begin(call, name);
}

static enum tc_step end_call(struct toolcall *call)
{
    tc_eat(call, 1);
    if (!call->first_arg)
        tc_arguments(call, STR("}"));
    tc_end(call);
    return tc_go(call, ITEM);
}

/* Reads the key of the argument into call->key, and *used is the offset of its value. MARKER_NO if
 * it has no key and none can be derived. */
static enum marker_match read_key(struct toolcall *call, struct str text, size_t *used)
{
    const struct call_format *format = call->format;
    size_t len = tc_literal_name(text);
    size_t at = len + marker_space(marker_skip(text, len));

    if (at == text.len)
        return len > TC_NAME_MAX ? MARKER_NO : MARKER_PART;
    struct str key = {text.ptr, len};
    *used = at + 1;
    if (len == 0 || len > TC_NAME_MAX || text.ptr[at] != format->between) {
        if (format->open != '(')
            return MARKER_NO;
        key = tc_parameter(call, tc_text(&call->name), call->position);
        *used = 0;
    }
    if (key.len == 0 || key.len > TC_NAME_MAX)
        return MARKER_NO;
    buf_clear(&call->key);
    buf_append(&call->key, key.ptr, key.len);
    return MARKER_YES;
}

static enum tc_step step_arg(struct toolcall *call)
{
    const struct call_format *format = call->format;
    size_t used = 0;
    size_t value = 0;

    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] == format->close)
        return end_call(call);
    if (call->seen > PATIENT_BYTES && text.len < call->seen + call->seen / 8 && !call->over)
        return TC_WAIT;
    call->seen = text.len;
    enum marker_match match = read_key(call, text, &used);
    if (match == MARKER_YES) {
        buf_clear(&call->out);
        buf_append_str(&call->out, call->first_arg ? "{\"" : ",\"");
        json_scan_escape(&call->out, tc_text(&call->key));
        buf_append_str(&call->out, "\":");
        match = tc_literal(marker_skip(text, used), format->quote, &call->out, &value);
    }
    if (match == MARKER_PART)
        return TC_WAIT;
    if (match == MARKER_NO)
        return tc_bad(call, "an argument is not a literal");
    text = marker_skip(text, used + value);
    size_t space = marker_space(text);
    if (space == text.len)
        return TC_WAIT;
    if (text.ptr[space] != ',' && text.ptr[space] != format->close)
        return tc_bad(call, "an argument is not a literal");
    tc_flush(call);
    call->first_arg = false;
    call->position++;
    tc_eat(call, used + value + space + (text.ptr[space] == ',' ? 1 : 0));
    return TC_AGAIN;
}

tc_step_fn *const tc_expr_steps[] = {
    [ITEM] = step_item, [NAME] = step_name, [ARG] = step_arg, [TAIL] = tc_close};
