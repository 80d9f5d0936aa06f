/*
 * drafter_test.c: a second model guesses: answers, probabilities and state as without it, whatever
 * it guesses and however it fails.
 */
#include "sched/drafter.h"

#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "engine/state.h"
#include "support/engine_fake.h"
#include "support/models.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { RAM = 1 << 20, PROMPT = 60, ANSWER = 80, DRAFTS = 6 };

static struct engine *open_draft(struct engine_fake_options options)
{
    struct engine *engine;

    assert_ok(engine_fake_create(&engine, &options, NULL));
    return engine;
}

static void open_kit(struct sched_kit *kit, struct engine *draft)
{
    struct sched_options options = {.park = true, .drafts = DRAFTS, .draft_engine = draft};

    sched_kit_open(kit, &(struct engine_fake_options){0}, RAM, &options);
}

/* An answer with this draft model must be that without; returns its usage. */
static struct gen_usage compare(struct engine *draft, uint32_t seed, float temperature)
{
    static struct kit_gen off, on;
    struct sched_kit plain, kit;

    sched_kit_open(&plain, &(struct engine_fake_options){0}, RAM, &(struct sched_options){0});
    open_kit(&kit, draft);
    kit_gen_init(&off, &plain, seed, PROMPT, ANSWER);
    kit_gen_init(&on, &kit, seed, PROMPT, ANSWER);
    off.gen.sample.temperature = on.gen.sample.temperature = temperature;
    off.gen.sample.seed = on.gen.sample.seed = seed + 1;
    off.gen.sample.ignore_end = on.gen.sample.ignore_end = true;
    kit_gen_run(&plain, &off);
    kit_gen_run(&kit, &on);
    kit_gen_expect_same(&off, &on, true);
    assert_string_equal(off.text, on.text);
    assert_int_equal(on.answer_count, ANSWER);
    struct gen_usage usage = on.result.usage;
    sched_kit_close(&kit);
    sched_kit_close(&plain);
    kit_gen_fini(&off);
    kit_gen_fini(&on);
    return usage;
}

/* The model itself is the best draft model; one with other weights is hardly ever right. */
static void test_answers_are_those_without(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        struct engine *draft = open_draft((struct engine_fake_options){.salt = (uint64_t)other});
        struct gen_usage usage = compare(draft, 1, 0);
        assert_true(usage.drafted > 0);
        if (other)
            assert_true(usage.accepted < usage.drafted / 4);
        else
            assert_true(usage.accepted == usage.drafted && usage.accepted > ANSWER * 3 / 4);
        engine_close(&draft);
    }
}

/* Each pick is that of a run without drafts, with the same random numbers: so the distribution is
 * the same as well. Guesses are right and wrong in turn. */
static void test_sampled_answers_are_those_without(void **state)
{
    uint64_t drafted = 0, accepted = 0;

    (void)state;
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct engine *draft = open_draft((struct engine_fake_options){0});
        struct gen_usage usage = compare(draft, seed, 2);
        drafted += usage.drafted;
        accepted += usage.accepted;
        engine_close(&draft);
    }
    assert_true(accepted > 100 && drafted > accepted + 100);
}

/* What an ended job leaves is used by the next one of the same tenant, and by no other. */
static void test_sequences_are_forked_within_an_owner(void **state)
{
    static struct kit_gen first, next;
    token_id longer[PROMPT + ANSWER + 1];

    (void)state;
    for (int how = 0; how < 3; how++) {
        struct engine *draft = open_draft((struct engine_fake_options){0});
        struct sched_kit kit;
        open_kit(&kit, draft);
        kit_gen_init(&first, &kit, 4, PROMPT, ANSWER);
        kit_gen_run(&kit, &first);
        assert_ok(sched_wait_turn(kit.sched, 10000, NULL));
        uint64_t before = engine_fake_stats(draft).tokens;
        memcpy(longer, first.prompt, PROMPT * sizeof(*longer));
        memcpy(longer + PROMPT, first.answer, ANSWER * sizeof(*longer));
        longer[PROMPT + ANSWER] = 'x';
        kit_gen_init(&next, &kit, 5, PROMPT, 5);
        next.gen.tokens = longer;
        next.gen.tokens_count = PROMPT + ANSWER + 1;
        next.gen.marks_count = 0;
        next.gen.cache.no_read = how == 1;
        if (how == 2) {
            next.gen.space = NULL;
            next.gen.cache.isolated = true;
        }
        kit_gen_run(&kit, &next);
        assert_ok(sched_wait_turn(kit.sched, 10000, NULL));
        uint64_t computed = engine_fake_stats(draft).tokens - before;
        assert_true(how == 0 ? computed < 20 : computed > PROMPT + ANSWER);
        sched_kit_close(&kit);
        engine_close(&draft);
        kit_gen_fini(&first);
        kit_gen_fini(&next);
    }
}

