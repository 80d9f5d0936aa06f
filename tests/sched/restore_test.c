/*
 * restore_test.c: restores that take their time: the slower tier answers when the test lets it, and
 * the scheduler's clock stands, so that no patience ends.
 */
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "engine/state.h"
#include "engine/state_digest.h"
#include "sched/memory.h"
#include "sched/sched.h"
#include "support/sched_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum {
    FULL = 1,
    RAM = 8 << 20,
    RAM_LARGE = 128 << 20,
    ROWS_LARGE = 80 << 10, /* 64 tokens are then verified by other threads, in two pieces */
    CELLS = 1024,
    CHUNK = 64,
    TURNS_MAX = 2000,
    HELD = 400,
    NEW = 32,
};

/* For the next rig_open. */
static kind_set kinds = FULL;
static enum hearth_tier slow_tier = HEARTH_TIER_SSD;
static uint32_t rows_bytes; /* of a token; 0: the engine's default */

struct rig {
    struct clock *clock;
    struct tier *slow;
    struct sched_kit kit;
    unsigned pieces, let_go_at; /* the engine's thread: pieces of its work since then; 0 = never */
    atomic_bool asked;          /* all are submitted: the first of these pieces waits for it */
    struct memory *memory;
    atomic_uint turns; /* of the scheduler: each measures the memory */
};

static uint64_t count_turn(void *arg)
{
    struct rig *rig = arg;

    atomic_fetch_add(&rig->turns, 1);
    return 0;
}

/* At some piece of the engine's work the slower tier answers all that it was asked. */
static void on_piece(struct engine *engine, void *arg)
{
    struct rig *rig = arg;

    (void)engine;
    if (rig->let_go_at == 0)
        return;
    while (!atomic_load(&rig->asked))
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    if (++rig->pieces != rig->let_go_at)
        return;
    tier_fault_hold(rig->slow, false);
    while (tier_fault_waiting(rig->slow) > 0)
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
}

static void rig_open(struct rig *rig, bool counts_turns)
{
    struct engine_fake_options fake = {.kinds = kinds,
                                       .chunk = CHUNK,
                                       .context = CELLS,
                                       .sequences = 4,
                                       .rows_bytes = rows_bytes,
                                       .on_piece = on_piece,
                                       .arg = rig};
    uint64_t ram = rows_bytes > 0 ? RAM_LARGE : RAM;
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = ram});

    rig->pieces = rig->let_go_at = 0;
    atomic_store(&rig->asked, false);
    rig->clock = clock_create_fake(NS_PER_S, NS_PER_S);
    rig->slow = tier_fault_open(&(struct tier_fault_options){.inner = inner, .threaded = true});
    rig->memory = NULL;
    if (counts_turns)
        rig->memory = memory_create(
            &(struct memory_options){.process = count_turn, .arg = rig, .poll_ns = 1});
    sched_kit_open(&rig->kit, &fake, ram,
                   &(struct sched_options){.clock = rig->clock, .memory = rig->memory});
    cache_attach_tier(rig->kit.cache, slow_tier, rig->slow, 1e9);
    kinds = FULL;
    slow_tier = HEARTH_TIER_SSD;
    rows_bytes = 0;
}

static void rig_close(struct rig *rig)
{
    sched_kit_close(&rig->kit);
    memory_destroy(&rig->memory);
    clock_destroy_fake(&rig->clock);
}

/* Computes a prompt, so that the slower tier holds it, and memory does not. */
static void rig_hold(struct rig *rig, uint32_t seed, uint32_t count)
{
    static struct kit_gen gen;

    kit_gen_init(&gen, &rig->kit, seed, count, 1);
    kit_gen_run(&rig->kit, &gen);
    kit_gen_fini(&gen);
    assert_ok(sched_wait_turn(rig->kit.sched, 60000, NULL));
    mover_drain(rig->kit.cache, 60000);
    hearth_clear(rig->kit.cache, NULL, HEARTH_TIER_RAM);
}

