/*
 * bench_server.h: a server that a benchmark starts, queries and stops: hearth itself, or llama-
 * server.
 *
 *      scratch/NAME.out   its standard output
 *      scratch/NAME.log   its log, of all its starts
 *      scratch/NAME.ini   settings of hearth: none
 *
 * Owner: the main thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "http/client.h"

struct buf;
struct process;

enum { SERVER_PATH_BYTES = 1024 };

struct server_setup {
    const char *scratch; /* folder */
    const char *name;    /* of its files there */
    const char *model;
    const char *key;                            /* for its metrics, if it needs one; or NULL */
    uint32_t context, parallel, threads, chunk; /* chunk 0 = the program's own */
    const char *const *more;                    /* arguments, ended by NULL; or NULL */
};

struct server {
    struct server_setup setup;
    struct process *process; /* NULL: not running */
    struct client_url url;
    char llama[SERVER_PATH_BYTES];  /* llama-server; "" = it is hearth */
    char loader[SERVER_PATH_BYTES]; /* the dynamic loader to start it with; "" = none needed */
    char libraries[SERVER_PATH_BYTES];
    char backend[SERVER_PATH_BYTES]; /* the ggml backend that it must use */
};

/* Starts hearth serve on a port chosen by the system; returns when it answers. It is private: the
 * user's INI file, keys and models are not for it. */
enum err server_start_hearth(struct server *server, const struct server_setup *setup,
                             struct errinfo *info) NODISCARD;

/* Looks for llama-server: beside the libraries that hearth runs with (a private sysroot, whose
 * loader it needs), else by the path that is given (NULL = /usr/bin). False: there is none. */
bool server_find_llama(struct server *server, const char *path, const char *backends_dir) NODISCARD;
/* With the backend that a running hearth has loaded, so that both compute with the same code. */
enum err server_start_llama(struct server *server, const struct server_setup *setup,
                            const struct server *hearth, struct errinfo *info) NODISCARD;

/* Restarts it, with the same setup or another model. */
enum err server_restart(struct server *server, const char *model, struct errinfo *info) NODISCARD;
enum err server_stop(struct server *server, struct errinfo *info) NODISCARD;
/* Kills it, like a power cut; a no-op when it is not running. */
void server_kill(struct server *server);

/* Its log so far. */
enum err server_read_log(const struct server *server, struct buf *out,
                         struct errinfo *info) NODISCARD;
/* A number of /metrics, or -1. */
double server_metric(const struct server *server, const char *name);

/* Waits up to a minute until it is idle and the state of all finished requests is in its cache. */
void server_wait_idle(const struct server *server);
