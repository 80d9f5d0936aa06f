#include "lab/trace_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cache/policy.h"
#include "support/test.h"
#include "support/trace_kit.h"

static struct sim_result replay(const struct trace *trace, const char *policy,
                                const struct cost *cost, uint64_t blocks, enum sim_place place)
{
    struct sim_options options = {
        .policy = policy,
        .cost = cost,
        .capacity_bytes = blocks * trace->block_tokens * cost->rows_bytes_per_token,
        .place = place,
        .place_tokens = place == SIM_PLACE_DENSE ? trace->block_tokens : 0};
    struct sim_result result;
    struct errinfo info = {0};

    if (sim_run(trace, &options, &result, &info) != ERR_OK)
        fail_msg("%s", info.text);
    assert_int_equal(result.requests, trace->requests_count);
    return result;
}

/* LRU, tail first, as a table: the time of the last use of each block, and of equals the deepest
 * leaves. */
struct lru {
    size_t used[4096]; /* request + 1; 0 = not held */
    uint32_t depth[4096];
    size_t count;
};

static void lru_evict(struct lru *lru, uint32_t ids, size_t now)
{
    uint32_t victim = UINT32_MAX;

    for (uint32_t i = 0; i < ids; i++)
        if (lru->used[i] != 0 &&
            (victim == UINT32_MAX || lru->used[i] < lru->used[victim] ||
             (lru->used[i] == lru->used[victim] && lru->depth[i] > lru->depth[victim])))
            victim = i;
    if (lru->used[victim] == now)
        return; /* the prompt is longer than the cache, and keeps its beginning */
    lru->used[victim] = 0;
    lru->count--;
}

static uint64_t lru_hits(const struct trace *trace, size_t capacity)
{
    static struct lru lru;
    uint64_t hits = 0;

    memset(&lru, 0, sizeof(lru));
    assert_true(trace->ids_end <= COUNT_OF(lru.used));
    for (size_t r = 0; r < trace->requests_count; r++) {
        const struct trace_request *request = &trace->requests[r];
        uint32_t i = 0;
        for (; i < request->blocks && lru.used[trace_id(trace, request, i)] != 0; i++) {
            lru.used[trace_id(trace, request, i)] = r + 1;
            hits++;
        }
        for (; i < request->blocks; i++) {
            if (lru.count == capacity)
                lru_evict(&lru, trace->ids_end, r + 1);
            if (lru.count == capacity)
                break;
            lru.used[trace_id(trace, request, i)] = r + 1;
            lru.depth[trace_id(trace, request, i)] = i;
            lru.count++;
        }
    }
    return hits;
}

static void test_lru_tail_equals_a_table(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 6; round++) {
        struct trace trace;
        trace_kit_random(&trace, &seed, 300, 9);
        for (uint64_t blocks = 4; blocks <= 256; blocks *= 4)
            assert_int_equal(
                replay(&trace, "lru-tail", &trace_kit_full, blocks, SIM_PLACE_POLICY).blocks_hit,
                lru_hits(&trace, blocks));
        trace_fini(&trace);
    }
}

static void test_nobody_beats_opt(void **state)
{
    uint64_t seed = test_seed();
    struct trace trace;

    (void)state;
    trace_kit_random(&trace, &seed, 400, 9);
    for (uint64_t blocks = 8; blocks <= 512; blocks *= 4) {
        uint64_t best =
            replay(&trace, SIM_OPT, &trace_kit_full, blocks, SIM_PLACE_POLICY).blocks_hit;
        for (size_t p = 0; p < POLICY_COUNT; p++)
            assert_true(replay(&trace, policy_names[p], &trace_kit_full, blocks, SIM_PLACE_POLICY)
                            .blocks_hit <= best);
    }
    trace_fini(&trace);
}

static void test_numbers_add_up(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 0, "abc");
    trace_kit_add(&trace, 1, "abd");
    trace_kit_add(&trace, 2, "abc");
    struct sim_result result = replay(&trace, "lru-tail", &trace_kit_full, 100, SIM_PLACE_POLICY);
    assert_int_equal(result.blocks, 9);
    assert_int_equal(result.blocks_hit, 2 + 3);
    assert_int_equal(result.tokens, 36);
    assert_int_equal(result.tokens_hit, 8 + 11); /* the last token is computed, whatever is held */
    assert_int_equal(result.evictions, 0);
    assert_int_equal(result.refused, 0);
    /* 12, 4 and 1 tokens at 1,000 a second; 0, 8 and 12 of them imported, 4 KiB each, at 1 GB/s. */
    assert_float_equal(result.ttft_s_mean, (17 / 1000. + 20 * 4096 / 1e9) / 3, 1e-6);
    assert_float_equal(result.ttft_s_p50, 4 / 1000. + 8 * 4096 / 1e9, 1e-6);
    assert_float_equal(result.ttft_s_p99, 12 / 1000., 1e-6);
    trace_fini(&trace);
}

