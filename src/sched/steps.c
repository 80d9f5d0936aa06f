/*
 * steps.c: the step table: one function per phase of a job, which does what is possible now and
 * returns what the job waits for.
 *
 *      QUEUED -> LOOKUP -> RESTORE -> PREFILL -> DECODE -> (end)
 *                  |  ^        '--- shorter plans, down to a cold start
 *                  v  |
 *                DEFERRED: no cells, or another job computes the missing prefix
 *
 * batch.c executes PREFILL and DECODE for many jobs at once; here they only report that they are
 * ready.
 */
#include <assert.h>

#include "sched/sched_impl.h"

enum { OPENING_TOKENS = 16 }; /* of a message: its role, as templates write it */

/* ---- the end ---- */

bool sched_is_miss(enum hearth_reason reason)
{
    return reason != HEARTH_REASON_NONE && reason != HEARTH_REASON_SHORT;
}

/* Tokens that were matched but are computed. Evicted state was given up for lack of room, and a
 * request may ask not to use the cache: neither breaks a promise. */
static uint32_t count_twice(const struct gen_usage *usage)
{
    uint32_t known = MIN(usage->first_difference, MAX(usage->prompt, 1) - 1);
    uint32_t reused = gen_usage_reused(usage);
    bool promised =
        usage->reason != HEARTH_REASON_EVICTED && usage->reason != HEARTH_REASON_DISABLED;

    return promised && known > reused ? known - reused : 0;
}

/* Only what was computed of a prompt counts. */
static void cut_usage(struct job *job)
{
    struct gen_usage *usage = &job->usage;
    uint32_t reused = gen_usage_reused(usage), twice = count_twice(usage);
    uint32_t end = MAX(reused, MIN(MAX(job->done, job->reached), usage->prompt));

    usage->cut = usage->prompt - end;
    usage->prompt = end;
    usage->computed = end - reused;
    usage->twice -= twice - count_twice(usage);
}

/* Tokens that were matched have the reason why they were not reused. Those after them diverged, or
 * are new. */
static void count_miss(struct sched_stats *stats, const struct gen_usage *usage)
{
    uint32_t matched = count_twice(usage);

    stats->miss_by_reason[usage->reason]++;
    stats->miss_tokens[usage->reason] += matched > 0 ? matched : usage->computed;
    if (matched > 0 && usage->match != HEARTH_MATCH_PREFIX)
        stats->miss_tokens[HEARTH_REASON_DIVERGED] += usage->computed - matched;
}

static void count_prompt(struct sched_stats *stats, const struct gen_usage *usage)
{
    stats->tokens_prompt += usage->prompt;
    stats->tokens_device += usage->device;
    stats->tokens_ram += usage->ram;
    stats->tokens_ssd += usage->ssd;
    stats->tokens_remote += usage->remote;
    stats->tokens_computed += usage->computed;
    stats->tokens_twice += count_twice(usage);
    if (sched_is_miss(usage->reason) && !usage->new_conversation)
        count_miss(stats, usage);
}

static void count_end(struct job *job, enum gen_end end)
{
    struct sched *sched = job->sched;
    struct sched_stats *stats = &sched->stats;

    lock_enter(&sched->lock);
    if (job->started) {
        cut_usage(job);
        count_prompt(stats, &job->usage);
    }
    stats->finished += end != GEN_END_CANCELLED && end != GEN_END_ERROR;
    stats->cancelled += end == GEN_END_CANCELLED;
    stats->failed += end == GEN_END_ERROR;
    stats->tokens_generated += job->usage.generated;
    lock_leave(&sched->lock);
}

static void notify_sink(struct job *job, enum gen_end end, enum err err, const struct errinfo *info)
{
    struct gen_result *result = &job->result;
    struct gen *gen = job->gen;

    result->end = end;
    if (end == GEN_END_ERROR) {
        err_set(&result->info, err, "%s", info != NULL ? info->text : err_sentence(err));
        result->info.retry_s = info != NULL ? info->retry_s : 0;
    }
    /* Running out of memory for half a character must not fail the job now. */
    buf_clear(&job->text);
    result->tail =
        detok_finish(&job->detok, &job->text) == ERR_OK ? buf_text(&job->text) : STR_NONE;
    job->times.ended = sched_now_ns(job->sched);
    if (job->started) /* a job that never started used no source */
        result->usage = job->usage;
    result->times = job->times;
    result->tokens = job->tokens + job->prompt;
    result->tokens_count = job->count - job->prompt;
    result->seed = job->sampler != NULL ? sampler_seed(job->sampler) : 0;
    result->vector = end == GEN_END_STOP ? job->vector : NULL;
    if (end == GEN_END_STOP || end == GEN_END_SINK)
        job->keep.hints.ending = gen->calls_tool ? HEARTH_ENDING_CALL : HEARTH_ENDING_TEXT;
    job->gen = NULL;
    gen->sink.done(gen->sink.arg, result);
}

