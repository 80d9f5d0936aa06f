/* Plans: how far, from which objects, and why not further. */
#include <hearth/hearth.h>

#include <string.h>

#include "base/mem.h"
#include "cache/cache.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

static void test_i2_i12_exact_repeat_leaves_one_token(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 100, 1);
    assert_int_equal(kit_restore(&kit, tokens, 100, &info), 0);
    assert_int_equal(info.reason, HEARTH_REASON_COLD);
    assert_int_equal(info.match, HEARTH_MATCH_NONE);
    assert_int_equal(kit_store(&kit, tokens, 100, NULL), 3); /* 64, 32, and the tail of 4 */
    kit_check(&kit);
    assert_int_equal(kit_restore(&kit, tokens, 100, &info), 99);
    assert_int_equal(info.reason, HEARTH_REASON_NONE);
    assert_int_equal(info.match, HEARTH_MATCH_EXACT);
    assert_int_equal(info.first_difference, 100);
    assert_int_equal(info.matched, 100);
    assert_int_equal(info.objects_count, 3);
    assert_int_equal(kit_store(&kit, tokens, 100, NULL), 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_kinds_of_match_and_reasons(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    int32_t a[100], b[100], c[200];

    (void)state;
    kit_open_holding(&kit, FULL, a, 100);

    info = kit_peek(&kit, a, 50); /* the cached prompt is longer */
    assert_int_equal(info.boundary, 49);
    assert_int_equal(info.match, HEARTH_MATCH_SUPERSEQUENCE);
    assert_int_equal(info.reason, HEARTH_REASON_NONE);
    assert_int_equal(info.first_difference, 50);

    kit_tokens(b, 100, 2);
    kit_tokens(b, 41, 1); /* goes another way in the middle of a block */
    info = kit_peek(&kit, b, 100);
    assert_int_equal(info.boundary, 41);
    assert_int_equal(info.match, HEARTH_MATCH_LCP);
    assert_int_equal(info.reason, HEARTH_REASON_DIVERGED);
    assert_int_equal(info.first_difference, 41);
    assert_int_equal(info.objects_count, 1);

    kit_tokens(c, 200, 1); /* goes on where the held one ends */
    info = kit_peek(&kit, c, 200);
    assert_int_equal(info.boundary, 100);
    assert_int_equal(info.match, HEARTH_MATCH_PREFIX);
    assert_int_equal(info.reason, HEARTH_REASON_SHORT);
    assert_int_equal(info.first_difference, 100);

    kit_tokens(b, 100, 3);
    info = kit_peek(&kit, b, 100);
    assert_int_equal(info.boundary, 0);
    assert_int_equal(info.reason, HEARTH_REASON_DIVERGED);
    assert_int_equal(info.first_difference, 0);
    info = kit_peek(&kit, a, 1); /* nothing can be reused of one token */
    assert_int_equal(info.boundary, 0);
    assert_int_equal(info.reason, HEARTH_REASON_NONE);
    kit_close(&kit);
}

static void test_i92_i3_branches_keep_each_other(void **state)
{
    struct kit kit;
    int32_t a[120], b[120];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(a, 120, 1);
    kit_tokens(b, 120, 2);
    kit_tokens(b, 70, 1);
    kit_store(&kit, a, 120, NULL);
    assert_int_equal(kit_restore(&kit, b, 120, NULL), 70);
    kit_store(&kit, b, 120, NULL);
    assert_int_equal(kit_restore(&kit, a, 120, NULL), 119);
    assert_int_equal(kit_restore(&kit, b, 120, NULL), 119);
    assert_int_equal(kit_restore(&kit, a, 120, NULL), 119);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i4_i15_hybrids_resume_at_snapshots_only(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    int32_t tokens[100], other[100];

    (void)state;
    kit_open_holding(&kit, HYBRID, tokens, 100);
    info = kit_peek(&kit, tokens, 100); /* rows alone are nothing */
    assert_int_equal(info.boundary, 0);
    assert_int_equal(info.reason, HEARTH_REASON_NO_SNAPSHOT);
    assert_int_equal(info.junction, 99);
    assert_int_equal(kit_snapshot(&kit, tokens, 100, 40), HEARTH_OK);
    assert_int_equal(kit_snapshot(&kit, tokens, 100, 99), HEARTH_OK);
    assert_int_equal(kit_snapshot(&kit, tokens, 100, 100), HEARTH_OK);
    assert_int_equal(kit_snapshot(&kit, tokens, 100, 100), HEARTH_ERROR_EXISTS);
    kit_check(&kit);
    assert_int_equal(kit_restore(&kit, tokens, 100, &info), 99);
    assert_int_equal(info.reason, HEARTH_REASON_NONE);
    assert_int_equal(info.junction, 0);
    kit_tokens(other, 100, 2);
    kit_tokens(other, 90, 1);
    assert_int_equal(kit_restore(&kit, other, 100, &info), 40);
    assert_int_equal(info.match, HEARTH_MATCH_PREFIX);
    assert_int_equal(info.reason, HEARTH_REASON_NO_SNAPSHOT);
    assert_int_equal(info.junction, 90);
    assert_int_equal(info.first_difference, 90);
    assert_int_equal(info.matched, 90);
    kit_close(&kit);
}

static void test_a_model_without_rows(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, HEARTH_KIND_RECURRENT);
    kit_tokens(tokens, 100, 1);
    assert_int_equal(kit_store(&kit, tokens, 100, NULL), 0);
    assert_int_equal(kit_snapshot(&kit, tokens, 100, 37), HEARTH_OK);
    assert_int_equal(kit_snapshot(&kit, tokens, 100, 99), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 100, &info), 99);
    assert_int_equal(info.objects_count, 1);
    assert_int_equal(kit_restore(&kit, tokens, 99, NULL), 37);
    assert_int_equal(kit_restore(&kit, tokens, 37, NULL), 0);
    assert_int_equal(kit_stats(&kit).tokens_reused, 99 + 37);
    assert_int_equal(kit_stats(&kit).tokens_reused_by_tier[HEARTH_TIER_RAM], 99 + 37);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_sliding_windows_by_snapshot(void **state)
{
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, HEARTH_KIND_FULL | HEARTH_KIND_SLIDING);
    kit_tokens(tokens, 100, 1);
    kit_store(&kit, tokens, 100, NULL);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 0);
    kit_snapshot(&kit, tokens, 100, 64);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 64);
    kit_close(&kit);
}

