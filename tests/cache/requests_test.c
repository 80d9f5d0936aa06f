/* Concurrent and consecutive requests: what they share, which events they cause, and how a
 * slower tier affects them. */
#include <hearth/hearth.h>

#include "base/clock.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"
#include "support/tier_fault.h"
#include "support/tier_ram.h"

enum { RAM = 4 << 20, SLOW = 32 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* Prompts of another kind that happen to have the same tokens get another identity when the
 * caller says so. */
static void test_i7_an_identity_of_its_own_shares_nothing(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit chat;
    int32_t tokens[100];

    (void)state;
    kit_open(&chat, RAM, FULL);
    struct kit plain = kit_space(&chat, &model, "text", 0);
    kit_tokens(tokens, 100, 1);
    kit_store(&chat, tokens, 100, NULL);
    assert_int_equal(kit_restore(&plain, tokens, 100, NULL), 0);
    kit_store(&plain, tokens, 100, NULL);
    assert_int_equal(kit_restore(&plain, tokens, 100, NULL), 99);
    hearth_clear(chat.cache, plain.space, HEARTH_TIER_COUNT);
    assert_int_equal(kit_restore(&chat, tokens, 100, NULL), 99);
    hearth_space_close(&plain.space);
    kit_close(&chat);
}

/* Two requests are active at once, from lookup to the last commit; both are found again, as they
 * were and longer. */
static void test_i9_two_active_requests_are_both_found_again(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT};

    (void)state;
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        struct hearth_store *stores[2];
        struct hearth_plan *plans[2];
        struct kit kit;
        int32_t tokens[2][150];
        uint32_t begin, end;
        kit_open(&kit, RAM, kinds[k]);
        for (uint32_t i = 0; i < 2; i++) {
            kit_tokens(tokens[i], 150, 1 + i);
            kit_tokens(tokens[i], 40, 7); /* the system prompt is the same */
            hearth_lookup(kit.space, tokens[i], 120, NULL, &plans[i]);
            hearth_store_open(kit.space, tokens[i], 119, NULL, &stores[i]);
        }
        for (uint32_t i = 0; hearth_store_next(stores[i % 2], &begin, &end) ||
                             hearth_store_next(stores[++i % 2], &begin, &end);
             i++)
            (void)kit_put(&kit, stores[i % 2], HEARTH_OBJECT_ROWS, begin, end, tokens[i % 2]);
        for (uint32_t i = 0; i < 2; i++) {
            if (hearth_store_wants_snapshot(stores[i], 119))
                kit_put(&kit, stores[i], HEARTH_OBJECT_SNAPSHOT, 0, 119, tokens[i]);
            hearth_store_close(&stores[i]);
            hearth_plan_release(&plans[i]);
        }
        for (int round = 0; round < 2; round++)
            for (uint32_t i = 0; i < 2; i++) {
                assert_int_equal(kit_restore(&kit, tokens[i], 120, NULL), 119);
                assert_int_equal(kit_restore(&kit, tokens[i], 150, NULL), 119);
            }
        kit_check(&kit);
        kit_close(&kit);
    }
}

static struct hearth_event last_event(const struct kit *kit, enum hearth_event_kind kind)
{
    struct hearth_event event, found = {0};

    for (uint64_t after = 0; hearth_events_read(kit->cache, after, &event, 1) == 1;
         after = event.number)
        if (event.kind == kind)
            found = event;
    return found;
}

/* Each event has the time of its own work: the lookup; lookup and import together; the export.
 * Computing is in none of them. */
static void test_i26_times_are_told_apart(void **state)
{
    struct clock *clock = clock_create_fake(NS_PER_S, NS_PER_S);
    struct hearth_plan *plan;
    struct hearth_store *store;
    struct kit kit;
    int32_t tokens[32];
    void *memory;

    (void)state;
    kit_open(&kit, RAM, FULL);
    struct clock *real = kit.cache->clock;
    kit.cache->clock = clock;
    kit_tokens(tokens, 32, 1);
    kit_store(&kit, tokens, 16, NULL);
    hearth_lookup(kit.space, tokens, 32, NULL, &plan);
    clock_fake_advance(clock, 5 * NS_PER_MS); /* fetching and importing */
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    clock_fake_advance(clock, 900 * NS_PER_MS); /* prefill */
    hearth_store_open(kit.space, tokens, 32, NULL, &store);
    clock_fake_advance(clock, 70 * NS_PER_MS); /* waiting for the engine */
    assert_int_equal(hearth_store_reserve(store, HEARTH_OBJECT_ROWS, 16, 32, 16 * 64, &memory),
                     HEARTH_OK);
    clock_fake_advance(clock, 3 * NS_PER_MS); /* exporting */
    kit_fill(&kit, HEARTH_OBJECT_ROWS, 16, 32, tokens, memory);
    assert_int_equal(hearth_store_commit(store, 16 * 64, NULL, 0), HEARTH_OK);
    clock_fake_advance(clock, 400 * NS_PER_MS); /* decode */
    hearth_store_close(&store);
    assert_int_equal(last_event(&kit, HEARTH_EVENT_LOOKUP).us, 0);
    assert_int_equal(last_event(&kit, HEARTH_EVENT_HIT).us, 5000);
    assert_int_equal(last_event(&kit, HEARTH_EVENT_WRITE).us, 3000);
    kit.cache->clock = real;
    kit_close(&kit);
    clock_destroy_fake(&clock);
}

