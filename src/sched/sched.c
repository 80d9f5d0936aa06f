/*
 * sched.c: the thread that owns an engine.
 *
 *      turn:  accept submitted jobs -> run the steps of every job -> run one batch -> publish stats
 *
 * A dead engine is restarted before anything else (revive.c). The thread sleeps only when no job
 * has anything to compute (sleep_ns).
 */
#include "sched/sched.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "sched/cost_file.h"
#include "sched/sched_impl.h"

enum { QUEUE_DEFAULT = 256, SPARSE_DEFAULT = 8192, TOKEN_TEXT_BYTES_MAX = 1 << 20 };

uint64_t sched_now_ns(const struct sched *sched)
{
    return clock_mono_ns(sched->options.clock);
}

void sched_learn_speed(double *speed, uint64_t amount, uint64_t ns)
{
    double now = ns > 0 ? (double)amount * (double)NS_PER_S / (double)ns : 0;

    if (now > 0)
        *speed = *speed > 0 ? 0.8 * *speed + 0.2 * now : now;
}

uint32_t sched_common(const token_id *a, uint32_t a_count, const token_id *b, uint32_t b_count)
{
    uint32_t most = MIN(a_count, b_count), at = 0;

    while (at < most && a[at] == b[at])
        at++;
    return at;
}

void sched_count(struct sched *sched, uint64_t *counter, uint64_t amount)
{
    lock_enter(&sched->lock);
    *counter += amount;
    lock_leave(&sched->lock);
}

bool job_cancelled(const struct job *job)
{
    return atomic_load_explicit(&job->sched->stopping, memory_order_relaxed) ||
           (job->gen != NULL && atomic_load_explicit(&job->gen->cancelled, memory_order_relaxed));
}

void job_set_phase(struct job *job, enum gen_phase phase)
{
    if (job->phase == phase)
        return;
    job->phase = phase;
    log_text(job->sched->options.log, LOG_LEVEL_DEBUG, "phase", "%llu %s tokens=%u done=%u",
             (unsigned long long)job->id, gen_phase_name(phase), job->prompt, job->done);
}

/* ---- jobs ---- */

static enum err copy_prompt(struct job *job, const struct gen *gen, struct errinfo *info)
{
    job->capacity = gen->tokens_count + SCHED_RESERVE;
    job->tokens = mem_try_alloc_array(job->capacity, sizeof(*job->tokens));
    TRY(forks_prepare(job, gen));
    job->marks = mem_try_alloc_array(gen->marks_count + gen->cache.breakpoints_count +
                                         forks_exact_cuts(job, NULL) + SCHED_MARKS_EXTRA,
                                     sizeof(*job->marks));
    job->runs = mem_try_alloc_array(MAX(gen->pictures_count, 1), sizeof(*job->runs));
    if (job->tokens == NULL || job->marks == NULL || job->runs == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a prompt of %u tokens", gen->tokens_count);
    memcpy(job->tokens, gen->tokens, gen->tokens_count * sizeof(*job->tokens));
    for (size_t i = 0; i < gen->pictures_count; i++)
        job->runs[job->runs_count++] = (struct schedule_run){
            gen->pictures[i].at, gen->pictures[i].at + gen->pictures[i].count};
    job->prompt = job->count = gen->tokens_count;
    const struct lora_facts *lora = &job->sched->facts->lora;
    job->lora = lora_plan_make(lora, gen->lora != NULL ? gen->lora : &lora->initial, job->tokens,
                               job->prompt);
    if (gen->pictures_count > 0 && job->lora.from < job->prompt) /* it would change their keys */
        return err_set(info, ERR_UNSUPPORTED,
                       "a prompt with pictures cannot invoke an activated adapter");
    return ERR_OK;
}

/* A job that was not submitted. */
static void free_job(struct job *job)
{
    memory_drop(job->sched->memory, job->memory.records);
    restore_drop(job);
    retain_drop(job);
    sampler_destroy(&job->sampler);
    mem_free(job->vector);
    draft_destroy(&job->draft);
    drafter_leave(&job->drafter, job->tokens, job->count);
    buf_fini(&job->text);
    mem_free(job->tokens);
    mem_free(job->unsalted);
    mem_free(job->marks);
    mem_free(job->runs);
    forks_fini(&job->forks);
    mem_free(job);
}

static void fill_hints(struct job *job, const struct gen *gen)
{
    job->isolated = gen->cache.isolated;
    /* exact state is computed in the chunks of its schedule, scores in smaller ones */
    job->keep.stores = gen->space != NULL && !gen->cache.no_write &&
                       !(gen->score_prompt && job->sched->options.exact) &&
                       faults_store(job->sched, gen);
    job->keep.most = gen->cache.write_max;
    job->keep.released = gen->cache.release;
    job->keep.hints = (struct hearth_store_hints){
        .struct_size = sizeof(job->keep.hints),
        .entry = HEARTH_ENTRY_USER,
        .anchor = gen->anchor,
        .ttl_s = gen->cache.ttl_s,
        .pin = gen->cache.pin,
        .no_disk = gen->cache.no_disk,
        .request = gen->id,
        .last_user = gen->last_user,
        .transient = gen->transient,
        .sparse = job->sched->options.sparse,
    };
}

/* Cells guaranteed for the answer, in addition to the prompt's. */
static uint32_t reserve_of(const struct sched *sched, uint32_t prompt, uint32_t max_tokens)
{
    uint32_t most = MIN(sched->room - prompt, SCHED_RESERVE);

    return max_tokens > 0 ? MIN(max_tokens, most) : most;
}

bool sched_embeds_all(const struct sched *sched)
{
    return sched->facts->embed.whole || sched->facts->embed.pooling == ENGINE_POOLING_MEAN;
}

static enum err prepare_vector(struct job *job, struct errinfo *info)
{
    const struct sched *sched = job->sched;

