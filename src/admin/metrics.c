/*
 * metrics.c: tables of metrics.
 *
 * Scheduler and cache keep their counters in structs; the tables below give each its name. /metrics
 * shows only what is in a table.
 */
#include "admin/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "admin/admin_impl.h"
#include "admin/monitor.h"
#include "base/log.h"
#include "models/pool.h"

enum { LABELS_BYTES_MAX = 1024, BODY_BYTES_MAX = 16 * 1024 * 1024 };

/* In the order of enum api_error_kind. */
static const char *const kinds[] = {
    [API_OK] = "ok",
    [API_ERROR_INVALID] = "invalid",
    [API_ERROR_CONTEXT] = "context",
    [API_ERROR_AUTH] = "auth",
    [API_ERROR_PERMISSION] = "permission",
    [API_ERROR_NOT_FOUND] = "not_found",
    [API_ERROR_MODEL] = "model",
    [API_ERROR_METHOD] = "method",
    [API_ERROR_TOO_LARGE] = "too_large",
    [API_ERROR_BUSY] = "busy",
    [API_ERROR_SERVER] = "server",
    [API_ERROR_UNSUPPORTED] = "unsupported",
    [API_ERROR_UNAVAILABLE] = "unavailable",
    NULL,
};

enum stats_hit { HIT_NO, HIT_YES };
static const char *const hits[] = {"miss", "hit", NULL};

static const char *const phases[] = {
    [STATS_PHASE_QUEUE] = "queue",     [STATS_PHASE_LOOKUP] = "lookup",
    [STATS_PHASE_RESTORE] = "restore", [STATS_PHASE_PREFILL] = "prefill",
    [STATS_PHASE_DECODE] = "decode",   [STATS_PHASE_COUNT] = NULL,
};

enum stats_part { PART_FETCH, PART_VERIFY, PART_IMPORT };
static const char *const parts[] = {"fetch", "verify", "import", NULL};

static const char *const lengths[] = {[STATS_LENGTH_PROMPT] = "prompt",
                                      [STATS_LENGTH_GENERATED] = "generated",
                                      [STATS_LENGTH_COUNT] = NULL};

static const char *const ends[] = {GEN_END_TABLE(TABLE_NAME) NULL};

/* From one token to a million, in steps of about two: context sizes are powers of two. */
static const double buckets_tokens[] = {
    1,    4,     16,    64,    256,    512,    1024,   2048,    4096,
    8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576, INFINITY,
};

static const struct metric_desc table[] = {
    [STATS_CALLS] = {"hearth_api_calls_total", METRIC_COUNTER, NULL, "Calls answered, by outcome.",
                     .label = "outcome", .values = kinds},
    [STATS_GONE] = {"hearth_api_clients_gone_total", METRIC_COUNTER, NULL,
                    "Calls whose client disconnected before the answer was complete.",
                    .label = NULL},
    [STATS_DENIED] = {"hearth_api_denied_total", METRIC_COUNTER, NULL,
                      "Requests without a valid API key.", .label = NULL},
    [STATS_SECONDS] = {"hearth_api_call_seconds", METRIC_HISTOGRAM, "seconds",
                       "Time from the first byte of a call to the end of its answer.",
                       .buckets = metric_buckets_latency},
    [STATS_TTFT] = {"hearth_api_first_token_seconds", METRIC_HISTOGRAM, "seconds",
                    "Time from submitting a generation to its first token, by whether anything of "
                    "its prompt was reused.",
                    .label = "cache", .values = hits, .buckets = metric_buckets_latency},
    [STATS_PHASE] =
        {"hearth_api_phase_seconds", METRIC_HISTOGRAM, "seconds",
         "Time of each phase of a generation. Phases that were not reached are not counted.",
         .label = "phase", .values = phases, .buckets = metric_buckets_latency},
    [STATS_RESTORE] = {"hearth_api_restore_seconds", METRIC_HISTOGRAM, "seconds",
                       "What a restore consists of: waiting for bytes, verifying them, handing "
                       "them to the engine.",
                       .label = "part", .values = parts, .buckets = metric_buckets_latency},
    [STATS_TOKEN] = {"hearth_api_token_seconds", METRIC_HISTOGRAM, "seconds",
                     "Mean time between two tokens of an answer, once per generation.",
                     .buckets = metric_buckets_latency},
    [STATS_LENGTH] = {"hearth_api_length_tokens", METRIC_HISTOGRAM, "tokens",
                      "Tokens of a generation: prompt and output.", .label = "what",
                      .values = lengths, .buckets = buckets_tokens},
    [STATS_ENDS] = {"hearth_api_generations_total", METRIC_COUNTER, NULL,
                    "Generations, by how they ended.", .label = "end", .values = ends},
    [STATS_ACTIVE] = {"hearth_api_calls_active", METRIC_GAUGE, NULL, "Calls on their way.",
                      .label = NULL},
    [STATS_QUEUED] = {"hearth_api_calls_queued", METRIC_GAUGE, NULL, "Calls waiting for a worker.",
                      .label = NULL},
};

