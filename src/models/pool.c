/*
 * pool.c: the table of models: names, uses, waits, views. Slow work is done by pool_loader.c and
 * pool_keeper.c.
 *
 * Entries are never removed, so a pointer to one is valid as long as the pool; its variable fields
 * are guarded by the pool's lock.
 *
 *      P1  a model is closed only when its entry has no uses, and accepts none (UNLOADING)
 *      P2  a wait is in the list of one entry, which is LOADING or UNLOADING; the thread that
 *          removes it calls its done
 *      P3  done and progress of one wait never run at the same time: no thread removes a busy wait
 */
#include "models/pool.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "models/pool_impl.h"

enum { WAITS_MAX_DEFAULT = 1024 };

/* For this long a failure is repeated to clients, so that their retries do not start new loads. */
#define RETRY_NS (5 * NS_PER_S)

const char *pool_state_name(enum pool_state state)
{
    static const char *const names[] = {POOL_STATE_TABLE(TABLE_NAME)};

    return names[state];
}

/* ---- states ---- */

#ifdef HEARTH_DEBUG
enum { CHECKS = true };
#else
enum { CHECKS = false };
#endif

static void check_entry(const struct pool *pool, const struct pool_entry *entry)
{
    enum pool_state state = entry->state;
    bool loaded = entry->model != NULL;

    assert(state < POOL_STATE_COUNT && entry == pool->entries[entry->index]);
    assert(loaded || (state != POOL_READY && entry->uses == 0)); /* keeps P1 */
    assert(!loaded || state == POOL_READY || state == POOL_UNLOADING);
    assert(!entry->again || state == POOL_UNLOADING);
    assert(entry != pool->loading || (state == POOL_LOADING && !loaded));
    LIST_FOREACH (struct pool_wait, wait, &entry->waits, link)
        assert(wait->entry == entry); /* keeps P2 */
}

void pool_check_state_locked(const struct pool *pool)
{
    size_t waits = 0;

    lock_assert_held(&pool->lock);
    for (size_t i = 0; CHECKS && i < pool->entries_count; i++) {
        check_entry(pool, pool->entries[i]);
        waits += pool->entries[i]->waits.count;
    }
    assert(!CHECKS || waits == pool->waits);
}

void pool_set_state_locked(struct pool *pool, struct pool_entry *entry, enum pool_state state)
{
    lock_assert_held(&pool->lock);
    assert(state != POOL_READY || entry->model != NULL);
    entry->state = state;
    pool_check_state_locked(pool);
    cond_broadcast(&pool->moved);
    cond_signal(&pool->work);
}

void pool_queue_locked(struct pool *pool, struct pool_entry *entry)
{
    assert(entry->model == NULL);
    entry->ticket = ++pool->tickets;
    entry->progress = 0;
    entry->inspected = entry->cancel = entry->again = false;
    pool_set_state_locked(pool, entry, POOL_LOADING);
}

void pool_retire_locked(struct pool *pool, struct pool_entry *entry)
{
    assert(entry->state == POOL_READY);
    entry->again = false;
    pool_set_state_locked(pool, entry, POOL_UNLOADING);
}

/* ---- names ---- */

static bool is_alias(const struct pool_entry *entry, struct str name)
{
    struct str rest = str_from(entry->spec.aliases != NULL ? entry->spec.aliases : ""), alias;

    while (str_next(&rest, ',', &alias))
        if (alias.len > 0 && str_eq_nocase(name, alias))
            return true;
    return false;
}

static struct pool_entry *find_exact_locked(struct pool *pool, struct str name) REQUIRES(lock)
{
    lock_assert_held(&pool->lock);
    POOL_FOREACH (entry, pool)
        if (str_eq(name, str_from(entry->spec.name)))
            return entry;
    POOL_FOREACH (entry, pool)
        if (str_eq_nocase(name, str_from(entry->spec.name)))
            return entry;
    POOL_FOREACH (entry, pool)
        if (is_alias(entry, name))
            return entry;
    if (!str_ends(name, STR(":latest"))) /* Ollama's clients add it to names without a tag */
        return NULL;
    name.len -= sizeof(":latest") - 1;
    return find_exact_locked(pool, name);
}

/* By the rules for clients: without a name, or with an unknown one, the default model. */
static struct pool_entry *find_locked(struct pool *pool, struct str name) REQUIRES(lock)
{
    struct pool_entry *entry = name.len > 0 ? find_exact_locked(pool, name) : NULL;

    if (entry != NULL || pool->entries_count == 0)
        return entry;
    return pool->entries[0];
}

