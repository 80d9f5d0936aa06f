/*
 * sched_impl.h: inside of the scheduler, shared by the files that make it up. The door for everyone
 * else is sched.h.
 *
 *      sched.c     the thread: inbox, turns, draining, numbers
 *      steps.c     the step table: what a job does in each phase
 *      device.c    sequences that stay on the device, and forks of those that run: the first tier
 *      restore.c   from a plan of the cache to a sequence
 *      retain.c    from a sequence to the cache
 *      batch.c     who is in the next batch, and what became of it
 *      ladder.c    what is done when the engine has no room for a batch
 *      linger.c    storing the state of what has ended when there is time for it
 *      revive.c    a new process for an engine that died
 *      fair.c      in which order (fair.h)
 *      text.c      tokens to text, stop texts
 *      memory.c    the ceiling, shared with other schedulers; guard.c has its rules
 *      cuts.c      which chunks state was computed in
 *      check.c     what must hold between two turns, for debug builds
 *      faults.c    promises that are broken on purpose, for `hearth qa --prove`
 *
 * A JOB is a generation inside of the scheduler. Its caller's `struct gen` may be gone once
 * sink.done was called, so what is needed for retaining is copied.
 *
 *      job->tokens   | prompt ........................ | sampled ... |
 *                    0         done                  prompt        count          target = what must stand before sampling goes on
 *
 * Owner of everything here: the scheduler's thread, but for what `lock` guards.
 */
#ifndef HEARTH_SCHED_SCHED_IMPL_H
#define HEARTH_SCHED_SCHED_IMPL_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/queue.h"
#include "engine/schedule.h"
#include "engine/state.h"
#include "sched/device.h"
#include "sched/fair.h"
#include "sched/ladder.h"
#include "sched/memory.h"
#include "sched/sched.h"
#include "output/stop_text.h"
#include "sched/watchdog.h"

enum {
    SCHED_FLIGHT_MIN = 32, /* tokens that must be saved before one waits for another */
    /* cells that a generation is sure to have for its answer when it is admitted */
    SCHED_RESERVE = 256,
    SCHED_STORE_EVERY = 2048, /* tokens after which rows go to the cache while a prefill runs */
    /* between two looks at the memory when nothing runs: the RAM tier gives way to other programs,
     * too */
    SCHED_IDLE_MS = 1000,
    /* between two looks of a job that is deferred under a ceiling: memory is measured, and no event
     * says that there is more of it */
    SCHED_MEMORY_MS = 10,
    SCHED_MARKS_EXTRA = 4, /* junction, anchor, last user message, and one to spare */
    SCHED_VIEWS_MAX = 128,
};

/* What a step says. */
enum step {
    STEP_MORE,   /* go on with the phase that is set now */
    STEP_PARKED, /* nothing to do before something else happens */
    STEP_BATCH,  /* wants to be in the next batch */
    STEP_DONE,   /* gone: the job does not exist any more */
};

/* A plan of the cache that becomes a sequence (restore.c); all of it is empty but in RESTORE. */
struct job_restore {
    struct hearth_plan *plan;
    struct state_object *objects;
    size_t objects_count, fetched;
    uint64_t deadline_ns; /* then it would have been faster to compute */
    uint64_t begin_ns;    /* of this plan */
    /* no room beside the others for what was fetched; has waited for it before */
    bool crowded, was_crowded;
};

/* What a job that does not run waits for. */
struct job_wait {
    /* sched->epoch and memory_epoch when there was no room for it */
    uint64_t epoch, memory_epoch;
    struct job *leader; /* DEFERRED: computes a prefix that this one waits for; else NULL */
    uint32_t until;     /* tokens of it that are shared */
    uint32_t turns;     /* without a token */
};

/* Its part of the ceiling. */
struct job_memory {
    uint64_t records; /* bytes since it was submitted */
    uint64_t claim;   /* bytes since it was admitted, if `claimed` */
    bool claimed;
};

/* What the cache is to keep of it (retain.c, linger.c). */
struct job_keep {
    struct hearth_store_hints hints;
    bool stores;     /* state goes to the cache */
    bool unsaved;    /* has ended, and counts as unsaved */
    uint32_t stored; /* rows below it were offered to the cache */
};

struct job {
    struct list_node link;
    struct sched *sched;
    struct gen *gen; /* NULL after sink.done */
    uint64_t id;
    struct tenant *tenant;
    struct hearth_space *space; /* NULL: cache off */
    enum gen_phase phase;
    bool active;   /* has passed admission and counts as running */
    bool admitted; /* has left the queue once: one that was preempted does not count as waiting */
    bool started;  /* the sink was told; `usage` and `times.restored` are set */
    bool apart;    /* no other job may find it */

    token_id *tokens; /* its own */
    uint32_t prompt, count, capacity, target;
    uint32_t done;
    uint32_t room; /* tokens that it may have in all */
    seq_id seq;
    uint32_t *marks;
    struct schedule schedule;
    uint32_t anchor, last_user, junction, resumed;

    struct job_restore restore;
    struct job_wait wait;
    struct job_memory memory;
    struct job_keep keep;

    struct sampler *sampler;
    struct text text;
    struct gen_usage usage;
    struct gen_times times;
    struct gen_result result;
};

/* How often the engine's process died, and when it may be started again. */
struct revival {
    bool dead;                    /* known to be, and everything it had is forgotten */
    uint32_t deaths;              /* in a row */
    uint64_t started_ns, next_ns; /* started: 0 = by whoever loaded the engine, or it is dead */
};

