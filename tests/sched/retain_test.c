/*
 * retain_test.c: what is stored of a sequence, and when, if exports have a price as on a GPU: each
 * range of adjacent cells costs time. Time is the engine's own: nothing depends on the machine.
 *
 * A piece of 64 contiguous tokens costs a sixteenth of computing it: enough to be stored before it
 * is evicted, too much beside other work.
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "sched/sched.h"
#include "support/sched_kit.h"
#include "support/test.h"

enum {
    FULL = 1,
    RAM = 400 << 20,
    HOUR_MS = 3600 * 1000,
    ROW = 32 << 10,
    BLOCK = 16, /* of the kit's cache */
    PROMPT = 120,
    ANSWER = 80,
    SHORT = 8,
};

/* Counts exports, on the engine's thread. */
struct counter {
    struct kit_gen *gen; /* may be NULL */
    atomic_uint exports;
    /* before `gen` started; and from then on to its first token */
    atomic_uint waits, prefill;
    /* the first export says `holds` and waits for `go`; NULL = it does not */
    sem_t *holds, *go;
    atomic_bool early; /* a later one began before `gen` was done */
    unsigned runs;     /* until `gen` is cancelled; 0 = it is not */
};

static void on_piece(struct engine *engine, void *arg)
{
    struct counter *counter = arg;

    (void)engine;
    if (counter->runs > 0 && --counter->runs == 0)
        gen_cancel(&counter->gen->gen);
}

static void on_export(void *arg)
{
    struct counter *counter = arg;
    struct kit_gen *gen = counter->gen;

    if (atomic_fetch_add(&counter->exports, 1) == 0 && counter->holds != NULL) {
        sem_post(counter->holds);
        while (sem_wait(counter->go) != 0)
            ;
    } else if (counter->holds != NULL && gen != NULL) {
        lock_enter(&gen->lock);
        if (!gen->done)
            atomic_store(&counter->early, true);
        lock_leave(&gen->lock);
    }
    if (gen != NULL && gen->logprobs_count == 0)
        atomic_fetch_add(gen->started > 0 ? &counter->prefill : &counter->waits, 1);
}

struct rig {
    struct sched_kit kit;
    struct clock *clock;
    struct counter counter;
};

static void rig_open(struct rig *rig, struct engine_fake_options fake, bool park)
{
    *rig = (struct rig){.clock = clock_create_fake(NS_PER_S, NS_PER_S)};
    fake.kinds = fake.kinds != 0 ? fake.kinds : FULL;
    fake.clock = rig->clock;
    fake.prefill_ns = fake.decode_ns = NS_PER_MS;
    fake.export_ns = 4 * NS_PER_MS;
    fake.rows_bytes = fake.rows_bytes > 0 ? fake.rows_bytes : ROW;
    fake.on_export = on_export;
    fake.on_piece = on_piece;
    fake.arg = &rig->counter;
    sched_kit_open(
        &rig->kit, &fake, RAM,
        &(struct sched_options){.park = park, .linger_ms = HOUR_MS, .clock = rig->clock});
}

static void rig_close(struct rig *rig)
{
    sched_kit_close(&rig->kit);
    clock_destroy_fake(&rig->clock);
}

/* Stores what is left, as before a restart. */
static void restart(struct rig *rig)
{
    struct sched_options options = {
        .engine = rig->kit.engine, .park = true, .linger_ms = HOUR_MS, .clock = rig->clock};

    sched_destroy(&rig->kit.sched);
    assert_ok(sched_create(&rig->kit.sched, &options, NULL));
}

static struct sched_stats stats_of(struct sched_kit *kit)
{
    struct sched_stats stats;

    sched_get_stats(kit->sched, &stats);
    return stats;
}

#define WAIT_UNTIL(condition)                                       \
    do {                                                            \
        for (int tries = 0; !(condition) && tries < 20000; tries++) \
            usleep(1000);                                           \
        assert_true(condition);                                     \
    } while (0)

