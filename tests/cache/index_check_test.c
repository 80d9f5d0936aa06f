/* What index_check must notice: whatever can be falsified from outside, which is all that an object
 * says. */
#include "cache/index.h"

#include "support/cache_check.h"
#include "support/tree.h"
#include "support/test.h"

static void nothing_wrong(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    (void)snapshot;
    index_check(tree->index);
    tree_fini(tree);
}

static void x3_rows_begin_elsewhere(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    rows->begin = 4;
    index_check(tree->index);
}

static void x3_rows_end_elsewhere(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    rows->end = 7;
    index_check(tree->index);
}

static void x3_rows_are_something_else(struct tree *tree, struct object *rows,
                                       struct object *snapshot)
{
    (void)snapshot;
    rows->kind = HEARTH_OBJECT_SLIDING;
    index_check(tree->index);
}

static void x3_rows_hang_elsewhere(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    rows->last = node_parent(rows->last);
    index_check(tree->index);
}

static void x3_snapshot_ends_elsewhere(struct tree *tree, struct object *rows,
                                       struct object *snapshot)
{
    (void)rows;
    snapshot->end = 7;
    index_check(tree->index);
}

static void x3_snapshot_hangs_elsewhere(struct tree *tree, struct object *rows,
                                        struct object *snapshot)
{
    (void)rows;
    snapshot->last = node_parent(snapshot->last);
    index_check(tree->index);
}

static void x4_rows_are_not_blocked(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    rows->hold_count++;
    index_check(tree->index);
}

static void x4_snapshot_is_not_blocked(struct tree *tree, struct object *rows,
                                       struct object *snapshot)
{
    (void)rows;
    snapshot->hold_count++;
    index_check(tree->index);
}

static void x4_a_blocker_is_missing(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    tree_store(tree, HEARTH_OBJECT_ROWS, 8, "aaaabbbbc");
    rows->hold_count--;
    index_check(tree->index);
}

static void x4_a_node_is_empty(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    (void)snapshot;
    assert_non_null(tree_insert(tree, "aaaac"));
    index_check(tree->index);
}

static void x5_dropped_rows(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    rows->dropped = true;
    index_check(tree->index);
}

static void x5_dropped_snapshot(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    snapshot->dropped = true;
    index_check(tree->index);
}

static void test_notices_whatever_is_wrong(void **state)
{
    (void)state;
    assert_false(tree_aborts(nothing_wrong));
    assert_true(tree_aborts(x3_rows_begin_elsewhere));
    assert_true(tree_aborts(x3_rows_end_elsewhere));
    assert_true(tree_aborts(x3_rows_are_something_else));
    assert_true(tree_aborts(x3_rows_hang_elsewhere));
    assert_true(tree_aborts(x3_snapshot_ends_elsewhere));
    assert_true(tree_aborts(x3_snapshot_hangs_elsewhere));
    assert_true(tree_aborts(x4_rows_are_not_blocked));
    assert_true(tree_aborts(x4_snapshot_is_not_blocked));
    assert_true(tree_aborts(x4_a_blocker_is_missing));
    assert_true(tree_aborts(x4_a_node_is_empty));
    assert_true(tree_aborts(x5_dropped_rows));
    assert_true(tree_aborts(x5_dropped_snapshot));
}

/* Order and prefixes among siblings (X1, X2) depend on the nodes' tokens, which belong to the
 * index: the test changes them anyway, as a stray write would. */
static void change_token(struct tree *tree, struct object *rows, struct object *snapshot)
{
    int32_t *tokens = (int32_t *)node_tokens(rows->last);

    (void)snapshot;
    tokens[0] ^= 1;
    index_check(tree->index);
}

static void repeat_sibling(struct tree *tree, struct object *rows, struct object *snapshot)
{
    struct object *tail = tree_store(tree, HEARTH_OBJECT_ROWS, 4, "aaaac");
    int32_t *tokens = (int32_t *)node_tokens(tail->last);

    (void)rows;
    (void)snapshot;
    tokens[0] = 'b';
    index_check(tree->index);
}

static void test_notices_changed_tokens(void **state)
{
    (void)state;
    assert_true(tree_aborts(change_token));
    assert_true(tree_aborts(repeat_sibling));
}

TEST_SUITE(TEST(test_notices_whatever_is_wrong), TEST(test_notices_changed_tokens))
