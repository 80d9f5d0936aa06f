/*
 * call.c: a call from the queue to the scheduler.
 *
 * Every error in a request is found before the first generation is submitted, so that the client
 * gets a proper status. The head of a stream is sent only after that (keeps I72).
 */
#include "serve/call.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "serve/api_impl.h"
#include "serve/baseline.h"
#include "serve/stored.h"
#include "dialect/json_read.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "output/output.h"

enum {
    OUT_BYTES_MAX = 64 * 1024 * 1024,
    SALT_DIGITS = 32,
    SPACE_NAME_BYTES = AUTH_NAME_BYTES + 1 + SALT_DIGITS,
    TARGET_BYTES_MAX = 64 * 1024,
    QUERY_VALUE_BYTES_MAX = 4096,
    RETRY_AFTER_S = 2,
    LARGE_BYTES = 1024 * 1024,
    LARGE_PIXELS = 4 * 1024 * 1024, /* of all pictures: about 0.1 s */
    LARGE_QUEUE = 64,
    SLOW_QUEUE = 8,
};

/* ---- life ---- */

static void release(struct call *call);

/* Loop thread: the client disconnected. */
static void on_close(void *arg)
{
    struct call *call = arg;

    lock_enter(&call->lock);
    call->gone = call->cancelled = true;
    lock_leave(&call->lock);
    call_cancel(call);
}

static void on_drop(void *arg)
{
    release(arg);
}

static void copy_target(struct call *call, const struct http_request *request)
{
    buf_init(&call->query, TARGET_BYTES_MAX);
    buf_init(&call->capture, TARGET_BYTES_MAX);
    buf_append(&call->query, request->query.ptr, request->query.len);
    if (request->captures_count > 0)
        buf_append(&call->capture, request->captures[0].ptr, request->captures[0].len);
}

static void note_client(struct call *call, const struct http_request *request)
{
    struct str agent;

    call->local = http_request_is_local(request);
    if (http_request_header(request, STR("user-agent"), &agent))
        snprintf(call->agent, sizeof(call->agent), STR_FMT, STR_ARG(agent));
}

struct call *call_create(struct api *api, const struct endpoint *endpoint,
                         struct http_request *request, struct http_reply *reply,
                         const struct auth_result *auth)
{
    struct call *call = mem_alloc(sizeof(*call));

    call->api = api;
    call->endpoint = endpoint;
    call->arrived_ns = request->arrived_ns;
    call->store_wait_ns = call->api->options.discover_ms * NS_PER_MS;
    http_request_take_body(request, &call->body);
    call->large = call->body.len > LARGE_BYTES;
    copy_target(call, request);
    note_client(call, request);
    call->reply = http_reply_acquire(reply);
    snprintf(call->who, sizeof(call->who), "%s", auth->who);
    snprintf(call->tenant, sizeof(call->tenant), "%s", auth->tenant);
    call->admin = auth->admin;
    gen_request_init(&call->request, api->options.request_bytes_max, &api->sample);
    call->request.pictures.media_dir = api->options.media_dir;
    buf_init(&call->out, OUT_BYTES_MAX);
    lock_init(&call->lock, "call", LOCK_RANK_CALL);
    atomic_init(&call->references, 2);
    atomic_init(&call->pending, 1);
    lock_enter(&api->lock);
    list_push_back(&api->calls, &call->link);
    api->calls_alive++;
    lock_leave(&api->lock);
    http_reply_on_close(reply, on_close, on_drop, call);
    return call;
}

static void free_choice(struct call_choice *choice)
{
    output_destroy(&choice->output);
    stop_text_fini(&choice->stop);
    mem_free(choice->tokens);
}

static void destroy(struct call *call)
{
    struct pool *pool = api_pool(call->api, NULL);

    for (size_t i = 0; i < call->choices_count; i++)
        free_choice(&call->choices[i]);
    mem_free(call->choices);
    mem_free(call->embed.vectors);
    answer_fini(&call->answer);
    for (size_t i = 0; call->more && i < call->request.more_count; i++)
        token_prompt_fini(&call->more[i]);
    mem_free(call->more);
    prepare_fini(&call->prepared);
    gen_request_fini(&call->request);
    buf_fini(&call->out);
    buf_fini(&call->capture);
    buf_fini(&call->query);
    buf_fini(&call->body);
    lock_fini(&call->lock);
    if (call->charged > 0)
        sched_uncharge(model_sched(call->model), call->charged);
    if (call->model)
        pool_release(pool, call->model);
    mem_free(call);
}