static void test_a_replay_is_repeatable(void **state)
{
    uint64_t seed = test_seed();
    struct trace trace;

    (void)state;
    trace_kit_random(&trace, &seed, 300, 9);
    struct sim_result a =
        replay(&trace, "saving-per-byte", &trace_kit_hybrid, 60, SIM_PLACE_POLICY);
    struct sim_result b =
        replay(&trace, "saving-per-byte", &trace_kit_hybrid, 60, SIM_PLACE_POLICY);
    assert_int_equal(a.tokens_hit, b.tokens_hit);
    assert_int_equal(a.evictions, b.evictions);
    assert_int_equal(a.snapshots, b.snapshots);
    trace_fini(&trace);
}

/* One token of the cache for a block, or all of them: where nothing is cut inside of blocks it must
 * not matter. */
static void test_hybrids_resume_where_snapshots_are(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 0, "abcd");
    trace_kit_add(&trace, 1, "abcdef");
    trace_kit_add(&trace, 2, "abx");
    struct sim_result end = replay(&trace, "lru-tail", &trace_kit_hybrid, 100, SIM_PLACE_END);
    assert_int_equal(end.tokens_hit, 16); /* "abcd"; there is none at "ab" */
    assert_int_equal(end.snapshots, 3);
    assert_int_equal(end.snapshot_bytes, 3 * trace_kit_hybrid.snapshot_bytes);
    struct sim_result dense = replay(&trace, "lru-tail", &trace_kit_hybrid, 100, SIM_PLACE_DENSE);
    assert_int_equal(dense.tokens_hit, 16 + 8);
    assert_int_equal(dense.snapshots, 4 + 2 + 1);
    assert_int_equal(dense.snapshot_bytes_max, dense.snapshot_bytes);
    trace_fini(&trace);
}

static void test_dense_snapshots_lose_nothing_without_limits(void **state)
{
    uint64_t seed = test_seed();
    struct trace trace;

    (void)state;
    trace_kit_random(&trace, &seed, 200, 8);
    struct sim_result full = replay(&trace, "lru-tail", &trace_kit_full, 4096, SIM_PLACE_POLICY);
    struct sim_result dense = replay(&trace, "lru-tail", &trace_kit_hybrid, 65536, SIM_PLACE_DENSE);
    assert_int_equal(full.blocks_hit, dense.blocks_hit);
    trace_fini(&trace);
}

/* Two generated sessions of agents: a tenth of the bytes that one snapshot per 2,048 tokens takes is
 * enough for 95 % of its hits, because of where snapshots are taken and which of them are evicted.
 * With the same bytes, snapshots at every 2,048 tokens find less. */
static void test_a_tenth_of_the_snapshot_bytes(void **state)
{
    struct sim_options options = {.policy = "expected-reuse",
                                  .cost = cost_find("hybrid-1b"),
                                  .capacity_bytes = UINT64_C(1) << 40,
                                  .run_blocks = 32,
                                  .place = SIM_PLACE_DENSE,
                                  .place_tokens = 2048};
    struct sim_result dense, few, policy;
    struct errinfo info = {0};
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_ok(trace_make_agents(&trace, 2, 5, &info));
    assert_ok(sim_run(&trace, &options, &dense, &info));
    options.snapshot_bytes = dense.snapshot_bytes_max / 10;
    assert_ok(sim_run(&trace, &options, &few, &info));
    options.place = SIM_PLACE_POLICY;
    options.place_tokens = 8192;
    assert_ok(sim_run(&trace, &options, &policy, &info));
    assert_true(dense.snapshots > 100 && sim_hit_rate(&dense) > 0.9);
    assert_true(few.snapshot_bytes_max <= dense.snapshot_bytes_max / 10);
    assert_true(policy.snapshot_bytes_max <= dense.snapshot_bytes_max / 10);
    assert_true(sim_hit_rate(&policy) >= 0.95 * sim_hit_rate(&dense));
    assert_true(policy.tokens_hit > few.tokens_hit);
    trace_fini(&trace);
}

