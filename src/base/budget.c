/*
 * budget.c: a table of owners under one lock, and two sums that make every question O(1).
 *
 *      used     = sum of used(i)
 *      promised = sum of share(i) - used(i), over those i that are below their share
 *
 * An owner o can reserve the cap, less all used bytes, less all bytes promised to other owners:
 *
 *      available(o) = cap - used - (promised - promised(o)), or 0
 *
 * B1  A grant never lifts `used` above the cap.
 * B2  A grant to one owner takes nothing that is promised to another.
 * B3  While used + promised <= cap, every owner gets its share: then available(o) >= promised(o),
 *    since available(o) is cap - used - promised + promised(o). By B2 a grant preserves this;
 *    budget.h names the calls that do not.
 *
 * All of it is computed by subtracting from the cap, never by adding up: used + promised may exceed
 * 64 bits, while each sum alone does not (`used` was below the cap of its last grant, the shares
 * below that of the last one added; budget_set_share checks them).
 *
 * The ledger only counts: giving bytes back neither calls nor wakes anyone.
 */
#include "base/budget.h"

#include <assert.h>

#include "base/lock.h"
#include "base/mem.h"

struct line {
    bool taken;
    uint64_t used, share;
};

struct budget {
    struct lock lock;
    uint64_t cap GUARDED_BY(lock);
    uint64_t used GUARDED_BY(lock);     /* the sums of the head comment */
    uint64_t promised GUARDED_BY(lock); /* ditto */
    uint64_t shares GUARDED_BY(lock);   /* sum of the shares, used or not */
    struct line lines[BUDGET_OWNERS_MAX] GUARDED_BY(lock);
};

/* a - b, or 0 if that would be negative. */
static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Readers must lock as well; const promises not to change the content. */
static struct lock *lock_of(const struct budget *budget)
{
    return (struct lock *)&budget->lock;
}

static uint64_t promised_to(const struct line *line)
{
    return minus(line->share, line->used);
}

static const struct line *line_of_locked(const struct budget *budget, budget_owner owner)
    REQUIRES(budget->lock)
{
    lock_assert_held(&budget->lock);
    assert(owner >= 0 && owner < BUDGET_OWNERS_MAX && budget->lines[owner].taken);
    return &budget->lines[owner];
}

static uint64_t available_locked(const struct budget *budget, budget_owner owner)
    REQUIRES(budget->lock)
{
    const struct line *line = line_of_locked(budget, owner);

    return minus(minus(budget->cap, budget->used), budget->promised - promised_to(line));
}

/* The only place where bytes change: the owner's count and both sums change together. */
static void set_used_locked(struct budget *budget, budget_owner owner, uint64_t used)
    REQUIRES(budget->lock)
{
    lock_assert_held(&budget->lock);
    struct line *line = &budget->lines[owner];
    budget->used -= line->used;
    budget->promised -= promised_to(line);
    line->used = used;
    budget->used += line->used;
    budget->promised += promised_to(line);
}

static budget_owner add_owner_locked(struct budget *budget, uint64_t share) REQUIRES(budget->lock)
{
    budget_owner owner = 0;

    lock_assert_held(&budget->lock);
    while (owner < BUDGET_OWNERS_MAX && budget->lines[owner].taken)
        owner++;
    if (owner == BUDGET_OWNERS_MAX)
        return -1;
    struct line *line = &budget->lines[owner];
    *line = (struct line){.taken = true, .share = share};
    budget->shares += share;
    budget->promised += share;
    return owner;
}

struct budget *budget_create(uint64_t cap_bytes)
{
    struct budget *budget = mem_alloc(sizeof(*budget));

    lock_init(&budget->lock, "budget", LOCK_RANK_BUDGET);
    budget->cap = cap_bytes;
    return budget;
}

void budget_destroy(struct budget **budget)
{
    if (*budget == NULL)
        return;
    assert((*budget)->used == 0);
    lock_fini(&(*budget)->lock);
    mem_free(*budget);
    *budget = NULL;
}

