/*
 * events.c: a ring of events and a wheel of seconds, under one lock.
 *
 *      ring    [ 9 | 10 | 11 | 12 | 5 | 6 | 7 | 8 ]       event n is at n % size;
 *                                                         12 is the newest, 5 the oldest
 *
 *      wheel   [ second 1800 | 1801 | 902 | 903 | ... ]   second s is at s % 900, one sum per kind
 *                                      ^ from the last turn: stale, and cleared by the first event
 *                                        that needs the slot
 *
 * A slot of the wheel stores its second, so no timer is needed while nothing happens: stale slots
 * are recognised by their second and left out of sums. Times are read under the lock, so they are
 * ordered like the numbers.
 *
 * Lines are formatted and logged outside the lock. There is no filter and no rate limit here; the
 * log has both.
 */
#include "cache/events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "hearth/hearth.h"

/* The second of a slot that was never used. */
static const uint64_t SECOND_NONE = UINT64_MAX;

struct slot {
    uint64_t second;
    struct hearth_rate sums[HEARTH_EVENT_COUNT];
};

struct events {
    const struct clock *clock;
    void (*log)(const char *line, void *arg);
    void *arg;
    size_t size; /* of the ring */

    struct lock lock;
    struct hearth_event *ring GUARDED_BY(lock);
    uint64_t last GUARDED_BY(lock); /* number of the newest; 0 = none yet */
    struct slot wheel[HEARTH_RATE_SECONDS_MAX] GUARDED_BY(lock);
};

/* Readers must lock as well; const refers to the content. */
static struct lock *lock_of(const struct events *events)
{
    return (struct lock *)&events->lock;
}

static void empty_wheel(struct events *events)
{
    for (size_t i = 0; i < HEARTH_RATE_SECONDS_MAX; i++)
        events->wheel[i].second = SECOND_NONE;
}

static void count_locked(struct events *events, const struct hearth_event *event)
    REQUIRES(events->lock)
{
    uint64_t second = clock_mono_ns(events->clock) / NS_PER_S;
    struct slot *slot = &events->wheel[second % HEARTH_RATE_SECONDS_MAX];
    struct hearth_rate *sum = &slot->sums[event->kind];

    lock_assert_held(&events->lock);
    if (slot->second != second) {
        memset(slot->sums, 0, sizeof(slot->sums));
        slot->second = second;
    }
    sum->count++;
    sum->prompt_tokens += event->prompt_tokens;
    sum->read_tokens += event->read_tokens;
    sum->write_tokens += event->write_tokens;
    sum->bytes += event->bytes;
}

struct events *events_create(size_t ring, const struct clock *clock,
                             void (*log)(const char *line, void *arg), void *arg)
{
    struct events *events = mem_alloc(sizeof(*events));

    assert(ring > 0 && clock != NULL);
    events->clock = clock;
    events->log = log;
    events->arg = arg;
    events->size = ring;
    events->ring = mem_alloc_array(ring, sizeof(*events->ring));
    lock_init(&events->lock, "events", LOCK_RANK_LOG - 1);
    empty_wheel(events);
    return events;
}

void events_destroy(struct events **events)
{
    if (*events == NULL)
        return;
    lock_fini(&(*events)->lock);
    mem_free((*events)->ring);
    mem_free(*events);
    *events = NULL;
}

void events_add(struct events *events, const struct hearth_event *event)
{
    struct hearth_event stamped = *event;
    char line[HEARTH_EVENT_LINE_BYTES];

    assert(event->kind < HEARTH_EVENT_COUNT);
    lock_enter(&events->lock);
    stamped.number = ++events->last;
    stamped.wall_ns = clock_wall_ns(events->clock);
    events->ring[stamped.number % events->size] = stamped;
    count_locked(events, &stamped);
    lock_leave(&events->lock);
    if (events->log == NULL)
        return;
    hearth_event_format(&stamped, line, sizeof(line));
    events->log(line, events->arg);
}

size_t events_read(const struct events *events, uint64_t after, struct hearth_event *out,
                   size_t max)
{
    size_t count = 0;

    lock_enter(lock_of(events));
    if (events->last > events->size)
        after = MAX(after, events->last - events->size);
    while (count < max && after < events->last)
        out[count++] = events->ring[++after % events->size];
    lock_leave(lock_of(events));
    return count;
}

struct hearth_rate events_rate(const struct events *events, enum hearth_event_kind kind,
                               unsigned seconds)
{
    struct hearth_rate rate = {0};

    assert(kind < HEARTH_EVENT_COUNT && seconds <= HEARTH_RATE_SECONDS_MAX);
    lock_enter(lock_of(events));
    uint64_t now = clock_mono_ns(events->clock) / NS_PER_S;
    for (unsigned age = 0; age < seconds && age <= now; age++) {
        const struct slot *slot = &events->wheel[(now - age) % HEARTH_RATE_SECONDS_MAX];
        if (slot->second != now - age)
            continue;
        rate.count += slot->sums[kind].count;
        rate.prompt_tokens += slot->sums[kind].prompt_tokens;
        rate.read_tokens += slot->sums[kind].read_tokens;
        rate.write_tokens += slot->sums[kind].write_tokens;
        rate.bytes += slot->sums[kind].bytes;
    }
    lock_leave(lock_of(events));
    return rate;
}

void events_reset(struct events *events)
{
    lock_enter(&events->lock);
    empty_wheel(events);
    lock_leave(&events->lock);
}

size_t hearth_event_format(const struct hearth_event *event, char *out, size_t size)
{
    assert(size > 0);
    int len = snprintf(
        out, size,
        "[cache] %" PRIu64 " %s prompt_tokens=%" PRIu32 " read_tokens=%" PRIu32
        " write_tokens=%" PRIu32 " match=%s tier=%s reason=%s us=%" PRIu64 " bytes=%" PRIu64
        " first_difference=%" PRIu32 " object=%s position=%" PRIu32 " number=%" PRIu64
        " wall_ns=%" PRIu64,
        event->request, hearth_event_name(event->kind), event->prompt_tokens, event->read_tokens,
        event->write_tokens, hearth_match_name(event->match), hearth_tier_name(event->tier),
        hearth_reason_name(event->reason), event->us, event->bytes, event->first_difference,
        hearth_object_kind_name(event->object), event->position, event->number, event->wall_ns);
    assert(len > 0);
    return MIN((size_t)len, size - 1);
}
