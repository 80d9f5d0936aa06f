/*
 * events.c: GET /admin/events: a stream of what happens, until the reader leaves or the server
 * ends.
 *
 * The loop thread only begins the stream; the monitor's thread writes into it (feed.h).
 */
#include "admin/admin_impl.h"

#include "admin/feed.h"

enum { KEEPALIVE_MS = 10000, NUMBER_BYTES_MAX = 32 };

/* ?after=, or what a browser sends when it comes back; false: it is no number. */
static bool read_after(const struct loop_request *req, uint64_t *after)
{
    struct str header;
    struct buf value;
    bool good = true;

    *after = UINT64_MAX;
    buf_init(&value, NUMBER_BYTES_MAX);
    if (http_query_get(req->request->query, STR("after"), &value) == ERR_OK)
        good = str_to_u64((struct str){buf_str(&value), value.len}, after);
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
    /* Looked at before the head of the stream says 200; all readers come on this thread. */
    if (feed_readers(feed) >= FEED_READERS_MAX || api_is_draining(req->api)) {
        api_error_set(&error, API_ERROR_BUSY, NULL,
                      "Too many read the events (%d), or the server ends.", FEED_READERS_MAX);
        error.retry_after_s = 2;
        loop_fail(req, &error);
        return;
    }
    if (respond_stream(req->reply, req->request_id) != HTTP_OK)
        return;
    /* who waits for the first byte knows that it is there */
    (void)http_reply_write(req->reply, keepalive);
    http_reply_keepalive(req->reply, KEEPALIVE_MS, keepalive);
    if (!feed_subscribe(feed, req->reply, after))
        (void)http_reply_end(req->reply);
}
