/* Checking the bytes of cached objects, in memory and on disk. */
#include <hearth/hearth.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/object_path.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum { RAM = 8 << 20, TOKENS = 100 };

#define ROOM UINT64_C(64 << 20)

static const uint32_t FULL = HEARTH_KIND_FULL;

static void flush(const struct kit *kit)
{
    assert_true(kit->cache->tiers[HEARTH_TIER_SSD].tier->ops->flush(
        kit->cache->tiers[HEARTH_TIER_SSD].tier, 20 * NS_PER_S));
    mover_drain(kit->cache, 20000);
}

/* A cache that has stored TOKENS tokens, in memory and in the tier. */
static void boot_above(struct kit *kit, struct tier *tier, int32_t *tokens)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL);

    *kit = (struct kit){.tag = 1, .row_bytes = 64, .snapshot_bytes = 512};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, tier, 1e9);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
    kit_tokens(tokens, TOKENS, 1);
    kit_store(kit, tokens, TOKENS, NULL);
    flush(kit);
}

static void boot(struct kit *kit, const struct tier_ssd_options *ssd, int32_t *tokens)
{
    boot_above(kit, ssd_kit_open(ssd), tokens);
}

static struct hearth_verified verify(const struct kit *kit, enum hearth_tier tier)
{
    struct hearth_verify_options options = {.struct_size = sizeof(options), .tier = tier};
    struct hearth_verified result;

    assert_int_equal(hearth_verify(kit->cache, &options, &result), HEARTH_OK);
    kit_check(kit);
    return result;
}

/* The object that ends there; no other thread uses the cache. */
static struct object *object_at(const struct kit *kit, uint32_t end)
{
    LIST_FOREACH (struct object, object, &kit->space->all, held_link)
        if (object->end == end)
            return object;
    fail_msg("nothing ends at %u", end);
    return NULL;
}

/* Flips a bit of the payload in its file. */
static void damage_file(const struct kit *kit, const char *dir, uint32_t end)
{
    const struct object *object = object_at(kit, end);
    char path[1024], name[OBJECT_PATH_BYTES];
    unsigned char byte;

    object_path(&object->key, name);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    off_t at = lseek(fd, 0, SEEK_END) - 7;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Without a disk the first look has nothing to compare with, and the second has. */
static void test_memory_alone(void **state)
{
    int32_t tokens[TOKENS];
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, TOKENS);
    struct hearth_verified result = verify(&kit, HEARTH_TIER_RAM);
    assert_int_equal(result.objects, 3);
    assert_int_equal(result.bytes, TOKENS * 64);
    assert_int_equal(result.unknown, 3);
    assert_int_equal(verify(&kit, HEARTH_TIER_RAM).unknown, 0);
    struct object *object = object_at(&kit, 96);
    ((unsigned char *)object->data)[100] ^= 1;
    struct hearth_plan *plan = kit_lookup(&kit, tokens, TOKENS); /* a reader is no obstacle */
    result = verify(&kit, HEARTH_TIER_RAM);
    assert_int_equal(result.objects, 3);
    assert_int_equal(result.damaged, 1);
    assert_int_equal(result.dropped, 1);
    hearth_plan_release(&plan);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), 64);
    assert_int_equal(kit_stats(&kit).verify_failures, 1);
    assert_int_equal(hearth_get_tier(kit.cache, HEARTH_TIER_RAM, &stats), HEARTH_OK);
    assert_int_equal(stats.errors, 1);
    assert_int_equal(verify(&kit, HEARTH_TIER_RAM).damaged, 0);
    struct hearth_verify_options disk = {.struct_size = sizeof(disk), .tier = HEARTH_TIER_SSD};
    assert_int_equal(hearth_verify(kit.cache, &disk, &result), HEARTH_ERROR_INVALID);
    kit_close(&kit);
}

