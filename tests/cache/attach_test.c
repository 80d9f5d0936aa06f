/*
 * attach_test.c: a disk below a cache, through the public header: what one process stored, the next
 * one finds.
 */
#include <hearth/hearth.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lab/file_fault.h"
#include "base/log.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "tier/tier_ssd.h"

enum { TOKENS = 200, FULL = HEARTH_KIND_FULL };

static const unsigned char key[HEARTH_KEY_BYTES] = "an installation";

static struct hearth_ssd_options ssd_options(void)
{
    return (struct hearth_ssd_options){.struct_size = sizeof(struct hearth_ssd_options),
                                       .path = test_dir(),
                                       .bytes_max = 64 << 20};
}

static void open_kit(struct kit *kit, const unsigned char *with_key)
{
    struct hearth_options options = kit_options(8 << 20);
    struct hearth_model model = kit_model(FULL);
    struct hearth_ssd_options ssd = ssd_options();

    options.key = with_key;
    kit_open_with(kit, &options, &model);
    /* A space that is open before the disk is attached is no use here: it is opened again, as after
     * a start. */
    hearth_space_close(&kit->space);
    assert_int_equal(hearth_attach_ssd(kit->cache, &ssd, NULL), HEARTH_OK);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

/* Demoting is about memory: what was not on disk yet is still written. */
static void test_demoted_state_is_written(void **state)
{
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&kit, key);
    assert_true(kit_store(&kit, tokens, TOKENS, NULL) > 0);
    assert_true(hearth_demote(kit.space, tokens, TOKENS, 0) > 0);
    kit_close(&kit);
    open_kit(&kit, key);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    kit_close(&kit);
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

/* Whatever is wrong, the message says it. */
static void expect_invalid(struct hearth_cache *cache, const struct hearth_ssd_options *ssd,
                           const struct hearth_shared_options *shared, const char *text)
{
    char message[HEARTH_MESSAGE_BYTES] = "";

    int error = shared != NULL ? hearth_attach_shared(cache, shared, message)
                               : hearth_attach_ssd(cache, ssd, message);
    assert_int_equal(error, HEARTH_ERROR_INVALID);
    assert_string_equal(message, text);
}

static void test_refusals(void **state)
{
    struct hearth_ssd_options ssd = ssd_options();
    struct hearth_shared_options shared = {.url = "valkey://127.0.0.1:1/x"};
    char message[HEARTH_MESSAGE_BYTES] = "";
    struct hearth_options options = kit_options(1 << 20);
    struct hearth_cache *first, *second;

    (void)state;
    assert_int_equal(hearth_open(&first, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_open(&second, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_attach_ssd(first, NULL, NULL), HEARTH_ERROR_INVALID);
    expect_invalid(first, NULL, NULL, "no options, or struct_size is not set");
    expect_invalid(first, NULL, &shared, "no options, or struct_size is not set");
    shared.struct_size = sizeof(shared);
    ssd.path = NULL;
    expect_invalid(first, &ssd, NULL, "no folder given");
    ssd.path = test_dir();
    assert_int_equal(hearth_attach_ssd(first, &ssd, message), HEARTH_OK);
    expect_invalid(first, &ssd, NULL, "a disk is attached already");
    assert_int_equal(hearth_attach_shared(first, &shared, message), HEARTH_OK);
    expect_invalid(first, NULL, &shared, "a shared store is attached already");
    assert_int_equal(hearth_attach_ssd(second, &ssd, message), HEARTH_ERROR_BUSY);
    assert_string_not_equal(message, "");
    hearth_close(&first);
    ssd.path = "/proc/nowhere";
    assert_int_not_equal(hearth_attach_ssd(second, &ssd, message), HEARTH_OK);
    hearth_close(&second);
}

/* Closing waits for a disk that writes nothing as long as it was told, not longer. */
static void test_closing_waits_as_long_as_it_may(void **state)
{
    struct hearth_ssd_options ssd = ssd_options();
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    ssd.drain_ms = 1;
    kit_open(&kit, 8 << 20, FULL);
    assert_int_equal(hearth_attach_ssd(kit.cache, &ssd, NULL), HEARTH_OK);
    tier_ssd_hold(kit.cache->tiers[HEARTH_TIER_SSD].tier, true);
    kit_tokens(tokens, TOKENS, 1);
    assert_true(kit_store(&kit, tokens, TOKENS, NULL) > 0);
    assert_int_equal(kit.cache->drain_ms, 1); /* of hearth_close; the default is 5 s */
    kit_close(&kit);
    assert_int_equal(ssd_kit_count_files(ssd.path, ".hobj"), 0);
}

/* ---- numbers and limits ---- */

static struct hearth_tier_stats tier_of(const struct kit *kit, enum hearth_tier tier)
{
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};

    assert_int_equal(hearth_get_tier(kit->cache, tier, &stats), HEARTH_OK);
    assert_int_equal(stats.struct_size, sizeof(stats));
    return stats;
}

static void flush(const struct kit *kit)
{
    assert_true(kit->cache->tiers[HEARTH_TIER_SSD].tier->ops->flush(
        kit->cache->tiers[HEARTH_TIER_SSD].tier, 20 * NS_PER_S));
    mover_drain(kit->cache, 20000);
}

/* Metrics show the one, the admin API the other. Checking an object does not count as a use. */
static void assert_as_in_stats(const struct kit *kit)
{
    struct hearth_verify_options verify = {.struct_size = sizeof(verify), .tier = HEARTH_TIER_SSD};
    struct hearth_verified result;

    assert_int_equal(hearth_verify(kit->cache, &verify, &result), HEARTH_OK);
    assert_true(result.objects > 0);
    struct hearth_stats all = kit_stats(kit);
    for (int tier = HEARTH_TIER_RAM; tier <= HEARTH_TIER_SSD; tier++) {
        struct hearth_tier_stats stats = tier_of(kit, (enum hearth_tier)tier);
        assert_int_equal(stats.read_bytes, all.bytes_read_by_tier[tier]);
        assert_int_equal(stats.written_bytes, all.bytes_written_by_tier[tier]);
    }
}

static void test_numbers_of_each_tier(void **state)
{
    struct hearth_tier_stats none = {.struct_size = sizeof(none)}, stats = none;
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open(&kit, 4 << 20, FULL);
    assert_int_equal(hearth_get_tier(kit.cache, HEARTH_TIER_COUNT, &stats), HEARTH_ERROR_INVALID);
    stats = tier_of(&kit, HEARTH_TIER_SSD);
    assert_memory_equal(&stats, &none, sizeof(none)); /* off */
    assert_int_equal(hearth_set_ssd_bytes(kit.cache, 1 << 20), HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_set_ssd_day_bytes(kit.cache, 1 << 20), HEARTH_ERROR_INVALID);
    kit_close(&kit);

    kit_tokens(tokens, TOKENS, 1);
    open_kit(&kit, key);
    uint64_t objects = kit_store(&kit, tokens, TOKENS, NULL), bytes = TOKENS * 64;
    flush(&kit);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    stats = tier_of(&kit, HEARTH_TIER_RAM);
    assert_int_equal(stats.state, HEARTH_STATE_OK);
    assert_int_equal(stats.objects, objects);
    assert_int_equal(stats.stores, objects);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.read_bytes, bytes);
    assert_int_equal(stats.written_bytes, bytes);
    assert_int_equal(stats.cap, 8 << 20);
    assert_true(stats.used >= bytes && stats.used <= stats.cap);
    stats = tier_of(&kit, HEARTH_TIER_SSD);
    assert_int_equal(stats.state, HEARTH_STATE_OK);
    assert_int_equal(stats.objects, objects);
    assert_int_equal(stats.stores, objects);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.written_bytes, bytes);
    assert_true(stats.written_today >= bytes);
    assert_int_equal(stats.read_bytes + stats.evictions + stats.errors, 0);
    assert_int_equal(stats.cap, 64 << 20);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_RAM).objects, 0);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    stats = tier_of(&kit, HEARTH_TIER_SSD);
    assert_int_equal(stats.hits, 1);
    assert_int_equal(stats.read_bytes, bytes);
    assert_as_in_stats(&kit);
    uint64_t today = stats.written_today;
    hearth_reset_stats(kit.cache);
    stats = tier_of(&kit, HEARTH_TIER_SSD);
    assert_int_equal(stats.hits + stats.read_bytes + stats.written_bytes + stats.stores, 0);
    assert_int_equal(stats.objects, objects);
    assert_int_equal(stats.written_today, today); /* the budget's, not a counter */
    kit_close(&kit);
}

