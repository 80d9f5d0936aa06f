/*
 * retain.c: from a sequence to the cache: snapshots where the policy asks for them, all rows and
 * the last snapshot at the end. State is exported directly into the cache's memory; the mover
 * passes it on to slower tiers. A failure here only costs a later hit.
 *
 *      begin_store -> put_next -> put_next -> ... -> retain_drop
 *
 * A PIECE is one object: a run of rows, or the snapshot. Between two pieces the thread may do other
 * work, as long as the sequence stays as it is. A store that is dropped there is continued by the
 * next one: the cache knows which rows it has. While other jobs run, a piece is stored only if that
 * costs clearly less than computing it again (store_cost.h).
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

/* State that cannot be cut is stored where the limit is, or not at all. */
static uint32_t kept_length(const struct job *job)
{
    uint32_t kept = job->sched->options.exact ? lasting_floor(job, job->done) : job->done;
    uint32_t most = job->keep.most;

    if (most == 0 || kept <= most)
        return kept;
    return job->sched->cuttable ? most : 0;
}

static uint64_t capacity_of(struct job *job, bool rows, uint32_t begin, uint32_t end)
{
    struct engine *engine = job->sched->engine;

    if (rows)
        return state_range_capacity(engine, job->seq, begin, end);
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

static int put(struct job *job, enum hearth_object_kind kind, uint32_t begin, uint32_t end)
{
    struct hearth_store *store = job->keep.store;
    bool rows = kind == HEARTH_OBJECT_ROWS;
    uint64_t capacity = capacity_of(job, rows, begin, end);
    struct cuts_shape shape;
    void *memory;

    if (capacity == 0)
        return HEARTH_ERROR_REFUSED;
    int error = hearth_store_reserve(store, kind, begin, end, capacity, &memory);
    if (error != HEARTH_OK)
        return error;
    memset(&shape, 0, sizeof(shape)); /* the padding is stored as well */
    enum err err = export_to(job, rows, begin, end, memory, capacity, &shape.state);
    if (err != ERR_OK || shape.state.end != end) {
        hearth_store_cancel(store);
        return HEARTH_ERROR_SYSTEM;
    }
    if (job->sched->options.exact)
        cuts_fill(&shape, &job->schedule);
    else
        cuts_forget(&shape);
    error = hearth_store_commit(store, shape.state.bytes, &shape, sizeof(shape));
    if (error == HEARTH_OK)
        job->usage.stored_bytes += shape.state.bytes;
    return error;
}

/* Length of the prompt for the snapshot policy. For an exact run it ends at its last lasting
 * cut. */
static uint32_t length_for_policy(const struct job *job, uint32_t length, bool ends)
{
    if (ends)
        return length;
    return job->sched->options.exact ? lasting_floor(job, job->count) + 1 : job->count;
}

/* ---- a store in pieces ---- */

static void next_rows(struct job *job)
{
    struct job_keep *keep = &job->keep;

    if (!keep->rows || !hearth_store_next(keep->store, &keep->begin, &keep->end))
        keep->begin = keep->end = 0;
}

/* `snapshot`: take one at `length` if the cache asks for it; the sequence has as many tokens.
 * False: nothing can be stored. */
static bool begin_store(struct job *job, uint32_t length, bool snapshot, bool ends)
{
    struct job_keep *keep = &job->keep;

    assert(keep->store == NULL && length > 0 && length <= job->done && job->seq != SEQ_NONE);
    keep->hints.prompt = length_for_policy(job, length, ends);
    keep->hints.generated = ends; /* final state is worth keeping up to its last token */
    keep->hints.entry = length > job->prompt           ? HEARTH_ENTRY_ASSISTANT
                        : length <= keep->hints.anchor ? HEARTH_ENTRY_SYSTEM
                                                       : HEARTH_ENTRY_USER;
    keep->hints.resumed = job->resumed;
    if (hearth_store_open(job->space, job->tokens, length, &keep->hints, &keep->store) != HEARTH_OK)
        return false;
    keep->length = length;
    keep->pieces = 0;
    keep->snapshot = snapshot && hearth_store_wants_snapshot(keep->store, length);
    keep->rows = keep->snapshot || ends || job->sched->cuttable;
    next_rows(job);
    return true;
}

void retain_drop(struct job *job)
{
    hearth_store_close(&job->keep.store);
}

static bool has_rows_left(const struct job *job)
{
    return job->keep.begin < job->keep.end;
}

static bool has_pieces_left(const struct job *job)
{
    return has_rows_left(job) || job->keep.snapshot;
}

/* The size of an export. */
static struct store_piece piece_of(struct job *job, bool rows, uint32_t begin, uint32_t end)
{
    uint64_t each = job->sched->facts->rows_bytes_per_token;

    return (struct store_piece){
        .bytes = capacity_of(job, rows, begin, end),
        .scattered = rows ? each * scatter_count(&job->keep.scatter, begin, end) : 0,
        .snapshot = !rows,
    };
}

static void account(struct job *job, const struct store_piece *piece, uint64_t ns, bool learn)
{
    struct sched *sched = job->sched;

    if (learn)
        store_cost_learn(&sched->store_cost, piece, ns);
    lock_enter(&sched->lock);
    sched->stats.store_ns += ns;
    metric_latency_observe(&sched->stats.store_times, (double)ns / (double)NS_PER_S);
    lock_leave(&sched->lock);
}

/* Stores the next piece of the store that has begun. Other sequences may have stored the same rows
 * since they were chosen: then the store ends, and the next one begins after them. After a
 * failure the remaining rows are not stored: they are useless without these. */
static void put_next(struct job *job)
{
    struct job_keep *keep = &job->keep;
    bool rows = has_rows_left(job);
    uint32_t begin = rows ? keep->begin : 0, end = rows ? keep->end : keep->length;
    struct store_piece piece = piece_of(job, rows, begin, end);
    struct burst *burst = &job->sched->burst;
    /* For runs that the device still computes: that is not the price of the export. */
    bool waits = burst->runs > 0;
    uint64_t begin_ns = sched_now_ns(job->sched);
    int error = put(job, rows ? HEARTH_OBJECT_ROWS : HEARTH_OBJECT_SNAPSHOT, begin, end);

    account(job, &piece, sched_now_ns(job->sched) - begin_ns, error == HEARTH_OK && !waits);
    *burst = (struct burst){0};
    if (error == HEARTH_ERROR_EXISTS && rows && keep->pieces > 0) {
        retain_drop(job);
        return;
    }
    keep->pieces++;
    keep->stored = MAX(keep->stored, end);
    if (!rows)
        keep->snapshot = false;
    else if (error == HEARTH_OK)
        next_rows(job);
    else
        keep->begin = keep->end = 0;
}

/* Stores everything now, at any price. */
static void store(struct job *job, uint32_t length, bool snapshot)
{
    if (!begin_store(job, length, snapshot, false))
        return;
    while (job->keep.store != NULL && has_pieces_left(job))
        put_next(job);
    retain_drop(job);
    job->keep.stored = length;
}

/* Whether a store that takes `ns` is worth it, if computing takes compute_ns. State that is often used again is worth more
 * when it would be lost; state that seldom is, is worth less everywhere. */
static bool pays(struct sched *sched, double ns, double compute_ns, enum store_price price)
{
    double factor = again_factor(&sched->again);
    double worth = price == STORE_EVICTED ? factor : price == STORE_UNFORCED ? MIN(factor, 1) : 1;

    return store_cost_pays(&sched->store_cost, ns, worth * compute_ns, price);
}

static bool rows_pay(struct job *job, uint32_t begin, uint32_t end, enum store_price price)
{
    struct store_piece piece = piece_of(job, true, begin, end);

    return pays(job->sched, store_cost_ns(&job->sched->store_cost, &piece),
                cost_ns(&job->sched->cost, begin, end), price);
}

double retain_cost_ns(struct job *job)
{
    uint32_t end = kept_length(job), begin = MIN(job->keep.stored, end);

    if (!job->sched->cuttable || begin == end)
        return 0;
    struct store_piece piece = piece_of(job, true, begin, end);
    return store_cost_ns(&job->sched->store_cost, &piece);
}

/* Rows are useless without the snapshot after them, so the decision covers both. */
static bool snapshot_pays(struct job *job, enum store_price price)
{
    struct sched *sched = job->sched;
    uint32_t end = job->keep.length, begin = MIN(job->keep.stored, end);
    double ns = 0;

    if (job->keep.snapshot) {
        struct store_piece snapshot = piece_of(job, false, 0, end);
        ns += store_cost_ns(&sched->store_cost, &snapshot);
    }
    if (has_rows_left(job)) {
        struct store_piece rows = piece_of(job, true, begin, end);
        ns += store_cost_ns(&sched->store_cost, &rows);
    }
    return pays(sched, ns, cost_ns(&sched->cost, begin, end), price);
}

static bool next_pays(struct job *job, enum store_price price)
{
    const struct job_keep *keep = &job->keep;

    if (price == STORE_ANY_PRICE || (!job->sched->cuttable && keep->pieces > 0))
        return true;
    return job->sched->cuttable ? rows_pay(job, keep->begin, keep->end, price)
                                : snapshot_pays(job, price);
}

/* Another job waits for exactly this point, or the client asked for it. */
static bool is_junction(const struct job *job)
{
    const struct gen_cache_hints *cache = &job->gen->cache;

    for (size_t i = 0; i < cache->breakpoints_count; i++)
        if (cache->breakpoints[i] == job->done)
            return true;
    if (job->lora.from == job->done) /* any adapter continues from here */
        return true;
    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (other->wait.leader == job && other->wait.until == job->done)
            return true;
    }
    return false;
}

