/*
 * toolcall.c: feeds text in pieces to the steps of a format; code that all formats share.
 *
 *      push:  text -> in;   then, until a step must wait:
 *
 *           CONTENT --opener (content)--> CALLS --closer (tc_leave)--> CONTENT
 *                                           `--cannot be read (fail)--> DEAD: all is content
 *
 * A piece is taken in slices, so that `in` holds little more than the undecided text. Text is read
 * once: steps consume it, and what they must look at again is bounded (markers, names) or
 * remembered (`seen`). What was consumed since a call began is kept (`raw`) until the call ends, in
 * case it cannot be read.
 *
 * It does not check the arguments against the schema: that is left to the code that runs the tool.
 */
#include "output/toolcall.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "output/toolcall_impl.h"

enum {
    SLICE_BYTES = 4096,
    HELD_BYTES_MAX = 1 << 20,
    RAW_BYTES_MAX = 16 << 20,
    CALLS_MAX = 128,
};

static void check_state(const struct toolcall *call)
{
    assert(call->at <= call->in.len);
    assert(!call->began || call->mid || call->mode == TC_DEAD);
    assert(call->mode != TC_CONTENT || call->format->form != CALL_MESSAGES);
}

struct str tc_rest(const struct toolcall *call)
{
    return (struct str){buf_str(&call->in) + call->at, call->in.len - call->at};
}

void tc_eat(struct toolcall *call, size_t n)
{
    assert(n <= call->in.len - call->at);
    if (call->mode == TC_CALLS)
        buf_append(&call->raw, tc_rest(call).ptr, n);
    call->at += n;
    if (n > 0)
        call->seen = 0;
}

void tc_skip_space(struct toolcall *call)
{
    tc_eat(call, marker_space(tc_rest(call)));
}

enum tc_step tc_bad(struct toolcall *call, const char *reason)
{
    call->reason = reason;
    return TC_BAD;
}

enum tc_step tc_go(struct toolcall *call, int state)
{
    call->state = state;
    return TC_AGAIN;
}

enum tc_step tc_one_of(struct toolcall *call, const struct str *markers, size_t count, int *which)
{
    bool part = false;

    tc_skip_space(call);
    for (size_t i = 0; i < count; i++) {
        if (markers[i].len == 0)
            continue;
        enum marker_match match = marker_match(tc_rest(call), markers[i]);
        if (match == MARKER_YES && part)
            break; /* a longer one may follow */
        part |= match == MARKER_PART;
        if (match != MARKER_YES)
            continue;
        tc_eat(call, markers[i].len);
        *which = (int)i;
        return TC_DONE;
    }
    return part ? TC_WAIT : TC_BAD;
}

enum tc_step tc_until(struct toolcall *call, struct str marker, struct buf *buf)
{
    struct str text = tc_rest(call);
    struct marker_hit hit = marker_find(text, &marker, 1);

    if (hit.at > TC_NAME_MAX)
        return tc_bad(call, "the name is too long");
    if (hit.which < 0)
        return TC_WAIT;
    tc_clear(buf);
    buf_append(buf, text.ptr, hit.at);
    tc_eat(call, hit.at + marker.len);
    return TC_DONE;
}

static void enter(struct toolcall *call, const struct call_format *format, int opener)
{
    tc_clear(&call->raw);
    call->format = format;
    call->mode = TC_CALLS;
    call->steps = tc_steps[format->form];
    call->state = 0;
    call->opener = opener;
    call->mid = true;
    call->any = false;
    call->list = opener >= 0 && str_ends(format->openers[opener], STR("["));
}

void tc_leave(struct toolcall *call)
{
    assert(!call->began);
    if (call->format->form == CALL_MESSAGES) {
        tc_message_end(call);
        return;
    }
    call->format = call->formats[0];
    call->mode = TC_CONTENT;
    call->state = 0;
    call->mid = false;
    call->fresh = true;
}

bool tc_opened_by(const struct toolcall *call, struct str call_begin)
{
    return call_begin.len == 0 ||
           (call->opener >= 0 && str_eq(call->format->openers[call->opener], call_begin));
}

enum tc_step tc_close(struct toolcall *call)
{
    const struct call_format *format = call->format;
    struct str ends[] = {format->closers[0], format->closers[1], format->openers[0],
                         format->openers[1], format->openers[2]};
    struct marker_hit hit = marker_find(tc_rest(call), ends, COUNT_OF(ends));
    bool closer = hit.which >= 0 && hit.which < CALL_CLOSERS_MAX;