struct metric_set *stats_create(void)
{
    return metric_set_create(table, COUNT_OF(table));
}

void stats_count_call(struct metric_set *set, const struct stats_call *call)
{
    if (call->gone)
        metric_add(set, STATS_GONE, 0, 1);
    else
        metric_add(set, STATS_CALLS, call->kind, 1);
    metric_observe(set, STATS_SECONDS, 0, call->seconds);
    if (call->ttft_s > 0)
        metric_observe(set, STATS_TTFT, call->hit ? HIT_YES : HIT_NO, call->ttft_s);
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* Between two points in time, if both were reached. */
static void observe_phase(struct metric_set *set, enum stats_phase phase, uint64_t begin_ns,
                          uint64_t end_ns)
{
    if (begin_ns > 0 && end_ns >= begin_ns)
        metric_observe(set, STATS_PHASE, phase, seconds(end_ns - begin_ns));
}

static void count_times(struct metric_set *set, const struct gen_result *result)
{
    const struct gen_times *times = &result->times;
    const struct gen_usage *usage = &result->usage;

    observe_phase(set, STATS_PHASE_QUEUE, times->submitted, times->admitted);
    if (times->looked_up > 0)
        metric_observe(set, STATS_PHASE, STATS_PHASE_LOOKUP, seconds(times->lookup_ns));
    if (times->fetch_ns + times->verify_ns + times->import_ns > 0) {
        observe_phase(set, STATS_PHASE_RESTORE, times->looked_up, times->restored);
        metric_observe(set, STATS_RESTORE, PART_FETCH, seconds(times->fetch_ns));
        metric_observe(set, STATS_RESTORE, PART_VERIFY, seconds(times->verify_ns));
        metric_observe(set, STATS_RESTORE, PART_IMPORT, seconds(times->import_ns));
    }
    observe_phase(set, STATS_PHASE_PREFILL, times->restored, times->first_token);
    observe_phase(set, STATS_PHASE_DECODE, times->first_token, times->ended);
    if (usage->generated > 1 && times->first_token > 0)
        metric_observe(set, STATS_TOKEN, 0,
                       seconds(times->ended - times->first_token) / (usage->generated - 1));
}

void stats_count_result(struct metric_set *set, const struct gen_result *result)
{
    const struct gen_usage *usage = &result->usage;

    if (usage->prompt > 0) /* otherwise it ended before it began */
        metric_observe(set, STATS_LENGTH, STATS_LENGTH_PROMPT, usage->prompt);
    metric_observe(set, STATS_LENGTH, STATS_LENGTH_GENERATED, usage->generated);
    metric_add(set, STATS_ENDS, result->end, 1);
    count_times(set, result);
}

/* ---- numbers that others count ---- */

/* 64-bit fields; SECONDS are counters in nanoseconds. */
enum field_kind { COUNTER, SECONDS, GAUGE, HIDDEN };

struct stats_field {
    enum field_kind kind;
    const char *name;
    size_t offset;
    const char *help;
};

static const struct stats_field sched_fields[] = {
#define X(field, kind, name, help) {kind, name, offsetof(struct sched_stats, field), help},
    SCHED_STATS_TABLE(X)
#undef X
};

#define CACHE(name, field)  "hearth_cache_" name, offsetof(struct hearth_stats, field)
#define MEMORY(name, field) "hearth_memory_" name, offsetof(struct memory_view, field)

static const struct stats_field cache_fields[] = {
    {COUNTER, CACHE("lookups_total", lookups), "Lookups."},
    {COUNTER, CACHE("hits_total", hits), "Lookups that found something."},
    {COUNTER, CACHE("misses_total", misses), "Lookups that found nothing."},
    {COUNTER, CACHE("partials_total", partials), "Hits that reused fewer tokens than matched."},
    {COUNTER, CACHE("looked_up_tokens_total", tokens_looked_up), "Prompt tokens looked up."},
    {COUNTER, CACHE("matched_tokens_total", tokens_matched), "Prompt tokens found in the cache."},
    {COUNTER, CACHE("reused_tokens_total", tokens_reused), "Prompt tokens reused."},
    {COUNTER, CACHE("stores_total", stores), "Objects stored."},
    {COUNTER, CACHE("stores_refused_total", stores_refused), "Objects rejected by the policy."},
    {COUNTER, CACHE("stores_failed_total", stores_failed), "Objects that could not be stored."},
    {COUNTER, CACHE("evictions_total", evictions), "Objects evicted."},
    {COUNTER, CACHE("evicted_bytes_total", bytes_evicted), "Bytes evicted."},
    {COUNTER, CACHE("replaces_total", replaces),
     "Objects replaced by longer ones of the same conversation."},
    {COUNTER, CACHE("promotions_total", promotions), "Objects read back into memory."},
    {COUNTER, CACHE("demotions_total", demotions),
     "Objects evicted from memory and kept by a slower tier."},
    {COUNTER, CACHE("writes_declined_total", writes_declined), "Writes declined by a slower tier."},
    {COUNTER, CACHE("writes_retried_total", writes_retried), "Declined writes that were retried."},
    {COUNTER, CACHE("writes_given_up_total", writes_given_up),
     "Declined writes that were given up."},
    {COUNTER, CACHE("tail_stores_total", tail_stashes), "Ends of prompts kept."},
    {COUNTER, CACHE("tail_hits_total", tail_hits), "Hits that used the stored end of a prompt."},
    {COUNTER, CACHE("tail_evictions_total", tail_evictions), "Ends of prompts evicted."},
    {COUNTER, CACHE("tail_tokens_total", tail_tokens),
     "Tokens reused from the ends of prompts; without them they would have been computed."},
    {COUNTER, CACHE("verify_failures_total", verify_failures),
     "Objects whose bytes failed the check."},
    {COUNTER, CACHE("tier_errors_total", tier_errors), "Errors of tiers."},
    {GAUGE, CACHE("objects", objects), "Objects held."},
    {GAUGE, CACHE("snapshots", snapshots), "Snapshots held."},
    {GAUGE, CACHE("blocks", nodes), "Blocks known."},
    {GAUGE, CACHE("tails", tails), "Ends of prompts cached."},
    {GAUGE, CACHE("space_tails_max_bytes", tail_bytes_max),
     "Memory that the ends of prompts of one model and tenant may take."},
    {GAUGE, CACHE("memory_bytes", bytes_memory), "Bytes allocated from the system."},
    {GAUGE, CACHE("index_bytes", bytes_index), "Memory of the index."},
    {GAUGE, CACHE("budget_bytes", bytes_budget), "Bytes accounted for."},
    {GAUGE, CACHE("cap_bytes", bytes_cap), "Bytes allowed."},
};

/* An array each, by tier. */
static const struct stats_field tier_fields[] = {
    {COUNTER, CACHE("tier_reused_tokens_total", tokens_reused_by_tier), "Tokens reused, by tier."},
    {COUNTER, CACHE("tier_read_bytes_total", bytes_read_by_tier), "Bytes read from a tier."},
    {COUNTER, CACHE("tier_written_bytes_total", bytes_written_by_tier), "Bytes stored in a tier."},
    {SECONDS, CACHE("tier_read_seconds_total", ns_read_by_tier),
     "Time of reads from a tier. Reads from memory take none: nothing is copied."},
    {SECONDS, CACHE("tier_written_seconds_total", ns_written_by_tier),
     "Time of storing in a tier."},
    {GAUGE, CACHE("tier_bytes", bytes_by_tier), "Bytes held, by tier."},
};

/* Of every tier. */
#define TIER(name, field) "hearth_tier_" name, offsetof(struct hearth_tier_stats, field)
static const struct stats_field store_fields[] = {
    {GAUGE, TIER("used_bytes", used), "Bytes used, overhead included."},
    {GAUGE, TIER("cap_bytes", cap), "Bytes allowed."},
    {GAUGE, TIER("objects", objects), "Objects cached."},
    {COUNTER, TIER("hits_total", hits), "Hits that took something from the tier."},
    {COUNTER, TIER("stores_total", stores), "Objects that arrived in the tier: persisted ones."},
    {COUNTER, TIER("evictions_total", evictions), "Objects evicted from the tier."},
    {COUNTER, TIER("errors_total", errors), "Reads and writes that failed, damaged objects."},
    {COUNTER, TIER("writes_accepted_total", accepted), "Writes accepted: queued, then persisted."},
    {COUNTER, TIER("writes_failed_total", failed), "Accepted writes that were lost."},
    {COUNTER, TIER("writes_cancelled_total", cancelled), "Accepted writes of dropped objects."},
    {COUNTER, TIER("writes_declined_total", declined), "Writes that were not accepted."},
    {GAUGE, TIER("writes_queued", queued), "Writes accepted and not finished."},
    {GAUGE, TIER("written_today_bytes", written_today), "Bytes written today."},
};

/* Of every loaded model. */
#define MODEL(name, field) "hearth_model_cache_" name, offsetof(struct hearth_stats, field)
static const struct stats_field model_fields[] = {
    {COUNTER, MODEL("lookups_total", lookups), "Lookups, by model."},
    {COUNTER, MODEL("hits_total", hits), "Hits, by model."},
    {COUNTER, MODEL("looked_up_tokens_total", tokens_looked_up), "Tokens looked up, by model."},
    {COUNTER, MODEL("reused_tokens_total", tokens_reused), "Tokens reused, by model."},
    {COUNTER, MODEL("evictions_total", evictions), "Objects evicted, by model."},
    {COUNTER, MODEL("tail_stores_total", tail_stashes), "Ends of prompts stored, by model."},
    {COUNTER, MODEL("tail_hits_total", tail_hits), "Hits that used the end of a prompt."},
    {COUNTER, MODEL("tail_tokens_total", tail_tokens), "Tokens reused from ends of prompts."},
    {GAUGE, MODEL("objects", objects), "Objects cached, by model."},
    {GAUGE, MODEL("snapshots", snapshots), "Snapshots cached, by model."},
    {GAUGE, MODEL("tails", tails), "Ends of prompts cached, by model."},
    {GAUGE, MODEL("tails_max_bytes", tail_bytes_max),
     "Memory for ends of prompts; 0: the model has none."},
    {GAUGE, MODEL("ram_bytes", bytes_by_tier[HEARTH_TIER_RAM]), "Bytes in memory, by model."},
    {GAUGE, MODEL("ssd_bytes", bytes_by_tier[HEARTH_TIER_SSD]), "Bytes on disk, by model."},
};

static const struct stats_field memory_fields[] = {
    {GAUGE, MEMORY("used_bytes", used), "Memory in use: the larger of account and measurement."},
    {GAUGE, MEMORY("ceiling_bytes", limits.ceiling), "Memory allowed; 0 = any."},
    {GAUGE, MEMORY("soft_bytes", limits.soft), "Above this, the RAM tier shrinks."},
    {GAUGE, MEMORY("hard_bytes", limits.hard), "Above this, new work waits."},
    {GAUGE, MEMORY("fixed_bytes", reading.fixed), "Weights and cells of the models."},
    {GAUGE, MEMORY("claims_bytes", reading.claims), "Memory promised to running generations."},
    {GAUGE, MEMORY("queues_bytes", reading.queues), "Memory for the records of all generations."},
    {GAUGE, MEMORY("bodies_bytes", reading.bodies), "Memory for the bodies of all requests."},
    {GAUGE, MEMORY("process_bytes", reading.process), "Memory of the process, as measured."},
    {GAUGE, MEMORY("device_used_bytes", device_used), "GPU memory in use, by any program."},
    {GAUGE, MEMORY("device_total_bytes", device_total), "GPU memory; 0 = no GPU."},
    {GAUGE, MEMORY("device_models_bytes", device_models), "GPU memory that loaded models took."},
    {GAUGE, MEMORY("ram_cap_bytes", ram_cap), "Current limit of the RAM tier."},
    {COUNTER, MEMORY("refused_total", refused), "Requests that can never fit."},
    {COUNTER, MEMORY("turned_away_total", turned_away), "Requests whose records did not fit."},
    {COUNTER, MEMORY("deferred_total", deferred), "Admissions deferred."},
    {COUNTER, MEMORY("shrunk_total", shrunk), "Chunks made smaller."},
    {COUNTER, MEMORY("ended_total", ended), "Running generations ended or preempted for memory."},
    {COUNTER, MEMORY("ram_moves_total", ram_moves), "Changes of the RAM tier's cap."},
};

static const uint64_t *field_at(const void *stats, const struct stats_field *field)
{
    return (const uint64_t *)(const void *)((const char *)stats + field->offset);
}

static void write_head(struct buf *out, const char *name, const char *help, bool gauge)
{
    buf_appendf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, gauge ? "gauge" : "counter");
}