static void test_bytes_are_those_of_the_whole_cache(void **state)
{
    uint64_t seed = test_seed();
    struct trace trace;
    struct sim_result result;

    (void)state;
    trace_kit_random(&trace, &seed, 300, 9);
    struct sim_options options = {
        .policy = "lru-tail", .cost = &trace_kit_full, .capacity_bytes = 8 << 20, .whole = true};
    assert_ok(sim_run(&trace, &options, &result, NULL));
    uint64_t blocks =
        options.capacity_bytes / (trace.block_tokens * trace_kit_full.rows_bytes_per_token);
    assert_true(result.blocks_hit <=
                replay(&trace, SIM_OPT, &trace_kit_full, blocks, SIM_PLACE_POLICY).blocks_hit);
    assert_true(result.blocks_hit > 0);
    trace_fini(&trace);
}

static void test_what_cannot_be_is_said(void **state)
{
    struct trace trace;
    struct sim_result result;
    struct errinfo info = {0};
    struct sim_options options = {
        .policy = "lru-tail", .cost = &trace_kit_full, .capacity_bytes = 1};

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 0, "a");
    assert_err(sim_run(&trace, &options, &result, &info), ERR_INVALID);
    options.capacity_bytes = 1 << 20;
    options.policy = "none such";
    assert_err(sim_run(&trace, &options, &result, &info), ERR_INVALID);
    trace_fini(&trace);
}

/* The real index, ledger and heap give the same hit rate as a plain simulation of LRU: that of
 * tests/data/traces/make.py, and for published traces that of ../shared/traces/NOTE.md.
 * HEARTH_KNOWN_ALL=1 goes through the whole of their tables, which takes half a minute. */
struct known {
    uint64_t blocks;
    double rate;
    bool always;
};

static void expect_known(const char *path, const struct known *known, size_t count)
{
    struct cost small = trace_kit_full;
    struct trace trace;

    small.rows_bytes_per_token = 32; /* 16 KiB per block: a sanitizer's shadow stays small */
    if (path == NULL)
        return;
    trace_kit_read(&trace, path);
    for (size_t i = 0; i < count; i++) {
        if (!known[i].always && getenv("HEARTH_KNOWN_ALL") == NULL)
            continue;
        struct sim_result result =
            replay(&trace, "lru-tail", &small, known[i].blocks, SIM_PLACE_POLICY);
        assert_float_equal(sim_block_hit_rate(&result), known[i].rate, 0.0005001);
    }
    trace_fini(&trace);
}

static void test_known_results(void **state)
{
    static const struct known known[] = {
        {50, .3857, true}, {100, .5474, true}, {200, .6411, true}, {400, .6670, true}};

    (void)state;
    expect_known(TRACE_KIT_OWN, known, COUNT_OF(known));
}

static void test_known_results_of_the_conversation_trace(void **state)
{
    static const struct known known[] = {
        {1000, .045, false},  {5000, .112, false},  {10000, .212, true},
        {30000, .326, false}, {50000, .355, false}, {100000, .364, false},
    };

    (void)state;
    expect_known(trace_kit_published("mooncake/conversation_trace.jsonl"), known, COUNT_OF(known));
}

static void test_known_results_of_the_synthetic_trace(void **state)
{
    static const struct known known[] = {
        {1000, .084, true},   {5000, .279, true},   {10000, .424, false},
        {30000, .624, false}, {50000, .640, false},
    };

    (void)state;
    expect_known(trace_kit_published("mooncake/synthetic_trace.jsonl"), known, COUNT_OF(known));
}

TEST_SUITE(TEST(test_lru_tail_equals_a_table), TEST(test_nobody_beats_opt),
           TEST(test_numbers_add_up), TEST(test_a_replay_is_repeatable),
           TEST(test_hybrids_resume_where_snapshots_are),
           TEST(test_dense_snapshots_lose_nothing_without_limits),
           TEST(test_a_tenth_of_the_snapshot_bytes), TEST(test_bytes_are_those_of_the_whole_cache),
           TEST(test_what_cannot_be_is_said), TEST(test_known_results),
           TEST(test_known_results_of_the_conversation_trace),
           TEST(test_known_results_of_the_synthetic_trace))
