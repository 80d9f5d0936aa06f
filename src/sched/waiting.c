/* waiting.c: see the header. */
#include "sched/waiting.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/turns.h"
#include "sched/sched_impl.h"

/* The entry of the tenant, else one for it; *used: those that are taken, with it. */
static struct waiting *find(struct sched *sched, const char *name, size_t *used)
    REQUIRES(sched->lock)
{
    struct waiting *found = NULL, *unused = NULL;

    lock_assert_held(&sched->lock);
    *used = 0;
    for (size_t i = 0; i < SCHED_TENANTS_MAX; i++) {
        struct waiting *entry = &sched->waiting_of[i];
        if (entry->count == 0)
            unused = unused != NULL ? unused : entry;
        else if (strcmp(entry->name, name) == 0)
            found = entry;
        *used += entry->count > 0;
    }
    if (found == NULL && unused == NULL)
        found = &sched->waiting_of[SCHED_TENANTS_MAX - 1];
    if (found != NULL)
        return found;
    ++*used;
    memcpy(unused->name, name, SCHED_TENANT_BYTES);
    return unused;
}

bool waiting_enter(struct job *job, const char *tenant)
{
    struct sched *sched = job->sched;
    char name[SCHED_TENANT_BYTES] = "";
    size_t tenants;

    assert(job->waiting == NULL);
    snprintf(name, sizeof(name), "%s", tenant != NULL ? tenant : "");
    lock_enter(&sched->lock);
    struct waiting *entry = find(sched, name, &tenants);
    /* Relaxed: changed under the lock only; others read a number. */
    uint32_t all = atomic_load_explicit(&sched->waiting, memory_order_relaxed);
    bool enters = turns_have_room(sched->options.queue, all, entry->count, tenants);
    if (enters) {
        entry->count++;
        job->waiting = entry;
        atomic_store_explicit(&sched->waiting, all + 1, memory_order_relaxed);
    }
    lock_leave(&sched->lock);
    return enters;
}

void waiting_leave(struct job *job)
{
    struct sched *sched = job->sched;

    if (job->waiting == NULL)
        return;
    lock_enter(&sched->lock);
    assert(job->waiting->count > 0);
    job->waiting->count--;
    job->waiting = NULL;
    atomic_fetch_sub_explicit(&sched->waiting, 1, memory_order_relaxed);
    lock_leave(&sched->lock);
}