static void release(struct call *call)
{
    struct api *api = call->api;

    /* Release: this thread's work is done before the memory is freed; acquire: the last one sees
     * all of it. */
    if (atomic_fetch_sub_explicit(&call->references, 1, memory_order_acq_rel) > 1)
        return;
    lock_enter(&api->lock);
    list_remove(&api->calls, &call->link);
    lock_leave(&api->lock);
    destroy(call);
    /* The api may be destroyed once no call is alive: do not touch it after this. */
    lock_enter(&api->lock);
    api->calls_alive--;
    cond_broadcast(&api->calls_gone);
    lock_leave(&api->lock);
}

void call_drop(struct call *call)
{
    if (atomic_fetch_sub_explicit(&call->pending, 1, memory_order_acq_rel) > 1)
        return;
    call_end(call);
    http_reply_release(&call->reply);
    release(call);
}

void call_cancel(struct call *call)
{
    struct pool *pool = api_pool(call->api, NULL);
    size_t submitted;

    lock_enter(&call->lock);
    call->cancelled = true;
    submitted = call->submitted;
    lock_leave(&call->lock);
    if (pool)
        pool_cancel(pool, &call->wait);
    for (size_t i = 0; i < submitted; i++)
        sched_cancel(model_sched(call->model), &call->choices[i].gen);
}

static bool get_flag(struct call *call, const bool *flag)
{
    lock_enter(&call->lock);
    bool value = *flag;
    lock_leave(&call->lock);
    return value;
}

bool call_is_gone(struct call *call)
{
    return get_flag(call, &call->gone);
}

bool call_stream_begun(struct call *call)
{
    return get_flag(call, &call->begun);
}

static bool is_cancelled(void *arg)
{
    return get_flag(arg, &((struct call *)arg)->cancelled);
}

bool call_has_gen(struct call *call, uint64_t gen)
{
    lock_enter(&call->lock);
    bool has =
        call->submitted > 0 && gen >= call->first_id && gen - call->first_id < call->submitted;
    lock_leave(&call->lock);
    return has;
}

#ifdef HEARTH_DEBUG
enum { CHECKS = true };
#else
enum { CHECKS = false };
#endif

static void check_choice(const struct call *call, size_t index)
{
    const struct call_choice *choice = &call->choices[index];

    assert(choice->call == call && choice->index == index);
    assert((choice->output == NULL) == (call->request.embed != NULL));
    assert(choice->gen.id == call->first_id + index && choice->gen.sink.arg == choice);
    assert(choice->tokens == NULL || choice->result.tokens == choice->tokens);
    assert(!choice->last || call->ended == call->choices_count);
}

void call_check(struct call *call)
{
    if (!CHECKS)
        return;
    assert(atomic_load_explicit(&call->references, memory_order_relaxed) > 0);
    assert(atomic_load_explicit(&call->pending, memory_order_relaxed) >= 0);
    assert((call->choices_count > 0) == (call->choices != NULL));
    assert(call->ended <= call->choices_count);
    /* A call that is refused or answered at once has no generations. */
    assert(call->choices_count == 0 || (call->model && call->answer.request && !call->answered));
    for (size_t i = 0; i < call->choices_count; i++)
        check_choice(call, i);
    lock_enter(&call->lock);
    assert(call->submitted <= call->choices_count);
    assert(call->cancelled || !call->gone);
    assert(!call->begun || call->request.stream);
    lock_leave(&call->lock);
}

bool call_enqueue(struct call *call)
{
    struct api *api = call->api;
    size_t limit = atomic_load_explicit(&api->queue_max, memory_order_relaxed);

    if (call->endpoint->slow)
        return turns_push(api->slow, &call->waiting, call->who, SLOW_QUEUE);
    if (call->large)
        return turns_push(api->large, &call->waiting, call->who, LARGE_QUEUE);
    if (call->model) /* it was in the queue before, and is back from the pool */
        limit = API_QUEUE_MAX;
    return turns_push(api->queue, &call->waiting, call->who, limit);
}

enum err call_query(struct call *call, const char *name, struct str *value, struct api_error *error)
{
    struct buf text;

