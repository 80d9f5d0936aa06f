/*
 * notify.h: reports the program's state to a service manager by the protocol of sd_notify(3):
 * datagrams to the socket in $NOTIFY_SOCKET. Without that variable everything here is a no-op.
 *
 * Our own code, because it is small, the protocol is stable, and a library would tie the program to
 * one manager.
 *
 * Threads: only the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"

struct notify {
    int fd; /* -1: no manager */
};

/* `path` is $NOTIFY_SOCKET: a path, or "@name" for an abstract socket; NULL or anything else: no
 * manager. */
void notify_open(struct notify *notify, const char *path);
void notify_close(struct notify *notify);

/* "READY=1\nSTATUS=..." False: it was not sent. Never waits. */
bool notify_send(const struct notify *notify, const char *fmt, ...) PRINTF(2, 3);

/* How often the manager expects WATCHDOG=1, by $WATCHDOG_USEC and $WATCHDOG_PID (NULL: of any
 * process); 0 = never. */
uint64_t notify_watchdog_ns(const char *usec, const char *pid, pid_t self);
