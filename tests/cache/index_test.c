#include "cache/index.h"

#include <string.h>

#include "base/mem.h"
#include "support/cache_check.h"
#include "support/tree.h"
#include "support/test.h"

static void test_empty(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    uint64_t bytes = index_bytes(tree.index);
    struct index_match match = tree_match(&tree, "anything");
    assert_int_equal(match.tokens + match.nodes_count + match.partial_tokens, 0);
    assert_null(match.partial);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "ab");
    assert_true(index_bytes(tree.index) > bytes + 2 * sizeof(int32_t));
    tree_detach(&tree, rows);
    assert_int_equal(index_nodes(tree.index), 0);
    assert_int_equal(index_bytes(tree.index), bytes + sizeof(void *)); /* the path of matches */
    tree_fini(&tree);
    index_destroy(&tree.index, NULL, NULL); /* NULL is fine */
}

static void assert_matches(struct tree *tree, const char *text, size_t nodes, uint32_t partial)
{
    struct index_match match = tree_match(tree, text);
    uint32_t whole = match.nodes_count ? node_end(match.path[match.nodes_count - 1]) : 0;

    assert_int_equal(match.nodes_count, nodes);
    assert_int_equal(match.partial_tokens, partial);
    assert_int_equal(match.tokens, whole + partial);
    assert_int_equal(match.partial != NULL, partial > 0);
}

static void test_match_goes_as_far_as_tokens_agree(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 8, "aaaabbbbcc");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aaaabbxx");
    assert_matches(&tree, "", 0, 0);
    assert_matches(&tree, "zaaa", 0, 0);
    assert_matches(&tree, "a", 0, 1);
    assert_matches(&tree, "aaaa", 1, 0);
    assert_matches(&tree, "aaaaz", 1, 0);
    assert_matches(&tree, "aaaabz", 1, 1);
    assert_matches(&tree, "aaaabb", 1, 2);
    assert_matches(&tree, "aaaabbx", 1, 3);
    assert_matches(&tree, "aaaabbbbc", 2, 1);
    assert_matches(&tree, "aaaabbbbcc", 3, 0);
    assert_matches(&tree, "aaaabbbbccddddddddd", 3, 0); /* nothing continues after a tail */
    assert_matches(&tree, "aaaabbbbcd", 2, 1);
    assert_int_equal(index_nodes(tree.index), 4);
    tree_fini(&tree);
}

/* Of siblings that share the same with the prompt, one with rows is the better answer. */
static void test_match_prefers_rows(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aa11");
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa33");
    assert_ptr_equal(node_rows(tree_match(&tree, "aa22").partial), rows);
    tree_detach(&tree, rows);
    rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa11");
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aa33");
    assert_ptr_equal(node_rows(tree_match(&tree, "aa22").partial), rows);
    tree_fini(&tree);
}

/* Rows of a tail are found and stored once, however many siblings begin with its tokens: all of
 * them would have the same key. */
static void test_rows_of_a_tail_are_there_once(void **state)
{
    static const enum hearth_object_kind kinds[] = {HEARTH_OBJECT_ROWS, HEARTH_OBJECT_SLIDING};
    struct tree tree;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        tree_init(&tree, 4);
        struct object *rows = tree_store(&tree, kinds[i], 0, "a");
        tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "a777"); /* the tail grows */
        tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "a111");
        tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "a333");
        tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "a999");
        assert_null(tree_store(&tree, kinds[i], 0, "a"));
        assert_non_null(tree_store(&tree, kinds[i], 0, "a9")); /* of other tokens */
        if (kinds[i] == HEARTH_OBJECT_ROWS)
            assert_ptr_equal(node_rows(tree_match(&tree, "a").partial), rows);
        tree_detach(&tree, rows);
        assert_null(tree_store(&tree, kinds[i], 0, "a")); /* a9 has it */
        tree_fini(&tree);
    }
}