    tc_eat(call, hit.at + (closer ? ends[hit.which].len : 0));
    if (hit.which < 0)
        return TC_WAIT;
    tc_leave(call);
    return TC_AGAIN;
}

void tc_emit(struct toolcall *call, enum output_event_type type, struct str text)
{
    struct output_event event = {.type = type, .call = call->index, .text = text};

    call->fn(&event, call->arg);
}

enum tc_step tc_begin(struct toolcall *call, struct str name)
{
    assert(!call->began);
    if (name.len == 0)
        return tc_bad(call, "the call names no tool");
    if (!tc_may_call(call, name))
        return tc_bad(call, "it is not one of the request's tools");
    if (call->index == call->options.calls_max)
        return tc_bad(call, "there are too many calls");
    call->began = true;
    call->mid = true;
    call->has_args = false;
    call->first_arg = true;
    call->position = 0;
    tc_emit(call, OUTPUT_CALL_BEGIN, name);
    return TC_AGAIN;
}

void tc_arguments(struct toolcall *call, struct str json)
{
    assert(call->began);
    if (json.len > 0)
        tc_emit(call, OUTPUT_CALL_ARGUMENTS, json);
    call->has_args |= json.len > 0;
}

void tc_flush(struct toolcall *call)
{
    if (call->out.err == ERR_OK)
        tc_arguments(call, buf_text(&call->out));
}

void tc_end(struct toolcall *call)
{
    if (!call->has_args)
        tc_arguments(call, STR("{}"));
    tc_emit(call, OUTPUT_CALL_END, STR_NONE);
    tc_clear(&call->raw);
    call->index++;
    call->began = false;
    call->mid = false;
    call->any = true;
}

static void content(struct toolcall *call, size_t n)
{
    if (n > 0) {
        call->fresh = false;
        tc_emit(call, OUTPUT_CONTENT, (struct str){tc_rest(call).ptr, n});
    }
    tc_eat(call, n);
}

/* The openers of both formats; absent ones are empty. After them what is dropped: closers that are
 * control tokens, which models also write without a call. Before a list of calls: what it may
 * follow, a line or the opening of a code block. */
enum { OPENERS = 2 * CALL_OPENERS_MAX, CLOSERS = OPENERS, LISTS = OPENERS + CALL_CLOSERS_MAX };
struct openers {
    struct str marks[LISTS + 3];
};

static struct openers openers_of(const struct toolcall *call)
{
    static const struct str lists[] = {STR("\n["), STR("```json\n["), STR("```\n[")};
    struct openers openers = {0};

    for (size_t i = 0; i < OPENERS; i++)
        if (call->formats[i / CALL_OPENERS_MAX] != NULL)
            openers.marks[i] = call->formats[i / CALL_OPENERS_MAX]->openers[i % CALL_OPENERS_MAX];
    for (size_t i = 0; i < CALL_CLOSERS_MAX && call->format->control; i++)
        openers.marks[CLOSERS + i] = call->format->closers[i];
    if (call->format->bare && call->format->openers[0].len == 0)
        memcpy(openers.marks + LISTS, lists, sizeof(lists));
    return openers;
}

/* Does the text begin with an opener? */
static enum marker_match match_openers(const struct toolcall *call, struct str text)
{
    struct openers openers = openers_of(call);
    enum marker_match best = MARKER_NO;

    for (size_t i = 0; i < OPENERS; i++) {
        enum marker_match match =
            openers.marks[i].len > 0 ? marker_match(text, openers.marks[i]) : MARKER_NO;
        if (match == MARKER_YES)
            return MARKER_YES;
        if (match == MARKER_PART)
            best = MARKER_PART;
    }
    return best;
}

/* At a place where content could begin. White space after a call is dropped. If a bare object may
 * be a call, white space and the beginning of the object are held back. If the beginning decides
 * about the whole text, the beginning of an opener is held back as well. */
static enum tc_step step_fresh(struct toolcall *call)
{
    size_t space = 0;

