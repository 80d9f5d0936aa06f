/* What a conversation that grows takes the place of, and what it must not. */
#include <hearth/hearth.h>

#include "support/cache_kit.h"
#include "support/test.h"
#include "tier/pages.h"

enum { RAM = 16 << 20, TOKENS = 4096 };

static const uint32_t FULL = HEARTH_KIND_FULL;
static const uint32_t HYBRID = HEARTH_KIND_FULL | HEARTH_KIND_RECURRENT;

/* One request: the boundary that it was restored at. It leaves snapshots before the last token of
 * its prompt, and at its end. */
struct turn {
    uint32_t prompt, answer; /* tokens */
    uint32_t anchor;
    uint64_t request;
};

static void retain(const struct kit *kit, const int32_t *tokens, uint32_t count,
                   const struct hearth_store_hints *hints, uint32_t snapshot)
{
    struct hearth_store *store;
    uint32_t begin, end;

    assert_int_equal(hearth_store_open(kit->space, tokens, count, hints, &store), HEARTH_OK);
    while (hearth_store_next(store, &begin, &end))
        assert_int_equal(kit_put(kit, store, HEARTH_OBJECT_ROWS, begin, end, tokens), HEARTH_OK);
    if (hearth_store_wants_snapshot(store, snapshot))
        assert_int_equal(kit_put(kit, store, HEARTH_OBJECT_SNAPSHOT, 0, snapshot, tokens),
                         HEARTH_OK);
    hearth_store_close(&store);
}

static uint32_t take_turn(const struct kit *kit, const int32_t *tokens, struct turn turn)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints),
                                       .entry = HEARTH_ENTRY_USER,
                                       .anchor = turn.anchor,
                                       .request = turn.request,
                                       .prompt = turn.prompt};

    hints.resumed = kit_restore(kit, tokens, turn.prompt, NULL);
    retain(kit, tokens, turn.prompt, &hints, turn.prompt - 1);
    hints.entry = HEARTH_ENTRY_ASSISTANT;
    hints.prompt = turn.prompt + turn.answer;
    hints.generated = true;
    retain(kit, tokens, hints.prompt, &hints, hints.prompt);
    kit_check(kit);
    return hints.resumed;
}

/* ---- what is superseded ---- */

struct superseded {
    uint32_t ends[32];
    size_t count;
};

static bool note_superseded(const struct hearth_held *held, void *arg)
{
    struct superseded *superseded = arg;

    if (held->superseded)
        superseded->ends[superseded->count++] = held->end;
    return true;
}

static struct superseded superseded_of(const struct kit *kit)
{
    struct superseded superseded = {.count = 0};

    hearth_each(kit->cache, kit->space, 0, note_superseded, &superseded);
    return superseded;
}

static void expect_superseded(const struct kit *kit, const uint32_t *ends, size_t count)
{
    struct superseded superseded = superseded_of(kit);

    assert_int_equal(superseded.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(superseded.ends[i], ends[i]);
}

static void test_i13_a_good_hit_supersedes_the_turns_before(void **state)
{
    struct hearth_event events[4];
    struct kit kit;
    int32_t tokens[TOKENS];
    size_t found = 0;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit.snapshot_bytes = 4000; /* no rows are as large */
    kit_tokens(tokens, TOKENS, 1);
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1200, 100, 50, 1}), 0);
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1500, 100, 50, 2}), 1300);
    expect_superseded(&kit, (uint32_t[]){1199}, 1); /* not 1300: an edit comes back to it */
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1800, 100, 50, 3}), 1600);
    expect_superseded(&kit, (uint32_t[]){1199, 1300, 1499}, 3);
    /* Once for each, under the request that did it; rows that were extended have been replaced
     * as well. */
    uint64_t replaces = kit_stats(&kit).replaces;
    for (uint64_t after = 0; hearth_events_read(kit.cache, after, events, 1) == 1;
         after = events[0].number)
        if (events[0].kind == HEARTH_EVENT_REPLACE) {
            assert_int_not_equal(events[0].request, 0);
            bool snapshot = events[0].bytes == kit.snapshot_bytes;
            assert_int_equal(events[0].object,
                             snapshot ? HEARTH_OBJECT_SNAPSHOT : HEARTH_OBJECT_ROWS);
            assert_true(!snapshot || events[0].position == 1199 || events[0].position == 1300 ||
                        events[0].position == 1499);
            found += snapshot;
            replaces--;
        }
    assert_int_equal(found, 3);
    assert_int_equal(replaces, 0);
    kit_close(&kit);
}

