/*
 * kv.c: runs of operations over pooled connections, and the breaker of each server.
 *
 *      struct run: the operations of one call; on its stack, with its connections
 *
 *      an operation   pending --take--> in flight --reply--> ended
 *                        ^                 |-- MOVED, ASK: pending, for another server
 *                        '-----------------'-- connection lost: pending once more, else KV_ERROR
 *
 * A connection that fails, or whose reply is late, is closed: bytes that were meant for a caller
 * must never arrive in memory that it has taken back. Only a connection without operations in
 * flight goes back to the pool.
 *
 * An operation is tried again on another connection at most once. A value is never changed, only
 * replaced by an equal one. An addition whose reply was lost may count twice: a share is then refused
 * early, which is better than late.
 */
#include "tier/kv.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tier/kv_impl.h"

enum {
    FAILURES_MAX = 3, /* in a row, until the breaker opens */
    RETRY_DOUBLINGS = 5,
    REDIRECTS_MAX = 8,
    DEPTH_MAX = 64,
    FLIGHT_BYTES_MAX = 16 << 20, /* of values on one connection */
    CONNS_MAX = 32,              /* of one run */
    IDLE_MAX = 16,               /* per server */
    IN_BYTES = 16 << 10,
    REPLY_BYTES_MAX = 1 << 20, /* of a reply that is not a value */
    TEXT_BYTES_MAX = 8 << 10,  /* of a request, without its data */
    POLL_MS = 100,
};

#define CONNECT_NS NS_PER_S
#define FULL_NS    (30 * NS_PER_S)
#define ROOM_NS    (5 * NS_PER_S)

struct conn {
    struct list_node link;
    struct kv_server *server;
    struct kv_socket sock;
    uint64_t connect_by_ns;
    bool greeted;
    bool over;                  /* the server closes it, and owes nothing */
    struct kv_op hello, asking; /* what it says first; announces an operation of another's slot */
    struct buf hello_text;
    /* in order of sending; the first `sent` are on their way */
    struct kv_op *flight[DEPTH_MAX + 1];
    unsigned count, sent;
    uint64_t flight_bytes;
    struct buf head, tail; /* of flight[sent] */
    uint64_t out_done;     /* bytes of it that were sent */
    struct buf in;
    bool in_body;
    struct kv_reply reply; /* to flight[0] */
    uint64_t body_done;
    uint64_t asked_ns;
};

struct run {
    struct kv *kv;
    struct kv_op *ops;
    size_t count, left;
    struct kv_server *only; /* all operations go there; NULL: by name */
    uint64_t deadline_ns;
    uint64_t idle_ns, moved_ns; /* kv_run_while_moving; 0: only the deadline counts */
    bool (*goes_on)(void *arg); /* NULL: until the end */
    void *arg;
    bool cancelled; /* by goes_on */
    struct conn *conns[CONNS_MAX];
    size_t conns_count;
};

/* ---- servers and breakers ---- */

static uint64_t now_ns(void)
{
    return clock_mono_ns(clock_real());
}

struct kv_server *kv_add_server_locked(struct kv *kv, struct str host, struct str port)
{
    lock_assert_held(&kv->lock);
    for (size_t i = 0; i < kv->servers_count; i++)
        if (str_eq(str_from(kv->servers[i]->host), host) &&
            str_eq(str_from(kv->servers[i]->port), port))
            return kv->servers[i];
    if (kv->servers_count == KV_SERVERS_MAX || host.len == 0 || host.len >= KV_HOST_BYTES ||
        port.len == 0 || port.len >= sizeof(kv->servers[0]->port))
        return NULL;
    struct kv_server *server = mem_alloc(sizeof(*server));
    snprintf(server->host, sizeof(server->host), STR_FMT, STR_ARG(host));
    snprintf(server->port, sizeof(server->port), STR_FMT, STR_ARG(port));
    snprintf(server->stats.name, sizeof(server->stats.name), "%s:%s", server->host, server->port);
    list_init(&server->idle);
    kv->servers[kv->servers_count++] = server;
    return server;
}

