/*
 * tiers_test.c: a cache with tiers at every level. The slowest one is a double that is made of one
 * struct tier_ops and nothing else (support/tier_kept.h); src/cache does not know it.
 */
#include <hearth/hearth.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "support/cache_check.h"
#include "support/cache_kit.h"
#include "support/ssd_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_kept.h"
#include "tier/pages.h"

enum { RAM = 4 << 20, RAM_SMALL = 700 << 10, TOKENS = 200, OBJECTS = 4 };

#define ROOM     UINT64_C(64 << 20)
#define DELAY_NS (200 * NS_PER_US)
#define WAIT_MS  20000

static const uint32_t SSD = TIER_BIT(HEARTH_TIER_SSD), REMOTE = TIER_BIT(HEARTH_TIER_REMOTE);

/* A process begins. The tier at each level may be NULL. */
static void boot(struct kit *kit, uint64_t ram, struct tier *ssd, struct tier *remote)
{
    struct hearth_options options = kit_options(ram);
    struct hearth_model model = kit_model(HEARTH_KIND_FULL);

    *kit = (struct kit){.tag = 1, .row_bytes = 1024, .snapshot_bytes = 512};
    assert_int_equal(hearth_open(&kit->cache, &options, NULL), HEARTH_OK);
    if (ssd != NULL)
        cache_attach_tier(kit->cache, HEARTH_TIER_SSD, ssd, 1e9);
    if (remote != NULL)
        cache_attach_tier(kit->cache, HEARTH_TIER_REMOTE, remote, 1e8);
    cache_check(kit->cache);
    assert_int_equal(hearth_space_open(kit->cache, &model, "", 0, &kit->space), HEARTH_OK);
}

static struct tier *open_ssd(const char *path)
{
    struct tier_ssd_options options = ssd_kit_options(path, ROOM);

    return ssd_kit_open(&options);
}

static void store_seed(const struct kit *kit, const int32_t *tokens, uint32_t count)
{
    kit_store(kit, tokens, count, NULL);
    if (kit->space->model.kinds != HEARTH_KIND_FULL)
        assert_int_equal(kit_snapshot(kit, tokens, count, count - 1), HEARTH_OK);
    mover_drain(kit->cache, WAIT_MS);
}

/* Stores and waits until all tiers have it. */
static void store(const struct kit *kit, int32_t *tokens, uint32_t count)
{
    kit_tokens(tokens, count, 1);
    kit_store(kit, tokens, count, NULL);
    mover_drain(kit->cache, WAIT_MS);
    kit_check(kit);
}

static uint64_t clear(const struct kit *kit, enum hearth_tier tier)
{
    uint64_t bytes = hearth_clear(kit->cache, NULL, tier);

    mover_drain(kit->cache, WAIT_MS);
    kit_check(kit);
    return bytes;
}

static uint32_t restore(const struct kit *kit, const int32_t *tokens, uint32_t count)
{
    uint32_t boundary = kit_restore(kit, tokens, count, NULL);

    mover_drain(kit->cache, WAIT_MS);
    kit_check(kit);
    return boundary;
}

static bool and_tiers(const struct hearth_held *held, void *arg)
{
    *(uint32_t *)arg &= held->tiers;
    return true;
}

/* Bits of the tiers that have every object. */
static uint32_t tiers_of_all(const struct kit *kit)
{
    uint32_t tiers = UINT32_MAX;

    return hearth_each(kit->cache, NULL, 0, and_tiers, &tiers) > 0 ? tiers : 0;
}

static struct hearth_tier_stats tier_of(const struct kit *kit, enum hearth_tier tier)
{
    struct hearth_tier_stats stats = {.struct_size = sizeof(stats)};

    assert_int_equal(hearth_get_tier(kit->cache, tier, &stats), HEARTH_OK);
    return stats;
}

static uint64_t read_of(const struct kit *kit, enum hearth_tier tier)
{
    return kit_stats(kit).bytes_read_by_tier[tier];
}

/* Each level is written to, the fastest that has an object is read, and an object read from a
 * slower level fills the faster ones. */