    job->room = job->gen->tokens_count;
    job->vector = mem_try_alloc_array(sched->facts->embed.size, sizeof(*job->vector));
    if (sched_embeds_all(sched)) {
        job->isolated = true;
        job->space = NULL;
        job->keep.stores = false;
    }
    return job->vector != NULL ? ERR_OK : err_set(info, ERR_NOMEM, "no memory for a vector");
}

static enum err prepare_sampler(struct job *job, struct errinfo *info)
{
    TRY(sampler_create(&job->sampler, job->sched->engine, &job->gen->sample, info));
    return sampler_prime(job->sampler, job->tokens, job->prompt, info);
}

/* Memory of queued requests is limited as well: many long prompts add up. */
static enum err hold_records(struct job *job, struct errinfo *info)
{
    struct sched *sched = job->sched;
    uint32_t prompt = job->gen->tokens_count;
    struct guard_need need =
        memory_need(sched->memory, 0, prompt, reserve_of(sched, prompt, job->gen->max_tokens));

    if (!memory_hold(sched->memory, need.records))
        return err_set(info, ERR_BUSY, "too many long requests are waiting; try again later");
    job->memory.records = need.records;
    return ERR_OK;
}

static enum err make_job(struct sched *sched, struct gen *gen, struct job **out,
                         struct errinfo *info)
{
    struct job *job = mem_try_alloc(sizeof(*job));

    *out = NULL;
    if (job == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a request");
    *job = (struct job){
        .sched = sched, .gen = gen, .id = gen->id, .space = gen->space, .seq = SEQ_NONE};
    job->restore.seq = SEQ_NONE;
    detok_init(&job->detok, sched->engine, gen->control_text);
    buf_init(&job->text, TOKEN_TEXT_BYTES_MAX);
    job->room = sched->room;
    if (gen->max_tokens > 0 && gen->max_tokens < job->room - gen->tokens_count)
        job->room = gen->tokens_count + gen->max_tokens;
    job->times.submitted = sched_now_ns(sched);
    job->usage.prompt = gen->tokens_count;
    fill_hints(job, gen);
    enum err err = hold_records(job, info);
    if (err == ERR_OK)
        err = copy_prompt(job, gen, info);
    if (err == ERR_OK)
        err = (gen->embed ? prepare_vector : prepare_sampler)(job, info);
    if (err == ERR_OK) {
        lora_salt(&sched->facts->lora, &job->lora, sched->facts->vocab, job->tokens, job->prompt);
        *out = job;
    } else {
        free_job(job);
    }
    return err;
}

/* ---- submitting ---- */

enum err sched_preflight(const struct sched *sched, uint32_t prompt, uint32_t max_tokens,
                         struct errinfo *info)
{
    uint32_t context = sched->room;

