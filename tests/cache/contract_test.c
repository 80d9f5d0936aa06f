#include <string.h>

#include "hearth/hearth.h"
#include "support/test.h"

enum { SLOTS_MAX = 24, NO_ROW = -1 };

/* The oracle: a layer that really has rows. Sliding and chunked ones are a ring of slots, each with
 * the position that it holds; nothing here knows intervals. */
struct layer {
    struct hearth_retained state; /* input of the module */
    uint32_t slots_count;
    int64_t slots[SLOTS_MAX];
};

static void layer_append(struct layer *layer)
{
    struct hearth_retained *state = &layer->state;

    if (state->kind == HEARTH_KIND_SLIDING || state->kind == HEARTH_KIND_CHUNKED)
        layer->slots[state->length % layer->slots_count] = state->length;
    state->length++;
    if (state->length - state->start > layer->slots_count)
        state->start = state->length - layer->slots_count;
}

static struct layer layer_of(uint32_t kind, uint32_t window, uint32_t slots_count, uint32_t length)
{
    struct layer layer = {.state = {.kind = kind, .window = window}, .slots_count = slots_count};

    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        layer.slots[i] = NO_ROW;
    for (uint32_t i = 0; i < length; i++)
        layer_append(&layer);
    return layer;
}

static bool layer_holds(const struct layer *layer, uint32_t row)
{
    for (uint32_t i = 0; i < layer->slots_count; i++)
        if (layer->slots[i] == row)
            return true;
    return false;
}

static uint32_t layer_oldest(const struct layer *layer)
{
    uint32_t oldest = layer->state.length;

    for (uint32_t i = 0; i < layer->slots_count; i++)
        if (layer->slots[i] != NO_ROW && layer->slots[i] < oldest)
            oldest = (uint32_t)layer->slots[i];
    return oldest;
}

/* The first row that a token at pos looks back at. */
static uint32_t looks_back_to(const struct layer *layer, uint32_t pos)
{
    uint32_t window = layer->state.window;

    if (layer->state.kind == HEARTH_KIND_CHUNKED)
        return pos - pos % window;
    return pos > window ? pos - window : 0;
}

static bool oracle_possible(const struct layer *layer, uint32_t pos)
{
    const struct hearth_retained *state = &layer->state;

    if (pos > state->length)
        return false;
    if (state->kind == HEARTH_KIND_FULL)
        return true;
    if (state->kind != HEARTH_KIND_SLIDING && state->kind != HEARTH_KIND_CHUNKED)
        return pos == state->length;
    if (pos < layer_oldest(layer))
        return false;
    for (uint32_t row = looks_back_to(layer, pos); row < pos; row++)
        if (!layer_holds(layer, row))
            return false;
    return true;
}

/* What an engine does: the rows of the window, in order, in a fresh ring whose next row is pos. */
static void oracle_restore(struct layer *layer, uint32_t pos)
{
    struct layer fresh = layer_of(layer->state.kind, layer->state.window, layer->slots_count, 0);

    fresh.state.start = looks_back_to(layer, pos);
    for (fresh.state.length = fresh.state.start; fresh.state.length < pos;)
        layer_append(&fresh);
    memcpy(layer->slots, fresh.slots, sizeof(layer->slots));
}

static void check_layer(const struct layer *layer)
{
    struct hearth_range range = hearth_retained_range(&layer->state);

    for (uint32_t pos = 0; pos <= layer->state.length + 3; pos++) {
        if (hearth_can_restore_to(&layer->state, 1, pos) != oracle_possible(layer, pos))
            fail_msg("kind %u window %u slots %u length %u start %u: pos %u is wrong",
                     layer->state.kind, layer->state.window, layer->slots_count,
                     layer->state.length, layer->state.start, pos);
        if (layer->state.kind == HEARTH_KIND_SLIDING || layer->state.kind == HEARTH_KIND_CHUNKED)
            assert_int_equal(pos >= range.begin && pos < range.end, layer_holds(layer, pos));
    }
}

static struct layer random_layer(uint64_t *seed)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_SLIDING, HEARTH_KIND_CHUNKED,
                                     HEARTH_KIND_RECURRENT};
    uint32_t window = 1 + (uint32_t)test_random_below(seed, 8);
    uint32_t slots_count = window + (uint32_t)test_random_below(seed, 12);

    return layer_of(kinds[test_random_below(seed, COUNT_OF(kinds))], window, slots_count,
                    (uint32_t)test_random_below(seed, 60));
}

static bool same(const struct hearth_retained *a, const struct hearth_retained *b)
{
    return a->kind == b->kind && a->length == b->length && a->window == b->window &&
           a->start == b->start && a->keep == b->keep;
}

