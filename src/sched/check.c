/*
 * check.c: invariants between two turns of a scheduler, for debug builds (HEARTH_DEBUG).
 *
 *      phase      active  seq  plan  claimed  leader     tokens
 *      QUEUED       -      -    -      -        -        done = 0
 *      DEFERRED     x      -    -      -      maybe      done = 0
 *      RESTORE      x      -    x      x        -        done = 0; an object is not imported yet
 *      PREFILL      x      x  beside   x        -        done < count
 *      DECODE       x      x    -      x        -        done = count - 1
 *
 * `claimed` applies to schedulers under a ceiling. All other phases end within a turn. Always: done
 * < count < room, prompt <= count <= capacity.
 */
#include <assert.h>

#include "sched/sched_impl.h"

#ifdef HEARTH_DEBUG
enum { CHECKS = true };
#else
enum { CHECKS = false };
#endif

static void check_tokens(const struct job *job)
{
    const struct gen_usage *usage = &job->usage;

    assert(job->tokens != NULL && job->marks != NULL);
    assert((job->sampler != NULL) == (job->vector == NULL));
    assert(job->prompt > 0 && job->prompt == usage->prompt);
    assert(job->prompt <= job->count && job->count <= job->capacity);
    assert(job->count < job->room + (job->vector != NULL) && job->room <= job->sched->room);
    assert(job->done < job->count);
    assert(job->count - job->prompt == usage->generated);
    assert(job->started == (job->times.restored > 0));
    assert(!job->started || usage->prompt == gen_usage_reused(usage) + usage->computed);
}

static void check_phase(const struct job *job)
{
    enum gen_phase phase = job->phase;
    bool runs = phase == GEN_PREFILL || phase == GEN_DECODE, restores = phase == GEN_RESTORE;

    assert(runs || restores || phase == GEN_QUEUED || phase == GEN_DEFERRED);
    assert(job->active == (phase != GEN_QUEUED));
    assert(job->waiting == NULL || !job->active);
    assert((job->seq != SEQ_NONE) == runs);
    assert(runs || job->done == 0);
    assert(!runs || ((job->started || job->restore.beside) && job->resumed <= job->done &&
                     job->keep.stored <= job->done));
    assert(phase != GEN_DECODE || (job->done + 1 == job->count && job->usage.generated > 0));
    assert(job->memory.claimed == (job->sched->memory != NULL && (runs || restores)));
    assert(!job->keep.unsaved && job->keep.store == NULL); /* the job has not ended */
}

static void check_restore(const struct job *job)
{
    const struct job_restore *restore = &job->restore;
    bool restores = job->phase == GEN_RESTORE;

    bool plan = restores || restore->beside;

    assert(!restore->beside || job->phase == GEN_PREFILL);
    assert((restore->plan != NULL) == plan && (restore->objects != NULL) == plan);
    if (restore->beside) /* counted from the end */
        return;
    assert(!restores || restore->imported < restore->objects_count);
    assert(restore->imported <= restore->verified && restore->verified <= restore->fetched);
    assert(restore->fetched <= restore->objects_count);
    assert((restore->seq != SEQ_NONE) == (restore->imported > 0));
    assert(!restore->needs_cells); /* lasts for one step */
}

static void check_leader(const struct job *job)
{
    const struct job *leader = job->wait.leader;

    if (leader == NULL)
        return;
    assert(job->phase == GEN_DEFERRED && leader != job && leader->sched == job->sched);
    assert(leader->active && leader->space == job->space);
    assert(job->wait.until < job->count && job->wait.until <= leader->count);
}

static void job_check(const struct sched *sched, const struct job *job)
{
    assert(job->sched == sched && job->gen != NULL && job->tenant != NULL);
    check_tokens(job);
    check_phase(job);
    check_restore(job);
    check_leader(job);
}

static void check_residents(const struct sched *sched)
{
    uint32_t unsaved = 0;

    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        const struct job *job = resident->unsaved;
        assert(resident->seq != SEQ_NONE && resident->count > 0 && resident->tokens != NULL);
        if (job == NULL)
            continue;
        assert(job->gen == NULL && !job->active && job->keep.unsaved && job->keep.stores);
        assert(job->seq == resident->seq && job->tokens == resident->tokens);
        unsaved++;
    }
    assert(sched->unsaved == unsaved);
    assert(sched->options.park || sched->residents.count == 0);
}

/* Totals match the sums over all jobs. */
static void check_sums(struct sched *sched)
{
    uint64_t claims = 0, records = 0;
    uint32_t active = 0, waiting = 0;
    size_t of_tenants = 0;

    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        active += job->active;
        waiting += job->waiting != NULL;
        claims += job->memory.claimed ? job->memory.claim : 0;
        records += job->memory.records;
    }
    for (size_t i = 0; i < sched->tenants_count; i++)
        of_tenants += sched->tenants[i].jobs;
    assert(sched->active == active && active <= sched->options.parallel);
    assert(of_tenants == sched->jobs.count);
    /* At least: more are in the inbox, and texts being tokenized are charged as well. */
    assert(atomic_load_explicit(&sched->waiting, memory_order_relaxed) >= waiting);
    memory_assert_promised(sched->memory, claims, records);
    lock_enter(&sched->lock);
    assert(sched->jobs_left >= sched->jobs.count + sched->unsaved);
    lock_leave(&sched->lock);
}

void sched_check(struct sched *sched)
{
    if (!CHECKS)
        return;
    list_check(&sched->jobs);
    list_check(&sched->residents);
    LIST_FOREACH (struct job, job, &sched->jobs, link)
        job_check(sched, job);
    check_residents(sched);
    check_sums(sched);
    assert(sched->ladder.items_max > 0 && sched->ladder.tokens_max > 0);
}
