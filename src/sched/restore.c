/*
 * restore.c: from a plan of the cache to a sequence of the engine. All or nothing: a request gets
 * its sequence only after every object was fetched, verified and imported. Any failure shortens the
 * plan, down to a cold start.
 *
 *      lookup -> lower to what may be used -> [ fetch -> verify ]* -> import -> accept
 *                     ^------------ shorten <--------'-----------'
 *
 * Never waits: the tier nudges the scheduler when bytes arrive, and the job looks again in that
 * turn. It gives up when computing the tokens would have been faster.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "sched/cuts.h"
#include "sched/sched_impl.h"

enum { PATIENCE_MIN_MS = 500, PATIENCE_MAX_MS = 30000 };

static struct cuts_shape shape_of(const struct hearth_object *object)
{
    struct cuts_shape shape;

    memset(&shape, 0, sizeof(shape));
    if (object->shape_bytes == sizeof(shape))
        memcpy(&shape, object->shape, sizeof(shape));
    return shape; /* a foreign shape has no kind, so no engine accepts it */
}

/* End of the tokens for which an object of the plan is used. */
static uint32_t use_end(const struct hearth_plan_info *info, size_t index)
{
    const struct hearth_object *next =
        index + 1 < info->objects_count ? &info->objects[index + 1] : NULL;

    return next != NULL && next->kind == info->objects[index].kind ? next->begin : info->boundary;
}

/* The longest boundary of the plan that an exact run may use. */
static uint32_t exact_limit(const struct job *job, const struct hearth_plan_info *info)
{
    for (size_t i = 0; i < info->objects_count; i++) {
        struct cuts_shape shape = shape_of(&info->objects[i]);
        uint32_t end = use_end(info, i), agreed = cuts_agreed(&shape, &job->schedule, end);
        if (agreed < end)
            return schedule_floor(&job->schedule, agreed);
    }
    return schedule_floor(&job->schedule, info->boundary);
}

static void lower(const struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);

    if (!job->sched->options.exact)
        return;
    for (uint32_t limit; (limit = exact_limit(job, info)) < info->boundary;)
        hearth_plan_lower(job->restore.plan, limit);
}

/* ---- fetching ---- */

static void drop_objects(struct job *job)
{
    mem_free(job->restore.objects);
    job->restore.objects = NULL;
    job->restore.objects_count = job->restore.fetched = 0;
}

void restore_drop(struct job *job)
{
    drop_objects(job);
    hearth_plan_release(&job->restore.plan);
}

/* Time limit for the bytes: no longer than computing would take. */
static void set_deadline(struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    double ms = info->compute_s * 1000;
    uint64_t patience = ms > PATIENCE_MAX_MS ? PATIENCE_MAX_MS : (uint64_t)(ms > 0 ? ms : 0);

    job->restore.deadline_ns =
        sched_now_ns(job->sched) + MAX(patience, PATIENCE_MIN_MS) * NS_PER_MS;
}

/* Starts fetching the plan as it is now. False: nothing is left of it. */
static bool begin(struct job *job)
{
    drop_objects(job);
    lower(job);
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    if (info->boundary == 0)
        return false;
    job->restore.objects = mem_try_alloc_array(info->objects_count, sizeof(*job->restore.objects));
    if (job->restore.objects == NULL)
        return false;
    job->restore.objects_count = info->objects_count;
    job->restore.begin_ns = sched_now_ns(job->sched);
    set_deadline(job);
    hearth_plan_prefetch(job->restore.plan);
    return true;
}

uint32_t restore_held(struct hearth_space *space, const token_id *tokens, uint32_t count)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};

    if (space == NULL || hearth_probe(space, tokens, count, &probe, NULL, 0) != HEARTH_OK)
        return 0;
    return probe.boundary;
}

uint32_t restore_peek(struct job *job)
{
    if (job->gen->cache.no_read || job->sched->options.exact)
        return 0;
    return restore_held(job->space, job->tokens, job->target);
}