    buf_init(&text, QUERY_VALUE_BYTES_MAX);
    enum err err = http_query_get(buf_text(&call->query), str_from(name), &text);
    *value = STR_NONE;
    if (err == ERR_OK)
        err = buf_move(&text, &call->request.arena, value);
    else
        buf_fini(&text);
    return err == ERR_OK || err == ERR_NOT_FOUND ? ERR_OK : api_error_from(error, err, NULL);
}

/* ---- answers of endpoints ---- */

void call_set_shutdown(struct api_error *error)
{
    *error = (struct api_error){.retry_after_s = RETRY_AFTER_S};
    api_error_set(error, API_ERROR_UNAVAILABLE, NULL, "The server is shutting down.");
}

void call_name_shutdown(struct call *call, struct api_error *error)
{
    if (error->kind == API_ERROR_UNAVAILABLE && api_is_draining(call->api) && is_cancelled(call))
        call_set_shutdown(error);
}

void call_fail(struct call *call, const struct api_error *error)
{
    call->answered = true;
    call->outcome = error->kind;
    call->refused = *error;
    call_name_shutdown(call, &call->refused);
    if (call_stream_begun(call) && !http_reply_take_back(call->reply)) /* while it was loaded */
        call_end_stream(call, &call->refused);
    else
        respond_error(call->reply, api_dialect(call->endpoint), &call->refused, call->request_id);
}

/* Counted, not logged: such refusals come in floods, and the loop thread must not wait for the
 * log. */
void call_refuse(struct call *call)
{
    struct api_error error = {0};

    api_error_set(&error, API_ERROR_BUSY, NULL, "Too many requests are waiting. Try again later.");
    error.retry_after_s = RETRY_AFTER_S;
    call_fail(call, &error);
    memset(&call->refused, 0, sizeof(call->refused));
    call_drop(call);
}

static void answer(struct call *call)
{
    struct api_error error = {0};
    struct json_reader body = {yyjson_doc_get_root(call->request.body), "", &error, NULL, NULL};
    struct buf out;
    struct json json = json_begin(&out, CALL_BODY_BYTES_MAX, '{');
    enum err err = call->endpoint->answer(call, &body, &json);

    json_close(&json, '}');
    if (err == ERR_OK) {
        call->answered = true;
        call->outcome = out.err == ERR_OK ? API_OK : API_ERROR_SERVER;
        respond_json(call->reply, 200, call->request_id, &out);
    } else {
        api_error_from(&error, err, NULL);
        call_fail(call, &error);
    }
    buf_fini(&out);
}

static enum err read_body(struct call *call, struct api_error *error)
{
    if (call->body.len == 0 && call->endpoint->bodiless)
        return json_read_body(STR("{}"), &call->request.body, error);
    return json_read_body_in_place(&call->body, call->api->options.request_bytes_max,
                                   &call->request.body, error);
}

/* ---- from the body to the prompt ---- */

static enum err parse(struct call *call, struct api_error *error)
{
    const struct dialect *dialect = call->endpoint->dialect;

    if (call->endpoint->method != HTTP_METHOD_POST) /* the target has all parameters */
        return call->query.err != ERR_OK ? call->query.err : call->capture.err;
    TRY(read_body(call, error));
    if (!dialect) {
        struct json_reader reader = {yyjson_doc_get_root(call->request.body), "", error, NULL,
                                     NULL};
        return json_read_str(&reader, "model", &call->request.model);
    }
    if (dialect->continues) /* this may replace the body */
        TRY(stored_load(call->api->options.stored, call->who, &call->request, error));
    TRY(dialect->parse(&call->request, yyjson_doc_get_root(call->request.body), error));
    call->request.store = call->request.store && call->api->options.stored != NULL;
    return ERR_OK;
}

/* Parses, and gets the model where one is needed. */
static enum pool_answer parse_and_get_model(struct call *call, struct api_error *error)
{
    bool plain = call->endpoint->plain;

    if (!plain && !api_pool(call->api, error))
        return POOL_ANSWER_REFUSED;
    enum err err = parse(call, error);
    if (err != ERR_OK) {
        api_error_from(error, err, NULL);
        return POOL_ANSWER_REFUSED;
    }
    return plain || call->request.no_model ? POOL_ANSWER_READY : call_get_model(call, error);
}

