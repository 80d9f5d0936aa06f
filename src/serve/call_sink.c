/*
 * call_sink.c: passes the scheduler's reports to the client.
 *
 *      token --text--> output (output/output.h) --event--> answer_add --> dialect->event
 *            --> call->out --> one write per sink call
 *
 * Content passes output/stop_text.h first. A stop text ends the answer.
 *
 * All sinks of a call run on one thread, that of its model's scheduler, so only the head of the
 * stream is locked: the worker may be sending it at the same time. The end of a generation is
 * passed to another thread, which remembers and counts it and ends the answer. Nothing waits: http
 * bounds a client that reads slowly, and a stream that can no longer be written ends its
 * generations.
 *
 * A tool call that cannot be read is content, and the answer and the log say so: an error would tell
 * clients to ask again. Calls are passed on while they are written only where a grammar holds them;
 * others wait until they are complete (keeps I79). One that is cut off by the length limit is passed
 * on: finish is ANSWER_LENGTH, and its arguments end where they end.
 */
#include "serve/call.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/api_impl.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "output/output.h"
#include "chat/recall.h"

/* ---- the stream ---- */

/* Sets the text that is sent in a silence. The opening of a stream may be longer than http's limit:
 * it repeats parts of the request. */
static void set_keepalive(struct call *call, struct str text)
{
    if (text.len <= HTTP_KEEPALIVE_BYTES_MAX)
        http_reply_keepalive(call->reply, call->api->options.keepalive_ms, text);
}

/* Sets the keep-alive text. An event made by a dialect opens the stream the first time; that one is
 * sent at once. */
static void start_keepalive(struct call *call)
{
    const struct dialect *dialect = api_dialect(call->endpoint);
    struct buf text;

    buf_init(&text, RESPOND_BYTES_MAX);
    if (dialect->keepalive_event) {
        dialect->keepalive_event(&call->answer, &text);
        if (text.err != ERR_OK) /* the opening comes with the first event: it is not a keep-alive */
            goto out;
        (void)http_reply_write(call->reply, buf_text(&text));
        buf_clear(&text);
        dialect->keepalive_event(&call->answer, &text);
    } else {
        buf_append_str(&text, dialect->keepalive);
    }
    if (text.err == ERR_OK)
        set_keepalive(call, buf_text(&text));
out:
    buf_fini(&text);
}

void call_begin_stream(struct call *call)
{
    /* Held while http copies the head, so that a second thread cannot write before it. The first
     * one has exclusive use of the answer, because a sink calls this before touching it. */
    lock_enter(&call->lock);
    if (!call->begun) {
        call->begun = true;
        const char *type = api_dialect(call->endpoint)->stream_type;

        http_reply_hold(call->reply, call->api->options.keepalive_ms);
        if (respond_stream(call->reply, type ? type : "text/event-stream", call->request_id) ==
            HTTP_OK)
            start_keepalive(call);
    }
    lock_leave(&call->lock);
}

void call_show_stream(struct call *call)
{
    if (call->shown || !call->request.stream)
        return;
    call->shown = true;
    http_reply_let_go(call->reply);
}

/* Nothing more can be written: ends the generations and keeps their state. */
static void break_off(struct call *call)
{
    call->broken = true;
    http_reply_abort(call->reply);
    call_cancel(call);
}

void call_flush(struct call *call)
{
    const struct dialect *dialect = api_dialect(call->endpoint);
    struct str data = {call->out.data, call->out.len};

    if (data.len == 0 && call->out.err == ERR_OK)
        return;
    if (dialect->keepalive_changes) /* the old text must not follow these events */
        set_keepalive(call, STR_NONE);
    if (!call->broken &&
        (call->out.err != ERR_OK || http_reply_write(call->reply, data) != HTTP_OK))
        break_off(call);
    buf_clear(&call->out);
    if (dialect->keepalive_changes && !call->broken) {
        dialect->keepalive_event(&call->answer, &call->out);
        if (call->out.err == ERR_OK)
            set_keepalive(call, buf_text(&call->out));
        buf_clear(&call->out);
    }
}

/* ---- events of the text ---- */

static void fail_with(struct call_choice *choice, enum err err, const struct errinfo *info)
{
    struct answer *answer = &choice->call->answer;

    answer->choices[choice->index].finish = ANSWER_FAILED;
    api_error_from(&answer->error, err, info);
}

