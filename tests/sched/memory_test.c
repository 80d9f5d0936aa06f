#include "sched/memory.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "engine/engine.h"
#include "engine/state.h"
#include "support/models.h"
#include "support/test.h"

#define MIB (1ull << 20)

static const struct guard_model small = {.weights = 100 * MIB, .cell_bytes = MIB};

/* The machine, as the test says it is. */
struct machine {
    atomic_ullong process, available;
};

static uint64_t process_of(void *arg)
{
    return atomic_load(&((struct machine *)arg)->process);
}

static uint64_t available_of(void *arg)
{
    return atomic_load(&((struct machine *)arg)->available);
}

static struct memory *open_on(struct machine *machine, uint64_t ceiling, struct hearth_cache *cache,
                              uint64_t ram)
{
    struct memory_options options = {.ceiling = ceiling,
                                     .cache = cache,
                                     .ram_bytes = ram,
                                     .ram_floor = MIB,
                                     .process = process_of,
                                     .available = available_of,
                                     .arg = machine,
                                     .poll_ns = 1};

    return memory_create(&options);
}

static struct memory_view view_of(struct memory *memory)
{
    struct memory_view view;

    memory_get_view(memory, &view);
    return view;
}

/* ---- models ---- */

/* Whoever joins later is under the same ceiling, and what does not fit does not get in (I68, I78).
 */
static void test_i68_i78_models_share_one_ceiling(void **state)
{
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 250 * MIB, NULL, 0);
    struct memory_member *a, *b, *c;
    struct errinfo info = {0};

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &a, &info));
    assert_ok(memory_join(memory, "b", &small, &b, &info));
    assert_err(memory_join(memory, "c", &small, &c, &info), ERR_LIMIT);
    assert_null(c);
    assert_non_null(strstr(info.text, "c needs 100.0 MiB for its weights"));
    assert_non_null(strstr(info.text, "beside 200.0 MiB in use; the ceiling is 250.0 MiB"));
    /* What is left for requests is what both have left: 250 - 200 - 7.8 for queues. */
    struct guard_need fits = memory_need(b, 0, 42, 0), not = memory_need(b, 0, 43, 0);
    assert_ok(memory_check(b, &fits, &info));
    assert_err(memory_check(b, &not, &info), ERR_NOMEM);
    memory_leave(&a);
    assert_ok(memory_check(b, &not, &info));
    assert_ok(memory_join(memory, "c", &small, &c, &info));
    memory_leave(&b);
    memory_leave(&c);
    assert_true(view_of(memory).reading.fixed == 0);
    memory_destroy(&memory);
}

/* Bodies are in the account, and have less room when other memory is in use. */
static void test_bodies_are_in_the_account(void **state)
{
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 256 * MIB, NULL, 0);
    struct memory_member *member;

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &member, NULL));
    assert_true(memory_set_bodies(memory, 0) == 32 * MIB);
    assert_true(memory_set_bodies(memory, 30 * MIB) == 32 * MIB);
    memory_poll(member);
    assert_true(view_of(memory).used == 130 * MIB && view_of(memory).reading.bodies == 30 * MIB);
    atomic_store(&machine.process, 260 * MIB);
    memory_poll(member);
    assert_true(memory_set_bodies(memory, 30 * MIB) / MIB == 13); /* hard: 243.2 */
    atomic_store(&machine.process, 300 * MIB);
    memory_poll(member);
    assert_true(memory_set_bodies(memory, 0) == 0);
    atomic_store(&machine.process, 100 * MIB);
    memory_poll(member);
    assert_true(memory_set_bodies(memory, 0) == 32 * MIB);
    assert_true(memory_set_bodies(NULL, 1) == UINT64_MAX);
    memory_leave(&member);
    memory_destroy(&memory);
}

