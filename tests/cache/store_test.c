/* Storing: what is offered, what is taken, what is given back. */
#include <hearth/hearth.h>

#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

static struct hearth_store_hints hints_of(enum hearth_entry entry)
{
    return (struct hearth_store_hints){.struct_size = sizeof(struct hearth_store_hints),
                                       .entry = entry};
}

static void expect_next(struct hearth_store *store, uint32_t begin, uint32_t end)
{
    uint32_t b, e;

    assert_true(hearth_store_next(store, &b, &e));
    assert_int_equal(b, begin);
    assert_int_equal(e, end);
}

static void expect_no_next(struct hearth_store *store)
{
    uint32_t b, e;

    assert_false(hearth_store_next(store, &b, &e));
    assert_false(hearth_store_next(store, &b, &e)); /* and it stays so */
}

static void test_blocks_are_stored_once(void **state)
{
    struct kit kit;
    struct hearth_store *store;
    int32_t a[150], b[150];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(a, 150, 1);
    kit_tokens(b, 150, 2);
    kit_tokens(b, 100, 1);
    hearth_store_open(kit.space, a, 150, NULL, &store);
    expect_next(store, 0, 64); /* a run is 64 tokens here */
    expect_next(store, 64, 128);
    expect_next(store, 128, 144);
    expect_next(store, 144, 150); /* the tail */
    expect_no_next(store);
    hearth_store_close(&store);
    assert_int_equal(kit_store(&kit, a, 150, NULL), 4);
    struct hearth_stats one = kit_stats(&kit);
    hearth_store_open(kit.space, b, 150, NULL, &store);
    expect_next(store, 96, 144); /* the first six blocks are shared */
    expect_next(store, 144, 150);
    expect_no_next(store);
    hearth_store_close(&store);
    kit_store(&kit, b, 150, NULL);
    struct hearth_stats two = kit_stats(&kit);
    assert_int_equal(two.objects - one.objects, 2);
    assert_int_equal(two.bytes_by_tier[HEARTH_TIER_RAM] - one.bytes_by_tier[HEARTH_TIER_RAM],
                     54 * 64);
    assert_int_equal(kit_restore(&kit, a, 150, NULL), 149);
    assert_int_equal(kit_restore(&kit, b, 150, NULL), 149);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i103_a_run_does_not_cross_the_anchor(void **state)
{
    struct hearth_store_hints hints = hints_of(HEARTH_ENTRY_USER);
    struct kit kit;
    struct hearth_store *store;
    int32_t tokens[150];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 150, 1);
    hints.anchor = 40; /* two whole blocks of it */
    hearth_store_open(kit.space, tokens, 150, &hints, &store);
    expect_next(store, 0, 32);
    expect_next(store, 32, 96);
    hearth_store_close(&store);
    kit_close(&kit);
}

