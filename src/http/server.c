/*
 * server.c: libuv around http_conn. Everything below runs on the loop thread, except the functions
 * of server.h, which set a flag under a lock and wake the loop.
 *
 *      uv handle -> struct socket -> struct http_conn
 *
 * After each event of a socket, pump() starts a write if there is something to write and no write
 * in progress, and performs the connection's next action. A socket is destroyed in libuv's close
 * callback: until then a write may use the connection's chunks.
 *
 * With TLS, bytes pass through a session (base/tls.h) in both directions. Chunks are sealed only when
 * nothing else is being written, so that a slow client holds no more than one write in memory.
 *
 * One timer checks all connections every tick; it is stopped while there are none. A thousand
 * connections cost a thousand comparisons, ten times a second.
 */
#include "http/server.h"

#include <assert.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/tls.h"
#include "http/conn.h"
#include "http/listen.h"
#include "http/reply_impl.h"
#include "http/problem.h"

/* docs/http.md has them in a table */
#define LIMIT_DEFAULTS(X)               \
    X(connections_max, 1024)            \
    X(connections_per_address_max, 256) \
    X(headers_max, 100)                 \
    X(target_bytes_max, 8 << 10)        \
    X(head_bytes_max, 64 << 10)         \
    X(body_bytes_max, 64 << 20)         \
    X(bodies_bytes_max, 512 << 20)      \
    X(body_bytes_small, 1 << 20)        \
    X(ahead_bytes_max, 64 << 10)        \
    X(answer_bytes_max, 256 << 20)      \
    X(stream_bytes_max, 4 << 20)        \
    X(head_ms, 10 * 1000)               \
    X(body_ms, 30 * 1000)               \
    X(body_rate_min, 1024)              \
    X(idle_ms, 60 * 1000)               \
    X(write_ms, 30 * 1000)              \
    X(linger_ms, 2 * 1000)

void http_limits_complete(struct http_limits *limits)
{
#define X(field, value)     \
    if (limits->field == 0) \
        limits->field = (value);
    LIMIT_DEFAULTS(X)
#undef X
}

enum {
    READ_BYTES = 64 * 1024,
    WRITE_CHUNKS = 32, /* per write */
    REFUSED_MAX = 64,  /* connections over the limit that get a 503; further ones are just closed */
    PENDING_MAX = 1024, /* replies handled per wake-up */
    PEER_IDLE_S = 60,   /* before the system probes a silent peer */
    TICK_MS = 100,
    ADDRESS_BYTES = 64,
    TLS_PIECE_BYTES = 16 * 1024,      /* the most that fits into one record */
    SEAL_BYTES = 4 * TLS_PIECE_BYTES, /* sealed per write */
    SEALED_BYTES_MAX = 2 * SEAL_BYTES,
};

struct http_server {
    struct http_shared shared;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    uv_tcp_t tcp;
    uv_pipe_t local;
    struct list sockets;
    struct thread thread;
    uint16_t port;
    bool has_loop, has_tcp, has_local, stopped;
    char read_buf[READ_BYTES];

    struct lock lock;
    struct cond changed;
    bool drain_asked GUARDED_BY(lock), stop_asked GUARDED_BY(lock);
    bool drained GUARDED_BY(lock);    /* draining, and all connections are closed */
    struct tls *tls GUARDED_BY(lock); /* of new connections; NULL: plain */
};

struct socket {
    struct http_server *server;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    bool is_tcp, closing, shut;
    struct http_conn *conn;
    struct list_node node;
    char address[ADDRESS_BYTES];
    uv_write_t write;
    bool busy;      /* a write is in progress */
    size_t writing; /* chunks that are written completely by then */
    uv_shutdown_t shutdown;
    struct tls_session *tls; /* NULL: plain */
    bool tls_began;          /* bytes have come */
    size_t sealed_first;     /* bytes of the connection's first chunk that are sealed */
    struct buf sealed;       /* bytes of TLS that are being written */
};

static void pump(struct socket *socket);
static void on_tick(uv_timer_t *timer);

/* ---- the end of a socket ---- */

static void notify_if_drained(struct http_server *server)
{
    if (!server->shared.draining || !list_empty(&server->sockets))
        return;
    lock_enter(&server->lock);
    server->drained = true;
    cond_broadcast(&server->changed);
    lock_leave(&server->lock);
}

