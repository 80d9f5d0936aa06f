/*
 * drafts_test.c: answers whose tokens are guessed and verified in one batch: the same tokens, the
 * same probabilities and the same state as without, in fewer runs; and no guess comes from another
 * tenant's text.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { RAM = 1 << 20, PROMPT = 60, ANSWER = 100, DRAFTS = 8 };

static const struct sched_options with_drafts = {.park = true, .drafts = DRAFTS};
static const struct sched_options without = {.park = true};

static void open_fake(struct sched_kit *kit, const struct sched_options *options)
{
    sched_kit_open(kit, &(struct engine_fake_options){0}, RAM, options);
}

static struct sched_stats stats_of(struct sched_kit *kit)
{
    struct sched_stats stats;

    assert_ok(sched_wait_turn(kit->sched, 10000, NULL));
    sched_get_stats(kit->sched, &stats);
    return stats;
}

/* An answer and the same again, whose tokens are known by then. */
static void run_twice(struct sched_kit *kit, struct kit_gen *first, struct kit_gen *again,
                      uint32_t seed)
{
    kit_gen_init(first, kit, seed, PROMPT, ANSWER);
    kit_gen_init(again, kit, seed, PROMPT, ANSWER);
    kit_gen_run(kit, first);
    kit_gen_run(kit, again);
}

/* ---- where guesses come from ---- */

/* All but the first token and the last ones are guessed, from a sequence on the device or, without
 * that, from the cache. */
static void test_an_answer_is_guessed_when_it_comes_again(void **state)
{
    static struct kit_gen first, again;

    (void)state;
    for (int park = 0; park < 2; park++) {
        struct sched_options options = with_drafts;
        struct sched_kit kit;
        options.park = park;
        open_fake(&kit, &options);
        run_twice(&kit, &first, &again, 1);
        kit_gen_expect_same(&first, &again, true);
        assert_int_equal(first.answer_count, ANSWER);
        assert_true(again.result.usage.accepted >= ANSWER - ANSWER / DRAFTS - 2);
        assert_true(again.result.usage.drafted - again.result.usage.accepted <= DRAFTS);
        struct sched_stats stats = stats_of(&kit);
        assert_true(stats.turns < ANSWER + ANSWER / 3);
        assert_int_equal(stats.drafted, first.result.usage.drafted + again.result.usage.drafted);
        assert_int_equal(stats.accepted, first.result.usage.accepted + again.result.usage.accepted);
        assert_int_equal(stats.decode_tokens, 2 * ANSWER - 2);
        sched_kit_close(&kit);
        kit_gen_fini(&first);
        kit_gen_fini(&again);
    }
}

/* The conversation went on before its first answer comes again. Sequences stay on the device; or
 * only the cache has them; or the device has cells for one of them only. */
static void test_a_branch_is_guessed(void **state)
{
    static const uint32_t contexts[] = {0, 0, 2 * PROMPT + 2 * ANSWER + 256};
    static struct kit_gen first, next, again;
    token_id longer[PROMPT + ANSWER + 1];

    (void)state;
    for (int how = 0; how < 3; how++) {
        struct sched_options options = with_drafts;
        struct sched_kit kit;
        options.park = how != 1;
        sched_kit_open(&kit, &(struct engine_fake_options){.context = contexts[how]}, RAM,
                       &options);
        kit_gen_init(&first, &kit, 9, PROMPT, ANSWER);
        kit_gen_run(&kit, &first);
        memcpy(longer, first.prompt, PROMPT * sizeof(*longer));
        memcpy(longer + PROMPT, first.answer, ANSWER * sizeof(*longer));
        longer[PROMPT + ANSWER] = 'x';
        kit_gen_init(&next, &kit, 9, PROMPT, ANSWER);
        next.gen.tokens = longer;
        next.gen.tokens_count = COUNT_OF(longer);
        next.gen.marks_count = 0;
        kit_gen_run(&kit, &next);
        kit_gen_init(&again, &kit, 9, PROMPT, ANSWER);
        kit_gen_run(&kit, &again);
        kit_gen_expect_same(&first, &again, true);
        assert_true(again.result.usage.accepted >= ANSWER - ANSWER / DRAFTS - 2);
        sched_kit_close(&kit);
        kit_gen_fini(&first);
        kit_gen_fini(&next);
        kit_gen_fini(&again);
    }
}

