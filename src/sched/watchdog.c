/*
 * watchdog.c: an engine that computes nothing for SCHED_STALL_S seconds while jobs are ready to
 * compute is stalled.
 *
 * Signs of life are tokens and the engine's beats: between two nodes of its graph, the library asks
 * whether to continue. So a batch that takes minutes on a slow machine is not a stall. A scheduler
 * that turns without computing is, and so is a call that hangs.
 *
 * The call is asked to return (its jobs then fail), and the scheduler is asked to end its youngest
 * job. If a batch runs after all, no job is ended.
 */
#include "sched/watchdog.h"

#include "sched/sched_impl.h"

#define LOAD(field)         atomic_load_explicit(&(field), memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&(field), (value), memory_order_relaxed)

static const uint64_t stall_ns = SCHED_STALL_S * NS_PER_S;

void watchdog_note(struct sched *sched)
{
    unsigned wanting = 0;

    LIST_FOREACH (struct job, job, &sched->jobs, link)
        wanting += job->phase == GEN_PREFILL || job->phase == GEN_DECODE;
    STORE(sched->watchdog.wanting, wanting);
}

void watchdog_ran(struct sched *sched, uint64_t tokens)
{
    atomic_fetch_add_explicit(&sched->watchdog.computed, tokens, memory_order_relaxed);
    STORE(sched->watchdog.breaks, false);
}

void watchdog_break(struct sched *sched)
{
    struct job *job = ladder_youngest(sched);
    struct errinfo info = {0};

    if (!LOAD(sched->watchdog.breaks))
        return;
    STORE(sched->watchdog.breaks, false);
    if (job == NULL)
        return;
    err_set(&info, ERR_ENGINE,
            "the model computed nothing for %d s, and this request was ended; send it again",
            SCHED_STALL_S);
    job_give_up(job, ERR_ENGINE, &info);
}

static void log_change(const struct sched *sched, bool stalled)
{
    if (stalled)
        LOG_ERROR(sched->options.log, "sched",
                  "the engine computes nothing; its youngest request is ended",
                  LOG_STR("model", sched->options.model), LOG_UINT("seconds", SCHED_STALL_S),
                  LOG_UINT("jobs", LOAD(sched->watchdog.wanting)));
    else
        LOG_INFO(sched->options.log, "sched", "the engine is computing again",
                 LOG_STR("model", sched->options.model));
}

void sched_run_watchdog(struct sched *sched)
{
    struct watchdog *watchdog = &sched->watchdog;
    uint64_t now_ns = sched_now_ns(sched),
             seen = LOAD(watchdog->computed) + engine_beats(sched->engine);

    lock_enter(&sched->lock);
    bool was = LOAD(watchdog->stalled);
    bool lives = LOAD(watchdog->wanting) == 0 || seen != watchdog->seen || watchdog->since_ns == 0;
    bool late = !lives && now_ns > watchdog->since_ns && now_ns - watchdog->since_ns >= stall_ns;
    bool stalled = late || (was && !lives);
    if (lives || late) /* late: the next job gets a full period before it is ended */
        watchdog->since_ns = now_ns;
    watchdog->seen = seen;
    STORE(watchdog->stalled, stalled);
    sched->stats.stalls += stalled && !was;
    sched->stats.stalled = stalled;
    lock_leave(&sched->lock);
    if (stalled != was)
        log_change(sched, stalled);
    if (!late)
        return;
    STORE(watchdog->breaks, true);
    engine_abort(sched->engine);
}

bool sched_stalled(const struct sched *sched)
{
    return LOAD(sched->watchdog.stalled);
}