static void test_insert_returns_the_node_that_covers(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
    assert_ptr_equal(tree_insert(&tree, "aaaabbbb"), rows->last);
    assert_ptr_equal(tree_insert(&tree, "aaaabb"), rows->last); /* ends later: no tail is needed */
    assert_ptr_equal(tree_insert(&tree, "aaa"), node_parent(rows->last));
    assert_int_equal(index_nodes(tree.index), 2);
    /* What a shorter tail would hold is held. */
    assert_null(tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aaaabb"));
    tree_fini(&tree);
}

/* A marker that has no rows takes those of a shorter prompt, and longer ones displace them. */
static void test_rows_may_end_inside_a_longer_node(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aaaabbbb");
    struct object *two = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aaaabb");
    assert_int_equal(node_end(two->last), 8);
    assert_int_equal(node_rows_end(two->last), 6);
    assert_null(tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aaaab"));
    assert_int_equal(tree.dropped, 0);
    struct object *three = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aaaabbb");
    assert_ptr_equal(tree.dropped_last, two);
    assert_int_equal(node_rows_end(three->last), 7);
    struct object *all = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
    assert_int_equal(tree.dropped, 2);
    assert_ptr_equal(tree.dropped_last, three);
    assert_int_equal(node_rows_end(all->last), 8);
    assert_null(tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aaaabbbb"));
    tree_fini(&tree);
}

static void test_tail_grows_and_keeps_what_it_has(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "ab");
    struct object *sliding = tree_store(&tree, HEARTH_OBJECT_SLIDING, 0, "ab");
    struct object *snapshot = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "a");
    struct object *sibling = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "ac");
    assert_true(index_pin(tree.index, rows->last, node_end(rows->last)));
    rows->leases = 1;

    /* Longer by a snapshot only: the rows stay, and end inside the node now. */
    struct object *longer = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "abc");
    assert_ptr_equal(rows->last, longer->last);
    assert_ptr_equal(sliding->last, longer->last);
    assert_ptr_equal(snapshot->last, longer->last);
    assert_true(node_pinned(longer->last));
    assert_int_equal(node_rows_end(longer->last), 2);
    assert_int_equal(index_nodes(tree.index), 2);
    assert_int_equal(tree.dropped, 0);

    /* Longer by rows, beyond the block. The shorter ones go though they are leased: their reader
     * keeps the bytes. */
    struct object *whole = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "abcdefgh");
    assert_int_equal(tree.dropped, 1);
    assert_ptr_equal(tree.dropped_last, rows);
    assert_int_equal(rows->leases, 1);
    assert_ptr_equal(sliding->last, node_parent(whole->last));
    assert_ptr_equal(node_snapshot(node_parent(whole->last), 1), snapshot);
    assert_ptr_equal(node_snapshot(node_parent(whole->last), 3), longer);
    assert_false(tree_evictable(&tree, whole)); /* pinned with the tail that it replaced */
    assert_true(tree_evictable(&tree, sibling));
    tree_fini(&tree);
}