static enum err not_found(struct str name, struct errinfo *info)
{
    return err_set(info, ERR_NOT_FOUND, "there is no model '" STR_FMT "'", (int)MIN(name.len, 128),
                   name.ptr);
}

size_t pool_find(struct pool *pool, struct str name, bool exact)
{
    lock_enter(&pool->lock);
    struct pool_entry *entry = exact ? find_exact_locked(pool, name) : find_locked(pool, name);
    size_t index = entry != NULL ? entry->index : SIZE_MAX;
    lock_leave(&pool->lock);
    return index;
}

/* ---- adding ---- */

static struct pool_entry *create_entry(const struct pool_spec *spec)
{
    struct pool_entry *entry = mem_alloc(sizeof(*entry));

    entry->spec = *spec;
    entry->spec.name = mem_strdup(spec->name);
    entry->spec.path = mem_strdup(spec->path);
    entry->spec.aliases = spec->aliases != NULL ? mem_strdup(spec->aliases) : NULL;
    list_init(&entry->waits);
    return entry;
}

static void destroy_entry(struct pool_entry *entry)
{
    list_check(&entry->waits);
    mem_free((void *)entry->spec.name);
    mem_free((void *)entry->spec.path);
    mem_free((void *)entry->spec.aliases);
    mem_free(entry);
}

static enum err add_locked(struct pool *pool, struct pool_entry *entry, struct errinfo *info)
    REQUIRES(lock)
{
    lock_assert_held(&pool->lock);
    if (find_exact_locked(pool, str_from(entry->spec.name)) != NULL)
        return err_set(info, ERR_EXISTS, "two models are named '%s'", entry->spec.name);
    if (pool->entries_count == POOL_MODELS_MAX)
        return err_set(info, ERR_LIMIT, "more than %d models", POOL_MODELS_MAX);
    entry->index = pool->entries_count;
    entry->used_ns = clock_mono_ns(pool->clock);
    pool->entries[pool->entries_count++] = entry;
    return ERR_OK;
}

enum err pool_add(struct pool *pool, const struct pool_spec *spec, struct errinfo *info)
{
    if (spec->name == NULL || spec->name[0] == '\0' || spec->path == NULL)
        return err_set(info, ERR_INVALID, "a model needs a name and a file");
    struct pool_entry *entry = create_entry(spec);
    lock_enter(&pool->lock);
    enum err err = add_locked(pool, entry, info);
    lock_leave(&pool->lock);
    if (err != ERR_OK)
        destroy_entry(entry);
    return err;
}

/* ---- the file of a loaded model (I83) ---- */

/* Whether the loaded model matches its file. The caller holds a use of it. A file that is missing
 * or unreadable changes nothing. A file that was only touched counts as changed: to know better,
 * all of it would have to be read, as for a load. */
bool pool_is_current(struct pool *pool, struct pool_entry *entry)
{
    const struct pool_ops *ops = &pool->options.ops;
    struct errinfo info = {0};
    struct model_file now;

    enum err err = ops->inspect(&entry->spec, true, &now, &info, ops->arg);
    lock_enter(&pool->lock);
    entry->file_missing = err != ERR_OK;
    bool current = err != ERR_OK || now.stamp == entry->file.stamp;
    lock_leave(&pool->lock);
    return current;
}

/* ---- use ---- */

static void note_use_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    entry->used_ns = clock_mono_ns(pool->clock);
    entry->ticket = ++pool->tickets; /* READY: the order of eviction */
}

static enum pool_answer refuse(struct pool_wait *wait, enum err err, const char *text)
{
    err_set(&wait->info, err, "%s", text);
    return POOL_ANSWER_REFUSED;
}

/* Queues the wait for an entry that is not ready. */
static enum pool_answer join_locked(struct pool *pool, struct pool_entry *entry,
                                    struct pool_wait *wait) REQUIRES(lock)
{
    uint64_t waits_max = pool->options.waits_max > 0 ? pool->options.waits_max : WAITS_MAX_DEFAULT;
    uint64_t now_ns = clock_mono_ns(pool->clock);

