/*
 * listen.h: sockets that listen, bound as the options say. Owner: the server; before its thread
 * runs.
 */
#ifndef HEARTH_HTTP_LISTEN_H
#define HEARTH_HTTP_LISTEN_H

#include <stdint.h>
#include <uv.h>

#include "base/attr.h"
#include "base/err.h"

/* Bind a handle that is initialised and listen; `fn` is libuv's. `host` is an address or
 * "localhost". On failure the handle is to be closed. */
enum err http_listen_tcp(uv_tcp_t *handle, const char *host, uint16_t port, uv_connection_cb fn,
                         uint16_t *bound, struct errinfo *info) NODISCARD;
enum err http_listen_unix(uv_pipe_t *handle, const char *path, uv_connection_cb fn,
                          struct errinfo *info) NODISCARD;

#endif
