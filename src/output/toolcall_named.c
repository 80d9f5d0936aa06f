/*
 * toolcall_named.c: calls with a name in markup, then arguments, as one JSON object or as a tag pair
 * each.
 *
 *      BETWEEN --> [ID] --> NAME --> [HEAD] --+--> [SECOND_NAME --> FENCE] --> ARGS --> TAIL --> BETWEEN
 *       |                   `--a number--> GUESS --> ARGS
 *       |                                     `--> PARAM --> KEY --> BEFORE --> VALUE --> PARAM ...
 *       |                                            `--the call's end--> BETWEEN
 *       `--after a call, neither another nor the closer--> CLOSE --> content
 *
 * A value between tags that is a string, by the schema or by how it begins, is passed on while it
 * arrives. Others are passed on when complete, because only then their type is known. A value ends
 * at the first closing tag: few of the formats have an escape for it.
 */

#include "output/toolcall_impl.h"

enum {
    BETWEEN,
    ID,
    NAME,
    HEAD,
    SECOND_NAME,
    FENCE,
    GUESS,
    ARGS,
    PARAM,
    OBJECT,
    KEY,
    BEFORE,
    VALUE,
    TAIL,
    CLOSE
};

/* Values of call->kind: how a value between tags is read. */
enum { UNDECIDED, WHOLE, STREAM, NEWLINE };

void tc_enter_tags(struct toolcall *call)
{
    call->steps = tc_named_steps;
    call->opener = 0;
    call->any = false;
    call->state = BETWEEN;
}

/* functions.get_weather:0 is how Kimi names the first call of get_weather. */
static struct str plain_name(struct str name)
{
    size_t end;

    if (str_starts(name, STR("functions.")))
        name = str_skip(name, 10);
    for (end = name.len; end > 0 && name.ptr[end - 1] >= '0' && name.ptr[end - 1] <= '9';)
        end--;
    if (end > 1 && end < name.len && name.ptr[end - 1] == ':')
        name.len = end - 1;
    return name;
}

static enum tc_step begin(struct toolcall *call)
{
    struct str name = str_trim(buf_text(&call->name));

    tc_json_start(call);
    call->state = call->format->form == CALL_NAMED ? ARGS : PARAM;
    return tc_begin(call, call->format->numbered ? plain_name(name) : name);
}

/* The number of the call where its name belongs: the arguments must say which tool they are for, so
 * they are read once before. */
static enum tc_step step_guess(struct toolcall *call)
{
    size_t used;

    if (call->seen == 0)
        tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] != '{')
        return tc_bad(call, "the arguments are not a JSON object");
    enum json_scan_result result =
        json_scan_text(&call->json, str_skip(text, call->seen), &used, NULL);
    call->seen += used;
    if (result == JSON_SCAN_BAD)
        return tc_bad(call, "the call is not valid JSON");
    if (result != JSON_SCAN_DONE)
        return TC_WAIT;
    tc_fitting_tool(call, (struct str){text.ptr, call->seen}, &call->name);
    call->seen = 0;
    return begin(call);
}

/* Mistral also writes a list of JSON objects where a name would be. */
static enum tc_step step_first(struct toolcall *call)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    call->mid = true;
    if (text.ptr[0] != '[' && text.ptr[0] != '{')
        return tc_go(call, call->format->id_end.len > 0 ? ID : NAME);
    call->steps = tc_json_steps;
    return TC_AGAIN;
}

/* Before a call, or after the last one. */
static enum tc_step step_between(struct toolcall *call)
{
    const struct call_format *format = call->format;
    struct str marks[] = {format->call_begin, format->closers[0], format->closers[1]};
    bool alone = tc_opened_by(call, format->call_begin);
    int which = 0;

    if (alone && !call->any && format->form == CALL_NAMED)
        return step_first(call);
    enum tc_step step =
        alone && !call->any ? TC_DONE : tc_one_of(call, marks, COUNT_OF(marks), &which);
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
    return tc_go(call, format->id_end.len > 0 ? ID : NAME);
}

static enum tc_step step_id(struct toolcall *call)
{
    enum tc_step step = tc_until(call, call->format->id_end, &call->key);