    if (prompt == 0)
        return err_set(info, ERR_INVALID, "the prompt is empty");
    if (prompt >= context)
        return err_set(info, ERR_LIMIT,
                       "request (%u tokens) exceeds the available context size (%u tokens)", prompt,
                       context);
    /* Cached state does not reduce the need: the same request after a restart needs as much. */
    struct guard_need need =
        memory_need(sched->memory, 0, prompt, reserve_of(sched, prompt, max_tokens));
    return memory_check(sched->memory, &need, info);
}

enum err sched_preflight_embed(const struct sched *sched, uint32_t input, struct errinfo *info)
{
    if (input == 0)
        return err_set(info, ERR_INVALID, "the input is empty");
    if (input > sched->room)
        return err_set(info, ERR_LIMIT,
                       "input (%u tokens) exceeds the available context size (%u tokens)", input,
                       sched->room);
    struct guard_need need = memory_need(sched->memory, 0, input, 0);
    return memory_check(sched->memory, &need, info);
}

bool sched_fits_any(const struct sched *sched)
{
    struct guard_need need = memory_need(sched->memory, 0, GUARD_CHUNK_FLOOR, 1);

    return memory_fits(sched->memory, &need);
}

enum err sched_charge(struct sched *sched, uint64_t bytes, struct errinfo *info)
{
    return memory_charge(sched->memory, bytes, info);
}

void sched_uncharge(struct sched *sched, uint64_t bytes)
{
    memory_uncharge(sched->memory, bytes);
}

/* The prompt has the tokens of the piece, and text after it. */
static bool is_piece(const struct gen *gen, const struct picture_piece *piece)
{
    return piece->count > 0 && piece->count < gen->tokens_count - piece->at &&
           memcmp(gen->tokens + piece->at, picture_piece_tokens(piece),
                  piece->count * sizeof(*gen->tokens)) == 0;
}

static enum err check(const struct sched *sched, const struct gen *gen, struct errinfo *info)
{
    const struct picture_piece *piece = gen->pictures, *end = piece + gen->pictures_count;

    assert(!gen->score_prompt || (gen->cache.no_read && gen->sink.scored));
    if (!gen->embed && sched->facts->embed.whole)
        return err_set(info, ERR_UNSUPPORTED, "the model makes embeddings, no text");
    if (gen->embed)
        TRY(sched_preflight_embed(sched, gen->tokens_count, info));
    else
        TRY(sched_preflight(sched, gen->tokens_count, gen->max_tokens, info));
    for (uint32_t i = 0; i < gen->tokens_count; i++) {
        if (piece < end && piece->at == i && is_piece(gen, piece)) {
            i += piece++->count - 1;
            continue;
        }
        if (!engine_token_valid(sched->engine, gen->tokens[i]))
            return err_set(info, ERR_INVALID, "token %d at %u is not in the vocabulary",
                           gen->tokens[i], i);
    }
    if (piece != end)
        return err_set(info, ERR_INVALID, "a picture is not in the prompt");
    return gen->lora != NULL ? lora_set_check(&sched->facts->lora, gen->lora, info) : ERR_OK;
}

void job_free(struct job *job)
{
    struct sched *sched = job->sched;

    free_job(job);
    lock_enter(&sched->lock);
    if (--sched->jobs_left == 0)
        cond_broadcast(&sched->idle);
    lock_leave(&sched->lock);
}

static enum err refuse(struct sched *sched, enum err err, struct errinfo *info, const char *text)
{
    sched_count(sched, &sched->stats.refused, 1);
    return err_set(info, err, "%s", text);
}

enum err sched_submit(struct sched *sched, struct gen *gen, struct errinfo *info)
{
    static const char closed[] = "the server is shutting down";
    struct job *job;

