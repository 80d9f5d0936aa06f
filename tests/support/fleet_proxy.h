/*
 * fleet_proxy.h: a TCP proxy in front of a real server, with the faults of a network.
 *
 * Replies can be delayed, and the reply to one request can be lost.
 *
 * Threads: start and stop belong to the test's thread; the faults may be set by any.
 */
#ifndef HEARTH_TESTS_SUPPORT_FLEET_PROXY_H
#define HEARTH_TESTS_SUPPORT_FLEET_PROXY_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"

enum { FLEET_PROXY_CONNS = 64 };

struct fleet_proxy {
    uint16_t port, to;
    atomic_uint delay_ms;     /* of each piece of a reply */
    const char *_Atomic lost; /* the reply to the next request with this text is lost, and its
                                    connection closed; NULL: none. At most 31 bytes */
    atomic_uint losses;
    int listener;
    struct thread thread;
    struct fleet_proxy_conn {
        struct fleet_proxy *proxy;
        int client, server;
        struct thread thread;
    } conns[FLEET_PROXY_CONNS];
    atomic_uint conns_count;
};

/* In front of 127.0.0.1:to. */
void fleet_proxy_start(struct fleet_proxy *proxy, uint16_t to);
void fleet_proxy_stop(struct fleet_proxy *proxy);

#endif
