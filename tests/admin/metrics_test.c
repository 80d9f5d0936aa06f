/* stats_test.c: what is counted has its name, once, and its value. */
#include "admin/metrics.h"

#include <stdio.h>
#include <string.h>

#include "admin/monitor.h"
#include "support/test.h"

static void test_calls(void **state)
{
    struct metric_set *set = stats_create();

    (void)state;
    stats_count_call(
        set, &(struct stats_call){.kind = API_OK, .hit = true, .seconds = 2, .ttft_s = 0.5});
    stats_count_call(set, &(struct stats_call){.kind = API_OK, .seconds = 0, .ttft_s = 0.25});
    stats_count_call(set, &(struct stats_call){.kind = API_ERROR_BUSY, .seconds = 1});
    stats_count_call(
        set, &(struct stats_call){.kind = API_ERROR_UNAVAILABLE, .gone = true, .seconds = 1});
    assert_true(metric_value(set, STATS_CALLS, API_OK) == 2);
    assert_true(metric_value(set, STATS_CALLS, API_ERROR_BUSY) == 1);
    assert_true(metric_value(set, STATS_CALLS, API_ERROR_UNAVAILABLE) == 0); /* no client got one */
    assert_true(metric_value(set, STATS_GONE, 0) == 1);
    assert_true(metric_value(set, STATS_SECONDS, 0) == 4);
    assert_int_equal(metric_count(set, STATS_TTFT, 0), 1); /* a miss */
    assert_int_equal(metric_count(set, STATS_TTFT, 1), 1);
    assert_true(metric_value(set, STATS_TTFT, 1) == 0.5);
    metric_set_destroy(&set);
}

static void test_every_kind_of_error_has_a_label(void **state)
{
    struct metric_set *set = stats_create();

    (void)state;
    for (int kind = 0; kind < API_ERROR_COUNT; kind++)
        /* aborts on a label that the table does not have */
        metric_add(set, STATS_CALLS, (size_t)kind, 1);
    metric_set_destroy(&set);
}

static void test_tokens(void **state)
{
    static const char *const lines[] = {
        "\nhearth_api_prompt_tokens_total{source=\"device\"} 1\n",
        "\nhearth_api_prompt_tokens_total{source=\"ram\"} 2\n",
        "\nhearth_api_prompt_tokens_total{source=\"ssd\"} 3\n",
        "\nhearth_api_prompt_tokens_total{source=\"remote\"} 4\n",
        "\nhearth_api_prompt_tokens_total{source=\"computed\"} 5\n",
        "\nhearth_api_generated_tokens_total 6\n",
    };
    struct tally session = {
        .prompt = 15, .device = 1, .ram = 2, .ssd = 3, .remote = 4, .computed = 5, .generated = 6};
    struct buf text;

    (void)state;
    buf_init(&text, 1 << 16);
    stats_write_tokens(&session, &text);
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        assert_non_null(strstr(buf_str(&text), lines[i]));
    buf_fini(&text);
}

#define SECOND UINT64_C(1000000000)

static void expect_phase(const struct metric_set *set, enum stats_phase phase, uint64_t count,
                         double sum)
{
    assert_int_equal(metric_count(set, STATS_PHASE, phase), count);
    assert_true(metric_value(set, STATS_PHASE, phase) == sum);
}

static void test_times_of_a_generation(void **state)
{
    struct metric_set *set = stats_create();
    struct gen_result result = {
        .end = GEN_END_LENGTH,
        .usage = {.prompt = 100, .computed = 100, .generated = 5},
        .times = {.submitted = 1 * SECOND,
                  .admitted = 3 * SECOND,
                  .looked_up = 4 * SECOND,
                  .restored = 8 * SECOND,
                  .first_token = 16 * SECOND,
                  .ended = 32 * SECOND,
                  .lookup_ns = SECOND / 2},
    };

    (void)state;
    stats_count_result(set, &result);
    expect_phase(set, STATS_PHASE_QUEUE, 1, 2);
    expect_phase(set, STATS_PHASE_LOOKUP, 1, 0.5);
    /* nothing was fetched: what passed is not a restore */
    expect_phase(set, STATS_PHASE_RESTORE, 0, 0);
    expect_phase(set, STATS_PHASE_PREFILL, 1, 8);
    expect_phase(set, STATS_PHASE_DECODE, 1, 16);
    assert_true(metric_value(set, STATS_TOKEN, 0) == 4);
    assert_true(metric_value(set, STATS_ENDS, GEN_END_LENGTH) == 1);
    assert_true(metric_value(set, STATS_LENGTH, STATS_LENGTH_PROMPT) == 100);
    result.times.fetch_ns = 1 * SECOND;
    result.times.verify_ns = 2 * SECOND;
    result.times.import_ns = 3 * SECOND;
    stats_count_result(set, &result);
    expect_phase(set, STATS_PHASE_RESTORE, 1, 4);
    assert_true(metric_value(set, STATS_RESTORE, 0) == 1);
    assert_true(metric_value(set, STATS_RESTORE, 2) == 3);
    metric_set_destroy(&set);
}

