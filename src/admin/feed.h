/*
 * feed.h: live events for the readers of /admin/events.
 *
 *      publish (any thread) --> [ ring of the last 1,024 ] --pump--> a stream per reader
 *
 * Publishing copies a line and never waits. A slow reader falls behind in the ring. Once its next
 * events are overwritten, it receives the number of lost events and continues with the oldest
 * available. So neither a slow reader nor many events use more memory than the ring and a bounded
 * stream.
 *
 * Threads: publish, subscribe and end from any; pump from one. Lock: LOCK_RANK_MONITOR, held only
 * to copy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/reply.h"

struct feed;

enum feed_kind { FEED_CACHE, FEED_REQUEST, FEED_MODEL, FEED_MEMORY, FEED_LOG, FEED_LOST };

enum {
    FEED_EVENTS = 1024,
    FEED_EVENT_BYTES_MAX = 2048, /* longer ones are not published */
    FEED_READERS_MAX = 16,
    FEED_WAITING_BYTES_MAX = 256 * 1024, /* written to a reader and not sent yet */
};

struct feed *feed_create(void);
/* No reader is left: the http server has stopped. Accepts a pointer to NULL. */
void feed_destroy(struct feed **feed);

/* `json` is one object on one line; its number is sent as the event's id. */
void feed_publish(struct feed *feed, enum feed_kind kind, struct str json);

/* Sends a stream that has begun all events after number `after` that are still available;
 * UINT64_MAX: only new ones. False: too many readers, or the feed has ended. On the loop thread, as
 * http_reply_on_close requires. */
bool feed_subscribe(struct feed *feed, struct http_reply *reply, uint64_t after) NODISCARD;

/* Writes pending events to readers, and frees disconnected ones. Never waits. */
void feed_pump(struct feed *feed);

/* Ends all streams and refuses new readers: the server is about to end. */
void feed_end(struct feed *feed);

size_t feed_readers(struct feed *feed);
