/*
 * pool_loader.c: the thread that loads and unloads, one model at a time:
 *
 *      1  close a model that is UNLOADING and has no uses left
 *      2  else take the LOADING one that was requested first: inspect its file, make room, load
 *      3  else wait for work
 *
 * Making room only marks the models to unload; step 1 unloads them in the next round. Slow
 * functions that end in _locked leave the lock meanwhile and take it again, and say so.
 */
#include "models/pool_impl.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sched/memory.h"

enum { PERCENT = 100 };

/* ---- choosing ---- */

static struct pool_entry *next_leaving_locked(struct pool *pool) REQUIRES(lock)
{
    POOL_FOREACH (entry, pool)
        if (entry->state == POOL_UNLOADING && entry->uses == 0)
            return entry;
    return NULL;
}

static struct pool_entry *next_queued_locked(struct pool *pool) REQUIRES(lock)
{
    struct pool_entry *next = NULL;

    POOL_FOREACH (entry, pool) {
        if (entry->state == POOL_LOADING && (next == NULL || entry->ticket < next->ticket))
            next = entry;
    }
    return next;
}

/* ---- waits ---- */

/* Ends all waits of an entry: with the model when it is READY, else with its error. Leaves the
 * lock. */
static void finish_waits_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    struct list done;
    struct list_node *node;

    lock_assert_held(&pool->lock);
    list_init(&done);
    while ((node = list_first(&entry->waits)) != NULL) {
        struct pool_wait *wait = CONTAINER_OF(node, struct pool_wait, link);

        pool_take_wait_locked(pool, wait);
        if (wait->cancelled) {
            err_set(&wait->info, ERR_CANCELLED, "cancelled");
        } else if (entry->state == POOL_READY) {
            wait->model = entry->model;
            entry->uses++;
        } else if (pool->closing) { /* loads interrupted by closing have not failed */
            err_set(&wait->info, ERR_CLOSED, "the server is shutting down");
        } else {
            wait->info = entry->error;
            wait->failed = true;
        }
        list_push_back(&done, &wait->link);
    }
    lock_leave(&pool->lock);
    while ((node = list_pop_front(&done)) != NULL) {
        struct pool_wait *wait = CONTAINER_OF(node, struct pool_wait, link);

        wait->done(wait); /* the wait may be freed afterwards */
    }
    lock_enter(&pool->lock);
}

static struct pool_wait *untold_locked(struct pool_entry *entry, unsigned percent) REQUIRES(lock)
{
    LIST_FOREACH (struct pool_wait, wait, &entry->waits, link) {
        if (wait->told < percent && wait->progress != NULL && !wait->cancelled)
            return wait;
    }
    return NULL;
}

/* Reports progress to all waits. Leaves the lock for each call; busy waits are not removed
 * meanwhile (keeps P3). */
static void notify_waits_locked(struct pool *pool, struct pool_entry *entry, float done)
    REQUIRES(lock)
{
    unsigned percent = 1 + (unsigned)(done * (PERCENT - 1)); /* the first report counts as well */
    struct pool_wait *wait;

    while ((wait = untold_locked(entry, percent)) != NULL) {
        wait->told = percent;
        wait->busy = true;
        lock_leave(&pool->lock);
        wait->progress(wait, done);
        lock_enter(&pool->lock);
        wait->busy = false;
        cond_signal(&pool->due); /* the keeper may be waiting for it */
    }
}

/* ---- room ---- */

enum room { ROOM_YES, ROOM_LATER, ROOM_NEVER };

struct load_sum {
    uint64_t bytes;
    uint32_t models;
};

/* Of models that stay, of all that are ready, or also of those that are being unloaded. */
enum sum_of { SUM_STAYING, SUM_READY, SUM_LOADED };

static struct load_sum sum_locked(struct pool *pool, enum sum_of what) REQUIRES(lock)
{
    struct load_sum sum = {0};

    POOL_FOREACH (entry, pool)
        if ((entry->state == POOL_READY && (what != SUM_STAYING || entry->spec.pinned)) ||
            (entry->state == POOL_UNLOADING && what == SUM_LOADED)) {
            sum.bytes += entry->bytes;
            sum.models++;
        }
    return sum;
}

static bool fits(const struct pool_options *options, struct load_sum sum, uint64_t bytes)
{
    if (options->models_max > 0 && sum.models >= options->models_max)
        return false;
    return options->bytes_max == 0 ||
           (bytes <= options->bytes_max && sum.bytes <= options->bytes_max - bytes);
}

static bool leaves_before(const struct pool_entry *a, const struct pool_entry *b)
{
    if ((a->uses == 0) != (b->uses == 0))
        return a->uses == 0;
    return a->ticket < b->ticket;
}

