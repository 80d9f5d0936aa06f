/*
 * restore.c: from a plan of the cache to a sequence of the engine. All or nothing: a request gets
 * its sequence only after every object was fetched, verified and imported. Any failure shortens the
 * plan, down to a cold start.
 *
 *      lookup -> lower to what may be used -> [ fetch -> verify -> import ]* -> accept
 *                     ^------------ shorten <--'---------'---------'
 *
 * The three overlap: while an object is imported, threads verify the next ones (state_digest.h) and
 * tiers read those after them. Between two imports other jobs get their turn.
 *
 * The engine's thread never blocks here: tiers and verifying threads nudge the scheduler, and the
 * job continues in that turn. It stops reading when computing the tokens would be faster.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "sched/cuts.h"
#include "sched/sched_impl.h"

enum {
    /* bounds of the time after which the job stops reading */
    PATIENCE_MIN_MS = 500,
    PATIENCE_MAX_MS = 30000,
    IMPORT_MS = 10,               /* of imports in one turn, of all jobs, while others run */
    MEASURED_BYTES_MIN = 1 << 20, /* less says nothing about the speed of a transfer */
};

/* Bytes per second, before anything was exported or imported: faster than most machines are, so that
 * only hopeless plans are refused, such as all of a large object for a few tokens. */
static const double import_guess = 32e9;

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

/* The longest boundary of the plan that the job may use. */
static uint32_t limit_of(const struct job *job, const struct hearth_plan_info *info)
{
    if (!job->sched->options.exact)
        return picture_floor(job->tokens, job->count, info->boundary);
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

    for (uint32_t limit; (limit = limit_of(job, info)) < info->boundary;)
        hearth_plan_lower(job->restore.plan, limit);
}

/* ---- a plan and its objects ---- */

void restore_stop_verifying(struct job *job)
{
    for (size_t i = 0; i < job->restore.objects_count; i++)
        state_digest_cancel(&job->restore.tasks[i]);
}

static void drop_objects(struct job *job)
{
    struct job_restore *restore = &job->restore;

    restore_stop_verifying(job);
    mem_free(restore->objects);
    mem_free(restore->tasks);
    restore->objects = NULL;
    restore->tasks = NULL;
    restore->objects_count = restore->fetched = restore->verified = restore->imported = 0;
    restore->front = 0;
}

void restore_drop(struct job *job)
{
    engine_seq_release(job->sched->engine, &job->restore.seq);
    drop_objects(job);
    hearth_plan_release(&job->restore.plan);
}

void restore_uncredit(struct job *job)
{
    if (!job->started)
        job->usage.device = job->usage.ram = job->usage.ssd = job->usage.remote = 0;
}

void restore_lose(struct job *job)
{
    struct job_restore *restore = &job->restore;

    engine_seq_release(job->sched->engine, &restore->seq);
    restore->imported = 0;
    if (restore->front == 0)
        return;
    /* A part was computed instead of fetched: begin at the first object again. */
    restore_stop_verifying(job);
    restore->fetched = restore->verified = restore->front = 0;
    hearth_plan_skip(restore->plan, 0, 0);
    restore_uncredit(job);
}

uint32_t restore_done(const struct job *job)
{
    return job->restore.seq == SEQ_NONE ? 0
                                        : engine_seq_length(job->sched->engine, job->restore.seq);
}

/* Called once per lookup: reads together may take as long as computing what they bring. A plan that
 * is shortened gets no more time, or tiers that hang would be waited for one after the other. */
static void set_deadline(struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    size_t first = 0;

    while (first < info->objects_count && info->objects[first].tier == HEARTH_TIER_RAM)
        first++;
    uint32_t here = first < info->objects_count ? info->objects[first].begin : info->boundary;
    double ms = cost_ns(&job->sched->cost, here, info->boundary) / (double)NS_PER_MS;
    uint64_t patience = ms > 0 && ms < PATIENCE_MAX_MS ? (uint64_t)ms : PATIENCE_MAX_MS;

    job->restore.deadline_ns =
        sched_now_ns(job->sched) + MAX(patience, PATIENCE_MIN_MS) * NS_PER_MS;
}

/* Objects that this plan has in common with the start of an earlier one stay verified and
 * imported. */
