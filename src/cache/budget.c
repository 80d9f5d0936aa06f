/*
 * budget.c: two sums make every question O(1).
 *
 *      available(o) = cap - used - (promised - promised(o)), or 0
 *
 * B1  A grant never lifts `used` above the cap.
 * B2  A grant to one line takes nothing that is promised to another.
 * B3  While used + promised <= cap, every line gets its share: then available(o) >= promised(o),
 *    since available(o) is cap - used - promised + promised(o). By B2 a grant preserves this;
 *    budget.h says what does not.
 *
 * All of it is computed by subtracting from the cap, never by adding up: used + promised may exceed
 * 64 bits, while each sum alone does not (`used` was below the cap of its last grant, the shares
 * below that of the last one added; budget_set_share checks them).
 */
#include "cache/budget.h"

#include <assert.h>

/* a - b, or 0 if that would be negative. */
static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t promised_to(const struct budget_line *line)
{
    return minus(line->share, line->used);
}

/* The only place where numbers of a line change: the sums change with them. */
static void set(struct budget *budget, struct budget_line *line, struct budget_line now)
{
    budget->used += now.used - line->used;
    budget->shares += now.share - line->share;
    budget->promised += promised_to(&now) - promised_to(line);
    *line = now;
}

uint64_t budget_available(const struct budget *budget, const struct budget_line *line)
{
    return minus(minus(budget->cap, budget->used), budget->promised - promised_to(line));
}

uint64_t budget_excess(const struct budget *budget)
{
    return minus(budget->used, budget->cap);
}

bool budget_try_reserve(struct budget *budget, struct budget_line *line, uint64_t bytes)
{
    if (bytes > budget_available(budget, line))
        return false;
    set(budget, line, (struct budget_line){line->used + bytes, line->share});
    return true;
}

void budget_release(struct budget *budget, struct budget_line *line, uint64_t bytes)
{
    assert(bytes <= line->used);
    set(budget, line, (struct budget_line){line->used - bytes, line->share});
}

bool budget_try_share(struct budget *budget, struct budget_line *line, uint64_t share)
{
    assert(line->share == 0);
    if (share > minus(budget->cap, budget->shares))
        return false;
    budget_set_share(budget, line, share);
    return true;
}

void budget_set_share(struct budget *budget, struct budget_line *line, uint64_t share)
{
    assert(share <= UINT64_MAX - (budget->shares - line->share));
    set(budget, line, (struct budget_line){line->used, share});
}
