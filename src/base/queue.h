/*
 * queue.h: a bounded queue of pointers between threads.
 *
 *      producers --try_push--> [ o o o o . . . . ] --try_pop / pop--> consumers
 *
 * Many producers, many consumers, first in, first out. Nothing is dropped silently: pushing to a
 * full queue returns false and the caller decides. Closing wakes all waiters; items inside may
 * still be popped, none may be pushed.
 *
 * The queue does not own the items; drain it before destroying it.
 *
 * Threads: any thread may call all functions except destroy (own lock, rank LOCK_RANK_QUEUE). A
 * thread that waits in queue_pop holds no lock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct queue;

/* Holds at most `capacity` (>= 1) items. `name` is a literal for messages. ERR_NOMEM. */
enum err queue_create(struct queue **queue, const char *name, size_t capacity,
                      struct errinfo *info) NODISCARD;
/* aborts when it is not empty; no thread may still use it */
void queue_destroy(struct queue **queue);

/* item != NULL; false when full or closed */
bool queue_try_push(struct queue *queue, void *item) NODISCARD;
void *queue_try_pop(struct queue *queue) NODISCARD; /* NULL when empty */

/* Waits for an item, at most timeout_ns (UINT64_MAX: forever). NULL on timeout, or when closed and
 * empty. */
void *queue_pop(struct queue *queue, uint64_t timeout_ns) NODISCARD;

void queue_close(struct queue *queue); /* repeated calls are no-ops */
bool queue_closed(const struct queue *queue);
size_t queue_length(const struct queue *queue);
