/*
 * tier_fault.h: a tier that does to another one what the world does to disks and networks. For
 * tests only.
 *
 *      caller --> [ faults | queue: held, delayed ] --> inner tier
 *
 * Each kind of fault has a counter (base/fault.h) that is armed as any other: "the third put is
 * lost". Independent of them, operations can be made to wait: for a thread (threaded), until a
 * clock that may be fake has moved on (delay), or until the test lets them go (hold).
 *
 * It keeps the contract of tier.h except for the kinds that are marked "a lie": only a caller that
 * checks the bytes detects those.
 *
 * Threads: any (own lock, rank LOCK_RANK_TIER). Counters are asked within put, get and flush, in
 * the caller's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "tier/tier.h"

struct clock;

/* X(value, name) */
#define TIER_FAULT_TABLE(X)                                                                      \
    X(TIER_FAULT_PUT_REFUSE, "put_refuse")   /* not taken */                                     \
    X(TIER_FAULT_PUT_FAIL, "put_fail")       /* done with the result that was set, not stored */ \
    X(TIER_FAULT_PUT_LOSE, "put_lose")       /* done with TIER_OK, not stored: a lie */          \
    X(TIER_FAULT_PUT_CORRUPT, "put_corrupt") /* stored with a bit flipped: the get finds it */   \
    X(TIER_FAULT_PUT_SHORTEN, "put_shorten") /* half of it stored: the get finds it */           \
    X(TIER_FAULT_GET_FAIL, "get_fail")       /* done with the result that was set */             \
    X(TIER_FAULT_GET_CORRUPT, "get_corrupt") /* delivered with a bit flipped, TIER_OK: a lie */  \
    X(TIER_FAULT_GET_SHORTEN, "get_shorten") /* half of dst cleared, TIER_OK: a lie */           \
    X(TIER_FAULT_DONE_TWICE, "done_twice")   /* done is called twice: a lie */                   \
    X(TIER_FAULT_DONE_LATE, "done_late")     /* a cancel has no effect */                        \
    X(TIER_FAULT_FLUSH_FAIL, "flush_fail")   /* answers false */

enum tier_fault_kind {
#define X(value, name) value,
    TIER_FAULT_TABLE(X)
#undef X
        TIER_FAULT_COUNT
};

const char *tier_fault_name(enum tier_fault_kind kind);

struct tier_fault_options {
    struct tier *inner;  /* taken: closed with it */
    bool threaded;       /* operations run on a thread, one after the other */
    uint64_t delay_ns;   /* between the call and the start of an operation */
    struct clock *clock; /* for the delay; NULL = the machine's */
    /* waiting operations; beyond it puts are refused and gets TIER_ERROR; 0 = 1,024 */
    size_t queue_max;
};

struct tier *tier_fault_open(const struct tier_fault_options *options);
struct tier *tier_fault_inner(struct tier *tier); /* borrowed */

/* The counter of a kind; arm it while no other thread uses the tier. */
struct fault *tier_fault_of(struct tier *tier, enum tier_fault_kind kind);
/* What failing operations answer from now on; TIER_ERROR at first. */
void tier_fault_set_result(struct tier *tier, enum tier_result result);

/* From now on operations wait (true); all that wait go on (false). Those that go on without a
 * thread of the tier do so within the call. */
void tier_fault_hold(struct tier *tier, bool hold);
/* Lets the first `count` that are held go. */
void tier_fault_release(struct tier *tier, size_t count);
/* The clock has moved: looks for operations whose delay is over. Needed for a fake clock, and
 * without a thread. */
void tier_fault_tick(struct tier *tier);
size_t tier_fault_waiting(struct tier *tier);
