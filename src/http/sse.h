/*
 * sse.h: server-sent events as bytes, for http_reply_write. Content type: text/event-stream.
 *
 * Threads: any; the buffer is the caller's.
 */
#ifndef HEARTH_HTTP_SSE_H
#define HEARTH_HTTP_SSE_H

#include "base/buf.h"
#include "base/str.h"

/* Appends one event: "event: NAME" unless the name is empty, a "data: " line for each line of
 * `data` (CR, LF or CRLF end one), an empty line. A name has no line ends: they would forge an
 * event, so it is cut at the first. Fails as buf_append does, with nothing appended. */
enum err sse_event(struct buf *out, struct str name, struct str data);

#endif
