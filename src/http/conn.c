/*
 * conn.c: the life of a connection.
 *
 *               feed                    headers complete           feed: request complete
 *      IDLE ------------> HEAD ------------------------> BODY ------------------------> BUSY
 *       ^                  |  request without a body                                     |
 *       |                  '-------------------------------------------------------------|
 *       |                                                                                |
 *       '--------------------- wrote: the answer is with the system, keep-alive ---------|
 *                                                                                        |
 *      HEAD, BODY --refuse--> LINGER <-------- wrote, no keep-alive ---------------------'
 *      any --die--> DEAD
 *
 * BUSY    a reply, or an answer of this layer, is not fully written yet. Bytes that arrive are kept
 *         in `ahead` and parsed afterwards.
 * LINGER  nothing is parsed any more. Once everything is written, the sending side is shut down and
 *         input is discarded until the client closes or a deadline passes: a plain close would make
 *         the client's system discard our answer.
 * DEAD    the owner closes and destroys the connection. The reply is detached, and on_close was
 *         called if it was due.
 *
 * The phases before BUSY are those that read a request: `phase < PHASE_BUSY` relies on this order.
 *
 * An EOF while an answer is being produced means that the client is gone. An EOF after a request
 * whose answer is already complete only ends the connection: the rest is written, and requests in
 * `ahead` are answered as long as their handlers do so at once.
 */
#include "http/conn.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "http/answer.h"
#include "http/parse.h"
#include "http/reply_impl.h"
#include "http/problem.h"

enum { PEER_BYTES = 64 };

enum phase { PHASE_IDLE, PHASE_HEAD, PHASE_BODY, PHASE_BUSY, PHASE_LINGER, PHASE_DEAD };

struct http_conn {
    struct http_shared *shared;
    void *owner;
    struct http_parser *parser;
    char peer[PEER_BYTES];

    enum phase phase;
    bool fresh;        /* no complete request so far */
    bool eof;          /* the client will send nothing more */
    bool closing;      /* no further request after this one */
    bool reset;        /* DEAD: close so that the client sees a failure */
    bool dispatched;   /* the handler was called; its answer has not ended */
    uint64_t since_ns; /* start of the phase; for HEAD and BODY, of the request */
    /* start of BODY, or the last time that its rate was checked; and the bytes received by then */
    uint64_t body_ns, body_bytes;
    /* last time the client took a byte, or there was none to take */
    uint64_t progress_ns;
    uint64_t written_ns; /* last write into the stream; before it, the request */
    uint64_t keepalive_ns;
    size_t queued;      /* at the last tick */
    uint64_t body_held; /* our share of shared->bodies_bytes: until the answer is written */

    struct http_reply *reply;
    struct buf ahead;
    struct list output; /* of struct http_chunk */
    size_t own_chunks;  /* chunks at the front of `output` that belong to no reply */
};

static const struct http_limits *limits_of(const struct http_conn *conn)
{
    return &conn->shared->options.limits;
}

static uint64_t now_of(const struct http_conn *conn)
{
    return clock_mono_ns(conn->shared->options.clock);
}

static void count(struct http_conn *conn, enum http_stat stat, size_t label)
{
    metric_add(conn->shared->stats, stat, label, 1);
}

static void set_phase(struct http_conn *conn, enum phase phase)
{
    assert(conn->phase != PHASE_DEAD);
    conn->phase = phase;
    conn->since_ns = now_of(conn);
    conn->progress_ns = conn->since_ns;
}

/* ---- the end ---- */

static void detach_reply(struct http_conn *conn)
{
    struct http_reply *reply = conn->reply;

    if (reply == NULL)
        return;
    conn->reply = NULL;
    metric_add(conn->shared->stats, HTTP_STAT_ACTIVE, 0, -1);
    if (http_reply_detach(reply))
        count(conn, HTTP_STAT_DISCONNECTS, 0);
}

void http_conn_ask_room(struct http_shared *shared)
{
    const struct http_options *options = &shared->options;

    shared->bodies_room = options->limits.bodies_bytes_max;
    if (options->bodies_room != NULL)
        shared->bodies_room = MIN(shared->bodies_room,
                                  options->bodies_room(shared->bodies_bytes, options->bodies_arg));
}

