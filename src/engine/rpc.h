/*
 * rpc.h: one model over several machines, through ggml's RPC plug-in (libggml-rpc.so).
 *
 *      hearth serve --rpc A:50052,B:50052        layers are split over the devices of A and B
 *      hearth worker --listen A:50052            offers the devices of its machine
 *
 * The protocol has no authentication and no encryption, and its server trusts every byte: it belongs
 * on a private network. A worker that dies ends the process that uses it, so engines with --rpc
 * always run in their own (engine_worker.h).
 *
 * Threads: any; the registry is process-wide.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

/* Adds the devices of each server of "host:port,..."; after backend_init. NOT_FOUND: the plug-in is
 * missing; IO: a server does not answer. */
enum err rpc_add_servers(const char *servers, struct errinfo *info) NODISCARD;

/* Serves the GPUs of this machine, or its processor, at "host:port"; returns only when it cannot.
 * `threads` 0 = physical cores. `backends` as in engine_options. */
enum err rpc_serve(const char *listen, const char *backends, unsigned threads,
                   struct errinfo *info) NODISCARD;
/* Whether the plug-in is there; after backend_init. */
bool rpc_is_here(void);