/* Guesses where the conversation did not diverge: it went on after them. One after the boundary, in
 * the new message, is still worth as much as before. */
static void test_i13_a_good_hit_supersedes_guesses_before_it(void **state)
{
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints), .entry = HEARTH_ENTRY_USER, .anchor = 50};
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    hints.prompt = 1200;
    hints.fork = 700;
    retain(&kit, tokens, 1200, &hints, 700);
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1200, 100, 50, 1}), 700);
    expect_superseded(&kit, NULL, 0); /* it was used: it is no guess any more */
    hints.fork = 900;
    retain(&kit, tokens, 1200, &hints, 900);
    hints.prompt = 1500;
    hints.fork = 1400;
    retain(&kit, tokens, 1500, &hints, 1400);
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1401, 20, 50, 2}), 1400);
    expect_superseded(&kit, (uint32_t[]){1199, 1300, 900}, 3);
    kit_close(&kit);
}

/* What lies inside of the system prompt is where other conversations begin. */
static void test_i13_the_system_prompt_is_not_superseded(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 1});
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1500, 100, 1250, 2}), 1300);
    expect_superseded(&kit, NULL, 0); /* 1199 < 1250 */
    kit_close(&kit);
}

/* A client that adds a span to its last message, and removes it a turn later. */
static void test_i13_places_before_transient_text_are_superseded(void **state)
{
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .prompt = 1201, .anchor = 50};
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    for (uint32_t turn = 0; turn < 3; turn++) {
        uint32_t at = 1150 + 300 * turn;
        hints.resumed = kit_restore(&kit, tokens, hints.prompt, NULL);
        assert_int_equal(hints.resumed, turn == 0 ? 0 : at - 300);
        hints.transient = at;
        retain(&kit, tokens, at, &hints, at);
        hints.prompt += 300;
    }
    expect_superseded(&kit, (uint32_t[]){1150}, 1);
    kit_close(&kit);
}

static void test_i13_poor_hits_supersede_nothing(void **state)
{
    static const struct turn turns[][2] = {
        {{900, 50, 50, 1}, {1500, 50, 50, 2}},  /* fewer than 1000 */
        {{1200, 50, 50, 1}, {3000, 50, 50, 2}}, /* less than half */
    };
    int32_t tokens[TOKENS];

    (void)state;
    kit_tokens(tokens, TOKENS, 1);
    for (size_t i = 0; i < COUNT_OF(turns); i++) {
        struct kit kit;
        kit_open(&kit, RAM, HYBRID);
        take_turn(&kit, tokens, turns[i][0]);
        assert_true(take_turn(&kit, tokens, turns[i][1]) > 900);
        expect_superseded(&kit, NULL, 0);
        kit_close(&kit);
    }
}

/* The hit ends inside of the system prompt: it is another one that begins alike. */
static void test_i14_a_system_prompt_that_did_not_match_whole(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS], other[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    kit_tokens(other, TOKENS, 2);
    kit_tokens(other, 1400, 1);
    take_turn(&kit, tokens, (struct turn){1200, 50, 50, 1});
    take_turn(&kit, tokens, (struct turn){1300, 50, 1200, 2}); /* resumed at 1250 */
    uint64_t before = superseded_of(&kit).count;
    assert_int_equal(take_turn(&kit, other, (struct turn){1500, 50, 1450, 3}), 1350);
    assert_int_equal(superseded_of(&kit).count, before);
    /* The same with a system prompt that did. */
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1600, 50, 1200, 4}), 1350);
    assert_true(superseded_of(&kit).count > before);
    kit_close(&kit);
}

