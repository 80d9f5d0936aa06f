/*
 * batch_test.c: how decoding and prefill share the time, and sets of adapters the engine; scores of
 * prompts.
 */
#include "sched/gen.h"

#include <string.h>

#include "base/clock.h"
#include "sched/sched_impl.h"
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

/* ---- log-probabilities of prompts ---- */

enum { HEAD = 50, SCORED = 250 };

struct scored {
    struct kit_gen gen; /* the first: its sinks get the address of it */
    float scores[HEAD + SCORED];
    size_t count;
};

static void on_scored(void *arg, const struct sample_pick *pick)
{
    struct scored *scored = arg;

    assert_true(scored->count + 1 < scored->gen.gen.tokens_count);
    assert_int_equal(pick->token, scored->gen.prompt[scored->count + 1]);
    scored->scores[scored->count++] = pick->logprob;
}

/* A prompt that ends with the answer of `from`. */
static void score_init(struct scored *scored, const struct sched_kit *kit,
                       const struct kit_gen *from, uint32_t max_tokens)
{
    *scored = (struct scored){0};
    kit_gen_init(&scored->gen, kit, (uint32_t)from->gen.id, HEAD + SCORED, max_tokens);
    memcpy(scored->gen.prompt + HEAD, from->answer, SCORED * sizeof(token_id));
    scored->gen.gen.score_prompt = scored->gen.gen.cache.no_read = true;
    scored->gen.gen.sink.scored = on_scored;
}

/* Each token has the probability that it had when it was sampled, and is reported once. */
static void expect_scores(const struct scored *scored, const struct kit_gen *from)
{
    assert_int_equal(scored->count, HEAD + SCORED - 1);
    assert_memory_equal(scored->scores + HEAD - 1, from->logprobs, SCORED * sizeof(float));
}

