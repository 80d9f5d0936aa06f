/*
 * tenants_test.c: what one tenant's flood costs another, and what a stranger's cache tells:
 * nothing.
 *
 * Time is the fake engine's: each token of a prefill and each step of decoding moves a clock by
 * hand, and the other tenant's request comes in at a given piece of the engine's work. So the same
 * run gives the same nanoseconds on every machine.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum {
    FULL = 1,
    RECURRENT = 8,
    RAM = 64 << 20,
    CHUNK = 128,
    TOKEN_NS = 1000,
    FLOOD = 12,
    ANSWER = 80
};

/* A flood, and who comes in when the engine has done so many pieces. */
struct rig {
    struct sched_kit kit;
    struct clock *clock;
    struct kit_gen *flood; /* FLOOD */
    struct kit_gen calm;
    unsigned pieces, enter_at;
    struct lock lock;
    struct cond opened;
    bool open; /* the engine begins when all of the flood is there */
};

static void on_piece(struct engine *engine, void *arg)
{
    struct rig *rig = arg;

    (void)engine;
    lock_enter(&rig->lock);
    while (!rig->open)
        cond_wait(&rig->opened, &rig->lock);
    lock_leave(&rig->lock);
    if (++rig->pieces == rig->enter_at)
        kit_gen_submit(&rig->kit, &rig->calm);
}

static void rig_begin(struct rig *rig)
{
    lock_enter(&rig->lock);
    rig->open = true;
    cond_broadcast(&rig->opened);
    lock_leave(&rig->lock);
}

static void rig_open(struct rig *rig, kind_set kinds, uint32_t context, uint32_t parallel)
{
    *rig = (struct rig){.clock = clock_create_fake(1000, 0)};
    struct engine_fake_options fake = {.kinds = kinds,
                                       .chunk = CHUNK,
                                       .context = context,
                                       .sequences = 8,
                                       .clock = rig->clock,
                                       .prefill_ns = TOKEN_NS,
                                       .decode_ns = 4 * TOKEN_NS,
                                       .on_piece = on_piece,
                                       .arg = rig};
    struct sched_options options = {.parallel = parallel, .park = true, .clock = rig->clock};

    lock_init(&rig->lock, "rig", LOCK_RANK_TEST_HIGH);
    cond_init(&rig->opened);
    sched_kit_open(&rig->kit, &fake, RAM, &options);
    rig->flood = mem_alloc_array(FLOOD, sizeof(*rig->flood));
}

static void rig_close(struct rig *rig)
{
    sched_kit_close(&rig->kit);
    cond_fini(&rig->opened);
    lock_fini(&rig->lock);
    clock_destroy_fake(&rig->clock);
    mem_free(rig->flood);
}

static uint64_t ttft_ns(const struct kit_gen *gen)
{
    return gen->result.times.first_token - gen->result.times.submitted;
}

static uint64_t ttft_alone(kind_set kinds, uint32_t prompt)
{
    static struct rig rig;
    uint64_t ns;

    rig_open(&rig, kinds, 32768, 4);
    rig_begin(&rig);
    kit_gen_init(&rig.calm, &rig.kit, 99, prompt, 8);
    kit_gen_run(&rig.kit, &rig.calm);
    ns = ttft_ns(&rig.calm);
    kit_gen_fini(&rig.calm);
    rig_close(&rig);
    return ns;
}

struct flood_case {
    kind_set kinds;
    uint32_t context, parallel, prompt;
};

static double cost_of_flood(const struct flood_case *c, unsigned enter_at, uint64_t alone_ns)
{
    static struct rig rig;

    rig_open(&rig, c->kinds, c->context, c->parallel);
    rig.enter_at = enter_at;
    kit_gen_init(&rig.calm, &rig.kit, 99, c->prompt, 8);
    rig.calm.gen.tenant = "calm";
    for (uint32_t i = 0; i < FLOOD; i++) {
        kit_gen_init(&rig.flood[i], &rig.kit, i + 1, 1500 + 100 * (i % 8), ANSWER);
        rig.flood[i].gen.tenant = "flood";
        kit_gen_submit(&rig.kit, &rig.flood[i]);
    }
    rig_begin(&rig);
    for (uint32_t i = 0; i < FLOOD; i++) {
        kit_gen_wait(&rig.flood[i]);
        assert_int_equal(rig.flood[i].result.end, GEN_END_LENGTH);
        assert_int_equal(rig.flood[i].answer_count, ANSWER);
    }
    kit_gen_wait(&rig.calm);
    double ratio = (double)ttft_ns(&rig.calm) / (double)alone_ns;
    for (uint32_t i = 0; i < FLOOD; i++)
        kit_gen_fini(&rig.flood[i]);
    kit_gen_fini(&rig.calm);
    rig_close(&rig);
    return ratio;
}

static const struct flood_case flood_cases[] = {
    {FULL, 32768, 4, 2000},             /* no places are left */
    {FULL, 8192, 8, 2000},              /* no cells are left */
    {FULL, 32768, 1, 2000},             /* one at a time */
    {FULL | RECURRENT, 32768, 4, 2000}, /* state that cannot be cut */
    {FULL, 32768, 4, 1300},             /* ends in the middle of a chunk */
};

/* A flood costs another tenant's first token at most a fifth more, whenever it comes in. Prompts
 * here have ten chunks and more: a chunk that has begun is not interrupted. */
static void test_i100_a_flood_costs_others_a_fifth(void **state)
{
    static const unsigned enter[] = {3, 61, 190};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(flood_cases); i++) {
        uint64_t alone_ns = ttft_alone(flood_cases[i].kinds, flood_cases[i].prompt);
        for (size_t j = 0; j < COUNT_OF(enter); j++) {
            double ratio = cost_of_flood(&flood_cases[i], enter[j], alone_ns);
            if (ratio > 1.2)
                fail_msg("case %zu at piece %u: %.2f times as long", i, enter[j], ratio);
        }
    }
}

TEST_SUITE(TEST(test_i100_a_flood_costs_others_a_fifth))
