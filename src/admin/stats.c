/*
 * stats.c: server statistics: sums of this run and of all runs, rates, reasons for misses, tier
 * contents, and the last hour.
 *
 * On the loop thread: everything is already counted and is copied under locks held only briefly; no
 * engine or disk is involved.
 */
#include "admin/admin_impl.h"

#include "admin/monitor.h"
#include "models/pool.h"

/* ---- sums ---- */

static void write_sums(struct json *json, const struct monitor_view *view)
{
    json_key_float(json, "uptime_s", view->uptime_s);
    json_key_uint(json, "started", view->started_s);
    json_key_open(json, "session", '{');
    tally_write(json, &view->session);
    json_close(json, '}');
    json_key_open(json, "all_time", '{');
    tally_write(json, &view->all);
    json_key_uint(json, "since", view->since_s);
    json_close(json, '}');
}

/* ---- rates ---- */

/* Cache rate over the last `seconds`; zeros without a cache. */
static struct hearth_rate rate_of(const struct api *api, enum hearth_event_kind kind,
                                  uint32_t seconds)
{
    struct hearth_rate rate = {0};

    if (api->options.cache)
        (void)hearth_get_rate(api->options.cache, kind, seconds, &rate);
    return rate;
}

static double ratio(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void write_rate(struct json *json, struct api *api, const char *model, uint32_t seconds)
{
    struct monitor *monitor = admin_of(api)->monitor;
    struct tally sum;
    double passed_s = model ? monitor_sum_model(monitor, model, seconds, &sum)
                            : monitor_sum(monitor, seconds, &sum);
    uint64_t reused = tally_reused(&sum), prompt = reused + sum.computed;

    passed_s = MAX(passed_s, 1.0);
    json_open(json, '{');
    json_key_float(json, "requests_per_s", (double)sum.requests / passed_s);
    json_key_float(json, "prompt_tokens_per_s", (double)prompt / passed_s);
    json_key_float(json, "generated_tokens_per_s", (double)sum.generated / passed_s);
    json_key_float(json, "hit_rate", ratio(reused, prompt));
    json_key_float(json, "ssd_rate", ratio(sum.ssd, sum.ram + sum.ssd));
    if (!model) { /* the cache's events do not name a model */
        json_key_float(json, "stored_bytes_per_s",
                       (double)rate_of(api, HEARTH_EVENT_WRITE, seconds).bytes / passed_s);
        json_key_float(json, "evicted_per_s",
                       (double)rate_of(api, HEARTH_EVENT_EVICT, seconds).count / passed_s);
    }
    json_close(json, '}');
}

void admin_write_rates(struct json *json, struct api *api, const char *model)
{
    static const struct {
        const char *name;
        uint32_t seconds;
    } windows[] = {{"1m", 60}, {"5m", 300}, {"15m", HEARTH_RATE_SECONDS_MAX}};

    json_key_open(json, "rates", '{');
    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        json_key(json, windows[i].name);
        write_rate(json, api, model, windows[i].seconds);
    }
    json_close(json, '}');
}

/* ---- tails ---- */

void admin_write_tails(struct json *json, const struct hearth_stats *stats)
{
    json_key_open(json, "tails", '{');
    json_key_uint(json, "count", stats->tails);
    json_key_uint(json, "stores", stats->tail_stashes);
    json_key_uint(json, "hits", stats->tail_hits);
    json_key_uint(json, "evictions", stats->tail_evictions);
    json_key_uint(json, "tokens_saved", stats->tail_tokens);
    /* Per tail that this process has had: also those that it found on the disk, which it did not
     * store. */
    json_key_float(
        json, "hit_rate",
        ratio(stats->tail_hits, MAX(stats->tail_stashes, stats->tails + stats->tail_evictions)));
}

static void write_tails(struct json *json, const struct api *api)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    if (api->options.cache)
        hearth_get_stats(api->options.cache, NULL, &stats);
    admin_write_tails(json, &stats);
    json_close(json, '}');
}

/* ---- misses ---- */

/* Tokens computed, by reason. Every reason of a miss, including those that never occurred, so that
 * the table's shape is constant. */
static void write_misses(struct json *json, const struct sched_stats *stats)
{
    json_key_open(json, "miss", '{');
    for (size_t i = 0; i < HEARTH_REASON_COUNT; i++)
        if (sched_is_miss((enum hearth_reason)i))
            json_key_uint(json, hearth_reason_name((enum hearth_reason)i), stats->miss_tokens[i]);
    json_close(json, '}');
}

/* ---- tiers ---- */