/* It has changed. Without the lock: the server's name stays. */
static void log_breaker(const struct kv *kv, const struct kv_server *server,
                        enum kv_breaker breaker, const char *why)
{
    log_text(kv->options.log, breaker == KV_CLOSED ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, "shared",
             "%s: breaker %s%s%s", server->stats.name, kv_breaker_name(breaker),
             why[0] != '\0' ? ": " : "", why);
}

/* Whether an operation may be sent there now. The first one after the delay tries for all. */
static bool may_use_locked(struct kv_server *server) REQUIRES(lock)
{
    if (server->breaker == KV_CLOSED)
        return true;
    if (now_ns() < server->retry_at_ns)
        return false;
    server->breaker = KV_HALF_OPEN;
    server->retry_at_ns = now_ns() + server->retry_ns; /* others wait for its result */
    return true;
}

static void note_failure(struct kv *kv, struct kv_server *server, const char *why)
{
    lock_enter(&kv->lock);
    kv->stale = true;
    server->stats.failures++;
    server->failures_in_row++;
    bool opens = server->breaker != KV_OPEN &&
                 (server->breaker == KV_HALF_OPEN || server->failures_in_row >= FAILURES_MAX);
    if (opens) {
        uint64_t most = kv->options.retry_ns << RETRY_DOUBLINGS;
        server->retry_ns = server->breaker == KV_HALF_OPEN ? MIN(server->retry_ns * 2, most)
                                                           : kv->options.retry_ns;
        server->breaker = KV_OPEN;
        server->retry_at_ns = now_ns() + server->retry_ns;
        server->stats.opened++;
    }
    lock_leave(&kv->lock);
    if (opens)
        log_breaker(kv, server, KV_OPEN, why);
}

static void note_reply(struct kv *kv, struct kv_server *server, const struct conn *conn,
                       uint64_t bytes)
{
    double took = (double)(now_ns() - conn->asked_ns) / (double)NS_PER_S;

    lock_enter(&kv->lock);
    bool closes = server->breaker != KV_CLOSED;
    server->breaker = KV_CLOSED;
    server->failures_in_row = 0;
    server->stats.replies++;
    if (bytes <= IN_BYTES && conn->count == 1)
        server->stats.round_trip_s =
            server->stats.round_trip_s > 0 ? 0.9 * server->stats.round_trip_s + 0.1 * took : took;
    lock_leave(&kv->lock);
    if (closes)
        log_breaker(kv, server, KV_CLOSED, "");
}

/* ---- connections ---- */

static void conn_free(struct conn *conn)
{
    kv_socket_close(&conn->sock);
    buf_fini(&conn->hello_text);
    buf_fini(&conn->head);
    buf_fini(&conn->tail);
    buf_fini(&conn->in);
    mem_free(conn);
}

static struct conn *take_idle(struct kv *kv, struct kv_server *server)
{
    struct conn *conn = NULL;

    for (;;) {
        lock_enter(&kv->lock);
        conn = LIST_ENTRY(list_last(&server->idle), struct conn, link);
        if (conn != NULL)
            list_remove(&server->idle, &conn->link);
        lock_leave(&kv->lock);
        if (conn == NULL || !kv_socket_is_stale(&conn->sock))
            return conn;
        conn_free(conn);
    }
}

static void give_idle(struct kv *kv, struct conn *conn)
{
    bool good = conn->sock.fd >= 0 && conn->greeted && conn->count == 0 && conn->in.len == 0;

    lock_enter(&kv->lock);
    if (good && conn->server->idle.count < IDLE_MAX) {
        list_push_back(&conn->server->idle, &conn->link);
        conn = NULL;
    }
    lock_leave(&kv->lock);
    if (conn != NULL)
        conn_free(conn);
}

static uint64_t value_bytes(const struct kv_op *op)
{
    return op->verb == KV_GET ? op->capacity : op->verb == KV_PUT ? op->bytes : 0;
}

static bool has_place(const struct conn *conn, const struct kv_op *op, unsigned depth)
{
    return conn->count == 0 ||
           (conn->count < depth && conn->flight_bytes + value_bytes(op) <= FLIGHT_BYTES_MAX);
}

