/*
 * events.c: GET /admin/events: a stream of events until the reader disconnects or the server ends;
 * and the watch, which detects changes and publishes them: events of the cache, states of models,
 * the memory level, warnings of the log.
 *
 * The loop thread only starts the stream; the monitor's thread polls the watch and writes (feed.h).
 */
#include "admin/admin_impl.h"

#include "admin/feed.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/pool.h"
#include "sched/memory.h"

/* ---- the stream ---- */

enum { KEEPALIVE_MS = 10000, NUMBER_BYTES_MAX = 32 };

/* ?after=, or the header that a browser sends when it reconnects; false: not a number. */
static bool read_after(const struct loop_request *req, uint64_t *after)
{
    struct str header;
    struct buf value;
    bool good = true;

    *after = UINT64_MAX;
    buf_init(&value, NUMBER_BYTES_MAX);
    if (http_query_get(req->request->query, STR("after"), &value) == ERR_OK)
        good = str_to_u64(buf_text(&value), after);
    else if (http_request_header(req->request, STR("last-event-id"), &header))
        (void)!str_to_u64(header, after);
    buf_fini(&value);
    return good;
}

void endpoint_admin_events(const struct loop_request *req)
{
    static const struct str keepalive = STR(": keep-alive\n\n");
    struct feed *feed = admin_of(req->api)->feed;
    struct api_error error = {0};
    uint64_t after;

    if (!read_after(req, &after)) {
        api_error_set(&error, API_ERROR_INVALID, "after", "'after' must be the id of an event");
        loop_fail(req, &error);
        return;
    }
    /* Checked before the stream's head says 200; all readers arrive on this thread. */
    if (feed_readers(feed) >= FEED_READERS_MAX || api_is_draining(req->api)) {
        api_error_set(
            &error, API_ERROR_BUSY, NULL,
            "The events have too many readers (at most %d), or the server is shutting down.",
            FEED_READERS_MAX);
        error.retry_after_s = 2;
        loop_fail(req, &error);
        return;
    }
    if (respond_stream(req->reply, "text/event-stream", req->request_id) != HTTP_OK)
        return;
    if (req->request->method == HTTP_METHOD_HEAD) {
        (void)http_reply_end(req->reply);
        return;
    }
    /* the first byte shows the reader that the stream is open */
    (void)http_reply_write(req->reply, keepalive);
    http_reply_keepalive(req->reply, KEEPALIVE_MS, keepalive);
    if (!feed_subscribe(feed, req->reply, after))
        (void)http_reply_end(req->reply);
}

/* ---- the watch ---- */

enum { BATCH = 64, ROUNDS = 16, MODELS_MAX = 1024 }; /* further models are not watched */

struct watch {
    struct admin *admin;
    uint64_t cache_number, log_number;
    enum pool_state models[MODELS_MAX];
    size_t models_count;
    enum guard_level level;
    bool begun; /* the first poll publishes nothing: it records the current state */
    struct hearth_event events[BATCH];
    struct log_line lines[BATCH];
};

struct watch *watch_create(struct admin *admin)
{
    struct watch *watch = mem_alloc(sizeof(*watch));

    watch->admin = admin;
    return watch;
}

void watch_destroy(struct watch **watch)
{
    mem_free(*watch);
    *watch = NULL;
}

/* Publishes the object in `body`, and finishes it. */
static void publish(struct watch *watch, enum feed_kind kind, struct json *json)
{
    json_close(json, '}');
    if (json->out->err == ERR_OK)
        feed_publish(watch->admin->feed, kind, buf_text(json->out));
    buf_fini(json->out);
}