static void test_run_is_one_object(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *run = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aabbccdd");
    struct index_match match = tree_match(&tree, "aabbccdd");
    assert_int_equal(match.nodes_count, 4);
    assert_null(node_rows(match.path[0])); /* not covered: a marker */
    for (size_t i = 1; i < 4; i++)
        assert_ptr_equal(node_rows(match.path[i]), run);
    assert_null(tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aabbcc")); /* inside */
    assert_null(tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabb"));   /* overlaps */
    assert_null(
        tree_store(&tree, HEARTH_OBJECT_ROWS, 6, "aabbccddee")); /* overlaps, and leaves no node */
    assert_int_equal(index_nodes(tree.index), 4);
    struct object *branch = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aabbxx");
    tree_detach(&tree, run);
    assert_int_equal(index_nodes(tree.index), 3); /* two markers above the branch */
    assert_matches(&tree, "aabbccdd", 2, 0);
    tree_detach(&tree, branch);
    assert_int_equal(index_nodes(tree.index), 0);
    tree_fini(&tree);
}

static void test_marker_tells_evicted_from_never_seen(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *first = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa");
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aabb");
    tree_detach(&tree, first);
    struct index_match match = tree_match(&tree, "aabb");
    assert_int_equal(match.tokens, 4);
    assert_null(node_rows(match.path[0]));
    assert_int_equal(node_rows_end(match.path[0]), 0);
    tree_fini(&tree);
}

static void test_children_are_evicted_first(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *a = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabb");
    assert_true(tree_evictable(&tree, a));
    struct object *sliding = tree_store(&tree, HEARTH_OBJECT_SLIDING, 0, "aa");
    assert_false(tree_evictable(&tree, sliding)); /* the second block of `a` is below it */
    struct object *deep = tree_store(&tree, HEARTH_OBJECT_ROWS, 6, "aabbxxyy");
    assert_false(tree_evictable(&tree, a)); /* through a marker */
    struct object *side = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aac");
    struct object *snapshot = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aa");
    assert_true(tree_evictable(&tree, snapshot));
    assert_true(tree_evictable(&tree, deep));
    tree_detach(&tree, deep);
    assert_false(tree_evictable(&tree, a)); /* a branch from its first block is also below it */
    tree_detach(&tree, side);
    assert_true(tree_evictable(&tree, a));
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aabbxxyy"); /* a snapshot is no rows */
    assert_true(tree_evictable(&tree, a));
    a->leases = 1;
    assert_false(index_evictable(tree.index, a));
    assert_true(tree_evictable(&tree, a)); /* the tree does not mind */
    a->leases = 0;
    tree_detach(&tree, a);
    assert_true(tree_evictable(&tree, sliding));
    assert_false(index_evictable(tree.index, a)); /* gone */
    tree_fini(&tree);
}

/* Whoever keeps a heap of what may be evicted hears of changes, and of nothing else. */
static void test_on_change_hears_changes_only(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *a = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa");
    assert_int_equal(tree.told, 1);
    struct object *b = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aabb");
    assert_int_equal(tree.told, 3); /* a no more, b */
    struct object *c = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aacc");
    assert_int_equal(tree.told, 4); /* c */
    assert_true(index_pin(tree.index, a->last, node_end(a->last)));
    assert_int_equal(tree.told, 4); /* a was blocked already */
    tree_detach(&tree, b);
    tree_detach(&tree, c);
    assert_int_equal(tree.told, 6); /* b and c are gone; a is pinned */
    tree_unpin(&tree, "aa");
    assert_int_equal(tree.told, 7);
    index_on_change(tree.index, NULL, NULL);
    assert_true(index_pin(tree.index, a->last, node_end(a->last))); /* no callback is set */
    tree_unpin(&tree, "aa");
    assert_int_equal(tree.told, 7);
    index_detach(tree.index, a);
    tree.evictable[0] = false;
    tree_fini(&tree);
}

static void test_insert_that_comes_to_nothing(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa");
    struct node *node = tree_insert(&tree, "aabbccd");
    assert_int_equal(index_nodes(tree.index), 4);
    index_prune(tree.index, node);
    assert_int_equal(index_nodes(tree.index), 1);
    index_prune(tree.index, tree_insert(&tree, "aa")); /* not empty: stays */
    assert_int_equal(index_nodes(tree.index), 1);
    tree_fini(&tree);
}

static bool visit(struct node *node, void *arg)
{
    char **at = arg;

    assert_true(node_parent(node) == NULL || node_begin(node) == node_end(node_parent(node)));
    *(*at)++ = (char)node_tokens(node)[0];
    return node_tokens(node)[0] != 'x';
}

static void test_each_visits_parents_first(void **state)
{
    char seen[8] = {0}, *at = seen;
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    index_each(tree.index, visit, &at);
    tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "bbdde");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "bbcc");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "xx");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "yy");
    index_each(tree.index, visit, &at);
    assert_string_equal(seen, "abcdex");
    tree_fini(&tree);
}

/* ---- many nodes ---- */

static void forget(struct object *object, void *arg)
{
    (void)object;
    (void)arg;
}

/* 100,000 conversations leave the system prompt at the same token. Each is found, and so is the
 * best of them for a stranger. Had the children to be searched one by one, this would take minutes.
 */
static void test_wide_node(void **state)
{
    enum { COUNT = 100000, BLOCK = 8 };
    struct object *objects = mem_alloc_array(COUNT, sizeof(*objects));
    struct hash256 key = hash256_of("wide", 4);
    struct index *index = index_create(&key, BLOCK);
    int32_t tokens[BLOCK] = {1, 2, 3, 4, 0, 0, 7, 8};

    (void)state;
    for (int32_t i = 0; i < COUNT; i++) {
        tokens[4] = i / 300;
        tokens[5] = i % 300 * 2;
        struct node *node = index_insert(index, tokens, BLOCK);
        assert_non_null(node);
        objects[i].kind = HEARTH_OBJECT_ROWS;
        objects[i].end = BLOCK;
        index_attach(index, node, &objects[i], forget, NULL);
    }
    assert_int_equal(index_nodes(index), COUNT);
    for (int32_t i = 0; i < COUNT; i++) {
        tokens[4] = i / 300;
        tokens[5] = i % 300 * 2;
        struct index_match match = index_match(index, tokens, BLOCK);
        assert_int_equal(match.nodes_count, 1);
        assert_ptr_equal(node_rows(match.path[0]), &objects[i]);
        tokens[5]++;
        match = index_match(index, tokens, BLOCK);
        assert_int_equal(match.partial_tokens, 5);
        assert_int_equal(node_tokens(match.partial)[4], i / 300);
    }
    index_check(index);
    index_destroy(&index, forget, NULL);
    mem_free(objects);
}