/* Alone, beside an answer, and with jobs that are preempted and begin again. */
static void test_prompts_are_scored(void **state)
{
    enum { JOBS = 2 };
    static struct kit_gen answers[JOBS], other;
    static struct scored scored[JOBS];
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = {
        .context = 1400, .clock = clock, .prefill_ns = TOKEN_NS, .decode_ns = TOKEN_NS};
    struct sched_kit kit;
    struct sched_stats stats;

    (void)state;
    sched_kit_open(&kit, &fake, 1 << 20, &(struct sched_options){.parallel = 4, .clock = clock});
    assert_true(engine_facts(kit.engine)->outputs < HEAD + SCORED);
    for (uint32_t i = 0; i < JOBS; i++) {
        kit_gen_init(&answers[i], &kit, i + 1, HEAD, SCORED);
        kit_gen_run(&kit, &answers[i]);
    }
    score_init(&scored[0], &kit, &answers[0], 1);
    kit_gen_run(&kit, &scored[0].gen);
    expect_scores(&scored[0], &answers[0]);
    kit_gen_fini(&scored[0].gen);
    score_init(&scored[1], &kit, &answers[1], 1);
    kit_gen_init(&other, &kit, 9, 8, 300);
    kit_gen_run_both(&kit, &other, &scored[1].gen, 10);
    expect_scores(&scored[1], &answers[1]);
    kit_gen_fini(&scored[1].gen);
    kit_gen_fini(&other);
    for (uint32_t i = 0; i < JOBS; i++)
        score_init(&scored[i], &kit, &answers[i], 500);
    kit_gen_run_both(&kit, &scored[0].gen, &scored[1].gen, 11);
    for (uint32_t i = 0; i < JOBS; i++) {
        expect_scores(&scored[i], &answers[i]);
        kit_gen_fini(&scored[i].gen);
        kit_gen_fini(&answers[i]);
    }
    sched_get_stats(kit.sched, &stats);
    assert_true(stats.preempted > 0 && stats.failed == 0);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* ---- adapters ---- */

enum { LORA_PROMPT = 400, LORA_FROM = 300, LORA_ANSWER = 40, RAM_BYTES = 1 << 22 };

/* 0 and 1 are always active, 2 from a token on that prompts of seeds do not have. */
static const struct lora_facts three = {
    .count = 3,
    .list = {{.digest = {{1}}},
             {.digest = {{2}}},
             {.digest = {{3}}, .invocation = {ENGINE_FAKE_TURN_BEGIN}, .invocation_count = 1}}};
static const struct lora_set none = {{0}}, first = {{1}}, half = {{0.5f}}, activated = {{0, 0, 1}};

static void init_with(struct kit_gen *gen, const struct sched_kit *kit, const struct lora_set *set,
                      uint32_t seed, bool invocation)
{
    kit_gen_init(gen, kit, seed, LORA_PROMPT, LORA_ANSWER);
    gen->gen.lora = set;
    if (invocation)
        gen->prompt[LORA_FROM] = ENGINE_FAKE_TURN_BEGIN;
}

/* The same by a scheduler that has computed nothing before. */
static void expect_cold(const struct kit_gen *gen, kind_set kinds)
{
    static struct kit_gen cold;
    struct sched_kit kit;

    sched_kit_open(&kit, &(struct engine_fake_options){.lora = &three, .kinds = kinds}, 0, NULL);
    kit_gen_init(&cold, &kit, (uint32_t)gen->gen.id, LORA_PROMPT, LORA_ANSWER);
    memcpy(cold.prompt, gen->prompt, sizeof(cold.prompt));
    cold.gen.lora = gen->gen.lora;
    kit_gen_run(&kit, &cold);
    kit_gen_expect_same(gen, &cold, false);
    kit_gen_fini(&cold);
    sched_kit_close(&kit);
}

/* Without a cache, nothing but the set tells the two apart on the device. */
static void test_sets_share_no_batch_and_no_state(void **state)
{
    static struct kit_gen gens[3];
    static const struct lora_set *const sets[] = {&first, &half, &none};
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &(struct engine_fake_options){.lora = &three}, 0,
                   &(struct sched_options){.parallel = 4});
    for (size_t i = 0; i < COUNT_OF(gens); i++)
        init_with(&gens[i], &kit, sets[i], 1, false);
    kit_gen_run_both(&kit, &gens[0], &gens[1], 2);
    kit_gen_run(&kit, &gens[2]);
    for (size_t i = 0; i < COUNT_OF(gens); i++) {
        expect_cold(&gens[i], 0);
        assert_int_equal(gens[i].result.usage.device, 0);
        assert_string_not_equal(gens[i].text, gens[(i + 1) % COUNT_OF(gens)].text);
        kit_gen_fini(&gens[i]);
    }
    sched_kit_close(&kit);
}

/* A prompt up to its invocation is the same for all activated adapters and for none. */
static void reuse_up_to_the_invocation(kind_set kinds)
{
    static struct kit_gen gens[4];
    struct sched_kit kit;

    sched_kit_open(&kit, &(struct engine_fake_options){.lora = &three, .kinds = kinds}, RAM_BYTES,
                   &(struct sched_options){.parallel = 1});
    for (size_t i = 0; i < COUNT_OF(gens); i++)
        init_with(&gens[i], &kit, i == 2 ? &none : &activated, 1, true);
    kit_gen_change(&gens[1], &kit, 2, LORA_FROM + 3);
    for (size_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_run(&kit, &gens[i]);
        expect_cold(&gens[i], kinds);
        uint32_t reused = LORA_PROMPT - gens[i].result.usage.computed;
        bool cuttable = kind_set_sliceable(kinds);
        assert_int_equal(reused, i == 0               ? 0
                                 : i == 3             ? LORA_PROMPT - 1
                                 : i == 1 && cuttable ? LORA_FROM + 3
                                                      : LORA_FROM);
    }
    assert_string_not_equal(gens[0].text, gens[2].text);
    assert_string_equal(gens[0].text, gens[3].text);
    for (size_t i = 0; i < COUNT_OF(gens); i++)
        kit_gen_fini(&gens[i]);
    sched_kit_close(&kit);
}

