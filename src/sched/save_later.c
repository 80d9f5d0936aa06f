/*
 * save_later.c: storing the state of ended jobs once the engine has time.
 *
 *      job_end: sink notified --> resident with `unsaved` job --> saved: its state is in the cache,
 *                                             |                   and the job is freed
 *                                             '-- passed on: a longer sequence contains all of it
 *                                                 and will be stored itself
 *
 * Exporting a sequence blocks the engine's thread for tens of milliseconds, which would delay a
 * client that sends its next request at once. So it happens after some idle time, when the cells
 * are needed, when it is overdue, or when there are too many. Until then the sequence is on the
 * device, where the next turn finds it. State lost with a dead engine is counted.
 *
 * An unsaved job is not in the list of jobs, but a scheduler is not idle (sched_drain) before it is
 * saved. Until then, the tokens of its resident belong to the job.
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

void save_mark(struct job *job)
{
    struct sched *sched = job->sched;

    if (!sched->options.park || !job->keep.stores || job->seq == SEQ_NONE)
        return;
    assert(!job->keep.unsaved);
    job->keep.unsaved = true;
    set_unsaved(sched, sched->unsaved + 1);
}

void save_unmark(struct job *job)
{
    if (!job->keep.unsaved)
        return;
    job->keep.unsaved = false;
    set_unsaved(job->sched, job->sched->unsaved - 1);
}

static void end(struct resident *resident)
{
    struct job *job = resident->unsaved;

    save_unmark(job);
    resident->unsaved = NULL;
    job->seq = SEQ_NONE; /* both now belong to the resident alone */
    job->tokens = NULL;
    job_forget(job);
}

void save_begin(struct resident *resident, struct job *job)
{
    assert(job->gen == NULL && job->seq == resident->seq && job->tokens == resident->tokens);
    job_unlist(job);
    resident->unsaved = job;
    if (!job->keep.stores)
        end(resident);
}

void save_lose(struct resident *resident)
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

void save_now(struct resident *resident)
{
    struct job *job = resident->unsaved;

    if (job == NULL)
        return;
    retain_all(job);
    if (engine_alive(job->sched->engine))
        end(resident);
    else
        save_lose(resident);
}

void save_pass_on(struct resident *resident, struct job *to)
{
    const struct job *job = resident->unsaved;

    if (job == NULL)
        return;
    /* State that the client wants kept longer, or that a longer sequence cannot yield, is stored as
     * it is. */
    if (to == NULL || !to->keep.stores || !job->sched->cuttable || job->keep.hints.pin ||
        job->keep.hints.ttl_s > 0)
        save_now(resident);
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

bool save_oldest(struct sched *sched)
{
    struct resident *first = first_unsaved(sched);

    if (first != NULL)
        save_now(first);
    return first != NULL;
}

void save_overdue(struct sched *sched)
{
    struct resident *first = first_unsaved(sched);

    if (first != NULL &&
        (sched->unsaved > DEVICE_UNSAVED_MAX ||
         sched_now_ns(sched) - first->unsaved->times.ended > DEVICE_UNSAVED_MS_MAX * NS_PER_MS))
        save_now(first);
}
