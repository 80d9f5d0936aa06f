/*
 * budget.h: one ledger of bytes for everything that may grow, with a cap that holds (keeps I93).
 *
 *      cap ------------------------------------------------------------------------------------.
 *      | owner "ram tier"  used 3 GiB      | owner "staging" used | owner "queues" | free      |
 *      |   share: 1 GiB is always its own  |                      |                |           |
 *      '---------------------------------------------------------------------------------------'
 *
 * Bytes are taken before the memory is, and given back after it is freed. A reservation is refused
 * when it would lift the total above the cap, or when it would eat into the unused part of another
 * owner's reserved share. The cap can be lowered below what is used: then nothing more is granted
 * until enough was given back, and budget_excess says how much is missing.
 *
 * As long as every share is covered (the sum over all owners of the larger of used and share is at
 * most the cap), each owner gets its share whenever it asks, and no grant to another changes that.
 * Three calls can leave shares uncovered, because they are not refused: a lowered cap, a share that
 * is added over bytes in use, and a move that empties one share to go above another. The rule of
 * refusal stays the same then, so the gap only shrinks; budget_deficit says how wide it is, and
 * whoever can give bytes back should. A cap below the sum of the shares is never covered: lower it
 * so far only in need.
 *
 * Threads: all functions may be called from any thread (own lock, rank LOCK_RANK_BUDGET).
 */
#ifndef HEARTH_BASE_BUDGET_H
#define HEARTH_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

enum { BUDGET_OWNERS_MAX = 64 };

struct budget;
typedef int budget_owner; /* an index into the ledger; -1 = none */

struct budget *budget_create(uint64_t cap_bytes);
/* aborts when bytes are still in use: somebody leaks */
void budget_destroy(struct budget **budget);

/* A new owner with bytes that are always its own. ERR_LIMIT when the table is full or the shares
 * would exceed the cap. Those of the bytes that others use already become its own as they are given
 * back. The name is for the message. */
enum err budget_add_owner(struct budget *budget, const char *name, uint64_t share,
                          budget_owner *owner, struct errinfo *info) NODISCARD;
/* The owner's line is free for another; aborts when it still uses bytes. */
void budget_remove_owner(struct budget *budget, budget_owner owner);

/* All or nothing; 0 bytes are always granted. */
bool budget_try_reserve(struct budget *budget, budget_owner owner, uint64_t bytes) NODISCARD;
/* aborts below zero */
void budget_release(struct budget *budget, budget_owner owner, uint64_t bytes);

/* Hands bytes over without a moment in which they are free for others. Never refused: the total
 * does not change. */
void budget_move(struct budget *budget, budget_owner from, budget_owner to, uint64_t bytes);

void budget_set_cap(struct budget *budget, uint64_t cap_bytes);
uint64_t budget_cap(const struct budget *budget);
uint64_t budget_used(const struct budget *budget);
uint64_t budget_excess(const struct budget *budget); /* used above the cap; 0 normally */

/* What `owner` could reserve right now, which another thread may change before it does. */
uint64_t budget_available(const struct budget *budget, budget_owner owner);

#endif
