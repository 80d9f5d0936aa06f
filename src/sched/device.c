/*
 * device.c: the first tier: sequences already in the engine's memory, both finished and running.
 *
 * A fork copies nothing, so using a prefix of a sequence leaves it in place for the next request. A
 * sequence whose state kinds can be truncated yields any number of its tokens; one with windows as
 * many as still have theirs; any other yields all or none. Residents are evicted when room is needed, least recently used first, and when their
 * cells have cost others too much. The cache has their state, unless storing it would have cost too
 * much (save_later.c). So eviction costs only time.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "sched/sched_impl.h"

/* How many of `shared` tokens of a sequence of `length` tokens can be used for a prompt. */
static uint32_t usable(const struct sched *sched, seq_id seq, uint32_t shared, uint32_t length,
                       const struct sched_prompt *prompt)
{
    uint32_t most = picture_floor(prompt->tokens, prompt->count, MIN(shared, prompt->count - 1));

    if (sched->cuttable || most >= length || most == 0)
        return MIN(most, length);
    return most >= engine_seq_least(sched->engine, seq) ? most : 0;
}

/* Where state belongs. Without a cache there is no space that tells sets of adapters apart. */
struct owner {
    const struct hearth_space *space;
    const char *tenant;
    const struct lora_set *lora;
};

static struct owner owner_of(const struct job *job)
{
    return (struct owner){job->space, job->tenant->name, &job->lora.before};
}

static struct owner resident_owner(const struct resident *resident)
{
    return (struct owner){resident->space, resident->tenant, &resident->lora};
}

static bool same_owner(struct owner a, struct owner b)
{
    return a.space == b.space && strcmp(a.tenant, b.tenant) == 0 && lora_set_eq(a.lora, b.lora);
}

/* The best match has the most usable tokens; the one that shares most explains why there are no
 * more. Of several, one that goes on with another token. */
static void consider(struct device_match *best, struct device_match found)
{
    uint32_t shared = MAX(best->shared, found.shared);
    bool ends = found.shared == best->shared  ? found.ends && best->ends
                : found.shared > best->shared ? found.ends
                                              : best->ends;

    if (found.length > best->length)
        *best = found;
    best->shared = shared;
    best->ends = ends;
}

static bool reads_device(const struct job *job)
{
    return !job->sched->options.exact && !job->isolated &&
           !(job->gen != NULL && job->gen->cache.no_read);
}

/* Finds the best match for a prompt; `self` is its job, NULL: none yet. */
static struct device_match find(struct sched *sched, const struct sched_prompt *prompt,
                                const struct job *self)
{
    struct owner owner = {prompt->space, prompt->tenant, prompt->lora};
    struct device_match best = {0};

    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        if (!same_owner(resident_owner(resident), owner))
            continue;
        uint32_t shared =
            sched_common(prompt->tokens, prompt->count, resident->tokens, resident->count);
        consider(&best, (struct device_match){
                            .resident = resident,
                            .length = usable(sched, resident->seq, shared, resident->count, prompt),
                            .shared = shared,
                            .ends = shared == resident->count});
    }
    LIST_FOREACH (struct job, other, &sched->jobs, link) {
        if (other == self || other->isolated || other->seq == SEQ_NONE ||
            !same_owner(owner_of(other), owner))
            continue;
        uint32_t shared = sched_common(prompt->tokens, prompt->count, other->tokens, other->done);
        consider(&best, (struct device_match){
                            .job = other,
                            .length = usable(sched, other->seq, shared, other->done, prompt),
                            .shared = shared,
                            .ends = shared == other->done});
    }
    return best;
}

struct device_match device_find(struct job *job)
{
    struct sched_prompt prompt = {job->space, job->tenant->name, job->tokens, job->count,
                                  &job->lora.before};

    return reads_device(job) ? find(job->sched, &prompt, job) : (struct device_match){0};
}

struct sched_device device_probe(struct sched *sched, const struct sched_prompt *prompt)
{
    const struct lora_facts *facts = &sched->facts->lora;
    struct lora_set lora =
        lora_set_before(facts, prompt->lora != NULL ? prompt->lora : &facts->initial);
    struct sched_prompt with = *prompt;
    struct device_match best = {0};

    with.lora = &lora;
    if (!sched->options.exact)
        best = find(sched, &with, NULL);
    return (struct sched_device){.length = best.length, .shared = best.shared, .ends = best.ends};
}

struct job *device_find_leader(struct job *job, uint32_t have, uint32_t *until)
{
    struct job *best = NULL;