/* The figures of a refusal add up to more than the ceiling. */
static void test_i72_a_refusal_adds_up(void **state)
{
    static const struct guard_model model = {.weights = 60 * MIB, .cells = 5 * MIB};
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 96 * MIB, NULL, 0);
    struct guard_need need = {.compute = 2 * MIB, .claim = 2 * MIB, .records = 29 * MIB};
    struct errinfo info = {0};
    struct memory_member *member;

    (void)state;
    assert_ok(memory_join(memory, "a", &model, &member, NULL));
    assert_ok(memory_check(member, &need, &info));  /* 65 + 2 + 29 = 96 */
    assert_true(memory_hold(member, need.records)); /* more than the share of all, but alone */
    assert_false(memory_hold(member, 1));
    memory_drop(member, need.records);
    need.claim = need.compute = 3 * MIB;
    assert_err(memory_check(member, &need, &info), ERR_NOMEM);
    assert_string_equal(info.text,
                        "the request needs about 3.0 MiB to be computed and 29.0 MiB for its text "
                        "and tokens, beside 65.0 MiB of the models, 0 B of the program and 0 B of "
                        "the cache: 97.0 MiB, and the memory ceiling is 96.0 MiB");
    memory_leave(&member);
    memory_destroy(&memory);
}

/* What the process takes beside its models counts, as it was when the first one came: requests that
 * exceed the ceiling with it are refused, not ended. A guessed ceiling refuses nothing for it. */
static void test_i70_i72_the_program_counts(void **state)
{
    static const struct guard_model model = {.weights = 60 * MIB, .cells = 5 * MIB};
    struct machine machine = {.process = 80 * MIB};
    struct memory *memory = open_on(&machine, 96 * MIB, NULL, 0);
    struct guard_need need = {.records = 16 * MIB, .total = 16 * MIB};
    struct errinfo info = {0};
    struct memory_member *member;

    (void)state;
    assert_ok(memory_join(memory, "a", &model, &member, NULL));
    assert_ok(memory_check(member, &need, &info)); /* 65 + 15 + 16 = 96 */
    assert_true(memory_hold(member, need.records));
    atomic_store(&machine.process, 95 * MIB); /* the request itself changes nothing */
    memory_poll(member);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    memory_unclaim(member, need.claim);
    memory_drop(member, need.records);
    need.records += MIB;
    assert_false(memory_hold(member, need.records));
    assert_int_equal(memory_claim(member, &need), GUARD_REFUSE);
    assert_err(memory_check(member, &need, &info), ERR_NOMEM);
    assert_non_null(strstr(info.text, "17.0 MiB for its text and tokens, beside 65.0 MiB of the "
                                      "models, 15.0 MiB of the program and 0 B of the cache: "
                                      "97.0 MiB, and the memory ceiling is 96.0 MiB"));
    memory_leave(&member);
    memory_destroy(&memory);
    memory = memory_create(&(struct memory_options){
        .ceiling = 96 * MIB, .guessed = true, .process = process_of, .arg = &machine});
    assert_ok(memory_join(memory, "a", &model, &member, NULL));
    assert_ok(memory_check(member, &need, &info));
    memory_leave(&member);
    memory_destroy(&memory);
}

/* A ceiling that the process exceeds with its first model is an error, not a level. */
static void test_i70_the_process_is_above_the_ceiling(void **state)
{
    struct machine machine = {.process = 60 * MIB};
    struct memory *memory = open_on(&machine, 10 * MIB, NULL, 0);
    struct memory_member *member;
    struct errinfo info = {0};

    (void)state;
    assert_err(memory_join(memory, "a", &(struct guard_model){.weights = MIB}, &member, &info),
               ERR_LIMIT);
    assert_null(member);
    assert_non_null(strstr(info.text, "with a loaded the process takes 60.0 MiB, and the ceiling "
                                      "is 10.0 MiB"));
    memory_destroy(&memory);
}