static void publish_event(struct watch *watch, const struct hearth_event *event)
{
    struct buf body;
    struct json json = json_begin(&body, FEED_EVENT_BYTES_MAX, '{');

    json_key_uint(&json, "number", event->number);
    json_key_float(&json, "when", (double)(event->wall_ns / NS_PER_MS) / 1000.0);
    json_key_text(&json, "event", hearth_event_name(event->kind));
    json_key_uint(&json, "request", event->request);
    json_key_uint(&json, "prompt_tokens", event->prompt_tokens);
    json_key_uint(&json, "read_tokens", event->read_tokens);
    json_key_uint(&json, "write_tokens", event->write_tokens);
    json_key_uint(&json, "bytes", event->bytes);
    json_key_text(&json, "tier",
                  event->tier < HEARTH_TIER_COUNT ? hearth_tier_name(event->tier) : NULL);
    json_key_text(&json, "match", hearth_match_name(event->match));
    json_key_text(&json, "reason", hearth_reason_name(event->reason));
    json_key_uint(&json, "first_difference", event->first_difference);
    json_key_text(&json, "object",
                  event->object > 0 ? hearth_object_kind_name(event->object) : NULL);
    json_key_uint(&json, "position", event->position);
    json_key_float(&json, "seconds", (double)event->us / 1e6);
    publish(watch, FEED_CACHE, &json);
}

static void poll_cache(struct watch *watch)
{
    struct hearth_cache *cache = watch->admin->cache;

    for (int round = 0; cache && round < ROUNDS; round++) {
        size_t count = hearth_events_read(cache, watch->cache_number, watch->events, BATCH);

        for (size_t i = 0; i < count; i++) {
            if (watch->begun)
                publish_event(watch, &watch->events[i]);
            watch->cache_number = watch->events[i].number;
        }
        if (count < BATCH)
            break;
    }
}

static void publish_model(struct watch *watch, const struct pool_view *view)
{
    struct buf body;
    struct json json = json_begin(&body, FEED_EVENT_BYTES_MAX, '{');

    json_key_text(&json, "model", view->name);
    json_key_text(&json, "state", pool_state_name(view->state));
    json_key_uint(&json, "memory_bytes", view->bytes);
    json_key_float(&json, "load_s", view->load_s);
    json_key_text(&json, "error", view->error.code != ERR_OK ? view->error.text : NULL);
    publish(watch, FEED_MODEL, &json);
}

static void poll_models(struct watch *watch)
{
    struct pool *pool = atomic_load_explicit(&watch->admin->pool, memory_order_acquire);
    size_t count = pool ? MIN(pool_count(pool), MODELS_MAX) : 0;

    for (size_t i = 0; i < count; i++) {
        struct pool_view view;
        bool known = i < watch->models_count;

        if (!pool_view(pool, i, &view))
            continue;
        if (watch->begun && (!known || watch->models[i] != view.state))
            publish_model(watch, &view);
        watch->models[i] = view.state;
    }
    watch->models_count = count;
}

static void poll_memory(struct watch *watch)
{
    struct memory_view view;
    struct buf body;
    struct json json;

    if (!watch->admin->memory)
        return;
    memory_get_view(watch->admin->memory, &view);
    if (watch->begun && view.level != watch->level) {
        json = json_begin(&body, FEED_EVENT_BYTES_MAX, '{');
        props_write_memory(&json, &view);
        publish(watch, FEED_MEMORY, &json);
    }
    watch->level = view.level;
}

static void publish_line(struct watch *watch, const struct log_line *line)
{
    struct buf body;
    struct json json = json_begin(&body, FEED_EVENT_BYTES_MAX, '{');

    json_key_float(&json, "when", (double)(line->wall_ns / NS_PER_MS) / 1000.0);
    json_key_text(&json, "level", log_level_name(line->level));
    json_key_text(&json, "tag", line->tag);
    json_key_text(&json, "message", line->text);
    publish(watch, FEED_LOG, &json);
}

static void poll_log(struct watch *watch)
{
    size_t count = log_read(watch->admin->log, watch->log_number, watch->lines, BATCH);

    for (size_t i = 0; i < count; i++) {
        if (watch->begun)
            publish_line(watch, &watch->lines[i]);
        watch->log_number = watch->lines[i].number;
    }
}

void watch_poll(struct watch *watch)
{
    poll_cache(watch);
    poll_models(watch);
    poll_memory(watch);
    poll_log(watch);
    watch->begun = true;
}