struct pool_entry *pool_victim_locked(struct pool *pool)
{
    struct pool_entry *victim = NULL;

    POOL_FOREACH (entry, pool) {
        if (entry->state != POOL_READY || entry->spec.pinned)
            continue;
        if (victim == NULL || leaves_before(entry, victim))
            victim = entry;
    }
    return victim;
}

static enum room make_room_locked(struct pool *pool, const struct pool_entry *entry) REQUIRES(lock)
{
    lock_assert_held(&pool->lock);
    if (!fits(&pool->options, sum_locked(pool, SUM_STAYING),
              entry->bytes)) /* do not unload in vain */
        return ROOM_NEVER;
    while (!fits(&pool->options, sum_locked(pool, SUM_READY), entry->bytes)) {
        struct pool_entry *victim = pool_victim_locked(pool);

        assert(victim != NULL);
        LOG_INFO(pool->options.log, "models", "unloading to make room",
                 LOG_STR("model", victim->spec.name), LOG_STR("for", entry->spec.name),
                 LOG_INT("uses", victim->uses));
        pool_retire_locked(pool, victim);
    }
    return fits(&pool->options, sum_locked(pool, SUM_LOADED), entry->bytes) ? ROOM_YES : ROOM_LATER;
}

/* ---- ends of a load ---- */

static void fail_locked(struct pool *pool, struct pool_entry *entry, const struct errinfo *info)
    REQUIRES(lock)
{
    lock_assert_held(&pool->lock);
    entry->error = *info;
    entry->failed_ns = clock_mono_ns(pool->clock);
    entry->by_hand = false;
    pool_set_state_locked(pool, entry, POOL_FAILED);
    if (pool->progress_fn == NULL) /* a server that starts reports it itself (pool_wait_ready) */
        LOG_WARN(pool->options.log, "models", "cannot be loaded",
                 LOG_STR("model", entry->spec.name), LOG_STR("error", info->text));
    finish_waits_locked(pool, entry);
}

static void fail_for_room_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    char needs[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES];
    struct errinfo info = {0};

    err_set(&info, ERR_LIMIT,
            "no room: '%s' needs %s of %s, at most %u models, and pinned models stay",
            entry->spec.name, units_format_size(entry->bytes, needs),
            units_format_size(pool->options.bytes_max, has), pool->options.models_max);
    fail_locked(pool, entry, &info);
}

/* A load that was cancelled may have been requested again since. */
static bool is_wanted_locked(const struct pool_entry *entry) REQUIRES(lock)
{
    if (!entry->cancel || entry->by_hand)
        return true;
    LIST_FOREACH (struct pool_wait, wait, &entry->waits, link)
        if (!wait->cancelled)
            return true;
    return false;
}

static void drop_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    if (is_wanted_locked(entry)) {
        pool_queue_locked(pool, entry);
        return;
    }
    pool_set_state_locked(pool, entry, POOL_KNOWN);
    finish_waits_locked(pool, entry);
}

static uint64_t host_bytes(const struct engine_facts *facts)
{
    struct guard_model model = memory_model_of(facts);

    return guard_model_fixed(&model);
}

static void succeed_locked(struct pool *pool, struct pool_entry *entry, struct model *model,
                           uint64_t started_ns) REQUIRES(lock)
{
    const struct engine_facts *facts = model_facts(model);
    const struct engine_facts *draft = sched_draft_facts(model_sched(model));
    char bytes[UNITS_TEXT_BYTES];

    lock_assert_held(&pool->lock);
    entry->model = model;
    if (facts->weights_bytes > 0) /* else keep the estimate */
        entry->bytes = host_bytes(facts) + (draft != NULL ? host_bytes(draft) : 0);
    entry->loads++;
    entry->load_s = (double)(clock_mono_ns(pool->clock) - started_ns) / (double)NS_PER_S;
    entry->used_ns = clock_mono_ns(pool->clock);
    entry->ticket = ++pool->tickets;
    entry->by_hand = entry->file_missing = false;
    entry->progress = 1;
    pool_set_state_locked(pool, entry, POOL_READY);
    LOG_INFO(pool->options.log, "models", "loaded", LOG_STR("model", entry->spec.name),
             LOG_STR("memory", units_format_size(entry->bytes, bytes)));
    finish_waits_locked(pool, entry);
}

/* ---- steps; each leaves the lock while it works ---- */

static void keep_lora(struct pool_entry *entry, struct model *model)
{
    entry->lora = model_lora(model);
    entry->lora_changed = !lora_set_eq(&entry->lora, &model_facts(model)->lora.initial);
}