/* An answer is reported in the middle of a turn: waits for the end of the turn. */
static void end_turn(struct sched_kit *kit)
{
    token_id token = 0;
    struct sched_prompt prompt = {kit->space, "", &token, 1, NULL};
    struct sched_device found;

    assert_ok(sched_probe(kit->sched, &prompt, HOUR_MS, &found, NULL));
}

static void run_once(struct sched_kit *kit, uint32_t seed, uint32_t count, uint32_t answer)
{
    static struct kit_gen gen;

    kit_gen_init(&gen, kit, seed, count, answer);
    kit_gen_run(kit, &gen);
    end_turn(kit);
    kit_gen_fini(&gen);
}

/* Two answers of neighbouring seeds, decoded side by side. */
static void run_pair(struct sched_kit *kit, struct kit_gen *pair, uint32_t seed)
{
    for (uint32_t i = 0; i < 2; i++)
        kit_gen_init(&pair[i], kit, seed + i, PROMPT, ANSWER);
    kit_gen_run_both(kit, &pair[0], &pair[1], 1000 + seed);
}

/* Tokens of a prompt and its answer that the cache has, when it is asked for more. */
static uint32_t held(struct sched_kit *kit, const struct kit_gen *gen)
{
    static struct kit_gen more;
    uint32_t count = gen->gen.tokens_count;

    kit_gen_init(&more, kit, 5000 + (uint32_t)gen->gen.id, count + (uint32_t)gen->answer_count, 2);
    memcpy(more.prompt, gen->prompt, count * sizeof(token_id));
    memcpy(more.prompt + count, gen->answer, (gen->answer_count - 1) * sizeof(token_id));
    kit_gen_run(kit, &more);
    assert_int_equal(more.result.usage.device, 0);
    kit_gen_fini(&more);
    return more.result.usage.ram;
}

/* Evicted while a request waits: ends that lie scattered are left out, and counted, once it is
 * known what they cost. Prompts are stored. */
static void test_scattered_ends_are_left_out(void **state)
{
    enum { PAIRS = 6 };
    static struct kit_gen pairs[PAIRS][2];
    struct rig rig;

    (void)state;
    rig_open(&rig, (struct engine_fake_options){.context = 512, .chunk = 256}, true);
    run_once(&rig.kit, 99, PROMPT, SHORT); /* the speed of a prefill without others */
    for (uint32_t i = 0; i < PAIRS; i++)
        run_pair(&rig.kit, pairs[i], 2 * i + 1);
    struct sched_stats stats = stats_of(&rig.kit);
    assert_true(stats.not_stored >= 2);
    assert_int_equal(stats.not_stored_tokens, stats.not_stored * (ANSWER - 1));
    restart(&rig);
    /* the last ones were stored when nothing else ran */
    assert_int_equal(held(&rig.kit, &pairs[PAIRS - 1][0]), PROMPT + ANSWER - 1);
    assert_int_equal(held(&rig.kit, &pairs[PAIRS - 1][1]), PROMPT + ANSWER - 1);
    /* those before them were evicted; so were the first, when nothing was known */
    assert_int_equal(held(&rig.kit, &pairs[PAIRS - 2][0]), PROMPT);
    assert_int_equal(held(&rig.kit, &pairs[0][0]), PROMPT + ANSWER - 1);
    for (uint32_t i = 0; i < PAIRS; i++)
        for (uint32_t j = 0; j < 2; j++)
            kit_gen_fini(&pairs[i][j]);
    rig_close(&rig);
}

/* Neither their age nor their number is a reason to store them beside other work while the device
 * has room; all are stored in the end. */