static void test_every_kind_equals_explicit_rows(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 6; window++)
        for (uint32_t slots = window; slots <= window + 7; slots++)
            for (uint32_t length = 0; length <= 40; length++) {
                struct layer sliding = layer_of(HEARTH_KIND_SLIDING, window, slots, length);
                struct layer chunked = layer_of(HEARTH_KIND_CHUNKED, window, slots, length);
                check_layer(&sliding);
                check_layer(&chunked);
            }
}

/* Decode, restore, decode on, restore again: state and rows stay together (a restored ring is in
 * temporal order, its length is the position and the next row is appended). */
static void test_i19_restored_windows_stay_consistent(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 1000; round++) {
        struct layer layer = random_layer(&seed);
        for (int step = 0; step < 20; step++) {
            uint32_t pos = (uint32_t)test_random_below(&seed, layer.state.length + 2);
            if (test_random_below(&seed, 2)) {
                layer_append(&layer);
            } else if (oracle_possible(&layer, pos)) {
                oracle_restore(&layer, pos);
                struct hearth_restored result = hearth_restore_to(&layer.state, 1, pos);
                assert_true(result.restored);
                assert_int_equal(result.tokens, pos);
                assert_int_equal(result.replay_start, pos);
                assert_int_equal(layer.state.length, pos);
                if (layer.state.kind == HEARTH_KIND_SLIDING ||
                    layer.state.kind == HEARTH_KIND_CHUNKED)
                    assert_int_equal(hearth_retained_range(&layer.state).begin,
                                     looks_back_to(&layer, pos));
                assert_int_equal(hearth_retained_range(&layer.state).end, pos);
            }
            check_layer(&layer);
        }
    }
}

static void test_i15_recurrent_state_is_checkpoint_only(void **state)
{
    struct hearth_retained recurrent = {.kind = HEARTH_KIND_RECURRENT, .length = 100};
    struct hearth_range none = hearth_retained_range(&recurrent);

    (void)state;
    assert_int_equal(none.begin, none.end);
    for (uint32_t pos = 0; pos <= 101; pos++) {
        struct hearth_restored result = hearth_restore_to(&recurrent, 1, pos);
        assert_int_equal(result.restored, pos == 100);
        assert_int_equal(recurrent.length, 100);
        if (pos < 100)
            assert_string_equal(result.reason,
                                "recurrent state requires an exact checkpoint or replay");
    }
}

static void test_i16_saturated_ring_has_only_its_own_length(void **state)
{
    struct hearth_retained ring = {
        .kind = HEARTH_KIND_SLIDING, .length = 1000, .window = 128, .start = 872};
    struct hearth_retained prefilled = ring;

    (void)state;
    assert_true(hearth_can_restore_to(&ring, 1, 1000));
    assert_false(hearth_can_restore_to(&ring, 1, 999));
    assert_false(hearth_can_restore_to(&ring, 1, 1001));
    assert_false(hearth_can_restore_to(&ring, 1, 0));
    prefilled.start = 872 - 50; /* a prefill chunk of 51 left that much more */
    assert_true(hearth_can_restore_to(&prefilled, 1, 950));
    assert_false(hearth_can_restore_to(&prefilled, 1, 949));
    ring.start = 0; /* nothing was dropped: anywhere */
    assert_true(hearth_can_restore_to(&ring, 1, 0));
    assert_true(hearth_can_restore_to(&ring, 1, 5));
}

static void test_i16_pinned_front_is_never_restorable(void **state)
{
    static const uint32_t kinds[] = {HEARTH_KIND_FULL, HEARTH_KIND_SLIDING, HEARTH_KIND_CHUNKED};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (uint32_t pos = 0; pos <= 20; pos++) {
            struct hearth_retained sinks = {.kind = kinds[i], .length = 20, .window = 8, .keep = 4};
            assert_false(hearth_can_restore_to(&sinks, 1, pos));
            assert_int_equal(hearth_longest_restore(&sinks, 1, pos), 0);
        }
}

static void test_i17_refused_restore_changes_nothing(void **state)
{
    uint64_t seed = test_seed();
    int refusals = 0;

    (void)state;
    for (int round = 0; round < 5000; round++) {
        struct layer layer = random_layer(&seed);
        layer.state.keep = test_random_below(&seed, 8) == 0;
        struct hearth_retained before = layer.state;
        uint32_t pos = (uint32_t)test_random_below(&seed, layer.state.length + 5);
        struct hearth_restored result = hearth_restore_to(&layer.state, 1, pos);
        assert_true(result.reason != NULL && result.reason[0] != '\0');
        if (result.restored)
            continue;
        refusals++;
        assert_true(same(&layer.state, &before));
        assert_int_equal(result.tokens, 0);
        assert_int_equal(result.replay_start, 0);
    }
    assert_true(refusals > 500);
}