/* One that was cancelled in the queue. */
static void test_what_never_happened_has_no_time(void **state)
{
    struct metric_set *set = stats_create();
    struct gen_result result = {.end = GEN_END_CANCELLED,
                                .usage = {.prompt = 3},
                                .times = {.submitted = SECOND, .ended = 9 * SECOND}};

    (void)state;
    stats_count_result(set, &result);
    for (int phase = 0; phase < STATS_PHASE_COUNT; phase++)
        expect_phase(set, (enum stats_phase)phase, 0, 0);
    assert_int_equal(metric_count(set, STATS_TOKEN, 0), 0);
    assert_true(metric_value(set, STATS_ENDS, GEN_END_CANCELLED) == 1);
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
    cache.bytes_read_by_tier[HEARTH_TIER_SSD] = 12;
    cache.bytes_written_by_tier[HEARTH_TIER_RAM] = 13;
    cache.ns_read_by_tier[HEARTH_TIER_SSD] = 1500000000;
    cache.ns_written_by_tier[HEARTH_TIER_RAM] = 1;
    metric_latency_observe(&sched.store_times, 0.5);
    buf_init(&text, 1 << 20);
    stats_write_build("1.2", "a\"b", &text);
    stats_write_sched(&sched, &text);
    stats_write_cache(&cache, &text);
    stats_write_memory(&memory, &text);
    expect_line(
        &text,
        "# TYPE hearth_build_info gauge\nhearth_build_info{version=\"1.2\",commit=\"a\\\"b\"} 1\n");
    expect_line(&text, "\nhearth_cache_tier_read_bytes_total{tier=\"ssd\"} 12\n");
    expect_line(&text, "\nhearth_cache_tier_written_bytes_total{tier=\"ram\"} 13\n");
    expect_line(&text, "\nhearth_cache_tier_read_seconds_total{tier=\"ssd\"} 1.5\n");
    expect_line(&text, "\nhearth_cache_tier_written_seconds_total{tier=\"ram\"} 1e-09\n");
    expect_line(&text, "\nhearth_sched_store_seconds_sum 0.5\n");
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

/* Fills all 64-bit fields of a struct after its first `skip` bytes with different numbers. */
static void fill(void *object, size_t size, size_t skip)
{
    uint64_t *fields = object;

    for (size_t i = skip / sizeof(*fields); i < size / sizeof(*fields); i++)
        fields[i] = 4000000 + i;
}

static void expect_all(const struct buf *text, const void *object, size_t size, size_t skip,
                       const char *what)
{
    const uint64_t *fields = object;
    char value[32];

    for (size_t i = skip / sizeof(*fields); i < size / sizeof(*fields); i++) {
        snprintf(value, sizeof(value), " %llu\n", (unsigned long long)fields[i]);
        if (!strstr(buf_str(text), value))
            fail_msg("the 64-bit field %zu of struct %s is not in /metrics", i, what);
    }
}

/* Every field of the cache's statistics has a metric: a counter that nothing shows is useless. */
static void test_i47_no_field_is_left_out(void **state)
{
    static const char *const label[] = {"model=\"a\""};
    struct hearth_stats cache = {.struct_size = sizeof(cache)};
    struct hearth_tier_stats tiers[HEARTH_TIER_COUNT] = {{.struct_size = sizeof(tiers[0])}};
    struct buf text;

    (void)state;
    fill(&cache, sizeof(cache), sizeof(size_t));
    /* seconds are printed as such, and have their own test */
    memset(cache.ns_read_by_tier, 0, sizeof(cache.ns_read_by_tier));
    memset(cache.ns_written_by_tier, 0, sizeof(cache.ns_written_by_tier));
    buf_init(&text, 1 << 20);
    stats_write_cache(&cache, &text);
    buf_append(&text, " 0\n", 3);
    expect_all(&text, &cache, sizeof(cache), sizeof(size_t), "hearth_stats");
    expect_line(&text, "\nhearth_cache_tail_tokens_total ");
    buf_clear(&text);
    size_t skip = offsetof(struct hearth_tier_stats, used);
    fill(&tiers[HEARTH_TIER_SSD], sizeof(tiers[0]), skip);
    /* these two are in struct hearth_stats as well */
    tiers[HEARTH_TIER_SSD].read_bytes = tiers[HEARTH_TIER_SSD].written_bytes = 0;
    stats_write_stores(tiers, &text);
    expect_all(&text, &tiers[HEARTH_TIER_SSD], sizeof(tiers[0]), skip, "hearth_tier_stats");
    expect_line(&text, "hearth_tier_writes_queued{tier=\"ssd\"} 40000");
    stats_write_models(&cache, label, 1, &text);
    expect_line(&text, "\nhearth_model_cache_tail_hits_total{model=\"a\"} 40000");
    expect_names_once(&text);
    buf_fini(&text);
}

TEST_SUITE(TEST(test_calls), TEST(test_every_kind_of_error_has_a_label), TEST(test_tokens),
           TEST(test_times_of_a_generation), TEST(test_what_never_happened_has_no_time),
           TEST(test_sched_and_cache), TEST(test_i47_no_field_is_left_out))