static void test_arguments(void **state)
{
    struct kit kit;
    struct hearth_store *store;
    void *memory;
    int32_t tokens[50];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 50, 1);
    assert_int_equal(hearth_store_open(kit.space, tokens, 0, NULL, &store), HEARTH_ERROR_INVALID);
    assert_null(store);
    hearth_store_open(kit.space, tokens, 50, NULL, &store);
    static const struct {
        int kind;
        uint32_t begin, end, capacity;
    } bad[] = {
        {HEARTH_OBJECT_ROWS, 0, 0, 10},
        {HEARTH_OBJECT_ROWS, 0, 64, 10},
        {HEARTH_OBJECT_ROWS, 1, 16, 10},
        {HEARTH_OBJECT_ROWS, 0, 20, 10},
        {HEARTH_OBJECT_ROWS, 32, 50, 10},
        {HEARTH_OBJECT_ROWS, 16, 16, 10},
        {HEARTH_OBJECT_SNAPSHOT, 16, 32, 1},
        {HEARTH_OBJECT_ROWS, 0, 16, 0},
        {4, 0, 16, 10},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(hearth_store_reserve(store, (enum hearth_object_kind)bad[i].kind,
                                              bad[i].begin, bad[i].end, bad[i].capacity, &memory),
                         HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_store_commit(store, 1, NULL, 0), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_SNAPSHOT, 0, 50, 8, &memory),
                     HEARTH_ERROR_REFUSED);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_SLIDING, 0, 16, 8, &memory),
                     HEARTH_ERROR_REFUSED);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 16, 32, 8, &memory),
                     HEARTH_ERROR_REFUSED);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 32, 5000, &memory),
                     HEARTH_OK);
    assert_non_null(memory);
    void *second;
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 32, 8, &second),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_store_commit(store, 5001, NULL, 0), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_store_commit(store, 0, NULL, 0), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_store_commit(store, 8, memory, HEARTH_SHAPE_BYTES_MAX + 1),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_store_commit(store, 8, NULL, 0), HEARTH_OK);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 32, 8, &memory),
                     HEARTH_ERROR_EXISTS);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 16, 8, &memory),
                     HEARTH_ERROR_EXISTS);
    hearth_store_close(&store);
    hearth_store_close(&store);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_cancel_and_close_give_everything_back(void **state)
{
    struct kit kit;
    struct hearth_store *store;
    void *memory;
    int32_t tokens[50];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 50, 1);
    uint64_t before = kit_stats(&kit).bytes_budget;
    hearth_store_open(kit.space, tokens, 50, NULL, &store);
    hearth_store_cancel(store); /* of nothing */
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 48, 100000, &memory),
                     HEARTH_OK);
    assert_true(kit_stats(&kit).bytes_budget >= before + 100000); /* reserved is taken (I93) */
    assert_int_equal(kit_peek(&kit, tokens, 50).boundary, 0);     /* and cannot be found (I67) */
    hearth_store_cancel(store);
    assert_int_equal(kit_stats(&kit).bytes_budget, before);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 48, 100000, &memory),
                     HEARTH_OK);
    hearth_store_close(&store);
    assert_int_equal(kit_stats(&kit).bytes_budget, before);
    assert_int_equal(kit_stats(&kit).stores_failed, 2);
    assert_int_equal(kit_stats(&kit).nodes, 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_what_was_not_needed_is_given_back(void **state)
{
    struct kit kit;
    struct hearth_store *store;
    void *memory;
    int32_t tokens[16];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 16, 1);
    hearth_store_open(kit.space, tokens, 16, NULL, &store);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 16, 1 << 20, &memory),
                     HEARTH_OK);
    kit_fill(&kit, HEARTH_OBJECT_ROWS, 0, 16, tokens, memory);
    uint32_t shape[3] = {HEARTH_OBJECT_ROWS, 0, 16};
    assert_int_equal(hearth_store_commit(store, 16 * 64, shape, sizeof(shape)), HEARTH_OK);
    assert_true(kit_stats(&kit).bytes_budget < 64 * 1024);
    assert_int_equal(kit_restore(&kit, tokens, 16, NULL), 15);
    hearth_store_close(&store);
    kit_close(&kit);
}

static void test_of_two_who_store_the_same_one_wins(void **state)
{
    struct kit kit;
    struct hearth_store *one, *two;
    void *memory_one, *memory_two;
    uint32_t shape[3] = {HEARTH_OBJECT_ROWS, 0, 16};
    int32_t tokens[16];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 16, 1);
    hearth_store_open(kit.space, tokens, 16, NULL, &one);
    hearth_store_open(kit.space, tokens, 16, NULL, &two);
    assert_int_equal(hearth_store_reserve(one, HEARTH_OBJECT_ROWS, 0, 16, 1024, &memory_one),
                     HEARTH_OK);
    assert_int_equal(hearth_store_reserve(two, HEARTH_OBJECT_ROWS, 0, 16, 1024, &memory_two),
                     HEARTH_OK);
    kit_fill(&kit, HEARTH_OBJECT_ROWS, 0, 16, tokens, memory_one);
    kit_fill(&kit, HEARTH_OBJECT_ROWS, 0, 16, tokens, memory_two);
    assert_int_equal(hearth_store_commit(one, 1024, shape, sizeof(shape)), HEARTH_OK);
    uint64_t before = kit_stats(&kit).bytes_budget;
    assert_int_equal(hearth_store_commit(two, 1024, shape, sizeof(shape)), HEARTH_ERROR_EXISTS);
    assert_true(kit_stats(&kit).bytes_budget < before); /* the reservation */
    assert_int_equal(kit_stats(&kit).stores, 1);
    assert_int_equal(kit_stats(&kit).objects, 1);
    hearth_store_close(&one);
    hearth_store_close(&two);
    kit_check(&kit);
    assert_int_equal(kit_restore(&kit, tokens, 16, NULL), 15);
    kit_close(&kit);
}

