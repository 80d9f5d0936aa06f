/*
 * template.c: one render: values in, text, spans and marks out.
 *
 * The template runs once. The template engine reports where messages begin and end: it calls back
 * for each loop iteration that writes. Iterations whose item is one of our messages are the
 * messages, whatever markup the template puts around them. Only a template that opens the answer
 * inside the last message's iteration runs a second time, without opening it.
 */
#include "chat/template_impl.h"

#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"

/* ChatML, which more models understand than any other format, with tools in the Hermes style. */
static const char chatml[] =
    "{%- set system = messages[0].content if messages and messages[0].role == 'system' else '' -%}"
    "{%- if system or tools -%}"
    "{{ '<|im_start|>system\\n' + system }}"
    "{%- if tools -%}"
    "{{ '\\n\\n' if system else '' }}"
    "{{ 'These tools can be called. Their signatures are JSON, one a line, inside "
    "<tools></tools>:\\n"
    "<tools>\\n' }}"
    "{%- for tool in tools -%}{{ tool | tojson + '\\n' }}{%- endfor -%}"
    "{{ '</tools>\\nTo call one, write a JSON object with its name and arguments inside "
    "<tool_call></tool_call>:\\n"
    "<tool_call>\\n{\"name\": \"...\", \"arguments\": {...}}\\n</tool_call>' }}"
    "{%- endif -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'tool' -%}"
    "{{ '<|im_start|>user\\n<tool_response>\\n' + message.content + "
    "'\\n</tool_response><|im_end|>\\n' }}"
    "{%- elif not (loop.first and message.role == 'system') -%}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content }}"
    "{%- for call in message.tool_calls or [] -%}"
    "{{ '\\n' if message.content or not loop.first else '' }}"
    "{{ '<tool_call>\\n{\"name\": ' + call.function.name | tojson + ', \"arguments\": ' }}"
    "{{ call.function.arguments if call.function.arguments is string else "
    "call.function.arguments | tojson }}"
    "{{ '}\\n</tool_call>' }}"
    "{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}";

/* Published templates take a few thousand steps for the small conversations of a probe. */
enum { TRIAL_STEPS_MAX = 100000, TRIAL_OUTPUT_BYTES_MAX = 1 << 20 };

const struct chat_caps *chat_template_caps(const struct chat_template *tmpl)
{
    return &tmpl->caps;
}

struct output_formats chat_template_formats(const struct chat_template *tmpl)
{
    return tmpl->formats;
}

/* ---- life ---- */

/* Errors of the template's author are passed on as they are; our own get the position. */
static enum err set_jinja_error(struct errinfo *info, const struct jinja_error *error)
{
    if (error->raised || error->line == 0)
        return err_set(info, error->code, "%s", error->message);
    return err_set(info, error->code, "chat template, line %u: %s", error->line, error->message);
}

/* Where we describe the tools, calls have the format of our description. */
static void choose_formats(struct chat_template *tmpl, struct str source)
{
    tmpl->formats = output_detect(source);
    if (!tmpl->caps.tools)
        tmpl->formats.calls = TOOLCALL_HERMES;
}

enum err chat_template_create(const struct chat_template_options *options,
                              struct chat_template **out, struct errinfo *info)
{
    struct str source = str_from(options->source ? options->source : chatml);
    struct chat_template *tmpl = mem_alloc(sizeof(*tmpl));
    struct jinja_error error = {0};

    *out = NULL;
    tmpl->bos = mem_strndup(options->bos.ptr ? options->bos.ptr : "", options->bos.len);
    tmpl->eos = mem_strndup(options->eos.ptr ? options->eos.ptr : "", options->eos.len);
    enum err err = jinja_compile(source, &tmpl->jinja, &error);
    if (err != ERR_OK)
        set_jinja_error(info, &error);
    else
        err = chat_probe(tmpl, info);
    if (err == ERR_OK)
        err = chat_stable_measure(tmpl, info);
    if (err != ERR_OK) {
        chat_template_destroy(&tmpl);
        return err;
    }
    choose_formats(tmpl, source);
    tmpl->ready = true;
    *out = tmpl;
    return ERR_OK;
}

void chat_template_destroy(struct chat_template **tmpl)
{
    if (*tmpl == NULL)
        return;
    jinja_destroy(&(*tmpl)->jinja);
    mem_free((*tmpl)->bos);
    mem_free((*tmpl)->eos);
    mem_free(*tmpl);
    *tmpl = NULL;
}

/* ---- rendering ---- */

/* The inputs of one template run. */
struct job {
    const struct chat_template *tmpl;
    const struct chat_request *request;
    size_t count; /* number of its messages */
    struct arena *arena;
    struct chat_shape shape;
    struct jinja_output output;
    struct buf text;
    struct chat_rounds rounds;
};

/* A model's template may be written to run as long as it is allowed to; a few hundred probes must
 * not add up. */
static struct jinja_limits limits_of(const struct chat_template *tmpl)
{
    struct jinja_limits limits = jinja_limits_default;

    if (!tmpl->ready) {
        limits.steps = TRIAL_STEPS_MAX;
        limits.output_bytes = TRIAL_OUTPUT_BYTES_MAX;
    }
    return limits;
}

static enum err run(struct job *job, struct errinfo *info)
{
    struct jinja_options options = {.limits = limits_of(job->tmpl),
                                    .now_s = job->request->now_s,
                                    .on_round = chat_rounds_on_round,
                                    .arg = &job->rounds};
    struct jinja_error error = {0};