static void write_fields(const void *stats, const struct stats_field *fields, size_t count,
                         struct buf *out)
{
    for (const struct stats_field *field = fields; field < fields + count; field++) {
        uint64_t value = *field_at(stats, field);

        if (field->kind == HIDDEN)
            continue;
        write_head(out, field->name, field->help, field->kind == GAUGE);
        buf_appendf(out, "%s %.17g\n", field->name,
                    field->kind == SECONDS ? seconds(value) : (double)value);
    }
}

static void write_reasons(struct buf *out, const char *name, const char *help,
                          const uint64_t counts[HEARTH_REASON_COUNT])
{
    write_head(out, name, help, false);
    for (size_t i = 0; i < HEARTH_REASON_COUNT; i++)
        buf_appendf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", name,
                    hearth_reason_name((enum hearth_reason)i), counts[i]);
}

static void write_tiers(const struct hearth_stats *stats, const struct stats_field *field,
                        struct buf *out)
{
    const uint64_t *values = field_at(stats, field);

    write_head(out, field->name, field->help, field->kind == GAUGE);
    for (size_t i = 0; i < HEARTH_TIER_COUNT; i++) {
        buf_appendf(out, "%s{tier=\"%s\"} ", field->name, hearth_tier_name((enum hearth_tier)i));
        if (field->kind == SECONDS)
            buf_appendf(out, "%.9g\n", seconds(values[i]));
        else
            buf_appendf(out, "%" PRIu64 "\n", values[i]);
    }
}