/* With a disk the digest is known from the start, and the good copy is on it. */
static void test_memory_above_a_disk(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    boot(&kit, &options, tokens);
    ((unsigned char *)object_at(&kit, 64)->data)[0] ^= 1;
    struct hearth_verified result = verify(&kit, HEARTH_TIER_RAM);
    assert_int_equal(result.unknown, 0);
    assert_int_equal(result.damaged, 1);
    assert_int_equal(result.dropped, 1);
    assert_null(object_at(&kit, 64)->data);
    /* right to the last byte */
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    kit_close(&kit);
}

/* What comes back from a tier may have been computed by another machine: it is compared with no
 * digest of what was in memory before. */
static void test_what_comes_back_is_not_compared_with_what_went(void **state)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = RAM});
    struct tier *tier = tier_fault_open(&(struct tier_fault_options){.inner = inner});
    int32_t tokens[TOKENS];
    struct kit kit;
    const void *data;

    (void)state;
    boot_above(&kit, tier, tokens);
    (void)verify(&kit, HEARTH_TIER_RAM);
    assert_int_equal(verify(&kit, HEARTH_TIER_RAM).unknown, 0);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    fault_arm(tier_fault_of(tier, TIER_FAULT_GET_CORRUPT), 1, false); /* another computation */
    struct hearth_plan *plan = kit_lookup(&kit, tokens, TOKENS);
    for (size_t i = 0; i < hearth_plan_info(plan)->objects_count; i++)
        assert_int_equal(hearth_plan_fetch(plan, i, 20000, &data), HEARTH_OK);
    hearth_plan_release(&plan);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_SSD); /* so only the digest in memory is left */
    struct hearth_verified result = verify(&kit, HEARTH_TIER_RAM);
    assert_int_equal(result.objects, 3);
    assert_int_equal(result.damaged, 0);
    kit_close(&kit);
}

static void check_disk(const struct tier_ssd_options *options, bool in_memory)
{
    int32_t tokens[TOKENS];
    struct kit kit;

    boot(&kit, options, tokens);
    if (!in_memory)
        hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    struct hearth_verified result = verify(&kit, HEARTH_TIER_SSD);
    assert_int_equal(result.objects, 3);
    assert_int_equal(result.bytes, TOKENS * 64);
    assert_int_equal(result.damaged + result.failed + result.unknown, 0);
    damage_file(&kit, options->path, 96);
    result = verify(&kit, HEARTH_TIER_SSD);
    assert_int_equal(result.objects, 3);
    assert_int_equal(result.damaged, 1);
    assert_int_equal(result.dropped, 1);
    flush(&kit);
    char quarantine[1024];
    snprintf(quarantine, sizeof(quarantine), "%s/quarantine", options->path);
    int kept = ssd_kit_count_files(quarantine, "");
    /* the new one may be there first, in its place */
    assert_true(kept == 1 || (in_memory && kept == 0));
    result = verify(&kit, HEARTH_TIER_SSD);
    assert_int_equal(result.objects, in_memory ? 3 : 2); /* written anew, or forgotten */
    assert_int_equal(result.damaged, 0);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), in_memory ? TOKENS - 1 : 64);
    kit_close(&kit);
}

static void test_disk(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);

    (void)state;
    check_disk(&options, true);
    options.path = ssd_kit_new_path();
    check_disk(&options, false);
    options.path = ssd_kit_new_path();
    options.seal_key = ssd_kit_seal_key();
    check_disk(&options, true);
    options.path = ssd_kit_new_path();
    options.no_direct = true;
    check_disk(&options, false);
}

/* A removed file is not damage: it is not served, and that is all. */
static void test_disk_without_the_file(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    char path[1024], name[OBJECT_PATH_BYTES];
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    boot(&kit, &options, tokens);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    object_path(&object_at(&kit, 96)->key, name);
    snprintf(path, sizeof(path), "%s/%s", options.path, name);
    assert_int_equal(unlink(path), 0);
    struct hearth_verified result = verify(&kit, HEARTH_TIER_SSD);
    assert_int_equal(result.damaged, 0);
    assert_int_equal(result.failed, 1);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), 64);
    kit_close(&kit);
}

