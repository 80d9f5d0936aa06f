/* admin.c: the table of endpoints, the observer of calls, and helpers shared by the endpoints. */
#include "admin/admin.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "admin/admin_impl.h"
#include "admin/feed.h"
#include "admin/metrics.h"
#include "admin/monitor.h"
#include "admin/record.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "models/pool.h"
#include "serve/log_line.h"

enum {
    TICK_MS = 200,
    IDLE_TICK_MS = 1000,
    SALT_DIGITS = 32, /* as call_space appends them to a tenant's name */
};

/* ---- endpoints ---- */

#define GET(rest)    HTTP_METHOD_GET, "/admin/" rest, "admin", .admin = true
#define POST(rest)   HTTP_METHOD_POST, "/admin/" rest, "admin", .admin = true
#define PROMPT(rest) POST(rest), .dialect = &dialect_admin_prompt
#define TARGET(rest) POST(rest), .dialect = &dialect_admin_target
#define PLAIN        .plain = true
#define SLOW         .plain = true, .slow = true

const struct endpoint admin_endpoints[] = {
    {GET("stats"), .show = endpoint_admin_stats},
    {GET("history"), .show = endpoint_admin_history},
    {GET("models"), .show = endpoint_admin_models},
    {GET("models/quantize"), .show = endpoint_quantize_state},
    {POST("models/quantize"), SLOW, .answer = endpoint_quantize},
    {HTTP_METHOD_DELETE, "/admin/models/quantize", "admin", .admin = true,
     .show = endpoint_quantize_cancel},
    {GET("requests"), .show = endpoint_admin_requests},
    {GET("events"), .now = endpoint_admin_events},
    {GET("settings"), .show = endpoint_admin_settings},
    {POST("settings"), PLAIN, .answer = endpoint_admin_change},
    {GET("cache/objects"), PLAIN, .answer = endpoint_cache_objects},
    {GET("cache/objects/{key}"), PLAIN, .answer = endpoint_cache_object},
    {GET("cache/tree"), PLAIN, .answer = endpoint_cache_tree},
    {POST("cache/clear"), SLOW, .answer = endpoint_cache_clear},
    {POST("cache/evict"), SLOW, .answer = endpoint_cache_evict},
    {TARGET("cache/pin"), .answer = endpoint_cache_pin},
    {TARGET("cache/unpin"), .answer = endpoint_cache_unpin},
    {POST("cache/ttl"), PLAIN, .answer = endpoint_cache_ttl},
    {POST("cache/verify"), SLOW, .answer = endpoint_cache_verify},
    {POST("cache/export"), SLOW, .answer = endpoint_cache_export},
    {POST("cache/import"), SLOW, .answer = endpoint_cache_import},
    {PROMPT("cache/probe"), .answer = endpoint_cache_probe},
    {HTTP_METHOD_POST, "/admin/cache/warm", "warm", &dialect_admin_warm, .admin = true,
     .work = endpoint_cache_warm},
    {HTTP_METHOD_GET, "/metrics", "metrics", .admin = true, .metrics = true,
     .now = endpoint_metrics},
};

const size_t admin_endpoints_count = COUNT_OF(admin_endpoints);

/* ---- calls ---- */

static void on_refused(enum api_error_kind kind, void *arg)
{
    struct admin *admin = arg;

    if (kind == API_ERROR_AUTH || kind == API_ERROR_PERMISSION)
        metric_add(admin->metrics, STATS_DENIED, 0, 1);
    metric_add(admin->metrics, STATS_CALLS, kind, 1);
}

static void on_generated(const struct gen_result *result, void *arg)
{
    struct admin *admin = arg;

    stats_count_result(admin->metrics, result);
    monitor_count_tokens(admin->monitor, &result->usage);
}

/* What the cache did for one of the prompts, and the tokens of all its answers. False: it never
 * began. */
