#include "lab/trace.h"

#include "base/clock.h"
#include "base/mem.h"
#include "support/test.h"
#include "support/trace_kit.h"

static void test_a_number_stands_for_a_whole_prefix(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 0, "abc");
    trace_kit_add(&trace, 1, "abd");
    trace_kit_add(&trace, 2, "bbc");
    const struct trace_request *r = trace.requests;
    assert_int_equal(trace_id(&trace, &r[0], 1), trace_id(&trace, &r[1], 1));
    assert_int_not_equal(trace_id(&trace, &r[0], 2), trace_id(&trace, &r[1], 2));
    /* "b" and "c" behind something else are other blocks. */
    assert_int_not_equal(trace_id(&trace, &r[0], 1), trace_id(&trace, &r[2], 1));
    assert_int_not_equal(trace_id(&trace, &r[0], 2), trace_id(&trace, &r[2], 2));
    assert_int_equal(trace.ids_end, 3 + 1 + 3);
    trace_fini(&trace);
}

static void test_numbers_equal_those_of_a_list(void **state)
{
    uint64_t seed = test_seed();
    struct trace trace;

    (void)state;
    trace_kit_random(&trace, &seed, 300, 12);
    for (size_t a = 0; a < trace.requests_count; a++) {
        for (size_t b = 0; b < a; b++) {
            const struct trace_request *x = &trace.requests[a], *y = &trace.requests[b];
            bool equal = true;
            for (uint32_t i = 0; i < MIN(x->blocks, y->blocks); i++) {
                bool same = trace_id(&trace, x, i) == trace_id(&trace, y, i);
                assert_true(!same || equal); /* once apart, apart for ever */
                equal = same;
            }
        }
    }
    trace_fini(&trace);
}

static void test_sorting_keeps_equals_in_order_and_begins_at_zero(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 9, "a");
    trace_kit_add(&trace, 5, "ab");
    trace_kit_add(&trace, 5, "abc");
    trace_sort(&trace);
    assert_int_equal(trace.requests[0].blocks, 2);
    assert_int_equal(trace.requests[1].blocks, 3);
    assert_int_equal(trace.requests[2].blocks, 1);
    assert_int_equal(trace.requests[0].at_ns, 0);
    assert_int_equal(trace_sum(&trace).ns, 4 * NS_PER_S);
    assert_int_equal(trace_sum(&trace).blocks, 6);
    assert_int_equal(trace_sum(&trace).tokens, 24);
    trace_fini(&trace);
}

static void test_one_block_size_per_run(void **state)
{
    struct errinfo info = {0};
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_err(trace_set_block(&trace, 0, &info), ERR_INVALID);
    assert_ok(trace_set_block(&trace, 64, &info));
    assert_ok(trace_set_block(&trace, 64, &info));
    assert_err(trace_set_block(&trace, 512, &info), ERR_INVALID);
    assert_int_equal(trace.block_tokens, 64);
    trace_fini(&trace);
}

static void test_sessions_have_numbers_from_one(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    assert_int_equal(trace_session(&trace, 77), 1);
    assert_int_equal(trace_session(&trace, 78), 2);
    assert_int_equal(trace_session(&trace, 77), 1);
    assert_int_equal(trace.sessions, 2);
    trace_fini(&trace);
}

static void test_shift_spares_the_anchor(void **state)
{
    struct trace trace;

    (void)state;
    trace_init(&trace);
    trace_kit_add(&trace, 0, "abc");
    struct trace_request copy = trace.requests[0];
    copy.shift = 100;
    copy.anchor = 9; /* two whole blocks of four, and a token */
    assert_int_equal(trace_id(&trace, &copy, 1), trace_id(&trace, &trace.requests[0], 1));
    assert_int_equal(trace_id(&trace, &copy, 2), trace_id(&trace, &trace.requests[0], 2) + 100);
    trace_fini(&trace);
}

static void test_limits_are_kept(void **state)
{
    struct trace trace;
    struct trace_request request = {.tokens = TRACE_TOKENS_MAX + 1};

    (void)state;
    trace_init(&trace);
    assert_err(trace_add(&trace, &request, NULL), ERR_LIMIT);
    assert_int_equal(trace.requests_count, 0);
    trace_fini(&trace);
}

static void test_every_allocation_may_fail(void **state)
{
    uint64_t keys[2000];
    struct fault fault = {0};
    bool ok = false;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        keys[i] = i;
    struct trace_request request = {.tokens = 8000, .blocks = COUNT_OF(keys)};
    FAULT_LOOP (&fault) {
        struct trace trace;
        trace_init(&trace);
        mem_set_fault(&fault);
        enum err err = trace_add(&trace, &request, keys);
        mem_set_fault(NULL);
        ok = err == ERR_OK;
        assert_true(ok || err == ERR_NOMEM);
        assert_int_equal(trace.requests_count, ok);
        assert_ok(trace_add(&trace, &request, keys));
        assert_int_equal(trace.ids_end, COUNT_OF(keys));
        trace_fini(&trace);
    }
    assert_true(ok);
}

TEST_SUITE(TEST(test_a_number_stands_for_a_whole_prefix), TEST(test_numbers_equal_those_of_a_list),
           TEST(test_sorting_keeps_equals_in_order_and_begins_at_zero),
           TEST(test_one_block_size_per_run), TEST(test_sessions_have_numbers_from_one),
           TEST(test_shift_spares_the_anchor), TEST(test_limits_are_kept),
           TEST(test_every_allocation_may_fail))
