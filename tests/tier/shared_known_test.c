/*
 * shared_known_test.c: heads and empty pages that a process remembers.
 */
#include "tier/shared_known.h"

#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { BYTES = 100 };

static struct hash256 key_of(uint32_t n)
{
    struct hash256 key = {{0}};

    memcpy(key.bytes, &n, sizeof(n));
    return key;
}

static void add(struct shared_known *known, uint32_t n, uint8_t digest)
{
    struct shared_head head = {.meta = {.key = key_of(n), .bytes = BYTES}, .parts = 1};

    head.digests = mem_alloc(sizeof(*head.digests));
    head.digests[0].bytes[0] = digest;
    head.tokens = mem_alloc(sizeof(*head.tokens));
    shared_known_add(known, &head);
    assert_null(head.digests); /* taken over */
    assert_null(head.tokens);
}

static bool knows(struct shared_known *known, uint32_t n)
{
    struct hash256 key = key_of(n);

    return shared_known_find(known, &key) != NULL;
}

static void test_heads(void **state)
{
    static struct shared_known known;
    struct hash256 key = key_of(1);
    struct shared_head copy;

    (void)state;
    shared_known_init(&known);
    assert_false(shared_known_copy(&known, &key, &copy));
    add(&known, 1, 5);
    add(&known, 1, 6); /* replaces it */
    assert_int_equal(known.bytes, BYTES);
    assert_true(shared_known_copy(&known, &key, &copy));
    assert_true(shared_known_remove(&known, &key));
    assert_false(shared_known_remove(&known, &key));
    assert_int_equal(copy.digests[0].bytes[0], 6); /* it outlives the known one */
    assert_int_equal(known.bytes, 0);
    shared_head_fini(&copy);
    shared_known_fini(&known);
}

static void test_least_recently_used_are_forgotten(void **state)
{
    static struct shared_known known;
    struct hash256 key = key_of(0);
    struct shared_head copy;

    (void)state;
    shared_known_init(&known);
    for (uint32_t i = 0; i < SHARED_KNOWN_MAX; i++)
        add(&known, i, 0);
    assert_true(shared_known_copy(&known, &key, &copy)); /* a use */
    shared_head_fini(&copy);
    add(&known, SHARED_KNOWN_MAX, 0);
    assert_true(knows(&known, 0));
    assert_false(knows(&known, 1));
    assert_true(knows(&known, 2));
    assert_int_equal(known.bytes, (uint64_t)SHARED_KNOWN_MAX * BYTES);
    shared_known_fini(&known);
}

static void test_empty_pages(void **state)
{
    static struct shared_known known;
    struct hash256 space = key_of(1), other = key_of(2), place = key_of(3);

    (void)state;
    shared_known_init(&known);
    assert_false(shared_known_is_empty(&known, &space, &place, 1));
    shared_known_set_empty(&known, &space, &place, 10);
    assert_true(shared_known_is_empty(&known, &space, &place, 9));
    assert_false(shared_known_is_empty(&known, &space, &place, 10)); /* its time is over */
    assert_false(shared_known_is_empty(&known, &other, &place, 9));
    assert_false(shared_known_is_empty(&known, NULL, &place, 9)); /* a note */
    shared_known_set_empty(&known, &space, &place, 0);
    assert_false(shared_known_is_empty(&known, &space, &place, 9));
    shared_known_fini(&known);
}

TEST_SUITE(TEST(test_heads), TEST(test_least_recently_used_are_forgotten), TEST(test_empty_pages))
