/*
 * index_impl.h: what index.c, node.c and index_check.c share, and nobody else includes: how the
 * tree lies in memory.
 */
#ifndef HEARTH_CACHE_INDEX_IMPL_H
#define HEARTH_CACHE_INDEX_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "cache/index.h"
#include "cache/treap.h"

/* One allocation, tokens behind it. What a descent reads comes first. */
struct node {
    struct treap_node link;      /* among its siblings; its tokens are those below */
    struct treap_node *children; /* by their tokens */
    struct treap_node *marks;    /* snapshots in (end, end + block], by their tokens behind `end` */
    struct node *parent;         /* the root for a first block; NULL for the root */
    struct object *rows, *sliding;
    struct list snapshots; /* those whose tokens this node keeps (object->node_link) */
    struct hash256 key;    /* of the root: zeros */
    uint32_t begin;
    uint32_t pins;
    uint32_t rows_below; /* children that are `counted` */
    bool counted;        /* by the parent: rows hang on this node or below it */
    bool tail;           /* shorter than a block */
    int32_t tokens[];
};

struct index {
    struct hash256 space_key;
    uint32_t block_tokens;
    struct node *root;  /* no tokens, no components; ends at 0 */
    struct node **path; /* of matches: room for the longest path, so that matching cannot fail */
    size_t path_cap;
    size_t path_count; /* of the last match that are still there */
    uint64_t removals; /* of nodes, ever: as long as it is the same, pointers to nodes are good */
    struct list pins;  /* struct index_pin, in no order */
    size_t nodes, tails, snapshots;
    uint64_t bytes_nodes;
    void (*watch)(struct object *object, bool evictable, void *arg);
    void *watch_arg;
};

struct node *node_of_link(const struct treap_node *link);
struct object *object_of_mark(const struct treap_node *mark);

/* The key of `count` tokens behind a node. */
struct hash256 node_key_behind(const struct hash256 *space_key, const struct node *parent,
                               const int32_t *tokens, uint32_t count);

/* Where an object of this kind hangs; not for snapshots. */
struct object **node_slot(struct node *node, enum object_kind kind);
bool node_empty(const struct node *node);
uint64_t node_bytes(const struct node *node);

/* A node is pinned from now on, or is not: what hangs on it is told. */
void index_block_node(const struct index *index, struct node *node, bool pinned);

/* ---- index_pin.c ---- */

/* The node that pins end in is replaced by a longer one. */
void index_move_pins(struct index *index, const struct node *from, struct node *to);
void index_forget_pins(struct index *index); /* counts on nodes are the caller's business */
/* How often nodes are counted as pinned: the sum of their pins. */
uint64_t index_pinned_nodes(const struct index *index);

#endif