/* One number for each of `count` structs, with their labels. */
static void write_each(const struct stats_field *field, const void *structs, size_t size,
                       const char *const *labels, size_t count, struct buf *out)
{
    write_head(out, field->name, field->help, field->kind == GAUGE);
    for (size_t i = 0; i < count; i++)
        buf_appendf(out, "%s{%s} %" PRIu64 "\n", field->name, labels[i],
                    *field_at((const char *)structs + i * size, field));
}

void stats_write_stores(const struct hearth_tier_stats tiers[HEARTH_TIER_COUNT], struct buf *out)
{
    static const char *const labels[] = {[HEARTH_TIER_RAM] = "tier=\"ram\"",
                                         [HEARTH_TIER_SSD] = "tier=\"ssd\"",
                                         [HEARTH_TIER_REMOTE] = "tier=\"remote\""};

    for (size_t i = 0; i < COUNT_OF(store_fields); i++)
        write_each(&store_fields[i], tiers, sizeof(*tiers), labels, HEARTH_TIER_COUNT, out);
}

void stats_write_models(const struct hearth_stats *stats, const char *const *labels, size_t count,
                        struct buf *out)
{
    for (size_t i = 0; i < COUNT_OF(model_fields); i++)
        write_each(&model_fields[i], stats, sizeof(*stats), labels, count, out);
}