/* Not possible if an adapter's file has changed as well, and is activated now. */
static void restore_lora(struct pool *pool, struct pool_entry *entry, struct model *model)
{
    struct errinfo info = {0};

    if (entry->lora_changed && model_set_lora(model, &entry->lora, &info) != ERR_OK)
        LOG_WARN(pool->options.log, "models", "scales of adapters are as in the options again",
                 LOG_STR("model", entry->spec.name), LOG_STR("reason", info.text));
}

static void unload_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    struct model *model = entry->model;
    struct sched_stats stats;

    sched_get_stats(model_sched(model), &stats);
    sched_add_stats(&pool->past, &stats, false);
    entry->model = NULL;
    lock_leave(&pool->lock);
    keep_lora(entry, model);
    model_close(&model);
    lock_enter(&pool->lock);
    LOG_INFO(pool->options.log, "models", "unloaded", LOG_STR("model", entry->spec.name));
    if (entry->again || !list_empty(&entry->waits)) {
        entry->by_hand = entry->again;
        pool_queue_locked(pool, entry);
    } else {
        pool_set_state_locked(pool, entry, POOL_KNOWN);
    }
}

static void inspect_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    const struct pool_ops *ops = &pool->options.ops;
    struct errinfo info = {0};
    struct model_file file;

    pool->loading = entry;
    lock_leave(&pool->lock);
    enum err err = ops->inspect(&entry->spec, false, &file, &info, ops->arg);
    lock_enter(&pool->lock);
    pool->loading = NULL;
    if (entry->cancel) {
        drop_locked(pool, entry);
    } else if (err != ERR_OK) {
        fail_locked(pool, entry, &info);
    } else {
        /* Memory measured by the last load is better than an estimate, if the file is the same. */
        if (entry->bytes == 0 || file.stamp != entry->file.stamp)
            entry->bytes = file.memory_bytes;
        entry->file = file;
        entry->inspected = true;
    }
}

/* Called by the loader from within `load`. */
static bool on_progress(float done, void *arg)
{
    struct pool *pool = arg;

    lock_enter(&pool->lock);
    struct pool_entry *entry = pool->loading;
    void (*progress)(const char *, float, void *) = pool->progress_fn;
    void *progress_arg = pool->progress_arg;
    entry->progress = done;
    notify_waits_locked(pool, entry, done);
    bool go_on = !pool->closing && !entry->cancel;
    lock_leave(&pool->lock);
    if (progress != NULL)
        progress(entry->spec.name, done, progress_arg);
    return go_on;
}

static void load_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    const struct pool_ops *ops = &pool->options.ops;
    uint64_t started_ns = clock_mono_ns(pool->clock);
    bool warm = list_empty(&entry->waits);
    struct model *model = NULL;
    struct errinfo info = {0};

    pool->loading = entry;
    lock_leave(&pool->lock);
    enum err err = ops->load(&entry->spec, warm, on_progress, pool, &model, &info, ops->arg);
    if (err == ERR_OK)
        restore_lora(pool, entry, model);
    else if (info.text[0] == '\0')
        err_set(&info, err, "%s", err_sentence(err));
    info.code = err;
    lock_enter(&pool->lock);
    pool->loading = NULL;
    bool wanted = is_wanted_locked(entry);
    if (err == ERR_OK)
        succeed_locked(pool, entry, model, started_ns);
    else if (entry->cancel)
        drop_locked(pool, entry);
    else
        fail_locked(pool, entry, &info);
    if (!wanted && entry->state == POOL_READY) /* cancelled too late */
        pool_retire_locked(pool, entry);
}

/* False: nothing to do now. */
static bool step_locked(struct pool *pool) REQUIRES(lock)
{
    struct pool_entry *leaving = next_leaving_locked(pool), *entry = next_queued_locked(pool);
    enum room room;

    if (leaving != NULL) {
        unload_locked(pool, leaving);
        return true;
    }
    if (entry == NULL)
        return false;
    if (!entry->inspected) {
        inspect_locked(pool, entry);
        return true;
    }
    room = make_room_locked(pool, entry);
    if (room == ROOM_YES)
        load_locked(pool, entry);
    else if (room == ROOM_NEVER)
        fail_for_room_locked(pool, entry);
    return room != ROOM_LATER || next_leaving_locked(pool) != NULL;
}

void pool_loader_run(void *arg)
{
    struct pool *pool = arg;

    lock_enter(&pool->lock);
    while (!pool->closing)
        if (!step_locked(pool) && !pool->closing)
            cond_wait(&pool->work, &pool->lock);
    lock_leave(&pool->lock);
}
