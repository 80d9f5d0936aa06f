/* tree_test.c: trees of prefixes: chains become one node, branches stay, and what is left out is
 * the small. */
#include "admin/admin_impl.h"

#include <string.h>
#include <yyjson.h>

#include "base/mem.h"
#include "support/api_kit.h"
#include "support/test.h"

static struct admin_book *no_book(void)
{
    static struct api api; /* without models and without a cache */

    return admin_book_create(&api);
}

/* A run of rows; keys and parents are numbers. */
static void add(struct admin_tree *tree, unsigned char space, unsigned char key,
                unsigned char parent, uint32_t begin, uint32_t end)
{
    unsigned char spaces[HEARTH_KEY_BYTES] = {space}, keys[HEARTH_KEY_BYTES] = {key, space},
                  parents[HEARTH_KEY_BYTES] = {0};
    struct hearth_held held = {
        .space = spaces,
        .key = keys,
        .parent = parents,
        .tenant = "t",
        .kind = HEARTH_OBJECT_ROWS,
        .begin = begin,
        .end = end,
        .bytes = end - begin,
        .uses = key,
        .tiers = 1,
        .age_s = key,
        .entry = HEARTH_ENTRY_USER,
    };

    if (parent > 0) {
        parents[0] = parent;
        parents[1] = space;
    }
    assert_true(admin_tree_add(tree, &held));
}

static yyjson_doc *written(struct admin_tree **tree, size_t limit)
{
    struct admin_book *book = no_book();
    struct buf body;
    struct json json;
    yyjson_doc *doc;

    buf_init(&body, 1 << 24);
    json = json_to(&body);
    json_open(&json, '{');
    admin_tree_write(&json, *tree, book, limit);
    json_close(&json, '}');
    doc = yyjson_read(body.data, body.len, 0);
    assert_non_null(doc);
    buf_fini(&body);
    admin_book_destroy(&book);
    admin_tree_destroy(tree);
    return doc;
}

static size_t nodes_of(yyjson_doc *doc)
{
    return yyjson_arr_size(yyjson_doc_ptr_get(doc, "/nodes"));
}

static void test_chains_become_one_node(void **state)
{
    struct admin_tree *tree = admin_tree_create();
    yyjson_doc *doc;

    (void)state;
    add(tree, 1, 3, 2, 200, 300); /* children may come before their parents */
    add(tree, 1, 1, 0, 0, 100);
    add(tree, 1, 2, 1, 100, 200);
    doc = written(&tree, 10);
    assert_int_equal(nodes_of(doc), 1);
    assert_int_equal(json_number_at(doc, "/nodes/0/tokens"), 300);
    assert_int_equal(json_number_at(doc, "/nodes/0/bytes"), 300);
    assert_int_equal(json_number_at(doc, "/nodes/0/objects"), 3);
    assert_int_equal(strncmp(json_at(doc, "/nodes/0/key"), "0301", 4), 0); /* of its end */
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/nodes/0/parent")));
    yyjson_doc_free(doc);
}

static void test_branches(void **state)
{
    struct admin_tree *tree = admin_tree_create();
    yyjson_doc *doc;

    (void)state;
    add(tree, 1, 1, 0, 0, 100);
    add(tree, 1, 2, 1, 100, 200);
    add(tree, 1, 3, 2, 200, 300);
    add(tree, 1, 4, 2, 200, 250);
    add(tree, 2, 1, 0, 0, 50); /* the same number in another space is another key */
    doc = written(&tree, 10);
    assert_int_equal(nodes_of(doc), 4);
    assert_int_equal(json_number_at(doc, "/nodes/0/tokens"), 200);
    assert_int_equal(json_number_at(doc, "/nodes/0/bytes_below"), 350);
    for (int i = 2; i < 4; i++) {
        char pointer[32];

        snprintf(pointer, sizeof(pointer), "/nodes/%d/parent", i);
        assert_string_equal(json_at(doc, pointer), json_at(doc, "/nodes/0/key"));
    }
    yyjson_doc_free(doc);
}

/* A branch within a run: its parent is a block that names no object. */
static void test_a_branch_within_a_run(void **state)
{
    struct admin_tree *tree = admin_tree_create();
    yyjson_doc *doc;

    (void)state;
    add(tree, 1, 8, 0, 0, 800);
    add(tree, 1, 20, 3, 300, 400);
    add(tree, 1, 21, 3, 300, 500);
    doc = written(&tree, 10);
    assert_int_equal(nodes_of(doc), 3);
    assert_string_equal(json_at(doc, "/nodes/1/parent"), json_at(doc, "/nodes/0/key"));
    assert_string_equal(json_at(doc, "/nodes/2/parent"), json_at(doc, "/nodes/0/key"));
    yyjson_doc_free(doc);
}

/* Parents of what is shown are shown. */
static void test_the_largest_are_kept(void **state)
{
    struct admin_tree *tree = admin_tree_create();
    yyjson_doc *doc;

    (void)state;
    add(tree, 1, 1, 0, 0, 10);
    for (unsigned char i = 0; i < 100; i++)
        add(tree, 1, (unsigned char)(100 + i), 1, 10, 11u + i);
    doc = written(&tree, 5);
    assert_int_equal(nodes_of(doc), 5);
    assert_int_equal(json_number_at(doc, "/nodes_left_out"), 96);
    assert_true(yyjson_is_null(yyjson_doc_ptr_get(doc, "/nodes/0/parent")));
    for (size_t i = 1; i < 5; i++) {
        char pointer[32];

        snprintf(pointer, sizeof(pointer), "/nodes/%zu/bytes", i);
        assert_true(json_number_at(doc, pointer) >= 97);
    }
    yyjson_doc_free(doc);
}

/* Keys that contradict each other end in no loop. */
static void test_nonsense_ends(void **state)
{
    struct admin_tree *tree = admin_tree_create();
    yyjson_doc *doc;

    (void)state;
    add(tree, 1, 1, 2, 0, 10);
    add(tree, 1, 2, 1, 0, 10);
    add(tree, 1, 3, 3, 0, 10);
    add(tree, 1, 4, 0, 0, 10);
    add(tree, 1, 4, 0, 0, 10); /* twice */
    doc = written(&tree, 10);
    assert_true(nodes_of(doc) <= 5);
    yyjson_doc_free(doc);
    tree = admin_tree_create();
    doc = written(&tree, 10);
    assert_int_equal(nodes_of(doc), 0);
    yyjson_doc_free(doc);
}

TEST_SUITE(TEST(test_chains_become_one_node), TEST(test_branches), TEST(test_a_branch_within_a_run),
           TEST(test_the_largest_are_kept), TEST(test_nonsense_ends))