void stats_write_build(const char *version, const char *commit, struct buf *out)
{
    struct metric_alias alias = {"hearth_build_info", "What the program was built from; always 1.",
                                 ""};
    struct buf labels;

    buf_init(&labels, LABELS_BYTES_MAX);
    metric_append_label(&labels, "version", version);
    metric_append_label(&labels, "commit", commit);
    alias.labels = buf_str(&labels);
    (void)metric_render_number(&alias, METRIC_GAUGE, 1, out);
    buf_fini(&labels);
}

void stats_write_tokens(const struct tally *session, struct buf *out)
{
    static const char prompt[] = "hearth_api_prompt_tokens_total",
                      generated[] = "hearth_api_generated_tokens_total";
    const struct {
        const char *name;
        uint64_t tokens;
    } sources[] = {{"device", session->device},
                   {"ram", session->ram},
                   {"ssd", session->ssd},
                   {"remote", session->remote},
                   {"computed", session->computed}};

    write_head(out, prompt, "Prompt tokens, by where their state came from.", false);
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        buf_appendf(out, "%s{source=\"%s\"} %" PRIu64 "\n", prompt, sources[i].name,
                    sources[i].tokens);
    write_head(out, generated, "Tokens generated.", false);
    buf_appendf(out, "%s %" PRIu64 "\n", generated, session->generated);
}

