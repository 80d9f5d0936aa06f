/* buf.c: grows by half of its size, so that appending n bytes in small pieces costs O(n). */
#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"

enum { BUF_CAP_FIRST = 64 };

static void check_state(const struct buf *buf)
{
    assert(buf->len <= buf->limit);
    assert(buf->data == NULL ? buf->cap == 0 : buf->len < buf->cap);
    assert(buf->data == NULL || buf->data[buf->len] == '\0');
}

void buf_init(struct buf *buf, size_t limit)
{
    /* leaves room for the NUL and for growth by half without overflow */
    assert(limit < SIZE_MAX / 2);
    *buf = (struct buf){.limit = limit};
}

void buf_fini(struct buf *buf)
{
    mem_free(buf->data);
    *buf = (struct buf){.limit = buf->limit};
}

static enum err fail(struct buf *buf, enum err err)
{
    buf->err = err;
    return err;
}

/* Makes room for len more bytes and the NUL. */
static enum err grow(struct buf *buf, size_t len)
{
    if (buf->err != ERR_OK)
        return buf->err;
    if (len > buf->limit - buf->len)
        return fail(buf, ERR_LIMIT);
    size_t need = buf->len + len + 1;
    if (need <= buf->cap)
        return ERR_OK;
    size_t cap = MAX(buf->cap + buf->cap / 2, BUF_CAP_FIRST);
    cap = MIN(MAX(cap, need), buf->limit + 1);
    char *data = mem_try_realloc(buf->data, cap);
    if (data == NULL)
        return fail(buf, ERR_NOMEM);
    data[buf->len] = '\0';
    buf->data = data;
    buf->cap = cap;
    check_state(buf);
    return ERR_OK;
}

char *buf_reserve(struct buf *buf, size_t len)
{
    return grow(buf, len) == ERR_OK ? buf->data + buf->len : NULL;
}

void buf_commit(struct buf *buf, size_t len)
{
    assert(len < buf->cap - buf->len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    check_state(buf);
}

enum err buf_append(struct buf *buf, const void *data, size_t len)
{
    char *to = buf_reserve(buf, len);

    if (to == NULL)
        return buf->err;
    if (len > 0)
        memcpy(to, data, len);
    buf_commit(buf, len);
    return ERR_OK;
}

enum err buf_append_str(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

enum err buf_append_char(struct buf *buf, char c)
{
    return buf_append(buf, &c, 1);
}

enum err buf_append_percent(struct buf *buf, struct str text, const char *plain)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool keep = str_is_letter(c) || str_is_digit(c) || (c != '\0' && strchr(plain, c) != NULL);
        buf_appendf(buf, keep ? "%c" : "%%%02X", (unsigned char)c);
    }
    return buf->err;
}

/* The byte of the escape at `at`, or -1. */
static int escaped_byte(struct str text, size_t at)
{
    if (text.len - at < 3)
        return -1;
    int high = str_hex(text.ptr[at + 1]), low = str_hex(text.ptr[at + 2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

enum err buf_append_unescaped(struct buf *buf, struct str text, bool query)
{
    size_t start = buf->len;

    for (size_t at = 0; at < text.len; at++) {
        int c = (unsigned char)text.ptr[at];
        if (c == '+' && query)
            c = ' ';
        if (c == '%') {
            c = escaped_byte(text, at);
            at += 2;
        }
        if (c <= 0) {
            buf_truncate(buf, start);
            return ERR_INVALID;
        }
        buf_append_char(buf, (char)c);
    }
    return buf->err;
}

enum err buf_append_double(struct buf *buf, double v)
{
    char text[32];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    return buf_append_str(buf, text);
}

enum err buf_vappendf(struct buf *buf, const char *fmt, va_list args)
{
    va_list again;

    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    assert(len >= 0); /* our own format strings only */
    if (grow(buf, (size_t)len) == ERR_OK) {
        vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, again);
        buf_commit(buf, (size_t)len);
    }
    va_end(again);
    return buf->err;
}

enum err buf_appendf(struct buf *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    enum err err = buf_vappendf(buf, fmt, args);
    va_end(args);
    return err;
}

void buf_consume(struct buf *buf, size_t len)
{
    assert(len <= buf->len);
    if (len == 0)
        return;
    memmove(buf->data, buf->data + len, buf->len - len + 1);
    buf->len -= len;
    check_state(buf);
}

void buf_truncate(struct buf *buf, size_t len)
{
    assert(len <= buf->len);
    if (buf->data == NULL)
        return;
    buf->len = len;
    buf->data[len] = '\0';
}

void buf_clear(struct buf *buf)
{
    buf->err = ERR_OK;
    buf_truncate(buf, 0);
}

struct str buf_text(const struct buf *buf)
{
    return (struct str){buf_str(buf), buf->len};
}

const char *buf_str(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

char *buf_take(struct buf *buf)
{
    if (grow(buf, 0) != ERR_OK)
        return NULL;
    char *data = buf->data;
    *buf = (struct buf){.limit = buf->limit};
    return data;
}

enum err buf_move(struct buf *buf, struct arena *arena, struct str *out)
{
    enum err err = buf->err;

    if (err == ERR_OK) {
        *out = (struct str){arena_strdup(arena, buf_text(buf)), buf->len};
        err = out->ptr != NULL ? ERR_OK : arena->err;
    }
    buf_fini(buf);
    return err;
}
