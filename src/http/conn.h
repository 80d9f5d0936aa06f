/*
 * conn.h: one connection, without its socket: bytes and times go in, bytes and actions come out.
 *
 *      read     -> http_conn_feed, http_conn_eof, http_conn_break
 *      timer    -> http_conn_tick
 *      mailbox  -> http_conn_deliver
 *      http_conn_output -> write; once handed to the system -> http_conn_wrote
 *      http_conn_next_action: what the socket's owner must do now; ask after each of these calls
 *
 * Requests are answered one at a time, in order. While one is being answered, input from the client
 * is still read and kept, up to a limit, so that a disconnect is noticed at once. Owner: loop
 * thread.
 */
#pragma once

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
    uint64_t bodies_bytes; /* request bodies in memory: being received, or being answered */
    uint64_t bodies_room;  /* the most that there may be now */
    struct metric_set *stats;
    struct http_mailbox *mailbox;
};

/* Sets bodies_room. The owner asks at each tick, a connection when it begins and its body grows. */
void http_conn_ask_room(struct http_shared *shared);

/* `peer` is copied. `owner` is what http_mailbox_next returns for replies of this connection. */
struct http_conn *http_conn_create(struct http_shared *shared, struct str peer, void *owner);
/* Detaches an open reply, which calls its on_close. */
void http_conn_destroy(struct http_conn **conn);

/* Refuses the connection with an answer instead of serving it. Only right after create. */
void http_conn_refuse(struct http_conn *conn);

void http_conn_feed(struct http_conn *conn, struct str bytes);
void http_conn_eof(struct http_conn *conn);     /* the client will send nothing more */
void http_conn_break(struct http_conn *conn);   /* the connection failed */
void http_conn_deliver(struct http_conn *conn); /* its reply has an update */
void http_conn_drain(struct http_conn *conn);   /* end after the request in progress */

/* `queued`: bytes given to the socket's owner that the system has not taken yet; a change counts as
 * progress. */
void http_conn_tick(struct http_conn *conn, size_t queued);

/* The chunks to write, in order. They stay in place until http_conn_wrote reports that the first
 * `chunks` of them were handed to the system. */
const struct list *http_conn_output(const struct http_conn *conn);
void http_conn_wrote(struct http_conn *conn, size_t chunks);

enum http_action {
    HTTP_ACTION_NONE,
    HTTP_ACTION_SHUTDOWN, /* everything is written: shut down sending, keep reading */
    HTTP_ACTION_CLOSE,
    HTTP_ACTION_RESET, /* close so that the client sees a failure */
};
enum http_action http_conn_next_action(const struct http_conn *conn);
