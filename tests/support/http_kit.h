/*
 * http_kit.h: a running server for tests, with handlers that the test steers.
 *
 *      /echo      answers at once: "METHOD path body"
 *      /hold      hands its reply to the test: http_kit_held
 *      /stream/N  its own thread sends N events of 1 KiB as fast as it may, until the
 *                 client disconnects
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "http/reply.h"
#include "http/server.h"

enum { HTTP_KIT_HELD_MAX = 64 };

struct http_kit {
    struct http_server *server;
    uint16_t port;
    struct http_route routes[8];

    struct lock lock;
    struct cond changed;
    struct http_reply *held[HTTP_KIT_HELD_MAX] GUARDED_BY(lock);
    size_t held_count GUARDED_BY(lock);
    unsigned closed GUARDED_BY(lock), dropped
        GUARDED_BY(lock);                /* calls of on_close and drop, for /hold and /stream */
    unsigned streams GUARDED_BY(lock);   /* threads of /stream that run */
    size_t waiting_max GUARDED_BY(lock); /* most that waited in a stream */
};

/* `options` may be NULL: loopback, any port. */
void http_kit_start(struct http_kit *kit, const struct http_options *options);
/* Stops the server and waits for the threads of streams. */
void http_kit_stop(struct http_kit *kit);

/* The next reply that /hold was called for; waits for it. The caller releases. */
struct http_reply *http_kit_held(struct http_kit *kit);
/* Waits until on_close was called that many times. */
void http_kit_wait_closed(struct http_kit *kit, unsigned count);
/* Wait until a counter has gone up, or a gauge down, to a value. */
void http_kit_wait_stat(struct http_kit *kit, size_t stat, size_t label, double value);
void http_kit_wait_stat_down(struct http_kit *kit, size_t stat, size_t label, double value);
double http_kit_stat(struct http_kit *kit, size_t stat, size_t label);