/* A path as long as the longest prompt: no recursion may depend on it. */
static void test_deep_path(void **state)
{
    enum { COUNT = 200000 };
    int32_t *tokens = mem_alloc_array(COUNT, sizeof(*tokens));
    struct hash256 key = hash256_of("deep", 4);
    struct index *index = index_create(&key, 1);
    struct object rows = {.kind = HEARTH_OBJECT_ROWS, .begin = 0, .end = COUNT};

    (void)state;
    for (int32_t i = 0; i < COUNT; i++)
        tokens[i] = i;
    struct node *last = index_insert(index, tokens, COUNT);
    assert_non_null(last);
    index_attach(index, last, &rows, forget, NULL);
    assert_true(index_pin(index, last, node_end(last)));
    index_check(index);
    tokens[COUNT - 1]++;
    struct index_match match = index_match(index, tokens, COUNT);
    assert_int_equal(match.nodes_count, COUNT - 1);
    tokens[COUNT - 1]--;
    index_unpin(index, index_find_pin(index, tokens, COUNT));
    index_detach(index, &rows);
    assert_int_equal(index_nodes(index), 0);
    index_destroy(&index, forget, NULL);
    mem_free(tokens);
}

/* ---- faults ---- */

static void test_insert_is_all_or_nothing(void **state)
{
    struct fault fault = {0};
    size_t refused = 0;

    (void)state;
    FAULT_LOOP (&fault) {
        struct tree tree;
        tree_init(&tree, 2);
        struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aab");
        struct node *tail = rows->last;
        size_t nodes = index_nodes(tree.index);
        mem_set_fault(&fault);
        struct node *node = tree_insert(&tree, "aabbccddeeffg");
        mem_set_fault(NULL);
        if (node == NULL) {
            assert_int_equal(index_nodes(tree.index), nodes);
            assert_ptr_equal(rows->last, tail); /* it has not grown */
            assert_int_equal(node_end(tail), 3);
            assert_matches(&tree, "aabbccddeeffg", 2, 0);
            refused++;
        } else {
            assert_int_equal(node_end(node), 13);
            index_prune(tree.index, node);
        }
        index_check(tree.index);
        tree_fini(&tree);
    }
    assert_int_equal(refused, 7); /* the path, and 6 nodes */
}

/* ---- invariants (docs/invariants.md) ---- */

/* Two prompts that differ in one token never match beyond it, wherever it is. */
static void test_i101_tokens_are_compared_in_full(void **state)
{
    enum { COUNT = 100, BLOCK = 16 };
    struct hash256 key = hash256_of("i101", 4);
    struct index *index = index_create(&key, BLOCK);
    struct object rows = {.kind = HEARTH_OBJECT_ROWS, .begin = 0, .end = 96};
    struct object tail = {.kind = HEARTH_OBJECT_ROWS, .begin = 96, .end = COUNT};
    int32_t tokens[COUNT];

    (void)state;
    for (int32_t i = 0; i < COUNT; i++)
        tokens[i] = i % 7 + (i << 20);
    index_attach(index, index_insert(index, tokens, 96), &rows, forget, NULL);
    index_attach(index, index_insert(index, tokens, COUNT), &tail, forget, NULL);
    for (uint32_t at = 0; at < COUNT; at++) {
        for (int bit = 0; bit < 32; bit++) {
            tokens[at] ^= (int32_t)(1u << bit);
            struct index_match match = index_match(index, tokens, COUNT);
            assert_int_equal(match.tokens, at);
            assert_int_equal(match.nodes_count, at / BLOCK);
            tokens[at] ^= (int32_t)(1u << bit);
        }
    }
    assert_int_equal(index_match(index, tokens, COUNT).tokens, COUNT);
    index_destroy(&index, forget, NULL);
}

