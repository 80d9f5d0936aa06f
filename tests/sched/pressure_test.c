/*
 * pressure_test.c: a scheduler under a ceiling: what it refuses, whom it lets wait, how small its
 * chunks become, and who ends.
 *
 * The engine says that its cells take memory by use, four KiB each, and the process's memory is
 * what the test says it is: at a given piece of a run, not at a time.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "sched/memory.h"
#include "support/sched_kit.h"
#include "support/test.h"

#define MIB (1ull << 20)

enum { FULL = 1, RECURRENT = 8, CHUNK = 64, RAM = 8 << 20, CELL = 4096 };

/* A process whose memory is high during some pieces of the engine's work. */
struct pressure {
    atomic_ullong process;
    unsigned pieces, from, to; /* the engine's thread */
    uint64_t low, high;
};

static uint64_t process_of(void *arg)
{
    return atomic_load(&((struct pressure *)arg)->process);
}

static void on_piece(struct engine *engine, void *arg)
{
    struct pressure *pressure = arg;
    unsigned piece = ++pressure->pieces;

    (void)engine;
    if (piece == pressure->from)
        atomic_store(&pressure->process, pressure->high);
    if (piece == pressure->to)
        atomic_store(&pressure->process, pressure->low);
}

struct rig {
    struct pressure pressure;
    struct memory *memory;
    struct engine_fake_options fake;
    struct sched_kit kit;
};

static void rig_open(struct rig *rig, kind_set kinds, uint64_t ceiling,
                     struct sched_options options)
{
    struct memory_options memory = {
        .ceiling = ceiling, .process = process_of, .arg = &rig->pressure, .poll_ns = 1};

    rig->fake = (struct engine_fake_options){.kinds = kinds,
                                             .clock = rig->fake.clock,
                                             .prefill_ns = rig->fake.prefill_ns,
                                             .chunk = CHUNK,
                                             .sequences = 8,
                                             .rows_bytes = CELL,
                                             .cells_by_use = true,
                                             .on_piece = on_piece,
                                             .arg = &rig->pressure};
    rig->memory = memory_create(&memory);
    options.memory = rig->memory;
    options.park = !options.exact;
    sched_kit_open(&rig->kit, &rig->fake, RAM, &options);
    /* After the model has joined: this is memory in no ledger, not the program's. */
    atomic_store(&rig->pressure.process, rig->pressure.low);
}

static struct memory_view rig_view(struct rig *rig)
{
    struct memory_view view;

    memory_get_view(rig->memory, &view);
    return view;
}

/* Nothing is held any more (I73). memory_leave aborts otherwise as well. */
static void rig_close(struct rig *rig)
{
    sched_destroy(&rig->kit.sched);
    struct memory_view view = rig_view(rig);
    assert_true(view.reading.claims == 0 && view.reading.queues == 0 && view.reading.fixed == 0);
    sched_kit_close(&rig->kit);
    memory_destroy(&rig->memory);
}

static void expect_as_cold(const struct rig *rig, const struct kit_gen *gen)
{
    static struct kit_gen cold;
    struct engine_fake_options fake = rig->fake;
    struct sched_kit kit;

    fake.on_piece = NULL;
    sched_kit_open(&kit, &fake, 0, NULL);
    kit_gen_init(&cold, &kit, (uint32_t)gen->gen.id, gen->gen.tokens_count, gen->gen.max_tokens);
    memcpy(cold.prompt, gen->prompt, sizeof(cold.prompt));
    kit_gen_run(&kit, &cold);
    kit_gen_expect_same(gen, &cold, false);
    kit_gen_fini(&cold);
    sched_kit_close(&kit);
}

/* ---- never ---- */

/* What can never fit is refused with the figures before anything is computed, however often;
 * nothing is left of it (I72, I73). */
