/*
 * head.c: header lines cannot be forged: names are checked (they are our own literals), and control
 * characters in values are replaced.
 */
#include "http/head.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/problem.h"

static const struct http_header ours[] = {
    {STR("content-length"), {0}}, {STR("transfer-encoding"), {0}},
    {STR("connection"), {0}},     {STR("content-type"), {0}},
    {STR("date"), {0}},
};

bool http_status_bodiless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

static bool is_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.ptr[i]) && name.ptr[i] != '-')
            return false;
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        if (str_eq_nocase(name, ours[i].name))
            return false;
    return name.len > 0;
}

static void append_line(struct buf *out, struct str name, struct str value)
{
    buf_append(out, name.ptr, name.len);
    buf_append_str(out, ": ");
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        buf_append_char(out, c < 0x20 || c == 0x7f ? ' ' : (char)c);
    }
    buf_append_str(out, "\r\n");
}

/* In the format of the standard, whatever the locale. */
static void append_date(struct buf *out, uint64_t wall_ns)
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL)
        return;
    buf_appendf(out, "date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * tm.tm_wday,
                tm.tm_mday, months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                tm.tm_sec);
}

static void append_length(struct buf *out, int status, const struct http_frame *frame)
{
    if (http_status_bodiless(status))
        return;
    if (frame->length == HTTP_LENGTH_CHUNKED)
        buf_append_str(out, "transfer-encoding: chunked\r\n");
    else if (frame->length == HTTP_LENGTH_KNOWN)
        buf_appendf(out, "content-length: %" PRIu64 "\r\n", frame->bytes);
}

enum err http_head_append(struct buf *out, const struct http_head *head,
                          const struct http_frame *frame)
{
    assert(head->status >= 200 && head->status <= 599);
    buf_appendf(out, "HTTP/1.1 %d %s\r\n", head->status, http_status_phrase(head->status));
    append_date(out, frame->wall_ns);
    if (head->content_type.len > 0)
        append_line(out, STR("content-type"), head->content_type);
    append_length(out, head->status, frame);
    if (!frame->keep_alive)
        buf_append_str(out, "connection: close\r\n");
    else if (frame->old_client)
        buf_append_str(out, "connection: keep-alive\r\n");
    if (frame->cors_origin.len > 0) {
        append_line(out, STR("access-control-allow-origin"), frame->cors_origin);
        /* all: without it, a page cannot read retry-after or the id of its request */
        append_line(out, STR("access-control-expose-headers"), STR("*"));
    }
    if (frame->cors_checked)
        append_line(out, STR("vary"), STR("origin"));
    for (size_t i = 0; i < head->headers_count; i++) {
        assert(is_name(head->headers[i].name));
        append_line(out, head->headers[i].name, head->headers[i].value);
    }
    return buf_append_str(out, "\r\n");
}

struct http_chunk *http_head_chunk(const struct http_head *head, const struct http_frame *frame,
                                   struct str body)
{
    struct http_chunk *chunk = NULL;
    struct buf text;

    buf_init(&text, HTTP_HEAD_BYTES_MAX);
    if (http_head_append(&text, head, frame) == ERR_OK)
        chunk = http_chunk_create(buf_text(&text), body, STR_NONE);
    buf_fini(&text);
    return chunk;
}

/* ---- chunks: one allocation each ---- */

static char *put(char *to, struct str text)
{
    if (text.len > 0)
        memcpy(to, text.ptr, text.len);
    return to + text.len;
}

struct http_chunk *http_chunk_create(struct str before, struct str data, struct str after)
{
    size_t len, size;

    if (mem_add_overflows(before.len + after.len, data.len, &len) ||
        mem_add_overflows(sizeof(struct http_chunk), len, &size))
        return NULL;
    struct http_chunk *chunk = mem_try_alloc(size);
    if (chunk == NULL)
        return NULL;
    chunk->node = (struct list_node){0};
    chunk->len = len;
    put(put(put(chunk->data, before), data), after);
    return chunk;
}

struct http_chunk *http_chunk_frame(struct str data, bool chunked)
{
    char size[32];

    assert(data.len > 0);
    if (!chunked)
        return http_chunk_create(STR_NONE, data, STR_NONE);
    int len = snprintf(size, sizeof(size), "%zx\r\n", data.len);
    return http_chunk_create((struct str){size, (size_t)len}, data, STR("\r\n"));
}

void http_chunk_free_all(struct list *list)
{
    struct list_node *node;

    while ((node = list_pop_front(list)) != NULL)
        mem_free(CONTAINER_OF(node, struct http_chunk, node));
}
