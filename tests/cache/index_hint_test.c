/*
 * A match with a hint equals the match without one, whatever was inserted, grown or removed since
 * the hint was given. Random operations on a few strings with common beginnings, each with its own
 * hint; the oracle is index_match, which index_oracle_test compares with a naive model.
 */
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "cache/index.h"
#include "support/cache_check.h"
#include "support/test.h"

enum { STRINGS = 6, TOKENS_MAX = 24, OBJECTS = 20, STEPS = 60000 };

struct string {
    int32_t tokens[TOKENS_MAX];
    struct index_hint hint;
};

struct hints {
    struct index *index;
    uint64_t seed;
    struct string strings[STRINGS];
    struct object objects[OBJECTS];
};

static uint32_t below(struct hints *hints, uint32_t n)
{
    return (uint32_t)test_random_below(&hints->seed, n);
}

static void make_strings(struct hints *hints)
{
    for (size_t i = 0; i < STRINGS; i++) {
        struct string *string = &hints->strings[i];
        *string = i > 0 ? hints->strings[below(hints, (uint32_t)i)] : (struct string){{0}, {0}};
        string->hint = (struct index_hint){0};
        for (uint32_t at = below(hints, TOKENS_MAX); at < TOKENS_MAX; at++)
            string->tokens[at] = (int32_t)below(hints, 2);
    }
}

static void no_drop(struct object *object, void *arg)
{
    (void)object;
    (void)arg;
    fail_msg("snapshots displace nothing");
}

/* A snapshot at a random place keeps the nodes before it; one that is there is taken away. */
static void change(struct hints *hints)
{
    struct object *object = &hints->objects[below(hints, OBJECTS)];
    struct string *string = &hints->strings[below(hints, STRINGS)];

    if (object->last != NULL) {
        index_detach(hints->index, object);
        return;
    }
    *object = (struct object){.kind = HEARTH_OBJECT_SNAPSHOT, .end = 1 + below(hints, TOKENS_MAX)};
    struct node *plain = index_insert(hints->index, string->tokens, object->end);
    struct node *last =
        index_insert_hinted(hints->index, string->tokens, object->end, &string->hint);
    assert_non_null(last);
    assert_ptr_equal(last, plain);
    if (index_may_attach(hints->index, last, object))
        index_attach(hints->index, last, object, no_drop, NULL);
    else
        index_prune(hints->index, last);
}

/* The same with the hint first, so that new nodes are remembered by the call that made them. */
static void insert_hinted_first(struct hints *hints)
{
    struct string *string = &hints->strings[below(hints, STRINGS)];
    uint32_t count = 1 + below(hints, TOKENS_MAX);
    struct node *last = index_insert_hinted(hints->index, string->tokens, count, &string->hint);

    assert_non_null(last);
    assert_true(node_end(last) >= count && node_begin(last) < count);
    index_prune(hints->index, last);
}

static void compare(struct hints *hints)
{
    struct string *string = &hints->strings[below(hints, STRINGS)];
    uint32_t count = 1 + below(hints, TOKENS_MAX);
    struct index_match plain = index_match(hints->index, string->tokens, count);
    struct node *path[TOKENS_MAX];

    if (plain.nodes_count > 0) {
        memcpy(path, plain.path, plain.nodes_count * sizeof(*path));
        /* Others match in between, and overwrite the path that the index keeps. */
        index_match(hints->index, hints->strings[below(hints, STRINGS)].tokens,
                    1 + below(hints, TOKENS_MAX));
    }
    struct index_match hinted =
        index_match_hinted(hints->index, string->tokens, count, &string->hint);
    assert_int_equal(hinted.tokens, plain.tokens);
    assert_int_equal(hinted.nodes_count, plain.nodes_count);
    assert_ptr_equal(hinted.partial, plain.partial);
    assert_int_equal(hinted.partial_tokens, plain.partial_tokens);
    if (plain.nodes_count > 0)
        assert_memory_equal(hinted.path, path, plain.nodes_count * sizeof(*path));
}

static void test_hinted_is_plain(void **state)
{
    struct hints *hints = mem_alloc(sizeof(*hints));
    struct hash256 key = hash256_of("hints", 5);

    (void)state;
    hints->seed = test_seed();
    for (uint32_t block = 1; block <= 6; block++) {
        hints->index = index_create(&key, block);
        make_strings(hints);
        for (int i = 0; i < STEPS / 6; i++) {
            uint32_t what = below(hints, 8);
            if (what == 0)
                change(hints);
            else if (what == 1)
                insert_hinted_first(hints);
            else
                compare(hints);
        }
        for (size_t i = 0; i < OBJECTS; i++)
            if (hints->objects[i].last != NULL)
                index_detach(hints->index, &hints->objects[i]);
        index_check(hints->index);
        index_destroy(&hints->index, NULL, NULL);
    }
    mem_free(hints);
}

TEST_SUITE(TEST(test_hinted_is_plain))