static void note_plan(struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);

    if (job->started)
        return;
    job->usage.match = info->match;
    job->usage.reason = info->reason;
    job->usage.first_difference = info->first_difference;
    job->junction = info->junction;
    job->keep.hints.junction = info->junction;
}

/* On a thread of a tier: bytes have arrived, or failed to. */
static void on_ready(void *arg)
{
    ask_nudge(arg);
}

void restore_lookup(struct job *job)
{
    const struct hearth_lookup_options options = {
        .struct_size = sizeof(options),
        .request = job->id,
        .ready = on_ready,
        .ready_arg = job->sched,
    };

    restore_drop(job);
    if (!job->started)
        job->usage.reason = HEARTH_REASON_DISABLED;
    if (job->space == NULL || job->gen->cache.no_read ||
        hearth_lookup(job->space, job->tokens, job->target, &options, &job->restore.plan) !=
            HEARTH_OK)
        return;
    note_plan(job);
    if (!begin(job))
        note_plan(job);
}

/* ---- importing ---- */

static uint32_t *usage_of(struct job *job, enum hearth_tier tier)
{
    static const size_t fields[HEARTH_TIER_COUNT] = {
        [HEARTH_TIER_RAM] = offsetof(struct gen_usage, ram),
        [HEARTH_TIER_SSD] = offsetof(struct gen_usage, ssd),
        [HEARTH_TIER_REMOTE] = offsetof(struct gen_usage, remote),
    };

    return (uint32_t *)((char *)&job->usage + fields[tier]);
}

/* Tokens are credited to the tier that held their rows; without rows, to the snapshot's tier. */
static void count_tiers(struct job *job, const enum hearth_tier *tiers)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    uint32_t counted = 0;

    if (job->started)
        return;
    for (size_t i = 0; i < info->objects_count; i++) {
        const struct hearth_object *object = &info->objects[i];
        uint32_t end = object->kind == HEARTH_OBJECT_SNAPSHOT ? info->boundary : use_end(info, i);
        if (end <= counted)
            continue;
        *usage_of(job, tiers[i]) += end - counted;
        counted = end;
    }
}

static void measure_import(struct sched *sched, uint64_t bytes, uint64_t ns)
{
    double speed = ns > 0 ? (double)bytes * (double)NS_PER_S / (double)ns : 0;

    if (bytes < (1u << 20) || speed <= 0)
        return;
    sched->import_bytes_per_s =
        sched->import_bytes_per_s > 0 ? 0.8 * sched->import_bytes_per_s + 0.2 * speed : speed;
}

/* Rows in order, then the snapshot, if there is one. A whole sequence is passed as rows. */
static struct state_restore gather(const struct job *job)
{
    const struct state_object *last = &job->restore.objects[job->restore.objects_count - 1];
    bool snapshot = last->shape.kind == STATE_SNAPSHOT;

    return (struct state_restore){
        .rows = job->restore.objects,
        .rows_count = job->restore.objects_count - snapshot,
        .snapshot = snapshot ? last : NULL,
        .length = hearth_plan_info(job->restore.plan)->boundary,
    };
}

static enum err import(struct job *job, struct errinfo *info)
{
    assert(job->seq == SEQ_NONE && job->restore.fetched == job->restore.objects_count);
    struct state_restore restore = gather(job);
    uint64_t begin_ns = sched_now_ns(job->sched), bytes = 0;
    enum err err;

    for (size_t i = 0; i < job->restore.objects_count; i++)
        bytes += job->restore.objects[i].shape.bytes;
    device_make_room(job->sched, restore.length, NULL);
    while ((err = state_import(job->sched->engine, &restore, &job->seq, info)) == ERR_LIMIT)
        if (!device_reclaim(job->sched, NULL))
            break;
    uint64_t ns = sched_now_ns(job->sched) - begin_ns;
    job->times.import_ns += ns;
    if (err == ERR_OK)
        measure_import(job->sched, bytes, ns);
    lock_enter(&job->sched->lock);
    job->sched->stats.restore_ns += ns;
    lock_leave(&job->sched->lock);
    return err;
}

