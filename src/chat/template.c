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
#include "output/output.h"

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

enum chat_calls chat_template_calls(const struct chat_template *tmpl)
{
    return tmpl->calls;
}

const char *chat_calls_name(enum chat_calls calls)
{
    static const char *const names[] = {CHAT_CALLS_TABLE(TABLE_NAME)};
    assert((unsigned)calls < COUNT_OF(names));
    return names[calls];
}

const char *chat_calls_sentence(enum chat_calls calls)
{
    static const char *const sentences[] = {
#define X(value, name, sentence) sentence,
        CHAT_CALLS_TABLE(X)
#undef X
    };
    assert((unsigned)calls < COUNT_OF(sentences));
    return sentences[calls];
}

/* ---- life ---- */

/* Errors of the template's author are passed on as they are; our own get the position. */
static enum err set_jinja_error(struct errinfo *info, const struct jinja_error *error)
{
    if (error->raised || error->line == 0)
        return err_set(info, error->code, "%s", error->message);
    return err_set(info, error->code, "chat template, line %u: %s", error->line, error->message);
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
    if (err == ERR_OK)
        err = chat_learn(tmpl, source, info);
    if (err != ERR_OK) {
        chat_template_destroy(&tmpl);
        return err;
    }
    tmpl->ready = true;
    *out = tmpl;
    return ERR_OK;
}

void chat_template_destroy(struct chat_template **tmpl)
{
    if (*tmpl == NULL)
        return;
    jinja_destroy(&(*tmpl)->jinja);
    chat_forget(*tmpl);
    mem_free((*tmpl)->bos);
    mem_free((*tmpl)->eos);
    mem_free(*tmpl);
    *tmpl = NULL;
}

/* ---- rendering ---- */

/* The inputs of one template run. */
struct pass {
    const struct chat_template *tmpl;
    const struct chat_request *request;
    size_t count; /* number of its messages */
    struct arena *arena;
    struct chat_shape shape;
    struct jinja_output output;
    struct buf text;
    struct chat_rounds rounds;
    bool time_of_day; /* was asked for */
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

static enum err run(struct pass *pass, struct errinfo *info)
{
    struct jinja_options options = {.limits = limits_of(pass->tmpl),
                                    .now_s = pass->request->now_s,
                                    .time_of_day = &pass->time_of_day,
                                    .on_round = chat_rounds_on_round,
                                    .arg = &pass->rounds};
    struct jinja_error error = {0};

    enum err err =
        chat_shape_make(pass->tmpl, pass->request, pass->count, pass->arena, &pass->shape, info);
    if (err == ERR_OK)
        err = chat_rounds_init(&pass->rounds, &pass->shape, &pass->text, pass->arena);
    if (err != ERR_OK)
        return info != NULL && info->code == err ? err : err_set(info, err, "no room for the chat");
    err = jinja_render(pass->tmpl->jinja, pass->shape.vars, &options, pass->arena,
                       jinja_output_sink, &pass->output, &error);
    return err == ERR_OK ? ERR_OK : set_jinja_error(info, &error);
}

static void pass_init(struct pass *pass, const struct chat_template *tmpl,
                      const struct chat_request *request, size_t count, struct arena *arena)
{
    *pass = (struct pass){.tmpl = tmpl, .request = request, .count = count, .arena = arena};
    buf_init(&pass->text, jinja_limits_default.output_bytes);
    jinja_output_init(&pass->output, &pass->text);
}

static void pass_fini(struct pass *pass)
{
    jinja_output_fini(&pass->output);
    buf_fini(&pass->text);
}

/* The length of the text without the generation prompt, from a run without it; SIZE_MAX if that
 * text differs. */
static enum err measure_generation(const struct pass *with, size_t *out, struct errinfo *info)
{
    struct chat_request request = *with->request;
    struct pass pass;

    *out = SIZE_MAX;
    request.add_generation_prompt = false;
    pass_init(&pass, with->tmpl, &request, with->count, with->arena);
    enum err err = run(&pass, info);
    if (err == ERR_OK && pass.text.len <= with->text.len &&
        (pass.text.len == 0 || memcmp(pass.text.data, with->text.data, pass.text.len) == 0))
        *out = pass.text.len;
    pass_fini(&pass);
    return err == ERR_NOMEM || err == ERR_LIMIT ? err : ERR_OK;
}

/* Cuts the text after the content of the last message. */
static enum err cut_open(struct pass *pass, struct chat_render *render, struct errinfo *info)
{
    uint32_t last = pass->shape.items[pass->shape.item_count - 1].message;
    size_t i = render->span_count;

