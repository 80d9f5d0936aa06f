/*
 * drafter.c: see the header.
 *
 *      job's tokens   | prompt ............... | answer ........ |
 *      drafter's      | the same ....................... | guesses |
 *                     0                                right
 *
 * `right` is the number of tokens that the sequence has in common with the job. Before new guesses
 * the others are removed, and what the answer has gained is computed with the last of its tokens.
 */
#include "sched/drafter.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include <hearth/hearth.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/state.h"
#include "sched/draft.h"
#include "sched/sched.h"

enum {
    COMMON_MIN = 32,          /* tokens that are worth a fork, or a restore */
    RESTORE_MS_MAX = 10000,   /* then it computes */
    MEASURED_TOKENS_MIN = 32, /* fewer say nothing about the speed of a prefill */
};

static const double chance_first = 0.7, learn_part = 0.05, forget_part = 0.002;
static const double certain_min = 0.4; /* a guess that is less probable ends a draft */

struct drafter {
    struct engine *engine;
    const struct engine_facts *facts;
    struct clock *clock;
    struct log *log;
    struct list kept; /* sequences of ended jobs, oldest first */
    uint32_t min;
    double chance, guess_ns;
    double tokens_per_s; /* of prefill; 0: not known */
    bool failed;
};

struct kept {
    struct list_node link;
    seq_id seq;
    struct drafter_cache cache;
    token_id *tokens;
    uint32_t count, saved; /* tokens; those that were offered to the cache */
    bool unsaved;
};

struct drafter_job {
    struct drafter *drafter;
    struct drafter_cache cache;
    /* while it is restored: the plan, its objects, how many are in the sequence */
    struct hearth_plan *plan;
    struct state_object *objects;
    size_t imported;
    uint64_t deadline_ns;
    seq_id seq;
    uint32_t right;                     /* tokens of the sequence that are the job's */
    token_id guessed[DRAFT_TOKENS_MAX]; /* after `right` */
    uint32_t guessed_count;
    bool off; /* it has tokens that this model lacks, or there is no room */
};

/* ---- the models ---- */

static bool same_token(const struct engine *a, const struct engine *b, token_id token)
{
    char one[256], two[256];
    size_t len = engine_token_bytes(a, token, true, one, sizeof(one));

    return len == engine_token_bytes(b, token, true, two, sizeof(two)) &&
           memcmp(one, two, MIN(len, sizeof(one))) == 0 &&
           engine_token_is_end(a, token) == engine_token_is_end(b, token);
}

enum err drafter_check(const struct engine *main, const struct engine *engine, struct errinfo *info)
{
    const struct engine_facts *a = engine_facts(main), *b = engine_facts(engine);
    char names[64];

    if (a->vocab != b->vocab)
        return err_set(info, ERR_INVALID,
                       "--model-draft: %s has %u tokens, the model has %u; both need the same "
                       "vocabulary",
                       b->name, b->vocab, a->vocab);
    for (token_id token = 0; (uint32_t)token < a->vocab; token++)
        if (!same_token(main, engine, token))
            return err_set(info, ERR_INVALID,
                           "--model-draft: token %d of %s is another one in the model; both need "
                           "the same vocabulary",
                           token, b->name);
    if (b->embed.whole || !kind_set_sliceable(b->kinds))
        return err_set(info, ERR_UNSUPPORTED,
                       "--model-draft: %s has layers of the kinds %s, whose state cannot be "
                       "truncated; use a model with full attention only",
                       b->name, kind_set_names(b->kinds, names, sizeof(names)));
    return ERR_OK;
}

struct drafter *drafter_create(struct engine *engine, uint32_t min, struct clock *clock,
                               struct log *log)
{
    struct drafter *drafter = mem_alloc(sizeof(*drafter));

    *drafter = (struct drafter){.engine = engine,
                                .facts = engine_facts(engine),
                                .min = min,
                                .clock = clock,
                                .log = log,
                                .chance = chance_first};
    list_init(&drafter->kept);
    return drafter;
}

/* ---- sequences ---- */

static void drop_kept(struct drafter *drafter, struct kept *kept)
{
    list_remove(&drafter->kept, &kept->link);
    engine_seq_release(drafter->engine, &kept->seq);
    mem_free(kept->tokens);
    mem_free(kept);
}

/* Frees the oldest one. */
static bool drop_oldest(struct drafter *drafter)
{
    LIST_FOREACH_SAFE (struct kept, kept, &drafter->kept, link) {
        drop_kept(drafter, kept);
        return true;
    }
    return false;
}

