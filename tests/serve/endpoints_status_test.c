/* endpoints_status_test.c: health, version, numbers, what runs. */
#include "serve/api_impl.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/metrics.h"
#include "base/clock.h"
#include "models/pool.h"
#include "support/api_kit.h"
#include "support/test.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]"
#define CHAT     "/v1/chat/completions"

static void test_root_lists_the_endpoints(void **state)
{
    struct api_kit_options options = {.api = {.version = "1.2.3", .commit = "abc"}};
    struct api_kit kit;
    struct http_answer answer;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &options);
    doc = api_kit_get(&kit, "/", 200);
    assert_string_equal(json_at(doc, "/name"), "hearth");
    assert_int_equal(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/endpoints")), kit.api->routes_count);
    yyjson_doc_free(doc);
    doc = api_kit_get(&kit, "/version", 200);
    assert_string_equal(json_at(doc, "/version"), "1.2.3");
    assert_string_equal(json_at(doc, "/commit"), "abc");
    yyjson_doc_free(doc);
    api_kit_ask(&kit, "HEAD", "/", NULL, NULL, &answer);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body.len, 0);
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

/* An engine that hangs: the server lives, and says that it should get no more requests. */
static void test_health_of_a_stalled_engine(void **state)
{
    struct clock *clock = clock_create_fake(1, 1);
    struct api_kit kit;
    struct http_client client;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.gate_closed = true, .sched = {.clock = clock}});
    api_kit_send(&kit, &client, CHAT, "{" MESSAGES "}");
    api_kit_gate_wait(&kit);
    pool_run_watchdog(kit.pool);
    clock_fake_advance(clock, SCHED_STALL_S * NS_PER_S);
    pool_run_watchdog(kit.pool);
    doc = api_kit_get(&kit, "/health", 200);
    assert_string_equal(json_at(doc, "/status"), "degraded");
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_get(&kit, "/ready", 503));
    assert_true(api_kit_metric(&kit, "hearth_engine_stalls_total") == 1);
    assert_true(api_kit_metric(&kit, "hearth_engine_stalled") == 1);
    api_kit_gate_open(&kit);
    api_kit_wait_metric(&kit, "hearth_sched_failed_total", 1);
    assert_ok(sched_wait_turn(model_sched(kit.model), 60000, NULL));
    pool_run_watchdog(kit.pool);
    yyjson_doc_free(api_kit_get(&kit, "/ready", 200));
    http_client_close(&client);
    api_kit_close(&kit);
    clock_destroy_fake(&clock);
}

static void expect_state(struct api_kit *kit, int ready, const char *health, const char *state)
{
    char metric[64];
    yyjson_doc *doc = api_kit_get(kit, "/health", 200);

    assert_string_equal(json_at(doc, "/status"), health);
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_get(kit, "/ready", ready));
    doc = api_kit_get(kit, "/v1/models", 200);
    assert_string_equal(json_at(doc, "/data/0/state"), state);
    yyjson_doc_free(doc);
    doc = api_kit_get(kit, "/admin/models", 200);
    assert_string_equal(json_at(doc, "/models/0/state"), state);
    assert_int_equal(strlen(json_at(doc, "/models/0/error")) > 0, ready != 200);
    yyjson_doc_free(doc);
    snprintf(metric, sizeof(metric), "hearth_engine_dead{model=\"fake\"}");
    assert_true(api_kit_metric(kit, metric) == (ready != 200));
}

/* Its process is killed and its program is gone for a while: a server without an engine says so
 * everywhere, without a request, and takes it back when it can be restarted. */
static void test_ready_of_a_dead_engine(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_worker_options worker = {0};
    struct api_kit kit;
    char program[1024];
    int attempts = 0;

    (void)state;
    snprintf(program, sizeof(program), "%s/program", test_dir());
    assert_int_equal(symlink(fake_worker_program(), program), 0);
    worker.program = program;
    api_kit_open(&kit, &(struct api_kit_options){.worker = &worker, .sched = {.clock = clock}});
    expect_state(&kit, 200, "ok", "ready");
    assert_int_equal(unlink(program), 0);
    kill(engine_worker_pid(model_engine(kit.model)), SIGKILL);
    api_kit_wait_metric(&kit, "hearth_engine_dead{model=\"fake\"}", 1);
    while (attempts++ < 20) { /* no number of failures ends the attempts */
        clock_fake_advance(clock, 31 * NS_PER_S);
        yyjson_doc_free(api_kit_post(&kit, CHAT, "{" MESSAGES "}", 503));
    }
    expect_state(&kit, 503, "degraded", "dead");
    assert_int_equal(symlink(fake_worker_program(), program), 0);
    clock_fake_advance(clock, 31 * NS_PER_S);
    api_kit_wait_metric(&kit, "hearth_engine_dead{model=\"fake\"}", 0);
    expect_state(&kit, 200, "ok", "ready");
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{" MESSAGES "}", 200));
    api_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* While the engine's thread computes and cannot answer. */
static void test_health_does_not_need_the_engine(void **state)
{
    struct api_kit kit;
    struct http_client client;
    yyjson_doc *doc;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.gate_closed = true});
    api_kit_send(&kit, &client, CHAT, "{" MESSAGES "}");
    api_kit_gate_wait(&kit);
    doc = api_kit_get(&kit, "/health", 200);
    assert_string_equal(json_at(doc, "/status"), "ok");
    yyjson_doc_free(doc);
    yyjson_doc_free(api_kit_get(&kit, "/ready", 200));
    yyjson_doc_free(api_kit_get(&kit, "/v1/health", 200));
    yyjson_doc_free(api_kit_get(&kit, "/props", 200));
    yyjson_doc_free(api_kit_get(&kit, "/v1/models", 200));
    http_client_close(&client);
    api_kit_close(&kit);
}