static void push_flight(struct conn *conn, struct kv_op *op)
{
    assert(conn->count <= DEPTH_MAX);
    if (conn->count == 0)
        conn->asked_ns = now_ns();
    conn->flight[conn->count++] = op;
    conn->flight_bytes += value_bytes(op);
    op->flying = true;
}

static struct conn *conn_open(struct kv *kv, struct kv_server *server)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    struct conn *conn = take_idle(kv, server);
    struct errinfo info = {0};

    if (conn != NULL)
        return conn;
    conn = mem_alloc(sizeof(*conn));
    conn->server = server;
    buf_init(&conn->hello_text, TEXT_BYTES_MAX);
    buf_init(&conn->head, TEXT_BYTES_MAX);
    buf_init(&conn->tail, TEXT_BYTES_MAX);
    buf_init(&conn->in, REPLY_BYTES_MAX);
    conn->connect_by_ns = clock_deadline_ns(clock_real(), kv->options.connect_ns);
    if (kv_socket_connect(&conn->sock, kv->tls, server->host, server->port, &info) != ERR_OK) {
        note_failure(kv, server, info.text);
        conn_free(conn);
        return NULL;
    }
    kv->protocol->greet(kv, &conn->hello_text);
    conn->greeted = conn->hello_text.len == 0;
    conn->hello = (struct kv_op){
        .verb = KV_ASK, .data = conn->hello_text.data, .bytes = conn->hello_text.len};
    conn->asking = (struct kv_op){.verb = KV_ASK, .data = asking, .bytes = sizeof(asking) - 1};
    if (!conn->greeted)
        push_flight(conn, &conn->hello);
    return conn;
}

/* ---- operations of a run ---- */

static void end_op(struct run *run, struct kv_op *op, enum kv_result result)
{
    assert(!op->ended && run->left > 0);
    op->result = result;
    op->ended = true;
    run->left--;
}

static bool is_ours(const struct run *run, const struct kv_op *op)
{
    return op >= run->ops && op < run->ops + run->count;
}

/* The connection is useless: its operations are tried once more, or fail. */
static void lose(struct run *run, struct conn *conn, const char *why)
{
    if (!conn->over)
        note_failure(run->kv, conn->server, why);
    for (unsigned i = 0; i < conn->count; i++) {
        struct kv_op *op = conn->flight[i];
        if (!is_ours(run, op))
            continue;
        op->flying = false;
        op->server = NULL;
        if (op->tries++ > 0)
            end_op(run, op, KV_ERROR);
    }
    for (size_t i = 0; i < run->conns_count; i++)
        if (run->conns[i] == conn)
            run->conns[i--] = run->conns[--run->conns_count];
    conn_free(conn);
}

/* The connection of this run to the operation's server with the fewest others, or a new one. NULL:
 * all are busy, or none can be had (*down). */
static struct conn *find_conn(struct run *run, const struct kv_op *op, bool *down)
{
    const struct kv_protocol *protocol = run->kv->protocol;
    struct conn *best = NULL;
    unsigned conns = 0;

    *down = false;
    for (size_t i = 0; i < run->conns_count; i++) {
        struct conn *conn = run->conns[i];
        if (conn->server != op->server)
            continue;
        conns++;
        if (has_place(conn, op, protocol->depth) && (best == NULL || conn->count < best->count))
            best = conn;
    }
    if (best != NULL || conns >= protocol->conns || run->conns_count == CONNS_MAX)
        return best;
    lock_enter(&run->kv->lock);
    bool may = conns > 0 || may_use_locked(op->server);
    lock_leave(&run->kv->lock);
    struct conn *conn = may ? conn_open(run->kv, op->server) : NULL;
    if (conn != NULL)
        run->conns[run->conns_count++] = conn;
    *down = conn == NULL && conns == 0;
    return conn;
}

