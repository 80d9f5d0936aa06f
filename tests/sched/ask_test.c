/* ask_test.c: what stands on the device, asked for and forgotten, while the engine's thread sleeps,
 * computes or hangs. */
#include "sched/sched.h"

#include "support/sched_kit.h"
#include "support/test.h"

enum { PROMPT = 300, ANSWER = 8, MS = 30000 };

static const struct engine_fake_options plain;

static struct sched_prompt prompt_of(const struct sched_kit *kit, const struct kit_gen *gen)
{
    return (struct sched_prompt){kit->space, "", gen->prompt, gen->gen.tokens_count, NULL};
}

static struct sched_device probe(struct sched_kit *kit, const struct kit_gen *gen)
{
    struct sched_prompt prompt = prompt_of(kit, gen);
    struct sched_device found;

    assert_ok(sched_probe(kit->sched, &prompt, MS, &found, NULL));
    return found;
}

static void test_probe_and_forget(void **state)
{
    struct sched_kit kit;
    static struct kit_gen gen, other, again;
    uint64_t tokens;

    (void)state;
    sched_kit_open(&kit, &plain, 8 << 20, NULL);
    kit_gen_init(&gen, &kit, 1, PROMPT, ANSWER);
    kit_gen_init(&other, &kit, 1, PROMPT, ANSWER);
    kit_gen_change(&other, &kit, 2, 100);
    assert_int_equal(probe(&kit, &gen).length, 0); /* nothing yet, and the thread sleeps */
    kit_gen_run(&kit, &gen);
    assert_int_equal(probe(&kit, &gen).length, PROMPT - 1); /* one is always computed */
    assert_int_equal(probe(&kit, &gen).length, PROMPT - 1); /* asking uses nothing up */
    struct sched_device found = probe(&kit, &other);
    assert_int_equal(found.shared, 100);
    assert_int_equal(found.length, 100);
    assert_false(found.ends);
    assert_ok(sched_forget(kit.sched, kit.space, MS, &tokens, NULL));
    assert_true(tokens >= PROMPT);
    assert_int_equal(probe(&kit, &gen).length, 0);
    assert_ok(sched_forget(kit.sched, NULL, MS, &tokens, NULL));
    assert_int_equal(tokens, 0);
    kit_gen_init(&again, &kit, 1, PROMPT, ANSWER);
    kit_gen_run(&kit, &again);
    assert_int_equal(again.result.usage.device, 0); /* of the cache, then */
    assert_int_equal(again.result.usage.ram, PROMPT - 1);
    kit_gen_expect_same(&gen, &again, false);
    kit_gen_fini(&gen);
    kit_gen_fini(&other);
    kit_gen_fini(&again);
    sched_kit_close(&kit);
}

/* Others' spaces and tenants are not seen, and not forgotten. */
static void test_others_are_left_alone(void **state)
{
    struct sched_kit kit;
    static struct kit_gen gen;
    struct sched_device found;
    uint64_t tokens;

    (void)state;
    sched_kit_open(&kit, &plain, 8 << 20, NULL);
    kit_gen_init(&gen, &kit, 1, PROMPT, ANSWER);
    kit_gen_run(&kit, &gen);
    struct sched_prompt prompt = prompt_of(&kit, &gen);
    prompt.tenant = "somebody";
    assert_ok(sched_probe(kit.sched, &prompt, MS, &found, NULL));
    assert_int_equal(found.length, 0);
    /* any other address */
    assert_ok(sched_forget(kit.sched, (const struct hearth_space *)&kit, MS, &tokens, NULL));
    assert_int_equal(tokens, 0);
    assert_int_equal(probe(&kit, &gen).length, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

struct gate {
    struct lock lock;
    struct cond changed;
    bool closed, waiting;
};

static void at_gate(struct engine *engine, void *arg)
{
    struct gate *gate = arg;

    (void)engine;
    lock_enter(&gate->lock);
    gate->waiting = true;
    cond_broadcast(&gate->changed);
    while (gate->closed)
        cond_wait(&gate->changed, &gate->lock);
    lock_leave(&gate->lock);
}

static void set_gate(struct gate *gate, bool closed)
{
    lock_enter(&gate->lock);
    gate->closed = closed;
    cond_broadcast(&gate->changed);
    lock_leave(&gate->lock);
}

/* An engine that hangs: the caller gets an error, and leaves no record that a later turn could
 * touch. */
static void test_a_hanging_engine(void **state)
{
    struct gate gate = {.closed = true};
    struct engine_fake_options fake = {.on_piece = at_gate, .arg = &gate};
    struct sched_kit kit;
    static struct kit_gen gen;
    struct sched_device found;
    struct errinfo info;
    uint64_t tokens;

    (void)state;
    lock_init(&gate.lock, "gate", LOCK_RANK_TEST_HIGH);
    cond_init(&gate.changed);
    sched_kit_open(&kit, &fake, 8 << 20, NULL);
    kit_gen_init(&gen, &kit, 1, PROMPT, ANSWER);
    kit_gen_submit(&kit, &gen);
    lock_enter(&gate.lock);
    while (!gate.waiting)
        cond_wait(&gate.changed, &gate.lock);
    lock_leave(&gate.lock);
    struct sched_prompt prompt = prompt_of(&kit, &gen);
    for (int i = 0; i < 3; i++) {
        assert_err(sched_probe(kit.sched, &prompt, 1, &found, &info), ERR_TIMEOUT);
        assert_err(sched_forget(kit.sched, NULL, 1, &tokens, &info), ERR_TIMEOUT);
        assert_err(sched_wait_turn(kit.sched, 1, &info), ERR_TIMEOUT);
    }
    set_gate(&gate, false);
    assert_ok(sched_wait_turn(kit.sched, MS, &info));
    kit_gen_wait(&gen);
    assert_ok(sched_wait_turn(kit.sched, MS, &info));
    assert_int_equal(probe(&kit, &gen).length, PROMPT - 1);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
    cond_fini(&gate.changed);
    lock_fini(&gate.lock);
}

/* A nudge takes no request its place: a queue of one takes one beside it. */
static void test_a_nudge_takes_no_place(void **state)
{
    struct sched_options options = {.queue = 1};
    struct sched_kit kit;
    static struct kit_gen gen;

    (void)state;
    sched_kit_open(&kit, &plain, 0, &options);
    kit_gen_init(&gen, &kit, 1, 20, 2);
    for (int i = 0; i < 50; i++)
        assert_ok(sched_wait_turn(kit.sched, MS, NULL));
    kit_gen_run(&kit, &gen);
    kit_gen_fini(&gen);
    sched_kit_close(&kit);
}

TEST_SUITE(TEST(test_probe_and_forget), TEST(test_others_are_left_alone),
           TEST(test_a_hanging_engine), TEST(test_a_nudge_takes_no_place))
