/*
 * sse.c: the framing of https://html.spec.whatwg.org/#event-stream-interpretation.
 *
 * A line of the stream is ended by CR, LF or CRLF, so that each of them inside the data begins a
 * new "data:" line: none can end the event early or begin a field of its own. JSON on one line, the
 * usual content, takes the short way.
 */
#include "http/sse.h"

/* The first line of `rest`; `rest` becomes what is behind its end. False when nothing is behind it.
 */
static bool next_line(struct str *rest, struct str *line)
{
    size_t at = 0;

    while (at < rest->len && rest->ptr[at] != '\r' && rest->ptr[at] != '\n')
        at++;
    *line = (struct str){rest->ptr, at};
    if (at == rest->len)
        return false;
    size_t end = rest->ptr[at] == '\r' && at + 1 < rest->len && rest->ptr[at + 1] == '\n' ? 2 : 1;
    *rest = (struct str){rest->ptr + at + end, rest->len - at - end};
    return true;
}

static void append_line(struct buf *out, const char *field, struct str value)
{
    buf_append_str(out, field);
    buf_append(out, value.ptr, value.len);
    buf_append_char(out, '\n');
}

/* Ends an event that began at `start`: all of it, or nothing. */
static enum err finish(struct buf *out, size_t start)
{
    enum err err = buf_append_char(out, '\n');

    if (err != ERR_OK)
        buf_truncate(out, start);
    return err;
}

enum err sse_event(struct buf *out, struct str name, struct str data)
{
    size_t start = out->len;
    struct str line;
    bool more;

    if (name.len > 0) {
        next_line(&name, &line);
        append_line(out, "event: ", line);
    }
    do {
        more = next_line(&data, &line);
        append_line(out, "data: ", line);
    } while (more);
    return finish(out, start);
}
