#include "engine/seqs.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { SLOTS = 12, CELLS = 400, IDS_MAX = 1 << 20 };

/* ---- the invariants of seqs.c, by looking at every pair of slots ---- */

/* The index of the span in the slot's list, or SIZE_MAX. */
static size_t find_span(const struct seqs_slot *slot, const struct seqs_span *span)
{
    for (size_t i = 0; i < slot->spans_count; i++)
        if (slot->spans[i] == span)
            return i;
    return SIZE_MAX;
}

/* S1, S3, S5 and the limits of one slot. */
static void check_slot(const struct seqs *seqs, const struct seqs_slot *slot)
{
    uint64_t length = 0;

    for (size_t i = 0; i < slot->spans_count; i++) {
        assert_true(slot->spans[i]->length > 0);
        assert_true(slot->spans[i]->users >= 1 && slot->spans[i]->users <= seqs->slots_count);
        assert_true(i == 0 || slot->spans[i]->users < slot->spans[i - 1]->users);
        assert_true(!seqs->streams || slot->spans[i]->users == 1);
        length += slot->spans[i]->length;
    }
    assert_true(length == slot->length && length <= seqs->cells);
    assert_true(slot->spans_count == 0 || slot->state == SEQS_LIVE || slot->state == SEQS_BROKEN);
}

static void seqs_check(const struct seqs *seqs)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < seqs->slots_count; i++) {
        const struct seqs_slot *slot = &seqs->slots[i];
        check_slot(seqs, slot);
        for (size_t at = 0; at < slot->spans_count; at++) {
            uint32_t users = 0, first = seqs->slots_count;
            for (uint32_t j = 0; j < seqs->slots_count; j++) {
                size_t found = find_span(&seqs->slots[j], slot->spans[at]);
                if (found == SIZE_MAX)
                    continue;
                assert_true(found == at);
                assert_true(at == 0 ||
                            seqs->slots[j].spans[at - 1] == slot->spans[at - 1]); /* S2 */
                first = users++ == 0 ? j : first;
            }
            assert_true(users == slot->spans[at]->users);
            used += first == i ? slot->spans[at]->length : 0;
        }
    }
    assert_true(used == seqs->cells_used); /* S4 */
    assert_true(seqs->streams || used <= seqs->cells);
}

/* The naive truth: each sequence is a list of cell ids. */
struct oracle {
    enum seqs_slot_state state[SLOTS];
    uint32_t length[SLOTS];
    uint32_t ids[SLOTS][CELLS];
    uint32_t next_id;
    bool streams;
};

static uint32_t oracle_used(const struct oracle *oracle)
{
    static uint8_t seen[IDS_MAX];
    uint32_t used = 0;

    for (int slot = 0; slot < SLOTS; slot++)
        for (uint32_t i = 0; i < oracle->length[slot]; i++)
            used += seen[oracle->ids[slot][i]]++ == 0;
    for (int slot = 0; slot < SLOTS; slot++)
        for (uint32_t i = 0; i < oracle->length[slot]; i++)
            seen[oracle->ids[slot][i]] = 0;
    return used;
}

static uint32_t oracle_count(const struct oracle *oracle, enum seqs_slot_state state)
{
    uint32_t count = 0;

    for (int slot = 0; slot < SLOTS; slot++)
        count += oracle->state[slot] == state;
    return count;
}

static void oracle_append(struct oracle *oracle, int32_t slot, uint32_t tokens)
{
    for (uint32_t i = 0; i < tokens; i++) {
        assert_true(oracle->next_id < IDS_MAX);
        oracle->ids[slot][oracle->length[slot]++] = oracle->next_id++;
    }
}

static void oracle_fork(struct oracle *oracle, int32_t from, int32_t to)
{
    oracle->state[to] = SEQS_LIVE;
    if (oracle->streams) {
        oracle_append(oracle, to, oracle->length[from]);
        return;
    }
    memcpy(oracle->ids[to], oracle->ids[from], sizeof(oracle->ids[to]));
    oracle->length[to] = oracle->length[from];
}

