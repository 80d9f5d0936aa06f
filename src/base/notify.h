/*
 * notify.h: tells a service manager how the program is, by the protocol of sd_notify(3): datagrams
 * to the socket in $NOTIFY_SOCKET. Without that variable everything here does nothing.
 *
 * Own code, because it is small, the protocol is stable, and a library for it would be the only one
 * that ties the program to one manager.
 *
 * Threads: one; the owner's.
 */
#ifndef HEARTH_BASE_NOTIFY_H
#define HEARTH_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"

struct notify {
    int fd; /* -1: nobody wants to know */
};

/* `path` is $NOTIFY_SOCKET: a path, or "@name" for an abstract socket; NULL or anything else:
 * nobody listens. */
void notify_open(struct notify *notify, const char *path);
void notify_close(struct notify *notify);

/* "READY=1\nSTATUS=..." False: it was not sent. Never waits. */
bool notify_send(const struct notify *notify, const char *fmt, ...) PRINTF(2, 3);

/* How often the manager wants to hear WATCHDOG=1 at least, by $WATCHDOG_USEC and $WATCHDOG_PID
 * (NULL: of any process); 0 = it does not. */
uint64_t notify_watchdog_ns(const char *usec, const char *pid, pid_t self);

#endif