void drafter_destroy(struct drafter **drafter)
{
    if (*drafter == NULL)
        return;
    while (drop_oldest(*drafter))
        ;
    mem_free(*drafter);
    *drafter = NULL;
}

struct drafter_job *drafter_follow(struct drafter *drafter, const struct drafter_cache *cache)
{
    struct drafter_job *job = mem_try_alloc(sizeof(*job));

    if (job != NULL)
        *job = (struct drafter_job){.drafter = drafter, .cache = *cache, .seq = SEQ_NONE};
    return job;
}

/* Compares the guesses with what came, and removes those that were wrong. */
static bool remove_wrong(struct drafter_job *job, const token_id *tokens, uint32_t count)
{
    struct drafter *drafter = job->drafter;
    uint32_t seen = MIN(job->guessed_count, count - job->right), hits = 0;

    while (hits < seen && job->guessed[hits] == tokens[job->right + hits])
        hits++;
    for (uint32_t i = 0; i < MIN(hits + 1, seen); i++)
        drafter->chance += ((i < hits) - drafter->chance) * learn_part;
    uint32_t length = engine_seq_length(drafter->engine, job->seq);
    /* The last token is computed again if need be: its logits are wanted. */
    job->right = MIN(MIN(job->right + hits, length), count - 1);
    job->guessed_count = 0;
    return engine_seq_truncate(drafter->engine, job->seq, job->right, NULL) == ERR_OK;
}

static void end_restore(struct drafter_job *job)
{
    hearth_plan_release(&job->plan);
    mem_free(job->objects);
    job->objects = NULL;
}

void drafter_leave(struct drafter_job **out, const token_id *tokens, uint32_t count)
{
    struct drafter_job *job = *out;

    *out = NULL;
    if (job == NULL)
        return;
    struct drafter *drafter = job->drafter;
    bool keep = job->seq != SEQ_NONE && job->plan == NULL && !job->off && !drafter->failed &&
                job->cache.owner != NULL && remove_wrong(job, tokens, count) &&
                job->right >= COMMON_MIN;
    struct kept *kept = keep ? mem_try_alloc(sizeof(*kept)) : NULL;
    if (kept != NULL) {
        *kept = (struct kept){.seq = job->seq, .cache = job->cache, .count = job->right};
        kept->unsaved = job->cache.space != NULL && job->cache.stores;
        kept->tokens = mem_try_alloc_array(job->right, sizeof(*tokens));
        list_push_back(&drafter->kept, &kept->link);
        job->seq = SEQ_NONE;
        if (kept->tokens != NULL)
            memcpy(kept->tokens, tokens, job->right * sizeof(*tokens));
        else
            drop_kept(drafter, kept);
    }
    end_restore(job);
    engine_seq_release(drafter->engine, &job->seq);
    mem_free(job);
}

/* ---- rows to the cache ---- */

/* Stores the next rows that it lacks. False: it has all, or takes no more. Rows that were evicted
 * meanwhile are not stored again, so this ends. */
static bool put_next(struct drafter *drafter, struct kept *kept)
{
    const struct hearth_store_hints hints = {.struct_size = sizeof(hints),
                                             .entry = HEARTH_ENTRY_ASSISTANT,
                                             .generated = true,
                                             .prompt = kept->count,
                                             .no_disk = kept->cache.no_disk};
    struct hearth_space *space = kept->cache.space;
    struct hearth_store *store;
    struct state_shape shape;
    uint32_t begin, end;
    void *memory;

    if (hearth_store_open(space, kept->tokens, kept->count, &hints, &store) != HEARTH_OK)
        return false;
    bool more = hearth_store_next(store, &begin, &end) && begin >= kept->saved;
    uint64_t bytes = more ? state_range_capacity(drafter->engine, kept->seq, begin, end) : 0;
    more = bytes > 0 &&
           hearth_store_reserve(store, HEARTH_OBJECT_ROWS, begin, end, bytes, &memory) == HEARTH_OK;
    memset(&shape, 0, sizeof(shape)); /* the padding is stored as well */
    if (more)
        more = state_export_rows(drafter->engine, kept->seq, begin, end, memory, bytes, &shape,
                                 NULL) == ERR_OK &&
               hearth_store_commit(store, shape.bytes, &shape, sizeof(shape)) == HEARTH_OK;
    hearth_store_close(&store);
    if (more)
        kept->saved = end;
    return more;
}

bool drafter_has_unsaved(const struct drafter *drafter)
{
    if (drafter == NULL || drafter->failed)
        return false;
    LIST_FOREACH (struct kept, kept, &drafter->kept, link)
        if (kept->unsaved)
            return true;
    return false;
}

