/*
 * host_memory.h: memory of this process that a device reads and writes at the full speed of the
 * bus: pinned pages where a backend has any, plain ones otherwise.
 *
 * Process-wide, because ggml's registry is: blocks outlive the models whose state they hold.
 * Pinning is slow (about 3 GB/s), so callers allocate large blocks ahead of their use.
 *
 * Threads: any (own lock, rank LOCK_RANK_ENGINE, not held while the system pins).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* Whether some device has pinned memory to give. Loads the backends from `backends` (NULL = as
 * built). */
bool host_memory_can_pin(const char *backends);

/* At least page-aligned; NULL when the system has none. For hearth_options: `arg` is unused. */
void *host_memory_alloc(size_t size, void *arg) NODISCARD;
void host_memory_free(void *ptr, void *arg);

/* Bytes in use now. `plain` are those that could not be pinned. */
struct host_memory_stats {
    uint64_t pinned, plain;
};
struct host_memory_stats host_memory_stats(void);
