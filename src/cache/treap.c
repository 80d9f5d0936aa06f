/*
 * treap.c: a treap by splitting and merging, without recursion and without parent links.
 *
 * A descent tracks two neighbours that enclose the searched string. The tokens that both share
 * with it are shared by everything between them, so a comparison starts there and not at the first
 * token:
 *
 *      before   7 7 7 1 4 ...      3 tokens in common with the searched 7 7 7 2 9 ...
 *      (here)   7 7 7 ? ?          must begin with 7 7 7: compare from the fourth on
 *      after    7 7 7 5 0 ...
 *
 * It stores no parents and no counts: its user has both, and every block pays for the size of a
 * node.
 */
#include "cache/treap.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"

/* Compares two strings whose first `skip` tokens are known to be equal. Returns < 0, 0, > 0, and
 * the number of common tokens. */
static int compare(const int32_t *a, uint32_t a_count, const struct treap_node *b, uint32_t skip,
                   uint32_t *common)
{
    uint32_t most = MIN(a_count, b->count);

    assert(skip <= most);
    *common = skip + treap_common(a + skip, b->tokens + skip, most - skip);
    if (*common < most)
        return a[*common] < b->tokens[*common] ? -1 : 1;
    return (a_count > b->count) - (a_count < b->count);
}

static int compare_nodes(const struct treap_node *a, const struct treap_node *b)
{
    uint32_t common;

    return compare(a->tokens, a->count, b, 0, &common);
}

/* The pointer that points at `node`. */
static struct treap_node **link_of(struct treap_node **root, const struct treap_node *node)
{
    while (*root != node) {
        assert(*root != NULL); /* otherwise it is not in this set */
        root = compare_nodes(node, *root) < 0 ? &(*root)->left : &(*root)->right;
    }
    return root;
}

/* Splits a tree into the parts before and after `node`, which is not in it. */
static void split(struct treap_node *root, struct treap_node *node)
{
    struct treap_node **less = &node->left, **more = &node->right;

    while (root != NULL) {
        int order = compare_nodes(node, root);
        assert(order != 0);
        if (order > 0) {
            *less = root;
            less = &root->right;
            root = root->right;
        } else {
            *more = root;
            more = &root->left;
            root = root->left;
        }
    }
    *less = *more = NULL;
}

/* Joins two trees; everything in the first comes before everything in the second. */
static void merge(struct treap_node **link, struct treap_node *less, struct treap_node *more)
{
    while (less != NULL && more != NULL) {
        if (less->priority >= more->priority) {
            *link = less;
            link = &less->right;
            less = less->right;
        } else {
            *link = more;
            link = &more->left;
            more = more->left;
        }
    }
    *link = less ? less : more;
}

uint32_t treap_common(const int32_t *a, const int32_t *b, uint32_t count)
{
    uint32_t i = 0;

    if (memcmp(a, b, count * sizeof(*a)) == 0)
        return count;
    while (a[i] == b[i])
        i++;
    return i;
}

struct treap_place treap_find(struct treap_node *root, const int32_t *tokens, uint32_t count)
{
    struct treap_place place = {0};
    uint32_t common;

    while (root != NULL) {
        uint32_t skip = MIN(place.before_common, place.after_common);
        int order = compare(tokens, count, root, skip, &common);
        if (order < 0) {
            place.after = root;
            place.after_common = common;
            root = root->left;
        } else {
            place.before = root;
            place.before_common = common;
            root = order > 0 ? root->right : NULL;
        }
    }
    return place;
}

struct treap_node *treap_find_equal(struct treap_node *root, const int32_t *tokens, uint32_t count)
{
    struct treap_place place = treap_find(root, tokens, count);

    return place.before_common == count && place.before != NULL && place.before->count == count
               ? place.before
               : NULL;
}

struct treap_node *treap_find_prefix(struct treap_node *root, const int32_t *tokens, uint32_t count)
{
    struct treap_place place = {0};

    /* A prefix is at or before the neighbour `before`, and everything between the two begins
     * with it. So it is the neighbour itself, or no longer than what the neighbour has in
     * common. */
    for (; count > 0; count = place.before_common) {
        place = treap_find(root, tokens, count);
        if (place.before != NULL && place.before_common == place.before->count)
            return place.before;
    }
    return NULL;
}

void treap_insert(struct treap_node **root, struct treap_node *node)
{
    assert(node->count > 0);
    while (*root != NULL && (*root)->priority >= node->priority) {
        int order = compare_nodes(node, *root);
        assert(order != 0);
        root = order < 0 ? &(*root)->left : &(*root)->right;
    }
    split(*root, node);
    *root = node;
}

void treap_remove(struct treap_node **root, struct treap_node *node)
{
    struct treap_node **link = link_of(root, node);

    merge(link, node->left, node->right);
    node->left = node->right = NULL;
}

struct treap_node *treap_first(struct treap_node *root)
{
    while (root != NULL && root->left != NULL)
        root = root->left;
    return root;
}

struct treap_node *treap_next(struct treap_node *root, const struct treap_node *node)
{
    struct treap_node *next = NULL;

    if (node->right != NULL)
        return treap_first(node->right);
    while (root != node) {
        assert(root != NULL);
        if (compare_nodes(node, root) < 0) {
            next = root;
            root = root->left;
        } else {
            root = root->right;
        }
    }
    return next;
}
