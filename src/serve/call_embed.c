/*
 * call_embed.c: calls for vectors and scores: from inputs to tokens to vectors.
 *
 *      worker:     tokenize all inputs; submit the first few
 *      scheduler:  on_done: keep the vector; submit the next one
 *      api-end:    counts each; the last one writes the answer (call_end.c)
 *
 * Only a part of the engine's sequences is used by one call, and never more than that is queued: a
 * list of a thousand inputs does not delay a request that comes after it by more than a few. One
 * thread at a time submits (`submitting`), so that generations are numbered in order.
 *
 * Scores: a reranker reads each pair as one input. Any other model makes a vector of every text,
 * and a score is the cosine of two, as vLLM has it.
 */
#include "serve/call.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "chat/embed_request.h"
#include "serve/api_impl.h"

enum {
    PREFIX_MIN = 32, /* tokens that inputs must have in common for their state to be stored */
    FLOATS_MAX = 1024 * 1024 * 4, /* of an answer: as text they take up to 16 bytes each */
};

/* ---- tokens ---- */

struct reading {
    struct call *call;
    const struct engine_facts *facts;
    struct api_error *error;
    uint32_t context;  /* tokens that one input can have */
    token_id *scratch; /* as many */
    size_t count;
    bool uncounted; /* `count` is the least that it can be */
};

static enum err too_long(const struct reading *reading, const char *field, size_t index, bool list,
                         size_t count)
{
    uint32_t context = reading->context, all = reading->facts->context;
    char name[API_PARAM_BYTES], share[96] = "";

    snprintf(name, sizeof(name), list ? "%s[%zu]" : "%s", field, index);
    if (context < all)
        snprintf(share, sizeof(share),
                 " With --kv-streams, one input gets %u of the %u tokens of the context.", context,
                 all);
    api_error_set(reading->error, API_ERROR_CONTEXT, name,
                  "'%s' has %s%zu tokens, but %s %u. Shorten the input%s.%s", name,
                  reading->uncounted ? "at least " : "", count,
                  context < all ? "an input can have" : "the context of the model has", context,
                  context < reading->facts->context_trained ? ", or start the server with a larger "
                                                              "--ctx-size"
                                                            : "",
                  share);
    reading->error->prompt_tokens = (uint32_t)MIN(count, UINT32_MAX);
    reading->error->context = context;
    return ERR_LIMIT;
}

/* Of a text that has more tokens than there is room: those that fit, and the token that the
 * tokenizer puts at the end of every input. */
static enum err add_beginning(const struct reading *reading, struct str text, unsigned flags,
                              size_t room, size_t count, struct errinfo *info)
{
    const struct engine *engine = model_engine(reading->call->model);
    token_id *all = mem_try_alloc_array(count, sizeof(*all)), *out;

    if (all == NULL)
        return ERR_NOMEM;
    enum err err = engine_tokenize(engine, text, flags, all, count, &count, info);
    out = reading->scratch + reading->count;
    if (err == ERR_OK && room > 0) {
        memcpy(out, all, room * sizeof(*all));
        if (engine_token_is_control(engine, all[count - 1]))
            out[room - 1] = all[count - 1];
    }
    mem_free(all);
    return err;
}

static enum err tokenize(struct reading *reading, struct str text, unsigned flags)
{
    size_t room = reading->context - MIN(reading->count, reading->context), count;
    struct errinfo info = {0};
    enum err err = engine_tokenize(model_engine(reading->call->model), text, flags,
                                   reading->scratch + reading->count, room, &count, &info);
    bool cut = err == ERR_LIMIT && reading->call->request.embed->truncate;

    if (cut)
        err = add_beginning(reading, text, flags, room, count, &info);
    if (err != ERR_OK && err != ERR_LIMIT)
        return api_error_from(reading->error, err, &info);
    reading->count += cut ? room : count;
    return err;
}