static void test_i27_a_full_budget_refuses_and_leaks_nothing(void **state)
{
    struct kit kit;
    struct hearth_store *store;
    struct hearth_plan *plan;
    void *memory;
    int32_t a[640], b[64];

    (void)state;
    kit_open(&kit, 200 * 1024, FULL); /* half of it for arenas */
    kit.row_bytes = 1024;
    kit_tokens(a, 640, 1);
    kit_tokens(b, 64, 2);
    kit_store(&kit, b, 64, NULL);
    uint64_t before = kit_stats(&kit).bytes_budget;
    assert_int_equal(hearth_lookup(kit.space, b, 64, NULL, &plan),
                     HEARTH_OK); /* leased: may not leave */
    hearth_store_open(kit.space, a, 640, NULL, &store);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 64, 64 * 1024, &memory),
                     HEARTH_ERROR_MEMORY);
    assert_null(memory);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 64, UINT64_MAX, &memory),
                     HEARTH_ERROR_MEMORY);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 64, 128 * 1024, &memory),
                     HEARTH_ERROR_MEMORY);
    assert_int_equal(kit_stats(&kit).bytes_budget, before);
    assert_int_equal(kit_stats(&kit).stores_refused, 3);
    hearth_plan_release(&plan);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 64, 200 * 1024, &memory),
                     HEARTH_ERROR_MEMORY);
    /* nothing was evicted for what can never fit */
    assert_int_equal(kit_restore(&kit, b, 64, NULL), 63);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 0, 64, a), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, b, 64, NULL), 0);
    hearth_store_close(&store);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_a_prompt_longer_than_the_cache_keeps_its_beginning(void **state)
{
    struct kit kit;
    int32_t tokens[1600];

    (void)state;
    kit_open(&kit, 128 * 1024, FULL);
    kit.row_bytes = 256;
    kit_tokens(tokens, 1600, 1);
    size_t stored = kit_store(&kit, tokens, 1600, NULL);
    assert_true(stored >= 3 && stored < 25);
    kit_check(&kit);
    assert_int_equal(kit_restore(&kit, tokens, 1600, NULL), stored * 64); /* all of it of use */
    assert_int_equal(kit_stats(&kit).evictions, 0);
    kit_close(&kit);
}

/* Stores rows and windows until one does not fit; how many tokens have both. */
static uint32_t store_windows(const struct kit *kit, const int32_t *tokens, uint32_t count)
{
    struct hearth_store *store;
    uint32_t begin, end, both = 0;
    int error = HEARTH_OK;

    assert_int_equal(hearth_store_open(kit->space, tokens, count, NULL, &store), HEARTH_OK);
    while (error == HEARTH_OK && hearth_store_next(store, &begin, &end)) {
        error = kit_put(kit, store, HEARTH_OBJECT_ROWS, begin, end, tokens);
        if (error == HEARTH_OK)
            error = kit_put(kit, store, HEARTH_OBJECT_SLIDING, begin, end, tokens);
        if (error == HEARTH_OK)
            both = end;
    }
    hearth_store_close(&store);
    return both;
}

/* The same with captured windows, wherever the room ends: neither rows nor the window at the end of
 * the path are evicted for what follows. */
