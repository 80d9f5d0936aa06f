#include "support/cache_check.h"

#include <assert.h>

#include "base/attr.h"
#include "cache/cache.h"
#include "cache/index_impl.h"

/* ---- treap and heap ---- */

static bool token_order(const struct treap_node *a, const struct treap_node *b)
{
    uint32_t shorter = MIN(a->count, b->count);
    uint32_t common = treap_common(a->tokens, b->tokens, shorter);

    return common < shorter ? a->tokens[common] < b->tokens[common] : a->count < b->count;
}

size_t treap_check(const struct treap_node *root)
{
    size_t count = 0;
    const struct treap_node *last = NULL;

    /* The lookups take mutable nodes but change nothing. */
    for (struct treap_node *node = treap_first((struct treap_node *)root); node != NULL;
         node = treap_next((struct treap_node *)root, node)) {
        assert(node->count > 0);
        assert(node->left == NULL || node->left->priority <= node->priority);
        assert(node->right == NULL || node->right->priority <= node->priority);
        assert(last == NULL || token_order(last, node));
        last = node;
        count++;
    }
    return count;
}

/* Whether a is evicted before b. */
static bool evicted_before(const struct object *a, const struct object *b)
{
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->end != b->end ? a->end > b->end : a->heap_order < b->heap_order;
}

void heap_check(const struct heap *heap)
{
    assert(heap->count <= heap->cap);
    for (size_t i = 0; i < heap->count; i++) {
        assert(heap->items[i]->heap_slot == (int32_t)i);
        assert(heap->items[i]->heap_order < heap->order_next);
        assert(i == 0 || evicted_before(heap->items[(i - 1) / 2], heap->items[i]));
    }
}

/* ---- the index: X1..X5 of index.h, everything recounted and keys recomputed ---- */

struct totals {
    const struct index *index;
    size_t nodes, snapshots;
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
                       const struct object *object, enum hearth_object_kind kind)
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
        assert(object->kind == HEARTH_OBJECT_SNAPSHOT && !object->dropped && object->last == node);
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
    check_rows(index, node, node->rows, HEARTH_OBJECT_ROWS);
    check_rows(index, node, node->sliding, HEARTH_OBJECT_SLIDING);
    check_snapshots(node);
    check_children(node);
    totals->nodes++;
    totals->pins += node->pins;
    totals->snapshots += node->snapshots.count;
    totals->bytes += node_bytes(node);
    return true;
}

/* The sum of the pin counts of all nodes. */
static uint64_t pinned_nodes(const struct index *index)
{
    uint64_t nodes = 0;

    LIST_FOREACH (struct index_pin, pin, &index->pins, link) {
        assert(pin->count > 0 && pin->end > pin->last->begin && pin->end <= node_end(pin->last));
        nodes += (uint64_t)pin->count * (pin->last->begin / index->block_tokens + 1);
    }
    return nodes;
}

void index_check(const struct index *index)
{
    const struct node *root = index->root;
    struct totals totals = {.index = index};

    assert(root->parent == NULL && root->link.count == 0 && root->begin == 0 && root->pins == 0);
    assert(root->rows == NULL && root->sliding == NULL && list_empty(&root->snapshots));
    check_children(root);
    index_each(index, check_node, &totals);
    assert(totals.pins == pinned_nodes(index));
    assert(totals.nodes == index->nodes);
    assert(totals.snapshots == index->snapshots && totals.bytes == index->bytes_nodes);
}

/* ---- the cache ---- */

struct check {
    struct hearth_space *space;
    size_t objects, in_heaps;
    uint64_t held[HEARTH_TIER_COUNT];
    uint64_t bytes; /* in memory, including records */
};

