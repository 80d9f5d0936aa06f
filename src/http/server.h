/*
 * server.h: an HTTP/1.1 server: one thread with one libuv loop that owns every socket, parser and
 * response.
 *
 *      start        binds, listens, starts the thread
 *      drain        no new connections; idle ones are closed; requests in progress go on, to a
 *                   deadline
 *      stop         closes what is left (each open reply hears of it), joins the thread
 *
 * Handlers run on that thread and must not block; answers come from any thread (reply.h).
 * docs/http.md has the limits in a table.
 */
#ifndef HEARTH_HTTP_SERVER_H
#define HEARTH_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "http/host.h"
#include "http/problem.h"
#include "http/route.h"

struct clock;
struct log;
struct metric_set;
struct http_server;

/* Zero stands for the default of each. Times are in milliseconds. */
struct http_limits {
    uint32_t connections_max;             /* 1024; further ones get a 503 */
    uint32_t connections_per_address_max; /* 256; local sockets are not counted */
    uint32_t headers_max;                 /* 100 */
    uint32_t target_bytes_max;            /* 8 KiB */
    uint32_t head_bytes_max;   /* 64 KiB: request line and headers; trailers again as much */
    uint64_t body_bytes_max;   /* 64 MiB */
    uint64_t bodies_bytes_max; /* 512 MiB: request bodies of all connections together */
    /* 64 KiB: what a client sends before it has its answer; beyond it the connection is closed */
    uint32_t ahead_bytes_max;
    uint64_t answer_bytes_max; /* 256 MiB: of http_reply_send */
    uint64_t stream_bytes_max; /* 4 MiB: written into a stream and not taken by the client yet */
    /* 10 s: from the first byte of a request, or from the accept, to its last header */
    uint32_t head_ms;
    uint32_t body_ms; /* 10 s: for a body, plus what body_rate_min allows for its bytes so far */
    uint32_t body_rate_min; /* 1024 bytes per second */
    uint32_t idle_ms;       /* 60 s: between two requests */
    uint32_t write_ms;      /* 30 s: a client that takes no byte for so long is gone */
    uint32_t linger_ms;     /* 2 s: after an error answer, for the client to read it */
};

/* Replaces zeros by the defaults; http_server_start does it, too. */
void http_limits_complete(struct http_limits *limits);

struct http_options {
    const char *host; /* to bind; NULL: 127.0.0.1, or no TCP at all when there is a unix_path */
    uint16_t port;    /* 0: any free one, see http_server_port */
    /* NULL: none. A stale socket of that name is replaced; its mode becomes 0600 */
    const char *unix_path;
    struct http_limits limits;
    /* beside loopback. A server bound beyond loopback checks Host only when there are some */
    struct http_names allowed_hosts;
    struct http_names cors_origins; /* none: no CORS header is ever sent */
    /* what preflights allow; NULL: authorization, content-type, x-api-key */
    const char *cors_headers;
    struct log *log;           /* may be NULL */
    const struct clock *clock; /* NULL: the machine's. Decides about all deadlines */
    uint32_t tick_ms;          /* how often deadlines are looked at; 0: 100 */

    /* Writes the body for what this layer refuses by itself, on the loop thread. NULL: the sentence
     * as plain text. `path` is the request's as far as it could be read, else empty. */
    void (*error_body)(enum http_problem problem, struct str path, struct buf *body, void *arg);
    const char *error_content_type; /* of it; NULL: application/json */
    void *error_arg;
};

/* Binds and starts. The table of routes and all pointers in `options` except the names of the
 * sockets outlive the server. ERR_BUSY: the address is in use; ERR_DENIED; ERR_INVALID: no such
 * host (nothing is looked up but "localhost"); ERR_LIMIT: no descriptors or threads. */
enum err http_server_start(const struct http_options *options, const struct http_route *routes,
                           size_t routes_count, struct http_server **server,
                           struct errinfo *info) NODISCARD;

/* The TCP port; 0 when there is only a local socket. */
uint16_t http_server_port(const struct http_server *server);

/* Stops listening, closes idle connections, answers the requests that have begun with "connection:
 * close", and waits until no connection is left. False after `timeout_ms` (by the machine's clock):
 * then the caller may have open replies ended, and call it again. Not from the loop thread. */
bool http_server_drain(struct http_server *server, uint64_t timeout_ms);

/* Closes everything, now, and sets the pointer to NULL. Open replies are told (on_close) and their
 * handles stay valid. Accepts NULL. */
void http_server_stop(struct http_server **server);

/* Counters, for metric_render; ids in http/problem.h. Valid until the stop. */
const struct metric_set *http_server_metrics(const struct http_server *server);

#endif
