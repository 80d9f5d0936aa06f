#include "lab/trace_sim.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"
#include "support/trace_kit.h"

enum { REQUESTS = 9, BLOCKS_MAX = 3, IDS_MAX = 14 }; /* two letters, three deep: 14 prefixes */

static uint64_t run(const struct trace *trace, uint64_t capacity)
{
    uint32_t hits[64];
    struct opt_result result;
    uint64_t sum = 0;

    assert_true(trace->requests_count <= COUNT_OF(hits));
    assert_ok(opt_run(trace, capacity, hits, &result, NULL, NULL));
    assert_true(result.held_max <= capacity);
    for (size_t i = 0; i < trace->requests_count; i++)
        sum += hits[i];
    return sum;
}

static int count_bits(uint32_t set)
{
    return __builtin_popcount(set);
}

/* All ways to decide: after a request any set of what was held and what it computed may be kept, if
 * it fits. */
static uint64_t brute_force(const struct trace *trace, uint64_t capacity)
{
    static int best[1 << IDS_MAX], next[1 << IDS_MAX];

    assert_true(trace->ids_end <= IDS_MAX);
    memset(best, -1, sizeof(best));
    best[0] = 0;
    for (size_t r = 0; r < trace->requests_count; r++) {
        const struct trace_request *request = &trace->requests[r];
        uint32_t used = 0;
        for (uint32_t i = 0; i < request->blocks; i++)
            used |= 1u << trace_id(trace, request, i);
        memset(next, -1, sizeof(next));
        for (uint32_t held = 0; held < 1u << IDS_MAX; held++) {
            if (best[held] < 0)
                continue;
            int gain = best[held] + count_bits(held & used);
            uint32_t all = held | used;
            for (uint32_t kept = all;; kept = (kept - 1) & all) {
                if (count_bits(kept) <= (int)capacity && next[kept] < gain)
                    next[kept] = gain;
                if (kept == 0)
                    break;
            }
        }
        memcpy(best, next, sizeof(best));
    }
    int most = 0;
    for (uint32_t held = 0; held < 1u << IDS_MAX; held++)
        most = MAX(most, best[held]);
    return (uint64_t)most;
}

static void test_equals_all_ways_to_decide(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 12; round++) {
        struct trace trace;
        trace_kit_random(&trace, &seed, REQUESTS, BLOCKS_MAX);
        for (uint64_t capacity = 1; capacity <= 5; capacity += 2)
            assert_int_equal(run(&trace, capacity), brute_force(&trace, capacity));
        trace_fini(&trace);
    }
}

static void test_hits_are_prefixes(void **state)
{
    uint64_t seed = test_seed();
    struct trace trace;
    uint32_t hits[200];
    struct opt_result result;

    (void)state;
    trace_kit_random(&trace, &seed, COUNT_OF(hits), 10);
    for (uint64_t capacity = 1; capacity < 64; capacity *= 2) {
        assert_ok(opt_run(&trace, capacity, hits, &result, NULL, NULL));
        for (size_t i = 0; i < COUNT_OF(hits); i++)
            assert_true(hits[i] <= trace.requests[i].blocks);
        assert_int_equal(hits[0], 0);
    }
    trace_fini(&trace);
}

static void test_without_limits_everything_seen_is_a_hit(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 0, "abc");
    trace_kit_add(&trace, 1, "abd");
    trace_kit_add(&trace, 2, "abc");
    assert_int_equal(run(&trace, 100), 2 + 3);
    assert_int_equal(run(&trace, 1), 1 + 1);
    trace_fini(&trace);
}

static double rate_of(const char *path, uint64_t blocks)
{
    struct trace trace;
    struct opt_result result;
    uint64_t sum = 0;

    trace_kit_read(&trace, path);
    uint32_t *hits = mem_alloc_array(trace.requests_count, sizeof(*hits));
    assert_ok(opt_run(&trace, blocks, hits, &result, NULL, NULL));
    for (size_t i = 0; i < trace.requests_count; i++)
        sum += hits[i];
    double rate = (double)sum / (double)trace_sum(&trace).blocks;
    mem_free(hits);
    trace_fini(&trace);
    return rate;
}

/* tests/data/traces/make.py prints those of our trace, ../shared/traces/NOTE.md has the others. */
static void test_known_results(void **state)
{
    static const struct {
        const char *name; /* NULL: ours */
        uint64_t blocks;
        double rate;
    } known[] = {
        {NULL, 50, .5949},
        {NULL, 100, .6663},
        {NULL, 200, .6699},
        {"mooncake/conversation_trace.jsonl", 1000, .191},
        {"mooncake/conversation_trace.jsonl", 5000, .341},
        {"mooncake/conversation_trace.jsonl", 10000, .366},
        {"mooncake/synthetic_trace.jsonl", 1000, .277},
        {"mooncake/synthetic_trace.jsonl", 5000, .526},
        {"mooncake/synthetic_trace.jsonl", 10000, .618},
        {"mooncake/synthetic_trace.jsonl", 30000, .640},
    };

    (void)state;
    for (size_t k = 0; k < COUNT_OF(known); k++) {
        const char *path =
            known[k].name == NULL ? TRACE_KIT_OWN : trace_kit_published(known[k].name);
        if (path != NULL)
            assert_float_equal(rate_of(path, known[k].blocks), known[k].rate, 0.0005);
    }
}

static void test_every_allocation_may_fail(void **state)
{
    uint64_t seed = 1;
    uint32_t hits[40];
    struct opt_result result;
    struct trace trace;
    struct fault fault = {0};
    enum err err = ERR_NOMEM;

    (void)state;
    trace_kit_random(&trace, &seed, COUNT_OF(hits), 8);
    FAULT_LOOP (&fault) {
        mem_set_fault(&fault);
        err = opt_run(&trace, 10, hits, &result, NULL, NULL);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    assert_ok(err);
    trace_fini(&trace);
}

TEST_SUITE(TEST(test_equals_all_ways_to_decide), TEST(test_hits_are_prefixes),
           TEST(test_without_limits_everything_seen_is_a_hit), TEST(test_known_results),
           TEST(test_every_allocation_may_fail))
