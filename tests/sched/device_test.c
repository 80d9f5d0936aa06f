/*
 * device_test.c: residents leave when their cells have cost more than bringing them back.
 */
#include "sched/device.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum {
    CHUNK = 128,
    PROMPT = 4 * CHUNK,
    SHORT = 40,
    ROW = 16 << 10,
    RAM = 256 << 20,
    CELL_NS = 10,
    IMPORT_NS = 100000, /* of 64 tokens: each costs as much as 156 tokens beside its cell */
};
#define HOUR_MS (UINT64_C(3600) * 1000)

struct rig {
    struct sched_kit kit;
    struct clock *clock;
    struct kit_gen first;
    /* pieces computed; exports, and those after the first piece; of the scheduler's thread */
    atomic_uint pieces, exports, late_exports;
};

static void on_piece(struct engine *engine, void *arg)
{
    (void)engine;
    atomic_fetch_add(&((struct rig *)arg)->pieces, 1);
}

static void on_export(void *arg)
{
    struct rig *rig = arg;

    atomic_fetch_add(&rig->exports, 1);
    if (atomic_load(&rig->pieces) > 0)
        atomic_fetch_add(&rig->late_exports, 1);
}

static uint32_t on_device(struct rig *rig)
{
    struct sched_prompt prompt = {rig->kit.space, "", rig->first.prompt, PROMPT, NULL};
    struct sched_device found;

    assert_ok(sched_probe(rig->kit.sched, &prompt, HOUR_MS, &found, NULL));
    return found.length;
}

static void run_once(struct rig *rig, uint32_t seed, uint32_t count)
{
    static struct kit_gen gen;

    kit_gen_init(&gen, &rig->kit, seed, count, 2);
    kit_gen_run(&rig->kit, &gen);
    kit_gen_fini(&gen);
}

static void run_and_forget(struct rig *rig, uint32_t seed)
{
    uint64_t tokens;

    run_once(rig, seed, PROMPT);
    assert_ok(sched_forget(rig->kit.sched, NULL, HOUR_MS, &tokens, NULL));
}

static void rig_start(struct rig *rig, uint64_t export_ns, uint32_t sequences)
{
    *rig = (struct rig){.clock = clock_create_fake(NS_PER_S, NS_PER_S)};
    struct engine_fake_options fake = {.chunk = CHUNK,
                                       .context = 8192,
                                       .sequences = sequences,
                                       .rows_bytes = ROW,
                                       .clock = rig->clock,
                                       .prefill_ns = 20000,
                                       .decode_ns = 1000,
                                       .cell_ns = CELL_NS,
                                       .import_ns = IMPORT_NS,
                                       .export_ns = export_ns,
                                       .on_piece = on_piece,
                                       .on_export = on_export,
                                       .arg = rig};
    struct sched_options options = {.park = true, .linger_ms = HOUR_MS, .clock = rig->clock};

    sched_kit_open(&rig->kit, &fake, RAM, &options);
}

static void run_first(struct rig *rig)
{
    kit_gen_init(&rig->first, &rig->kit, 1, PROMPT, 2);
    kit_gen_run(&rig->kit, &rig->first);
    assert_int_equal(on_device(rig), PROMPT - 1);
}

/* The scheduler has measured prefills at several counts of cells, and an import. */
static void rig_open_with(struct rig *rig, uint64_t export_ns, uint32_t sequences)
{
    rig_start(rig, export_ns, sequences);
    run_and_forget(rig, 99);
    run_and_forget(rig, 99); /* from the cache */
    run_first(rig);
}

static void rig_open(struct rig *rig, uint64_t export_ns)
{
    rig_open_with(rig, export_ns, 64);
}

static void rig_close(struct rig *rig)
{
    kit_gen_fini(&rig->first);
    sched_kit_close(&rig->kit);
    clock_destroy_fake(&rig->clock);
}

static uint32_t in_cache(struct rig *rig)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};

    assert_int_equal(hearth_probe(rig->kit.space, rig->first.prompt, PROMPT, &probe, NULL, 0),
                     HEARTH_OK);
    return probe.boundary;
}

/* Runs short requests until the first one leaves; far fewer than there are sequences. */
static void run_until_it_leaves(struct rig *rig)
{
    for (uint32_t seed = 3; seed < 50 && on_device(rig) > 0; seed++)
        run_once(rig, seed, SHORT);
    assert_int_equal(on_device(rig), 0);
}

