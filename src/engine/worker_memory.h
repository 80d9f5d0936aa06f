/*
 * worker_memory.h: memory that can be shared with other processes: each block is a separate
 * segment, an unnamed file descriptor.
 *
 *      cache (hearth_options.alloc) --.
 *      staging of other memory --------+--> worker_memory --> segment 7: fd, address here, bytes
 *                                                               '--> the child maps the same bytes
 *
 * One worker_memory may serve the cache and many engines. Blocks are meant to be large (arenas);
 * each costs a file descriptor. A segment cannot change its size (it is sealed), so that no process
 * can take pages away from another.
 *
 * Threads: any (own lock, rank LOCK_RANK_ENGINE).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct worker_memory;

struct worker_memory *worker_memory_create(void);
/* Aborts when a block has not been freed. */
void worker_memory_destroy(struct worker_memory **memory);

/* Page-aligned, zeroed; NULL when the system has none. For hearth_options: `arg` is the
 * worker_memory. */
void *worker_memory_alloc(size_t size, void *arg) NODISCARD;
void worker_memory_free(void *ptr, void *arg);

/* The segment that `bytes` bytes at `ptr` lie in. */
struct worker_segment {
    uint64_t id;     /* > 0, never used twice */
    uint64_t offset; /* of ptr */
    uint64_t bytes;  /* of all of it */
    int fd;          /* borrowed as long as the block is not freed */
};
bool worker_memory_find(struct worker_memory *memory, const void *ptr, uint64_t bytes,
                        struct worker_segment *segment) NODISCARD;

/* The next segment after the one with number `id` (0: the first) that has at least `bytes` bytes;
 * its offset is 0. The caller closes its descriptor: the block may be freed at any time. */
bool worker_memory_next(struct worker_memory *memory, uint64_t id, uint64_t bytes,
                        struct worker_segment *segment) NODISCARD;

/* Whether a segment still exists, and a number that changes whenever one is freed. */
bool worker_memory_has(struct worker_memory *memory, uint64_t id);
uint64_t worker_memory_freed(const struct worker_memory *memory);
