/* Pieces and their tokens, remembered. */
#include "chat/tokens_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { KEYS = 40, TOKENS_PER_KEY_MAX = 30 };

static struct hash256 key_of(size_t i)
{
    char text[16];
    int len = snprintf(text, sizeof(text), "%zu", i);

    return token_memo_key(STR_NONE, STR_NONE, (struct str){text, (size_t)len}, 1);
}

static size_t count_of(size_t i)
{
    return i * 7 % TOKENS_PER_KEY_MAX;
}

static void put(struct token_memo *memo, size_t i)
{
    int32_t ids[TOKENS_PER_KEY_MAX];
    struct hash256 key = key_of(i);

    for (size_t k = 0; k < count_of(i); k++)
        ids[k] = (int32_t)(i * 100 + k);
    token_memo_put(memo, &key, ids, count_of(i));
}

static bool get(struct token_memo *memo, size_t i)
{
    struct token_list list = {0};
    struct hash256 key = key_of(i);
    enum token_memo_answer answer = token_memo_get(memo, &key, &list);

    assert_true(answer != TOKEN_MEMO_NOMEM);
    assert_int_equal(list.count, answer == TOKEN_MEMO_HIT ? count_of(i) : 0);
    for (size_t k = 0; k < list.count; k++)
        assert_int_equal(list.ids[k], i * 100 + k);
    mem_free(list.ids);
    return answer == TOKEN_MEMO_HIT;
}

/* The naive one: keys in the order of their last use. */
struct oracle {
    size_t keys[KEYS];
    size_t count, bytes, bytes_max, overhead;
};

static size_t bytes_of(const struct oracle *o, size_t i)
{
    return o->overhead + count_of(i) * sizeof(int32_t);
}

static bool oracle_take(struct oracle *o, size_t i)
{
    for (size_t k = 0; k < o->count; k++)
        if (o->keys[k] == i) {
            memmove(o->keys + k, o->keys + k + 1, (--o->count - k) * sizeof(*o->keys));
            o->bytes -= bytes_of(o, i);
            return true;
        }
    return false;
}

static void oracle_add(struct oracle *o, size_t i)
{
    while (o->bytes + bytes_of(o, i) > o->bytes_max)
        oracle_take(o, o->keys[0]);
    o->keys[o->count++] = i;
    o->bytes += bytes_of(o, i);
}

static void test_the_least_recently_used_goes(void **state)
{
    struct token_memo *probe = token_memo_create(1 << 20);
    struct oracle oracle = {.bytes_max = 2000};
    uint64_t random = test_seed();

    (void)state;
    put(probe, 0); /* no tokens: what an entry costs */
    oracle.overhead = token_memo_stats(probe).bytes;
    token_memo_destroy(&probe);
    struct token_memo *memo = token_memo_create(oracle.bytes_max);
    for (int round = 0; round < 20000; round++) {
        size_t i = test_random_below(&random, KEYS);
        if (test_random_below(&random, 2)) {
            bool there = oracle_take(&oracle, i);
            assert_int_equal(get(memo, i), there);
            if (there)
                oracle_add(&oracle, i);
        } else {
            bool there = false;
            for (size_t k = 0; k < oracle.count; k++)
                there |= oracle.keys[k] == i;
            put(memo, i);
            if (!there)
                oracle_add(&oracle, i);
        }
        struct token_memo_stats stats = token_memo_stats(memo);
        assert_int_equal(stats.entries, oracle.count);
        assert_int_equal(stats.bytes, oracle.bytes);
        assert_true(stats.bytes <= oracle.bytes_max);
    }
    token_memo_clear(memo);
    assert_int_equal(token_memo_stats(memo).bytes, 0);
    token_memo_destroy(&memo);
}

static void test_keys_differ(void **state)
{
    struct hash256 keys[] = {
        token_memo_key(STR_NONE, STR_NONE, STR("a"), 0),
        token_memo_key(STR_NONE, STR_NONE, STR("a"), 1),
        token_memo_key(STR_NONE, STR_NONE, STR("b"), 0),
        token_memo_key(STR("t"), STR_NONE, STR("a"), 0),
        token_memo_key(STR("u"), STR_NONE, STR("a"), 0),
        token_memo_key(STR_NONE, STR("t"), STR("a"), 0),
        token_memo_key(STR("t"), STR("u"), STR("a"), 0),
        token_memo_key(STR("tu"), STR_NONE, STR("a"), 0),
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        for (size_t k = 0; k < i; k++)
            assert_false(hash256_eq(&keys[i], &keys[k]));
}

static void test_too_large_is_not_remembered(void **state)
{
    struct token_memo *memo = token_memo_create(64);

    (void)state;
    put(memo, 1);
    assert_int_equal(token_memo_stats(memo).entries, 0);
    assert_false(get(memo, 1));
    token_memo_destroy(&memo);
}

static void test_no_memory(void **state)
{
    struct token_memo *memo = token_memo_create(1 << 20);
    struct fault fault = {0};
    struct hash256 key = key_of(1);

    (void)state;
    mem_set_fault(&fault);
    fault_arm(&fault, 1, true);
    put(memo, 1); /* forgotten, not an error */
    mem_set_fault(NULL);
    assert_false(get(memo, 1));
    put(memo, 1);
    struct token_list list = {0};
    mem_set_fault(&fault);
    assert_int_equal(token_memo_get(memo, &key, &list), TOKEN_MEMO_NOMEM);
    mem_set_fault(NULL);
    assert_null(list.ids);
    assert_true(get(memo, 1));
    assert_false(token_list_reserve(&(struct token_list){0}, SIZE_MAX / 2));
    token_memo_destroy(&memo);
}

TEST_SUITE(TEST(test_the_least_recently_used_goes), TEST(test_keys_differ),
           TEST(test_too_large_is_not_remembered), TEST(test_no_memory))
