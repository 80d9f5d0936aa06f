/*
 * watchdog.h: notices a scheduler whose jobs want to compute while the engine computes nothing. For
 * this folder; sched_watch is the door.
 *
 * Threads: the scheduler's writes what it does, other threads look at it; both by atomic
 * numbers that order nothing else (relaxed).
 */
#ifndef HEARTH_SCHED_WATCHDOG_H
#define HEARTH_SCHED_WATCHDOG_H

#include <stdatomic.h>
#include <stdint.h>

struct sched;

struct watchdog {
    atomic_ullong computed; /* tokens */
    atomic_uint wanting;    /* jobs that want to be in a batch */
    atomic_bool stalled;    /* known to be */
    atomic_bool breaks;     /* the youngest job is to end */
    /* of whoever looks, under the scheduler's lock */
    uint64_t seen, since_ns;
};

/* On the scheduler's thread: what wants to compute now; a batch of so many tokens ran, or its jobs
 * were ended; ends a job if the watchdog has asked for it. */
void watchdog_note(struct sched *sched);
void watchdog_ran(struct sched *sched, uint64_t tokens);
void watchdog_break(struct sched *sched);

#endif
