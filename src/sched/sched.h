/*
 * sched.h: runs many generations on one engine: order, starting state, and what to keep.
 *
 *      submit (any thread) -> inbox -> [ step table of each gen ] -> batch -> engine_run -> sinks
 *                                                ^                                |
 *                                                '---------- one turn <-----------'
 *
 * The scheduler owns the engine's thread: no other code runs its engine. docs/request-life.md has
 * the whole story.
 *
 * Threads: every function may be called from any thread, create and destroy from one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/drill.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/metric.h"
#include "sched/cost.h"
#include "sched/gen.h"

struct clock;
struct log;
struct memory;
struct sched;

#define SCHED_DRAFTS_AUTO UINT32_MAX

struct sched_options {
    struct engine *engine; /* borrowed; from now on only the scheduler's thread uses it */
    const char *model;     /* name, for the log */
    uint32_t parallel;     /* concurrent generations; 0 = the engine's sequences */
    uint32_t queue;        /* maximum queue length, by the rule of base/turns.h; 0 = 256 */
    /* prefill tokens per turn while others decode; 0 = the engine's chunk */
    uint32_t prefill_beside;
    uint32_t sparse; /* snapshot interval on long prompts, in tokens; 0 = 8,192 */
    /* one at a time, at canonical cuts only: answers are bit-identical to cold ones */
    bool exact;
    /* guess tokens of answers and verify them in one batch: 0 = never, SCHED_DRAFTS_AUTO = as many
     * as measured costs allow, else always up to that many */
    uint32_t drafts;
    /* a second model that guesses, checked (drafter.h); borrowed; NULL = none */
    struct engine *draft_engine;
    uint32_t draft_max, draft_min; /* guesses of it at a time; max: 0 = as many as pay */
    bool park;                     /* finished sequences stay on the device as the first tier */
    uint32_t linger_ms;            /* idle time before the state of ended jobs is stored; 0 = 100 */
    struct memory *memory;         /* the ceiling, shared with others; borrowed; NULL = none */
    /* the folder that remembers what computing takes, and for which model and settings
     * (cost_file.h); borrowed; NULL = none */
    const char *cost_dir;
    struct hash256 cost_key;
    struct clock *clock;
    struct log *log;            /* may be NULL */
    bool progress;              /* show a progress bar for long prefills */
    enum drill drill;           /* injected fault; 0 = none */
    struct hearth_cache *cache; /* of the spaces; used by drills only */
};

/* Starts the thread. */
enum err sched_create(struct sched **sched, const struct sched_options *options,
                      struct errinfo *info) NODISCARD;
/* Cancels all remaining generations and ends the thread. */
void sched_destroy(struct sched **sched);

/* Whether a prompt of this length can ever be answered. ERR_LIMIT: it exceeds the context;
 * ERR_NOMEM: it exceeds the memory; the text explains why, with the figures. */
enum err sched_preflight(const struct sched *sched, uint32_t prompt, uint32_t max_tokens,
                         struct errinfo *info) NODISCARD;

/* The same for an input that is to become a vector. */
enum err sched_preflight_embed(const struct sched *sched, uint32_t input,
                               struct errinfo *info) NODISCARD;
/* Whether the memory allows a prompt of the smallest chunk: if not, a shorter one does not help. */
bool sched_fits_any(const struct sched *sched);

/* Like memory_charge and memory_uncharge, under this scheduler's ceiling. Any thread. */
enum err sched_charge(struct sched *sched, uint64_t bytes, struct errinfo *info) NODISCARD;
void sched_uncharge(struct sched *sched, uint64_t bytes);

/* Accepts gen; sink.done will be called. ERR_BUSY: the queue is full; ERR_CLOSED: draining;
 * ERR_LIMIT and ERR_NOMEM as for sched_preflight; ERR_INVALID: an invalid token or field. On an
 * error, gen is not accepted and no sink is called. */
enum err sched_submit(struct sched *sched, struct gen *gen, struct errinfo *info) NODISCARD;

/* gen_cancel, and wakes the scheduler if it sleeps. Any thread. */
void sched_cancel(struct sched *sched, struct gen *gen);

/* Refuses new generations and waits until all are done. Cancels the rest at the timeout. False:
 * some were cancelled. */
bool sched_drain(struct sched *sched, uint64_t timeout_ms);

/* The facts of the draft model; NULL: there is none. Any thread. */
const struct engine_facts *sched_draft_facts(const struct sched *sched);
/* Why answers are never drafted; NULL: they may be. Any thread. */
const char *sched_no_drafts(const struct sched *sched);

/* Whether the thread is idle or in a turn that began at most within_ns ago: a hung engine is not
 * alive. Takes no lock. */