static void test_i92_what_is_superseded_is_found_and_revived(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS], edited[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 1});
    take_turn(&kit, tokens, (struct turn){1500, 100, 50, 2});
    take_turn(&kit, tokens, (struct turn){1800, 100, 50, 3});
    kit_tokens(edited, TOKENS, 2);
    kit_tokens(edited, 1310, 1); /* a client edits the second message */
    assert_int_equal(kit_restore(&kit, edited, 1500, NULL), 1300);
    expect_superseded(&kit, (uint32_t[]){1199, 1499}, 2);
    assert_int_equal(kit_restore(&kit, tokens, 1950, NULL), 1900);
    kit_close(&kit);
}

/* Asking again and again comes back to the end of the prompt each time. */
static void test_i92_asking_again_keeps_the_end_of_the_prompt(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 1});
    for (uint32_t i = 2; i < 5; i++) {
        kit_tokens(tokens, TOKENS, i); /* another answer */
        kit_tokens(tokens, 1200, 1);
        assert_int_equal(take_turn(&kit, tokens, (struct turn){1200, 100, 50, i}), 1199);
    }
    expect_superseded(&kit, NULL, 0);
    kit_close(&kit);
}

static void test_i103_anchors_pins_and_shared_ones_are_not(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS], other[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1101, 0, 1100, 1}); /* 1100: the anchor, and an end */
    take_turn(&kit, tokens, (struct turn){1200, 100, 1100, 2});
    assert_int_equal(hearth_pin(kit.space, tokens, 1199, true), 1199);
    take_turn(&kit, tokens, (struct turn){1500, 100, 1100, 3});
    kit_tokens(other, TOKENS, 2);
    kit_tokens(other, 1499, 1); /* differs after 1499: two conversations share it */
    assert_int_equal(kit_restore(&kit, other, 1600, NULL), 1499);
    take_turn(&kit, tokens, (struct turn){1800, 100, 1100, 4});
    take_turn(&kit, tokens, (struct turn){2100, 100, 1100, 5});
    /* 1100 anchor, 1101 pinned with 1199, 1499 shared, 1900 resumed at. */
    expect_superseded(&kit, (uint32_t[]){1300, 1600, 1799}, 3);
    kit_close(&kit);
}

/* Under pressure what is superseded leaves before a conversation that is older and was never used
 * again. */
static void test_i13_superseded_ones_leave_first(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS], old[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit.snapshot_bytes = 256 << 10;
    kit_tokens(old, TOKENS, 2);
    take_turn(&kit, old, (struct turn){1200, 100, 50, 1});
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 2});
    take_turn(&kit, tokens, (struct turn){1500, 100, 50, 3});
    take_turn(&kit, tokens, (struct turn){1800, 100, 50, 4});
    assert_int_equal(superseded_of(&kit).count, 3);
    hearth_set_ram_bytes(kit.cache,
                         kit_stats(&kit).bytes_budget - (700 << 10)); /* three of 256 KiB */
    assert_int_equal(kit_stats(&kit).evictions, 3);
    assert_int_equal(superseded_of(&kit).count, 0);
    assert_int_equal(kit_peek(&kit, old, 1400).boundary, 1300);
    assert_int_equal(kit_peek(&kit, tokens, 2000).boundary, 1900);
    kit_check(&kit);
    kit_close(&kit);
}

/* A session that has ended makes room before an older one that may return; its system prompt, and
 * what was never cached, are not touched. */
static void test_i13_a_released_conversation_leaves_first(void **state)
{
    struct kit kit;
    int32_t tokens[TOKENS], old[TOKENS], never[TOKENS];

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit.snapshot_bytes = 256 << 10;
    kit_tokens(old, TOKENS, 2);
    kit_tokens(never, TOKENS, 3);
    take_turn(&kit, old, (struct turn){1200, 100, 50, 1});
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 2});
    assert_int_equal(hearth_release(kit.space, never, 1300, 0), 0);
    size_t before = superseded_of(&kit).count;
    size_t released = hearth_release(kit.space, tokens, 1300, 600);
    assert_true(released >= 2);
    assert_int_equal(superseded_of(&kit).count, before + released);
    for (size_t i = 0; i < superseded_of(&kit).count; i++)
        assert_true(superseded_of(&kit).ends[i] > 600);
    assert_int_equal(hearth_release(kit.space, tokens, 1300, 600), 0); /* already */
    hearth_set_ram_bytes(kit.cache, kit_stats(&kit).bytes_budget - (300 << 10));
    assert_true(kit_stats(&kit).evictions > 0);
    assert_int_equal(kit_peek(&kit, old, 1400).boundary, 1300);
    assert_true(kit_peek(&kit, tokens, 1400).boundary < 1300);
    kit_check(&kit);
    kit_close(&kit);
}

