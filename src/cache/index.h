/*
 * index.h: the tree of cached objects of one namespace, by their tokens. No bytes, no tiers, no
 * locks, no clock.
 *
 *      root ── [0..256) ── [256..512) ── [512..768) ── [768..800) tail
 *                  |             '────── [512..768)' ── ...    a branch: other tokens from 512 on
 *                  '── [256..512)' ── ...
 *
 * A node is one block of tokens (or, as a leaf, a shorter tail) and owns a copy of them; the path
 * from the root is the prompt. A lookup compares all tokens on every node (keeps I101); hashes
 * only name objects for the tiers. The children of a node are a treap ordered by their tokens, so
 * finding a child, or the child that shares the most tokens with an unknown prompt, costs O(log
 * children) comparisons.
 *
 * Nodes carry components, which come and go independently:
 *
 *      rows       an object that covers this block; one object may cover a run of whole blocks
 *                 along a path. If it covers a single node, it may end early (object->end <
 *                 node_end): the rows of a tail, in a node that has grown or was longer from the
 *                 start. Of siblings that share these tokens only one has such rows: they have
 *                 the same key for all
 *      sliding    captured rows of sliding layers, likewise
 *      snapshots  objects at exact token counts in (begin, end]. Siblings may share their first
 *                 tokens: a snapshot of those tokens is visible from each of them, whichever one
 *                 it was stored through, and has the same key for all
 *
 * A tail that is extended GROWS: it gets more tokens, up to a block, and keeps its objects. So no
 * sibling is a prefix of another, inserting loses nothing, and only longer rows displace shorter
 * ones, when they are attached.
 *
 * A node without components, children and pins is removed at once, and so are its parents if they
 * become empty. A node that has children but lost its rows stays as a marker, which distinguishes
 * "evicted" from "never seen".
 *
 * Invariants: X1 a child begins where its parent ends, only leaves are shorter than
 * a block; X2 no node is a prefix of a sibling; X3 an object's nodes are consecutive on one path
 * and point to it; X4 counts, bytes, keys and hold_count add up, no node is empty; X5 a leased
 * object is never evictable, and no object in the tree is dropped. An object that must leave the
 * tree while leased (displaced, damaged) lives on outside it until the last lease is released: its
 * readers keep the bytes, but it is no longer found.
 *
 * Owner: the cache, under its lock. Pure: the same calls give the same tree.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/hash.h"
#include "cache/object.h"

struct index;
struct node;

/* Takes an object that has left the tree; it may be leased, except from index_destroy. Must not
 * change the index. */
typedef void (*index_drop_fn)(struct object *object, void *arg);

struct index *index_create(const struct hash256 *space_key, uint32_t block_tokens);
/* Detaches every object and passes it to `drop`; aborts when one is leased. */
void index_destroy(struct index **index, index_drop_fn drop, void *arg);
/* The same, including leased objects, tails and pins; the empty index stays usable (keeps I39). */
void index_clear(struct index *index, index_drop_fn drop, void *arg);

/* `fn` is called whenever an object becomes evictable or not as far as the tree is concerned: it
 * was attached or detached, rows below it came or went, or it was pinned or unpinned. An object
 * outside the tree is not evictable. Leases are ignored here; they are the cache's concern. `fn`
 * may call index_evictable for the object and nothing else of the index. It cannot fail: see
 * heap_reserve. NULL: no callback. */
void index_on_change(struct index *index,
                     void (*fn)(struct object *object, bool evictable, void *arg), void *arg);

/* ---- matching ---- */

/* How much of a prompt is known. Nodes [0, nodes_count) of `path` match completely; `partial` is
 * a child of the last that shares `partial_tokens` (>= 1) more tokens, NULL when none does.
 * Valid until the index changes. */
struct index_match {
    struct node **path; /* borrowed from the index; the next match overwrites it */
    size_t nodes_count;
    struct node *partial;
    uint32_t partial_tokens;
    uint32_t tokens; /* matching tokens in total */
};

/* The nodes that match, wholly or in part, from the first block on. */
static inline size_t index_match_length(const struct index_match *match)
{
    return match->nodes_count + (match->partial != NULL);
}

static inline struct node *index_match_node(const struct index_match *match, size_t i)
{
    return i < match->nodes_count ? match->path[i] : match->partial;
}

/* NULL: nothing matches. */
static inline struct node *index_match_last(const struct index_match *match)
{
    size_t length = index_match_length(match);

    return length > 0 ? index_match_node(match, length - 1) : NULL;
}

/* O(tokens) comparing plus O(log children) per block. Changes nothing (keeps I33). */
struct index_match index_match(struct index *index, const int32_t *tokens, size_t count);

/* What an earlier call learnt about an unchanged array of tokens: how many need not be compared
 * again. Owned by the caller, for one index; zero-initialised. Results stay the same, whatever
 * happens to the index meanwhile. */
struct index_hint {
    struct node *node;
    uint64_t removals;
};

/* As index_match; hint may be NULL. For callers that work along a path: O(tokens after the
 * hint). */
struct index_match index_match_hinted(struct index *index, const int32_t *tokens, size_t count,
                                      struct index_hint *hint);

