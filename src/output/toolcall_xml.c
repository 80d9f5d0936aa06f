/*
 * toolcall_xml.c: calls with one tag pair per argument: Qwen3-Coder, GLM, MiniMax M2, DeepSeek's
 * DSML.
 *
 *      CALL --> NAME --> PARAM --> KEY --> BEFORE --> VALUE --> PARAM ... --> CALL | content
 *       `--after a call, neither another nor the closer--> CLOSE --> content
 *
 * A value that is a string, by the schema or by how it begins, is passed on while it arrives.
 * Others are passed on when complete, because only then their type is known. A value ends at the
 * first closing tag: none of the formats has an escape for it.
 */
#include <assert.h>

#include "output/toolcall_impl.h"

enum { CALL, NAME, PARAM, KEY, BEFORE, VALUE, CLOSE };

/* Values of call->kind: how the value is read. */
enum { UNDECIDED, WHOLE, STREAM, NEWLINE };

static const struct tc_xml_syntax *syntax_of(const struct toolcall *call)
{
    return call->format->syntax;
}

static enum tc_step step_call(struct toolcall *call)
{
    const struct tc_xml_syntax *syntax = syntax_of(call);
    struct str marks[] = {syntax->call_begin, call->format->closers[0], call->format->closers[1]};
    bool alone = tc_opened_by(call, syntax->call_begin);
    bool opened = alone && !call->any;
    int which = 0;
    enum tc_step step = opened ? TC_DONE : tc_one_of(call, marks, COUNT_OF(marks), &which);

    if (step == TC_WAIT)
        return TC_WAIT;
    if (!call->any && (step == TC_BAD || which > 0))
        return tc_bad(call, "there is no call where one was announced");
    if (step == TC_BAD && !alone)
        return tc_go(call, CLOSE);
    if (step == TC_BAD || which > 0) {
        tc_leave(call);
        return TC_AGAIN;
    }
    call->mid = true;
    return tc_go(call, NAME);
}

static enum tc_step step_name(struct toolcall *call)
{
    static const struct str ends[] = {{"<", 1}, {"\n", 1}};
    struct str name_end = syntax_of(call)->name_end;
    struct str text;
    int which;

    if (name_end.len > 0) {
        enum tc_step step = tc_until(call, &name_end, 1, &call->name, &which);
        if (step != TC_DONE)
            return step;
    } else {
        tc_skip_space(call);
        text = tc_rest(call);
        struct marker_hit hit = marker_find(text, ends, COUNT_OF(ends));
        if (hit.at > TC_NAME_MAX)
            return tc_bad(call, "the name is too long");
        if (hit.which < 0)
            return TC_WAIT;
        buf_clear(&call->name);
        buf_append(&call->name, text.ptr, hit.at);
        tc_eat(call, hit.at);
    }
    call->state = PARAM;
    return tc_begin(call, str_trim(tc_text(&call->name)));
}

static void end_call(struct toolcall *call)
{
    if (!call->first_arg)
        tc_arguments(call, STR("}"));
    tc_end(call);
}

static enum tc_step step_param(struct toolcall *call)
{
    const struct tc_xml_syntax *syntax = syntax_of(call);
    struct str marks[] = {syntax->parameter_begin, syntax->call_end, call->format->closers[0],
                          call->format->closers[1]};
    int which = 0;
    enum tc_step step = tc_one_of(call, marks, COUNT_OF(marks), &which);

    if (step != TC_DONE)
        return step == TC_BAD ? tc_bad(call, "there is text between the parameters") : step;
    if (which == 0)
        return tc_go(call, KEY);
    end_call(call);
    call->state = CALL;
    if (which > 1)
        tc_leave(call);
    return TC_AGAIN;
}

static unsigned value_types(struct toolcall *call, struct str attributes)
{
    unsigned types = tc_types(call, str_trim(tc_text(&call->name)), tc_text(&call->key));

    if (str_find(attributes, STR("\"true\"")) != SIZE_MAX)
        return TC_STRING;
    if (str_find(attributes, STR("\"false\"")) != SIZE_MAX)
        return types & ~(unsigned)TC_STRING ? types & ~(unsigned)TC_STRING : ~(unsigned)TC_STRING;
    return types;
}

/* Between a key and its value. The types of the value are kept in call->position, which is
 * otherwise unused in this family. */