/* Until all of them have been admitted and looked up. */
static void rig_wait_parked(struct rig *rig, size_t count)
{
    struct sched_view views[8];
    size_t parked = 0;

    for (int i = 0; i < TURNS_MAX && parked < count; i++) {
        assert_ok(sched_wait_turn(rig->kit.sched, 60000, NULL));
        size_t n = sched_views(rig->kit.sched, views, COUNT_OF(views));
        parked = 0;
        for (size_t j = 0; j < n; j++)
            parked += views[j].phase == GEN_RESTORE || views[j].phase == GEN_DEFERRED;
    }
    assert_int_equal(parked, count);
}

/* Jobs that are being restored were promised cells as well: two that do not fit together are
 * restored one after the other, and each gets all of its cached state. */
static void test_cells_are_promised_while_bytes_are_on_their_way(void **state)
{
    static struct kit_gen gens[2];
    struct sched_stats stats;
    struct rig rig;

    (void)state;
    rig_open(&rig, false);
    for (uint32_t i = 0; i < COUNT_OF(gens); i++)
        rig_hold(&rig, i + 1, 600);
    tier_fault_hold(rig.slow, true);
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_init(&gens[i], &rig.kit, i + 1, 600, 300);
        kit_gen_submit(&rig.kit, &gens[i]);
    }
    rig_wait_parked(&rig, COUNT_OF(gens));
    tier_fault_hold(rig.slow, false);
    for (uint32_t i = 0; i < COUNT_OF(gens); i++) {
        kit_gen_wait(&gens[i]);
        assert_int_equal(gens[i].answer_count, 300);
        assert_int_equal(gens[i].result.usage.ssd, 599);
        assert_int_equal(gens[i].result.usage.computed, 1);
        kit_gen_fini(&gens[i]);
    }
    sched_get_stats(rig.kit.sched, &stats);
    assert_int_equal(stats.preempted, 0);
    rig_close(&rig);
}

/* During the reads, another job's answer takes the free cells. Cached state is not recomputed for
 * that: it is restored when there is room. */
static void test_no_room_any_more_when_the_bytes_are_here(void **state)
{
    static struct kit_gen runs, waits;
    struct rig rig;

    (void)state;
    rig_open(&rig, false);
    rig_hold(&rig, 2, 400);
    tier_fault_hold(rig.slow, true);
    rig.let_go_at = 400; /* 300 tokens of prompt and nearly 400 of its answer have left 330 */
    kit_gen_init(&runs, &rig.kit, 1, 300, 500);
    kit_gen_init(&waits, &rig.kit, 2, 400, 8);
    kit_gen_submit(&rig.kit, &runs);
    kit_gen_submit(&rig.kit, &waits);
    atomic_store(&rig.asked, true);
    kit_gen_wait(&waits);
    kit_gen_wait(&runs);
    assert_int_equal(runs.answer_count, 500);
    assert_int_equal(waits.answer_count, 8);
    assert_int_equal(waits.result.usage.ram + waits.result.usage.ssd, 399);
    assert_int_equal(waits.result.usage.computed, 1);
    kit_gen_fini(&runs);
    kit_gen_fini(&waits);
    rig_close(&rig);
}

/* A job that waits for the bytes of its prompt, with patience for 30 s of the machine's time. */
static void rig_wait_for_bytes(struct rig *rig, struct kit_gen *gen)
{
    rig_hold(rig, 1, HELD);
    tier_fault_hold(rig->slow, true);
    hearth_space_set_speed(rig->kit.space, 1, 1e9); /* computing it would take minutes */
    kit_gen_init(gen, &rig->kit, 1, HELD, 1);
    kit_gen_submit(&rig->kit, gen);
    rig_wait_parked(rig, 1);
    clock_sleep_ns(clock_real(), 20 * NS_PER_MS); /* the thread ends its turn, most likely */
}

/* Lets the first read go, once there are that many and the job has seen that it must wait. Returns
 * how many there were. */
static size_t rig_release_first(struct rig *rig, size_t reads)
{
    size_t waiting;

    while ((waiting = tier_fault_waiting(rig->slow)) < reads)
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    rig_wait_parked(rig, 1);
    assert_ok(sched_wait_turn(rig->kit.sched, 60000, NULL));
    tier_fault_release(rig->slow, 1);
    return waiting;
}

