/*
 * trace_place.c: dynamic programming on the tree of prompts.
 *
 *      root ── a ── b ── c (w 2) ── d
 *                   '─── e (w 1)
 *
 *      w(v) = requests that share the prompt exactly up to v with an earlier one. Each of them
 *             resumes at the last chosen place at or above its v.
 *
 *      G(v, j) = the best that the subtree of v can add, when the nearest chosen place above v is j
 *              = max( w(v) depth(j) + sum of G(child, j),
 *                     w(v) depth(v) - price + sum of G(child, v) )
 *
 * Only nodes with w > 0 matter: any other place could move down to the next such node and serve the
 * same requests better. (Where paths diverge, w > 0: the first request on the second path shared
 * everything up to there, and nothing more.) For such a node j is one of those above it, or none: a
 * small table per node, `rank` + 2 long, whose last column is the node itself. Children have higher
 * numbers than parents, so one pass from the highest number down sees children first.
 */

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "lab/trace.h"

#define CELLS_MAX (UINT64_C(1) << 27)

enum { NONE = -1 };

struct cell {
    int64_t value;
    uint64_t snapshots;
};

struct spot {
    int32_t parent; /* NONE */
    int32_t up;     /* the nearest one above that matters; NONE */
    uint32_t depth; /* blocks */
    uint32_t weight;
    uint32_t rank; /* how many above it matter */
    bool seen;
    size_t cells; /* its table */
};

struct place {
    const struct trace *trace;
    int64_t price;
    struct spot *spots; /* by id */
    struct cell *cells;
    int64_t *depths; /* of those above one node, in tokens; [0] = nothing chosen */
};

static bool matters(const struct spot *spot)
{
    return spot->weight > 0;
}

/* Parents, depths and weights. */
static void plant(struct place *place)
{
    const struct trace *trace = place->trace;

    for (size_t r = 0; r < trace->requests_count; r++) {
        const struct trace_request *request = &trace->requests[r];
        int32_t parent = NONE, shared = NONE;
        for (uint32_t i = 0; i < request->blocks; i++) {
            int32_t id = trace_id(trace, request, i);
            struct spot *spot = &place->spots[id];
            assert(parent < id);
            if (spot->seen)
                shared = id;
            spot->seen = true;
            spot->parent = parent;
            spot->depth = i + 1;
            parent = id;
        }
        if (shared != NONE)
            place->spots[shared].weight++;
    }
}

/* Finds the nodes that matter, the one above each, and the place of its table. Returns the
 * number of cells. */
static uint64_t connect(struct place *place, uint32_t *rank_max)
{
    uint32_t count = place->trace->ids_end;
    uint64_t cells = 0;

    *rank_max = 0;
    for (uint32_t id = 0; id < count; id++) {
        struct spot *spot = &place->spots[id];
        const struct spot *parent =
            spot->seen && spot->parent != NONE ? &place->spots[spot->parent] : NULL;
        spot->up = parent == NULL ? NONE : matters(parent) ? spot->parent : parent->up;
        if (!matters(spot))
            continue;
        spot->rank = spot->up == NONE ? 0 : place->spots[spot->up].rank + 1;
        spot->cells = cells;
        cells += spot->rank + 2;
        *rank_max = MAX(*rank_max, spot->rank);
    }
    return cells;
}

static int64_t depth_tokens(const struct place *place, const struct spot *spot)
{
    return (int64_t)spot->depth * place->trace->block_tokens;
}

static bool is_better(const struct cell *a, const struct cell *b)
{
    return a->value != b->value ? a->value > b->value : a->snapshots < b->snapshots;
}

/* Adds the best of a node's subtree to the table of the node above it, or to *all. */
static void add_best(struct place *place, const struct spot *spot, struct cell *all)
{
    const struct cell *sums = &place->cells[spot->cells];
    const struct spot *above = spot;

    place->depths[0] = 0;
    for (uint32_t j = spot->rank; j > 0; j--) {
        above = &place->spots[above->up];
        place->depths[j] = depth_tokens(place, above);
    }
    struct cell chosen = sums[spot->rank + 1];
    chosen.value += spot->weight * depth_tokens(place, spot) - place->price;
    chosen.snapshots++;
    for (uint32_t j = 0; j <= spot->rank; j++) {
        struct cell kept = sums[j];
        kept.value += spot->weight * place->depths[j];
        const struct cell *best = is_better(&chosen, &kept) ? &chosen : &kept;
        struct cell *to = spot->up == NONE ? all : &place->cells[place->spots[spot->up].cells + j];
        to->value += best->value;
        to->snapshots += best->snapshots;
    }
}

static enum err solve(struct place *place, struct place_result *result)
{
    struct cell all = {0};
    uint32_t rank_max;

    plant(place);
    uint64_t cells = connect(place, &rank_max);
    if (cells > CELLS_MAX)
        return ERR_LIMIT;
    place->cells = mem_try_alloc_array(cells, sizeof(*place->cells));
    place->depths = mem_try_alloc_array((size_t)rank_max + 1, sizeof(*place->depths));
    if (place->cells == NULL || place->depths == NULL)
        return ERR_NOMEM;
    memset(place->cells, 0, cells * sizeof(*place->cells));
    for (uint32_t id = place->trace->ids_end; id-- > 0;)
        if (matters(&place->spots[id]))
            add_best(place, &place->spots[id], &all);
    result->snapshots = all.snapshots;
    result->tokens_saved = (uint64_t)(all.value + place->price * (int64_t)all.snapshots);
    return ERR_OK;
}

enum err place_best(const struct trace *trace, uint64_t price_tokens, struct place_result *result)
{
    struct place place = {.trace = trace, .price = (int64_t)MIN(price_tokens, TRACE_TOKENS_MAX)};
    enum err err = ERR_NOMEM;

    *result = (struct place_result){0};
    place.spots = mem_try_alloc_array(trace->ids_end, sizeof(*place.spots));
    if (place.spots != NULL) {
        memset(place.spots, 0, trace->ids_end * sizeof(*place.spots));
        err = solve(&place, result);
    }
    mem_free(place.spots);
    mem_free(place.cells);
    mem_free(place.depths);
    return err;
}
