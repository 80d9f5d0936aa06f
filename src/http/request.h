/*
 * request.h: a request as a handler sees it: views into the memory of its connection.
 *
 * Everything here is valid only during the call of the handler, on the loop thread. A handler
 * copies what it needs later, or takes the body. Paths and queries are as they were sent, still
 * percent-encoded; the helpers below decode.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* The methods that a route can have. All others are refused. X(value, name) */
#define HTTP_METHOD_TABLE(X)        \
    X(HTTP_METHOD_GET, "GET")       \
    X(HTTP_METHOD_HEAD, "HEAD")     \
    X(HTTP_METHOD_POST, "POST")     \
    X(HTTP_METHOD_PUT, "PUT")       \
    X(HTTP_METHOD_PATCH, "PATCH")   \
    X(HTTP_METHOD_DELETE, "DELETE") \
    X(HTTP_METHOD_OPTIONS, "OPTIONS")

enum http_method { HTTP_METHOD_TABLE(TABLE_VALUE) HTTP_METHOD_COUNT };

struct http_header {
    struct str name, value; /* the value without surrounding white space */
};

enum { HTTP_CAPTURES_MAX = 4 };

struct http_route;

struct http_request {
    enum http_method method;
    unsigned version_minor; /* of HTTP/1 */
    struct str path;        /* "/v1/models"; "*" for OPTIONS * */
    struct str query;       /* without the '?' */
    /* from the Host header, without port, with brackets; empty for HTTP/1.0 without one */
    struct str host;
    const struct http_header *headers;
    size_t headers_count;
    struct str body;
    struct str peer;                        /* "127.0.0.1", "::1"; "unix" for a local socket */
    uint64_t arrived_ns;                    /* monotonic: when its first byte arrived */
    const struct http_route *route;         /* the row that matched */
    struct str captures[HTTP_CAPTURES_MAX]; /* the texts matched by its {}, undecoded */
    size_t captures_count;
    struct buf *body_owner; /* for http_request_take_body */
};

const char *http_method_name(enum http_method method);

/* The value of the first header of that name (case-insensitive); false if there is none. */
bool http_request_header(const struct http_request *request, struct str name,
                         struct str *value) NODISCARD;

/* It came from this machine, and no proxy says that it came from elsewhere. */
bool http_request_is_local(const struct http_request *request);

/* Moves the body into `body` (uninitialised; the caller calls buf_fini), so that another thread can
 * read it without a copy. request->body stays valid as long as `body` does. */
void http_request_take_body(struct http_request *request, struct buf *body);

/* Appends the first value of a query parameter to `out`, decoded ('+' is a space). ERR_NOT_FOUND,
 * or as buf_append_unescaped. */
enum err http_query_get(struct str query, struct str name, struct buf *out) NODISCARD;