static void on_closed(uv_handle_t *handle)
{
    struct socket *socket = handle->data;
    struct http_server *server = socket->server;

    http_conn_destroy(&socket->conn);
    tls_session_destroy(&socket->tls);
    buf_fini(&socket->sealed);
    list_remove(&server->sockets, &socket->node);
    mem_free(socket);
    if (list_empty(&server->sockets) && !server->stopped)
        uv_timer_stop(&server->timer);
    notify_if_drained(server);
}

/* Writes an alert, if the system takes it at once: the client learns why, or that this is the
 * end. */
static void say_goodbye(struct socket *socket)
{
    struct buf last;

    tls_session_end(socket->tls);
    buf_init(&last, SEALED_BYTES_MAX);
    if (!socket->busy && !socket->shut && tls_session_take(socket->tls, &last) == ERR_OK &&
        last.len > 0)
        (void)uv_try_write(&socket->uv.stream, &(uv_buf_t){.base = last.data, .len = last.len}, 1);
    buf_fini(&last);
}

static void close_socket(struct socket *socket, bool reset)
{
    if (socket->closing)
        return;
    socket->closing = true;
    if (socket->tls != NULL && !reset)
        say_goodbye(socket);
    /* libuv refuses a reset during a shutdown, and local sockets have no reset. */
    if (reset && socket->is_tcp && uv_tcp_close_reset(&socket->uv.tcp, on_closed) == 0)
        return;
    uv_close(&socket->uv.handle, on_closed);
}

/* ---- output ---- */

static void on_written(uv_write_t *write, int status)
{
    struct socket *socket = write->data;
    size_t chunks = socket->writing;

    socket->busy = false;
    buf_fini(&socket->sealed);
    if (socket->closing)
        return;
    if (status != 0)
        http_conn_break(socket->conn);
    else
        http_conn_wrote(socket->conn, chunks);
    pump(socket);
}

static unsigned fill_bufs(const struct socket *socket, uv_buf_t bufs[WRITE_CHUNKS])
{
    unsigned count = 0;

    LIST_FOREACH (struct http_chunk, chunk, http_conn_output(socket->conn), node) {
        if (count == WRITE_CHUNKS)
            break;
        bufs[count++] = (uv_buf_t){.base = chunk->data, .len = chunk->len};
    }
    return count;
}

/* Skips written bytes: returns the index of the first buffer not fully written, and trims it. */
static unsigned skip_bufs(uv_buf_t *bufs, unsigned count, size_t written)
{
    unsigned first = 0;

    while (first < count && written >= bufs[first].len)
        written -= bufs[first++].len;
    if (first < count) {
        bufs[first].base += written;
        bufs[first].len -= written;
    }
    return first;
}

/* libuv writes the rest, after which `chunks` are written completely. */
static void write_later(struct socket *socket, const uv_buf_t *bufs, unsigned count, size_t chunks)
{
    socket->write.data = socket;
    socket->writing = chunks;
    socket->busy = uv_write(&socket->write, &socket->uv.stream, bufs, count, on_written) == 0;
    if (!socket->busy)
        http_conn_break(socket->conn);
}

/* Writes as much at once as the system takes: the connection must see the end of an answer before
 * the client can send its next request. libuv writes the rest. */
static void start_write(struct socket *socket)
{
    uv_buf_t bufs[WRITE_CHUNKS];
    unsigned count = fill_bufs(socket, bufs);
    int written = uv_try_write(&socket->uv.stream, bufs, count);
    unsigned first = skip_bufs(bufs, count, written > 0 ? (size_t)written : 0);

    if (written < 0 && written != UV_EAGAIN) {
        http_conn_break(socket->conn);
        return;
    }
    if (written > 0)
        http_conn_wrote(socket->conn, first);
    if (first == count)
        return;
    write_later(socket, bufs + first, count - first, count - first);
}

/* ---- output with TLS ---- */

/* Seals chunks of the connection, up to a limit, after what the session has to say. Returns how
 * many are sealed completely; -1: the session or the memory is at its end. */