    while (i > 0 && chat_shape_message_of(&pass->shape, render->spans[i - 1].origin) != last)
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

static enum err find_generation(const struct pass *pass, struct chat_render *render,
                                struct errinfo *info)
{
    if (!pass->request->add_generation_prompt)
        return ERR_OK;
    if (pass->tmpl->generation_twice || !pass->tmpl->measured || chat_marks_end(render) == SIZE_MAX)
        return measure_generation(pass, &render->generation, info);
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

static enum err finish(struct pass *pass, struct chat_text *out, struct errinfo *info)
{
    struct chat_render render = {
        .tmpl = pass->tmpl,
        .shape = &pass->shape,
        .spans = pass->output.spans,
        .span_count = pass->output.span_count,
        .rounds = pass->rounds,
        .text = {buf_str(&pass->text), pass->text.len},
        .generation = SIZE_MAX,
        .request = pass->request,
    };
    enum err err = pass->request->continue_final ? cut_open(pass, &render, info)
                                                 : find_generation(pass, &render, info);

    if (err != ERR_OK)
        return err;
    out->time_of_day = pass->time_of_day;
    err = keep_text(&render, pass->arena, out);
    if (err == ERR_OK)
        err = chat_marks_make(&render, pass->arena, out);
    return err == ERR_OK ? ERR_OK
                         : err_set(info, err, "no room for a text of %zu bytes", render.text.len);
}

/* A last message without content or calls is continued by opening an answer, and its thought. */
static bool is_empty(const struct message *message)
{
    bool says =
        message->form == CONTENT_TEXT ? message->parts[0].text.len > 0 : message->parts_count > 0;

    return !says && message->calls_count == 0;
}

/* ---- continuing a thought ----
 *
 *      [question] <assistant> <think>\n  thought so far
 *                 ^generation             ^thought
 *
 * Templates show the thoughts of finished messages only, and many not even these. So the last
 * message is not rendered: its thought follows what opens an answer, and the mark of thoughts.
 */

/* The mark before a thought; empty: the template shows none. */
static struct str thought_mark(const struct output_formats *formats)
{
    if (formats->reasoning != REASONING_HARMONY)
        return output_thought_marks(formats)->open;
    return formats->calls == TOOLCALL_MUSE ? STR(" to=self<|message|>")
                                           : STR("<|channel|>analysis<|message|>");
}

/* The length of an opening without the empty thought that tells the model not to think. */
static size_t without_thought(const struct reasoning_marks *marks, struct str opening)
{
    struct str open = str_trim(marks->open), text = str_trim(opening);

    if (!reasoning_is_closed(marks, opening))
        return opening.len;
    text.len -= marks->close.len;
    if (str_ends(str_trim(text), open)) {
        text = str_trim(text);
        text.len -= open.len;
    }
    return (size_t)(text.ptr - opening.ptr) + text.len;
}

static enum err append_thought(const struct chat_template *tmpl, struct str thought,
                               struct arena *arena, struct chat_text *out, struct errinfo *info)
{
    const struct reasoning_marks *marks = output_thought_marks(&tmpl->formats);
    struct str mark = thought_mark(&tmpl->formats), tail = str_skip(out->text, out->generation);
    struct chat_span *spans = arena_alloc_array(arena, out->span_count + 1, sizeof(*spans));
    struct buf text;

    if (mark.len == 0)
        return err_set(info, ERR_INVALID,
                       "the chat template shows no thoughts, so none can be continued");
    if (spans == NULL)
        return err_set(info, arena->err, "no room for the chat");
    buf_init(&text, jinja_limits_default.output_bytes);
    buf_append(&text, out->text.ptr, out->generation + without_thought(marks, tail));
    if (!reasoning_is_open(marks, tail)) {
        buf_append(&text, mark.ptr, mark.len);
        buf_append(&text, "\n", tmpl->thought_line);
    }
    out->thought = text.len;
    buf_append(&text, thought.ptr, thought.len);
    if (out->span_count > 0)
        memcpy(spans, out->spans, out->span_count * sizeof(*spans));
    spans[out->span_count++] = (struct chat_span){out->thought, text.len};
    out->spans = spans;
    enum err err = buf_move(&text, arena, &out->text);
    return err == ERR_OK ? ERR_OK : err_set(info, err, "no room for the chat");
}

enum err chat_template_render(const struct chat_template *tmpl, const struct chat_request *request,
                              struct arena *arena, struct chat_text *out, struct errinfo *info)
{
    struct chat_request wish = *request;
    size_t count = request->messages_count;
    struct str thought = STR_NONE;
    struct pass pass;

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
        if (!wish.continue_final && last->thought.len > 0) {
            thought = last->thought;
            wish.thinking = CHAT_THINKING_ON;
        }
    }
    pass_init(&pass, tmpl, &wish, count, arena);
    enum err err = run(&pass, info);
    if (err == ERR_OK)
        err = finish(&pass, out, info);
    if (err == ERR_OK && thought.len > 0)
        err = append_thought(tmpl, thought, arena, out, info);
    pass_fini(&pass);
    return err;
}