/* A guess is no reason not to serve what was asked for; what was set is one. */
static void test_a_guessed_ceiling_is_lifted(void **state)
{
    struct memory_options options = {.ceiling = 50 * MIB, .guessed = true};
    struct memory *memory = memory_create(&options);
    struct memory_member *member, *wild;

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &member, NULL));
    assert_true(view_of(memory).limits.ceiling == 125 * MIB &&
                view_of(memory).limits.hard < 125 * MIB);
    assert_int_equal(view_of(memory).level, GUARD_OK);
    assert_err(
        memory_join(memory, "b", &(struct guard_model){.weights = UINT64_MAX - MIB}, &wild, NULL),
        ERR_LIMIT);
    memory_leave(&member);
    memory_destroy(&memory);
}

/* What a token costs is what the engine's own state has, not what some part of a configuration says
 * (I69). */
static void test_i69_sizes_are_those_of_the_engine(void **state)
{
    static const char *const families[] = {"llama", "gemma3"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(families); i++) {
        struct engine *engine = test_engine(families[i], NULL);
        const struct engine_facts *facts = engine_facts(engine);
        struct guard_model model = memory_model_of(facts);
        assert_true(model.weights > 0 && model.cell_bytes > 0);
        assert_true(model.cell_bytes ==
                    state_rows_bytes(engine, 101) - state_rows_bytes(engine, 100));
        assert_true(model.cells ==
                    facts->context * model.cell_bytes + facts->sequences * model.sequence_bytes);
        assert_true(guard_model_fixed(&model) == facts->weights_bytes + facts->kv_bytes);
        engine_close(&engine);
    }
}

/* A scheduler without a ceiling asks the same questions. */
static void test_no_ceiling_allows_everything(void **state)
{
    struct memory_member *member;
    struct guard_need need;

    (void)state;
    assert_ok(memory_join(NULL, "x", &small, &member, NULL));
    assert_null(member);
    need = memory_need(member, 0, 1u << 30, 0);
    assert_ok(memory_check(member, &need, NULL));
    assert_true(memory_hold(member, UINT64_MAX));
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    assert_int_equal(memory_chunk(member, 512, 1000), 512);
    assert_int_equal(memory_epoch(member), 0);
    assert_false(memory_take_over(member));
    memory_poll(member);
    memory_note_run(member, 512, 1000);
    memory_unclaim(member, 1);
    memory_drop(member, 1);
    memory_leave(&member);
    memory_destroy(&(struct memory *){NULL});
}

/* ---- requests ---- */

/* Claims are promised up to the limit, given back, and promised again; one that is alone is never
 * told to wait. */
static void test_i70_claims(void **state)
{
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 1000 * MIB, NULL, 0);
    struct memory_member *member;
    struct guard_need need;
    uint64_t epoch;

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &member, NULL));
    need = memory_need(member, 100, 300, 25);
    assert_true(need.claim == 425 * MIB); /* cached ones count (I74) */
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT); /* 950: the hard limit */
    assert_int_equal(memory_claim(member, &need), GUARD_DEFER);
    assert_true(view_of(memory).reading.claims == 850 * MIB);
    assert_int_equal(view_of(memory).level, GUARD_HARD);
    assert_int_equal(memory_chunk(member, 512, 1000), GUARD_CHUNK_FLOOR);
    epoch = memory_epoch(member);
    memory_unclaim(member, need.claim);
    assert_true(memory_epoch(member) > epoch);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    memory_unclaim(member, need.claim);
    memory_unclaim(member, need.claim);
    need = memory_need(member, 0, 868, 0);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT); /* alone: up to the ceiling */
    memory_unclaim(member, need.claim);
    need = memory_need(member, 0, 869, 0);
    assert_int_equal(memory_claim(member, &need), GUARD_REFUSE);
    assert_int_equal(view_of(memory).deferred, 1);
    assert_int_equal(view_of(memory).refused, 1);
    memory_leave(&member);
    memory_destroy(&memory);
}

