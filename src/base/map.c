/*
 * map.c: chained hashing that grows by splitting one chain after another.
 *
 *      old   [ moved | moved |  2  |  3  ]                                 old_next = 2
 *      now   [   0   |   1   |  ?  |  ?  |   4   |   5   |  ?  |  ?  ]
 *
 * A table only ever doubles, from n chains to 2n. The entries of chain i then go to the chains i
 * and i + n, and no others go there. Hence:
 *
 *   I1  While there is an old table, an entry is in it if and only if (hash & old.mask) >=
 *       old_next. Each hash has thus exactly one chain at any time; a search never looks into two
 *       tables.
 *   I2  The chains of `now` whose origin is not moved yet ("?") are not initialised. Clearing a new
 *       table of millions of chains would be the O(n) pause that moving in small steps is there to
 *       avoid.
 *   I3  Growth starts only when the old table is gone.
 *
 * Each operation moves two chains. A table of n starts to grow at n entries and its successor at
 * 2n, so a map that only inserts has finished moving after n / 2 of the n operations in between.
 *
 * Tables never shrink: the maps of a cache that was full once will be full again.
 */
#include "base/map.h"

#include <assert.h>

#include <xxhash.h>

#include "base/mem.h"

enum {
    MAP_CHAINS_FIRST = 16,  /* a small map costs 128 bytes */
    MAP_MOVES_PER_CALL = 2, /* 1 is enough for inserts alone; see above */
    MAP_RETRY_SHARE = 8,    /* after a failed growth, retry an eighth of the table later */
};

static size_t table_size(const struct map_table *table)
{
    return table->chains ? table->mask + 1 : 0;
}

/* The only chain that can contain entries with this hash (I1). */
static struct map_node **chain_of(const struct map *map, uint64_t hash)
{
    assert(map->now.chains != NULL);
    if (map->old.chains != NULL && (hash & map->old.mask) >= map->old_next)
        return &map->old.chains[hash & map->old.mask];
    return &map->now.chains[hash & map->now.mask];
}

/* Splits the next chain of the old table into its two chains of the new one. */
static void move_chain(struct map *map)
{
    size_t old_size = table_size(&map->old);
    struct map_node *node = map->old.chains[map->old_next];
    struct map_node **low = &map->now.chains[map->old_next];
    struct map_node **high = low + old_size;

    *low = *high = NULL;
    while (node != NULL) {
        struct map_node *next = node->next;
        struct map_node **to = node->hash & old_size ? high : low;
        node->next = *to;
        *to = node;
        node = next;
    }
    map->old_next++;
}

static void move_chains(struct map *map, size_t count)
{
    while (map->old.chains != NULL && count-- > 0) {
        move_chain(map);
        if (map->old_next == table_size(&map->old)) {
            mem_free(map->old.chains);
            map->old = (struct map_table){0};
            map->old_next = 0;
        }
    }
}

static void try_grow(struct map *map)
{
    size_t size = table_size(&map->now);

    if (map->old.chains != NULL)
        return; /* I3; happens when growth failed earlier and the map is overfull */
    struct map_node **chains = mem_try_alloc_array(size * 2, sizeof(*chains));
    if (chains == NULL) {
        map->grow_at = map->count + size / MAP_RETRY_SHARE;
        return;
    }
    map->old = map->now;
    map->old_next = 0;
    map->now = (struct map_table){.chains = chains, .mask = size * 2 - 1};
    map->grow_at = size * 2;
}

void map_init(struct map *map)
{
    *map = (struct map){
        .now = {.chains = mem_alloc_array(MAP_CHAINS_FIRST, sizeof(struct map_node *)),
                .mask = MAP_CHAINS_FIRST - 1},
        .grow_at = MAP_CHAINS_FIRST,
    };
}

void map_fini(struct map *map)
{
    mem_free(map->now.chains);
    mem_free(map->old.chains);
    *map = (struct map){0};
}

uint64_t map_hash(const void *key, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(key, len, seed);
}

struct map_node *map_find(struct map *map, uint64_t hash, map_equals_fn equals, const void *key)
{
    move_chains(map, MAP_MOVES_PER_CALL);
    for (struct map_node *node = *chain_of(map, hash); node != NULL; node = node->next)
        if (node->hash == hash && equals(node, key))
            return node;
    return NULL;
}

void map_insert(struct map *map, struct map_node *node, uint64_t hash)
{
    move_chains(map, MAP_MOVES_PER_CALL);
    if (map->count >= map->grow_at)
        try_grow(map);
    struct map_node **chain = chain_of(map, hash);
    node->hash = hash;
    node->next = *chain;
    *chain = node;
    map->count++;
}

void map_remove(struct map *map, struct map_node *node)
{
    move_chains(map, MAP_MOVES_PER_CALL);
    struct map_node **link = chain_of(map, node->hash);
    while (*link != NULL && *link != node)
        link = &(*link)->next;
    assert(*link == node);
    *link = node->next;
    node->next = NULL;
    assert(map->count > 0);
    map->count--;
}

void map_each(struct map *map, void (*fn)(struct map_node *node, void *arg), void *arg)
{
    /* The visit is O(n) anyway; with only one table, a removal by the callback moves no other
     * entry. */
    move_chains(map, SIZE_MAX);
    for (size_t i = 0; i <= map->now.mask; i++) {
        struct map_node *next;
        for (struct map_node *node = map->now.chains[i]; node != NULL; node = next) {
            next = node->next; /* the callback may free the entry */
            fn(node, arg);
            assert(map->old.chains == NULL); /* else the callback inserted an entry */
        }
    }
}

void map_check(const struct map *map)
{
    size_t old_size = table_size(&map->old);
    size_t seen = 0;

    assert((table_size(&map->now) & map->now.mask) == 0);
    assert(old_size == 0 ? map->old_next == 0
                         : map->old_next < old_size && table_size(&map->now) == old_size * 2);
    for (size_t i = map->old_next; i < old_size; i++)
        for (const struct map_node *node = map->old.chains[i]; node != NULL; node = node->next) {
            assert((node->hash & map->old.mask) == i);
            seen++;
            assert(seen <= map->count); /* also ends the walk of a circular chain */
        }
    for (size_t i = 0; i <= map->now.mask; i++) {
        if (old_size > 0 && (i & map->old.mask) >= map->old_next)
            continue; /* I2 */
        for (const struct map_node *node = map->now.chains[i]; node != NULL; node = node->next) {
            assert((node->hash & map->now.mask) == i);
            seen++;
            assert(seen <= map->count);
        }
    }
    assert(seen == map->count);
}
