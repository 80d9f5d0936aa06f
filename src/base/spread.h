/*
 * spread.h: which token counts of a prompt get a snapshot, when the next prompt may diverge from it
 * anywhere.
 *
 *      from                                                                  end
 *       |----------o-------------o----------o-------o------o-----o---o--o-o-o-|
 *                                                  distances from the end grow by a ratio
 *
 * A prompt that diverges at distance d from the end computes all tokens after it in any case. If
 * the distances of two neighbours have the ratio r, it computes at most (r - 1) d more. So a prompt
 * of any length needs few places, and most of them near its end, where questions and last items are.
 *
 * A place costs a snapshot. Where a chunk ends anyway (the grid) that is all; elsewhere it costs
 * another cut, hence another run. Both numbers are limited; the ratio is the smallest that fits.
 * A candidate is a place where a prompt is more likely to fork than elsewhere: between two places
 * of the spread the heaviest candidate is taken, if its weight is worth the cut so far from the end.
 *
 * Pure functions of numbers: the same places in the server and in a replay.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPREAD_MAX = 64,
    SPREAD_NEAR = 64,     /* the place that is nearest to the end, in tokens */
    SPREAD_TOKENS = 1024, /* distance up to which a candidate of weight 1 is worth a cut */
};

struct spread_candidate {
    uint32_t at;
    float weight; /* of a fork there; > 0 */
    bool cut;     /* a chunk ends there anyway */
};

struct spread {
    uint32_t from, end;                        /* places are between them */
    uint32_t grid;                             /* chunks end at its multiples; >= 1 */
    const struct spread_candidate *candidates; /* ascending */
    size_t count;
    uint32_t places_max; /* at most SPREAD_MAX count */
    uint32_t cuts_max;   /* places that are neither on the grid nor cuts */
    bool fixed;          /* only the grid and candidates: cuts must not depend on the end */
};

/* Fills `places`, ascending; returns their number. */
size_t spread_choose(const struct spread *spread, uint32_t places[SPREAD_MAX]);