static bool failed(const struct call_choice *choice)
{
    return choice->call->answer.choices[choice->index].finish == ANSWER_FAILED;
}

/* The answer is complete, whatever the model writes now. */
static bool is_over(const struct call_choice *choice)
{
    return failed(choice) || choice->stop_at_next_call || choice->stop.found >= 0;
}

/* Of the tokens since the last event, `bytes` are content. */
static void keep_logprobs(struct call_choice *choice, size_t bytes)
{
    struct call *call = choice->call;

    if (call->request.sample.logprob && call->request.reasoning_mode != REASONING_RAW &&
        api_dialect(call->endpoint)->content_logprobs)
        answer_keep_logprobs(&call->answer, choice->index, bytes);
}

static void tell(struct call_choice *choice, const struct output_event *event)
{
    struct call *call = choice->call;

    keep_logprobs(choice, event->type == OUTPUT_CONTENT ? event->text.len : 0);
    enum err err = answer_add(&call->answer, choice->index, event);
    if (err != ERR_OK) {
        fail_with(choice, err, NULL);
        return;
    }
    choice->told_now = true;
    choice->thought_now |= event->type == OUTPUT_REASONING;
    choice->gen.calls_tool |= event->type == OUTPUT_CALL_BEGIN;
    if (call->request.stream)
        api_dialect(call->endpoint)->event(&call->answer, choice->index, event, &call->out);
}

/* What follows is the text of a call that cannot be read. */
static void note_unread(struct call_choice *choice, struct str reason)
{
    const struct call *call = choice->call;
    struct answer_choice *answer = &call->answer.choices[choice->index];

    snprintf(answer->unread_call, sizeof(answer->unread_call), STR_FMT, STR_ARG(reason));
    LOG_WARN(call->api->options.log, "api", "tool call cannot be read: sent as text",
             LOG_STR("request", call->request_id), LOG_STR("reason", answer->unread_call));
}

static void tell_content(struct call_choice *choice, struct str text)
{
    if (text.len > 0)
        tell(choice, &(struct output_event){.type = OUTPUT_CONTENT, .text = text});
}

/* Called by the parser of the output. */
static void on_event(const struct output_event *event, void *arg)
{
    struct call_choice *choice = arg;
    struct str text;

    if (is_over(choice))
        return;
    if (event->type == OUTPUT_CONTENT) {
        enum err err = stop_text_push(&choice->stop, event->text, &text);
        if (err != ERR_OK)
            fail_with(choice, err, NULL);
        tell_content(choice, text);
        return;
    }
    tell_content(choice, stop_text_flush(&choice->stop));
    if (event->type == OUTPUT_ERROR)
        note_unread(choice, event->text);
    if (event->type == OUTPUT_CALL_BEGIN && event->call > 0 &&
        !choice->call->request.parallel_calls) {
        /* set at the next call, not at the end of the first: a turn that ends by itself can be
         * recalled */
        choice->stop_at_next_call = true;
        return;
    }
    tell(choice, event);
}

static void push_text(struct call_choice *choice, struct str text)
{
    if (text.len == 0 || is_over(choice))
        return;
    enum err err = output_push(choice->output, text);
    if (err != ERR_OK)
        fail_with(choice, err, NULL);
}

/* ---- sinks ---- */

static void make_output(struct call_choice *choice)
{
    const struct call *call = choice->call;
    struct output_options options = {
        .formats = call->prepared.formats,
        .calls = call->prepared.calls,
        .either = call->prepared.either,
        .reasoning = call->request.reasoning_mode,
        .tools = call->request.conversation.tools,
        .tools_count = call->request.conversation.tools_count,
        .whole_calls = !call->request.stream || call->prepared.grammar == NULL,
        .prompt_tail = call->prepared.opening,
        .continues = call->prepared.text.thought > 0,
        /* a stop text must be noticed when it comes */
        .whole = !call->request.stream && call->request.stops_count == 0,
        .calls_max = ANSWER_CALLS_MAX,
    };

    choice->output = output_create(&options, on_event, choice);
}

/* The prompt's figures are those of the first choice (or the first that started), the generated
 * tokens those of all. */