bool drafter_save(struct drafter *drafter)
{
    if (!drafter_has_unsaved(drafter))
        return false;
    LIST_FOREACH (struct kept, kept, &drafter->kept, link) {
        if (!kept->unsaved)
            continue;
        /* Eviction compares what bytes save: these save little. */
        if (drafter->tokens_per_s > 0)
            hearth_space_set_speed(kept->cache.space, drafter->tokens_per_s, 0);
        kept->unsaved = put_next(drafter, kept);
        break;
    }
    return true;
}

void drafter_forget(struct drafter *drafter, const struct hearth_space *space)
{
    if (drafter == NULL)
        return;
    LIST_FOREACH_SAFE (struct kept, kept, &drafter->kept, link)
        if (space == NULL || kept->cache.owner == space || kept->cache.space == space)
            drop_kept(drafter, kept);
}

/* ---- a sequence for a job ---- */

static seq_id acquire(struct drafter *drafter, const struct kept *source)
{
    seq_id seq = SEQ_NONE;

    for (;;) {
        enum err err = source != NULL ? engine_seq_fork(drafter->engine, source->seq, &seq, NULL)
                                      : engine_seq_acquire(drafter->engine, &seq, NULL);
        if (err == ERR_OK)
            return seq;
        /* Without room for a fork, the prompt is computed: the source may be the oldest. */
        source = NULL;
        if (!drop_oldest(drafter))
            return SEQ_NONE;
    }
}

/* Begins to restore from the cache, if that has clearly more than `most` tokens. */
static bool begin_restore(struct drafter_job *job, const token_id *tokens, uint32_t count,
                          uint32_t most)
{
    struct drafter *drafter = job->drafter;

    if (job->cache.space == NULL ||
        hearth_lookup(job->cache.space, tokens, count, NULL, &job->plan) != HEARTH_OK)
        return false;
    const struct hearth_plan_info *info = hearth_plan_info(job->plan);
    if (info->boundary < most + COMMON_MIN ||
        (job->objects = mem_try_alloc_array(info->objects_count, sizeof(*job->objects))) == NULL) {
        end_restore(job);
        return false;
    }
    for (size_t i = 0; i < info->objects_count; i++) {
        const struct hearth_object *object = &info->objects[i];
        memset(&job->objects[i], 0, sizeof(job->objects[i]));
        if (object->shape_bytes == sizeof(job->objects[i].shape))
            memcpy(&job->objects[i].shape, object->shape, object->shape_bytes);
    }
    job->imported = 0;
    job->deadline_ns = clock_mono_ns(drafter->clock) + RESTORE_MS_MAX * NS_PER_MS;
    hearth_plan_prefetch(job->plan);
    return true;
}

/* Imports the next object. ERR_TIMEOUT: it has not arrived. */
static enum err import_next(struct drafter_job *job)
{
    struct engine *engine = job->drafter->engine;
    const struct hearth_plan_info *info = hearth_plan_info(job->plan);
    const struct state_restore restore = {
        .rows = job->objects, .rows_count = info->objects_count, .length = info->boundary};
    size_t index = job->imported;

    int error = hearth_plan_fetch(job->plan, index, 0, &job->objects[index].data);
    if (error != HEARTH_OK)
        return error == HEARTH_ERROR_TIMEOUT ? ERR_TIMEOUT : ERR_NOT_FOUND;
    while (job->seq == SEQ_NONE) {
        enum err err = state_import_begin(engine, &restore, &job->seq, NULL);
        if (err != ERR_OK && (err != ERR_LIMIT || !drop_oldest(job->drafter)))
            return err;
    }
    TRY(state_import_object(engine, &restore, index, &job->seq, NULL));
    if (++job->imported < info->objects_count)
        return ERR_BUSY;
    TRY(state_import_end(engine, &restore, &job->seq, NULL));
    job->right = info->boundary;
    hearth_plan_accept(job->plan);
    return ERR_OK;
}

/* One step of a restore. False: it takes another one. */
static bool continue_restore(struct drafter_job *job)
{
    struct drafter *drafter = job->drafter;
    enum err err = import_next(job);

    if (err == ERR_BUSY || (err == ERR_TIMEOUT && clock_mono_ns(drafter->clock) < job->deadline_ns))
        return false;
    if (err == ERR_CORRUPT || err == ERR_INVALID) /* it is of no use to others, either */
        hearth_plan_shorten(job->plan, job->imported, HEARTH_REASON_REFUSED);
    end_restore(job);
    if (err != ERR_OK) {
        engine_seq_release(drafter->engine, &job->seq);
        job->cache.space = NULL; /* computes instead, and stores nothing */
    } else {
        LOG_DEBUG(drafter->log, "sched", "state of the draft model restored",
                  LOG_UINT("tokens", job->right));
    }
    return true;
}

