/*
 * revive.c: recovery when the engine's process dies (engine/engine_worker.h).
 *
 *              a call failed, or a check between two turns
 *      ALIVE ---------------------------------------------> DEAD
 *        ^                                                   |
 *        |     restart succeeded                             |
 *        '---------------------------------------------------'
 *
 * On death, jobs with a sequence end with the engine's error, and residents are freed. The first
 * restart is attempted at once, later ones only after a delay that doubles. If a restart fails or
 * is not due yet, all waiting and new jobs end with the error.
 *
 * Jobs without a sequence (queued, deferred, in lookup) have lost nothing and continue. State in
 * the cache is found there; state that was only on the device is recomputed.
 *
 * An engine that dies repeatedly (a request that kills it, a broken driver) must not reload its
 * model all the time, and one whose worker is away (engine/rpc.h) must come back with it. So the
 * delay has a maximum, and restarts never end. Deaths are in a row when each comes within stable_ns
 * of its start. A failed restart lengthens the delay only until one succeeds.
 */
#include "sched/sched_impl.h"

enum { PAUSE_S_MAX = 30, RETRY_S = 1 };
static const uint64_t stable_ns = 60 * NS_PER_S;

static void end_job(struct job *job, const struct errinfo *info)
{
    job_end(job, GEN_END_ERROR, ERR_ENGINE, info);
}

bool revive_explain(const struct job *job, enum err err, struct errinfo *info)
{
    if (err != ERR_ENGINE || job->seq == SEQ_NONE || engine_alive(job->sched->engine))
        return false;
    err_set(info, ERR_ENGINE,
            "the process of model %s died while it worked on this request; send it again",
            job->sched->options.model);
    /* The engine may be back by then, and a proxy can try another server. */
    info->retry_s = RETRY_S;
    return true;
}

void revive_lose_all(struct sched *sched, const struct errinfo *info)
{
    LIST_FOREACH_SAFE (struct job, job, &sched->jobs, link) {
        if (job->seq != SEQ_NONE)
            end_job(job, info);
        else
            restore_lose(job);
    }
    device_lose(sched);
    sched->epoch++;
}

bool sched_is_dead(struct sched *sched, struct errinfo *info)
{
    lock_enter(&sched->lock);
    *info = sched->death;
    lock_leave(&sched->lock);
    return info->code != ERR_OK;
}

/* NULL: it lives. */
static void publish_death(struct sched *sched, const struct errinfo *info)
{
    lock_enter(&sched->lock);
    sched->death = info != NULL ? *info : (struct errinfo){0};
    lock_leave(&sched->lock);
}

static void schedule_attempt(struct sched *sched)
{
    struct revival *revival = &sched->revival;
    uint32_t count = revival->deaths + revival->failures;
    uint64_t seconds = count < 2 ? 0 : UINT64_C(1) << MIN(count - 2, 5);

    revival->next_ns = sched_now_ns(sched) + MIN(seconds, PAUSE_S_MAX) * NS_PER_S;
}

static void note_death(struct sched *sched)
{
    struct revival *revival = &sched->revival;
    uint64_t now = sched_now_ns(sched);

    revival->dead = true;
    revival->deaths =
        revival->started_ns > 0 && now - revival->started_ns > stable_ns ? 1 : revival->deaths + 1;
    schedule_attempt(sched);
}

static void note_failure(struct sched *sched, const struct errinfo *info)
{
    LOG_ERROR(sched->options.log, "sched", "an engine could not be restarted",
              LOG_STR("model", sched->options.model), LOG_STR("reason", info->text));
    sched->revival.failures++;
    schedule_attempt(sched);
    publish_death(sched, info);
}

/* Whole seconds until the next attempt, at least 1: for Retry-After. */
static unsigned seconds_left(const struct revival *revival, uint64_t now)
{
    return revival->next_ns > now ? (unsigned)((revival->next_ns - now + NS_PER_S - 1) / NS_PER_S)
                                  : 1;
}

static bool goes_on(float done, void *arg)
{
    const struct sched *sched = arg;

    (void)done;
    return !atomic_load_explicit(&sched->stopping, memory_order_relaxed);
}

static bool restart(struct sched *sched, struct errinfo *info)
{
    struct revival *revival = &sched->revival;
    uint64_t now = sched_now_ns(sched);

    if (now < revival->next_ns) {
        unsigned seconds = seconds_left(revival, now);
        err_set(info, ERR_ENGINE, "model %s died and is restarted in %u s; try again later",
                sched->options.model, seconds);
        info->retry_s = seconds;
        return false;
    }
    if (engine_restart(sched->engine, goes_on, sched, info) != ERR_OK) {
        note_failure(sched, info);
        info->retry_s = seconds_left(revival, sched_now_ns(sched));
        return false;
    }
    revival->started_ns = sched_now_ns(sched);
    revival->failures = 0;
    revival->dead = false;
    publish_death(sched, NULL);
    return true;
}

bool revive_engine(struct sched *sched)
{
    /* job_end has a better text */
    static const struct errinfo dead = {
        .code = ERR_ENGINE, .retry_s = RETRY_S, .text = "its process died"};
    struct errinfo info = {0};

    if (engine_alive(sched->engine))
        return true;
    if (!sched->revival.dead) {
        note_death(sched);
        publish_death(sched, &dead);
        revive_lose_all(sched, &dead);
    }
    if (!restart(sched, &info)) {
        LIST_FOREACH_SAFE (struct job, job, &sched->jobs, link) {
            end_job(job, &info);
        }
        return false;
    }
    sched_count(sched, &sched->stats.restarts, 1);
    return true;
}