/* Not by tokens_from_string, which adds nothing at the end of an input; but with its limits. */
static enum err add_text(struct reading *reading, struct str text, unsigned flags)
{
    struct tokens_caller caller = call_caller(reading->call);
    size_t least = tokens_at_least(model_tokens(reading->call->model), text.len);
    size_t cost = text.len > TOKENS_CHARGE_BYTES ? text.len * TOKENS_COST : 0;
    struct errinfo info = {0};
    enum err err = ERR_OK;

    if (least > reading->context && !reading->call->request.embed->truncate) {
        reading->uncounted = true;
        reading->count += least;
        return ERR_LIMIT;
    }
    if (caller.stopped(caller.arg))
        err = ERR_CANCELLED;
    else if (text.len > TOKENS_TEXT_BYTES)
        err = err_set(&info, ERR_LIMIT, "an input has %zu bytes of text; the limit is %d", text.len,
                      TOKENS_TEXT_BYTES);
    else if (cost > 0)
        err = caller.charge(caller.arg, cost, &info);
    if (err != ERR_OK)
        return api_error_from(reading->error, err, &info);
    err = tokenize(reading, text, flags);
    if (cost > 0)
        caller.release(caller.arg, cost);
    return err;
}

static void add_token(struct reading *reading, token_id token)
{
    if (token == TOKEN_NONE)
        return;
    if (reading->count < reading->context)
        reading->scratch[reading->count] = token;
    reading->count++;
}

static enum err add_tokens(struct reading *reading, const struct embed_request *request,
                           const struct embed_input *input)
{
    for (size_t i = 0; i < input->tokens_count; i++) {
        if (!engine_token_valid(model_engine(reading->call->model), input->tokens[i]))
            return api_error_set(reading->error, API_ERROR_INVALID, request->field,
                                 "'%s' has the token %d, which is not in the vocabulary.",
                                 request->field, input->tokens[i]);
        add_token(reading, input->tokens[i]);
    }
    return reading->count > reading->context ? ERR_LIMIT : ERR_OK;
}

/* A reranker's own form of a pair. Control tokens count in it, but not in the client's texts. */
static enum err add_form(struct reading *reading, struct str form, struct str query,
                         struct str document)
{
    struct tokens_caller caller = call_caller(reading->call);
    struct chat_span spans[2];
    struct chat_text text = {.spans = spans};
    struct token_prompt prompt = {0};
    struct errinfo info = {0};
    struct buf all;

    buf_init(&all, form.len + query.len + document.len);
    while (form.len > 0) {
        static const struct str query_name = STR("{query}"), document_name = STR("{document}");
        bool is_query = str_starts(form, query_name), is_document = str_starts(form, document_name);
        struct str value = is_query ? query : document;
        size_t len = is_query ? query_name.len : is_document ? document_name.len : 1;
        if ((is_query || is_document) && text.span_count < COUNT_OF(spans)) {
            spans[text.span_count++] = (struct chat_span){all.len, all.len + value.len};
            buf_append(&all, value.ptr, value.len);
        } else {
            buf_append(&all, form.ptr, len);
        }
        form = str_skip(form, len);
    }
    text.text = buf_text(&all);
    text.generation = text.text.len;
    enum err err = all.err;
    if (err == ERR_OK)
        err = tokens_from_text(model_tokens(reading->call->model), &caller, &text, &prompt, &info);
    for (size_t i = 0; err == ERR_OK && i < prompt.count; i++)
        add_token(reading, prompt.tokens[i]);
    token_prompt_fini(&prompt);
    buf_fini(&all);
    if (err != ERR_OK)
        return api_error_from(reading->error, err, &info);
    return reading->count > reading->context ? ERR_LIMIT : ERR_OK;
}

static enum err add_pair(struct reading *reading, struct str query, struct str document)
{
    const struct engine_embed *embed = &reading->facts->embed;

