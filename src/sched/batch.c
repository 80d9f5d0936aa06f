/*
 * batch.c: choosing the next batch and processing its results.
 *
 *      | decode: one token each | prefill: next chunk of the fairest job | of the next one | ...
 *
 * Decoding comes first and never waits for a prompt. Prompts share the rest of the batch, limited
 * to a bounded number of tokens while any job decodes, and a part of the time belongs to decoding
 * alone. An exact scheduler runs one job, one chunk of its schedule at a time, and settles after
 * each.
 *
 * Vectors need their own batches. They take turns with all others, and count as prefill beside
 * decoding. An encoder and a mean need vectors of all tokens; `last` and `rank` those of the last
 * one, after a prefill like any other.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "sched/sched_impl.h"

enum {
    PIECE_MIN = 64,
    FLOOR_S = 10, /* a prompt that is computed in the smallest chunks for so long ends */
    BAR_TOKENS_MIN = 2048,
    /* answers that go on beside prefills get one part in this many of that time for themselves */
    DECODE_PART = 4,
    /* batches with one set of adapters in a row while jobs with another are ready. A change makes
     * the library plan its memory again: 11 ms of processor time in a model of 28 layers, a tenth
     * of a decode step on a CPU (so 1 % of the time here), but as much as a step of a fast GPU */
    LORA_TURNS = 8,
    DECODE_SMALL = 8, /* with more than one decoded token in so many, a run is no prefill */
    BURST_FIRST = 2,  /* runs without outputs whose own time says nothing */
};

/* ---- filling ---- */

/* The set of adapters that computes the job's next token. */
static const struct lora_set *lora_of(const struct job *job)
{
    return lora_plan_at(&job->lora, job->done);
}

static bool in_set(const struct job *job)
{
    return lora_set_eq(lora_of(job), &job->sched->lora);
}

/* A batch has one set of adapters. Of several, each has LORA_TURNS batches; then comes the job that
 * has waited longest. */
static void choose_lora(struct sched *sched)
{
    const struct job *next = NULL;
    bool more = false;

    LIST_FOREACH (const struct job, job, &sched->jobs, link) {
        if (job->phase != GEN_DECODE && job->phase != GEN_PREFILL)
            continue;
        if (in_set(job))
            more = true;
        else if (next == NULL || job->wait.turns > next->wait.turns)
            next = job;
    }
    if (next == NULL)
        sched->lora_turns = 0;
    else if (!more || ++sched->lora_turns > LORA_TURNS) {
        sched->lora = *lora_of(next);
        sched->lora_turns = 0;
    }
}

/* The tokens that the engine is to run; the cache knows some by other numbers. */
static const token_id *tokens_of_item(struct job *job, uint32_t count)
{
    const struct engine_facts *facts = job->sched->facts;

    if (!lora_is_salted(&job->lora, job->done, count, job->prompt))
        return job->tokens + job->done;
    if (job->unsalted == NULL)
        job->unsalted = mem_alloc_array(facts->chunk, sizeof(*job->unsalted));
    assert(count <= facts->chunk);
    memcpy(job->unsalted, job->tokens + job->done, count * sizeof(*job->unsalted));
    lora_unsalt(&facts->lora, &job->lora, facts->vocab, job->unsalted, job->done, count,
                job->prompt);
    return job->unsalted;
}

static void add_item(struct sched *sched, struct job *job, uint32_t count, uint32_t logits)
{
    size_t at = sched->batch_count++;

    assert(at < sched->batch_cap);
    sched->items[at] = (struct engine_item){job->seq, tokens_of_item(job, count), count, logits};
    sched->batch[at] = job;
}

static void add_decoding(struct sched *sched)
{
    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        if (job->phase == GEN_DECODE && in_set(job) && sched->batch_count < sched->ladder.items_max)
            add_item(sched, job, 1, 1);
    }
}

bool batch_grow_tokens(struct job *job, uint32_t count)
{
    if (count <= job->capacity)
        return true;
    uint32_t capacity = MAX(count, job->capacity + job->capacity / 2);
    token_id *tokens = mem_try_realloc(job->tokens, capacity * sizeof(*tokens));
    if (tokens == NULL)
        return false;
    job->tokens = tokens;
    job->capacity = capacity;
    return true;
}

static bool in_batch(const struct sched *sched, const struct job *job)
{
    for (size_t i = 0; i < sched->batch_count; i++)
        if (sched->batch[i] == job)
            return true;
    return false;
}

