/*
 * beside_test.c: a prompt whose back is read while its front is computed. The slow tier answers
 * when the engine has come as far as the test says; computing takes time on a fake clock.
 */
#include <signal.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "sched/sched.h"
#include "support/fake_worker.h"
#include "support/sched_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum {
    RAM = 64 << 20,
    CHUNK = 64,
    PROMPT = 4000,                /* as many objects as chunks, which begin at the same tokens */
    OBJECTS = PROMPT / CHUNK + 1, /* the last one has the end of the prompt and the answer */
    TURNS_MAX = 5000,
    SLOW_PREFILL_NS = 100 * 1000, /* three chunks: 19 ms. Reading: 8 ms from a disk, 33 ms else */
};

static enum hearth_tier slow_tier = HEARTH_TIER_SSD; /* each test is a process */

struct rig {
    struct clock *clock;
    struct tier *slow;
    struct sched_kit kit;
    /* chunks computed since the tier was held, or calls of an engine that is a process; after so
     * many the tier answers, and the process dies */
    unsigned chunks, answers_after, dies_after;
    bool held;
};

static void on_piece(struct engine *engine, void *arg)
{
    struct rig *rig = arg;

    if (!rig->held)
        return;
    if (++rig->chunks == rig->dies_after)
        kill(engine_worker_pid(engine), SIGKILL);
    if (rig->chunks != rig->answers_after)
        return;
    tier_fault_hold(rig->slow, false);
    while (tier_fault_waiting(rig->slow) > 0)
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
}

static void on_call(struct engine *engine, void *arg)
{
    struct rig *rig = arg;

    /* only one import fits into a turn */
    bool met = rig->answers_after > 0 && rig->chunks > rig->answers_after;
    clock_fake_advance(rig->clock, met ? 20 * NS_PER_MS : CHUNK * 1000);
    on_piece(engine, arg);
}

static void wait_stored(struct rig *rig)
{
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};

    for (int i = 0;
         i < TURNS_MAX && (tier_fault_waiting(rig->slow) > 0 || stats.objects < PROMPT / CHUNK);
         i++) {
        clock_sleep_ns(clock_real(), NS_PER_MS);
        assert_int_equal(hearth_get_tier(rig->kit.cache, slow_tier, &stats), HEARTH_OK);
    }
    assert_true(stats.objects >= PROMPT / CHUNK);
}

/* The prompt is computed once: `truth`. Then the slow tier alone has its state, and is held. Takes the
 * engine. */
static void rig_start(struct rig *rig, struct engine *engine, struct kit_gen *truth)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = RAM});

    rig->slow = tier_fault_open(&(struct tier_fault_options){.inner = inner, .threaded = true});
    sched_kit_open_engine(&rig->kit, engine, RAM, &(struct sched_options){.clock = rig->clock});
    cache_attach_tier(rig->kit.cache, slow_tier, rig->slow, 0);
    kit_gen_init(truth, &rig->kit, 1, PROMPT, 4);
    kit_gen_run(&rig->kit, truth);
    uint64_t tokens;
    assert_ok(sched_forget(rig->kit.sched, NULL, 60000, &tokens, NULL));
    wait_stored(rig);
    hearth_clear(rig->kit.cache, NULL, HEARTH_TIER_RAM);
    tier_fault_hold(rig->slow, true);
    rig->held = true;
}

static void rig_open(struct rig *rig, struct kit_gen *truth, uint64_t prefill_ns)
{
    *rig = (struct rig){.clock = clock_create_fake(NS_PER_S, NS_PER_S)};
    struct engine_fake_options fake = {.chunk = CHUNK,
                                       .context = 2 * PROMPT,
                                       .sequences = 4,
                                       .rows_bytes = 4096,
                                       .clock = rig->clock,
                                       .prefill_ns = prefill_ns,
                                       .on_piece = on_piece,
                                       .arg = rig};
    struct engine *engine;

    assert_ok(engine_fake_create(&engine, &fake, NULL));
    rig_start(rig, engine, truth);
}

