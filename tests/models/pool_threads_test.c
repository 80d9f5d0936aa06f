/* pool_threads_test.c: many threads take, give back, load and unload models at once; for TSan, and
 * for what must hold afterwards. */
#include "models/pool.h"

#include <stdatomic.h>

#include "support/pool_kit.h"
#include "support/test.h"

enum { THREADS = 4, MODELS = 4, ROUNDS = 60 };

struct crowd {
    struct pool_kit kit;
    uint64_t seed;
    atomic_uint served, refused;
};

struct member {
    struct crowd *crowd;
    struct thread thread;
    uint64_t random;
};

/* The model is the one that was asked for, and whole as long as it is held. */
static void hold(struct crowd *crowd, struct model *model, const char *name, uint64_t *random)
{
    assert_string_equal(model_name(model), name);
    if (test_random_below(random, 4) == 0)
        assert_int_equal(pool_kit_run(model, (uint32_t)test_random_below(random, 3), 40).prompt,
                         40);
    pool_release(crowd->kit.pool, model);
    atomic_fetch_add(&crowd->served, 1);
}

static void ask(struct crowd *crowd, const char *name, uint64_t *random)
{
    struct pool_client client;

    pool_client_init(&client);
    enum pool_answer answer = pool_client_ask(&crowd->kit, &client, name);
    if (answer == POOL_ANSWER_WAITING && test_random_below(random, 4) == 0)
        pool_cancel(crowd->kit.pool, &client.wait);
    if (answer == POOL_ANSWER_WAITING)
        (void)pool_client_wait(&client);
    if (client.wait.model != NULL)
        hold(crowd, client.wait.model, name, random);
    else
        atomic_fetch_add(&crowd->refused, 1);
    pool_client_fini(&client);
}

static void look(struct crowd *crowd)
{
    struct sched_stats stats;
    struct pool_view view;

    for (size_t i = 0; pool_view(crowd->kit.pool, i, &view); i++)
        assert_true(view.state < POOL_STATE_COUNT);
    pool_get_stats(crowd->kit.pool, &stats);
    pool_check(crowd->kit.pool);
}

static void act(struct member *member)
{
    struct crowd *crowd = member->crowd;
    size_t index = (size_t)test_random_below(&member->random, MODELS);
    const char name[] = {(char)('a' + index), '\0'};

    switch (test_random_below(&member->random, 10)) {
    case 0:
        assert_ok(pool_unload(crowd->kit.pool, str_from(name), NULL));
        break;
    case 1:
        assert_ok(pool_load(crowd->kit.pool, str_from(name), NULL));
        break;
    case 2:
        pool_kit_set_file(&crowd->kit, index,
                          (struct pool_kit_file){
                              .content = test_random_below(&member->random, 3) * MODELS + index,
                              .stamp = test_random(&member->random),
                              .bytes = 100});
        break;
    case 3:
        look(crowd);
        break;
    default:
        ask(crowd, name, &member->random);
    }
}

static void run(void *arg)
{
    struct member *member = arg;

    for (int i = 0; i < ROUNDS; i++)
        act(member);
}

static void test_a_crowd(void **state)
{
    struct member members[THREADS] = {0};
    struct crowd crowd = {.seed = test_seed()};
    struct pool_view view;

    (void)state;
    pool_kit_open(&crowd.kit,
                  &(struct pool_options){.models_max = 2, .bytes_max = 350, .check_ms = 1}, MODELS);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){.crowd = &crowd, .random = crowd.seed + (uint64_t)i};
        assert_ok(thread_start(&members[i].thread, "member", run, &members[i], NULL));
    }
    for (int i = 0; i < THREADS; i++)
        thread_join(&members[i].thread);
    assert_true(atomic_load(&crowd.served) > 0);
    size_t ready = 0;
    for (size_t i = 0; pool_view(crowd.kit.pool, i, &view); i++) {
        assert_int_equal(view.uses, 0);
        assert_int_equal(view.waits, 0);
        ready += view.state == POOL_READY;
    }
    assert_true(ready <= 2);
    pool_kit_close(&crowd.kit);
}

/* ---- a client that leaves at the very moment it asks ---- */

struct leaver {
    struct pool *pool;
    struct pool_client client;
    atomic_bool asks;
};

static void leave(void *arg)
{
    struct leaver *leaver = arg;

    while (!atomic_load(&leaver->asks))
        ;
    pool_cancel(leaver->pool, &leaver->client.wait);
    pool_cancel(leaver->pool, &leaver->client.wait);
}

static void test_cancel_meets_acquire(void **state)
{
    enum { TIMES = 40 };
    struct pool_kit kit;

    (void)state;
    pool_kit_open(&kit, &(struct pool_options){.models_max = 1}, 2);
    for (int i = 0; i < TIMES; i++) {
        struct leaver leaver = {.pool = kit.pool};
        struct thread thread = {0};

        pool_client_init(&leaver.client);
        assert_ok(thread_start(&thread, "leaver", leave, &leaver, NULL));
        atomic_store(&leaver.asks, true);
        if (pool_client_ask(&kit, &leaver.client, i % 2 ? "a" : "b") == POOL_ANSWER_WAITING)
            (void)pool_client_wait(&leaver.client);
        thread_join(&thread);
        if (leaver.client.wait.model != NULL)
            pool_release(kit.pool, leaver.client.wait.model);
        pool_client_fini(&leaver.client);
    }
    pool_kit_close(&kit);
}

TEST_SUITE(TEST(test_a_crowd), TEST(test_cancel_meets_acquire))
