/*
 * fair.h: tenants and their turns: who is admitted, computed, and put back. How it is weighed:
 * fair.c.
 *
 * Owner of everything here: the scheduler's thread.
 */
#ifndef HEARTH_SCHED_FAIR_H
#define HEARTH_SCHED_FAIR_H

#include <stdbool.h>
#include <stdint.h>

struct job;
struct sched;

enum {
    SCHED_TENANTS_MAX = 64, /* with an account of their own; more share the last one */
    SCHED_TENANT_BYTES = 64,
};

/* Who is asking; for fairness only. */
struct tenant {
    char name[SCHED_TENANT_BYTES];
    uint64_t served; /* tokens computed for it, on a scale that all share */
    /* tokens of its prompts that are still to be computed, at the last fair_count_backlogs */
    uint64_t backlog;
    uint32_t jobs;
};

struct tenant *fair_tenant(struct sched *sched, const char *name);
/* At the beginning of a turn. */
void fair_count_backlogs(struct sched *sched);
/* Computed tokens are charged. */
void fair_charge(struct job *job, uint32_t tokens);
/* Of two jobs that want the same, whether a comes first. */
bool fair_before(const struct job *a, const struct job *b);
/* Whether a's tenant is so far behind b's that it is preferred in more than the order. */
bool fair_behind(const struct job *a, const struct job *b);
/* The next one to be admitted; NULL when none waits or as many run as may. */
struct job *fair_next_queued(struct sched *sched);
/* A running job that must make room for this one: the youngest of a tenant that has more running
 * and was served more. NULL: none. */
struct job *fair_victim(const struct job *job);
/* One that must make room for the next to be admitted, when no place is free. */
struct job *fair_place_victim(struct sched *sched);

#endif
