/*
 * host_register.h: memory that this process has mapped already, pinned for a GPU: shared segments,
 * which a backend cannot allocate (host_memory.h has the memory that it can).
 *
 * NVIDIA's driver only, and only when the CUDA backend uses it in this process; other drivers have
 * no such call, or none that was tried (docs/decisions/022-shared-memory-is-registered.md). Nothing
 * of CUDA is needed to build.
 *
 * Pinning a gigabyte that has pages takes about 50 ms, one without pages 400 ms. Memory must be
 * removed before it is unmapped: the driver would keep its pages, and know a wrong address.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct host_register;

/* Whether a process with the backends in `backends` (NULL = as built) will probably find the
 * driver. Loads them. */
bool host_register_expected(const char *backends);

/* ERR_UNSUPPORTED: no driver that can, or no device of it is in use; `info` says so. */
enum err host_register_open(struct host_register **out, struct errinfo *info) NODISCARD;
/* All memory must have been removed. */
void host_register_close(struct host_register **reg);

/* Page-aligned memory. ERR_ENGINE: it stays as it is; `info` has the driver's reason. */
enum err host_register_add(struct host_register *reg, void *base, size_t bytes,
                           struct errinfo *info) NODISCARD;
void host_register_remove(struct host_register *reg, void *base);
