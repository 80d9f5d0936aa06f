#include "lab/trace.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/test.h"
#include "support/trace_kit.h"

/* Two sessions that share an anchor of one block. */
static void make_sessions(struct trace *trace)
{
    trace_init(trace);
    trace_kit_add(trace, 0, "Sab");
    trace_kit_add(trace, 10, "Sabc");
    trace_kit_add(trace, 5, "Sx");
    for (size_t i = 0; i < 3; i++) {
        trace->requests[i].session = trace_session(trace, i == 2 ? 2 : 1);
        trace->requests[i].anchor = 4;
    }
    trace_sort(trace);
}

static void test_users_share_the_anchor_and_nothing_else(void **state)
{
    struct trace trace;
    int32_t first = -1, users_of[64] = {0};

    (void)state;
    make_sessions(&trace);
    assert_ok(trace_multiply(&trace, 3, 7, NULL));
    assert_int_equal(trace.requests_count, 9);
    assert_int_equal(trace.sessions, 6);
    for (size_t r = 0; r < trace.requests_count; r++) {
        const struct trace_request *request = &trace.requests[r];
        int32_t user = (int32_t)((request->session - 1) / 2) + 1;
        int32_t anchor = trace_id(&trace, request, 0);
        first = first < 0 ? anchor : first;
        assert_int_equal(anchor, first);
        for (uint32_t i = 1; i < request->blocks; i++) {
            int32_t id = trace_id(&trace, request, i);
            assert_true(id >= 0 && (uint32_t)id < MIN(trace.ids_end, 64));
            assert_true(users_of[id] == 0 || users_of[id] == user);
            users_of[id] = user;
        }
        assert_true(r == 0 || request->at_ns >= trace.requests[r - 1].at_ns);
    }
    trace_fini(&trace);
}

static void test_a_session_keeps_its_order_and_its_gaps(void **state)
{
    struct trace trace;

    (void)state;
    make_sessions(&trace);
    assert_ok(trace_multiply(&trace, 5, 3, NULL));
    for (size_t a = 0; a < trace.requests_count; a++)
        for (size_t b = a + 1; b < trace.requests_count; b++)
            if (trace.requests[a].session == trace.requests[b].session) {
                assert_int_equal(trace.requests[a].blocks, 3);
                assert_int_equal(trace.requests[b].blocks, 4);
                assert_int_equal(trace.requests[b].at_ns - trace.requests[a].at_ns, 10 * NS_PER_S);
            }
    trace_fini(&trace);
}

static void test_the_seed_decides(void **state)
{
    uint64_t times[3];
    const uint64_t seeds[] = {1, 1, 2};

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t seed = 5;
        struct trace trace;
        trace_kit_random(&trace, &seed, 20, 5);
        assert_ok(trace_multiply(&trace, 4, seeds[i], NULL));
        assert_int_equal(trace.requests_count, 80);
        times[i] = 0;
        for (size_t r = 0; r < 80; r++)
            times[i] = times[i] * 31 + trace.requests[r].at_ns;
        trace_fini(&trace);
    }
    assert_true(times[0] == times[1]);
    assert_true(times[0] != times[2]);
}

static void test_too_many_and_no_memory_change_nothing(void **state)
{
    struct trace trace;
    struct errinfo info = {0};
    struct fault fault = {0};

    (void)state;
    make_sessions(&trace);
    assert_err(trace_multiply(&trace, 1u << 30, 1, &info), ERR_LIMIT);
    fault_arm(&fault, 1, false);
    mem_set_fault(&fault);
    assert_err(trace_multiply(&trace, 2, 1, &info), ERR_NOMEM);
    mem_set_fault(NULL);
    assert_int_equal(trace.requests_count, 3);
    assert_int_equal(trace.sessions, 2);
    trace_fini(&trace);
}

TEST_SUITE(TEST(test_users_share_the_anchor_and_nothing_else),
           TEST(test_a_session_keeps_its_order_and_its_gaps), TEST(test_the_seed_decides),
           TEST(test_too_many_and_no_memory_change_nothing))