static void test_nothing_is_forced_while_there_is_room(void **state)
{
    enum { MANY = 12 };
    static struct kit_gen gens[MANY];
    struct rig rig;

    (void)state;
    rig_open(&rig,
             (struct engine_fake_options){.context = 2304, .chunk = 256, .sequences = MANY + 4},
             true);
    for (uint32_t i = 0; i < MANY; i++) {
        kit_gen_init(&gens[i], &rig.kit, i + 1, PROMPT, SHORT);
        kit_gen_run(&rig.kit, &gens[i]);
        clock_fake_advance(rig.clock, 2 * NS_PER_S);
    }
    assert_true(stats_of(&rig.kit).unsaved >= MANY / 2);
    end_turn(&rig.kit);
    unsigned exports = atomic_load(&rig.counter.exports);
    run_once(&rig.kit, MANY, PROMPT, SHORT);
    assert_int_equal(atomic_load(&rig.counter.exports), exports);
    restart(&rig);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(held(&rig.kit, &gens[i]) >= PROMPT / BLOCK * BLOCK);
        kit_gen_fini(&gens[i]);
    }
    assert_int_equal(stats_of(&rig.kit).not_stored, 0);
    rig_close(&rig);
}

/* The device is nearly full: those that leave next are stored ahead, a piece at a time beside other
 * work, so that a request that needs their cells does not wait for them. */
static void test_stored_ahead_when_tight(void **state)
{
    static struct kit_gen gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, (struct engine_fake_options){.context = 720, .chunk = 256}, true);
    for (uint32_t seed = 1; seed <= 6; seed++)
        run_once(&rig.kit, seed, PROMPT, SHORT);
    run_once(&rig.kit, 7, PROMPT, ANSWER); /* many turns */
    kit_gen_init(&gen, &rig.kit, 8, 2 * PROMPT, SHORT);
    rig.counter.gen = &gen;
    kit_gen_run(&rig.kit, &gen);
    end_turn(&rig.kit);
    assert_int_equal(atomic_load(&rig.counter.waits), 0);
    assert_int_equal(stats_of(&rig.kit).not_stored, 0);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* A client that is alone and comes back at once waits for no export, however little room there
 * is. */
static void test_a_client_alone_does_not_wait(void **state)
{
    struct rig rig;

    (void)state;
    rig_open(&rig, (struct engine_fake_options){.context = 256, .sequences = 2}, true);
    run_once(&rig.kit, 1, 2 * PROMPT, SHORT);
    assert_int_equal(atomic_load(&rig.counter.exports), 0);
    rig_close(&rig);
}

/* Exports during the prefill of a long prompt, after one of which they were learned. */
static unsigned exports_on_the_way(bool park)
{
    enum { LONG = 2300 };
    static struct kit_gen gen;
    struct rig rig;

    rig_open(&rig, (struct engine_fake_options){.context = 2600, .rows_bytes = ROW / 2}, park);
    for (uint32_t seed = 1; seed <= 2; seed++) {
        kit_gen_init(&gen, &rig.kit, seed, LONG, SHORT);
        atomic_store(&rig.counter.prefill, 0);
        rig.counter.gen = &gen;
        kit_gen_run(&rig.kit, &gen);
        end_turn(&rig.kit);
        rig.counter.gen = NULL;
        kit_gen_fini(&gen);
    }
    rig_close(&rig);
    return atomic_load(&rig.counter.prefill);
}

/* What stays on the device is stored after the answer. Otherwise there is no other time. */
static void test_exports_on_the_way(void **state)
{
    (void)state;
    assert_int_equal(exports_on_the_way(true), 0);
    assert_true(exports_on_the_way(false) > 0);
}

/* Only what was computed of a prompt counts. */
static void expect_cut(struct sched_kit *kit, const struct gen_usage *usage, uint32_t computed,
                       uint32_t prompt)
{
    struct sched_stats stats;

    sched_get_stats(kit->sched, &stats);
    assert_int_equal(usage->computed, computed);
    assert_int_equal(usage->prompt, computed);
    assert_int_equal(usage->cut, prompt - computed);
    assert_int_equal(stats.tokens_prompt, computed);
    assert_int_equal(stats.tokens_computed, computed);
    assert_int_equal(stats.miss_tokens[HEARTH_REASON_COLD], computed);
}

