/* Tails: the tokens after the last block. What other systems got wrong about them, one by one,
 * through the public header. */
#include <hearth/hearth.h>

#include "support/cache_kit.h"
#include "support/test.h"
#include "tier/pages.h"

enum { RAM = 4 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;

static struct kit open_full(int32_t *tokens, size_t count)
{
    struct kit kit;

    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, count, 1);
    return kit;
}

/* A tail is its own tokens and never the state from the start, whatever "last" means to the engine.
 */
static void test_i30_a_tail_is_a_slice(void **state)
{
    struct hearth_store *store;
    uint32_t begin, end;
    int32_t tokens[100];
    struct kit kit = open_full(tokens, 100);
    void *memory;

    (void)state;
    hearth_store_open(kit.space, tokens, 100, NULL, &store);
    while (hearth_store_next(store, &begin, &end) && end < 100)
        assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, begin, end, tokens), HEARTH_OK);
    assert_int_equal(begin, 96);
    assert_int_equal(end, 100);
    static const uint32_t wrong[] = {0, 64, 80, 95, 97}; /* too much, or in the middle of a block */
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(
            hearth_store_reserve(store, HEARTH_OBJECT_ROWS, wrong[i], 100, 100, &memory),
            HEARTH_ERROR_INVALID);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 96, 100, tokens), HEARTH_OK);
    hearth_store_close(&store);
    assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM], 100 * 64);
    kit_close(&kit);
}

/* Whatever is wrong with a tail, it goes, and those beside it stay. */
static void test_i32_a_bad_tail_goes_alone(void **state)
{
    static const enum hearth_reason reasons[] = {HEARTH_REASON_UNVERIFIED, HEARTH_REASON_REFUSED,
                                                 HEARTH_REASON_EVICTED};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(reasons); i++) {
        int32_t tokens[100], before[100], behind[100];
        struct kit kit = open_full(tokens, 100);
        struct hearth_plan *plan;
        kit_tokens(before, 100, 0);
        kit_tokens(before, 97, 1);
        kit_tokens(behind, 100, 2);
        kit_tokens(behind, 98, 1);
        kit_store(&kit, tokens, 100, NULL);
        kit_store(&kit, before, 100, NULL);
        kit_store(&kit, behind, 100, NULL);
        uint64_t objects = kit_stats(&kit).objects;
        hearth_lookup(kit.space, tokens, 100, NULL, &plan);
        hearth_plan_shorten(plan, hearth_plan_info(plan)->objects_count - 1, reasons[i]);
        assert_int_equal(hearth_plan_info(plan)->boundary, 96);
        hearth_plan_release(&plan);
        assert_int_equal(kit_stats(&kit).objects, objects - 1);
        assert_int_equal(kit_restore(&kit, before, 100, NULL), 99);
        assert_int_equal(kit_restore(&kit, behind, 100, NULL), 99);
        kit_check(&kit);
        kit_close(&kit);
    }
}

/* With a part of the prompt held already, what is stored are the rows of the prompt's own
 * positions; nothing when all of it is held. */
static void test_i37_pieces_are_in_the_coordinates_of_the_prompt(void **state)
{
    struct hearth_store *store;
    uint32_t begin, end;
    int32_t tokens[100];

    (void)state;
    for (uint32_t held = 1; held < 100; held += 7) {
        struct kit kit = open_full(tokens, 100);
        kit_store(&kit, tokens, held, NULL);
        assert_int_equal(kit_restore(&kit, tokens, 100, NULL), held);
        hearth_store_open(kit.space, tokens, 100, NULL, &store);
        assert_true(hearth_store_next(store, &begin, &end));
        assert_int_equal(begin, held / KIT_BLOCK * KIT_BLOCK);
        hearth_store_close(&store);
        kit_store(&kit, tokens, 100, NULL);
        assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99); /* compares every byte */
        hearth_store_open(kit.space, tokens, held, NULL, &store);
        assert_false(hearth_store_next(store, &begin, &end));
        hearth_store_close(&store);
        kit_close(&kit);
    }
}

/* The tail of a prompt is found by the prompt, also when the answer has been stored after it: in
 * the same block or beyond. */
static void test_i38_a_prompt_finds_its_tail_whatever_was_answered(void **state)
{
    static const uint32_t answers[] = {3, 12, 50};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        int32_t tokens[200], other[200];
        struct kit kit = open_full(tokens, 200);
        kit_store(&kit, tokens, 100, NULL);
        kit_store(&kit, tokens, 100 + answers[i], NULL);
        assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99);
        kit_tokens(other, 200, 2);
        kit_tokens(other, 100, 1); /* the same prompt goes on another way */
        assert_int_equal(kit_restore(&kit, other, 150, NULL), 100);
        kit_close(&kit);
    }
}

/* Offering a tail and taking it are one decision; memory alone is enough for it. */
static void test_i41_tails_are_offered_exactly_when_they_are_taken(void **state)
{
    static const uint64_t tails[] = {0, 1, UINT64_MAX};
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                     HEARTH_KIND_RECURRENT};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(tails) * COUNT_OF(kinds); i++) {
        struct hearth_options options = kit_options(RAM);
        struct hearth_model model = kit_model(kinds[i / COUNT_OF(tails)]);
        struct hearth_store *store;
        struct kit kit;
        int32_t tokens[20];
        uint32_t begin, end;
        bool offered = false;
        options.tail_bytes = tails[i % COUNT_OF(tails)];
        kit_open_with(&kit, &options, &model);
        kit_tokens(tokens, 20, 1);
        hearth_store_open(kit.space, tokens, 20, NULL, &store);
        while (hearth_store_next(store, &begin, &end)) {
            offered = offered || end == 20;
            if (end < 20)
                kit_put(&kit, store, HEARTH_OBJECT_ROWS, begin, end, tokens);
        }
        int taken = kit_put(&kit, store, HEARTH_OBJECT_ROWS, 16, 20, tokens);
        assert_int_equal(taken == HEARTH_OK, offered);
        hearth_store_close(&store);
        kit_close(&kit);
    }
}

