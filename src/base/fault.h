/*
 * fault.h: "the n-th call fails", for tests.
 *
 * Every fallible call at a test seam (the allocator, the file table, a tier) calls fault_fires(). A
 * test arms the n-th call, runs the code, and repeats with n + 1 until a run in which nothing
 * fired: then every call site has failed once.
 *
 * Threads: any thread may call fault_fires(), even while the test's main thread arms or disarms:
 * concurrent calls see either the old state or the new.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct fault {
    atomic_long calls;   /* calls seen since it was armed */
    atomic_long fire_at; /* the call that fails, from 1; 0 = none */
    atomic_bool sticky;  /* every later call fails as well */
    atomic_bool repeats; /* every fire_at calls instead of once */
    atomic_long fired;   /* number of calls that failed since it was armed */
    long loop;           /* state of fault_loop_next */
};

/* Makes the n-th call from now on fail (and all later ones when sticky). n = 0 disarms. */
void fault_arm(struct fault *fault, long n, bool sticky);

/* Makes every n-th call from now on fail. n > 0. */
void fault_arm_every(struct fault *fault, long n);

/* True when this call must fail. `fault` may be NULL: never. */
bool fault_fires(struct fault *fault);

/* Steps a loop over n = 1, 2, ...: arms the next n and returns true, or returns false (disarmed)
 * after the first round in which nothing fired. Start with a zeroed struct. */
bool fault_loop_next(struct fault *fault);

#define FAULT_LOOP(fault) while (fault_loop_next(fault))
