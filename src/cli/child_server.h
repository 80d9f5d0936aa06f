/*
 * child_server.h: a server that a command starts for itself: `hearth run MODEL` and benchmarks.
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
    bool faults; /* started as hearth-lab, which can break its promises */
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

/* Its log so far. */
enum err server_read_log(const struct server *server, struct buf *out,
                         struct errinfo *info) NODISCARD;
/* ---- for other programs that serve (lab/bench_server.c) ---- */

struct server_args {
    const char **items;
    size_t count, cap;
    char numbers[5][16];
};

void server_args_add(struct server_args *args, const char *item);
void server_args_pair(struct server_args *args, const char *name, const char *value);
/* `slot`: of args->numbers, one for each number */
void server_args_number(struct server_args *args, size_t slot, const char *name, uint32_t value);
/* Threads, context, sequences, and setup->more. */
void server_args_common(struct server_args *args, const struct server_setup *setup);

/* Frees the arguments. `env` as in process_options. */
enum err server_spawn(struct server *server, struct server_args *args, const char *const *env,
                      struct errinfo *info) NODISCARD;
/* Until is_up; ERR_ENGINE with the end of its log when it ends before. */
enum err server_await(struct server *server, bool (*is_up)(struct server *server),
                      struct errinfo *info) NODISCARD;
