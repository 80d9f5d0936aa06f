/*
 * index.h: the tree of what is held for one namespace: which tokens, which objects. No bytes, no
 * tiers, no locks, no clock.
 *
 *      root ── [0..256) ── [256..512) ── [512..768) ── [768..800) tail
 *                  |             '────── [512..768)' ── ...            a branch: other tokens from 512 on
 *                  '── [256..512)' ── ...
 *
 * A node is one block of tokens (or, as a leaf, a tail of fewer) and owns a copy of them; the path
 * from the root is the prompt. A lookup compares tokens, all of them, on every node (keeps I101);
 * hashes only name things for the tiers. The children of a node are a treap ordered by their
 * tokens, so that finding one, and finding the one that shares the most tokens with a prompt that
 * is not there, both cost O(log children) comparisons and never more, however many there are.
 *
 * Components hang on nodes and live and die independently:
 *
 *      rows       an object that covers this block; one object may cover a run of whole blocks
 *                 along a path. In a node of its own it may end early (object->end < node_end):
 *                 these are the rows of a tail, in a node that has grown or was longer from the
 *                 start
 *      sliding    captured rows of sliding layers, likewise
 *      snapshots  objects at exact token counts in (begin, end]. Siblings may begin alike: a
 *                 snapshot of the tokens that they share is seen from each of them, whichever it
 *                 was stored through, and has the same key for all
 *
 * A tail that is extended GROWS: it gets more tokens, up to a block, and keeps what hangs on it. So
 * siblings never begin with one another, nothing is lost by inserting, and only longer rows
 * displace shorter ones, when they are attached.
 *
 * A node without components, children and pins is removed at once, and so on upwards; a node that
 * has children but lost its rows stays as a marker: that is how "evicted" is told from "never
 * seen".
 *
 * Invariants (index_check): X1 a child begins where its parent ends, only leaves are shorter than a
 * block; X2 no node is a prefix of a sibling; X3 an object's nodes are consecutive on one path and
 * name it; X4 counts, bytes, keys and blockers add up, no node is empty; X5 what is leased is never
 * evictable, and nothing in the tree is dropped. What must leave the tree while it is leased
 * (displaced, damaged) lives on outside until its last lease is released: the bytes are the
 * reader's, the place in the tree is not.
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

/* Takes an object that is out of the tree now; it may be leased, except from index_destroy. Must
 * not change the index. */
typedef void (*index_drop_fn)(struct object *object, void *arg);

struct index *index_create(const struct hash256 *space_key, uint32_t block_tokens);
/* Detaches and hands every object to `drop`; aborts when one is leased. */
void index_destroy(struct index **index, index_drop_fn drop, void *arg);
/* The same, leased or not, tails and pins included, and the index lives on empty (keeps I39). */
void index_clear(struct index *index, index_drop_fn drop, void *arg);

/* `fn` is called whenever the tree's part of an object's evictability changes: it was attached,
 * what was below it went or came, it was pinned, it left. An object that is not in the tree is not
 * evictable. Leases are not looked at: they are the cache's. `fn` may ask index_evictable about the
 * object and call nothing else of the index; it cannot fail: see heap_reserve. NULL: nobody
 * watches. */
void index_set_watch(struct index *index,
                     void (*fn)(struct object *object, bool evictable, void *arg), void *arg);

/* ---- matching ---- */

/* How far a prompt is known. Nodes [0, nodes_count) of `path` match whole; `partial` is a child of
 * the last that shares `partial_tokens` (>= 1) more tokens, NULL when none does. Valid until the
 * index changes. */
struct index_match {
    struct node **path; /* borrowed from the index; the next match overwrites it */
    size_t nodes_count;
    struct node *partial;
    uint32_t partial_tokens;
    uint32_t tokens; /* all that match */
};

/* O(tokens) comparing plus O(log children) per block. Changes nothing (keeps I33). */
struct index_match index_match(struct index *index, const int32_t *tokens, size_t count);

/* What an earlier call found out about one array of tokens that has not changed since: how far they
 * need not be compared again. Belongs to the caller and to one index; zeroed at first. Whatever
 * happens to the index meanwhile, answers stay the same. */
struct index_hint {
    struct node *node;
    uint64_t removals;
};

/* As index_match; hint may be NULL. For callers that work along a path: O(what is behind the hint).
 */
struct index_match index_match_hinted(struct index *index, const int32_t *tokens, size_t count,
                                      struct index_hint *hint);

/* ---- building ---- */

/* Makes sure that the nodes of tokens [0, count), count >= 1, exist and returns the one that covers
 * token count - 1: it ends at count, or later when the last tokens are the beginning of a longer
 * node that is there. A tail that the tokens extend grows and keeps its objects. NULL without
 * memory: then nothing has changed. The next call is index_attach to this node, or index_prune. */
