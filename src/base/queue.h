/*
 * queue.h: a bounded queue of pointers between threads.
 *
 *      producers --try_push--> [ o o o o . . . . ] --try_pop / pop--> consumers
 *
 * Many producers, many consumers, first in, first out. Nothing is ever dropped silently: a full
 * queue answers false and the caller decides. Closing wakes everyone; what is inside may still be
 * popped, nothing may be pushed.
 *
 * The queue does not own what the pointers point to; the one who destroys it drains it first.
 *
 * Threads: all functions but destroy may be called from any thread (own lock, rank
 * LOCK_RANK_QUEUE). A thread that waits in queue_pop holds no lock.
 */
#ifndef HEARTH_BASE_QUEUE_H
#define HEARTH_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct queue;

/* Holds at most `capacity` (>= 1) items. `name` is a literal for messages. ERR_NOMEM. */
enum err queue_create(struct queue **queue, const char *name, size_t capacity,
                      struct errinfo *info) NODISCARD;
void queue_destroy(struct queue **queue); /* aborts when it is not empty; nobody may still use it */

/* item != NULL; false when full or closed */
bool queue_try_push(struct queue *queue, void *item) NODISCARD;
void *queue_try_pop(struct queue *queue) NODISCARD; /* NULL when empty */

/* Waits for an item, at most timeout_ns (UINT64_MAX: for ever). NULL on time-out, or when closed
 * and empty. */
void *queue_pop(struct queue *queue, uint64_t timeout_ns) NODISCARD;

void queue_close(struct queue *queue); /* again is a no-op */
bool queue_closed(const struct queue *queue);
size_t queue_length(const struct queue *queue);

#endif