static int seal_output(struct socket *socket)
{
    bool open = tls_session_state(socket->tls) != TLS_STATE_HANDSHAKE;
    int chunks = 0;

    if (tls_session_take(socket->tls, &socket->sealed) != ERR_OK)
        return -1;
    LIST_FOREACH (struct http_chunk, chunk, http_conn_output(socket->conn), node) {
        while (open && socket->sealed_first < chunk->len && socket->sealed.len < SEAL_BYTES) {
            size_t len = MIN(chunk->len - socket->sealed_first, (size_t)TLS_PIECE_BYTES);
            struct str piece = {chunk->data + socket->sealed_first, len};
            if (!tls_session_seal(socket->tls, piece) ||
                tls_session_take(socket->tls, &socket->sealed) != ERR_OK)
                return -1;
            socket->sealed_first += len;
        }
        if (!open || socket->sealed_first < chunk->len)
            break;
        socket->sealed_first = 0;
        chunks++;
    }
    return chunks;
}

/* As start_write. The connection keeps a chunk until the last byte of it is with the system. */
static void start_write_sealed(struct socket *socket)
{
    buf_init(&socket->sealed, SEALED_BYTES_MAX);
    int chunks = seal_output(socket);
    uv_buf_t buf = {.base = socket->sealed.data, .len = socket->sealed.len};
    int written = chunks >= 0 && buf.len > 0 ? uv_try_write(&socket->uv.stream, &buf, 1) : 0;

    if (chunks < 0 || (written < 0 && written != UV_EAGAIN)) {
        buf_fini(&socket->sealed);
        http_conn_break(socket->conn);
        return;
    }
    if (skip_bufs(&buf, 1, written > 0 ? (size_t)written : 0) == 0 && buf.len > 0) {
        write_later(socket, &buf, 1, (size_t)chunks);
        return;
    }
    buf_fini(&socket->sealed);
    http_conn_wrote(socket->conn, (size_t)chunks);
}

static bool has_output(const struct socket *socket)
{
    bool chunks = !list_empty(http_conn_output(socket->conn));

    if (socket->tls == NULL)
        return chunks;
    return tls_session_pending(socket->tls) > 0 ||
           (chunks && tls_session_state(socket->tls) != TLS_STATE_HANDSHAKE);
}

static void on_shut(uv_shutdown_t *shutdown, int status)
{
    (void)shutdown;
    (void)status; /* reads or the linger deadline notice a failure */
}

static void shut_socket(struct socket *socket)
{
    if (socket->shut || socket->busy)
        return; /* pump comes again when it is written */
    if (socket->tls != NULL) {
        tls_session_end(socket->tls);
        start_write_sealed(socket);
    }
    socket->shut = true;
    if (uv_shutdown(&socket->shutdown, &socket->uv.stream, on_shut) != 0)
        http_conn_break(socket->conn);
}

static void pump(struct socket *socket)
{
    if (socket->closing)
        return;
    while (!socket->busy && http_conn_next_action(socket->conn) == HTTP_ACTION_NONE &&
           has_output(socket)) {
        if (socket->tls != NULL)
            start_write_sealed(socket);
        else
            start_write(socket);
    }
    if (http_conn_next_action(socket->conn) == HTTP_ACTION_SHUTDOWN)
        shut_socket(socket);
    enum http_action action = http_conn_next_action(socket->conn);
    if (action == HTTP_ACTION_CLOSE || action == HTTP_ACTION_RESET)
        close_socket(socket, action == HTTP_ACTION_RESET);
}

/* ---- input ---- */

/* One buffer for all sockets: libuv fills it and calls on_read before it asks again. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct socket *socket = handle->data;

    (void)suggested;
    *buf = (uv_buf_t){.base = socket->server->read_buf, .len = READ_BYTES};
}

static void log_failure(const struct socket *socket, const char *reason)
{
    LOG_INFO(socket->server->shared.options.log, "http", "TLS failed", LOG_STR("reason", reason),
             LOG_STR("peer", socket->address));
}

/* Decrypted bytes to the connection, as far as they are complete. */
static void open_input(struct socket *socket)
{
    char plain[TLS_PIECE_BYTES];
    size_t len;

    while ((len = tls_session_open(socket->tls, plain, sizeof(plain))) > 0)
        http_conn_feed(socket->conn, (struct str){plain, len});
    if (tls_session_state(socket->tls) == TLS_STATE_ENDED)
        http_conn_eof(socket->conn);
    bool failed = tls_session_state(socket->tls) == TLS_STATE_FAILED;
    /* A client can ask for new keys again and again, and read no answer. */
    if (!failed && tls_session_pending(socket->tls) <= SEALED_BYTES_MAX)
        return;
    log_failure(socket, failed ? tls_session_reason(socket->tls) : "the client does not read");
    http_conn_break(socket->conn);
}

