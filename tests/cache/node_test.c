#include "cache/index.h"

#include <string.h>

#include "base/mem.h"
#include "support/tree.h"
#include "support/test.h"

static struct node *node_of(struct tree *tree, const char *text)
{
    struct index_match match = tree_match(tree, text);

    return match.partial ? match.partial : match.path[match.nodes_count - 1];
}

/* As node_key says, bytes written out. */
static struct hash256 key_by_hand(const struct hash256 *parent, const char *text)
{
    struct hash256 space = hash256_of("space", 5);
    uint8_t bytes[8 + 32 + 4 + 8 + 4 * TREE_TOKENS_MAX] = {32};
    size_t count = strlen(text), len = 8;

    memcpy(bytes + len, parent->bytes, 32);
    len += 32;
    bytes[len] = (uint8_t)count;
    len += 4;
    bytes[len] = (uint8_t)(4 * count);
    len += 8;
    for (size_t i = 0; i < count; i++, len += 4)
        bytes[len] = (uint8_t)text[i];
    return hash256_keyed(&space, bytes, len);
}

static void test_key_is_a_chain(void **state)
{
    struct tree tree;
    struct hash256 none = {{0}}, first, second, third;

    (void)state;
    tree_init(&tree, 4);
    tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
    tree_store(&tree, HEARTH_OBJECT_ROWS, 8, "aaaabbbbcc");
    struct index_match match = tree_match(&tree, "aaaabbbbcc");
    first = key_by_hand(&none, "aaaa");
    second = key_by_hand(&first, "bbbb");
    third = key_by_hand(&second, "cc");
    assert_memory_equal(node_key(match.path[0]), &first, sizeof(first));
    assert_memory_equal(node_key(match.path[1]), &second, sizeof(second));
    assert_memory_equal(node_key(match.path[2]), &third, sizeof(third));

    /* The same for blocks that are not there. */
    int32_t tokens[TREE_TOKENS_MAX];
    tree_tokens("aaaabbbb", tokens);
    struct hash256 key = index_block_key(tree.index, NULL, tokens, 4);
    assert_memory_equal(&key, &first, sizeof(key));
    key = index_block_key(tree.index, match.path[0], tokens, 4);
    third = key_by_hand(&first, "aaaa");
    assert_memory_equal(&key, &third, sizeof(key));
    tree_fini(&tree);
}

/* Blocks longer than what is hashed at once, and tokens that fill all four bytes. */
static void test_key_covers_all_bytes_of_all_tokens(void **state)
{
    enum { BLOCK = 150 };
    struct hash256 space = hash256_of("space", 5);
    struct index *index = index_create(&space, BLOCK);
    int32_t tokens[BLOCK];
    struct hash256 key;

    (void)state;
    for (int i = 0; i < BLOCK; i++)
        tokens[i] = (int32_t)((uint32_t)i * 0x01030507u);
    struct node *node = index_insert(index, tokens, BLOCK);
    assert_non_null(node);
    key = *node_key(node);
    index_prune(index, node);
    for (int i = 0; i < BLOCK; i++) {
        for (int byte = 0; byte < 4; byte++) {
            tokens[i] ^= (int32_t)(1u << (8 * byte));
            node = index_insert(index, tokens, BLOCK);
            assert_non_null(node);
            assert_memory_not_equal(node_key(node), &key, sizeof(key));
            index_prune(index, node);
            tokens[i] ^= (int32_t)(1u << (8 * byte));
        }
    }
    assert_int_equal(index_nodes(index), 0);
    index_destroy(&index, NULL, NULL);
}

static void test_accessors(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    struct object *rows = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
    struct object *tail = tree_store(&tree, HEARTH_OBJECT_ROWS, 8, "aaaabbbbcc");
    struct object *sliding = tree_store(&tree, HEARTH_OBJECT_SLIDING, 4, "aaaabbbb");
    struct index_match match = tree_match(&tree, "aaaabbbbcc");
    struct node **path = match.path;
    assert_int_equal(match.nodes_count, 3);
    assert_null(node_parent(path[0]));
    assert_ptr_equal(node_parent(path[2]), path[1]);
    assert_int_equal(node_begin(path[2]), 8);
    assert_int_equal(node_end(path[2]), 10);
    assert_true(node_is_tail(path[2]) && !node_is_tail(path[1]));
    assert_true(node_has_children(path[1]) && !node_has_children(path[2]));
    assert_int_equal(node_tokens(path[1])[3], 'b');
    assert_ptr_equal(node_rows(path[0]), rows);
    assert_ptr_equal(node_rows(path[2]), tail);
    assert_ptr_equal(node_sliding(path[1]), sliding);
    assert_null(node_sliding(path[0]));
    assert_int_equal(node_rows_end(path[0]), 4); /* the run goes on, the node does not */
    assert_int_equal(node_sliding_end(path[0]), 0);
    assert_int_equal(node_sliding_end(path[1]), 8);
    tree_fini(&tree);
}

/* A system prompt ends at 6, in the middle of a block; every conversation has its own block from
 * 4 on. The one snapshot must serve all of them, also those that come long after the one it was
 * stored through is gone. */
