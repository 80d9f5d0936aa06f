/*
 * toolcall_json.c: calls that are JSON objects: {"name": "f", "arguments": {...}}, one, several, or
 * a list of them.
 *
 *      ITEM --{--> KEY --"name":--> NAME --> NEXT --,--> KEY
 *                   |--"arguments":--> ARGS --> NEXT --}--> ITEM
 *                   `--anything else:--> SKIP --> NEXT
 *      ITEM also reads [ , ] and the closer
 *
 * Arguments are passed on while they arrive if the name came first; models are trained on that
 * order. In the other order they wait for the name. Other members (ids, types) are skipped.
 *
 * Also here: JSON arguments, for all formats that have them.
 */
#include <yyjson.h>

#include "output/toolcall_impl.h"
#include "base/json_alc.h"

enum { ITEM, KEY, COLON, NAME, ARGS, LATE, SKIP, NEXT, TAIL };

/* The form of the arguments. */
enum { UNKNOWN, OBJECT, TEXT };

void tc_json_start(struct toolcall *call)
{
    call->kind = UNKNOWN;
    json_scan_init(&call->json);
}

static enum tc_step scan_result(struct toolcall *call, enum json_scan_result result)
{
    if (result == JSON_SCAN_BAD)
        return tc_bad(call, "the call is not valid JSON");
    return result == JSON_SCAN_DONE ? TC_DONE : TC_WAIT;
}

bool tc_decode(struct str text, struct buf *buf)
{
    yyjson_read_err bad;
    yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text.ptr, text.len,
                                       YYJSON_READ_ALLOW_INVALID_UNICODE, json_alc(), &bad);
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct str decoded = json_get_text(root);

    tc_clear(buf);
    buf_append(buf, decoded.ptr, decoded.len);
    if (doc == NULL && bad.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        buf->err = ERR_NOMEM;
    yyjson_doc_free(doc);
    return root != NULL;
}

/* Passes on the arguments inside the JSON string of `len` bytes at the front of the text. */
static bool unwrap_arguments(struct toolcall *call, size_t len)
{
    struct json_scan scan;
    size_t used;

    tc_clear(&call->late);
    json_scan_init(&scan);
    (void)json_scan_text(&scan, (struct str){tc_rest(call).ptr, len}, &used, &call->late);
    bool good = tc_decode(buf_text(&call->late), &call->out);
    struct str inner = str_trim(buf_text(&call->out));
    good = good && (inner.len == 0 || (inner.ptr[0] == '{' && json_scan_valid(inner)));
    tc_clear(&call->late);
    if (good && inner.len > 0) { /* again, for control characters inside it */
        json_scan_init(&scan);
        (void)json_scan_text(&scan, inner, &used, &call->late);
        tc_arguments(call, buf_text(&call->late));
        tc_clear(&call->late);
    }
    return good;
}

/* Arguments inside a string, as in OpenAI's API, which some models imitate. They are passed on when
 * complete. */
static enum tc_step arguments_in_text(struct toolcall *call)
{
    size_t used;
    enum json_scan_result result =
        json_scan_text(&call->json, str_skip(tc_rest(call), call->seen), &used, NULL);

    call->seen += used;
    if (result != JSON_SCAN_DONE)
        return scan_result(call, result);
    bool good = unwrap_arguments(call, call->seen);
    tc_eat(call, call->seen);
    return good ? TC_DONE : tc_bad(call, "the arguments are not a JSON object");
}

/* Reads a JSON value as arguments and passes them on; call tc_json_start first. The value is an
 * object, an object written into a string, or null, which means {}. TC_AGAIN, TC_WAIT, TC_DONE,
 * TC_BAD. */
static enum tc_step tc_json_arguments(struct toolcall *call)
{
    size_t used;

    if (call->kind == TEXT)
        return arguments_in_text(call);
    if (call->kind == UNKNOWN) {
        tc_skip_space(call);
        struct str text = tc_rest(call);
        int which;
        if (text.len == 0)
            return TC_WAIT;
        if (text.ptr[0] == 'n') {
            enum tc_step step = tc_one_of(call, &STR("null"), 1, &which);
            return step == TC_BAD ? tc_bad(call, "the arguments are not a JSON object") : step;
        }
        if (text.ptr[0] != '{' && text.ptr[0] != '"')
            return tc_bad(call, "the arguments are not a JSON object");
        call->kind = text.ptr[0] == '{' ? OBJECT : TEXT;
        return TC_AGAIN;
    }
    tc_clear(&call->out);
    enum json_scan_result result = json_scan_text(&call->json, tc_rest(call), &used, &call->out);
    tc_flush(call);
    tc_eat(call, used);
    return scan_result(call, result);
}