/* Whether answers of the same tenant go on alone now. */
static bool must_wait(const struct sched *sched, const struct job *job)
{
    if (sched->decode_owed_ns == 0)
        return false;
    LIST_FOREACH (const struct job, other, &sched->jobs, link) {
        if (other->phase == GEN_DECODE && in_set(other) && other->tenant == job->tenant)
            return true;
    }
    return false;
}

/* Whether the next tokens of a job belong into a batch for vectors. */
static bool wants_vector(const struct job *job)
{
    return job->vector != NULL && (sched_embeds_all(job->sched) || job->done + 1 == job->count);
}

/* The piece of a picture that the job computes next; NULL: text. */
static const struct picture_piece *next_piece(const struct job *job)
{
    for (size_t i = 0; job->phase == GEN_PREFILL && i < job->gen->pictures_count; i++)
        if (job->gen->pictures[i].at == job->done)
            return &job->gen->pictures[i];
    return NULL;
}

static struct job *next_prefill(struct sched *sched, bool picture)
{
    struct job *best = NULL;

    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        if (job->phase == GEN_PREFILL && in_set(job) && wants_vector(job) == sched->vectors &&
            !in_batch(sched, job) && !must_wait(sched, job) &&
            (next_piece(job) != NULL) == picture && (best == NULL || fair_before(job, best)))
            best = job;
    }
    return best;
}

/* Jobs that wait for this job's prefix must be able to fork it where the prompts diverge. Some
 * state kinds allow that only while the sequence is exactly that long. */
static uint32_t stop_for_followers(const struct job *job, uint32_t end)
{
    LIST_FOREACH (struct job, other, &job->sched->jobs, link) {
        if (other->wait.leader == job && other->wait.until > job->done)
            end = MIN(end, other->wait.until);
    }
    return end;
}

static bool decodes(const struct sched *sched)
{
    LIST_FOREACH (const struct job, job, &sched->jobs, link) {
        if (job->phase == GEN_DECODE && in_set(job))
            return true;
    }
    return false;
}

/* Whether the next batch is for vectors. */
static bool choose_vectors(struct sched *sched)
{
    bool last = sched->vectors;

    sched->vectors = true;
    bool some = next_prefill(sched, false) != NULL;
    sched->vectors = false;
    if (!some || !last)
        return some;
    return !decodes(sched) && next_prefill(sched, false) == NULL &&
           next_prefill(sched, true) == NULL;
}

/* Where the next chunk of a job ends. A job that needs no snapshot has no cuts. */
static uint32_t chunk_end(const struct job *job)
{
    const struct sched *sched = job->sched;
    uint32_t last = job->count;

    if (sched->facts->embed.whole)
        return last;
    if (job->vector != NULL && !sched->vectors)
        last--;
    if (!sched->options.exact && sched->cuttable) {
        uint32_t end = MIN(job->done + job->schedule.grid, last);
        if (job->done < job->lora.from)
            end = MIN(end, job->lora.from);
        return schedule_clip(&job->schedule, job->done, end);
    }
    return MIN(stop_for_followers(job, schedule_next(&job->schedule, job->done)), last);
}

/* Logits that the batch may still have, after one for each sequence that is not in it. */
static uint32_t outputs_left(const struct sched *sched)
{
    uint32_t taken =
        sched->facts->sequences - MIN((uint32_t)sched->batch_count, sched->facts->sequences);

    for (size_t i = 0; i < sched->batch_count; i++)
        taken += MAX(sched->items[i].logits, 1u);
    return sched->facts->outputs - MIN(taken, sched->facts->outputs);
}

static uint32_t cells_used(const struct sched *sched)
{
    return sched->facts->context - MIN(engine_cells_free(sched->engine), sched->facts->context);
}

/* The tokens of a chunk that fit into the memory below `hard`. Notes since when only the smallest
 * chunk does. */
static uint32_t shrink(struct sched *sched, uint32_t wanted)
{
    uint32_t chunk = memory_chunk(sched->memory, wanted, cells_used(sched) + wanted);

    if (chunk >= MIN(wanted, GUARD_CHUNK_FLOOR + 1))
        sched->floor_ns = 0;
    else if (sched->floor_ns == 0)
        sched->floor_ns = MAX(sched_now_ns(sched), 1);
    return chunk;
}

