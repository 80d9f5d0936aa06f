/*
 * http_fuzz.c: any bytes into a connection without a socket: whole, and in pieces. Both times the
 * same requests reach the handler and the same bytes come back (except for a refusal at the end: of
 * two defects either may be named); memory for bodies is given back.
 *
 *      byte 0: size of the pieces    byte 1: bit 0 EOF at the end, bit 2 handlers stream
 */
#include "fuzz.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/metric.h"
#include "http/conn.h"
#include "http/reply.h"
#include "http/reply_impl.h"
#include "http/problem.h"

enum { LOG_BYTES = 16 << 20, HEAD_BYTES = 2, INPUT_BYTES = 1 << 16 };

struct run {
    struct http_shared shared;
    struct http_conn *conn;
    struct buf seen; /* what handlers saw */
    struct buf sent;
    unsigned handled;
    bool streams;
};

static void on_request(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct run *run = arg;
    struct http_head head = {.status = 200, .content_type = STR("text/plain")};

    assert(request->path.len > 0 &&
           request->headers_count <= run->shared.options.limits.headers_max);
    assert(request->body.len <= run->shared.options.limits.body_bytes_max);
    run->handled++;
    buf_appendf(&run->seen, "%s " STR_FMT "?" STR_FMT "\n", http_method_name(request->method),
                STR_ARG(request->path), STR_ARG(request->query));
    for (size_t i = 0; i < request->headers_count; i++)
        buf_appendf(&run->seen, STR_FMT ":" STR_FMT "\n", STR_ARG(request->headers[i].name),
                    STR_ARG(request->headers[i].value));
    buf_append(&run->seen, request->body.ptr, request->body.len);
    if (!run->streams) {
        http_reply_send(reply, &head, request->body);
        return;
    }
    http_reply_begin(reply, &head);
    http_reply_write(reply, request->body);
    http_reply_end(reply);
}

static void no_wake(void *arg)
{
    (void)arg;
}

static void pump(struct run *run)
{
    while (http_conn_next_action(run->conn) == HTTP_ACTION_NONE &&
           !list_empty(http_conn_output(run->conn))) {
        struct list_node *node = list_first(http_conn_output(run->conn));
        struct http_chunk *chunk = CONTAINER_OF(node, struct http_chunk, node);
        buf_append(&run->sent, chunk->data, chunk->len);
        http_conn_wrote(run->conn, 1);
        while (http_mailbox_next(run->shared.mailbox) != NULL)
            http_conn_deliver(run->conn);
    }
}

static void feed(struct run *run, const uint8_t *data, size_t len, size_t step, bool eof)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = MIN(step, len - at);
        http_conn_feed(run->conn, (struct str){(const char *)data + at, n});
        pump(run);
        http_conn_tick(run->conn, 0);
        pump(run);
    }
    if (eof) {
        http_conn_eof(run->conn);
        pump(run);
        assert(http_conn_next_action(run->conn) == HTTP_ACTION_CLOSE);
    }
}

static void execute(struct run *run, const uint8_t *data, size_t len, size_t step, int flags)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct http_route routes[] = {
        {HTTP_METHOD_GET, "/{path...}", on_request, run, 0},
        {HTTP_METHOD_POST, "/{path...}", on_request, run, 0},
    };

    *run = (struct run){.streams = flags & 4};
    run->shared.options.clock = clock;
    run->shared.options.limits = (struct http_limits){.body_bytes_max = 4096,
                                                      .ahead_bytes_max = INPUT_BYTES,
                                                      .head_bytes_max = 2048,
                                                      .target_bytes_max = 512,
                                                      .headers_max = 16};
    http_limits_complete(&run->shared.options.limits);
    run->shared.routes = routes;
    run->shared.routes_count = 2;
    run->shared.stats = http_stats_create();
    run->shared.mailbox = http_mailbox_create(clock, no_wake, NULL);
    buf_init(&run->seen, LOG_BYTES);
    buf_init(&run->sent, LOG_BYTES);
    run->conn = http_conn_create(&run->shared, STR("fuzz"), run);
    feed(run, data, len, step, flags & 1);
    http_conn_destroy(&run->conn);
    assert(run->shared.bodies_bytes == 0);
    assert(metric_value(run->shared.stats, HTTP_STAT_ACTIVE, 0) == 0);
    http_mailbox_close(run->shared.mailbox);
    http_mailbox_release(&run->shared.mailbox);
    metric_set_destroy(&run->shared.stats);
    clock_destroy_fake(&clock);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

/* Without a refusal, which can only be the last answer. */
static void cut_refusal(struct buf *sent)
{
    struct str rest = {buf_str(sent), sent->len};
    size_t at, cut = 0;

    while ((at = str_find(rest, STR("HTTP/1.1 "))) != SIZE_MAX) {
        rest = (struct str){rest.ptr + at + 9, rest.len - at - 9};
        if (rest.len > 0 && rest.ptr[0] >= '2' && rest.ptr[0] <= '5') /* not in a sentence */
            cut = (size_t)(rest.ptr - buf_str(sent));
    }
    if (str_find((struct str){buf_str(sent) + cut, sent->len - cut}, STR("connection: close")) !=
        SIZE_MAX)
        buf_truncate(sent, cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct run whole, pieces;

    if (len < HEAD_BYTES || len > INPUT_BYTES)
        return 0;
    const uint8_t *text = data + HEAD_BYTES;
    execute(&whole, text, len - HEAD_BYTES, INPUT_BYTES, data[1]);
    execute(&pieces, text, len - HEAD_BYTES, 1 + data[0] % 32, data[1]);
    assert(whole.handled == pieces.handled);
    assert(is_same(&whole.seen, &pieces.seen));
    cut_refusal(&whole.sent);
    cut_refusal(&pieces.sent);
    assert(is_same(&whole.sent, &pieces.sent));
    buf_fini(&whole.seen);
    buf_fini(&whole.sent);
    buf_fini(&pieces.seen);
    buf_fini(&pieces.sent);
    return 0;
}