static bool sum_prompt(const struct call *call, size_t first, struct gen_usage *usage)
{
    uint32_t generated = 0;

    *usage = (struct gen_usage){0};
    for (size_t i = first; i < first + call->request.choices; i++) {
        if (usage->prompt == 0)
            *usage = call->choices[i].result.usage;
        generated += call->answer.choices[i].generated;
    }
    usage->generated = generated;
    return usage->prompt > 0;
}

/* Records the cache's result for each prompt of the request, for `hearth replay`. */
static void record(struct admin *admin, struct call *call)
{
    struct clock *clock = admin->clock;
    struct gen_usage usage;

    if (admin->options.record == NULL)
        return;
    for (size_t i = 0; i < call->choices_count; i += call->request.choices)
        if (sum_prompt(call, i, &usage))
            record_add(
                admin->options.record,
                &(struct record_entry){
                    .at_wall_ns = clock_wall_ns(clock) - (clock_mono_ns(clock) - call->arrived_ns),
                    .model = model_name(call->model),
                    .tenant = call->tenant,
                    .salt = call->request.cache_salt,
                    .tokens = call->choices[i].gen.tokens,
                    .anchor = call->prepared.anchor,
                    .usage = &usage,
                });
}

static void on_ended(struct call *call, void *arg)
{
    struct admin *admin = arg;
    struct stats_call stats = {
        .kind = call->outcome,
        .gone = call_is_lost(call),
        .seconds = (double)(clock_mono_ns(admin->clock) - call->arrived_ns) / (double)NS_PER_S,
    };

    if (call->answer.begun && !call->request.embed) /* prompts only */
        record(admin, call);
    if (call->choices_count > 0) {
        stats.ttft_s = answer_timings(&call->answer).ttft_ms / 1000.0;
        stats.hit = call->answer.usage.computed < call->answer.usage.prompt;
    }
    stats_count_call(admin->metrics, &stats);
}

static void publish(struct admin *admin, const struct recent_call *recent)
{
    struct buf body;

    buf_init(&body, FEED_EVENT_BYTES_MAX);
    struct json json = json_to(&body);
    recent_write_call(&json, recent, false);
    if (body.err == ERR_OK)
        feed_publish(admin->feed, FEED_REQUEST, buf_text(&body));
    buf_fini(&body);
}

/* The text after leading <tag>...</tag> blocks: agents put reminders there, which all look the
 * same. Empty: there is nothing else. */
static struct str skip_tags(struct str text)
{
    for (text = str_trim(text); text.len > 0 && text.ptr[0] == '<'; text = str_trim(text)) {
        struct str rest = str_skip(text, 1), tag;
        char end[64];
        if (!str_next(&rest, '>', &tag))
            return STR_NONE;
        snprintf(end, sizeof(end), "</" STR_FMT ">", STR_ARG(tag));
        size_t at = str_find(rest, str_from(end));
        if (at == SIZE_MAX)
            return STR_NONE;
        text = str_skip(rest, at + strlen(end));
    }
    return text;
}

/* The first words of the user. */
static struct str first_words(const struct gen_request *request)
{
    const struct conversation *conversation = &request->conversation;

    for (size_t i = 0; request->source == GEN_SOURCE_MESSAGES && i < conversation->count; i++) {
        const struct message *message = &conversation->messages[i];
        for (size_t j = 0; message->role == ROLE_USER && j < message->parts_count; j++) {
            struct str text = skip_tags(message->parts[j].text);
            if (text.len > 0)
                return text;
        }
    }
    return request->source == GEN_SOURCE_TEXT ? str_trim(request->prompt) : STR_NONE;
}

/* Only what its author may see again: see endpoint_admin_requests. */
static void note_words(const struct admin *admin, const struct call *call,
                       struct recent_call *recent)
{
    struct str words = first_words(&call->request);

    if (!admin->options.show_text && !(call->local && auth_open(api_auth(call->api))))
        return;
    words.len = utf8_whole((struct str){words.ptr, MIN(words.len, sizeof(recent->words) - 1)});
    snprintf(recent->words, sizeof(recent->words), STR_FMT, STR_ARG(words));
}