void stats_write_sched(const struct sched_stats *stats, struct buf *out)
{
    write_fields(stats, sched_fields, COUNT_OF(sched_fields), out);
    write_reasons(out, "hearth_sched_miss_total", "Prompts not fully cached, by reason.",
                  stats->miss_by_reason);
    write_reasons(out, "hearth_sched_miss_tokens_total",
                  "Tokens computed for prompts not fully cached, by reason.", stats->miss_tokens);
    (void)metric_latency_render(
        &stats->store_times,
        &(struct metric_alias){"hearth_sched_store_seconds",
                               "Time to store state in the cache, per store.", ""},
        out);
}

void stats_write_cache(const struct hearth_stats *stats, struct buf *out)
{
    write_fields(stats, cache_fields, COUNT_OF(cache_fields), out);
    write_reasons(out, "hearth_cache_miss_total",
                  "Lookups that did not match the whole prompt, by reason.", stats->miss_by_reason);
    for (size_t i = 0; i < COUNT_OF(tier_fields); i++)
        write_tiers(stats, &tier_fields[i], out);
}

static void write_shared_counts(struct hearth_cache *cache, struct buf *out)
{
    const char *name, *help;
    char full[64], text[128];
    uint64_t value;

    for (size_t i = 0; hearth_get_shared_counter(cache, i, &name, &help, &value) == HEARTH_OK;
         i++) {
        snprintf(full, sizeof(full), "hearth_shared_%s_total", name);
        snprintf(text, sizeof(text), "Shared store: %s.", help);
        write_head(out, full, text, false);
        buf_appendf(out, "%s %" PRIu64 "\n", full, value);
    }
}

static void write_shared(struct hearth_cache *cache, struct buf *out)
{
    static const char queue[] = "hearth_shared_queue_length",
                      errors[] = "hearth_shared_errors_total",
                      breaker[] = "hearth_shared_breaker_closed",
                      failures[] = "hearth_shared_failures_total";
    struct hearth_tier_stats tier = {.struct_size = sizeof(tier)};
    struct hearth_shared_server server = {.struct_size = sizeof(server)};

    if (hearth_get_tier(cache, HEARTH_TIER_REMOTE, &tier) != HEARTH_OK ||
        tier.state == HEARTH_STATE_OFF)
        return;
    write_head(out, queue, "Operations of the shared store that wait or run.", true);
    buf_appendf(out, "%s %" PRIu64 "\n", queue, tier.queued);
    write_head(out, errors, "Reads and writes of the shared store that failed.", false);
    buf_appendf(out, "%s %" PRIu64 "\n", errors, tier.errors);
    write_head(out, breaker, "1: the server is in use. 0: its breaker is open or half-open.", true);
    for (size_t i = 0; hearth_get_shared_server(cache, i, &server) == HEARTH_OK; i++)
        buf_appendf(out, "%s{server=\"%s\"} %d\n", breaker, server.name,
                    strcmp(server.breaker, "closed") == 0);
    write_head(out, failures, "Failed requests to the server.", false);
    for (size_t i = 0; hearth_get_shared_server(cache, i, &server) == HEARTH_OK; i++)
        buf_appendf(out, "%s{server=\"%s\"} %" PRIu64 "\n", failures, server.name, server.failures);
    write_shared_counts(cache, out);
}

void stats_write_memory(const struct memory_view *view, struct buf *out)
{
    static const char name[] = "hearth_memory_level";

    write_fields(view, memory_fields, COUNT_OF(memory_fields), out);
    write_head(out, name, "Memory pressure: 1 for the current level.", true);
    for (int level = 0; level < GUARD_LEVEL_COUNT; level++)
        buf_appendf(out, "%s{level=\"%s\"} %d\n", name, guard_level_name((enum guard_level)level),
                    level == (int)view->level);
}

/* ---- GET /metrics ---- */

static void put_gauges(struct admin *admin, struct api *api)
{
    lock_enter(&api->lock);
    size_t active = api->calls.count;
    lock_leave(&api->lock);
    metric_put(admin->metrics, STATS_ACTIVE, 0, (double)active);
    metric_put(admin->metrics, STATS_QUEUED, 0, (double)turns_count(api->queue));
}