static void finish(struct job *job)
{
    const struct hearth_plan_info *plan = hearth_plan_info(job->restore.plan);
    enum hearth_tier *tiers = mem_try_alloc_array(plan->objects_count, sizeof(*tiers));
    struct errinfo info = {0};

    /* Tiers are read before the accept, which may move the objects. */
    for (size_t i = 0; tiers != NULL && i < plan->objects_count; i++)
        tiers[i] = plan->objects[i].tier;
    enum err err = tiers != NULL ? import(job, &info) : ERR_NOMEM;
    if (err == ERR_OK) {
        job->done = plan->boundary;
        note_plan(job);
        count_tiers(job, tiers);
        hearth_plan_accept(job->restore.plan);
        restore_drop(job);
    }
    mem_free(tiers);
    if (err == ERR_OK)
        return;
    log_text(job->sched->options.log, LOG_LEVEL_WARN, "cache",
             "%llu restore of %u tokens failed: %s", (unsigned long long)job->id, plan->boundary,
             info.text);
    /* The state is cached; only cells are short, because other jobs took them after admission. Wait
     * once for them rather than recompute; only once, or a permanently full device would starve the
     * job. */
    job->restore.needs_cells =
        err == ERR_LIMIT && !job->restore.waited_for_cells && !job_alone(job);
    if (job->restore.needs_cells) {
        job->restore.waited_for_cells = true;
        restore_drop(job);
        return;
    }
    /* Neither a lack of room nor a dead engine is the object's fault. */
    bool innocent = err == ERR_LIMIT || err == ERR_NOMEM || !engine_alive(job->sched->engine);
    hearth_plan_shorten(job->restore.plan, job->restore.objects_count - 1,
                        innocent ? HEARTH_REASON_TIER_ERROR : HEARTH_REASON_REFUSED);
    begin(job);
}

/* ---- polling ---- */

/* Since the plan was made; verifying is counted separately. */
static void count_fetch(struct job *job)
{
    job->times.fetch_ns += sched_now_ns(job->sched) - job->restore.begin_ns;
}

static bool verify(struct job *job, struct state_object *object)
{
    uint64_t begin_ns = sched_now_ns(job->sched);
    bool good = state_check(job->sched->engine, object, NULL) == ERR_OK;
    uint64_t ns = sched_now_ns(job->sched) - begin_ns;

    job->times.verify_ns += ns;
    job->restore.begin_ns += ns; /* not a part of the fetch */
    return good;
}

static void give_up(struct job *job, size_t index, enum hearth_reason why)
{
    count_fetch(job);
    hearth_plan_shorten(job->restore.plan, index, why);
    begin(job);
}

/* Takes the next object if it has arrived. False: nothing more can be done now. */
static bool fetch_next(struct job *job)
{
    size_t index = job->restore.fetched;
    struct state_object *object = &job->restore.objects[index];
    int error = hearth_plan_fetch(job->restore.plan, index, 0, &object->data);

    if (error == HEARTH_ERROR_TIMEOUT && sched_now_ns(job->sched) < job->restore.deadline_ns)
        return false;
    if (error != HEARTH_OK) {
        give_up(job, index,
                error == HEARTH_ERROR_TIMEOUT ? HEARTH_REASON_TIMEOUT : HEARTH_REASON_NONE);
        return true;
    }
    object->shape = shape_of(&hearth_plan_info(job->restore.plan)->objects[index]).state;
    object->verified = false;
    if (!verify(job, object)) {
        give_up(job, index, HEARTH_REASON_UNVERIFIED);
        return true;
    }
    object->verified = true;
    faults_spoil(job, object);
    job->restore.fetched++;
    return true;
}

enum step restore_poll(struct job *job)
{
    while (job->restore.objects != NULL) {
        if (job->restore.fetched == job->restore.objects_count) {
            count_fetch(job);
            finish(job);
            if (job->seq != SEQ_NONE)
                return STEP_MORE;
        } else if (!fetch_next(job)) {
            return STEP_PARKED;
        }
    }
    if (job->restore.plan != NULL)
        note_plan(job);
    restore_drop(job);
    return STEP_MORE;
}