/* One short request is no reason to leave, many are. */
static void test_many_short_requests_add_up(void **state)
{
    struct rig rig;

    (void)state;
    rig_open(&rig, 0);
    run_once(&rig, 2, SHORT);
    assert_int_equal(on_device(&rig), PROMPT - 1);
    run_until_it_leaves(&rig);
    assert_true(in_cache(&rig) >= PROMPT - CHUNK);
    rig_close(&rig);
}

/* Storing costs a tenth of computing: too much for a request that begins, not for one that has to
 * leave. Its cells must have cost as much as storing and restoring it: 156 tokens beside it each. */
static void test_stored_between_batches(void **state)
{
    struct rig rig;

    (void)state;
    rig_open(&rig, NS_PER_MS / 10);
    rig.exports = 0;
    for (uint32_t seed = 60; seed < 63; seed++)
        run_once(&rig, seed, SHORT);
    assert_int_equal(on_device(&rig), PROMPT - 1);
    assert_int_equal(rig.exports, 0);
    run_until_it_leaves(&rig);
    assert_true(rig.exports > 0);
    assert_true(in_cache(&rig) >= PROMPT - CHUNK);
    rig_close(&rig);
}

/* Nothing was restored yet. Exports tell the price, even if all of them had one size. */
static void test_leaves_before_the_first_restore(void **state)
{
    struct rig rig;

    (void)state;
    rig_start(&rig, NS_PER_MS / 10, 64);
    for (uint32_t seed = 90; seed < 96; seed++)
        run_and_forget(&rig, seed);
    run_first(&rig);
    run_until_it_leaves(&rig);
    assert_true(in_cache(&rig) >= PROMPT - CHUNK);
    rig_close(&rig);
}

/* A long prompt pays for storing it first: if it left later, the prompt's own cells would be behind
 * its cells, and attention looks at both. */
static void test_leaves_before_a_long_prompt(void **state)
{
    struct rig rig;

    (void)state;
    rig_open(&rig, NS_PER_MS / 10);
    rig.pieces = rig.exports = rig.late_exports = 0;
    run_once(&rig, 2, 6 * PROMPT);
    assert_int_equal(on_device(&rig), 0);
    assert_true(in_cache(&rig) >= PROMPT - CHUNK);
    assert_true(rig.exports > 0);
    assert_int_equal(rig.late_exports, 0);
    rig_close(&rig);
}

/* It cannot be stored at a reasonable price: it leaves when its cells have cost more than computing
 * it again would, and is counted. */
static void test_lost_when_storing_costs_too_much(void **state)
{
    struct sched_stats stats;
    struct rig rig;

    (void)state;
    rig_open(&rig, 50 * NS_PER_MS);
    run_until_it_leaves(&rig);
    sched_get_stats(rig.kit.sched, &stats);
    assert_true(stats.not_stored > 0);
    rig_close(&rig);
}

/* State that cannot be truncated stays where the prompt ends, beside where the answer ends. */
static void test_the_same_prompt_again(void **state)
{
    static const kind_set kinds[] = {KIND_BIT(KIND_RECURRENT),
                                     KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT),
                                     KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING)};
    static struct kit_gen once, again;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct sched_kit kit;
        sched_kit_open(&kit, &(struct engine_fake_options){.kinds = kinds[i], .chunk = CHUNK}, RAM,
                       NULL);
        kit_gen_init(&once, &kit, 1, PROMPT, 8);
        kit_gen_run(&kit, &once);
        for (int times = 0; times < 3; times++) { /* first from the device, then from the cache */
            kit_gen_init(&again, &kit, 1, PROMPT, 8);
            kit_gen_run(&kit, &again);
            assert_true(times > 0 || again.result.usage.device == PROMPT - 1);
            assert_int_equal(gen_usage_reused(&again.result.usage), PROMPT - 1);
            assert_int_equal(again.result.usage.first_difference, PROMPT); /* there is none */
            kit_gen_expect_same(&once, &again, false);
            kit_gen_fini(&again);
        }
        kit_gen_fini(&once);
        sched_kit_close(&kit);
    }
}

/* A prompt that differs from `from` on continues there if the window that ends there is still on the
 * device, and gets the answer that it gets without any cache. */
