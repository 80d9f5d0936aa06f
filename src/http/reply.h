/*
 * reply.h: the answer to one request: a counted handle that any thread may use, at any time, also
 * after the client or the server is gone.
 *
 *      whole     http_reply_send
 *      stream    http_reply_begin, http_reply_write ..., http_reply_end
 *
 * A stream is sent in chunks (HTTP/1.1), or ended by closing the connection (HTTP/1.0). What is
 * written is copied into a bounded queue and sent by the loop thread; nothing here waits. HEAD
 * requests are answered in the same way, and no body is sent.
 *
 *      handler      borrows its handle for the call, as all pointers; http_reply_acquire keeps it
 *      others       each acquire has its release
 *
 * When the last handle is released and nothing was answered, the client gets a 500; when a stream
 * was begun and not ended, the connection is broken off, so that the client does not take half an
 * answer for a whole one.
 *
 * Threads: any. The functions lock (rank LOCK_RANK_QUEUE) for the time of a copy.
 */
#ifndef HEARTH_HTTP_REPLY_H
#define HEARTH_HTTP_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"
#include "http/request.h"

struct http_reply;

enum http_result {
    HTTP_OK,
    /* too much waits for this client (or no memory): nothing was taken; try later, or give up */
    HTTP_FULL,
    HTTP_GONE, /* the client is gone, or the answer is ended: no call can succeed any more */
};

struct http_head {
    int status;              /* 200 ... 599; 204 and 304 have no body */
    struct str content_type; /* empty: no such header */
    const struct http_header *
        /* more of them. Not content-length, transfer-encoding, connection, date: those are ours */
        headers;
    size_t headers_count;
};

struct http_reply *http_reply_acquire(struct http_reply *reply);
void http_reply_release(struct http_reply **reply);

/* The whole answer. Control characters in header values are sent as spaces. HTTP_FULL when it is
 * larger than limits.answer_bytes_max: then nothing was answered yet. */
enum http_result http_reply_send(struct http_reply *reply, const struct http_head *head,
                                 struct str body);

enum http_result http_reply_begin(struct http_reply *reply, const struct http_head *head);

/* All of `data` or nothing; HTTP_FULL beyond limits.stream_bytes_max of what was written and not
 * yet given to the system. After a HTTP_FULL the room is back when http_reply_waiting has gone
 * down; a client that takes nothing for limits.write_ms is closed. */
enum http_result http_reply_write(struct http_reply *reply, struct str data);
size_t http_reply_waiting(struct http_reply *reply);

/* Never HTTP_FULL. After it nothing else can be written, and on_close is not called any more. */
enum http_result http_reply_end(struct http_reply *reply);

/* Breaks the connection off: for a stream that cannot be ended properly. on_close is not called. */
void http_reply_abort(struct http_reply *reply);

/* `fn` is called on the loop thread, once, when the client is gone (it closed, the connection
 * broke, it took nothing for too long, the server is stopped) before the answer was ended; at once
 * (still on the loop thread) if it is gone already. It must not block. As it may be about to run
 * while another thread calls http_reply_end, `arg` must live until `drop` (may be NULL) was called:
 * once, on any thread, when `fn` has been called or can never be. One registration per reply. */
typedef void (*http_close_fn)(void *arg);
void http_reply_on_close(struct http_reply *reply, http_close_fn fn, http_close_fn drop, void *arg);

/* Sends `text` (at most 4 KiB, copied) into a stream whenever nothing was written into it for that
 * long; a later call replaces it; interval 0 ends it. Ends with the stream (keeps I80). */
void http_reply_keepalive(struct http_reply *reply, uint64_t interval_ms, struct str text);

#endif