static void test_a_prompt_longer_than_the_cache_keeps_its_last_window(void **state)
{
    enum { COUNT = 1600, PIECE_BYTES = 64 * 256 };
    struct hearth_model model = kit_model(FULL | HEARTH_KIND_SLIDING);
    int32_t tokens[COUNT];

    (void)state;
    model.captures_sliding = true;
    kit_tokens(tokens, COUNT, 1);
    for (uint64_t ram = 128 * 1024; ram < 256 * 1024; ram += PIECE_BYTES / 2) {
        struct hearth_options options = kit_options(ram);
        struct kit kit;
        kit_open_with(&kit, &options, &model);
        kit.row_bytes = PIECE_BYTES / 64;
        uint32_t stored = store_windows(&kit, tokens, COUNT);
        assert_true(stored >= 64 && stored < COUNT);
        assert_int_equal(kit_restore(&kit, tokens, COUNT, NULL), stored);
        assert_int_equal(kit_stats(&kit).evictions, 0);
        kit_check(&kit);
        kit_close(&kit);
    }
}

/* Small requests do not evict the ends of long conversations while there is room. */
static void test_i40_tails_are_limited_by_bytes(void **state)
{
    struct kit kit;
    int32_t tokens[20];

    (void)state;
    kit_open(&kit, RAM, FULL);
    for (uint32_t i = 1; i <= 100; i++) {
        kit_tokens(tokens, 20, i);
        kit_store(&kit, tokens, 20, NULL);
    }
    assert_int_equal(kit_stats(&kit).tails, 100);
    assert_int_equal(kit_stats(&kit).tail_evictions, 0);
    kit_tokens(tokens, 20, 1);
    assert_int_equal(kit_peek(&kit, tokens, 20).boundary, 19);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i40_the_oldest_tail_goes(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[6][20];

    (void)state;
    options.tail_bytes = 4 * PAGES_PAGE_BYTES;
    kit_open_with(&kit, &options, &model);
    for (uint32_t i = 0; i < 6; i++)
        kit_tokens(tokens[i], 20, i + 1);
    for (uint32_t i = 0; i < 4; i++)
        kit_store(&kit, tokens[i], 20, NULL);
    assert_int_equal(kit_stats(&kit).tail_stashes, 4);
    assert_int_equal(kit_stats(&kit).tail_evictions, 0);
    assert_int_equal(kit_restore(&kit, tokens[0], 20, NULL), 19); /* used: it is the newest now */
    assert_int_equal(kit_stats(&kit).tail_hits, 1);
    assert_int_equal(kit_stats(&kit).tail_tokens, 3); /* 16 to 19 */
    assert_int_equal(kit_stats(&kit).tail_bytes_max, 4 * PAGES_PAGE_BYTES);
    kit_store(&kit, tokens[4], 20, NULL);
    assert_int_equal(kit_stats(&kit).tail_evictions, 1);
    assert_int_equal(kit_stats(&kit).tails, 4);
    assert_int_equal(kit_peek(&kit, tokens[0], 20).boundary, 19);
    assert_int_equal(kit_peek(&kit, tokens[1], 20).boundary, 16); /* its block stays */
    assert_int_equal(kit_store(&kit, tokens[0], 20, NULL),
                     0); /* nothing to stash evicts nothing (I34) */
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i34_i46_replacing_a_tail_is_no_eviction(void **state)
{
    struct kit kit;
    int32_t tokens[40];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 40, 1);
    for (uint32_t n = 17; n <= 31; n++) {
        kit_store(&kit, tokens, n, NULL);
        assert_int_equal(kit_stats(&kit).tails, 1);
        assert_int_equal(kit_restore(&kit, tokens, 40, NULL), n);
        kit_check(&kit);
    }
    assert_int_equal(kit_stats(&kit).tail_stashes, 15);
    assert_int_equal(kit_stats(&kit).tail_evictions, 0);
    assert_int_equal(kit_stats(&kit).replaces, 14);
    struct hearth_event event = {0};
    while (event.kind != HEARTH_EVENT_REPLACE)
        assert_int_equal(hearth_events_read(kit.cache, event.number, &event, 1), 1);
    assert_int_equal(event.object, HEARTH_OBJECT_ROWS);
    assert_int_equal(event.position, 17); /* the first tail, which the second replaced */
    kit_store(&kit, tokens, 20, NULL);    /* held already, inside of the longer one (I34) */
    assert_int_equal(kit_stats(&kit).stores, 16);
    kit_store(&kit, tokens, 32, NULL); /* and a whole block is no tail */
    assert_int_equal(kit_stats(&kit).tails, 0);
    assert_int_equal(kit_restore(&kit, tokens, 40, NULL), 32);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i40_no_tails_at_all(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    struct hearth_store *store;
    void *memory;
    int32_t tokens[20];

    (void)state;
    options.tail_bytes = UINT64_MAX;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, 20, 1);
    assert_int_equal(kit_store(&kit, tokens, 20, NULL), 1);
    hearth_store_open(kit.space, tokens, 20, NULL, &store);
    expect_no_next(store);
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 16, 20, 64, &memory),
                     HEARTH_ERROR_REFUSED);
    hearth_store_close(&store);
    assert_int_equal(kit_restore(&kit, tokens, 20, NULL), 16);
    assert_int_equal(kit_stats(&kit).tail_stashes, 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i28_rows_behind_the_last_block_of_a_hybrid_are_no_tails(void **state)
{
    struct kit kit;
    int32_t tokens[8][20];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    for (uint32_t i = 0; i < 8; i++) {
        kit_tokens(tokens[i], 20, i + 1);
        kit_store(&kit, tokens[i], 20, NULL);
        kit_snapshot(&kit, tokens[i], 20, 19);
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(kit_restore(&kit, tokens[i], 20, NULL), 19);
    assert_int_equal(kit_stats(&kit).tail_stashes, 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_snapshots_wanted(void **state)
{
    struct kit kit;
    struct hearth_store *store;
    int32_t tokens[50];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, 50, 1);
    hearth_store_open(kit.space, tokens, 50, NULL, &store);
    assert_true(hearth_store_wants_snapshot(store, 49));
    assert_false(hearth_store_wants_snapshot(store, 0));
    assert_false(hearth_store_wants_snapshot(store, 51));
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SNAPSHOT, 0, 49, tokens), HEARTH_OK);
    assert_false(hearth_store_wants_snapshot(store, 49));
    assert_true(hearth_store_wants_snapshot(store, 48));
    hearth_store_close(&store);
    kit_close(&kit);
    kit_open(&kit, RAM, FULL);
    hearth_store_open(kit.space, tokens, 50, NULL, &store);
    assert_false(hearth_store_wants_snapshot(store, 49));
    hearth_store_close(&store);
    kit_close(&kit);
}

/* From the log alone one can tell what was kept, and at which token. */
static void test_i47_events_name_object_and_position(void **state)
{
    struct hearth_event events[8];
    struct kit kit;
    int32_t tokens[50];
    size_t writes = 0;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, 50, 1);
    kit_store(&kit, tokens, 50, NULL);
    assert_int_equal(kit_snapshot(&kit, tokens, 50, 49), HEARTH_OK);
    size_t count = hearth_events_read(kit.cache, 0, events, COUNT_OF(events));
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind != HEARTH_EVENT_WRITE)
            continue;
        writes++;
        bool snapshot = events[i].object == HEARTH_OBJECT_SNAPSHOT;
        assert_true(snapshot || events[i].object == HEARTH_OBJECT_ROWS);
        assert_int_equal(events[i].position, snapshot ? 49 : i == 0 ? 48 : 50);
    }
    assert_int_equal(writes, 3);
    kit_close(&kit);
}