/* The client's text, with errors in it. */
static void test_a_prediction_is_used(void **state)
{
    static struct kit_gen first, again;
    struct sched_kit kit, plain;

    (void)state;
    open_fake(&plain, &without);
    open_fake(&kit, &with_drafts);
    kit_gen_init(&first, &plain, 2, PROMPT, ANSWER);
    kit_gen_init(&again, &kit, 2, PROMPT, ANSWER);
    kit_gen_run(&plain, &first);
    token_id prediction[ANSWER];
    memcpy(prediction, first.answer, sizeof(prediction));
    prediction[ANSWER / 2] ^= 1;
    prediction[ANSWER / 4] = INT32_MAX; /* no token: it must not reach the engine */
    again.gen.prediction = prediction;
    again.gen.prediction_count = ANSWER;
    kit_gen_run(&kit, &again);
    kit_gen_expect_same(&first, &again, true);
    assert_int_equal(first.result.usage.drafted, 0);
    assert_true(again.result.usage.accepted > ANSWER / 2); /* also after the errors */
    sched_kit_close(&kit);
    sched_kit_close(&plain);
    kit_gen_fini(&first);
    kit_gen_fini(&again);
}

/* The same prompt by another tenant, by one that reads nothing, and by one that is isolated. */
static void test_walls_between_tenants_hold(void **state)
{
    static struct kit_gen first, other;
    struct sched_kit kit;

    (void)state;
    for (int how = 0; how < 4; how++) {
        struct hearth_space *space = NULL;
        struct hearth_model model = {.struct_size = sizeof(model), .kinds = HEARTH_KIND_FULL};
        open_fake(&kit, &with_drafts);
        assert_int_equal(hearth_space_open(kit.cache, &model, "other", 0, &space), HEARTH_OK);
        kit_gen_init(&first, &kit, 3, PROMPT, ANSWER);
        kit_gen_init(&other, &kit, 3, PROMPT, ANSWER);
        kit_gen_run(&kit, &first);
        if (how == 0) {
            other.gen.space = space;
            other.gen.tenant = "other";
        } else if (how == 1) {
            other.gen.cache.no_read = true;
        } else if (how == 2) {
            other.gen.space = NULL;
            other.gen.cache.isolated = true;
        }
        kit_gen_run(&kit, &other);
        kit_gen_expect_same(&first, &other, true);
        /* A few guesses come from the answer itself. */
        assert_int_equal(other.result.usage.accepted > ANSWER / 2, how == 3);
        sched_destroy(&kit.sched);
        hearth_space_close(&space);
        sched_kit_close(&kit);
        kit_gen_fini(&first);
        kit_gen_fini(&other);
    }
}

/* ---- nothing changes ---- */

static void vary(struct kit_gen *gen, uint64_t *seed)
{
    struct sample_params *sample = &gen->gen.sample;

    sample->temperature = test_random_below(seed, 3) == 0 ? 0 : 4.0f;
    sample->seed = test_random(seed) >> 1;
    sample->top_k = test_random_below(seed, 2) ? 20 : 0;
    sample->penalty_repeat = test_random_below(seed, 2) ? 1.3f : 1.0f;
    sample->logprobs = test_random_below(seed, 2) ? 3 : 0;
    sample->grammar = test_random_below(seed, 3) == 0 ? "root ::= [a-f ]+" : NULL;
    gen->gen.max_tokens = 1 + (uint32_t)test_random_below(seed, ANSWER);
    gen->enough = test_random_below(seed, 3) == 0 ? 1 + test_random_below(seed, 40) : 0;
}

/* A prediction that is right for some tokens and wrong for others. */
static void predict(struct kit_gen *gen, const struct kit_gen *from, token_id *prediction,
                    uint64_t *seed)
{
    for (size_t i = 0; i < from->answer_count; i++)
        prediction[i] = test_random_below(seed, 8) == 0 ? (token_id)test_random_below(seed, 256)
                                                        : from->answer[i];
    gen->gen.prediction = prediction;
    gen->gen.prediction_count = (uint32_t)from->answer_count;
}

