/*
 * pool_keeper.c: the timer thread: ends waits that have timed out or were cancelled, removes queued
 * loads that are no longer wanted, and checks TTLs and files every check_ms.
 */
#include "models/pool_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "sched/memory.h"

/* ---- waits ---- */

static bool is_over(const struct pool_wait *wait, uint64_t now_ns)
{
    return wait->cancelled || (wait->deadline_ns != 0 && wait->deadline_ns <= now_ns);
}

/* A wait that is over and not busy; NULL: none. */
static struct pool_wait *next_over_locked(struct pool *pool, uint64_t now_ns) REQUIRES(lock)
{
    POOL_FOREACH (entry, pool)
        LIST_FOREACH (struct pool_wait, wait, &entry->waits, link)
            if (!wait->busy && is_over(wait, now_ns))
                return wait;
    return NULL;
}

/* Queued, and no longer wanted. */
static void drop_unwanted_locked(struct pool *pool) REQUIRES(lock)
{
    POOL_FOREACH (entry, pool) {
        if (entry->state == POOL_LOADING && entry != pool->loading && !entry->by_hand &&
            list_empty(&entry->waits))
            pool_set_state_locked(pool, entry, POOL_KNOWN);
    }
}

/* Under the lock: a second pool_cancel may come during the first one's callback. */
static void set_reason_locked(struct pool_wait *wait) REQUIRES(lock)
{
    if (wait->cancelled)
        err_set(&wait->info, ERR_CANCELLED, "cancelled");
    else
        err_set(&wait->info, ERR_TIMEOUT, "'%s' is still being loaded (%d%%)", wait->name,
                (int)(wait->entry->progress * 100));
}

/* Leaves the lock for each call. */
static void end_waits_locked(struct pool *pool) REQUIRES(lock)
{
    struct pool_wait *wait;

    while ((wait = next_over_locked(pool, clock_mono_ns(clock_real()))) != NULL) {
        set_reason_locked(wait);
        pool_take_wait_locked(pool, wait);
        lock_leave(&pool->lock);
        wait->done(wait);
        lock_enter(&pool->lock);
    }
    drop_unwanted_locked(pool);
}

static uint64_t next_deadline_locked(struct pool *pool) REQUIRES(lock)
{
    uint64_t next = UINT64_MAX;

    POOL_FOREACH (entry, pool)
        LIST_FOREACH (struct pool_wait, wait, &entry->waits, link)
            if (wait->deadline_ns != 0 && !wait->busy) /* we are woken when it is no longer busy */
                next = MIN(next, wait->deadline_ns);
    return next;
}

/* ---- periodic checks ---- */

static void retire_if_idle_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    uint64_t now_ns = clock_mono_ns(pool->clock), ttl_ns = entry->spec.ttl_ns;

    lock_assert_held(&pool->lock);
    if (entry->state != POOL_READY || entry->uses > 0 || entry->spec.pinned || ttl_ns == 0 ||
        now_ns - entry->used_ns < ttl_ns)
        return;
    LOG_INFO(pool->options.log, "models", "unloading after its idle time",
             LOG_STR("model", entry->spec.name));
    pool_retire_locked(pool, entry);
}

/* Memory is short although the RAM tier has shrunk. One idle model per check: the next check sees
 * what that freed. Never the last one that is loaded: that frees memory for no other, and its next
 * request would load it again. */
static void relieve(struct pool *pool)
{
    struct memory_view view;

    if (pool->options.memory == NULL)
        return;
    memory_get_view(pool->options.memory, &view);
    if (view.level < GUARD_HARD)
        return;
    lock_enter(&pool->lock);
    size_t ready = 0;
    POOL_FOREACH (entry, pool)
        ready += entry->state == POOL_READY;
    struct pool_entry *entry = pool_victim_locked(pool);
    if (ready > 1 && entry != NULL && entry->uses == 0) {
        LOG_INFO(pool->options.log, "models", "unloading because memory is short",
                 LOG_STR("model", entry->spec.name),
                 LOG_STR("pressure", guard_level_name(view.level)));
        pool_retire_locked(pool, entry);
    }
    lock_leave(&pool->lock);
}

/* A loaded model needs its file to count as ready; the reported state is updated here (I83). */
static void check_entry(struct pool *pool, struct pool_entry *entry)
{
    lock_enter(&pool->lock);
    retire_if_idle_locked(pool, entry);
    bool ready = entry->state == POOL_READY;
    lock_leave(&pool->lock);
    if (ready)
        (void)pool_is_current(pool, entry); /* notes a missing file */
}

void pool_check(struct pool *pool)
{
    size_t count = pool_count(pool);

    pool_run_watchdog(pool);
    relieve(pool);
    for (size_t i = 0; i < count; i++) {
        lock_enter(&pool->lock);
        struct pool_entry *entry = pool->entries[i];
        lock_leave(&pool->lock);
        check_entry(pool, entry);
    }
}

void pool_keeper_run(void *arg)
{
    struct pool *pool = arg;
    uint64_t period_ns = pool->options.check_ms * NS_PER_MS;
    uint64_t check_ns = period_ns > 0 ? clock_deadline_ns(clock_real(), period_ns) : UINT64_MAX;

    lock_enter(&pool->lock);
    while (!pool->closing) {
        end_waits_locked(pool);
        pool_check_state_locked(pool);
        if (clock_mono_ns(clock_real()) >= check_ns) {
            lock_leave(&pool->lock);
            pool_check(pool);
            lock_enter(&pool->lock);
            check_ns = clock_deadline_ns(clock_real(), period_ns);
        } else if (!pool->closing) {
            (void)!cond_wait_until(&pool->due, &pool->lock,
                                   MIN(check_ns, next_deadline_locked(pool)));
        }
    }
    lock_leave(&pool->lock);
}
