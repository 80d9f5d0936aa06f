#include "sched/guard.h"

#include <string.h>

#include "support/test.h"

#define GIB (1ull << 30)
#define MIB (1ull << 20)

/* ---- limits ---- */

/* A ceiling that was set is the ceiling; everything else is a share of it (I70). */
static void test_i70_a_set_ceiling_is_the_ceiling(void **state)
{
    struct guard_limits limits = guard_limits_of(100 * GIB, 8 * GIB, 64 * MIB);

    (void)state;
    assert_true(limits.ceiling == 100 * GIB);
    assert_true(limits.soft < limits.hard && limits.hard < limits.ceiling);
    assert_true(limits.ceiling - limits.hard > limits.queues_max); /* see QUEUES_SHARE */
    assert_true(guard_limits_of(GIB, MIB, GIB).ram_floor == MIB);
}

static void test_a_ceiling_of_the_machine(void **state)
{
    (void)state;
    assert_true(guard_ceiling_of(16 * GIB, 16 * GIB) == 14 * GIB);
    assert_true(guard_ceiling_of(64 * GIB, 64 * GIB) == 60 * GIB);
    assert_true(guard_ceiling_of(64 * GIB, 10 * GIB) == 10 * GIB);
    assert_true(guard_ceiling_of(0, 0) == 0); /* not known: no guard */
}

static const struct level_row {
    struct guard_reading reading;
    enum guard_level level;
    bool over;
} level_rows[] = {
    {{0}, GUARD_OK, false},
    {{.fixed = 84}, GUARD_OK, false},
    {{.fixed = 85}, GUARD_SOFT, false},
    {{.fixed = 40, .claims = 20, .queues = 5, .ram_used = 20}, GUARD_SOFT, false},
    {{.fixed = 94}, GUARD_SOFT, false},
    {{.fixed = 95}, GUARD_HARD, false},
    {{.fixed = 100}, GUARD_HARD, false}, /* what was admitted up to the ceiling is not above it */
    {{.fixed = 101}, GUARD_OVER, false}, /* one reading is not enough to end a request */
    {{.fixed = 101, .over = 2}, GUARD_OVER, true},
    /* what is in no ledger is measured */
    {{.fixed = 10, .process = 101, .over = 2}, GUARD_OVER, true},
    /* ... and what is not touched yet is promised */
    {{.fixed = 90, .process = 10}, GUARD_SOFT, false},
    {{.fixed = 99, .over = 9}, GUARD_HARD, false},
    {{.fixed = UINT64_MAX, .claims = UINT64_MAX, .over = 2}, GUARD_OVER, true},
};

static void test_levels(void **state)
{
    struct guard_limits limits = guard_limits_of(100, 0, 0), none = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(level_rows); i++) {
        const struct level_row *row = &level_rows[i];
        if (guard_level(&limits, &row->reading) != row->level ||
            guard_is_over(&limits, &row->reading) != row->over)
            fail_msg("row %zu", i);
        assert_int_equal(guard_level(&none, &row->reading), GUARD_OK);
        assert_false(guard_is_over(&none, &row->reading));
    }
    assert_string_equal(guard_level_name(GUARD_HARD), "hard");
    assert_string_equal(guard_level_name(GUARD_LEVEL_COUNT), "unknown");
}

static void test_room_for_bodies(void **state)
{
    static const struct {
        struct guard_reading reading;
        uint64_t room;
    } rows[] = {
        {{.fixed = 40}, 12},
        {{.fixed = 40, .bodies = 12}, 12},
        {{.fixed = 40, .ram_used = 45, .process = 90}, 12}, /* the RAM tier shrinks */
        {{.fixed = 40, .claims = 44, .bodies = 5}, 10},     /* 95 - 84, and 1 for the RAM tier */
        {{.fixed = 40, .claims = 60, .bodies = 5}, 0},
        {{.fixed = 40, .bodies = 5, .process = 96}, 3}, /* what is in no ledger is measured */
        {{.process = 200}, 0},
    };
    struct guard_limits limits = guard_limits_of(100, 50, 1), none = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(guard_bodies_room(&limits, &rows[i].reading), rows[i].room);
        assert_true(guard_bodies_room(&none, &rows[i].reading) == UINT64_MAX);
    }
    /* A full RAM tier and the share of bodies fit under the ceiling together. */
    assert_true(limits.soft + limits.bodies_max < limits.ceiling);
}