/* Random settings: every token, probability and text as without drafts; then a prompt that
 * continues the answer, so that a wrong row would show. */
static void compare_without_drafts(const struct engine_fake_options *fake, uint32_t rounds)
{
    static struct kit_gen off, on;
    token_id prediction[ANSWER];
    uint64_t seed = test_seed(), accepted = 0, rejected = 0;
    struct sched_kit plain, kit;

    sched_kit_open(&plain, fake, RAM, &without);
    sched_kit_open(&kit, fake, RAM, &with_drafts);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t settings = test_random(&seed), copy = settings;
        kit_gen_init(&off, &plain, 100 + round % 40, PROMPT, ANSWER);
        kit_gen_init(&on, &kit, 100 + round % 40, PROMPT, ANSWER);
        vary(&off, &settings);
        vary(&on, &copy);
        kit_gen_run(&plain, &off);
        predict(&on, &off, prediction, &seed);
        kit_gen_run(&kit, &on);
        kit_gen_expect_same(&off, &on, true);
        assert_string_equal(off.text, on.text);
        assert_int_equal(off.result.end, on.result.end);
        assert_int_equal(on.result.usage.generated, off.result.usage.generated);
        accepted += on.result.usage.accepted;
        rejected += on.result.usage.drafted - on.result.usage.accepted;
        /* the next turn */
        struct kit_gen *turns[] = {&off, &on};
        token_id longer[PROMPT + ANSWER + 1];
        uint32_t count = PROMPT + (uint32_t)off.answer_count;
        memcpy(longer, off.prompt, PROMPT * sizeof(*longer));
        memcpy(longer + PROMPT, off.answer, off.answer_count * sizeof(*longer));
        longer[count++] = 'x';
        for (int i = 0; i < 2; i++) {
            struct sched_kit *at = i == 0 ? &plain : &kit;
            kit_gen_fini(turns[i]);
            kit_gen_init(turns[i], at, 1, PROMPT, 5);
            turns[i]->gen.tokens = longer;
            turns[i]->gen.tokens_count = count;
            turns[i]->gen.marks_count = 0;
            kit_gen_run(at, turns[i]);
        }
        kit_gen_expect_same(&off, &on, true);
        kit_gen_fini(&off);
        kit_gen_fini(&on);
    }
    assert_true(accepted > 3 * rounds && rejected > 3 * rounds);
    sched_kit_close(&kit);
    sched_kit_close(&plain);
}

static void test_answers_and_state_are_those_without_drafts(void **state)
{
    (void)state;
    compare_without_drafts(&(struct engine_fake_options){.end_one_in = 100}, 150);
}

/* Of state that cannot be cut, only what the last run appended is removed. */
static void test_the_same_of_windows_and_recurrent_state(void **state)
{
    static const kind_set kinds[] = {KIND_BIT(KIND_SLIDING), KIND_BIT(KIND_RECURRENT)};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        compare_without_drafts(
            &(struct engine_fake_options){
                .kinds = KIND_BIT(KIND_FULL) | kinds[i], .rollback = 5, .end_one_in = 100},
            60);
}

/* Other seeds with and without drafts: the tokens at a place have the same distribution. The limit
 * is that of one wrong alarm in a million, and the seeds are fixed. */