/* Puts pending operations on connections. */
static void dispatch(struct run *run)
{
    for (size_t i = 0; i < run->count && run->left > 0; i++) {
        struct kv_op *op = &run->ops[i];
        bool down;
        if (op->ended || op->flying)
            continue;
        if (op->server == NULL) {
            lock_enter(&run->kv->lock);
            op->server = run->only ? run->only : run->kv->protocol->route(run->kv, op->name);
            lock_leave(&run->kv->lock);
        }
        struct conn *conn = op->server != NULL ? find_conn(run, op, &down) : NULL;
        if (op->server == NULL || (conn == NULL && down)) {
            end_op(run, op, KV_DOWN);
            continue;
        }
        if (conn == NULL)
            continue;
        if (op->asking)
            push_flight(conn, &conn->asking);
        op->asking = false;
        push_flight(conn, op);
    }
}

/* ---- sending ---- */

/* False: the connection failed. */
static bool send_some(struct run *run, struct conn *conn)
{
    while (conn->sent < conn->count) {
        struct kv_op *op = conn->flight[conn->sent];
        bool plain = op->verb == KV_ASK;
        if (conn->out_done == 0) {
            buf_clear(&conn->head);
            buf_clear(&conn->tail);
            if (!plain)
                run->kv->protocol->encode(run->kv, op, &conn->head, &conn->tail);
            assert(conn->head.err == ERR_OK && conn->tail.err == ERR_OK);
        }
        uint64_t data = plain || op->verb == KV_PUT ? op->bytes : 0;
        struct iovec all[] = {{conn->head.data, conn->head.len},
                              {(void *)(uintptr_t)op->data, data},
                              {conn->tail.data, conn->tail.len}};
        uint64_t skip = conn->out_done, total = conn->head.len + data + conn->tail.len;
        struct iovec iov[COUNT_OF(all)];
        int count = 0;
        for (size_t i = 0; i < COUNT_OF(all); i++) {
            size_t cut = MIN(skip, all[i].iov_len);
            skip -= cut;
            if (all[i].iov_len > cut)
                iov[count++] = (struct iovec){(char *)all[i].iov_base + cut, all[i].iov_len - cut};
        }
        ssize_t sent = kv_socket_send(&conn->sock, iov, count);
        if (sent <= 0)
            return sent == 0;
        conn->out_done += (uint64_t)sent;
        if (conn->out_done < total)
            continue;
        conn->out_done = 0;
        conn->sent++;
    }
    return true;
}

/* ---- receiving ---- */

/* The reply to flight[0] is complete. False: the connection cannot be used any more. */
static bool finish_reply(struct run *run, struct conn *conn)
{
    struct kv_op *op = conn->flight[0];
    const struct kv_reply *reply = &conn->reply;
    bool ours = is_ours(run, op), close = reply->close;

    if (!ours && reply->result != KV_OK && !conn->greeted) /* not let in */
        return false;
    if (reply->failure)
        note_failure(run->kv, conn->server, reply->why);
    else
        note_reply(run->kv, conn->server, conn, reply->body);
    conn->greeted = true;
    conn->in_body = false;
    conn->reply.why[0] = '\0';
    conn->count--;
    conn->sent--;
    conn->flight_bytes -= value_bytes(op);
    op->flying = false;
    memmove(conn->flight, conn->flight + 1, conn->count * sizeof(conn->flight[0]));
    conn->asked_ns = now_ns();
    conn->over = close && conn->count == 0;
    if (!ours)
        return !close;
    op->got = reply->value ? reply->body : 0;
    op->existed = reply->existed;
    if (reply->again != NULL && op->tries < REDIRECTS_MAX) {
        op->tries += 2;
        op->server = reply->again;
        op->asking = reply->asking;
    } else {
        bool large = reply->value && reply->body > op->capacity;
        bool odd = reply->result == KV_FULL && op->verb != KV_PUT;
        end_op(run, op, large || odd || reply->again != NULL ? KV_ERROR : reply->result);
    }
    return !close;
}

/* Where the next bytes of the body go, and how many; NULL: they are dropped. */
static char *body_room(const struct conn *conn, uint64_t *room)
{
    const struct kv_op *op = conn->flight[0];
    const struct kv_reply *reply = &conn->reply;

    if (conn->body_done < reply->body) {
        *room = reply->body - conn->body_done;
        bool wanted = reply->value && op->dst != NULL && reply->body <= op->capacity;
        return wanted ? (char *)op->dst + conn->body_done : NULL;
    }
    *room = reply->body + reply->trailer - conn->body_done;
    return NULL;
}

