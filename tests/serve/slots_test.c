/* slots_test.c: which slot a request gets, and what the slot keeps. */
#include "serve/slots.h"

#include "support/test.h"

enum { SLOTS = 3, BYTES = 1024 };

static const token_id words[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

static int32_t take(struct slots *slots, const struct hash128 *owner, const token_id *tokens,
                    size_t count)
{
    return slots_take(slots, owner, SLOT_NONE, SLOTS, tokens, count);
}

static size_t count_of(struct slots *slots, const struct hash128 *owner, int32_t id)
{
    struct buf tokens;

    buf_init(&tokens, BYTES);
    assert_true(slots_get(slots, owner, id, &tokens));
    size_t count = tokens.len / sizeof(token_id);
    buf_fini(&tokens);
    return count;
}

static void test_choice_of_a_slot(void **state)
{
    struct slots *slots = slots_create(BYTES);
    struct hash128 anna = slots_owner("anna", "m"), bert = slots_owner("bert", "m");

    (void)state;
    assert_false(hash128_eq(&anna, &bert));
    assert_int_equal(take(slots, &anna, words, 12), 0); /* unused ones in order */
    assert_int_equal(take(slots, &anna, words, 12), 1);
    assert_int_equal(take(slots, &bert, words, 12), 0);
    slots_give(slots, &anna, 0, words, 4);
    slots_give(slots, &anna, 1, words + 6, 6);
    assert_int_equal(take(slots, &anna, words + 6, 6), 1); /* continues it */
    slots_give(slots, &anna, 1, words + 6, 6);
    assert_int_equal(take(slots, &anna, words, 12), 0);
    assert_int_equal(take(slots, &anna, words, 12), 2); /* 0 is busy, 2 unused */
    assert_int_equal(take(slots, &anna, words, 12), 1); /* the only idle one */
    assert_int_equal(take(slots, &anna, words, 12), 0); /* all are busy: the one used longest ago */
    assert_int_equal(slots_take(slots, &anna, 2, SLOTS, words, 12), 2);
    slots_destroy(&slots);
    assert_null(slots);
}

static void test_tokens_of_a_slot(void **state)
{
    struct slots *slots = slots_create(BYTES);
    struct hash128 owner = slots_owner("", "m");
    token_id many[BYTES / sizeof(token_id)] = {7};
    struct buf tokens;

    (void)state;
    buf_init(&tokens, BYTES);
    assert_int_equal(take(slots, &owner, words, 12), 0);
    assert_false(slots_get(slots, &owner, 0, &tokens)); /* busy */
    slots_give(slots, &owner, 0, words, 5);
    assert_true(slots_get(slots, &owner, 0, &tokens));
    assert_int_equal(tokens.len, 5 * sizeof(token_id));
    assert_memory_equal(tokens.data, words, tokens.len);
    assert_int_equal(take(slots, &owner, words, 12), 0);
    slots_give(slots, &owner, 0, NULL, 0); /* a failed request changes nothing */
    assert_int_equal(count_of(slots, &owner, 0), 5);
    slots_put(slots, &owner, 1, many, COUNT_OF(many) - 5); /* both fit */
    assert_int_equal(count_of(slots, &owner, 0), 5);
    slots_put(slots, &owner, 1, many, COUNT_OF(many)); /* the older one is forgotten */
    assert_int_equal(count_of(slots, &owner, 0), 0);
    assert_int_equal(count_of(slots, &owner, 1), COUNT_OF(many));
    slots_put(slots, &owner, 1, NULL, 0);
    assert_int_equal(count_of(slots, &owner, 1), 0);
    assert_int_equal(count_of(slots, &owner, 2), 0); /* never used */
    buf_fini(&tokens);
    slots_destroy(&slots);
}

TEST_SUITE(TEST(test_choice_of_a_slot), TEST(test_tokens_of_a_slot))