/* I99: cached state that cannot be used is computed twice, as far as it is computed at all. */
static void test_i99_a_cancelled_prefill_counts_what_it_computed(void **state)
{
    enum { LONG = 1000, RUNS = 3 };
    static struct kit_gen first, second;
    struct fault refuses = {0};
    struct sched_stats stats;
    struct rig rig;

    (void)state;
    rig_open(&rig,
             (struct engine_fake_options){.context = 1600, .chunk = 64, .fault_import = &refuses},
             false);
    kit_gen_init(&first, &rig.kit, 1, LONG, SHORT);
    kit_gen_run(&rig.kit, &first);
    end_turn(&rig.kit);
    kit_gen_init(&second, &rig.kit, 1, LONG, SHORT);
    fault_arm(&refuses, 1, true);
    rig.counter.gen = &second;
    rig.counter.runs = RUNS;
    kit_gen_run(&rig.kit, &second);
    const struct gen_usage *usage = &second.result.usage;
    assert_int_equal(second.result.end, GEN_END_CANCELLED);
    assert_int_equal(usage->computed, RUNS * 64);
    assert_int_equal(usage->twice, RUNS * 64 - 1); /* of the last token nothing is ever used */
    sched_get_stats(rig.kit.sched, &stats);
    assert_int_equal(stats.tokens_twice, usage->twice);
    kit_gen_fini(&first);
    kit_gen_fini(&second);
    rig_close(&rig);
}

/* A long prompt whose client leaves: what was computed is on the device, and then in the cache. */
static void test_cancelled_prefill_is_kept(void **state)
{
    enum { LONG = 1000 };
    static struct kit_gen gen, again;
    struct rig rig;

    (void)state;
    rig_open(&rig, (struct engine_fake_options){.context = 1600, .chunk = 64}, true);
    kit_gen_init(&gen, &rig.kit, 1, LONG, SHORT);
    rig.counter.gen = &gen;
    rig.counter.runs = 10;
    kit_gen_run(&rig.kit, &gen);
    end_turn(&rig.kit);
    assert_int_equal(gen.result.end, GEN_END_CANCELLED);
    expect_cut(&rig.kit, &gen.result.usage, 10 * 64, LONG);
    rig.counter.gen = NULL;
    kit_gen_init(&again, &rig.kit, 1, LONG, SHORT);
    kit_gen_run(&rig.kit, &again);
    assert_int_equal(again.result.usage.device, 10 * 64);
    restart(&rig);
    assert_int_equal(held(&rig.kit, &again), LONG + SHORT - 1);
    kit_gen_fini(&again);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* A client that gives up after two chunks of a long prompt and sends it again, until it is
 * answered. Between two attempts other prompts need all cells of the device. Each attempt continues
 * where the last one was cut: no token is computed twice. */
static void check_attempts(kind_set kinds, bool park)
{
    enum { LONG = 300, CHUNK = 32, CUT = 2, ATTEMPTS = 4, CONTEXT = 400 };
    static struct kit_gen gen;
    struct rig rig;

    rig_open(&rig,
             (struct engine_fake_options){
                 .context = CONTEXT, .chunk = CHUNK, .kinds = kinds, .rows_bytes = 64},
             park);
    for (uint32_t i = 0; i <= ATTEMPTS; i++) {
        kit_gen_init(&gen, &rig.kit, 1, LONG, SHORT);
        rig.counter.gen = &gen;
        rig.counter.runs = i < ATTEMPTS ? CUT : 0;
        uint64_t before = stats_of(&rig.kit).prefill_tokens;
        kit_gen_run(&rig.kit, &gen);
        end_turn(&rig.kit);
        rig.counter.gen = NULL;
        uint64_t computed = stats_of(&rig.kit).prefill_tokens - before;
        assert_int_equal(gen.result.end, i < ATTEMPTS ? GEN_END_CANCELLED : GEN_END_LENGTH);
        assert_int_equal(computed, i < ATTEMPTS ? CUT * CHUNK : LONG - ATTEMPTS * CUT * CHUNK);
        kit_gen_fini(&gen);
        run_once(&rig.kit, 100 + i, CONTEXT - 2 * SHORT, SHORT);
    }
    rig_close(&rig);
}

static void test_attempts_that_were_cut_continue(void **state)
{
    static const kind_set kinds[] = {KIND_BIT(KIND_FULL),
                                     KIND_BIT(KIND_FULL) | KIND_BIT(KIND_RECURRENT),
                                     KIND_BIT(KIND_RECURRENT)};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        check_attempts(kinds[i], true);
        check_attempts(kinds[i], false);
    }
}

