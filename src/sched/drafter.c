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

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "sched/draft.h"
#include "sched/sched.h"

enum { COMMON_MIN = 32 }; /* tokens that are worth a fork */

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
    bool failed;
};

struct kept {
    struct list_node link;
    seq_id seq;
    const void *owner;
    token_id *tokens;
    uint32_t count;
};

struct drafter_job {
    struct drafter *drafter;
    const void *owner;
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

struct drafter_job *drafter_follow(struct drafter *drafter, const void *owner)
{
    struct drafter_job *job = mem_try_alloc(sizeof(*job));

    if (job != NULL)
        *job = (struct drafter_job){.drafter = drafter, .owner = owner, .seq = SEQ_NONE};
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

void drafter_leave(struct drafter_job **out, const token_id *tokens, uint32_t count)
{
    struct drafter_job *job = *out;

    *out = NULL;
    if (job == NULL)
        return;
    struct drafter *drafter = job->drafter;
    bool keep = job->seq != SEQ_NONE && !job->off && !drafter->failed && job->owner != NULL &&
                remove_wrong(job, tokens, count) && job->right >= COMMON_MIN;
    struct kept *kept = keep ? mem_try_alloc(sizeof(*kept)) : NULL;
    if (kept != NULL) {
        *kept = (struct kept){.seq = job->seq, .owner = job->owner, .count = job->right};
        kept->tokens = mem_try_alloc_array(job->right, sizeof(*tokens));
        list_push_back(&drafter->kept, &kept->link);
        job->seq = SEQ_NONE;
        if (kept->tokens != NULL)
            memcpy(kept->tokens, tokens, job->right * sizeof(*tokens));
        else
            drop_kept(drafter, kept);
    }
    engine_seq_release(drafter->engine, &job->seq);
    mem_free(job);
}

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

/* A sequence for the job: a fork of the one that has most of its tokens. */
static bool begin(struct drafter_job *job, const token_id *tokens, uint32_t count)
{
    struct drafter *drafter = job->drafter;
    const struct kept *best = NULL;
    uint32_t most = COMMON_MIN - 1;

    LIST_FOREACH (struct kept, kept, &drafter->kept, link) {
        uint32_t same = kept->owner == job->owner
                            ? sched_common(kept->tokens, kept->count, tokens, count - 1)
                            : 0;
        if (same > most) {
            best = kept;
            most = same;
        }
    }
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
    uint32_t left = count - job->right, n = MIN(left, job->drafter->facts->chunk);

    assert(left > 0);
    if (!run(job, tokens + job->right, n, n == left)) {
        job->off = true;
        return false;
    }
    job->right += n;
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
    if (!(job->seq == SEQ_NONE ? begin(job, tokens, count) : remove_wrong(job, tokens, count))) {
        job->off = true;
        return 0;
    }
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