/* A handshake begins with the byte 22. */
static bool is_plain_http(struct str bytes)
{
    return bytes.ptr[0] >= 'A' && bytes.ptr[0] <= 'Z';
}

/* In pieces: libssl's buffers stay as large as they once were. */
static void feed_sealed(struct socket *socket, struct str bytes)
{
    if (!socket->tls_began && is_plain_http(bytes)) {
        log_failure(socket, "plain HTTP on the TLS port: the client must use https://");
        http_conn_break(socket->conn);
        return;
    }
    socket->tls_began = true;
    while (bytes.len > 0 && tls_session_state(socket->tls) < TLS_STATE_ENDED) {
        struct str piece = {bytes.ptr, MIN(bytes.len, (size_t)TLS_PIECE_BYTES)};
        bytes = str_skip(bytes, piece.len);
        if (!tls_session_feed(socket->tls, piece)) {
            http_conn_break(socket->conn);
            return;
        }
        open_input(socket);
    }
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
    struct socket *socket = stream->data;

    if (len == 0 || socket->closing)
        return;
    if (len > 0 && socket->tls != NULL)
        feed_sealed(socket, (struct str){buf->base, (size_t)len});
    else if (len > 0)
        http_conn_feed(socket->conn, (struct str){buf->base, (size_t)len});
    else if (len == UV_EOF)
        http_conn_eof(socket->conn);
    else
        http_conn_break(socket->conn);
    pump(socket);
}

/* ---- new connections ---- */

static void name_peer(struct socket *socket)
{
    struct sockaddr_storage address;
    int len = sizeof(address);

    snprintf(socket->address, sizeof(socket->address), "%s", socket->is_tcp ? "unknown" : "unix");
    if (socket->is_tcp &&
        uv_tcp_getpeername(&socket->uv.tcp, (struct sockaddr *)&address, &len) == 0)
        uv_ip_name((const struct sockaddr *)&address, socket->address, sizeof(socket->address));
}

static size_t count_address(const struct http_server *server, const char *address)
{
    size_t count = 0;

    LIST_FOREACH (struct socket, socket, &server->sockets, node)
        count += strcmp(socket->address, address) == 0;
    return count;
}

/* True if a limit is exceeded; counts the refusal. The socket is already in the list. */
static bool is_too_many(struct http_server *server, const struct socket *socket)
{
    const struct http_limits *limits = &server->shared.options.limits;
    enum http_refusal refusal;

    if (server->sockets.count > limits->connections_max)
        refusal = HTTP_REFUSAL_TOTAL;
    else if (socket->is_tcp &&
             count_address(server, socket->address) > limits->connections_per_address_max)
        refusal = HTTP_REFUSAL_ADDRESS;
    else
        return false;
    metric_add(server->shared.stats, HTTP_STAT_REFUSED, refusal, 1);
    LOG_WARN(server->shared.options.log, "http", "too many connections",
             LOG_STR("peer", socket->address));
    return true;
}

static struct socket *create_socket(struct http_server *server, bool is_tcp)
{
    struct socket *socket = mem_alloc(sizeof(*socket));

    socket->server = server;
    socket->is_tcp = is_tcp;
    int rc = is_tcp ? uv_tcp_init(&server->loop, &socket->uv.tcp)
                    : uv_pipe_init(&server->loop, &socket->uv.pipe, 0);
    assert(rc == 0); /* these only fill the struct */
    (void)rc;
    socket->uv.handle.data = socket;
    list_push_back(&server->sockets, &socket->node);
    return socket;
}

/* TLS is for TCP: a local socket is as private as its file. */
static void begin_tls(struct socket *socket)
{
    struct http_server *server = socket->server;

    lock_enter(&server->lock);
    bool wanted = server->tls != NULL && socket->is_tcp;
    if (wanted)
        socket->tls = tls_session_accept(server->tls);
    lock_leave(&server->lock);
    if (wanted && socket->tls == NULL)
        http_conn_break(socket->conn);
}

