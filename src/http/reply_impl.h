/*
 * reply_impl.h: the loop's side of replies.
 *
 *      any thread                  mailbox (one lock)                loop thread
 *      http_reply_write  ------->  reply->chunks,  --------------->  http_mailbox_next
 *                         wake()   list of pending replies           http_reply_collect
 *                                                                    http_reply_written
 *                                                                    http_reply_detach
 *
 * A mailbox is reference-counted by its replies and by its server, so that handles stay valid after
 * the server is gone. All shared state is guarded by its one lock, which is held for a few
 * instructions and the linking of a chunk.
 */
#pragma once

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
/* The loop ends: `wake` is no longer called, and updates are no longer delivered. No reply may be
 * attached by then. */
void http_mailbox_close(struct http_mailbox *mailbox);
void http_mailbox_release(struct http_mailbox **mailbox);
/* From now on answers say "connection: close". */
void http_mailbox_drain(struct http_mailbox *mailbox);

/* The owner of the next reply with an update, which it then collects; NULL = none. */
void *http_mailbox_next(struct http_mailbox *mailbox);

/* What a new reply needs to know about its request. */
struct http_reply_options {
    void *owner; /* what http_mailbox_next returns; used by the loop */
    enum http_method method;
    unsigned version_minor;
    bool keep_alive;
    struct str cors_origin; /* copied */
    bool cors_checked;
    uint64_t answer_bytes_max, stream_bytes_max;
};

/* Attached to its owner, with one handle, which belongs to the handler. */
struct http_reply *http_reply_create(struct http_mailbox *mailbox,
                                     const struct http_reply_options *options);

struct reply_update {
    bool ended;      /* all of it is in `chunks` */
    bool aborted;    /* abort the connection */
    bool abandoned;  /* all handles are released, and nothing was answered */
    bool keep_alive; /* the connection may go on afterwards */
    /* the body ends with the connection: an abort must be visible to the client as such */
    bool to_close;
    uint64_t keepalive_ns; /* 0 = no keep-alive text */
};

/* Moves written chunks to the end of `chunks`. */
void http_reply_collect(struct http_reply *reply, struct list *chunks, struct reply_update *update);

/* `bytes` of the collected chunks were handed to the system. */
void http_reply_written(struct http_reply *reply, size_t bytes);

/* Writes the keep-alive text into the stream, unless data is already queued there. A stream that is
 * held is let go instead. */
void http_reply_send_keepalive(struct http_reply *reply);

/* The connection is done with the reply, or gone: calls on_close if the answer had not ended, and
 * returns whether that was so. The reply may be freed afterwards. */
bool http_reply_detach(struct http_reply *reply);
