/*
 * save_later.c: storing the state of ended jobs once the engine has time.
 *
 *      job_end: sink notified --> resident with `unsaved` job --> saved: its state is in the cache,
 *                                             |                   and the job is freed
 *                                             '-- passed on: a longer sequence contains all of it
 *                                                 and will be stored itself
 *
 * Exporting a sequence blocks the engine's thread for tens of milliseconds, which would delay a
 * client that sends its next request at once. So it happens after some idle time, one piece at a
 * time: a request that arrives waits for one piece at most. Until then the sequence is on the
 * device, where the next turn of the conversation finds it.
 *
 * While other jobs run, each export delays all of them. So a piece is stored only if that costs
 * clearly less than computing it again (store_cost.h):
 *
 *      the device is tight    the resident that is evicted next, a piece per turn
 *      overdue, or too many   the one that has waited longest, a piece per turn, if cheaper still
 *      evicted                all that is worth it; the rest is counted as not stored
 *
 * State lost with a dead engine is counted as well.
 *
 * An unsaved job is not in the list of jobs, but a scheduler is not idle (sched_drain) before it is
 * saved. Until then, the tokens of its resident belong to the job.
 */
#include <assert.h>

#include "sched/sched_impl.h"

static void set_unsaved(struct sched *sched, uint32_t count)
{
    sched->unsaved = count;
    lock_enter(&sched->lock);
    sched->stats.unsaved = count;
    lock_leave(&sched->lock);
}

void save_mark(struct job *job)
{
    struct sched *sched = job->sched;

    if (!sched->options.park || !job->keep.stores || job->seq == SEQ_NONE)
        return;
    assert(!job->keep.unsaved);
    job->keep.unsaved = true;
    set_unsaved(sched, sched->unsaved + 1);
}

void save_unmark(struct job *job)
{
    if (!job->keep.unsaved)
        return;
    job->keep.unsaved = false;
    set_unsaved(job->sched, job->sched->unsaved - 1);
}

static void end(struct resident *resident)
{
    struct job *job = resident->unsaved;

    save_unmark(job);
    resident->unsaved = NULL;
    job->seq = SEQ_NONE; /* both now belong to the resident alone */
    job->tokens = NULL;
    job_free(job);
}

void save_begin(struct resident *resident, struct job *job)
{
    assert(job->gen == NULL && job->seq == resident->seq && job->tokens == resident->tokens);
    job_unlist(job);
    resident->unsaved = job;
    if (!job->keep.stores)
        end(resident);
}

void save_lose(struct resident *resident)
{
    if (resident->unsaved == NULL)
        return;
    struct sched *sched = resident->unsaved->sched;
    end(resident);
    sched_count(sched, &sched->stats.unsaved_lost, 1);
}

/* Gives up the part that is not stored, and counts it. */
static void leave_out(struct resident *resident)
{
    struct job *job = resident->unsaved;
    struct sched *sched = job->sched;

    lock_enter(&sched->lock);
    sched->stats.not_stored++;
    sched->stats.not_stored_tokens += job->done - MIN(job->keep.stored, job->done);
    lock_leave(&sched->lock);
    end(resident);
}

/* Stores the next piece. DONE: the resident has no unsaved job any more. COSTLY: the rest is too
 * expensive. */
static enum retained save_next(struct resident *resident, enum store_price price)
{
    struct job *job = resident->unsaved;
    enum retained retained = retain_piece(job, price);

    if (!engine_alive(job->sched->engine)) {
        save_lose(resident);
        return RETAIN_DONE;
    }
    if (retained == RETAIN_DONE)
        end(resident);
    else if (retained == RETAIN_COSTLY)
        job->keep.refused = price;
    return retained;
}

/* Whether it was found too expensive at this price. */
static bool was_refused(const struct job *job, enum store_price price)
{
    return job->keep.refused != STORE_ANY_PRICE && price >= job->keep.refused;
}

bool save_try(struct resident *resident, enum store_price price)
{
    enum retained retained = resident->unsaved == NULL ? RETAIN_DONE : RETAIN_MORE;

    if (retained == RETAIN_MORE && was_refused(resident->unsaved, price))
        return false;
    while (retained == RETAIN_MORE)
        retained = save_next(resident, price);
    return retained == RETAIN_DONE;
}

void save_now(struct resident *resident, enum store_price price)
{
    if (!save_try(resident, price))
        leave_out(resident);
}

void save_at_most(struct resident *resident, uint32_t tokens)
{
    struct job *job = resident->unsaved;

    if (job == NULL || job->keep.hints.pin || job->keep.hints.ttl_s > 0)
        return;
    retain_drop(job);
    job->keep.most = job->keep.most == 0 ? tokens : MIN(job->keep.most, tokens);
    if (tokens == 0)
        end(resident);
}

void save_pass_on(struct resident *resident, struct job *to)
{
    const struct job *job = resident->unsaved;

    if (job == NULL)
        return;
    /* State that the client wants kept longer, or that a longer sequence cannot yield, is stored as
     * it is. */
    if (to == NULL || !to->keep.stores || !job->sched->cuttable || job->keep.hints.pin ||
        job->keep.hints.ttl_s > 0)
        save_now(resident, STORE_EVICTED);
    else
        end(resident);
}

bool save_piece(struct resident *resident, enum store_price price)
{
    assert(resident->unsaved != NULL);
    return !was_refused(resident->unsaved, price) && save_next(resident, price) != RETAIN_COSTLY;
}

/* The one that has waited longest; NULL = none. */
static struct resident *first_unsaved(struct sched *sched, enum store_price price)
{
    struct resident *first = NULL;

    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        if (resident->unsaved != NULL && !was_refused(resident->unsaved, price) &&
            (first == NULL || resident->unsaved->times.ended < first->unsaved->times.ended))
            first = resident;
    }
    return first;
}

bool save_oldest(struct sched *sched)
{
    struct resident *first = first_unsaved(sched, STORE_ANY_PRICE);

    if (first != NULL)
        save_next(first, STORE_ANY_PRICE);
    return first != NULL;
}

/* Residents will soon be evicted. */
static bool is_tight(const struct sched *sched)
{
    return engine_cells_free(sched->engine) < sched->facts->context / DEVICE_TIGHT_CELLS ||
           sched->residents.count + sched->active + DEVICE_TIGHT_SEQS > sched->facts->sequences;
}

/* The unsaved resident that is evicted next, among the least recently used half; NULL = none. The
 * other half will probably be continued before it is evicted. */
static struct resident *next_to_leave(struct sched *sched)
{
    size_t left = (sched->residents.count + 1) / 2;

    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        if (left-- == 0)
            break;
        if (resident->unsaved != NULL && !was_refused(resident->unsaved, STORE_EVICTED))
            return resident;
    }
    return NULL;
}

static bool is_overdue(const struct sched *sched, const struct resident *first)
{
    uint64_t age_ns = sched_now_ns(sched) - first->unsaved->times.ended;

    return sched->unsaved > DEVICE_UNSAVED_MAX || age_ns > DEVICE_UNSAVED_MS_MAX * NS_PER_MS;
}

void save_beside(struct sched *sched)
{
    if (sched->unsaved == 0)
        return;
    struct resident *leaving = is_tight(sched) ? next_to_leave(sched) : NULL;
    if (leaving != NULL) {
        save_next(leaving, STORE_EVICTED);
        return;
    }
    struct resident *first = first_unsaved(sched, STORE_UNFORCED);
    if (first != NULL && is_overdue(sched, first))
        save_next(first, STORE_UNFORCED);
}