    lock_assert_held(&pool->lock);
    if (pool->closing)
        return refuse(wait, ERR_CLOSED, "the server is shutting down");
    if (wait->cancelled)
        return refuse(wait, ERR_CANCELLED, "cancelled");
    if (entry->state == POOL_FAILED && now_ns - entry->failed_ns < RETRY_NS) {
        wait->info = entry->error;
        wait->failed = true;
        return POOL_ANSWER_REFUSED;
    }
    if (pool->waits >= waits_max)
        return refuse(wait, ERR_BUSY, "too many requests are waiting for models");
    if (entry->state == POOL_KNOWN || entry->state == POOL_FAILED)
        pool_queue_locked(pool, entry);
    wait->entry = entry;
    wait->told = 0;
    wait->busy = false;
    list_push_back(&entry->waits, &wait->link);
    pool->waits++;
    cond_signal(&pool->due); /* the keeper has one more deadline */
    return POOL_ANSWER_WAITING;
}

/* Takes a use of a loaded model if it still matches its file; otherwise starts to unload it and
 * returns NULL. */
static struct model *use_current(struct pool *pool, struct pool_entry *entry)
{
    lock_enter(&pool->lock);
    struct model *model = entry->state == POOL_READY ? entry->model : NULL;
    if (model != NULL) {
        entry->uses++;
        note_use_locked(pool, entry);
    }
    lock_leave(&pool->lock);
    if (model == NULL || pool_is_current(pool, entry))
        return model;
    LOG_WARN(pool->options.log, "models", "the file has changed: reloading",
             LOG_STR("model", entry->spec.name));
    lock_enter(&pool->lock);
    entry->uses--;
    if (entry->state == POOL_READY)
        pool_retire_locked(pool, entry);
    cond_signal(&pool->work);
    lock_leave(&pool->lock);
    return NULL;
}

enum pool_answer pool_acquire(struct pool *pool, struct str name, struct pool_wait *wait)
{
    wait->model = NULL;
    wait->failed = false;
    wait->name = NULL; /* not entry: a concurrent pool_cancel may read it */
    lock_enter(&pool->lock);
    struct pool_entry *entry = find_locked(pool, name);
    lock_leave(&pool->lock);
    if (entry == NULL) {
        not_found(name, &wait->info);
        return POOL_ANSWER_REFUSED;
    }
    wait->name = entry->spec.name;
    for (;;) {
        wait->model = use_current(pool, entry);
        if (wait->model != NULL)
            return POOL_ANSWER_READY;
        lock_enter(&pool->lock);
        bool ready = entry->state == POOL_READY; /* it became ready in between */
        enum pool_answer answer = ready ? POOL_ANSWER_READY : join_locked(pool, entry, wait);
        pool_check_state_locked(pool);
        lock_leave(&pool->lock);
        if (!ready)
            return answer;
    }
}

static void give_back(struct pool *pool, struct model *model, bool used)
{
    lock_enter(&pool->lock);
    POOL_FOREACH (entry, pool) {
        if (entry->model != model)
            continue;
        assert(entry->uses > 0);
        entry->uses--;
        if (used)
            note_use_locked(pool, entry);
        if (entry->uses == 0)
            cond_signal(&pool->work);
        break;
    }
    lock_leave(&pool->lock);
}

void pool_release(struct pool *pool, struct model *model)
{
    give_back(pool, model, true);
}

void pool_unpeek(struct pool *pool, struct model *model)
{
    give_back(pool, model, false);
}

void pool_take_wait_locked(struct pool *pool, struct pool_wait *wait)
{
    lock_assert_held(&pool->lock);
    assert(wait->entry != NULL && !wait->busy && pool->waits > 0); /* keeps P2, P3 */
    list_remove(&wait->entry->waits, &wait->link);
    wait->entry = NULL;
    pool->waits--;
}

void pool_cancel(struct pool *pool, struct pool_wait *wait)
{
    lock_enter(&pool->lock);
    wait->cancelled = true;
    if (wait->entry != NULL)
        cond_signal(&pool->due);
    lock_leave(&pool->lock);
}

/* ---- explicit load and unload ---- */

enum err pool_load(struct pool *pool, struct str name, struct errinfo *info)
{
    lock_enter(&pool->lock);
    struct pool_entry *entry = find_exact_locked(pool, name);
    if (entry != NULL && (entry->state == POOL_KNOWN || entry->state == POOL_FAILED))
        pool_queue_locked(pool, entry);
    if (entry != NULL && entry->state == POOL_LOADING)
        entry->by_hand = true;
    if (entry != NULL && entry->state == POOL_UNLOADING)
        entry->again = true;
    lock_leave(&pool->lock);
    return entry != NULL ? ERR_OK : not_found(name, info);
}

/* A running load stops at its next progress report; its waits get an error. */
static void cancel_load_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    lock_assert_held(&pool->lock);
    entry->by_hand = false;
    LIST_FOREACH (struct pool_wait, wait, &entry->waits, link)
        wait->cancelled = true;
    cond_signal(&pool->due);
    /* otherwise it is queued, and the keeper removes it */
    entry->cancel = pool->loading == entry;
}

