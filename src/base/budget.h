/*
 * budget.h: one ledger of bytes for everything that may grow, under one cap (keeps I93).
 *
 *      cap ------------------------------------------------------------------------------------.
 *      | owner "ram tier"  used 3 GiB      | owner "staging" used | owner "queues" | free      |
 *      |   share: 1 GiB is always its own  |                      |                |           |
 *      '---------------------------------------------------------------------------------------'
 *
 * Bytes are reserved before the memory is allocated, and given back after it is freed. A
 * reservation is refused if it would lift the total above the cap, or take from the unused part of
 * another owner's share. The cap can be lowered below the bytes in use: then nothing is granted
 * until enough has been given back, and budget_excess says how much that is.
 *
 * While every share is covered (the sum over all owners of max(used, share) is at most the cap),
 * each owner gets its share whenever it asks, and no grant to another changes that. Four calls can
 * leave shares uncovered, because they are not refused: lowering the cap, raising a share, adding
 * one over bytes in use, and a move that empties one share and exceeds another. Reservations are
 * refused by the same rule then, so the gap only shrinks. A cap below the sum of the shares never
 * covers them: lower the shares with it.
 *
 * Threads: all functions may be called from any thread (own lock, rank LOCK_RANK_BUDGET).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

enum { BUDGET_OWNERS_MAX = 64 };

struct budget;
typedef int budget_owner; /* an index into the ledger; -1 = none */

struct budget *budget_create(uint64_t cap_bytes);
/* aborts when bytes are still in use: a leak */
void budget_destroy(struct budget **budget);

/* A new owner with a guaranteed share. ERR_LIMIT when the table is full or the shares would exceed
 * the cap. Bytes of the share that others already use become available as they are given back. The
 * name is for messages. */
enum err budget_add_owner(struct budget *budget, const char *name, uint64_t share,
                          budget_owner *owner, struct errinfo *info) NODISCARD;
/* Frees the owner's slot; aborts when it still uses bytes. */
void budget_remove_owner(struct budget *budget, budget_owner owner);

/* All or nothing; 0 bytes are always granted. */
bool budget_try_reserve(struct budget *budget, budget_owner owner, uint64_t bytes) NODISCARD;
/* aborts below zero */
void budget_release(struct budget *budget, budget_owner owner, uint64_t bytes);

/* Moves bytes to another owner; they are never free for others in between. Never refused: the total
 * does not change. */
void budget_move(struct budget *budget, budget_owner from, budget_owner to, uint64_t bytes);

void budget_set_cap(struct budget *budget, uint64_t cap_bytes);
/* Never refused, as lowering the cap. Aborts when the shares add up to more than 64 bits. */
void budget_set_share(struct budget *budget, budget_owner owner, uint64_t share);
uint64_t budget_cap(const struct budget *budget);
uint64_t budget_used(const struct budget *budget);
uint64_t budget_excess(const struct budget *budget); /* bytes above the cap; normally 0 */

/* What `owner` could reserve now; other threads may change it at any time. */
uint64_t budget_available(const struct budget *budget, budget_owner owner);
