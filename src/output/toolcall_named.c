/*
 * toolcall_named.c: calls that are a name between markers, then JSON arguments: Kimi, DeepSeek V3
 * and V3.1, Mistral since 2025, Functionary.
 *
 *      Kimi         SECTION ( CALL functions.f:0 NAME_END {...} CALL_END )* SECTION_END
 *      DeepSeek V3  SECTION ( CALL function NAME_END f \n```json\n {...} \n``` CALL_END )*
 *                   SECTION_END
 *      V3.1         SECTION ( CALL f NAME_END {...} CALL_END )* SECTION_END
 *      Functionary  <function= f > {...} </function>
 *      Mistral      [TOOL_CALLS] f ([CALL_ID] id)? [ARGS] {...}
 *                   or a list of JSON objects, read by toolcall_json.c
 */
#include <assert.h>

#include "output/toolcall_impl.h"

enum { BETWEEN, NAME, SECOND_NAME, FENCE, ARGS, TAIL, CLOSE };
enum { M_FIRST, M_NAME, M_ID, M_ARGS };

/* functions.get_weather:0 is how Kimi names the first call of get_weather. */
static struct str plain_name(struct str name)
{
    size_t end;

    name = str_trim(name);
    if (str_starts(name, STR("functions.")))
        name = marker_skip(name, 10);
    for (end = name.len; end > 0 && name.ptr[end - 1] >= '0' && name.ptr[end - 1] <= '9';)
        end--;
    if (end > 1 && end < name.len && name.ptr[end - 1] == ':')
        name.len = end - 1;
    return name;
}

static enum tc_step begin(struct toolcall *call)
{
    const struct tc_named_syntax *syntax = call->format->syntax;
    struct str name = tc_text(&call->name);

    tc_json_start(call);
    call->state = ARGS;
    return tc_begin(call, syntax != NULL && syntax->numbered ? plain_name(name) : str_trim(name));
}

/* Before a call, or after the last one. */
static enum tc_step step_between(struct toolcall *call)
{
    const struct tc_named_syntax *syntax = call->format->syntax;
    struct str marks[] = {syntax->call_begin, call->format->closers[0]};
    bool opened = !call->any && tc_opened_by(call, syntax->call_begin);
    int which = 0;
    enum tc_step step = opened ? TC_DONE : tc_one_of(call, marks, COUNT_OF(marks), &which);

    if (step == TC_WAIT)
        return TC_WAIT;
    if (!call->any && (step == TC_BAD || which == 1))
        return tc_bad(call, "there is no call where one was announced");
    if (step == TC_BAD)
        return tc_go(call, CLOSE);
    if (which == 1) {
        tc_leave(call);
        return TC_AGAIN;
    }
    call->mid = true;
    return tc_go(call, NAME);
}

/* DeepSeek V3 writes the kind of the tool where V3.1 writes its name. */
static enum tc_step step_name(struct toolcall *call)
{
    const struct tc_named_syntax *syntax = call->format->syntax;
    struct str name_end = syntax->name_end;
    int which;
    enum tc_step step;

    if (call->state == NAME) {
        step = tc_until(call, &name_end, 1, &call->name, &which);
        if (step != TC_DONE)
            return step;
        call->state = SECOND_NAME;
    }
    if (syntax->fenced) {
        tc_skip_space(call);
        struct str text = tc_rest(call);
        if (text.len == 0)
            return TC_WAIT;
        if (text.ptr[0] != '{') {
            step = tc_until(call, &STR("\n"), 1, &call->name, &which);
            if (step != TC_DONE)
                return step;
            return tc_go(call, FENCE);
        }
    }
    return begin(call);
}

static enum tc_step step_fence(struct toolcall *call)
{
    static const struct str fence = {"```json", 7};
    int which;

    tc_skip_space(call);
    if (tc_rest(call).len > 0 && tc_rest(call).ptr[0] == '{')
        return begin(call);
    enum tc_step step = tc_one_of(call, &fence, 1, &which);
    if (step != TC_DONE)
        return step == TC_BAD ? tc_bad(call, "the arguments are not a JSON object") : step;
    return begin(call);
}

/* Drops text between the arguments and the end of the call. */
static enum tc_step step_tail(struct toolcall *call)
{
    const struct tc_named_syntax *syntax = call->format->syntax;
    struct str marks[] = {syntax->call_end, syntax->call_begin, call->format->closers[0]};
    struct marker_hit hit = marker_find(tc_rest(call), marks, COUNT_OF(marks));
    bool eats = hit.which == 0;

    tc_eat(call, hit.at + (eats ? marks[0].len : 0));
    if (hit.which < 0)
        return TC_WAIT;
    call->state = BETWEEN;
    if (syntax->call_begin.len == 0)
        tc_leave(call);
    return TC_AGAIN;
}

static enum tc_step step_args(struct toolcall *call)
{
    return tc_json_arguments_to_end(call, TAIL);
}

tc_step_fn *const tc_named_steps[] = {
    [BETWEEN] = step_between, [NAME] = step_name, [SECOND_NAME] = step_name, [FENCE] = step_fence,
    [ARGS] = step_args,       [TAIL] = step_tail, [CLOSE] = tc_close,
};

static enum tc_step mistral_name(struct toolcall *call)
{
    static const struct str ends[] = {{"[ARGS]", 6}, {"[CALL_ID]", 9}, {"{", 1}};
    int which;
    struct str text = tc_rest(call);
    struct marker_hit hit = marker_find(text, ends, COUNT_OF(ends));

    /* Without [ARGS] the object follows the name directly; do not consume its bracket. */
    if (hit.which == 2 && hit.at <= TC_NAME_MAX) {
        buf_clear(&call->name);
        buf_append(&call->name, text.ptr, hit.at);
        tc_eat(call, hit.at);
        call->state = M_ARGS;
    } else {
        enum tc_step step = tc_until(call, ends, 2, &call->name, &which);
        if (step != TC_DONE)
            return step;
        call->state = which == 0 ? M_ARGS : M_ID;
    }
    int state = call->state;
    enum tc_step step = begin(call);
    call->state = state;
    return step;
}

static enum tc_step mistral_first(struct toolcall *call)
{
    tc_skip_space(call);
    struct str text = tc_rest(call);
    if (text.len == 0)
        return TC_WAIT;
    if (text.ptr[0] != '[' && text.ptr[0] != '{')
        return tc_go(call, M_NAME);
    call->steps = tc_json_steps;
    return TC_AGAIN;
}

static enum tc_step mistral_id(struct toolcall *call)
{
    int which;
    enum tc_step step = tc_until(call, &STR("[ARGS]"), 1, &call->key, &which);

    return step == TC_DONE ? tc_go(call, M_ARGS) : step;
}

static enum tc_step mistral_args(struct toolcall *call)
{
    enum tc_step step = tc_json_arguments_to_end(call, M_FIRST);

    if (step == TC_AGAIN && !call->began)
        tc_leave(call);
    return step;
}

tc_step_fn *const tc_mistral_steps[] = {[M_FIRST] = mistral_first,
                                        [M_NAME] = mistral_name,
                                        [M_ID] = mistral_id,
                                        [M_ARGS] = mistral_args};