static void test_i16_captured_windows_must_be_whole(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HEARTH_KIND_FULL | HEARTH_KIND_SLIDING);
    struct kit kit;
    struct hearth_store *store;
    struct hearth_plan_info info;
    int32_t tokens[100];

    (void)state;
    model.captures_sliding = true; /* a window of 24 */
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, 100, 1);
    hearth_store_open(kit.space, tokens, 100, NULL, &store);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 0, 64, tokens), HEARTH_OK);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 64, 96, tokens), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 100, &info), 0);
    assert_int_equal(info.reason, HEARTH_REASON_NO_SNAPSHOT);
    /* A window in the middle: [16, 48) is enough for 48, and for 40, not for 39. */
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SLIDING, 16, 48, tokens), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 100, &info), 48);
    assert_int_equal(info.objects_count, 2);
    assert_int_equal(kit_restore(&kit, tokens, 41, NULL), 40);
    assert_int_equal(kit_restore(&kit, tokens, 40, NULL), 0);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SLIDING, 64, 96, tokens), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 96);
    assert_int_equal(kit_restore(&kit, tokens, 85, NULL), 48); /* its window begins in [48, 64) */
    hearth_store_close(&store);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i18_captured_windows_and_recurrent_state_together(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HYBRID | HEARTH_KIND_SLIDING);
    struct kit kit;
    struct hearth_store *store;
    int32_t tokens[64];

    (void)state;
    model.captures_sliding = true;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, 64, 1);
    hearth_store_open(kit.space, tokens, 64, NULL, &store);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_ROWS, 0, 64, tokens), HEARTH_OK);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SNAPSHOT, 0, 30, tokens), HEARTH_OK);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SNAPSHOT, 0, 60, tokens), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 0); /* snapshots without windows */
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SLIDING, 0, 32, tokens), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 30);
    assert_int_equal(kit_put(&kit, store, HEARTH_OBJECT_SLIDING, 32, 64, tokens), HEARTH_OK);
    assert_int_equal(kit_restore(&kit, tokens, 64, NULL), 60);
    hearth_store_close(&store);
    kit_close(&kit);
}

