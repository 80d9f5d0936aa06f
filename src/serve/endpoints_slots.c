/*
 * endpoints_slots.c: llama-server's slots.
 *
 *      GET  /slots                       one entry per slot of each loaded model
 *      POST /slots/{id}?action=save      {"filename"} -> id_slot, filename, n_saved, n_written, timings
 *      POST /slots/{id}?action=restore   {"filename"} -> id_slot, filename, n_restored, n_read, timings
 *      POST /slots/{id}?action=erase                  -> id_slot, n_erased
 *
 * Saving exports the state of the slot's tokens from the cache to one file, and restoring imports it
 * into the cache, where any request that begins with these tokens finds it. Names of files have no
 * path. Those of a tenant begin with a hash of its name, so that tenants never see each other's.
 *
 * A tenant sees only its own generations (keeps I100): the slots of others are idle for it.
 */
#include "serve/api_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "dialect/json_read.h"
#include "dialect/usage.h"
#include "models/model.h"
#include "serve/slot_file.h"
#include "serve/slots.h"

enum {
    BODY_BYTES_MAX = 16 * 1024 * 1024,
    SHOWN_MAX = 1024, /* generations of a model */
    NAME_BYTES = 256,
    TENANT_DIGITS = 16,
    ENGINE_MS = 60 * 1000,
    TOKENS_BYTES_MAX = 1024 * 1024 * 1024,
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

struct action {
    struct call *call;
    const struct json_reader *body;
    struct json *json;
    int32_t id;
    struct hash128 owner;
    struct hearth_space *space;
    struct slot_state state; /* its tokens are those of the slot */
    struct str filename;     /* as the client has it */
    char name[NAME_BYTES];   /* of the file, below --slot-save-path */
    uint64_t begun_ns;
};

static size_t tokens_count(const struct action *action)
{
    return action->state.tokens.len / sizeof(token_id);
}

static const token_id *tokens_of(const struct action *action)
{
    return (const token_id *)(const void *)action->state.tokens.data;
}

static enum err fail(const struct action *action, const char *text)
{
    return api_error_set(action->body->error, API_ERROR_INVALID, NULL, "%s", text);
}

/* "filename", with a prefix for tenants. */
static enum err read_name(struct action *action)
{
    const char *tenant = action->call->tenant;
    char hex[HASH256_HEX_BYTES] = "";

    if (json_read_str(action->body, "filename", &action->filename) != ERR_OK ||
        !file_is_plain_name(action->filename)) {
        *action->body->error = (struct api_error){0};
        return fail(action, "Invalid filename");
    }
    if (tenant[0] != '\0') {
        struct hash256 hash = hash256_of(tenant, strlen(tenant));
        hash256_hex(&hash, hex);
    }
    snprintf(action->name, sizeof(action->name), "%.*s%s" STR_FMT, TENANT_DIGITS, hex,
             hex[0] != '\0' ? "-" : "", STR_ARG(action->filename));
    return ERR_OK;
}

static enum err read_tokens(struct action *action)
{
    struct slots *slots = action->call->api->slots;

    if (!slots_get(slots, &action->owner, action->id, &action->state.tokens)) {
        api_error_set(action->body->error, API_ERROR_UNAVAILABLE, NULL,
                      "Slot %d is processing a request. Try again when it has ended.", action->id);
        action->body->error->retry_after_s = 1;
        return ERR_INVALID;
    }
    return action->state.tokens.err;
}

/* How many of the slot's tokens are cached; with the key of the last block of them. */
static uint32_t probe(struct action *action, unsigned char key[HEARTH_KEY_BYTES])
{
    const token_id more = 0; /* at least one token of a prompt is computed */
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct buf *tokens = &action->state.tokens;
    struct hearth_block *blocks = NULL;
    size_t count = tokens_count(action);
    uint32_t found = 0;

    if (count == 0 || buf_append(tokens, &more, sizeof(more)) != ERR_OK)
        return 0;
    if (hearth_probe(action->space, tokens_of(action), count + 1, &probe, NULL, 0) == HEARTH_OK)
        blocks = mem_try_alloc_array(probe.blocks_count + 1, sizeof(*blocks));
    if (blocks != NULL && hearth_probe(action->space, tokens_of(action), count + 1, &probe, blocks,
                                       probe.blocks_count) == HEARTH_OK)
        for (size_t i = 0; i < probe.blocks_count && blocks[i].begin < probe.boundary; i++) {
            memcpy(key, blocks[i].key, HEARTH_KEY_BYTES);
            found = probe.boundary;
        }
    buf_truncate(tokens, count * sizeof(more));
    mem_free(blocks);
    return found;
}

static void write_result(const struct action *action, const char *count_name, uint64_t count,
                         const char *bytes_name, uint64_t bytes, const char *time_name)
{
    const struct call *call = action->call;
    struct json *json = action->json;
    uint64_t ns = clock_mono_ns(call->api->clock) - action->begun_ns;

    json_key_int(json, "id_slot", action->id);
    json_key_str(json, "filename", action->filename);
    json_key_uint(json, count_name, count);
    json_key_uint(json, bytes_name, bytes);
    json_key_open(json, "timings", '{');
    json_key_float(json, time_name, (double)ns / NS_PER_MS);
    json_close(json, '}');
    LOG_INFO(call->api->options.log, "api", time_name, LOG_STR("request", call->request_id),
             LOG_UINT("tokens", count), LOG_UINT("bytes", bytes));
}

/* What went wrong with a file goes to the log in full: it contains paths of the machine. */
static enum err fail_file(const struct action *action, enum err err, const struct errinfo *info,
                          const char *what)
{
    LOG_WARN(action->call->api->options.log, "api", what,
             LOG_STR("request", action->call->request_id), LOG_STR("reason", info->text));
    if (err == ERR_NOT_FOUND)
        return fail(action, "Unable to restore slot: there is no such file");
    if (err == ERR_CORRUPT)
        return fail(action, "Unable to restore slot: the file is damaged, or of another "
                            "installation");
    if (err == ERR_DENIED)
        return fail(action, "Unable to restore slot: the file was saved by another model or "
                            "tenant, or cannot be read");
    return err;
}

static enum err save(struct action *action)
{
    const struct call *call = action->call;
    unsigned char key[HEARTH_KEY_BYTES];
    struct errinfo info = {0};
    uint64_t bytes;