/* ---- estimates ---- */

/* Cells are taken by use: none are taken at load. */
static const struct guard_model by_use = {.weights = 1000, .cell_bytes = 10, .sequence_bytes = 7};
static const struct guard_model at_load = {
    .weights = 1000, .cells = 4000, .cell_bytes = 10, .sequence_bytes = 7};
static const struct guard_model unknown = {0};
static const struct guard_model computes = {
    .weights = 1000, .cells = 4000, .compute = 64000, .chunk = 512, .context = 1000};

static const struct need_row {
    const char *what;
    const struct guard_model *model;
    struct guard_ask ask;
    uint64_t cells, compute;
    uint64_t tokens; /* that have a record */
} need_rows[] = {
    {"cached tokens need cells as well", &by_use, {.cached = 90, .fresh = 10}, 1007, 0, 100},
    {"so does the answer", &by_use, {.fresh = 100, .answer = 50}, 1507, 0, 150},
    {"cells that are there are not taken again", &at_load, {.cached = 90, .fresh = 10}, 0, 0, 100},
    {"a chunk is not larger than what is new",
     &computes,
     {.cached = 90, .fresh = 8, .answer = 2, .chunk = 64},
     0,
     100,
     100},
    {"... nor than a chunk", &computes, {.fresh = 100, .chunk = 64}, 0, 800, 100},
    {"... nor than the library's", &computes, {.fresh = 9999, .chunk = 9999}, 0, 64000, 9999},
    {"nothing asked, nothing needed", &by_use, {.answer = 50, .chunk = 64}, 0, 0, 0},
    {"what is not known counts nothing",
     &unknown,
     {.cached = 5, .fresh = 5, .chunk = 64},
     0,
     0,
     10},
};

/* Attention runs over cached and new tokens, chunks are at most what is new (I74). */
static void test_i74_estimates(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(need_rows); i++) {
        const struct need_row *row = &need_rows[i];
        struct guard_need need = guard_need_of(row->model, &row->ask);
        if (need.cells != row->cells || need.compute != row->compute ||
            need.records != row->tokens * GUARD_RECORD_BYTES ||
            need.claim != row->cells + row->compute || need.total != need.claim + need.records)
            fail_msg("%s", row->what);
    }
    assert_true(guard_model_fixed(&at_load) == 5000);
}

/* Numbers of a hostile file do not wrap around to small ones. */
static void test_i74_estimates_do_not_wrap(void **state)
{
    struct guard_model model = {.cell_bytes = UINT64_MAX / 2,
                                .sequence_bytes = UINT64_MAX,
                                .compute = UINT64_MAX,
                                .chunk = UINT32_MAX,
                                .context = UINT32_MAX};
    struct guard_ask ask = {
        .cached = UINT32_MAX, .fresh = UINT32_MAX, .answer = UINT32_MAX, .chunk = UINT32_MAX};
    struct guard_need need = guard_need_of(&model, &ask);

    (void)state;
    assert_true(need.cells == UINT64_MAX && need.compute == UINT64_MAX && need.total == UINT64_MAX);
    assert_true(guard_model_fixed(&(struct guard_model){.weights = UINT64_MAX, .cells = 5}) ==
                UINT64_MAX);
}

/* ---- admission ---- */

