/*
 * respond.c: sends whole answers and errors.
 *
 * The request's id is sent under both names: OpenAI's clients show x-request-id, Anthropic's
 * request-id.
 */
#include "serve/respond.h"

#include <stdio.h>

enum { HEADERS_MAX = 6 };

struct headers {
    struct http_header list[HEADERS_MAX];
    size_t count;
};

static void add(struct headers *headers, const char *name, const char *value)
{
    headers->list[headers->count++] = (struct http_header){str_from(name), str_from(value)};
}

static struct headers with_id(const char *request_id)
{
    struct headers headers = {.count = 0};

    add(&headers, "x-request-id", request_id);
    add(&headers, "request-id", request_id);
    return headers;
}

static void send(struct http_reply *reply, int status, const char *content_type,
                 const struct headers *headers, struct str body)
{
    struct http_head head = {
        .status = status,
        .content_type = str_from(content_type),
        .headers = headers->list,
        .headers_count = headers->count,
    };

    /* An answer too large for http or for memory must not look like a lost one. */
    if (http_reply_send(reply, &head, body) == HTTP_FULL) {
        head.status = 500;
        (void)http_reply_send(reply, &head,
                              STR("{\"error\":{\"message\":\"The answer is too large.\","
                                  "\"type\":\"server_error\",\"code\":500}}"));
    }
}

static void send_buf(struct http_reply *reply, int status, const char *content_type,
                     const char *request_id, const struct buf *body)
{
    struct headers headers = with_id(request_id);

    if (body->err == ERR_OK) {
        send(reply, status, content_type, &headers, buf_text(body));
        return;
    }
    send(reply, 500, "application/json", &headers,
         STR("{\"error\":{\"message\":\"The server has no memory for the answer.\","
             "\"type\":\"server_error\",\"code\":500}}"));
}

void respond_json(struct http_reply *reply, int status, const char *request_id,
                  const struct buf *body)
{
    send_buf(reply, status, "application/json", request_id, body);
}

void respond_text(struct http_reply *reply, const char *content_type, const char *request_id,
                  const struct buf *body)
{
    send_buf(reply, 200, content_type, request_id, body);
}

static int status_of(const struct dialect *dialect, enum api_error_kind kind)
{
    return (int)(dialect->status ? dialect->status(kind) : api_error_status(kind));
}

void respond_error(struct http_reply *reply, const struct dialect *dialect,
                   const struct api_error *error, const char *request_id)
{
    struct headers headers = with_id(request_id);
    struct buf body;
    char seconds[16];

    if (error->retry_after_s > 0) {
        snprintf(seconds, sizeof(seconds), "%u", error->retry_after_s);
        add(&headers, "retry-after", seconds);
    }
    if (error->kind == API_ERROR_AUTH)
        add(&headers, "www-authenticate", "Bearer");
    buf_init(&body, RESPOND_BYTES_MAX);
    dialect->error(error, request_id, &body);
    send(reply, status_of(dialect, error->kind), "application/json", &headers,
         (struct str){buf_str(&body), body.err == ERR_OK ? body.len : 0});
    buf_fini(&body);
}

enum http_result respond_stream(struct http_reply *reply, const char *content_type,
                                const char *request_id)
{
    struct headers headers = with_id(request_id);
    struct http_head head = {.status = 200, .content_type = str_from(content_type)};

    add(&headers, "cache-control", "no-cache");
    add(&headers, "x-accel-buffering", "no"); /* or nginx buffers events */
    head.headers = headers.list;
    head.headers_count = headers.count;
    return http_reply_begin(reply, &head);
}