/* `decoding` tokens of the batch belong to answers. */
static void add_prefilling(struct sched *sched, uint32_t decoding)
{
    bool beside = sched->batch_count > 0 || (sched->vectors && decodes(sched));
    bool fixed = sched->options.exact || sched->facts->embed.whole;
    /* One more token than the engine computes at once would take a second run for that token. */
    uint32_t left = sched->facts->chunk - MIN(decoding, sched->facts->chunk / 2);
    if (beside)
        left = MIN(sched->options.prefill_beside, left);
    struct job *first = NULL;

    /* An exact run and an encoder cannot choose their chunks. */
    if (!fixed && next_prefill(sched, false) != NULL)
        left = MIN(shrink(sched, left), sched->ladder.tokens_max);
    for (struct job *job; left > 0 && sched->batch_count < sched->ladder.items_max &&
                          (job = next_prefill(sched, false)) != NULL;) {
        uint32_t count = chunk_end(job) - job->done;
        if (count > left && first != NULL && left < PIECE_MIN)
            return;
        if (first != NULL &&
            fair_behind(first, job)) /* do not delay its first token by filling up the batch */
            return;
        first = first != NULL ? first : job;
        if (count > left && fixed)
            return;
        count = MIN(count, left);
        bool scores = job->gen->score_prompt;
        if (scores)
            count = MIN(count, outputs_left(sched) + 1);
        bool last = job->vector == NULL && job->done + count == job->count;
        add_item(sched, job, count, scores ? count : last);
        left -= count;
    }
}

/* A picture is computed alone: turns with one alternate with turns of text. */
static const struct picture_piece *add_picture(struct sched *sched)
{
    struct job *job = next_prefill(sched, true);
    bool last = sched->saw;

    sched->saw = job != NULL && !(last && (decodes(sched) || next_prefill(sched, false) != NULL));
    if (!sched->saw)
        return NULL;
    const struct picture_piece *piece = next_piece(job);
    sched->items[0] = (struct engine_item){job->seq, job->tokens + job->done, piece->count, 0};
    sched->batch[0] = job;
    sched->batch_count = 1;
    return piece;
}

/* ---- afterwards ---- */

static void end_with(struct job *job, enum gen_end end)
{
    job_end(job, end, ERR_OK, NULL);
}

/* Passes the sampled token to the sink and decides whether the job continues. False: it ended. */
static bool take_token(struct job *job, const struct sample_pick *pick)
{
    const struct engine *engine = job->sched->engine;
    bool last = engine_token_is_end(engine, pick->token);
    struct gen_token token = {.token = pick->token,
                              .pick = pick,
                              .index = job->usage.generated,
                              .text = STR_NONE,
                              .times = job->times};

    token.times.ended = sched_now_ns(job->sched);
    job->tokens[job->count++] = pick->token;
    job->usage.generated++;
    if (last) {
        end_with(job, GEN_END_STOP);
        return false;
    }
    drafts_follow(job);
    buf_clear(&job->text);
    enum err err = detok_push(&job->detok, pick->token, &job->text);
    if (err != ERR_OK) {
        job_end(job, GEN_END_ERROR, err, NULL);
        return false;
    }
    token.text = buf_text(&job->text);
    bool more = job->gen->sink.token(job->gen->sink.arg, &token);
    if (more && job->count < job->room)
        return true;
    if (!more && job_cancelled(job)) /* the client disconnected, and the sink noticed first */
        job_end(job, GEN_END_CANCELLED, ERR_CANCELLED, NULL);
    else
        end_with(job, more ? GEN_END_LENGTH : GEN_END_SINK);
    return false;
}

static enum err pick_token(struct job *job, size_t index, uint32_t nth, struct sample_pick *pick,
                           struct errinfo *info)
{
    struct gen *gen = job->gen;

    if (gen->forced_count == 0)
        return sampler_pick_nth(job->sampler, index, nth, pick, info);
    gen->forced_count--;
    return sampler_take(job->sampler, *gen->forced++, pick, info);
}

/* Picks the next token from the nth logits of item `index`; `guessed` is TOKEN_NONE or the guess
 * for it. False: the job ended. */
static bool sample(struct job *job, size_t index, uint32_t nth, token_id guessed)
{
    struct errinfo info = {0};
    struct sample_pick pick;

    if (job->times.first_token == 0) {
        job->times.first_token = sched_now_ns(job->sched);
        drafts_begin(job);
    }
    job_set_phase(job, GEN_DECODE);
    enum err err = batch_grow_tokens(job, job->count + 1)
                       ? pick_token(job, index, nth, &pick, &info)
                       : ERR_NOMEM;
    if (err != ERR_OK) {
        job_end(job, GEN_END_ERROR, err, info.text[0] != '\0' ? &info : NULL);
        return false;
    }
    if (pick.token == guessed)
        drafts_accept(job);
    return take_token(job, &pick);
}