static void rig_close(struct rig *rig, struct kit_gen *truth, struct kit_gen *gen)
{
    kit_gen_expect_same(truth, gen, true);
    assert_int_equal(gen->started, 1);
    kit_gen_fini(truth);
    kit_gen_fini(gen);
    sched_kit_close(&rig->kit);
    clock_destroy_fake(&rig->clock);
}

/* Reads that the slow tier has finished. */
static uint64_t gets_done(const struct rig *rig)
{
    struct tier *inner = tier_fault_inner(rig->slow);
    struct tier_stats stats;

    inner->ops->stats(inner, &stats);
    return stats.gets_done;
}

static void expect_usage(const struct kit_gen *gen, uint32_t restored)
{
    const struct gen_usage *usage = &gen->result.usage, *first = &gen->first_usage;
    bool remote = slow_tier == HEARTH_TIER_REMOTE;

    assert_int_equal(remote ? usage->remote : usage->ssd, restored);
    assert_int_equal(usage->computed, PROMPT - restored);
    assert_int_equal(remote ? first->remote : first->ssd,
                     restored); /* the client was told the same */
}

/* The tier answers while the engine computes chunk number `after`: everything behind it is
 * imported. */
static void meet(unsigned after, uint64_t prefill_ns)
{
    const uint32_t computed = after * CHUNK;
    static struct kit_gen truth, gen;
    struct rig rig;

    rig_open(&rig, &truth, prefill_ns);
    rig.answers_after = after;
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_run(&rig.kit, &gen);
    expect_usage(&gen, PROMPT - 1 - computed);
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    hearth_get_stats(rig.kit.cache, NULL, &stats);
    assert_int_equal(stats.tokens_reused, PROMPT - 1 - computed);
    /* Reads of objects that were computed are cancelled, but for the one that was being computed. */
    assert_int_equal(gets_done(&rig), OBJECTS - (after - 1));
    assert_true(gets_done(&rig) * CHUNK + computed <= PROMPT + 2 * CHUNK);
    rig_close(&rig, &truth, &gen);
}

static void test_they_meet(void **state)
{
    (void)state;
    meet(1, 1000);
    meet(35, 1000);
    meet(PROMPT / CHUNK, 1000); /* only the end is imported */
}

/* A store on the network is slower than a disk: it pays already where the job would wait for a disk
 * (test_a_slow_engine_waits has the same speed). */
static void test_they_meet_on_a_network(void **state)
{
    (void)state;
    slow_tier = HEARTH_TIER_REMOTE;
    meet(2, SLOW_PREFILL_NS);
    meet(40, SLOW_PREFILL_NS);
}

static void test_reads_that_come_too_late(void **state)
{
    static struct kit_gen truth, gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, &truth, 1000);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_run(&rig.kit, &gen);
    expect_usage(&gen, 0);
    assert_int_equal(gen.result.usage.reason, HEARTH_REASON_CHEAPER);
    tier_fault_hold(rig.slow, false);
    while (tier_fault_waiting(rig.slow) > 0) /* puts; all reads were cancelled */
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    assert_int_equal(gets_done(&rig), 0);
    rig_close(&rig, &truth, &gen);
}

/* A damaged object, a failed read: what is left is computed. */
static void spoil(enum tier_fault_kind kind, unsigned which)
{
    static struct kit_gen truth, gen;
    struct rig rig;

    rig_open(&rig, &truth, 1000);
    rig.answers_after = 2;
    fault_arm(tier_fault_of(rig.slow, kind), which, 1);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_run(&rig.kit, &gen);
    assert_true(gen.result.usage.ssd < PROMPT - 1);
    assert_int_equal(gen.result.usage.reason, kind == TIER_FAULT_GET_FAIL
                                                  ? HEARTH_REASON_TIER_ERROR
                                                  : HEARTH_REASON_UNVERIFIED);
    rig_close(&rig, &truth, &gen);
}