static void hold_body(struct http_conn *conn, uint64_t bytes)
{
    if (bytes == conn->body_held)
        return;
    conn->shared->bodies_bytes += bytes - conn->body_held;
    conn->body_held = bytes;
    http_conn_ask_room(conn->shared);
}

static void die(struct http_conn *conn)
{
    if (conn->phase == PHASE_DEAD)
        return;
    conn->phase = PHASE_DEAD;
    detach_reply(conn);
    hold_body(conn, 0);
}

static void time_out(struct http_conn *conn, enum http_timeout kind)
{
    count(conn, HTTP_STAT_TIMEOUTS, kind);
    die(conn);
}

/* ---- answers of this layer ---- */

/* With a NULL chunk (out of memory) there is no answer, and the connection ends. */
static void queue_own(struct http_conn *conn, struct http_chunk *chunk)
{
    if (chunk == NULL) {
        die(conn);
        return;
    }
    assert(conn->reply == NULL);
    list_push_back(&conn->output, &chunk->node);
    conn->own_chunks++;
}

static void answer_problem(struct http_conn *conn, enum http_problem problem,
                           const struct http_request *request)
{
    count(conn, HTTP_STAT_PROBLEMS, problem);
    LOG_DEBUG(conn->shared->options.log, "http", "refused",
              LOG_STR("problem", http_problem_name(problem)), LOG_STR("peer", conn->peer));
    queue_own(conn, http_answer_problem(conn->shared, problem, request, !conn->closing));
}

/* Answers input that is not a valid request; the connection ends after it. Its body is freed now:
 * the client has seconds to read the answer. */
static void refuse(struct http_conn *conn, enum http_problem problem)
{
    conn->closing = true;
    http_parser_drop_body(conn->parser);
    hold_body(conn, 0);
    set_phase(conn, PHASE_LINGER);
    answer_problem(conn, problem, http_parser_known(conn->parser));
}

void http_conn_refuse(struct http_conn *conn)
{
    refuse(conn, HTTP_PROBLEM_BUSY);
}

/* ---- a request ---- */

static enum http_problem check_request(struct http_conn *conn, struct http_request *request)
{
    const struct http_shared *shared = conn->shared;
    const struct http_options *options = &shared->options;
    enum http_match match = http_route_find(shared->routes, shared->routes_count, request);

    if (shared->check_host && !http_host_allowed(request->host, options->allowed_hosts) &&
        (match != HTTP_MATCH_FOUND || options->any_host == NULL || !options->any_host(request)))
        return HTTP_PROBLEM_HOST;
    switch (match) {
    case HTTP_MATCH_NO_PATH:
        return str_eq(request->path, STR("*")) ? HTTP_PROBLEM_NONE : HTTP_PROBLEM_NO_PATH;
    case HTTP_MATCH_NO_METHOD:
        return request->method == HTTP_METHOD_OPTIONS ? HTTP_PROBLEM_NONE : HTTP_PROBLEM_NO_METHOD;
    default:
        return HTTP_PROBLEM_NONE;
    }
}

/* Called before a body is read. Without a key, no more is received than a head may have. */
static enum http_problem on_head(struct http_request *request, struct http_body_plan *plan,
                                 void *arg)
{
    struct http_conn *conn = arg;
    const struct http_limits *limits = limits_of(conn);
    const struct http_route *route;
    enum http_problem problem = check_request(conn, request);

    if (problem != HTTP_PROBLEM_NONE)
        return problem;
    route = request->route;
    if (conn->shared->options.check != NULL)
        problem = conn->shared->options.check(request);
    bool has_use =
        route != NULL && request->method != HTTP_METHOD_GET && request->method != HTTP_METHOD_HEAD;
    plan->max = MIN(has_use ? plan->max : limits->head_bytes_max, limits->bodies_bytes_max);
    if (problem == HTTP_PROBLEM_NONE && plan->length != UINT64_MAX && plan->length > plan->max)
        problem = HTTP_PROBLEM_BODY;
    if (problem == HTTP_PROBLEM_NONE && plan->expects)
        queue_own(conn,
                  http_chunk_create(STR("HTTP/1.1 100 Continue\r\n\r\n"), STR_NONE, STR_NONE));
    return problem;
}