/* A demoted conversation leaves memory before an older one, and is not superseded: it is still worth
 * a write. */
static void test_a_demoted_conversation_leaves_memory_first(void **state)
{
    int32_t tokens[TOKENS], old[TOKENS];
    struct kit kit;

    (void)state;
    kit_open(&kit, RAM, HYBRID);
    kit.snapshot_bytes = 256 << 10;
    kit_tokens(old, TOKENS, 2);
    take_turn(&kit, old, (struct turn){1200, 100, 50, 1});
    kit_tokens(tokens, TOKENS, 1);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 2});
    size_t before = superseded_of(&kit).count;
    assert_true(hearth_demote(kit.space, tokens, 1300, 600) >= 2);
    assert_int_equal(superseded_of(&kit).count, before);
    hearth_set_ram_bytes(kit.cache, kit_stats(&kit).bytes_budget - (300 << 10));
    assert_true(kit_stats(&kit).evictions > 0);
    assert_int_equal(kit_peek(&kit, old, 1400).boundary, 1300);
    assert_true(kit_peek(&kit, tokens, 1400).boundary < 1300);
    kit_check(&kit);
    kit_close(&kit);
}

/* ---- tails ---- */

/* Two conversations, two tails; the second turn of one says something else in the middle of its old
 * tail. Whose tail goes? */
static uint32_t other_after_turn(uint32_t count, uint32_t anchor)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(FULL);
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .anchor = anchor};
    struct kit kit;
    int32_t tokens[TOKENS], edited[TOKENS], other[TOKENS];

    options.tail_bytes = 2 * PAGES_PAGE_BYTES;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, TOKENS, 1);
    kit_tokens(other, TOKENS, 2);
    kit_tokens(edited, TOKENS, 3);
    kit_tokens(edited, count - 2, 1);
    kit_store(&kit, tokens, count, NULL);
    kit_store(&kit, other, count, NULL);
    hints.resumed = kit_restore(&kit, edited, count + 1, NULL);
    assert_int_equal(hints.resumed, count - 2);
    kit_store(&kit, edited, count + 1, &hints);
    uint32_t boundary = kit_peek(&kit, other, count + 1).boundary;
    assert_int_equal(kit_stats(&kit).tail_evictions, 1);
    kit_check(&kit);
    kit_close(&kit);
    return boundary;
}

/* With a limit of their own, snapshots leave in the same order, and rows stay. */
static void test_i13_snapshots_have_a_limit(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HYBRID);
    struct kit kit;
    int32_t tokens[TOKENS], other[TOKENS];

    (void)state;
    options.snapshot_bytes = 4 * PAGES_PAGE_BYTES;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, TOKENS, 1);
    kit_tokens(other, TOKENS, 2);
    take_turn(&kit, tokens, (struct turn){1200, 100, 50, 1});
    assert_int_equal(take_turn(&kit, tokens, (struct turn){1500, 100, 50, 2}), 1300);
    assert_int_equal(kit_stats(&kit).snapshots, 4);
    assert_int_equal(kit_stats(&kit).evictions, 0);
    uint64_t rows = kit_stats(&kit).objects - 4;
    /* 1199 is superseded, and leaves for the end of a prompt; then the oldest of the others. */
    take_turn(&kit, other, (struct turn){1200, 100, 50, 3});
    assert_int_equal(kit_stats(&kit).snapshots, 4);
    assert_int_equal(kit_stats(&kit).evictions, 2);
    assert_true(kit_stats(&kit).objects > rows + 4);
    assert_int_equal(kit_restore(&kit, tokens, 1700, NULL), 1600);
    assert_int_equal(kit_restore(&kit, other, 1400, NULL), 1300);
    assert_int_equal(kit_peek(&kit, tokens, 1200).boundary, 0);
    kit_check(&kit);
    kit_close(&kit);
}

