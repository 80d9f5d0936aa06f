/*
 * again.c: a ring of samples, and decayed counts of those that were used and those that were not.
 */
#include "sched/again.h"

#include "base/attr.h"

static const double decay = 0.98;        /* the last fifty or so count */
static const double expected_one_in = 8; /* before anything is known */
static const double factor_min = 1.0 / 8;
static const double factor_max = 4;

/* Of the AGAIN_TOKENS before `end`: this is a statistic, and an error changes little. */
static uint64_t hash_of(const void *owner, const token_id *tokens, uint32_t end)
{
    uint64_t hash = (uint64_t)(uintptr_t)owner ^ end;

    for (uint32_t i = end - AGAIN_TOKENS; i < end; i++)
        hash = (hash ^ (uint32_t)tokens[i]) * 0x9e3779b97f4a7c15U;
    return hash;
}

static void count(struct again *again, double used, double unused)
{
    again->used = MAX(decay * again->used + used, 0);
    again->unused = MAX(decay * again->unused + unused, 0);
}

void again_ended(struct again *again, const void *owner, const token_id *tokens, uint32_t begin,
                 uint32_t end)
{
    if (end < begin + 2 * AGAIN_TOKENS)
        return;
    uint64_t index = again->count++;
    uint32_t middle = begin + (end - begin) / 2;
    again->samples[index % AGAIN_SAMPLES] =
        (struct again_sample){middle, hash_of(owner, tokens, middle)};
    uint64_t late = (uint64_t)(AGAIN_LATE_EACH * again->crowd);
    for (late = MIN(MAX(late, AGAIN_LATE_MIN), AGAIN_LATE_MAX); again->late + late <= index;)
        if (again->samples[again->late++ % AGAIN_SAMPLES].end > 0)
            count(again, 0, 1);
}

void again_crowd(struct again *again, uint32_t jobs)
{
    again->crowd = MAX(decay * again->crowd, jobs);
}

void again_submitted(struct again *again, const void *owner, const token_id *tokens,
                     uint32_t prompt)
{
    for (uint64_t age = 0; age < MIN(again->count, (uint64_t)AGAIN_SAMPLES); age++) {
        uint64_t index = again->count - 1 - age;
        struct again_sample *sample = &again->samples[index % AGAIN_SAMPLES];
        if (sample->end == 0 || sample->end > prompt ||
            sample->hash != hash_of(owner, tokens, sample->end))
            continue;
        sample->end = 0;
        count(again, 1, index < again->late ? -1 : 0);
    }
}

double again_factor(const struct again *again)
{
    double share = (again->used + 1) / (again->used + again->unused + expected_one_in);

    return MIN(MAX(share * expected_one_in, factor_min), factor_max);
}