static void call_handler(struct http_conn *conn, struct http_request *request)
{
    const struct http_limits *limits = limits_of(conn);

    conn->reply = http_reply_create(
        conn->shared->mailbox, &(struct http_reply_options){
                                   .owner = conn->owner,
                                   .method = request->method,
                                   .version_minor = request->version_minor,
                                   .keep_alive = !conn->closing,
                                   .cors_origin = http_answer_origin(conn->shared, request),
                                   .cors_checked = conn->shared->options.cors_origins.count > 0,
                                   .answer_bytes_max = limits->answer_bytes_max,
                                   .stream_bytes_max = limits->stream_bytes_max,
                               });
    conn->dispatched = true;
    count(conn, HTTP_STAT_REQUESTS, 0);
    metric_add(conn->shared->stats, HTTP_STAT_ACTIVE, 0, 1);
    struct http_reply *handle = conn->reply;
    request->route->handler(request, handle, request->route->arg);
    if (request->body_owner != NULL)
        hold_body(conn, 0); /* not taken; otherwise it is in memory until the answer ends */
    http_parser_drop_body(conn->parser);
    http_reply_release(&handle);
    http_conn_deliver(conn);
    if (conn->eof && conn->dispatched)
        die(conn);
}

static void dispatch(struct http_conn *conn)
{
    struct http_request *request = http_parser_request(conn->parser);

    request->peer = str_from(conn->peer);
    request->arrived_ns = conn->since_ns;
    set_phase(conn, PHASE_BUSY);
    conn->written_ns = conn->since_ns;
    conn->fresh = false;
    if (!http_parser_keep_alive(conn->parser) || conn->shared->draining)
        conn->closing = true;
    enum http_problem problem = check_request(conn, request);
    if (problem != HTTP_PROBLEM_NONE)
        answer_problem(conn, problem, request);
    else if (request->route == NULL)
        queue_own(conn, http_answer_options(conn->shared, request, !conn->closing));
    else
        call_handler(conn, request);
}

/* ---- input ---- */

static void keep_ahead(struct http_conn *conn, struct str bytes)
{
    if (bytes.len > 0 && buf_append(&conn->ahead, bytes.ptr, bytes.len) != ERR_OK)
        die(conn);
}

/* Small bodies are received up to twice the limit: otherwise a few large ones that never end would
 * keep out every other client. */
static bool is_without_room(const struct http_conn *conn)
{
    const struct http_limits *limits = limits_of(conn);
    const struct http_shared *shared = conn->shared;

    if (shared->bodies_bytes / 2 > limits->bodies_bytes_max)
        return conn->body_held > limits->head_bytes_max;
    return shared->bodies_bytes > shared->bodies_room && conn->body_held > limits->body_bytes_small;
}

/* Called after part of a request arrived. */
static void update_progress(struct http_conn *conn)
{
    hold_body(conn, http_parser_body_bytes(conn->parser));
    if (is_without_room(conn)) {
        refuse(conn, HTTP_PROBLEM_BUSY);
        return;
    }
    if (conn->phase == PHASE_HEAD && http_parser_in_body(conn->parser)) {
        conn->phase = PHASE_BODY;
        conn->body_ns = now_of(conn);
        conn->body_bytes = 0;
    }
}

static void parse(struct http_conn *conn, struct str bytes)
{
    if (bytes.len == 0)
        return;
    if (conn->phase == PHASE_IDLE)
        set_phase(conn, PHASE_HEAD);
    enum http_parse result = http_parser_feed(conn->parser, &bytes);
    if (conn->phase == PHASE_DEAD)
        return;
    if (result == HTTP_PARSE_FAILED) {
        refuse(conn, http_parser_problem(conn->parser));
        return;
    }
    update_progress(conn);
    if (result == HTTP_PARSE_MORE || conn->phase == PHASE_LINGER)
        return;
    dispatch(conn);
    if (conn->phase == PHASE_BUSY)
        keep_ahead(conn, bytes);
}

void http_conn_feed(struct http_conn *conn, struct str bytes)
{
    metric_add(conn->shared->stats, HTTP_STAT_BYTES, HTTP_DIRECTION_IN, (double)bytes.len);
    if (conn->phase == PHASE_BUSY)
        keep_ahead(conn, bytes);
    else if (conn->phase < PHASE_BUSY)
        parse(conn, bytes);
}