/* The common start of all endpoints. False: the call is answered, or (*parked) no longer ours. */
static bool begin(struct call *call, bool *parked)
{
    struct api_error error = {0};

    if (call->model) /* it is back from the pool */
        return true;
    enum pool_answer answer = parse_and_get_model(call, &error);
    *parked = answer == POOL_ANSWER_WAITING;
    if (answer == POOL_ANSWER_REFUSED)
        call_fail(call, &error);
    return answer == POOL_ANSWER_READY;
}

/* A small body may have large pictures, which is known once it is read. */
static bool has_moved(struct call *call)
{
    if (call->large || call->endpoint->slow || call->request.pictures.pixels <= LARGE_PIXELS)
        return false;
    call->large = true;
    if (!call_enqueue(call))
        call_refuse(call);
    return true;
}

void call_run(struct call *call)
{
    bool parked = false;

    call_check(call);
    assert(call->choices_count == 0 && !call->answered);
    if (!is_cancelled(call) && begin(call, &parked)) {
        if (has_moved(call))
            return;
        if (call->endpoint->answer)
            answer(call);
        else
            call->endpoint->work(call);
    }
    if (!parked)
        call_drop(call);
}

static enum err charge(void *arg, size_t bytes, struct errinfo *info)
{
    return sched_charge(model_sched(((struct call *)arg)->model), bytes, info);
}

static void uncharge(void *arg, size_t bytes)
{
    sched_uncharge(model_sched(((struct call *)arg)->model), bytes);
}

enum err call_charge(struct call *call, size_t bytes, struct errinfo *info)
{
    if (bytes <= TOKENS_CHARGE_BYTES)
        return ERR_OK;
    TRY(charge(call, bytes, info));
    call->charged += bytes;
    return ERR_OK;
}

struct tokens_caller call_caller(struct call *call)
{
    return (struct tokens_caller){
        .tenant = str_from(call->tenant),
        .salt = call->request.cache_salt,
        .charge = charge,
        .release = uncharge,
        .stopped = is_cancelled,
        .arg = call,
    };
}

struct prepare_tools call_tools(struct call *call)
{
    struct api *api = call->api;

    return (struct prepare_tools){
        .model = model_chat(call->model),
        .defaults = api->options.defaults,
        .neutral = api->options.neutral,
        .recall = api->options.recall,
        .recall_keep = api->options.recall_keep,
        .tenant = call->tenant,
        .caller = call_caller(call),
        .any_length = call->endpoint->work != call_generate,
        .now_s = api_local_time(api),
        .store_wait_ns = &call->store_wait_ns,
    };
}

/* Once: the model's own choice may change meanwhile. */
static enum err choose_lora(struct call *call, struct api_error *error)
{
    const struct gen_request *request = &call->request;
    struct errinfo info = {0};

    call->lora = request->lora_chosen ? request->lora : model_lora(call->model);
    if (lora_set_check(&model_facts(call->model)->lora, &call->lora, &info) == ERR_OK)
        return ERR_OK;
    return api_error_set(error, API_ERROR_INVALID, "lora", "'lora' is not possible: %s", info.text);
}

enum err call_prepare(struct call *call, struct api_error *error)
{
    size_t more = call->request.more_count;

    if (call->model == NULL)
        return api_error_set(error, API_ERROR_SERVER, NULL,
                             "The request was prepared for no model.");
    struct prepare_tools tools = call_tools(call);
    TRY(choose_lora(call, error));
    TRY(prepare(&call->prepared, &call->request, &tools, error));
    if (more > 0)
        call->more = mem_alloc_array(more, sizeof(*call->more));
    for (size_t i = 0; i < more; i++)
        TRY(prepare_more(&call->more[i], &call->request, i + 1, &tools, error));
    return ERR_OK;
}

/* The tokens of prompt `index`. */
static const struct token_prompt *prompt_at(const struct call *call, size_t index)
{
    return index > 0 ? &call->more[index - 1] : &call->prepared.prompt;
}

/* ---- generations ---- */

