/* forks.c: see the header. */
#include "sched/forks.h"

#include <string.h>

#include "base/mem.h"
#include "sched/sched_impl.h"

enum {
    PRIOR_PLACES = 64,
    PRIOR_PROMPTS = 32,
    NEAR_PLACE = 32, /* tokens after a joint that a fork there may still share: "Question: what" */
    NEAR_MARK = 8,   /* the same for messages: their role */
    END_TOKENS = 8,  /* the end of the prompt has a snapshot */
    CUTS_ALWAYS = 4,
    CUT_PART = 1024, /* tokens of a prompt for each further cut */
    ANCHOR_PART = 4, /* of the places, those that the system prompt may take */
    BYTES_PART = 4,  /* of what snapshots may take, what one prompt may */
};

/* The share of joints that become forks, before any was seen: counted in texts that were written
 * for it (docs/decisions/031-snapshots-for-forks.md). That of parts is chosen. */
static const double prior_rates[PLACE_COUNT] = {
    [PLACE_PART] = 0.32,  [PLACE_HEADING] = 0.09,    [PLACE_TAG] = 0.06,   [PLACE_LABEL] = 0.24,
    [PLACE_FENCE] = 0.08, [PLACE_PARAGRAPH] = 0.019, [PLACE_ITEM] = 0.027, [PLACE_LINE] = 0.007};
static const double prior_inside = 0.3; /* of prompts; counted in those of a coding agent */

static const double rate_weight =
    0.01; /* the rate that is worth a cut 1,024 tokens before the end */
static const double few_inside = 0.05; /* prompts fork less often: fewer places */
/* Of the time of a prefill. */
static const double snapshots_share = 0.01, cuts_share = 0.02;
static const double forgets = 0.99; /* per prompt */

/* ---- history ---- */

static double weight_of(const struct forks_history *history, enum place_kind kind)
{
    double forked = history->forked[kind] + PRIOR_PLACES * prior_rates[kind];

    return forked / (history->seen[kind] + PRIOR_PLACES) / rate_weight;
}

static double share_inside(const struct forks_history *history)
{
    return (history->inside + PRIOR_PROMPTS * prior_inside) / (history->prompts + PRIOR_PROMPTS);
}

static struct forks_history *history_of(const struct job *job)
{
    return &job->tenant->forks;
}

/* Where a message or an answer begins has a snapshot anyway. */
static bool is_at_mark(const struct job *job, uint32_t at)
{
    for (size_t i = 0; i < job->gen->marks_count; i++) {
        const struct mark *mark = &job->gen->marks[i];
        if (mark->kind != MARK_PART && mark->at <= at && at <= mark->at + NEAR_MARK)
            return true;
    }
    return at <= NEAR_MARK;
}

/* The last joint before `at`; PLACE_COUNT: none is near. */
static enum place_kind kind_before(const struct places *places, uint32_t at)
{
    enum place_kind best = PLACE_COUNT;

    for (size_t i = places->count; i-- > 0 && places->list[i].at + NEAR_PLACE >= at;)
        if (places->list[i].at <= at)
            best = MIN(best, (enum place_kind)places->list[i].kind);
    return best;
}

/* Whether the earlier prompt could have left a snapshot after what was reused. */
static bool had_place(const struct job *job, uint32_t reused)
{
    const struct places *places = &job->forks.places;
    uint32_t most = job->usage.first_difference, chunk = job->sched->facts->chunk;

    if (most - most % chunk > reused)
        return true;
    for (size_t i = 0; i < places->count && places->list[i].at <= most; i++)
        if (places->list[i].at > reused)
            return true;
    return false;
}

static enum gen_later later_of(const struct job *job)
{
    if (job->usage.reason != HEARTH_REASON_NO_SNAPSHOT)
        return GEN_LATER_NONE;
    if (job->forks.evicted)
        return GEN_LATER_EVICTED;
    return had_place(job, gen_usage_reused(&job->usage)) ? GEN_LATER_BUDGET : GEN_LATER_NO_PLACE;
}

void forks_learn(struct job *job)
{
    struct forks_history *history = history_of(job);
    uint32_t at = job->usage.first_difference;
    bool differs = job->usage.reason == HEARTH_REASON_DIVERGED ||
                   job->usage.reason == HEARTH_REASON_NO_SNAPSHOT;

    if (job->sched->cuttable || job->sched->whole || job->started)
        return;
    job->usage.later = later_of(job);
    history->prompts = history->prompts * forgets + 1;
    history->inside *= forgets;
    if (!differs || at + 1 >= job->count || is_at_mark(job, at))
        return;
    history->inside += 1;
    enum place_kind kind = kind_before(&job->forks.places, at);
    if (kind < PLACE_COUNT)
        history->forked[kind] += 1;
}

static void note_seen(struct forks_history *history, const struct places *places, uint32_t from)
{
    for (size_t i = places->count; i-- > 0 && places->list[i].at > from;)
        history->seen[places->list[i].kind] += 1;
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        history->seen[i] *= forgets;
        history->forked[i] *= forgets;
    }
}

/* ---- places ---- */

enum err forks_prepare(struct job *job, const struct gen *gen)
{
    const struct sched *sched = job->sched;

    /* the cuts of an exact run depend on the prompt alone, also if it stores nothing */
    if (sched->cuttable || sched->whole || (!sched->options.exact && !job->keep.stores))
        return ERR_OK;
    return places_find(
        &(struct places_text){
            .engine = sched->engine,
            .tokens = gen->tokens,
            .count = gen->tokens_count,
            .marks = gen->marks,
            .marks_count = gen->marks_count,
            .window = MAX(sched->facts->chunk / 2, 1),
        },
        &job->forks.places);
}

