/*
 * head.h: the head of an answer as bytes.
 */
#ifndef HEARTH_HTTP_HEAD_H
#define HEARTH_HTTP_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "http/reply.h"

enum { HTTP_HEAD_BYTES_MAX = 64 * 1024 };

/* How long the body is, said in one of three ways. */
enum http_length { HTTP_LENGTH_KNOWN, HTTP_LENGTH_CHUNKED, HTTP_LENGTH_TO_CLOSE };

struct http_frame {
    enum http_length length;
    uint64_t bytes; /* HTTP_LENGTH_KNOWN */
    bool keep_alive;
    bool old_client;        /* HTTP/1.0: has to be told that the connection stays */
    struct str cors_origin; /* empty: no CORS headers */
    bool cors_checked;      /* the answer depends on the Origin header */
    uint64_t wall_ns;
};

/* True for statuses that never have a body, nor a length. */
bool http_status_bodiless(int status);

/* Appends the status line, our headers, those of `head`, and the empty line. */
enum err http_head_append(struct buf *out, const struct http_head *head,
                          const struct http_frame *frame);

#endif
