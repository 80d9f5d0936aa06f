/* waiting_test.c: a full queue, and the tenants in front of it. */
#include "sched/waiting.h"

#include <semaphore.h>
#include <stdio.h>

#include "support/sched_kit.h"
#include "support/test.h"

/* How many are accepted. */
static uint32_t submit_until_refused(struct sched_kit *kit, struct kit_gen *gens, size_t *used,
                                     const char *tenant)
{
    for (uint32_t accepted = 0;; accepted++) {
        struct kit_gen *gen = &gens[*used];
        kit_gen_init(gen, kit, (uint32_t)*used + 1, 40, 2);
        gen->gen.tenant = tenant;
        enum err err = sched_submit(kit->sched, &gen->gen, NULL);
        if (err != ERR_OK) {
            assert_int_equal(err, ERR_BUSY);
            kit_gen_fini(gen);
            return accepted;
        }
        ++*used;
    }
}

/* A tenant that comes after a flood has its share, and the flood keeps what it has. */
static void test_a_full_queue_has_room_for_other_tenants(void **state)
{
    struct engine_fake_options fake = {0};
    struct sched_options options = {.parallel = 1, .queue = 8};
    static struct kit_gen first, gens[64];
    struct sched_stats stats;
    struct sched_kit kit;
    size_t used;
    sem_t holds, go;

    (void)state;
    sem_init(&holds, 0, 0);
    sem_init(&go, 0, 0);
    sched_kit_open(&kit, &fake, 0, &options);
    for (int round = 0; round < 2; round++) { /* what was taken is given back */
        used = 0;
        kit_gen_init(&first, &kit, 1, 20, 2);
        first.holds = &holds;
        first.go = &go;
        kit_gen_submit(&kit, &first);
        sem_wait(&holds); /* none is admitted from now on */
        assert_int_equal(submit_until_refused(&kit, gens, &used, "a"), 8);
        assert_int_equal(submit_until_refused(&kit, gens, &used, "b"), 4);
        assert_int_equal(submit_until_refused(&kit, gens, &used, "c"), 2);
        assert_int_equal(submit_until_refused(&kit, gens, &used, "a"), 0);
        assert_int_equal(submit_until_refused(&kit, gens, &used, "d"), 2);
        sem_post(&go);
        kit_gen_wait(&first);
        kit_gen_fini(&first);
        for (size_t i = 0; i < used; i++) {
            kit_gen_wait(&gens[i]);
            assert_int_equal(gens[i].result.end, GEN_END_LENGTH);
            kit_gen_fini(&gens[i]);
        }
    }
    assert_ok(sched_wait_turn(kit.sched, 30000, NULL));
    sched_get_stats(kit.sched, &stats);
    assert_int_equal(stats.queued, 0);
    sched_kit_close(&kit);
    sem_destroy(&holds);
    sem_destroy(&go);
}

/* More tenants than are counted share the last entry. */
static void test_more_tenants_than_shares(void **state)
{
    enum { TENANTS = SCHED_TENANTS_MAX + 3 };
    struct engine_fake_options fake = {0};
    struct sched_options options = {.parallel = 1, .queue = 1};
    static struct kit_gen first, gens[TENANTS];
    char names[TENANTS][8];
    struct sched_kit kit;
    sem_t holds, go;
    unsigned taken = 0;

    (void)state;
    sem_init(&holds, 0, 0);
    sem_init(&go, 0, 0);
    sched_kit_open(&kit, &fake, 0, &options);
    kit_gen_init(&first, &kit, 1, 20, 2);
    first.holds = &holds;
    first.go = &go;
    kit_gen_submit(&kit, &first);
    sem_wait(&holds);
    for (uint32_t i = 0; i < TENANTS; i++) {
        snprintf(names[i], sizeof(names[i]), "t%u", i);
        kit_gen_init(&gens[i], &kit, i + 1, 20, 1);
        gens[i].gen.tenant = names[i];
        enum err err = sched_submit(kit.sched, &gens[i].gen, NULL);
        gens[i].done = err != ERR_OK;
        taken += err == ERR_OK;
    }
    assert_int_equal(taken, SCHED_TENANTS_MAX);
    sem_post(&go);
    assert_true(sched_drain(kit.sched, 60000));
    kit_gen_fini(&first);
    for (uint32_t i = 0; i < TENANTS; i++)
        kit_gen_fini(&gens[i]);
    sched_kit_close(&kit);
    sem_destroy(&holds);
    sem_destroy(&go);
}

TEST_SUITE(TEST(test_a_full_queue_has_room_for_other_tenants), TEST(test_more_tenants_than_shares))
