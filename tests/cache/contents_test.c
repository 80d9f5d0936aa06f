/* Cached objects and events, through the public header alone. */
#include <hearth/hearth.h>

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/cache_kit.h"
#include "support/test.h"

enum { RAM = 4 << 20, SEEN_MAX = 512 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* ---- cached objects ---- */

struct seen {
    struct hearth_held held[SEEN_MAX];
    unsigned char keys[SEEN_MAX][2][HEARTH_KEY_BYTES], spaces[SEEN_MAX][HEARTH_KEY_BYTES];
    char tenants[SEEN_MAX][64];
    int32_t tokens[SEEN_MAX][100];
    size_t count, enough;
    struct kit *kit; /* to call the cache from within */
    int32_t *store;
};

static bool keep(const struct hearth_held *held, void *arg)
{
    struct seen *seen = arg;
    size_t i = seen->count++;

    assert_true(i < SEEN_MAX);
    seen->held[i] = *held;
    memcpy(seen->keys[i][0], held->key, HEARTH_KEY_BYTES);
    memcpy(seen->keys[i][1], held->parent, HEARTH_KEY_BYTES);
    memcpy(seen->spaces[i], held->space, HEARTH_KEY_BYTES);
    snprintf(seen->tenants[i], sizeof(seen->tenants[i]), "%s", held->tenant);
    if (held->tokens != NULL)
        memcpy(seen->tokens[i], held->tokens, held->tokens_count * sizeof(int32_t));
    if (seen->kit != NULL) { /* no lock is held: objects stored by the reader are not shown to it */
        seen->store[0]++;
        kit_store(seen->kit, seen->store, 16, NULL);
    }
    return seen->count != seen->enough;
}

static struct seen *list(const struct kit *kit, struct hearth_space *space, unsigned flags)
{
    struct seen *seen = mem_alloc(sizeof(*seen));

    size_t shown = hearth_each(kit->cache, space, flags, keep, seen);
    assert_int_equal(shown, seen->count);
    return seen;
}

static void test_i47_each_object_is_shown_with_what_is_known_of_it(void **state)
{
    static const unsigned char zeros[HEARTH_KEY_BYTES];
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints), .entry = HEARTH_ENTRY_USER, .anchor = 64};
    struct kit kit;
    struct hearth_plan *plan;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, 100, 1);
    kit_store(&kit, tokens, 100, &hints); /* [0, 64), [64, 96), [96, 100) */
    kit_snapshot(&kit, tokens, 100, 99);
    assert_int_equal(hearth_pin(kit.space, tokens, 64, true), 64);
    assert_int_equal(kit_restore(&kit, tokens, 100, NULL), 99);
    plan = kit_lookup(&kit, tokens, 100);
    struct seen *seen = list(&kit, kit.space, HEARTH_EACH_TOKENS);
    hearth_plan_release(&plan);
    assert_int_equal(seen->count, 4);
    static const struct {
        enum hearth_object_kind kind;
        uint32_t begin, end, tokens_begin;
        enum hearth_entry entry;
        bool pinned;
    } expected[] = {
        {HEARTH_OBJECT_ROWS, 0, 64, 0, HEARTH_ENTRY_SYSTEM, true},
        {HEARTH_OBJECT_ROWS, 64, 96, 64, HEARTH_ENTRY_USER, false},
        {HEARTH_OBJECT_ROWS, 96, 100, 96, HEARTH_ENTRY_USER, false},
        {HEARTH_OBJECT_SNAPSHOT, 0, 99, 96, HEARTH_ENTRY_ASSISTANT, false},
    };
    for (size_t i = 0; i < seen->count; i++) {
        const struct hearth_held *held = &seen->held[i];
        assert_int_equal(held->kind, expected[i].kind);
        assert_int_equal(held->begin, expected[i].begin);
        assert_int_equal(held->end, expected[i].end);
        assert_int_equal(held->bytes, kit_bytes(&kit, held->kind, held->begin, held->end));
        assert_int_equal(held->entry, expected[i].entry);
        assert_int_equal(held->pinned, expected[i].pinned);
        assert_int_equal(held->tiers, 1 << HEARTH_TIER_RAM);
        assert_int_equal(held->uses, 1);
        assert_int_equal(held->leases, 1);
        assert_true(held->age_s >= 0 && held->age_s < 600);
        assert_false(held->superseded);
        assert_int_equal(held->tokens_begin, expected[i].tokens_begin);
        assert_int_equal(held->tokens_count, held->end - held->tokens_begin);
        assert_memory_equal(seen->tokens[i], tokens + held->tokens_begin,
                            held->tokens_count * sizeof(int32_t));
    }
    /* A chain: each begins where the one before ends; the snapshot is in the block of the tail. */
    assert_memory_equal(seen->keys[0][1], zeros, HEARTH_KEY_BYTES);
    assert_memory_equal(seen->keys[1][1], seen->keys[0][0], HEARTH_KEY_BYTES);
    assert_memory_equal(seen->keys[2][1], seen->keys[1][0], HEARTH_KEY_BYTES);
    assert_memory_equal(seen->keys[3][0], seen->keys[2][0], HEARTH_KEY_BYTES);
    mem_free(seen);
    kit_close(&kit);
}

