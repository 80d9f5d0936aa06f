/*
 * http_pair.c: see http_pair.h.
 */
#include "support/http_pair.h"

#include "base/clock.h"
#include "base/metric.h"
#include "http/reply_impl.h"
#include "http/problem.h"
#include "support/test.h"

enum { SENT_BYTES_MAX = 64 << 20 };

static void on_echo(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct http_pair *pair = arg;
    struct buf body;

    pair->handled++;
    buf_init(&body, SENT_BYTES_MAX);
    buf_appendf(&body, "%s " STR_FMT " " STR_FMT, http_method_name(request->method),
                STR_ARG(request->path), STR_ARG(request->body));
    http_reply_send(reply, &(struct http_head){.status = 200, .content_type = STR("text/plain")},
                    (struct str){body.data, body.len});
    buf_fini(&body);
}

static void on_close(void *arg)
{
    ((struct http_pair *)arg)->closed++;
}

static void on_drop(void *arg)
{
    ((struct http_pair *)arg)->dropped++;
}

static void on_hold(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct http_pair *pair = arg;

    (void)request;
    pair->handled++;
    assert_null(pair->held);
    pair->held = http_reply_acquire(reply);
    http_reply_on_close(reply, on_close, on_drop, pair);
}

static void on_take(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct buf body;

    http_request_take_body(request, &body);
    buf_fini(&body);
    on_hold(request, reply, arg);
}

static void on_none(struct http_request *request, struct http_reply *reply, void *arg)
{
    (void)request;
    (void)reply;
    ((struct http_pair *)arg)->handled++;
}

static struct http_route *make_routes(struct http_pair *pair)
{
    static struct http_route routes[7];

    routes[0] = (struct http_route){HTTP_METHOD_GET, "/echo", on_echo, pair, 0};
    routes[1] = (struct http_route){HTTP_METHOD_POST, "/echo", on_echo, pair, 0};
    routes[2] = (struct http_route){HTTP_METHOD_GET, "/hold", on_hold, pair, 0};
    routes[3] = (struct http_route){HTTP_METHOD_POST, "/hold", on_hold, pair, 0};
    routes[4] = (struct http_route){HTTP_METHOD_GET, "/none", on_none, pair, 0};
    routes[5] = (struct http_route){HTTP_METHOD_GET, "/item/{id}", on_echo, pair, 0};
    routes[6] = (struct http_route){HTTP_METHOD_POST, "/take", on_take, pair, 0};
    return routes;
}

/* http_pair_pump looks anyway. */
static void on_wake(void *arg)
{
    (void)arg;
}

void http_pair_init(struct http_pair *pair, const struct http_options *options)
{
    *pair = (struct http_pair){.clock = clock_create_fake(NS_PER_S, NS_PER_S)};
    if (options != NULL)
        pair->shared.options = *options;
    http_limits_complete(&pair->shared.options.limits);
    pair->shared.options.clock = pair->clock;
    pair->shared.routes = make_routes(pair);
    pair->shared.routes_count = 7;
    pair->shared.check_host = true;
    pair->shared.stats = http_stats_create();
    pair->shared.mailbox = http_mailbox_create(pair->clock, on_wake, pair);
    buf_init(&pair->sent, SENT_BYTES_MAX);
    pair->conn = http_conn_create(&pair->shared, STR("127.0.0.1"), pair);
}

void http_pair_fini(struct http_pair *pair)
{
    http_conn_destroy(&pair->conn);
    http_mailbox_close(pair->shared.mailbox);
    http_reply_release(&pair->held);
    http_mailbox_release(&pair->shared.mailbox);
    assert_int_equal(pair->shared.bodies_bytes, 0);
    assert_true(metric_value(pair->shared.stats, HTTP_STAT_ACTIVE, 0) == 0);
    assert_true(metric_value(pair->shared.stats, HTTP_STAT_CONNECTIONS, 0) == 0);
    metric_set_destroy(&pair->shared.stats);
    buf_fini(&pair->sent);
    clock_destroy_fake(&pair->clock);
}

void http_pair_reconnect(struct http_pair *pair)
{
    http_conn_destroy(&pair->conn);
    http_reply_release(&pair->held);
    buf_clear(&pair->sent);
    pair->conn = http_conn_create(&pair->shared, STR("127.0.0.1"), pair);
}

static void deliver(struct http_pair *pair)
{
    while (http_mailbox_next(pair->shared.mailbox) != NULL)
        http_conn_deliver(pair->conn);
}

void http_pair_pump(struct http_pair *pair)
{
    deliver(pair);
    while (http_conn_next_action(pair->conn) == HTTP_ACTION_NONE &&
           !list_empty(http_conn_output(pair->conn))) {
        size_t chunks = 0;
        LIST_FOREACH (struct http_chunk, chunk, http_conn_output(pair->conn), node) {
            buf_append(&pair->sent, chunk->data, chunk->len);
            chunks++;
        }
        http_conn_wrote(pair->conn, chunks);
        deliver(pair);
    }
}

void http_pair_feed(struct http_pair *pair, const char *text)
{
    http_conn_feed(pair->conn, str_from(text));
}

void http_pair_advance(struct http_pair *pair, uint64_t ms)
{
    clock_fake_advance(pair->clock, ms * NS_PER_MS);
    http_conn_tick(pair->conn, 0);
}

double http_pair_stat(const struct http_pair *pair, size_t stat, size_t label)
{
    return metric_value(pair->shared.stats, stat, label);
}
