/* Restarts: what a tier kept is found again, and nothing else. */
#include <hearth/hearth.h>

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_check.h"
#include "support/cache_kit.h"
#include "support/test.h"
#include "support/tier_ram.h"

enum { RAM = 1 << 20, SLOW = 32 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* A tier that outlives the cache that it was attached to, as a disk does. */
struct disk {
    struct tier tier;
    struct tier *inner;
    bool backwards;                         /* shows the newest objects first */
    void (*change)(struct tier_meta *meta); /* what it shows of an object, if not the truth */
};

static struct disk *disk_of(struct tier *tier)
{
    return CONTAINER_OF(tier, struct disk, tier);
}

static bool disk_put(struct tier *tier, const struct tier_meta *meta, const void *data,
                     tier_done_fn done, void *arg)
{
    struct tier *inner = disk_of(tier)->inner;

    return inner->ops->put(inner, meta, data, done, arg);
}

static void disk_get(struct tier *tier, const struct hash256 *key, void *dst, uint64_t capacity,
                     tier_done_fn done, void *arg, struct tier_op **op)
{
    struct tier *inner = disk_of(tier)->inner;

    inner->ops->get(inner, key, dst, capacity, done, arg, op);
}

static void disk_drop(struct tier *tier, const struct hash256 *key)
{
    struct tier *inner = disk_of(tier)->inner;

    inner->ops->drop(inner, key);
}

struct shown {
    struct tier_meta *metas;
    size_t count;
};

static bool copy_meta(const struct tier_meta *meta, void *arg)
{
    struct shown *shown = arg;
    struct tier_meta *copy = &shown->metas[shown->count++];

    *copy = *meta;
    int32_t *tokens = mem_alloc_array(meta->tokens_count, sizeof(*tokens));
    memcpy(tokens, meta->tokens, meta->tokens_count * sizeof(*tokens));
    copy->tokens = tokens;
    return true;
}

static void disk_each(struct tier *tier, bool (*fn)(const struct tier_meta *meta, void *arg),
                      void *arg)
{
    struct disk *disk = disk_of(tier);
    struct shown shown = {.metas = mem_alloc_array(10000, sizeof(struct tier_meta))};

    disk->inner->ops->each(disk->inner, copy_meta, &shown);
    for (size_t i = 0; i < shown.count; i++) {
        struct tier_meta *meta = &shown.metas[disk->backwards ? shown.count - 1 - i : i];
        if (disk->change != NULL)
            disk->change(meta);
        fn(meta, arg);
    }
    for (size_t i = 0; i < shown.count; i++)
        mem_free((void *)shown.metas[i].tokens);
    mem_free(shown.metas);
}

static void disk_close(struct tier *tier)
{
    (void)tier; /* the machine goes down, the disk does not */
}

static bool disk_has(struct tier *tier, const struct hash256 *key)
{
    struct tier *inner = disk_of(tier)->inner;

    return inner->ops->has(inner, key);
}

static void disk_stats(struct tier *tier, struct tier_stats *stats)
{
    struct tier *inner = disk_of(tier)->inner;

    inner->ops->stats(inner, stats);
}

static const struct tier_ops disk_ops = {.name = "disk",
                                         .put = disk_put,
                                         .get = disk_get,
                                         .drop = disk_drop,
                                         .has = disk_has,
                                         .each = disk_each,
                                         .stats = disk_stats,
                                         .close = disk_close};

/* Times of use that differ, so that the order is the one in which objects were stored. */
static struct clock *ticking;

static struct disk disk_make(void)
{
    return (struct disk){.tier.ops = &disk_ops,
                         .inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = SLOW})};
}

static uint64_t objects_on(struct disk *disk)
{
    struct tier_stats stats;

    disk->inner->ops->stats(disk->inner, &stats);
    return stats.objects;
}

/* A process begins; it has the same key as the one before. */
static void boot_model(struct kit *kit, struct disk *disk, const struct hearth_model *model,
                       uint64_t ram)
{
    struct hearth_options options = kit_options(ram);

    *kit = (struct kit){.tag = 1, .row_bytes = 64, .snapshot_bytes = 512};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    kit->cache->clock = ticking;
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, &disk->tier, 1e9);
    cache_check(kit->cache);
    assert_int_equal(hearth_space_open(kit->cache, model, "", 0, &kit->space), HEARTH_OK);
    kit_check(kit);
}

static void boot(struct kit *kit, struct disk *disk, uint32_t kinds, uint64_t ram)
{
    struct hearth_model model = kit_model(kinds);

    boot_model(kit, disk, &model, ram);
}