/* The item of a job had its next token and `guesses` for those after it. */
static void verify(struct job *job, size_t index, uint32_t guesses)
{
    bool scattered = job->sched->batch_count > 1, right = true;
    struct errinfo info = {0};

    job->usage.drafted += guesses;
    for (uint32_t nth = 0; right; nth++) {
        token_id guessed = nth < guesses ? job->tokens[job->count] : TOKEN_NONE;
        job->done++;
        if (scattered)
            scatter_add(&job->keep.scatter, job->done - 1);
        if (!sample(job, index, nth, guessed))
            return;
        right = job->tokens[job->count - 1] == guessed;
    }
    if (!drafts_trim(job)) {
        err_set(&info, ERR_ENGINE, "the engine could not remove the rows of drafts");
        job_end(job, GEN_END_ERROR, ERR_ENGINE, &info);
    }
}

void batch_end_bar(struct job *job, bool done)
{
    if (job->sched->bar_id == job->id)
        progress_finish(&job->sched->bar, done);
}

static void show_progress(struct job *job)
{
    struct sched *sched = job->sched;

    if (job->gen->sink.progress != NULL && job->started)
        job->gen->sink.progress(job->gen->sink.arg, &job->usage, MIN(job->done, job->prompt));
    if (!sched->options.progress || job->count - job->resumed < BAR_TOKENS_MIN)
        return;
    if (sched->bar == NULL) {
        sched->bar = progress_create(2, PROGRESS_STYLE_AUTO, "prefill", PROGRESS_UNIT_TOKENS,
                                     sched->options.clock);
        sched->bar_id = job->id;
    }
    if (sched->bar_id != job->id)
        return;
    progress_update(sched->bar, job->done, job->count);
    if (job->done == job->count)
        batch_end_bar(job, true);
}

static bool settle(struct job *job)
{
    struct errinfo info = {0};

    if (!job->sched->options.exact ||
        engine_seq_settle(job->sched->engine, job->seq, &info) == ERR_OK)
        return true;
    job_end(job, GEN_END_ERROR, ERR_ENGINE, &info);
    return false;
}

/* The logits of a token are those of the one after it. A job that was preempted computes some
 * again. False: the job ended. */
static bool score(struct job *job, size_t index, uint32_t count)
{
    struct errinfo info = {0};
    struct sample_pick pick;

    for (uint32_t nth = 0; nth < count && job->done + nth + 1 < job->prompt; nth++) {
        uint32_t at = job->done + nth + 1;
        if (at <= job->scored)
            continue;
        enum err err = sampler_score(job->sampler, index, nth, job->gen->tokens[at], &pick, &info);
        if (err != ERR_OK) {
            job_end(job, GEN_END_ERROR, err, &info);
            return false;
        }
        job->scored = at;
        job->gen->sink.scored(job->gen->sink.arg, &pick);
    }
    return true;
}

/* Combines what was computed of a vector: a mean is the sum of weighted means. */
static bool add_vector(struct job *job, size_t index, uint32_t count)
{
    const struct sched *sched = job->sched;
    const float *vector = engine_embedding(sched->engine, index);
    struct errinfo info = {0};
    float weight = (float)count / (float)job->count;

    if (vector == NULL) {
        err_set(&info, ERR_ENGINE, "the library computed no vector");
        job_end(job, GEN_END_ERROR, ERR_ENGINE, &info);
        return false;
    }
    bool parts = sched_embeds_all(sched) && count < job->count;
    for (uint32_t i = 0; i < sched->facts->embed.size; i++)
        job->vector[i] =
            parts ? (job->done == count ? 0 : job->vector[i]) + weight * vector[i] : vector[i];
    return true;
}

static void after_prefill(struct job *job, size_t index, uint32_t count)
{
    if (job->gen->score_prompt && !score(job, index, count))
        return;
    job->done += count;
    assert(job->done <= job->count);
    if (job->done < job->count && !settle(job))
        return;
    if (job->sched->vectors && !add_vector(job, index, count))
        return;
    show_progress(job);
    /* The last token is run for its logits. The state that includes it is stored at the end. */
    if (job->done < job->count) {
        retain_on_the_way(job);
        device_keep_prompt(job);
        return;
    }
    beside_end(job);
    if (job->vector == NULL) {
        sample(job, index, job->sched->items[index].logits - 1, TOKEN_NONE);
    } else {
        job->times.first_token = sched_now_ns(job->sched);
        end_with(job, GEN_END_STOP);
    }
}

