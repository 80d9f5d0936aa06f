/*
 * The SSD tier on a disk that loses its power (support/disk_model.h): random work, then the disk as
 * it may be found after any moment of it, opened by the real tier through the same table. Whatever
 * is served must be, byte for byte, one of the versions that were stored under its key, with its
 * own metadata; the tier must take new objects at once; and the disk may fail again.
 *
 * A run of CI looks at a few hundred images; `make powerloss N=` at as many as are asked for
 * (HEARTH_POWERLOSS).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "support/disk_model.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_suite.h"

#define WAIT_NS (20 * NS_PER_S)

enum {
    KEYS = 10,
    VERSIONS = 3,
    STEPS = 40,
    BYTES_MAX = 13000,
    IMAGES_PER_WORLD = 25,
    NEW_KEY = 70
};

#define CAP_SMALL 160000 /* some objects leave */
#define CAP_LARGE (1 << 20)

struct world {
    uint64_t random;
    struct disk_model *disk;
    struct tier_ssd_options options;
    unsigned stored[KEYS]; /* bit per version that was ever handed over */
};

struct tally {
    long images, served, missing, damaged, listed;
};

static const struct hash256 seal_key = {{1, 2, 3}};

static uint64_t size_of(uint32_t n)
{
    return 1 + n * 1777 % BYTES_MAX;
}

/* ---- the work ---- */

static struct tier *open_on(struct world *world, struct disk_model *disk)
{
    struct tier_ssd_options options = world->options;

    options.fs = disk_model_sys(disk);
    return ssd_kit_open(&options);
}

static void step(struct world *world, struct tier **tier)
{
    uint32_t n = (uint32_t)test_random_below(&world->random, KEYS);
    uint32_t version = (uint32_t)test_random_below(&world->random, VERSIONS);
    unsigned char data[BYTES_MAX];

    switch (test_random_below(&world->random, 8)) {
    case 0:
        ssd_kit_drop(*tier, n);
        break;
    case 1:
        (void)ssd_kit_get(*tier, n, data, size_of(n));
        break;
    case 2:
        if (test_random_below(&world->random, 4) == 0) {
            tier_close(tier);
            *tier = open_on(world, world->disk);
        }
        break;
    default:
        world->stored[n] |= 1u << version;
        (void)ssd_kit_put(*tier, n, version, size_of(n));
    }
}

static void make_world(struct world *world, uint64_t seed)
{
    *world = (struct world){.random = seed, .disk = disk_model_create()};
    uint64_t cap = test_random_below(&world->random, 2) ? CAP_SMALL : CAP_LARGE;
    world->options = ssd_kit_options("disk", cap);
    world->options.sync = test_random_below(&world->random, 2);
    uint64_t protection = test_random_below(&world->random, 3); /* none, a MAC, sealed */
    world->options.payload_mac = protection == 1;
    world->options.seal_key = protection == 2 ? &seal_key : NULL;
    world->options.readers = world->options.writers = 1;
    struct tier *tier = open_on(world, world->disk);
    const struct file_sys *sys = disk_model_sys(world->disk);
    assert_int_equal(sys->ops->fsync(sys->ctx, AT_FDCWD), 0); /* the folder itself is older */
    for (int i = 0; i < STEPS; i++)
        step(world, &tier);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    tier_close(&tier);
}

/* ---- what must hold ---- */

static bool is_a_version(const struct world *world, uint32_t n, const unsigned char *data)
{
    unsigned char expected[BYTES_MAX];

    for (uint32_t version = 0; version < VERSIONS; version++) {
        tier_suite_fill(expected, size_of(n), n, version);
        if ((world->stored[n] >> version & 1) != 0 && memcmp(data, expected, size_of(n)) == 0)
            return true;
    }
    return false;
}

static void must_serve(const struct world *world, struct tier *tier, struct tally *tally)
{
    static _Alignas(4096) unsigned char data[BYTES_MAX];

    for (uint32_t n = 0; n < KEYS; n++) {
        enum tier_result result = ssd_kit_get(tier, n, data, size_of(n));
        if (result == TIER_OK)
            assert_true(is_a_version(world, n, data));
        else
            assert_true(result == TIER_MISSING || result == TIER_DAMAGED);
        if (result == TIER_DAMAGED)
            assert_int_equal(ssd_kit_get(tier, n, data, size_of(n)), TIER_MISSING);
        tally->served += result == TIER_OK;
        tally->missing += result == TIER_MISSING;
        tally->damaged += result == TIER_DAMAGED;
    }
}