static void test_samples_have_the_same_distribution(void **state)
{
    enum { RUNS = 1500, KINDS = 8, PLACE = 2 };
    static struct kit_gen gen;
    double seen[2][KINDS] = {{0}}, chi = 0;
    token_id first[PLACE + 1] = {0};

    (void)state;
    for (int on = 0; on < 2; on++) {
        struct sched_kit kit;
        open_fake(&kit, on ? &with_drafts : &without);
        uint64_t accepted = 0, drafted = 0;
        for (uint32_t run = 0; run < RUNS; run++) {
            kit_gen_init(&gen, &kit, 4, PROMPT, PLACE + 1);
            gen.gen.sample.temperature = 3;
            gen.gen.sample.top_k = 6;
            gen.gen.sample.seed = run + (on ? 1000000u : 1u);
            gen.gen.prediction = first;
            gen.gen.prediction_count = on ? PLACE + 1 : 0;
            kit_gen_run(&kit, &gen);
            if (run == 0 && !on)
                memcpy(first, gen.answer, sizeof(first));
            if (gen.answer_count == PLACE + 1)
                seen[on][(uint32_t)gen.answer[PLACE] * 2654435761u >> 29]++;
            accepted += gen.result.usage.accepted;
            drafted += gen.result.usage.drafted;
            kit_gen_fini(&gen);
        }
        assert_int_equal(accepted > 100 && drafted > 2 * accepted / 2 + 100, on);
        sched_kit_close(&kit);
    }
    for (int i = 0; i < KINDS; i++)
        if (seen[0][i] + seen[1][i] > 0)
            chi +=
                (seen[0][i] - seen[1][i]) * (seen[0][i] - seen[1][i]) / (seen[0][i] + seen[1][i]);
    assert_true(chi < 40); /* 7 degrees of freedom: 1.2e-6 */
}

/* Several answers at once, each with its own text to follow. */
static void run_streams(const struct engine_fake_options *fake, bool accepted)
{
    enum { STREAMS = 8 };
    static struct kit_gen off[STREAMS], on[STREAMS];
    static token_id texts[STREAMS][ANSWER];
    struct sched_kit plain, kit;

    sched_kit_open(&plain, fake, RAM, &without);
    sched_kit_open(&kit, fake, RAM, &(struct sched_options){.park = true, .drafts = 32});
    for (uint32_t i = 0; i < STREAMS; i++) {
        kit_gen_init(&off[i], &plain, 200 + i, PROMPT, ANSWER);
        kit_gen_run(&plain, &off[i]);
        kit_gen_init(&on[i], &kit, 200 + i, PROMPT, ANSWER);
        for (uint32_t k = 0; k < ANSWER; k++) /* some of it is wrong */
            texts[i][k] = off[i].answer[k % 20 == 19 ? 0 : k];
        on[i].gen.prediction = texts[i];
        on[i].gen.prediction_count = ANSWER;
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        kit_gen_submit(&kit, &on[i]);
    for (uint32_t i = 0; i < STREAMS; i++) {
        kit_gen_wait(&on[i]);
        kit_gen_expect_same(&off[i], &on[i], true);
        assert_true(!accepted || on[i].result.usage.accepted > ANSWER / 2);
        kit_gen_fini(&off[i]);
        kit_gen_fini(&on[i]);
    }
    sched_kit_close(&kit);
    sched_kit_close(&plain);
}

static void test_many_streams(void **state)
{
    (void)state;
    run_streams(&(struct engine_fake_options){0}, true);
}

/* Recurrent state cannot be rolled back after a batch with others: guesses are for answers that are
 * alone. */
static void test_many_streams_of_recurrent_state(void **state)
{
    (void)state;
    run_streams(
        &(struct engine_fake_options){.kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT),
                                      .rollback = 8},
        false);
}

/* ---- where there are none ---- */

static void test_no_drafts_where_state_cannot_be_truncated(void **state)
{
    static const kind_set kinds[] = {KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT),
                                     KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING),
                                     KIND_BIT(KIND_FULL)};
    static struct kit_gen first, again;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct sched_options options = {.drafts = DRAFTS, .exact = i == 2};
        struct sched_kit kit;
        sched_kit_open(&kit, &(struct engine_fake_options){.kinds = kinds[i]}, RAM, &options);
        run_twice(&kit, &first, &again, 5);
        kit_gen_expect_same(&first, &again, true);
        assert_int_equal(again.result.usage.drafted, 0);
        assert_non_null(strstr(sched_no_drafts(kit.sched), i == 2 ? "--exact" : "roll back"));
        sched_kit_close(&kit);
        kit_gen_fini(&first);
        kit_gen_fini(&again);
    }
}

/* By measured costs: long drafts when a token more costs next to nothing, none when it costs as
 * much as a run of its own, or more. */