/* What leaves memory and stays on the disk was evicted from memory alone. */
static void test_a_demotion_is_no_eviction_of_the_disk(void **state)
{
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    open_kit(&kit, key);
    kit.row_bytes = 4096; /* large beside what the books take */
    uint64_t objects = kit_store(&kit, tokens, TOKENS, NULL);
    flush(&kit);
    hearth_set_ram_bytes(kit.cache, 256 << 10);
    assert_true(kit_stats(&kit).demotions > 0);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_RAM).evictions, kit_stats(&kit).demotions);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).evictions, 0);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).objects, objects);
    kit_close(&kit);
}

/* Every accepted write is queued, stored, failed or cancelled; dashboards show all four. */
static void test_i65_every_accepted_write_is_accounted_for(void **state)
{
    struct file_fault fault;
    struct tier_ssd_options ssd = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    struct hearth_options options = kit_options(8 << 20);
    struct hearth_model model = kit_model(FULL);
    struct hearth_tier_stats stats;
    int32_t tokens[3][16];
    struct kit kit;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.calls = UINT64_C(1) << FILE_CALL_PWRITE;
    fault.errnum = EIO;
    ssd.fs = &fault.sys;
    kit_open_with(&kit, &options, &model);
    struct tier *tier = ssd_kit_open(&ssd);
    cache_attach_tier(kit.cache, HEARTH_TIER_SSD, tier, 1e9);
    for (uint32_t i = 0; i < 3; i++)
        kit_tokens(tokens[i], 16, i + 1);
    kit_store(&kit, tokens[0], 16, NULL);
    flush(&kit);
    fault_arm(&fault.when, 1, true);
    kit_store(&kit, tokens[1], 16, NULL);
    flush(&kit);
    tier_ssd_hold(tier, true);
    kit_store(&kit, tokens[2], 16, NULL);
    stats = tier_of(&kit, HEARTH_TIER_SSD);
    assert_int_equal(stats.accepted, 3);
    assert_int_equal(stats.stores, 1);
    assert_int_equal(stats.failed, 1);
    assert_int_equal(stats.queued, 1);
    assert_int_equal(stats.cancelled, 0);
    tier->ops->drop(tier, &LIST_ENTRY(list_last(&kit.space->all), struct object, held_link)->key);
    stats = tier_of(&kit, HEARTH_TIER_SSD);
    assert_int_equal(stats.accepted, 3);
    assert_int_equal(stats.queued, 0);
    assert_int_equal(stats.cancelled, 1);
    tier_ssd_hold(tier, false);
    fault_arm(&fault.when, 0, false);
    kit_close(&kit);
}

