/*
 * turns.h: a queue between threads, whose tenants take turns.
 *
 *      push --> a: o o o o o o --.
 *      push --> b: o             +--> pop: a b c a c a a a a
 *      push --> c: o o ----------'
 *
 * Each pop takes the oldest item of the tenant that has waited longest for its turn. So a flood of
 * one tenant delays another's item by one of each tenant.
 *
 * The limit counts the items of all tenants, so that one alone may use all of it. A tenant that finds
 * the queue full may still push up to its share: the limit divided by the tenants that wait, itself
 * included. So none can keep another out, and n tenants have at most 1 + 1/2 + ... + 1/n times the
 * limit.
 *
 * The queue owns neither the items nor their links; drain it before destroying it.
 *
 * Threads: any thread may call all functions except destroy (own lock, rank LOCK_RANK_QUEUE).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/list.h"

struct turns;

/* `name` is a literal, for its lock. */
struct turns *turns_create(const char *name) NODISCARD;
/* aborts when it is not empty; no thread may still use it; NULL is a no-op */
void turns_destroy(struct turns **turns);

/* False: no room for an item of this tenant, or closed. */
bool turns_push(struct turns *turns, struct list_node *item, const char *tenant,
                size_t limit) NODISCARD;
/* Waits for an item; NULL when closed and empty. */
struct list_node *turns_pop(struct turns *turns) NODISCARD;

void turns_close(struct turns *turns); /* repeated calls are no-ops */
size_t turns_count(const struct turns *turns);

/* The limit, for other queues: whether a tenant that has `own` of the `used` places may take one
 * more. `tenants` have any; at least 1, as it is one of them then. */
static inline bool turns_have_room(size_t limit, size_t used, size_t own, size_t tenants)
{
    return used < limit || own < MAX(limit / tenants, 1);
}
