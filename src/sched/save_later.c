/*
 * linger.c: storing the state of what has ended when there is time for it.
 *
 *      job_end: the sink was told --> resident with an `unsaved` job --> settled: its state goes to the cache, the job is gone
 *                                                   '-- handed over: a longer sequence has all of it, and will be stored itself
 *
 * Exporting a sequence takes the engine's thread tens of milliseconds, for which a client that
 * comes back at once would wait. So it is done when nothing has been asked for a while, when its
 * cells are needed, when it is late, or when there are too many. Until then the sequence is on the
 * device, where the next turn finds it; what a dead engine takes along is counted.
 *
 * An unsaved job is off the list of jobs, but a scheduler is not idle (sched_drain) before it is
 * settled. While there is one, the tokens of its resident are the job's.
 */
#include <assert.h>

#include "sched/sched_impl.h"

static void set_unsaved(struct sched *sched, uint32_t count)
{
    sched->unsaved = count;
    lock_enter(&sched->lock);
    sched->stats.unsaved = count;
    lock_leave(&sched->lock);
}

void linger_announce(struct job *job)
{
    struct sched *sched = job->sched;

    if (!sched->options.park || !job->keep.stores || job->seq == SEQ_NONE)
        return;
    assert(!job->keep.unsaved);
    job->keep.unsaved = true;
    set_unsaved(sched, sched->unsaved + 1);
}

void linger_retract(struct job *job)
{
    if (!job->keep.unsaved)
        return;
    job->keep.unsaved = false;
    set_unsaved(job->sched, job->sched->unsaved - 1);
}

static void end(struct resident *resident)
{
    struct job *job = resident->unsaved;

    linger_retract(job);
    resident->unsaved = NULL;
    job->seq = SEQ_NONE; /* both are the resident's alone now */
    job->tokens = NULL;
    job_forget(job);
}

void linger_begin(struct resident *resident, struct job *job)
{
    assert(job->gen == NULL && job->seq == resident->seq && job->tokens == resident->tokens);
    job_unlist(job);
    resident->unsaved = job;
    if (!job->keep.stores)
        end(resident);
}

void linger_lose(struct resident *resident)
{
    struct sched *sched;

    if (resident->unsaved == NULL)
        return;
    sched = resident->unsaved->sched;
    end(resident);
    lock_enter(&sched->lock);
    sched->stats.unsaved_lost++;
    lock_leave(&sched->lock);
}

void linger_settle(struct resident *resident)
{
    struct job *job = resident->unsaved;

    if (job == NULL)
        return;
    retain_all(job);
    if (engine_alive(job->sched->engine))
        end(resident);
    else
        linger_lose(resident);
}

void linger_hand_over(struct resident *resident, struct job *to)
{
    const struct job *job = resident->unsaved;

    if (job == NULL)
        return;
    /* What the client wanted to be kept longer, and what a longer sequence cannot give back, is
     * stored as it is. */
    if (to == NULL || !to->keep.stores || !job->sched->cuttable || job->keep.hints.pin ||
        job->keep.hints.ttl_s > 0)
        linger_settle(resident);
    else
        end(resident);
}

/* The one that has waited longest; NULL = none. */
static struct resident *first_unsaved(struct sched *sched)
{
    struct resident *first = NULL;

    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        if (resident->unsaved != NULL &&
            (first == NULL || resident->unsaved->times.ended < first->unsaved->times.ended))
            first = resident;
    }
    return first;
}

bool linger_settle_one(struct sched *sched)
{
    struct resident *first = first_unsaved(sched);

    if (first != NULL)
        linger_settle(first);
    return first != NULL;
}

void linger_settle_late(struct sched *sched)
{
    struct resident *first = first_unsaved(sched);

    if (first != NULL &&
        (sched->unsaved > DEVICE_UNSAVED_MAX ||
         sched_now_ns(sched) - first->unsaved->times.ended > DEVICE_UNSAVED_MS_MAX * NS_PER_MS))
        linger_settle(first);
}
