/*
 * index.c: the radix tree over blocks of tokens. The diagram and the invariants X1..X5 are in
 * index.h.
 *
 * MATCHING descends one node per block. It reads only the first cache lines of a node and its
 * tokens; in an unbranched conversation a block costs one memcmp.
 *
 * GROWING. A tail that new tokens extend is replaced by a longer node that takes over its objects
 * and its place in the order. The place is the same because any string between a string and its
 * continuation begins with that string, and no such sibling exists (X2).
 *
 * EVICTABLE. "Never a parent before its children" would need a search of the whole subtree.
 * Instead each node knows whether it or a node below has rows (`counted`), and how many of its
 * children are counted (`rows_below`). A change propagates upwards only while it changes
 * something, which is one step in a tree whose parents have rows. Each object counts what holds
 * it:
 *
 *      hold_count = children of its nodes that are counted and not its own nodes
 *                 + its nodes that are pinned
 *
 * so the question is O(1), and every change is reported as it happens: see index_on_change.
 *
 * ALL OR NOTHING. Inserting allocates everything first; linking cannot fail. Nothing else here
 * allocates.
 *
 * Limits: there is no recursion, since a path may be as long as a prompt. The index never frees an
 * object, nor keeps one in the tree because it is leased (X5): that is between the cache and its
 * readers. Among siblings it picks the one that shares the most tokens with a prompt, and on a tie
 * one with rows, but it does not search for rows further: a sibling without rows may hide one that
 * shares less and has them. That shortens a hit and never falsifies one. It is rare, because a
 * leaf that loses its rows is removed unless it has a snapshot.
 */
#include "cache/index.h"

#include <assert.h>
#include <string.h>

#include "base/attr.h"
#include "base/mem.h"
#include "cache/index_impl.h"

enum { CONTINUE_CHILDREN_MAX = 16 };

/* ---- nodes ---- */

/* A node that points to its parent but is not linked there yet. NULL: no memory. */
static struct node *node_create(const struct index *index, struct node *parent,
                                const int32_t *tokens, uint32_t count)
{
    struct node *node = mem_try_alloc(sizeof(*node) + count * sizeof(*tokens));

    assert(count > 0 && count <= index->block_tokens && !parent->tail); /* X1 */
    if (node == NULL)
        return NULL;
    *node = (struct node){
        .parent = parent,
        .begin = node_end(parent),
        .tail = count < index->block_tokens,
        .key = node_key_behind(&index->space_key, parent, tokens, count),
    };
    memcpy(node->tokens, tokens, count * sizeof(*tokens));
    list_init(&node->snapshots);
    node->link.tokens = node->tokens;
    node->link.count = count;
    memcpy(&node->link.priority, node->key.bytes, sizeof(node->link.priority));
    return node;
}

static void link_node(struct index *index, struct node *node)
{
    treap_insert(&node->parent->children, &node->link);
    index->nodes++;
    index->bytes_nodes += node_bytes(node);
}

/* Takes an empty node out of the tree and frees it. */
static void unlink_node(struct index *index, struct node *node)
{
    assert(node_empty(node) && node->marks == NULL && !node->counted && node->rows_below == 0);
    treap_remove(&node->parent->children, &node->link);
    index->removals++;
    index->path_count = 0;
    index->nodes--;
    index->bytes_nodes -= node_bytes(node);
    mem_free(node);
}

struct child {
    struct node *node; /* NULL: no child shares a token */
    uint32_t common;
};

/* Of the children that begin with all of these tokens, one whose rows (or sliding rows) cover them;
 * NULL when there is none. */
static struct node *child_with(const struct node *parent, const int32_t *tokens, uint32_t count,
                               enum hearth_object_kind kind)
{
    struct treap_place place = treap_find(parent->children, tokens, count);
    bool equal = place.before != NULL && place.before_common == count;
    struct treap_node *link = equal ? place.before : place.after;

    for (;
         link != NULL && link->count >= count && treap_common(link->tokens, tokens, count) == count;
         link = treap_next(parent->children, link)) {
        struct node *node = node_of_link(link);
        uint32_t end = kind == HEARTH_OBJECT_ROWS ? node_rows_end(node) : node_sliding_end(node);
        if (end >= node->begin + count)
            return node;
    }
    return NULL;
}

