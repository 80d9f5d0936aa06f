#include "lab/trace.h"

#include "base/mem.h"
#include "support/test.h"
#include "support/trace_kit.h"

enum { IDS_MAX = 14 };

/* What a set of places saves, less their price. */
static int64_t value_of(const struct trace *trace, uint32_t set, uint64_t price)
{
    uint32_t seen = 0;
    int64_t value = -(int64_t)price * __builtin_popcount(set);

    for (size_t r = 0; r < trace->requests_count; r++) {
        const struct trace_request *request = &trace->requests[r];
        uint32_t saved = 0;
        for (uint32_t i = 0; i < request->blocks; i++)
            if (set & seen & 1u << trace_id(trace, request, i))
                saved = (i + 1) * trace->block_tokens;
        for (uint32_t i = 0; i < request->blocks; i++)
            seen |= 1u << trace_id(trace, request, i);
        value += saved;
    }
    return value;
}

static void test_equals_the_best_of_all_sets(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 40; round++) {
        struct trace trace;
        struct place_result result;
        trace_kit_random(&trace, &seed, 10, 3);
        assert_true(trace.ids_end <= IDS_MAX);
        for (uint64_t price = 0; price <= 24; price += 6) {
            int64_t best = 0;
            for (uint32_t set = 0; set < 1u << trace.ids_end; set++)
                best = MAX(best, value_of(&trace, set, price));
            assert_ok(place_best(&trace, price, &result));
            assert_int_equal((int64_t)result.tokens_saved - (int64_t)(price * result.snapshots),
                             best);
        }
        trace_fini(&trace);
    }
}

static void test_one_place_serves_many(void **state)
{
    struct trace trace;
    struct place_result result;

    (void)state;
    trace_init(&trace);
    for (int i = 0; i < 5; i++) {
        char text[] = "Sxyz?";
        text[4] = (char)('0' + i);
        trace_kit_add(&trace, (uint64_t)i, text);
    }
    assert_ok(place_best(&trace, 1, &result));
    assert_int_equal(result.snapshots, 1);
    assert_int_equal(result.tokens_saved, 4 * 16);
    assert_ok(place_best(&trace, 65, &result)); /* more than it saves */
    assert_int_equal(result.snapshots, 0);
    assert_int_equal(result.tokens_saved, 0);
    trace_fini(&trace);
}

static void test_every_allocation_may_fail(void **state)
{
    uint64_t seed = 1;
    struct trace trace;
    struct place_result result;
    struct fault fault = {0};
    enum err err = ERR_NOMEM;

    (void)state;
    trace_kit_random(&trace, &seed, 40, 8);
    FAULT_LOOP (&fault) {
        mem_set_fault(&fault);
        err = place_best(&trace, 4, &result);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || err == ERR_NOMEM);
    }
    assert_ok(err);
    trace_fini(&trace);
}

TEST_SUITE(TEST(test_equals_the_best_of_all_sets), TEST(test_one_place_serves_many),
           TEST(test_every_allocation_may_fail))