static void test_spoiled_objects_are_not_used(void **state)
{
    (void)state;
    for (unsigned which = 1; which <= 41; which += 40) {
        spoil(TIER_FAULT_GET_CORRUPT, which);
        spoil(TIER_FAULT_GET_FAIL, which);
    }
}

/* Where a chunk takes as long as the reading, the job waits for the bytes. */
static void test_a_slow_engine_waits(void **state)
{
    static struct kit_gen truth, gen;
    struct sched_view view;
    struct rig rig;

    (void)state;
    rig_open(&rig, &truth, SLOW_PREFILL_NS);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_submit(&rig.kit, &gen);
    do
        assert_ok(sched_wait_turn(rig.kit.sched, 60000, NULL));
    while (sched_views(rig.kit.sched, &view, 1) != 1 || view.phase < GEN_RESTORE);
    assert_int_equal(view.phase, GEN_RESTORE);
    tier_fault_hold(rig.slow, false);
    kit_gen_wait(&gen);
    expect_usage(&gen, PROMPT - 1);
    rig_close(&rig, &truth, &gen);
}

/* They have met, and that many calls later, while the back is imported between two tokens of another
 * answer, the engine's process dies. Whatever the job restores again, just that counts. False: it was
 * its own call, and it ended. */
static bool die_after_they_met(unsigned calls)
{
    enum { FRONT = 20 };
    const struct engine_fake_options fake = {
        .chunk = CHUNK, .context = 2 * PROMPT, .sequences = 4, .rows_bytes = 4096};
    struct rig rig = {.clock = clock_create_fake(NS_PER_S, NS_PER_S)};
    struct engine_worker_options worker = {
        .program = fake_worker_program(), .on_call = on_call, .arg = &rig};
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    static struct kit_gen truth, gen, other;
    struct engine *engine;

    assert_ok(fake_worker_load(&engine, &fake, &worker, NULL));
    rig_start(&rig, engine, &truth);
    rig.answers_after = FRONT;
    rig.dies_after = FRONT + calls;
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_init(&other, &rig.kit, 2, CHUNK, 400);
    kit_gen_run_both(&rig.kit, &other, &gen, 3);
    hearth_get_stats(rig.kit.cache, NULL, &stats);
    assert_int_equal(other.result.end, GEN_END_ERROR);
    bool lives = gen.result.end == GEN_END_LENGTH;
    assert_true(lives || gen.result.end == GEN_END_ERROR);
    assert_int_equal(stats.tokens_reused, gen.result.usage.ssd + gen.result.usage.ram);
    if (!lives) {
        kit_gen_fini(&gen);
        kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
        kit_gen_run(&rig.kit, &gen);
    }
    kit_gen_fini(&other);
    rig_close(&rig, &truth, &gen);
    return lives;
}

static void test_a_death_after_they_met(void **state)
{
    unsigned lives = 0;

    (void)state;
    for (unsigned calls = 20; calls < 32; calls++) /* imports and tokens alternate */
        lives += die_after_they_met(calls);
    assert_true(lives > 0);
}

static void test_cancelled_meanwhile(void **state)
{
    static struct kit_gen truth, gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, &truth, 1000);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_submit(&rig.kit, &gen);
    sched_cancel(rig.kit.sched, &gen.gen);
    kit_gen_wait(&gen);
    assert_int_equal(gen.result.end, GEN_END_CANCELLED);
    kit_gen_fini(&gen);
    tier_fault_hold(rig.slow, false);
    kit_gen_init(&gen, &rig.kit, 1, PROMPT, 4);
    kit_gen_run(&rig.kit, &gen);
    rig_close(&rig, &truth, &gen);
}

TEST_SUITE(TEST(test_they_meet), TEST(test_they_meet_on_a_network),
           TEST(test_reads_that_come_too_late), TEST(test_spoiled_objects_are_not_used),
           TEST(test_a_slow_engine_waits), TEST(test_a_death_after_they_met),
           TEST(test_cancelled_meanwhile))