static bool must_describe(const struct tier_meta *meta, void *arg)
{
    struct tally *tally = arg;

    for (uint32_t n = 0; n < KEYS; n++) {
        struct tier_meta expected = tier_suite_meta(n, size_of(n));
        if (!hash256_eq(&meta->key, &expected.key))
            continue;
        assert_true(hash256_eq(&meta->space, &expected.space));
        assert_true(hash256_eq(&meta->parent, &expected.parent));
        assert_true(meta->kind == expected.kind && meta->begin == expected.begin);
        assert_true(meta->end == expected.end && meta->bytes == expected.bytes);
        assert_int_equal(meta->shape_bytes, expected.shape_bytes);
        assert_memory_equal(meta->shape, expected.shape, expected.shape_bytes);
        tally->listed++;
        return true;
    }
    struct hash256 fresh = tier_suite_key(NEW_KEY); /* of the life before this failure */
    assert_true(hash256_eq(&meta->key, &fresh));
    return true;
}

NORETURN static void fail_with_counters(struct tier *tier)
{
    struct tier_ssd_stats stats = ssd_kit_stats(tier);

#define X(name, help)   \
    if (stats.name > 0) \
        printf("%s %llu\n", #name, (unsigned long long)stats.name);
    TIER_SSD_COUNTER_TABLE(X)
#undef X
    fail_msg("nothing new is stored: %llu bytes overhead, %llu doomed, %llu foreign",
             (unsigned long long)stats.bytes_overhead, (unsigned long long)stats.bytes_doomed,
             (unsigned long long)stats.bytes_foreign);
}

static void look_at(struct world *world, struct disk_model *image, struct tally *tally)
{
    struct tier *tier = open_on(world, image);
    unsigned char data[BYTES_MAX], expected[BYTES_MAX];

    tier->ops->each(tier, must_describe, tally);
    must_serve(world, tier, tally);
    if (ssd_kit_put(tier, NEW_KEY, 0, BYTES_MAX) != TIER_OK)
        fail_with_counters(tier);
    assert_int_equal(ssd_kit_get(tier, NEW_KEY, data, BYTES_MAX), TIER_OK);
    tier_suite_fill(expected, BYTES_MAX, NEW_KEY, 0);
    assert_memory_equal(data, expected, BYTES_MAX);
    assert_true(tier->ops->flush(tier, WAIT_NS));
    tier_ssd_check(tier);
    tier_close(&tier);
    tally->images++;
}

/* After a failure at a random moment, and sometimes after another one in the life that follows. */
static void fail_once(struct world *world, struct disk_model *disk, unsigned how, int depth,
                      struct tally *tally)
{
    size_t at = test_random_below(&world->random, disk_model_events(disk) + 1);
    struct disk_model *image = disk_model_crash(disk, at, how, test_random(&world->random));

    look_at(world, image, tally);
    if (depth > 0 && test_random_below(&world->random, 8) == 0)
        fail_once(world, image, how, depth - 1, tally);
    disk_model_destroy(&image);
}

static long images_wanted(long otherwise)
{
    const char *text = getenv("HEARTH_POWERLOSS");

    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

static void run_images(unsigned how, long wanted)
{
    uint64_t seed = test_seed();
    struct tally tally = {0};

    for (uint64_t number = 0; tally.images < wanted; number++) {
        struct world world;
        make_world(&world, seed + number);
        for (int i = 0; i < IMAGES_PER_WORLD && tally.images < wanted; i++) {
            unsigned harm = how & (unsigned)test_random(&world.random);
            fail_once(&world, world.disk, harm, 2, &tally);
        }
        disk_model_destroy(&world.disk);
    }
    printf("%ld images tried, %ld passed: %ld gets served and right, %ld missing, %ld damaged; %ld "
           "listed\n",
           tally.images, tally.images, tally.served, tally.missing, tally.damaged, tally.listed);
    assert_true(tally.served > tally.images && tally.missing > 0 && tally.listed > tally.images);
    if ((how & DISK_CRASH_GARBAGE) != 0)
        assert_true(tally.damaged > 0); /* the harm was really done */
}

/* I107, without a power failure: a process that dies loses nothing that was stored before the last
 * change. */
static void test_i107_images_of_a_killed_process(void **state)
{
    (void)state;
    run_images(0, images_wanted(400) / 8 + 1);
}

static void test_i94_images_of_a_power_failure(void **state)
{
    (void)state;
    run_images(DISK_CRASH_ALL, images_wanted(400));
}

TEST_SUITE(TEST(test_i107_images_of_a_killed_process), TEST(test_i94_images_of_a_power_failure))
