#include "tier/tier.h"

#include <string.h>

#include "support/test.h"

static void test_results_have_names_of_their_own(void **state)
{
    (void)state;
    assert_string_equal(tier_result_name(TIER_OK), "ok");
    assert_string_equal(tier_result_name(TIER_CANCELLED), "cancelled");
    for (int a = 0; a < TIER_RESULT_COUNT; a++)
        for (int b = 0; b < a; b++)
            assert_string_not_equal(tier_result_name((enum tier_result)a),
                                    tier_result_name((enum tier_result)b));
    assert_string_equal(tier_result_name(TIER_RESULT_COUNT), "unknown");
    assert_string_equal(tier_result_name((enum tier_result) - 1), "unknown");
}

static void test_closing_nothing_is_allowed(void **state)
{
    struct tier *tier = NULL;

    (void)state;
    tier_close(&tier);
    assert_null(tier);
}

TEST_SUITE(TEST(test_results_have_names_of_their_own), TEST(test_closing_nothing_is_allowed))
