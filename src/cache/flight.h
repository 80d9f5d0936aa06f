/*
 * flight.h: who is computing which prefix right now, so that others can wait for it instead of
 * computing it, too.
 *
 *      flight A   [ tokens ............................. ]   reached: 512          waiters: (until 1024, fn), (until 4000, fn)
 *
 * A waiter is called once: when the flight reaches the boundary it waits for, or ends, in which
 * case `reached` may be less and the waiter goes on by itself (keeps I1, I96). Flights never
 * promise state: they say where it will be; the plan finds it.
 *
 * Owner: the cache, under its lock. Callbacks are collected and made by the caller after the lock
 * is left.
 */
#ifndef HEARTH_CACHE_FLIGHT_H
#define HEARTH_CACHE_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/list.h"

struct flights; /* of one namespace */
struct flight;

typedef void (*flight_fn)(uint32_t reached, void *arg);

/* A callback that is due. */
struct flight_call {
    flight_fn fn;
    void *arg;
    uint32_t reached;
    struct flight_call *next;
};

struct flights *flights_create(size_t flights_max, size_t waiters_max);
void flights_destroy(struct flights **flights); /* aborts when a flight is open */

/* NULL when there are too many, no tokens or no memory: the caller computes without announcing it.
 * Copies the tokens. */
struct flight *flights_open(struct flights *flights, const int32_t *tokens, size_t count) NODISCARD;
uint64_t flight_bytes(size_t count); /* that a flight of so many tokens takes */
/* State exists for the first `boundary` tokens (never fewer than before, never more than the flight
 * has). Due callbacks are prepended to *due; make them without locks, with flight_calls_make. */
void flights_reached(struct flights *flights, struct flight *flight, uint32_t boundary,
                     struct flight_call **due);
/* Completed or not: all who still wait are due. A no-op on NULL. */
void flights_close(struct flights *flights, struct flight **flight, struct flight_call **due);

/* The furthest that an open flight is going to get on the common prefix with tokens, and how far it
 * is on it (`reached`, may be NULL); 0 = none. Never more than count - 1 (keeps I12). O(tokens of
 * all open flights). */
uint32_t flights_find(const struct flights *flights, const int32_t *tokens, size_t count,
                      uint32_t *reached);
/* Waits for the flight that shares the most of the first `boundary` tokens, or, when that is less
 * than `boundary`, of what it shares. `reached` of the call is how far it came on the prefix that
 * it shares with `tokens`. False, and nothing will be called: no flight will reach more than one
 * has, or too many wait. */
bool flights_wait(struct flights *flights, const int32_t *tokens, size_t count, uint32_t boundary,
                  flight_fn fn, void *arg);

size_t flights_count(const struct flights *flights);
size_t flights_waiters(const struct flights *flights);

/* calls and frees all, in the order in which they became due */
void flight_calls_make(struct flight_call **due);

#endif
