/*
 * clock.h: time that tests can control.
 *
 * Code that needs the time gets a `struct clock *`. clock_real() is the system clock; a test makes
 * a fake, which changes only when it is moved. Monotonic time is for intervals and deadlines, wall
 * time only for display and for ages that must survive a restart.
 *
 * Threads: any thread may read a clock or move a fake.
 */
#pragma once

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct clock;

/* The system clock; never destroyed. */
struct clock *clock_real(void);

/* A clock that starts at the given times and is moved by hand. */
struct clock *clock_create_fake(uint64_t mono_ns, uint64_t wall_ns);
void clock_destroy_fake(struct clock **clock);
void clock_fake_advance(struct clock *clock, uint64_t ns); /* both times, in one step */

uint64_t clock_mono_ns(const struct clock *clock);
uint64_t clock_wall_ns(const struct clock *clock); /* since 1970, UTC */

/* The monotonic deadline of a wait of `timeout_ns` that starts now; UINT64_MAX ("never") when the
 * sum overflows. */
uint64_t clock_deadline_ns(const struct clock *clock, uint64_t timeout_ns);

/* Sleeps on the real clock, regardless of signals; on a fake it advances the time and returns at
 * once. */
void clock_sleep_ns(struct clock *clock, uint64_t ns);