/* Something else than rows, under the tokens of a job. */
static uint64_t any_capacity(enum hearth_object_kind kind, uint32_t begin, uint32_t end, void *arg)
{
    (void)arg;
    return kind == HEARTH_OBJECT_ROWS ? end - begin : 0;
}

static uint64_t export_other(enum hearth_object_kind kind, uint32_t begin, uint32_t end,
                             void *memory, uint64_t capacity, void *shape, size_t *shape_bytes,
                             void *arg)
{
    (void)kind;
    (void)begin;
    (void)end;
    (void)arg;
    memset(memory, 1, capacity);
    memset(shape, 1, sizeof(struct state_shape));
    *shape_bytes = sizeof(struct state_shape);
    return capacity;
}

static void store_other(struct hearth_space *space, const token_id *tokens, size_t count)
{
    const struct hearth_session_ops ops = {
        .struct_size = sizeof(ops), .capacity = any_capacity, .export_to = export_other};
    uint64_t stored;

    assert_int_equal(hearth_session_insert(space, &ops, tokens, count, NULL, &stored), HEARTH_OK);
    assert_true(stored > 0);
}

/* Rows that have left its context come back from the cache; without a space, and where the cache
 * has something else, they are computed again. The answer is the same. */
static void test_rows_are_restored(void **state)
{
    enum { RESTORED, NO_SPACE, OTHER, CASES };
    static struct kit_gen first, next[CASES];
    uint64_t forgotten;

    (void)state;
    for (int how = 0; how < CASES; how++) {
        struct engine *draft = open_draft((struct engine_fake_options){0});
        struct hearth_model model = {.struct_size = sizeof(model), .kinds = HEARTH_KIND_FULL};
        struct hearth_space *space;
        struct sched_kit kit;
        open_kit(&kit, draft);
        assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &space), HEARTH_OK);
        kit_gen_init(&first, &kit, 4, PROMPT * 4, ANSWER);
        kit_gen_init(&next[how], &kit, 4, PROMPT * 4, ANSWER);
        first.gen.draft_space = how == RESTORED ? space : NULL;
        next[how].gen.draft_space = how == NO_SPACE ? NULL : space;
        if (how == OTHER)
            store_other(space, first.prompt, PROMPT * 4);
        kit_gen_run(&kit, &first);
        assert_ok(sched_wait_turn(kit.sched, 10000, NULL)); /* stores */
        assert_ok(sched_forget(kit.sched, NULL, 10000, &forgotten, NULL));
        uint64_t before = engine_fake_stats(draft).tokens;
        kit_gen_run(&kit, &next[how]);
        assert_ok(sched_wait_turn(kit.sched, 10000, NULL));
        uint64_t computed = engine_fake_stats(draft).tokens - before;
        struct hearth_stats stats = {.struct_size = sizeof(stats)};
        hearth_get_stats(kit.cache, space, &stats);
        assert_int_equal(computed < PROMPT * 4, how == RESTORED);
        assert_int_equal(stats.tokens_reused > PROMPT * 3, how == RESTORED);
        kit_gen_expect_same(&first, &next[how], true);
        sched_destroy(&kit.sched);
        hearth_space_close(&space);
        sched_kit_close(&kit);
        engine_close(&draft);
        kit_gen_fini(&first);
        kit_gen_fini(&next[how]);
    }
}