/* Copies the tokens that follow `tokens` in the tree, at most `max`, and returns their number; 0
 * when not all of `tokens` are in it. Where sequences diverge, the one used last is followed, of
 * the first few. */
uint32_t index_continue(struct index *index, const int32_t *tokens, uint32_t count, int32_t *next,
                        uint32_t max);

/* ---- building ---- */

/* Ensures that the nodes of tokens [0, count), count >= 1, exist and returns the one that covers
 * token count - 1. It ends at count, or later when the last tokens are the beginning of an
 * existing longer node. A tail that the tokens extend grows and keeps its objects. NULL: no
 * memory, nothing changed. The next call must be index_attach to this node, or index_prune. */
struct node *index_insert(struct index *index, const int32_t *tokens, size_t count) NODISCARD;
struct node *index_insert_hinted(struct index *index, const int32_t *tokens, size_t count,
                                 struct index_hint *hint) NODISCARD;

/* Whether the object (kind, begin, end are read) adds anything: false when one of its nodes
 * already holds that component as far or further, or its snapshot is held. Aborts when it cannot
 * belong there at all: see index_attach. */
bool index_may_attach(const struct index *index, const struct node *last,
                      const struct object *object);
/* Attaches rows or sliding rows [begin, end) that end inside or at the end of `last`, or a
 * snapshot at `end` inside `last`. Rows cover whole blocks, or are the beginning of one (a
 * tail): then begin = node_begin(last). index_may_attach must hold. Shorter rows of the same
 * kind on the object's nodes are displaced and passed to `drop`. The tree does not own the
 * object. */
void index_attach(struct index *index, struct node *last, struct object *object, index_drop_fn drop,
                  void *arg);
/* Detaches an object from its nodes and removes nodes that become empty. Ownership passes to the
 * caller, who must check for leases. */
void index_detach(struct index *index, struct object *object);
/* Removes `node` and its ancestors while they are empty: for an insert that was abandoned. */
void index_prune(struct index *index, struct node *node);

/* Pins the path that ends at token `end` inside `last`: no object on its nodes is evictable, and
 * the nodes stay even when empty. Pins are counted. A tail that grows keeps its pins. A snapshot
 * that is visible from the path but was stored through a sibling is pinned by the path of its
 * own object->last. False: no memory, nothing changed. index_bytes grows by at most
 * index_pin_bytes. */
bool index_pin(struct index *index, struct node *last, uint32_t end) NODISCARD;
uint64_t index_pin_bytes(void);
/* The longest pin whose tokens are a prefix of these; NULL when there is none. O(pins) plus a
 * match. Borrowed until the next unpin. */
struct index_pin;
struct index_pin *index_find_pin(struct index *index, const int32_t *tokens, size_t count);
/* The longest pin that ends inside this node; NULL when there is none. O(pins). */
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
/* BLAKE3, keyed by the space, of the parent's key, the number of tokens and the tokens */
const struct hash256 *node_key(const struct node *node);
struct object *node_rows(const struct node *node);
struct object *node_sliding(const struct node *node);
/* how far the rows of this node reach; its begin when it has none */
uint32_t node_rows_end(const struct node *node);
uint32_t node_sliding_end(const struct node *node);
/* at exactly this position; NULL when none */
struct object *node_snapshot(const struct node *node, uint32_t at);
/* the last one at or before `at` inside the node */
struct object *node_snapshot_below(const struct node *node, uint32_t at);

/* An object may be evicted when no node below its own holds rows (never a parent before its
 * children), and it is neither pinned nor leased. Snapshots: whenever not pinned or leased.
 * O(1). */
bool index_evictable(const struct index *index, const struct object *object);

/* ---- numbers ---- */

size_t index_nodes(const struct index *index);
size_t index_snapshots(const struct index *index);
uint64_t index_bytes(const struct index *index); /* of the tree itself, tokens included */
/* the most that index_insert adds to it per node of the path */
uint64_t index_node_bytes(uint32_t block_tokens);

/* The key that a child of `parent` (NULL: of the root) with these tokens has or would have. */
struct hash256 index_block_key(const struct index *index, const struct node *parent,
                               const int32_t *tokens, uint32_t count);

/* The name of an object (kind, begin, end are read) in the tiers: a keyed hash of its kind, its
 * begin and exactly the tokens up to its end, so it does not depend on how the tree is cut into
 * tails. */
struct hash256 index_object_key(const struct index *index, const struct node *last,
                                const struct object *object);

/* The same without a tree. index_key_after: the key of `count` tokens after a block; the key
 * before the first block is zero. index_name: of an object whose last tokens have that key. */
struct hash256 index_key_after(const struct hash256 *space_key, const struct hash256 *parent,
                               const int32_t *tokens, uint32_t count);
struct hash256 index_name(const struct hash256 *space_key, const struct hash256 *tokens_key,
                          enum hearth_object_kind kind, uint32_t begin);

/* Visits nodes, parents first; fn returns false to stop and must not change the index. */
void index_each(const struct index *index, bool (*fn)(struct node *node, void *arg), void *arg);
/* The same for `top` and all nodes below it. */
void index_each_below(struct node *top, bool (*fn)(struct node *node, void *arg), void *arg);