static void after_item(struct job *job, size_t index, uint32_t count)
{
    assert(job->phase == GEN_PREFILL || job->phase == GEN_DECODE);
    job->wait.turns = 0;
    fair_charge(job, count);
    if (job->phase == GEN_PREFILL)
        after_prefill(job, index, count);
    else
        verify(job, index, count - 1);
}

static bool has_outputs(const struct sched *sched)
{
    for (size_t i = 0; i < sched->batch_count; i++)
        if (sched->items[i].logits > 0)
            return true;
    return sched->vectors;
}

/* A device computes on after a run without outputs, so that its time is that of the runs before it,
 * and the next run with outputs waits for all of them. So the first of them count together with
 * that one; after that a run takes as long as the one before. False: this run says nothing. */
static bool is_sample(struct sched *sched, struct cost_work *work, uint64_t *tokens, uint64_t *ns)
{
    struct burst *burst = &sched->burst;

    if (sched->facts->device_total == 0) /* a CPU computes in the run */
        return true;
    if (!has_outputs(sched)) {
        if (++burst->runs > BURST_FIRST)
            return true;
        burst->tokens += *tokens;
        burst->ns += *ns;
        cost_join(&burst->work, work);
        return false;
    }
    bool whole = burst->runs <= BURST_FIRST;
    *tokens += burst->tokens;
    *ns += burst->ns;
    cost_join(work, &burst->work);
    *burst = (struct burst){0};
    return whole;
}

/* Of the batch, before its tokens are counted as done. */
static struct cost_work work_of(const struct sched *sched)
{
    struct cost_work work = {.count = {[COST_RUN] = 1}};

    for (size_t i = 0; i < sched->batch_count; i++)
        cost_add(&work, sched->batch[i]->done, sched->items[i].count, sched->items[i].logits);
    return work;
}

/* A step that decodes `decoding` of its tokens, `answers` of them no drafts, is divided between the
 * two kinds of work by tokens. */
static void measure(struct sched *sched, uint64_t tokens, uint64_t decoding, uint64_t answers,
                    uint64_t ns)
{
    uint64_t decode_ns = (uint64_t)((double)ns * (double)decoding / (double)tokens);

    lock_enter(&sched->lock);
    sched->stats.turns++;
    sched->stats.batch_tokens += tokens;
    sched->stats.prefill_tokens += tokens - decoding;
    sched->stats.decode_tokens += answers;
    sched->stats.drafted += decoding - answers;
    sched->stats.prefill_ns += ns - decode_ns;
    sched->stats.decode_ns += decode_ns;
    lock_leave(&sched->lock);
    sched->computed += tokens;
    if (sched->saw) /* an encoder ran as well */
        return;
    struct cost_work work = work_of(sched);
    if (!is_sample(sched, &work, &tokens, &ns))
        return;
    device_learn(sched, tokens, ns);
    if (tokens == decoding)
        draft_costs_learn(&sched->draft_costs, (uint32_t)tokens, (uint32_t)(tokens - answers), ns);
    else
        draft_costs_pause(&sched->draft_costs);
    if (tokens >= DECODE_SMALL * decoding && !sched->vectors)
        cost_learn(&sched->cost, &work, sched->facts->chunk, ns);
}

/* Without this, each token of an answer would take as long as a chunk of a prompt, and more answers
 * would be under way at a time, whose cells slow down all of them. */
static void share_time(struct sched *sched, uint64_t tokens, uint64_t decoding, uint64_t ns)
{
    if (decoding == 0 && !(sched->vectors && decodes(sched)))
        sched->decode_owed_ns = 0;
    else if (tokens > decoding)
        sched->decode_owed_ns += ns / DECODE_PART;
    else
        sched->decode_owed_ns -= MIN(ns, sched->decode_owed_ns);
}

/* ---- no room ---- */

void job_put_back(struct job *job)
{
    struct sched *sched = job->sched;

    assert(job->active && (job->seq != SEQ_NONE || job->restore.seq != SEQ_NONE));
    restore_drop(job);
    job->restore.beside = false;
    batch_end_bar(job, false);
    if (job->seq != SEQ_NONE)
        retain_all(job, STORE_CERTAIN);
    job_unclaim(job);
    job_release_followers(job);
    engine_seq_release(sched->engine, &job->seq);
    job->reached = job->done;
    job->done = 0;
    job->active = false;
    sched->active--;
    job_set_phase(job, GEN_QUEUED);
    sched->epoch++;
    sched_count(sched, &sched->stats.preempted, 1);
}