/* Of two snapshots, the older one is the end of a turn, and the newer one a place inside a prompt
 * where no other branched. The limit costs the latter. */
static void test_the_limit_spares_ends_of_turns(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HYBRID);
    struct hearth_store_hints hints = {.struct_size = sizeof(hints), .entry = HEARTH_ENTRY_USER};
    struct kit kit;
    int32_t tokens[TOKENS], other[TOKENS];

    (void)state;
    options.snapshot_bytes = 2 * PAGES_PAGE_BYTES;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, TOKENS, 1);
    kit_tokens(other, TOKENS, 2);
    hints.prompt = 1200;
    retain(&kit, tokens, 1200, &hints, 1199);
    hints.junction = 600;
    retain(&kit, other, 1200, &hints, 600);
    assert_int_equal(kit_peek(&kit, other, 1200).boundary, 600);
    retain(&kit, other, 1200, &hints, 1199);
    assert_int_equal(kit_stats(&kit).snapshots, 2);
    assert_int_equal(kit_peek(&kit, tokens, 1200).boundary, 1199);
    assert_int_equal(kit_peek(&kit, other, 1200).boundary, 1199);
    kit_check(&kit);
    kit_close(&kit);
}

/* What was just taken is never the one to leave, however little it is worth: its job counts on it. */
static void test_the_limit_spares_the_newest(void **state)
{
    struct hearth_options options = kit_options(RAM);
    struct hearth_model model = kit_model(HYBRID);
    struct hearth_store_hints hints = {
        .struct_size = sizeof(hints), .entry = HEARTH_ENTRY_USER, .prompt = 1200};
    struct kit kit;
    int32_t tokens[TOKENS], other[TOKENS];

    (void)state;
    options.snapshot_bytes = PAGES_PAGE_BYTES;
    kit_open_with(&kit, &options, &model);
    kit_tokens(tokens, TOKENS, 1);
    kit_tokens(other, TOKENS, 2);
    retain(&kit, tokens, 1200, &hints, 1199);
    hints.junction = 600;
    retain(&kit, other, 1200, &hints, 600);
    assert_int_equal(kit_stats(&kit).snapshots, 1);
    assert_int_equal(kit_peek(&kit, other, 1200).boundary, 600);
    kit_check(&kit);
    kit_close(&kit);
}

static void test_i13_i14_a_tail_that_was_rewritten_goes_before_those_of_others(void **state)
{
    (void)state;
    assert_int_equal(other_after_turn(1606, 0), 1606); /* its own old one went */
    assert_int_equal(other_after_turn(1606, 1500), 1606);
    assert_int_equal(other_after_turn(806, 0), 800); /* a poor hit: the least recently used went */
    /* The system prompt ends after the matching part: another conversation with the same
     * beginning. */
    assert_int_equal(other_after_turn(1606, 1605), 1600);
}

TEST_SUITE(TEST(test_i13_a_good_hit_supersedes_the_turns_before),
           TEST(test_i13_a_good_hit_supersedes_guesses_before_it),
           TEST(test_i13_the_system_prompt_is_not_superseded),
           TEST(test_i13_places_before_transient_text_are_superseded),
           TEST(test_i13_poor_hits_supersede_nothing),
           TEST(test_i14_a_system_prompt_that_did_not_match_whole),
           TEST(test_i92_what_is_superseded_is_found_and_revived),
           TEST(test_i92_asking_again_keeps_the_end_of_the_prompt),
           TEST(test_i103_anchors_pins_and_shared_ones_are_not),
           TEST(test_i13_superseded_ones_leave_first),
           TEST(test_i13_a_released_conversation_leaves_first),
           TEST(test_a_demoted_conversation_leaves_memory_first),
           TEST(test_i13_snapshots_have_a_limit), TEST(test_the_limit_spares_ends_of_turns),
           TEST(test_the_limit_spares_the_newest),
           TEST(test_i13_i14_a_tail_that_was_rewritten_goes_before_those_of_others))
