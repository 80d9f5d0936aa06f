/* The cache as a whole: opening, spaces, clearing, numbers, events. */
#include "cache/cache.h"

#include <hearth/hearth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;

static void expect_no_open(const struct hearth_options *options, const char *word)
{
    struct hearth_cache *cache = (void *)1;
    char message[HEARTH_MESSAGE_BYTES] = "";

    assert_int_equal(hearth_open(&cache, options, message), HEARTH_ERROR_INVALID);
    assert_null(cache);
    assert_non_null(strstr(message, word));
    assert_int_equal(hearth_open(&cache, options, NULL), HEARTH_ERROR_INVALID);
}

static void *no_alloc(size_t size, void *arg)
{
    (void)size;
    (void)arg;
    return NULL;
}

static void test_options(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_cache *cache;

    (void)state;
    options.ram_bytes = 0;
    expect_no_open(&options, "ram_bytes");
    options = kit_options(RAM);
    options.policy = "best";
    expect_no_open(&options, "policy");
    options = kit_options(RAM);
    options.alloc = no_alloc;
    expect_no_open(&options, "free");
    options = kit_options(RAM);
    options.block_tokens = 1 << 20;
    expect_no_open(&options, "block_tokens");
    options = (struct hearth_options){.struct_size = offsetof(struct hearth_options, block_tokens),
                                      .ram_bytes = RAM};
    options.policy = "not looked at by a program of that header";
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    assert_int_equal(cache->block_tokens, 256);
    assert_int_equal(cache->run_tokens, 2048);
    assert_int_equal(cache->tail_bytes_max, RAM / 4);
    hearth_close(&cache);
    assert_null(cache);
    hearth_close(&cache);
}

static void test_i39_clearing_takes_tails_and_pins_of_one_space_or_all(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, FULL);
    struct kit other = kit_space(&kit, &model, "other", 0);
    kit_tokens(tokens, 100, 1);
    uint64_t before = kit_stats(&kit).bytes_budget;
    kit_store(&kit, tokens, 100, NULL);
    kit_store(&other, tokens, 100, NULL);
    hearth_pin(kit.space, tokens, 100, true);
    assert_int_equal(hearth_clear(kit.cache, kit.space, HEARTH_TIER_SSD), 0);
    assert_int_equal(hearth_clear(kit.cache, kit.space, (enum hearth_tier)77), 0);
    assert_true(hearth_clear(kit.cache, kit.space, HEARTH_TIER_COUNT) >= 100 * 64);
    assert_int_equal(kit_peek(&kit, tokens, 100).boundary, 0);
    assert_int_equal(kit_peek(&kit, tokens, 100).reason, HEARTH_REASON_COLD);
    assert_int_equal(kit_restore(&other, tokens, 100, NULL), 99);
    kit_check(&kit);
    kit_store(&kit, tokens, 100, NULL);
    assert_true(hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM) >=
                200 * 64); /* there is no other tier */
    assert_int_equal(kit_stats(&kit).objects, 0);
    assert_int_equal(kit_stats(&kit).tails, 0);
    assert_int_equal(kit_stats(&kit).nodes, 0);
    assert_int_equal(kit.space->tails.count, 0);
    assert_true(kit_stats(&kit).bytes_budget <= before + 1024); /* the tables of paths */
    kit_check(&kit);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

static void test_i46_resetting_keeps_what_is_held(void **state)
{
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 100, 1);
    kit_store(&kit, tokens, 100, NULL);
    kit_restore(&kit, tokens, 100, NULL);
    struct hearth_stats before = kit_stats(&kit);
    hearth_reset_stats(kit.cache);
    struct hearth_stats after = kit_stats(&kit);
    assert_int_equal(
        after.lookups + after.hits + after.stores + after.tail_stashes + after.tokens_reused, 0);
    assert_int_equal(after.objects, before.objects);
    assert_int_equal(after.bytes_budget, before.bytes_budget);
    assert_int_equal(after.nodes, before.nodes);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99);
    struct hearth_stats small = {.struct_size = offsetof(struct hearth_stats, misses)};
    hearth_get_stats(kit.cache, kit.space, &small);
    assert_int_equal(small.hits, 1);
    assert_int_equal(small.misses, 0); /* beyond what an older program knows: untouched */
    kit_close(&kit);
}

/* Sums of what the log lines say. */
struct heard {
    uint64_t hits, misses, lookups, writes, read_tokens, write_tokens;
};