    if (embed->rank_form != NULL)
        return add_form(reading, str_from(embed->rank_form), query, document);
    add_token(reading, embed->rank_begin);
    enum err first = add_text(reading, query, 0);
    if (first != ERR_OK && first != ERR_LIMIT)
        return first;
    add_token(reading, embed->rank_middle);
    add_token(reading, embed->rank_separator);
    enum err second = add_text(reading, document, 0);
    if (second != ERR_OK && second != ERR_LIMIT)
        return second;
    add_token(reading, embed->rank_end);
    return reading->count > reading->context ? ERR_LIMIT : ERR_OK;
}

/* What the engine is to make a vector of: a pair for a reranker, else one text; the texts of queries
 * come after the inputs. */
static enum err read_item(struct reading *reading, size_t index, const char **field, size_t *at,
                          bool *list)
{
    const struct embed_request *request = reading->call->request.embed;
    bool is_query = index >= request->count;
    const struct embed_input *input =
        is_query ? &request->queries[index - request->count] : &request->inputs[index];
    bool pairs = reading->facts->embed.pooling == ENGINE_POOLING_RANK;

    *field = is_query ? request->queries_field : request->field;
    *at = is_query ? index - request->count : index;
    *list = (is_query ? request->queries_count : request->count) > 1;
    reading->count = 0;
    reading->uncounted = false;
    if (pairs)
        return add_pair(reading, request->queries[request->queries_count > 1 ? index : 0].text,
                        input->text);
    return input->tokens != NULL ? add_tokens(reading, request, input)
                                 : add_text(reading, input->text, ENGINE_TOKENIZE_BOS);
}

/* Tokenizes input `index` into the arena of the request. */
static enum err read_prompt(struct reading *reading, size_t index, struct gen *gen)
{
    struct arena *arena = &reading->call->request.arena;
    const struct embed_request *request = reading->call->request.embed;
    const char *field;
    struct errinfo info = {0};
    size_t at;
    bool list;

    enum err err = read_item(reading, index, &field, &at, &list);
    if (err == ERR_LIMIT && reading->error->kind == API_OK && !request->truncate)
        return too_long(reading, field, at, list, reading->count);
    if (err != ERR_OK && err != ERR_LIMIT)
        return err;
    reading->count = MIN(reading->count, reading->context);
    if (reading->count == 0)
        return api_error_set(reading->error, API_ERROR_INVALID, field, "'%s' must not be empty.",
                             field);
    token_id *tokens = arena_alloc_array(arena, reading->count, sizeof(*tokens));
    if (tokens == NULL)
        return api_error_from(reading->error, arena->err, NULL);
    memcpy(tokens, reading->scratch, reading->count * sizeof(*tokens));
    gen->tokens = tokens;
    gen->tokens_count = (uint32_t)reading->count;
    err = sched_preflight_embed(model_sched(reading->call->model), gen->tokens_count, &info);
    return err == ERR_OK ? ERR_OK
                         : call_refuse_prompt(reading->call, "Shorten the input", gen->tokens_count,
                                              err, &info, reading->error);
}

/* ---- generations ---- */

/* The first input stores what all of them begin with; the rest of an input is rarely used again. */
static void share_prefix(struct call *call)
{
    struct gen *first = &call->choices[0].gen;
    uint32_t shared = first->tokens_count;

    for (size_t i = 0; i < call->choices_count; i++) {
        struct gen *gen = &call->choices[i].gen;
        shared = sched_common(first->tokens, shared, gen->tokens, gen->tokens_count);
        gen->cache.no_write = true;
    }
    if (call->choices_count > 1 && shared >= PREFIX_MIN) {
        first->cache.no_write = false;
        first->cache.write_max = shared;
    }
}

static void on_started(void *arg, const struct gen_usage *usage)
{
    (void)arg;
    (void)usage;
}

