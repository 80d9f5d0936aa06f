/*
 * clock.c: the system clocks, and a fake clock based on one counter.
 *
 * A fake keeps its start times and how far it was moved. Both times are derived from that one
 * counter, so no reader sees one of them moved and not the other. The real clock has no state.
 *
 * There is no timer here and no cached "now": code in a hot loop reads the time once and passes it
 * on.
 */
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/attr.h"
#include "base/mem.h"

/* 64 bits of nanoseconds must fit into the seconds of a timespec. */
_Static_assert(sizeof(time_t) >= 8, "time_t is too small");

struct clock {
    bool fake;
    uint64_t mono_start_ns, wall_start_ns;
    _Atomic uint64_t moved_ns;
};

static uint64_t read_ns(clockid_t id)
{
    struct timespec now;
    int rc = clock_gettime(id, &now);

    assert(rc == 0 && now.tv_sec >= 0);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Relaxed throughout: the time orders no other memory. */
static uint64_t moved_ns(const struct clock *clock)
{
    return atomic_load_explicit(&clock->moved_ns, memory_order_relaxed);
}

struct clock *clock_real(void)
{
    static struct clock real = {.fake = false};

    return &real;
}

struct clock *clock_create_fake(uint64_t mono_ns, uint64_t wall_ns)
{
    struct clock *clock = mem_alloc(sizeof(*clock));

    clock->fake = true;
    clock->mono_start_ns = mono_ns;
    clock->wall_start_ns = wall_ns;
    atomic_init(&clock->moved_ns, 0);
    return clock;
}

void clock_destroy_fake(struct clock **clock)
{
    assert(*clock == NULL || (*clock)->fake);
    mem_free(*clock);
    *clock = NULL;
}

void clock_fake_advance(struct clock *clock, uint64_t ns)
{
    assert(clock->fake);
    uint64_t before = atomic_fetch_add_explicit(&clock->moved_ns, ns, memory_order_relaxed);
    uint64_t start = MAX(clock->mono_start_ns, clock->wall_start_ns);
    assert(before <= UINT64_MAX - ns && before + ns <= UINT64_MAX - start);
}

uint64_t clock_mono_ns(const struct clock *clock)
{
    return clock->fake ? clock->mono_start_ns + moved_ns(clock) : read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ns(const struct clock *clock)
{
    return clock->fake ? clock->wall_start_ns + moved_ns(clock) : read_ns(CLOCK_REALTIME);
}

uint64_t clock_deadline_ns(const struct clock *clock, uint64_t timeout_ns)
{
    uint64_t now = clock_mono_ns(clock);

    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

void clock_sleep_ns(struct clock *clock, uint64_t ns)
{
    if (clock->fake) {
        clock_fake_advance(clock, ns);
        return;
    }
    uint64_t deadline = clock_deadline_ns(clock, ns);
    struct timespec until = {.tv_sec = (time_t)(deadline / NS_PER_S),
                             .tv_nsec = (long)(deadline % NS_PER_S)};
    int rc;
    /* An absolute time: an interrupting signal does not prolong the sleep. */
    do
        rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    while (rc == EINTR);
    assert(rc == 0);
}
