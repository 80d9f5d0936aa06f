/*
 * respond.h: whole answers and errors, with the headers common to all of them.
 *
 * Threads: any, as http/reply.h.
 */
#pragma once

#include "dialect/answer.h"
#include "chat/error.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/problem.h"
#include "http/reply.h"

enum { RESPOND_ID_BYTES = HTTP_ID_BYTES, RESPOND_BYTES_MAX = 64 * 1024 * 1024 };

/* A body of JSON, or of another type. A buffer that has failed is answered with a server error. */
void respond_json(struct http_reply *reply, int status, const char *request_id,
                  const struct buf *body);
void respond_text(struct http_reply *reply, const char *content_type, const char *request_id,
                  const struct buf *body);

/* An error in the dialect's form, with its status, and Retry-After where useful. */
void respond_error(struct http_reply *reply, const struct dialect *dialect,
                   const struct api_error *error, const char *request_id);

/* Begins a stream of events. */
enum http_result respond_stream(struct http_reply *reply, const char *content_type,
                                const char *request_id);