/* An edited message is a branch: all of both sides stays, in whatever order they came and grew. */
static void test_i92_a_branch_never_destroys_the_other(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    struct object *shared = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "ssss");
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "ssssabcd");
    struct object *tail = tree_store(&tree, HEARTH_OBJECT_ROWS, 8, "ssssabcdef");
    struct object *mark = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "ssssab");
    struct object *last = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "ssssabcdef");
    struct object *edit = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "ssssabX");
    struct object *edit_longer = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "ssssabXYZZZZ");
    struct object *other_tail = tree_store(&tree, HEARTH_OBJECT_ROWS, 8, "ssssabcdeX");
    assert_int_equal(tree.dropped, 1);
    assert_ptr_equal(tree.dropped_last, edit); /* only what its own continuation replaced */

    struct index_match match = tree_match(&tree, "ssssabcdef");
    assert_int_equal(match.nodes_count, 3);
    assert_ptr_equal(node_rows(match.path[0]), shared);
    assert_ptr_equal(node_rows(match.path[1]), rows);
    assert_ptr_equal(node_rows(match.path[2]), tail);
    assert_ptr_equal(node_snapshot(match.path[1], 6), mark);
    assert_ptr_equal(node_snapshot(match.path[2], 10), last);
    match = tree_match(&tree, "ssssabXYZZZZ");
    assert_ptr_equal(node_rows(match.path[2]), edit_longer);
    assert_ptr_equal(node_snapshot(match.path[1], 6), mark);
    assert_ptr_equal(node_rows(tree_match(&tree, "ssssabcdeX").path[2]), other_tail);

    tree_detach(&tree, edit_longer);
    tree_detach(&tree, other_tail);
    assert_ptr_equal(node_rows(tree_match(&tree, "ssssabcdef").path[2]), tail);
    tree_fini(&tree);
}

static void test_i33_a_lookup_without_result_changes_nothing(void **state)
{
    static const char *const prompts[] = {"", "z", "aaz", "aabz", "aabbc", "aabbcd", "aacc"};
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabb");
    struct object *tail = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aabbc");
    size_t told = tree.told, nodes = index_nodes(tree.index);
    uint64_t bytes = index_bytes(tree.index);
    for (size_t i = 0; i < COUNT_OF(prompts); i++) {
        tree_match(&tree, prompts[i]);
        assert_int_equal(tree.told, told);
        assert_int_equal(tree.dropped, 0);
        assert_int_equal(index_nodes(tree.index), nodes);
        assert_int_equal(index_bytes(tree.index), bytes);
    }
    assert_ptr_equal(node_rows(tail->last), tail);
    tree_fini(&tree);
}

/* A tail is known below its own block only. A short prompt that consists of the tail's tokens does
 * not find it, neither while the block is there nor when it is gone. */
static void test_i35_a_tail_never_falls_through_to_the_root(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *block = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aa");
    struct object *tail = tree_store(&tree, HEARTH_OBJECT_ROWS, 2, "aab");
    struct object *mark = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aab");
    assert_matches(&tree, "b", 0, 0);
    tree_detach(&tree, block);
    assert_matches(&tree, "b", 0, 0);
    struct index_match match = tree_match(&tree, "aab");
    assert_int_equal(match.tokens, 3);
    assert_int_equal(node_rows_end(match.path[0]),
                     0); /* rows of the tail are of no use now, visibly */
    tree_detach(&tree, tail);
    tree_detach(&tree, mark);
    assert_matches(&tree, "b", 0, 0);
    assert_int_equal(index_nodes(tree.index), 0);
    tree_fini(&tree);
}

static void test_i39_clear_takes_tails_and_leased_objects(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    struct object *run = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabb");
    struct object *tail = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "aabbc");
    tree_store(&tree, HEARTH_OBJECT_SLIDING, 4, "aabbc");
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aabbc");
    tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "aab");
    assert_true(index_pin(tree.index, tail->last, node_end(tail->last)));
    run->leases = 1;
    tree_clear(&tree);
    assert_int_equal(tree.dropped, 5);
    assert_int_equal(index_nodes(tree.index), 0);
    assert_int_equal(index_snapshots(tree.index), 0);
    assert_matches(&tree, "aabbc", 0, 0);
    assert_non_null(tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabb")); /* it lives on */
    tree_fini(&tree);
}