static void test_records_of_all_requests_are_bounded(void **state)
{
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 320 * MIB, NULL, 0);
    struct memory_member *member;

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &member, NULL));
    assert_true(memory_hold(member, 6 * MIB));
    assert_true(memory_hold(member, 4 * MIB));
    assert_false(memory_hold(member, 1));
    memory_drop(member, 4 * MIB);
    assert_true(memory_hold(member, 1));
    memory_drop(member, 1);
    memory_drop(member, 6 * MIB);
    assert_int_equal(view_of(memory).turned_away, 1);
    memory_leave(&member);
    memory_destroy(&memory);
}

/* ---- what is measured ---- */

/* Memory that is in no ledger: chunks shrink, then admissions wait, then a request ends; not
 * for a single reading, and each time again. */
static void test_i71_i77_measured_pressure(void **state)
{
    struct machine machine = {.process = 200 * MIB};
    struct memory *memory = open_on(&machine, 1000 * MIB, NULL, 0);
    struct memory_member *member;
    struct guard_need need;
    struct guard_model model = small;

    (void)state;
    model.compute = 512 * MIB;
    model.chunk = 512;
    model.context = 1000;
    assert_ok(memory_join(memory, "a", &model, &member, NULL));
    need = memory_need(member, 0, 10, 0);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    memory_poll(member);
    assert_int_equal(view_of(memory).level, GUARD_OK);
    atomic_store(&machine.process, 700 * MIB);
    assert_int_equal(memory_chunk(member, 512, 1000), 512);
    memory_poll(member);
    assert_int_equal(memory_chunk(member, 512, 1000), 250); /* a token costs a MiB */
    assert_int_equal(memory_chunk(member, 512, 500), 500);
    memory_note_run(member, 100, 1000); /* these are in the 700 */
    assert_int_equal(memory_chunk(member, 512, 1000), 350);
    atomic_store(&machine.process, 960 * MIB);
    memory_poll(member);
    assert_int_equal(view_of(memory).level, GUARD_HARD);
    assert_int_equal(memory_chunk(member, 512, 1000), 100);
    assert_int_equal(memory_claim(member, &need), GUARD_DEFER);
    assert_false(memory_take_over(member));
    atomic_store(&machine.process, 1001 * MIB);
    memory_poll(member);
    assert_false(memory_take_over(member));
    memory_poll(member);
    assert_true(memory_take_over(member));
    assert_false(memory_take_over(member)); /* the next one ends for new readings only */
    uint64_t epoch = memory_epoch(member);
    atomic_store(&machine.process, 200 * MIB);
    memory_poll(member);
    assert_true(memory_epoch(member) > epoch); /* waiting jobs may try again */
    assert_int_equal(view_of(memory).level, GUARD_OK);
    memory_unclaim(member, need.claim);
    memory_leave(&member);
    memory_destroy(&memory);
}

static void outside_of(struct memory_outside *outside, void *arg)
{
    outside->process = atomic_load((_Atomic uint64_t *)arg);
}

/* A model in its own process is measured with ours, by the thread that owns it, and gone when
 * it leaves. */
static void test_processes_of_models_are_measured(void **state)
{
    struct machine machine = {.process = 10 * MIB};
    struct memory *memory = open_on(&machine, 1000 * MIB, NULL, 0);
    _Atomic uint64_t first = 100 * MIB, second = 200 * MIB;
    struct memory_member *a, *b;

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &a, NULL));
    assert_ok(memory_join(memory, "b", &small, &b, NULL));
    memory_observe(a, outside_of, &first);
    memory_observe(b, outside_of, &second);
    memory_observe(NULL, outside_of, &first);
    memory_poll(a);
    assert_true(view_of(memory).reading.process == 110 * MIB);
    memory_poll(b);
    assert_true(view_of(memory).reading.process == 310 * MIB);
    atomic_store(&first, 700 * MIB);
    memory_poll(a);
    assert_int_equal(view_of(memory).level, GUARD_SOFT);
    atomic_store(&first, 0); /* it died */
    memory_poll(a);
    assert_true(view_of(memory).reading.process == 210 * MIB);
    memory_leave(&b);
    memory_poll(a);
    assert_true(view_of(memory).reading.process == 10 * MIB);
    memory_leave(&a);
    memory_destroy(&memory);
}

