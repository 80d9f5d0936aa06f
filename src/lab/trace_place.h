/*
 * trace_place.h: the yardstick for snapshots: the best places that there are for them, found with
 * the whole trace at hand.
 *
 * For a cache without limits, and a price per snapshot in tokens: the set of places (a prompt, cut
 * after some block) for which
 *
 *      tokens that need not be computed - price x snapshots
 *
 * is the highest. A place can be used from the request after the one that computed it first. No
 * policy that has to decide when it sees a prompt can do better; what one loses against it is what
 * placement can win at most.
 */
#ifndef HEARTH_LAB_TRACE_PLACE_H
#define HEARTH_LAB_TRACE_PLACE_H

#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct trace;

struct place_result {
    uint64_t snapshots;
    uint64_t tokens_saved;
};

/* O(blocks of the trace + places^2 of one path). ERR_NOMEM; ERR_LIMIT when the trace branches more
 * deeply than the table has room for. */
enum err place_best(const struct trace *trace, uint64_t price_tokens,
                    struct place_result *result) NODISCARD;

#endif
