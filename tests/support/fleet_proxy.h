/*
 * fleet_proxy.h: a TCP proxy in front of a real server, with the faults of a network and of servers.
 *
 * One piece of a request (what one read of the socket gives) can get a fault instead of its reply.
 * Requests can be held.
 *
 * Threads: start and stop belong to the test's thread; delay and faults may be set by any.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"

enum { FLEET_PROXY_CONNS = 128 };

enum fleet_fault_kind {
    FLEET_REPLY,  /* the server does not get the request; `reply` is sent */
    FLEET_RESET,  /* it does not get it; the connection is reset */
    FLEET_SILENT, /* it does not get it; nothing is sent */
    FLEET_LOST,   /* it does what is asked; its reply is lost */
    FLEET_HALF,   /* it does what is asked; half of the first piece of its reply is sent */
};

/* Each of them, but for FLEET_SILENT, ends the connection. */
struct fleet_fault {
    const char *name;
    enum fleet_fault_kind kind;
    const char *reply; /* "%u" is the port of the proxy */
};

struct fleet_proxy {
    uint16_t port, to;
    atomic_uint delay_ms; /* of each piece of a reply */
    /* of replies: bytes per second of all connections together (0: no limit), bytes so far, and when
     * the next one may be sent */
    atomic_ullong speed, bytes, free_at_ns;
    const struct fleet_fault *_Atomic fault;
    atomic_int pieces;        /* until the fault; it has come when this is 0 or less */
    const char *_Atomic held; /* requests with this text wait until it is NULL */
    atomic_uint holds;        /* how many did, or do */
    int listener;
    struct thread thread;
    struct fleet_proxy_conn {
        struct fleet_proxy *proxy;
        int client, server;
        const struct fleet_fault *spoils; /* the next reply; NULL: none */
        struct thread thread;
    } conns[FLEET_PROXY_CONNS];
    unsigned conns_count; /* of the proxy's thread until it has ended */
};

/* In front of 127.0.0.1:to. */
void fleet_proxy_start(struct fleet_proxy *proxy, uint16_t to);
void fleet_proxy_stop(struct fleet_proxy *proxy);
/* The n-th piece of a request from now on gets it; NULL: none. */
void fleet_proxy_fault(struct fleet_proxy *proxy, const struct fleet_fault *fault, int n);

struct tier_shared_options;
/* Stores an object and reads it in another tier, with each of the faults at the first, second, ...
 * n-th piece of a request, until one comes too late. Whatever happens: no wrong byte is read, and the
 * store works afterwards. The URL of `options` leads to the proxy. */
void fleet_fault_loop(struct fleet_proxy *proxy, const struct tier_shared_options *options,
                      const struct fleet_fault *faults, size_t count);
