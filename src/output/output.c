/*
 * output.c: two readers in a row. CONTENT events of the first are the input of the second. An error
 * of the second inside the callback of the first is kept until the first returns. Calls that are
 * reported whole are held here.
 */
#include "output/output.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/mem.h"
#include "output/tool.h"

enum { HELD_BYTES_MAX = 16 << 20 };

struct output {
    struct reasoning *reasoning;
    struct toolcall *calls;
    output_event_fn *fn;
    void *arg;
    bool drop;    /* REASONING is not reported */
    enum err err; /* from toolcall_push inside a callback */
    bool whole_calls, cut;
    bool holding;   /* a call that began: its name and arguments so far */
    bool truncated; /* a call that was cut: the rest of the text is its own */
    struct buf name, arguments;
    struct str openers[2 * CALL_OPENERS_MAX];
};

static void on_reasoning(const struct output_event *event, void *arg)
{
    struct output *output = arg;

    if (output->err != ERR_OK)
        return;
    if (event->type == OUTPUT_CONTENT)
        output->err = toolcall_push(output->calls, event->text);
    else
        output->fn(event, output->arg);
}

static bool in_call(void *arg)
{
    struct output *output = arg;

    return toolcall_in_call(output->calls);
}

static void release(struct output *output, unsigned call)
{
    struct output_event begin = {OUTPUT_CALL_BEGIN, call, buf_text(&output->name)};
    struct output_event arguments = {OUTPUT_CALL_ARGUMENTS, call, buf_text(&output->arguments)};

    if (!output->holding || output->name.err != ERR_OK || output->arguments.err != ERR_OK)
        return;
    output->holding = false;
    output->fn(&begin, output->arg);
    if (arguments.text.len > 0)
        output->fn(&arguments, output->arg);
}

/* True: the event is not reported, or not yet. */
static bool hold(struct output *output, const struct output_event *event)
{
    switch (event->type) {
    case OUTPUT_CALL_BEGIN:
        output->holding = output->whole_calls;
        buf_clear(&output->arguments);
        buf_clear(&output->name);
        buf_append(&output->name, event->text.ptr, event->text.len);
        return output->holding;
    case OUTPUT_CALL_ARGUMENTS:
        if (output->holding)
            buf_append(&output->arguments, event->text.ptr, event->text.len);
        return output->holding;
    case OUTPUT_CALL_END:
        release(output, event->call);
        return output->holding;
    case OUTPUT_ERROR:
        output->truncated = output->cut;
        if (output->cut)
            release(output, event->call);
        output->holding = false;
        return output->cut;
    case OUTPUT_REASONING:
        return output->drop;
    default:
        return output->truncated;
    }
}

static void on_call(const struct output_event *event, void *arg)
{
    struct output *output = arg;

    if (!hold(output, event))
        output->fn(event, output->arg);
}

struct output_formats output_detect(struct str template_text)
{
    return (struct output_formats){.reasoning = reasoning_detect(template_text),
                                   .calls = toolcall_detect(template_text)};
}

const struct reasoning_marks *output_thought_marks(const struct output_formats *formats)
{
    return reasoning_row(formats->reasoning, formats->learned_thoughts);
}

const struct call_format *output_call_format(const struct output_formats *formats)
{
    return toolcall_row(formats->calls, formats->learned_calls);
}

static bool is_messages(const struct output_formats *formats)
{
    return output_call_format(formats)->form == CALL_MESSAGES;
}

bool output_has_control(const struct output_formats *formats, bool calls)
{
    bool learned = formats->reasoning == REASONING_LEARNED || formats->calls == TOOLCALL_LEARNED;

    return learned || output_thought_marks(formats)->control || is_messages(formats) ||
           (calls &&
            (output_call_format(formats)->control || toolcall_row(formats->also, NULL)->control));
}

/* The marks that begin a call: those of both formats. */
static void find_openers(struct output *output, const struct toolcall_options *calls)
{
    const struct call_format *formats[] = {toolcall_row(calls->format, calls->learned),
                                           toolcall_row(calls->also, calls->learned)};

    for (size_t i = 0; i < COUNT_OF(output->openers); i++)
        output->openers[i] = formats[i / CALL_OPENERS_MAX]->openers[i % CALL_OPENERS_MAX];
}

struct output *output_create(const struct output_options *options, output_event_fn *fn, void *arg)
{
    static const struct tool no_tools = {0};
    struct output *output = mem_alloc(sizeof(*output));
    const struct output_formats *formats = &options->formats;
    /* Messages are read by the tool call reader, tools or not. */
    bool calls = options->calls || is_messages(formats);
    struct toolcall_options call_options = {
        .format = calls ? formats->calls : TOOLCALL_NONE,
        .also = calls ? formats->also : TOOLCALL_NONE,
        .learned = formats->learned_calls,
        .either = options->either && options->reasoning != REASONING_RAW,
        .tools = options->calls ? options->tools : &no_tools,
        .tools_count = options->calls ? options->tools_count : 0,
        .prompt_tail = options->prompt_tail,
        .held_bytes_max = options->held_bytes_max,
        .calls_max = options->calls_max,
    };
    struct reasoning_options reasoning_options = {
        .marks = output_thought_marks(formats),
        .mode = options->reasoning,
        .prompt_tail = options->prompt_tail,
        .continues = options->continues,
        .call_openers = output->openers,
        .call_openers_count = COUNT_OF(output->openers),
        .in_call = in_call,
        .thought_bytes_max = options->thought_bytes_max,
        .whole = options->whole,
    };

    find_openers(output, &call_options);
    output->fn = fn;
    output->arg = arg;
    output->drop = options->reasoning == REASONING_DROP;
    output->whole_calls = options->whole_calls;
    buf_init(&output->name, HELD_BYTES_MAX);
    buf_init(&output->arguments, HELD_BYTES_MAX);
    output->calls = toolcall_create(&call_options, on_call, output);
    output->reasoning = reasoning_create(&reasoning_options, on_reasoning, output);
    return output;
}

void output_destroy(struct output **output)
{
    if (*output == NULL)
        return;
    reasoning_destroy(&(*output)->reasoning);
    toolcall_destroy(&(*output)->calls);
    buf_fini(&(*output)->name);
    buf_fini(&(*output)->arguments);
    mem_free(*output);
    *output = NULL;
}

static enum err held_error(const struct output *output)
{
    return output->name.err != ERR_OK ? output->name.err : output->arguments.err;
}

enum err output_push(struct output *output, struct str text)
{
    TRY(reasoning_push(output->reasoning, text));
    TRY(output->err);
    return held_error(output);
}

enum err output_finish(struct output *output, bool cut)
{
    output->cut = cut;
    TRY(reasoning_finish(output->reasoning, cut));
    TRY(output->err);
    TRY(toolcall_finish(output->calls));
    return held_error(output);
}

bool output_in_thought(const struct output *output)
{
    return reasoning_in_thought(output->reasoning);
}