static uint64_t number_after(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void hear(const char *line, void *arg)
{
    struct heard *heard = arg;

    assert_null(strchr(line, '\n'));
    if (strstr(line, " hit ") || strstr(line, " partial ")) {
        heard->hits++;
        heard->read_tokens += number_after(line, " read_tokens=");
    } else if (strstr(line, " miss ")) {
        heard->misses++;
        assert_int_equal(number_after(line, " read_tokens="), 0);
        assert_null(strstr(line, " reason=none "));
    } else if (strstr(line, " lookup ")) {
        heard->lookups++;
    } else if (strstr(line, " write ")) {
        heard->writes++;
        heard->write_tokens += number_after(line, " write_tokens=");
    }
}

static void test_i8_i47_events_and_numbers_agree(void **state)
{
    struct hearth_options options = kit_options(256 * 1024);
    struct hearth_model model = kit_model(FULL);
    struct heard heard = {0};
    uint64_t seed = test_seed(), stored = 0;
    struct kit kit;
    int32_t tokens[200];

    (void)state;
    options.log = hear;
    options.log_arg = &heard;
    kit_open_with(&kit, &options, &model);
    for (int i = 0; i < 200; i++) {
        uint32_t length = 2 + (uint32_t)test_random_below(&seed, 198);
        kit_tokens(tokens, length, 1 + (uint32_t)test_random_below(&seed, 9));
        kit_restore(&kit, tokens, length, NULL);
        stored += kit_store(&kit, tokens, length, NULL);
    }
    struct hearth_stats stats = kit_stats(&kit), own = {.struct_size = sizeof(own)};
    hearth_get_stats(kit.cache, kit.space, &own);
    assert_int_equal(heard.hits, stats.hits);
    assert_int_equal(heard.misses, stats.misses);
    assert_int_equal(heard.lookups, stats.lookups);
    assert_int_equal(heard.writes, stats.stores);
    assert_int_equal(stats.stores, stored);
    assert_int_equal(heard.read_tokens, stats.tokens_reused);
    assert_int_equal(stats.hits + stats.misses, 200);
    uint64_t reasons = 0;
    for (int i = 0; i < HEARTH_REASON_COUNT; i++)
        reasons += stats.miss_by_reason[i];
    assert_int_equal(reasons, stats.misses);
    assert_memory_equal(&stats, &own, sizeof(stats)); /* there is one space */
    kit_close(&kit);
}

static void test_pins_survive_the_growth_of_a_tail(void **state)
{
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 20, NULL);
    assert_int_equal(hearth_pin(kit.space, tokens, 20, true), 20);
    kit_store(&kit, tokens, 64, NULL);
    assert_int_equal(hearth_pin(kit.space, tokens, 20, false), 20);
    hearth_set_ram_bytes(kit.cache, 1);
    assert_int_equal(kit_stats(&kit).objects, 0); /* nothing is pinned any more */
    assert_int_equal(hearth_pin(kit.space, tokens, 0, true), 0);
    kit_close(&kit);
}

static bool note_pinned(const struct hearth_held *held, void *arg)
{
    *(size_t *)arg += held->pinned;
    return true;
}

static size_t pinned_objects(const struct kit *kit)
{
    size_t pinned = 0;

    hearth_each(kit->cache, NULL, 0, note_pinned, &pinned);
    return pinned;
}

/* A pinned tail grows, and others begin with the same tokens: its pin is found in the grown
 * node, before or after them in the order. */
static void test_a_grown_tail_is_unpinned_and_no_other(void **state)
{
    (void)state;
    for (uint32_t others = 1; others < 6; others += 4) {
        struct kit kit;
        int32_t tokens[64], sibling[64];
        kit_open(&kit, RAM, HEARTH_KIND_FULL);
        kit_tokens(tokens, 64, 3);
        kit_tokens(sibling, 64, others);
        kit_tokens(sibling, 20, 3);
        kit_store(&kit, tokens, 20, NULL); /* a block and a tail of 4 */
        assert_int_equal(hearth_pin(kit.space, tokens, 20, true), 20);
        kit_store(&kit, tokens, 32, NULL);  /* it grows */
        kit_store(&kit, sibling, 32, NULL); /* and is not alone any more */
        assert_int_equal(pinned_objects(&kit), 2);
        assert_int_equal(hearth_pin(kit.space, sibling, 32, true), 32);
        assert_int_equal(pinned_objects(&kit), 3);
        assert_int_equal(hearth_pin(kit.space, tokens, 20, false), 20);
        assert_int_equal(pinned_objects(&kit), 2); /* the sibling and the block before it */
        assert_int_equal(hearth_pin(kit.space, tokens, 20, false), 0); /* once is enough */
        assert_int_equal(hearth_pin(kit.space, sibling, 32, false), 32);
        assert_int_equal(pinned_objects(&kit), 0);
        kit_check(&kit);
        kit_close(&kit);
    }
}

/* Pinned as far as it was held; unpinned by the same tokens when more is held. */
static void test_unpinning_finds_what_was_pinned_then(void **state)
{
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, RAM, HEARTH_KIND_FULL);
    kit_tokens(tokens, 64, 3);
    kit_store(&kit, tokens, 18, NULL);
    assert_int_equal(hearth_pin(kit.space, tokens, 60, true), 18);
    kit_store(&kit, tokens, 60, NULL);
    assert_int_equal(hearth_pin(kit.space, tokens, 60, true), 60);
    assert_int_equal(hearth_pin(kit.space, tokens, 60, false), 60); /* the longest first */
    assert_int_equal(pinned_objects(&kit), 2); /* [0, 16), and [16, 48) as a whole */
    assert_int_equal(hearth_pin(kit.space, tokens, 60, false), 18);
    assert_int_equal(pinned_objects(&kit), 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i93_pins_are_in_the_ledger_and_may_be_refused(void **state)
{
    struct fault fault = {0};
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, RAM, HEARTH_KIND_FULL);
    kit_tokens(tokens, 64, 3);
    kit_store(&kit, tokens, 64, NULL);
    uint64_t bytes = kit_stats(&kit).bytes_budget;
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        uint32_t held = hearth_pin(kit.space, tokens, 64, true);
        assert_int_equal(held, atomic_load(&fault.fired) > 0 ? 0 : 64);
        assert_int_equal(kit_stats(&kit).bytes_budget > bytes, held > 0);
        assert_int_equal(hearth_pin(kit.space, tokens, 64, false), held);
        assert_int_equal(kit_stats(&kit).bytes_budget, bytes);
        kit_check(&kit);
    }
    mem_set_fault(NULL);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_a_grown_tail_is_unpinned_and_no_other),
           TEST(test_unpinning_finds_what_was_pinned_then),
           TEST(test_i93_pins_are_in_the_ledger_and_may_be_refused), TEST(test_options),
           TEST(test_i39_clearing_takes_tails_and_pins_of_one_space_or_all),
           TEST(test_i46_resetting_keeps_what_is_held), TEST(test_i8_i47_events_and_numbers_agree),
           TEST(test_pins_survive_the_growth_of_a_tail))