    *until = have + SCHED_FLIGHT_MIN;
    if (!reads_device(job))
        return NULL;
    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (other == job || other->isolated ||
            (other->phase != GEN_PREFILL && other->phase != GEN_RESTORE) ||
            !same_owner(owner_of(job), owner_of(other)))
            continue;
        uint32_t shared = sched_common(job->tokens, job->count - 1, other->tokens, other->count);
        if (shared > *until && shared > other->done) {
            best = other;
            *until = shared;
        }
    }
    return best;
}

uint32_t device_continuation(const struct job *job, token_id *next, uint32_t max)
{
    const struct resident *last = NULL; /* the one used last */

    if (!reads_device(job))
        return 0;
    LIST_FOREACH (struct resident, resident, &job->sched->residents, link) {
        if (resident->count > job->count && same_owner(owner_of(job), resident_owner(resident)) &&
            sched_common(job->tokens, job->count, resident->tokens, job->count) == job->count)
            last = resident;
    }
    uint32_t count = last != NULL ? MIN(last->count - job->count, max) : 0;
    if (count > 0)
        memcpy(next, last->tokens + job->count, count * sizeof(*next));
    return count;
}

/* ---- what residents cost ---- */

/* Attention looks at all cells in use, whichever sequence they belong to. So a resident slows down
 * every token that is computed beside it. It leaves when that has cost as much as restoring it
 * does; then it costs at most twice what the best choice would have cost. */

static const double cells_decay = 0.995; /* the number of cells changes slowly */

void device_learn(struct sched *sched, uint64_t tokens, uint64_t ns)
{
    uint32_t cells = sched->facts->context - engine_cells_free(sched->engine);

    if (tokens >= sched->facts->chunk * 3 / 4) /* smaller batches have other costs per token */
        line_learn(&sched->cells_cost, cells_decay, cells, (double)ns / (double)tokens);
}

/* How many tokens may be computed beside a resident before its cells have cost `ns` for each of
 * them; 0: not known. */
static double tokens_worth(const struct sched *sched, double ns)
{
    double slope = line_slope(&sched->cells_cost); /* per token and cell */

    return slope > 0 ? ns / slope : 0;
}

/* Which part of such state is used again: one in STORE_EVICTED, or as many as were lately. */
static double share_used(const struct sched *sched)
{
    return again_factor(&sched->again) / STORE_EVICTED;
}

/* The same for state that is lost. */
static double until_computed(const struct sched *sched, const struct resident *resident)
{
    double token_ns = cost_ns(&sched->cost, 0, resident->count) / (double)resident->count;

    return tokens_worth(sched, share_used(sched) * token_ns);
}

/* Less if state is seldom used again. Before the first restore, exports tell its price. At most what
 * computing it again is worth. */
static double until_restored(const struct sched *sched, const struct resident *resident)
{
    double share = MIN(again_factor(&sched->again), 1), speed = restore_speed(sched);
    double token_ns = speed > 0 ? NS_PER_S * (double)sched->facts->rows_bytes_per_token / speed : 0;
    double restored = tokens_worth(sched, share * token_ns),
           computed = until_computed(sched, resident);

    return computed > 0 ? MIN(restored, computed) : restored;
}

/* Before anything is measured: whether that many cells of a resident, beside which `work` tokens
 * are computed, cost more than restoring them, and storing any unsaved part. */
static bool seems_too_much(const struct resident *resident, uint32_t cells, uint64_t work)
{
    const struct job *unsaved = resident->unsaved;
    uint64_t to_store = unsaved != NULL && unsaved->keep.stores
                            ? resident->count - MIN(unsaved->keep.stored, resident->count)
                            : 0;

    return cells * work > (uint64_t)DEVICE_PATIENCE * cells + DEVICE_PATIENCE_STORE * to_store;
}

/* ---- taking and freeing ---- */

/* Stores its state first, if that is worth the price. */
static void free_resident(struct sched *sched, struct resident *resident, enum store_price price)
{
    save_now(resident, price);
    list_remove(&sched->residents, &resident->link);
    engine_seq_release(sched->engine, &resident->seq);
    mem_free(resident->tokens);
    mem_free(resident);
}

/* False: failed, and the job no longer has a sequence. */
static bool cut(struct job *job, uint32_t length)
{
    struct engine *engine = job->sched->engine;

    if (engine_seq_length(engine, job->seq) > length &&
        engine_seq_truncate(engine, job->seq, length, NULL) != ERR_OK)
        engine_seq_release(engine, &job->seq);
    return job->seq != SEQ_NONE;
}

