/*
 * drafts.c: guesses (draft.h) in the batches of the scheduler.
 *
 * After the token of an answer the batch may have guesses for the next ones, with logits for each.
 * The job's sampler then picks token by token as if they had been computed one after the other. As
 * long as it picks what was guessed, the next logits are right as well. The rows of the other
 * guesses are removed. So drafts change which tokens are computed together and nothing else:
 * grammars, penalties and random numbers see the same sequence of picks.
 *
 *      tokens   ... last | guess guess guess guess
 *      logits        0       1     2     3     4         picked: guess, guess, other -> 2 accepted
 */
#include <string.h>

#include "base/mem.h"
#include "sched/sched_impl.h"

_Static_assert(GUARD_RECORD_BYTES >= 64 + DRAFT_TOKEN_BYTES, "the guard counts the index");

enum {
    TREE_ASKS_MAX = 16,
    CELLS_FREE = 256, /* cells that drafts leave free: they must not displace anything */
};

/* ---- filling a batch ---- */

const char *sched_no_drafts(const struct sched *sched)
{
    return sched->options.drafts == 0    ? "disabled by --drafts"
           : sched->options.exact        ? "disabled by --exact"
           : sched->facts->rollback == 0 ? rollback_text(sched->facts->no_rollback)
                                         : NULL;
}

/* Tokens that the next batch may have beyond one per answer. */
static uint32_t drafts_max(const struct sched *sched)
{
    uint32_t count = (uint32_t)sched->batch_count, cells = engine_cells_free(sched->engine);
    uint32_t most = sched->facts->chunk / 2;

    if (sched->ladder.refusals > 0 || sched->ladder.tokens_max != LADDER_UNLIMITED ||
        cells < count + CELLS_FREE)
        return 0;
    most = MIN(most, cells - CELLS_FREE);
    /* Every sequence may need logits. */
    return MIN(most - MIN(most, count), sched->facts->outputs - sched->facts->sequences);
}

const struct engine_facts *sched_draft_facts(const struct sched *sched)
{
    return sched->drafter != NULL ? engine_facts(sched->options.draft_engine) : NULL;
}

/* Asks the draft model, which takes time: only for as many as pay. */
static uint32_t ask_drafter(struct job *job, struct draft_batch *batch, uint32_t max)
{
    struct sched *sched = job->sched;

    if (sched->options.draft_max > 0)
        max = MIN(max, sched->options.draft_max);
    if (sched->options.drafts == SCHED_DRAFTS_AUTO) {
        struct draft_cost cost = *draft_costs_of(&sched->draft_costs, (uint32_t)batch->plain);
        cost.guess_ns = drafter_guess_ns(sched->drafter);
        max = draft_length(&cost, batch, drafter_chance(sched->drafter), max);
    }
    if (max == 0)
        drafter_skip(sched->drafter);
    return drafter_guess(job->drafter, job->tokens, job->count, job->tokens + job->count, max);
}

/* How many guesses to compute with the next token of the job: they are after its tokens then. */
static uint32_t guess(struct job *job, struct draft_batch *batch, uint32_t max)
{
    struct sched *sched = job->sched;
    const struct gen *gen = job->gen;
    double chance = 1;
    uint32_t found;

    max = MIN(MIN(max, DRAFT_TOKENS_MAX), MIN(sched->options.drafts, job->room - job->count - 1));
    max = MIN(max, sched->facts->rollback);
    if (max == 0 || !batch_grow_tokens(job, job->count + max))
        return 0;
    token_id *next = job->tokens + job->count;
    if (gen->forced_count > 0) {
        found = MIN(gen->forced_count, max);
        memcpy(next, gen->forced, found * sizeof(*next));
    } else {
        found = draft_guess(job->draft, job->tokens, job->count, next, max, &chance);
        if (job->drafter != NULL && (found == 0 || chance < drafter_chance(sched->drafter)))
            return ask_drafter(job, batch, max);
    }
    for (uint32_t i = 0; i < found; i++)
        if (!engine_token_valid(sched->engine, next[i])) /* a salted key of a prompt (lora.h) */
            found = i;
    if (sched->options.drafts == SCHED_DRAFTS_AUTO)
        return draft_length(draft_costs_of(&sched->draft_costs, (uint32_t)batch->plain), batch,
                            chance, found);
    return found;
}

