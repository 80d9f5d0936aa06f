/*
 * treap.h: an ordered set of token strings, with intrusive links. Allocates nothing, cannot fail.
 *
 * The order is lexicographic by token, a string before its continuations. In this order the string
 * that shares the most tokens with a given one is its neighbour before or after, so one descent
 * finds the best of any number of strings.
 *
 * It is a treap: a search tree by tokens and at the same time a heap by priority. Unpredictable
 * priorities (bits of a keyed hash) give it the shape of a tree filled in random order, O(log n)
 * deep, even if an attacker chooses the tokens. The caller supplies the priorities, so the same
 * set always has the same shape, regardless of the history of insertions and removals.
 *
 * The set borrows nodes and tokens. Tokens may move (the caller changes the pointer) as long as
 * they stay equal. Owner: the owner of the root. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct treap_node {
    struct treap_node *left, *right;
    uint64_t priority;
    const int32_t *tokens;
    uint32_t count; /* at least 1 */
};

/* Where a string is or would be. Commons count the tokens that it shares with the neighbour; 0
 * when there is no neighbour. */
struct treap_place {
    /* the last one that is not greater: the string itself when it is in the set */
    struct treap_node *before;
    /* the first one that is greater; not searched when `before` is the string itself */
    struct treap_node *after;
    uint32_t before_common, after_common;
};

/* All lookups: an empty set is a NULL root. O(log n) comparisons. */
struct treap_place treap_find(struct treap_node *root, const int32_t *tokens, uint32_t count);
/* The string itself; NULL when absent. */
struct treap_node *treap_find_equal(struct treap_node *root, const int32_t *tokens, uint32_t count);
/* The longest prefix of `tokens` in the set, `tokens` themselves included; NULL when none. At
 * most one more descent for each token that it is shorter. */
struct treap_node *treap_find_prefix(struct treap_node *root, const int32_t *tokens,
                                     uint32_t count);

/* aborts when it is already present */
void treap_insert(struct treap_node **root, struct treap_node *node);
/* aborts when it is absent */
void treap_remove(struct treap_node **root, struct treap_node *node);

/* In order; NULL at the end. */
struct treap_node *treap_first(struct treap_node *root);
struct treap_node *treap_next(struct treap_node *root, const struct treap_node *node);

/* How many of the first `count` tokens are equal. As fast as memcmp when all are. */
uint32_t treap_common(const int32_t *a, const int32_t *b, uint32_t count);