static void take_usage(struct call *call, const struct gen_usage *usage)
{
    struct gen_usage *told = &call->answer.usage;
    uint32_t generated = told->generated, drafted = told->drafted, accepted = told->accepted;

    *told = *usage;
    told->generated = generated;
    told->drafted = drafted;
    told->accepted = accepted;
    if (call->api->options.drill == DRILL_LIE_USAGE) {
        told->device += told->computed / 2;
        told->computed -= told->computed / 2;
    } else if (call->api->options.drill == DRILL_NO_REASON) {
        told->reason = HEARTH_REASON_NONE;
    }
}

/* The next token of the prompt has this probability. */
static void on_scored(void *arg, const struct sample_pick *pick)
{
    struct call_choice *choice = arg;
    struct answer *answer = &choice->call->answer;
    enum err err = answer_add_logprob(answer, choice->index, pick);

    answer->choices[choice->index].logprobs_prompt++;
    if (err != ERR_OK)
        fail_with(choice, err, NULL);
}

static void on_started(void *arg, const struct gen_usage *usage)
{
    struct call_choice *choice = arg;
    struct call *call = choice->call;

    if (call->request.stream)
        call_begin_stream(call);
    if (choice->index == 0 || !call->answer.begun)
        take_usage(call, usage);
    if (choice->index == 0)
        call->started_ns = clock_mono_ns(call->api->clock);
    if (call->request.score_prompt) /* the first token follows nothing */
        on_scored(choice, &(struct sample_pick){.token = choice->gen.tokens[0], .logprob = NAN});
    if (call->request.stream && !call->answer.begun)
        api_dialect(call->endpoint)->begin(&call->answer, &call->out);
    call->answer.begun = true;
    call_flush(call);
}

static void on_progress(void *arg, const struct gen_usage *usage, uint32_t done)
{
    struct call_choice *choice = arg;
    struct call *call = choice->call;
    const struct dialect *dialect = api_dialect(call->endpoint);

    if (choice->index != 0)
        return;
    take_usage(call, usage);
    if (!call->request.stream || !call->request.progress || !dialect->progress)
        return;
    call->answer.progress_ms =
        (double)(clock_mono_ns(call->api->clock) - call->started_ns) / (double)NS_PER_MS;
    dialect->progress(&call->answer, done, &call->out);
    call_show_stream(call);
    call_flush(call);
}

void call_merge_times(struct gen_times *all, const struct gen_times *one)
{
    if (all->submitted == 0) {
        *all = *one;
        return;
    }
    if (one->first_token && (!all->first_token || one->first_token < all->first_token))
        all->first_token = one->first_token;
    all->ended = MAX(all->ended, one->ended);
}

static void count_token(struct call_choice *choice, const struct gen_token *token)
{
    struct call *call = choice->call;
    struct answer_choice *answer = &call->answer.choices[choice->index];
    enum err err = ERR_OK;

    if (call->request.prefill_only) /* sampled, since the last token is computed separately */
        return;
    answer->generated++;
    call->answer.usage.generated++;
    if (call->request.timings_each)
        call_merge_times(&call->answer.times, &token->times);
    if (token->pick && (call->request.sample.logprob || call->request.sample.logprobs > 0))
        err = answer_add_logprob(&call->answer, choice->index, token->pick);
    if (err == ERR_OK && call->request.return_tokens)
        err = answer_add_token(&call->answer, choice->index, token->token);
    if (err != ERR_OK)
        fail_with(choice, err, NULL);
}

/* Counts the tokens of thoughts, and closes a thought that has used its budget. Tokens without an
 * event (markup, text that is held back) belong to the text after them. Between messages (gpt-oss)
 * a thought cannot be closed, so there this token must have been one of it. */
static void count_thought(struct call_choice *choice)
{
    struct call *call = choice->call;
    struct answer_choice *answer = &call->answer.choices[choice->index];
    const struct prepared *prepared = &call->prepared;
    bool inside = output_in_thought(choice->output);

    choice->unassigned++;
    if (choice->thought_now || inside)
        answer->reasoning_tokens += choice->unassigned;
    if (choice->told_now || inside)
        choice->unassigned = 0;
    if (prepared->formats.reasoning == REASONING_HARMONY)
        inside = choice->thought_now;
    if (!inside || choice->thought_closed || prepared->thought_end.count == 0 ||
        answer->reasoning_tokens < call->request.reasoning_budget)
        return;
    choice->thought_closed = true;
    choice->gen.forced = prepared->thought_end.tokens;
    choice->gen.forced_count = (uint32_t)prepared->thought_end.count;
}

