/* prepare.c: the steps from a request to a prompt, its marks and breakpoints. */
#include "chat/prepare.h"

#include <assert.h>
#include <string.h>
#include <yyjson.h>

#include "chat/prepare_impl.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "chat/neutral.h"

/* ---- text and tokens ---- */

static struct hash256 recall_space(const struct gen_request *request,
                                   const struct prepare_tools *tools)
{
    const struct engine_facts *facts = engine_facts(tools->model.engine);
    const char *name = tools->model.name;
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, facts->fingerprint.bytes, sizeof(facts->fingerprint.bytes));
    hash256_update_framed(&state, name, strlen(name));
    hash256_update_framed(&state, tools->tenant, strlen(tools->tenant));
    hash256_update_framed(&state, request->cache_salt.ptr, request->cache_salt.len);
    return hash256_final(&state);
}

/* A request that forbids calls is rendered without tools, as constraint.h requires. */
static bool may_call(const struct gen_request *request)
{
    return request->tool_choice != CONSTRAINT_NONE && request->conversation.tools_count > 0;
}

/* The request's own wish, or that of the server: by its kwargs, or for templates with a switch. */
static enum chat_thinking thinking_of(const struct prepare_run *run)
{
    static const char *const switches[] = {"enable_thinking", "thinking"};
    const struct prepare_defaults *defaults = &run->tools->defaults;

    if (run->request->thinking != CHAT_THINKING_DEFAULT)
        return run->request->thinking;
    for (size_t i = 0; i < COUNT_OF(switches); i++)
        if (yyjson_obj_get(defaults->kwargs, switches[i]) != NULL)
            return CHAT_THINKING_DEFAULT; /* the kwargs say it */
    return chat_template_caps(run->tools->model.tmpl)->thinking ? defaults->thinking
                                                                : CHAT_THINKING_DEFAULT;
}

enum err prepare_render(struct prepare_run *run)
{
    const struct prepare_tools *tools = run->tools;
    struct gen_request *request = run->request;
    const struct conversation *talk = &request->conversation;
    struct prepared *out = run->out;
    struct chat_request chat = {
        .messages = talk->messages,
        .messages_count = talk->count,
        .tools = talk->tools,
        .tools_count = may_call(request) ? talk->tools_shown : 0,
        .kwargs = request->kwargs,
        .default_kwargs = tools->defaults.kwargs,
        .thinking = thinking_of(run),
        .add_generation_prompt = !request->continue_final && !request->unopened,
        .continue_final = request->continue_final,
        .transient = tools->neutral && neutral_is_on(tools->neutral, NEUTRAL_TRANSIENT),
        .now_s = tools->neutral ? neutral_now(tools->neutral, tools->now_s) : tools->now_s,
    };

    if (request->reasoning_effort.len > 0) {
        chat.reasoning_effort = arena_strdup(&request->arena, request->reasoning_effort);
        if (!chat.reasoning_effort)
            return request->arena.err;
    }
    TRY(chat_template_render(tools->model.tmpl, &chat, &request->arena, &out->text, &run->info));
    size_t end = out->text.thought > 0 ? out->text.thought : out->text.text.len;
    out->opening =
        (struct str){out->text.text.ptr + out->text.generation, end - out->text.generation};
    return ERR_OK;
}

enum err prepare_check_length(struct prepare_run *run, size_t bytes)
{
    const struct engine *engine = run->tools->model.engine;
    struct api_context context = {engine_seq_length_max(engine), engine_facts(engine)->context};
    size_t tokens = tokens_at_least(run->tools->model.tokens, bytes);

    if (run->tools->any_length || tokens <= context.one)
        return ERR_OK;
    return api_error_set_context(run->error, tokens, false, context);
}

/* The tokenizer puts the tokens of pictures where their markers are. */
static enum err show_pictures(struct prepare_run *run)
{
    struct pictures *pictures = &run->request->pictures;

    TRY(pictures_read(pictures, run->out->text.text, run->tools, run->error));
    struct chat_picture *list =
        arena_alloc_array(&run->request->arena, MAX(pictures->count, 1), sizeof(*list));