static void test_each_level_stores_and_restores(void **state)
{
    struct tier_kept remote;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM, open_ssd(ssd_kit_new_path()), &remote.tier);
    store(&kit, tokens, TOKENS);
    assert_int_equal(tiers_of_all(&kit), TIER_BIT(HEARTH_TIER_RAM) | SSD | REMOTE);
    assert_int_equal(tier_kept_objects(&remote), OBJECTS);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).stores, OBJECTS);

    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_true(read_of(&kit, HEARTH_TIER_SSD) > 0 && read_of(&kit, HEARTH_TIER_REMOTE) == 0);

    clear(&kit, HEARTH_TIER_SSD);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(tiers_of_all(&kit), REMOTE);
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    assert_int_equal(hearth_probe(kit.space, tokens, TOKENS, &probe, NULL, 0), HEARTH_OK);
    assert_int_equal(probe.tokens_by_tier[HEARTH_TIER_REMOTE], TOKENS - 1);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(kit_stats(&kit).tokens_reused_by_tier[HEARTH_TIER_REMOTE], TOKENS - 1);
    assert_int_equal(tiers_of_all(&kit), TIER_BIT(HEARTH_TIER_RAM) | SSD | REMOTE);
    kit_close(&kit);
    tier_kept_close(&remote);
}

/* A level that takes longer than computing costs its own objects, not those before them. */
static void test_a_slow_level_leaves_the_rest(void **state)
{
    struct tier_kept remote;
    struct kit kit;
    int32_t tokens[TOKENS];
    uint32_t run = 4 * KIT_BLOCK;

    (void)state;
    tier_kept_open(&remote, ROOM, 0);
    boot(&kit, RAM, NULL, &remote.tier);
    store(&kit, tokens, TOKENS);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, run + 1), run);
    kit.cache->tiers[HEARTH_TIER_REMOTE].bytes_per_s = 1;
    hearth_space_set_speed(kit.space, 1000, 1e9);
    struct hearth_plan_info info = kit_peek(&kit, tokens, TOKENS);
    assert_int_equal(info.boundary, run);
    assert_int_equal(info.reason, HEARTH_REASON_CHEAPER);
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    assert_int_equal(hearth_probe(kit.space, tokens, TOKENS, &probe, NULL, 0), HEARTH_OK);
    assert_int_equal(probe.boundary, run);
    assert_int_equal(probe.reason, HEARTH_REASON_CHEAPER);
    assert_int_equal(probe.tokens_by_tier[HEARTH_TIER_RAM], run);
    assert_int_equal(restore(&kit, tokens, TOKENS), run);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(kit_peek(&kit, tokens, TOKENS).boundary, 0);
    kit_close(&kit);
    tier_kept_close(&remote);
}

/* Memory is too small for all of it; only the slowest level has the rest. */
static void test_what_memory_evicts_comes_back(void **state)
{
    enum { CONVERSATIONS = 6, COUNT = 192 }; /* whole runs: tails are few */
    struct tier_kept remote;
    struct kit kit;
    int32_t tokens[CONVERSATIONS][COUNT];

    (void)state;
    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM_SMALL, NULL, &remote.tier);
    for (uint32_t i = 0; i < CONVERSATIONS; i++) {
        kit_tokens(tokens[i], COUNT, i + 1);
        kit_store(&kit, tokens[i], COUNT, NULL);
        mover_drain(kit.cache, WAIT_MS); /* what is not there yet cannot leave memory */
    }
    for (uint32_t i = 0; i < CONVERSATIONS; i++)
        assert_int_equal(restore(&kit, tokens[i], COUNT), COUNT - 1);
    assert_true(kit_stats(&kit).demotions > 0 && read_of(&kit, HEARTH_TIER_REMOTE) > 0);
    assert_int_equal(kit_stats(&kit).evictions, 0);
    kit_close(&kit);
    tier_kept_close(&remote);
}