static const struct admit_row {
    const char *what;
    struct guard_reading reading;
    struct guard_need need;
    bool alone;
    enum guard_verdict verdict;
} admit_rows[] = {
    {"room for all", {.fixed = 4000}, {.claim = 1000}, false, GUARD_ADMIT},
    {"the RAM tier shrinks for it",
     {.fixed = 4000, .ram_used = 5000},
     {.claim = 1000},
     false,
     GUARD_ADMIT},
    {"not beside others", {.fixed = 4000, .claims = 4000}, {.claim = 1401}, false, GUARD_DEFER},
    {"just beside others", {.fixed = 4000, .claims = 4000}, {.claim = 1400}, false, GUARD_ADMIT},
    {"when they are gone", {.fixed = 4000}, {.claim = 5000}, true, GUARD_ADMIT},
    {"up to the ceiling", {.fixed = 4000}, {.claim = 5588}, true, GUARD_ADMIT},
    {"never", {.fixed = 4000}, {.claim = 5589}, true, GUARD_REFUSE},
    {"never, even alone", {.fixed = 4000, .claims = 100}, {.claim = 5589}, false, GUARD_REFUSE},
    {"what is measured defers", {.fixed = 4000, .process = 9400}, {.claim = 1}, false, GUARD_DEFER},
    {"... but does not refuse", {.fixed = 4000, .process = 20000}, {.claim = 1}, true, GUARD_ADMIT},
    {"records up to the ceiling", {.fixed = 4000}, {.records = 5900}, true, GUARD_ADMIT},
    {"records above it", {.fixed = 4000}, {.records = 5901}, true, GUARD_REFUSE},
    {"sums do not wrap", {.fixed = UINT64_MAX}, {.claim = UINT64_MAX}, false, GUARD_REFUSE},
};

static void test_i70_admission(void **state)
{
    struct guard_limits limits = guard_limits_of(10000, 8000, 100), none = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(admit_rows); i++) {
        const struct admit_row *row = &admit_rows[i];
        if (guard_admit(&limits, &row->reading, &row->need, row->alone) != row->verdict)
            fail_msg("%s", row->what);
        assert_int_equal(guard_admit(&none, &row->reading, &row->need, row->alone), GUARD_ADMIT);
        assert_true(guard_takes(&none, &row->reading, UINT64_MAX));
    }
}

/* An estimate that knows nothing of the model refuses nothing (I76). */
static void test_i76_what_is_not_known_refuses_nothing(void **state)
{
    struct guard_limits limits = guard_limits_of(64 * MIB, 0, 0);
    struct guard_ask ask = {.fresh = 10000, .answer = 256, .chunk = 512};
    struct guard_need need = guard_need_of(&unknown, &ask);

    (void)state;
    assert_int_equal(guard_admit(&limits, &(struct guard_reading){0}, &need, false), GUARD_ADMIT);
}

/* Random requests that come and go, as the ledger allows: the sum is never above the ceiling, so
 * that no admitted request is ended for it. */
static void test_i70_what_is_admitted_is_never_over(void **state)
{
    uint64_t seed = test_seed(), claims[16] = {0};
    size_t admitted = 0, refused = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct guard_limits limits = guard_limits_of(100000, test_random_below(&seed, 60000), 2000);
        struct guard_reading reading = {.fixed = 30000,
                                        .queues = test_random_below(&seed, limits.queues_max)};
        size_t at = test_random_below(&seed, COUNT_OF(claims));
        struct guard_need need = {.claim = test_random_below(&seed, 70000)};
        bool alone = true;

        claims[at] = 0;
        for (size_t i = 0; i < COUNT_OF(claims); i++)
            reading.claims += claims[i];
        alone = reading.claims == 0;
        reading.ram_used = guard_ram_cap(&limits, &reading);
        enum guard_verdict verdict = guard_admit(&limits, &reading, &need, alone);
        refused += verdict == GUARD_REFUSE;
        if (verdict != GUARD_ADMIT)
            continue;
        admitted++;
        claims[at] = need.claim;
        reading.claims += need.claim;
        reading.queues = limits.queues_max; /* requests that arrive now */
        reading.ram_used = guard_ram_cap(&limits, &reading);
        reading.over = GUARD_OVER_POLLS;
        if (guard_is_over(&limits, &reading))
            fail_msg("round %d: %llu are used", round, (unsigned long long)guard_used(&reading));
    }
    assert_true(admitted > 1000 && refused > 100);
}

/* ---- the RAM tier ---- */