/* The child that shares the most tokens with `tokens`; on a tie, one with rows. */
static struct child best_child(const struct node *parent, const int32_t *tokens, uint32_t count)
{
    struct treap_place place = treap_find(parent->children, tokens, count);
    struct child before = {node_of_link(place.before), place.before_common};
    struct child after = {node_of_link(place.after), place.after_common};

    if (before.common == 0 && after.common == 0)
        return (struct child){0};
    if (after.common == count && node_rows_end(after.node) < after.node->begin + count) {
        /* several children may begin with these tokens */
        struct node *other = child_with(parent, tokens, count, HEARTH_OBJECT_ROWS);
        after.node = other != NULL ? other : after.node;
    }
    if (before.common == after.common)
        return before.node->rows == NULL && after.node->rows != NULL ? after : before;
    return before.common > after.common ? before : after;
}

/* ---- what prevents an eviction ---- */

static void tell(const struct index *index, struct object *object, bool evictable)
{
    if (index->on_change != NULL)
        index->on_change(object, evictable, index->on_change_arg);
}

static void block(const struct index *index, struct object *object, bool more)
{
    assert(more || object->hold_count > 0);
    if (more ? object->hold_count++ == 0 : --object->hold_count == 0)
        tell(index, object, !more);
}

/* The object has been detached from its nodes. */
static void leave(const struct index *index, struct object *object)
{
    bool evictable = object->hold_count == 0;

    object->last = NULL;
    object->hold_count = 0;
    if (evictable)
        tell(index, object, false);
}

/* The node gained or lost rows: updates the parent, and so on upwards while anything changes. */
static void count_rows(const struct index *index, struct node *node)
{
    for (; node->parent != NULL; node = node->parent) {
        struct node *parent = node->parent;
        bool holds = node->rows != NULL || node->rows_below > 0;
        if (holds == node->counted)
            return;
        node->counted = holds;
        if (holds)
            parent->rows_below++;
        else
            parent->rows_below--;
        if (parent->rows != NULL && parent->rows != node->rows)
            block(index, parent->rows, holds);
        if (parent->sliding != NULL && parent->sliding != node->sliding)
            block(index, parent->sliding, holds);
    }
}

void index_block_node(const struct index *index, struct node *node, bool pinned)
{
    if (node->rows != NULL)
        block(index, node->rows, pinned);
    if (node->sliding != NULL)
        block(index, node->sliding, pinned);
    LIST_FOREACH (struct object, snapshot, &node->snapshots, node_link)
        block(index, snapshot, pinned);
}

/* ---- objects ---- */

static void attach_snapshot(struct index *index, struct node *last, struct object *object)
{
    object->mark = (struct treap_node){
        .tokens = last->tokens,
        .count = object->end - last->begin,
    };
    /* The priority comes from the content, as a node's does. A tail that ends here has the same key
     * but is in another set, so equal bits do no harm. */
    struct hash256 key =
        node_key_behind(&index->space_key, last->parent, last->tokens, object->mark.count);
    memcpy(&object->mark.priority, key.bytes, sizeof(object->mark.priority));
    treap_insert(&last->parent->marks, &object->mark);
    list_push_back(&last->snapshots, &object->node_link);
    index->snapshots++;
    object->hold_count = last->pins > 0;
}

/* Longer rows displace shorter ones. The counts stay as they are: the node has rows before and
 * after. */
static void displace(const struct index *index, struct object *object, struct list *displaced)
{
    leave(index, object);
    list_push_back(displaced, &object->node_link);
}

static void attach_rows(struct index *index, struct node *last, struct object *object,
                        struct list *displaced)
{
    struct node *node = last, *below = NULL;

    object->hold_count = 0;
    for (;; node = node->parent) {
        struct object **slot = node_slot(node, object->kind);
        if (*slot != NULL)
            displace(index, *slot, displaced);
        *slot = object;
        object->hold_count += node->rows_below + (node->pins > 0);
        if (below != NULL && below->counted)
            object->hold_count--; /* its own */
        if (node->begin == object->begin)
            break;
        below = node;
    }
    count_rows(index, last);
}

