#include "grammar/schema_chars.h"

#include <string.h>

#include "support/test.h"

static bool is_char(uint32_t code)
{
    return code <= SCHEMA_CHAR_MAX && !(code >= 0xD800 && code <= 0xDFFF);
}

static void compare(const struct schema_chars *set, const bool *oracle)
{
    for (uint32_t code = 0; code <= SCHEMA_CHAR_MAX; code++)
        if (schema_chars_has(set, code) != oracle[code])
            fail_msg("character %X", code);
}

static void test_equals_oracle(void **state)
{
    static bool oracle[SCHEMA_CHAR_MAX + 1];
    static const uint32_t bases[] = {0, '"', 'Z', 0xD7F8, 0xDFF8, 0x10FFF0};
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 4; round++) {
        struct schema_chars set = {.count = 0};
        memset(oracle, 0, sizeof(oracle));
        for (int i = 0; i < 20; i++) {
            uint32_t low = bases[test_random_below(&seed, COUNT_OF(bases))] +
                           (uint32_t)test_random_below(&seed, 16);
            uint32_t high = low + (uint32_t)test_random_below(&seed, 8);
            high = MIN(high, SCHEMA_CHAR_MAX);
            assert_true(schema_chars_add(&set, low, high));
            for (uint32_t code = low; code <= high; code++)
                oracle[code] = is_char(code);
        }
        compare(&set, oracle);
        assert_true(schema_chars_complement(&set));
        for (uint32_t code = 0; code <= SCHEMA_CHAR_MAX; code++)
            oracle[code] = is_char(code) && !oracle[code];
        compare(&set, oracle);
        assert_true(schema_chars_keep_raw(&set));
        for (uint32_t code = 0; code <= SCHEMA_CHAR_MAX; code++)
            oracle[code] = oracle[code] && code >= 0x20 && code != '"' && code != '\\';
        compare(&set, oracle);
    }
}

static void test_says_when_it_is_full(void **state)
{
    struct schema_chars set = {.count = 0}, other = {.count = 0};

    (void)state;
    for (uint32_t i = 0; i < SCHEMA_RANGES_MAX; i++)
        assert_true(schema_chars_add(&set, 2 * i, 2 * i));
    assert_false(schema_chars_add(&set, 1000, 1000));
    assert_true(schema_chars_add(&set, 1, 1)); /* joins two of them */
    assert_true(schema_chars_add(&other, 1000, 1001));
    assert_true(schema_chars_add_all(&set, &other));
    assert_true(schema_chars_has(&set, 1001));
}

TEST_SUITE(TEST(test_equals_oracle), TEST(test_says_when_it_is_full))
