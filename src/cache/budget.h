/*
 * budget.h: an account of bytes under one cap (keeps I93), with a line for each owner.
 *
 *      cap ------------------------------------------------------------------------------------.
 *      | line of a space   used 3 GiB      | line of the trees    | another space      | free   |
 *      |   share: 1 GiB is always its own  |                      |                    |        |
 *      '---------------------------------------------------------------------------------------'
 *
 * Bytes are reserved before the memory is allocated, and given back after it is freed. A
 * reservation is refused if it would lift the total above the cap, or take from the unused part of
 * another line's share. The cap can be lowered below the bytes in use: then nothing is granted
 * until enough has been given back, and budget_excess says how much that is.
 *
 * While every share is covered (the sum over all lines of max(used, share) is at most the cap),
 * each line gets its share whenever it asks, and no grant to another changes that. Lowering the
 * cap, raising a share, and a new share over bytes in use are not refused and can leave shares
 * uncovered. Reservations are refused by the same rule then, so the gap only shrinks. A cap below
 * the sum of the shares never covers them: lower the shares with it.
 *
 * Only counts: giving bytes back neither calls nor wakes anyone. Not thread-safe: the cache's lock
 * guards its budgets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* All zero but the cap: nothing is used. */
struct budget {
    uint64_t cap;
    uint64_t used;     /* sum over all lines */
    uint64_t promised; /* sum of share - used, over the lines that are below their share */
    uint64_t shares;   /* sum over all lines, used or not */
};

/* Of one owner; zero at first. Without bytes and without a share, it can be forgotten. */
struct budget_line {
    uint64_t used, share;
};

/* All or nothing; 0 bytes are always granted. */
bool budget_try_reserve(struct budget *budget, struct budget_line *line, uint64_t bytes) NODISCARD;
/* aborts below zero */
void budget_release(struct budget *budget, struct budget_line *line, uint64_t bytes);

/* Gives a line without a share this one. False: the shares would exceed the cap. Bytes of the share
 * that others already use become available as they are given back. */
bool budget_try_share(struct budget *budget, struct budget_line *line, uint64_t share) NODISCARD;
/* Never refused. Aborts when the shares add up to more than 64 bits. */
void budget_set_share(struct budget *budget, struct budget_line *line, uint64_t share);

/* What the line could reserve. */
uint64_t budget_available(const struct budget *budget, const struct budget_line *line);
uint64_t budget_excess(const struct budget *budget); /* bytes above the cap; normally 0 */
