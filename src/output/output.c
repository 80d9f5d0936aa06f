/*
 * output.c: two readers in a row. CONTENT events of the first are the input of the second. An error
 * of the second inside the callback of the first is kept until the first returns.
 */
#include "output/output.h"

#include "base/attr.h"
#include "base/mem.h"

struct output {
    struct reasoning *reasoning;
    struct toolcall *calls;
    output_event_fn *fn;
    void *arg;
    bool drop;    /* REASONING is not reported */
    enum err err; /* from toolcall_push inside a callback */
    struct str openers[2 * CALL_OPENERS_MAX];
};

static void on_reasoning(const struct output_event *event, void *arg)
{
    struct output *output = arg;

    if (output_failed(output) || output->err != ERR_OK)
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

static void on_call(const struct output_event *event, void *arg)
{
    struct output *output = arg;

    if (event->type != OUTPUT_REASONING || !output->drop)
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
    struct output *output = mem_alloc(sizeof(*output));
    const struct output_formats *formats = &options->formats;
    /* Messages are read by the tool call reader, tools or not. */
    bool calls = options->calls || is_messages(formats);
    struct toolcall_options call_options = {
        .format = calls ? formats->calls : TOOLCALL_NONE,
        .also = calls ? formats->also : TOOLCALL_NONE,
        .learned = formats->learned_calls,
        .either = options->either && options->reasoning != REASONING_RAW,
        .tools = options->tools,
        .tools_count = options->tools_count,
        .prompt_tail = options->prompt_tail,
        .held_bytes_max = options->held_bytes_max,
        .calls_max = options->calls_max,
    };
    struct reasoning_options reasoning_options = {
        .marks = output_thought_marks(formats),
        .mode = options->reasoning,
        .prompt_tail = options->prompt_tail,
        .call_openers = output->openers,
        .call_openers_count = COUNT_OF(output->openers),
        .in_call = in_call,
        .thought_bytes_max = options->thought_bytes_max,
    };

    find_openers(output, &call_options);
    output->fn = fn;
    output->arg = arg;
    output->drop = options->reasoning == REASONING_DROP;
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
    mem_free(*output);
    *output = NULL;
}

enum err output_push(struct output *output, struct str text)
{
    TRY(reasoning_push(output->reasoning, text));
    return output->err;
}

enum err output_finish(struct output *output, bool cut)
{
    TRY(reasoning_finish(output->reasoning, cut));
    TRY(output->err);
    return toolcall_finish(output->calls);
}

bool output_in_thought(const struct output *output)
{
    return reasoning_in_thought(output->reasoning);
}

bool output_failed(const struct output *output)
{
    return toolcall_failed(output->calls);
}