static void take_over(struct job *job, const struct job_restore *old)
{
    struct job_restore *restore = &job->restore;
    size_t same = 0;

    while (same < MIN(old->objects_count, restore->objects_count) &&
           memcmp(&old->objects[same].shape, &restore->objects[same].shape,
                  sizeof(old->objects[same].shape)) == 0) {
        restore->objects[same].data = old->objects[same].data;
        restore->objects[same].verified = old->objects[same].verified;
        same++;
    }
    restore->imported = old->imported;
    const struct hearth_plan_info *info = hearth_plan_info(restore->plan);
    if (old->imported > 0 &&
        (old->imported > same || restore_done(job) != use_end(info, old->imported - 1))) {
        engine_seq_release(job->sched->engine, &restore->seq);
        restore->imported = 0;
    }
    restore->fetched = restore->verified = restore->imported;
}

static bool make_objects(struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    struct job_restore *restore = &job->restore;

    restore->objects = mem_try_alloc_array(info->objects_count, sizeof(*restore->objects));
    restore->tasks = mem_try_alloc_array(info->objects_count, sizeof(*restore->tasks));
    if (restore->objects == NULL || restore->tasks == NULL) {
        drop_objects(job);
        return false;
    }
    restore->objects_count = info->objects_count;
    for (size_t i = 0; i < info->objects_count; i++) {
        restore->objects[i] = (struct state_object){shape_of(&info->objects[i]).state, NULL, false};
        restore->tasks[i] = NULL;
    }
    return true;
}

/* Starts fetching the plan as it is now. False: nothing is left of it. */
static bool begin(struct job *job)
{
    struct job_restore *restore = &job->restore, old;

    if (restore->front > 0) /* a part was computed: import the new plan from its start */
        restore_lose(job);
    restore_uncredit(job);
    restore_stop_verifying(job);
    old = *restore;
    restore->objects = NULL;
    restore->tasks = NULL;
    restore->objects_count = restore->fetched = restore->verified = restore->imported = 0;
    lower(job);
    bool some = hearth_plan_info(restore->plan)->boundary > 0 && make_objects(job);
    if (some) {
        take_over(job, &old);
        restore->left_ns = 0;
        restore->begin_ns = sched_now_ns(job->sched);
        restore->pays = beside_pays(job);
        if (restore->pays)
            beside_read(job);
        else
            hearth_plan_prefetch(restore->plan);
    } else {
        engine_seq_release(job->sched->engine, &restore->seq);
    }
    mem_free(old.objects);
    mem_free(old.tasks);
    return some;
}

uint32_t restore_cached(struct hearth_space *space, const token_id *tokens, uint32_t count)
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
    return restore_cached(job->space, job->tokens, job->count);
}

static void note_plan(struct job *job)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);

    if (job->started)
        return;
    job->usage.match = info->match;
    job->usage.reason = info->reason;
    /* of the last token nothing is cached: it is computed anyway, and does not differ */
    bool all = info->match == HEARTH_MATCH_EXACT && info->first_difference + 1 == job->count;
    job->usage.first_difference = all ? job->count : info->first_difference;
    job->forks.evicted = info->snapshot_evicted;
    job->junction = info->junction;
    job->keep.hints.junction = info->junction;
}

/* On a thread of a tier: bytes have arrived, or failed to. */
static void on_ready(void *arg)
{
    ask_nudge(arg);
}

double restore_speed(const struct sched *sched)
{
    double byte_ns = line_each(&sched->store_cost.rows); /* often all have one size */

    return sched->import_bytes_per_s > 0 ? sched->import_bytes_per_s
           : byte_ns > 0                 ? NS_PER_S / byte_ns
                                         : 0;
}

static double expected_import_speed(const struct sched *sched)
{
    double speed = restore_speed(sched);

    return speed > 0 ? speed : import_guess;
}

/* To the cache, which compares fetching with computing. */
static void tell_speeds(const struct job *job)
{
    const struct sched *sched = job->sched;
    double token_ns = sched->cost.ns[COST_TOKEN], depth_ns = sched->cost.ns[COST_DEPTH];

    hearth_space_set_speed(job->space, token_ns > 0 ? NS_PER_S / token_ns : 0,
                           expected_import_speed(sched));
    hearth_space_set_depth(job->space, depth_ns / (double)NS_PER_S);
}

