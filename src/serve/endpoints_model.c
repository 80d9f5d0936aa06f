/*
 * endpoints_model.c: models: the list in the form of both dialects, loading and unloading, and
 * /props with all settings. All on the loop thread: the pool does slow work elsewhere.
 */
#include "serve/api_impl.h"

#include <hearth/hearth.h>

#include "dialect/json_read.h"
#include "base/json_write.h"
#include "base/clock.h"
#include "models/pool.h"
#include "chat/neutral.h"
#include "chat/recall.h"
#include "sched/memory.h"

enum { NAME_BYTES_MAX = 4096 };

/* ---- models ---- */

/* What the model can be asked for. */
static void write_uses(struct json *json, const struct engine_embed *embed)
{
    bool ranks = embed->pooling == ENGINE_POOLING_RANK;

    json_key_open(json, "capabilities", '[');
    if (!embed->only)
        json_text(json, "completion");
    json_text(json, ranks ? "rerank" : "embedding");
    json_close(json, ']');
}

/* So that clients can tell how long a prompt will take (cost_prompt_ns). Before the first prefill,
 * the self-test gives a rough idea. */
static void write_cost(struct json *json, const struct model *model)
{
    static const char *const names[COST_PARTS] = {"run_ns", "output_ns", "token_ns", "depth_ns"};
    const struct engine_facts *facts = model_facts(model);
    struct cost cost = sched_get_cost(model_sched(model));
    bool learned = cost_known(&cost);

    if (!learned && facts->tokens_per_s > 0)
        cost.ns[COST_TOKEN] = (double)NS_PER_S / facts->tokens_per_s;
    json_key_open(json, "prefill_cost", '{');
    json_key_bool(json, "learned", learned);
    json_key_uint(json, "chunk", facts->chunk);
    for (int i = 0; i < COST_PARTS; i++)
        json_key_float(json, names[i], cost.ns[i]);
    json_close(json, '}');
}

/* Figures known only for a loaded model. Field names: n_ctx is llama-server's, max_model_len
 * vLLM's, context_length that of routers. */
static void write_facts(struct json *json, const struct model *model)
{
    const struct engine_facts *facts = model_facts(model);
    char kinds[64];

    json_key_uint(json, "context_length", model_request_context(model));
    json_key_uint(json, "max_model_len", model_request_context(model));
    json_key_text(json, "kinds", kind_set_names(facts->kinds, kinds, sizeof(kinds)));
    write_uses(json, &facts->embed);
    json_key_open(json, "meta", '{');
    json_key_uint(json, "n_ctx", model_request_context(model));
    json_key_uint(json, "n_ctx_train", facts->context_trained);
    json_key_uint(json, "n_vocab", facts->vocab);
    json_key_uint(json, "n_embd", facts->embed.size);
    json_key_text(json, "pooling", engine_pooling_names[facts->embed.pooling]);
    json_key_uint(json, "n_params", facts->parameters);
    json_key_uint(json, "size", facts->weights_bytes);
    json_key_text(json, "architecture", facts->architecture);
    json_key_text(json, "description", facts->description);
    write_cost(json, model);
    json_close(json, '}');
}

/* Use by others and the time of last use are for admins only. */
static void write_use(struct json *json, const struct pool_view *view)
{
    json_key_uint(json, "idle_s", view->idle_ns / NS_PER_S);
    json_key_uint(json, "uses", view->uses);
    json_key_uint(json, "waiting", view->waits);
    json_key_uint(json, "loads", view->loads);
}

static void write_state(struct json *json, const struct pool_view *view)
{
    json_key_text(json, "state", pool_state_name(view->state));
    if (view->state == POOL_LOADING)
        json_key_single(json, "progress", view->progress);
    if (view->error.code != ERR_OK)
        json_key_text(json, "error", err_sentence(view->error.code));
    json_key_bool(json, "default", view->is_default);
    json_key_bool(json, "pinned", view->pinned);
    json_key_bool(json, "file_missing", view->file_missing);
    json_key_uint(json, "size", view->file_bytes);
    json_key_uint(json, "memory_bytes", view->bytes);
    json_key_uint(json, "ttl_s", view->ttl_ns / NS_PER_S);
}

static void write_aliases(struct json *json, const char *aliases)
{
    struct str rest = str_from(aliases != NULL ? aliases : ""), alias;

    json_key_open(json, "aliases", '[');
    while (str_next(&rest, ',', &alias))
        if (alias.len > 0)
            json_str(json, alias);
    json_close(json, ']');
}