static void serve(struct socket *socket)
{
    struct http_server *server = socket->server;

    socket->conn = http_conn_create(&server->shared, str_from(socket->address), socket);
    if (is_too_many(server, socket))
        http_conn_refuse(socket->conn);
    begin_tls(socket);
    if (socket->is_tcp) {
        uv_tcp_nodelay(&socket->uv.tcp, 1);
        uv_tcp_keepalive(&socket->uv.tcp, 1, PEER_IDLE_S);
    }
    if (uv_read_start(&socket->uv.stream, on_alloc, on_read) != 0)
        http_conn_break(socket->conn);
    if (!uv_is_active((const uv_handle_t *)&server->timer)) {
        uint32_t tick_ms = server->shared.options.tick_ms;
        uv_timer_start(&server->timer, on_tick, tick_ms, tick_ms);
    }
    pump(socket);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct http_server *server = listener->data;
    bool is_tcp = listener == (uv_stream_t *)&server->tcp;

    if (status != 0) {
        LOG_WARN(server->shared.options.log, "http", "a connection could not be accepted",
                 LOG_STR("reason", uv_strerror(status)));
        return;
    }
    struct socket *socket = create_socket(server, is_tcp);
    if (uv_accept(listener, &socket->uv.stream) != 0 ||
        server->sockets.count > server->shared.options.limits.connections_max + REFUSED_MAX) {
        close_socket(socket, false);
        return;
    }
    metric_add(server->shared.stats, HTTP_STAT_ACCEPTED, 0, 1);
    name_peer(socket);
    serve(socket);
}

/* ---- events of the loop ---- */

static void on_tick(uv_timer_t *timer)
{
    struct http_server *server = timer->data;

    http_conn_ask_room(&server->shared);
    LIST_FOREACH (struct socket, socket, &server->sockets, node) {
        if (socket->closing)
            continue;
        http_conn_tick(socket->conn, uv_stream_get_write_queue_size(&socket->uv.stream));
        pump(socket);
    }
}

static void drain(struct http_server *server)
{
    if (server->shared.draining)
        return;
    server->shared.draining = true;
    http_mailbox_drain(server->shared.mailbox);
    if (server->has_tcp)
        uv_close((uv_handle_t *)&server->tcp, NULL);
    if (server->has_local)
        uv_close((uv_handle_t *)&server->local, NULL);
    LIST_FOREACH (struct socket, socket, &server->sockets, node) {
        if (socket->closing)
            continue;
        http_conn_drain(socket->conn);
        pump(socket);
    }
    notify_if_drained(server);
}

/* Closes every handle, so that uv_run returns after the last callback. */
static void stop(struct http_server *server)
{
    drain(server);
    LIST_FOREACH (struct socket, socket, &server->sockets, node) {
        if (socket->closing)
            continue;
        http_conn_break(socket->conn);
        pump(socket);
    }
    server->stopped = true;
    http_mailbox_close(server->shared.mailbox); /* server->wake is not used after this */
    uv_close((uv_handle_t *)&server->timer, NULL);
    uv_close((uv_handle_t *)&server->wake, NULL);
}

/* Bounded per wake-up, so that constant writers cannot keep the loop from its sockets. */
static void deliver_pending(struct http_server *server)
{
    for (unsigned n = 0; n < PENDING_MAX; n++) {
        struct socket *socket = http_mailbox_next(server->shared.mailbox);
        if (socket == NULL)
            return;
        http_conn_deliver(socket->conn);
        pump(socket);
    }
    uv_async_send(&server->wake);
}

static void on_wake(uv_async_t *async)
{
    struct http_server *server = async->data;

    deliver_pending(server);
    lock_enter(&server->lock);
    bool drain_asked = server->drain_asked, stop_asked = server->stop_asked;
    lock_leave(&server->lock);
    if (drain_asked)
        drain(server);
    if (stop_asked && !server->stopped)
        stop(server);
}

static void run(void *arg)
{
    struct http_server *server = arg;

    uv_run(&server->loop, UV_RUN_DEFAULT);
    assert(list_empty(&server->sockets));
}

/* ---- create and destroy ---- */

static void wake_loop(void *arg)
{
    struct http_server *server = arg;

    uv_async_send(&server->wake);
}

static void destroy(struct http_server **server)
{
    struct http_server *old = *server;

    if (old->has_loop) {
        int rc = uv_loop_close(&old->loop);
        assert(rc == 0); /* every handle was closed */
        (void)rc;
    }
    tls_close(&old->tls);
    http_mailbox_release(&old->shared.mailbox);
    metric_set_destroy(&old->shared.stats);
    cond_fini(&old->changed);
    lock_fini(&old->lock);
    mem_free(old);
    *server = NULL;
}