static void test_i72_i73_too_large_is_refused(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct errinfo info = {0};
    struct sched_stats stats;

    (void)state;
    rig_open(&rig, FULL, 8 * MIB, (struct sched_options){0});
    kit_gen_init(&gen, &rig.kit, 1, 3000, 8);
    for (int i = 0; i < 1000; i++) {
        assert_err(sched_preflight(rig.kit.sched, 3000, 8, &info), ERR_NOMEM);
        assert_err(sched_submit(rig.kit.sched, &gen.gen, &info), ERR_NOMEM);
    }
    assert_non_null(strstr(info.text, "needs about 11.8 MiB to be computed"));
    assert_non_null(strstr(info.text, "the memory ceiling is 8.0 MiB"));
    assert_int_equal(gen.dones, 0);
    sched_get_stats(rig.kit.sched, &stats);
    assert_int_equal(stats.turns, 0);
    assert_int_equal(rig_view(&rig).refused, 2000);
    assert_true(rig_view(&rig).reading.queues == 0);
    kit_gen_fini(&gen);
    /* The context says so first, and with its own error. */
    assert_err(sched_preflight(rig.kit.sched, 4096, 8, &info), ERR_LIMIT);
    /* What fits is answered. */
    kit_gen_init(&gen, &rig.kit, 1, 1000, 8);
    kit_gen_run(&rig.kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* ---- later ---- */

/* Four that do not fit together all are answered, as if each had been alone. */
static void test_who_does_not_fit_now_waits(void **state)
{
    static struct kit_gen gens[4];
    static struct rig rig;

    (void)state;
    rig_open(&rig, FULL, 8 * MIB, (struct sched_options){0});
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_init(&gens[i], &rig.kit, i + 1, 720, 16);
        kit_gen_submit(&rig.kit, &gens[i]);
    }
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_wait(&gens[i]);
        assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
        expect_as_cold(&rig, &gens[i]);
        kit_gen_fini(&gens[i]);
    }
    assert_true(rig_view(&rig).deferred > 0);
    assert_int_equal(rig_view(&rig).ended, 0);
    rig_close(&rig);
}