/* With hints the policy decides: the end, the anchor and the junction, not every place that is
 * offered. */
static void test_i54_snapshots_follow_the_hints(void **state)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints),
                                       .prompt = 20000,
                                       .resumed = 1000,
                                       .anchor = 5000,
                                       .junction = 12000};
    static int32_t tokens[20000];
    struct hearth_store *store;
    struct kit kit;
    uint32_t wanted = 0;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, COUNT_OF(tokens), 1);
    hearth_store_open(kit.space, tokens, COUNT_OF(tokens), &hints, &store);
    for (uint32_t at = 1; at <= COUNT_OF(tokens); at++)
        wanted += hearth_store_wants_snapshot(store, at);
    assert_int_equal(wanted, 3);
    assert_true(hearth_store_wants_snapshot(store, 5000));
    assert_true(hearth_store_wants_snapshot(store, 12000));
    assert_true(hearth_store_wants_snapshot(store, 19999));
    hearth_store_close(&store);
    hints.generated = true;
    hearth_store_open(kit.space, tokens, COUNT_OF(tokens), &hints, &store);
    assert_true(hearth_store_wants_snapshot(store, 20000));
    assert_false(hearth_store_wants_snapshot(store, 19999));
    hearth_store_close(&store);
    kit_close(&kit);
}