static void take_off_rows(const struct index *index, const struct object *object)
{
    struct node *node = object->last;

    for (;; node = node->parent) {
        struct object **slot = node_slot(node, object->kind);
        assert(*slot == object); /* X3 */
        *slot = NULL;
        if (node->begin == object->begin)
            break;
    }
    count_rows(index, object->last);
}

/* Detaches an object from its nodes, which stay. */
static void take_off(struct index *index, struct object *object)
{
    if (object->kind == HEARTH_OBJECT_SNAPSHOT) {
        treap_remove(&object->last->parent->marks, &object->mark);
        list_remove(&object->last->snapshots, &object->node_link);
        index->snapshots--;
    } else {
        take_off_rows(index, object);
    }
    leave(index, object);
}

/* ---- inserting ---- */

static bool reserve_path(struct index *index, size_t nodes)
{
    size_t cap = MAX(nodes, 2 * index->path_cap);

    if (nodes <= index->path_cap)
        return true;
    struct node **path = mem_try_realloc(index->path, cap * sizeof(*path));
    if (path == NULL)
        return false;
    index->path = path;
    index->path_cap = cap;
    return true;
}

/* Frees nodes that were never linked, from the last one up to, but not including, `top`. */
static void chain_free(struct node *last, const struct node *top)
{
    while (last != top) {
        struct node *parent = last->parent;
        mem_free(last);
        last = parent;
    }
}

/* Creates nodes for all these tokens below `top`, not linked yet. Returns the last; NULL: no
 * memory. */
static struct node *chain_create(const struct index *index, struct node *top, const int32_t *tokens,
                                 size_t count)
{
    struct node *last = top;

    while (count > 0) {
        uint32_t n = (uint32_t)MIN(count, index->block_tokens);
        struct node *node = node_create(index, last, tokens, n);
        if (node == NULL) {
            chain_free(last, top);
            return NULL;
        }
        last = node;
        tokens += n;
        count -= n;
    }
    return last;
}

/* Moves everything from the tail to `node`, which begins with the tail's tokens and replaces it;
 * so the parent's counts and the order of its marks do not change. */
static void grow_tail(struct index *index, struct node *tail, struct node *node)
{
    assert(tail->tail && tail->children == NULL && tail->rows_below == 0);
    assert(tail->parent == node->parent && tail->link.count < node->link.count);
    assert(treap_common(tail->tokens, node->tokens, tail->link.count) == tail->link.count);
    node->rows = tail->rows;
    if (node->rows != NULL)
        node->rows->last = node;
    node->sliding = tail->sliding;
    if (node->sliding != NULL)
        node->sliding->last = node;
    LIST_FOREACH_SAFE (struct object, snapshot, &tail->snapshots, node_link) {
        list_remove(&tail->snapshots, &snapshot->node_link);
        list_push_back(&node->snapshots, &snapshot->node_link);
        snapshot->last = node;
        snapshot->mark.tokens = node->tokens;
    }
    node->pins = tail->pins;
    if (tail->pins > 0)
        index_move_pins(index, tail, node);
    node->counted = tail->counted;
    tail->rows = tail->sliding = NULL;
    tail->pins = 0;
    tail->counted = false;
    unlink_node(index, tail);
}

/* ---- hints ---- */

static bool hint_good(const struct index *index, const struct index_hint *hint)
{
    return hint != NULL && hint->node != NULL && hint->removals == index->removals;
}

/* The last whole block that is known to match and does not extend past `count`; the root when
 * nothing is known. */
static struct node *hint_start(const struct index *index, const struct index_hint *hint,
                               size_t count)
{
    struct node *node = hint_good(index, hint) ? hint->node : index->root;

    while (node_end(node) > count)
        node = node->parent;
    return node;
}

/* Tokens [0, known) match on the path to `node`, which may extend further. Tails are not
 * remembered, because they grow. */