/* Matched tokens are at least the whole blocks of the path, and the path is counted in nodes. */
static void test_i45_matched_tokens_cover_the_path(void **state)
{
    static const char *const prompts[] = {"aab", "aabb", "aabbc", "aabbcx", "aabbccx", "aabbccdd"};
    struct tree tree;

    (void)state;
    tree_init(&tree, 2);
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aabbcc");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 6, "aabbccd");
    for (size_t i = 0; i < COUNT_OF(prompts); i++) {
        struct index_match match = tree_match(&tree, prompts[i]);
        size_t blocks = 0;
        for (size_t n = 0; n < match.nodes_count; n++)
            blocks += !node_is_tail(match.path[n]);
        assert_true(match.tokens >= blocks * 2);
        assert_true(match.tokens < (match.nodes_count + 1) * 2);
    }
    tree_fini(&tree);
}

/* ---- misuse ---- */

static void nothing_wrong(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    (void)snapshot;
    tree_fini(tree);
}

static void destroy_leased(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    rows->leases = 1;
    tree_fini(tree);
}

static void destroy_leased_snapshot(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    snapshot->leases = 1;
    tree_fini(tree);
}

static void attach_twice(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    index_attach(tree->index, tree_insert(tree, "aaaaxxxx"), rows, forget, NULL);
}

static void attach_what_is_held(struct tree *tree, struct object *rows, struct object *snapshot)
{
    struct object *again = tree_object(tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");

    (void)snapshot;
    index_attach(tree->index, rows->last, again, forget, NULL);
}

static void attach_dropped(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    struct node *last = rows->last;
    index_detach(tree->index, rows);
    rows->dropped = true;
    index_attach(tree->index, last, rows, forget, NULL);
}

static void detach_twice(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)snapshot;
    index_detach(tree->index, rows);
    index_detach(tree->index, rows);
}

static void rows_begin_inside_a_block(struct tree *tree, struct object *rows,
                                      struct object *snapshot)
{
    (void)rows;
    (void)snapshot;
    tree_store(tree, HEARTH_OBJECT_ROWS, 2, "xxxx");
}

static void run_ends_in_a_tail(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    (void)snapshot;
    tree_store(tree, HEARTH_OBJECT_ROWS, 0, "xxxxy");
}

static void snapshot_of_another_node(struct tree *tree, struct object *rows,
                                     struct object *snapshot)
{
    struct object *early = tree_object(tree, HEARTH_OBJECT_SNAPSHOT, 0, "aaaa");

    (void)snapshot;
    index_attach(tree->index, rows->last, early, forget, NULL);
}

static void insert_nothing(struct tree *tree, struct object *rows, struct object *snapshot)
{
    (void)rows;
    (void)snapshot;
    index_prune(tree->index, tree_insert(tree, ""));
}

static void test_misuse_aborts(void **state)
{
    (void)state;
    assert_false(tree_aborts(nothing_wrong));
    assert_true(tree_aborts(destroy_leased));
    assert_true(tree_aborts(destroy_leased_snapshot));
    assert_true(tree_aborts(attach_twice));
    assert_true(tree_aborts(attach_what_is_held));
    assert_true(tree_aborts(attach_dropped));
    assert_true(tree_aborts(detach_twice));
    assert_true(tree_aborts(rows_begin_inside_a_block));
    assert_true(tree_aborts(run_ends_in_a_tail));
    assert_true(tree_aborts(snapshot_of_another_node));
    assert_true(tree_aborts(insert_nothing));
}

TEST_SUITE(TEST(test_empty), TEST(test_match_goes_as_far_as_tokens_agree),
           TEST(test_match_prefers_rows), TEST(test_rows_of_a_tail_are_there_once),
           TEST(test_insert_returns_the_node_that_covers),
           TEST(test_rows_may_end_inside_a_longer_node),
           TEST(test_tail_grows_and_keeps_what_it_has), TEST(test_run_is_one_object),
           TEST(test_marker_tells_evicted_from_never_seen), TEST(test_children_are_evicted_first),
           TEST(test_on_change_hears_changes_only), TEST(test_insert_that_comes_to_nothing),
           TEST(test_each_visits_parents_first), TEST(test_wide_node), TEST(test_deep_path),
           TEST(test_insert_is_all_or_nothing), TEST(test_i101_tokens_are_compared_in_full),
           TEST(test_i92_a_branch_never_destroys_the_other),
           TEST(test_i33_a_lookup_without_result_changes_nothing),
           TEST(test_i35_a_tail_never_falls_through_to_the_root),
           TEST(test_i39_clear_takes_tails_and_leased_objects),
           TEST(test_i45_matched_tokens_cover_the_path), TEST(test_misuse_aborts))
