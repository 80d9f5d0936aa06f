/*
 * reply_impl.h: the loop's side of replies.
 *
 *      any thread                    mailbox (one lock)                         loop thread
 *      http_reply_write  ---------->  reply->chunks, list of replies  --------->  http_mailbox_next, http_reply_collect
 *                         wake()      with news                                   http_reply_written, http_reply_detach
 *
 * A mailbox is counted by the replies that use it and by its server, so that handles stay valid
 * when the server is gone. All that threads share is guarded by its one lock, which is held for a
 * few instructions and the linking of a chunk.
 */
#ifndef HEARTH_HTTP_REPLY_IMPL_H
#define HEARTH_HTTP_REPLY_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "http/reply.h"

struct clock;
struct http_mailbox;

/* `wake` is called with the lock held, from any thread, and makes the loop call http_mailbox_next;
 * it must not block. */
struct http_mailbox *http_mailbox_create(const struct clock *clock, void (*wake)(void *arg),
                                         void *arg);
/* The loop ends: `wake` is not called any more, and nobody waits for news. No reply is attached by
 * then. */
void http_mailbox_close(struct http_mailbox *mailbox);
void http_mailbox_release(struct http_mailbox **mailbox);
/* From now on answers say "connection: close". */
void http_mailbox_drain(struct http_mailbox *mailbox);

/* The owner of the next reply with news, which it then collects; NULL: there is none. */
void *http_mailbox_next(struct http_mailbox *mailbox);

/* What a new reply has to know of its request. */
struct http_reply_options {
    void *owner; /* what http_mailbox_next answers; the loop's */
    enum http_method method;
    unsigned version_minor;
    bool keep_alive;
    struct str cors_origin; /* copied */
    bool cors_checked;
    uint64_t answer_bytes_max, stream_bytes_max;
};

/* Attached to its owner, and with one handle, which is the handler's. */
struct http_reply *http_reply_create(struct http_mailbox *mailbox,
                                     const struct http_reply_options *options);

struct http_news {
    bool ended;      /* all of it is in `chunks` */
    bool aborted;    /* break off */
    bool abandoned;  /* nobody has a handle any more, and nothing was answered */
    bool keep_alive; /* the connection may go on afterwards */
    /* the end of the body is the end of the connection: breaking off has to be seen as such */
    bool to_close;
    uint64_t keepalive_ns; /* 0: no keep-alive text */
};

/* Moves what was written to the end of `chunks`. */
void http_reply_collect(struct http_reply *reply, struct list *chunks, struct http_news *news);

/* `bytes` of what was collected are with the system now. */
void http_reply_written(struct http_reply *reply, size_t bytes);

/* Writes the keep-alive text into the stream, if nothing waits there already. */
void http_reply_send_keepalive(struct http_reply *reply);

/* The connection is done with it, or gone: calls on_close if the answer was not ended. True when
 * that was so. The reply may be gone after it. */
bool http_reply_detach(struct http_reply *reply);

#endif