/* While the tier holds all that it is asked. The runner ends a test that waits for ever. */
static void rig_wait_ended(struct rig *rig, struct kit_gen *gen)
{
    struct sched_view view;

    while (sched_views(rig->kit.sched, &view, 1) == 1) {
        assert_ok(sched_wait_turn(rig->kit.sched, 60000, NULL));
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    }
    kit_gen_wait(gen);
}

static void expect_within(uint64_t begin_ns, uint64_t seconds)
{
    assert_true(clock_mono_ns(clock_real()) - begin_ns < seconds * NS_PER_S);
}

static void test_it_sleeps_while_bytes_are_read(void **state)
{
    static struct kit_gen gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, true);
    rig_wait_for_bytes(&rig, &gen);
    unsigned before = atomic_load(&rig.turns);
    clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    assert_true(atomic_load(&rig.turns) - before < 10);
    tier_fault_hold(rig.slow, false);
    kit_gen_wait(&gen);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* Digests whose callbacks wait: no thread verifies anything until digests_release. */
enum { DIGESTS = 8, DIGEST_BYTES = 5 << 20 };

struct digests {
    sem_t go;
    struct state_shape shape;
    struct state_digest_task *tasks[DIGESTS];
    char *data;
};

static void wait_to_go(void *arg)
{
    struct digests *digests = arg;

    while (sem_wait(&digests->go) != 0)
        ;
}

static void digests_block(struct digests *digests)
{
    *digests = (struct digests){.shape = {.bytes = DIGEST_BYTES}, .data = mem_alloc(DIGEST_BYTES)};
    sem_init(&digests->go, 0, 0);
    for (size_t i = 0; i < DIGESTS; i++)
        digests->tasks[i] = state_digest_start(&digests->shape, digests->data, wait_to_go, digests);
}

static void digests_release(struct digests *digests)
{
    for (size_t i = 0; i < DIGESTS; i++)
        sem_post(&digests->go);
    for (size_t i = 0; i < DIGESTS; i++)
        (void)state_digest_finish(&digests->tasks[i]);
    sem_destroy(&digests->go);
    mem_free(digests->data);
}

/* All bytes came in time, and their verification takes longer than the deadline: the thread sleeps
 * until it is nudged, and the bytes are used. */
