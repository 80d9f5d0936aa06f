/*
 * embed_test.c: vectors through the scheduler: the same in company and alone, with and without a
 * prefix, and fair to answers that are being generated.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { CHUNK = 64, JOBS = 6, RAM_BYTES = 1 << 22 };

static void init(struct kit_gen *gen, const struct sched_kit *kit, uint32_t seed, uint32_t count)
{
    kit_gen_init(gen, kit, seed, count, 0);
    gen->gen.embed = true;
    gen->gen.cache.no_write = true;
}

static void expect_vector(const struct kit_gen *gen)
{
    assert_int_equal(gen->result.end, GEN_END_STOP);
    assert_true(gen->has_vector);
    assert_int_equal(gen->dones, 1);
    assert_int_equal(gen->answer_count, 0);
}

static void expect_same(const float *a, const float *b)
{
    for (int i = 0; i < ENGINE_FAKE_VECTOR; i++)
        assert_float_equal(a[i], b[i], 1e-3);
}

static struct kit_gen *make_gens(void)
{
    return mem_alloc_array(JOBS, sizeof(struct kit_gen));
}

/* Many at a time, of several chunks each, and each alone in a fresh scheduler. */
static void check_company(struct engine_fake_options fake)
{
    struct kit_gen *gens = make_gens(), *alone = mem_alloc(sizeof(*alone));
    struct sched_kit kit;

    fake.chunk = CHUNK;
    fake.context = 2048;
    uint32_t step = fake.encoder ? 7 : 50;
    sched_kit_open(&kit, &fake, RAM_BYTES, NULL);
    for (uint32_t i = 0; i < JOBS; i++)
        init(&gens[i], &kit, i, 1 + i * step);
    for (uint32_t i = 0; i < JOBS; i++)
        kit_gen_submit(&kit, &gens[i]);
    for (uint32_t i = 0; i < JOBS; i++)
        kit_gen_wait(&gens[i]);
    sched_kit_close(&kit);
    for (uint32_t i = 0; i < JOBS; i++) {
        expect_vector(&gens[i]);
        sched_kit_open(&kit, &fake, 0, NULL);
        init(alone, &kit, i, 1 + i * step);
        kit_gen_run(&kit, alone);
        expect_vector(alone);
        expect_same(gens[i].vector, alone->vector);
        kit_gen_fini(alone);
        sched_kit_close(&kit);
        kit_gen_fini(&gens[i]);
    }
    mem_free(alone);
    mem_free(gens);
}

static void test_company_does_not_matter(void **state)
{
    (void)state;
    check_company((struct engine_fake_options){0});
    check_company((struct engine_fake_options){.pooling = ENGINE_POOLING_MEAN});
    check_company((struct engine_fake_options){.kinds = KIND_BIT(KIND_RECURRENT)});
    check_company((struct engine_fake_options){
        .encoder = true, .streams = true, .slicing = ENGINE_FAKE_NONE, .sequences = 4});
}

/* The prefix that others share is stored and read; a mean reads nothing. */
static void check_prefix(enum engine_pooling pooling, uint32_t reused)
{
    struct engine_fake_options fake = {.chunk = CHUNK, .context = 2048, .pooling = pooling};
    struct kit_gen *gens = make_gens();
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, RAM_BYTES, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        init(&gens[i], &kit, 1, 400);
        if (i > 0)
            kit_gen_change(&gens[i], &kit, 10 + i, 300);
        gens[i].gen.cache.no_write = i > 0;
        gens[i].gen.cache.write_max = 300;
        kit_gen_run(&kit, &gens[i]);
        expect_vector(&gens[i]);
        assert_int_equal(gens[i].result.usage.ram, i > 0 ? reused : 0);
        assert_int_equal(gens[i].result.usage.device, 0); /* they do not stay there */
    }
    sched_kit_close(&kit);
    for (uint32_t i = 0; i < 3; i++) {
        struct kit_gen *cold = &gens[3 + i];
        sched_kit_open(&kit, &fake, 0, NULL);
        init(cold, &kit, 1, 400);
        if (i > 0)
            kit_gen_change(cold, &kit, 10 + i, 300);
        kit_gen_run(&kit, cold);
        expect_same(cold->vector, gens[i].vector);
        sched_kit_close(&kit);
        kit_gen_fini(cold);
        kit_gen_fini(&gens[i]);
    }
    mem_free(gens);
}

static void test_a_shared_prefix_is_computed_once(void **state)
{
    (void)state;
    check_prefix(ENGINE_POOLING_LAST, 300);
    check_prefix(ENGINE_POOLING_MEAN, 0);
}

/* An answer of 100 tokens beside inputs that take 50 times as long to compute. */
static void check_answer_beside(enum engine_pooling pooling)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = {.chunk = CHUNK,
                                       .context = 8192,
                                       .clock = clock,
                                       .pooling = pooling,
                                       .prefill_ns = 1000,
                                       .decode_ns = 2000};
    struct kit_gen *answer = mem_alloc(sizeof(*answer)), *input = mem_alloc(sizeof(*input));
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, 0, &(struct sched_options){.parallel = 4, .clock = clock});
    kit_gen_init(answer, &kit, 1, 8, 100);
    init(input, &kit, 2, 4000);
    kit_gen_run_both(&kit, answer, input, 3);
    expect_vector(input);
    assert_int_equal(answer->answer_count, 100);
    assert_true(answer->result.times.ended < input->result.times.ended);
    kit_gen_fini(answer);
    kit_gen_fini(input);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
    mem_free(answer);
    mem_free(input);
}

static void test_answers_go_on_beside_inputs(void **state)
{
    (void)state;
    check_answer_beside(ENGINE_POOLING_LAST);
    check_answer_beside(ENGINE_POOLING_MEAN);
}

static void test_the_longest_input_is_the_context(void **state)
{
    struct engine_fake_options fake = {.chunk = CHUNK, .context = 512};
    struct kit_gen *gen = mem_alloc(sizeof(*gen));
    struct errinfo info = {0};
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM_BYTES, NULL);
    init(gen, &kit, 1, 513);
    assert_err(sched_submit(kit.sched, &gen->gen, &info), ERR_LIMIT);
    assert_non_null(strstr(info.text, "513"));
    assert_non_null(strstr(info.text, "512"));
    gen->gen.tokens_count = 512;
    kit_gen_run(&kit, gen);
    expect_vector(gen);
    kit_gen_fini(gen);
    sched_kit_close(&kit);
    mem_free(gen);
}

static void test_an_encoder_generates_nothing(void **state)
{
    struct engine_fake_options fake = {
        .encoder = true, .streams = true, .slicing = ENGINE_FAKE_NONE, .chunk = CHUNK};
    struct kit_gen *gen = mem_alloc(sizeof(*gen));
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, 0, NULL);
    kit_gen_init(gen, &kit, 1, 8, 4);
    assert_err(sched_submit(kit.sched, &gen->gen, NULL), ERR_UNSUPPORTED);
    kit_gen_fini(gen);
    sched_kit_close(&kit);
    mem_free(gen);
}

TEST_SUITE(TEST(test_company_does_not_matter), TEST(test_a_shared_prefix_is_computed_once),
           TEST(test_answers_go_on_beside_inputs), TEST(test_the_longest_input_is_the_context),
           TEST(test_an_encoder_generates_nothing))