/* Memory that another model gives back is noticed, although no job of this one ends. */
static void test_memory_of_another_model_becomes_free(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct memory_member *other;
    struct sched_view view;

    (void)state;
    rig_open(&rig, FULL, 8 * MIB, (struct sched_options){0});
    assert_ok(memory_join(rig.memory, "other", &(struct guard_model){0}, &other, NULL));
    assert_ok(memory_charge(other, 5 * MIB, NULL));
    kit_gen_init(&gen, &rig.kit, 1, 720, 16);
    kit_gen_submit(&rig.kit, &gen);
    while (rig_view(&rig).deferred == 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    memory_uncharge(other, 5 * MIB);
    for (int i = 0; i < 20000 && sched_views(rig.kit.sched, &view, 1) == 1; i++)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    assert_int_equal(sched_views(rig.kit.sched, &view, 1), 0);
    kit_gen_wait(&gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    kit_gen_fini(&gen);
    memory_leave(&other);
    rig_close(&rig);
}

/* Records of those that wait are memory as well. */
static void test_long_prompts_fill_the_queue(void **state)
{
    static struct kit_gen gens[8];
    static struct rig rig;
    struct errinfo info;
    size_t taken = 0;

    (void)state;
    rig_open(&rig, FULL, 8 * MIB, (struct sched_options){.parallel = 1});
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_init(&gens[i], &rig.kit, i + 1, 1500, 100);
        enum err err = sched_submit(rig.kit.sched, &gens[i].gen, &info);
        assert_true(err == ERR_OK || err == ERR_BUSY);
        gens[i].done = err != ERR_OK;
        taken += err == ERR_OK;
    }
    assert_true(taken >= 2 && taken < COUNT_OF(gens));
    assert_true(rig_view(&rig).turned_away > 0);
    assert_true(sched_drain(rig.kit.sched, 60000));
    for (uint32_t i = 0; i < COUNT_OF(gens); i++)
        kit_gen_fini(&gens[i]);
    rig_close(&rig);
}

/* ---- smaller ---- */

static uint64_t turns_under(uint64_t high, bool exact)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct sched_stats stats;

    rig = (struct rig){.pressure = {.low = high}};
    rig_open(&rig, FULL | RECURRENT, 100 * MIB, (struct sched_options){.exact = exact});
    kit_gen_init(&gen, &rig.kit, 1, 1280, 1);
    kit_gen_run(&rig.kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    if (!exact)
        expect_as_cold(&rig, &gen);
    kit_gen_fini(&gen);
    sched_get_stats(rig.kit.sched, &stats);
    assert_int_equal(rig_view(&rig).shrunk > 0, high > 95 * MIB && !exact);
    rig_close(&rig);
    return stats.turns;
}

/* Above the hard limit chunks have the floor's size; the answer is the same. An exact run keeps its
 * chunks (I77). */
static void test_i77_chunks_become_smaller(void **state)
{
    uint64_t usual, small;

    (void)state;
    usual = turns_under(50 * MIB, false);
    small = turns_under(96 * MIB, false);
    assert_true(small >= 1280 / GUARD_CHUNK_FLOOR && small <= 1280 / GUARD_CHUNK_FLOOR + 4);
    assert_true(usual < small);
    assert_int_equal(turns_under(96 * MIB, true), turns_under(50 * MIB, true));
}

/* The process grows by 9 MiB while a batch is computed, because another thread reads a long text:
 * that is no cost of the tokens of the batch, and usual prompts are admitted, whatever ran last. */
static void test_growth_by_others_teaches_nothing(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct errinfo info = {0};

    (void)state;
    for (unsigned piece = 1; piece == 1 || rig.pressure.pieces >= rig.pressure.from; piece++) {
        rig = (struct rig){.pressure = {.low = 40 * MIB, .from = piece, .high = 49 * MIB}};
        rig_open(&rig, FULL, 300 * MIB, (struct sched_options){0});
        kit_gen_init(&gen, &rig.kit, 1, 100, 4);
        kit_gen_run(&rig.kit, &gen);
        assert_int_equal(gen.result.end, GEN_END_LENGTH);
        kit_gen_fini(&gen);
        if (sched_preflight(rig.kit.sched, 130, 8, &info) != ERR_OK)
            fail_msg("piece %u: %s", piece, info.text);
        rig_close(&rig);
    }
}

/* ---- the end ---- */

/* Near the ceiling for good, a long prompt is computed in the smallest chunks, half a second each:
 * it ends after some seconds, with the figures, and a short one is answered. */
static void test_who_crawls_ends(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct clock *clock = clock_create_fake(NS_PER_S, 0);

    (void)state;
    rig = (struct rig){.pressure = {.low = 96 * MIB},
                       .fake = {.clock = clock, .prefill_ns = NS_PER_S / 2 / GUARD_CHUNK_FLOOR}};
    rig_open(&rig, FULL, 100 * MIB, (struct sched_options){.clock = clock});
    kit_gen_init(&gen, &rig.kit, 1, 320, 1);
    kit_gen_run(&rig.kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    kit_gen_fini(&gen);
    kit_gen_init(&gen, &rig.kit, 2, 1280, 1);
    kit_gen_run(&rig.kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_ERROR);
    assert_int_equal(gen.result.info.code, ERR_NOMEM);
    assert_non_null(strstr(gen.result.info.text, "96.0 MiB are in use"));
    assert_non_null(strstr(gen.result.info.text, "the ceiling is 100.0 MiB"));
    kit_gen_fini(&gen);
    rig_close(&rig);
    clock_destroy_fake(&clock);
}

/* Alone, and the process stays above the ceiling: it ends, says why, and what it has computed is
 * there for the next one (I70, I95). */
static void end_of_one(kind_set kinds)
{
    static struct kit_gen gen;
    static struct rig rig;

    rig = (struct rig){.pressure = {.from = 10, .to = 14, .high = 101 * MIB}};
    rig_open(&rig, kinds, 100 * MIB, (struct sched_options){0});
    kit_gen_init(&gen, &rig.kit, 1, 3000, 8);
    kit_gen_run(&rig.kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_ERROR);
    assert_int_equal(gen.result.info.code, ERR_NOMEM);
    assert_non_null(strstr(gen.result.info.text, "lack of memory"));
    assert_int_equal(rig_view(&rig).ended, 1);
    assert_int_equal(rig_view(&rig).level, GUARD_OVER);
    kit_gen_fini(&gen);
    atomic_store(&rig.pressure.process, 1);
    kit_gen_init(&gen, &rig.kit, 1, 3000, 8);
    kit_gen_run(&rig.kit, &gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    assert_true(gen.result.usage.computed < 3000 - 9 * CHUNK);
    expect_as_cold(&rig, &gen);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

static void test_i70_i95_the_last_one_ends_and_leaves_its_work(void **state)
{
    (void)state;
    end_of_one(FULL);
    end_of_one(FULL | RECURRENT);
}

/* Beside others, the youngest is preempted and resumes: no job fails for temporary pressure. */
static void test_i70_the_youngest_gives_way(void **state)
{
    static struct kit_gen gens[3];
    static struct rig rig;
    struct sched_stats stats;

    (void)state;
    rig = (struct rig){.pressure = {.from = 40, .to = 43, .high = 101 * MIB}};
    rig_open(&rig, FULL, 100 * MIB, (struct sched_options){0});
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_init(&gens[i], &rig.kit, i + 1, 500, 200);
        kit_gen_submit(&rig.kit, &gens[i]);
    }
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_wait(&gens[i]);
        assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
        assert_int_equal(gens[i].answer_count, 200);
        expect_as_cold(&rig, &gens[i]);
        kit_gen_fini(&gens[i]);
    }
    sched_get_stats(rig.kit.sched, &stats);
    assert_true(stats.preempted > 0 && stats.failed == 0);
    assert_int_equal(rig_view(&rig).ended, stats.preempted);
    rig_close(&rig);
}

/* A scheduler without running jobs has none to end: it leaves that to those of other models, and
 * counts nothing. */
static void test_who_runs_nothing_ends_nobody(void **state)
{
    static struct rig rig;

    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, FULL, 100 * MIB, (struct sched_options){0});
    atomic_store(&rig.pressure.process, 101 * MIB);
    while (rig_view(&rig).reading.over <= GUARD_OVER_POLLS && rig_view(&rig).ended == 0)
        assert_ok(sched_wait_turn(rig.kit.sched, 60000, NULL)); /* each makes it look */
    assert_int_equal(rig_view(&rig).ended, 0);
    rig_close(&rig);
}

/* ---- faults ---- */

/* The n-th allocation fails, on whichever thread: answered or refused, and the account is even
 * afterwards (rig_close). */
static void test_i73_faults_leak_nothing(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct fault fault = {0};

    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, FULL, 2 * MIB, (struct sched_options){0});
    FAULT_LOOP (&fault) {
        kit_gen_init(&gen, &rig.kit, 1, 200, 2);
        mem_set_fault(&fault);
        enum err err = sched_submit(rig.kit.sched, &gen.gen, NULL);
        mem_set_fault(NULL);
        if (err == ERR_OK)
            kit_gen_wait(&gen);
        else
            assert_err(err, ERR_NOMEM);
        kit_gen_fini(&gen);
    }
    rig_close(&rig);
}