static void test_tokens_are_shown_only_when_asked_for(void **state)
{
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    struct seen *seen = list(&kit, kit.space, 0);
    assert_int_equal(seen->count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_null(seen->held[i].tokens);
        assert_int_equal(seen->held[i].tokens_count, 0);
    }
    mem_free(seen);
    kit_close(&kit);
}

/* Spaces are distinguished; a reader of all sees all, in batches, and may stop early. */
static void test_i49_spaces_are_shown_one_by_one(void **state)
{
    struct hearth_model model = kit_model(FULL);
    struct kit kit;
    int32_t tokens[16];

    (void)state;
    kit_open(&kit, RAM, FULL);
    struct kit other = kit_space(&kit, &model, "other", 0);
    for (uint32_t i = 0; i < 200; i++) {
        kit_tokens(tokens, 16, i + 1);
        kit_store(i < 150 ? &kit : &other, tokens, 16, NULL);
    }
    struct seen *mine = list(&kit, kit.space, 0), *others = list(&kit, other.space, 0),
                *all = list(&kit, NULL, HEARTH_EACH_TOKENS);
    assert_int_equal(mine->count, 150);
    assert_int_equal(others->count, 50);
    assert_int_equal(all->count, 200);
    assert_string_equal(others->tenants[0], "other");
    assert_string_equal(all->tenants[149], "");
    assert_string_equal(all->tenants[150], "other");
    assert_memory_not_equal(mine->spaces[0], others->spaces[0], HEARTH_KEY_BYTES);
    assert_memory_equal(all->spaces[150], others->spaces[0], HEARTH_KEY_BYTES);
    for (uint32_t i = 0; i < 200; i++) { /* in the order of storing */
        kit_tokens(tokens, 16, i + 1);
        assert_memory_equal(all->tokens[i], tokens, sizeof(tokens));
    }
    struct seen *some = mem_alloc(sizeof(*some));
    some->enough = 70;
    assert_int_equal(hearth_each(kit.cache, NULL, HEARTH_EACH_TOKENS, keep, some), 70);
    kit_check(&kit);
    mem_free(mine);
    mem_free(others);
    mem_free(all);
    mem_free(some);
    hearth_space_close(&other.space);
    kit_close(&kit);
}

/* A reader may store without extending its own listing, and others may read meanwhile. */
static void test_listing_ends_while_others_store(void **state)
{
    struct kit kit;
    int32_t tokens[16] = {1}, stored[16] = {1000};
    struct seen *seen = mem_alloc(sizeof(*seen));

    (void)state;
    kit_open(&kit, RAM, FULL);
    for (int i = 0; i < 100; i++, tokens[0]++)
        kit_store(&kit, tokens, 16, NULL);
    seen->kit = &kit;
    seen->store = stored;
    assert_int_equal(hearth_each(kit.cache, NULL, 0, keep, seen), 100);
    assert_int_equal(kit_stats(&kit).objects, 200);
    kit_check(&kit);
    mem_free(seen);
    kit_close(&kit);
}

struct clearing {
    struct kit *kit;
    size_t shown;
};

static bool clear_all(const struct hearth_held *held, void *arg)
{
    struct clearing *clearing = arg;

    assert_true(held->end > 0);
    clearing->shown++;
    hearth_clear(clearing->kit->cache, NULL, HEARTH_TIER_COUNT);
    return true;
}