    return step == TC_DONE ? tc_go(call, NAME) : step;
}

static bool is_number(struct str name)
{
    size_t len = 0;

    while (len < name.len && str_is_digit(name.ptr[len]))
        len++;
    return len > 0 && len == name.len;
}

static enum tc_step after_name(struct toolcall *call)
{
    if (call->format->numbered && call->options.tools != NULL &&
        is_number(str_trim(buf_text(&call->name)))) {
        tc_json_start(call);
        call->seen = 0;
        return tc_go(call, GUESS);
    }
    return call->format->fenced ? tc_go(call, SECOND_NAME) : begin(call);
}

static enum tc_step empty_call(struct toolcall *call)
{
    enum tc_step step = begin(call);

    if (step != TC_AGAIN)
        return step;
    tc_end(call);
    return tc_go(call, BETWEEN);
}

/* Without a mark of its own the name ends at the next tag or line. JSON arguments end it in any
 * case, and the bracket is left for them. */
static enum tc_step step_name(struct toolcall *call)
{
    const struct call_format *format = call->format;
    bool marked = format->name_end.len > 0;
    struct str ends[] = {marked ? format->name_end : STR("<"),
                         marked ? format->head_begin : STR("\n"),
                         format->form == CALL_NAMED ? STR("{") : STR_NONE, format->name_close};
    struct marker_hit hit;

    if (!marked)
        tc_skip_space(call);
    struct str text = tc_rest(call);
    hit = marker_find(text, ends, COUNT_OF(ends));
    if (hit.at > TC_NAME_MAX)
        return tc_bad(call, "the name is too long");
    if (hit.which < 0)
        return TC_WAIT;
    tc_clear(&call->name);
    buf_append(&call->name, text.ptr, hit.at);
    tc_eat(call, hit.at + (marked && hit.which != 2 ? ends[hit.which].len : 0));
    if (marked && hit.which == 1)
        return tc_go(call, HEAD);
    return hit.which == 3 ? empty_call(call) : after_name(call);
}

static enum tc_step step_head(struct toolcall *call)
{
    enum tc_step step = tc_until(call, call->format->name_end, &call->key);

    return step == TC_DONE ? after_name(call) : step;
}

/* DeepSeek V3 writes the kind of the tool where V3.1 writes its name. */
static enum tc_step step_second_name(struct toolcall *call)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] == '{')
        return begin(call);
    enum tc_step step = tc_until(call, STR("\n"), &call->name);
    return step == TC_DONE ? tc_go(call, FENCE) : step;
}

static enum tc_step step_fence(struct toolcall *call)
{
    int which;

    tc_skip_space(call);
    if (tc_rest(call).len > 0 && tc_rest(call).ptr[0] == '{')
        return begin(call);
    enum tc_step step = tc_one_of(call, &STR("```json"), 1, &which);
    if (step != TC_DONE)
        return step == TC_BAD ? tc_bad(call, "the arguments are not a JSON object") : step;
    return begin(call);
}

static enum tc_step step_args(struct toolcall *call)
{
    enum tc_step step = tc_json_arguments_to_end(call, TAIL);

    if (step == TC_AGAIN && !call->began && call->format->call_end.len == 0)
        tc_leave(call);
    return step;
}

/* Drops text between the arguments and the end of the call. */
static enum tc_step step_tail(struct toolcall *call)
{
    const struct call_format *format = call->format;
    struct str marks[] = {format->call_end, format->call_begin, format->closers[0],
                          format->closers[1]};
    struct marker_hit hit = marker_find(tc_rest(call), marks, COUNT_OF(marks));

    tc_eat(call, hit.at + (hit.which == 0 ? marks[0].len : 0));
    if (hit.which < 0)
        return TC_WAIT;
    call->state = BETWEEN;
    if (format->call_begin.len == 0)
        tc_leave(call);
    return TC_AGAIN;
}

/* ---- arguments between tags ---- */

/* Some models write all arguments as one object, where a tag for each belongs. */
static bool is_object(struct toolcall *call)
{
    struct str text = str_trim(tc_rest(call));

    return call->first_arg && call->format->call_end.len > 0 && text.len > 0 && text.ptr[0] == '{';
}