static void hint_remember(const struct index *index, struct index_hint *hint, struct node *node,
                          size_t known)
{
    if (node->tail || node_end(node) > known)
        node = node->parent;
    if (hint == NULL || node == index->root)
        return;
    if (!hint_good(index, hint) || node_end(node) > node_end(hint->node))
        *hint = (struct index_hint){node, index->removals};
}

/* Makes the path end with `node`; returns its length. A node has only one path, so a cached path
 * that contains the node is valid up to it. */
static size_t path_to(struct index *index, struct node *node)
{
    size_t count = node_end(node) / index->block_tokens;

    if (count > 0 && (count > index->path_count || index->path[count - 1] != node))
        for (size_t i = count; i-- > 0; node = node->parent)
            index->path[i] = node;
    return count;
}

/* ---- emptying ---- */

/* Passes the objects that end on this node to `drop`. */
static void drop_objects(struct index *index, struct node *node, index_drop_fn drop, void *arg)
{
    struct object *rows[2] = {node->rows, node->sliding};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i] != NULL) {
            /* leaves go first, so runs that continue below are gone */
            assert(rows[i]->last == node);
            take_off(index, rows[i]);
            drop(rows[i], arg);
        }
    }
    LIST_FOREACH_SAFE (struct object, snapshot, &node->snapshots, node_link) {
        take_off(index, snapshot);
        drop(snapshot, arg);
    }
}

static bool node_unleased(struct node *node, void *arg)
{
    (void)arg;
    assert(node->rows == NULL || node->rows->leases == 0);
    assert(node->sliding == NULL || node->sliding->leases == 0);
    LIST_FOREACH (struct object, snapshot, &node->snapshots, node_link)
        assert(snapshot->leases == 0);
    return true;
}

/* ---- the index ---- */

struct index *index_create(const struct hash256 *space_key, uint32_t block_tokens)
{
    struct index *index = mem_alloc(sizeof(*index));

    assert(block_tokens > 0);
    index->space_key = *space_key;
    index->block_tokens = block_tokens;
    index->root = mem_alloc(sizeof(*index->root));
    list_init(&index->root->snapshots);
    list_init(&index->pins);
    return index;
}

void index_destroy(struct index **index, index_drop_fn drop, void *arg)
{
    struct index *dead = *index;

    if (dead == NULL)
        return;
    index_each(dead, node_unleased, NULL);
    index_clear(dead, drop, arg);
    mem_free(dead->path);
    mem_free(dead->root);
    mem_free(dead);
    *index = NULL;
}

void index_clear(struct index *index, index_drop_fn drop, void *arg)
{
    struct node *node = index->root;

    index_forget_pins(index);
    while (node->children != NULL || node != index->root) {
        if (node->children != NULL) {
            node = node_of_link(node->children);
            continue;
        }
        struct node *parent = node->parent;
        drop_objects(index, node, drop, arg);
        node->pins = 0;
        unlink_node(index, node);
        node = parent;
    }
    assert(index->nodes == 0 && index->snapshots == 0 && index->bytes_nodes == 0);
}

void index_on_change(struct index *index,
                     void (*fn)(struct object *object, bool evictable, void *arg), void *arg)
{
    index->on_change = fn;
    index->on_change_arg = arg;
}

struct index_match index_match_hinted(struct index *index, const int32_t *tokens, size_t count,
                                      struct index_hint *hint)
{
    struct node *node = hint_start(index, hint, count);
    struct index_match match = {.path = index->path, .tokens = node_end(node)};

    assert(count <= UINT32_MAX);
    match.nodes_count = path_to(index, node);
    while (match.tokens < count && node->children != NULL) {
        uint32_t n = (uint32_t)MIN(count - match.tokens, index->block_tokens);
        struct child child = best_child(node, tokens + match.tokens, n);
        if (child.node == NULL)
            break;
        match.tokens += child.common;
        if (child.common < child.node->link.count) {
            match.partial = child.node;
            match.partial_tokens = child.common;
            break;
        }
        assert(match.nodes_count < index->path_cap);
        match.path[match.nodes_count++] = child.node;
        node = child.node;
    }
    index->path_count = match.nodes_count;
    hint_remember(index, hint, node, match.tokens);
    return match;
}