static void compare(const struct seqs *seqs, const struct oracle *oracle)
{
    uint32_t used = oracle_used(oracle);

    seqs_check(seqs);
    assert_int_equal(seqs->cells_used, used);
    assert_int_equal(seqs_cells_free(seqs), oracle->streams ? CELLS : CELLS - used);
    assert_int_equal(seqs_live_count(seqs), oracle_count(oracle, SEQS_LIVE));
    for (int32_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(seqs_live(seqs, slot), oracle->state[slot] == SEQS_LIVE);
        assert_int_equal(seqs_length(seqs, slot), oracle->length[slot]);
    }
}

/* A new slot was free before. */
static void expect_slot(struct oracle *oracle, int32_t slot)
{
    if (slot == SEQS_NONE) {
        assert_int_equal(oracle_count(oracle, SEQS_FREE), 0);
        return;
    }
    assert_int_in_range(slot, 0, SLOTS - 1);
    assert_int_equal(oracle->state[slot], SEQS_FREE);
    oracle->state[slot] = SEQS_LIVE;
}

static void step_live(struct seqs *seqs, struct oracle *oracle, int32_t slot, uint64_t *seed)
{
    uint32_t used = oracle->streams ? oracle->length[slot] : oracle_used(oracle);
    uint64_t op = test_random_below(seed, 100);
    uint32_t n;

    if (op < 30) {
        int32_t to = seqs_fork(seqs, slot);
        expect_slot(oracle, to);
        if (to != SEQS_NONE)
            oracle_fork(oracle, slot, to);
    } else if (op < 60) {
        n = (uint32_t)test_random_below(seed, MIN(CELLS - used, 60u) + 1);
        seqs_append(seqs, slot, n);
        oracle_append(oracle, slot, n);
    } else if (op < 90) {
        n = (uint32_t)test_random_below(seed, oracle->length[slot] + 1);
        seqs_truncate(seqs, slot, n);
        oracle->length[slot] = n;
    } else {
        seqs_release(seqs, slot);
        oracle->state[slot] = SEQS_FREE;
        oracle->length[slot] = 0;
    }
}

static void run_against_oracle(bool streams, int steps, bool failures)
{
    uint64_t seed = test_seed();
    struct oracle *oracle = mem_alloc(sizeof(*oracle));
    static struct seqs seqs;

    oracle->streams = streams;
    seqs_init(&seqs, SLOTS, CELLS, streams);
    for (int step = 0; step < steps; step++) {
        int32_t slot = (int32_t)test_random_below(&seed, SLOTS);
        if (oracle->state[slot] == SEQS_BROKEN) {
            seqs_release(&seqs, slot);
            oracle->state[slot] = SEQS_FREE;
            oracle->length[slot] = 0;
        } else if (oracle->state[slot] != SEQS_LIVE) {
            expect_slot(oracle, seqs_acquire(&seqs));
        } else if (failures && test_random_below(&seed, 50) == 0) {
            seqs_break(&seqs, slot);
            oracle->state[slot] = SEQS_BROKEN;
        } else if (failures && test_random_below(&seed, 100) == 0) {
            seqs_retire(&seqs, slot);
            oracle->state[slot] = SEQS_RETIRED;
            oracle->length[slot] = 0;
        } else {
            step_live(&seqs, oracle, slot, &seed);
        }
        compare(&seqs, oracle);
    }
    seqs_fini(&seqs);
    mem_free(oracle);
}

static void test_equals_oracle(void **state)
{
    (void)state;
    run_against_oracle(false, 10000, false);
}

static void test_equals_oracle_with_failures(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++)
        run_against_oracle(false, 600, true);
}

static void test_equals_oracle_with_streams(void **state)
{
    (void)state;
    run_against_oracle(true, 4000, false);
    run_against_oracle(true, 1000, true);
}

