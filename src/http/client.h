/*
 * client.h: a small blocking HTTP client on a plain socket, for benchmarks and commands: no layer
 * between it and the clock.
 *
 *      client_open -> client_send -> client_read_head
 *                  -> client_read (body) or client_read_event (SSE) ... -> client_close
 *
 * One request per connection. Every wait ends at the deadline set when the client was opened.
 * HTTP/1.1 with Content-Length, chunks or the end of the connection, plain or with TLS; no
 * redirects.
 *
 * Owner: one thread per client.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct buf;
struct client;

enum {
    CLIENT_NAME_BYTES = 256,
    CLIENT_SOCKET_BYTES = 108, /* sizeof sun_path in sockaddr_un */
    CLIENT_URL_BYTES = 2 * CLIENT_NAME_BYTES + 32,
    CLIENT_ID_BYTES = 64,
    CLIENT_HEAD_BYTES_MAX = 64 * 1024,
    CLIENT_BODY_BYTES_MAX = 256 * 1024 * 1024,
};

struct client_url {
    char host[CLIENT_NAME_BYTES];
    char port[8];
    /* prefix of all paths, without a trailing slash: "" or "/v1" */
    char base[CLIENT_NAME_BYTES];
    char socket[CLIENT_SOCKET_BYTES]; /* a local socket instead of host and port; "" = none */
    bool tls; /* https; trusts the system's certificates, or SSL_CERT_FILE */
};

/* "http://host[:port][/base]", "https://...", or the same without a scheme; "unix:/path", or a path ending in
 * ".sock". ERR_INVALID with a message. */
enum err client_parse_url(const char *text, struct client_url *url, struct errinfo *info) NODISCARD;
/* The same as readable text; returns `out`. */
const char *client_url_text(const struct client_url *url, char out[CLIENT_URL_BYTES]);

struct client_head {
    int status;
    char request_id[CLIENT_ID_BYTES]; /* "" = none */
};

/* Connects. ERR_IO, ERR_TIMEOUT; ERR_DENIED: the TLS handshake failed. The first TLS client makes
 * the process ignore SIGPIPE. */
enum err client_open(struct client **client, const struct client_url *url, uint64_t timeout_ms,
                     struct errinfo *info) NODISCARD;
void client_close(struct client **client);

/* `key` and `body` may be NULL. */
enum err client_send(struct client *client, const char *method, const char *path, const char *key,
                     const char *body, struct errinfo *info) NODISCARD;
enum err client_read_head(struct client *client, struct client_head *head,
                          struct errinfo *info) NODISCARD;

/* The next decoded bytes of the body, valid until the next call; an empty piece is the end.
 * ERR_CORRUPT: not HTTP; ERR_CLOSED: the connection broke. */
enum err client_read(struct client *client, struct str *piece, struct errinfo *info) NODISCARD;
/* The rest of the body, appended to `out`. Also fails as buf_append does. */
enum err client_read_all(struct client *client, struct buf *out, struct errinfo *info) NODISCARD;
/* The data of the next server-sent event, valid until the next call. Comments are skipped. `end` is
 * set when there are no more events. */
enum err client_read_event(struct client *client, struct str *data, bool *end,
                           struct errinfo *info) NODISCARD;

/* A whole exchange: the body is appended to `out`. */
struct client_request {
    const struct client_url *url;
    const char *method, *path, *key, *body;
    uint64_t timeout_ms;
};
enum err client_fetch(const struct client_request *request, int *status, struct buf *out,
                      struct errinfo *info) NODISCARD;
