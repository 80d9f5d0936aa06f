/*
 * The whole cache over a disk that loses its power (support/disk_model.h): conversations are
 * stored, the disk is found as it may be after any moment of that, and the next process restores
 * them. Every byte that a plan delivers is checked against its tokens (cache_kit.h); what is lost
 * is a shorter hit, and after a few more turns all is whole again.
 *
 * A run of CI looks at a few images, `make powerloss N=` at a tenth of N (HEARTH_POWERLOSS).
 */
#include <hearth/hearth.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/disk_model.h"
#include "support/ssd_kit.h"
#include "support/test.h"

#define ROOM    (UINT64_C(16) << 20)
#define WAIT_NS (20 * NS_PER_S)

enum {
    RAM = 2 << 20,
    CONVERSATIONS = 3,
    TOKENS = 120,
    IMAGES = 24,
    IMAGES_PER_DISK = 8,
    TURNS_MAX = 8,
};

static const uint32_t kinds_of[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                    HEARTH_KIND_FULL | HEARTH_KIND_SLIDING};

static void boot(struct kit *kit, struct disk_model *disk, uint32_t kinds)
{
    struct tier_ssd_options ssd = ssd_kit_options("disk", ROOM);
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(kinds);

    ssd.fs = disk_model_sys(disk);
    ssd.readers = ssd.writers = 1;
    *kit = (struct kit){.tag = 1, .row_bytes = 64, .snapshot_bytes = 512};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, ssd_kit_open(&ssd), 1e9);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

static void conversation(uint32_t i, int32_t tokens[TOKENS])
{
    kit_tokens(tokens, TOKENS, i + 10);
    kit_tokens(tokens, 40, 1); /* a common beginning */
}

static void store_all(const struct kit *kit, uint32_t kinds)
{
    int32_t tokens[TOKENS];

    for (uint32_t i = 0; i < CONVERSATIONS; i++) {
        conversation(i, tokens);
        for (uint32_t n = 60; n <= TOKENS; n += 60) {
            (void)kit_store(kit, tokens, n, NULL);
            if (kinds != HEARTH_KIND_FULL)
                (void)kit_snapshot(kit, tokens, n, n - 1);
        }
        assert_true(kit->cache->tiers[HEARTH_TIER_SSD].tier->ops->flush(
            kit->cache->tiers[HEARTH_TIER_SSD].tier, WAIT_NS));
    }
}

/* Fails at the first wrong byte. */
static long restore_all(const struct kit *kit)
{
    int32_t tokens[TOKENS];
    long sum = 0;

    for (uint32_t i = 0; i < CONVERSATIONS; i++) {
        conversation(i, tokens);
        sum += kit_restore(kit, tokens, TOKENS, NULL);
        kit_check(kit);
    }
    return sum;
}

static struct disk_model *make_disk(uint32_t kinds)
{
    struct disk_model *disk = disk_model_create();
    const struct file_sys *sys = disk_model_sys(disk);
    struct kit kit;

    boot(&kit, disk, kinds);
    assert_int_equal(sys->ops->fsync(sys->ctx, AT_FDCWD), 0); /* the folder itself is older */
    store_all(&kit, kinds);
    kit_close(&kit);
    return disk;
}

static long look_at(struct disk_model *image, uint32_t kinds)
{
    struct kit kit;

    boot(&kit, image, kinds);
    long reused = restore_all(&kit), healed = 0;
    /* Damage is found when an object is asked for; what is believed to be there until then is not
     * stored again. */
    for (int turn = 0; turn < TURNS_MAX && healed < CONVERSATIONS * (TOKENS - 1); turn++) {
        store_all(&kit, kinds);
        healed = restore_all(&kit);
    }
    assert_int_equal(healed, CONVERSATIONS * (TOKENS - 1));
    kit_close(&kit);
    return reused;
}

static void test_i94_images_of_a_power_failure(void **state)
{
    const char *text = getenv("HEARTH_POWERLOSS");
    long wanted = text ? strtol(text, NULL, 10) / 10 : IMAGES, images = 0, reused = 0;
    uint64_t seed = test_seed();

    (void)state;
    for (uint32_t number = 0; images < wanted; number++) {
        uint32_t kinds = kinds_of[number % COUNT_OF(kinds_of)];
        struct disk_model *disk = make_disk(kinds);
        for (int i = 0; i < IMAGES_PER_DISK && images < wanted; i++, images++) {
            size_t events = disk_model_events(disk);
            size_t at = events - test_random_below(&seed, events / 2);
            unsigned how = DISK_CRASH_ALL & (unsigned)test_random(&seed);
            struct disk_model *image = disk_model_crash(disk, at, how, test_random(&seed));
            reused += look_at(image, kinds);
            disk_model_destroy(&image);
        }
        disk_model_destroy(&disk);
    }
    printf("%ld images tried, %ld passed through the cache: %ld tokens reused and right\n", images,
           images, reused);
    assert_true(reused > 0);
}

TEST_SUITE(TEST(test_i94_images_of_a_power_failure))
