/*
 * list.h: a doubly linked list whose links are embedded in its elements. Allocates nothing, cannot
 * fail.
 *
 *      struct entry { int value; struct list_node lru; };
 *      LIST_FOREACH(struct entry, e, &list, lru) use(e);
 *
 * A node is in at most one list at a time; a node that is in none has NULL links
 * (list_node_linked). The owner of the list guards it; the list owns no memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head; /* prev = last, next = first; points at itself when empty */
    size_t count;
};

void list_init(struct list *list);
bool list_empty(const struct list *list);
bool list_node_linked(const struct list_node *node);

void list_push_front(struct list *list, struct list_node *node);
void list_push_back(struct list *list, struct list_node *node);
void list_insert_before(struct list *list, struct list_node *at, struct list_node *node);
void list_remove(struct list *list, struct list_node *node);
void list_move_back(struct list *list, struct list_node *node); /* for LRU lists */

/* NULL when empty or at the end. */
struct list_node *list_first(const struct list *list);
struct list_node *list_last(const struct list *list);
struct list_node *list_next(const struct list *list, const struct list_node *node);
struct list_node *list_pop_front(struct list *list);

/* Aborts when links or count are inconsistent; O(n), for tests and debug builds. */
void list_check(const struct list *list);

#define LIST_ENTRY(node, type, member) ((node) ? CONTAINER_OF(node, type, member) : NULL)

/* The loop variable may not be removed inside LIST_FOREACH; LIST_FOREACH_SAFE allows that. */
#define LIST_FOREACH(type, var, list, member)                                 \
    for (type *var = LIST_ENTRY(list_first(list), type, member); var != NULL; \
         var = LIST_ENTRY(list_next((list), &var->member), type, member))

#define LIST_FOREACH_SAFE(type, var, list, member)                                                \
    for (struct list_node *var##_node = list_first(list),                                         \
                          *var##_next = var##_node ? list_next((list), var##_node) : NULL;        \
         var##_node != NULL;                                                                      \
         var##_node = var##_next, var##_next = var##_node ? list_next((list), var##_node) : NULL) \
        for (type *var = CONTAINER_OF(var##_node, type, member), *var##_once = var;               \
             var##_once != NULL; var##_once = NULL)