static enum tc_step step_before(struct toolcall *call)
{
    const struct tc_xml_syntax *syntax = syntax_of(call);
    struct str attributes = STR_NONE;
    enum tc_step step = TC_DONE;
    int which;

    if (syntax->typed) {
        step = tc_until(call, &STR(">"), 1, &call->late, &which);
        attributes = tc_text(&call->late);
    } else if (syntax->value_begin.len > 0) {
        step = tc_one_of(call, &syntax->value_begin, 1, &which);
    }
    if (step == TC_BAD && call->reason == NULL)
        return tc_bad(call, "a parameter has no value");
    if (step != TC_DONE)
        return step;
    call->position = value_types(call, attributes);
    call->kind = syntax->lines ? NEWLINE : UNDECIDED;
    return tc_go(call, VALUE);
}

static enum tc_step step_key(struct toolcall *call)
{
    struct str key_end = syntax_of(call)->key_end;
    int which;
    enum tc_step step = tc_until(call, &key_end, 1, &call->key, &which);

    if (step != TC_DONE)
        return step;
    return tc_go(call, BEFORE);
}

/* {"key": or ,"key": */
static void begin_argument(struct toolcall *call)
{
    buf_clear(&call->out);
    buf_append_str(&call->out, call->first_arg ? "{\"" : ",\"");
    json_scan_escape(&call->out, str_trim(tc_text(&call->key)));
    buf_append_str(&call->out, "\":");
    call->first_arg = false;
}

static enum tc_step decide(struct toolcall *call)
{
    static const char json_begins[] = "{[-0123456789tfn";
    struct str text = tc_rest(call);

    if (call->kind == NEWLINE) {
        if (text.len == 0)
            return TC_WAIT;
        if (text.ptr[0] == '\n')
            tc_eat(call, 1);
        call->kind = UNDECIDED;
        return TC_AGAIN;
    }
    call->kind = call->position == TC_STRING ? STREAM : WHOLE;
    if (call->position == 0) {
        size_t at = marker_space(text);
        if (at == text.len) {
            call->kind = UNDECIDED;
            return TC_WAIT;
        }
        bool json = str_find(STR(json_begins), (struct str){text.ptr + at, 1}) != SIZE_MAX;
        call->kind = json ? WHOLE : STREAM;
    }
    if (call->kind == STREAM) {
        begin_argument(call);
        buf_append_char(&call->out, '"');
        tc_flush(call);
    }
    return TC_AGAIN;
}

static size_t without_newline(const struct toolcall *call, struct str text, size_t len)
{
    return syntax_of(call)->lines && len > 0 && text.ptr[len - 1] == '\n' ? len - 1 : len;
}

static enum tc_step step_stream(struct toolcall *call)
{
    struct str value_end = syntax_of(call)->value_end;
    struct str text = tc_rest(call);
    struct marker_hit hit = marker_find(text, &value_end, 1);
    size_t len = without_newline(call, text, hit.at);

    buf_clear(&call->out);
    json_scan_escape(&call->out, (struct str){text.ptr, len});
    if (hit.which == 0)
        buf_append_char(&call->out, '"');
    tc_flush(call);
    tc_eat(call, hit.which == 0 ? hit.at + value_end.len : len);
    if (hit.which < 0)
        return TC_WAIT;
    return tc_go(call, PARAM);
}

static enum tc_step step_whole(struct toolcall *call)
{
    struct str value_end = syntax_of(call)->value_end;
    struct str text = tc_rest(call);
    struct marker_hit hit = marker_find(marker_skip(text, call->seen), &value_end, 1);

    call->seen += hit.at;
    if (hit.which < 0)
        return TC_WAIT;
    begin_argument(call);
    tc_value(&call->out, (struct str){text.ptr, without_newline(call, text, call->seen)},
             call->position);
    tc_flush(call);
    tc_eat(call, call->seen + value_end.len);
    return tc_go(call, PARAM);
}

static enum tc_step step_value(struct toolcall *call)
{
    if (call->kind == STREAM)
        return step_stream(call);
    return call->kind == WHOLE ? step_whole(call) : decide(call);
}

tc_step_fn *const tc_xml_steps[] = {
    [CALL] = step_call,     [NAME] = step_name,   [PARAM] = step_param, [KEY] = step_key,
    [BEFORE] = step_before, [VALUE] = step_value, [CLOSE] = tc_close,
};
