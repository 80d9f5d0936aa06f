/*
 * sched_impl.h: internals of the scheduler, shared by its source files. The public interface is
 * sched.h.
 *
 *      sched.c       the thread: inbox, turns, draining, statistics
 *      steps.c       the step table: what a job does in each phase
 *      device.c      finished sequences kept on the device, forks of running ones: the first tier
 *      restore.c     from a plan of the cache to a sequence
 *      beside.c      computing the front of a prompt while the rest is read
 *      retain.c      from a sequence to the cache
 *      forks.c       where prompts fork (places.c), and which of these places get snapshots
 *      batch.c       choosing the next batch and processing its results
 *      drafts.c      guesses in batches; draft.c makes them and knows whether they pay
 *      drafter.c     a second model that guesses
 *      ladder.c      what to do when the engine has no room for a batch
 *      save_later.c  storing the state of ended jobs once the engine has time
 *      cost.c        what computing costs; cost_file.c remembers it
 *      store_cost.c  what storing costs, compared with computing
 *      again.c       how often the state of ended jobs is used again
 *      revive.c      restarting an engine whose process died
 *      fair.c        the order among tenants and jobs (fair.h)
 *      memory.c      the ceiling, shared with other schedulers; guard.c has its rules
 *      cuts.c        the chunks in which state was computed
 *      check.c       invariants between two turns, for debug builds
 *      faults.c      injected faults, for `hearth qa --prove`
 *
 * A JOB is a generation inside the scheduler. The caller's `struct gen` may be freed after
 * sink.done, so the job copies what retaining needs.
 *
 *      job->tokens   | prompt ........................ | sampled ... |
 *                    0         done                  prompt        count
 *
 * All `count` tokens are computed before the next one is sampled.
 *
 * Owner of everything here: the scheduler's thread, except the fields guarded by `lock`.
 */
#pragma once

#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/queue.h"
#include "engine/schedule.h"
#include "engine/state.h"
#include "sched/again.h"
#include "sched/device.h"
#include "sched/draft.h"
#include "sched/drafter.h"
#include "sched/drafts.h"
#include "sched/fair.h"
#include "sched/ladder.h"
#include "sched/memory.h"
#include "sched/restore.h"
#include "sched/sched.h"
#include "sched/store_cost.h"
#include "output/detok.h"
#include "sched/waiting.h"
#include "sched/watchdog.h"

enum {
    SCHED_FLIGHT_MIN = 32, /* minimum tokens saved by waiting for another job's prefix */
    /* cells guaranteed at admission for a generation's answer */
    SCHED_RESERVE = 256,
    SCHED_STORE_EVERY = 2048, /* tokens between two stores of rows during a prefill */
    /* between two memory polls while idle: the RAM tier also shrinks for other programs */
    SCHED_IDLE_MS = 1000,
    /* between two admission attempts of a job deferred under a ceiling: memory is measured, and no
     * event reports that more is available */
    SCHED_MEMORY_MS = 10,
    SCHED_MARKS_EXTRA = 5 + SPREAD_MAX, /* of the prompt, a spare, and places for forks */
    SCHED_VIEWS_MAX = 128,
};

/* What a job that is not running waits for. */
struct job_wait {
    /* sched->epoch and memory_epoch when there was no room for the job */
    uint64_t epoch, memory_epoch;
    struct job *leader; /* DEFERRED: the job that computes the awaited prefix; else NULL */
    uint32_t until;     /* tokens shared with the leader */
    uint32_t turns;     /* turns without a token */
};

/* The job's share of the ceiling. */
struct job_memory {
    uint64_t records; /* bytes, from submission on */
    uint64_t claim;   /* bytes, from admission on, if `claimed` */
    bool claimed;
};

struct job {
    struct list_node link;
    struct sched *sched;
    struct gen *gen; /* NULL after sink.done */
    uint64_t id;
    struct tenant *tenant;
    struct waiting *waiting;    /* NULL: it was admitted, if only once */
    struct hearth_space *space; /* NULL: cache off */
    enum gen_phase phase;
    bool active;   /* was admitted and counts as running */
    bool started;  /* the sink was notified; `usage` and `times.restored` are set */
    bool isolated; /* other jobs must not find it */

