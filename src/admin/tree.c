/*
 * tree.c: the contents of the cache as a tree of prefixes, small enough to display.
 *
 *      rows [0, 2048) <- rows [2048, 4096) <- rows [4096, 4300)
 *                                 ^---------- rows [4096, 6144)
 *
 * Chains without a branch become one node. Of the rest, the nodes with the most bytes below them
 * are kept.
 *
 * A child that branches off within a run of blocks has a parent key that belongs to no object. It
 * is attached to the run that covers its start if there is only one; otherwise it is a root, with
 * its parent's key.
 *
 * Owner: the caller; not thread-safe.
 *
 *      add:    a node per object, found by its key
 *      link:   each to its parent; snapshots to the rows that end at the same place
 *      order:  breadth first from the roots; a node with one child absorbs it
 *      write:  parents have at least the bytes of their children, so the largest nodes form a tree
 */
#include "admin/admin_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum {
    STRAYS_MAX = 256, /* branches within runs that are searched for: each search visits all nodes */
};

struct owner {
    unsigned char space[HEARTH_KEY_BYTES];
    char tenant[ADMIN_TENANT_BYTES];
};

struct node {
    struct map_node link;
    unsigned char key[HEARTH_KEY_BYTES], parent[HEARTH_KEY_BYTES];
    size_t owner;
    bool rows, gone; /* gone: absorbed by another node */
    uint32_t begin, end, uses, tiers, objects;
    uint64_t bytes, below; /* its own; including its descendants */
    double age_s;
    enum hearth_entry entry;
    struct node *up, *child, *sibling;
    size_t children;
};

struct admin_tree {
    struct map map; /* by key; rows */
    struct node **nodes;
    size_t count, cap;
    struct node **order; /* breadth first */
    size_t order_count;
    struct owner *owners;
    size_t owners_count, owners_cap;
    uint64_t left_out;
};

/* ---- add ---- */

struct admin_tree *admin_tree_create(void)
{
    struct admin_tree *tree = mem_alloc(sizeof(*tree));

    map_init(&tree->map);
    return tree;
}

void admin_tree_destroy(struct admin_tree **out)
{
    struct admin_tree *tree = *out;

    if (!tree)
        return;
    for (size_t i = 0; i < tree->count; i++)
        mem_free(tree->nodes[i]);
    map_fini(&tree->map);
    mem_free(tree->nodes);
    mem_free(tree->order);
    mem_free(tree->owners);
    mem_free(tree);
    *out = NULL;
}

static bool equals(const struct map_node *link, const void *key)
{
    return memcmp(CONTAINER_OF(link, struct node, link)->key, key, HEARTH_KEY_BYTES) == 0;
}

/* Keys are already keyed hashes, so their distribution cannot be chosen. */
static uint64_t hash_of(const unsigned char *key)
{
    return map_hash(key, HEARTH_KEY_BYTES, 0);
}

static struct node *find(struct admin_tree *tree, const unsigned char *key)
{
    struct map_node *link = map_find(&tree->map, hash_of(key), equals, key);

    return link ? CONTAINER_OF(link, struct node, link) : NULL;
}

/* Objects of a space arrive together, so it is nearly always the last one. SIZE_MAX: no memory. */
static size_t owner_of(struct admin_tree *tree, const struct hearth_held *held)
{
    for (size_t i = tree->owners_count; i > 0; i--)
        if (memcmp(tree->owners[i - 1].space, held->space, HEARTH_KEY_BYTES) == 0)
            return i - 1;
    if (!mem_try_reserve(&tree->owners, tree->owners_count + 1, &tree->owners_cap,
                         sizeof(*tree->owners)))
        return SIZE_MAX;
    struct owner *owner = &tree->owners[tree->owners_count];
    memcpy(owner->space, held->space, HEARTH_KEY_BYTES);
    snprintf(owner->tenant, sizeof(owner->tenant), "%s", held->tenant ? held->tenant : "");
    return tree->owners_count++;
}

static struct node *make_node(struct admin_tree *tree, const struct hearth_held *held)
{
    size_t owner = owner_of(tree, held);
    struct node *node;

    if (owner == SIZE_MAX || tree->count == ADMIN_TREE_OBJECTS_MAX ||
        !mem_try_reserve(&tree->nodes, tree->count + 1, &tree->cap, sizeof(*tree->nodes)))
        return NULL;
    node = mem_try_alloc(sizeof(*node));
    if (!node)
        return NULL;
    *node = (struct node){
        .owner = owner,
        .rows = held->kind == HEARTH_OBJECT_ROWS,
        .begin = held->begin,
        .end = held->end,
        .uses = held->uses,
        .tiers = held->tiers,
        .objects = 1,
        .bytes = held->bytes,
        .age_s = held->age_s,
        .entry = held->entry,
    };
    memcpy(node->key, held->key, HEARTH_KEY_BYTES);
    memcpy(node->parent, held->parent, HEARTH_KEY_BYTES);
    tree->nodes[tree->count++] = node;
    return node;
}

bool admin_tree_add(struct admin_tree *tree, const struct hearth_held *held)
{
    struct node *node = make_node(tree, held);

    if (!node)
        tree->left_out++;
    else if (node->rows && !find(tree, node->key))
        map_insert(&tree->map, &node->link, hash_of(node->key));
    return node != NULL;
}

/* ---- link ---- */