static void store_all(const struct kit *kit, bool snapshots)
{
    int32_t tokens[200];

    for (uint32_t i = 0; i < 6; i++) {
        kit_tokens(tokens, 200, i + 10);
        kit_tokens(tokens, 70, 1); /* a common beginning */
        for (uint32_t n = 90; n <= 200; n += 55) {
            clock_fake_advance(ticking, NS_PER_S);
            kit_store(kit, tokens, n, NULL);
            if (snapshots)
                kit_snapshot(kit, tokens, n, n - 1);
        }
    }
}

static void restore_all(const struct kit *kit)
{
    int32_t tokens[200];

    for (uint32_t i = 0; i < 6; i++) {
        kit_tokens(tokens, 200, i + 10);
        kit_tokens(tokens, 70, 1);
        assert_int_equal(kit_restore(kit, tokens, 200, NULL), 199);
        kit_check(kit);
    }
}

static void test_i107_a_restart_finds_everything(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                     HEARTH_KIND_RECURRENT, HEARTH_KIND_FULL | HEARTH_KIND_SLIDING};

    (void)state;
    ticking = clock_create_fake(NS_PER_S * 1000, NS_PER_S * 1000);
    for (size_t i = 0; i < 2 * COUNT_OF(kinds); i++) {
        struct disk disk = disk_make();
        struct kit kit;
        uint32_t k = kinds[i / 2];
        disk.backwards = i % 2 == 1; /* children before their parents */
        boot(&kit, &disk, k, RAM);
        store_all(&kit, k != FULL);
        restore_all(&kit);
        struct hearth_stats before = kit_stats(&kit);
        kit_close(&kit);
        assert_int_equal(objects_on(&disk), before.objects);
        boot(&kit, &disk, k, RAM);
        struct hearth_stats after = kit_stats(&kit);
        assert_int_equal(after.objects, before.objects);
        assert_int_equal(after.nodes, before.nodes);
        assert_int_equal(after.snapshots, before.snapshots);
        assert_int_equal(after.bytes_by_tier[HEARTH_TIER_SSD],
                         before.bytes_by_tier[HEARTH_TIER_SSD]);
        assert_int_equal(after.bytes_by_tier[HEARTH_TIER_RAM], 0);
        restore_all(&kit);
        assert_true(kit_stats(&kit).promotions > 0);
        assert_int_equal(kit_stats(&kit).verify_failures + kit_stats(&kit).tier_errors, 0);
        kit_close(&kit);
        tier_close(&disk.inner);
    }
    clock_destroy_fake(&ticking);
}

static bool note_age(const struct hearth_held *held, void *arg)
{
    *(double *)arg = held->age_s;
    return true;
}