enum err pool_unload(struct pool *pool, struct str name, struct errinfo *info)
{
    enum err err = ERR_OK;

    lock_enter(&pool->lock);
    struct pool_entry *entry = find_exact_locked(pool, name);
    if (entry == NULL)
        err = not_found(name, info);
    else if (entry->state == POOL_READY)
        pool_retire_locked(pool, entry);
    else if (entry->state == POOL_UNLOADING)
        entry->again = false;
    else if (entry->state == POOL_LOADING)
        cancel_load_locked(pool, entry);
    lock_leave(&pool->lock);
    return err;
}

static bool is_moving(const struct pool_entry *entry)
{
    return entry->state == POOL_LOADING || entry->state == POOL_UNLOADING;
}

enum err pool_wait_ready(struct pool *pool, struct str name, struct errinfo *info)
{
    enum err err = ERR_OK;

    lock_enter(&pool->lock);
    struct pool_entry *entry = find_exact_locked(pool, name);
    while (entry != NULL && is_moving(entry) && !pool->closing)
        cond_wait(&pool->moved, &pool->lock);
    if (entry == NULL)
        err = not_found(name, info);
    else if (entry->state == POOL_FAILED)
        err = err_set(info, entry->error.code, "%s", entry->error.text);
    else if (entry->state != POOL_READY)
        err = err_set(info, ERR_CANCELLED, "'%s' is not loaded", entry->spec.name);
    lock_leave(&pool->lock);
    return err;
}

void pool_on_progress(struct pool *pool, void (*fn)(const char *name, float done, void *arg),
                      void *arg)
{
    lock_enter(&pool->lock);
    pool->progress_fn = fn;
    pool->progress_arg = arg;
    lock_leave(&pool->lock);
}

/* ---- views ---- */

size_t pool_count(struct pool *pool)
{
    lock_enter(&pool->lock);
    size_t count = pool->entries_count;
    lock_leave(&pool->lock);
    return count;
}

static bool is_dead_locked(struct pool_entry *entry, struct errinfo *info) REQUIRES(lock)
{
    return entry->state == POOL_READY && sched_is_dead(model_sched(entry->model), info);
}

static struct pool_view view_of_locked(struct pool *pool, struct pool_entry *entry) REQUIRES(lock)
{
    uint64_t now_ns = clock_mono_ns(pool->clock);
    struct errinfo error = {0};

    lock_assert_held(&pool->lock);
    bool dead = is_dead_locked(entry, &error);
    if (entry->state == POOL_FAILED)
        error = entry->error;
    return (struct pool_view){
        .name = entry->spec.name,
        .aliases = entry->spec.aliases,
        .path = entry->spec.path,
        .state = dead ? POOL_DEAD : entry->state,
        .progress = entry->progress,
        .pinned = entry->spec.pinned,
        .is_default = entry->index == 0,
        .file_missing = entry->file_missing,
        .uses = entry->uses,
        .waits = (uint32_t)entry->waits.count,
        .bytes = entry->bytes,
        .file_bytes = entry->file.bytes,
        .ttl_ns = entry->spec.ttl_ns,
        .idle_ns = entry->uses > 0 || now_ns < entry->used_ns ? 0 : now_ns - entry->used_ns,
        .loads = entry->loads,
        .load_s = entry->load_s,
        .error = error,
    };
}

bool pool_view(struct pool *pool, size_t index, struct pool_view *view)
{
    lock_enter(&pool->lock);
    bool found = index < pool->entries_count;
    if (found)
        *view = view_of_locked(pool, pool->entries[index]);
    lock_leave(&pool->lock);
    return found;
}

struct model *pool_peek(struct pool *pool, size_t index)
{
    struct model *model = NULL;

    lock_enter(&pool->lock);
    if (index < pool->entries_count && pool->entries[index]->state == POOL_READY) {
        model = pool->entries[index]->model;
        pool->entries[index]->uses++;
    }
    lock_leave(&pool->lock);
    return model;
}

struct model *pool_next(struct pool *pool, size_t *index)
{
    struct model *model = NULL;
    size_t count = pool != NULL ? pool_count(pool) : 0;

    while (model == NULL && *index < count)
        model = pool_peek(pool, (*index)++);
    return model;
}

