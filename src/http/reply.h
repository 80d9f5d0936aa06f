/*
 * reply.h: the answer to one request: a counted handle that any thread may use at any time, even
 * after the client or the server is gone.
 *
 *      whole     http_reply_send
 *      stream    http_reply_begin, http_reply_write ..., http_reply_end
 *
 * A stream is sent in chunks (HTTP/1.1) or ended by closing the connection (HTTP/1.0). Writes are
 * copied into a bounded queue and sent by the loop thread; nothing here blocks. HEAD requests are
 * answered the same way, without sending the body.
 *
 *      handler      borrows its handle for the call, like all pointers; http_reply_acquire keeps it
 *      others       each acquire needs a release
 *
 * When the last handle is released without an answer, the client gets a 500. If a stream was begun
 * and not ended, the connection is aborted, so that the client does not take half an answer for a
 * whole one.
 *
 * Threads: any. The functions hold a lock (rank LOCK_RANK_QUEUE) for the time of a copy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/request.h"

struct http_reply;

enum http_result {
    HTTP_OK,
    /* too many bytes queued for this client (or no memory): nothing was taken; retry or give up */
    HTTP_FULL,
    HTTP_GONE, /* the client is gone or the answer has ended: no further call can succeed */
};

struct http_head {
    int status;              /* 200 ... 599; 204 and 304 have no body */
    struct str content_type; /* empty: no such header */
    const struct http_header *
        /* others, except content-length, transfer-encoding, connection and date: we set those */
        headers;
    size_t headers_count;
};

struct http_reply *http_reply_acquire(struct http_reply *reply);
void http_reply_release(struct http_reply **reply);

/* The whole answer. Control characters in header values are sent as spaces. HTTP_FULL if it exceeds
 * limits.answer_bytes_max: then nothing has been answered yet. */
enum http_result http_reply_send(struct http_reply *reply, const struct http_head *head,
                                 struct str body);

enum http_result http_reply_begin(struct http_reply *reply, const struct http_head *head);

/* Before http_reply_begin: the head and what is written after it wait until http_reply_let_go, the
 * end of the stream, or until the client has received nothing for that long since its request (then
 * they are sent like a keep-alive text). */
void http_reply_hold(struct http_reply *reply, uint64_t ms);
void http_reply_let_go(struct http_reply *reply);
/* True: nothing of a stream that is held was sent, and it is dropped: http_reply_send or
 * http_reply_begin may follow. */
bool http_reply_take_back(struct http_reply *reply);

/* All of `data` or nothing. HTTP_FULL if more than limits.stream_bytes_max would be written but not
 * yet handed to the system. After HTTP_FULL there is room again once http_reply_waiting has gone
 * down. A client that takes nothing for limits.write_ms is closed. */
enum http_result http_reply_write(struct http_reply *reply, struct str data);
size_t http_reply_waiting(struct http_reply *reply);

/* Never HTTP_FULL. Nothing can be written afterwards, and on_close is no longer called. */
enum http_result http_reply_end(struct http_reply *reply);

/* Aborts the connection: for a stream that cannot be ended properly. on_close is not called. */
void http_reply_abort(struct http_reply *reply);

/* `fn` is called once, on the loop thread, if the client is gone before the answer has ended (it
 * closed, the connection broke, it took nothing for too long, the server was stopped); at once
 * (still on the loop thread) if it is gone already. It must not block. It may be about to run while
 * another thread calls http_reply_end, so `arg` must live until `drop` (may be NULL) was called:
 * once, on any thread, when `fn` has been called or can never be. One registration per reply. */
typedef void (*http_close_fn)(void *arg);
void http_reply_on_close(struct http_reply *reply, http_close_fn fn, http_close_fn drop, void *arg);

enum { HTTP_KEEPALIVE_BYTES_MAX = 4096 };

/* Sends `text` (at most HTTP_KEEPALIVE_BYTES_MAX, copied) into a stream whenever nothing was written
 * to it for the interval. A later call replaces it; interval 0 stops it. Ends with the stream (keeps
 * I80). */
void http_reply_keepalive(struct http_reply *reply, uint64_t interval_ms, struct str text);
