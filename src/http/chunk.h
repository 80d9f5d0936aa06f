/*
 * chunk.h: bytes on their way to a client: pieces in a list, written by the system straight from
 * where they are.
 *
 *      first -> [ "HTTP/1.1 200 OK..." ] -> [ "1f\r\n" data "\r\n" ] -> [ "0\r\n\r\n" ]
 *
 * Owner: whoever holds the list. A chunk is made outside of any lock and then only linked.
 */
#ifndef HEARTH_HTTP_CHUNK_H
#define HEARTH_HTTP_CHUNK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/list.h"
#include "base/str.h"

struct http_chunk {
    struct list_node node;
    size_t len;
    char data[];
};

/* The three texts, one behind the other; NULL without memory. */
struct http_chunk *http_chunk_create(struct str before, struct str data,
                                     struct str after) NODISCARD;

/* `data` as one chunk of the chunked coding, or as it is. Of a length > 0: 0 would end the stream.
 */
struct http_chunk *http_chunk_frame(struct str data, bool chunked) NODISCARD;

void http_chunk_free_all(struct list *list);

#endif