bool batch_preempt(struct sched *sched)
{
    struct job *last = NULL;
    size_t running = 0;

    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        if (job->seq == SEQ_NONE && job->restore.seq == SEQ_NONE)
            continue;
        running++;
        last = job;
    }
    if (running < 2)
        return false;
    job_put_back(last);
    return true;
}

/* A prompt that is computed in the smallest chunks is slower than its client waits. */
static bool crawls(struct sched *sched)
{
    return sched->floor_ns > 0 && sched_now_ns(sched) - sched->floor_ns >= FLOOR_S * NS_PER_S;
}

/* Memory use is above the ceiling, or near it for some seconds, although everything else has been
 * reduced. A job that runs beside others is requeued, the only one ends; the state computed so far
 * is kept. Without a running job the signal is left to other schedulers under the ceiling: one may
 * have something to stop. */
static void relieve(struct sched *sched)
{
    struct job *job = ladder_youngest(sched);
    struct errinfo info = {0};

    if (job == NULL || !(crawls(sched) || memory_take_over(sched->memory)))
        return;
    sched->floor_ns = 0;
    if (batch_preempt(sched))
        return;
    memory_explain(sched->memory, &info);
    job_give_up(job, ERR_NOMEM, &info);
}

/* The batch did not run. On return something has changed, so that the next one is another. */
static void failed(struct sched *sched, uint64_t tokens, enum err err, struct errinfo *info)
{
    if (err == ERR_LIMIT) {
        ladder_refused(sched, tokens);
        return;
    }
    if (err == ERR_CANCELLED) {
        watchdog_ran(sched, 0); /* the youngest job need not end as well */
        err_set(
            info, err,
            "the model computed nothing for %d s, and its batch was ended; send the request again",
            SCHED_STALL_S);
    }
    LOG_ERROR(sched->options.log, "sched", "a batch failed", LOG_STR("error", info->text),
              LOG_UINT("jobs", sched->batch_count));
    for (size_t i = 0; i < sched->batch_count; i++)
        job_end(sched->batch[i], GEN_END_ERROR, err, info);
    if ((err == ERR_CANCELLED || err == ERR_ENGINE) &&
        (sched->facts->kinds & KIND_BIT(KIND_RECURRENT)))
        revive_lose_all(sched, info); /* engine_run broke the other sequences, too */
}

/* ---- the batch ---- */

static uint64_t tokens_of(const struct sched *sched)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < sched->batch_count; i++)
        tokens += sched->items[i].count;
    return tokens;
}

static enum err compute(struct sched *sched, const struct picture_piece *piece,
                        struct errinfo *info)
{
    struct engine *engine = sched->engine;

    TRY(engine_set_lora(engine, &sched->lora, info));
    if (piece != NULL)
        return engine_run_picture(engine, sched->batch[0]->seq, piece, info);
    return (sched->vectors ? engine_embed : engine_run)(engine, sched->items, sched->batch_count,
                                                        info);
}

bool batch_run(struct sched *sched)
{
    struct errinfo info = {0};

    relieve(sched);
    sched->batch_count = 0;
    choose_lora(sched);
    sched->vectors = choose_vectors(sched);
    const struct picture_piece *piece = sched->vectors ? NULL : add_picture(sched);
    uint64_t answers = 0, decoding = 0;
    if (piece == NULL && !sched->vectors) {
        add_decoding(sched);
        drafts_add(sched, next_prefill(sched, false) == NULL);
        answers = sched->batch_count;
        decoding = tokens_of(sched);
    }
    if (piece == NULL)
        add_prefilling(sched, (uint32_t)decoding);
    if (sched->batch_count == 0)
        return false;
    uint64_t begin_ns = sched_now_ns(sched);
    uint64_t tokens = tokens_of(sched);
    enum err err = compute(sched, piece, &info);
    if (err != ERR_OK) {
        failed(sched, tokens, err, &info);
        return true;
    }
    ladder_ran(sched);
    watchdog_ran(sched, tokens);
    memory_note_run(sched->memory, (uint32_t)tokens, cells_used(sched));
    uint64_t ns = sched_now_ns(sched) - begin_ns;
    measure(sched, tokens, decoding, answers, ns);
    share_time(sched, tokens, decoding, ns);
    for (size_t i = 0; i < sched->batch_count; i++)
        after_item(sched->batch[i], i, sched->items[i].count);
    return true;
}
