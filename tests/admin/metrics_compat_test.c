/* metrics_compat_test.c: names of other servers have our numbers, and nothing is there that was not
 * asked for. */

#include <string.h>

#include "admin/metrics.h"
#include "support/test.h"

static const struct sched_stats sched = {
    .tokens_prompt = 100,
    .tokens_device = 10,
    .tokens_ram = 20,
    .tokens_ssd = 30,
    .tokens_remote = 5,
    .tokens_computed = 35,
    .tokens_generated = 7,
    .prefill_tokens = 35,
    .decode_tokens = 7,
    .prefill_ns = 2000000000,
    .decode_ns = 500000000,
    .active = 3,
    .queued = 4,
    .cells = 100,
    .cells_free = 25,
};

static void expect(const struct buf *text, const char *line)
{
    if (!strstr(buf_str(text), line))
        fail_msg("no %s in\n%s", line, buf_str(text));
}

static void test_names(void **state)
{
    unsigned set = 0;

    (void)state;
    assert_true(stats_compat_add(STR("vllm"), &set));
    assert_int_equal(set, STATS_COMPAT_VLLM);
    assert_true(stats_compat_add(STR("llamacpp"), &set));
    assert_int_equal(set, STATS_COMPAT_VLLM | STATS_COMPAT_LLAMACPP);
    assert_false(stats_compat_add(STR("vll"), &set));
    assert_false(stats_compat_add(STR(""), &set));
    assert_int_equal(set, STATS_COMPAT_VLLM | STATS_COMPAT_LLAMACPP);
}

static void test_llamacpp(void **state)
{
    struct metric_set *api = stats_create();
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    stats_compat_write(STATS_COMPAT_LLAMACPP, &sched, api, "m", &text);
    expect(&text, "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 35\n");
    expect(&text, "\nllamacpp:prompt_tokens_cached_total 65\n");
    expect(&text, "\nllamacpp:prompt_tokens_seconds 17.5\n");
    expect(&text, "\nllamacpp:predicted_tokens_seconds 14\n");
    expect(&text, "\nllamacpp:requests_processing 3\n");
    expect(&text, "\nllamacpp:requests_deferred 4\n");
    assert_null(strstr(buf_str(&text), "vllm:"));
    buf_fini(&text);
    metric_set_destroy(&api);
}

static void test_vllm(void **state)
{
    struct metric_set *api = stats_create();
    struct buf text;

    (void)state;
    stats_count_call(api, &(struct stats_call){.seconds = 3, .ttft_s = 1});
    stats_count_call(api, &(struct stats_call){.seconds = 3, .ttft_s = 2, .hit = true});
    buf_init(&text, 1 << 20);
    stats_compat_write(STATS_COMPAT_VLLM, &sched, api, "a\"b", &text);
#define LABELS "{engine=\"0\",model_name=\"a\\\"b\"} "
    expect(&text, "\nvllm:prompt_tokens_total" LABELS "100\n");
    expect(&text, "\nvllm:prefix_cache_hits_total" LABELS "10\n");
    expect(&text, "\nvllm:external_prefix_cache_queries_total" LABELS "90\n");
    expect(&text, "\nvllm:external_prefix_cache_hits_total" LABELS "55\n");
    expect(&text, "\nvllm:kv_cache_usage_perc" LABELS "0.75\n");
    expect(&text, "\nvllm:time_to_first_token_seconds_sum" LABELS "3\n");
    expect(&text, "\nvllm:time_to_first_token_seconds_count" LABELS "2\n");
    expect(&text, "\nvllm:e2e_request_latency_seconds_bucket{engine=\"0\",model_name=\"a\\\"b\",le="
                  "\"5\"} 2\n");
    assert_null(strstr(buf_str(&text), "llamacpp:"));
    buf_fini(&text);
    metric_set_destroy(&api);
}

/* Nothing has happened yet: numbers, and no division by it. */
static void test_at_the_start(void **state)
{
    struct metric_set *api = stats_create();
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 20);
    stats_compat_write(STATS_COMPAT_VLLM | STATS_COMPAT_LLAMACPP, &(struct sched_stats){0}, api, "",
                       &text);
    assert_null(strstr(buf_str(&text), "nan"));
    assert_null(strstr(buf_str(&text), "NaN"));
    expect(&text, "\nllamacpp:prompt_tokens_seconds 0\n");
    buf_clear(&text);
    stats_compat_write(0, &sched, api, "", &text);
    assert_int_equal(text.len, 0);
    buf_fini(&text);
    metric_set_destroy(&api);
}

TEST_SUITE(TEST(test_names), TEST(test_llamacpp), TEST(test_vllm), TEST(test_at_the_start))
