/*
 * events.h: every decision of the cache as a record, in a ring of the last ones, as a line for the log, and as counters.
 *
 *      [cache] 17 hit prompt_tokens=28412 read_tokens=27540 write_tokens=0 match=prefix tier=ram reason=diverged us=412 bytes=3221225472
 *              first_difference=27540 number=93 wall_ns=1763177838123000000                                        (one line, no newline)
 *
 * 17 is the request. A line has every field of the event under the field's own name (keeps I47).
 *
 * Threads: any (own lock, rank LOCK_RANK_LOG - 1: it is taken inside of the cache's).
 */
#ifndef HEARTH_CACHE_EVENTS_H
#define HEARTH_CACHE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct clock;

/* X(value, name) */
#define EVENT_TABLE(X)                                                                             \
    X(EVENT_LOOKUP, "lookup") X(EVENT_HIT, "hit") X(EVENT_MISS, "miss") X(EVENT_PARTIAL, "partial")\
    X(EVENT_STORE, "write") X(EVENT_REPLACE, "replace") X(EVENT_EVICT, "evict")                    \
    X(EVENT_PROMOTE, "promote") X(EVENT_DEMOTE, "demote") X(EVENT_DROP, "drop")                    \
    X(EVENT_VERIFY_FAIL, "verify-fail") X(EVENT_CLEAR, "clear")

enum event_kind {
#define X(value, name) value,
    EVENT_TABLE(X)
#undef X
        EVENT_COUNT
};

const char *event_name(enum event_kind kind);

struct event {
    uint64_t number; /* counts up from 1 */
    uint64_t wall_ns;
    enum event_kind kind;
    uint64_t request; /* id of whoever caused it; 0 = nobody */
    uint32_t prompt_tokens, read_tokens, write_tokens;
    uint64_t bytes;
    uint8_t tier;   /* enum hearth_tier; HEARTH_TIER_COUNT = none */
    uint8_t match;  /* enum hearth_match */
    uint8_t reason; /* enum hearth_reason */
    uint32_t first_difference;
    uint64_t us; /* how long it took */
};

struct events;

/* Keeps the last `ring` (>= 1) events. `log` (may be NULL) gets each line; called without locks held. */
struct events *events_create(size_t ring, const struct clock *clock, void (*log)(const char *line, void *arg), void *arg);
void events_destroy(struct events **events);

/* Numbers and stamps it; whatever stands in these two fields of `event` is ignored. Lines of several threads may come in another order
 * than their numbers. */
void events_add(struct events *events, const struct event *event);

/* Copies events with number > `after`, oldest first, at most max; returns how many. */
size_t events_read(const struct events *events, uint64_t after, struct event *out, size_t max);
uint64_t events_last(const struct events *events); /* number of the newest */

enum { EVENTS_RATE_SECONDS_MAX = 900 };

/* How many of a kind, and how many tokens they read, in the last `seconds` (<= EVENTS_RATE_SECONDS_MAX): for rates over 1, 5 and 15
 * minutes. Counted in whole seconds of the monotonic clock, the running one included. Sums, not quotients: whoever divides knows what 0
 * of 0 is (keeps I46). */
struct events_rate {
    uint64_t count, prompt_tokens, read_tokens;
};
struct events_rate events_rate(const struct events *events, enum event_kind kind, unsigned seconds);

/* Rates start again from zero; the ring and the numbers go on (keeps I46). */
void events_reset(struct events *events);

enum { EVENT_LINE_BYTES = 512 }; /* enough for every line and its NUL */

/* One line without newline, as drawn above, cut when `size` is too small and always NUL-terminated; returns the length of what it wrote. */
size_t event_format(const struct event *event, char *out, size_t size);

#endif
