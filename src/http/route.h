/*
 * route.h: method and path to handler, from one table.
 *
 *      /v1/models                    this path
 *      /v1/responses/{id}/cancel     {id} is one segment, not empty, captured; the name is for
 *                                    readers
 *      /v1/models/{id...}            {id...} is the rest, not empty, slashes included, captured;
 *                                    last only
 *
 * The first matching row wins. HEAD is served by the row of GET. Paths are compared as sent: no
 * decoding, no dots resolved, so that each path has exactly one spelling.
 *
 * Threads: a table is read-only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "http/request.h"

struct http_reply;

/* Called on the loop thread when the whole body has arrived; must not block. The reply may be used
 * now or, if acquired, later and on any thread. */
typedef void (*http_handler_fn)(struct http_request *request, struct http_reply *reply, void *arg);

/* CORS: pages of this machine must be named in cors_origins, as all others are. */
enum { HTTP_ROUTE_NAMED_ORIGINS = 1 };

struct http_route {
    enum http_method method;
    const char *path;
    http_handler_fn handler;
    void *arg;
    uint32_t flags; /* of HTTP_ROUTE_* */
};

enum http_match { HTTP_MATCH_FOUND, HTTP_MATCH_NO_PATH, HTTP_MATCH_NO_METHOD };

/* Finds the row for request->method and ->path and sets ->route and ->captures. */
enum http_match http_route_find(const struct http_route *routes, size_t count,
                                struct http_request *request);

/* Appends the methods of a path in the form of an Allow header: "GET, HEAD, OPTIONS". */
void http_route_allow(const struct http_route *routes, size_t count, struct str path,
                      struct buf *out);

/* Whether a row of this path, with any method, has HTTP_ROUTE_NAMED_ORIGINS. */
bool http_route_named_origins(const struct http_route *routes, size_t count, struct str path);

/* Aborts on an invalid table: a path without '/', {...} that is not last, too many captures, a
 * missing handler, a duplicate row. */
void http_route_check(const struct http_route *routes, size_t count);