enum tc_step tc_json_arguments_to_end(struct toolcall *call, int next)
{
    enum tc_step step = tc_json_arguments(call);

    if (step != TC_DONE)
        return step;
    tc_end(call);
    return tc_go(call, next);
}

/* The length of the JSON string that the text begins with; 0 if it is incomplete, SIZE_MAX if there
 * is none. */
static size_t string_len(struct str text)
{
    struct json_scan scan;
    size_t used;

    if (text.len == 0)
        return 0;
    if (text.ptr[0] != '"')
        return SIZE_MAX;
    json_scan_init(&scan);
    enum json_scan_result result = json_scan_text(&scan, text, &used, NULL);
    if (result == JSON_SCAN_BAD || used > TC_NAME_MAX)
        return SIZE_MAX;
    return result == JSON_SCAN_DONE ? used : 0;
}

/* Reads a JSON string of at most TC_NAME_MAX bytes into buf, decoded. */
static enum tc_step read_string(struct toolcall *call, struct buf *buf)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    size_t len = string_len(text);
    if (len == 0)
        return TC_WAIT;
    if (len == SIZE_MAX || !tc_decode((struct str){text.ptr, len}, buf))
        return tc_bad(call, "the call is not valid JSON");
    tc_eat(call, len);
    return TC_DONE;
}

static bool is_key(struct str key, const char *own)
{
    return own != NULL && str_eq(key, str_from(own));
}

static bool is_name(const struct toolcall *call, struct str key)
{
    return str_eq(key, STR("name")) || str_eq(key, STR("tool_name")) ||
           is_key(key, call->format->name_key);
}

static bool is_arguments(const struct toolcall *call, struct str key)
{
    return str_eq(key, STR("arguments")) || str_eq(key, STR("parameters")) ||
           is_key(key, call->format->arguments_key);
}

static struct str trimmed(struct str text)
{
    return str_skip(text, marker_space(text));
}

/* Cuts a complete string and the character after it off the front of the text. */
static enum marker_match cut_string(struct str *text, struct str *string, char after)
{
    *text = trimmed(*text);
    size_t len = string_len(*text);
    if (len == 0 || len == SIZE_MAX)
        return len == 0 ? MARKER_PART : MARKER_NO;
    *string = (struct str){text->ptr + 1, len - 2};
    *text = trimmed(str_skip(*text, len));
    if (text->len == 0)
        return MARKER_PART;
    if (text->ptr[0] != after)
        return MARKER_NO;
    *text = str_skip(*text, 1);
    return MARKER_YES;
}

/* {"name": "f", "parameters":  possibly with "type": "function" before it. If tools are known, f
 * must be one of them. */
static enum marker_match is_object_call(const struct toolcall *call, struct str text)
{
    struct str name = STR_NONE;
    struct str key, value;
    size_t len = text.len;

    if (len == 0)
        return MARKER_PART;
    if (text.ptr[0] != '{')
        return MARKER_NO;
    text = str_skip(text, 1);
    for (;;) {
        enum marker_match match = cut_string(&text, &key, ':');
        if (match == MARKER_YES && is_arguments(call, key))
            return name.len > 0 && tc_may_call(call, name) ? MARKER_YES : MARKER_NO;
        if (match == MARKER_YES && !is_name(call, key) && !str_eq(key, STR("type")) &&
            !str_eq(key, STR("id")))
            return MARKER_NO;
        if (match == MARKER_YES)
            match = cut_string(&text, &value, ',');
        if (match == MARKER_PART && len > 4 * TC_NAME_MAX)
            return MARKER_NO;
        if (match != MARKER_YES)
            return match;
        if (is_name(call, key))
            name = value;
    }
}

/* f(  where f is a tool. */
static enum marker_match is_expression(const struct toolcall *call, struct str text)
{
    size_t len = tc_literal_name(text);

    if (len == text.len)
        return len > TC_NAME_MAX ? MARKER_NO : MARKER_PART;
    return len > 0 && text.ptr[len] == '(' && tc_may_call(call, (struct str){text.ptr, len})
               ? MARKER_YES
               : MARKER_NO;
}

enum marker_match tc_is_bare_call(const struct toolcall *call, struct str text)
{
    if (text.len == 0 || text.ptr[0] != '[')
        return is_object_call(call, text);
    text = trimmed(str_skip(text, 1));
    return text.len > 0 && text.ptr[0] != '{' ? is_expression(call, text)
                                              : is_object_call(call, text);
}

