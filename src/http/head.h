/* head.h: an answer as bytes: its head, and its queued chunks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "http/reply.h"

enum { HTTP_HEAD_BYTES_MAX = 64 * 1024 };

/* How the length of the body is announced. */
enum http_length { HTTP_LENGTH_KNOWN, HTTP_LENGTH_CHUNKED, HTTP_LENGTH_TO_CLOSE };

struct http_frame {
    enum http_length length;
    uint64_t bytes; /* HTTP_LENGTH_KNOWN */
    bool keep_alive;
    bool old_client;        /* HTTP/1.0: needs an explicit "keep-alive" */
    struct str cors_origin; /* empty: no CORS headers */
    bool cors_checked;      /* the answer depends on the Origin header */
    uint64_t wall_ns;
};

/* True for statuses that never have a body or a length. */
bool http_status_bodiless(int status);

/* Appends the status line, our headers, those of `head`, and the empty line. */
enum err http_head_append(struct buf *out, const struct http_head *head,
                          const struct http_frame *frame);

struct http_chunk;
/* The head followed by `body`, which `frame` announces; NULL when out of memory. */
struct http_chunk *http_head_chunk(const struct http_head *head, const struct http_frame *frame,
                                   struct str body) NODISCARD;

/* Bytes queued for a client: a list of pieces that the system writes in place, without another
 * copy. Owner: the holder of the list. A chunk is made outside any lock and then only linked.
 *
 *      first -> [ "HTTP/1.1 200 OK..." ] -> [ "1f\r\n" data "\r\n" ] -> [ "0\r\n\r\n" ]
 */
struct http_chunk {
    struct list_node node;
    size_t len;
    char data[];
};

/* Concatenates the three texts; NULL when out of memory. */
struct http_chunk *http_chunk_create(struct str before, struct str data,
                                     struct str after) NODISCARD;

/* `data` as one chunk of the chunked coding, or unchanged. It must not be empty: a chunk of length
 * 0 would end the stream. */
struct http_chunk *http_chunk_frame(struct str data, bool chunked) NODISCARD;

void http_chunk_free_all(struct list *list);