static void on_answering(struct call *call, void *arg)
{
    struct admin *admin = arg;
    const struct gen_usage *usage = &call->answer.usage;
    struct clock *clock = admin->clock;
    struct answer_timings timings = answer_timings(&call->answer);
    struct mark message = {.role = ROLE_NONE};
    struct recent_call recent = {
        .endpoint = call->endpoint->name,
        .when_s = (double)(clock_wall_ns(clock) / NS_PER_MS) / 1000.0,
        .usage = *usage,
        .ttft_s = timings.ttft_ms / 1000.0,
        .tokens_per_s = timings.predicted_per_s,
        .seconds = (double)(clock_mono_ns(clock) - call->arrived_ns) / (double)NS_PER_S,
        .status = call_is_lost(call) ? RECENT_GONE_STATUS : api_error_status(call->outcome),
    };

    if (usage->first_difference < usage->prompt)
        (void)!log_line_new_message(call->prepared.marks, call->prepared.marks_count, usage->reason,
                                    usage->first_difference, &message);
    recent.role = message.role;
    recent.message = message.message;
    snprintf(recent.id, sizeof(recent.id), "%s", call->request_id);
    snprintf(recent.model, sizeof(recent.model), "%s", model_name(call->model));
    snprintf(recent.tenant, sizeof(recent.tenant), "%s", call->who);
    snprintf(recent.client, sizeof(recent.client), "%s", call->agent);
    note_words(admin, call, &recent);
    monitor_count_call(admin->monitor, &recent);
    publish(admin, &recent);
}

/* ---- life ---- */

/* Adds the engines' times, including those of unloaded models. */
static void add_times(struct tally *tally, void *arg)
{
    struct admin *admin = arg;
    struct pool *pool = atomic_load_explicit(&admin->pool, memory_order_acquire);
    struct sched_stats stats;

    if (!pool)
        return;
    pool_get_stats(pool, &stats);
    tally->prefill_ns = stats.prefill_ns;
    tally->prefilled = stats.prefill_tokens;
    tally->decode_ns = stats.decode_ns;
    tally->restore_ns = stats.restore_ns;
    tally->reused_ns = stats.reused_ns;
}

/* Publishes /admin/events. Readers get events a moment later; without readers it runs less
 * often. */
static uint64_t tick(void *arg)
{
    struct admin *admin = arg;

    watch_poll(admin->watch);
    feed_pump(admin->feed);
    return feed_readers(admin->feed) > 0 ? TICK_MS : IDLE_TICK_MS;
}

static enum err start_monitor(struct admin *admin, struct errinfo *info)
{
    struct monitor_options options = {
        .fs = admin->options.state_fs,
        .dir = admin->options.state_dir,
        .times = add_times,
        .tick = tick,
        .arg = admin,
        .clock = admin->clock,
        .log = admin->log,
    };

    admin->feed = feed_create();
    admin->watch = watch_create(admin);
    watch_poll(admin->watch); /* events start with changes from now on */
    return monitor_create(&admin->monitor, &options, info);
}

enum err admin_create(struct admin **out, const struct admin_options *options,
                      struct api_options *api, struct errinfo *info)
{
    struct admin *admin = mem_alloc(sizeof(*admin));

    admin->options = *options;
    admin->cache = api->cache;
    admin->memory = api->memory;
    admin->log = api->log;
    admin->clock = api->clock ? api->clock : clock_real();
    atomic_init(&admin->pool, NULL);
    atomic_init(&admin->ssd_day_bytes, options->ssd_day_bytes);
    atomic_init(&admin->model_ttl_s, options->model_ttl_ns / NS_PER_S);
    admin->metrics = stats_create();
    admin->quantize = admin_quantize_create(options->program, api->log);
    admin_settings_begin(admin, api);
    api->endpoints = admin_endpoints;
    api->endpoints_count = admin_endpoints_count;
    api->endpoints_arg = admin;
    api->observer =
        (struct call_observer){on_refused, on_generated, on_answering, on_ended, .arg = admin};
    enum err err = start_monitor(admin, info);
    if (err != ERR_OK)
        admin_destroy(&admin);
    *out = admin;
    return err;
}