static void take_vector(struct call_choice *choice, const struct gen_result *result)
{
    struct call *call = choice->call;
    struct answer *answer = &call->answer;
    uint32_t size = model_facts(call->model)->embed.size;

    if (result->end == GEN_END_ERROR)
        api_error_from(&answer->error, result->info.code, &result->info);
    else if (result->vector == NULL)
        api_error_from(&answer->error, ERR_CANCELLED, NULL);
    else
        memcpy(call->embed.vectors + choice->index * size, result->vector, size * sizeof(float));
    if (answer->usage.prompt == 0) /* why no more was reused: as of the first one */
        answer->usage = result->usage;
    else
        call_add_usage(&answer->usage, &result->usage);
    call_merge_times(&answer->times, &result->times);
    answer->begun = true;
    answer->choices[0].finish = answer->error.kind != API_OK ? ANSWER_FAILED : ANSWER_STOP;
}

static void submit_more(struct call *call);

static void on_done(void *arg, const struct gen_result *result)
{
    struct call_choice *choice = arg;
    struct call *call = choice->call;

    take_vector(choice, result);
    choice->result = *result;
    choice->result.tokens = NULL;
    choice->result.vector = NULL;
    choice->result.tail = STR_NONE;
    lock_enter(&call->lock);
    call->ended++;
    call->embed.stop = call->embed.stop || call->answer.error.kind != API_OK;
    lock_leave(&call->lock);
    submit_more(call);
    call_ends_push(call->api->ends, choice);
}

/* The next one to submit; NULL: not now, and this thread no longer submits. */
static struct call_choice *next_choice(struct call *call)
{
    struct call_choice *next = NULL;

    lock_enter(&call->lock);
    bool more = call->submitted < call->choices_count && !call->embed.stop && !call->cancelled;
    if (more && call->submitted - call->ended < call->embed.window)
        next = &call->choices[call->submitted];
    else
        call->embed.submitting = false;
    lock_leave(&call->lock);
    return next;
}

static bool begin_submitting(struct call *call)
{
    lock_enter(&call->lock);
    bool mine = !call->embed.submitting;
    call->embed.submitting = true;
    lock_leave(&call->lock);
    return mine;
}

/* A full queue is no failure as long as another input of the call is on its way: its end brings us
 * back here. */
static bool may_try_later(struct call *call, enum err err)
{
    lock_enter(&call->lock);
    bool later = err == ERR_BUSY && call->submitted > call->ended;
    call->embed.stop = call->embed.stop || !later;
    call->embed.submitting = false;
    lock_leave(&call->lock);
    return later;
}

static void submit_more(struct call *call)
{
    struct call_choice *choice;
    struct errinfo info = {0};

    if (!begin_submitting(call))
        return;
    while ((choice = next_choice(call)) != NULL) {
        enum err err = call_submit(call, &choice->gen, &info);
        if (err == ERR_OK)
            continue;
        if (!may_try_later(call, err))
            api_error_from(&call->refused, err, &info);
        return;
    }
}

static void make_choices(struct call *call, size_t count)
{
    call->choices = mem_alloc_array(count, sizeof(*call->choices));
    call->first_id = atomic_fetch_add_explicit(&call->api->next_gen, count,
                                               memory_order_relaxed); /* a number; orders nothing */
    for (size_t i = 0; i < count; i++) {
        struct call_choice *choice = &call->choices[i];
        choice->call = call;
        choice->index = i;
        choice->gen.id = call->first_id + i;
        choice->gen.embed = true;
        choice->gen.tenant = call->who;
        choice->gen.lora = &call->lora;
        choice->gen.sink = (struct gen_sink){.started = on_started, .done = on_done, .arg = choice};
    }
}

static enum err prepare_inputs(struct call *call, struct api_error *error)
{
    const struct engine_facts *facts = model_facts(call->model);
    const struct embed_request *request = call->request.embed;
    struct reading reading = {.call = call,
                              .facts = facts,
                              .error = error,
                              .context = model_request_context(call->model)};
    bool texts = request->queries_count > 0 && facts->embed.pooling != ENGINE_POOLING_RANK;
    size_t count = request->count + (texts ? request->queries_count : 0);
    enum err err = ERR_OK;