    TRY(read_name(action));
    TRY(read_tokens(action));
    /* State of the last answer may be on the device only. */
    enum err err = sched_wait_turn(model_sched(call->model), ENGINE_MS, &info);
    if (err != ERR_OK)
        return api_error_from(action->body->error, err, &info);
    uint32_t count = probe(action, key);
    buf_truncate(&action->state.tokens, count * sizeof(token_id));
    err = slot_file_save(&call->api->options.slots, action->name, &action->state,
                         call->api->options.cache, count > 0 ? key : NULL, &bytes, &info);
    if (err != ERR_OK)
        return fail_file(action, err == ERR_NOT_FOUND || err == ERR_DENIED ? ERR_IO : err, &info,
                         "cannot save a slot");
    write_result(action, "n_saved", count, "n_written", bytes, "save_ms");
    return ERR_OK;
}

static enum err restore(struct action *action)
{
    const struct call *call = action->call;
    unsigned char key[HEARTH_KEY_BYTES];
    struct buf *tokens = &action->state.tokens;
    struct errinfo info = {0};
    uint64_t bytes;

    TRY(read_name(action));
    TRY(read_tokens(action)); /* the slot is idle */
    buf_truncate(tokens, 0);
    enum err err = slot_file_restore(&call->api->options.slots, action->name, &action->state,
                                     call->api->options.cache, &bytes, &info);
    if (err != ERR_OK)
        return fail_file(action, err, &info, "cannot restore a slot");
    uint32_t count = probe(action, key);
    if (count == 0 && tokens->len > 0)
        return fail(action, "Unable to restore slot: the cache has no room for its state");
    slots_put(call->api->slots, &action->owner, action->id, tokens_of(action), count);
    write_result(action, "n_restored", count, "n_read", bytes, "restore_ms");
    return ERR_OK;
}

/* Exact answers do not depend on it: its state is evicted first, unless other prompts use it. */
static enum err erase(struct action *action)
{
    TRY(read_tokens(action));
    size_t count = tokens_count(action);
    if (count > 0)
        (void)hearth_release(action->space, tokens_of(action), count, 0);
    slots_put(action->call->api->slots, &action->owner, action->id, NULL, 0);
    json_key_int(action->json, "id_slot", action->id);
    json_key_uint(action->json, "n_erased", count);
    return ERR_OK;
}

/* Another model, tenant or set of adapters cannot use the state. */
static struct hash256 owner_of(const struct call *call)
{
    struct hash256_state state;

    hash256_init(&state);
    hash256_update_framed(&state, &model_facts(call->model)->fingerprint, sizeof(struct hash256));
    hash256_update_framed(&state, call->tenant, strlen(call->tenant));
    return hash256_final(&state);
}

static enum err run(struct action *action)
{
    static const char *const names[] = {"save", "restore", "erase"};
    static enum err (*const runs[])(struct action *) = {save, restore, erase};
    struct call *call = action->call;
    struct str name;

    call->lora = model_lora(call->model);
    action->space = call_space(call);
    if (action->space == NULL)
        return api_error_set(action->body->error, API_ERROR_UNSUPPORTED, NULL,
                             "The state of slots is in the cache, which is off for this model.");
    TRY(call_query(call, "action", &name, action->body->error));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_eq(name, str_from(names[i])))
            return runs[i](action);
    return fail(action, "Invalid action");
}

enum err endpoint_slot_action(struct call *call, const struct json_reader *body, struct json *json)
{
    struct action action = {.call = call,
                            .body = body,
                            .json = json,
                            .owner = slots_owner(call->who, model_name(call->model)),
                            .state.owner = owner_of(call),
                            .begun_ns = clock_mono_ns(call->api->clock)};
    uint64_t id;

    if (call->api->options.slots.path == NULL)
        return api_error_set(body->error, API_ERROR_UNSUPPORTED, NULL,
                             "This server does not support slots action. Start it with "
                             "`--slot-save-path`");
    if (!str_to_u64(buf_text(&call->capture), &id) || id >= model_facts(call->model)->sequences)
        return fail(&action, "Invalid slot ID");
    action.id = (int32_t)id;
    buf_init(&action.state.tokens, TOKENS_BYTES_MAX);
    enum err err = run(&action);
    buf_fini(&action.state.tokens);
    return err;
}