struct node *index_insert(struct index *index, const int32_t *tokens, size_t count) NODISCARD;
struct node *index_insert_hinted(struct index *index, const int32_t *tokens, size_t count,
                                 struct index_hint *hint) NODISCARD;

/* Whether the object (kind, begin, end are read) brings something: false when one of its nodes
 * holds that component as far or further, or its snapshot is held. Aborts when it cannot belong
 * there at all: see index_attach. */
bool index_may_attach(const struct index *index, const struct node *last,
                      const struct object *object);
/* Attaches rows or sliding rows [begin, end) that end inside or at the end of `last`, or a snapshot
 * at `end` inside `last`. Rows cover whole blocks, or are the beginning of one (a tail): then begin
 * = node_begin(last). index_may_attach must hold. Shorter rows of the same kind on the object's
 * nodes are displaced: they go to `drop`. The tree does not own the object. */
void index_attach(struct index *index, struct node *last, struct object *object, index_drop_fn drop,
                  void *arg);
/* Takes an object off its nodes, and removes nodes that are empty then. The caller owns it; mind
 * its leases. */
void index_detach(struct index *index, struct object *object);
/* Removes `node`, and upwards, as long as they are empty: for an insert that comes to nothing. */
void index_prune(struct index *index, struct node *node);

/* Pins the path that ends at token `end` inside of `last`: nothing that hangs on its nodes is
 * evictable, and they stay when they are empty. Counted. A tail that grows takes its pins with it.
 * A snapshot that is seen from the path but was stored through a sibling is pinned by the path of
 * its own object->last. False, and nothing changes: no memory. index_bytes grows by index_pin_bytes
 * at most. */
bool index_pin(struct index *index, struct node *last, uint32_t end) NODISCARD;
uint64_t index_pin_bytes(void);
/* The longest pin whose tokens these begin with; NULL when none is. O(pins), and a match. Borrowed
 * until the next unpinning. */
struct index_pin;
struct index_pin *index_find_pin(struct index *index, const int32_t *tokens, size_t count);
/* The longest pin that ends inside of this node; NULL when none does. O(pins). */
struct index_pin *index_find_pin_in(const struct index *index, const struct node *last);
struct node *index_pin_last(const struct index_pin *pin);
uint32_t index_pin_end(const struct index_pin *pin);
/* Undoes one index_pin; may remove nodes. */
void index_unpin(struct index *index, struct index_pin *pin);

/* ---- nodes ---- */

uint32_t node_begin(const struct node *node);
uint32_t node_end(const struct node *node);
bool node_is_tail(const struct node *node);
const int32_t *node_tokens(const struct node *node); /* end - begin of them */
struct node *node_parent(const struct node *node);   /* NULL above the first block */
bool node_has_children(const struct node *node);
bool node_pinned(const struct node *node);
/* BLAKE3 keyed chain, DESIGN.md section 5 */
const struct hash256 *node_key(const struct node *node);
struct object *node_rows(const struct node *node);
struct object *node_sliding(const struct node *node);
/* rows of this node are held up to there; its begin when none are */
uint32_t node_rows_end(const struct node *node);
uint32_t node_sliding_end(const struct node *node);
/* at exactly; NULL when none */
struct object *node_snapshot(const struct node *node, uint32_t at);
/* the last one at <= at inside the node */
struct object *node_snapshot_below(const struct node *node, uint32_t at);

/* An object may be evicted when nothing below its nodes holds rows (never a parent before its
 * children), and nothing of it is pinned or leased. Snapshots: whenever not pinned or leased. O(1).
 */
bool index_evictable(const struct index *index, const struct object *object);

/* ---- numbers ---- */

size_t index_nodes(const struct index *index);
size_t index_tails(const struct index *index); /* nodes shorter than a block */
size_t index_snapshots(const struct index *index);
uint64_t index_bytes(const struct index *index); /* of the tree itself, tokens included */
/* what index_insert adds to it for each node of the path, at most */
uint64_t index_node_bytes(uint32_t block_tokens);

/* The key that a child of `parent` (NULL: of the root) with these tokens has or would have. */
struct hash256 index_block_key(const struct index *index, const struct node *parent,
                               const int32_t *tokens, uint32_t count);

/* The name of an object (kind, begin, end are read) for the tiers: a keyed hash of its kind, its
 * begin and exactly the tokens up to its end, so that it does not depend on how the tree is cut
 * into tails. */
struct hash256 index_object_key(const struct index *index, const struct node *last,
                                const struct object *object);

/* Visits nodes parents first; fn returns false to end, and must not change the index. */
void index_each(const struct index *index, bool (*fn)(struct node *node, void *arg), void *arg);
/* The same for `top` and all below it. */
void index_each_below(struct node *top, bool (*fn)(struct node *node, void *arg), void *arg);

/* Aborts unless X1..X5 hold. O(everything), keys are computed again. */
void index_check(const struct index *index);

#endif