/* A plan was not worth it. If that happens often and it nearly was, one is tried again: the speed
 * may be better than when it was measured. */
static void doubt_import_speed(struct sched *sched, const struct hearth_plan_info *plan)
{
    if (plan->reason == HEARTH_REASON_CHEAPER && plan->boundary == 0 &&
        plan->fetch_s < 4 * plan->compute_s)
        sched->import_bytes_per_s *= 1.05;
}

void restore_lookup(struct job *job)
{
    const struct hearth_lookup_options options = {
        .struct_size = sizeof(options),
        .request = job->id,
        .ready = on_ready,
        .ready_arg = job->sched,
        .search_failed = job->gen->cache.search_failed,
    };

    restore_drop(job);
    if (!job->started)
        job->usage.reason = HEARTH_REASON_DISABLED;
    if (job->space == NULL || job->gen->cache.no_read)
        return;
    tell_speeds(job);
    if (hearth_lookup(job->space, job->tokens, job->count, &options, &job->restore.plan) !=
        HEARTH_OK)
        return;
    faults_shorten(job);
    note_plan(job);
    set_deadline(job);
    job->restore.store_failed = false;
    doubt_import_speed(job->sched, hearth_plan_info(job->restore.plan));
    if (!begin(job))
        note_plan(job);
}

/* ---- fetching and verifying ---- */

static bool is_remote(const struct job *job, size_t index)
{
    return hearth_plan_info(job->restore.plan)->objects[index].tier == HEARTH_TIER_REMOTE;
}

static void give_up(struct job *job, size_t index, enum hearth_reason why)
{
    bool remote = is_remote(job, index);

    restore_stop_verifying(job); /* shortening ends the leases of what is read */
    hearth_plan_shorten(job->restore.plan, index, why);
    why = hearth_plan_info(job->restore.plan)->reason;
    job->restore.store_failed |=
        remote && (why == HEARTH_REASON_TIMEOUT || why == HEARTH_REASON_TIER_ERROR);
    begin(job);
}

/* A shape that claims other bytes than the cache has must not be hashed. */
static bool has_bytes(const struct job *job, size_t index)
{
    return job->restore.objects[index].shape.bytes ==
           hearth_plan_info(job->restore.plan)->objects[index].bytes;
}

void restore_verify(struct job *job, size_t index, const void *data)
{
    struct state_object *object = &job->restore.objects[index];

    object->verified = object->verified && object->data == data;
    object->data = data;
    if (!object->verified && has_bytes(job, index))
        job->restore.tasks[index] = state_digest_start(&object->shape, data, on_ready, job->sched);
}

/* Measures the slow tier that had the most to read, once all objects have arrived. A disk says
 * nothing about a network. */
static void measure_reads(struct job *job)
{
    uint64_t ssd = beside_bytes(job, HEARTH_TIER_SSD);
    uint64_t remote = beside_bytes(job, HEARTH_TIER_REMOTE);
    enum hearth_tier tier = remote > ssd ? HEARTH_TIER_REMOTE : HEARTH_TIER_SSD;

    if (MAX(ssd, remote) >= MEASURED_BYTES_MIN)
        sched_learn_speed(&job->sched->read_bytes_per_s[tier], MAX(ssd, remote),
                          sched_now_ns(job->sched) - job->restore.begin_ns);
}

/* Takes the next object if it has arrived. False: nothing more can be done now. */
static bool fetch_next(struct job *job)
{
    size_t index = job->restore.fetched;
    const void *data;

    if (index == job->restore.objects_count)
        return false;
    int error = hearth_plan_fetch(job->restore.plan, index, 0, &data);
    bool late = sched_now_ns(job->sched) >= job->restore.deadline_ns ||
                (job->restore.store_failed && is_remote(job, index));
    if (error == HEARTH_ERROR_TIMEOUT && !late)
        return false;
    if (error != HEARTH_OK) {
        give_up(job, index,
                error == HEARTH_ERROR_TIMEOUT ? HEARTH_REASON_TIMEOUT : HEARTH_REASON_NONE);
        return true;
    }
    restore_verify(job, index, data);
    if (++job->restore.fetched == job->restore.objects_count)
        measure_reads(job);
    return true;
}

enum restore_verdict restore_verdict(struct job *job, size_t index)
{
    struct job_restore *restore = &job->restore;
    struct state_object *object = &restore->objects[index];