/* More jobs than it has sequences, and fewer cells than the prompts have tokens. */
static void test_a_small_draft_context(void **state)
{
    enum { JOBS = 6 };
    static struct kit_gen off[JOBS], on[JOBS];

    (void)state;
    for (uint32_t context = 32; context <= 256; context *= 2) {
        struct engine *draft =
            open_draft((struct engine_fake_options){.context = context, .sequences = 2});
        struct sched_kit plain, kit;
        sched_kit_open(&plain, &(struct engine_fake_options){0}, RAM, &(struct sched_options){0});
        open_kit(&kit, draft);
        for (uint32_t i = 0; i < JOBS; i++) {
            kit_gen_init(&off[i], &plain, 10 + i, PROMPT, ANSWER);
            kit_gen_init(&on[i], &kit, 10 + i, PROMPT, ANSWER);
            kit_gen_run(&plain, &off[i]);
            kit_gen_submit(&kit, &on[i]);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            kit_gen_wait(&on[i]);
            kit_gen_expect_same(&off[i], &on[i], true);
            kit_gen_fini(&off[i]);
            kit_gen_fini(&on[i]);
        }
        sched_kit_close(&kit);
        sched_kit_close(&plain);
        engine_close(&draft);
    }
}

/* Each of its runs fails once: the answer goes on without it. */
static void test_every_failed_run(void **state)
{
    struct fault fault = {0};
    bool drafted = false;

    (void)state;
    FAULT_LOOP (&fault) {
        struct engine *draft = open_draft((struct engine_fake_options){.fault_run = &fault});
        struct gen_usage usage = compare(draft, 7, 0);
        drafted |= usage.drafted > 0;
        engine_close(&draft);
        if (fault.fire_at > 24)
            fault_arm(&fault, 1 << 20, false);
    }
    assert_true(drafted);
}

/* With measured costs: a draft model that takes as long as the model is not asked. */
static void test_costs_decide(void **state)
{
    static struct kit_gen gen;

    (void)state;
    for (int dear = 0; dear < 2; dear++) {
        struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
        struct engine *draft = open_draft((struct engine_fake_options){
            .clock = clock, .decode_ns = dear ? 3000 : 10, .prefill_ns = 10});
        struct engine_fake_options fake = {.clock = clock, .decode_ns = 1000, .prefill_ns = 100};
        struct sched_options options = {
            .drafts = SCHED_DRAFTS_AUTO, .draft_engine = draft, .clock = clock};
        struct sched_kit kit;
        sched_kit_open(&kit, &fake, RAM, &options);
        kit_gen_init(&gen, &kit, 6, PROMPT, ANSWER);
        kit_gen_run(&kit, &gen);
        assert_int_equal(gen.result.usage.accepted > ANSWER / 2, !dear);
        sched_kit_close(&kit);
        engine_close(&draft);
        clock_destroy_fake(&clock);
        kit_gen_fini(&gen);
    }
}

static void test_models_that_do_not_fit_together(void **state)
{
    struct engine *fake = open_draft((struct engine_fake_options){0});
    struct engine *hybrid = open_draft((struct engine_fake_options){
        .kinds = KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT), .name = "mixed"});
    struct engine *model = test_engine("qwen3", NULL);
    struct errinfo info = {0};

    (void)state;
    assert_ok(drafter_check(fake, fake, &info));
    assert_err(drafter_check(model, fake, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "fake has 260 tokens"));
    assert_err(drafter_check(fake, hybrid, &info), ERR_UNSUPPORTED);
    assert_non_null(strstr(info.text, "mixed has layers of the kinds full+recurrent"));
    engine_close(&fake);
    engine_close(&hybrid);
    engine_close(&model);
}

TEST_SUITE(TEST(test_answers_are_those_without), TEST(test_sampled_answers_are_those_without),
           TEST(test_sequences_are_forked_within_an_owner), TEST(test_rows_are_restored),
           TEST(test_a_small_draft_context), TEST(test_every_failed_run), TEST(test_costs_decide),
           TEST(test_models_that_do_not_fit_together))
