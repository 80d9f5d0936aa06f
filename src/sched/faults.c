/*
 * faults.c: the scheduler's part of the injected faults (base/drill.h): state that is dropped,
 * corrupted or refused, in violation of the invariants. Each is a few lines here and one call at
 * the place where it happens; without a drill the calls do nothing.
 */
#include <string.h>

#include "sched/sched_impl.h"

/* Whether all other state of the space is dropped when this job ends. */
static bool forgets(const struct job *job, enum gen_end end)
{
    const struct gen_usage *usage = &job->usage;
    bool begins_anew = gen_usage_reused(usage) < usage->prompt / 2;

    switch (job->sched->options.drill) {
    case DRILL_FORGET_OTHERS:
        return begins_anew;
    case DRILL_FORGET_BRANCH:
        return !begins_anew && (usage->reason == HEARTH_REASON_DIVERGED ||
                                usage->reason == HEARTH_REASON_NO_SNAPSHOT);
    case DRILL_FORGET_CANCELLED:
        return end == GEN_END_CANCELLED;
    default:
        return false;
    }
}

bool faults_store(struct sched *sched, const struct gen *gen)
{
    enum { FIRST_TOKENS = 48, FACTOR = 31 }; /* more tokens than a template begins with */
    unsigned long long mine = 1, first = 0;

    if (sched->options.drill != DRILL_KEEP_FIRST)
        return sched->options.drill != DRILL_FORGET_ALL;
    for (uint32_t i = 0; i < MIN(gen->tokens_count, FIRST_TOKENS); i++)
        mine = mine * FACTOR + (unsigned)gen->tokens[i];
    return atomic_compare_exchange_strong(&sched->drill_first, &first, mine) || first == mine;
}

/* The last end of a message, at most `boundary`. */
static uint32_t message_before(const struct job *job, uint32_t boundary)
{
    uint32_t at = 0;

    for (size_t i = 0; i < job->gen->marks_count && job->gen->marks[i].at <= boundary; i++)
        if (job->gen->marks[i].kind != MARK_PART)
            at = job->gen->marks[i].at;
    return at;
}

void faults_shorten(struct job *job)
{
    uint32_t boundary = hearth_plan_info(job->restore.plan)->boundary;

    if (boundary + 1 >= job->count)
        return;
    if (job->sched->options.drill == DRILL_WHOLE_ONLY)
        hearth_plan_lower(job->restore.plan, 0);
    else if (job->sched->options.drill == DRILL_WHOLE_MESSAGES)
        hearth_plan_lower(job->restore.plan, message_before(job, boundary));
}

bool faults_keep(struct job *job, enum gen_end end)
{
    if (job->sched->options.drill == DRILL_FORGET_MODELS && gen_usage_reused(&job->usage) == 0)
        hearth_clear(job->sched->options.cache, NULL, HEARTH_TIER_COUNT);
    if (job->space == NULL || !forgets(job, end))
        return true;
    hearth_clear(job->sched->options.cache, job->space, HEARTH_TIER_COUNT);
    return end != GEN_END_CANCELLED;
}

/* Sets some numbers to large values: short runs, far apart and after the list of cells, so that the
 * library's headers most likely stay intact. The bytes belong to the cache and stay corrupt for
 * later readers; corrupting them twice has the same effect. */
void faults_spoil(const struct job *job, const struct state_object *object)
{
    enum { RUNS = 61, RUN_BYTES = 32, HALF_100 = 0x56 }; /* 0x5656 is 101 as a 16-bit float */
    unsigned char *bytes = (unsigned char *)(uintptr_t)object->data;
    uint64_t step = object->shape.bytes / RUNS;

    if (job->sched->options.drill != DRILL_WRONG_STATE || step < 2 * RUN_BYTES)
        return;
    for (uint64_t at = 6 * step + step / 2; at + RUN_BYTES < object->shape.bytes; at += step)
        memset(bytes + (at & ~UINT64_C(1)), HALF_100, RUN_BYTES);
}

bool faults_fail(const struct job *job)
{
    return job->sched->options.drill == DRILL_FAIL_RESTORE && job->seq != SEQ_NONE;
}