/* Recurrent state can be rolled back only after a batch of one sequence (engine_seq_truncate). */
static bool may_guess(const struct sched *sched, bool alone)
{
    bool recurrent = sched->facts->kinds & KIND_BIT(KIND_RECURRENT);

    return sched->batch_count > 0 && (!recurrent || (sched->batch_count == 1 && alone));
}

void drafts_add(struct sched *sched, bool alone)
{
    double answers = (double)sched->batch_count;
    struct draft_batch batch = {answers, answers, answers, false};
    uint32_t left = may_guess(sched, alone) ? drafts_max(sched) : 0;

    for (size_t i = 0; i < sched->batch_count && left > 0; i++) {
        struct job *job = sched->batch[i];
        uint32_t count = job->draft != NULL ? guess(job, &batch, left) : 0;
        /* They may have moved; none is salted, since all are of the answer. */
        sched->items[i].tokens = job->tokens + job->done;
        sched->items[i].count += count;
        sched->items[i].logits += count;
        left -= count;
    }
    draft_costs_of(&sched->draft_costs, (uint32_t)sched->batch_count)->trying = batch.trying;
}

/* ---- the answer ---- */

/* Looks for an earlier sequence of the same tenant that begins with all tokens of the job. */
static void find_tree(struct job *job)
{
    token_id *next;

    if (job->gen->cache.no_read || job->tree_asks++ >= TREE_ASKS_MAX ||
        (next = mem_try_alloc_array(DRAFT_REFERENCE_MAX, sizeof(*next))) == NULL)
        return;
    uint32_t count = device_continuation(job, next, DRAFT_REFERENCE_MAX);
    if (count == 0 && job->space != NULL)
        count = (uint32_t)hearth_continuation(job->space, job->tokens, job->count, next,
                                              DRAFT_REFERENCE_MAX);
    if (count > 0)
        draft_expect(job->draft, DRAFT_TREE, next, count);
    mem_free(next);
}

static void follow_drafter(struct job *job)
{
    const struct gen *gen = job->gen;
    struct drafter_cache cache = {.stores = job->keep.stores, .no_disk = gen->cache.no_disk};

    if (!job->isolated && !gen->cache.no_read && job->space != NULL) {
        cache.owner = job->space;
        cache.space = gen->draft_space;
    }
    job->drafter = drafter_follow(job->sched->drafter, &cache);
}

void drafts_begin(struct job *job)
{
    const struct gen *gen = job->gen;

    if (sched_no_drafts(job->sched) != NULL ||
        (job->draft = draft_create(&job->sched->draft_rates)) == NULL)
        return;
    if (gen->prediction_count > 0)
        draft_expect(job->draft, DRAFT_PREDICTION, gen->prediction, gen->prediction_count);
    find_tree(job);
    if (job->sched->drafter != NULL && job->drafter == NULL)
        follow_drafter(job);
}

void drafts_follow(struct job *job)
{
    if (job->draft == NULL)
        return;
    draft_follow(job->draft, job->tokens, job->count, &job->sched->draft_rates);
    if (draft_lost_tree(job->draft))
        find_tree(job);
}

bool drafts_trim(struct job *job)
{
    struct engine *engine = job->sched->engine;

    return engine_seq_length(engine, job->seq) <= job->done ||
           engine_seq_truncate(engine, job->seq, job->done, NULL) == ERR_OK;
}

bool drafts_end(struct job *job)
{
    const struct sched *sched = job->sched;
    bool rolled = job->usage.drafted > 0 && sched->facts->kinds & KIND_BIT(KIND_RECURRENT);

    /* A fork would settle it, but a sequence that is kept for others must not break there. */
    return drafts_trim(job) &&
           (!rolled || engine_seq_settle(sched->engine, job->seq, NULL) == ERR_OK);
}

void drafts_accept(struct job *job)
{
    struct sched *sched = job->sched;

    job->usage.accepted++;
    uint32_t answers = (uint32_t)sched->batch_count;
    draft_cost_accept(draft_costs_of(&sched->draft_costs, answers), answers);
    lock_enter(&sched->lock);
    sched->stats.accepted++;
    sched->stats.decode_tokens++;
    lock_leave(&sched->lock);
}