    if (list == NULL)
        return run->request->arena.err;
    for (size_t i = 0; i < pictures->count; i++) {
        list[i].marker = pictures->list[i].marker;
        list[i].tokens = picture_tokens(pictures->list[i].picture, &list[i].count);
    }
    run->out->text.pictures = list;
    run->out->text.picture_count = pictures->count;
    return ERR_OK;
}

enum err prepare_prompt(struct prepare_run *run, bool final)
{
    token_prompt_fini(&run->out->prompt);
    run->out->recalled = 0;
    TRY(prepare_render(run));
    if (final)
        TRY(prepare_check_length(run, run->out->text.text.len));
    TRY(show_pictures(run));
    return prepare_tokens(run);
}

/* Most templates never ask for the time. */
static void count_clock(struct prepare_run *run)
{
    struct neutral *neutral = run->tools->neutral;
    int64_t now_s = run->tools->now_s;

    if (neutral != NULL && run->out->text.time_of_day && neutral_now(neutral, now_s) != now_s)
        neutral_count(neutral, &run->out->changed, NEUTRAL_TEMPLATE_CLOCK, 1);
}

static enum err prepare_conversation(struct prepare_run *run)
{
    run->out->space = recall_space(run->request, run->tools);
    run->out->formats = chat_template_formats(run->tools->model.tmpl);
    run->out->calls = may_call(run->request);
    TRY(prepare_messages(run));
    TRY(run->request->edits_count > 0 ? prepare_edit(run) : prepare_prompt(run, true));
    count_clock(run);
    return ERR_OK;
}

/* Ids of the client's own tokens are validated before they reach the engine. */
static enum err check_tokens(struct prepare_run *run, const token_id *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!engine_token_valid(run->tools->model.engine, tokens[i]))
            return err_set(&run->info, ERR_INVALID, "token %d at %zu is not in the vocabulary",
                           tokens[i], i);
    return ERR_OK;
}

static enum err copy_tokens(struct prepare_run *run, const struct gen_prompt *from,
                            struct token_prompt *prompt)
{
    TRY(check_tokens(run, from->tokens, from->tokens_count));
    prompt->tokens = mem_try_alloc_array(from->tokens_count + 1, sizeof(*prompt->tokens));
    if (!prompt->tokens)
        return ERR_NOMEM;
    prompt->count = from->tokens_count;
    if (prompt->count > 0)
        memcpy(prompt->tokens, from->tokens, prompt->count * sizeof(*prompt->tokens));
    return ERR_OK;
}

/* A prompt without a template. */
static enum err prepare_plain(struct prepare_run *run, const struct gen_prompt *from,
                              struct token_prompt *prompt)
{
    if (run->request->source == GEN_SOURCE_TOKENS)
        return copy_tokens(run, from, prompt);
    if (run->request->source == GEN_SOURCE_INFILL)
        return prepare_infill(run, from->text, prompt);
    TRY(prepare_check_length(run, from->text.len));
    /* the client writes the whole prompt, including control tokens */
    return tokens_from_string(run->tools->model.tokens, &run->caller, from->text,
                              ENGINE_TOKENIZE_CONTROL | ENGINE_TOKENIZE_BOS, prompt, &run->info);
}

/* Tokens of earlier turns come first; a BOS after them would begin another text. */
static enum err add_context(struct prepare_run *run)
{
    const struct gen_request *request = run->request;
    const struct engine_facts *facts = engine_facts(run->tools->model.engine);
    struct token_prompt *prompt = &run->out->prompt;
    size_t count = request->context_count;

    if (count == 0)
        return ERR_OK;
    TRY(check_tokens(run, request->context, count));
    size_t skip = facts->add_bos && prompt->count > 0 && prompt->tokens[0] == facts->bos;
    token_id *tokens = mem_try_alloc_array(count + prompt->count + 1, sizeof(*tokens));
    if (!tokens)
        return ERR_NOMEM;
    memcpy(tokens, request->context, count * sizeof(*tokens));
    memcpy(tokens + count, prompt->tokens + skip, (prompt->count - skip) * sizeof(*tokens));
    mem_free(prompt->tokens);
    prompt->tokens = tokens;
    prompt->count += count - skip;
    for (size_t i = 0; i < prompt->mark_count; i++)
        prompt->marks[i].at += prompt->marks[i].at >= skip ? count - skip : count;
    run->out->history_known = false;
    return ERR_OK;
}

