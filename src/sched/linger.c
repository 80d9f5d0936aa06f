/*
 * linger.c: storing the state of what has ended when there is time for it.
 *
 *      job_end: the sink was told --> lingering --> (nothing to do for a while, its cells are needed, another one ends) --> stored, resident
 *                                         '-- meanwhile its sequence can be forked like any other: the next turn is served from it
 *
 * Exporting a long sequence takes tens of milliseconds of the engine's thread. The client that was just answered often comes back at once,
 * and would wait for that. One job lingers at a time, so that what could be lost by a crash is one answer.
 */
#include <assert.h>

#include "sched/sched_impl.h"

void linger_begin(struct job *job)
{
    struct sched *sched = job->sched;

    assert(job->seq != SEQ_NONE && job->gen == NULL);
    linger_settle(sched);
    job_unlist(job);
    sched->lingering = job;
}

bool linger_settle(struct sched *sched)
{
    struct job *job = sched->lingering;

    if (job == NULL || sched->lingering_in_use)
        return false;
    sched->lingering = NULL;
    retain_all(job);
    device_park(job);
    engine_seq_release(sched->engine, &job->seq);
    sched->epoch++;
    job_forget(job);
    return true;
}

void linger_drop(struct sched *sched)
{
    struct job *job = sched->lingering;

    if (job == NULL)
        return;
    sched->lingering = NULL;
    engine_seq_release(sched->engine, &job->seq);
    job_forget(job);
}
