/*
 * contract.c: for every kind, the positions that a state can be restored to form one interval, and
 * everything follows from that.
 *
 *      full        [0, length]
 *      sliding     [start + window, length]            from 0 when nothing was dropped (start = 0)
 *      chunked     [start rounded up to a chunk, length]
 *      recurrent   [length, length]
 *      composite   the intersection (keeps I18)
 *
 * Sliding: a token at pos looks back at [pos - window, pos), so pos - window >= start, or start =
 * 0. A saturated ring (length - start = window) can thus be restored only to its own length; one
 * that a prefill made longer than its window can go back by the surplus. A state that lost its
 * front cannot be restored to 0: an empty state is a cold start, not a part of this one. Chunked:
 * a token looks back to the start of its chunk, pos - pos % window, which never decreases with
 * pos.
 *
 * When in doubt, restore less: an unknown kind, several kinds at once, a window of 0 and a start
 * beyond the length are treated as recurrent (keeps I29). Rows pinned at the front make the
 * position of all others ambiguous, so nothing can be restored (keeps I16).
 *
 * Not here: bytes, rows, tokens. This says where the engine may cut.
 */
#include <assert.h>

#include "base/attr.h"
#include "hearth/hearth.h"

/* Positions [from, to]; empty when from > to. 64 bits, since start + window may exceed 32. */
struct interval {
    uint64_t from, to;
};

static const struct interval nowhere = {1, 0};

/* The kind that decides: a whitelist (keeps I29). */
static uint32_t kind_of(const struct hearth_retained *part)
{
    bool window = part->kind == HEARTH_KIND_SLIDING || part->kind == HEARTH_KIND_CHUNKED;
    bool sound = part->window > 0 && part->start <= part->length;

    return part->kind == HEARTH_KIND_FULL || (window && sound) ? part->kind : HEARTH_KIND_RECURRENT;
}

static struct interval positions(const struct hearth_retained *part)
{
    struct interval all = {0, part->length};
    uint64_t start = part->start, window = part->window;

    if (part->keep != 0)
        return nowhere;
    if (kind_of(part) == HEARTH_KIND_SLIDING)
        all.from = start > 0 ? start + window : 0;
    else if (kind_of(part) == HEARTH_KIND_CHUNKED)
        all.from = (start + window - 1) / window * window;
    else if (kind_of(part) != HEARTH_KIND_FULL)
        all.from = part->length;
    return all;
}

/* A composite without parts has no state, so nothing can be restored from it. */
static struct interval positions_all(const struct hearth_retained *parts, size_t count)
{
    struct interval all = {0, UINT32_MAX};

    for (size_t i = 0; i < count; i++) {
        struct interval one = positions(&parts[i]);
        all.from = MAX(all.from, one.from);
        all.to = MIN(all.to, one.to);
    }
    return count > 0 ? all : nowhere;
}

static bool contains(struct interval interval, uint32_t pos)
{
    return interval.from <= pos && pos <= interval.to;
}

/* Keeps exactly the rows that the window of pos needs, so that length, start and the retained
 * rows agree (keeps I19). */
static void cut(struct hearth_retained *part, uint32_t pos)
{
    uint32_t window = part->window;

    if (kind_of(part) == HEARTH_KIND_SLIDING)
        part->start = pos > window ? pos - window : 0;
    else if (kind_of(part) == HEARTH_KIND_CHUNKED)
        part->start = pos - pos % window;
    part->length = pos;
}

static const char *reason_refused(const struct hearth_retained *part, uint32_t pos)
{
    if (part->keep != 0)
        return "rows pinned at the front cannot be restored";
    if (pos > part->length)
        return "the state is shorter";
    if (kind_of(part) == HEARTH_KIND_RECURRENT)
        return "recurrent state requires an exact checkpoint or replay";
    return "the window is no longer retained";
}

static const char *reason_restored(const struct hearth_retained *part, uint32_t pos)
{
    if (pos == part->length)
        return "exact";
    return kind_of(part) == HEARTH_KIND_FULL ? "cut" : "restored retained window";
}

struct hearth_range hearth_retained_range(const struct hearth_retained *part)
{
    uint32_t kind = kind_of(part);
    uint32_t begin = kind == HEARTH_KIND_FULL        ? 0
                     : kind == HEARTH_KIND_RECURRENT ? part->length
                                                     : part->start;

    return (struct hearth_range){begin, part->length};
}

bool hearth_can_restore_to(const struct hearth_retained *parts, size_t count, uint32_t pos)
{
    return contains(positions_all(parts, count), pos);
}

struct hearth_restored hearth_restore_to(struct hearth_retained *parts, size_t count, uint32_t pos)
{
    struct hearth_restored result = {.reason = "there is no state"};

    for (size_t i = 0; i < count; i++)
        if (!contains(positions(&parts[i]), pos)) {
            result.reason = reason_refused(&parts[i], pos);
            return result;
        }
    if (count == 0)
        return result;
    result = (struct hearth_restored){.restored = true, .tokens = pos, .replay_start = pos};
    result.reason = count > 1 ? "restored all parts" : reason_restored(&parts[0], pos);
    for (size_t i = 0; i < count; i++)
        cut(&parts[i], pos);
    assert(hearth_can_restore_to(parts, count, pos)); /* its own length, always */
    return result;
}

uint32_t hearth_longest_restore(const struct hearth_retained *parts, size_t count, uint32_t limit)
{
    struct interval all = positions_all(parts, count);
    uint64_t pos = MIN(all.to, limit);

    return pos >= all.from ? (uint32_t)pos : 0;
}