static uint32_t fork_at(struct sched_kit *kit, kind_set kinds, uint32_t from, uint32_t answer)
{
    static struct kit_gen first, second, cold;
    struct sched_kit alone;
    uint64_t tokens;

    kit_gen_init(&first, kit, 1, PROMPT, answer);
    kit_gen_run(kit, &first);
    kit_gen_init(&second, kit, 1, PROMPT, 8);
    kit_gen_change(&second, kit, 2, from);
    kit_gen_run(kit, &second);
    uint32_t device = second.result.usage.device;
    sched_kit_open(&alone, &(struct engine_fake_options){.kinds = kinds, .chunk = CHUNK}, 0, NULL);
    kit_gen_init(&cold, &alone, 1, PROMPT, 8);
    kit_gen_change(&cold, &alone, 2, from);
    kit_gen_run(&alone, &cold);
    kit_gen_expect_same(&second, &cold, false);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    kit_gen_fini(&cold);
    sched_kit_close(&alone);
    assert_ok(sched_forget(kit->sched, NULL, HOUR_MS, &tokens, NULL));
    return device;
}

static void test_windows_are_cut_where_they_reach(void **state)
{
    enum { WINDOW = 64, SURPLUS = 2 * CHUNK, ANSWER = 3, LEAST = PROMPT + ANSWER - 1 - SURPLUS };
    static const kind_set kinds[] = {KIND_BIT(KIND_SLIDING),
                                     KIND_BIT(KIND_FULL) | KIND_BIT(KIND_SLIDING),
                                     KIND_BIT(KIND_FULL) | KIND_BIT(KIND_CHUNKED)};
    static const uint32_t at[] = {LEAST - 1, LEAST, LEAST + 40, PROMPT - 1};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        uint32_t least = kinds[i] & KIND_BIT(KIND_CHUNKED) ? LEAST - LEAST % WINDOW : LEAST;
        struct sched_kit kit;
        sched_kit_open(&kit,
                       &(struct engine_fake_options){
                           .kinds = kinds[i], .window = WINDOW, .surplus = SURPLUS, .chunk = CHUNK},
                       0, NULL);
        for (size_t k = 0; k < COUNT_OF(at); k++)
            assert_int_equal(fork_at(&kit, kinds[i], at[k], ANSWER), at[k] >= least ? at[k] : 0);
        /* No copy is kept for the same prompt, and an answer may be longer than what is kept. */
        assert_int_equal(fork_at(&kit, kinds[i], PROMPT - 1, SURPLUS + WINDOW), 0);
        sched_kit_close(&kit);
    }
}

/* There are two sequences. A third request takes that of the second, which is newer but was not to be
 * stored. */
static void test_what_is_not_stored_leaves_first(void **state)
{
    static struct kit_gen second;
    struct rig rig;

    (void)state;
    rig_open_with(&rig, 0, 2);
    kit_gen_init(&second, &rig.kit, 2, SHORT, 2);
    second.gen.cache.no_write = true;
    kit_gen_run(&rig.kit, &second);
    run_once(&rig, 3, SHORT);
    assert_int_equal(on_device(&rig), PROMPT - 1);
    kit_gen_fini(&second);
    rig_close(&rig);
}

/* There are three sequences: two of them have turns of a conversation that the client releases. Two
 * more requests take those, and not the oldest one, of another conversation. Only the beginning of
 * the released one, which others may share, is stored. */
static void test_a_released_conversation_leaves_first(void **state)
{
    enum { TURN = 16, ANCHOR = 8 };
    static struct kit_gen turn, last;
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct rig rig;

    (void)state;
    rig_open_with(&rig, 0, 3);
    kit_gen_init(&turn, &rig.kit, 2, TURN, 2);
    turn.gen.anchor = ANCHOR;
    kit_gen_run(&rig.kit, &turn);
    kit_gen_init(&last, &rig.kit, 2, 2 * TURN, 2);
    kit_gen_change(&last, &rig.kit, 5, TURN); /* the client sends another answer */
    last.gen.anchor = ANCHOR;
    last.gen.cache.no_write = last.gen.cache.release = true;
    kit_gen_run(&rig.kit, &last);
    run_once(&rig, 3, TURN);
    run_once(&rig, 4, TURN);
    assert_int_equal(on_device(&rig), PROMPT - 1);
    assert_int_equal(hearth_probe(rig.kit.space, turn.prompt, TURN, &probe, NULL, 0), HEARTH_OK);
    assert_int_equal(probe.boundary, ANCHOR);
    kit_gen_fini(&turn);
    kit_gen_fini(&last);
    rig_close(&rig);
}

TEST_SUITE(TEST(test_a_released_conversation_leaves_first), TEST(test_the_same_prompt_again),
           TEST(test_windows_are_cut_where_they_reach), TEST(test_what_is_not_stored_leaves_first),
           TEST(test_many_short_requests_add_up), TEST(test_stored_between_batches),
           TEST(test_leaves_before_the_first_restore), TEST(test_leaves_before_a_long_prompt),
           TEST(test_lost_when_storing_costs_too_much))