static void device_of(struct memory_outside *outside, void *arg)
{
    outside->device_total = 1000 * MIB;
    outside->device_free = *(const uint64_t *)arg;
}

/* A model on a card takes none of the machine's memory: its weights and cells are the card's, which
 * is measured with whatever other programs have there. */
static void test_devices_have_their_own_account(void **state)
{
    static const struct guard_model model = {
        .weights = 600 * MIB, .cells = 300 * MIB, .device = 850 * MIB};
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 500 * MIB, NULL, 0);
    uint64_t free_bytes = 100 * MIB;
    struct memory_member *member;

    (void)state;
    assert_ok(memory_join(memory, "a", &model, &member, NULL)); /* 900 > 500, but 50 are here */
    assert_true(view_of(memory).reading.fixed == 50 * MIB);
    assert_true(view_of(memory).device_models == 850 * MIB);
    assert_true(view_of(memory).device_total == 0); /* not measured yet */
    memory_observe(member, device_of, &free_bytes);
    memory_poll(member);
    assert_true(view_of(memory).device_total == 1000 * MIB);
    assert_true(view_of(memory).device_used == 900 * MIB);
    assert_int_equal(view_of(memory).level, GUARD_OK);
    memory_leave(&member);
    assert_true(view_of(memory).reading.fixed == 0);
    assert_true(view_of(memory).device_models == 0);
    assert_true(view_of(memory).device_used == 50 * MIB);
    memory_destroy(&memory);
}

static void test_it_is_measured_now_and_then(void **state)
{
    struct machine machine = {.process = 10 * MIB};
    struct clock *clock = clock_create_fake(1000, 0);
    struct memory_options options = {
        .ceiling = 1000 * MIB, .process = process_of, .arg = &machine, .clock = clock};

    (void)state;
    struct memory *memory = memory_create(&options);
    struct memory_member *member;
    assert_ok(memory_join(memory, "a", &small, &member, NULL));
    memory_poll(member);
    atomic_store(&machine.process, 20 * MIB);
    clock_fake_advance(clock, 99 * NS_PER_MS);
    memory_poll(member);
    assert_true(view_of(memory).reading.process == 10 * MIB);
    clock_fake_advance(clock, NS_PER_MS);
    memory_poll(member);
    assert_true(view_of(memory).reading.process == 20 * MIB);
    memory_leave(&member);
    memory_destroy(&memory);
    clock_destroy_fake(&clock);
}

/* ---- the RAM tier ---- */

static uint64_t cap_of(struct hearth_cache *cache)
{
    struct hearth_stats stats = {.struct_size = sizeof(stats)};

    hearth_get_stats(cache, NULL, &stats);
    return stats.bytes_cap;
}

/* It shrinks for models, requests and other programs, and grows back. */
static void test_the_ram_tier_gives_way_first(void **state)
{
    struct hearth_options options = {.struct_size = sizeof(options), .ram_bytes = 640 * MIB};
    struct machine machine = {0};
    struct hearth_cache *cache;
    struct memory_member *member, *second;

    (void)state;
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    struct memory *memory = open_on(&machine, 1000 * MIB, cache, 640 * MIB);
    assert_ok(memory_join(memory, "a", &small, &member, NULL));
    assert_true(cap_of(cache) == 640 * MIB);
    struct guard_need need = memory_need(member, 0, 600, 0);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    assert_true(cap_of(cache) == 150 * MIB);
    struct guard_need more = memory_need(member, 0, 200, 0);
    assert_int_equal(memory_claim(member, &more), GUARD_ADMIT);
    assert_true(cap_of(cache) == MIB); /* the floor */
    memory_unclaim(member, more.claim);
    assert_true(cap_of(cache) == 150 * MIB);
    memory_unclaim(member, need.claim);
    assert_true(cap_of(cache) == 640 * MIB);
    assert_ok(memory_join(memory, "b", &(struct guard_model){.weights = 500 * MIB}, &second, NULL));
    assert_true(cap_of(cache) == 250 * MIB);
    memory_leave(&second);
    atomic_store(&machine.available, 200 * MIB); /* of which 62.5 are left to others */
    memory_poll(member);
    /* with what it holds already: an arena that was made ahead */
    assert_true(cap_of(cache) < (200 + 64) * MIB);
    assert_true(view_of(memory).ram_moves >= 5 && view_of(memory).ram_cap == cap_of(cache));
    memory_leave(&member);
    memory_destroy(&memory);
    hearth_close(&cache);
}