static bool on_token(void *arg, const struct gen_token *token)
{
    struct call_choice *choice = arg;
    struct call *call = choice->call;

    if (call->broken)
        return false;
    call_show_stream(call);
    count_token(choice, token);
    if (call->request.prefill_only)
        return false;
    choice->told_now = choice->thought_now = false;
    push_text(choice, token->text);
    count_thought(choice);
    call_flush(call);
    return !call->broken && !is_over(choice);
}

/* ---- the end of a choice ---- */

static enum answer_finish finish_of(const struct call_choice *choice, enum gen_end end)
{
    bool stopped = choice->stop.found >= 0;

    if (end == GEN_END_ERROR || end == GEN_END_CANCELLED)
        return ANSWER_FAILED;
    if ((end == GEN_END_LENGTH && !stopped) || choice->call->request.prefill_only)
        return ANSWER_LENGTH;
    /* a client must answer calls, even if a stop text follows them */
    if (answer_has_calls(&choice->call->answer.choices[choice->index]))
        return ANSWER_CALLS;
    return stopped ? ANSWER_STOP_TEXT : ANSWER_STOP;
}

/* Ends the text: appends held-back text and lets the parser finish. */
static void finish_text(struct call_choice *choice, const struct gen_result *result)
{
    bool cut = result->end != GEN_END_STOP;

    if (choice->call->request.prefill_only) /* the sampled token may be half a character */
        return;
    push_text(choice, result->tail);
    if (is_over(choice)) {
        keep_logprobs(choice, 0);
        return;
    }
    enum err err = output_finish(choice->output, cut);
    if (err != ERR_OK)
        fail_with(choice, err, NULL);
    if (!failed(choice))
        tell_content(choice, stop_text_flush(&choice->stop));
    keep_logprobs(choice, 0);
}

static void set_finish(struct call_choice *choice, const struct gen_result *result)
{
    struct answer_choice *answer = &choice->call->answer.choices[choice->index];

    if (result->end == GEN_END_ERROR)
        fail_with(choice, result->info.code == ERR_OK ? ERR_ENGINE : result->info.code,
                  &result->info);
    else if (result->end == GEN_END_CANCELLED)
        fail_with(choice, ERR_CANCELLED, NULL);
    if (failed(choice))
        return;
    if (choice->call->request.needs_text && answer->content.len == 0) {
        answer->finish = ANSWER_FAILED;
        api_error_set(&choice->call->answer.error, API_ERROR_INVALID,
                      result->end == GEN_END_LENGTH ? "max_output_tokens" : NULL,
                      "The model wrote no summary of this conversation%s.",
                      result->end == GEN_END_LENGTH ? ": all of max_output_tokens went into "
                                                      "thoughts. Allow it more"
                                                    : ": keep the conversation as it is");
        return;
    }
    answer->finish = finish_of(choice, result->end);
    if (answer->finish == ANSWER_STOP_TEXT)
        answer->stop_text = str_from(choice->call->request.stops[choice->stop.found]);
}

/* Where the tokens of another prompt came from. */
void call_add_usage(struct gen_usage *sum, const struct gen_usage *one)
{
    sum->prompt += one->prompt;
    sum->device += one->device;
    sum->ram += one->ram;
    sum->ssd += one->ssd;
    sum->remote += one->remote;
    sum->computed += one->computed;
    sum->cut += one->cut;
    sum->twice += one->twice;
    sum->stored_bytes += one->stored_bytes;
    sum->compute_s += one->compute_s;
}

static void merge_result(struct call_choice *choice, const struct gen_result *result)
{
    struct call *call = choice->call;

    if (choice->index == 0 && result->usage.prompt + result->usage.cut > 0)
        take_usage(call, &result->usage);
    else if (choice->index % call->request.choices == 0)
        call_add_usage(&call->more_usage, &result->usage);
    call->answer.usage.drafted += result->usage.drafted;
    call->answer.usage.accepted += result->usage.accepted;
    call_merge_times(&call->answer.times, &result->times);
}

/* ---- for the next turn ---- */

static struct recall_message told(const struct answer_choice *answer, struct tool_call *calls)
{
    struct recall_message message = {
        .content = {buf_str(&answer->content), answer->content.len},
        .calls = calls,
        .calls_count = answer->calls_count,
    };

