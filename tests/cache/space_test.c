/* Spaces: what shares and what does not, how they come and go. */
#include <hearth/hearth.h>

#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;

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
    assert_true(kit.cache->budget.shares <= 4096);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_many_tenants_at_the_same_time(void **state)
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

/* What a space has counted stays in the sum when the space is removed. */
static void test_counters_outlive_their_space(void **state)
{
    struct hearth_model model = kit_model(FULL);
    int32_t tokens[40];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 40, 1);
    kit_store(&kit, tokens, 40, NULL);
    struct kit tenant = kit_space(&kit, &model, "tenant", 0);
    kit_store(&tenant, tokens, 40, NULL);
    assert_int_equal(kit_restore(&tenant, tokens, 40, NULL), 39);
    struct hearth_stats before = kit_stats(&kit);
    assert_int_equal(before.stores, 4); /* a run and a tail, twice */
    hearth_clear(kit.cache, tenant.space, HEARTH_TIER_COUNT);
    hearth_space_close(&tenant.space);
    struct kit other = kit_space(&kit, &model, "other", 0); /* opening removes empty spaces */
    assert_int_equal(kit.cache->spaces.count, 2);
    struct hearth_stats after = kit_stats(&kit);
    assert_int_equal(after.stores, before.stores);
    assert_int_equal(after.hits, before.hits);
    assert_int_equal(after.tokens_reused, before.tokens_reused);
    hearth_reset_stats(kit.cache);
    assert_int_equal(kit_stats(&kit).stores, 0);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_counters_outlive_their_space), TEST(test_spaces_that_make_no_sense),
           TEST(test_i97_i6_whatever_differs_shares_nothing),
           TEST(test_i97_the_block_size_and_the_installation_are_in_the_key),
           TEST(test_a_space_that_comes_back_finds_its_content),
           TEST(test_i108_a_flood_of_tenants_leaves_nothing_behind),
           TEST(test_many_tenants_at_the_same_time), TEST(test_a_full_cache_still_opens_spaces))
