/*
 * again_test.c: which share of the state of ended jobs is used again is learned from prompts.
 */
#include "sched/again.h"

#include "support/test.h"

enum { PROMPT = 400, LONGER = 900 };

static token_id tokens[LONGER];
static const int owner, other_owner;

/* A conversation of its own per seed; a longer prompt continues a shorter one. */
static const token_id *text(uint32_t seed)
{
    for (uint32_t i = 0; i < LONGER; i++)
        tokens[i] = (token_id)(seed * 7919U + i * (seed % 97 + 3));
    return tokens;
}

static void end(struct again *again, uint32_t seed)
{
    again_ended(again, &owner, text(seed), 0, PROMPT);
}

static void submit(struct again *again, uint32_t seed)
{
    again_submitted(again, &owner, text(seed), LONGER);
}

static unsigned per_mille(const struct again *again)
{
    return (unsigned)(again_factor(again) * 1000 + 0.5);
}

static void test_nothing_is_known_at_first(void **state)
{
    struct again again = {0};

    (void)state;
    assert_int_equal(per_mille(&again), 1000);
    for (uint32_t i = 0; i < AGAIN_LATE_MIN; i++) /* the prompts that use them may still come */
        end(&again, i);
    assert_int_equal(per_mille(&again), 1000);
}

static void test_unrelated_requests(void **state)
{
    struct again again = {0};

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        submit(&again, i);
        end(&again, i);
    }
    assert_uint_in_range(per_mille(&again), 125, 150);
}

static void test_turns(void **state)
{
    struct again again = {0};

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        end(&again, i);
        submit(&again, i);
    }
    assert_int_equal(per_mille(&again), 4000);
    for (uint32_t i = 1000; i < 1400; i++) /* and what changes is learned */
        end(&again, i);
    assert_true(per_mille(&again) < 200);
}

/* Many clients take turns, so that more requests are between two of one conversation. */
static void test_a_crowd_takes_longer(void **state)
{
    struct again again = {0};

    (void)state;
    again_crowd(&again, 12);
    for (uint32_t i = 0; i < 12 * AGAIN_LATE_EACH; i++)
        end(&again, i);
    assert_int_equal(per_mille(&again), 1000);
    for (uint32_t i = 0; i < 400; i++) /* they are gone */
        again_crowd(&again, 1);
    end(&again, 99);
    assert_true(per_mille(&again) < 300);
}

/* A prompt that comes late corrects the count. */
static void test_late_prompts(void **state)
{
    struct again again = {0};

    (void)state;
    for (uint32_t i = 0; i < AGAIN_SAMPLES; i++)
        end(&again, i);
    unsigned before = per_mille(&again);
    assert_true(before < 300);
    for (uint32_t i = 0; i < AGAIN_SAMPLES; i++)
        submit(&again, i);
    assert_true(per_mille(&again) > 3000);
}

static void expect_used(struct again *again, bool used)
{
    assert_int_equal(per_mille(again) > 1000, used);
}

static void test_what_counts_as_used(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct again again = {0};
        /* the middle of what was computed: tokens 320 to 352 */
        again_ended(&again, &owner, text(1), 304, PROMPT);
        again_submitted(&again, i == 0 ? &other_owner : &owner, text(i == 1 ? 2 : 1),
                        i == 2   ? 351
                        : i == 3 ? 352
                                 : LONGER);
        expect_used(&again, i >= 3);
        unsigned once = per_mille(&again);
        submit(&again, 1); /* once per sample */
        if (i >= 3)
            assert_int_equal(per_mille(&again), once);
    }
}

static void test_too_few_tokens_are_no_sample(void **state)
{
    struct again again = {0};

    (void)state;
    again_ended(&again, &owner, text(1), PROMPT - 2 * AGAIN_TOKENS + 1, PROMPT);
    submit(&again, 1);
    expect_used(&again, false);
    again_ended(&again, &owner, text(1), PROMPT - 2 * AGAIN_TOKENS, PROMPT);
    submit(&again, 1);
    expect_used(&again, true);
}

TEST_SUITE(TEST(test_nothing_is_known_at_first), TEST(test_unrelated_requests), TEST(test_turns),
           TEST(test_a_crowd_takes_longer), TEST(test_late_prompts), TEST(test_what_counts_as_used),
           TEST(test_too_few_tokens_are_no_sample))
