/*
 * timing_test.c: whether the answers of a tenant reveal what another one has asked (I100).
 *
 * In each round a neighbour asks something; then a spy sends either the same prompt or a
 * new one. By counts the two must be equal: tokens computed, runs of the engine, the
 * engine's own time. By the machine's clock they must not differ as distributions: Mann-Whitney's
 * test of times to the first token over HEARTH_TIMING_PAIRS pairs (make timing: 2,000), in random
 * order, at the level of one in a thousand. The few pairs of a quick run prove nothing about
 * time, so it is not asserted then.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/sched_kit.h"
#include "support/test.h"
#include "support/timing.h"

enum { FULL = 1, RECURRENT = 8, RAM = 16 << 20, CHUNK = 64, PROMPT = 400 };

struct rig {
    struct sched_kit kit;
    struct clock *clock; /* NULL: the machine's */
    struct hearth_space *neighbour, *spy;
    uint32_t next_seed;
};

static struct hearth_space *open_space(struct rig *rig, const char *tenant)
{
    const struct engine_facts *facts = engine_facts(rig->kit.engine);
    struct hearth_model model = {.struct_size = sizeof(model), .kinds = facts->kinds};
    struct hearth_space *space;

    memcpy(model.fingerprint, facts->fingerprint.bytes, sizeof(model.fingerprint));
    assert_int_equal(hearth_space_open(rig->kit.cache, &model, tenant, 0, &space), HEARTH_OK);
    return space;
}

static void rig_open(struct rig *rig, kind_set kinds, bool fake_time)
{
    *rig = (struct rig){.clock = fake_time ? clock_create_fake(1000, 0) : NULL, .next_seed = 1};
    struct engine_fake_options fake = {.kinds = kinds,
                                       .chunk = CHUNK,
                                       .context = 8192,
                                       .sequences = 8,
                                       .clock = rig->clock,
                                       .prefill_ns = 1000,
                                       .decode_ns = 4000};

    sched_kit_open(&rig->kit, &fake, RAM,
                   &(struct sched_options){.park = true, .clock = rig->clock});
    rig->neighbour = open_space(rig, "neighbour");
    rig->spy = open_space(rig, "spy");
}

static void rig_close(struct rig *rig)
{
    sched_destroy(&rig->kit.sched);
    hearth_space_close(&rig->neighbour);
    hearth_space_close(&rig->spy);
    sched_kit_close(&rig->kit);
    if (rig->clock != NULL)
        clock_destroy_fake(&rig->clock);
}

/* What a tenant observes of its own answer. */
struct seen {
    struct gen_usage usage;
    uint64_t turns, ttft_ns;
};

static struct seen ask(struct rig *rig, bool spies, uint32_t seed)
{
    static struct kit_gen gen;
    struct sched_stats before, after;

    kit_gen_init(&gen, &rig->kit, seed, PROMPT, 4);
    gen.prompt[0] = (token_id)(seed % 256); /* no two share a beginning by chance, in a quick run */
    gen.gen.tenant = spies ? "spy" : "neighbour";
    gen.gen.space = spies ? rig->spy : rig->neighbour;
    sched_get_stats(rig->kit.sched, &before);
    kit_gen_run(&rig->kit, &gen);
    sched_get_stats(rig->kit.sched, &after);
    struct seen seen = {gen.result.usage, after.turns - before.turns,
                        gen.result.times.first_token - gen.result.times.submitted};
    kit_gen_fini(&gen);
    return seen;
}

/* The neighbour asks; the spy asks the same, or something else. */
static struct seen spy_on(struct rig *rig, bool same)
{
    uint32_t theirs = rig->next_seed++, other = rig->next_seed++;

    ask(rig, false, theirs);
    return ask(rig, true, same ? theirs : other);
}

/* ---- by counts ---- */

static void same_counts(kind_set kinds)
{
    static struct rig rig;

    rig_open(&rig, kinds, true);
    spy_on(&rig, true); /* its first prompt ever is cold in any case */
    for (size_t i = 0; i < TIMING_PAIRS_QUICK; i++) {
        struct seen same = spy_on(&rig, true), other = spy_on(&rig, false);
        assert_int_equal(same.usage.computed, PROMPT);
        assert_int_equal(same.usage.computed, other.usage.computed);
        assert_int_equal(same.usage.reason, other.usage.reason);
        assert_int_equal(same.usage.match, other.usage.match);
        assert_int_equal(same.usage.first_difference, other.usage.first_difference);
        assert_int_equal(same.usage.stored_bytes, other.usage.stored_bytes);
        assert_int_equal(same.turns, other.turns);
        assert_true(same.ttft_ns == other.ttft_ns);
    }
    /* It finds its own state: otherwise nothing is proven. */
    ask(&rig, true, 1000000);
    assert_true(ask(&rig, true, 1000000).usage.computed < PROMPT / 2);
    rig_close(&rig);
}

static void test_i100_a_strangers_cache_counts_nothing(void **state)
{
    (void)state;
    same_counts(FULL);
    same_counts(FULL | RECURRENT);
}

/* ---- by the clock ---- */

/* The test itself sees a difference that is there, and none that is not. */
static void test_the_statistics_can_tell(void **state)
{
    static struct timing_sample samples[2 * 500];
    uint64_t seed = test_seed();

    (void)state;
    for (int shift = 0; shift < 2; shift++) {
        for (size_t i = 0; i < COUNT_OF(samples); i++) {
            bool same = i % 2 == 0;
            samples[i] = (struct timing_sample){
                1000 + test_random_below(&seed, 1000) + (same && shift ? 200 : 0), same};
        }
        double z = timing_z(samples, COUNT_OF(samples) / 2);
        if (shift ? fabs(z) < 5 : fabs(z) > 4.5) /* 1 in 100,000 */
            fail_msg("shift %d gives z = %.2f", shift, z);
    }
}

static void test_i100_a_strangers_cache_takes_no_time(void **state)
{
    static struct rig rig;
    uint64_t seed = test_seed();
    size_t pairs = timing_pairs();
    struct timing_sample *samples = mem_alloc_array(2 * pairs, sizeof(*samples));

    (void)state;
    rig_open(&rig, FULL, false);
    spy_on(&rig, true); /* warms up */
    for (size_t i = 0; i < pairs; i++) {
        bool first = test_random_below(&seed, 2) == 0;
        samples[2 * i] = (struct timing_sample){spy_on(&rig, first).ttft_ns, first};
        samples[2 * i + 1] = (struct timing_sample){spy_on(&rig, !first).ttft_ns, !first};
    }
    double z = timing_z(samples, pairs);
    print_message("%zu pairs: z = %.2f\n", pairs, z);
    if (timing_differs(z, pairs))
        fail_msg("a stranger's prefix can be told by its time: z = %.2f", z);
    mem_free(samples);
    rig_close(&rig);
}

TEST_SUITE(TEST(test_i100_a_strangers_cache_counts_nothing), TEST(test_the_statistics_can_tell),
           TEST(test_i100_a_strangers_cache_takes_no_time))