enum err budget_add_owner(struct budget *budget, const char *name, uint64_t share,
                          budget_owner *owner, struct errinfo *info)
{
    *owner = -1;
    lock_enter(&budget->lock);
    uint64_t shares = budget->shares, cap = budget->cap;
    bool fits = share <= minus(cap, shares);
    if (fits)
        *owner = add_owner_locked(budget, share);
    lock_leave(&budget->lock);
    if (!fits)
        return err_set(info, ERR_LIMIT,
                       "a share of %llu bytes for '%s' does not fit: of %llu bytes %llu are "
                       "promised to others",
                       (unsigned long long)share, name, (unsigned long long)cap,
                       (unsigned long long)shares);
    if (*owner < 0)
        return err_set(info, ERR_LIMIT, "no room for '%s' among the %d owners of memory", name,
                       BUDGET_OWNERS_MAX);
    return ERR_OK;
}

void budget_remove_owner(struct budget *budget, budget_owner owner)
{
    lock_enter(&budget->lock);
    const struct line *line = line_of_locked(budget, owner);
    assert(line->used == 0);
    budget->shares -= line->share;
    budget->promised -= line->share;
    budget->lines[owner].taken = false;
    lock_leave(&budget->lock);
}

bool budget_try_reserve(struct budget *budget, budget_owner owner, uint64_t bytes)
{
    lock_enter(&budget->lock);
    bool granted = bytes <= available_locked(budget, owner);
    if (granted)
        set_used_locked(budget, owner, budget->lines[owner].used + bytes);
    lock_leave(&budget->lock);
    return granted;
}

void budget_release(struct budget *budget, budget_owner owner, uint64_t bytes)
{
    lock_enter(&budget->lock);
    const struct line *line = line_of_locked(budget, owner);
    assert(bytes <= line->used);
    set_used_locked(budget, owner, line->used - bytes);
    lock_leave(&budget->lock);
}

void budget_move(struct budget *budget, budget_owner from, budget_owner to, uint64_t bytes)
{
    lock_enter(&budget->lock);
    const struct line *source = line_of_locked(budget, from);
    const struct line *target = line_of_locked(budget, to);
    assert(bytes <= source->used);
    /* Subtract first: then the target cannot overflow, and a move to itself changes nothing. */
    set_used_locked(budget, from, source->used - bytes);
    set_used_locked(budget, to, target->used + bytes);
    lock_leave(&budget->lock);
}

void budget_set_cap(struct budget *budget, uint64_t cap_bytes)
{
    lock_enter(&budget->lock);
    budget->cap = cap_bytes;
    lock_leave(&budget->lock);
}

void budget_set_share(struct budget *budget, budget_owner owner, uint64_t share)
{
    lock_enter(&budget->lock);
    uint64_t others = budget->shares - line_of_locked(budget, owner)->share;
    assert(share <= UINT64_MAX - others);
    struct line *line = &budget->lines[owner];
    budget->promised -= promised_to(line);
    line->share = share;
    budget->promised += promised_to(line);
    budget->shares = others + share;
    lock_leave(&budget->lock);
}

uint64_t budget_cap(const struct budget *budget)
{
    lock_enter(lock_of(budget));
    uint64_t cap = budget->cap;
    lock_leave(lock_of(budget));
    return cap;
}

uint64_t budget_used(const struct budget *budget)
{
    lock_enter(lock_of(budget));
    uint64_t used = budget->used;
    lock_leave(lock_of(budget));
    return used;
}

uint64_t budget_excess(const struct budget *budget)
{
    lock_enter(lock_of(budget));
    uint64_t excess = minus(budget->used, budget->cap);
    lock_leave(lock_of(budget));
    return excess;
}

uint64_t budget_available(const struct budget *budget, budget_owner owner)
{
    lock_enter(lock_of(budget));
    uint64_t available = available_locked(budget, owner);
    lock_leave(lock_of(budget));
    return available;
}