    enum err err =
        chat_shape_make(job->tmpl, job->request, job->count, job->arena, &job->shape, info);
    if (err == ERR_OK)
        err = chat_rounds_init(&job->rounds, &job->shape, &job->text, job->arena);
    if (err != ERR_OK)
        return info != NULL && info->code == err ? err : err_set(info, err, "no room for the chat");
    err = jinja_render(job->tmpl->jinja, job->shape.vars, &options, job->arena, jinja_output_sink,
                       &job->output, &error);
    return err == ERR_OK ? ERR_OK : set_jinja_error(info, &error);
}

static void job_init(struct job *job, const struct chat_template *tmpl,
                     const struct chat_request *request, size_t count, struct arena *arena)
{
    *job = (struct job){.tmpl = tmpl, .request = request, .count = count, .arena = arena};
    buf_init(&job->text, jinja_limits_default.output_bytes);
    jinja_output_init(&job->output, &job->text);
}

static void job_fini(struct job *job)
{
    jinja_output_fini(&job->output);
    buf_fini(&job->text);
}

/* The length of the text without the generation prompt, from a run without it; SIZE_MAX if that
 * text differs. */
static enum err measure_generation(const struct job *with, size_t *out, struct errinfo *info)
{
    struct chat_request request = *with->request;
    struct job job;

    *out = SIZE_MAX;
    request.add_generation_prompt = false;
    job_init(&job, with->tmpl, &request, with->count, with->arena);
    enum err err = run(&job, info);
    if (err == ERR_OK && job.text.len <= with->text.len &&
        (job.text.len == 0 || memcmp(job.text.data, with->text.data, job.text.len) == 0))
        *out = job.text.len;
    job_fini(&job);
    return err == ERR_NOMEM || err == ERR_LIMIT ? err : ERR_OK;
}

/* Cuts the text after the content of the last message. */
static enum err cut_open(struct job *job, struct chat_render *render, struct errinfo *info)
{
    uint32_t last = job->shape.items[job->shape.item_count - 1].message;
    size_t i = render->span_count;

    while (i > 0 && chat_shape_message_of(&job->shape, render->spans[i - 1].origin) != last)
        i--;
    if (i == 0)
        return err_set(
            info, ERR_INVALID,
            "the chat template does not show the last message, which is to be continued");
    render->span_count = i;
    render->text.len = render->spans[i - 1].end;
    render->open = true;
    return ERR_OK;
}

static enum err find_generation(const struct job *job, struct chat_render *render,
                                struct errinfo *info)
{
    if (!job->request->add_generation_prompt)
        return ERR_OK;
    if (job->tmpl->generation_twice || !job->tmpl->measured || chat_marks_end(render) == SIZE_MAX)
        return measure_generation(job, &render->generation, info);
    render->generation = chat_marks_end(render);
    return ERR_OK;
}

/* Moves text and spans to the arena. */
static enum err keep_text(const struct chat_render *render, struct arena *arena,
                          struct chat_text *out)
{
    struct chat_span *spans = arena_alloc_array(arena, render->span_count, sizeof(*spans));
    char *text = arena_strdup(arena, render->text);

    if (spans == NULL || text == NULL)
        return arena->err;
    for (size_t i = 0; i < render->span_count; i++) {
        const struct jinja_span *span = &render->spans[i];
        if (out->span_count > 0 && spans[out->span_count - 1].end == span->begin)
            spans[out->span_count - 1].end = span->end;
        else
            spans[out->span_count++] = (struct chat_span){span->begin, span->end};
    }
    out->text = (struct str){text, render->text.len};
    out->spans = spans;
    out->generation = render->generation == SIZE_MAX ? render->text.len : render->generation;
    return ERR_OK;
}

static enum err finish(struct job *job, struct chat_text *out, struct errinfo *info)
{
    struct chat_render render = {
        .tmpl = job->tmpl,
        .shape = &job->shape,
        .spans = job->output.spans,
        .span_count = job->output.span_count,
        .rounds = job->rounds,
        .text = {buf_str(&job->text), job->text.len},
        .generation = SIZE_MAX,
    };
    enum err err = job->request->continue_final ? cut_open(job, &render, info)
                                                : find_generation(job, &render, info);

    if (err != ERR_OK)
        return err;
    err = keep_text(&render, job->arena, out);
    if (err == ERR_OK)
        err = chat_marks_make(&render, job->arena, out);
    return err == ERR_OK ? ERR_OK
                         : err_set(info, err, "no room for a text of %zu bytes", render.text.len);
}

/* An empty last message is continued by opening an answer. */
static bool is_empty(const struct message *message)
{
    bool says =
        message->form == CONTENT_TEXT ? message->parts[0].text.len > 0 : message->parts_count > 0;

    return !says && message->calls_count == 0 && message->thought.len == 0;
}

enum err chat_template_render(const struct chat_template *tmpl, const struct chat_request *request,
                              struct arena *arena, struct chat_text *out, struct errinfo *info)
{
    struct chat_request wish = *request;
    size_t count = request->messages_count;
    struct job job;

    *out = (struct chat_text){0};
    if (count == 0)
        return err_set(info, ERR_INVALID, "messages must be a list of at least one message");
    const struct message *last = &request->messages[count - 1];
    if (wish.continue_final) {
        if (last->role != ROLE_ASSISTANT)
            return err_set(info, ERR_INVALID, "only the assistant's last message can be continued");
        wish.continue_final = count == 1 || !is_empty(last);
        wish.add_generation_prompt = !wish.continue_final;
        count -= !wish.continue_final;
    }
    job_init(&job, tmpl, &wish, count, arena);
    enum err err = run(&job, info);
    if (err == ERR_OK)
        err = finish(&job, out, info);
    job_fini(&job);
    return err;
}
