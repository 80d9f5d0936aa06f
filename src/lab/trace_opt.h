/*
 * trace_opt.h: the ceiling: Belady's algorithm for caches of prefixes, with the right not to keep
 * what was just computed.
 *
 * Knows the future. No policy that does not can have a higher block hit rate with as many blocks;
 * how far below it one stays is what there is to win.
 */
#ifndef HEARTH_LAB_TRACE_OPT_H
#define HEARTH_LAB_TRACE_OPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct trace;

struct opt_result {
    uint64_t evictions; /* of blocks that would have been used again */
    uint64_t held_max;  /* blocks */
};

/* Hits of each request in blocks, the leading ones, into hits[requests_count]. Blocks of all
 * requests compete for `capacity` places. O(n log n). Progress as in sim.h; fn may be NULL.
 * ERR_NOMEM. */
enum err opt_run(const struct trace *trace, uint64_t capacity, uint32_t *hits,
                 struct opt_result *result, void (*fn)(size_t done, size_t total, void *arg),
                 void *arg) NODISCARD;

#endif
