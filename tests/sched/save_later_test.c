/*
 * save_later_test.c: state that is stored after the answer, once there is time: none of it is lost
 * on any path of a sequence, and no request waits for it.
 *
 * Where a test needs state that is not stored yet, the scheduler waits for an hour before it does
 * that by itself.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sched/sched.h"
#include "support/fake_worker.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum {
    FULL = 1,
    RECURRENT = 8,
    RAM = 8 << 20,
    HOUR_MS = 3600 * 1000,
    PROMPT = 300,
    SHORT = 41, /* with its answer: whole blocks, one object */
    ANSWER = 8
};

static struct engine_fake_options fake_of(kind_set kinds)
{
    return (struct engine_fake_options){
        .kinds = kinds, .chunk = 64, .context = 4096, .sequences = 8};
}

static void open_lingering(struct sched_kit *kit, kind_set kinds, struct clock *clock)
{
    struct engine_fake_options fake = fake_of(kinds);
    struct sched_options options = {.park = true, .linger_ms = HOUR_MS, .clock = clock};

    sched_kit_open(kit, &fake, RAM, &options);
}

static struct sched_stats sched_stats_of(struct sched_kit *kit)
{
    struct sched_stats stats;

    sched_get_stats(kit->sched, &stats);
    return stats;
}

static uint64_t objects(struct sched_kit *kit)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    hearth_get_stats(kit->cache, NULL, &stats);
    return stats.objects;
}

/* Numbers are published after the turn in which an answer was told: each is waited for, up to a
 * limit that a slow machine does not reach. */
#define WAIT_UNTIL(condition)                                       \
    do {                                                            \
        for (int tries = 0; !(condition) && tries < 20000; tries++) \
            usleep(1000);                                           \
        assert_true(condition);                                     \
    } while (0)

static void wait_for_unsaved(struct sched_kit *kit, uint32_t wanted)
{
    WAIT_UNTIL(sched_stats_of(kit).unsaved == wanted);
}

/* Leaves one answer of a seed that is not stored. */
static void run(struct sched_kit *kit, struct kit_gen *gen, uint32_t seed, uint32_t count)
{
    kit_gen_init(gen, kit, seed, count, ANSWER);
    kit_gen_run(kit, gen);
    assert_int_equal(gen->result.end, GEN_END_LENGTH);
}

static void run_once(struct sched_kit *kit, uint32_t seed, uint32_t count)
{
    static struct kit_gen gen;

    run(kit, &gen, seed, count);
    kit_gen_fini(&gen);
}

/* A scheduler that comes after this one finds so much of the prompt in the cache, and answers as
 * one without. */
static void expect_held(struct sched_kit *kit, const struct kit_gen *like, uint32_t tokens)
{
    struct sched_kit cold;
    struct engine_fake_options fake = fake_of(engine_facts(kit->engine)->kinds);
    static struct kit_gen gen, reference;

    sched_destroy(&kit->sched);
    assert_ok(sched_create(&kit->sched,
                           &(struct sched_options){.engine = kit->engine, .park = true}, NULL));
    sched_kit_open(&cold, &fake, 0, NULL);
    kit_gen_init(&gen, kit, 1, like->gen.tokens_count, ANSWER);
    memcpy(gen.prompt, like->prompt, sizeof(gen.prompt));
    kit_gen_init(&reference, &cold, 1, like->gen.tokens_count, ANSWER);
    memcpy(reference.prompt, like->prompt, sizeof(gen.prompt));
    kit_gen_run(kit, &gen);
    kit_gen_run(&cold, &reference);
    assert_int_equal(gen.result.usage.ram, tokens);
    assert_int_equal(gen.result.usage.device, 0);
    kit_gen_expect_same(&gen, &reference, false);
    kit_gen_fini(&gen);
    kit_gen_fini(&reference);
    sched_kit_close(&cold);
}

