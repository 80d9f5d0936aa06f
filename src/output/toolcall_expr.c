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
    static const struct str print = STR("print(");

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
    tc_clear(&call->name);
    buf_append(&call->name, text.ptr, len);
    tc_eat(call, len + 1);
    struct str name = buf_text(&call->name);
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
    size_t at = len + marker_space(str_skip(text, len));

    if (at == text.len)
        return len > TC_NAME_MAX ? MARKER_NO : MARKER_PART;
    struct str key = {text.ptr, len};
    *used = at + 1;
    if (len == 0 || len > TC_NAME_MAX || text.ptr[at] != format->between) {
        if (format->open != '(')
            return MARKER_NO;
        key = tc_parameter(call, buf_text(&call->name), call->position);
        *used = 0;
    }
    if (key.len == 0 || key.len > TC_NAME_MAX)
        return MARKER_NO;
    tc_clear(&call->key);
    buf_append(&call->key, key.ptr, key.len);
    return MARKER_YES;
}

/* a=  at the front of the text: the next argument. */
static enum marker_match is_argument(const struct toolcall *call, struct str text)
{
    size_t len = tc_literal_name(text);

    if (len == text.len)
        return len > TC_NAME_MAX ? MARKER_NO : MARKER_PART;
    return len > 0 && text.ptr[len] == call->format->between ? MARKER_YES : MARKER_NO;
}

/* Some templates write strings without quotes, and models learn that: the text ends at the bracket,
 * or at a comma before another argument. */
static enum marker_match bare_text(struct toolcall *call, struct str text, size_t *used)
{
    for (size_t at = 0; at < text.len; at++) {
        enum marker_match match = MARKER_NO;
        if (text.ptr[at] == ',') {
            struct str rest = str_skip(text, at + 1);
            match = is_argument(call, str_skip(rest, marker_space(rest)));
        }
        if (match == MARKER_PART)
            return MARKER_PART;
        if (match == MARKER_NO && text.ptr[at] != call->format->close)
            continue;
        buf_append_char(&call->out, '"');
        json_scan_escape(&call->out, str_trim((struct str){text.ptr, at}));
        buf_append_char(&call->out, '"');
        *used = at;
        return MARKER_YES;
    }
    return MARKER_PART;
}

/* Does the text after a quote show that the string ends there? The next argument follows, or the
 * end of the call. */
static enum marker_match ends_string(const struct toolcall *call, struct str text)
{
    text = str_skip(text, marker_space(text));
    if (text.len == 0)
        return call->over ? MARKER_NO : MARKER_PART;
    char c = text.ptr[0];
    text = str_skip(text, 1);
    text = str_skip(text, marker_space(text));
    if (c == ',')
        return is_argument(call, text);
    if (c != call->format->close)
        return MARKER_NO;
    if (text.len == 0)
        return call->over ? MARKER_YES : MARKER_PART;
    enum marker_match closer = marker_match(text, call->format->closers[0]);
    bool ends = text.ptr[0] == ']' || text.ptr[0] == ',' || text.ptr[0] == ';';
    return ends && closer == MARKER_NO ? MARKER_YES : closer;
}

/* A text that has its own quotes inside, not escaped: grep -n 'x' in one that begins with '. */
static enum marker_match text_with_quotes(struct toolcall *call, struct str text, size_t *used)
{
    char quote = text.ptr[0];
    size_t done;

    tc_clear(&call->late);
    buf_append_char(&call->late, quote);
    for (size_t at = 1; at < text.len; at++) {
        bool inside = text.ptr[at] != quote;
        if (!inside) {
            enum marker_match match = ends_string(call, str_skip(text, at + 1));
            if (match == MARKER_PART)
                return match;
            if (match == MARKER_YES) {
                buf_append_char(&call->late, quote);
                *used = at + 1;
                return tc_literal(buf_text(&call->late), STR_NONE, &call->out, &done);
            }
            buf_append_char(&call->late, '\\');
        }
        buf_append_char(&call->late, text.ptr[at]);
        if (text.ptr[at] == '\\' && at + 1 < text.len)
            buf_append_char(&call->late, text.ptr[++at]);
    }
    return MARKER_PART;
}

/* The value, of the type that the schema demands: a quoted number is a number. */
static enum marker_match read_value(struct toolcall *call, struct str text, size_t *used)
{
    unsigned types = tc_types(call, buf_text(&call->name), buf_text(&call->key));
    size_t begin = call->out.len;
    enum marker_match match = tc_literal(text, call->format->quote, &call->out, used);

    if (match == MARKER_NO && types == TC_STRING && call->format->open == '(') {
        buf_truncate(&call->out, begin);
        return bare_text(call, text, used);
    }
    struct str literal = {buf_str(&call->out) + begin, call->out.len - begin};
    if (match == MARKER_YES && types != 0 && !(types & TC_STRING) && literal.len > 0 &&
        literal.ptr[0] == '"' && tc_decode(literal, &call->late)) {
        buf_truncate(&call->out, begin);
        tc_value(&call->out, buf_text(&call->late), types);
    }
    return match;
}

/* What follows an argument: *next is where the rest begins. Templates forget the comma. */
static enum marker_match after_argument(const struct toolcall *call, struct str text, size_t *next)
{
    *next = marker_space(text);
    if (*next == text.len)
        return MARKER_PART;
    if (text.ptr[*next] == call->format->close)
        return MARKER_YES;
    if (text.ptr[*next] == ',') {
        ++*next;
        return MARKER_YES;
    }
    return is_argument(call, str_skip(text, *next));
}

static bool has_quotes_inside(const struct toolcall *call, struct str text)
{
    return call->format->open == '(' && text.len > 0 &&
           (text.ptr[0] == '\'' || text.ptr[0] == '"') &&
           tc_types(call, buf_text(&call->name), buf_text(&call->key)) == TC_STRING;
}

static enum tc_step step_arg(struct toolcall *call)
{
    size_t used = 0, value = 0, next = 0, mark = 0;

    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] == call->format->close)
        return end_call(call);
    bool patient = !call->over && !call->asked;
    if (patient && call->seen > PATIENT_BYTES && text.len < call->seen + call->seen / 8)
        return TC_WAIT;
    call->seen = text.len;
    enum marker_match match = read_key(call, text, &used);
    if (match == MARKER_YES) {
        tc_clear(&call->out);
        buf_append_str(&call->out, call->first_arg ? "{\"" : ",\"");
        json_scan_escape(&call->out, buf_text(&call->key));
        buf_append_str(&call->out, "\":");
        mark = call->out.len;
        match = read_value(call, str_skip(text, used), &value);
    }
    if (match == MARKER_YES)
        match = after_argument(call, str_skip(text, used + value), &next);
    if (match == MARKER_NO && mark > 0 && has_quotes_inside(call, str_skip(text, used))) {
        buf_truncate(&call->out, mark);
        match = text_with_quotes(call, str_skip(text, used), &value);
        if (match == MARKER_YES)
            match = after_argument(call, str_skip(text, used + value), &next);
    }
    if (match == MARKER_PART)
        return TC_WAIT;
    if (match == MARKER_NO)
        return tc_bad(call, "an argument is not a literal");
    tc_flush(call);
    call->first_arg = false;
    call->position++;
    tc_eat(call, used + value + next);
    return TC_AGAIN;
}

tc_step_fn *const tc_expr_steps[] = {
    [ITEM] = step_item, [NAME] = step_name, [ARG] = step_arg, [TAIL] = tc_close};
