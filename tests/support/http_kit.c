/*
 * http_kit.c: see http_kit.h.
 */
#include "support/http_kit.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "support/http_client.h"
#include "support/test.h"

enum { WAIT_S = 20, ECHO_BYTES_MAX = 128 << 20, EVENT_BYTES = 1024 };

struct stream {
    struct http_kit *kit;
    struct http_reply *reply;
    atomic_int refs; /* its thread, and the registration of on_close */
    uint64_t events;
    atomic_bool gone;
};

static const struct http_head ok = {.status = 200, .content_type = STR("text/plain")};

static void on_echo(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct buf body;

    (void)arg;
    buf_init(&body, ECHO_BYTES_MAX);
    buf_appendf(&body, "%s " STR_FMT " ", http_method_name(request->method),
                STR_ARG(request->path));
    buf_append(&body, request->body.ptr, request->body.len);
    http_reply_send(reply, &ok, (struct str){body.data, body.len});
    buf_fini(&body);
}

static void bump(struct http_kit *kit, unsigned *counter)
{
    lock_enter(&kit->lock);
    ++*counter;
    cond_broadcast(&kit->changed);
    lock_leave(&kit->lock);
}

static void on_close(void *arg)
{
    struct http_kit *kit = arg;

    bump(kit, &kit->closed);
}

static void on_drop(void *arg)
{
    struct http_kit *kit = arg;

    bump(kit, &kit->dropped);
}

static void on_hold(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct http_kit *kit = arg;

    (void)request;
    http_reply_on_close(reply, on_close, on_drop, kit);
    lock_enter(&kit->lock);
    assert_true(kit->held_count < HTTP_KIT_HELD_MAX);
    kit->held[kit->held_count++] = http_reply_acquire(reply);
    cond_broadcast(&kit->changed);
    lock_leave(&kit->lock);
}

static void on_stream_close(void *arg)
{
    struct stream *stream = arg;

    atomic_store(&stream->gone, true);
    bump(stream->kit, &stream->kit->closed);
}

static void note_waiting(struct http_kit *kit, size_t waiting)
{
    lock_enter(&kit->lock);
    kit->waiting_max = MAX(kit->waiting_max, waiting);
    lock_leave(&kit->lock);
}

static void run_stream(void *arg)
{
    struct stream *stream = arg;
    struct http_kit *kit = stream->kit;
    char event[EVENT_BYTES];

    memset(event, 'e', sizeof(event));
    http_reply_begin(stream->reply, &ok);
    while (stream->events > 0 && !atomic_load(&stream->gone)) {
        enum http_result result =
            http_reply_write(stream->reply, (struct str){event, sizeof(event)});
        note_waiting(kit, http_reply_waiting(stream->reply));
        if (result == HTTP_GONE)
            break;
        if (result == HTTP_OK)
            stream->events--;
        else
            clock_sleep_ns(clock_real(), NS_PER_MS); /* full: the client is slow */
    }
    http_reply_end(stream->reply);
    http_reply_release(&stream->reply);
}

static void unref_stream(struct stream *stream)
{
    if (atomic_fetch_sub(&stream->refs, 1) == 1)
        mem_free(stream);
}

static void drop_stream(void *arg)
{
    struct stream *stream = arg;
    struct http_kit *kit = stream->kit;

    unref_stream(stream);
    bump(kit, &kit->dropped);
}

static void stream_main(void *arg)
{
    struct stream *stream = arg;
    struct http_kit *kit = stream->kit;

    run_stream(stream);
    unref_stream(stream);
    lock_enter(&kit->lock);
    kit->streams--;
    cond_broadcast(&kit->changed);
    lock_leave(&kit->lock);
}

static void on_stream(struct http_request *request, struct http_reply *reply, void *arg)
{
    struct http_kit *kit = arg;
    struct stream *stream = mem_alloc(sizeof(*stream));
    struct thread thread = {0};
    struct errinfo info;

    stream->kit = kit;
    atomic_init(&stream->refs, 2);
    assert_true(str_to_u64(request->captures[0], &stream->events));
    stream->reply = http_reply_acquire(reply);
    http_reply_on_close(reply, on_stream_close, drop_stream, stream);
    lock_enter(&kit->lock);
    kit->streams++;
    lock_leave(&kit->lock);
    assert_ok(thread_start(&thread, "stream", stream_main, stream, &info));
    pthread_detach(thread.id);
}

