/*
 * toolcall_harmony.c: the messages of gpt-oss. All output consists of messages on channels; there
 * is no content outside them.
 *
 *      ( <|start|> assistant )? ( to=functions.f )?
 *          <|channel|> analysis|commentary|final ... <|message|> body END
 *      END: <|end|>, <|return|>, <|call|>, or the beginning of the next message
 *
 *      START --> HEADER --> BODY --END--> START
 *                  `-to=--> ARGS --> TAIL --END--> START
 *
 * analysis is reasoning; commentary and final are content. A message to a tool is a call, whatever
 * its channel. A body without a header is content: better shown than lost.
 */
#include <assert.h>

#include "output/toolcall_impl.h"

enum { START, HEADER, BODY, ARGS, TAIL };

static const struct str headers[] = {
    {"<|start|>", 9}, {"<|channel|>", 11}, {"<|message|>", 11}, {"to=", 3}, {"<|constrain|>", 13},
};

/* The ends that belong to the message come first. */
static const struct str ends[] = {
    {"<|end|>", 7}, {"<|return|>", 10}, {"<|call|>", 8}, {"<|start|>", 9}, {"<|channel|>", 11},
};
enum { ENDS_OWN = 3 };

static enum tc_step step_start(struct toolcall *call)
{
    bool part = false;

    tc_skip_space(call);
    struct str text = tc_rest(call);
    call->state = BODY;
    call->kind = OUTPUT_CONTENT;
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        enum marker_match match = marker_match(text, headers[i]);
        part |= match == MARKER_PART;
        if (match == MARKER_YES)
            call->state = HEADER;
    }
    if (call->state == BODY && part && !call->over)
        call->state = START;
    return call->state == START || text.len == 0 ? TC_WAIT : TC_AGAIN;
}

/* The word after the marker in a header, or empty. */
static struct str word_after(struct str header, struct str marker)
{
    size_t at = str_find(header, marker);
    size_t len = 0;

    if (at == SIZE_MAX)
        return STR_NONE;
    header = marker_skip(header, at + marker.len);
    while (len < header.len && !marker_is_space(header.ptr[len]) && header.ptr[len] != '<')
        len++;
    return (struct str){header.ptr, len};
}

static enum tc_step step_header(struct toolcall *call)
{
    int which;
    enum tc_step step = tc_until(call, &STR("<|message|>"), 1, &call->name, &which);

    if (step != TC_DONE)
        return step;
    struct str header = tc_text(&call->name);
    struct str tool = word_after(header, STR("to="));
    if (tool.len == 0 || str_eq(tool, STR("user"))) {
        bool thought = str_eq(word_after(header, STR("<|channel|>")), STR("analysis"));
        call->kind = thought ? OUTPUT_REASONING : OUTPUT_CONTENT;
        return tc_go(call, BODY);
    }
    if (str_starts(tool, STR("functions.")))
        tool = marker_skip(tool, 10);
    tc_json_start(call);
    call->state = ARGS;
    return tc_begin(call, tool);
}

static enum tc_step step_end(struct toolcall *call, struct marker_hit hit)
{
    tc_eat(call, hit.at + (hit.which >= 0 && hit.which < ENDS_OWN ? ends[hit.which].len : 0));
    if (hit.which < 0)
        return TC_WAIT;
    return tc_go(call, START);
}

static enum tc_step step_body(struct toolcall *call)
{
    struct str text = tc_rest(call);
    struct marker_hit hit = marker_find(text, ends, COUNT_OF(ends));

    if (hit.which < 0 && call->over)
        hit.at = text.len;
    if (hit.at > 0)
        tc_emit(call, (enum output_event_type)call->kind, (struct str){text.ptr, hit.at});
    return step_end(call, hit);
}

static enum tc_step step_args(struct toolcall *call)
{
    struct str text = tc_rest(call);

    /* A call without a body has no arguments. */
    bool empty = !call->has_args && text.len > 0 && text.ptr[0] == '<';
    enum marker_match match = empty ? marker_match(text, ends[2]) : MARKER_NO;
    if (match == MARKER_PART)
        return TC_WAIT;
    if (match == MARKER_NO)
        return tc_json_arguments_to_end(call, TAIL);
    tc_end(call);
    return tc_go(call, TAIL);
}

static enum tc_step step_tail(struct toolcall *call)
{
    return step_end(call, marker_find(tc_rest(call), ends, COUNT_OF(ends)));
}

tc_step_fn *const tc_harmony_steps[] = {[START] = step_start,
                                        [HEADER] = step_header,
                                        [BODY] = step_body,
                                        [ARGS] = step_args,
                                        [TAIL] = step_tail};
