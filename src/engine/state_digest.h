/*
 * state_digest.h: digests of state images, computed by several threads.
 *
 *      image    | 4 MiB | 4 MiB | ... | rest |     each piece: XXH3-128, by any thread
 *      digest   XXH3-128 of the shape's other fields and the digests of the pieces
 *
 * One thread hashes 8 GB/s, while a bus moves 40: a single one would be the bottleneck of a restore.
 * The threads are shared by all engines of the process and start with the first image of more than
 * one piece. Pieces are taken in the order of the tasks, so that the first image of a restore can be
 * imported while the others are verified.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>

#include "base/hash.h"

struct state_shape;
struct state_digest_task;

/* Returns when it is done; the calling thread works as well. */
struct hash128 state_digest(const struct state_shape *shape, const void *data);

/* Starts computing. The bytes must stay valid until the task has ended.
 * `done` (may be NULL) is called once, without locks held, possibly within this call. */
struct state_digest_task *state_digest_start(const struct state_shape *shape, const void *data,
                                             void (*done)(void *arg), void *arg);
bool state_digest_ready(const struct state_digest_task *task);
/* Waits, and frees the task. */
struct hash128 state_digest_finish(struct state_digest_task **task);
/* Stops and frees the task (NULL: a no-op); waits for the pieces that are being hashed. */
void state_digest_cancel(struct state_digest_task **task);
