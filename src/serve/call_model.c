/*
 * call_model.c: the model of a call, including waiting for it to load.
 *
 *      worker: call_get_model --READY--> continues
 *                    |
 *                    '--WAITING--> pool's threads: on_progress ..., on_loaded --> queue --> worker
 *
 * No worker waits: a model that takes a minute to load does not delay other calls. Meanwhile a
 * stream that asked for progress gets its head and a comment per percent; any other gets its head
 * and keep-alives once it has been silent for the keep-alive interval (I80). Until the head is sent
 * (call_begin_stream), a failure still gets its own status.
 */
#include "serve/call.h"

#include <stdio.h>

#include "serve/api_impl.h"
#include "base/clock.h"

enum { RETRY_AFTER_S = 5, COMMENT_BYTES = 256 };

/* ---- errors ---- */

/* Clients get the kind of failure; details about files go to the log. */
static void fill_failure(const struct errinfo *info, const char *name, struct api_error *error)
{
    if (info->code == ERR_UNSUPPORTED) /* permanent; the message is about the model, not its file */
        api_error_set(error, API_ERROR_UNSUPPORTED, "model", "The model '%s' cannot be served: %s.",
                      name, info->text);
    else
        api_error_set(error, API_ERROR_UNAVAILABLE, NULL,
                      "The model '%s' cannot be loaded: %s. The server's log says more.", name,
                      err_sentence(info->code));
}

static void fill_error(const struct pool_wait *wait, struct api_error *error)
{
    const char *name = wait->name ? wait->name : "";

    if (!wait->name)
        api_error_set(error, API_ERROR_MODEL, "model", "This server has no models.");
    else if (wait->failed)
        fill_failure(&wait->info, name, error);
    else if (wait->info.code == ERR_BUSY)
        api_error_set(error, API_ERROR_BUSY, NULL,
                      "Too many requests wait for models. Try again later.");
    else if (wait->info.code == ERR_TIMEOUT)
        api_error_set(error, API_ERROR_UNAVAILABLE, NULL,
                      "The model '%s' is still loading. Try again later.", name);
    else /* cancelled, or the server ends */
        api_error_set(error, API_ERROR_UNAVAILABLE, NULL,
                      "Loading the model '%s' was ended. Try again later.", name);
    bool passes = error->kind == API_ERROR_BUSY || error->kind == API_ERROR_UNAVAILABLE;
    error->retry_after_s = passes ? RETRY_AFTER_S : 0;
}

static bool is_known(struct call *call, struct pool *pool, struct api_error *error)
{
    struct str name = call->request.model;

    if (!call->api->options.strict_model || name.len == 0 ||
        pool_find(pool, name, true) != SIZE_MAX)
        return true;
    api_error_set(error, API_ERROR_MODEL, "model",
                  "The model '" STR_FMT "' does not exist. GET /v1/models lists those that do.",
                  (int)MIN(name.len, 128), name.ptr);
    return false;
}

/* ---- while it is loaded; on a thread of the pool ---- */

static void write_comment(struct call *call, float done)
{
    char text[COMMENT_BYTES];
    int len = snprintf(text, sizeof(text), ": loading %.200s %d%%\n\n", call->wait.name,
                       (int)(done * 100));

    (void)http_reply_write(call->reply, (struct str){text, (size_t)len});
    http_reply_let_go(call->reply);
}

static void on_progress(struct pool_wait *wait, float done)
{
    struct call *call = CONTAINER_OF(wait, struct call, wait);
    uint64_t silent_ns = clock_mono_ns(call->api->clock) - call->arrived_ns;

    if (call->endpoint->work != call_generate || !call->request.stream)
        return;
    if (!call->request.progress && silent_ns < call->api->options.keepalive_ms * NS_PER_MS)
        return;
    call_make_answer(call);
    call_begin_stream(call);
    if (call->request.progress)
        write_comment(call, done);
}

static void on_loaded(struct pool_wait *wait)
{
    struct call *call = CONTAINER_OF(wait, struct call, wait);
    struct api_error error = {0};

    call->model = wait->model;
    if (!call->model) {
        fill_error(wait, &error);
        call_fail(call, &error);
        call_drop(call);
    } else if (!call_enqueue(call)) {
        call_refuse(call);
    }
}

enum pool_answer call_get_model(struct call *call, struct api_error *error)
{
    struct api *api = call->api;
    struct pool *pool = api_pool(api, error);

    if (!pool || !is_known(call, pool, error))
        return POOL_ANSWER_REFUSED;
    call->wait.done = on_loaded;
    call->wait.progress = on_progress;
    call->wait.deadline_ns = clock_deadline_ns(clock_real(), api->options.load_ms * NS_PER_MS);
    enum pool_answer answer = pool_acquire(pool, call->request.model, &call->wait);
    if (answer == POOL_ANSWER_READY)
        call->model = call->wait.model;
    else if (answer == POOL_ANSWER_REFUSED)
        fill_error(&call->wait, error);
    return answer;
}