static void write_tier(struct json *json, const char *name, const struct hearth_tier_stats *tier)
{
    json_open(json, '{');
    json_key_text(json, "tier", name);
    json_key_text(json, "state", hearth_tier_state_name(tier->state));
    json_key_uint(json, "used", tier->used);
    json_key_uint(json, "cap", tier->cap);
    json_key_uint(json, "objects", tier->objects);
    json_key_uint(json, "hits", tier->hits);
    json_key_uint(json, "stores", tier->stores);
    json_key_uint(json, "evictions", tier->evictions);
    json_key_uint(json, "read_bytes", tier->read_bytes);
    json_key_uint(json, "written_bytes", tier->written_bytes);
    json_key_uint(json, "written_today", tier->written_today);
    json_key_uint(json, "errors", tier->errors);
    json_key_uint(json, "accepted", tier->accepted);
    json_key_uint(json, "queued", tier->queued);
    json_key_uint(json, "failed", tier->failed);
    json_key_uint(json, "cancelled", tier->cancelled);
    json_key_uint(json, "declined", tier->declined);
    json_close(json, '}');
}

/* Cells of all loaded models in bytes; estimated from rows if an engine does not report them. */
static void add_cells(struct hearth_tier_stats *tier, struct model *model)
{
    const struct engine_facts *facts = model_facts(model);
    struct sched_stats stats;

    sched_get_stats(model_sched(model), &stats);
    uint64_t cap =
        facts->kv_bytes > 0 ? facts->kv_bytes : facts->context * facts->rows_bytes_per_token;
    tier->cap += cap;
    if (stats.cells > 0)
        tier->used += (uint64_t)((double)cap * (double)(stats.cells - stats.cells_free) /
                                 (double)stats.cells);
}

/* The first tier does not belong to the cache: sequences kept in the engines. */
static void write_device(struct json *json, struct pool *pool, const struct sched_stats *stats)
{
    struct hearth_tier_stats device = {
        .state = pool ? HEARTH_STATE_OK : HEARTH_STATE_OFF,
        .objects = stats->idle,
        .hits = stats->forks,
        .stores = stats->parked,
        .evictions = stats->reclaimed,
    };
    struct model *model;

    for (size_t i = 0; (model = pool_next(pool, &i));) {
        add_cells(&device, model);
        pool_unpeek(pool, model);
    }
    write_tier(json, "device", &device);
}

static void write_tiers(struct json *json, struct api *api, struct pool *pool,
                        const struct sched_stats *stats)
{
    json_key_open(json, "tiers", '[');
    write_device(json, pool, stats);
    for (int i = HEARTH_TIER_RAM; i < HEARTH_TIER_COUNT; i++) {
        struct hearth_tier_stats tier = {.struct_size = sizeof(tier)};

        if (api->options.cache)
            (void)hearth_get_tier(api->options.cache, (enum hearth_tier)i, &tier);
        write_tier(json, hearth_tier_name((enum hearth_tier)i), &tier);
    }
    json_close(json, ']');
}

/* Servers of the shared store, and whether they are asked. */
static void write_servers(struct json *json, struct hearth_cache *cache)
{
    struct hearth_shared_server server = {.struct_size = sizeof(server)};

    json_key_open(json, "shared", '[');
    for (size_t i = 0; cache != NULL && hearth_get_shared_server(cache, i, &server) == HEARTH_OK;
         i++) {
        json_open(json, '{');
        json_key_text(json, "server", server.name);
        json_key_text(json, "breaker", server.breaker);
        json_key_uint(json, "replies", server.replies);
        json_key_uint(json, "failures", server.failures);
        json_key_uint(json, "opened", server.opened);
        json_key_float(json, "round_trip_ms", server.round_trip_s * 1000);
        json_close(json, '}');
    }
    json_close(json, ']');
    const char *name, *help;
    uint64_t value;
    json_key_open(json, "shared_counts", '{');
    for (size_t i = 0;
         cache != NULL && hearth_get_shared_counter(cache, i, &name, &help, &value) == HEARTH_OK;
         i++)
        json_key_uint(json, name, value);
    json_close(json, '}');
}

/* ---- all of it ---- */

enum err endpoint_admin_stats(const struct loop_request *req, struct json *json,
                              struct api_error *error)
{
    struct api *api = req->api;
    struct pool *pool = api_pool(api, error);
    struct sched_stats stats = {0};
    struct monitor_view view;

    if (pool)
        pool_get_stats(pool, &stats);
    monitor_get_view(admin_of(api)->monitor, &view);
    json_key_text(json, "version", api->options.version);
    write_sums(json, &view);
    admin_write_rates(json, api, NULL);
    write_misses(json, &stats);
    write_tiers(json, api, pool, &stats);
    write_tails(json, api);
    write_servers(json, api->options.cache);
    props_key_memory(json, api->options.memory);
    return ERR_OK;
}

enum err endpoint_admin_history(const struct loop_request *req, struct json *json,
                                struct api_error *error)
{
    (void)error;
    monitor_write_history(admin_of(req->api)->monitor, json);
    return ERR_OK;
}