struct index_match index_match(struct index *index, const int32_t *tokens, size_t count)
{
    return index_match_hinted(index, tokens, count, NULL);
}

struct node *index_insert_hinted(struct index *index, const int32_t *tokens, size_t count,
                                 struct index_hint *hint)
{
    struct node *top = hint_start(index, hint, count), *tail = NULL;
    size_t at = node_end(top);

    assert(count > 0 && count <= UINT32_MAX);
    while (at < count) {
        uint32_t n = (uint32_t)MIN(count - at, index->block_tokens);
        struct child child = best_child(top, tokens + at, n);
        if (child.node != NULL && child.common < n && child.common == child.node->link.count)
            tail = child.node;
        if (child.common < n)
            break;
        top = child.node;
        at += n;
    }
    hint_remember(index, hint, top, at);
    if (at == count)
        return top;

    if (!reserve_path(index, (count - 1) / index->block_tokens + 1))
        return NULL;
    struct node *last = chain_create(index, top, tokens + at, count - at);
    if (last == NULL)
        return NULL;
    struct node *node = last;
    for (; node->parent != top; node = node->parent)
        link_node(index, node);
    if (tail != NULL)
        grow_tail(index, tail, node);
    link_node(index, node);
    hint_remember(index, hint, last, count);
    return last;
}

struct node *index_insert(struct index *index, const int32_t *tokens, size_t count)
{
    return index_insert_hinted(index, tokens, count, NULL);
}

bool index_may_attach(const struct index *index, const struct node *last,
                      const struct object *object)
{
    uint32_t end = object->end;

    assert(end > last->begin && end <= node_end(last));
    if (object->kind == HEARTH_OBJECT_SNAPSHOT)
        return node_snapshot(last, end) == NULL;
    assert(object->begin % index->block_tokens == 0 && object->begin <= last->begin);
    assert(object->begin == last->begin || (end == node_end(last) && !last->tail));
    for (const struct node *node = last;; node = node->parent) {
        uint32_t held =
            object->kind == HEARTH_OBJECT_ROWS ? node_rows_end(node) : node_sliding_end(node);
        if (held >= MIN(end, node_end(node)))
            return false;
        if (node->begin == object->begin)
            break;
    }
    /* A tail has one key, whichever of the nodes that begin with its tokens it is stored through. */
    return end == node_end(last) ||
           child_with(last->parent, last->tokens, end - last->begin, object->kind) == NULL;
}

void index_attach(struct index *index, struct node *last, struct object *object, index_drop_fn drop,
                  void *arg)
{
    struct list displaced;
    struct list_node *gone;

    assert(object->last == NULL && !object->dropped && !list_node_linked(&object->node_link));
    assert(index_may_attach(index, last, object));
    list_init(&displaced);
    object->last = last;
    if (object->kind == HEARTH_OBJECT_SNAPSHOT)
        attach_snapshot(index, last, object);
    else
        attach_rows(index, last, object, &displaced);
    if (object->hold_count == 0)
        tell(index, object, true);
    while ((gone = list_pop_front(&displaced)) != NULL)
        drop(CONTAINER_OF(gone, struct object, node_link), arg);
}

void index_detach(struct index *index, struct object *object)
{
    struct node *last = object->last;

    assert(last != NULL);
    take_off(index, object);
    index_prune(index, last);
}

void index_prune(struct index *index, struct node *node)
{
    while (node->parent != NULL && node_empty(node)) {
        struct node *parent = node->parent;
        unlink_node(index, node);
        node = parent;
    }
}

bool index_evictable(const struct index *index, const struct object *object)
{
    (void)index;
    return object->last != NULL && object->hold_count == 0 && object->leases == 0;
}

size_t index_nodes(const struct index *index)
{
    return index->nodes;
}

size_t index_snapshots(const struct index *index)
{
    return index->snapshots;
}