static void test_header_drawing(void **state)
{
    static struct seqs seqs;

    (void)state;
    seqs_init(&seqs, 2, 1000, false);
    int32_t a = seqs_acquire(&seqs);
    seqs_append(&seqs, a, 600);
    int32_t b = seqs_fork(&seqs, a);
    seqs_truncate(&seqs, b, 512);
    assert_int_equal(seqs.cells_used, 600);
    seqs_append(&seqs, b, 40);
    assert_int_equal(seqs.cells_used, 640);
    assert_int_equal(seqs_cells_free(&seqs), 360);
    assert_int_equal(seqs_fork(&seqs, a), SEQS_NONE);
    assert_int_equal(seqs_acquire(&seqs), SEQS_NONE);
    /* What the fork shares outlives its source. */
    seqs_release(&seqs, a);
    seqs_check(&seqs);
    assert_int_equal(seqs.cells_used, 552);
    assert_int_equal(seqs_length(&seqs, b), 552);
    seqs_fini(&seqs);
}

static void test_a_broken_slot_keeps_its_cells_until_released(void **state)
{
    static struct seqs seqs;

    (void)state;
    seqs_init(&seqs, 1, 100, false);
    int32_t a = seqs_acquire(&seqs);
    seqs_append(&seqs, a, 30);
    seqs_break(&seqs, a);
    assert_false(seqs_live(&seqs, a));
    assert_int_equal(seqs.cells_used, 30);
    assert_int_equal(seqs_acquire(&seqs), SEQS_NONE);
    seqs_release(&seqs, a);
    assert_int_equal(seqs.cells_used, 0);
    assert_int_equal(seqs_acquire(&seqs), a);
    seqs_check(&seqs);
    seqs_fini(&seqs);
}

static void test_i102_a_retired_slot_comes_back_when_nothing_is_in_use(void **state)
{
    static struct seqs seqs;

    (void)state;
    seqs_init(&seqs, 2, 100, false);
    int32_t a = seqs_acquire(&seqs);
    seqs_append(&seqs, a, 30);
    seqs_retire(&seqs, a);
    assert_false(seqs_live(&seqs, a));
    assert_int_equal(seqs.cells_used, 0);
    int32_t b = seqs_acquire(&seqs);
    assert_int_not_equal(b, a);
    assert_int_equal(seqs_acquire(&seqs), SEQS_NONE);
    seqs_recycle(&seqs); /* b lives */
    seqs_break(&seqs, b);
    seqs_recycle(&seqs);
    assert_int_equal(seqs_acquire(&seqs), SEQS_NONE);
    seqs_release(&seqs, b);
    seqs_recycle(&seqs);
    assert_int_equal(seqs_acquire(&seqs), a);
    assert_int_equal(seqs_acquire(&seqs), b);
    seqs_check(&seqs);
    seqs_fini(&seqs);
}

static void test_any_number_may_be_asked_about(void **state)
{
    static struct seqs seqs;

    (void)state;
    seqs_init(&seqs, SEQS_SLOTS_MAX, 1, false);
    assert_false(seqs_live(&seqs, SEQS_NONE));
    assert_false(seqs_live(&seqs, SEQS_SLOTS_MAX));
    assert_false(seqs_live(&seqs, INT32_MIN));
    assert_false(seqs_live(&seqs, INT32_MAX));
    assert_false(seqs_live(&seqs, 0));
    seqs_fini(&seqs);
}

/* Sharing that has ended leaves nothing behind: a long life of short forks does not shred the
 * books. */
static void test_short_forks_leave_no_splinters(void **state)
{
    uint64_t seed = test_seed();
    static struct seqs seqs;

    (void)state;
    seqs_init(&seqs, 4, 100000, false);
    int32_t anchor = seqs_acquire(&seqs);
    seqs_append(&seqs, anchor, 50000);
    for (int round = 0; round < 2000; round++) {
        int32_t fork = seqs_fork(&seqs, anchor);
        seqs_truncate(&seqs, fork, (uint32_t)test_random_below(&seed, 50001));
        seqs_append(&seqs, fork, 1 + (uint32_t)test_random_below(&seed, 100));
        seqs_release(&seqs, fork);
        assert_int_equal(seqs.slots[anchor].spans_count, 1);
    }
    assert_int_equal(seqs.cells_used, 50000);
    seqs_fini(&seqs);
}

