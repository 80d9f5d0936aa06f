/*
 * events.h: every decision of the cache as a record (struct hearth_event): in a ring of the latest
 * events, as a log line, and as counters.
 *
 *      [cache] 17 hit prompt_tokens=28412 read_tokens=27540 write_tokens=0 match=prefix tier=ram
 *          reason=diverged us=412 bytes=3221225472 first_difference=27540 object=none position=0
 *          number=93 wall_ns=1763177838123000000                  (one line, no newline)
 *
 * 17 is the request. A line has every field of the event under the field's name (keeps I47).
 *
 * Threads: any (own lock, rank LOCK_RANK_LOG - 1: it is taken inside the cache's lock).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hearth/hearth.h>

#include "base/attr.h"

struct clock;

struct events;

/* Keeps the last `ring` (>= 1) events. `log` (may be NULL) gets each line; called without locks
 * held. */
struct events *events_create(size_t ring, const struct clock *clock,
                             void (*log)(const char *line, void *arg), void *arg);
void events_destroy(struct events **events);

/* Numbers and stamps the event; the values of these two fields in `event` are ignored. Log lines
 * of several threads may appear out of number order. */
void events_add(struct events *events, const struct hearth_event *event);

/* Copies events with number > `after`, oldest first, at most max; returns how many. */
size_t events_read(const struct events *events, uint64_t after, struct hearth_event *out,
                   size_t max);

/* As hearth_get_rate. */
struct hearth_rate events_rate(const struct events *events, enum hearth_event_kind kind,
                               unsigned seconds);

/* Rates restart from zero; the ring and the numbering continue (keeps I46). */
void events_reset(struct events *events);