static void test_activated_adapters_continue_the_base(void **state)
{
    (void)state;
    reuse_up_to_the_invocation(KIND_BIT(KIND_FULL));
    reuse_up_to_the_invocation(KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT));
}

static void test_adapters_are_checked(void **state)
{
    static const struct lora_set many = {{0, 0, 0, 1}};
    static struct kit_gen gen;
    struct errinfo info = {0};
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &(struct engine_fake_options){.lora = &three}, 0, NULL);
    init_with(&gen, &kit, &many, 1, false);
    assert_err(sched_submit(kit.sched, &gen.gen, &info), ERR_INVALID);
    /* Without its invocation an adapter is not applied. */
    gen.gen.lora = &activated;
    kit_gen_run(&kit, &gen);
    gen.gen.lora = &none;
    expect_cold(&gen, 0);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* A device computes on after a run returns: speeds are learned from what a prompt takes as a whole,
 * whatever its length is. */
static void test_speeds_of_a_device_that_computes_on(void **state)
{
    static const uint32_t lengths[] = {CHUNK / 2, 2 * CHUNK, 3 * CHUNK + 7, PROMPT};
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = {.chunk = CHUNK,
                                       .context = 8192,
                                       .clock = clock,
                                       .prefill_ns = TOKEN_NS,
                                       .decode_ns = TOKEN_NS,
                                       .device_total = 1 << 30,
                                       .defers = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        static struct kit_gen gen;
        struct sched_kit kit;
        sched_kit_open(&kit, &fake, 0, &(struct sched_options){.clock = clock});
        kit_gen_init(&gen, &kit, 1, lengths[i], 3);
        kit_gen_run(&kit, &gen);
        double token_ns = cost_prompt_ns(&kit.sched->cost, lengths[i], CHUNK) / lengths[i];
        assert_uint_in_range((uint64_t)token_ns, TOKEN_NS * 9 / 10, TOKEN_NS * 11 / 10);
        kit_gen_fini(&gen);
        sched_kit_close(&kit);
    }
    clock_destroy_fake(&clock);
}

/* An export on the way waits for runs that the device still computes: its price is that of the copy
 * alone, or it seems too expensive ever after. */
static void test_exports_are_not_charged_for_runs(void **state)
{
    enum { KIB_NS = 1000, ROW = 32 << 10, PIECE = 64 * ROW };
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = {.chunk = CHUNK,
                                       .context = 8192,
                                       .kinds = 1,
                                       .rows_bytes = ROW,
                                       .clock = clock,
                                       .prefill_ns = NS_PER_MS,
                                       .kib_ns = KIB_NS,
                                       .device_total = 1 << 30,
                                       .defers = true};
    struct store_piece piece = {.bytes = PIECE};
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, 400 << 20, &(struct sched_options){.clock = clock});
    kit_gen_init(&gen, &kit, 1, SCHED_STORE_EVERY + 1, 3);
    kit_gen_run(&kit, &gen);
    assert_uint_in_range((uint64_t)store_cost_ns(&kit.sched->store_cost, &piece),
                         PIECE / 1024 * KIB_NS * 9 / 10, PIECE / 1024 * KIB_NS * 11 / 10);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

TEST_SUITE(TEST(test_answers_get_time_of_their_own), TEST(test_speeds_of_a_device_that_computes_on),
           TEST(test_exports_are_not_charged_for_runs),
           TEST(test_prompts_do_not_wait_for_answers_of_others),
           TEST(test_sets_share_no_batch_and_no_state),
           TEST(test_activated_adapters_continue_the_base), TEST(test_adapters_are_checked),
           TEST(test_prompts_are_scored))