static void check_object(struct object *object, void *arg)
{
    struct check *check = arg;
    bool slow = (object->in & TIER_BITS_SLOWER) != 0, moving = object->reading || object->writing;
    bool free = room_may_leave(object);

    assert(object->space == check->space && !object->dropped && (object->leases > 0 || !moving));
    assert((object->data != NULL) == ((object->in & TIER_BIT(HEARTH_TIER_RAM)) != 0));
    assert(!(object->writing & object->in) && !(object->drop_after_write & ~object->writing));
    assert(object->data == NULL ? object->writing == 0 : !object->reading);
    assert(object->data != NULL || slow || object->leases > 0); /* keeps I67 */
    assert((object->heap != NULL) == (object->heap_slot != OBJECT_NOT_IN_HEAP));
    assert((object->heap == &check->space->cache->heap) == (free && object->data != NULL));
    assert((object->heap == &check->space->cache->heap_slow) ==
           (free && object->data == NULL && slow));
    for (int level = 0; level < HEARTH_TIER_COUNT; level++)
        check->held[level] += object->in & TIER_BIT(level) ? object->bytes : 0;
    for (enum hearth_tier level = TIER_SLOWER; level < HEARTH_TIER_COUNT; level++)
        assert(object->data != NULL || !list_node_linked(object_retry_link(object, level)));
    check->bytes += ledger_data_bytes(object) + ledger_record_bytes();
    check->objects++;
    check->in_heaps += object->heap != NULL;
}

static void check_expiring(const struct hearth_cache *cache)
{
    uint64_t before = 1;

    list_check(&cache->expiring);
    LIST_FOREACH (struct object, object, &cache->expiring, expiry_link) {
        assert(!object->dropped && object->last != NULL && object->expires_ns >= before);
        before = object->expires_ns;
    }
}

static void check_tails(const struct hearth_space *space)
{
    uint64_t bytes = 0;

    LIST_FOREACH (struct object, object, &space->tails, tail_link) {
        assert(object->data != NULL && room_is_tail(object));
        bytes += ledger_data_bytes(object);
    }
    assert(bytes == space->tail_bytes);
    bytes = 0;
    LIST_FOREACH (struct object, object, &space->snapshots, tail_link) {
        assert(object->data != NULL && object->kind == HEARTH_OBJECT_SNAPSHOT);
        bytes += ledger_data_bytes(object);
    }
    assert(bytes == space->snapshot_bytes);
}

void cache_check(struct hearth_cache *cache)
{
    uint64_t books = 0, charged = 0, shares = 0;
    size_t in_heaps = 0, records = 0;

    lock_enter(&cache->lock);
    heap_check(&cache->heap);
    heap_check(&cache->heap_slow);
    LIST_FOREACH (struct hearth_space, space, &cache->spaces, link) {
        struct check check = {.space = space};
        index_check(space->index);
        list_check(&space->tails);
        space_each_object(space, check_object, &check);
        assert(check.objects == space->objects && check.objects <= space->records);
        /* the rest is reserved, or dropped and still leased */
        assert(check.bytes <= space->line.used);
        for (int tier = 0; tier < HEARTH_TIER_COUNT; tier++)
            assert(check.held[tier] <= space->held[tier]);
        assert(space->index_charged == index_bytes(space->index));
        check_tails(space);
        books += space->index_charged + sizeof(*space);
        charged += space->line.used;
        shares += space->line.share;
        records += space->records;
        in_heaps += check.in_heaps;
    }
    assert(records == cache->records && shares == cache->budget.shares);
    assert(in_heaps == cache->heap.count + cache->heap_slow.count);
    check_expiring(cache);
    for (int level = 0; level < HEARTH_TIER_COUNT; level++) {
        list_check(&cache->tiers[level].declined);
        assert(cache->tiers[level].declined.count <= CACHE_DECLINED_MAX);
    }
    assert(books == cache->trees.used);
    assert(books + charged == cache->budget.used);
    assert(books + cache->requests.used + records * sizeof(struct object) +
               cache->places * ledger_place_bytes() ==
           cache->meta_budget.used);
    lock_leave(&cache->lock);
}
