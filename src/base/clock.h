/*
 * clock.h: time, as something that a test can hold in its hand.
 *
 * Whoever needs time gets a `struct clock *`. clock_real() is the machine's; a test makes a fake,
 * which stands still until it is told to move. Monotonic time is for intervals and deadlines, wall
 * time only for what people read and for ages that must survive a restart.
 *
 * Threads: reading is safe from any thread; a fake may be moved from any thread, too.
 */
#ifndef HEARTH_BASE_CLOCK_H
#define HEARTH_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

struct clock;

/* The machine's clock; never destroyed. */
struct clock *clock_real(void);

/* A clock that starts at the given times and is moved by hand. */
struct clock *clock_create_fake(uint64_t mono_ns, uint64_t wall_ns);
void clock_destroy_fake(struct clock **clock);
void clock_fake_advance(struct clock *clock, uint64_t ns); /* both times, in one step */

uint64_t clock_mono_ns(const struct clock *clock);
uint64_t clock_wall_ns(const struct clock *clock); /* since 1970, UTC */

/* The monotonic time at which a wait of `timeout_ns` that starts now is over; UINT64_MAX ("never")
 * when the sum is too large. */
uint64_t clock_deadline_ns(const struct clock *clock, uint64_t timeout_ns);

/* Waits on the real clock, whatever signals arrive; on a fake it advances the time and returns at
 * once. */
void clock_sleep_ns(struct clock *clock, uint64_t ns);

#endif
