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
    assert_int_equal(cache->tails_max, 4);
    hearth_close(&cache);
    assert_null(cache);
    hearth_close(&cache);
}

static void test_spaces_that_make_no_sense(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct hearth_space *space;
    char tenant[200];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    model.kinds = 0;
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &space), HEARTH_ERROR_INVALID);
    model.kinds = 16;
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &space), HEARTH_ERROR_INVALID);
    model = kit_model(FULL | HEARTH_KIND_SLIDING);
    model.captures_sliding = true;
    model.window = 0;
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &space), HEARTH_ERROR_INVALID);
    memset(tenant, 'x', sizeof(tenant));
    tenant[sizeof(tenant) - 1] = '\0';
    model = kit_model(FULL);
    assert_int_equal(hearth_space_open(kit.cache, &model, tenant, 0, &space), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_space_open(kit.cache, &model, "greedy", 2 * RAM, &space),
                     HEARTH_ERROR_MEMORY);
    assert_null(space);
    hearth_space_close(&space);
    kit_check(&kit);
    kit_close(&kit);
}

static void change_fingerprint(struct hearth_model *model)
{
    model->fingerprint[31]++;
}

static void change_kinds(struct hearth_model *model)
{
    model->kinds |= HEARTH_KIND_RECURRENT;
}

static void change_window(struct hearth_model *model)
{
    model->window++;
}

static void change_capture(struct hearth_model *model)
{
    model->captures_sliding = true;
}

static void test_i97_i6_whatever_differs_shares_nothing(void **state)
{
    static void (*const changes[])(struct hearth_model * model) = {change_fingerprint, change_kinds,
                                                                   change_window, change_capture};
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL | HEARTH_KIND_SLIDING);
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, 100, 1);
    kit_store(&kit, tokens, 100, NULL);
    kit_snapshot(&kit, tokens, 100, 99);
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct hearth_model other = model;
        changes[i](&other);
        struct kit stranger = kit_space(&kit, &other, "", 0);
        assert_ptr_not_equal(stranger.space, kit.space);
        assert_int_equal(kit_restore(&stranger, tokens, 100, NULL), 0);
        assert_int_equal(kit_store(&stranger, tokens, 100, NULL) > 0, true);
        assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99); /* and is not disturbed */
        hearth_space_close(&stranger.space);
    }
    struct kit tenant = kit_space(&kit, &model, "tenant", 0);
    assert_int_equal(kit_restore(&tenant, tokens, 100, NULL), 0);
    hearth_space_close(&tenant.space);
    model.prefill_tokens_per_s = 5; /* a speed is no identity */
    struct hearth_space *again;
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &again), HEARTH_OK);
    assert_ptr_equal(again, kit.space);
    hearth_space_close(&again);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i97_the_block_size_and_the_installation_are_in_the_key(void **state)
{
    static const unsigned char key[HEARTH_KEY_BYTES] = {9};
    struct hearth_options options[3] = {kit_options(RAM), kit_options(RAM), kit_options(RAM)};
    struct hash256 keys[3];

    (void)state;
    options[1].block_tokens = 32;
    options[2].key = key;
    for (size_t i = 0; i < 3; i++) {
        struct hearth_model model = kit_model(FULL);
        struct kit kit;
        kit_open_with(&kit, &options[i], &model);
        keys[i] = kit.space->key;
        kit_close(&kit);
    }
    assert_false(hash256_eq(&keys[0], &keys[1]));
    assert_false(hash256_eq(&keys[0], &keys[2]));
}

static void test_a_space_that_comes_back_finds_its_content(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, FULL);
    struct kit tenant = kit_space(&kit, &model, "tenant", 0);
    kit_tokens(tokens, 100, 1);
    kit_store(&tenant, tokens, 100, NULL);
    hearth_space_close(&tenant.space);
    assert_null(tenant.space);
    tenant = kit_space(&kit, &model, "tenant", 0);
    assert_int_equal(kit_restore(&tenant, tokens, 100, NULL), 99);
    hearth_space_close(&tenant.space);
    kit_close(&kit);
}

static void test_i108_a_flood_of_tenants_leaves_nothing_behind(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    char name[32];

    (void)state;
    kit_open(&kit, RAM, FULL);
    uint64_t before = kit_stats(&kit).bytes_budget;
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "tenant %d", i);
        struct kit tenant = kit_space(&kit, &model, name, i % 2 ? 4096 : 0);
        hearth_space_close(&tenant.space);
    }
    assert_true(kit.cache->spaces.count <= 3);
    assert_true(kit_stats(&kit).bytes_budget < before + 64 * 1024);
    assert_true(kit.cache->shares <= 4096);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_more_tenants_than_lines_in_the_ledger(void **state)
{
    enum { TENANTS = 80 };
    struct hearth_model model = kit_model(FULL);
    struct kit kit, tenants[TENANTS];
    int32_t tokens[40];
    char name[32];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 40, 1);
    for (int i = 0; i < TENANTS; i++) {
        snprintf(name, sizeof(name), "t%d", i);
        tenants[i] = kit_space(&kit, &model, name, 0);
        kit_store(&tenants[i], tokens, 40, NULL);
    }
    kit_check(&kit);
    for (int i = 0; i < TENANTS; i++) {
        assert_int_equal(kit_restore(&tenants[i], tokens, 40, NULL), 39);
        hearth_space_close(&tenants[i].space);
    }
    kit_close(&kit);
}

static void test_a_full_cache_still_opens_spaces(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    kit_open(&kit, 128 * 1024, FULL);
    kit.row_bytes = 128;
    for (uint32_t i = 0; i < 40; i++) {
        kit_tokens(tokens, 64, i);
        kit_store(&kit, tokens, 64, NULL);
    }
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "t%d", i);
        struct kit tenant = kit_space(&kit, &model, name, 0);
        tenant.row_bytes = 128;
        assert_int_equal(kit_store(&tenant, tokens, 64, NULL), 1);
        assert_int_equal(kit_restore(&tenant, tokens, 64, NULL), 63);
        kit_check(&kit);
        hearth_space_close(&tenant.space);
    }
    kit_close(&kit);
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

TEST_SUITE(TEST(test_options), TEST(test_spaces_that_make_no_sense),
           TEST(test_i97_i6_whatever_differs_shares_nothing),
           TEST(test_i97_the_block_size_and_the_installation_are_in_the_key),
           TEST(test_a_space_that_comes_back_finds_its_content),
           TEST(test_i108_a_flood_of_tenants_leaves_nothing_behind),
           TEST(test_more_tenants_than_lines_in_the_ledger),
           TEST(test_a_full_cache_still_opens_spaces),
           TEST(test_i39_clearing_takes_tails_and_pins_of_one_space_or_all),
           TEST(test_i46_resetting_keeps_what_is_held), TEST(test_i8_i47_events_and_numbers_agree),
           TEST(test_pins_survive_the_growth_of_a_tail))
