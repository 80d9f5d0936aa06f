/*
 * restore.h: from the cache to a sequence (restore.c), also while the job already computes
 * (beside.c). Internals of the scheduler.
 *
 * Owner: the scheduler's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/state.h"
#include "engine/state_digest.h"

struct hearth_plan;
struct hearth_space;
struct job;
struct sched;

/* Result of a step of a job. */
enum step {
    STEP_MORE,   /* continue with the phase set now */
    STEP_PARKED, /* nothing to do until an event */
    STEP_BATCH,  /* ready for the next batch */
    STEP_DONE,   /* the job has been freed */
};

/* A plan of the cache that becomes a sequence (restore.c). Empty except in RESTORE, and in PREFILL
 * with `beside`. */
struct job_restore {
    struct hearth_plan *plan;
    struct state_object *objects;
    struct state_digest_task **tasks; /* of the objects that are being verified */
    /* imported <= verified <= fetched: objects from the first on */
    size_t objects_count, fetched, verified, imported;
    seq_id seq;           /* with the imported objects; SEQ_NONE: none yet */
    uint64_t deadline_ns; /* objects that are not there by then are computed */
    bool store_failed;    /* a read of the shared store: no more are waited for */
    uint64_t left_ns;     /* when the job began to wait; 0: it does not */
    bool paused;          /* it could continue, but other jobs have their turn */
    uint64_t last_import; /* sched->imports after the last one of this job; 0: none yet */
    uint64_t begin_ns;    /* when the reads of this plan were started */
    bool pays;            /* beside_pays, asked once per plan */
    bool beside;          /* the job prefills meanwhile (beside.c) */
    /* objects [0, front) are not counted at the end: they were counted before the prefill, or were
     * computed instead */
    size_t front;
    /* the fetched state does not fit beside the other jobs; the job has already waited for cells
     * once */
    bool needs_cells, waited_for_cells;
};

/* Tokens that the cache could restore, without making a plan. */
uint32_t restore_peek(struct job *job);
/* Tokens of a text that the cache could restore. */
uint32_t restore_cached(struct hearth_space *space, const token_id *tokens, uint32_t count);
/* Looks the prompt up in the cache. */
void restore_lookup(struct job *job);
/* Continues the restore. STEP_MORE when finished: job->seq is a sequence of job->done tokens, or
 * SEQ_NONE. */
enum step restore_poll(struct job *job);
void restore_drop(struct job *job);
/* Drops the imported objects; they are imported again. */
void restore_lose(struct job *job);
/* Tokens restored by an attempt that was ended do not count. */
void restore_uncredit(struct job *job);
/* No thread reads the objects any more: before the plan is shortened. */
void restore_stop_verifying(struct job *job);
/* Bytes per second of imports: measured, else those of exports; 0 = not known. */
double restore_speed(const struct sched *sched);
/* Tokens imported so far by a restore that is not finished. */
uint32_t restore_done(const struct job *job);

/* Starts verifying an object that has arrived. */
void restore_verify(struct job *job, size_t index, const void *data);
/* The result; UNKNOWN while a thread is verifying it. */
enum restore_verdict { RESTORE_UNKNOWN, RESTORE_GOOD, RESTORE_BAD };
enum restore_verdict restore_verdict(struct job *job, size_t index);
/* Counts the tokens of objects [first, end) of the plan as restored. */
void restore_credit(struct job *job, size_t first, size_t end);

/* ---- beside.c ---- */

/* Bytes of the plan that a tier has. */
uint64_t beside_bytes(const struct job *job, enum hearth_tier tier);
/* Whether to compute the front of the plan while the rest is read. */
bool beside_pays(const struct job *job);
/* Starts all reads, the last object first. */
void beside_read(struct job *job);
/* Called when the job would wait for bytes. If it pays, the job gets the sequence restored so far,
 * and prefills. */
bool beside_begin(struct job *job);
/* Called before each batch: imports the rest once prefill and reads have met. */
enum step beside_poll(struct job *job);
/* The prefill needs no more reads: drops the plan. A no-op unless `beside`. */
void beside_end(struct job *job);
