/*
 * endpoints_slots.c: llama-server's slots.
 *
 *      GET  /slots        one entry per slot of each loaded model, with the generation in it
 *      POST /slots/{id}   a sentence
 *
 * hearth has one cache for all requests, and any sequence can continue any of them: a slot is only a
 * number that a client may give a request ("id_slot").
 *
 * A tenant sees only its own generations (keeps I100): the slots of others are idle for it.
 */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "dialect/json_read.h"
#include "dialect/usage.h"
#include "models/model.h"

enum {
    BODY_BYTES_MAX = 16 * 1024 * 1024,
    SHOWN_MAX = 1024, /* generations of a model */
};

/* ---- GET ---- */

struct shown {
    struct sched_view view;
    struct api_caller caller;
};

struct listing {
    const struct loop_request *req;
    const char *model;
    struct shown *gens; /* SHOWN_MAX */
    size_t count;
};

static void collect(const struct api_gen *gen, void *arg)
{
    struct listing *listing = arg;

    if (strcmp(gen->caller.who, listing->req->auth.who) != 0 || gen->model != listing->model ||
        listing->count == SHOWN_MAX)
        return;
    listing->gens[listing->count++] = (struct shown){*gen->view, gen->caller};
}

static void write_usage(struct json *json, const struct gen_usage *usage)
{
    json_key_open(json, "usage", '{');
    json_key_uint(json, "prompt", usage->prompt);
    usage_write_sources(json, usage);
    json_key_uint(json, "generated", usage->generated);
    json_key_text(json, "reason", hearth_reason_name(usage->reason));
    json_close(json, '}');
}

/* The first fields are llama-server's. */
static void write_progress(struct json *json, const struct sched_view *view)
{
    const struct gen_usage *usage = &view->usage;
    /* not usage_cached: the counts of a job that is being restored are not complete */
    uint32_t cached = gen_usage_reused(usage);

    json_key_uint(json, "n_prompt_tokens", usage->prompt);
    json_key_uint(json, "n_prompt_tokens_processed", view->done - MIN(view->done, cached));
    json_key_uint(json, "n_prompt_tokens_cache", cached);
    json_key_open(json, "next_token", '[');
    json_open(json, '{');
    json_key_bool(json, "has_next_token", true);
    json_key_uint(json, "n_decoded", usage->generated);
    json_close(json, '}');
    json_close(json, ']');
    json_key_uint(json, "prompt_done", view->done);
    write_usage(json, usage);
    json_key_uint(json, "age_ms", view->age_ns / NS_PER_MS);
}

/* Ids of generations and sequences reveal what others do, so they are for admins only. */
static void write_slot(struct json *json, const struct listing *listing, size_t id,
                       uint32_t context, const struct shown *gen)
{
    const struct sched_view *view = gen != NULL ? &gen->view : NULL;
    bool admin = listing->req->auth.admin;

    json_open(json, '{');
    json_key_uint(json, "id", id);
    json_key_int(json, "id_task", view == NULL ? -1 : admin ? (int64_t)view->id : 0);
    json_key_uint(json, "n_ctx", context);
    json_key_bool(json, "speculative", false);
    json_key_bool(json, "is_processing",
                  view != NULL && view->phase > GEN_DEFERRED && view->phase < GEN_FINISHED);
    json_key_text(json, "model", listing->model);
    if (view != NULL) {
        json_key_text(json, "request", gen->caller.request_id);
        if (admin)
            json_key_int(json, "seq", view->seq);
        json_key_text(json, "phase", gen_phase_name(view->phase));
        write_progress(json, view);
    }
    json_close(json, '}');
}

/* Generations in their slots; those without one, or whose slot is shown already, in the places that
 * are left, and after them. */
static size_t place(const struct listing *listing, const struct shown **places, size_t slots)
{
    size_t next = 0, end = slots;

    for (size_t i = 0; i < listing->count; i++) {
        int32_t slot = listing->gens[i].caller.slot;

        if (slot >= 0 && (size_t)slot < slots && places[slot] == NULL)
            places[slot] = &listing->gens[i];
    }
    for (size_t i = 0; i < listing->count; i++) {
        const struct shown *gen = &listing->gens[i];

        if (gen->caller.slot >= 0 && (size_t)gen->caller.slot < slots &&
            places[gen->caller.slot] == gen)
            continue;
        while (next < slots && places[next] != NULL)
            next++;
        places[next < slots ? next : end++] = gen;
    }
    return end;
}

static void write_slots(struct json *json, struct listing *listing, struct pool *pool,
                        const struct model *model)
{
    const struct engine_facts *facts = model_facts(model);

    listing->model = model_name(model);
    listing->count = 0;
    api_each_gen(listing->req->api, pool, collect, listing);
    const struct shown **places =
        mem_alloc_array(facts->sequences + listing->count, sizeof(*places));
    size_t end = place(listing, places, facts->sequences);
    for (size_t i = 0; i < end; i++)
        write_slot(json, listing, i, model_request_context(model), places[i]);
    mem_free(places);
}

void endpoint_slots(const struct loop_request *req)
{
    struct listing listing = {.req = req};
    struct api_error error = {0};
    struct pool *pool = api_pool(req->api, &error);
    struct model *model;
    struct buf body;

    if (!pool) {
        loop_fail(req, &error);
        return;
    }
    struct json json = json_begin(&body, BODY_BYTES_MAX, '[');
    listing.gens = mem_alloc_array(SHOWN_MAX, sizeof(*listing.gens));
    for (size_t i = 0; (model = pool_next(pool, &i));) {
        write_slots(&json, &listing, pool, model);
        pool_unpeek(pool, model);
    }
    mem_free(listing.gens);
    json_close(&json, ']');
    loop_respond(req, &body);
}

/* ---- POST ---- */

enum err endpoint_slot_action(struct call *call, const struct json_reader *body, struct json *json)
{
    (void)call;
    (void)json;
    return api_error_set(
        body->error, API_ERROR_UNSUPPORTED, NULL,
        "Slots need not be saved, restored or erased: every prompt is cached, and "
        "any later request that begins with it continues it, also after a restart.");
}