/* A process that only reads beside one that writes. */
static void test_read_only_is_said(void **state)
{
    struct hearth_options options = kit_options(1 << 20);
    struct hearth_ssd_options ssd = ssd_options();
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};
    struct hearth_cache *reader;
    struct kit kit;

    (void)state;
    open_kit(&kit, key);
    ssd.read_only = true;
    assert_int_equal(hearth_open(&reader, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_attach_ssd(reader, &ssd, NULL), HEARTH_OK);
    assert_int_equal(hearth_get_tier(reader, HEARTH_TIER_SSD, &stats), HEARTH_OK);
    assert_int_equal(stats.state, HEARTH_STATE_READ_ONLY);
    assert_int_equal(hearth_set_ssd_bytes(reader, 1 << 20), HEARTH_ERROR_INVALID);
    hearth_close(&reader);
    kit_close(&kit);
}

/* A write that is lost is seen until one is not. */
static void test_degraded_is_said(void **state)
{
    struct file_fault fault;
    struct tier_ssd_options ssd = ssd_kit_options(ssd_kit_new_path(), 64 << 20);
    struct hearth_options options = kit_options(8 << 20);
    struct hearth_model model = kit_model(FULL);
    int32_t tokens[16];
    struct kit kit;

    (void)state;
    file_fault_init(&fault, file_sys_real());
    fault.calls = UINT64_C(1) << FILE_CALL_PWRITE;
    fault.errnum = EIO;
    ssd.fs = &fault.sys;
    kit_open_with(&kit, &options, &model);
    cache_attach_tier(kit.cache, HEARTH_TIER_SSD, ssd_kit_open(&ssd), 1e9);
    fault_arm(&fault.when, 1, true);
    kit_tokens(tokens, 16, 1);
    kit_store(&kit, tokens, 16, NULL);
    flush(&kit);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).state, HEARTH_STATE_DEGRADED);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).errors, 1);
    fault_arm(&fault.when, 0, false);
    kit_tokens(tokens, 16, 2);
    kit_store(&kit, tokens, 16, NULL);
    flush(&kit);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).state, HEARTH_STATE_OK);
    kit_close(&kit);
}

