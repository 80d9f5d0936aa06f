/*
 * An engine's process dies under a scheduler: in every call of a few requests, while nothing runs,
 * repeatedly, and when it cannot be restarted. Affected requests get an error; later ones
 * find the state in the cache.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/fake_worker.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { RAM = 8 << 20, PROMPT = 300, ANSWER = 4, ROUNDS = 3 };

struct trap {
    atomic_long calls, fire_at; /* 0 = never */
    atomic_bool always;         /* at every call of every process */
};

static void on_call(struct engine *engine, void *arg)
{
    struct trap *trap = arg;

    if (atomic_fetch_add(&trap->calls, 1) + 1 == atomic_load(&trap->fire_at) ||
        atomic_load(&trap->always))
        kill(engine_worker_pid(engine), SIGKILL);
}

static const struct engine_fake_options fake = {.kinds =
                                                    KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT),
                                                .context = 2048,
                                                .sequences = 4,
                                                .chunk = 128};

/* The trap is set after the engine was loaded. */
static void open_kit(struct sched_kit *kit, struct trap *trap, const char *program,
                     struct clock *clock)
{
    struct trap armed = {.fire_at = atomic_load(&trap->fire_at),
                         .always = atomic_load(&trap->always)};
    struct engine_worker_options worker = {.program = program, .on_call = on_call, .arg = trap};
    struct errinfo info = {0};
    struct engine *engine;

    atomic_store(&trap->fire_at, 0);
    atomic_store(&trap->always, false);
    if (fake_worker_load(&engine, &fake, &worker, &info) != ERR_OK)
        fail_msg("%s", info.text);
    atomic_store(&trap->calls, 0);
    atomic_store(&trap->fire_at, armed.fire_at);
    atomic_store(&trap->always, armed.always);
    sched_kit_open_engine(kit, engine, RAM, &(struct sched_options){.park = true, .clock = clock});
}

/* One request; what its answer is to be compared with comes from a scheduler whose engine never
 * dies. */
static void run(struct sched_kit *kit, struct kit_gen *gen, uint32_t seed)
{
    kit_gen_init(gen, kit, seed, PROMPT, ANSWER);
    kit_gen_run(kit, gen);
}

static void expect_cold(const struct kit_gen *gen, uint32_t seed)
{
    static struct kit_gen cold;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, 0, NULL);
    run(&kit, &cold, seed);
    kit_gen_expect_same(&cold, gen, false);
    kit_gen_fini(&cold);
    sched_kit_close(&kit);
}

static uint64_t restarts(struct sched_kit *kit)
{
    struct sched_stats stats;

    sched_get_stats(kit->sched, &stats);
    return stats.restarts;
}

/* False: n is beyond the last call. */
static bool survive(long n)
{
    static struct kit_gen gen;
    struct trap trap = {.fire_at = n};
    struct sched_kit kit;
    unsigned failed = 0;

    open_kit(&kit, &trap, fake_worker_program(), NULL);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        run(&kit, &gen, round % 2);
        assert_true(gen.result.end == GEN_END_LENGTH || gen.result.end == GEN_END_ERROR);
        if (gen.result.end == GEN_END_LENGTH)
            expect_cold(&gen, round % 2);
        else if (gen.result.info.retry_s == 0 || /* a 503 with Retry-After, not a 500 */
                 strstr(gen.result.info.text,
                        "died while it worked on this request; send it again") == NULL)
            fail_msg("call %ld: '%s' is not what happened", n, gen.result.info.text);
        failed += gen.result.end == GEN_END_ERROR;
        kit_gen_fini(&gen);
    }
    bool fired = atomic_load(&trap.calls) >= n;
    assert_true(failed <= (fired ? 1 : 0));
    atomic_store(&trap.fire_at, 0);
    run(&kit, &gen, 1); /* after everything: the right answer */
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    expect_cold(&gen, 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
    return fired;
}

/* In every third with a sanitizer, whose processes take long to start. */
static void test_death_in_every_call(void **state)
{
    long n = 1;

    (void)state;
    while (survive(n))
        n += TEST_SANITIZED ? 3 : 1;
    printf("%ld calls\n", n - 1);
    assert_true(n > 20);
}

