/* Pins: where they end, where they go, and that they are found by exactly their tokens. */
#include "base/mem.h"
#include "cache/index.h"
#include "support/cache_check.h"
#include "support/test.h"
#include "support/tree.h"

static void test_pins_hold_the_path(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *a = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa");
    struct object *b = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aabb");
    struct object *snapshot = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aab");
    struct object *c = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aacc");
    struct node *node = b->last;
    assert_true(index_pin(tree.index, node, node_end(node)));
    assert_true(index_pin(tree.index, node, node_end(node)));
    assert_true(node_pinned(node) && node_pinned(a->last) && !node_pinned(c->last));
    assert_false(tree_evictable(&tree, b));
    assert_false(tree_evictable(&tree, snapshot));
    assert_true(tree_evictable(&tree, c));
    struct object *late = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aabb");
    assert_false(tree_evictable(&tree, late));
    tree_unpin(&tree, "aabb");
    assert_false(tree_evictable(&tree, b)); /* counted */

    /* Damaged objects may go all the same; their nodes stay until they are unpinned. */
    tree_detach(&tree, b);
    tree_detach(&tree, snapshot);
    tree_detach(&tree, late);
    tree_detach(&tree, c);
    tree_detach(&tree, a);
    assert_int_equal(index_nodes(tree.index), 2);
    assert_null(index_find_pin(tree.index, node_tokens(node_parent(node)), 2)); /* it is longer */
    tree_unpin(&tree, "aabb");
    assert_int_equal(index_nodes(tree.index), 0);
    tree_fini(&tree);
}

static struct index_pin *find(struct tree *tree, const char *text)
{
    int32_t tokens[TREE_TOKENS_MAX];

    return index_find_pin(tree->index, tokens, tree_tokens(text, tokens));
}

static void test_a_pin_goes_with_its_tail(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "ab");
    assert_true(index_pin(tree.index, rows->last, 2));
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "abc"); /* grows */
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "abca");    /* to a block */
    struct object *before = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "abaa");
    struct object *behind = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "abzz");
    assert_int_equal(index_pin_end(find(&tree, "ab")), 2);
    assert_null(find(&tree, "a"));
    assert_null(find(&tree, "aa"));
    assert_true(tree_evictable(&tree, before) && tree_evictable(&tree, behind));
    assert_true(index_pin(tree.index, before->last, 4));
    index_check(tree.index);
    tree_unpin(&tree, "ab");
    assert_null(find(&tree, "ab"));
    assert_false(tree_evictable(&tree, before));
    tree_unpin(&tree, "abaa");
    assert_true(tree_evictable(&tree, before));
    index_check(tree.index);
    tree_fini(&tree);
}

static void test_the_longest_pin_is_found(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabbcc");
    struct node *last = rows->last;
    assert_true(index_pin(tree.index, node_parent(last), 4));
    assert_true(index_pin(tree.index, last, 5));
    assert_int_equal(index_pin_end(find(&tree, "aabbccdd")), 5);
    assert_int_equal(index_pin_end(find(&tree, "aabbc")), 5);
    assert_int_equal(index_pin_end(find(&tree, "aabbx")), 4);
    assert_null(find(&tree, "aab"));
    assert_null(find(&tree, "xxbbcc"));
    uint64_t bytes = index_bytes(tree.index);
    assert_true(index_pin(tree.index, last, 5)); /* counted, in the same place */
    assert_int_equal(index_bytes(tree.index), bytes);
    tree_unpin(&tree, "aabbc");
    tree_unpin(&tree, "aabbc");
    assert_int_equal(index_pin_end(find(&tree, "aabbccdd")), 4);
    assert_int_equal(index_bytes(tree.index), bytes - index_pin_bytes());
    tree_unpin(&tree, "aabb");
    assert_null(find(&tree, "aabbccdd"));
    tree_fini(&tree);
}

static void test_without_memory_nothing_is_pinned(void **state)
{
    struct fault fault = {0};
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabb");
    fault_arm(&fault, 1, false);
    mem_set_fault(&fault);
    assert_false(index_pin(tree.index, rows->last, 4));
    mem_set_fault(NULL);
    assert_false(node_pinned(rows->last));
    assert_true(tree_evictable(&tree, rows));
    index_check(tree.index);
    tree_fini(&tree);
}

TEST_SUITE(TEST(test_pins_hold_the_path), TEST(test_a_pin_goes_with_its_tail),
           TEST(test_the_longest_pin_is_found), TEST(test_without_memory_nothing_is_pinned))
