/*
 * node.c: operations on one node of the index: its tokens, its key, its objects.
 *
 * Snapshots are found by their tokens and not by the node that they were stored through. Every
 * conversation that leaves a shared system prompt in the middle of a block has its own node from
 * the start of that block, and the one snapshot at the end of the system prompt must serve all of
 * them. Hence the parent keeps them in an ordered set (marks), where a search by the tokens of any
 * child finds those that it shares.
 */
#include "cache/index_impl.h"

#include <assert.h>

#include "base/attr.h"
#include "base/le.h"

enum { KEY_TOKENS_AT_ONCE = 64 };

/* Little-endian on every machine; compilers turn it into a plain copy where that is the native
 * order. */
static void hash_tokens(struct hash256_state *state, const int32_t *tokens, uint32_t count)
{
    uint8_t bytes[KEY_TOKENS_AT_ONCE * sizeof(*tokens)];

    hash256_update_u64(state, count * sizeof(*tokens));
    while (count > 0) {
        uint32_t n = MIN(count, KEY_TOKENS_AT_ONCE);
        for (uint32_t i = 0; i < n; i++)
            le_put_u32(bytes + i * sizeof(*tokens), (uint32_t)tokens[i]);
        hash256_update(state, bytes, n * sizeof(*tokens));
        tokens += n;
        count -= n;
    }
}

/* How far rows extend into the node: a run may continue past its end. */
static uint32_t reach(const struct node *node, const struct object *object)
{
    return object ? MIN(object->end, node_end(node)) : node->begin;
}

struct node *node_of_link(const struct treap_node *link)
{
    return link ? CONTAINER_OF(link, struct node, link) : NULL;
}

static struct object *object_of_mark(const struct treap_node *mark)
{
    return mark ? CONTAINER_OF(mark, struct object, mark) : NULL;
}

struct hash256 index_key_after(const struct hash256 *space_key, const struct hash256 *parent,
                               const int32_t *tokens, uint32_t count)
{
    struct hash256_state state;

    hash256_init_keyed(&state, space_key);
    hash256_update_framed(&state, parent->bytes, sizeof(parent->bytes));
    hash256_update_u32(&state, count);
    hash_tokens(&state, tokens, count);
    return hash256_final(&state);
}

struct hash256 node_key_behind(const struct hash256 *space_key, const struct node *parent,
                               const int32_t *tokens, uint32_t count)
{
    return index_key_after(space_key, &parent->key, tokens, count);
}

struct object **node_slot(struct node *node, enum hearth_object_kind kind)
{
    assert(kind == HEARTH_OBJECT_ROWS || kind == HEARTH_OBJECT_SLIDING);
    return kind == HEARTH_OBJECT_ROWS ? &node->rows : &node->sliding;
}

bool node_empty(const struct node *node)
{
    return node->rows == NULL && node->sliding == NULL && list_empty(&node->snapshots) &&
           node->children == NULL && node->pins == 0;
}

uint64_t node_bytes(const struct node *node)
{
    return sizeof(*node) + (uint64_t)node->link.count * sizeof(node->tokens[0]);
}

uint32_t node_begin(const struct node *node)
{
    return node->begin;
}

uint32_t node_end(const struct node *node)
{
    return node->begin + node->link.count;
}

bool node_is_tail(const struct node *node)
{
    return node->tail;
}

const int32_t *node_tokens(const struct node *node)
{
    return node->tokens;
}

struct node *node_parent(const struct node *node)
{
    assert(node->parent != NULL); /* the root has no siblings */
    return node->parent->parent ? node->parent : NULL;
}

bool node_has_children(const struct node *node)
{
    return node->children != NULL;
}

bool node_pinned(const struct node *node)
{
    return node->pins > 0;
}

const struct hash256 *node_key(const struct node *node)
{
    return &node->key;
}

struct object *node_rows(const struct node *node)
{
    return node->rows;
}

struct object *node_sliding(const struct node *node)
{
    return node->sliding;
}

uint32_t node_rows_end(const struct node *node)
{
    return reach(node, node->rows);
}

uint32_t node_sliding_end(const struct node *node)
{
    return reach(node, node->sliding);
}

struct object *node_snapshot(const struct node *node, uint32_t at)
{
    if (at <= node->begin || at > node_end(node))
        return NULL;
    return object_of_mark(treap_find_equal(node->parent->marks, node->tokens, at - node->begin));
}

struct object *node_snapshot_below(const struct node *node, uint32_t at)
{
    if (at <= node->begin)
        return NULL;
    return object_of_mark(treap_find_prefix(node->parent->marks, node->tokens,
                                            MIN(at, node_end(node)) - node->begin));
}
