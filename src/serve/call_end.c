/*
 * call_end.c: the end of a call: the last bytes for the client, the log line, the counters.
 *
 * Runs once per call, on the thread that dropped the last pending reference: no other thread
 * touches the call any more. For a call with generations that is the thread `api-end`:
 *
 *      engine threads: ended generations --> [ list linked through the choices ] --> api-end
 *
 * The list is never longer than the number of running generations and needs no allocation, so
 * passing a generation on cannot fail. Its lock is held only to link or unlink.
 */
#include "serve/call.h"

#include <assert.h>

#include "serve/api_impl.h"
#include "serve/baseline.h"
#include "serve/stored.h"
#include "serve/log_line.h"
#include "dialect/json_read.h"
#include "base/log.h"
#include "base/mem.h"

enum { LINE_BYTES_MAX = 1024 };

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

void call_end_whole(struct call *call)
{
    struct buf body;

    buf_init(&body, RESPOND_BYTES_MAX);
    api_dialect(call->endpoint)->body(&call->answer, &body);
    call->delivered = !call_is_lost(call);
    respond_json(call->reply, 200, call->request_id, &body);
    buf_fini(&body);
}

/* The error of the call, if any. A call that is cancelled between two of its generations has none
 * that failed, but some that never ran: there is nothing to answer with. */
static struct api_error *error_of(struct call *call)
{
    bool failed = call->refused.kind != API_OK || call->answer.error.kind != API_OK;

    if (!failed && call->ended < call->choices_count)
        api_error_from(&call->refused, ERR_CANCELLED, NULL);
    if (call->refused.kind != API_OK)
        return &call->refused;
    return call->answer.error.kind != API_OK ? &call->answer.error : NULL;
}

static void end_generation(struct call *call, const struct api_error *error)
{
    if (call_stream_begun(call) && !(error && http_reply_take_back(call->reply)))
        call_end_stream(call, error);
    else if (error)
        respond_error(call->reply, api_dialect(call->endpoint), error, call->request_id);
    else {
        if (call->request.embed)
            call_finish_vectors(call);
        call_end_whole(call);
    }
}

/* The server is ending before a worker took the call, or the client disconnected. */
static void end_untouched(struct call *call)
{
    struct api_error error = {0};

    call_set_shutdown(&error);
    call_fail(call, &error);
}

bool call_is_lost(struct call *call)
{
    return !call->delivered && (call->broken || call_is_gone(call));
}

/* ---- the log ---- */

static const char *const finish_names[] = {
    [ANSWER_RUNNING] = "cut",   [ANSWER_STOP] = "stop",   [ANSWER_STOP_TEXT] = "stop_text",
    [ANSWER_LENGTH] = "length", [ANSWER_CALLS] = "calls", [ANSWER_FAILED] = "failed",
};

/* Fields that mean nothing to a server like this one, and change no answer. */
static const char *const accepted[] = {"user",  "metadata", "service_tier", "safety_identifier",
                                       "store", NULL};

/* A misspelt or unknown setting changes nothing: the line says so. */
static void write_ignored(const struct gen_request *request, struct buf *line)
{
    const struct gen_ignored *inner = &request->ignored;
    size_t before = line->len;

    buf_append_str(line, " | ignored: ");
    size_t named =
        json_read_unread(yyjson_doc_get_root(request->body), request->asked, accepted, line);
    if (inner->names[0] != '\0')
        buf_appendf(line, "%s%s", named > 0 ? ", " : "", inner->names);
    if (inner->more > 0)
        buf_appendf(line, "%s%u more inside", line->len > before + 12 ? ", " : "", inner->more);
    if (named == 0 && inner->names[0] == '\0' && inner->more == 0)
        buf_truncate(line, before);
}

