/*
 * ladder.c: what to do when the engine has no room for a batch, so that no turn repeats a batch
 * unchanged.
 *
 *      refused ->  1 SHRINK   fewer sequences, down to one; then fewer tokens, down to one
 *                  2 EVICT    free a resident; the cache has its state
 *                  3 PREEMPT  requeue the youngest of several running jobs, and close admission
 *                             until a job has ended
 *                  4 END      end the only job left: by length when the context is full, with an
 *                             error otherwise
 *
 * If the accounts themselves show that cells are short, a smaller batch frees none, and the ladder
 * starts at 2.
 *
 * WHY IT TERMINATES. Limits of a batch are raised only after one ran, residents come only from
 * ended jobs, and a preempted job waits for such an end. So between two of these events each step
 * is taken a bounded number of times. `refusals` counts them, and at the bound the youngest job
 * ends whatever the steps would do: the number of jobs falls at least once in that many turns.
 */
#include "sched/ladder.h"

#include <assert.h>

#include "sched/sched_impl.h"

enum {
    CALM_BATCHES = 16,     /* to run under a limit before it is doubled */
    SHRINK_STEPS_MAX = 64, /* two 32-bit numbers are halved */
};

static uint32_t refusals_max(const struct sched *sched)
{
    return SHRINK_STEPS_MAX +
           2 * sched->facts->sequences; /* each resident is evicted once, each job preempted once */
}

static bool shrink(struct sched *sched)
{
    struct ladder *ladder = &sched->ladder;
    uint32_t items = (uint32_t)sched->batch_count, tokens = sched->items[0].count;

    if (items > 1)
        ladder->items_max = items / 2;
    else if (tokens > 1 && !sched->options.exact) /* an exact run cannot choose its chunks */
        ladder->tokens_max = tokens / 2;
    else
        return false;
    assert(ladder->items_max < items || ladder->tokens_max < tokens);
    return true;
}

static bool preempt(struct sched *sched)
{
    if (!batch_preempt(sched))
        return false;
    sched->ladder.closed = true;
    return true;
}

struct job *ladder_youngest(const struct sched *sched)
{
    struct job *last = NULL;

    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        if (job->seq != SEQ_NONE)
            last = job;
    }
    return last;
}

static void end_youngest(struct sched *sched, bool full)
{
    struct job *job = ladder_youngest(sched);
    struct errinfo info = {0};

    assert(job != NULL);
    if (full && job->usage.generated > 0) {
        job_end(job, GEN_END_LENGTH, ERR_OK, NULL);
        return;
    }
    err_set(&info, ERR_ENGINE,
            "the engine has no room for this request (%u tokens); send it again, or use a larger "
            "context",
            job->count);
    LOG_ERROR(sched->options.log, "sched", "a request was ended: the engine has no room for it",
              LOG_UINT("request", job->id), LOG_UINT("tokens", job->count),
              LOG_UINT("done", job->done));
    job_give_up(job, ERR_ENGINE, &info);
}

void ladder_refused(struct sched *sched, uint64_t tokens)
{
    struct ladder *ladder = &sched->ladder;
    bool full = tokens > engine_cells_free(sched->engine);

    assert(sched->batch_count > 0);
    ladder->calm = 0;
    if (++ladder->refusals <= refusals_max(sched) &&
        ((!full && shrink(sched)) || device_reclaim(sched, NULL) || preempt(sched)))
        return;
    end_youngest(sched, full);
}

static uint32_t doubled(uint32_t limit, uint32_t most)
{
    return limit > most / 2 ? LADDER_UNLIMITED : limit * 2;
}

void ladder_ran(struct sched *sched)
{
    struct ladder *ladder = &sched->ladder;

    ladder->refusals = 0;
    if (++ladder->calm < CALM_BATCHES)
        return;
    ladder->calm = 0;
    ladder->items_max = doubled(ladder->items_max, sched->facts->sequences);
    ladder->tokens_max = doubled(ladder->tokens_max, sched->facts->chunk);
}

void ladder_ended(struct sched *sched)
{
    sched->ladder.refusals = 0;
    sched->ladder.closed = false;
}

bool ladder_admits(const struct sched *sched)
{
    return !sched->ladder.closed || ladder_youngest(sched) == NULL;
}
