/*
 * bench_server.h: servers that a benchmark starts, queries and stops: hearth (cli/child_server.h) or
 * llama-server.
 *
 * Owner: the main thread.
 */
#pragma once

#include "cli/child_server.h"

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

/* A number of /metrics, or -1. */
double server_metric(const struct server *server, const char *name);

/* Waits up to a minute until it is idle and the state of all finished requests is in its cache. */
void server_wait_idle(const struct server *server);