void forks_fini(struct forks *forks)
{
    places_fini(&forks->places);
}

/* A window that is longer than the prompt is not full. */
static uint64_t snapshot_bytes(const struct engine_facts *facts, uint32_t to)
{
    if (facts->window <= to || (facts->kinds & KIND_BIT(KIND_RECURRENT)) != 0)
        return facts->snapshot_bytes_max;
    return (uint64_t)((double)facts->snapshot_bytes_max * to / facts->window);
}

/* Snapshots that a prefill of [from, to) may leave for forks. */
static uint32_t places_max(const struct job *job, uint32_t from, uint32_t to)
{
    struct sched *sched = job->sched;
    struct store_piece piece = {.bytes = snapshot_bytes(sched->facts, to), .snapshot = true};
    double ns = store_cost_ns(&sched->store_cost, &piece), most = SPREAD_MAX;
    double compute_ns = cost_ns(&sched->cost, from, to);
    uint64_t room = hearth_space_snapshot_room(job->space) / BYTES_PART;

    if (ns > 0 && compute_ns > 0)
        most = MIN(most, snapshots_share * compute_ns / ns);
    if (piece.bytes > 0)
        most = MIN(most, (double)room / (double)piece.bytes);
    return (uint32_t)(most * MIN(share_inside(history_of(job)) / few_inside, 1));
}

/* The same for cuts: each is another run. A long prompt may always have a few: most prompts fork at
 * the last joints of their text. */
static uint32_t cuts_max(const struct job *job, uint32_t from, uint32_t to)
{
    const struct cost *cost = &job->sched->cost;
    uint32_t each = MAX(CUT_PART, job->sched->facts->chunk), all = (to - from) / each;
    double most = all;

    if (cost_known(cost) && cost->ns[COST_RUN] > 0)
        most = MIN(most, cuts_share * cost_ns(cost, from, to) / cost->ns[COST_RUN]);
    return (uint32_t)MAX(most, MIN(all, CUTS_ALWAYS));
}

/* The end of the client's text, as far as it is known. */
static uint32_t text_end(const struct job *job)
{
    const struct gen *gen = job->gen;
    uint32_t last = job->count - 1;

    if (gen->marks_count > 0 && gen->marks[gen->marks_count - 1].kind == MARK_GENERATION)
        last = MIN(last, (uint32_t)gen->marks[gen->marks_count - 1].at);
    return last;
}

/* Candidates of one stretch of the prompt. */
static size_t gather(const struct job *job, uint32_t from, uint32_t end,
                     struct spread_candidate *candidates)
{
    const struct forks_history *history = history_of(job);
    const struct places *places = &job->forks.places;
    bool exact = job->sched->options.exact;
    size_t count = 0;

    for (size_t i = 0; i < places->count; i++) {
        const struct place *place = &places->list[i];
        bool cut = exact && (place->settled || place->kind == PLACE_PART);
        if (place->at > from && place->at + END_TOKENS < end && (!exact || cut))
            candidates[count++] =
                (struct spread_candidate){place->at, (float)weight_of(history, place->kind), cut};
    }
    return count;
}

static void choose(struct job *job, uint32_t from, uint32_t end, uint32_t most, bool cuts,
                   struct spread_candidate *candidates)
{
    struct forks *forks = &job->forks;
    uint32_t chosen[SPREAD_MAX];
    uint32_t chunk = job->sched->facts->chunk;

    if (end < from + chunk)
        return;
    struct spread spread = {
        .from = from,
        .end = end,
        .grid = chunk,
        .candidates = candidates,
        .count = gather(job, from, end, candidates),
        .places_max = most,
        .cuts_max = cuts ? cuts_max(job, from, end) : 0,
        .fixed = job->sched->options.exact,
    };
    size_t count = spread_choose(&spread, chosen);
    count = MIN(count, SPREAD_MAX - forks->chosen_count);
    memcpy(forks->chosen + forks->chosen_count, chosen, count * sizeof(*chosen));
    forks->chosen_count += count;
}

void forks_choose(struct job *job)
{
    struct forks *forks = &job->forks;
    uint32_t from = job->done, end = text_end(job), anchor = job->keep.hints.anchor;

    forks->chosen_count = 0;
    if (job->sched->cuttable || job->sched->whole || !job->keep.stores || end <= from)
        return;
    uint32_t most = places_max(job, from, end);
    struct spread_candidate *candidates =
        mem_try_alloc_array(forks->places.count + 1, sizeof(*candidates));
    if (candidates == NULL) /* costs a later hit only */
        return;
    note_seen(history_of(job), &forks->places, from);
    if (anchor > from && anchor < end) {
        choose(job, from, anchor, most / ANCHOR_PART, false, candidates);
        from = anchor;
    }
    choose(job, from, end, most - (uint32_t)MIN(forks->chosen_count, most), true, candidates);
    mem_free(candidates);
}

bool forks_is_place(const struct job *job)
{
    for (size_t i = 0; i < job->forks.chosen_count; i++)
        if (job->forks.chosen[i] == job->done)
            return true;
    return false;
}

bool forks_is_last(const struct job *job)
{
    const struct forks *forks = &job->forks;

    return forks->chosen_count > 0 && forks->chosen[forks->chosen_count - 1] == job->done;
}

size_t forks_exact_cuts(const struct job *job, uint32_t *cuts)
{
    size_t count = 0;

    for (size_t i = 0; i < job->forks.places.count; i++) {
        if (!job->forks.places.list[i].settled)
            continue;
        if (cuts != NULL)
            cuts[count] = job->forks.places.list[i].at;
        count++;
    }
    return count;
}
