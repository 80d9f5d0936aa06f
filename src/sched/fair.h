/*
 * fair.h: fairness among tenants: which job to admit, compute, or preempt. fair.c explains the
 * rules.
 *
 * Owner of everything here: the scheduler's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sched/forks.h"

struct job;
struct sched;

enum {
    SCHED_TENANTS_MAX = 64, /* with separate accounts; any further tenants share the last one */
    SCHED_TENANT_BYTES = 64,
};

/* A tenant; used for fairness, and for where its prompts fork. */
struct tenant {
    char name[SCHED_TENANT_BYTES];
    uint64_t served; /* tokens computed for it, on a scale shared by all tenants */
    /* prompt tokens still to compute, as of the last fair_count_backlogs */
    uint64_t backlog;
    uint32_t jobs;
    struct forks_history forks;
};

struct tenant *fair_tenant(struct sched *sched, const char *name);
/* Called at the start of a turn. */
void fair_count_backlogs(struct sched *sched);
/* Charges computed tokens to the job's tenant. */
void fair_charge(struct job *job, uint32_t tokens);
/* Whether a goes before b when both compete. */
bool fair_before(const struct job *a, const struct job *b);
/* Whether a's tenant is far enough behind b's to preempt it. */
bool fair_behind(const struct job *a, const struct job *b);
/* The next job to admit; NULL when none is queued or all places are taken. */
struct job *fair_next_queued(struct sched *sched);
/* A running job to preempt for this one: the youngest of a tenant that has more running and was
 * served more. NULL: none. */
struct job *fair_victim(const struct job *job);
/* A job to preempt for the next admission when no place is free. */
struct job *fair_place_victim(struct sched *sched);
