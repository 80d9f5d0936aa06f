/*
 * map.h: a hash map whose links are embedded in the things it holds.
 *
 *      table  [ 0 | 1 | 2 | ... ]      a power of two of chains
 *               |       '-> node -> node
 *               '-> node                      node = { next, hash } inside the caller's struct
 *
 * Inserting allocates nothing but a larger table now and then, and when there is no memory for one
 * the chains merely grow: map_insert never fails. Growth is incremental: while an old table is
 * being emptied, each operation moves a few of its chains, so that no single call costs O(n) even
 * with millions of entries.
 *
 * The caller supplies the hash (map_hash with a random seed, since keys may come from outside) and
 * compares keys itself through a callback. Owner: whoever initialised it. Not thread-safe. The map
 * owns its tables, never the entries.
 */
#ifndef HEARTH_BASE_MAP_H
#define HEARTH_BASE_MAP_H

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
    size_t old_next;      /* first chain of `old` that is not moved yet */
    size_t count;
    size_t grow_at; /* the count at which a larger table is asked for */
};

/* True when the entry that embeds `node` has the key at `key`. Called only for equal hashes. */
typedef bool (*map_equals_fn)(const struct map_node *node, const void *key);

/* Allocates a first, small table, and aborts without memory as mem_alloc does. */
void map_init(struct map *map);

/* Frees the tables; the entries are the caller's. Before another use the map needs map_init. */
void map_fini(struct map *map);

/* XXH3-64 with a seed. */
uint64_t map_hash(const void *key, size_t len, uint64_t seed);

struct map_node *map_find(struct map *map, uint64_t hash, map_equals_fn equals, const void *key);

/* The caller has made sure that the key is not there (map_find). */
void map_insert(struct map *map, struct map_node *node, uint64_t hash);
void map_remove(struct map *map, struct map_node *node); /* aborts when it is not there: our bug */

/* Visits every entry once, in no order; O(n). The callback may remove the entry it was given and no
 * other; it may not insert. */
void map_each(struct map *map, void (*fn)(struct map_node *node, void *arg), void *arg);

/* Aborts when a node is in the wrong chain or the count is off; O(n). */
void map_check(const struct map *map);

#endif