/* Damaged, evicted by the tier itself, failing: the next level has it, and no plan is shortened. */
static void test_a_level_that_fails_leaves_it_to_the_next(void **state)
{
    struct tier_kept ssd, remote;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    tier_kept_open(&ssd, ROOM, 0);
    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM, &ssd.tier, &remote.tier);
    store(&kit, tokens, TOKENS);

    tier_kept_damage(&ssd);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(kit_stats(&kit).verify_failures, OBJECTS);
    assert_int_equal(tiers_of_all(&kit), TIER_BIT(HEARTH_TIER_RAM) | SSD | REMOTE); /* anew */

    tier_kept_evict(&ssd, 0, TOKENS);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(tier_kept_objects(&ssd), OBJECTS);

    fault_arm(tier_fault_of(ssd.fault, TIER_FAULT_GET_FAIL), 1, true);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(kit_stats(&kit).tier_errors, OBJECTS);
    assert_int_equal(tiers_of_all(&kit), TIER_BIT(HEARTH_TIER_RAM) | SSD | REMOTE);

    /* And when none is left, the reason is that of the last. */
    tier_kept_damage(&remote);
    clear(&kit, HEARTH_TIER_SSD);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), 0);
    assert_int_equal(kit_stats(&kit).objects, OBJECTS - 1); /* the first was asked for */
    assert_int_equal(kit_stats(&kit).miss_by_reason[HEARTH_REASON_UNVERIFIED], 1);
    kit_close(&kit);
    tier_kept_close(&ssd);
    tier_kept_close(&remote);
}

/* An object that two tiers kept is one object; parents may be in one and children in the other. */
static void test_restart_with_two_tiers(void **state)
{
    const char *path = ssd_kit_new_path();
    struct tier_kept remote;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM, open_ssd(path), &remote.tier);
    store(&kit, tokens, TOKENS);
    kit_close(&kit);

    boot(&kit, RAM, open_ssd(path), &remote.tier);
    assert_int_equal(kit_stats(&kit).objects, OBJECTS);
    assert_int_equal(tiers_of_all(&kit), SSD | REMOTE);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    kit_close(&kit);

    boot(&kit, RAM, NULL, &remote.tier);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    kit_close(&kit);
    tier_kept_close(&remote);
}

static void test_restart_with_a_path_in_two_tiers(void **state)
{
    struct tier_kept ssd, remote;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    tier_kept_open(&ssd, ROOM, 0);
    tier_kept_open(&remote, ROOM, 0);
    boot(&kit, RAM, &ssd.tier, &remote.tier);
    store(&kit, tokens, TOKENS);
    kit_close(&kit);
    tier_kept_evict(&ssd, 64, TOKENS);
    tier_kept_evict(&remote, 0, 64);
    boot(&kit, RAM, &ssd.tier, &remote.tier);
    assert_int_equal(kit_stats(&kit).objects, OBJECTS);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(tiers_of_all(&kit), TIER_BIT(HEARTH_TIER_RAM) | SSD | REMOTE);
    kit_close(&kit);

    /* Of other bytes than the tree has: it cannot be the same object, and leaves the tier. */
    tier_kept_close(&ssd);
    tier_kept_open(&ssd, ROOM, 0);
    boot(&kit, RAM, &ssd.tier, NULL);
    kit.row_bytes = 2048;
    store(&kit, tokens, TOKENS);
    kit_close(&kit);
    boot(&kit, RAM, &ssd.tier, &remote.tier);
    kit.row_bytes = 2048;
    assert_int_equal(tier_kept_objects(&remote), 0);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    kit_close(&kit);
    tier_kept_close(&ssd);
    tier_kept_close(&remote);
}

static struct hearth_verified verify(const struct kit *kit, enum hearth_tier tier)
{
    struct hearth_verify_options options = {.struct_size = sizeof(options), .tier = tier};
    struct hearth_verified result;

    assert_int_equal(hearth_verify(kit->cache, &options, &result), HEARTH_OK);
    mover_drain(kit->cache, WAIT_MS);
    kit_check(kit);
    return result;
}

static void test_damage_is_found_at_each_level(void **state)
{
    struct tier_kept remote;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM, open_ssd(ssd_kit_new_path()), &remote.tier);
    store(&kit, tokens, TOKENS);
    assert_int_equal(verify(&kit, HEARTH_TIER_REMOTE).damaged, 0);
    tier_kept_damage(&remote);
    struct hearth_verified found = verify(&kit, HEARTH_TIER_REMOTE);
    assert_true(found.damaged == OBJECTS && found.dropped == OBJECTS);
    assert_int_equal(tier_kept_objects(&remote), OBJECTS); /* memory had them */
    assert_int_equal(verify(&kit, HEARTH_TIER_REMOTE).damaged, 0);

    clear(&kit, HEARTH_TIER_RAM);
    tier_kept_damage(&remote);
    assert_int_equal(verify(&kit, HEARTH_TIER_REMOTE).damaged, OBJECTS);
    assert_int_equal(tiers_of_all(&kit), SSD); /* which has them still */
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_REMOTE).errors, 2 * OBJECTS);

    clear(&kit, HEARTH_TIER_SSD);
    clear(&kit, HEARTH_TIER_RAM);
    tier_kept_damage(&remote);
    assert_int_equal(verify(&kit, HEARTH_TIER_REMOTE).dropped, OBJECTS);
    assert_int_equal(kit_stats(&kit).objects, 0);
    kit_close(&kit);
    tier_kept_close(&remote);
}