/* The fields of an open object. */
static void write_model(struct json *json, struct pool *pool, size_t index, bool admin)
{
    struct model *model = pool_peek(pool, index);
    uint64_t created_s = model ? model_loaded_s(model) : 0; /* both dialects need a time */
    struct pool_view view = {0};

    (void)pool_view(pool, index, &view);
    json_key_text(json, "id", view.name);
    json_key_text(json, "object", "model");
    json_key_uint(json, "created", created_s);
    json_key_time(json, "created_at", created_s);
    json_key_text(json, "owned_by", "hearth");
    json_key_text(json, "type", "model");
    json_key_text(json, "display_name", view.name);
    write_aliases(json, view.aliases);
    write_state(json, &view);
    if (admin)
        write_use(json, &view);
    if (model) {
        write_facts(json, model);
        pool_unpeek(pool, model);
    }
}

static void write_ends(struct json *json, struct pool *pool, size_t count)
{
    struct pool_view first = {0}, last = {0};

    (void)pool_view(pool, 0, &first);
    (void)pool_view(pool, count - 1, &last);
    json_key_text(json, "first_id", first.name);
    json_key_text(json, "last_id", last.name);
    json_key_bool(json, "has_more", false);
}

enum err endpoint_models(const struct loop_request *req, struct json *json, struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);

    if (!pool)
        return ERR_INVALID;
    size_t count = pool_count(pool);
    json_key_text(json, "object", "list");
    json_key_open(json, "data", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(json, '{');
        write_model(json, pool, i, req->auth.admin);
        json_close(json, '}');
    }
    json_close(json, ']');
    write_ends(json, pool, count);
    return ERR_OK;
}

static enum err fail_unknown(struct api_error *error)
{
    return api_error_set(error, API_ERROR_MODEL, "model",
                         "There is no such model. GET /v1/models lists those that exist.");
}

/* The name in the path, decoded: names may have slashes, plain or escaped. False: it is not a valid
 * name. The caller finishes `name` either way. */
static bool read_name(const struct loop_request *req, struct buf *name)
{
    buf_init(name, NAME_BYTES_MAX);
    return buf_append_unescaped(name, req->request->captures[0], false) == ERR_OK;
}

enum err endpoint_model(const struct loop_request *req, struct json *json, struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);
    size_t index = SIZE_MAX;
    struct buf name;

    if (!pool)
        return ERR_INVALID;
    if (read_name(req, &name))
        index = pool_find(pool, buf_text(&name), true);
    buf_fini(&name);
    if (index == SIZE_MAX)
        return fail_unknown(error);
    write_model(json, pool, index, req->auth.admin);
    return ERR_OK;
}

/* Cuts off "/load" or "/unload"; false: it ends in neither. */
static bool cut_action(struct str *path, bool *load)
{
    static const struct str actions[] = {STR("/unload"), STR("/load")};

    for (size_t i = 0; i < COUNT_OF(actions); i++) {
        if (!str_ends(*path, actions[i]))
            continue;
        *load = i == 1;
        path->len -= actions[i].len;
        return true;
    }
    return false;
}

/* Starts the change and reports the state: this thread waits for nothing. */
static enum err change(const struct loop_request *req, struct str path, struct json *json,
                       struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);
    struct errinfo info = {0};
    bool load;

    if (!cut_action(&path, &load))
        return fail_unknown(error);
    enum err err = load ? pool_load(pool, path, &info) : pool_unload(pool, path, &info);
    if (err == ERR_NOT_FOUND)
        return fail_unknown(error);
    if (err != ERR_OK)
        return api_error_set(error, API_ERROR_INVALID, "model", "%s", info.text);
    write_model(json, pool, pool_find(pool, path, true), req->auth.admin);
    return ERR_OK;
}

/* POST /v1/models/{id}/load, /unload. */
enum err endpoint_model_change(const struct loop_request *req, struct json *json,
                               struct api_error *error)
{
    enum err err = ERR_INVALID;
    struct buf name;

    if (!api_pool(req->api, error))
        return err;
    err = read_name(req, &name) ? change(req, buf_text(&name), json, error) : fail_unknown(error);
    buf_fini(&name);
    return err;
}

/* ---- props ---- */

