#include "sched/gen.h"

#include "support/test.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(gen_phase_name(GEN_QUEUED), "queued");
    assert_string_equal(gen_phase_name(GEN_FAILED), "failed");
    assert_string_equal(gen_phase_name(GEN_PHASE_COUNT), "unknown");
}

static void test_cancel_is_a_flag(void **state)
{
    struct gen gen = {0};

    (void)state;
    gen_cancel(&gen);
    gen_cancel(&gen);
    assert_true(atomic_load(&gen.cancelled));
}

TEST_SUITE(TEST(test_names), TEST(test_cancel_is_a_flag))