static void log_generation(struct call *call)
{
    const struct answer *answer = &call->answer;
    struct answer_timings timings = answer_timings(answer);
    struct buf line;

    buf_init(&line, LINE_BYTES_MAX);
    log_line_write(&answer->usage, &timings, call->prepared.marks, call->prepared.marks_count,
                   &line);
    log_line_write_changes(&call->prepared.changed, &line);
    write_ignored(&call->request, &line);
    /* The number is that of the lines [route] and [cache]; the name was sent to the client. */
    log_text(call->api->options.log, LOG_LEVEL_INFO, "api", "%llu %s %s%s%s %s %u tokens | %s",
             (unsigned long long)call->first_id, call->request_id, call->endpoint->name,
             call->who[0] ? " " : "", call->who,
             call_is_lost(call) ? "gone" : finish_names[answer->choices[0].finish],
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

/* Of each prompt, once nothing of a released call is stored any more. */
static void release_state(struct call *call)
{
    for (size_t i = 0; i < call->choices_count; i += call->request.choices) {
        const struct gen *gen = &call->choices[i].gen;

        if (gen->space != NULL && call->request.cache_release)
            (void)hearth_release(gen->space, gen->tokens, gen->tokens_count, gen->anchor);
        else if (gen->space != NULL && call->request.cache_demote)
            (void)hearth_demote(gen->space, gen->tokens, gen->tokens_count, gen->anchor);
    }
}

void call_end(struct call *call)
{
    const struct call_observer *observer = &call->api->options.observer;
    struct api_error *error = error_of(call);

    call_check(call);
    if (call->choices_count > 0) {
        if (error)
            call_name_shutdown(call, error);
        call->outcome = error ? error->kind : API_OK;
        /* without one nothing is known of the prompt */
        if (call->answer.begun && observer->answering)
            observer->answering(call, observer->arg);
        if (!error)
            stored_keep(call->api->options.stored, call->who, api_dialect(call->endpoint),
                        &call->answer);
        if (!error)
            baseline_keep(call->api->baselines, call->who, call->answer.id, &call->request,
                          &call->prepared, &model_facts(call->model)->fingerprint);
        release_state(call);
        end_generation(call, error);
    } else if (!call->answered) {
        end_untouched(call);
    }
    if (call->answer.begun)
        log_generation(call);
    error = error_of(call);
    if (error && !call_is_lost(call))
        log_error(call, error);
    if (observer->ended)
        observer->ended(call, observer->arg);
}

/* ---- the thread that ends calls ---- */

struct call_ends {
    struct thread thread;
    struct lock lock;
    struct cond changed;
    struct list choices GUARDED_BY(lock); /* by ended_link, first in, first out */
    bool closing GUARDED_BY(lock);
};

/* NULL: closing, and none is left. */
static struct call_choice *next_ended(struct call_ends *ends)
{
    struct list_node *link;

    lock_enter(&ends->lock);
    while ((link = list_pop_front(&ends->choices)) == NULL && !ends->closing)
        cond_wait(&ends->changed, &ends->lock);
    lock_leave(&ends->lock);
    return LIST_ENTRY(link, struct call_choice, ended_link);
}

static void end_calls(void *arg)
{
    struct call_choice *choice;

    while ((choice = next_ended(arg)) != NULL)
        call_end_choice(choice);
}

void call_ends_push(struct call_ends *ends, struct call_choice *choice)
{
    assert(!list_node_linked(&choice->ended_link));
    lock_enter(&ends->lock);
    assert(!ends->closing);
    list_push_back(&ends->choices, &choice->ended_link);
    cond_signal(&ends->changed);
    lock_leave(&ends->lock);
}

enum err call_ends_create(struct call_ends **out, struct errinfo *info)
{
    struct call_ends *ends = mem_alloc(sizeof(*ends));

    lock_init(&ends->lock, "api-end", LOCK_RANK_QUEUE);
    cond_init(&ends->changed);
    list_init(&ends->choices);
    enum err err = thread_start(&ends->thread, "api-end", end_calls, ends, info);
    *out = ends;
    if (err != ERR_OK)
        call_ends_destroy(out);
    return err;
}

void call_ends_destroy(struct call_ends **out)
{
    struct call_ends *ends = *out;

    if (!ends)
        return;
    lock_enter(&ends->lock);
    ends->closing = true;
    cond_signal(&ends->changed);
    lock_leave(&ends->lock);
    thread_join(&ends->thread);
    assert(list_empty(&ends->choices));
    cond_fini(&ends->changed);
    lock_fini(&ends->lock);
    mem_free(ends);
    *out = NULL;
}