/* Whether the cache could restore it. Stores it first if that is necessary and worth the price; a
 * request is waiting. */
static bool is_kept(struct resident *resident, enum store_price price)
{
    if (resident->space == NULL || !save_try(resident, price))
        return false;
    return restore_cached(resident->space, resident->tokens, resident->count) + SCHED_FLIGHT_MIN >
           resident->count;
}

/* Whether a job that is already submitted, other than `job`, will continue from it: then its cells
 * are needed anyway. */
static bool is_awaited(const struct sched *sched, const struct job *job,
                       const struct resident *resident)
{
    LIST_FOREACH (const struct job, other, &sched->jobs, link) {
        if (other == job || other->seq != SEQ_NONE ||
            !same_owner(owner_of(other), resident_owner(resident)))
            continue;
        struct sched_prompt prompt = {.tokens = other->tokens, .count = other->count};
        uint32_t shared =
            sched_common(other->tokens, other->count, resident->tokens, resident->count);
        if (usable(sched, resident->seq, shared, resident->count, &prompt) >= SCHED_FLIGHT_MIN)
            return true;
    }
    return false;
}

/* What a job that waits may pay for storing a resident: as little as possible, unless computing so
 * many tokens beside its cells costs twice as much. The job takes cells after those of the resident,
 * and attention looks at all cells before the last one in use. So it does not help if the resident
 * leaves later. */
static enum store_price price_beside(const struct sched *sched, const struct resident *resident,
                                     uint32_t cells, uint64_t work)
{
    double beside_ns = line_slope(&sched->cells_cost) * (double)cells * (double)work;
    double store_ns = resident->unsaved != NULL ? retain_cost_ns(resident->unsaved) : 0;
    double lost_ns = share_used(sched) * cost_ns(&sched->cost, 0, resident->count);

    return store_ns > 0 && beside_ns > 2 * store_ns && lost_ns > store_ns ? STORE_CERTAIN
                                                                          : STORE_UNFORCED;
}

/* Whether its cells have cost more than computing it again, if so many tokens are computed beside
 * them. */
static bool costs_more_than_computing(const struct sched *sched, const struct resident *resident,
                                      uint64_t work)
{
    double patience = until_computed(sched, resident);

    return patience > 0 && (double)(sched->computed - resident->since + work) > patience;
}

/* Whether to free the cells of a resident after `length`: if that is cheaper and the cache has
 * them, or such state is seldom used again. */
static bool should_leave(const struct job *job, uint32_t have, struct resident *resident,
                         uint32_t length)
{
    const struct sched *sched = job->sched;
    uint64_t work = job->count - have + MIN(job->room - job->count, SCHED_RESERVE);
    uint32_t cells = resident->count - length;
    double patience = until_restored(sched, resident);
    bool costs = patience > 0 ? (double)(sched->computed - resident->since + work) > patience
                              : seems_too_much(resident, cells, work);
    bool awaited = costs && is_awaited(sched, job, resident), may = costs && !awaited;
    bool kept = may && is_kept(resident, price_beside(sched, resident, cells, work));
    bool leaves = kept || (may && again_factor(&sched->again) < 1 && resident->space != NULL &&
                           costs_more_than_computing(sched, resident, work));

    log_text(sched->options.log, LOG_LEVEL_DEBUG, "device",
             "%llu has %llu tokens to compute, %u finished ones %s: worth %.0f tokens beside them, "
             "%s",
             (unsigned long long)job->id, (unsigned long long)work, cells,
             leaves ? "leave" : "stay", patience,
             !costs    ? "which is more"
             : awaited ? "awaited"
             : kept    ? "in the cache"
                       : "not in the cache");
    return leaves;
}

/* The resident's sequence becomes the job's: no fork is needed. */
static bool take_over(struct job *job, struct resident *resident, uint32_t length)
{
    struct sched *sched = job->sched;

    assert(job->seq == SEQ_NONE && length <= resident->count);
    save_pass_on(resident, job);
    job->seq = resident->seq;
    resident->seq = SEQ_NONE;
    free_resident(sched, resident, STORE_ANY_PRICE); /* nothing is left to store */
    return cut(job, length);
}

/* Copies what is known about the rows that the job shares with a match. */
static void inherit(struct job *job, const struct device_match *match)
{
    const struct resident *resident = match->resident;
    const struct job *source = resident != NULL ? resident->unsaved : match->job;
    uint32_t stored = source != NULL ? source->keep.stored : match->length;

    job->keep.stored = MIN(stored, match->length);
    job->keep.scatter =
        scatter_cut(resident != NULL ? &resident->scatter : &source->keep.scatter, match->length);
}

