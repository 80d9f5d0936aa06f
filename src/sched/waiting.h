/*
 * waiting.h: how many jobs wait for their first admission, in all and of each tenant: the limit of the
 * queue (base/turns.h has the rule).
 *
 * A preempted job does not count again. Tenants beyond SCHED_TENANTS_MAX share the last entry, as
 * they share an account.
 *
 * Threads: any; the scheduler's lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sched/fair.h"

struct job;

/* A tenant with waiting jobs; free without. */
struct waiting {
    char name[SCHED_TENANT_BYTES];
    uint32_t count;
};

/* Counts the job, until waiting_leave. False: its tenant may have no more. */
bool waiting_enter(struct job *job, const char *tenant);
/* A no-op for a job that does not wait. */
void waiting_leave(struct job *job);
