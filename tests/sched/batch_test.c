/*
 * batch_test.c: how decoding and prefill share the time.
 */
#include "sched/gen.h"

#include "base/clock.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { CHUNK = 128, PROMPT = 16 * CHUNK, ANSWER = 100, TOKEN_NS = 1000 };

/* Whether an answer ends before a long prompt, begun at the same time, is computed. A chunk takes
 * as long as 32 steps of decoding. */
static bool answer_comes_first(const char *tenant)
{
    static struct kit_gen answer, prompt;
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = {.chunk = CHUNK,
                                       .context = 8192,
                                       .clock = clock,
                                       .prefill_ns = TOKEN_NS,
                                       .decode_ns = CHUNK / 32 * TOKEN_NS};
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, 0, &(struct sched_options){.parallel = 4, .clock = clock});
    kit_gen_init(&answer, &kit, 1, 8, ANSWER);
    kit_gen_init(&prompt, &kit, 2, PROMPT, 1);
    prompt.gen.tenant = tenant;
    kit_gen_run_both(&kit, &answer, &prompt, 3);
    assert_int_equal(answer.answer_count, ANSWER);
    bool first = answer.result.times.ended < prompt.result.times.first_token;
    kit_gen_fini(&answer);
    kit_gen_fini(&prompt);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
    return first;
}

/* With one step of decoding per chunk, only 16 tokens would be decoded by then. */
static void test_answers_get_time_of_their_own(void **state)
{
    (void)state;
    assert_true(answer_comes_first(NULL));
}

static void test_prompts_do_not_wait_for_answers_of_others(void **state)
{
    (void)state;
    assert_false(answer_comes_first("another"));
}

TEST_SUITE(TEST(test_answers_get_time_of_their_own),
           TEST(test_prompts_do_not_wait_for_answers_of_others))