void admin_destroy(struct admin **out)
{
    struct admin *admin = *out;

    if (!admin)
        return;
    admin_quantize_destroy(&admin->quantize);
    monitor_destroy(&admin->monitor);
    watch_destroy(&admin->watch);
    feed_destroy(&admin->feed);
    metric_set_destroy(&admin->metrics);
    mem_free(admin);
    *out = NULL;
}

void admin_set_pool(struct admin *admin, struct pool *pool)
{
    /* Release: a thread that sees the pool sees all of it. */
    atomic_store_explicit(&admin->pool, pool, memory_order_release);
}

void admin_set_http_metrics(struct admin *admin, const struct metric_set *metrics)
{
    admin->http_metrics = metrics;
}

void admin_end_events(struct admin *admin)
{
    feed_end(admin->feed);
}

/* ---- whose ---- */

bool admin_find_model(struct api *api, struct str *name)
{
    struct pool *pool = api_pool(api, NULL);
    struct pool_view view;

    if (!pool || !pool_view(pool, pool_find(pool, *name, true), &view))
        return false;
    *name = str_from(view.name);
    return true;
}

enum err admin_read_scope(const struct json_reader *reader, struct api *api,
                          struct admin_scope *scope)
{
    *scope = (struct admin_scope){0};
    TRY(json_read_str(reader, "model", &scope->model));
    TRY(json_read_str(reader, "tenant", &scope->tenant));
    scope->has_tenant = json_read_get(reader, "tenant") != NULL;
    if (scope->model.len > 0 && !admin_find_model(api, &scope->model))
        return json_read_error_kind(reader, API_ERROR_MODEL, "model",
                                    "is not a model of this server");
    return ERR_OK;
}

bool admin_is_tenant(const char *space_tenant, struct str tenant)
{
    struct str name = str_from(space_tenant);

    if (str_eq(name, tenant))
        return true;
    return name.len == tenant.len + 1 + SALT_DIGITS && name.ptr[tenant.len] == '/' &&
           str_starts(name, tenant) &&
           strspn(name.ptr + tenant.len + 1, "0123456789abcdef") == SALT_DIGITS;
}

static void show_spaces(struct model *model, const struct admin_scope *scope,
                        void (*fn)(const struct admin_space *space, void *arg), void *arg)
{
    struct model_tenant at;

    for (size_t i = 0; model_space_at(model, i, &at); i++)
        if (!scope->has_tenant || admin_is_tenant(at.tenant, scope->tenant))
            fn(&(struct admin_space){model, at.tenant, at.space}, arg);
}

void admin_each_space(struct api *api, const struct admin_scope *scope,
                      void (*fn)(const struct admin_space *space, void *arg), void *arg)
{
    struct pool *pool = api_pool(api, NULL);
    struct model *model;

    for (size_t i = 0; (model = pool_next(pool, &i));) {
        if (scope->model.len == 0 || str_eq(scope->model, str_from(model_name(model))))
            show_spaces(model, scope, fn, arg);
        pool_unpeek(pool, model);
    }
}

/* ---- spaces by key ---- */

struct entry {
    unsigned char key[HEARTH_KEY_BYTES];
    const char *model;
};

struct admin_book {
    struct api *api;
    struct entry *entries;
    size_t count, cap;
};

static bool note_key(const struct hearth_held *held, void *arg)
{
    struct entry *entry = arg;

    memcpy(entry->key, held->space, HEARTH_KEY_BYTES);
    return false; /* one is enough */
}

/* Any object of a space has the space's key; a space without objects needs no name. */
static void add_space(const struct admin_space *space, void *arg)
{
    struct admin_book *book = arg;
    struct pool *pool = api_pool(book->api, NULL);
    struct entry entry = {0};
    struct pool_view view;

    if (hearth_each(book->api->options.cache, space->space, 0, note_key, &entry) == 0)
        return;
    /* The pool's copy of the name outlives the model. */
    if (!pool_view(pool, pool_find(pool, str_from(model_name(space->model)), true), &view))
        return;
    entry.model = view.name;
    /* Without memory a space has no name: its objects are shown anyway. */
    if (mem_try_reserve(&book->entries, book->count + 1, &book->cap, sizeof(*book->entries)))
        book->entries[book->count++] = entry;
}