void job_release_followers(struct job *job)
{
    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (other->wait.leader == job)
            other->wait.leader = NULL;
    }
}

void job_end(struct job *job, enum gen_end end, enum err err, const struct errinfo *info)
{
    struct sched *sched = job->sched;
    bool broken = end == GEN_END_ERROR;
    struct errinfo died = {0};

    job_set_phase(job, end == GEN_END_CANCELLED ? GEN_CANCELLED
                       : broken                 ? GEN_FAILED
                                                : GEN_FINISHED);
    count_end(job, end);
    batch_end_bar(job, false);
    waiting_leave(job);
    if (!broken)
        save_mark(job);
    notify_sink(job, end, err, broken && revive_explain(job, err, &died) ? &died : info);
    restore_drop(job);
    job_release_followers(job);
    sched->epoch++;
    if (job->seq != SEQ_NONE)
        ladder_ended(sched);
    draft_destroy(&job->draft); /* the state may be stored much later */
    drafter_leave(&job->drafter, job->tokens, job->count);
    bool keep = job->seq != SEQ_NONE && !broken && drafts_end(job) && faults_keep(job, end);
    if (keep && job->vector == NULL && device_park(job))
        return;
    if (keep)
        retain_all(job, STORE_ANY_PRICE);
    save_unmark(job);
    engine_seq_release(sched->engine, &job->seq);
    job_unlist(job);
    job_free(job);
}

void job_give_up(struct job *job, enum err err, const struct errinfo *info)
{
    if (job->seq != SEQ_NONE)
        retain_all(job, STORE_ANY_PRICE);
    job_end(job, GEN_END_ERROR, err, info);
}

/* ---- admission ---- */

static void log_route(const struct job *job)
{
    const struct sched *sched = job->sched;
    bool exact = sched->options.exact;
    char kinds[64];

    log_text(sched->options.log, LOG_LEVEL_DEBUG, "route",
             "%llu model=%s route=%s reason=%s kinds=%s", (unsigned long long)job->id,
             sched->options.model, exact ? "single" : "continuous", exact ? "exact" : "batch",
             kind_set_names(sched->facts->kinds, kinds, sizeof(kinds)));
}

static enum step step_queued(struct job *job)
{
    if (!job->active)
        return STEP_PARKED;
    if (job->waiting != NULL) {
        waiting_leave(job);
        job->times.admitted = sched_now_ns(job->sched);
        again_submitted(&job->sched->again, job->space, job->tokens, job->count);
        again_crowd(&job->sched->again,
                    job->sched->active +
                        atomic_load_explicit(&job->sched->waiting, memory_order_relaxed));
        log_route(job);
    }
    job_set_phase(job, GEN_LOOKUP);
    return STEP_MORE;
}

/* Cells that the job will still take, as promised at admission. */
static uint32_t claim_of(const struct job *job)
{
    uint32_t all = MIN(job->room, job->count + SCHED_RESERVE);
    uint32_t taken = MAX(job->done, restore_done(job));

    return all > taken ? all - taken : 0;
}

/* On the device, or about to be. Jobs being restored count as well: they were promised cells at
 * admission. */
static bool runs_beside(const struct job *other, const struct job *job)
{
    return other != job && other->active && (other->seq != SEQ_NONE || other->phase == GEN_RESTORE);
}

static uint32_t claimed_by_others(const struct job *job)
{
    uint32_t sum = 0;

    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (runs_beside(other, job))
            sum += claim_of(other);
    }
    return sum;
}

bool job_alone(const struct job *job)
{
    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (runs_beside(other, job))
            return false;
    }
    return true;
}

/* Whether there are enough cells; the match contributes some. Evicts residents for the job, except
 * the one it continues from. */
static bool fits(struct job *job, const struct device_match *match)
{
    uint32_t need = MIN(job->room, job->count + SCHED_RESERVE) - match->length;
    uint32_t others = claimed_by_others(job);

    if (device_make_room(job->sched, need + others, match->resident))
        return true;
    return job_alone(job) && engine_cells_free(job->sched->engine) > job->count - match->length;
}