static void write_sampling(struct json *json, const struct sample_params *sample)
{
    json_key_open(json, "params", '{');
    json_key_single(json, "temperature", sample->temperature);
    json_key_int(json, "top_k", sample->top_k);
    json_key_single(json, "top_p", sample->top_p);
    json_key_single(json, "min_p", sample->min_p);
    json_key_single(json, "repeat_penalty", sample->penalty_repeat);
    json_key_single(json, "frequency_penalty", sample->penalty_frequency);
    json_key_single(json, "presence_penalty", sample->penalty_presence);
    json_close(json, '}');
}

static void write_caps(struct json *json, const struct chat_template *tmpl)
{
    const struct chat_caps *caps = chat_template_caps(tmpl);
    enum chat_calls calls = chat_template_calls(tmpl);

    json_key_open(json, "chat_template_caps", '{');
    json_key_bool(json, "supports_system_role", caps->system);
    json_key_bool(json, "supports_tools", caps->tools);
    json_key_bool(json, "supports_tool_calls", caps->calls);
    json_key_bool(json, "supports_parallel_tool_calls", caps->calls_parallel);
    json_key_bool(json, "supports_thinking", caps->thinking);
    json_key_text(json, "tool_call_format",
                  toolcall_format_name(chat_template_formats(tmpl).calls));
    json_key_text(json, "tool_calls", chat_calls_name(calls));
    json_key_text(json, "tool_calls_reason", chat_calls_sentence(calls));
    json_close(json, '}');
}

static void write_limits(struct json *json, const struct api_options *options)
{
    json_key_open(json, "limits", '{');
    json_key_uint(json, "workers", options->workers);
    json_key_uint(json, "queue", options->queue);
    json_key_uint(json, "request_bytes_max", options->request_bytes_max);
    json_key_uint(json, "json_depth_max", JSON_DEPTH_MAX);
    json_key_uint(json, "choices_max", ANSWER_CHOICES_MAX);
    json_key_uint(json, "calls_max", ANSWER_CALLS_MAX);
    json_key_uint(json, "stops_max", GEN_STOPS_MAX);
    json_key_uint(json, "stop_bytes_max", GEN_STOP_BYTES_MAX);
    json_key_uint(json, "keepalive_ms", options->keepalive_ms);
    json_close(json, '}');
}

