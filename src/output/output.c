/*
 * output.c: two readers in a row. CONTENT events of the first are the input of the second. An error
 * of the second inside the callback of the first is kept until the first returns.
 */
#include "output/output.h"

#include "base/mem.h"

struct output {
    struct reasoning *reasoning;
    struct toolcall *calls;
    output_event_fn *fn;
    void *arg;
    bool drop;    /* REASONING is not reported */
    enum err err; /* from toolcall_push inside a callback */
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

struct output *output_create(const struct output_options *options, output_event_fn *fn, void *arg)
{
    struct output *output = mem_alloc(sizeof(*output));
    /* The channels of gpt-oss are read by the tool call reader, tools or not. */
    bool calls = options->calls || options->formats.calls == TOOLCALL_HARMONY;
    struct toolcall_options call_options = {
        .format = calls ? options->formats.calls : TOOLCALL_NONE,
        .either = options->either && options->reasoning != REASONING_RAW,
        .tools = options->tools,
        .tools_count = options->tools_count,
        .prompt_tail = options->prompt_tail,
        .held_bytes_max = options->held_bytes_max,
        .calls_max = options->calls_max,
    };
    struct reasoning_options reasoning_options = {
        .format = options->formats.reasoning,
        .mode = options->reasoning,
        .prompt_tail = options->prompt_tail,
        .thought_bytes_max = options->thought_bytes_max,
    };

    reasoning_options.call_openers =
        toolcall_openers(call_options.format, &reasoning_options.call_openers_count,
                         &reasoning_options.call_openers_control);
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

bool output_failed(const struct output *output)
{
    return toolcall_failed(output->calls);
}
