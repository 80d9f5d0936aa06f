/*
 * watchdog_test.c: an engine that gives no sign of life is noticed and its request ended; one that
 * is slow is left alone.
 *
 * The clock is the test's, and the engine stands still where the test says.
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { PIECE = 16, PROMPT = 8 * PIECE, ANSWER = 2 };

/* Every piece of work waits for the test. */
struct gate {
    sem_t in, go;
};

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0) /* by a signal */
        ;
}

static void on_piece(struct engine *engine, void *arg)
{
    struct gate *gate = arg;

    (void)engine;
    sem_post(&gate->in);
    wait_for(&gate->go);
}

struct rig {
    struct gate gate;
    struct clock *clock;
    struct sched_kit kit;
};

static void rig_open(struct rig *rig)
{
    struct engine_fake_options fake = {
        .chunk = PROMPT, .piece = PIECE, .on_piece = on_piece, .arg = &rig->gate};

    sem_init(&rig->gate.in, 0, 0);
    sem_init(&rig->gate.go, 0, 0);
    rig->clock = clock_create_fake(1, 1);
    sched_kit_open(&rig->kit, &fake, 0, &(struct sched_options){.clock = rig->clock});
}

static void rig_close(struct rig *rig)
{
    sched_kit_close(&rig->kit);
    clock_destroy_fake(&rig->clock);
    sem_destroy(&rig->gate.in);
    sem_destroy(&rig->gate.go);
}

static struct sched_stats stats_of(struct rig *rig)
{
    struct sched_stats stats;

    sched_get_stats(rig->kit.sched, &stats);
    return stats;
}

static void look_after(struct rig *rig, uint64_t seconds)
{
    clock_fake_advance(rig->clock, seconds * NS_PER_S);
    sched_run_watchdog(rig->kit.sched);
}

/* A call that stands still is noticed after 30 s, once, and asked to return: its request ends, the
 * next one is answered. */
static void test_a_call_that_hangs(void **state)
{
    static struct kit_gen gen, next;
    static struct rig rig;

    (void)state;
    rig_open(&rig);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, ANSWER);
    kit_gen_submit(&rig.kit, &gen);
    wait_for(&rig.gate.in);
    sched_run_watchdog(rig.kit.sched);
    look_after(&rig, SCHED_STALL_S - 1);
    assert_false(sched_stalled(rig.kit.sched));
    look_after(&rig, 1);
    assert_true(sched_stalled(rig.kit.sched));
    look_after(&rig, SCHED_STALL_S);
    assert_int_equal(stats_of(&rig).stalls, 1);
    assert_int_equal(stats_of(&rig).stalled, 1);
    sem_post(&rig.gate.go);
    kit_gen_wait(&gen);
    assert_int_equal(gen.result.end, GEN_END_ERROR);
    assert_non_null(strstr(gen.result.info.text, "computed nothing for 30 s"));
    kit_gen_init(&next, &rig.kit, 2, PIECE, 1);
    kit_gen_submit(&rig.kit, &next);
    wait_for(&rig.gate.in);
    sem_post(&rig.gate.go);
    kit_gen_wait(&next);
    assert_int_equal(next.result.end, GEN_END_LENGTH);
    look_after(&rig, 1);
    assert_false(sched_stalled(rig.kit.sched));
    assert_int_equal(stats_of(&rig).stalled, 0);
    kit_gen_fini(&gen);
    kit_gen_fini(&next);
    rig_close(&rig);
}

/* One batch of many pieces, each of which takes nearly 30 s; and an engine without work. */
static void test_slow_is_not_stalled(void **state)
{
    static struct kit_gen gen;
    static struct rig rig;

    (void)state;
    rig_open(&rig);
    look_after(&rig, 10 * SCHED_STALL_S);
    look_after(&rig, 10 * SCHED_STALL_S);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, ANSWER);
    kit_gen_submit(&rig.kit, &gen);
    for (unsigned pieces = PROMPT / PIECE + ANSWER - 1; pieces > 0; pieces--) {
        wait_for(&rig.gate.in);
        look_after(&rig, SCHED_STALL_S - 1);
        sem_post(&rig.gate.go);
    }
    kit_gen_wait(&gen);
    assert_int_equal(gen.result.end, GEN_END_LENGTH);
    look_after(&rig, 10 * SCHED_STALL_S);
    assert_int_equal(stats_of(&rig).stalls, 0);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* ---- a scheduler that turns and computes nothing ---- */

struct refusals {
    struct gate gate;
    atomic_bool refusing;
};

static bool refuses(const struct engine_item *items, size_t count, void *arg)
{
    struct refusals *refusals = arg;

    (void)items, (void)count;
    if (!atomic_load(&refusals->refusing))
        return false;
    sem_post(&refusals->gate.in);
    wait_for(&refusals->gate.go);
    return true;
}

