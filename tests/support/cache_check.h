/*
 * cache_check.h: what must hold in the cache between two calls, computed a second time, naively.
 * Each aborts when something is wrong. O(n).
 */
#pragma once

#include <stddef.h>

struct heap;
struct hearth_cache;
struct index;
struct treap_node;

size_t treap_check(const struct treap_node *root); /* returns the number of nodes */
void heap_check(const struct heap *heap);
void index_check(const struct index *index);
void cache_check(struct hearth_cache *cache); /* takes its lock */
