/*
 * trace_sim.h: a trace against the real cache: its index, its policies, its ledger, its plans;
 * without an engine, and without bytes.
 *
 *      request -> lookup -> accept -> release -> store_open -> next, reserve, commit ... -> close
 *                             |                                        |
 *                             tokens reused                            addresses without memory
 *
 * No part of the cache is reimplemented here: a policy does in a replay what it does in the server.
 * Only two parts are replaced: the clock shows the time of the trace, and memory is only addresses.
 *
 * TOKENS. Where state can be cut at any token, one token of the cache represents a whole block of
 * the trace (the index compares one number instead of 512), and bytes and speeds are scaled. Where
 * snapshots are needed, policies count tokens: then blocks have all of theirs.
 *
 * CAPACITY. In blocks or tokens it is exactly that many bytes of rows (and snapshots among them),
 * in one arena without gaps, metadata excluded: for comparing policies. In bytes it is the whole
 * cache as in `--ram-cache`: arenas, gaps and metadata included.
 *
 * Only memory is simulated, no slower tier. Requests are served one after another, each stored
 * before the next is looked up.
 *
 * Thread: any; a run belongs to one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct cost;
struct trace;

/* Where snapshots are taken. X(value, name) */
#define SIM_PLACE_TABLE(X)        \
    X(SIM_PLACE_POLICY, "policy") \
    X(SIM_PLACE_DENSE, "dense")   \
    X(SIM_PLACE_END, "end")

enum sim_place { SIM_PLACE_TABLE(TABLE_VALUE) SIM_PLACE_COUNT };

extern const char *const sim_place_names[]; /* ended by NULL */

#define SIM_OPT "opt" /* the policy that knows the future: opt_run */

struct sim_options {
    const char *policy; /* of policy.h, or SIM_OPT */
    uint64_t capacity_bytes;
    bool whole; /* the capacity is that of the whole cache, metadata and gaps included */
    const struct cost *cost;
    uint32_t run_blocks; /* moved as one object, at most; 0 = 1 */
    enum sim_place place;
    uint64_t snapshot_bytes; /* held at most; 0 = no limit */
    uint32_t place_tokens;   /* DENSE: tokens per snapshot; POLICY: its sparse grid, 0 = none */
    void (*fn)(size_t done, size_t total, void *arg); /* called now and then; may be NULL */
    void *arg;
};

struct sim_result {
    uint64_t requests, blocks, blocks_hit;
    uint64_t tokens, tokens_hit; /* at least one token of a prompt is computed */
    uint64_t evictions;
    uint64_t snapshots, snapshot_bytes; /* written */
    /* held at a time; of these, not superseded. Sampled now and then */
    uint64_t snapshot_bytes_max, snapshot_bytes_live_max;
    uint64_t refused; /* requests that the cache had no room to look up or to store in full */
    double ttft_s_mean, ttft_s_p50, ttft_s_p99;
    double seconds; /* that the replay took */
};

/* ERR_NOMEM, ERR_INVALID (an unknown policy, a capacity too small for anything, OPT for a model
 * without rows). */
enum err sim_run(const struct trace *trace, const struct sim_options *options,
                 struct sim_result *result, struct errinfo *info) NODISCARD;

double sim_hit_rate(const struct sim_result *result); /* of tokens */
double sim_block_hit_rate(const struct sim_result *result);

/* ---- costs ----
 *
 * The size of a model's state and how fast it can be restored: the numbers that turn hits and
 * misses into bytes and seconds. From a preset, or from the facts of a model file (the command gets
 * them from the engine; this module uses no engine). The time to the first token is the import at
 * the given bandwidth plus prefill at the given speed, without waiting for other requests. */

struct cost {
    const char *name;
    const char *help;
    uint32_t kinds;                /* enum hearth_kind bits */
    uint64_t rows_bytes_per_token; /* of all layers that can be cut at a token; 0 = none */
    uint64_t snapshot_bytes;       /* of the rest; 0 = no snapshots needed */
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

/* ---- the ceiling (trace_opt.c) ----
 *
 * Belady's algorithm for caches of prefixes, with the right not to keep a block that was just
 * computed. It knows the future: no other policy can have a higher block hit rate with as many
 * blocks. The distance to it is what a better policy can win. */

struct opt_result {
    uint64_t evictions; /* of blocks that would have been used again */
    uint64_t held_max;  /* blocks */
};

/* Hits of each request in blocks, the leading ones, into hits[requests_count]. Blocks of all
 * requests compete for `capacity` places. O(n log n). Progress as in sim_options; fn may be NULL.
 * ERR_NOMEM. */
enum err opt_run(const struct trace *trace, uint64_t capacity, uint32_t *hits,
                 struct opt_result *result, void (*fn)(size_t done, size_t total, void *arg),
                 void *arg) NODISCARD;
