#include "lab/trace_sim.h"

#include <string.h>

#include <hearth/hearth.h>

#include "support/test.h"

static void test_presets_make_sense(void **state)
{
    (void)state;
    for (const struct cost *cost = cost_presets; cost->name != NULL; cost++) {
        assert_ptr_equal(cost_find(cost->name), cost); /* no name twice */
        assert_true(cost->kinds != 0 && cost->help != NULL);
        assert_true((cost->snapshot_bytes > 0) == cost_needs_snapshot(cost));
        assert_true((cost->rows_bytes_per_token > 0) == ((cost->kinds & HEARTH_KIND_FULL) != 0));
        assert_true(cost->prefill_tokens_per_s > 0 && cost->import_bytes_per_s > 0);
    }
    assert_null(cost_find("no such thing"));
}

static void test_seconds_are_bytes_and_tokens(void **state)
{
    struct cost cost = {.prefill_tokens_per_s = 100, .import_bytes_per_s = 1000};

    (void)state;
    assert_float_equal(cost_ttft_s(&cost, 500, 50), 1.0, 1e-9);
    cost.import_bytes_per_s = 0; /* not known: costs nothing */
    assert_float_equal(cost_ttft_s(&cost, 500, 50), 0.5, 1e-9);
}

TEST_SUITE(TEST(test_presets_make_sense), TEST(test_seconds_are_bytes_and_tokens))
