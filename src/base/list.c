/*
 * list.c: a ring through a head that is itself a node, so that no operation has a special case for
 * the ends.
 *
 * Every operation except list_check is O(1). Membership is verified only where that is free: a node
 * of another list goes unnoticed until list_check counts.
 */
#include "base/list.h"

#include <assert.h>

void list_init(struct list *list)
{
    *list = (struct list){.head = {&list->head, &list->head}};
}

bool list_empty(const struct list *list)
{
    assert((list->count == 0) == (list->head.next == &list->head));
    return list->count == 0;
}

bool list_node_linked(const struct list_node *node)
{
    assert((node->prev == NULL) == (node->next == NULL));
    return node->next != NULL;
}

void list_insert_before(struct list *list, struct list_node *at, struct list_node *node)
{
    assert(list_node_linked(at));
    assert(!list_node_linked(node));
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
    list->count++;
}

void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list, list->head.next, node);
}

void list_push_back(struct list *list, struct list_node *node)
{
    list_insert_before(list, &list->head, node);
}

void list_remove(struct list *list, struct list_node *node)
{
    assert(list->count > 0 && node != &list->head);
    assert(list_node_linked(node) && node->prev->next == node && node->next->prev == node);
    node->prev->next = node->next;
    node->next->prev = node->prev;
    *node = (struct list_node){0};
    list->count--;
}

void list_move_back(struct list *list, struct list_node *node)
{
    list_remove(list, node);
    list_push_back(list, node);
}

struct list_node *list_first(const struct list *list)
{
    return list_next(list, &list->head);
}

struct list_node *list_last(const struct list *list)
{
    return list->head.prev == &list->head ? NULL : list->head.prev;
}

struct list_node *list_next(const struct list *list, const struct list_node *node)
{
    assert(list_node_linked(node));
    return node->next == &list->head ? NULL : node->next;
}

struct list_node *list_pop_front(struct list *list)
{
    struct list_node *node = list_first(list);

    if (node != NULL)
        list_remove(list, node);
    return node;
}

void list_check(const struct list *list)
{
    const struct list_node *node = &list->head;

    /* Counting, rather than waiting for the head, also ends the walk through a broken ring. */
    for (size_t i = 0; i <= list->count; i++) {
        assert(node->next != NULL && node->next->prev == node);
        assert(node != &list->head || i == 0);
        node = node->next;
    }
    assert(node == &list->head);
}