static enum err make_tokens(struct prepare_run *run)
{
    struct gen_prompt first = gen_request_prompt(run->request, 0);

    if (run->request->source != GEN_SOURCE_MESSAGES)
        return prepare_plain(run, &first, &run->out->prompt);
    TRY(prepare_conversation(run));
    return add_context(run);
}

/* ---- places ---- */

/* One mark per place. Where one message ends and the next begins, the BEGIN mark is kept. */
static void add_mark(struct prepared *out, const struct mark *mark)
{
    struct mark *last = out->marks_count > 0 ? &out->marks[out->marks_count - 1] : NULL;

    assert(!last || last->at <= mark->at);
    if (last && last->at == mark->at) {
        if (last->kind != MARK_MESSAGE_BEGIN)
            *last = *mark;
        return;
    }
    out->marks[out->marks_count++] = *mark;
}

static bool is_system_end(const struct mark *mark)
{
    return mark->kind == MARK_SYSTEM_END && mark->role == ROLE_SYSTEM;
}

/* Will the next turn not have what opens the answer to this question? Then it continues before
 * that. A span that clients remove cannot save more than the question, and most stay. */
static bool loses_opening(const struct prepare_run *run)
{
    const struct prepared *out = run->out;
    const struct mark *last = out->marks_count > 0 ? &out->marks[out->marks_count - 1] : NULL;

    return last && last->kind == MARK_GENERATION && last->role != ROLE_TOOL &&
           chat_template_caps(run->tools->model.tmpl)->opening_goes;
}

static enum err place_marks(struct prepare_run *run)
{
    struct prepared *out = run->out;
    struct arena *arena = &run->request->arena;

    out->marks = arena_alloc_array(arena, out->prompt.mark_count + 1, sizeof(*out->marks));
    if (!out->marks)
        return arena->err;
    for (size_t i = 0; i < out->prompt.mark_count; i++) {
        const struct mark *mark = &out->prompt.marks[i];

        /* Neither is a cut of every run: the next turn may not have it. */
        if (mark->kind == MARK_TRANSIENT && out->transient == 0)
            out->transient = (uint32_t)mark->at;
        if (mark->kind == MARK_TRANSIENT || mark->kind == MARK_CUT)
            continue;
        /* Templates write the system text together with tools and more: only its end is known; it
         * begins where the prompt does. */
        if (is_system_end(mark) && out->marks_count == 0)
            out->marks[out->marks_count++] =
                (struct mark){.kind = MARK_MESSAGE_BEGIN, .role = ROLE_SYSTEM};
        add_mark(out, mark);
        if (mark->kind == MARK_SYSTEM_END)
            out->anchor = (uint32_t)mark->at;
        if (mark->kind == MARK_MESSAGE_BEGIN && mark->role == ROLE_USER)
            out->last_user = (uint32_t)mark->at;
    }
    if (out->transient > 0)
        neutral_count(run->tools->neutral, &out->changed, NEUTRAL_TRANSIENT, 1);
    if (loses_opening(run))
        out->transient = (uint32_t)out->marks[out->marks_count - 1].at;
    return ERR_OK;
}

/* The token position of a client's breakpoint; 0 = none. Tools are rendered together with the
 * system text, so both end at the same place. */
static uint32_t breakpoint_at(const struct prepared *out, int breakpoint)
{
    if (breakpoint < 0)
        return out->anchor;
    for (size_t i = 0; i < out->prompt.mark_count; i++) {
        const struct mark *mark = &out->prompt.marks[i];

        if ((mark->kind == MARK_MESSAGE_END && mark->message == (uint32_t)breakpoint) ||
            (is_system_end(mark) && mark->message >= (uint32_t)breakpoint))
            return (uint32_t)mark->at;
    }
    return 0;
}

/* Breakpoints are hints: those without a position are skipped. Ascending, at different places. */
static void add_breakpoint(struct prepared *out, uint32_t at)
{
    size_t i = out->breakpoints_count;

    while (i > 0 && out->breakpoints[i - 1] > at)
        i--;
    if (at == 0 || at >= out->prompt.count || (i > 0 && out->breakpoints[i - 1] == at))
        return;
    if (out->breakpoints_count == GEN_BREAKPOINTS_MAX && i == GEN_BREAKPOINTS_MAX)
        i--; /* the last one matters more than the one before it */
    else if (out->breakpoints_count == GEN_BREAKPOINTS_MAX)
        return;
    else
        memmove(&out->breakpoints[i + 1], &out->breakpoints[i],
                (out->breakpoints_count++ - i) * sizeof(*out->breakpoints));
    out->breakpoints[i] = at;
}

