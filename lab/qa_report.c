/*
 * qa_report.c: a scenario as JSON: probes, their requests from both sides, and the criteria with
 * the observed values.
 *
 *      {"id", "models", "targets", "status", "probes":
 *         [{"id", "cold": {...}, ..., "requests": [...], "criteria": [...]}]}
 *
 * docs/qa.md lists the fields.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json_write.h"
#include "lab/qa.h"

static void write_totals(struct json *json, const char *key, struct qa_totals totals)
{
    json_key_open(json, key, '{');
    json_key_uint(json, "hits", totals.hits);
    json_key_uint(json, "misses", totals.misses);
    json_key_uint(json, "writes", totals.writes);
    json_key_uint(json, "readTokens", (uint64_t)totals.read_tokens);
    json_key_uint(json, "writeTokens", (uint64_t)totals.write_tokens);
    json_close(json, '}');
}

/* -1 is null: not reported by the server. */
static void write_count(struct json *json, const char *key, int64_t count)
{
    json_key(json, key);
    if (count < 0)
        json_null(json);
    else
        json_int(json, count);
}

static void write_cache(struct json *json, const struct ask_cache *cache)
{
    json_key_open(json, "tiers", '{');
    write_count(json, "device", cache->device);
    write_count(json, "ram", cache->ram);
    write_count(json, "ssd", cache->ssd);
    write_count(json, "remote", cache->remote);
    write_count(json, "computed", cache->computed);
    json_close(json, '}');
    json_key_text(json, "match", cache->match);
    json_key_text(json, "reason", cache->reason);
    write_count(json, "firstDifference", cache->first_difference);
    json_key_open(json, "restoreMs", '{');
    json_key_float(json, "lookup", cache->lookup_ms);
    json_key_float(json, "fetch", cache->fetch_ms);
    json_key_float(json, "verify", cache->verify_ms);
    json_key_float(json, "import", cache->import_ms);
    json_key_float(json, "replay", cache->replay_ms);
    json_close(json, '}');
}

/* Phases before the prompt is computed and those after are two lists. */
static bool is_prepare(const struct qa_event *event)
{
    static const char *const names[] = {" queued ", " lookup ", " deferred ", " restore "};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strstr(event->line, names[i]) != NULL)
            return true;
    return false;
}

static void write_lines(struct json *json, const char *key, const struct qa_request *request,
                        enum qa_event_kind kind, int prepare)
{
    json_key_open(json, key, '[');
    for (size_t i = 0; i < request->events_count; i++) {
        const struct qa_event *event = &request->events[i];
        if (event->kind == kind && (prepare < 0 || is_prepare(event) == prepare))
            json_text(json, event->line);
    }
    json_close(json, ']');
}

static void write_server(struct json *json, const struct qa_request *request)
{
    json_key_open(json, "server", '{');
    write_lines(json, "routes", request, QA_EVENT_ROUTE, -1);
    write_lines(json, "promptPrepare", request, QA_EVENT_PHASE, 1);
    write_lines(json, "promptCache", request, QA_EVENT_CACHE, -1);
    write_lines(json, "prefill", request, QA_EVENT_PHASE, 0);
    write_lines(json, "streams", request, QA_EVENT_ANSWER, -1);
    json_close(json, '}');
}

static void write_request(struct json *json, const struct qa_request *request)
{
    const struct ask_result *result = &request->result;
    char session[2] = {request->session, '\0'}, phase[64];
    bool told = result->prompt >= 0 && result->generated >= 0;

    snprintf(phase, sizeof(phase), "%s-%c", request->phase, request->session);
    json_open(json, '{');
    json_key_text(json, "phase", phase);
    json_key_text(json, "session", session);
    json_key_uint(json, "run", request->run);
    json_key_text(json, "responseId", result->request_id);
    json_key_uint(json, "status", (uint64_t)result->status);
    json_key_text(json, "error",
                  request->failure[0] ? request->failure
                  : result->error[0]  ? result->error
                                      : NULL);
    json_key_bool(json, "cancelled", result->left);
    json_key_float(json, "durationMs", result->total_ms);
    json_key_float(json, "ttftMs", result->ttft_ms);
    json_key_text(json, "finishReason", result->finish[0] ? result->finish : NULL);
    json_key_uint(json, "streamChunks", result->chunks);
    json_key_uint(json, "streamBytes", result->bytes);
    write_count(json, "promptTokens", result->prompt);
    write_count(json, "completionTokens", result->generated);
    write_count(json, "totalTokens", told ? result->prompt + result->generated : -1);
    write_count(json, "cacheReadTokens", result->cached);
    write_count(json, "cacheWriteTokens", result->written);
    write_cache(json, &result->cache);
    write_server(json, request);
    json_close(json, '}');
}

/* ---- what clients were told of a phase ---- */

struct told {
    int64_t read, written;
};

static struct told told_in(const struct qa_scenario *scenario, const char *phase)
{
    struct told told = {0};

    for (size_t i = 0; i < scenario->requests_count; i++) {
        const struct qa_request *request = &scenario->requests[i];
        if (request->probe != QA_PROBE_AB || strcmp(request->phase, phase) != 0)
            continue;
        told.read += MAX(request->result.cached, 0);
        told.written += MAX(request->result.written, 0);
    }
    return told;
}