static void test_metrics_of_all_parts(void **state)
{
    static const char *const names[] = {
        "hearth_api_calls_active",
        "hearth_http_requests_total",
        "hearth_sched_turns_total",
        "hearth_cache_lookups_total",
        "hearth_cache_tier_bytes{tier=\"ram\"}",
        "hearth_sched_miss_total{reason=\"cold\"}",
    };
    struct api_kit kit;
    struct http_answer answer;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.ram_bytes = 1 << 20});
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (api_kit_metric(&kit, names[i]) < 0)
            fail_msg("no %s", names[i]);
    api_kit_ask(&kit, "GET", "/metrics", NULL, NULL, &answer);
    assert_true(
        str_starts(http_answer_header(&answer, "content-type"), STR("text/plain; version=0.0.4")));
    http_answer_fini(&answer);
    api_kit_close(&kit);
}

/* What a watchdog looks at: an engine's thread that waits for work is alive, one that does not come
 * back from the engine is not. */
static void test_an_engine_that_hangs_is_noticed(void **state)
{
    struct api_kit kit;
    struct http_client client;

    (void)state;
    api_kit_open(&kit, &(struct api_kit_options){.gate_closed = true});
    while (!pool_alive(kit.pool, 0))
        continue; /* until its first turn is over */
    api_kit_send(&kit, &client, CHAT, "{" MESSAGES "}");
    api_kit_gate_wait(&kit);
    assert_false(pool_alive(kit.pool, 0));
    assert_true(pool_alive(kit.pool, 3600 * NS_PER_S));
    api_kit_gate_open(&kit);
    while (!pool_alive(kit.pool, 0))
        continue;
    http_client_close(&client);
    api_kit_close(&kit);
}

/* A prompt that misses, then one that hits: the metrics distinguish them, and their parts have
 * times. */
static void test_metrics_of_hits_and_misses(void **state)
{
    struct api_kit_options options = {.ram_bytes = 1 << 24, .sched = {.park = true}};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    for (int i = 0; i < 2; i++)
        yyjson_doc_free(api_kit_post(&kit, CHAT, "{\"max_tokens\":4," MESSAGES "}", 200));
    api_kit_wait_metric(&kit, "hearth_api_first_token_seconds_count{cache=\"hit\"}", 1);
    /* The last thread that drops a call counts it: the second one may be counted first. */
    api_kit_wait_metric(&kit, "hearth_api_first_token_seconds_count{cache=\"miss\"}", 1);
    assert_true(api_kit_metric(&kit, "hearth_api_phase_seconds_count{phase=\"queue\"}") == 2);
    assert_true(api_kit_metric(&kit, "hearth_api_phase_seconds_count{phase=\"lookup\"}") == 2);
    assert_true(api_kit_metric(&kit, "hearth_api_phase_seconds_count{phase=\"decode\"}") == 2);
    assert_true(api_kit_metric(&kit, "hearth_api_length_tokens_count{what=\"prompt\"}") == 2);
    while (api_kit_metric(&kit, "hearth_sched_store_seconds_count") < 1)
        continue; /* state is stored when there is time for it */
    assert_true(api_kit_metric(&kit, "hearth_cache_tier_written_bytes_total{tier=\"ram\"}") > 0);
    assert_true(api_kit_metric(&kit, "llamacpp:requests_processing") < 0); /* not asked for */
    api_kit_close(&kit);
}

static void test_metrics_under_other_names(void **state)
{
    struct api_kit_options options = {
        .admin = {.metrics_compat = STATS_COMPAT_LLAMACPP | STATS_COMPAT_VLLM}, .name = "small"};
    struct api_kit kit;

    (void)state;
    api_kit_open(&kit, &options);
    yyjson_doc_free(api_kit_post(&kit, CHAT, "{\"max_tokens\":4," MESSAGES "}", 200));
    api_kit_wait_metric(
        &kit, "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"small\"}", 1);
    double prompt =
        api_kit_metric(&kit, "vllm:prompt_tokens_total{engine=\"0\",model_name=\"small\"}");
    assert_true(prompt > 0 && prompt == api_kit_metric(&kit, "llamacpp:prompt_tokens_total"));
    api_kit_close(&kit);
}

TEST_SUITE(TEST(test_root_lists_the_endpoints), TEST(test_health_does_not_need_the_engine),
           TEST(test_health_of_a_stalled_engine), TEST(test_ready_of_a_dead_engine),
           TEST(test_metrics_of_all_parts), TEST(test_an_engine_that_hangs_is_noticed),
           TEST(test_metrics_of_hits_and_misses), TEST(test_metrics_under_other_names))