enum err call_refuse_prompt(const struct call *call, const char *what, size_t count, enum err err,
                            const struct errinfo *info, struct api_error *error)
{
    if (err != ERR_NOMEM)
        return api_error_from(error, err, info);
    /* permanent: 413, while a temporary shortage is a 503 */
    return api_error_set(error, API_ERROR_TOO_LARGE, NULL, "%s (%zu prompt tokens). %s.",
                         info->text, count,
                         sched_fits_any(model_sched(call->model))
                             ? what
                             : "No prompt fits: --max-memory is too small for this server");
}

static enum err preflight_one(struct call *call, size_t count, struct api_error *error)
{
    struct api_context context = {model_request_context(call->model),
                                  model_facts(call->model)->context};
    struct errinfo info = {0};
    enum err err = ERR_LIMIT;

    if (count <= UINT32_MAX)
        err = sched_preflight(model_sched(call->model), (uint32_t)count, call->request.max_tokens,
                              &info);
    if (err == ERR_OK)
        return ERR_OK;
    if (err == ERR_LIMIT)
        return api_error_set_context(error, count, true, context);
    return call_refuse_prompt(call, "Shorten the conversation", count, err, &info, error);
}

static enum err preflight(struct call *call, struct api_error *error)
{
    for (size_t i = 0; i <= call->request.more_count; i++)
        TRY(preflight_one(call, prompt_at(call, i)->count, error));
    return ERR_OK;
}

/* The space of tenant and salt, for the model or its draft model. A salt is text from the client: it
 * is hashed, so that it can neither be long nor look like a tenant. A cache that is unavailable
 * fails nothing (keeps I94). */
static struct hearth_space *open_space(struct call *call, bool draft)
{
    const struct gen_request *request = &call->request;
    char name[SPACE_NAME_BYTES], hex[HASH256_HEX_BYTES];
    struct hearth_space *space = NULL;
    struct errinfo info = {0};
    struct hash256 hash;

    snprintf(name, sizeof(name), "%s", call->tenant);
    if (request->cache_salt.len > 0) {
        hash = hash256_of(request->cache_salt.ptr, request->cache_salt.len);
        hash256_hex(&hash, hex);
        snprintf(name, sizeof(name), "%s/%.*s", call->tenant, SALT_DIGITS, hex);
    }
    if ((draft ? model_draft_space(call->model, name, &space, &info)
               : model_space(call->model, name, &call->lora, &space, &info)) == ERR_OK)
        return space;
    LOG_WARN(call->api->options.log, "api", "no space of the cache",
             LOG_STR("request", call->request_id), LOG_STR("error", info.text));
    return NULL;
}

struct hearth_space *call_space(struct call *call)
{
    return open_space(call, false);
}

/* Of the n-th choice: its seed is another one. */
static struct sample_params sample_of(const struct gen_request *request,
                                      const struct prepared *prepared, size_t nth)
{
    const struct constraint *constraint = &prepared->constraint;
    struct sample_params sample = request->sample;

    if (sample.seed != SAMPLE_SEED_RANDOM)
        sample.seed += nth;
    sample.grammar = prepared->grammar;
    sample.grammar_optional = constraint->optional;
    if (constraint->triggers_count > 0 || constraint->point != NULL) {
        sample.grammar_triggers = constraint->triggers;
        sample.grammar_triggers_count = constraint->triggers_count;
        sample.grammar_thought_open = constraint->thought_open;
        sample.grammar_thought_close = constraint->thought_close;
        sample.grammar_point = constraint->point;
        sample.grammar_in_thought = constraint->in_thought;
    }
    return sample;
}

/* A picture without its whole identity is not compared with others. */
static struct gen_cache_hints cache_hints(const struct gen_request *request,
                                          const struct prepared *prepared,
                                          const struct hearth_space *space)
{
    return (struct gen_cache_hints){
        .no_read = !request->cache_read || prepared->pictures.weak,
        .no_write = !request->cache_write || prepared->pictures.weak,
        .no_disk = request->cache_no_disk,
        .release = request->cache_release,
        .isolated = (request->cache_salt.len > 0 && space == NULL) || prepared->pictures.weak,
        .ttl_s = request->cache_ttl_s,
        .write_max = request->cache_write_max,
        .breakpoints = prepared->breakpoints,
        .breakpoints_count = prepared->breakpoints_count,
    };
}

static void fill_gen(struct call *call, struct call_choice *choice, struct hearth_space *space,
                     struct hearth_space *draft_space)
{
    const struct gen_request *request = &call->request;
    const struct prepared *prepared = &call->prepared;
    const struct token_prompt *prompt = prompt_at(call, choice->index / request->choices);
    struct gen *gen = &choice->gen;