static void test_clearing_and_numbers_of_each_level(void **state)
{
    struct tier_kept remote;
    struct hearth_verified none;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    boot(&kit, RAM, NULL, NULL);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_REMOTE).state, HEARTH_STATE_OFF);
    assert_int_equal(hearth_verify(kit.cache,
                                   &(struct hearth_verify_options){
                                       .struct_size = sizeof(struct hearth_verify_options),
                                       .tier = HEARTH_TIER_REMOTE},
                                   &none),
                     HEARTH_ERROR_INVALID);
    kit_close(&kit);

    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM, open_ssd(ssd_kit_new_path()), &remote.tier);
    store(&kit, tokens, TOKENS);
    struct hearth_tier_stats tier = tier_of(&kit, HEARTH_TIER_REMOTE);
    assert_true(tier.state == HEARTH_STATE_OK && tier.cap == ROOM && tier.used > 0);
    assert_true(tier.objects == OBJECTS && tier.stores == OBJECTS && tier.hits == 0);
    assert_int_equal(tier.written_bytes, TOKENS * kit.row_bytes);
    assert_int_equal(kit_stats(&kit).bytes_by_tier[HEARTH_TIER_REMOTE], TOKENS * kit.row_bytes);

    assert_int_equal(clear(&kit, HEARTH_TIER_REMOTE), TOKENS * kit.row_bytes);
    assert_int_equal(tier_kept_objects(&remote), 0);
    assert_int_equal(tiers_of_all(&kit), TIER_BIT(HEARTH_TIER_RAM) | SSD);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_SSD).hits, 1);
    assert_int_equal(tier_of(&kit, HEARTH_TIER_REMOTE).objects, OBJECTS); /* offered again */
    hearth_reset_stats(kit.cache);
    tier = tier_of(&kit, HEARTH_TIER_REMOTE);
    assert_true(tier.objects == OBJECTS && tier.stores == 0 && tier.written_bytes == 0);
    clear(&kit, HEARTH_TIER_COUNT);
    assert_int_equal(tier_kept_objects(&remote), 0);
    kit_close(&kit);
    tier_kept_close(&remote);
}

/* What one tier declines is none of the other's business, and waits for that tier alone. */
static void test_declined_writes_are_per_tier(void **state)
{
    struct tier_kept ssd, remote;
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    tier_kept_open(&ssd, ROOM, 0);
    tier_kept_open(&remote, ROOM, 0);
    boot(&kit, RAM, &ssd.tier, &remote.tier);
    fault_arm(tier_fault_of(remote.fault, TIER_FAULT_PUT_REFUSE), 1, true);
    kit_tokens(tokens, TOKENS, 1);
    kit_store(&kit, tokens, TOKENS, NULL);
    assert_true(ssd.tier.ops->flush(&ssd.tier, WAIT_MS * NS_PER_MS));
    assert_int_equal(tier_kept_objects(&ssd), OBJECTS);
    assert_int_equal(tier_kept_objects(&remote), 0);
    assert_int_equal(kit.cache->tiers[HEARTH_TIER_REMOTE].declined.count, OBJECTS);
    assert_int_equal(kit.cache->tiers[HEARTH_TIER_SSD].declined.count, 0);
    fault_arm(tier_fault_of(remote.fault, TIER_FAULT_PUT_REFUSE), 0, false);
    mover_drain(kit.cache, WAIT_MS);
    assert_int_equal(tier_kept_objects(&remote), OBJECTS);

    /* Out of memory before the tier takes it: there is nothing to write any more. */
    clear(&kit, HEARTH_TIER_REMOTE);
    fault_arm(tier_fault_of(remote.fault, TIER_FAULT_PUT_REFUSE), 1, true);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(restore(&kit, tokens, TOKENS), TOKENS - 1);
    assert_int_equal(kit.cache->tiers[HEARTH_TIER_REMOTE].declined.count, OBJECTS);
    clear(&kit, HEARTH_TIER_RAM);
    assert_int_equal(kit.cache->tiers[HEARTH_TIER_REMOTE].declined.count, 0);
    fault_arm(tier_fault_of(remote.fault, TIER_FAULT_PUT_REFUSE), 0, false);
    mover_drain(kit.cache, WAIT_MS);
    assert_int_equal(tier_kept_objects(&remote), 0);
    kit_close(&kit);
    tier_kept_close(&ssd);
    tier_kept_close(&remote);
}