/* A second sequence with the content of `source`, evicting residents other than `keep` if
 * necessary. */
static enum err fork_of(struct sched *sched, seq_id source, const struct resident *keep,
                        seq_id *seq)
{
    enum err err;

    while ((err = engine_seq_fork(sched->engine, source, seq, NULL)) == ERR_LIMIT)
        if (!device_reclaim(sched, keep))
            break;
    return err;
}

bool device_take(struct job *job, const struct device_match *match)
{
    struct sched *sched = job->sched;
    const struct resident *keep = match->resident;
    seq_id source = keep != NULL ? keep->seq : match->job->seq;

    assert(match->length > 0 && match->length < job->count && source != SEQ_NONE);
    inherit(job, match);
    if (keep != NULL && (match->length == keep->count ||
                         should_leave(job, match->length, match->resident, match->length)))
        return take_over(job, match->resident, match->length);
    if (fork_of(sched, source, keep, &job->seq) != ERR_OK || !cut(job, match->length))
        return false;
    if (keep != NULL) {
        list_move_back(&sched->residents, &match->resident->link);
        match->resident->since = sched->computed;
    }
    sched_count(sched, &sched->stats.forks, 1);
    return true;
}

/* Frees residents that are prefixes of a new one: it contains all of their state. */
static void forget_shorter(struct sched *sched, const struct resident *than)
{
    if (!sched->cuttable)
        return;
    LIST_FOREACH_SAFE (struct resident, old, &sched->residents, link) {
        if (old != than && same_owner(resident_owner(old), resident_owner(than)) &&
            old->count <= than->count &&
            sched_common(old->tokens, old->count, than->tokens, than->count) == old->count) {
            save_pass_on(old, than->unsaved);
            free_resident(sched, old, STORE_ANY_PRICE);
        }
    }
}

/* Sequences of earlier requests of an ended conversation leave first. Only the part that other
 * conversations may share is stored. */
static void release_earlier(struct sched *sched, const struct job *job, const struct resident *last)
{
    uint32_t anchor = job->keep.hints.anchor;

    LIST_FOREACH_SAFE (struct resident, old, &sched->residents, link) {
        if (old == last || old->prompt <= anchor ||
            !same_owner(resident_owner(old), resident_owner(last)) ||
            sched_common(old->tokens, old->prompt, last->tokens, last->count) < old->prompt)
            continue;
        save_at_most(old, anchor);
        list_remove(&sched->residents, &old->link);
        list_push_front(&sched->residents, &old->link);
    }
}

static struct resident resident_of(const struct job *job, seq_id seq, token_id *tokens)
{
    return (struct resident){.space = job->space,
                             .tenant = job->tenant->name,
                             .lora = job->lora.before,
                             .tokens = tokens,
                             .count = job->done,
                             .prompt = MIN(job->prompt, job->done),
                             .since = job->sched->computed,
                             .seq = seq};
}

bool device_park(struct job *job)
{
    struct sched *sched = job->sched;
    struct resident *resident;

    if (!sched->options.park || job->isolated || job->done == 0)
        return false;
    resident = mem_try_alloc(sizeof(*resident));
    if (resident == NULL)
        return false;
    *resident = resident_of(job, job->seq, job->tokens);
    resident->scatter = job->keep.scatter;
    if (job->keep.stores || job->space == NULL)
        list_push_back(&sched->residents, &resident->link);
    else /* the request asked not to store it, or released it */
        list_push_front(&sched->residents, &resident->link);
    if (job->keep.stores)
        again_ended(&sched->again, job->space, job->tokens, job->resumed, job->prompt);
    if (job->keep.released)
        release_earlier(sched, job, resident);
    save_begin(resident, job);
    forget_shorter(sched, resident);
    sched_count(sched, &sched->stats.parked, 1);
    return true;
}

/* A copy of the job's tokens so far, on a second sequence. NULL: no memory or no sequence. */
static struct resident *copy_of(struct job *job)
{
    struct sched *sched = job->sched;
    struct resident *copy = mem_try_alloc(sizeof(*copy));
    token_id *tokens = mem_try_alloc_array(job->done, sizeof(*tokens));
    seq_id seq;