/* Two jobs, of which every batch is refused: both stand at the gate in the second one. */
static void submit_two(struct rig *rig, struct refusals *refusals, struct kit_gen *gens)
{
    for (uint32_t i = 0; i < 2; i++) {
        kit_gen_init(&gens[i], &rig->kit, i + 1, PROMPT, ANSWER);
        kit_gen_submit(&rig->kit, &gens[i]);
        if (i == 0) {
            wait_for(&refusals->gate.in);
            continue;
        }
        sem_post(&refusals->gate.go);
        wait_for(&refusals->gate.in);
    }
}

/* The youngest job is ended, the log says so, and the other one goes on. */
static void test_turns_without_computing(void **state)
{
    static struct kit_gen gens[2];
    static struct rig rig;
    struct refusals refusals = {.refusing = true};
    struct engine_fake_options fake = {.chunk = PROMPT, .refuses = refuses, .arg = &refusals};
    int pipes[2];
    char line[4096] = "";

    (void)state;
    sem_init(&refusals.gate.in, 0, 0);
    sem_init(&refusals.gate.go, 0, 0);
    assert_int_equal(pipe(pipes), 0);
    struct log *log = log_create(
        &(struct log_options){.fd = pipes[1], .level = LOG_LEVEL_WARN, .clock = clock_real()});
    rig.clock = clock_create_fake(1, 1);
    sched_kit_open(&rig.kit, &fake, 0,
                   &(struct sched_options){.clock = rig.clock, .log = log, .model = "toy"});
    submit_two(&rig, &refusals, gens);
    sched_run_watchdog(rig.kit.sched);
    look_after(&rig, SCHED_STALL_S);
    assert_true(sched_stalled(rig.kit.sched));
    atomic_store(&refusals.refusing, false);
    sem_post(&refusals.gate.go);
    for (int i = 0; i < 2; i++)
        kit_gen_wait(&gens[i]);
    assert_int_equal(gens[0].result.end, GEN_END_LENGTH);
    assert_int_equal(gens[1].result.end, GEN_END_ERROR);
    assert_non_null(strstr(gens[1].result.info.text, "computed nothing for 30 s"));
    assert_true(read(pipes[0], line, sizeof(line) - 1) > 0);
    assert_non_null(strstr(line, "the engine computes nothing; its youngest request is ended"));
    assert_non_null(strstr(line, "model=toy seconds=30 jobs=2"));
    for (int i = 0; i < 2; i++)
        kit_gen_fini(&gens[i]);
    sched_kit_close(&rig.kit);
    clock_destroy_fake(&rig.clock);
    log_destroy(&log);
    close(pipes[0]);
    close(pipes[1]);
    sem_destroy(&refusals.gate.in);
    sem_destroy(&refusals.gate.go);
}

/* ---- what a batch that was aborted leaves ---- */

static void abort_when_armed(struct engine *engine, void *arg)
{
    if (atomic_load((atomic_bool *)arg))
        engine_abort(engine);
}

/* A finished sequence stays on the device, then a batch of another one is aborted. */
static uint32_t device_after_abort(kind_set kinds)
{
    atomic_bool armed = false;
    struct engine_fake_options fake = {.kinds = kinds,
                                       .chunk = PROMPT,
                                       .piece = PIECE,
                                       .on_piece = abort_when_armed,
                                       .arg = &armed};
    static struct kit_gen gen, other, again;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, 0, &(struct sched_options){.park = true});
    kit_gen_init(&gen, &kit, 1, PROMPT, 1);
    kit_gen_run(&kit, &gen);
    atomic_store(&armed, true);
    kit_gen_init(&other, &kit, 2, PROMPT, ANSWER);
    kit_gen_run(&kit, &other);
    assert_int_equal(other.result.end, GEN_END_ERROR);
    atomic_store(&armed, false);
    kit_gen_init(&again, &kit, 1, PROMPT + PIECE, ANSWER); /* goes on where the first one ended */
    kit_gen_run(&kit, &again);
    assert_int_equal(again.result.end, GEN_END_LENGTH);
    uint32_t device = again.result.usage.device;
    kit_gen_fini(&gen);
    kit_gen_fini(&other);
    kit_gen_fini(&again);
    sched_kit_close(&kit);
    return device;
}

/* The library moves recurrent states of all sequences while it computes: none is used again. */
static void test_an_abort_and_other_sequences(void **state)
{
    (void)state;
    assert_int_equal(device_after_abort(KIND_BIT(KIND_FULL)), PROMPT);
    assert_int_equal(device_after_abort(KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT)), 0);
}

TEST_SUITE(TEST(test_an_abort_and_other_sequences), TEST(test_a_call_that_hangs),
           TEST(test_slow_is_not_stalled), TEST(test_turns_without_computing))
