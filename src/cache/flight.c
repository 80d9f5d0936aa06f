/*
 * flight.c: a short list of flights, each with its tokens and the waiters that chose it.
 *
 * A prompt is compared with every open flight from the first token to the first difference:
 * O(tokens of all open flights) at worst, and there are never more than flights_max of them. No
 * index: flights live for one prefill, are as many as there are sequences, and most comparisons end
 * at the first tokens.
 *
 *      flight  a b c d e f g h        reached 4: state exists for "a b c d"
 *      waiter  a b c d e f X          shares 6, is due when reached >= target = min(its boundary,
 *              6)
 *
 * Waiters choose a flight once and stay with it. When it ends early they are called with what it
 * came to, and may look for another: that keeps every call due exactly once, and no waiter can hang
 * on a chain of flights.
 *
 * The call of a waiter is allocated when it begins to wait, so that becoming due cannot fail. Due
 * calls form a list, newest first, since the header lets several operations add to one list;
 * flight_calls_make turns it round.
 */
#include "cache/flight.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

struct flights {
    size_t flights_max, waiters_max;
    struct list open; /* struct flight, oldest first */
    size_t waiters;   /* of all flights */
};

struct flight {
    struct list_node link;
    struct list waiters; /* struct waiter, in the order of their arrival */
    uint32_t count;
    uint32_t reached; /* state exists for so many; beyond count it is of no interest */
    int32_t tokens[];
};

struct waiter {
    struct flight_call call; /* the caller sees only this part, once it is due */
    struct list_node link;
    /* tokens that the flight has in common with whoever waits; what it came to beyond is not theirs
     */
    uint32_t shared;
    uint32_t target; /* due when the flight reached this; <= shared */
};

/* What an open flight is to a prompt. */
struct found {
    struct flight *flight; /* NULL: none shares anything */
    uint32_t shared;       /* <= limit */
    uint32_t reached;      /* <= shared */
};

static uint32_t common_prefix(const struct flight *flight, const int32_t *tokens, size_t limit)
{
    size_t n = 0, max = MIN(limit, flight->count);

    while (n < max && flight->tokens[n] == tokens[n])
        n++;
    return (uint32_t)n;
}

/* The flight that gets furthest on the first `limit` tokens; among equals the one that is further
 * already. */
static struct found find(const struct flights *flights, const int32_t *tokens, size_t limit)
{
    struct found best = {0};

    LIST_FOREACH (struct flight, flight, &flights->open, link) {
        uint32_t shared = common_prefix(flight, tokens, limit);
        uint32_t reached = MIN(flight->reached, shared);
        if (shared > best.shared || (shared > 0 && shared == best.shared && reached > best.reached))
            best = (struct found){flight, shared, reached};
    }
    return best;
}

/* One token is always left to run: waiting for all of a prompt would be waiting for too much (keeps
 * I12). */
static size_t usable(size_t count)
{
    return count > 0 ? count - 1 : 0;
}

static void make_due(struct flights *flights, struct flight *flight, struct waiter *waiter,
                     struct flight_call **due)
{
    assert(flights->waiters > 0);
    list_remove(&flight->waiters, &waiter->link);
    flights->waiters--;
    waiter->call.reached = MIN(flight->reached, waiter->shared);
    waiter->call.next = *due;
    *due = &waiter->call;
}

struct flights *flights_create(size_t flights_max, size_t waiters_max)
{
    struct flights *flights = mem_alloc(sizeof(*flights));

    flights->flights_max = flights_max;
    flights->waiters_max = waiters_max;
    list_init(&flights->open);
    return flights;
}

void flights_destroy(struct flights **flights)
{
    if (*flights == NULL)
        return;
    assert(list_empty(&(*flights)->open));
    assert((*flights)->waiters == 0);
    mem_free(*flights);
    *flights = NULL;
}

uint64_t flight_bytes(size_t count)
{
    return sizeof(struct flight) + count * sizeof(int32_t);
}

struct flight *flights_open(struct flights *flights, const int32_t *tokens, size_t count)
{
    size_t bytes;

    if (flights->open.count >= flights->flights_max || count == 0 || count > UINT32_MAX)
        return NULL;
    if (mem_mul_overflows(count, sizeof(*tokens), &bytes) ||
        mem_add_overflows(bytes, sizeof(struct flight), &bytes))
        return NULL;
    struct flight *flight = mem_try_alloc(bytes);
    if (flight == NULL)
        return NULL;
    *flight = (struct flight){.count = (uint32_t)count};
    memcpy(flight->tokens, tokens, count * sizeof(*tokens));
    list_init(&flight->waiters);
    list_push_back(&flights->open, &flight->link);
    return flight;
}

void flights_reached(struct flights *flights, struct flight *flight, uint32_t boundary,
                     struct flight_call **due)
{
    flight->reached = MAX(flight->reached, boundary);
    LIST_FOREACH_SAFE (struct waiter, waiter, &flight->waiters, link)
        if (waiter->target <= flight->reached)
            make_due(flights, flight, waiter, due);
}

void flights_close(struct flights *flights, struct flight **flight, struct flight_call **due)
{
    if (*flight == NULL)
        return;
    LIST_FOREACH_SAFE (struct waiter, waiter, &(*flight)->waiters, link)
        make_due(flights, *flight, waiter, due);
    list_remove(&flights->open, &(*flight)->link);
    mem_free(*flight);
    *flight = NULL;
}

uint32_t flights_find(const struct flights *flights, const int32_t *tokens, size_t count,
                      uint32_t *reached)
{
    struct found found = find(flights, tokens, usable(count));

    if (reached != NULL)
        *reached = found.reached;
    return found.shared;
}

bool flights_wait(struct flights *flights, const int32_t *tokens, size_t count, uint32_t boundary,
                  flight_fn fn, void *arg)
{
    assert(fn != NULL);
    if (flights->waiters >= flights->waiters_max)
        return false;
    struct found found = find(flights, tokens, MIN(boundary, usable(count)));
    if (found.flight == NULL || found.reached >= found.shared)
        return false;
    struct waiter *waiter = mem_alloc(sizeof(*waiter));
    waiter->call = (struct flight_call){.fn = fn, .arg = arg};
    waiter->shared = common_prefix(found.flight, tokens, usable(count));
    waiter->target = found.shared;
    list_push_back(&found.flight->waiters, &waiter->link);
    flights->waiters++;
    return true;
}

size_t flights_count(const struct flights *flights)
{
    return flights->open.count;
}

size_t flights_waiters(const struct flights *flights)
{
    return flights->waiters;
}

void flight_calls_make(struct flight_call **due)
{
    struct flight_call *oldest = NULL, *call;

    while ((call = *due) != NULL) {
        *due = call->next;
        call->next = oldest;
        oldest = call;
    }
    while ((call = oldest) != NULL) {
        struct flight_call copy = *call;
        oldest = copy.next;
        mem_free(CONTAINER_OF(call, struct waiter, call)); /* first: the callback may do anything */
        copy.fn(copy.reached, copy.arg);
    }
}