/* Whether the job can start now: from the device as given by `match`, or from the cache if that
 * holds more. Restored state shares no cells, so a match contributes nothing in that case. A job
 * admitted for cells that it does not get would be preempted by the next batch and admitted again,
 * forever. If only the match fits, it is used although the cache holds more. *match is empty for a
 * start from the cache. */
static bool has_room(struct job *job, struct device_match *match, uint32_t held)
{
    const struct device_match none = {.resident = match->resident, .shared = match->shared};
    bool restores = held > match->length || match->length == 0;

    if (restores && fits(job, &none)) {
        *match = (struct device_match){.shared = match->shared};
        return true;
    }
    if (match->length > 0 && fits(job, match))
        return true;
    if (match->resident == NULL)
        return false;
    /* The match may yield only a few tokens and occupy the cells for the rest: then evict it as
     * well. The cache has its state. */
    *match = (struct device_match){.shared = match->shared};
    return fits(job, match);
}

/* Claims the job's memory under the ceiling; `cached` tokens need not be computed. */
static enum guard_verdict claim_memory(struct job *job, uint32_t cached)
{
    struct sched *sched = job->sched;
    uint32_t answer = MIN(job->room - job->count, SCHED_RESERVE);
    struct guard_need need = memory_need(sched->memory, cached, job->count - cached, answer);
    enum guard_verdict verdict = memory_claim(sched->memory, &need);

    assert(!job->memory.claimed);
    job->memory.claimed = verdict == GUARD_ADMIT && sched->memory != NULL;
    job->memory.claim = need.claim;
    return verdict;
}

/* Another tenant has more than its share: preempts one of its jobs for this one. */
static bool make_way(struct job *job)
{
    struct job *victim = fair_victim(job);

    if (victim == NULL)
        return false;
    job_put_back(victim);
    return true;
}

static enum step defer(struct job *job)
{
    job_unclaim(job);
    job->restore.needs_cells = false;
    job->wait.epoch = job->sched->epoch;
    job->wait.memory_epoch = memory_epoch(job->sched->memory);
    job_set_phase(job, GEN_DEFERRED);
    return STEP_PARKED;
}

/* Whether the reason for deferring the job may be gone. */
static bool may_go_on(const struct job *job)
{
    if (job->wait.leader != NULL)
        return job->wait.leader->done >= job->wait.until;
    return job->wait.epoch != job->sched->epoch ||
           job->wait.memory_epoch != memory_epoch(job->sched->memory);
}

/* The deadline is for reads. Once all bytes have arrived, only the threads that verify them can let
 * the job continue, and they nudge the scheduler. */
static uint64_t restore_sleep_ns(const struct job_restore *restore, uint64_t now_ns)
{
    if (restore->paused)
        return 0;
    if (restore->fetched == restore->objects_count && restore->verified < restore->fetched)
        return UINT64_MAX;
    return restore->deadline_ns > now_ns ? restore->deadline_ns - now_ns : 0;
}

uint64_t job_sleep_ns(const struct job *job)
{
    switch (job->phase) {
    case GEN_QUEUED: /* until a place is free: another job's end, which takes a turn */
        return UINT64_MAX;
    case GEN_DEFERRED:
        if (may_go_on(job))
            return 0;
        return job->wait.leader == NULL && job->sched->memory != NULL ? SCHED_MEMORY_MS * NS_PER_MS
                                                                      : UINT64_MAX;
    case GEN_RESTORE:
        return restore_sleep_ns(&job->restore, sched_now_ns(job->sched));
    default:
        return 0;
    }
}

static enum step step_deferred(struct job *job)
{
    if (!may_go_on(job))
        return STEP_PARKED;
    job->wait.leader = NULL;
    job_set_phase(job, GEN_LOOKUP);
    return STEP_MORE;
}

/* ---- where to begin ---- */

/* Cuts of this prompt in addition to the grid. Exact: its semantic boundaries, which depend on the
 * prompt alone. Otherwise: only where a snapshot will be needed. */
static size_t collect_marks(struct job *job)
{
    const struct gen *gen = job->gen;
    const struct sched *sched = job->sched;
    size_t count = 0;

    if (job->lora.from < job->prompt) /* other adapters compute what follows */
        job->marks[count++] = job->lora.from;
    if (sched->options.exact) {
        for (size_t i = 0; i < gen->marks_count; i++)
            job->marks[count++] = gen->marks[i].at;
        return count + forks_exact_cuts(job, job->marks + count);
    }
    if (sched->cuttable)
        return count;
    for (size_t i = 0; i < gen->cache.breakpoints_count; i++)
        job->marks[count++] = gen->cache.breakpoints[i];
    job->marks[count++] = gen->anchor;
    job->marks[count++] = gen->last_user;
    job->marks[count++] = gen->transient;
    job->marks[count++] = job->junction;
    for (size_t i = 0; i < job->forks.chosen_count; i++)
        job->marks[count++] = job->forks.chosen[i];
    return count;
}