bool sched_alive(const struct sched *sched, uint64_t within_ns);

enum { SCHED_STALL_S = 30 };
/* One check of the watchdog: an engine without a sign of life for SCHED_STALL_S while jobs are
 * ready to compute is stalled, and a job is ended. Any thread, every few seconds. */
void sched_run_watchdog(struct sched *sched);
/* Result of the last check. Any thread, no lock. */
bool sched_stalled(const struct sched *sched);
/* Whether the engine's process died and was not restarted yet; `info` says why, else its code is
 * ERR_OK. Any thread; waits for no engine. */
bool sched_is_dead(struct sched *sched, struct errinfo *info);

/* The number of tokens that both begin with. */
uint32_t sched_common(const token_id *a, uint32_t a_count, const token_id *b, uint32_t b_count);

/* ---- state on the device; these wait for the engine's thread, or ERR_TIMEOUT ---- */

/* A prompt to look up; borrowed for the call. */
struct sched_prompt {
    const struct hearth_space *space;
    const char *tenant; /* as in struct gen */
    const token_id *tokens;
    uint32_t count;
    const struct lora_set *lora; /* as in struct gen; an activated adapter does not count */
};

struct sched_device {
    uint32_t length; /* tokens it would start with; 0 = none */
    uint32_t shared; /* tokens in common with the sequence that shares most */
    bool ends;       /* that sequence ends there, rather than diverging */
};

/* What the prompt would find on the device. Changes nothing. */
enum err sched_probe(struct sched *sched, const struct sched_prompt *prompt, uint64_t timeout_ms,
                     struct sched_device *found, struct errinfo *info) NODISCARD;
/* Frees the finished sequences of a space (NULL: of all); *tokens is the number of tokens freed.
 * Running generations continue. */
enum err sched_forget(struct sched *sched, const struct hearth_space *space, uint64_t timeout_ms,
                      uint64_t *tokens, struct errinfo *info) NODISCARD;

/* Waits until the engine's thread is between two turns: state of earlier answers has been passed to
 * the cache. */
enum err sched_wait_turn(struct sched *sched, uint64_t timeout_ms, struct errinfo *info) NODISCARD;

/* State of a generation, for /slots and the dashboard. */
struct sched_view {
    uint64_t id;
    enum gen_phase phase;
    struct gen_usage usage;
    uint32_t done; /* prompt tokens computed or restored */
    uint64_t age_ns;
    /* time spent so far on prefill and decoding, including waits; 0 = not begun */
    uint64_t prefill_ns, decode_ns;
    int32_t seq; /* SEQ_NONE: not on the device */
};

/* The numbers of a scheduler, each with its name and help in /metrics. struct sched_stats,
 * sched_add_stats and the rows of /metrics follow from this table. X(field, kind, name, help)
 *
 *      COUNTER, SECONDS   since the start; the field of SECONDS is in nanoseconds
 *      GAUGE              now; not counted for a model that was unloaded
 *      HIDDEN             a counter that /metrics shows by other names (src/admin/metrics.c) */