static void test_i65_a_lost_write_is_in_the_log(void **state)
{
    struct hearth_options options = kit_options(8 << 20);
    struct hearth_model model = kit_model(FULL);
    struct hearth_ssd_options ssd = ssd_options();
    struct file_fault fault;
    char text[4096] = "";
    int32_t tokens[16];
    struct kit kit;
    FILE *file = tmpfile();

    (void)state;
    assert_non_null(file);
    struct log *log = log_create(
        &(struct log_options){.fd = fileno(file), .level = LOG_LEVEL_ERROR, .clock = clock_real()});
    file_fault_init(&fault, file_sys_real());
    fault.calls = UINT64_C(1) << FILE_CALL_PWRITE;
    fault.errnum = EIO;
    ssd.path = ssd_kit_new_path();
    kit_open_with(&kit, &options, &model);
    cache_set_disk(kit.cache, &fault.sys, log);
    assert_int_equal(hearth_attach_ssd(kit.cache, &ssd, NULL), HEARTH_OK);
    fault_arm(&fault.when, 1, true);
    kit_tokens(tokens, 16, 1);
    kit_store(&kit, tokens, 16, NULL);
    flush(&kit);
    fault_arm(&fault.when, 0, false);
    kit_close(&kit);
    log_destroy(&log);
    rewind(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    assert_non_null(strstr(text, "object lost"));
    fclose(file);
}

static uint64_t store_many(const struct kit *kit, uint32_t from, uint32_t count)
{
    int32_t tokens[16];

    for (uint32_t i = 0; i < count; i++) {
        kit_tokens(tokens, 16, from + i);
        kit_store(kit, tokens, 16, NULL);
        flush(kit);
    }
    return tier_of(kit, HEARTH_TIER_SSD).used;
}

static void test_the_cap_can_be_moved(void **state)
{
    struct kit kit;

    (void)state;
    open_kit(&kit, key);
    uint64_t used = store_many(&kit, 1, 40);
    assert_int_equal(hearth_set_ssd_bytes(kit.cache, 0), HEARTH_ERROR_INVALID);
    uint64_t disk = ssd_kit_disk_bytes(test_dir()), cap = disk - used / 2;
    assert_int_equal(hearth_set_ssd_bytes(kit.cache, cap), HEARTH_OK);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).cap, cap);
    for (int i = 0; i < 2000 && ssd_kit_disk_bytes(test_dir()) > cap; i++)
        clock_sleep_ns(clock_real(), 10 * NS_PER_MS);
    assert_true(ssd_kit_disk_bytes(test_dir()) <= cap);
    assert_true(tier_of(&kit, HEARTH_TIER_SSD).used > 0);
    assert_true(store_many(&kit, 100, 40) <= cap);
    assert_true(tier_of(&kit, HEARTH_TIER_SSD).evictions > 0);
    assert_int_equal(hearth_set_ssd_bytes(kit.cache, 64 << 20), HEARTH_OK);
    assert_true(store_many(&kit, 200, 80) > used);
    tier_ssd_check(kit.cache->tiers[HEARTH_TIER_SSD].tier);
    kit_close(&kit);
}