/* After the last call: continues to the closer, or to content if there is none. */
static enum tc_step calls_over(struct toolcall *call)
{
    if (!call->any)
        return tc_bad(call, "there is no call where one was announced");
    if (call->format->closers[0].len > 0 && call->opener >= 0)
        call->state = TAIL;
    else
        tc_leave(call);
    return TC_AGAIN;
}

static enum tc_step step_item(struct toolcall *call)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] == '{' && (!call->any || call->list || call->format->closers[0].len > 0)) {
        tc_eat(call, 1);
        call->state = KEY;
        call->mid = true;
        call->has_args = false;
        tc_clear(&call->name);
        tc_clear(&call->late);
        return TC_AGAIN;
    }
    if (text.ptr[0] == '[' && !call->list && !call->any) {
        tc_eat(call, 1);
        call->list = true;
        return TC_AGAIN;
    }
    if (text.ptr[0] == ',' && call->any && call->list) {
        tc_eat(call, 1);
        return TC_AGAIN;
    }
    if (text.ptr[0] == ']' && call->list) {
        tc_eat(call, 1);
        call->list = false;
    }
    return calls_over(call);
}

static enum tc_step step_key(struct toolcall *call)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] == '}') {
        return tc_go(call, NEXT);
    }
    enum tc_step step = read_string(call, &call->key);
    if (step != TC_DONE)
        return step;
    return tc_go(call, COLON);
}

static enum tc_step step_colon(struct toolcall *call)
{
    struct str key = buf_text(&call->key);
    int which;
    enum tc_step step = tc_one_of(call, &STR(":"), 1, &which);

    if (step != TC_DONE)
        return step == TC_BAD ? tc_bad(call, "the call is not valid JSON") : step;
    tc_json_start(call);
    call->state = SKIP;
    if (call->format->keyed && !call->began) {
        call->state = ARGS;
        return tc_begin(call, key);
    }
    if (is_name(call, key) && !call->began)
        call->state = NAME;
    else if (is_arguments(call, key) && (call->has_args || call->late.len > 0))
        return tc_bad(call, "the call has two sets of arguments");
    else if (is_arguments(call, key))
        call->state = call->began ? ARGS : LATE;
    return TC_AGAIN;
}

static enum tc_step step_name(struct toolcall *call)
{
    enum tc_step step = read_string(call, &call->name);

    if (step != TC_DONE)
        return step;
    step = tc_begin(call, buf_text(&call->name));
    if (step == TC_AGAIN)
        tc_arguments(call, buf_text(&call->late));
    call->state = NEXT;
    return step;
}

/* A skipped value, or arguments that came before the name. */
static enum tc_step step_value(struct toolcall *call)
{
    size_t used;
    struct str text = tc_rest(call);

    if (call->state == LATE && call->late.len == 0) {
        tc_skip_space(call);
        text = tc_rest(call);
        if (text.len > 0 && text.ptr[0] != '{')
            return tc_bad(call, "the arguments are not a JSON object");
    }
    enum json_scan_result result =
        json_scan_text(&call->json, text, &used, call->state == LATE ? &call->late : NULL);
    tc_eat(call, used);
    if (result != JSON_SCAN_DONE)
        return scan_result(call, result);
    return tc_go(call, NEXT);
}

static enum tc_step step_next(struct toolcall *call)
{
    static const struct str marks[] = {STR(","), STR("}")};
    int which;
    enum tc_step step = tc_one_of(call, marks, COUNT_OF(marks), &which);

    if (step != TC_DONE)
        return step == TC_BAD ? tc_bad(call, "the call is not valid JSON") : step;
    if (which == 0)
        return tc_go(call, KEY);
    if (!call->began)
        return tc_bad(call, "the call names no tool");
    tc_end(call);
    call->state = ITEM;
    if (!call->list && (call->format->closers[0].len == 0 || call->opener < 0))
        tc_leave(call);
    return TC_AGAIN;
}

static enum tc_step step_args(struct toolcall *call)
{
    enum tc_step step = tc_json_arguments(call);

    return step == TC_DONE ? tc_go(call, NEXT) : step;
}

tc_step_fn *const tc_json_steps[] = {
    [ITEM] = step_item,  [KEY] = step_key,   [COLON] = step_colon,
    [NAME] = step_name,  [ARGS] = step_args, [LATE] = step_value,
    [SKIP] = step_value, [NEXT] = step_next, [TAIL] = tc_close,
};