void http_conn_eof(struct http_conn *conn)
{
    conn->eof = true;
    if (conn->phase == PHASE_DEAD)
        return;
    if (conn->phase < PHASE_BUSY || conn->dispatched || list_empty(&conn->output))
        die(conn);
}

void http_conn_break(struct http_conn *conn)
{
    die(conn);
}

/* ---- output ---- */

/* The answer was handed to the system. */
static void finish_request(struct http_conn *conn)
{
    detach_reply(conn);
    hold_body(conn, 0);
    if (conn->closing) {
        if (conn->eof)
            die(conn);
        else
            set_phase(conn, PHASE_LINGER);
        return;
    }
    http_parser_reset(conn->parser);
    set_phase(conn, PHASE_IDLE);
    struct buf ahead = conn->ahead;
    buf_init(&conn->ahead, limits_of(conn)->ahead_bytes_max);
    parse(conn, (struct str){ahead.data, ahead.len});
    buf_fini(&ahead);
    if (conn->eof && conn->phase < PHASE_BUSY)
        die(conn);
}

static void after_output(struct http_conn *conn)
{
    if (!list_empty(&conn->output) || conn->dispatched)
        return;
    if (conn->phase == PHASE_BUSY)
        finish_request(conn);
    else if (conn->phase == PHASE_LINGER && conn->eof)
        die(conn);
}

static void end_reply(struct http_conn *conn, const struct reply_update *update)
{
    conn->dispatched = false;
    conn->keepalive_ns = 0;
    if (!update->keep_alive)
        conn->closing = true;
    after_output(conn);
}

static void collect(struct http_conn *conn, struct reply_update *update)
{
    size_t before = conn->output.count;

    if (list_empty(&conn->output))
        conn->progress_ns = now_of(conn); /* until now there was nothing to take */
    http_reply_collect(conn->reply, &conn->output, update);
    if (conn->output.count > before)
        conn->written_ns = now_of(conn);
    conn->keepalive_ns = update->keepalive_ns;
}

void http_conn_deliver(struct http_conn *conn)
{
    struct reply_update update;

    if (conn->phase != PHASE_BUSY || !conn->dispatched)
        return;
    collect(conn, &update);
    if (update.abandoned) {
        detach_reply(conn);
        conn->dispatched = false;
        answer_problem(conn, HTTP_PROBLEM_INTERNAL, http_parser_request(conn->parser));
    } else if (update.aborted) {
        conn->reset = update.to_close;
        die(conn);
    } else if (update.ended) {
        end_reply(conn, &update);
    }
}

const struct list *http_conn_output(const struct http_conn *conn)
{
    return &conn->output;
}

/* Frees the first chunk; returns how many of its bytes belong to a reply. */
static size_t pop_written(struct http_conn *conn, size_t *bytes)
{
    struct http_chunk *chunk = LIST_ENTRY(list_first(&conn->output), struct http_chunk, node);
    size_t len = chunk->len;
    bool own = conn->own_chunks > 0;

    list_remove(&conn->output, &chunk->node);
    mem_free(chunk);
    *bytes += len;
    conn->own_chunks -= own;
    return own ? 0 : len;
}

void http_conn_wrote(struct http_conn *conn, size_t chunks)
{
    size_t bytes = 0, of_reply = 0;

    assert(chunks <= conn->output.count);
    while (chunks-- > 0)
        of_reply += pop_written(conn, &bytes);
    metric_add(conn->shared->stats, HTTP_STAT_BYTES, HTTP_DIRECTION_OUT, (double)bytes);
    conn->progress_ns = now_of(conn);
    if (conn->reply != NULL)
        http_reply_written(conn->reply, of_reply);
    after_output(conn);
}

enum http_action http_conn_next_action(const struct http_conn *conn)
{
    if (conn->phase == PHASE_DEAD)
        return conn->reset ? HTTP_ACTION_RESET : HTTP_ACTION_CLOSE;
    if (conn->phase == PHASE_LINGER && list_empty(&conn->output))
        return HTTP_ACTION_SHUTDOWN;
    return HTTP_ACTION_NONE;
}

/* ---- time ---- */

/* `since_ns` may be later: the clock is read again in between. */
static bool passed(uint64_t now_ns, uint64_t since_ns, uint64_t ns)
{
    return now_ns >= since_ns && now_ns - since_ns >= ns;
}

/* Checks the rate of each interval. The bytes of earlier ones do not count: after a fast beginning
 * a body could stop for hours. */