    gen->id = call->first_id + choice->index;
    gen->space = space;
    gen->draft_space = draft_space;
    gen->tenant = call->who;
    gen->tokens = prompt->tokens;
    gen->tokens_count = (uint32_t)prompt->count;
    gen->marks = prepared->marks; /* only of a conversation, which is alone */
    gen->marks_count = prepared->marks_count;
    gen->pictures = prepared->pictures.pieces;
    gen->pictures_count = prepared->pictures.count;
    gen->anchor = prepared->anchor;
    gen->last_user = prepared->last_user;
    gen->transient = prepared->transient;
    gen->max_tokens = request->max_tokens;
    gen->lora = &call->lora;
    gen->score_prompt = request->score_prompt;
    gen->sample = sample_of(request, prepared, choice->index % request->choices);
    gen->control_text = prepared->control_text;
    gen->prediction = prepared->prediction.tokens;
    gen->prediction_count = (uint32_t)prepared->prediction.count;
    gen->cache = cache_hints(request, prepared, space);
    gen->cache.search_failed = call->search_failed;
    gen->sink = call_sink(choice);
}

/* Why what other machines have stored is not known; NONE: it is. */
static enum hearth_reason search_store(const struct call *call, struct hearth_space *space)
{
    const struct token_prompt *prompt = &call->prepared.prompt;
    int error = hearth_discover(space, prompt->tokens, prompt->count,
                                (uint32_t)(call->store_wait_ns / NS_PER_MS));

    return error == HEARTH_OK              ? HEARTH_REASON_NONE
           : error == HEARTH_ERROR_TIMEOUT ? HEARTH_REASON_TIMEOUT
                                           : HEARTH_REASON_TIER_ERROR;
}

static void make_choices(struct call *call)
{
    struct hearth_space *space = call_space(call);
    struct hearth_space *draft_space = space != NULL ? open_space(call, true) : NULL;

    if (space != NULL && call->store_wait_ns >= NS_PER_MS && call->request.cache_read)
        call->search_failed = search_store(call, space);

    call->choices_count = gen_request_choices(&call->request);
    call->choices = mem_alloc_array(call->choices_count, sizeof(*call->choices));
    call->first_id = atomic_fetch_add_explicit(&call->api->next_gen, call->choices_count,
                                               memory_order_relaxed); /* a number; orders nothing */
    for (size_t i = 0; i < call->choices_count; i++) {
        call->choices[i].call = call;
        call->choices[i].index = i;
        stop_text_init(&call->choices[i].stop, call->request.stops, call->request.stops_count);
        fill_gen(call, &call->choices[i], space, draft_space);
    }
}

/* A number that means nothing here; clients send it back. */
static enum err check_slot(struct call *call, struct api_error *error)
{
    uint32_t count = model_facts(call->model)->sequences;

    if (call->request.slot >= (int32_t)count)
        return api_error_set(error, API_ERROR_INVALID, "id_slot",
                             "'id_slot' must be below %u, the number of slots (--parallel).",
                             count);
    call->answer.slot = call->request.slot;
    return ERR_OK;
}

static size_t token_bytes(void *arg, token_id token, char *out, size_t size)
{
    return engine_token_bytes(arg, token, true, out, size);
}

void call_make_answer(struct call *call)
{
    struct answer *answer = &call->answer;

    if (!answer->request) {
        answer_init(answer, &call->request);
        answer->request_id = call->request_id;
        answer->created_s = clock_wall_ns(call->api->clock) / NS_PER_S;
        answer->model = call->wait.name;
    }
    if (!call->model)
        return;
    answer->load_ns = clock_mono_ns(call->api->clock) - call->arrived_ns;
    if (call->request.return_tokens) {
        answer->prompt = call->prepared.prompt.tokens;
        answer->prompt_count = call->prepared.prompt.count;
    }
    answer->token_bytes = token_bytes;
    answer->token_bytes_arg = model_engine(call->model);
}

/* Makes the generation cancellable. A cancellation in the meantime had nothing to cancel, so it is
 * repeated here. */
