/*
 * trace_cost.h: what a model's state weighs and how fast it comes: the numbers that turn hits and
 * misses into bytes and seconds.
 *
 * From a preset, or from the facts of a model file (the command asks the engine for them; nothing
 * here knows an engine). A time to the first token is what has to be imported at the bandwidth plus
 * what has to be computed at the speed of prefill; waiting for other requests is not in it.
 */
#ifndef HEARTH_LAB_TRACE_COST_H
#define HEARTH_LAB_TRACE_COST_H

#include <stdbool.h>
#include <stdint.h>

struct cost {
    const char *name;
    const char *help;
    uint32_t kinds;                /* enum hearth_kind bits */
    uint64_t rows_bytes_per_token; /* of all that can be cut at a token; 0 = nothing can */
    uint64_t snapshot_bytes;       /* of what cannot; 0 = nothing needs one */
    double prefill_tokens_per_s;
    double import_bytes_per_s; /* from memory into the engine */
};

/* Ended by one without name. The first is the default. */
extern const struct cost cost_presets[];

/* NULL when there is no such preset. */
const struct cost *cost_find(const char *name);

/* Some kind can be resumed at exact token counts only. */
bool cost_needs_snapshot(const struct cost *cost);

double cost_ttft_s(const struct cost *cost, uint64_t bytes_imported, uint64_t tokens_computed);

#endif