static void test_pins_of_a_store_are_undone_at_once(void **state)
{
    struct hearth_options options = kit_options(256 * 1024);
    struct hearth_model model = kit_model(FULL);
    struct hearth_store_hints hints = hints_of(HEARTH_ENTRY_SYSTEM);
    struct kit kit;
    int32_t pinned[150], tokens[64];

    (void)state;
    options.policy = "lru-tail"; /* so that the order is known */
    kit_open_with(&kit, &options, &model);
    kit.row_bytes = 256;
    kit_tokens(pinned, 150, 1);
    hints.pin = true;
    assert_int_equal(kit_store(&kit, pinned, 150, &hints), 4);
    for (uint32_t i = 0; i < 60; i++) {
        kit_tokens(tokens, 64, i + 2);
        kit_store(&kit, tokens, 64, NULL);
        kit_check(&kit);
    }
    assert_true(kit_stats(&kit).evictions > 20);
    assert_int_equal(kit_restore(&kit, pinned, 150, NULL), 149);
    assert_int_equal(hearth_pin(kit.space, pinned, 150, false), 150);
    for (uint32_t i = 0; i < 60; i++) {
        kit_tokens(tokens, 64, i + 2);
        kit_store(&kit, tokens, 64, NULL);
    }
    assert_int_equal(kit_peek(&kit, pinned, 150).boundary, 0);
    /* What is cached already is pinned as well, but not once more. */
    assert_int_equal(kit_store(&kit, pinned, 150, NULL), 4);
    assert_int_equal(kit_store(&kit, pinned, 150, &hints), 0);
    assert_int_equal(kit_store(&kit, pinned, 150, &hints), 0);
    assert_int_equal(hearth_pin(kit.space, pinned, 150, false), 150);
    assert_int_equal(hearth_pin(kit.space, pinned, 150, false), 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i27_fault_loop_over_storing(void **state)
{
    struct fault fault = {0};
    struct kit kit;
    int32_t tokens[150];
    long rounds = 0;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        kit_tokens(tokens, 150,
                   (uint32_t)rounds++); /* new ones each time, so that everything is made anew */
        size_t stored = kit_store(&kit, tokens, 150, NULL);
        int error = kit_snapshot(&kit, tokens, 150, 149);
        assert_true(atomic_load(&fault.fired) > 0 || (stored == 4 && error == HEARTH_OK));
        kit_check(&kit);
        mem_set_fault(NULL);
        kit_store(&kit, tokens, 150, NULL);
        kit_snapshot(&kit, tokens, 150, 149);
        assert_int_equal(kit_restore(&kit, tokens, 150, NULL), 149);
        kit_check(&kit);
        mem_set_fault(&fault);
    }
    mem_set_fault(NULL);
    assert_true(rounds > 5);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_blocks_are_stored_once), TEST(test_i103_a_run_does_not_cross_the_anchor),
           TEST(test_arguments), TEST(test_cancel_and_close_give_everything_back),
           TEST(test_what_was_not_needed_is_given_back),
           TEST(test_of_two_who_store_the_same_one_wins),
           TEST(test_i27_a_full_budget_refuses_and_leaks_nothing),
           TEST(test_a_prompt_longer_than_the_cache_keeps_its_beginning),
           TEST(test_a_prompt_longer_than_the_cache_keeps_its_last_window),
           TEST(test_i40_tails_are_limited_by_bytes), TEST(test_i40_the_oldest_tail_goes),
           TEST(test_i34_i46_replacing_a_tail_is_no_eviction), TEST(test_i40_no_tails_at_all),
           TEST(test_i28_rows_behind_the_last_block_of_a_hybrid_are_no_tails),
           TEST(test_snapshots_wanted), TEST(test_i47_events_name_object_and_position),
           TEST(test_i54_snapshots_follow_the_hints), TEST(test_pins_of_a_store_are_undone_at_once),
           TEST(test_i27_fault_loop_over_storing))