static void write_usage(const struct qa_scenario *scenario, const char *key, const char *phase,
                        struct json *json)
{
    json_key_open(json, key, '[');
    for (size_t i = 0; i < scenario->requests_count; i++) {
        const struct qa_request *request = &scenario->requests[i];
        char session[2] = {request->session, '\0'};
        if (request->probe != QA_PROBE_AB || strcmp(request->phase, phase) != 0)
            continue;
        json_open(json, '{');
        json_key_text(json, "session", session);
        write_count(json, "promptTokens", request->result.prompt);
        write_count(json, "completionTokens", request->result.generated);
        write_count(json, "cacheReadTokens", request->result.cached);
        write_count(json, "cacheWriteTokens", request->result.written);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* Both sides of A and B: the server's sums, and the clients' numbers. */
static void write_sides(const struct qa_scenario *scenario, struct json *json)
{
    struct told warm = told_in(scenario, "warm"), exact = told_in(scenario, "exact");

    write_totals(json, "cold", qa_totals(scenario, "cold"));
    write_totals(json, "warm", qa_totals(scenario, "warm"));
    write_totals(json, "exactReplay", qa_totals(scenario, "exact"));
    write_usage(scenario, "coldClientUsage", "cold", json);
    write_usage(scenario, "warmClientUsage", "warm", json);
    write_count(json, "warmClientReadTokens", warm.read);
    write_count(json, "warmClientWriteTokens", warm.written);
    write_count(json, "exactReplayClientReadTokens", exact.read);
    write_count(json, "exactReplayClientWriteTokens", exact.written);
}

/* ---- probes ---- */

static void write_criteria(const struct qa_scenario *scenario, enum qa_probe probe,
                           struct json *json)
{
    json_key_open(json, "criteria", '[');
    for (size_t i = 0; i < scenario->checks_count; i++) {
        const struct qa_check *check = &scenario->checks[i];
        if (check->probe != probe)
            continue;
        json_open(json, '{');
        json_key_uint(json, "invariant", check->invariant);
        json_key_text(json, "criterion", check->text);
        json_key_text(json, "seen", check->detail);
        json_key_bool(json, "passed", check->passed);
        json_close(json, '}');
    }
    json_close(json, ']');
}

/* The file's name without folder and extension. */
static struct str model_id(const char *path)
{
    struct str name = str_from(file_base_name(path)), end = STR(".gguf");

    name.len -= str_ends(name, end) ? end.len : 0;
    return name;
}

/* Whether the probe applies: a single model has no probe of two. */
static bool has_probe(const struct qa_scenario *scenario, enum qa_probe probe)
{
    for (size_t i = 0; i < scenario->requests_count; i++)
        if (scenario->requests[i].probe == probe)
            return true;
    for (size_t i = 0; i < scenario->checks_count; i++)
        if (scenario->checks[i].probe == probe)
            return true;
    return false;
}

static void write_targets(const struct qa_scenario *scenario, struct json *json)
{
    const char *const models[] = {scenario->options->model, scenario->options->other_model};

    json_key_open(json, "models", '[');
    for (size_t i = 0; i < COUNT_OF(models) && models[i] != NULL; i++)
        json_str(json, model_id(models[i]));
    json_close(json, ']');
    json_key_open(json, "targets", '[');
    for (size_t i = 0; i < COUNT_OF(models) && models[i] != NULL; i++) {
        json_open(json, '{');
        json_key_str(json, "id", model_id(models[i]));
        json_key_text(json, "source", models[i]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_probe(const struct qa_scenario *scenario, enum qa_probe probe, struct json *json)
{
    bool second = probe == QA_PROBE_MODELS;
    struct str model = model_id(second ? scenario->options->other_model : scenario->options->model);
    char id[128];

    snprintf(id, sizeof(id), STR_FMT "-%s", STR_ARG(model), qa_probe_name(probe));
    json_open(json, '{');
    json_key_text(json, "id", id);
    json_key_str(json, "modelId", model);
    if (probe == QA_PROBE_AB)
        write_sides(scenario, json);
    json_key_open(json, "requests", '[');
    for (size_t i = 0; i < scenario->requests_count; i++)
        if (scenario->requests[i].probe == probe)
            write_request(json, &scenario->requests[i]);
    json_close(json, ']');
    write_criteria(scenario, probe, json);
    json_close(json, '}');
}

void qa_write_json(const struct qa_scenario *scenario, struct json *json)
{
    json_open(json, '{');
    json_key_text(json, "id", scenario->options->id);
    write_targets(scenario, json);
    json_key_text(json, "fault", drill_names[scenario->options->drill]);
    json_key_text(json, "status", qa_passed(scenario) ? "passed" : "failed");
    json_key_open(json, "probes", '[');
    for (int probe = 0; probe < QA_PROBE_COUNT; probe++)
        if (has_probe(scenario, (enum qa_probe)probe))
            write_probe(scenario, (enum qa_probe)probe, json);
    json_close(json, ']');
    json_close(json, '}');
}