static void test_snapshot_is_seen_from_every_sibling(void **state)
{
    struct tree tree;

    (void)state;
    tree_init(&tree, 4);
    struct object *first = tree_store(&tree, HEARTH_OBJECT_ROWS, 0, "sysprm11");
    struct object *system = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "sysprm");
    struct object *second = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "sysprm22");
    struct object *third = tree_store(&tree, HEARTH_OBJECT_ROWS, 4, "sysprm00");
    struct object *longer = tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "sysprm2");
    assert_non_null(first);
    assert_non_null(second);
    assert_null(
        tree_store(&tree, HEARTH_OBJECT_SNAPSHOT, 0, "sysprm")); /* held, from any sibling */

    assert_ptr_equal(node_snapshot(node_of(&tree, "sysprm11"), 6), system);
    assert_ptr_equal(node_snapshot(node_of(&tree, "sysprm22"), 6), system);
    assert_ptr_equal(node_snapshot(node_of(&tree, "sysprm00"), 6), system);
    assert_ptr_equal(node_snapshot_below(node_of(&tree, "sysprm22"), 6), system);
    assert_ptr_equal(node_snapshot_below(node_of(&tree, "sysprm22"), 7), longer);
    assert_ptr_equal(node_snapshot_below(node_of(&tree, "sysprm22"), 1000), longer);
    assert_ptr_equal(node_snapshot_below(node_of(&tree, "sysprm00"), 8), system);
    assert_null(node_snapshot(node_of(&tree, "sysprm00"), 7));
    assert_null(node_snapshot(node_of(&tree, "sysp"), 6)); /* not inside that node */
    assert_null(node_snapshot_below(node_of(&tree, "sysprm00"), 5));

    tree_detach(&tree, first);
    assert_ptr_equal(node_snapshot(node_of(&tree, "sysprm00"), 6), system);
    tree_detach(&tree, third);
    tree_detach(&tree, system);
    assert_null(node_snapshot_below(node_of(&tree, "sysprm22"), 6));
    assert_ptr_equal(node_snapshot_below(node_of(&tree, "sysprm22"), 7), longer);
    tree_fini(&tree);
}

static void test_object_key_is_of_content_alone(void **state)
{
    struct tree a, b;

    (void)state;
    tree_init(&a, 4);
    tree_init(&b, 4);
    struct object *rows = tree_store(&a, HEARTH_OBJECT_ROWS, 0, "aaaabbbb");
    struct object *snapshot = tree_store(&a, HEARTH_OBJECT_SNAPSHOT, 0, "aaaabb");
    struct object *tail = tree_store(&b, HEARTH_OBJECT_SNAPSHOT, 0, "aaaabb");
    struct hash256 key = index_object_key(a.index, rows->last, rows);
    struct hash256 inside = index_object_key(a.index, snapshot->last, snapshot);
    struct hash256 other = index_object_key(b.index, tail->last, tail);
    assert_int_equal(node_end(snapshot->last), 8);
    assert_int_equal(node_end(tail->last), 6);
    assert_memory_equal(&inside, &other, sizeof(other)); /* cut otherwise, the same tokens */

    struct object like = {.kind = HEARTH_OBJECT_ROWS, .begin = 0, .end = 8};
    other = index_object_key(a.index, rows->last, &like);
    assert_memory_equal(&other, &key, sizeof(key));
    struct object unlike[] = {{.kind = HEARTH_OBJECT_SLIDING, .begin = 0, .end = 8},
                              {.kind = HEARTH_OBJECT_ROWS, .begin = 4, .end = 8},
                              {.kind = HEARTH_OBJECT_ROWS, .begin = 0, .end = 7}};
    for (size_t i = 0; i < COUNT_OF(unlike); i++) {
        other = index_object_key(a.index, rows->last, &unlike[i]);
        assert_memory_not_equal(&other, &key, sizeof(key));
    }
    assert_memory_not_equal(node_key(rows->last), &key, sizeof(key));
    tree_fini(&a);
    tree_fini(&b);
}

/* Two spaces name nothing alike. */
static void test_object_key_is_of_the_space(void **state)
{
    struct hash256 keys[2] = {hash256_of("one", 3), hash256_of("two", 3)}, got[2];
    struct object object = {.kind = HEARTH_OBJECT_ROWS, .begin = 0, .end = 2};
    int32_t tokens[2] = {1, 2};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct index *index = index_create(&keys[i], 2);
        struct node *node = index_insert(index, tokens, 2);
        assert_non_null(node);
        got[i] = index_object_key(index, node, &object);
        index_destroy(&index, NULL, NULL);
    }
    assert_memory_not_equal(&got[0], &got[1], sizeof(got[0]));
}

TEST_SUITE(TEST(test_key_is_a_chain), TEST(test_key_covers_all_bytes_of_all_tokens),
           TEST(test_accessors), TEST(test_snapshot_is_seen_from_every_sibling),
           TEST(test_object_key_is_of_content_alone), TEST(test_object_key_is_of_the_space))