/* Moves buffered bytes into the body. */
static void fill_body(struct conn *conn)
{
    uint64_t room;

    for (;;) {
        char *to = body_room(conn, &room);
        size_t len = MIN(room, conn->in.len);
        if (len == 0)
            return;
        if (to != NULL)
            memcpy(to, conn->in.data, len);
        buf_consume(&conn->in, len);
        conn->body_done += len;
    }
}

/* Bytes received, 0: none now; -1: failed. */
static ssize_t receive(struct conn *conn)
{
    uint64_t room = 0;
    char *to = conn->in_body ? body_room(conn, &room) : NULL;

    if (to != NULL) {
        ssize_t got = kv_socket_receive(&conn->sock, to, room);
        conn->body_done += got > 0 ? (uint64_t)got : 0;
        return got;
    }
    to = buf_reserve(&conn->in, IN_BYTES);
    ssize_t got = to != NULL ? kv_socket_receive(&conn->sock, to, IN_BYTES) : -1;
    if (got > 0)
        buf_commit(&conn->in, (size_t)got);
    return got;
}

/* False: the connection failed. */
static bool receive_some(struct run *run, struct conn *conn)
{
    for (;;) {
        if (conn->in_body)
            fill_body(conn);
        else if (conn->in.len > 0 && conn->sent == 0)
            return false; /* it speaks unasked */
        else if (conn->in.len > 0) {
            conn->reply = (struct kv_reply){0};
            enum kv_parse parsed = run->kv->protocol->parse(run->kv, conn->flight[0], conn->in.data,
                                                            conn->in.len, &conn->reply);
            if (parsed == KV_PARSE_BAD)
                return false;
            if (parsed == KV_PARSE_DONE) {
                buf_consume(&conn->in, conn->reply.head);
                conn->in_body = true;
                conn->body_done = 0;
                continue;
            }
        }
        if (conn->in_body && conn->body_done == conn->reply.body + conn->reply.trailer) {
            if (!finish_reply(run, conn))
                return false;
            continue;
        }
        if (conn->count == 0)
            return true;
        ssize_t got = receive(conn);
        if (got <= 0)
            return got == 0;
    }
}

/* ---- the loop ---- */

static bool serve_conn(struct run *run, struct conn *conn, struct errinfo *info)
{
    if (!conn->sock.connected) {
        enum err err = kv_socket_finish(&conn->sock, info);
        if (err != ERR_OK)
            return err == ERR_BUSY;
    }
    if (send_some(run, conn) && receive_some(run, conn))
        return true;
    (void)err_set(info, ERR_IO, "%s",
                  conn->reply.why[0] != '\0' ? conn->reply.why : "connection lost");
    return false;
}

static short wanted(const struct conn *conn)
{
    if (!conn->sock.connected)
        return conn->sock.wants;
    /* `wants` is that of the last call: it may have been a read, while a write has to go on */
    return (short)(POLLIN | conn->sock.wants | (conn->sent < conn->count ? POLLOUT : 0));
}

/* Waits for a socket, and serves those that are ready. */
static void turn(struct run *run)
{
    struct pollfd fds[CONNS_MAX];
    struct conn *conns[CONNS_MAX];
    size_t count = run->conns_count;
    uint64_t now = now_ns(), left_ms = (run->deadline_ns - MIN(now, run->deadline_ns)) / NS_PER_MS;

    for (size_t i = 0; i < count; i++) {
        conns[i] = run->conns[i];
        fds[i] = (struct pollfd){.fd = conns[i]->sock.fd, .events = wanted(conns[i])};
    }
    if (poll(fds, count, (int)MIN(left_ms + 1, (uint64_t)POLL_MS)) < 0 && errno != EINTR)
        return;
    now = now_ns();
    for (size_t i = 0; i < count; i++) {
        struct errinfo info = {0};
        if (fds[i].revents != 0)
            run->moved_ns = now;
        if (fds[i].revents != 0 && !serve_conn(run, conns[i], &info))
            lose(run, conns[i], info.text);
        else if (!conns[i]->sock.connected && now > conns[i]->connect_by_ns)
            lose(run, conns[i], "no connection in time");
    }
}