struct sched {
    struct sched_options options;
    struct engine *engine;
    const struct engine_facts *facts;
    struct memory_member *memory; /* NULL: no ceiling */
    uint32_t room;                /* tokens that one sequence can have */
    char kinds[64];
    bool cuttable; /* state can be cut at any token: no snapshots, no cuts but the grid */
    bool whole;    /* state moves as a whole only: what the cache calls a snapshot */
    struct queue *inbox;
    struct thread thread;
    atomic_uint waiting; /* submitted and not yet admitted */
    atomic_bool draining, stopping;
    /* when the turn that runs began; 0: the thread waits. Read by whoever wants to know whether it
     * is stuck */
    atomic_ullong turn_ns;

    struct list jobs; /* oldest first */
    struct list residents;
    uint32_t unsaved; /* of them: whose state is not in the cache yet */
    struct tenant tenants[SCHED_TENANTS_MAX];
    size_t tenants_count;
    uint64_t served_time; /* fair.c: what accounts are compared with */
    uint32_t active;
    uint64_t epoch;                           /* grows whenever cells may have become free */
    double prefill_per_s, import_bytes_per_s; /* measured, smoothed; 0 = not yet */
    struct engine_item *items;
    struct job **batch; /* of items[i] */
    size_t batch_count, batch_cap;
    struct progress *bar;
    uint64_t bar_id;
    struct revival revival;
    struct ladder ladder;
    struct watchdog watchdog;

    struct lock lock;
    struct cond idle; /* no jobs left */
    struct cond answered;
    struct list asks GUARDED_BY(lock); /* ask.c */
    bool nudged GUARDED_BY(lock);      /* the scheduler itself is in its inbox */
    struct sched_stats stats GUARDED_BY(lock);
    struct sched_view views[SCHED_VIEWS_MAX] GUARDED_BY(lock);
    size_t views_count GUARDED_BY(lock);
    size_t jobs_left GUARDED_BY(lock); /* submitted and not gone */
};

uint64_t sched_now_ns(const struct sched *sched);
bool job_cancelled(const struct job *job);
/* Says it in the log, too. */
void job_set_phase(struct job *job, enum gen_phase phase);
/* Off the list, and freed. Its sequence is the caller's business. */
void job_free(struct job *job);
/* The two halves of it: out of the list and all accounts; gone, and whoever drains is told. */
void job_unlist(struct job *job);
void job_forget(struct job *job);
/* What it was promised of the memory is free again; a no-op when it was promised nothing. */
void job_unclaim(struct job *job);

/* ---- check.c ---- */

/* Aborts unless the scheduler and its jobs are as they must be between two turns. Does nothing
 * without HEARTH_DEBUG. */
void sched_check(struct sched *sched);

/* ---- steps.c ---- */

/* Runs the steps of a job until it parks, wants a batch, or is gone. */
enum step job_advance(struct job *job);
/* The end, whatever it is: tells the sink, keeps what was computed, parks or frees the sequence,
 * frees the job. */
void job_end(struct job *job, enum gen_end end, enum err err, const struct errinfo *info);
/* Whoever waits for its prefix looks again. */
void job_release_followers(struct job *job);
/* Ends with an error that is not its own fault: what it has computed is kept. */
void job_give_up(struct job *job, enum err err, const struct errinfo *info);
/* The prompt's state is there as far as it can be: next is prefill. */
void job_start_prefill(struct job *job);
/* Nobody else has cells, or was promised some. */
bool job_alone(const struct job *job);
/* How long it has nothing to do unless something happens that nudges the thread; 0: it goes on in
 * the next turn. */
uint64_t job_sleep_ns(const struct job *job);

/* ---- ask.c ---- */

/* Answers whoever asked since the last turn. */
void ask_answer_all(struct sched *sched);
/* A nudge was taken from the inbox. */
void ask_take_nudge(struct sched *sched);
/* The thread does a turn soon, also if it sleeps. Any thread; takes the lock of the scheduler. */
void ask_nudge(struct sched *sched);

/* ---- restore.c ---- */

/* What the cache could give, without a plan for it. */
uint32_t restore_peek(struct job *job);
/* Tokens of a text that the cache could give back. */
uint32_t restore_held(struct hearth_space *space, const token_id *tokens, uint32_t count);
/* Asks the cache. */
void restore_lookup(struct job *job);
/* Goes on fetching; STEP_MORE when it is over: job->seq is a sequence of job->done tokens, or SEQ_NONE. */
enum step restore_poll(struct job *job);
void restore_drop(struct job *job);

/* ---- retain.c ---- */

/* Hands to the cache what is worth it at this point of a prefill. */
void retain_on_the_way(struct job *job);
/* Hands over everything that stands. */
void retain_all(struct job *job);

/* ---- batch.c ---- */

/* Hands its state to the cache and gives its cells and its place back; it is queued again, and goes
 * on later. */
void job_put_back(struct job *job);

/* The bar of its prefill, if it has one. */
void batch_end_bar(struct job *job, bool done);

/* Runs a batch of what wants to run; false when nothing did. */
bool batch_run(struct sched *sched);

/* The youngest job gives its cells back and starts over later, from the cache. False: fewer than
 * two run. */
bool batch_preempt(struct sched *sched);

/* ---- revive.c ---- */

/* Makes sure that the engine can be used. False: it is dead and was not brought back; no job is
 * left. */
bool revive_engine(struct sched *sched);
/* True: the request was in a process that is dead, so whichever call failed, that is why; `info`
 * says so to people. */
bool revive_explain(const struct job *job, enum err err, struct errinfo *info);

/* ---- faults.c: those that are practised (base/drill.h); without one these do nothing ---- */

/* Before the state of a job that ends is kept. False: it is not. */
bool faults_keep(struct job *job, enum gen_end end);
/* An object was fetched and found good. */
void faults_spoil(const struct job *job, const struct state_object *object);
/* Whether a job whose state was restored is to fail for it. */
bool faults_fail(const struct job *job);

#endif