    if (copy == NULL || tokens == NULL || fork_of(sched, job->seq, NULL, &seq) != ERR_OK) {
        mem_free(tokens);
        mem_free(copy);
        return NULL;
    }
    memcpy(tokens, job->tokens, job->done * sizeof(*tokens));
    *copy = resident_of(job, seq, tokens);
    return copy;
}

/* A window that reaches back so far can be cut to the prompt after most answers. A copy would share
 * its cells, and no cell that is shared is reused: in a ring that is full, both would keep only what
 * they need at their ends. */
static bool reaches_back(const struct job *job)
{
    uint32_t least = engine_seq_least(job->sched->engine, job->seq);

    return least <= 1 || least + job->sched->facts->chunk <= job->done;
}

void device_keep_prompt(struct job *job)
{
    struct sched *sched = job->sched;

    if (sched->cuttable || !sched->options.park || !reads_device(job) || !job->keep.stores ||
        job->usage.generated > 0 || job->done + 1 != job->count || job->done < SCHED_FLIGHT_MIN ||
        reaches_back(job))
        return;
    struct resident *copy = copy_of(job);
    if (copy != NULL)
        list_push_back(&sched->residents, &copy->link);
}

static void evict(struct sched *sched, struct resident *resident, enum store_price price)
{
    free_resident(sched, resident, price);
    sched_count(sched, &sched->stats.reclaimed, 1);
}

static bool reclaim(struct sched *sched, const struct resident *keep, enum store_price price)
{
    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        if (resident == keep)
            continue;
        evict(sched, resident, price);
        return true;
    }
    return false;
}

bool device_reclaim(struct sched *sched, const struct resident *keep)
{
    return reclaim(sched, keep, STORE_EVICTED);
}

bool device_make_room(struct sched *sched, uint32_t cells, const struct resident *keep)
{
    while (engine_cells_free(sched->engine) < cells)
        if (!device_reclaim(sched, keep))
            return false;
    return true;
}

enum err device_acquire(struct sched *sched, seq_id *seq, struct errinfo *info)
{
    enum err err;

    while ((err = engine_seq_acquire(sched->engine, seq, info)) == ERR_LIMIT)
        if (!device_reclaim(sched, NULL))
            break;
    return err;
}

void device_trim(struct job *job, const struct resident *keep, uint32_t have)
{
    struct sched *sched = job->sched;

    LIST_FOREACH_SAFE (struct resident, resident, &sched->residents, link) {
        if (resident != keep && should_leave(job, have, resident, 0))
            evict(sched, resident, STORE_UNFORCED);
    }
}

/* Whether the cache can restore it, or its cells have cost more than computing it again. */
static bool may_go(struct sched *sched, struct resident *resident)
{
    return (resident->unsaved == NULL && is_kept(resident, STORE_UNFORCED)) ||
           costs_more_than_computing(sched, resident, 0);
}

/* The same for storing it first, unless it is cheaper to lose it. */
static double until_stored(const struct sched *sched, const struct resident *resident)
{
    double ns = resident->unsaved != NULL ? retain_cost_ns(resident->unsaved) : 0;

    return MIN(tokens_worth(sched, ns / (double)resident->count), until_computed(sched, resident));
}

bool device_tidy(struct sched *sched)
{
    LIST_FOREACH_SAFE (struct resident, resident, &sched->residents, link) {
        double patience = until_restored(sched, resident);
        double beside = (double)(sched->computed - resident->since);
        if (patience <= 0 || beside <= patience ||
            beside <= patience + until_stored(sched, resident) || is_awaited(sched, NULL, resident))
            continue;
        if (resident->unsaved != NULL && save_piece(resident, STORE_EVICTED))
            return true;
        if (may_go(sched, resident)) {
            evict(sched, resident, STORE_UNFORCED);
            return true;
        }
    }
    return false;
}

void device_clear(struct sched *sched)
{
    while (reclaim(sched, NULL, STORE_ANY_PRICE))
        ;
}

uint64_t device_forget(struct sched *sched, const struct hearth_space *space)
{
    uint64_t tokens = 0;

    LIST_FOREACH_SAFE (struct resident, resident, &sched->residents, link) {
        if (space != NULL && resident->space != space)
            continue;
        tokens += resident->count;
        /* slower tiers have it, unless they are cleared as well */
        free_resident(sched, resident, STORE_ANY_PRICE);
    }
    sched->epoch++; /* jobs deferred for lack of cells may try again */
    return tokens;
}

void device_lose(struct sched *sched)
{
    LIST_FOREACH (struct resident, resident, &sched->residents, link) {
        save_lose(resident);
    }
    device_clear(sched);
}
