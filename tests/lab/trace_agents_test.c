/* trace_agents_test.c: generated sessions have the figures that they should have. */
#include <stdlib.h>

#include "base/mem.h"
#include "lab/trace.h"
#include "support/test.h"

enum { SESSIONS = 200 };

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static uint32_t median(uint32_t *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

static void test_figures_of_production(void **state)
{
    uint32_t turns[SESSIONS] = {0}, agents = 0;
    struct errinfo info = {0};
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_ok(trace_make_agents(&trace, SESSIONS, 1, &info));
    size_t count = trace.requests_count;
    uint32_t *prompts = mem_alloc_array(count, sizeof(*prompts));
    uint32_t *answers = mem_alloc_array(count, sizeof(*answers));
    size_t own = 0;
    bool with_agent[SESSIONS] = {false};
    for (size_t i = 0; i < count; i++) {
        const struct trace_request *request = &trace.requests[i];
        bool main = request->anchor == 15000;
        answers[i] = request->generated;
        with_agent[request->session - 1] |= !main;
        turns[request->session - 1] += main;
        if (main)
            prompts[own++] = request->tokens;
    }
    for (size_t i = 0; i < SESSIONS; i++)
        agents += with_agent[i];
    assert_uint_in_range(median(turns, SESSIONS), 35, 52);
    assert_uint_in_range(median(prompts, own), 110000, 180000);
    assert_uint_in_range(median(answers, count), 400, 490);
    assert_uint_in_range(agents, SESSIONS * 34 / 100, SESSIONS * 54 / 100);
    mem_free(prompts);
    mem_free(answers);
    trace_fini(&trace);
}

static void test_a_seed_gives_the_same_sessions(void **state)
{
    struct errinfo info = {0};
    struct trace a, b;

    (void)state;
    trace_init(&a);
    trace_init(&b);
    assert_ok(trace_make_agents(&a, 5, 7, &info));
    assert_ok(trace_make_agents(&b, 5, 7, &info));
    assert_int_equal(a.requests_count, b.requests_count);
    for (size_t i = 0; i < a.requests_count; i++) {
        assert_int_equal(a.requests[i].at_ns, b.requests[i].at_ns);
        assert_int_equal(a.requests[i].blocks, b.requests[i].blocks);
    }
    assert_int_equal(a.ids_end, b.ids_end);
    trace_fini(&a);
    trace_fini(&b);
}

TEST_SUITE(TEST(test_figures_of_production), TEST(test_a_seed_gives_the_same_sessions))