static void test_peek_touches_and_counts_nothing(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    struct hearth_stats before = kit_stats(&kit);
    hearth_lookup(kit.space, tokens, 100, &kit_peeking, &plan);
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    struct hearth_stats after = kit_stats(&kit);
    assert_memory_equal(&before, &after, sizeof(before));
    kit_close(&kit);
}

static void test_cheaper_to_compute(void **state)
{
    struct kit kit;
    struct hearth_plan_info info;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    hearth_space_set_speed(kit.space, 1e9, 1); /* computing is instant, importing takes hours */
    info = kit_peek(&kit, tokens, 100);
    assert_int_equal(info.boundary, 0);
    assert_int_equal(info.reason, HEARTH_REASON_CHEAPER);
    assert_true(info.fetch_s > info.compute_s);
    hearth_space_set_speed(kit.space, 10, 1e9);
    assert_int_equal(kit_peek(&kit, tokens, 100).boundary, 99);
    kit_close(&kit);
}

static void test_i100_foreign_names_only_the_own_tenant(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    model.fingerprint[0] = 8;
    struct kit same = kit_space(&kit, &model, "", 0), other = kit_space(&kit, &model, "other", 0);
    assert_int_equal(kit_peek(&same, tokens, 100).reason, HEARTH_REASON_FOREIGN);
    assert_int_equal(kit_peek(&other, tokens, 100).reason, HEARTH_REASON_COLD);
    assert_int_equal(kit_restore(&same, tokens, 100, NULL), 0);
    assert_int_equal(kit_restore(&other, tokens, 100, NULL), 0);
    hearth_space_close(&same.space);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

static void test_invalid_arguments(void **state)
{
    struct kit kit;
    struct hearth_plan *plan;
    int32_t token = 1;

    (void)state;
    kit_open(&kit, RAM, FULL);
    assert_int_equal(hearth_lookup(kit.space, &token, 0, NULL, &plan), HEARTH_ERROR_INVALID);
    assert_null(plan);
    assert_int_equal(hearth_lookup(kit.space, &token, (size_t)1 << 40, NULL, &plan),
                     HEARTH_ERROR_INVALID);
    hearth_plan_release(&plan);
    kit_close(&kit);
}

static void test_i27_fault_loop_over_a_lookup(void **state)
{
    struct fault fault = {0};
    struct kit kit;
    int32_t tokens[2000];

    (void)state;
    /* more objects than a plan has room for at first */
    kit_open_holding(&kit, HYBRID, tokens, 2000);
    kit_snapshot(&kit, tokens, 2000, 1999);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        uint32_t boundary = kit_restore(&kit, tokens, 2000, NULL);
        assert_true(boundary == 1999 || (boundary == 0 && atomic_load(&fault.fired) > 0));
        kit_check(&kit);
    }
    mem_set_fault(NULL);
    assert_int_equal(kit_restore(&kit, tokens, 2000, NULL), 1999);
    kit_close(&kit);
}

/* ---- probing ---- */