/* A scheduler that cannot be made has not joined. */
static void test_i73_a_scheduler_that_fails_leaves(void **state)
{
    struct memory_options unlimited = {.ceiling = 100 * MIB};
    struct memory *memory = memory_create(&unlimited);
    struct sched_options options = {.memory = memory};
    struct fault fault = {0};
    struct memory_view view;
    struct sched *sched;

    (void)state;
    assert_ok(engine_fake_create(&options.engine, &(struct engine_fake_options){0}, NULL));
    FAULT_LOOP (&fault) {
        mem_set_fault(&fault);
        enum err err = sched_create(&sched, &options, NULL);
        mem_set_fault(NULL);
        assert_true(err == ERR_OK || (err == ERR_NOMEM && sched == NULL));
        sched_destroy(&sched);
        memory_get_view(memory, &view);
        assert_true(view.reading.fixed == 0);
    }
    engine_close(&options.engine);
    memory_destroy(&memory);
}

/* Two models, one ceiling: the second scheduler is under it from its first request on, and is
 * refused when it does not fit (I68). */
static void test_i68_the_second_model(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;
    struct engine_fake_options fake = {.kinds = FULL, .context = 2048, .rows_bytes = CELL};
    struct sched_options options;
    struct engine *engine;
    struct sched *second;
    struct errinfo info;

    (void)state;
    rig = (struct rig){0};
    rig_open(&rig, FULL, 12 * MIB, (struct sched_options){0});
    assert_ok(engine_fake_create(&engine, &fake, NULL));
    options = (struct sched_options){.engine = engine, .memory = rig.memory};
    assert_ok(sched_preflight(rig.kit.sched, 2000, 8, &info));
    assert_ok(sched_create(&second, &options, &info));
    /* eight of the twelve MiB are the second one's */
    assert_err(sched_preflight(rig.kit.sched, 2000, 8, &info), ERR_NOMEM);
    sched_destroy(&second);
    assert_ok(sched_preflight(rig.kit.sched, 2000, 8, &info));
    engine_close(&engine);
    fake.context = 4096;
    assert_ok(engine_fake_create(&engine, &fake, NULL));
    options.engine = engine;
    assert_err(sched_create(&second, &options, &info), ERR_LIMIT);
    assert_non_null(strstr(info.text, "16.0 MiB for its context"));
    assert_null(second);
    engine_close(&engine);
    kit_gen_init(&gen, &rig.kit, 1, 100, 8);
    kit_gen_run(&rig.kit, &gen);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

TEST_SUITE(TEST(test_i72_i73_too_large_is_refused), TEST(test_who_does_not_fit_now_waits),
           TEST(test_memory_of_another_model_becomes_free), TEST(test_long_prompts_fill_the_queue),
           TEST(test_i77_chunks_become_smaller), TEST(test_growth_by_others_teaches_nothing),
           TEST(test_i70_i95_the_last_one_ends_and_leaves_its_work),
           TEST(test_i70_the_youngest_gives_way), TEST(test_who_crawls_ends),
           TEST(test_who_runs_nothing_ends_nobody), TEST(test_i73_faults_leak_nothing),
           TEST(test_i73_a_scheduler_that_fails_leaves), TEST(test_i68_the_second_model))