/* Tails are charged to the same ledger as everything else, and evicted like everything else. */
static void test_i42_tails_count_against_the_budget(void **state)
{
    struct hearth_options options = kit_options(256 << 10);
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[12];

    (void)state;
    options.tail_bytes = UINT64_MAX - 1;
    kit_open_with(&kit, &options, &model);
    uint64_t empty = kit_stats(&kit).bytes_budget;
    kit_tokens(tokens, 12, 1);
    kit_store(&kit, tokens, 12, NULL);
    uint64_t one = kit_stats(&kit).bytes_budget - empty;
    assert_true(one > 12 * 64);
    assert_int_equal(kit_stats(&kit).tails, 1);
    for (uint32_t i = 2; i < 500; i++) {
        kit_tokens(tokens, 12, i);
        kit_store(&kit, tokens, 12, NULL);
        struct hearth_stats stats = kit_stats(&kit);
        assert_true(stats.bytes_budget >= empty + stats.tails * 12 * 64);
        assert_true(stats.bytes_memory <= stats.bytes_cap);
    }
    assert_true(kit_stats(&kit).tail_evictions > 100);
    kit_check(&kit);
    kit_close(&kit);
}

/* A clear is never delayed by readers or stores, however often it comes. */
static void test_i44_a_clear_takes_effect_at_once(void **state)
{
    int32_t tokens[100];
    struct kit kit = open_full(tokens, 100);
    struct hearth_plan *plan;
    struct hearth_store *store;
    void *memory;

    (void)state;
    for (int i = 0; i < 3; i++) {
        kit_store(&kit, tokens, 100, NULL);
        hearth_lookup(kit.space, tokens, 100, NULL, &plan);
        hearth_store_open(kit.space, tokens + 1, 99, NULL, &store);
        assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 0, 16, 16 * 64, &memory),
                         HEARTH_OK);
        assert_true(hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT) > 0);
        assert_int_equal(kit_stats(&kit).objects, 0);
        assert_int_equal(kit_peek(&kit, tokens, 100).boundary, 0);
        assert_int_equal(hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT), 0);
        hearth_store_close(&store);
        hearth_plan_release(&plan);
        assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_RAM], 0);
        kit_check(&kit);
    }
    kit_close(&kit);
}

/* Pins, a time to live and leases protect a tail from any number of others. */
static void test_i40_protected_tails_survive_the_others(void **state)
{
    static const struct hearth_store_hints kept = {.struct_size = sizeof(kept), .ttl_s = 3600};
    int32_t pinned[31], lasting[31], leased[31], other[31];
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL);
    struct kit kit;

    (void)state;
    options.tail_bytes = 7 * PAGES_PAGE_BYTES;
    kit_open_with(&kit, &options, &model);
    kit_tokens(pinned, 31, 1);
    kit_tokens(lasting, 31, 2);
    kit_tokens(leased, 31, 3);
    kit_store(&kit, pinned, 31, NULL);
    assert_int_equal(hearth_pin(kit.space, pinned, 31, true), 31);
    kit_store(&kit, lasting, 31, &kept);
    kit_store(&kit, leased, 31, NULL);
    struct hearth_plan *plan = kit_lookup(&kit, leased, 31);
    for (uint32_t i = 0; i < 20; i++) {
        kit_tokens(other, 31, 10 + i);
        kit_store(&kit, other, 31, NULL);
    }
    assert_int_equal(kit_peek(&kit, pinned, 31).boundary, 30);
    assert_int_equal(kit_peek(&kit, lasting, 31).boundary, 30);
    assert_int_equal(kit_peek(&kit, leased, 31).boundary, 30);
    assert_int_equal(kit_peek(&kit, other, 31).boundary, 30);
    assert_int_equal(kit_stats(&kit).tails, 3 + 4);
    assert_int_equal(kit_stats(&kit).tail_evictions, 16);
    hearth_plan_release(&plan);
    hearth_pin(kit.space, pinned, 31, false); /* now both are tails like any other */
    for (uint32_t i = 0; i < 4; i++) {
        kit_tokens(other, 31, 30 + i);
        kit_store(&kit, other, 31, NULL);
    }
    assert_int_equal(kit_peek(&kit, pinned, 31).boundary, 16);
    assert_int_equal(kit_peek(&kit, leased, 31).boundary, 16);
    assert_int_equal(kit_peek(&kit, lasting, 31).boundary, 30);
    kit_check(&kit);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_i30_a_tail_is_a_slice), TEST(test_i32_a_bad_tail_goes_alone),
           TEST(test_i37_pieces_are_in_the_coordinates_of_the_prompt),
           TEST(test_i38_a_prompt_finds_its_tail_whatever_was_answered),
           TEST(test_i41_tails_are_offered_exactly_when_they_are_taken),
           TEST(test_i40_protected_tails_survive_the_others),
           TEST(test_i42_tails_count_against_the_budget),
           TEST(test_i44_a_clear_takes_effect_at_once))