/* ---- threads ---- */

enum { ROUNDS = 2000 };

struct claimer {
    struct memory *memory;
    struct memory_member *member;
    struct thread thread;
};

static void claim_often(void *arg)
{
    struct claimer *claimer = arg;
    struct memory_member *member = claimer->member;
    struct guard_need need = memory_need(member, 0, 150, 0);

    for (int i = 0; i < ROUNDS; i++) {
        struct memory_view view;
        if (memory_hold(member, MIB)) {
            if (memory_claim(member, &need) == GUARD_ADMIT)
                memory_unclaim(member, need.claim);
            memory_drop(member, MIB);
        }
        memory_poll(member);
        memory_get_view(claimer->memory, &view);
        /* One coherent set: never a ceiling without its shares, nor a sum that was never promised
         * (I71). */
        if (view.limits.hard >= view.limits.ceiling || view.reading.claims % MIB != 0 ||
            view.reading.claims > view.limits.ceiling)
            fail_msg("an incoherent view");
    }
}

static void test_i71_threads(void **state)
{
    struct hearth_options options = {.struct_size = sizeof(options), .ram_bytes = 64 * MIB};
    struct machine machine = {0};
    struct claimer claimers[4] = {0};
    struct hearth_cache *cache;

    (void)state;
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    struct memory *memory = open_on(&machine, 800 * MIB, cache, 64 * MIB);
    for (size_t i = 0; i < COUNT_OF(claimers); i++) {
        claimers[i].memory = memory;
        assert_ok(memory_join(memory, "a", &small, &claimers[i].member, NULL));
    }
    for (size_t i = 0; i < COUNT_OF(claimers); i++)
        assert_ok(thread_start(&claimers[i].thread, "claims", claim_often, &claimers[i], NULL));
    for (size_t i = 0; i < COUNT_OF(claimers); i++)
        thread_join(&claimers[i].thread);
    assert_true(view_of(memory).reading.claims == 0 && view_of(memory).reading.queues == 0);
    assert_true(view_of(memory).ram_cap == cap_of(cache));
    for (size_t i = 0; i < COUNT_OF(claimers); i++)
        memory_leave(&claimers[i].member);
    memory_destroy(&memory);
    hearth_close(&cache);
}

/* A new size of the RAM tier counts at once, as far as the ceiling allows. */
static void test_the_ram_tier_can_be_set(void **state)
{
    struct machine machine = {.available = 100000 * MIB};
    struct hearth_options options = {.struct_size = sizeof(options), .ram_bytes = 64 * MIB};
    struct hearth_stats stats = {.struct_size = sizeof(stats)};
    struct hearth_cache *cache;
    struct memory *memory;

    (void)state;
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    memory = open_on(&machine, 1000 * MIB, cache, 64 * MIB);
    memory_set_ram(memory, 32 * MIB);
    hearth_get_stats(cache, NULL, &stats);
    assert_true(stats.bytes_cap == 32 * MIB && view_of(memory).ram_cap == 32 * MIB);
    memory_set_ram(memory, 128 * MIB);
    hearth_get_stats(cache, NULL, &stats);
    assert_true(stats.bytes_cap == 128 * MIB);
    memory_set_ram(memory, 5000 * MIB); /* more than there is */
    assert_true(view_of(memory).ram_cap < 1000 * MIB &&
                view_of(memory).limits.ram_wanted == 5000 * MIB);
    memory_destroy(&memory);
    hearth_close(&cache);
}