    if (!has_bytes(job, index))
        return RESTORE_BAD;
    if (!object->verified && !state_digest_ready(restore->tasks[index]))
        return RESTORE_UNKNOWN;
    if (!object->verified) {
        struct hash128 digest = state_digest_finish(&restore->tasks[index]);
        object->verified = hash128_eq(&digest, &object->shape.digest);
        faults_spoil(job, object);
    }
    /* With the flag set this checks the shape alone. */
    return object->verified && state_check(job->sched->engine, object, NULL) == ERR_OK
               ? RESTORE_GOOD
               : RESTORE_BAD;
}

/* Takes the verdict on the next object if there is one. False: nothing more can be done now. */
static bool verify_next(struct job *job)
{
    struct job_restore *restore = &job->restore;
    enum restore_verdict verdict = restore->verified < restore->fetched
                                       ? restore_verdict(job, restore->verified)
                                       : RESTORE_UNKNOWN;

    if (verdict == RESTORE_GOOD)
        restore->verified++;
    else if (verdict == RESTORE_BAD)
        give_up(job, restore->verified, HEARTH_REASON_UNVERIFIED);
    return verdict != RESTORE_UNKNOWN;
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
void restore_credit(struct job *job, size_t first, size_t end)
{
    const struct hearth_plan_info *info = hearth_plan_info(job->restore.plan);
    uint32_t counted = first < end ? info->objects[first].begin : 0;

    if (job->started)
        return;
    for (size_t i = first; i < end; i++) {
        const struct hearth_object *object = &info->objects[i];
        uint32_t to = object->kind == HEARTH_OBJECT_SNAPSHOT ? info->boundary : use_end(info, i);
        if (to <= counted)
            continue;
        *usage_of(job, object->tier) += to - counted;
        counted = to;
    }
}

static void measure_import(struct sched *sched, uint64_t bytes, uint64_t ns)
{
    if (bytes < MEASURED_BYTES_MIN)
        return;
    if (sched->import_bytes_per_s == 0)
        sched->import_bytes_per_s = expected_import_speed(sched);
    sched_learn_speed(&sched->import_bytes_per_s, bytes, ns);
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
        .tokens = job->tokens,
    };
}

static enum err import_object(struct job *job, const struct state_restore *restore, size_t index,
                              struct errinfo *info)
{
    struct engine *engine = job->sched->engine;
    seq_id *seq = &job->restore.seq;

    if (*seq == SEQ_NONE)
        TRY(state_import_begin(engine, restore, seq, info));
    return state_import_object(engine, restore, index, seq, info);
}

/* Imports the next object. Evicts residents if there is no room. */
static enum err import(struct job *job, struct errinfo *info)
{
    struct sched *sched = job->sched;
    size_t index = job->restore.imported;
    struct state_restore restore = gather(job);
    uint64_t begin_ns = sched_now_ns(sched);
    enum err err;

    assert(job->seq == SEQ_NONE && index < job->restore.verified);
    if (index == 0)
        device_make_room(sched, restore.length, NULL);
    while ((err = import_object(job, &restore, index, info)) == ERR_LIMIT)
        if (!device_reclaim(sched, NULL))
            break;
    uint64_t ns = sched_now_ns(sched) - begin_ns;
    job->times.import_ns += ns;
    sched->turn_import_ns += ns;
    job->restore.last_import = ++sched->imports;
    if (err == ERR_OK) {
        job->restore.imported++;
        measure_import(sched, job->restore.objects[index].shape.bytes, ns);
    }
    sched_count(sched, &sched->stats.restore_ns, ns);
    return err;
}

static void import_failed(struct job *job, enum err err, const struct errinfo *info)
{
    uint32_t boundary = hearth_plan_info(job->restore.plan)->boundary;

    log_text(job->sched->options.log, LOG_LEVEL_WARN, "cache",
             "%llu restore of %u tokens failed: %s", (unsigned long long)job->id, boundary,
             info->text);
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
    size_t last = job->restore.objects_count - 1, index = MIN(job->restore.imported, last);
    if (job->restore.seq == SEQ_NONE && err != ERR_ENGINE)
        index = last; /* not even begun: no single object is to blame */
    restore_lose(job);
    give_up(job, index, innocent ? HEARTH_REASON_TIER_ERROR : HEARTH_REASON_REFUSED);
}

