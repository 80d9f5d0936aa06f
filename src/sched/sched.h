/*
 * sched.h: many generations on one engine: who runs when, from which state, and what is kept of it.
 *
 *      submit (any thread) --> inbox --> [ step table of each gen ] --> batch --> engine_run --> sinks
 *                                              ^                                     |
 *                                              '---------- one turn <----------------'
 *
 * The scheduler is the only one that touches its engine: it owns the engine thread.
 * docs/request-life.md tells the whole story.
 *
 * Threads: every function may be called from any thread, create and destroy from one.
 */
#ifndef HEARTH_SCHED_SCHED_H
#define HEARTH_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/drill.h"
#include "base/err.h"
#include "base/metric.h"
#include "sched/gen.h"

struct clock;
struct log;
struct memory;
struct sched;

struct sched_options {
    struct engine *engine; /* borrowed; from now on only the scheduler's thread runs it */
    const char *model;     /* name, for the log */
    uint32_t parallel;     /* generations at a time; 0 = the engine's sequences */
    uint32_t queue;        /* that wait at most; 0 = 256 */
    /* tokens of prefill beside decoding ones per turn; 0 = the engine's chunk */
    uint32_t prefill_beside;
    uint32_t sparse; /* grid of snapshots on long prompts, tokens; 0 = 8,192 */
    /* one at a time, at canonical cuts only: answers are bit-identical to cold ones */
    bool exact;
    bool park;             /* finished sequences stay on the device as the first tier */
    uint32_t linger_ms;    /* without work, before the state of what has ended is stored; 0 = 100 */
    struct memory *memory; /* the ceiling that this one is under, too; borrowed; NULL = none */
    struct clock *clock;
    struct log *log;            /* may be NULL */
    bool progress;              /* a bar for long prefills on the terminal */
    enum drill drill;           /* a fault that is practised; 0 = none */
    struct hearth_cache *cache; /* of the spaces; for drills alone */
};

/* Starts the thread. */
enum err sched_create(struct sched **sched, const struct sched_options *options,
                      struct errinfo *info) NODISCARD;
/* Cancels what is left and ends the thread. */
void sched_destroy(struct sched **sched);

/* Whether a prompt of so many tokens can ever be answered here. ERR_LIMIT: not in this context;
 * ERR_NOMEM: not in this memory; the text says why, with the figures. */
enum err sched_preflight(const struct sched *sched, uint32_t prompt, uint32_t max_tokens,
                         struct errinfo *info) NODISCARD;

/* As memory_charge and memory_uncharge, under the ceiling of this scheduler. Any thread. */
enum err sched_charge(struct sched *sched, uint64_t bytes, struct errinfo *info) NODISCARD;
void sched_uncharge(struct sched *sched, uint64_t bytes);

/* Takes gen; sink.done will be called. ERR_BUSY: the queue is full; ERR_CLOSED: draining; ERR_LIMIT
 * and ERR_NOMEM as preflight; ERR_INVALID: a token or field that cannot be. Then nothing was taken
 * and no sink is called. */
enum err sched_submit(struct sched *sched, struct gen *gen, struct errinfo *info) NODISCARD;

/* gen_cancel, and the scheduler looks at once, also when it sleeps. Any thread. */
void sched_cancel(struct sched *sched, struct gen *gen);

/* Takes no new ones and waits until all are done, at most so long; then cancels the rest. False:
 * some were cancelled. */
bool sched_drain(struct sched *sched, uint64_t timeout_ms);

/* Whether its thread waits for work or is in a turn that began not longer ago than that: an engine
 * that hangs is not alive. Takes no lock. */
bool sched_alive(const struct sched *sched, uint64_t within_ns);

enum { SCHED_STALL_S = 30 };
/* One look of the watchdog: an engine that gave no sign of life for SCHED_STALL_S while jobs want
 * to compute is stalled, and a job is ended for it. Any thread, every few seconds. */
void sched_watch(struct sched *sched);
/* What the last look said. Any thread, no lock. */
bool sched_stalled(const struct sched *sched);

/* ---- what stands on the device; all wait for the engine's thread, at most so long (ERR_TIMEOUT) ---- */

/* A prompt that someone may send; borrowed for the call. */
struct sched_prompt {
    const struct hearth_space *space;
    const char *tenant; /* as in struct gen */
    const token_id *tokens;
    uint32_t count;
};

struct sched_device {
    uint32_t length; /* tokens that it would start with; 0 = none */
    uint32_t shared; /* tokens that are the same, of whichever has most */
    bool ends;       /* what has most ends there, and does not go another way */
};

/* What it would find. Uses and changes nothing. */
enum err sched_probe(struct sched *sched, const struct sched_prompt *prompt, uint64_t timeout_ms,
                     struct sched_device *found, struct errinfo *info) NODISCARD;
/* Frees finished sequences that stay there, of a space (NULL: of all); *tokens is how many tokens
 * they had. Running ones go on. */
enum err sched_forget(struct sched *sched, const struct hearth_space *space, uint64_t timeout_ms,
                      uint64_t *tokens, struct errinfo *info) NODISCARD;