static bool body_is_slow(struct http_conn *conn, uint64_t now)
{
    const struct http_limits *limits = limits_of(conn);
    uint64_t bytes = http_parser_body_bytes(conn->parser);

    if (!passed(now, conn->body_ns, NS_PER_MS * limits->body_ms))
        return false;
    if ((bytes - conn->body_bytes) * 1000 < (uint64_t)limits->body_rate_min * limits->body_ms)
        return true;
    conn->body_ns = now;
    conn->body_bytes = bytes;
    return false;
}

static void tick_input(struct http_conn *conn, uint64_t now)
{
    const struct http_limits *limits = limits_of(conn);

    if (conn->phase == PHASE_IDLE &&
        passed(now, conn->since_ns,
               NS_PER_MS * (conn->fresh ? limits->head_ms : limits->idle_ms))) {
        time_out(conn, conn->fresh ? HTTP_TIMEOUT_HEAD : HTTP_TIMEOUT_IDLE);
    } else if (conn->phase == PHASE_HEAD &&
               passed(now, conn->since_ns, NS_PER_MS * limits->head_ms)) {
        count(conn, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_HEAD);
        refuse(conn, HTTP_PROBLEM_SLOW);
    } else if (conn->phase == PHASE_BODY && is_without_room(conn)) {
        refuse(conn, HTTP_PROBLEM_BUSY);
    } else if (conn->phase == PHASE_BODY && body_is_slow(conn, now)) {
        count(conn, HTTP_STAT_TIMEOUTS, HTTP_TIMEOUT_BODY);
        refuse(conn, HTTP_PROBLEM_SLOW);
    }
}

static void tick_output(struct http_conn *conn, uint64_t now, size_t queued)
{
    if (queued != conn->queued)
        conn->progress_ns = now;
    conn->queued = queued;
    if (!list_empty(&conn->output) &&
        passed(now, conn->progress_ns, NS_PER_MS * limits_of(conn)->write_ms))
        time_out(conn, HTTP_TIMEOUT_WRITE);
    else if (conn->phase == PHASE_LINGER && list_empty(&conn->output) &&
             passed(now, conn->progress_ns, NS_PER_MS * limits_of(conn)->linger_ms))
        die(conn);
}

/* keeps I80 */
static void tick_keepalive(struct http_conn *conn, uint64_t now)
{
    if (conn->keepalive_ns == 0 || !passed(now, conn->written_ns, conn->keepalive_ns))
        return;
    http_reply_send_keepalive(conn->reply);
    http_conn_deliver(conn);
}

void http_conn_tick(struct http_conn *conn, size_t queued)
{
    uint64_t now = now_of(conn);

    if (conn->phase < PHASE_BUSY)
        tick_input(conn, now);
    if (conn->phase != PHASE_DEAD)
        tick_output(conn, now, queued);
    if (conn->phase == PHASE_BUSY)
        tick_keepalive(conn, now);
}

void http_conn_drain(struct http_conn *conn)
{
    conn->closing = true;
    if (conn->phase == PHASE_IDLE)
        die(conn);
}

/* ---- create and destroy ---- */

struct http_conn *http_conn_create(struct http_shared *shared, struct str peer, void *owner)
{
    struct http_conn *conn = mem_alloc(sizeof(*conn));

    conn->shared = shared;
    conn->owner = owner;
    conn->fresh = true;
    conn->parser = http_parser_create(&shared->options.limits, on_head, conn);
    snprintf(conn->peer, sizeof(conn->peer), STR_FMT, STR_ARG(peer));
    buf_init(&conn->ahead, shared->options.limits.ahead_bytes_max);
    list_init(&conn->output);
    set_phase(conn, PHASE_IDLE);
    http_conn_ask_room(shared);
    metric_add(shared->stats, HTTP_STAT_CONNECTIONS, 0, 1);
    return conn;
}

void http_conn_destroy(struct http_conn **conn)
{
    struct http_conn *old = *conn;

    if (old == NULL)
        return;
    die(old);
    metric_add(old->shared->stats, HTTP_STAT_CONNECTIONS, 0, -1);
    http_chunk_free_all(&old->output);
    buf_fini(&old->ahead);
    http_parser_destroy(&old->parser);
    mem_free(old);
    *conn = NULL;
}
