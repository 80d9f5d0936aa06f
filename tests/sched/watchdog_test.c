/*
 * watchdog_test.c: an engine that gives no sign of life is noticed and its request ended; one that
 * is slow is left alone.
 *
 * The clock is the test's, and the engine stands still where the test says.
 */
#include <semaphore.h>
#include <string.h>

#include "base/clock.h"
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
    sched_watch(rig->kit.sched);
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
    sched_watch(rig.kit.sched);
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

TEST_SUITE(TEST(test_a_call_that_hangs), TEST(test_slow_is_not_stalled))