/* As a peek says it, and the blocks beside; nothing of the cache has changed. */
static void expect_probe(const struct kit *kit, const int32_t *tokens, size_t count)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_block blocks[200];
    struct hearth_plan_info peek = kit_peek(kit, tokens, count);
    struct hearth_stats before = kit_stats(kit), after;
    uint32_t end = 0, by_tier = 0;

    assert_int_equal(hearth_probe(kit->space, tokens, count, &probe, blocks, COUNT_OF(blocks)),
                     HEARTH_OK);
    after = kit_stats(kit);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(probe.boundary, peek.boundary);
    assert_int_equal(probe.matched, peek.matched);
    assert_int_equal(probe.match, peek.match);
    assert_int_equal(probe.reason, peek.reason);
    assert_int_equal(probe.first_difference, peek.first_difference);
    for (size_t i = 0; i < probe.blocks_count; i++) {
        assert_int_equal(blocks[i].begin, end);
        assert_true(blocks[i].end > end);
        end = blocks[i].end;
    }
    assert_int_equal(end, probe.matched);
    for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
        by_tier += probe.tokens_by_tier[tier];
    assert_int_equal(by_tier, probe.boundary);
    kit_check(kit);
}

static void test_a_probe_says_what_a_lookup_would(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT,
                                     HEARTH_KIND_RECURRENT, HEARTH_KIND_FULL | HEARTH_KIND_SLIDING};
    uint64_t seed = test_seed();
    int32_t tokens[8][160];

    (void)state;
    for (int round = 0; round < 40; round++) {
        struct kit kit;
        kit_open(&kit, 256 << 10, kinds[round % COUNT_OF(kinds)]);
        for (uint32_t i = 0; i < 8; i++) {
            kit_tokens(tokens[i], 160, i + 1);
            if (i > 0)
                memcpy(tokens[i], tokens[test_random_below(&seed, i)],
                       test_random_below(&seed, 160) * sizeof(int32_t));
        }
        for (int step = 0; step < 60; step++) {
            const int32_t *prompt = tokens[test_random_below(&seed, 8)];
            uint32_t count = 1 + (uint32_t)test_random_below(&seed, 160);
            switch (test_random_below(&seed, 6)) {
            case 0:
                (void)kit_snapshot(&kit, prompt, count, count);
                break;
            case 1:
                hearth_space_set_speed(kit.space, (double)test_random_below(&seed, 3) * 1e6,
                                       (double)test_random_below(&seed, 2) * 1e6);
                break;
            default:
                kit_store(&kit, prompt, count, NULL);
            }
            expect_probe(&kit, tokens[test_random_below(&seed, 8)],
                         1 + (size_t)test_random_below(&seed, 160));
        }
        kit_close(&kit);
    }
}

static void test_a_probe_and_who_leaves_next(void **state)
{
    struct hearth_probe probe = {.struct_size = sizeof(probe)};
    struct hearth_block blocks[3];
    int32_t tokens[100];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    /* Room for three of seven blocks: the others are counted. */
    memset(blocks, 0xee, sizeof(blocks));
    assert_int_equal(hearth_probe(kit.space, tokens, 100, &probe, blocks, 2), HEARTH_OK);
    assert_int_equal(probe.blocks_count, 7);
    assert_int_equal(blocks[1].end, 32);
    assert_int_equal(blocks[1].tier, HEARTH_TIER_RAM);
    assert_int_equal(blocks[2].end, 0xeeeeeeee);
    assert_int_equal(probe.tokens_by_tier[HEARTH_TIER_RAM], 99);
    /* The order of use, and the order in the heap of those that are alike, stay as they are. */
    const struct object *object = LIST_ENTRY(list_first(&kit.space->all), struct object, held_link);
    uint64_t used_ns = object->used_ns, order = object->heap_order;
    uint32_t uses = object->uses;
    assert_int_equal(hearth_probe(kit.space, tokens, 100, &probe, NULL, 0), HEARTH_OK);
    assert_int_equal(object->used_ns, used_ns);
    assert_int_equal(object->heap_order, order);
    assert_int_equal(object->uses, uses);
    assert_int_equal(object->leases, 0);
    assert_int_equal(hearth_probe(kit.space, tokens, 0, &probe, NULL, 0), HEARTH_ERROR_INVALID);
    /* An older program's struct is filled as far as it goes. */
    probe = (struct hearth_probe){.struct_size = offsetof(struct hearth_probe, match),
                                  .match = HEARTH_MATCH_LCP};
    assert_int_equal(hearth_probe(kit.space, tokens + 50, 1, &probe, NULL, 0), HEARTH_OK);
    assert_int_equal(probe.match, HEARTH_MATCH_LCP);
    kit_close(&kit);
}

