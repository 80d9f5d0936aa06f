/*
 * index.h: the tree of what is held for one namespace: which tokens, which objects. No bytes, no tiers, no locks, no clock.
 *
 *      root ── [0..256) ── [256..512) ── [512..768) ── [768..800) tail
 *                  |             '────── [512..768)' ── ...            a branch: other tokens from 512 on
 *                  '── [256..512)' ── ...
 *
 * A node is one block of tokens (or, as a leaf, a tail of fewer) and owns a copy of them; the path from the root is the prompt. A lookup
 * compares tokens, all of them, on every node (keeps I101); hashes only name things for the tiers. The children of a node are a treap
 * ordered by their tokens, so that finding one, and finding the one that shares the most tokens with a prompt that is not there, both cost
 * O(log children) comparisons and never more, however many there are.
 *
 * Components hang on nodes and live and die independently:
 *
 *      rows       an object that covers this block; one object may cover a run of blocks along a path
 *      sliding    captured rows of sliding layers, likewise
 *      snapshots  objects at exact token counts in (begin, end]
 *
 * A node without components and children is removed at once, and so on upwards; a node that has children but lost its rows stays as a
 * marker: that is how "evicted" is told from "never seen".
 *
 * Invariants (index_check): X1 a child begins where its parent ends, only leaves are shorter than a block; X2 siblings differ, none is a
 * prefix of another unless it is a tail and the other longer: then the tail was dropped; X3 an object's nodes are consecutive on one path
 * and name it; X4 counts and bytes add up; X5 a leased object is never detached.
 *
 * Owner: the cache, under its lock. Pure: the same calls give the same tree.
 */
#ifndef HEARTH_CACHE_INDEX_H
#define HEARTH_CACHE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "cache/object.h"

struct index;
struct node;

struct index *index_create(const struct hash256 *space_key, uint32_t block_tokens);
/* Detaches and hands every object to `drop`; aborts when one is leased. */
void index_destroy(struct index **index, void (*drop)(struct object *object, void *arg), void *arg);

/* ---- matching ---- */

/* How far a prompt is known. Nodes [0, nodes_count) of `path` match whole; `partial` is the child that shares `partial_tokens` (>= 1)
 * more tokens, NULL when none does. Valid until the index changes. */
struct index_match {
    struct node **path; /* borrowed from the index; the next match overwrites it */
    size_t nodes_count;
    struct node *partial;
    uint32_t partial_tokens;
    uint32_t tokens; /* all that match */
};

/* O(tokens) comparing plus O(log children) per block. */
struct index_match index_match(struct index *index, const int32_t *tokens, size_t count);

/* ---- building ---- */

/* Makes sure that the nodes of tokens [0, count) exist (the last one may be a tail) and returns the one that ends at count; NULL without
 * memory: then nothing has changed. A tail that the tokens extend is replaced: its objects go to `drop`. */
struct node *index_insert(struct index *index, const int32_t *tokens, size_t count,
                          void (*drop)(struct object *object, void *arg), void *arg) NODISCARD;

/* Attaches an object of rows or sliding rows that covers [object->begin, object->end) ending at `last`; or a snapshot at object->end
 * inside `last`. The object's nodes must lack that component. */
void index_attach(struct index *index, struct node *last, struct object *object);
/* Takes an object off its nodes, and removes nodes that are empty then. The caller owns it. */
void index_detach(struct index *index, struct object *object);

/* ---- nodes ---- */

uint32_t node_begin(const struct node *node);
uint32_t node_end(const struct node *node);
bool node_is_tail(const struct node *node);
const int32_t *node_tokens(const struct node *node); /* end - begin of them */
struct node *node_parent(const struct node *node);   /* NULL above the first block */
bool node_has_children(const struct node *node);
const struct hash256 *node_key(const struct node *node); /* BLAKE3 keyed chain, DESIGN.md section 5 */
struct object *node_rows(const struct node *node);
struct object *node_sliding(const struct node *node);
struct object *node_snapshot(const struct node *node, uint32_t at);                /* at exactly; NULL when none */
struct object *node_snapshot_below(const struct node *node, uint32_t at);          /* the last one at <= at inside the node */
void node_pin(struct node *node, int delta);
bool node_pinned(const struct node *node);

/* An object may be evicted when nothing below its nodes holds rows (never a parent before its children), and nothing of it is pinned or
 * leased. Snapshots: whenever not pinned or leased. */
bool index_evictable(const struct index *index, const struct object *object);

/* `fn` is called whenever the tree's part of what index_evictable answers changes for an object: when it is attached, when children come or
 * go, with pins. It must not change the index. */
void index_set_watch(struct index *index, void (*fn)(struct object *object, bool evictable, void *arg), void *arg);

/* ---- numbers ---- */

size_t index_nodes(const struct index *index);
size_t index_tails(const struct index *index);
size_t index_snapshots(const struct index *index);
uint64_t index_bytes(const struct index *index); /* of the tree itself, tokens included */
uint64_t index_node_bytes(uint32_t block_tokens); /* what one more node adds to it, at most */

/* The key that a child of `parent` (NULL: of the root) with these tokens has or would have. */
struct hash256 index_block_key(const struct index *index, const struct node *parent, const int32_t *tokens, uint32_t count);

/* The name of an object for the tiers: keyed by its kind and the key of its last node; snapshots also by their offset. */
struct hash256 index_object_key(const struct index *index, const struct node *last, enum object_kind kind, uint32_t end);

/* Visits nodes parents first; fn returns false to end. */
void index_each(const struct index *index, bool (*fn)(struct node *node, void *arg), void *arg);

void index_check(const struct index *index);

#endif