/* A sequence for the job: a fork of the one that has most of its tokens, or rows of the cache. */
static bool begin(struct drafter_job *job, const token_id *tokens, uint32_t count)
{
    struct drafter *drafter = job->drafter;
    const struct kept *best = NULL;
    uint32_t most = COMMON_MIN - 1;

    LIST_FOREACH (struct kept, kept, &drafter->kept, link) {
        uint32_t same = kept->cache.owner == job->cache.owner
                            ? sched_common(kept->tokens, kept->count, tokens, count - 1)
                            : 0;
        if (same > most) {
            best = kept;
            most = same;
        }
    }
    if (begin_restore(job, tokens, count, most))
        return true;
    job->seq = acquire(drafter, best);
    if (job->seq == SEQ_NONE)
        return false;
    job->right = MIN(engine_seq_length(drafter->engine, job->seq), most);
    return engine_seq_truncate(drafter->engine, job->seq, job->right, NULL) == ERR_OK;
}

/* ---- guessing ---- */

double drafter_chance(const struct drafter *drafter)
{
    return drafter->failed ? 0 : drafter->chance;
}

double drafter_guess_ns(const struct drafter *drafter)
{
    return drafter->guess_ns;
}

void drafter_skip(struct drafter *drafter)
{
    drafter->chance += (chance_first - drafter->chance) * forget_part;
}

static bool run(struct drafter_job *job, const token_id *tokens, uint32_t count, bool logits)
{
    struct drafter *drafter = job->drafter;
    struct engine_item item = {job->seq, tokens, count, logits};
    struct errinfo info = {0};
    enum err err;

    for (uint32_t i = 0; i < count; i++)
        if (!engine_token_valid(drafter->engine, tokens[i])) /* a picture, or a salted key */
            return false;
    while ((err = engine_run(drafter->engine, &item, 1, &info)) == ERR_LIMIT)
        if (!drop_oldest(drafter))
            return false;
    if (err == ERR_OK)
        return true;
    drafter->failed = true;
    LOG_ERROR(drafter->log, "sched", "the draft model failed and is not used any more",
              LOG_STR("error", info.text));
    return false;
}

/* The most probable token. *certain: how probable it is. */
static token_id pick(const float *logits, uint32_t vocab, double *certain)
{
    uint32_t best = 0;
    double sum = 0;

    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - logits[best]);
    *certain = 1 / sum;
    return (token_id)best;
}

/* Computes what the sequence lacks, a chunk at most. False: more is left, or it failed. */
static bool catch_up(struct drafter_job *job, const token_id *tokens, uint32_t count)
{
    struct drafter *drafter = job->drafter;
    uint32_t left = count - job->right, n = MIN(left, drafter->facts->chunk);
    uint64_t begin_ns = clock_mono_ns(drafter->clock);

    assert(left > 0);
    if (!run(job, tokens + job->right, n, n == left)) {
        job->off = true;
        return false;
    }
    job->right += n;
    if (n >= MEASURED_TOKENS_MIN)
        drafter->tokens_per_s =
            n * (double)NS_PER_S / (double)MAX(clock_mono_ns(drafter->clock) - begin_ns, 1);
    return n == left;
}

uint32_t drafter_guess(struct drafter_job *job, const token_id *tokens, uint32_t count,
                       token_id *next, uint32_t max)
{
    struct drafter *drafter = job->drafter;
    uint64_t begin_ns = clock_mono_ns(drafter->clock);
    uint32_t found = 0;
    double certain;

    if (job->off || drafter->failed || max == 0)
        return 0;
    if (job->plan != NULL && !continue_restore(job))
        return 0;
    if (!(job->seq == SEQ_NONE ? begin(job, tokens, count) : remove_wrong(job, tokens, count))) {
        job->off = true;
        return 0;
    }
    if (job->plan != NULL)
        return 0;
    bool small = count - job->right <= 2;
    if (!catch_up(job, tokens, count))
        return 0;
    for (max = MIN(max, DRAFT_TOKENS_MAX); found < max;) {
        if (found > 0 && !run(job, next + found - 1, 1, true))
            break;
        token_id token = pick(engine_logits(drafter->engine, 0), drafter->facts->vocab, &certain);
        if (certain < certain_min)
            break;
        next[found++] = token;
    }
    memcpy(job->guessed, next, found * sizeof(*next));
    job->guessed_count = found;
    if (found > 0 && small)
        drafter->guess_ns = (double)(clock_mono_ns(drafter->clock) - begin_ns) / found;
    return found >= drafter->min ? found : 0;
}
