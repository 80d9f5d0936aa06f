/*
 * fair.c: who comes first. Every tenant has an account of the tokens that were computed for it; the one with the least is next, and a
 * tenant that was away does not come back with credit: it starts at the least account of those that are here.
 *
 * Within a tenant the shortest rest of a prompt goes first, so that a title or a small edit does not wait behind a repository; what has
 * waited for PATIENCE turns goes before all of them, so that nobody starves.
 */
#include <stdio.h>
#include <string.h>

#include "sched/sched_impl.h"

enum { PATIENCE = 16 };

static struct tenant *find(struct sched *sched, const char *name)
{
    for (size_t i = 0; i < sched->tenants_count; i++)
        if (strcmp(sched->tenants[i].name, name) == 0)
            return &sched->tenants[i];
    return NULL;
}

/* The least account of tenants that have something to do. */
static uint64_t least_served(const struct sched *sched)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < sched->tenants_count; i++)
        if (sched->tenants[i].jobs > 0)
            least = MIN(least, sched->tenants[i].served);
    return least == UINT64_MAX ? 0 : least;
}

static struct tenant *add(struct sched *sched, const char *name)
{
    struct tenant *tenant = &sched->tenants[sched->tenants_count++];

    snprintf(tenant->name, sizeof(tenant->name), "%s", name);
    return tenant;
}

struct tenant *fair_tenant(struct sched *sched, const char *name)
{
    char cut[SCHED_TENANT_BYTES];
    struct tenant *tenant;

    snprintf(cut, sizeof(cut), "%s", name != NULL ? name : "");
    tenant = find(sched, cut);
    if (tenant == NULL && sched->tenants_count < SCHED_TENANTS_MAX)
        tenant = add(sched, cut);
    if (tenant == NULL)
        tenant = &sched->tenants[SCHED_TENANTS_MAX - 1];
    if (tenant->jobs == 0)
        tenant->served = MAX(tenant->served, least_served(sched));
    return tenant;
}

void fair_charge(struct job *job, uint32_t tokens)
{
    job->tenant->served += tokens;
}

static uint32_t rest_of(const struct job *job)
{
    return job->target - MIN(job->done, job->target);
}

bool fair_before(const struct job *a, const struct job *b)
{
    bool a_late = a->turns_waited >= PATIENCE, b_late = b->turns_waited >= PATIENCE;

    if (a_late != b_late)
        return a_late;
    if (a->tenant != b->tenant && a->tenant->served != b->tenant->served)
        return a->tenant->served < b->tenant->served;
    return rest_of(a) < rest_of(b);
}

struct job *fair_next_queued(struct sched *sched)
{
    struct job *best = NULL;

    if (sched->active >= sched->options.parallel)
        return NULL;
    LIST_FOREACH(struct job, job, &sched->jobs, link) {
        if (job->phase == GEN_QUEUED && (best == NULL || fair_before(job, best)))
            best = job;
    }
    return best;
}
