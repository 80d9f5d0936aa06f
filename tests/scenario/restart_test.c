/*
 * restart_test.c: what a server still has after it ended, in good order or as in a power cut: with
 * a disk, what was computed; with or without one, the tokens of its own turns.
 *
 * The tests with a disk are skipped where the banner says that there is none, whatever --ssd-dir
 * asked for: a folder that cannot be used.
 */
#include <stdio.h>
#include <string.h>

#include "support/scenario.h"
#include "support/test.h"

enum { ANSWER = 8, SYSTEM_WORDS = 110, USER_WORDS = 30 };

static struct talk opening(void)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    talk_say(&talk, "user", talk_words(2, USER_WORDS));
    return talk;
}

static void open_with_disk(struct scenario *scenario, const char *family, const char *more)
{
    char args[1024];

    snprintf(args, sizeof(args), "--ssd-dir %s/ssd --ssd-max 256MiB --ssd-free 1MiB %s", test_dir(),
             more);
    scenario_open(scenario, family, args);
    struct buf banner = serve_proc_banner(&scenario->proc);
    bool none = strstr(buf_str(&banner), "SSD none") != NULL;
    buf_fini(&banner);
    if (none)
        TEST_SKIP("the server has no SSD tier here: its banner says none to --ssd-dir");
}

/* ---- with a disk ---- */

/* After a good end all is there, down to the one token that is always computed; twice, since what
 * was read must stay. The talk goes on from the end of the answer. */
static void check_in_order(const char *family)
{
    struct talk talk = opening();
    struct scenario scenario;

    open_with_disk(&scenario, family, "");
    struct scenario_answer first = scenario_ask(&scenario, &talk, ANSWER);
    for (int i = 0; i < 2; i++) {
        scenario_restart(&scenario, true);
        struct scenario_answer answer = scenario_ask(&scenario, &talk, ANSWER);
        assert_int_equal(answer.computed, 1);
        assert_true(answer.ssd > 0);
    }
    scenario_restart(&scenario, true);
    talk_say(&talk, "assistant", first.text);
    talk_say(&talk, "user", talk_words(3, USER_WORDS));
    assert_true(scenario_ask(&scenario, &talk, ANSWER).reused >= first.prompt + ANSWER - 1);
    scenario_close(&scenario);
}

/* After a power cut whatever is there is right, and the rest is computed again: the text is the
 * same to the letter. */
static void check_power_cut(const char *family)
{
    struct talk talk = opening();
    struct scenario scenario;

    open_with_disk(&scenario, family, "--exact");
    struct scenario_answer cold = scenario_ask(&scenario, &talk, ANSWER);
    for (int i = 0; i < 2; i++) {
        scenario_restart(&scenario, false);
        struct scenario_answer answer = scenario_ask(&scenario, &talk, ANSWER);
        assert_int_equal(answer.prompt, cold.prompt);
        assert_string_equal(answer.text, cold.text);
    }
    scenario_close(&scenario);
}

/* ---- without ---- */

/* Turns are remembered from start to start; state is not, and nothing says that it were. */
static void check_turns(const char *family, bool in_order)
{
    struct talk talk = opening();
    struct scenario scenario;

    scenario_open(&scenario, family, "");
    struct scenario_answer first = scenario_ask(&scenario, &talk, ANSWER);
    struct talk next = talk;
    talk_say(&next, "assistant", first.text);
    talk_say(&next, "user", talk_words(3, USER_WORDS));
    assert_int_equal(scenario_recalled(&scenario, &next), 1);
    scenario_restart(&scenario, in_order);
    assert_int_equal(scenario_recalled(&scenario, &next), in_order ? 1 : 0);
    struct scenario_answer cold = scenario_ask(&scenario, &next, ANSWER);
    assert_int_equal(cold.computed, cold.prompt);
    /* The question before is a part of what was computed now. */
    if (scenario.cuttable)
        assert_int_equal(scenario_ask(&scenario, &talk, ANSWER).computed, 1);
    scenario_close(&scenario);
}

static void test_turns_survive_a_good_end(void **state)
{
    (void)state;
    check_turns("qwen3", true);
}

static void test_a_power_cut_harms_nothing(void **state)
{
    (void)state;
    check_turns("qwen3", false);
}

#define FAMILIES(X) X(qwen3) X(gemma3) X(qwen35)
#define TEST_OF(family, check)                        \
    static void test_##family##_##check(void **state) \
    {                                                 \
        (void)state;                                  \
        check_##check(#family);                       \
    }
#define TESTS(family)   TEST_OF(family, in_order) TEST_OF(family, power_cut)
#define ENTRIES(family) TEST(test_##family##_in_order), TEST(test_##family##_power_cut),

FAMILIES(TESTS)

TEST_SUITE(FAMILIES(ENTRIES) TEST(test_turns_survive_a_good_end),
           TEST(test_a_power_cut_harms_nothing))