static void test_it_sleeps_while_bytes_are_verified(void **state)
{
    static struct kit_gen gen;
    struct digests digests;
    struct rig rig;

    (void)state;
    rows_bytes = ROWS_LARGE;
    rig_open(&rig, true);
    rig_wait_for_bytes(&rig, &gen);
    digests_block(&digests);
    tier_fault_hold(rig.slow, false);
    while (tier_fault_waiting(rig.slow) > 0)
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    mover_drain(rig.kit.cache, 60000);
    assert_ok(sched_wait_turn(rig.kit.sched, 60000, NULL)); /* the job has taken all bytes */
    clock_fake_advance(rig.clock, 60 * NS_PER_S);
    assert_ok(sched_wait_turn(rig.kit.sched, 60000, NULL));
    rig_wait_parked(&rig, 1);
    unsigned before = atomic_load(&rig.turns);
    clock_sleep_ns(clock_real(), 50 * NS_PER_MS);
    unsigned turns = atomic_load(&rig.turns) - before;
    uint64_t begin_ns = clock_mono_ns(clock_real());
    digests_release(&digests);
    kit_gen_wait(&gen);
    expect_within(begin_ns, 20);
    assert_int_equal(gen.result.usage.ssd, HELD - 1);
    assert_true(turns < 10);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* Not when its patience ends. */
static void test_a_finished_read_wakes_the_scheduler(void **state)
{
    static struct kit_gen gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, false);
    rig_wait_for_bytes(&rig, &gen);
    uint64_t begin_ns = clock_mono_ns(clock_real());
    tier_fault_hold(rig.slow, false);
    kit_gen_wait(&gen);
    expect_within(begin_ns, 20);
    assert_int_equal(gen.result.usage.ssd, HELD - 1);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

static void test_a_cancellation_wakes_the_scheduler(void **state)
{
    static struct kit_gen gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, false);
    rig_wait_for_bytes(&rig, &gen);
    uint64_t begin_ns = clock_mono_ns(clock_real());
    sched_cancel(rig.kit.sched, &gen.gen);
    kit_gen_wait(&gen);
    expect_within(begin_ns, 20);
    assert_int_equal(gen.result.end, GEN_END_CANCELLED);
    tier_fault_hold(rig.slow, false);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* One deadline for all objects of a prompt: half of them come in time, each before half of it has
 * passed again, and then no more. The job computes the rest while the tier still holds it. */
static void test_one_deadline_for_all_objects(void **state)
{
    static struct kit_gen gen;
    struct rig rig;

    (void)state;
    rig_open(&rig, false);
    rig_wait_for_bytes(&rig, &gen);
    clock_fake_advance(rig.clock, 20 * NS_PER_S); /* of 30 */
    size_t reads = rig_release_first(&rig, 2);
    while (tier_fault_waiting(rig.slow) == reads)
        clock_sleep_ns(clock_real(), NS_PER_MS / 10);
    assert_ok(sched_wait_turn(rig.kit.sched, 60000, NULL));
    clock_fake_advance(rig.clock, 15 * NS_PER_S);
    rig_wait_ended(&rig, &gen);
    assert_true(gen.result.usage.ssd < HELD - 1);
    tier_fault_hold(rig.slow, false);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* A store that hangs is waited for once. A shorter plan would wait for an earlier snapshot, and a
 * third one for the one before. */
static void test_a_store_that_failed_is_not_asked_again(void **state)
{
    static struct kit_gen gen;
    struct rig rig;

    (void)state;
    kinds = KIND_BIT(KIND_RECURRENT);
    slow_tier = HEARTH_TIER_REMOTE;
    rig_open(&rig, false);
    for (uint32_t count = 100; count <= HELD; count += 100)
        rig_hold(&rig, 1, count);
    tier_fault_hold(rig.slow, true);
    tier_fault_set_result(rig.slow, TIER_TIMEOUT);
    fault_arm(tier_fault_of(rig.slow, TIER_FAULT_GET_FAIL), 1, 1);
    kit_gen_init(&gen, &rig.kit, 1, HELD + 1, 1);
    kit_gen_submit(&rig.kit, &gen);
    (void)rig_release_first(&rig, 1);
    rig_wait_ended(&rig, &gen);
    assert_int_equal(gen.result.usage.computed, HELD + 1);
    tier_fault_hold(rig.slow, false);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* The front of a prompt is imported from memory while its back is awaited, and then the back cannot
 * be read: what was imported is used, and the rest is computed. */
static void test_a_failed_back_leaves_the_imported_front(void **state)
{
    static struct kit_gen gen;
    struct rig rig;
    uint64_t tokens;

    (void)state;
    rig_open(&rig, false);
    rig_hold(&rig, 1, 600);
    kit_gen_init(&gen, &rig.kit, 1, 300, 1); /* brings its front into memory */
    kit_gen_run(&rig.kit, &gen);
    kit_gen_fini(&gen);
    assert_ok(sched_forget(rig.kit.sched, NULL, 60000, &tokens, NULL));
    tier_fault_hold(rig.slow, true);
    fault_arm(tier_fault_of(rig.slow, TIER_FAULT_GET_FAIL), 1, true);
    kit_gen_init(&gen, &rig.kit, 1, 600, 1);
    kit_gen_submit(&rig.kit, &gen);
    rig_wait_parked(&rig, 1);
    tier_fault_hold(rig.slow, false);
    kit_gen_wait(&gen);
    assert_true(gen.result.usage.ram >= 256 && gen.result.usage.ram < 599);
    assert_int_equal(gen.result.usage.ssd, 0);
    assert_int_equal(gen.result.usage.computed, 600 - gen.result.usage.ram);
    kit_gen_fini(&gen);
    rig_close(&rig);
}

/* ---- beside another answer ---- */

struct beside {
    struct clock *clock;
    struct sched_kit kit;
    sem_t holds, go;
    struct kit_gen runs; /* an answer that is under way */
};

/* The cache has prompts of CELLS tokens, of the seeds 1 to `prompts`. */
static void beside_open(struct beside *beside, uint32_t prompts, uint64_t import_ns)
{
    static struct kit_gen held;
    uint64_t tokens;

    beside->clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct engine_fake_options fake = {.kinds = FULL,
                                       .chunk = CHUNK,
                                       .context = 8 * CELLS,
                                       .sequences = 8,
                                       .clock = beside->clock,
                                       .decode_ns = NS_PER_MS,
                                       .prefill_ns = NS_PER_MS / 4,
                                       .import_ns = import_ns};
    sched_kit_open(&beside->kit, &fake, RAM, &(struct sched_options){.clock = beside->clock});
    for (uint32_t seed = 1; seed <= prompts; seed++) {
        kit_gen_init(&held, &beside->kit, seed, CELLS, 1);
        kit_gen_run(&beside->kit, &held);
        kit_gen_fini(&held);
    }
    assert_ok(sched_forget(beside->kit.sched, NULL, 60000, &tokens, NULL));
    sem_init(&beside->holds, 0, 0);
    sem_init(&beside->go, 0, 0);
    kit_gen_init(&beside->runs, &beside->kit, 99, 10, 400);
    beside->runs.holds = &beside->holds;
    beside->runs.go = &beside->go;
}

/* The answer begins when all of them are submitted; of each, so many tokens are computed. */
static void beside_run(struct beside *beside, struct kit_gen *restored, size_t count,
                       uint32_t computed)
{
    kit_gen_submit(&beside->kit, &beside->runs);
    sem_wait(&beside->holds);
    for (size_t i = 0; i < count; i++)
        kit_gen_submit(&beside->kit, &restored[i]);
    sem_post(&beside->go);
    for (size_t i = 0; i < count; i++) {
        kit_gen_wait(&restored[i]);
        assert_int_equal(restored[i].result.usage.computed, computed);
        kit_gen_fini(&restored[i]);
    }
    kit_gen_wait(&beside->runs);
}

static void beside_close(struct beside *beside)
{
    kit_gen_fini(&beside->runs);
    sched_kit_close(&beside->kit);
    sem_destroy(&beside->holds);
    sem_destroy(&beside->go);
    clock_destroy_fake(&beside->clock);
}

/* Importing an object takes 20 ms: another answer gets a token after each. When the restored one has
 * its first token, the other is ended, so that its tokens count the turns it got. */
static void test_others_get_their_turn_between_imports(void **state)
{
    static struct kit_gen waits;
    static struct beside beside;

    (void)state;
    beside_open(&beside, 1, 20 * NS_PER_MS);
    kit_gen_init(&waits, &beside.kit, 1, CELLS, 1);
    waits.cancel = &beside.runs;
    beside_run(&beside, &waits, 1, 1);
    assert_uint_in_range(beside.runs.answer_count, CELLS / CHUNK - 2, CELLS / CHUNK + 8);
    beside_close(&beside);
}

/* Three restores at once delay another answer no longer than one does: by 10 ms of imports, and what
 * the last of them takes longer. */
static void test_restores_share_a_turn(void **state)
{
    static struct kit_gen waits[3];
    static struct beside beside;

    (void)state;
    beside_open(&beside, COUNT_OF(waits), 4 * NS_PER_MS);
    for (uint32_t i = 0; i < COUNT_OF(waits); i++)
        kit_gen_init(&waits[i], &beside.kit, i + 1, CELLS, 1);
    beside_run(&beside, waits, COUNT_OF(waits), 1);
    assert_uint_in_range(beside.runs.gap_ns, 8 * NS_PER_MS, 14 * NS_PER_MS);
    beside_close(&beside);
}

/* Nor does the end of a restore, when the job's prefill comes in the same turn. */
static void test_the_last_import_begins_early(void **state)
{
    static struct kit_gen waits;
    static struct beside beside;

    (void)state;
    beside_open(&beside, 1, 4 * NS_PER_MS);
    kit_gen_init(&waits, &beside.kit, 1, CELLS - CHUNK, 1); /* 15 objects, 3 in each turn */
    kit_gen_change(&waits, &beside.kit, 3, CELLS - CHUNK - NEW);
    beside_run(&beside, &waits, 1, NEW);
    assert_uint_in_range(beside.runs.gap_ns, 8 * NS_PER_MS, 14 * NS_PER_MS);
    beside_close(&beside);
}

/* They take turns: a short one does not wait for a long one that came first. */
static void test_a_short_restore_ends_first(void **state)
{
    static struct kit_gen waits[2];
    static struct beside beside;

    (void)state;
    beside_open(&beside, COUNT_OF(waits), 4 * NS_PER_MS);
    kit_gen_init(&waits[0], &beside.kit, 1, CELLS, 1);
    kit_gen_init(&waits[1], &beside.kit, 2, CELLS / 4, 1);
    beside_run(&beside, waits, COUNT_OF(waits), 1);
    assert_true(waits[1].result.times.ended < waits[0].result.times.ended);
    beside_close(&beside);
}

/* ---- what an import is worth ---- */

enum { ROW_MEASURED = 16384 }; /* 64 of them are 1 MiB: enough to measure a speed */

/* Runs the prompt, with tokens of another seed from `from` on, when only the cache can have it. */
static struct gen_usage ask(struct sched_kit *kit, uint32_t from)
{
    static struct kit_gen gen;
    uint64_t tokens;

    kit_gen_init(&gen, kit, 1, HELD, 1);
    if (from < HELD)
        kit_gen_change(&gen, kit, 2, from);
    kit_gen_run(kit, &gen);
    struct gen_usage usage = gen.result.usage;
    kit_gen_fini(&gen);
    assert_ok(sched_forget(kit->sched, NULL, 60000, &tokens, NULL));
    return usage;
}

static void open_priced(struct sched_kit *kit, struct clock *clock, uint32_t row,
                        uint64_t import_ns)
{
    struct engine_fake_options fake = {.kinds = FULL,
                                       .chunk = CHUNK,
                                       .context = 4 * CELLS,
                                       .sequences = 4,
                                       .rows_bytes = row,
                                       .clock = clock,
                                       .prefill_ns = 1000,
                                       .import_ns = import_ns};

    sched_kit_open(kit, &fake, 8 * RAM, &(struct sched_options){.clock = clock});
    assert_int_equal(ask(kit, HELD).computed, HELD);
}

static void test_a_large_object_is_not_imported_for_one_token(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct sched_kit kit;

    (void)state;
    open_priced(&kit, clock, ROW_MEASURED, 0);
    struct gen_usage usage = ask(&kit, 1);
    assert_int_equal(usage.ram, 0);
    assert_int_equal(usage.reason, HEARTH_REASON_CHEAPER);
    assert_int_equal(ask(&kit, HELD).ram, HELD - 1);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

static void test_one_slow_import_is_no_rule(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct sched_kit kit;
    unsigned restored = 0;

    (void)state;
    open_priced(&kit, clock, ROW_MEASURED, 50 * NS_PER_MS);
    for (unsigned i = 0; i < 60; i++)
        restored += ask(&kit, HELD).ram > 0;
    assert_uint_in_range(restored, 2, 40); /* it is not given up at once, but it is */
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* The time of a few KiB is that of the call, not of the bytes: it says nothing about larger ones. */
static void test_small_imports_set_no_speed(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct sched_kit kit;

    (void)state;
    open_priced(&kit, clock, ROW_MEASURED / 16, 50 * NS_PER_MS);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(ask(&kit, HELD).ram, HELD - 1);
    sched_kit_close(&kit);
    clock_destroy_fake(&clock);
}

TEST_SUITE(TEST(test_a_failed_back_leaves_the_imported_front),
           TEST(test_a_large_object_is_not_imported_for_one_token),
           TEST(test_one_slow_import_is_no_rule), TEST(test_small_imports_set_no_speed),
           TEST(test_others_get_their_turn_between_imports), TEST(test_restores_share_a_turn),
           TEST(test_a_short_restore_ends_first), TEST(test_the_last_import_begins_early),
           TEST(test_it_sleeps_while_bytes_are_read), TEST(test_it_sleeps_while_bytes_are_verified),
           TEST(test_a_finished_read_wakes_the_scheduler),
           TEST(test_a_cancellation_wakes_the_scheduler), TEST(test_one_deadline_for_all_objects),
           TEST(test_a_store_that_failed_is_not_asked_again),
           TEST(test_cells_are_promised_while_bytes_are_on_their_way),
           TEST(test_no_room_any_more_when_the_bytes_are_here))