static bool is_place_for_snapshot(const struct job *job, uint32_t kept)
{
    return !job->sched->cuttable && kept == job->done && kept > 0;
}

/* Whether rows of a prefill are stored on the way: always, if the sequence does not stay on the
 * device after its end. Otherwise they can be stored then, and are stored now only if that costs
 * next to nothing: a crash then costs less. */
static bool rows_are_due(struct job *job, uint32_t kept)
{
    const struct sched *sched = job->sched;

    if (!sched->cuttable || kept < job->keep.stored + SCHED_STORE_EVERY)
        return false;
    return !sched->options.park || job->isolated ||
           rows_pay(job, job->keep.stored, kept, STORE_UNFORCED);
}

void retain_on_the_way(struct job *job)
{
    uint32_t kept = kept_length(job), ahead = job->keep.hints.junction;

    if (!job->keep.stores || kept == 0)
        return;
    if (is_junction(job))
        job->keep.hints.junction = kept;
    job->keep.hints.fork = forks_is_place(job) ? kept : 0;
    job->keep.hints.fork_last = forks_is_last(job);
    if (is_place_for_snapshot(job, kept))
        store(job, kept, true);
    else if (rows_are_due(job, kept))
        store(job, kept, false);
    job->keep.hints.junction =
        MAX(job->keep.hints.junction, ahead); /* from the plan: still ahead */
}