/* Under one lock: a model being unloaded is counted in the table or in `past`, never in neither. */
void pool_get_stats(struct pool *pool, struct sched_stats *stats)
{
    struct sched_stats one;

    lock_enter(&pool->lock);
    *stats = pool->past;
    POOL_FOREACH (entry, pool) {
        if (entry->model == NULL)
            continue;
        sched_get_stats(model_sched(entry->model), &one);
        sched_add_stats(stats, &one, true);
    }
    lock_leave(&pool->lock);
}

bool pool_alive(struct pool *pool, uint64_t within_ns)
{
    struct model *model;
    bool alive = true;

    for (size_t i = 0; alive && (model = pool_next(pool, &i)) != NULL;) {
        alive = sched_alive(model_sched(model), within_ns);
        pool_unpeek(pool, model);
    }
    return alive;
}

void pool_run_watchdog(struct pool *pool)
{
    unsigned stalled = 0;
    struct model *model;

    for (size_t i = 0; (model = pool_next(pool, &i)) != NULL;) {
        sched_run_watchdog(model_sched(model));
        stalled += sched_stalled(model_sched(model));
        pool_unpeek(pool, model);
    }
    atomic_store_explicit(&pool->stalled, stalled, memory_order_relaxed);
}

unsigned pool_stalled(const struct pool *pool)
{
    return atomic_load_explicit(&pool->stalled, memory_order_relaxed);
}

unsigned pool_dead(struct pool *pool, bool *needed)
{
    struct errinfo info;
    unsigned dead = 0;

    *needed = false;
    lock_enter(&pool->lock);
    POOL_FOREACH (entry, pool) {
        if (!is_dead_locked(entry, &info))
            continue;
        dead++;
        *needed = *needed || entry->spec.pinned || pool->entries_count == 1;
    }
    lock_leave(&pool->lock);
    return dead;
}

void pool_set_ttl(struct pool *pool, uint64_t ttl_ns)
{
    lock_enter(&pool->lock);
    POOL_FOREACH (entry, pool)
        entry->spec.ttl_ns = ttl_ns;
    lock_leave(&pool->lock);
}

/* ---- create and destroy ---- */

enum err pool_create(struct pool **out, const struct pool_options *options, struct errinfo *info)
{
    struct pool *pool = mem_alloc(sizeof(*pool));

    assert(options->ops.inspect != NULL && options->ops.load != NULL);
    pool->options = *options;
    pool->clock = options->clock != NULL ? options->clock : clock_real();
    pool->entries = mem_alloc_array(POOL_MODELS_MAX, sizeof(*pool->entries));
    lock_init(&pool->lock, "pool", LOCK_RANK_POOL);
    cond_init(&pool->work);
    cond_init(&pool->due);
    cond_init(&pool->moved);
    enum err err = thread_start(&pool->loader, "models", pool_loader_run, pool, info);
    if (err == ERR_OK)
        err = thread_start(&pool->keeper, "models-keeper", pool_keeper_run, pool, info);
    if (err != ERR_OK)
        pool_destroy(&pool);
    *out = pool;
    return err;
}

static void end_threads(struct pool *pool)
{
    lock_enter(&pool->lock);
    pool->closing = true;
    cond_broadcast(&pool->work);
    cond_broadcast(&pool->due);
    cond_broadcast(&pool->moved);
    lock_leave(&pool->lock);
    thread_join(&pool->loader);
    thread_join(&pool->keeper);
}

/* Refuses the remaining waits, now that no thread is left to call them. */
static void refuse_waits(struct pool *pool, struct pool_entry *entry)
{
    for (;;) {
        lock_enter(&pool->lock);
        struct list_node *node = list_first(&entry->waits);
        struct pool_wait *wait = LIST_ENTRY(node, struct pool_wait, link);
        if (wait != NULL)
            pool_take_wait_locked(pool, wait);
        lock_leave(&pool->lock);
        if (wait == NULL)
            return;
        refuse(wait, ERR_CLOSED, "the server is shutting down");
        wait->done(wait);
    }
}

void pool_destroy(struct pool **out)
{
    struct pool *pool = *out;

    *out = NULL;
    if (pool == NULL)
        return;
    end_threads(pool);
    POOL_FOREACH (entry, pool)
        refuse_waits(pool, entry);
    POOL_FOREACH (entry, pool) {
        assert(entry->uses == 0);
        model_close(&entry->model);
        destroy_entry(entry);
    }
    cond_fini(&pool->moved);
    cond_fini(&pool->due);
    cond_fini(&pool->work);
    lock_fini(&pool->lock);
    mem_free(pool->entries);
    mem_free(pool);
}