    if (atomic_load_explicit(&sched->draining, memory_order_relaxed))
        return refuse(sched, ERR_CLOSED, info, closed);
    TRY(check(sched, gen, info));
    TRY(make_job(sched, gen, &job, info));
    if (!waiting_enter(job, gen->tenant)) {
        free_job(job);
        return refuse(sched, ERR_BUSY, info, "too many requests are waiting; try again later");
    }
    lock_enter(&sched->lock);
    sched->stats.submitted++;
    sched->jobs_left++;
    lock_leave(&sched->lock);
    if (queue_try_push(sched->inbox, job))
        return ERR_OK;
    waiting_leave(job);
    job_free(job);
    return refuse(sched, ERR_CLOSED, info, closed);
}

/* ---- turns ---- */

static void take(struct sched *sched, void *item)
{
    struct job *job = item;

    if (item == sched) { /* a nudge from ask.c */
        ask_take_nudge(sched);
        return;
    }
    const char *name = job->gen->tenant != NULL ? job->gen->tenant : "";
    job->tenant = fair_tenant(sched, name);
    job->tenant->jobs++;
    /* Without a space, only the account's name separates tenants, and this job shares another
     * tenant's account. */
    job->isolated = job->isolated || (job->space == NULL && strcmp(job->tenant->name, name) != 0);
    list_push_back(&sched->jobs, &job->link);
    job->phase = GEN_QUEUED;
}

static void take_submitted(struct sched *sched)
{
    for (void *item; (item = queue_try_pop(sched->inbox)) != NULL;)
        take(sched, item);
}

static void advance_all(struct sched *sched)
{
    fair_count_backlogs(sched);
    sched->turn_import_ns = 0;
    struct job *victim = fair_place_victim(sched);
    if (victim != NULL)
        job_put_back(victim);
    /* Fairness chooses the next job to admit, not its place in the list. */
    for (struct job *job; (job = fair_next_queued(sched)) != NULL;) {
        job->active = true;
        sched->active++;
        job_advance(job);
    }
    LIST_FOREACH_SAFE (struct job, job, &sched->jobs, link) {
        job->wait.turns++;
        job_advance(job);
    }
}

/* From the end of its restore to its first token. */
static uint64_t prefill_ns(const struct job *job, uint64_t now_ns)
{
    uint64_t end_ns = job->times.first_token > 0 ? job->times.first_token : now_ns;

    return job->times.restored > 0 ? end_ns - job->times.restored : 0;
}

static void publish(struct sched *sched)
{
    struct host_memory_stats pinned = engine_host_memory(sched->engine);
    uint64_t now = sched_now_ns(sched);
    size_t count = 0;

    lock_enter(&sched->lock);
    LIST_FOREACH (struct job, job, &sched->jobs, link) {
        if (count < SCHED_VIEWS_MAX)
            sched->views[count++] = (struct sched_view){
                .id = job->id,
                .phase = job->phase,
                .usage = job->usage,
                .done = job->done,
                .age_ns = now - job->times.submitted,
                .prefill_ns = prefill_ns(job, now),
                .decode_ns = job->times.first_token > 0 ? now - job->times.first_token : 0,
                .seq = job->seq,
            };
    }
    sched->views_count = count;
    sched->cost_published = sched->cost;
    sched->stats.active = sched->active;
    sched->stats.queued = atomic_load_explicit(&sched->waiting, memory_order_relaxed);
    sched->stats.idle = (uint32_t)sched->residents.count;
    sched->stats.cells = sched->facts->context;
    sched->stats.cells_free = engine_cells_free(sched->engine);
    sched->stats.pinned = pinned.pinned;
    sched->stats.pageable = pinned.plain;
    lock_leave(&sched->lock);
}

static void look_outside(struct memory_outside *outside, void *arg)
{
    struct engine *engine = arg;

    outside->process = engine_memory(engine);
    outside->device_total = engine_facts(engine)->device_total;
    outside->device_free = engine_device_free(engine);
}

/* Time until the next scheduled work. Everything else nudges the thread: requests, cancellations,
 * bytes from a slower tier, questions from other threads. */
static uint64_t sleep_ns(struct sched *sched)
{
    bool looks = sched->memory != NULL || engine_isolated(sched->engine);
    uint64_t wait_ns = looks ? SCHED_IDLE_MS * NS_PER_MS : UINT64_MAX;

    if (sched->jobs.count == 0 && (sched->unsaved > 0 || drafter_has_unsaved(sched->drafter)))
        return sched->saving ? 0 : sched->options.linger_ms * NS_PER_MS;
    if (sched->jobs.count == 0)
        return wait_ns;
    if (fair_next_queued(sched) != NULL) /* the batch freed a place and did not run */
        return 0;
    if (sched->unsaved > 0)
        wait_ns = MIN(wait_ns, DEVICE_UNSAVED_MS_MAX * NS_PER_MS);
    LIST_FOREACH (struct job, job, &sched->jobs, link)
        wait_ns = MIN(wait_ns, job_sleep_ns(job));
    return wait_ns;
}

static void save_cost(struct sched *sched)
{
    struct errinfo info = {0};

    if (sched->options.cost_dir == NULL)
        return;
    sched->cost_saved = sched->cost.samples;
    if (cost_file_write(sched->options.cost_dir, &sched->options.cost_key, &sched->cost, &info) !=
        ERR_OK)
        LOG_WARN(sched->options.log, "sched", "what computing takes is not remembered",
                 LOG_STR("reason", info.text));
}

/* Sleeps: nothing can be computed now. */
static void rest(struct sched *sched)
{
    /* Seldom: each time twice as much is known. A process that is killed loses little. */
    if (sched->jobs.count == 0 && sched->cost.samples > 2 * (uint64_t)sched->cost_saved)
        save_cost(sched);
    void *item = queue_pop(sched->inbox, sleep_ns(sched));

    if (item != NULL)
        take(sched, item);
    else if (sched->jobs.count == 0)
        sched->saving = save_oldest(sched) || drafter_save(sched->drafter);
    else
        save_beside(sched);
    if (sched->jobs.count > 0)
        sched->saving = false;
}

/* Only this thread uses the engines from now on. */
static void own_engines(struct sched *sched, void (*change)(struct engine *engine))
{
    change(sched->engine);
    if (sched->options.draft_engine != NULL)
        change(sched->options.draft_engine);
}

static void run(void *arg)
{
    struct sched *sched = arg;

    own_engines(sched, engine_own);
    while (!queue_closed(sched->inbox) || queue_length(sched->inbox) > 0 || sched->jobs.count > 0) {
        /* Relaxed: the value is self-contained. */
        atomic_store_explicit(&sched->turn_ns, sched_now_ns(sched), memory_order_relaxed);
        take_submitted(sched);
        ask_answer_all(sched);
        memory_poll(sched->memory);
        bool ran = false;
        if (revive_engine(sched)) {
            watchdog_break(sched);
            advance_all(sched);
            watchdog_note(sched);
            ran = batch_run(sched);
        }
        if (ran && sched->jobs.count > 0 && !device_tidy(sched))
            save_beside(sched);
        watchdog_note(sched);
        publish(sched);
        sched_check(sched);
        atomic_store_explicit(&sched->turn_ns, 0, memory_order_relaxed);
        if (!ran)
            rest(sched);
    }
    device_clear(sched);
    while (drafter_save(sched->drafter))
        ;
    progress_finish(&sched->bar, true);
    publish(sched);
    own_engines(sched, engine_disown);
}

/* ---- a scheduler's life ---- */

static void set_defaults(struct sched *sched)
{
    struct sched_options *options = &sched->options;

    options->clock = options->clock != NULL ? options->clock : clock_real();
    options->parallel = options->parallel > 0 ? options->parallel : sched->facts->sequences;
    if (options->parallel > sched->facts->sequences)
        options->parallel = sched->facts->sequences;
    if (sched->facts->embed.whole) /* short inputs share batches, and take no cells */
        options->parallel = sched->facts->sequences;
    options->queue = options->queue > 0 ? options->queue : QUEUE_DEFAULT;
    options->prefill_beside =
        options->prefill_beside > 0 ? options->prefill_beside : sched->facts->chunk;
    options->sparse = options->sparse > 0 ? options->sparse : SPARSE_DEFAULT;
    options->linger_ms = options->linger_ms > 0 ? options->linger_ms : DEVICE_LINGER_MS;
    options->model = options->model != NULL ? options->model : sched->facts->name;
    if (options->exact) {
        options->parallel = 1;
        options->park = false;
    }
    sched->draft_rates = draft_rates_default();
}

static enum err start(struct sched *sched, struct errinfo *info)
{
    sched->batch_cap = sched->facts->sequences + 1;
    sched->items = mem_try_alloc_array(sched->batch_cap, sizeof(*sched->items));
    sched->batch = mem_try_alloc_array(sched->batch_cap, sizeof(struct job *));
    if (sched->items == NULL || sched->batch == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a scheduler");
    /* All that may wait: at most 1 + 1/2 + ... + 1/64 < 5 times the limit, or one of each tenant. And
     * one extra entry for a nudge (ask.c), so that it never displaces a request. */
    size_t most = (size_t)sched->options.queue * 5 + SCHED_TENANTS_MAX;
    TRY(queue_create(&sched->inbox, "inbox", most + 1, info));
    return thread_start(&sched->thread, "engine", run, sched, info);
}

static void free_sched(struct sched *sched)
{
    if (sched->inbox != NULL)
        queue_destroy(&sched->inbox);
    memory_leave(&sched->memory);
    drafter_destroy(&sched->drafter);
    mem_free(sched->items);
    mem_free(sched->batch);
    cond_fini(&sched->answered);
    cond_fini(&sched->idle);
    lock_fini(&sched->lock);
    mem_free(sched);
}

/* It is loaded as long as the model, so its memory is the model's. */
static void add_drafter(struct sched *sched, struct guard_model *model)
{
    struct engine *engine = sched->options.draft_engine;

    if (engine == NULL)
        return;
    struct guard_model draft = memory_model_of(engine_facts(engine));
    model->weights += draft.weights;
    model->cells += draft.cells;
    model->device += draft.device;
    sched->drafter =
        drafter_create(engine, sched->options.draft_min, sched->options.clock, sched->options.log);
}

enum err sched_create(struct sched **out, const struct sched_options *options, struct errinfo *info)
{
    struct sched *sched = mem_try_alloc(sizeof(*sched));

