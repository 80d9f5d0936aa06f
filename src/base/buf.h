/*
 * buf.h: a byte buffer that grows up to a limit set by buf_init.
 *
 *        data                len            cap
 *         |<---- content ---->|<--- free --->|    cap <= limit; data[len] is NUL when data != NULL
 *
 * Errors stick: once an append has failed (no memory, limit), all later ones do nothing and return
 * the same error, so that a writer of many small pieces checks once, at the end. The content before
 * the failure stays as it was.
 *
 * Owner: the caller of buf_init. Not thread-safe.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct arena;

struct buf {
    char *data;
    size_t len;
    size_t cap;
    size_t limit; /* content never grows beyond this */
    enum err err; /* first failure since init or clear */
};

/* An empty buffer without memory. limit counts content bytes, not the NUL after them. */
void buf_init(struct buf *buf, size_t limit);
void buf_fini(struct buf *buf);

/* Appending. The result may be ignored if buf->err is checked later. */
enum err buf_append(struct buf *buf, const void *data, size_t len);
enum err buf_append_str(struct buf *buf, const char *text);
enum err buf_append_char(struct buf *buf, char c);
/* As in URLs: all but ASCII letters, digits and the characters of `plain` as %XX. */
enum err buf_append_percent(struct buf *buf, struct str text, const char *plain);
/* The reverse: %XX becomes a byte, and '+' a space if the text is a query. ERR_INVALID, with nothing
 * appended, for a '%' without two digits after it and for a NUL; or as buf_append. */
enum err buf_append_unescaped(struct buf *buf, struct str text, bool query) NODISCARD;
/* the fewest digits that read back as the same number */
enum err buf_append_double(struct buf *buf, double v);
enum err buf_appendf(struct buf *buf, const char *fmt, ...) PRINTF(2, 3);
enum err buf_vappendf(struct buf *buf, const char *fmt, va_list args) PRINTF(2, 0);

/* Makes room for `len` more bytes and returns where they go, for callers that fill memory
 * themselves; then buf_commit says how many were written. NULL on failure. The pointer is valid
 * until the next call on the buffer. */
char *buf_reserve(struct buf *buf, size_t len) NODISCARD;
void buf_commit(struct buf *buf, size_t len);

/* Drops the first len bytes (len <= buf->len); the rest moves to the front. */
void buf_consume(struct buf *buf, size_t len);

/* Shortens the content to len bytes (len <= buf->len). */
void buf_truncate(struct buf *buf, size_t len);

/* Clears content and error, keeps the memory. */
void buf_clear(struct buf *buf);

/* The content as a C string; "" for a buffer without memory. Borrowed until the next call on the
 * buffer. */
const char *buf_str(const struct buf *buf);
struct str buf_text(const struct buf *buf); /* the same with its length */

/* Moves the content out (NUL-terminated, freed with mem_free) and leaves an empty buffer. NULL
 * after a failure. */
char *buf_take(struct buf *buf) NODISCARD;
/* Moves the content to an arena and frees the buffer, also after a failure: buf->err or arena->err. */
enum err buf_move(struct buf *buf, struct arena *arena, struct str *out) NODISCARD;