static bool is_over(struct run *run)
{
    run->cancelled = run->goes_on != NULL && !run->goes_on(run->arg);
    lock_enter(&run->kv->lock);
    bool stopped = run->kv->stopped;
    lock_leave(&run->kv->lock);
    uint64_t now = now_ns();
    return run->cancelled || stopped || now >= run->deadline_ns ||
           (run->idle_ns > 0 && now >= run->moved_ns + run->idle_ns);
}

/* The rest is late, or not needed. Connections that owe a reply are closed. */
static void give_up(struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        if (!run->ops[i].ended)
            end_op(run, &run->ops[i], KV_TIMEOUT);
    for (size_t i = 0; i < run->conns_count; i++)
        if (run->conns[i]->count > 0) {
            if (!run->cancelled)
                note_failure(run->kv, run->conns[i]->server, "no reply in time");
            kv_socket_close(&run->conns[i]->sock);
        }
}

static void run_all(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        struct kv_op *op = &run->ops[i];
        op->server = NULL;
        op->tries = 0;
        op->got = 0;
        op->existed = op->asking = op->flying = op->ended = false;
    }
    run->left = run->count;
    while (run->left > 0 && !is_over(run)) {
        dispatch(run);
        if (run->left > 0)
            turn(run);
    }
    give_up(run);
    for (size_t i = 0; i < run->conns_count; i++)
        give_idle(run->kv, run->conns[i]);
}

void kv_run(struct kv *kv, struct kv_op *ops, size_t count, uint64_t deadline_ns)
{
    kv_run_while_moving(kv, ops, count, 0, deadline_ns, NULL, NULL);
}

void kv_run_while_moving(struct kv *kv, struct kv_op *ops, size_t count, uint64_t idle_ns,
                         uint64_t deadline_ns, bool (*goes_on)(void *arg), void *arg)
{
    struct run run = {.kv = kv,
                      .ops = ops,
                      .count = count,
                      .deadline_ns = deadline_ns,
                      .idle_ns = idle_ns,
                      .goes_on = goes_on,
                      .arg = arg};

    if (kv->protocol->prepare != NULL)
        kv->protocol->prepare(kv, idle_ns > 0 ? MIN(deadline_ns, now_ns() + idle_ns) : deadline_ns);
    run.moved_ns = now_ns();
    run_all(&run);
    bool full = false;
    for (size_t i = 0; i < count; i++)
        full |= ops[i].result == KV_FULL;
    if (full) {
        lock_enter(&kv->lock);
        kv->full_until_ns = now_ns() + FULL_NS;
        lock_leave(&kv->lock);
    }
}

void kv_run_at(struct kv *kv, struct kv_server *server, struct kv_op *ops, size_t count,
               uint64_t deadline_ns)
{
    struct run run = {
        .kv = kv, .ops = ops, .count = count, .only = server, .deadline_ns = deadline_ns};

    run_all(&run);
}

void kv_stop(struct kv *kv)
{
    lock_enter(&kv->lock);
    kv->stopped = true;
    lock_leave(&kv->lock);
}

/* ---- opening and asking ---- */

static const struct {
    const char *scheme;
    const struct kv_protocol *protocol;
    enum err (*init)(struct kv *kv, struct str rest, struct errinfo *info);
    bool tls;
} schemes[] = {
    {"valkey://", &kv_valkey, kv_valkey_init, false},
    {"valkeys://", &kv_valkey, kv_valkey_init, true},
    {"redis://", &kv_valkey, kv_valkey_init, false},
    {"rediss://", &kv_valkey, kv_valkey_init, true},
    {"s3://", &kv_s3, kv_s3_init, false}, /* its endpoint says whether there is TLS */
};

static enum err read_url(struct kv *kv, struct errinfo *info)
{
    struct str url = str_from(kv->options.url);

    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        struct str scheme = str_from(schemes[i].scheme);
        if (!str_starts(url, scheme))
            continue;
        kv->protocol = schemes[i].protocol;
        if (schemes[i].tls)
            TRY(tls_open_client(&kv->tls, kv->options.ca_file, info));
        return schemes[i].init(kv, str_skip(url, scheme.len), info);
    }
    return err_set(
        info, ERR_INVALID,
        "expected valkey://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/PREFIX, valkeys://... "
        "with TLS, or s3://BUCKET/PREFIX");
}

