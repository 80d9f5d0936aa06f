/* stats_test.c: what is counted has its name, once, and its value. */
#include "api/stats.h"

#include <string.h>

#include "support/test.h"

static void test_calls(void **state)
{
    struct metric_set *set = stats_create();

    (void)state;
    stats_count_call(set, &(struct stats_call){.kind = API_OK, .seconds = 2, .ttft_s = 0.5});
    stats_count_call(set, &(struct stats_call){.kind = API_ERROR_BUSY, .seconds = 1});
    stats_count_call(set, &(struct stats_call){.kind = API_ERROR_UNAVAILABLE, .gone = true, .seconds = 1});
    assert_true(metric_value(set, STATS_CALLS, API_OK) == 1);
    assert_true(metric_value(set, STATS_CALLS, API_ERROR_BUSY) == 1);
    assert_true(metric_value(set, STATS_CALLS, API_ERROR_UNAVAILABLE) == 0); /* nobody was told */
    assert_true(metric_value(set, STATS_GONE, 0) == 1);
    assert_true(metric_value(set, STATS_SECONDS, 0) == 4);
    assert_int_equal(metric_count(set, STATS_TTFT, 0), 1);
    metric_set_destroy(&set);
}

static void test_every_kind_of_error_has_a_label(void **state)
{
    struct metric_set *set = stats_create();

    (void)state;
    for (int kind = 0; kind < API_ERROR_COUNT; kind++)
        metric_add(set, STATS_CALLS, (size_t)kind, 1); /* aborts on a label that the table does not have */
    metric_set_destroy(&set);
}

static void test_tokens(void **state)
{
    struct metric_set *set = stats_create();
    struct gen_result result = {.usage = {.prompt = 15, .device = 1, .ram = 2, .ssd = 3, .remote = 4,
                                          .computed = 5, .generated = 6}};
    double sum = 0;

    (void)state;
    stats_count_result(set, &result);
    for (size_t i = 0; i < 5; i++)
        sum += metric_value(set, STATS_PROMPT, i);
    assert_true(sum == 15);
    assert_true(metric_value(set, STATS_PROMPT, 4) == 5);
    assert_true(metric_value(set, STATS_GENERATED, 0) == 6);
    metric_set_destroy(&set);
}

static void expect_line(const struct buf *text, const char *line)
{
    if (!strstr(buf_str(text), line))
        fail_msg("no %s", line);
}

/* Each name has its type once, before its values. */
static void expect_names_once(const struct buf *text)
{
    for (const char *at = strstr(buf_str(text), "# TYPE "); at; at = strstr(at + 1, "# TYPE ")) {
        size_t len = strcspn(at + 7, " ") + 8;
        struct str rest = {at + 1, strlen(at + 1)};

        assert_true(str_find(rest, (struct str){at, len}) == SIZE_MAX);
    }
}

static void test_sched_and_cache(void **state)
{
    struct sched_stats sched = {.submitted = 3, .prefill_ns = 1500000000, .active = 2};
    struct hearth_stats cache = {.lookups = 9, .bytes_cap = UINT64_C(1) << 40};
    struct memory_view memory = {.level = GUARD_HARD, .used = 77, .limits = {.ceiling = 80}};
    struct buf text;

    (void)state;
    sched.miss_by_reason[HEARTH_REASON_DIVERGED] = 7;
    cache.bytes_by_tier[HEARTH_TIER_SSD] = 11;
    buf_init(&text, 1 << 20);
    stats_write_sched(&sched, &text);
    stats_write_cache(&cache, &text);
    stats_write_memory(&memory, &text);
    expect_line(&text, "\nhearth_sched_submitted_total 3\n");
    expect_line(&text, "\nhearth_sched_prefill_seconds_total 1.5\n");
    expect_line(&text, "# TYPE hearth_sched_active gauge\nhearth_sched_active 2\n");
    expect_line(&text, "\nhearth_sched_miss_total{reason=\"diverged\"} 7\n");
    expect_line(&text, "\nhearth_cache_lookups_total 9\n");
    expect_line(&text, "\nhearth_cache_cap_bytes 1099511627776\n");
    expect_line(&text, "\nhearth_cache_tier_bytes{tier=\"ssd\"} 11\n");
    expect_line(&text, "# TYPE hearth_memory_used_bytes gauge\nhearth_memory_used_bytes 77\n");
    expect_line(&text, "\nhearth_memory_ceiling_bytes 80\n");
    expect_line(&text, "\nhearth_memory_level{level=\"hard\"} 1\n");
    expect_line(&text, "\nhearth_memory_level{level=\"ok\"} 0\n");
    expect_names_once(&text);
    buf_fini(&text);
}

TEST_SUITE(TEST(test_calls), TEST(test_every_kind_of_error_has_a_label), TEST(test_tokens),
           TEST(test_sched_and_cache))