/* A drop that goes on until its tier is closed, or for a while. */
static struct {
    struct lock lock;
    struct cond changed;
    bool armed, dropping, closed, closed_while_dropping;
    struct tier_ops ops;
    const struct tier_ops *before;
} slow_drop;

static void drop_slowly(struct tier *tier, const struct hash256 *key)
{
    uint64_t until_ns = clock_deadline_ns(clock_real(), 200 * NS_PER_MS);
    bool in_time = true;

    lock_enter(&slow_drop.lock);
    slow_drop.dropping = slow_drop.armed;
    cond_broadcast(&slow_drop.changed);
    while (slow_drop.dropping && !slow_drop.closed && in_time)
        in_time = cond_wait_until(&slow_drop.changed, &slow_drop.lock, until_ns);
    slow_drop.dropping = false;
    slow_drop.armed = false;
    lock_leave(&slow_drop.lock);
    slow_drop.before->drop(tier, key);
}

static void close_watchfully(struct tier *tier)
{
    lock_enter(&slow_drop.lock);
    slow_drop.closed = true;
    slow_drop.closed_while_dropping = slow_drop.dropping;
    cond_broadcast(&slow_drop.changed);
    lock_leave(&slow_drop.lock);
    slow_drop.before->close(tier);
}

/* A callback of one tier makes room, and drops an object from the other, which must not be closed
 * meanwhile: hearth_close waits for calls under way. */
static void test_no_tier_is_closed_while_it_is_called(void **state)
{
    struct tier_kept ssd, remote;
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    tier_kept_open(&ssd, ROOM, 0);
    tier_kept_open(&remote, ROOM, 0);
    lock_init(&slow_drop.lock, "slow drop", LOCK_RANK_TEST_HIGH);
    cond_init(&slow_drop.changed);
    slow_drop.before = ssd.tier.ops;
    slow_drop.ops = *ssd.tier.ops;
    slow_drop.ops.drop = drop_slowly;
    slow_drop.ops.close = close_watchfully;
    ssd.tier.ops = &slow_drop.ops;
    boot(&kit, RAM, &ssd.tier, &remote.tier);
    tier_fault_hold(remote.fault, true); /* the object is leased as long as it is written */
    kit_tokens(tokens, 64, 1);
    assert_int_equal(kit_store(&kit, tokens, 64, NULL), 1);
    assert_true(ssd.tier.ops->flush(&ssd.tier, WAIT_MS * NS_PER_MS));
    hearth_set_ram_bytes(kit.cache, 2); /* it will have to leave everything */
    slow_drop.armed = true;
    tier_fault_hold(remote.fault, false);
    lock_enter(&slow_drop.lock);
    while (!slow_drop.dropping)
        cond_wait(&slow_drop.changed, &slow_drop.lock);
    lock_leave(&slow_drop.lock);
    kit_close(&kit);
    assert_true(slow_drop.closed && !slow_drop.closed_while_dropping);
    assert_int_equal(tier_kept_objects(&ssd), 0);
    tier_kept_close(&ssd);
    tier_kept_close(&remote);
    cond_fini(&slow_drop.changed);
    lock_fini(&slow_drop.lock);
}

static void put_guess(const struct kit *kit, const int32_t *tokens, uint32_t at, bool last)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .prompt = TOKENS};
    struct hearth_store *store;

    hints.fork = at;
    hints.fork_last = last;
    assert_int_equal(hearth_store_open(kit->space, tokens, at, &hints, &store), HEARTH_OK);
    assert_true(hearth_store_wants_snapshot(store, at));
    assert_int_equal(kit_put(kit, store, HEARTH_OBJECT_SNAPSHOT, 0, at, tokens), HEARTH_OK);
    hearth_store_close(&store);
}

static bool and_tiers_of_snapshots(const struct hearth_held *held, void *arg)
{
    if (held->kind == HEARTH_OBJECT_SNAPSHOT)
        ((uint32_t *)arg)[held->end > TOKENS / 2] = held->tiers;
    return true;
}

