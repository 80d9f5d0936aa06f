/*
 * map.h: a hash map whose links are embedded in its entries.
 *
 *      table  [ 0 | 1 | 2 | ... ]      a power of two of chains
 *               |       '-> node -> node
 *               '-> node                      node = { next, hash } inside the caller's struct
 *
 * Inserting allocates only a larger table now and then. Without memory for one the chains just get
 * longer: map_insert never fails. Growth is incremental: while an old table is being emptied, each
 * operation moves a few of its chains, so that no single call costs O(n) even with millions of
 * entries.
 *
 * The caller supplies the hash (map_hash with a random seed, since keys may come from outside) and
 * compares keys in a callback. Owner: the caller of map_init. Not thread-safe. The map owns its
 * tables, never the entries.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct map_node {
    struct map_node *next;
    uint64_t hash;
};

struct map_table {
    struct map_node **chains;
    size_t mask; /* number of chains - 1 */
};

struct map {
    struct map_table now;
    struct map_table old; /* being emptied into `now`; chains == NULL when none */
    size_t old_next;      /* first chain of `old` that has not been moved */
    size_t count;
    size_t grow_at; /* the count at which the table should grow */
};

/* True when the entry that embeds `node` has the key at `key`. Called only for equal hashes. */
typedef bool (*map_equals_fn)(const struct map_node *node, const void *key);

/* Allocates a first, small table; aborts without memory, as mem_alloc does. */
void map_init(struct map *map);

/* Frees the tables, not the entries. The map needs map_init before it is used again. */
void map_fini(struct map *map);

/* XXH3-64 with a seed. */
uint64_t map_hash(const void *key, size_t len, uint64_t seed);

struct map_node *map_find(struct map *map, uint64_t hash, map_equals_fn equals, const void *key);

/* The caller must have checked that the key is not in the map (map_find). */
void map_insert(struct map *map, struct map_node *node, uint64_t hash);
/* aborts when it is not in the map: our bug */
void map_remove(struct map *map, struct map_node *node);

/* Visits every entry once, in no particular order; O(n). The callback may remove the entry it is
 * given and no other; it may not insert. */
void map_each(struct map *map, void (*fn)(struct map_node *node, void *arg), void *arg);

/* Aborts when a node is in the wrong chain or the count is wrong; O(n). */
void map_check(const struct map *map);