    if (answer->reasoning.len > 0)
        message.reasoning = buf_text(&answer->reasoning);
    for (size_t i = 0; i < answer->calls_count; i++)
        calls[i] = (struct tool_call){
            .id = str_from(answer->calls[i].id),
            .name = str_from(answer->calls[i].name),
            .arguments = {buf_str(&answer->calls[i].arguments), answer->calls[i].arguments.len},
        };
    return message;
}

/* The message must come from exactly these tokens: a turn cut by a stop text or by this sink is not
 * remembered. */
static bool is_recallable(const struct call_choice *choice, const struct gen_result *result)
{
    const struct call *call = choice->call;

    return call->api->options.recall && call->prepared.history_known && !is_over(choice) &&
           result->tokens_count > 0 && !call->request.continue_final &&
           !call->request.prefill_only &&
           (result->end == GEN_END_STOP || result->end == GEN_END_LENGTH);
}

static void remember(struct call_choice *choice, const struct gen_result *result)
{
    const struct call *call = choice->call;
    const struct engine *engine = model_engine(call->model);
    token_id last =
        result->tokens_count > 0 ? result->tokens[result->tokens_count - 1] : TOKEN_NONE;
    struct tool_call calls[ANSWER_CALLS_MAX];
    char end[256];
    struct recall_turn turn = {
        .space = call->prepared.space,
        .history = call->prepared.history,
        .opening = call->prepared.opening,
        .tokens = result->tokens,
        .tokens_count = result->tokens_count,
    };

    turn.message = told(&call->answer.choices[choice->index], calls);
    if (result->end == GEN_END_STOP && engine_token_is_end(engine, last)) {
        size_t len = engine_token_bytes(engine, last, true, end, sizeof(end));

        turn.end = (struct str){end, MIN(len, sizeof(end))};
    }
    if (recall_remember(call->api->options.recall, &turn) != ERR_OK)
        LOG_DEBUG(call->api->options.log, "api", "turn not remembered",
                  LOG_STR("request", call->request_id));
}

/* ---- on the thread that ends calls ---- */

static void write_end(struct call_choice *choice)
{
    struct call *call = choice->call;
    bool whole = call->request.stream && call->answer.begun && !failed(choice);
    bool connected = !call_is_lost(call);

    if (whole)
        api_dialect(call->endpoint)->choice_end(&call->answer, choice->index, &call->out);
    call_flush(call);
    call->delivered = choice->last && whole && connected && !call->broken;
}

/* The client sees the end only after it was counted and remembered: its next request finds both. */
void call_end_choice(struct call_choice *choice)
{
    const struct call_observer *observer = &choice->call->api->options.observer;

    if (observer->generated)
        observer->generated(&choice->result, observer->arg);
    if (choice->recallable)
        remember(choice, &choice->result);
    if (choice->last)
        write_end(choice);
    call_drop(choice->call);
}

/* ---- handing over ---- */

/* Copies what the scheduler lends for this call only. Without memory for the tokens, the turn is
 * not remembered. */
static void keep_result(struct call_choice *choice, const struct gen_result *result)
{
    size_t bytes = result->tokens_count * sizeof(*choice->tokens);

    bool recallable = is_recallable(choice, result);
    if (recallable && bytes > 0)
        choice->tokens = mem_try_alloc(bytes);
    choice->recallable = recallable && choice->tokens;
    if (choice->tokens)
        memcpy(choice->tokens, result->tokens, bytes);
    choice->result = *result;
    choice->result.tokens = choice->tokens;
    choice->result.tail = STR_NONE;
}

static void on_done(void *arg, const struct gen_result *result)
{
    struct call_choice *choice = arg;
    struct call *call = choice->call;

    if (result->end != GEN_END_CANCELLED && result->end != GEN_END_ERROR)
        finish_text(choice, result);
    set_finish(choice, result);
    merge_result(choice, result);
    keep_result(choice, result);
    assert(call->ended < call->choices_count);
    choice->last = ++call->ended == call->choices_count;
    if (choice->last)
        call_add_usage(&call->answer.usage, &call->more_usage);
    call_check(call);
    if (!choice->last) /* `answer` and `out` stay with this thread */
        write_end(choice);
    call_ends_push(call->api->ends, choice);
}

struct gen_sink call_sink(struct call_choice *choice)
{
    if (!choice->output)
        make_output(choice);
    return (struct gen_sink){
        .started = on_started,
        .progress = on_progress,
        .scored = on_scored,
        .token = on_token,
        .done = on_done,
        .arg = choice,
    };
}