/* The monotonic clock begins with the machine; what the disk has may be older. */
static void test_ages_reach_back_before_the_machine_started(void **state)
{
    const uint64_t day_ns = 86400 * NS_PER_S;
    struct disk disk = disk_make();
    struct kit kit;
    int32_t tokens[64];
    struct hearth_sum sum;
    double age_s = 0;

    (void)state;
    ticking = clock_create_fake(day_ns, 100 * day_ns);
    boot(&kit, &disk, FULL, RAM);
    kit_tokens(tokens, 64, 1);
    kit_store(&kit, tokens, 64, NULL);
    kit_close(&kit);
    clock_destroy_fake(&ticking);
    ticking = clock_create_fake(NS_PER_S, 103 * day_ns);
    boot(&kit, &disk, FULL, RAM);
    assert_int_equal(hearth_each(kit.cache, NULL, 0, note_age, &age_s), 1);
    assert_true(age_s == 3 * 86400.0);
    hearth_evict_older(kit.cache, NULL, 4 * 86400.0, &sum);
    assert_int_equal(sum.objects, 0);
    hearth_evict_older(kit.cache, NULL, 2 * 86400.0, &sum);
    assert_int_equal(sum.objects, 1);
    kit_close(&kit);
    assert_int_equal(objects_on(&disk), 0);
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

static void test_i97_i100_spaces_wait_until_they_are_opened(void **state)
{
    struct hearth_model other = kit_model(FULL);
    struct disk disk = disk_make();
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    ticking = clock_create_fake(NS_PER_S, NS_PER_S);
    boot(&kit, &disk, FULL, RAM);
    struct kit tenant = kit_space(&kit, &other, "tenant", 0);
    kit_tokens(tokens, 100, 1);
    kit_store(&tenant, tokens, 100, NULL);
    hearth_space_close(&tenant.space);
    kit_close(&kit);
    boot(&kit, &disk, FULL, RAM);
    assert_int_equal(kit_stats(&kit).objects, 3); /* dormant */
    assert_int_equal(kit_peek(&kit, tokens, 100).boundary, 0);
    assert_int_equal(kit_peek(&kit, tokens, 100).reason,
                     HEARTH_REASON_COLD); /* not a word about others */
    kit_close(&kit);
    boot(&kit, &disk, FULL, RAM); /* and once more, without ever being opened */
    tenant = kit_space(&kit, &other, "tenant", 64 * 1024);
    assert_int_equal(kit_restore(&tenant, tokens, 100, NULL), 99);
    assert_int_equal(tenant.space->tails.count, 1);
    kit_check(&kit);
    hearth_space_close(&tenant.space);
    kit_close(&kit);
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

static void test_another_block_size_is_left_alone(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct disk disk = disk_make();
    struct hearth_cache *cache;
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    ticking = clock_create_fake(NS_PER_S, NS_PER_S);
    boot(&kit, &disk, FULL, RAM);
    kit_tokens(tokens, 100, 1);
    kit_store(&kit, tokens, 100, NULL); /* [0, 64), [64, 96), [96, 100) */
    kit_close(&kit);
    options.block_tokens = 24;
    assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
    cache_attach_tier(cache, HEARTH_TIER_SSD, &disk.tier, 0);
    cache_check(cache);
    hearth_close(&cache);
    boot(&kit, &disk, FULL, RAM);
    assert_int_equal(objects_on(&disk), 3);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99);
    kit_close(&kit);
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

static unsigned lies;

/* Says of the second object that it has other tokens. */
static void lie_about_tokens(struct tier_meta *meta)
{
    if (meta->begin == 64 && lies-- > 0)
        ((int32_t *)meta->tokens)[3]++;
}

static void lie_about_kind(struct tier_meta *meta)
{
    if (meta->begin == 0)
        meta->kind = (meta->kind & ~(uint32_t)0xff) | HEARTH_OBJECT_SLIDING;
}

/* Says of the tail that it ends long before the block that it follows. */
static void lie_about_range(struct tier_meta *meta)
{
    if (meta->begin != 144)
        return;
    meta->begin = 16;
    meta->end = meta->begin + meta->tokens_count;
}

static void lie_about_everything(struct tier_meta *meta)
{
    meta->end = 7;
    meta->tokens_count = meta->begin % 128 ? 0 : meta->tokens_count;
    meta->shape_bytes = 100000;
}

static void test_i101_records_are_believed_only_when_their_key_proves_them(void **state)
{
    static const struct {
        void (*change)(struct tier_meta *meta);
        uint32_t boundary;
        uint64_t objects;
    } cases[] = {{lie_about_tokens, 64, 1},
                 {lie_about_kind, 0, 0},
                 {lie_about_range, 144, 3},
                 {lie_about_everything, 0, 0}};

    (void)state;
    ticking = clock_create_fake(NS_PER_S, NS_PER_S);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct disk disk = disk_make();
        struct kit kit;
        int32_t tokens[150];
        boot(&kit, &disk, FULL, RAM);
        kit_tokens(tokens, 150, 1);
        for (uint32_t count = 64; count <= 192; count += 64) { /* in order on the disk */
            clock_fake_advance(ticking, NS_PER_S);
            kit_store(&kit, tokens, MIN(count, 144), NULL);
        }
        clock_fake_advance(ticking, NS_PER_S);
        kit_store(&kit, tokens, 150, NULL);
        kit_close(&kit);
        lies = 1;
        disk.change = cases[i].change;
        boot(&kit, &disk, FULL, RAM);
        assert_int_equal(kit_stats(&kit).objects, cases[i].objects);
        assert_int_equal(kit_restore(&kit, tokens, 150, NULL), cases[i].boundary);
        kit_store(&kit, tokens, 150, NULL);
        assert_int_equal(kit_restore(&kit, tokens, 150, NULL), 149);
        kit_check(&kit);
        kit_close(&kit);
        tier_close(&disk.inner);
    }
    clock_destroy_fake(&ticking);
}

static void test_orphans_are_dropped(void **state)
{
    struct disk disk = disk_make();
    struct kit kit;
    int32_t tokens[150];

    (void)state;
    ticking = clock_create_fake(NS_PER_S, NS_PER_S);
    boot(&kit, &disk, FULL, RAM);
    kit_tokens(tokens, 150, 1);
    kit_store(&kit, tokens, 150, NULL);
    struct hash256 first;
    lock_enter(&kit.cache->lock);
    first = node_rows(index_match(kit.space->index, tokens, 64).path[0])->key;
    lock_leave(&kit.cache->lock);
    kit_close(&kit);
    disk.inner->ops->drop(disk.inner, &first);
    assert_int_equal(objects_on(&disk), 3);
    boot(&kit, &disk, FULL, RAM);
    assert_int_equal(objects_on(&disk), 0);
    assert_int_equal(kit_stats(&kit).objects, 0);
    kit_check(&kit);
    kit_close(&kit);
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

static void test_i93_what_does_not_fit_is_left_on_disk(void **state)
{
    struct disk disk = disk_make();
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    ticking = clock_create_fake(NS_PER_S, NS_PER_S);
    boot(&kit, &disk, FULL, 4 << 20);
    for (uint32_t i = 0; i < 300; i++) {
        kit_tokens(tokens, 64, i);
        kit_store(&kit, tokens, 64, NULL);
    }
    kit_close(&kit);
    for (int backwards = 0; backwards < 2; backwards++) {
        disk.backwards = backwards;
        uint64_t before = objects_on(&disk);
        assert_true(before > 200);
        boot(&kit, &disk, FULL, 128 * 1024);
        uint64_t objects = kit_stats(&kit).objects;
        assert_true(objects > 20 && objects < 200);
        assert_int_equal(objects_on(&disk), before);
        kit_tokens(tokens, 64, 1000 + (uint32_t)backwards); /* and there is room to work */
        assert_int_equal(kit_store(&kit, tokens, 64, NULL), 1);
        assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 63);
        kit_check(&kit);
        kit_close(&kit);
    }
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

static void test_i27_fault_loop_over_recovering(void **state)
{
    struct fault fault = {0};
    struct disk disk = disk_make();
    struct kit kit;
    long rounds = 0;

    (void)state;
    ticking = clock_create_fake(NS_PER_S, NS_PER_S);
    boot(&kit, &disk, HYBRID, RAM);
    store_all(&kit, true);
    uint64_t objects = kit_stats(&kit).objects;
    kit_close(&kit);
    disk.backwards = true;
    FAULT_LOOP (&fault) {
        struct hearth_options options = kit_options(RAM);
        struct hearth_cache *cache;
        rounds++;
        assert_int_equal(hearth_open(&cache, &options, NULL), HEARTH_OK);
        mem_set_fault(&fault);
        cache_attach_tier(cache, HEARTH_TIER_SSD, &disk.tier, 0);
        mem_set_fault(NULL);
        cache_check(cache);
        hearth_close(&cache);
        assert_int_equal(objects_on(&disk),
                         objects); /* whatever failed, nothing is taken from the disk */
    }
    assert_true(rounds > 20);
    boot(&kit, &disk, HYBRID, RAM);
    restore_all(&kit);
    kit_close(&kit);
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

/* Rows of a window whose front is gone begin where they begin, not where the state does, also after
 * a restart. */
static void test_i21_a_window_keeps_its_place_over_a_restart(void **state)
{
    struct hearth_model model = kit_model(HEARTH_KIND_FULL | HEARTH_KIND_CHUNKED);
    struct disk disk = disk_make();
    struct hearth_store *store;
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    ticking = clock_create_fake(NS_PER_S * 1000, NS_PER_S * 1000);
    model.captures_sliding = true; /* a window of 24 */
    boot_model(&kit, &disk, &model, RAM);
    kit_tokens(tokens, 100, 1);
    hearth_store_open(kit.space, tokens, 100, NULL, &store);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 0, 64, tokens), HEARTH_OK);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 64, 96, tokens), HEARTH_OK);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SLIDING, 48, 96, tokens), HEARTH_OK);
    hearth_store_close(&store);
    kit_close(&kit);
    boot_model(&kit, &disk, &model, RAM);
    assert_int_equal(kit_peek(&kit, tokens, 72).boundary, 0); /* its window would begin at 47 */
    assert_int_equal(kit_peek(&kit, tokens, 73).boundary, 72);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 96); /* bytes and shape as they were */
    kit_close(&kit);
    tier_close(&disk.inner);
    clock_destroy_fake(&ticking);
}

TEST_SUITE(TEST(test_i21_a_window_keeps_its_place_over_a_restart),
           TEST(test_i107_a_restart_finds_everything),
           TEST(test_ages_reach_back_before_the_machine_started),
           TEST(test_i97_i100_spaces_wait_until_they_are_opened),
           TEST(test_another_block_size_is_left_alone),
           TEST(test_i101_records_are_believed_only_when_their_key_proves_them),
           TEST(test_orphans_are_dropped), TEST(test_i93_what_does_not_fit_is_left_on_disk),
           TEST(test_i27_fault_loop_over_recovering))