enum err kv_open(struct kv **out, const struct kv_options *options, struct errinfo *info)
{
    struct kv *kv = mem_alloc(sizeof(*kv));

    kv->options = *options;
    kv->options.connect_ns = options->connect_ns ? options->connect_ns : CONNECT_NS;
    kv->options.retry_ns = options->retry_ns ? options->retry_ns : NS_PER_S;
    lock_init(&kv->lock, "kv", LOCK_RANK_QUEUE);
    enum err err = read_url(kv, info);
    kv->options.url = NULL; /* it has a password */
    *out = kv;
    if (err != ERR_OK)
        kv_close(out);
    return err;
}

void kv_close(struct kv **out)
{
    struct kv *kv = *out;
    struct list_node *link;

    if (kv == NULL)
        return;
    for (size_t i = 0; i < kv->servers_count; i++) {
        while ((link = list_pop_front(&kv->servers[i]->idle)) != NULL)
            conn_free(CONTAINER_OF(link, struct conn, link));
        mem_free(kv->servers[i]);
    }
    if (kv->protocol != NULL && kv->protocol->free != NULL)
        kv->protocol->free(kv);
    tls_close(&kv->tls);
    lock_fini(&kv->lock);
    mem_free(kv);
    *out = NULL;
}

const char *kv_prefix(const struct kv *kv)
{
    return kv->prefix;
}

uint64_t kv_part_bytes(const struct kv *kv)
{
    return kv->protocol->part_bytes;
}

uint64_t kv_capacity(struct kv *kv)
{
    lock_enter(&kv->lock);
    uint64_t capacity = kv->capacity;
    lock_leave(&kv->lock);
    return capacity;
}

bool kv_is_down(struct kv *kv)
{
    bool up = false;

    lock_enter(&kv->lock);
    for (size_t i = 0; i < kv->servers_count; i++)
        up |= kv->servers[i]->breaker == KV_CLOSED || now_ns() >= kv->servers[i]->retry_at_ns;
    lock_leave(&kv->lock);
    return !up;
}

bool kv_has_room(struct kv *kv, uint64_t deadline_ns)
{
    uint64_t now = now_ns();

    lock_enter(&kv->lock);
    bool full = now < kv->full_until_ns;
    bool ask = !full && kv->protocol->has_room != NULL && now >= kv->room_asked_ns + ROOM_NS;
    if (ask)
        kv->room_asked_ns = now;
    lock_leave(&kv->lock);
    if (!ask)
        return !full;
    bool room = kv->protocol->has_room(kv, deadline_ns);
    if (!room) {
        lock_enter(&kv->lock);
        kv->full_until_ns = now + ROOM_NS;
        lock_leave(&kv->lock);
    }
    return room;
}

void kv_try_down(struct kv *kv, uint64_t deadline_ns)
{
    for (size_t i = 0; i < kv_servers(kv); i++) {
        struct kv_op op = {.verb = KV_EXISTS, .name = "hearth:probe"};
        lock_enter(&kv->lock);
        struct kv_server *server = kv->servers[i];
        bool due = server->breaker != KV_CLOSED && now_ns() >= server->retry_at_ns;
        lock_leave(&kv->lock);
        if (due)
            kv_run_at(kv, server, &op, 1, deadline_ns);
    }
}

size_t kv_servers(struct kv *kv)
{
    lock_enter(&kv->lock);
    size_t count = kv->servers_count;
    lock_leave(&kv->lock);
    return count;
}

void kv_server_stats(struct kv *kv, size_t index, struct kv_server_stats *stats)
{
    lock_enter(&kv->lock);
    assert(index < kv->servers_count);
    *stats = kv->servers[index]->stats;
    stats->breaker = kv->servers[index]->breaker;
    lock_leave(&kv->lock);
}

const char *kv_breaker_name(enum kv_breaker breaker)
{
    static const char *const names[] = {KV_BREAKER_TABLE(TABLE_NAME)};

    return names[breaker];
}