/* Sum over all models, including unloaded ones: a counter never decreases. */
static void write_model_numbers(struct admin *admin, struct pool *pool, struct buf *out)
{
    struct sched_stats stats;
    struct pool_view view;

    if (!pool)
        return;
    pool_get_stats(pool, &stats);
    stats_write_sched(&stats, out);
    stats_compat_write(admin->options.metrics_compat, &stats, admin->metrics,
                       pool_view(pool, 0, &view) ? view.name : "", out);
}

static void write_cache_numbers(struct hearth_cache *cache, struct buf *out)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct hearth_tier_stats tiers[HEARTH_TIER_COUNT];

    hearth_get_stats(cache, NULL, &stats);
    stats_write_cache(&stats, out);
    for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++) {
        tiers[tier] = (struct hearth_tier_stats){.struct_size = sizeof(tiers[tier])};
        (void)hearth_get_tier(cache, (enum hearth_tier)tier, &tiers[tier]);
    }
    stats_write_stores(tiers, out);
}

enum { METRIC_MODELS_MAX = 64 }; /* further models are not shown one by one */

static void write_cache_by_model(struct pool *pool, struct buf *out)
{
    struct hearth_stats stats[METRIC_MODELS_MAX];
    struct buf labels[METRIC_MODELS_MAX];
    const char *texts[METRIC_MODELS_MAX];
    struct model *model;
    size_t count = 0;

    for (size_t i = 0; count < METRIC_MODELS_MAX && (model = pool_next(pool, &i)); count++) {
        model_get_cache_stats(model, &stats[count]);
        buf_init(&labels[count], LABELS_BYTES_MAX);
        metric_append_label(&labels[count], "model", model_name(model));
        texts[count] = buf_str(&labels[count]);
        pool_unpeek(pool, model);
    }
    stats_write_models(stats, texts, count, out);
    while (count > 0)
        buf_fini(&labels[--count]);
}

/* One row per loaded model. */
static void write_engines(struct pool *pool, struct buf *out)
{
    static const char name[] = "hearth_engine_dead";
    struct pool_view view;
    struct buf label;

    write_head(out, name, "1: the engine of a loaded model died and is not restarted yet.", true);
    for (size_t i = 0; pool_view(pool, i, &view); i++) {
        if (view.state != POOL_READY && view.state != POOL_DEAD)
            continue;
        buf_init(&label, LABELS_BYTES_MAX);
        metric_append_label(&label, "model", view.name);
        buf_appendf(out, "%s{%s} %d\n", name, buf_str(&label), view.state == POOL_DEAD);
        buf_fini(&label);
    }
}

static void write_log_numbers(const struct log *log, struct buf *out)
{
    static const struct metric_alias dropped = {
        "hearth_log_dropped_total",
        "Log lines dropped: the reader of standard error is too slow, or writing failed.", ""};
    uint64_t lines = log_lines_dropped(log) + log_lines_lost(log);

    (void)metric_render_number(&dropped, METRIC_COUNTER, (double)lines, out);
}

void endpoint_metrics(const struct loop_request *req)
{
    struct api *api = req->api;
    struct admin *admin = admin_of(api);
    struct monitor_view sums;
    struct memory_view view;
    struct buf body;

    monitor_get_view(admin->monitor, &sums);
    buf_init(&body, BODY_BYTES_MAX);
    put_gauges(admin, api);
    stats_write_build(api->options.version, api->options.commit, &body);
    (void)metric_render(admin->metrics, &body);
    stats_write_tokens(&sums.session, &body);
    if (admin->http_metrics)
        (void)metric_render(admin->http_metrics, &body);
    write_log_numbers(api->options.log, &body);
    struct pool *pool = api_pool(api, NULL);
    write_model_numbers(admin, pool, &body);
    if (pool)
        write_engines(pool, &body);
    if (api->options.cache) {
        write_cache_numbers(api->options.cache, &body);
        write_shared(api->options.cache, &body);
    }
    if (api->options.cache && pool)
        write_cache_by_model(pool, &body);
    if (api->options.memory) {
        memory_get_view(api->options.memory, &view);
        stats_write_memory(&view, &body);
    }
    respond_text(req->reply, "text/plain; version=0.0.4; charset=utf-8", req->request_id, &body);
    buf_fini(&body);
}