/* Books that follow others take the slot that those have taken. */
static void test_a_given_slot_can_be_claimed(void **state)
{
    struct seqs seqs;

    (void)state;
    seqs_init(&seqs, 4, 100, false);
    seqs_claim(&seqs, 2);
    assert_true(seqs_live(&seqs, 2) && seqs_length(&seqs, 2) == 0);
    seqs_append(&seqs, 2, 7);
    assert_int_equal(seqs_acquire(&seqs), 0);
    assert_int_equal(seqs_acquire(&seqs), 1);
    assert_int_equal(seqs_acquire(&seqs), 3);
    seqs_release(&seqs, 2);
    seqs_claim(&seqs, 2);
    assert_int_equal(seqs_length(&seqs, 2), 0);
    seqs_check(&seqs);
    seqs_fini(&seqs);
}

/* ---- folds ---- */

/* Tokens 4..13 take 3 positions, 20..24 take 2. */
static void test_folds(void **state)
{
    static const uint32_t positions[] = {0, 1, 2, 3,  4,  4,  4,  4,  4,  4,  4,  4,  4,
                                         7, 8, 9, 10, 11, 12, 13, 14, 14, 14, 14, 16, 17};
    static struct seqs seqs;

    (void)state;
    seqs_init(&seqs, 2, CELLS, false);
    int32_t a = seqs_acquire(&seqs);
    seqs_append(&seqs, a, 4);
    seqs_fold(&seqs, a, (struct seqs_fold){4, 13, 3}); /* before its tokens, as a restore does */
    seqs_append(&seqs, a, 16);
    seqs_fold(&seqs, a, (struct seqs_fold){20, 24, 2});
    seqs_append(&seqs, a, 4);
    int32_t b = seqs_fork(&seqs, a);
    for (uint32_t i = 0; i < COUNT_OF(positions); i++) {
        uint32_t floor = i > 4 && i < 13 ? 4 : i > 20 && i < 24 ? 20 : i;
        assert_int_equal(seqs_position(&seqs, b, i), positions[i]);
        assert_int_equal(seqs_floor(&seqs, b, i), floor);
    }
    seqs_truncate(&seqs, b, 20);
    assert_int_equal(seqs_position(&seqs, b, 24), 18);
    assert_int_equal(seqs_position(&seqs, a, 24), 16);
    seqs_truncate(&seqs, b, 13); /* right after a picture: its fold stays */
    assert_int_equal(seqs_position(&seqs, b, 13), 7);
    seqs_append(&seqs, b, 1);
    assert_int_equal(seqs_position(&seqs, b, 14), 8);
    seqs_truncate(&seqs, b, 4); /* before it */
    assert_int_equal(seqs_position(&seqs, b, 13), 13);
    seqs_unfold(&seqs, a, 4);
    assert_int_equal(seqs_position(&seqs, a, 24), 24);
    seqs_release(&seqs, b);
    b = seqs_acquire(&seqs);
    assert_int_equal(seqs_position(&seqs, b, 24), 24);
    seqs_fini(&seqs);
}

TEST_SUITE(TEST(test_folds), TEST(test_equals_oracle), TEST(test_a_given_slot_can_be_claimed),
           TEST(test_equals_oracle_with_failures), TEST(test_equals_oracle_with_streams),
           TEST(test_header_drawing), TEST(test_a_broken_slot_keeps_its_cells_until_released),
           TEST(test_i102_a_retired_slot_comes_back_when_nothing_is_in_use),
           TEST(test_any_number_may_be_asked_about), TEST(test_short_forks_leave_no_splinters))
