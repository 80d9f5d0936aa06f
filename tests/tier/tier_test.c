#include "tier/tier.h"

#include <string.h>

#include "support/test.h"
#include "support/tier_suite.h"

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

struct asked {
    struct tier_answer answer;
    enum tier_result result;
};

static void answer_later(void *arg)
{
    struct asked *asked = arg;

    tier_answer_done(asked->result, &asked->answer);
}

/* Before or after the wait begins, and one after another. */
static void test_answers_are_waited_for(void **state)
{
    struct asked asked;

    (void)state;
    tier_answer_init(&asked.answer);
    for (int i = 0; i < TIER_RESULT_COUNT; i++) {
        struct thread thread = {0};
        asked.result = (enum tier_result)i;
        tier_answer_done(TIER_OK, &asked.answer);
        assert_int_equal(tier_answer_wait(&asked.answer), TIER_OK);
        assert_ok(thread_start(&thread, "answer", answer_later, &asked, NULL));
        assert_int_equal(tier_answer_wait(&asked.answer), i);
        thread_join(&thread);
    }
    tier_answer_fini(&asked.answer);
}

TEST_SUITE(TEST(test_answers_are_waited_for), TEST(test_results_have_names_of_their_own),
           TEST(test_closing_nothing_is_allowed))