    if (call->index > 0)
        tc_skip_space(call);
    struct str text = tc_rest(call);
    if (call->fenced) { /* the end of the code block around the calls */
        enum marker_match match = marker_match(text, STR("```"));
        if (match == MARKER_PART && !call->over)
            return TC_WAIT;
        call->fenced = false;
        tc_eat(call, match == MARKER_YES ? 3 : 0);
        return TC_AGAIN;
    }
    while (space < text.len && space <= MARKER_SPACE_MAX && marker_is_space(text.ptr[space]))
        space++;
    bool decides = call->options.either && call->index == 0;
    bool nothing = call->format->bare || decides ? space == text.len : text.len == 0;
    if (nothing && !call->over)
        return TC_WAIT;
    if (call->format->bare && space < text.len) {
        if (call->index > 0 && (text.ptr[0] == ';' || text.ptr[0] == ',')) {
            tc_eat(call, 1); /* between the calls of Llama and Phi */
            return TC_AGAIN;
        }
        enum marker_match match = tc_is_bare_call(call, str_skip(text, space));
        if (match == MARKER_PART && !call->over)
            return TC_WAIT;
        if (match == MARKER_YES) {
            enter(call, call->format, -1);
            tc_eat(call, space);
            return TC_AGAIN;
        }
    }
    if (decides) {
        enum marker_match match = match_openers(call, str_skip(text, space));
        if (match == MARKER_PART && !call->over)
            return TC_WAIT;
        call->no_calls = match != MARKER_YES;
    }
    call->fresh = false;
    return TC_AGAIN;
}

/* At the mark before what may be a list of calls. */
static enum tc_step step_list(struct toolcall *call, struct marker_hit hit, struct str mark)
{
    struct str text = str_skip(tc_rest(call), hit.at);
    enum marker_match match = tc_is_bare_call(call, str_skip(text, mark.len - 1));

    if (match == MARKER_PART && !call->over) {
        content(call, marker_before_space(tc_rest(call), hit.at));
        return TC_WAIT;
    }
    if (match != MARKER_YES) {
        content(call, hit.at + mark.len);
        return TC_AGAIN;
    }
    content(call, marker_before_space(tc_rest(call), hit.at));
    enter(call, call->format, -1);
    tc_skip_space(call);
    call->fenced = mark.ptr[0] == '`';
    tc_eat(call, call->fenced ? mark.len - 1 : 0);
    return TC_AGAIN;
}

static enum tc_step step_content(struct toolcall *call)
{
    if (call->fresh)
        return step_fresh(call);
    struct str text = tc_rest(call);
    struct openers openers = openers_of(call);
    struct marker_hit hit = marker_find(text, openers.marks, COUNT_OF(openers.marks));
    if (call->no_calls || (call->over && hit.which < 0)) {
        content(call, text.len);
        return TC_WAIT;
    }
    if (hit.which >= LISTS)
        return step_list(call, hit, openers.marks[hit.which]);
    content(call, call->format->form == CALL_NONE ? hit.at : marker_before_space(text, hit.at));
    if (hit.which < 0)
        return TC_WAIT;
    if (hit.which >= CLOSERS) {
        tc_skip_space(call);
        tc_eat(call, openers.marks[hit.which].len);
        return TC_AGAIN;
    }
    enter(call, call->formats[hit.which / CALL_OPENERS_MAX], hit.which % CALL_OPENERS_MAX);
    tc_skip_space(call);
    tc_eat(call, openers.marks[hit.which].len);
    return TC_AGAIN;
}

/* Passes on the rest as content. */
static void tell_rest(struct toolcall *call)
{
    struct str text = tc_rest(call);

    if (text.len > 0)
        tc_emit(call, OUTPUT_CONTENT, text);
    tc_eat(call, text.len);
}

/* Of a call of many MiB only the rest is left (`raw` has a limit). */
static void fail(struct toolcall *call, const char *reason)
{
    call->mode = TC_DEAD;
    call->mid = false;
    tc_emit(call, OUTPUT_ERROR, str_from(reason));
    if (call->raw.err == ERR_OK && call->raw.len > 0)
        tc_emit(call, OUTPUT_CONTENT, buf_text(&call->raw));
    tell_rest(call);
}

/* Errors of buffers stay until the end (tc_clear). */
static enum err error_of(const struct toolcall *call)
{
    const struct buf *bufs[] = {&call->in,  &call->out,  &call->name,
                                &call->key, &call->late, &call->end};

    if (call->raw.err == ERR_NOMEM)
        return ERR_NOMEM;
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        if (bufs[i]->err != ERR_OK)
            return bufs[i]->err;
    return ERR_OK;
}

static enum err run(struct toolcall *call)
{
    enum tc_step step = TC_AGAIN;