uint64_t index_bytes(const struct index *index)
{
    return sizeof(*index) + sizeof(*index->root) + index->path_cap * sizeof(*index->path) +
           index->bytes_nodes + index->pins.count * index_pin_bytes();
}

uint64_t index_node_bytes(uint32_t block_tokens)
{
    /* The path array of matches doubles when it grows, at most to twice the nodes of the new
     * path. */
    return sizeof(struct node) + block_tokens * sizeof(int32_t) + 2 * sizeof(struct node *);
}

struct hash256 index_block_key(const struct index *index, const struct node *parent,
                               const int32_t *tokens, uint32_t count)
{
    return node_key_behind(&index->space_key, parent ? parent : index->root, tokens, count);
}

struct hash256 index_name(const struct hash256 *space_key, const struct hash256 *tokens_key,
                          enum hearth_object_kind kind, uint32_t begin)
{
    struct hash256_state state;

    hash256_init_keyed(&state, space_key);
    hash256_update_framed(&state, tokens_key->bytes, sizeof(tokens_key->bytes));
    hash256_update_u32(&state, kind);
    hash256_update_u32(&state, begin);
    return hash256_final(&state);
}

struct hash256 index_object_key(const struct index *index, const struct node *last,
                                const struct object *object)
{
    struct hash256 tokens_key = last->key;

    assert(object->end > last->begin && object->end <= node_end(last));
    if (object->end < node_end(last))
        tokens_key = node_key_behind(&index->space_key, last->parent, last->tokens,
                                     object->end - last->begin);
    return index_name(&index->space_key, &tokens_key, object->kind, object->begin);
}

/* ---- what follows ---- */

static uint64_t used_ns(const struct node *node)
{
    const struct object *rows = node->rows;

    return rows != NULL ? MAX(rows->used_ns, rows->stored_ns) : 0;
}

/* The child used last of those that begin with `count` tokens; NULL when there is none. Of many,
 * only the first few are compared: a caller that guesses needs no better answer. */
static struct node *last_used_child(const struct node *node, const int32_t *tokens, uint32_t count)
{
    struct treap_node *link = treap_first(node->children);
    struct node *best = NULL;

    if (count > 0) {
        struct treap_place place = treap_find(node->children, tokens, count);
        bool found = place.before != NULL && place.before_common == count;
        link = found ? place.before : place.after;
    }
    for (int i = 0; i < CONTINUE_CHILDREN_MAX && link != NULL; i++) {
        struct node *child = node_of_link(link);
        if (link->count < count || treap_common(link->tokens, tokens, count) < count)
            break;
        if (best == NULL || used_ns(child) > used_ns(best))
            best = child;
        link = treap_next(node->children, link);
    }
    return best;
}

uint32_t index_continue(struct index *index, const int32_t *tokens, uint32_t count, int32_t *next,
                        uint32_t max)
{
    struct index_match match = index_match(index, tokens, count);
    const struct node *node =
        match.nodes_count > 0 ? match.path[match.nodes_count - 1] : index->root;
    uint32_t known = match.partial_tokens, copied = 0;

    if (match.tokens < count)
        return 0;
    tokens += count - known;
    while (copied < max && (node = last_used_child(node, tokens, known)) != NULL) {
        uint32_t more = MIN(node->link.count - known, max - copied);
        memcpy(next + copied, node->tokens + known, more * sizeof(*next));
        copied += more;
        known = 0;
    }
    return copied;
}

/* From `node` on, up to the end of what is below `top`. */
static void walk(struct node *node, const struct node *top,
                 bool (*fn)(struct node *node, void *arg), void *arg)
{
    while (node != NULL && fn(node, arg)) {
        struct node *next = node_of_link(treap_first(node->children));
        for (; next == NULL && node != top; node = node->parent)
            next = node_of_link(treap_next(node->parent->children, &node->link));
        node = next;
    }
}

void index_each_below(struct node *top, bool (*fn)(struct node *node, void *arg), void *arg)
{
    walk(top, top, fn, arg);
}

void index_each(const struct index *index, bool (*fn)(struct node *node, void *arg), void *arg)
{
    walk(node_of_link(treap_first(index->root->children)), index->root, fn, arg);
}
