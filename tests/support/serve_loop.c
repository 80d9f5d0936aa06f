/*
 * serve_loop.c: see the header. Nothing is kept between requests: what the next one can use is in
 * the cache, or it is lost.
 */
#include "support/serve_loop.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/kinds.h"
#include "engine/schedule.h"
#include "sched/cuts.h"
#include "support/test.h"

enum { FETCH_TIMEOUT_MS = 1000 };

/* One request that is being served. */
struct pass {
    struct serve_loop *loop;
    const struct serve_request *request;
    struct serve_answer *answer;
    uint32_t marks[SERVE_TOKENS_MAX];
    struct schedule schedule, lasting; /* of this prompt; of all longer ones that begin with it */
    uint32_t junction;
    seq_id seq;
};

static const struct engine_facts *facts_of(const struct pass *pass)
{
    return engine_facts(pass->loop->engine);
}

/* ---- chunks ---- */

static void make_schedule(struct pass *pass)
{
    const struct serve_request *request = pass->request;
    size_t marks = 0;

    assert_true(request->count >= 1 && request->count <= SERVE_TOKENS_MAX);
    for (uint32_t i = 0; i < request->count; i++)
        if (request->tokens[i] == SERVE_MARK)
            pass->marks[marks++] = i + 1;
    pass->schedule = (struct schedule){
        .count = request->count,
        .grid = pass->loop->grid,
        .marks = pass->marks,
        .marks_count = marks,
    };
    pass->lasting = pass->schedule;
    pass->lasting.count += 2 * pass->loop->grid;
}

/* The last cut at or before `at` that every longer prompt has as well. */
static uint32_t lasting_floor(const struct pass *pass, uint32_t at)
{
    return schedule_floor(&pass->lasting, MIN(at, pass->request->count - 1));
}

/* ---- restoring ---- */

static struct cuts_shape shape_of(const struct hearth_object *object)
{
    struct cuts_shape shape;

    assert_int_equal(object->shape_bytes, sizeof(shape));
    memcpy(&shape, object->shape, sizeof(shape));
    return shape;
}

/* Where the tokens end that an object of the plan is used for. */
static uint32_t use_end(const struct hearth_plan_info *info, size_t index)
{
    const struct hearth_object *next =
        index + 1 < info->objects_count ? &info->objects[index + 1] : NULL;

    return next != NULL && next->kind == info->objects[index].kind ? next->begin : info->boundary;
}

/* The longest boundary that this loop may use of the plan. */
static uint32_t usable(const struct pass *pass, const struct hearth_plan_info *info)
{
    if (!pass->loop->exact)
        return info->boundary;
    for (size_t i = 0; i < info->objects_count; i++) {
        struct cuts_shape shape = shape_of(&info->objects[i]);
        uint32_t end = use_end(info, i), agreed = cuts_agreed(&shape, &pass->schedule, end);
        if (agreed < end)
            return schedule_floor(&pass->schedule, agreed);
    }
    return schedule_floor(&pass->schedule, info->boundary);
}

static void lower(const struct pass *pass, struct hearth_plan *plan)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);

    for (uint32_t limit; (limit = usable(pass, info)) < info->boundary;)
        hearth_plan_lower(plan, limit);
}

/* Gives up an object, and goes on with a shorter plan. */
static bool shorten(struct pass *pass, struct hearth_plan *plan, size_t index,
                    enum hearth_reason why)
{
    hearth_plan_shorten(plan, index, why);
    pass->loop->shortened++;
    return false;
}

static bool fetch(struct pass *pass, struct hearth_plan *plan, struct state_object *objects)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);

    hearth_plan_prefetch(plan);
    for (size_t i = 0; i < info->objects_count; i++) {
        int error = hearth_plan_fetch(plan, i, FETCH_TIMEOUT_MS, &objects[i].data);
        if (error != HEARTH_OK)
            return shorten(pass, plan, i,
                           error == HEARTH_ERROR_TIMEOUT ? HEARTH_REASON_TIMEOUT
                                                         : HEARTH_REASON_TIER_ERROR);
        struct cuts_shape shape = shape_of(&info->objects[i]);
        objects[i].shape = shape.state;
        objects[i].verified = false;
        if (state_check(pass->loop->engine, &objects[i], NULL) != ERR_OK)
            return shorten(pass, plan, i, HEARTH_REASON_UNVERIFIED);
        objects[i].verified = true;
    }
    return true;
}

/* One try: true when there is a sequence of answer->reused tokens, or a cold start is all that is
 * left. */
