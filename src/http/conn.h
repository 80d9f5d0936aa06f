/*
 * conn.h: one connection, without its socket: bytes and times go in, bytes and a wish come out.
 *
 *      read     -> http_conn_feed, http_conn_eof, http_conn_break
 *      timer    -> http_conn_tick
 *      mailbox  -> http_conn_deliver
 *      http_conn_output -> write; when the system has them -> http_conn_wrote
 *      http_conn_wish: what the socket's owner is to do now; to be asked after each of the calls
 *
 * Requests are answered one at a time, in order. While one is being answered, what the client sends
 * is kept, up to a limit, so that its leaving is seen at once. Owner: loop thread.
 */
#ifndef HEARTH_HTTP_CONN_H
#define HEARTH_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "http/head.h"
#include "http/server.h"

struct http_conn;
struct http_mailbox;
struct metric_set;

/* What the connections of one server share. */
struct http_shared {
    struct http_options options; /* clock not NULL, limits without zeros */
    const struct http_route *routes;
    size_t routes_count;
    bool check_host;
    bool draining;
    uint64_t bodies_bytes; /* held by all connections */
    struct metric_set *stats;
    struct http_mailbox *mailbox;
};

/* `peer` is copied. `owner` is what http_mailbox_next answers for replies of this connection. */
struct http_conn *http_conn_create(struct http_shared *shared, struct str peer, void *owner);
/* A reply that is open hears of it. */
void http_conn_destroy(struct http_conn **conn);

/* Instead of serving it: says so, and ends. Right after the birth. */
void http_conn_refuse(struct http_conn *conn);

void http_conn_feed(struct http_conn *conn, struct str bytes);
void http_conn_eof(struct http_conn *conn);     /* the client sends no more */
void http_conn_break(struct http_conn *conn);   /* the connection failed */
void http_conn_deliver(struct http_conn *conn); /* its reply has news */
void http_conn_drain(struct http_conn *conn);   /* end after the request in progress */

/* `queued` is how many bytes the socket's owner was given and the system has not taken: a change is
 * progress. */
void http_conn_tick(struct http_conn *conn, size_t queued);

/* The chunks to write, in order. They stay where they are until http_conn_wrote says that the first
 * so many are with the system. */
const struct list *http_conn_output(const struct http_conn *conn);
void http_conn_wrote(struct http_conn *conn, size_t chunks);

enum http_wish {
    HTTP_WISH_NONE,
    HTTP_WISH_SHUTDOWN, /* all is written, no more will be: send the end, read on */
    HTTP_WISH_CLOSE,
    HTTP_WISH_RESET, /* close so that the client sees a failure */
};
enum http_wish http_conn_wish(const struct http_conn *conn);

#endif