/* A mark that another one begins with comes after it. */
static enum tc_step step_param(struct toolcall *call)
{
    const struct call_format *format = call->format;
    struct str marks[] = {format->call_end, format->closers[0], format->closers[1],
                          format->parameter_begin,
                          call->first_arg ? format->object_begin : STR_NONE};
    int which = 0;
    enum tc_step step = tc_one_of(call, marks, COUNT_OF(marks), &which);

    if (step == TC_BAD && is_object(call))
        return tc_go(call, ARGS);
    if (step != TC_DONE)
        return step == TC_BAD ? tc_bad(call, "there is text between the parameters") : step;
    if (which >= 3)
        return tc_go(call, which == 3 ? KEY : OBJECT);
    if (!call->first_arg)
        tc_arguments(call, STR("}"));
    tc_end(call);
    call->state = BETWEEN;
    if (which > 0)
        tc_leave(call);
    return TC_AGAIN;
}

static enum tc_step step_object(struct toolcall *call)
{
    enum tc_step step = tc_until(call, call->format->attributes_end, &call->key);

    return step == TC_DONE ? tc_go(call, ARGS) : step;
}

static enum tc_step step_key(struct toolcall *call)
{
    enum tc_step step = tc_until(call, call->format->key_end, &call->key);

    return step == TC_DONE ? tc_go(call, BEFORE) : step;
}

/* string="true" and type="string" say that it is a string, other attributes that it is not. */
static unsigned value_types(struct toolcall *call, struct str attributes)
{
    unsigned types = tc_types(call, str_trim(buf_text(&call->name)), buf_text(&call->key));
    unsigned others = types & ~(unsigned)TC_STRING;

    if (str_find(attributes, STR("\"true\"")) != SIZE_MAX ||
        str_find(attributes, STR("\"string\"")) != SIZE_MAX)
        return TC_STRING;
    if (str_find(attributes, STR("=\"")) != SIZE_MAX)
        return others ? others : ~(unsigned)TC_STRING;
    return types;
}

/* Between a key and its value. The types of the value are kept in call->position, which is
 * otherwise unused in this form. */
static enum tc_step step_before(struct toolcall *call)
{
    const struct call_format *format = call->format;
    struct str attributes = STR_NONE;
    enum tc_step step = TC_DONE;
    int which;

    if (format->attributes_end.len > 0) {
        step = tc_until(call, format->attributes_end, &call->late);
        attributes = buf_text(&call->late);
    } else if (format->value_begin.len > 0) {
        struct str marks[] = {format->value_begin, format->parameter_begin};
        step = tc_one_of(call, marks, COUNT_OF(marks), &which);
        if (step == TC_DONE && which == 1) /* a key without a value is none */
            return tc_go(call, KEY);
    }
    if (step == TC_BAD && call->reason == NULL)
        return tc_bad(call, "a parameter has no value");
    if (step != TC_DONE)
        return step;
    call->position = value_types(call, attributes);
    call->kind = format->lines ? NEWLINE : UNDECIDED;
    tc_value_end(format, buf_text(&call->key), &call->end);
    return tc_go(call, VALUE);
}

/* {"key": or ,"key": */
static void begin_argument(struct toolcall *call)
{
    tc_clear(&call->out);
    buf_append_str(&call->out, call->first_arg ? "{\"" : ",\"");
    json_scan_escape(&call->out, str_trim(buf_text(&call->key)));
    buf_append_str(&call->out, "\":");
    call->first_arg = false;
}

/* The text of <![CDATA[...]]> is the value, and ends only there. */
static enum marker_match open_cdata(struct toolcall *call)
{
    static const struct str open = STR("<![CDATA[");
    struct str text = tc_rest(call);
    enum marker_match match = call->format->cdata ? marker_match(text, open) : MARKER_NO;

    if (match == MARKER_YES) {
        tc_eat(call, open.len);
        tc_clear(&call->end);
        buf_append_str(&call->end, "]]>");
        buf_append(&call->end, call->format->value_end.ptr, call->format->value_end.len);
    }
    return match;
}