static bool try_plan(struct pass *pass, struct hearth_plan *plan)
{
    const struct hearth_plan_info *info = hearth_plan_info(plan);

    lower(pass, plan);
    if (info->boundary == 0)
        return true;
    size_t count = info->objects_count;
    struct state_object *objects = mem_alloc_array(count, sizeof(*objects));
    bool snapshot = info->objects[count - 1].kind == HEARTH_OBJECT_SNAPSHOT, done = false;
    if (fetch(pass, plan, objects)) {
        struct state_restore restore = {
            .rows = objects,
            .rows_count = count - snapshot,
            .snapshot = snapshot ? &objects[count - 1] : NULL,
            .length = info->boundary,
        };
        struct errinfo error = {0};
        enum err err = state_import(pass->loop->engine, &restore, &pass->seq, &error);
        if (err != ERR_OK && err != ERR_ENGINE) /* whatever the cache says fits together does */
            fail_msg("import at %u: %s", info->boundary, error.text);
        done = err == ERR_OK || shorten(pass, plan, count - 1, HEARTH_REASON_REFUSED);
    }
    mem_free(objects);
    return done;
}

static void restore(struct pass *pass)
{
    const struct serve_request *request = pass->request;
    struct hearth_plan *plan = NULL;

    if (pass->loop->space == NULL)
        return;
    assert_int_equal(hearth_lookup(pass->loop->space, request->tokens, request->count, NULL, &plan),
                     HEARTH_OK);
    const struct hearth_plan_info *info = hearth_plan_info(plan);
    pass->answer->matched = info->matched;
    pass->junction = info->junction;
    while (!try_plan(pass, plan))
        ;
    pass->answer->reused = info->boundary;
    pass->answer->reason = info->reason;
    if (pass->seq != SEQ_NONE)
        hearth_plan_accept(plan);
    pass->loop->hits += pass->seq != SEQ_NONE;
    hearth_plan_release(&plan);
}

/* ---- storing ---- */

static void put(struct pass *pass, struct hearth_store *store, enum hearth_object_kind kind,
                uint32_t begin, uint32_t end)
{
    struct engine *engine = pass->loop->engine;
    bool rows = kind == HEARTH_OBJECT_ROWS;
    uint64_t capacity =
        rows ? state_rows_capacity(engine, end - begin) : state_snapshot_bytes(engine, pass->seq);
    struct cuts_shape shape;
    void *memory;

    if (hearth_store_reserve(store, kind, begin, end, capacity, &memory) != HEARTH_OK)
        return;
    memset(&shape, 0, sizeof(shape)); /* its padding is stored as well */
    enum err err =
        rows
            ? state_export_rows(engine, pass->seq, begin, end, memory, capacity, &shape.state, NULL)
            : state_export_snapshot(engine, pass->seq, memory, capacity, &shape.state, NULL);
    if (err != ERR_OK) {
        hearth_store_cancel(store);
        return;
    }
    assert_int_equal(
        shape.state.end,
        end); /* a snapshot is of where the sequence stands, or it does not exist (keeps I23) */
    if (pass->loop->exact)
        cuts_fill(&shape, &pass->schedule);
    if (hearth_store_commit(store, shape.state.bytes, &shape, sizeof(shape)) == HEARTH_OK) {
        pass->loop->objects_stored++;
        pass->loop->snapshots_stored += !rows;
    }
}

static bool wants_snapshot(const struct pass *pass, uint32_t at)
{
    const struct serve_loop *loop = pass->loop;
    uint32_t end = loop->exact ? lasting_floor(pass, at) : at;

    if (!kind_set_needs_snapshot(facts_of(pass)->kinds) || at == 0 || at != end)
        return false;
    if (at >= pass->request->count || at == lasting_floor(pass, pass->request->count - 1))
        return true;
    return (loop->snapshot_every > 0 && at % loop->snapshot_every == 0) ||
           (pass->schedule.marks_count > 0 && at == pass->marks[0]) ||
           at == lasting_floor(pass, pass->junction) || at == pass->request->count - 1;
}

/* Stores what stands now: the rows of whole blocks, and where it ends, its tail; and a snapshot
 * where one is wanted. */