static void complete(struct http_shared *shared)
{
    struct http_options *options = &shared->options;

    http_limits_complete(&options->limits);
    if (options->clock == NULL)
        options->clock = clock_real();
    if (options->tick_ms == 0)
        options->tick_ms = TICK_MS;
    if (options->host == NULL && options->unix_path == NULL)
        options->host = "127.0.0.1";
    shared->check_host = options->allowed_hosts.count > 0 || options->host == NULL ||
                         http_is_loopback(str_from(options->host));
}

static enum err init_loop(struct http_server *server, struct errinfo *info)
{
    int rc = uv_loop_init(&server->loop);

    if (rc != 0)
        return err_set_errno(info, -rc, "no event loop");
    rc = uv_async_init(&server->loop, &server->wake, on_wake);
    if (rc != 0) {
        uv_loop_close(&server->loop);
        return err_set_errno(info, -rc, "no event loop");
    }
    uv_timer_init(&server->loop, &server->timer);
    server->has_loop = true;
    server->wake.data = server->timer.data = server;
    return ERR_OK;
}

static enum err start_listening(struct http_server *server, struct errinfo *info)
{
    const struct http_options *options = &server->shared.options;

    if (options->host != NULL) {
        uv_tcp_init(&server->loop, &server->tcp);
        server->tcp.data = server;
        server->has_tcp = true;
        TRY(http_listen_tcp(&server->tcp, options->host, options->port, on_connection,
                            &server->port, info));
    }
    if (options->unix_path != NULL) {
        uv_pipe_init(&server->loop, &server->local, 0);
        server->local.data = server;
        server->has_local = true;
        TRY(http_listen_unix(&server->local, options->unix_path, on_connection, info));
    }
    return ERR_OK;
}

static struct http_server *create(const struct http_options *options,
                                  const struct http_route *routes, size_t routes_count)
{
    struct http_server *server = mem_alloc(sizeof(*server));

    server->shared.options = *options;
    server->shared.routes = routes;
    server->shared.routes_count = routes_count;
    complete(&server->shared);
    list_init(&server->sockets);
    lock_init(&server->lock, "http server", LOCK_RANK_QUEUE);
    cond_init(&server->changed);
    server->shared.stats = http_stats_create();
    server->shared.mailbox = http_mailbox_create(server->shared.options.clock, wake_loop, server);
    return server;
}

enum err http_server_start(const struct http_options *options, const struct http_route *routes,
                           size_t routes_count, struct http_server **server, struct errinfo *info)
{
    struct http_server *made = create(options, routes, routes_count);

    *server = NULL;
    http_route_check(routes, routes_count);
    enum err err = http_server_reload_tls(made, info);
    if (err == ERR_OK)
        err = init_loop(made, info);
    if (err == ERR_OK)
        err = start_listening(made, info);
    if (err == ERR_OK)
        err = thread_start(&made->thread, "http", run, made, info);
    if (err == ERR_OK) {
        *server = made;
        return ERR_OK;
    }
    if (made->has_loop) {
        stop(made);
        run(made); /* until the handles are closed */
    }
    destroy(&made);
    return err;
}

enum err http_server_reload_tls(struct http_server *server, struct errinfo *info)
{
    const struct http_options *options = &server->shared.options;
    struct tls *fresh = NULL;

    if (options->tls_cert == NULL)
        return ERR_OK;
    TRY(tls_open_server(&fresh, options->tls_cert, options->tls_key, info));
    lock_enter(&server->lock);
    struct tls *old = server->tls;
    server->tls = fresh;
    lock_leave(&server->lock);
    tls_close(&old);
    return ERR_OK;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

bool http_server_drain(struct http_server *server, uint64_t timeout_ms)
{
    uint64_t deadline = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);

    lock_enter(&server->lock);
    server->drain_asked = true;
    lock_leave(&server->lock);
    uv_async_send(&server->wake);
    lock_enter(&server->lock);
    while (!server->drained)
        if (!cond_wait_until(&server->changed, &server->lock, deadline))
            break;
    bool drained = server->drained;
    lock_leave(&server->lock);
    return drained;
}

void http_server_stop(struct http_server **server)
{
    struct http_server *old = *server;

    if (old == NULL)
        return;
    lock_enter(&old->lock);
    old->stop_asked = true;
    lock_leave(&old->lock);
    uv_async_send(&old->wake);
    thread_join(&old->thread);
    destroy(server);
}

const struct metric_set *http_server_metrics(const struct http_server *server)
{
    return server->shared.stats;
}