    *out = NULL;
    if (sched == NULL)
        return err_set(info, ERR_NOMEM, "no memory for a scheduler");
    *sched = (struct sched){.options = *options, .engine = options->engine};
    sched->facts = engine_facts(options->engine);
    if (options->cost_dir != NULL &&
        !cost_file_read(options->cost_dir, &options->cost_key, &sched->cost))
        sched->cost = (struct cost){.samples = 0};
    sched->cost_saved = sched->cost.samples;
    sched->cuttable = !kind_set_needs_snapshot(sched->facts->kinds) &&
                      sched->facts->slicing == ENGINE_SLICING_ROWS;
    /* less than the context when each sequence has its own cells */
    sched->room = engine_cells_free(options->engine);
    sched->whole = sched->facts->slicing == ENGINE_SLICING_WHOLE;
    list_init(&sched->jobs);
    list_init(&sched->residents);
    lock_init(&sched->lock, "sched", LOCK_RANK_SCHED);
    cond_init(&sched->idle);
    cond_init(&sched->answered);
    list_init(&sched->asks);
    sched->ladder = (struct ladder){.items_max = LADDER_UNLIMITED, .tokens_max = LADDER_UNLIMITED};
    set_defaults(sched);
    struct guard_model model = memory_model_of(sched->facts);
    add_drafter(sched, &model);
    enum err err = memory_join(options->memory, sched->options.model, &model, &sched->memory, info);
    if (engine_isolated(sched->engine) || sched->facts->device_total > 0)
        memory_observe(sched->memory, look_outside, sched->engine);
    if (err == ERR_OK)
        err = start(sched, info);
    if (err != ERR_OK)
        free_sched(sched);
    else
        *out = sched;
    return err;
}

void sched_destroy(struct sched **sched)
{
    if (*sched == NULL)
        return;
    atomic_store_explicit(&(*sched)->draining, true, memory_order_relaxed);
    atomic_store_explicit(&(*sched)->stopping, true, memory_order_relaxed);
    queue_close((*sched)->inbox);
    thread_join(&(*sched)->thread);
    if ((*sched)->cost.samples != (*sched)->cost_saved)
        save_cost(*sched);
    free_sched(*sched);
    *sched = NULL;
}

void sched_cancel(struct sched *sched, struct gen *gen)
{
    gen_cancel(gen);
    ask_nudge(sched);
}

bool sched_drain(struct sched *sched, uint64_t timeout_ms)
{
    uint64_t deadline_ns = clock_deadline_ns(clock_real(), timeout_ms * NS_PER_MS);
    bool all = true;

    atomic_store_explicit(&sched->draining, true, memory_order_relaxed);
    lock_enter(&sched->lock);
    while (sched->jobs_left > 0 && all)
        all = cond_wait_until(&sched->idle, &sched->lock, deadline_ns);
    lock_leave(&sched->lock);
    if (all)
        return true;
    atomic_store_explicit(&sched->stopping, true, memory_order_relaxed);
    ask_nudge(sched);
    lock_enter(&sched->lock);
    while (sched->jobs_left > 0)
        cond_wait(&sched->idle, &sched->lock);
    lock_leave(&sched->lock);
    return false;
}

void job_unclaim(struct job *job)
{
    if (!job->memory.claimed)
        return;
    job->memory.claimed = false;
    memory_unclaim(job->sched->memory, job->memory.claim);
}

void job_unlist(struct job *job)
{
    struct sched *sched = job->sched;

    job_unclaim(job);
    memory_drop(sched->memory, job->memory.records);
    job->memory.records = 0;
    assert(job->tenant->jobs > 0 && (sched->active > 0 || !job->active));
    if (job->active)
        sched->active--;
    job->active = false;
    list_remove(&sched->jobs, &job->link);
    job->tenant->jobs--;
}

/* ---- numbers ---- */

void sched_add_stats(struct sched_stats *sum, const struct sched_stats *one, bool now)
{
    enum { COUNTER = 1, SECONDS = 1, HIDDEN = 1, GAUGE = 0 };

#define X(field, kind, name, help) sum->field += kind || now ? one->field : 0;
    SCHED_STATS_TABLE(X)
#undef X
    for (size_t i = 0; i < HEARTH_REASON_COUNT; i++) {
        sum->miss_by_reason[i] += one->miss_by_reason[i];
        sum->miss_tokens[i] += one->miss_tokens[i];
    }
    metric_latency_add(&sum->store_times, &one->store_times);
}

void sched_get_stats(struct sched *sched, struct sched_stats *stats)
{
    lock_enter(&sched->lock);
    *stats = sched->stats;
    lock_leave(&sched->lock);
}

struct cost sched_get_cost(struct sched *sched)
{
    lock_enter(&sched->lock);
    struct cost cost = sched->cost_published;
    lock_leave(&sched->lock);
    return cost;
}

bool sched_alive(const struct sched *sched, uint64_t within_ns)
{
    uint64_t began_ns = atomic_load_explicit(&sched->turn_ns, memory_order_relaxed);
    uint64_t now_ns = sched_now_ns(sched);

    return began_ns == 0 || now_ns < began_ns || now_ns - began_ns <= within_ns;
}

size_t sched_views(struct sched *sched, struct sched_view *views, size_t max)
{
    lock_enter(&sched->lock);
    size_t count = sched->views_count;
    memcpy(views, sched->views, MIN(count, max) * sizeof(*views));
    lock_leave(&sched->lock);
    return count;
}
