/*
 * index_impl.h: the memory layout of the tree, for index.c, node.c and index_pin.c
 * only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "cache/index.h"
#include "cache/treap.h"

/* One allocation, followed by the tokens. Fields that a descent reads come first. */
struct node {
    struct treap_node link;      /* among its siblings; its tokens are those below */
    struct treap_node *children; /* by their tokens */
    struct treap_node *marks;    /* snapshots in (end, end + block], by their tokens after `end` */
    struct node *parent;         /* the root for a first block; NULL for the root */
    struct object *rows, *sliding;
    struct list snapshots; /* those whose tokens this node stores (object->node_link) */
    struct hash256 key;    /* of the root: zeros */
    uint32_t begin;
    uint32_t pins;
    uint32_t rows_below; /* children that are `counted` */
    bool counted;        /* by the parent: this node or one below it has rows */
    bool tail;           /* shorter than a block */
    int32_t tokens[];
};

struct index {
    struct hash256 space_key;
    uint32_t block_tokens;
    struct node *root; /* no tokens, no components; ends at 0 */
    /* of matches; large enough for the longest path, so that matching cannot fail */
    struct node **path;
    size_t path_cap;
    size_t path_count; /* nodes of the last match that still exist */
    uint64_t removals; /* nodes ever removed: while it is unchanged, node pointers stay valid */
    struct list pins;  /* struct index_pin, in no order */
    size_t nodes, snapshots;
    uint64_t bytes_nodes;
    void (*on_change)(struct object *object, bool evictable, void *arg);
    void *on_change_arg;
};

struct node *node_of_link(const struct treap_node *link);

/* The key of `count` tokens after a node. */
struct hash256 node_key_behind(const struct hash256 *space_key, const struct node *parent,
                               const int32_t *tokens, uint32_t count);

/* The slot for an object of this kind; not for snapshots. */
struct object **node_slot(struct node *node, enum hearth_object_kind kind);
bool node_empty(const struct node *node);
uint64_t node_bytes(const struct node *node);

/* A node became pinned or unpinned: updates the hold_count of its objects. */
void index_block_node(const struct index *index, struct node *node, bool pinned);

/* ---- index_pin.c ---- */

struct index_pin {
    struct list_node link;
    struct node *last; /* contains its end */
    uint32_t end;
    uint32_t count;
};

/* The node that pins end in was replaced by a longer one. */
void index_move_pins(struct index *index, const struct node *from, struct node *to);
void index_forget_pins(struct index *index); /* the caller fixes the counts on nodes */
