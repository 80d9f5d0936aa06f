/*
 * serve_watch.h: the server's main thread while it runs: signals, and what a service manager is
 * told.
 *
 *      SIGINT, SIGTERM   the end
 *      SIGHUP            files of keys and the log level are read again; the end when the server
 *                        was started in a terminal, which has closed
 *      NOTIFY_SOCKET     READY=1, STATUS=, RELOADING=1, STOPPING=1; with WATCHDOG_USEC also
 *                        WATCHDOG=1 as long as no engine hangs
 *
 * Thread: main; all signals of the set are blocked in every thread.
 */
#ifndef HEARTH_CLI_SERVE_WATCH_H
#define HEARTH_CLI_SERVE_WATCH_H

#include <signal.h>
#include <stdbool.h>

struct api;
struct cli;
struct pool;

struct serve_watch {
    const struct cli *cli;
    struct api *api;
    struct pool *pool;
    const sigset_t *signals;
    bool terminal; /* it was started in one */
};

/* The server is ready. Returns at the signal that ends it. */
void serve_watch(const struct serve_watch *watch);

#endif
