/*
 * reuse_test.c: what a server computes, and what not, when prompts come again: as they were,
 * longer, changed, or several at a time; for every kind of state. tests/support/scenario.h checks
 * of every answer that its sums, the metrics and the log agree.
 *
 * WASTE is what was computed although it had been computed before. The last token of a prompt is
 * always computed, for its logits; that is all the waste there may be, and less than one token in a
 * hundred.
 */
#include <stdio.h>
#include <string.h>

#include "support/scenario.h"
#include "support/test.h"

enum {
    ANSWER = 8,
    SYSTEM_WORDS = 110, /* long enough that its snapshot is worth its bytes in every family */
    USER_WORDS = 30,
    HEAD_TOKENS = 8, /* of a message, before its text: the system prompt ends before them */
    BRANCHES = 4,
    LONG_WORDS = 900,
};

static struct talk opening(uint64_t seed)
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    talk_say(&talk, "user", talk_words(seed, USER_WORDS));
    return talk;
}

/* ---- A, A, B, A, B ---- */

static void check_repeats(const char *family)
{
    struct talk a = {0}, b = {0};
    struct scenario scenario;

    scenario_open(&scenario, family, "");
    talk_say(&a, "user", talk_words(10, 120));
    talk_say(&b, "user", talk_words(20, 120));
    uint32_t common = scenario_common(&scenario, &a, &b);
    struct scenario_answer cold = scenario_ask(&scenario, &a, ANSWER);
    assert_int_equal(cold.computed, cold.prompt);
    assert_int_equal(cold.generated, ANSWER);
    assert_int_equal(scenario_ask(&scenario, &a, ANSWER).computed, 1);
    struct scenario_answer other = scenario_ask(&scenario, &b, ANSWER);
    assert_true(other.reused <= common);
    assert_int_equal(scenario_ask(&scenario, &a, ANSWER).computed, 1);
    assert_int_equal(scenario_ask(&scenario, &b, ANSWER).computed, 1);
    /* In all dialects: the same tokens, all there. */
    for (enum scenario_dialect dialect = 0; dialect < SCENARIO_DIALECT_COUNT; dialect++) {
        struct scenario_answer answer = scenario_ask_as(&scenario, &a, ANSWER, dialect);
        assert_int_equal(answer.computed, 1);
        assert_int_equal(answer.prompt, cold.prompt);
    }
    assert_true((scenario.computed - cold.prompt - other.prompt) * 100 < scenario.prompt);
    scenario_close(&scenario);
}

/* ---- turns, regenerated ones, and another way from an old one ---- */

/* Four turns; returns the talk, which ends with an answer. What a turn adds is computed, and what
 * stood at the end of the last one is not. */
static struct talk take_turns(struct scenario *scenario, uint32_t stands[4])
{
    struct talk talk = {0};

    talk_say(&talk, "system", talk_words(1, SYSTEM_WORDS));
    for (uint64_t turn = 0; turn < 4; turn++) {
        talk_say(&talk, "user", talk_words(31 + turn, USER_WORDS));
        struct scenario_answer answer = scenario_ask(scenario, &talk, ANSWER);
        assert_true(answer.reused >= (turn > 0 ? stands[turn - 1] : 0));
        struct scenario_answer again = scenario_ask(scenario, &talk, ANSWER);
        assert_int_equal(again.computed, 1);
        stands[turn] = again.prompt + again.generated - 1; /* the last one was sampled, not run */
        talk_say(&talk, "assistant", again.text);
    }
    return talk;
}

static void check_turns(const char *family)
{
    struct scenario scenario;
    uint32_t stands[4];

    scenario_open(&scenario, family, "");
    struct talk talk = take_turns(&scenario, stands), branch = talk_head(&talk, 5);
    talk_say(&branch, "user", talk_words(39, USER_WORDS));
    struct scenario_answer other = scenario_ask(&scenario, &branch, ANSWER);
    assert_true(other.reused >= stands[1]);
    talk_say(&talk, "user", talk_words(38, USER_WORDS)); /* and the first way goes on */
    assert_true(scenario_ask(&scenario, &talk, ANSWER).reused >= stands[3]);
    scenario_close(&scenario);
}

/* ---- edits ---- */

/* State that can be cut is used up to the very token, any other up to the last snapshot, and there
 * is one at the end of the system prompt. */
static void check_edit(const char *family)
{
    struct talk talk = opening(40);
    struct scenario scenario;

    scenario_open(&scenario, family, "");
    talk_say(&talk, "assistant", talk_words(41, USER_WORDS));
    talk_say(&talk, "user", talk_words(42, USER_WORDS));
    struct talk other = opening(49), edited = talk_edit(&talk, 1, talk_words(43, USER_WORDS));
    uint32_t system = scenario_common(&scenario, &talk, &other);
    uint32_t same = scenario_common(&scenario, &talk, &edited);
    scenario_ask(&scenario, &talk, ANSWER);
    struct scenario_answer answer = scenario_ask(&scenario, &edited, ANSWER);
    assert_true(answer.reused <= same);
    if (scenario.cuttable)
        assert_int_equal(answer.reused, same);
    assert_true(answer.reused + HEAD_TOKENS >= system);
    assert_int_equal(answer.first_difference, same);
    /* Both ways are still there. */
    assert_int_equal(scenario_ask(&scenario, &talk, ANSWER).computed, 1);
    assert_int_equal(scenario_ask(&scenario, &edited, ANSWER).computed, 1);
    scenario_close(&scenario);
}

