/*
 * retain.c: from a sequence to the cache: runs of rows during a prefill, snapshots where the policy
 * asks for them, the rest at the end. State is exported directly into the cache's memory; the mover
 * passes it on to slower tiers. A failure here only costs a later hit.
 *
 * EXACT. State computed in a chunk that a longer prompt would not have (the last one before the
 * last token, and decoded tokens) is not stored: only state up to the last lasting cut is.
 */
#include <assert.h>
#include <string.h>

#include "sched/cuts.h"
#include "sched/sched_impl.h"

/* The last cut at or before `at` that every longer prompt also has. */
static uint32_t lasting_floor(const struct job *job, uint32_t at)
{
    struct schedule lasting = job->schedule;

    lasting.count += 2 * lasting.grid;
    return schedule_floor(&lasting, MIN(at, job->schedule.count - 1));
}

static uint32_t kept_length(const struct job *job)
{
    return job->sched->options.exact ? lasting_floor(job, job->done) : job->done;
}

static uint64_t capacity_of(struct job *job, bool rows, uint32_t tokens)
{
    struct engine *engine = job->sched->engine;

    if (rows)
        return state_rows_capacity(engine, tokens);
    return job->sched->whole ? state_whole_bytes(engine, job->seq)
                             : state_snapshot_bytes(engine, job->seq);
}

static enum err export_to(struct job *job, bool rows, uint32_t begin, uint32_t end, void *memory,
                          uint64_t capacity, struct state_shape *shape)
{
    struct engine *engine = job->sched->engine;

    if (rows)
        return state_export_rows(engine, job->seq, begin, end, memory, capacity, shape, NULL);
    if (job->sched->whole)
        return state_export_whole(engine, job->seq, memory, capacity, shape, NULL);
    return state_export_snapshot(engine, job->seq, memory, capacity, shape, NULL);
}

static bool put(struct job *job, struct hearth_store *store, enum hearth_object_kind kind,
                uint32_t begin, uint32_t end)
{
    bool rows = kind == HEARTH_OBJECT_ROWS;
    uint64_t capacity = capacity_of(job, rows, end - begin);
    struct cuts_shape shape;
    void *memory;

    if (capacity == 0 ||
        hearth_store_reserve(store, kind, begin, end, capacity, &memory) != HEARTH_OK)
        return false;
    memset(&shape, 0, sizeof(shape)); /* the padding is stored as well */
    enum err err = export_to(job, rows, begin, end, memory, capacity, &shape.state);
    if (err != ERR_OK || shape.state.end != end) {
        hearth_store_cancel(store);
        return false;
    }
    if (job->sched->options.exact)
        cuts_fill(&shape, &job->schedule);
    else
        cuts_forget(&shape);
    if (hearth_store_commit(store, shape.state.bytes, &shape, sizeof(shape)) != HEARTH_OK)
        return false;
    job->usage.stored_bytes += shape.state.bytes;
    return true;
}

/* Length of the prompt for the snapshot policy. For an exact run it ends at its last lasting
 * cut. */
static uint32_t length_for_policy(const struct job *job, uint32_t length, bool ends)
{
    if (ends)
        return length;
    return job->sched->options.exact ? lasting_floor(job, job->target) + 1 : job->target;
}

static struct hearth_store *open_store(struct job *job, uint32_t length, bool ends)
{
    struct hearth_store *store = NULL;

    job->keep.hints.prompt = length_for_policy(job, length, ends);
    job->keep.hints.generated = ends; /* final state is worth keeping up to its last token */
    job->keep.hints.entry = length > job->prompt                       ? HEARTH_ENTRY_ASSISTANT
                            : job->anchor > 0 && length <= job->anchor ? HEARTH_ENTRY_SYSTEM
                                                                       : HEARTH_ENTRY_USER;
    job->keep.hints.resumed = job->resumed;
    if (hearth_store_open(job->space, job->tokens, length, &job->keep.hints, &store) != HEARTH_OK)
        return NULL;
    return store;
}

static void store_rows(struct job *job, struct hearth_store *store)
{
    uint32_t begin, end;

    while (hearth_store_next(store, &begin, &end))
        if (!put(job, store, HEARTH_OBJECT_ROWS, begin, end))
            return;
}

/* `snapshot`: take one here if the cache asks for it; the sequence has `length` tokens. */
static void store(struct job *job, uint32_t length, bool snapshot, bool ends)
{
    assert(length > 0 && length <= job->done && job->seq != SEQ_NONE);
    struct sched *sched = job->sched;
    uint64_t begin_ns = sched_now_ns(sched);
    struct hearth_store *store = open_store(job, length, ends);

    if (store == NULL)
        return;
    bool wanted = snapshot && hearth_store_wants_snapshot(store, length);
    if (wanted || ends || sched->cuttable)
        store_rows(job, store);
    if (wanted)
        put(job, store, HEARTH_OBJECT_SNAPSHOT, 0, length);
    hearth_store_close(&store);
    job->keep.stored = length;
    uint64_t ns = sched_now_ns(sched) - begin_ns;
    lock_enter(&sched->lock);
    sched->stats.store_ns += ns;
    metric_latency_observe(&sched->stats.store_times, (double)ns / (double)NS_PER_S);
    lock_leave(&sched->lock);
}

/* Another job waits for exactly this point, or the client asked for it. */
static bool is_junction(const struct job *job)
{
    const struct gen_cache_hints *cache = &job->gen->cache;

    for (size_t i = 0; i < cache->breakpoints_count; i++)
        if (cache->breakpoints[i] == job->done)
            return true;
    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (other->wait.leader == job && other->wait.until == job->done)
            return true;
    }
    return false;
}

/* A later prompt may diverge anywhere from a prompt without marks (a raw completion, text around a
 * cursor). True where a half, a quarter, an eighth ... of it is left, in whole chunks: a prompt
 * that diverges computes at most about twice its new tokens. */
static bool is_halfway(const struct job *job)
{
    uint32_t chunk = job->sched->facts->chunk;

    if (job->gen->marks_count > 0 || job->done % chunk != 0)
        return false;
    for (uint32_t rest = job->target / 2; rest >= chunk; rest /= 2)
        if ((job->target - rest) / chunk * chunk == job->done)
            return true;
    return false;
}

static bool is_place_for_snapshot(const struct job *job, uint32_t kept)
{
    return !job->sched->cuttable && kept == job->done && kept > 0;
}

void retain_on_the_way(struct job *job)
{
    uint32_t kept = kept_length(job), ahead = job->keep.hints.junction;

    if (!job->keep.stores || kept == 0)
        return;
    if (is_junction(job) || is_halfway(job))
        job->keep.hints.junction = kept;
    if (is_place_for_snapshot(job, kept))
        store(job, kept, true, false);
    else if (job->sched->cuttable && kept >= job->keep.stored + SCHED_STORE_EVERY)
        store(job, kept, false, false);
    job->keep.hints.junction =
        MAX(job->keep.hints.junction, ahead); /* from the plan: still ahead */
}

void retain_all(struct job *job)
{
    uint32_t kept = kept_length(job);

    if (!job->keep.stores || kept == 0 ||
        engine_seq_length(job->sched->engine, job->seq) != job->done)
        return;
    store(job, kept, is_place_for_snapshot(job, kept), true);
}