void http_kit_start(struct http_kit *kit, const struct http_options *options)
{
    struct http_options chosen = options != NULL ? *options : (struct http_options){.tick_ms = 5};
    struct errinfo info;

    if (http_client_uses_tls()) {
        chosen.tls_cert = TEST_CERT;
        chosen.tls_key = TEST_KEY;
    }

    *kit = (struct http_kit){
        .routes =
            {
                {HTTP_METHOD_GET, "/echo", on_echo, kit, 0},
                {HTTP_METHOD_POST, "/echo", on_echo, kit, 0},
                {HTTP_METHOD_GET, "/echo/{rest...}", on_echo, kit, 0},
                {HTTP_METHOD_GET, "/hold", on_hold, kit, 0},
                {HTTP_METHOD_POST, "/hold", on_hold, kit, 0},
                {HTTP_METHOD_GET, "/stream/{events}", on_stream, kit, 0},
            },
    };
    lock_init(&kit->lock, "kit", LOCK_RANK_TEST_LOW);
    cond_init(&kit->changed);
    if (http_server_start(&chosen, kit->routes, 6, &kit->server, &info) != ERR_OK)
        fail_msg("%s", info.text);
    kit->port = http_server_port(kit->server);
}

static void wait_change(struct http_kit *kit, uint64_t deadline)
{
    if (!cond_wait_until(&kit->changed, &kit->lock, deadline)) {
        lock_leave(&kit->lock);
        fail_msg("waited in vain");
    }
}

static uint64_t deadline_ns(void)
{
    return clock_deadline_ns(clock_real(), WAIT_S * NS_PER_S);
}

void http_kit_stop(struct http_kit *kit)
{
    uint64_t deadline = deadline_ns();

    http_server_stop(&kit->server);
    lock_enter(&kit->lock);
    while (kit->streams > 0)
        wait_change(kit, deadline);
    lock_leave(&kit->lock);
    for (size_t i = 0; i < kit->held_count; i++)
        http_reply_release(&kit->held[i]);
    cond_fini(&kit->changed);
    lock_fini(&kit->lock);
}

struct http_reply *http_kit_held(struct http_kit *kit)
{
    uint64_t deadline = deadline_ns();

    lock_enter(&kit->lock);
    while (kit->held_count == 0)
        wait_change(kit, deadline);
    struct http_reply *reply = kit->held[0];
    kit->held_count--;
    memmove(kit->held, kit->held + 1, kit->held_count * sizeof(reply));
    lock_leave(&kit->lock);
    return reply;
}

void http_kit_wait_closed(struct http_kit *kit, unsigned count)
{
    uint64_t deadline = deadline_ns();

    lock_enter(&kit->lock);
    while (kit->closed < count)
        wait_change(kit, deadline);
    lock_leave(&kit->lock);
}

double http_kit_stat(struct http_kit *kit, size_t stat, size_t label)
{
    return metric_value(http_server_metrics(kit->server), stat, label);
}

static void wait_stat(struct http_kit *kit, size_t stat, size_t label, double value, double sign)
{
    uint64_t deadline = deadline_ns();

    while (sign * http_kit_stat(kit, stat, label) < sign * value) {
        if (clock_mono_ns(clock_real()) > deadline)
            fail_msg("counter %zu is %f, not %f", stat, http_kit_stat(kit, stat, label), value);
        clock_sleep_ns(clock_real(), NS_PER_MS);
    }
}

void http_kit_wait_stat(struct http_kit *kit, size_t stat, size_t label, double value)
{
    wait_stat(kit, stat, label, value, 1);
}

void http_kit_wait_stat_down(struct http_kit *kit, size_t stat, size_t label, double value)
{
    wait_stat(kit, stat, label, value, -1);
}