static void test_costs_decide(void **state)
{
    static struct kit_gen first, again;

    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
        struct engine_fake_options fake = {
            .clock = clock, .decode_ns = 1000, .prefill_ns = dear ? 3000 : 100};
        struct sched_options options = {.park = true, .drafts = SCHED_DRAFTS_AUTO, .clock = clock};
        struct sched_kit kit;
        sched_kit_open(&kit, &fake, RAM, &options);
        run_twice(&kit, &first, &again, 6);
        kit_gen_expect_same(&first, &again, true);
        /* three tries teach the price of a width */
        assert_int_equal(again.result.usage.accepted > ANSWER / 2, !dear);
        assert_true(again.result.usage.drafted > 0);
        sched_kit_close(&kit);
        clock_destroy_fake(&clock);
        kit_gen_fini(&first);
        kit_gen_fini(&again);
    }
}

/* A small context: drafts take no cells that answers need. */
static void test_drafts_leave_cells_free(void **state)
{
    static struct kit_gen first, again;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &(struct engine_fake_options){.context = PROMPT + ANSWER + 1}, RAM,
                   &(struct sched_options){.drafts = DRAFTS});
    run_twice(&kit, &first, &again, 7);
    kit_gen_expect_same(&first, &again, true);
    assert_int_equal(again.result.usage.drafted, 0);
    assert_int_equal(stats_of(&kit).preempted, 0);
    sched_kit_close(&kit);
    kit_gen_fini(&first);
    kit_gen_fini(&again);
}

/* ---- a real model ---- */

/* The same tokens; where they differ, both were equally probable but for rounding. */
static void expect_same_but_for_ties(const struct kit_gen *a, const struct kit_gen *b)
{
    for (size_t i = 0; i < a->answer_count; i++) {
        assert_float_equal(a->logprobs[i], b->logprobs[i], 0.05);
        if (a->answer[i] != b->answer[i])
            return; /* what follows is another text */
    }
    assert_int_equal(a->answer_count, b->answer_count);
}

/* At temperature 0 the text is that without drafts. The probabilities differ in low bits: a batch
 * of several tokens is computed in another order. */
static void compare_answers(const char *family, uint32_t prompt)
{
    static struct kit_gen off, on, again;
    struct sched_kit plain, kit;

    sched_kit_open_model(&plain, family, RAM * 16, &without);
    sched_kit_open_model(&kit, family, RAM * 16, &with_drafts);
    kit_gen_init(&off, &plain, 8, prompt, 40);
    kit_gen_init(&on, &kit, 8, prompt, 40);
    kit_gen_init(&again, &kit, 8, prompt, 40);
    off.gen.sample.ignore_end = on.gen.sample.ignore_end = again.gen.sample.ignore_end = true;
    kit_gen_run(&plain, &off);
    kit_gen_run(&kit, &on);
    kit_gen_run(&kit, &again);
    expect_same_but_for_ties(&off, &on);
    expect_same_but_for_ties(&off, &again);
    assert_true(again.result.usage.accepted > 10);
    sched_kit_close(&kit);
    sched_kit_close(&plain);
    kit_gen_fini(&off);
    kit_gen_fini(&on);
    kit_gen_fini(&again);
}

static void test_a_real_model_answers_the_same(void **state)
{
    (void)state;
    compare_answers("qwen3", PROMPT);
}

/* The prompt and the answer together are longer than the window. */
static void test_real_models_with_windows_and_recurrent_state(void **state)
{
    (void)state;
    compare_answers("gemma3", 2 * PROMPT);
    compare_answers("qwen35", PROMPT);
}

TEST_SUITE(TEST(test_an_answer_is_guessed_when_it_comes_again), TEST(test_a_branch_is_guessed),
           TEST(test_a_prediction_is_used), TEST(test_walls_between_tenants_hold),
           TEST(test_answers_and_state_are_those_without_drafts),
           TEST(test_the_same_of_windows_and_recurrent_state),
           TEST(test_samples_have_the_same_distribution), TEST(test_many_streams),
           TEST(test_many_streams_of_recurrent_state),
           TEST(test_no_drafts_where_state_cannot_be_truncated), TEST(test_costs_decide),
           TEST(test_drafts_leave_cells_free), TEST(test_a_real_model_answers_the_same),
           TEST(test_real_models_with_windows_and_recurrent_state))
