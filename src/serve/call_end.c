/*
 * call_end.c: the end of a call: the last bytes for the client, a line in the log, the counters.
 *
 * Runs once per call, on the thread that dropped what was pending last: nobody else touches the
 * call any more.
 */
#include "serve/call.h"

#include <stdio.h>

#include "serve/api_impl.h"
#include "admin/feed.h"
#include "admin/monitor.h"
#include "admin/record.h"
#include "serve/log_line.h"
#include "admin/metrics.h"
#include "base/clock.h"
#include "base/log.h"

enum { LINE_BYTES_MAX = 512 };

/* ---- the client ---- */

void call_end_stream(struct call *call, const struct api_error *error)
{
    const struct dialect *dialect = api_dialect(call->endpoint);

    if (error)
        dialect->stream_error(&call->answer, error, &call->out);
    else
        dialect->end(&call->answer, &call->out);
    call_flush(call);
    if (!call->broken)
        (void)http_reply_end(call->reply);
}

static void end_whole(struct call *call)
{
    struct buf body;

    buf_init(&body, RESPOND_BYTES_MAX);
    api_dialect(call->endpoint)->body(&call->answer, &body);
    respond_json(call->reply, 200, call->request_id, &body);
    buf_fini(&body);
}

bool call_stream_begun(struct call *call)
{
    bool begun;

    lock_enter(&call->lock);
    begun = call->begun;
    lock_leave(&call->lock);
    return begun;
}

/* What went wrong, if anything did. */
static const struct api_error *error_of(const struct call *call)
{
    if (call->refused.kind != API_OK)
        return &call->refused;
    return call->answer.error.kind != API_OK ? &call->answer.error : NULL;
}

static void end_generation(struct call *call, const struct api_error *error)
{
    if (call_stream_begun(call))
        call_end_stream(call, error);
    else if (error)
        respond_error(call->reply, api_dialect(call->endpoint), error, call->request_id);
    else
        end_whole(call);
}

/* The server ends before a worker came to it, or the client left. */
static void end_untouched(struct call *call)
{
    struct api_error error = {0};

    api_error_set(&error, API_ERROR_UNAVAILABLE, NULL, "The server is shutting down.");
    error.retry_after_s = 2;
    call_fail(call, &error);
}

/* The client left, or took too little for too long. */
static bool is_lost(struct call *call)
{
    return call->broken || call_is_gone(call);
}

/* ---- the log ---- */

static const char *finish_name(enum answer_finish finish)
{
    static const char *const names[] = {
        [ANSWER_RUNNING] = "cut",   [ANSWER_STOP] = "stop",   [ANSWER_STOP_TEXT] = "stop_text",
        [ANSWER_LENGTH] = "length", [ANSWER_CALLS] = "calls", [ANSWER_FAILED] = "failed",
    };

    return names[finish];
}

static void log_generation(struct call *call)
{
    const struct answer *answer = &call->answer;
    struct answer_timings timings = answer_timings(answer);
    struct buf line;

    buf_init(&line, LINE_BYTES_MAX);
    report_line(&answer->usage, &timings, call->prepared.marks, call->prepared.marks_count, &line);
    /* The number is that of the lines [route] and [cache]; the name is what the client was told. */
    log_text(call->api->options.log, LOG_LEVEL_INFO, "api", "%llu %s %s%s%s %s %u tokens | %s",
             (unsigned long long)call->first_id, call->request_id, call->endpoint->name,
             call->who[0] ? " " : "", call->who,
             is_lost(call) ? "gone" : finish_name(answer->choices[0].finish),
             answer->usage.generated, buf_str(&line));
    buf_fini(&line);
}

static void log_error(struct call *call, const struct api_error *error)
{
    enum log_level level = api_error_status(error->kind) >= 500 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO;

    log_text(call->api->options.log, level, "api", "%s %s%s%s %u: %s", call->request_id,
             call->endpoint->name, call->who[0] ? " " : "", call->who,
             api_error_status(error->kind), error->message);
}

/* What it found, for `hearth replay`. */
static void record(struct call *call)
{
    struct clock *clock = call->api->clock;

    if (call->api->options.record == NULL)
        return;
    record_add(call->api->options.record,
               &(struct record_entry){
                   .at_wall_ns = clock_wall_ns(clock) - (clock_mono_ns(clock) - call->arrived_ns),
                   .model = model_name(call->model),
                   .tenant = call->tenant,
                   .salt = call->request.cache_salt,
                   .tokens = call->prepared.prompt.tokens,
                   .anchor = call->prepared.anchor,
                   .usage = &call->answer.usage,
               });
}

static void count(struct call *call)
{
    struct stats_call stats = {
        .kind = call->outcome,
        .gone = is_lost(call),
        .seconds = (double)(clock_mono_ns(call->api->clock) - call->arrived_ns) / (double)NS_PER_S,
    };

    if (call->choices_count > 0) {
        stats.ttft_s = answer_timings(&call->answer).ttft_ms / 1000.0;
        stats.hit = call->answer.usage.computed < call->answer.usage.prompt;
    }
    stats_count_call(call->api->metrics, &stats);
}

static void tell(struct api *api, const struct recent_call *recent)
{
    struct buf body;
    struct json json;

    buf_init(&body, FEED_EVENT_BYTES_MAX);
    json = json_to(&body);
    recent_write_call(&json, recent);
    if (body.err == ERR_OK)
        feed_publish(api->feed, FEED_REQUEST, (struct str){body.data, body.len});
    buf_fini(&body);
}

/* For /admin: those that had a prompt. */
static void remember(struct call *call)
{
    const struct gen_usage *usage = &call->answer.usage;
    struct clock *clock = call->api->clock;
    struct gen_mark message = {.role = GEN_ROLE_NONE};
    struct recent_call recent = {
        .endpoint = call->endpoint->name,
        .when_s = (double)(clock_wall_ns(clock) / NS_PER_MS) / 1000.0,
        .usage = *usage,
        .ttft_s = answer_timings(&call->answer).ttft_ms / 1000.0,
        .seconds = (double)(clock_mono_ns(clock) - call->arrived_ns) / (double)NS_PER_S,
        .status = is_lost(call) ? RECENT_GONE_STATUS : api_error_status(call->outcome),
    };

    if (usage->first_difference < usage->prompt)
        (void)!report_message_at(call->prepared.marks, call->prepared.marks_count,
                                 usage->first_difference, &message);
    recent.role = message.role;
    recent.message = message.message;
    snprintf(recent.id, sizeof(recent.id), "%s", call->request_id);
    snprintf(recent.model, sizeof(recent.model), "%s", model_name(call->model));
    snprintf(recent.tenant, sizeof(recent.tenant), "%s", call->who);
    monitor_count_call(call->api->monitor, &recent);
    tell(call->api, &recent);
}

void call_end(struct call *call)
{
    const struct api_error *error = error_of(call);

    if (call->choices_count > 0) {
        call->outcome = error ? error->kind : API_OK;
        if (call->answer.begun) /* before that nothing is known */
            remember(call);     /* before the client hears of it: who asks then finds it counted */
        end_generation(call, error);
    } else if (!call->answered) {
        end_untouched(call);
    }
    if (call->answer.begun) {
        log_generation(call);
        record(call);
    }
    error = error_of(call);
    if (error && !is_lost(call))
        log_error(call, error);
    count(call);
}
