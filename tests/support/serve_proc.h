/*
 * serve_proc.h: the real `hearth serve` as its own process, on a free port, with a tiny model;
 * what it prints, what it says of itself, and what the system says of it.
 *
 * The program is $HEARTH. It never outlives the test: it is killed when the test ends, whichever
 * way. Every wait ends after a while with a failure that shows the end of the log.
 *
 * Threads: all functions belong to the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "support/http_client.h"

struct serve_proc {
    pid_t pid; /* 0: does not run */
    uint16_t port;
    unsigned number; /* of this server in the test: its files have their own names */
    char model[1024];
    char state_dir[1024]; /* stays from start to start */
    char args[2048];
    const char *headers; /* of all requests, each with its CRLF: a literal; "" = none */
};

/* Starts it and waits for the banner. `family` with a '/' in it is the path of a model. `args`:
 * more options, separated by blanks; "" for none. */
void serve_proc_start(struct serve_proc *proc, const char *family, const char *args);
/* Again, with the same options and folders. */
void serve_proc_restart(struct serve_proc *proc);
/* SIGTERM; it must end with status 0. */
void serve_proc_stop(struct serve_proc *proc);
/* Waits until it ends by itself; its status, as of waitpid. */
int serve_proc_wait_end(struct serve_proc *proc);
/* SIGKILL, as a power cut would. */
void serve_proc_kill(struct serve_proc *proc);

/* What it printed so far, and its log; the caller finishes the buffer. */
struct buf serve_proc_banner(const struct serve_proc *proc);
struct buf serve_proc_log(const struct serve_proc *proc);
/* Waits until a line of the log contains the text. */
void serve_proc_wait_log(const struct serve_proc *proc, const char *text);

/* One request on its own connection; `body` may be NULL. Fails when there is no whole answer.
 * The caller finishes the answer. */
void serve_proc_ask(const struct serve_proc *proc, const char *method, const char *path,
                    const char *body, struct http_answer *answer);
/* As http_client_connect and http_client_request; the answer is read later, if ever. */
void serve_proc_send(const struct serve_proc *proc, struct http_client *client, const char *path,
                     const char *body);

/* A number of /metrics by its name with labels; fails when there is no such number. */
double serve_proc_metric(const struct serve_proc *proc, const char *name);
/* Waits until it has the value. */
void serve_proc_wait_metric(const struct serve_proc *proc, const char *name, double value);

/* What the system counts for it. */
struct serve_proc_size {
    size_t descriptors, threads;
    size_t sockets; /* of the descriptors; that which listens is one */
    uint64_t rss_bytes;
};
struct serve_proc_size serve_proc_size(const struct serve_proc *proc);

/* For loops that wait: a pause, longer the longer it lasts, and a failure after a minute in all.
 * *waited_ms begins with 0; `what` says what is waited for. */
void serve_proc_pause(const struct serve_proc *proc, unsigned *waited_ms, const char *what);
