/*
 * watchdog.h: detects a scheduler with jobs to compute whose engine computes nothing. Internal to
 * this folder; the public function is sched_run_watchdog.
 *
 * Threads: the scheduler's thread records what it does, other threads read it; both through atomics
 * that order nothing else (relaxed).
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

struct sched;

struct watchdog {
    atomic_ullong computed; /* tokens */
    atomic_uint wanting;    /* jobs ready for a batch */
    atomic_bool stalled;    /* reported as stalled */
    atomic_bool breaks;     /* the youngest job must end */
    /* of the thread that checks, under the scheduler's lock */
    uint64_t seen, since_ns;
};

/* On the scheduler's thread: records the number of ready jobs; records a batch of that many tokens,
 * or that its jobs ended; ends a job if the watchdog has requested it. */
void watchdog_note(struct sched *sched);
void watchdog_ran(struct sched *sched, uint64_t tokens);
void watchdog_break(struct sched *sched);