/* By itself, and before a drain is over. */
static void test_stored_when_idle(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, NULL);
    run(&kit, &gen, 1, PROMPT);
    assert_true(sched_drain(kit.sched, 60000));
    assert_true(objects(&kit) > 0);
    assert_int_equal(sched_stats_of(&kit).unsaved_lost, 0);
    expect_held(&kit, &gen, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* The client that comes back at once does not wait for an export: there has been none. */
static void test_next_request_comes_first(void **state)
{
    static struct kit_gen gen, again;
    struct sched_kit kit;

    (void)state;
    open_lingering(&kit, FULL, NULL);
    run(&kit, &gen, 1, PROMPT);
    wait_for_unsaved(&kit, 1);
    assert_int_equal(objects(&kit), 0);
    run(&kit, &again, 1, PROMPT);
    assert_int_equal(again.result.usage.device, PROMPT - 1);
    kit_gen_expect_same(&gen, &again, false);
    assert_int_equal(objects(&kit), 0);
    wait_for_unsaved(&kit, 1); /* the second has all that the first had, which is gone */
    kit_gen_fini(&again);
    expect_held(&kit, &gen, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* Turns: each goes on in the sequence of the one before. Of a model whose state cannot be cut the
 * end of each turn is stored. */
static void turns(kind_set kinds)
{
    enum { MORE = 40, TURNS = 4 };
    static struct kit_gen turn[2];
    struct sched_kit kit;

    open_lingering(&kit, kinds, NULL);
    run(&kit, &turn[0], 1, PROMPT);
    for (int i = 1; i < TURNS; i++) {
        struct kit_gen *last = &turn[(i + 1) % 2], *next = &turn[i % 2];
        uint32_t count = last->gen.tokens_count;
        kit_gen_init(next, &kit, (uint32_t)i + 1, count + ANSWER + MORE, ANSWER);
        memcpy(next->prompt, last->prompt, count * sizeof(token_id));
        memcpy(next->prompt + count, last->answer, ANSWER * sizeof(token_id));
        kit_gen_run(&kit, next);
        assert_int_equal(next->result.usage.device, count + ANSWER - 1);
        wait_for_unsaved(&kit, 1);
        if (i < TURNS - 1)
            kit_gen_fini(last);
    }
    /* The one before the last, asked again, after a restart: its end was in the middle of a
     * sequence. */
    const struct kit_gen *before = &turn[TURNS % 2], *last = &turn[(TURNS + 1) % 2];
    expect_held(&kit, last, last->gen.tokens_count - 1);
    static struct kit_gen branch;
    kit_gen_init(&branch, &kit, 99, before->gen.tokens_count + ANSWER + MORE, ANSWER);
    memcpy(branch.prompt, before->prompt, before->gen.tokens_count * sizeof(token_id));
    memcpy(branch.prompt + before->gen.tokens_count, before->answer, ANSWER * sizeof(token_id));
    expect_held(&kit, &branch, before->gen.tokens_count + ANSWER - (kinds == FULL ? 0 : 1));
    kit_gen_fini(&branch);
    kit_gen_fini(&turn[0]);
    kit_gen_fini(&turn[1]);
    sched_kit_close(&kit);
}

static void test_turns_lose_nothing(void **state)
{
    (void)state;
    turns(FULL);
    turns(FULL | RECURRENT);
}

/* Not more than a few, and not longer than a second, however busy the engine is: if it costs next
 * to nothing, as on a CPU. */
static void test_late_and_many_are_stored(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_kit kit;

    (void)state;
    fake.sequences = 16; /* room for all */
    sched_kit_open(&kit, &fake, RAM,
                   &(struct sched_options){.park = true, .linger_ms = HOUR_MS, .clock = clock});
    for (uint32_t seed = 1; seed <= 6; seed++)
        run_once(&kit, seed, SHORT); /* it delays no other */
    run_once(&kit, 1, SHORT);
    wait_for_unsaved(&kit, 5); /* four, and the last one */
    assert_true(objects(&kit) > 0);
    clock_fake_advance(clock, 2 * NS_PER_S);
    for (uint32_t n = 0; n < 8; n++)
        run_once(&kit, 1, SHORT); /* one is stored in each turn */
    wait_for_unsaved(&kit, 1);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* Cells that are needed: what leaves the device for them is stored first. */
static void test_stored_before_it_leaves(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    fake.context = 1024;
    sched_kit_open(&kit, &fake, RAM, &(struct sched_options){.park = true, .linger_ms = HOUR_MS});
    run(&kit, &gen, 1, PROMPT);
    run_once(&kit, 2, 900);
    assert_true(objects(&kit) > 0);
    assert_true(sched_stats_of(&kit).reclaimed > 0);
    expect_held(&kit, &gen, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* What a client wants to be kept for longer is stored as it said, although a longer sequence has
 * all of it. */
static void test_wishes_are_stored(void **state)
{
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    open_lingering(&kit, FULL, NULL);
    kit_gen_init(&gen, &kit, 1, PROMPT, ANSWER);
    gen.gen.cache.ttl_s = 3600;
    kit_gen_run(&kit, &gen);
    kit_gen_fini(&gen);
    assert_int_equal(objects(&kit), 0);
    run_once(&kit, 1, PROMPT);
    WAIT_UNTIL(objects(&kit) > 0);
    sched_kit_close(&kit);
}

/* Who does not want to be stored has nothing to hand over to, and what was there before is kept. */
static void test_hand_over_to_one_that_does_not_write(void **state)
{
    static struct kit_gen gen, again;
    struct sched_kit kit;

    (void)state;
    open_lingering(&kit, FULL, NULL);
    run(&kit, &gen, 1, PROMPT);
    kit_gen_init(&again, &kit, 1, PROMPT, 2 * ANSWER);
    again.gen.cache.no_write = true;
    kit_gen_run(&kit, &again);
    wait_for_unsaved(&kit, 0);
    kit_gen_fini(&again);
    expect_held(&kit, &gen, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* Guests leave when a job has much to compute beside them, and come back from memory. */
static void test_guests_leave(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, NULL);
    for (uint32_t seed = 1; seed <= 4; seed++) {
        run_once(&kit, seed, PROMPT);
        wait_for_unsaved(&kit, 0);
        WAIT_UNTIL(sched_stats_of(&kit).idle == 1);
    }
    kit_gen_init(&gen, &kit, 1, PROMPT, ANSWER);
    kit_gen_run(&kit, &gen);
    assert_int_equal(gen.result.usage.ram, PROMPT - 1);
    /* one token and a short answer: the other one did not leave */
    WAIT_UNTIL(sched_stats_of(&kit).idle == 2);
    expect_held(&kit, &gen, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* What is not stored yet is stored before it leaves, which is worth it for long work only. */
static void test_guests_are_stored_for_long_work(void **state)
{
    static struct kit_gen gen;
    struct sched_kit kit;

    (void)state;
    open_lingering(&kit, FULL, NULL);
    run(&kit, &gen, 1, PROMPT);
    run_once(&kit, 2, SHORT);
    WAIT_UNTIL(sched_stats_of(&kit).idle == 2);
    assert_int_equal(objects(&kit), 0);
    run_once(&kit, 3, PROMPT);
    WAIT_UNTIL(sched_stats_of(&kit).idle == 1);
    expect_held(&kit, &gen, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* Whoever goes another way from the middle of a sequence takes it over, when it has much to
 * compute; the end of the old one is in memory. */
static void test_ends_leave(void **state)
{
    static struct kit_gen gen, branch, small;
    struct sched_kit kit;

    (void)state;
    open_lingering(&kit, FULL, NULL);
    run(&kit, &gen, 1, PROMPT);
    kit_gen_init(&small, &kit, 2, PROMPT / 2 + 4, ANSWER);
    memcpy(small.prompt, gen.prompt, PROMPT / 2 * sizeof(token_id));
    kit_gen_run(&kit, &small);
    assert_int_equal(small.result.usage.device, PROMPT / 2);
    assert_int_equal(sched_stats_of(&kit).forks, 1);
    assert_int_equal(objects(&kit), 0);
    kit_gen_init(&branch, &kit, 3, PROMPT, ANSWER);
    memcpy(branch.prompt, gen.prompt, PROMPT / 2 * sizeof(token_id));
    kit_gen_run(&kit, &branch);
    assert_int_equal(branch.result.usage.device, PROMPT / 2);
    assert_int_equal(sched_stats_of(&kit).forks, 1);
    assert_true(objects(&kit) > 0);
    expect_held(&kit, &gen, PROMPT - 1);
    expect_held(&kit, &branch, PROMPT - 1);
    kit_gen_fini(&branch);
    kit_gen_fini(&small);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

/* A job that is already queued finds its resident, although another job starts before it. */
static void test_awaited_ones_stay(void **state)
{
    enum { MORE = 100 };
    struct engine_fake_options fake = fake_of(FULL);
    static struct kit_gen first[2], then[2];
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, RAM, NULL);
    for (uint32_t i = 0; i < 2; i++)
        kit_gen_init(&first[i], &kit, i + 1, PROMPT, ANSWER);
    kit_gen_run_both(&kit, &first[0], &first[1], 11);
    wait_for_unsaved(&kit, 0);
    for (uint32_t i = 0; i < 2; i++) {
        kit_gen_init(&then[i], &kit, i + 21, PROMPT + MORE, ANSWER);
        memcpy(then[i].prompt, first[i].prompt, PROMPT * sizeof(token_id));
    }
    kit_gen_run_both(&kit, &then[0], &then[1], 12);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(then[i].result.usage.device, PROMPT);
        kit_gen_fini(&then[i]);
        kit_gen_fini(&first[i]);
    }
    sched_kit_close(&kit);
}

/* Without a cache the device is all there is. */
static void test_guests_without_a_cache_stay(void **state)
{
    struct engine_fake_options fake = fake_of(FULL);
    struct sched_kit kit;

    (void)state;
    sched_kit_open(&kit, &fake, 0, NULL);
    for (uint32_t seed = 1; seed <= 5; seed++)
        run_once(&kit, seed, PROMPT);
    WAIT_UNTIL(sched_stats_of(&kit).idle == 5);
    sched_kit_close(&kit);
}

/* State that is lost with a dead engine is counted, and no answer uses it. */
static void test_dead_engine(void **state)
{
    static const struct engine_fake_options fake = {
        .kinds = FULL, .context = 2048, .sequences = 4, .chunk = 64};
    static struct kit_gen gen, again;
    struct errinfo info = {0};
    struct engine *engine;
    struct sched_kit kit;

    (void)state;
    if (fake_worker_load(&engine, &fake, &(struct engine_worker_options){0}, &info) != ERR_OK)
        fail_msg("%s", info.text);
    sched_kit_open_engine(&kit, engine, RAM,
                          &(struct sched_options){.park = true, .linger_ms = HOUR_MS});
    run(&kit, &gen, 1, PROMPT);
    wait_for_unsaved(&kit, 1);
    kill(engine_worker_pid(engine), SIGKILL);
    while (sched_stats_of(&kit).unsaved_lost == 0) {
        /* Between two turns, or by the request that meets it: that one may fail. */
        kit_gen_init(&again, &kit, 2, PROMPT, ANSWER);
        kit_gen_run(&kit, &again);
        kit_gen_fini(&again);
    }
    run(&kit, &again, 1, PROMPT);
    assert_int_equal(again.result.usage.computed, PROMPT);
    kit_gen_expect_same(&gen, &again, false);
    kit_gen_fini(&again);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

TEST_SUITE(TEST(test_stored_when_idle), TEST(test_next_request_comes_first),
           TEST(test_turns_lose_nothing), TEST(test_late_and_many_are_stored),
           TEST(test_stored_before_it_leaves), TEST(test_wishes_are_stored),
           TEST(test_hand_over_to_one_that_does_not_write), TEST(test_guests_leave),
           TEST(test_guests_are_stored_for_long_work), TEST(test_ends_leave),
           TEST(test_awaited_ones_stay), TEST(test_guests_without_a_cache_stay),
           TEST(test_dead_engine))