/* The process dies while idle: the next request succeeds and starts from the cache. */
static void test_death_while_idle_costs_nothing(void **state)
{
    static struct kit_gen gen;
    struct trap trap = {0};
    struct sched_kit kit;

    (void)state;
    open_kit(&kit, &trap, fake_worker_program(), NULL);
    run(&kit, &gen, 1);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    kit_gen_fini(&gen);
    /* and now the first one's state is not only on the device: it was retained before this began */
    run(&kit, &gen, 2);
    kit_gen_fini(&gen);
    kill(engine_worker_pid(kit.engine), SIGKILL);
    while (restarts(&kit) == 0) /* by itself, without a request */
        clock_sleep_ns(clock_real(), NS_PER_MS);
    run(&kit, &gen, 1);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    assert_true(gen.first_usage.ram > PROMPT / 2 && gen.first_usage.device == 0);
    expect_cold(&gen, 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* The process dies in the n-th call of a restore: that is not the fault of what is restored, and
 * the next one finds it. */
static void restore_and_die(long n)
{
    static struct kit_gen gen;
    struct clock *clock = clock_create_fake(NS_PER_S, 0);
    struct trap trap = {0};
    struct sched_kit kit;

    open_kit(&kit, &trap, fake_worker_program(), clock);
    for (uint32_t seed = 1; seed <= 2;
         seed++) { /* when the second has begun, the first is stored */
        run(&kit, &gen, seed);
        kit_gen_fini(&gen);
    }
    kill(engine_worker_pid(kit.engine), SIGKILL);
    while (restarts(&kit) == 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    atomic_store(&trap.calls, 0);
    atomic_store(&trap.fire_at, n);
    run(&kit, &gen, 1);
    kit_gen_fini(&gen);
    /* whatever came of it: nothing is on the device */
    kill(engine_worker_pid(kit.engine), SIGKILL);
    for (int tries = 0; tries < 4;
         tries++) { /* the death may be noticed, and its pause begin, only with the request */
        clock_fake_advance(clock, 31 * NS_PER_S);
        run(&kit, &gen, 1);
        if (gen.result.end == GEN_END_LENGTH)
            break;
        kit_gen_fini(&gen);
    }
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    assert_true(gen.first_usage.ram > PROMPT / 2);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

static void test_death_in_a_restore_costs_no_state(void **state)
{
    (void)state;
    for (long n = 1; n <= 8; n++)
        restore_and_die(n);
}

static void expect_error(struct sched_kit *kit, const char *words)
{
    static struct kit_gen gen;

    run(kit, &gen, 1);
    assert_int_equal(gen.result.end, GEN_END_ERROR);
    assert_int_equal(gen.result.info.code, ERR_ENGINE);
    if (strstr(gen.result.info.text, words) == NULL)
        fail_msg("'%s' does not say '%s'", gen.result.info.text, words);
    if (strstr(words, "is restarted") != NULL)
        assert_int_equal(gen.result.info.retry_s, 1);
    kit_gen_fini(&gen);
}

/* Its program is gone for a while: an error at once for everyone, an attempt now and then, and in
 * the end it works again. */
static void test_a_restart_that_fails_is_tried_again_later(void **state)
{
    static struct kit_gen gen;
    struct clock *clock = clock_create_fake(NS_PER_S, 0);
    struct trap trap = {0};
    struct sched_kit kit;
    char link[1024];

    (void)state;
    snprintf(link, sizeof(link), "%s/hearth", test_dir());
    assert_int_equal(symlink(fake_worker_program(), link), 0);
    open_kit(&kit, &trap, link, clock);
    run(&kit, &gen, 1);
    kit_gen_fini(&gen);
    assert_int_equal(unlink(link), 0);
    kill(engine_worker_pid(kit.engine), SIGKILL);
    /* Of its death, of the attempt, or, if the idle scheduler was faster with these, as the third
     * one. */
    expect_error(&kit, "");
    expect_error(&kit, "");
    expect_error(&kit, "is restarted in 1 s");
    assert_int_equal(symlink(fake_worker_program(), link), 0);
    expect_error(&kit, "is restarted in 1 s"); /* the clock stands still */
    clock_fake_advance(clock, 2 * NS_PER_S);
    run(&kit, &gen, 1);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    assert_true(gen.first_usage.ram > PROMPT / 2);
    expect_cold(&gen, 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* Nor does the end of a server wait for a process that is still loading. */
static void test_a_restart_ends_with_the_scheduler(void **state)
{
    static struct kit_gen gen;
    struct trap trap = {0};
    struct sched_kit kit;
    char program[1024], loading[1024];

    (void)state;
    snprintf(program, sizeof(program), "%s/program", test_dir());
    snprintf(loading, sizeof(loading), "%s/loading", test_dir());
    assert_int_equal(symlink(fake_worker_program(), program), 0);
    open_kit(&kit, &trap, program, clock_real());
    assert_int_equal(unlink(program), 0);
    FILE *script = fopen(program, "w");
    assert_non_null(script);
    fprintf(script, "#!/bin/sh\n: >'%s'\nexec sleep 1000\n", loading);
    assert_int_equal(fclose(script), 0);
    assert_int_equal(chmod(program, 0700), 0);
    kill(engine_worker_pid(kit.engine), SIGKILL);
    kit_gen_init(&gen, &kit, 1, PROMPT, ANSWER);
    kit_gen_submit(&kit, &gen);
    while (access(loading, F_OK) != 0)
        clock_sleep_ns(clock_real(), NS_PER_MS);
    sched_kit_close(&kit); /* a load may be silent for two minutes, the time that a test has */
    kit_gen_wait(&gen);
    assert_int_not_equal(gen.result.end, GEN_END_LENGTH);
    kit_gen_fini(&gen);
}

/* What kills every process: each restart comes after a longer pause, up to half a minute, and the
 * last one is never made. */
static void test_an_engine_that_dies_again_and_again_is_restarted_slowly(void **state)
{
    static struct kit_gen gen;
    struct clock *clock = clock_create_fake(NS_PER_S, 0);
    struct trap trap = {.always = true};
    struct sched_kit kit;
    struct errinfo info;
    unsigned longest_s = 0;

    (void)state;
    open_kit(&kit, &trap, fake_worker_program(), clock);
    while (restarts(&kit) < 20) {
        run(&kit, &gen, 1);
        assert_int_equal(gen.result.end, GEN_END_ERROR);
        longest_s = MAX(longest_s, gen.result.info.retry_s);
        /* Time goes on for a pause only: a death that is noticed late must not seem to come after a
         * long life. */
        if (strstr(gen.result.info.text, "is restarted in") != NULL)
            clock_fake_advance(clock, gen.result.info.retry_s * NS_PER_S);
        kit_gen_fini(&gen);
    }
    assert_int_equal(longest_s, 30);
    atomic_store(&trap.always, false);
    for (bool died = true; died;) { /* of the last death, perhaps */
        clock_fake_advance(clock, 31 * NS_PER_S);
        run(&kit, &gen, 1);
        died = gen.result.end == GEN_END_ERROR;
        kit_gen_fini(&gen);
    }
    assert_false(sched_is_dead(kit.sched, &info));
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* Its worker is away for an hour. Failed restarts are no deaths: the next death, soon after the
 * restart that succeeds, is the second one, with a pause of a second. */
static void test_failed_restarts_are_no_deaths(void **state)
{
    static struct kit_gen gen;
    struct clock *clock = clock_create_fake(NS_PER_S, 0);
    struct trap trap = {0};
    struct sched_kit kit;
    struct errinfo info;
    char link[1024];

    (void)state;
    snprintf(link, sizeof(link), "%s/hearth", test_dir());
    assert_int_equal(symlink(fake_worker_program(), link), 0);
    open_kit(&kit, &trap, link, clock);
    assert_int_equal(unlink(link), 0);
    kill(engine_worker_pid(kit.engine), SIGKILL);
    for (int i = 0; i < 120; i++) {
        expect_error(&kit, "");
        clock_fake_advance(clock, 30 * NS_PER_S);
    }
    assert_true(sched_is_dead(kit.sched, &info));
    assert_true(strlen(info.text) > 0);
    assert_int_equal(symlink(fake_worker_program(), link), 0);
    clock_fake_advance(clock, 30 * NS_PER_S);
    run(&kit, &gen, 1);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    kit_gen_fini(&gen);
    assert_false(sched_is_dead(kit.sched, &info));
    kill(engine_worker_pid(kit.engine), SIGKILL);
    do
        expect_error(&kit, "");
    while (!sched_is_dead(kit.sched, &info));
    expect_error(&kit, "is restarted in 1 s");
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

TEST_SUITE(TEST(test_death_in_every_call), TEST(test_death_while_idle_costs_nothing),
           TEST(test_death_in_a_restore_costs_no_state),
           TEST(test_a_restart_that_fails_is_tried_again_later),
           TEST(test_a_restart_ends_with_the_scheduler),
           TEST(test_an_engine_that_dies_again_and_again_is_restarted_slowly),
           TEST(test_failed_restarts_are_no_deaths))