static void test_what_left_meanwhile_does_no_harm(void **state)
{
    struct kit kit;
    struct clearing clearing = {.kit = &kit};
    int32_t tokens[16] = {1};

    (void)state;
    kit_open(&kit, RAM, FULL);
    for (int i = 0; i < 200; i++, tokens[0]++)
        kit_store(&kit, tokens, 16, NULL);
    hearth_each(kit.cache, NULL, 0, clear_all, &clearing);
    assert_true(clearing.shown > 0 && clearing.shown < 200); /* the batch that was taken, no more */
    assert_int_equal(hearth_each(kit.cache, NULL, 0, clear_all, &clearing), 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_without_memory_tokens_are_left_out(void **state)
{
    struct fault fault = {0};
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open_holding(&kit, FULL, tokens, 100);
    mem_set_fault(&fault);
    FAULT_LOOP (&fault) {
        struct seen *seen = list(&kit, NULL, HEARTH_EACH_TOKENS);
        size_t without = 0;
        for (size_t i = 0; i < seen->count; i++)
            without += seen->held[i].tokens == NULL;
        assert_int_equal(seen->count, 3);
        assert_int_equal(without, atomic_load(&fault.fired) > 0);
        mem_free(seen);
    }
    mem_set_fault(NULL);
    kit_close(&kit);
}

/* ---- what happened ---- */

static size_t events_of(const struct kit *kit, uint64_t request, enum hearth_event_kind kind,
                        struct hearth_event *last)
{
    static struct hearth_event events[4096];
    size_t found = 0, count = hearth_events_read(kit->cache, 0, events, COUNT_OF(events));

    for (size_t i = 0; i < count; i++)
        if (events[i].request == request && events[i].kind == kind) {
            *last = events[i];
            found++;
        }
    return found;
}

/* Every event that comes of a lookup or a store names its request, and says what the plan said. */
static void test_i51_i8_events_carry_the_request_from_the_start(void **state)
{
    struct hearth_lookup_options options = {.struct_size = sizeof(options), .request = 17};
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .request = 17};
    struct hearth_event event;
    struct hearth_plan *plan;
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 100, 1);
    hearth_lookup(kit.space, tokens, 100, &options, &plan);
    hearth_plan_release(&plan);
    assert_int_equal(events_of(&kit, 17, HEARTH_EVENT_LOOKUP, &event), 1);
    assert_int_equal(events_of(&kit, 17, HEARTH_EVENT_MISS, &event), 1);
    assert_int_equal(event.prompt_tokens, 100);
    assert_int_equal(event.read_tokens, 0);
    assert_int_equal(event.reason, HEARTH_REASON_COLD);
    kit_store(&kit, tokens, 80, &hints);
    assert_int_equal(events_of(&kit, 17, HEARTH_EVENT_WRITE, &event), 2);
    options.request = 18;
    hearth_lookup(kit.space, tokens, 100, &options, &plan);
    uint32_t boundary = hearth_plan_info(plan)->boundary;
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    assert_int_equal(boundary, 80);
    assert_int_equal(events_of(&kit, 18, HEARTH_EVENT_HIT, &event), 1);
    assert_int_equal(event.read_tokens, boundary);
    assert_int_equal(event.tier, HEARTH_TIER_RAM);
    assert_int_equal(events_of(&kit, 18, HEARTH_EVENT_MISS, &event), 0);
    /* An engine's refusal is reported for the request that found it. */
    options.request = 19;
    hearth_lookup(kit.space, tokens, 100, &options, &plan);
    hearth_plan_shorten(plan, 0, HEARTH_REASON_REFUSED);
    hearth_plan_release(&plan);
    assert_int_equal(events_of(&kit, 19, HEARTH_EVENT_VERIFY_FAIL, &event), 1);
    kit_close(&kit);
}

static void keep_line(const char *line, void *arg)
{
    char *last = arg;

    if (strstr(line, " evict ") != NULL || strstr(line, " hit ") != NULL)
        snprintf(last, HEARTH_EVENT_LINE_BYTES, "%s", line);
}