static void test_the_daily_budget_can_be_moved(void **state)
{
    struct kit kit;

    (void)state;
    open_kit(&kit, key);
    store_many(&kit, 1, 10);
    uint64_t today = tier_of(&kit, HEARTH_TIER_SSD).written_today;
    assert_int_equal(hearth_set_ssd_day_bytes(kit.cache, today), HEARTH_OK); /* used up */
    store_many(&kit, 100, 10);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).written_today, today);
    assert_int_equal(hearth_set_ssd_day_bytes(kit.cache, 0), HEARTH_OK);
    store_many(&kit, 200, 10);
    assert_true(tier_of(&kit, HEARTH_TIER_SSD).written_today > today);
    kit_close(&kit);
}

/* ---- shares, and what is hot in memory ---- */

/* I100 through the public header: another tenant's flood leaves on disk what is within the share;
 * without one it does not. */
static bool survives_flood(uint64_t share)
{
    struct tier_ssd_options ssd = ssd_kit_options(ssd_kit_new_path(), 1 << 20);
    struct hearth_options options = kit_options(512 << 10);
    struct hearth_model model = kit_model(FULL);
    int32_t tokens[64];
    struct kit kit;

    kit_open_with(&kit, &options, &model);
    kit.row_bytes = 1024;
    cache_attach_tier(kit.cache, HEARTH_TIER_SSD, ssd_kit_open(&ssd), 1e9);
    struct kit anna = kit_space(&kit, &model, "anna", 0), bert = kit_space(&kit, &model, "bert", 0);
    assert_int_equal(hearth_space_set_ssd_share(anna.space, 1 << 20), HEARTH_ERROR_MEMORY);
    assert_int_equal(hearth_space_set_ssd_share(anna.space, share), HEARTH_OK);
    kit_tokens(tokens, 64, 1);
    kit_store(&anna, tokens, 64, NULL);
    flush(&kit);
    for (uint32_t i = 0; i < 60; i++) {
        kit_tokens(tokens, 64, 100 + i);
        kit_store(&bert, tokens, 64, NULL);
        flush(&kit);
    }
    kit_check(&kit);
    kit_tokens(tokens, 64, 1);
    bool held = kit_restore(&anna, tokens, 64, NULL) == 63;
    hearth_space_close(&anna.space);
    hearth_space_close(&bert.space);
    kit_close(&kit);
    return held;
}

static void test_i100_a_share_of_the_disk(void **state)
{
    struct kit kit;

    (void)state;
    kit_open(&kit, 1 << 20, FULL);
    assert_int_equal(hearth_space_set_ssd_share(kit.space, 1 << 20), HEARTH_ERROR_INVALID);
    kit_close(&kit);
    assert_true(survives_flood(200 << 10));
    assert_false(survives_flood(0));
}

/* Objects that are hot in memory stay on the full disk below and are there after a restart;
 * unused ones that were written with them are not. */