static void sort_marks(uint32_t *marks, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t mark = marks[i];
        size_t at = i;
        for (; at > 0 && marks[at - 1] > mark; at--)
            marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

static void make_schedule(struct job *job)
{
    size_t count = collect_marks(job);

    sort_marks(job->marks, count);
    job->schedule = (struct schedule){
        .count = job->count,
        .grid = job->sched->facts->chunk,
        .marks = job->marks,
        .marks_count = count,
        .runs = job->runs,
        .runs_count = job->runs_count,
    };
}

/* A preempted job computes tokens again that it had computed already. */
static void count_again(struct job *job, uint32_t tokens)
{
    job->usage.twice += tokens;
    sched_count(job->sched, &job->sched->stats.tokens_twice, tokens);
}

/* Whether the prompt has in common with others at most what comes before the first question, and
 * the beginning of that. */
static bool is_new_conversation(const struct job *job)
{
    const struct gen *gen = job->gen;
    const struct mark *user = NULL, *next = NULL;

    for (size_t i = 0; i < gen->marks_count && next == NULL; i++) {
        const struct mark *mark = &gen->marks[i];
        if (mark->kind != MARK_MESSAGE_BEGIN && mark->kind != MARK_GENERATION)
            continue;
        if (user != NULL)
            next = mark;
        else if (mark->kind == MARK_MESSAGE_BEGIN && mark->role == ROLE_USER)
            user = mark;
    }
    uint32_t at = job->usage.first_difference;
    if (next == NULL || at < user->at || at >= next->at)
        return false;
    /* Without a snapshot, what was shared is a loss, unless it is only the opening of a message. */
    return job->usage.reason == HEARTH_REASON_DIVERGED ||
           (job->usage.reason == HEARTH_REASON_NO_SNAPSHOT && at < user->at + OPENING_TOKENS);
}

void job_announce(struct job *job)
{
    struct gen_usage *usage = &job->usage;
    struct sched *sched = job->sched;

    if (job->started)
        return;
    usage->computed = usage->prompt - gen_usage_reused(usage);
    usage->twice += count_twice(usage);
    usage->new_conversation = is_new_conversation(job);
    double reused_ns = cost_ns(&sched->cost, 0, gen_usage_reused(usage));
    double prompt_ns = cost_prompt_ns(&sched->cost, usage->prompt, sched->facts->chunk);
    usage->compute_s = prompt_ns / (double)NS_PER_S;
    sched_count(sched, &sched->stats.reused_ns, (uint64_t)reused_ns);
    job->times.restored = sched_now_ns(job->sched);
    job->started = true;
    if (job->gen->sink.started != NULL)
        job->gen->sink.started(job->gen->sink.arg, usage);
}

/* The prompt's state is restored as far as possible; prefill is next. */
static void start_prefill(struct job *job)
{
    forks_learn(job);
    forks_choose(job);
    make_schedule(job);
    job->resumed = job->done;
    if (job->reached > job->done)
        count_again(job, job->reached - job->done);
    job->reached = 0;
    if (!job->restore.beside)
        job_announce(job);
    job_set_phase(job, GEN_PREFILL);
}

/* The cache was not asked, so it logs nothing: this line has the format of its lines
 * (hearth_event_format). */
static void log_device_hit(const struct job *job)
{
    const struct gen_usage *usage = &job->usage;

    log_text(job->sched->options.log, LOG_LEVEL_DEBUG, "cache",
             "%llu hit prompt_tokens=%u read_tokens=%u write_tokens=0 match=%s tier=device "
             "reason=%s us=%llu "
             "bytes=0 first_difference=%u",
             (unsigned long long)job->id, usage->prompt, usage->device,
             hearth_match_name(usage->match), hearth_reason_name(usage->reason),
             (unsigned long long)(sched_now_ns(job->sched) - job->times.looked_up) / 1000,
             usage->first_difference);
}

/* The same terms as for a plan of the cache. */
static void note_device(struct job *job, const struct device_match *match)
{
    struct gen_usage *usage = &job->usage;
    bool all = match->shared >= job->count - 1;

    usage->device = match->length;
    /* of a sequence that ends before the last token, nothing differs */
    usage->first_difference =
        match->ends && match->shared + 1 == job->count ? job->count : match->shared;
    usage->match = all           ? HEARTH_MATCH_SUPERSEQUENCE
                   : match->ends ? HEARTH_MATCH_PREFIX
                                 : HEARTH_MATCH_LCP;
    usage->reason = all           ? HEARTH_REASON_NONE
                    : match->ends ? HEARTH_REASON_SHORT
                                  : HEARTH_REASON_DIVERGED;
}

static bool start_from_device(struct job *job, const struct device_match *match)
{
    if (!device_take(job, match))
        return false;
    job->done = match->length;
    if (!job->started) {
        note_device(job, match);
        log_device_hit(job);
    }
    start_prefill(job);
    return true;
}

static enum step wait_for(struct job *job, struct job *leader, uint32_t until)
{
    job->wait.leader = leader;
    job->wait.until = until;
    sched_count(job->sched, &job->sched->stats.waits, 1);
    job_set_phase(job, GEN_DEFERRED);
    return STEP_PARKED;
}

/* Finds the longest prefix that exists anywhere: on the device, in the cache, or about to be
 * computed. */
static enum step step_lookup(struct job *job)
{
    uint64_t begin_ns = sched_now_ns(job->sched);
    struct device_match match = device_find(job);
    uint32_t held = restore_peek(job), until;
    struct job *leader = device_find_leader(job, MAX(match.length, held), &until);

    restore_uncredit(job);
    if (leader != NULL)
        return wait_for(job, leader, until);
    while (!has_room(job, &match, held))
        if (!make_way(job))
            return defer(job);
    enum guard_verdict verdict;
    while ((verdict = claim_memory(job, MAX(match.length, held))) == GUARD_DEFER)
        if (!make_way(job))
            return defer(job);
    if (verdict == GUARD_REFUSE) {
        job_end(job, GEN_END_ERROR, ERR_NOMEM, NULL);
        return STEP_DONE;
    }
    job->times.looked_up = sched_now_ns(job->sched);
    job->times.lookup_ns = job->times.looked_up - begin_ns;
    device_trim(job, match.resident, MAX(match.length, held));
    if (match.length > 0 && start_from_device(job, &match))
        return STEP_MORE;
    make_schedule(job); /* determines which plans an exact run may use */
    restore_lookup(job);
    job->times.lookup_ns = sched_now_ns(job->sched) - begin_ns;
    job_set_phase(job, GEN_RESTORE);
    return STEP_MORE;
}

static enum step step_restore(struct job *job)
{
    struct errinfo info = {0};
    enum step step = restore_poll(job);

    if (step != STEP_MORE)
        return step;
    if (job->restore.needs_cells)
        return defer(job);
    if (faults_fail(job)) {
        err_set(&info, ERR_ENGINE, "injected fault: the restore failed");
        job_end(job, GEN_END_ERROR, ERR_ENGINE, &info);
        return STEP_DONE;
    }
    if (job->seq == SEQ_NONE) {
        enum err err = device_acquire(job->sched, &job->seq, &info);
        if (err == ERR_LIMIT && !job_alone(job))
            return defer(job);
        if (err != ERR_OK) {
            job_end(job, GEN_END_ERROR, err, &info);
            return STEP_DONE;
        }
    }
    job->keep.stored = job->done;
    job->keep.scatter = (struct scatter){0};
    start_prefill(job);
    return STEP_MORE;
}

static enum step step_prefill(struct job *job)
{
    return job->restore.beside ? beside_poll(job) : STEP_BATCH;
}

static enum step step_decode(struct job *job)
{
    (void)job;
    return STEP_BATCH;
}

static enum step (*const steps[GEN_PHASE_COUNT])(struct job *job) = {
    [GEN_QUEUED] = step_queued,   [GEN_DEFERRED] = step_deferred, [GEN_LOOKUP] = step_lookup,
    [GEN_RESTORE] = step_restore, [GEN_PREFILL] = step_prefill,   [GEN_DECODE] = step_decode,
};

enum step job_advance(struct job *job)
{
    enum step step = STEP_MORE;

    while (step == STEP_MORE) {
        if (job_cancelled(job)) {
            job_end(job, GEN_END_CANCELLED, ERR_CANCELLED, NULL);
            return STEP_DONE;
        }
        assert(steps[job->phase] != NULL);
        step = steps[job->phase](job);
    }
    return step;
}
