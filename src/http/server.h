/*
 * server.h: an HTTP/1.1 server: one thread with one libuv loop that owns every socket, parser and
 * response.
 *
 *      start        binds, listens, starts the thread
 *      drain        no new connections; idle ones are closed; requests in progress continue until a
 *                   deadline
 *      stop         closes the remaining connections (open replies get on_close), joins the thread
 *
 * Handlers run on that thread and must not block; answers may come from any thread (reply.h).
 * docs/http.md lists the limits in a table.
 */
#pragma once

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

/* 0 selects the default of each. Times are in milliseconds. */
struct http_limits {
    uint32_t connections_max;             /* 1024; further ones get a 503 */
    uint32_t connections_per_address_max; /* 256; local sockets are not counted */
    uint32_t headers_max;                 /* 100 */
    uint32_t target_bytes_max;            /* 8 KiB */
    uint32_t head_bytes_max; /* 64 KiB: request line and headers; the same again for trailers */
    uint64_t body_bytes_max; /* 64 MiB */
    /* 512 MiB: bodies of all requests until they are answered; also of each of them */
    uint64_t bodies_bytes_max;
    uint32_t body_bytes_small; /* 1 MiB: bodies that are received even beyond bodies_bytes_max */
    /* 64 KiB: input from a client that awaits its answer; beyond it the connection is closed */
    uint32_t ahead_bytes_max;
    uint64_t answer_bytes_max; /* 256 MiB: of http_reply_send */
    uint64_t stream_bytes_max; /* 4 MiB: written into a stream and not yet taken by the client */
    /* 10 s: from the first byte of a request, or from the accept, to its last header */
    uint32_t head_ms;
    uint32_t body_ms;       /* 30 s: how often the rate of a body is checked */
    uint32_t body_rate_min; /* 1024 bytes per second, in each body_ms */
    uint32_t idle_ms;       /* 60 s: between two requests */
    uint32_t write_ms;      /* 30 s: a client that takes no byte for this long is closed */
    uint32_t linger_ms;     /* 2 s: time for the client to read an error answer */
};

/* Replaces zeros by the defaults; http_server_start also does it. */
void http_limits_complete(struct http_limits *limits);

struct http_options {
    const char *host; /* to bind; NULL: 127.0.0.1, or no TCP at all when there is a unix_path */
    uint16_t port;    /* 0 = any free port, see http_server_port */
    /* NULL = none. A stale socket at that path is replaced; its mode becomes 0600 */
    const char *unix_path;
    /* PEM files, for TCP; both or none. They must outlive the server */
    const char *tls_cert, *tls_key;
    struct http_limits limits;
    /* in addition to loopback. A server not bound to loopback checks Host only if this is set */
    struct http_names allowed_hosts;
    struct http_names cors_origins; /* see host.h; empty: no CORS header is ever sent */
    struct log *log;                /* may be NULL */
    const struct clock *clock;      /* NULL = the system clock. Used for all deadlines */
    uint32_t tick_ms;               /* how often deadlines are checked; 0 = 100 */

    /* Whether a request may have any Host, although the server is on loopback (host.h). Asked when its
     * host name is not allowed and a route matches. On the loop thread; NULL = none may. */
    bool (*any_host)(const struct http_request *request);

    /* Asked with the head of a request that has a body, before any of the body is read, on the loop
     * thread; request->route may be NULL (OPTIONS). Anything but HTTP_PROBLEM_NONE refuses the
     * request, and the connection closes after the answer. NULL = all bodies are received. */
    enum http_problem (*check)(const struct http_request *request);

    /* Told how many bytes request bodies take, when that changes and at each tick. Returns how many
     * they may take now, beside bodies_bytes_max. On the loop thread; NULL = no such limit. */
    uint64_t (*bodies_room)(uint64_t bytes, void *arg);
    void *bodies_arg;

    /* Writes the body of refusals by this layer, on the loop thread. NULL = the problem's sentence
     * as plain text. `request` is as far as it could be read; NULL = its path is not known. `id` is
     * sent in the headers x-request-id and request-id; a text may be written there. */
    void (*error_body)(enum http_problem problem, const struct http_request *request,
                       char id[HTTP_ID_BYTES], struct buf *body, void *arg);
    const char *error_content_type; /* of error_body; NULL = application/json */
    void *error_arg;
};

/* Binds and starts. The table of routes and all pointers in `options`, except the names of the
 * sockets, must outlive the server. ERR_BUSY: the address is in use; ERR_DENIED; ERR_INVALID: no
 * such host (only "localhost" is resolved); ERR_LIMIT: no descriptors or threads left. */
enum err http_server_start(const struct http_options *options, const struct http_route *routes,
                           size_t routes_count, struct http_server **server,
                           struct errinfo *info) NODISCARD;

/* Reads the certificate and the key again, for new connections. On failure the old ones stay. */
enum err http_server_reload_tls(struct http_server *server, struct errinfo *info) NODISCARD;

/* The TCP port; 0 if there is only a local socket. */
uint16_t http_server_port(const struct http_server *server);

/* Stops listening, closes idle connections, answers requests that have begun with "connection:
 * close", and waits until all connections are closed. Returns false after `timeout_ms` (by the
 * system clock): the caller may then end open replies and call it again. Not on the loop thread. */
bool http_server_drain(struct http_server *server, uint64_t timeout_ms);

/* Closes everything at once and sets the pointer to NULL. Open replies get on_close, and their
 * handles stay valid. Accepts NULL. */
void http_server_stop(struct http_server **server);

/* Counters, for metric_render; ids in http/problem.h. Valid until the stop. */
const struct metric_set *http_server_metrics(const struct http_server *server);
