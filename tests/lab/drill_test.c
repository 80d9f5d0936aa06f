#include "base/drill.h"

#include <string.h>

#include "support/test.h"

/* Every fault has its own name, and an invariant. */
static void test_table(void **state)
{
    (void)state;
    assert_string_equal(drill_names[DRILL_NONE], "none");
    assert_int_equal(drill_invariant(DRILL_NONE), 0);
    for (int i = 1; i < DRILL_COUNT; i++) {
        assert_true(drill_invariant((enum drill)i) > 0 && drill_invariant((enum drill)i) <= 112);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(drill_names[i], drill_names[k]);
    }
    assert_null(drill_names[DRILL_COUNT]);
    assert_true(DRILL_COUNT > 10);
}

TEST_SUITE(TEST(test_table))