static void place_breakpoints(struct prepared *out, struct gen_request *request)
{
    for (size_t i = 0; i < request->breakpoints_count; i++)
        add_breakpoint(out, breakpoint_at(out, request->breakpoints[i]));
    for (size_t i = 0; i < out->prompt.mark_count; i++)
        if (out->prompt.marks[i].kind == MARK_CUT)
            add_breakpoint(out, (uint32_t)out->prompt.marks[i].at);
    if (!request->cache_explicit)
        return;
    size_t count = out->breakpoints_count;
    request->cache_write_max = count > 0 ? out->breakpoints[count - 1] : 0;
    if (count == 0)
        request->cache_read = request->cache_write = false; /* as OpenAI defines it */
}

/* ---- grammar ---- */

/* True if tools may be called, or if a call is required even though there are no tools: constraint.h
 * then reports that. */
static bool is_about_calls(const struct prepare_run *run)
{
    return run->out->calls || run->request->tool_choice == CONSTRAINT_REQUIRED ||
           run->request->tool_choice == CONSTRAINT_NAMED;
}

static enum err write_grammar(struct prepare_run *run)
{
    const struct gen_request *request = run->request;
    struct prepared *out = run->out;
    struct constraint_request constraint = {
        .mode = is_about_calls(run) ? request->tool_choice : CONSTRAINT_NONE,
        .name = request->tool_name,
        .parallel = request->parallel_calls,
        .tools = request->conversation.tools,
        .tools_count = request->conversation.tools_count,
        .formats = out->formats,
        .prompt_tail = out->opening,
        .answer = request->format,
        .schema = request->schema,
        .regex = request->regex,
        .choices = request->answers,
    };

    TRY(constraint_write(&out->constraint, &constraint, &run->info));
    out->either = constraint.mode == CONSTRAINT_AUTO && constraint.answer != CONSTRAINT_ANSWER_TEXT;
    if (out->constraint.grammar.len > 0) {
        out->grammar = buf_str(&out->constraint.grammar);
        if (!out->constraint.optional) /* calls of that format are not held to the grammar */
            out->formats.also = TOOLCALL_NONE;
    }
    return ERR_OK;
}

static enum err make_grammar(struct prepare_run *run)
{
    if (run->request->format != CONSTRAINT_ANSWER_GRAMMAR)
        return write_grammar(run);
    if (is_about_calls(run))
        return api_error_set(run->error, API_ERROR_UNSUPPORTED, "grammar",
                             "A grammar cannot be combined with tools that the model may call. "
                             "Leave one of them out, or set 'tool_choice' to \"none\".");
    run->out->grammar = arena_strdup(&run->request->arena, run->request->grammar);
    return run->out->grammar ? ERR_OK : run->request->arena.err;
}

/* The field to blame when the grammar fails. */
static const char *grammar_param(const struct prepare_run *run)
{
    return is_about_calls(run) && !run->out->constraint.answer_refused ? "tools"
                                                                       : run->request->format_field;
}

/* ---- the budget of a thought ---- */

/* The text after which the model writes its answer. Empty: thoughts have no marks. */
static struct str thought_end(const struct output_formats *formats, struct arena *arena)
{
    const struct reasoning_marks *marks = output_thought_marks(formats);

    if (formats->reasoning == REASONING_HARMONY)
        return STR("<|end|><|start|>assistant<|channel|>final<|message|>");
    if (marks->close.len == 0 || marks->control)
        return marks->close;
    const char *text = arena_printf(arena, STR_FMT "\n\n", STR_ARG(marks->close));
    return text != NULL ? str_from(text) : STR_NONE;
}

static enum err prepare_budget(struct prepare_run *run)
{
    struct arena *arena = &run->request->arena;