static void retain(struct pass *pass, const token_id *tokens, bool ends)
{
    struct serve_loop *loop = pass->loop;
    uint32_t length = engine_seq_length(loop->engine, pass->seq), begin, end;
    uint32_t kept = loop->exact ? lasting_floor(pass, length) : length;
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .entry = HEARTH_ENTRY_USER};
    struct hearth_store *store;

    pass->answer->retained = kept;
    if (loop->space == NULL || kept == 0)
        return;
    assert_int_equal(hearth_store_open(loop->space, tokens, kept, &hints, &store), HEARTH_OK);
    bool snapshot = kept == length && wants_snapshot(pass, length);
    while ((ends || snapshot) && hearth_store_next(store, &begin, &end))
        put(pass, store, HEARTH_OBJECT_ROWS, begin, end);
    if (snapshot && hearth_store_wants_snapshot(store, length))
        put(pass, store, HEARTH_OBJECT_SNAPSHOT, 0, length);
    hearth_store_close(&store);
}

/* ---- running ---- */

static void run(struct pass *pass, const token_id *tokens, uint32_t count, bool logits)
{
    struct errinfo info = {0};
    struct engine_item item = {pass->seq, tokens, count, logits};

    if (engine_run(pass->loop->engine, &item, 1, &info) != ERR_OK)
        fail_msg("engine_run: %s", info.text);
}

/* Up to the last token. False: the client left. */
static bool prefill(struct pass *pass)
{
    const struct serve_request *request = pass->request;
    struct errinfo info = {0};

    for (uint32_t at = pass->answer->reused; at < request->count - 1;) {
        if (request->cancel_at > 0 && at >= request->cancel_at)
            return false;
        uint32_t end = schedule_next(&pass->schedule, at);
        run(pass, request->tokens + at, end - at, false);
        if (engine_seq_settle(pass->loop->engine, pass->seq, &info) != ERR_OK)
            fail_msg("settle: %s", info.text);
        at = end;
        retain(pass, request->tokens, false);
    }
    return true;
}

static token_id argmax(const float *logits, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (token_id)best;
}

static void decode(struct pass *pass)
{
    const struct serve_request *request = pass->request;
    struct engine *engine = pass->loop->engine;
    uint32_t vocab = facts_of(pass)->vocab;

    assert_true(request->generate <= SERVE_GENERATE_MAX);
    run(pass, request->tokens + request->count - 1, 1, true);
    memcpy(pass->answer->logits, engine_logits(engine, 0), vocab * sizeof(float));
    for (uint32_t i = 0; i < request->generate; i++) {
        pass->answer->generated[i] = argmax(engine_logits(engine, 0), vocab);
        run(pass, &pass->answer->generated[i], 1, true);
    }
}

/* A request that ends, or is cancelled, keeps its state, including decoded tokens
 * (keeps I95). */
static void finish(struct pass *pass)
{
    const struct serve_request *request = pass->request;
    uint32_t generated = pass->answer->cancelled ? 0 : request->generate;
    token_id *tokens = mem_alloc_array(request->count + SERVE_GENERATE_MAX, sizeof(*tokens));

    memcpy(tokens, request->tokens, request->count * sizeof(*tokens));
    memcpy(tokens + request->count, pass->answer->generated, generated * sizeof(*tokens));
    retain(pass, tokens, true);
    mem_free(tokens);
}

struct hearth_space *serve_space(struct hearth_cache *cache, const struct engine *engine,
                                 const char *tenant)
{
    const struct engine_facts *facts = engine_facts(engine);
    struct hearth_model model = {
        .struct_size = sizeof(model), .kinds = facts->kinds, .window = facts->window};
    struct hearth_space *space;

    memcpy(model.fingerprint, facts->fingerprint.bytes, sizeof(model.fingerprint));
    assert_int_equal(hearth_space_open(cache, &model, tenant, 0, &space), HEARTH_OK);
    return space;
}

void serve(struct serve_loop *loop, const struct serve_request *request,
           struct serve_answer *answer)
{
    struct pass *pass = mem_alloc(sizeof(*pass));
    struct errinfo info = {0};

    *answer = (struct serve_answer){.logits = answer->logits};
    pass->loop = loop;
    pass->request = request;
    pass->answer = answer;
    pass->seq = SEQ_NONE;
    make_schedule(pass);
    restore(pass);
    if (pass->seq == SEQ_NONE && engine_seq_acquire(loop->engine, &pass->seq, &info) != ERR_OK)
        fail_msg("acquire: %s", info.text);
    assert_int_equal(engine_seq_length(loop->engine, pass->seq), answer->reused);
    answer->cancelled = !prefill(pass);
    if (!answer->cancelled)
        decode(pass);
    finish(pass);
    engine_seq_release(loop->engine, &pass->seq);
    loop->requests++;
    loop->tokens += request->count;
    loop->tokens_reused += answer->reused;
    mem_free(pass);
}