    while (step == TC_AGAIN && call->mode != TC_DEAD) {
        if (error_of(call) != ERR_NOMEM)
            step = call->mode == TC_CONTENT ? step_content(call) : call->steps[call->state](call);
        assert(step != TC_DONE);
        if (error_of(call) == ERR_NOMEM)
            return ERR_NOMEM; /* the text is not to blame for what the step has found */
        if (error_of(call) == ERR_LIMIT)
            step = tc_bad(call, "the arguments are too long");
        if (step == TC_BAD)
            fail(call, call->reason);
    }
    if (call->mode == TC_DEAD)
        tell_rest(call);
    buf_consume(&call->in, call->at);
    call->at = 0;
    check_state(call);
    return ERR_OK;
}

const char *toolcall_format_name(enum toolcall_format format)
{
    static const char *const names[] = {TOOLCALL_TABLE(TABLE_NAME)};
    assert((unsigned)format < TOOLCALL_COUNT);
    return names[format];
}

/* Text that the template wrote after its last <|start|>assistant begins the message's header. */
static void read_prompt(struct toolcall *call)
{
    struct str tail = call->options.prompt_tail;
    struct str start = STR("<|start|>assistant");
    size_t at;

    call->options.prompt_tail = STR_NONE;
    if (call->format->form != CALL_MESSAGES || (at = str_find(tail, start)) == SIZE_MAX)
        return;
    while (at != SIZE_MAX) {
        tail = str_skip(tail, at + start.len);
        at = str_find(tail, start);
    }
    if (tail.len <= TC_NAME_MAX)
        buf_append(&call->in, tail.ptr, tail.len);
}

struct toolcall *toolcall_create(const struct toolcall_options *options, output_event_fn *fn,
                                 void *arg)
{
    assert((unsigned)options->format < TOOLCALL_COUNT);
    struct toolcall *call = mem_alloc(sizeof(*call));
    call->options = *options;
    if (call->options.held_bytes_max == 0)
        call->options.held_bytes_max = HELD_BYTES_MAX;
    if (call->options.calls_max == 0)
        call->options.calls_max = CALLS_MAX;
    call->formats[0] = call->format = toolcall_row(options->format, options->learned);
    if (options->also != TOOLCALL_NONE)
        call->formats[1] = toolcall_row(options->also, options->learned);
    call->fn = fn;
    call->arg = arg;
    buf_init(&call->in, call->options.held_bytes_max + SLICE_BYTES + TC_NAME_MAX);
    /* Escapes make text at most six times longer. */
    buf_init(&call->out, (call->options.held_bytes_max + SLICE_BYTES + TC_NAME_MAX) * 6 + 16);
    buf_init(&call->late, call->out.limit);
    buf_init(&call->name, TC_NAME_MAX);
    buf_init(&call->key, TC_NAME_MAX);
    buf_init(&call->end, 2 * TC_NAME_MAX);
    buf_init(&call->raw, RAW_BYTES_MAX);
    call->fresh = call->format->form != CALL_NONE;
    if (call->format->form == CALL_MESSAGES) {
        enter(call, call->format, -1);
        call->mid = false;
    }
    read_prompt(call);
    return call;
}

void toolcall_destroy(struct toolcall **call)
{
    if (*call == NULL)
        return;
    buf_fini(&(*call)->in);
    buf_fini(&(*call)->out);
    buf_fini(&(*call)->late);
    buf_fini(&(*call)->name);
    buf_fini(&(*call)->key);
    buf_fini(&(*call)->end);
    buf_fini(&(*call)->raw);
    mem_free(*call);
    *call = NULL;
}

enum err toolcall_push(struct toolcall *call, struct str text)
{
    assert(!call->over);
    while (text.len > 0) {
        size_t n = MIN(text.len, SLICE_BYTES);
        TRY(buf_append(&call->in, text.ptr, n));
        TRY(run(call));
        if (call->in.len > call->options.held_bytes_max) {
            fail(call, "the call is too long");
            TRY(run(call));
        }
        text = str_skip(text, n);
    }
    return ERR_OK;
}

enum err toolcall_finish(struct toolcall *call)
{
    assert(!call->over);
    call->over = true;
    TRY(run(call));
    if (call->mode == TC_CALLS && call->mid)
        fail(call, "the call is not complete");
    return run(call);
}

bool toolcall_in_call(struct toolcall *call)
{
    call->asked = true;
    enum err err = run(call); /* a buffer keeps ERR_NOMEM for the next push */
    call->asked = false;
    return err == ERR_OK && call->mode == TC_CALLS && call->mid;
}
