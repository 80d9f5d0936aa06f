/*
 * store_cost.h: what storing state costs, learned from the exports that were made.
 *
 *      ns(rows) = call + bytes * per byte  +  the same for scattered rows
 *
 * On a CPU an export is a memcpy. On a GPU it is fast only in large contiguous pieces: tokens that
 * were decoded beside other sequences are scattered over the shared cells, and each costs several
 * copies. So these rows have their own line, and so do snapshots.
 *
 * A line counts as unknown until it has LINE_SAMPLES samples. Exports of less than
 * STORE_COST_BYTES_MIN are neither learned nor judged: the clock's noise is larger than their cost.
 *
 * Owner: the scheduler's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sched/line.h"

enum {
    STORE_COST_BYTES_MIN = 1 << 20,
    /* of the exports that were too expensive for evicted state, one in this many is made anyway, so
     * that an outdated estimate is corrected */
    STORE_COST_RETRY = 32,
};

/* How many times less than computing a store must cost; 0 = any price. again.h corrects it.
 *
 *   UNFORCED  Nothing is lost without it: during a prefill, or while other jobs run. All of these
 *             together take at most 3 % of the time of prefill.
 *   EVICTED   The state is lost without it, and a request waits for its cells. It pays if one in
 *             seven of such states is used again: that one saves 8 stores and costs one import.
 *   CERTAIN   The job continues from it: storing must only be cheaper than computing. */
enum store_price {
    STORE_ANY_PRICE = 0,
    STORE_CERTAIN = 1,
    STORE_EVICTED = 8,
    STORE_UNFORCED = 32,
};

struct store_cost {
    struct line rows, scattered, snapshots;
    uint32_t refused; /* of evicted state, since the last one that was made nevertheless */
};

/* An export; `scattered` of its bytes are scattered rows. */
struct store_piece {
    uint64_t bytes, scattered;
    bool snapshot;
};

void store_cost_learn(struct store_cost *cost, const struct store_piece *piece, uint64_t ns);
/* Nanoseconds; 0 = not known yet. */
double store_cost_ns(const struct store_cost *cost, const struct store_piece *piece);
/* Whether a store that takes `ns` is worth it; computing takes compute_ns. If either is
 * unknown (0), it is. */
bool store_cost_pays(struct store_cost *cost, double ns, double compute_ns, enum store_price price);

/* ---- which tokens of a sequence are scattered ---- */

/* `tokens` of those in [from, to), assumed to be spread evenly. */
struct scatter {
    uint32_t from, to, tokens;
};

/* The token at `at`, which is after all others, was decoded beside other sequences. */
void scatter_add(struct scatter *scatter, uint32_t at);
/* Of the first `length` tokens of the sequence. */
struct scatter scatter_cut(const struct scatter *scatter, uint32_t length);
uint32_t scatter_count(const struct scatter *scatter, uint32_t begin, uint32_t end);