/* Memory beside generations is in the same account, and is never promised beyond it. */
static void test_texts_are_charged(void **state)
{
    struct machine machine = {0};
    struct memory *memory = open_on(&machine, 1000 * MIB, NULL, 0);
    struct memory_member *member;
    struct errinfo info = {0};

    (void)state;
    assert_ok(memory_join(memory, "a", &small, &member, &info));
    assert_ok(memory_charge(member, 800 * MIB, &info));
    assert_true(view_of(memory).reading.claims == 800 * MIB);
    assert_err(memory_charge(member, 100 * MIB, &info), ERR_NOMEM); /* now: 950 is the hard limit */
    assert_non_null(strstr(info.text, "100.0 MiB"));
    assert_err(memory_charge(member, 900 * MIB, &info), ERR_LIMIT); /* ever */
    assert_string_equal(info.text,
                        "the request needs about 900.0 MiB to be tokenized and 31.3 MiB for its "
                        "text and tokens, beside 100.0 MiB of the models, 0 B of the program and "
                        "0 B of the cache: 1.0 GiB, and the memory ceiling is 1000.0 MiB");
    uint64_t epoch = memory_epoch(member);
    memory_uncharge(member, 800 * MIB);
    assert_true(memory_epoch(member) > epoch);
    /* Above the hard limit, but nothing else runs that could leave room. */
    assert_ok(memory_charge(member, 860 * MIB, &info));
    memory_uncharge(member, 860 * MIB);
    assert_true(view_of(memory).reading.claims == 0);
    assert_ok(memory_charge(NULL, UINT64_MAX, &info)); /* no ceiling */
    memory_uncharge(NULL, UINT64_MAX);
    memory_leave(&member);
    memory_destroy(&memory);
}

/* I70: a request that runs alone is admitted above the hard limit, but a text that is being
 * tokenized is not nothing: its memory is back soon, and until then both exceed the ceiling. */
static void test_i70_charged_texts_count_at_admission(void **state)
{
    struct memory *memory = memory_create(&(struct memory_options){.ceiling = 1000 * MIB});
    struct memory_member *member;
    struct guard_need need = {.claim = 300 * MIB, .total = 300 * MIB};

    (void)state;
    assert_ok(memory_join(memory, "m", &(struct guard_model){0}, &member, NULL));
    assert_ok(memory_charge(member, 800 * MIB, NULL));
    assert_int_equal(memory_claim(member, &need), GUARD_DEFER);
    memory_uncharge(member, 800 * MIB);
    assert_int_equal(memory_claim(member, &need), GUARD_ADMIT);
    memory_unclaim(member, need.claim);
    memory_leave(&member);
    memory_destroy(&memory);
}

TEST_SUITE(TEST(test_texts_are_charged), TEST(test_i70_charged_texts_count_at_admission),
           TEST(test_the_ram_tier_can_be_set), TEST(test_i68_i78_models_share_one_ceiling),
           TEST(test_bodies_are_in_the_account), TEST(test_i72_a_refusal_adds_up),
           TEST(test_i70_i72_the_program_counts), TEST(test_i70_the_process_is_above_the_ceiling),
           TEST(test_a_guessed_ceiling_is_lifted), TEST(test_i69_sizes_are_those_of_the_engine),
           TEST(test_no_ceiling_allows_everything), TEST(test_i70_claims),
           TEST(test_records_of_all_requests_are_bounded), TEST(test_i71_i77_measured_pressure),
           TEST(test_processes_of_models_are_measured), TEST(test_devices_have_their_own_account),
           TEST(test_it_is_measured_now_and_then), TEST(test_the_ram_tier_gives_way_first),
           TEST(test_i71_threads))