static void write_neutral(struct json *json, const struct neutral *neutral, bool admin)
{
    json_key_open(json, "neutral", '[');
    for (int i = 0; neutral && i < NEUTRAL_COUNT; i++) {
        struct neutral_info info = neutral_info(neutral, (enum neutral_rule)i);

        json_open(json, '{');
        json_key_text(json, "name", info.name);
        json_key_text(json, "description", info.description);
        json_key_bool(json, "on", info.on);
        if (admin)
            json_key_uint(json, "count", info.count);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_recall(struct json *json, struct recall *recall)
{
    if (!recall) {
        json_key_null(json, "replay");
        return;
    }
    struct recall_stats stats = recall_stats(recall);
    json_key_open(json, "replay", '{');
    json_key_uint(json, "turns", stats.turns);
    json_key_uint(json, "bytes", stats.bytes);
    json_key_uint(json, "remembered", stats.remembered);
    json_key_uint(json, "hits", stats.outcomes[RECALL_HIT]);
    json_close(json, '}');
}

static void write_cache(struct json *json, struct hearth_cache *cache)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    if (!cache) {
        json_key_null(json, "cache");
        return;
    }
    hearth_get_stats(cache, NULL, &stats);
    json_key_open(json, "cache", '{');
    json_key_uint(json, "cap_bytes", stats.bytes_cap);
    json_key_uint(json, "objects", stats.objects);
    json_key_uint(json, "ram_bytes", stats.bytes_by_tier[HEARTH_TIER_RAM]);
    json_key_uint(json, "ssd_bytes", stats.bytes_by_tier[HEARTH_TIER_SSD]);
    json_key_uint(json, "remote_bytes", stats.bytes_by_tier[HEARTH_TIER_REMOTE]);
    json_close(json, '}');
}

void props_write_memory(struct json *json, const struct memory_view *view)
{
    json_key_text(json, "level", guard_level_name(view->level));
    json_key_uint(json, "used_bytes", view->used);
    json_key_uint(json, "soft_bytes", view->limits.soft);
    json_key_uint(json, "hard_bytes", view->limits.hard);
    json_key_uint(json, "ceiling_bytes", view->limits.ceiling);
    json_key_uint(json, "fixed_bytes", view->reading.fixed);
    json_key_uint(json, "program_bytes", view->reading.base);
    json_key_uint(json, "queues_max_bytes", view->limits.queues_max);
    json_key_uint(json, "ram_cap_bytes", view->ram_cap);
    json_key_uint(json, "device_used_bytes", view->device_used);
    json_key_uint(json, "device_total_bytes", view->device_total);
    json_key_uint(json, "device_models_bytes", view->device_models);
}

void props_key_memory(struct json *json, struct memory *memory)
{
    struct memory_view view;

    if (!memory) {
        json_key_null(json, "memory");
        return;
    }
    memory_get_view(memory, &view);
    json_key_open(json, "memory", '{');
    props_write_memory(json, &view);
    json_close(json, '}');
}

static void write_model_props(struct json *json, const struct api *api, const struct model *model)
{
    const struct engine_facts *facts = model_facts(model);

    json_key_open(json, "default_generation_settings", '{');
    json_key_uint(json, "n_ctx", model_request_context(model));
    write_sampling(json, &api->sample);
    json_close(json, '}');
    json_key_uint(json, "total_slots", facts->sequences);
    json_key_text(json, "model_description", facts->description);
    json_key_text(json, "cache_state", model_cache_name(model_cache(model)));
    if (model_cache(model) != MODEL_CACHE_ON)
        json_key_text(json, "cache_reason", model_cache_reason(model));
    const char *no_drafts = sched_no_drafts(model_sched(model));
    json_key_bool(json, "drafts", no_drafts == NULL);
    if (no_drafts != NULL)
        json_key_text(json, "drafts_reason", no_drafts);
    const struct engine_facts *draft = sched_draft_facts(model_sched(model));
    if (draft != NULL)
        json_key_text(json, "draft_model", draft->name);
    json_key_text(json, "chat_template", facts->chat_template);
    write_caps(json, model_template(model));
    write_uses(json, &facts->embed);
    json_key_open(json, "modalities", '{');
    json_key_bool(json, "vision", facts->images);
    json_key_bool(json, "audio", false);
    json_close(json, '}');
}

/* Settings are public; figures that depend on the requests of all tenants are for admins only. */
static void write_server_props(struct json *json, const struct api *api, bool admin)
{
    const struct api_options *options = &api->options;

    json_key_text(json, "build_info", options->version);
    json_key_bool(json, "strict_model", options->strict_model);
    json_key_bool(json, "keys", auth_wanted(api_auth(api)));
    json_key_bool(json, "isolation", auth_isolated(api_auth(api)));
    json_key_bool(json, "stores_responses", options->stored != NULL);
    write_limits(json, options);
    write_neutral(json, options->neutral, admin);
    if (!admin)
        return;
    write_recall(json, options->recall);
    write_cache(json, options->cache);
    props_key_memory(json, options->memory);
}

size_t props_find_model(const struct loop_request *req, struct pool *pool)
{
    struct buf name;

    buf_init(&name, NAME_BYTES_MAX);
    enum err err = http_query_get(req->request->query, STR("model"), &name);
    size_t index = err == ERR_OK          ? pool_find(pool, buf_text(&name), true)
                   : err == ERR_NOT_FOUND ? pool_find(pool, STR_NONE, false)
                                          : SIZE_MAX;
    buf_fini(&name);
    return index;
}

enum err endpoint_props(const struct loop_request *req, struct json *json, struct api_error *error)
{
    struct pool *pool = api_pool(req->api, error);
    struct pool_view view = {0};

    if (!pool)
        return ERR_INVALID;
    size_t index = props_find_model(req, pool);
    if (index == SIZE_MAX)
        return fail_unknown(error);
    struct model *model = pool_peek(pool, index);
    (void)pool_view(pool, index, &view);
    json_key_text(json, "model_alias", view.name);
    json_key_text(json, "state", pool_state_name(view.state));
    json_key_bool(json, "is_sleeping", model == NULL);
    if (req->auth.admin) /* where files are on this machine */
        json_key_text(json, "model_path", view.path);
    if (model) {
        write_model_props(json, req->api, model);
        pool_unpeek(pool, model);
    }
    write_server_props(json, req->api, req->auth.admin);
    return ERR_OK;
}