static enum tc_step decide(struct toolcall *call)
{
    static const char json_begins[] = "{[-0123456789tfn";

    if (call->kind == NEWLINE) {
        if (tc_rest(call).len == 0)
            return TC_WAIT;
        if (tc_rest(call).ptr[0] == '\n')
            tc_eat(call, 1);
        call->kind = UNDECIDED;
        return TC_AGAIN;
    }
    if (open_cdata(call) == MARKER_PART)
        return TC_WAIT;
    struct str text = tc_rest(call);
    call->kind = call->position == TC_STRING ? STREAM : WHOLE;
    if (call->position == 0 && !call->format->nested) {
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

/* Where the value ends: at its closing tag, or, if that is missing, at the end of the call. A value
 * may mention that end, so the end of all calls, or of the text, must follow it. which = 1: the end
 * is missing; -1: the text before `at` is part of the value. */
static struct marker_hit find_value_end(const struct toolcall *call, struct str text)
{
    const struct call_format *format = call->format;
    struct str ends[] = {buf_text(&call->end),
                         format->closers[0].len > 0 ? format->call_end : STR_NONE};
    size_t from = 0;

    for (;;) {
        struct marker_hit hit = marker_find(str_skip(text, from), ends, COUNT_OF(ends));
        hit.at += from;
        if (hit.which != 1)
            return hit;
        struct str after = str_skip(text, hit.at + ends[1].len);
        after = str_skip(after, marker_space(after));
        enum marker_match match = marker_match(after, format->closers[0]);
        if (match == MARKER_YES || (after.len == 0 && call->over))
            return hit;
        if (match == MARKER_PART && !call->over)
            return (struct marker_hit){hit.at, -1};
        from = hit.at + ends[1].len;
    }
}

static size_t without_newline(const struct toolcall *call, struct str text, size_t len)
{
    return call->format->lines && len > 0 && text.ptr[len - 1] == '\n' ? len - 1 : len;
}

static enum tc_step step_stream(struct toolcall *call)
{
    struct str text = tc_rest(call);
    struct marker_hit hit = find_value_end(call, text);
    size_t len = without_newline(call, text, hit.at);

    tc_clear(&call->out);
    json_scan_escape(&call->out, (struct str){text.ptr, len});
    if (hit.which >= 0)
        buf_append_char(&call->out, '"');
    tc_flush(call);
    tc_eat(call, hit.which < 0 ? len : hit.at + (hit.which == 0 ? call->end.len : 0));
    if (hit.which < 0)
        return TC_WAIT;
    return tc_go(call, PARAM);
}

static enum tc_step step_whole(struct toolcall *call)
{
    struct str text = tc_rest(call);
    struct marker_hit hit = find_value_end(call, str_skip(text, call->seen));

    call->seen += hit.at;
    if (hit.which < 0)
        return TC_WAIT;
    struct str value = {text.ptr, without_newline(call, text, call->seen)};
    if (call->format->nested && !tc_nested_closed(call->format, value)) {
        call->seen += hit.which == 0 ? call->end.len : 1;
        return TC_AGAIN;
    }
    begin_argument(call);
    if (call->format->nested)
        tc_nested_value(call, &call->out, value);
    else
        tc_value(&call->out, value, call->position);
    tc_flush(call);
    tc_eat(call, call->seen + (hit.which == 0 ? call->end.len : 0));
    return tc_go(call, PARAM);
}

static enum tc_step step_value(struct toolcall *call)
{
    if (call->kind == STREAM)
        return step_stream(call);
    return call->kind == WHOLE ? step_whole(call) : decide(call);
}

tc_step_fn *const tc_named_steps[] = {
    [BETWEEN] = step_between, [ID] = step_id,       [NAME] = step_name,
    [HEAD] = step_head,       [FENCE] = step_fence, [SECOND_NAME] = step_second_name,
    [GUESS] = step_guess,     [ARGS] = step_args,   [OBJECT] = step_object,
    [PARAM] = step_param,     [KEY] = step_key,     [BEFORE] = step_before,
    [VALUE] = step_value,     [TAIL] = step_tail,   [CLOSE] = tc_close,
};
