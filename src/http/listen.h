/*
 * listen.h: listening sockets, bound as the options say. Owner: the server, before its thread runs.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/attr.h"
#include "base/err.h"

/* Binds an initialised handle and listens; `fn` is libuv's callback. `host` is an address or
 * "localhost". On failure the caller must close the handle. */
enum err http_listen_tcp(uv_tcp_t *handle, const char *host, uint16_t port, uv_connection_cb fn,
                         uint16_t *bound, struct errinfo *info) NODISCARD;
enum err http_listen_unix(uv_pipe_t *handle, const char *path, uv_connection_cb fn,
                          struct errinfo *info) NODISCARD;