static void test_i107_hot_in_memory_stays_on_disk(void **state)
{
    struct tier_ssd_options ssd = ssd_kit_options(ssd_kit_new_path(), 1 << 20);
    struct hearth_options options = kit_options(32 << 20);
    struct hearth_model model = kit_model(FULL);
    int32_t hot[64], cold[64], tokens[64];
    struct kit kit;

    (void)state;
    kit_open_with(&kit, &options, &model);
    kit.row_bytes = 1024;
    cache_attach_tier(kit.cache, HEARTH_TIER_SSD, ssd_kit_open(&ssd), 1e9);
    kit_tokens(hot, 64, 1);
    kit_tokens(cold, 64, 2);
    kit_store(&kit, hot, 64, NULL);
    kit_store(&kit, cold, 64, NULL);
    flush(&kit);
    for (uint32_t i = 0; i < 60; i++) {
        kit_tokens(tokens, 64, 100 + i);
        kit_store(&kit, tokens, 64, NULL);
        flush(&kit);
        assert_int_equal(kit_restore(&kit, hot, 64, NULL), 63);
    }
    assert_int_equal(kit_stats(&kit).promotions, 0); /* all of these hits were memory's */
    assert_true(tier_of(&kit, HEARTH_TIER_SSD).evictions > 0);
    kit_close(&kit);
    kit_open_with(&kit, &options, &model);
    kit.row_bytes = 1024;
    hearth_space_close(&kit.space);
    cache_attach_tier(kit.cache, HEARTH_TIER_SSD, ssd_kit_open(&ssd), 1e9);
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &kit.space), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, hot, 64, NULL), 63);
    assert_int_equal(kit_restore(&kit, cold, 64, NULL), 0);
    kit_close(&kit);
}

/* A restart with less memory leaves files on the disk that it has no records of. Clearing removes
 * them as well. */
static void test_clearing_reaches_files_without_records(void **state)
{
    enum { PROMPTS = 150 };
    struct hearth_options options = kit_options(128 << 10);
    struct hearth_model model = kit_model(FULL);
    struct hearth_ssd_options ssd = ssd_options();
    struct hearth_space *space;
    struct kit kit, other;
    int32_t tokens[64];

    (void)state;
    open_kit(&kit, key);
    other = kit_space(&kit, &model, "other", 0);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        kit_tokens(tokens, 64, i);
        kit_store(&kit, tokens, 64, NULL);
        kit_store(&other, tokens, 64, NULL);
    }
    hearth_space_close(&other.space);
    kit_close(&kit);
    assert_int_equal(ssd_kit_count_files(ssd.path, ".hobj"), 2 * PROMPTS);
    options.key = key;
    assert_int_equal(hearth_open(&kit.cache, &options, NULL), HEARTH_OK);
    assert_int_equal(hearth_attach_ssd(kit.cache, &ssd, NULL), HEARTH_OK);
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &space), HEARTH_OK);
    assert_true(kit_stats(&kit).objects < PROMPTS);
    (void)hearth_clear(kit.cache, space, HEARTH_TIER_RAM); /* the disk keeps everything */
    mover_drain(kit.cache, 20000);
    assert_int_equal(ssd_kit_count_files(ssd.path, ".hobj"), 2 * PROMPTS);
    (void)hearth_clear(kit.cache, space, HEARTH_TIER_SSD);
    mover_drain(kit.cache, 20000);
    assert_int_equal(ssd_kit_count_files(ssd.path, ".hobj"), PROMPTS); /* those of the other */
    (void)hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
    hearth_space_close(&space);
    hearth_close(&kit.cache);
    assert_int_equal(ssd_kit_count_files(ssd.path, ".hobj"), 0);
}

TEST_SUITE(TEST(test_demoted_state_is_written), TEST(test_clearing_reaches_files_without_records),
           TEST(test_i107_a_restart_is_warm), TEST(test_another_installation_finds_nothing),
           TEST(test_refusals), TEST(test_closing_waits_as_long_as_it_may),
           TEST(test_numbers_of_each_tier), TEST(test_a_demotion_is_no_eviction_of_the_disk),
           TEST(test_i65_every_accepted_write_is_accounted_for), TEST(test_read_only_is_said),
           TEST(test_degraded_is_said), TEST(test_i65_a_lost_write_is_in_the_log),
           TEST(test_the_cap_can_be_moved), TEST(test_the_daily_budget_can_be_moved),
           TEST(test_i100_a_share_of_the_disk), TEST(test_i107_hot_in_memory_stays_on_disk))