static void note_submitted(struct call *call, struct gen *gen)
{
    bool cancelled;

    lock_enter(&call->lock);
    call->submitted++;
    cancelled = call->cancelled;
    lock_leave(&call->lock);
    if (cancelled)
        sched_cancel(model_sched(call->model), gen);
}

enum err call_submit(struct call *call, struct gen *gen, struct errinfo *info)
{
    /* Relaxed: a reference of this thread's keeps it above 0. */
    atomic_fetch_add_explicit(&call->pending, 1, memory_order_relaxed);
    enum err err = sched_submit(model_sched(call->model), gen, info);
    if (err == ERR_OK)
        note_submitted(call, gen);
    else
        atomic_fetch_sub_explicit(&call->pending, 1, memory_order_relaxed);
    return err;
}

/* Submits all or none: generations submitted before a refusal are cancelled. */
static bool submit(struct call *call)
{
    struct errinfo info = {0};

    for (size_t i = 0; i < call->choices_count; i++) {
        enum err err = call_submit(call, &call->choices[i].gen, &info);

        if (err != ERR_OK) {
            api_error_from(&call->refused, err, &info);
            call_cancel(call);
            return false;
        }
    }
    return true;
}

/* By the rules of POST /v1/models/{id}/unload. */
static enum err unload(struct call *call, struct api_error *error)
{
    struct pool *pool = api_pool(call->api, error);
    size_t index = pool_find(pool, call->request.model, true);
    struct pool_view view;
    struct errinfo info = {0};

    if (!call->admin)
        return api_error_set(error, API_ERROR_PERMISSION, "keep_alive",
                             "Unloading a model concerns all users of the server: send an admin "
                             "key (hearth serve --admin-key).");
    if (index == SIZE_MAX || !pool_view(pool, index, &view))
        return api_error_set(error, API_ERROR_MODEL, "model", "There is no such model.");
    call->wait.name = view.name;
    if (pool_unload(pool, str_from(view.name), &info) == ERR_OK)
        return ERR_OK;
    return api_error_set(error, API_ERROR_INVALID, "model", "%s", info.text);
}

/* The model is loaded by now, or is to be unloaded. */
static void answer_without_prompt(struct call *call)
{
    struct api_error error = {0};

    if (call->request.unload && unload(call, &error) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    call_make_answer(call);
    call->answered = true;
    if (call_stream_begun(call)) /* while the model was being loaded */
        call_end_stream(call, NULL);
    else
        call_end_whole(call);
}

/* Whether the model is made for answers. */
static enum err check_model(const struct call *call, struct api_error *error)
{
    const struct engine_embed *embed = &model_facts(call->model)->embed;
    bool ranks = embed->pooling == ENGINE_POOLING_RANK;

    if (!embed->only)
        return ERR_OK;
    return api_error_set(error, API_ERROR_UNSUPPORTED, "model",
                         "The model '%s' %s, it does not generate text; use %s.",
                         model_name(call->model), ranks ? "scores documents" : "makes embeddings",
                         ranks ? "/v1/rerank" : "/v1/embeddings");
}

/* Clients write the tokens of other models. */
static enum err check_biases(const struct call *call, struct api_error *error)
{
    const struct sample_params *sample = &call->request.sample;

    for (size_t i = 0; i < sample->biases_count; i++)
        if (!engine_token_valid(model_engine(call->model), sample->biases[i].token))
            return api_error_set(
                error, API_ERROR_INVALID, "logit_bias",
                "'logit_bias' has the token %d, which is not in the vocabulary of %u.",
                sample->biases[i].token, model_facts(call->model)->vocab);
    return ERR_OK;
}

/* Everything that can be wrong with the request. */
static enum err make_ready(struct call *call, struct api_error *error)
{
    TRY(check_model(call, error));
    TRY(check_biases(call, error));
    TRY(call_prepare(call, error));
    TRY(preflight(call, error));
    call_make_answer(call);
    return check_slot(call, error);
}

void call_generate(struct call *call)
{
    struct api_error error = {0};

    if (call->request.load_only || call->request.unload) {
        answer_without_prompt(call);
        return;
    }
    if (make_ready(call, &error) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    baseline_compare(call->api->baselines, call->who, &call->request, &call->prepared,
                     &model_facts(call->model)->fingerprint, &call->answer.diagnosis);
    make_choices(call);
    if (submit(call) && call->request.stream)
        call_begin_stream(call);
}