    make_choices(call, count);
    reading.scratch = mem_alloc_array(reading.context, sizeof(*reading.scratch));
    for (size_t i = 0; i < count && err == ERR_OK; i++)
        err = read_prompt(&reading, i, &call->choices[i].gen);
    mem_free(reading.scratch);
    if (err != ERR_OK) {
        mem_free(call->choices);
        call->choices = NULL;
        return err;
    }
    call->choices_count = count;
    call->embed.vectors = mem_alloc_array(count * facts->embed.size, sizeof(float));
    call->embed.window = facts->embed.whole ? facts->sequences : MAX(facts->sequences / 2, 1);
    return ERR_OK;
}

/* Refuses what this kind of model cannot do. */
static enum err check_model(const struct call *call, struct api_error *error)
{
    const struct engine_embed *embed = &model_facts(call->model)->embed;
    const struct embed_request *request = call->request.embed;

    if (embed->pooling == ENGINE_POOLING_RANK && request->queries_count == 0)
        return api_error_set(error, API_ERROR_UNSUPPORTED, "model",
                             "The model '%s' scores documents; use /v1/rerank.",
                             model_name(call->model));
    if (request->dimensions > embed->size)
        return api_error_set(error, API_ERROR_INVALID, "dimensions",
                             "'dimensions' must be at most %u, the size of the model's embeddings.",
                             embed->size);
    if (request->queries_count == 0 && request->count * embed->size > FLOATS_MAX)
        return api_error_set(error, API_ERROR_TOO_LARGE, request->field,
                             "'%s' has %zu entries, and each gets %u numbers: send at most %u at a "
                             "time.",
                             request->field, request->count, embed->size, FLOATS_MAX / embed->size);
    return ERR_OK;
}

void call_embed(struct call *call)
{
    struct api_error error = {0};

    call->lora = model_lora(call->model);
    if (call->request.embed->count == 0) {
        call_make_answer(call);
        call->answered = true;
        call_end_whole(call);
        return;
    }
    if (check_model(call, &error) != ERR_OK || prepare_inputs(call, &error) != ERR_OK) {
        call_fail(call, &error);
        return;
    }
    call_make_answer(call);
    share_prefix(call);
    struct hearth_space *space = call_space(call);
    for (size_t i = 0; i < call->choices_count; i++)
        call->choices[i].gen.space = space;
    submit_more(call);
}

/* ---- the answer ---- */

static void score(const struct call *call, struct answer_vectors *out, uint32_t size)
{
    const struct embed_request *request = call->request.embed;
    const float *vectors = call->embed.vectors;
    bool ranks = model_facts(call->model)->embed.pooling == ENGINE_POOLING_RANK;

    for (size_t i = 0; i < request->count; i++) {
        size_t query = request->count + (request->queries_count > 1 ? i : 0);
        out->values[i] = ranks ? vectors[i * size]
                               : embed_cosine(vectors + i * size, vectors + query * size, size);
    }
}

void call_finish_vectors(struct call *call)
{
    const struct embed_request *request = call->request.embed;
    uint32_t size = model_facts(call->model)->embed.size;
    struct answer_vectors *out = &call->answer.vectors;

    out->size = request->queries_count > 0 ? 1
                : request->dimensions > 0  ? request->dimensions
                                           : size;
    out->values = mem_alloc_array(request->count * out->size, sizeof(float));
    if (request->queries_count > 0) {
        score(call, out, size);
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        float *vector = out->values + i * out->size;
        memcpy(vector, call->embed.vectors + i * size, out->size * sizeof(float));
        if (!request->raw)
            embed_normalize(vector, out->size);
    }
}
