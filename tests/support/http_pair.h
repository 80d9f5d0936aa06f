/*
 * http_pair.h: a connection without a socket, for tests: bytes go in by hand, what would be sent is
 * collected, and time is a fake clock's.
 *
 * Paths: /echo answers at once with method, path and body; /hold keeps its reply in pair->held for
 * the test, and so does /take, which takes the body; /none answers nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/conn.h"
#include "http/reply.h"
#include "http/server.h"

struct http_pair {
    struct clock *clock;
    struct http_shared shared;
    struct http_conn *conn;
    struct buf sent;          /* taken by http_pair_pump */
    struct http_reply *held;  /* of the last request to /hold; the test's to release */
    unsigned handled;         /* calls of handlers */
    unsigned closed, dropped; /* calls of on_close and its drop, which /hold registers */
};

/* `options` may be NULL; clock is set here, zero limits are completed. */
void http_pair_init(struct http_pair *pair, const struct http_options *options);
void http_pair_fini(struct http_pair *pair);

/* A new connection in the place of the old one. */
void http_pair_reconnect(struct http_pair *pair);

void http_pair_feed(struct http_pair *pair, const char *text);
/* Delivers news and "writes" all output until there is none. */
void http_pair_pump(struct http_pair *pair);
/* Moves the clock and ticks; nothing of the output is written. */
void http_pair_advance(struct http_pair *pair, uint64_t ms);

double http_pair_stat(const struct http_pair *pair, size_t stat, size_t label);
