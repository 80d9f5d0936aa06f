/*
 * lora_test.c: sets of adapters: their fingerprints, what activates one, and salted keys.
 */
#include "engine/lora.h"

#include <math.h>
#include <string.h>

#include "support/test.h"

enum { VOCAB = 1000 };

/* 0 and 1 are plain, 2 and 3 are activated by {7, 8} and {9}. */
static struct lora_facts make_facts(void)
{
    struct lora_facts facts = {.count = 4};

    for (unsigned char i = 0; i < 4; i++)
        facts.list[i].digest.bytes[0] = (unsigned char)(i + 1);
    facts.list[2].invocation[0] = 7;
    facts.list[2].invocation[1] = 8;
    facts.list[2].invocation_count = 2;
    facts.list[3].invocation[0] = 9;
    facts.list[3].invocation_count = 1;
    return facts;
}

static void test_sets_have_their_own_fingerprints(void **state)
{
    static const struct hash256 base = {{1}}, other = {{2}};
    struct lora_facts facts = make_facts(), swapped = facts;
    const struct lora_set sets[] = {{{0}}, {{1}}, {{0, 1}}, {{1, 1}}, {{0.5f}}, {{-1}}};
    struct hash256 seen[COUNT_OF(sets) + 1];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sets); i++)
        seen[i] = lora_fingerprint(&base, &facts, &sets[i]);
    seen[COUNT_OF(sets)] = lora_fingerprint(&other, &facts, &sets[1]);
    assert_true(hash256_eq(&seen[0], &base));
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        for (size_t k = 0; k < i; k++)
            assert_false(hash256_eq(&seen[i], &seen[k]));
    /* The place in the list is no part: another server may load them in another order. */
    swapped.list[0] = facts.list[1];
    swapped.list[1] = facts.list[0];
    struct hash256 again = lora_fingerprint(&base, &swapped, &sets[2]);
    assert_true(hash256_eq(&again, &seen[1]));
    /* An activated one uses the space of the others. */
    again = lora_fingerprint(&base, &facts, &(struct lora_set){{1, 0, 1}});
    assert_true(hash256_eq(&again, &seen[1]));
}

static void test_impossible_sets_are_refused(void **state)
{
    struct lora_facts facts = make_facts();
    struct errinfo info = {0};

    (void)state;
    assert_ok(lora_set_check(&facts, &(struct lora_set){{1, 1, 1}}, &info));
    assert_err(lora_set_check(&facts, &(struct lora_set){{0, 0, 1, 1}}, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "only one"));
    assert_err(lora_set_check(&facts, &(struct lora_set){{0, 0, 0, 0, 1}}, &info), ERR_INVALID);
    assert_non_null(strstr(info.text, "no adapter 4"));
    assert_err(lora_set_check(&facts, &(struct lora_set){{NAN}}, &info), ERR_INVALID);
    assert_err(lora_set_check(&facts, &(struct lora_set){{INFINITY}}, &info), ERR_INVALID);
}

static uint32_t from_of(const struct lora_set *set, const int32_t *tokens, uint32_t count)
{
    struct lora_facts facts = make_facts();

    return lora_plan_make(&facts, set, tokens, count).from;
}

static void test_the_last_invocation_counts(void **state)
{
    static const int32_t prompt[] = {7, 8, 1, 7, 8, 7, 9};
    const struct lora_set pair = {{0, 1, 1}}, single = {{0, 0, 0, 1}}, plain = {{1}};
    struct lora_facts facts = make_facts();

    (void)state;
    assert_int_equal(from_of(&pair, prompt, 7), 3);
    assert_int_equal(from_of(&pair, prompt, 4), 0);
    assert_int_equal(from_of(&pair, prompt, 1), UINT32_MAX);
    assert_int_equal(from_of(&single, prompt, 7), 6);
    assert_int_equal(from_of(&single, prompt, 6), UINT32_MAX);
    assert_int_equal(from_of(&plain, prompt, 7), UINT32_MAX);
    struct lora_plan plan = lora_plan_make(&facts, &pair, prompt, 7);
    assert_true(lora_plan_at(&plan, 2)->scale[2] == 0 && lora_plan_at(&plan, 2)->scale[1] == 1);
    assert_true(lora_set_eq(lora_plan_at(&plan, 3), &pair));
    /* Without its invocation it is never applied. */
    plan = lora_plan_make(&facts, &single, prompt, 6);
    assert_true(lora_set_eq(lora_plan_at(&plan, 5), &(struct lora_set){0}));
}

static void test_salted_keys_tell_adapters_apart(void **state)
{
    static const int32_t prompt[] = {1, 2, 3, 9, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5};
    enum { COUNT = COUNT_OF(prompt), FROM = 9 };
    struct lora_facts facts = make_facts();
    const struct lora_set one = {{0, 0, 0, 1}}, half = {{0, 0, 0, 0.5f}};
    struct lora_plan plan = lora_plan_make(&facts, &one, prompt, COUNT);
    struct lora_plan other = lora_plan_make(&facts, &half, prompt, COUNT);
    int32_t keys[COUNT], others[COUNT], back[COUNT];

    (void)state;
    memcpy(keys, prompt, sizeof(keys));
    memcpy(others, prompt, sizeof(others));
    lora_salt(&facts, &plan, VOCAB, keys, COUNT);
    lora_salt(&facts, &other, VOCAB, others, COUNT);
    assert_memory_equal(keys, prompt, FROM * sizeof(*keys));
    for (size_t i = FROM; i < COUNT; i++) {
        assert_true(keys[i] >= VOCAB && others[i] >= VOCAB);
        assert_int_not_equal(keys[i], others[i]);
    }
    /* Undone for any part of it. */
    for (uint32_t begin = 0; begin < COUNT; begin++)
        for (uint32_t end = begin + 1; end <= COUNT; end++) {
            memcpy(back, keys + begin, (end - begin) * sizeof(*back));
            lora_unsalt(&facts, &plan, VOCAB, back, begin, end - begin, COUNT);
            assert_memory_equal(back, prompt + begin, (end - begin) * sizeof(*back));
            assert_int_equal(lora_is_salted(&plan, begin, end - begin, COUNT), end > FROM);
        }
}

/* The rest of a long prompt has its own keys again. */
static void test_only_the_first_keys_are_salted(void **state)
{
    struct lora_facts facts = make_facts();
    int32_t prompt[32] = {[4] = 9}, keys[32];
    struct lora_plan plan = lora_plan_make(&facts, &(struct lora_set){{0, 0, 0, 1}}, prompt, 32);

    (void)state;
    memcpy(keys, prompt, sizeof(keys));
    lora_salt(&facts, &plan, VOCAB, keys, 32);
    assert_true(keys[4 + LORA_SALTED - 1] >= VOCAB);
    assert_memory_equal(keys + 4 + LORA_SALTED, prompt + 4 + LORA_SALTED,
                        (32 - 4 - LORA_SALTED) * sizeof(*keys));
    assert_false(lora_is_salted(&plan, 4 + LORA_SALTED, 4, 32));
    assert_false(lora_is_salted(&plan, 0, 4, 32));
    assert_true(lora_is_salted(&plan, 0, 5, 32));
}

TEST_SUITE(TEST(test_sets_have_their_own_fingerprints), TEST(test_impossible_sets_are_refused),
           TEST(test_the_last_invocation_counts), TEST(test_salted_keys_tell_adapters_apart),
           TEST(test_only_the_first_keys_are_salted))