/* Nothing is left of the store that has begun. */
static enum retained finish(struct job *job, uint32_t kept, enum store_price price)
{
    bool all = job->keep.length >= kept;

    retain_drop(job);
    return all ? RETAIN_DONE : price == STORE_ANY_PRICE ? RETAIN_MORE : RETAIN_COSTLY;
}

/* The answer may be the expensive part: continues with the prompt alone. */
static bool leave_out_answer(struct job *job)
{
    if (!job->sched->cuttable || job->keep.length <= job->prompt || job->keep.begin >= job->prompt)
        return false;
    retain_drop(job);
    return begin_store(job, job->prompt, false, true);
}

enum retained retain_piece(struct job *job, enum store_price price)
{
    uint32_t kept = kept_length(job);

    if (job->keep.hints.pin || job->keep.hints.ttl_s > 0) /* the client asked for it */
        price = STORE_ANY_PRICE;
    if (!job->keep.stores || kept == 0 ||
        engine_seq_length(job->sched->engine, job->seq) != job->done)
        return RETAIN_DONE;
    if (job->keep.store == NULL && !begin_store(job, kept, is_place_for_snapshot(job, kept), true))
        return RETAIN_DONE;
    if (has_pieces_left(job) && !next_pays(job, price)) {
        if (leave_out_answer(job))
            return RETAIN_MORE;
        retain_drop(job);
        return RETAIN_COSTLY;
    }
    if (has_pieces_left(job))
        put_next(job);
    if (job->keep.store == NULL || has_pieces_left(job))
        return RETAIN_MORE;
    return finish(job, kept, price);
}

bool retain_all(struct job *job, enum store_price price)
{
    enum retained retained;

    while ((retained = retain_piece(job, price)) == RETAIN_MORE)
        ;
    retain_drop(job);
    return retained == RETAIN_DONE;
}