/* I103: verifying is not a use: the order of uses stays, also on disk. */
static void test_verifying_is_no_use(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct tier_stats before, after;
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    boot(&kit, &options, tokens);
    kit.cache->tiers[HEARTH_TIER_SSD].tier->ops->stats(kit.cache->tiers[HEARTH_TIER_SSD].tier,
                                                       &before);
    const struct object *object = object_at(&kit, 96);
    uint64_t used_ns = object->used_ns;
    uint32_t uses = object->uses;
    (void)verify(&kit, HEARTH_TIER_RAM);
    (void)verify(&kit, HEARTH_TIER_SSD);
    kit.cache->tiers[HEARTH_TIER_SSD].tier->ops->stats(kit.cache->tiers[HEARTH_TIER_SSD].tier,
                                                       &after);
    assert_int_equal(object->used_ns, used_ns);
    assert_int_equal(object->uses, uses);
    assert_int_equal(after.gets, before.gets);
    assert_int_equal(kit_stats(&kit).lookups + kit_stats(&kit).promotions, 0);
    assert_int_equal(ssd_kit_stats(kit.cache->tiers[HEARTH_TIER_SSD].tier).stamps, 0);
    kit_close(&kit);
}

struct counting {
    size_t calls, enough;
    struct hearth_verified last;
};

static bool count_calls(const struct hearth_verified *so_far, void *arg)
{
    struct counting *counting = arg;

    counting->calls++;
    counting->last = *so_far;
    return counting->calls != counting->enough;
}

static void test_it_can_be_ended_and_slowed_down(void **state)
{
    struct counting counting = {.enough = 2};
    struct hearth_verify_options options = {.struct_size = sizeof(options),
                                            .tier = HEARTH_TIER_RAM,
                                            .more = count_calls,
                                            .arg = &counting};
    struct hearth_verified result;
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, TOKENS);
    assert_int_equal(hearth_verify(kit.cache, &options, &result), HEARTH_OK);
    assert_int_equal(result.objects, 2);
    assert_int_equal(counting.last.objects, 2);
    /* 6,400 bytes at 64,000 a second: the last is not done before the time that they are worth. */
    options.bytes_per_s = 64000;
    counting = (struct counting){0};
    uint64_t start_ns = clock_mono_ns(clock_real());
    assert_int_equal(hearth_verify(kit.cache, &options, &result), HEARTH_OK);
    assert_int_equal(counting.calls, 3);
    assert_true(clock_mono_ns(clock_real()) - start_ns >= 100 * NS_PER_MS);
    kit_close(&kit);
}

/* A disk without memory to read into says nothing about an object: it stays. */
static void test_without_memory_objects_stay(void **state)
{
    struct tier_ssd_options options = ssd_kit_options(ssd_kit_new_path(), ROOM);
    struct fault fault = {0};
    int32_t tokens[TOKENS];
    struct kit kit;

    (void)state;
    boot(&kit, &options, tokens);
    hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct hearth_verified result = verify(&kit, HEARTH_TIER_SSD);
        assert_int_equal(result.objects, 3);
        assert_int_equal(result.damaged, 0);
        assert_int_equal(result.failed, atomic_load(&fault.fired) > 0);
    }
    mem_set_fault(NULL);
    assert_int_equal(kit_restore(&kit, tokens, TOKENS, NULL), TOKENS - 1);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_memory_alone), TEST(test_memory_above_a_disk),
           TEST(test_what_comes_back_is_not_compared_with_what_went), TEST(test_disk),
           TEST(test_disk_without_the_file), TEST(test_verifying_is_no_use),
           TEST(test_it_can_be_ended_and_slowed_down), TEST(test_without_memory_objects_stay))
