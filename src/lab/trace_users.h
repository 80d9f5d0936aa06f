/*
 * trace_users.h: more load than a trace has: N users who do what is in it, each in his own order
 * and at his own times.
 *
 *      trace with sessions     a user plays all sessions, in an order of his own, one after the
 *                              other, with a pause between them
 *      trace without           a user is a copy of the whole trace that begins at another time
 *
 * All begin within the duration of the trace (of its longest session). What users write is their
 * own: their blocks are equal to nobody else's, except those of system prompt and tools, which are
 * the same for all who have the same session.
 */
#ifndef HEARTH_LAB_TRACE_USERS_H
#define HEARTH_LAB_TRACE_USERS_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct trace;

/* Replaces the requests of a sorted trace by those of `users` (>= 1) users, sorted. The same seed
 * gives the same load. ERR_LIMIT when there would be too many, ERR_NOMEM: then nothing has changed.
 */
enum err trace_multiply(struct trace *trace, uint32_t users, uint64_t seed,
                        struct errinfo *info) NODISCARD;

#endif