    token_id *tokens; /* owned; as the cache sees them: salted after an invocation (lora.h) */
    struct lora_plan lora;
    token_id *unsalted; /* of the next item, if it has salted tokens; NULL until then */
    uint32_t prompt, count, capacity;
    uint32_t done;
    uint32_t room; /* maximum tokens, prompt included */
    seq_id seq;
    uint32_t *marks;
    struct schedule_run *runs; /* its pictures */
    size_t runs_count;
    struct schedule schedule;
    uint32_t junction, resumed;
    struct forks forks;
    uint32_t scored;  /* tokens of the prompt whose log-probabilities the sink has */
    uint32_t reached; /* tokens computed before it was preempted; 0 = it was not */

    struct job_restore restore;
    struct job_wait wait;
    struct job_memory memory;
    struct job_keep keep;

    float *vector;               /* of a gen with `embed`; else NULL */
    struct sampler *sampler;     /* of all others */
    struct draft *draft;         /* NULL: no drafts, or no token yet */
    struct drafter_job *drafter; /* NULL: no draft model, or no token yet */
    uint32_t tree_asks;          /* how often the cache was asked for a text to follow */
    struct detok detok;
    struct buf text; /* of the last token */
    struct gen_usage usage;
    struct gen_times times;
    struct gen_result result;
};

/* How often the engine's process died, and when it may be restarted. */
struct revival {
    bool dead;         /* it was noticed, and all state in the process was dropped */
    uint32_t deaths;   /* in a row, of processes that had loaded the model */
    uint32_t failures; /* attempts to restart it since the last death */
    /* started_ns: the last restart; 0 = none yet */
    uint64_t started_ns, next_ns;
};

struct sched {
    struct sched_options options;
    struct engine *engine;
    const struct engine_facts *facts;
    struct memory_member *memory; /* NULL: no ceiling */
    uint32_t room;                /* maximum tokens of a sequence */
    bool cuttable; /* state can be truncated at any token: no snapshots, no cuts but the grid */
    bool whole;    /* state moves only as a whole: the cache calls it a snapshot */
    bool vectors;  /* batch.c: the batch is for vectors */
    struct queue *inbox;
    struct thread thread;
    atomic_uint waiting; /* submitted, not admitted yet; changed under the lock */
    atomic_bool draining, stopping;
    atomic_ullong drill_first; /* of a drill: the first conversation, as a number */
    /* start of the current turn; 0: the thread is idle. Read by other threads to detect a hang */
    atomic_ullong turn_ns;

    struct list jobs; /* oldest first */
    struct list residents;
    uint32_t unsaved; /* residents whose state is not in the cache yet */
    bool saving;      /* some of them were stored since the thread became idle */
    struct store_cost store_cost;
    struct again again;
    struct drafter *drafter; /* NULL: there is no draft model */
    struct draft_rates draft_rates;
    struct draft_costs draft_costs;
    struct line cells_cost; /* nanoseconds per computed token, by cells in use (device.c) */
    uint64_t computed;      /* tokens */
    uint64_t imports, turn_import_ns; /* their number; the time of those in this turn */
    struct burst burst;
    uint64_t floor_ns; /* batch.c: since when memory allows only the smallest chunks; 0 = not */
    uint64_t decode_owed_ns; /* batch.c: until then, decoding goes on without prefill */
    struct tenant tenants[SCHED_TENANTS_MAX];
    size_t tenants_count;
    uint64_t served_time;        /* fair.c: virtual time, the reference for accounts */
    uint32_t active, cost_saved; /* cost.samples in the file */
    uint64_t epoch;              /* grows whenever cells may have become free */
    /* measured, smoothed; 0 = not yet. `read`: of each slow tier */
    double import_bytes_per_s, read_bytes_per_s[HEARTH_TIER_COUNT];
    struct cost cost;
    struct engine_item *items;
    struct job **batch; /* of items[i] */
    size_t batch_count, batch_cap;
    struct lora_set lora; /* of the batch */
    uint32_t lora_turns;  /* batches with it in a row, while jobs with another set were ready */
    bool saw;             /* the last batch was a picture */
    struct progress *bar;
    uint64_t bar_id;
    struct revival revival;
    struct ladder ladder;
    struct watchdog watchdog;

    struct lock lock;
    struct cond idle; /* no jobs left */
    struct cond answered;
    struct list asks GUARDED_BY(lock); /* ask.c */
    struct waiting waiting_of[SCHED_TENANTS_MAX] GUARDED_BY(lock);
    bool nudged GUARDED_BY(lock); /* the scheduler itself is in its inbox */
    struct sched_stats stats GUARDED_BY(lock);
    struct cost cost_published GUARDED_BY(lock);
    struct sched_view views[SCHED_VIEWS_MAX] GUARDED_BY(lock);
    size_t views_count GUARDED_BY(lock);
    size_t jobs_left GUARDED_BY(lock);     /* submitted and not freed yet */
    struct errinfo death GUARDED_BY(lock); /* why there is no engine; ERR_OK: there is one */
};

