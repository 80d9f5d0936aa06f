/*
 * object_path.c: paths of objects and their keys, and names that are none.
 */
#include "base/object_path.h"

#include <stdio.h>
#include <string.h>

#include "support/test.h"

static void test_names(void **state)
{
    uint64_t seed = test_seed();
    struct hash256 key = hash256_of("object", 6), parsed;
    char name[OBJECT_PATH_BYTES], hex[HASH256_HEX_BYTES];

    (void)state;
    hash256_hex(&key, hex);
    object_path(&key, name);
    assert_int_equal(strlen(name), OBJECT_PATH_BYTES - 1);
    assert_memory_equal(name, hex, 2);
    assert_int_equal(name[2], '/');
    assert_memory_equal(name + 3, hex + 2, 2);
    assert_int_equal(name[5], '/');
    assert_memory_equal(name + 6, hex, 64);
    assert_string_equal(name + 70, ".hobj");
    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < sizeof(key); i++)
            key.bytes[i] = (uint8_t)test_random_below(&seed, 256);
        object_path(&key, name);
        assert_true(object_path_parse(test_guarded(name, strlen(name)), strlen(name), &parsed));
        assert_memory_equal(&parsed, &key, sizeof(key));
    }
}

static void test_other_names_are_refused(void **state)
{
    struct hash256 key = hash256_of("object", 6), parsed, before;
    char name[OBJECT_PATH_BYTES], changed[OBJECT_PATH_BYTES + 1];

    (void)state;
    memset(&parsed, 0x5A, sizeof(parsed));
    before = parsed;
    object_path(&key, name);
    size_t len = strlen(name);
    for (size_t at = 0; at < len; at++) /* cut */
        assert_false(object_path_parse(test_guarded(name, at), at, &parsed));
    assert_false(object_path_parse(name, len + 1, &parsed)); /* with the NUL */
    snprintf(changed, sizeof(changed), "%s~", name);
    assert_false(object_path_parse(changed, len + 1, &parsed));
    assert_memory_equal(&parsed, &before, sizeof(before));
    for (size_t at = 0; at < len; at++) {
        for (int c = 0; c < 256; c++) {
            memcpy(changed, name, sizeof(name));
            if (changed[at] == (char)c)
                continue;
            changed[at] = (char)c;
            /* A digit after the fan-out makes the name of another object; nothing else is a name.
             */
            bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
            bool valid = digit && at >= 10 && at < 70;
            assert_int_equal(object_path_parse(changed, len, &parsed), valid);
        }
    }
}

TEST_SUITE(TEST(test_names), TEST(test_other_names_are_refused))