#define SCHED_STATS_TABLE(X)                                                                       \
    X(submitted, COUNTER, "hearth_sched_submitted_total", "Generations accepted.")                 \
    X(refused, COUNTER, "hearth_sched_refused_total",                                              \
      "Generations refused: queue full, or draining.")                                             \
    X(finished, COUNTER, "hearth_sched_finished_total", "Generations that ended by themselves.")   \
    X(cancelled, COUNTER, "hearth_sched_cancelled_total", "Generations cancelled.")                \
    X(failed, COUNTER, "hearth_sched_failed_total", "Generations that failed.")                    \
    X(tokens_prompt, HIDDEN, "", "")                                                               \
    X(tokens_device, HIDDEN, "", "")                                                               \
    X(tokens_ram, HIDDEN, "", "")                                                                  \
    X(tokens_ssd, HIDDEN, "", "")                                                                  \
    X(tokens_remote, HIDDEN, "", "")                                                               \
    X(tokens_computed, HIDDEN, "", "")                                                             \
    X(tokens_generated, HIDDEN, "", "")                                                            \
    X(turns, COUNTER, "hearth_sched_turns_total", "Runs of the engine.")                           \
    X(batch_tokens, COUNTER, "hearth_sched_batch_tokens_total", "Tokens in these runs.")           \
    X(prefill_tokens, COUNTER, "hearth_sched_prefill_tokens_total",                                \
      "Prompt tokens computed, also for requests that were cancelled.")                            \
    X(decode_tokens, COUNTER, "hearth_sched_decode_tokens_total",                                  \
      "Tokens computed one at a time, for answers.")                                               \
    X(drafted, COUNTER, "hearth_draft_tokens_total", "Draft tokens computed for answers.")         \
    X(accepted, COUNTER, "hearth_draft_accepted_total",                                            \
      "Draft tokens that became part of an answer.")                                               \
    X(tokens_twice, COUNTER, "hearth_tokens_computed_twice_total",                                 \
      "Prompt tokens computed although the cache had already seen them and had not evicted them.") \
    X(forks, COUNTER, "hearth_sched_forks_total", "Prefixes shared with a running generation.")    \
    X(waits, COUNTER, "hearth_sched_waits_total",                                                  \
      "Generations that waited for another one's prefix.")                                         \
    X(preempted, COUNTER, "hearth_sched_preempted_total", "Generations preempted to make room.")   \
    X(restarts, COUNTER, "hearth_sched_engine_restarts_total",                                     \
      "Restarts of engines whose process died.")                                                   \
    X(stalls, COUNTER, "hearth_engine_stalls_total",                                               \
      "Engines that computed nothing for 30 s although generations were ready.")                   \
    X(stalled, GAUGE, "hearth_engine_stalled", "Engines that are stalled now.")                    \
    X(parked, COUNTER, "hearth_sched_parked_total", "Finished sequences kept on the device.")      \
    X(reclaimed, COUNTER, "hearth_sched_reclaimed_total",                                          \
      "Parked sequences evicted to make room.")                                                    \
    X(prefill_ns, SECONDS, "hearth_sched_prefill_seconds_total",                                   \
      "Time spent on prefill; a step with both is divided by tokens.")                             \
    X(decode_ns, SECONDS, "hearth_sched_decode_seconds_total",                                     \
      "Time spent on decoding; a step with both is divided by tokens.")                            \
    X(restore_ns, SECONDS, "hearth_sched_restore_seconds_total", "Time spent on imports.")         \
    X(store_ns, SECONDS, "hearth_sched_store_seconds_total", "Time spent on exports.")             \
    X(reused_ns, SECONDS, "hearth_sched_reused_seconds_total",                                     \
      "Time that computing the reused prompt tokens would have taken (estimated).")                \
    X(queued, GAUGE, "hearth_sched_queued", "Generations in the queue.")                           \
    X(active, GAUGE, "hearth_sched_active", "Generations running.")                                \
    X(idle, GAUGE, "hearth_sched_idle", "Sequences parked on the device.")                         \
    X(unsaved, GAUGE, "hearth_sched_unsaved",                                                      \
      "Parked sequences whose state is not in the cache yet.")                                     \
    X(unsaved_lost, COUNTER, "hearth_sched_unsaved_lost_total",                                    \
      "Sequences whose engine died before their state was stored.")                                \
    X(not_stored, COUNTER, "hearth_sched_not_stored_total",                                        \
      "Sequences evicted with a part that cost too much to store beside other work.")              \
    X(not_stored_tokens, COUNTER, "hearth_sched_not_stored_tokens_total",                          \
      "Tokens of these parts.")                                                                    \
    X(cells_free, GAUGE, "hearth_sched_cells_free", "Tokens that still fit on the device.")        \
    X(cells, GAUGE, "hearth_sched_cells", "Tokens that fit on the device.")                        \
    X(pinned, GAUGE, "hearth_sched_pinned_bytes",                                                  \
      "Memory of the RAM cache that is pinned for the models' GPUs, once per model.")              \
    X(pageable, GAUGE, "hearth_sched_pageable_bytes",                                              \
      "Memory of the RAM cache that could not be pinned: restores from it are slower.")

/* A full hit, and new text after everything that was cached, are not misses; neither is
 * usage.new_conversation. */
bool sched_is_miss(enum hearth_reason reason);

struct sched_stats {
#define X(field, kind, name, help) uint64_t field;
    SCHED_STATS_TABLE(X)
#undef X
    /* prompts that were not fully cached although their text was not new, and the tokens that were
     * computed for them */
    uint64_t miss_by_reason[HEARTH_REASON_COUNT], miss_tokens[HEARTH_REASON_COUNT];
    struct metric_latency store_times; /* of storing state in the cache, each time */
};

/* Adds the statistics of another scheduler; gauges only with `now`. */
void sched_add_stats(struct sched_stats *sum, const struct sched_stats *one, bool now);
void sched_get_stats(struct sched *sched, struct sched_stats *stats);
/* What computing takes, as learned up to the last turn. */
struct cost sched_get_cost(struct sched *sched);
/* Copies at most max views, oldest first; returns the total. */
size_t sched_views(struct sched *sched, struct sched_view *views, size_t max);