/* ---- four cold branches at once ---- */

static void check_branches(const char *family)
{
    struct http_client clients[BRANCHES];
    struct talk talks[BRANCHES];
    struct scenario scenario;
    uint32_t shared = UINT32_MAX;
    uint64_t needed = 0;

    scenario_open(&scenario, family, "");
    for (size_t i = 0; i < BRANCHES; i++)
        talks[i] = opening(50 + i);
    for (size_t i = 1; i < BRANCHES; i++) {
        uint32_t common = scenario_common(&scenario, &talks[0], &talks[i]);
        shared = common < shared ? common : shared;
    }
    for (size_t i = 0; i < BRANCHES; i++)
        serve_proc_send(&scenario.proc, &clients[i], scenario_path(SCENARIO_CHAT),
                        scenario_body(&talks[i], SCENARIO_CHAT, ANSWER, false));
    for (size_t i = 0; i < BRANCHES; i++) {
        struct scenario_answer answer = scenario_read(&scenario, &clients[i], SCENARIO_CHAT);
        needed += answer.prompt - (i > 0 ? shared : 0);
    }
    assert_true(scenario.computed >= needed - BRANCHES * HEAD_TOKENS);
    assert_true(scenario.computed <= needed + scenario.prompt / 100);
    scenario_close(&scenario);
}

/* Beyond the ring of a sliding cache, whose cells the branches share: all are answered, and none is
 * preempted for another. */
static void test_gemma3_long_branches(void **state)
{
    struct http_client clients[BRANCHES];
    struct scenario scenario;

    (void)state;
    scenario_open(&scenario, "gemma3", "-c 8192 --parallel 4 --ubatch-size 128");
    for (size_t i = 0; i < BRANCHES; i++) {
        struct talk talk = {0};
        talk_say(&talk, "system", talk_words(1, LONG_WORDS));
        talk_say(&talk, "user", talk_words(50 + i, USER_WORDS));
        serve_proc_send(&scenario.proc, &clients[i], scenario_path(SCENARIO_CHAT),
                        scenario_body(&talk, SCENARIO_CHAT, ANSWER, false));
    }
    for (size_t i = 0; i < BRANCHES; i++)
        assert_true(scenario_read(&scenario, &clients[i], SCENARIO_CHAT).prompt > 2500);
    assert_true(serve_proc_metric(&scenario.proc, "hearth_sched_forks_total") > 0);
    assert_true(serve_proc_metric(&scenario.proc, "hearth_sched_preempted_total") == 0);
    scenario_close(&scenario);
}

/* ---- text that a client removes a turn later ---- */

/* Reused in the second turn of a client that adds a span to its last message only. `common`: tokens
 * that both prompts begin with. */
static uint32_t reused_after_span(const char *family, const char *args, uint32_t *common)
{
    static const char *const span = "\n\n<environment_details>\n14,210 tokens used\n"
                                    "</environment_details>";
    const char *text = talk_words(61, SYSTEM_WORDS);
    struct talk first = {0}, second = {0};
    struct scenario scenario;
    static char with[SCENARIO_TEXT_BYTES];

    snprintf(with, sizeof(with), "%s%s", text, span);
    talk_say(&first, "system", talk_words(1, SYSTEM_WORDS));
    second = first;
    talk_say(&first, "user", with);
    talk_say(&second, "user", text);
    scenario_open(&scenario, family, args);
    talk_say(&second, "assistant", scenario_ask(&scenario, &first, ANSWER).text);
    talk_say(&second, "user", talk_words(62, USER_WORDS));
    *common = scenario_common(&scenario, &first, &second);
    uint32_t reused = scenario_ask(&scenario, &second, ANSWER).reused;
    assert_true(reused <= *common);
    scenario_close(&scenario);
    return reused;
}

/* Only the answer and what follows is computed, not the message before it. The tokens next to the
 * span depend on it: a few of them are computed as well. */
static void test_qwen35_span(void **state)
{
    enum { BESIDE = 3 };
    uint32_t common, same;

    (void)state;
    uint32_t reused = reused_after_span("qwen35", "", &common);
    assert_true(reused + BESIDE >= common);
    uint32_t without = reused_after_span("qwen35", "--keep-volatile transient-spans", &same);
    assert_int_equal(same, common);
    assert_true(without + SYSTEM_WORDS < common);
}

/* One test per family and check. Experts change nothing about where state can be cut: their
 * families go half of the way. */
#define DENSE(X)   X(qwen3) X(gemma3) X(qwen35)
#define EXPERTS(X) X(qwen3moe) X(qwen35moe)
#define TEST_OF(family, check)                        \
    static void test_##family##_##check(void **state) \
    {                                                 \
        (void)state;                                  \
        check_##check(#family);                       \
    }
#define HALF(family)          TEST_OF(family, repeats) TEST_OF(family, branches)
#define OTHER_HALF(family)    TEST_OF(family, turns) TEST_OF(family, edit)
#define HALF_ENTRIES(family)  TEST(test_##family##_repeats), TEST(test_##family##_branches),
#define OTHER_ENTRIES(family) TEST(test_##family##_turns), TEST(test_##family##_edit),

DENSE(HALF)
DENSE(OTHER_HALF)
EXPERTS(HALF)

TEST_SUITE(TEST(test_gemma3_long_branches), TEST(test_qwen35_span),
           DENSE(HALF_ENTRIES) DENSE(OTHER_ENTRIES) EXPERTS(HALF_ENTRIES))
