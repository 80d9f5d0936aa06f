/*
 * index_check.c: the invariants X1..X5 of index.h, implemented a second time, naively: everything
 * is recounted and keys are recomputed. For tests and debug builds.
 */
#include "cache/index.h"

#include <assert.h>

#include "base/attr.h"
#include "cache/index_impl.h"

struct totals {
    const struct index *index;
    size_t nodes, tails, snapshots;
    uint64_t bytes;
    uint64_t pins;
};

/* Whether this node or one below has rows, as recorded for its parent; each node's own flag is
 * checked when it is visited. */
static bool holds(const struct node *node)
{
    return node->rows != NULL || node->rows_below > 0;
}

static bool covers(const struct object *object, const struct node *node)
{
    return node->rows == object || node->sliding == object;
}

/* X4: the expected hold_count of rows, by looking at every child of its nodes. */
static uint32_t count_holds(const struct object *object)
{
    uint32_t hold_count = 0;

    for (const struct node *node = object->last;; node = node->parent) {
        hold_count += node->pins > 0;
        for (struct treap_node *link = treap_first(node->children); link != NULL;
             link = treap_next(node->children, link)) {
            const struct node *child = node_of_link(link);
            hold_count += holds(child) && !covers(object, child);
        }
        if (node->begin == object->begin)
            return hold_count;
    }
}

/* X3 and X5, once per object: on the node where it ends. */
static void check_rows(const struct index *index, const struct node *node,
                       const struct object *object, enum object_kind kind)
{
    if (object == NULL)
        return;
    assert(object->kind == kind && !object->dropped);
    assert(object->begin <= node->begin && object->end > node->begin);
    if (object->last != node) {
        assert(object->end > node_end(node)); /* a run continues below */
        return;
    }
    assert(object->begin % index->block_tokens == 0 && object->end <= node_end(node));
    assert(object->begin == node->begin || (object->end == node_end(node) && !node->tail));
    for (const struct node *above = node; above->begin > object->begin; above = above->parent)
        assert(covers(object, above->parent));
    assert(object->hold_count == count_holds(object));
    assert(!index_evictable(index, object) || object->leases == 0);
}

static void check_snapshots(const struct node *node)
{
    list_check(&node->snapshots);
    LIST_FOREACH (struct object, object, &node->snapshots, node_link) {
        assert(object->kind == OBJECT_SNAPSHOT && !object->dropped && object->last == node);
        assert(object->end > node->begin && object->end <= node_end(node));
        assert(object->mark.tokens == node->tokens);
        assert(object->mark.count == object->end - node->begin);
        assert(node_snapshot(node, object->end) == object);
        assert(object->hold_count == (node->pins > 0));
    }
}

/* X1, X2, and the node's data about its children. */
static void check_children(const struct node *node)
{
    const struct node *last = NULL;
    size_t snapshots = 0;
    uint32_t rows_below = 0;

    treap_check(node->children);
    for (struct treap_node *link = treap_first(node->children); link != NULL;
         link = treap_next(node->children, link)) {
        const struct node *child = node_of_link(link);
        assert(child->parent == node && child->begin == node_end(node));
        /* In this order a string is directly followed by its first continuation, if there is
         * one. */
        assert(last == NULL ||
               treap_common(last->tokens, child->tokens, MIN(last->link.count, child->link.count)) <
                   last->link.count);
        assert(child->counted == holds(child));
        rows_below += child->counted;
        snapshots += child->snapshots.count;
        last = child;
    }
    assert(node->rows_below == rows_below);
    assert(treap_check(node->marks) == snapshots);
}

static bool check_node(struct node *node, void *arg)
{
    struct totals *totals = arg;
    const struct index *index = totals->index;
    struct hash256 key =
        node_key_behind(&index->space_key, node->parent, node->tokens, node->link.count);

    assert(node->link.tokens == node->tokens && node->begin % index->block_tokens == 0);
    assert(node->link.count > 0 && node->link.count <= index->block_tokens);
    assert(node->tail == (node->link.count < index->block_tokens));
    assert(!node->tail || node->children == NULL);
    assert(hash256_eq(&node->key, &key));
    assert(!node_empty(node));
    check_rows(index, node, node->rows, OBJECT_ROWS);
    check_rows(index, node, node->sliding, OBJECT_SLIDING);
    check_snapshots(node);
    check_children(node);
    totals->nodes++;
    totals->pins += node->pins;
    totals->tails += node->tail;
    totals->snapshots += node->snapshots.count;
    totals->bytes += node_bytes(node);
    return true;
}

void index_check(const struct index *index)
{
    const struct node *root = index->root;
    struct totals totals = {.index = index};

    assert(root->parent == NULL && root->link.count == 0 && root->begin == 0 && root->pins == 0);
    assert(root->rows == NULL && root->sliding == NULL && list_empty(&root->snapshots));
    check_children(root);
    index_each(index, check_node, &totals);
    assert(totals.pins == index_pinned_nodes(index));
    assert(totals.nodes == index->nodes && totals.tails == index->tails);
    assert(totals.snapshots == index->snapshots && totals.bytes == index->bytes_nodes);
}