/* Where prompts may diverge, although none did: only the last place is worth a write. */
static void test_of_guesses_slower_tiers_get_the_last(void **state)
{
    struct tier_kept remote;
    struct kit kit;
    int32_t tokens[TOKENS];
    uint32_t tiers[2] = {0};
    struct hearth_model model = kit_model(HEARTH_KIND_RECURRENT);

    (void)state;
    tier_kept_open(&remote, ROOM, DELAY_NS);
    boot(&kit, RAM, NULL, &remote.tier);
    hearth_space_close(&kit.space);
    assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &kit.space), HEARTH_OK);
    kit_tokens(tokens, TOKENS, 1);
    put_guess(&kit, tokens, TOKENS / 4, false);
    put_guess(&kit, tokens, TOKENS - 20, true);
    mover_drain(kit.cache, WAIT_MS);
    (void)hearth_each(kit.cache, NULL, 0, and_tiers_of_snapshots, tiers);
    assert_int_equal(tiers[0] & REMOTE, 0);
    assert_int_equal(tiers[1] & REMOTE, REMOTE);
    kit_close(&kit);
}

/* ---- limits ---- */

struct limited {
    enum hearth_object_kind kind;
    uint64_t bytes;
};

/* Tails and snapshots in memory. */
static bool add_limited(const struct hearth_held *held, void *arg)
{
    struct limited *limited = arg;
    bool part = held->kind == limited->kind &&
                (held->kind == HEARTH_OBJECT_SNAPSHOT || held->end % KIT_BLOCK != 0);

    if (part && held->tiers & TIER_BIT(HEARTH_TIER_RAM))
        limited->bytes += ledger_charge(held->bytes);
    return true;
}

/* The limits hold for what comes back from a disk, too: after a restart nothing is stored, because
 * every prompt is a hit. */
static void test_i40_limits_hold_after_a_restart(void **state)
{
    enum { PROMPTS = 20, COUNT = 2 * KIT_BLOCK - 1, LIMIT = 4 * PAGES_PAGE_BYTES };
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT};
    int32_t tokens[COUNT];

    (void)state;
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        const char *path = ssd_kit_new_path();
        struct hearth_options options = kit_options(RAM);
        struct hearth_model model = kit_model(kinds[k]);
        struct limited limited = {.kind = k == 0 ? HEARTH_OBJECT_ROWS : HEARTH_OBJECT_SNAPSHOT};
        options.tail_bytes = options.snapshot_bytes = LIMIT;
        for (int restarted = 0; restarted < 2; restarted++) {
            struct kit kit = {.tag = 1, .row_bytes = 1024, .snapshot_bytes = 512};
            assert_int_equal(hearth_open(&kit.cache, &options, NULL), HEARTH_OK);
            cache_attach_tier(kit.cache, HEARTH_TIER_SSD, open_ssd(path), 1e9);
            assert_int_equal(hearth_space_open(kit.cache, &model, "", 0, &kit.space), HEARTH_OK);
            for (uint32_t i = 0; i < PROMPTS; i++) {
                kit_tokens(tokens, COUNT, 1 + i);
                if (restarted)
                    assert_true(restore(&kit, tokens, COUNT) > 0);
                else
                    store_seed(&kit, tokens, COUNT);
            }
            limited.bytes = 0;
            hearth_each(kit.cache, NULL, 0, add_limited, &limited);
            assert_true(limited.bytes > 0 && limited.bytes <= LIMIT);
            kit_check(&kit);
            kit_close(&kit);
        }
    }
}

TEST_SUITE(TEST(test_i40_limits_hold_after_a_restart),
           TEST(test_of_guesses_slower_tiers_get_the_last),
           TEST(test_each_level_stores_and_restores), TEST(test_a_slow_level_leaves_the_rest),
           TEST(test_what_memory_evicts_comes_back),
           TEST(test_a_level_that_fails_leaves_it_to_the_next), TEST(test_restart_with_two_tiers),
           TEST(test_restart_with_a_path_in_two_tiers), TEST(test_damage_is_found_at_each_level),
           TEST(test_clearing_and_numbers_of_each_level), TEST(test_declined_writes_are_per_tier),
           TEST(test_no_tier_is_closed_while_it_is_called))