uint64_t sched_now_ns(const struct sched *sched);
/* Updates a smoothed speed per second with one more measurement; one without time is ignored. */
void sched_learn_speed(double *speed, uint64_t amount, uint64_t ns);
/* Adds to a counter of sched->stats. */
void sched_count(struct sched *sched, uint64_t *counter, uint64_t amount);
/* Vectors need the rows of all tokens, which are not part of the state: no prefix is reused. */
bool sched_embeds_all(const struct sched *sched);
bool job_cancelled(const struct job *job);
/* Also logs it. */
void job_set_phase(struct job *job, enum gen_phase phase);
/* Removes the job from the list and all accounts. */
void job_unlist(struct job *job);
/* Frees the job and wakes a drain. Its sequence is left to the caller. */
void job_free(struct job *job);
/* Returns the job's claim on memory; a no-op without one. */
void job_unclaim(struct job *job);

/* ---- check.c ---- */

/* Aborts unless the scheduler and its jobs satisfy the invariants between two turns. Does nothing
 * without HEARTH_DEBUG. */
void sched_check(struct sched *sched);

/* ---- steps.c ---- */

/* Runs the steps of a job until it parks, is ready for a batch, or is freed. */
enum step job_advance(struct job *job);
/* Ends the job for any reason: notifies the sink, stores what was computed, parks or frees the
 * sequence, frees the job. */
void job_end(struct job *job, enum gen_end end, enum err err, const struct errinfo *info);
/* Jobs that wait for this job's prefix look again. */
void job_release_followers(struct job *job);
/* Ends the job with an error it did not cause: the state computed so far is kept. */
void job_give_up(struct job *job, enum err err, const struct errinfo *info);
/* The sink learns what was restored and how much is left to compute. */
void job_announce(struct job *job);
/* No other job has cells or was promised any. */
bool job_alone(const struct job *job);
/* How long the job has nothing to do unless an event nudges the thread; 0: it continues in the next
 * turn. */
uint64_t job_sleep_ns(const struct job *job);

/* ---- ask.c ---- */

/* Answers all requests since the last turn. */
void ask_answer_all(struct sched *sched);
/* A nudge was taken from the inbox. */
void ask_take_nudge(struct sched *sched);
/* Makes the thread run a turn soon, even if it sleeps. Any thread; takes the scheduler's lock. */
void ask_nudge(struct sched *sched);

/* ---- batch.c ---- */

/* Stores the job's state, frees its cells and its place, and requeues it. */
void job_put_back(struct job *job);
/* Makes room for `count` tokens in all. False: no memory. */
bool batch_grow_tokens(struct job *job, uint32_t count);
/* Ends the progress bar of its prefill, if it has one. */
void batch_end_bar(struct job *job, bool done);
/* Runs a batch of the jobs that are ready; false when there were none. */
bool batch_run(struct sched *sched);
/* Preempts the youngest job: it frees its cells and restarts later, from the cache. False: fewer
 * than two are running. */
bool batch_preempt(struct sched *sched);

/* ---- revive.c ---- */

/* Makes sure that the engine is usable. False: it is dead and was not restarted; no job is left. */
bool revive_engine(struct sched *sched);
/* All sequences of the engine are lost: ends the jobs that have one, and frees residents. */
void revive_lose_all(struct sched *sched, const struct errinfo *info);
/* True: the request was in a process that is dead, which explains any failed call; `info` says so
 * to the user. */
bool revive_explain(const struct job *job, enum err err, struct errinfo *info);

/* ---- faults.c: injected faults (base/drill.h); without one these do nothing ---- */

/* Whether a new job may store anything. */
bool faults_store(struct sched *sched, const struct gen *gen);
/* The plan of a job was made. */
void faults_shorten(struct job *job);
/* Before the state of an ending job is stored. False: do not store it. */
bool faults_keep(struct job *job, enum gen_end end);
/* An object was fetched and verified. */
void faults_spoil(const struct job *job, const struct state_object *object);
/* Whether a job whose state was restored must fail. */
bool faults_fail(const struct job *job);