    if (run->request->reasoning_budget == 0)
        run->request->reasoning_budget = run->tools->defaults.reasoning_budget;
    if (run->request->reasoning_budget == 0)
        return ERR_OK;
    struct str text = thought_end(&run->out->formats, arena);
    if (arena->err != ERR_OK)
        return arena->err;
    return tokens_from_string(run->tools->model.tokens, &run->caller, text, ENGINE_TOKENIZE_CONTROL,
                              &run->out->thought_end, &run->info);
}

/* ---- predictions ---- */

enum { PREDICTION_BYTES_MAX = 1 << 18 };

/* The rest of a very long one is not used: that costs speed only. */
static enum err prepare_prediction(struct prepare_run *run)
{
    struct str text = run->request->prediction;

    if (text.len > PREDICTION_BYTES_MAX)
        text.len = utf8_whole((struct str){text.ptr, PREDICTION_BYTES_MAX});
    return tokens_from_string(run->tools->model.tokens, &run->caller, text, 0,
                              &run->out->prediction, &run->info);
}

/* ---- the whole preparation ---- */

/* The field to blame when the prompt fails. */
static const char *param_of(const struct gen_request *request)
{
    return request->source == GEN_SOURCE_MESSAGES ? "messages" : "prompt";
}

static enum err fail(struct prepare_run *run, enum err err, const char *param)
{
    struct api_error *error = run->error;

    if (error->kind != API_OK)
        return ERR_INVALID;
    if (err == ERR_INVALID || err == ERR_UNSUPPORTED)
        return api_error_set(error, err == ERR_INVALID ? API_ERROR_INVALID : API_ERROR_UNSUPPORTED,
                             param, "%s", run->info.text[0] ? run->info.text : err_sentence(err));
    return api_error_from(error, err, &run->info);
}

static struct prepare_run begin(struct gen_request *request, const struct prepare_tools *tools,
                                struct api_error *error)
{
    struct prepare_run run = {
        .request = request, .tools = tools, .error = error, .caller = tools->caller};

    run.caller.tenant = str_from(tools->tenant);
    run.caller.salt = request->cache_salt;
    return run;
}

static enum err fail_empty(const struct gen_request *request, struct api_error *error)
{
    return api_error_set(error, API_ERROR_INVALID, param_of(request), "The prompt is empty.");
}

enum err prepare_more(struct token_prompt *out, struct gen_request *request, size_t index,
                      const struct prepare_tools *tools, struct api_error *error)
{
    struct prepare_run run = begin(request, tools, error);
    struct gen_prompt from = gen_request_prompt(request, index);
    enum err err = prepare_plain(&run, &from, out);

    if (err != ERR_OK)
        return fail(&run, err, param_of(request));
    return out->count > 0 ? ERR_OK : fail_empty(request, error);
}

enum err prepare(struct prepared *out, struct gen_request *request,
                 const struct prepare_tools *tools, struct api_error *error)
{
    struct prepare_run run = begin(request, tools, error);
    enum err err;

    run.out = out;
    memset(out, 0, sizeof(*out));
    constraint_init(&out->constraint);
    out->formats = (struct output_formats){.calls = TOOLCALL_NONE};
    err = make_tokens(&run);
    if (err == ERR_OK)
        err = place_marks(&run);
    if (err != ERR_OK)
        return fail(&run, err, param_of(request));
    if (out->prompt.count == 0)
        return fail_empty(request, error);
    place_breakpoints(out, request);
    err = pictures_place(&request->pictures, &request->arena, &out->prompt, &out->pictures, error);
    if (err != ERR_OK)
        return fail(&run, err, param_of(request));
    err = make_grammar(&run);
    if (err != ERR_OK)
        return fail(&run, err, grammar_param(&run));
    /* Control tokens are not shown in text by default, but markup consists of them. */
    out->control_text = request->control_text || output_has_control(&out->formats, out->calls);
    err = prepare_budget(&run);
    if (err != ERR_OK)
        return fail(&run, err, "reasoning");
    err = prepare_prediction(&run);
    return err == ERR_OK ? ERR_OK : fail(&run, err, "prediction");
}

void prepare_fini(struct prepared *out)
{
    token_prompt_fini(&out->prompt);
    token_prompt_fini(&out->thought_end);
    token_prompt_fini(&out->prediction);
    constraint_fini(&out->constraint);
    memset(out, 0, sizeof(*out));
}
