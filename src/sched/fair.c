/*
 * fair.c: order among tenants and jobs. Each tenant has an account of the tokens computed for it
 * and a backlog of tokens still to compute; the tenant with the smallest sum is next. A tenant that
 * returns after a pause gets a credit of at most CREDIT tokens against the active ones, and at most
 * CREDIT tokens of a backlog count. That is enough for a prompt to run ahead of a flood from its
 * first token to its last, and too little to keep others out.
 *
 *      calm    |== served ==|- backlog -|
 *      flood   |====== served ======|------------ backlog, at most CREDIT ------------|
 *
 * A tenant that is far behind gets back places, cells and memory from a flood: the youngest job of
 * the tenant that has more running is requeued. Its state goes to the cache, and it resumes from
 * there (fair_victim).
 *
 * Within a tenant, the job with the fewest prompt tokens left goes first, so that a title or a
 * small edit does not wait for a repository. A job that has waited PATIENCE turns goes before the
 * others of its tenant. In a queue that is never empty, all jobs reach PATIENCE: from PATIENCE_MAX
 * turns on, the longest-waiting job goes first, so that none starves. Between tenants, the accounts
 * prevent starvation.
 */
#include <stdio.h>
#include <string.h>

#include "sched/sched_impl.h"

enum {
    PATIENCE = 16,
    PATIENCE_MAX = 256,
    CREDIT = 16384,
    /* tokens that a tenant must be behind before jobs are preempted for it: less is not worth a
     * swap */
    SLICE = 512,
};

static struct tenant *find(struct sched *sched, const char *name)
{
    for (size_t i = 0; i < sched->tenants_count; i++)
        if (strcmp(sched->tenants[i].name, name) == 0)
            return &sched->tenants[i];
    return NULL;
}

/* Virtual time: the smallest account of any active tenant. Monotonic, so that an idle tenant gains
 * no extra credit. */
static void move_time(struct sched *sched)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < sched->tenants_count; i++)
        if (sched->tenants[i].jobs > 0)
            least = MIN(least, sched->tenants[i].served);
    if (least != UINT64_MAX)
        sched->served_time = MAX(sched->served_time, least);
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
    if (tenant->jobs == 0 && sched->served_time > CREDIT)
        tenant->served = MAX(tenant->served, sched->served_time - CREDIT);
    return tenant;
}

void fair_charge(struct job *job, uint32_t tokens)
{
    job->tenant->served += tokens;
    move_time(job->sched);
}

static uint32_t rest_of(const struct job *job)
{
    return job->count - MIN(job->done, job->count);
}

void fair_count_backlogs(struct sched *sched)
{
    for (size_t i = 0; i < sched->tenants_count; i++)
        sched->tenants[i].backlog = 0;
    LIST_FOREACH (struct job, job, &sched->jobs, link)
        job->tenant->backlog += rest_of(job);
}

static uint64_t weight(const struct tenant *tenant)
{
    return tenant->served + MIN(tenant->backlog, CREDIT);
}

bool fair_behind(const struct job *a, const struct job *b)
{
    return weight(a->tenant) + SLICE < weight(b->tenant);
}

bool fair_before(const struct job *a, const struct job *b)
{
    bool a_late = a->wait.turns >= PATIENCE, b_late = b->wait.turns >= PATIENCE;

    if (weight(a->tenant) != weight(b->tenant))
        return weight(a->tenant) < weight(b->tenant);
    if (a_late != b_late)
        return a_late;
    if (MAX(a->wait.turns, b->wait.turns) >= PATIENCE_MAX && a->wait.turns != b->wait.turns)
        return a->wait.turns > b->wait.turns;
    return rest_of(a) < rest_of(b);
}

static uint32_t running(const struct sched *sched, const struct tenant *tenant)
{
    uint32_t count = 0;

    LIST_FOREACH (struct job, job, &sched->jobs, link)
        count += job->active && job->tenant == tenant;
    return count;
}

/* Its state can be restored later, and it occupies enough to be worth preempting. */
static bool can_be_put_back(const struct job *job)
{
    return job->seq != SEQ_NONE && job->keep.stores &&
           (job->phase == GEN_PREFILL || job->phase == GEN_DECODE);
}

struct job *fair_victim(const struct job *job)
{
    struct sched *sched = job->sched;
    uint32_t own = running(sched, job->tenant);
    struct job *victim = NULL;

    if (sched->options.exact)
        return NULL;
    if (job->active)
        own--;
    LIST_FOREACH (struct job, other, &sched->jobs, link) {
        if (other->tenant != job->tenant && can_be_put_back(other) && fair_behind(job, other) &&
            running(sched, other->tenant) > own)
            victim = other;
    }
    return victim;
}

static struct job *best_queued(struct sched *sched)
{
    struct job *best = NULL;

    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        if (job->phase == GEN_QUEUED && (best == NULL || fair_before(job, best)))
            best = job;
    }
    return best;
}

struct job *fair_next_queued(struct sched *sched)
{
    return sched->active < sched->options.parallel && ladder_admits(sched) ? best_queued(sched)
                                                                           : NULL;
}

struct job *fair_place_victim(struct sched *sched)
{
    struct job *best = sched->active >= sched->options.parallel ? best_queued(sched) : NULL;

    return best != NULL ? fair_victim(best) : NULL;
}
