/*
 * attach_test.c: a disk below a cache, through the public header: what one process stored, the next one finds.
 */
#include <hearth/hearth.h>

#include <stdio.h>
#include <string.h>

#include "support/cache_kit.h"
#include "support/test.h"

enum { TOKENS = 200, FULL = HEARTH_KIND_FULL };

static const unsigned char key[HEARTH_KEY_BYTES] = "an installation";

static struct hearth_ssd_options ssd_options(void)
{
    return (struct hearth_ssd_options){
        .struct_size = sizeof(struct hearth_ssd_options), .path = test_dir(), .bytes_max = 64 << 20};
}

static void open_kit(struct kit *kit, const unsigned char *with_key)
{
    struct hearth_options options = kit_options(8 << 20);
    struct hearth_model model = kit_model(FULL);
    struct hearth_ssd_options ssd = ssd_options();

    options.key = with_key;
    kit_open_with(kit, &options, &model);
    /* A space that is open before the disk is attached is no use here: it is opened again, as after a start. */
    hearth_space_close(&kit->space);
    assert_int_equal(hearth_attach_ssd(kit->cache, &ssd, NULL), HEARTH_OK);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

static void test_i107_a_restart_is_warm(void **state)
{
    struct hearth_plan_info info;
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&kit, key);
    assert_true(kit_store(&kit, tokens, TOKENS, NULL) > 0);
    kit_close(&kit);
    open_kit(&kit, key);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, &info), TOKENS - 1);
    assert_true(kit_stats(&kit).tokens_reused_by_tier[HEARTH_TIER_SSD] > 0);
    kit_close(&kit);
}

static void test_another_installation_finds_nothing(void **state)
{
    static const unsigned char other[HEARTH_KEY_BYTES] = "another one";
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&kit, key);
    kit_store(&kit, tokens, TOKENS, NULL);
    kit_close(&kit);
    open_kit(&kit, other);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), 0);
    kit_close(&kit);
}

static void test_refusals(void **state)
{
    struct hearth_ssd_options ssd = ssd_options();
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_options options = kit_options(1 << 20);
    struct hearth_cache *first, *second;

    (void)state;
    assert_int_equal(hearth_open(&first, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_open(&second, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_attach_ssd(first, NULL, NULL), HEARTH_ERROR_INVALID);
    ssd.path = NULL;
    assert_int_equal(hearth_attach_ssd(first, &ssd, NULL), HEARTH_ERROR_INVALID);
    ssd.path = test_dir();
    assert_int_equal(hearth_attach_ssd(first, &ssd, message), HEARTH_OK);
    assert_int_equal(hearth_attach_ssd(first, &ssd, message), HEARTH_ERROR_INVALID); /* once */
    assert_int_equal(hearth_attach_ssd(second, &ssd, message), HEARTH_ERROR_BUSY);
    assert_string_not_equal(message, "");
    hearth_close(&first);
    ssd.path = "/proc/nowhere";
    assert_int_not_equal(hearth_attach_ssd(second, &ssd, message), HEARTH_OK);
    hearth_close(&second);
}

TEST_SUITE(TEST(test_i107_a_restart_is_warm), TEST(test_another_installation_finds_nothing),
           TEST(test_refusals))