static uint32_t continues(const struct kit *kit, const int32_t *tokens, size_t count, int32_t *next,
                          size_t max)
{
    return (uint32_t)hearth_continuation(kit->space, tokens, count, next, max);
}

/* From every length, up to every length, across blocks and into the tail. */
static void test_a_continuation_follows_the_tree(void **state)
{
    int32_t tokens[101], next[101];
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    for (uint32_t count = 1; count <= 100; count++)
        for (uint32_t max = 0; max <= 101; max += 20) {
            uint32_t found = continues(&kit, tokens, count, next, max);
            assert_int_equal(found, MIN(100 - count, max));
            assert_memory_equal(next, tokens + count, found * sizeof(*next));
        }
    tokens[100] = tokens[99] + 1;
    assert_int_equal(continues(&kit, tokens, 101, next, 101), 0);
    assert_int_equal(continues(&kit, tokens, 0, next, 101), 0);
    tokens[50]++;
    assert_int_equal(continues(&kit, tokens, 60, next, 101), 0); /* not all of them are there */
    kit_close(&kit);
}

/* Where two sequences diverge, inside a block and at its end, the one used last is followed. */
static void test_a_continuation_takes_the_branch_used_last(void **state)
{
    int32_t tokens[100], other[100], next[100];
    struct kit kit;

    (void)state;
    for (uint32_t at = 32; at <= 40; at += 4) {
        kit_open_holding(&kit, FULL, tokens, 100);
        kit_tokens(other, 100, 2);
        memcpy(other, tokens, at * sizeof(*tokens));
        kit_store(&kit, other, 100, NULL);
        for (int round = 0; round < 4; round++) {
            const int32_t *last = round % 2 ? other : tokens;
            kit_restore(&kit, last, 100, NULL);
            assert_int_equal(continues(&kit, tokens, at, next, 100), 100 - at);
            assert_memory_equal(next, last + at, (100 - at) * sizeof(*next));
        }
        kit_close(&kit);
    }
}

/* Another tenant with the same prompt learns nothing of what was answered here (keeps I100). */
static void test_a_continuation_stays_in_its_space(void **state)
{
    int32_t tokens[100], next[100];
    struct hearth_model model = kit_model(FULL);
    struct kit kit;

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    struct kit other = kit_space(&kit, &model, "other", 0);
    assert_int_equal(continues(&other, tokens, 50, next, 100), 0);
    kit_store(&other, tokens, 50, NULL);
    assert_int_equal(continues(&other, tokens, 50, next, 100), 0);
    assert_int_equal(continues(&kit, tokens, 50, next, 100), 50);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_i2_i12_exact_repeat_leaves_one_token), TEST(test_kinds_of_match_and_reasons),
           TEST(test_i92_i3_branches_keep_each_other),
           TEST(test_i4_i15_hybrids_resume_at_snapshots_only), TEST(test_a_model_without_rows),
           TEST(test_sliding_windows_by_snapshot), TEST(test_i16_captured_windows_must_be_whole),
           TEST(test_i18_captured_windows_and_recurrent_state_together),
           TEST(test_peek_touches_and_counts_nothing), TEST(test_cheaper_to_compute),
           TEST(test_i100_foreign_names_only_the_own_tenant), TEST(test_invalid_arguments),
           TEST(test_i27_fault_loop_over_a_lookup), TEST(test_a_probe_says_what_a_lookup_would),
           TEST(test_a_probe_and_who_leaves_next), TEST(test_a_continuation_follows_the_tree),
           TEST(test_a_continuation_takes_the_branch_used_last),
           TEST(test_a_continuation_stays_in_its_space))