/* `into` absorbs `node`. */
static void take_in(struct node *into, struct node *node)
{
    into->bytes += node->bytes;
    into->objects += node->objects;
    into->uses = MAX(into->uses, node->uses);
    into->age_s = MIN(into->age_s, node->age_s);
    into->tiers |= node->tiers;
    node->gone = true;
}

/* The only run that covers the start of a stray; NULL: none, or several. */
static struct node *find_run(const struct admin_tree *tree, const struct node *stray)
{
    struct node *found = NULL;

    for (size_t i = 0; i < tree->count; i++) {
        struct node *node = tree->nodes[i];

        if (!node->rows || node == stray || node->owner != stray->owner ||
            node->begin >= stray->begin || node->end <= stray->begin)
            continue;
        if (found)
            return NULL;
        found = node;
    }
    return found;
}

static void link_node(struct admin_tree *tree, struct node *node, size_t *strays)
{
    struct node *up = find(tree, node->parent);

    if (!up && node->begin > 0 && (*strays)++ < STRAYS_MAX)
        up = find_run(tree, node);
    if (!up || up == node || up->owner != node->owner)
        return;
    node->up = up;
    node->sibling = up->child;
    up->child = node;
    up->children++;
}

static void link_all(struct admin_tree *tree)
{
    size_t strays = 0;

    for (size_t i = 0; i < tree->count; i++) {
        struct node *node = tree->nodes[i], *same = find(tree, node->key);

        if (same && same != node && same->owner == node->owner)
            take_in(same, node);
        else if (node->rows)
            link_node(tree, node, &strays);
    }
}

/* ---- order ---- */

/* A chain without a branch becomes one node, with the end and the key of the chain's last node. */
static void compress(struct node *node)
{
    while (node->children == 1) {
        struct node *child = node->child;

        take_in(node, child);
        memcpy(node->key, child->key, HEARTH_KEY_BYTES);
        node->end = child->end;
        node->entry = child->entry;
        node->child = child->child;
        node->children = child->children;
    }
    for (struct node *child = node->child; child; child = child->sibling)
        child->up = node;
}

/* Each node is a child once, or a root: the list has as many entries as there are nodes. */
static void order_all(struct admin_tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        if (!tree->nodes[i]->up && !tree->nodes[i]->gone)
            tree->order[tree->order_count++] = tree->nodes[i];
    for (size_t i = 0; i < tree->order_count; i++) {
        struct node *node = tree->order[i];

        compress(node);
        node->below = node->bytes;
        for (struct node *child = node->child; child; child = child->sibling)
            tree->order[tree->order_count++] = child;
    }
    for (size_t i = tree->order_count; i > 0; i--)
        if (tree->order[i - 1]->up)
            tree->order[i - 1]->up->below += tree->order[i - 1]->below;
}

/* ---- write ---- */

static int larger_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

/* Nodes with fewer bytes than this are left out; *ties of those with exactly as many stay. */
static uint64_t least_of(const struct admin_tree *tree, size_t limit, size_t *ties)
{
    uint64_t *all, least;

    *ties = SIZE_MAX;
    if (tree->order_count <= limit)
        return 0;
    all = mem_alloc_array(tree->order_count, sizeof(*all));
    for (size_t i = 0; i < tree->order_count; i++)
        all[i] = tree->order[i]->below;
    qsort(all, tree->order_count, sizeof(*all), larger_first);
    least = all[limit - 1];
    *ties = 0;
    for (size_t i = 0; i < limit; i++)
        *ties += all[i] == least;
    mem_free(all);
    return least;
}

static void write_node(struct json *json, const struct admin_tree *tree, const struct node *node,
                       const struct admin_book *book)
{
    const struct owner *owner = &tree->owners[node->owner];

    json_open(json, '{');
    admin_write_key(json, "key", node->key);
    admin_write_key(json, "parent", node->up ? node->up->key : NULL);
    json_key_text(json, "model", admin_book_model(book, owner->space));
    json_key_text(json, "tenant", owner->tenant);
    json_key_uint(json, "begin", node->begin);
    json_key_uint(json, "end", node->end);
    json_key_uint(json, "tokens", node->end - node->begin);
    json_key_uint(json, "objects", node->objects);
    json_key_uint(json, "bytes", node->bytes);
    json_key_uint(json, "bytes_below", node->below);
    json_key_uint(json, "uses", node->uses);
    json_key_float(json, "age_s", node->age_s);
    admin_object_write_tiers(json, node->tiers);
    json_key_text(json, "label", admin_object_role(node->entry));
    json_close(json, '}');
}

void admin_tree_write(struct json *json, struct admin_tree *tree, const struct admin_book *book,
                      size_t limit)
{
    size_t ties, shown = 0;

    assert(limit > 0 && !tree->order);
    tree->order = mem_alloc_array(tree->count + 1, sizeof(*tree->order));
    link_all(tree);
    order_all(tree);
    uint64_t least = least_of(tree, limit, &ties);
    json_key_open(json, "nodes", '[');
    for (size_t i = 0; i < tree->order_count; i++) {
        const struct node *node = tree->order[i];

        if (node->below < least || (node->below == least && ties == 0))
            continue;
        ties -= node->below == least;
        write_node(json, tree, node, book);
        shown++;
    }
    json_close(json, ']');
    json_key_uint(json, "objects", tree->count);
    json_key_uint(json, "nodes_left_out", tree->order_count - shown);
    json_key_uint(json, "objects_left_out", tree->left_out);
}