/* A store that pushes something out says so under its own number, in the log as well. */
static void test_i46_i47_lines_name_the_request(void **state)
{
    struct hearth_lookup_options options = {.struct_size = sizeof(options), .request = 4};
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .request = 3};
    struct hearth_options open = kit_options(160 << 10);
    struct hearth_model model = kit_model(FULL);
    char line[HEARTH_EVENT_LINE_BYTES] = "", again[HEARTH_EVENT_LINE_BYTES];
    struct hearth_event event;
    struct hearth_plan *plan;
    struct kit kit;
    int32_t tokens[64];

    (void)state;
    open.log = keep_line;
    open.log_arg = line;
    kit_open_with(&kit, &open, &model);
    for (uint32_t i = 0; events_of(&kit, 3, HEARTH_EVENT_EVICT, &event) == 0; i++) {
        assert_true(i < 100);
        kit_tokens(tokens, 64, i + 1);
        kit_store(&kit, tokens, 64, &hints);
    }
    assert_memory_equal(line, "[cache] 3 evict ", 16);
    hearth_lookup(kit.space, tokens, 64, &options, &plan);
    hearth_plan_accept(plan);
    hearth_plan_release(&plan);
    assert_memory_equal(line,
                        "[cache] 4 hit prompt_tokens=64 read_tokens=63 write_tokens=0 match=exact "
                        "tier=ram reason=none ",
                        93);
    assert_int_equal(events_of(&kit, 4, HEARTH_EVENT_HIT, &event), 1);
    hearth_event_format(&event, again, sizeof(again));
    assert_string_equal(line, again);
    kit_close(&kit);
}

static void test_events_are_read_from_a_position(void **state)
{
    struct hearth_event events[64];
    struct kit kit;
    int32_t token = 1;
    uint64_t after = 0;
    size_t count;

    (void)state;
    kit_open(&kit, RAM, FULL);
    for (int i = 0; i < 100; i++)
        kit_restore(&kit, &token, 1, NULL); /* a lookup and a miss each */
    while ((count = hearth_events_read(kit.cache, after, events, COUNT_OF(events))) > 0)
        for (size_t i = 0; i < count; i++)
            assert_int_equal(events[i].number, ++after);
    assert_int_equal(after, 200);
    for (int i = 0; i < 5000; i++)
        kit_restore(&kit, &token, 1, NULL);
    assert_int_equal(hearth_events_read(kit.cache, after, events, 1), 1);
    assert_int_equal(events[0].number, 10200 - 4096 + 1); /* those between are lost, and it shows */
    kit_close(&kit);
}

static void test_i46_rates_are_sums_and_can_be_reset(void **state)
{
    struct hearth_rate rate;
    struct kit kit;
    int32_t tokens[100];

    (void)state;
    kit_open(&kit, RAM, FULL);
    kit_tokens(tokens, 100, 1);
    assert_int_equal(hearth_get_rate(kit.cache, HEARTH_EVENT_HIT, 60, &rate), HEARTH_OK);
    assert_int_equal(rate.count + rate.prompt_tokens + rate.read_tokens, 0);
    kit_store(&kit, tokens, 100, NULL);
    kit_restore(&kit, tokens, 100, NULL);
    static const uint32_t windows[] = {60, 300, 900};
    for (size_t i = 0; i < COUNT_OF(windows); i++) {
        assert_int_equal(hearth_get_rate(kit.cache, HEARTH_EVENT_HIT, windows[i], &rate),
                         HEARTH_OK);
        assert_int_equal(rate.count, 1);
        assert_int_equal(rate.prompt_tokens, 100);
        assert_int_equal(rate.read_tokens, 99);
        assert_int_equal(hearth_get_rate(kit.cache, HEARTH_EVENT_WRITE, windows[i], &rate),
                         HEARTH_OK);
        assert_int_equal(rate.count, 3);
        assert_int_equal(rate.write_tokens, 100);
        assert_int_equal(rate.bytes, 6400);
    }
    assert_int_equal(hearth_get_rate(kit.cache, HEARTH_EVENT_HIT, 901, &rate),
                     HEARTH_ERROR_INVALID);
    assert_int_equal(hearth_get_rate(kit.cache, HEARTH_EVENT_COUNT, 60, &rate),
                     HEARTH_ERROR_INVALID);
    hearth_reset_stats(kit.cache);
    assert_int_equal(hearth_get_rate(kit.cache, HEARTH_EVENT_WRITE, 900, &rate), HEARTH_OK);
    assert_int_equal(rate.count, 0);
    assert_int_equal(kit_stats(&kit).objects, 3);
    kit_close(&kit);
}

TEST_SUITE(TEST(test_i47_each_object_is_shown_with_what_is_known_of_it),
           TEST(test_tokens_are_shown_only_when_asked_for),
           TEST(test_i49_spaces_are_shown_one_by_one), TEST(test_listing_ends_while_others_store),
           TEST(test_what_left_meanwhile_does_no_harm),
           TEST(test_without_memory_tokens_are_left_out),
           TEST(test_i51_i8_events_carry_the_request_from_the_start),
           TEST(test_i46_i47_lines_name_the_request), TEST(test_events_are_read_from_a_position),
           TEST(test_i46_rates_are_sums_and_can_be_reset))