/* Waits until the engine's thread stands between two turns: what was answered before has been
 * handed to the cache as well. */
enum err sched_wait_turn(struct sched *sched, uint64_t timeout_ms, struct errinfo *info) NODISCARD;

/* A generation as it stands, for /slots and the dashboard. */
struct sched_view {
    uint64_t id;
    enum gen_phase phase;
    struct gen_usage usage;
    uint32_t done; /* tokens of the prompt that stand */
    uint64_t age_ns;
    /* that prefill and decoding have taken so far, waiting included; 0 = not begun */
    uint64_t prefill_ns, decode_ns;
    int32_t seq; /* SEQ_NONE: not on the device */
};

/* The numbers of a scheduler, each with its name and help in /metrics. struct sched_stats,
 * sched_add_stats and the rows of /metrics follow from this table. X(field, kind, name, help)
 *
 *      COUNTER, SECONDS   since the start; the field of SECONDS is in nanoseconds
 *      GAUGE              now; not counted for a model that was unloaded
 *      HIDDEN             a counter that /metrics shows by other names (src/admin/metrics.c) */
#define SCHED_STATS_TABLE(X)                                                                     \
    X(submitted, COUNTER, "hearth_sched_submitted_total", "Generations taken.")                  \
    X(refused, COUNTER, "hearth_sched_refused_total",                                            \
      "Generations refused: queue full, or draining.")                                           \
    X(finished, COUNTER, "hearth_sched_finished_total", "Generations that ended by themselves.") \
    X(cancelled, COUNTER, "hearth_sched_cancelled_total", "Generations cancelled.")              \
    X(failed, COUNTER, "hearth_sched_failed_total", "Generations that failed.")                  \
    X(tokens_prompt, HIDDEN, "", "")                                                             \
    X(tokens_device, HIDDEN, "", "")                                                             \
    X(tokens_ram, HIDDEN, "", "")                                                                \
    X(tokens_ssd, HIDDEN, "", "")                                                                \
    X(tokens_remote, HIDDEN, "", "")                                                             \
    X(tokens_computed, HIDDEN, "", "")                                                           \
    X(tokens_generated, HIDDEN, "", "")                                                          \
    X(turns, COUNTER, "hearth_sched_turns_total", "Runs of the engine.")                         \
    X(batch_tokens, COUNTER, "hearth_sched_batch_tokens_total", "Tokens in these runs.")         \
    X(forks, COUNTER, "hearth_sched_forks_total", "Prefixes shared with a running generation.")  \
    X(waits, COUNTER, "hearth_sched_waits_total",                                                \
      "Generations that waited for another one's prefix.")                                       \
    X(preempted, COUNTER, "hearth_sched_preempted_total", "Generations put back to make room.")  \
    X(restarts, COUNTER, "hearth_sched_engine_restarts_total",                                   \
      "New processes for an engine that died.")                                                  \
    X(stalls, COUNTER, "hearth_engine_stalls_total",                                             \
      "Engines that computed nothing for 30 s while generations wanted to.")                     \
    X(stalled, GAUGE, "hearth_engine_stalled", "Of these, now.")                                 \
    X(parked, COUNTER, "hearth_sched_parked_total", "Finished sequences kept on the device.")    \
    X(reclaimed, COUNTER, "hearth_sched_reclaimed_total", "Parked sequences given up for room.") \
    X(prefill_ns, SECONDS, "hearth_sched_prefill_seconds_total", "Time of prefill.")             \
    X(decode_ns, SECONDS, "hearth_sched_decode_seconds_total", "Time of decoding.")              \
    X(restore_ns, SECONDS, "hearth_sched_restore_seconds_total", "Time of imports.")             \
    X(store_ns, SECONDS, "hearth_sched_store_seconds_total", "Time of exports.")                 \
    X(queued, GAUGE, "hearth_sched_queued", "Generations that wait.")                            \
    X(active, GAUGE, "hearth_sched_active", "Generations that run.")                             \
    X(idle, GAUGE, "hearth_sched_idle", "Sequences parked on the device.")                       \
    X(unsaved, GAUGE, "hearth_sched_unsaved", "Of these, whose state is not in the cache yet.")  \
    X(unsaved_lost, COUNTER, "hearth_sched_unsaved_lost_total",                                  \
      "Sequences whose engine died before their state was stored.")                              \
    X(cells_free, GAUGE, "hearth_sched_cells_free", "Tokens that still fit on the device.")      \
    X(cells, GAUGE, "hearth_sched_cells", "Tokens that fit on the device.")

struct sched_stats {
#define X(field, kind, name, help) uint64_t field;
    SCHED_STATS_TABLE(X)
#undef X
    uint64_t miss_by_reason[HEARTH_REASON_COUNT];
    struct metric_latency store_times; /* of handing state to the cache, each time */
};

/* Adds the numbers of another scheduler; gauges only with `now`. */
void sched_add_stats(struct sched_stats *sum, const struct sched_stats *one, bool now);
void sched_get_stats(struct sched *sched, struct sched_stats *stats);
/* Copies at most max views, the oldest first; returns how many there are. */
size_t sched_views(struct sched *sched, struct sched_view *views, size_t max);

#endif
