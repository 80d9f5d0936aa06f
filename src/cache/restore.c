/*
 * restore.c: for every kind, the positions that a state can be restored to are one interval, and
 * everything follows from that.
 *
 *      full        [0, length]
 *      sliding     [start + window, length]                   from 0 when nothing was dropped (start = 0)
 *      chunked     [start rounded up to a chunk, length]
 *      recurrent   [length, length]
 *      composite   the intersection
 *
 * Sliding: what begins at pos looks back at [pos - window, pos), so pos - window >= start, or pos
 * <= length and start = 0. A ring that is saturated (length - start = window) is thus restorable to
 * its own length only; one that a prefill made longer than its window goes back by the surplus. It
 * also follows that a state which lost its front is not restorable to 0: an empty state is a cold
 * start, not a part of this one. Chunked: a token looks back to the start of its chunk, pos - pos %
 * window, which never decreases with pos.
 *
 * Doubt is answered with less: an unknown kind, several kinds at once, a window of 0 and a start
 * behind the length are treated as recurrent; rows pinned at the front make the position of all
 * others ambiguous and allow nothing.
 *
 * Not here: bytes, rows, tokens. The engine cuts; this says where it may.
 */
#include "cache/restore.h"

#include <assert.h>

#include "base/attr.h"

/* Positions [from, to]; empty when from > to. 64 bits, since start + window may be more than 32. */
struct interval {
    uint64_t from, to;
};

static const struct interval nowhere = {1, 0};

/* The kind that decides: a whitelist (keeps I29). */
static uint32_t kind_of(const struct restore_state *state)
{
    switch (state->kind) {
    case RESTORE_FULL:
        return RESTORE_FULL;
    case RESTORE_SLIDING:
    case RESTORE_CHUNKED:
        return state->window > 0 && state->start <= state->length ? state->kind : RESTORE_RECURRENT;
    default:
        return RESTORE_RECURRENT;
    }
}

static struct interval positions(const struct restore_state *state)
{
    struct interval all = {0, state->length};
    uint64_t start = state->start, window = state->window;

    if (state->keep != 0)
        return nowhere;
    switch (kind_of(state)) {
    case RESTORE_FULL:
        break;
    case RESTORE_SLIDING:
        all.from = start > 0 ? start + window : 0;
        break;
    case RESTORE_CHUNKED:
        all.from = (start + window - 1) / window * window;
        break;
    default:
        all.from = state->length;
        break;
    }
    return all;
}

/* A composite without parts stands for nothing, and nothing can be restored from it. */
static struct interval positions_all(const struct restore_state *states, size_t count)
{
    struct interval all = {0, UINT32_MAX};

    for (size_t i = 0; i < count; i++) {
        struct interval one = positions(&states[i]);
        all.from = MAX(all.from, one.from);
        all.to = MIN(all.to, one.to);
    }
    return count > 0 ? all : nowhere;
}

static bool contains(struct interval interval, uint32_t pos)
{
    return interval.from <= pos && pos <= interval.to;
}

/* Keeps the rows that the window of pos needs and no others, so that length, start and what is
 * retained agree (keeps I19). */
static void cut(struct restore_state *state, uint32_t pos)
{
    uint32_t window = state->window;

    switch (kind_of(state)) {
    case RESTORE_SLIDING:
        state->start = pos > window ? pos - window : 0;
        break;
    case RESTORE_CHUNKED:
        state->start = pos - pos % window;
        break;
    default:
        break;
    }
    state->length = pos;
}

static const char *reason_refused(const struct restore_state *state, uint32_t pos)
{
    if (state->keep != 0)
        return "rows pinned at the front cannot be restored";
    if (pos > state->length)
        return "the state is shorter";
    if (kind_of(state) == RESTORE_RECURRENT)
        return "recurrent state requires an exact checkpoint or replay";
    return "the window is no longer retained";
}

static const char *reason_restored(const struct restore_state *state, uint32_t pos)
{
    if (pos == state->length)
        return "exact";
    return kind_of(state) == RESTORE_FULL ? "cut" : "restored retained window";
}

static struct restore_result refused(const char *reason)
{
    return (struct restore_result){.restored = false, .reason = reason};
}

static struct restore_result restored(uint32_t pos, const char *reason)
{
    return (struct restore_result){
        .restored = true, .tokens = pos, .replay_start = pos, .reason = reason};
}

struct restore_range restore_retained(const struct restore_state *state)
{
    struct restore_range range = {state->length, state->length};

    switch (kind_of(state)) {
    case RESTORE_FULL:
        range.begin = 0;
        break;
    case RESTORE_SLIDING:
    case RESTORE_CHUNKED:
        range.begin = state->start;
        break;
    default:
        break;
    }
    return range;
}

bool restore_possible(const struct restore_state *state, uint32_t pos)
{
    return contains(positions(state), pos);
}

struct restore_result restore_apply(struct restore_state *state, uint32_t pos)
{
    if (!restore_possible(state, pos))
        return refused(reason_refused(state, pos));
    const char *reason = reason_restored(state, pos);
    cut(state, pos);
    assert(restore_possible(state, pos));
    return restored(pos, reason);
}

bool restore_possible_all(const struct restore_state *states, size_t count, uint32_t pos)
{
    return contains(positions_all(states, count), pos);
}

struct restore_result restore_apply_all(struct restore_state *states, size_t count, uint32_t pos)
{
    if (!restore_possible_all(states, count, pos))
        return refused("one or more parts cannot be restored");
    for (size_t i = 0; i < count; i++)
        cut(&states[i], pos);
    return restored(pos, "restored all parts");
}

uint32_t restore_longest(const struct restore_state *states, size_t count, uint32_t limit)
{
    struct interval all = positions_all(states, count);
    uint64_t pos = MIN(all.to, limit);

    return pos >= all.from ? (uint32_t)pos : 0;
}