/* Everything is imported. */
static void finish(struct job *job)
{
    const struct hearth_plan_info *plan = hearth_plan_info(job->restore.plan);

    job->seq = job->restore.seq;
    job->restore.seq = SEQ_NONE;
    job->done = plan->boundary;
    note_plan(job);
    restore_credit(job, job->restore.front, job->restore.objects_count);
    hearth_plan_accept(job->restore.plan);
    restore_drop(job);
}

/* Of a plan that was shortened meanwhile. */
static bool has_all(const struct job *job)
{
    return job->restore.imported == job->restore.objects_count;
}

static bool can_import(const struct job *job)
{
    return job->restore.imported < job->restore.verified;
}

/* Imports the next object; after the last one, ends the import. */
static void import_next(struct job *job)
{
    struct errinfo info = {0};

    bool all = has_all(job);
    enum err err = all ? ERR_OK : import(job, &info);
    if (err == ERR_OK && job->restore.imported < job->restore.objects_count)
        return;
    struct state_restore restore = gather(job);
    if (err == ERR_OK)
        err = state_import_end(job->sched->engine, &restore, &job->restore.seq, &info);
    if (err == ERR_OK)
        finish(job);
    else
        import_failed(job, err, &info);
}

/* ---- polling ---- */

/* The time since the last poll was spent waiting: for bytes, or else for their verification. */
static void count_wait(struct job *job)
{
    struct job_restore *restore = &job->restore;

    if (restore->left_ns == 0)
        return;
    uint64_t ns = sched_now_ns(job->sched) - restore->left_ns;
    if (restore->verified < restore->fetched)
        job->times.verify_ns += ns;
    else
        job->times.fetch_ns += ns;
    restore->left_ns = 0;
}

static bool others_run(const struct sched *sched)
{
    LIST_FOREACH (struct job, other, &sched->jobs, link) {
        if (other->phase == GEN_PREFILL || other->phase == GEN_DECODE)
            return true;
    }
    return false;
}

/* Of the jobs that can import, the one that has waited longest for a turn. A new one goes first: it
 * may be short. */
static const struct job *next_to_import(const struct sched *sched)
{
    const struct job *next = NULL;

    LIST_FOREACH (const struct job, job, &sched->jobs, link) {
        if (job->phase == GEN_RESTORE && can_import(job) &&
            (next == NULL || job->restore.last_import < next->restore.last_import))
            next = job;
    }
    return next;
}

/* Whether other jobs come first now. All restores together take IMPORT_MS of a turn, so that their
 * number does not slow down answers. After the last import of a job comes its prefill, in the same
 * turn, so that one does not begin late. */
static bool must_pause(const struct job *job)
{
    const struct sched *sched = job->sched;
    bool last = job->restore.imported + 1 == job->restore.objects_count;
    uint64_t most_ns = IMPORT_MS * NS_PER_MS / (last ? 2 : 1);

    if (!can_import(job) || !others_run(sched))
        return false;
    return sched->turn_import_ns == 0 ? job != next_to_import(sched)
                                      : sched->turn_import_ns >= most_ns;
}

/* Takes all that has arrived, and all verdicts. False: there was nothing to take. */
static bool take_arrived(struct job *job)
{
    bool taken = false;

    while (job->restore.objects != NULL && fetch_next(job))
        taken = true;
    while (job->restore.objects != NULL && verify_next(job))
        taken = true;
    return taken;
}

enum step restore_poll(struct job *job)
{
    struct job_restore *restore = &job->restore;

    count_wait(job);
    for (;;) {
        bool taken = take_arrived(job);
        if (restore->objects == NULL)
            break;
        restore->paused = must_pause(job);
        if (restore->paused)
            return STEP_PARKED;
        if (can_import(job) || has_all(job)) {
            import_next(job);
        } else if (!taken) {
            if (beside_begin(job))
                return STEP_MORE;
            restore->left_ns = sched_now_ns(job->sched);
            return STEP_PARKED;
        }
        if (job->seq != SEQ_NONE)
            return STEP_MORE;
    }
    if (restore->plan != NULL)
        note_plan(job);
    restore_drop(job);
    return STEP_MORE;
}
