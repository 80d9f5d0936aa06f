/* turns.c: a list of tenants in the order of their turns, each with a list of its items. */
#include "base/turns.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/lock.h"
#include "base/mem.h"

struct tenant {
    struct list_node link;
    struct list items; /* never empty */
    char *name;
};

struct turns {
    struct lock lock;
    struct cond not_empty;
    struct list tenants GUARDED_BY(lock); /* the first one is next */
    size_t count GUARDED_BY(lock);        /* items of all */
    bool closed GUARDED_BY(lock);
};

struct turns *turns_create(const char *name)
{
    struct turns *turns = mem_alloc(sizeof(*turns));

    lock_init(&turns->lock, name, LOCK_RANK_QUEUE);
    cond_init(&turns->not_empty);
    list_init(&turns->tenants);
    return turns;
}

void turns_destroy(struct turns **turns)
{
    struct turns *old = *turns;

    if (old == NULL)
        return;
    assert(old->count == 0 && list_empty(&old->tenants));
    cond_fini(&old->not_empty);
    lock_fini(&old->lock);
    mem_free(old);
    *turns = NULL;
}

static struct tenant *find(struct turns *turns, const char *name) REQUIRES(turns->lock)
{
    LIST_FOREACH (struct tenant, tenant, &turns->tenants, link)
        if (strcmp(tenant->name, name) == 0)
            return tenant;
    return NULL;
}

static struct tenant *add(struct turns *turns, const char *name) REQUIRES(turns->lock)
{
    struct tenant *tenant = mem_alloc(sizeof(*tenant));

    list_init(&tenant->items);
    tenant->name = mem_strdup(name);
    list_push_back(&turns->tenants, &tenant->link);
    return tenant;
}

static bool push_locked(struct turns *turns, struct list_node *item, const char *name, size_t limit)
    REQUIRES(turns->lock)
{
    struct tenant *tenant = find(turns, name);
    size_t own = tenant != NULL ? tenant->items.count : 0;

    lock_assert_held(&turns->lock);
    if (turns->closed ||
        !turns_have_room(limit, turns->count, own, turns->tenants.count + (tenant == NULL)))
        return false;
    if (tenant == NULL)
        tenant = add(turns, name);
    list_push_back(&tenant->items, item);
    turns->count++;
    cond_signal(&turns->not_empty);
    return true;
}

static struct list_node *pop_locked(struct turns *turns) REQUIRES(turns->lock)
{
    struct list_node *first = list_pop_front(&turns->tenants);

    if (first == NULL)
        return NULL;
    struct tenant *tenant = CONTAINER_OF(first, struct tenant, link);
    struct list_node *item = list_pop_front(&tenant->items);
    turns->count--;
    if (list_empty(&tenant->items)) {
        mem_free(tenant->name);
        mem_free(tenant);
    } else {
        list_push_back(&turns->tenants, &tenant->link);
    }
    return item;
}

bool turns_push(struct turns *turns, struct list_node *item, const char *tenant, size_t limit)
{
    lock_enter(&turns->lock);
    bool pushed = push_locked(turns, item, tenant, limit);
    lock_leave(&turns->lock);
    return pushed;
}

struct list_node *turns_pop(struct turns *turns)
{
    lock_enter(&turns->lock);
    while (turns->count == 0 && !turns->closed)
        cond_wait(&turns->not_empty, &turns->lock);
    struct list_node *item = pop_locked(turns);
    lock_leave(&turns->lock);
    return item;
}

void turns_close(struct turns *turns)
{
    lock_enter(&turns->lock);
    turns->closed = true;
    cond_broadcast(&turns->not_empty);
    lock_leave(&turns->lock);
}

size_t turns_count(const struct turns *turns)
{
    struct lock *lock = (struct lock *)&turns->lock; /* const promises not to change the content */

    lock_enter(lock);
    size_t count = turns->count;
    lock_leave(lock);
    return count;
}