static const struct ram_row {
    struct guard_reading reading;
    uint64_t cap;
} ram_rows[] = {
    {{.fixed = 1000}, 4000},
    {{.fixed = 5000}, 3500},
    {{.fixed = 5000, .ram_used = 3500}, 3500},
    {{.fixed = 5000, .claims = 3000, .ram_used = 3500}, 500},   /* shrinks for requests ... */
    {{.fixed = 5000, .claims = 9000, .ram_used = 3500}, 100},   /* ... down to its floor */
    {{.fixed = 5000, .ram_used = 2000, .process = 8000}, 2500}, /* 1,000 of them in no ledger */
    {{.fixed = 1000, .ram_used = 3000, .available = 1625}, 4000},
    {{.fixed = 1000, .ram_used = 3000, .available = 625}, 3000}, /* other programs want the rest */
    {{.fixed = 1000, .ram_used = 3000, .available = 125}, 2500},
    {{.fixed = 1000, .ram_used = 100, .available = 1}, 100},
};

static void test_the_ram_tier_gives_way_first(void **state)
{
    struct guard_limits limits = guard_limits_of(10000, 4000, 100), none = {.ram_wanted = 4000};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ram_rows); i++) {
        if (guard_ram_cap(&limits, &ram_rows[i].reading) != ram_rows[i].cap)
            fail_msg("row %zu: %llu", i,
                     (unsigned long long)guard_ram_cap(&limits, &ram_rows[i].reading));
        assert_true(guard_ram_cap(&none, &ram_rows[i].reading) == 4000);
    }
}

/* ---- chunks ---- */

/* 51,200 bytes for 512 tokens at the end of 1,000 cells: 100 for each of them, and half of that with
 * 500 cells in use. The hard limit is at 95,000. */
static const struct chunk_row {
    uint64_t used, touched;
    uint32_t cells, wanted, chunk;
} chunk_rows[] = {
    {0, 0, 1000, 512, 512},         {43800, 0, 1000, 512, 512},
    {43801, 0, 1000, 512, 511},     {85000, 0, 1000, 512, 100},
    {85000, 0, 500, 512, 200},      {85000, 10000, 1000, 512, 200},
    {94999, 0, 1000, 512, 32},      {95000, 0, 1000, 512, 32}, /* the floor */
    {95000, 20000, 1000, 512, 200}, /* what was touched stays: no less of it helps */
    {200000, 20000, 500, 512, 400}, {200000, 51200, 1000, 512, 512},
    {200000, 0, 1000, 8, 8}, /* never more than what is wanted */
};

/* Chunks shrink as memory runs short, never below the floor (I77). */
static void test_i77_chunks_shrink_to_a_floor(void **state)
{
    struct guard_model model = {.compute = 51200, .chunk = 512, .context = 1000};
    struct guard_limits limits = guard_limits_of(100000, 0, 0), none = {0};
    uint32_t last = 512;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(chunk_rows); i++) {
        const struct chunk_row *row = &chunk_rows[i];
        struct guard_reading reading = {.fixed = row->used};
        struct guard_run run = {row->wanted, row->cells, row->touched};
        uint32_t chunk = guard_chunk(&limits, &reading, &model, &run);
        if (chunk != row->chunk)
            fail_msg("row %zu: %u", i, chunk);
        assert_int_equal(guard_chunk(&none, &reading, &model, &run), row->wanted);
        /* An engine that does not say what it needs: all, or the floor. */
        assert_int_equal(guard_chunk(&limits, &reading, &unknown, &run),
                         row->used < 95000 ? row->wanted : MIN(32, row->wanted));
    }
    for (uint64_t used = 0; used < 110000; used += 70) {
        struct guard_run run = {.wanted = 512, .cells = 1000};
        uint32_t chunk = guard_chunk(&limits, &(struct guard_reading){.fixed = used}, &model, &run);
        assert_true(chunk <= last && chunk >= GUARD_CHUNK_FLOOR);
        last = chunk;
    }
    assert_int_equal(last, GUARD_CHUNK_FLOOR);
}

TEST_SUITE(TEST(test_i70_a_set_ceiling_is_the_ceiling), TEST(test_a_ceiling_of_the_machine),
           TEST(test_levels), TEST(test_room_for_bodies), TEST(test_i74_estimates),
           TEST(test_i74_estimates_do_not_wrap), TEST(test_i70_admission),
           TEST(test_i76_what_is_not_known_refuses_nothing),
           TEST(test_i70_what_is_admitted_is_never_over), TEST(test_the_ram_tier_gives_way_first),
           TEST(test_i77_chunks_shrink_to_a_floor))