/* ---- a slower tier ---- */

static struct tier *attach(struct kit *kit, size_t queue)
{
    struct tier *inner = tier_ram_open(&(struct tier_ram_options){.bytes_max = SLOW});
    struct tier *tier =
        tier_fault_open(&(struct tier_fault_options){.inner = inner, .queue_max = queue});

    kit_open(kit, RAM, HYBRID);
    cache_attach_tier(kit->cache, HEARTH_TIER_SSD, tier, 1e9);
    return tier;
}

static uint64_t objects_in(struct tier *tier)
{
    struct tier_stats stats;

    tier->ops->stats(tier, &stats);
    return stats.objects;
}

/* A disk that does not answer: clearing, looking up and storing go on, and waiting for it ends.
 * Each of these would hang here. */
static void test_i56_nothing_waits_for_a_tier_without_end(void **state)
{
    struct kit kit;
    struct tier *tier = attach(&kit, 0);
    int32_t tokens[100];

    (void)state;
    kit_tokens(tokens, 100, 1);
    tier_fault_hold(tier, true);
    kit_store(&kit, tokens, 100, NULL);
    assert_true(tier_fault_waiting(tier) > 0);
    mover_drain(kit.cache, 20);
    assert_true(tier_fault_waiting(tier) > 0);
    assert_true(hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT) > 0);
    assert_int_equal(kit_peek(&kit, tokens, 100).matched, 0);
    kit_store(&kit, tokens, 100, NULL);
    kit_snapshot(&kit, tokens, 100, 99);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99);
    tier_fault_hold(tier, false);
    kit_check(&kit);
    kit_close(&kit);
}

/* The count of running writes returns to zero, however a write ends: stored, declined, failed,
 * cleared before or after it began. */
static void test_i57_what_is_on_its_way_is_counted_exactly(void **state)
{
    static const enum tier_fault_kind faults[] = {TIER_FAULT_PUT_REFUSE, TIER_FAULT_PUT_FAIL,
                                                  TIER_FAULT_PUT_LOSE, TIER_FAULT_PUT_CORRUPT};

    (void)state;
    for (size_t i = 0; i < 4 * (COUNT_OF(faults) + 1); i++) {
        struct kit kit;
        struct tier *tier = attach(&kit, i % 2 ? 2 : 0);
        int32_t tokens[100];
        kit_tokens(tokens, 100, 1);
        if (i / 4 < COUNT_OF(faults))
            fault_arm(tier_fault_of(tier, faults[i / 4]), 2, i % 4 > 1);
        tier_fault_hold(tier, true);
        kit_store(&kit, tokens, 20, NULL);
        kit_store(&kit, tokens, 100, NULL); /* displaces the tail while it is being written */
        kit_snapshot(&kit, tokens, 100, 99);
        if (i % 3 == 0)
            hearth_clear(kit.cache, NULL, i % 4 == 0 ? HEARTH_TIER_SSD : HEARTH_TIER_COUNT);
        assert_int_equal(kit.cache->operations, tier_fault_waiting(tier));
        tier_fault_hold(tier, false);
        assert_int_equal(kit.cache->operations, 0);
        hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
        kit_check(&kit);
        kit_close(&kit);
    }
}

/* A clear discards stored objects and running writes, but nothing that is stored later under the
 * same tokens. */
static void test_i58_after_a_clear_the_same_is_stored_again(void **state)
{
    (void)state;
    for (int pending = 0; pending < 2; pending++) {
        struct kit kit;
        struct tier *tier = attach(&kit, 0);
        int32_t tokens[64];
        kit_tokens(tokens, 64, 1);
        if (pending) {
            tier_fault_hold(tier, true);
            kit_store(&kit, tokens, 64, NULL);
        }
        hearth_clear(kit.cache, NULL, HEARTH_TIER_SSD);
        hearth_clear(kit.cache, NULL, HEARTH_TIER_COUNT);
        tier_fault_hold(tier, false);
        assert_int_equal(objects_in(tier), 0);
        kit_store(&kit, tokens, 64, NULL);
        kit_snapshot(&kit, tokens, 64, 63);
        assert_int_equal(objects_in(tier), 2);
        hearth_clear(kit.cache, NULL, HEARTH_TIER_RAM);
        assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 63);
        kit_close(&kit);
    }
}

TEST_SUITE(TEST(test_i7_an_identity_of_its_own_shares_nothing),
           TEST(test_i9_two_active_requests_are_both_found_again),
           TEST(test_i26_times_are_told_apart), TEST(test_i56_nothing_waits_for_a_tier_without_end),
           TEST(test_i57_what_is_on_its_way_is_counted_exactly),
           TEST(test_i58_after_a_clear_the_same_is_stored_again))