struct admin_book *admin_book_create(struct api *api)
{
    struct admin_book *book = mem_alloc(sizeof(*book));

    book->api = api;
    if (api->options.cache)
        admin_each_space(api, &(struct admin_scope){0}, add_space, book);
    return book;
}

void admin_book_destroy(struct admin_book **out)
{
    struct admin_book *book = *out;

    if (!book)
        return;
    mem_free(book->entries);
    mem_free(book);
    *out = NULL;
}

const char *admin_book_model(const struct admin_book *book,
                             const unsigned char space[HEARTH_KEY_BYTES])
{
    for (size_t i = 0; i < book->count; i++)
        if (memcmp(book->entries[i].key, space, HEARTH_KEY_BYTES) == 0)
            return book->entries[i].model;
    return NULL;
}

/* ---- keys ---- */

static_assert((int)HEARTH_KEY_BYTES == (int)HASH256_BYTES, "keys are written as hashes are");

void admin_key_hex(const unsigned char key[HEARTH_KEY_BYTES], char hex[HASH256_HEX_BYTES])
{
    struct hash256 hash;

    memcpy(hash.bytes, key, HEARTH_KEY_BYTES);
    hash256_hex(&hash, hex);
}

void admin_write_key(struct json *json, const char *name, const unsigned char *key)
{
    char hex[HASH256_HEX_BYTES];

    if (key)
        admin_key_hex(key, hex);
    json_key_text(json, name, key ? hex : NULL);
}

enum err admin_read_key(struct str text, unsigned char key[HEARTH_KEY_BYTES])
{
    struct hash256 hash;

    if (!hash256_from_hex(text.ptr, text.len, &hash))
        return ERR_INVALID;
    memcpy(key, hash.bytes, HEARTH_KEY_BYTES);
    return ERR_OK;
}

enum err admin_read_key_field(const struct json_reader *body, unsigned char key[HEARTH_KEY_BYTES],
                              bool *given)
{
    struct str text = STR_NONE;

    TRY(json_read_str(body, "key", &text));
    *given = text.len > 0;
    if (*given && admin_read_key(text, key) != ERR_OK)
        return json_read_error(body, "key", "must have 64 hex digits");
    return ERR_OK;
}

enum hearth_tier admin_tier(struct str name)
{
    int tier = 0;

    while (tier < HEARTH_TIER_COUNT &&
           !str_eq(name, str_from(hearth_tier_name((enum hearth_tier)tier))))
        tier++;
    return (enum hearth_tier)tier;
}

/* ---- errors ---- */

enum err admin_need_cache(const struct call *call, struct api_error *error)
{
    if (call->api->options.cache)
        return ERR_OK;
    return api_error_set(error, API_ERROR_UNSUPPORTED, NULL,
                         "The cache is off: the server was started with --no-cache.");
}

enum err admin_cache_error(struct api_error *error, int hearth_error, const char *param)
{
    enum api_error_kind kind = API_ERROR_SERVER;

    if (hearth_error == HEARTH_OK)
        return ERR_OK;
    if (hearth_error == HEARTH_ERROR_MISSING)
        kind = API_ERROR_NOT_FOUND;
    else if (hearth_error == HEARTH_ERROR_INVALID || hearth_error == HEARTH_ERROR_REFUSED ||
             hearth_error == HEARTH_ERROR_EXISTS)
        kind = API_ERROR_INVALID;
    else if (hearth_error == HEARTH_ERROR_MEMORY || hearth_error == HEARTH_ERROR_BUSY)
        kind = API_ERROR_UNAVAILABLE;
    return api_error_set(error, kind, param, "%s", hearth_error_text(hearth_error));
}