static void test_i18_composite_is_all_or_nothing(void **state)
{
    enum { PARTS = 4 };
    uint64_t seed = test_seed();
    int restored = 0;

    (void)state;
    for (int round = 0; round < 5000; round++) {
        struct layer layers[PARTS];
        struct hearth_retained states[PARTS], before[PARTS];
        size_t count = 1 + (size_t)test_random_below(&seed, PARTS), alike = 0;
        uint32_t length = (uint32_t)test_random_below(&seed, 60), longest = 0;
        for (size_t i = 0; i < count; i++) {
            layers[i] = random_layer(&seed);
            layers[i] = layer_of(layers[i].state.kind, layers[i].state.window,
                                 layers[i].slots_count, length);
            states[i] = before[i] = layers[i].state;
        }
        for (uint32_t pos = 0; pos <= length + 2; pos++) {
            bool all = true;
            for (size_t i = 0; i < count; i++)
                all = all && oracle_possible(&layers[i], pos);
            assert_int_equal(hearth_can_restore_to(states, count, pos), all);
            /* Nesting makes no difference: the parts of a part are parts. */
            size_t half = count / 2;
            if (half > 0)
                assert_int_equal(hearth_can_restore_to(states, half, pos) &&
                                     hearth_can_restore_to(states + half, count - half, pos),
                                 all);
            longest = all ? pos : longest;
            assert_int_equal(hearth_longest_restore(states, count, pos), longest);
        }
        uint32_t pos = (uint32_t)test_random_below(&seed, length + 1);
        struct hearth_restored result = hearth_restore_to(states, count, pos);
        restored += result.restored;
        for (size_t i = 0; i < count; i++) {
            alike += same(&states[i], &before[i]);
            if (result.restored)
                assert_int_equal(states[i].length, pos);
        }
        if (!result.restored)
            assert_int_equal(alike, count);
    }
    assert_true(restored > 500);
    assert_false(hearth_can_restore_to(NULL, 0, 0));
    assert_false(hearth_restore_to(NULL, 0, 0).restored);
    assert_int_equal(hearth_longest_restore(NULL, 0, 100), 0);
}

static void test_i29_what_is_not_known_is_not_sliceable(void **state)
{
    static const struct hearth_retained odd[] = {
        {.kind = 0, .length = 50},
        {.kind = 16, .length = 50, .window = 8},
        {.kind = HEARTH_KIND_FULL | HEARTH_KIND_SLIDING, .length = 50, .window = 8},
        {.kind = UINT32_MAX, .length = 50},
        {.kind = HEARTH_KIND_SLIDING, .length = 50, .window = 0},
        {.kind = HEARTH_KIND_CHUNKED, .length = 50, .window = 0},
        {.kind = HEARTH_KIND_SLIDING, .length = 50, .window = 8, .start = 51},
        {.kind = HEARTH_KIND_CHUNKED, .length = 50, .window = 8, .start = UINT32_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        struct hearth_range range = hearth_retained_range(&odd[i]);
        assert_int_equal(range.begin, range.end);
        for (uint32_t pos = 0; pos <= 60; pos++)
            assert_int_equal(hearth_can_restore_to(&odd[i], 1, pos), pos == 50);
    }
}

static void test_large_numbers_do_not_wrap(void **state)
{
    struct hearth_retained sliding = {
        .kind = HEARTH_KIND_SLIDING, .length = UINT32_MAX, .window = UINT32_MAX, .start = 2};
    struct hearth_retained chunked = sliding;

    (void)state;
    chunked.kind = HEARTH_KIND_CHUNKED;
    chunked.length--;
    assert_int_equal(hearth_longest_restore(&sliding, 1, UINT32_MAX), 0);
    assert_int_equal(hearth_longest_restore(&chunked, 1, UINT32_MAX), 0);
    chunked.length++;
    assert_int_equal(hearth_longest_restore(&chunked, 1, UINT32_MAX), UINT32_MAX);
    sliding.start = 0;
    assert_int_equal(hearth_longest_restore(&sliding, 1, UINT32_MAX), UINT32_MAX);
}

TEST_SUITE(TEST(test_every_kind_equals_explicit_rows),
           TEST(test_i19_restored_windows_stay_consistent),
           TEST(test_i15_recurrent_state_is_checkpoint_only),
           TEST(test_i16_saturated_ring_has_only_its_own_length),
           TEST(test_i16_pinned_front_is_never_restorable),
           TEST(test_i17_refused_restore_changes_nothing),
           TEST(test_i18_composite_is_all_or_nothing),
           TEST(test_i29_what_is_not_known_is_not_sliceable), TEST(test_large_numbers_do_not_wrap))
