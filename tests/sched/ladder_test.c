/*
 * ladder_test.c: an engine that has no room, for whatever reason: every job ends, and with its
 * answer where that is possible.
 *
 * The engine double refuses batches by the rule of the test. A scheduler that repeats a turn that
 * changed nothing does not end here: the number of refusals is bounded as well.
 */
#include <semaphore.h>
#include <string.h>

#include "base/clock.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum { FULL = 1, RECURRENT = 8, CHUNK = 64, JOBS = 6, PROMPT = 300, ANSWER = 40, RAM = 8 << 20 };

/* What the engine takes at most. */
struct rule {
    size_t items;
    uint32_t tokens; /* of one item */
    uint32_t cells;  /* of all sequences together, fewer than it says that it has */
    const struct engine *engine;
    unsigned refusals; /* the engine's thread */
};

static bool refuses(const struct engine_item *items, size_t count, void *arg)
{
    struct rule *rule = arg;
    uint32_t cells = engine_fake_stats(rule->engine).cells_used;
    bool refused = count > rule->items;

    for (size_t i = 0; i < count; i++) {
        refused = refused || items[i].count > rule->tokens;
        cells += items[i].count;
    }
    refused = refused || cells > rule->cells;
    rule->refusals += refused;
    return refused;
}

struct outcome {
    unsigned answered, failed;
    uint64_t preempted;
};

static void expect_as_cold(kind_set kinds, const struct kit_gen *gen)
{
    static struct kit_gen cold;
    struct sched_kit kit;

    sched_kit_open(&kit, &(struct engine_fake_options){.kinds = kinds, .chunk = CHUNK}, 0, NULL);
    kit_gen_init(&cold, &kit, (uint32_t)gen->gen.id, PROMPT, gen->gen.max_tokens);
    kit_gen_run(&kit, &cold);
    kit_gen_expect_same(gen, &cold, false);
    kit_gen_fini(&cold);
    sched_kit_close(&kit);
}

/* The first one holds the engine until all are there. It has a short answer and stays on the
 * device. */
static void submit_all(struct sched_kit *kit, struct kit_gen *gens)
{
    sem_t holds, go;

    sem_init(&holds, 0, 0);
    sem_init(&go, 0, 0);
    for (uint32_t i = 0; i < JOBS; i++) {
        kit_gen_init(&gens[i], kit, i + 1, PROMPT, i == 0 ? 1 : ANSWER);
        gens[i].holds = i == 0 ? &holds : NULL;
        gens[i].go = &go;
        kit_gen_submit(kit, &gens[i]);
        if (i == 0)
            while (sem_wait(&holds) != 0)
                ;
    }
    sem_post(&go);
    for (uint32_t i = 0; i < JOBS; i++)
        kit_gen_wait(&gens[i]);
    sem_destroy(&holds);
    sem_destroy(&go);
}

static struct outcome run_all(struct rule *rule, kind_set kinds, uint64_t ram)
{
    static struct kit_gen gens[JOBS];
    struct engine_fake_options fake = {
        .kinds = kinds, .chunk = CHUNK, .refuses = refuses, .arg = rule};
    /* Time stands still: after a slow batch answers go on alone, and then need no room of others. */
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct outcome outcome = {0};
    struct sched_stats stats;
    struct sched_kit kit;

    sched_kit_open(&kit, &fake, ram, &(struct sched_options){.clock = clock, .park = true});
    rule->engine = kit.engine;
    rule->refusals = 0;
    submit_all(&kit, gens);
    for (uint32_t i = 0; i < JOBS; i++) {
        bool answered = gens[i].result.end == GEN_END_LENGTH;
        outcome.answered += answered;
        outcome.failed += gens[i].result.end == GEN_END_ERROR;
        if (answered)
            expect_as_cold(kinds, &gens[i]);
        else
            assert_non_null(strstr(gens[i].result.info.text, "no room for this request"));
        kit_gen_fini(&gens[i]);
    }
    sched_get_stats(kit.sched, &stats);
    outcome.preempted = stats.preempted;
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
    return outcome;
}

static void check(struct rule rule, unsigned answered, bool preempts)
{
    static const kind_set kinds[] = {FULL, FULL | RECURRENT};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (uint64_t ram = 0; ram <= RAM; ram += RAM) {
            struct outcome outcome = run_all(&rule, kinds[i], ram);
            assert_int_equal(outcome.answered, answered);
            assert_int_equal(outcome.answered + outcome.failed, JOBS);
            assert_int_equal(outcome.preempted > 0, preempts);
            assert_true(rule.refusals <= JOBS * (PROMPT + ANSWER));
        }
    }
}

enum { ANY = 100000 };

/* A smaller batch is all that is needed. */
static void test_only_small_batches(void **state)
{
    (void)state;
    check((struct rule){.items = 1, .tokens = CHUNK, .cells = ANY}, JOBS, false);
    check((struct rule){.items = 3, .tokens = CHUNK, .cells = ANY}, JOBS, false);
}

static void test_only_small_chunks(void **state)
{
    (void)state;
    check((struct rule){.items = JOBS, .tokens = 5, .cells = ANY}, JOBS, false);
    check((struct rule){.items = 1, .tokens = 1, .cells = ANY}, JOBS, false);
}

/* Room for two, or barely for one, and the books say that there is room for all: residents leave,
 * the others wait for an end. */
static void test_fewer_cells_than_the_books_say(void **state)
{
    (void)state;
    check((struct rule){.items = JOBS, .tokens = CHUNK, .cells = 2 * (PROMPT + ANSWER)}, JOBS,
          true);
    check((struct rule){.items = JOBS, .tokens = CHUNK, .cells = PROMPT + ANSWER}, JOBS, true);
}

/* Nothing is ever taken, or never all of a prompt: all end with an error that says so. */
static void test_no_room_at_all(void **state)
{
    (void)state;
    check((struct rule){.items = 0}, 0, true);
    check((struct rule){.items = JOBS, .tokens = CHUNK, .cells = PROMPT - 1}, 0, true);
}

TEST_SUITE(TEST(test_only_small_batches), TEST(test_only_small_chunks),
           TEST(test_fewer_cells_than_the_books_say), TEST(test_no_room_at_all))