/* ---- pieces ---- */

enum { PIECED = 300, PIECES = 6 }; /* with its answer: five runs and a tail */

struct held_save {
    struct sched_kit kit;
    struct counter counter;
    struct kit_gen gen, next;
    sem_t holds, go;
};

/* The engine's thread is in the first export of an idle save. */
static void hold_first_export(struct held_save *save)
{
    struct engine_fake_options fake = {
        .kinds = FULL, .chunk = 64, .on_export = on_export, .arg = &save->counter};

    *save = (struct held_save){.counter = {.holds = &save->holds, .go = &save->go}};
    sem_init(&save->holds, 0, 0);
    sem_init(&save->go, 0, 0);
    sched_kit_open(&save->kit, &fake, RAM, &(struct sched_options){.park = true, .linger_ms = 1});
    kit_gen_init(&save->gen, &save->kit, 1, PIECED, SHORT);
    kit_gen_run(&save->kit, &save->gen);
    while (sem_wait(&save->holds) != 0)
        ;
}

/* The next request arrives; then the export ends. */
static void go_on(struct held_save *save)
{
    save->counter.gen = &save->next;
    kit_gen_submit(&save->kit, &save->next);
    sem_post(&save->go);
    kit_gen_wait(&save->next);
    WAIT_UNTIL(stats_of(&save->kit).unsaved == 0);
    assert_false(atomic_load(&save->counter.early));
}

static void close_held(struct held_save *save)
{
    kit_gen_fini(&save->gen);
    kit_gen_fini(&save->next);
    sched_kit_close(&save->kit);
    sem_destroy(&save->holds);
    sem_destroy(&save->go);
}

/* A request that arrives in the middle of a save waits for one piece. The rest is stored later, and
 * nothing twice. */
static void test_a_request_waits_for_one_piece(void **state)
{
    static struct held_save save;

    (void)state;
    hold_first_export(&save);
    kit_gen_init(&save.next, &save.kit, 2, 4 * BLOCK + 1 - SHORT, SHORT);
    go_on(&save);
    assert_int_equal(atomic_load(&save.counter.exports), PIECES + 1);
    close_held(&save);
}

/* One that continues a sequence of which a part is stored takes it over, and stores the rest. */
static void test_half_saved_is_passed_on(void **state)
{
    static struct held_save save;

    (void)state;
    hold_first_export(&save);
    kit_gen_init(&save.next, &save.kit, 2, PIECED + SHORT, SHORT);
    memcpy(save.next.prompt, save.gen.prompt, PIECED * sizeof(token_id));
    memcpy(save.next.prompt + PIECED, save.gen.answer, SHORT * sizeof(token_id));
    go_on(&save);
    assert_int_equal(save.next.result.usage.device, PIECED + SHORT - 1);
    assert_int_equal(atomic_load(&save.counter.exports), PIECES);
    close_held(&save);
}

TEST_SUITE(TEST(test_scattered_ends_are_left_out), TEST(test_nothing_is_forced_while_there_is_room),
           TEST(test_stored_ahead_when_tight), TEST(test_a_client_alone_does_not_wait),
           TEST(test_exports_on_the_way),
           TEST(test_i99_a_cancelled_prefill_counts_what_it_computed),
           TEST(test_cancelled_prefill_is_kept), TEST(test_attempts_that_were_cut_continue),
           TEST(test_a_request_waits_for_one_piece), TEST(test_half_saved_is_passed_on))
